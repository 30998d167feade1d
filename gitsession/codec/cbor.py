"""gitsession's CBOR profile: a subset of RFC 8949 in which every value has exactly one encoding.

The profile allows maps with text keys in insertion order (the order of arguments is significant), definite lengths,
shortest integers in [-2**63, 2**64), 64-bit floats, byte and text strings, arrays, true, false and null. The profile
does not allow NaN, infinity, tags, duplicate keys or trailing bytes. Arrays and maps are nested at most ``DEPTH_MAX``
levels deep. Only this module imports cbor2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn, TypeAlias

import cbor2

from gitsession.errors import Malformed

DEPTH_MAX = 64
INT_MIN, INT_MAX = -(2**63), 2**64 - 1

Plain: TypeAlias = bool | int | float | str | bytes | list["Plain"] | dict[str, "Plain"] | None
FieldPath: TypeAlias = tuple[str, ...]
"""The path to a value: the keys from the root."""

_DEPTH_LEFT = 8
"""Number of levels, out of ``DEPTH_MAX``, that are reserved for the containers around another program's value."""

_BYTES, _TEXT, _LIST, _MAP = 2, 3, 4, 5
_TOO_DEEP = f"arrays and maps deeper than {DEPTH_MAX} levels"


def encode(value: Plain) -> bytes:
    """Encode ``value``. Raises ``Malformed``, with the path of the field, if the value is outside the profile."""
    if not _fits(value):
        _check_profile(value)
    try:
        return cbor2.dumps(value)
    except UnicodeEncodeError:  # a lone surrogate, which ``_fits`` does not search for
        _check_profile(value)
        raise


def encode_unchecked(value: Plain) -> bytes:
    """Encode a value without checking it. The caller guarantees that the value is within the profile."""
    return cbor2.dumps(value)


def decode(data: bytes) -> Plain:
    """Decode ``data`` and return the value. Raises ``Malformed`` if ``data`` is not the encoding of a value.

    The types of the value are checked. Then the value is encoded again and compared with ``data``. So any other
    encoding of a value (wide integers, short floats, indefinite lengths, duplicate keys, trailing bytes) is rejected.
    """
    value = decode_unchecked(data)
    if not _fits(value):
        _check_profile(value)
    if cbor2.dumps(value) != data:
        raise Malformed("not the canonical encoding of its value (wide integer, short float or trailing bytes)")
    return value


def decode_unchecked(data: bytes) -> Plain:
    """Decode ``data``, whose digest was verified. The caller checks the types of the value. Raises ``Malformed``."""
    try:
        value: Plain = cbor2.loads(
            data,
            max_depth=DEPTH_MAX + 1,
            allow_indefinite=False,
            allow_duplicate_keys=False,
            strict_hashable_types=True,
            semantic_decoders=_NO_TAGS,
            tag_hook=_refuse_tag,
        )
    except (cbor2.CBORDecodeError, ValueError, TypeError, OverflowError, MemoryError, RecursionError) as error:
        raise Malformed(f"invalid CBOR: {error}") from None
    return value


def strings(data: bytes) -> list[tuple[FieldPath, bool, int, int]]:
    """Return the strings in ``data``, the output of ``encode``, as tuples ``(path, is_text, start, end)``.

    The strings are sorted by offset. Keys are not included. The path to an item of a list is the path to the list.
    """
    found: list[tuple[FieldPath, bool, int, int]] = []
    _walk(data, 0, (), found)
    return found


def _walk(data: bytes, at: int, path: FieldPath, found: list[tuple[FieldPath, bool, int, int]]) -> int:
    """Append the strings of the item at ``at`` to ``found``; return the offset after the item."""
    major, count, at = _head(data, at)
    if major in (_BYTES, _TEXT):
        found.append((path, major == _TEXT, at, at + count))
        return at + count
    if major == _LIST:
        for _ in range(count):
            at = _walk(data, at, path, found)
    elif major == _MAP:
        for _ in range(count):
            _, length, start = _head(data, at)
            at = start + length
            at = _walk(data, at, (*path, data[start:at].decode()), found)
    return at


class Piece(NamedTuple):
    """A string in an encoded value. Its head begins at offset ``head``; its content is from ``start`` to ``end``.

    ``path``: the path to the string. For a key, it is the path to the map that contains the key.
    """

    path: FieldPath
    is_text: bool
    is_key: bool
    head: int
    start: int
    end: int


def pieces(data: bytes) -> list[Piece]:
    """Return every string in ``data``, the output of ``encode``, in order, including keys. Raises ``Malformed``."""
    found: list[Piece] = []
    try:
        end = _walk_all(data, 0, (), found)
    except (IndexError, UnicodeDecodeError, RecursionError):
        end = -1
    if end != len(data):
        raise Malformed("invalid CBOR")
    return found


def _walk_all(data: bytes, at: int, path: FieldPath, found: list[Piece]) -> int:
    """Append the strings and keys of the item at ``at`` to ``found``; return the offset after the item."""
    head = at
    major, count, at = _head(data, at)
    if major in (_BYTES, _TEXT):
        found.append(Piece(path, major == _TEXT, False, head, at, at + count))
        return at + count
    if major == _LIST:
        for _ in range(count):
            at = _walk_all(data, at, path, found)
    elif major == _MAP:
        for _ in range(count):
            _, length, start = _head(data, at)
            found.append(Piece(path, True, True, at, start, start + length))
            at = start + length
            at = _walk_all(data, at, (*path, data[start:at].decode()), found)
    return at


