"""A checkpointer for LangGraph: the threads of a graph are sessions of a store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from gitsession.api.session import Session
from gitsession.api.store import Store
from gitsession.frameworks.keyed_sessions import session_folder
from gitsession.frameworks.langgraph_thread import LangGraphThread, SavedCheckpoint
from gitsession.frameworks.langgraph_values import KEY, ValueCodec, serializer

_END = object()
_THREADS_MAX = 100
"""The number of threads, used last, whose entries stay in memory."""


class GitSessionSaver(BaseCheckpointSaver[int]):
    """A checkpointer that keeps the threads of a graph in a store.

    Each thread is a session with the id of the thread as its key, and each of its other checkpoint namespaces, such as
    that of a subgraph, is a session of its own. A checkpoint is an entry after the entry of its parent, so that forks
    of a thread are branches. Messages are message entries. Threads and processes can share a store.
    """

    def __init__(
        self,
        store: Store,
        *,
        serde: SerializerProtocol | None = None,
        cwd: str | None = None,
        types: Iterable[type[Any]] = (),
    ) -> None:
        """Wrap a store.

        Args:
            store: The open store. The caller closes it.
            serde: The serializer. With one that is not a ``JsonPlusSerializer``, such as one that encrypts, every value
                is stored as its bytes, and messages are no entries.
            cwd: The working directory of a new thread. Defaults to that of the process. Sessions of other namespaces
                have none, so that the address ``@`` finds the thread.
            types: The program's own classes whose objects are in the state of graphs. Objects of other classes are not
                restored, because a store can come from somebody else. Ignored if ``serde`` is given.
        """
        super().__init__(serde=serde or serializer(types))
        self.store = store
        self._cwd = cwd
        self._threads: dict[str, LangGraphThread] = {}
        self._lock = threading.Lock()

    def session(self, thread_id: str, checkpoint_ns: str = "") -> Session | None:
        """Return the session of a thread; ``None`` if there is none.

        Args:
            thread_id: The id of the thread.
            checkpoint_ns: The checkpoint namespace: "" for the graph itself.
        """
        return self.store.find_keyed(_key(thread_id, checkpoint_ns), agent=KEY)

    # ---- reading

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint: the one with the id in ``config``, or else the newest one of the active branch."""
        thread_id, namespace = _address(config)
        thread = self._thread(thread_id, namespace)
        if thread is None:
            return None
        with thread.lock:
            id = get_checkpoint_id(config)
            record = thread.find(id) if id else thread.newest()
            if record is None:
                return None
            found = self._tuple(thread_id, namespace, thread, record)
            if not id:
                thread.cache(record)
            return found

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, the newest first in each namespace.

        Args:
            config: The thread, and optionally the namespace and the id of a checkpoint. Defaults to all threads.
            filter: Values that the metadata must have.
            before: A checkpoint; only checkpoints with smaller ids are returned.
            limit: The maximum number of checkpoints.
        """
        return islice(self._matching(config, filter or {}, before), limit)

    def _matching(
        self, config: RunnableConfig | None, filter: Mapping[str, Any], before: RunnableConfig | None
    ) -> Iterator[CheckpointTuple]:
        wanted = get_checkpoint_id(config) if config else None
        end = get_checkpoint_id(before) if before else None
        for thread_id, namespace in self._addresses(config):
            thread = self._thread(thread_id, namespace)
            if thread is None:
                continue
            with thread.lock:
                records = thread.visible()
            for record in records:
                if (wanted and record.id != wanted) or (end and record.id >= end):
                    continue
                metadata = self._codec.decode(record.data["metadata"])
                if all(metadata.get(name) == value for name, value in filter.items()):
                    with thread.lock:
                        found = self._tuple(thread_id, namespace, thread, record)
                    yield found

    def _tuple(
        self, thread_id: str, namespace: str, thread: LangGraphThread, record: SavedCheckpoint
    ) -> CheckpointTuple:
        decode = self._codec.decode
        checkpoint = {**decode(record.data["checkpoint"]), "id": record.id, "channel_values": thread.values(record)}
        return CheckpointTuple(
            config=_config(thread_id, namespace, record.id),
            checkpoint=checkpoint,
            metadata=decode(record.data["metadata"]),
            parent_config=_config(thread_id, namespace, record.parent) if record.parent else None,
            pending_writes=[
                (task, write.channel, decode(write.plain)) for task, write in thread.ordered_writes(record.id)
            ],
        )

    def get_delta_channel_history(self, *, config: RunnableConfig, channels: Sequence[str]) -> Mapping[str, Any]:
        """Return the writes from which the values of ``DeltaChannel`` are computed, and the value before them.

        Args:
            config: The checkpoint, as for ``get_tuple``.
            channels: The names of the channels.

        Returns:
            For each channel, ``writes`` of the checkpoints before this one, the oldest first, since the last stored
            value, and that value as ``seed``, if there is one.
        """
        thread = self._thread(*_address(config))
        if thread is not None:
            with thread.lock:
                id = get_checkpoint_id(config)
                record = thread.find(id) if id else thread.newest()
                if record is not None:
                    return thread.delta_history(record, channels)
        return {name: {"writes": []} for name in channels}

    # ---- writing

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Append a checkpoint to the thread, and return its config. It is durable on return."""
        thread_id, namespace = _address(config)
        thread = self._new_thread(thread_id, namespace)
        with thread.lock:
            thread.put(checkpoint, get_checkpoint_metadata(config, metadata), get_checkpoint_id(config), new_versions)
        return _config(thread_id, namespace, checkpoint["id"])

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Append the writes of a task to the thread. Writes that are already recorded are not repeated."""
        thread = self._new_thread(*_address(config))
        with thread.lock:
            thread.put_writes(config["configurable"]["checkpoint_id"], writes, task_id, task_path)

    def delete_thread(self, thread_id: str) -> None:
        """Move the sessions of a thread to the trash."""
        with self._lock:
            sids = [row.sid for _, _, row in self._rows(str(thread_id))]
            if sids:
                self.store.trash.put(*sids)
            for key in [key for key in self._threads if _parsed(key)[0] == str(thread_id)]:
                del self._threads[key]

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Hide the checkpoints of some runs, and their writes, from LangGraph. ``gitsession tree`` still shows them."""
        runs = set(run_ids)
        for thread_id, namespace, _ in self._rows() if runs else ():
            self._delete(thread_id, namespace, lambda record: self._run_of(record) in runs)

    def _run_of(self, record: SavedCheckpoint) -> Any:
        return self._codec.decode(record.data["metadata"]).get("run_id")

    def _delete(self, thread_id: str, namespace: str, is_deleted: Any) -> None:
        thread = self._thread(thread_id, namespace)
        if thread is not None:
            with thread.lock:
                thread.delete([record.id for record in thread.visible() if is_deleted(record)])

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy the entries of a thread, with all branches, to the end of another thread."""
        for _, namespace, _ in self._rows(str(source_thread_id)):
            source = self._thread(str(source_thread_id), namespace)
            if source is not None:
                target = self._new_thread(str(target_thread_id), namespace)
                with source.lock, target.lock:
                    target.append_copies(source)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Hide all checkpoints of some threads but the newest of each namespace, or delete the threads.

        Args:
            thread_ids: The ids of the threads.
            strategy: ``"keep_latest"`` or ``"delete"``.
        """
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"the strategy must be 'keep_latest' or 'delete', not {strategy!r}")
        for thread_id in map(str, thread_ids):
            if strategy == "delete":
                self.delete_thread(thread_id)
                continue
            for _, namespace, _ in self._rows(thread_id):
                thread = self._thread(thread_id, namespace)
                kept = thread.newest() if thread else None
                self._delete(thread_id, namespace, lambda record, kept=kept: kept is None or record.id != kept.id)

    # ---- the same, asynchronously: the store is used in another thread

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint, as ``get_tuple`` does."""
        return await asyncio.to_thread(self.get_tuple, config)

    async def aget_delta_channel_history(self, *, config: RunnableConfig, channels: Sequence[str]) -> Mapping[str, Any]:
        """Return the writes of channels, as ``get_delta_channel_history`` does."""
        return await asyncio.to_thread(lambda: self.get_delta_channel_history(config=config, channels=channels))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, as ``list`` does."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (item := await asyncio.to_thread(next, found, _END)) is not _END:
            yield item

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Append a checkpoint, as ``put`` does."""
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Append the writes of a task, as ``put_writes`` does."""
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """Move the sessions of a thread to the trash."""
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Hide the checkpoints of some runs, as ``delete_for_runs`` does."""
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread, as ``copy_thread`` does."""
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Hide or delete the checkpoints of some threads, as ``prune`` does."""
        await asyncio.to_thread(lambda: self.prune(thread_ids, strategy=strategy))

    # ---- implementation

    @property
    def _codec(self) -> ValueCodec:
        return ValueCodec(self.serde)

    def _thread(self, thread_id: str, namespace: str) -> LangGraphThread | None:
        """Return an existing thread with all that any process has appended to it; ``None`` if there is none."""
        key = _key(thread_id, namespace)
        with self._lock:
            thread = self._threads.pop(key, None)
            if thread is None:
                session = self.store.find_keyed(key, agent=KEY)
                if session is None:
                    return None
                thread = self._opened(session)
            self._threads[key] = thread
            while len(self._threads) > _THREADS_MAX:
                del self._threads[next(iter(self._threads))]
        with thread.lock:
            if thread.refresh():
                return thread
        with self._lock:  # the session was moved to the trash
            if self._threads.get(key) is thread:
                del self._threads[key]
        return self._thread(thread_id, namespace)

    def _new_thread(self, thread_id: str, namespace: str) -> LangGraphThread:
        """Return a thread, which is created if there is none."""
        thread = self._thread(thread_id, namespace)
        while thread is None:
            cwd = None if namespace else session_folder(self._cwd)
            self.store.keyed_session(_key(thread_id, namespace), agent=KEY, cwd=cwd)
            thread = self._thread(thread_id, namespace)
        return thread

    def _opened(self, session: Session) -> LangGraphThread:
        return LangGraphThread(self.store.objects, session._session, self._codec)

    def _rows(self, thread_id: str | None = None) -> Sequence[tuple[str, str, Any]]:
        """Return the id, the namespace and the catalog's row of each session of LangGraph, or of one thread."""
        found = [(*_parsed(row.key), row) for row in self.store.sessions() if row.agent == KEY and row.key]
        return [one for one in found if thread_id is None or one[0] == thread_id]

    def _addresses(self, config: RunnableConfig | None) -> Sequence[tuple[str, str]]:
        """Return the threads and namespaces that a config selects."""
        if config is not None and config["configurable"].get("checkpoint_ns") is not None:
            return [_address(config)]
        thread_id = None if config is None else str(config["configurable"]["thread_id"])
        return [(thread, namespace) for thread, namespace, _ in self._rows(thread_id)]


def _address(config: RunnableConfig) -> tuple[str, str]:
    """Return the thread and the namespace in a config."""
    configurable = config["configurable"]
    return str(configurable["thread_id"]), configurable.get("checkpoint_ns") or ""


def _config(thread_id: str, namespace: str, id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": namespace, "checkpoint_id": id}}


def _key(thread_id: str, namespace: str) -> str:
    """Return the key of a session: the thread's id, and after ``#`` the namespace if it is not the graph's own."""
    key = thread_id.replace("%", "%25").replace("#", "%23")
    return f"{key}#{namespace}" if namespace else key


def _parsed(key: str) -> tuple[str, str]:
    """Return the thread and the namespace in a key."""
    thread_id, _, namespace = key.partition("#")
    return thread_id.replace("%23", "#").replace("%25", "%"), namespace
