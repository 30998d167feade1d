"""The operation log: one commit per command that moved refs, with undo and redo (docs/reference/format.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from gitsession.codec import cbor
from gitsession.dataclass import dataclass
from gitsession.errors import Malformed, NotFound, RefMoved, Refused
from gitsession.git.objects import SECONDS_MAX, encode_commit, encode_tree, parse_commit, parse_tree
from gitsession.git.types import Kind, ObjectSink, Oid, RefValue
from gitsession.model.headline import clean
from gitsession.sessions import layout
from gitsession.store import refs
from gitsession.store.interface import ObjectStore, Transaction

if TYPE_CHECKING:
    from gitsession.git.pack_writer import Deflated
    from gitsession.redaction.original import Original

AUTHOR = "operation"
_ANY = "pass --any to select the last command of the whole store"
_RM = "run `gitsession rm {}` to move the whole session to the trash"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Move:
    """A move of one ref from ``old`` (``None`` if the ref was created) to ``new`` (``None`` if it was removed)."""

    ref: str
    old: RefValue | None
    new: RefValue | None

    def inverse(self) -> Move:
        return Move(self.ref, self.new, self.old)


class WorkspaceWrite(NamedTuple):
    """A write of a command to a workspace.

    ``safety``, ``result``: the checkpoints before and after the write.
    """

    session: str
    workspace: str
    safety: Oid
    result: Oid


class PublishedRef(NamedTuple):
    """A ref that an undo or redo does not move, because ``remote`` may already have its current value.

    ``instead``: the name of the branch that is created at the ref's old value; empty if there is none.
    """

    ref: str
    remote: str
    instead: str = ""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of the log.

    ``group``: the id of a group. Successive operations of the same group belong to one command, such as the import of
    several files, and are undone together. ``undoes``, ``redoes``: the operation that this one undid or redid.
    ``files``: the write to a workspace, which undo and redo also revert or repeat. ``stays``: the refs that an undo or
    redo did not move, because a remote may have them.
    """

    id: Oid
    parent: Oid | None
    command: str
    at_ms: int
    moves: tuple[Move, ...]
    group: str | None = None
    undoes: Oid | None = None
    redoes: Oid | None = None
    files: WorkspaceWrite | None = None
    stays: tuple[PublishedRef, ...] = ()

    @property
    def oids(self) -> list[Oid]:
        """The checkpoints and the values of refs that this operation refers to."""
        values = [value for move in self.moves for value in (move.old, move.new)]
        return [*(self.files[2:] if self.files else ()), *(one for one in values if one and refs.target(one) is None)]

    @property
    def sessions(self) -> set[str]:
        """The ids of the sessions that this operation changed."""
        names = (move.ref for move in self.moves)
        found = {refs.session_at(name) for name in names} | ({self.files.session} if self.files else set())
        return found - {""}


