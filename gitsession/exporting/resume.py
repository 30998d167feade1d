"""Export of a session to a file that its agent can continue, and the commands that continue it.

An existing file is never overwritten. If it is a prefix of the export, the missing part is appended. Otherwise, it is
not changed.
"""

from __future__ import annotations

import errno
import os
import secrets
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from gitsession import durable
from gitsession.codec.digest import to_base64url
from gitsession.discovery import databases, discover, sources
from gitsession.errors import Malformed, Refused, Unavailable
from gitsession.exporting import export_session, session_files
from gitsession.exporting.export_session import ExportResult, agent_of, export
from gitsession.formats import (
    FORMATS,
    ROOTS,
    Accompanied,
    Format,
    Importing,
    Resumable,
    Source,
    Workspace,
    all_with_capability,
    with_capability,
)
from gitsession.formats.base.jsonl import parse
from gitsession.model.entries import Message, Prune, SessionHeader
from gitsession.sessions import graph, session_facts
from gitsession.sessions.active_branch import active, derived
from gitsession.sessions.attached_files import SessionAttachments
from gitsession.sessions.node import Node, load
from gitsession.sessions.revealed_store import RevealedStore
from gitsession.store.interface import ObjectStore

NOT_HELD = "files that the session refers to, but that neither the agent nor this store has"
NOT_MARKED = "tool results that are pruned in this store but not in the agent: its import skips messages that it has"
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


@dataclass(frozen=True, slots=True)
class ResumePlan:
    """A plan to resume a session.

    ``file``: the path of the session's file; ``data``: its content. ``held``: the number of bytes that exist already,
    ``None`` if there is no file. ``id``: the agent's id for the session. ``commands``: commands to run one after the
    other in ``cwd``. The last one continues the session. A command before it imports the file into the agent. ``sent``:
    the export with the content ``data``. ``entry``: the chain digest of the entry at which the session continues.
    ``beside``: missing files that the session refers to or continues, by path, to be written too.
    """

    sent: ExportResult
    data: bytes
    id: str
    file: Path
    held: int | None
    commands: tuple[tuple[str, ...], ...]
    cwd: str
    entry: str
    beside: Mapping[Path, bytes] = field(default_factory=dict)

    @property
    def is_there(self) -> bool:
        """True if the session's own file exists and is complete."""
        return self.held == len(self.data)


def said(source: Source) -> bytes:
    """Return a digest of the content of a session.

    By this digest, content that was written for an agent is recognized later.
    """
    parts = (*(record.payload for record in source.records), source.tail or b"", source.waiting)
    return sha256(b"".join(b"%d:%b" % (len(part), part) for part in parts)).digest()


def source_of(plan: ResumePlan) -> Source:
    """Return the ``Source`` that an import would read from the planned file. Raises ``Malformed``."""
    return FORMATS[plan.sent.agent].split(plan.data, name=sources.name_of(plan.file))


def workspace(cwd: str | Path, home: Path, environment: Mapping[str, str]) -> Workspace:
    """Return the workspace of the folder ``cwd`` on this machine. Symbolic links are resolved."""
    names = ("TMPDIR", "TMP", "TEMP")
    temporary = next((found for name in names if (found := environment.get(name))), "/tmp")
    return Workspace(*(os.path.realpath(path) for path in (cwd, home, temporary)))


def plan(
    store: ObjectStore,
    sid: str,
    agent: str | None,
    at: Node | None,
    where: Workspace,
    environment: Mapping[str, str],
    find: Callable[[str, str], str | None] | None = None,
) -> ResumePlan:
    """Plan how an agent continues a session in the folder ``where``. Nothing is written.

    Args:
        agent: the agent; ``None`` for the agent of the session.
        at: the entry to continue from; ``None`` for the leaf.
        find: a function that maps an agent's name and session id to the id of the session in this store. It is used for
            the error message if the agent continued the file and that file is another session in this store.

    Raises:
        Refused: if the agent continued its file after the last import, if another file exists at the path, if the
            history of ``at`` has no message, or if the agent is unknown or cannot continue a session from a file.
    """
    agent = agent or agent_of(store, sid, session_facts.file_start(store, graph.tree(store, sid), sid)[1])
    format = with_capability(agent, Resumable)
    if format is None:
        raise Refused(
            f"cannot resume in '{agent}': it cannot continue a session from a file",
            hint=f"pass --in with one of {', '.join(all_with_capability(Resumable))}",
        )
    if at is not None and not any(node.kind == Message.kind for node in graph.history(store, at.oid)):
        raise Refused(
            f"cannot resume session {sid} at this entry: its history has no message",
            hint="pass a later entry (run `gitsession log` to list the entries)",
        )
    shown = RevealedStore(store)  # the agent's own file contains the secrets, and the export must begin with that file
    sent = export(shown, sid, agent, _unless_whole(store, sid, at), where.cwd).from_store(shown)
    assert sent.session is not None
    id = format.called(sent.session.source_id or sid)
    unmarked = 0
    try:
        file, data, held = _found(format, sent, sent.session, where, environment)
        if isinstance(format, Importing):
            unmarked = check(format, sent.data, Path(where.home), environment)
    except AgentFileAhead as error:
        there = find(agent, id) if find is not None else None
        if there in (None, sid):
            raise
        what = f"cannot resume: the agent has continued '{error.path}', which is session {there} in this store"
        raise Refused(what, hint=f"run `gitsession resume {there}`") from None
    commands = [format.resume_command(id, str(file))]
    if isinstance(format, Importing):
        commands = [format.take_in_command(str(file)), *commands]
        if unmarked:
            sent = replace(sent, notes={**sent.notes, NOT_MARKED: unmarked})
    entry = to_base64url((at or load(store, graph.branches(store, sid)[active(store, sid)])).chain)
    beside, missing = _beside(format, file, data, SessionAttachments(shown, sid), where, environment)
    folder = _folder(format, where, environment)
    for base in session_files.bases(shown, agent, data, find) if find is not None else ():
        beside |= _missing(folder, base)
    if missing:
        sent = replace(sent, notes={**sent.notes, NOT_HELD: missing})
    return ResumePlan(sent, data, id, file, held, tuple(map(tuple, commands)), where.cwd, entry, beside)


