"""Execution of a purge: every ref moves to a history without the purged content, and every local copy is deleted.

    0  The mark `purge-pending` is written to disk. If the purge is interrupted after this step, the next process that
       opens the store continues it.
    1  Tombstones are added to the tombstone set, by ``add`` or by a merge during a sync. All writers then apply them.
    2  All refs move to the rewritten commits in one journal record: refs of sessions, remote-tracking refs, the trash,
       and the operation log.
    3  Objects are deleted by name. Derived, spooled, quarantined and temporary files are deleted, too.
    4  The mark is removed, and the checked state is recorded, so that the next check covers only new data.

Each step can be repeated with the same result.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field
from pathlib import Path

from gitsession import progress
from gitsession.codec import message
from gitsession.codec.holes import StoredPayload
from gitsession.dataclass import dataclass
from gitsession.durable import replace as replace_file
from gitsession.durable import sync_directory
from gitsession.errors import Ambiguous, Corrupt, MissingObject, RefMoved, Refused, Unavailable
from gitsession.git import process, ref_files
from gitsession.git.types import Kind, Oid, Reader, RefValue
from gitsession.purge import derived_files, notes, select_objects
from gitsession.purge.rewriting import Rewriter, rewrite_log
from gitsession.redaction.original import Original
from gitsession.sessions import content, graph, local_records, node, operation_log, tombstone, tombstone_set
from gitsession.sessions.gaps import DAMAGE
from gitsession.sessions.node import Node
from gitsession.sessions.tombstone_set import Replacement, Tombstones
from gitsession.store import change_stamp, create, flush_record, published, refs
from gitsession.store.drop_objects import ObjectRemoval, check_unshared
from gitsession.store.drop_objects import finish as finish_dropping
from gitsession.store.git_store import GitStore
from gitsession.store.lock import packing

DONE = f"{create.CONTROL}/purged"
TRIES = 6
_NEW_VALUES_MAX = 256
"""Number of changed refs above which a check records the state, so that the next check covers only later changes."""

_WAIT = "when these processes have finished, run `gitsession doctor` to complete the purge"
_HINT = "solve the problem, then run `gitsession doctor` to complete the purge"
_DELETE_TAG = "delete the tag with `gitsession git tag -d TAG`"
_DELETE_REF = "delete the ref with `gitsession git update-ref -d $'REF'`; its name is not valid UTF-8"

_SEPARATE_REFS = (refs.OPLOG, refs.TOMBSTONES)
_OWN_PREFIXES = ("refs/heads/", "refs/remotes/", "refs/gitsession/")


@dataclass(frozen=True, slots=True)
class PurgeResult:
    """The result of a purge.

    Attributes:
        moved: Names of the refs that moved.
        dropped: Number of deleted objects.
        mapped: New oids of the commits that changed, by the old oids.
    """

    moved: tuple[str, ...] = ()
    dropped: int = 0
    mapped: Mapping[Oid, Oid] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Preview:
    """The effect of a tombstone set on a store: the entries that it removes and the refs that it moves."""

    gone: tuple[Node, ...]
    moved: tuple[str, ...]


def is_pending(store: GitStore) -> bool:
    """Return whether a purge was started in this store and is incomplete."""
    return create.is_purge_pending(store.git_dir)


def add(store: GitStore, more: Tombstones, at_ms: int) -> PurgeResult:
    """Add ``more`` to the tombstone set and apply the set. Raises the errors of ``apply``."""
    begin(store)
    while True:
        tip = store.ref(refs.TOMBSTONES)
        seen = {oid for _, oid in published.list_values(store.git_dir, store.refs(refs.TRACKING), refs.TOMBSTONES)}
        commit = tombstone_set.add(store, tip, more, at_ms, seen)
        if commit.oid == tip:
            break
        try:
            with store.transaction() as tx:
                tx.put_all(commit.objects)
                tx.move(refs.TOMBSTONES, commit.oid, expected=tip)
            break
        except RefMoved:
            continue
    return apply(store)


def replace(store: GitStore, replacements: Mapping[str, tuple[str, StoredPayload]], at_ms: int) -> PurgeResult:
    """Replace entries. ``replacements``: the form and the new payload of each entry, by the digest of the entry.

    The chain digests of later entries do not change. A replacement must have the kind and the author of the entry, so
    that a later tombstone of the entry is the same with and without the replacement. Raises the errors of ``add``, and
    ``Malformed`` for an invalid payload.
    """
    by_digest = {digest: Replacement(form, stored) for digest, (form, stored) in replacements.items()}
    kept = {digest: replacement for digest, replacement in by_digest.items() if replacement.digest != digest}
    for old in preview(store, Tombstones(frozenset(kept))).gone:
        replacement = kept.get(old.replaces.hex()) or kept.get(content.entry_tree(store, old).digest.hex())
        headline = tombstone.replacement_headline(old, replacement) if replacement is not None else None
        if headline is not None and (message.kind_of(headline), headline.role) != (old.kind, old.role):
            difference = f"expected a {old.role} {old.kind}, found a {headline.role} {headline.kind}"
            raise Refused(f"cannot replace entry {old.oid[:12]}: {difference}")
    return add(store, Tombstones(replaced=kept), at_ms) if kept else PurgeResult()


def begin(store: GitStore) -> None:
    """Execute step 0. Raises the errors of ``check``."""
    check(store)
    file = store.git_dir / create.PURGE_PENDING
    with _wrap_os_errors():
        if not file.exists():
            replace_file(file, b"", by=file.with_suffix(".tmp"))


@contextmanager
def _wrap_os_errors() -> Iterator[None]:
    """Raise ``Unavailable`` instead of ``OSError``."""
    try:
        yield
    except OSError as error:
        raise Unavailable(f"cannot complete the purge: {error.strerror}", hint=_HINT) from error


def check(store: GitStore) -> None:
    """Raise ``Refused`` if a purge would miss a copy or delete too much; ``Unavailable`` if the store is read-only."""
    if store.read_only:
        raise Unavailable(f"cannot purge: the store '{store.git_dir}' is read-only")
    check_unshared(store.git_dir)
    if store.damage():
        raise Refused(
            "cannot purge: a damaged journal file may contain a copy of the content to purge",
            hint="run `gitsession repair` first",
        )


def preview(store: GitStore, more: Tombstones) -> Preview:
    """Return the effect that ``add`` would have. The store does not change."""
    rewriter = Rewriter(store, tombstone_set.read(store) | more)
    ref_oids = _rewritable_refs(store)
    scanned = progress.each("Scanning branches", ref_oids.items())
    moved = tuple(name for name, oid in scanned if rewriter.ref(name, oid) != oid)
    gone = [node.load(store, oid) for oid in rewriter.replaced_commits()]
    return Preview(tuple(gone), moved)


def apply(store: GitStore, tombstones: Tombstones | None = None, *, thorough: bool = False) -> PurgeResult:
    """Apply the tombstone set to the store. This is fast if the store has no purged content.

    ``thorough``: also check commits that are not reachable from a ref. Raises ``Refused`` if this store cannot
    be purged, and ``Unavailable`` if other processes write repeatedly or the disk fails.
    """
    tip = store.ref(refs.TOMBSTONES)
    if tombstones is None:
        tombstones = tombstone_set.NONE if tip is None else tombstone_set.at(store, tip)
    if not tombstones and not is_pending(store):
        return PurgeResult()
    state = _read_state(store.git_dir)
    is_done = state.tip == tip and not is_pending(store) and _is_purged(store, tombstones, state)
    if is_done and not (thorough and _has_unreachable_content(store, tombstones)):
        return PurgeResult()
    begin(store)
    with _wrap_os_errors():
        with packing(store.git_dir):
            applied, settled = _execute(store, tombstones)
        with store.locked():
            flush_record.mark(store.git_dir, flush_record.PURGED)
        _write_state(store.git_dir, _PurgeState(tip, settled, ""))
        (store.git_dir / create.PURGE_PENDING).unlink(missing_ok=True)
        sync_directory(store.git_dir / create.CONTROL)
    return applied


def _is_purged(store: GitStore, tombstones: Tombstones, state: _PurgeState) -> bool:
    """Return whether the store has no purged content. Data that the last check covered is not checked again."""
    fingerprint = change_stamp.fingerprint(store.git_dir)  # read first, so that the next check covers later moves
    if state.fingerprint == fingerprint:
        return True
    ref_oids = _rewritable_refs(store)
    rewriter = Rewriter(store, tombstones, clean=state.refs)
    if not all(rewriter.ref(name, oid) == oid for name, oid in ref_oids.items()):
        return False
    seen = frozenset(ref_oids.values())
    if not state.fingerprint or len(seen - state.refs) > _NEW_VALUES_MAX:
        _write_state(store.git_dir, _PurgeState(state.tip, seen, fingerprint))
    return True


def _has_unreachable_content(store: GitStore, tombstones: Tombstones) -> bool:
    """Return whether an unreachable commit has purged content. git leaves unreachable commits when it moves a ref."""
    rewriter = Rewriter(store, tombstones)
    return any(kind == "commit" and rewriter.commit(oid) != oid for oid, kind in ObjectRemoval(store).kinds().items())


def _execute(store: GitStore, tombstones: Tombstones) -> tuple[PurgeResult, frozenset[Oid]]:
    """Execute steps 2 and 3; return the result, and the values of the refs at which the store had no purged content."""
    moved: set[str] = set()
    mapped: dict[Oid, Oid] = {}
    with store.locked():
        finish_dropping(store.git_dir)
    for _ in range(TRIES):
        try:
            rewriter, changed = _move_refs(store, tombstones)
        except RefMoved:
            continue
        moved |= changed
        mapped |= rewriter.mapped
        dropped, settled = _delete_objects(store, tombstones, rewriter)
        if settled is not None:
            return PurgeResult(tuple(sorted(moved)), dropped, mapped), settled
    raise Unavailable("cannot complete the purge: other processes keep writing to the store", hint=_WAIT)


def _delete_objects(store: GitStore, tombstones: Tombstones, rewriter: Rewriter) -> tuple[int, frozenset[Oid] | None]:
    """Execute step 3; return the number of deleted objects and the values of the refs afterwards.

    The values are ``None`` if another process wrote meanwhile. Steps 2 and 3 must then be repeated.
    """
    removal = ObjectRemoval(store)
    kinds, log = removal.kinds(), store.ref(refs.OPLOG)
    now = _commit_refs(store)
    victims = select_objects.find(store, tombstones, kinds, now.values(), rewriter)
    victims |= notes.select_note_objects(store, tombstones, rewriter, kinds, now, victims) | select_objects.old_sets(
        store, kinds, now.values()
    )
    samples = derived_files.text_samples(
        select_objects.texts(store, [oid for oid in rewriter.replaced_commits() if oid in kinds])
    )
    hidden = store.vault.digests()
    if hidden:
        store.vault.keep(list(_originals(store, rewriter, hidden)))
        digests = {bytes.fromhex(key) for key in {*tombstones.removed, *tombstones.replaced} if ":" not in key}
        store.vault.forget(hidden & {*digests, *select_objects.digests(store, victims, kinds)})
    with store.locked():
        derived_files.remove(store.git_dir, samples, discard_snapshots=tombstones.has_files)

    ref_oids: dict[str, Oid] = {}

    def is_settled() -> bool:
        now = _commit_refs(store)
        ref_oids.update({name: oid for name, oid in now.items() if name not in _SEPARATE_REFS})
        return not victims & set(now.values()) and _needs_no_rewrite(store, rewriter, now, log, victims)

    return (len(victims), frozenset(ref_oids.values())) if removal.drop(victims, is_settled) else (0, None)


def _originals(store: GitStore, rewriter: Rewriter, hidden: set[bytes]) -> Iterator[Original]:
    """Yield this store's originals of entries that another store redacted, under the digests of the replacements."""
    for oid in rewriter.replaced_commits():
        try:
            before, after = node.load(store, oid), node.load(rewriter, rewriter.mapped[oid])
            old, new = content.entry_tree(store, before), content.entry_tree(rewriter, after)
            original = store.vault.original(old.digest, before.chain) if old.digest in hidden else None
        except (*DAMAGE, Ambiguous):
            continue
        if original is not None and not after.is_tombstone:
            yield Original(new.digest, after.chain, original)


