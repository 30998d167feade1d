"""Tests of large session files: they are read in parts, with the same result as when read at once."""

from __future__ import annotations

import os
import random
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from builders import dumps, header, joined, pi_file, said, shared_files, slot, talk
from faults.full import tmpfs

from gitsession.api import Store
from gitsession.discovery import sources
from gitsession.errors import Unavailable
from gitsession.formats import FORMATS, Accompanied, Source, Streamed, claimed
from gitsession.formats.base import jsonl as stored_lines
from gitsession.formats.base.jsonl import Lines, StoredFile, split_lines
from gitsession.formats.base.record import StoredRecord
from gitsession.git.pack_writer import Deflated
from gitsession.git.types import Kind, Oid
from gitsession.importing import import_session
from gitsession.redaction.original import Original
from gitsession.store.spill import FOLDER, PackSpill


def stored(data: bytes) -> StoredFile:
    return StoredFile(lambda size, offset: data[offset : offset + size], len(data))


def told(source: Source) -> dict[str, object]:
    """Return all data of a source, including the payloads."""
    records = [
        (one.line, one.payload, one.parent, one.source_id, one.claimed_parent, one.problem) for one in source.records
    ]
    base = source.base and (source.base.source_id, source.base.end)
    names = set(Source.__dataclass_fields__) - {"records", "base", "state"}
    return {"records": records, "base": base} | {name: getattr(source, name) for name in names}


def claude(*lines: dict[str, object]) -> bytes:
    said = {"sessionId": "s", "timestamp": "2026-01-01T00:00:00.000Z"}
    return b"\n".join(dumps({**said, **line}) for line in lines) + b"\n"


def message(id: str, parent: str | None, role: str = "user", **more: object) -> dict[str, object]:
    content = {"role": role, "content": f"words of {id}"}
    return {"type": role, "uuid": id, "parentUuid": parent, "message": content, **more}


