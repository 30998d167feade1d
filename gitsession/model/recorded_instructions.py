"""Sets of instructions in the field ``files`` of an entry (docs/reference/format.md, "Instructions")."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from gitsession.model.entries import Instructions
from gitsession.model.instructions import InstructionFile, InstructionSet, Skill

FILES, SKILLS = "files", "skills"

_Value = TypeVar("_Value", InstructionFile, Skill)


def to_field(found: InstructionSet) -> dict[str, Any]:
    """Return a set as the value of ``Instructions.files``. Fields with their default value are left out."""
    parts: dict[str, tuple[InstructionFile, ...] | tuple[Skill, ...]] = {FILES: found.files, SKILLS: found.skills}
    value: dict[str, Any] = {"agent": found.agent, "cwd": found.cwd}
    value |= {name: [_to_map(each) for each in values] for name, values in parts.items() if values}
    return value | ({"problems": [list(problem) for problem in found.problems]} if found.problems else {})


def recorded_set(entry: Instructions | None) -> InstructionSet | None:
    """Return the set that an entry records; ``None`` if it records none. Malformed parts are left out."""
    value = entry.files if entry is not None else None
    if not isinstance(value, Mapping) or not all(isinstance(value.get(name), str) for name in ("agent", "cwd")):
        return None
    problems = [tuple(part) for part in _list(value.get("problems")) if isinstance(part, list | tuple)]
    return InstructionSet(
        agent=value["agent"],
        cwd=value["cwd"],
        files=_values(InstructionFile, value.get(FILES)),
        skills=_values(Skill, value.get(SKILLS)),
        problems=tuple(part for part in problems if [type(text) for text in part] == [str, str]),
    )


def _to_map(value: InstructionFile | Skill) -> dict[str, Any]:
    fields = ((field, getattr(value, field.name)) for field in dataclasses.fields(value))
    kept = {field.name: item for field, item in fields if item != field.default}
    return {name: list(item) if isinstance(item, tuple) else item for name, item in kept.items()}


def _values(kind: type[_Value], value: Any) -> tuple[_Value, ...]:
    found = (_value(kind, part) for part in _list(value) if isinstance(part, Mapping))
    return tuple(part for part in found if part is not None)


def _value(kind: type[_Value], part: Mapping[str, Any]) -> _Value | None:
    known: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        item = part.get(field.name, field.default)
        if field.name == "patterns":
            item = tuple(glob for glob in _list(item) if isinstance(glob, str))
        elif not isinstance(item, bool if field.name == "is_truncated" else str) and item != field.default:
            return None
        if item is dataclasses.MISSING:
            return None
        known[field.name] = item
    return kind(**known)


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []
