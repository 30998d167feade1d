"""How a compaction looks: planned, and done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gitsession.cli.items import as_lines
from gitsession.cli.output import count, paint, shorten, width
from gitsession.compaction.perform import tokens_after
from gitsession.compaction.plan import Plan
from gitsession.context import profiles
from gitsession.context.value import Context, Tokens
from gitsession.sessions.node import Node

_FILES_MAX = 10
"""So many of each list are shown; ``--json`` has them all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactionOutcome:
    """A plan, what the model saw ``before``, and where it was done, what it sees ``after``, and the entry.

    ``tokens_after``: what the entry says, else what the context takes. Agents whose rules trust a provider's count for
    what a compaction kept do not see at once that it has become less.
    """

    session: str
    branch: str
    plan: Plan
    before: Context
    after: Context | None = None
    node: Node | None = None
    tokens_after: int | None = None
    method: str | None = None


def as_document(done: CompactionOutcome) -> dict[str, Any]:
    """What ``compact`` says, for programs."""
    plan, after = done.plan, done.after
    taken = (*plan.history, *plan.prefix)
    return {
        "session": done.session,
        "branch": done.branch,
        "id": done.node.oid if done.node else None,
        "first_kept": plan.first_kept.oid if plan.first_kept else None,
        "tokens_before": done.before.tokens.used,
        "tokens_after": done.tokens_after,
        "tokens_summarized": plan.replaced,
        "tokens_kept": tokens_after(plan, ""),
        "summarized": len(taken),
        "summarized_from": taken[0].oid if taken else None,
        "summarized_to": taken[-1].oid if taken else None,
        "split_turn": len(plan.prefix),
        "carries_on": bool(plan.previous),
        "method": done.method,
        "strategy": plan.strategy,
        "kept": len(plan.kept),
        "onto": plan.onto.oid if plan.onto else None,
        "read_files": list(plan.files.read),
        "modified_files": list(plan.files.modified),
        "breakdown": {
            "before": _breakdown(done.before.tokens),
            "after": _breakdown(after.tokens) if after else None,
        },
        "nothing": plan.nothing or None,
    }


def as_text(done: CompactionOutcome) -> list[str]:
    """The same for people: what is summarised, what is kept, what it wins."""
    head = [] if done.node is None else [f"{paint(done.node.oid[:8], fg='yellow')}  {paint(done.node.subject)}", ""]
    now, then = done.before.tokens, done.after.tokens if done.after else None
    wins = f"{now.used:,} now" if done.tokens_after is None else f"{now.used:,} before, {done.tokens_after:,} now"
    return [
        *head,
        *_summarised(done.plan, done=done.node is not None),
        *_kept(done),
        _fact("tokens", wins),
        *(_table(now, then) if then is not None else []),
        *_files("read", done.plan.files.read),
        *_files("modified", done.plan.files.modified),
    ]


def _summarised(plan: Plan, *, done: bool) -> Iterable[str]:
    taken = (*plan.history, *plan.prefix)
    yield _fact("summarised" if done else "to summarise", f"{_entries(len(taken))}, about {plan.replaced:,} tokens")
    yield from _ends(plan, taken)
    if plan.previous:
        yield _fact("", "carrying on the summary of before")
    if plan.prefix:
        yield _fact("", f"the last {len(plan.prefix):,} begin a turn whose end is kept: they are summarised apart")


def _kept(done: CompactionOutcome) -> Iterable[str]:
    plan = done.plan
    if plan.onto is not None:
        onto = shorten(f"{plan.onto.oid[:8]}  {plan.onto.subject}", width() - 40)
        yield _fact("kept", f"all up to {onto}")
        yield _fact("", f"the work goes on there{f', on branch {done.branch}' if done.node else ''}")
        yield _fact("", "what is summarised stays on its own branch")
        return
    yield _fact("kept", f"{_entries(len(plan.kept))}, about {tokens_after(plan, ''):,} tokens" if plan.kept else "none")
    yield from _ends(plan, plan.kept[:1])


def _ends(plan: Plan, items: tuple[Any, ...]) -> list[str]:
    """The first and the last of what is meant."""
    return as_lines(items[:1] + items[1:][-1:], profiles.profile(plan.profile).estimate, indent=" " * 14)


def _table(before: Tokens, after: Tokens) -> Iterable[str]:
    """Role by role and kind by kind, before and after."""
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


def _breakdown(tokens: Tokens) -> dict[str, dict[str, int]]:
    return {"role": dict(tokens.by_role), "kind": dict(tokens.by_kind)}
