"""Workspaces at the front door: which folder is meant, and it opened."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gitsession.api.catalogues import Catalogues
from gitsession.checkpoints import capturing, history, planning, rewinding, turns, undoing
from gitsession.checkpoints.at import Files, files_at
from gitsession.checkpoints.capturing import Phase, Why
from gitsession.checkpoints.planning import RewindPlan, What
from gitsession.checkpoints.rewinding import Rewound
from gitsession.checkpoints.running_calls import Running
from gitsession.discovery import discover, projects
from gitsession.errors import NotFound, require
from gitsession.sessions import session as sessions
from gitsession.sessions.node import Node
from gitsession.sessions.operation_log import UndoScope, Verb, Written
from gitsession.store.git_store import GitStore
from gitsession.workspace.root import Root

Given = str | Path | None
"""The folder that the caller names; ``None``: the one that the session was held in."""


class WorkspaceDoor:
    """What can be done with the files of one session."""

    def __init__(self, objects: GitStore, catalogues: Catalogues, sid: str, clock: Callable[[], int]) -> None:
        self._objects, self._catalogues, self._sid, self._clock = objects, catalogues, sid, clock

    def why(self, target: Node, call: str | None, reason: str | None) -> Why:
        return Why(target=target, call=call, reason=reason)

    def take(self, given: Given, phase: Phase, why: Why, paths: Sequence[str | Path] | None) -> Node:
        with self._root(given) as root:
            return capturing.take(self._objects, self._sid, root, phase, why, at_ms=self._clock(), paths=paths).node

    @contextmanager
    def around(
        self, given: Given, why: Why, paths: Sequence[str | Path] | None, running: Running
    ) -> Iterator[Node]:
        with (
            self._root(given) as root,
            capturing.around(
                self._objects, self._sid, root, why, clock=self._clock, running=running, paths=paths
            ) as before,
        ):
            yield before

    def at(self, node: Node) -> Files:
        return Files(self._objects, files_at(self._objects, self._sid, node))

    def newest(self) -> Files:
        return Files(self._objects, history.newest(self._objects, self._sid))

    def plan(self, session: sessions.Session, at: Node, what: What, given: Given, *, force: bool) -> RewindPlan:
        if what != "files" and (what != "both" or history.newest(self._objects, self._sid) is None):
            return planning.plan(self._objects, session, at, what)
        with self._root(given, writes=True) as root:
            return planning.plan(self._objects, session, at, what, root=root, force=force)

    def rewind(self, session: sessions.Session, plan: RewindPlan) -> Rewound:
        require(plan, RewindPlan, "a plan, as in session.rewind(session.plan_rewind(entry))")
        if plan.session != session.id:
            raise ValueError(f"a plan of session {plan.session}, not of {session.id}")
        session.check_view()
        if plan.workspace is None:
            return rewinding.perform(self._objects, session, plan, None, self._clock)
        with self._root(plan.workspace) as root:
            return rewinding.perform(self._objects, session, plan, root, self._clock)

    def finish(self, session: sessions.Session, given: Given) -> Rewound:
        with self._root(given, writes=True) as root:
            return rewinding.go_on(self._objects, session, root)

    def abort(self, session: sessions.Session, given: Given) -> Rewound:
        with self._root(given, writes=True) as root:
            return rewinding.abort(self._objects, session, root, self._clock)

    def _root(self, given: Given, *, writes: bool = False) -> Root:
        return opened(self._objects, find(self._objects, self._catalogues, self._sid, given, writes=writes))


def take_next(
    objects: GitStore, catalogues: Catalogues, verb: Verb, clock: Callable[[], int], given: Given, scope: UndoScope
) -> Rewound:
    """``Store.undo`` and ``Store.redo``."""

    def open_root(files: Written) -> Root:
        return opened(objects, find(objects, catalogues, files.session, given, recorded=files.workspace, writes=True))

    def open_session(sid: str) -> sessions.Session:
        return sessions.Session.open(objects, sid, clock)

    return undoing.take_next(objects, verb, clock, open_root=open_root, open_session=open_session, scope=scope)


def opened(objects: GitStore, folder: Path) -> Root:
    """Raises ``NotFound``, and ``Refused`` for what is no workspace."""
    return Root.open(folder, home=Path.home(), store=objects.git_dir)


def find(
    objects: GitStore, catalogues: Catalogues, sid: str, given: Given = None, *, recorded: str | None = None,
    writes: bool = False,
) -> Path:  # fmt: skip
    """The workspace of a session: the one named; else where we stand, if that is it or the same project; else the one
    that was recorded. Raises ``NotFound``.

    ``writes``: to write there. What was recorded came with the session, perhaps from somebody else, who may have said
    any folder at all: it is believed only where this store has looked itself, or where we stand.
    """
    if given is not None:
        return Path(given)
    row = catalogues.get().session(sid)
    newest = history.readable(objects, sid)
    recorded = recorded or (newest.entry.workspace if newest else None) or (row.project if row else None)
    here = _here()
    real = Path(os.path.realpath(recorded)) if recorded else None
    is_believed = real is not None and (not writes or here == real or turns.folder_of(objects, real).is_dir())
    if here is not None:
        if recorded and real is not None and is_believed and here.is_relative_to(real):
            return Path(recorded)
        if row is not None and row.identity is not None and projects.identity_of(here) == row.identity:
            return discover.top(here)
    if recorded and os.path.isdir(recorded):
        if is_believed:
            return Path(recorded)
        raise NotFound(
            f"no workspace for session {sid}: it says {recorded}, where this store has never looked",
            hint="name the folder: --workspace DIR",
        )
    where = f"{recorded} is not there" if recorded else "nothing says where it was held"
    raise NotFound(f"no workspace for session {sid}: {where}", hint="name the folder: --workspace DIR")


def _here() -> Path | None:
    try:
        return Path(os.path.realpath(os.getcwd()))
    except FileNotFoundError:
        return None
