"""The guard of a store, which replaces secrets by placeholders before data is stored.

In JSON and CBOR, the unescaped strings are scanned, and only parts of strings are replaced. So a redacted JSON line or
CBOR payload is still valid. Strings that contain JSON are unescaped and scanned again, at most ``LEVELS_MAX`` times.
"""

from __future__ import annotations

import itertools
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from gitsession.codec import cbor
from gitsession.codec.holes import is_image
from gitsession.errors import Malformed
from gitsession.redaction.heuristics import in_utf8, is_text
from gitsession.redaction.original import placeholder
from gitsession.redaction.scan import RULES, OffsetMap, Scanner, SecretSpan, undecorated

LEVELS_MAX = 4
"""Maximum number of rounds of unescaping, for JSON strings within JSON strings."""

Row: TypeAlias = tuple[int, int, str]
"""A placeholder: its offset in the redacted payload, its length in bytes, and its rule."""

_LOOKAHEAD_BYTES = 1 << 18
"""Number of bytes that are scanned together. One scan of several payloads is much faster than one scan of each."""

_CBOR, _JSON = "cbor", ("json", "jsonl")

_CUT = re.compile(r"\A…[!-~]*|[!-~]*…(?=(?: \(\+\d+ tools?\))?\Z)")
"""The words at the ends of a text that were cut, with the mark. A subject can have a number of tools after the mark."""


class Redacted(NamedTuple):
    """A payload with placeholders in place of its secrets. ``rows``: the placeholders, in order."""

    payload: bytes
    rows: tuple[Row, ...] = ()


class Guard:
    """The redaction of payloads and texts by the rules of a store, and the search for secrets in files."""

    def __init__(self, scanner: Scanner) -> None:
        self.scanner = scanner

    @classmethod
    def load(cls, rules: str = "") -> Guard:
        """Return a guard with the built-in rules and those in the file ``rules``.

        Raises ``NotFound``, ``Refused`` or ``PluginFailed`` if the rules cannot be used.
        """
        if not rules:
            return cls(Scanner())
        from gitsession.redaction import own_rules  # few users have their own rules, so this module is loaded on demand

        own = own_rules.read(Path(rules))
        return cls(Scanner([rule for rule in RULES if rule.name not in own.off], own.rules, own.allow))

    def redact(self, form: str, payload: bytes) -> Redacted:
        """Return ``payload`` with a placeholder for each secret.

        ``form`` is the form of the entry (docs/reference/format.md). Payloads of other forms, invalid JSON, and CBOR
        that was not written by gitsession are scanned as plain text.
        """
        scanner = self.scanner
        if form == _CBOR:
            return _redact_cbor(payload, scanner) if scanner.mentioning([payload]) else Redacted(payload)
        if not scanner.may_hold(payload):
            return Redacted(payload)
        if form in _JSON:
            hits = find(payload, scanner, is_json=True)
            return _replace_hits(payload, _hits_in_literals(payload, hits)) if hits else Redacted(payload)
        return _replace_hits(payload, find(payload, scanner))

    def suspects_value(self, value: cbor.Plain) -> bool:
        """Return whether ``redact`` may find a secret in the CBOR encoding of ``value``, which is within the profile.

        To test a value is faster than to test its encoding, which must be parsed to find the strings.
        """
        return self.scanner.may_hold(_view_of(value))

    def words(self, text: str) -> str:
        """Return ``text``, which is stored outside a payload, with its secrets redacted."""
        data = text.encode("utf-8", "surrogatepass")
        return self.redact("text", data).payload.decode("utf-8", "surrogatepass")

    def excerpt(self, text: str) -> str:
        """Return a text that may be cut, such as the subject of an entry, with its secrets redacted.

        If ``…`` marks that the text was cut, the word at the mark is left out, because no rule recognizes a part of a
        secret.
        """
        return self.words(_CUT.sub("…", text))

    def in_file(self, data: bytes) -> str | None:
        """Return the first rule that finds a secret in a file; ``None`` if no rule does, or if the file is not text."""
        data = in_utf8(data)
        if not is_text(data) or not self.scanner.may_hold(data):
            return None
        return next((hit.rule for hit in find(data, self.scanner)), None)

    def suspects(self, payloads: Sequence[tuple[str, bytes]]) -> set[int]:
        """Return the indexes of the payloads in which ``redact`` may find a secret.

        ``payloads``: the form and the bytes of each payload.
        """
        texts = {number: payload for number, (form, payload) in enumerate(payloads) if form != _CBOR}
        own = [number for number, (form, _) in enumerate(payloads) if form == _CBOR]
        mentioned = self.scanner.mentioning([payloads[number][1] for number in own])
        texts |= {own[index]: _cbor_view(payloads[own[index]][1]) for index in mentioned}
        may_hold = self.lookahead(len(texts), list(texts.values()).__getitem__)
        return {number for position, number in enumerate(texts) if may_hold(position)}

    def lookahead(self, count: int, payload: Callable[[int], bytes]) -> Callable[[int], bool]:
        """Return a function that returns whether the payload with a given index may contain a secret.

        The function tests the payloads after the requested one at the same time, and keeps the results.

        Args:
            count: Number of payloads.
            payload: Function that reads a payload by its index.
        """
        tested = range(0)
        suspects: set[int] = set()

        def may_hold(number: int) -> bool:
            nonlocal tested, suspects
            if number not in tested:
                payloads: list[bytes] = []
                size = 0
                while number + len(payloads) < count and size < _LOOKAHEAD_BYTES:
                    payloads.append(payload(number + len(payloads)))
                    size += len(payloads[-1])
                tested = range(number, number + len(payloads))
                suspects = {number + index for index in self.scanner.suspects(payloads)}
            return number in suspects

        return may_hold


