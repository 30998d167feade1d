"""Tests of rewind: files and conversation are restored, and only the session's changes are undone."""

from __future__ import annotations

import errno
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from builders import Clock
from rewound import fill, git_in, put, repository, snapshot, take_away, talk, told

from gitsession.api import Session, Store
from gitsession.checkpoints import intents, rewinding, undoing
from gitsession.errors import Corrupt, InvalidName, MissingObject, NotFound, Refused, Unavailable
from gitsession.model import entries as kinds
from gitsession.model.blocks import ToolCall, text
from gitsession.model.entries import Message
from gitsession.sessions.node import Node
from gitsession.store import refs
from gitsession.store.git_store import GitStore
from gitsession.workspace import trees


@pytest.fixture
def store(tmp_path):
    with Store.create(tmp_path / "store.git", clock=Clock()) as made:
        yield made


@pytest.fixture
def folder(tmp_path):
    return fill(tmp_path / "work", {"a.txt": "one\n", "src/b.txt": "bee\n", "notes.md": "mine\n"})


def turn(session: Session, folder: Path, *edits: tuple[str, str | None], said: str = "do it") -> Node:
    """Add a turn with a call that edits files (``None`` deletes a file). Return the entry of its result."""
    session.append(Message.user(said))
    call = ToolCall(f"call-{len(session.history())}", "bash", {})
    session.append(Message.assistant([text("I will."), call]))
    with session.files.checkpoint(folder, call=call.id):
        for name, content in edits:
            if content is None:
                take_away(folder / name)
            else:
                put(folder, name, content)
    return session.append(Message.tool(call, "done"))


def words(session: Session) -> list[str]:
    return [node.subject for node in session.history()]


def planned(plan) -> dict[str, str]:
    return {change.path: f"{change.action}: {change.reason}" for change in plan.changes}


def what_became(done) -> dict[str, str]:
    return {one.path: one.action for one in done.outcomes}


def test_second_plan_does_not_read_the_folders_of_the_first_again(store, folder, monkeypatch):
    session = store.new_session(agent="pi", cwd=str(folder))
    turn(session, folder, ("a.txt", "two\n"), ("src/b.txt", "wasp\n"))
    read = []
    real = trees._level
    monkeypatch.setattr(trees, "_level", lambda objects, tree: (read.append(tree), real(objects, tree))[1])
    plans = []
    for _ in range(2):
        plans.append(session.files.plan_rewind("leaf~2", "files", workspace=folder))
        read.append("end")
    assert planned(plans[0]) == planned(plans[1]) != {}
    assert read.index("end") == len(read) - 2 > 0


def stored_twice(store: Store, run) -> set[str]:
    """Return the objects that ``run`` writes although the store has them."""
    store.flush()
    before = set(store.objects.oids())
    run()
    return before & store.objects._tailed().pending_objects().keys()


def test_rewind_and_undo_write_no_content_and_no_folder_that_the_store_has(store, folder):
    session = store.new_session(agent="pi", cwd=str(folder))
    turn(session, folder, ("a.txt", "two\n"), ("src/b.txt", "wasp\n"), ("new/c/d.txt", "see\n"))
    plan = session.files.plan_rewind("leaf~2", "files", workspace=folder)
    assert not stored_twice(store, lambda: session.files.rewind(plan))
    assert (folder / "src/b.txt").read_text() == "bee\n"
    assert not stored_twice(store, lambda: store.undo(folder))
    assert (folder / "src/b.txt").read_text() == "wasp\n"
    assert not stored_twice(store, lambda: store.redo(folder))


def test_rewind_stores_a_content_again_that_the_store_cannot_read(store, folder, monkeypatch):
    session = store.new_session(agent="pi", cwd=str(folder))
    turn(session, folder, ("a.txt", "two\n"), ("src/b.txt", "wasp\n"))
    plan = session.files.plan_rewind("leaf~2", "files", workspace=folder)
    lost = session.files.at()["a.txt"]
    real = GitStore.read_all
    monkeypatch.setattr(
        GitStore, "read_all", lambda objects, oids: (found for found in real(objects, oids) if found[0] != lost)
    )
    assert stored_twice(store, lambda: session.files.rewind(plan)) == {lost}


