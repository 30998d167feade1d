"""Read the instructions that a session recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from gitsession.model.entries import Instructions
from gitsession.model.instructions import InstructionFile, InstructionSet, Skill

T = TypeVar("T", InstructionFile, Skill)


def recorded(entry: Instructions | None, *, agent: str, cwd: str) -> InstructionSet | None:
    """Return the files and skills that an entry records; ``None`` if it records no files."""
    found = entry.files if entry is not None else None
    files, skills = (found.get("files"), found.get("skills")) if isinstance(found, Mapping) else (found, None)
    read = tuple(_values(InstructionFile, files))
    return InstructionSet(agent=agent, cwd=cwd, files=read, skills=tuple(_values(Skill, skills))) if read else None


def _values(kind: type[T], items: Any) -> Iterable[T]:
    """Yield the recorded values. Fields of a later version are ignored, and incomplete values are left out."""
    names = set(kind.__dataclass_fields__)
    for item in items if isinstance(items, list | tuple) else ():
        if isinstance(item, Mapping):
            fields: dict[str, Any] = {"content": ""}
            for name in names & item.keys():
                fields[name] = tuple(item[name]) if isinstance(item[name], list) else item[name]
            try:
                yield kind(**fields)
            except TypeError:
                continue
