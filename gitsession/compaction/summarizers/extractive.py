"""A summary without a model: sentences of the conversation, selected by rules. The same input yields the same text.

This summarizer needs no configuration and no network, and it never fails. It keeps the information that an agent needs
to continue: the requests of the user, the outcome of each request, decisions, the current state, and the files that
were read or changed. Each section has a share of the budget. If a section is full, older lines are left out, except the
first request of the user.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from threading import Event
from typing import ClassVar

from gitsession.compaction.prompts import SECTIONS, without_files
from gitsession.compaction.serialise import CHARS_PER_TOKEN, TranscriptItem
from gitsession.compaction.summarizers.options import Options
from gitsession.compaction.summary import Progress, Request, Summary
from gitsession.dataclass import dataclass

GOAL, PROGRESS, DECISIONS, NEXT = SECTIONS
FILES, EARLIER = "Files", "Earlier"

SHARES = {GOAL: 0.3, PROGRESS: 0.3, DECISIONS: 0.12, NEXT: 0.12, FILES: 0.08, EARLIER: 0.08}
"""Share of the budget for each section, in the order of the sections in the summary."""

LINE_CHARS_MAX = 400
LINE_CHARS_MIN = 24
NO_GOAL_CHARS_MAX = 12

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_DECIDED = re.compile(
    r"\b(decid|instead of|rather than|because|must|never|always|do not|don't|prefer|chose|going with|will use)", re.I
)
_AHEAD = re.compile(r"\b(next|todo|to do|remain|still|left to|not yet|then i|i will|i'll|open question)\b", re.I)
_WRITES = re.compile(r"write|edit|patch|create|replace|delete|insert", re.I)
_HEADING = re.compile(r"#{1,4}\s+(.*)")


def make(_: Options) -> Extractive:
    return Extractive()


@dataclass(frozen=True, slots=True)
class Extractive:
    """A summarizer that selects sentences by rules, without a model."""

    NAME: ClassVar[str] = "extractive"

    def summarise(self, request: Request, *, progress: Progress, cancelled: Event) -> Summary:
        """Return a summary that consists of sentences from the conversation (see ``Summarizer.summarise``)."""
        if request.kind == "title":
            return Summary(next(item.text for item in request.items if item.by == "user"))
        progress(f"selecting from {len(request.items):,} paragraphs")
        found = _sections(request.items)
        before = _parsed(without_files(request.previous))
        wanted = set(re.findall(r"\w{3,}", request.focus.lower()))
        input_chars = len(request.conversation) + len(request.previous)
        # The summary has at most half the length of the input, even if the budget is larger.
        room = min(request.max_tokens * CHARS_PER_TOKEN, input_chars // 2)
        parts = []
        spare = 0
        for title, share in SHARES.items():
            lines = list(dict.fromkeys([*before.get(title, ()), *found.get(title, ())]))
            spare += int(room * share)
            kept = _fit(lines, spare - len(title) - 5, wanted, first=title == GOAL)
            if kept:
                parts.append("\n".join([f"## {title}", *(f"- {line}" for line in kept)]))
                spare -= len(parts[-1]) + 2
        return Summary("\n\n".join(parts))


def _sections(paragraphs: Sequence[TranscriptItem]) -> dict[str, list[str]]:
    turns = _turns(paragraphs)
    sentences = [
        sentence
        for paragraph in paragraphs
        if paragraph.by in ("user", "assistant")
        for sentence in _sentences(paragraph.text)
    ]
    return {
        GOAL: _goals(paragraphs),
        PROGRESS: [line for turn in turns for line in _outcome(turn)],
        DECISIONS: [_line(sentence) for sentence in sentences if _DECIDED.search(sentence)],
        NEXT: _next(turns[-1] if turns else ()),
        FILES: _files(paragraphs),
        EARLIER: [_line(paragraph.text) for paragraph in paragraphs if paragraph.by in ("summary", "note")],
    }


def _goals(paragraphs: Sequence[TranscriptItem]) -> list[str]:
    """Return the user's messages, except short ones such as "ok". The first message is always included."""
    lines = [_line(paragraph.text) for paragraph in paragraphs if paragraph.by == "user"]
    return [*lines[:1], *(line for line in lines[1:] if len(line) > NO_GOAL_CHARS_MAX or not line.isascii())]


