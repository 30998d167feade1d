"""Profile of librecode: rules 9 and 10. Tool results and reasoning are not sent to the model.

The rules are taken from librecode's source. They could not be verified, because no program is released.
"""

from __future__ import annotations

from collections.abc import Sequence

from gitsession.context.estimates import images
from gitsession.context.history import ContextHistory
from gitsession.context.profiles import CompactionSettings, Profile, Selection
from gitsession.context.profiles.visible_items import changed, changes, is_message, reach, show, show_compaction, state
from gitsession.context.value import Item, Shown
from gitsession.model.entries import BranchSummary, Compaction, Message


class LibrecodeProfile(Profile):
    NAME = "librecode"
    SETTINGS = CompactionSettings(reserve=2_048)

    def select(self, line: ContextHistory) -> Selection:
        seen = reach(line)
        nodes = [*seen.kept, *seen.after]
        how = changes(line, nodes, edits=True)
        items = [] if seen.compaction is None else show_compaction(line, seen.compaction, system=False)
        fresh = current = len(items)
        for at, node in enumerate(nodes, 1):
            shown = [item for item in show(line, node) if _faces_model(item.entry)]
            items += changed(shown, node, how)
            if at == len(seen.kept):
                fresh = current = len(items)
            if node is how.newest:
                current = len(items)
        return Selection(tuple(items), state(line, model=line.anchors.model), fresh, current)

    def estimate(self, entry: Shown) -> int:
        return -(-len(_words(entry)) // 4)

    def usage(self, items: Sequence[Item], fresh: int) -> tuple[int, int] | None:
        """Return the size of the last request in tokens. librecode stores it with the answer."""
        for at in range(len(items) - 1, fresh - 1, -1):
            entry = items[at].entry
            if isinstance(entry, Message) and entry.role == "assistant" and entry.usage is not None:
                taken = entry.usage.get("contextTokens")
                if type(taken) is int and taken > 0:
                    return taken, at
        return None


def _faces_model(entry: Shown) -> bool:
    """Return whether an entry is sent to the model.

    An entry can record whether it is sent. If it does not, its kind and its role determine whether it is sent.
    """
    if isinstance(entry, Compaction | BranchSummary):
        return True
    if is_message(entry, "tool"):
        return False
    model_facing = entry.extra.get("model_facing")
    by_kind = entry.role in ("user", "assistant") if isinstance(entry, Message) else True
    has_text = bool(images(entry.content)) or bool(_words(entry))
    return has_text and (model_facing == 1 if isinstance(model_facing, int) else by_kind)


def _words(entry: Shown) -> str:
    if isinstance(entry, Compaction | BranchSummary):
        return entry.summary.strip()
    if isinstance(entry, Message) and entry.role == "shell":
        return (entry.output or "").strip()
    return entry.text.strip()
