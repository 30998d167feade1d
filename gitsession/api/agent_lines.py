"""Append lines of an agent's session file to a session, without a file.

The entries are those that an import of the file would store. So a program that writes such lines needs no import, and
an import of the exported file adds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gitsession.api.store import Store
from gitsession.dataclass import dataclass
from gitsession.discovery.sources import LoadedSession, ReadState
from gitsession.errors import LeafMoved, Malformed, NotFound, RefMoved, Refused
from gitsession.formats import FORMATS, Growing
from gitsession.formats.base import jsonl
from gitsession.git.types import RefValue
from gitsession.importing.import_session import ImportResult
from gitsession.importing.import_state import ImportState, refs_of

AGENTS = ("omp", "pi")
"""The agents whose files are only appended to, and contain the id of the session."""

_OPEN_MAX = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredLines:
    """Lines of a session's file.

    ``session``: the id of the session. ``lines``: the requested lines, without line ends. ``count``: the number of all
    lines.
    """

    session: str
    lines: tuple[bytes, ...] = ()
    count: int


class _File(NamedTuple):
    """The file of a session.

    ``refs``: the values of the session's refs. ``lines``: the number of lines. ``state``: the state from which the next
    import continues; ``None`` if it must import all lines. ``is_checked``: whether an import of the file is known to
    find this session.
    """

    agent: str
    refs: Mapping[str, RefValue]
    data: bytes
    lines: int
    state: ImportState | None = None
    is_checked: bool = False


class AgentLines:
    """The sessions of a store as files of lines. Several processes can append to one session.

    ``store``: the store, which the caller closes.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, _File] = {}

    def new(self, agent: str, lines: Sequence[bytes]) -> StoredLines:
        """Create a session from the first lines of a file. The session is durable when this method returns.

        Args:
            agent: The agent whose format the lines have.
            lines: The lines, without line ends. The first one is the header.

        Raises:
            Malformed: The lines are not those of a session file of the agent.
            Refused: The agent is none of ``AGENTS``, a session with this id exists, or it was purged.
        """
        format = _format_of(agent)
        data = _joined(lines, has_header=False)
        if not format.claims(data):
            raise Malformed(f"the first line is not the header of a session of {agent}")
        with self._store._opened.lock_keys():
            source_id = format.split(data).source_id
            found = self._store.agents.find(agent, source_id)
            if found is not None:
                raise Refused(f"cannot create session '{source_id}': session {found} has this id", hint="open it")
            return self._import(_File(agent, {}, b"", 0), data)

    def append(self, session: str, lines: Sequence[bytes], *, after: int) -> StoredLines:
        """Append lines to a session: all of them, or none. They are durable when this method returns.

        Args:
            session: The id of the session.
            lines: The lines, without line ends.
            after: The number of lines that the session must have.

        Raises:
            LeafMoved: The session has another number of lines, because another program appended to it.
            Malformed: A line is not a JSON object, or is a header.
            Refused: The session is not one of ``AGENTS``, it was purged, or it is a fork: its file has the header of
                another session.
        """
        with self._store._opened.lock_keys():
            file = self._file(session)
            if file.lines != after:
                raise LeafMoved(
                    f"cannot append to session {session}: it has {file.lines:,} lines instead of {after:,}, because "
                    "another program appended to it",
                    hint="read the new lines and append again",
                )
            added = _joined(lines, has_header=True)
            if not added:
                return StoredLines(session=session, count=file.lines)
            if not file.is_checked:
                self._refuse_other(session, file)
            return self._import(file, added)

    def read(self, session: str, *, after: int = 0, limit: int | None = None) -> StoredLines:
        """Return the lines of a session, with the secrets whose originals are in the local vault.

        Args:
            session: The id of the session.
            after: The number of lines to leave out.
            limit: The maximum number of lines.

        Raises:
            NotFound: No session has this id.
            Refused: The session is not one of ``AGENTS``.
            Corrupt: A line cannot be read.
        """
        file = self._file(session)
        found = file.data.split(b"\n")[: file.lines]
        return StoredLines(
            session=session, lines=tuple(found[after:][: len(found) if limit is None else limit]), count=file.lines
        )

    def _file(self, sid: str) -> _File:
        known = self._known.get(sid)
        if known is not None and known.refs == refs_of(self._store.objects, sid):
            return known
        row = self._store.catalogue().session(sid)
        if row is None:
            raise NotFound(f"no session {sid}")
        _format_of(row.agent)
        before = refs_of(self._store.objects, sid)
        data = self._store.export(sid, original=True, with_secrets=True).data
        data += b"" if data.endswith(b"\n") else b"\n"
        return self._keep(sid, _File(row.agent, before, data, data.count(b"\n")))

    def _keep(self, sid: str, file: _File) -> _File:
        self._known.pop(sid, None)
        self._known[sid] = file
        if len(self._known) > _OPEN_MAX:
            del self._known[next(iter(self._known))]
        return file

    def _refuse_other(self, sid: str, file: _File) -> None:
        """Raise ``Refused`` if an import of the file finds another session than ``sid``, as for the file of a fork."""
        format = _format_of(file.agent)
        loaded = LoadedSession(format.split(file.data), {}, [])
        found = self._store.agents.import_session(format, loaded, dry_run=True, logged=False, histories=False)
        if found.session != sid and not found.is_purged:
            raise Refused(
                f"cannot append to session {sid}: the id in its header is that of session {found.session}, "
                "and an append would change that session",
                hint=f"append to {found.session}, or create a session from these lines with a new id in the header",
            )

    def _import(self, file: _File, added: bytes) -> StoredLines:
        """Import a file with the lines ``added``: only these, if the state of the last import is known."""
        data = file.data + added
        try:
            done = self._import_from(file, data, file.state)
        except RefMoved:
            if file.state is None:
                raise
            done = self._import_from(file, data, None)
        if done.is_purged:
            raise Refused(f"cannot append to session {done.session}: it was purged", hint="use another session id")
        count = file.lines + added.count(b"\n")
        now = refs_of(self._store.objects, done.session)
        self._keep(done.session, _File(file.agent, now, data, count, done.state, is_checked=True))
        return StoredLines(session=done.session, count=count)

    def _import_from(self, file: _File, data: bytes, state: ImportState | None) -> ImportResult:
        format = _format_of(file.agent)
        rest = None if state is None else format.split_rest(data, state.read.split)
        source = rest or format.split(data)
        read = None if source.state is None else ReadState(file.agent, "", source.state)
        loaded = LoadedSession(source, {}, [], read)
        return self._store.agents.import_session(
            format, loaded, logged=False, histories=False, earlier=None if rest is None else state
        )


def _format_of(agent: str) -> Growing:
    format = FORMATS.get(agent)
    if agent not in AGENTS or not isinstance(format, Growing):
        raise Refused(f"lines cannot be appended to a session of agent '{agent}'", hint=f"agents: {', '.join(AGENTS)}")
    return format


def _joined(lines: Sequence[bytes], *, has_header: bool) -> bytes:
    """Return the lines with their line ends. Raises ``Malformed`` if one is not a JSON object, or is a second header.

    ``has_header``: whether the file has a header already.
    """
    for number, line in enumerate(lines, 1):
        found = jsonl.LineFailure("it contains a line end") if b"\n" in line else jsonl.parse(line)
        if isinstance(found, jsonl.LineFailure):
            raise Malformed(f"cannot append line {number}: {found.reason or 'it is blank'}")
        if found.get("type") == "session":
            if has_header:
                raise Malformed(f"cannot append line {number}: it is a second header")
            has_header = True
    return b"".join(line + b"\n" for line in lines)
