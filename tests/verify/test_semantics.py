"""Tests of the rules for whole sessions: impossible data is a problem, unusual data of agents is a notice."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import (
    SHARED,
    STORES,
    assert_clean,
    begun,
    bring,
    entry,
    fork,
    header,
    joined,
    label,
    on_disk,
    pi_file,
    said,
    session,
    shared_files,
    talk,
)
from checkpoints import held, tree_of

from gitsession.codec import cbor
from gitsession.codec.digest import to_base64url
from gitsession.git.objects import encode_commit, encode_tree
from gitsession.git.types import Oid
from gitsession.model import entries as kinds
from gitsession.model.blocks import ToolCall
from gitsession.model.entries import Checkpoint, Compaction, Entry, Message
from gitsession.sessions import commit_writer, graph, layout
from gitsession.sessions.node import Node, load
from gitsession.sessions.session import StoredSession
from gitsession.store import refs
from gitsession.store.interface import ObjectStore
from gitsession.store.memory import MemoryStore
from gitsession.verify import entry_walk


@pytest.fixture(params=STORES.values(), ids=STORES)
def store(request, tmp_path: Path):
    with request.param(tmp_path / "store.git") as made:
        yield made


def put(store: ObjectStore, what: Entry, parent: Oid | None, ref: str, files: Oid | None = None) -> Node:
    """Write an entry after ``parent`` without any validation, and move ``ref`` to it."""
    with store.transaction() as tx:
        draft = dataclasses.replace(
            commit_writer.draft_own(dataclasses.replace(what, at_ms=1000), os.urandom(16), None), files=files
        )
        node = commit_writer.put(tx, load(store, parent) if parent else None, draft)
        tx.move(ref, node.oid, expected=store.ref(ref))
    return node


def blob(store: ObjectStore, data: bytes = b"x") -> Oid:
    with store.transaction() as tx:
        return tx.put("blob", data)


def tree(store: ObjectStore, rows: dict[str, tuple[str, Oid]]) -> Oid:
    with store.transaction() as tx:
        return tx.put("tree", encode_tree(rows))


def told(store: ObjectStore, sid: str | None = None) -> str:
    found = entry_walk.verify(store, sid).problems
    return "\n".join(f"{each.where} {each.session}: {each.what}" for each in found)


# ---- problems


def main(held: StoredSession) -> str:
    return refs.leaf(held.id)


def leaf(store: ObjectStore, held: StoredSession) -> Oid:
    return store.ref(main(held)) or ""


def another_root(store: ObjectStore, held: StoredSession) -> None:
    root = put(store, kinds.SessionHeader(agent="agent", view=1), None, refs.leaf(held.id, "side"))
    put(store, Message.user("elsewhere"), root.oid, refs.leaf(held.id, "side"))


def a_message_as_root(store: ObjectStore, held: StoredSession) -> None:
    put(store, Message.user("first"), None, "refs/heads/sessions/20260101-aaaaaaaaaaaaa/main")


def two_sessions_at_one_root(store: ObjectStore, held: StoredSession) -> None:
    put(store, Message.user("on"), leaf(store, held), "refs/heads/sessions/20260101-aaaaaaaaaaaaa/main")


def a_second_beginning(store: ObjectStore, held: StoredSession) -> None:
    put(store, kinds.SessionHeader(agent="agent", view=1), leaf(store, held), main(held))


def kept_from_another_line(store: ObjectStore, held: StoredSession) -> None:
    first = held.history()[1]
    aside = put(store, Message.user("aside"), first.oid, refs.leaf(held.id, "side"))
    put(store, Compaction(summary="s", first_kept=to_base64url(aside.chain)), leaf(store, held), main(held))


def kept_from_nowhere(store: ObjectStore, held: StoredSession) -> None:
    put(store, Compaction(summary="s", first_kept="gone"), leaf(store, held), main(held))


def an_agents_file_that_goes_on_nowhere(store: ObjectStore, held: StoredSession) -> None:
    put(store, kinds.SourceFile(leaf="7:gone"), store.ref(refs.meta(held.id)), refs.meta(held.id))


def an_active_branch_of_another_session(store: ObjectStore, held: StoredSession) -> None:
    other = begun(store)
    with store.transaction() as tx:
        tx.move(refs.active(held.id), refs.symbolic(main(other)), expected=None)


def an_active_entry(store: ObjectStore, held: StoredSession) -> None:
    with store.transaction() as tx:
        tx.move(refs.active(held.id), leaf(store, held), expected=None)


def an_operation_that_names_what_is_gone(store: ObjectStore, held: StoredSession) -> None:
    body = {"v": 1, "command": "x", "at": 1, "refs": [[main(held), "1" * 40, None]], "parent": store.ref(refs.OPLOG)}
    with store.transaction() as tx:
        data = tx.put("blob", cbor.encode({**body, "group": None, "undoes": None, "redoes": None}))
        made = encode_commit(
            tree=tx.put("tree", encode_tree({layout.OPERATION: (layout.FILE_MODE, data)})), parents=[],
            author_name="operation", author_seconds=1, committer_seconds=1, message=b"x\n",
        )  # fmt: skip
        tx.move(refs.OPLOG, tx.put("commit", made), expected=store.ref(refs.OPLOG))


def other_bytes_for_an_entry(store: ObjectStore, held: StoredSession) -> None:
    node = held.leaf
    assert node is not None
    kind, data = store.read(node.oid)
    with store.transaction() as tx:
        other = tx.put(kind, data.replace(b"\n\nEntry: ", b"\n\n    more\n\nEntry: "))
        tx.move(refs.leaf(held.id, "side"), other, expected=None)


SESSIONS: dict[str, tuple[Callable[[ObjectStore, StoredSession], None], str]] = {
    "a branch from another root": (another_root, "but the session starts at"),
    "a message as a root": (a_message_as_root, "cannot start with an entry of kind 'message'"),
    "two sessions at one root": (two_sessions_at_one_root, "is not a fork of it"),
    "a beginning in the middle of a line": (a_second_beginning, "in the middle of a history"),
    "a compaction that keeps what is on another line": (kept_from_another_line, "is not in its history"),
    "a compaction that keeps what is nowhere": (kept_from_nowhere, "is not in its history"),
    "an agent's file that goes on nowhere": (an_agents_file_that_goes_on_nowhere, "continues from '7:gone'"),
    "an active branch of another session": (an_active_branch_of_another_session, "which is not a branch of session"),
    "an active branch that is an entry": (an_active_entry, "which is not a branch of session"),
    "an operation that names what is gone": (an_operation_that_names_what_is_gone, f"refers to {'1' * 40}"),
    "an entry in other bytes": (other_bytes_for_an_entry, "with different bytes"),
}


@pytest.mark.parametrize(("spoil", "words"), SESSIONS.values(), ids=SESSIONS)
def test_impossible_session_is_a_problem(
    store: ObjectStore, spoil: Callable[[ObjectStore, StoredSession], None], words: str
) -> None:
    held = begun(store, "one", "two")
    assert_clean(store)
    spoil(store, held)
    assert words in told(store)


# ---- the files of a checkpoint


def checkpoint(store: ObjectStore, held: StoredSession, files: Oid | None, **fields: object) -> Node:
    made = Checkpoint(**{"mode": "workspace", **fields})  # type: ignore[arg-type]
    parent = store.ref(refs.files(held.id)) or held.history()[0].oid
    return put(store, made, parent, refs.files(held.id), files)


def with_files(
    rows: Callable[[ObjectStore], dict[str, tuple[str, Oid]]],
) -> Callable[[ObjectStore, StoredSession], None]:
    return lambda store, held: checkpoint(store, held, tree(store, rows(store))) and None


def deep(store: ObjectStore) -> dict[str, tuple[str, Oid]]:
    at = tree(store, {"f": ("100644", blob(store))})
    for _ in range(70):
        at = tree(store, {"d": ("40000", at)})
    return {"d": ("40000", at)}


FILES: dict[str, tuple[Callable[[ObjectStore, StoredSession], None], str]] = {
    "git's own folder": (with_files(lambda store: {".git": ("40000", deep(store)["d"][1])}), "git's own folder"),
    "a way out": (with_files(lambda store: {"..": ("100644", blob(store))}), "files/..: "),
    "a name that nobody escaped": (with_files(lambda store: {"a:b": ("100644", blob(store))}), "files/a:b"),
    "an escape that is none": (with_files(lambda store: {"%zz%41": ("100644", blob(store))}), "not escaped as in"),
    "content that is gone": (with_files(lambda store: {"a": ("100644", "1" * 40)}), "is missing"),
    "a folder that is gone": (with_files(lambda store: {"a": ("40000", "1" * 40)}), "cannot be read"),
    "more folders than there can be": (with_files(deep), "folders deep"),
    "a listed path that leads out": (
        lambda store, held: checkpoint(store, held, None, mode="edited", paths=("../x",)) and None,
        "the checkpoint lists ../x",
    ),
    "a skipped path that leads out": (
        lambda store, held: checkpoint(store, held, None, skipped=((".git/config", "large"),)) and None,
        "the checkpoint lists .git",
    ),
    "a change where nobody looked": (
        lambda store, held: checkpoint(
            store, held, tree_of(store, {"a": "1", "b": "2"}), mode="edited", paths=("a",)
        ) and None,
        "'b' and 1 more changed, but the checkpoint does not list it",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("spoil", "words"), FILES.values(), ids=FILES)
def test_files_that_no_checkpoint_holds_are_a_problem(
    store: ObjectStore, spoil: Callable[[ObjectStore, StoredSession], None], words: str
) -> None:
    session = begun(store)
    held(store, session.id, {"a": "1", "d/größe": "2"}, session.leaf)
    assert told(store) == ""
    spoil(store, session)
    assert words in told(store)


def test_contents_that_a_clone_left_out_are_no_problem(tmp_path: Path) -> None:
    with on_disk(tmp_path / "store.git") as store:
        session = begun(store)
        checkpoint(store, session, tree(store, {"a": ("100644", "1" * 40)}))
        assert "is missing" in told(store)
        store.promised = lambda oid: None
        assert told(store) == ""


def test_exponentially_nested_tree_is_bounded(store: ObjectStore) -> None:
    session = begun(store)
    at = tree(store, {"f": ("100644", blob(store))})
    for _ in range(50):
        at = tree(store, {"a": ("40000", at), "b": ("40000", at)})
    checkpoint(store, session, at)
    assert told(store) == ""


def test_changed_or_deleted_edited_paths_are_valid(store: ObjectStore) -> None:
    session = begun(store)
    checkpoint(store, session, tree_of(store, {"a": "1", "d/b": "2"}), mode="edited", paths=("a", "d/b", "gone"))
    checkpoint(store, session, tree_of(store, {"a": "1", "d": "a file now"}), mode="edited", paths=("d/b", "d"))
    checkpoint(store, session, None, mode="edited", paths=("a", "d"))
    assert told(store) == ""


# ---- valid sessions


def test_fork_starts_on_a_branch_of_its_origin(store: ObjectStore) -> None:
    one = begun(store, "one", "two")
    one.append(Compaction(summary="s", first_kept=to_base64url(one.history()[1].chain)))
    two = fork(one)
    two.append(Compaction(summary="t", first_kept=to_base64url(one.history()[2].chain)))
    three = fork(two, two.history()[1])
    three.append(Message.user("on"))
    assert_clean(store)


def test_entries_behind_a_lost_one_are_not_reported() -> None:
    store = MemoryStore()
    session = begun(store, "one", "two", "three")
    first, lost = session.history()[1], session.history()[2]
    session.append(Compaction(summary="s", first_kept=to_base64url(first.chain)))
    del store._objects[lost.oid]
    for where in (found.where for found in entry_walk.verify(store).problems):
        assert where in (lost.oid, session.history_with_gaps()[3].oid)


def test_later_kinds_are_allowed_anywhere(store: ObjectStore) -> None:
    session = begun(store)
    later = kinds.UnknownEntry(name="telepathy", body={"wave": 7})
    for name in (refs.meta(session.id), refs.leaf(session.id)):
        put(store, later, store.ref(name), name)
    checkpoint(store, session, None)
    put(store, later, store.ref(refs.files(session.id)), refs.files(session.id))
    assert_clean(store)


# ---- notices


def odd(store: ObjectStore, sid: str) -> list[str]:
    report = entry_walk.verify(store, sid, notices=True)
    assert report.problems == []
    assert report.notices is not None
    assert {found.session for found in report.notices} <= {sid}
    return [found.what for found in report.notices]


def called(id: str, parent: str, call: str) -> bytes:
    content = [{"type": "toolCall", "id": call, "name": "bash", "arguments": {}}]
    return entry("message", id, parent, message={"role": "assistant", "content": content})


def answered(id: str, parent: str, call: str) -> bytes:
    message = {"role": "toolResult", "toolCallId": call, "toolName": "bash", "content": []}
    return entry("message", id, parent, message=message)


NOTICES = {
    "a call without a result": ([called("b", "a", "c1")], "the call 'c1' has no result"),
    "a result without a call": ([answered("b", "a", "c1")], "a result without an earlier call 'c1'"),
    "a result on another branch": (
        [called("b", "a", "c1"), said("c", "a"), answered("d", "c", "c1")], "a result without an earlier call 'c1'"
    ),
    "a label on nothing": ([label("b", "a", "gone", "x")], "label refers to 'gone', which is missing"),
    "an edit of nothing": (
        [entry("context_edit", "b", "a", targetId="gone", replacement=None)], "context_edit refers to 'gone'"
    ),
    "a compaction that keeps nothing that is there": (
        [entry("compaction", "b", "a", summary="s", firstKeptEntryId="gone", tokensBefore=1)],
        "'gone', is not in its history",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "words"), NOTICES.values(), ids=NOTICES)
def test_unusual_data_of_an_agent_is_a_notice(store: ObjectStore, lines: list[bytes], words: str) -> None:
    sid = bring(store, pi_file(said("a", None), *lines)).session
    assert words in "\n".join(odd(store, sid))


def test_regular_data_causes_no_notice(store: ObjectStore) -> None:
    lines = [*talk("a"), called("b", "a", "c1"), answered("c", "b", "c1"), label("d", "c", "b", "here")]
    lines += [said("e", "b"), answered("f", "e", "c1")]  # a second result of the same call, on another branch
    lines += [entry("compaction", "g", "f", summary="s", firstKeptEntryId="b", tokensBefore=1)]
    assert odd(store, bring(store, pi_file(*lines)).session) == []


def test_notice_about_shared_entries_is_reported_once(store: ObjectStore) -> None:
    lines = [said("a", None), called("b", "a", "c1"), said("x", "a"), called("d", "x", "c1")]
    lines += [label("e", "d", "gone", "x")]
    sid = bring(store, pi_file(*lines)).session
    fork(session(store, sid))
    report = entry_walk.verify(store, notices=True)
    assert sorted(found.what for found in report.notices or ()) == [
        "label refers to 'gone', which is missing", "the call 'c1' has no result"
    ]  # fmt: skip


def test_own_calls_without_results_are_reported_too(store: ObjectStore) -> None:
    session = begun(store, "hi")
    call = ToolCall(id="c1", name="bash")
    session.append(Message.assistant([call]))
    session.label("leaf", "here")
    assert odd(store, session.id) == ["the call 'c1' has no result"]
    session.append(Message.tool(call, "done"))
    assert odd(store, session.id) == []


def test_notices_are_off_by_default(store: ObjectStore) -> None:
    assert entry_walk.verify(store).notices is None


# ---- data of agents

REAL = shared_files("pi", "omp", "claude", "codex")


@pytest.mark.skipif(not SHARED.is_dir(), reason="session files that are not ours to give away")
@pytest.mark.parametrize("path", REAL, ids=lambda path: f"{path.parent.name}/{path.name}"[:60])
def test_sessions_of_real_agents_have_no_problems(path: Path) -> None:
    data = path.read_bytes()
    store = MemoryStore()
    if b"\n" not in data[:100_000] or len(data) > 4_000_000:
        pytest.skip("a malformed input, or a large one")
    sid = bring(store, data, name=path.stem).session
    assert_clean(store)
    tree = graph.tree(store, sid)
    meta = store.ref(refs.meta(sid))
    on_meta = {node.oid for node in graph.history(store, meta)} if meta else set()
    notices = entry_walk.verify(store, sid, notices=True).notices or []
    assert {found.where for found in notices} <= tree.nodes.keys() | on_meta


def test_problems_and_notices_depend_on_the_writer(store: ObjectStore) -> None:
    line = entry("compaction", "b", "a", summary="s", firstKeptEntryId="gone", tokensBefore=1)
    sid = bring(store, joined(header(), said("a", None), line)).session
    assert_clean(store)
    put(store, Compaction(summary="s", first_kept="gone"), store.ref(refs.leaf(sid)), refs.leaf(sid))
    assert "is not in its history" in told(store)
