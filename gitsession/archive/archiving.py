"""Archiving and restoring sessions, and updating a store to an archive that other stores have changed.

    archive             one transaction: extend the archive set, and delete the refs of the sessions
    restore             one transaction: mark the session as restored, create its refs, and restore its symbolic refs
                        from the operation log
    join                merge the archive set of a remote into the set of this store; create the refs of sessions that
                        the merge restores
    drop_archived_refs  delete the refs of archived sessions if their histories are archived; restore archived sessions
                        that were continued

If the process is killed between two of these operations, the next sync completes the update. No transaction deletes the
only ref from which a commit is reachable.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gitsession.archive import archive_set, trash
from gitsession.archive.archive_set import Archive
from gitsession.errors import (
    Corrupt,
    GitSessionError,
    Malformed,
    MissingObject,
    NotFound,
    Refused,
    Unavailable,
)
from gitsession.git import config
from gitsession.git.ref_files import SYMBOLIC
from gitsession.git.types import Oid, Reader, RefValue
from gitsession.sessions import operation_log
from gitsession.sessions.merge_remote_branches import SyncedBranch
from gitsession.store import histories, refs
from gitsession.store.git_store import GitStore
from gitsession.store.interface import ObjectStore, Transaction

if TYPE_CHECKING:
    from gitsession.index.catalogue import Row

AFTER = "gitsession.archiveAfter"
_AGE = re.compile(r"([1-9][0-9]{0,4})([dw])")
_AGE_UNITS_MS = {"d": 86_400_000, "w": 604_800_000}


def archive(store: ObjectStore, sids: Iterable[str], *, unchanged: Mapping[str, RefValue] | None = None) -> list[str]:
    """Archive sessions; return their ids. Raises ``NotFound`` or ``Refused``; in this case, nothing is changed.

    ``unchanged``: refs of sessions. A session with other refs in the store is left as it is.
    """
    done = []
    expected = None if unchanged is None else _by_session(unchanged)
    with store.transaction() as tx:
        before = archive_set.read(store)
        turns, ends = {**before.turns}, {**before.ends}
        removed_refs: dict[str, Oid] = {}
        for sid in dict.fromkeys(sids):
            session_refs = store.refs(refs.session(sid))
            if expected is not None and session_refs != expected.get(sid):
                continue
            if not session_refs:
                raise NotFound(f"no session {sid!r}", hint="run `gitsession ls` to list the sessions")
            invalid = [name for name, value in session_refs.items() if not _is_session_branch(name, value)]
            if invalid:
                what = f"the ref {invalid[0]!r} is not a valid branch of a session"
                raise Refused(f"cannot archive session {sid!r}: {what}")
            removed_refs |= session_refs
            # An archived session with refs was continued in another store. It is restored and archived again.
            turns[sid] = before.turns.get(sid, 0) + (2 if sid in before else 1)
            ends[sid] = before.of(sid) | frozenset(_tips(session_refs))
            done.append(sid)
        if not done:
            return []
        _write_archive(store, tx, Archive(turns, ends))
        for name, value in removed_refs.items():
            tx.move(name, None, expected=value)
        _forget_choices(store, tx, done)
    return done


def restore(store: ObjectStore, sid: str) -> None:
    """Restore a session from the archive. Raises ``NotFound``."""
    with store.transaction() as tx:
        archived = archive_set.read(store)
        if sid not in archived:
            hint = "run `gitsession ls --archived` to list the archived sessions"
            raise NotFound(f"cannot restore session {sid!r}: it is not archived", hint=hint)
        _write_archive(store, tx, archived.with_turn(sid))
        _restore_refs(store, tx, [sid], archived)


def restore_if_archived(store: GitStore, sid: str) -> bool:
    """Restore a session that was not found when it was used; return whether it can be found now.

    Another process may have restored it meanwhile. A session that the user removed stays in the trash, even if another
    store has archived it.
    """
    tip = store.ref(refs.ARCHIVE)
    if tip is None or store.read_only or store.refs(refs.trashed(refs.session(sid))):
        return False
    archived = archive_set.of_sessions(store, [tip], [sid])
    if sid in archived:
        with suppress(NotFound):
            restore(store, sid)
        return True
    return sid in archived.turns and bool(store.refs(refs.session(sid)))


def age_limit_ms(git_dir: Path) -> int | None:
    """Return the age after which maintenance archives a session, in ms; ``None`` if it archives none.

    Raises ``Refused`` if the setting is invalid.
    """
    value = config.value_of(git_dir, AFTER)
    if not value:
        return None
    match = _AGE.fullmatch(value)
    if match is None:
        raise Refused(
            f"invalid value of {AFTER}: {value[:40]!r}",
            hint=f"set a number of days or weeks, such as `gitsession git config {AFTER} 90d`",
        )
    return int(match[1]) * _AGE_UNITS_MS[match[2]]


def select_old(store: ObjectStore, rows: Iterable[Row], before_ms: int) -> list[str]:
    """Return the sessions without entries since ``before_ms`` that maintenance may archive.

    A session with a key is never selected, because its program finds it in the catalog, which lacks archived sessions.
    A session that was restored stays in place until it has new entries, so that reading an old session does not cause
    the same commits of the archive again and again. Entries of ``meta``, such as labels and titles, do not count: they
    do not make the session newer, so the next maintenance would archive it at once.
    """
    sids = [row.sid for row in rows if row.updated_ms < before_ms and row.key is None]
    tip = store.ref(refs.ARCHIVE)
    archived = archive_set.NONE if tip is None or not sids else archive_set.of_sessions(store, [tip], sids)
    found = []
    for sid in sids:
        session_refs = store.refs(refs.session(sid))
        is_valid = all(_is_session_branch(name, value) for name, value in session_refs.items())
        was_restored = sid in archived.turns and sid not in archived
        others = [ref for ref in session_refs.items() if not refs.is_meta(ref[0].rpartition("/")[2])]
        is_known = was_restored and all(archived.holds(store.read, *ref) for ref in others)
        if session_refs and is_valid and not is_known:
            found.append(sid)
    return found


def join(store: ObjectStore, reader: Reader, remote_tip: Oid | None) -> list[SyncedBranch]:
    """Merge the validated archive ``remote_tip`` into the archive of the store; return the outcome.

    The objects of ``remote_tip`` must be in the store.
    """
    local_tip = store.ref(refs.ARCHIVE)
    if remote_tip is None or remote_tip == local_tip:
        return []
    try:
        merged = archive_set.merge(reader, local_tip, remote_tip)
    except (Malformed, MissingObject, Corrupt) as error:
        return [SyncedBranch(refs.ARCHIVE, "refused", local_tip, local_tip, why=str(error))]
    if merged.oid is None or merged.oid == local_tip:
        return [SyncedBranch(refs.ARCHIVE, "ahead", local_tip, local_tip)]
    with store.transaction() as tx:
        before = archive_set.read(store)
        tx.put_all(merged.objects)
        tx.move(refs.ARCHIVE, merged.oid, expected=local_tip)
        after = archive_set.read(store)
        trashed = set(trash.sessions(store))
        restored = [sid for sid in before if sid not in after and sid not in trashed]
        _restore_refs(store, tx, restored, after)
    return [SyncedBranch(refs.ARCHIVE, "forwarded" if local_tip else "new", local_tip, merged.oid)]


def drop_archived_refs(store: ObjectStore, *, grow: bool = True) -> list[str]:
    """Delete the refs of archived sessions; return the names of the deleted refs.

    If a session has entries that are not in the archive, its refs are not deleted. If ``grow`` is set, such a session
    is restored from the archive.
    """
    tip = store.ref(refs.ARCHIVE)
    if tip is None:
        return []
    sids = {refs.session_of(name) for name in store.refs(refs.SESSIONS)}
    if not _refs_of_archived(store, archive_set.of_sessions(store, [tip], sids)):
        return []
    with store.transaction() as tx:
        archived = archive_set.read(store)
        removed_refs: list[str] = []
        continued: list[str] = []
        for sid, session_refs in _refs_of_archived(store, archived).items():
            if all(
                _is_session_branch(name, value) and archived.holds(store.read, name, value)
                for name, value in session_refs.items()
            ):
                for name, value in session_refs.items():
                    tx.move(name, None, expected=value)
                    removed_refs.append(name)
                _forget_choices(store, tx, [sid])
            else:
                continued.append(sid)
        if continued and grow:
            before = archived
            for sid in continued:
                archived = archived.with_turn(sid)
            _write_archive(store, tx, archived)
            _restore_refs(store, tx, continued, before)
    return removed_refs


def is_archived(archived: Archive, name: str, oid: Oid, read: histories.Read) -> bool:
    """Return whether the ref ``name`` belongs to an archived session and the history of ``oid`` is archived."""
    return refs.session_of(name) in archived and archived.holds(read, name, oid)


def _refs_of_archived(store: ObjectStore, archived: Archive) -> dict[str, dict[str, Oid]]:
    """Return the refs of archived sessions that exist in this store."""
    found: dict[str, dict[str, Oid]] = {}
    for name, value in store.refs(refs.SESSIONS).items() if archived else ():
        sid = refs.session_of(name)
        if sid in archived:
            found.setdefault(sid, {})[name] = value
    return found


def _by_session(found: Mapping[str, RefValue]) -> dict[str, dict[str, RefValue]]:
    by_session: dict[str, dict[str, RefValue]] = {}
    for name, value in found.items():
        by_session.setdefault(refs.session_of(name), {})[name] = value
    return by_session


def _restore_refs(store: ObjectStore, tx: Transaction, sids: Collection[str], archived: Archive) -> None:
    for sid in sids:
        current = {
            name: value for name, value in store.refs(refs.session(sid)).items() if _is_session_branch(name, value)
        }
        ends = archive_set.ends(store.read, sid, archived, current)
        for name, oid in ends.items():
            if current.get(name) != oid:
                tx.move(name, oid, expected=current.get(name))
        for name, target in _last_choices(store, sid).items():
            if target in ends and store.ref(name) is None:
                tx.move(name, refs.symbolic(target), expected=None)


def _last_choices(store: ObjectStore, sid: str) -> dict[str, str]:
    """Return the branches to which the last recorded command pointed the symbolic refs of a session.

    The archive does not contain these refs, because they are local to this store. The operation log is local, too.
    """
    found: dict[str, RefValue | None] = {}
    with suppress(GitSessionError):  # `verify` reports a damaged log
        for operation in operation_log.history(store):
            found = {move.ref: move.new for move in operation.moves if move.ref in refs.choices(sid)} | found
            if len(found) == len(refs.choices(sid)):
                break
    targets = {name: refs.target(value) for name, value in found.items() if value is not None}
    return {name: target for name, target in targets.items() if target is not None}


def _forget_choices(store: ObjectStore, tx: Transaction, sids: Iterable[str]) -> None:
    """Delete the symbolic refs of ``sids``, because git reports symbolic refs to deleted branches as damage."""
    for name in (name for sid in sids for name in refs.choices(sid)):
        value = store.ref(name)
        if value is not None:
            tx.move(name, None, expected=value)


def _write_archive(store: ObjectStore, tx: Transaction, archived: Archive) -> None:
    tip = store.ref(refs.ARCHIVE)
    commit = archive_set.added(store, tip, archived)
    if commit.oid is None:
        raise Unavailable("cannot change the archive: it does not exist, because no session was archived yet")
    tx.put_all(commit.objects)
    tx.move(refs.ARCHIVE, commit.oid, expected=tip)


def _tips(session_refs: Mapping[str, Oid]) -> list[tuple[str, Oid]]:
    return [(name.rpartition("/")[2], oid) for name, oid in session_refs.items()]


def _is_session_branch(name: str, value: str) -> bool:
    return refs.is_session_ref(name) and not value.startswith(SYMBOLIC)
