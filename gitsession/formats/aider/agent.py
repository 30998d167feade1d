"""Sessions of Aider: ``.aider.chat.history.md`` in the folder of each project, all its runs in one file."""

from __future__ import annotations

from collections.abc import Sequence

from gitsession.formats.aider import split_file
from gitsession.formats.aider.headline import headline_of
from gitsession.formats.aider.read_entry import entry_of
from gitsession.formats.aider.split_file import begins_run
from gitsession.formats.aider.write import write
from gitsession.formats.base.format import Accompanied, InProject, Resumable, Sidecar, Workspace
from gitsession.formats.base.jsonl import Data
from gitsession.model.entries import SessionHeader


class Aider(Accompanied, InProject, Resumable):
    """The chat histories of Aider. The times of its prompts are in a file beside them."""

    AGENT = split_file.AGENT
    FORM = "md"
    BETWEEN = b""
    FILES = ("*aider.chat.history.md",)
    IN_PROJECT = f"{split_file.NAME}.md"

    claims = staticmethod(begins_run)
    split = staticmethod(split_file.split)
    headline = staticmethod(headline_of)
    read = staticmethod(entry_of)
    write = staticmethod(write)

    def beside(self, data: Data, name: str) -> Sequence[Sidecar]:
        return split_file.beside(name)

    def place(self, header: SessionHeader, at: Workspace) -> str:
        """Return a name in the folder itself that is never that of the history that Aider writes there."""
        called = "".join(char if char.isalnum() or char in "-_" else "-" for char in header.source_id or "session")
        return f".aider.{called}.aider.chat.history.md"

    def moved(self, data: bytes, id: str, cwd: str) -> bytes:
        """Return ``data`` unchanged: a history states neither its name nor its folder."""
        return data

    def resume_command(self, source_id: str, file: str = "") -> list[str]:
        """Return the command that continues the history in ``file``, or the folder's own without ``file``."""
        return ["aider", "--restore-chat-history", *(["--chat-history-file", file] if file else [])]


aider = Aider()
