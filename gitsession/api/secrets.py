"""Secrets in what a store has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gitsession.api.opened import OpenStore
from gitsession.git import config
from gitsession.purge import purging
from gitsession.redaction.guard import Guard
from gitsession.redaction.original import Original
from gitsession.sessions import stored_secrets
from gitsession.sessions.stored_secrets import FoundSecret, SecretSearch
from gitsession.sync import secret_scan


@dataclass(frozen=True, slots=True)
class Redaction:
    """The result of a redaction. ``entries``: how many have placeholders now; ``moved``: refs that lead elsewhere."""

    entries: int
    moved: tuple[str, ...] = ()


class StoredSecrets:
    """The secrets in the sessions of a store: ``store.secrets`` (docs/secrets.md)."""

    def __init__(self, opened: OpenStore) -> None:
        self._opened = opened
        self._objects = opened.objects

    def find(self, sid: str | None = None) -> SecretSearch:
        """Search one session, or all, for secrets; iterate over the result."""
        sids = [sid] if sid is not None else [row.sid for row in self._opened.catalogues.get().sessions()]
        return SecretSearch(self._objects, self._guard(), sids, frozenset(secret_scan.allowances(self._objects)))

    def redact(self, found: Iterable[FoundSecret]) -> Redaction:
        """Replace secrets that ``find`` found in entries with placeholders; the vault keeps the originals.

        The old entries are purged, here and wherever this store is synced with. Files of checkpoints stay.
        Raises ``Refused`` where a copy would stay, ``Unavailable`` where others keep writing.
        """
        guard = self._guard()
        nodes = {each.node.oid: each.node for each in found if not each.path}
        made = {}
        originals = []
        for node in nodes.values():
            replaced = stored_secrets.replacement(self._objects, node, guard)
            if replaced is not None:
                made[replaced.digest.hex()] = replaced
                originals.append(Original(replaced.new_digest, node.chain, replaced.original))
        if not made:
            return Redaction(0)
        self._objects.vault.keep(originals)
        self._opened.catalogues.close()
        try:
            replacements = {digest: (each.form, each.stored) for digest, each in made.items()}
            applied = purging.replace(self._objects, replacements, self._opened.clock())
        finally:
            self._opened.forget()
        return Redaction(len(made), applied.moved)

    def _guard(self) -> Guard:
        """Return a guard that finds secrets, also in a store that is configured not to redact them."""
        return self._objects.guard or Guard.by(self._objects.vault, config.redaction(self._objects.git_dir).rules)
