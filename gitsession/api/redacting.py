"""Secrets in what a store has: found, and hidden."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gitsession.api.catalogues import Catalogues
from gitsession.context.line import Memory
from gitsession.git import config
from gitsession.purge import purging
from gitsession.redaction.guard import Guard
from gitsession.redaction.original import Original
from gitsession.sessions import stored_secrets
from gitsession.sessions.stored_secrets import FoundSecret, SecretSearch
from gitsession.store.git_store import GitStore
from gitsession.sync import secret_scan


@dataclass(frozen=True, slots=True)
class Redaction:
    """What a redaction did. ``entries``: how many have placeholders now; ``moved``: refs that lead elsewhere."""

    entries: int
    moved: tuple[str, ...] = ()


def guard_of(objects: GitStore) -> Guard:
    """What finds secrets also in a store that is set not to take them out."""
    return objects.guard or Guard.by(objects.vault, config.redaction(objects.git_dir).rules)


def search(objects: GitStore, sids: Iterable[str]) -> SecretSearch:
    return SecretSearch(objects, guard_of(objects), sids, frozenset(secret_scan.allowances(objects)))


def redact(
    objects: GitStore, catalogues: Catalogues, memory: Memory, found: Iterable[FoundSecret], clock: Callable[[], int]
) -> Redaction:
    """Put entries without their secrets in the place of those that were ``found``; the originals go into the vault.

    Files of checkpoints stay. Raises as ``purging.replace``.
    """
    guard = guard_of(objects)
    nodes = {each.node.oid: each.node for each in found if not each.path}
    made = {}
    originals = []
    for node in nodes.values():
        replaced = stored_secrets.replacement(objects, node, guard)
        if replaced is not None:
            made[replaced.digest.hex()] = replaced
            originals.append(Original(replaced.new_digest, node.chain, replaced.original))
    if not made:
        return Redaction(0)
    objects.vault.keep(originals)
    catalogues.close()
    try:
        replacements = {digest: (each.form, each.stored) for digest, each in made.items()}
        applied = purging.replace(objects, replacements, clock())
    finally:
        catalogues.close()
        memory.clear()
    return Redaction(len(made), applied.moved)
