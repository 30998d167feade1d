"""Arrangement of answers and results: all calls of an answer are in one message, and their results follow directly.

Every provider requires this order. But some agents store each block of an answer as a separate record, and write a
result as soon as it exists, so that parallel calls and their results are mixed. Other entries between the calls and
their results are moved behind the results.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gitsession.context.call_results import calls_in, match_results
from gitsession.formats import OutgoingEntry
from gitsession.model.entries import BranchSummary, Compaction, CustomMessage, Entry, Message, Prune, Reset
from gitsession.model.results import unfold
from gitsession.model.usage import answer_id


class AnswerPart(NamedTuple):
    """A part of a conversation. ``of``: the exported entry; ``entry``: its content, or a part of its content."""

    of: OutgoingEntry
    entry: Entry


def grouped(pieces: Sequence[AnswerPart], *, by_block: bool, notes: Counter[str] | None = None) -> list[AnswerPart]:
    """Return ``pieces`` with the parts of each answer joined and followed by the results of its calls.

    An assistant message is joined to the one before it in two cases: if both are parts of one answer and nothing is
    between them, or if a result of the earlier message's calls comes after the later message.

    Args:
        pieces: The entries of one branch, oldest first.
        by_block: Whether the agent stores each block of an answer as a separate record.
        notes: A counter for notes about results without a call, which are then omitted, and calls without a result;
            ``None`` to keep all results and to count nothing.
    """
    calls = match_results(entry for _, entry in pieces)
    results: dict[int, list[int]] = {}
    for result, (answer, _) in calls.items():
        results.setdefault(answer, []).append(result)
    group = _Group(pieces, results)
    for at, (_, entry) in enumerate(pieces):
        if isinstance(entry, Message) and entry.role == "tool":
            group.is_adjacent = False
            if at not in calls and notes is None:
                group.deferred.append(pieces[at])
            elif at not in calls and notes is not None:
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
    unanswered = sum(len(calls_in(entry)) for _, entry in group.found) - len(calls)
    if notes is not None and unanswered > 0:
        notes["calls without a result: each agent presents them to its model in its own way"] += unanswered
    return group.found


class _Group:
    """The answer to which the next assistant message can be joined, and the finished parts.

    Attributes:
        found: Finished parts.
        deferred: Parts that will follow the results of the answer.
        is_adjacent: Whether the newest part belongs to the answer.
    """

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
        """Join ``entry`` to the answer if the rules of ``grouped`` permit it. Return whether it was joined."""
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
        """Finish the answer: append it, its results, and then the deferred parts to the finished parts."""
        if self._answer is not None:
            self.found.append(AnswerPart(self._pieces[self._members[0]].of, self._answer))
            result_indexes = sorted(result for member in self._members for result in self._results.get(member, ()))
            self.found += [self._pieces[at] for at in result_indexes]
        self.found += self.deferred
        self._answer, self._members, self.deferred, self.is_adjacent = None, [], [], False


def with_tool_names(entries: Sequence[OutgoingEntry], all_entries: Sequence[OutgoingEntry]) -> list[OutgoingEntry]:
    """Return ``entries`` with the name of the tool in each result, because some agents require it.

    The name is taken from the nearest call with the result's call id above the result. If ``entries`` has no call with
    this id, the name is taken from the last such call in ``all_entries``, which also has the entries that a compaction
    removed.
    """
    name_of_call = {call.id: call.name for each in all_entries for call in calls_in(each.entry)}
    by_key = {each.key: each for each in entries}
    ids = {call.id for each in entries for call in calls_in(each.entry)}
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
        if at is None:
            return None
        name = next((call.name for call in calls_in(at.entry) if call.id == id), None)
        if name:
            return name
        at = by_key.get(at.parent or "")
    return None


def unfolded(entries: Sequence[OutgoingEntry], leaf: str | None) -> tuple[tuple[OutgoingEntry, ...], str | None]:
    """Split entries with several messages (``model.results``) into one entry for each message.

    An entry is not split if its line in the agent's file is exported.

    Returns:
        The entries, and the key of the leaf. The first message of a split entry has the key of that entry. Its children
        are children of the last message.
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
            begun = each.begun if number == len(parts) - 1 else ()
            found.append(dataclasses.replace(each, key=key, parent=parent, entry=part, id=id, short=short, begun=begun))
            name = part.extra.get("part")
            if isinstance(name, str):
                results[name] = key
            parent = key
        ends[each.key] = parent or each.key
    return tuple(found), ends.get(leaf, leaf) if leaf is not None else None
