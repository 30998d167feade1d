"""``gitsession textconv``: for git, which asks it what an entry of ours says (docs/git.md)."""

from __future__ import annotations

import json
from pathlib import Path

import click

from gitsession.codec import cbor
from gitsession.errors import Malformed


@click.command(hidden=True)
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
def command(file: Path) -> None:
    """Print an entry.cbor as JSON."""
    data = file.read_bytes()
    try:
        value = cbor.decode(data)
    except Malformed as error:
        click.echo(f"{len(data)} bytes that have holes, or are no entry: {error}")
        return
    click.echo(json.dumps(value, indent=2, ensure_ascii=True, default=lambda part: part.hex()))
