"""Load the instructions of opencode: AGENTS.md and its fallbacks, the globs of ``instructions``, and skills."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from gitsession.formats import CONFIG
from gitsession.instructions.loader import Loader, to_instructions
from gitsession.instructions.place import Place, between, upwards
from gitsession.instructions.reading import strings
from gitsession.instructions.scopes import absolute, below, matches
from gitsession.instructions.skills import first_of_each_name, skills_below
from gitsession.model.instructions import InstructionFile, Skill

_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_STRING_OR_LAST_COMMA = re.compile(r'"(?:[^"\\\n]|\\.)*"|,(?=\s*[}\]])')
_CONFIGS = ("config.json", "opencode.json", "opencode.jsonc")


class OpencodeLoader(Loader):
    """A loader of the instructions of opencode."""

    AGENT = "opencode"

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.user = place.folder(CONFIG) / "opencode"
        self.root = place.git_root or place.cwd
        is_off = place.is_set("OPENCODE_DISABLE_CLAUDE_CODE") or place.is_set("OPENCODE_DISABLE_CLAUDE_CODE_PROMPT")
        self.names = ("AGENTS.md", *(() if is_off else ("CLAUDE.md",)), "CONTEXT.md")
        self.is_claude_off = is_off
        self.has_project = not place.is_set("OPENCODE_DISABLE_PROJECT_CONFIG")

    def files(self) -> Iterable[InstructionFile]:
        """Return the files, each once."""
        files: dict[str, InstructionFile] = {}
        for file in (*self._global(), *self._project(), *self._configured(), *self._nested()):
            files.setdefault(file.path, file)
        return files.values()

    def skills(self) -> list[Skill]:
        """Return the first skill of each name, by name."""
        return sorted(first_of_each_name(self._all_skills()), key=lambda skill: skill.name)

    def _global(self) -> Iterator[InstructionFile]:
        claude = () if self.is_claude_off else (self.place.home / ".claude/CLAUDE.md",)
        for path in (self.user / "AGENTS.md", *claude):
            if path.exists():
                yield from self._file(path, "user", "first of the user's AGENTS.md and CLAUDE.md")
                return

    def _project(self) -> Iterator[InstructionFile]:
        """Yield the files of the first name that any folder has, from the working directory to the project's root."""
        folders = list(upwards(self.place.cwd, self.root)) if self.has_project else []
        for name in self.names:
            if any((folder / name).exists() for folder in folders):
                for folder in folders:
                    yield from self._file(folder / name, "project", f"first of {', '.join(self.names)}", self.root)
                return

    def _configured(self) -> Iterator[InstructionFile]:
        for pattern in self._patterns():
            if pattern.startswith(("http://", "https://")):
                self.reader.refuse(pattern, "a URL, which is not fetched")
                continue
            path = self.place.expand(pattern, Path())
            if path.is_absolute():
                found = self._in_folder(path)
            else:
                folders = upwards(self.place.cwd, self.root) if self.has_project else [self.user]
                found = [file for folder in folders for file in self._glob(folder, pattern)]
            for each in found:
                yield from self._file(each, "project", f"instructions: {pattern}")

    def _in_folder(self, path: Path) -> list[Path]:
        """Return the files that an absolute glob matches. Only its last part can have wildcards."""
        patterns = absolute([f"/{path.name}"], path.parent)
        names = self.reader.names(path.parent)
        return [path.parent / name for name in names if matches(patterns, (path.parent / name).as_posix())]

    def _glob(self, folder: Path, pattern: str) -> list[Path]:
        if not re.search(r"[*?\[{]", pattern):
            return [folder / pattern]
        patterns = absolute([f"/{pattern}"], folder)
        if "/" not in pattern:
            return [folder / name for name in self.reader.names(folder) if matches(patterns, f"{folder}/{name}")]
        fixed = Path(re.split(r"[*?\[{]", pattern)[0] + "x").parent  # the folders before the first wildcard
        searched = [folder / fixed, *self.reader.folders(folder / fixed)]
        paths = (each / name for each in searched for name in self.reader.names(each))
        return [path for path in paths if path.is_file() and matches(patterns, path.as_posix())]

    def _patterns(self) -> list[str]:
        """Return ``instructions`` of all configuration files, each once."""
        folders = [self.user]
        if self.has_project:
            above = list(reversed(list(upwards(self.place.cwd, self.root))))
            folders += [*above, *(folder / ".opencode" for folder in above)]
        paths = [folder / name for folder in folders for name in _CONFIGS]
        if chosen := self.place.environment.get("OPENCODE_CONFIG"):
            paths.append(self.place.expand(chosen, self.place.cwd))
        return list(dict.fromkeys(text for path in paths for text in strings(self._config(path).get("instructions"))))

    def _config(self, path: Path) -> dict[str, Any]:
        file = self.reader.read(path)
        if file is None:
            return {}
        try:
            value = json.loads(_plain_json(file.text))
        except (ValueError, RecursionError):
            self.reader.refuse(path, "not a JSON file")
            return {}
        return value if isinstance(value, dict) else {}

    def _nested(self) -> Iterator[InstructionFile]:
        """Yield the first file of each folder below the working directory, in force once a file there is read."""
        cwd = self.place.cwd
        named = [folder for path in self.place.touched for folder in reversed(between(cwd, path.parent))]
        searched = self.reader.folders(cwd) if self.place.nested else ()
        for folder in dict.fromkeys([*named, *searched]):
            name = next((name for name in self.names if (folder / name).exists()), None)
            if name is not None:
                reason = f"first of {', '.join(self.names)} in a folder below"
                yield from self._file(folder / name, "project", reason, self.root, below(folder))

    def _file(
        self, path: Path, scope: str, reason: str, within: Path | None = None, patterns: tuple[str, ...] = ()
    ) -> Iterator[InstructionFile]:
        if (file := self.reader.read(path, within=within)) and file.text:
            yield to_instructions(file, scope, reason, patterns=patterns)

    def _all_skills(self) -> Iterator[Skill]:
        outside = [".agents", *([] if self.is_claude_off else [".claude"])]
        for name in outside:
            yield from skills_below(self.reader, self.place.home / name / "skills")
        folders = list(upwards(self.place.cwd, self.root)) if self.has_project else []
        for folder in folders:
            for name in outside:
                yield from skills_below(self.reader, folder / name / "skills", within=self.root)
        for folder, within in [(self.user, None), *((folder / ".opencode", self.root) for folder in folders)]:
            for name in ("skill", "skills"):
                yield from skills_below(self.reader, folder / name, within=within)


def _plain_json(text: str) -> str:
    """Return JSON without comments and without commas after the last element."""
    for pattern in (_STRING_OR_COMMENT, _STRING_OR_LAST_COMMA):
        text = pattern.sub(lambda found: found[0] if found[0][0] == '"' else "", text)
    return text
