"""Hooks of a server: validate a push before it is accepted, and remove entries that were purged in other stores.

While `pre-receive` runs, git keeps the pushed objects in a quarantine. If the hook rejects the push, git deletes the
quarantine, so no pushed object remains. If the repository is a store, its journal is first flushed to git, so that
the push is validated against the current state.

A push waits for the start of this program, so modules that most pushes do not need are loaded where they are used.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gitsession.archive import archive_set
from gitsession.errors import GitSessionError, Malformed
from gitsession.git import process
from gitsession.git.repository import VerifiedRepository
from gitsession.git.types import Oid
from gitsession.server import server
from gitsession.sessions.tombstone_set import NONE, at
from gitsession.store import create, refs
from gitsession.validation.quarantine_reader import GitReader, Limits, Proposed, Refusal
from gitsession.validation.validate import validate_moves

if TYPE_CHECKING:
    from gitsession.purge.purging import PurgeResult

_NONE = "0" * 40
_NAMED_MAX = 64
"""Maximum number of pushed sessions whose refs are listed one by one. For more, the refs of all sessions are listed."""

_SETTINGS = {
    "gitsession.maxEntries": "entries",
    "gitsession.maxSeconds": "seconds",
    "gitsession.maxPayloadBytes": "payload_bytes",
    "gitsession.maxWholeBytes": "whole_bytes",
    "gitsession.maxFileBytes": "file_bytes",
    "gitsession.maxNames": "names",
}
"""Limits that the owner of a server can set in the git configuration of the repository."""


def moves(lines: Iterable[str]) -> list[Proposed]:
    """Parse the input of a git hook, a line ``<old> <new> <ref>`` for each pushed ref. Raises ``Malformed``."""
    found = []
    for line in lines:
        fields = line.rstrip("\n").split(" ", 2)
        if len(fields) == 3:
            old, new, ref = fields
            found.append(Proposed(ref, None if old == _NONE else old, None if new == _NONE else new))
        elif fields != [""]:
            raise Malformed(f"cannot read the hook's input: expected '<old> <new> <ref>', found {line[:80]!r}")
    return found


def pre_receive(git_dir: Path, proposed: Sequence[Proposed], environ: Mapping[str, str]) -> list[Refusal]:
    """Validate a push, and return the refusals. If there are none, the push is accepted.

    ``environ``: environment of the hook. It contains the location of the quarantine.
    """
    if create.is_purge_pending(git_dir):
        with suppress(GitSessionError):
            post_receive(git_dir)
    if (git_dir / create.JOURNAL).is_dir():
        from gitsession.store.git_store import GitStore

        with suppress(GitSessionError), GitStore.open(git_dir) as store:  # if the flush fails, no data is lost
            store.flush()
    variables = process.quarantine(environ)
    settings = server.own_settings(git_dir)
    allowed = settings.get(server.ALLOWED.lower(), [])
    with GitReader(git_dir, existing_refs(git_dir, proposed), variables) as read:
        tip = read.known.get(refs.TOMBSTONES)
        tombstones = NONE if tip is None else at(read, tip)
        refusals = validate_moves(read, proposed, tombstones, limits(settings), allowed=allowed, keeps_archived=True)
        new_sets = [move.new for move in proposed if move.ref == refs.TOMBSTONES and move.new is not None]
        if new_sets and not any(refusal.ref == refs.TOMBSTONES for refusal in refusals):
            from gitsession.purge import tombstone_checks

            session_tips = _listed(git_dir, refs.SESSIONS)
            if refs.ARCHIVE in read.known:
                session_tips |= archive_set.named(read.archive(read.known[refs.ARCHIVE]))
            reason = tombstone_checks.problem(
                VerifiedRepository(git_dir), session_tips, tombstones, at(read, new_sets[0]) | tombstones
            )
            refusals += [Refusal(refs.TOMBSTONES, new_sets[0], reason, "tombstones")] if reason else []
    if new_sets and not refusals:
        from gitsession.purge import purging
        from gitsession.store.git_store import GitStore

        with suppress(GitSessionError), GitStore.open(git_dir) as store:
            purging.begin(store)  # if the purge does not run after this push, the next push runs it
    return refusals


def post_receive(git_dir: Path) -> PurgeResult | None:
    """Remove purged entries, and refs of archived sessions.

    Return the result of the purge; ``None`` if the repository has no tombstone set. Purged entries that another push
    added during the push of the tombstones are also removed. Raises ``Unavailable``, and ``NotAStore`` if the
    repository is not a store. In a repository that is not a store, only the owner can remove entries.
    """
    from gitsession.archive import archiving
    from gitsession.purge import purging
    from gitsession.store.git_store import GitStore

    existing = _listed(git_dir, refs.TOMBSTONES, refs.ARCHIVE)
    if not existing:
        return None
    with GitStore.open(git_dir) as store:
        applied = purging.apply(store) if refs.TOMBSTONES in existing else None
        archiving.drop_archived_refs(store, grow=False)
        return applied


def existing_refs(git_dir: Path, proposed: Collection[Proposed]) -> dict[str, Oid]:
    """Return the existing refs that are required to validate the proposed refs."""
    sids = {refs.session_of(move.ref) for move in proposed} - {""}
    session_prefixes = [refs.session(sid).rstrip("/") for sid in sorted(sids)] if len(sids) <= _NAMED_MAX else []
    others = [refs.TOMBSTONES, refs.ARCHIVE, *(move.ref for move in proposed if not refs.session_of(move.ref))]
    found = _listed(git_dir, *session_prefixes, *others) if len(sids) <= _NAMED_MAX else {}
    if sids <= {refs.session_of(name) for name in found}:
        return found
    return _listed(git_dir, refs.SESSIONS, *others)  # a new session may be a fork of any other session


def limits(settings: Mapping[str, Sequence[str]]) -> Limits:
    """Return the limits of the validation: those in ``settings``, or else the defaults. Raises ``Malformed``."""
    chosen: dict[str, int] = {}
    for name, field in _SETTINGS.items():
        for value in settings.get(name.lower(), ())[-1:]:
            if not value.isdecimal():
                raise Malformed(f"expected a number, found {value[:40]!r}", where=name)
            chosen[field] = int(value)
    return Limits(**chosen)


def _listed(git_dir: Path, *patterns: str) -> dict[str, Oid]:
    output = process.run(git_dir, "for-each-ref", "--format=%(objectname) %(refname)", *patterns).out
    lines = output.decode("utf-8", "surrogateescape").splitlines()
    return {name: oid for oid, _, name in (line.partition(" ") for line in lines)}
