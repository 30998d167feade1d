"""Session ids, and names of refs: every ref that gitsession reads or writes (docs/reference/format.md).

A session id is a date, followed by characters that are random or a hash of the source.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime

from gitsession.errors import InvalidName
from gitsession.git.ref_files import check_ref_name
from gitsession.git.types import RefValue
from gitsession.pattern import pattern

SESSIONS = "refs/heads/sessions/"
STORE_BRANCHES = "refs/heads/gitsession/"
"""Prefix of branches that belong to the whole store, not to one session."""
TOMBSTONES = f"{STORE_BRANCHES}tombstones"
ARCHIVE = f"{STORE_BRANCHES}archive"
TRASH = "refs/gitsession/trash/"
OPLOG = "refs/gitsession/oplog"
ACTIVE = "refs/gitsession/active/"
ACTIVE_FILES = "refs/gitsession/files/"
TRACKING = "refs/remotes/"
META = "meta"
FILES = "files"
MAIN = "main"

LEAF, ROOT, USER, TURN = "leaf", "root", "user", "turn"
ADDRESSES = (LEAF, ROOT, USER, TURN)
"""Names that address an entry in every session. No branch and no label may have one of these names."""

SID_LENGTHS = 13, 26
"""The lengths of the part after the date. The second one is used if another session has the shorter id."""

_SID = pattern(r"[0-9]{8}-[a-z2-7]{13}(?:[a-z2-7]{13})?")
_BRANCH = pattern(r"[a-z0-9][a-z0-9_-]{0,63}")
_RENAMED_SUFFIX = pattern(r"\.[a-z2-7]{8}(?:[a-z2-7]{5}|[a-z2-7]{18}|[a-z2-7]{44})?")


def is_sid(text: str) -> bool:
    """Return whether ``text`` has the format of a session id."""
    return _SID.fullmatch(text) is not None


def new_sid(at_ms: int) -> str:
    """Return a random id for a new session that gitsession writes."""
    return _sid(at_ms, os.urandom(16), SID_LENGTHS[0])


def imported_sids(agent: str, source_id: str, started_ms: int) -> tuple[str, str]:
    """Return the ids that an imported session can have. These ids are the same in every store.

    The session has the first id, unless another session already has it.
    """
    from gitsession.codec.digest import hash_of  # not at the top, because `ls` does not need the hash function

    digest = hash_of(sid_seed(agent, source_id, started_ms))
    short, long = (_sid(started_ms, digest, length) for length in SID_LENGTHS)
    return short, long


def sid_seed(agent: str, source_id: str, started_ms: int) -> bytes:
    """Return the bytes that identify an imported session."""
    return b"\0".join(
        [agent.encode("utf-8", "surrogatepass"), source_id.encode("utf-8", "surrogatepass"), str(started_ms).encode()]
    )


def _sid(at_ms: int, data: bytes, length: int) -> str:
    from gitsession.codec.digest import to_base32

    return f"{sid_date(at_ms)}-{to_base32(data, length)}"


def sid_date(at_ms: int) -> str:
    """Return the date at the beginning of a session id. ``at_ms``: the time when the session started."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y%m%d") if at_ms > 0 else "19700101"
    except (OverflowError, ValueError, OSError):
        return "19700101"


def session(sid: str) -> str:
    """Return the common prefix of a session's refs."""
    return f"{SESSIONS}{sid}/"


def leaf(sid: str, branch: str = MAIN) -> str:
    return f"{SESSIONS}{sid}/{branch}"


def meta(sid: str) -> str:
    return leaf(sid, META)


def files(sid: str) -> str:
    """Return the default checkpoint branch of a session."""
    return leaf(sid, FILES)


def active(sid: str) -> str:
    return ACTIVE + sid


def active_files(sid: str) -> str:
    """Return the symbolic ref that selects a session's checkpoint branch in this store (default: ``files``)."""
    return ACTIVE_FILES + sid


