"""Where no rule that goes by its place can find anything: told by the bytes as they are, without undoing an escape.

A word such as ``token`` is on every page. A rule finds something there only where a sign and a long value follow, and
that can be seen through any number of backslashes. What a hint lets pass is looked at in full; what it does not, never.
So a hint may be too wide, and must not be too narrow: each asks for less than the rules of its stem do, and what is
written with escapes that it does not see through is looked at in any case (``scan``).
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple


class Hint(NamedTuple):
    """Of rules whose word has ``stem`` in it: what must follow the stem."""

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
_NO_CALL = rb"(?![(\[{]|[A-Za-z_$][\w.$]{2,}[(\[{])"
_TURN = rb"(?:(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z]))"
_TURNS = rb"""(?=(?:(?:[^\s"'\\]|\\+u){1,2600}?""" + _TURN + rb"){3})"
"""What ``looks.is_random`` and ``looks.is_password`` ask for at least, and of what kind a value must not be."""

_ANY = _SIGN + rb"(?:(?i:bearer|basic|token|apikey|api-key|bot|key|digest|negotiate|aws)" + _BLANKS + rb"++)?"
_HEADER = _ANY + _VALUE + rb"{12}"
_RANDOM = _SIGN + rb"(?=" + _VALUE + rb"{16})" + _NO_CALL + _TURNS
_PASSWORD = _SIGN + _NO_CALL + _VALUE + rb"{8}"
_KEY = _BLANKS + rb"*+[=:,>]+" + _BLANKS + rb"*+[A-Za-z0-9/+]{40}"

HINTS = (
    Hint(b"pass", _PASSWORD + rb"|(?:wd)? +-[\w]"),
    Hint(b"pwd", _PASSWORD),
    Hint(b"secret", _RANDOM),
    Hint(b"token", _RANDOM + rb"|(?<=(?i:-token))" + _HEADER),
    Hint(b"key", _RANDOM + rb"|(?<=(?i:-key))" + _HEADER + rb"|" + _KEY + rb"|-File-\d"),
    Hint(b"auth", _HEADER),
    Hint(b"cookie", _SIGN),
    Hint(b"://", rb"""(?:[^\s/@"'<>\\]|\\+u[0-9A-Fa-f]{4}){3,700}+@"""),
    Hint(b"bearer", _BLANKS + rb"++" + _VALUE + rb"{20}"),
    Hint(b"login", rb"(?<=\.[A-Za-z]{5})\([^)]{0,1500}?[\"'`\\]|" + _BLANKS + rb"(?s:.){1,1500}?(?i:password)"),
    Hint(b"sig=", _VALUE + rb"{20}"),
    Hint(b"signature=", _VALUE + rb"{20}"),
    Hint(b"-----begin", rb" [A-Z0-9 ]{0,100}PRIVATE KEY"),
    Hint(b"credential", _RANDOM),
    Hint(b"curl", rb"[^\n]{0,2000}? -(?:u|-user|-proxy-user)"),
    Hint(b"mysql", rb"[^\n]{0,600}? -p"),
    Hint(b"variable", _BLANKS + rb"{2}[^{}]{0,1500}\{[^{}]{0,2500}?default"),
    Hint(b"432:", rb"[^\s:]{1,400}:"),
    Hint(b"discord", rb"[^\n]{0,1000}?[MNO][\w-]{23}"),
    Hint(b"_pat", _RANDOM),
)
"""Stems in lower case that stand for any case; patterns go by case. They are asked for in this order."""


def of(words: list[bytes]) -> tuple[Hint, ...]:
    """Hints for ``words`` in lower case. One that has no stem in it is its own, with nothing asked of what follows."""
    hints = [hint for hint in HINTS if any(hint.stem in word for word in words)]
    others = dict.fromkeys(word for word in words if not any(hint.stem in word for hint in hints))
    return (*hints, *(Hint(word) for word in others))
