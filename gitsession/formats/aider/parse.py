"""A history file of Aider as a session: its spans, one below the other, and what it goes by."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from gitsession.errors import Malformed
from gitsession.formats.aider.spans import LF, RUN, AiderSpan, cut
from gitsession.formats.base.record import Record, Source
from gitsession.formats.base.session_folders import Sidecar
from gitsession.formats.base.times import to_ms
from gitsession.model.entries import SessionHeader

NAME = ".aider.chat.history"
"""What Aider itself calls the file, without its ending: it lies at the top of the repository, where Aider works."""

PROMPTS = ".aider.input.history"
"""What was typed, each with its time, of all runs; it grows in the same folder."""


def beside(name: str) -> Sequence[Sidecar]:
    """``Accompanied.beside``: what was typed, where the history is Aider's own."""
    return (Sidecar(PROMPTS, (PROMPTS,), needed=False),) if name.rpartition("/")[2] == NAME else ()


def split(data: bytes, *, agent: str, name: str, final: bool) -> Source:
    """``Format.split``."""
    first = _first_line(data)
    if not first:
        raise Malformed("nothing was said in this file yet", hint="try again when something is")
    folder, _, called = name.rpartition("/")
    found = RUN.fullmatch(first)
    started = found[1].decode() if found else ""
    # Nothing in the file names the session. Its first line is the one that never changes; the name of the folder
    # tells apart what a script began in many folders in one second.
    said = started.replace(" ", "T") if started else sha256(first).hexdigest()[:16]
    source_id = "@".join(filter(None, (folder.rpartition("/")[2], said)))
    source_id = source_id.encode("utf-8", "backslashreplace").decode()
    spans, tail = cut(data, final=final)
    return Source(
        agent=agent,
        source_id=source_id,
        started_ms=to_ms(started) or 0,
        records=_records(spans),
        tail=tail,
        header=SessionHeader(agent=agent, source_id=source_id, cwd=folder if called == NAME and folder else None),
    )


def _records(spans: Sequence[AiderSpan]) -> tuple[Record, ...]:
    above = [None, *(span.line for span in spans)]
    return tuple(Record(span.line, span.payload, parent) for span, parent in zip(spans, above, strict=False))


def _first_line(data: bytes) -> bytes:
    """The first line that says something, if it is whole."""
    at = 0
    while (end := data.find(LF, at)) >= 0:
        line = data[at:end].strip()
        if line:
            return line
        at = end + 1
    return b""
