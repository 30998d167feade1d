"""Where secrets stand in bytes: literals first, which is cheap, and a pattern only where its literal is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gitsession.redaction.rule import Rule
from gitsession.redaction.rules import RULES

RUN_MIN = 20
"""No token is shorter. Most words of texts and programs are, so tokens are looked for in few of them."""

LONG = 1024
"""Where patterns stop at the latest that could go on for ever: what is longer is hidden to its end."""

CHECKED = 512
"""How much of what was found is looked at for whether it is a secret."""

STEMS = tuple(b"pass pwd secret token key auth cookie :// bearer login sig= signature= -----begin".split())
"""What is in most of the words of rules that go by where a secret stands: a few looks instead of many."""

_REST = re.compile(rb"""[^\s"'`\\<>,;]*""")

_IN_RUN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./+=~:$@")
_RUNS = bytes(byte if byte in _IN_RUN else 32 for byte in range(256))


class Hit(NamedTuple):
    """What is to be hidden: from ``start`` to ``end``, by the rule of this name."""

    start: int
    end: int
    rule: str


class Scanner:
    """Finds secrets by ``rules`` and by those of the user, ``extra``, whose patterns may begin anywhere."""

    def __init__(self, rules: Iterable[Rule] = RULES, extra: Iterable[Rule] = ()) -> None:
        self.rules = (*rules, *extra)
        self._extra = tuple(extra)
        self._rank = {rule.name: number for number, rule in reversed(list(enumerate(self.rules)))}
        own = [rule for rule in self.rules if rule not in self._extra]
        self._tokens = _by_word(rule for rule in own if rule.is_token)
        self._folded = _by_word(rule for rule in own if not rule.is_token and rule.folds)
        self._plain = _by_word(rule for rule in own if not rule.is_token and not rule.folds)
        words = [*(word for word, _ in self._folded), *(word.lower() for word, _ in self._plain)]
        self._stems = (*STEMS, *(word for word in words if not any(stem in word for stem in STEMS)))

    def scan(self, text: str) -> list[Hit]:
        """The hits in ``text``, in order, none over another; offsets are of characters."""
        return self.scan_bytes(text.encode("latin-1", "replace"))

    def scan_bytes(self, data: bytes) -> list[Hit]:
        """The same in UTF-8, or whatever it is; no hit cuts a character of UTF-8 in two."""
        return self.settle(self._found(data), data)

    def settle(self, found: Iterable[Hit], data: bytes) -> list[Hit]:
        """``found``, in ``data``, in order and without overlaps: what touches is one, named by the first rule."""
        settled: list[Hit] = []
        for hit in sorted(found):
            start, end = _whole_characters(data, hit.start, hit.end)
            if settled and start < settled[-1].end:
                last = settled.pop()
                name = min(last.rule, hit.rule, key=lambda name: self._rank.get(name, 0))
                settled.append(Hit(last.start, max(last.end, end), name))
            else:
                settled.append(Hit(start, end, hit.rule))
        return settled

    def may_hold(self, data: bytes) -> bool:
        """Whether a scan could find anything in ``data``, or in the strings that it holds. Mostly it could not."""
        if b"\\u" in data or b"\\/" in data or any(not rule.words for rule in self._extra):
            return True
        lower = data.lower()
        for stem in self._stems:
            if stem in lower:
                return True
        if max(map(len, data.translate(_RUNS).split()), default=0) >= RUN_MIN:
            runs = _runs(data)
            if any(word in runs for word, _ in self._tokens):
                return True
        return any(word in data for rule in self._extra for word in rule.words)

    def _found(self, data: bytes) -> Iterator[Hit]:
        runs = _runs(data)
        if runs:
            for word, rules in self._tokens:
                if word in runs:
                    for rule in rules:
                        if any(True for _ in _hits(rule, word, runs, runs)):
                            yield from _hits(rule, word, data, data)
        for word, rules in self._plain:
            if word in data:
                for rule in rules:
                    yield from _hits(rule, word, data, data)
        lower = data.lower()
        for word, rules in self._folded:
            if word in lower:
                for rule in rules:
                    yield from _hits(rule, word, data, lower)
        for rule in self._extra:
            if not rule.words or any(word in data for word in rule.words):
                yield from _anywhere(rule, data)


def _runs(data: bytes) -> bytes:
    """The words of ``data`` that are long enough for a token."""
    return b" ".join([run for run in data.translate(_RUNS).split() if len(run) >= RUN_MIN])


def _by_word(rules: Iterable[Rule]) -> Sequence[tuple[bytes, tuple[Rule, ...]]]:
    found: dict[bytes, tuple[Rule, ...]] = {}
    for rule in rules:
        for word in rule.words:
            found[word] = (*found.get(word, ()), rule)
    return tuple(found.items())


def _hits(rule: Rule, word: bytes, data: bytes, where: bytes) -> Iterator[Hit]:
    """What ``rule`` finds where ``word`` stands in ``where``, which is ``data`` in some case."""
    match = rule.compiled.match
    at = where.find(word)
    while at >= 0:
        found = match(data, at)
        end = at + 1
        if found is not None:
            start, end = found.span("secret") if rule.has_group else found.span()
            start -= rule.before
            if rule.check is None or rule.check(data[start : min(end, start + CHECKED)]):
                end = _REST.match(data, end).end() if end - start >= LONG else end  # type: ignore[union-attr]
                yield Hit(start, end, rule.name)
            else:
                end = at + 1
        at = where.find(word, end)


def _anywhere(rule: Rule, data: bytes) -> Iterator[Hit]:
    for found in rule.compiled.finditer(data):
        start, end = found.span("secret") if rule.has_group else found.span()
        if start < end:
            yield Hit(start, end, rule.name)


def _whole_characters(data: bytes, start: int, end: int) -> tuple[int, int]:
    while 0 < start < len(data) and data[start] & 0xC0 == 0x80:
        start -= 1
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end += 1
    return start, end
