"""What was fetched is judged by our rules before it reaches a ref of the store's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from gitsession.errors import GitSessionError, InvalidName
from gitsession.session.check import check
from gitsession.session.node import Node, load
from gitsession.store import create, refs
from gitsession.store.base import Kind, ObjectStore, Oid
from gitsession.store.git import GitDoor
from gitsession.store.refnames import check_ref_name


class Proposed(NamedTuple):
    ref: str
    old: Oid | None
    new: Oid


class Refusal(NamedTuple):
    ref: str
    oid: Oid
    what: str


class Reader:
    """What was fetched, and what the store has."""

    def __init__(self, git_dir: Path, store: ObjectStore) -> None:
        self._door, self._store = GitDoor(git_dir), store

    def read(self, oid: Oid) -> tuple[Kind, bytes]:
        return self._door.read(oid) if self._door.contains(oid) else self._store.read(oid)

    def contains(self, oid: Oid) -> bool:
        return self._door.contains(oid) or self._store.contains(oid)


def judge(read: Reader, moves: list[Proposed], known: Mapping[str, Oid]) -> list[Refusal]:
    """Why refs may not be moved so; none where all may. ``known``: refs whose lines were judged before."""
    found: list[Refusal] = []
    good: dict[Oid, Node] = {}
    bad: dict[Oid, tuple[Oid, str]] = {}
    for move in moves:
        what = _of_the_name(move.ref)
        if what:
            found.append(Refusal(move.ref, "", what))
        elif refs.is_session_ref(move.ref):
            fault = _line(read, move, known, good, bad)
            found += [Refusal(move.ref, *fault)] if fault else []
    return found


def _of_the_name(ref: str) -> str:
    if ref.startswith(refs.SESSIONS) and not refs.is_session_ref(ref):
        return "not the name of a session's branch"
    try:
        check_ref_name(ref)
    except InvalidName as error:
        return str(error)
    return "" if ref.startswith((refs.SESSIONS, refs.OURS)) or ref == create.MAIN else "no ref of a store"


def _line(
    read: Reader, move: Proposed, known: Mapping[str, Oid], good: dict[Oid, Node], bad: dict[Oid, tuple[Oid, str]]
) -> tuple[Oid, str] | None:
    judged = set(known.values())
    new: list[Oid] = []
    oid: Oid | None = move.new
    try:
        while oid is not None and oid not in good and oid not in bad and oid not in judged:
            new.append(oid)
            oid = load(read, oid).parent
    except GitSessionError as error:
        return oid or "", str(error)
    if oid in bad:
        return bad[oid]
    before = good.get(oid or "") or (load(read, oid) if oid else None)
    for one in reversed(new):
        node = load(read, one)
        try:
            what = next(check(read, node, before), "")
        except GitSessionError as error:
            what = str(error)
        if what:
            bad.update(dict.fromkeys(new[: new.index(one) + 1], (one, what)))
            return one, what
        good[one] = before = node
    return None
