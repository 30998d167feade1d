"""The checks of ``gitsession doctor`` that load every installed plugin."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from gitsession import plugins
from gitsession.compaction.summarizers import SUMMARIZERS
from gitsession.context.tokens import TOKENIZERS
from gitsession.errors import PluginFailed
from gitsession.exporting import HTML
from gitsession.exporting.readable import READABLE_FORMATS, PluginWriter
from gitsession.formats import FORMATS, NOT_AGENTS, OWN_FORMATS
from gitsession.redaction.own_rules import rules_of_plugin

OWN_NAMES: Mapping[str, Collection[str]] = {
    "formats": [*OWN_FORMATS, *NOT_AGENTS],
    "exporters": [*OWN_FORMATS, *READABLE_FORMATS, HTML],
    "summarizers": SUMMARIZERS,
    "prompts": ["default"],
    "tokenizers": TOKENIZERS,
    "secrets": [],
}
"""gitsession's own names, which no plugin can have."""


def plugin_rows() -> Iterator[tuple[str, str, str]]:
    """Yield a row for the usable plugins of each kind, and one for each plugin that cannot be used.

    A row consists of the kind, the names with the distributions or the problem, and the suggested fix.
    """
    for kind in plugins.KINDS:
        usable: list[str] = []
        for plugin in (*plugins.of_kind(kind).values(), *(each for each in plugins.invalid() if each.kind == kind)):
            failure = _failure_of(plugin)
            if failure is None:
                usable.append(str(plugin))
            else:
                yield kind, str(failure), failure.hint
        if usable:
            yield kind, ", ".join(usable), ""


def _failure_of(plugin: plugins.Plugin) -> PluginFailed | None:
    if plugin.name in OWN_NAMES[plugin.kind]:
        return plugin.failure("gitsession itself uses this name, so the plugin is ignored")
    try:
        _CHECKS[plugin.kind](plugin)
    except PluginFailed as failure:
        return failure
    return None


def _function(plugin: plugins.Plugin) -> None:
    value = plugin.load()
    if not callable(value):
        raise plugin.failure(f"expected a function, found {type(value).__name__}")


def _rules(plugin: plugins.Plugin) -> Sequence[object]:
    return list(rules_of_plugin(plugin))


_CHECKS: Mapping[str, Callable[[plugins.Plugin], Any]] = {
    "formats": lambda plugin: FORMATS[plugin.name],
    "exporters": PluginWriter,
    "summarizers": _function,
    "prompts": _function,
    "tokenizers": _function,
    "secrets": _rules,
}
