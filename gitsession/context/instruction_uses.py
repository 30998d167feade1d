"""Uses of paths and skills in a history, which bring rules and skills into force (docs/reference/context.md)."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence

from gitsession.context.call_results import calls_in, match_results
from gitsession.context.history import ContextHistory
from gitsession.context.placements import Placement
from gitsession.context.profiles.visible_items import is_message
from gitsession.context.value import Item, Shown
from gitsession.dataclass import dataclass
from gitsession.git.types import Oid
from gitsession.model.blocks import Text, ToolCall
from gitsession.model.entries import CustomMessage, Entry, Injection, Message
from gitsession.model.instructions import InstructionSet
from gitsession.model.tool_actions import action_of
from gitsession.sessions.indexed_entry import Spot

_INVOKED = "invoked_skills"
"""Type of the attachment in which Claude Code stores the active skills after a compaction."""

_LISTING = frozenset({"glob", "grep", "list", "list_dir", "ls"})
"""Tools that name a folder, and read no file in it."""

_MARKS = (
    *("# AGENTS.md instructions", "<user_instructions>", "<skill>", "<system-reminder>"),
    *("Base directory for this skill", "<command-name>", "<local-command-"),
)
"""Beginnings of user messages in which agents store instructions, and commands with their output."""


@dataclass(frozen=True, slots=True)
class Use:
    """A use of paths or of a skill: the index after it, the paths, the skill with its arguments, and the result."""

    at: int
    paths: tuple[str, ...] = ()
    skill: str = ""
    arguments: str = ""
    result: str = ""


@dataclass(frozen=True, slots=True)
class InstructionUses:
    """The uses in the entries after the last compaction.

    ``after``: these entries, oldest first. ``found``: the recorded set. ``placed``: the agent's own rules.
    """

    line: ContextHistory
    items: Sequence[Item]
    after: Mapping[Oid, Spot]
    found: InstructionSet
    placed: Placement

    def all(self) -> list[Use]:
        """Return the uses in their order."""
        uses = [*self._calls(), *self._mentions(), *self._injected(), *self._attached()]
        return sorted(uses, key=lambda use: use.at)

    def _calls(self) -> Iterator[Use]:
        """Yield the uses of successful calls. A rule follows the results of the whole answer."""
        entries = [item.entry for item in self.items]
        results = {call: at for at, call in match_results(entries).items()}
        for at, item in enumerate(self.items):
            for number, call in enumerate(calls_in(item.entry) if item.oid in self.after else ()):
                result = results.get((at, number))
                if result is None or getattr(entries[result], "is_error", False):
                    continue
                end = result + 1
                while end < len(entries) and is_message(entries[end], "tool"):
                    end += 1
                yield self._use(call, end, "\n".join(texts_of(entries[result])))

    def _use(self, call: ToolCall, at: int, result: str) -> Use:
        arguments = call.arguments if isinstance(call.arguments, dict) else {}
        if call.name.casefold() == "skill":
            named = (arguments.get(name) for name in ("skill", "name", "command"))
            name = next((name for name in named if isinstance(name, str)), "")
            given = arguments.get("args")
            return Use(at, (), name.removeprefix("/"), given if isinstance(given, str) else "", result)
        return Use(at, touched_paths(call, self.found.cwd))

    def _mentions(self) -> Iterator[Use]:
        """Yield the skills that the user activates with a prompt."""
        for at, item in enumerate(self.items):
            if item.oid in self.after and is_prompt(item.entry):
                for text in texts_of(item.entry):
                    yield from (Use(at + 1, skill=name) for name in self.placed.mentioned(text))

    def _injected(self) -> Iterator[Use]:
        """Yield the skills that ``injection`` entries activate, after the items of earlier entries."""
        newer = set(self.after)
        for oid, node in self.after.items():
            newer.discard(oid)
            if node.kind == Injection.kind and self.found.skills:
                entry = self.line.entry(node)
                names = entry.rules if isinstance(entry, Injection) and isinstance(entry.rules, list | tuple) else ()
                older = [at for at, item in enumerate(self.items) if item.oid not in newer]
                place = older[-1] + 1 if older else 0
                yield from (Use(place, skill=name) for name in names if isinstance(name, str))

    def _attached(self) -> Iterator[Use]:
        """Yield the skills that Claude Code itself carried over a compaction, with their content in an attachment."""
        for at, item in enumerate(self.items):
            entry = item.entry
            details = entry.details if isinstance(entry, CustomMessage) and entry.custom_type == _INVOKED else None
            skills = details.get("skills") if isinstance(details, dict) else None
            for skill in skills if isinstance(skills, list) else ():
                name = skill.get("name") if isinstance(skill, dict) else None
                yield from [Use(at + 1, skill=name)] if isinstance(name, str) else []


def touched_paths(call: ToolCall, cwd: str) -> tuple[str, ...]:
    """Return the absolute paths of the files that a call reads or changes. ``cwd``: the base of relative paths."""
    action = action_of(call)
    paths = [path for edit in action.edits for path in (edit.path, edit.moved_to)]
    paths += [action.path] if call.name.casefold() not in _LISTING else []
    return tuple(posixpath.normpath(posixpath.join(cwd, path)) for path in paths if path)


def is_prompt(entry: Shown) -> bool:
    """Return whether an entry is a message that the user wrote."""
    return is_message(entry, "user") and not entry.extra.get("isMeta") and not is_of_agent(entry)


def is_of_agent(entry: Shown) -> bool:
    """Return whether an agent wrote a message that is not an answer: instructions, a reminder, or a hook's text."""
    if isinstance(entry, Message) and entry.role == "user":
        return any(text.startswith(_MARKS) for text in texts_of(entry))
    return isinstance(entry, CustomMessage) or (isinstance(entry, Message) and entry.role in ("system", "developer"))


def texts_of(entry: Shown | Entry) -> list[str]:
    """Return the texts of a message."""
    blocks = entry.content if isinstance(entry, Message | CustomMessage) else ()
    return [block.text for block in blocks if isinstance(block, Text)]