def perform(plan: ResumePlan) -> None:
    """Write the missing files.

    Raises ``OSError``, and ``Refused`` if the session's file has changed since it was planned.
    """
    for place, content in plan.beside.items():
        try:
            _write(place, content)
        except FileExistsError:  # a prefix of it existed, or the agent just wrote it
            held = sources.read(place)[1]
            if content.startswith(held) and held != content:
                _append_to_file(place, len(held), content)
    if plan.is_there:
        return
    if plan.held is not None:
        _append_to_file(plan.file, plan.held, plan.data)
        return
    try:
        _write(plan.file, plan.data)
    except FileExistsError:
        raise _is_other(plan.file) from None


def _write(file: Path, data: bytes) -> None:
    """Write a new file atomically. Raises ``FileExistsError``."""
    durable.make_directories(file.parent)
    scratch = file.parent / f".gitsession-{secrets.token_hex(8)}.tmp"
    durable.write_new(scratch, data)
    try:
        _name(scratch, file)
    finally:
        scratch.unlink(missing_ok=True)
    durable.sync_directory(file.parent)


def _beside(
    format: Resumable, file: Path, data: bytes, held: SessionAttachments, where: Workspace,
    environment: Mapping[str, str]
) -> tuple[dict[Path, bytes], int]:
    """Return the sidecar files to write, by path, and the number of sidecar files that are not in the store."""
    found: dict[Path, bytes] = {}
    missing = 0
    for wanted in format.beside(data, sources.name_of(file)) if isinstance(format, Accompanied) else ():
        if not wanted.home:
            continue
        place = _folder(format, where, environment) / wanted.home
        if os.path.lexists(place):
            continue
        content = held.get(wanted.name)
        if content is not None and sha256(content).hexdigest() == wanted.sha256:
            found[place] = content
        else:
            missing += 1
    return found, missing


def _unless_whole(store: ObjectStore, sid: str, at: Node | None) -> Node | None:
    """Return ``None`` if the agent continues the whole file at ``at``, otherwise the entry whose history to export."""
    leaves = graph.branches(store, sid)
    leaf = leaves[active(store, sid)]
    wanted = at.oid if at is not None else leaf
    if wanted == leaf == leaves[derived(store, sid, leaves)] and export_session.is_in_newest(store, sid, leaf):
        return None
    return at if at is not None else load(store, leaf)


def _found(
    format: Resumable, sent: ExportResult, header: SessionHeader, where: Workspace, environment: Mapping[str, str]
) -> tuple[Path, bytes, int | None]:
    """Return the path of the file, its content, and the number of bytes that exist. Raises ``Refused``.

    If the agent can resume an existing file in ``where``, the header of the file is not changed, even if it has another
    folder.
    """
    base = _folder(format, where, environment)
    place = base / (sent.place or format.place(header, where))
    if isinstance(format, Importing):
        # The agent keeps its own copy, so an earlier export is no longer needed. The digest in the file name prevents a
        # conflict with that export.
        place = place.with_stem(f"{place.stem}-{sha256(sent.data).hexdigest()[:12]}")
    others = []
    lies = [session_files.AgentFile(sent.place, sent.data).pattern] if sent.place else format.lies(header, where)
    for file in _there(base, place, lies):
        held = sources.read(file)[1]
        for data in (sent.data, sent.stay):
            if data.startswith(held):
                return file, data, len(held)
        others.append(_has_grown(file) if held.startswith((sent.data, sent.stay)) else _is_other(file))
    if others:
        raise others[0]
    return place, sent.data, None