def _move_refs(store: GitStore, tombstones: Tombstones) -> tuple[Rewriter, set[str]]:
    """Execute step 2. Raises ``RefMoved`` if another process moves a ref at the same time."""
    rewriter = Rewriter(store, tombstones)
    ref_oids = _rewritable_refs(store)
    _refuse_others(store, rewriter)
    scanned = progress.each("Scanning branches", ref_oids.items())
    new = {name: rewriter.ref(name, oid) for name, oid in scanned}
    new |= notes.rewrite_notes(store, tombstones, rewriter, new)
    log = store.ref(refs.OPLOG)
    if log is not None:
        ref_oids[refs.OPLOG], new[refs.OPLOG] = log, rewrite_log(store, log, rewriter)
    moved = {name for name, oid in new.items() if oid != ref_oids[name]}
    gone = {name for name in moved if name.startswith(refs.TRASH) and rewriter.is_purged(name)}
    if moved:
        local_records.add_purged(store.git_dir, _removed(store, rewriter, {name: ref_oids[name] for name in moved}))
        local_records.add_renamed(store.git_dir, rewriter.mapped)
        with store.transaction() as tx:
            tx.put_all(rewriter.objects)
            for name in sorted(moved):
                tx.move(name, None if name in gone else new[name], expected=ref_oids[name])
            for name in (name for trashed in gone for name in refs.choices(refs.session_of(refs.untrashed(trashed)))):
                value = store.ref(name)
                if value is not None and refs.target(value) in gone:
                    tx.move(name, None, expected=value)
    return rewriter, moved


