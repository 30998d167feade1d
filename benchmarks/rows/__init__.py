"""The table of benchmarks: one module for each family. The docstring of a module is the text of its section."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from benchmarks.figures import Line, Plot, Table
from benchmarks.rows import (
    agents,
    append,
    checkpoint,
    compactions,
    contexts,
    disk,
    flushing,
    forking,
    frameworks,
    graphs,
    growing,
    importing,
    listing,
    memory,
    opening,
    receiving,
    resuming,
    rewinding,
    scale,
    searching,
    secrets,
    starting,
    syncing,
    verifying,
    views,
    writers,
)
from benchmarks.workshop import Workshop


class Row(Protocol):
    """The interface of a module in this folder. The name of the module is also its name on the command line."""

    TITLE: str

    def measure(self, shop: Workshop) -> Iterator[Line | Table | Plot]: ...


ROWS: dict[str, Row] = {
    "append": append,
    "flush": flushing,
    "writers": writers,
    "import": importing,
    "memory": memory,
    "agents": agents,
    "disk": disk,
    "list": listing,
    "fork": forking,
    "growth": growing,
    "graphs": graphs,
    "frameworks": frameworks,
    "open": opening,
    "resume": resuming,
    "context": contexts,
    "compactions": compactions,
    "search": searching,
    "secrets": secrets,
    "verify": verifying,
    "checkpoint": checkpoint,
    "rewind": rewinding,
    "sync": syncing,
    "receive": receiving,
    "start": starting,
    "scale": scale,
    "views": views,
}
