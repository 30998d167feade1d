"""The formats of the sessions of pi, versions 1 to 3, and of omp, a fork of pi.

pi's files are ``~/.pi/agent/sessions/--<cwd>--/<time>_<id>.jsonl``. omp's files are
``~/.omp/agent/sessions/<bucket>/<time>_<id>.jsonl``. Since omp 18.0, they begin with a title slot.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence

from gitsession.formats.base.fields import to_iso
from gitsession.formats.base.format import Referring, Resumable, Sidecar, Streamed, Workspace
from gitsession.formats.base.jsonl import Data, Lines, StoredFile
from gitsession.formats.base.outgoing import Outgoing, WrittenFile
from gitsession.formats.base.record import Source
from gitsession.formats.pi import blobs, split_file
from gitsession.formats.pi.headline import headline_of
from gitsession.formats.pi.read_entry import entry_of
from gitsession.formats.pi.write import write
from gitsession.model.entries import Entry, SessionHeader

_SEPARATOR = re.compile(r"[/\\:]")
_ODD = re.compile(r"[/\\:\x00-\x1f]")
_BLOB = re.compile(rb"blob:sha256:([0-9a-f]{64})(?![0-9a-f])")
_BLOBS_UP = ("", "../", "../../", "../../../")
"""The folders in which the folder of omp's blobs is searched.

The blobs of ``agent/sessions/<bucket>/<file>`` are in ``agent/blobs``.
"""


class Pi(Referring, Resumable, Streamed):
    """The format of the session files of pi."""

    AGENT = "pi"

    relocate = staticmethod(split_file.relocate)
    resolve = staticmethod(blobs.resolve)
    headline = staticmethod(headline_of)

    def claims(self, head: bytes) -> bool:
        """Return whether the first lines of a file contain a header, possibly after lines that cannot be parsed.

        Files of the experimental version 4 are not claimed.
        """
        return split_file.header_in(head) is not None

    def split(self, data: Data, *, name: str = "", final: bool = False) -> Source:
        return split_file.split(data, agent=self.AGENT, name=name, final=final)

    def sidecars(self, data: Data, name: str) -> Sequence[Sidecar]:
        """Return the blobs that omp stores in a folder ``blobs``, in one of the folders above the session file.

        They are also returned for pi, because files of early omp versions cannot be distinguished from pi's files.
        """
        parts = Lines(data) if isinstance(data, StoredFile) else (data,)
        hashes = sorted({found.decode() for part in parts for found in _BLOB.findall(part)})
        return [Sidecar(f"{blobs.PREFIX}{hash}", [f"{up}blobs/{hash}" for up in _BLOBS_UP], hash) for hash in hashes]

    def read(self, payload: bytes) -> Entry:
        return entry_of(payload, agent=self.AGENT)

    def write(self, out: Outgoing) -> WrittenFile:
        return write(out, omp=self.AGENT == "omp")

    def session_path(self, header: SessionHeader, workspace: Workspace) -> str:
        """Return the path of a session file, ``<time>_<id>.jsonl`` in the folder of the workspace."""
        time = to_iso(header.at_ms).replace(":", "-").replace(".", "-")
        return f"sessions/{self.folder_of(workspace)}/{time}_{_name_of(header)}.jsonl"

    def globs(self, header: SessionHeader, workspace: Workspace) -> Sequence[str]:
        """Return globs for the session file.

        They match any time, because the time in the file name can differ from that in the header.
        """
        return (f"sessions/{glob.escape(self.folder_of(workspace))}/*_{glob.escape(_name_of(header))}.jsonl",)

    def folder_of(self, workspace: Workspace) -> str:
        """Return the name of the folder for the sessions of ``workspace``, below the folder of all sessions.

        The result can be the same for two directories.
        """
        cwd = workspace.cwd
        inner = _SEPARATOR.sub("-", cwd[1:] if cwd[:1] in ("/", "\\") else cwd)
        return f"--{inner}--"

    def resume_command(self, source_id: str, file: str = "") -> list[str]:
        """Return the command that continues the session in ``file``.

        If ``file`` is empty, pi finds the session by ``source_id``.
        """
        return ["pi", "--session", file or source_id]


def _name_of(header: SessionHeader) -> str:
    """Return the session id as a part of a file name. The id in a header can be any string."""
    return _ODD.sub("-", header.source_id or "session")


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

    def folder_of(self, workspace: Workspace) -> str:
        """Return the name of the folder for the sessions of ``workspace``.

        The name is shorter if the workspace is below the home directory or the directory for temporary files.
        """
        for above, prefix in ((workspace.home, "-"), (workspace.temporary, "-tmp")):
            inside = workspace.cwd.removeprefix(f"{above.rstrip('/')}/")
            if above and workspace.cwd == above:
                return prefix
            if above and inside != workspace.cwd and not inside.startswith(".."):
                return f"{prefix}{'' if prefix.endswith('-') else '-'}{_SEPARATOR.sub('-', inside)}"
        return super().folder_of(workspace)

    def resume_command(self, source_id: str, file: str = "") -> list[str]:
        return ["omp", "--resume", file or source_id]


pi = Pi()
omp = Omp()
