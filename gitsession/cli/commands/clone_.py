"""``gitsession clone``"""

from __future__ import annotations

from pathlib import Path

import click

from gitsession.cli import exits, syncing, watching
from gitsession.cli.context import App, with_app
from gitsession.cli.output import emit, json_option, say


@click.command()
@click.argument("url")
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@click.option("--filter", metavar="SPEC", default="", help="Leave out until it is read, e.g. blob:limit=64k.")
@click.option("--namespace", metavar="NAME", default="", help="URL is shared with code: below refs/NAME/ there.")
@json_option
@with_app
def command(app: App, url: str, folder: Path | None, filter: str, namespace: str, as_json: bool) -> int:
    """Make a store of what is at URL, in DIR or where your store lies. URL is its remote `origin`."""
    from gitsession.api import Store

    path = folder or app.path
    with watching.progress(quiet=as_json):
        store, report = Store.clone(url, path, filter=filter, namespace=namespace, talk=syncing.talk())
    with store:
        refused = report.of("refused")
        if as_json:
            branches = [{"ref": one.ref, "outcome": one.outcome, "why": one.why or None} for one in report.branches]
            emit("clone", {"store": str(path), "branches": branches})
        else:
            say(syncing.summary(report, f"made a store at {path}"))
            for one in refused:
                say(f"refused   {one.ref.removeprefix('refs/heads/sessions/')}", fg="red")
                say(f"{'':10}{one.why}", dim=True)
    return exits.REFUSED if refused else exits.OK
