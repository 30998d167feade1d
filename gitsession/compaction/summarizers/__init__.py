"""Who summarises: a table of modules, each with ``make(options)``.

A plugin of the entry-point group ``gitsession.summarizers`` is such a function. Nothing is loaded, and no plugin looked
for, before it is asked for by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from threading import Event
from typing import cast

from gitsession.compaction import prompts
from gitsession.compaction.summarizers.options import Options
from gitsession.compaction.summary import Progress, Request, Summarizer, Summary
from gitsession.errors import NotFound

GROUP = "gitsession.summarizers"
SUMMARIZERS = ("extractive", "command", "http")
"""The built-in ones: modules of this folder. The first needs nothing and is the default."""


@dataclass(frozen=True, slots=True)
class _Plugin:
    """A plugin's summarizer is called as its entry point is, whatever it calls itself."""

    NAME: str
    by: Summarizer

    def summarise(self, request: Request, *, progress: Progress, cancelled: Event) -> Summary:
        return self.by.summarise(request, progress=progress, cancelled=cancelled)


def make(options: Options) -> Summarizer:
    """The summarizer that ``options`` name. Raises ``NotFound`` for an unknown name, ``SummaryFailed`` otherwise."""
    if options.name in SUMMARIZERS:
        return cast(Summarizer, import_module(f"{__name__}.{options.name}").make(options))
    found = prompts.load_plugin(GROUP, options.name)
    if found is not None:
        return _Plugin(options.name, found(options))
    known = ", ".join([*SUMMARIZERS, *prompts.plugin_names(GROUP)])
    raise NotFound(f"no summarizer is called {options.name!r}", hint=f"known are {known}")
