"""A scanner for secrets.

Each rule has words, and every match of its pattern begins with one of them. The scanner first searches for the words,
which is fast, and tries the pattern only where it finds a word.

Programs insert marks into texts: colors, line numbers, diff signs, ``%3D``. The rules do not find a secret that has
marks inside it or before it. So the scanner also scans the text without its marks (``undecorated``), and maps each hit
back to the original bytes.

Most texts contain no secret. ``Scanner.suspects`` excludes them with a faster test. The test also uses a text without
marks, but ``bare`` records no offsets and keeps the margins of lines, which ``_escapes_apart`` handles.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from gitsession.redaction.contexts import CONTEXTS
from gitsession.redaction.rule import CharacterTurns, Hint, Rule, hints_of
from gitsession.redaction.tokens import TOKENS

RULES: tuple[Rule, ...] = (*TOKENS, *CONTEXTS)
"""The built-in rules of every store (docs/explanation/secrets.md).

A hit has the name of the first rule that finds it.
"""

RUN_MIN = 20
"""Minimum length of a run in bytes. A run is a sequence of bytes that can be part of a token.

Most words of a text are shorter than the shortest token, so only a few are searched for tokens.
"""

LONG = 1024
"""Maximum length in bytes of a match. A longer secret is still redacted to its end."""

CHECKED = 512
"""Maximum number of bytes of a hit that the rule's check examines."""

_ESCAPED = re.compile(rb"\\(?:u[0-9a-fA-F]{4}|[nrtbf])([^ ]*)")
"""A run after a backslash. The run begins with the letters of the escape. The group is the rest of the run."""
_MARKED = re.compile(rb" (?:\+\+?|-|[^ \d]{0,200}+\d{1,7}[:-][+-]?)([^ ]+)")
"""A run that begins with the sign of a diff or with a line number. The group is the rest of the run."""
_SLASH = re.compile(rb"\\+/")
_LETTER = re.compile(rb"\\u00(?:2[013-589a-fA-F]|3[0-9abdfABDF]|[45][0-9a-fA-F]|6[1-9a-fA-F]|7[0-9a-eA-E])")
"""The escape of a character that a token can contain.

Control characters, quotation marks, ``<``, ``>`` and ``&`` are not included, because these end a token.
"""

_REST = re.compile(rb"""[^\s"'`\\<>,;]*""")

_IN_RUN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./+=~:$@%")
_MARKS = bytes(120 if byte in _IN_RUN else 32 for byte in range(256))
_RUN = b"x" * RUN_MIN
_BACKSLASH = ord("\\")

_REMEMBERED = 50_000
_REMEMBERED_BYTES = 200
"""Maximum number of cached runs without a token, and maximum length of such a run in bytes.

Runs are cached because paths and ids occur repeatedly.
"""

_TIME = (b"\x1b\0\0\1", b"\1")
"""The first bytes of a time in CBOR, and what replaces them in the fast test.

They look like marks, although no program writes them as marks, and they are in every payload of gitsession.
"""

_SIGNS = b"_-./:=~"
_ENDS = re.compile(rb"[_./:=~-](?<=(.{3}))", re.DOTALL)
"""A sign and the two bytes before it. The words of most token rules contain a sign."""


_Word: TypeAlias = tuple[bytes, tuple[Rule, ...]]
"""A literal, and the rules whose patterns begin with it."""


class SecretSpan(NamedTuple):
    """The bytes to redact, from offset ``start`` to ``end``, and the name of the rule that found the secret."""

    start: int
    end: int
    rule: str


