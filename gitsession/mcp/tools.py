"""The tools of ``gitsession mcp``: one function for each row of ``TOOLS``.

The annotations and docstrings of the functions are also the schemas and the descriptions that a model receives. The
library is imported when a tool is called, so that the server starts fast.
"""

from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

from gitsession.dataclass import dataclass
from gitsession.errors import InvalidName, NotFound, Refused
from gitsession.mcp.results import (
    ContextMessage,
    ContextPage,
    EntryText,
    FileChangeItem,
    FilePage,
    MadeCheckpoint,
    PlannedRewind,
    PromptItem,
    PromptPage,
    RewindPoints,
    SearchedSessions,
    SearchHit,
    SessionItem,
    SessionListing,
)

if TYPE_CHECKING:
    from gitsession.api import Session
    from gitsession.discovery.file_history import FileHistory, LineOrigin, TrackedFile
    from gitsession.mcp.reading import SessionReader
    from gitsession.sessions.node import Node

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

LIMIT_MAX = 50
"""Maximum number of items of a page."""
TOKENS_MAX = 10_000
"""Maximum number of tokens of a text, by estimate."""
_OFFSET_MAX = 10_000
_TEXT_CHARS, _PROMPT_CHARS, _MESSAGE_CHARS = 500, 1000, 3000
_PATH_CHARS = 1000
_FILES_MAX = 200
_WITHHELD = "(withheld: the entry contains a secret; read_entry shows its other text)"


class ToolResult(NamedTuple, Generic[T]):
    """The result of a tool. ``lines``: the same result as text for people and models."""

    value: T
    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class ToolRow:
    """A row of the table of tools.

    Attributes:
        call: The function.
        title: The name for people.
        writes: Whether the tool changes the store. Such a tool is offered only with ``--allow-write``.
    """

    call: Callable[..., Any]
    title: str
    writes: bool = False


TOOLS: dict[str, ToolRow] = {}


def tool(title: str, *, writes: bool = False) -> Callable[[F], F]:
    """Return a decorator that adds a row to the table of tools."""

    def add(function: F) -> F:
        TOOLS[function.__name__] = ToolRow(function, title, writes)
        return function

    return add


