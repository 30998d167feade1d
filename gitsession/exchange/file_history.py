"""What an agent recorded of the files that it changed, as checkpoints of the imported session (decision 0021).

What was recorded is replayed in the order of the agent's file: what files were before is nobody's, what a call is said
to have made of one is the session's, and only where both ends are known whole. Nothing here looks at the workspace.
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gitsession.checkpoint import line
from gitsession.checkpoint.line import Point
from gitsession.checkpoint.timeline import AFTER, BEFORE, EDITED
from gitsession.codec.digest import hash_of
from gitsession.codec.payload import NONCE_BYTES
from gitsession.codec.sayable import sayable
from gitsession.exchange import discover
from gitsession.formats import REMEMBERING, Format, Source
from gitsession.formats.histories import Copy, Edited, Noted, Seen
from gitsession.model.entries import Checkpoint
from gitsession.session import graph
from gitsession.session.node import Node
from gitsession.store.base import ObjectStore, Oid
from gitsession.store.objects import oid_of
from gitsession.workspace import names, trees
from gitsession.workspace.taking import USUAL
from gitsession.workspace.trees import File, State

PLAIN, EXECUTABLE = "100644", "100755"


def keep(store: ObjectStore, format: Format, source: Source, place: Path, sid: str) -> int:
    """Put what ``source`` says of files, and what copies there are, on the session's line; how many were added.

    ``place``: the agent's file. Nothing where the copies are not at hand, and where anything else stands at the end of
    the line: a look of ours knows better, and an older one is not put behind it. Raises ``MissingObject``, ``Corrupt``
    and ``Malformed`` where the line cannot be read, and ``Unavailable``.
    """
    remembering = REMEMBERING.get(format.AGENT)
    where = remembering.copies(discover.name_of(place)) if remembering is not None else None
    cwd = source.header.cwd if source.header is not None else None
    if remembering is None or where is None or not cwd or not cwd.startswith("/"):
        return 0
    folder = Path(os.path.normpath(place.resolve().parent / where))
    if not folder.is_dir():
        return 0
    newest = line.newest(store, sid)
    if newest is not None and newest.entry.reason != remembering.RECORDED:
        return 0
    replay = _Replay(store, sid, posixpath.normpath(cwd), folder, remembering.RECORDED, newest)
    return replay.run(remembering.noted(_payloads(source)))


def _payloads(source: Source) -> Iterator[bytes]:
    """In the order of the file."""
    yield from (record.payload for record in sorted(source.records, key=lambda record: record.line))
    if source.tail:
        yield source.tail


@dataclass
class _Contents:
    """Bytes on their way into the store: they go with the checkpoint that needs them first."""

    store: ObjectStore
    waiting: dict[Oid, bytes] = field(default_factory=dict)

    def file(self, data: bytes, mode: str) -> File:
        oid = oid_of("blob", data)
        if not self.store.contains(oid):
            self.waiting[oid] = data
        return File(mode, oid)

    def put(self, to: trees.Objects, states: Iterable[State]) -> None:
        for state in states:
            if state is not None and state.oid in self.waiting:
                to.put("blob", self.waiting.pop(state.oid))


@dataclass
class _Copies:
    """The agent's copies, each read once: what a name holds, or why that cannot be told. They never change."""

    folder: Path
    contents: _Contents
    seen: dict[str, File | str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> File | str:
        if name not in self.seen:
            self.seen[name] = self._read(name)
        return self.seen[name]

    def _read(self, name: str) -> File | str:
        try:
            fd = os.open(self.folder / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                status = os.fstat(fd)
                if not stat.S_ISREG(status.st_mode):
                    return "the agent's copy is no file"
                if status.st_size > USUAL.file_bytes:
                    return f"larger than {USUAL.file_bytes:,} bytes"
                with os.fdopen(fd, "rb", closefd=False) as file:
                    data = file.read(status.st_size)
            finally:
                os.close(fd)
        except OSError as error:
            return f"the agent's copy cannot be read: {error.strerror}"
        return self.contents.file(data, EXECUTABLE if status.st_mode & stat.S_IXUSR else PLAIN)


class _Replay:
    """``newest``: where the line ends. What was recorded up to its time is there already."""

    def __init__(self, store: ObjectStore, sid: str, cwd: str, folder: Path, reason: str, newest: Point | None) -> None:
        self._store, self._sid, self._cwd, self._reason, self._newest = store, sid, cwd, reason, newest
        self._contents = _Contents(store)
        self._copies = _Copies(folder, self._contents)
        nodes = graph.tree(store, sid).nodes.values()
        self._entries = {node.source.id: node for node in nodes if node.source is not None and node.source.id}
        self._target: Node | None = None
        self._at_ms = 0
        self._added = 0

    def run(self, noted: Iterable[Noted]) -> int:
        there = self._newest.entry.at_ms if self._newest is not None else -1
        for each in noted:
            self._at_ms = max(each.at_ms or 0, self._at_ms + 2)  # an order that the clock tells too
            self._target = self._entries.get(each.entry or "", self._target)
            if isinstance(each, Seen) and self._at_ms > there:
                self._seen(each)
            elif isinstance(each, Edited) and self._at_ms + 1 > there:
                self._edited(each)
        return self._added

    def _seen(self, seen: Seen) -> None:
        states: dict[str, State] = {}
        skipped: list[tuple[str, str]] = []
        for said, copy in seen.files.items():
            path = within(self._cwd, said)
            if path is None:
                continue
            state = self._copies[copy.name] if isinstance(copy, Copy) else None
            if isinstance(state, str):
                skipped.append((path, state))
            else:
                states[path] = state
        if states:
            self._add(BEFORE, seen, states, skipped=tuple(skipped))

    def _edited(self, edited: Edited) -> None:
        path = within(self._cwd, edited.path)
        if path is None:
            return
        tree = self._newest.files if self._newest is not None else None
        known = trees.look_up(self._store, tree, [path])[path]
        held = self._store.read(known.oid)[1] if known is not None else None
        ends = contents(edited, held)
        if ends is None or any(data is not None and len(data) > USUAL.file_bytes for data in ends):
            return
        mode = known.mode if known is not None else PLAIN
        was, became = (None if data is None else self._contents.file(data, mode) for data in ends)
        if was is None or was != known:
            self._add(BEFORE, edited, {path: was})
        self._add(AFTER, edited, {path: became}, call=edited.call)

    def _add(
        self,
        phase: str,
        noted: Noted,
        states: Mapping[str, State],
        *,
        skipped: tuple[tuple[str, str], ...] = (),
        call: str | None = None,
    ) -> None:
        entry = Checkpoint(
            mode=EDITED,
            phase=phase,
            call=sayable(call),
            workspace=sayable(self._cwd),
            paths=tuple(sorted(states)),
            skipped=skipped,
            reason=self._reason,
            at_ms=self._at_ms if phase == BEFORE else self._at_ms + 1,
        )

        def files(tx: trees.Objects, before: Point | None) -> Oid | None:
            self._contents.put(tx, states.values())
            return trees.patch(self._store, tx, before.files if before else None, states)

        nonce = hash_of(phase.encode() + b"\n" + noted.said)[:NONCE_BYTES]
        point = line.add(self._store, self._sid, entry, files, self._target, nonce=nonce)
        self._added += self._newest is None or point.oid != self._newest.oid
        self._newest = point


def within(cwd: str, said: str) -> str | None:
    """A path as trees have it; ``None`` for one outside of the folder ``cwd``, and for what no checkpoint holds."""
    if not said or "\0" in said or ".." in said.split("/"):
        return None
    whole = posixpath.normpath(posixpath.join(cwd, said))
    above = cwd.rstrip("/") + "/"
    if not whole.startswith(above):
        return None
    try:
        path = names.escape_path(whole[len(above) :].encode())
    except UnicodeEncodeError:
        return None
    return path if names.path_refusal(path) is None else None


def contents(edited: Edited, held: bytes | None) -> tuple[bytes | None, bytes] | None:
    """What a file was and became, to the byte; ``None`` where that is not known. ``held``: what was known of it last.

    The agent tells texts with LF alone. Whether the file's lines end so, only ``held`` says: it decides if it is the
    text that is told, and if it is another, nobody knows how that one's end.
    """
    try:
        became = edited.became.encode()
        if edited.was is None:
            return None, became
        if held is None:
            return (edited.was.encode(), became)
        if held.replace(b"\r\n", b"\n") != edited.was.encode():
            return None if b"\r" in held else (edited.was.encode(), became)
    except UnicodeEncodeError:
        return None
    if b"\r" not in held:
        return held, became
    if edited.rewrites or not held.count(b"\r") == held.count(b"\n") == held.count(b"\r\n"):
        return None
    return held, became.replace(b"\n", b"\r\n")
