"""The session formats of agents: a table with one ``Format`` instance per agent.

This package does not access a store, the clock, or files. The records of a session are stored verbatim. The
interpretation of a record (``read``) is a *view*, which is computed on access and may change between releases. The text
of a record's commit message (``headline``) is frozen under a view number, because the text is part of an object id.

The modules for an agent and the classes of ``base`` are loaded on first use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from gitsession.formats.base.format import (
        Accompanied,
        Continuing,
        Counting,
        Database,
        Delegating,
        Document,
        Format,
        Growing,
        Importing,
        InProject,
        Referring,
        Remembering,
        Resumable,
        Scattered,
        SharedLines,
        Sidecar,
        SideFiles,
        Streamed,
        WithSideFiles,
        Workspace,
    )
    from gitsession.formats.base.outgoing import Outgoing, OutgoingEntry, WrittenFile
    from gitsession.formats.base.record import Record, Source, SourceProblem, SplitState

__all__ = [
    "CONFIG",
    "DATA",
    "FOLDERS",
    "FORMATS",
    "ROOTS",
    "STATE",
    "Accompanied",
    "AgentFolder",
    "Continuing",
    "Counting",
    "Database",
    "Delegating",
    "Document",
    "Format",
    "Growing",
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
    "SharedLines",
    "SideFiles",
    "Sidecar",
    "Source",
    "SourceProblem",
    "SplitState",
    "Streamed",
    "WithSideFiles",
    "Workspace",
    "WrittenFile",
    "all_with_capability",
    "claimed",
    "with_capability",
]  # fmt: skip

F = TypeVar("F", bound="Format")


class SearchRoot(NamedTuple):
    """A glob for the session files of an agent.

    ``home``: a folder below the user's home directory. ``pattern``: the glob below this folder.

    ``variable``: the environment variable that can contain the path of another folder, which replaces ``home``; "" if
    there is no such variable.
    """

    home: str
    pattern: str
    variable: str = ""

    @property
    def fixed(self) -> str:
        """The path up to the first wildcard, with a slash at both ends, such as ``/.pi/agent/sessions/``."""
        path = f"/{self.home}/{self.pattern}"
        return path[: path.partition("*")[0].rindex("/") + 1]


class AgentFolder(NamedTuple):
    """A folder below the home directory, and the environment variable that can contain the path of another folder."""

    home: str
    variable: str

    def root(self, pattern: str) -> SearchRoot:
        """Return a glob in the folder."""
        return SearchRoot(self.home, pattern, self.variable)


FOLDERS = {
    "claude": AgentFolder(".claude", "CLAUDE_CONFIG_DIR"),
    "codex": AgentFolder(".codex", "CODEX_HOME"),
    "librecode": AgentFolder(".librecode", "LIBRECODE_HOME"),
    "omp": AgentFolder(".omp/agent", "PI_CODING_AGENT_DIR"),
    "opencode": AgentFolder(".config/opencode", "OPENCODE_CONFIG_DIR"),
    "pi": AgentFolder(".pi/agent", "PI_CODING_AGENT_DIR"),
}
"""The folder of each agent. Aider has none, because its files are in the projects."""

CONFIG = AgentFolder(".config", "XDG_CONFIG_HOME")
DATA = AgentFolder(".local/share", "XDG_DATA_HOME")
STATE = AgentFolder(".local/state", "XDG_STATE_HOME")
"""Folders of all programs, in which some agents have a folder of their own."""


class _KnownAgent(NamedTuple):
    """The properties of an agent that are available before the agent's modules are loaded.

    ``module``: the module that defines the format. ``sign``: a pattern that matches the beginning of every file that
    the format claims, and the beginning of few other files. ``roots``: see ``ROOTS``.
    """

    module: str
    sign: bytes
    roots: tuple[SearchRoot, ...] = ()


_AGENTS = {
    "aider": _KnownAgent("aider.agent", rb"# aider chat started at "),
    "claude": _KnownAgent(
        "claude.agent",
        rb'"(?:parentUuid|leafUuid|sessionId)"',
        (
            FOLDERS["claude"].root("projects/*/*.jsonl"),
            FOLDERS["claude"].root("projects/*/*/subagents/**/agent-*.jsonl"),
        ),
    ),
    "codex": _KnownAgent(
        "codex.agent",
        rb'\A\x28\xb5\x2f\xfd|"session_meta"',
        (
            FOLDERS["codex"].root("sessions/**/rollout-*.jsonl*"),
            FOLDERS["codex"].root("archived_sessions/**/rollout-*.jsonl*"),
        ),
    ),
    "librecode": _KnownAgent("librecode.agent", rb'"created_at"', (FOLDERS["librecode"].root("librecode.db"),)),
    "omp": _KnownAgent(
        "pi.agent",
        rb'"(?:session|title)"',
        (FOLDERS["omp"].root("sessions/**/*.jsonl")._replace(variable=""),),  # pi's root has the same variable
    ),
    "opencode": _KnownAgent(
        "opencode.agent",
        rb'\A(?:\xef\xbb\xbf)?\s*\{\s*"(?:info|id)"',
        # The folders are listed first. opencode did not delete them when it moved to the database, so the database is
        # searched last and takes precedence.
        (
            DATA.root("opencode/storage/session/*/ses_*.json"),
            DATA.root("opencode/opencode*.db"),
        ),
    ),
    "pi": _KnownAgent("pi.agent", rb'"(?:session|title)"', (FOLDERS["pi"].root("sessions/**/*.jsonl"),)),
}
"""The agents by name. The formats are tried on a file in this order: the formats with stricter patterns come first."""

ROOTS: Mapping[str, tuple[SearchRoot, ...]] = {agent: known.roots for agent, known in _AGENTS.items()}
"""The folders in which each agent keeps its sessions."""


class _Formats(Mapping[str, "Format"]):
    """A mapping from agent names to formats. Each format is loaded on first use."""

    def __init__(self) -> None:
        self._loaded: dict[str, Format] = {}

    def __getitem__(self, agent: str) -> Format:
        if agent not in self._loaded:
            module = import_module(f"{__name__}.{_AGENTS[agent].module}")
            self._loaded[agent] = getattr(module, agent)
        return self._loaded[agent]

    def __contains__(self, agent: object) -> bool:
        return agent in _AGENTS  # the inherited method would load the format

    def __iter__(self) -> Iterator[str]:
        return iter(_AGENTS)

    def __len__(self) -> int:
        return len(_AGENTS)


FORMATS: Mapping[str, Format] = _Formats()
"""The formats by agent name, in the order in which they are tried on a file."""


def __getattr__(name: str) -> object:
    if name in __all__:
        for module in ("format", "outgoing", "record"):
            found = getattr(import_module(f"{__name__}.base.{module}"), name, None)
            if found is not None:
                return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def with_capability(agent: str, capability: type[F]) -> F | None:
    """Return the format of ``agent`` if it has ``capability``, a class of ``base.format``; otherwise ``None``."""
    format = FORMATS.get(agent)
    return format if isinstance(format, capability) else None


def all_with_capability(capability: type[F]) -> dict[str, F]:
    """Return the formats that have ``capability``, by agent name. The modules of all agents are loaded."""
    return {agent: format for agent, format in FORMATS.items() if isinstance(format, capability)}


def claimed(head: bytes) -> Format | None:
    """Return the format of a file that begins with ``head``, or ``None`` if no supported agent wrote it."""
    for agent, known in _AGENTS.items():
        if re.search(known.sign, head) and FORMATS[agent].claims(head):
            return FORMATS[agent]
    return None
