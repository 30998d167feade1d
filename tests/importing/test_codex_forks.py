"""Tests of codex threads that continue another thread's file: shared lines are stored once, and exports are equal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import (
    SHARED,
    STORES,
    all_refs,
    assert_clean,
    exported,
    fork,
    moved_forward,
    session,
    session_refs,
)
from codex_files import NAME, THREAD, assistant, compacted, event, message, rollout, turn, user
from codex_threads import AFTER_T1, CHILD, CHILD_FILE, PARENT_FILE, child_of

from gitsession.api import Store
from gitsession.cli import app as command_line
from gitsession.context import build
from gitsession.context.history import ContextHistory
from gitsession.errors import NoBase
from gitsession.exporting import export_session
from gitsession.formats.codex.agent import codex
from gitsession.importing.import_session import ImportResult, import_source
from gitsession.model.entries import Message
from gitsession.sessions import graph
from gitsession.sessions.meta import meta_of
from gitsession.sessions.revealed_store import RevealedStore
from gitsession.sessions.session import StoredSession
from gitsession.store import refs
from gitsession.store.interface import ObjectStore
from gitsession.store.memory import MemoryStore

GRANDCHILD = THREAD[:-1] + "3"


@pytest.fixture(params=STORES.values(), ids=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    with request.param(tmp_path / "store.git") as opened:
        yield opened
        assert_clean(opened)


def take_in(store: ObjectStore, data: bytes, **options: Any) -> ImportResult:
    source = codex.split(data, name=NAME)
    found = {source_id: sid for sid in _sessions(store) if (source_id := _source_id(store, sid))}
    return import_source(store, codex, source, find=found.get, **options)


def _sessions(store: ObjectStore) -> set[str]:
    return {name.split("/")[3] for name in session_refs(store)}


def _source_id(store: ObjectStore, sid: str) -> str | None:
    header = meta_of(store, sid).header
    return header.source_id if header is not None else None


def said(of: StoredSession) -> list[str]:
    return [node.subject for node in of.history()]


def test_fork_continues_from_the_shared_entry(store: ObjectStore) -> None:
    parent, child = take_in(store, PARENT_FILE).session, take_in(store, CHILD_FILE).session
    assert said(session(store, child)) == [
        "session: codex",
        "user: U t1",
        "model: mock-model",
        "assistant: A t1",
        f"fork: {child}",
        "user: other",
        "assistant: exec_command (+1 tool)",
        "tool: 1 line",
        "assistant: way",
    ]
    shared = graph.tree(store, parent).nodes.keys() & graph.tree(store, child).nodes.keys()
    assert len(shared) == 4
    assert child == refs.imported_sids("codex", CHILD, codex.split(CHILD_FILE).started_ms)[0]


def test_each_file_is_exported_by_itself(store: ObjectStore) -> None:
    parent, child = take_in(store, PARENT_FILE).session, take_in(store, CHILD_FILE).session
    assert (exported(store, parent), exported(store, child)) == (PARENT_FILE, CHILD_FILE)
    assert (take_in(store, PARENT_FILE).moves, take_in(store, CHILD_FILE).moves) == ((), ())


def test_context_of_a_fork_has_the_shared_and_its_own_messages(store: ObjectStore) -> None:
    take_in(store, PARENT_FILE)
    opened = session(store, take_in(store, CHILD_FILE).session)
    assert opened.leaf is not None
    found = build.context(ContextHistory(store, opened.leaf.oid), "codex")
    assert [item.entry.text for item in found.items if isinstance(item.entry, Message) and item.entry.text] == [
        "U t1",
        "A t1",
        "other",
        "a.txt\n",
        "way",
    ]


def test_fork_without_its_base_waits_and_writes_nothing(store: ObjectStore) -> None:
    before = all_refs(store)
    with pytest.raises(NoBase, match=THREAD):
        take_in(store, CHILD_FILE)
    with pytest.raises(NoBase):
        import_source(store, codex, codex.split(CHILD_FILE))
    assert all_refs(store) == before


def test_fork_waits_for_its_base_up_to_the_fork_point(store: ObjectStore) -> None:
    lines = PARENT_FILE.splitlines(keepends=True)
    take_in(store, b"".join(lines[: AFTER_T1 - 1]))
    with pytest.raises(NoBase, match="is incomplete in this store"):
        take_in(store, CHILD_FILE)
    take_in(store, b"".join(lines[:AFTER_T1]))
    early = take_in(store, CHILD_FILE)
    other = MemoryStore()
    take_in(other, PARENT_FILE)
    assert take_in(other, CHILD_FILE).moves == early.moves


def test_a_fork_that_grows_moves_only_its_own_refs_forward(store: ObjectStore) -> None:
    take_in(store, PARENT_FILE)
    ends = [at + 1 for at, byte in enumerate(CHILD_FILE) if byte == 10]
    for end in ends:
        before = session_refs(store)
        sid = take_in(store, CHILD_FILE[:end]).session
        assert moved_forward(store, {n: v for n, v in before.items() if "/meta" not in n}, session_refs(store))
        assert exported(store, sid) == CHILD_FILE[:end]
    other = MemoryStore()
    take_in(other, PARENT_FILE)
    take_in(other, CHILD_FILE)
    assert {n: v for n, v in session_refs(other).items() if "/meta" not in n} == {
        n: v for n, v in session_refs(store).items() if "/meta" not in n
    }


def test_rewritten_fork_keeps_its_base_out_of_the_file(store: ObjectStore) -> None:
    parent = take_in(store, PARENT_FILE).session
    take_in(store, CHILD_FILE)
    rewritten = child_of(THREAD, AFTER_T1, user("quite another"), assistant("way"))
    child = take_in(store, rewritten).session
    assert (exported(store, child), exported(store, parent)) == (rewritten, PARENT_FILE)
    assert "user: quite another" in said(session(store, child))


def test_an_older_copy_of_a_fork_changes_nothing(store: ObjectStore) -> None:
    take_in(store, PARENT_FILE)
    take_in(store, CHILD_FILE)
    before = session_refs(store)
    take_in(store, child_of(THREAD, AFTER_T1, user("other")))
    assert session_refs(store) == before


def test_grown_base_does_not_change_its_forks(store: ObjectStore) -> None:
    take_in(store, PARENT_FILE)
    child = take_in(store, CHILD_FILE).session
    before = {n: v for n, v in session_refs(store).items() if child in n}
    grown = rollout(turn("t1"), turn("t2"), event("token_count"), turn("t3"), first=0)
    parent = take_in(store, grown).session
    assert {n: v for n, v in session_refs(store).items() if child in n} == before
    assert (exported(store, parent), exported(store, child)) == (grown, CHILD_FILE)


def test_a_fork_of_a_fork_shares_with_both(store: ObjectStore) -> None:
    take_in(store, PARENT_FILE)
    take_in(store, CHILD_FILE)
    deep = child_of(CHILD, AFTER_T1 + 3, user("deep"), thread=GRANDCHILD)
    deeper = take_in(store, deep).session
    assert said(session(store, deeper))[-3:] == ["user: other", f"fork: {deeper}", "user: deep"]
    assert exported(store, deeper) == deep


def test_fork_of_a_fork_at_its_start_has_the_shared_parent(store: ObjectStore) -> None:
    take_in(store, PARENT_FILE)
    take_in(store, CHILD_FILE)
    deeper = take_in(store, child_of(CHILD, AFTER_T1 + 1, user("deep"), thread=GRANDCHILD)).session
    assert said(session(store, deeper))[-3:] == ["assistant: A t1", f"fork: {deeper}", "user: deep"]


def test_fork_before_the_first_entry_starts_at_the_root(store: ObjectStore) -> None:
    take_in(store, PARENT_FILE)
    child = take_in(store, child_of(THREAD, 1, user("anew"))).session
    assert said(session(store, child)) == ["session: codex", f"fork: {child}", "user: anew"]


def test_own_fork_of_a_codex_fork_exports_its_file(store: ObjectStore) -> None:
    take_in(store, PARENT_FILE)
    ours = fork(session(store, take_in(store, CHILD_FILE).session))
    ours.append(Message.user("ours"))
    assert exported(store, ours.id) == CHILD_FILE


@pytest.mark.parametrize("back", range(7))
def test_own_fork_of_a_codex_fork_is_exported_with_all_shared_lines(store: ObjectStore, back: int) -> None:
    take_in(store, PARENT_FILE)
    deep = child_of(CHILD, AFTER_T1 + 3, user("deep"), thread=GRANDCHILD)
    take_in(store, CHILD_FILE)
    theirs = session(store, take_in(store, deep).session)
    ours = fork(theirs, theirs.history()[-back - 1].oid)
    ours.append(Message.user("ours"))
    second = fork(ours)
    second.append(Message.user("again"))
    for each in (ours, second):
        written = export_session.export(RevealedStore(store), each.id, "codex")
        assert written.left_out == 0
        elsewhere = MemoryStore()
        copy = session(elsewhere, take_in(elsewhere, written.data).session)
        assert texts_in_context(elsewhere, copy) == texts_in_context(store, each)


def texts_in_context(store: ObjectStore, of: StoredSession) -> list[str]:
    assert of.leaf is not None
    found = build.context(ContextHistory(store, of.leaf.oid), "codex")
    return [item.entry.text for item in found.items if isinstance(item.entry, Message)]


STATED = {
    "no object": 5, "no thread": {"end_ordinal_exclusive": 3}, "no end": {"thread_id": THREAD},
    "an end that is text": {"thread_id": THREAD, "end_ordinal_exclusive": "3"},
}  # fmt: skip


@pytest.mark.parametrize("stated", STATED.values(), ids=STATED)
def test_invalid_base_makes_a_separate_session(store: ObjectStore, stated: Any) -> None:
    data = rollout(user("a"), thread=CHILD, history_base=stated)
    assert exported(store, take_in(store, data).session) == data


def test_compactions_of_the_base_are_in_force_in_the_fork(store: ObjectStore) -> None:
    take_in(store, rollout(turn("t1"), compacted("s", [message("user", "K1")]), first=0))
    opened = session(store, take_in(store, child_of(THREAD, 10, user("on"))).session)
    assert opened.leaf is not None
    found = build.context(ContextHistory(store, opened.leaf.oid), "codex")
    assert [item.entry.text for item in found.items if isinstance(item.entry, Message)] == ["K1", "on"]


# ---- one command, with the files in any order


def run(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = command_line.run(list(words))
    found = capfd.readouterr()
    return code, found.out + found.err


def on_disk(folder: Path, **files: bytes) -> Path:
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / f"rollout-2026-11-21T20-34-22-{name}.jsonl").write_bytes(data)
    return folder


@pytest.mark.parametrize("is_made", [False, True])
def test_dry_run_reports_the_planned_import(tmp_path: Path, capfd: pytest.CaptureFixture[str], is_made: bool) -> None:
    deep = child_of(CHILD, AFTER_T1 + 3, user("deep"), thread=GRANDCHILD)
    folder = on_disk(tmp_path / "files", a=deep, b=CHILD_FILE, c=PARENT_FILE)
    path = tmp_path / "store.git"
    if is_made:
        run(capfd, "--store", str(path), "init")
    code, told = run(capfd, "--store", str(path), "import", str(folder), "--dry-run")
    assert (code, "3 sessions would be imported" in told) == (0, True), told
    assert f"continues session {THREAD} and would be imported after it" in told
    code, told = run(capfd, "--store", str(path), "import", str(folder), "--dry-run", "--json")
    assert [len(json.loads(told)[name]) for name in ("sessions", "behind", "failed")] == [1, 2, 0]
    if is_made:
        with Store.open(path) as opened:
            assert opened.sessions() == []


def test_dry_run_reports_a_fork_that_the_import_would_reject(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    deep = child_of(CHILD, AFTER_T1 + 3, user("deep"), thread=GRANDCHILD)
    folder = on_disk(tmp_path / "files", a=deep, b=CHILD_FILE)
    code, told = run(capfd, "--store", str(tmp_path / "store.git"), "import", str(folder), "--dry-run")
    assert (code, told.count("which is not in this store")) == (3, 2), told


def test_bases_are_imported_first_in_any_order_of_files(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    deep = child_of(CHILD, AFTER_T1 + 3, user("deep"), thread=GRANDCHILD)
    folder = on_disk(tmp_path / "files", a=deep, b=CHILD_FILE, c=PARENT_FILE)
    path = tmp_path / "store.git"
    code, told = run(capfd, "--store", str(path), "import", str(folder))
    assert (code, "3 sessions imported" in told) == (0, True), told
    with Store.open(path) as opened:
        rows = {row.source_id: row for row in opened.sessions()}
        assert rows.keys() == {THREAD, CHILD, GRANDCHILD}
        assert rows[CHILD].project == "/work"
        assert opened.export(rows[GRANDCHILD].sid).data == deep
        assert opened.verify().problems == []


def test_missing_base_only_affects_its_forks_until_the_next_import(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = on_disk(tmp_path / "files", b=CHILD_FILE, other=rollout(user("x"), thread=GRANDCHILD))
    arguments = ["--store", str(tmp_path / "store.git"), "import", str(folder)]
    code, told = run(capfd, *arguments)
    assert f"the file continues session '{THREAD}', which is not in this store" in told
    assert code != 0
    (folder / f"{NAME}.jsonl").write_bytes(PARENT_FILE)
    code, told = run(capfd, *arguments)
    assert (code, "2 sessions imported" in told) == (0, True), told


# ---- real files

FILES = {path.name[28:41]: path for path in sorted((SHARED / "sessions/codex/generated").glob("*.jsonl"))}


@pytest.mark.skipif("01a1ffd1-374d" not in FILES, reason="no session files here")
def test_a_real_fork_shares_with_its_real_base() -> None:
    store = MemoryStore()
    base, child = (FILES[f"01a1ffd1-{part}"].read_bytes() for part in ("326d", "374d"))
    parent, sid = take_in(store, base).session, take_in(store, child).session
    assert (exported(store, parent), exported(store, sid)) == (base, child)
    assert said(session(store, sid))[-7:-4] == [
        "assistant: Renamed fib to fibonacci everywhere (via sed in the shell).",
        f"fork: {sid}",
        "model: mock-model",
    ]
    assert_clean(store)
