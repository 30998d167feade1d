"""The prompts of a history, with the files that the agent changed after each of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gitsession.api import Session
from gitsession.errors import GitSessionError
from gitsession.model.entries import Message
from gitsession.model.file_edits import FileEdit
from gitsession.model.tool_actions import edits_of
from gitsession.sessions.node import Node


class PromptTurn(NamedTuple):
    """A prompt and the entries up to the next one, the oldest first. ``following``: the next prompt, if any."""

    prompt: Node
    entries: tuple[Node, ...]
    following: Node | None


class TurnChanges(NamedTuple):
    """The number of files that changed during a turn, and of their added and removed lines."""

    files: int
    added: int
    removed: int

    @property
    def text(self) -> str:
        """The changes as text, such as ``+12 -3 in 2 files``; "" if no file changed."""
        if not self.files:
            return ""
        return f"+{self.added:,} -{self.removed:,} in {self.files:,} file{'s' if self.files > 1 else ''}"


class TurnReader:
    """Collector of turns from the entries of a history, which arrive newest first."""

    def __init__(self) -> None:
        self._entries: list[Node] = []
        self._following: Node | None = None

    def add(self, nodes: Iterable[Node]) -> Iterator[PromptTurn]:
        """Yield the turns that ``nodes`` complete."""
        for node in nodes:
            self._entries.append(node)
            if node.role == "user" and node.kind == Message.kind:
                yield PromptTurn(node, tuple(self._entries[::-1]), self._following)
                self._entries, self._following = [], node


def turn_changes(session: Session, turn: PromptTurn, folder: str) -> TurnChanges:
    """Return the changes of a turn: from checkpoints if there are any, or else from the tool calls of the agent."""
    try:
        before, after = session.files.at(turn.prompt), session.files.at(turn.following or turn.entries[-1])
        if after.checkpoint is not None and before.checkpoint != after.checkpoint:
            patches = before.patch(after)
            added, removed = sum(each.added or 0 for each in patches), sum(each.deleted or 0 for each in patches)
            return TurnChanges(len(patches), added, removed)
    except GitSessionError:
        pass  # a checkpoint that cannot be read; the tool calls remain
    edits = list(_edits(session, turn.entries, folder))
    paths = {edit.path for edit in edits}
    return TurnChanges(len(paths), sum(edit.added for edit in edits), sum(edit.removed for edit in edits))


def _edits(session: Session, entries: Iterable[Node], folder: str) -> Iterator[FileEdit]:
    for node in entries:
        if node.role != "assistant":
            continue
        entry = session.read(node)
        for block in entry.content if isinstance(entry, Message) else ():
            yield from edits_of(block, folder)
