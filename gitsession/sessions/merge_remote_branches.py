"""Merge of a store's session refs with a remote's session refs. No entry is lost, and no branch is overwritten.

The local tip and the remote tip of each ref determine the outcome:

    1. no local tip                      NEW        the remote tip becomes the local tip
    2. the tips are equal                SAME
    3. the remote is ahead               FORWARDED  the local ref moves to the remote tip
    4. the local store is ahead          AHEAD      the branch can be pushed
    5. the branches have diverged, and
       only labels and titles are local  FORWARDED  the local entries are appended again after the remote tip
       the remote is the home remote     FORKED     the local branch is renamed (``store.histories``), and stays active
                                                    if it was active; the remote branch gets the name
       the remote is another one         REFUSED    the remote branch is renamed, because only the branches of the home
                                                    remote keep their names

All moves are in one transaction. The new name of a branch is computed from its content. So the result is the same if
the merge is repeated after a crash or with newer remote tips.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from gitsession.codec import payload
from gitsession.codec.holes import StoredPayload
from gitsession.dataclass import dataclass
from gitsession.errors import Corrupt, Malformed, MissingObject, NotFound
from gitsession.formats import FORMATS
from gitsession.git.ref_files import SYMBOLIC
from gitsession.git.types import Oid
from gitsession.model.entries import Label, Title, Usage
from gitsession.sessions import commit_writer, content
from gitsession.sessions.active_branch import active
from gitsession.sessions.commit_writer import Draft
from gitsession.sessions.graph import branches
from gitsession.sessions.node import Node, load
from gitsession.store import histories, refs
from gitsession.store.interface import ObjectStore, Transaction

Outcome: TypeAlias = Literal["new", "same", "forwarded", "ahead", "forked", "refused", "purged"]

NON_CONVERSATION = frozenset({Label.kind, Title.kind, Usage.kind})
"""Kinds that are not part of the conversation. Such entries are appended again, and cause no divergence."""


@dataclass(frozen=True, slots=True)
class SyncedBranch:
    """The outcome for one ref.

    ``beside``: the ref of the renamed branch. ``why``: the reason for a rejection. ``old``, ``new``: the local tips
    before and after the merge. ``secret``: whether the ref was not sent because it contains a secret.
    """

    ref: str
    outcome: Outcome
    old: Oid | None = None
    new: Oid | None = None
    beside: str = ""
    why: str = ""
    secret: bool = False


def reconcile(store: ObjectStore, tx: Transaction, tips: Mapping[str, Oid], *, is_home: bool) -> list[SyncedBranch]:
    """Merge remote tips into the store's refs. The caller holds the lock of the store.

    ``tips``: the remote tips by local ref name. Raises ``MissingObject`` or ``Corrupt`` if a local history cannot be
    read. No ref is moved in this case.
    """
    found: list[SyncedBranch] = []
    before = _active_branches(store, tips)
    for ref, remote in sorted(tips.items()):
        local = store.ref(ref)
        if local is not None and local.startswith(SYMBOLIC):
            found.append(SyncedBranch(ref, "refused", why="the local ref is symbolic"))
        elif local is None:
            tx.move(ref, remote, expected=None)
            found.append(SyncedBranch(ref, "new", None, remote))
        elif local == remote:
            found.append(SyncedBranch(ref, "same", local, local))
        else:
            found.append(_merge(store, tx, ref, local, remote, is_home=is_home))
    _keep_active(store, tx, before, found)
    return found


def _active_branches(store: ObjectStore, tips: Mapping[str, Oid]) -> dict[str, str]:
    """Return the active branches of local sessions that ``tips`` may change, unless the user selected them."""
    sids = {parsed[0] for ref, remote in tips.items() if (parsed := refs.parse(ref)) and refs.is_branch(parsed[1])}
    if not sids:
        return {}
    found = {}
    # One list for all sessions, because most fetched sessions are new, and each list reads all staged moves.
    for sid in sids & {refs.session_of(name) for name in store.refs(refs.SESSIONS)}:
        if store.ref(refs.active(sid)) is None and branches(store, sid):
            found[sid] = active(store, sid)
    return found


def _keep_active(store: ObjectStore, tx: Transaction, before: Mapping[str, str], found: list[SyncedBranch]) -> None:
    """Keep the active branches of sessions, even if other branches now have newer entries."""
    for branch in found:
        sid, name = refs.parse(branch.beside or branch.ref) or ("", "")
        is_remote = branch.outcome in ("new", "forwarded") or (branch.outcome == "refused" and branch.beside)
        if is_remote and refs.is_branch(name) and before.get(sid, name) != name and store.ref(refs.active(sid)) is None:
            tx.move(refs.active(sid), refs.symbolic(refs.leaf(sid, before[sid])), expected=None)


def _merge(store: ObjectStore, tx: Transaction, ref: str, local: Oid, remote: Oid, *, is_home: bool) -> SyncedBranch:
    fork_point = histories.find_divergence(store.read, local, remote)
    if fork_point.first is None:
        tx.move(ref, remote, expected=local)
        return SyncedBranch(ref, "forwarded", local, remote)
    if fork_point.base == remote:
        return SyncedBranch(ref, "ahead", local, local)
    parsed = refs.parse(ref)
    if parsed is None:
        reason = f"it does not continue this store's {ref.rpartition('/')[2]!r}"
        return SyncedBranch(ref, "refused", local, local, why=reason)
    entries = _local_only(store, local, remote, fork_point.base, any_kind=refs.is_meta(parsed[1]))
    if entries is not None:
        last = load(store, remote)
        for node in entries:
            data, last = commit_writer.commit_of(_draft_of(store, node), node.tree, last)
            tx.put("commit", data)
        tx.move(ref, last.oid, expected=local)
        return SyncedBranch(ref, "forwarded", local, last.oid)
    if not is_home:
        return _rename_remote(store, tx, ref, local, remote)
    return _rename_local(store, tx, ref, local, remote)


def _rename_local(store: ObjectStore, tx: Transaction, ref: str, local: Oid, remote: Oid) -> SyncedBranch:
    choice = _selecting_ref(store, ref)
    new_ref = histories.unused_name(store.read, store.ref, ref, local, remote)
    _advance(store, tx, new_ref, local)
    if choice:
        tx.move(choice, refs.symbolic(new_ref), expected=store.ref(choice))
    tx.move(ref, remote, expected=local)
    return SyncedBranch(ref, "forked", local, remote, beside=new_ref)


def _rename_remote(store: ObjectStore, tx: Transaction, ref: str, local: Oid, remote: Oid) -> SyncedBranch:
    new_ref = histories.unused_name(store.read, store.ref, ref, remote, local)
    _advance(store, tx, new_ref, remote)
    why = "it has diverged, and this is not the home remote"
    return SyncedBranch(ref, "refused", local, local, beside=new_ref, why=why)


def _advance(store: ObjectStore, tx: Transaction, ref: str, tip: Oid) -> None:
    current = store.ref(ref)
    if current is None or not histories.holds(store.read, current, tip):
        tx.move(ref, tip, expected=current)


def _selecting_ref(store: ObjectStore, ref: str) -> str | None:
    """Return the symbolic ref to update when ``ref`` is renamed; ``None`` if ``ref`` is not the selected branch."""
    sid, branch = refs.parse(ref) or ("", "")
    choice = refs.choice(ref)
    if choice is None:
        return None
    if refs.is_files(branch):
        chosen = store.ref(choice) or refs.symbolic(refs.files(sid))
        return choice if chosen == refs.symbolic(ref) else None
    try:
        return choice if active(store, sid) == branch else None
    except NotFound:
        return None


def _local_only(store: ObjectStore, local: Oid, remote: Oid, base: Oid | None, *, any_kind: bool) -> list[Node] | None:
    """Return the local entries, the oldest first; ``None`` if one of them is part of the conversation."""
    if base is None:
        return None
    local_entries = []
    try:
        for oid in histories.walk(store.read, local):
            if oid == base:
                break
            node = load(store, oid)
            if not any_kind and (node.kind not in NON_CONVERSATION or node.source is not None):
                return None
            _draft_of(store, node)
            local_entries.append(node)
        known = set()
        for oid in histories.walk(store.read, remote):
            if oid == base:
                break
            known.add(content.entry_tree(store, load(store, oid)).digest)
        return [node for node in reversed(local_entries) if content.entry_tree(store, node).digest not in known]
    except (Malformed, MissingObject, Corrupt):
        return None  # the entries cannot be appended again, so the branches have diverged


def _draft_of(store: ObjectStore, node: Node) -> Draft:
    """Return the content of ``node`` as a draft.

    Raises ``Malformed`` if this release does not support the content, ``MissingObject`` or ``Corrupt``.
    """
    parts = content.entry_tree(store, node)
    data = content.full_payload(store, node, parts)
    if node.source is None:
        headline = payload.headline(payload.decode(data)[0])
    elif (format := FORMATS.get(node.source.agent)) is not None:
        headline = format.headline(data)
    else:
        raise Malformed(f"unknown agent {node.source.agent[:40]!r}", where=node.oid)
    stored = StoredPayload(parts.stored, parts.holes, ())
    return Draft(parts.form, stored, headline, node.source, parts.files, node.second_parent)
