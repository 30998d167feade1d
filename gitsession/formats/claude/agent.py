"""The format of Claude Code's sessions, ``~/.claude/projects/<folder>/<session>.jsonl``, and of its sub-agents.

Each sub-agent has its own file below the folder ``<session>``. The format of the lines is internal to Claude Code and
changes between versions. Unknown parts are kept unchanged.
"""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence

from gitsession.formats.base.format import (
    Accompanied,
    Delegating,
    Remembering,
    Resumable,
    Sidecar,
    Streamed,
    Workspace,
)
from gitsession.formats.base.jsonl import Data, LineFailure, record_line
from gitsession.formats.base.jsonl import parse as parse_line
from gitsession.formats.base.record import Source
from gitsession.formats.claude import files, split_file
from gitsession.formats.claude.headline import headline_of
from gitsession.formats.claude.read_entry import entry_of
from gitsession.formats.claude.records import calls_in, results_in, text
from gitsession.formats.claude.write import relocate, write
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
    file_changes = staticmethod(files.file_changes)
    relocate = staticmethod(relocate)

    def sidecars(self, data: Data, name: str) -> Sequence[Sidecar]:
        """Return ``agent-<id>.meta.json``, which contains the id of the call that started a sub-agent.

        Older versions of Claude Code do not write this file.
        """
        path = files.parse_path(name)
        description = f"{path.file}.meta.json"
        return (Sidecar(description, (description,), needed=False),) if path.is_subagent else ()

    def copy_folders(self, name: str, source: Source) -> Sequence[str]:
        """Return the folder with the copies of files, which is ``file-history/<session>`` beside ``projects``.

        The copies of a sub-agent are in the folder of its parent session.
        """
        session = files.parse_path(name).file
        return [f"../../file-history/{session}"] if files.is_uuid(session) else []

    def session_path(self, header: SessionHeader, workspace: Workspace) -> str:
        return f"projects/{files.folder_of(workspace.cwd)}/{files.session_uuid(header.source_id or '')}.jsonl"

    def globs(self, header: SessionHeader, workspace: Workspace) -> Sequence[str]:
        """Return a glob for the only path from which Claude Code resumes the session in ``workspace``."""
        return (glob.escape(self.session_path(header, workspace)),)

    def resume_command(self, source_id: str, file: str = "") -> list[str]:
        """Return the command that continues a session. It must be run in the session's working directory."""
        return ["claude", "--resume", files.session_uuid(source_id)]

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
