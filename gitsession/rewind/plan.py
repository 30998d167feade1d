"""What a rewind would do, without doing it: reads only."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from gitsession.checkpoint import at as places
from gitsession.checkpoint import line
from gitsession.checkpoint.claims import claims
from gitsession.checkpoint.line import Point
from gitsession.checkpoint.taking import place_of
from gitsession.checkpoint.timeline import WORKSPACE, touches
from gitsession.errors import GitSessionError, NotFound
from gitsession.model.entries import Message
from gitsession.rewind.deciding import Planned, decide, writes
from gitsession.session.content import entry_of
from gitsession.session.node import Node, load
from gitsession.session.session import Session
from gitsession.store.base import ObjectStore, Oid
from gitsession.workspace import trees
from gitsession.workspace.judging import folders_of
from gitsession.workspace.looking import Now
from gitsession.workspace.root import Root

What: TypeAlias = Literal["both", "conversation", "files"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RewindPlan:
    """``at``: the entry asked for; ``place``: where the talk goes on, before it where a user said it; ``prompt``: what
    was said then. ``leaf``: where the talk was. ``onto``: the branch that ends at ``place`` already; "" is a new one.

    ``changes``: every path that the session has changed since, those it leaves too; ``made``: folders of its own.
    """

    session: str
    what: What
    at: Node
    place: Node
    prompt: str | None
    leaf: Oid | None
    onto: str
    workspace: str | None = None
    changes: tuple[Planned, ...] = ()
    made: tuple[str, ...] = ()

    @property
    def moves(self) -> bool:
        """Whether the talk goes on elsewhere."""
        return self.what != "files" and self.leaf != self.place.oid

    @property
    def is_empty(self) -> bool:
        return not self.moves and not writes(self.changes)


def plan(
    store: ObjectStore, session: Session, at: Node, what: What = "both", *, root: Root | None = None,
    force: bool = False,
) -> RewindPlan:  # fmt: skip
    """What it takes to be at an entry again. ``root``: the workspace, where files are to be looked at.

    ``force``: what others have changed since goes too. Raises ``NotFound`` where files are asked for and the session
    has no checkpoints.
    """
    place, prompt = where_to(store, at)
    leaf = session.leaf
    ends = [name for name, oid in session.branches().items() if oid == place.oid]
    made = RewindPlan(
        session=session.id,
        what=what,
        at=at,
        place=place,
        prompt=prompt if what != "files" else None,
        leaf=leaf.oid if leaf else None,
        onto=session.branch_name if session.branch_name in ends else (ends[0] if ends else ""),
    )
    if what == "conversation" or root is None:
        return made
    return _with_files(store, made, root, force=force)


def where_to(store: ObjectStore, at: Node) -> tuple[Node, str | None]:
    """Where the talk goes on, and what the user is given back to say it anew."""
    entry = entry_of(store, at)
    if isinstance(entry, Message) and entry.role == "user" and at.parent is not None:
        return load(store, at.parent), entry.text
    return at, None


def now_of(root: Root, path: str) -> Now | str:
    """What is there; why it cannot be told, in words, where it cannot."""
    try:
        return root.now(path)
    except GitSessionError as error:
        return str(error)
    except OSError as error:
        return error.strerror or "it cannot be read"


def _with_files(store: ObjectStore, made: RewindPlan, root: Root, *, force: bool) -> RewindPlan:
    points = line.history(store, made.session)
    if not points and made.what == "files":
        raise NotFound(
            f"session {made.session} has no checkpoints, so no files to bring back",
            hint="`gitsession checkpoint` takes one",
        )
    number = max(places.place(store, points, made.at), 0)  # what was there before the first look, nobody knows
    seen = _seen_whole(points, number)
    found = touches(places.steps(store, points[seen:]), number - seen)
    base = points[number].files if points else None
    at_entry = trees.look_up(store, base, found)
    root.forget()
    now = {path: now_of(root, path) for path in found}
    since_ms = points[number].entry.at_ms if points else 0
    claimed = claims(store, made.session, place_of(root), since_ms) if found else {}
    changes = decide(found, now, at_entry, claimed=claimed, force=force)
    gone = folders_above(change.path for change in changes if change.action == "remove")
    return dataclasses.replace(
        made,
        workspace=str(root.path),
        changes=tuple(changes),
        made=tuple(sorted(gone - trees.folders(store, base, gone))),
    )


def _seen_whole(points: Sequence[Point], number: int) -> int:
    """The last checkpoint up to ``number`` at which all was looked at: what came before it says nothing more."""
    whole = (at for at in range(number, -1, -1) if at < len(points) and points[at].entry.mode == WORKSPACE)
    return next(whole, 0)


def folders_above(paths: Iterable[str]) -> set[str]:
    """Every folder that one of ``paths`` is in."""
    return {folder for path in paths for folder in folders_of(path)}
