"""The base of the loaders: each collects the files and the skills of one agent in a place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from gitsession.instructions.place import Place, real
from gitsession.instructions.reading import InstructionReader, ReadFile
from gitsession.model.instructions import InstructionFile, InstructionSet, Skill

SET_BYTES_MAX = 12 * 1024 * 1024
"""Largest size of the texts and globs of a set. A recorded set must fit into a payload of 16 MiB."""

_Part = TypeVar("_Part", InstructionFile, Skill)


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
        self._bytes = 0

    def load(self) -> InstructionSet:
        """Return the instructions of the agent in the place."""
        return InstructionSet(
            agent=self.AGENT,
            cwd=self.place.cwd.as_posix(),
            files=tuple(self._bounded(self.files())),
            skills=tuple(self._bounded(self.skills())),
            problems=tuple(self.reader.problems(self.place.cwd)),
        )

    def _bounded(self, parts: Iterable[_Part]) -> Iterator[_Part]:
        """Yield the parts that fit into a recorded set. Few bytes of front matter can stand for many globs."""
        for part in parts:
            values = (getattr(part, field.name) for field in fields(part))
            texts = (text for value in values for text in (value if isinstance(value, tuple) else (value,)))
            size = sum(len(text.encode("utf-8", "replace")) for text in texts if isinstance(text, str))
            if self._bytes + size > SET_BYTES_MAX:
                self.reader.leave_out(Path(part.path), f"more than {SET_BYTES_MAX:,} bytes in the set")
            else:
                self._bytes += size
                yield part

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
    file: ReadFile, scope: str, reason: str, content: str | None = None, **others: Any
) -> InstructionFile:
    """Return a file that was read as a file of instructions. ``content``: the text, if it is not that of the file."""
    text = file.text if content is None else content
    return InstructionFile(
        path=file.path.as_posix(), scope=scope, content=text, digest=file.digest, reason=reason, **others
    )
