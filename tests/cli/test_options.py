"""Tests of the commands and options that start faster than click's."""

from __future__ import annotations

import click
import pytest

from gitsession.cli.options import command, option


@command()
@option("-n", "number", type=int)
@option("--all", "-a", "everything", is_flag=True)
@option("-v", "level", count=True)
@click.argument("rest", nargs=-1)
def example(number: int | None, everything: bool, level: int, rest: tuple[str, ...]) -> None: ...


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ("-n 3 x", (3, False, 0, ("x",))),
        ("x -n3", (3, False, 0, ("x",))),
        ("-an 3", (3, True, 0, ())),
        ("-a --all -vv -v", (None, True, 3, ())),
        ("-- -n", (None, False, 0, ("-n",))),
        ("-n -3", (-3, False, 0, ())),
    ],
)
def test_short_options_are_parsed_as_by_click(words: str, values: tuple[object, ...]) -> None:
    parsed = example.make_context("example", words.split()).params
    plain = click.Command("example", params=list(example.params)).make_context("example", words.split()).params
    assert parsed == plain
    assert tuple(parsed[name] for name in ("number", "everything", "level", "rest")) == values


@pytest.mark.parametrize("words", ["-x", "--xyz", "-nx", "-n", "-ax", "--"])
def test_invalid_options_have_the_same_error(words: str) -> None:
    def outcome(made: click.Command) -> str:
        try:
            return str(made.make_context("example", words.split()).params)
        except click.UsageError as error:
            return error.format_message()

    assert outcome(example) == outcome(click.Command("example", params=list(example.params)))
