"""Names of files in trees. FROZEN.

On the disk, a name is a byte string. In a tree, a name must pass the checks of every server (``transfer.fsckObjects``).
Git must be able to check out a file of that name on every system, and every terminal must be able to display the name.
A *plain* on-disk name meets these conditions and is used in the tree unchanged. Any other name is escaped: it becomes
``%`` and the name, with every harmful byte as ``%XX``. For example, ``a:b`` becomes ``%a%3Ab``, and ``.gitmodules``
becomes ``%.gitmodules``.

Every version of gitsession must escape a name in the same way, so that an unchanged file always has the same name in a
tree. So this module uses no table of Unicode properties, because these tables change between Python releases.
"""

from __future__ import annotations

import re
from functools import lru_cache

from gitsession.errors import Malformed
from gitsession.pattern import pattern

NAME_BYTES_MAX = 255
DEPTH_MAX = 64
"""Maximum number of components of a path."""

_CACHED = 16_384

_HFS_IGNORES = "\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff"
_HIDDEN = pattern(f"[{_HFS_IGNORES}]")
_UNSAFE = pattern(
    "[\x00-\x1f\x7f-\x9f"  # control characters
    '%/\\\\:<>"|?*'  # the escape character, the separator, and the characters that Windows reserves
    f"{_HFS_IGNORES}\u061c\u200b\u2028\u2029\u2060-\u2069\ufff9-\ufffb\U000e0000-\U000e007f"  # invisible or bidi
    "\ud800-\udfff]"  # bytes that are not UTF-8
)
_DOT_GIT = pattern(r"(?:\.git|git~[0-9]+)[. ]*(?::.*)?", re.IGNORECASE | re.ASCII | re.DOTALL)
_READ_BY_GIT = pattern(r"\.gitmodules|gitmod~[1-4]|\.gitattributes|gitatt~[1-4]", re.IGNORECASE | re.ASCII)
"""Names of files whose content `git fsck` checks. For ``.gitignore`` and ``.mailmap``, it accepts any content."""
_SHORTENED = ("gi7eba", "gi7d29")
"""Beginnings of the NTFS short names of ``.gitmodules`` and ``.gitattributes``.

NTFS assigns such a short name if other files already have the first four short names (such as ``GITMOD~1``).
"""
_DEVICE = pattern(
    r"(?:con|prn|aux|nul|(?:com|lpt)[0-9\xb9\xb2\xb3]|conin\$|conout\$|clock\$) *(?:\..*)?",
    re.IGNORECASE | re.ASCII | re.DOTALL,
)
_TEMPORARY = pattern(rb"\.gitsession-[a-z0-9]{1,32}-[^/]{1,9}\.tmp")
_PLAIN = pattern(rb"(?!\.git|(?:con|prn|aux|nul|(?:com|lpt)[0-9])(?:\.|\Z))[a-z0-9_.-]{0,254}[a-z0-9_-]", re.IGNORECASE)
"""A pattern that matches most plain names. It makes ``escape`` fast."""


@lru_cache(_CACHED)
def escape(name: bytes) -> str:
    """Return the form of ``name`` that is used in trees. Two different names never have the same form."""
    if _PLAIN.fullmatch(name):
        return name.decode()
    text = name.decode("utf-8", "surrogateescape")
    if not (text.endswith((".", " ")) or _UNSAFE.search(text) or _special(text) or refusal(name)):
        return text
    head, last = (text[:-1], text[-1]) if text.endswith((".", " ")) else (text, "")
    return "%" + _UNSAFE.sub(lambda found: _hex(found[0]), head) + _hex(last)


@lru_cache(_CACHED)
def unescape(text: str) -> bytes:
    """Return the on-disk form of a name in a tree. Raises ``Malformed`` for a name that ``escape`` never returns."""
    raw = text.encode("utf-8", "backslashreplace")
    name = re.sub(rb"%([0-9A-F]{2})", lambda found: bytes.fromhex(found[1].decode()), raw[1:])
    name = name if text.startswith("%") else raw
    if escape(name) != text:
        raise Malformed(f"{text[:80]!a} is not a valid escaped name")
    return name


def refusal(name: bytes) -> str | None:
    """Return the reason why a file named ``name`` is never captured or written; ``None`` if there is none."""
    if not name:
        return "an empty name"
    if name in (b".", b".."):
        return "a name that leads to another folder"
    if b"/" in name or b"\0" in name:
        return "a name with a slash or a NUL byte"
    if len(name) > NAME_BYTES_MAX:
        return f"a name of more than {NAME_BYTES_MAX} bytes"
    if _TEMPORARY.fullmatch(name):
        return "a name of our own, for what is being written"
    shown = _HIDDEN.sub("", name.decode("utf-8", "surrogateescape"))
    if any(_DOT_GIT.fullmatch(part) for part in shown.split("\\")):
        return "git's own folder, or a name that some system takes for it"
    return None


@lru_cache(_CACHED)
def tree_refusal(component: str) -> str | None:
    """Return the reason why a name in a tree is never written; ``None`` if there is none.

    The reason is that ``refusal`` rejects the on-disk form of the name, or that the name is not validly escaped.
    """
    try:
        return refusal(unescape(component))
    except Malformed:
        return refusal(component.encode("utf-8", "backslashreplace")) or "a name that is not escaped as in a checkpoint"


def path_refusal(path: str) -> str | None:
    """Return the reason why a path of a tree is never written or read; ``None`` if there is none."""
    components = path.split("/")
    if len(components) > DEPTH_MAX:
        return f"more than {DEPTH_MAX} folders deep"
    return next((reason for reason in map(tree_refusal, components) if reason), None)


def temporary(tag: str, which: int | str) -> bytes:
    """Return the name of a temporary file. ``tag`` has at most 32 lower-case letters and digits."""
    return f".gitsession-{tag}-{which}.tmp".encode()


def escape_path(raw: bytes) -> str:
    """Escape each component of an on-disk path that is relative to the workspace."""
    return "/".join(map(escape, raw.split(b"/")))


def unescape_path(path: str) -> bytes:
    """Return the on-disk form of a path in a tree. Raises ``Malformed``."""
    return b"/".join(map(unescape, path.split("/")))


def _special(text: str) -> bool:
    """Return whether a name without unsafe characters has a special meaning in git or Windows."""
    if _READ_BY_GIT.fullmatch(text) or _DEVICE.fullmatch(text):
        return True
    stem, tilde, number = text.partition("~")
    short = len(text) == 8 and tilde and any(name.startswith(stem.lower()) for name in _SHORTENED)
    return bool(short and re.fullmatch("[1-9][0-9]*", number))


def _hex(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "surrogateescape"))