def test_files_and_conversation_are_rewound_together(store, folder):
    session = talk(store, folder)
    before = snapshot(folder)
    place = session.leaf
    turn(session, folder, ("a.txt", "two\n"), ("src/b.txt", None), ("new/c.txt", "see\n"))
    old = session.branch_name
    done = session.files.rewind(session.files.plan_rewind(place))
    assert snapshot(folder) == before
    assert not (folder / "new").exists(), "a folder that the session made goes when it is empty"
    assert what_became(done) == {"a.txt": "written", "src/b.txt": "written", "new/c.txt": "removed"}
    assert done.branch != old
    assert session.leaf.oid == session.history()[0].oid, "of what the user said, the talk goes on before it"


def test_address_in_place_of_a_plan_is_rejected(store, folder):
    session = talk(store, folder)
    with pytest.raises(TypeError, match=r"plan_rewind\(entry\)"):
        session.files.rewind("leaf")


def test_prompt_is_returned_for_editing(store, folder):
    session = talk(store, folder)
    turn(session, folder, ("a.txt", "two\n"))
    asked = session.append(Message.user("now the other thing, please\nand quickly"))
    plan = session.files.plan_rewind(asked)
    assert plan.prompt == "now the other thing, please\nand quickly"
    assert session.files.rewind(plan).prompt == plan.prompt
    assert words(session)[-1] == "tool bash: 1 line"
    assert (folder / "a.txt").read_text() == "two\n", "what was done before it was said stays"


def test_answer_is_kept_and_its_calls_are_undone(store, folder):
    session = talk(store, folder)
    turn(session, folder, ("a.txt", "two\n"))
    answer = session.resolve("leaf~1")
    done = session.files.rewind(session.files.plan_rewind(answer))
    assert (folder / "a.txt").read_text() == "one\n"
    assert done.prompt is None
    assert session.leaf == answer


def test_old_branch_is_kept_and_can_be_restored(store, folder):
    session = talk(store, folder)
    turn(session, folder, ("a.txt", "two\n"))
    last = turn(session, folder, ("a.txt", "three\n"), ("d.txt", "dee\n"))
    after = snapshot(folder)
    session.files.rewind(session.files.plan_rewind("leaf~3"))
    turn(session, folder, ("a.txt", "four\n"), ("e.txt", "eee\n"), said="another way")
    assert (folder / "a.txt").read_text() == "four\n"
    done = session.files.rewind(session.files.plan_rewind(last))
    assert done.branch == refs.MAIN
    assert snapshot(folder) == after


def test_later_changes_of_the_user_are_kept_and_reported(store, folder):
    session = talk(store, folder)
    place = session.leaf
    turn(session, folder, ("a.txt", "two\n"), ("src/b.txt", "b2\n"), ("c.txt", "see\n"))
    put(folder, "a.txt", "the user's\n")
    put(folder, "c.txt", "the user's\n")
    put(folder, "own.txt", "the user's\n")
    plan = session.files.plan_rewind(place)
    assert {change.path: change.action for change in plan.changes} == {
        "a.txt": "conflict",
        "c.txt": "leave",
        "src/b.txt": "write",
    }
    session.files.rewind(plan)
    assert (folder / "a.txt").read_text() == (folder / "c.txt").read_text() == "the user's\n"
    assert (folder / "own.txt").read_text() == "the user's\n"
    assert (folder / "src/b.txt").read_text() == "bee\n"


def test_forced_rewind_overwrites_changes_of_the_user_and_undo_restores_them(store, folder):
    session = talk(store, folder)
    place = session.leaf
    turn(session, folder, ("a.txt", "two\n"), ("c.txt", "see\n"))
    put(folder, "a.txt", "the user's\n")
    put(folder, "c.txt", "the user's\n")
    put(folder, "own.txt", "the user's\n")
    before = snapshot(folder)
    session.files.rewind(session.files.plan_rewind(place, force=True))
    assert (folder / "a.txt").read_text() == "one\n"
    assert not (folder / "c.txt").exists()
    assert (folder / "own.txt").exists()
    store.undo()
    assert snapshot(folder) == before


