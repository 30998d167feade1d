"""Bringing the repository's refs to where the journal's chains end.

A chain is every value a ref had since the journal began. What the repository holds decides:

    1. a value of the chain       -> ours to move: to the end of the chain
    2. anything else              -> others moved it meanwhile: theirs stays, and our line goes on as
                                     ``<name>-<8 characters of BLAKE3 of our end>``, the same after any crash or retry
    3. we cannot move it for now  -> it is left for the next flush, and holds up no other ref

Symbolic refs and deletions hold no history: where others moved those, theirs stays and that is all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gitsession.codec.digest import hash_of, to_base32
from gitsession.errors import GitSessionError, Unavailable
from gitsession.store.base import Oid, RefValue
from gitsession.store.refnames import SYMBOLIC
from gitsession.store.refwriter import RefWriter
from gitsession.store.staging import Move

_SIDE_NAME_LENGTHS = (8, 16, 32, 52)
_NAME_MAX = 64

Chain = list[RefValue | None]


def move_to_ends(
    chains: Mapping[str, Chain], writer: RefWriter, sidestepped: list[tuple[str, str]]
) -> tuple[list[Move], Exception | None]:
    """Under the store's lock. The moves that are left, and what kept the first of them back.

    Adds to ``sidestepped`` each ref that others had moved, with our new name for it. Raises ``OSError`` where no lock
    can be made at all.
    """
    _, failed = writer.delete({name: set(chain) for name, chain in chains.items() if chain[-1] is None})
    ends = {name: end for name, chain in chains.items() if (end := chain[-1]) is not None}
    writer.prepare(ends)
    for name, end in ends.items():
        try:
            if not writer.move(name, end, ours=set(chains[name])) and not end.startswith(SYMBOLIC):
                sidestepped.append((name, _step_aside(name, end, writer)))
        except (OSError, GitSessionError) as error:
            failed[name] = error
    return [_left(name, chains[name], writer) for name in failed], next(iter(failed.values()), None)


def names_beside(name: str, end: Oid) -> Iterator[str]:
    """What a line that ends in ``end`` may be called beside the ref ``name``; each but the first if those are taken."""
    digest = hash_of(bytes.fromhex(end))
    for length in _SIDE_NAME_LENGTHS:
        # A branch has at most 64 characters, with what tells it apart at its end.
        folder, _, branch = name.rpartition("/")
        yield f"{folder}/{branch[: _NAME_MAX - length - 1]}-{to_base32(digest, length)}"


def _step_aside(name: str, end: Oid, writer: RefWriter) -> str:
    for side in names_beside(name, end):
        if writer.move(side, end, ours={None}):
            return side
    raise Unavailable(f"every name to step aside to from {name} is taken")


def _left(name: str, chain: Chain, writer: RefWriter) -> Move:
    """One move stands for the whole chain: from what the repository holds, where that is ours."""
    try:
        held = writer.refs.read(name)
    except GitSessionError:
        held = chain[0]
    return name, held if held in chain else chain[0], chain[-1]
