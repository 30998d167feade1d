"""Random commands on both stores: the refs are equal, the stores are valid, and every command can be undone."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import (
    Clock,
    all_refs,
    assert_clean,
    assert_git_agrees,
    bring,
    exported,
    fork,
    git,
    label,
    nonces,
    on_disk,
    pi_file,
    said,
    session_refs,
)
from catalogues import told
from figures import figure
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule

from gitsession.errors import NotFound, Refused
from gitsession.importing.import_session import ImportResult
from gitsession.index import catalogue as catalogue_module
from gitsession.index import update
from gitsession.index.catalogue import Catalogue
from gitsession.model.entries import Message, ModelChange
from gitsession.sessions import active_branch, graph, operation_log
from gitsession.sessions import session as sessions
from gitsession.store import refs
from gitsession.store.create import create
from gitsession.store.git_store import GitStore
from gitsession.store.interface import ObjectStore
from gitsession.store.memory import MemoryStore

MAIN = "refs/heads/main"


class Commands(RuleBasedStateMachine):
    """Random commands that run on both stores. Each store has its own clock and nonces, which advance in step."""

    sids = Bundle("sids")
    files = Bundle("files")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="machine-"))
        self.path = self.folder / "store.git"
        self.disk: GitStore = on_disk(self.path)
        self.memory = MemoryStore()
        self.clocks = {"disk": Clock(), "memory": Clock()}
        self.sources = {"disk": nonces(), "memory": nonces()}
        self.catalogue: Catalogue | None = None
        self.contents: dict[str, list[bytes]] = {}
        self.count = 0

    def both(self, act: Callable[[ObjectStore, Clock], Any]) -> Any:
        """Run an action in both stores. Their results must be equal, including errors."""
        results = []
        for name, store in (("disk", self.disk), ("memory", self.memory)):
            real, os.urandom = os.urandom, self.sources[name]
            try:
                results.append(act(store, self.clocks[name]))
            except (NotFound, Refused) as error:
                results.append((type(error), str(error)))
            finally:
                os.urandom = real
        assert results[0] == results[1]
        return results[0]

    def in_session(self, sid: str, branch: int, act: Callable[[sessions.StoredSession], Any]) -> Any:
        """Run an action on one of the session's branches, if undo left any."""

        def here(store: ObjectStore, clock: Clock) -> Any:
            names = list(graph.branches(store, sid))
            if not names:
                return None
            return act(sessions.StoredSession.open(store, sid, clock, names[branch % len(names)]))

        return self.both(here)

    @initialize(target=sids)
    def first_session(self) -> str:
        return self.new_session_of("the first words")

    @rule(target=sids, words=st.text(max_size=20))
    def new_session(self, words: str) -> str:
        return self.new_session_of(words)

    def new_session_of(self, words: str) -> str:
        def begin(store: ObjectStore, clock: Clock) -> str:
            held = sessions.StoredSession.new(store, "agent", "/work", clock)
            held.append(ModelChange(provider="p", model="m"))
            held.append(Message.user(words))
            return held.id

        sid: str = self.both(begin)
        return sid

    @rule(sid=sids, branch=st.integers(0, 9), words=st.text(max_size=20))
    def append(self, sid: str, branch: int, words: str) -> None:
        self.in_session(sid, branch, lambda held: held.append(Message.user(words)))

    @rule(sid=sids, branch=st.integers(0, 9), back=st.integers(0, 3))
    def append_beside(self, sid: str, branch: int, back: int) -> None:
        """Append with an older tip as the expected one."""

        def act(held: sessions.StoredSession) -> Any:
            line = held.history()
            return held.append(Message.user("late"), expected=line[-1 - back % len(line)], on_moved="fork")

        self.in_session(sid, branch, act)

    @rule(sid=sids, branch=st.integers(0, 9), name=st.sampled_from(["a", "b", "c"]), back=st.integers(0, 4))
    def branch(self, sid: str, branch: int, name: str, back: int) -> None:
        self.in_session(sid, branch, lambda held: held.branch(name, f"leaf~{back}"))

    @rule(sid=sids, branch=st.integers(0, 9))
    def switch(self, sid: str, branch: int) -> None:
        self.in_session(sid, branch, lambda held: held.switch(held.branch_name))

    @rule(target=sids, sid=sids, branch=st.integers(0, 9), back=st.integers(0, 2))
    def fork(self, sid: str, branch: int, back: int) -> str:
        def act(held: sessions.StoredSession) -> str:
            line = held.history()
            return fork(held, line[-1 - back % len(line)]).id

        return self.in_session(sid, branch, act) or sid

    @rule(sid=sids, branch=st.integers(0, 9), text=st.sampled_from(["x", "y", ""]))
    def label(self, sid: str, branch: int, text: str) -> None:
        self.in_session(sid, branch, lambda held: held.label("leaf", text))

    @rule(sid=sids, text=st.sampled_from(["One", "Two", ""]))
    def rename(self, sid: str, text: str) -> None:
        self.in_session(sid, 0, lambda held: held.rename(text))

    @rule(target=sids, file=st.sampled_from(["f1", "f2"]), above=st.integers(0, 5), marks=st.booleans())
    def import_grown(self, file: str, above: int, marks: bool) -> str:
        lines = self.contents.setdefault(file, [])
        self.count += 1
        parent = f"e{above % len(lines)}" if lines else None
        own = f"e{len(lines)}"
        text = f"{file} {self.count}"
        lines.append(label(own, parent, parent or "", text) if marks else said(own, parent, text, at=len(lines)))
        return self.bring(file)

    @rule(target=sids, file=st.sampled_from(["f1", "f2"]), at=st.integers(0, 5), cut=st.booleans())
    def import_rewritten(self, file: str, at: int, cut: bool) -> str:
        lines = self.contents.setdefault(file, [said("e0", None)])
        self.count += 1
        at %= len(lines)
        lines[at] = said(f"e{at}", f"e{at - 1}" if at else None, f"other {self.count}", at=at)
        if cut:
            del lines[at + 1 :]
        return self.bring(file)

    def bring(self, file: str) -> str:
        data = pi_file(*self.contents[file], id=file)

        def act(store: ObjectStore, clock: Clock) -> ImportResult:
            done = bring(store, data)
            if done.moves:
                with store.transaction() as tx:
                    operation_log.record(store, tx, "import", clock(), list(done.moves))
            return done

        done: ImportResult = self.both(act)
        assert exported(self.memory, done.session) == data
        return done.session

    @rule()
    def undo(self) -> None:
        self.both(lambda store, clock: operation_log.apply_next(store, "undo", clock()))

    @rule()
    def redo(self) -> None:
        self.both(lambda store, clock: operation_log.apply_next(store, "redo", clock()))

    @rule()
    def undo_and_redo_change_nothing(self) -> None:
        def act(store: ObjectStore, clock: Clock) -> None:
            before = but_for_the_log(store)
            operation_log.apply_next(store, "undo", clock())
            operation_log.apply_next(store, "redo", clock())
            assert but_for_the_log(store) == before

        self.both(act)

    @rule()
    def flush(self) -> None:
        self.disk.flush()

    @rule()
    def close_and_open_again(self) -> None:
        self.forget_catalogue()
        self.disk.close()
        self.disk = GitStore.open(self.path)

    @precondition(lambda self: self.count % 3 == 0)
    @rule()
    def look_at_the_catalogue(self) -> None:
        if self.catalogue is None:
            self.catalogue = Catalogue(self.path)
        update.refresh(self.catalogue, self.disk)

    @invariant()
    def both_hold_the_same_and_it_is_sound(self) -> None:
        mine, twins = all_refs(self.disk), all_refs(self.memory)
        mine.pop(MAIN, None)
        assert mine == twins
        assert_clean(self.memory)
        for sid in {parsed[0] for name in mine if (parsed := refs.parse(name))}:
            assert active_branch.active(self.disk, sid) == active_branch.active(self.memory, sid)

    def teardown(self) -> None:
        try:
            self.look_at_the_catalogue()
            assert self.catalogue is not None
            assert_clean(self.disk)
            assert_git_agrees(self.disk)
            self.git_can_do_with_it_what_it_does()
            fresh = Catalogue.__new__(Catalogue)
            fresh.git_dir, fresh.db = self.path, catalogue_module._open(self.folder / "anew.db")
            update.refresh(fresh, self.disk)
            assert told(self.catalogue.db) == told(fresh.db)
            fresh.close()
        finally:
            self.forget_catalogue()
            self.disk.close()
            shutil.rmtree(self.folder)

    def git_can_do_with_it_what_it_does(self) -> None:
        """Clone the store, push it, and collect garbage. No command fails, and no object is missing afterwards."""
        before, sessions = all_refs(self.disk), session_refs(self.disk)
        clone, pushed = self.folder / "clone.git", self.folder / "pushed.git"
        git(self.disk, "clone", "-q", "--bare", f"file://{self.path}", str(clone))
        create(pushed)
        git(self.disk, "push", "-q", str(pushed), "refs/heads/sessions/*:refs/heads/sessions/*")
        git(self.disk, "gc", "-q")
        assert all_refs(self.disk) == before
        for path in (clone, pushed, self.path):
            with GitStore.open(path, flush_on_close=False) as other:
                assert session_refs(other) == sessions
                assert_clean(other)
        assert_git_agrees(self.disk)

    def forget_catalogue(self) -> None:
        if self.catalogue is not None:
            self.catalogue.close()
            self.catalogue = None


def but_for_the_log(store: ObjectStore) -> dict[str, str]:
    return {name: value for name, value in all_refs(store).items() if name != refs.OPLOG}


TestCommands = pytest.mark.promise("P25")(Commands.TestCase)
TestCommands.settings = settings(
    max_examples=figure(20, 200),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
