"""Read skills: folders with a ``SKILL.md``, whose front matter has a name and a description."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from gitsession.instructions.place import real
from gitsession.instructions.reading import InstructionReader, text_of
from gitsession.model.instructions import Skill

SKILL_FILE = "SKILL.md"
NAME_CHARS_MAX = 256
DESCRIPTION_CHARS_MAX = 64 * 1024


def skills_in(reader: InstructionReader, folder: Path, *, within: Path | None = None) -> Iterator[Skill]:
    """Yield the skills of ``folder/*/SKILL.md`` that have a description, by the name of their folder."""
    for name in reader.names(folder):
        if not name.startswith(".") and (found := read_skill(reader, folder / name / SKILL_FILE, within=within)):
            yield found[0]


def skills_below(reader: InstructionReader, folder: Path, *, within: Path | None = None) -> Iterator[Skill]:
    """Yield the skills of ``folder/**/SKILL.md`` that have a description."""
    for path in reader.walk(folder, within=within):
        if path.name == SKILL_FILE and (found := read_skill(reader, path, within=within)):
            yield found[0]


def read_skill(
    reader: InstructionReader, path: Path, *, within: Path | None = None, needs_description: bool = True
) -> tuple[Skill, dict[str, Any]] | None:
    """Return the skill of one file and its front matter. A skill without a name is named after its folder.

    Args:
        within: A folder that symbolic links must not leave.
        needs_description: Whether a skill without a description is refused.
    """
    file = reader.read(path, within=within)
    if file is None:
        return None
    fields, body = reader.split(file)
    description = text_of(fields.get("description"))
    if needs_description and not description:
        reader.refuse(path, "a skill without a description")
        return None
    skill = Skill(
        name=(text_of(fields.get("name")) or path.parent.name)[:NAME_CHARS_MAX],
        description=description[:DESCRIPTION_CHARS_MAX],
        path=path.as_posix(),
        digest=file.digest,
        content=body.strip(),
        is_listed=fields.get("disable-model-invocation") is not True,
    )
    return skill, fields


def first_of_each_name(skills: Iterable[Skill]) -> tuple[Skill, ...]:
    """Return the first skill of each name. A file that several paths lead to is one skill."""
    found: dict[str, Skill] = {}
    files: set[Path] = set()
    for skill in skills:
        file = real(Path(skill.path))
        if file not in files:
            files.add(file)
            found.setdefault(skill.name, skill)
    return tuple(found.values())
