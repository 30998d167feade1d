"""Sessions of Claude Code: ``~/.claude/projects/<place>/<session>.jsonl``, and a file for each sub-agent below that.

Its line format is internal and changes between versions: what we do not know of it is carried as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gitsession.formats.base.histories import Noted
from gitsession.formats.base.lines import Data
from gitsession.formats.base.outgoing import Outgoing, Written
from gitsession.formats.base.places import Beside, Root
from gitsession.formats.base.record import Source
from gitsession.formats.claude import (
    files,
    parse,
    paths,
    subagents,
    view,
)
from gitsession.formats.claude import (
    headline as claude_headline,
)
from gitsession.formats.claude import (
    write as claude_write,
)
from gitsession.formats.claude.paths import lies, place, resume_command
from gitsession.model.entries import Entry, Session
from gitsession.model.headline import Headline

__all__ = [
    "AGENT", "BETWEEN", "FILES", "FORM", "RECORDED", "ROOTS", "began", "beside", "called", "claims", "copies",
    "headline", "is_delegated", "lies", "moved", "noted", "place", "read", "resume_command", "split", "write",
]  # fmt: skip

AGENT = "claude"
FORM = "jsonl"
BETWEEN = b"\n"
ROOTS: Sequence[Root] = (
    Root(".claude", "projects/*/*.jsonl", "CLAUDE_CONFIG_DIR"),
    Root(".claude", "projects/*/*/subagents/**/agent-*.jsonl", "CLAUDE_CONFIG_DIR"),
)
FILES: Sequence[str] = ("*.jsonl",)
RECORDED = "recorded by Claude Code"


def claims(head: bytes) -> bool:
    """A line that only Claude Code writes, among the first ones."""
    return parse.is_ours(head)


def split(data: Data, *, name: str = "", final: bool = False) -> Source:
    return parse.split(data, name=name, final=final)


def beside(data: Data, name: str) -> Sequence[Beside]:
    """What started a sub-agent, in a file of its own."""
    return paths.beside(name)


def began(payload: bytes, id: str, beside: Mapping[str, bytes]) -> str:
    return subagents.began(payload, id, beside)


def is_delegated(source_id: str, header: Session) -> bool:
    return subagents.is_delegated(source_id)


def copies(name: str, source: Source) -> Sequence[str]:
    return paths.copies(name)


def noted(source: Source) -> Iterable[Noted]:
    return files.noted(source.payloads())


def headline(payload: bytes) -> Headline:
    return claude_headline.headline_of(payload)


def read(payload: bytes) -> Entry:
    return view.entry_of(payload)


def write(out: Outgoing) -> Written:
    return claude_write.write(out)


def called(id: str) -> str:
    return paths.session_uuid(id)


def moved(data: bytes, id: str, cwd: str) -> bytes:
    """As it is: the file's place says which session it is and where; what its lines say is where they were written.

    But the program goes on with no sub-agent: what one said becomes a session of its own.
    """
    return claude_write.of_its_own(data)
