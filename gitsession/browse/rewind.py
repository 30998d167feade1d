"""The rewind menu: the prompts of a branch, the plan of each action, and its execution after a question."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from typing import ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from gitsession.api import Session
from gitsession.browse.dialogs import Ask, TextDialog
from gitsession.browse.prompts import PromptTurn, TurnChanges, TurnReader, turn_changes
from gitsession.browse.row_list import RowList
from gitsession.browse.screen import BrowseScreen
from gitsession.browse.text import Part, age, one_line
from gitsession.browse.undoing import file_line, outcome_lines, undo
from gitsession.checkpoints.planning import RewindParts, RewindPlan
from gitsession.checkpoints.rewind_decisions import UNCHANGED
from gitsession.checkpoints.rewinding import RewindResult
from gitsession.compaction.plan import CompactionRequest, Plan
from gitsession.compaction.write_summary import SummaryOptions
from gitsession.line_text import count, pad
from gitsession.sessions.node import Node

FIRST_READ, READ_TOGETHER = 200, 2000
"""Numbers of entries that are read before the first prompts are shown, and in each following step."""


class RewindScreen(BrowseScreen):
    """The prompts of a branch, the newest first, each with the files that changed after it.

    Args:
        session: The session, on the branch.
        folder: The working directory of the session.
        before: The history of the entry that the user selected. The cursor is at the newest prompt in it.
    """

    NAME = "Rewind"
    KEYS = "enter choose what to restore   u undo   y copy prompt   esc back   ? help"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "menu", "Choose what to restore"),
        Binding("u", "undo", "Undo the last command on the session"),
        Binding("y", "copy", "Copy the prompt"),
        Binding("escape,q", "leave", "Go back"),
    ]

    def __init__(self, session: Session, folder: str, before: Sequence[str] = ()) -> None:
        super().__init__()
        self.session = session
        self._folder = folder
        self._before: Collection[str] = set(before)
        self._last = before[-1] if before else ""
        self.turns: list[PromptTurn] = []
        self.changes: dict[str, TurnChanges] = {}
        self._is_counting = False

    def compose_body(self) -> ComposeResult:
        yield RowList(self._parts, nothing="no prompts", id="body")

    def on_mount(self) -> None:
        leaf = self.session.leaf
        is_active = not self._last or leaf is None or self._last in {leaf.oid} or self._is_on_active()
        self._reader = TurnReader()
        self._entries: Iterator[object] = self.session.walk(self.session.branch_name if is_active else self._last)
        self._has_chosen = False
        self._take(list(islice(self._entries, FIRST_READ)))

    def _is_on_active(self) -> bool:
        """Return whether the newest entries of the active branch contain the selected entry."""
        newest = islice(self.session.walk(self.session.branch_name), READ_TOGETHER)
        return any(isinstance(node, Node) and node.oid == self._last for node in newest)

    def _take(self, found: Sequence[object]) -> None:
        self.turns += self._reader.add(node for node in found if isinstance(node, Node))
        cursor = None
        if not self._has_chosen:
            at = next((at for at, turn in enumerate(self.turns) if turn.prompt.oid in self._before), None)
            self._has_chosen, cursor = at is not None, at
        self.query_one(RowList).show(len(self.turns), cursor)
        self._describe(is_reading=bool(found))
        if found:
            self.work(lambda: list(islice(self._entries, READ_TOGETHER)), self._take)

    def _describe(self, *, is_reading: bool = False) -> None:
        state = ", reading the others…" if is_reading else ""
        self.set_title((f"{self.NAME} ", "bold"), (f" {count(len(self.turns), 'prompt')}{state}", "dim"))
        turn = self.selected
        self.set_status(
            (f"{turn.prompt.oid[:12]}  {count(len(turn.entries), 'entry', 'entries')}" if turn else "", "dim")
        )

    @property
    def selected(self) -> PromptTurn | None:
        """The turn under the cursor."""
        at = self.query_one(RowList).cursor
        return self.turns[at] if at < len(self.turns) else None

    def _parts(self, index: int, width: int) -> list[Part]:
        prompt = self.turns[index].prompt
        changes = self.changes.get(prompt.oid)
        if changes is None:
            self.call_later(self._count)
        text = "…" if changes is None else changes.text
        subject = prompt.subject.partition(": ")[2]
        return [
            (f" {age(prompt.author_seconds * 1000, self.browser.now_ms()):>10}  ", "dim"),
            (pad(text, 22) + "  ", "tool"),
            (one_line(subject) or "(no text)", ""),
        ]

    def _count(self) -> None:
        """Count the changes of one visible turn in a thread, and continue until all visible ones are counted."""
        rows = self.query_one(RowList)
        top = rows.scroll_offset.y
        wanted = [turn for turn in self.turns[top : top + rows.size.height] if turn.prompt.oid not in self.changes]
        if not wanted or self._is_counting:
            return
        self._is_counting = True
        turn = wanted[0]

        def take(changes: TurnChanges) -> None:
            self._is_counting = False
            self.changes[turn.prompt.oid] = changes
            rows.refresh()
            self._count()

        self.work(lambda: turn_changes(self.session, turn, self._folder), take)

    def on_row_list_moved(self) -> None:
        self._describe()

    def on_row_list_chosen(self) -> None:
        self.action_menu()

    def action_menu(self) -> None:
        turn = self.selected
        if turn is not None:
            self.app.push_screen(RewindMenu(self.session, turn.prompt), self._ask)

    def _ask(self, chosen: ActionPreview | None) -> None:
        if chosen is None or chosen.perform is None:
            return
        perform = chosen.perform

        def act(is_yes: bool | None) -> None:
            if is_yes:
                self.tell(f"{chosen.action.lower()}…")
                self.work(perform, self._finish, writes=True)

        self.app.push_screen(
            Ask(f"{chosen.action}?", [one_line("".join(t for t, _ in line)) for line in chosen.lines[:8]]), act
        )

    def _finish(self, done: RewindResult | Node) -> None:
        lines: list[list[Part]] = []
        if isinstance(done, Node):
            lines.append([(f"{done.oid[:8]}  {one_line(done.subject)}", "")])
        else:
            if done.moved:
                lines.append([(f"the conversation continues on branch {one_line(done.branch)}", "")])
            lines += outcome_lines(done)
            if done.prompt:
                lines += [[], [("your prompt at that point (y in the tree copies it):", "dim")]]
                lines += [[(one_line(line), "")] for line in done.prompt.split("\n")[:20]]
        lines += [[], [("u undoes it", "dim")]]
        self._leave_changed()
        self.app.push_screen(TextDialog("Done", lines))

    def _leave_changed(self) -> None:
        self.dismiss(self.selected.prompt.oid if self.selected else "")

    def action_undo(self) -> None:
        undo(self, self.session.id, self._leave_changed)

    def action_copy(self) -> None:
        turn = self.selected
        if turn is not None:
            text = getattr(self.session.read(turn.prompt), "text", "") or turn.prompt.subject
            self.browser.copy_to_clipboard(text)
            self.tell(f"copied: {count(len(text), 'character')}")

    def action_leave(self) -> None:
        self.dismiss(None)


class ActionPreview(NamedTuple):
    """The plan of an action as text. ``perform``: the function that performs it; ``None`` if it changes nothing."""

    action: str
    lines: Sequence[Sequence[Part]]
    perform: Callable[[], RewindResult | Node] | None = None


_PARTS: dict[str, RewindParts] = {
    "Restore code and conversation": "both",
    "Restore conversation": "conversation",
    "Restore code": "files",
}
SUMMARIZE, NEVER_MIND = "Summarize from here", "Never mind"
ACTIONS = (*_PARTS, SUMMARIZE, NEVER_MIND)
"""The actions of Claude Code's rewind menu, in its order."""


