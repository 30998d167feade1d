"""Two machines on one session, each with checkpoints of its own: a rewind finds the line that the entry was made on."""

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
    """A store, and the folder in which the session is held there."""

    def __init__(self, name: str, folder: Path, clock: Clock, url: Path, work: Path) -> None:
        self.name, self.work = name, fill(work, {"a.txt": "as it began\n"})
        self.store = Store.create(folder / f"{name}.git", clock=clock)
        self.store.remotes.add("origin", str(url))

    @property
    def session(self) -> Session:
        return self.store.session(self.store.sessions()[0].sid)

    def turn(self, content: str) -> Node:
        """Something is said, and a call edits a file; what the agent says then."""
        self.session.append(Message.user(f"write {content}"))
        with self.session.files.checkpoint(self.work, call=content):
            put(self.work, "a.txt", content)
        return self.session.append(Message.assistant(f"{content} it is"))

    def rewound(self, at: Node, work: Path) -> str:
        """What the file holds once the files of ``work`` are as they were at an entry."""
        node = self.session.resolve(at.oid)
        self.session.files.rewind(self.session.files.plan_rewind(node, "files", workspace=work))
        return (work / "a.txt").read_text()


class Two:
    """``a`` published first; ``said``: the entries of each in order."""

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


def test_both_lines_are_there_and_each_store_goes_on_with_its_own(two):
    names = {name for machine in (two.a, two.b) for name in machine.store.objects.refs(refs.SESSIONS)}
    assert sum(refs.is_files(name.rpartition("/")[2]) for name in names) == 2
    assert two.a.session.files.at().read("a.txt") == b"a2"
    assert two.b.session.files.at().read("a.txt") == b"b2"


def test_the_files_at_an_entry_are_those_of_the_machine_it_was_made_on(two):
    for machine in (two.a, two.b):
        for name, entries in two.said.items():
            held = [machine.session.files.at(entry.oid).read("a.txt").decode() for entry in entries]
            assert held == [f"{name}1", f"{name}2"]


def test_a_rewind_to_an_entry_of_the_other_machine_finds_its_checkpoint(two):
    """In that machine's folder, moved or shared."""
    assert two.a.rewound(two.said["b"][0], two.b.work) == "b1"
    two.a.store.undo(two.b.work)
    assert (two.b.work / "a.txt").read_text() == "b2"
    assert two.b.rewound(two.said["a"][0], two.a.work) == "a1"


def test_a_rewind_at_home_takes_back_what_was_done_there(two):
    before = snapshot(two.b.work)
    assert two.a.rewound(two.said["a"][0], two.a.work) == "a1"
    assert two.b.rewound(two.said["b"][0], two.b.work) == "b1"
    two.b.store.undo(two.b.work)
    assert snapshot(two.b.work) == before


def test_in_a_folder_that_no_line_is_of_the_entrys_own_line_counts(two, tmp_path):
    """A copy of the files; what is not as the session left it stays."""
    copy = fill(tmp_path / "copy", {"a.txt": "b2"})
    assert two.a.rewound(two.said["b"][0], copy) == "b1"
    other = fill(tmp_path / "other", {"a.txt": "somebody's"})
    assert two.a.rewound(two.said["b"][0], other) == "somebody's"


def test_where_folders_have_one_name_the_entry_tells_the_line(tmp_path):
    work = tmp_path / "work"
    two = Two(tmp_path, (work, work))
    try:
        assert (work / "a.txt").read_text() == "b2"
        for name, entries in two.said.items():
            assert two.a.session.files.at(entries[1].oid).read("a.txt") == f"{name}2".encode()
        assert two.a.rewound(two.said["b"][0], work) == "a2"  # what the other machine wrote meanwhile is not taken back
    finally:
        two.close()


def test_another_line_that_cannot_be_read_keeps_nobody_from_a_rewind(two):
    [beside] = [name for name in two.a.store.objects.refs(refs.SESSIONS) if "/files." in name]
    with two.a.store.objects.transaction() as tx:
        tx.move(beside, tx.put("commit", b"no commit at all"), expected=two.a.store.objects.ref(beside))
    assert two.a.rewound(two.said["a"][0], two.a.work) == "a1"