def _removed(store: GitStore, rewriter: Rewriter, moved: Mapping[str, Oid]) -> Iterator[Node]:
    """Yield the removed entries: entries that a tombstone replaces, and entries that only purged sessions contain.

    ``moved``: refs that the rewrite moves, with their old values. Entries that a purged session shares with a fork are
    not removed.
    """
    for oid in rewriter.replaced_commits():
        if node.load(rewriter, rewriter.mapped[oid]).is_tombstone:
            yield node.load(store, oid)
    purged = {name: oid for name, oid in moved.items() if rewriter.is_purged(name)}
    if not purged:
        return
    seen = {
        entry.oid
        for name, oid in _rewritable_refs(store).items()
        if name not in purged
        for entry in _readable_history(store, oid)
    }
    for oid in purged.values():
        for entry in _readable_history(store, oid):
            if entry.oid in seen:
                break
            seen.add(entry.oid)
            yield entry


def _readable_history(store: GitStore, leaf: Oid) -> Iterator[Node]:
    with suppress(*DAMAGE):  # a commit that is not an entry or is damaged has no entry id
        yield from graph.history(store, leaf)


def _needs_no_rewrite(
    store: GitStore, rewriter: Rewriter, now: Mapping[str, Oid], log: RefValue | None, victims: set[Oid]
) -> bool:
    """Return whether the current refs and the operation log have no purged content.

    Other processes may have changed them after the rewrite.
    """
    for operation in operation_log.history_from(store, store.ref(refs.OPLOG)):
        if operation.id == log:
            break
        if victims & set(operation.oids):
            return False
    return all(rewriter.ref(name, oid) == oid for name, oid in now.items() if name != refs.OPLOG)


