"""The places and the form of recorded instructions in the context of each agent.

The forms were compared with the requests of the released programs (docs/reference/context.md, "Instructions"). The
sentences with which the programs introduce the files are not reproduced.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from xml.sax.saxutils import escape

from gitsession.context.value import InstructionText
from gitsession.model.instructions import InstructionFile, Skill


class Placement:
    """The defaults: files and skills are in the system prompt, as in pi."""

    REPEATS = False
    """True if the agent adds its instructions to the history, and again after a compaction."""

    RULES = True
    """True if files with patterns are in force once a matching path is touched."""

    def opening(
        self, cwd: str, files: Sequence[InstructionFile], skills: Sequence[Skill], at: int, prompt: int
    ) -> Iterator[InstructionText]:
        """Yield the texts of the files that are always in force, and of the list of skills.

        Args:
            cwd: The working directory.
            files: The files without patterns.
            skills: The skills.
            at: Index of the items at which the agent puts its instructions.
            prompt: Index after the first prompt.
        """
        if files:
            yield _text(0, "system", "\n\n".join(self.file(file) for file in files), "files", files)
        if skills:
            yield _text(0, "system", self.skills(skills), "skills", skills)

    def file(self, file: InstructionFile) -> str:
        """Return the text of one file."""
        return f'<project_instructions path="{file.path}">\n{file.content}\n</project_instructions>'

    def skills(self, skills: Sequence[Skill]) -> str:
        """Return the list of skills."""
        rows = (
            f"  <skill>\n    <name>{escape(skill.name)}</name>\n    <description>{escape(skill.description)}"
            f"</description>\n    <location>{escape(skill.path)}</location>\n  </skill>\n"
            for skill in skills
        )
        return f"<available_skills>\n{''.join(rows)}</available_skills>"

    def rule(self, file: InstructionFile, at: int) -> InstructionText:
        """Return the text of a file with patterns, at the index after the results of the calls that touched a path."""
        return _text(at, "user", _reminder(self.file(file)), "rule", [file])

    def skill(self, skill: Skill, content: str, at: int) -> InstructionText:
        """Return the text of an active skill."""
        text = f'<skill name="{skill.name}" location="{skill.path}">\n{content}\n</skill>'
        return _text(at, "user", text, "skill", [skill])

    def mentioned(self, text: str) -> Iterable[str]:
        """Yield the names in a prompt that can be names of skills to activate."""
        return ()


class ClaudePlacement(Placement):
    """Claude Code: a reminder before the first item, also after a compaction, and the skills after the prompt."""

    def opening(
        self, cwd: str, files: Sequence[InstructionFile], skills: Sequence[Skill], at: int, prompt: int
    ) -> Iterator[InstructionText]:
        if files:
            parts = "\n\n".join(f"{_contents(file, f' ({file.scope} instructions)')}" for file in files)
            yield _text(0, "user", _reminder(f"# claudeMd\n{parts}"), "files", files)
        if skills:
            yield _text(prompt, "user", _reminder(self.skills(skills)), "skills", skills)

    def file(self, file: InstructionFile) -> str:
        return _contents(file)

    def skills(self, skills: Sequence[Skill]) -> str:
        return "Skills of the tool Skill:\n\n" + _rows(skills)

    def skill(self, skill: Skill, content: str, at: int) -> InstructionText:
        text = f"Base directory for this skill: {posixpath.dirname(skill.path)}\n\n{content}"
        return _text(at, "user", text, "skill", [skill])


class CodexPlacement(Placement):
    """codex: a developer message with the skills and a user message with the files, in the history."""

    REPEATS = True
    RULES = False

    def opening(
        self, cwd: str, files: Sequence[InstructionFile], skills: Sequence[Skill], at: int, prompt: int
    ) -> Iterator[InstructionText]:
        if skills:
            yield _text(at, "developer", self.skills(skills), "skills", skills)
        user = "".join(file.content.strip() for file in files if file.scope == "user")
        project = "\n\n".join(file.content for file in files if file.scope != "user")
        body = "\n\n--- project-doc ---\n\n".join(part for part in (user, project) if part)
        if files:
            text = f"# AGENTS.md instructions for {cwd}\n\n<INSTRUCTIONS>\n{body}\n</INSTRUCTIONS>"
            yield _text(at, "user", text, "files", files)

    def skills(self, skills: Sequence[Skill]) -> str:
        rows = "\n".join(f"- {skill.name}: {skill.description} (file: {skill.path})" for skill in skills)
        return f"<skills_instructions>\n## Skills\n{rows}\n</skills_instructions>"

    def skill(self, skill: Skill, content: str, at: int) -> InstructionText:
        text = f"<skill>\n<name>{skill.name}</name>\n<path>{skill.path}</path>\n{content}\n</skill>"
        return _text(at, "user", text, "skill", [skill])

    def mentioned(self, text: str) -> Iterable[str]:
        return _MENTION.findall(text)


_MENTION = re.compile(r"\$([A-Za-z0-9][\w:-]*)")


class OldPiPlacement(Placement):
    """pi 0.73."""

    def file(self, file: InstructionFile) -> str:
        return f"## {file.path}\n\n{file.content}"


class OmpPlacement(Placement):
    """omp."""

    def file(self, file: InstructionFile) -> str:
        return f'<file path="{file.path}">\n{file.content}\n</file>'

    def skills(self, skills: Sequence[Skill]) -> str:
        return f"<skills>\n{_rows(skills)}\n</skills>"


class OpencodePlacement(Placement):
    """opencode."""

    def file(self, file: InstructionFile) -> str:
        return f"Instructions from: {file.path}\n{file.content}"


class AiderPlacement(Placement):
    """Aider: the read-only files are a user message before the history, with an answer."""

    RULES = False
    OK = "Ok."

    def opening(
        self, cwd: str, files: Sequence[InstructionFile], skills: Sequence[Skill], at: int, prompt: int
    ) -> Iterator[InstructionText]:
        if files:
            yield _text(0, "user", "\n\n".join(self.file(file) for file in files), "files", files)
            yield InstructionText(at=0, role="assistant", text=self.OK, part="files")

    def file(self, file: InstructionFile) -> str:
        return f"{posixpath.basename(file.path)}\n```\n{file.content}\n```"


_PLACEMENTS: dict[str, Placement] = {
    "aider": AiderPlacement(),
    "claude": ClaudePlacement(),
    "codex": CodexPlacement(),
    "omp": OmpPlacement(),
    "opencode": OpencodePlacement(),
    "pi-0.73": OldPiPlacement(),
}
_DEFAULT = Placement()


def placement(profile: str) -> Placement:
    """Return the places of instructions in the context of a profile."""
    return _PLACEMENTS.get(profile, _DEFAULT)


def _contents(file: InstructionFile, description: str = "") -> str:
    return f"Contents of {file.path}{description}:\n\n{file.content.strip()}"


def _reminder(text: str) -> str:
    return f"<system-reminder>\n{text}\n</system-reminder>"


def _rows(skills: Iterable[Skill]) -> str:
    return "\n".join(f"- {skill.name}: {skill.description}" for skill in skills)


def _text(at: int, role: str, text: str, part: str, of: Sequence[InstructionFile] | Sequence[Skill]) -> InstructionText:
    names = tuple(value.name if isinstance(value, Skill) else value.path for value in of)
    return InstructionText(at=at, role=role, text=text, part=part, names=names)
