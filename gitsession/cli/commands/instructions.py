"""The command ``gitsession instructions``, which shows the instructions and skills of an agent."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from gitsession.cli.invocation import App, split
from gitsession.cli.options import command, option
from gitsession.cli.output import current_folder, emit, json_option, paged
from gitsession.cli.text import paint, width
from gitsession.context.estimates import by_bytes_of
from gitsession.errors import NotAStore, NotFound, Unavailable
from gitsession.instructions.load import AGENTS, load
from gitsession.instructions.scopes import applies, in_force
from gitsession.line_text import count, on_a_line, pad, shorten
from gitsession.model.instructions import InstructionFile, InstructionSet, Skill


@command(
    epilog="""\b
Examples:
  gitsession instructions --agent claude        show what Claude Code loads in this folder
  gitsession instructions --touch src/app.ts    also show the rules for this file
  gitsession instructions @@leaf~3              show what was in force at an entry"""
)
@click.argument("session", metavar="[SESSION[@ENTRY]]", required=False)
@option("--agent", type=click.Choice(AGENTS), help="Apply the rules of this agent. Default: the session's own agent.")
@option(
    "--touch",
    "touched",
    multiple=True,
    metavar="PATH",
    help="Also apply the rules for this path, as if the agent had read it. Can be repeated.",
)
@json_option
@click.pass_obj
def instructions_command(app: App, session: str | None, agent: str | None, touched: tuple[str, ...]) -> None:
    """Show the files and skills of instructions that are in force, and why.

    Without SESSION, show those of the current folder. If the session recorded instructions, show the recorded ones.
    """
    found, is_recorded = _find(app, session, agent, touched)
    paths = [str(Path(found.cwd) / path) for path in touched]
    active = in_force(found, paths)
    emit("instructions", _document(found, active, is_recorded))
    paged(_lines(found, active, paths, is_recorded))


def _find(app: App, session: str | None, agent: str | None, touched: Sequence[str]) -> tuple[InstructionSet, bool]:
    """Return the instructions, and whether they were recorded."""
    if session is None:
        folder = current_folder()
        if not folder:
            raise Unavailable("cannot load instructions: the working directory was deleted")
        return _load(agent or _agent_here(app), folder, touched), False
    row, _ = app.row(session)
    opened, node = app.entry(session)
    kept = opened.instructions(node)
    if kept is not None and agent in (None, row.agent):
        return kept, True
    if split(session)[1]:
        hint = f"run `gitsession instructions {split(session)[0]}` to load those of today"
        raise NotFound(f"cannot show the instructions at '{session}': the session recorded none", hint=hint)
    if not row.project or not os.path.isdir(row.project):
        named = agent or (row.agent if row.agent in AGENTS else "AGENT")
        hint = f"run `gitsession instructions --agent {named}` in the folder of the project"
        folder = f"its folder '{row.project}' is not on this machine" if row.project else "it has no folder"
        raise NotFound(f"cannot load the instructions of '{session}': {folder}", hint=hint)
    return _load(agent or row.agent, row.project, touched), False


def _agent_here(app: App) -> str:
    """Return the agent of the newest session of the current folder."""
    try:
        return app.row("@")[0].agent
    except (NotAStore, NotFound) as error:
        hint = f"pass --agent with one of {', '.join(AGENTS)}, or an id that `gitsession ls` prints"
        raise NotFound(str(error), hint=hint) from None


def _load(agent: str, folder: str, touched: Sequence[str]) -> InstructionSet:
    paths = [Path(path) for path in touched]
    return load(agent, Path(folder), home=Path.home(), environment=os.environ, touched=paths, nested=True)


def _document(found: InstructionSet, active: Sequence[InstructionFile], is_recorded: bool) -> dict[str, Any]:
    return {
        "agent": found.agent,
        "cwd": found.cwd,
        "recorded": is_recorded,
        "tokens": sum(by_bytes_of(file.content) for file in active),
        "files": [
            {
                "path": file.path,
                "scope": file.scope,
                "in_force": file in active,
                "reason": file.reason,
                "patterns": list(file.patterns),
                "imported_by": file.imported_by,
                "bytes": len(file.content.encode()),
                "tokens": by_bytes_of(file.content),
                "truncated": file.is_truncated,
                "digest": file.digest,
            }
            for file in found.files
        ],
        "skills": [
            {
                "name": skill.name,
                "description": skill.description,
                "path": skill.path,
                "listed": skill.is_listed,
                "patterns": list(skill.patterns),
                "digest": skill.digest,
            }
            for skill in found.skills
        ],
        "problems": [{"path": path, "reason": reason} for path, reason in found.problems],
    }


def _lines(
    found: InstructionSet, active: Sequence[InstructionFile], paths: Sequence[str], is_recorded: bool
) -> Iterator[str]:
    tokens = sum(by_bytes_of(file.content) for file in active)
    origin = "recorded by" if is_recorded else "for"
    what = f"{count(len(active), 'file')} in force {origin} {found.agent} in {_shown(found.cwd, '')}"
    yield paint(f"{what}, about {count(tokens, 'token')}", bold=True)
    yield from (_file_line(file, found) for file in active)
    waiting = [file for file in found.files if file not in active]
    if waiting:
        yield from ("", paint("not in force until a path matches", bold=True))
        yield from (_waiting_line(file, found) for file in waiting)
    if found.skills:
        yield from ("", paint("skills", bold=True))
        yield from (_skill_line(skill, found, paths) for skill in found.skills)
    if found.problems:
        yield from ("", paint("not loaded", bold=True))
        yield from (f"  {_shown(path, found.cwd)}: {on_a_line(reason)}" for path, reason in found.problems)


def _file_line(file: InstructionFile, found: InstructionSet) -> str:
    indent = "  " * (1 + _depth(file, found))
    size = f"{len(file.content.encode()):,} bytes, ~{count(by_bytes_of(file.content), 'token')}"
    truncated = ", truncated" if file.is_truncated else ""
    return (
        f"{indent}{pad(file.scope, 10)} {_shown(file.path, found.cwd)}  ({on_a_line(file.reason)}; {size}{truncated})"
    )


def _depth(file: InstructionFile, found: InstructionSet) -> int:
    """Return the number of imports that lead to a file."""
    importers = {each.path: each.imported_by for each in found.files}
    depth, path = 0, file.imported_by
    while path is not None and depth < len(importers):
        depth, path = depth + 1, importers.get(path)
    return depth


def _waiting_line(file: InstructionFile, found: InstructionSet) -> str:
    patterns = ", ".join(_shown(pattern, found.cwd) for pattern in file.patterns)
    return f"  {pad(file.scope, 10)} {_shown(file.path, found.cwd)}  ({on_a_line(file.reason)}: {patterns})"


def _skill_line(skill: Skill, found: InstructionSet, paths: Sequence[str]) -> str:
    if not skill.is_listed:
        state = "  (not listed: only you can activate it)"
    elif not applies(skill.patterns, paths):
        state = f"  (when a path matches {', '.join(_shown(pattern, found.cwd) for pattern in skill.patterns)})"
    else:
        state = ""
    return "  " + shorten(f"{skill.name}: {skill.description}", max(width() - len(state) - 2, 20)) + state


def _shown(path: str, cwd: str) -> str:
    """Return a path or glob on one line: relative to ``cwd`` or to the home directory, if it is below."""
    sign = "!" if path.startswith("!") else ""
    text = path.removeprefix("!")
    for folder, short in ((cwd, ""), (str(Path.home()), "~/")):
        if folder and text.startswith(f"{folder}/"):
            return sign + on_a_line(short + text[len(folder) + 1 :])
    return sign + on_a_line(text)
