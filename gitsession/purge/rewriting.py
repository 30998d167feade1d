"""The rewrite of a history to remove purged content. It is a pure function of the commits and the tombstone set.

    1. an entry in the set            -> its tombstone or replacement, with the same time, position, source and chain
                                         digest
    2. an entry with purged files     -> the same entry with a placeholder as the content of these files
    3. a commit of the archive        -> the same commit with the rewritten tips of its histories
       any other commit               -> the same commit with mapped parents
    4. if none of this changes it     -> the same oid

A ref of a purged session moves to the tombstone of the session's first entry, whatever the old value of the ref was.
This tombstone has no parents. The rewrite has the same result in every store. It is idempotent, and two tombstone sets
can be applied in any order: ``R_B(R_A(x)) = R_(A u B)(x)``.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace

from gitsession.archive import archive_set
from gitsession.archive.archive_set import Archive
from gitsession.codec.digest import chain as chain_of
from gitsession.errors import Corrupt, Malformed, MissingObject
from gitsession.git.objects import SUBMODULE_MODE, encode_tree, oid_of, parse_commit, parse_tree
from gitsession.git.types import Kind, Oid, Reader, RefValue
from gitsession.model.entries import Fork, SessionHeader
from gitsession.sessions import content, layout, node, operation_log, tombstone
from gitsession.sessions.content import EntryTree
from gitsession.sessions.gaps import DAMAGE
from gitsession.sessions.node import Node
from gitsession.sessions.operation_log import Move, Operation, WorkspaceWrite
from gitsession.sessions.tombstone_set import PURGED_CONTENT, Tombstones
from gitsession.store import refs
from gitsession.store.interface import ObjectStore

_TREE_BYTES = len("tree ") + 40

_COMMAND_WORDS = 2
"""Number of words that are kept of a command that affected purged content: its name and its first argument."""


class Rewriter:
    """The mapping of commits to rewritten commits.

    Methods raise ``MissingObject`` or ``Corrupt`` for a commit that cannot be read, and ``Refused`` for a redacted
    entry of an agent that this release does not support.

    Attributes:
        objects: New objects, by id.
        mapped: New ids of the commits that changed, by their old ids.

    Args:
        reader: Reader of the existing objects.
        tombstones: The tombstone set.
        clean: Commits without purged content in themselves or in their histories, if known.
    """

    def __init__(self, reader: Reader, tombstones: Tombstones, clean: Container[Oid] = ()) -> None:
        self.objects: dict[Oid, tuple[Kind, bytes]] = {}
        self.mapped: dict[Oid, Oid] = {}
        self._replaced: set[Oid] = set()
        self._reader, self._tombstones, self._clean = reader, tombstones, clean
        self._same: set[Oid] = set()
        self._folders: dict[Oid, Oid] = {}

    def ref(self, name: str, oid: Oid) -> Oid:
        """Return the new value of the ref ``name``. ``oid``: its old value."""
        return self._tombstone(name, oid) if self.is_purged(name) else self.commit(oid)

    def start(self, name: str, oid: Oid) -> Node | None:
        """Return the entry at which the session of the ref ``name`` began. ``oid``: the value of the ref.

        If the session was purged, this is the first entry, going back from ``oid``, that the tombstone set names as a
        session's first entry. If there is no such entry, or if the session was not purged, the first entry of the
        history is returned. Returns ``None`` if the history has no entries.
        """
        beginnings = self._tombstones.roots_of(session_of(name))
        at = oid
        while True:
            entry = self._node(at)
            if entry is not None and (entry.parent is None or self._is_beginning(entry, beginnings)):
                return entry
            parents = self._parents(at) if entry is None else (entry.parent or "",)
            if not parents:
                return None
            at = parents[0]

    def _tombstone(self, name: str, oid: Oid) -> Oid:
        """Return the tombstone of the first entry of a purged session. Nothing else remains of the session."""
        entry = self.start(name, oid)
        if entry is None or (entry.is_tombstone and entry.parent is None):
            return self.commit(oid if entry is None else entry.oid)
        substitute = tombstone.of_session(self, entry, self._first_digest(entry))
        self._put_all(substitute)  # not in ``mapped``: another session that begins at this entry keeps the entry
        return substitute.oid

    def commit(self, oid: Oid) -> Oid:
        """Return the new oid of the commit ``oid``.

        The method is iterative, because long histories exceed the recursion limit.
        """
        stack = [oid]
        while stack:
            at = stack[-1]
            if at in self.mapped or at in self._same:
                stack.pop()
                continue
            if at in self._clean:
                self._same.add(at)
                continue
            try:
                parents = self._parents(at)
            except MissingObject:
                if at == oid:
                    raise
                self._same.add(at)  # the history of a shallow clone ends here
                continue
            missing = [parent for parent in parents if parent not in self.mapped and parent not in self._same]
            if missing:
                stack += missing
                continue
            self._rewrite_commit(at)
        return self.mapped.get(oid, oid)

    def is_purged(self, name: str) -> bool:
        """Return whether ``name`` is a ref of a purged session."""
        return bool(self._tombstones.roots_of(session_of(name)))

    def replaced_commits(self) -> list[Oid]:
        """Return the commits that a tombstone or replacement has replaced so far."""
        return sorted(self._replaced)

    def is_replaced(self, oid: Oid) -> bool:
        """Return whether a tombstone or replacement has replaced the commit ``oid`` so far."""
        return oid in self._replaced

    # -- one commit

    def _rewrite_commit(self, oid: Oid) -> None:
        data = self._read(oid, "commit")
        parents = parse_commit(data).parents
        new_parents = [self.mapped.get(parent, parent) for parent in parents]
        entry = self._node(oid)
        substitute = None if entry is None else self._substitute(entry, new_parents)
        if substitute is not None:
            self._replaced.add(oid)
            self._put_all(substitute)
            self.mapped[oid] = substitute.oid
            return
        tree = None if entry is None else self._without_files(entry)
        changed = self._rewrite_archive(data) if entry is None else None
        if changed is None:
            changed = _with_parents(data, parents, new_parents)
        if tree is not None:
            changed = b"tree " + tree.encode() + changed[_TREE_BYTES:]
        if changed == data:
            self._same.add(oid)
        else:
            new_oid = oid_of("commit", changed)
            self.objects[new_oid] = ("commit", changed)
            self.mapped[oid] = new_oid
            self._same.add(new_oid)

    def _rewrite_archive(self, data: bytes) -> bytes | None:
        """Return a commit of the archive with the rewritten tips of its histories; ``None`` for any other commit."""
        link = archive_set.link(data)
        if link is None:
            return None
        archive = archive_set.at_tree(self, link.tree)
        new_tips: dict[Oid, dict[Oid, None]] = {}
        new_ends: dict[str, frozenset[archive_set.End]] = {}
        for sid, session_ends in sorted(archive.ends.items()):
            mapped = [(branch, oid, self.ref(refs.leaf(sid, branch), oid)) for branch, oid in sorted(session_ends)]
            new_ends[sid] = frozenset((branch, new_oid) for branch, _, new_oid in mapped)
            for _, oid, new_oid in mapped:
                new_tips.setdefault(oid, {})[new_oid] = None
        before = [self.mapped.get(oid, oid) for oid in link.before]
        tips = dict.fromkeys(new_oid for oid in link.tips for new_oid in new_tips.get(oid, [self.mapped.get(oid, oid)]))
        after = Archive(archive.turns, new_ends)
        if after == archive and before == list(link.before) and list(tips) == list(link.tips):
            return data
        tree, objects = archive_set.tree_of(after)
        self.objects |= {oid: new_object for oid, new_object in objects.items() if not self._reader.contains(oid)}
        return archive_set.encode(tree, len(after), before, link.seconds, list(tips))

    def read(self, oid: Oid) -> tuple[Kind, bytes]:
        """Read a new or an existing object."""
        return self.objects.get(oid) or self._reader.read(oid)

    def contains(self, oid: Oid) -> bool:
        return oid in self.objects or self._reader.contains(oid)

    def put(self, kind: Kind, data: bytes) -> Oid:
        """Add an object to the new objects, unless it exists already; return its oid."""
        oid = oid_of(kind, data)
        if oid not in self.objects and not self._reader.contains(oid):
            self.objects[oid] = (kind, data)
        return oid

    def _substitute(self, entry: Node, parents: list[Oid]) -> tombstone.SubstituteCommit | None:
        """Return the commit that replaces a purged entry; ``None`` if the entry is not purged."""
        if entry.is_tombstone:
            return None
        purged = self._tombstones
        parts = self._content(entry)
        digest = self._digest(entry, parts)
        original_digest = entry.replaces.hex() or digest
        if not purged.has_entry(original_digest) and not purged.has_entry(digest):
            return None
        replacement = purged.replacement_of(original_digest if purged.has_entry(original_digest) else digest)
        if replacement is None:
            return tombstone.of_entry(entry, original_digest, parents)
        if replacement.digest == digest:
            return None
        files = None if parts is None or parts.files is None else self._folder(parts.files)
        return tombstone.build_replacement(entry, original_digest, replacement, files, parents)

    def _digest(self, entry: Node, parts: EntryTree | None = None) -> str:
        """Return the digest of an entry.

        If the payload of the entry is missing, look up the digest in the tombstone set by the chain digest.
        """
        parts = parts or self._content(entry)
        if parts is not None:
            return parts.digest.hex()
        above = self._node(entry.parent) if entry.parent is not None else None
        for key in (*self._tombstones.removed, *self._tombstones.replaced):
            if len(key) == 64 and chain_of(above.chain if above else None, bytes.fromhex(key)) == entry.chain:
                return key
        return ""

    def _first_digest(self, entry: Node) -> str:
        """Return the digest of the entry before any redaction."""
        return entry.replaces.hex() or self._digest(entry)

    def _is_beginning(self, entry: Node, beginnings: Container[str]) -> bool:
        """Return whether this entry is one of ``beginnings``, the digests of the first entries of a session."""
        if entry.is_tombstone:
            return tombstone.of_node(self._reader, entry).of in beginnings
        return (
            entry.source is None
            and entry.kind in (Fork.kind, SessionHeader.kind)
            and self._first_digest(entry) in beginnings
        )

    def _without_files(self, entry: Node) -> Oid | None:
        """Return the tree of an entry with a placeholder for each purged file; ``None`` if the tree does not change."""
        if not self._tombstones.has_files:
            return None
        rows = {name: (mode, oid) for mode, name, oid in parse_tree(self._read(entry.tree, "tree"))}
        if layout.FILES not in rows:
            return None
        before = rows[layout.FILES]
        rows[layout.FILES] = (layout.TREE_MODE, self._folder(before[1]))
        return None if rows[layout.FILES] == before else self.put("tree", encode_tree(rows))

    def _folder(self, oid: Oid) -> Oid:
        """Rewrite a folder of captured files with a placeholder for each purged file; return its new oid."""
        if oid not in self._folders:
            rows = {}
            for mode, name, child in parse_tree(self._read(oid, "tree")):
                if mode == layout.TREE_MODE:
                    rows[name] = (mode, self._folder(child))
                elif mode != SUBMODULE_MODE and self._tombstones.has_file(child):
                    rows[name] = (layout.FILE_MODE, self.put("blob", PURGED_CONTENT))
                else:
                    rows[name] = (mode, child)
            self._folders[oid] = self.put("tree", encode_tree(rows))
        return self._folders[oid]

    # -- reading and keeping

    def _put_all(self, substitute: tombstone.SubstituteCommit) -> None:
        self.objects |= substitute.objects
        self.objects[substitute.oid] = ("commit", substitute.commit)
        self._same.add(substitute.oid)

    def _read(self, oid: Oid, expected: str) -> bytes:
        kind, data = self.read(oid)
        if kind != expected:
            raise Corrupt(f"object {oid} is a {kind}, not a {expected}")
        return data

    def _parents(self, oid: Oid) -> tuple[Oid, ...]:
        return parse_commit(self._read(oid, "commit")).parents

    def _node(self, oid: Oid) -> Node | None:
        """Return the entry of a commit; ``None`` if the commit has no entry."""
        try:
            return node.parse(oid, self._read(oid, "commit"))
        except Malformed:
            return None

    def _content(self, entry: Node) -> EntryTree | None:
        try:
            return content.entry_tree(self._reader, entry)
        except DAMAGE:
            return None


def _with_parents(data: bytes, old: tuple[Oid, ...], new: list[Oid]) -> bytes:
    """Return a commit with its parents replaced and no other change. The commit need not be an entry."""
    if list(old) == new:
        return data
    end = _TREE_BYTES + 1 + sum(len("parent \n") + 40 for _ in old)
    return data[: _TREE_BYTES + 1] + b"".join(f"parent {parent}\n".encode() for parent in new) + data[end:]


def session_of(name: str) -> str:
    """Return the id of a ref's session, or "". The ref can belong to this store, a remote or the trash."""
    if name.startswith(refs.TRASH):
        name = refs.untrashed(name)
    elif name.startswith("refs/remotes/"):
        _, found, rest = name.partition("/sessions/")
        name = refs.SESSIONS + rest if found else ""
    return refs.session_of(name)


