"""The base of the loaders: each collects the files and the skills of one agent in a place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from gitsession.instructions.place import Place, real
from gitsession.instructions.reading import InstructionReader, ReadFile
from gitsession.model.instructions import InstructionFile, InstructionSet, Skill


class Loader:
    """A loader of the instructions of one agent. A subclass defines ``AGENT``, ``files``, and ``skills``.

    Attributes:
        place: The folders in which the loader searches.
        reader: The reader of all files, which collects the problems.
    """

    AGENT: ClassVar[str]

    def __init__(self, place: Place) -> None:
        self.place = place
        self.reader = InstructionReader()

    def load(self) -> InstructionSet:
        """Return the instructions of the agent in the place."""
        return InstructionSet(
            agent=self.AGENT,
            cwd=self.place.cwd.as_posix(),
            files=tuple(self.files()),
            skills=tuple(self.skills()),
            problems=tuple(self.reader.problems),
        )

    def files(self) -> Iterable[InstructionFile]:
        """Return the files in the order in which the model receives them."""
        raise NotImplementedError

    def skills(self) -> Iterable[Skill]:
        """Return the skills in the order in which the model receives them. ``files`` is called first."""
        return ()

    def refuse_circle(self, path: Path, chain: Sequence[Path]) -> bool:
        """Refuse the import of ``path`` if it is a file of ``chain``, the files that lead to it. Return whether it is.

        The problem names the files of the circle.
        """
        files = [real(each) for each in chain]
        if real(path) not in files:
            return False
        circle = [*chain[files.index(real(path)) :], path]
        names = " -> ".join(self.place.shown(each) for each in circle)
        self.reader.refuse(path, f"it imports itself: {names}")
        return True


def to_instructions(
    file: ReadFile, scope: str, reason: str, content: str | None = None, **fields: Any
) -> InstructionFile:
    """Return a file that was read as a file of instructions. ``content``: the text, if it is not that of the file."""
    text = file.text if content is None else content
    return InstructionFile(
        path=file.path.as_posix(), scope=scope, content=text, digest=file.digest, reason=reason, **fields
    )
