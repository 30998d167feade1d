"""A store for LangGraph's long-term memory: each namespace is a session of a store."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchOp,
    TTLConfig,
    ensure_embeddings,
)

from gitsession.api.store import Store
from gitsession.frameworks.keyed_sessions import key_of, names_of
from gitsession.frameworks.langgraph_items import (
    AGENT,
    DELETED,
    RENEWED,
    MemoryItem,
    MemoryNamespace,
    Namespace,
    put_entry,
    texts_of,
)
from gitsession.frameworks.langgraph_search import list_namespaces, search
from gitsession.frameworks.langgraph_values import ValueCodec, serializer
from gitsession.frameworks.worker_thread import run_to_completion
from gitsession.index.catalogue import Row
from gitsession.model.entries import Custom, Entry

_NAMESPACES_MAX = 10_000
"""The number of namespaces, used last, whose items stay in memory."""


class _Embedded(NamedTuple):
    """The vectors of the texts and of the queries of a batch."""

    texts: dict[str, Sequence[float]]
    queries: dict[str, Sequence[float]]


class GitSessionMemoryStore(BaseStore):
    """A store for the long-term memory of graphs: ``compile(store=...)``.

    Each namespace is a session, whose key consists of the quoted labels, and each ``put`` is an entry. Threads and
    processes can share the memory. Values are returned as they were stored, and are durable when ``put`` returns.
    """

    supports_ttl = True

    def __init__(
        self,
        store: Store,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        serde: SerializerProtocol | None = None,
        types: Iterable[type[Any]] = (),
    ) -> None:
        """Wrap a store.

        Args:
            store: The open store. The caller closes it.
            index: The embeddings for ``search(query=...)``, as for ``InMemoryStore``. Without them, a query ranks the
                items by the words that they contain.
            ttl: The default time to live of items, and whether a read renews it.
            serde: The serializer of values. With one that is not a ``JsonPlusSerializer``, such as one that encrypts,
                every value is stored as its bytes, and no other program can search it.
            types: The program's own classes whose objects are in values. Objects of other classes are not restored,
                because a store can come from somebody else. Ignored if ``serde`` is given.
        """
        self.store = store
        self.ttl_config = ttl
        self._codec = ValueCodec(serde or serializer(types))
        self._embeddings = ensure_embeddings(index["embed"]) if index else None
        self._fields: Sequence[str] = (index or {}).get("fields") or ["$"]
        self._spaces: dict[Namespace, MemoryNamespace] = {}
        self._lock = threading.RLock()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Perform operations: those that read, and then those that write, all or none of each namespace."""
        ops = list(ops)
        texts, queries = self._to_embed(ops)
        vectors = self._embeddings.embed_documents(texts) if self._embeddings and texts else []
        asked = [self._embeddings.embed_query(query) for query in queries] if self._embeddings else []
        return self._perform(ops, _Embedded(dict(zip(texts, vectors)), dict(zip(queries, asked))))  # noqa: B905

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Perform operations, as ``batch`` does. A cancelled call is completed first, so that its outcome is known."""
        ops = list(ops)
        texts, queries = self._to_embed(ops)
        vectors = await self._embeddings.aembed_documents(texts) if self._embeddings and texts else []
        asked = await asyncio.gather(*map(self._embeddings.aembed_query, queries)) if self._embeddings else []
        embedded = _Embedded(dict(zip(texts, vectors)), dict(zip(queries, asked)))  # noqa: B905
        return await run_to_completion(lambda: self._perform(ops, embedded))

    # ---- implementation

    def _to_embed(self, ops: Sequence[Op]) -> tuple[list[str], list[str]]:
        """Return the texts and the queries of which vectors are needed."""
        if self._embeddings is None:
            return [], []
        texts = [text for op in _last_puts(ops).values() for text in self._texts(op).values()]
        queries = [op.query for op in ops if isinstance(op, SearchOp) and op.query]
        return list(dict.fromkeys(texts)), list(dict.fromkeys(queries))

    def _texts(self, op: PutOp) -> dict[str, str]:
        if op.value is None or op.index is False:
            return {}
        return texts_of(op.value, self._fields if op.index is None else op.index)

    def _perform(self, ops: Sequence[Op], embedded: _Embedded) -> list[Result]:
        with self._lock:
            now_ms = self.store._opened.clock()
            used: dict[Namespace, set[str]] = defaultdict(set)
            results = [self._read(op, embedded, now_ms, used) for op in ops]
            new: dict[Namespace, list[Entry]] = defaultdict(list)
            for namespace, keys in used.items():
                new[namespace].append(Custom(custom_type=RENEWED, data=sorted(keys)))
            for op in _last_puts(ops).values():
                if op.value is not None:
                    vectors = {path: embedded.texts[text] for path, text in self._texts(op).items() if embedded.texts}
                    new[op.namespace].append(put_entry(op, self._codec, vectors))
                elif self._find(op.namespace, op.key, now_ms) is not None:
                    new[op.namespace].append(Custom(custom_type=DELETED, data=op.key))
            for namespace, entries in new.items():
                self._append(namespace, entries)
            while len(self._spaces) > _NAMESPACES_MAX:
                del self._spaces[next(iter(self._spaces))]
            return results

    def _read(self, op: Op, embedded: _Embedded, now_ms: int, used: dict[Namespace, set[str]]) -> Result:
        """Return the result of an operation, and add the items whose time to live it renews to ``used``."""
        if isinstance(op, PutOp):
            return None
        if isinstance(op, ListNamespacesOp):
            return list_namespaces(op, [name for name, space in self._all(()) if space.live(now_ms)])
        found: list[Any]
        if isinstance(op, GetOp):
            one = self._find(op.namespace, op.key, now_ms)
            found = [] if one is None else [one.item]
        elif isinstance(op, SearchOp):
            spaces = {name: space.live(now_ms) for name, space in self._all(op.namespace_prefix)}
            found = search(op, spaces, embedded.queries.get(op.query or ""), self._fields)
        else:
            raise ValueError(f"unknown operation: {type(op).__name__}")
        for item in found if op.refresh_ttl else ():
            if self._spaces[item.namespace].find(item.key, now_ms).needs_renewal(now_ms):  # type: ignore[union-attr]
                used[item.namespace].add(item.key)
        copies = [_copied(item) for item in found]
        return copies if isinstance(op, SearchOp) else next(iter(copies), None)

    def _find(self, namespace: Namespace, key: str, now_ms: int) -> MemoryItem | None:
        space = self._space(namespace)
        return None if space is None else space.find(key, now_ms)

    def _space(self, namespace: Namespace) -> MemoryNamespace | None:
        """Return a namespace with all that any process has stored in it; ``None`` if there is none."""
        space = self._spaces.pop(namespace, None)
        if space is None or not space.refresh():  # if its session was moved to the trash, there may be another one
            session = self.store.find_keyed(key_of(*namespace), agent=AGENT) if namespace else None
            if session is None:
                return None
            space = MemoryNamespace(self.store.objects, session, namespace, self._codec)
            space.refresh()
        self._spaces[namespace] = space
        return space

    def _all(self, prefix: Namespace) -> list[tuple[Namespace, MemoryNamespace]]:
        """Return the namespaces that begin with ``prefix``, the oldest first."""
        rows: dict[Namespace, Row] = {}
        for row in self.store.sessions():
            namespace = names_of(row.key) if row.agent == AGENT and row.key else None
            if namespace is not None:
                rows.setdefault(namespace, row)  # of several sessions with a key, the newest one is used
        found = []
        for name, row in sorted(rows.items(), key=lambda each: (each[1].created_ms, each[1].sid)):
            if name[: len(prefix)] == tuple(prefix):
                known = self._spaces.get(name)
                is_current = known is not None and known.tip == row.branches.get(row.active)
                space = known if is_current else self._space(name)
                found += [] if space is None else [(name, space)]
        return found

    def _append(self, namespace: Namespace, entries: Sequence[Entry]) -> None:
        space = self._space(namespace)
        if space is None:
            if not namespace:
                raise InvalidNamespaceError("the namespace of an item cannot be empty")
            session = self.store.keyed_session(key_of(*namespace), agent=AGENT)
        else:
            session = space.session
        session.append_all(entries, to_active=True)


def _last_puts(ops: Sequence[Op]) -> dict[tuple[Namespace, str], PutOp]:
    """Return the last ``put`` or ``delete`` of each item."""
    return {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}


def _copied(item: Item) -> Item:
    """Return an item with a value that the caller may change."""
    found = copy.copy(item)
    found.value = copy.deepcopy(item.value)
    return found
