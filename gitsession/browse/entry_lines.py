"""The lines of an entry in a transcript: Markdown, diffs of edits, and folded thinking and output of tools."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from markdown_it import MarkdownIt
from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.markdown import CodeBlock, Heading, Markdown
from rich.segment import Segment
from rich.syntax import Syntax
from textual.strip import Strip

from gitsession.browse.entry_text import EntryTexts, output_title
from gitsession.browse.text import ROLE_STYLES, STYLES, one_line, strip_of
from gitsession.browse.text import Part as StyledText
from gitsession.line_text import clock
from gitsession.model.blocks import File, Image, OtherBlock, Text, Thinking
from gitsession.model.entries import BranchSummary, Compaction, CustomMessage, Entry, Message, Opaque
from gitsession.model.entry_parts import CallPart, NotePart, OutputPart, Part, file_name, kind_of_block
from gitsession.model.file_edits import FileEdit
from gitsession.model.headline import clean
from gitsession.sessions.node import Node

MARKDOWN_CHARS_MAX = 20_000
"""Maximum length of a text that is shown as Markdown, in characters. A longer text is shown as it is."""

UNFOLDED_CHARS_MAX = 200_000
"""Maximum number of characters of one text that are shown. `gitsession show` prints all of it."""

_WIDTH_MIN = 8
"""Minimum width of wrapped text in columns. On a narrower screen, its lines are cut."""

OUTPUT_LINES, DIFF_LINES, PROMPT_LINES = 6, 40, 60
"""Numbers of lines that are shown of folded output, diffs and prompts."""


class Folds(NamedTuple):
    """The parts of an entry that are folded: the model's thinking, and long texts, output and diffs."""

    thinking: bool = True
    long: bool = True


class _Lines:
    """The lines of one entry while they are built, each as wide as the screen."""

    def __init__(self, width: int, folds: Folds) -> None:
        self.width = width
        self.folds = folds
        self.found: list[Strip] = []

    def add(self, *parts: StyledText) -> None:
        self.found.append(strip_of(parts, self.width))

    def plain(self, text: str, style: str = "", *, lines_max: int = PROMPT_LINES, indent: str = "  ") -> None:
        """Add text as it is. If it is folded and long, add only its first lines."""
        limit = lines_max if self.folds.long else -1
        rows = text[:UNFOLDED_CHARS_MAX].rstrip("\n").split("\n")
        shown = 0
        for at, row in enumerate(rows):
            for piece in _wrapped(row, self.width - len(indent)):
                if shown == limit:
                    self.folded(len(rows) - at)
                    return
                self.add((indent, ""), (piece, style))
                shown += 1
        if len(text) > UNFOLDED_CHARS_MAX:
            self.add((f"{indent}… {len(text) - UNFOLDED_CHARS_MAX:,} more characters: run `gitsession show`", "dim"))

    def folded(self, lines: int) -> None:
        self.add((f"  … {lines:,} more line{'s' if lines != 1 else ''} (space)", "dim"))

    def markdown(self, text: str) -> None:
        if len(text) > MARKDOWN_CHARS_MAX:
            self.plain(text)
            return
        for line in _markdown(clean(text), max(self.width - 2, 10)):
            self.found.append(Strip([Segment("  "), *line]).adjust_cell_length(self.width))

    def diffs(self, edits: Iterable[FileEdit]) -> None:
        for edit in edits:
            self._diff(edit)

    def _diff(self, edit: FileEdit) -> None:
        limit = DIFF_LINES if self.folds.long else len(edit.lines)
        if edit.moved_to:
            self.add((f"    moved to {one_line(edit.moved_to)}", "dim"))
        for line in edit.lines[:limit]:
            style = "added" if line[:1] == "+" else "removed" if line[:1] == "-" else "dim"
            for piece in _wrapped(line, self.width - 4):
                self.add(("    ", ""), (piece, style))
        if len(edit.lines) > limit:
            self.folded(len(edit.lines) - limit)


def entry_lines(
    node: Node, texts: EntryTexts, *, label: str = "", width: int, folds: Folds, is_answered: bool
) -> list[Strip]:
    """Return the lines of an entry.

    Args:
        node: The entry.
        texts: The texts of its session.
        label: The label of the entry.
        width: The width of the lines in columns.
        folds: The parts that are folded.
        is_answered: Whether a result of a tool call follows. The results show the calls of an answer.
    """
    lines = _Lines(width, folds)
    entry = texts.read(node)
    if isinstance(entry, Message) and entry.role in ("tool", "shell"):
        _add_body(lines, entry, texts.parts(node), is_answered=False)
    elif isinstance(entry, Message | CustomMessage | Compaction | BranchSummary):
        lines.add(*_heading(node, entry, label))
        _add_body(lines, entry, texts.parts(node), is_answered=is_answered)
    elif isinstance(entry, Opaque) and entry.problem:
        lines.add((f"{node.oid[:8]} cannot be read: {one_line(entry.problem)}", "error"))
    else:
        lines.add((one_line(node.subject), "dim"))
    is_grouped = is_answered and (node.role == "tool" or len(lines.found) == 1)
    if not is_grouped:
        lines.add()
    return lines.found