class SessionTools:
    """The tools on one store. ``program``: the words that run gitsession on the store, for commands in results."""

    def __init__(self, reader: SessionReader, program: Sequence[str] = ("gitsession",)) -> None:
        self._reader, self._program = reader, program
        self._store = reader.store

    @tool("Search sessions")
    def search_sessions(
        self, query: str, agent: str = "", project: str = "", file: str = "", role: str = "", since: str = "",
        until: str = "", limit: int = 10, offset: int = 0,
    ) -> ToolResult[SearchedSessions]:  # fmt: skip
        """Search the text of all recorded sessions of coding agents on this machine.

        Use it to find earlier work, decisions, errors and their fixes. An entry matches if it contains all words of the
        query, or other forms of them. Continue with read_entry or read_context.

        Args:
            query: The words to search for. `log*` matches words that begin with log, and words in quotation marks match
                only as a phrase.
            agent: Search only sessions of this agent, such as claude, codex or opencode.
            project: Search only sessions of the project of this folder (a path).
            file: Search only sessions that changed this file (a path).
            role: Search only text of this role: user, assistant, tool, shell, custom, summary or title.
            since: Search only text since this date, such as 2026-11-21.
            until: Search only text before this date.
            limit: Maximum number of hits, at most 50.
            offset: Number of hits to skip. Pass next_offset of the last result.
        """
        from gitsession.mcp.quoting import NOTICE, name_of, time_of

        start, size = _page(offset, limit)
        filters: dict[str, Any] = {"agent": agent, "project": project, "file": file, "role": role}
        filters |= {"since_ms": _date_ms(since, "since") or 0, "until_ms": _date_ms(until, "until")}
        if not any(char.isalnum() for char in query):
            raise InvalidName("the query has no letters or digits", hint="pass words of the text to search for")
        found = self._store.search(query, most=start + size + 1, **filters)
        hits: list[SearchHit] = [
            {
                "session": hit.session.sid, "entry": hit.oid, "role": hit.role, "at": time_of(hit.at_ms),
                "agent": name_of(hit.session.agent), "title": self._reader.line(hit.session.name),
                "text": self._hit_text(hit),
            }
            for hit in found[start : start + size]
        ]  # fmt: skip
        value: SearchedSessions = {"notice": NOTICE, "hits": hits}
        if not found:
            suggestion = self._store.suggest_query(query, **filters)
            value |= {"suggestion": suggestion} if suggestion else {}
        lines = [f"{_count(len(hits), 'hit')} for {query[:100]!r}."]
        for it in hits:
            lines += [f"{it['session']} entry {it['entry'][:12]} {it['agent']} {it['role']} {it['at']}"]
            lines += [it["title"], it["text"]]
        if "suggestion" in value:
            lines.append(f"Did you mean {value['suggestion']!r}?")
        return _paged(value, lines, len(found) > start + size, start + size)

    def _hit_text(self, hit: Any) -> str:
        if hit.role != "title" and self._reader.withheld(hit.session.sid, hit.oid):
            return f"> {_WITHHELD}"
        text = "\n".join(filter(None, (hit.before, hit.line, hit.after))) or hit.snippet
        return self._reader.quoted(text if len(text) <= _TEXT_CHARS else hit.snippet, _TEXT_CHARS)

    @tool("List sessions")
    def list_sessions(
        self, folder: str = "", agent: str = "", limit: int = 20, offset: int = 0
    ) -> ToolResult[SessionListing]:
        """List the recorded sessions of coding agents on this machine, the newest first.

        Args:
            folder: List only the sessions of this folder (a path), its parent folders, and its project.
            agent: List only sessions of this agent, such as claude, codex or opencode.
            limit: Maximum number of sessions, at most 50.
            offset: Number of sessions to skip. Pass next_offset of the last result.
        """
        from gitsession.mcp.quoting import NOTICE, name_of, time_of

        start, size = _page(offset, limit)
        rows = self._store.sessions_of(folder) if folder else self._store.sessions()
        rows = [row for row in rows if agent in ("", row.agent)]
        items: list[SessionItem] = [
            {
                "session": row.sid, "agent": name_of(row.agent), "title": self._reader.line(row.name),
                "folder": self._reader.line(row.project), "started": time_of(row.created_ms),
                "updated": time_of(row.updated_ms), "entries": row.entries, "changed_files": row.changed,
            }
            for row in rows[start : start + size]
        ]  # fmt: skip
        lines = [f"{_count(len(items), 'session')} of {len(rows):,}."]
        for it in items:
            lines.append(f"{it['session']} {it['agent']} {it['updated']} {_count(it['entries'], 'entry', 'entries')}")
            lines += filter(None, (it["title"], it["folder"]))
        value: SessionListing = {"notice": NOTICE, "sessions": items, "total": len(rows)}
        return _paged(value, lines, len(rows) > start + size, start + size)

    @tool("Read an entry")
    def read_entry(
        self, session: str, entry: str = "leaf", max_tokens: int = 4000, offset: int = 0
    ) -> ToolResult[EntryText]:
        """Read one entry of a recorded session: a prompt, an answer, a tool call or its result.

        Secrets are withheld. To walk back in the history, pass `parent` of the result as `entry`.

        Args:
            session: Id of the session or a unique part of it; `@` is the newest session of the current folder.
            entry: Id of the entry or its beginning; `leaf` is the newest one, and `leaf~3` is three entries earlier.
            max_tokens: Maximum size of the text in tokens, by estimate; at most 10,000.
            offset: Number of characters to skip. Pass next_offset of the last result.
        """
        from gitsession.mcp import quoting

        found = self._reader.session(session)
        node = found.resolve(entry)
        shown, text = self._reader.entry(found, node)
        at, end = max(offset, 0), max(offset, 0) + _chars(max_tokens)
        value: EntryText = {
            "notice": quoting.NOTICE, "session": found.id, "entry": node.oid, "kind": quoting.name_of(node.kind),
            "author": quoting.author_of(shown.entry), "at": quoting.time_of(shown.entry.at_ms),
            "text": quoting.quote(text[at:end]), "withheld": list(shown.withheld),
        }  # fmt: skip
        if node.parent is not None:
            value["parent"] = node.parent
        lines = [_heading(value["author"], value["at"], node.oid), value["text"]]
        lines += [f"Secrets were withheld: {', '.join(shown.withheld)}."] if shown.withheld else []
        return _paged(value, lines, end < len(text), end, f"{len(text):,} characters in total")

    @tool("Read the context of a session")
    def read_context(
        self, session: str, entry: str = "leaf", max_tokens: int = 4000, skip: int = 0
    ) -> ToolResult[ContextPage]:
        """Read the messages that the model of a recorded session received, the newest page first.

        Use it to learn how a session ended, or what led to an entry. Long messages are cut; read_entry shows them.

        Args:
            session: Id of the session or a unique part of it; `@` is the newest session of the current folder.
            entry: The entry whose context is read. Default: the newest entry.
            max_tokens: Maximum size of the page in tokens, by estimate; at most 10,000.
            skip: Number of the newest messages to skip. Pass next_skip of the last result.
        """
        from gitsession.mcp import quoting

        found = self._reader.session(session)
        node, folder = found.resolve(entry), self._reader.row(found.id).project or ""
        items = found.context(node).items
        calls = _calls(item.entry for item in items)
        room, messages, skip = _chars(max_tokens), list[ContextMessage](), max(skip, 0)
        for item in reversed(items[: len(items) - skip] if skip < len(items) else ()):
            whole = quoting.text_of(item.entry, folder, calls.get)
            text = self._reader.quoted(whole, min(_MESSAGE_CHARS, _chars(max_tokens)))
            if messages and len(text) > room:
                break
            room -= len(text)
            messages.append({"entry": item.oid, "author": quoting.author_of(item.entry), "text": text})
        end = skip + len(messages)
        messages.reverse()
        value: ContextPage = {
            "notice": quoting.NOTICE, "session": found.id, "entry": node.oid, "messages": messages,
            "total": len(items),
        }  # fmt: skip
        lines = [
            f"{_count(len(messages), 'message')} of {len(items):,} in the context of {found.id} at {node.oid[:12]}."
        ]
        for each in messages:
            lines += [_heading(each["author"], "", each["entry"]), each["text"]]
        return _paged(value, lines, end < len(items), end, "for the earlier messages", "next_skip", "skip")

    @tool("File history")
    def file_history(
        self, path: str, first_line: int = 0, last_line: int = 0, limit: int = 20, offset: int = 0
    ) -> ToolResult[FilePage]:
        """Find which sessions and prompts changed a file, or wrote a range of its current lines (as git blame).

        Use it to learn why code is as it is. Continue with read_entry of an entry in the result.

        Args:
            path: Path of the file, absolute or relative to the current folder.
            first_line: First line of the range. Default: 0, which lists all changes of the file instead of lines.
            last_line: Last line of the range. Default: `first_line`.
            limit: Maximum number of items, at most 50.
            offset: Number of items to skip. Pass next_offset of the last result.
        """
        from gitsession.discovery.file_history import FileHistory, TrackedFile
        from gitsession.mcp.quoting import NOTICE, quote_line

        start, size = _page(offset, limit)
        history, file = FileHistory(self._store.catalogue(), self._store.objects), TrackedFile.at(path)
        if first_line > 0:
            total, items = self._blamed(history, file, first_line, last_line or first_line, start, size)
        else:
            changes = history.changes(file)
            total, shown = len(changes), changes[start : start + size]
            items = [
                {"change": f"{it.change} +{it.added} -{it.removed}", **self._origin(history.origin(it.sid, it.oid))}
                for it in shown
            ]
        shown_path = quote_line(file.path, _PATH_CHARS)
        lines = [f"{_count(total, 'range' if first_line > 0 else 'change')} of the file", shown_path]
        for it in items:
            what = it.get("change") or f"lines {it.get('lines')}"
            if not it["session"]:
                lines.append(f"{what}: no recorded session")
                continue
            lines += [f"{what}: {it['session']} entry {it['entry'][:12]} {it['agent']} {it['at']}"]
            lines += filter(None, [it["prompt"]])
        value: FilePage = {"notice": NOTICE, "path": shown_path, "changes": items, "total": total}
        return _paged(value, lines, total > start + size, start + size)

    def _blamed(
        self, history: FileHistory, file: TrackedFile, first: int, last: int, start: int, size: int
    ) -> tuple[int, list[FileChangeItem]]:
        """Return the number of ranges of lines with one origin, and the ranges of a page."""
        origins = history.blame(file, _read(file.path))
        if first > len(origins):
            raise NotFound(f"{file.path} has only {len(origins):,} lines", hint="pass a smaller first_line")
        groups: list[tuple[int, int, LineOrigin | None]] = []
        for number, origin in enumerate(origins[first - 1 : last], first):
            if groups and groups[-1][2] == origin:
                groups[-1] = (groups[-1][0], number, origin)
            else:
                groups.append((number, number, origin))
        shown = groups[start : start + size]
        return len(groups), [{"lines": f"{begin}-{end}", **self._origin(origin)} for begin, end, origin in shown]

    def _origin(self, origin: LineOrigin | None) -> FileChangeItem:
        from gitsession.mcp.quoting import name_of, time_of

        if origin is None:
            return {"session": "", "entry": "", "at": "", "agent": "", "prompt": ""}
        return {
            "session": origin.sid, "entry": origin.oid, "at": time_of(origin.at_ms),
            "agent": name_of(origin.agent),            "prompt": self._reader.line(origin.prompt),
        }  # fmt: skip

    @tool("Recall prompts")
    def recall_prompts(
        self, query: str = "", folder: str = "", agent: str = "", limit: int = 20, offset: int = 0
    ) -> ToolResult[PromptPage]:
        """List what the user asked in recorded sessions, the newest first. Prompts with the same text are listed once.

        Args:
            query: Words that the prompts must contain. Default: all prompts.
            folder: List only prompts of sessions of this folder (a path), its parent folders, and its project.
            agent: List only prompts to this agent.
            limit: Maximum number of prompts, at most 50.
            offset: Number of prompts to skip. Pass next_offset of the last result.
        """
        from gitsession.mcp.quoting import NOTICE

        start, size = _page(offset, limit)
        found = self._store.prompts(query, folder=folder or None, agent=agent, most=start + size + 1)
        items = [
            self._prompt(it.session.sid if it.session else "", it.oid or "", it.at_ms, it.agent, it.text)
            for it in found[start : start + size]
        ]
        value: PromptPage = {"notice": NOTICE, "prompts": items}
        lines = [f"{_count(len(items), 'prompt')}.", *_prompt_lines(items)]
        return _paged(value, lines, len(found) > start + size, start + size)

    def _prompt(self, sid: str, oid: str, at_ms: int, agent: str, text: str) -> PromptItem:
        from gitsession.mcp.quoting import name_of, time_of

        quoted = self._reader.quoted(text.strip(), _PROMPT_CHARS)
        return {"session": sid, "entry": oid, "at": time_of(at_ms), "agent": name_of(agent), "text": quoted}

    @tool("List rewind points")
    def list_rewind_points(self, session: str = "@", limit: int = 20, offset: int = 0) -> ToolResult[RewindPoints]:
        """List the prompts of a session to which its files and conversation can be rewound, the newest first.

        Continue with plan_rewind, which shows what a rewind would change.

        Args:
            session: Id of the session or a unique part of it; `@` is the newest session of the current folder.
            limit: Maximum number of prompts, at most 50.
            offset: Number of prompts to skip. Pass next_offset of the last result.
        """
        from gitsession.mcp.quoting import NOTICE

        start, size = _page(offset, limit)
        found, agent = self._reader.session(session), self._reader.row(session).agent
        nodes = list(itertools.islice(_prompts_of(found), start, start + size + 1))
        shown = nodes[:size]
        items = [
            self._prompt(found.id, node.oid, entry.entry.at_ms, agent, text)
            for node, (entry, text) in zip(shown, (self._reader.entry(found, node) for node in shown), strict=True)
        ]
        has_files = found.files.at().checkpoint is not None
        value: RewindPoints = {
            "notice": NOTICE, "session": found.id, "has_checkpoints": has_files, "points": items,
        }  # fmt: skip
        lines = [f"{_count(len(items), 'prompt')} of {found.id}.", *_prompt_lines(items)]
        lines += [] if has_files else ["The session has no checkpoints: a rewind restores only the conversation."]
        return _paged(value, lines, len(nodes) > size, start + size)

    @tool("Plan a rewind")
    def plan_rewind(
        self, session: str, entry: str, parts: Literal["both", "files", "conversation"] = "both"
    ) -> ToolResult[PlannedRewind]:
        """Show what a rewind of a session to an entry would change. Nothing is changed.

        This server performs no rewind. The result has the command that the user can run.

        Args:
            session: Id of the session or a unique part of it; `@` is the newest session of the current folder.
            entry: Id of the entry, such as one of list_rewind_points.
            parts: The data to restore.
        """
        from gitsession.checkpoints.rewind_decisions import UNCHANGED
        from gitsession.mcp.quoting import NOTICE, one_line

        found = self._reader.session(session)
        node = found.resolve(entry)
        plan = found.files.plan_rewind(node, parts)
        option = [] if parts == "both" else [f"--{parts}"]
        command = shlex.join([*self._program, "rewind", *option, f"{found.id}@{node.oid[:12]}"])
        changes = [it for it in plan.changes if it.reason != UNCHANGED]
        value: PlannedRewind = {
            "notice": NOTICE, "session": found.id, "entry": node.oid, "moves": plan.moves,
            "workspace": self._reader.line(plan.workspace, _PATH_CHARS), "total_files": len(changes),
            "command": command,
            "files": [
                {"path": self._reader.line(it.path, _PATH_CHARS), "action": it.action, "why": one_line(it.reason)}
                for it in changes[:_FILES_MAX]
            ],
        }  # fmt: skip
        lines = ["Nothing was changed. A rewind would have these effects:"]
        lines += [
            f"the conversation {'would continue' if plan.moves else 'would stay'} at entry {plan.new_tip.oid[:12]}"
        ]
        for it in value["files"]:
            lines += [f"{it['action']} ({it['why']}):", it["path"]]
        more = len(changes) - len(value["files"])
        lines += [f"and {_count(more, 'more file')}"] if more else [] if changes else ["no file would change"]
        return ToolResult(value, [*lines, f"To rewind, the user can run: {command}"])

    @tool("Make a checkpoint", writes=True)
    def make_checkpoint(self, session: str = "@", reason: str = "") -> ToolResult[MadeCheckpoint]:
        """Record the current files of a session's workspace, so that a later rewind can restore them.

        Args:
            session: Id of the session or a unique part of it; `@` is the newest session of the current folder.
            reason: Description of the checkpoint.
        """
        from gitsession.model.entries import Checkpoint

        found = self._reader.session(session)
        node = found.files.take_checkpoint(reason=reason or None)
        made, files = found.read(node), len(found.files.at())
        skipped = len(made.skipped) if isinstance(made, Checkpoint) else 0
        value: MadeCheckpoint = {"session": found.id, "entry": node.oid, "files": files, "skipped": skipped}
        return ToolResult(value, [f"Checkpoint {node.oid[:12]} of {found.id}: {_count(files, 'file')}."])


