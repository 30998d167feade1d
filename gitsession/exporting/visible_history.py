"""Conversion of a session for an agent that builds contexts by other rules than the agent that wrote the session.

Agents build the context from a history by different rules. The rules differ, for example, in context edits, in prunes,
and in shell commands that the user excluded. Some agents record compactions with a list that replaces all earlier
entries. Some agents store each block of an answer separately. The context of the source agent already includes the
effect of its rules. So the entries on the path to the leaf are replaced by their form in this context.

Entries that a compaction or a reset removed from the context are kept before that compaction or reset. Entries on other
branches are kept, too. Among all these entries, the parts of each answer are joined. The context is written in one of
three ways:

1. If no compaction follows the last reset, each entry after the reset is written in its form in the context.
2. If the context consists of a summary, the entries that the compaction kept, and later entries, the compaction is
   written. The kept entries and the later entries are written as in case 1.
3. In all other cases, a reset is written. The context up to the last compaction follows it. The later entries are
   written as in case 1. If the order of the later entries in the context differs from that on the path, the whole
   context is written after the reset.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gitsession.context.profiles import Profile
from gitsession.context.value import Shown
from gitsession.dataclass import dataclass
from gitsession.exporting.answers import AnswerPart, grouped
from gitsession.formats import OutgoingEntry
from gitsession.formats.base.outgoing import describe_kind
from gitsession.model.blocks import Block, ToolCall
from gitsession.model.entries import (
    BranchSummary,
    Compaction,
    ContextEdit,
    Custom,
    CustomMessage,
    Entry,
    Label,
    Message,
    Prune,
    Reset,
)

EARLIER = "What happened before this point in the conversation, in summary:"

_BY_BLOCK = ("codex",)
"""The agents that store each block of an answer as a separate record and do not record which blocks form one answer."""

_KEEP_UNSENT = ("pi", "omp")
"""The agents that store interrupted answers and excluded commands, but send neither to the model."""

_JOINS_RESULTS = ("claude",)
"""The agents that assign a result to the answer above it even if the result is on another branch than the leaf."""

_Placed = tuple[int, Entry]
"""The index of an entry on the path to the leaf, and an item of the context that was made from this entry."""


@dataclass(frozen=True, slots=True)
class VisibleHistory:
    """The result of a conversion.

    Attributes:
        entries: The converted entries.
        leaf: The key of the leaf among them.
        names: For the key of each removed entry, the key of the entry that replaces it in references.
        notes: The numbers of omitted items, by description.
    """

    entries: tuple[OutgoingEntry, ...]
    leaf: str | None
    names: Mapping[str, str]
    notes: Counter[str]


def visible_history(
    entries: Sequence[OutgoingEntry], leaf: str, context: Sequence[tuple[str, Shown]], source: Profile, target: Profile
) -> VisibleHistory:
    """Return ``entries``, with the entries on the path to ``leaf`` replaced by their form in ``context``.

    Args:
        entries: The entries of the session, parents before children.
        leaf: The key of the leaf.
        context: The items of the context at ``leaf``, each with the key of its entry.
        source: The profile by which the context was built.
        target: The profile of the agent that will read the entries.
    """
    path = _path(entries, leaf)
    by_block = source.NAME in _BY_BLOCK
    notes: Counter[str] = Counter()
    at_of = {each.key: at for at, each in enumerate(path)}
    placed = [(at_of[key], entry) for key, entry in context if key in at_of and _is_kept(entry, source, target, notes)]
    start, visible = _arrange(path, placed)
    _count_hidden(path[start:], context, notes)
    history = grouped([AnswerPart(each, each.entry) for each in path[:start]], by_block=by_block)
    active = _linked([*history, *grouped(visible, by_block=by_block, notes=notes)], None)
    ends: dict[str | None, str | None] = {None: None}
    names: dict[str, str] = {}
    _update_references(path, active, ends, names)
    side_branches, omitted_keys = [], set[str | None]()
    for branch in _chains([each for each in entries if each.key not in at_of]):
        if target.NAME in _JOINS_RESULTS and (_is_result(branch[0].entry) or branch[0].parent in omitted_keys):
            omitted_keys.update(each.key for each in branch)
            notes["left out: entries of branches that begin between results"] += len(branch)
            continue
        linked = _linked(
            grouped([AnswerPart(each, each.entry) for each in branch], by_block=by_block), branch[0].parent
        )
        linked[0] = dataclasses.replace(linked[0], parent=ends.get(branch[0].parent))
        _update_references(branch, linked, ends, names)
        side_branches += linked
    found = tuple(_renamed(each, names) for each in _in_order(active, side_branches))
    return VisibleHistory(found, active[-1].key if active else None, names, notes)


def _path(entries: Iterable[OutgoingEntry], leaf: str | None) -> list[OutgoingEntry]:
    """Return the entries from the root to ``leaf``."""
    by_key = {each.key: each for each in entries}
    found: list[OutgoingEntry] = []
    while leaf is not None and leaf in by_key:
        found.append(by_key.pop(leaf))
        leaf = found[-1].parent
    return found[::-1]


def _is_kept(entry: Shown, source: Profile, target: Profile, notes: Counter[str]) -> bool:
    """Return whether ``entry`` is exported; if not, count it in ``notes``.

    An entry is exported if the source agent sends it to the model, or if the target agent stores such entries without
    sending them.
    """
    stores_unsent = target.NAME in _KEEP_UNSENT
    if source.llm_role(entry) is None and not (stores_unsent and target.llm_role(entry) is None):
        notes[_note_for(entry)] += 1
        return False
    if isinstance(entry, Message) and entry.failed and not stores_unsent:
        notes["left out: aborted and failed answers"] += 1
        return False
    return True


def _count_hidden(path: Iterable[OutgoingEntry], context: Sequence[tuple[str, Shown]], notes: Counter[str]) -> None:
    """Count in ``notes`` the entries and the calls of ``path`` that are not in the context."""
    keys = {key for key, _ in context}
    blocks = {repr(block) for _, entry in context for block in _blocks(entry)}
    for each in path:
        if isinstance(each.entry, Message | CustomMessage | BranchSummary) and each.key not in keys:
            hidden = [block for block in _blocks(each.entry) if repr(block) not in blocks]
            if hidden or not _blocks(each.entry):
                notes[_note_for(each.entry)] += 1
                continue
        for block in _blocks(each.entry):
            if isinstance(block, ToolCall) and repr(block) not in blocks:
                notes["left out: calls that are not in the context"] += 1


def _note_for(entry: Entry) -> str:
    what = _CALLED.get(entry.role) if isinstance(entry, Message) else None
    return f"left out: {what or describe_kind(entry)} that are not in the context"


_CALLED = {"shell": "commands", "tool": "tool results", "system": "system messages"}
"""The descriptions of messages in notes, by role."""


def _blocks(entry: Entry) -> tuple[Block, ...]:
    return entry.content if isinstance(entry, Message | CustomMessage) else ()


def _is_result(entry: Entry) -> bool:
    return isinstance(entry, Message) and entry.role == "tool"


# Replacement of entries by their form in the context


def _arrange(path: Sequence[OutgoingEntry], context: Sequence[_Placed]) -> tuple[int, list[AnswerPart]]:
    """Return the index of the entry on ``path`` at which the context begins, and the parts of the context.

    The base of the context is the last compaction or reset on the path.
    """
    base = max((at for at, each in enumerate(path) if isinstance(each.entry, Compaction | Reset)), default=-1)
    if context and isinstance(path[context[0][0]].entry, Custom):
        base = max(base, context[0][0])  # this record of an agent replaces all entries before it
    if base < 0 or isinstance(path[base].entry, Reset):
        start, parts = max(base, 0), _match_in_order(path, context, max(base, 0))
    else:
        start, parts = _match_compaction(path, base, context)
    return (start, parts) if parts is not None else _restart(path, base, context)


def _match_in_order(path: Sequence[OutgoingEntry], context: Sequence[_Placed], start: int) -> list[AnswerPart] | None:
    """Return the parts from ``start`` on (case 1); ``None`` if the order of entries differs from that on ``path``."""
    entries_at: dict[int, list[Entry]] = {}
    before = start
    for at, entry in context:
        if at < before:
            return None
        entries_at.setdefault(at, []).append(entry)
        before = at
    found: list[AnswerPart] = []
    for at, each in enumerate(path[start:], start):
        if at in entries_at:
            found += [AnswerPart(each, entry) for entry in entries_at[at]]
        elif not isinstance(each.entry, _REPLACED_KINDS) or (at == start and isinstance(each.entry, Reset)):
            found.append(AnswerPart(each, each.entry))
    return found


_REPLACED_KINDS = (Message, CustomMessage, BranchSummary, Compaction, ContextEdit, Prune, Reset)
"""The kinds of entries that a model receives or that change the context. Items of the context replace them."""


def _match_compaction(
    path: Sequence[OutgoingEntry], base: int, context: Sequence[_Placed]
) -> tuple[int, list[AnswerPart] | None]:
    """Return the index on ``path`` at which the context begins, and the parts of the context (case 2).

    The parts are ``None`` if case 2 does not apply. ``base``: the index of the compaction.
    """
    entry = path[base].entry
    count = next((n for n, (at, _) in enumerate(context) if at != base), len(context))
    head = [each for _, each in context[:count]]
    summary = next((n for n, each in enumerate(head) if _is_summary(each, entry)), None)
    if not isinstance(entry, Compaction) or summary is None:
        return base, None
    question = head[:summary] if getattr(head[summary], "role", "") == "assistant" else []
    system_messages = [each for each in (*head[:summary], *head[summary + 1 :]) if each not in question]
    if len(question) > 1 or any(not isinstance(each, Message) or each.role != "system" for each in system_messages):
        return base, None
    rest = context[count:]
    start = min((at for at, _ in rest if at < base), default=base)
    kept = [(at, each) for at, each in rest if at < base]
    compaction = dataclasses.replace(entry, first_kept=path[start].key if kept else None)
    replacement = [(base, each) for each in (compaction, *system_messages)]
    return start, _match_in_order(path, [*kept, *replacement, *rest[len(kept) :]], start)


def _is_summary(candidate: Entry, entry: Entry) -> bool:
    """Return whether ``candidate`` is the summary of ``entry``: a compaction, or a message with the same text."""
    if isinstance(candidate, Message) and isinstance(entry, Compaction):
        return candidate.text.strip() == entry.summary.strip() != ""
    return isinstance(candidate, Compaction)


def _restart(path: Sequence[OutgoingEntry], base: int, context: Sequence[_Placed]) -> tuple[int, list[AnswerPart]]:
    """Return the index on ``path`` at which the context begins, and the parts of the context (case 3)."""
    split = next((n for n, (at, _) in enumerate(context) if at > base), len(context))
    after = _match_in_order(path, context[split:], base + 1) if base >= 0 else None
    if after is None:
        base, split, after = len(path) - 1, len(context), []
    of = path[base]
    parts = [AnswerPart(of, _as_message(entry)) for _, entry in context[:split]]
    return base, [AnswerPart(of, Reset(at_ms=of.entry.at_ms)), *parts, *after]


def _as_message(entry: Entry) -> Entry:
    """Return a compaction as a user message with its summary. Return other entries unchanged.

    A compaction would remove the entries before it from the context.
    """
    if isinstance(entry, Compaction):
        return Message.user(f"{EARLIER}\n\n{entry.summary}", at_ms=entry.at_ms)
    return entry


# Keys and parents


def _linked(pieces: Sequence[AnswerPart], parent: str | None) -> list[OutgoingEntry]:
    """Return the parts as entries, each a child of the previous one. ``parent``: the key of the first one's parent.

    The first part of an exported entry keeps the key of that entry.
    """
    counts: Counter[str] = Counter()
    found: list[OutgoingEntry] = []
    for of, entry in pieces:
        number = counts[of.key]
        counts[of.key] += 1
        each = dataclasses.replace(of, entry=entry, parent=parent)
        found.append(dataclasses.replace(each, key=f"{of.key}+{number}", id=None, short="") if number else each)
        parent = found[-1].key
    return found


def _update_references(
    chain: Sequence[OutgoingEntry],
    linked: Sequence[OutgoingEntry],
    ends: dict[str | None, str | None],
    names: dict[str, str],
) -> None:
    """Update ``ends`` and ``names`` for the entries of ``chain``, which are replaced by ``linked``.

    ``ends`` gets the key of the new parent of each entry's children. ``names`` gets the replacement of each removed
    entry in references: the next entry of ``chain`` that is in ``linked``, otherwise the last entry of ``linked``.
    """
    linked_keys = {each.key for each in linked}
    last = {each.key.partition("+")[0]: each.key for each in linked}
    end = ends.get(chain[0].parent) if chain else None
    for each in chain:
        end = ends[each.key] = last.get(each.key, end)
    name = linked[-1].key if linked else None
    for each in reversed(chain):
        name = each.key if each.key in linked_keys else name
        if name is not None and name != each.key:
            names[each.key] = name


def _chains(entries: Sequence[OutgoingEntry]) -> Iterator[list[OutgoingEntry]]:
    """Divide ``entries`` into chains that do not branch, parents before children."""
    children = Counter(each.parent for each in entries)
    chains: dict[str, list[OutgoingEntry]] = {}
    for each in entries:
        chain = chains.get(each.parent or "") if children[each.parent] == 1 else None
        if chain is None:
            chain = chains[each.key] = []
        chain.append(each)
        chains[each.key] = chain
    yield from {id(chain): chain for chain in chains.values()}.values()


def _renamed(each: OutgoingEntry, names: Mapping[str, str]) -> OutgoingEntry:
    entry = each.entry
    match entry:
        case Compaction(first_kept=str(key)) if key in names:
            entry = dataclasses.replace(entry, first_kept=names[key])
        case BranchSummary(left=str(key)) if key in names:
            entry = dataclasses.replace(entry, left=names[key])
        case Label() | ContextEdit() if entry.target in names:
            entry = dataclasses.replace(entry, target=names[entry.target])
    return dataclasses.replace(each, entry=entry)


def _in_order(active: Iterable[OutgoingEntry], side_branches: Iterable[OutgoingEntry]) -> Iterator[OutgoingEntry]:
    """Yield all entries, parents before children. Where branches separate, the entries of ``active`` come last."""
    children: dict[str | None, list[OutgoingEntry]] = {}
    for each in side_branches:
        children.setdefault(each.parent, []).append(each)
    stack: list[OutgoingEntry] = []
    for at in (None, *active):
        if at is not None:
            yield at
        stack += reversed(children.pop(at.key if at is not None else None, []))
        while stack:
            each = stack.pop()
            yield each
            stack += reversed(children.pop(each.key, []))