def test_earlier_changes_of_the_user_are_kept(store, folder):
    session = talk(store, folder)
    turn(session, folder, ("src/b.txt", "b2\n"))
    place = session.append(Message.user("wait"))
    put(folder, "a.txt", "the user's\n")
    turn(session, folder, ("a.txt", "the session's\n"))
    session.files.rewind(session.files.plan_rewind(place))
    assert (folder / "a.txt").read_text() == "the user's\n"


def test_undo_brings_back_the_very_state_before_and_redo_the_one_after(store, folder):
    session = talk(store, folder)
    place = session.leaf
    turn(session, folder, ("a.txt", "two\n"), ("src/b.txt", None), ("new/c.txt", "see\n"))
    put(folder, "notes.md", "mine, changed\n")
    before, talked = snapshot(folder), words(session)
    session.files.rewind(session.files.plan_rewind(place))
    after = snapshot(folder)
    store.undo()
    assert snapshot(folder) == before
    assert words(store.session(session.id)) == talked
    store.redo()
    assert snapshot(folder) == after
    store.undo()
    assert snapshot(folder) == before


def test_misspelled_part_is_rejected(store, folder):
    session = talk(store, folder)
    with pytest.raises(InvalidName, match="files"):
        session.files.plan_rewind("root", "fils")


def test_a_link_that_no_undo_could_bring_back_stays_unless_forced(store, folder):
    session = talk(store, folder)
    place = session.leaf
    with session.files.checkpoint(folder):
        os.symlink("/etc/hostname", folder / "out")
        put(folder, "a.txt", "two\n")
    before = snapshot(folder)
    plan = session.files.plan_rewind(place)
    assert planned(plan)["out"].startswith("leave: a link to an absolute path"), "the plan says what will be"
    assert what_became(session.files.rewind(plan)) == {"a.txt": "written", "out": "left"}
    store.undo()
    assert snapshot(folder) == before
    session = session.on("main")
    session.files.rewind(session.files.plan_rewind(place, force=True))
    assert not os.path.lexists(folder / "out")


def test_link_that_is_never_created_is_in_the_plan(store, folder):
    os.symlink("/etc/hostname", folder / "out")
    session = talk(store, folder)
    place = session.leaf
    with session.files.checkpoint(folder):
        take_away(folder / "out")
    assert planned(session.files.plan_rewind(place)) == {"out": "leave: a link to an absolute path"}


def test_undo_keeps_changes_after_the_rewind(store, folder):
    session = talk(store, folder)
    place = session.leaf
    turn(session, folder, ("a.txt", "two\n"), ("c.txt", "see\n"))
    session.files.rewind(session.files.plan_rewind(place))
    put(folder, "a.txt", "the user's\n")
    done = store.undo()
    assert what_became(done) == {"a.txt": "left", "c.txt": "written"}
    assert (folder / "a.txt").read_text() == "the user's\n"


def test_undo_after_new_messages_is_rejected_without_changing_files(store, folder):
    session = talk(store, folder)
    place = session.leaf
    turn(session, folder, ("a.txt", "two\n"))
    session.files.rewind(session.files.plan_rewind(place))
    session.append(Message.user("on"))
    before = snapshot(folder)
    with pytest.raises(Refused):
        store.undo()
    assert snapshot(folder) == before


def test_rewind_of_only_the_files(store, folder):
    session = talk(store, folder)
    place = session.leaf
    turn(session, folder, ("a.txt", "two\n"))
    talked, branch = words(session), session.branch_name
    done = session.files.rewind(session.files.plan_rewind(place, "files"))
    assert (folder / "a.txt").read_text() == "one\n"
    assert (words(session), session.branch_name, done.prompt, done.moved) == (talked, branch, None, False)
    store.undo()
    assert (folder / "a.txt").read_text() == "two\n"


def test_rewind_of_only_the_conversation(store, folder):
    session = talk(store, folder)
    place = session.leaf
    turn(session, folder, ("a.txt", "two\n"))
    session.files.rewind(session.files.plan_rewind(place, "conversation"))
    assert (folder / "a.txt").read_text() == "two\n"
    assert len(words(session)) == 1
    store.undo()
    assert len(words(store.session(session.id))) == 5


