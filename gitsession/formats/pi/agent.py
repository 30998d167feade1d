"""The session formats of pi (versions 1 to 3) and of omp, which is a fork of pi.

pi stores a session at ``~/.pi/agent/sessions/--<cwd>--/<time>_<id>.jsonl``. omp stores a session at
``~/.omp/agent/sessions/<bucket>/<time>_<id>.jsonl``. Files of omp 18.0 and later begin with a title slot, which is a
line of fixed size with the title of the session.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence

from gitsession.formats.base.fields import to_iso
from gitsession.formats.base.format import (
    Growing,
    Referring,
    Resumable,
    Sidecar,
    SideFiles,
    Streamed,
    WithSideFiles,
    Workspace,
)
from gitsession.formats.base.jsonl import Data, Lines, StoredFile
from gitsession.formats.base.outgoing import Outgoing, WrittenFile
from gitsession.formats.base.record import Source, SplitState
from gitsession.formats.pi import blobs, split_file
from gitsession.formats.pi.headline import headline_of
from gitsession.formats.pi.read_entry import entry_of
from gitsession.formats.pi.write import write
from gitsession.model.entries import Entry, SessionHeader

_SEPARATOR = re.compile(r"[/\\:]")
_ODD = re.compile(r"[/\\:\x00-\x1f]")
_BLOB = re.compile(rb"blob:sha256:([0-9a-f]{64})(?![0-9a-f])")
_BLOBS_UP = ("", "../", "../../", "../../../")
"""The folders that may contain the folder ``blobs``, relative to the folder of the session file.

omp stores the blobs of ``agent/sessions/<bucket>/<file>`` in ``agent/blobs``.
"""


class Pi(Growing, Referring, Resumable, Streamed, WithSideFiles):
    """The format of the session files of pi."""

    AGENT = "pi"

    relocate = staticmethod(split_file.relocate)
    resolve = staticmethod(blobs.resolve)
    headline = staticmethod(headline_of)

    def claims(self, head: bytes) -> bool:
        """Return whether ``head`` contains a session header. Other lines before the header are ignored.

        Files of the experimental version 4 are not claimed.
        """
        return split_file.header_in(head) is not None

    def split(self, data: Data, *, name: str = "", final: bool = False) -> Source:
        return split_file.split(data, agent=self.AGENT, name=name, final=final)

    def split_rest(self, data: bytes, state: SplitState, *, name: str = "") -> Source | None:
        return split_file.split_rest(data, state, agent=self.AGENT, name=name)

    def sidecars(self, data: Data, name: str) -> Sequence[Sidecar]:
        """Return the blobs to which the session file refers, for files of pi and of omp.

        Only omp stores blobs, in a folder ``blobs`` near the session file. However, the files of early omp versions
        cannot be distinguished from pi's files.
        """
        parts = Lines(data) if isinstance(data, StoredFile) else (data,)
        hashes = sorted({found.decode() for part in parts for found in _BLOB.findall(part)})
        return [Sidecar(f"{blobs.PREFIX}{hash}", [f"{up}blobs/{hash}" for up in _BLOBS_UP], hash) for hash in hashes]

    def side_files(self, name: str, source: Source | None) -> SideFiles | None:
        from gitsession.formats.pi import side_files  # reading a session does not use it

        return side_files.outputs(source)

    def side_path(self, name: str, id: str, workspace: Workspace, file: str = "") -> str | None:
        """Return ``None``: gitsession writes no file to the folder for temporary files."""
        return None

    def read(self, payload: bytes) -> Entry:
        return entry_of(payload, agent=self.AGENT)

    def write(self, out: Outgoing) -> WrittenFile:
        return write(out, omp=self.AGENT == "omp")

    def session_path(self, header: SessionHeader, workspace: Workspace) -> str:
        """Return the path ``sessions/<folder of the workspace>/<time>_<id>.jsonl``."""
        time = to_iso(header.at_ms).replace(":", "-").replace(".", "-")
        return f"sessions/{self.folder_of(workspace)}/{time}_{_name_of(header)}.jsonl"

    def globs(self, header: SessionHeader, workspace: Workspace) -> Sequence[str]:
        """Return a glob that matches the path of the session file.

        The glob matches any time, because the time in the file name can differ from the time in the header.
        """
        return (f"sessions/{glob.escape(self.folder_of(workspace))}/*_{glob.escape(_name_of(header))}.jsonl",)

    def folder_of(self, workspace: Workspace) -> str:
        """Return the name of the folder in which the agent stores the sessions of ``workspace``.

        Two different working directories can have the same folder name.
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
    """Return the session id for use in a file name.

    Separators and control characters are replaced, because the id in a header can be any string.
    """
    return _ODD.sub("-", header.source_id or "session")


_MARKS = frozenset({"title", "titleSource", "additionalDirectories", "previousSessionFiles", "providerPromptCacheKey"})
"""Header fields that pi never writes.

Early omp versions do not write these fields either, so their files cannot be distinguished from pi's files.
"""


class Omp(Pi):
    """The format of the session files of omp."""

    AGENT = "omp"
    SHARED = ("history.db",)

    def claims(self, head: bytes) -> bool:
        """Return whether the header contains a field that only omp writes, or a title slot precedes the header."""
        found = split_file.header_in(head)
        if found is None:
            return False
        header, slot = found
        return slot is not None or not _MARKS.isdisjoint(header)

    def sidecars(self, data: Data, name: str) -> Sequence[Sidecar]:
        return [each._replace(home=f"blobs/{each.sha256}") for each in super().sidecars(data, name)]

    def side_files(self, name: str, source: Source | None) -> SideFiles | None:
        from gitsession.formats.pi import side_files

        return side_files.of_session(name, self.SHARED[0], source.source_id if source is not None else None)

    def side_path(self, name: str, id: str, workspace: Workspace, file: str = "") -> str | None:
        from gitsession.formats.pi import side_files

        return side_files.path_of(name, file)

    def folder_of(self, workspace: Workspace) -> str:
        """Return the name of the folder in which omp stores the sessions of ``workspace``.

        omp uses a shorter name for the home directory, the directory for temporary files, and all folders below them.
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
