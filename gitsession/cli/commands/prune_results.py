"""The command ``gitsession prune-results``."""

from __future__ import annotations

import click

import gitsession
from gitsession.cli import exits
from gitsession.cli.commands.context import as_lines, profile_option
from gitsession.cli.invocation import App
from gitsession.cli.options import command, option
from gitsession.cli.output import complain, emit, json_option, say, say_painted
from gitsession.context import profiles
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
    from gitsession.context.policies import old_results

    found = app.branch(session)
    rule = old_results(protect=protect_tokens, least=minimum_tokens, keep_turns=keep_turns, exclude_tools=exclude_tools)
    results = found.compaction.plan_prune(rule, profile=profile)
    node = None if dry_run else found.compaction.prune(rule, profile=profile, parts=True, undoable=True)
    _print(found, results, node, profiles.profile(found.context(profile=profile).profile))
    return exits.OK if results else exits.NOTHING


def _print(
    session: gitsession.Session, results: list[gitsession.Item], node: gitsession.Node | None, rules: profiles.Profile
) -> None:
    from gitsession.context.policies import result_tokens

    sizes = [result_tokens(item) for item in results]
    removed = [
        {"id": item.oid, "tool": getattr(item.entry, "tool_name", None), "tokens": size}
        for item, size in zip(results, sizes, strict=True)
    ]
    document = {"session": session.id, "branch": session.branch_name, "id": node.oid if node else None}
    emit("prune-results", {**document, "tokens": sum(sizes), "results": removed})
    if not results:
        complain("no results to remove", hint="pass a lower --protect-tokens, --minimum-tokens or --keep-turns")
        return
    say(f"{'removed' if node else 'would remove'} {count(len(results), 'result')}, about {sum(sizes):,} tokens")
    say_painted(as_lines(results, rules.estimate, indent="  "))
