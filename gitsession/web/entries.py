"""Entries of a session as a page shows them.

``view_of`` converts an entry to an ``EntryView``, which the templates convert to HTML. A view contains plain text, and
``Markup`` from ``web.text``. It depends only on the entry and on the tool calls before it, so that the parts of a page
can be made separately.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from gitsession.formats.base.fields import to_iso
from gitsession.model.blocks import Block, File, Image, Text, Thinking, ToolCall
from gitsession.model.entries import (
    BranchSummary,
    Compaction,
    CustomMessage,
    Entry,
    Instructions,
    Message,
    ModeChange,
    ModelChange,
    Opaque,
    Permission,
    Reset,
    ThinkingChange,
    Tombstone,
)
from gitsession.model.file_edits import FileEdit, edits_in_text
from gitsession.model.headline import line_count
from gitsession.model.plain import plain
from gitsession.model.results import unfold
from gitsession.model.tool_actions import action_of, outcome_of
from gitsession.sessions.node import Node
from gitsession.web import text

ID_CHARS = 12
"""Number of characters of an entry's oid in the address of the entry in a page, ``#e-<oid>``."""

_SHOWN_CHARS_MAX = 100_000
"""Maximum length of a text in a page. The rest is left out, and the page says so."""

_OPEN_LINES_MAX, _OPEN_FAILURE_LINES_MAX, _OPEN_DIFF_LINES_MAX = 6, 40, 80
"""Maximum numbers of lines of an output, of the output of a failed tool, and of a diff that are not folded."""

_LONG_ARGUMENT_CHARS = 160

_SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
"""The first bytes of the images that a page shows. SVG is not included, because it can contain scripts."""

FindCall = Callable[[str], ToolCall | None]
"""A function that returns the tool call with an id, from the entries before the result."""


class DiffView(NamedTuple):
    """The diff of one file. ``change``: the change in words, such as ``edit``, ``write`` or ``delete``."""

    path: str
    change: str
    added: int
    removed: int
    html: Markup
    is_open: bool


class BlockView(NamedTuple):
    """A part of an entry.

    Attributes:
        form: The macro of the template that shows the part.
        html: The content.
        title: One line above the content, or instead of it.
        tool: The name of the tool.
        outcome: The outcome of a tool call.
        failed: Whether the tool call failed.
        is_open: Whether the content is not folded.
        arguments: The names and values of the arguments of a tool call.
        diffs: The changes of files that a tool call requests.
    """

    form: str
    html: Markup = Markup()
    title: str = ""
    tool: str = ""
    outcome: str = ""
    failed: bool = False
    is_open: bool = False
    arguments: tuple[tuple[str, Markup], ...] = ()
    diffs: tuple[DiffView, ...] = ()


class EntryView(NamedTuple):
    """An entry in a page.

    Attributes:
        id: The first characters of the oid.
        form: The class of the entry: ``prompt``, ``answer``, ``tool``, ``summary`` or ``note``.
        author: The author, as people read it.
        about: The model of an answer, or the name of an extension.
        time: The time in UTC, such as ``2026-03-02T09:01:00Z``; "" if it is unknown.
        label: The label of the entry.
        tips: The branches whose tip this entry is.
        begins: The branches that begin after this entry, each with the id of its first entry.
        blocks: The parts.
    """

    id: str
    form: str
    author: str
    about: str
    time: str
    label: str
    tips: tuple[str, ...]
    begins: tuple[tuple[str, str], ...]
    blocks: tuple[BlockView, ...]

    @property
    def is_silent(self) -> bool:
        """True for an answer without text."""
        return self.form == "answer" and all(block.form in ("call", "output", "thinking") for block in self.blocks)


class Around(NamedTuple):
    """Facts about an entry that are not in its content: its label, its branches, and the folder of the session."""

    label: str = ""
    tips: tuple[str, ...] = ()
    begins: tuple[tuple[str, str], ...] = ()
    folder: str = ""


def view_of(node: Node, entry: Entry, around: Around, find_call: FindCall) -> EntryView | None:
    """Return the view of an entry; ``None`` if a page does not show entries of this kind, or if the entry is empty."""
    form, author, about = _heading(entry)
    blocks = tuple(_blocks(entry, around.folder, find_call))
    if not blocks and not around.label:
        return None
    time = to_iso(entry.at_ms)[:19] + "Z" if entry.at_ms > 0 else ""
    return EntryView(
        node.oid[:ID_CHARS], form, author, text.on_one_line(about), time,
        text.on_one_line(around.label), around.tips, around.begins, blocks,
    )  # fmt: skip


