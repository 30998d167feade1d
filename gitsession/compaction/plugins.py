"""What packages of others offer under an entry-point group, looked for only when a name is asked for."""

from __future__ import annotations

from typing import Any


def load(group: str, name: str) -> Any:
    """What is offered as ``name``; ``None`` where nothing is."""
    from importlib.metadata import entry_points  # a fifth of the start of a command that needs none of them

    found = next(iter(entry_points(group=group, name=name)), None)
    return found.load() if found is not None else None


def names(group: str) -> list[str]:
    """All that there is."""
    from importlib.metadata import entry_points

    return sorted(entry_points(group=group).names)
