"""The items that a context shows for entries, and the part of a history that is visible in a context."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

from gitsession.context.history import ContextHistory, names_of
from gitsession.context.rewriting import cleared, edited
from gitsession.context.value import Item, State
from gitsession.dataclass import dataclass
from gitsession.formats import FORMATS
from gitsession.model.blocks import Text
from gitsession.model.entries import (
    SYSTEM,
    BranchSummary,
    Compaction,
    ContextEdit,
    CustomMessage,
    Entry,
    Message,
    Opaque,
    Prune,
    Reset,
    ToolsChange,
)
from gitsession.model.results import unfold
from gitsession.sessions.indexed_entry import Spot
from gitsession.sessions.node import Node


def show(line: ContextHistory, node: Spot) -> list[Item]:
    """Return the items that ``node`` shows. Its payload is read only if its kind can show items."""
    kind = _SHOWN.get(node.kind)
    entry = line.entry(node) if kind else None
    if kind is None or not isinstance(entry, kind) or (isinstance(entry, BranchSummary) and not entry.summary):
        return []
    parts = unfold(entry) if isinstance(entry, Message) else ()
    return [Item(node.oid, part) for part in parts] if len(parts) > 1 else [_item(line, node, entry)]


_SHOWN = {kind.kind: kind for kind in (Message, CustomMessage, BranchSummary)}
"""The types of entries that show items, except for compactions."""


def show_sent(line: ContextHistory, node: Spot) -> list[Item]:
    """Return the items of ``node`` without shell commands that the user excluded. Only pi and omp include these."""
    return [item for item in show(line, node) if not (isinstance(item.entry, Message) and item.entry.is_excluded)]


def show_compaction(line: ContextHistory, node: Spot, *, system: bool) -> list[Item]:
    """Return the item with the summary of a compaction.

    ``system``: whether to return the system messages that the compaction kept before this item (rule 11).
    """
    entry = line.entry(node)
    assert isinstance(entry, Compaction)
    items = [_item(line, node, entry)]
    if node.source is None:
        return [*(Item(node.oid, message) for message in kept_system(entry)), *items] if system else items
    kept = entry.extra.get("systemMessage")
    if system and isinstance(kept, dict):
        payload = json.dumps({"type": "message", "message": kept}).encode()
        message = FORMATS[node.source.agent].read(payload)
        if isinstance(message, Message):
            items.insert(0, Item(node.oid, message, node.source.agent, payload))
    return items


def is_message(entry: Entry, role: str) -> TypeGuard[Message]:
    return isinstance(entry, Message) and entry.role == role


def keep_system(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Return system messages in the format in which gitsession's compactions store them in ``preserve``."""
    return [{"text": message.text, **({"extra": dict(message.extra)} if message.extra else {})} for message in messages]


def kept_system(entry: Compaction) -> list[Message]:
    """Return the messages that ``keep_system`` stored. Malformed values are ignored."""
    preserved = entry.preserve.get(SYSTEM) if isinstance(entry.preserve, Mapping) else None
    found = []
    for kept in preserved if isinstance(preserved, list | tuple) else ():
        if isinstance(kept, Mapping) and isinstance(kept.get("text"), str):
            extra = kept.get("extra")
            content, fields = (Text(kept["text"]),), dict(extra) if isinstance(extra, Mapping) else {}
            found.append(Message(role="system", content=content, at_ms=entry.at_ms, extra=fields))
    return found


def _item(line: ContextHistory, node: Spot, entry: Any) -> Item:
    if node.source is None:
        return Item(node.oid, entry)
    return Item(node.oid, entry, node.source.agent, line.payload(node))


# Effects of entries on the items of other entries.


@dataclass(frozen=True, slots=True)
class Changes:
    """The effects of visible entries on other visible entries. ``newest``: newest entry with an effect."""

    edits: Mapping[str, ContextEdit]
    prunes: frozenset[str]
    newest: Spot | None


