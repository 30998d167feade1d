"""The command ``gitsession compact``."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Callable, Iterable
from typing import Any

import click
from click.core import ParameterSource

import gitsession
from gitsession.cli import exits
from gitsession.cli.commands.context import as_lines, breakdown, profile_option, window_option
from gitsession.cli.invocation import App
from gitsession.cli.options import command, option
from gitsession.cli.output import complain, emit, json_option, say, say_painted, warn
from gitsession.cli.text import paint, width
from gitsession.compaction.perform import tokens_after
from gitsession.compaction.strategies import BY_ENTRY, DEFAULT, STRATEGIES
from gitsession.compaction.summarizers import make
from gitsession.compaction.summarizers.options import APIS, Options, users_options
from gitsession.context import profiles
from gitsession.dataclass import dataclass
from gitsession.errors import SummaryFailed
from gitsession.line_text import count, shorten
from gitsession.model.entries import Compaction


@command(
    epilog="""\b
Examples:
  gitsession compact @ --dry-run           show what would be summarized and kept
  gitsession compact @                     summarize by rules, without a model
  gitsession compact @ --summarizer-command "claude -p" --focus "the migration"
  gitsession compact @ --strategy from --at leaf~10
  gitsession compact --auto                compact by the configured policy, if it is due
  gitsession undo                          undo the compaction

