"""The API for the permanent removal of data: purges, and redaction of stored secrets."""

from __future__ import annotations

from collections.abc import Iterable

from gitsession.api.opened import OpenStore
from gitsession.archive import archive_set
from gitsession.archive.trash import TrashView
from gitsession.dataclass import dataclass
from gitsession.errors import Refused, require
from gitsession.purge import finding, purging, redact_exports
from gitsession.purge.finding import PurgePlan
from gitsession.purge.purging import PurgeResult
from gitsession.purge.redact_exports import RedactedExport
from gitsession.redaction.guard import Guard
from gitsession.redaction.original import Original
from gitsession.sessions import graph, stored_secrets
from gitsession.sessions.node import Node
from gitsession.sessions.stored_secrets import FoundSecret, SecretSearch
from gitsession.store import refs
from gitsession.store.interface import ObjectStore
from gitsession.sync import secret_scan


class Purges:
    """The purges of a store: ``store.purges`` (docs/explanation/purge.md)."""

    def __init__(self, opened: OpenStore) -> None:
        self._opened = opened
        self._objects = opened.objects

    def plan(self, sid: str | None = None, at: Node | None = None, *, text: str = "") -> PurgePlan:
        """Plan a purge of a session, of an entry, or of all entries that contain a string. Nothing is changed.

        Args:
            sid: The id of a session, which can be in the trash. With ``text``, only this session is searched.
            at: An entry of the session. If it is set, only this entry is purged.
            text: A string. If it is set, all entries and captured files that contain it are purged. Without ``sid``,
                all sessions are searched, including those in the trash.

        Returns:
            The plan.

        Raises:
            NotFound: There is no such session, or ``at`` is the first entry of the session.
            Refused: No arguments were passed.
        """
        view: ObjectStore = archive_set.UnarchivedStore.of(self._objects)
        if sid is not None and not graph.branches(view, sid):
            view = TrashView(self._objects)
        plan = redact_exports.with_exports(self._objects, view, _selected(view, sid, at, text), text)
        return finding.with_agent_files(plan, self._opened.catalogues.get(fresh=False).files())

    def plan_checkpoints(self, before_ms: int) -> PurgePlan:
        """Plan a purge of old checkpoints. Nothing is changed.

        The checkpoints that a rewind to an entry since ``before_ms`` needs are kept, and so is the newest state of each
        file that was deleted before that time.

        Args:
            before_ms: Unix time in ms. Checkpoints before this time are selected.

        Returns:
            The plan.
        """
        from gitsession.purge import checkpoint_expiry

        views: list[ObjectStore] = [archive_set.UnarchivedStore.of(self._objects), TrashView(self._objects)]
        sids = [(view, sid) for view in views for sid in {refs.session_of(name) for name in view.refs(refs.SESSIONS)}]
        return checkpoint_expiry.plan_expired([(view, sid) for view, sid in sids if sid], before_ms)

    def apply(self, plan: PurgePlan) -> PurgeResult:
        """Purge the data that a plan selected. The data is deleted from this store, and ``undo`` cannot restore it.

        If this process is killed, the purge continues when the store is opened again.

        Args:
            plan: A plan that ``Purges.plan`` returned.

        Returns:
            The refs and objects that the purge changed.

        Raises:
            Refused: A copy of the data would remain, or a rewind is unfinished.
            Unavailable: Other processes keep writing to the store.
        """
        from gitsession.checkpoints import intents  # imported here, because every `close` of a store runs `settle`

        require(plan, PurgePlan, "a plan, as store.purges.plan(...) returns")
        unfinished = list(intents.pending(self._objects))
        if unfinished:
            hint = "run `gitsession rewind --continue` to complete it, or `gitsession rewind --abort` to revert it"
            raise Refused(f"cannot purge: an earlier command, {unfinished[0].description}, was interrupted", hint=hint)
        self._opened.catalogues.close()
        try:
            redact_exports.forget_digests(self._objects, plan)  # first, because a continued purge does not repeat this
            return purging.add(self._objects, plan.more, self._opened.clock()) if plan.more else PurgeResult()
        finally:
            self._opened.forget()

    def redact_exports(self, plan: PurgePlan) -> list[RedactedExport]:
        """Redact purged content in the files that this store exported for agents.

        A file that its agent could not read after the redaction is left unchanged.

        Args:
            plan: A plan that ``Purges.plan`` returned.

        Returns:
            The outcome for each file. ``problem`` is the reason why a file was left unchanged.
        """
        return redact_exports.redact(self._objects, plan)

    def settle(self, *, thorough: bool = False) -> PurgeResult:
        """Repeat purges of data that a fetch or a git command restored. The call is fast if there is no such data.

        Args:
            thorough: Whether to search all objects, including those that no ref reaches.

        Returns:
            The refs and objects that the purge changed.

        Raises:
            Refused: A copy of the data would remain.
            Unavailable: Other processes keep writing to the store.
        """
        applied = purging.apply(self._objects, thorough=thorough)
        if applied.moved or applied.dropped:
            self._opened.forget()
        return applied


