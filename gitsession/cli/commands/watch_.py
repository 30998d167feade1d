"""``gitsession watch``"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gitsession.cli import exits
from gitsession.cli.context import App, with_app
from gitsession.cli.output import count, current_folder, on_a_line, say_line, warn

if TYPE_CHECKING:
    from gitsession.api import Store
    from gitsession.live.watch import Found


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("--once", is_flag=True, help="Look once, and end.")
@click.option("--every", type=click.FloatRange(0.1), metavar="SECONDS", help="Between two looks: else 2.")
@with_app
def command(app: App, paths: tuple[Path, ...], once: bool, every: float | None) -> int:
    """Take in what agents write as they write it, until Ctrl-C: for agents that run no hooks.

    PATHS: only these files and folders, not all that agents keep.
    """
    from gitsession.api.imports import Imports
    from gitsession.live.watch import EVERY_SECONDS, Watch

    store = app.store(make=True)
    watch = Watch(lambda: _files(store, paths))
    failed: set[tuple[str, str]] = set()
    while True:
        app.drain()
        changed = watch.round()
        if changed:
            imports = Imports(store.agents, logged=False)
            try:
                for path, format in changed:
                    imports.take(path, format)
                imports.take_what_waits()
            finally:
                imports.finish()
            for path, agent, done in imports.done:
                if done.new:
                    news = count(done.new, "new entry", "new entries")
                    say_line(on_a_line(f"{done.session}  {agent}  {news}  {path.name}"))
            for failure in imports.failed:
                if (failure.path, failure.what) not in failed:
                    failed.add((failure.path, failure.what))
                    warn(f"gitsession: {failure.path}: {failure.what}")
        if once:
            return exits.NOT_FOUND if failed else exits.OK
        time.sleep(every or EVERY_SECONDS)


def _files(store: Store, paths: tuple[Path, ...]) -> Iterator[Found]:
    from gitsession.discovery import discover

    if paths:
        yield from ((path, None) for path in discover.under(paths))
        return
    yield from discover.everywhere(Path.home(), os.environ)
    held = [row.project for row in store.sessions()]
    yield from discover.in_projects(Path(folder) for folder in dict.fromkeys([current_folder(), *held]) if folder)
