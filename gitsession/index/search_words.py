"""Which words of an entry are searched, and as whose: what the user asked counts most, what tools gave back least."""

from __future__ import annotations

import json
from typing import NamedTuple

from gitsession.model import entries as kinds
from gitsession.model.blocks import Block, Text, ToolCall
from gitsession.model.entries import Entry
from gitsession.model.results import result_in

SHORT_CHARS = 2_000
"""How much is searched of what a tool was asked, and of what it gave back: the rest is mostly files."""

KINDS = tuple(kind.kind for kind in (kinds.Message, kinds.CustomMessage, kinds.Compaction, kinds.BranchSummary))
"""The kinds of entry that say anything."""

ROLES = ("user", "assistant", "tool", "shell", "custom", "summary", "title")
"""As whose words something is found."""


class SearchableText(NamedTuple):
    """``role``: one of ``ROLES``. The others are the columns of the index, in its order."""

    role: str
    asked: str = ""
    summary: str = ""
    answer: str = ""
    work: str = ""

    @property
    def all(self) -> str:
        return "\n".join(filter(None, self[1:]))


def words_of(entry: Entry) -> SearchableText | None:
    """The words of ``entry``; ``None`` where nobody would look for them: prompts of the system, and what has none."""
    found = _words(entry)
    return found if found is not None and found.all.strip() else None


def _words(entry: Entry) -> SearchableText | None:
    match entry:
        case kinds.Message(role="user"):
            return SearchableText("user", asked=_text(entry.content))
        case kinds.Message(role="assistant"):
            work = "\n".join([*_calls(entry.content), *_results(entry.content)])
            return SearchableText("assistant", answer=_text(entry.content), work=work)
        case kinds.Message(role="tool"):
            return SearchableText("tool", work=_text(entry.content)[:SHORT_CHARS])
        case kinds.Message(role="shell"):
            return SearchableText("shell", asked=entry.command or "", work=(entry.output or "")[:SHORT_CHARS])
        case kinds.Message(role="custom") | kinds.CustomMessage():
            return SearchableText("custom", answer=_text(entry.content))
        case kinds.Compaction() | kinds.BranchSummary():
            return SearchableText("summary", summary=entry.summary)
    return None


def _text(content: tuple[Block, ...]) -> str:
    return "\n".join(block.text for block in content if isinstance(block, Text))


def _calls(content: tuple[Block, ...]) -> list[str]:
    calls = [block for block in content if isinstance(block, ToolCall)]
    return [f"{call.name} {_arguments(call)}"[:SHORT_CHARS] for call in calls]


def _results(content: tuple[Block, ...]) -> list[str]:
    """What tools gave back, where that stands in the answer that called them."""
    return [_text(found.content)[:SHORT_CHARS] for block in content if (found := result_in(block)) is not None]


def _arguments(call: ToolCall) -> str:
    said = [value if isinstance(value, str) else json.dumps(value, default=str) for value in call.arguments.values()]
    return " ".join(said)
