"""Sessions of omp, a fork of pi: ``~/.omp/agent/sessions/<bucket>/<time>_<id>.jsonl``, with a title slot since 18.0."""

from __future__ import annotations

from collections.abc import Sequence

from gitsession.formats.base.lines import Data
from gitsession.formats.base.outgoing import Outgoing, WrittenFile
from gitsession.formats.base.session_folders import SearchRoot, Sidecar, Workspace
from gitsession.formats.pi import parse, paths
from gitsession.formats.pi import write as pi_write
from gitsession.formats.pi.agent import Pi

_MARKS = frozenset({"title", "titleSource", "additionalDirectories", "previousSessionFiles", "providerPromptCacheKey"})
"""Fields of the header that pi never writes. Old omp files have none of them: they are pi's in every respect."""


class Omp(Pi):
    """The session files of omp."""

    AGENT = "omp"
    ROOTS = (SearchRoot(".omp/agent", "sessions/**/*.jsonl"),)

    def claims(self, head: bytes) -> bool:
        """Return whether there is a header with a mark of omp's, or with a title slot before it."""
        found = parse.header_in(head)
        if found is None:
            return False
        header, slot = found
        return slot is not None or not _MARKS.isdisjoint(header)

    def beside(self, data: Data, name: str) -> Sequence[Sidecar]:
        return [each._replace(home=f"blobs/{each.sha256}") for each in super().beside(data, name)]

    def write(self, out: Outgoing) -> WrittenFile:
        return pi_write.write(out, omp=True)

    def folder_of(self, at: Workspace) -> str:
        return paths.bucket(at)

    def resume_command(self, source_id: str, file: str = "") -> list[str]:
        return ["omp", "--resume", file or source_id]


omp = Omp()
