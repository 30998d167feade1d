"""Where secrets stand in bytes: literals first, which is cheap, and a pattern only where its literal is."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from gitsession.redaction import hints
from gitsession.redaction import text_decorations as marks
from gitsession.redaction.hints import Hint
from gitsession.redaction.rule import Rule
from gitsession.redaction.rules import RULES

RUN_MIN = 20
"""No token is shorter. Most words of texts and programs are, so tokens are looked for in few of them."""

LONG = 1024
"""Where patterns stop at the latest that could go on for ever: what is longer is hidden to its end."""

CHECKED = 512
"""How much of what was found is looked at for whether it is a secret."""

_ESCAPED = re.compile(rb"\\(?:u[0-9a-fA-F]{4}|[nrtbf])([^ ]*)")
"""A run behind a backslash, which begins with the letters of the escape."""
_MARKED = re.compile(rb" (?:\+\+?|-|[^ \d]{0,200}+\d{1,7}[:-][+-]?)([^ ]+)")
"""A run behind the sign of a diff or the number of a line (``marks``)."""
_SLASH = re.compile(rb"\\+/")
_LETTER = re.compile(rb"\\u00(?:2[013-589a-fA-F]|3[0-9abdfABDF]|[45][0-9a-fA-F]|6[1-9a-fA-F]|7[0-9a-eA-E])")
"""An escape that may stand for a part of a word or of a token. Control characters, quotation marks, ``<``, ``>`` and
``&`` end one."""

_REST = re.compile(rb"""[^\s"'`\\<>,;]*""")

_IN_RUN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./+=~:$@%")
_MARKS = bytes(120 if byte in _IN_RUN else 32 for byte in range(256))
_RUN = b"x" * RUN_MIN
_BACKSLASH = ord("\\")

_REMEMBERED = 50_000
_REMEMBERED_BYTES = 200
"""How many runs without a token are known again, and how long each may be: paths and ids come over and over."""

_SIGNS = b"_-./:=~"
_ENDS = re.compile(rb"[_./:=~-](?<=(.{3}))", re.DOTALL)
"""Three bytes of a run, of which the last is a sign. Most words of tokens have such."""


_Word: TypeAlias = tuple[bytes, tuple[Rule, ...]]
"""A literal, and the rules that begin there."""


class SecretSpan(NamedTuple):
    """What is to be hidden: from ``start`` to ``end``, by the rule of this name."""

    start: int
    end: int
    rule: str