def find(data: bytes, scanner: Scanner, *, is_json: bool = False) -> list[SecretSpan]:
    """Return the hits in ``data``, in order. The data is scanned before and after each round of unescaping.

    ``is_json``: whether ``data`` is JSON. JSON with escapes is scanned only after the first round.
    """
    views = [data]
    maps: list[OffsetMap] = []
    inner = decoded(data)
    hits = [] if is_json and inner != data else _hits_in_view(data, scanner)
    while len(views) <= LEVELS_MAX and inner != views[-1]:
        views.append(inner)
        found = _hits_in_view(inner, scanner)
        if found:
            maps += [offset_map(view) for view in views[len(maps) : -1]]
            hits += [_map_back(maps, hit) for hit in found]
        inner = decoded(inner)
    return hits if len(views) == 1 else scanner.settle(hits, data)


def _hits_in_view(data: bytes, scanner: Scanner) -> list[SecretSpan]:
    """Return the hits in ``data``, before and after the removal of each kind of mark (see ``scan``)."""
    hits = scanner.scan_bytes(data)
    found: list[SecretSpan] = []
    maps: list[OffsetMap] = []
    for view, offsets in undecorated(data):
        maps.append(offsets)
        found += [_map_back(maps, hit) for hit in scanner.scan_bytes(view)]
    return scanner.settle([*hits, *found], data) if found else hits


def _map_back(maps: Sequence[OffsetMap], hit: SecretSpan) -> SecretSpan:
    """Return a hit in the last of several successive views as a hit in the original data."""
    start, end = hit.start, hit.end
    for offsets in reversed(maps):
        start, end = offsets.start(start), offsets.end(end)
    return SecretSpan(start, end, hit.rule)


def _replace_hits(payload: bytes, hits: Iterable[SecretSpan]) -> Redacted:
    changes = []
    for hit in hits:
        marker = placeholder(hit.rule)
        changes.append((hit.start, hit.end, Redacted(marker, ((0, len(marker), hit.rule),))))
    return _replace(payload, changes)


def _replace(payload: bytes, changes: Iterable[tuple[int, int, Redacted]]) -> Redacted:
    """Return ``payload`` with some of its bytes replaced.

    ``changes``: the replacements in order, each with the start and the end offset of the replaced bytes.
    """
    parts: list[bytes] = []
    rows: list[Row] = []
    at = size = 0
    for start, end, new in changes:
        size += start - at
        rows += [(size + offset, length, rule) for offset, length, rule in new.rows]
        parts += [payload[at:start], new.payload]
        size += len(new.payload)
        at = end
    parts.append(payload[at:])
    return Redacted(b"".join(parts), tuple(rows))


