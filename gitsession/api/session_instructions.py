"""The instructions of a session: record sets of files, and activate skills."""

from __future__ import annotations

import dataclasses

from gitsession.api.opened import Handle
from gitsession.errors import NotFound, require
from gitsession.model.entries import Injection, Instructions
from gitsession.model.instructions import InstructionSet
from gitsession.model.recorded_instructions import recorded_set, to_field
from gitsession.sessions import commit_writer
from gitsession.sessions.content import entry_of
from gitsession.sessions.node import Node, load


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
        current = entry_of(objects, load(objects, newest)) if newest else None
    else:
        current = handle.context_line().instructions
    known = current if isinstance(current, Instructions) else None
    stored = commit_writer.read_back(entry, objects.guard)  # secrets in the recorded files are placeholders
    if isinstance(stored, Instructions) and recorded_set(stored) == recorded_set(known):
        return None
    if handle.is_imported:
        return session.record_instructions(entry)
    return session.append(entry if known is None else dataclasses.replace(known, files=entry.files, at_ms=entry.at_ms))


def activate(handle: Handle, name: str) -> Node:
    """Append the activation of a skill. See ``Session.activate_skill``."""
    require(name, str, "the name of a skill")
    found = recorded_set(handle.context_line().instructions)
    names = [skill.name for skill in found.skills] if found is not None else []
    if name not in names:
        hint = f"choose one of {', '.join(names)}" if names else "record the instructions of the session first"
        raise NotFound(f"cannot activate skill {name[:80]!r}: the session has no such skill", hint=hint)
    return handle.session.append(Injection(rules=[name]))