class Scanner:
    """A scanner with the built-in rules ``rules`` and the user's rules ``extra``, which can match at any offset.

    ``allow``: texts that are never secrets, whichever rule finds them.
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
        self._hints = hints_of([*(word for word, _ in self._folded), *(word.lower() for word, _ in self._plain)])
        self._stems = [hint.stem for hint in self._hints]
        self._by_end, self._endless = _by_end(self._tokens)
        self._innocent: set[bytes] = set()
        self._own_words = {word for rule in self._extra for word in rule.words}
        self._always = any(not rule.words for rule in self._extra) or not all(map(_stays_itself, self._own_words))

    def scan_bytes(self, data: bytes) -> list[SecretSpan]:
        """Return the hits in ``data``, in order and without overlaps. No hit splits a UTF-8 character.

        ``data`` is text in UTF-8 or in any other encoding.
        """
        found = self._found(data)
        if self._allow:
            found = (hit for hit in found if data[hit.start : hit.end] not in self._allow)
        return self.settle(found, data)

    def settle(self, found: Iterable[SecretSpan], data: bytes) -> list[SecretSpan]:
        """Return the hits ``found`` in ``data``, in order. Overlapping hits are merged and named by the first rule."""
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
        """Return whether ``data`` may contain a secret, with or without escapes. Most data cannot."""
        return bool(self.suspects([data]))

    def suspects(self, texts: Sequence[bytes]) -> set[int]:
        """Return the indexes of the ``texts`` that may contain a secret. All texts are searched at once."""
        return self._among(texts, self._places)

    def mentioning(self, texts: Sequence[bytes]) -> set[int]:
        """Return the indexes of the ``texts`` that may contain a word of a rule.

        This test includes texts in which a secret is not next to its name, such as CBOR.
        """
        return self._among(texts, self._mentions)

    def _among(self, texts: Sequence[bytes], places: Callable[[bytes], Iterator[int]]) -> set[int]:
        """Return the indexes of the ``texts`` in which ``places`` finds something, with or without their marks.

        ``places``: a function that yields the offsets in a text at which it finds something. Texts with escaped letters
        are always included.
        """
        if self._always:
            return set(range(len(texts)))
        joined = b"\n".join(texts)
        if b"\\/" in joined or _TIME[0] in joined:
            # Of the bytes of a token, only the slash has a short escape in JSON.
            texts = [_SLASH.sub(b"/", text).replace(*_TIME) for text in texts]
            joined = b"\n".join(texts)
        has_escapes = b"u00" in joined
        letters = (each.start() for each in _LETTER.finditer(joined)) if has_escapes else ()
        found = _numbers(texts, itertools.chain(letters, places(joined)))
        others = sorted(_numbers(texts, decorations(joined, has_escapes=has_escapes)) - found)
        if others:
            plain = [bare(texts[number]) for number in others]
            found |= {others[each] for each in _numbers(plain, places(b"\n".join(plain)))}
        return found

    def _mentions(self, data: bytes) -> Iterator[int]:
        """Yield the offsets in ``data`` at which a keyword of a rule occurs."""
        lower = data.lower()
        for stem in self._stems:
            if stem in lower:
                yield from _all_of(stem, lower)
        for word in self._own_words:
            yield from _all_of(word, data)
        for word, _ in self._words_in(b" ".join(_runs(data)) if self._tokens else b""):
            yield from _all_of(word, data)

    def _places(self, data: bytes) -> Iterator[int]:
        """Yield offsets in ``data`` of names, words and runs that may belong to a secret."""
        lower = data.lower()
        for hint in self._hints:
            yield from _hinted(hint, data, lower)
        for word in self._own_words:
            yield from _all_of(word, data)
        if self._tokens:
            yield from self._runs_with_tokens(data)

    def _runs_with_tokens(self, data: bytes) -> Iterator[int]:
        """Yield the offsets of the runs in ``data`` in which a token rule finds a secret."""
        found = _runs(data, with_mark=True) - self._innocent
        runs = b" ".join(found)
        words = list(self._words_in(runs))
        runs = _escapes_apart(runs) if words else runs
        guilty = {
            _run_at(runs, hit.start) for word, rules in words for rule in rules for hit in _hits(rule, word, runs, runs)
        }
        for run in guilty:
            yield from _all_of(run, data)
        if not guilty:
            if len(self._innocent) > _REMEMBERED:
                self._innocent = set()
            self._innocent.update([run for run in found if len(run) <= _REMEMBERED_BYTES])

    def _words_in(self, runs: bytes) -> Iterator[_Word]:
        """Yield the words of token rules that occur in ``runs``, with their rules."""
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
                if any(_hits(rule, word, runs, runs)):
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
    """Return the indexes of the ``texts`` that contain one of ``places``.

    ``places`` are offsets in the concatenation of the texts, with one separator byte between them.
    """
    places = list(places)
    if not places:
        return set()
    starts = [0, *itertools.accumulate(len(text) + 1 for text in texts)]
    return {bisect_right(starts, place) - 1 for place in places}


def _hinted(hint: Hint, data: bytes, lower: bytes) -> Iterator[int]:
    """Yield the offsets in ``data`` at which ``hint`` matches. ``lower``: ``data`` in lower case."""
    stem, size = hint.stem, len(hint.stem)
    at = lower.find(stem)
    if at < 0:
        return
    match, turns = hint.compiled.match, CharacterTurns(data)
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
    """Return whether no program escapes a character of the word in a JSON string."""
    return word.isascii() and word.decode().isprintable() and not set(word) & set(b"\"'\\<>&`")


def _runs(data: bytes, *, with_mark: bool = False) -> set[bytes]:
    """Return the runs in ``data`` that are long enough for a token.

    ``with_mark``: whether to include the backslash before a run.
    """
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
    """Return ``runs``, with a shortened copy of each run that may begin with a part of an escape or a mark.

    The copy lacks this part.
    """
    runs = b" ".join((b"", runs, *(_ESCAPED.findall(runs) if b"\\" in runs else ())))
    return b" ".join((runs, *_MARKED.findall(runs)))


def _run_at(runs: bytes, at: int) -> bytes:
    end = runs.find(b" ", at)
    return runs[runs.rfind(b" ", 0, at) + 1 : end if end >= 0 else len(runs)]


def _by_end(tokens: Iterable[_Word]) -> tuple[dict[bytes, list[_Word]], list[_Word]]:
    """Return the words that contain a match of ``_ENDS``, indexed by their last match, and the other words."""
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
    """Yield the hits of ``rule`` in ``data`` that begin at ``word``. ``where``: ``data``, or ``data`` in lower case."""
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
        if start < end and (rule.check is None or rule.check(data[start:end])):
            yield SecretSpan(start, end, rule.name)


def _whole_characters(data: bytes, start: int, end: int) -> tuple[int, int]:
    while 0 < start < len(data) and data[start] & 0xC0 == 0x80:
        start -= 1
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end += 1
    return start, end


# ---- marks that programs insert into a text

_BACKSLASHES = rb"(?<=\\)(?<!\\\\)\\*+"
"""The backslashes after the first one of a sequence. A match begins at the first one, so each is read only once."""
_ESC = rb"(?:(?<=\x1b)|" + _BACKSLASHES + rb"(?:u001[bB]|x1[bB]|0?33|e)|(?<=\^)\[)"
"""The part of an escape character after its first byte, also in the notations of languages and of ``cat -v``."""
_BELL = rb"(?:\x07|\\++u0007|(?:\x1b|\\++u001[bB])\\+)"
_SEQUENCE = re.compile(
    rb"[\x00\x1b\\^E\[](?:(?<=\x00)|"
    + (_ESC + rb"(?:\[[0-9;:?<=>]*+[ -/]*+[@-~]|\][^\x07\x1b\\]{0,2000}+" + _BELL + rb"|[()][0-9A-Z])|")
    + (_BACKSLASHES + rb"u0000|(?:(?<=E)SC\[|(?<=\[))(?:\d{1,3}[;:]?){1,20}+m)")
)
"""Terminal sequences (colors, erased lines, links), and the zero bytes of UTF-16.

