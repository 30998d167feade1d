"""Tests of reverted codex threads: a revert starts another file, and all files of a thread are one session."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import SHARED, STORES, assert_clean, session
from codex_files import THREAD, import_files, joined, turn
from codex_threads import FILES, FORK, SEGMENTS, TURN, begun, name

from gitsession.api import Store
from gitsession.api.imports import Imports
from gitsession.cli import app as command_line
from gitsession.context import build
from gitsession.context.history import ContextHistory
from gitsession.errors import Malformed, NoBase
from gitsession.exporting import export_session, session_files
from gitsession.formats.codex.agent import codex
from gitsession.importing.import_session import ImportResult, import_source
from gitsession.model.entries import Message
from gitsession.sessions import graph
from gitsession.sessions.active_branch import active
from gitsession.sessions.meta import meta_of
from gitsession.store.interface import ObjectStore
from gitsession.store.memory import MemoryStore

SAID = {
    name(THREAD): "t1 t2 t3",
    name(THREAD, SEGMENTS[0]): "t1 t2 t4 t5",
    name(THREAD, SEGMENTS[1]): "t1 t2 t4 t6",
    name(THREAD, SEGMENTS[2]): "t1 t7 t8",
    name(FORK): "t1 t7 t9",
}


@pytest.fixture(params=STORES.values(), ids=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    with request.param(tmp_path / "store.git") as opened:
        yield opened
        assert_clean(opened)


class Importer:
    """An importer that records which session belongs to an agent's id."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self.known: dict[str, str] = {}

    def __call__(self, file: str, data: bytes | None = None) -> ImportResult:
        source = codex.split(FILES[file] if data is None else data, name=file)
        done = import_source(self.store, codex, source, find=self.known.get)
        self.known[source.segment or source.source_id] = done.session
        return done

    def all(self, order: tuple[str, ...] = tuple(FILES)) -> str:
        """Import the files in this order, retrying each until its base is imported. Return the thread's session."""
        left = list(order)
        while left:
            file = left.pop(0)
            try:
                self(file)
            except NoBase:
                left.append(file)
        return self.known[THREAD]


def context(store: ObjectStore, leaf: str) -> str:
    found = build.context(ContextHistory(store, leaf), "codex")
    said = [item.entry.text for item in found.items if isinstance(item.entry, Message) and item.entry.role == "user"]
    return " ".join(text.removeprefix("U ") for text in said)


def active_context(store: ObjectStore, sid: str) -> str:
    return context(store, graph.branches(store, sid)[active(store, sid)])


def test_reverted_thread_is_one_session_with_branches(store: ObjectStore) -> None:
    take = Importer(store)
    sid = take.all()
    assert {take.known[id] for id in (THREAD, *SEGMENTS[:3])} == {sid}
    leaves = graph.branches(store, sid)
    assert sorted(context(store, leaf) for leaf in leaves.values()) == sorted(
        said for file, said in SAID.items() if FORK not in file
    )
    assert active_context(store, sid) == SAID[name(THREAD, SEGMENTS[2])]
    assert active_context(store, take.known[FORK]) == SAID[name(FORK)]


@pytest.mark.parametrize("file", [file for file in FILES if FORK not in file])
def test_context_after_each_revert_has_the_remaining_and_the_later_turns(store: ObjectStore, file: str) -> None:
    take = Importer(store)
    files = list(FILES)
    for each in files[: files.index(file) + 1]:
        done = take(each)
    assert active_context(store, done.session) == SAID[file]


def test_each_file_is_exported_by_itself(store: ObjectStore) -> None:
    take = Importer(store)
    sid = take.all()
    newest = export_session.export(store, sid)
    assert newest.data == export_session.export_original(store, sid).data == FILES[name(THREAD, SEGMENTS[2])]
    others = {
        file.name.removesuffix(".jsonl"): file.data
        for file in session_files.other_files(store, "codex", sid, newest.data)
    }
    assert others == {file: data for file, data in FILES.items() if file not in (name(THREAD, SEGMENTS[2]), name(FORK))}
    assert export_session.export(store, take.known[FORK]).data == FILES[name(FORK)]


def test_an_import_again_changes_nothing_and_reports_nothing(store: ObjectStore) -> None:
    take = Importer(store)
    take.all()
    assert [(take(file).moves, take(file).problems) for file in FILES] == [((), ())] * len(FILES)


