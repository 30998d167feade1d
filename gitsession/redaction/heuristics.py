"""Heuristics that distinguish secrets from other values that occur at the same positions in programs and documents."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import Counter

_PLACEHOLDER = re.compile(
    rb"(?i)[\W_]*(?:"
    rb"\[redacted|redacted|<|\$|%|\{|\*{3}|\.{3}|x{4}|(?:your|my|some|the|an?|insert|replace|enter|put|add)[-_ .]"
    rb"|example|sample|dummy|fake|mock|placeholder|change[-_]?(?:me|this|it)|todo|fixme|null|none|nil|true|false|undefined"
    rb"|process\.env|os\.environ|env[.(\[]|getenv|import\.meta|secrets?[.(\[]|vars?[.(\[]|config[.(\[]|self\.|this\."
    rb")"
)
_COMMON_PLACEHOLDERS = frozenset(
    b"pass pass1 password passwd passw0rd pwd secret token user username test testing admin root guest key apikey "
    b"api-key foo bar baz foobar hunter2 letmein qwerty string str bytes secretpassword mypassword mysecret".split()
)
_SAME = re.compile(rb"(.)\1*", re.DOTALL)
_HEX = re.compile(rb"[0-9a-fA-F]+")
_IDENTIFIER = re.compile(rb"[A-Za-z_][A-Za-z_.:/-]*\d{0,2}[)\]}|]*")
_EXPRESSION = re.compile(rb"[(\[{]|[A-Za-z_$][\w.$]{2,}[(\[{]|(?:[A-Za-z_]+\d{0,2}\.){2,}[A-Za-z_]+\d{0,2}\Z|&?\w+->")
"""Code instead of a value: a call, an item, or a field of a field."""


def entropy(value: bytes) -> float:
    """Return the entropy of ``value`` in bits per byte."""
    count = len(value)
    return -sum(n / count * math.log2(n / count) for n in Counter(value).values()) if count else 0.0


def is_placeholder(value: bytes) -> bool:
    """Return whether ``value`` is a placeholder (as in documentation) that the reader must replace with a secret."""
    return (
        _PLACEHOLDER.match(value) is not None
        or value.lower() in _COMMON_PLACEHOLDERS
        or _SAME.fullmatch(value) is not None
        or b"EXAMPLE" in value
        or b"example" in value
    )


def is_random(value: bytes) -> bool:
    """Return whether ``value`` looks random, like a token or a key: letters and digits are mixed."""
    return len(value) >= 16 and not is_placeholder(value) and _EXPRESSION.match(value) is None and _is_mixed(value)


def _is_mixed(value: bytes) -> bool:
    """Return whether letters and digits, and letters of both cases, alternate more often than in a name.

    In the name ``getToken2``, for example, they alternate only twice: the capital letter and the digit each begin a
    part.
    """
    if entropy(value) < 2.8:
        return False
    turns = len(_TURN.findall(value))
    has_both_cases = _LOWER.search(value) is not None and _UPPER.search(value) is not None
    if not has_both_cases:
        return turns >= 3 and turns >= 0.15 * len(value)
    return turns >= 3 and turns >= (0.15 if _DIGIT.search(value) else 0.22) * len(value)


_TURN = re.compile(rb"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=\d)|(?<=\d)(?=[A-Za-z])")
"""A position between two kinds of characters, except after a capital letter at the start of a word."""
_LOWER, _UPPER, _DIGIT = re.compile(rb"[a-z]"), re.compile(rb"[A-Z]"), re.compile(rb"\d")


def is_password(value: bytes) -> bool:
    """Return whether ``value`` looks like a chosen password: no name, no placeholder, several kinds of characters."""
    if len(value) < 8 or is_placeholder(value) or _EXPRESSION.match(value):
        return False
    if _IDENTIFIER.fullmatch(value) and not _is_mixed(value):
        return False
    kinds = sum(any(test(byte) for byte in value) for test in (_is_lower, _is_upper, _is_digit, _is_sign))
    return kinds >= 2 and entropy(value) >= 2.5


def is_argument(value: bytes) -> bool:
    """Return whether ``value``, the argument of a password option, is a password and not the name of a password."""
    return len(value) >= 8 and is_real_value(value) and _PASSWORD_NAME.search(value) is None


_PASSWORD_NAME = re.compile(rb"(?i)pass|pwd|secret|user|value|token|argument|option|\(\)?\Z|\Aget_|\.get\(")


def _is_lower(byte: int) -> bool:
    return 97 <= byte <= 122


def _is_upper(byte: int) -> bool:
    return 65 <= byte <= 90


def _is_digit(byte: int) -> bool:
    return 48 <= byte <= 57


def _is_sign(byte: int) -> bool:
    return 33 <= byte <= 126 and not (_is_lower(byte | 32) or _is_digit(byte))


def is_real_value(value: bytes) -> bool:
    """Return whether ``value`` is a secret and not a placeholder.

    The value must be at a position where only a secret can be.
    """
    return not is_placeholder(value)


def is_pair(value: bytes) -> bool:
    """Return whether ``value`` is ``name:password`` in base64."""
    try:
        data = base64.b64decode(value + b"=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    _, colon, password = data.partition(b":")
    return bool(colon) and is_text(data) and not is_placeholder(password)


def contains_private_key(value: bytes) -> bool:
    """Return whether ``value`` is a base64-encoded private key in PEM format."""
    try:
        return b"PRIVATE KEY" in base64.b64decode(value[: len(value) // 4 * 4][:400])
    except (binascii.Error, ValueError):
        return False


def is_text(data: bytes) -> bool:
    """Return whether ``data`` is text: whether its first 8192 bytes contain no zero byte."""
    return b"\0" not in data[:8192]


def in_utf8(data: bytes) -> bytes:
    """Return ``data`` in UTF-8 if it begins like UTF-16 text, with a byte order mark or ASCII characters."""
    for start, encoding in ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if data.startswith(start):
            return data.decode(encoding, "replace").encode()
    zeros = data[:64:2].count(0), data[1:64:2].count(0)
    if max(zeros) >= 8 and min(zeros) == 0:
        return data.decode("utf-16-be" if zeros[0] else "utf-16-le", "replace").encode()
    return data
