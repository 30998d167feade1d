"""The session formats of agents: a table with one ``Format`` instance per agent.

This package does not access a store, the clock, or files. The records of a session are stored verbatim. The
interpretation of a record (``read``) is a *view*, which is computed on access and may change between releases. The text
of a record's commit message (``headline``) is frozen under a view number, because the text is part of an object id.

The modules for an agent and the classes of ``base`` are loaded on first use. Formats of plugins are looked up if a name
is not one of gitsession's own, and after gitsession's own formats.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, TypeVar, overload

from gitsession.errors import PluginFailed

if TYPE_CHECKING:
    from gitsession import plugins
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
    "NOT_AGENTS",
    "OWN_FORMATS",
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
    "roots_of",
    "with_capability",
]  # fmt: skip

F = TypeVar("F", bound="Format")
T = TypeVar("T")


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
"""The folders in which each agent keeps its sessions. ``roots_of`` includes the formats of plugins."""


NOT_AGENTS = ("html", "jsonl", "markdown", "otlp")
"""Names of export formats, which no agent can have."""


class _Formats(Mapping[str, "Format"]):
    """A mapping from agent names to formats. Each format is loaded on first use.

    Iteration leaves out the plugins that cannot be used, and logs the reason.
    """

    def __init__(self) -> None:
        self._loaded: dict[str, Format] = {}
        self._plugins: dict[plugins.Plugin, Format | PluginFailed] = {}

    def __getitem__(self, agent: str) -> Format:
        """Return the format of ``agent``. Raises ``KeyError``, or ``PluginFailed`` if its plugin cannot be used."""
        if agent not in _AGENTS:
            return self._of_plugin(agent)
        if agent not in self._loaded:
            self._loaded[agent] = getattr(import_module(f"{__name__}.{_AGENTS[agent].module}"), agent)
        return self._loaded[agent]

    def _of_plugin(self, agent: str) -> Format:
        plugin = _plugin(agent)
        if plugin is None:
            raise KeyError(agent)
        if plugin not in self._plugins:
            from gitsession.formats import plugin_format

            try:
                self._plugins[plugin] = plugin_format.load(plugin)
            except PluginFailed as failure:  # it is tried once, because each entry of a session needs its format
                self._plugins[plugin] = failure
        found = self._plugins[plugin]
        if isinstance(found, PluginFailed):
            raise plugin.failure(found.problem)
        return found

    @overload
    def get(self, agent: str, /) -> Format | None: ...
    @overload
    def get(self, agent: str, default: T, /) -> Format | T: ...
    def get(self, agent: str, default: T | None = None, /) -> Format | T | None:
        """Return the format of ``agent``, or ``default`` if there is none or its plugin cannot be used."""
        try:
            return self[agent]
        except KeyError:
            return default
        except PluginFailed as failure:
            from gitsession import plugins

            plugins.report(failure)
            return default

    def __contains__(self, agent: object) -> bool:
        # The inherited method would load the format.
        return agent in _AGENTS or (isinstance(agent, str) and _plugin(agent) is not None)

    def __iter__(self) -> Iterator[str]:
        from gitsession import plugins

        yield from _AGENTS
        yield from (name for name in plugins.of_kind("formats") if name not in _AGENTS and self.get(name) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _plugin(agent: str) -> plugins.Plugin | None:
    if agent in NOT_AGENTS:
        return None
    from gitsession import plugins  # few processes need it

    return plugins.find("formats", agent)


FORMATS: Mapping[str, Format] = _Formats()
"""The formats by agent name, in the order in which they are tried on a file."""

OWN_FORMATS: Collection[str] = _AGENTS.keys()
"""The names of gitsession's own formats."""


def roots_of(format: Format) -> Sequence[SearchRoot]:
    """Return the folders in which the agent of ``format`` keeps its sessions."""
    return ROOTS.get(format.AGENT) or [SearchRoot(*root) for root in format.ROOTS]


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


def all_with_capability(capability: type[F], agents: Iterable[str] = FORMATS) -> dict[str, F]:
    """Return the formats of ``agents`` that have ``capability``, by agent name. Their modules are loaded."""
    return {agent: format for agent in agents if isinstance(format := FORMATS.get(agent), capability)}


def claimed(head: bytes) -> Format | None:
    """Return the format of a file that begins with ``head``, or ``None`` if no supported agent wrote it."""
    for agent, known in _AGENTS.items():
        if re.search(known.sign, head) and FORMATS[agent].claims(head):
            return FORMATS[agent]
    others = (format for agent, format in FORMATS.items() if agent not in _AGENTS)
    return next((format for format in others if format.claims(head)), None)