\b
To change the default summarizer, run git config --global gitsession.summarizer NAME.
docs/reference/compaction.md lists the other settings."""
)
@click.argument("session", metavar="[SESSION]", default="@")
@option(
    "--auto",
    is_flag=True,
    help="Compact by the policy in git's configuration, and only if a compaction is due.",
)
@option(
    "--strategy",
    type=click.Choice(list(STRATEGIES)),
    default=DEFAULT,
    help="Strategy that selects the entries to summarize.",
    show_default=True,
)
@option(
    "--at",
    metavar="ENTRY",
    help="With --strategy from: summarize from this entry to the tip. With up-to: summarize the entries before it.",
)
@option(
    "--keep-tokens",
    type=click.IntRange(0),
    metavar="TOKENS",
    help="Keep about this many tokens at the end of the context. Default for --strategy pi: 20,000.",
)
@window_option
@profile_option
@option("--summarizer", metavar="NAME", help="Summarizer: extractive (default), command, http, or a plugin.")
@option(
    "--summarizer-command",
    metavar="COMMAND",
    help="Command that writes the summary. It runs without a shell.",
)
@option("--summarizer-api", type=click.Choice(APIS), help="API of the server that runs the model.")
@option("--summarizer-url", metavar="URL", help="Base URL of the server that runs the model.")
@option("--model", metavar="NAME", help="Model that writes the summary.")
@option("--focus", metavar="TOPIC", default="", help="Topic that the summary must cover.")
@option(
    "--dry-run",
    is_flag=True,
    help="Only show what would be summarized and what would be kept, with the size of each in tokens.",
)
@json_option
@click.pass_obj
def compact_command(
    app: App,
    session: str,
    auto: bool,
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
) -> int:
    """Replace older entries in the context with a summary.

    No entry is deleted. The context at each earlier entry does not change.
    """
    if auto:
        _refuse_options_of_the_policy()
        found = app.session(session)
        with found.compaction.due(window=window, profile=profile, lock=not dry_run) as plan:
            if plan.nothing:
                emit("compact", as_document(_planned(found, plan)))
                say(f"no compaction is due: {plan.nothing}")
                return exits.OK
            return _run(found, plan, found.compaction.policy.summary_options, focus=focus, dry_run=dry_run)
    if (at is None) == (strategy in BY_ENTRY):
        names = " or ".join(BY_ENTRY)
        raise click.UsageError(
            f"--at ENTRY requires --strategy {names}" if at is not None else f"--strategy {names} requires --at ENTRY"
        )
    found = app.session(session)
    entry = found.resolve(at) if at is not None else None
    request = gitsession.CompactionRequest(keep_tokens=keep_tokens, at=entry, window=window)
    plan = found.compaction.plan(strategy, profile=profile, request=request)
    if plan.nothing:
        done = _planned(found, plan)
        emit("compact", as_document(done))
        complain(f"nothing to summarize: {plan.nothing}", hint=_why_nothing(found, done.before.tokens.used, strategy))
        return exits.NOTHING
    flags = {"name": summarizer, "api": summarizer_api, "url": summarizer_url, "model": model}
    options = _options(flags, summarizer_command)
    return _run(found, plan, lambda: _summary_options(options), focus=focus, dry_run=dry_run)


_OF_THE_POLICY = (
    "strategy", "at", "keep_tokens", "summarizer", "summarizer_command", "summarizer_api", "summarizer_url", "model",
)  # fmt: skip
"""Parameters that cannot be combined with ``--auto``."""


def _refuse_options_of_the_policy() -> None:
    """Raise ``UsageError`` if ``--auto`` is combined with an option that the policy determines."""
    ctx = click.get_current_context()
    given = [name for name in _OF_THE_POLICY if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if given:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise click.UsageError(f"--auto cannot be combined with {flags}: the configured policy determines this")


def _planned(session: gitsession.Session, plan: gitsession.Plan) -> CompactionOutcome:
    return CompactionOutcome(session=session, plan=plan, before=session.context(profile=plan.profile))


def _summary_options(options: Options) -> gitsession.SummaryOptions:
    return gitsession.SummaryOptions(summarizer=make(options))


def _run(
    session: gitsession.Session,
    plan: gitsession.Plan,
    summary_options: Callable[[], gitsession.SummaryOptions],
    *,
    focus: str,
    dry_run: bool,
) -> int:
    """Apply a plan unless this is a dry run, print the result, and return the exit code.

    ``summary_options``: function that returns the summarizers, or raises ``SummaryFailed`` for an invalid setting.
    """
    done = _planned(session, plan)
    if not dry_run:
        try:
            done = _perform(done, summary_options(), focus)
        except SummaryFailed as error:
            complain(f"{error} (nothing was written)", hint=error.hint)
            return exits.TRY_AGAIN
        except KeyboardInterrupt:
            if session.leaf is not None and session.leaf.oid == plan.leaf:
                warn("error: interrupted (nothing was written)")
            return exits.INTERRUPTED
    emit("compact", as_document(done))
    say_painted(as_text(done))
    return exits.OK


def _why_nothing(session: gitsession.Session, tokens: int, strategy: str) -> str:
    """Return the hint if there is nothing to summarize."""
    if tokens == 0:
        return "pass a session that is not empty"
    if strategy in BY_ENTRY or (session.leaf is not None and session.leaf.kind == Compaction.kind):
        return ""
    return f"pass a --keep-tokens below the {tokens:,} tokens of the context"


def _perform(planned: CompactionOutcome, options: gitsession.SummaryOptions, focus: str) -> CompactionOutcome:
    def progress(text: str) -> None:
        if sys.stderr.isatty():
            warn(text)

    session = planned.session
    options = dataclasses.replace(options, focus=focus, progress=progress)
    node = session.compact(planned.plan, options, undoable=True)
    assert node is not None
    entry = session.read(node)
    after = session.context(node, profile=planned.plan.profile)
    return dataclasses.replace(
        planned,
        after=after,
        node=node,
        tokens_after=entry.tokens_after if isinstance(entry, Compaction) else after.tokens.used,
        method=getattr(entry, "method", None),
    )


def _options(flags: dict[str, str | None], command: str | None) -> Options:
    """Return the user's configuration, with ``flags`` applied. A command or a URL also selects a summarizer."""
    values: dict[str, Any] = {name: value for name, value in flags.items() if value is not None}
    if command is not None:
        try:
            values["command"] = tuple(shlex.split(command))
        except ValueError as error:
            raise click.UsageError(f"invalid value for --summarizer-command: {error}") from None
        values.setdefault("name", "command")
    elif "url" in values:
        values.setdefault("name", "http")
    return dataclasses.replace(users_options(), **values)


