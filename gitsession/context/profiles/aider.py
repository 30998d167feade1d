"""Profile of Aider 0.86: the finished messages of the current run (rules S1 to S3) that are in Aider's file.

Aider calls them done messages. Some parts of the real context are not in the file, so this profile cannot include them:
command output that was added to the chat, errors of linters and tests that were sent to the model, the files in the
chat, the text before an interruption, and Aider's own summaries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gitsession.context.estimates import by_bytes
from gitsession.context.history import ContextHistory
from gitsession.context.profiles import CompactionSettings, Profile, Selection
from gitsession.context.profiles.visible_items import changed, changes, kept, show_sent, state
from gitsession.context.value import Item, Shown
from gitsession.formats.aider.agent import aider
from gitsession.formats.aider.read_entry import OUTPUT, RESTORED, reread
from gitsession.formats.aider.split_file import APPLIED, COMMITTED, OK, SUMMARY_PREFIX, UPDATED, commits
from gitsession.model.entries import Compaction, Custom, Message, Reset
from gitsession.sessions.node import Node


class AiderProfile(Profile):
    NAME = "aider"
    SETTINGS = CompactionSettings(reserve=0, reserve_share=15 / 16, keep_recent=4_096)
    """A sixteenth of the context window is for done messages. A compaction keeps half of them (S1, S2)."""

    def select(self, line: ContextHistory) -> Selection:
        """Select the entries of the current run. Aider's printed output shows which messages were sent to the model."""
        run = _run(line)
        how = changes(line, [*run.kept, *run.since], edits=True)

        def shown(nodes: Sequence[Node]) -> Iterator[Item]:
            for node in nodes:
                yield from changed(_show(line, node), node, how)

        items = [*run.before, *shown(run.kept)]
        if run.summary is not None and self.llm_role(items[-1].entry) != "assistant":
            items.append(_item(run.summary.oid, "assistant", OK))
        items += shown(run.since)
        return Selection(tuple(items), state(line, model=line.anchors.model))

    def estimate(self, entry: Shown) -> int:
        return by_bytes(entry)

    def usage(self, items: Sequence[Item], fresh: int) -> tuple[int, int] | None:
        """Return ``None``: the token counts in Aider's file are rounded ("1.9k sent") and too imprecise."""
        return None


class _Run(NamedTuple):
    """The current Aider run, or the part of the run after a compaction.

    Attributes:
        since: Entries of the run, oldest first.
        before: Items that replace everything before the run.
        kept: Entries that the compaction ``summary`` kept.
        summary: Compaction before the run; ``None`` if there is none.
    """

    since: list[Node]
    before: Sequence[Item] = ()
    kept: Sequence[Node] = ()
    summary: Node | None = None


def _run(line: ContextHistory) -> _Run:
    """Return the current Aider run in a history."""
    since: list[Node] = []
    for node in line.back():
        entry = line.entry(node) if node.kind in (Reset.kind, Compaction.kind, Custom.kind) else None
        if isinstance(entry, Reset):
            break
        if isinstance(entry, Compaction):
            summary = _item(node.oid, "user", SUMMARY_PREFIX + entry.summary)
            return _Run(since[::-1], [summary], kept(line, node, entry), node)
        if isinstance(entry, Custom) and entry.custom_type == RESTORED:
            return _Run(since[::-1], _restored(line, node))
        since.append(node)
    return _Run(since[::-1])


def _restored(line: ContextHistory, node: Node) -> list[Item]:
    """Return the messages that Aider restores from the content of its file up to ``node``."""
    own = [node for node in line.back(node) if node.source is not None and node.source.agent == aider.AGENT]
    return [_item(node.oid, *message) for message in reread(b"".join(line.payload(node) for node in reversed(own)))]


def _show(line: ContextHistory, node: Node) -> list[Item]:
    if node.kind != Custom.kind:
        return show_sent(line, node)
    entry = line.entry(node)
    text = _shell_text(entry) if isinstance(entry, Custom) and entry.custom_type == OUTPUT else None
    return [_item(node.oid, "user", text), _item(node.oid, "assistant", OK)] if text else []


def _shell_text(entry: Custom) -> str | None:
    """Return the message that Aider sends to the model after a change to files, with the commit if there is one."""
    lines = [line for line in entry.data if isinstance(line, str)] if isinstance(entry.data, list | tuple) else []
    last = max((at for at, line in enumerate(lines) if line.startswith(APPLIED)), default=None)
    if last is None:
        return None
    made = next(iter(commits(lines[last:])), None)
    return UPDATED if made is None else COMMITTED.format(hash=made.hash, message=made.message)


def _item(oid: str, role: str, text: str) -> Item:
    return Item(oid, Message.user(text) if role == "user" else Message.assistant(text))
