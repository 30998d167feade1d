"""The format of Claude Code's sessions, ``~/.claude/projects/<folder>/<session>.jsonl``, and of its sub-agents.

Each sub-agent has its own file below the folder ``<session>``. The format of the lines is internal to Claude Code and
changes between versions. Unknown parts are kept unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gitsession.formats.base.file_changes import RecordedChange
from gitsession.formats.base.format import (
    Accompanied,
    Delegating,
    Remembering,
    Resumable,
    Sidecar,
    Streamed,
)
from gitsession.formats.base.jsonl import Data, LineFailure, record_line
from gitsession.formats.base.jsonl import parse as parse_line
from gitsession.formats.base.record import Source
from gitsession.formats.claude import files, split_file
from gitsession.formats.claude.headline import headline_of
from gitsession.formats.claude.read_entry import entry_of
from gitsession.formats.claude.records import calls_in, results_in, text
from gitsession.formats.claude.write import promote_sub_agent, write
from gitsession.model.entries import SessionHeader


class Claude(Accompanied, Delegating, Remembering, Resumable, Streamed):
    """The session files of Claude Code and of its sub-agents."""

    AGENT = split_file.AGENT
    RECORDED = "recorded by Claude Code"

    claims = staticmethod(split_file.claims)
    split = staticmethod(split_file.split)
    headline = staticmethod(headline_of)
    read = staticmethod(entry_of)
    write = staticmethod(write)
    native_id = staticmethod(files.session_uuid)
    session_path = staticmethod(files.session_path)
    globs = staticmethod(files.globs)
    resume_command = staticmethod(files.resume_command)

    def sidecars(self, data: Data, name: str) -> Sequence[Sidecar]:
        return files.sidecars(name)

    def copy_folders(self, name: str, source: Source) -> Sequence[str]:
        return files.copy_folders(name)

    def file_changes(self, source: Source) -> Iterable[RecordedChange]:
        return files.file_changes(source.payloads())

    def relocate(self, data: bytes, id: str, cwd: str) -> bytes:
        """Return ``data`` unchanged, unless it is a sub-agent's file.

        Claude Code derives the session and its folder from the path. A sub-agent's file becomes the file of a separate
        session, because Claude Code cannot resume a sub-agent.
        """
        return promote_sub_agent(data)

    def starting_call(self, payload: bytes, id: str, sidecars: Mapping[str, bytes]) -> str:
        """Return the id of the call that started a sub-agent, from the sub-agent's description file.

        If there is no description file, return the id of the call in ``payload`` whose result contains the sub-agent's
        id.
        """
        agent = id.rpartition("agent-")[2]
        call_ids = {call for data in sidecars.values() if (call := _call_id_in(data)) is not None}
        if not any(word.encode("utf-8", "surrogatepass") in payload for word in call_ids or {agent}):
            return ""
        line = parse_line(record_line(payload))
        if isinstance(line, LineFailure):
            return ""
        result = line.get("toolUseResult")
        is_result = isinstance(result, dict) and result.get("agentId") == agent
        return min(calls_in(line) & call_ids if call_ids else results_in(line) if is_result else (), default="")

    def is_delegated(self, source_id: str, header: SessionHeader) -> bool:
        """Return whether the session belongs to a sub-agent: ``source_id`` has the form ``<session>/agent-<id>``."""
        return source_id.rpartition("/")[2].startswith("agent-")


def _call_id_in(data: bytes) -> str | None:
    description = parse_line(data)
    return None if isinstance(description, LineFailure) else text(description.get("toolUseId"))


claude = Claude()
