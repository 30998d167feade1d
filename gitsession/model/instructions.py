"""Instructions of agents as plain values: the files, memory and skills that a model receives beside a conversation."""

from __future__ import annotations

from gitsession.dataclass import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class InstructionFile:
    """A file of instructions.

    Attributes:
        path: The absolute path of the file, with ``/``.
        scope: The origin of the file: ``managed``, ``user``, ``project``, ``local``, ``rule``, ``memory`` or
            ``convention``.
        content: The text that the model receives: without front matter, and cut to the agent's limit.
        digest: The BLAKE3 digest of the file's bytes, in hexadecimal.
        patterns: Globs of the absolute paths to which the file applies (``instructions.scopes``). If there are none,
            the file is always in force.
        imported_by: The path of the file that imports this file.
        reason: The rule of the agent that selects the file, as one phrase.
        is_truncated: Whether ``content`` is only the beginning of the file.
    """

    path: str
    scope: str
    content: str
    digest: str
    patterns: tuple[str, ...] = ()
    imported_by: str | None = None
    reason: str = ""
    is_truncated: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Skill:
    """A skill: instructions that are listed by name, and that the model receives once the skill is activated.

    Attributes:
        name: The name by which the skill is activated.
        description: The description that the model always receives.
        path: The absolute path of the skill's file, with ``/``.
        digest: The BLAKE3 digest of the file's bytes, in hexadecimal.
        content: The text that the model receives once the skill is activated.
        patterns: Globs of the absolute paths that activate the skill.
        is_listed: Whether the model receives the description. If not, only the user can activate the skill.
    """

    name: str
    description: str
    path: str
    digest: str
    content: str = ""
    patterns: tuple[str, ...] = ()
    is_listed: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class InstructionSet:
    """The instructions of one agent in one folder.

    Attributes:
        agent: The agent whose rules were applied.
        cwd: The working directory, absolute.
        files: The files in the order in which the model receives them.
        skills: The available skills.
        problems: The files that were refused, each with the reason.
    """

    agent: str
    cwd: str
    files: tuple[InstructionFile, ...] = ()
    skills: tuple[Skill, ...] = ()
    problems: tuple[tuple[str, str], ...] = ()
