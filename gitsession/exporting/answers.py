"""Grouping of answers with their calls and results, because every provider requires this order.

Some agents store each block of an answer as a separate record and write a result as soon as it exists. So parallel
calls and their results can be in any order. This module joins the calls of an answer into one message. The results
follow this message, and then the other entries that were between the calls and the results.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gitsession.formats import OutgoingEntry
from gitsession.model.blocks import ToolCall
from gitsession.model.entries import BranchSummary, Compaction, CustomMessage, Entry, Message, Prune, Reset
from gitsession.model.results import unfold
from gitsession.model.usage import answer_id


class AnswerPart(NamedTuple):
    """A part of a conversation. ``of``: the original entry; ``entry``: the converted entry."""

    of: OutgoingEntry
    entry: Entry


def grouped(pieces: Sequence[AnswerPart], *, by_block: bool, notes: Counter[str] | None = None) -> list[AnswerPart]:
    """Return ``pieces``, the entries of one branch, with the parts of each answer joined and followed by its results.

    An answer is joined to the previous answer if it directly follows the previous answer and is a part of it, or if a
    result of one of the previous answer's calls is still missing. A result belongs to the newest call with the result's
    call id that has no result yet. If ``notes`` is given, a result without a call is omitted.

    Args:
        by_block: whether the agent stores each block of an answer as a separate record.
        notes: a counter to which notes about results without a call and calls without a result are added.
    """
    results = _results(pieces)
    answered = {at for found in results.values() for at in found}
    group = _Group(pieces, results)
    for at, (_, entry) in enumerate(pieces):
        if isinstance(entry, Message) and entry.role == "tool":
            group.is_adjacent = False
            if at not in answered and notes is None:
                group.deferred.append(pieces[at])
            elif at not in answered and notes is not None:
                notes["left out: results whose call is not in the history"] += 1
        elif isinstance(entry, Message) and entry.role == "assistant":
            if not group.try_join(at, entry, by_block):
                group.close()
                group.open(at, entry)
        elif isinstance(entry, Message | CustomMessage | BranchSummary | Compaction | Reset):
            group.close()
            group.found.append(pieces[at])
        else:
            group.deferred.append(pieces[at])
    group.close()
    calls = sum(isinstance(block, ToolCall) for _, entry in group.found for block in getattr(entry, "content", ()))
    if notes is not None and calls > len(answered):
        notes["calls without a result: each agent presents them to its model in its own way"] += calls - len(answered)
    return group.found


class _Group:
    """The open answer, to which later answers are joined, and the finished parts."""

    def __init__(self, pieces: Sequence[AnswerPart], results: dict[int, list[int]]) -> None:
        self.found: list[AnswerPart] = []
        self.deferred: list[AnswerPart] = []
        self.is_adjacent = False
        self._pieces, self._results = pieces, results
        self._answer: Message | None = None
        self._members: list[int] = []

    def open(self, at: int, entry: Message) -> None:
        self._answer, self._members, self.is_adjacent = entry, [at], True

    def try_join(self, at: int, entry: Message, by_block: bool) -> bool:
        """Join ``entry`` to the open answer if both are parts of one answer. Return whether they were joined."""
        answer = self._answer
        if answer is None:
            return False
        is_waiting = any(result > at for member in self._members for result in self._results.get(member, ()))
        is_same = by_block or (answer_id(answer.extra) != "" and answer_id(answer.extra) == answer_id(entry.extra))
        is_same_model = (answer.provider, answer.model) == (entry.provider, entry.model)
        if not is_waiting and not (self.is_adjacent and is_same and is_same_model):
            return False
        content, usage = answer.content + entry.content, entry.usage or answer.usage
        self._answer = dataclasses.replace(answer, content=content, usage=usage, stop=entry.stop, error=entry.error)
        self._members.append(at)
        self.is_adjacent = True
        return True

    def close(self) -> None:
        """Append the open answer, its results, and then the other entries between them to the finished parts."""
        if self._answer is not None:
            self.found.append(AnswerPart(self._pieces[self._members[0]].of, self._answer))
            result_indexes = sorted(result for member in self._members for result in self._results.get(member, ()))
            self.found += [self._pieces[at] for at in result_indexes]
        self.found += self.deferred
        self._answer, self._members, self.deferred, self.is_adjacent = None, [], [], False


def _results(pieces: Sequence[AnswerPart]) -> dict[int, list[int]]:
    """Return the indexes of the results of each answer, by the index of the answer."""
    waiting: dict[str | None, list[int]] = {}
    found: dict[int, list[int]] = {}
    for at, (_, entry) in enumerate(pieces):
        if not isinstance(entry, Message):
            continue
        for block in entry.content if entry.role == "assistant" else ():
            if isinstance(block, ToolCall):
                waiting.setdefault(block.id, []).append(at)
        if entry.role == "tool" and waiting.get(entry.tool_call_id):
            found.setdefault(waiting[entry.tool_call_id].pop(), []).append(at)
    return found


def with_tool_names(entries: Sequence[OutgoingEntry], all_entries: Sequence[OutgoingEntry]) -> list[OutgoingEntry]:
    """Return ``entries`` with the tool name in each result. Some agents require the name, and others do not write it.

    The name is that of the nearest call above the result that has the result's call id. If ``entries`` has no call with
    this id, the name is that of the last such call in ``all_entries``, which includes entries that a compaction
    removed.
    """
    name_of_call = {call.id: call.name for each in all_entries for call in _calls(each)}
    by_key = {each.key: each for each in entries}
    ids = {call.id for each in entries for call in _calls(each)}
    found = []
    for each in entries:
        entry = each.entry
        if each.line is None and isinstance(entry, Message) and entry.role == "tool" and not entry.tool_name:
            id = entry.tool_call_id or ""
            name = _nearest_call(each, id, by_key) if id in ids else name_of_call.get(id)
            each = dataclasses.replace(each, entry=dataclasses.replace(entry, tool_name=name or entry.tool_name))
        found.append(each)
    return found


def _nearest_call(outgoing: OutgoingEntry, id: str, by_key: Mapping[str, OutgoingEntry]) -> str | None:
    """Return the tool name in the nearest call with the id ``id`` above ``outgoing``. A cycle is followed once."""
    at = by_key.get(outgoing.parent or "")
    for _ in by_key:
        name = next((call.name for call in _calls(at) if call.id == id), None) if at is not None else None
        if at is None or name:
            return name
        at = by_key.get(at.parent or "")
    return None


def _calls(outgoing: OutgoingEntry) -> list[ToolCall]:
    entry = outgoing.entry
    return [block for block in entry.content if isinstance(block, ToolCall)] if isinstance(entry, Message) else []


def unfolded(entries: Sequence[OutgoingEntry], leaf: str | None) -> tuple[tuple[OutgoingEntry, ...], str | None]:
    """Return ``entries``, split so that each message is one entry (``model.results``), and the key of the leaf.

    A reference to a split entry refers to the first message of that entry. An entry is not split if the agent's own
    line for it is exported.
    """
    found: list[OutgoingEntry] = []
    ends: dict[str, str] = {}
    results: dict[str, str] = {}  # the agent's id for a result -> its key
    for each in entries:
        parent = ends.get(each.parent, each.parent) if each.parent is not None else None
        each = dataclasses.replace(each, parent=parent)
        parts = unfold(each.entry) if isinstance(each.entry, Message) and each.line is None else ()
        if isinstance(each.entry, Prune) and each.line is None:
            targets = tuple(results.get(target, target) for target in each.entry.targets)
            each = dataclasses.replace(each, entry=dataclasses.replace(each.entry, targets=targets))
        if len(parts) < 2:
            found.append(each)
            continue
        parent = each.parent
        for number, part in enumerate(parts):
            # "/" is not used, because it separates the parts from which ids are derived
            key = f"{each.key}+{number}" if number else each.key
            id, short = (each.id, each.short) if not number else (None, "")
            found.append(dataclasses.replace(each, key=key, parent=parent, entry=part, id=id, short=short))
            name = part.extra.get("part")
            if isinstance(name, str):
                results[name] = key
            parent = key
        ends[each.key] = parent or each.key
    return tuple(found), ends.get(leaf, leaf) if leaf is not None else None
