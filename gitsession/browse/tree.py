"""The tree of a session: its branches, with pi's keys to fold, filter, label and search them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from gitsession.api import Session
from gitsession.browse.dialogs import Ask, AskText, Choose
from gitsession.browse.entry_text import EntryTexts, text_of
from gitsession.browse.resume import resume
from gitsession.browse.rewind import RewindScreen
from gitsession.browse.row_list import RowList
from gitsession.browse.screen import BrowseScreen
from gitsession.browse.text import Part, fit, one_line
from gitsession.browse.transcript import TranscriptScreen, TranscriptSource
from gitsession.browse.tree_rows import FILTERS, TreeRow, TreeShape, newest_part
from gitsession.browse.undoing import undo
from gitsession.index.names import Names
from gitsession.line_text import clock, count
from gitsession.sessions.graph import Tree
from gitsession.sessions.node import Node

READ_AT_ONCE = 500
"""Maximum number of entries that are read before the tree is shown first. The others are read in a thread."""

_WIDE = 110
"""Minimum number of columns for lines with the ids of entries and the dates."""


class TreeScreen(BrowseScreen):
    """The tree of a session."""

    NAME = "Tree"
    KEYS = "enter read  / search  ^o filter  ^←→ fold  s switch  f fork  r rewind  ? help"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "list('move(1)')"),
        Binding("k", "list('move(-1)')"),
        Binding("enter", "read", "Read the conversation from this entry"),
        Binding("slash", "search", "Show only the lines that contain words"),
        Binding("ctrl+left,alt+left", "fold", "Fold the branch, or go to its beginning"),
        Binding("ctrl+right,alt+right", "unfold", "Unfold the branch, or go to the next branch"),
        Binding("ctrl+o", "filter(1)", f"Next filter: {', '.join(FILTERS)}"),
        Binding("shift+ctrl+o,O", "filter(-1)", "Previous filter"),
        Binding("ctrl+d", "set_filter('default')", "Filter: default"),
        Binding("ctrl+t", "set_filter('no tools')", "Filter: no tools"),
        Binding("ctrl+u", "set_filter('user only')", "Filter: user only"),
        Binding("ctrl+l", "set_filter('labelled')", "Filter: labelled"),
        Binding("ctrl+a", "set_filter('all')", "Filter: all"),
        Binding("L", "label", "Set or remove the label of the entry"),
        Binding("s", "switch", "Make the branch of the entry the active one"),
        Binding("f", "fork", "Create a session that continues from the entry"),
        Binding("r", "rewind", "Rewind to a prompt"),
        Binding("R", "resume", "Continue from the entry in an agent"),
        Binding("u", "undo", "Undo the last command on the session"),
        Binding("y", "copy", "Copy the text of the entry"),
        Binding("Y", "copy_address", "Copy the address of the entry"),
        Binding("ctrl+r", "reload", "Read the session again"),
        Binding("escape,q", "leave", "Clear the search, or go back"),
    ]

    def __init__(self, session: Session, at: str = "") -> None:
        super().__init__()
        self.session = session
        self.mode = FILTERS[0]
        self.query_text = ""
        self.rows: list[TreeRow] = []
        self.complete = False
        self._folded: set[str] = set()
        self._names = Names(None, {}, {})
        self._marks: dict[str, str] = {}
        self._shape = TreeShape.of(Tree({}, {}, {}), "")
        self._tip = ""
        self._title = ""
        self.folder = ""
        self._on_path: set[str] = set()
        self._has_branches = False
        self._start = at

    def compose_body(self) -> ComposeResult:
        yield RowList(self._parts, nothing="no entry matches", id="body")

    def on_mount(self) -> None:
        self._load()

    # ---- loading

    def _load(self) -> None:
        """Show the newest entries at once, and read the others in a thread."""
        row = self.browser.store.catalogue().session(self.session.id)
        self.folder = (row.project or "") if row else ""
        self._title = row.name if row else ""
        self._names = self.session.names()
        branches = self.session.branches()
        if len(branches) == 1 or (row is not None and row.entries > READ_AT_ONCE):
            entries = list(islice(self.session.walk(self.session.branch_name), READ_AT_ONCE + 1))
            tree, self.complete = newest_part(branches, entries), len(branches) == 1 and len(entries) <= READ_AT_ONCE
        else:
            tree, self.complete = self.session.tree(), True
        self._take(tree, self._start or branches.get(self.session.branch_name, ""))
        if not self.complete:
            self.work(lambda: self._read_all(self.session), self._take_all)

    def _read_all(self, session: Session) -> tuple[Session, TreeShape]:
        tree = session.tree()
        return session, TreeShape.of(tree, tree.branches.get(session.branch_name, ""))

    def _take_all(self, found: tuple[Session, TreeShape]) -> None:
        if found[0] is self.session:
            self.complete = True
            self._use(found[1])
            self._show(self.selected_oid)

    def _take(self, tree: Tree, selected: str) -> None:
        tip = tree.branches.get(self.session.branch_name, "")
        self._use(TreeShape.of(tree, tip))
        self._show(selected)

    def _use(self, shape: TreeShape) -> None:
        self._shape = shape
        self._tip = shape.tree.branches.get(self.session.branch_name, "")
        self.texts = EntryTexts(self.browser.store.catalogue, self.session, self.folder)
        self._has_branches = any(shape.level)
        self._on_path = {node.oid for node in shape.path(self._tip)}
        self._mark()

    def _mark(self) -> None:
        names: dict[str, list[str]] = {}
        for name, oid in self._shape.tree.branches.items():
            is_active = name == self.session.branch_name and len(self._shape.tree.branches) > 1
            names.setdefault(oid, []).append(f"*{name}" if is_active else name)
        for oid, label in self._names.labels.items():
            names.setdefault(oid, []).append(f"'{label}'")
        self._marks = {oid: f"  [{', '.join(map(one_line, found))}]" for oid, found in names.items()}

    def action_reload(self, at: str = "") -> None:
        """Read the session again, on its active branch. ``at``: the entry to select; by default, the selected one."""
        self._start = at or self.selected_oid
        self.session = self.browser.store.session(self.session.id)
        self._load()

    # ---- lines

    @property
    def name(self) -> str:
        """The title of the session, or else its first words."""
        return one_line(self._title) or self.session.id

    def label_of(self, oid: str) -> str:
        """Return the label of an entry; "" if it has none."""
        return self._names.labels.get(oid, "")

    @property
    def selected(self) -> Node | None:
        """The entry under the cursor; ``None`` for a gap."""
        return self._shape.tree.nodes.get(self.selected_oid)

    @property
    def selected_oid(self) -> str:
        """The object id under the cursor."""
        at = self.query_one(RowList).cursor
        return self.rows[at].oid if at < len(self.rows) else ""

    def _show(self, selected: str) -> None:
        words = self.query_text.lower().split()
        kept = "" if words or self.mode in ("user only", "labelled") else self._tip
        shown = self._shape.selected(self.mode, labels=self._names.labels, words=words, marks=self._marks, kept=kept)
        self.rows = self._shape.rows(shown, self._folded)
        self.query_one(RowList).show(len(self.rows), self._nearest(selected))
        self._describe()

    def _nearest(self, oid: str) -> int:
        """Return the row of an entry, or of the nearest entry before it that is shown."""
        rows = {row.oid: at for at, row in enumerate(self.rows)}
        while oid and oid not in rows:
            oid = self._shape.tree.parent(oid) or "" if oid in self._shape.tree.nodes else ""
        return rows.get(oid, len(self.rows) - 1)

    def _parts(self, index: int, width: int) -> list[Part]:
        row = self.rows[index]
        parts: list[Part] = []
        if row.gap is not None:
            return [
                (row.oid[:8] + "  ", "error"),
                (f"{row.indent}cannot be read: {one_line(row.gap.problem)}", "error"),
            ]
        node = self._shape.tree.nodes[row.oid]
        time = clock(node.author_seconds * 1000)
        if width >= _WIDE:
            parts.append((f"{row.oid[:8]}  {time}  ", "dim"))
        else:
            is_new = index == self.query_one(RowList).scroll_offset.y or time != self._time(index - 1)
            parts.append((f"{time[5:] if is_new else '':11}  ", "dim"))
        fold = "⊞ " if row.hidden else "⊟ " if row.foldable and row.indent else ""
        active = "• " if row.oid in self._on_path else "  "
        parts += [(active if self._has_branches else "", "here"), (row.indent, "dim"), (fold, "mark")]
        text, end = self.texts.line(node)
        marks = self._marks.get(row.oid, "")
        hidden = f"  (+{row.hidden:,})" if row.hidden else ""
        return fit([*parts, *text], [*end, (marks, "mark"), (hidden, "dim")], width)

    def _time(self, index: int) -> str:
        node = self._shape.tree.nodes.get(self.rows[index].oid)
        return clock(node.author_seconds * 1000) if node is not None else ""

    def _describe(self) -> None:
        total = len(self._shape.order)
        state = count(total, "entry", "entries") if self.complete else f"{total:,} newest entries, reading the others…"
        search: list[Part] = [("  search: ", "dim"), (one_line(self.query_text), "bold")] if self.query_text else []
        title = self.name
        filter_text = f"  filter: {self.mode}" if self.mode != FILTERS[0] else ""
        self.set_title((title, "bold"), (f"  {state}", "dim"), (filter_text, "tool"), *search)
        node = self.selected
        facts = [self.session.id, f"branch {one_line(self.session.branch_name)}"]
        if node is not None:
            facts = [
                node.oid[:12],
                clock(node.author_seconds * 1000),
                *([one_line(node.model)] if node.model else []),
                *facts,
            ]
        self.set_status(("  ".join(filter(None, facts)), "dim"))

    def on_row_list_moved(self) -> None:
        self._describe()

    # ---- moving, folding, filtering

    def action_list(self, action: str) -> None:
        name, _, number = action.rstrip(")").partition("(")
        getattr(self.query_one(RowList), f"action_{name}")(int(number))

    def action_fold(self) -> None:
        at = self.query_one(RowList).cursor
        if at >= len(self.rows):
            return
        row = self.rows[at]
        if row.foldable and not row.hidden:
            self._folded.add(row.oid)
            self._show(row.oid)
        else:
            head = row.head if row.head != at else self._head_before(at)
            self.query_one(RowList).show(len(self.rows), head)

    def _head_before(self, at: int) -> int:
        """Return the row of the branch at which the branch of the row ``at`` begins."""
        return self.rows[at - 1].head if at else 0

    def action_unfold(self) -> None:
        at = self.query_one(RowList).cursor
        if at >= len(self.rows):
            return
        row = self.rows[at]
        if row.hidden:
            self._folded.discard(row.oid)
            self._show(row.oid)
            return
        later = (index for index in range(at + 1, len(self.rows)) if self.rows[index].head == index)
        self.query_one(RowList).show(len(self.rows), next(later, len(self.rows) - 1))

    def action_filter(self, by: int) -> None:
        self.action_set_filter(FILTERS[(FILTERS.index(self.mode) + by) % len(FILTERS)])

    def action_set_filter(self, mode: str) -> None:
        self.mode = mode if mode != self.mode else FILTERS[0]
        self._show(self.selected_oid)

    def action_search(self) -> None:
        def search(text: str | None) -> None:
            if text is not None:
                self.query_text = text
                self._show(self.selected_oid)

        self.app.push_screen(AskText("Search", self.query_text, "enter search   an empty text shows all lines"), search)

    def action_leave(self) -> None:
        if self.query_text:
            self.query_text = ""
            self._show(self.selected_oid)
        else:
            self.app.pop_screen()

    # ---- commands

    def on_row_list_chosen(self) -> None:
        self.action_read()

    def action_read(self) -> None:
        node = self.selected
        if node is not None:
            tip = node.oid if node.oid not in self._on_path else self._tip
            if tip not in self._shape.tree.nodes:  # the tip cannot be read
                tip = node.oid
            history = self._shape.path(tip)
            source = TranscriptSource(self.session, self.name, self.texts, self.label_of, self.rewind_from)
            self.app.push_screen(TranscriptScreen(source, history, node.oid))

    def action_label(self) -> None:
        node = self.selected
        if node is None:
            return
        before = self._names.labels.get(node.oid, "")

        def label(text: str | None) -> None:
            if text is not None and text != before:
                self._attempt(lambda: self.session.label(node, text))
                self._names = self.session.names()
                self._mark()
                self._show(node.oid)

        self.app.push_screen(AskText("Label", before, "enter set   an empty label removes it   esc cancel"), label)

    def _attempt(self, write: Callable[[], object]) -> bool:
        """Perform a short write. If it fails, show the error and return False."""
        self.browser.is_changed = True
        try:
            write()
        except Exception as error:  # an error in a store must not end the browser
            self.call_after_refresh(self.fail, error)
            return False
        return True

    def action_switch(self) -> None:
        node = self.selected
        if node is None or not self._is_complete():
            return
        names = [name for name in self._shape.branches_through(node.oid) if name != self.session.branch_name]
        if not names:
            self.tell(f"the active branch {self.session.branch_name} is the only one with this entry")
        elif len(names) == 1:
            self._switch(names[0])
        else:
            shown = [one_line(name) for name in names]
            self.app.push_screen(
                Choose("Make active", shown), lambda at: self._switch(names[at]) if at is not None else None
            )

    def _switch(self, name: str) -> None:
        if self._attempt(lambda: self.session.switch(name)):
            self.action_reload()
            self.tell(f"{name} is the active branch")

    def _is_complete(self) -> bool:
        if not self.complete:
            self.tell("the session is still being read")
        return self.complete

    def action_fork(self) -> None:
        node = self.selected
        if node is None:
            return

        def fork(is_yes: bool | None) -> None:
            made: list[Session] = []
            if is_yes and self._attempt(lambda: made.append(self.session.fork(node))):
                self.app.push_screen(TreeScreen(made[0]))

        self.app.push_screen(Ask("Create a session that continues from this entry?", [one_line(node.subject)]), fork)

    def action_rewind(self) -> None:
        self.rewind_from(self.selected_oid)

    def rewind_from(self, oid: str) -> None:
        """Show the prompts of the active branch, with the cursor at the newest one up to the entry ``oid``."""
        before = [node.oid for node in self._shape.path(oid)]
        self.app.push_screen(RewindScreen(self.session, self.folder, before), self._rewound)

    def _rewound(self, prompt: str | None) -> None:
        if prompt is not None:
            self.action_reload(prompt)

    def action_resume(self) -> None:
        node = self.selected
        if node is not None:
            resume(self, self.session, None if node.oid == self._tip else node)

    def action_undo(self) -> None:
        undo(self, self.session.id, self.action_reload)

    def action_copy(self) -> None:
        node = self.selected
        if node is not None:
            text = text_of(self.texts.read(node)) or node.subject
            self.browser.copy_to_clipboard(text)
            self.tell(f"copied: {count(len(text), 'character')}")

    def action_copy_address(self) -> None:
        node = self.selected
        if node is not None:
            address = f"{self.session.id}@{node.oid[:12]}"
            self.browser.copy_to_clipboard(address)
            self.tell(f"copied: {address}")
