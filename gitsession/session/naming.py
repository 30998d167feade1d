"""The name of a branch that nobody named: it follows from the chain of its first entry (docs/format.md)."""

from __future__ import annotations

from gitsession.codec.digest import to_base32
from gitsession.store import refs
from gitsession.store.base import ObjectStore

LENGTHS = (8, 13, 26, 52)


def free_branch(store: ObjectStore, sid: str, chain: bytes) -> str:
    """The shortest derived name that no branch of the session has."""
    for length in LENGTHS:
        name = to_base32(chain, length)
        if store.ref(refs.leaf(sid, name)) is None:
            break
    return name