def _selected(view: ObjectStore, sid: str | None, at: Node | None, text: str) -> PurgePlan:
    if text:
        found = finding.plan_text(view, text, None if sid is None else [sid])
        if sid is None:
            found = _with_trash(found, finding.plan_text(TrashView(view), text))
        if at is None or any(hit.node.oid == at.oid for hit in found.entries):
            return found
        one = finding.plan_entry(view, sid or "", at)
        rest = tuple(hit for hit in found.redacted if hit.node.oid != at.oid)
        problems = (*one.problems, *found.problems)
        entries = (*one.entries, *found.entries)
        return PurgePlan(one.more | found.more, entries, found.files, (), problems, redacted=rest)
    if sid is None:
        raise Refused("cannot purge: no session, entry or text was given", hint="pass a session, an entry or a text")
    return finding.plan_session(view, sid) if at is None else finding.plan_entry(view, sid, at)


def _with_trash(found: PurgePlan, away: PurgePlan) -> PurgePlan:
    """Merge the plan for the sessions with the plan for the sessions in the trash."""
    entries, files = {hit.node.oid for hit in found.entries}, {hit.oid for hit in found.files}
    redacted = {hit.node.oid for hit in found.redacted}
    return PurgePlan(
        found.more | away.more,
        (*found.entries, *(hit for hit in away.entries if hit.node.oid not in entries)),
        (*found.files, *(hit for hit in away.files if hit.oid not in files)),
        problems=tuple(dict.fromkeys((*found.problems, *away.problems))),
        redacted=(*found.redacted, *(hit for hit in away.redacted if hit.node.oid not in redacted)),
    )


@dataclass(frozen=True, slots=True)
class Redaction:
    """The result of a redaction.

    Attributes:
        entries: The number of entries that were redacted.
        moved: The names of the refs that changed.
    """

    entries: int
    moved: tuple[str, ...] = ()


class StoredSecrets:
    """The secrets in the sessions of a store: ``store.secrets`` (docs/explanation/secrets.md)."""

    def __init__(self, opened: OpenStore) -> None:
        self._opened = opened
        self._objects = opened.objects

    def find(self, sid: str | None = None) -> SecretSearch:
        """Search one session, or all sessions, for secrets.

        Args:
            sid: The id of the session. By default, all sessions are searched.

        Returns:
            An iterable of the findings. The search runs while you iterate over the result.

        Raises:
            NotFound: There is no such session. The error is raised during the iteration.
        """
        sids = [sid] if sid is not None else [row.sid for row in self._opened.catalogues.get().sessions()]
        return SecretSearch(self._objects, self.guard(), sids, frozenset(secret_scan.allowances(self._objects)))

    def redact(self, found: Iterable[FoundSecret]) -> Redaction:
        """Replace secrets in entries with placeholders, and keep the originals in the vault.

        The original entries are purged in this store, and in all stores that sync with it. Captured files in
        checkpoints are not changed.

        Args:
            found: Findings that ``find`` returned.

        Returns:
            The number of redacted entries, and the refs that changed.

        Raises:
            Refused: A copy of a secret would remain.
            Unavailable: Other processes keep writing to the store.
        """
        guard = self.guard()
        nodes = {each.node.oid: each.node for each in found if not each.path}
        redacted = {}
        originals = []
        for node in nodes.values():
            replaced = stored_secrets.replacement(self._objects, node, guard)
            if replaced is not None:
                redacted[replaced.digest.hex()] = replaced
                originals.append(Original(replaced.new_digest, node.chain, replaced.original))
        if not redacted:
            return Redaction(0)
        self._objects.vault.keep(originals)
        self._opened.catalogues.close()
        try:
            replacements = {digest: (each.form, each.stored) for digest, each in redacted.items()}
            applied = purging.replace(self._objects, replacements, self._opened.clock())
        finally:
            self._opened.forget()
        return Redaction(len(redacted), applied.moved)

    def guard(self) -> Guard:
        """Return the rules that detect secrets, even if redaction is disabled in the store."""
        return self._opened.guard()
