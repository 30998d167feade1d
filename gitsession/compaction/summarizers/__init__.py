"""Summarizers: modules with a function ``make(options)``, which returns a summarizer.

Plugins can add such functions in the entry-point group ``gitsession.summarizers``. A module or plugin is loaded only
when a summarizer of this name is requested.
"""

from __future__ import annotations

from importlib import import_module
from threading import Event
from typing import cast

from gitsession import plugins
from gitsession.compaction.summarizers.options import Options, users_options
from gitsession.compaction.summary import Progress, Request, Summarizer, Summary
from gitsession.dataclass import dataclass
from gitsession.errors import NotFound

SUMMARIZERS = ("extractive", "command", "http")
"""Built-in summarizers, which are modules of this package. The first is the default and needs no configuration."""


@dataclass(frozen=True, slots=True)
class _Plugin:
    """A summarizer from a plugin. Its name is the name of the entry point, whatever its own ``NAME`` is."""

    NAME: str
    by: Summarizer
    plugin: plugins.Plugin

    def summarise(self, request: Request, *, progress: Progress, cancelled: Event) -> Summary:
        found = self.plugin.call(self.by.summarise, request, progress=progress, cancelled=cancelled)
        return self.plugin.require(found, Summary, "a Summary")


@dataclass(frozen=True, slots=True)
class DeferredSummarizer:
    """A summarizer that is made when it is used, so that invalid options are a failure of this summarizer only."""

    NAME: str
    options: Options

    def summarise(self, request: Request, *, progress: Progress, cancelled: Event) -> Summary:
        return make(self.options).summarise(request, progress=progress, cancelled=cancelled)


def make(options: Options) -> Summarizer:
    """Return the summarizer for ``options``.

    Raises ``NotFound`` if its name is unknown, ``PluginFailed``, and ``SummaryFailed`` if other options are invalid.
    """
    if options.name in SUMMARIZERS:
        return cast(Summarizer, import_module(f"{__name__}.{options.name}").make(options))
    plugin = plugins.find("summarizers", options.name)
    if plugin is None:
        known = ", ".join(plugins.names("summarizers", SUMMARIZERS))
        raise NotFound(f"unknown summarizer {options.name!r}", hint=f"choose one of {known}")
    found = plugin.call(plugin.load(), options)
    if not callable(getattr(found, "summarise", None)):
        raise plugin.failure(f"expected an object with a method summarise, found {type(found).__name__}")
    return _Plugin(options.name, found, plugin)


def summarizer(wanted: str | Summarizer | None) -> Summarizer:
    """Return a summarizer by name, with the settings in the user's git configuration.

    Args:
        wanted: ``NAME`` or ``NAME:MODEL``. A summarizer object is returned unchanged. ``None`` for the default one.

    Returns:
        The summarizer.

    Raises:
        NotFound: The name is unknown.
        PluginFailed: The plugin with this name cannot be used.
        SummaryFailed: A setting is missing or invalid.
    """
    if wanted is None:
        return make(Options())
    return make(users_options(wanted)) if isinstance(wanted, str) else wanted
