"""The text of entries as people read them: titles of tool calls, outcomes, and changes of files.

The lines of a tree come from the commits and the catalog. Entries are read from the store when a line of a transcript
is painted, and a limited number of them stays in memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from functools import lru_cache

from gitsession.api import Session
from gitsession.browse.text import ROLE_STYLES, one_line
from gitsession.browse.text import Part as StyledText
from gitsession.errors import GitSessionError
from gitsession.index import activity
from gitsession.index.activity import ResultRow
from gitsession.index.catalogue import Catalogue
from gitsession.model.blocks import ToolCall
from gitsession.model.entries import Entry, Message, Opaque
from gitsession.model.entry_parts import OutputPart, Part, parts_of
from gitsession.sessions.node import Node

_CACHED_ENTRIES, _CACHED_LINES = 512, 4096


class EntryTexts:
    """The texts of the entries of one session.

    Args:
        catalogue: The method ``Store.catalogue``. The catalog is updated once.
        session: The session.
        folder: The working directory of the session. Paths in it are shown relative to it.
    """

    def __init__(self, catalogue: Callable[..., Catalogue], session: Session, folder: str) -> None:
        catalogue()
        self._catalogue = functools.partial(catalogue, fresh=False)
        self._session = session
        self._folder = folder
        self.read = lru_cache(_CACHED_ENTRIES)(self._read)
        self.line = lru_cache(_CACHED_LINES)(self._line)

    def _read(self, node: Node) -> Entry:
        try:
            return self._session.read(node)
        except (GitSessionError, OSError) as error:
            return Opaque(at_ms=node.author_seconds * 1000, problem=str(error))

    def parts(self, node: Node) -> list[Part]:
        """Return the parts of an entry, with the call of each result."""

        def find_call(id: str) -> ToolCall | None:
            return activity.call_of_result(self._catalogue().db, self._session.read, node, id)

        return list(parts_of(self.read(node), self._folder, find_call))

    def _line(self, node: Node) -> tuple[list[StyledText], list[StyledText]]:
        """Return the line of an entry in a tree, such as ``bash: pytest -q`` and ``[exit 1, 49 lines]``.

        If the line is too long, its first part is cut, so that the outcome is shown.
        """
        head, colon, rest = one_line(node.subject).partition(": ")
        if node.role == "shell":
            output = next(iter(self.parts(node)), None)
            if isinstance(output, OutputPart):
                title, outcome = output_title(output)
                return [title], [outcome]
        actions = activity.actions_of(self._catalogue().db, node)
        if node.role == "tool" and actions.results:
            tool = head.removeprefix("tool ")
            return _joined((one_line(result.title) or tool, result) for result in actions.results)
        if actions.calls and (actions.results or not actions.text_of(rest)):
            results = {result.call: result for result in actions.results}
            shown, end = _joined((one_line(call.title), results.get(call.call)) for call in actions.calls)
            return [(f"{node.role}: ", ROLE_STYLES.get(node.role, "")), *shown], end
        style = ROLE_STYLES.get(node.role, "dim" if node.role == "session" else "")
        return [(head + colon, style), (rest, "")], []


def _joined(calls: Iterable[tuple[str, ResultRow | None]]) -> tuple[list[StyledText], list[StyledText]]:
    """Return the titles of calls with their outcomes, and separately the last outcome."""
    found: list[StyledText] = []
    for title, result in calls:
        found += [("  ", ""), (title, "tool"), *([_outcome(result.outcome, result.failed)] if result else [])]
    return (found[1:-1], found[-1:]) if found[-1][1] != "tool" else (found[1:], [])


def _outcome(text: str, failed: bool) -> StyledText:
    return f"  [{text}]", "error" if failed else "dim"


def output_title(output: OutputPart) -> list[StyledText]:
    """Return the title of a call and its outcome, such as ``edit auth.py +3 -1  [error, 1 line]``."""
    return [(output.action.title, "tool"), _outcome(output.outcome.text, output.outcome.failed)]


def text_of(entry: Entry) -> str:
    """Return the text of an entry, for the clipboard and the search."""
    if isinstance(entry, Message) and entry.role == "shell":
        return f"$ {entry.command or ''}\n{entry.output or ''}"
    for name in ("text", "summary", "title"):
        found = getattr(entry, name, None)
        if isinstance(found, str):
            return found
    return ""
