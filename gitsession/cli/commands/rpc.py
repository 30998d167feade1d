"""The command ``gitsession rpc``, which serves the store to another program by JSON-RPC."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import click

from gitsession import __version__
from gitsession.cli.invocation import App
from gitsession.cli.options import command, option
from gitsession.cli.output import emit_bare


@command()
@option("--schema", "describes", is_flag=True, help="Print the OpenRPC document of the methods, and exit.")
@click.pass_obj
def rpc_command(app: App, describes: bool) -> None:
    """Serve the store to another program by JSON-RPC 2.0.

    Requests are read from standard input, and answers and events are written to standard output, one JSON message on
    each line. The server ends when standard input ends.
    """
    from gitsession.cli.rpc import methods, openrpc
    from gitsession.cli.rpc.service import RpcService
    from gitsession.jsonrpc.server import CODES, RpcServer, arguments

    if describes:
        errors = [(code, kind.__name__) for kind, code in CODES.items()]
        emit_bare(openrpc.openrpc(methods.METHODS, __version__, errors))
        return
    store = app.store(make=True)

    def answer(name: str, params: object) -> Any:
        given = arguments(methods.METHODS, name, params)  # refuses a method that does not exist
        return methods.METHODS[name](service, **given)

    server = RpcServer(answer, methods.CONCURRENT, sys.stdout.buffer)
    service = RpcService(store, server.notify, app.drain)
    try:
        with contextlib.redirect_stdout(sys.stderr):  # for what plugins print
            server.serve(sys.stdin.buffer)
    finally:
        service.subscriptions.close()
