"""Export of a session to a file from which an agent can continue it, and the commands to continue it.

An existing file is never overwritten. If the existing file is a prefix of the export, the missing part is appended to
the file. Otherwise, the file is not changed.
"""

from __future__ import annotations

import errno
import os
import secrets
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from gitsession import durable
from gitsession.codec.digest import to_base64url
from gitsession.dataclass import dataclass
from gitsession.discovery import databases, discover, sources
from gitsession.errors import Malformed, Refused, Unavailable
from gitsession.exporting import export_session, session_files
from gitsession.exporting.export_session import ExportResult, agent_of, export
from gitsession.formats import (
    FORMATS,
    Accompanied,
    Format,
    Importing,
    Resumable,
    Source,
    WithSideFiles,
    Workspace,
    all_with_capability,
    roots_of,
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

MISSING_FILES = "files that the session refers to, but that neither the agent nor this store has"
UNMARKED_PRUNES = "tool results that are pruned in this store but not in the agent, which skips messages that it has"
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class Attributes(NamedTuple):
    """The attributes of a file that is written. ``changed_ms``: its time, Unix time in ms; 0 for the current time."""

    mode: int = 0o600
    changed_ms: int = 0


_PRIVATE = Attributes()


@dataclass(frozen=True, slots=True)
class ResumePlan:
    """A plan to resume a session.

    Attributes:
        export: The export of the session.
        data: The content of the session's file.
        id: The agent's id for the session.
        file: The path of the session's file.
        existing_bytes: The number of bytes of ``data`` that the file already contains; ``None`` if it does not exist.
        commands: The commands to run one after the other in ``cwd``. The last command continues the session. If
            there are two commands, the first one imports the file into the agent's database.
        cwd: The working directory in which the agent is started.
        entry: The chain digest of the entry at which the session continues.
        other_files: The contents, by path, of other files that are missing: files to which the session refers, and
            files that it continues. These files are written, too.
        attributes: The attributes of new files that are not private to the user, by path.
        kept: The existing files that differ from the side files in the store. These files are not changed.
    """

    export: ExportResult
    data: bytes
    id: str
    file: Path
    existing_bytes: int | None
    commands: tuple[tuple[str, ...], ...]
    cwd: str
    entry: str
    other_files: Mapping[Path, bytes] = field(default_factory=dict)
    attributes: Mapping[Path, Attributes] = field(default_factory=dict)
    kept: tuple[Path, ...] = ()

    @property
    def is_complete(self) -> bool:
        """True if the session's own file exists and is complete."""
        return self.existing_bytes == len(self.data)


def content_digest(source: Source) -> bytes:
    """Return a digest of the content of a session, by which an import recognizes content that gitsession wrote."""
    parts = (*(record.payload for record in source.records), source.tail or b"", source.waiting)
    return sha256(b"".join(b"%d:%b" % (len(part), part) for part in parts)).digest()


def source_of(plan: ResumePlan) -> Source:
    """Return the ``Source`` that an import would read from the planned file. Raises ``Malformed``."""
    return FORMATS[plan.export.agent].split(plan.data, name=sources.name_of(plan.file))


def workspace(cwd: str | Path, home: Path, environment: Mapping[str, str]) -> Workspace:
    """Return the ``Workspace`` for the folder ``cwd`` on this machine. Symbolic links are resolved."""
    names = ("TMPDIR", "TMP", "TEMP")
    temporary = next((found for name in names if (found := environment.get(name))), "/tmp")
    return Workspace(*(os.path.realpath(path) for path in (cwd, home, temporary)))


def plan(
    store: ObjectStore,
    sid: str,
    agent: str | None,
    at: Node | None,
    target: Workspace,
    environment: Mapping[str, str],
    find: Callable[[str, str], str | None] | None = None,
) -> ResumePlan:
    """Plan how an agent continues a session in the folder ``target``. Nothing is written.

    Args:
        store: The store.
        sid: The id of the session.
        agent: The agent; ``None`` for the agent of the session.
        at: The entry to continue from; ``None`` for the leaf.
        target: The folder in which the agent continues, and other folders of this machine.
        environment: The environment variables, which can change the folder in which the agent stores its sessions.
        find: A function that maps an agent's name and the agent's id of a session to the session's id in this store. It
            finds the sessions that the file continues, and the session to name in an error message if the file is
            another session in this store. ``None`` to find none.

    Raises:
        Refused: If the agent continued its file after the last import, if another file exists at the path, if the
            history of ``at`` has no message, or if the agent is unknown or cannot continue a session from a file.
    """
    own_agent = agent_of(store, sid, session_facts.file_start(store, graph.tree(store, sid), sid)[1])
    agent = agent or own_agent
    format = _resumable(agent)
    _check_has_message(store, sid, at)
    # The agent's file contains the secrets, and the export must begin with the content of that file.
    shown = RevealedStore(store)
    result = export(shown, sid, agent, _export_start(store, sid, at), target.cwd).from_store(shown)
    assert result.session is not None
    id = format.native_id(result.session.source_id or sid)
    folder, notes = _folder(format, target, environment), dict(result.notes)
    with _name_other_session(sid, lambda: find(format.AGENT, id) if find is not None else None):
        file, data, existing_bytes = _found(format, folder, result, result.session, target)
        unmarked = check(format, result.data, target, environment) if isinstance(format, Importing) else 0
    entry = to_base64url((at or load(store, graph.branches(store, sid)[active(store, sid)])).chain)
    attachments = SessionAttachments(shown, sid)
    other_files, missing = _missing_sidecars(format, folder, file, data, attachments)
    side_files = _SideFiles()
    if agent == own_agent and isinstance(format, WithSideFiles):
        side_files.add(format, folder, id, target, file, attachments)
    other_files |= side_files.missing
    for base in session_files.bases(shown, agent, data, find) if find is not None else ():
        other_files |= _missing(folder, base)
    notes |= {note: count for note, count in ((UNMARKED_PRUNES, unmarked), (MISSING_FILES, missing)) if count}
    return ResumePlan(
        export=replace(result, notes=notes),
        data=data,
        id=id,
        file=file,
        existing_bytes=existing_bytes,
        commands=_commands(format, id, str(file)),
        cwd=target.cwd,
        entry=entry,
        other_files=other_files,
        attributes=side_files.attributes,
        kept=tuple(side_files.kept),
    )


def _resumable(agent: str) -> Resumable:
    """Return the format of an agent. Raises ``Refused`` if the agent cannot continue a session from a file."""
    format = with_capability(agent, Resumable)
    if format is None:
        raise Refused(
            f"cannot resume in '{agent}': the agent cannot continue a session from a file",
            hint=f"pass --in with one of {', '.join(all_with_capability(Resumable))}",
        )
    return format


def _check_has_message(store: ObjectStore, sid: str, at: Node | None) -> None:
    """Raise ``Refused`` if there is no message to continue from in the history of ``at``."""
    if at is not None and not any(node.kind == Message.kind for node in graph.history(store, at.oid)):
        raise Refused(
            f"cannot resume session {sid} at this entry: its history has no message",
            hint="pass a later entry (run `gitsession log` to list the entries)",
        )


@contextmanager
def _name_other_session(sid: str, find: Callable[[], str | None]) -> Iterator[None]:
    """Name the session of the file in the error, if the agent has continued it as another session of this store.

    ``find``: a function that returns the session of the file.
    """
    try:
        yield
    except AgentFileAhead as error:
        other_sid = find()
        if other_sid in (None, sid):
            raise
        message = f"cannot resume: the agent has continued '{error.path}', which is session {other_sid} in this store"
        raise Refused(message, hint=f"run `gitsession resume {other_sid}`") from None


def _commands(format: Resumable, id: str, file: str) -> tuple[tuple[str, ...], ...]:
    """Return the commands that continue a session. See ``ResumePlan.commands``."""
    commands = [format.import_command(file)] if isinstance(format, Importing) else []
    return tuple(map(tuple, [*commands, format.resume_command(id, file)]))


def perform(plan: ResumePlan) -> None:
    """Write the files of ``plan`` that are missing or incomplete.

    Raises ``OSError``, and ``Refused`` if the session's file has changed since ``plan`` was made.
    """
    for path, content in plan.other_files.items():
        try:
            _write(path, content, plan.attributes.get(path, _PRIVATE))
        except FileExistsError:  # a prefix of the file existed, or the agent has just written it
            existing = sources.read(path)[1]
            if content.startswith(existing) and existing != content:
                _append_to_file(path, len(existing), content)
    if plan.is_complete:
        return
    if plan.existing_bytes is not None:
        _append_to_file(plan.file, plan.existing_bytes, plan.data)
        return
    try:
        _write(plan.file, plan.data)
    except FileExistsError:
        raise _is_other(plan.file) from None


def _write(file: Path, data: bytes, attributes: Attributes = _PRIVATE) -> None:
    """Write a new file atomically. Raises ``FileExistsError`` if ``file`` exists."""
    durable.make_directories(file.parent)
    scratch = file.parent / f".gitsession-{secrets.token_hex(8)}.tmp"
    with _naming(file):
        durable.write_new(scratch, data, mode=attributes.mode)
    if attributes.changed_ms:
        os.utime(scratch, ns=(attributes.changed_ms * 1_000_000,) * 2)
    try:
        _name(scratch, file)
    finally:
        scratch.unlink(missing_ok=True)
    durable.sync_directory(file.parent)


def _missing_sidecars(
    format: Resumable, folder: Path, file: Path, data: bytes, attachments: SessionAttachments
) -> tuple[dict[Path, bytes], int]:
    """Find the sidecar files of ``data`` that are missing in ``folder``.

    Returns:
        The contents of the missing files that are in the store, by path, and the number of the missing files that are
        not in the store.
    """
    found: dict[Path, bytes] = {}
    missing = 0
    for sidecar in format.sidecars(data, sources.name_of(file)) if isinstance(format, Accompanied) else ():
        if not sidecar.home:
            continue
        path = folder / sidecar.home
        if os.path.lexists(path):
            continue
        content = attachments.get(sidecar.name)
        if content is not None and sha256(content).hexdigest() == sidecar.sha256:
            found[path] = content
        else:
            missing += 1
    return found, missing


@dataclass(frozen=True, slots=True)
class _SideFiles:
    """The side files of a session in the agent's folder.

    ``missing``: the contents of the missing files, by path. The content of a shared file that lacks lines of the
    session is the existing content with these lines appended. ``attributes``: the attributes of missing files. The
    mode is that with which the agent creates them, because Claude Code restores a file with the mode of its backup. A
    backup gets the time at which the session began: Claude Code restores no file that is older than its backup and has
    the same size. ``kept``: the existing files with other content.
    """

    missing: dict[Path, bytes] = field(default_factory=dict)
    attributes: dict[Path, Attributes] = field(default_factory=dict)
    kept: list[Path] = field(default_factory=list)

    def add(
        self, format: WithSideFiles, folder: Path, id: str, target: Workspace, file: Path,
        attachments: SessionAttachments,
    ) -> None:  # fmt: skip
        for name in attachments.nodes:
            path_below = format.side_path(name, id, target, os.path.relpath(file, folder))
            if path_below is None:
                continue
            path = folder / path_below
            if not _is_inside(folder, path_below):
                self.kept.append(path)
                continue
            try:
                existing = sources.read(path)[1] if os.path.lexists(path) else None
            except (OSError, Malformed):
                self.kept.append(path)
                continue
            if name in format.SHARED:
                before = existing or b""
                before += b"\n" if before and not before.endswith(b"\n") else b""
                lines = [line for line in attachments.lines(name) if line not in before]
                if lines:
                    self.missing[path] = before + b"".join(lines)
            elif existing is None and (entry := attachments.newest(name)) is not None:
                self.missing[path] = entry.data
                changed_ms = entry.at_ms if name.startswith(format.BACKUPS) else 0
                self.attributes[path] = Attributes(0o777 if entry.executable else 0o666, changed_ms)
            elif existing != attachments.get(name):
                self.kept.append(path)


def _is_inside(folder: Path, path_below: str) -> bool:
    """Return whether a path, the name in which another store chose, stays in ``folder``, through any links."""
    if "\0" in path_below or not {".", ".."}.isdisjoint(path_below.split("/")):
        return False
    return Path(os.path.realpath((folder / path_below).parent)).is_relative_to(os.path.realpath(folder))


def _export_start(store: ObjectStore, sid: str, at: Node | None) -> Node | None:
    """Return the entry whose history is exported, or ``None`` if the agent continues its whole file at ``at``."""
    leaves = graph.branches(store, sid)
    leaf = leaves[active(store, sid)]
    chosen = at.oid if at is not None else leaf
    if chosen == leaf == leaves[derived(store, sid, leaves)] and export_session.is_in_newest(store, sid, leaf):
        return None
    return at if at is not None else load(store, leaf)


def _found(
    format: Resumable, folder: Path, result: ExportResult, header: SessionHeader, target: Workspace
) -> tuple[Path, bytes, int | None]:
    """Return the path of the session's file, its content, and the number of its bytes that the file already contains.

    The number is ``None`` if the file does not exist. If the agent can resume an existing file in ``target``, the
    header of the file is not changed, even if the header contains another folder. Raises ``Refused`` if an existing
    file is not a prefix of the content.
    """
    path = folder / (result.path or format.session_path(header, target))
    if isinstance(format, Importing):
        # The agent copies an export to its database and does not use the file again. The digest in the file name
        # prevents a conflict with the file of an earlier export.
        path = path.with_stem(f"{path.stem}-{sha256(result.data).hexdigest()[:12]}")
    errors = []
    globs = [session_files.AgentFile(result.path, result.data).pattern] if result.path else format.globs(header, target)
    for file in _existing_files(folder, path, globs):
        existing = sources.read(file)[1]
        for data in (result.data, result.unmoved_data):
            if data.startswith(existing):
                return file, data, len(existing)
        errors.append(_has_grown(file) if existing.startswith((result.data, result.unmoved_data)) else _is_other(file))
    if errors:
        raise errors[0]
    return path, result.data, None


def _folder(format: Resumable, target: Workspace, environment: Mapping[str, str]) -> Path:
    """Return the folder in which the agent stores its sessions.

    If the agent has no root, this is the folder of ``target``.
    """
    roots = roots_of(format)
    if not roots:
        return Path(target.cwd)
    return discover.base_of(roots[0], Path(target.home), environment).absolute()


def _missing(folder: Path, base: session_files.AgentFile) -> dict[Path, bytes]:
    """Return ``base``, a file that another file continues, if it is missing or incomplete in ``folder``.

    The agent may have continued ``base`` itself, in any working directory. So the header of an existing file may
    differ, and the file may have more lines.

    Returns:
        The path and the content of the file; empty if the existing file is complete.

    Raises:
        Refused: If the content of the existing file differs from the stored content.
    """
    path = folder / base.path
    for file in _existing_files(folder, path, [base.pattern]):
        existing = sources.read(file)[1]
        header, _, rest = existing.partition(b"\n")
        content = base.data.partition(b"\n")[2]
        if rest.startswith(content):
            return {}
        if content.startswith(rest):
            return {file: header + b"\n" + content}
        raise _is_other(file)
    return {path: base.data}


def _existing_files(base: Path, path: Path, globs: Sequence[str]) -> Iterator[Path]:
    if os.path.lexists(path):
        yield path
    for pattern in globs:
        yield from (file for file in sorted(base.glob(pattern)) if file != path)


def _append_to_file(file: Path, size: int, data: bytes) -> None:
    """Append ``data``, except its first ``size`` bytes, to ``file``.

    If the process is killed during the append, the file is still a prefix of ``data``. The file is not replaced, so
    that a program that has it open reads the new bytes.
    """
    fd = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        if os.fstat(fd).st_size != size:
            raise _has_grown(file)
        rest = memoryview(data)[size:]
        with _naming(file):
            while rest:
                rest = rest[os.write(fd, rest) :]
            os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Add the path of ``file`` to an error that names none, such as that of a full disk."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or os.fspath(file)
        raise


def _name(scratch: Path, file: Path) -> None:
    """Create ``file`` as a hard link to ``scratch``. Raises ``FileExistsError`` if ``file`` exists.

    A rename would replace an existing file, so ``scratch`` is renamed only if the file system does not support hard
    links.
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
    return AgentFileAhead(file, f"cannot write '{file}': the agent has continued the session in this file")


def _is_other(file: Path) -> Refused:
    return Refused(
        f"cannot write '{file}': it already exists with different content",
        hint=f"run `gitsession import {shlex.quote(str(file))}` to import it, or move it elsewhere",
    )


# Comparison of an export with the same session in the agent's database. The agent's import adds missing messages and
# does not change existing messages. If an export differs from the session in the database, the import would mix the
# two, so the agent must not import such an export.


class AgentFileAhead(Refused):
    """The error for an agent's file or database at ``path`` that contains entries that are not imported yet."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message, hint=f"run `gitsession import {shlex.quote(str(path))}` first")
        self.path = path


def check(format: Format, data: bytes, target: Workspace, environment: Mapping[str, str]) -> int:
    """Check that the agent can import the export ``data``. Return the number of prunes that its import will ignore.

    The agent ignores a prune if the session is already in its database, because existing messages are not changed.

    Raises:
        Refused: If one of the agent's databases has later messages of the session, or a session with the same id and
            different content.
        Unavailable: If a database is locked.
        Malformed: If a database is damaged.
    """
    source = format.split(data, final=True)
    records = [parse(record.payload) for record in source.records]
    ignored = 0
    for path, session in _stored_sessions(format, source.source_id, Path(target.home), environment):
        agent_records = [parse(record.payload) for record in session.records]
        if records[: len(agent_records)] != agent_records:
            if agent_records[: len(records)] == records:
                raise AgentFileAhead(path, f"cannot resume: the agent has continued the session in '{path}'")
            raise Refused(
                f"cannot resume: '{path}' already contains a different version of this session",
                hint=f"run `gitsession import {shlex.quote(str(path))}` to import it",
            )
        added = (format.read(record.payload) for record in source.records[len(agent_records) :])
        ignored += sum(isinstance(entry, Prune) for entry in added) if agent_records else 0
    return ignored


def _stored_sessions(
    format: Format, id: str, home: Path, environment: Mapping[str, str]
) -> Iterator[tuple[Path, Source]]:
    """Yield each database of the agent that has the session ``id``, with the session."""
    for root in roots_of(format):
        for path in sorted(discover.base_of(root, home, environment).glob(root.pattern)):
            try:
                session = _session(format, path, id)
            except (Malformed, Unavailable) as error:
                raise type(error)(f"{path}: {error}", hint=error.hint) from error
            if session is not None:
                yield path, session


def _session(format: Format, path: Path, id: str) -> Source | None:
    if not sources.is_database(sources.head(path)):
        return None
    with databases.opened(path) as database:
        format_ = database.format
        if format_ is None or format_.AGENT != format.AGENT:
            return None
        is_there = any(listed_id == id for listed_id, _ in format_.session_stamps(database.query, database.columns))
        return format_.session(database.query, database.columns, id, final=True) if is_there else None
