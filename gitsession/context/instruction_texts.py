"""The texts of recorded instructions in a context: files, rules for paths, and skills.

The rules I1 to I7 are in docs/reference/context.md, "Instructions". The texts depend only on the history.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gitsession.context.call_results import calls_in
from gitsession.context.history import ContextHistory
from gitsession.context.instruction_uses import InstructionUses, Use, is_of_agent, is_prompt, texts_of
from gitsession.context.placements import placement
from gitsession.context.value import InstructionText, Item
from gitsession.git.types import Oid
from gitsession.instructions.scopes import matches_any
from gitsession.model.entries import Compaction, Entry, Instructions, Message, Reset
from gitsession.model.instructions import InstructionFile, InstructionSet, Skill
from gitsession.model.recorded_instructions import recorded_set
from gitsession.sessions.indexed_entry import Spot

SKILLS = "skills"
"""Key of the active skills' names in the field ``preserve`` of gitsession's compactions."""

SKILL_CHARS_MAX, SKILLS_CHARS_MAX = 4 * 5_000, 4 * 25_000
"""Sizes of one and of all active skills after a compaction: 5,000 and 25,000 tokens of four characters (W6)."""


def instruction_texts(
    line: ContextHistory, profile: str, items: Sequence[Item], recorded: Instructions | None
) -> tuple[InstructionText, ...]:
    """Return the texts of the recorded instructions, in the order of their places.

    Args:
        line: The history.
        profile: The name of the profile that selected the items.
        items: The items of the context.
        recorded: The instructions at the end of the history.
    """
    found = recorded_set(recorded)
    return () if found is None else tuple(_Texts(line, profile, items, found, recorded).all())


def active_skills(
    line: ContextHistory, profile: str, items: Sequence[Item], recorded: Instructions | None
) -> tuple[str, ...]:
    """Return the names of the skills that are active at the end of a history, in the order of their activation.

    The arguments are those of ``instruction_texts``.
    """
    found = recorded_set(recorded)
    if found is None or not found.skills:
        return ()
    texts = _Texts(line, profile, items, found, recorded)
    texts.all()
    return tuple(texts.active)


class _Texts:
    """The computation of the texts: the places of the files, and the rules and skills in force."""

    def __init__(
        self,
        line: ContextHistory,
        profile: str,
        items: Sequence[Item],
        found: InstructionSet,
        recorded: Instructions | None,
    ) -> None:
        self.line, self.items, self.found = line, items, found
        self.placed = placement(profile)
        self.after, self.before = _around_compaction(line)
        self.stored = [text for item in items if is_of_agent(item.entry) for text in texts_of(item.entry)]
        if recorded is not None and recorded.system_prompt:
            self.stored.append(recorded.system_prompt)  # omp records the prompt with the content of the files
        self.shown: set[str] = set()
        self.active: dict[str, None] = {}

    def all(self) -> list[InstructionText]:
        files = [file for file in self.found.files if not file.patterns and not self._is_stored(file.content)]
        skills = [skill for skill in self.found.skills if not self._is_stored(f"{skill.name}: {skill.description}")]
        start = self._start()
        opening = self.placed.opening(self.found.cwd, files, skills, self._opening_index(start), self._prompt(start))
        texts = [*opening, *self._carried_skills(start), *self._used()]
        return sorted(texts, key=lambda text: text.at)

    # ---- places

    def _start(self) -> int:
        """Return the index of the first item that is newer than the last compaction; 0 without a compaction."""
        if self.line.anchors.compaction is None:
            return 0
        return next((at for at, item in enumerate(self.items) if item.oid in self.after), len(self.items))

    def _opening_index(self, start: int) -> int:
        """Return the index at which the agent puts its instructions, which codex puts again after a compaction (C6).

        If the compaction interrupted a turn, they are before the last prompt that it kept, or else before the summary.
        """
        if not self.placed.REPEATS or start == 0:
            return 0
        if not _is_unfinished(self.before):
            return start
        compaction = self.line.anchors.compaction
        kept = [at for at in range(start) if self.items[at].oid != compaction and is_prompt(self.items[at].entry)]
        return kept[-1] if kept else 0

    def _prompt(self, start: int) -> int:
        """Return the index after the first prompt from ``start`` on."""
        prompts = (at for at in range(start, len(self.items)) if is_prompt(self.items[at].entry))
        return next(prompts, len(self.items) - 1) + 1

    # ---- rules and skills

    def _used(self) -> Iterator[InstructionText]:
        """Yield the rules and skills that the entries after the last compaction bring into force."""
        for use in InstructionUses(self.line, self.items, self.after, self.found, self.placed).all():
            for file in self.found.files if self.placed.RULES else ():
                if matches_any(file.patterns, use.paths):
                    yield from self._rule(file, use.at)
            for skill in self.found.skills:
                if skill.name == use.skill or matches_any(skill.patterns, use.paths):
                    yield from self._skill(skill, use)

    def _rule(self, file: InstructionFile, at: int) -> Iterator[InstructionText]:
        if file.path not in self.shown and not self._is_stored(file.content):
            self.shown.add(file.path)
            yield self.placed.rule(file, at)

    def _skill(self, skill: Skill, use: Use, chars_max: int | None = None) -> Iterator[InstructionText]:
        content = skill.content.replace("$ARGUMENTS", use.arguments)[:chars_max]
        self.active.setdefault(skill.name)
        is_result = bool(content.strip()) and content.strip() in use.result  # as opencode's tool returns it
        if skill.path not in self.shown and not is_result and not self._is_stored(content):
            self.shown.add(skill.path)
            yield self.placed.skill(skill, content, use.at)

    def _carried_skills(self, start: int) -> Iterator[InstructionText]:
        """Yield the skills that were active at the last compaction. If they are too large, the oldest are dropped."""
        oid = self.line.anchors.compaction
        entry = self.line.entry_at(oid) if oid else None
        preserved = entry.preserve if isinstance(entry, Compaction) and isinstance(entry.preserve, dict) else {}
        names = preserved.get(SKILLS)
        by_name = {skill.name: skill for skill in self.found.skills}
        kept: list[Skill] = []
        size = 0
        for name in reversed(names if isinstance(names, list | tuple) else []):
            skill = by_name.get(name) if isinstance(name, str) else None
            if skill is None:
                continue
            size += min(len(skill.content), SKILL_CHARS_MAX)
            if size > SKILLS_CHARS_MAX:
                break
            kept.append(skill)
        for skill in reversed(kept):
            yield from self._skill(skill, Use(start), SKILL_CHARS_MAX)

    def _is_stored(self, content: str) -> bool:
        """Return whether the agent itself stored a text in the session, so that it must not be added again."""
        text = content.strip()
        return bool(text) and any(text in stored for stored in self.stored)


def _around_compaction(line: ContextHistory) -> tuple[dict[Oid, Spot], Entry | None]:
    """Return the entries after the newest compaction or reset, oldest first, and the last message before it."""
    found: list[Spot] = []
    is_before = False
    for node in line.showable_entries():
        if is_before and node.kind == Message.kind:
            return {node.oid: node for node in reversed(found)}, line.entry(node)
        if node.kind == Reset.kind and isinstance(line.entry(node), Reset):
            break
        is_before |= node.oid == line.anchors.compaction
        found += [] if is_before else [node]
    return {node.oid: node for node in reversed(found)}, None


def _is_unfinished(entry: Entry | None) -> bool:
    """Return whether a turn is not complete after ``entry``, so that the model must continue it."""
    if not isinstance(entry, Message):
        return False
    return entry.role in ("user", "tool") or (entry.role == "assistant" and bool(calls_in(entry)))
