"""A rule: the shape of a secret, the part of it that is hidden, and the hints for which a text is read at all.

A word such as ``token`` is on every page. A rule that goes by its place finds something there only where a sign and a
long value follow, and that can be seen through any number of backslashes, without undoing an escape. What a hint lets
pass is looked at in full; what it does not, never. So a hint may be too wide, and must not be too narrow: each asks for
less than the rules of its stem do, and what is written with escapes that it does not see through is looked at in any
case (``scan``).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

Check = Callable[[bytes], bool]
"""Whether what a pattern found is a secret, and not a word of documentation or an expression of a program."""


@dataclass(frozen=True)
class Rule:
    """One shape. ``pattern`` is tried wherever one of ``words`` stands, and begins there; it speaks of bytes.

    Hidden is the group ``secret``, or all where it has none, and ``before`` bytes ahead of it. ``folds``: the words are
    in lower case and stand for any case. ``is_token``: what is hidden is a run of at least ``RUN_MIN`` bytes that holds
    the word, with no space in it. ``samples``: what the rule must find, ``{b32:16}`` and the like filled in by tests,
    since nothing that looks real may stand in a repository; ``never``: what it must not.
    """

    name: str
    pattern: bytes
    words: tuple[bytes, ...]
    check: Check | None = None
    before: int = 0
    folds: bool = False
    is_token: bool = True
    samples: tuple[str, ...] = ()
    never: tuple[str, ...] = ()

    @functools.cached_property
    def compiled(self) -> re.Pattern[bytes]:
        return re.compile(self.pattern)

    @functools.cached_property
    def has_group(self) -> bool:
        return "secret" in self.compiled.groupindex


# ---- hints


class Hint(NamedTuple):
    """Of rules whose word has ``stem`` in it: what must follow the stem.

    Where the group ``turns`` of ``behind`` matches, a value begins that must take three turns, too
    (``CharacterTurns``).
    """

    stem: bytes
    behind: bytes = b""

    @property
    def compiled(self) -> re.Pattern[bytes]:
        return _compiled(self.behind)


@functools.cache
def _compiled(pattern: bytes) -> re.Pattern[bytes]:
    return re.compile(pattern)


_BLANKS = rb"""(?:[\s"'`]|\\+(?:[nrtbf"'`]|u00(?:[01][0-9A-Fa-f]|2[27]|60)))"""
"""White space and quotation marks, with their escapes at any depth."""

_SIGN = rb"[\w.-]{0,40}+(?:" + _BLANKS + rb"|\])*+(?::=|=>|==?|:)" + _BLANKS + rb"*+"
"""From a stem to the value: the rest of the name, and what assigns."""

_VALUE = rb"""(?:[^\s"'\\]|\\+u[0-9A-Fa-f]{4})"""
_NO_CALL = rb"(?![(\[{$<]|[A-Za-z_$][\w.$]{2,}[(\[{])"
_TURN = rb"(?:(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z]))"
_INSIDE = rb"""(?:[^\s"'\\]|\\++u)"""
_FIRST_TURN = re.compile(_INSIDE + rb"+?" + _TURN)
_TWO_TURNS = re.compile(rb"(?:" + _INSIDE + rb"+?" + _TURN + rb"){2}")
_REST = re.compile(_INSIDE + rb"*+")
"""The least that ``heuristics.is_random`` asks for: a value changes three times between kinds of characters."""

_ANY = _SIGN + rb"(?:(?i:bearer|basic|token|apikey|api-key|bot|key|digest|negotiate|aws)" + _BLANKS + rb"++)?"
_HEADER = _ANY + _VALUE + rb"{12}"
_RANDOM = _SIGN + rb"(?=" + _VALUE + rb"{16})" + _NO_CALL + rb"(?P<turns>)"
_PASSWORD = _SIGN + _NO_CALL + _VALUE + rb"{8}"
_KEY = _BLANKS + rb"*+[=:,>]+" + _BLANKS + rb"*+[A-Za-z0-9/+]{40}"
_OPTION = _BLANKS + rb"++" + _NO_CALL + _VALUE
_STATED = (
    rb"(?:(?:[ \t]|\\++(?:t|u0009))++\\*+(?:'|u0027)|(?-i:\w{0,24}+)"
    + _BLANKS
    + rb"*+,|>|\\+u003[eE])"
    + _BLANKS
    + rb"*+"
    + _NO_CALL
    + _VALUE
    + rb"{8}"
)
_TO_PASSWORD = rb"(?:[^pP]{0,1500}+[pP]){1,30}?(?i:assword)"

HINTS = (
    Hint(
        b"pass",
        _PASSWORD
        + rb"|(?:wd)? +-[\w]|(?<=tpass)wd +[^\s-]\S{0,200} +-\w|(?<=(?i:-pass))\w{0,6}"
        + _OPTION
        + rb"{8}|(?i:\w{0,6})"
        + _STATED,
    ),
    Hint(b"pwd", _PASSWORD + rb"|(?<=(?i:-pwd))" + _OPTION + rb"{8}"),
    Hint(b"secret", _RANDOM + rb"|(?<=(?i:-secret))" + _OPTION + rb"{16}"),
    Hint(b"token", rb"(?<=(?i:-token))(?:" + _HEADER + rb"|" + _OPTION + rb"{16})|" + _RANDOM),
    Hint(b"key", rb"(?<=(?i:-key))(?:" + _HEADER + rb"|" + _OPTION + rb"{16})|" + _KEY + rb"|-File-\d|" + _RANDOM),
    Hint(b"identified", rb" (?i:by)" + _BLANKS + rb"++" + _VALUE + rb"{8}"),
    Hint(b"auth", rb"(?:(?i:orization|-?token)|(?![A-Za-z]))" + _HEADER),
    Hint(b"cookie", _SIGN),
    Hint(b"://", rb"""(?:[^\s/@"'<>\\]|\\+u[0-9A-Fa-f]{4}){3,700}+@"""),
    Hint(b"bearer", _BLANKS + rb"++" + _VALUE + rb"{20}"),
    Hint(
        b"login",
        rb"(?<=\.[A-Za-z]{5})\([^)\"'`\\]{0,1500}+[\"'`\\]|"
        + _BLANKS
        + _TO_PASSWORD
        + rb"|(?<=(?i:docker login))(?:[^\n-]{0,1500}+-){1,60}?(?<= -)(?:p|-password)",
    ),
    Hint(b"-----begin", rb" [A-Z0-9 ]{0,100}PRIVATE KEY"),
    Hint(b"credential", _RANDOM),
    Hint(b"curl", rb"(?:[^\n-]{0,1500}+-){1,150}?(?<= -)(?:u|-user|-proxy-user)"),
    Hint(b"mysql", rb"[^\n]{0,600}? -p"),
    Hint(b"variable", _BLANKS + rb"{2}[^{}]{0,1500}\{[^{}]{0,2500}?default"),
    Hint(b"432:", rb"[^\s:]{1,400}:"),
    Hint(b"discord", rb"(?:[^\nMNO]{0,1000}+[MNO]){1,100}?[\w-]{23}"),
    Hint(b"_pat", _RANDOM),
)
"""Stems in lower case that stand for any case; patterns go by case. They are asked for in this order."""


def hints_of(words: list[bytes]) -> tuple[Hint, ...]:
    """Hints for ``words`` in lower case. One that has no stem in it is its own, with nothing asked of what follows."""
    hints = [hint for hint in HINTS if any(hint.stem in word for word in words)]
    others = dict.fromkeys(word for word in words if not any(hint.stem in word for hint in hints))
    return (*hints, *(Hint(word) for word in others))


class CharacterTurns:
    """The turns in the values of one text, which are asked for from left to right.

    The answer for a value holds up to its first turn, or to its end where it has none, so that a run of names and
    signs that is one value for each of them is read once.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._from = self._to = 0
        self._are_three = False

    def are_three(self, at: int) -> bool:
        """Return whether the value that begins at ``at`` takes three turns."""
        if not self._from <= at < self._to:
            self._read(at)
        return self._are_three

    def _read(self, at: int) -> None:
        first = _FIRST_TURN.match(self._data, at)
        second = None if first is None else _TWO_TURNS.match(self._data, first.end())
        self._are_three = second is not None
        if first is not None and second is not None:
            self._to = first.end()
        else:
            self._to = _REST.match(self._data, at).end()  # type: ignore[union-attr]
        self._from = at
