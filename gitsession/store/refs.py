"""The names of refs: every one we read or write (docs/reference/format.md, "The repository")."""

from __future__ import annotations

import re
from collections.abc import Callable

from gitsession.errors import InvalidName
from gitsession.git.ref_files import check_ref_name
from gitsession.git.types import RefValue

SESSIONS = "refs/heads/sessions/"
OURS = "refs/heads/gitsession/"
"""Below it stands what is synced and is no session's."""
TOMBSTONES = f"{OURS}tombstones"
ARCHIVE = f"{OURS}archive"
TRASH = "refs/gitsession/trash/"
OPLOG = "refs/gitsession/oplog"
ACTIVE = "refs/gitsession/active/"
LOOKS = "refs/gitsession/files/"
TRACKING = "refs/remotes/"
META = "meta"
FILES = "files"
MAIN = "main"

LEAF, ROOT = "leaf", "root"
"""Words that name an entry in every session: no branch and no label may take them."""

_SID = re.compile(r"[0-9]{8}-[a-z2-7]{13}(?:[a-z2-7]{13})?")
_BRANCH = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_BESIDE = re.compile(r"\.[a-z2-7]{8}(?:[a-z2-7]{5}|[a-z2-7]{18}|[a-z2-7]{44})?")


def session(sid: str) -> str:
    """What every ref of a session begins with."""
    return f"{SESSIONS}{sid}/"


def leaf(sid: str, branch: str = MAIN) -> str:
    return f"{SESSIONS}{sid}/{branch}"


def meta(sid: str) -> str:
    return leaf(sid, META)


def files(sid: str) -> str:
    """The line of checkpoints of a session."""
    return leaf(sid, FILES)


def active(sid: str) -> str:
    return ACTIVE + sid


def looks(sid: str) -> str:
    """The symbolic ref that says on which line this store keeps the checkpoints of a session, if not on ``files``."""
    return LOOKS + sid


def chosen_files(sid: str, read: Callable[[str], RefValue | None]) -> str:
    """Return the ref of the line of checkpoints that a store goes on with. ``read``: the value of a ref there."""
    value = read(looks(sid))
    chosen = target(value) if value else None
    parsed = parse(chosen) if chosen else None
    is_there = chosen is not None and parsed is not None and is_files(parsed[1]) and read(chosen)
    return chosen if chosen and is_there else files(sid)


def choice(name: str) -> str | None:
    """The symbolic ref that says on which line this store goes on, for the line of a session ref; none of ``meta``."""
    parsed = parse(name)
    if parsed is None or is_meta(parsed[1]):
        return None
    return active(parsed[0]) if is_branch(parsed[1]) else looks(parsed[0])


def choices(sid: str) -> tuple[str, str]:
    """Return the symbolic refs of a session: its active branch and its line of checkpoints, where those are chosen."""
    return active(sid), looks(sid)


def trashed(name: str) -> str:
    """Where a session's ref lies while the session is in the trash; the inverse of ``taken_out``."""
    return TRASH + name.removeprefix(SESSIONS)


def taken_out(name: str) -> str:
    """The name that a ref in the trash had."""
    return SESSIONS + name.removeprefix(TRASH)


def parse(name: str) -> tuple[str, str] | None:
    """Session and branch of a session ref, else ``None``."""
    sid, _, branch = name.removeprefix(SESSIONS).partition("/")
    return (sid, branch) if name.startswith(SESSIONS) and sid and branch and "/" not in branch else None


def is_branch(name: str) -> bool:
    """Whether a session's ref of that name is a branch of its conversation.

    ``files-...`` is where a line of checkpoints goes on whose end is lost (sessions/checkpoint_refs.py); what follows a
    ``.`` tells lines apart that went on without each other (store/histories.py).
    """
    return not is_meta(name) and not is_files(name)


def is_meta(name: str) -> bool:
    return name.partition(".")[0] == META


def is_files(name: str) -> bool:
    return name.partition(".")[0].partition("-")[0] == FILES


def session_of(name: str) -> str:
    """The session of a session ref, "" for any other."""
    parsed = parse(name)
    return parsed[0] if parsed else ""


def session_at(name: str) -> str:
    """Return the session that a ref belongs to: one of its own, in the trash, or a choice of a line; "" for others."""
    for chosen in (ACTIVE, LOOKS):
        if name.startswith(chosen):
            return name.removeprefix(chosen)
    return session_of(taken_out(name) if name.startswith(TRASH) else name)


def is_session_ref(name: str) -> bool:
    """Return whether ``name`` is a session's branch as docs/reference/format.md writes them."""
    parsed = parse(name)
    if parsed is None or not _SID.fullmatch(parsed[0]):
        return False
    base, dot, rest = parsed[1].partition(".")
    return bool(_BRANCH.fullmatch(base)) and (not dot or bool(_BESIDE.fullmatch(dot + rest)))


def symbolic(target: str) -> str:
    """The value of a symbolic ref to ``target``."""
    return f"ref: {target}"


def target(value: str) -> str | None:
    """The name a symbolic ref's value points to, ``None`` for an oid."""
    return value.removeprefix("ref: ") if value.startswith("ref: ") else None


def check_branch(name: str) -> str:
    """``name`` if a user may call a branch so. Raises ``InvalidName``."""
    if not _BRANCH.fullmatch(name):
        raise InvalidName(
            f"{name[:80]!r} cannot be a branch",
            hint="use lower-case letters, digits, - and _, at most 64, beginning with a letter or digit",
        )
    check_ref_name(leaf("session", name))
    if name == META:
        raise InvalidName(f"{META!r} is where a session keeps its title and labels", hint="choose another name")
    if not is_branch(name):
        raise InvalidName(f"{name!r} is where a session keeps its checkpoints", hint="choose another name")
    if name in (LEAF, ROOT):
        raise InvalidName(f"{name!r} is a word for an entry", hint="choose another name")
    return name
