"""Commands and options that start fast: click's own ones load ``inspect`` and ``gettext`` to prepare each help text.

``inspect`` alone takes as long as half of the start of Python. The help texts of this package need no preparation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.parser import _OptionParser


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

    def make_parser(self, ctx: click.Context) -> _OptionParser:
        """Return a parser that finds short names among the long ones, where click searches for each name first.

        For a name that it does not find there, click searches for similar names, which takes 2 ms.
        """
        parser = super().make_parser(ctx)
        parser._long_opt = parser._short_opt | parser._long_opt
        return parser


_PATHS = f"{__name__}.paths"


class CommandWithPaths(PlainCommand):
    """A command whose arguments after ``--`` are paths (``given_paths``), also if there are no arguments before it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # ``--`` before an address such as ``-@leaf`` was inserted by ``cli.app``.
        following = [*args[1:], ""]
        ends = (at for at, word in enumerate(args) if word == "--" and not following[at].startswith("-@"))
        end = next(ends, len(args))
        ctx.meta[_PATHS] = tuple(args[end + 1 :])
        return super().parse_args(ctx, args[:end])


def given_paths() -> tuple[str, ...]:
    """Return the arguments after ``--`` of the running command."""
    found: tuple[str, ...] = click.get_current_context().meta[_PATHS]
    return found


class PlainGroup(PlainCommand, click.Group):
    command_class = PlainCommand


option = functools.partial(click.option, cls=PlainOption)
command = functools.partial(click.command, cls=PlainCommand)


def group(**settings: Any) -> Callable[[Callable[..., Any]], PlainGroup]:
    return click.group(cls=PlainGroup, **settings)


# ---- options that several commands have

agent_option = option("--agent", metavar="AGENT", default="", help="Limit to sessions of this agent.")
project_option = option(
    "--project",
    metavar="PROJECT",
    default="",
    help="Limit to sessions of this project: a folder, or an identity such as github.com/owner/name.",
)
here_option = option(
    "--here",
    "in_folder",
    is_flag=True,
    help="Limit to sessions of the current folder, its parent folders, and its project.",
)
file_option = option(
    "--file",
    metavar="FILE",
    default="",
    help="Limit to sessions that changed this file, or a file in this folder.",
)


def most_option(things: str, default: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option ``-n``, the maximum number of ``things`` to show."""
    help = f"Show at most this many {things}. Default: {default}."
    return option("-n", "most", type=click.IntRange(1, 1_000_000), metavar="N", default=default, help=help)


def pick_option(help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option ``--pick``. ``cli.picking`` lets the user select a line."""
    return option("--pick", "picks", is_flag=True, help=help)
