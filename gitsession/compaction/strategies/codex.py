"""codex's own compaction: the user's newest words stay as they are, all else is summarised (C5).

No entry stays: the words stand in the summary, before it, oldest first. What codex keeps of them across compactions
are the same words, so they are taken from the line itself.
"""

from __future__ import annotations

import dataclasses
import re

from gitsession.compaction.pi_cuts import Cut
from gitsession.compaction.plan import CompactionRequest, Plan, cut_plan
from gitsession.compaction.visible_entries import originals, sight
from gitsession.context.history import ContextHistory
from gitsession.context.profiles import Profile
from gitsession.context.value import Shown
from gitsession.model.entries import Message

NAME = "codex"
USER_TOKENS_MAX = 20_000
BYTES_PER_TOKEN = 4

_QUOTED = re.compile(r"\A<user-messages>\n.*?\n</user-messages>\n*", re.DOTALL)


def plan(line: ContextHistory, profile: Profile, ask: CompactionRequest) -> Plan:
    seen = sight(line, profile)
    made = cut_plan(NAME, line, profile, seen, seen.places, Cut(len(seen.places)))
    if made.nothing:
        return made
    words = [text for item in originals(line, None) if (text := _users_words(item.entry))]
    quoted = newest(words, USER_TOKENS_MAX if ask.keep_tokens is None else ask.keep_tokens)
    block = "<user-messages>\n" + "\n\n".join(map(_harmless, quoted)) + "\n</user-messages>" if quoted else ""
    return dataclasses.replace(made, previous=_QUOTED.sub("", made.previous), quoted=block)


def newest(words: list[str], tokens_max: int) -> list[str]:
    """The last of ``words`` for which there is room; of the first for which there is not, beginning and end."""
    found: list[str] = []
    left = tokens_max
    for text in reversed(words):
        size = -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)
        if size > left:
            if left:
                found.append(_without_middle(text, left))
            break
        found.append(text)
        left -= size
    return found[::-1]


def _without_middle(text: str, tokens: int) -> str:
    data = text.encode("utf-8", "replace")
    half = tokens * BYTES_PER_TOKEN // 2
    gone = -(-(len(data) - 2 * half) // BYTES_PER_TOKEN)
    start, end = data[:half].decode("utf-8", "ignore"), data[len(data) - half :].decode("utf-8", "ignore")
    return f"{start}[... {gone} tokens ...]{end}"


def _users_words(entry: Shown) -> str:
    return entry.text.strip() if isinstance(entry, Message) and entry.role == "user" else ""


def _harmless(text: str) -> str:
    # What closes the block inside would end it before its end.
    return text.replace("</user-messages>", "< /user-messages>")
