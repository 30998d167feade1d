"""The results of the methods of ``gitsession rpc``, and the parameters of its notifications.

The annotations and docstrings are also the schema and the documentation of the values.
"""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict

import gitsession
from gitsession.cli.commands.history import as_object as entry_object
from gitsession.live.changes import ChangeKind
from gitsession.model.plain import plain

Json = dict[str, Any]


class Version(TypedDict):
    """The version of the server.

    Attributes:
        version: Version of gitsession.
        protocol: Version of the methods.
        methods: Names of the methods.
        events: Names of the kinds of events.
        store: Path of the store.
    """

    version: str
    protocol: int
    methods: list[str]
    events: list[str]
    store: str


class ListedSessions(TypedDict):
    """A list of sessions.

    Attributes:
        sessions: The sessions, the newest first, with the fields of `ls`.
    """

    sessions: list[Annotated[Json, "ls"]]


class NewSession(TypedDict):
    """A new session.

    Attributes:
        session: Id of the session.
        stored: Whether the session is stored.
    """

    session: str
    stored: bool


class ReadLines(TypedDict):
    """Lines of a session's file.

    Attributes:
        session: Id of the session.
        lines: The lines, without line ends.
        count: Number of lines of the session.
    """

    session: str
    lines: list[str]
    count: int


class AppendedLines(TypedDict):
    """A session to which lines were appended.

    Attributes:
        session: Id of the session.
        count: Number of lines of the session.
    """

    session: str
    count: int


class Position(TypedDict):
    """A session on one of its branches.

    Attributes:
        session: Id of the session.
        branch: Name of the branch.
        leaf: Commit of its tip.
    """

    session: str
    branch: str
    leaf: str


class Branches(TypedDict):
    """The branches of a session.

    Attributes:
        session: Id of the session.
        branch: Active branch.
        branches: Commit of each branch's tip, by name.
    """

    session: str
    branch: str
    branches: dict[str, str]


class Named(TypedDict):
    """A name of a session or of an entry.

    Attributes:
        session: Id of the session.
        id: Commit of the labeled entry.
        text: The title or the label; empty if it was removed.
    """

    session: str
    id: NotRequired[str]
    text: str


class Removed(TypedDict):
    """A session that was moved to the trash.

    Attributes:
        session: Id of the session.
    """

    session: str


class EntryResult(TypedDict):
    """An entry with its content.

    Attributes:
        session: Id of the session.
        id: Commit of the entry.
        chain: Chain digest of the entry.
        parent: Commit of the previous entry; null for the root.
        kind: Kind of the entry.
        role: Role of the author.
        at: Unix time of the entry in ms.
        subject: First line of the commit message.
        source_id: Id of the entry in its agent; null if gitsession created the entry.
        body: Fields of the entry, as in `show`.
    """

    session: str
    id: str
    chain: str
    parent: str | None
    kind: str
    role: str
    at: int
    subject: str
    source_id: str | None
    body: Json


class ContextResult(TypedDict):
    """A context.

    Attributes:
        context: The context, with the fields of `context`.
        request: The request to the provider; null without the parameter `form`.
    """

    context: Annotated[Json, "context"]
    request: Json | None


class Checkpointed(TypedDict):
    """A checkpoint.

    Attributes:
        session: Id of the session.
        id: Commit of the checkpoint.
        files: Number of files in the checkpoint.
        skipped: Paths that were skipped, each with the reason.
    """

    session: str
    id: str
    files: int
    skipped: list[dict[str, str]]


class Rewind(TypedDict):
    """A rewind that was planned or performed.

    Attributes:
        session: Id of the session.
        branch: Branch on which the conversation continues; null if it is not known yet, or if nothing moves.
        moved: Whether the conversation moves.
        place: Commit of the entry after which the conversation continues.
        prompt: Your prompt at the entry; null if there is none.
        workspace: Folder whose files are restored; null if no files are restored.
        files: Path, action and reason for each file.
    """

    session: str
    branch: str | None
    moved: bool
    place: str
    prompt: str | None
    workspace: str | None
    files: list[dict[str, str]]


class Undone(TypedDict):
    """An operation that was undone or redone.

    Attributes:
        command: Command of the operation.
        workspace: Folder whose files were restored; null if no files were restored.
        files: Path, action and reason for each file.
    """

    command: str
    workspace: str | None
    files: list[dict[str, str]]


class Compacted(TypedDict):
    """A compaction.

    Attributes:
        session: Id of the session.
        branch: Branch that has the new entry.
        id: Commit of the new entry; null if there was nothing to summarize.
        summary: The summary; null if there was nothing to summarize.
    """

    session: str
    branch: str
    id: str | None
    summary: str | None


class Hits(TypedDict):
    """The hits of a search.

    Attributes:
        hits: The hits, the best first, with the fields of `search`.
    """

    hits: list[Annotated[Json, "search"]]


class Exported(TypedDict):
    """An exported session.

    Attributes:
        format: Format of the file.
        text: Content of the file; null if it is not UTF-8.
        base64: Content of a file that is not UTF-8, in base64; null otherwise.
        notes: Number of occurrences of each note about lost content.
    """

    format: str
    text: str | None
    base64: str | None
    notes: dict[str, int]


class Subscription(TypedDict):
    """A subscription to events.

    Attributes:
        subscription: Number of the subscription, which each of its events has.
    """

    subscription: int


class EventParameters(TypedDict):
    """The parameters of a notification `event`.

    Attributes:
        subscription: Number of the subscription.
        event: Kind of the event.
        session: Id of the session.
        parent: Session that started a new session as a sub-agent, or from which it was forked, as in `ls`; null if
            there is none.
        branch: Branch that changed, for events of entries and branches.
        tip: Commit of the branch's tip, for events of branches.
        entry: The new entry, for events of entries and checkpoints.
        target: Id of the labeled entry: its chain digest, or its id in the agent.
        text: The label or the title; null if it was removed.
    """

    subscription: int
    event: ChangeKind
    session: str
    parent: NotRequired[str | None]
    branch: NotRequired[str]
    tip: NotRequired[str | None]
    entry: NotRequired[EntryResult]
    target: NotRequired[str]
    text: NotRequired[str | None]


class Appended(TypedDict):
    """An entry that was appended.

    Attributes:
        session: Id of the session.
        branch: Branch that has the entry.
        id: Commit of the entry.
        chain: Chain digest of the entry.
        stored: False if the session is not stored yet, because none of its entries is a message of the user.
    """

    session: str
    branch: str
    id: str
    chain: str
    stored: bool


def entry_result(session: gitsession.Session, node: gitsession.Node) -> EntryResult:
    """Return an entry with its content."""
    entry = session.read(node)
    fields = entry_object(node, entry.at_ms, None)
    body = {name: value for name, value in fields.items() if name not in ("calls", "results")}
    found: Any = {"session": session.id, **body, "body": plain(entry)}
    return found  # type: ignore[no-any-return]
