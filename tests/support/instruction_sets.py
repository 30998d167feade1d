"""Sets of instructions, built by hand as the loaders return them."""

from __future__ import annotations

from typing import Any

from gitsession.codec.digest import hash_of
from gitsession.model.instructions import InstructionFile, InstructionSet, Skill

WORK = "/work"


def file(path: str, content: str, scope: str = "project", **fields: Any) -> InstructionFile:
    digest = hash_of(content.encode()).hex()
    return InstructionFile(path=path, scope=scope, content=content, digest=digest, **fields)


def skill(name: str, content: str = "", **fields: Any) -> Skill:
    path, body = f"{WORK}/.claude/skills/{name}/SKILL.md", content or f"body of {name}"
    described = f"about {name}"
    return Skill(
        name=name, description=described, path=path, digest=hash_of(body.encode()).hex(), content=body, **fields
    )


def made(agent: str, *parts: InstructionFile | Skill, cwd: str = WORK) -> InstructionSet:
    """Return the set of ``parts`` of an agent."""
    return InstructionSet(
        agent=agent,
        cwd=cwd,
        files=tuple(part for part in parts if isinstance(part, InstructionFile)),
        skills=tuple(part for part in parts if isinstance(part, Skill)),
    )


USER = file("/home/me/.claude/CLAUDE.md", "Be brief.\n", "user", reason="user instructions")
PROJECT = file("/work/CLAUDE.md", "Use tabs.\n", reason="project instructions")
PYTHON = file("/work/.claude/rules/py.md", "Type everything.\n", "rule", patterns=("/work/src/**/*.py",))
