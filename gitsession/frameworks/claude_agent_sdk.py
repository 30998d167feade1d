"""Transcripts of the Claude Agent SDK (``claude-agent-sdk``) in a gitsession store.

``GitSessionStore`` implements the SDK's protocol ``SessionStore``. The entries of a transcript are the lines of Claude
Code's session file. So a transcript is stored as an import of that file would store it, and an import of the file adds
nothing. See docs/how-to/keep-claude-agent-sdk-sessions.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio.to_thread
from claude_agent_sdk import fold_session_summary

from gitsession.api.store import Store
from gitsession.discovery.sources import LoadedSession, ReadState
from gitsession.errors import RefMoved, Refused
from gitsession.exporting.export_session import export_original
from gitsession.formats import Source
from gitsession.formats.base.jsonl import dumps
from gitsession.formats.claude.agent import claude
from gitsession.formats.claude.files import folder_of
from gitsession.git.types import RefValue
from gitsession.importing.import_session import ImportResult
from gitsession.importing.import_state import ImportState, refs_of
from gitsession.index.catalogue import Row
from gitsession.model.entries import Attachment, Fork
from gitsession.sessions.content import entry_of
from gitsession.sessions.node import load
from gitsession.sessions.revealed_store import RevealedStore
from gitsession.store import refs

if TYPE_CHECKING:
    from claude_agent_sdk import (
        SessionKey,
        SessionListSubkeysKey,
        SessionStoreEntry,
        SessionStoreListEntry,
        SessionSummaryEntry,
    )

AGENT = "claude"
RECORD = "claude-agent-sdk.json"
"""The name of the attachment with the SDK's key of a session, its summary, and the time of the last append."""

_OPEN_MAX = 16


class _Key(NamedTuple):
    project: str
    session: str
    subpath: str | None

    @classmethod
    def of(cls, key: Mapping[str, Any]) -> _Key:
        return cls(key["project_key"], key["session_id"], key.get("subpath"))

    @property
    def path(self) -> str:
        """The path of Claude Code's file without its suffix."""
        return "/".join(filter(None, self))

    @property
    def source_id(self) -> str:
        """Claude Code's id of the session, as an import of its file derives it."""
        if self.subpath is None:
            return self.session
        file = self.subpath.rpartition("/")[2]
        return f"{self.session}/{file if file.startswith('agent-') else self.subpath}"


class _Transcript(NamedTuple):
    """A stored transcript.

    ``refs``: the values of the session's refs. ``data``: the lines. ``record``: the content of ``RECORD``. ``state``:
    the state from which the next import continues; ``None`` if it must import all lines.
    """

    sid: str
    refs: Mapping[str, RefValue]
    data: bytes
    record: Mapping[str, Any]
    state: ImportState | None = None


