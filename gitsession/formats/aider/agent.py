"""The format of Aider's sessions. All runs in a project are in one file, ``.aider.chat.history.md``."""

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
    """Aider's chat histories. The times of the prompts are in another file in the same folder."""

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
        """Return the file with the prompts of all runs and their times.

        The file belongs only to a history file with the name that Aider itself uses.
        """
        is_own = name.rpartition("/")[2] == split_file.NAME
        return (Sidecar(_PROMPTS, (_PROMPTS,), needed=False),) if is_own else ()

    def session_path(self, header: SessionHeader, workspace: Workspace) -> str:
        """Return the name of a file in the project's folder.

        It always differs from the name of Aider's own history file.
        """
        stem = "".join(char if char.isalnum() or char in "-_" else "-" for char in header.source_id or "session")
        return f".aider.{stem}.aider.chat.history.md"

    def relocate(self, data: bytes, id: str, cwd: str) -> bytes:
        """Return ``data`` unchanged, because a history contains neither a session id nor a folder."""
        return data

    def resume_command(self, source_id: str, file: str = "") -> list[str]:
        """Return the command that continues the history in ``file``.

        If ``file`` is empty, the command continues Aider's own history of the folder.
        """
        return ["aider", "--restore-chat-history", *(["--chat-history-file", file] if file else [])]


aider = Aider()