def _heading(node: Node, entry: Entry, label: str) -> Iterable[StyledText]:
    name = node.role if isinstance(entry, Message) else one_line(node.subject).partition(":")[0]
    yield (one_line(name), ROLE_STYLES.get(node.role, "bold"))
    yield (f"  {clock(node.author_seconds * 1000)}", "dim")
    if node.model:
        yield (f"  {one_line(node.model)}", "dim")
    if label:
        yield (f"  '{one_line(label)}'", "mark")


def _add_body(lines: _Lines, entry: Entry, parts: Sequence[Part], *, is_answered: bool) -> None:
    """Add the parts of an entry. The results show their calls, so a call with a result is not added."""
    answered = {part.result.tool_call_id for part in parts if isinstance(part, OutputPart)}
    is_prompt = isinstance(entry, Message) and entry.role != "assistant"
    for part in parts:
        match part:
            case Text() if is_prompt:
                lines.plain(part.text)
            case Text():
                lines.markdown(part.text)
            case Thinking():
                _add_thinking(lines, part)
            case CallPart(is_text=True):
                lines.add((f"  {part.action.title}", "tool"))
            case CallPart():
                if not is_answered and part.id not in answered:
                    lines.add(("  ", ""), (part.action.title, "tool"))
                    lines.diffs(part.action.edits)
            case OutputPart():
                _add_output(lines, part)
            case NotePart():
                lines.add((f"  {one_line(part.text)}", "error" if part.failed else "dim"))
            case Image():
                lines.add((f"  [image {one_line(part.mime)}, {len(part.data):,} bytes]", "dim"))
            case File():
                lines.add((f"  [file {one_line(file_name(part))}]", "dim"))
            case OtherBlock():
                kind = kind_of_block(part)
                if kind and kind not in _SEPARATORS:
                    lines.add((f"  [{one_line(kind)}]", "dim"))


_SEPARATORS = ("tool_result", "step-start", "step-finish")
"""The types of blocks that only separate others."""


def _add_thinking(lines: _Lines, block: Thinking) -> None:
    text = block.text.strip()
    if not text:
        return
    rows = text.count("\n") + 1
    if lines.folds.thinking:
        lines.add((f"  thinking ({rows:,} line{'s' if rows > 1 else ''}): {one_line(text)}", "dim"))
    else:
        lines.add(("  thinking", "dim"))
        lines.plain(text, "dim", lines_max=10_000, indent="  | ")


def _add_output(lines: _Lines, output: OutputPart) -> None:
    lines.add(("  ", ""), *output_title(output))
    lines.diffs(output.action.edits)
    is_brief = output.action.verb in ("edit", "read") and lines.folds.long and not output.outcome.failed
    if output.text.strip() and not is_brief:
        style = "error" if output.result.is_error else "dim"
        lines.plain(output.text, style, lines_max=OUTPUT_LINES, indent="    ")


def _wrapped(row: str, width: int) -> Iterator[str]:
    """Yield the pieces of a line of text, each at most ``width`` columns wide. Text is broken at spaces if possible."""
    text, width = clean(row.replace("\t", "    ").rstrip("\r")), max(width, _WIDTH_MIN)
    if cell_len(text) <= width:
        yield text
        return
    if not text.isascii():
        yield from chop_cells(text, width)
        return
    at = 0
    while len(text) - at > width:
        space = text.rfind(" ", at + width // 2, at + width + 1)
        end = space if space > 0 else at + width
        yield text[at:end]
        at = end + (space > 0)
    yield text[at:]


# ---- Markdown


class _LeftHeading(Heading):
    """A heading at the left margin, in bold type."""

    def __rich_console__(self, console, options):  # type: ignore[no-untyped-def]
        self.text.justify = "left"
        yield self.text


class _Code(CodeBlock):
    """A block of code without empty lines around it."""

    def __rich_console__(self, console, options):  # type: ignore[no-untyped-def]
        yield Syntax(str(self.text).rstrip(), self.lexer_name, theme=self.theme, word_wrap=True, padding=(0, 1))


class _SafeMarkdown(Markdown):
    """Markdown in which HTML is text, and links show their target instead of hiding it in a control sequence."""

    elements = {  # noqa: RUF012 - as in the base class
        **Markdown.elements, "heading_open": _LeftHeading, "fence": _Code, "code_block": _Code,
    }  # fmt: skip


_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def _markdown(text: str, width: int) -> Sequence[list[Segment]]:
    console = Console(
        file=io.StringIO(), width=width, color_system="standard", force_terminal=True, legacy_windows=False,
        highlight=False, emoji=False, markup=False, _environ={},
    )  # fmt: skip
    shown = _SafeMarkdown("", code_theme="ansi_dark", hyperlinks=False)
    shown.parsed = _PARSER.parse(text)
    lines = console.render_lines(shown, console.options, pad=False)
    return [[Segment(part.text, part.style or STYLES[""]) for part in line if not part.control] for line in lines]
