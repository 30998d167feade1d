"""The session files of agents: one instance of ``Format`` per agent, in one table. Pure: no store, no clock, no files.

A session's records are kept verbatim; their meaning is a *view* (``read``), computed when asked for and free to get
better. The words of a record's commit message (``headline``) are frozen under a view number: they are part of an oid.

The modules of an agent are loaded when the agent is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TypeVar, cast

from gitsession.formats.base.format import (
    Accompanied,
    Continuing,
    Counting,
    Database,
    Delegating,
    Document,
    Format,
    Importing,
    InProject,
    Referring,
    Remembering,
    Resumable,
    Scattered,
    SearchRoot,
    Sidecar,
    Streamed,
    Workspace,
)
from gitsession.formats.base.outgoing import Outgoing, OutgoingEntry, WrittenFile
from gitsession.formats.base.record import Record, Source, SourceProblem

__all__ = [
    "FORMATS",
    "Accompanied",
    "Continuing",
    "Counting",
    "Database",
    "Delegating",
    "Document",
    "Format",
    "Importing",
    "InProject",
    "Outgoing",
    "OutgoingEntry",
    "Record",
    "Referring",
    "Remembering",
    "Resumable",
    "Scattered",
    "SearchRoot",
    "Sidecar",
    "Source",
    "SourceProblem",
    "Streamed",
    "Workspace",
    "WrittenFile",
    "all_with_capability",
    "claimed",
    "with_capability",
]  # fmt: skip

F = TypeVar("F", bound=Format)


class _Formats(Mapping[str, Format]):
    """The format of each agent, loaded when it is asked for."""

    def __init__(self, **modules: str) -> None:
        self._modules = modules
        self._loaded: dict[str, Format] = {}

    def __getitem__(self, agent: str) -> Format:
        if agent not in self._loaded:
            module = import_module(f"{__name__}.{self._modules[agent]}")
            self._loaded[agent] = cast(Format, getattr(module, agent))
        return self._loaded[agent]

    def __contains__(self, agent: object) -> bool:
        return agent in self._modules  # the mixin's would load it

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


FORMATS: Mapping[str, Format] = _Formats(
    aider="aider.agent",
    claude="claude.agent",
    codex="codex.agent",
    librecode="librecode.agent",
    omp="pi.agent",
    opencode="opencode.agent",
    pi="pi.agent",
)
"""By the agents' names, in the order in which they are asked: the pickier first."""


def with_capability(agent: str, capability: type[F]) -> F | None:
    """Return the format of ``agent`` if there is one and it has ``capability``, a class of ``base.format``."""
    format = FORMATS.get(agent)
    return format if isinstance(format, capability) else None


def all_with_capability(capability: type[F]) -> dict[str, F]:
    """Return the formats that have ``capability``, by the agents' names. Loads every agent."""
    return {agent: format for agent, format in FORMATS.items() if isinstance(format, capability)}


def claimed(head: bytes) -> Format | None:
    """Return the format of a file that begins with ``head``, or ``None`` if no supported agent wrote it."""
    return next((format for format in FORMATS.values() if format.claims(head)), None)