def head_of(content: bytes, *, is_text: bool) -> bytes:
    """Return the head of a string with the given content."""
    count = len(content)
    major = (_TEXT if is_text else _BYTES) << 5
    if count < 24:
        return bytes((major | count,))
    size = next(size for size in (1, 2, 4, 8) if count < 1 << 8 * size)
    return bytes((major | 23 + size.bit_length(),)) + count.to_bytes(size, "big")


def _head(data: bytes, at: int) -> tuple[int, int, int]:
    """Decode the head at ``at``; return its major type, its argument, and the offset after the head."""
    major, short = data[at] >> 5, data[at] & 31
    if short < 24:
        return major, short, at + 1
    end = at + 1 + (1 << (short - 24))
    return major, int.from_bytes(data[at + 1 : end], "big"), end


def end_of(data: bytes, at: int) -> int | None:
    """Return the end offset of the item at ``at``; ``None`` if it is incomplete or invalid. Only heads are decoded."""
    wanted = 1
    while wanted:
        if at >= len(data) or data[at] & 31 > 27 or data[at] >> 5 == 6:
            return None
        major, count, at = _head(data, at)
        wanted -= 1
        if major in (_BYTES, _TEXT):
            at += count
        elif major in (_LIST, _MAP):
            wanted += count * (major - 3)
        if at + wanted > len(data):
            return None
    return at


class _Outside(Exception):
    """A value outside the profile. ``path``: the path to the value, innermost key first."""

    def __init__(self, what: str, *path: str) -> None:
        super().__init__(what)
        self.path = list(path)


_LEAVES = frozenset({str, bytes, bool, type(None)})
"""Types of values that need no check. Text that was decoded from UTF-8 has no lone surrogates."""


def _fits(value: Plain, depth: int = 0) -> bool:
    """Return whether a value without lone surrogates is in the profile. If not, ``_check`` finds the reason."""
    kind = type(value)
    if depth == DEPTH_MAX and kind in (dict, list):
        return False
    if kind is dict:
        for key, item in value.items():  # type: ignore[union-attr]
            if type(key) is not str:
                return False
            kind = type(item)
            if kind in _LEAVES or (kind is int and INT_MIN <= item <= INT_MAX):  # type: ignore[operator]
                continue  # the usual case, without a function call
            if not _fits(item, depth + 1):
                return False
        return True
    if kind is list:
        return all(type(item) in _LEAVES or _fits(item, depth + 1) for item in value)  # type: ignore[union-attr]
    if kind is int:
        return INT_MIN <= value <= INT_MAX  # type: ignore[operator]
    if kind is float:
        return math.isfinite(value)  # type: ignore[arg-type]
    return kind in _LEAVES


def _check_profile(value: Plain) -> None:
    try:
        _check(value, 0)
    except _Outside as outside:
        where = "".join(reversed(outside.path)).removeprefix(".")
        raise Malformed(str(outside), where=where) from None


def _check(value: Plain, depth: int) -> None:
    kind = type(value)
    if kind is str:
        _check_text(value)  # type: ignore[arg-type]
    elif kind is int:
        if not INT_MIN <= value <= INT_MAX:  # type: ignore[operator]
            raise _Outside("integer outside [-2**63, 2**64)")
    elif kind is float:
        if not math.isfinite(value):  # type: ignore[arg-type]
            raise _Outside("NaN or infinity")
    elif kind is dict:
        if depth == DEPTH_MAX:
            raise _Outside(_TOO_DEEP)
        for key, item in value.items():  # type: ignore[union-attr]
            if type(key) is not str:
                raise _Outside(f"expected a text key, found {type(key).__name__}")
            if key.isascii() and type(item) is str and item.isascii():
                continue  # the usual case, without a function call
            try:
                _check_text(key)
                _check(item, depth + 1)
            except _Outside as outside:
                outside.path.append(f".{key[:40]}" if key.isprintable() else f".{key[:40]!r}")
                raise
    elif kind is list:
        if depth == DEPTH_MAX:
            raise _Outside(_TOO_DEEP)
        for index, item in enumerate(value):  # type: ignore[arg-type]
            try:
                _check(item, depth + 1)
            except _Outside as outside:
                outside.path.append(f"[{index}]")
                raise
    elif value is not None and kind is not bool and kind is not bytes:
        raise _Outside(f"unsupported type {kind.__name__}")


def _check_text(text: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _Outside("text with a lone surrogate") from None


def _refuse_tag(*_: Any) -> NoReturn:
    raise ValueError("tags are not allowed")


# cbor2 runs its own decoders for known tags before it calls ``tag_hook``. For tag 35, it compiles a regular expression.
# For tags 28 and 29, it creates shared references, so a few bytes can become gigabytes of printed text. So every
# registered tag that cbor2 may handle is rejected here.
_NO_TAGS: Mapping[int, Callable[..., Any]] = dict.fromkeys([*range(300), 1004, 43000, 55799], _refuse_tag)


# ---- values of other programs: JSON allows values outside the profile


def valid_text(text: str) -> str:
    """Return ``text`` as valid Unicode: surrogate pairs are joined, and lone surrogates become U+FFFD."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def to_profile(value: Any, *, depth: int = DEPTH_MAX - _DEPTH_LEFT) -> Any:
    """Convert ``value`` to the profile.

    Strings are converted by ``valid_text``. Integers out of range become strings. NaN, infinity, and arrays and maps
    that are nested too deep become ``None``.
    """
    if isinstance(value, str):
        return valid_text(value)
    if isinstance(value, int) and not INT_MIN <= value <= INT_MAX:
        return f"{value:#x}"
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        inner = depth - 1
        return {valid_text(str(key)): to_profile(item, depth=inner) for key, item in value.items()} if depth else None
    if isinstance(value, list | tuple):
        return [to_profile(item, depth=depth - 1) for item in value] if depth else None
    return value
