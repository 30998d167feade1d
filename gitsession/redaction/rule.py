"""Rules for secrets, and the hints that select the texts to scan.

The pattern of a rule matches a secret and the text around it. The whole match is redacted, or only a part of it.

A scan with all rules is slow, so a faster test excludes most texts (``Scanner.suspects``). The test searches for tokens
and for hints. A hint has a stem, such as ``token``, and stands for all context rules that have a word with this stem.
Words like ``token`` are common, so most hints also require what the rules require: an assignment sign and a long value
after the stem. A hint must match every text in which one of its rules finds a secret. It may match other texts.

Hints are tried on escaped text. If a text has escapes that the hints do not cover, it is always scanned (see ``scan``).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import NamedTuple

from gitsession.dataclass import dataclass

Check = Callable[[bytes], bool]
"""A function that returns whether a hit is a secret, and not a word of documentation or an expression in code."""


@dataclass(frozen=True)
class Rule:
    """A rule for one kind of secret.

    Attributes:
        name: Name of the rule, which is part of the placeholder.
        pattern: Regular expression for bytes, which is tried at each of ``words``. If it has a group ``secret``, only
            this group is redacted; otherwise the whole match is.
        words: Literals with which a match can begin.
        check: Function that returns whether a hit is a secret.
        before: Number of bytes before the hit that are also redacted.
        folds: Whether ``words`` are in lower case and match any case.
        is_token: Whether the redacted part is a run of at least ``RUN_MIN`` bytes without spaces, including one of
            ``words``.
        samples: Texts that the rule must find. Tests expand templates such as ``{b32:16}`` in them, because the
            repository must not contain anything that looks like a real secret.
        never: Texts that the rule must not find.
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
    """A hint for all rules that have a word with ``stem``. The pattern ``behind`` must match the text after the stem.

    If the group ``turns`` of the pattern matches, the value after it must also have three turns (see
    ``CharacterTurns``).
    """

    stem: bytes
    behind: bytes = b""

    @property
    @functools.cache  # noqa: B019 - there are few hints
    def compiled(self) -> re.Pattern[bytes]:
        return re.compile(self.behind)


_BLANKS = rb"""(?:[\s"'`]|\\+(?:[nrtbf"'`]|u00(?:[01][0-9A-Fa-f]|2[27]|60)))"""
"""A white-space character or a quotation mark, which may be escaped several times."""

_SIGN = rb"[\w.-]{0,40}+(?:" + _BLANKS + rb"|\])*+(?::=|=>|==?|:)" + _BLANKS + rb"*"
"""The text between a stem and the value: the rest of the name, and the assignment sign.

The last ``*`` is not possessive: for the rules, an escaped control character may also be the beginning of the value.
"""

_VALUE = rb"""(?:[^\s"'\\]|\\+u[0-9A-Fa-f]{4})"""
_NO_CALL = rb"(?![(\[{$<]|[A-Za-z_$][\w.$]{2,}[(\[{])"
_TURN = rb"(?:(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z]))"
_INSIDE = rb"""(?:[^\s"'\\]|\\++u)"""
_FIRST_TURN = re.compile(_INSIDE + rb"+?" + _TURN)
_TWO_TURNS = re.compile(rb"(?:" + _INSIDE + rb"+?" + _TURN + rb"){2}")
_REST = re.compile(_INSIDE + rb"*+")
"""Patterns of ``CharacterTurns``. ``heuristics.is_random`` requires at least three turns."""

_ANY = _SIGN + rb"(?:(?i:bearer|basic|token|apikey|api-key|bot|key|digest|negotiate|aws)" + _BLANKS + rb"++)?"
_HEADER = _ANY + _VALUE + rb"{12}"
_RANDOM = _SIGN + rb"(?=" + _VALUE + rb"{16})" + _NO_CALL + rb"(?P<turns>)"
_PASSWORD = _SIGN + _NO_CALL + _VALUE + rb"{8}"
_KEY = _BLANKS + rb"*+[=:,>]+" + _BLANKS + rb"*+[A-Za-z0-9/+]{40}"
_OPTION = _BLANKS + rb"+" + _NO_CALL + _VALUE
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
_FIELD = rb"[^\s:]{1,400}:"
_PORT = rb":" + _FIELD
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
    Hint(b"-----begin", rb" (?:[A-Z0-9]+ ){0,4}PRIVATE KEY"),
    Hint(b"credential", _RANDOM),
    Hint(b"curl", rb"(?:[^\n-]{0,1500}+-){1,150}?(?<= -)(?:u|-user|-proxy-user)"),
    Hint(b"mysql", rb"[^\n]{0,600}? -p"),
    Hint(b"variable", _BLANKS + rb"{2}[^{}]{0,1500}\{[^{}]{0,2500}?default"),
    Hint(b"543", rb"\d{0,2}" + _PORT),
    Hint(b"432:", _FIELD),
    Hint(b"26257:", _FIELD),
    Hint(b"2506", rb"[01]" + _PORT),
    Hint(b"discord", rb"(?:[^\nMNO]{0,1000}+[MNO]){1,100}?[\w-]{23}"),
    Hint(b"_pat", _RANDOM),
)
"""Hints, in the order in which they are tried. Stems match any case. Patterns are case-sensitive."""


def hints_of(words: list[bytes]) -> tuple[Hint, ...]:
    """Return the hints for ``words``, which are in lower case.

    For each word without a hint in ``HINTS``, a new hint is added, which matches the word before any text.
    """
    hints = [hint for hint in HINTS if any(hint.stem in word for word in words)]
    others = dict.fromkeys(word for word in words if not any(hint.stem in word for hint in hints))
    return (*hints, *(Hint(word) for word in others))


class CharacterTurns:
    """The turns in the values of one text. A turn is a position between characters of two kinds.

    Query the values from left to right. If a value has three turns, each value that begins before the first of these
    turns has three turns, too. If a value has fewer turns, no value that begins inside it has three turns. So a
    sequence of names and signs is read only once, although many values begin in the sequence.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._from = self._to = 0
        self._are_three = False

    def are_three(self, at: int) -> bool:
        """Return whether the value that begins at ``at`` has three turns."""
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
