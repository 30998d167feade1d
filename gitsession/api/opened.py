"""Objects that the modules of the API share: the open store with its catalogs, and the handle of a session.

The modules that update a catalog, build a context or find a project are imported when they are first used.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar

from gitsession import paths
from gitsession.errors import Ambiguous, NotFound, Refused, require
from gitsession.git.types import Oid
from gitsession.index.catalogue import SHORT_ID_CHARS, Catalogue, Row
from gitsession.index.current_folder import CurrentFolder, shared_folders
from gitsession.sessions import commit_writer, graph
from gitsession.sessions import session as sessions
from gitsession.sessions.node import Node
from gitsession.store import refs
from gitsession.store.git_store import GitStore

if TYPE_CHECKING:
    from gitsession.compaction.perform import BackgroundCompaction
    from gitsession.compaction.policy import CompactionPolicy
    from gitsession.context.history import ContextHistory, HistoryCache
    from gitsession.context.value import Context
    from gitsession.model.entries import Entry
    from gitsession.model.instructions import InstructionSet
    from gitsession.redaction.guard import Guard


class OpenStore:
    """The state that ``Store`` shares with its attributes: object store, clock, catalogs and context cache."""

    def __init__(self, objects: GitStore, clock: Callable[[], int] = commit_writer.now_ms) -> None:
        self.objects = objects
        self.clock = clock
        self.catalogues = Catalogues(objects)
        self.compactions: list[BackgroundCompaction] = []
        """The automatic compactions that may be running."""
        self.memory_locks = defaultdict[int, threading.Lock](threading.Lock)
        """The locks of automatic compactions of a store in memory, by number."""
        self._keys = threading.Lock()

    @functools.cached_property
    def compaction(self) -> CompactionPolicy | None:
        """The policy of automatic compaction in the user's configuration; ``None`` if nothing is configured.

        Raises ``Refused`` if a setting is invalid.
        """
        if not paths.may_be_configured(os.environ, os.path.expanduser("~")):
            return None  # without the modules that start git
        from gitsession.git import process

        settings = process.user_settings("gitsession.compaction")
        if not settings:
            return None
        from gitsession.compaction.policy import from_config

        return from_config(settings)

    @functools.cached_property
    def valid_compaction(self) -> CompactionPolicy | None:
        """The same policy; ``None`` if a setting is invalid, which must not fail an append.

        ``session.compaction.policy`` raises the error.
        """
        try:
            return self.compaction
        except Refused:
            return None

    @functools.cached_property
    def memory(self) -> HistoryCache:
        """The cache from which contexts are built."""
        from gitsession.context.history import HistoryCache

        return HistoryCache()

    @contextlib.contextmanager
    def lock_keys(self) -> Iterator[None]:
        """Hold the lock under which sessions with a key are found or created."""
        from gitsession.store.lock import exclusive_lock

        folder = self.objects.local_dir
        with self._keys, contextlib.nullcontext() if folder is None else exclusive_lock(folder / "keys.lock"):
            yield

    def guard(self) -> Guard:
        """Return the rules that detect secrets, even if redaction is disabled in the store."""
        from gitsession.git import config
        from gitsession.redaction.guard import Guard

        return self.objects.guard or Guard.load(config.redaction(self.objects.git_dir).rules)

    def find(self, address: str, cwd: str | None = None) -> Row:
        """Return the session that ``address`` names, as in ``Store.session``. Raises ``NotFound`` or ``Ambiguous``."""
        require(address, str, "an address of a session: a part of its id, '@' or '-'")
        try:
            return self.catalogues.get().find(address, folder_of(cwd) if address in ("@", "-") else None)
        except Ambiguous:
            raise
        except NotFound:
            if address in ("@", "-"):
                raise
            sid = self._archived(address)
            if sid and not self.restore(sid):
                raise
        return self.catalogues.get().find(sid or address, None)  # "": another process may have restored it meanwhile

    def known(self, sid: str) -> Row | None:
        """Return the row of the session with the id ``sid`` without an update of the catalog.

        The result is ``None`` if the catalog needs no update, if it lacks the session, or if the session has no refs.
        Only ``Row.sid`` and ``Row.view`` are certain, because they never change.
        """
        if not (isinstance(sid, str) and refs.is_sid(sid)):
            return None
        catalogue = self.catalogues.get(fresh=False)
        if catalogue.is_fresh() or not graph.branches(self.objects, sid):
            return None
        return catalogue.session(sid)

    def _archived(self, address: str) -> str:
        """Return the archived session with an id that contains ``address``; "" if there is none.

        An address that is shorter than the ids in lists matches no session, because it is more likely a typing error.
        """
        from gitsession.archive import archive_set  # not at the top, because nearly every session has refs

        if len(address) < SHORT_ID_CHARS:
            return ""
        found = [sid for sid in archive_set.read(self.objects) if address.lower() in sid]
        if len(found) > 1:
            what = f"{address!r} matches {len(found)} archived sessions"
            raise Ambiguous(what, found, hint="pass more characters of the id")
        return found[0] if found else ""

    def restore(self, sid: str) -> bool:
        """Restore a session that may be archived; return whether it can be found now."""
        from gitsession.archive import archiving

        return archiving.restore_if_archived(self.objects, sid)

    def forget(self) -> None:
        """Close the catalogs and clear the context cache, because objects were removed or rewritten."""
        self.catalogues.close()
        self.memory.clear()


def folder_of(cwd: str | None) -> CurrentFolder:
    """Return the folder for which sessions are found: ``cwd``, or else the working directory of this process.

    If the working directory was deleted, the path of the folder is empty.
    """
    try:
        path = os.path.abspath(cwd or ".")
    except FileNotFoundError:
        path = ""

    def project() -> str | None:
        from gitsession.discovery.projects import identity_of

        return identity_of(Path(path))

    return CurrentFolder(path, shared_folders(str(Path.home()), os.environ), project)


class Catalogues:
    """The open catalogs of a store in this process, one for each thread.

    Each catalog has its own SQLite connection, because threads that share a connection also share its transaction.
    """

    def __init__(self, objects: GitStore) -> None:
        self._objects = objects
        self._open: dict[tuple[int, int], Catalogue] = {}

    def get(self, *, fresh: bool = True, newest: int | None = None) -> Catalogue:
        """Return the catalog of this thread.

        ``fresh``: whether to update the catalog first, which reads each changed session in full. ``newest``: if given,
        the update may end when the rows of this number of newest sessions are certain.
        """
        key = (os.getpid(), threading.get_ident())
        found = self._open.get(key)
        if found is None:
            found = self._open[key] = Catalogue(self._objects.local_dir, self._objects.fingerprint)
        if fresh and not found.is_fresh():
            from gitsession.index import update

            with self._objects.without_fetching():
                update.refresh(found, self._objects, newest=newest)
        return found

    def close_own(self) -> None:
        """Close the catalog of this thread, which is about to end."""
        found = self._open.pop((os.getpid(), threading.get_ident()), None)
        if found is not None:
            found.close()

    def close(self) -> None:
        """Close the catalogs. A second call has no effect."""
        for pid, thread in list(self._open):
            if pid == os.getpid():  # a forked child does not close the catalogs of its parent
                self._open.pop((pid, thread)).close()


class AutomaticStart(Protocol):
    """The automatic compaction of a handle, which a module above this one provides."""

    @property
    def newest(self) -> BackgroundCompaction | None: ...

    def appended(self, entry: Entry) -> None: ...


class Handle:
    """A session on one of its branches, with its store. A ``Session`` shares this object with its attributes."""

    def __init__(self, opened: OpenStore, session: sessions.StoredSession) -> None:
        self.opened = opened
        self.session = session
        self.policy: CompactionPolicy | None = None
        self.automatic: AutomaticStart | None = None
        """The automatic compaction by ``policy_in_force``, from the first append that needs one."""
        self.pending_set: InstructionSet | None = None
        """The set of instructions that was recorded before the session was stored."""

    @property
    def policy_in_force(self) -> CompactionPolicy | None:
        """The policy of automatic compaction; ``None`` if there is none, or if a setting is invalid."""
        return self.policy or self.opened.valid_compaction

    def managed(self, context: Context) -> Context:
        """Return ``context`` with the provider's settings if the provider compacts it."""
        policy = self.policy_in_force
        if policy is None or policy.mode != "server":
            return context
        return dataclasses.replace(context, management=policy.management_for(context.model, context.tokens.window))

    @functools.cached_property
    def agent(self) -> str:
        """The session's agent; "" if it is unknown."""
        if self.session.pending_agent:
            return self.session.pending_agent
        catalogues = self.opened.catalogues
        row = catalogues.get(fresh=False).session(self.session.id) or catalogues.get().session(self.session.id)
        return row.agent if row else ""

    @functools.cached_property
    def profile(self) -> str:
        """The context profile of the session's agent."""
        from gitsession.context import profiles

        return profiles.of_agent(self.agent)

    def context_line(self, at: str | Node = "leaf") -> ContextHistory:
        """Return the history of an entry, from which its context is computed."""
        from gitsession.context.history import ContextHistory
        from gitsession.index.history_states import CatalogueEntryIndex
        from gitsession.sessions.attached_files import SessionAttachments

        leaf = None if at == "leaf" and self.session.leaf is None else self.session.resolve(at).oid
        objects, catalogues = self.opened.objects, self.opened.catalogues
        known = CatalogueEntryIndex(catalogues.get(fresh=False), self.session.id, catalogues.get)
        attachments = SessionAttachments(objects, self.session.id)
        return ContextHistory(objects, leaf, known, self.opened.memory, attachments, self.recorded_instructions())

    @property
    def is_imported(self) -> bool:
        """True if the session was imported, so that the agent's file extends its branches."""
        if self.session.pending_agent:
            return False
        catalogues, sid = self.opened.catalogues, self.session.id
        row = catalogues.get(fresh=False).session(sid) or catalogues.get().session(sid)
        return row is not None and row.source_id is not None

    def recorded_instructions(self) -> Sequence[tuple[int, Oid]]:
        """Return the time and the oid of each ``instructions`` entry that is recorded beside an imported session."""
        if not self.is_imported:
            return ()
        from gitsession.index import names

        catalogues, sid = self.opened.catalogues, self.session.id
        known, tip = catalogues.get(fresh=False), self.opened.objects.ref(refs.meta(sid))
        found = names.recorded_instructions(known.db, sid, tip)
        return (names.recorded_instructions(catalogues.get().db, sid, tip) if found is None else found) or ()


class _HasHandle(Protocol):
    _handle: Handle


Owner = TypeVar("Owner", bound=_HasHandle)
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def restoring(
    method: Callable[Concatenate[Owner, Arguments], Result],
) -> Callable[Concatenate[Owner, Arguments], Result]:
    """Restore the session and call ``method`` again if the session was archived while a program had its handle."""

    @functools.wraps(method)
    def call(owner: Owner, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            return method(owner, *args, **kwargs)
        except NotFound:
            if not owner._handle.opened.restore(owner._handle.session.id):
                raise
        return method(owner, *args, **kwargs)

    return call
