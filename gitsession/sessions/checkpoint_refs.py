"""The refs of a session's checkpoints: ``files``, and others if a tip is unreadable or checkpoints have diverged.

A *line* is a history of checkpoints. If the tip of a line cannot be read, the line continues at another ref, whose name
is computed from the lost tip. The line stays at that ref even after a repair; the repaired checkpoints then precede the
newer ones.

If the lines of two stores have diverged, one of them is renamed to ``files.<8 characters>``, and a symbolic ref
(``refs.active_files``) points to the line that this store continues. The lines of other stores are only read to restore
files.
"""

from __future__ import annotations

from gitsession.codec.digest import hash_of, to_base32
from gitsession.git.types import Oid
from gitsession.store import refs
from gitsession.store.interface import ObjectStore

_NAME_MAX = 64


def line_refs(store: ObjectStore, sid: str, first: str = "") -> list[tuple[str, Oid]]:
    """Return the refs of a line of checkpoints with their tips, the oldest first.

    ``first``: the ref at which the line begins. Defaults to the first ref of the line that this store continues.
    """
    found = []
    name = first or refs.chosen_files(sid, store.ref)
    while (oid := store.ref(name)) is not None:
        found.append((name, oid))
        name = continuation_ref(name, oid)
    return found


def first_refs(store: ObjectStore, sid: str) -> list[str]:
    """Return the first ref of each line of the session, beginning with the line that this store continues."""
    own = refs.chosen_files(sid, store.ref)
    names = {name: name.rpartition("/")[2] for name in store.refs(refs.session(sid))}
    others = [name for name, branch in names.items() if refs.is_files(branch) and "-" not in branch and name != own]
    return [own, *sorted(others)]


def newest(store: ObjectStore, sid: str) -> Oid | None:
    """Return the oid of the newest checkpoint, which may be unreadable."""
    return next((oid for _, oid in reversed(line_refs(store, sid))), None)


def continuation_ref(name: str, lost: Oid) -> str:
    """Return the ref at which a line of checkpoints continues if its tip ``lost`` at ``name`` cannot be read."""
    folder, _, branch = name.rpartition("/")
    suffix = to_base32(hash_of(bytes.fromhex(lost)), 8)
    # A name has at most 64 characters, and ends with the characters that make it unique.
    return f"{folder}/{branch[: _NAME_MAX - len(suffix) - 1]}-{suffix}"


def unassigned_refs(store: ObjectStore) -> list[str]:
    """Return the checkpoint refs that belong to no line."""
    names = {name: parsed for name in store.refs(refs.SESSIONS) if (parsed := refs.parse(name)) is not None}
    found = {name for name, (_, branch) in names.items() if refs.is_files(branch)}
    sids = {names[name][0] for name in found}
    used = {name for sid in sids for first in first_refs(store, sid) for name, _ in line_refs(store, sid, first)}
    return sorted(found - used)
