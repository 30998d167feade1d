"""The format of the session files of Claude Code and of its sub-agents.

The path of a session file is ``~/.claude/projects/<folder>/<session>.jsonl``. Newer versions of Claude Code write a
separate file for each sub-agent, below the folder ``<session>/subagents``. The format of the lines is internal to
Claude Code and changes between versions. Unknown types and fields are kept unchanged.
"""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence

from gitsession.formats.base.format import (
    Accompanied,
    Delegating,
    Growing,
    Remembering,
    Resumable,
    Sidecar,
    SideFiles,
    Streamed,
    WithSideFiles,
    Workspace,
)
from gitsession.formats.base.jsonl import Data, LineFailure, record_line
from gitsession.formats.base.jsonl import parse as parse_line
from gitsession.formats.base.record import Source
from gitsession.formats.claude import files, side_files, split_file
from gitsession.formats.claude.headline import headline_of
from gitsession.formats.claude.read_entry import entry_of
from gitsession.formats.claude.records import calls_in, results_in, text
from gitsession.formats.claude.write import relocate, write
from gitsession.model.entries import SessionHeader


class Claude(Accompanied, Delegating, Growing, Remembering, Resumable, Streamed, WithSideFiles):
    """The session files of Claude Code and of its sub-agents."""

    AGENT = split_file.AGENT
    RECORDED = "recorded by Claude Code"
    SHARED = (side_files.HISTORY,)
    BACKUPS = (side_files.BACKUPS,)

    claims = staticmethod(split_file.claims)
    split = staticmethod(split_file.split)
    split_rest = staticmethod(split_file.split_rest)
    headline = staticmethod(headline_of)
    read = staticmethod(entry_of)
    write = staticmethod(write)
    native_id = staticmethod(files.session_uuid)
    mentions_changes = staticmethod(files.mentions_changes)
    file_changes = staticmethod(files.file_changes)
    relocate = staticmethod(relocate)

    def sidecars(self, data: Data, name: str) -> Sequence[Sidecar]:
        """Return the description file of a sub-agent, ``agent-<id>.meta.json``. Other sessions have no sidecar files.

        The description file contains the id of the call that started the sub-agent. Older versions of Claude Code do
        not write a description file.
        """
        path = files.parse_path(name)
        description = f"{path.file}.meta.json"
        return (Sidecar(description, (description,), needed=False),) if path.is_subagent else ()

    def copy_folders(self, name: str, source: Source) -> Sequence[str]:
        """Return the folder with Claude Code's copies of files: ``file-history/<session>``, beside ``projects``.

        For a sub-agent, return no folder, because the copies are in the folder of the parent session.
        """
        session = files.parse_path(name).file
        return [f"../../file-history/{session}"] if files.is_uuid(session) else []

    def side_files(self, name: str, source: Source | None) -> SideFiles | None:
        """Return the side files of a session (``side_files``). A sub-agent has none of its own."""
        return side_files.of_session(name, source)

    def side_path(self, name: str, id: str, workspace: Workspace, file: str = "") -> str | None:
        return side_files.path_of(name, id, files.folder_of(workspace.cwd))

    def session_path(self, header: SessionHeader, workspace: Workspace) -> str:
        return f"projects/{files.folder_of(workspace.cwd)}/{files.session_uuid(header.source_id or '')}.jsonl"

    def globs(self, header: SessionHeader, workspace: Workspace) -> Sequence[str]:
        """Return a glob that matches only ``session_path``.

        If Claude Code is run in ``workspace``, it cannot resume the session from any other path.
        """
        return (glob.escape(self.session_path(header, workspace)),)

    def resume_command(self, source_id: str, file: str = "") -> list[str]:
        """Return the command that continues a session.

        The command must be run in the working directory of the session.
        """
        return ["claude", "--resume", files.session_uuid(source_id)]

    def starting_call(self, payload: bytes, id: str, sidecars: Mapping[str, bytes]) -> str:
        """Return the id of the call that started the sub-agent ``id``, or "" if the call is not found in ``payload``.

        If a description file in ``sidecars`` contains the id of the call, ``payload`` is searched for this call.
        Otherwise, ``payload`` is searched for a tool result with the id of the sub-agent, and the id of the call is
        taken from this result.
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
        """Return whether ``source_id`` is the id of a sub-agent's session, such as ``<session>/agent-<id>``."""
        return source_id.rpartition("/")[2].startswith("agent-")


def _call_id_in(data: bytes) -> str | None:
    description = parse_line(data)
    return None if isinstance(description, LineFailure) else text(description.get("toolUseId"))


claude = Claude()
