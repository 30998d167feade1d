"""Search in the items of LangGraph's long-term memory, with the rules of ``InMemoryStore``."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.store.base import ListNamespacesOp, SearchItem, SearchOp
from langgraph.store.memory import InMemoryStore

from gitsession.frameworks.langgraph_items import MemoryItem, Namespace, texts_of
from gitsession.index.text_scores import text_scores

Spaces = Mapping[Namespace, Mapping[str, MemoryItem]]


def list_namespaces(op: ListNamespacesOp, namespaces: Sequence[Namespace]) -> list[Namespace]:
    """Return the namespaces that match an operation."""
    peer = InMemoryStore()
    peer._data.update({namespace: {} for namespace in namespaces})
    return peer.batch([op])[0]


def search(op: SearchOp, spaces: Spaces, vector: Sequence[float] | None, fields: Sequence[str]) -> list[SearchItem]:
    """Return the items that match an operation.

    Args:
        op: The operation.
        spaces: The items of the namespaces.
        vector: The vector of the query; ``None`` if there is none.
        fields: The fields of a value that are searched by words if the item names none.

    Returns:
        With a vector, the items by their similarity. With a query but without a vector, the items with words of the
        query, the best match first, and then the others.
    """
    if vector is not None:
        return _found(op, spaces, vector)
    if not op.query:
        return _found(op, spaces)
    found = _found(op._replace(query=None, limit=sys.maxsize, offset=0), spaces)
    return _ranked(found, op.query, spaces, fields)[op.offset : op.offset + op.limit]


def _found(op: SearchOp, spaces: Spaces, vector: Sequence[float] | None = None) -> list[SearchItem]:
    index: Any = None if vector is None else {"dims": len(vector), "embed": lambda texts: [vector for _ in texts]}
    peer = InMemoryStore(index=index)
    for namespace, items in spaces.items():
        peer._data[namespace] = {key: one.item for key, one in items.items()}
        for key, one in items.items() if vector is not None else ():
            fitting = {path: [*known] for path, known in one.vectors.items() if len(known) == len(vector or ())}
            peer._vectors[namespace][key] = fitting
    return peer.batch([op])[0]


def _ranked(found: list[SearchItem], query: str, spaces: Spaces, fields: Sequence[str]) -> list[SearchItem]:
    """Return the items with words of ``query``, the best match first, and then the others."""
    scores = text_scores(query, (_text(spaces[item.namespace][item.key], fields) for item in found))
    for number, item in enumerate(found):
        item.score = scores.get(number)
    return sorted(found, key=lambda item: -(item.score or 0.0))


def _text(item: MemoryItem, fields: Sequence[str]) -> str:
    if item.fields is False:
        return ""
    return "\n".join(texts_of(item.item.value, fields if item.fields is None else item.fields).values())