def _paged(
    value: T, lines: list[str], has_more: bool, end: int, about: str = "", field: str = "next_offset",
    parameter: str = "offset",
) -> ToolResult[T]:  # fmt: skip
    """Return a result that states how to continue, if there is more."""
    from gitsession.mcp.quoting import NOTICE

    if has_more:
        value[field] = end  # type: ignore[index]
        lines = [*lines, f"There is more{f' ({about})' if about else ''}: pass {parameter}={end} to continue."]
    return ToolResult(value, [NOTICE, *lines])


def _page(offset: int, limit: int) -> tuple[int, int]:
    """Return the start and the size of a page, within the limits."""
    return min(max(offset, 0), _OFFSET_MAX), min(max(limit, 1), LIMIT_MAX)


def _chars(max_tokens: int) -> int:
    from gitsession.mcp.quoting import CHARS_PER_TOKEN

    return min(max(max_tokens, 100), TOKENS_MAX) * CHARS_PER_TOKEN


def _date_ms(text: str, name: str) -> int | None:
    if not text:
        return None
    from datetime import UTC, datetime

    try:
        found = datetime.fromisoformat(text)
        return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise InvalidName(f"{name}: {text[:40]!r} is not a date", hint="pass a date such as 2026-11-21") from None


def _count(number: int, one: str, many: str = "") -> str:
    from gitsession.line_text import count

    return count(number, one, many)


