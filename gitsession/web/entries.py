"""Entries of a session as a page shows them.

``view_of`` converts an entry to an ``EntryView``, which the templates convert to HTML. A view contains plain text, and
``Markup`` from ``web.text``. It depends only on the entry and on the tool calls before it, so that the parts of a page
can be made separately.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from gitsession.formats.base.fields import to_iso
from gitsession.model.blocks import File, Image, Text, Thinking
from gitsession.model.entries import BranchSummary, Compaction, Entry, Message
from gitsession.model.entry_parts import (
    CallPart,
    FindCall,
    NotePart,
    OutputPart,
    Part,
    file_name,
    heading_of,
    is_aside,
    parts_of,
)
from gitsession.model.file_edits import FileEdit
from gitsession.model.headline import line_count
from gitsession.model.plain import plain
from gitsession.sessions.node import Node
from gitsession.web import text

ID_CHARS = 12
"""Number of characters of an entry's oid in the address of the entry in a page, ``#e-<oid>``."""

_SHOWN_CHARS_MAX = 100_000
"""Maximum length of a text in a page. The rest is left out, and the page says so."""

_OPEN_DIFF_LINES_MAX = 80
"""Maximum number of lines of a diff that are not folded."""

_SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
"""The first bytes of the images that a page shows. SVG is not included, because it can contain scripts."""


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
    author, about = heading_of(entry)
    form = _form(entry)
    parts = parts_of(entry, around.folder, find_call)
    blocks = tuple(block for part in parts for block in _blocks(part, entry))
    if not blocks and not around.label:
        return None
    time = to_iso(entry.at_ms)[:19] + "Z" if entry.at_ms > 0 else ""
    return EntryView(
        node.oid[:ID_CHARS], form, "" if form == "tool" else text.on_one_line(author).capitalize(),
        text.on_one_line(about), time,
        text.on_one_line(around.label), around.tips, around.begins, blocks,
    )  # fmt: skip


_FORMS = {"user": "prompt", "assistant": "answer", "tool": "tool", "shell": "tool"}


def _form(entry: Entry) -> str:
    if isinstance(entry, Compaction | BranchSummary):
        return "summary"
    return _FORMS.get(entry.role, "note") if isinstance(entry, Message) else "note"


def _blocks(part: Part, entry: Entry) -> Iterator[BlockView]:
    """Yield the blocks of a part of ``entry``. Text that neither the user nor the model wrote is folded."""
    match part:
        case Text() if is_aside(entry):
            yield BlockView("folded", _preformatted(part.text), title=line_count(part.text))
        case Text() if isinstance(entry, Message):
            yield BlockView("text", _markdown(part.text))
        case Text():
            yield BlockView("folded", _markdown(part.text), title="Summary", is_open=len(part.text) < 1500)
        case Thinking():
            yield BlockView("thinking", _markdown(part.text))
        case CallPart():
            yield _call(part)
        case OutputPart():
            yield from _output(part)
        case NotePart():
            yield BlockView("note", title=text.on_one_line(part.text), failed=part.failed)
        case Image():
            yield _image(part)
        case File():
            yield BlockView("note", title=f"File: {text.on_one_line(file_name(part)[:300])}")


def _call(call: CallPart) -> BlockView:
    action = call.action
    if action.edits:
        rest = text.on_one_line(action.command)
        return BlockView("call", title=rest, tool=action.tool, diffs=tuple(map(_diff, action.edits)))
    if call.arguments and call.is_command:
        return BlockView("call", tool=action.tool, arguments=(("", _argument(action.command)),), is_open=True)
    shown = tuple((text.on_one_line(str(name)), _argument(value)) for name, value in call.arguments.items())
    return BlockView("call", title=action.subject, tool=action.tool, arguments=shown)


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


def _output(output: OutputPart) -> Iterator[BlockView]:
    result = output.result
    if result.role == "shell":
        yield BlockView("call", title=output.action.subject, tool="$")
    tool = "shell" if result.role == "shell" else result.tool_name or output.action.tool
    shown = text.visible(output.text).strip("\n")
    yield BlockView(
        "output", _limited(shown), tool=text.on_one_line(tool),
        outcome=output.outcome.text, failed=output.outcome.failed, is_open=not output.is_long,
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
