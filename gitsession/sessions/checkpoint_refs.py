"""The refs of a session's checkpoints: ``files``, and others if a tip cannot be read or branches have diverged.

If the tip of a line of checkpoints cannot be read, the line continues at a ref whose name follows from the lost tip,
and stays there: after a repair, the lost checkpoints precede those. If the lines of two stores have diverged, one of
them is ``files.<8 characters>``; a symbolic ref (``refs.looks``) names the line that this store continues. The lines of
other stores are read only to reconstruct files.
"""

from __future__ import annotations

from gitsession.codec.digest import hash_of, to_base32
from gitsession.git.types import Oid
from gitsession.store import refs
from gitsession.store.interface import ObjectStore

_NAME_MAX = 64


def ends(store: ObjectStore, sid: str, first: str = "") -> list[tuple[str, Oid]]:
    """Return each ref of a line of checkpoints with its tip, the oldest first; an empty list if there are none.

    ``first``: the ref at which the line begins, if it is not the one that this store continues.
    """
    found = []
    name = first or refs.chosen_files(sid, store.ref)
    while (oid := store.ref(name)) is not None:
        found.append((name, oid))
        name = beside(name, oid)
    return found


def starts(store: ObjectStore, sid: str) -> list[str]:
    """Return the ref at which each line of the session begins; first the one that this store continues."""
    ours = refs.chosen_files(sid, store.ref)
    names = {name: name.rpartition("/")[2] for name in store.refs(refs.session(sid))}
    others = [name for name, branch in names.items() if refs.is_files(branch) and "-" not in branch and name != ours]
    return [ours, *sorted(others)]


def end(store: ObjectStore, sid: str) -> Oid | None:
    """Return the newest checkpoint, which may be unreadable."""
    return next((oid for _, oid in reversed(ends(store, sid))), None)


def beside(name: str, lost: Oid) -> str:
    """Return the ref at which a line continues whose lost tip ``lost`` is at ``name``."""
    folder, _, branch = name.rpartition("/")
    told = to_base32(hash_of(bytes.fromhex(lost)), 8)
    # A name has at most 64 characters and ends in the characters that distinguish it.
    return f"{folder}/{branch[: _NAME_MAX - len(told) - 1]}-{told}"


def aside(store: ObjectStore) -> list[str]:
    """Return the refs of checkpoints that belong to no line."""
    names = {name: parsed for name in store.refs(refs.SESSIONS) if (parsed := refs.parse(name)) is not None}
    found = {name for name, (_, branch) in names.items() if refs.is_files(branch)}
    sids = {names[name][0] for name in found}
    used = {name for sid in sids for first in starts(store, sid) for name, _ in ends(store, sid, first)}
    return sorted(found - used)
