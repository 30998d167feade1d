"""The layout of a session's tree: the entries that a filter selects, with branches that can be folded.

The branch with the active entry, or else the largest one, continues without indentation. Other branches are drawn below
the entry at which they start, each indented by one level. So the depth of the drawing is the nesting of branches, not
their number.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple, TypeAlias

from gitsession.dataclass import dataclass
from gitsession.sessions.gaps import Gap
from gitsession.sessions.graph import Tree
from gitsession.sessions.node import Node

EntryClass: TypeAlias = Literal["prompt", "text", "calls", "tool", "setting"]
"""A user's prompt; an answer or a summary; an answer without text; a tool result; a setting, a label or a title."""

_SELECTED: dict[str, frozenset[EntryClass]] = {
    "default": frozenset({"prompt", "text", "tool"}),
    "no tools": frozenset({"prompt", "text"}),
    "user only": frozenset({"prompt"}),
    "labelled": frozenset(),
    "all": frozenset({"prompt", "text", "calls", "tool", "setting"}),
}
FILTERS = tuple(_SELECTED)
"""The filters in the order in which a key selects them, as in pi."""

LEVELS_MAX = 12
"""Maximum number of levels that are drawn. Deeper branches are drawn at this level."""

_READABLE_KINDS = {"message", "compaction", "branch_summary", "custom_message", "fork", "tombstone"}
_CALLS_ONLY = re.compile(r"assistant: [\w.-]+ \(\+\d+ tools?\)")
"""The subject of an answer without text: the name of its first tool."""


def class_of(node: Node, *, is_answered: bool) -> EntryClass:
    """Return the class of an entry. ``is_answered``: whether the result of a tool call follows.

    The filter ``default`` omits answers without text whose results follow, because the results show the calls.
    """
    if node.kind not in _READABLE_KINDS:
        return "setting"
    if node.role == "user":
        return "prompt"
    if node.role in ("tool", "shell"):
        return "tool"
    if node.role == "assistant" and (": " not in node.subject or (is_answered and _CALLS_ONLY.fullmatch(node.subject))):
        return "calls"
    return "text"


class TreeRow(NamedTuple):
    """One line of the tree.

    Attributes:
        oid: The object id of the entry, or of a gap.
        indent: The lines of the branches to the left of the entry.
        head: The row at which the branch begins.
        foldable: Whether the row is the first of a branch with more rows.
        hidden: The number of entries that the folded branch hides; 0 if it is not folded.
        gap: The damage at this place; ``None`` for an entry.
    """

    oid: str
    indent: str
    head: int
    foldable: bool = False
    hidden: int = 0
    gap: Gap | None = None


