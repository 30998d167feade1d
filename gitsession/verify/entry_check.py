"""The check of one entry against docs/reference/format.md.

The tree and the payload of the entry are read. Its commit is built again and compared with the stored commit.
"""

from __future__ import annotations

from collections.abc import Iterator

from gitsession.codec import holes, payload
from gitsession.codec.digest import chain as chain_of
from gitsession.errors import GitSessionError, Malformed
from gitsession.formats import FORMATS, Document, with_capability
from gitsession.formats.base.record import TAIL
from gitsession.git.objects import FILE_MODES, SUBMODULE_MODE, TREE_MODE, oid_of, parse_commit
from gitsession.git.types import Oid, Reader
from gitsession.model.entries import (
    KINDS,
    Attachment,
    Checkpoint,
    Continuation,
    Instructions,
    Label,
    Project,
    Seal,
    SessionHeader,
    SourceFile,
    Title,
    Tombstone,
)
from gitsession.model.headline import Headline
from gitsession.redaction.original import OPENS, placeholder
from gitsession.sessions import commit_writer, content, layout, tombstone
from gitsession.sessions.content import Rows, tree_of
from gitsession.sessions.meta import is_exported_line
from gitsession.sessions.node import Node, load
from gitsession.sessions.tombstone_set import Tombstones
from gitsession.store import refs
from gitsession.workspace.names import DEPTH_MAX, tree_refusal
from gitsession.workspace.trees import NAMES_MAX


class Manifests:
    """A check of trees of captured files. Each tree is read only once.

    ``is_partial``: whether the store is a partial clone. Missing files are then not reported, because git can fetch
    them.
    """

    def __init__(self, store: Reader, *, is_partial: bool = False) -> None:
        self._store = store
        self._is_partial = is_partial
        self._checked_depths: dict[Oid, int] = {}

    def problems(self, tree: Oid) -> Iterator[str]:
        """Yield the problems of the files in ``tree``."""
        stack: list[tuple[str, Oid, int]] = [("", tree, 1)]
        names = 0
        while stack:
            base, oid, depth = stack.pop()
            if self._checked_depths.get(oid, 0) >= depth:
                continue
            if depth > DEPTH_MAX:
                yield f"files/{_shown(base)} is more than {DEPTH_MAX} folders deep"
                return
            try:
                rows = tree_of(self._store, oid)
            except GitSessionError as error:
                yield f"files/{_shown(base)} cannot be read: {error}"
                continue
            names += len(rows)
            if names > NAMES_MAX:
                yield f"files/ has more than {NAMES_MAX:,} names"
                return
            problems = list(self._folder_problems(base, rows))
            yield from problems
            if not problems:
                self._checked_depths[oid] = depth
            stack += [(f"{base}{name}/", child, depth + 1) for mode, name, child in rows if mode == TREE_MODE]

    def _folder_problems(self, base: str, rows: Rows) -> Iterator[str]:
        for mode, name, oid in rows:
            reason = tree_refusal(name)
            if reason:
                yield f"files/{_shown(base + name)}: {reason}"
            if mode in (TREE_MODE, SUBMODULE_MODE):
                continue
            if mode not in FILE_MODES:
                yield f"files/{_shown(base + name)} has the invalid mode {mode}"
            elif not self._is_partial and not self._store.contains(oid):
                yield f"files/{_shown(base + name)}: the blob {oid} is missing"


def path_problems(entry: Checkpoint) -> Iterator[str]:
    """Yield the problems of the paths in a checkpoint.

    A name with a placeholder is not checked, because no file with such a name is written.
    """
    for path in {*entry.paths, *entry.appeared, *(path for path, _ in entry.skipped)}:
        components = path.split("/")
        reason = next((reason for name in components if OPENS not in name and (reason := tree_refusal(name))), None)
        if len(components) > DEPTH_MAX:
            reason = f"more than {DEPTH_MAX} folders deep"
        if reason:
            yield f"the checkpoint lists {_shown(path)}: {reason}"


