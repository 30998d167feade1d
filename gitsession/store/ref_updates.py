"""Bringing the repository's refs to where the journal's chains end.

A chain is every value a ref had since the journal began. What the repository holds decides:

    1. a value of the chain       -> ours to move: to the end of the chain
    2. part of what we wrote      -> the same: others brought it too, and not as far as we
    3. our end and more           -> it stays: others have what we wrote
    4. nothing                    -> another program deleted it: it is set to the end of the chain again
    5. anything else              -> others moved it meanwhile: theirs stays, and our line goes on beside it under the
                                     name that follows from it (``store.histories``); what this store had chosen to go
                                     on with goes along
    6. we cannot move it for now  -> it is left for the next flush, and holds up no other ref

Where many refs move at once, those that hold what is ours and are no files of their own move together, by one write.

Symbolic refs and deletions hold no history, and tracking refs only say what was seen: where others moved those, theirs
stays and that is all.
"""

from __future__ import annotations

from collections.abc import Mapping

from gitsession.errors import GitSessionError, Unavailable
from gitsession.git.ref_names import SYMBOLIC
from gitsession.git.ref_writer import RefWriter
from gitsession.git.types import Oid, RefValue
from gitsession.store import histories, refs
from gitsession.store.histories import Read
from gitsession.store.staging import Move

_MANY = 32

Chain = list[RefValue | None]


def move_to_ends(
    chains: Mapping[str, Chain], writer: RefWriter, read: Read, sidestepped: list[tuple[str, str]]
) -> tuple[list[Move], Exception | None]:
    """Under the store's lock. The moves that are left, and what kept the first of them back.

    Adds to ``sidestepped`` each ref that others had moved, with our new name for it. Raises ``OSError`` where no lock
    can be made at all.
    """
    done = _move_many(chains, writer)
    rest = {name: chain for name, chain in chains.items() if name not in done}
    _, failed = writer.delete({name: set(chain) for name, chain in rest.items() if chain[-1] is None})
    ends = {name: end for name, chain in rest.items() if (end := chain[-1]) is not None}
    writer.prepare(ends)
    for name, end in ends.items():
        try:
            is_line = not end.startswith(SYMBOLIC) and not name.startswith(refs.TRACKING)
            if not writer.move(name, end, ours=set(chains[name])) and is_line:
                side = _meet(name, chains, end, writer, read)
                sidestepped += [(name, side)] if side else []
        except (OSError, GitSessionError) as error:
            failed[name] = error
    return [_left(name, chains[name], writer) for name in failed], next(iter(failed.values()), None)


def _move_many(chains: Mapping[str, Chain], writer: RefWriter) -> set[str]:
    """Many refs at once, as a pull of many sessions brings them, are one write; which ones are where they belong."""
    ends = {name: chain[-1] for name, chain in chains.items() if refs.target(chain[-1] or "") is None}
    if len(ends) <= _MANY:
        return set()
    try:
        return writer.move_many(ends, {name: set(chains[name]) for name in ends})
    except (OSError, GitSessionError):
        return set()  # one by one, then: what is in the way is told where it still is


def _meet(name: str, chains: Mapping[str, Chain], end: Oid, writer: RefWriter, read: Read) -> str | None:
    """Bring our line to where it belongs beside what others put there; its name, if that is not ``name``."""
    theirs = _held(name, writer)
    if theirs is None and writer.move(name, end, ours={None}):
        return None  # branches are deleted by us alone: another program's deletion is taken back
    if theirs is not None:
        try:
            if histories.holds(read, end, theirs, until=chains[name][0]) and writer.move(name, end, ours={theirs}):
                return None
            if histories.holds(read, theirs, end):
                return None
        except GitSessionError:
            pass  # what cannot be followed is not ours to judge
    side = histories.aside(read, lambda at: _held(at, writer), name, end, theirs)
    held = _held(side, writer)
    if (held is None or not histories.holds(read, held, end)) and not writer.move(side, end, ours={held}):
        raise Unavailable(f"another program moves {side}")
    _take_along(name, side, chains, writer)
    return side


def _held(name: str, writer: RefWriter) -> Oid | None:
    value = writer.refs.read(name)
    return None if value is not None and value.startswith(SYMBOLIC) else value


def _take_along(name: str, side: str, chains: Mapping[str, Chain], writer: RefWriter) -> None:
    """Who goes on with the line ``name``, by choice or for lack of one, goes on with ours."""
    choice = refs.choice(name)
    chain = chains.get(choice or "", [None])
    if choice and chain[-1] in (None, refs.symbolic(name)):
        writer.move(choice, refs.symbolic(side), ours={None, refs.symbolic(name), *chain})


def _left(name: str, chain: Chain, writer: RefWriter) -> Move:
    """One move stands for the whole chain: from what the repository holds, where that is ours."""
    try:
        held = writer.refs.read(name)
    except GitSessionError:
        held = chain[0]
    return name, held if held in chain else chain[0], chain[-1]
