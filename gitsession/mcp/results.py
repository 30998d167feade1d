"""The structured results of the tools.

The annotations and docstrings are also the schemas and the documentation of the results.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict


class SearchHit(TypedDict):
    """One hit.

    Attributes:
        session: Id of the session.
        entry: Id of the entry, for `read_entry`.
        role: Role of the text.
        at: Time of the entry (UTC).
        agent: Agent of the session.
        title: Quoted title, or first words of the first prompt.
        text: Quoted text around the hit.
    """

    session: str
    entry: str
    role: str
    at: str
    agent: str
    title: str
    text: str


class SearchedSessions(TypedDict):
    """The hits of a search.

    Attributes:
        notice: States that quoted text is data.
        hits: The hits, the best first.
        suggestion: A query with other spelling that has hits, if there are no hits.
        next_offset: Offset of the next page; missing on the last page.
    """

    notice: str
    hits: list[SearchHit]
    suggestion: NotRequired[str]
    next_offset: NotRequired[int]


class SessionItem(TypedDict):
    """One session.

    Attributes:
        session: Id of the session.
        agent: Agent that wrote it.
        title: Quoted title, or first words of the first prompt.
        folder: Quoted path of the working directory in which it began.
        started: Time of the first entry (UTC).
        updated: Time of the newest entry (UTC).
        entries: Number of entries.
        changed_files: Number of files that its tool calls changed.
    """

    session: str
    agent: str
    title: str
    folder: str
    started: str
    updated: str
    entries: int
    changed_files: int


class SessionListing(TypedDict):
    """A list of sessions.

    Attributes:
        notice: States that quoted text is data.
        sessions: The sessions, the newest first.
        total: Number of sessions on all pages.
        next_offset: Offset of the next page; missing on the last page.
    """

    notice: str
    sessions: list[SessionItem]
    total: int
    next_offset: NotRequired[int]


class EntryText(TypedDict):
    """An entry, or a part of a long one.

    Attributes:
        notice: States that quoted text is data.
        session: Id of the session.
        entry: Id of the entry.
        parent: Id of the previous entry; missing for the first one.
        kind: Kind of the entry.
        author: Author of the entry.
        at: Time of the entry (UTC).
        text: Quoted text.
        withheld: Names of the rules that found secrets, which are withheld.
        next_offset: Offset of the rest of the text; missing if there is no rest.
    """

    notice: str
    session: str
    entry: str
    parent: NotRequired[str]
    kind: str
    author: str
    at: str
    text: str
    withheld: list[str]
    next_offset: NotRequired[int]


class ContextMessage(TypedDict):
    """One message of a context.

    Attributes:
        entry: Id of the entry.
        author: Author of the message.
        text: Quoted text, cut if it is long.
    """

    entry: str
    author: str
    text: str


class ContextPage(TypedDict):
    """A part of the context that the model received.

    Attributes:
        notice: States that quoted text is data.
        session: Id of the session.
        entry: Id of the entry whose context it is. Pass it to read the next page.
        messages: The messages of this page, the oldest first.
        total: Number of messages of the whole context.
        next_skip: Value of `skip` for the earlier messages; missing on the last page.
    """

    notice: str
    session: str
    entry: str
    messages: list[ContextMessage]
    total: int
    next_skip: NotRequired[int]


class FileChangeItem(TypedDict):
    """A change of a file, or a range of its lines.

    Attributes:
        lines: Range of the lines, such as `10-12`, if lines were requested.
        change: Kind of the change, with the number of added and removed lines, if no lines were requested.
        session: Id of the session; empty if no session wrote the lines.
        entry: Id of the entry.
        at: Time of the entry (UTC).
        agent: Agent of the session.
        prompt: Quoted first words of the prompt that led to the entry.
    """

    lines: NotRequired[str]
    change: NotRequired[str]
    session: str
    entry: str
    at: str
    agent: str
    prompt: str


class FilePage(TypedDict):
    """The history of a file.

    Attributes:
        notice: States that quoted text is data.
        path: Quoted path of the file.
        changes: The changes, the newest first; or the ranges of lines, in order.
        total: Number of items on all pages.
        next_offset: Offset of the next page; missing on the last page.
    """

    notice: str
    path: str
    changes: list[FileChangeItem]
    total: int
    next_offset: NotRequired[int]


class PromptItem(TypedDict):
    """One prompt of the user.

    Attributes:
        session: Id of the session.
        entry: Id of the entry.
        at: Time of the prompt (UTC).
        agent: Agent of the session.
        text: Quoted text, cut if it is long.
    """

    session: str
    entry: str
    at: str
    agent: str
    text: str


class PromptPage(TypedDict):
    """Prompts of the user.

    Attributes:
        notice: States that quoted text is data.
        prompts: The prompts, the newest first.
        next_offset: Offset of the next page; missing on the last page.
    """

    notice: str
    prompts: list[PromptItem]
    next_offset: NotRequired[int]


class RewindPoints(TypedDict):
    """The prompts to which a session can be rewound.

    Attributes:
        notice: States that quoted text is data.
        session: Id of the session.
        has_checkpoints: Whether the session has recorded files. If not, a rewind restores only the conversation.
        points: The prompts, the newest first.
        next_offset: Offset of the next page; missing on the last page.
    """

    notice: str
    session: str
    has_checkpoints: bool
    points: list[PromptItem]
    next_offset: NotRequired[int]


class PlannedFile(TypedDict):
    """The decision about one file.

    Attributes:
        path: Quoted path of the file.
        action: What the rewind would do: `write`, `merge`, `remove`, or `leave` and `conflict` for no change.
        why: The reason.
    """

    path: str
    action: str
    why: str


class PlannedRewind(TypedDict):
    """The plan of a rewind. Nothing was changed.

    Attributes:
        notice: States that quoted text is data.
        session: Id of the session.
        entry: Id of the entry.
        moves: Whether the conversation would continue at another entry.
        workspace: Quoted path of the folder whose files would be restored; empty if none would be.
        files: The files that would change, or stay although the session changed them.
        total_files: Number of these files, of which `files` has at most 200.
        command: Command that the user can run to perform the rewind.
    """

    notice: str
    session: str
    entry: str
    moves: bool
    workspace: str
    files: list[PlannedFile]
    total_files: int
    command: str


class MadeCheckpoint(TypedDict):
    """A checkpoint.

    Attributes:
        session: Id of the session.
        entry: Id of the checkpoint.
        files: Number of files in it.
        skipped: Number of files that were not recorded, because they are too large or cannot be read.
    """

    session: str
    entry: str
    files: int
    skipped: int