def _shown(path: str) -> str:
    return ascii(path[:80])[1:-1]


_ON_META = {
    kind.kind
    for kind in (
        *(Attachment, Continuation, Instructions, Label, Project, Seal, SessionHeader, SourceFile, Title),
        Tombstone,
    )
}
_ON_FILES = {Checkpoint.kind, Tombstone.kind}
_NOT_ON_A_BRANCH = {kind.kind for kind in (Attachment, Checkpoint, Continuation, Project, Seal, SourceFile)}


def is_allowed_on(node: Node, ref_type: str) -> bool:
    """Return whether an entry may be on a ref of type ``ref_type``: ``meta``, ``files``, or a branch.

    ``meta`` contains the properties of a session that can change. An entry whose kind is from a later version may be on
    any ref.
    """
    if node.kind not in KINDS and node.source is None:
        return True
    if ref_type == refs.META:
        return node.kind in _ON_META or _is_file_part(node) or is_exported_line(node)
    if ref_type == refs.FILES:
        return node.kind in _ON_FILES
    return node.source is not None or node.kind not in _NOT_ON_A_BRANCH


def _is_file_part(node: Node) -> bool:
    """Return whether an entry on ``meta`` is the unfinished end of a file, or an unchanged part of a document."""
    if node.source is None:
        return False
    return node.source.line == TAIL or with_capability(node.source.agent, Document) is not None


def check(
    store: Reader,
    node: Node,
    parent: Node | None,
    *,
    check_message: bool = True,
    tombstones: Tombstones | None = None,
    manifests: Manifests | None = None,
) -> Iterator[str]:
    """Yield the problems of ``node``. Raises ``GitSessionError`` if the entry cannot be read.

    Args:
        store: Reader of the store's objects.
        node: The entry.
        parent: Its parent; ``None`` for a root, or if the parent cannot be read.
        check_message: Whether to check the commit message. This requires a view that this release supports.
        tombstones: The tombstone set; ``None`` to skip the check for purged entries.
        manifests: Check of the entry's captured files; ``None`` to skip this check.
    """
    if node.parent is not None and parent is None:
        yield f"the parent {node.parent} cannot be read"
        return
    if node.second_parent is not None:
        try:
            load(store, node.second_parent)
        except GitSessionError as error:
            yield f"the second parent is not an entry: {error}"
    tree = content.tree_of(store, node.tree)
    yield from _tree_problems(store, node.tree, tree)
    parts = content.entry_tree_from_rows(store, node.tree, tree)
    digest = parts.digest
    original = tombstone.replaced_digest(node, parts) or digest
    chain = chain_of(None if parent is None else parent.chain, original)
    if chain != node.chain:
        yield "the chain digest does not match: the payload or an earlier entry was changed"
    if tombstones or (tombstones is not None and (node.is_tombstone or node.replaces)):
        yield from purge_problems(node, digest.hex(), original.hex(), tombstones)
    if manifests is not None and parts.files is not None:
        yield from manifests.problems(parts.files)
    data = content.full_payload(store, node, parts)
    if parts.holes and not all(
        data.startswith(placeholder(row.rule), row.offset, row.offset + row.length) for row in holes.hidden(parts.holes)
    ):
        yield "a placeholder for a secret is not at its position in the list of holes"
    headline = _headline(node, parts.form, data) if check_message or node.is_tombstone else None
    if headline is None:
        return
    yield from _summary_problems(store, tree, commit_writer.summary_of(parts.form, headline), parts.form)
    replaces = original if node.replaces and not node.is_tombstone else b""
    expected = commit_writer.build_commit(
        chain, headline, node.source, node.tree, parent, node.second_parent, replaces
    ).data
    if oid_of("commit", expected) != node.oid:
        yield from _commit_problems(expected, store.read(node.oid)[1])


