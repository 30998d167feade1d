"""Tests of undo and redo within one folder or project: operations elsewhere are kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import Clock, assert_clean, pi_file, talk
from commands import Run, here, run

from gitsession import Message, NotFound, Refused, Session, Store
from gitsession.cli import exits
from gitsession.formats.pi.agent import pi

__all__ = ["here", "run"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git", clock=Clock()) as opened:
        yield opened
        assert_clean(opened.objects)


def held_in(store: Store, folder: Path) -> Session:
    folder.mkdir(parents=True, exist_ok=True)
    session = store.new_session(agent="mine", cwd=str(folder))
    session.append(Message.user("begun"))
    return session


def labels(session: Session) -> list[str]:
    return list(session.names().labels.values())


def test_a_second_undo_in_one_project_leaves_the_label_of_another(store: Store, tmp_path: Path):
    one, other = (held_in(store, tmp_path / name) for name in ("one", "other"))
    other.label("leaf", "theirs")
    one.label("leaf", "ours")
    store.undo(project=tmp_path / "one")
    with pytest.raises(NotFound, match="nothing to undo"):
        store.undo(project=tmp_path / "one")
    assert (labels(one), labels(other)) == ([], ["theirs"])
    store.undo()
    assert labels(other) == []


def test_later_operations_elsewhere_do_not_block_undo_and_redo(store: Store, tmp_path: Path):
    one, other = (held_in(store, tmp_path / name) for name in ("one", "other"))
    one.label("leaf", "ours")
    other.label("leaf", "theirs")
    store.undo(project=tmp_path / "one")
    assert (labels(one), labels(other)) == ([], ["theirs"])
    other.branch("side")
    store.redo(project=tmp_path / "one")
    assert (labels(one), labels(other)) == (["ours"], ["theirs"])
    store.undo(session=other.id)
    assert list(other.branches()) == ["main"]
    with pytest.raises(NotFound):
        store.redo(project=tmp_path / "one")
    store.redo(session=other.id)
    assert list(other.branches()) == ["main", "side"]


@pytest.mark.parametrize("command", ["remove", "fork", "import"])
def test_a_session_that_the_catalogue_no_longer_lists_is_still_of_its_project(
    store: Store, tmp_path: Path, command: str
):
    session = held_in(store, tmp_path / "one")
    held_in(store, tmp_path / "other")
    verb = store.undo
    if command == "remove":
        store.trash.put(session.id)
    elif command == "fork":
        session.fork()
    else:
        store.agents.import_data(pi, pi_file(*talk("a"), cwd=str(tmp_path / "one")))
    before = len(store.sessions())
    if command != "remove":
        store.undo(project=tmp_path / "one")
        verb = store.redo
    with pytest.raises(NotFound):
        verb(project=tmp_path / "other")
    verb(project=tmp_path / "one")
    assert len(store.sessions()) == before + (command == "remove")


def test_undo_of_a_command_that_changed_other_projects_too_is_rejected(store: Store, tmp_path: Path):
    for number, name in enumerate(("one", "other")):
        (tmp_path / name).mkdir()
        store.agents.import_data(pi, pi_file(*talk("a"), id=f"s{number}", cwd=str(tmp_path / name)), group="together")
    with pytest.raises(Refused, match="the command also changed") as refused:
        store.undo(project=tmp_path / "one")
    assert "--any" in (refused.value.hint or "")
    assert len(store.sessions()) == 2
    store.undo()
    assert store.sessions() == []


def test_command_line_scope_is_the_working_directory(
    run: Run, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GITSESSION_DIR", str(tmp_path / "store.git"))
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        held_in(store, tmp_path / "elsewhere").label("leaf", "theirs")
        sid = held_in(store, here).id
    run("name", sid, "Ours")
    assert "undone: name" in run("undo")
    told = run("undo", code=exits.NOT_FOUND, err=True)
    assert "nothing to undo" in told and "--any" in told
    assert "redone: name" in run("redo", sid)
    assert "undone: name" in run("undo", "@")
    assert "undone: label" in run("undo", "--any")
    run("undo", "@", "--any", code=exits.USAGE)


def test_undo_in_the_root_does_not_affect_folders_below(store: Store, tmp_path: Path):
    session = held_in(store, tmp_path / "one")
    session.label("leaf", "theirs")
    with pytest.raises(NotFound, match="nothing to undo"):
        store.undo(project="/")
    assert labels(session) == ["theirs"]


def test_undo_and_redo_of_a_rewound_conversation_name_the_branch_on_which_it_continues(store: Store, tmp_path: Path):
    session = held_in(store, tmp_path)
    session.append(Message.assistant("an answer"))
    prompt = session.append(Message.user("a second prompt"))
    rewound = session.files.rewind(session.files.plan_rewind(prompt, "conversation"))
    undone = store.undo()
    assert (undone.branch, undone.moved) == ("main", True)
    redone = store.redo()
    assert (redone.branch, redone.moved) == (rewound.branch, True)
    session.label("root", "first")
    label = store.undo()
    assert (label.branch, label.moved) == (rewound.branch, False)


def test_an_undone_branch_reads_no_other_branches(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    session = held_in(store, tmp_path)
    at = session.append(Message.user("a prompt"))
    for number in range(40):
        session.branch(f"b{number}", at)
        at = session.append(Message.assistant(f"answer {number}"))
    session.branch("one-more", at)
    read: list[str] = []
    plain = type(store.objects).read
    monkeypatch.setattr(type(store.objects), "read", lambda self, oid: read.append(oid) or plain(self, oid))
    store.undo()
    assert len(read) < 10
