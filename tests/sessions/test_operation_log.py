"""Tests of undo and redo: the refs of a command move back and forward, and later changes by others are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders import (
    STORES,
    Clock,
    all_refs,
    assert_clean,
    assert_git_agrees,
    begun,
    bring,
    exported,
    fork,
    git,
    labels_of,
    leaves,
    on_disk,
    pi_file,
    said,
    session,
    talk,
    title_of,
)

from gitsession.errors import NotFound, Refused
from gitsession.git.types import RefValue
from gitsession.importing.import_session import ImportResult
from gitsession.model.entries import Message
from gitsession.sessions import active_branch, operation_log
from gitsession.sessions import session as sessions
from gitsession.store import refs
from gitsession.store.interface import ObjectStore

CLOCK = Clock()


@pytest.fixture(params=STORES.values(), ids=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    with request.param(tmp_path / "store.git") as opened:
        yield opened
        assert_clean(opened)


def undo(store: ObjectStore) -> operation_log.Operation:
    return operation_log.apply_next(store, "undo", CLOCK())


def redo(store: ObjectStore) -> operation_log.Operation:
    return operation_log.apply_next(store, "redo", CLOCK())


def log_import(store: ObjectStore, *done: ImportResult) -> None:
    with store.transaction() as tx:
        operation_log.record(store, tx, "import", CLOCK(), [move for each in done for move in each.moves])


def state(store: ObjectStore) -> dict[str, RefValue]:
    """Return every ref except that of the log."""
    return {name: value for name, value in all_refs(store).items() if name != refs.OPLOG}


def commands(store: ObjectStore) -> list[str]:
    return [operation.command for operation in operation_log.history(store)]


LONG = talk("a", "b", "c", "d")


def import_new(store: ObjectStore, held: sessions.StoredSession) -> None:
    log_import(store, bring(store, pi_file(*LONG, id="new")))


def import_grown(store: ObjectStore, held: sessions.StoredSession) -> None:
    log_import(store, bring(store, pi_file(*LONG, said("x", "b"))))


def import_rewritten(store: ObjectStore, held: sessions.StoredSession) -> None:
    log_import(store, bring(store, pi_file(LONG[0], said("b", "a", "other"))))


COMMANDS: dict[str, Callable[[ObjectStore, sessions.StoredSession], object]] = {
    "branch": lambda store, held: held.branch("other"),
    "branch at an older entry": lambda store, held: held.branch("other", "leaf~1"),
    "switch": lambda store, held: held.switch("side"),
    "fork": lambda store, held: fork(held),
    "label": lambda store, held: held.label("leaf", "mark"),
    "rename": lambda store, held: held.rename("Title"),
    "import a new file": import_new,
    "import a file that grew": import_grown,
    "import a file that was rewritten": import_rewritten,
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_undo_and_redo_of_every_command(
    store: ObjectStore, command: Callable[[ObjectStore, sessions.StoredSession], object]
) -> None:
    held = begun(store, "one", "two", clock=CLOCK)
    held.branch("side")
    bring(store, pi_file(*LONG[:3]))
    before = state(store)
    command(store, held)
    after = state(store)
    assert after != before
    for _ in range(2):
        undo(store)
        assert state(store) == before
        assert_clean(store)
        redo(store)
        assert state(store) == after


def test_import_of_several_files_is_undone_at_once(store: ObjectStore) -> None:
    before = state(store)
    log_import(store, *(bring(store, pi_file(*LONG, id=id)) for id in "xyz"))
    undo(store)
    assert state(store) == before


def test_import_that_moved_a_ref_twice_is_undone(store: ObjectStore) -> None:
    before = state(store)
    log_import(store, bring(store, pi_file(*LONG[:2])), bring(store, pi_file(*LONG)))
    after = state(store)
    undo(store)
    assert state(store) == before
    redo(store)
    assert state(store) == after


def test_an_import_that_was_undone_can_be_imported_again(store: ObjectStore) -> None:
    done = bring(store, pi_file(*LONG))
    after = state(store)
    log_import(store, done)
    undo(store)
    assert bring(store, pi_file(*LONG)).new == 4
    assert state(store) == after
    assert exported(store, done.session) == pi_file(*LONG)


def test_commands_are_undone_newest_first_and_redone_in_order(store: ObjectStore) -> None:
    held = begun(store, clock=CLOCK)
    states = [state(store)]
    for name in ("a", "b", "c"):
        held.branch(name)
        states.append(state(store))
    for number in (2, 1, 0):
        undo(store)
        assert state(store) == states[number]
    for number in (1, 2, 3):
        redo(store)
        assert state(store) == states[number]


def test_undo_reads_the_log_only_back_to_its_operation(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    held = begun(store, clock=CLOCK)
    for number in range(40):
        held.branch(f"b{number}")
    read: list[str] = []
    load = operation_log.load
    monkeypatch.setattr(operation_log, "load", lambda store, oid: read.append(oid) or load(store, oid))
    for verb, operations in ((undo, 1), (undo, 3), (redo, 3), (undo, 5), (redo, 5)):
        read.clear()
        verb(store)
        assert len(read) <= operations
    held.branch("after")
    read.clear()
    undo(store)
    assert len(read) == 1


def test_files_of_one_import_are_undone_together(store: ObjectStore) -> None:
    def import_files(group: str, *ids: str) -> None:
        for id in ids:
            done = bring(store, pi_file(*LONG, id=id))
            with store.transaction() as tx:
                operation_log.record(store, tx, "import", CLOCK(), list(done.moves), group=group)

    states = [state(store)]
    for group, ids in (("g", "xyz"), ("h", "uvw")):
        import_files(group, *ids)
        states.append(state(store))
    for number in (1, 0):
        undo(store)
        assert state(store) == states[number]
    with pytest.raises(NotFound, match="undo"):
        undo(store)
    for number in (1, 2):
        redo(store)
        assert state(store) == states[number]
    undo(store)
    begun(store, clock=CLOCK).branch("apart")
    undo(store)
    undo(store)
    with pytest.raises(NotFound, match="undo"):
        undo(store)


def test_new_command_ends_redo(store: ObjectStore) -> None:
    held = begun(store, clock=CLOCK)
    held.branch("a")
    undo(store)
    held.branch("b")
    with pytest.raises(NotFound, match="redo"):
        redo(store)
    undo(store)
    with pytest.raises(NotFound, match="undo"):
        undo(store)


def test_with_nothing_done_there_is_nothing_to_undo_or_redo(store: ObjectStore) -> None:
    begun(store)
    for verb in (undo, redo):
        with pytest.raises(NotFound, match="nothing to"):
            verb(store)
    assert list(operation_log.history(store)) == []


def test_undo_keeps_a_branch_that_another_writer_extended(store: ObjectStore) -> None:
    held = begun(store, clock=CLOCK)
    held.branch("side")
    session(store, held.id, "side").append(Message.user("theirs"))
    before = all_refs(store)
    with pytest.raises(Refused, match=r"later changes to .* would be lost") as caught:
        undo(store)
    assert caught.value.hint
    assert all_refs(store) == before


def test_undo_of_an_import_keeps_its_continuation(store: ObjectStore) -> None:
    done = bring(store, pi_file(*LONG))
    log_import(store, done)
    session(store, done.session).append(Message.user("ours"))
    with pytest.raises(Refused) as caught:
        undo(store)
    assert caught.value.hint.endswith(f"run `gitsession rm {done.session}` to move the whole session to the trash")
    assert leaves(store, done.session) == {"main": "user: ours"}


def test_redo_keeps_a_branch_that_another_writer_created(store: ObjectStore) -> None:
    held = begun(store, clock=CLOCK)
    log_import(store, bring(store, pi_file(*LONG)))
    undo(store)
    bring(store, pi_file(*LONG[:1]))
    with pytest.raises(Refused):
        redo(store)
    assert held.leaf is not None


def test_append_on_another_branch_does_not_block_undo(store: ObjectStore) -> None:
    held = begun(store, clock=CLOCK)
    held.branch("side")
    held.append(Message.user("on main"))
    undo(store)
    assert leaves(store, held.id) == {"main": "user: on main"}


def test_title_and_label_are_restored_by_undo(store: ObjectStore) -> None:
    held = begun(store, clock=CLOCK)
    held.rename("one")
    held.rename("two")
    held.label("leaf", "mark")
    undo(store)
    assert labels_of(store, held.id) == {}
    undo(store)
    assert title_of(store, held.id) == "one"
    redo(store)
    assert title_of(store, held.id) == "two"


def test_undone_switch_returns_to_the_previous_branch(store: ObjectStore) -> None:
    held = begun(store, clock=CLOCK)
    held.branch("side")
    held.switch("side")
    held.switch("main")
    undo(store)
    assert active_branch.active(store, held.id) == "side"
    undo(store)
    assert active_branch.selected_branch(store, held.id) is None


def test_the_active_branch_that_was_undone_is_not_the_active_one(store: ObjectStore) -> None:
    held = begun(store, clock=CLOCK)
    held.branch("side")
    session(store, held.id, clock=CLOCK).switch("side")
    with store.transaction() as tx:
        tx.move(refs.leaf(held.id, "side"), None, expected=store.ref(refs.leaf(held.id, "side")))
    assert active_branch.active(store, held.id) == "main"


def test_operation_log_has_the_moved_refs(store: ObjectStore) -> None:
    held = begun(store, clock=CLOCK)
    held.branch("side")
    undone = undo(store)
    redo(store)
    assert commands(store) == [
        f"redo: branch {held.id} side",
        f"undo: branch {held.id} side",
        f"branch {held.id} side",
    ]
    newest, second, first = operation_log.history(store)
    assert (newest.redoes, second.undoes, undone.id) == (first.id, first.id, first.id)
    leaf = held.leaf
    assert first.moves == (operation_log.Move(refs.leaf(held.id, "side"), None, leaf.oid if leaf else None),)


def test_a_command_that_fails_is_not_in_the_log(store: ObjectStore) -> None:
    held = begun(store, clock=CLOCK)
    with pytest.raises(Refused):
        held.branch("main")
    assert commands(store) == []


def test_undo_overtaken_by_another_command_undoes_that_one(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    held = begun(store, clock=CLOCK)
    held.branch("first")
    look = operation_log._next_unit
    overtaking = ["second"]

    def overtaken(*what: object) -> object:
        found = look(*what)  # type: ignore[arg-type]
        if overtaking:
            held.branch(overtaking.pop())
        return found

    monkeypatch.setattr(operation_log, "_next_unit", overtaken)
    undo(store)
    assert sorted(held.branches()) == ["first", "main"]
    undo(store)
    assert sorted(held.branches()) == ["main"]


def test_undone_entries_survive_gits_garbage_collection(tmp_path: Path) -> None:
    with on_disk(tmp_path / "store.git") as store:
        done = bring(store, pi_file(*LONG))
        log_import(store, done)
        gone = [move.new for move in done.moves if move.new]
        undo(store)
        git(store, "-c", "gc.pruneExpire=now", "gc", "--prune=now", "--quiet")
        assert_git_agrees(store)
        assert [git(store, "cat-file", "-t", oid).strip() for oid in gone] == ["commit"] * len(gone)
    with on_disk(tmp_path / "store.git") as store:
        redo(store)
        assert exported(store, done.session) == pi_file(*LONG)
        assert_git_agrees(store)


def test_fork_with_a_branch_before_its_fork_point_is_not_undone(store):
    """Without `main`, which has the `fork` entry, the other branches would begin like the original session."""
    side = fork(begun(store))
    [*_, before, _] = side.history()
    side.append(Message.user("beside"), expected=before, on_moved="fork")
    held = all_refs(store)
    with pytest.raises(Refused, match=f"session {side.id} would have branch"):
        undo(store)
    assert all_refs(store) == held
