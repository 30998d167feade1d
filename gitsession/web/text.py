"""Conversion of agents' text to safe HTML: plain text, Markdown, code, and diffs.

Every function returns ``Markup``, in which only the tags of this module are unescaped. Raw HTML in Markdown is text, a
link has a scheme of ``_SCHEMES``, and an image in Markdown becomes a link. No function raises an exception.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markupsafe import Markup, escape

from gitsession.exporting.markdown import printable
from gitsession.model.code import Lexer, lexer_for, lexer_named, pieces

_SCHEMES = ("http", "https", "mailto")
_CONTROL_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_MARKED = re.compile(r"[\\`*_\[\]<>&#|~]|^[ \t]*(?:[-+=>]|\d+[.)])|^(?: {4}|\t)|  $", re.MULTILINE)
"""Any text that Markdown may not display as it is."""


def visible(text: str) -> str:
    """Return ``text`` without control characters, and without the control sequences of a terminal."""
    return printable(_CONTROL_SEQUENCE.sub("", text) if "\x1b" in text else text)


def on_one_line(text: str) -> str:
    """Return ``text`` as ``visible`` does, on one line."""
    return " ".join(visible(text).split())


def markdown(text: str) -> Markup:
    """Return Markdown as HTML."""
    safe = visible(text).strip("\n")
    if not _MARKED.search(safe):  # most prompts, and 20 times as fast
        return Markup("\n").join(Markup("<p>{}</p>").format(part) for part in re.split(r"\n\s*\n", safe) if part)
    try:
        return Markup(_renderer().render(safe))
    except (RecursionError, ValueError, IndexError):
        return Markup("<pre>{}</pre>").format(safe)


def code(text: str, lexer: Lexer) -> Markup:
    """Return code as HTML, highlighted by ``lexer`` if it is not too long."""
    return Markup("\n").join(highlighted(visible(text), lexer))


def diff(lines: Sequence[str], path: str) -> Markup:
    """Return the lines of a diff, each beginning with " ", "-" or "+", as HTML. ``path`` selects the language."""
    signs = [line[:1] for line in lines]
    texts = [visible(line[1:]).replace("\n", " ") for line in lines]
    colored = highlighted("\n".join(texts), lexer_for(path)) if texts else []
    rows = (
        Markup('<span class="{}">{}{}\n</span>').format(_LINE_CLASSES.get(sign, "same"), sign, row)
        for sign, row in zip(signs, colored, strict=True)
    )
    return Markup("").join(rows)


_LINE_CLASSES = {"+": "add", "-": "del"}


def highlighted(text: str, lexer: Lexer) -> list[Markup]:
    """Return the lines of a visible text as HTML, highlighted by ``lexer`` if the text is not too long."""
    return [Markup("").join(_span(name, part) for name, part in line) for line in pieces(text, lexer)]


def _span(name: str, text: str) -> Markup:
    return Markup('<span class="{}">{}</span>').format(name, text) if name and text.strip() else escape(text)


# ---- Markdown


@functools.cache
def _renderer() -> MarkdownIt:
    found = MarkdownIt("commonmark", {"html": False, "highlight": _fence}).enable(["table", "strikethrough"])
    found.validateLink = is_allowed  # type: ignore[method-assign]
    found.add_render_rule("link_open", _link_open)
    found.add_render_rule("image", _image)
    return found


def is_allowed(url: str) -> bool:
    """Return whether a link to ``url`` is allowed in a page."""
    try:
        return urlsplit(url.strip()).scheme.lower() in _SCHEMES
    except ValueError:
        return False


def _fence(text: str, language: str, _attributes: str) -> str:
    return str(code(text.removesuffix("\n"), lexer_named(language.lower())))


def _link_open(renderer: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
    tokens[at].attrSet("rel", "noopener noreferrer nofollow")
    return str(renderer.renderToken(tokens, at, options, env))


def _image(_renderer: Any, tokens: Any, at: int, _options: Any, _env: Any) -> str:
    """Return a link, because a page loads nothing from other places."""
    token = tokens[at]
    link = '<a href="{}" rel="noopener noreferrer nofollow">{}</a>'
    return str(Markup(link).format(token.attrGet("src") or "", token.content or "image"))
