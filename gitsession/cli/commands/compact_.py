"""``gitsession compact``"""

from __future__ import annotations

import dataclasses
import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

import click

from gitsession.cli import exits
from gitsession.cli.opening import App, with_app
from gitsession.cli.output import count, emit, json_option, say, warn
from gitsession.compaction.strategies import BY_ENTRY, DEFAULT, STRATEGIES
from gitsession.compaction.summarizers.options import APIS, Options, from_config
from gitsession.context import profiles
from gitsession.errors import SummaryFailed

if TYPE_CHECKING:
    from gitsession.api import Session
    from gitsession.compaction.value import Plan
    from gitsession.session.node import Node


@click.command()
@click.argument("session", metavar="[SESSION]", default="@")
@click.option("--strategy", type=click.Choice(list(STRATEGIES)), default=DEFAULT, help="Whose way.", show_default=True)
@click.option("--at", metavar="ENTRY", help="From, or up to, which entry; for the strategies of that name.")
@click.option("--keep-tokens", type=click.IntRange(0), help="How much of the end stays as it is.")
@click.option("--window", type=click.IntRange(1), help="How many tokens the model takes.")
@click.option(
    "--profile",
    type=click.Choice(list(profiles.PROFILES)),
    default=profiles.DEFAULT,
    help="By whose rules.",
    show_default=True,
)
@click.option("--summarizer", metavar="NAME", help="extractive (the default), command, http, or a plugin's.")
@click.option("--summarizer-command", metavar="WORDS", help="The program and its arguments; no shell runs.")
@click.option("--summarizer-api", type=click.Choice(APIS), help="How the server speaks.")
@click.option("--summarizer-url", metavar="URL", help="Its base address.")
@click.option("--model", metavar="NAME", help="Which model summarises.")
@click.option("--focus", metavar="TEXT", default="", help="What the summary must take care of.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@json_option
@with_app
def command(
    app: App,
    session: str,
    strategy: str,
    at: str | None,
    keep_tokens: int | None,
    window: int | None,
    profile: str,
    summarizer: str | None,
    summarizer_command: str | None,
    summarizer_api: str | None,
    summarizer_url: str | None,
    model: str | None,
    focus: str,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Let a summary stand for older entries from here on. Nothing is removed."""
    from gitsession.compaction.value import Ask

    if (at is None) == (strategy in BY_ENTRY):
        told = "is for" if at is not None else "is missing: it goes with"
        raise click.UsageError(f"--at ENTRY {told} --strategy {' and '.join(BY_ENTRY)}")
    found = app.session(session)
    entry = found.resolve(at) if at is not None else None
    ask = Ask(keep_tokens=keep_tokens, at=entry, window=window)
    plan = found.plan_compaction(strategy, profile=profile, ask=ask)
    if plan.nothing:
        if as_json:
            emit("compact", _document(plan, None, None, None))
        warn(f"gitsession: nothing to summarise: {plan.nothing}")
        return exits.NOTHING
    if dry_run:
        _show(plan, None, None, None, as_json=as_json)
        return exits.OK
    flags = {"name": summarizer, "api": summarizer_api, "url": summarizer_url, "model": model}
    node = _perform(found, plan, _options(flags, summarizer_command), focus)
    said = found.read(node)
    _show(plan, node, getattr(said, "tokens_after", None), getattr(said, "method", None), as_json=as_json)
    return exits.OK


def _perform(session: Session, plan: Plan, options: Options, focus: str) -> Node:
    from gitsession.compaction.summarizers import make
    from gitsession.compaction.writing import Writing

    def progress(words: str) -> None:
        if sys.stderr.isatty():
            warn(words)

    node = session.compact(plan, Writing(summarizer=make(options), focus=focus, progress=progress))
    assert node is not None
    return node


def _options(flags: dict[str, str | None], command: str | None) -> Options:
    """Flags come before the user's configuration. A command or an address alone says which summarizer is meant."""
    from gitsession.store import gitcli

    said: dict[str, Any] = {name: value for name, value in flags.items() if value is not None}
    if command is not None:
        try:
            said["command"] = tuple(shlex.split(command))
        except ValueError as error:
            raise SummaryFailed(f"--summarizer-command: {error}") from None
        said.setdefault("name", "command")
    elif "url" in said:
        said.setdefault("name", "http")
    return dataclasses.replace(from_config(gitcli.user_settings("gitsession.summarizer"), os.environ), **said)


def _show(plan: Plan, node: Node | None, after: int | None, method: str | None, *, as_json: bool) -> None:
    if as_json:
        emit("compact", _document(plan, node, after, method))
        return
    what = f"{count(_summarized(plan), 'entry', 'entries')} summarised, {len(plan.kept):,} kept as they are"
    if node is None:
        say(f"would be: {what}; {plan.tokens_before:,} tokens now")
    else:
        won = f"; {plan.tokens_before:,} -> {after:,} tokens" if after is not None else ""
        say(f"{node.oid[:8]} {what}{won}")
    for verb, paths in (("read", plan.files.read), ("modified", plan.files.modified)):
        for path in paths:
            say(f"  {verb:>8}  {path}")


def _document(plan: Plan, node: Node | None, after: int | None, method: str | None) -> dict[str, Any]:
    return {
        "id": node.oid if node else None,
        "first_kept": plan.first_kept.oid if plan.first_kept else None,
        "tokens_before": plan.tokens_before,
        "tokens_after": after,
        "summarized": _summarized(plan),
        "method": method,
        "strategy": plan.strategy,
        "kept": len(plan.kept),
        "read_files": list(plan.files.read),
        "modified_files": list(plan.files.modified),
        "nothing": plan.nothing or None,
    }


def _summarized(plan: Plan) -> int:
    return len(plan.history) + len(plan.prefix)
