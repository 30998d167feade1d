"""Functions that read typed fields and times from agents' records, and functions that headlines use.

The fields that remain in a ``Fields`` object become the ``extra`` of the entry. So an unknown field, or a field whose
value has an unexpected type, is kept and does not cause an error.

Two parts of this module are FROZEN under view 1 (see ``pi.headline``). The parsing of times is frozen because the time
of an entry affects the object id of the entry. The functions that the headlines of several agents share are frozen
because the headlines are frozen.

Times are Unix times in milliseconds. ``datetime.fromisoformat`` is not used, because newer Python releases accept more
formats than older ones. The start time of a session is part of the session's name, so the parsing of times must not
depend on the Python release.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any, TypeVar

from gitsession.formats.base.jsonl import LineFailure
from gitsession.model.headline import Headline
from gitsession.pattern import pattern

T = TypeVar("T")


class Fields:
    """The fields of one JSON object. ``left``: the fields that have not been removed.

    ``text``, ``boolean``, ``mapping``, ``integer`` and ``texts`` remove a field of their type and return its value. If
    the field is absent, is null, or has another type, they return ``None`` or the default. A field of another type is
    not removed.
    """

    __slots__ = ("left",)

    def __init__(self, value: Mapping[str, Any]) -> None:
        self.left = dict(value)

    def take(self, name: str) -> Any:
        """Remove a field and return its value, of any type."""
        return self.left.pop(name, None)

    def drop(self, *names: str) -> None:
        """Remove fields whose values are stored elsewhere, such as the id, the parent, and the type."""
        for name in names:
            self.left.pop(name, None)

    def text(self, name: str) -> str | None:
        return self._of(str, name)

    def boolean(self, name: str, default: bool) -> bool:
        found = self._of(bool, name)
        return default if found is None else found

    def mapping(self, name: str) -> dict[str, Any] | None:
        return self._of(dict, name)

    def integer(self, name: str) -> int | None:
        """Remove an integer field and return its value. A number such as 61e3 is an integer too."""
        found = self.left.get(name)
        if type(found) is float and found.is_integer():
            self.left[name] = int(found)
        return self._of(int, name)

    def texts(self, name: str) -> tuple[str, ...] | None:
        """Remove a list of strings and return its items. If an item is not a string, return ``None``."""
        found = self.left.get(name)
        if isinstance(found, list) and not all(isinstance(item, str) for item in found):
            return None
        values = self._of(list, name)
        return None if values is None else tuple(values)

    def _of(self, kind: type[T], name: str) -> T | None:
        found = self.left.get(name)
        if type(found) is kind or found is None:
            self.left.pop(name, None)
            return found
        return None


INT_MAX = 2**53
"""The limit below which JavaScript represents every integer exactly. No agent writes a time at or above this limit."""


def to_ms(value: object) -> int | None:
    """Return the Unix time in ms of an integer or an ISO 8601 string, or ``None`` if ``value`` is neither.

    A string without a time zone is in UTC.
    """
    if type(value) is int:
        return value if 0 <= value < INT_MAX else None
    if not isinstance(value, str):
        return None
    found = _ISO.fullmatch(value)
    if found is None:
        return None
    year, month, day, hour, minute, second, fraction, sign, off_hour, off_minute = found.groups()
    try:
        days = date(int(year), int(month), int(day)).toordinal() - _EPOCH
    except ValueError:
        return None
    seconds = ((days * 24 + int(hour)) * 60 + int(minute)) * 60 + int(second or 0)
    if sign:
        away = (int(off_hour) * 60 + int(off_minute)) * 60
        seconds += away if sign == "-" else -away
    return seconds * 1000 + int(fraction[:3].ljust(3, "0") if fraction else 0)


def to_iso(at_ms: int) -> str:
    """Return a Unix time in ms as an ISO 8601 string, in UTC with milliseconds.

    If the year does not have four digits, the nearest time with a four-digit year is returned.
    """
    seconds, ms = divmod(min(max(at_ms, 0), _LAST), 1000)
    days, seconds = divmod(seconds, 86_400)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{ms:03}Z"
    return f"{date.fromordinal(_EPOCH + days).isoformat()}T{clock}"


_EPOCH = date(1970, 1, 1).toordinal()
_LAST = (date.max.toordinal() - _EPOCH + 1) * 86_400_000 - 1
_ISO = pattern(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[T ]([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9])(?:\.([0-9]+))?)?"
    r"(?:Z|([+-])([0-9]{2}):?([0-5][0-9]))?"
)


def plain(value: Any) -> str:
    """Return ``value`` if it is a string, otherwise ""."""
    return value if isinstance(value, str) else ""


def object_in(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the value of the field ``name`` if it is an object, otherwise an empty object."""
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def storable(text: str) -> str:
    """Return ``text`` with lone surrogates escaped. A string with lone surrogates cannot be hashed or stored."""
    return text.encode(errors="backslashreplace").decode()


def text_of(content: Any) -> str:
    """Return the text of a message.

    A string is returned unchanged. For a list, the texts of its text blocks are joined by newlines.
    """
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [block.get("text") for block in content if isinstance(block, dict) and block.get("type") == "text"]
    return "\n".join([text for text in texts if isinstance(text, str)])


def count(value: Any) -> int | None:
    """Return ``value`` if it is an integer in [0, 2^53), otherwise ``None``."""
    return value if type(value) is int and 0 <= value < INT_MAX else None


def opaque(failure: LineFailure, size_bytes: int) -> Headline:
    """Return the headline of a line that is not a JSON object."""
    if not failure.reason:
        return Headline(kind="opaque", label="opaque", words="blank line")
    words = "1 byte that does not parse" if size_bytes == 1 else f"{size_bytes} bytes that do not parse"
    return Headline(kind="opaque", label="opaque", words=words)


def uuid_from(*parts: object) -> str:
    """Return a UUID derived from ``parts``."""
    from hashlib import sha256  # loads OpenSSL, and a file that is read has no such UUID

    digest = bytearray(sha256("/".join(map(str, parts)).encode("utf-8", "backslashreplace")).digest()[:16])
    digest[6], digest[8] = digest[6] & 0x0F | 0x80, digest[8] & 0x3F | 0x80  # version 8: a custom scheme
    found = digest.hex()
    return "-".join((found[:8], found[8:12], found[12:16], found[16:20], found[20:]))