class GitSessionStore:
    """A ``SessionStore`` of the Claude Agent SDK in a gitsession store, with all optional methods.

    Pass it as ``ClaudeAgentOptions(session_store=...)``. Methods run in threads, so they do not block the event loop of
    asyncio or trio. A cancelled call is completed first. Entries are durable when ``append`` returns. Several processes
    can use the same store.

    Args:
        store: The store. The program closes it.
    """

    def __init__(self, store: Store) -> None:
        """Wrap an open store."""
        self._store = store
        self._known: dict[_Key, _Transcript] = {}
        self._records: dict[str, tuple[RefValue | None, dict[str, Any]]] = {}

    # ---- the protocol

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Append entries to a transcript: all of them, or none. An entry whose ``uuid`` is stored is left out."""
        if entries:
            await anyio.to_thread.run_sync(lambda: self._append(_Key.of(key), key, entries))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return the entries of a transcript in the order of their appends; ``None`` if there is no transcript."""
        return await anyio.to_thread.run_sync(self._load, _Key.of(key))

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the id and the time of the last append of each session of a project, without sub-agents.

        Sessions that were imported from Claude Code's files are included.
        """
        return await anyio.to_thread.run_sync(self._list, project_key)

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return the SDK's summary of each session of a project. ``append`` keeps it up to date."""
        return await anyio.to_thread.run_sync(self._summaries, project_key)

    async def delete(self, key: SessionKey) -> None:
        """Move a transcript to the trash, together with those of its sub-agents. ``purge`` deletes permanently."""
        await anyio.to_thread.run_sync(lambda: self._delete(_Key.of(key)))

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the subpaths of the transcripts of a session's sub-agents."""
        wanted = _Key.of({**key, "subpath": None})
        return await anyio.to_thread.run_sync(lambda: [each.subpath for each, _ in self._subs(wanted) if each.subpath])

    # ---- implementation, which runs in threads

    def _append(self, key: _Key, sdk_key: Any, entries: Sequence[Any]) -> None:
        with self._store._opened.lock_keys():
            old = self._transcript(key)
            data = b"" if old is None else old.data
            added = list(_new_entries(data, entries))
            if not added:
                return
            record = _next_record(key, sdk_key, old, added, self._store._opened.clock())
            data += b"".join(dumps(entry) + b"\n" for entry in added if not _is_description(key, entry))
            record |= {} if data else {"is_empty": True}
            done = self._import(key, old, data, record)
            if old is not None and done.session != old.sid:
                self._drop(old)
            now = refs_of(self._store.objects, done.session)
            self._keep(key, _Transcript(done.session, now, data, record, done.state))

    def _import(self, key: _Key, old: _Transcript | None, data: bytes, record: Mapping[str, Any]) -> ImportResult:
        """Import the lines: only those after the last import, if its state is known."""
        state = None if old is None else old.state
        rest = None if state is None else claude.split_rest(data, state.read.split, name=key.path)
        source = rest or (claude.split(data, name=key.path, final=True) if data else _empty(key))
        source = replace(source, source_id=self._source_id(key, source, old))
        read = None if source.state is None else ReadState(AGENT, "", source.state)
        loaded = LoadedSession(source, {RECORD: dumps(record), **_side_file(key, record)}, [], read)
        earlier = None if rest is None else state
        try:
            done = self._store.agents.import_session(claude, loaded, logged=False, earlier=earlier)
        except RefMoved:
            if old is None or earlier is None:
                raise
            return self._import(key, old._replace(state=None), data, record)
        if done.is_purged:
            raise Refused(f"cannot append to session {done.session}: it was purged", hint="use another session id")
        return done

    def _drop(self, old: _Transcript) -> None:
        """Remove a session whose first entries had no time. Its id depends on that time, so another one replaces it."""
        with self._store.objects.transaction() as tx:
            for name, value in self._store.objects.refs(refs.session(old.sid)).items():
                tx.move(name, None, expected=value)

    def _source_id(self, key: _Key, source: Source, old: _Transcript | None) -> str:
        """Return the agent's id for a transcript: another one if a session of another project or the trash has it."""
        objects = self._store.objects
        for suffix in ("", *(f"~{number}" for number in range(2, 1000))):
            found = key.source_id + suffix
            sid = refs.imported_sids(AGENT, found, source.started_ms)[0]
            if old is not None and sid == old.sid:
                return found
            if not objects.refs(refs.session(sid)) and not objects.refs(refs.trashed(refs.session(sid))):
                return found
        raise Refused(f"cannot append to session {key.session}: too many sessions have this id", hint="use another id")

    def _transcript(self, key: _Key) -> _Transcript | None:
        known = self._known.get(key)
        if known is not None and known.refs == refs_of(self._store.objects, known.sid):
            return known
        records = {row.sid: self._record(row.sid) for each, row in self._rows() if each == key}
        if not records:
            return None
        sid, record = min(records.items(), key=lambda item: item[1].get("is_empty", False))
        is_empty = record.get("is_empty", False)
        data = b"" if is_empty else export_original(RevealedStore(self._store.objects), sid, None).data
        found = _Transcript(sid, refs_of(self._store.objects, sid), data, record)
        self._keep(key, found)
        return found

    def _keep(self, key: _Key, transcript: _Transcript) -> None:
        self._known.pop(key, None)
        self._known[key] = transcript
        if len(self._known) > _OPEN_MAX:
            del self._known[next(iter(self._known))]

    def _load(self, key: _Key) -> list[Any] | None:
        found = self._transcript(key)
        return None if found is None else _all_entries(found)

    def _rows(self) -> Iterator[tuple[_Key, Row]]:
        """Yield the key and the row of each session that is stored for the SDK or was imported from Claude Code."""
        for row in self._store.sessions():
            if row.agent != AGENT or row.source_id is None:
                continue
            record = self._record(row.sid)
            if record:
                yield _Key(record["project_key"], record["session_id"], record.get("subpath")), row
            else:
                session, _, file = row.source_id.partition("/")
                yield _Key(folder_of(row.project or ""), session, f"subagents/{file}" if file else None), row

    def _record(self, sid: str) -> dict[str, Any]:
        """Return the newest record of a session; empty if the SDK has not stored the session."""
        tip = self._store.objects.ref(refs.meta(sid))
        known = self._records.get(sid)
        if known is None or known[0] != tip:
            known = self._records[sid] = tip, _newest_record(RevealedStore(self._store.objects), tip)
        return known[1]

    def _main(self, project_key: str) -> Iterator[tuple[_Key, Row]]:
        return ((key, row) for key, row in self._rows() if key.project == project_key and key.subpath is None)

    def _list(self, project_key: str) -> list[Any]:
        found = self._main(project_key)
        return [{"session_id": key.session, "mtime": self._mtime(row)} for key, row in found]

    def _summaries(self, project_key: str) -> list[Any]:
        return [
            {"session_id": key.session, "mtime": self._mtime(row), "data": data}
            for key, row in self._main(project_key)
            if (data := self._record(row.sid).get("data")) is not None
        ]

    def _mtime(self, row: Row) -> int:
        found = self._record(row.sid).get("mtime", row.updated_ms)
        return int(found)

    def _subs(self, key: _Key) -> list[tuple[_Key, Row]]:
        return [(each, row) for each, row in self._rows() if each[:2] == key[:2] and each.subpath is not None]

    def _delete(self, key: _Key) -> None:
        with self._store._opened.lock_keys():
            found = [
                row.sid for each, row in self._rows() if each == key or (key.subpath is None and each[:2] == key[:2])
            ]
            if found:
                self._store.trash.put(*found)
            self._known.clear()


