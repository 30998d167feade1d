"""The format of Aider's sessions. Aider stores all runs in a project in one file, ``.aider.chat.history.md``."""

from __future__ import annotations

from collections.abc import Sequence

from gitsession.formats.aider import split_file
from gitsession.formats.aider.headline import headline_of
from gitsession.formats.aider.read_entry import entry_of
from gitsession.formats.aider.write import write
from gitsession.formats.base.format import Accompanied, InProject, Resumable, Sidecar, Workspace
from gitsession.formats.base.jsonl import Data
from gitsession.model.entries import SessionHeader

_PROMPTS = ".aider.input.history"


class Aider(Accompanied, InProject, Resumable):
    """The format of Aider's chat histories. Another file in the same folder contains the times of the prompts."""

    AGENT = split_file.AGENT
    FORM = "md"
    BETWEEN = b""
    FILES = ("*aider.chat.history.md",)
    IN_PROJECT = f"{split_file.NAME}.md"

    claims = staticmethod(split_file.begins_run)
    split = staticmethod(split_file.split)
    headline = staticmethod(headline_of)
    read = staticmethod(entry_of)
    write = staticmethod(write)

    def sidecars(self, data: Data, name: str) -> Sequence[Sidecar]:
        """Return the file that contains the prompts of all runs and the times of these prompts.

        If the history file does not have Aider's default name, return no file.
        """
        is_own = name.rpartition("/")[2] == split_file.NAME
        return (Sidecar(_PROMPTS, (_PROMPTS,), needed=False),) if is_own else ()

    def session_path(self, header: SessionHeader, workspace: Workspace) -> str:
        """Return the name of the file to write in the project's folder.

        The name always differs from the default name of Aider's history file.
        """
        stem = "".join(char if char.isalnum() or char in "-_" else "-" for char in header.source_id or "session")
        return f".aider.{stem}.aider.chat.history.md"

    def relocate(self, data: bytes, id: str, cwd: str) -> bytes:
        """Return ``data`` unchanged, because a history contains neither a session id nor a folder."""
        return data

    def resume_command(self, source_id: str, file: str = "") -> list[str]:
        """Return the command that continues the history in ``file``.

        If ``file`` is empty, Aider continues the history file with the default name in the current folder.
        """
        return ["aider", "--restore-chat-history", *(["--chat-history-file", file] if file else [])]


aider = Aider()
