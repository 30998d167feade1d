"""``gitsession completion``"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a script for tab completion: `eval "$(gitsession completion bash)"` in your shell's start file."""
    found = get_completion_class(shell)
    assert found is not None
    from gitsession.cli.app import COMPLETING, NAME

    click.echo(found(ctx.find_root().command, {}, NAME, COMPLETING).source())