Color sequences without their first byte also match. The search is fast, because every match begins with one of a few
bytes.
"""

_WRITTEN = re.compile(rb"\[(?:\d{1,3}[\d;:]{0,60}|(?<=[bB3eC\[]\[))[mK]")
"""A sequence that sets a color or erases a line, without its first byte.

A sequence without a number must follow a notation of that byte, because ``[m`` begins many words.
"""

_NUMBER = (
    rb"[\w./@+-]{1,200}:\d{1,7}:|[\w./@+-]{1,200}-\d{1,7}-"
    rb"|\d{1,7}(?:[ \t]*+(?:\xe2\x86\x92|\xe2\x94\x82|\?|\|)|[:\t-]|(?= ))"
)
"""A line number, also with a file name. ``?`` stands for an escaped arrow or bar (see ``guard.decoded``)."""
_SIGN = rb"[+-](?![+-])|\+\+(?!\+)|>|\#|//|\*|\||\xe2\x94\x82"
"""The sign of a diff, a comment or a quotation. ``++`` is an added line that begins with ``+``.

``--`` is not included, because options begin with it.
"""
_MARGIN = re.compile(rb'[\n"]((?:[ \t]*+(?:' + _NUMBER + rb"|" + _SIGN + rb")){1,6}+[ \t]?)")
"""The margin of a line, or of the first line in a string."""

_PERCENT = re.compile(rb"%([0-9a-fA-F]{2})")

_WRITTEN_BYTE = re.compile(rb"u00(?:1[bB]|00[ -~]\\++u0000)")
_DECORATIONS = (
    (b"\x1b", re.compile(rb"\x1b")),
    (b"\0", re.compile(rb"\0")),
    (b"[", _WRITTEN),
    (b"%", _PERCENT),
)
"""Patterns of marks that ``bare`` removes, each with its first byte, for which ``decorations`` searches first."""


@dataclass(slots=True)
class OffsetMap:
    """A map of offsets in a view to offsets in the original.

    The view consists of runs of bytes. The run at ``starts[i]`` begins at ``places[i]`` in the original, where each of
    its bytes is ``sizes[i]`` bytes long.
    """

    starts: list[int]
    places: list[int]
    sizes: list[int]

    def add(self, start: int, place: int, size: int) -> None:
        """Add a run after the others."""
        self.starts.append(start)
        self.places.append(place)
        self.sizes.append(size)

    def start(self, at: int) -> int:
        """Return the original offset of the byte at offset ``at`` of the view. The end of the view maps to the end."""
        run = bisect_right(self.starts, at) - 1
        return self.places[run] + (at - self.starts[run]) * self.sizes[run]

    def end(self, at: int) -> int:
        """Return the original offset at which the byte before ``at`` ends, without any marks after this byte."""
        run = bisect_right(self.starts, at - 1) - 1
        return self.places[run] + (at - self.starts[run]) * self.sizes[run]


def undecorated(data: bytes) -> list[tuple[bytes, OffsetMap]]:
    """Return successive views of ``data``, each with the map of its offsets to the view before it.

    Each view has fewer marks than the one before, and the last has none. If ``data`` has no marks, the list is empty.
    """
    views: list[tuple[bytes, OffsetMap]] = []
    for spans in (_sequences, _margins, _percents):
        found = list(spans(data))
        if found:
            views.append(_undecorated(data, found))
            data = views[-1][0]
    return views


def bare(data: bytes) -> bytes:
    """Return ``data`` without terminal sequences and with ``%3D`` as ``=``. Other marks and escapes are kept."""
    return _PERCENT.sub(_meant, _SEQUENCE.sub(b"", data))


def decorations(data: bytes, *, has_escapes: bool) -> Iterator[int]:
    """Yield the offsets in ``data`` of marks that ``bare`` may change.

    ``has_escapes``: whether ``data`` contains ``u00``.
    """
    if has_escapes:
        yield from (found.start() for found in _WRITTEN_BYTE.finditer(data))
    for sign, pattern in _DECORATIONS:
        if sign in data:
            yield from (found.start() for found in pattern.finditer(data))


def _meant(found: re.Match[bytes]) -> bytes:
    return bytes((int(found[1], 16),))


def _sequences(data: bytes) -> Iterable[tuple[int, int, bytes]]:
    if b"\0" in data or b"\x1b" in data or b"u00" in data or _WRITTEN.search(data):
        return ((*found.span(), b"") for found in _SEQUENCE.finditer(data))
    return ()


def _margins(data: bytes) -> Iterable[tuple[int, int, bytes]]:
    found = _MARGIN.match(b"\n" + data[:_FIRST_MARGIN])
    if found is not None:
        yield 0, found.end(1) - 1, b""
    for found in _MARGIN.finditer(data):
        yield (*found.span(1), b"")


_FIRST_MARGIN = 2000
"""Maximum length in bytes of the margin of a text's first line."""


def _percents(data: bytes) -> Iterable[tuple[int, int, bytes]]:
    if b"%" in data:
        return ((*found.span(), _meant(found)) for found in _PERCENT.finditer(data))
    return ()


def _undecorated(data: bytes, spans: Iterable[tuple[int, int, bytes]]) -> tuple[bytes, OffsetMap]:
    """Return ``data`` with each of ``spans`` removed or replaced, and the map of the result's offsets.

    ``spans``: the start and the end offset of each mark, and the byte that the mark encodes, if any.
    """
    offsets = OffsetMap([], [], [])
    parts: list[bytes] = []
    size = at = 0
    for start, end, meant in (*spans, (len(data), len(data), b"")):
        for place, part, part_size in ((at, data[at:start], 1), (start, meant, end - start)):
            if part:
                offsets.add(size, place, part_size)
                parts.append(part)
                size += len(part)
        at = end
    return b"".join(parts), offsets