def test_handle_of_an_undone_rewind_raises_and_another_branch_is_available(store, folder):
    session = talk(store, folder)
    place = session.leaf
    turn(session, folder, ("a.txt", "two\n"))
    session.files.rewind(session.files.plan_rewind(place, "conversation"))
    store.undo()
    for read in (session.history, session.context, lambda: session.leaf, lambda: session.append(Message.user("on"))):
        with pytest.raises(NotFound, match="has no branch"):
            read()
    assert len(words(session.on("main"))) == 5


def test_rewind_restores_the_files_from_when_the_conversation_continued_without_them(store, folder):
    session = talk(store, folder)
    place = session.leaf
    turn(session, folder, ("a.txt", "two\n"))
    session.files.rewind(session.files.plan_rewind(place, "conversation"))
    asked = session.append(Message.user("on from here"))
    turn(session, folder, ("a.txt", "three\n"))
    answered = session.append(Message.assistant("so"))
    turn(session, folder, ("a.txt", "four\n"))
    session.files.rewind(session.files.plan_rewind(answered))
    assert (folder / "a.txt").read_text() == "three\n"
    del asked


def test_session_without_checkpoints_rewinds_its_conversation(store, folder):
    session = talk(store, folder, "hi", "more")
    done = session.files.rewind(session.files.plan_rewind("leaf"))
    assert (done.prompt, done.outcomes) == ("more", ())
    with pytest.raises(NotFound, match="no checkpoints"):
        session.files.plan_rewind("leaf", "files", workspace=folder)


def test_rewind_to_the_current_tip_does_nothing(store, folder):
    session = talk(store, folder)
    last = turn(session, folder, ("a.txt", "two\n"))
    plan = session.files.plan_rewind(last)
    assert plan.is_empty
    assert not session.files.rewind(plan).moved
    assert store.operations() == []


def test_a_plan_writes_nothing(store, folder):
    session = talk(store, folder)
    place = session.leaf
    turn(session, folder, ("a.txt", "two\n"))
    before, held = snapshot(folder), dict(store.objects.refs("refs/"))
    session.files.plan_rewind(place)
    assert snapshot(folder) == before
    assert dict(store.objects.refs("refs/")) == held


def test_links_modes_and_binary_files_are_restored(store, folder):
    put(folder, "run.sh", "#!/bin/sh\n", kind="executable")
    put(folder, "link", "a.txt", kind="link")
    put(folder, "image.bin", bytes(range(256)) * 10)
    put(folder, b"odd \xff\n:name", "odd")
    before = snapshot(folder)
    session = talk(store, folder)
    place = session.leaf
    with session.files.checkpoint(folder):
        put(folder, "run.sh", "#!/bin/sh\n")
        put(folder, "link", "a file now")
        put(folder, "image.bin", b"\0")
        put(folder, b"odd \xff\n:name", "odder")
        put(folder, "a.txt", "src/b.txt", kind="link")
        put(folder, "src", "a file where a folder was")
    session.append(Message.assistant("done"))
    after = snapshot(folder)
    session.files.rewind(session.files.plan_rewind(place))
    assert snapshot(folder) == before
    store.undo()
    assert snapshot(folder) == after


def test_only_permissions_that_git_records_are_restored(store, folder):
    session = talk(store, folder)
    place = session.leaf
    (folder / "a.txt").chmod(0o600)
    session.append(Message.user("do it"))
    with session.files.checkpoint(folder, call="one"):
        (folder / "a.txt").write_text("two\n")
        put(folder, "secret.txt", "key\n")
        (folder / "secret.txt").chmod(0o600)
    old = os.umask(0o022)
    try:
        session.files.rewind(session.files.plan_rewind(place, "files"))
        assert (folder / "a.txt").stat().st_mode & 0o777 == 0o600
        store.undo()
    finally:
        os.umask(old)
    assert {name: (folder / name).stat().st_mode & 0o777 for name in ("a.txt", "secret.txt")} == {
        "a.txt": 0o600,
        "secret.txt": 0o644,
    }


