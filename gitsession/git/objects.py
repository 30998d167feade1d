"""The bytes of git's objects: encoding and parsing of trees and commits, and the computation of ids.

The functions are pure. For example, ``encode_commit`` returns the same bytes for the same fields on any machine. This
module attaches no meaning to the names in a tree. Names are text; bytes that are not UTF-8 are kept as surrogate
escapes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from gitsession.errors import Malformed
from gitsession.git.types import Kind, Oid
from gitsession.pattern import pattern

if TYPE_CHECKING:
    from hashlib import _Hash

TREE_MODE = "40000"
LINK_MODE = "120000"
FILE_MODES = ("100644", "100755", LINK_MODE)
SUBMODULE_MODE = "160000"
SECONDS_MAX = 2**32 - 1

_FOLDER = TREE_MODE.encode()
_MODES = frozenset({TREE_MODE, *FILE_MODES, SUBMODULE_MODE})
_ROW = pattern(rb"([1-7][0-7]{4,5}) ([^/\0]+)\0(.{20})", re.DOTALL)
"""One entry of a tree. In a valid tree, there are no bytes between two entries."""
_OID = pattern(rb"[0-9a-f]{40}")
_NAME = pattern(r"[^\x00-\x20<>\x7f](?:[^\x00-\x1f<>\x7f]*[^\x00-\x20<>\x7f])?")
_IDENT = pattern(rb"(?P<name>[^<>\n]*?) ?<[^<>\n]*> (?P<seconds>\d{1,20}) [+-]\d{4}")

_PLAIN = pattern(
    rb"tree ([0-9a-f]{40})\n((?:parent [0-9a-f]{40}\n)*)"
    rb"author ([a-z]{1,40}) <[a-z]{1,40}@gitsession> ([0-9]{1,20}) \+0000\n"
    rb"committer gitsession <gitsession@gitsession> ([0-9]{1,20}) \+0000\n\n"
)
"""The header of a commit written by gitsession. Other commits are parsed by slower code."""


class Commit(NamedTuple):
    """The fields of a commit that gitsession uses.

    The commit may have other fields, such as a signature or an encoding.
    """

    tree: Oid
    parents: tuple[Oid, ...]
    author_name: str
    author_seconds: int
    committer_seconds: int
    message: bytes


_FIRST_BYTES = 1 << 16
_bytes_left = _FIRST_BYTES
_openssl: Callable[..., _Hash] | None = None


def sha1_of(size: int) -> Callable[..., _Hash]:
    """Return the constructor ``hashlib.sha1`` or an equal one, for an object that will hash ``size`` bytes.

    ``hashlib`` loads OpenSSL, which takes 2.3 ms. Python's own SHA-1 is three to eight times slower, but it needs less
    time than that for the few objects that a command such as ``log`` reads. So it hashes the first 64 KiB.
    """
    global _bytes_left, _openssl
    if _openssl is None:
        _bytes_left -= size
        if _bytes_left > 0 and "hashlib" not in sys.modules:
            try:
                return import_module("_sha1").sha1  # type: ignore[no-any-return]
            except ImportError:  # this Python was built without it
                pass
        import hashlib

        _openssl = hashlib.sha1
    return _openssl


def oid_of(kind: Kind, data: bytes) -> Oid:
    """Return git's id of an object of type ``kind`` with the content ``data``."""
    size = len(data)
    hasher = (_openssl or sha1_of(size))(f"{kind} {size}\0".encode(), usedforsecurity=False)
    hasher.update(data)
    return hasher.hexdigest()


def encode_tree(entries: Mapping[str, tuple[str, Oid]]) -> bytes:
    """Encode a tree of ``name -> (mode, oid)``, in git's order. Raises ``Malformed`` for an invalid name or mode."""
    rows = []
    for name, (mode, oid) in entries.items():
        raw = name.encode("utf-8", "surrogateescape")
        if not raw or b"/" in raw or b"\0" in raw:
            raise Malformed(f"invalid name in a tree: {name[:80]!r}")
        if mode not in _MODES:
            raise Malformed(f"invalid mode in a tree: {mode!r}", where=name[:80])
        rows.append((_order(mode.encode(), raw), mode.encode() + b" " + raw + b"\0" + bytes.fromhex(oid)))
    return b"".join(row for _, row in sorted(rows))


