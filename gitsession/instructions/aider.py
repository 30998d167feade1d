"""Load the conventions of Aider: the files that ``read:`` of ``.aider.conf.yml`` names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gitsession.instructions.place import Place, real
from gitsession.instructions.reading import InstructionReader, as_yaml, strings
from gitsession.model.instructions import InstructionFile, InstructionSet

CONFIG = ".aider.conf.yml"


def load(place: Place) -> InstructionSet:
    """Return the read-only files of Aider in ``place``."""
    reader = InstructionReader()
    return InstructionSet(
        agent="aider",
        cwd=place.cwd.as_posix(),
        files=tuple(_files(reader, place)),
        problems=tuple(reader.problems),
    )


def _files(reader: InstructionReader, place: Place) -> Iterator[InstructionFile]:
    seen: set[Path] = set()
    for name, origin in _named(reader, place):
        path = place.expand(name, place.cwd)
        expanded = sorted(reader.walk(path)) if path.is_dir() else [path]
        for each in expanded:
            if real(each) in seen:
                continue
            seen.add(real(each))
            if not each.exists():
                reader.refuse(each, "absent")
            elif file := reader.read(each):
                yield InstructionFile(
                    path=each.as_posix(),
                    scope="convention",
                    content=file.text,
                    digest=file.digest,
                    reason=f"read: of {origin}",
                )


def _named(reader: InstructionReader, place: Place) -> Iterator[tuple[str, str]]:
    """Yield the paths of ``AIDER_READ`` or of the last configuration file with ``read``, which replaces the others."""
    if chosen := place.environment.get("AIDER_READ"):
        yield chosen, "$AIDER_READ"
        return
    folders = [place.home, *([place.git_root] if place.git_root else []), place.cwd]
    for folder in reversed(list(dict.fromkeys(folders))):
        file = reader.read(folder / CONFIG)
        if file is None:
            continue
        try:
            settings = as_yaml(file.text)
        except ValueError:
            reader.refuse(file.path, "not a YAML file")
            continue
        if isinstance(settings, dict) and "read" in settings:
            yield from ((name, file.path.as_posix()) for name in strings(settings["read"]))
            return
