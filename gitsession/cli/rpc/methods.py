"""The methods of ``gitsession rpc``: one function for each row of ``METHODS``.

The annotations and docstrings of the functions are also the schema and the documentation of the methods.
"""

from __future__ import annotations

import base64
import functools
import itertools
import threading
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar, get_args

import gitsession
from gitsession.cli.commands.append import appended
from gitsession.cli.commands.history import as_document as history_document
from gitsession.cli.commands.history import as_object as entry_object
from gitsession.cli.commands.history import gap_object
from gitsession.cli.commands.sessions import as_object as session_object
from gitsession.cli.rpc.results import (
    Appended,
    Branches,
    Checkpointed,
    Compacted,
    ContextResult,
    EntryResult,
    EventParameters,
    Exported,
    Hits,
    Json,
    ListedSessions,
    Named,
    NewSession,
    Position,
    Removed,
    Rewind,
    Subscription,
    Undone,
    Version,
)
from gitsession.codec import entry_json
from gitsession.errors import GitSessionError, NotFound
from gitsession.jsonrpc.schema import Method
from gitsession.live.changes import Change, ChangeKind, ChangeReader
from gitsession.model.entries import Checkpoint, Label, SessionHeader, Title
from gitsession.model.plain import plain

F = TypeVar("F", bound=Callable[..., Any])

PROTOCOL = 1
"""Version of the methods. It changes if a method or a field is removed, or if its meaning changes."""

EVERY_SECONDS = 0.2

METHODS: dict[str, Method] = {}
CONCURRENT: set[str] = set()
"""Methods that may run beside others, because they take long or only read."""


def method(name: str, *, concurrent: bool = False) -> Callable[[F], F]:
    """Return a decorator that adds a row to the table of methods."""

    def add(function: F) -> F:
        METHODS[name] = function
        if concurrent:
            CONCURRENT.add(name)
        return function

    return add


