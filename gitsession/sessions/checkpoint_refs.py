"""The refs on which a session's checkpoints stand: ``files``; and where its end could not be read, one beside it.

The line then goes on at a ref whose name follows from the end that was lost, and stays there: once that is mended, it
is found before what stands beside it. Where this store's line and another's went on without each other, one of them is
``files.<8 characters>``: a symbolic ref (``refs.looks``) says where this store's looks are. Those of others are read
where somebody asks what the files were.
"""

from __future__ import annotations

from gitsession.codec.digest import hash_of, to_base32
from gitsession.git.types import Oid
from gitsession.store import refs
from gitsession.store.interface import ObjectStore

_NAME_MAX = 64


def ends(store: ObjectStore, sid: str, first: str = "") -> list[tuple[str, Oid]]:
    """Each ref of the line with its end, the oldest first; none where there are no checkpoints.

    ``first``: the ref on which it begins, if that is not the one that this store goes on with.
    """
    found = []
    name = first or refs.chosen_files(sid, store.ref)
    while (oid := store.ref(name)) is not None:
        found.append((name, oid))
        name = beside(name, oid)
    return found


def starts(store: ObjectStore, sid: str) -> list[str]:
    """The ref on which each line of the session begins; first the one that this store goes on with."""
    ours = refs.chosen_files(sid, store.ref)
    names = {name: name.rpartition("/")[2] for name in store.refs(refs.session(sid))}
    others = [name for name, branch in names.items() if refs.is_files(branch) and "-" not in branch and name != ours]
    return [ours, *sorted(others)]


def end(store: ObjectStore, sid: str) -> Oid | None:
    """The newest checkpoint, whether or not it can be read."""
    return next((oid for _, oid in reversed(ends(store, sid))), None)


def beside(name: str, lost: Oid) -> str:
    """Where the line goes on that ends at ``lost`` on ``name``."""
    folder, _, branch = name.rpartition("/")
    told = to_base32(hash_of(bytes.fromhex(lost)), 8)
    # A name has at most 64 characters, with what tells it apart at its end.
    return f"{folder}/{branch[: _NAME_MAX - len(told) - 1]}-{told}"


def aside(store: ObjectStore) -> list[str]:
    """Refs of checkpoints that no line leads to."""
    names = {name: parsed for name in store.refs(refs.SESSIONS) if (parsed := refs.parse(name)) is not None}
    found = {name for name, (_, branch) in names.items() if refs.is_files(branch)}
    sids = {names[name][0] for name in found}
    used = {name for sid in sids for first in starts(store, sid) for name, _ in ends(store, sid, first)}
    return sorted(found - used)
