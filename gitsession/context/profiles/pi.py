"""Two pi profiles. The pi 1.5 profile is the default, and also applies to pi 0.87. The other is the pi 0.73 profile.

Both profiles follow rules 6 to 12, 14 to 16, 18 and 21.
"""

from __future__ import annotations

from gitsession.context.estimates import by_characters
from gitsession.context.history import ContextHistory
from gitsession.context.profiles import Profile, Selection
from gitsession.context.profiles.visible_items import changed, changes, is_message, reach, show, show_compaction, state
from gitsession.context.value import Item, Shown
from gitsession.model.entries import Message


class PiProfile(Profile):
    NAME = "pi"
    OWN_COUNT = True
    SENDS_SYSTEM = True

    def select(self, line: ContextHistory) -> Selection:
        return _select(line, since_087=True)


class Pi073Profile(Profile):
    """The pi 0.73 rules, without system messages and context edits."""

    NAME = "pi-0.73"
    OWN_COUNT = True
    COUNT_MIN = 0

    def select(self, line: ContextHistory) -> Selection:
        return _select(line, since_087=False)

    def estimate(self, entry: Shown) -> int:
        return 0 if is_message(entry, "system") else by_characters(entry, images_of_users=False)


def _select(line: ContextHistory, *, since_087: bool) -> Selection:
    """Select the items of a context. ``since_087``: include system messages and edits, and reject outdated counts."""
    seen = reach(line)
    nodes = [*seen.kept, *seen.after]
    how = changes(line, nodes, edits=since_087)
    items: list[Item] = []
    if seen.compaction is not None:
        items += changed(show_compaction(line, seen.compaction, system=since_087), seen.compaction, how)
    for node in seen.kept:
        if not (since_087 and node.kind == Message.kind and is_message(line.entry(node), "system")):
            items += changed(show(line, node), node, how)
    current = len(items)
    for spot in seen.after:
        items += changed(show(line, spot), spot, how)
        if spot is how.newest:
            current = len(items)
    return Selection(tuple(items), state(line, model=line.anchors.model), current if since_087 else 0, current)