class RecordingTransaction:
    """A transaction that records its ref moves. ``files``: the write to a workspace, if there is one."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self.moves: list[Move] = []
        self.files: WorkspaceWrite | None = None

    def put(self, kind: Kind, data: bytes) -> Oid:
        return self._tx.put(kind, data)

    def put_all(self, objects: Mapping[Oid, tuple[Kind, bytes]], deflated: Deflated | None = None) -> None:
        self._tx.put_all(objects, deflated)

    def keep_original(self, original: Original) -> None:
        self._tx.keep_original(original)

    def move(self, name: str, new: RefValue | None, *, expected: RefValue | None) -> None:
        self._tx.move(name, new, expected=expected)
        self.moves.append(Move(name, expected, new))

    def advance(self, name: str, new: RefValue, *, expected: RefValue | None) -> None:
        """Move a ref of checkpoints without recording the move, so that an undo does not revert it."""
        self._tx.move(name, new, expected=expected)


@contextmanager
def recording(store: ObjectStore, command: str, at_ms: int, group: str | None = None) -> Iterator[RecordingTransaction]:
    """Yield a transaction whose ref moves become one operation of the log, in the same journal record."""
    with store.transaction() as tx:
        recorder = RecordingTransaction(tx)
        yield recorder
        record(store, tx, command, at_ms, recorder.moves, group=group, files=recorder.files)


def record(
    store: ObjectStore,
    tx: Transaction,
    command: str,
    at_ms: int,
    moves: list[Move],
    *,
    group: str | None = None,
    undoes: Oid | None = None,
    redoes: Oid | None = None,
    files: WorkspaceWrite | None = None,
) -> None:
    """Write one operation.

    All commits that the operation refers to become parents of its commit, so that git never prunes undone data. Several
    moves of a ref are combined. If a ref has its first value again, its moves are left out.
    """
    moves = _combined(moves)
    if not moves and files is None and undoes is None and redoes is None:
        return
    parent = store.ref(refs.OPLOG)
    if store.guard is not None:
        command = store.guard.words(command)
    operation = Operation("", parent, command, at_ms, tuple(moves), group, undoes, redoes, files)
    tx.move(refs.OPLOG, write_operation(tx, operation), expected=parent)


def write_operation(to: ObjectSink, operation: Operation) -> Oid:
    """Write the commit of an operation, and return its id. ``operation.id`` is ignored."""
    moves, parent, files = operation.moves, operation.parent, operation.files
    body = cbor.encode(
        {
            "v": VERSION,
            "command": operation.command,
            "at": operation.at_ms,
            "refs": [[move.ref, move.old, move.new] for move in moves],
            "parent": parent,
            "group": operation.group,
            "undoes": operation.undoes,
            "redoes": operation.redoes,
            **({"files": list(files)} if files else {}),
        }
    )
    seconds = min(max(operation.at_ms // 1000, 0), SECONDS_MAX)
    message = "\n".join([clean(operation.command), "", *(f"    {_move_line(move)}" for move in moves[:100]), ""])
    commit = encode_commit(
        tree=to.put("tree", encode_tree({layout.OPERATION: (layout.FILE_MODE, to.put("blob", body))})),
        parents=list(dict.fromkeys(([parent] if parent else []) + operation.oids)),
        author_name=AUTHOR,
        author_seconds=seconds,
        committer_seconds=seconds,
        message=message.encode(),
    )
    return to.put("commit", commit)


def _combined(moves: list[Move]) -> list[Move]:
    combined: dict[str, Move] = {}
    for move in moves:
        first = combined.get(move.ref, move)
        combined[move.ref] = Move(move.ref, first.old, move.new)
    return [move for move in combined.values() if move.old != move.new]


def history(store: ObjectStore) -> Iterator[Operation]:
    """Yield the operations, the newest first."""
    return history_from(store, store.ref(refs.OPLOG))


def history_from(store: ObjectStore, oid: Oid | None) -> Iterator[Operation]:
    """Yield the operation ``oid`` and all operations before it."""
    while oid is not None:
        operation = load(store, oid)
        yield operation
        oid = operation.parent


def load(store: ObjectStore, oid: Oid) -> Operation:
    """Return one operation. Raises ``Malformed``, ``MissingObject`` or ``Corrupt``."""
    kind, data = store.read(oid)
    blobs = {name: blob for _, name, blob in parse_tree(store.read(parse_commit(data).tree)[1])}
    if kind != "commit" or layout.OPERATION not in blobs:
        raise Malformed("not an operation", where=oid)
    body = cbor.decode(store.read(blobs[layout.OPERATION])[1])
    if type(body) is not dict or body.get("v") != VERSION:
        raise Malformed(
            "the operation log has an operation with an unsupported version", where=oid, hint="upgrade gitsession"
        )
    command, at_ms, moves = body.get("command"), body.get("at"), body.get("refs")
    if type(command) is not str or type(at_ms) is not int or type(moves) is not list:
        raise Malformed("expected a command, a time and refs", where=oid)
    parent, group, undoes, redoes = (_text_or_none(body, name, oid) for name in ("parent", "group", "undoes", "redoes"))
    return Operation(
        id=oid,
        parent=parent,
        command=command,
        at_ms=at_ms,
        moves=tuple(_parse_move(move, oid) for move in moves),
        group=group,
        undoes=undoes,
        redoes=redoes,
        files=_parse_workspace_write(body.get("files"), oid),
    )


def _parse_workspace_write(row: cbor.Plain, where: str) -> WorkspaceWrite | None:
    if row is None:
        return None
    if type(row) is list and [type(part) for part in row] == [str] * 4:
        return WorkspaceWrite(*row)  # type: ignore[arg-type]
    raise Malformed("expected [session, workspace, safety, result]", where=f"{where}: files")


def _parse_move(row: cbor.Plain, where: str) -> Move:
    if type(row) is list and len(row) == 3:
        ref, old, new = row
        if type(ref) is str and isinstance(old, str | None) and isinstance(new, str | None):
            return Move(ref, old, new)
    raise Malformed("expected [ref, old, new]", where=where)


def _text_or_none(body: dict[str, cbor.Plain], name: str, where: str) -> str | None:
    value = body.get(name)
    if not isinstance(value, str | None):
        raise Malformed("expected text or null", where=f"{where}: {name}")
    return value


Unit: TypeAlias = list[Operation]
"""Operations that are undone together, the oldest first."""

Verb: TypeAlias = Literal["undo", "redo"]

UndoScope: TypeAlias = Callable[[str, Sequence[Operation]], bool]
"""A function that returns whether an undo or redo may change a session, given the operations that changed it."""


@dataclass(frozen=True, slots=True)
class UndoStep:
    """The next step of ``undo`` or ``redo`` (``verb``): ref moves, and the files of ``operation``.

    ``seen``: the newest operation when the step was planned. The step is valid until another operation is logged.
    ``stays``: the refs that the step does not move, because a remote may have them.
    """

    verb: Verb
    operation: Operation
    command: str
    moves: tuple[Move, ...]
    seen: Oid | None
    stays: tuple[PublishedRef, ...] = ()

    def check(self, store: ObjectStore) -> None:
        """Raise ``RefMoved`` if another command has been logged, and ``Refused`` if later changes would be lost."""
        if store.ref(refs.OPLOG) != self.seen:
            raise RefMoved(f"cannot {self.verb}: another command has changed the store", hint="try again")
        moved = [move for move in self.moves if store.ref(move.ref) != move.old]
        if moved:
            names = ", ".join(move.ref for move in moved[:3])
            what = f"later changes to {names} would be lost"
            raise Refused(f"cannot {self.verb} {self.command!r}: {what}", hint=_hint(moved[0]))
        self._check_sessions(store)

    def _check_sessions(self, store: ObjectStore) -> None:
        """Refuse to remove ``main`` of a session that keeps other branches.

        A branch of a fork can begin at an entry before the ``fork`` entry. Only ``main`` contains the ``fork`` entry.
        Without ``main``, such a branch cannot be distinguished from a branch of the original session.
        """
        removed = {move.ref for move in self.moves if move.new is None}
        for sid in (refs.session_of(name) for name in removed if name == refs.leaf(refs.session_of(name))):
            for name in store.refs(refs.session(sid)).keys() - removed:
                branch = name.removeprefix(refs.session(sid))
                if refs.is_branch(branch):
                    raise Refused(
                        f"cannot {self.verb} {self.command!r}: session {sid} would have branch {branch!r} but not main",
                        hint=_RM.format(sid),
                    )

    def apply(self, store: ObjectStore, tx: Transaction, at_ms: int, files: WorkspaceWrite | None = None) -> Operation:
        """Apply the step in ``tx``, and return its operation. Raises the same errors as ``check``."""
        self.check(store)
        for move in self.moves:
            tx.move(move.ref, move.new, expected=move.old)
        name = {"undoes" if self.verb == "undo" else "redoes": self.operation.id}
        record(store, tx, f"{self.verb}: {self.command}", at_ms, list(self.moves), files=files, **name)
        return replace(self.operation, command=self.command, moves=self.moves, stays=self.stays)


def _hint(moved: Move) -> str:
    sid, branch = refs.session_of(moved.ref), moved.ref.rpartition("/")[2]
    if sid and refs.is_meta(branch):
        return "set the label or the title again with `gitsession label` or `gitsession name`"
    if not sid or not refs.is_branch(branch):
        return ""
    if moved.new is not None:
        return f"run `gitsession branch {sid} NAME --at {moved.new[:12]}` to continue from the earlier entry"
    return _RM.format(sid) if branch == refs.MAIN else f"run `gitsession switch {sid} BRANCH` to use another branch"


def unlimited(sid: str, unit: Sequence[Operation]) -> bool:
    """Return True for every session: an unlimited scope."""
    return True


def next_step(store: ObjectStore, verb: Verb, scope: UndoScope = unlimited) -> UndoStep:
    """Return the next step of ``verb``, for the newest command that changed a session in ``scope``.

    Raises ``NotFound`` if there is no such command, ``Refused`` if the command also changed sessions outside ``scope``,
    and ``Malformed``.
    """
    seen = store.ref(refs.OPLOG)
    unit, undone_by = _next_unit(store, verb, seen, scope)
    if not unit:
        scope_text = "" if scope is unlimited else " in these sessions"
        raise NotFound(f"nothing to {verb}{scope_text}", hint="" if scope is unlimited else _ANY)
    newest = unit[-1]
    outside = sorted(sid for sid in _sessions(unit) if not scope(sid, unit))
    if outside:
        others = outside[0] + (f" and {len(outside) - 1} more" if len(outside) > 1 else "")
        raise Refused(f"cannot {verb} {newest.command!r}: the command also changed session {others}", hint=_ANY)
    operations = unit if undone_by is None else [undone_by]
    moves = _combined([move.inverse() for operation in reversed(operations) for move in reversed(operation.moves)])
    applied, stays = _keep_published(store, moves)
    command = newest.command
    if len(unit) > 1:
        verb_then = command.partition(" ")[0]
        command = f"{verb_then} of {len(unit)} {'files' if verb_then == 'import' else 'sessions'}"
    return UndoStep(verb, newest, command, tuple(applied), seen, tuple(stays))


def _keep_published(store: ObjectStore, moves: Iterable[Move]) -> tuple[list[Move], list[PublishedRef]]:
    """Return the moves to apply, and the refs that are not moved. Raises ``Refused``.

    A branch that a remote may have is neither moved back nor removed, because the next fetch would restore it:

        removal of a branch      the branch is kept
        moving a branch back     the branch is kept; a new branch at the old value becomes the active branch
        change of a label        refused; the user can set the old label again
        or title                 refused; the user can set the old title again
    """
    applied: list[Move] = []
    stays: list[PublishedRef] = []
    for move in moves:
        parsed = refs.parse(move.ref)
        remote = store.published_to(move.ref, move.new) if parsed is not None else None
        if parsed is None or remote is None:
            applied.append(move)
        elif not refs.is_branch(parsed[1]):
            raise Refused(
                f"cannot undo the change to {move.ref}: it was pushed to remote {remote!r}",
                hint="set the label or the title again with `gitsession label` or `gitsession name`",
            )
        elif move.new is None:
            stays.append(PublishedRef(move.ref, remote))
        else:
            names = (f"undo-{number}" for number in count(1))
            name = next(name for name in names if store.ref(refs.leaf(parsed[0], name)) is None)
            applied.append(Move(refs.leaf(parsed[0], name), None, move.new))
            stays.append(PublishedRef(move.ref, remote, name))
    for stay in stays:
        if stay.instead:
            sid = refs.session_of(stay.ref)
            choice = refs.active(sid)
            applied = [move for move in applied if move.ref != choice]
            applied.append(Move(choice, store.ref(choice), refs.symbolic(refs.leaf(sid, stay.instead))))
    return applied, stays


def apply_next(store: ObjectStore, verb: Verb, at_ms: int, scope: UndoScope = unlimited) -> Operation:
    """Undo the newest command that has not been undone, or redo the command that was undone last.

    Only commands that changed a session in ``scope`` are considered. Raises ``NotFound``, or ``Refused`` if changes
    would be lost.
    """
    while True:
        step = next_step(store, verb, scope)
        try:
            with store.transaction() as tx:
                return step.apply(store, tx, at_ms)
        except Refused:
            if store.ref(refs.OPLOG) == step.seen:
                raise
            # Another command was logged in the meantime, so the step is outdated. Try again.


def _sessions(unit: Unit) -> set[str]:
    return {sid for operation in unit for sid in operation.sessions}


def _next_unit(
    store: ObjectStore, verb: Verb, newest: RefValue | None, scope: UndoScope = unlimited
) -> tuple[Unit, Operation | None]:
    """Return the next unit for ``verb`` (empty if there is none), and for a redo the operation that undid the unit.

    Units that changed only sessions outside ``scope`` are skipped. The log is read from ``newest`` back to the unit.
    Raises ``Malformed``, ``MissingObject`` or ``Corrupt``.
    """
    latest: dict[Oid, Operation] = {}  # the last undo or redo of each operation
    passed_group: str | None = None

    def is_in_scope(unit: Unit) -> bool:
        sids = _sessions(unit)
        return not sids or any(scope(sid, unit) for sid in sids)

    for operation in history_from(store, newest):
        target = operation.undoes or operation.redoes
        if target is not None:
            passed_group = None
            if latest.setdefault(target, operation) is operation and operation.undoes and verb == "redo":
                unit = _unit(store, load(store, target))
                if is_in_scope(unit):
                    return unit, operation
        elif operation.group is None or operation.group != passed_group:
            unit = _unit(store, operation)
            passed_group = operation.group
            if is_in_scope(unit):
                if verb == "redo":
                    break
                last = latest.get(operation.id)
                if last is None or last.redoes:
                    return unit, None
    return [], None


def _unit(store: ObjectStore, newest: Operation) -> Unit:
    """Return the operations of the command whose last operation is ``newest``."""
    unit = [newest]
    for operation in history_from(store, newest.parent) if newest.group is not None else ():
        if operation.undoes or operation.redoes or operation.group != newest.group:
            break
        unit.append(operation)
    return unit[::-1]


def _move_line(move: Move) -> str:
    return f"{move.ref} {(move.old or 'new')[:60]} -> {(move.new or 'removed')[:60]}"