@pytest.mark.parametrize("order", list(itertools.permutations(FILES))[::7], ids=lambda order: "")
def test_the_order_of_import_changes_no_entry(order: tuple[str, ...]) -> None:
    here, there = MemoryStore(), MemoryStore()
    sid, same = Importer(here).all(), Importer(there).all(order)
    assert sid == same
    assert graph.tree(here, sid).nodes.keys() == graph.tree(there, sid).nodes.keys()
    assert graph.branches(here, sid) == graph.branches(there, sid)
    assert active_context(there, sid) == active_context(here, sid)


def test_growing_files_give_the_same_session(store: ObjectStore) -> None:
    take, whole = Importer(store), MemoryStore()
    for file, data in FILES.items():
        for end in [place + 1 for place, byte in enumerate(data) if byte == 10]:
            sid = take(file, data[:end]).session
        assert export_session.export_original(store, sid).data == data
    thread = take.known[THREAD]
    assert Importer(whole).all() == thread
    assert graph.branches(whole, thread) == graph.branches(store, thread)


def test_segment_waits_for_its_base_and_writes_nothing(store: ObjectStore) -> None:
    take = Importer(store)
    with pytest.raises(NoBase, match=THREAD):
        take(name(THREAD, SEGMENTS[0]))
    take(name(THREAD), FILES[name(THREAD)][:1500])
    with pytest.raises(NoBase, match="is incomplete in this store"):
        take(name(THREAD, SEGMENTS[0]))
    take(name(THREAD))
    with pytest.raises(NoBase, match=SEGMENTS[0]):
        take(name(THREAD, SEGMENTS[1]))
    assert take(name(THREAD, SEGMENTS[0])).new == 7


def test_revert_of_the_whole_thread_starts_at_the_root(store: ObjectStore) -> None:
    take = Importer(store)
    anew = begun(None, 0, turn("t9"), timestamp="2026-11-21T21:00:00.000Z")
    with pytest.raises(NoBase):
        take(name(THREAD, SEGMENTS[3]), anew)
    sid = take.all()
    assert take(name(THREAD, SEGMENTS[3]), anew).session == sid
    assert active_context(store, sid) == "t9"
    assert export_session.export_original(store, sid).data == anew
    assert take(name(THREAD)).moves == ()


def test_a_revert_after_which_nothing_was_said_is_the_rest(store: ObjectStore) -> None:
    take = Importer(store)
    take(name(THREAD))
    data = begun(THREAD, 1 + TURN)
    sid = take(name(THREAD, SEGMENTS[0]), data).session
    assert active_context(store, sid) == "t1"
    assert export_session.export_original(store, sid).data == data


def test_segment_in_a_file_of_any_name_is_recognized_by_its_header(store: ObjectStore) -> None:
    take = Importer(store)
    take(name(THREAD))
    done = take("reverted", FILES[name(THREAD, SEGMENTS[0])])
    assert done.session == take.known[THREAD]
    assert active_context(store, done.session) == "t1 t2 t4 t5"
    assert take("another-name", FILES[name(THREAD, SEGMENTS[0])]).moves == ()


def test_segment_cannot_continue_a_file_of_another_thread() -> None:
    take = Importer(MemoryStore())
    take.all()
    with pytest.raises(Malformed, match="another session"):
        take(name(THREAD, SEGMENTS[3]), begun(FORK, 3 + 3 * TURN, turn("t0")))


def test_rewritten_segment_makes_a_branch_only_in_itself(store: ObjectStore) -> None:
    take = Importer(store)
    sid = take.all()
    data = begun(THREAD, 1 + TURN, turn("t7"), turn("other"))
    done = take(name(THREAD, SEGMENTS[2]), data)
    first = next(at for at, line in enumerate(data.splitlines()) if b"U other" in line)
    assert (done.session, done.rewritten) == (sid, 1 + TURN + first + 1)
    assert active_context(store, sid) == "t1 t7 other"
    assert export_session.export_original(store, sid).data == data
    assert export_session.segment(store, sid, None) == FILES[name(THREAD)]


def test_lines_of_a_segment_have_the_ordinals_of_the_thread() -> None:
    source = codex.split(FILES[name(THREAD, SEGMENTS[0])], name=name(THREAD, SEGMENTS[0]))
    assert source.segment == SEGMENTS[0]
    assert source.meta == ()
    assert [(record.line, record.parent) for record in source.records][:2] == [(14, None), (16, 14)]
    assert source.records[0].source_id == SEGMENTS[0]


@pytest.mark.parametrize("agent", ["pi", "claude", "opencode", "omp"])
def test_another_agent_receives_no_header_of_a_file(store: ObjectStore, agent: str) -> None:
    sid = Importer(store).all()
    sent = export_session.export(store, sid, agent)
    assert b"U t8" in sent.data
    assert not any("session" in note for note in sent.notes)


