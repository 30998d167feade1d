"""Random changes of a folder by tools, shells and users, followed by rewinds, undo and redo.

After a rewind to any entry, the session's files are as they were then, and other files are unchanged. Undo and redo
restore the exact states before and after.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from builders import Clock
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from rewound import Held, put, repository, snapshot, take_away, told

from gitsession.api import Store
from gitsession.model.entries import Message
from gitsession.sessions.node import Node

ODD = st.binary(min_size=1, max_size=6).filter(lambda name: not {0, 0x2F} & set(name) and name not in (b".", b".."))
PLAIN = st.sampled_from([b"a", b"b", b"A", b"dir", b"x.txt", b".gitattributes", b"con", b"%41"])
COMPONENT = st.one_of(PLAIN, PLAIN, ODD).filter(
    lambda name: not name.lower().rstrip(b". ").startswith((b".git", b"git~")) or name == b".gitattributes"
)
NAMES = st.lists(COMPONENT, min_size=1, max_size=3).map(b"/".join)
SAMPLES = st.sampled_from([b"", b"one\n", b"one\r\n", bytes(range(256)), b"x" * 5000])
CONTENTS = st.one_of(st.binary(max_size=40), SAMPLES)
KINDS = st.sampled_from(["file", "file", "file", "executable", "link"])
TARGETS = st.sampled_from([b"a", b"dir/b", b"x.txt", b"nowhere"])


MEMORY = "/dev/shm"
"""Folder in memory, if available: thousands of files are synced here, and none of them must survive."""


class Edits:
    """Random changes of a folder by anyone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def apply(self, edit: tuple[str, bytes, bytes, str, bytes]) -> None:
        what, name, content, kind, other = edit
        names = sorted(snapshot(self.folder))
        names = [name for name in names if name.split(b"/")[0] not in (b".gitignore", b"tracked.txt", b"staged.txt")]
        known = names[len(content) % len(names)] if names else name
        if what == "make":
            self._make(name, content, kind, other)
        elif what == "change" and names:
            self._make(known, content, kind, other)
        elif what == "remove" and names:
            take_away(self._at(known))
        elif what == "rename" and names and not self._blocks(name) and not (name + b"/").startswith(known + b"/"):
            os.makedirs(os.path.dirname(self._at(name)), exist_ok=True)
            if not os.path.isdir(self._at(name)) or os.path.islink(self._at(name)):
                os.rename(self._at(known), self._at(name))
        elif what == "mode" and names and not os.path.islink(self._at(known)):
            os.chmod(self._at(known), 0o755 if len(content) % 2 else 0o644)
        elif what == "folder" and names and b"/" in known:
            take_away(self._at(known.rpartition(b"/")[0]))

    def _make(self, name: bytes, content: bytes, kind: str, target: bytes) -> None:
        if not self._blocks(name):
            put(self.folder, name, target if kind == "link" else content, kind=kind)

    def _blocks(self, name: bytes) -> bool:
        """Return whether a file or a link is in the place of a parent folder."""
        parts = name.split(b"/")[:-1]
        above = [self._at(b"/".join(parts[: end + 1])) for end in range(len(parts))]
        return any(os.path.lexists(path) and (os.path.islink(path) or not os.path.isdir(path)) for path in above)

    def _at(self, name: bytes) -> bytes:
        return os.path.join(os.fsencode(self.folder), name)


EDITS = st.tuples(
    st.sampled_from(["make", "make", "change", "change", "remove", "rename", "mode", "folder"]),
    NAMES,
    CONTENTS,
    KINDS,
    TARGETS,
)


class Rewinding(RuleBasedStateMachine):
    """Random rewinds. ``at`` has the state of the folder when an entry was the tip, before any later change."""

    @initialize(files=st.lists(EDITS, max_size=6), in_repository=st.booleans())
    def begin(self, files: list, in_repository: bool) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="gitsession-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None))
        self.folder = self.place / "work"
        if in_repository:
            repository(self.folder)
            self.told = told(self.folder)
        else:
            self.folder.mkdir()
            self.told = None
        self.edits = Edits(self.folder)
        for edit in files:
            self.edits.apply(edit)
        self.store = Store.create(self.place / "store.git", clock=Clock())
        self.session = self.store.new_session(agent="agent", cwd=str(self.folder))
        self.session.append(Message.user("hi"))
        self.at: dict[str, dict[bytes, Held]] = {}
        self.nodes: list[Node] = []
        self.by_user: set[bytes] = set()
        self.by_session: set[bytes] = set()
        self.calls = 0

    @rule(edits=st.lists(EDITS, min_size=1, max_size=4))
    def a_tool_edits(self, edits: list) -> None:
        self.calls += 1
        node = self.session.append(Message.assistant(f"call {self.calls}"))
        self._remember(node)
        before = snapshot(self.folder)
        with self.session.files.checkpoint(self.folder, call=f"c{self.calls}"):
            for edit in edits:
                self.edits.apply(edit)
        self.by_session |= _differing(before, snapshot(self.folder))
        self._remember(self.session.append(Message.user(f"result {self.calls}")))

    @rule(edits=st.lists(EDITS, min_size=1, max_size=2))
    def the_user_edits(self, edits: list) -> None:
        before = snapshot(self.folder)
        for edit in edits:
            self.edits.apply(edit)
        self.by_user |= _differing(before, snapshot(self.folder))

    @precondition(lambda self: self.nodes)
    @rule(which=st.integers(0, 10**6), undo=st.booleans(), redo=st.booleans())
    def rewind_to_any_entry(self, which: int, undo: bool, redo: bool) -> None:
        node = self.nodes[which % len(self.nodes)]
        before = snapshot(self.folder)
        plan = self.session.files.plan_rewind(node, workspace=self.folder)
        done = self.session.files.rewind(plan)
        after = snapshot(self.folder)
        self._check(node, before, after)
        if self.told is not None:
            assert told(self.folder) == self.told
        if undo and (done.moved or any(one.action != "left" for one in done.outcomes)):
            self.store.undo(self.folder)
            assert snapshot(self.folder) == before
            self.session = self.store.session(self.session.id)
            if redo:
                self.store.redo(self.folder)
                assert snapshot(self.folder) == after
                self.session = self.store.session(self.session.id)

    def _check(self, node: Node, before: dict, after: dict) -> None:
        for path in before.keys() | after.keys():
            if path not in self.by_session:
                assert before.get(path) == after.get(path), f"{path!r} is none of ours"
            elif path not in self.by_user:
                assert after.get(path) == self.at[node.oid].get(path), f"{path!r} is not as it was"

    def _remember(self, node: Node) -> None:
        self.at[node.oid] = snapshot(self.folder)
        self.nodes.append(node)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            assert self.store.verify(self.session.id).problems == []
            self.store.close()
            shutil.rmtree(self.place)


def _differing(before: dict, after: dict) -> set[bytes]:
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


TestRewinding = pytest.mark.promise("P41")(Rewinding.TestCase)
TestRewinding.settings = settings(
    max_examples=int(os.environ.get("GITSESSION_REWINDS", "12")),
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