class Scanner:
    """Finds secrets by ``rules`` and by those of the user, ``extra``, whose patterns may begin anywhere.

    ``allow``: what is none, whatever finds it.
    """

    def __init__(
        self, rules: Iterable[Rule] = RULES, extra: Iterable[Rule] = (), allow: frozenset[bytes] = frozenset()
    ) -> None:
        self._allow = allow
        self.rules = (*rules, *extra)
        self._extra = tuple(extra)
        self._rank = {rule.name: number for number, rule in reversed(list(enumerate(self.rules)))}
        own = [rule for rule in self.rules if rule not in self._extra]
        self._tokens = _by_word(rule for rule in own if rule.is_token)
        self._folded = _by_word(rule for rule in own if not rule.is_token and rule.folds)
        self._plain = _by_word(rule for rule in own if not rule.is_token and not rule.folds)
        self._hints = hints.of([*(word for word, _ in self._folded), *(word.lower() for word, _ in self._plain)])
        self._by_end, self._endless = _by_end(self._tokens)
        self._innocent: set[bytes] = set()
        self._own_words = {word for rule in self._extra for word in rule.words}
        self._always = any(not rule.words for rule in self._extra) or not all(map(_stays_itself, self._own_words))

    def scan(self, text: str) -> list[SecretSpan]:
        """The hits in ``text``, in order, none over another; offsets are of characters."""
        return self.scan_bytes(text.encode("latin-1", "replace"))

    def scan_bytes(self, data: bytes) -> list[SecretSpan]:
        """The same in UTF-8, or whatever it is; no hit cuts a character of UTF-8 in two."""
        found = self._found(data)
        if self._allow:
            found = (hit for hit in found if data[hit.start : hit.end] not in self._allow)
        return self.settle(found, data)

    def settle(self, found: Iterable[SecretSpan], data: bytes) -> list[SecretSpan]:
        """``found``, in ``data``, in order and without overlaps: what touches is one, named by the first rule."""
        settled: list[SecretSpan] = []
        for hit in sorted(found):
            start, end = _whole_characters(data, hit.start, hit.end)
            if settled and start < settled[-1].end:
                last = settled.pop()
                name = min(last.rule, hit.rule, key=lambda name: self._rank.get(name, 0))
                settled.append(SecretSpan(last.start, max(last.end, end), name))
            else:
                settled.append(SecretSpan(start, end, hit.rule))
        return settled

    def may_hold(self, data: bytes) -> bool:
        """Whether a scan could find anything in ``data``, or with its escapes undone. Mostly it could not."""
        return bool(self.suspects([data]))

    def mentions(self, data: bytes) -> bool:
        """Whether a word of any rule is in ``data``: for bytes in which words and values stand apart."""
        return bool(self.mentioning([data]))

    def mentioning(self, texts: Sequence[bytes]) -> set[int]:
        """The numbers of those of ``texts`` that ``mentions`` is true of, or a few more: quicker than one by one."""
        return self._among(texts, self._mentions)

    def suspects(self, texts: Sequence[bytes]) -> set[int]:
        """The numbers of those of ``texts`` that ``may_hold`` anything: quicker for many than one by one."""
        return self._among(texts, self._places)

    def _among(self, texts: Sequence[bytes], places: Callable[[bytes], Iterator[int]]) -> set[int]:
        """In which of ``texts`` is one of ``places``, which are sought in all of them at once."""
        if self._always:
            return set(range(len(texts)))
        texts = [_without_slashes(text) for text in texts]
        joined = b"\n".join(texts)
        has_escapes = b"u00" in joined
        letters = (each.start() for each in _LETTER.finditer(joined)) if has_escapes else ()
        found = _numbers(texts, itertools.chain(letters, places(joined)))
        others = sorted(_numbers(texts, marks.places(joined, has_escapes=has_escapes)) - found)
        if others:
            bare = [marks.bare(texts[number]) for number in others]
            found |= {others[each] for each in _numbers(bare, places(b"\n".join(bare)))}
        return found

    def _mentions(self, data: bytes) -> Iterator[int]:
        """Where in ``data`` a word of a rule stands."""
        lower = data.lower()
        for hint in self._hints:
            yield from _all_of(hint.stem, lower)
        for word in self._own_words:
            yield from _all_of(word, data)
        for word, _ in self._words_in(b" ".join(_runs(data)) if self._tokens else b""):
            yield from _all_of(word, data)

    def _places(self, data: bytes) -> Iterator[int]:
        """Where in ``data`` there may be something, whatever escapes it is behind. What ends a line ends all of it."""
        lower = data.lower()
        for hint in self._hints:
            yield from _hinted(hint, data, lower)
        for word in self._own_words:
            yield from _all_of(word, data)
        if self._tokens:
            yield from self._runs_with_tokens(data)

    def _runs_with_tokens(self, data: bytes) -> Iterator[int]:
        found = _runs(data, with_mark=True) - self._innocent
        runs = b" ".join(found)
        words = list(self._words_in(runs))
        runs = _escapes_apart(runs) if words else runs
        guilty: set[bytes] = set()
        for word, rules in words:
            for hit in itertools.chain.from_iterable(_hits(rule, word, runs, runs) for rule in rules):
                guilty.add(_run_at(runs, hit.start))
        for run in guilty:
            yield from _all_of(run, data)
        if not guilty:
            if len(self._innocent) > _REMEMBERED:
                self._innocent = set()
            self._innocent.update([run for run in found if len(run) <= _REMEMBERED_BYTES])

    def _words_in(self, runs: bytes) -> Iterator[_Word]:
        """The words of tokens that are in ``runs``, and their rules."""
        if not runs:
            return
        for end in set(_ENDS.findall(runs)) & self._by_end.keys():
            for each in self._by_end[end]:
                if each[0] in runs:
                    yield each
        for each in self._endless:
            if each[0] in runs:
                yield each

    def _found(self, data: bytes) -> Iterator[SecretSpan]:
        runs = b" ".join(_runs(data)) if self._tokens else b""
        for word, rules in self._words_in(runs):
            for rule in rules:
                if _finds(rule, word, runs):
                    yield from _hits(rule, word, data, data)
        for word, rules in self._plain:
            if word in data:
                for rule in rules:
                    yield from _hits(rule, word, data, data)
        lower = data.lower()
        missing = [hint.stem for hint in self._hints if hint.stem not in lower]
        for word, rules in self._folded:
            if not any(stem in word for stem in missing) and word in lower:
                for rule in rules:
                    yield from _hits(rule, word, data, lower)
        for rule in self._extra:
            if not rule.words or any(word in data for word in rule.words):
                yield from _anywhere(rule, data)