BOUNDARY = {"type": "system", "subtype": "compact_boundary", "uuid": "b", "parentUuid": None, "logicalParentUuid": "v"}
RIDING = {"type": "queue-operation", "operation": "x"}
CODEX: list[dict[str, Any]] = [
    {"type": "session_meta", "payload": {"id": "0199a213-81c0-7800-8aa1-bbab2a035a53", "cwd": "/w"}},
    {"type": "event_msg", "payload": {"type": "token_count"}},
    {"type": "response_item", "payload": {"type": "message", "role": "user", "content": []}},
    {"type": "response_item", "payload": {"type": "message", "role": "assistant", "content": []}},
    {"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 1}},
    {"type": "event_msg", "payload": {"type": "token_count"}},
]
SEGMENT = {
    "type": "session_meta",
    "ordinal": 3,
    "payload": {
        **CODEX[0]["payload"],
        "history_base": {"thread_id": "0199a213-81c0-7800-8aa1-bbab2a035a53", "end_ordinal_exclusive": 3},
    },
}
CASES = {
    "pi": ("pi", pi_file(*talk("a", "b", "c"), said("d", "a", at=1))),
    "pi, not all of a line": ("pi", pi_file(*talk("a", "b")) + b'{"type":'),
    "pi, without a last line end": ("pi", pi_file(*talk("a", "b"))[:-1]),
    "pi, blank lines and bad ones": ("pi", pi_file(*talk("a")) + b"\n\nno json\n\xff\n\n"),
    "omp with a slot": ("omp", joined(slot("S"), header(), *talk("a", "b"))),
    "claude": (
        "claude",
        claude(RIDING, message("u", None), RIDING, RIDING, message("v", "u", "assistant"), RIDING),
    ),
    "claude, a compaction": (
        "claude",
        claude(
            message("u", None), message("v", "u", "assistant"), RIDING, BOUNDARY, RIDING,
            message("w", "b", isCompactSummary=True), message("x", "w"),
        ),
    ),
    "claude, a boundary alone": (
        "claude", claude(message("u", None), message("v", "u"), RIDING, BOUNDARY, RIDING, message("x", "b"), BOUNDARY)
    ),
    "codex": ("codex", b"\n".join(map(dumps, CODEX)) + b"\n"),
    "codex, a segment": ("codex", b"\n".join(map(dumps, [SEGMENT, *CODEX[1:]])) + b"\n"),
    "codex without a header": ("codex", b"\n".join(map(dumps, CODEX[1:])) + b"\n"),
}  # fmt: skip


@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_stored_file_is_split_as_in_memory(case: str, final: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_lines, "_CHUNK", 7)
    agent, data = CASES[case]
    name = "0199a213-81c0-7800-8aa1-bbab2a035a53"
    found = FORMATS[agent].split(stored(data), name=name, final=final)
    assert all(isinstance(record, StoredRecord) for record in found.records)
    assert told(found) == told(FORMATS[agent].split(data, name=name, final=final))


@pytest.mark.parametrize("path", shared_files("pi", "omp", "claude", "codex"), ids=lambda path: path.name)
def test_real_stored_file_is_split_as_in_memory(path: Path) -> None:
    data = path.read_bytes()
    format = claimed(data[: sources.HEAD_BYTES])
    if not isinstance(format, Streamed):
        pytest.skip("of no agent whose files are streamed")
    name = path.with_suffix("").as_posix()
    assert told(format.split(stored(data), name=name)) == told(format.split(data, name=name))
    if isinstance(format, Accompanied):
        assert format.sidecars(stored(data), name) == format.sidecars(data, name)


@pytest.mark.parametrize("data", [b"", b"\n", b"a", b"a\n", b"\n\na\nb", b"a\r\n\xe2\x80\xa8\nb\n"])
def test_lines_of_a_stored_file_equal_those_of_its_bytes(data: bytes) -> None:
    lines, waiting, _ = split_lines(stored(data), final=False)
    assert (list(lines), waiting, True) == split_lines(data, final=False)
    assert isinstance(lines, Lines)
    for first in range(len(lines)):
        for last in range(first + 1, len(lines) + 1):
            assert lines.joined(first, last).read() == b"\n".join(list(lines)[first:last])
            assert lines[first:last] == list(lines)[first:last]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Treat every file as a large one."""
    monkeypatch.setattr(sources, "LARGE_BYTES", 0)
    yield


@pytest.mark.parametrize("case", ["pi", "omp with a slot", "claude, a compaction", "codex"])
@pytest.mark.usefixtures("small")
def test_large_file_is_imported_grows_and_is_exported_unchanged(case: str, tmp_path: Path) -> None:
    agent, data = CASES[case]
    path = tmp_path / "0199a213-81c0-7800-8aa1-bbab2a035a53.jsonl"
    cut_at = data.rindex(b"\n", 0, len(data) - 1) + 1
    refs = []
    for large in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sources, "LARGE_BYTES", 0 if large else 1 << 40)
            with Store.create(tmp_path / f"{large}.git", clock=lambda: 1_769_904_000_000) as store:
                path.write_bytes(data[:cut_at])
                [first] = store.import_file(path, agent=agent)
                path.write_bytes(data)
                [done] = store.import_file(path, agent=agent)
                assert store.export(done.session).data == data
                assert first.session == done.session
                refs.append(dict(store.objects.refs("refs/heads/sessions/")))
    assert refs[0] == refs[1]


def test_the_copy_of_a_large_file_has_no_name_and_is_its_owners_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_folder_of_copies", lambda: str(tmp_path / "copies"))
    (tmp_path / "copies").mkdir()
    path = tmp_path / "x.jsonl"
    path.write_bytes(pi_file(*talk("a")))
    path.chmod(0o644)
    copies = []
    append = sources._Copy.append

    def looked_at(copy: sources._Copy, data: bytes, at: int) -> None:
        append(copy, data, at)
        copies.append((os.fstat(copy._fd), os.listdir(tmp_path / "copies")))

    monkeypatch.setattr(sources._Copy, "append", looked_at)
    _, held = sources.stored(path)
    assert held[0 : len(held)] == path.read_bytes()
    assert [(found.st_nlink, stat.S_IMODE(found.st_mode), names) for found, names in copies] == [(0, 0o600, [])]


def large_import(path: Path, git_dir: Path) -> None:
    """Import a file as a large one, and write its objects to the disk a few at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "LARGE_BYTES", 0)
        patch.setattr(import_session, "SPILL_BYTES", 2000)
        with Store.open(git_dir) as store:
            store.import_file(path)