def _turns(paragraphs: Sequence[TranscriptItem]) -> list[list[TranscriptItem]]:
    """Return the paragraphs in groups. Each group begins with a message from the user, except perhaps the first."""
    turns: list[list[TranscriptItem]] = []
    for paragraph in paragraphs:
        if paragraph.by == "user" or not turns:
            turns.append([])
        turns[-1].append(paragraph)
    return turns


def _outcome(turn: Sequence[TranscriptItem]) -> Iterable[str]:
    """Yield lines about the outcome of a turn.

    These are the last answer, or the tools that were used if there is no answer; the last result if it is an error; and
    the shell commands.
    """
    answers = [paragraph.text for paragraph in turn if paragraph.by == "assistant"]
    if answers:
        yield _line(answers[-1])
    tools = Counter(paragraph.name for paragraph in turn if paragraph.by == "call")
    if tools and not answers:
        yield _line("used " + ", ".join(f"{name} {times}x" for name, times in tools.items()))
    results = [paragraph for paragraph in turn if paragraph.by == "result"]
    if results and results[-1].failed:
        yield _line(f"{results[-1].name} failed: {results[-1].text}")
    yield from (_line(f"ran {paragraph.text}") for paragraph in turn if paragraph.by == "shell")


def _next(turn: Sequence[TranscriptItem]) -> list[str]:
    """Return lines about the next steps: plans and questions in the agent's last answer, or an unanswered request."""
    answers = [paragraph for paragraph in turn if paragraph.by == "assistant"]
    sentences = _sentences(answers[-1].text) if answers else []
    ahead = [_line(sentence) for sentence in sentences if _AHEAD.search(sentence)]
    questions = [f"open: {_line(sentence)}" for sentence in sentences if sentence.endswith("?")]
    waiting = [_line(f"not answered yet: {turn[0].text}")] if turn and turn[0].by == "user" and not answers else []
    return [*ahead, *questions, *waiting]


def _files(paragraphs: Sequence[TranscriptItem]) -> list[str]:
    touched: dict[str, str] = {}
    for paragraph in paragraphs:
        if paragraph.by == "call" and paragraph.path:
            path = _line(paragraph.path)
            how = "changed" if _WRITES.search(paragraph.name) else touched.get(path, "read")
            touched.pop(path, None)
            touched[path] = how
    return [f"{how} {path}" for path, how in touched.items()]


def _fit(lines: Sequence[str], chars_max: int, wanted: set[str], *, first: bool) -> list[str]:
    """Return the lines that fit into ``chars_max``, in their original order.

    Each line is shortened to a quarter of the budget. Lines with a word of ``wanted`` are selected first, then newer
    lines before older ones. If ``first`` is set, the first line is selected before newer lines, and at least its
    beginning is always included.
    """

    def rank(place: int) -> tuple[bool, bool, int]:
        line = lines[place].lower()
        return not any(word in line for word in wanted), not (first and place == 0), -place

    kept = {}
    line_chars_max = max(chars_max // 4, LINE_CHARS_MIN)
    for place in sorted(range(len(lines)), key=rank):
        line = _shortened(lines[place], line_chars_max)
        if len(line) + 3 <= chars_max or (first and place == 0):
            kept[place] = line
            chars_max -= len(line) + 3
    return [kept[place] for place in sorted(kept)]


def _parsed(summary: str) -> dict[str, list[str]]:
    """Return the lines of a summary by section. Lines under unknown headings are returned under ``EARLIER``."""
    lines: dict[str, list[str]] = {}
    title = EARLIER
    for line in summary.splitlines():
        heading = _HEADING.match(line)
        if heading:
            title = heading[1].rstrip() if heading[1].rstrip() in SHARES else EARLIER
        elif line.strip(" -*"):
            lines.setdefault(title, []).append(_line(line.strip().removeprefix("- ").removeprefix("* ")))
    return lines


def _sentences(text: str) -> list[str]:
    return [sentence for sentence in (part.strip() for part in _SENTENCE.split(text)) if sentence]


def _line(text: str) -> str:
    """Return ``text`` on one line, shortened to ``LINE_CHARS_MAX`` characters."""
    return _shortened(" ".join(text[: 4 * LINE_CHARS_MAX].split()), LINE_CHARS_MAX)


def _shortened(line: str, chars_max: int) -> str:
    return line if len(line) <= chars_max else f"{line[: chars_max - 4].rstrip()} ..."