def _newest_record(objects: RevealedStore, tip: RefValue | None) -> dict[str, Any]:
    while tip is not None:
        node = load(objects, tip)
        if node.kind == Attachment.kind and RECORD in node.subject:  # other attachments can be large
            entry = entry_of(objects, node)
            if isinstance(entry, Attachment) and entry.name == RECORD:
                found: dict[str, Any] = json.loads(entry.data)
                return found
        tip = None if node.kind == Fork.kind else node.parent
    return {}


def _empty(key: _Key) -> Source:
    """Return a transcript without lines, of which only a description is stored."""
    return Source(agent=AGENT, source_id=key.source_id, started_ms=0, records=())


def _parsed(data: bytes) -> list[Any]:
    return [json.loads(line) for line in data.split(b"\n") if line]


def _all_entries(transcript: _Transcript) -> list[Any]:
    found = _parsed(transcript.data)
    for at, entry in transcript.record.get("descriptions", ()):
        found.insert(at, entry)
    return found


def _is_description(key: _Key, entry: Mapping[str, Any]) -> bool:
    """Return whether an entry is the description of a sub-agent, which Claude Code stores in a file of its own."""
    return key.subpath is not None and entry.get("type") == "agent_metadata" and "uuid" not in entry


def _side_file(key: _Key, record: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the name and the content of a sub-agent's description file, which names the call that started it."""
    found = record.get("descriptions")
    if not found:
        return {}
    fields = {name: value for name, value in found[-1][1].items() if name != "type"}
    return {f"{key.path.rpartition('/')[2]}.meta.json": dumps(fields)}


def _new_entries(data: bytes, entries: Sequence[Any]) -> Iterator[Any]:
    """Yield the entries without those whose ``uuid`` is in ``data`` or in an earlier entry."""
    seen: set[str] = set()
    for entry in entries:
        uuid = entry.get("uuid")
        if isinstance(uuid, str) and uuid:
            if uuid in seen or (dumps(uuid) in data and any(each.get("uuid") == uuid for each in _parsed(data))):
                continue
            seen.add(uuid)
        yield entry


def _next_record(key: _Key, sdk_key: Any, old: _Transcript | None, added: Sequence[Any], now_ms: int) -> dict[str, Any]:
    """Return the record after an append. Its time is later than that of the record before, as the SDK expects."""
    record = {} if old is None else old.record
    found = {"project_key": key.project, "session_id": key.session, "mtime": max(now_ms, record.get("mtime", 0) + 1)}
    if key.subpath is not None:
        before = 0 if old is None else len(_all_entries(old))
        new = [[before + at, entry] for at, entry in enumerate(added) if _is_description(key, entry)]
        return {**found, "subpath": key.subpath, "descriptions": [*record.get("descriptions", ()), *new]}
    if old is None or "data" in record:
        folded = record.get("data")
    else:  # the session was imported from a file
        folded = fold_session_summary(None, sdk_key, _parsed(old.data))["data"]
    earlier = None if folded is None else {"session_id": key.session, "mtime": 0, "data": dict(folded)}
    return {**found, "data": fold_session_summary(earlier, sdk_key, list(added))["data"]}
