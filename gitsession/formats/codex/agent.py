"""Sessions of codex: ``~/.codex/sessions/<yyyy>/<mm>/<dd>/rollout-<time>-<thread>.jsonl``, legacy and paginated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gitsession.formats.base.groups import spoken
from gitsession.formats.base.histories import Noted
from gitsession.formats.base.jsonl import parse
from gitsession.formats.base.lines import Data
from gitsession.formats.base.outgoing import Outgoing, Written
from gitsession.formats.base.places import Root, Workspace
from gitsession.formats.base.record import Source
from gitsession.formats.codex import (
    files,
    subagents,
    usage,
    view,
)
from gitsession.formats.codex import (
    headline as codex_headline,
)
from gitsession.formats.codex import (
    parse as codex_file,
)
from gitsession.formats.codex import (
    write as codex_write,
)
from gitsession.model.entries import Entry, Session
from gitsession.model.headline import Headline
from gitsession.model.usage import Counted

__all__ = [
    "AGENT", "BETWEEN", "FILES", "FORM", "RECORDED", "ROOTS", "base_of", "began", "called", "claims", "copies",
    "counts", "headline", "is_delegated", "lies", "moved", "noted", "place", "place_of", "read", "resume_command",
    "split", "write",
]  # fmt: skip

AGENT = "codex"
FORM = "jsonl"
BETWEEN = b"\n"
ROOTS: Sequence[Root] = (
    Root(".codex", "sessions/**/rollout-*.jsonl*", "CODEX_HOME"),
    Root(".codex", "archived_sessions/**/rollout-*.jsonl*", "CODEX_HOME"),
)
FILES: Sequence[str] = ("rollout-*.jsonl", "rollout-*.jsonl.zst")
RECORDED = "recorded by codex"


def claims(head: bytes) -> bool:
    """A ``session_meta`` line with an id among the first lines. Also what codex compressed, to say so."""
    return codex_file.claims(head)


def split(data: Data, *, name: str = "", final: bool = False) -> Source:
    return codex_file.split(data, agent=AGENT, name=name, final=final)


def began(payload: bytes, id: str, beside: Mapping[str, bytes]) -> str:
    return subagents.began(payload, id, beside)


def is_delegated(source_id: str, header: Session) -> bool:
    return subagents.is_delegated(header)


def copies(name: str, source: Source) -> Sequence[str]:
    """None: what codex tells of files is in its lines."""
    return ["."]


def noted(source: Source) -> Iterable[Noted]:
    return files.noted(source)


def headline(payload: bytes) -> Headline:
    line = spoken(payload)
    return codex_headline.headline_of(parse(line), line)


def read(payload: bytes) -> Entry:
    line = spoken(payload)
    return view.entry_of(parse(line), payload)


def counts(payload: bytes) -> Iterable[Counted]:
    return usage.counts_in(payload)


def write(out: Outgoing) -> Written:
    return codex_write.write(out)


def called(id: str) -> str:
    return codex_write.thread_id(id)


def place(header: Session, at: Workspace) -> str:
    """Where below ``.codex`` codex looks for the session of ``header``."""
    return codex_write.place(header)


def base_of(data: bytes) -> str | None:
    return codex_write.base_of(data)


def place_of(data: bytes, segment: str | None) -> str:
    return codex_write.place_of(data, segment)


def lies(header: Session, at: Workspace) -> Sequence[str]:
    """One rollout for a thread, whatever folder it goes on in."""
    return codex_write.lies(header)


def moved(data: bytes, id: str, cwd: str) -> bytes:
    return codex_write.moved(data, codex_write.thread_id(id), cwd)


def resume_command(source_id: str, file: str = "") -> list[str]:
    """What goes on with a session of codex, or with what ``write`` has made of one that goes by ``source_id``."""
    return ["codex", "resume", codex_write.thread_id(source_id)]
