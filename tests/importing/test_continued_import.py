"""Tests of imports that continue at the end of the last import of the same file (decision 0065).

Each step is also imported into a second store, in which the whole file is imported every time. The refs must be equal,
so all objects are equal too.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import pytest
from builders import Clock, all_refs, assert_clean, dumps, nonces, pi_file, said, shared_files, talk
from claude_code import SESSION, assistant, call, result, user
from growing_files import CUTS, GROWING, claude_file, versions
from growth import calls_of
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from gitsession import Message, Store
from gitsession.api import imports as imports_module
from gitsession.api.imports import Imports
from gitsession.discovery.sources import format_of
from gitsession.importing import import_state
from gitsession.importing.import_session import ImportResult
from gitsession.importing.import_state import ImportState
from gitsession.index import catalogue
from gitsession.store import refs
from gitsession.store.interface import ObjectStore


class Whole(Imports):
    """Imports that always read the whole file."""

    def _earlier(self, found: object) -> None:
        return None


class Counted(Imports):
    """Imports that count those that continued an earlier one."""

    continued = 0

    def _load_rest(self, found: object, earlier: ImportState) -> object:
        loaded = super()._load_rest(found, earlier)  # type: ignore[arg-type]
        Counted.continued += loaded is not None
        return loaded


@dataclass
class Pair:
    """A file and two stores: ``store`` continues imports, ``whole`` does not."""

    place: Path
    name: str = "x.jsonl"
    histories: bool = False
    stores: list[Store] = field(default_factory=list)
    continued: int = 0

    def __post_init__(self) -> None:
        self.place.mkdir(parents=True, exist_ok=True)
        self.path = self.place / self.name
        for name in ("store", "whole"):
            self.stores.append(Store.create(self.place / f"{name}.git", clock=Clock()))
        self.store, self.whole = self.stores

    def take(self, data: bytes) -> ImportResult | None:
        """Write the file and import it into both stores. Return the result for ``store``."""
        self.path.write_bytes(data)
        return self.take_again()

    def take_again(self) -> ImportResult | None:
        before = Counted.continued
        results = []
        for store, kind in ((self.store, Counted), (self.whole, Whole)):
            imports = kind(store.agents, logged=False, histories=self.histories)
            imports.take(self.path)
            imports.finish()
            results.append((imports.done, [failure.what for failure in imports.failed]))
        self.continued = Counted.continued - before
        assert all_refs(self.store.objects) == all_refs(self.whole.objects)
        (ours, our_failures), (theirs, their_failures) = results
        assert our_failures == their_failures
        for one, other in zip(ours, theirs, strict=True):
            assert one[2] == other[2]  # also the counts, the moves and the problems
        return ours[0][2] if ours else None

    def close(self) -> None:
        for store in self.stores:
            store.close()
        shutil.rmtree(self.place)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path / "pair")
    yield made
    made.close()


# ---- every sequence of lines, cut anywhere


@pytest.mark.parametrize("agent", GROWING)
@given(data=st.data(), cuts=CUTS)
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
def test_steps_give_the_same_commits(
    agent: str, data: st.DataObject, cuts: list[float], tmp_path_factory: pytest.TempPathFactory
) -> None:
    strategy, name = GROWING[agent]
    pair = Pair(tmp_path_factory.mktemp("steps") / "pair", name)
    for version in versions(data.draw(strategy), cuts):
        pair.take(version)
        event("continued" if pair.continued else "whole")
    assert_clean(pair.store.objects)
    pair.close()


REAL = [path for path in shared_files("pi", "omp", "claude", "codex") if path.stat().st_size < 3_000_000]


@pytest.mark.skipif(not REAL, reason="needs real session files")
@given(path=st.sampled_from(REAL or [Path()]), cuts=CUTS)
@settings(max_examples=30, suppress_health_check=list(HealthCheck))
def test_steps_of_real_files_give_the_same_commits(
    path: Path, cuts: list[float], tmp_path_factory: pytest.TempPathFactory
) -> None:
    pair = Pair(tmp_path_factory.mktemp("real") / "pair", path.name)
    for version in versions(path.read_bytes(), cuts[:3]):
        if format_of(pair.path, version) is not None:
            pair.take(version)
            event("continued" if pair.continued else "whole")
    pair.close()


# ---- the import continues

LINES = talk("a", "b", "c", "d")
TOKEN = "ghp_" + "q7Xk2" * 7 + "Z"


def test_new_records_continue_the_import(pair: Pair) -> None:
    pair.take(pi_file(*LINES[:2]))
    assert pair.take(pi_file(*LINES[:3])) is not None
    assert pair.continued == 1
    done = pair.take(pi_file(*LINES))
    assert pair.continued == 1 and done is not None and (done.entries, done.new) == (4, 1)


def test_incomplete_line_is_imported_when_it_is_complete(pair: Pair) -> None:
    data = pi_file(*LINES)
    for size in (len(data) - 90, len(data) - 10, len(data) - 1, len(data)):
        pair.take(data[:size])
    assert pair.continued == 0  # the last line was imported without its line end
    pair.take(data + said("e", "d") + b"\n")
    assert pair.continued == 1


def test_new_branch_continues_the_import(pair: Pair) -> None:
    pair.take(pi_file(*LINES))
    pair.take(pi_file(*LINES, said("e", "b")))
    assert pair.continued == 1
    pair.take(pi_file(*LINES, said("e", "b"), said("f", "e"), said("g", "d"), said("h", "a")))
    assert pair.continued == 1
    [row] = pair.store.catalogue().sessions()
    assert len(row.branches) == 3


def test_unchanged_file_that_the_user_names_is_compared_whole(pair: Pair) -> None:
    pair.take(pi_file(*LINES))
    imports = Counted(pair.store.agents, logged=False)
    before = Counted.continued
    imports.take(pair.path, named=True)
    assert Counted.continued == before and imports.done[0][2].entries == 4


def test_work_does_not_grow_with_the_file(tmp_path: Path) -> None:
    def work(count: int) -> int:
        pair = Pair(tmp_path / str(count))
        lines = [said(f"{number:04}", f"{number - 1:04}" if number else None) for number in range(count + 1)]
        pair.take(pi_file(*lines[:count]))
        pair.path.write_bytes(pi_file(*lines))
        imports = Counted(pair.store.agents, logged=False, histories=False)
        calls = calls_of(lambda: imports.take(pair.path))
        [(_, _, done)] = imports.done
        assert done.new == 1
        imports.finish()
        watched = calls_of(lambda: None)
        pair.close()
        return calls - watched

    few, many = work(50), work(450)
    assert many - few < 400, (few, many)  # less than one call for each earlier record


# ---- anything else imports the whole file


def _edited(pair: Pair) -> None:
    pair.path.write_bytes(pair.path.read_bytes().replace(b"words of b", b"WORDS of b"))


def _truncated(pair: Pair) -> None:
    pair.path.write_bytes(pi_file(*LINES[:1]))


def _replaced(pair: Pair) -> None:
    stat = pair.path.stat()
    data = pair.path.read_bytes()
    pair.path.write_bytes(data.replace(b'"id":"b"', b'"id":"B"').replace(b'"parentId":"b"', b'"parentId":"B"'))
    os.utime(pair.path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert pair.path.stat().st_size == stat.st_size


def _retitled(pair: Pair) -> None:
    pair.path.write_bytes(pair.path.read_bytes().replace(b'"cwd":"/w', b'"cwd":"/x'))


def _in_both(change: Callable[[Store], object]) -> Callable[[Pair], None]:
    """Return a function that makes the same change in both stores."""

    def apply(pair: Pair) -> None:
        for store in pair.stores:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(os, "urandom", nonces())
                change(store)

    return apply


def _sid(store: Store) -> str:
    [row] = store.catalogue().sessions()
    return row.sid


def _purge_record(store: Store) -> None:
    session = store.session(_sid(store))
    store.purges.apply(store.purges.plan(session.id, session.resolve("b")))


def _purge_session(store: Store) -> None:
    store.purges.apply(store.purges.plan(_sid(store)))


def _catalog(change: str) -> Callable[[Pair], None]:
    def apply(pair: Pair) -> None:
        db = sqlite3.connect(Path(pair.store.objects.git_dir) / "gitsession/index.db")
        with db:
            assert db.execute(change).rowcount == 1
        db.close()

    return apply


def _deleted_catalog(pair: Pair) -> None:
    for store in pair.stores:
        store.close()
    for path in pair.place.glob("*.git/gitsession/index.db*"):
        path.unlink()
    pair.stores[:] = [Store.open(pair.place / f"{name}.git", clock=Clock()) for name in ("store", "whole")]
    pair.store, pair.whole = pair.stores


INTERFERENCES: dict[str, Callable[[Pair], None]] = {
    "the prefix was edited": _edited,
    "the header was rewritten": _retitled,
    "the file was truncated": _truncated,
    "the file was replaced": _replaced,
    "an entry was appended": _in_both(lambda store: store.session(_sid(store)).append(Message.user("mine"))),
    "a branch was created": _in_both(lambda store: store.session(_sid(store)).branch("mine", at="b")),
    "a label was set": _in_both(lambda store: store.session(_sid(store)).label("b", "mark")),
    "a record was purged": _in_both(_purge_record),
    "the session was purged": _in_both(_purge_session),
    "the session was archived": _in_both(lambda store: store.archive.put(_sid(store))),
    "the catalog was deleted": _deleted_catalog,
    "the state is damaged": _catalog("UPDATE imports SET state = CAST(substr(state, 2) || x'00' AS BLOB)"),
    "the state is empty": _catalog("UPDATE imports SET state = x''"),
}


@pytest.mark.parametrize("name", INTERFERENCES)
def test_interference_imports_the_whole_file(pair: Pair, name: str) -> None:
    pair.take(pi_file(*LINES[:3]))
    INTERFERENCES[name](pair)
    pair.take(pair.path.read_bytes() + LINES[3] + b"\n")
    assert pair.continued == 0
    pair.take(pair.path.read_bytes() + said("e", "d") + b"\n")
    assert_clean(pair.store.objects)


def test_session_from_which_the_file_was_written_is_fetched(pair: Pair, tmp_path: Path) -> None:
    def native(store: Store) -> str:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "urandom", nonces())
            session = store.new_session(agent="pi")
            session.append(Message.user("mine"))
            return session.id

    with Store.create(tmp_path / "other.git", clock=Clock()) as other:
        sid = native(other)
    pair.take(pi_file(*LINES[:2], id=sid))
    assert [native(store) for store in pair.stores] == [sid, sid]
    pair.take(pi_file(*LINES[:3], id=sid))
    pair.take(pi_file(*LINES, id=sid))


def test_state_of_another_release_is_not_used(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.take(pi_file(*LINES[:3]))
    monkeypatch.setattr(import_state, "VERSION", import_state.VERSION + 1)
    pair.take(pi_file(*LINES))
    assert pair.continued == 0


def test_undo_between_two_imports(pair: Pair) -> None:
    pair.take(pi_file(*LINES[:2]))
    for store in pair.stores:
        imports = Imports(store.agents)
        pair.path.write_bytes(pi_file(*LINES[:3]))
        imports.take(pair.path)
        imports.finish()
        store.undo()
    oplogs = [store.objects.ref(refs.OPLOG) for store in pair.stores]
    assert oplogs[0] is not None
    pair.path.write_bytes(pi_file(*LINES))
    kinds = zip(pair.stores, (Counted, Whole), strict=True)
    ours, theirs = (_session_refs_after(store, pair.path, kind) for store, kind in kinds)
    assert ours == theirs


def _session_refs_after(store: Store, path: Path, kind: type[Imports]) -> dict[str, object]:
    imports = kind(store.agents, logged=False)
    imports.take(path)
    imports.finish()
    return dict(store.objects.refs(refs.SESSIONS))


def test_kill_between_the_store_and_the_catalog(pair: Pair) -> None:
    pair.take(pi_file(*LINES[:2]))
    pair.path.write_bytes(pi_file(*LINES[:3]))
    for store in pair.stores:
        Imports(store.agents, logged=False).take(pair.path)  # `finish` is not called
    pair.take_again()
    assert pair.continued == 0
    pair.take(pi_file(*LINES))
    assert pair.continued == 1


def test_session_that_changes_during_the_import(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process appends to the session after the rest of the file was read."""
    pair.take(pi_file(*LINES[:3]))
    tree, count = ImportState.tree, 0

    def changed(state: ImportState, *arguments: object) -> object:
        nonlocal count
        count += 1
        _in_both(lambda store: store.session(_sid(store)).append(Message.user("mine")))(pair)
        return tree(state, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(ImportState, "tree", changed)
    pair.path.write_bytes(pi_file(*LINES))
    imports = Counted(pair.store.agents, logged=False, histories=False)
    imports.take(pair.path)
    imports.finish()
    assert count == 1 and not imports.failed
    whole = Whole(pair.whole.agents, logged=False, histories=False)
    whole.take(pair.path)
    assert all_refs(pair.store.objects) == all_refs(pair.whole.objects)


def test_file_that_two_processes_import_at_once(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process imports the new record after this one has compared the refs with the state."""
    pair.take(pi_file(*LINES[:3]))
    pair.path.write_bytes(pi_file(*LINES))
    read, count = import_state.load, 0

    def changed(store: ObjectStore, oid: str) -> object:
        nonlocal count
        count += 1
        if count == 1:
            with Store.open(pair.place / "store.git", clock=Clock()) as other:
                Whole(other.agents, logged=False, histories=False).take(pair.path)
        return read(store, oid)

    monkeypatch.setattr(import_state, "load", changed)
    for store, kind in ((pair.store, Counted), (pair.whole, Whole)):
        imports = kind(store.agents, logged=False, histories=False)
        imports.take(pair.path)
        imports.finish()
        assert not imports.failed
    assert count > 0
    assert all_refs(pair.store.objects) == all_refs(pair.whole.objects)


@pytest.mark.parametrize("fact", [{"cwd": "/work"}, {"version": "2"}, {"timestamp": "2026-02-01T00:00:00.000Z"}])
def test_tail_with_a_value_for_the_header_is_replaced(tmp_path: Path, fact: dict[str, str]) -> None:
    """The machine stops before the tail is on the disk, and the agent writes other lines instead."""
    pair = Pair(tmp_path / "pair", f"{SESSION}.jsonl")
    missing = {"parentUuid", *fact}
    line = {key: value for key, value in json.loads(user("a", None)).items() if key not in missing}
    tail = {"type": "queue-operation", "sessionId": SESSION}
    pair.take(claude_file(dumps(line), dumps(tail | fact)))
    rest = json.loads(user("b", "a", at=2)) | {"cwd": "/other"}
    pair.take(claude_file(dumps(line), dumps(tail), dumps(rest)))
    pair.close()


def test_secret_in_a_record_imports_the_whole_file(pair: Pair) -> None:
    lines = [*LINES[:2], said("s", "b", f"token {TOKEN}"), said("t", "s"), said("u", "t")]
    for count in (2, 3, 4, 5):
        pair.take(pi_file(*lines[:count]))
        assert pair.continued == (count == 3)


def test_redaction_settings_that_change(pair: Pair) -> None:
    lines = [*LINES[:2], said("s", "b", f"token {TOKEN}"), said("t", "s"), said("u", "t", f"token {TOKEN}")]
    for count in (2, 3, 4):
        for store in pair.stores:
            store.objects._secrets.__dict__["guard"] = None
        pair.take(pi_file(*lines[:count]))
    for store in pair.stores:
        del store.objects._secrets.__dict__["guard"]
    pair.take(pi_file(*lines))
    assert_clean(pair.store.objects)


def test_final_import_is_not_continued(pair: Pair) -> None:
    pair.take(pi_file(*LINES[:2]))
    for store, kind in zip(pair.stores, (Counted, Whole), strict=True):
        imports = kind(store.agents, logged=False, final=True)
        pair.path.write_bytes(pi_file(*LINES[:3]) + b'{"type":"mess')
        before = Counted.continued
        imports.take(pair.path)
        imports.finish()
        assert Counted.continued == before
    pair.take(pi_file(*LINES))


def test_sidecar_that_appears_later(pair: Pair) -> None:
    digest = sha256(b"image").hexdigest()
    block = [{"type": "image", "data": f"blob:sha256:{digest}", "mimeType": "image/png"}]
    lines = [*LINES[:2], said("i", "b", message={"role": "user", "content": block}), said("j", "i"), said("k", "j")]
    pair.take(pi_file(*lines[:3]))
    pair.take(pi_file(*lines[:4]))
    assert pair.continued == 0
    (pair.place / "blobs").mkdir()
    (pair.place / "blobs" / digest).write_bytes(b"image")
    done = pair.take(pi_file(*lines))
    assert done is not None and any(move.ref.endswith("/meta") for move in done.moves)


@pytest.mark.parametrize("copies", [False, True])
def test_recorded_changes_of_claude_are_replayed(tmp_path: Path, copies: bool) -> None:
    place = tmp_path / "home/projects/work"
    pair = Pair(place, f"{SESSION}.jsonl", histories=True)
    if copies:
        (tmp_path / "home/file-history" / SESSION).mkdir(parents=True)
    edit = {"type": "create", "filePath": "/work/a.txt", "content": "new\n", "originalFile": None}
    lines = [user("a", None), assistant("b", "a", call("c1", "Write")), result("c", "b", "c1", toolUseResult=edit)]
    pair.take(claude_file(lines[0]))
    pair.take(claude_file(*lines[:2]))
    assert pair.continued == 1
    pair.take(claude_file(*lines))
    assert pair.continued == (not copies)
    assert any(name.endswith("/files") for name in all_refs(pair.store.objects)) == copies


def test_copies_of_files_that_appear_later(tmp_path: Path) -> None:
    pair = Pair(tmp_path / "home/projects/work", f"{SESSION}.jsonl", histories=True)
    copies = tmp_path / "home/file-history" / SESSION
    edit = {"type": "create", "filePath": "/work/a.txt", "content": "new\n", "originalFile": None}
    lines = [user("a", None), assistant("b", "a", call("c1", "Write")), result("c", "b", "c1", toolUseResult=edit)]
    lines += [user(id, above) for above, id in ("cd", "de", "ef")]
    pair.take(claude_file(*lines[:3]))
    pair.take(claude_file(*lines[:4]))
    assert pair.continued == 1
    copies.mkdir(parents=True)
    pair.take(claude_file(*lines[:5]))
    assert any(name.endswith("/files") for name in all_refs(pair.store.objects))
    pair.take(claude_file(*lines))
    assert pair.continued == 1


def test_copies_of_files_that_disappear_and_return(tmp_path: Path) -> None:
    pair = Pair(tmp_path / "home/projects/work", f"{SESSION}.jsonl", histories=True)
    copies = tmp_path / "home/file-history" / SESSION
    copies.mkdir(parents=True)
    edit = {"type": "create", "filePath": "/work/a.txt", "content": "new\n", "originalFile": None}
    lines = [user("a", None), result("b", "a", "c1", toolUseResult=edit), user("c", "b")]
    pair.take(claude_file(*lines[:1]))
    copies.rmdir()
    pair.take(claude_file(*lines[:2]))
    copies.mkdir()
    pair.take(claude_file(*lines))
    assert any(name.endswith("/files") for name in all_refs(pair.store.objects))


def test_catalog_keeps_the_states_of_the_newest_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (catalogue, imports_module):
        monkeypatch.setattr(module, "STATES_MAX", 2)
    with Store.create(tmp_path / "store.git") as store:
        imports = Imports(store.agents)
        for number in range(4):
            path = tmp_path / f"{number}.jsonl"
            path.write_bytes(pi_file(*LINES[:2], id=f"s{number}"))
            imports.take(path)
        assert list(imports._states) == [tmp_path / "2.jsonl", tmp_path / "3.jsonl"]  # others would only take memory
        assert not any(done.state for _, _, done in imports.done)
        imports.finish()
        for number in range(4):
            path = tmp_path / f"{number}.jsonl"
            path.write_bytes(pi_file(*LINES, id=f"s{number}"))
            state = store.catalogue().import_state(path, path.stat())
            assert (state is not None) == (number >= 2)
