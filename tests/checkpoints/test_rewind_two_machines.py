"""Tests of two machines with one session, each with its own checkpoints: a rewind uses those of the entry's machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import Clock
from remotes import hub
from rewound import fill, put, snapshot

from gitsession.api import Session, Store
from gitsession.model.entries import Message
from gitsession.sessions.node import Node
from gitsession.store import refs


class Machine:
    """A store, and the folder in which the session runs on this machine."""

    def __init__(self, name: str, folder: Path, clock: Clock, url: Path, work: Path) -> None:
        self.name, self.work = name, fill(work, {"a.txt": "as it began\n"})
        self.store = Store.create(folder / f"{name}.git", clock=clock)
        self.store.remotes.add("origin", str(url))

    @property
    def session(self) -> Session:
        return self.store.session(self.store.sessions()[0].sid)

    def turn(self, content: str) -> Node:
        """Add a prompt, a call that edits a file, and an answer. Return the answer."""
        self.session.append(Message.user(f"write {content}"))
        with self.session.files.checkpoint(self.work, call=content):
            put(self.work, "a.txt", content)
        return self.session.append(Message.assistant(f"{content} it is"))

    def rewound(self, at: Node, work: Path) -> str:
        """Rewind the files of ``work`` to an entry and return the content of the file."""
        node = self.session.resolve(at.oid)
        self.session.files.rewind(self.session.files.plan_rewind(node, "files", workspace=work))
        return (work / "a.txt").read_text()


class Two:
    """Two machines, of which ``a`` published first. ``said`` has the entries of each in order."""

    def __init__(self, tmp_path: Path, works: tuple[Path, Path]) -> None:
        clock, url = Clock(), hub(tmp_path / "hub.git")
        self.a, self.b = (Machine(name, tmp_path, clock, url, work) for name, work in zip("ab", works, strict=True))
        begun = self.a.store.new_session(agent="agent", cwd=str(self.a.work))
        begun.append(Message.user("hi"))
        for machine in (self.a, self.b):
            machine.store.remotes.sync()
        self.said = {"a": [self.a.turn("a1")], "b": [self.b.turn("b1")]}
        for machine, others in ((self.a, "a"), (self.b, "b")):
            self.said[others].append(machine.turn(f"{others}2"))
        for machine in (self.a, self.b, self.a):
            machine.store.remotes.sync()

    def close(self) -> None:
        self.a.store.close()
        self.b.store.close()


@pytest.fixture
def two(tmp_path):
    made = Two(tmp_path, (tmp_path / "work-a", tmp_path / "work-b"))
    yield made
    made.close()


def test_each_machine_continues_its_own_checkpoint_branch(two):
    names = {name for machine in (two.a, two.b) for name in machine.store.objects.refs(refs.SESSIONS)}
    assert sum(refs.is_files(name.rpartition("/")[2]) for name in names) == 2
    assert two.a.session.files.at().read("a.txt") == b"a2"
    assert two.b.session.files.at().read("a.txt") == b"b2"


def test_files_of_an_entry_are_those_of_its_machine(two):
    for machine in (two.a, two.b):
        for name, entries in two.said.items():
            held = [machine.session.files.at(entry.oid).read("a.txt").decode() for entry in entries]
            assert held == [f"{name}1", f"{name}2"]


def test_rewind_to_an_entry_of_the_other_machine_uses_its_checkpoint(two):
    """The rewind runs in the folder of the other machine, moved or shared."""
    assert two.a.rewound(two.said["b"][0], two.b.work) == "b1"
    two.a.store.undo(two.b.work)
    assert (two.b.work / "a.txt").read_text() == "b2"
    assert two.b.rewound(two.said["a"][0], two.a.work) == "a1"


def test_rewind_on_the_same_machine_undoes_its_changes(two):
    before = snapshot(two.b.work)
    assert two.a.rewound(two.said["a"][0], two.a.work) == "a1"
    assert two.b.rewound(two.said["b"][0], two.b.work) == "b1"
    two.b.store.undo(two.b.work)
    assert snapshot(two.b.work) == before


def test_unknown_folder_uses_the_checkpoints_of_the_entrys_branch(two, tmp_path):
    """The rewind runs in a copy of the files. Files that differ from the session's last state are kept."""
    copy = fill(tmp_path / "copy", {"a.txt": "b2"})
    assert two.a.rewound(two.said["b"][0], copy) == "b1"
    other = fill(tmp_path / "other", {"a.txt": "somebody's"})
    assert two.a.rewound(two.said["b"][0], other) == "somebody's"


def test_entry_selects_the_checkpoints_if_folders_have_one_name(tmp_path):
    work = tmp_path / "work"
    two = Two(tmp_path, (work, work))
    try:
        assert (work / "a.txt").read_text() == "b2"
        for name, entries in two.said.items():
            assert two.a.session.files.at(entries[1].oid).read("a.txt") == f"{name}2".encode()
        assert two.a.rewound(two.said["b"][0], work) == "a2"  # later changes of the other machine are not undone
    finally:
        two.close()


def test_unreadable_other_checkpoint_branch_does_not_stop_a_rewind(two):
    [beside] = [name for name in two.a.store.objects.refs(refs.SESSIONS) if "/files." in name]
    with two.a.store.objects.transaction() as tx:
        tx.move(beside, tx.put("commit", b"no commit at all"), expected=two.a.store.objects.ref(beside))
    assert two.a.rewound(two.said["a"][0], two.a.work) == "a1"
