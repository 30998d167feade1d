"""What a history is without what was purged: a pure function of commits and of the set, the same in every store.

    1. an entry that is in the set    -> its tombstone, or what replaces it: time, place, source and chain stay
    2. an entry with purged files     -> the same entry, with other bytes in their place
    3. a commit of the archive        -> the same, that lists and leads to what its lines are by now
       anything else                  -> the same commit, its parents mapped
    4. nothing of it changed          -> the same oid

A ref of a purged session leads to the tombstone of the entry at which the session began, whatever it led to before;
that tombstone has no parents.
Rewriting twice is rewriting once, and for two sets the order does not matter: R_B(R_A(x)) = R_(A u B)(x).
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
from gitsession.sessions.tombstone_set import WITHHELD, Tombstones
from gitsession.store import refs
from gitsession.store.interface import ObjectStore

_TREE_BYTES = len("tree ") + 40

_COMMAND_WORDS = 2
"""Of a command that was about what is gone: its name, and what it was done to."""


class Rewriter:
    """The mapping of commits to what they become. ``objects``: new ones; ``mapped``: commits that differ, old to new.

    ``clean``: commits of which nothing was purged, nor before them. Its methods raise ``MissingObject`` or ``Corrupt``
    for a commit that cannot be read, ``Refused`` for a redacted entry of an agent that this release does not know.
    """

    def __init__(self, reader: Reader, tombstones: Tombstones, clean: Container[Oid] = ()) -> None:
        self.objects: dict[Oid, tuple[Kind, bytes]] = {}
        self.mapped: dict[Oid, Oid] = {}
        self._gone: set[Oid] = set()
        self._reader, self._tombstones, self._clean = reader, tombstones, clean
        self._same: set[Oid] = set()
        self._folders: dict[Oid, Oid] = {}

    def ref(self, name: str, oid: Oid) -> Oid:
        """Where ``name`` leads that led to ``oid``."""
        return self._tombstone(name, oid) if self.is_purged(name) else self.commit(oid)

    def start(self, name: str, oid: Oid) -> Node | None:
        """The entry at which the session of ``name`` began, a ref that leads to ``oid``.

        Of a session that was purged, the nearest one that the set names; where the line has none of those, and for any
        other session, its first one. ``None`` for a line without entries.
        """
        began = self._tombstones.began(session_of(name))
        at = oid
        while True:
            found = self._node(at)
            if found is not None and (found.parent is None or self._begins(found, began)):
                return found
            parents = self._parents(at) if found is None else (found.parent or "",)
            if not parents:
                return None
            at = parents[0]

    def _tombstone(self, name: str, oid: Oid) -> Oid:
        """Return the tombstone of the first entry of a purged session, which is all that is left of it."""
        found = self.start(name, oid)
        if found is None or (found.is_tombstone and found.parent is None):
            return self.commit(oid if found is None else found.oid)
        made = tombstone.of_session(self, found, self._first_digest(found))
        self._put_all(made)  # and no more: in another session, which began on this one, the entry stays
        return made.oid

    def commit(self, oid: Oid) -> Oid:
        """What the commit ``oid`` becomes. Parents come first; a line may be longer than a stack is deep."""
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
                self._same.add(at)  # before it a clone ends that does not go back to the beginning
                continue
            missing = [up for up in parents if up not in self.mapped and up not in self._same]
            if missing:
                stack += missing
                continue
            self._decide(at)
        return self.mapped.get(oid, oid)

    def is_purged(self, name: str) -> bool:
        """Whether ``name`` is a ref of a purged session."""
        return bool(self._tombstones.began(session_of(name)))

    def gone(self) -> list[Oid]:
        """The commits in whose place something else stands, as far as was looked."""
        return sorted(self._gone)

    def is_gone(self, oid: Oid) -> bool:
        """Whether something else stands in the place of the commit ``oid`` itself, as far as was looked."""
        return oid in self._gone

    # -- one commit

    def _decide(self, oid: Oid) -> None:
        data = self._read(oid, "commit")
        parents = parse_commit(data).parents
        new = [self.mapped.get(up, up) for up in parents]
        found = self._node(oid)
        stands = None if found is None else self._instead(found, new)
        if stands is not None:
            self._keep(oid, stands)
            return
        tree = None if found is None else self._without_files(found)
        changed = self._archived(data) if found is None else None
        if changed is None:
            changed = _with_parents(data, parents, new)
        if tree is not None:
            changed = b"tree " + tree.encode() + changed[_TREE_BYTES:]
        if changed == data:
            self._same.add(oid)
        else:
            made = oid_of("commit", changed)
            self.objects[made] = ("commit", changed)
            self.mapped[oid] = made
            self._same.add(made)

    def _archived(self, data: bytes) -> bytes | None:
        """A commit of the archive, that lists and leads to what its lines are by now; ``None`` for any other."""
        link = archive_set.link(data)
        if link is None:
            return None
        said = archive_set.at_tree(self, link.tree)
        names: dict[Oid, dict[Oid, None]] = {}
        ends: dict[str, frozenset[archive_set.End]] = {}
        for sid, held in sorted(said.ends.items()):
            mapped = [(branch, oid, self.ref(refs.leaf(sid, branch), oid)) for branch, oid in sorted(held)]
            ends[sid] = frozenset((branch, to) for branch, _, to in mapped)
            for _, oid, to in mapped:
                names.setdefault(oid, {})[to] = None
        before = [self.mapped.get(oid, oid) for oid in link.before]
        tips = dict.fromkeys(to for oid in link.tips for to in names.get(oid, [self.mapped.get(oid, oid)]))
        after = Archive(said.turns, ends)
        if after == said and before == list(link.before) and list(tips) == list(link.tips):
            return data
        tree, objects = archive_set.tree_of(after)
        self.objects |= {oid: made for oid, made in objects.items() if not self._reader.contains(oid)}
        return archive_set.encode(after, before, link.seconds, list(tips), tree=tree)

    def read(self, oid: Oid) -> tuple[Kind, bytes]:
        """What is new, and what there is."""
        return self.objects.get(oid) or self._reader.read(oid)

    def contains(self, oid: Oid) -> bool:
        return oid in self.objects or self._reader.contains(oid)

    def put(self, kind: Kind, data: bytes) -> Oid:
        """Add an object to the new ones, unless it is there already."""
        oid = oid_of(kind, data)
        if oid not in self.objects and not self._reader.contains(oid):
            self.objects[oid] = (kind, data)
        return oid

    def _instead(self, found: Node, parents: list[Oid]) -> tombstone.SubstituteCommit | None:
        """What stands in the place of an entry that was purged; ``None`` for one that stays."""
        if found.is_tombstone:
            return None
        purged = self._tombstones
        parts = self._kept(found)
        digest = self._digest(found, parts)
        first = found.replaces.hex() or digest
        if not purged.has_entry(first) and not purged.has_entry(digest):
            return None
        by = purged.instead(first if purged.has_entry(first) else digest)
        if by is None:
            return tombstone.of_entry(found, first, parents)
        if by.digest == digest:
            return None
        files = None if parts is None or parts.files is None else self._folder(parts.files)
        return tombstone.replaced(found, first, by, files, parents)

    def _digest(self, found: Node, parts: EntryTree | None = None) -> str:
        """The digest of an entry; where its payload is not here, the one of the set that its chain is made of."""
        parts = parts or self._kept(found)
        if parts is not None:
            return parts.digest.hex()
        above = self._node(found.parent) if found.parent is not None else None
        for key in (*self._tombstones.removed, *self._tombstones.replaced):
            if len(key) == 64 and chain_of(above.chain if above else None, bytes.fromhex(key)) == found.chain:
                return key
        return ""

    def _first_digest(self, found: Node) -> str:
        """The digest of the entry that stood there before any redaction."""
        return found.replaces.hex() or self._digest(found)

    def _begins(self, found: Node, began: Container[str]) -> bool:
        """Whether a session begins at this entry, of which the beginnings are ``began``."""
        if found.is_tombstone:
            return tombstone.of_node(self._reader, found).of in began
        return (
            found.source is None
            and found.kind in (Fork.kind, SessionHeader.kind)
            and self._first_digest(found) in began
        )

    def _without_files(self, found: Node) -> Oid | None:
        """The tree of an entry without purged files; ``None``: as it was."""
        if not self._tombstones.has_files:
            return None
        rows = {name: (mode, oid) for mode, name, oid in parse_tree(self._read(found.tree, "tree"))}
        if layout.FILES not in rows:
            return None
        before = rows[layout.FILES]
        rows[layout.FILES] = (layout.TREE_MODE, self._folder(before[1]))
        return None if rows[layout.FILES] == before else self.put("tree", encode_tree(rows))

    def _folder(self, oid: Oid) -> Oid:
        """A folder of captured files, those that were purged withheld."""
        if oid not in self._folders:
            rows = {}
            for mode, name, child in parse_tree(self._read(oid, "tree")):
                if mode == layout.TREE_MODE:
                    rows[name] = (mode, self._folder(child))
                elif mode != SUBMODULE_MODE and self._tombstones.has_file(child):
                    rows[name] = (layout.FILE_MODE, self.put("blob", WITHHELD))
                else:
                    rows[name] = (mode, child)
            self._folders[oid] = self.put("tree", encode_tree(rows))
        return self._folders[oid]

    # -- reading and keeping

    def _keep(self, oid: Oid, made: tombstone.SubstituteCommit) -> None:
        self._gone.add(oid)
        self._put_all(made)
        self.mapped[oid] = made.oid

    def _put_all(self, made: tombstone.SubstituteCommit) -> None:
        self.objects |= made.objects
        self.objects[made.oid] = ("commit", made.commit)
        self._same.add(made.oid)

    def _read(self, oid: Oid, expected: str) -> bytes:
        kind, data = self.read(oid)
        if kind != expected:
            raise Corrupt(f"{oid} is a {kind}, expected a {expected}")
        return data

    def _parents(self, oid: Oid) -> tuple[Oid, ...]:
        return parse_commit(self._read(oid, "commit")).parents

    def _node(self, oid: Oid) -> Node | None:
        """``None`` for a commit that is no entry."""
        try:
            return node.parse(oid, self._read(oid, "commit"))
        except Malformed:
            return None

    def _kept(self, found: Node) -> EntryTree | None:
        try:
            return content.kept(self._reader, found)
        except DAMAGE:
            return None


def _with_parents(data: bytes, old: tuple[Oid, ...], new: list[Oid]) -> bytes:
    """A commit with other parents, all else as it is, be it ours or not."""
    if list(old) == new:
        return data
    end = _TREE_BYTES + 1 + sum(len("parent \n") + 40 for _ in old)
    return data[: _TREE_BYTES + 1] + b"".join(f"parent {up}\n".encode() for up in new) + data[end:]


def session_of(name: str) -> str:
    """The session of a ref, be it here, at a remote or in the trash; "" for any other."""
    if name.startswith(refs.TRASH):
        name = refs.taken_out(name)
    elif name.startswith("refs/remotes/"):
        _, found, rest = name.partition("/sessions/")
        name = refs.SESSIONS + rest if found else ""
    return refs.session_of(name)


def rewrite_log(store: ObjectStore, tip: Oid, rewriter: Rewriter) -> Oid:
    """Map every commit that the operation log names, so that older commands can still be undone; the new tip.

    The log is this store's own, so its bytes need be the same nowhere else. Of a command that wrote or removed a
    purged entry only the name and what it was done to are kept: a label's text stands in both. Raises ``Malformed``.
    """
    mapped: dict[Oid, Oid] = {}
    for operation in reversed(list(operation_log.back(store, tip))):
        mapped[operation.id] = _mapped_operation(operation, mapped, rewriter)
    return mapped[tip]


def _mapped_operation(operation: Operation, before: Mapping[Oid, Oid], rewriter: Rewriter) -> Oid:
    def at(oid: Oid | None) -> Oid | None:
        return None if oid is None else before.get(oid, oid)

    found = replace(
        operation,
        parent=at(operation.parent),
        undoes=at(operation.undoes),
        redoes=at(operation.redoes),
        moves=tuple(
            Move(move.ref, _mapped_value(rewriter, move.ref, move.old), _mapped_value(rewriter, move.ref, move.new))
            for move in operation.moves
        ),
        files=operation.files and _mapped_files(rewriter, operation.files),
    )
    if any(map(rewriter.is_gone, operation.named)) or any(rewriter.is_purged(move.ref) for move in operation.moves):
        found = replace(found, command=" ".join(operation.command.split(" ")[:_COMMAND_WORDS]))
    return operation.id if found == operation else operation_log.keep(rewriter, found)


def _mapped_value(rewriter: Rewriter, name: str, value: RefValue | None) -> RefValue | None:
    if value is None or refs.target(value) is not None:
        return value
    try:
        return rewriter.ref(name, value)
    except DAMAGE:
        return value  # `verify` names it


def _mapped_files(rewriter: Rewriter, files: WorkspaceWrite) -> WorkspaceWrite:
    name = refs.files(files.session)
    safety, result = (_mapped_value(rewriter, name, oid) or oid for oid in (files.safety, files.result))
    return files._replace(safety=safety, result=result)
