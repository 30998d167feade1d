"""The trash: sessions whose refs are below ``refs/gitsession/trash/``.

These sessions are complete, but are not listed by default. The commands ``rm`` and ``restore`` are recorded in the
operation log, so ``undo`` reverts them. The commands do not change the refs of remotes. Retention rules select sessions
by age, number and size, to move them to the trash. A label can protect a session.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from gitsession.archive import archive_set
from gitsession.dataclass import dataclass
from gitsession.errors import NotFound, Refused
from gitsession.git import process
from gitsession.git.types import RefValue
from gitsession.index.catalogue import Row
from gitsession.sessions import operation_log
from gitsession.store import refs
from gitsession.store.git_store import GitStore
from gitsession.store.interface import ObjectStore, StoreProxy


def sessions(store: ObjectStore) -> list[str]:
    """Return the ids of the sessions in the trash, sorted."""
    names = (refs.session_of(refs.untrashed(name)) for name in store.refs(refs.TRASH))
    return sorted({sid for sid in names if sid})


def remove(store: ObjectStore, sid: str, at_ms: int, group: str | None = None) -> None:
    """Move session ``sid`` to the trash.

    Raises ``NotFound``, and ``Refused`` if the trash already has a diverged branch of the session.
    """
    with operation_log.recording(store, f"rm {sid}", at_ms, group) as tx:
        found = store.refs(refs.session(sid))
        if not found:
            raise NotFound(f"no session {sid!r}", hint="run `gitsession ls` to list the sessions")
        for name, value in found.items():
            _move(store, tx, name, refs.trashed(name), value)
        _move_choices(store, tx, sid, found, refs.trashed)


def restore(store: ObjectStore, sid: str, at_ms: int) -> None:
    """Restore a session from the trash.

    Raises ``NotFound``, and ``Refused`` if a branch of the session also exists outside the trash and has diverged.
    """
    with operation_log.recording(store, f"restore {sid}", at_ms) as tx:
        found = store.refs(refs.trashed(refs.session(sid)))
        if not found:
            raise NotFound(f"no session {sid!r} in the trash", hint="run `gitsession ls --trash` to list the trash")
        for name, value in found.items():
            _move(store, tx, name, refs.untrashed(name), value)
        _move_choices(store, tx, sid, found, refs.untrashed)


def _move(store: ObjectStore, tx: operation_log.RecordingTransaction, old: str, new: str, value: RefValue) -> None:
    """Move the ref ``old`` to ``new``.

    If ``new`` exists, the longer history is kept. Raises ``Refused`` if the two histories have diverged.
    """
    existing = store.ref(new)
    if existing is None or archive_set.reaches(store.read, value, existing):
        tx.move(new, value, expected=existing)
    elif not archive_set.reaches(store.read, existing, value):
        raise Refused(
            f"cannot move ref {old!r}: {new!r} already exists, and the histories of the two refs have diverged",
            hint="fork or purge one of the two sessions",
        )
    tx.move(old, None, expected=value)


def _move_choices(
    store: ObjectStore,
    tx: operation_log.RecordingTransaction,
    sid: str,
    moved: Collection[str],
    rename: Callable[[str], str],
) -> None:
    """Point a session's symbolic refs to the new names of ``moved`` refs.

    Git reports dangling symbolic refs as damage.
    """
    for name in refs.choices(sid):
        value = store.ref(name) or ""
        target = refs.target(value)
        if target is not None and target in moved:
            tx.move(name, refs.symbolic(rename(target)), expected=value)


class TrashView(StoreProxy):
    """A read-only view of a store with only the sessions in the trash."""

    def ref(self, name: str) -> RefValue | None:
        return self._store.ref(refs.trashed(name) if name.startswith(refs.SESSIONS) else name)

    def refs(self, prefix: str) -> Mapping[str, RefValue]:
        if not prefix.startswith(refs.SESSIONS):
            return self._store.refs(prefix)
        return {refs.untrashed(name): value for name, value in self._store.refs(refs.trashed(prefix)).items()}


@dataclass(frozen=True, slots=True)
class Retention:
    """Retention rules. A rule with the value ``None`` or "" is not applied.

    Attributes:
        before_ms: Unix time in ms. Sessions that were last continued before this time expire.
        keep: Number of newest sessions that do not expire.
        bytes_max: Maximum total size of all sessions on disk, in bytes. The newest sessions are counted first.
        label: Label that protects a session if one of the session's entries has this label.
    """

    before_ms: int | None = None
    keep: int | None = None
    bytes_max: int | None = None
    label: str = ""


@dataclass(frozen=True, slots=True)
class ExpiredSession:
    """An expired session.

    Attributes:
        row: Row of the session in the catalog.
        why: Rule that selected the session: ``age``, ``size`` or ``number``.
        size_bytes: Size of the session's objects on disk, in bytes; ``None`` if no rule required it.
    """

    row: Row
    why: str
    size_bytes: int | None = None


def select_expired(
    rows: Iterable[Row], rules: Retention, *, labels: Callable[[str], set[str]], size: Callable[[str], int]
) -> list[ExpiredSession]:
    """Select the sessions that expire. ``rows``: rows of the catalog, newest session first.

    A session that a rule selects expires, unless ``keep`` or ``label`` protects it. If ``keep`` is the only rule, all
    unprotected sessions expire. ``labels`` and ``size`` are called only if a rule requires the result.
    """
    found = []
    total = 0
    for number, row in enumerate(rows):
        is_protected = (rules.keep is not None and number < rules.keep) or (
            rules.label and rules.label in labels(row.sid)
        )
        size_bytes = size(row.sid) if rules.bytes_max is not None else None
        reason = _expiry_reason(row, rules, total + (size_bytes or 0))
        if reason and not is_protected:
            found.append(ExpiredSession(row, reason, size_bytes))
        else:
            total += size_bytes or 0
    return found


def _expiry_reason(row: Row, rules: Retention, total: int) -> str:
    if rules.before_ms is not None and row.updated_ms < rules.before_ms:
        return "age"
    if rules.bytes_max is not None and total > rules.bytes_max:
        return "size"
    return "number" if rules.before_ms is None and rules.bytes_max is None and rules.keep is not None else ""


def size_of(store: GitStore, sid: str) -> int:
    """Return the size of a session's objects on disk in bytes, including shared objects. Raises ``Unavailable``."""
    leaves = "".join(f"{value}\n" for value in store.refs(refs.session(sid)).values())
    result = process.run(store.git_dir, "rev-list", "--objects", "--disk-usage", "--stdin", stdin=leaves.encode())
    return int(result.out.strip() or 0)