class RewindMenu(ModalScreen[ActionPreview | None]):
    """The actions for one prompt, each with its plan. The result is the chosen plan."""

    CSS = """
    RewindMenu { align: center middle; }
    RewindMenu > Vertical { width: 94%; height: 90%; border: round ansi_blue; padding: 0 1; }
    RewindMenu #actions { height: 5; }
    RewindMenu #plan { height: 1fr; margin-top: 1; }
    RewindMenu .text { height: auto; max-height: 2; }
    RewindMenu .hint { height: 1; text-style: dim; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave"),
        Binding("j", "move(1)"),
        Binding("k", "move(-1)"),
        *(Binding(str(number), f"pick({number - 1})") for number in range(1, len(ACTIONS) + 1)),
    ]

    def __init__(self, session: Session, prompt: Node) -> None:
        super().__init__()
        self._session = session
        self._prompt = prompt
        self._previews: dict[str, ActionPreview] = {
            NEVER_MIND: ActionPreview(NEVER_MIND, [[("nothing changes", "dim")]])
        }

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(one_line(self._prompt.subject), markup=False, classes="text")
            yield RowList(lambda index, _: [(f" {index + 1}  ", "dim"), (ACTIONS[index], "")], id="actions")
            yield RowList(self._plan_parts, id="plan")
            yield Static(
                "enter continue   1-5 select   tab scroll the plan   esc never mind", markup=False, classes="hint"
            )

    def on_mount(self) -> None:
        self.query_one("#actions", RowList).show(len(ACTIONS), 0)
        self._show()

    @property
    def action(self) -> str:
        """The selected action."""
        return ACTIONS[self.query_one("#actions", RowList).cursor]

    def _plan_parts(self, index: int, _: int) -> Sequence[Part]:
        return self._previews[self.action].lines[index]

    def _show(self) -> None:
        if self.action not in self._previews:
            self._previews[self.action] = self._preview(self.action)
        self.query_one("#plan", RowList).show(len(self._previews[self.action].lines), 0)

    def _preview(self, action: str) -> ActionPreview:
        try:
            if action == SUMMARIZE:
                return summary_preview(self._session, self._prompt)
            return rewind_preview(self._session, self._prompt, action)
        except Exception as error:  # an error in a store must not end the browser
            hint = getattr(error, "hint", "")
            return ActionPreview(action, [[(one_line(str(error)), "error")], [(one_line(hint), "dim")]])

    def on_row_list_moved(self) -> None:
        self._show()

    def on_row_list_chosen(self) -> None:
        self.dismiss(self._previews[self.action])

    def action_move(self, by: int) -> None:
        self.query_one("#actions", RowList).action_move(by)

    def action_pick(self, index: int) -> None:
        self.query_one("#actions", RowList).show(len(ACTIONS), index)
        self._show()

    def action_leave(self) -> None:
        self.dismiss(None)


def rewind_preview(session: Session, prompt: Node, action: str) -> ActionPreview:
    """Plan a rewind, as `gitsession rewind --dry-run` does. The files of the workspace are read."""
    parts = _PARTS[action]
    plan = session.files.plan_rewind(prompt, parts)
    lines = list(plan_lines(plan, has_checkpoints=parts == "files" or session.files.at().checkpoint is not None))
    return ActionPreview(action, lines, None if plan.is_empty else lambda: session.files.rewind(plan))


def plan_lines(plan: RewindPlan, *, has_checkpoints: bool) -> Iterator[list[Part]]:
    """Yield the lines of a plan: the entry after which the conversation continues, and the files that change."""
    if plan.moves:
        yield [(f"the conversation continues after {plan.new_tip.oid[:8]} {one_line(plan.new_tip.subject)}", "")]
        yield [(f"on branch {one_line(plan.branch)}" if plan.branch else "on a new branch", "dim")]
    changes = [change for change in plan.changes if change.reason != UNCHANGED]
    if plan.workspace and changes:
        yield [(f"files in {one_line(plan.workspace)}:", "")]
        yield from (file_line(change.action, change.path, change.reason) for change in changes)
    elif plan.workspace:
        yield [(f"no file changes in {one_line(plan.workspace)}", "")]
    if plan.parts == "both" and not has_checkpoints:
        yield [("the session has no checkpoints: no file is restored", "tool")]
    if plan.is_empty:
        yield [("nothing changes", "dim")]


def summary_preview(session: Session, prompt: Node) -> ActionPreview:
    """Plan a summary of the entries from a prompt to the tip, as `gitsession compact --strategy from` does."""
    from gitsession.compaction.summarizers import make
    from gitsession.compaction.summarizers.options import users_options

    plan = session.compaction.plan("from", request=CompactionRequest(at=prompt))
    if plan.nothing:
        return ActionPreview(SUMMARIZE, [[(f"nothing to summarize: {one_line(plan.nothing)}", "dim")]])
    configured = users_options()
    options = SummaryOptions(summarizer=make(configured))
    return ActionPreview(
        SUMMARIZE, list(_summary_lines(plan, configured.name)), lambda: _compact(session, plan, options)
    )


def _summary_lines(plan: Plan, name: str) -> Iterator[list[Part]]:
    replaced = len(plan.history) + len(plan.prefix)
    entries = count(replaced, "entry", "entries")
    yield [(f"{entries}, about {plan.replaced:,} tokens, are summarized ({one_line(name)})", "")]
    if plan.onto is not None:
        yield [(f"the session continues after {plan.onto.oid[:8]} {one_line(plan.onto.subject)}", "")]
        yield [("on a new branch; the summarized entries stay on their own branch", "dim")]
    yield [("no file changes", "dim")]


def _compact(session: Session, plan: Plan, options: SummaryOptions) -> Node:
    made = session.compact(plan, options, undoable=True)
    assert made is not None, "the plan has entries to summarize"
    return made
