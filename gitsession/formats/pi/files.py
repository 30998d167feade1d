"""Paths of the session files of pi and omp, and the images that omp stores in a folder of blobs.

omp's session files contain ``blob:sha256:<hex>`` in place of these images. The positions are those that omp resolves
when it loads a session: image blocks of a ``content``, ``images`` and ``frames``, results of image generation, and
``image_url``, whose blob is the whole data URL.
"""

from __future__ import annotations

import base64
import glob
import re
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, TypeAlias

from gitsession.formats.base import jsonl
from gitsession.formats.base.fields import to_iso
from gitsession.formats.base.format import Workspace
from gitsession.formats.base.jsonl import LineFailure, dumps
from gitsession.model.entries import SessionHeader

_SEPARATOR = re.compile(r"[/\\:]")
_ODD = re.compile(r"[/\\:\x00-\x1f]")
"""Characters that no file name has here: a header's id can be any text."""


def place(header: SessionHeader, folder: str) -> str:
    """Return the path ``<time>_<id>.jsonl`` in ``folder``."""
    time = to_iso(header.at_ms).replace(":", "-").replace(".", "-")
    return f"sessions/{folder}/{time}_{_name(header)}.jsonl"


def lies(header: SessionHeader, folder: str) -> Sequence[str]:
    """Return a glob for that file, with any time in its name."""
    return (f"sessions/{glob.escape(folder)}/*_{glob.escape(_name(header))}.jsonl",)


def folder_of(cwd: str) -> str:
    """Return pi's folder name for a working directory. Two directories can have the same name."""
    inner = _SEPARATOR.sub("-", cwd[1:] if cwd[:1] in ("/", "\\") else cwd)
    return f"--{inner}--"


def bucket(at: Workspace) -> str:
    """Return omp's folder name, which is short below the home directory and the directory for temporary files."""
    for above, prefix in ((at.home, "-"), (at.temporary, "-tmp")):
        inside = at.cwd.removeprefix(f"{above.rstrip('/')}/")
        if above and at.cwd == above:
            return prefix
        if above and inside != at.cwd and not inside.startswith(".."):
            return f"{prefix}{'' if prefix.endswith('-') else '-'}{_SEPARATOR.sub('-', inside)}"
    return folder_of(at.cwd)


def _name(header: SessionHeader) -> str:
    return _ODD.sub("-", header.source_id or "session")


PREFIX = "blob:sha256:"
_NAME = re.compile(r"blob:sha256:([0-9a-f]{64})")
_LISTS = ("images", "frames")

Fetch: TypeAlias = Callable[[str], bytes | None]


def resolve(payload: bytes, fetch: Fetch, substitute: str = "") -> bytes:
    """Return ``payload`` with the content of its blobs in place of their names.

    Args:
        payload: A line of a session file.
        fetch: Return the content of a blob by its name, or ``None`` if it is not available. Content that does not
            match its name is not used.
        substitute: Text to put in place of an image block whose blob is not available; "" leaves the block as it is.
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
    """A walk that replaces blob names. ``changed``: whether anything was replaced."""

    def __init__(self, fetch: Fetch, substitute: str) -> None:
        self._fetch = fetch
        self._substitute = substitute
        self.changed = False

    def walk(self, value: Any, key: str) -> None:
        """Resolve the blobs in ``value``, which is the value of the field ``key``, or an item of it."""
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
