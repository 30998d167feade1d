"""Microsoft Agent Framework: a storage for the checkpoints of workflows.

A checkpoint is a ``custom`` entry. It follows the checkpoint that it continues: if that one is not the newest one of
the active branch, the new checkpoint is on another branch, which becomes the active one.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard
from uuid import uuid4

from agent_framework import WorkflowCheckpoint, WorkflowCheckpointException

from gitsession.frameworks.agent_framework_values import CheckpointCodec
from gitsession.frameworks.keyed_sessions import find_session, locked, open_session
from gitsession.frameworks.worker_thread import run_to_completion
from gitsession.model.entries import Custom, Entry
from gitsession.sessions.graph import numbered_name
from gitsession.sessions.node import Node

if TYPE_CHECKING:
    from gitsession.api.session import Session
    from gitsession.api.store import Store

WORKFLOWS = "agent-framework-workflow"
"""The name of the agent of the sessions of workflows. Their keys are names of workflows, not ids of sessions."""

_SAVED, _DELETED = "agent-framework:checkpoint", "agent-framework:deleted"
_FAILURES = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
_logger = logging.getLogger(__name__)


class _Saved(NamedTuple):
    """A stored checkpoint: its session and entry, and the content of the entry."""

    session: Session
    node: Node
    data: Mapping[str, Any]

    @property
    def id(self) -> Any:
        return self.data["id"]


class GitSessionCheckpointStorage:
    """The checkpoints of workflows, in a session for each workflow: ``WorkflowBuilder(checkpoint_storage=storage)``.

    ``get_latest`` returns the newest checkpoint of the active branch, so that a workflow continues where
    ``gitsession rewind`` or ``switch`` went. The other methods find the checkpoints of all branches.

    Checkpoints are JSON. Nothing is pickled or unpickled. Several threads and processes can use the same session.
    """

    def __init__(
        self,
        store: Store,
        *,
        session_id: str | None = None,
        cwd: str | None = None,
        types: Iterable[type[Any]] = (),
    ) -> None:
        """Wrap an open store.

        Args:
            store: The store. The program closes it.
            session_id: The program's id, or the id in the store, of one session for the checkpoints of all workflows.
                By default, each workflow has a session, whose key is the workflow's name.
            cwd: The working directory of new sessions, in which the tools work. Defaults to that of the process.
            types: The program's own classes whose objects are in checkpoints, such as the messages between executors.
        """
        self._store = store
        self._session_id = session_id
        self._cwd = cwd
        self._codec = CheckpointCodec(types)
        self._mutex = threading.Lock()

    def stored(self, workflow_name: str) -> Session:
        """Return the gitsession session of a workflow, on its active branch. It is created if necessary."""
        return open_session(self._store, self._session_id or workflow_name, agent=WORKFLOWS, cwd=self._cwd)

    async def save(self, checkpoint: WorkflowCheckpoint) -> str:
        """Store a checkpoint, and return its id. The checkpoint is durable on return.

        Raises:
            WorkflowCheckpointException: The checkpoint has an object of a class that is not in ``types``.
            Malformed: The checkpoint is too large.
        """
        data = {"id": checkpoint.checkpoint_id, "workflow": checkpoint.workflow_name, "save": uuid4().hex}
        entry = Custom(custom_type=_SAVED, data={**data, "checkpoint": self._encoded(checkpoint)})
        await run_to_completion(lambda: self._save(entry, checkpoint.workflow_name, checkpoint.previous_checkpoint_id))
        return checkpoint.checkpoint_id

    async def load(self, checkpoint_id: str) -> WorkflowCheckpoint:
        """Return a checkpoint of any branch.

        Raises ``WorkflowCheckpointException`` if there is none, or if it has a class that is not in ``types``.
        """
        found = await asyncio.to_thread(self._find, checkpoint_id)
        if found is None:
            raise WorkflowCheckpointException(f"No checkpoint found with ID {checkpoint_id}")
        return self._decoded(found)

    async def list_checkpoints(self, *, workflow_name: str) -> list[WorkflowCheckpoint]:
        """Return the checkpoints of all branches, the oldest first. Those that cannot be restored are left out."""
        found = []
        for saved in await asyncio.to_thread(self._of, workflow_name):
            try:
                found.append(self._decoded(saved))
            except WorkflowCheckpointException as error:
                _logger.warning("%s", error)
        return found

    async def delete(self, checkpoint_id: str) -> bool:
        """Hide a checkpoint, and return whether it existed. It stays in the history; ``purge`` deletes it."""
        return await run_to_completion(lambda: self._delete(checkpoint_id))

    async def get_latest(self, *, workflow_name: str) -> WorkflowCheckpoint | None:
        """Return the newest checkpoint of the active branch; ``None`` if there is none."""
        found = await asyncio.to_thread(self._latest, workflow_name)
        return None if found is None else self._decoded(found)

    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        """Return the ids of the checkpoints that ``list_checkpoints`` returns."""
        return [checkpoint.checkpoint_id for checkpoint in await self.list_checkpoints(workflow_name=workflow_name)]

    # ---- conversion

    def _encoded(self, checkpoint: WorkflowCheckpoint) -> str:
        try:
            return json.dumps(self._codec.encode(checkpoint.to_dict()))
        except _FAILURES as error:
            raise WorkflowCheckpointException(
                f"cannot store checkpoint {checkpoint.checkpoint_id!r}: {error}; "
                f"if it is a class of the program, pass it in 'types' to GitSessionCheckpointStorage"
            ) from error

    def _decoded(self, saved: _Saved) -> WorkflowCheckpoint:
        try:
            return WorkflowCheckpoint.from_dict(self._codec.decode(json.loads(saved.data["checkpoint"])))
        except (*_FAILURES, WorkflowCheckpointException) as error:
            raise WorkflowCheckpointException(f"cannot restore checkpoint {saved.id!r}: {error}") from error

    # ---- reading, in threads

    def _session(self, workflow_name: str) -> Session | None:
        id = self._session_id or workflow_name
        return find_session(self._store, id, agent=WORKFLOWS) if id else None

    def _sessions(self) -> Iterator[Session]:
        """Yield the sessions in which checkpoints are found by their id."""
        if self._session_id is not None:
            found = self._session(self._session_id)
            yield from () if found is None else (found,)
            return
        for row in self._store.sessions():
            if row.agent == WORKFLOWS and row.key is not None:
                yield self._store.session(row.sid)

    def _live(self, session: Session) -> list[_Saved]:
        """Return the checkpoints of all branches that are not deleted, the oldest first."""
        saves: dict[Any, _Saved] = {}
        gone: set[Any] = set()
        for node, entry in sorted(_records(session), key=lambda record: record[1].at_ms):
            id = entry.data["id"]
            if entry.custom_type == _DELETED:
                gone.update(each for each in entry.data["saves"] if isinstance(each, str))
            else:
                saves.pop(id, None)
                saves[id] = _Saved(session, node, entry.data)
        return [saved for saved in saves.values() if saved.data["save"] not in gone]

    def _of(self, workflow_name: str) -> list[_Saved]:
        session = self._session(workflow_name)
        found = [] if session is None else self._live(session)
        return [saved for saved in found if saved.data.get("workflow") == workflow_name]

    def _find(self, checkpoint_id: str) -> _Saved | None:
        for session in self._sessions():
            for saved in self._live(session):
                if saved.id == checkpoint_id:
                    return saved
        return None

    def _latest(self, workflow_name: str) -> _Saved | None:
        live = {saved.node.oid: saved for saved in self._of(workflow_name)}
        session = self._session(workflow_name)
        entries = () if session is None else session.entries()
        return next((live[node.oid] for node, _ in entries if node.oid in live), None)

    # ---- writing, in threads

    def _save(self, entry: Custom, workflow_name: str, previous: str | None) -> None:
        with locked(self._store, WORKFLOWS, self._mutex):
            session = self.stored(workflow_name)
            handle = session if previous is None else self._after(session, previous)
            handle.append_all([entry], to_active=handle is session)
            if handle is not session:
                handle.switch(handle.branch_name)

    def _after(self, session: Session, previous: str) -> Session:
        """Return a handle on a branch whose newest checkpoint is ``previous``, or the active one if it is unknown."""
        if _newest(session.entries())[1] == previous:
            return session
        node = next((saved.node for saved in self._live(session) if saved.id == previous), None)
        if node is None:
            return session
        branches = session.branches()
        for name, tip in branches.items():
            if _newest(session.entries(tip))[0] == node.oid:
                return session.on(name)
        return session.branch(numbered_name("branch", branches), at=node)

    def _delete(self, checkpoint_id: str) -> bool:
        with locked(self._store, WORKFLOWS, self._mutex):
            found = self._find(checkpoint_id)
            if found is None:
                return False
            records = [entry for _, entry in _records(found.session) if _is_record(entry, _SAVED)]
            marker = {"id": found.id, "saves": [each.data["save"] for each in records if each.data["id"] == found.id]}
            found.session.append_all([Custom(custom_type=_DELETED, data=marker)], to_active=True)
            return True


def _records(session: Session) -> list[tuple[Node, Custom]]:
    """Return the entries of checkpoints and of deletions on all branches; on each, the oldest first."""
    seen: set[str] = set()
    found = []
    for tip in session.branches().values():
        history = takewhile(lambda each: each[0].oid not in seen, session.entries(tip))
        own = [(node, entry) for node, entry in history if _is_record(entry, _SAVED, _DELETED)]
        seen.update(node.oid for node, _ in own)
        found += own[::-1]
    return found


def _newest(entries: Iterator[tuple[Node, Entry]]) -> tuple[str | None, Any]:
    """Return the object id and the checkpoint's id of the newest checkpoint in a history."""
    return next(((node.oid, entry.data["id"]) for node, entry in entries if _is_record(entry, _SAVED)), (None, None))


def _is_record(entry: Entry, *types: str) -> TypeGuard[Custom]:
    """Return whether this is an entry of one of these types, with the fields that the adapter writes."""
    if not isinstance(entry, Custom) or entry.custom_type not in types or not isinstance(entry.data, Mapping):
        return False
    save = "save" if entry.custom_type == _SAVED else "saves"
    return isinstance(entry.data.get("id"), str) and isinstance(entry.data.get(save), str if save == "save" else list)
