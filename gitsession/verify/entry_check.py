"""Is one entry what docs/format.md says? Everything that its commit, its tree and its payload claim, derived again."""

from __future__ import annotations

from collections.abc import Iterator

from gitsession.codec import holes, payload
from gitsession.codec.digest import chain as chain_of
from gitsession.codec.digest import digest as digest_of
from gitsession.errors import GitSessionError, Malformed
from gitsession.formats import FORMATS
from gitsession.git.objects import oid_of, parse_commit
from gitsession.git.types import Oid, Reader
from gitsession.model.headline import Headline
from gitsession.sessions import commit_writer, content, layout, tombstone
from gitsession.sessions.content import Rows
from gitsession.sessions.node import Node, load
from gitsession.sessions.tombstone_set import Tombstones
from gitsession.verify.manifests import Manifests


def check(
    store: Reader,
    node: Node,
    parent: Node | None,
    *,
    judge_words: bool = True,
    tombstones: Tombstones | None = None,
    manifests: Manifests | None = None,
) -> Iterator[str]:
    """What is wrong with one entry; raises where it cannot be read. ``judge_words``: whether its view is ours.

    ``tombstones``: what was purged; without it nobody asks whether a tombstone stands where one may. ``manifests``: who
    looks into the files that it holds.
    """
    if node.parent is not None and parent is None:
        yield f"its parent {node.parent} cannot be read"
        return
    if node.second_parent is not None:
        yield from _second_parent_problems(store, node.second_parent)
    tree = content.tree_of(store, node.tree)
    yield from _tree_problems(store, node.tree, tree)
    parts = content.kept_of(store, node.tree, tree)
    digest = digest_of(parts.stored, parts.holes)
    of = tombstone.stands_for(node, parts) or digest
    chain = chain_of(None if parent is None else parent.chain, of)
    if chain != node.chain:
        yield "the chain does not fit: the payload, or an entry before it, is not what was written here"
    if tombstones is not None:
        yield from purge_problems(node, digest.hex(), of.hex(), tombstones)
    if manifests is not None and parts.files is not None:
        yield from manifests.problems(parts.files)
    data = content.whole(store, node, parts)
    if any(not _is_placeholder(data, row) for row in holes.hidden(parts.holes)):
        yield "a placeholder for a secret is not where the holes say"
    headline = _headline(node, parts.form, data) if judge_words or node.is_tombstone else None
    if headline is None:
        return
    replaces = of if node.replaces and not node.is_tombstone else b""
    expected = commit_writer.build_commit(
        chain, headline, node.source, node.tree, parent, node.second_parent, replaces
    ).data
    if oid_of("commit", expected) != node.oid:
        yield from _commit_problems(expected, store.read(node.oid)[1])


def purge_problems(node: Node, digest: str, of: str, tombstones: Tombstones) -> Iterator[str]:
    """What was purged is not there, and nothing stands for what was not."""
    if node.is_tombstone:
        if not tombstones.stands(of):
            yield f"a tombstone of {of}, which was not purged"
        return
    instead = tombstones.instead(of) if tombstones.has_entry(of) else None
    if tombstones.has_entry(of):
        if instead is None or instead.digest != digest:
            yield f"the entry {of} was purged"
    elif node.replaces:
        yield f"stands in the place of {of}, which was not redacted"
    elif tombstones.has_entry(digest):
        yield f"the entry {digest} was purged"


def _second_parent_problems(store: Reader, oid: Oid) -> Iterator[str]:
    try:
        load(store, oid)
    except GitSessionError as error:
        yield f"its second parent is no entry: {error}"


def _headline(node: Node, form: str, data: bytes) -> Headline | None:
    """The words that the message must have; ``None`` where this release does not know the agent."""
    if node.is_tombstone:
        return payload.headline(tombstone.read(node, form, data))
    format = FORMATS.get(node.source.agent) if node.source else None
    if node.source is not None and format is None:
        return None
    expected = layout.OWN if format is None else format.FORM
    if form != expected:
        raise Malformed(f"kept as {layout.payload(form)}, expected {layout.payload(expected)}")
    return payload.headline(payload.decode(data)[0]) if format is None else format.headline(data)


def _is_placeholder(data: bytes, row: holes.PlaceholderSpan) -> bool:
    return data[row.offset : row.offset + row.length].startswith(f"[redacted:{row.rule}]".encode())


def _tree_problems(store: Reader, oid: Oid, rows: Rows) -> Iterator[str]:
    if len(rows) == 1 and rows[0][0] == layout.FILE_MODE and layout.form_of(rows[0][1]) is not None:
        return  # most of what there is
    top = {name: (mode, oid) for mode, name, oid in rows}
    for name, (mode, _) in top.items():
        layout.check(name, oid)
        expected = layout.TREE_MODE if name in (layout.BLOBS, layout.FILES) else layout.FILE_MODE
        if mode != expected:
            yield f"{name} has mode {mode}, expected {expected}"
    if sum(layout.form_of(name) is not None for name in top) != 1:
        yield "expected one payload in the tree"
    lifted = set()
    if layout.HOLES in top:
        table = holes.parse(store.read(top[layout.HOLES][1])[1])
        lifted = {digest.hex() for _, _, digest, encoding in table if encoding != "summary"}
        if any(encoding == "summary" for *_, encoding in table) != (layout.SUMMARY in top):
            yield f"{layout.SUMMARY} and the holes disagree"
    elif layout.SUMMARY in top:
        yield f"{layout.SUMMARY} without a hole that names it"
    kept = content.tree_of(store, top[layout.BLOBS][1]) if layout.BLOBS in top else []
    for mode, name, _ in kept:
        if mode != layout.FILE_MODE:
            yield f"{layout.BLOBS}/{name} has mode {mode}, expected {layout.FILE_MODE}"
    if {name for _, name, _ in kept} != lifted:
        yield f"{layout.BLOBS}/ and the holes disagree"


def _commit_problems(expected: bytes, found: bytes) -> Iterator[str]:
    try:
        ours, theirs = parse_commit(expected), parse_commit(found)
    except Malformed as error:
        yield str(error)
        return
    if ours.message != theirs.message:
        yield "the commit message is not the one its payload has"
    if ours.author_name != theirs.author_name:
        yield f"the author is {theirs.author_name!r}, the payload says {ours.author_name!r}"
    if (ours.author_seconds, ours.committer_seconds) != (theirs.author_seconds, theirs.committer_seconds):
        yield "the commit's times are not those of its payload and its parent"
    if ours == theirs:
        yield "the commit has headers that no entry has"
