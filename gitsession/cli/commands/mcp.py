"""The command ``gitsession mcp``, which serves the sessions to an agent by the Model Context Protocol."""

from __future__ import annotations

import contextlib
import os
import sys

import click

from gitsession import __version__, paths
from gitsession.cli.invocation import App
from gitsession.cli.options import command, option


@command()
@option("--allow-write", "writes", is_flag=True, help="Also offer tools that write to the store: make_checkpoint.")
@click.pass_context
def mcp_command(ctx: click.Context, writes: bool) -> None:
    """Serve recorded sessions to an agent by the Model Context Protocol.

    The agent can search and read sessions, and plan rewinds. Secrets are withheld. Requests are read from standard
    input, and answers are written to standard output. The server ends when standard input ends.
    """
    from gitsession.jsonrpc.server import RpcServer
    from gitsession.mcp import protocol

    app: App = ctx.obj
    chosen = (ctx.parent.params["store"] if ctx.parent is not None else None) or os.environ.get(paths.VARIABLE)
    program = ["gitsession", *(["--store", os.path.abspath(chosen)] if chosen else [])]
    served = protocol.McpProtocol(app.store, app.drain_at_times, version=__version__, program=program, writes=writes)
    server = RpcServer(
        served.answer, protocol.CONCURRENT, sys.stdout.buffer, cancelling=protocol.CANCELLING, batch_max=0
    )
    with contextlib.redirect_stdout(sys.stderr):  # for what plugins print
        server.serve(sys.stdin.buffer)
