"""The operation log: one commit per command that moved refs, and undo and redo by it (docs/format.md)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gitsession.codec import cbor
from gitsession.errors import Malformed, NotFound, Refused
from gitsession.store import layout, refs
from gitsession.store.base import Kind, ObjectStore, Oid, RefValue, Transaction
from gitsession.store.objects import encode_commit, encode_tree, parse_commit, parse_tree

AUTHOR = "operation"


@dataclass(frozen=True, slots=True)
class Move:
    """One ref that moved: from ``old`` (``None``: it was not there) to ``new`` (``None``: it was removed)."""

    ref: str
    old: RefValue | None
    new: RefValue | None

    def inverse(self) -> Move:
        return Move(self.ref, self.new, self.old)


@dataclass(frozen=True, slots=True)
class Operation:
    """One command. ``undoes`` and ``redoes`` name the operation that this one took back or did again."""

    id: Oid
    parent: Oid | None
    command: str
    at_ms: int
    moves: tuple[Move, ...]
    undoes: Oid | None = None
    redoes: Oid | None = None


class Recorder:
    """A transaction that remembers which refs it moved."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self.moves: list[Move] = []

    def put(self, kind: Kind, data: bytes) -> Oid:
        return self._tx.put(kind, data)

    def move(self, name: str, new: RefValue | None, *, expected: RefValue | None) -> None:
        self._tx.move(name, new, expected=expected)
        self.moves.append(Move(name, expected, new))


@contextmanager
def recording(store: ObjectStore, command: str, at_ms: int) -> Iterator[Recorder]:
    """A transaction whose ref moves become one operation of the log, in the same record."""
    with store.transaction() as tx:
        recorder = Recorder(tx)
        yield recorder
        if recorder.moves:
            record(store, tx, command, at_ms, recorder.moves)


def record(
    store: ObjectStore,
    tx: Transaction,
    command: str,
    at_ms: int,
    moves: list[Move],
    *,
    undoes: Oid | None = None,
    redoes: Oid | None = None,
) -> None:
    """Write one operation. Its parents are all that it names, so that nothing undone is ever pruned.

    A ref that moved several times moved once, from its first value to its last; if these are one, nothing happened.
    """
    named = [value for move in moves for value in (move.old, move.new) if value and refs.target(value) is None]
    moves = _summed(moves)
    if not moves:
        return
    head = store.ref(refs.OPLOG)
    body = cbor.encode(
        {
            "v": 1,
            "command": command,
            "at": at_ms,
            "refs": [[move.ref, move.old, move.new] for move in moves],
            "undoes": undoes,
            "redoes": redoes,
        }
    )
    tree = tx.put("tree", encode_tree({layout.OPERATION: (layout.FILE_MODE, tx.put("blob", body))}))
    parents = list(dict.fromkeys(([head] if head else []) + named))
    seconds = min(max(at_ms // 1000, 0), 2**32 - 1)
    message = "\n".join([command, "", *(f"    {_move_line(move)}" for move in moves[:100]), ""])
    commit = encode_commit(
        tree=tree,
        parents=parents,
        author_name=AUTHOR,
        author_seconds=seconds,
        committer_seconds=seconds,
        message=message.encode(),
    )
    tx.move(refs.OPLOG, tx.put("commit", commit), expected=head)


def _summed(moves: list[Move]) -> list[Move]:
    sums: dict[str, Move] = {}
    for move in moves:
        first = sums.get(move.ref, move)
        sums[move.ref] = Move(move.ref, first.old, move.new)
    return [move for move in sums.values() if move.old != move.new]


def history(store: ObjectStore) -> Iterator[Operation]:
    """The operations, newest first."""
    oid = store.ref(refs.OPLOG)
    while oid is not None:
        operation = load(store, oid)
        yield operation
        oid = operation.parent


def load(store: ObjectStore, oid: Oid) -> Operation:
    """One operation. Raises ``Malformed``."""
    commit = parse_commit(store.read(oid)[1])
    blobs = {name: blob for _, name, blob in parse_tree(store.read(commit.tree)[1])}
    body = cbor.decode(store.read(blobs.get(layout.OPERATION, ""))[1]) if layout.OPERATION in blobs else None
    if type(body) is not dict or type(body.get("refs")) is not list:
        raise Malformed("not an operation", where=oid)
    moves = tuple(Move(*move) for move in body["refs"])  # type: ignore[misc, union-attr]
    first = commit.parents[0] if commit.parents else None
    is_operation = first is not None and parse_commit(store.read(first)[1]).author_name == AUTHOR
    return Operation(
        oid,
        first if is_operation else None,
        str(body["command"]),
        int(body["at"]),  # type: ignore[arg-type]
        moves,
        body["undoes"],  # type: ignore[arg-type]
        body["redoes"],  # type: ignore[arg-type]
    )


def undo(store: ObjectStore, at_ms: int) -> Operation:
    """Take back the newest command that stands. Raises ``NotFound``, or ``Refused`` where others went on from it."""
    done, _ = _stacks(store)
    if not done:
        raise NotFound("nothing to undo")
    return _invert(store, done[-1], at_ms, "undo")


def redo(store: ObjectStore, at_ms: int) -> Operation:
    """Do again what was last undone. Raises ``NotFound`` or ``Refused``."""
    _, undone = _stacks(store)
    if not undone:
        raise NotFound("nothing to redo")
    return _invert(store, undone[-1], at_ms, "redo")


def _stacks(store: ObjectStore) -> tuple[list[Operation], list[Operation]]:
    """What ``undo`` and ``redo`` would take next: the last of each."""
    done: list[Operation] = []
    undone: list[Operation] = []
    for operation in reversed(list(history(store))):
        if operation.undoes:
            undone.append(done.pop())
        elif operation.redoes:
            done.append(undone.pop())
        else:
            done.append(operation)
            undone.clear()
    return done, undone


def _invert(store: ObjectStore, operation: Operation, at_ms: int, verb: str) -> Operation:
    moves = [move.inverse() for move in reversed(operation.moves)] if verb == "undo" else list(operation.moves)
    with store.transaction() as tx:
        moved = [move.ref for move in moves if store.ref(move.ref) != move.old]
        if moved:
            raise Refused(
                f"cannot {verb} {operation.command!r}: {', '.join(moved[:3])} moved since",
                hint="what came after it would be lost; `gitsession branch` keeps another line beside it",
            )
        for move in moves:
            tx.move(move.ref, move.new, expected=move.old)
        name = {"undoes" if verb == "undo" else "redoes": operation.id}
        record(store, tx, f"{verb}: {operation.command}", at_ms, moves, **name)
    return operation


def _move_line(move: Move) -> str:
    return f"{move.ref} {(move.old or 'new')[:60]} -> {(move.new or 'removed')[:60]}"
