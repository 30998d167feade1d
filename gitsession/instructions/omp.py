"""Load the instructions of omp: its own files, those of other agents, rules, and skills."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from gitsession.formats import FOLDERS
from gitsession.instructions.loader import Loader, to_instructions
from gitsession.instructions.markdown_text import blank_code
from gitsession.instructions.place import Place, real, upwards
from gitsession.instructions.reading import ReadFile, strings, text_of
from gitsession.instructions.skills import first_of_each_name, skills_in
from gitsession.model.instructions import InstructionFile, Skill

IMPORTS_DEEP_MAX = 5
AGENTS_MD = "AGENTS.md"
OWN = ".omp"
SHARED = (".agent", ".agents")

_IMPORT = re.compile(r"(?:^|(?<=[ \t]))@([./~A-Za-z0-9_-]\S*)", re.MULTILINE)
_TRAILING = ".,;:!?)]}\"'"


class OmpLoader(Loader):
    """A loader of the instructions of omp."""

    AGENT = "omp"

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.user = place.folder(FOLDERS[self.AGENT])
        self.root = place.git_root
        self.on_demand: list[Skill] = []

    def files(self) -> Iterator[InstructionFile]:
        """Yield the files. The rules that the model reads on demand are kept for ``skills``."""
        yield from self._system("SYSTEM.md")
        yield from self._rules()
        yield from self._context_files()
        yield from self._system("APPEND_SYSTEM.md")

    def skills(self) -> Iterator[Skill]:
        """Yield the skills and then the rules on demand, both by name."""
        yield from _by_name(first_of_each_name(self._all_skills()))
        yield from _by_name(self.on_demand)

    def _system(self, name: str) -> Iterator[InstructionFile]:
        """Yield the project's file for the system prompt, otherwise the user's."""
        folder = self._nearest() if name == "SYSTEM.md" else self.place.cwd / OWN
        reason = "customizes the system prompt" if name == "SYSTEM.md" else "added to the system prompt"
        project = [(folder / name, "project")] if folder is not None else []
        for path, scope in [*project, (self.user / name, "user")]:
            if (file := self._read(path, scope)) and file.text:
                yield to_instructions(file, scope, reason)
                return

    def _nearest(self) -> Path | None:
        """Return the nearest folder ``.omp`` with files, from the working directory to the project's root."""
        folders = (folder / OWN for folder in upwards(self.place.cwd, self.root))
        return next((folder for folder in folders if self.reader.names(folder)), None)

    def _context_files(self) -> Iterator[InstructionFile]:
        """Yield one file of the user, and one of each folder, from the outermost: the one of the highest priority."""
        users = [self.user / AGENTS_MD, *(self.place.home / name / AGENTS_MD for name in SHARED)]
        yield from self._first(users, "user")
        for folder in reversed(list(upwards(self.place.cwd))):
            yield from self._first(self._candidates(folder), "project")

    def _candidates(self, folder: Path) -> list[Path]:
        is_cwd, nearest = folder == self.place.cwd, self._nearest()
        found = [nearest / AGENTS_MD] if nearest is not None and nearest.parent == folder else []
        found += [folder / ".claude/CLAUDE.md"] if is_cwd else []
        if self._is_in_project(folder) and folder != self.place.home:
            found += [folder / name / AGENTS_MD for name in SHARED]
        found += [folder / ".gemini/GEMINI.md", folder / ".github/copilot-instructions.md"] if is_cwd else []
        if self._is_searched(folder) and not folder.name.startswith("."):
            found += [folder / AGENTS_MD, folder / "CLAUDE.md"]
        return found

    def _is_in_project(self, folder: Path) -> bool:
        last = self.root or self.place.home
        return folder.is_relative_to(last) or not self.place.cwd.is_relative_to(last)

    def _is_searched(self, folder: Path) -> bool:
        """Return whether a bare AGENTS.md is searched: to the home directory, or else to the root of the project."""
        home, root = self.place.home, self.root
        if root is None:
            return folder.is_relative_to(home) or not self.place.cwd.is_relative_to(home)
        if root != home and root.is_relative_to(home):
            return folder != home and folder.is_relative_to(home)
        return folder.is_relative_to(root)

    def _first(self, paths: list[Path], scope: str) -> Iterator[InstructionFile]:
        for path in paths:
            if (file := self._read(path, scope)) and file.text:
                names = "first context file of " + ("the user" if scope == "user" else "its folder")
                yield to_instructions(file, scope, names, self._expanded(file, scope, (path,), set()))
                return

    def _read(self, path: Path, scope: str) -> ReadFile | None:
        return self.reader.read(path, within=None if scope == "user" else self.place.boundary(path.parent))

    def _expanded(self, file: ReadFile, scope: str, chain: tuple[Path, ...], seen: set[Path]) -> str:
        """Return the text with the imported files in place of ``@path``."""
        seen.add(real(file.path))
        parts, done = [], 0
        for match in _IMPORT.finditer(blank_code(file.text)):
            name = match[1].rstrip(_TRAILING)
            target = self.place.expand(name, file.path.parent)
            if (imported := self._imported(target, scope, chain, seen)) is None:
                continue
            start = match.start(1) - 1
            parts += [file.text[done:start], self._expanded(imported, scope, (*chain, target), seen)]
            done = start + 1 + len(name)
        return "".join([*parts, file.text[done:]])

    def _imported(self, target: Path, scope: str, chain: tuple[Path, ...], seen: set[Path]) -> ReadFile | None:
        if not self.reader.has_file(target) or self.refuse_circle(target, chain):
            return None
        if len(chain) > IMPORTS_DEEP_MAX:
            self.reader.refuse(target, f"imported at a depth of more than {IMPORTS_DEEP_MAX} imports")
        elif scope == "project" and not real(target).is_relative_to(self.root or self.place.cwd):
            self.reader.refuse(target, "an import from outside of the project")
        elif real(target) not in seen:
            return self.reader.read(target)
        return None

    def _rules(self) -> Iterator[InstructionFile]:
        """Yield the rules that apply always, and keep the others. The first rule of a name hides the others."""
        seen: set[str] = set()
        for path, scope, is_sticky in self._rule_paths():
            file = self._read(path, scope)
            if file is None:
                continue
            fields, body = self.reader.split(file)
            name = _rule_name(path, scope, is_sticky)
            if name in seen or fields.get("enabled") is False or not body.strip():
                continue
            seen.add(name)
            if _is_trigger(fields):
                text = "applies when the output matches its condition"
                self.on_demand.append(replace(_skill(file, name, text, body), is_listed=False))
            elif is_sticky or fields.get("alwaysApply") is True:
                yield to_instructions(file, "rule", "rule that applies always", body.strip())
            elif description := text_of(fields.get("description")):
                globs = ", ".join(strings(fields.get("globs")))
                self.on_demand.append(_skill(file, name, f"{description} ({globs})" if globs else description, body))

    def _rule_paths(self) -> Iterator[tuple[Path, str, bool]]:
        """Yield the path and scope of each rule, and whether it is a ``RULES.md``, by descending priority."""
        cwd, home = self.place.cwd, self.place.home
        yield from self._rules_in(cwd / OWN / "rules", "project")
        yield from self._rules_in(self.user / "rules", "user")
        yield self.user / "RULES.md", "user", True
        if nearest := self._nearest():
            yield nearest / "RULES.md", "project", True
        for folder in upwards(cwd, self.root or home):
            for name in SHARED if folder != home else ():
                yield from self._rules_in(folder / name / "rules", "project")
        for name in SHARED:
            yield from self._rules_in(home / name / "rules", "user")
        yield from self._rules_in(cwd / ".cursor/rules", "project")
        yield from self._rules_in(cwd / ".windsurf/rules", "project", (".md",))
        cline = next((each for each in (folder / ".clinerules" for folder in upwards(cwd)) if each.exists()), None)
        if cline is not None and cline.is_dir():
            yield from self._rules_in(cline, "project", (".md",))
        elif cline is not None:
            yield cline, "project", False
        for path in self.reader.walk(cwd / ".github/instructions", within=self.root or cwd):
            if path.name.endswith(".instructions.md"):
                yield path, "project", False

    def _rules_in(
        self, folder: Path, scope: str, suffixes: tuple[str, ...] = (".md", ".mdc")
    ) -> Iterator[tuple[Path, str, bool]]:
        for name in self.reader.names(folder):
            if name.endswith(suffixes) and not name.startswith("."):
                yield folder / name, scope, False

    def _all_skills(self) -> Iterator[Skill]:
        cwd, home = self.place.cwd, self.place.home
        folders = list(upwards(cwd, self.root or home))
        for name in (OWN, ".claude", *SHARED):
            for folder in folders:
                if folder != home or name == OWN:
                    yield from self._skills_in(folder / name / "skills", folder)
            if name == OWN:
                yield from self._skills_in(self.user / "skills", None)
        for name in SHARED:
            yield from self._skills_in(home / name / "skills", None)
        yield from self._skills_in(cwd / ".codex/skills", cwd)
        yield from self._skills_in(cwd / ".opencode/skills", cwd)
        yield from self._skills_in(self.user / "managed-skills", None)

    def _skills_in(self, folder: Path, base: Path | None) -> Iterator[Skill]:
        yield from skills_in(self.reader, folder, within=None if base is None else self.place.boundary(base))


def _by_name(skills: Iterable[Skill]) -> list[Skill]:
    return sorted(skills, key=lambda skill: skill.name)


def _is_trigger(fields: dict[str, Any]) -> bool:
    """Return whether a rule waits for output that matches a pattern."""
    return any(strings(fields.get(name)) for name in ("condition", "astCondition", "ttsr_trigger", "ttsrTrigger"))


def _rule_name(path: Path, scope: str, is_sticky: bool) -> str:
    if is_sticky:
        return "RULES@project" if scope == "project" else "RULES"
    return path.name.removesuffix(path.suffix) if path.suffix in (".md", ".mdc") else path.name.lstrip(".")


def _skill(file: ReadFile, name: str, description: str, body: str) -> Skill:
    return Skill(
        name=name, description=description, path=file.path.as_posix(), digest=file.digest, content=body.strip()
    )