class RpcService:
    """The methods of a server of one store.

    ``notify``: a function that sends a notification with its method and parameters. ``ingest``: a function that is
    called before each search for events.
    """

    def __init__(
        self, store: gitsession.Store, notify: Callable[[str, Json], None], ingest: Callable[[], None] = lambda: None
    ) -> None:
        self._store, self._notify, self._ingest = store, notify, ingest
        self._unstored: dict[str, gitsession.Session] = {}
        self._subscriptions: dict[int, Callable[[], None]] = {}
        self._count = 0
        self._stop = threading.Event()
        self._events: threading.Thread | None = None

    def close(self) -> None:
        """Stop sending events."""
        self._stop.set()
        if self._events is not None:
            self._events.join()

    def call(self, name: str, arguments: Json) -> Any:
        """Call a method with arguments that ``schema.bind`` returned."""
        return METHODS[name](self, **arguments)

    # ---- sessions

    @method("version")
    def version(self) -> Version:
        """Return the version of the server, and its methods and events."""
        return {
            "version": gitsession.__version__,
            "protocol": PROTOCOL,
            "methods": list(METHODS),
            "events": list(get_args(ChangeKind)),
            "store": str(self._store.objects.git_dir),
        }

    @method("sessions.list", concurrent=True)
    def list_sessions(self, newest: int | None = None, folder: str | None = None) -> ListedSessions:
        """List the sessions, the newest first.

        Args:
            newest: Maximum number of sessions. Default: no limit.
            folder: List only the sessions of this folder, its parent folders, and its project.
        """
        rows = self._store.sessions() if folder is None else self._store.sessions_of(folder)
        return {"sessions": [session_object(row) for row in (rows if newest is None else rows[: max(newest, 0)])]}

    @method("sessions.new")
    def new_session(self, agent: str, cwd: str | None = None) -> NewSession:
        """Create a session. It is stored when its first user message is appended.

        Args:
            agent: Name of the program that writes the session.
            cwd: Working directory of the session.
        """
        session = self._store.new_session(agent=agent, cwd=cwd)
        self._unstored[session.id] = session
        return {"session": session.id, "stored": False}

    @method("sessions.open")
    def open_session(self, session: str) -> Annotated[Json, "ls"]:
        """Return the session that an address names, with the fields of `ls`.

        Args:
            session: Id of the session, a unique part of it, `AGENT:ID`, `@` or `-`.
        """
        return session_object(self._row(self._session(session).id))

    @method("sessions.fork")
    def fork(self, session: str, at: str = "leaf") -> Position:
        """Create a session that continues another one at an entry.

        Args:
            session: The session.
            at: The entry.
        """
        return _position(self._session(session).fork(at))

    @method("sessions.delete")
    def delete(self, session: str) -> Removed:
        """Move a session to the trash.

        Args:
            session: The session.
        """
        found = self._session(session)
        if self._unstored.pop(found.id, None) is None:
            self._store.trash.put(found.id)
        return {"session": found.id}

    @method("sessions.rename")
    def rename(self, session: str, title: str) -> Named:
        """Set the title of a session.

        Args:
            session: The session.
            title: The title. An empty string removes the title.
        """
        found = self._session(session)
        found.rename(title)
        return {"session": found.id, "text": found.names().title or ""}

    @method("sessions.label")
    def label(self, session: str, label: str, at: str = "leaf") -> Named:
        """Set the label of an entry.

        Args:
            session: The session.
            label: The label. An empty string removes the label.
            at: The entry.
        """
        found = self._session(session)
        node = found.label(at, label)
        return {"session": found.id, "id": node.oid, "text": found.names().labels.get(node.oid, "")}

    # ---- entries

    @method("append")
    def append(
        self,
        session: str,
        entry: Json,
        branch: str | None = None,
        expected: str | None = None,
        on_moved: Literal["refuse", "fork"] = "refuse",
    ) -> Appended:
        """Append an entry. The entry is durable when the answer is sent, if `stored` is true.

        Args:
            session: The session.
            entry: The entry: an object with `kind`, `body`, and optionally `at` (json.md, "Entries as JSON").
            branch: The branch. Default: the active branch.
            expected: The entry that must be the tip of the branch. Default: any entry.
            on_moved: The action if the tip is another entry: refuse, or append to a new branch.
        """
        found = self._session(session, branch)
        tip = None if expected is None else found.resolve(expected)
        node = found.append(entry_json.appended_entry(entry), expected=tip, on_moved=on_moved)
        if found.is_stored:
            self._unstored.pop(found.id, None)
        return appended(found, node)

    @method("read")
    def read(self, session: str, at: str = "leaf") -> EntryResult:
        """Return an entry with its content.

        Args:
            session: The session.
            at: The entry: its id, a label, a branch, `leaf`, `root`, or one of these with `~N`.
        """
        found = self._session(session)
        return self._entry(found, found.resolve(at))

    @method("log", concurrent=True)
    def log(self, session: str, at: str = "leaf", limit: int = 100) -> Annotated[Json, "log"]:
        """Return the history of an entry, the newest entry first.

        Args:
            session: The session.
            at: The entry.
            limit: Maximum number of entries.
        """
        found = self._session(session)
        walked = list(itertools.islice(found.walk(at), max(limit, 0)))
        nodes = [it for it in walked if isinstance(it, gitsession.Node)]
        gaps = [gap_object(it) for it in walked if isinstance(it, gitsession.Gap)]
        return {**self._history(found, nodes, found.resolve(at).oid), "gaps": gaps}

    @method("tree", concurrent=True)
    def tree(self, session: str) -> Annotated[Json, "tree"]:
        """Return the entries of all branches, parents before children.

        Args:
            session: The session.
        """
        found = self._session(session)
        tree = found.tree()
        nodes = [node for node, _ in tree.walk()]
        return {
            **self._history(found, nodes, tree.branches[found.branch_name]),
            "gaps": list(map(gap_object, tree.gaps)),
        }

    @method("context", concurrent=True)
    def context(
        self,
        session: str,
        at: str = "leaf",
        profile: str | None = None,
        window: int | None = None,
        policies: list[Literal["clear-tool-uses", "clear-thinking", "drop-images", "model-facing"]] | None = None,
        form: str | None = None,
    ) -> ContextResult:
        """Return the context that the model receives after an entry.

        Args:
            session: The session.
            at: The entry.
            profile: The context profile. Default: that of the session's agent.
            window: Context window of the model, in tokens.
            policies: Policies that leave out parts of the context.
            form: Also return a request to this provider, such as `anthropic`.
        """
        from gitsession.cli.commands.context import as_document

        found = self._session(session)
        chosen = [getattr(gitsession, name.replace("-", "_"))() for name in policies or ()]
        node = found.resolve(at)
        context = found.context(node, profile=profile, policies=chosen, window=window)
        return {"context": as_document(found, node, context), "request": context.request(form) if form else None}

    # ---- branches and files

    @method("branch.list")
    def branches(self, session: str) -> Branches:
        """List the branches of a session.

        Args:
            session: The session.
        """
        found = self._session(session)
        return {"session": found.id, "branch": found.branch_name, "branches": found.branches()}

    @method("branch.create")
    def create_branch(self, session: str, name: str, at: str = "leaf") -> Position:
        """Create a branch at an entry. The active branch does not change.

        Args:
            session: The session.
            name: Name of the branch.
            at: The entry.
        """
        return _position(self._session(session).branch(name, at))

    @method("branch.switch")
    def switch(self, session: str, branch: str) -> Position:
        """Make a branch the active branch.

        Args:
            session: The session.
            branch: Name of the branch.
        """
        found = self._session(session)
        found.switch(branch)
        return _position(found)

    @method("checkpoint")
    def checkpoint(
        self,
        session: str,
        workspace: str | None = None,
        phase: Literal["before", "after"] = "before",
        call: str | None = None,
        reason: str | None = None,
    ) -> Checkpointed:
        """Record the files of a session's workspace.

        Args:
            session: The session.
            workspace: Folder of the workspace. Default: that of the session.
            phase: Whether changes since the last checkpoint belong to the session: `before` (no) or `after` (yes).
            call: Id of the tool call.
            reason: Description of the checkpoint.
        """
        found = self._session(session)
        node = found.files.take_checkpoint(phase, workspace, call=call, reason=reason)
        entry = found.read(node)
        skipped = entry.skipped if isinstance(entry, Checkpoint) else ()
        return {
            "session": found.id,
            "id": node.oid,
            "files": len(found.files.at()),
            "skipped": [{"path": path, "why": why} for path, why in skipped],
        }

    @method("rewind.plan", concurrent=True)
    def plan_rewind(
        self,
        session: str,
        at: str,
        parts: Literal["both", "files", "conversation"] = "both",
        workspace: str | None = None,
        force: bool = False,
    ) -> Rewind:
        """Return what a rewind to an entry would change. Nothing is changed.

        Args:
            session: The session.
            at: The entry.
            parts: The data to restore.
            workspace: Folder of the workspace. Default: that of the session.
            force: Whether to also revert changes that do not belong to the session.
        """
        found = self._session(session)
        plan = found.files.plan_rewind(at, parts, workspace=workspace, force=force)
        files = [{"path": one.path, "action": one.action, "why": one.reason} for one in plan.changes]
        return _rewind(found, plan, plan.branch or None, plan.moves, files)

    @method("rewind.perform")
    def rewind(
        self,
        session: str,
        at: str,
        parts: Literal["both", "files", "conversation"] = "both",
        workspace: str | None = None,
        force: bool = False,
    ) -> Rewind:
        """Restore the files and the conversation of an entry. `undo` reverts it.

        Args:
            session: The session.
            at: The entry.
            parts: The data to restore.
            workspace: Folder of the workspace. Default: that of the session.
            force: Whether to also revert changes that do not belong to the session.
        """
        found = self._session(session)
        plan = found.files.plan_rewind(at, parts, workspace=workspace, force=force)
        done = found.files.rewind(plan)
        return _rewind(found, plan, done.branch, done.moved, _outcomes(done))

    @method("undo")
    def undo(self, session: str | None = None, workspace: str | None = None) -> Undone:
        """Undo the last operation.

        Args:
            session: Undo the last operation on this session. Default: on any session.
            workspace: Folder in which files are restored.
        """
        return _undone(self._store.undo(workspace, session=session))

    @method("redo")
    def redo(self, session: str | None = None, workspace: str | None = None) -> Undone:
        """Redo the operation that was undone last.

        Args:
            session: Redo an operation on this session. Default: on any session.
            workspace: Folder in which files are restored.
        """
        return _undone(self._store.redo(workspace, session=session))

    @method("compact", concurrent=True)
    def compact(
        self,
        session: str,
        strategy: Literal["pi", "opencode", "codex", "aider"] | None = None,
        keep_tokens: int | None = None,
        focus: str = "",
        summarizer: str | None = None,
    ) -> Compacted:
        """Replace older entries in the context with a summary.

        Args:
            session: The session.
            strategy: The compaction strategy. Default: `pi`.
            keep_tokens: Number of tokens at the end of the context that stay unchanged.
            focus: Topics that the summary should focus on.
            summarizer: Name of the summarizer. Default: `extractive`, which uses no model.
        """
        found = self._session(session)
        node = found.compact(
            strategy=strategy, keep_tokens=keep_tokens, focus=focus, summarizer=summarizer, undoable=True
        )
        summary = getattr(found.read(node), "summary", None) if node is not None else None
        return {
            "session": found.id,
            "branch": found.branch_name,
            "id": node.oid if node is not None else None,
            "summary": summary,
        }

    @method("search", concurrent=True)
    def search(
        self, query: str, regex: bool = False, agent: str = "", project: str = "", role: str = "", limit: int = 20
    ) -> Hits:
        """Search the conversations of all sessions.

        Args:
            query: The words to search for, or a regular expression.
            regex: Whether the query is a regular expression.
            agent: Search only sessions of this agent.
            project: Search only sessions of the project of this folder.
            role: Search only text of this role.
            limit: Maximum number of hits.
        """
        from gitsession.cli.commands.search import as_object

        found = self._store.search(query, regex=regex, agent=agent, project=project, role=role, most=limit)
        return {"hits": [as_object(hit) for hit in found]}

    @method("export", concurrent=True)
    def export(self, session: str, to: str | None = None, at: str | None = None) -> Exported:
        """Return a session as a file.

        Args:
            session: The session.
            to: The format: an agent, `jsonl`, `markdown` or `html`. Default: the agent of the session.
            at: The last entry of the exported history. Default: all branches are exported.
        """
        found = self._session(session)
        done = self._store.export(found.id, None if at is None else found.resolve(at), to=to)
        try:
            text, data = done.data.decode(), None
        except UnicodeDecodeError:
            text, data = None, base64.b64encode(done.data).decode()
        return {"format": done.agent, "text": text, "base64": data, "notes": dict(done.notes)}

    # ---- events

    @method("subscribe")
    def subscribe(self, session: str | None = None, events: list[ChangeKind] | None = None) -> Subscription:
        """Send a notification `event` for each change that any process makes after this call.

        Args:
            session: Report only changes of this session. Default: of all sessions.
            events: Report only these kinds of events. Default: all kinds.
        """
        sid = None if session is None else self._session(session).id
        reader, self._count = ChangeReader(self._store.objects, sid), self._count + 1
        self._subscriptions[self._count] = functools.partial(self._report, self._count, reader, events)
        if self._events is None:
            self._events = threading.Thread(target=self._send_events, daemon=True)
            self._events.start()
        return {"subscription": self._count}

    @method("unsubscribe")
    def unsubscribe(self, subscription: int) -> Subscription:
        """End a subscription.

        Args:
            subscription: Number of the subscription.
        """
        if self._subscriptions.pop(subscription, None) is None:
            raise NotFound(f"no subscription {subscription}")
        return {"subscription": subscription}

    def _send_events(self) -> None:
        while not self._stop.wait(EVERY_SECONDS):
            self._ingest()
            for number, report in list(self._subscriptions.items()):
                try:
                    report()
                except (GitSessionError, OSError) as error:
                    self._notify("error", {"subscription": number, "message": str(error)})

    def _report(self, number: int, reader: ChangeReader, events: list[ChangeKind] | None) -> None:
        for change in reader.read():
            if (events is None or change.kind in events) and number in self._subscriptions:
                event: Any = self._event(number, change)
                self._notify("event", event)

    def _event(self, number: int, change: Change) -> EventParameters:
        found: EventParameters = {"subscription": number, "event": change.kind, "session": change.session}
        if change.branch:
            found["branch"] = change.branch
        if change.kind.startswith("branch-"):
            found["tip"] = change.tip
        if change.node is None:
            return found
        session = self._store.session(change.session)
        entry = session.read(change.node)
        if change.kind in ("entry", "checkpoint"):
            found["entry"] = self._entry(session, change.node)
        elif isinstance(entry, Label):
            found |= {"target": entry.target, "text": entry.label}
        elif isinstance(entry, Title | SessionHeader):
            found["text"] = entry.title
        return found

    # ---- shared by the methods

    def _session(self, address: str, branch: str | None = None) -> gitsession.Session:
        found = self._unstored.get(address) or self._store.session(address)
        return found if branch is None else found.on(branch)

    def _row(self, sid: str) -> gitsession.Row:
        row = self._store.catalogue().session(sid)
        if row is None:
            raise NotFound(f"session {sid} has no entries yet", hint="append a message of the user first")
        return row

    def _history(self, session: gitsession.Session, nodes: list[gitsession.Node], leaf: str) -> Json:
        from gitsession.index.activity import actions_of

        catalogue = self._store.catalogue()
        find = functools.partial(actions_of, catalogue.db)
        return history_document(self._store.objects, self._row(session.id), session.names(), nodes, leaf, find)

    def _entry(self, session: gitsession.Session, node: gitsession.Node) -> EntryResult:
        entry = session.read(node)
        fields = entry_object(node, entry.at_ms, None)
        body = {name: value for name, value in fields.items() if name not in ("calls", "results")}
        found: Any = {"session": session.id, **body, "body": plain(entry)}
        return found  # type: ignore[no-any-return]


def _position(session: gitsession.Session) -> Position:
    return {"session": session.id, "branch": session.branch_name, "leaf": session.resolve("leaf").oid}


def _rewind(
    session: gitsession.Session,
    plan: gitsession.RewindPlan,
    branch: str | None,
    moved: bool,
    files: list[dict[str, str]],
) -> Rewind:
    return {
        "session": session.id,
        "branch": branch,
        "moved": moved,
        "place": plan.new_tip.oid,
        "prompt": plan.prompt,
        "workspace": plan.workspace,
        "files": files,
    }


def _outcomes(done: gitsession.RewindResult) -> list[dict[str, str]]:
    return [{"path": one.path, "action": one.action, "why": one.reason} for one in done.outcomes]


def _undone(done: gitsession.RewindResult) -> Undone:
    command = done.operation.command if done.operation is not None else ""
    return {"command": command, "workspace": done.workspace, "files": _outcomes(done)}