# ---- JSON


_LITERAL = re.compile(rb'"((?:[^"\\]|\\.)*+)"', re.DOTALL)


def _hits_in_literals(payload: bytes, hits: list[SecretSpan]) -> Iterator[SecretSpan]:
    """Yield the ``hits`` inside string literals, line by line. In lines that are not JSON, yield all hits."""
    spans: list[tuple[int, int]] = []
    at = 0
    for line in payload.split(b"\n"):
        end = at + len(line)
        if any(hit.start < end and hit.end > at for hit in hits):
            try:
                json.loads(line)
                spans += [(at + found.start(1), at + found.end(1)) for found in _LITERAL.finditer(line)]
            except (ValueError, RecursionError):
                spans.append((at, end))
        at = end + 1
    return _clip_hits(hits, spans)


def _clip_hits(hits: Iterable[SecretSpan], spans: list[tuple[int, int]]) -> Iterator[SecretSpan]:
    """Yield the parts of ``hits`` that are inside ``spans``, which are in order."""
    starts = [start for start, _ in spans]
    for hit in hits:
        number = max(bisect_right(starts, hit.start) - 1, 0)
        for start, end in itertools.islice(spans, number, None):
            if start >= hit.end:
                break
            if max(start, hit.start) < min(end, hit.end):
                yield SecretSpan(max(start, hit.start), min(end, hit.end), hit.rule)


# ---- CBOR

_REFERENCE = re.compile(rb"(?:\d+:)?(?:below:)?[A-Za-z0-9_-]{43}|\d{8}-[a-z2-7]{13,26}|[0-9a-f]{64}")
_REFERENCES = frozenset(
    [
        "target",
        "targets",
        "first_kept",
        "left",
        "superseded",
        "ours",
        "leaf",
        "session",
        "digest",
        "labels",
        "parent",
        "source_id",
    ]
)
"""Fields that refer to entries and sessions. A reference that looks like a token by chance must not be redacted."""


def _redact_cbor(payload: bytes, scanner: Scanner) -> Redacted:
    try:
        pieces, view, starts = _strings(payload)
    except Malformed:
        return _replace_hits(payload, find(payload, scanner))
    hits = find(view, scanner) if scanner.may_hold(view) else []
    if not hits:
        return Redacted(payload)
    spans = [(start, start + piece.end - piece.start) for start, piece in zip(starts, pieces, strict=True)]
    inside: dict[int, list[SecretSpan]] = {}
    for hit in _clip_hits(hits, spans):
        number = bisect_right(starts, hit.start) - 1
        shift = starts[number]
        inside.setdefault(number, []).append(SecretSpan(hit.start - shift, hit.end - shift, hit.rule))
    keys: set[bytes] = set()
    changes: list[tuple[int, int, Redacted]] = []
    for number, found in sorted(inside.items()):
        piece = pieces[number]
        new = _replace_hits(payload[piece.start : piece.end], found)
        if piece.is_key:
            new = _unique_key(new, keys, payload)
        head = cbor.head_of(new.payload, is_text=piece.is_text)
        changes += [(piece.head, piece.start, Redacted(head)), (piece.start, piece.end, new)]
    return _replace(payload, changes)


def _cbor_view(payload: bytes) -> bytes:
    """Return the strings of a CBOR payload in the format in which they are scanned; return other bytes unchanged."""
    try:
        return _strings(payload)[1]
    except Malformed:
        return payload


def _strings(payload: bytes) -> tuple[list[cbor.Piece], bytes, list[int]]:
    """Return the strings of a CBOR payload that can contain secrets, as pieces and as JSON. Raises ``Malformed``.

    In the JSON, each key is before its value. The last result is the offset of each string in the JSON.
    """
    pieces = [piece for piece in cbor.pieces(payload) if _may_hold(payload, piece)]
    parts: list[bytes] = []
    starts: list[int] = []
    at = 0
    for piece in pieces:
        parts += [b'"', payload[piece.start : piece.end], b'": ' if piece.is_key else b'"\n']
        starts.append(at + 1)
        at += piece.end - piece.start + (4 if piece.is_key else 3)
    return pieces, b"".join(parts), starts