def test_no_secret_of_a_large_file_is_in_an_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "AKIA" + "Z3KQ7XJ2M5TB6WPL"  # joined here, so that this file does not seem to contain a key
    path, git_dir = tmp_path / "x.jsonl", tmp_path / "store.git"
    texts = [said(f"s{number}", None, content=f"use {key} now, {number}") for number in range(30)]
    path.write_bytes(pi_file(*texts))
    Store.create(git_dir).close()
    put = PackSpill.put
    kinds: list[str] = []
    kept: list[int] = []

    def looked_at(
        spill: PackSpill, objects: Mapping[Oid, tuple[Kind, bytes]], originals: Sequence[Original], deflated: Deflated
    ) -> None:
        kinds.extend(kind for kind, _ in objects.values())
        assert not any(key.encode() in data for _, data in objects.values())
        kept.append(len(originals))
        put(spill, objects, originals, deflated)

    monkeypatch.setattr(PackSpill, "put", looked_at)
    large_import(path, git_dir)
    assert kinds.count("blob") > 20
    assert sum(kept) > 20 and max(kept) < 5
    with Store.open(git_dir) as store:
        found = [store.objects.read(oid)[1] for oid in store.objects.oids()]
        assert len(found) > 60 and not any(key.encode() in data for data in found)
        assert b"[redacted:" in b"".join(found)
        [session] = store.sessions()
        assert store.export(session.sid, with_secrets=True).data == path.read_bytes()


IMPORT = """
import os, signal, sys
from pathlib import Path
from gitsession.api import Store
from gitsession.discovery import sources
from gitsession.importing import import_session
from gitsession.store import spill
sources.LARGE_BYTES, import_session.SPILL_BYTES = 0, 2000
_, when, git_dir, path = sys.argv
move_in = spill.PackSpill.move_in
def killed(self, vault):
    if when == "after":
        move_in(self, vault)
    os.kill(os.getpid(), signal.SIGKILL)
spill.PackSpill.move_in = killed
with Store.open(Path(git_dir)) as store:
    store.import_file(Path(path))
"""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("by", ["import", "maintain"])
def test_a_killed_large_import_leaves_no_session_and_the_next_one_works(when: str, by: str, tmp_path: Path) -> None:
    path, git_dir = tmp_path / "x.jsonl", tmp_path / "store.git"
    path.write_bytes(pi_file(*talk(*(f"t{number}" for number in range(40)))))
    Store.create(git_dir).close()
    done = subprocess.run([sys.executable, "-c", IMPORT, when, git_dir, path], check=False)
    assert done.returncode == -signal.SIGKILL
    left = folders(git_dir)
    assert len(left) == 1
    if by == "maintain":
        with Store.open(git_dir) as store:
            assert store.sessions() == []
            assert set(store.maintain().removed) >= {f"{FOLDER}/{left[0]}"}
            assert list((git_dir / "objects/pack").glob("*.keep")) == []
        assert folders(git_dir) == []
    large_import(path, git_dir)
    assert folders(git_dir) == []
    with Store.open(git_dir) as store:
        [session] = store.sessions()
        assert store.export(session.sid).data == path.read_bytes()
        oids = list(store.objects.oids())
        assert by == "maintain" or len(oids) == len(set(oids))  # git has merged the packs that were moved
        assert store.verify().problems == []


def folders(git_dir: Path) -> list[str]:
    return [folder.name for folder in (git_dir / FOLDER).iterdir() if folder.is_dir()]


@pytest.mark.parametrize("full", ["copies", "store"])
def test_large_import_on_a_full_disk_leaves_nothing_and_can_be_repeated(
    full: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.jsonl"
    noise = random.Random(0)
    path.write_bytes(pi_file(*(said(f"t{n}", None, content=noise.randbytes(20_000).hex()) for n in range(60))))
    with tmpfs("4m") as disk:
        git_dir = (disk if full == "store" else tmp_path) / "store.git"
        copies = disk if full == "copies" else tmp_path
        monkeypatch.setattr(sources, "_folder_of_copies", lambda: str(copies))
        Store.create(git_dir).close()
        before = sorted((git_dir / "objects/pack").iterdir())
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(3_000_000))
        with pytest.raises(Unavailable, match="No space left on device") as refused:
            large_import(path, git_dir)
        assert "free some space" in refused.value.hint
        assert not (git_dir / FOLDER).is_dir() or folders(git_dir) == []
        assert sorted((git_dir / "objects/pack").iterdir()) == before
        ballast.unlink()
        large_import(path, git_dir)
        with Store.open(git_dir) as store:
            [session] = store.sessions()
            assert store.export(session.sid).data == path.read_bytes()


@pytest.mark.usefixtures("small")
def test_file_rewritten_during_the_import_is_imported_in_its_earlier_state(tmp_path: Path) -> None:
    data = pi_file(*talk("a", "b", "c"))
    path = tmp_path / "x.jsonl"
    path.write_bytes(data)
    _, held = sources.stored(path)
    with open(path, "r+b") as file:
        file.write(b"#" * 20)
    os.truncate(path, 30)
    assert told(FORMATS["pi"].split(held)) == told(FORMATS["pi"].split(data))