def parse_tree(data: bytes) -> list[tuple[str, str, Oid]]:
    """Return ``(mode, name, oid)`` of every entry. Raises ``Malformed`` if ``data`` is not a tree or is not sorted."""
    entries: list[tuple[str, str, Oid]] = []
    size, before = 0, b""
    for mode, name, oid in _ROW.findall(data):
        order = _order(mode, name)
        if order <= before:
            raise Malformed(f"not a tree: {name[:80]!r} is out of order or duplicated")
        entries.append((mode.decode(), name.decode("utf-8", "surrogateescape"), oid.hex()))
        size, before = size + len(mode) + len(name) + 22, order
    if size != len(data):  # there are bytes between two entries or after the last one
        at = 0
        while row := _ROW.match(data, at):
            at = row.end()
        raise Malformed(f"not a tree: bad entry at byte {at}")
    return entries


def encode_commit(
    *,
    tree: Oid,
    parents: Sequence[Oid],
    author_name: str,
    author_seconds: int,
    committer_seconds: int,
    message: bytes,
) -> bytes:
    """Encode a gitsession commit.

    Raises ``Malformed`` if git would reject the commit: the name is empty or has ``<``, ``>`` or a control character,
    the seconds do not fit in 32 bits, or the message has a NUL.
    """
    if not _NAME.fullmatch(author_name):
        raise Malformed(f"invalid author name {author_name[:80]!r}")
    for seconds in (author_seconds, committer_seconds):
        if not 0 <= seconds <= SECONDS_MAX:
            raise Malformed(f"invalid commit time: {seconds} s")
    if b"\0" in message:
        raise Malformed("NUL byte in a commit message")
    parent_lines = "".join([f"parent {parent}\n" for parent in parents])
    head = (
        f"tree {tree}\n{parent_lines}author {author_name} <{author_name}@gitsession> {author_seconds} +0000\n"
        f"committer gitsession <gitsession@gitsession> {committer_seconds} +0000\n\n"
    )
    return head.encode() + message


def parse_commit(data: bytes) -> Commit:
    """Parse any commit. Unused headers are ignored. Raises ``Malformed``."""
    plain = _PLAIN.match(data)
    if plain is not None:  # a commit written by gitsession
        tree, parents, name, author_seconds, committer_seconds = plain.groups()
        parent_oids = tuple(line[7:].decode() for line in parents.split(b"\n")[:-1])
        return Commit(
            tree.decode(), parent_oids, name.decode(), int(author_seconds), int(committer_seconds), data[plain.end() :]
        )
    head, found, message = data.partition(b"\n\n")
    if not found:
        head, message = data.removesuffix(b"\n"), b""
    lines = head.split(b"\n")
    trees = [line[5:] for line in lines[:1] if line.startswith(b"tree ")]
    at = 1
    while at < len(lines) and lines[at].startswith(b"parent "):
        at += 1
    oids = [*trees, *(line[7:] for line in lines[1:at])]
    if not trees or not all(_OID.fullmatch(oid) for oid in oids):
        raise Malformed("not a commit: no tree, or an invalid object id")
    author = _ident(lines, at, b"author ")
    committer = _ident(lines, at + 1, b"committer ")
    tree, *parents = (oid.decode() for oid in oids)
    return Commit(tree, tuple(parents), author[0], author[1], committer[1], message)


def _ident(lines: list[bytes], at: int, key: bytes) -> tuple[str, int]:
    found = _IDENT.fullmatch(lines[at].removeprefix(key)) if at < len(lines) and lines[at].startswith(key) else None
    if not found:
        raise Malformed(f"not a commit: missing or invalid {key.decode().strip()}")
    return found["name"].decode("utf-8", "replace"), int(found["seconds"])


def _order(mode: bytes, name: bytes) -> bytes:
    """Return the sort key of a tree entry: git sorts a directory as if its name ended with a slash."""
    return name + b"/" if mode == _FOLDER else name + b"\0"
