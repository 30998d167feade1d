"""``gitsession`` without a command: where the store is, and the newest sessions of this folder."""

from __future__ import annotations

import os

from gitsession.cli.opening import App, here
from gitsession.cli.output import count, paged, say
from gitsession.cli.sessions import table

NEWEST = 10


def show_status(app: App) -> None:
    if not os.path.lexists(app.path):
        say("No store yet.")
        say("  gitsession import --all    imports the sessions that your agents keep")
        say("  gitsession demo            shows what it is, in a folder of its own")
        say("  gitsession --help          lists the commands")
        from gitsession.cli import sweeping

        sweep = sweeping.look(None)
        if sweep.soon:
            say()
            say(sweeping.words(sweep))
        return
    from gitsession.index.here import of_folder

    rows = app.catalogue().sessions()
    held = of_folder(rows, here())
    say(f"{count(len(rows), 'session')}, {len(held)} of this folder or its project")
    say(f"  in {app.path}")
    app.warn_of_damage()
    shown = (held or rows)[:NEWEST]
    if shown:
        say()
        say("The newest here:" if held else "\nThe newest:")
        paged(table(shown))
    else:
        say("  gitsession import --all    imports the sessions that your agents keep")