def purge_problems(node: Node, digest: str, original: str, tombstones: Tombstones) -> Iterator[str]:
    """Yield a problem if a purged entry still exists, or if an entry replaces another one that was not purged."""
    if node.is_tombstone:
        if not tombstones.is_valid(original):
            yield f"a tombstone of {original}, which was not purged"
        return
    replacement = tombstones.replacement_of(original) if tombstones.has_entry(original) else None
    if tombstones.has_entry(original):
        if replacement is None or replacement.digest != digest:
            yield f"the entry {original} was purged"
    elif node.replaces:
        yield f"replaces {original}, which was not redacted"
    elif tombstones.has_entry(digest):
        yield f"the entry {digest} was purged"


def _headline(node: Node, form: str, data: bytes) -> Headline | None:
    """Return the headline that the commit message must have; ``None`` if this release does not support the agent."""
    if node.is_tombstone:
        return payload.headline(tombstone.read(node, form, data))
    format = FORMATS.get(node.source.agent) if node.source else None
    if node.source is not None and format is None:
        return None
    expected = layout.OWN if format is None else format.FORM
    if form != expected:
        raise Malformed(f"stored as {layout.PAYLOAD}{form}, expected {layout.PAYLOAD}{expected}")
    return payload.headline(payload.decode(data)[0]) if format is None else format.headline(data)


def _tree_problems(store: Reader, oid: Oid, rows: Rows) -> Iterator[str]:
    if len(rows) == 1 and rows[0][0] == layout.FILE_MODE and layout.form_of(rows[0][1]) is not None:
        return  # the most frequent case
    top = {name: (mode, oid) for mode, name, oid in rows}
    for name, (mode, _) in top.items():
        layout.check(name, oid)
        expected = layout.TREE_MODE if name in (layout.BLOBS, layout.FILES) else layout.FILE_MODE
        if mode != expected:
            yield f"{name} has mode {mode}, expected {expected}"
    if sum(layout.form_of(name) is not None for name in top) != 1:
        yield "expected one payload in the tree"
    lifted = set()
    is_filling = layout.SUMMARY in top and layout.PAYLOAD + layout.OWN in top
    if layout.HOLES in top:
        table = holes.parse(store.read(top[layout.HOLES][1])[1])
        lifted = {digest.hex() for _, _, digest, encoding in table if encoding != "summary"}
        if any(encoding == "summary" for *_, encoding in table) != is_filling:
            yield f"{layout.SUMMARY} and the list of holes do not match"
    elif is_filling:
        yield f"{layout.SUMMARY} exists, but no hole refers to it"
    blobs = content.tree_of(store, top[layout.BLOBS][1]) if layout.BLOBS in top else []
    for mode, name, _ in blobs:
        if mode != layout.FILE_MODE:
            yield f"{layout.BLOBS}/{name} has mode {mode}, expected {layout.FILE_MODE}"
    if {name for _, name, _ in blobs} != lifted:
        yield f"{layout.BLOBS}/ and the list of holes do not match"


def _summary_problems(store: Reader, rows: Rows, expected: bytes, form: str) -> Iterator[str]:
    """Yield a problem if the ``summary.md`` of an agent's entry is not ``expected``."""
    found = next((oid for _, name, oid in rows if name == layout.SUMMARY), None)
    if form != layout.OWN and (b"" if found is None else store.read(found)[1]) != expected:
        yield f"{layout.SUMMARY} does not match the payload"


def _commit_problems(expected: bytes, found: bytes) -> Iterator[str]:
    try:
        expected_commit, found_commit = parse_commit(expected), parse_commit(found)
    except Malformed as error:
        yield str(error)
        return
    if expected_commit.message != found_commit.message:
        yield "the commit message does not match the payload"
    if expected_commit.author_name != found_commit.author_name:
        yield f"the author is {found_commit.author_name!r}, expected {expected_commit.author_name!r}"
    if (expected_commit.author_seconds, expected_commit.committer_seconds) != (
        found_commit.author_seconds,
        found_commit.committer_seconds,
    ):
        yield "the times of the commit do not match the payload and the parent"
    if expected_commit == found_commit:
        yield "the commit has unexpected headers"
