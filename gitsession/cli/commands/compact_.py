"""``gitsession compact``"""

from __future__ import annotations

import dataclasses
import shlex
import sys
from typing import TYPE_CHECKING, Any

import click

from gitsession.cli import exits
from gitsession.cli.context import App, with_app
from gitsession.cli.output import complain, emit, json_option, say_line, warn
from gitsession.compaction.plan import CompactionRequest
from gitsession.compaction.strategies import BY_ENTRY, DEFAULT, STRATEGIES
from gitsession.compaction.summarizers import make
from gitsession.compaction.summarizers.options import APIS, Options
from gitsession.context import profiles
from gitsession.errors import SummaryFailed
from gitsession.model.entries import Compaction

if TYPE_CHECKING:
    from gitsession.api import Session
    from gitsession.cli.compactions import CompactionOutcome


@click.command(
    epilog="""\b
Examples:
  gitsession compact @ --dry-run           what would be summarised, and what kept
  gitsession compact @                     by rule, without a model
  gitsession compact @ --summarizer-command "claude -p" --focus "the migration"
  gitsession compact @ --strategy from --at leaf~10
  gitsession undo                          takes it back

\b
Settings for every time: git config --global gitsession.summarizer, and more;
docs/compaction.md lists them."""
)
@click.argument("session", metavar="[SESSION]", default="@")
@click.option(
    "--strategy",
    type=click.Choice(list(STRATEGIES)),
    default=DEFAULT,
    help="Who decides what is summarised.",
    show_default=True,
)
@click.option("--at", metavar="ENTRY", help="For --strategy from or up-to: which entry.")
@click.option("--keep-tokens", type=click.IntRange(0), help="How much of the end stays as it is.  [pi: 20,000]")
@click.option("--window", type=click.IntRange(1), help="How many tokens the model takes.")
@click.option(
    "--profile",
    type=click.Choice(list(profiles.PROFILES)),
    help="By whose rules; without it, by those of the session's own agent.",
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
    profile: str | None,
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
    from gitsession.cli.compactions import CompactionOutcome, as_document, as_text

    if (at is None) == (strategy in BY_ENTRY):
        told = "is for" if at is not None else "is missing: it goes with"
        raise click.UsageError(f"--at ENTRY {told} --strategy {' and '.join(BY_ENTRY)}")
    found = app.session(session)
    entry = found.resolve(at) if at is not None else None
    ask = CompactionRequest(keep_tokens=keep_tokens, at=entry, window=window)
    plan = found.compaction.plan(strategy, profile=profile, ask=ask)
    before = found.context(profile=profile)
    done = CompactionOutcome(session=found.id, branch=found.branch_name, plan=plan, before=before)
    if plan.nothing:
        if as_json:
            emit("compact", as_document(done))
        complain(f"nothing to summarise: {plan.nothing}", hint=_why_nothing(found, before.tokens.used, strategy))
        return exits.NOTHING
    flags = {"name": summarizer, "api": summarizer_api, "url": summarizer_url, "model": model}
    options = _options(flags, summarizer_command)
    if not dry_run:
        try:
            done = _perform(found, done, options, focus)
        except SummaryFailed as error:
            complain(str(error), hint="; ".join(filter(None, [error.hint, "nothing was written"])))
            return exits.TRY_AGAIN
        except KeyboardInterrupt:
            if found.leaf is not None and found.leaf.oid == plan.leaf:
                warn("gitsession: interrupted; nothing was written")
            return exits.INTERRUPTED
    if as_json:
        emit("compact", as_document(done))
    else:
        for line in as_text(done):
            say_line(line)
    return exits.OK


def _why_nothing(session: Session, tokens: int, strategy: str) -> str:
    """What to try, where all of a context fits into what is kept."""
    if tokens == 0:
        return "nothing was said yet"
    if strategy in BY_ENTRY or (session.leaf is not None and session.leaf.kind == Compaction.kind):
        return ""
    return f"it takes {tokens:,} tokens in all; --keep-tokens says how many of the end stay"


def _perform(session: Session, planned: CompactionOutcome, options: Options, focus: str) -> CompactionOutcome:
    from gitsession.compaction.write_summary import SummaryOptions

    def progress(words: str) -> None:
        if sys.stderr.isatty():
            warn(words)

    how = SummaryOptions(summarizer=make(options), focus=focus, progress=progress)
    node = session.compact(planned.plan, how, undoable=True)
    assert node is not None
    said = session.read(node)
    after = session.context(node, profile=planned.plan.profile)
    return dataclasses.replace(
        planned,
        branch=session.branch_name,
        after=after,
        node=node,
        tokens_after=said.tokens_after if isinstance(said, Compaction) else after.tokens.used,
        method=getattr(said, "method", None),
    )


def _options(flags: dict[str, str | None], command: str | None) -> Options:
    """Flags come before the user's configuration. A command or an address alone says which summarizer is meant."""
    from gitsession.api.compaction import users_options

    said: dict[str, Any] = {name: value for name, value in flags.items() if value is not None}
    if command is not None:
        try:
            said["command"] = tuple(shlex.split(command))
        except ValueError as error:
            raise click.UsageError(f"--summarizer-command: {error}") from None
        said.setdefault("name", "command")
    elif "url" in said:
        said.setdefault("name", "http")
    return dataclasses.replace(users_options(), **said)
