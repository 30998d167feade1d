"""Asking before something goes for good."""

from __future__ import annotations

import sys

import click

from gitsession.cli import output
from gitsession.errors import Refused

consent_option = click.option("--yes", "consent", is_flag=True, help="Do not ask; without a terminal it must be said.")


def confirm(question: str, *, consent: bool) -> None:
    """Raises ``UsageError`` where nobody can be asked, ``Refused`` where the answer is no."""
    if consent:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.UsageError(f"{question} nobody can be asked here: say --yes")
    if not output.confirm(question):
        raise Refused("nothing is purged")
