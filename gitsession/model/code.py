"""Code in texts: the fences of Markdown, and the tokens of code for syntax highlighting.

Pygments splits code into tokens. It is imported when it is first used. If it is not installed, no language is known.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from gitsession.pattern import pattern

Lexer: TypeAlias = Any
"""A lexer of Pygments, which has no type annotations; ``None`` for an unknown language."""

Piece: TypeAlias = tuple[str, str]
"""The class of a token, and its text. The class is a value of ``_CLASSES``, or "" for text without color."""

_HIGHLIGHTED_CHARS_MAX = 20_000
"""Maximum length of code that is highlighted. Longer code has no colors."""

_CLASSES = {
    "Comment": "c",
    "Keyword": "k",
    "Operator.Word": "k",
    "Literal.String": "s",
    "Literal.Number": "n",
    "Name.Function": "f",
    "Name.Class": "f",
    "Name.Decorator": "f",
    "Name.Tag": "k",
    "Name.Attribute": "f",
    "Name.Builtin": "b",
    "Generic.Deleted": "gd",
    "Generic.Inserted": "gi",
    "Generic.Heading": "c",
    "Generic.Subheading": "c",
    "Generic.Prompt": "c",
}
"""The class of each kind of token. The pages have one color per class, and the terminal has one, too."""


@functools.lru_cache(maxsize=256)
def lexer_for(path: str) -> Lexer:
    """Return the lexer for the file ``path``."""
    try:
        from pygments.lexers import get_lexer_for_filename

        return _plain(get_lexer_for_filename(path.rpartition("/")[2]))
    except (ImportError, ValueError):  # ClassNotFound is a ValueError
        return None


@functools.lru_cache(maxsize=256)
def lexer_named(language: str) -> Lexer:
    """Return the lexer for the language of a fence, such as ``python``."""
    try:
        from pygments.lexers import get_lexer_by_name

        return _plain(get_lexer_by_name(language)) if language else None
    except (ImportError, ValueError):
        return None


def _plain(lexer: Lexer) -> Lexer:
    """Return ``lexer``, changed so that it keeps every character of a text."""
    lexer.stripnl = lexer.ensurenl = False
    return lexer


def pieces(text: str, lexer: Lexer) -> list[list[Piece]]:
    """Return the lines of ``text``, which contains no control characters, each as its tokens."""
    lines = text.split("\n")
    plain = [[("", line)] for line in lines]
    if lexer is None or len(text) > _HIGHLIGHTED_CHARS_MAX:
        return plain
    found: list[list[Piece]] = [[]]
    for kind, value in lexer.get_tokens(text):
        name = _class_of(kind)
        first, *others = value.split("\n")
        found[-1].append((name, first))
        found += ([(name, other)] for other in others)
    return found if len(found) == len(lines) else plain  # else the lexer changed the line ends


@functools.lru_cache(maxsize=512)
def _class_of(kind: Sequence[str]) -> str:
    """Return the class of a kind of token, which is a tuple such as ``("Literal", "String", "Doc")``."""
    names = (".".join(kind[:size]) for size in range(len(kind), 0, -1))
    return next((_CLASSES[name] for name in names if name in _CLASSES), "")


class Fence(NamedTuple):
    """A block of code between fences in Markdown.

    Attributes:
        start: The index of the line that opens the block.
        end: The index of the line that closes the block; the number of lines if the block is not closed.
        indent: The spaces before the opening fence.
        mark: The fence, such as three backticks.
        language: The first word after the opening fence, in lower case.
    """

    start: int
    end: int
    indent: str
    mark: str
    language: str

    def covers(self, other: Fence) -> bool:
        """Return whether ``other``, which begins in this block, is not closed if this block is not closed."""
        return other.start < self.end and other.mark.startswith(self.mark) and other.indent >= self.indent


_FENCE = pattern(r"( {0,3})(`{3,}(?!.*`)|~{3,})")


def is_fence(line: str) -> bool:
    """Return whether a line can open a block of code in Markdown."""
    return _FENCE.match(line) is not None


def fences(lines: Sequence[str]) -> Iterator[Fence]:
    """Yield the fenced blocks of code in the lines of a Markdown text.

    An indented fence may be in the item of a list, which the first line with a smaller indent ends, and the block with
    it. So only a block whose lines have at least the indent of its fence, and which is closed, is yielded: it is the
    same block in an item and outside of one.
    """
    at, rejected = 0, Fence(0, 0, "", "", "")
    while at < len(lines):
        opened = _FENCE.match(lines[at])
        if opened:
            language = " ".join(lines[at][opened.end() :].split()[:1]).lower()
            fence = Fence(at, at, opened[1], opened[2], language)
            if not fence.indent or not rejected.covers(fence):  # else many open fences would take quadratic time
                fence = _with_end(fence, lines)
                if not fence.indent or (fence.end < len(lines) and _closes(lines[fence.end], fence)):
                    yield fence
                    at = fence.end
                else:
                    rejected = fence
        at += 1


def _with_end(fence: Fence, lines: Sequence[str]) -> Fence:
    end = fence.start + 1
    while end < len(lines) and _is_inside(lines[end], fence) and not _closes(lines[end], fence):
        end += 1
    return fence._replace(end=end)


def _is_inside(line: str, fence: Fence) -> bool:
    return not fence.indent or not line.strip() or line.expandtabs(4).startswith(fence.indent)


def _closes(line: str, fence: Fence) -> bool:
    found = _FENCE.match(line)
    return (
        found is not None
        and found[2].startswith(fence.mark)
        and found[1] >= fence.indent
        and not line[found.end() :].strip()
    )
