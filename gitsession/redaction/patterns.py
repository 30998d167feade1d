"""Whether a pattern may take for ever on some text: nothing can stop one that does, and an append would hang in it."""

from __future__ import annotations

import re
from typing import Any

TURNS_MAX = 8
"""How often something may repeat of which a turn may be of several lengths: it can be tried in that power of ways."""

_REPEATS = frozenset({"MAX_REPEAT", "MIN_REPEAT"})


def may_take_for_ever(pattern: bytes) -> bool:
    """Whether a repetition holds a repetition or a choice, as in ``(a+)+`` and ``(a|ab)*``: then a text in which it
    nearly stands is tried in more ways than can be counted. Possessive ones, ``(a+)++``, are tried in one.

    Raises ``re.error``.
    """
    return _runs_away(re._parser.parse(pattern))  # type: ignore[attr-defined]


def _runs_away(items: Any) -> bool:
    return any(
        (str(kind) in _REPEATS and said[1] > TURNS_MAX and _varies(said[2])) or any(map(_runs_away, _inner(said)))
        for kind, said in items
    )


def _varies(items: Any) -> bool:
    """Whether it may match in several ways where it stands."""
    return any(
        str(kind) in ("BRANCH", "GROUPREF_EXISTS")
        or (str(kind) in _REPEATS and said[0] != said[1])
        or (str(kind) in {*_REPEATS, "SUBPATTERN"} and any(map(_varies, _inner(said))))
        for kind, said in items
    )


def _inner(said: Any) -> list[Any]:
    """The patterns in what is said of one part of a pattern."""
    if isinstance(said, re._parser.SubPattern):  # type: ignore[attr-defined]
        return [said]
    return [each for part in said for each in _inner(part)] if isinstance(said, tuple | list) else []
