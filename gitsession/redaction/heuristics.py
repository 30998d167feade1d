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
_IDENTIFIER = re.compile(rb"[A-Za-z_][A-Za-z_.:/-]*\d{0,2}[)\]}|]*")
_EXPRESSION = re.compile(rb"[(\[{]|[A-Za-z_$][\w.$]{2,}[(\[{]|(?:[A-Za-z_]+\d{0,2}\.){2,}[A-Za-z_]+\d{0,2}\Z|&?\w+->")
"""The beginning of an expression in code: a call, an item, or a field of a field."""


def entropy(value: bytes) -> float:
    """Return the entropy of ``value`` in bits per byte."""
    count = len(value)
    return -sum(n / count * math.log2(n / count) for n in Counter(value).values()) if count else 0.0


def is_placeholder(value: bytes) -> bool:
    """Return whether ``value`` is not a secret but stands for one, such as ``YOUR_API_KEY`` or ``os.environ[...]``."""
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
    has_both_cases = value.upper() != value != value.lower()
    return turns >= 3 and turns >= (0.22 if has_both_cases and not _DIGIT.search(value) else 0.15) * len(value)


_TURN = re.compile(rb"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=\d)|(?<=\d)(?=[A-Za-z])")
"""A position between two kinds of characters, except after a capital letter at the start of a word."""
_DIGIT = re.compile(rb"\d")
_SIGN = re.compile(rb"[!-~](?<![A-Za-z0-9])")


def is_password(value: bytes) -> bool:
    """Return whether ``value`` looks like a password: several kinds of characters, but no name or placeholder."""
    if len(value) < 8 or is_placeholder(value) or _EXPRESSION.match(value):
        return False
    if _IDENTIFIER.fullmatch(value) and not _is_mixed(value):
        return False
    has_lower, has_upper = value.upper() != value, value.lower() != value
    kinds = has_lower + has_upper + bool(_DIGIT.search(value)) + bool(_SIGN.search(value))
    return kinds >= 2 and entropy(value) >= 2.5


def is_chosen(value: bytes) -> bool:
    """Return whether ``value`` looks like a password or a token."""
    return is_password(value) or is_random(value)


def is_argument(value: bytes) -> bool:
    """Return whether ``value``, the argument of a password option, is a password and not the name of a password."""
    is_name = is_placeholder(value) or _PASSWORD_NAME.search(value) is not None
    return is_chosen(value) or (len(value) >= 8 and not is_name)


_PASSWORD_NAME = re.compile(rb"(?i)pass|pwd|secret|user|value|token|argument|option|\(\)?\Z|\Aget_|\.get\(")


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
    """Return whether ``data`` is text, which has no zero byte in its first 8192 bytes."""
    return b"\0" not in data[:8192]


def in_utf8(data: bytes) -> bytes:
    """Return text in UTF-16 as UTF-8; return other data unchanged.

    The text must begin with a byte order mark or with ASCII characters.
    """
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace").encode()
    zeros = data[:64:2].count(0), data[1:64:2].count(0)
    if max(zeros) >= 8 and min(zeros) == 0:
        return data.decode("utf-16-be" if zeros[0] else "utf-16-le", "replace").encode()
    return data