def _heading(author: str, at: str, oid: str) -> str:
    return " · ".join(filter(None, (author, at, f"entry {oid[:12]}")))


def _calls(entries: Iterable[Any]) -> dict[str, Any]:
    from gitsession.model.blocks import ToolCall

    blocks = (block for entry in entries for block in getattr(entry, "content", ()))
    return {block.id: block for block in blocks if isinstance(block, ToolCall)}


def _prompt_lines(items: Iterable[PromptItem]) -> Iterator[str]:
    for it in items:
        yield f"{it['session']} entry {it['entry'][:12]} {it['agent']} {it['at']}"
        yield it["text"]


def _prompts_of(session: Session) -> Iterator[Node]:
    """Yield the prompts in the history of the active branch, the newest first."""
    from gitsession.sessions.node import Node

    for node in session.walk("leaf"):
        if isinstance(node, Node) and node.kind == "message" and node.role == "user":
            yield node


def _read(path: str) -> str:
    """Return the text of a file. Raises ``NotFound`` or ``Refused``."""
    if "\0" in path or not os.path.exists(path):
        raise NotFound(f"no file '{path}'", hint="omit first_line to list the changes of a deleted file")
    if not os.path.isfile(path):
        raise Refused(f"cannot read '{path}': it is not a file", hint="pass the path of a file")
    with open(path, "rb") as file:
        data = file.read()
    if b"\0" in data[:8000]:
        raise Refused(f"cannot blame '{path}': it is a binary file", hint="omit first_line")
    return data.decode("utf-8", "replace").replace("\r\n", "\n")
