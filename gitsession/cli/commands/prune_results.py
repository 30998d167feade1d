"""The command ``gitsession prune-results``."""

from __future__ import annotations

from typing import TypedDict

import click

import gitsession
from gitsession.cli import exits
from gitsession.cli.commands.context import item_lines, profile_option
from gitsession.cli.invocation import App
from gitsession.cli.options import command, option
from gitsession.cli.output import complain, emit, json_option, say, say_painted
from gitsession.line_text import count


@command(
    epilog="""\b
Examples:
  gitsession prune-results @ --dry-run     show which results would be removed
  gitsession prune-results @               remove old results from the context
  gitsession prune-results @ --protect-tokens 10000 --minimum-tokens 0
  gitsession undo                          undo the removal"""
)
@click.argument("session", metavar="[SESSION[@BRANCH]]", default="@")
@option(
    "--protect-tokens",
    type=click.IntRange(0),
    metavar="TOKENS",
    default=40_000,
    help="Keep the newest results with this number of tokens in total.",
    show_default=True,
)
@option(
    "--minimum-tokens",
    type=click.IntRange(0),
    metavar="TOKENS",
    default=20_000,
    help="Remove nothing unless more than this number of tokens is saved.",
    show_default=True,
)
@option(
    "--keep-turns",
    type=click.IntRange(0),
    metavar="N",
    default=2,
    help="Keep all results of the last N turns.",
    show_default=True,
)
@option(
    "--exclude-tool",
    "exclude_tools",
    metavar="TOOL",
    multiple=True,
    default=("skill",),
    help="Keep the results of this tool. Can be repeated. Default: skill.",
)
@profile_option
@option("--dry-run", is_flag=True, help="Only show which results would be removed.")
@json_option
@click.pass_obj
def prune_results_command(
    app: App,
    session: str,
    protect_tokens: int,
    minimum_tokens: int,
    keep_turns: int,
    exclude_tools: tuple[str, ...],
    profile: str | None,
    dry_run: bool,
) -> int:
    """Remove old tool results from the context.

    Stored entries do not change. The context at each earlier entry does not change.
    """
    from gitsession.context.policies import old_results, result_tokens

    found = app.branch(session)
    limits = _Limits(protect=protect_tokens, least=minimum_tokens, keep_turns=keep_turns, exclude_tools=exclude_tools)
    rule = old_results(**limits)
    results = found.compaction.plan_prune(rule, profile=profile)
    node = None if dry_run else found.compaction.prune(rule, profile=profile, parts=True, undoable=True)
    sizes = [result_tokens(item) for item in results]
    removed = [
        {"id": item.oid, "tool": getattr(item.entry, "tool_name", None), "tokens": size}
        for item, size in zip(results, sizes, strict=True)
    ]
    reason, hint = ("", "") if results else _why_nothing(found, profile, limits)
    emit(
        "prune-results",
        {
            "session": found.id,
            "branch": found.branch_name,
            "id": node.oid if node else None,
            "tokens": sum(sizes),
            "results": removed,
            "nothing": reason or None,
        },
    )
    if reason:
        complain(f"no results to remove: {reason}", hint=hint)
        return exits.NOTHING
    verb = "removed" if node else "would remove"
    say(f"{verb} {count(len(results), 'result')} from the context, about {sum(sizes):,} tokens")
    names = [getattr(item.entry, "tool_name", None) or "tool" for item in results]
    say_painted(item_lines(list(zip(results, names, sizes, strict=True)), indent="  "))
    return exits.OK


class _Limits(TypedDict):
    """The arguments of ``old_results``."""

    protect: int
    least: int
    keep_turns: int
    exclude_tools: tuple[str, ...]


def _why_nothing(session: gitsession.Session, profile: str | None, limits: _Limits) -> tuple[str, str]:
    """Return the reason why no result is removed, and a hint."""
    from gitsession.context.policies import old_results, result_tokens

    def found(limits: _Limits) -> tuple[str, int]:
        results = session.compaction.plan_prune(old_results(**limits), profile=profile)
        return count(len(results), "result"), sum(map(result_tokens, results))

    results, tokens = found({**limits, "least": 0})
    if tokens:
        problem = f"the saving is too small, about {tokens:,} tokens in {results}"
        return problem, f"pass a --minimum-tokens below {tokens:,}"
    results, tokens = found({"protect": 0, "least": 0, "keep_turns": 0, "exclude_tools": ()})
    if tokens:
        problem = f"all are kept, about {tokens:,} tokens in {results}"
        return problem, "pass a lower --protect-tokens or --keep-turns, or another --exclude-tool"
    return "the context has no tool results, or only removed ones", ""
