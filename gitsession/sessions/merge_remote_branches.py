"""Merge of a store's session refs with those of a remote. No entry is lost, and no branch is overwritten.

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
from dataclasses import dataclass
from typing import Literal, TypeAlias

from gitsession.codec import payload
from gitsession.codec.holes import StoredPayload
from gitsession.errors import Corrupt, Malformed, MissingObject, NotFound
from gitsession.formats import FORMATS
from gitsession.git.ref_files import SYMBOLIC
from gitsession.git.types import ObjectSink, Oid
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

    ``beside``: the ref of the renamed branch. ``why``: the reason of a rejection. ``old``, ``new``: the local tips
    before and after the merge. ``secret``: whether the ref was not sent because it contains a secret.
    """

    ref: str
    outcome: Outcome
    old: Oid | None = None
    new: Oid | None = None
    beside: str = ""
    why: str = ""
    secret: bool = False


def reconcile(store: ObjectStore, tx: Transaction, theirs: Mapping[str, Oid], *, is_home: bool) -> list[SyncedBranch]:
    """Merge remote tips into the store's refs. The caller holds the lock of the store.

    ``theirs``: the remote tips by local ref name. Raises ``MissingObject`` or ``Corrupt`` if a local history cannot be
    read. No ref is moved in this case.
    """
    found: list[SyncedBranch] = []
    held = _gone_on_with(store, theirs)
    for ref, there in sorted(theirs.items()):
        mine = store.ref(ref)
        if mine is not None and mine.startswith(SYMBOLIC):
            found.append(SyncedBranch(ref, "refused", why="the local ref is symbolic"))
        elif mine is None:
            tx.move(ref, there, expected=None)
            found.append(SyncedBranch(ref, "new", None, there))
        elif mine == there:
            found.append(SyncedBranch(ref, "same", mine, mine))
        else:
            found.append(_meet(store, tx, ref, mine, there, is_home=is_home))
    _hold(store, tx, held, found)
    return found


def _gone_on_with(store: ObjectStore, theirs: Mapping[str, Oid]) -> dict[str, str]:
    """Return the active branches of local sessions that ``theirs`` may change, unless the user selected them."""
    sids = {parsed[0] for ref, there in theirs.items() if (parsed := refs.parse(ref)) and refs.is_branch(parsed[1])}
    found = {}
    for sid in sids:
        if store.ref(refs.active(sid)) is None and branches(store, sid):
            found[sid] = active(store, sid)
    return found


def _hold(store: ObjectStore, tx: Transaction, held: Mapping[str, str], found: list[SyncedBranch]) -> None:
    """Keep the active branches of sessions, even if other branches now have newer entries."""
    for branch in found:
        sid, name = refs.parse(branch.beside or branch.ref) or ("", "")
        is_theirs = branch.outcome in ("new", "forwarded") or (branch.outcome == "refused" and branch.beside)
        if is_theirs and refs.is_branch(name) and held.get(sid, name) != name and store.ref(refs.active(sid)) is None:
            tx.move(refs.active(sid), refs.symbolic(refs.leaf(sid, held[sid])), expected=None)


def _meet(store: ObjectStore, tx: Transaction, ref: str, mine: Oid, there: Oid, *, is_home: bool) -> SyncedBranch:
    where = histories.find_divergence(store.read, mine, there)
    if where.first is None:
        tx.move(ref, there, expected=mine)
        return SyncedBranch(ref, "forwarded", mine, there)
    if where.base == there:
        return SyncedBranch(ref, "ahead", mine, mine)
    parsed = refs.parse(ref)
    if parsed is None:
        what = f"it does not continue this store's {ref.rpartition('/')[2]!r}"
        return SyncedBranch(ref, "refused", mine, mine, why=what)
    said = _small_talk(store, mine, there, where.base, any_kind=refs.is_meta(parsed[1]))
    if said is not None:
        new = _say_again(store, tx, said, there)
        tx.move(ref, new, expected=mine)
        return SyncedBranch(ref, "forwarded", mine, new)
    if not is_home:
        return _let_in_beside(store, tx, ref, mine, there)
    return _step_aside(store, tx, ref, mine, there)


def _step_aside(store: ObjectStore, tx: Transaction, ref: str, mine: Oid, there: Oid) -> SyncedBranch:
    choice = _follows(store, ref)
    side = histories.unused_name(store.read, store.ref, ref, mine, there)
    _bring_to(store, tx, side, mine)
    if choice:
        tx.move(choice, refs.symbolic(side), expected=store.ref(choice))
    tx.move(ref, there, expected=mine)
    return SyncedBranch(ref, "forked", mine, there, beside=side)


def _let_in_beside(store: ObjectStore, tx: Transaction, ref: str, mine: Oid, there: Oid) -> SyncedBranch:
    side = histories.unused_name(store.read, store.ref, ref, there, mine)
    _bring_to(store, tx, side, there)
    return SyncedBranch(ref, "refused", mine, mine, beside=side, why="it has diverged, and this is not the home remote")


def _bring_to(store: ObjectStore, tx: Transaction, ref: str, end: Oid) -> None:
    held = store.ref(ref)
    if held is None or not histories.holds(store.read, held, end):
        tx.move(ref, end, expected=held)


def _follows(store: ObjectStore, ref: str) -> str | None:
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


def _small_talk(store: ObjectStore, mine: Oid, there: Oid, base: Oid | None, *, any_kind: bool) -> list[Node] | None:
    """Return the local entries, the oldest first; ``None`` if one of them is part of the conversation."""
    if base is None:
        return None
    ours = []
    try:
        for oid in histories.walk(store.read, mine):
            if oid == base:
                break
            node = load(store, oid)
            if not any_kind and (node.kind not in NON_CONVERSATION or node.source is not None):
                return None
            _draft_of(store, node)
            ours.append(node)
        known = set()
        for oid in histories.walk(store.read, there):
            if oid == base:
                break
            known.add(_digest_of(store, load(store, oid)))
        return [node for node in reversed(ours) if _digest_of(store, node) not in known]
    except (Malformed, MissingObject, Corrupt):
        return None  # the entries cannot be appended again, so the branches have diverged


def _say_again(store: ObjectStore, tx: Transaction, said: list[Node], behind: Oid) -> Oid:
    last = load(store, behind)
    for node in said:
        last = _append_copy(store, tx, node, last)
    return last.oid


def _append_copy(store: ObjectStore, objects: ObjectSink, node: Node, parent: Node) -> Node:
    """Write the content of ``node`` as a child of ``parent``. Raises the same errors as ``_draft_of``."""
    data, made = commit_writer.commit_of(_draft_of(store, node), node.tree, parent)
    objects.put("commit", data)
    return made


def _draft_of(store: ObjectStore, node: Node) -> Draft:
    """Return the content of ``node`` as a draft.

    Raises ``Malformed`` if this release does not support the content, ``MissingObject`` or ``Corrupt``.
    """
    parts = content.kept(store, node)
    data = content.whole(store, node, parts)
    if node.source is None:
        headline = payload.headline(payload.decode(data)[0])
    elif node.source.agent in FORMATS:
        headline = FORMATS[node.source.agent].headline(data)
    else:
        raise Malformed(f"unknown agent {node.source.agent[:40]!r}", where=node.oid)
    stored = StoredPayload(parts.stored, parts.holes, ())
    return Draft(parts.form, stored, headline, node.source, parts.files, node.second_parent)


def _digest_of(store: ObjectStore, node: Node) -> bytes:
    """Return the digest of the stored payload of ``node``."""
    parts = content.kept(store, node)
    return parts.digest