_FILES_MAX = 10
"""Maximum number of paths in a list. ``--json`` lists all paths."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactionOutcome:
    """The result of ``compact``: the plan and the old context. If the plan was applied, also the entry and new context.

    ``tokens_after``: the number of tokens in the compaction entry, or else in ``after``. Some profiles use token counts
    that the provider reported for earlier entries. With them, ``after`` does not show the reduction immediately.
    """

    session: gitsession.Session
    plan: gitsession.Plan
    before: gitsession.Context
    after: gitsession.Context | None = None
    node: gitsession.Node | None = None
    tokens_after: int | None = None
    method: str | None = None


def as_document(done: CompactionOutcome) -> dict[str, Any]:
    """Return the JSON document of ``compact``."""
    plan, after = done.plan, done.after
    entries = (*plan.history, *plan.prefix)
    return {
        "session": done.session.id,
        "branch": done.session.branch_name,
        "id": done.node.oid if done.node else None,
        "first_kept": plan.first_kept.oid if plan.first_kept else None,
        "tokens_before": done.before.tokens.used,
        "tokens_after": done.tokens_after,
        "tokens_summarized": plan.replaced,
        "tokens_kept": tokens_after(plan, ""),
        "summarized": len(entries),
        "summarized_from": entries[0].oid if entries else None,
        "summarized_to": entries[-1].oid if entries else None,
        "split_turn": len(plan.prefix),
        "carries_on": bool(plan.previous),
        "method": done.method,
        "strategy": plan.strategy,
        "kept": len(plan.kept),
        "onto": plan.onto.oid if plan.onto else None,
        "read_files": list(plan.files.read),
        "modified_files": list(plan.files.modified),
        "breakdown": {
            "before": breakdown(done.before.tokens),
            "after": breakdown(after.tokens) if after else None,
        },
        "nothing": plan.nothing or None,
    }


def as_text(done: CompactionOutcome) -> list[str]:
    """Return the text output of ``compact``: the summarized entries, the remaining entries, and the saved tokens."""
    head = [] if done.node is None else [f"{paint(done.node.oid[:8], fg='yellow')}  {paint(done.node.subject)}", ""]
    now, then = done.before.tokens, done.after.tokens if done.after else None
    wins = f"{now.used:,} before, {done.tokens_after or 0:,} now"
    if done.tokens_after is None:
        wins = f"{now.used:,} now, then about {tokens_after(done.plan, ''):,} and those of the summary"
    return [
        *head,
        *_summarised(done.plan, done=done.node is not None),
        *_kept_text(done),
        _fact("tokens", wins),
        *(_table(now, then) if then is not None else []),
        *_files("read", done.plan.files.read),
        *_files("modified", done.plan.files.modified),
    ]


def _summarised(plan: gitsession.Plan, *, done: bool) -> Iterable[str]:
    entries = (*plan.history, *plan.prefix)
    yield _fact("summarized" if done else "summarize", f"{_entries(len(entries))}, about {plan.replaced:,} tokens")
    yield from _ends(plan, entries)
    if plan.previous:
        yield _fact("", "together with the previous summary")
    if plan.prefix:
        yield _fact("", f"{_entries(len(plan.prefix))} of a turn whose end is kept: summarized separately")


def _kept_text(done: CompactionOutcome) -> Iterable[str]:
    plan = done.plan
    if plan.onto is not None:
        onto = shorten(f"{plan.onto.oid[:8]}  {plan.onto.subject}", width() - 40)
        yield _fact("kept", f"all up to {onto}")
        yield _fact("", f"the session continues there{f', on branch {done.session.branch_name}' if done.node else ''}")
        yield _fact("", "the summarized entries stay on their own branch")
        return
    yield _fact("kept", f"{_entries(len(plan.kept))}, about {tokens_after(plan, ''):,} tokens" if plan.kept else "none")
    yield from _ends(plan, plan.kept[:1])


def _ends(plan: gitsession.Plan, items: tuple[Any, ...]) -> list[str]:
    """Return lines that describe the first and the last of ``items``."""
    return as_lines(items[:1] + items[1:][-1:], profiles.profile(plan.profile).estimate, indent=" " * 14)


def _table(before: gitsession.Tokens, after: gitsession.Tokens) -> Iterable[str]:
    """Yield lines with the number of tokens before and after, by role and by kind."""
    counts = {"by role": (before.by_role, after.by_role), "by kind": (before.by_kind, after.by_kind)}
    room = max((len(name) for was, is_now in counts.values() for name in (*was, *is_now)), default=0)
    for title, (was, is_now) in counts.items():
        names = list(dict.fromkeys([*was, *is_now]))
        for name in names:
            change = f"{name.ljust(room)}  {was.get(name, 0):>9,} -> {is_now.get(name, 0):>9,}"
            yield _fact("" if name != names[0] else title, change)


def _files(verb: str, paths: tuple[str, ...]) -> Iterable[str]:
    if paths:
        yield _fact(verb, count(len(paths), "file"))
        yield from (paint(f"{'':14}{path}") for path in paths[:_FILES_MAX])
        if len(paths) > _FILES_MAX:
            yield f"{'':14}and {len(paths) - _FILES_MAX:,} more; --json lists all"


def _fact(name: str, value: str) -> str:
    return paint(f"{name:>12}  {value}")


def _entries(number: int) -> str:
    return count(number, "entry", "entries")