@dataclass(frozen=True, slots=True)
class TreeShape:
    """The order of a tree's entries, which does not depend on the filter.

    Attributes:
        tree: The tree.
        order: The entries in drawing order: before the entry that continues a branch, the branches that start there.
        classes: The class of each entry.
        level: The nesting of each entry's branch.
        parent: For each entry, the index of its parent in ``order``; -1 for a root.
        head: For each entry, the index of the entry at which its branch begins.
        size: The number of entries of each subtree.
    """

    tree: Tree
    order: list[str]
    classes: list[EntryClass]
    level: list[int]
    parent: list[int]
    head: list[int]
    size: list[int]

    @classmethod
    def of(cls, tree: Tree, active: str) -> TreeShape:
        """Lay out a tree. ``active``: the object id of the active branch's tip."""
        trunk, sizes = _ancestors(tree, active), _subtree_sizes(tree)
        order: list[str] = []
        level: list[int] = []
        parent: list[int] = []
        head: list[int] = []
        stack = [(oid, 0, -1, True) for oid in reversed(tree.children.get(None, []))]
        while stack:
            oid, depth, above, is_head = stack.pop()
            at = len(order)
            order.append(oid)
            level.append(depth)
            parent.append(above)
            head.append(at if is_head else head[above])
            children = tree.children.get(oid, [])
            if children:
                main = next((child for child in children if child in trunk), None)
                main = main or max(reversed(children), key=sizes.__getitem__)
                stack.append((main, depth, at, False))
                stack += [(child, depth + 1, at, True) for child in reversed(children) if child != main]
        nodes = [tree.nodes[oid] for oid in order]
        pairs = zip(nodes, [*nodes[1:], None], strict=False)
        classes = [class_of(node, is_answered=after is not None and after.role == "tool") for node, after in pairs]
        return cls(tree, order, classes, level, parent, head, [sizes[oid] for oid in order])

    def selected(self, mode: str, *, labels: Iterable[str] = (), words: Sequence[str] = (), marks: Mapping[str, str],
                 kept: str = "") -> list[bool]:  # fmt: skip
        """Return for each entry whether it is shown.

        Args:
            mode: The filter.
            labels: The labelled entries.
            words: Words that the subject or the marks of an entry must contain.
            marks: Branches and labels as text, by the object id of the entry.
            kept: An entry that is shown in any case.
        """
        if mode == "labelled":
            wanted = set(labels)
            shown = [oid in wanted for oid in self.order]
        else:
            classes = _SELECTED[mode]
            shown = [found in classes for found in self.classes]
        if words:
            nodes = self.tree.nodes
            texts = (f"{nodes[oid].subject}{marks.get(oid, '')}".lower() for oid in self.order)
            shown = [
                is_shown and all(word in text for word in words)
                for is_shown, text in zip(shown, texts, strict=True)
            ]  # fmt: skip
        if kept in self.tree.nodes:
            shown[self.index(kept)] = True
        return shown

    def rows(self, shown: Sequence[bool], folded: Collection[str]) -> list[TreeRow]:
        """Return the rows of the entries that are ``shown``.

        ``folded``: the entries whose branch is folded. Such an entry is the first shown one of its branch.
        """
        shown_before = list(accumulate(shown, initial=0))
        gaps = _gaps_by_next(self.tree)
        rows: list[TreeRow] = []
        first: dict[int, int] = {}
        """The row of the first shown entry, by the index of the entry at which the branch begins."""
        skipped_to = 0
        candidates = range(len(self.order)) if gaps else (at for at, is_shown in enumerate(shown) if is_shown)
        for at in candidates:
            if at < skipped_to:
                continue
            oid, begin = self.order[at], self.head[at]
            depth = min(self.level[at], LEVELS_MAX)
            for gap in gaps.get(oid, ()):
                rows.append(TreeRow(gap.oid, "│  " * depth, first.get(begin, len(rows)), gap=gap))
            if not shown[at]:
                continue
            if begin in first:
                rows.append(TreeRow(oid, "│  " * depth, first[begin]))
                continue
            first[begin] = len(rows)
            end = begin + self.size[begin]
            later = shown_before[end] - shown_before[at + 1]
            is_folded = later > 0 and oid in folded
            indent = "│  " * (depth - 1) + "├─ " if depth else ""
            rows.append(TreeRow(oid, indent, len(rows), later > 0, later if is_folded else 0))
            skipped_to = end if is_folded else skipped_to
        rows += [TreeRow(gap.oid, "", 0, gap=gap) for gap in gaps.get("", ())]
        return rows

    def newest_first(self) -> Iterator[tuple[Node | Gap | None, int]]:
        """Yield every entry and gap with the level of its branch, each entry after those that follow it.

        After the first entry of a branch, ``None`` marks the place where the branch leaves the one at the level before.
        With the level 0, it separates two trees.
        """
        gaps = _gaps_by_next(self.tree)
        for gap in gaps.get("", ()):
            yield gap, 0
            yield None, 0
        for at in reversed(range(len(self.order))):
            oid, level = self.order[at], self.level[at]
            yield self.tree.nodes[oid], level
            yield from ((gap, level) for gap in gaps.get(oid, ()))
            if at and self.head[at] == at:
                yield None, level

    def index(self, oid: str) -> int:
        """Return the index of an entry in ``order``."""
        return self.order.index(oid)

    def path(self, oid: str) -> list[Node]:
        """Return the history of an entry, from the root; empty if the entry cannot be read."""
        at = self.index(oid) if oid in self.tree.nodes else -1
        found: list[Node] = []
        while at >= 0:
            found.append(self.tree.nodes[self.order[at]])
            at = self.parent[at]
        return found[::-1]

    def branches_through(self, oid: str) -> list[str]:
        """Return the names of the branches whose history contains an entry, those whose tip it is first."""
        at = self.index(oid)
        below = set(self.order[at : at + self.size[at]])
        found = [name for name, tip in self.tree.branches.items() if tip in below]
        return sorted(found, key=lambda name: self.tree.branches[name] != oid)


def _ancestors(tree: Tree, oid: str) -> set[str]:
    gaps = {gap.oid: gap.before for gap in tree.gaps}
    found: set[str] = set()
    at: str | None = oid
    while at is not None and at not in found:
        found.add(at)
        node = tree.nodes.get(at)
        at = node.parent if node is not None else gaps.get(at)
    return found


def _subtree_sizes(tree: Tree) -> dict[str, int]:
    """Return the number of entries in the subtree of each entry."""
    order = list(tree.children.get(None, []))
    for oid in order:  # also the entries that are added here
        order += tree.children.get(oid, ())
    sizes = dict.fromkeys(order, 1)
    for oid in reversed(order):
        for child in tree.children.get(oid, ()):
            sizes[oid] += sizes[child]
    return sizes


def _gaps_by_next(tree: Tree) -> dict[str, list[Gap]]:
    """Return the gaps by the entry before which they are shown; those without such an entry by "", at the end."""
    following = {node.parent: node.oid for node in tree.nodes.values()} if tree.gaps else {}
    found: dict[str, list[Gap]] = {}
    for gap in tree.gaps:
        found.setdefault(following.get(gap.oid, ""), []).append(gap)
    return found


def newest_part(branches: Mapping[str, str], entries: Sequence[Node | Gap]) -> Tree:
    """Return a tree of the newest entries of one history. ``entries``: these entries, newest first."""
    nodes = [found for found in entries if isinstance(found, Node)]
    children: dict[str | None, list[str]] = {}
    above: str | None = None
    for node in reversed(nodes):
        children[above] = [node.oid]
        above = node.oid
    gaps = tuple(found for found in entries if isinstance(found, Gap))
    return Tree(dict(branches), {node.oid: node for node in nodes}, children, gaps)
