"""Summarizers: modules with a function ``make(options)``, which returns a summarizer.

Plugins can add such functions in the entry-point group ``gitsession.summarizers``. A module or plugin is loaded only
when a summarizer of this name is requested.
"""

from __future__ import annotations

from importlib import import_module
from threading import Event
from typing import cast

from gitsession.compaction import prompts
from gitsession.compaction.summarizers.options import Options, users_options
from gitsession.compaction.summary import Progress, Request, Summarizer, Summary
from gitsession.dataclass import dataclass
from gitsession.errors import NotFound

GROUP = "gitsession.summarizers"
SUMMARIZERS = ("extractive", "command", "http")
"""Built-in summarizers, which are modules of this package. The first is the default and needs no configuration."""


@dataclass(frozen=True, slots=True)
class _Plugin:
    """A summarizer from a plugin. Its name is the name of the entry point, whatever its own ``NAME`` is."""

    NAME: str
    by: Summarizer

    def summarise(self, request: Request, *, progress: Progress, cancelled: Event) -> Summary:
        return self.by.summarise(request, progress=progress, cancelled=cancelled)


@dataclass(frozen=True, slots=True)
class DeferredSummarizer:
    """A summarizer that is made when it is used, so that invalid options are a failure of this summarizer only."""

    NAME: str
    options: Options

    def summarise(self, request: Request, *, progress: Progress, cancelled: Event) -> Summary:
        return make(self.options).summarise(request, progress=progress, cancelled=cancelled)


def make(options: Options) -> Summarizer:
    """Return the summarizer for ``options``.

    Raises ``NotFound`` if its name is unknown, and ``SummaryFailed`` if other options are invalid.
    """
    if options.name in SUMMARIZERS:
        return cast(Summarizer, import_module(f"{__name__}.{options.name}").make(options))
    found = prompts.load_plugin(GROUP, options.name)
    if found is not None:
        return _Plugin(options.name, found(options))
    known = ", ".join([*SUMMARIZERS, *prompts.plugin_names(GROUP)])
    raise NotFound(f"unknown summarizer {options.name!r}", hint=f"choose one of {known}")


def summarizer(wanted: str | Summarizer | None) -> Summarizer:
    """Return a summarizer by name, with the settings in the user's git configuration.

    Args:
        wanted: ``NAME`` or ``NAME:MODEL``. A summarizer object is returned unchanged. ``None`` for the default one.

    Returns:
        The summarizer.

    Raises:
        NotFound: The name is unknown.
        SummaryFailed: A setting is missing or invalid.
    """
    if wanted is None:
        return make(Options())
    return make(users_options(wanted)) if isinstance(wanted, str) else wanted