def _may_hold(payload: bytes, piece: cbor.Piece) -> bool:
    content = payload[piece.start : piece.end]
    return not _is_reference(piece.path, content) if piece.is_text else _is_scanned(piece.path, content)


def _view_of(value: cbor.Plain) -> bytes:
    """Return the JSON that ``_strings`` returns for the encoding of ``value``."""
    parts: list[bytes] = []
    _add_strings(value, (), parts)
    return b"".join(parts)


def _add_strings(value: cbor.Plain, path: cbor.FieldPath, parts: list[bytes]) -> None:
    kind = type(value)
    if kind is str:
        text = value.encode()  # type: ignore[union-attr]
        if not _is_reference(path, text):
            parts += (b'"', text, b'"\n')
    elif kind is dict:
        for key, item in value.items():  # type: ignore[union-attr]
            text = key.encode()
            if not _is_reference(path, text):
                parts += (b'"', text, b'": ')
            _add_strings(item, (*path, key), parts)
    elif kind is list:
        for item in value:  # type: ignore[union-attr]
            _add_strings(item, path, parts)
    elif kind is bytes and _is_scanned(path, value):  # type: ignore[arg-type]
        parts += (b'"', value, b'"\n')  # type: ignore[arg-type]


def _is_reference(path: cbor.FieldPath, text: bytes) -> bool:
    """Return whether ``text``, at ``path``, refers to an entry or a session."""
    return len(path) >= 2 and path[1] in _REFERENCES and path[0] == "body" and bool(_REFERENCE.fullmatch(text))


def _is_scanned(path: cbor.FieldPath, content: bytes) -> bool:
    """Return whether the byte string ``content``, at ``path``, is text that may contain secrets."""
    return path != ("nonce",) and not is_image(content[:16]) and is_text(content)


def _unique_key(redacted: Redacted, keys: set[bytes], payload: bytes) -> Redacted:
    """Return a redacted key whose text is neither in ``keys`` nor in ``payload``; add the text to ``keys``.

    If necessary, a number is appended to the key, because two secrets that are keys of one map could otherwise get the
    same placeholder.
    """
    name = redacted.payload
    for number in itertools.count(2):
        if name not in keys and name not in payload:
            break
        name = redacted.payload + b"~%d" % number
    keys.add(name)
    return Redacted(name, redacted.rows)


_SHORT = {b"n": b"\n", b'"': b'"', b"t": b"\t", b"r": b"\r", b"/": b"/", b"'": b"'", b"b": b" ", b"f": b" "}
"""Characters by the letter after a backslash. Backspace and form feed count as spaces in a search for words."""

_UNICODE = re.compile(rb"\\u([0-9a-fA-F]{4})")
_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)


def decoded(data: bytes) -> bytes:
    """Return ``data`` after one round of unescaping. A character outside ASCII becomes ``?``."""
    if b"\\" not in data:
        return data
    pieces = data.split(b"\\\\")
    for number, piece in enumerate(pieces):
        if b"\\" in piece:
            for letter, character in _SHORT.items():
                piece = piece.replace(b"\\" + letter, character)
                if b"\\" not in piece:
                    break
            pieces[number] = _UNICODE.sub(_character, piece) if b"\\u" in piece else piece
    return b"\\".join(pieces)


def _character(found: re.Match[bytes]) -> bytes:
    code = int(found[1], 16)
    return bytes((code,)) if code < 128 else b"?"


def offset_map(data: bytes) -> OffsetMap:
    """Return the map of offsets in ``decoded(data)`` to offsets in ``data``."""
    offsets = OffsetMap([0], [0], [1])
    at = removed = 0
    while (found := _ESCAPE.search(data, at)) is not None:
        at = found.end()
        letter = found[2]
        if letter is None or letter in _SHORT or letter == b"\\":
            size = at - found.start()
            offsets.add(found.start() - removed, found.start(), size)
            removed += size - 1
            offsets.add(at - removed, at, 1)
    return offsets
