"""Where pi and omp keep the session files of a folder."""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence

from gitsession.formats.base.session_folders import Workspace
from gitsession.formats.base.times import to_iso
from gitsession.model.entries import SessionHeader

_SEPARATOR = re.compile(r"[/\\:]")
_ODD = re.compile(r"[/\\:\x00-\x1f]")
"""What stands in no name of a file: an id is whatever a header says."""


def place(header: SessionHeader, folder: str) -> str:
    """``<time>_<id>.jsonl`` in ``folder``."""
    time = to_iso(header.at_ms).replace(":", "-").replace(".", "-")
    return f"sessions/{folder}/{time}_{_name(header)}.jsonl"


def lies(header: SessionHeader, folder: str) -> Sequence[str]:
    """A pattern for that file, whatever time is in its name."""
    return (f"sessions/{glob.escape(folder)}/*_{glob.escape(_name(header))}.jsonl",)


def folder_of(cwd: str) -> str:
    """What pi calls the folder of a working directory: two of them can share a name."""
    inner = _SEPARATOR.sub("-", cwd[1:] if cwd[:1] in ("/", "\\") else cwd)
    return f"--{inner}--"


def bucket(at: Workspace) -> str:
    """What omp calls it: short below the home directory and below the one for what is temporary."""
    for above, prefix in ((at.home, "-"), (at.temporary, "-tmp")):
        inside = at.cwd.removeprefix(f"{above.rstrip('/')}/")
        if above and at.cwd == above:
            return prefix
        if above and inside != at.cwd and not inside.startswith(".."):
            return f"{prefix}{'' if prefix.endswith('-') else '-'}{_SEPARATOR.sub('-', inside)}"
    return folder_of(at.cwd)


def _name(header: SessionHeader) -> str:
    return _ODD.sub("-", header.source_id or "session")