def rewrite_log(store: ObjectStore, tip: Oid, rewriter: Rewriter) -> Oid:
    """Map the commits in the operation log, so that older commands can still be undone; return the new tip of the log.

    The log is local, so its bytes need not be the same in other stores. If a command wrote or removed a purged entry,
    only the command's name and first argument are kept, because its other arguments can contain purged text, such as a
    label. Raises ``Malformed``.
    """
    mapped: dict[Oid, Oid] = {}
    for operation in reversed(list(operation_log.history_from(store, tip))):
        mapped[operation.id] = _map_operation(operation, mapped, rewriter)
    return mapped[tip]


def _map_operation(operation: Operation, mapped: Mapping[Oid, Oid], rewriter: Rewriter) -> Oid:
    def map_oid(oid: Oid | None) -> Oid | None:
        return None if oid is None else mapped.get(oid, oid)

    result = replace(
        operation,
        parent=map_oid(operation.parent),
        undoes=map_oid(operation.undoes),
        redoes=map_oid(operation.redoes),
        moves=tuple(
            Move(move.ref, _map_value(rewriter, move.ref, move.old), _map_value(rewriter, move.ref, move.new))
            for move in operation.moves
        ),
        files=operation.files and _map_files(rewriter, operation.files),
    )
    if any(map(rewriter.is_replaced, operation.oids)) or any(rewriter.is_purged(move.ref) for move in operation.moves):
        result = replace(result, command=" ".join(operation.command.split(" ")[:_COMMAND_WORDS]))
    return operation.id if result == operation else operation_log.write_operation(rewriter, result)


def _map_value(rewriter: Rewriter, name: str, value: RefValue | None) -> RefValue | None:
    if value is None or refs.target(value) is not None:
        return value
    try:
        return rewriter.ref(name, value)
    except DAMAGE:
        return value  # `verify` reports the damage


def _map_files(rewriter: Rewriter, files: WorkspaceWrite) -> WorkspaceWrite:
    name = refs.files(files.session)
    safety, result = (_map_value(rewriter, name, oid) or oid for oid in (files.safety, files.result))
    return files._replace(safety=safety, result=result)
