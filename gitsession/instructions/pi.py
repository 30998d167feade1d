"""Load the instructions of pi: one context file per folder, the files of the system prompt, and skills."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gitsession.formats import FOLDERS
from gitsession.instructions.loader import Loader, to_instructions
from gitsession.instructions.place import Place, upwards
from gitsession.instructions.reading import as_json_object
from gitsession.instructions.skills import SKILL_FILE, first_of_each_name, read_skill
from gitsession.model.instructions import InstructionFile, Skill

NAMES = ("AGENTS.override.md", "AGENTS.md", "AGENTS.MD", "CLAUDE.md", "CLAUDE.MD")
SYSTEM, APPEND = "SYSTEM.md", "APPEND_SYSTEM.md"


class PiLoader(Loader):
    """A loader of the instructions of pi."""

    AGENT = "pi"

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.user = place.folder(FOLDERS[self.AGENT])
        self.project = place.cwd / ".pi"
        self.is_trusted = self._is_trusted()

    def files(self) -> Iterator[InstructionFile]:
        """Yield the files of the system prompt, and then the context files."""
        yield from self._system(SYSTEM)
        yield from self._system(APPEND)
        yield from self._context_files()

    def skills(self) -> tuple[Skill, ...]:
        """Return the first skill of each name."""
        return first_of_each_name(self._all_skills())

    def _system(self, name: str) -> Iterator[InstructionFile]:
        """Yield the file that replaces or extends the system prompt: the project's, otherwise the user's."""
        for folder, scope in ((self.project, "project"), (self.user, "user")):
            if not (folder / name).exists():
                continue
            if scope == "project" and not self.is_trusted:
                self.reader.refuse(folder / name, "the user did not trust the project")
                continue
            reason = "replaces the system prompt" if name == SYSTEM else "added to the system prompt"
            yield from self._file(folder / name, scope, reason, self.place.cwd if scope == "project" else None)
            return

    def _context_files(self) -> Iterator[InstructionFile]:
        seen: set[str] = set()
        folders = [(self.user, "user"), *((each, "project") for each in reversed(list(upwards(self.place.cwd))))]
        shadowed = self._shadowed()
        for folder, scope in folders:
            name = next((name for name in NAMES if (folder / name).is_file()), None)
            if name is None or folder / name == shadowed:
                continue
            within = self.place.boundary(folder) if scope == "project" else None
            for file in self._file(folder / name, scope, f"first of {', '.join(NAMES)} in its folder", within):
                if file.path not in seen:
                    seen.add(file.path)
                    yield file

    def _shadowed(self) -> Path | None:
        """Return the file of the main work tree that the file of a linked work tree inside of it replaces."""
        root, main = self.place.git_root, self.place.main_root
        if root is None or main is None or root == main or not root.is_relative_to(main):
            return None
        return next((main / name for name in NAMES if (root / name).is_file()), None)

    def _file(self, path: Path, scope: str, reason: str, within: Path | None) -> Iterator[InstructionFile]:
        if file := self.reader.read(path, within=within):
            yield to_instructions(file, scope, reason)

    def _is_trusted(self) -> bool:
        """Return whether the user's newest decision about the folder, or about the nearest above, is trust."""
        decisions = as_json_object(self.reader.read(self.user / "trust.json"))
        found = (decisions.get(folder.as_posix()) for folder in upwards(self.place.cwd))
        return next((each for each in found if isinstance(each, bool)), False)

    def _all_skills(self) -> Iterator[Skill]:
        last = self.place.git_root
        in_project = [folder / ".agents/skills" for folder in upwards(self.place.cwd, last)]
        users = [self.user / "skills", self.place.home / ".agents/skills"]
        if self.is_trusted:
            within = last or self.place.cwd
            yield from self._skills_in(self.project / "skills", within, with_files=True)
            for folder in in_project:
                if folder not in users:
                    boundary = within if folder.is_relative_to(within) else folder
                    yield from self._skills_in(folder, boundary, with_files=False)
        elif (self.project / "skills").is_dir():
            self.reader.refuse(self.project / "skills", "the user did not trust the project")
        yield from self._skills_in(users[0], None, with_files=True)
        yield from self._skills_in(users[1], None, with_files=False)

    def _skills_in(self, folder: Path, within: Path | None, *, with_files: bool) -> Iterator[Skill]:
        """Yield the skills of a folder and of the folders below it, which end at a ``SKILL.md``.

        Args:
            with_files: Whether each ``*.md`` in the folder itself is a skill too.
        """
        if (folder / SKILL_FILE).exists():
            if found := read_skill(self.reader, folder / SKILL_FILE, within=within):
                yield found[0]
            return
        for name in self.reader.names(folder):
            path = folder / name
            if name.startswith(".") or name == "node_modules":
                continue
            if path.is_dir():
                if not path.is_symlink():
                    yield from self._skills_in(path, within, with_files=False)
                elif found := read_skill(self.reader, path / SKILL_FILE, within=within):
                    yield found[0]
            elif with_files and name.endswith(".md") and (found := read_skill(self.reader, path, within=within)):
                yield found[0]