def changes(line: ContextHistory, nodes: Iterable[Spot], *, edits: bool) -> Changes:
    """Return the edits and prunes among ``nodes``, which are oldest first.

    If an entry was edited several times, the last edit applies (rule 11 in docs/reference/context.md).
    """
    by_target: dict[str, ContextEdit] = {}
    pruned: set[str] = set()
    newest = None
    for node in nodes:
        if node.kind not in (ContextEdit.kind, Prune.kind):
            continue
        entry = line.entry(node)
        if isinstance(entry, ContextEdit) and edits:
            by_target[entry.target] = entry
            newest = node
        elif isinstance(entry, Prune):
            pruned.update(entry.targets)
            newest = node
    return Changes(by_target, frozenset(pruned), newest)


def changed(items: list[Item], node: Spot, how: Changes) -> list[Item]:
    """Return ``items``, the items of ``node``, with the edits and prunes in ``how`` applied."""
    if how.newest is None:
        return items
    called = names_of(node)
    edit = next((how.edits[name] for name in called if name in how.edits), None)
    if edit is not None:
        items = _edited(items, edit.replacement)
    if not how.prunes.isdisjoint(called):
        items = [cleared(item) for item in items]
    return [cleared(item) if part_of(item) in how.prunes else item for item in items]


def part_of(item: Item) -> object:
    """Return the agent's name for a result in an entry with several results (see ``model.results``)."""
    return item.entry.extra.get("part")


def _edited(items: list[Item], replacement: Any) -> list[Item]:
    """Return ``items`` with an edit applied. ``None`` removes the items. An invalid ``replacement`` is ignored."""
    if replacement is None:
        return []
    return [edited(item, replacement.get("content")) for item in items] if isinstance(replacement, Mapping) else items


# The visible range. It begins with the newest compaction and the entries that it kept, the newest reset, or the root.


@dataclass(frozen=True, slots=True)
class VisibleRange:
    """The visible part of a history, oldest first: entries ``kept`` by ``compaction``, and entries ``after`` it."""

    compaction: Spot | None
    kept: list[Node]
    after: list[Spot]


def reach(line: ContextHistory) -> VisibleRange:
    """Return the visible range, which begins at the newest compaction or reset (rules 8 to 10, and 13)."""
    after: list[Spot] = []
    for node in line.showable_entries():
        if node.kind == Reset.kind and isinstance(line.entry(node), Reset):
            return VisibleRange(None, [], after[::-1])
        if node.kind == Compaction.kind:
            entry = line.entry(node)
            if isinstance(entry, Compaction):
                return VisibleRange(node, kept(line, node, entry), after[::-1])
        after.append(node)
    return VisibleRange(None, [], after[::-1])


def kept(line: ContextHistory, at: Spot, compaction: Compaction) -> list[Node]:
    """Return the nodes from the first kept node up to the compaction; none if the first kept node is not found.

    If two entries of a history have the same name, the name refers to the later entry.
    """
    name, number = compaction.first_kept, compaction.extra.get("firstKeptEntryIndex")
    if name is None:
        return _kept_by_number(line, at, number) if isinstance(number, int) else []
    if not line.may_hold(name, at):
        return []
    found: list[Node] = []
    for node in line.back(at):  # an entry of any kind can have this name
        found.append(node)
        if name in names_of(node):
            return found[::-1]
    return []


def _kept_by_number(line: ContextHistory, at: Spot, number: int) -> list[Node]:
    """Return the nodes from the one with the number ``number`` to the compaction ``at``.

    In pi's oldest files, entries have no ids. The number of an entry is its index among the lines that can be parsed.
    The header has the number 0.
    """
    nodes = list(line.back(at))[::-1]
    parsed = [place for place, node in enumerate(nodes) if node.source is not None and node.kind != Opaque.kind]
    return nodes[parsed[number - 1] :] if 0 < number <= len(parsed) else []


def state(line: ContextHistory, *, model: str | None) -> State:
    """Return the state at the end of the history, which includes the effects of hidden entries (rule 7).

    ``model``: the model by the rules of the agent.
    """
    history_state = line.anchors
    default = {} if model is None else {"default": model}
    tools = line.entry_at(history_state.tools) if history_state.tools else None
    return State(
        model=model,
        models=default | {role: name for role, name in history_state.models.items() if role != "default"},
        thinking=history_state.thinking or "off",
        mode=history_state.mode,
        tools=tools.tools if isinstance(tools, ToolsChange) else None,
        instructions=line.instructions,
        rules=history_state.rules,
    )