def _folder(format: Resumable, where: Workspace, environment: Mapping[str, str]) -> Path:
    """Return the agent's own folder, or the folder of ``where`` if the agent has no folder of its own."""
    roots = ROOTS[format.AGENT]
    if not roots:
        return Path(where.cwd)
    return discover.base_of(roots[0], Path(where.home), environment).absolute()


def _missing(folder: Path, base: session_files.AgentFile) -> dict[Path, bytes]:
    """Return the content of the file ``base`` by path if it is missing or incomplete, otherwise an empty mapping.

    Another file continues ``base``. The agent may have continued ``base`` too, in any folder. Raises ``Refused`` if its
    content differs.
    """
    place = folder / base.place
    for file in _there(folder, place, [base.pattern]):
        held = sources.read(file)[1]
        header, _, rest = held.partition(b"\n")
        whole = base.data.partition(b"\n")[2]
        if rest.startswith(whole):
            return {}
        if whole.startswith(rest):
            return {file: header + b"\n" + whole}
        raise _is_other(file)
    return {place: base.data}


def _there(base: Path, place: Path, globs: Sequence[str]) -> Iterator[Path]:
    if os.path.lexists(place):
        yield place
    for pattern in globs:
        yield from (file for file in sorted(base.glob(pattern)) if file != place)


def _append_to_file(file: Path, held: int, data: bytes) -> None:
    """Append the bytes of ``data`` after the first ``held`` bytes to ``file``.

    If the process is killed during the append, the file is still a prefix of ``data``. The file is not replaced, so a
    program that has it open reads the new bytes.
    """
    fd = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        if os.fstat(fd).st_size != held:
            raise _has_grown(file)
        rest = memoryview(data)[held:]
        while rest:
            rest = rest[os.write(fd, rest) :]
        os.fsync(fd)
    finally:
        os.close(fd)


def _name(scratch: Path, file: Path) -> None:
    """Create ``file`` as a hard link to ``scratch``. Raises ``FileExistsError``.

    A rename would replace an existing file, so it is used only if the file system has no hard links.
    """
    try:
        os.link(scratch, file)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(file):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(file)) from None
        os.rename(scratch, file)


def _has_grown(file: Path) -> AgentFileAhead:
    return AgentFileAhead(file, f"cannot write '{file}': the agent has continued the session in it")


def _is_other(file: Path) -> Refused:
    return Refused(
        f"cannot write '{file}': it already exists with other content",
        hint=f"run `gitsession import {shlex.quote(str(file))}` to import it, or move the file away",
    )


# Comparison of an export with the same session in the database of the agent. The agent's import adds missing messages
# and does not change existing messages. If the export and the database differ, the result of the import would match
# neither session, so the agent must not import the export.


class AgentFileAhead(Refused):
    """The error for an agent's file or database at ``path`` with entries that are not imported yet."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message, hint=f"run `gitsession import {shlex.quote(str(path))}` first")
        self.path = path


def check(format: Format, data: bytes, home: Path, environment: Mapping[str, str]) -> int:
    """Count the prunes in the export ``data`` that the agent's import ignores because the messages exist already.

    Raises ``Refused`` if a database of the agent has later messages of the session, or a session with the same id and
    other content. Raises ``Unavailable`` if a database is locked, and ``Malformed`` if it is damaged.
    """
    wanted = format.split(data, final=True)
    ours = [parse(record.payload) for record in wanted.records]
    passed_over = 0
    for path, held in _held(format, wanted.source_id, home, environment):
        theirs = [parse(record.payload) for record in held.records]
        if ours[: len(theirs)] != theirs:
            raise _goes_on(path) if theirs[: len(ours)] == ours else _has_other_session(path)
        behind = (format.read(record.payload) for record in wanted.records[len(theirs) :])
        passed_over += sum(isinstance(entry, Prune) for entry in behind) if theirs else 0
    return passed_over


def _held(format: Format, id: str, home: Path, environment: Mapping[str, str]) -> Iterator[tuple[Path, Source]]:
    for root in ROOTS[format.AGENT]:
        for path in sorted(discover.base_of(root, home, environment).glob(root.pattern)):
            try:
                held = _session(format, path, id)
            except (Malformed, Unavailable) as error:
                raise type(error)(f"{path}: {error}", hint=error.hint) from error
            if held is not None:
                yield path, held


def _session(format: Format, path: Path, id: str) -> Source | None:
    if not sources.is_database(sources.head(path)):
        return None
    with databases.opened(path) as opened:
        database = opened.format
        if database is None or database.AGENT != format.AGENT:
            return None
        is_there = any(listed == id for listed, _ in database.listed(opened.ask, opened.columns))
        return database.session(opened.ask, opened.columns, id, final=True) if is_there else None


def _goes_on(path: Path) -> AgentFileAhead:
    return AgentFileAhead(path, f"cannot resume: the agent has continued the session in '{path}'")


def _has_other_session(path: Path) -> Refused:
    return Refused(
        f"cannot resume: '{path}' already has this session with other content",
        hint=f"run `gitsession import {shlex.quote(str(path))}` to import it",
    )
