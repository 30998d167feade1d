"""Sessions of pi: ``~/.pi/agent/sessions/--<cwd>--/<time>_<id>.jsonl``, versions 1 to 3."""

from __future__ import annotations

from collections.abc import Sequence

from gitsession.formats.base.jsonl import parse
from gitsession.formats.base.lines import Data
from gitsession.formats.base.outgoing import Outgoing, Written
from gitsession.formats.base.places import Beside, Root, Workspace
from gitsession.formats.base.record import Source
from gitsession.formats.pi import headline as pi_headline
from gitsession.formats.pi import parse as pi_file
from gitsession.formats.pi import paths, view
from gitsession.formats.pi import write as pi_write
from gitsession.formats.pi.blobs import resolve
from gitsession.model.entries import Entry, Session
from gitsession.model.headline import Headline

__all__ = [
    "AGENT", "BETWEEN", "FILES", "FORM", "ROOTS", "beside", "called", "claims", "headline", "lies", "moved", "place",
    "read", "resolve", "resume_command", "split", "write",
]  # fmt: skip

AGENT = "pi"
FORM = "jsonl"
BETWEEN = b"\n"
ROOTS: Sequence[Root] = (Root(".pi/agent", "sessions/**/*.jsonl", "PI_CODING_AGENT_DIR"),)
FILES: Sequence[str] = ("*.jsonl",)


def claims(head: bytes) -> bool:
    """A header among the first lines, whatever garbage stands before it. Not the experimental version 4."""
    return pi_file.header_in(head) is not None


def split(data: Data, *, name: str = "", final: bool = False) -> Source:
    return pi_file.split(data, agent=AGENT, name=name, final=final)


def beside(data: Data, name: str) -> Sequence[Beside]:
    """omp's blobs: files of both agents can name them, since early files of omp look like pi's."""
    return pi_file.beside(data)


def headline(payload: bytes) -> Headline:
    return pi_headline.headline_of(parse(payload), payload)


def read(payload: bytes) -> Entry:
    return view.entry_of(parse(payload), payload, agent=AGENT)


def write(out: Outgoing) -> Written:
    return pi_write.write(out, omp=False)


def called(id: str) -> str:
    return id


def place(header: Session, at: Workspace) -> str:
    """Where below ``Root.home`` pi looks for the session of ``header`` when it is in ``at``."""
    return paths.place(header, paths.folder_of(at.cwd))


def lies(header: Session, at: Workspace) -> Sequence[str]:
    """The time in a file's name need not be the one in its header."""
    return paths.lies(header, paths.folder_of(at.cwd))


def moved(data: bytes, id: str, cwd: str) -> bytes:
    return pi_file.moved(data, id, cwd)


def resume_command(source_id: str, file: str = "") -> list[str]:
    """What goes on with the session that was put into ``file``; without one, with what it finds by its id."""
    return ["pi", "--session", file or source_id]
