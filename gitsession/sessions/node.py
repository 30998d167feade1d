"""Nodes: the metadata of entries, which is read from commits without their payloads."""

from __future__ import annotations

from typing import NamedTuple

from gitsession.codec import message
from gitsession.codec.digest import to_base64url
from gitsession.codec.message import SourceRef
from gitsession.errors import Corrupt, Malformed, MissingObject
from gitsession.git.objects import parse_commit
from gitsession.git.types import Oid, Reader
from gitsession.model.headline import CHECKPOINT, FORK, TOMBSTONE


class Node(NamedTuple):
    """The metadata of an entry.

    ``chain``: the chain digest, 32 bytes. ``author_seconds``: the time of the entry, Unix time in seconds.
    ``committer_seconds``: the same time, but never earlier than the parent's. ``replaces``: after a redaction, the
    digest of the entry that this one replaces; ``b""`` otherwise.
    """

    oid: Oid
    tree: Oid
    parent: Oid | None
    second_parent: Oid | None
    role: str
    author_seconds: int
    committer_seconds: int
    kind: str
    chain: bytes
    source: SourceRef | None
    subject: str
    model: str
    replaces: bytes = b""

    @property
    def is_tombstone(self) -> bool:
        """True for a tombstone. The author is compared, because an agent may have a kind with the same name."""
        return self.role == TOMBSTONE

    @property
    def starts_session(self) -> bool:
        """True if a session begins at this entry: a root that gitsession wrote, or a fork."""
        return self.source is None and (self.parent is None or self.kind == FORK)


_NO_ENTRY = "run `gitsession tree SESSION` to list the entries, then `gitsession branch SESSION NAME --at ENTRY`"


def parse(oid: Oid, data: bytes) -> Node:
    """Parse the bytes of a commit. Raises ``Malformed`` if the commit is not an entry."""
    try:
        commit = parse_commit(data)
        trailers = message.trailers_of(commit.message)
    except Malformed as error:
        raise Malformed(str(error), where=oid, hint=_NO_ENTRY) from None
    return Node(
        oid=oid,
        tree=commit.tree,
        parent=commit.parents[0] if commit.parents else None,
        second_parent=commit.parents[1] if len(commit.parents) > 1 else None,
        role=commit.author_name,
        author_seconds=commit.author_seconds,
        committer_seconds=commit.committer_seconds,
        kind=trailers.entry,
        chain=trailers.chain,
        source=trailers.source,
        subject=message.subject_of(commit.message),
        model=trailers.model,
        replaces=trailers.replaces,
    )


def load(store: Reader, oid: Oid) -> Node:
    """Return the node of the entry ``oid``. Raises ``MissingObject``, ``Corrupt`` or ``Malformed``."""
    kind, data = store.read(oid)
    if kind != "commit":
        raise Corrupt(f"object {oid} is a {kind}, not an entry")
    return parse(oid, data)


def short_id(chain: bytes) -> str:
    """Return the id that gitsession's own entries have in agents' files. FROZEN.

    The id is the first eight hexadecimal digits of the chain digest. Lines that the agent writes later refer to the
    entry by this id, and are stored unchanged.
    """
    return chain[:4].hex()


def position(node: Node) -> str:
    """Return the position of an imported entry as ``<line>:<chain>``, the format of ``SourceFile.superseded``."""
    return f"{node.source.line if node.source else ''}:{to_base64url(node.chain)}"


def copy_key(node: Node) -> tuple[Oid | None, int | None, bytes] | None:
    """Return the parent, the line and the chain digest of an entry, to which only one oid may belong.

    The result is ``None`` for an entry of which several copies can be valid: the chain digest does not include the
    files of a checkpoint, and a purged or redacted entry keeps that of the original one.
    """
    if node.kind == CHECKPOINT or node.is_tombstone or node.replaces:
        return None
    return node.parent, node.source.line if node.source else None, node.chain


def copy_problem(other: Oid) -> str:
    """Return the description of an entry whose ``copy_key`` is that of the entry ``other``."""
    return f"the same entry at the same position as {other}, with different bytes"


def line_of(pos: str) -> int | None:
    """Return the line number in a position; ``None`` if there is none."""
    line = pos.partition(":")[0]
    return int(line) if line.isascii() and line.isdigit() and len(line) < 19 else None


def first_parent(store: Reader, oid: Oid) -> Oid | None:
    """Return the first parent of a commit. The commit need not be an entry: another program may have written it."""
    try:
        kind, data = store.read(oid)
        return next(iter(parse_commit(data).parents), None) if kind == "commit" else None
    except (Malformed, Corrupt, MissingObject):
        return None