def test_empty_folder_is_attributed_to_nobody(store, folder):
    session = talk(store, folder)
    place = session.leaf
    (folder / "empty").mkdir()
    turn(session, folder, ("empty/first.txt", "session's\n"))
    session.files.rewind(session.files.plan_rewind(place, "files"))
    assert not (folder / "empty").exists()
    store.undo()
    assert (folder / "empty/first.txt").read_text() == "session's\n"


def test_changes_of_another_session_are_kept(store, folder):
    ours, theirs = talk(store, folder, "ours"), talk(store, folder, "theirs")
    place = theirs.leaf
    turn(ours, folder, ("a.txt", "ours\n"))
    turn(theirs, folder, ("src/b.txt", "theirs\n"))
    turn(ours, folder, ("c.txt", "ours\n"))
    turn(theirs, folder, ("d.txt", "theirs\n"))
    theirs.files.rewind(theirs.files.plan_rewind(place))
    assert (folder / "a.txt").read_text() == (folder / "c.txt").read_text() == "ours\n"
    assert (folder / "src/b.txt").read_text() == "bee\n"
    assert not (folder / "d.txt").exists()


def test_changes_that_two_sessions_claim_at_once_are_kept(store, folder):
    ours, theirs = talk(store, folder, "ours"), talk(store, folder, "theirs")
    place = ours.leaf
    with ours.files.checkpoint(folder):
        with theirs.files.checkpoint(folder):
            put(folder, "c.txt", "theirs\n")
        put(folder, "a.txt", "ours\n")
    ours.append(Message.assistant("done"))
    done = ours.files.rewind(ours.files.plan_rewind(place))
    assert what_became(done) == {"a.txt": "written", "c.txt": "left"}
    assert (folder / "c.txt").read_text() == "theirs\n"


def test_fork_undoes_its_own_changes_and_not_later_ones_of_its_origin(store, folder):
    elder = talk(store, folder)
    turn(elder, folder, ("a.txt", "two\n"))
    fork = elder.fork()
    place = fork.leaf
    turn(elder, folder, ("c.txt", "the elder's\n"))
    turn(fork, folder, ("src/b.txt", "the fork's\n"))
    fork.files.rewind(fork.files.plan_rewind(place))
    assert (folder / "a.txt").read_text() == "two\n"
    assert (folder / "src/b.txt").read_text() == "bee\n"
    assert (folder / "c.txt").read_text() == "the elder's\n"


def test_two_rewinds_at_one_time_are_as_one(store, folder):
    session = talk(store, folder)
    place = session.leaf
    turn(session, folder, *((f"{n}.txt", f"{n}\n") for n in range(20)))
    before = snapshot(folder)
    plans = [store.session(session.id).files.plan_rewind(place) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(store.session(session.id).files.rewind, plans))
    assert sorted(set(what_became(one).values()) == {"removed"} for one in done) == [False, True]
    assert store.unfinished() == []
    while snapshot(folder) != before:
        store.undo()
    assert store.verify().problems == []


def test_paths_changed_after_the_plan_are_left(store, folder):
    session = talk(store, folder)
    place = session.leaf
    turn(session, folder, ("a.txt", "two\n"), ("c.txt", "see\n"))
    plan = session.files.plan_rewind(place)
    put(folder, "a.txt", "meanwhile\n")
    assert what_became(session.files.rewind(plan)) == {"a.txt": "left", "c.txt": "removed"}
    assert (folder / "a.txt").read_text() == "meanwhile\n"


