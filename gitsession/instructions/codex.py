"""Load the instructions of codex: one file per folder from the project's root to the working directory, and skills."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from gitsession.formats import FOLDERS
from gitsession.instructions.loader import Loader, to_instructions
from gitsession.instructions.place import Place, between, upwards
from gitsession.instructions.reading import ReadFile, as_yaml, strings
from gitsession.instructions.skills import skills_below
from gitsession.model.instructions import InstructionFile, Skill

OVERRIDE = "AGENTS.override.md"
DEFAULT = "AGENTS.md"
PROJECT_BYTES_MAX = 32 * 1024
"""Total size of the project's files that the model receives, unless ``project_doc_max_bytes`` has another value."""


class CodexLoader(Loader):
    """A loader of the instructions of codex."""

    AGENT = "codex"

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.user = place.folder(FOLDERS[self.AGENT])
        self.settings = self._settings()

    def _settings(self) -> dict[str, Any]:
        file = self.reader.read(self.user / "config.toml")
        try:
            return tomllib.loads(file.text) if file else {}
        except (tomllib.TOMLDecodeError, RecursionError):
            self.reader.refuse(self.user / "config.toml", "not a TOML file")
            return {}

    def files(self) -> Iterator[InstructionFile]:
        """Yield the file of the user, and then those of the project."""
        yield from self._global()
        yield from self._project()

    def _global(self) -> Iterator[InstructionFile]:
        for name in (OVERRIDE, DEFAULT):
            file = self.reader.read(self.user / name)
            if file and (text := file.text.strip()):
                yield to_instructions(file, "user", "first of AGENTS.override.md and AGENTS.md in codex's folder", text)
                return

    def _project(self) -> Iterator[InstructionFile]:
        remaining = self._bytes_max()
        for folder in self._folders():
            file = self._first(folder) if remaining > 0 else None
            if file is None:
                continue
            data = file.text.encode()
            text = data[:remaining].decode("utf-8", "replace")
            if text.strip():
                reason = "first of the names of project files in its folder"
                yield to_instructions(file, "project", reason, text, is_truncated=len(data) > remaining)
                remaining -= min(len(data), remaining)

    def _folders(self) -> list[Path]:
        """Return the folders from the root of the project to the working directory."""
        cwd = self.place.cwd
        if "project_root_markers" in self.settings:
            markers = strings(self.settings["project_root_markers"])
        else:
            markers = (".git",)
        marked = (folder for folder in upwards(cwd) if any((folder / marker).exists() for marker in markers))
        root = next(marked, cwd)
        return [root, *between(root, cwd)]

    def _first(self, folder: Path) -> ReadFile | None:
        """Return the first file of a folder. It hides the files of the other names, even if it is empty."""
        for name in (OVERRIDE, DEFAULT, *self._fallbacks()):
            if (folder / name).is_file():
                return self.reader.read(folder / name, within=self._folders()[0])
            self.reader.read(folder / name)  # report a special file
        return None

    def _fallbacks(self) -> Iterator[str]:
        for name in strings(self.settings.get("project_doc_fallback_filenames")):
            if name and "/" not in name and name not in (".", ".."):
                yield name
            else:
                self.reader.refuse(name, "an entry of project_doc_fallback_filenames that is not a file name")

    def _bytes_max(self) -> int:
        value = self.settings.get("project_doc_max_bytes")
        return value if isinstance(value, int) and value >= 0 else PROJECT_BYTES_MAX

    def skills(self) -> Iterator[Skill]:
        """Yield the skills by origin, and those of one origin by name."""
        folders = self._folders()
        project = [folder / name for folder in folders for name in (".codex/skills", ".agents/skills")]
        system = self.user / "skills/.system"
        yield from self._skills_of([system])
        yield from self._skills_of(project, within=folders[0])
        users = self._skills_of([self.user / "skills", self.place.home / ".agents/skills"])
        yield from (skill for skill in users if not Path(skill.path).is_relative_to(system))
        yield from self._skills_of([self.place.root / "etc/codex/skills"])

    def _skills_of(self, folders: list[Path], within: Path | None = None) -> list[Skill]:
        found = [skill for folder in folders for skill in skills_below(self.reader, folder, within=within)]
        found = [skill if self._is_implicit(skill) else replace(skill, is_listed=False) for skill in found]
        return sorted(found, key=lambda skill: (skill.name, skill.path))

    def _is_implicit(self, skill: Skill) -> bool:
        """Return whether the model may activate the skill."""
        file = self.reader.read(Path(skill.path).parent / "agents/openai.yaml")
        try:
            settings = as_yaml(file.text) if file else None
        except ValueError:
            return True
        policy = settings.get("policy") if isinstance(settings, dict) else None
        return not (isinstance(policy, dict) and policy.get("allow_implicit_invocation") is False)