def _numbers(texts: Sequence[bytes], places: Iterable[int]) -> set[int]:
    """Return the numbers of those of ``texts`` in which one of ``places`` lies, in all of them joined by a byte."""
    places = list(places)
    if not places:
        return set()
    starts = [0, *itertools.accumulate(len(text) + 1 for text in texts)]
    return {bisect_right(starts, place) - 1 for place in places}


def _without_slashes(data: bytes) -> bytes:
    """``data`` where no slash is written as an escape: that is the one escape which may stand in a token for a byte."""
    return _SLASH.sub(b"/", data) if b"\\/" in data else data


def _hinted(hint: Hint, data: bytes, lower: bytes) -> Iterator[int]:
    stem, size = hint.stem, len(hint.stem)
    at = lower.find(stem)
    if at < 0:
        return
    match, turns = hint.compiled.match, hints.CharacterTurns(data)
    while at >= 0:
        found = match(data, at + size)
        if found is not None and (found.lastgroup is None or turns.are_three(found.end())):
            yield at
        at = lower.find(stem, at + 1)


def _all_of(word: bytes, data: bytes) -> Iterator[int]:
    at = data.find(word)
    while at >= 0:
        yield at
        at = data.find(word, at + 1)


def _stays_itself(word: bytes) -> bool:
    """Whether a word is written as it is in any string of JSON."""
    return word.isascii() and word.decode().isprintable() and not set(word) & set(b"\"'\\<>&`")


def _runs(data: bytes, *, with_mark: bool = False) -> set[bytes]:
    """The words of ``data`` that are long enough for a token. ``with_mark``: and the backslash before."""
    marks = data.translate(_MARKS)
    runs: set[bytes] = set()
    find, add = marks.find, runs.add
    at = find(_RUN)
    while at >= 0:
        end = find(b" ", at + RUN_MIN)
        if end < 0:
            end = len(data)
        add(data[at - 1 if with_mark and at and data[at - 1] == _BACKSLASH else at : end])
        at = find(_RUN, end)
    return runs


def _escapes_apart(runs: bytes) -> bytes:
    """``runs``, and each that may have the end of an escape or a line mark at its beginning without it."""
    runs = b" ".join((b"", runs, *(_ESCAPED.findall(runs) if b"\\" in runs else ())))
    return b" ".join((runs, *_MARKED.findall(runs)))


def _run_at(runs: bytes, at: int) -> bytes:
    end = runs.find(b" ", at)
    return runs[runs.rfind(b" ", 0, at) + 1 : end if end >= 0 else len(runs)]


def _finds(rule: Rule, word: bytes, runs: bytes) -> bool:
    return next(_hits(rule, word, runs, runs), None) is not None


def _by_end(tokens: Iterable[_Word]) -> tuple[dict[bytes, list[_Word]], list[_Word]]:
    """The words with three bytes that ``_ENDS`` finds, by these; and the others."""
    found: dict[bytes, list[_Word]] = {}
    others: list[_Word] = []
    for word, rules in tokens:
        end = max((at for at, byte in enumerate(word) if byte in _SIGNS and at >= 2), default=0)
        (found.setdefault(word[end - 2 : end + 1], []) if end else others).append((word, rules))
    return found, others


def _by_word(rules: Iterable[Rule]) -> Sequence[_Word]:
    found: dict[bytes, tuple[Rule, ...]] = {}
    for rule in rules:
        for word in rule.words:
            found[word] = (*found.get(word, ()), rule)
    return tuple(found.items())


def _hits(rule: Rule, word: bytes, data: bytes, where: bytes) -> Iterator[SecretSpan]:
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
                yield SecretSpan(start, end, rule.name)
            else:
                end = at + 1
        at = where.find(word, end)


def _anywhere(rule: Rule, data: bytes) -> Iterator[SecretSpan]:
    for found in rule.compiled.finditer(data):
        start, end = found.span("secret") if rule.has_group else found.span()
        if start < end:
            yield SecretSpan(start, end, rule.name)


def _whole_characters(data: bytes, start: int, end: int) -> tuple[int, int]:
    while 0 < start < len(data) and data[start] & 0xC0 == 0x80:
        start -= 1
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end += 1
    return start, end