def test_second_rewind_is_rejected_with_the_name_of_the_unfinished_one(store, folder, monkeypatch):
    session = talk(store, folder)
    place = session.leaf
    turn(session, folder, ("a.txt", "two\n"), ("c.txt", "see\n"))
    before = snapshot(folder)
    plan = session.files.plan_rewind(place)
    with monkeypatch.context() as broken:
        broken.setattr(rewinding, "restore", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            session.files.rewind(plan)
    assert [word for word in store.unfinished() if "rewind" in word and str(folder) in word]
    with pytest.raises(Refused, match=r"cannot write files: an earlier command, .*, was interrupted"):
        session.files.rewind(session.files.plan_rewind(place))
    assert snapshot(folder) == before
    assert {one.action for one in session.files.abort_rewind().outcomes} == {"written"}
    assert (snapshot(folder), store.unfinished()) == (before, [])
    with pytest.raises(NotFound, match="no interrupted rewind"):
        session.files.finish_rewind()


def test_interrupted_rewind_is_finished_in_a_moved_folder(store, folder, monkeypatch):
    session = talk(store, folder)
    place = session.leaf
    turn(session, folder, ("a.txt", "two\n"))
    with monkeypatch.context() as broken:
        broken.setattr(rewinding, "restore", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            session.files.rewind(session.files.plan_rewind(place))
    moved = folder.rename(folder.parent / "moved")
    session.files.finish_rewind(moved)
    assert (moved / "a.txt").read_text() == "one\n"
    assert store.unfinished() == []


def test_calls_that_run_side_by_side_are_all_the_sessions(store, folder):
    session = talk(store, folder)
    place = session.leaf
    with session.files.checkpoint(folder, call="one"):
        put(folder, "a.txt", "one's\n")
        with session.files.checkpoint(folder, call="two"):
            put(folder, "c.txt", "two's\n")
    session.append(Message.assistant("done"))
    session.files.rewind(session.files.plan_rewind(place))
    assert (folder / "a.txt").read_text() == "one\n"
    assert not (folder / "c.txt").exists()


def test_with_named_paths_only_those_are_looked_at(store, folder):
    session = talk(store, folder)
    place = session.leaf
    with session.files.checkpoint(folder, paths=["a.txt", "new.txt"]):
        put(folder, "a.txt", "two\n")
        put(folder, "new.txt", "new\n")
        put(folder, "src/b.txt", "somebody else's\n")
    session.append(Message.assistant("done"))
    assert set(session.files.at()) == {"a.txt", "new.txt"}
    session.files.rewind(session.files.plan_rewind(place))
    assert (folder / "a.txt").read_text() == "one\n"
    assert not (folder / "new.txt").exists()
    assert (folder / "src/b.txt").read_text() == "somebody else's\n"


def test_failed_call_is_captured_too(store, folder):
    session = talk(store, folder)
    with pytest.raises(ZeroDivisionError), session.files.checkpoint(folder):
        put(folder, "a.txt", "half\n")
        _ = 1 / 0
    assert session.files.at().read("a.txt") == b"half\n"


def test_hooks_look_before_and_after(store, folder):
    session = talk(store, folder)
    place = session.leaf
    session.files.take_checkpoint("before", folder, call="c1")
    put(folder, "a.txt", "two\n")
    session.files.take_checkpoint("after", folder, call="c1", reason="bash: edit")
    session.append(Message.assistant("done"))
    assert [change.path for change in session.files.diff(place)] == ["a.txt"]
    session.files.rewind(session.files.plan_rewind(place))
    assert (folder / "a.txt").read_text() == "one\n"


def test_on_a_clone_of_the_store_and_in_a_folder_that_was_moved(tmp_path, folder):
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        session = talk(store, folder)
        place = session.leaf
        turn(session, folder, ("a.txt", "two\n"), ("c.txt", "see\n"))
        sid = session.id
    clone, moved = tmp_path / "clone.git", tmp_path / "elsewhere"
    git_in(tmp_path, "clone", "-q", "--mirror", str(tmp_path / "store.git"), str(clone))
    shutil.move(folder, moved)
    with Store.open(clone) as store:
        session = store.session(sid)
        with pytest.raises(NotFound, match="does not exist"):
            session.files.plan_rewind(place.oid)
        session.files.rewind(session.files.plan_rewind(place.oid, workspace=moved))
        assert (moved / "a.txt").read_text() == "one\n"
        assert not (moved / "c.txt").exists()
        store.undo(moved)
        assert (moved / "a.txt").read_text() == "two\n"
        assert store.verify().problems == []


def test_users_own_repository_is_unchanged(store, tmp_path):
    folder = repository(tmp_path / "repo")
    put(folder, "ignored/build.log", "log\n")
    before = told(folder)
    session = talk(store, folder)
    place = session.leaf
    turn(session, folder, ("tracked.txt", "agent\n"), ("new.txt", "new\n"), ("ignored/build.log", "another\n"))
    session.files.rewind(session.files.plan_rewind(place))
    assert told(folder) == before
    assert (folder / "tracked.txt").read_text() == "tracked\n"
    assert (folder / "ignored/build.log").read_text() == "another\n", "what is ignored is nobody's business"
    store.undo()
    assert told(folder) == before


def test_verify_and_git_find_nothing_wrong_after_all_of_it(store, folder):
    session = talk(store, folder)
    place = session.leaf
    turn(session, folder, ("a.txt", "two\n"))
    session.files.rewind(session.files.plan_rewind(place))
    store.undo()
    store.redo()
    assert store.verify().problems == []


def test_a_file_that_was_not_shown_before_is_not_the_sessions(store, folder):
    git_in(folder, "init", "-q")
    put(folder, ".gitignore", "secret.txt\n")
    put(folder, "secret.txt", "the user's\n")
    session = talk(store, folder)
    place = session.leaf
    turn(session, folder, (".gitignore", ""))
    assert "secret.txt" in session.files.at()
    session.files.rewind(session.files.plan_rewind(place))
    assert (folder / "secret.txt").read_text() == "the user's\n"
    assert (folder / ".gitignore").read_text() == "secret.txt\n"


def test_a_plan_of_another_session_is_not_carried_out(store, folder):
    ours, theirs = talk(store, folder, "ours"), talk(store, folder, "theirs")
    with pytest.raises(ValueError, match="the plan is for session"):
        ours.files.rewind(theirs.files.plan_rewind("leaf"))


def test_undo_does_nothing_if_the_checkpoint_of_the_rewind_is_lost(store, folder, monkeypatch):
    session = talk(store, folder)
    place = session.leaf
    turn(session, folder, ("a.txt", "two\n"))
    session.files.rewind(session.files.plan_rewind(place))
    held = dict(store.objects.refs("refs/"))
    monkeypatch.setattr(undoing, "entry_of", lambda *_: kinds.Opaque(problem="lost"))
    with pytest.raises(Corrupt):
        store.undo()
    assert dict(store.objects.refs("refs/")) == held
    assert (folder / "a.txt").read_text() == "one\n"


def test_damaged_checkpoints_do_not_stop_the_conversation_and_rewind_names_the_loss(tmp_path, folder):
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        session = talk(store, folder)
        turn(session, folder, ("a.txt", "two\n"))
        newest = store.objects.ref(refs.files(session.id))
        kept = store.objects.read

        def read(oid: str):
            if oid == newest:
                raise MissingObject(f"no object {oid}")
            return kept(oid)

        store.objects.read = read
        try:
            session.append(Message.user("on"))
            with pytest.raises(MissingObject):
                session.files.plan_rewind("leaf")
        finally:
            del store.objects.read


def test_a_later_release_s_session_gets_no_checkpoints(store, folder):
    session = talk(store, folder)
    session._session._view = 99
    with pytest.raises(Refused, match="later release"):
        session.files.take_checkpoint("before", folder)


def test_names_and_contents_that_are_not_text_are_kept(store, tmp_path):
    folder = fill(tmp_path / os.fsdecode(b"odd \xff"), {"a.txt": "one\n"})
    session = store.new_session(agent="agent")
    session.append(Message.user("hi"))
    answer = session.append(Message.assistant("so"))
    with session.files.checkpoint(folder, call="half \ud800", reason="half \udfff"):
        put(folder, "a.txt", "two\n")
    session.files.rewind(session.files.plan_rewind(answer, workspace=folder))
    assert (folder / "a.txt").read_text() == "one\n"
    store.undo(folder)
    assert (folder / "a.txt").read_text() == "two\n"
    assert store.verify().problems == []


def test_full_disk_is_reported_and_no_file_is_changed(store, folder, monkeypatch):
    session = talk(store, folder)
    place = session.leaf
    turn(session, folder, ("a.txt", "two\n"))
    before = snapshot(folder)

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    plan = session.files.plan_rewind(place, "files")
    with monkeypatch.context() as patched:
        patched.setattr(intents.durable, "replace", full)
        with pytest.raises(Unavailable, match="No space"):
            session.files.rewind(plan)
    assert snapshot(folder) == before
    session.files.rewind(session.files.plan_rewind(place, "files"))
    assert (folder / "a.txt").read_text() == "one\n"
