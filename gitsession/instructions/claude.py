"""Load the instructions of Claude Code: memory files, rules, auto memory and skills."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from gitsession.dataclass import dataclass
from gitsession.formats import FOLDERS
from gitsession.formats.claude.files import folder_of
from gitsession.instructions.loader import Loader, to_instructions
from gitsession.instructions.markdown_text import blank_code, without_comments
from gitsession.instructions.place import Place, between, real, upwards
from gitsession.instructions.reading import ReadFile, as_json_object, strings, text_of
from gitsession.instructions.scopes import absolute, below, expand_braces, matches
from gitsession.instructions.skills import SKILL_FILE, first_of_each_name, read_skill
from gitsession.model.instructions import InstructionFile, Skill

FILES_DEEP_MAX = 5
"""Largest number of files in a chain of imports, including the file that begins it."""

GLOBS_MAX = 256
"""Largest number of globs in the ``paths`` of one file."""

MEMORY_LINES_MAX = 200
MEMORY_CHARS_MAX = 25_000

_NAMES = ("CLAUDE.md", ".claude/CLAUDE.md")
_LOCAL = "CLAUDE.local.md"
_RULES = ".claude/rules"
_SKILLS = ".claude/skills"
_IMPORT = re.compile(r"(?:^|\s)@((?:[^\s\\]|\\ )+)", re.MULTILINE)
_TRAILING = ".,;:!?)]}\"'"
_IMPORT_START = re.compile(r"\./|~/|/.|[A-Za-z0-9._-]")

_SUFFIXES = """
    .md .txt .text .json .yaml .yml .toml .xml .csv .html .htm .css .scss .sass .less .js .ts .tsx .jsx .mjs .cjs .mts
    .cts .py .pyi .pyw .rb .erb .rake .go .rs .java .kt .kts .scala .c .cpp .cc .cxx .h .hpp .hxx .cs .swift .sh .bash
    .zsh .fish .ps1 .bat .cmd .env .ini .cfg .conf .config .properties .sql .graphql .gql .proto .vue .svelte .astro
    .ejs .hbs .pug .jade .php .pl .pm .lua .r .dart .ex .exs .erl .hrl .clj .cljs .cljc .edn .hs .lhs .elm .ml .mli .f
    .f90 .f95 .for .cmake .make .makefile .gradle .sbt .rst .adoc .asciidoc .org .tex .latex .lock .log .diff .patch
"""
_TEXT_SUFFIXES = frozenset(_SUFFIXES.split())
"""Suffixes of the files that can be imported. A file without a suffix can be imported too."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Origin:
    """The part of the hierarchy to which a file and its imports belong.

    Attributes:
        scope: The scope of the files.
        reason: The rule that selects the files.
        within: The folder that symbolic links must not leave.
        may_import_any: Whether files outside of the working directory can be imported.
    """

    scope: str
    reason: str
    within: Path | None = None
    may_import_any: bool = False


