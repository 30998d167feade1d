"""Resumption of a session in an agent, after its plan was shown."""

from __future__ import annotations

from gitsession.api import Session
from gitsession.browse.dialogs import Choose
from gitsession.browse.screen import BrowseScreen
from gitsession.browse.text import one_line
from gitsession.exporting.resume import ResumePlan
from gitsession.formats import Resumable, all_with_capability
from gitsession.line_text import count
from gitsession.sessions.node import Node


def resume(screen: BrowseScreen, session: Session, at: Node | None) -> None:
    """Let the user select an agent, show what would be written, and end the browser with the command to run.

    Args:
        screen: The screen that asks.
        session: The session.
        at: The entry from which the session continues. Defaults to the tip of the active branch.
    """
    agents = list(all_with_capability(Resumable))
    row = screen.browser.store.catalogue().session(session.id)
    if row is not None and row.agent in agents:
        agents.insert(0, agents.pop(agents.index(row.agent)))

    def plan(index: int | None) -> None:
        if index is not None:
            agent = agents[index]
            folder = screen.browser.folder
            screen.work(
                lambda: screen.browser.store.agents.resume(session.id, at, agent=agent, cwd=folder, dry_run=True),
                lambda found: confirm(agent, found),
            )

    def confirm(agent: str, found: ResumePlan) -> None:
        lost = sum(found.export.notes.values()) + found.export.left_out
        notes = f", {count(lost, 'entry or block', 'entries and blocks')} adapted or left out" if lost else ""
        title = f"Continue in {agent}: {one_line(str(found.file))}{notes}"
        address = f"{session.id}@{at.oid}" if at is not None else session.id
        command = [address, "--in", agent]
        options = [f"quit and start {agent}", "quit, and print the command to run"]

        def leave(choice: int | None) -> None:
            if choice is not None:
                screen.app.exit([*command, "--run"] if choice == 0 else command)

        screen.app.push_screen(Choose(title, options), leave)

    own = " (wrote this session)" if row is not None and row.agent == agents[0] else ""
    shown = [agent + (own if at == 0 else "") for at, agent in enumerate(agents)]
    screen.app.push_screen(Choose("Continue in which agent?", shown), plan)
