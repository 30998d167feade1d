"""Functions that replace references to omp's blobs with the content of the blobs.

omp stores images in a folder of blobs. In a session file, omp writes a reference of the form ``blob:sha256:<hex>`` in
place of each image. This module resolves references in the same fields as omp does when it loads a session: in the
image blocks of ``content``; in the items of ``images`` and ``frames``; in the results of image generation; and in
``image_url``, whose blob contains the whole data URL.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from hashlib import sha256
from typing import Any, TypeAlias

from gitsession.formats.base import jsonl
from gitsession.formats.base.jsonl import LineFailure, dumps

PREFIX = "blob:sha256:"
_NAME = re.compile(r"blob:sha256:([0-9a-f]{64})")
_LISTS = ("images", "frames")

Fetch: TypeAlias = Callable[[str], bytes | None]


def resolve(payload: bytes, fetch: Fetch, substitute: str = "") -> bytes:
    """Return ``payload`` with each reference to a blob replaced with the content of the blob.

    Args:
        payload: a line of a session file.
        fetch: a function that takes a reference and returns the content of the blob, or ``None`` if the blob is not
            available. Content that does not match the hash in the reference is not used.
        substitute: the text that replaces an image block of ``content`` if its blob cannot be used; "" to keep the
            block.
    """
    if PREFIX.encode() not in payload:
        return payload
    entry = jsonl.parse(payload)
    if isinstance(entry, LineFailure):
        return payload
    resolver = _Resolver(fetch, substitute)
    resolver.walk(entry, "")
    return dumps(entry) if resolver.changed else payload


class _Resolver:
    """A traversal of a parsed line that resolves references to blobs. ``changed``: whether the line was changed."""

    def __init__(self, fetch: Fetch, substitute: str) -> None:
        self._fetch = fetch
        self._substitute = substitute
        self.changed = False

    def walk(self, value: Any, key: str) -> None:
        """Resolve the references in ``value``, which is the value of the field ``key`` or an item of this value."""
        if isinstance(value, list):
            for item in value:
                self.walk(item, key)
            return
        if not isinstance(value, dict):
            return
        if key == "content" and value.get("type") == "image":
            if not self._replace(value, "data") and self._substitute and _is_name(value.get("data")):
                value.clear()
                value.update(type="text", text=self._substitute)
                self.changed = True
        elif key in _LISTS:
            self._replace(value, "data")
        if value.get("type") == "image_generation_call":
            self._replace(value, "result")
        self._replace(value, "image_url", is_text=True)
        for name, item in value.items():
            self.walk(item, name)

    def _replace(self, value: dict[str, Any], field: str, *, is_text: bool = False) -> bool:
        name = value.get(field)
        found = _NAME.fullmatch(name) if isinstance(name, str) else None
        content = self._fetch(found.group()) if found is not None else None
        if found is None or content is None or sha256(content).hexdigest() != found.group(1):
            return False
        value[field] = content.decode("utf-8", "replace") if is_text else base64.b64encode(content).decode()
        self.changed = True
        return True


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None
