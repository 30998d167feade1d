"""What a rule is: how one shape of secret is found and what of it is hidden."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass

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
