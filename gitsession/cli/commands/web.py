"""The command ``gitsession serve``."""

from __future__ import annotations

import click

from gitsession import web
from gitsession.cli import exits
from gitsession.cli.invocation import App
from gitsession.cli.options import command, option
from gitsession.cli.output import say_painted, warn
from gitsession.cli.text import paint


@command()
@option("--port", type=click.IntRange(1, 65535), metavar="N", help="Listen on this port. Default: a free port.")
@option("--open", "opens", is_flag=True, help="Open the pages in the browser.")
@click.pass_obj
def serve_command(app: App, port: int | None, opens: bool) -> int:
    """Show all sessions as web pages, until you press Ctrl-C.

    The pages can be opened only on this machine, and only with the token in the printed address. They change nothing.
    A page of a session shows new entries while an agent works.
    """
    web.check_installed()
    store = app.store()
    from gitsession.cli.commands.stats import prices
    from gitsession.web.server import WebServer
    from gitsession.web.site import Site

    def report(error: Exception) -> None:
        warn(f"error: {error}")

    site = Site(store, store.secrets.guard(), app.drain_at_times, prices())
    with WebServer(site, port or 0, report) as server:
        say_painted([paint(server.address)])
        warn("hint: open this address in a browser on this machine; press Ctrl-C to stop")
        if opens:
            import webbrowser

            webbrowser.open(server.address)
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            warn("")
    return exits.OK
