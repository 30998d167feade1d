"""Commands and options that start fast: click's own ones load ``inspect`` and ``gettext`` to prepare each help text.

``inspect`` alone takes as long as half of the start of Python. The help texts of this package need no preparation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click


class PlainOption(click.Option):
    """An option whose help text is used as it is written."""

    def __init__(self, *args: Any, help: str | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self.help = help


def _show_help(context: click.Context, _: click.Parameter, is_chosen: bool) -> None:
    if is_chosen and not context.resilient_parsing:
        click.echo(context.get_help(), color=context.color)
        context.exit()


@functools.cache
def _help_option(*names: str) -> PlainOption:
    return PlainOption(
        [*names, "_help"], is_flag=True, expose_value=False, is_eager=True, help="Show this message and exit.",
        callback=_show_help,
    )  # fmt: skip


class PlainCommand(click.Command):
    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        names = self.get_help_option_names(ctx) if self.add_help_option else ()
        return _help_option(*names) if names else None


class PlainGroup(PlainCommand, click.Group):
    command_class = PlainCommand


option = functools.partial(click.option, cls=PlainOption)
command = functools.partial(click.command, cls=PlainCommand)


def group(**settings: Any) -> Callable[[Callable[..., Any]], PlainGroup]:
    return click.group(cls=PlainGroup, **settings)
