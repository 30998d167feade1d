"""Agents' own bytes: one module per agent, one protocol, one table. Pure: no store, no clock, no files.

A session's records are kept verbatim; what they mean is a *view* (``read``), computed when asked for and free to get
better. What a record's commit message says (``headline``) is frozen under a view number, because it is part of an oid.

A module is loaded when its agent is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar, cast

from gitsession.formats.base.databases import Database
from gitsession.formats.base.outgoing import Leaving, Outgoing, Written
from gitsession.formats.base.places import Beside, Root, Workspace
from gitsession.formats.base.protocols import (
    Accompanied,
    Continuing,
    Counting,
    Delegating,
    Document,
    Format,
    Importing,
    InProject,
    Referring,
    Remembering,
    Resumable,
    Scattered,
    Streamed,
    is_document,
)
from gitsession.formats.base.record import Problem, Record, Source

__all__ = [
    "ACCOMPANIED", "CONTINUING", "COUNTING", "DATABASES", "DELEGATING", "FORMATS", "IMPORTING", "IN_PROJECTS",
    "REFERRING", "REMEMBERING", "RESUMABLE", "SCATTERED", "STREAMED", "Accompanied", "Beside", "Continuing", "Counting",
    "Database", "Delegating", "Document", "Format", "Importing", "InProject", "Leaving", "Outgoing", "Problem",
    "Record", "Referring", "Remembering", "Resumable", "Root", "Scattered", "Source", "Streamed", "Workspace",
    "Written",
    "claimed", "is_document",
]  # fmt: skip

F = TypeVar("F")

_MODULES = {"omp": "pi.omp"}
"""Modules of agents that share a package with another one."""


class _Modules(Mapping[str, F]):
    """Modules of this folder by their agents' names, each loaded when it is asked for."""

    def __init__(self, *agents: str) -> None:
        self._agents = agents

    def __getitem__(self, agent: str) -> F:
        if agent not in self._agents:
            raise KeyError(agent)
        return cast(F, import_module(f"{__name__}.{_MODULES.get(agent, f'{agent}.agent')}"))

    def __contains__(self, agent: object) -> bool:
        return agent in self._agents  # the mixin's would load it

    def __iter__(self) -> Iterator[str]:
        return iter(self._agents)

    def __len__(self) -> int:
        return len(self._agents)


FORMATS: Mapping[str, Format] = _Modules("aider", "claude", "codex", "librecode", "omp", "opencode", "pi")
"""In the order in which they are asked: the pickier first."""

DATABASES: Mapping[str, Database] = _Modules("librecode", "opencode")
"""Of ``FORMATS``, those whose agent keeps its sessions in a database."""

SCATTERED: Mapping[str, Scattered] = _Modules("opencode")
"""Of ``FORMATS``, those whose agent kept each session in many files once."""

CONTINUING: Mapping[str, Continuing] = _Modules("codex")
"""Of ``FORMATS``, those whose files may go on from other ones."""

STREAMED: Mapping[str, Streamed] = _Modules("claude", "codex", "omp", "pi")
"""Of ``FORMATS``, those whose files are read in parts where they are large."""

ACCOMPANIED: Mapping[str, Accompanied] = _Modules("aider", "claude", "omp", "pi")
"""Of ``FORMATS``, those whose sessions have files beside their own."""

REFERRING: Mapping[str, Referring] = _Modules("omp", "pi")
"""Of ``ACCOMPANIED``, those whose entries name such files in place of their content."""

IN_PROJECTS: Mapping[str, InProject] = _Modules("aider")
"""Of ``FORMATS``, those whose agent keeps its sessions in the projects themselves."""

COUNTING: Mapping[str, Counting] = _Modules("codex")
"""Of ``FORMATS``, those whose agent says elsewhere what an answer took."""

DELEGATING: Mapping[str, Delegating] = _Modules("claude", "codex", "opencode")
"""Of ``FORMATS``, those with sub-agents."""

REMEMBERING: Mapping[str, Remembering] = _Modules("claude", "codex", "opencode")
"""Of ``FORMATS``, those whose agent keeps what files were before it changed them."""

RESUMABLE: Mapping[str, Resumable] = _Modules("aider", "claude", "codex", "omp", "opencode", "pi")
"""Of ``FORMATS``, those whose agent goes on with a file of ours."""

IMPORTING: Mapping[str, Importing] = _Modules("opencode")
"""Of ``RESUMABLE``, those that take the file into a database of their own first."""

if TYPE_CHECKING:  # loading by name hides from the checker what each module is to offer
    from gitsession.formats.aider import agent as aider
    from gitsession.formats.claude import agent as claude
    from gitsession.formats.codex import agent as codex
    from gitsession.formats.librecode import agent as librecode
    from gitsession.formats.opencode import agent as opencode
    from gitsession.formats.pi import agent as pi
    from gitsession.formats.pi import omp

    _formats: Sequence[Format] = (aider, claude, codex, librecode, omp, opencode, pi)
    _databases: Sequence[Database] = (librecode, opencode)
    _scattered: Sequence[Scattered] = (opencode,)
    _streamed: Sequence[Streamed] = (claude, codex, omp, pi)
    _accompanied: Sequence[Accompanied] = (aider, claude, omp, pi)
    _referring: Sequence[Referring] = (omp, pi)
    _in_projects: Sequence[InProject] = (aider,)
    _continuing: Sequence[Continuing] = (codex,)
    _counting: Sequence[Counting] = (codex,)
    _delegating: Sequence[Delegating] = (claude, codex, opencode)
    _remembering: Sequence[Remembering] = (claude, codex, opencode)
    _resumable: Sequence[Resumable] = (aider, claude, codex, omp, opencode, pi)
    _importing: Sequence[Importing] = (opencode,)


def claimed(head: bytes) -> Format | None:
    """The format of a file that begins with ``head``, or ``None`` if no agent of ours wrote it."""
    return next((format for format in FORMATS.values() if format.claims(head)), None)
