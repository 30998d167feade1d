"""The refs on which a session's checkpoints stand: ``files``; and where its end could not be read, one beside it.

The line then goes on at a ref whose name follows from the end that was lost, and stays there: once that is mended, it
is found before what stands beside it. Where this store's line and another's went on without each other, one of them is
``files.<8 characters>``: a symbolic ref (``refs.looks``) says where this store's looks are.
"""

from __future__ import annotations

from gitsession.codec.digest import hash_of, to_base32
from gitsession.store import refs
from gitsession.store.base import ObjectStore, Oid

_NAME_MAX = 64


def ends(store: ObjectStore, sid: str) -> list[tuple[str, Oid]]:
    """Each ref of the line with its end, the oldest first; none where there are no checkpoints."""
    found = []
    name = start(store, sid)
    while (oid := store.ref(name)) is not None:
        found.append((name, oid))
        name = beside(name, oid)
    return found


def start(store: ObjectStore, sid: str) -> str:
    """The ref on which the line begins that this store goes on with."""
    value = store.ref(refs.looks(sid))
    chosen = refs.target(value) if value else None
    parsed = refs.parse(chosen) if chosen else None
    is_there = chosen is not None and parsed is not None and refs.is_files(parsed[1]) and store.ref(chosen)
    return chosen if chosen and is_there else refs.files(sid)


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
    """Refs of checkpoints that stepped aside from those of another program, and that no line leads to."""
    names = {name: parsed for name in store.refs(refs.SESSIONS) if (parsed := refs.parse(name)) is not None}
    found = {name for name, (_, branch) in names.items() if refs.is_files(branch)}
    used = {name for sid in {names[name][0] for name in found} for name, _ in ends(store, sid)}
    return sorted(found - used)