class ClaudeLoader(Loader):
    """A loader of the instructions of Claude Code."""

    AGENT = "claude"

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.user = place.folder(FOLDERS[self.AGENT])
        is_mac = sys.platform == "darwin"
        self.managed = place.root / ("Library/Application Support/ClaudeCode" if is_mac else "etc/claude-code")
        self.settings = self._settings()
        self.is_approved = self._is_approved()
        self.seen: set[Path] = set()
        self.conditional: list[InstructionFile] = []

    def files(self) -> Iterator[InstructionFile]:
        """Yield the files that are always in force, then those of a path: of the user, of folders below, of rules."""
        is_off = self.place.is_set("CLAUDE_CODE_DISABLE_CLAUDE_MDS")
        if not is_off:
            yield from self._managed()
            yield from self._user()
            yield from self._project()
        yield from self._memory()
        if not is_off:
            conditional, self.conditional = self.conditional, []
            yield from (file for file in conditional if file.scope != "rule")
            yield from self._nested()
            yield from (file for file in conditional if file.scope == "rule")

    def skills(self) -> tuple[Skill, ...]:
        """Return the first skill of each name."""
        return first_of_each_name(self._all_skills())

    def _managed(self) -> Iterator[InstructionFile]:
        origin = _Origin(scope="managed", reason="managed policy", may_import_any=self.is_approved)
        yield from self._with_imports(self.managed / "CLAUDE.md", origin)
        policy = self.reader.read(self.managed / "managed-settings.json")
        if policy and (text := text_of(as_json_object(policy).get("claudeMd"))):
            yield to_instructions(policy, origin.scope, "claudeMd of the managed settings", text)
        yield from self._rules(self.managed / _RULES, replace(origin, reason="managed rule"), self.place.cwd)

    def _user(self) -> Iterator[InstructionFile]:
        origin = _Origin(scope="user", reason="user memory", may_import_any=True)
        yield from self._with_imports(self.user / "CLAUDE.md", origin)
        yield from self._rules(self.user / "rules", replace(origin, reason="user rule"), self.place.cwd)

    def _project(self) -> Iterator[InstructionFile]:
        root, main = self.place.git_root, self.place.main_root
        is_inside = root is not None and main is not None and root != main and root.is_relative_to(main)
        for folder in reversed([self.place.cwd, *self.place.cwd.parents][:-1]):
            # A work tree inside of the main one has its own copies of the project's files.
            is_copied = is_inside and folder in (main, *between(main or folder, root or folder)[:-1])
            yield from self._folder(folder, is_local=is_copied)

    def _folder(self, folder: Path, *, is_local: bool = False, nested: bool = False) -> Iterator[InstructionFile]:
        """Yield the files of one folder of the project. ``is_local``: only the local ones."""
        any_import = self.is_approved and not nested
        origin = _Origin(
            scope="project", reason="project memory", within=self.place.boundary(folder), may_import_any=any_import
        )
        if not is_local:
            for name in _NAMES:
                yield from self._with_imports(folder / name, origin)
            if not nested:
                yield from self._rules(folder / _RULES, replace(origin, scope="rule", reason="project rule"), folder)
        yield from self._with_imports(folder / _LOCAL, replace(origin, scope="local", reason="local memory"))
        if nested:
            yield from self._rules(folder / _RULES, replace(origin, scope="rule", reason="project rule"), folder)

    def _nested(self) -> Iterator[InstructionFile]:
        """Yield the files of folders below the working directory, which are in force once a path there is touched."""
        for folder in self._nested_folders():
            scope = below(folder)
            for file in self._folder(folder, nested=True):
                yield replace(file, patterns=scope, reason=f"{file.reason} of a folder below")
            yield from self.conditional
            self.conditional = []

    def _nested_folders(self) -> Iterator[Path]:
        cwd = self.place.cwd
        named = [folder for path in self.place.touched for folder in between(cwd, path.parent)]
        searched = self.reader.folders(cwd) if self.place.nested else ()
        yield from dict.fromkeys([*named, *searched])

    def _rules(self, folder: Path, origin: _Origin, base: Path) -> Iterator[InstructionFile]:
        """Yield the rules that apply always, and keep those with paths."""
        for path in self.reader.walk(folder, within=origin.within, is_sorted=False):  # as the program does
            if path.suffix != ".md":
                continue
            for file in self._with_imports(path, origin):
                if file.patterns:
                    patterns = absolute(file.patterns, base)
                    self.conditional.append(replace(file, patterns=patterns, reason=f"{origin.reason} with paths"))
                else:
                    yield file

    def _memory(self) -> Iterator[InstructionFile]:
        variable = self.place.environment.get("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "")
        if self.place.is_set("CLAUDE_CODE_DISABLE_AUTO_MEMORY") or self.place.is_set("CLAUDE_CODE_SIMPLE"):
            return
        if self.settings.get("autoMemoryEnabled") is False and variable.lower() not in ("0", "false", "no", "off"):
            return
        root = self.place.main_root or self.place.cwd
        default = self.user / "projects" / folder_of(root.as_posix()) / "memory"
        chosen = text_of(self.settings.get("autoMemoryDirectory"))
        file = self.reader.read((self.place.expand(chosen, root) if chosen else default) / "MEMORY.md")
        if file is None or real(file.path) in self.seen:
            return
        _, body = self.reader.split(file)
        text, is_truncated = _cut(without_comments(body))
        if text:
            yield to_instructions(file, "memory", "auto memory", text, is_truncated=is_truncated)

    def _with_imports(self, path: Path, origin: _Origin, chain: tuple[Path, ...] = ()) -> Iterator[InstructionFile]:
        """Yield the file, and after it the files that it imports, at any depth."""
        if self.refuse_circle(path, chain) or real(path) in self.seen or self._is_excluded(path, origin):
            return
        if len(chain) >= FILES_DEEP_MAX:
            self.reader.refuse(path, f"imported at a depth of more than {FILES_DEEP_MAX - 1} imports")
            return
        file = self.reader.read(path, within=None if origin.may_import_any else origin.within)
        if file is None:
            return
        self.seen.add(real(path))
        fields, body = self.reader.split(file)
        text = without_comments(body).strip()
        if not text:
            return
        patterns = self._globs(file.path, fields) if origin.reason.endswith("rule") else ()
        importer = chain[-1].as_posix() if chain else None
        yield to_instructions(file, origin.scope, origin.reason, text, patterns=patterns, imported_by=importer)
        for target in self._imports(file, body):
            if self._may_import(target, origin):
                yield from self._with_imports(target, replace(origin, reason="import"), (*chain, path))

    def _imports(self, file: ReadFile, body: str) -> list[Path]:
        """Return the files that a file imports, each once, and list those that do not exist."""
        base = file.path.parent
        names = dict.fromkeys(_names(blank_code(without_comments(body))))
        targets = {name: self.place.expand(name, base) for name in names}
        exists = {name: self.reader.has_file(target) for name, target in targets.items()}
        missing = [name for name in names if exists[name] is False and _is_path(name)]
        lines = _lines_of_names(file, body) if missing else {}
        for name in missing:
            line = f"line {lines[name]} of " if name in lines else ""
            if not os.path.isdir(targets[name]):
                self.reader.refuse(targets[name], f"does not exist, but {line}{self.place.shown(file.path)} imports it")
        return list(dict.fromkeys(targets[name] for name in names if exists[name]))

    def _globs(self, path: Path, fields: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the globs of ``paths`` in front matter; none if they match every path."""
        found = tuple(islice(_paths(fields.get("paths")), GLOBS_MAX + 1))
        if len(found) > GLOBS_MAX:
            self.reader.refuse(path, f"more than {GLOBS_MAX} globs in `paths`: the others are ignored")
        return () if all(glob == "**" for glob in found) else found[:GLOBS_MAX]

    def _may_import(self, target: Path, origin: _Origin) -> bool:
        if target.suffix and target.suffix.lower() not in _TEXT_SUFFIXES:
            self.reader.refuse(target, "an import of a file that is not text")
            return False
        if not origin.may_import_any and not target.is_relative_to(self.place.cwd):
            self.reader.refuse(target, "an import from outside of the working directory that the user did not approve")
            return False
        return True

    def _is_excluded(self, path: Path, origin: _Origin) -> bool:
        if origin.scope in ("managed", "memory"):
            return False
        return matches(strings(self.settings.get("claudeMdExcludes")), path.as_posix())

    def _settings(self) -> dict[str, Any]:
        """Return the settings about memory. Later files win, and their lists are joined."""
        project = (self.place.git_root or self.place.cwd) / ".claude"
        files = [self.user / "settings.json", project / "settings.json", project / "settings.local.json"]
        found: dict[str, Any] = {}
        excludes: list[str] = []
        for path in [*files, self.managed / "managed-settings.json"]:
            if file := self.reader.read(path):
                settings = as_json_object(file)
                excludes += strings(settings.get("claudeMdExcludes"))
                if path.parent == project:  # a project must not move the memory to a folder of its choice
                    settings.pop("autoMemoryDirectory", None)
                found |= settings
        return found | {"claudeMdExcludes": excludes}

    def _is_approved(self) -> bool:
        """Return whether the user approved imports from outside of the project."""
        folder = self.user if self.place.environment.get(FOLDERS[self.AGENT].variable) else self.place.home
        file = self.reader.read(folder / ".claude.json", uncounted_max=64 * 1024 * 1024)
        projects = as_json_object(file).get("projects")
        root = (self.place.main_root or self.place.cwd).as_posix()
        project = projects.get(root) if isinstance(projects, dict) else None
        return isinstance(project, dict) and project.get("hasClaudeMdExternalIncludesApproved") is True

    def _all_skills(self) -> Iterator[Skill]:
        yield from self._skills_in(self.managed / _SKILLS, None)
        yield from self._skills_in(self.user / "skills", None)
        for folder in upwards(self.place.cwd, self.place.git_root or self.place.cwd):
            yield from self._skills_in(folder / _SKILLS, self.place.boundary(folder))
        for folder in self._nested_folders():
            for skill in self._skills_in(folder / _SKILLS, self.place.boundary(folder)):
                yield replace(skill, patterns=skill.patterns or below(folder))

    def _skills_in(self, folder: Path, within: Path | None) -> Iterator[Skill]:
        for name in self.reader.names(folder):
            found = read_skill(self.reader, folder / name / SKILL_FILE, within=within, needs_description=False)
            if found is not None:
                skill, fields = found
                patterns = absolute(self._globs(Path(skill.path), fields), self.place.cwd)
                description = skill.description or _first_line(skill.content)
                yield replace(skill, name=name, description=description, patterns=patterns)


def _names(text: str) -> Iterator[str]:
    """Yield the names of the files that ``text`` imports, a text without code."""
    for match in _IMPORT.finditer(text):
        name = match[1].partition("#")[0].replace("\\ ", " ")
        if _IMPORT_START.match(name):
            yield name


def _is_path(name: str) -> bool:
    """Return whether a name is rather a path than a mention of a user or of a package, such as ``@types/node``."""
    is_path = name.startswith(("./", "../", "~/", "/"))
    return is_path or Path(name.rstrip(_TRAILING)).suffix.lower() in _TEXT_SUFFIXES


def _lines_of_names(file: ReadFile, body: str) -> dict[str, int]:
    """Return the number of the first line that imports each name. ``body``: the text after the front matter."""
    first = 1 + file.text[: len(file.text) - len(body)].count("\n")
    found: dict[str, int] = {}
    for number, line in enumerate(blank_code(body).split("\n"), first):
        for name in _names(line):
            found.setdefault(name, number)
    return found


def _paths(value: Any) -> Iterator[str]:
    """Yield the globs of ``paths``."""
    for text in strings(value):
        for pattern in _split(text):
            yield from (name for glob in expand_braces(pattern) if (name := glob.removesuffix("/**")))


def _split(text: str) -> list[str]:
    """Split at commas that are not in braces."""
    parts, depth = [""], 0
    for char in text:
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts if part.strip()]


def _cut(text: str) -> tuple[str, bool]:
    """Return the beginning of a memory index that the model receives, and whether something is missing."""
    whole = text.strip()
    cut = "\n".join(whole.split("\n")[:MEMORY_LINES_MAX])
    if len(cut) > MEMORY_CHARS_MAX:
        end = cut.rfind("\n", 0, MEMORY_CHARS_MAX + 1)
        cut = cut[: end if end > 0 else MEMORY_CHARS_MAX]
    return cut, cut != whole


def _first_line(text: str) -> str:
    return next((line.lstrip("# ").strip() for line in text.split("\n") if line.strip()), "")
