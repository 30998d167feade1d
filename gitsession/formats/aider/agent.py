"""Sessions of Aider: ``.aider.chat.history.md`` in the folder of each project, all its runs in one file."""

from __future__ import annotations

from collections.abc import Sequence

from gitsession.formats.aider import headline as aider_headline
from gitsession.formats.aider import parse, spans, view
from gitsession.formats.aider import write as aider_write
from gitsession.formats.base.lines import Data
from gitsession.formats.base.outgoing import Outgoing, Written
from gitsession.formats.base.places import Beside, Root, Workspace
from gitsession.formats.base.record import Source
from gitsession.model.entries import Entry, Session
from gitsession.model.headline import Headline

__all__ = [
    "AGENT", "BETWEEN", "FILES", "FORM", "IN_PROJECT", "ROOTS", "beside", "called", "claims", "headline", "lies",
    "moved", "place", "read", "resume_command", "split", "write",
]  # fmt: skip

AGENT = "aider"
FORM = "md"
BETWEEN = b""
ROOTS: Sequence[Root] = ()
FILES: Sequence[str] = ("*aider.chat.history.md",)

IN_PROJECT = f"{parse.NAME}.md"
"""Its session file, at the top of every repository it was run in."""


def claims(head: bytes) -> bool:
    """The beginning of a run, with what Aider prints then."""
    return spans.begins_run(head)


def split(data: bytes, *, name: str = "", final: bool = False) -> Source:
    return parse.split(data, agent=AGENT, name=name, final=final)


def beside(data: Data, name: str) -> Sequence[Beside]:
    """What was typed, with its times."""
    return parse.beside(name)


def headline(payload: bytes) -> Headline:
    return aider_headline.headline_of(payload)


def read(payload: bytes) -> Entry:
    return view.entry_of(payload)


def write(out: Outgoing) -> Written:
    return aider_write.write(out)


def called(id: str) -> str:
    return id


def place(header: Session, at: Workspace) -> str:
    """Where below the folder itself a history is put: never over the one that Aider writes there."""
    called = "".join(char if char.isalnum() or char in "-_" else "-" for char in header.source_id or "session")
    return f".aider.{called}.aider.chat.history.md"


def lies(header: Session, at: Workspace) -> Sequence[str]:
    """Nowhere else: the history that Aider keeps in a folder is of all its runs there."""
    return ()


def moved(data: bytes, id: str, cwd: str) -> bytes:
    """As it is: a history names neither itself nor its folder."""
    return data


def resume_command(source_id: str, file: str = "") -> list[str]:
    """What goes on with the history that was put into ``file``; without one, with the folder's own."""
    return ["aider", "--restore-chat-history", *(["--chat-history-file", file] if file else [])]