def chosen_files(sid: str, read: Callable[[str], RefValue | None]) -> str:
    """Return the name of the checkpoint branch that a store continues.

    ``read``: returns the value of a ref in that store.
    """
    value = read(active_files(sid))
    chosen = target(value) if value else None
    parsed = parse(chosen) if chosen else None
    exists = chosen is not None and parsed is not None and is_files(parsed[1]) and read(chosen)
    return chosen if chosen and exists else files(sid)


def choice(name: str) -> str | None:
    """Return the symbolic ref that can select the branch ``name``; ``None`` if ``name`` cannot be selected."""
    parsed = parse(name)
    if parsed is None or is_meta(parsed[1]):
        return None
    return active(parsed[0]) if is_branch(parsed[1]) else active_files(parsed[0])


def choices(sid: str) -> tuple[str, str]:
    """Return the symbolic refs that select a session's active branch and its checkpoint branch."""
    return active(sid), active_files(sid)


def trashed(name: str) -> str:
    """Return the name of a session's ref while the session is in the trash. The inverse is ``untrashed``."""
    return TRASH + name.removeprefix(SESSIONS)


def untrashed(name: str) -> str:
    """Return the original name of a ref that is in the trash."""
    return SESSIONS + name.removeprefix(TRASH)


def parse(name: str) -> tuple[str, str] | None:
    """Return the session id and the branch name of a session ref; ``None`` for any other ref."""
    sid, _, branch = name.removeprefix(SESSIONS).partition("/")
    return (sid, branch) if name.startswith(SESSIONS) and sid and branch and "/" not in branch else None


def is_branch(name: str) -> bool:
    """Return whether the ref ``name`` of a session is a branch of its conversation.

    ``files-...`` is a checkpoint branch that replaces another one whose tip is lost (sessions/checkpoint_refs.py). A
    suffix after ``.`` distinguishes diverged branches (store/histories.py).
    """
    return not is_meta(name) and not is_files(name)


def is_meta(name: str) -> bool:
    return name.partition(".")[0] == META


def is_files(name: str) -> bool:
    return name.partition(".")[0].partition("-")[0] == FILES


def session_of(name: str) -> str:
    """Return the session id of a session ref; "" for any other ref."""
    parsed = parse(name)
    return parsed[0] if parsed else ""


def session_at(name: str) -> str:
    """Return the session id of a session ref, a ref in the trash, or a ref that selects a branch; "" for other refs."""
    for chosen in (ACTIVE, ACTIVE_FILES):
        if name.startswith(chosen):
            return name.removeprefix(chosen)
    return session_of(untrashed(name) if name.startswith(TRASH) else name)


def is_session_ref(name: str) -> bool:
    """Return whether ``name`` is a valid name of a session's branch (docs/reference/format.md)."""
    parsed = parse(name)
    if parsed is None or not is_sid(parsed[0]):
        return False
    base, dot, rest = parsed[1].partition(".")
    return bool(_BRANCH.fullmatch(base)) and (not dot or bool(_RENAMED_SUFFIX.fullmatch(dot + rest)))


def symbolic(target: str) -> str:
    """Return the value of a symbolic ref that points to ``target``."""
    return f"ref: {target}"


def target(value: str) -> str | None:
    """Return the name of the ref to which the value of a symbolic ref points; ``None`` if the value is an object id."""
    return value.removeprefix("ref: ") if value.startswith("ref: ") else None


def check_branch(name: str) -> str:
    """Return ``name`` if a user may choose it as the name of a branch. Raises ``InvalidName``."""
    if not _BRANCH.fullmatch(name):
        raise InvalidName(
            f"invalid branch name {name[:80]!r}",
            hint="use at most 64 lower-case letters, digits, - and _, beginning with a letter or a digit",
        )
    check_ref_name(leaf("session", name))
    if name == META:
        raise _reserved(name, "the title and the labels of a session")
    if not is_branch(name):
        raise _reserved(name, "checkpoints")
    if name in ADDRESSES:
        raise _reserved(name, "the address of an entry")
    return name


def _reserved(name: str, use: str) -> InvalidName:
    return InvalidName(f"invalid branch name {name!r}: it is reserved for {use}", hint="choose another name")
