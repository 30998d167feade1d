"""The order of a session's entries in a page: sections, parts of sections, and the rows of the branch tree.

Everything is computed from commits, without payloads. The history of the active branch is the first section. Each other
branch is a section with the entries that no earlier section has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gitsession.git.types import Oid
from gitsession.model import entries as kinds
from gitsession.sessions.graph import Tree
from gitsession.sessions.node import Node
from gitsession.web.entries import ID_CHARS

PART_ENTRIES = 200
"""Number of entries in one part. A part is loaded when it is scrolled into view."""

_DEPTH_MAX = 8
"""Maximum depth of a row. Deeper rows have the same indentation."""

_HIDDEN = frozenset(
    kind.kind
    for kind in (
        kinds.SessionHeader, kinds.Label, kinds.Title, kinds.Custom, kinds.Usage, kinds.Fork, kinds.ToolsChange,
        kinds.ContextEdit, kinds.Prune, kinds.Injection,
    )
)  # fmt: skip
_SUMMARIES = {kinds.Compaction.kind: "Summary of earlier entries", kinds.BranchSummary.kind: "Summary of a branch"}


class Section(NamedTuple):
    """The entries of a branch that no earlier section has, oldest first.

    Attributes:
        name: The name of the branch; "" for entries that no branch leads to, because an entry is lost.
        nodes: The entries, including those that a page does not show.
        shown: The entries that a page shows.
        onto: The entry of an earlier section after which the branch begins; ``None`` if it begins at a root.
    """

    name: str
    nodes: tuple[Node, ...]
    shown: tuple[Node, ...]
    onto: Oid | None

    @property
    def first_id(self) -> str:
        """The id of the first entry that a page shows; "" if there is none."""
        return self.shown[0].oid[:ID_CHARS] if self.shown else ""

    @property
    def tip(self) -> Oid:
        """The newest entry."""
        return self.nodes[-1].oid


class PagePart(NamedTuple):
    """Some consecutive entries of a section. ``number``: the index of the part in the page."""

    number: int
    nodes: Sequence[Node]


class OutlineRow(NamedTuple):
    """A row of the branch tree: a prompt, a summary, a labeled entry, or the beginning of a branch.

    ``form``: ``prompt``, ``summary``, ``labelled`` or ``branch``.
    """

    id: str
    depth: int
    form: str
    text: str
    label: str = ""


class Transcript:
    """The entries of a session in the order of a page.

    Attributes:
        sections: The sections; a branch comes after the section that it leaves.
        labels: The labels by the oid of the entry.
        tips: The names of the branches by the oid of their tips. Empty if there is only one branch.
        begins: The sections that begin after an entry, by the oid of the entry.
    """

    def __init__(
        self,
        tree: Tree,
        active: str,
        labels: Mapping[Oid, str],
        *,
        at: Node | None = None,
        withhold: Callable[[str], str] = str,
    ) -> None:
        """Order the entries of ``tree``.

        ``at``: if it is set, only the history of this entry. ``withhold``: a function that replaces
        secrets in a text that may be cut.
        """
        self._withhold = withhold
        self.labels = labels
        branches = {active: tree.branches[active], **tree.branches} if at is None else {active: at.oid}
        self.tips: dict[Oid, tuple[str, ...]] = {}
        for name, oid in branches.items() if len(branches) > 1 else ():
            self.tips[oid] = (*self.tips.get(oid, ()), name)
        found = list(self._sections(tree, branches, is_complete=at is None))
        self.begins: dict[Oid, list[Section]] = {}
        for section in found:
            if section.onto is not None:
                self.begins.setdefault(section.onto, []).append(section)
        self.sections = list(self._ordered(found))

    def _sections(self, tree: Tree, branches: Mapping[str, Oid], *, is_complete: bool) -> Iterator[Section]:
        seen: set[Oid] = set()
        ends = [*branches.items()]
        if is_complete and tree.gaps:  # entries before a gap are no longer in the history of a branch
            ends += [("", node.oid) for node, _ in tree.walk() if not tree.children.get(node.oid)]
        for name, end in ends:
            nodes: list[Node] = []
            oid: Oid | None = end
            while oid is not None and oid not in seen and oid in tree.nodes:
                seen.add(oid)
                nodes.append(tree.nodes[oid])
                oid = tree.parent(oid)
            if nodes:
                nodes.reverse()
                shown = tuple(node for node in nodes if self.is_shown(node))
                yield Section(name, tuple(nodes), shown, oid)

    def is_shown(self, node: Node) -> bool:
        """Return whether a page shows entries of the kind of ``node``."""
        return node.kind not in _HIDDEN or node.oid in self.labels

    def _ordered(self, sections: Sequence[Section]) -> Iterator[Section]:
        stack = [section for section in reversed(sections) if section.onto is None]
        while stack:
            section = stack.pop()
            yield section
            stack += [child for node in reversed(section.nodes) for child in reversed(self.begins.get(node.oid, ()))]

    def parts(self) -> list[list[PagePart]]:
        """Return the parts of each section."""
        found: list[list[PagePart]] = []
        number = 0
        for section in self.sections:
            cuts = range(0, len(section.shown), PART_ENTRIES)
            found.append([PagePart(number + n, section.shown[at : at + PART_ENTRIES]) for n, at in enumerate(cuts)])
            number += len(cuts)
        return found

    def rows(self) -> Iterator[OutlineRow]:
        """Yield the rows of the branch tree, depth first. A branch follows the entry after which it begins."""
        stack = [(section, 0, 0) for section in reversed(self.sections) if section.onto is None]
        while stack:
            section, start, depth = stack.pop()
            if depth and start == 0 and section.shown:
                yield OutlineRow(section.first_id, depth, "branch", section.name)
            for at in range(start, len(section.nodes)):
                node = section.nodes[at]
                row = self.row_of(node, depth)
                if row is not None:
                    yield row
                if children := self.begins.get(node.oid):
                    stack.append((section, at + 1, depth))
                    stack += [(child, 0, min(depth + 1, _DEPTH_MAX)) for child in reversed(children)]
                    break

    def row_of(self, node: Node, depth: int = 0) -> OutlineRow | None:
        """Return the row of an entry; ``None`` if the branch tree does not show the entry."""
        label, text = self.labels.get(node.oid, ""), node.subject.partition(": ")[2]
        if node.kind == kinds.Message.kind and node.role == "user":
            form = "prompt"
        elif node.kind in _SUMMARIES:
            form, text = "summary", f"Summary: {text}" if text else _SUMMARIES[node.kind]
        elif label:
            form = "labelled"
        else:
            return None
        return OutlineRow(node.oid[:ID_CHARS], depth, form, self._withhold(text or node.subject), label)