# ---- the public API


def on_disk(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for file, data in files.items():
        (folder / f"{file}.jsonl").write_bytes(data)
    return folder


def test_command_imports_all_files_of_a_thread(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder, path = on_disk(tmp_path / "files", FILES), tmp_path / "store.git"
    assert command_line.run(["--store", str(path), "import", str(folder)]) == 0
    capfd.readouterr()
    with Store.open(path) as opened:
        rows = {row.source_id: row for row in opened.sessions()}
        assert rows.keys() == {THREAD, FORK}
        assert rows[THREAD].first_words == "U t1"
        assert opened.verify().problems == []
    out = tmp_path / "out"
    out.mkdir()
    assert command_line.run(["--store", str(path), "export", rows[FORK].sid, "-o", str(out)]) == 0
    needed = (name(THREAD), name(THREAD, SEGMENTS[2]), name(FORK))
    assert {file.stem: file.read_bytes() for file in out.iterdir()} == {file: FILES[file] for file in needed}
    assert command_line.run(["--store", str(path), "export", rows[THREAD].sid, "-o", str(tmp_path / "one")]) == 0
    assert "3 other files" in capfd.readouterr().err
    assert (tmp_path / "one").read_bytes() == FILES[name(THREAD, SEGMENTS[2])]


@pytest.mark.parametrize("file", [name(THREAD, SEGMENTS[1]), name(FORK)], ids=["segment", "fork"])
def test_file_named_alone_brings_its_bases(tmp_path: Path, capfd: pytest.CaptureFixture[str], file: str) -> None:
    days = tmp_path / "sessions/2026/11"
    for number, (each, data) in enumerate(FILES.items(), 10):
        on_disk(days / str(number), {each: data})
    [found] = days.glob(f"*/{file}.jsonl")
    path = tmp_path / "store.git"
    assert command_line.run(["--store", str(path), "import", str(found)]) == 0, capfd.readouterr().err
    with Store.open(path) as opened:
        [row] = [row for row in opened.sessions() if row.source_id == (FORK if FORK in file else THREAD)]
        assert active_context(opened.objects, row.sid) == SAID[file]


def test_a_hook_follows_a_thread_into_its_next_file(tmp_path: Path) -> None:
    folder = on_disk(tmp_path / "sessions/2026/11/21", FILES)
    with Store.create(tmp_path / "store.git") as opened:
        imports = Imports(opened.agents, logged=False, histories=False)
        file = str(folder / f"{name(THREAD, SEGMENTS[2])}.jsonl")
        sid = imports.follow("codex", THREAD, file, tmp_path, {})
        imports.finish()
        assert sid is not None
        assert active_context(opened.objects, sid) == SAID[name(THREAD, SEGMENTS[2])]
        [row] = opened.catalogue().by_source("codex", THREAD)
        assert row.sid == sid


def resumed(store: Store, sid: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> set[str]:
    """Resume a session and return the names of the files in the home directory."""
    home, work = tmp_path / "codex", tmp_path / "work"
    monkeypatch.setenv("CODEX_HOME", str(home))
    work.mkdir(exist_ok=True)
    found = store.agents.resume(sid, cwd=work, **options)
    assert store.agents.resume(sid, cwd=work, dry_run=True, **options).is_complete
    assert not store.agents.resume(sid, cwd=work, dry_run=True, **options).other_files
    assert found.file.exists()
    return {file.stem for file in home.rglob("*.jsonl")}


def test_new_home_gets_the_bases_of_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = on_disk(tmp_path / "files", FILES)
    with Store.create(tmp_path / "store.git") as opened:
        import_files(opened, folder.iterdir())
        rows = {row.source_id: row.sid for row in opened.sessions()}
        there = resumed(opened, rows[FORK], tmp_path, monkeypatch)
        assert there == {name(THREAD), name(THREAD, SEGMENTS[2]), name(FORK)}
        assert resumed(opened, rows[THREAD], tmp_path, monkeypatch) == there
        reverted = graph.branches(opened.objects, rows[THREAD])["main"]
        at = graph.tree(opened.objects, rows[THREAD]).nodes[reverted]
        [other] = resumed(opened, rows[THREAD], tmp_path, monkeypatch, at=at) - there
        assert THREAD not in other


def continued(store: Store, sid: str, work: Path) -> Path:
    """Resume the thread, append a turn in ``work`` as codex does, and return its newest file."""
    work.mkdir()
    file = store.agents.resume(sid, cwd=work).file
    last = json.loads(file.read_bytes().splitlines()[-1])
    with file.open("ab") as end:
        end.write(joined(turn("t10"), first=last["ordinal"] + 1))
    return file


def test_reverted_thread_continues_in_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    folder = on_disk(tmp_path / "files", FILES)
    newest = folder / f"{name(THREAD, SEGMENTS[2])}.jsonl"
    with Store.create(tmp_path / "store.git") as opened:
        import_files(opened, folder.iterdir())
        [sid] = [row.sid for row in opened.sessions() if row.source_id == THREAD]
        branches = graph.branches(opened.objects, sid).keys()
        file = continued(opened, sid, tmp_path / "one")
        [done] = opened.import_file(file)
        assert (done.session, done.new, done.rewritten, done.problems) == (sid, 3, None, ())
        assert graph.branches(opened.objects, sid).keys() == branches
        assert active_context(opened.objects, sid) == "t1 t7 t8 t10"
        assert export_session.export_original(opened.objects, sid).data == file.read_bytes()
        assert opened.import_file(file)[0].moves == ()
        assert opened.agents.resume(sid, cwd=tmp_path / "one").is_complete
        [older] = opened.import_file(newest)
        assert (older.moves, [problem.what[:13] for problem in older.problems]) == ((), ["an older copy"])
        assert opened.verify().problems == []


def test_reverted_thread_continues_in_one_folder_after_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = on_disk(tmp_path / "files", FILES)
    with Store.create(tmp_path / "store.git") as opened:
        import_files(opened, folder.iterdir())
        [sid] = [row.sid for row in opened.sessions() if row.source_id == THREAD]
        for place in ("one", "two"):
            monkeypatch.setenv("CODEX_HOME", str(tmp_path / f"codex-{place}"))
            file = continued(opened, sid, tmp_path / place)
            [done] = opened.import_file(file)
            assert (done.new, done.rewritten) == (3, None)
            assert export_session.export_original(opened.objects, sid).data == file.read_bytes()
        assert active_context(opened.objects, sid) == "t1 t7 t8 t10 t10"
        assert opened.verify().problems == []


def test_the_header_of_a_segment_in_another_folder_alone_changes_no_entry(store: ObjectStore) -> None:
    take = Importer(store)
    sid = take.all()
    before = graph.branches(store, sid)
    file = name(THREAD, SEGMENTS[0])
    moved = codex.relocate(FILES[file], THREAD, "/elsewhere")
    for data in (moved, FILES[file], moved):
        done = take(file, data)
        assert (done.new, done.rewritten) == (0, None)
        assert graph.branches(store, sid) == before
        assert export_session.segment(store, sid, SEGMENTS[0]) == data
    other = moved.replace(b"codex_exec", b"codex_else")
    assert take(file, other).rewritten == 1 + 2 * TURN + 1


def test_existing_fork_is_resumed_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = on_disk(tmp_path / "codex/sessions/2026/11/21", FILES)
    with Store.create(tmp_path / "store.git") as opened:
        sid = [opened.import_file(folder / f"{file}.jsonl") for file in FILES][-1][0].session
        assert resumed(opened, sid, tmp_path, monkeypatch) == set(FILES)


def test_states_of_files_are_kept_separately(store: ObjectStore) -> None:
    take = Importer(store)
    sid = take.all()
    states = [state.segment for _, state in meta_of(store, sid).files]
    assert states == [SEGMENTS[2], SEGMENTS[1], SEGMENTS[0]]
    ends_early = FILES[name(THREAD, SEGMENTS[0])].rstrip(b"\n")
    take(name(THREAD, SEGMENTS[0]), ends_early)
    assert export_session.segment(store, sid, SEGMENTS[0]) == ends_early


RECORDED = SHARED / "findings/interchange"


@pytest.mark.skipif(not RECORDED.exists(), reason="no recorded session here")
def test_recorded_revert_gives_the_next_request() -> None:
    take = Importer(MemoryStore())
    for path in sorted(RECORDED.glob("codex-revert-rollout-*.jsonl")):
        done = take(path.stem.removeprefix("codex-revert-"), path.read_bytes())
    opened = session(take.store, done.session)
    assert opened.leaf is not None
    found = build.context(ContextHistory(take.store, opened.leaf.oid), "codex")
    texts = [item.entry.text for item in found.items if isinstance(item.entry, Message)]
    last = json.loads((RECORDED / "codex-revert-requests.jsonl").read_bytes().splitlines()[-1])
    sent = [item["content"][0]["text"] for item in last["body"]["input"][1:]]
    assert [text for text in texts if text[0] != "<"] == [*(text for text in sent if text[0] != "<"), "A4 answer"]
