"""Sessions of pi: ``~/.pi/agent/sessions/--<cwd>--/<time>_<id>.jsonl``, versions 1 to 3."""

from __future__ import annotations

from collections.abc import Sequence

from gitsession.formats.base.format import Referring, Resumable, Streamed
from gitsession.formats.base.jsonl import parse
from gitsession.formats.base.lines import Data
from gitsession.formats.base.outgoing import Outgoing, WrittenFile
from gitsession.formats.base.record import Source
from gitsession.formats.base.session_folders import SearchRoot, Sidecar, Workspace
from gitsession.formats.pi import headline as pi_headline
from gitsession.formats.pi import parse as pi_file
from gitsession.formats.pi import paths, view
from gitsession.formats.pi import write as pi_write
from gitsession.formats.pi.blobs import resolve
from gitsession.model.entries import Entry, SessionHeader
from gitsession.model.headline import Headline


class Pi(Referring, Resumable, Streamed):
    """The session files of pi."""

    AGENT = "pi"
    ROOTS: Sequence[SearchRoot] = (SearchRoot(".pi/agent", "sessions/**/*.jsonl", "PI_CODING_AGENT_DIR"),)

    moved = staticmethod(pi_file.moved)
    resolve = staticmethod(resolve)

    def claims(self, head: bytes) -> bool:
        """Return whether a header is among the first lines, after any garbage. Not the experimental version 4."""
        return pi_file.header_in(head) is not None

    def split(self, data: Data, *, name: str = "", final: bool = False) -> Source:
        return pi_file.split(data, agent=self.AGENT, name=name, final=final)

    def beside(self, data: Data, name: str) -> Sequence[Sidecar]:
        """Return omp's blobs: files of both agents can name them, since early files of omp look like pi's."""
        return pi_file.beside(data)

    def headline(self, payload: bytes) -> Headline:
        return pi_headline.headline_of(parse(payload), payload)

    def read(self, payload: bytes) -> Entry:
        return view.entry_of(parse(payload), payload, agent=self.AGENT)

    def write(self, out: Outgoing) -> WrittenFile:
        return pi_write.write(out, omp=False)

    def place(self, header: SessionHeader, at: Workspace) -> str:
        return paths.place(header, self.folder_of(at))

    def lies(self, header: SessionHeader, at: Workspace) -> Sequence[str]:
        """Return globs with any time: the time in a file's name need not be the one in its header."""
        return paths.lies(header, self.folder_of(at))

    def folder_of(self, at: Workspace) -> str:
        """Return the name of the folder, below that of all sessions, for the sessions of a workspace."""
        return paths.folder_of(at.cwd)

    def resume_command(self, source_id: str, file: str = "") -> list[str]:
        """Return the command that continues the session in ``file``; without one, the one it finds by its id."""
        return ["pi", "--session", file or source_id]


pi = Pi()
