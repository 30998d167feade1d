"""``gitsession receive``"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from gitsession.cli import exits
from gitsession.cli.output import count, warn

_SHOWN = 50


@click.command()
@click.argument("when", type=click.Choice(["pre", "post"]))
def command(when: str) -> int:
    """What the hooks of a server run (docs/server.md): judge what is pushed, and take out what was purged.

    Reads what git tells its hooks `pre-receive` and `post-receive`, in a repository that is being pushed to.
    """
    from gitsession.server import receive

    git_dir = Path(os.path.abspath(os.environ.get("GIT_DIR", ".")))
    with open(sys.stdin.fileno(), encoding="utf-8", errors="surrogateescape", closefd=False) as told:
        moves = receive.moves(told)
    if when == "post":
        applied = receive.post(git_dir)
        if applied is not None and applied.moved:
            warn(f"gitsession: taken out here too: {count(len(applied.moved), 'ref')} rewritten")
        return exits.OK
    refusals = receive.pre(git_dir, moves, os.environ)
    for refusal in refusals[:_SHOWN]:
        warn(f"gitsession: {refusal}")
    if len(refusals) > _SHOWN:
        warn(f"gitsession: and {len(refusals) - _SHOWN:,} more")
    if refusals:
        warn(f"gitsession: nothing of this push is taken in: {count(len(refusals), 'ref is', 'refs are')} refused")
    return exits.REFUSED if refusals else exits.OK
