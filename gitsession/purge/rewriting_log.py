"""The operation log after a purge: every commit that it names is mapped, so that older commands can still be undone.

The log is this store's own, so its bytes need be the same nowhere else. Of a command that wrote or took away a purged
entry no more words are left than its name and what it was done to: a label's text stands in both.
"""

from __future__ import annotations

import dataclasses

from gitsession.errors import Corrupt, Malformed, MissingObject
from gitsession.git.objects import oid_of
from gitsession.git.types import Kind, Oid, RefValue
from gitsession.purge.rewriting import Rewriter
from gitsession.sessions import operation_log
from gitsession.sessions.operation_log import Move, Operation, WorkspaceWrite
from gitsession.store import refs
from gitsession.store.interface import ObjectStore

_WORDS_LEFT = 2


def rewrite_log(store: ObjectStore, tip: Oid, rewriter: Rewriter) -> Oid:
    """Where the log leads now; its objects are put among those of ``rewriter``. Raises ``Malformed``."""
    log = _Log(rewriter)
    mapped: dict[Oid, Oid] = {}
    operations = list(operation_log.back(store, tip))
    for operation in reversed(operations):
        mapped[operation.id] = log.mapped(operation, mapped)
    return mapped[tip]


class _Log:
    def __init__(self, rewriter: Rewriter) -> None:
        self._rewriter = rewriter

    def put(self, kind: Kind, data: bytes) -> Oid:
        oid = oid_of(kind, data)
        self._rewriter.objects[oid] = (kind, data)
        return oid

    def mapped(self, operation: Operation, before: dict[Oid, Oid]) -> Oid:
        found = dataclasses.replace(
            operation,
            parent=_at(before, operation.parent),
            undoes=_at(before, operation.undoes),
            redoes=_at(before, operation.redoes),
            moves=tuple(self._move(move) for move in operation.moves),
            files=operation.files and self._written(operation.files),
        )
        if self._is_about_what_is_gone(operation):
            found = dataclasses.replace(found, command=" ".join(operation.command.split(" ")[:_WORDS_LEFT]))
        return operation.id if found == operation else operation_log.keep(self, found)

    def _move(self, move: Move) -> Move:
        return Move(move.ref, self._value(move.ref, move.old), self._value(move.ref, move.new))

    def _value(self, name: str, value: RefValue | None) -> RefValue | None:
        if value is None or refs.target(value) is not None:
            return value
        try:
            return self._rewriter.ref(name, value)
        except (MissingObject, Corrupt, Malformed):
            return value  # damage: `verify` names it

    def _written(self, files: WorkspaceWrite) -> WorkspaceWrite:
        name = refs.files(files.session)
        safety, result = (self._value(name, oid) or oid for oid in (files.safety, files.result))
        return files._replace(safety=safety, result=result)

    def _is_about_what_is_gone(self, operation: Operation) -> bool:
        """Asked after all that it names was mapped."""
        if any(self._rewriter.is_gone(oid) for oid in operation.named):
            return True
        return any(self._rewriter.is_purged(move.ref) for move in operation.moves)


def _at(known: dict[Oid, Oid], oid: Oid | None) -> Oid | None:
    return None if oid is None else known.get(oid, oid)