_AUTHORS = {
    "user": ("prompt", "User"),
    "assistant": ("answer", "Assistant"),
    "tool": ("tool", ""),
    "shell": ("tool", ""),
}


def _heading(entry: Entry) -> tuple[str, str, str]:
    """Return the form, the author, and the model or the extension of an entry."""
    match entry:
        case Message():
            form, author = _AUTHORS.get(entry.role, ("note", text.on_one_line(entry.role).capitalize()))
            return form, author, entry.model or "" if entry.role == "assistant" else ""
        case CustomMessage():
            return "note", "Extension", entry.custom_type
        case Compaction():
            return "summary", "Summary of earlier entries", ""
        case BranchSummary():
            return "summary", "Summary of an abandoned branch", ""
        case Instructions():
            return "note", "Instructions", ""
    return "note", "", ""


def _blocks(entry: Entry, folder: str, find_call: FindCall) -> Iterator[BlockView]:
    match entry:
        case Message(role="shell"):
            yield BlockView("call", title=text.on_one_line(entry.command or ""), tool="$")
            yield _output(entry, text.visible(entry.output or ""), "shell")
        case Message(role="tool"):
            yield from _result(entry, find_call)
        case Message():
            for each in unfold(entry):
                if each.role == "tool":
                    yield from _result(each, find_call)
                else:
                    yield from _content(each, folder)
            if entry.failed:
                error = f": {entry.error}" if entry.error else ""
                yield BlockView("note", title=text.on_one_line(f"{entry.stop}{error}"), failed=True)
        case CustomMessage():
            yield from _content(entry, folder)
        case Compaction() | BranchSummary():
            yield BlockView("folded", _markdown(entry.summary), title="Summary", is_open=len(entry.summary) < 1500)
        case Instructions():
            parts = [part for part in (entry.system_prompt, entry.task) if part]
            yield from (BlockView("folded", _preformatted(part), title=line_count(part)) for part in parts)
        case _:
            note = _note(entry)
            if note:
                yield BlockView("note", title=text.on_one_line(note), failed=isinstance(entry, Opaque))


def _content(entry: Message | CustomMessage, folder: str) -> Iterator[BlockView]:
    """Yield the blocks of a message. Text that neither the user nor the model wrote is folded."""
    folds = isinstance(entry, CustomMessage) or entry.role not in ("user", "assistant")
    for block in entry.content:
        if folds and isinstance(block, Text) and block.text.strip():
            yield BlockView("folded", _preformatted(block.text), title=line_count(block.text))
        else:
            yield from _block(block, folder)


def _note(entry: Entry) -> str:
    match entry:
        case ModelChange():
            return f"Model: {'/'.join(filter(None, (entry.provider, entry.model)))}"
        case ThinkingChange():
            return f"Thinking level: {entry.level}"
        case ModeChange():
            return f"Mode: {entry.mode}"
        case Permission():
            return f"Permission: {entry.decision}"
        case Reset():
            return "Context reset"
        case Tombstone():
            return "This entry was purged."
        case Opaque(problem=problem) if problem:
            return f"This entry cannot be read: {problem}"
    return ""


def _block(block: Block, folder: str) -> Iterator[BlockView]:
    match block:
        case Text() if block.text.strip():
            yield BlockView("text", _markdown(block.text))
            diffs = tuple(map(_diff, edits_in_text(block.text)))
            if diffs:
                yield BlockView("call", tool="edit", diffs=diffs)
        case Thinking() if block.text.strip():
            yield BlockView("thinking", _markdown(block.text))
        case ToolCall():
            yield _call(block, folder)
        case Image():
            yield _image(block)
        case File():
            name = " ".join(filter(None, (block.name, block.mime, block.url)))
            yield BlockView("note", title=f"File: {text.on_one_line(name[:300])}")


