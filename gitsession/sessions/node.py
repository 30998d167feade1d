"""An entry as the graph shows it: what its commit alone says, without its payload."""

from __future__ import annotations

from typing import NamedTuple

from gitsession.codec import message
from gitsession.codec.digest import to_base64url
from gitsession.codec.message import SourceRef
from gitsession.errors import Corrupt, Malformed, MissingObject
from gitsession.git.objects import parse_commit
from gitsession.git.types import Oid, Reader
from gitsession.model.headline import FORK, TOMBSTONE


class Node(NamedTuple):
    """``chain``: 32 bytes. ``author_seconds``: the entry's own time; ``committer_seconds`` never runs backwards.

    ``replaces``: the digest of the entry in whose place this one stands after a redaction, ``b""`` for all others.
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
        """Whether it stands for a purged entry. Its author tells: an agent may call a kind of its own so, too."""
        return self.role == TOMBSTONE

    @property
    def starts_session(self) -> bool:
        """True if a session begins there: at a root of ours, or at a fork."""
        return self.source is None and (self.parent is None or self.kind == FORK)


_NO_ENTRY = "`gitsession tree SESSION` shows the entries; `gitsession branch SESSION NAME --at ENTRY` goes on from one"


def parse(oid: Oid, data: bytes) -> Node:
    """The node of a commit's bytes. Raises ``Malformed`` where it is no entry of ours."""
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
    """The entry ``oid``. Raises ``MissingObject``, ``Corrupt`` or ``Malformed``."""
    kind, data = store.read(oid)
    if kind != "commit":
        raise Corrupt(f"{oid} is a {kind}, expected an entry")
    return parse(oid, data)


def short_id(chain: bytes) -> str:
    """What an agent's file calls an entry of ours: the first eight hexadecimal digits of its chain. FROZEN.

    What the agent writes later names the entry by it, and those lines are kept as they are.
    """
    return chain[:4].hex()


def position(node: Node) -> str:
    """How ``SourceFile.superseded`` names an imported entry: ``<line>:<chain>``."""
    return f"{node.source.line if node.source else ''}:{to_base64url(node.chain)}"


def line_of(place: str) -> int | None:
    """The line in a position; ``None`` for a text that is none."""
    line = place.partition(":")[0]
    return int(line) if line.isascii() and line.isdigit() and len(line) < 19 else None


def before(store: Reader, oid: Oid) -> Oid | None:
    """The first parent of a commit that need not be an entry: where to go on when somebody committed on top of one."""
    try:
        kind, data = store.read(oid)
        return next(iter(parse_commit(data).parents), None) if kind == "commit" else None
    except (Malformed, Corrupt, MissingObject):
        return None
