"""The instructions of a session: record and capture sets of files, and activate skills."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from gitsession.api.opened import Handle
from gitsession.context import profiles
from gitsession.context.call_results import calls_in
from gitsession.context.instruction_uses import touched_paths
from gitsession.errors import NotFound, require
from gitsession.instructions.load import AGENTS, load
from gitsession.model.entries import Injection, Instructions
from gitsession.model.instructions import InstructionSet
from gitsession.model.recorded_instructions import recorded_set, to_field
from gitsession.sessions import commit_writer
from gitsession.sessions import node as nodes
from gitsession.sessions.content import entry_of
from gitsession.sessions.gaps import DAMAGE
from gitsession.sessions.node import Node


def record(handle: Handle, found: InstructionSet, at_ms: int) -> Node | None:
    """Record a set, unless it equals the recorded one. See ``Session.record_instructions``."""
    require(found, InstructionSet, "a set of instructions")
    session, objects = handle.session, handle.opened.objects
    entry = Instructions(files=to_field(found), at_ms=at_ms or session.clock())
    if session.pending_agent:
        if found == handle.pending_set:
            return None
        handle.pending_set = found
        return session.append(entry)
    if handle.is_imported:
        newest = next((oid for _, oid in reversed(handle.recorded_instructions())), None)
        current = entry_of(objects, nodes.load(objects, newest)) if newest else None
    else:
        current = handle.context_line().instructions
    known = current if isinstance(current, Instructions) else None
    stored = commit_writer.read_back(entry, objects.guard)  # secrets in the recorded files are placeholders
    if isinstance(stored, Instructions) and recorded_set(stored) == recorded_set(known):
        return None
    if handle.is_imported:
        return session.record_instructions(entry)
    return session.append(entry if known is None else dataclasses.replace(known, files=entry.files, at_ms=entry.at_ms))


def in_force_beside(handle: Handle, at: Node) -> Instructions | None:
    """Return the instructions in force at an entry if they are not in its history, but beside it on ``meta``.

    If the store is damaged so that they cannot be read, return ``None``: the session can still be forked.
    """
    if not handle.recorded_instructions():
        return None
    line = handle.context_line(at)
    try:
        in_history, found = line.anchors.instructions, line.instructions
        return None if in_history is not None and found == line.entry_at(in_history) else found
    except DAMAGE:
        return None


def inherit(handle: Handle, parent: Handle, agent: str, cwd: str | None) -> None:
    """Record the set in force at the tip of ``parent`` in a new session, if that has the same agent and folder.

    A set is what one agent loads in one folder, so it does not apply to another agent or folder. A set that cannot be
    read because the store is damaged is not inherited.
    """
    if parent.agent != agent:
        return
    try:
        is_stored = not parent.session.pending_agent
        found = recorded_set(parent.context_line().instructions) if is_stored else parent.pending_set
    except DAMAGE:
        return
    if found is not None and found.cwd == cwd:
        record(handle, found, 0)


def capture(handle: Handle, at_ms: int, *, is_start: bool, home: Path, environment: Mapping[str, str]) -> None:
    """Load the instructions of the agent of an imported session, and record them if they have changed.

    Args:
        handle: The session.
        at_ms: The time at which they were noticed, Unix time in ms. The first set is in force from the session's start.
        is_start: Whether the agent started or resumed the session at that time.
        home: The home directory of the user.
        environment: The environment variables, which can contain the paths of agents' folders.
    """
    row = handle.opened.catalogues.get().session(handle.session.id)
    folder = Path(row.project) if row is not None and row.project else None
    if row is None or folder is None or row.agent not in AGENTS or not folder.is_dir():
        return
    items = profiles.profile(handle.profile).select(handle.context_line()).items
    calls = (call for item in items for call in calls_in(item.entry))
    touched = {Path(path) for call in calls for path in touched_paths(call, row.project or "")}
    found = load(row.agent, folder, home=home, environment=environment, touched=sorted(touched))
    is_known = bool(handle.recorded_instructions())
    if is_known or found.files or found.skills:
        record(handle, found, at_ms if is_known or is_start else row.created_ms)


def activate(handle: Handle, name: str) -> Node:
    """Append the activation of a skill. See ``Session.activate_skill``."""
    require(name, str, "the name of a skill")
    found = recorded_set(handle.context_line().instructions)
    names = [skill.name for skill in found.skills] if found is not None else []
    if name not in names:
        hint = f"choose one of {', '.join(names)}" if names else "record the instructions of the session first"
        raise NotFound(f"cannot activate skill {name[:80]!r}: the session has no such skill", hint=hint)
    return handle.session.append(Injection(rules=[name]))