def _call(call: ToolCall, folder: str) -> BlockView:
    action = action_of(call, folder)
    if action.edits:
        rest = text.on_one_line(action.command)
        return BlockView("call", title=rest, tool=action.tool, diffs=tuple(map(_diff, action.edits)))
    arguments = call.arguments if isinstance(call.arguments, Mapping) else {}
    texts = [value for value in arguments.values() if isinstance(value, str)]
    if action.verb in ("run", "read", "search") and all(_is_short(value) for value in texts):
        return BlockView("call", title=action.subject, tool=action.tool)
    if action.verb == "run" and len(texts) == 1:
        return BlockView("call", tool=action.tool, arguments=(("", _argument(texts[0])),), is_open=True)
    shown = tuple((text.on_one_line(str(name)), _argument(value)) for name, value in arguments.items())
    return BlockView("call", title=action.subject, tool=action.tool, arguments=shown)


def _is_short(value: str) -> bool:
    return len(value) <= _LONG_ARGUMENT_CHARS and "\n" not in value


def _argument(value: Any) -> Markup:
    shown = value if isinstance(value, str) else json.dumps(plain(value), indent=2, ensure_ascii=False, default=str)
    return _limited(text.visible(shown))


def _diff(edit: FileEdit) -> DiffView:
    path = text.on_one_line(edit.path)
    name = f"{path} → {text.on_one_line(edit.moved_to)}" if edit.moved_to else path
    lines = edit.lines
    while sum(map(len, lines)) > _SHOWN_CHARS_MAX:
        lines = lines[: len(lines) // 2] if len(lines) > 1 else (lines[0][:_SHOWN_CHARS_MAX],)
    html = text.diff(lines, edit.moved_to or edit.path)
    if len(lines) < len(edit.lines):
        html += _left_out(f"{len(edit.lines) - len(lines):,} more lines")
    return DiffView(name, edit.change, edit.added, edit.removed, html, len(edit.lines) <= _OPEN_DIFF_LINES_MAX)


def _result(result: Message, find_call: FindCall) -> Iterator[BlockView]:
    texts = [block.text for block in result.content if isinstance(block, Text)]
    call = find_call(result.tool_call_id) if result.tool_call_id else None
    name = result.tool_name or (call.name if call is not None else "")
    yield _output(result, text.visible("\n".join(texts)), name)
    for block in result.content:
        if isinstance(block, Image | File):
            yield from _block(block, "")


def _output(result: Message, shown: str, tool: str) -> BlockView:
    outcome = outcome_of(result)
    lines = shown.count("\n") + 1
    open_max = _OPEN_FAILURE_LINES_MAX if outcome.failed else _OPEN_LINES_MAX
    return BlockView(
        "output", _limited(shown.strip("\n")), tool=text.on_one_line(tool),
        outcome=outcome.text, failed=outcome.failed, is_open=lines <= open_max and len(shown) < 2000,
    )  # fmt: skip


def _image(image: Image) -> BlockView:
    mime = image_type(image.data)
    if not mime:
        return BlockView("note", title=f"Image: {text.on_one_line(image.mime[:100])}, {len(image.data):,} bytes")
    url = f"data:{mime};base64,{base64.b64encode(image.data).decode()}"
    return BlockView("image", Markup('<img src="{}" alt="Image, {} bytes">').format(url, f"{len(image.data):,}"))


def image_type(data: bytes) -> str:
    """Return the media type of an image that a page can show; "" for any other data.

    The bytes are tested, because the type that an agent recorded is not reliable.
    """
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((mime for signature, mime in _SIGNATURES.items() if data.startswith(signature)), "")


def _markdown(source: str) -> Markup:
    if len(source) > _SHOWN_CHARS_MAX:
        return Markup("<pre>{}</pre>").format(_limited(text.visible(source)))
    return text.markdown(source)


def _preformatted(source: str) -> Markup:
    return Markup("<pre>{}</pre>").format(_limited(text.visible(source)))


def _limited(shown: str) -> Markup:
    """Return visible text as HTML, at most its first ``_SHOWN_CHARS_MAX`` characters."""
    if len(shown) <= _SHOWN_CHARS_MAX:
        return escape(shown)
    return escape(shown[:_SHOWN_CHARS_MAX]) + _left_out(f"{len(shown) - _SHOWN_CHARS_MAX:,} more characters")


def _left_out(what: str) -> Markup:
    return Markup('\n<em class="cut">{}</em>').format(what)
