"""Sessions of omp, a fork of pi: ``~/.omp/agent/sessions/<bucket>/<time>_<id>.jsonl``, with a title slot since 18.0."""

from __future__ import annotations

from collections.abc import Sequence

from gitsession.formats import pi_file, pi_headline, pi_view, pi_write
from gitsession.formats.jsonl import parse
from gitsession.formats.outgoing import Outgoing, Written
from gitsession.formats.places import Beside, Root
from gitsession.formats.record import Source
from gitsession.model.entries import Entry
from gitsession.model.headline import Headline

__all__ = ["AGENT", "BETWEEN", "FILES", "FORM", "ROOTS", "beside", "claims", "headline", "read", "split", "write"]

AGENT = "omp"
FORM = "jsonl"
BETWEEN = b"\n"
ROOTS: Sequence[Root] = (Root(".omp/agent", "sessions/**/*.jsonl"),)
FILES: Sequence[str] = ("*.jsonl",)

_MARKS = frozenset({"title", "titleSource", "additionalDirectories", "previousSessionFiles", "providerPromptCacheKey"})
"""Fields of the header that pi never writes. Old omp files have none of them: they are pi's in every respect."""


def claims(head: bytes) -> bool:
    """A header with a mark of omp's, or with a title slot before it."""
    found = pi_file.header_in(head)
    if found is None:
        return False
    header, slot = found
    return slot is not None or not _MARKS.isdisjoint(header)


def split(data: bytes, *, name: str = "", final: bool = False) -> Source:
    return pi_file.split(data, agent=AGENT, name=name, final=final)


def beside(data: bytes, name: str) -> Sequence[Beside]:
    """omp's blobs: files of both agents can name them, since early files of omp look like pi's."""
    return pi_file.beside(data)


def headline(payload: bytes) -> Headline:
    return pi_headline.headline_of(parse(payload), payload)


def read(payload: bytes) -> Entry:
    return pi_view.entry_of(parse(payload), payload, agent=AGENT)


def write(out: Outgoing) -> Written:
    return pi_write.write(out, omp=True)
