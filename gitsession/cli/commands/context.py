"""The command ``gitsession context``, which shows what the model receives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

import gitsession
from gitsession.cli.invocation import App
from gitsession.cli.options import command, option
from gitsession.cli.output import emit_bare, json_option, paged, titled, wants_json, warn_of_hidden
from gitsession.cli.text import paint, width
from gitsession.context.profiles import PROFILES
from gitsession.context.profiles import profile as rules_of
from gitsession.context.providers import PROVIDERS
from gitsession.context.value import Shown
from gitsession.line_text import shorten
from gitsession.model.plain import plain

POLICIES = ("clear-tool-uses", "clear-thinking", "drop-images", "model-facing")
"""Values of ``--policy``. The policies are functions of the library, with underscores in their names."""

profile_option = option(
    "--profile",
    type=click.Choice(list(PROFILES)),
    help="Build the context by the rules of this agent. Default: the session's own agent.",
)
window_option = option(
    "--window", type=click.IntRange(1), metavar="TOKENS", help="Size of the model's context window, in tokens."
)


@command(
    epilog="""\b
Examples:
  gitsession context @                     show the context of the newest session
  gitsession context @@leaf~1 --json       print the context one entry earlier as JSON
  gitsession context @ --window 200000     show how many tokens of the window are left
  gitsession context @ --as anthropic --raw > request.json"""
)
@click.argument("entry", metavar="[SESSION[@ENTRY]]", default="@")
@profile_option
@option(
    "--as",
    "form",
    type=click.Choice(list(PROVIDERS)),
    help="Print JSON that includes the context as a request to this provider or agent.",
)
@option("--raw", is_flag=True, help="Print only the request. Requires --as.")
@option(
    "--policy",
    "policies",
    type=click.Choice(POLICIES),
    multiple=True,
    help="Apply a policy that omits parts of the context. Can be repeated.",
)
@window_option
@json_option
@click.pass_obj
def context_command(
    app: App,
    entry: str,
    profile: str | None,
    form: str | None,
    raw: bool,
    policies: tuple[str, ...],
    window: int | None,
) -> None:
    """Show the context that the model receives at an entry, and its size in tokens."""
    if raw and form is None:
        raise click.UsageError("--raw requires --as")
    session, node = app.entry(entry)
    chosen: list[gitsession.Policy] = [getattr(gitsession, name.replace("-", "_"))() for name in policies]
    context = session.context(node, profile=profile, policies=chosen, window=window)
    warn_of_hidden(context.hidden, hint="the originals are not on this machine")
    request = context.request(form) if form else {}
    if raw:
        emit_bare(request)
    elif wants_json() or form is not None:
        emit_bare(titled("context", {**as_document(session, node, context), **request}))
    else:
        shown = as_lines(context.items, rules_of(context.profile).estimate) or ["the session is empty"]
        paged([*_head(session, node, context), "", *shown])


def as_document(session: gitsession.Session, node: gitsession.Node, context: gitsession.Context) -> dict[str, Any]:
    tokens = context.tokens
    return {
        "session": session.id,
        "id": node.oid,
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
        "instruction_texts": [plain(text) for text in context.instruction_texts],
        "state": plain(session.state(node)),
        "tokens": {
            "used": tokens.used,
            "window": tokens.window,
            "remaining": tokens.remaining,
            "source": tokens.source,
            "exact": tokens.exact,
            "stale": tokens.stale,
        },
        "breakdown": breakdown(tokens),
        "digest": context.digest.hex(),
    }


def breakdown(tokens: gitsession.Tokens) -> dict[str, dict[str, int]]:
    """Return the JSON object with the number of tokens by role and by kind."""
    return {"role": dict(tokens.by_role), "kind": dict(tokens.by_kind)}


def _head(session: gitsession.Session, node: gitsession.Node, context: gitsession.Context) -> list[str]:
    tokens = context.tokens
    of = f" of {tokens.window:,}, {tokens.remaining:,} left" if tokens.window is not None else ""
    facts = {
        "session": session.id,
        "entry": f"{node.oid[:8]}  {node.subject}",
        "model": context.model or "none yet",
        "thinking": context.thinking,
        "mode": context.mode or "",
        "files": _named(context, "files", "rule"),
        "skills": _named(context, "skills"),
        "active": _named(context, "skill"),
        "tokens": f"{tokens.used:,}{of} ({_SOURCES[tokens.source]}{', older than the newest entry' * tokens.stale})",
        "by role": _parts(tokens.by_role),
        "by kind": _parts(tokens.by_kind),
        "digest": context.digest.hex(),
    }
    return [f"{name:>8}  {paint(value)}" for name, value in facts.items() if value]


def _named(context: gitsession.Context, *parts: str) -> str:
    """Return the names of the files or skills whose texts are in the context."""
    names = [name for text in context.instruction_texts if text.part in parts for name in text.names]
    return ", ".join(dict.fromkeys(names))


_SOURCES = {"usage": "the provider's count", "tokenizer": "by a tokenizer", "estimate": "an estimate"}


def _parts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in counts.items())


def as_lines(items: Sequence[gitsession.Item], estimate: Callable[[Shown], int], *, indent: str = "") -> list[str]:
    """Return lines such as ``1a2b3c4d  assistant  1,204  I'll read auth.py -> read``.

    ``estimate``: a function that returns the estimated number of tokens.
    """
    rows = [(item, getattr(item.entry, "role", item.entry.kind), estimate(item.entry)) for item in items]
    return item_lines(rows, indent=indent)


def item_lines(rows: Sequence[tuple[gitsession.Item, str, int]], *, indent: str = "") -> list[str]:
    """Return a line for each item of a context, with a name, such as its role, and its number of tokens."""
    names = max((len(name) for _, name, _ in rows), default=0)
    sizes = max((len(f"{size:,}") for _, _, size in rows), default=0)
    room = width() - len(indent) - 8 - names - sizes - 6
    return [
        indent
        + "  ".join(
            [
                paint(item.oid[:8], fg="yellow"),
                paint(name.ljust(names)),
                f"{size:,}".rjust(sizes),
                shorten(_text(item.entry), room),
            ]
        )
        for item, name, size in rows
    ]


def _text(entry: Shown) -> str:
    """Return the text of an entry, with the names of called tools, the number of pictures, and the error, if any."""
    from gitsession.model.blocks import Image, ToolCall
    from gitsession.model.entries import BranchSummary, Compaction, Message

    if isinstance(entry, Compaction | BranchSummary):
        return entry.summary
    if isinstance(entry, Message) and entry.role == "shell":
        return f"$ {entry.command or ''}{' (not sent to the model)' * entry.is_excluded}"
    found = [entry.text]
    found += [f"-> {block.name}" for block in entry.content if isinstance(block, ToolCall)]
    pictures = sum(isinstance(block, Image) for block in entry.content)
    found += [f"[{pictures} pictures]" if pictures > 1 else "[picture]"] if pictures else []
    if isinstance(entry, Message) and (entry.error or entry.stop in ("error", "aborted")):
        found.append(f"({entry.stop or 'error'}{': ' + entry.error if entry.error else ''})")
    return " ".join(filter(None, found)) or "(empty)"
