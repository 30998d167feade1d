"""Values as a provider's JSON can carry them: Unicode that encodes, names that match, plain data."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping
from typing import Any

from gitsession.codec.cbor import whole
from gitsession.codec.digest import hash_of

_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_MARK_CHARS = 8


def sendable(value: Any) -> Any:
    """``value`` as JSON can say it: bytes in base64, no infinity, text keys."""
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, bytes):
        return to_base64(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {whole(str(key)): sendable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [sendable(item) for item in value]
    return value


def to_json(value: Any) -> str:
    """``value`` in one line, without spaces."""
    return json.dumps(sendable(value), ensure_ascii=False, separators=(",", ":"))


def to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def data_url(data: bytes, mime: str) -> str:
    return f"data:{mime};base64,{to_base64(data)}"


def legal(name: str, chars_max: int) -> str:
    """``name`` if providers take it (letters, digits, ``_``, ``-``), else one that they do and that is its alone."""
    if name and len(name) <= chars_max and not _ILLEGAL.search(name):
        return name
    mark = hash_of(name.encode(errors="surrogatepass")).hex()[:_MARK_CHARS]
    return f"{_ILLEGAL.sub('_', name)[: chars_max - _MARK_CHARS - 1]}_{mark}"


class CallIds:
    """Ids of tool calls as one provider takes them, no two alike. As a conversation grows, those it has stay."""

    def __init__(self, chars_max: int) -> None:
        self._chars_max = chars_max
        self._taken: set[str] = set()
        self._counts: dict[str, int] = {}

    def take(self, id_: str) -> str:
        first = name = legal(id_, self._chars_max)
        count = self._counts.get(first, 1)
        while name in self._taken:  # an agent that counts its calls from one in every turn
            count += 1
            name = f"{first[: self._chars_max - len(str(count)) - 1]}_{count}"
        self._counts[first] = count
        self._taken.add(name)
        return name
