"""An entry that is kept already, kept again behind another one: same payload, same words, another place."""

from __future__ import annotations

from gitsession.codec import headline as own_headline
from gitsession.codec import payload
from gitsession.codec.digest import digest as digest_of
from gitsession.codec.holes import Stored
from gitsession.errors import Malformed
from gitsession.formats import FORMATS
from gitsession.sessions import commit_writer, content
from gitsession.sessions.commit_writer import Draft, Objects
from gitsession.sessions.node import Node
from gitsession.store.interface import ObjectStore


def append(store: ObjectStore, objects: Objects, node: Node, parent: Node) -> Node:
    """Keep what ``node`` holds behind ``parent``. Raises as ``draft``."""
    data, made = commit_writer.commit_of(draft(store, node), node.tree, parent)
    objects.put("commit", data)
    return made


def draft(store: ObjectStore, node: Node) -> Draft:
    """What ``node`` holds. Raises ``Malformed`` for what this release does not know, ``MissingObject``, ``Corrupt``."""
    parts = content.kept(store, node)
    data = content.whole(store, node, parts)
    if node.source is None:
        headline = own_headline.headline(payload.decode(data)[0])
    elif node.source.agent in FORMATS:
        headline = FORMATS[node.source.agent].headline(data)
    else:
        raise Malformed(f"of an unknown agent: {node.source.agent[:40]!r}", where=node.oid)
    stored = Stored(parts.stored, parts.holes, ())
    return Draft(parts.form, stored, headline, node.source, parts.files, node.second_parent)


def digest(store: ObjectStore, node: Node) -> bytes:
    """The digest of what ``node`` holds, as it is stored."""
    parts = content.kept(store, node)
    return digest_of(parts.stored, parts.holes)