def _rewritable_refs(store: GitStore) -> dict[str, Oid]:
    """Return the refs that the rewrite moves, without the operation log and the tombstone set."""
    return {name: value for name, value in _commit_refs(store).items() if name not in _SEPARATE_REFS}


def _commit_refs(store: GitStore) -> dict[str, Oid]:
    """Return the refs that point to commits. Refs of other programs can point to other objects."""
    found = {}
    for name, value in store.refs("refs/").items():
        if refs.target(value) is None and (name.startswith(_OWN_PREFIXES) or _is_commit(store, value)):
            found[name] = value
    return found


def _is_commit(reader: Reader, oid: Oid) -> bool:
    try:
        kind: Kind = reader.read(oid)[0]
    except (Corrupt, MissingObject):  # a tag (see ``_refuse_others``), or a broken ref
        return False
    return kind == "commit"


def _refuse_others(store: GitStore, rewriter: Rewriter) -> None:
    """Raise ``Refused`` if purged content is reachable from a tag, or from a ref whose name is not valid UTF-8.

    A tag may be signed, so only its owner may remove it. The store ignores refs with such names.
    """
    fields = "%(refname) %(objecttype) %(objectname) %(*objectname) %(*objecttype)"
    for line in process.run(store.git_dir, "for-each-ref", f"--format={fields}").out.splitlines():
        name, _, rest = line.partition(b" ")
        kind, oid, *target = rest.decode().split(" ")
        shown = name.decode("utf-8", "backslashreplace")
        if kind == "tag" and target[1:] == ["commit"] and rewriter.commit(target[0]) != target[0]:
            raise Refused(f"cannot purge: the content to purge is reachable from the tag '{shown}'", hint=_DELETE_TAG)
        if kind == "commit" and not ref_files.is_utf8(name) and rewriter.commit(oid) != oid:
            raise Refused(f"cannot purge: the content to purge is reachable from '{shown}'", hint=_DELETE_REF)


@dataclass(frozen=True, slots=True)
class _PurgeState:
    """The state after the last purge or check.

    Attributes:
        tip: Commit of the applied tombstone set.
        refs: Values of the refs.
        fingerprint: Fingerprint of the store (see ``change_stamp``); "" if unknown.
    """

    tip: Oid | None
    refs: frozenset[Oid]
    fingerprint: str


def _read_state(git_dir: Path) -> _PurgeState:
    try:
        value = json.loads((git_dir / DONE).read_bytes())
        return _PurgeState(value["tip"], frozenset(value["refs"]), value["fingerprint"])
    except (OSError, ValueError, KeyError, TypeError):
        return _PurgeState("", frozenset(), "")


def _write_state(git_dir: Path, state: _PurgeState) -> None:
    data = json.dumps({"tip": state.tip, "refs": sorted(state.refs), "fingerprint": state.fingerprint}).encode()
    replace_file(git_dir / DONE, data, by=git_dir / f"{DONE}.tmp")
