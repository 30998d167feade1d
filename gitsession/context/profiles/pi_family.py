"""The pieces of rules that pi's generations and omp have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gitsession.context.history import ContextHistory
from gitsession.context.profiles import Selection
from gitsession.context.profiles.visible_items import changed, changes, reach, show, show_compaction, state
from gitsession.context.value import Item, Shown
from gitsession.model.entries import BranchSummary, Compaction, CustomMessage, Entry, Message
from gitsession.model.usage import total_tokens
from gitsession.sessions.indexed_entry import Spot


def select(line: ContextHistory, *, since_087: bool) -> Selection:
    """What pi shows. ``since_087``: system messages, context edits, and no trust in a count older than a change."""
    seen = reach(line)
    nodes = [*seen.kept, *seen.after]
    how = changes(line, nodes, edits=since_087)
    items: list[Item] = []
    current = 0

    def add(node: Spot, shown: list[Item]) -> None:
        items.extend(changed(shown, node, how) if how.newest else shown)

    if seen.compaction is not None:
        add(seen.compaction, show_compaction(line, seen.compaction, system=since_087))
    for node in seen.kept:
        if not (since_087 and node.kind == Message.kind and _is_system(line.entry(node))):
            add(node, show(line, node))
    if seen.compaction is not None:
        current = len(items)
    for spot in seen.after:
        add(spot, show(line, spot))
        if spot is how.newest:
            current = len(items)
    return Selection(tuple(items), state(line, model=line.anchors.model), current if since_087 else 0, current)


def _is_system(entry: Entry) -> bool:
    return isinstance(entry, Message) and entry.role == "system"


def usage(items: Sequence[Item], fresh: int, *, least: int) -> tuple[int, int] | None:
    """What the last answer that did not fail says it took, if that is ``least`` tokens or more (rule 15)."""
    for at in range(len(items) - 1, fresh - 1, -1):
        entry = items[at].entry
        if isinstance(entry, Message) and entry.role == "assistant" and not entry.failed:
            total = total_tokens(entry.usage)
            if entry.usage is not None and total >= least:
                return total, at + 1
    return None


def llm_role(entry: Shown, *, custom: str, system: bool) -> str | None:
    """As whose words an entry goes to the model (rule 12). ``custom``: whose an extension's words are."""
    if isinstance(entry, Compaction | BranchSummary):
        return "user"
    if isinstance(entry, CustomMessage):
        return custom
    if entry.role == "shell":
        return None if entry.is_excluded else "user"
    if entry.role == "custom":
        return custom if "role" not in entry.extra else None
    return entry.role if entry.role != "system" or system else None


def is_one_of(roles: tuple[str, ...]) -> Callable[[Entry], bool]:
    """Whether an entry is a message of one of ``roles``, or words that go as such."""

    def answer(entry: Entry) -> bool:
        if isinstance(entry, Message):
            return entry.role in roles and "role" not in entry.extra
        return isinstance(entry, BranchSummary | CustomMessage)

    return answer


can_cut = is_one_of(("user", "assistant", "shell", "custom"))
starts_turn = is_one_of(("user", "shell", "custom"))
