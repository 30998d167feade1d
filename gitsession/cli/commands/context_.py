"""``gitsession context``"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from gitsession.cli.opening import App, with_app
from gitsession.cli.output import emit, json_option, paged, paint, shorten, width
from gitsession.cli.plain import plain
from gitsession.context.policies import Policy, clear_thinking, clear_tool_uses, drop_images, model_facing
from gitsession.context.profiles import DEFAULT, PROFILES
from gitsession.context.profiles import profile as rules_of
from gitsession.context.providers import PROVIDERS, provider
from gitsession.model.blocks import ToolCall
from gitsession.model.entries import BranchSummary, Compaction, Message

if TYPE_CHECKING:
    from gitsession.context.value import Context, Shown

POLICIES: dict[str, Callable[[], Policy]] = {
    "clear-tool-uses": clear_tool_uses,
    "clear-thinking": clear_thinking,
    "drop-images": drop_images,
    "model-facing": model_facing,
}


@click.command()
@click.argument("entry", metavar="[SESSION[@ENTRY]]", default="@")
@click.option(
    "--profile", type=click.Choice(list(PROFILES)), default=DEFAULT, help="By whose rules.", show_default=True
)
@click.option("--as", "form", type=click.Choice(list(PROVIDERS)), help="As it would be sent to a provider; JSON.")
@click.option("--policy", "policies", type=click.Choice(list(POLICIES)), multiple=True, help="What to leave out.")
@click.option("--window", type=click.IntRange(1), help="How many tokens the model takes.")
@json_option
@with_app
def command(
    app: App, entry: str, profile: str, form: str | None, policies: tuple[str, ...], window: int | None, as_json: bool
) -> None:
    """Show what the model sees at an entry."""
    session, node = app.entry(entry)
    chosen: list[Policy] = [POLICIES[name]() for name in policies]
    context = session.context(node, profile=profile, policies=chosen, window=window)
    if as_json or form is not None:
        emit("context", {**_document(context), **(provider(form).request(context) if form else {})})
    else:
        paged([*_head(context), "", *_items(context)])


def _document(context: Context) -> dict[str, Any]:
    tokens = context.tokens
    return {
        "messages": [
            {"id": item.oid, "kind": item.entry.kind, "at": item.entry.at_ms, **plain(item.entry)}
            for item in context.items
        ],
        "profile": context.profile,
        "model": context.model,
        "models": dict(context.models),
        "thinking": context.thinking,
        "mode": context.mode,
        "tools": context.tools,
        "rules": context.rules,
        "instructions": plain(context.instructions),
        "tokens": {
            "used": tokens.used,
            "window": tokens.window,
            "remaining": tokens.remaining,
            "source": tokens.source,
            "exact": tokens.exact,
        },
        "breakdown": {"role": dict(tokens.by_role), "kind": dict(tokens.by_kind)},
        "digest": context.digest.hex(),
    }


def _head(context: Context) -> list[str]:
    tokens = context.tokens
    of = f" of {tokens.window:,}, {tokens.remaining:,} left" if tokens.window is not None else ""
    facts = {
        "model": context.model or "none yet",
        "thinking": context.thinking,
        "mode": context.mode or "",
        "tokens": f"{tokens.used:,}{of} ({_SOURCES[tokens.source]})",
        "by role": _parts(tokens.by_role),
        "by kind": _parts(tokens.by_kind),
        "digest": context.digest.hex(),
    }
    return [f"{name:>8}  {paint(value)}" for name, value in facts.items() if value]


_SOURCES = {"usage": "the provider's count", "tokenizer": "by a tokenizer", "estimate": "an estimate"}


def _parts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in counts.items())


def _items(context: Context) -> list[str]:
    estimate = rules_of(context.profile).estimate
    rows = [
        (item.oid[:8], _role(item.entry), f"{estimate(item.entry):,}", _words(item.entry)) for item in context.items
    ]
    roles, sizes = (max((len(row[column]) for row in rows), default=0) for column in (1, 2))
    room = width() - 8 - roles - sizes - 6
    return [
        "  ".join([paint(oid, fg="yellow"), paint(role.ljust(roles)), size.rjust(sizes), shorten(words, room)])
        for oid, role, size, words in rows
    ]


def _role(entry: Shown) -> str:
    return entry.role if isinstance(entry, Message) else entry.kind


def _words(entry: Shown) -> str:
    if isinstance(entry, Compaction | BranchSummary):
        return entry.summary
    if isinstance(entry, Message) and entry.role == "shell":
        return f"$ {entry.command or ''}"
    called = [f"-> {block.name}" for block in entry.content if isinstance(block, ToolCall)]
    return " ".join([entry.text, *called])
