"""Undo, after a question that names the command."""

from __future__ import annotations

from collections.abc import Callable

from gitsession.browse.dialogs import Ask, TextDialog
from gitsession.browse.screen import BrowseScreen
from gitsession.browse.text import Part, one_line
from gitsession.checkpoints.rewinding import RewindResult


def undo(screen: BrowseScreen, sid: str, then: Callable[[], None]) -> None:
    """Undo the last command on a session if the user agrees, show the outcome, and call ``then``."""
    store = screen.browser.store

    def ask(command: str) -> None:
        screen.app.push_screen(Ask(f"Undo `{one_line(command)}`?"), perform)

    def perform(is_yes: bool | None) -> None:
        if is_yes:
            screen.work(lambda: store.undo(session=sid), show, writes=True)

    def show(done: RewindResult) -> None:
        then()
        command = one_line(done.operation.command) if done.operation else ""
        if done.outcomes:
            screen.app.push_screen(TextDialog(f"Undone: {command}", outcome_lines(done)))
        else:
            screen.tell(f"undone: {command}")

    screen.work(lambda: _next_undo(screen, sid), ask)


def _next_undo(screen: BrowseScreen, sid: str) -> str:
    from gitsession.errors import Refused

    for description in screen.browser.store.unfinished():
        raise Refused(
            f"cannot undo: an earlier command, {description}, was interrupted",
            hint="run `gitsession rewind --continue` or `gitsession rewind --abort`",
        )
    return screen.browser.store.next_undo(session=sid)


_ACTION_STYLES = {
    "write": "added", "merge": "added", "written": "added", "remove": "removed", "removed": "removed",
    "leave": "tool", "conflict": "tool", "left": "tool",
}  # fmt: skip


def file_line(action: str, path: str, reason: str) -> list[Part]:
    """Return a line such as ``written  src/auth.py  the session changed it``."""
    return [(f"  {action:<8} ", _ACTION_STYLES.get(action, "")), (one_line(path), ""), (f"  {one_line(reason)}", "dim")]


def outcome_lines(done: RewindResult) -> list[list[Part]]:
    """Return the outcome of a rewind or an undo for each file."""
    head: list[list[Part]] = [[(f"in {one_line(done.workspace or '')}:", "dim")]] if done.outcomes else []
    return head + [file_line(one.action, one.path, one.reason) for one in done.outcomes]
