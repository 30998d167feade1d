"""The formats of the sessions of pi, versions 1 to 3, and of omp, a fork of pi.

pi's files are ``~/.pi/agent/sessions/--<cwd>--/<time>_<id>.jsonl``. omp's files are
``~/.omp/agent/sessions/<bucket>/<time>_<id>.jsonl``. Since omp 18.0, they begin with a title slot.
"""

from __future__ import annotations

from collections.abc import Sequence

from gitsession.formats.base.format import Referring, Resumable, Sidecar, Streamed, Workspace
from gitsession.formats.base.jsonl import Data, parse
from gitsession.formats.base.outgoing import Outgoing, WrittenFile
from gitsession.formats.base.record import Source
from gitsession.formats.pi import files, read_entry, split_file
from gitsession.formats.pi import headline as pi_headline
from gitsession.formats.pi import write as pi_write
from gitsession.formats.pi.files import resolve
from gitsession.model.entries import Entry, SessionHeader
from gitsession.model.headline import Headline


class Pi(Referring, Resumable, Streamed):
    """The format of the session files of pi."""

    AGENT = "pi"

    relocate = staticmethod(split_file.relocate)
    resolve = staticmethod(resolve)

    def claims(self, head: bytes) -> bool:
        """Return whether the first lines of a file contain a header, possibly after lines that cannot be parsed.

        Files of the experimental version 4 are not claimed.
        """
        return split_file.header_in(head) is not None

    def split(self, data: Data, *, name: str = "", final: bool = False) -> Source:
        return split_file.split(data, agent=self.AGENT, name=name, final=final)

    def sidecars(self, data: Data, name: str) -> Sequence[Sidecar]:
        """Return the blobs that omp stores in separate files.

        They are also returned for pi, because files of early omp versions cannot be distinguished from pi's files.
        """
        return split_file.sidecars(data)

    def headline(self, payload: bytes) -> Headline:
        return pi_headline.headline_of(parse(payload), payload)

    def read(self, payload: bytes) -> Entry:
        return read_entry.entry_of(parse(payload), payload, agent=self.AGENT)

    def write(self, out: Outgoing) -> WrittenFile:
        return pi_write.write(out, omp=False)

    def session_path(self, header: SessionHeader, workspace: Workspace) -> str:
        return files.session_path(header, self.folder_of(workspace))

    def globs(self, header: SessionHeader, workspace: Workspace) -> Sequence[str]:
        """Return globs for the session file.

        They match any time, because the time in the file name can differ from that in the header.
        """
        return files.globs(header, self.folder_of(workspace))

    def folder_of(self, workspace: Workspace) -> str:
        """Return the name of the folder for the sessions of ``workspace``.

        This folder is below the folder of all sessions.
        """
        return files.folder_of(workspace.cwd)

    def resume_command(self, source_id: str, file: str = "") -> list[str]:
        """Return the command that continues the session in ``file``.

        If ``file`` is empty, pi finds the session by ``source_id``.
        """
        return ["pi", "--session", file or source_id]


_MARKS = frozenset({"title", "titleSource", "additionalDirectories", "previousSessionFiles", "providerPromptCacheKey"})
"""Header fields that pi never writes.

Files of early omp versions have none of these fields and cannot be distinguished from pi's files.
"""


class Omp(Pi):
    """The format of the session files of omp."""

    AGENT = "omp"

    def claims(self, head: bytes) -> bool:
        """Return whether the header has a field that only omp writes, or is preceded by a title slot."""
        found = split_file.header_in(head)
        if found is None:
            return False
        header, slot = found
        return slot is not None or not _MARKS.isdisjoint(header)

    def sidecars(self, data: Data, name: str) -> Sequence[Sidecar]:
        return [each._replace(home=f"blobs/{each.sha256}") for each in super().sidecars(data, name)]

    def write(self, out: Outgoing) -> WrittenFile:
        return pi_write.write(out, omp=True)

    def folder_of(self, workspace: Workspace) -> str:
        return files.bucket(workspace)

    def resume_command(self, source_id: str, file: str = "") -> list[str]:
        return ["omp", "--resume", file or source_id]


pi = Pi()
omp = Omp()
