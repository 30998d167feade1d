"""Our CBOR profile: the few forms of RFC 8949 that we write, and the only ones we read.

Text keys in insertion order (the order of arguments is data), definite lengths, shortest integers in
[-2**63, 2**64), 64-bit floats, byte and text strings, arrays, true, false, null. No NaN or infinity, no tags, no
duplicate keys, no trailing bytes, at most ``DEPTH_MAX`` levels. The only module that imports cbor2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeAlias

import cbor2

from gitsession.errors import Malformed

DEPTH_MAX = 64
INT_MIN, INT_MAX = -(2**63), 2**64 - 1

Plain: TypeAlias = bool | int | float | str | bytes | list["Plain"] | dict[str, "Plain"] | None


def encode(value: Plain) -> bytes:
    """The one encoding of ``value``. Raises ``Malformed``, with the way to the field, outside the profile."""
    _check(value, "", 0)
    return cbor2.dumps(value)


def decode(data: bytes) -> Plain:
    """The value of which ``data`` is the encoding. Raises ``Malformed`` for any other bytes.

    Types are checked, then the value is encoded again and compared: what is not the one encoding of a value
    (wide integers, short floats, indefinite lengths, duplicate keys, trailing bytes) cannot pass.
    """
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
        raise Malformed(f"not CBOR of our profile: {error}") from None
    _check(value, "", 0)
    if cbor2.dumps(value) != data:
        raise Malformed("not the one encoding of its value (wide integer, short float or trailing bytes)")
    return value


def _check(value: Plain, where: str, depth: int) -> None:
    if depth > DEPTH_MAX:
        raise Malformed(f"deeper than {DEPTH_MAX} levels", where=where)
    kind = type(value)
    if kind is str:
        try:
            value.encode()  # type: ignore[union-attr]
        except UnicodeEncodeError:
            raise Malformed("text with a lone surrogate", where=where) from None
    elif kind is int:
        if not INT_MIN <= value <= INT_MAX:  # type: ignore[operator]
            raise Malformed("integer outside [-2**63, 2**64)", where=where)
    elif kind is float:
        if not math.isfinite(value):  # type: ignore[arg-type]
            raise Malformed("NaN or infinity", where=where)
    elif kind is dict:
        for key, item in value.items():  # type: ignore[union-attr]
            if type(key) is not str:
                raise Malformed(f"expected a text key, found {type(key).__name__}", where=where)
            _check(key, f"{where}.{key[:40]!r}", depth)
            _check(item, f"{where}.{key[:40]}" if where else key[:40], depth + 1)
    elif kind is list:
        for index, item in enumerate(value):  # type: ignore[arg-type]
            _check(item, f"{where}[{index}]", depth + 1)
    elif value is not None and kind is not bool and kind is not bytes:
        raise Malformed(f"{kind.__name__} is not in the profile", where=where)


def _refuse_tag(*_: Any) -> NoReturn:
    raise ValueError("a tag")


# cbor2 runs its own decoders for the tags it knows before it asks ``tag_hook`` (a regular expression for tag 35, shared
# references that print as gigabytes for 28 and 29), so every registered number it might know is refused by name.
_NO_TAGS: Mapping[int, Callable[..., Any]] = dict.fromkeys([*range(300), 1004, 43000, 55799], _refuse_tag)
