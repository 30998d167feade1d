"""Where secrets stand in bytes: literals first, which is cheap, and a pattern only where its literal is."""

from __future__ import annotations

import copy
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

_ESCAPED = re.compile(rb"(?:\A| )(?:[nrtbf]|u00[01][0-9a-fA-F])([^ ]+)")
_SLASH = re.compile(rb"\\+/")
_LETTER = re.compile(rb"(?i)\\u00(?:2[bdef]|[3-7][0-9a-f])")
"""A letter or sign of words that is written as an escape. Control characters and quotation marks are in none."""

_BATCH_BYTES = 4 << 20

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
        self._stems = _stems([*(word for word, _ in self._folded), *(word.lower() for word, _ in self._plain)])
        self._always = any(not rule.words for rule in self._extra)

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
        if self._always or _disguises(data):
            return True
        lower = data.lower()
        for stem in self._stems:
            if stem in lower:
                return True
        if self._tokens and max(map(len, data.translate(_RUNS).split()), default=0) >= RUN_MIN:
            runs = _runs(data)
            for word, _ in self._tokens:
                if word in runs:
                    return True
        return any(word in data for rule in self._extra for word in rule.words)

    def narrowed(self, texts: Iterable[bytes]) -> Scanner:
        """One that finds the same in ``texts``, and asks for nothing that is in none of them."""
        here: set[bytes] = set()
        for text in _batches(texts):
            if _disguises(text):
                text = _SLASH.sub(b"/", text)
                if _LETTER.search(text):
                    return self
            runs, lower = _unescaped(b" ".join(set(_runs(text).split()))), text.lower()
            missing = [stem for stem in self._stems if stem not in lower]
            for word, rules in self._tokens:
                if word not in here and word in runs and any(_finds(rule, word, runs) for rule in rules):
                    here.add(word)
            here.update([word for word, _ in self._plain if word in text])
            for word, _ in self._folded:
                if word not in here and not any(stem in word for stem in missing) and word in lower:
                    here.add(word)
        found = copy.copy(self)
        found._tokens, found._plain, found._folded = (
            tuple((word, rules) for word, rules in table if word in here)
            for table in (self._tokens, self._plain, self._folded)
        )
        found._stems = _stems([*(word for word, _ in found._folded), *(word.lower() for word, _ in found._plain)])
        return found

    def _found(self, data: bytes) -> Iterator[Hit]:
        runs = _runs(data) if self._tokens else b""
        if runs:
            for word, rules in self._tokens:
                if word in runs:
                    for rule in rules:
                        if _finds(rule, word, runs):
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


def _stems(words: list[bytes]) -> tuple[bytes, ...]:
    """What is in ``words``, each of which has one of these in it."""
    stems = [stem for stem in STEMS if any(stem in word for word in words)]
    return (*stems, *(word for word in words if not any(stem in word for stem in stems)))


def _disguises(data: bytes) -> bool:
    """Whether escapes may stand in the middle of a word: all others end one."""
    return b"\\/" in data or (b"\\u00" in data and _LETTER.search(data) is not None)


def _batches(texts: Iterable[bytes]) -> Iterator[bytes]:
    batch: list[bytes] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size > _BATCH_BYTES:
            yield b"\n".join(batch)
            batch, size = [], 0
    yield b"\n".join(batch)


def _runs(data: bytes) -> bytes:
    """The words of ``data`` that are long enough for a token."""
    return b" ".join([run for run in data.translate(_RUNS).split() if len(run) >= RUN_MIN])


def _unescaped(runs: bytes) -> bytes:
    """``runs``, and each that may have the end of an escape at its beginning without it."""
    return b" ".join([runs, *_ESCAPED.findall(runs)])


def _finds(rule: Rule, word: bytes, runs: bytes) -> bool:
    return next(_hits(rule, word, runs, runs), None) is not None


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
