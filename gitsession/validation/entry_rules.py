"""Validation of one proposed entry: its form (docs/reference/format.md) and its size.

Sizes are read from object headers and checked first, so that oversized objects are never unpacked. Below ``files/``,
only the differences from the previous entry are read. A folder that did not change was validated with the previous
entry. Each tree is read once. If a tree occurs many times, its names are counted without reading it again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gitsession.codec import holes, payload
from gitsession.errors import GitSessionError, Malformed, MissingObject
from gitsession.formats import FORMATS
from gitsession.git.objects import FILE_MODES, LINK_MODE, SUBMODULE_MODE, TREE_MODE, parse_tree
from gitsession.git.types import Kind, Oid, Reader
from gitsession.model import entries as kinds
from gitsession.model.entries import KINDS, BranchSummary, SessionHeader, Tombstone
from gitsession.model.headline import VIEW, clean
from gitsession.sessions import content, layout, tombstone
from gitsession.sessions import node as nodes
from gitsession.sessions.content import Rows
from gitsession.sessions.node import Node, load
from gitsession.sessions.tombstone_set import NONE, Tombstones
from gitsession.validation.quarantine_reader import (
    COMMIT_BYTES_MAX,
    MEBIBYTE,
    NOT_SENT,
    REMOVE_HINT,
    TREE_BYTES_MAX,
    Fault,
    GitReader,
    Limits,
)
from gitsession.verify.entry_check import check, purge_problems
from gitsession.workspace import names

HOLES_BYTES_MAX = 4 * MEBIBYTE
LIFTED_TREE_BYTES_MAX = 16 * MEBIBYTE
"""Maximum size in bytes of ``holes.cbor`` and of the tree ``blobs``."""

MESSAGE_BYTES_MAX = 8 << 10

_FORM = re.compile(
    rb"tree [0-9a-f]{40}\n(?:parent [0-9a-f]{40}\n){0,2}"
    rb"author ([^<>\0-\x1f\x7f]+) <\1@gitsession> (?:0|[1-9][0-9]{0,9}) \+0000\n"
    rb"committer gitsession <gitsession@gitsession> (?:0|[1-9][0-9]{0,9}) \+0000\n\n.*",
    re.DOTALL,
)


def read(reader: GitReader, oid: Oid) -> Node | Fault:
    """Return the node of the entry ``oid``, or the fault of its commit."""
    problem = _check_header(reader, oid, "commit", COMMIT_BYTES_MAX, "the commit")
    if problem is not None:
        return problem
    data = reader.read(oid)[1]
    try:
        node = nodes.parse(oid, data)
    except Malformed as error:
        return Fault("commit", f"not an entry: {_error_text(error, oid)}")
    if not _FORM.fullmatch(data):
        return Fault("commit", "the commit is not formatted as an entry: invalid headers, names, time zone or parents")
    return node


def faults(
    reader: GitReader, node: Node, parent: Node | None, limits: Limits, *, check_message: bool
) -> Iterator[Fault]:
    """Yield the faults of ``node``, an entry whose parent is valid."""
    if parent is None and node.kind in KINDS and node.kind not in (SessionHeader.kind, Tombstone.kind):
        yield Fault("root", f"a history must begin with a session, not with {node.kind[:40]!r}")
    if node.second_parent is not None and node.kind in KINDS and (node.source or node.kind != BranchSummary.kind):
        text = f"{node.kind[:40]!r} has a second parent: only a gitsession branch_summary may have one"
        yield Fault("parents", text)
    before = 0 if parent is None else parent.committer_seconds
    if node.committer_seconds != max(node.author_seconds, before):
        yield Fault("commit", "the committer time is not the later of the author time and the parent's committer time")
    try:
        problem = _too_large(reader, node, limits)
        if problem is not None:
            yield problem
            return
        for text in check(reader, node, parent, check_message=check_message):
            yield Fault("entry", text)
    except MissingObject as error:
        yield Fault("missing", str(error))
    except GitSessionError as error:
        yield Fault("entry", _error_text(error, node.oid))
    if not check_message or (node.source is not None and FORMATS.get(node.source.agent) is None):
        yield from _message_faults(reader.read(node.oid)[1])


def purged(reader: Reader, node: Node, tombstones: Tombstones) -> Fault | None:
    """Return the fault that ``purge_problem`` describes. Raises ``GitSessionError``."""
    what = purge_problem(reader, node, tombstones)
    return None if what is None else Fault("purged", f"{what}: {REMOVE_HINT}")


def purge_problem(reader: Reader, node: Node, tombstones: Tombstones) -> str | None:
    """Return a problem if the entry was purged, or if the entry replaces another one that was not purged.

    Raises ``GitSessionError``.
    """
    parts = content.entry_tree_at(reader, node.tree)
    digest = parts.digest
    original = tombstone.replaced_digest(node, parts) or digest
    return next(purge_problems(node, digest.hex(), original.hex(), tombstones), None)


def _too_large(reader: GitReader, node: Node, limits: Limits) -> Fault | None:
    """Return a fault if an object is missing, has another kind, or is too large according to its header."""
    problem = _check_header(reader, node.tree, "tree", TREE_BYTES_MAX, "the tree")
    if problem is not None:
        return problem
    rows = parse_tree(reader.read(node.tree)[1])
    is_own = any(name == layout.PAYLOAD + layout.OWN for _, name, _ in rows)
    filled_bytes = 0
    for mode, name, oid in rows:
        if name == layout.FILES or (name == layout.BLOBS and mode == layout.TREE_MODE):
            bytes_max = LIFTED_TREE_BYTES_MAX if name == layout.BLOBS else limits.file_bytes
            problem = _check_header(reader, oid, "tree", bytes_max, name)
        else:
            problem = _check_header(reader, oid, "blob", _blob_bytes_max(name, is_own, limits), name)
        if problem is not None:
            return problem
        if layout.form_of(name) is not None:
            filled_bytes += _size_of(reader, oid)
    lifted: dict[str, int] = {}
    top = {name: oid for _, name, oid in rows}
    for _, name, oid in content.tree_of(reader, top[layout.BLOBS]) if layout.BLOBS in top else ():
        problem = _check_header(reader, oid, "blob", limits.file_bytes, f"{layout.BLOBS}/{name[:64]}")
        if problem is not None:
            return problem
        lifted[name] = _size_of(reader, oid)
    if layout.HOLES in top:
        for _, _, digest, encoding, *_ in holes.parse(reader.read(top[layout.HOLES])[1]):
            if encoding == "summary" and layout.SUMMARY in top:
                size = _size_of(reader, top[layout.SUMMARY])
            else:
                size = lifted.get(digest.hex(), 0) if isinstance(digest, bytes) else 0
            filled_bytes += size if encoding != "base64" else (size + 2) // 3 * 4
    if filled_bytes > limits.whole_bytes:
        return Fault("size", f"the filled payload has {filled_bytes:,} bytes, and the limit is {limits.whole_bytes:,}")
    return None


def _blob_bytes_max(name: str, is_own: bool, limits: Limits) -> int:
    if name == layout.HOLES:
        return HOLES_BYTES_MAX
    if is_own:
        return payload.PAYLOAD_BYTES_MAX
    return limits.whole_bytes if name == layout.SUMMARY else limits.payload_bytes  # a summary may also be in a hole


def _check_header(reader: GitReader, oid: Oid, kind: Kind, bytes_max: int, label: str) -> Fault | None:
    head = reader.head(oid)
    if head is None:
        return Fault("missing", f"{label} ({oid}) {NOT_SENT}")
    if head.kind != kind:
        return Fault("tree" if label != "the commit" else "commit", f"{label} is a {head.kind}, expected a {kind}")
    if head.size > bytes_max:
        return Fault("size", f"{label} has {head.size:,} bytes, and the limit is {bytes_max:,}")
    return None


def _size_of(reader: GitReader, oid: Oid) -> int:
    head = reader.head(oid)
    return 0 if head is None else head.size


def _message_faults(data: bytes) -> Iterator[Fault]:
    """Yield the faults of a commit message that this release cannot compare with the expected one."""
    message = data.partition(b"\n\n")[2]
    if len(message) > MESSAGE_BYTES_MAX:
        yield Fault("commit", f"the message has {len(message):,} bytes, and the limit is {MESSAGE_BYTES_MAX:,}")
    try:
        text = message.decode()
    except UnicodeDecodeError:
        yield Fault("commit", "the message is not valid UTF-8")
    else:
        if clean(text) != text:
            yield Fault("commit", "the message has control characters")


def _error_text(error: GitSessionError, oid: Oid) -> str:
    return str(error).removeprefix(f"{oid}: ")


class LaterViews:
    """A test whether an entry has a view of a later gitsession release.

    Results are remembered for all entries on the way to the start of a session, so that no entry is visited twice.
    """

    def __init__(self, reader: GitReader) -> None:
        self._reader = reader
        self._is_later: dict[Oid, bool] = {}

    def is_known_later(self, node: Node) -> bool:
        """Return whether the parent of ``node`` is known to have a later view and ``node`` does not begin a session."""
        is_later = self._is_later.get(node.parent or "", False) and not node.starts_session
        if is_later:
            self._is_later[node.oid] = True
        return is_later

    def is_later(self, node: Node, new: Mapping[Oid, tuple[Oid, ...]]) -> bool:
        """Return whether an entry has a later view. ``new``: the entries in this validation, with their parents."""
        at = node
        visited = [at.oid]
        while at.oid not in self._is_later and not at.starts_session and at.parent is not None and at.parent in new:
            at = load(self._reader, at.parent)
            visited.append(at.oid)
        is_later = self._is_later[at.oid] if at.oid in self._is_later else self._starts_later(at)
        self._is_later.update(dict.fromkeys(visited, is_later))
        return is_later

    def _starts_later(self, node: Node) -> bool:
        """Return whether the session of ``node`` begins with a later view. ``node``: its first new entry."""
        starts = [node.oid] if node.starts_session else self._reader.starts(node.parent or node.oid)
        start = next((found for found in (load(self._reader, oid) for oid in starts) if found.starts_session), None)
        entry = content.entry_of(self._reader, start) if start is not None else None
        view = entry.view if isinstance(entry, kinds.SessionHeader | kinds.Fork) else None
        return view is not None and view > VIEW


LINK_BYTES_MAX = 4096
FOLDER_BYTES_MAX = 64 * MEBIBYTE

_CACHED_TREES_MAX = 50_000


class _TreeSize(NamedTuple):
    """The size of a tree: the depth of its folders and the number of its names, including repeated names."""

    depth: int
    names: int


class _InvalidTree(Exception):
    def __init__(self, rule: str, what: str) -> None:
        super().__init__(what)
        self.fault = Fault(rule, what)


class FileTrees:
    """The validation of trees of files, with a cache of the valid trees."""

    def __init__(
        self, reader: GitReader, limits: Limits, tombstones: Tombstones = NONE, *, partial: bool = False
    ) -> None:
        self._reader = reader
        self._limits = limits
        self._tombstones = tombstones
        self._partial = partial
        self._valid: dict[tuple[Oid, Oid | None], _TreeSize] = {}

    def fault(self, tree: Oid, before: Oid | None) -> Fault | None:
        """Return the first fault below ``tree``. ``before``: tree of files of the previous entry, which is valid."""
        if tree == before:
            return None
        try:
            size = self._validate(tree, before, "", 0)
        except _InvalidTree as invalid:
            return invalid.fault
        except Malformed as error:
            return Fault("files", str(error))
        if size.names > self._limits.names:
            return Fault("files", f"{size.names:,} new names below files/, and the limit is {self._limits.names:,}")
        return None

    def _validate(self, tree: Oid, before: Oid | None, path: str, depth: int) -> _TreeSize:
        """Return the size of a valid tree.

        Raises ``_InvalidTree`` if the tree is invalid or deeper than ``names.DEPTH_MAX``.
        """
        known = self._valid.get((tree, before))
        if known is None:
            known = self._walk(tree, before, path, depth)
            if len(self._valid) >= _CACHED_TREES_MAX:
                self._valid.clear()
            self._valid[tree, before] = known
        if depth + known.depth > names.DEPTH_MAX:
            raise _InvalidTree("files", f"more than {names.DEPTH_MAX} folders deep, below {_shown(path)}")
        return known

    def _walk(self, tree: Oid, before: Oid | None, path: str, depth: int) -> _TreeSize:
        if depth >= names.DEPTH_MAX:
            raise _InvalidTree("files", f"more than {names.DEPTH_MAX} folders deep, below {_shown(path)}")
        rows = self._rows(tree, path)
        old_rows = {} if before is None else {name: (mode, oid) for mode, name, oid in self._rows(before, path)}
        self._check(rows, old_rows, path)
        depth_below, count = 0, len(rows)
        for mode, name, oid in rows:
            old = old_rows.get(name)
            if mode != TREE_MODE or old == (mode, oid):
                continue
            old_tree = old[1] if old is not None and old[0] == TREE_MODE else None
            size = self._validate(oid, old_tree, f"{path}{name}/", depth + 1)
            depth_below, count = max(depth_below, size.depth), count + size.names
        return _TreeSize(depth_below + 1, count)

    def _rows(self, tree: Oid, path: str) -> Rows:
        head = self._reader.head(tree)
        if head is None or head.kind != "tree":
            rule, what = ("missing", NOT_SENT) if head is None else ("files", f"is a {head.kind}, expected a tree")
            raise _InvalidTree(rule, f"{_shown(path)} ({tree}) {what}")
        if head.size > FOLDER_BYTES_MAX:
            raise _InvalidTree("size", f"{_shown(path)} has {head.size:,} bytes, and the limit is {FOLDER_BYTES_MAX:,}")
        try:
            return parse_tree(self._reader.read(tree)[1])
        except Malformed as error:
            raise _InvalidTree("files", f"{_shown(path)}: {error}") from None

    def _check(self, rows: Rows, old_rows: Mapping[str, tuple[str, Oid]], path: str) -> None:
        """Check names and modes, and the sizes of new files. An empty folder is a fault, because git stores none."""
        new = [row for row in rows if old_rows.get(row[1]) != (row[0], row[2])]
        if not rows and path:
            raise _InvalidTree("files", f"{_shown(path)} is empty")
        for mode, name, oid in new:
            reason = names.tree_refusal(name)
            if reason:
                raise _InvalidTree("files", f"{_shown(path + name)}: {reason}")
            if mode not in (*FILE_MODES, TREE_MODE, SUBMODULE_MODE):
                raise _InvalidTree("files", f"{_shown(path + name)} has the invalid mode {mode}")
            if self._tombstones.has_file(oid):
                raise _InvalidTree("purged", f"{_shown(path + name)} was purged: {REMOVE_HINT}")
        blobs = [(mode, name, oid) for mode, name, oid in new if mode in FILE_MODES]
        for (mode, name, oid), head in zip(blobs, self._reader.heads([oid for *_, oid in blobs]), strict=True):
            if head is None and self._partial:
                continue
            if head is None or head.kind != "blob":
                rule, what = ("missing", NOT_SENT) if head is None else ("files", f"is a {head.kind}, expected a blob")
                raise _InvalidTree(rule, f"{_shown(path + name)} ({oid}) {what}")
            bytes_max = LINK_BYTES_MAX if mode == LINK_MODE else self._limits.file_bytes
            if head.size > bytes_max:
                raise _InvalidTree(
                    "size", f"{_shown(path + name)} has {head.size:,} bytes, and the limit is {bytes_max:,}"
                )


def _shown(path: str) -> str:
    """Return ``path`` as printable text. A path can contain any bytes."""
    return ascii(f"files/{path[:120]}")
