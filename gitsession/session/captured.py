"""The refs on which a session's checkpoints stand: ``files``; and where its end could not be read, one beside it.

The line then goes on at a ref whose name follows from the end that was lost, and stays there: once that is mended, it
is found before what stands beside it.
"""

from __future__ import annotations

from gitsession.store import refs
from gitsession.store.base import ObjectStore, Oid
from gitsession.store.chains import names_beside


def ends(store: ObjectStore, sid: str) -> list[tuple[str, Oid]]:
    """Each ref of the line with its end, the oldest first; none where there are no checkpoints."""
    found = []
    name = refs.files(sid)
    while (oid := store.ref(name)) is not None:
        found.append((name, oid))
        name = beside(name, oid)
    return found


def end(store: ObjectStore, sid: str) -> Oid | None:
    """The newest checkpoint, whether or not it can be read."""
    return next((oid for _, oid in reversed(ends(store, sid))), None)


def beside(name: str, lost: Oid) -> str:
    """Where the line goes on that ends at ``lost`` on ``name``."""
    return next(names_beside(name, lost))


def aside(store: ObjectStore) -> list[str]:
    """Refs of checkpoints that stepped aside from those of another program, and that no line leads to."""
    names = {name: parsed for name in store.refs(refs.SESSIONS) if (parsed := refs.parse(name)) is not None}
    found = {name for name, (_, branch) in names.items() if not refs.is_branch(branch) and branch != refs.META}
    used = {name for sid in {names[name][0] for name in found} for name, _ in ends(store, sid)}
    return sorted(found - used)
