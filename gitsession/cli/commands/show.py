"""The command ``gitsession show``."""

from __future__ import annotations

import json
from typing import Any

import click

from gitsession.cli import exits
from gitsession.cli.invocation import App
from gitsession.cli.options import command, option
from gitsession.cli.output import complain, emit, json_option, paged
from gitsession.cli.text import paint
from gitsession.codec.digest import digest, to_base64url
from gitsession.context.estimates import by_characters
from gitsession.index.catalogue import Row
from gitsession.line_text import clock, count, on_a_line
from gitsession.model.blocks import OtherBlock, ToolCall
from gitsession.model.entries import BranchSummary, Compaction, CustomMessage, Entry, Message, SessionHeader
from gitsession.model.headline import clean
from gitsession.model.plain import plain
from gitsession.model.usage import total_tokens
from gitsession.sessions.gaps import DAMAGE
from gitsession.sessions.node import Node


@command()
@click.argument("entry", metavar="[SESSION[@ENTRY]]", default="@")
@option("--thinking", is_flag=True, help="Show the whole reasoning of the model, not only its first line.")
@json_option
@click.pass_obj
def show_command(app: App, entry: str, thinking: bool) -> int:
    """Show one entry."""
    from gitsession.sessions import content

    row, node = app.node(entry)
    view = content.entry_of(app.objects(), node)
    document = _document(app, row, node, view)
    problem = clean(document.get("problem", ""))
    emit("show", document)
    lines = [f"    cannot be read: {problem}"]
    if not problem:
        lines = _body_lines(view, document, row.project or "", thinking=thinking)
    paged([*_head(node, document), "", *lines])
    if problem:
        complain(f"cannot read entry {node.oid}: {problem}", hint="run `gitsession repair`")
    return exits.INTEGRITY if problem else exits.OK


def _document(app: App, row: Row, node: Node, view: Entry) -> dict[str, Any]:
    from gitsession.codec import holes
    from gitsession.sessions import content

    store = app.objects()
    try:
        parts, problem = content.entry_tree(store, node), ""
        content.full_payload(store, node, parts)
    except DAMAGE as error:
        parts, problem = content.EntryTree("", b"", b"", None), str(error)
    came_from = app.session(row.sid).origin() if isinstance(view, SessionHeader) else None
    has_children = row.source_id is not None and app.catalogue().children_of(row.agent, row.source_id)
    started = app.session(row.sid).started(node) if has_children else []
    source = node.source
    begun = came_from and {"session": came_from.session, "entry": came_from.entry.oid if came_from.entry else None}
    return {
        "id": node.oid,
        **({"problem": problem} if problem else {}),
        "digest": digest(parts.stored, parts.holes).hex() if parts.form else None,
        "chain": to_base64url(node.chain),
        "parents": [oid for oid in (node.parent, node.second_parent) if oid],
        "kind": node.kind,
        "role": node.role,
        "at": view.at_ms,
        "body": plain(view),
        "tokens": _tokens(view),
        **({"origin": begun} if begun else {}),
        **({"started": started} if started else {}),
        "source": {"agent": source.agent, "id": source.id, "line": source.line} if source else None,
        "form": parts.form,
        "holes": [
            {"offset": offset, "length": length, "digest": content_digest.hex(), "encoding": encoding}
            for offset, length, content_digest, encoding in (holes.parse(parts.holes) if parts.holes else [])
        ],
        "hidden": [row._asdict() for row in holes.hidden(parts.holes)],
        "trailers": {
            "Entry": node.kind,
            "Chain": to_base64url(node.chain),
            **({"Source": str(source)} if source else {}),
            **({"Model": node.model} if node.model else {}),
        },
    }


def _tokens(view: Entry) -> dict[str, int] | None:
    """Return the estimated tokens of an entry, and the total that the provider reported for the answer, if any."""
    if not isinstance(view, Message | CustomMessage | Compaction | BranchSummary):
        return None
    usage = total_tokens(view.usage) if isinstance(view, Message) else 0
    return {"estimate": by_characters(view), **({"reported": usage} if usage else {})}


def _head(node: Node, document: dict[str, Any]) -> list[str]:
    lines = [paint(node.subject, bold=True)]
    facts = {
        "entry": node.oid,
        "chain": document["chain"],
        "parent": node.parent or "none (this is the root)",
        "time": clock(document["at"]),
        "model": document["trailers"].get("Model", ""),
        "tokens": ", ".join(f"{number:,} {_COUNTED[what]}" for what, number in (document["tokens"] or {}).items()),
        "from": _source(node),
        "origin": "@".join(filter(None, document.get("origin", {}).values())),
        "started": ", ".join(document.get("started", [])),
    }
    return lines + [f"{name:>7}  {paint(value)}" for name, value in facts.items() if value]


_COUNTED = {"estimate": "(an estimate)", "reported": "reported for the whole answer"}


def _source(node: Node) -> str:
    if node.source is None:
        return ""
    own_id = f", id {node.source.id}" if node.source.id is not None else ""
    return f"{node.source.agent}, line {node.source.line}{own_id}"


def _body_lines(view: Entry, document: dict[str, Any], folder: str, *, thinking: bool) -> list[str]:
    """Return the lines of an entry's content, with colors.

    Args:
        view: The entry.
        document: The JSON document of the entry.
        folder: The working directory of the session; "" if it is unknown.
        thinking: Whether all lines of the model's reasoning are shown, not only the first one.
    """
    if isinstance(view, Message) and view.role == "shell":
        lines = [paint(f"$ {view.command or ''}", bold=True), *_plain_lines(view.output or "")]
    elif isinstance(view, Message | CustomMessage):
        lines = [line for block in view.content for line in _block_lines(block, folder, thinking=thinking)]
    elif isinstance(view, Compaction | BranchSummary):
        lines = _plain_lines(view.summary)
    else:
        lines = _plain_lines(json.dumps(document["body"], indent=2, ensure_ascii=False))
    return [f"    {line}".rstrip() for line in lines]


def _plain_lines(text: str) -> list[str]:
    return clean(text).split("\n")


def _block_lines(block: Any, folder: str, *, thinking: bool) -> list[str]:
    if block.type == "tool_call":
        return _call_lines(block, folder)
    if block.type == "image":
        return [paint(on_a_line(f"[image {block.mime}, {len(block.data):,} bytes]"))]
    if block.type == "thinking":
        first, *others = _plain_lines(block.text)
        if others and not thinking:
            others = [f"... ({count(len(others), 'more line')} of thinking; pass --thinking to show them)"]
        return [paint(f"| {line}", dim=True) for line in (first, *others)]
    if isinstance(block, OtherBlock):
        from gitsession.model.results import result_in

        result = result_in(block)
        if result is not None:
            return _plain_lines(f"<- {result.text}")
        kind = block.value.get("type") if isinstance(block.value, dict) else None
        return [paint(on_a_line(f"[{kind if isinstance(kind, str) else block.type}]"))]
    return _plain_lines(str(getattr(block, "text", "") or f"[{block.type}]"))


_DIFF_COLORS = {"+": "green", "-": "red"}


def _call_lines(call: ToolCall, folder: str) -> list[str]:
    """Return the lines of a tool call: the changes of files as a diff, the whole command, or the arguments as JSON."""
    from gitsession.model.tool_actions import action_of

    action = action_of(call, folder)
    if action.edits:
        lines = [paint(f"-> {action.tool}", fg="yellow")]
        for edit in action.edits:
            moved = f" -> {edit.moved_to}" if edit.moved_to else ""
            lines.append(paint(on_a_line(f"{edit.path}{moved}  {edit.change} {edit.size}"), bold=True))
            lines += [paint(line, fg=_DIFF_COLORS.get(line[:1])) for line in edit.lines]
        return lines
    if action.command:
        first, *others = _plain_lines(action.command)
        return [paint(f"-> {action.tool}: {first}", fg="yellow"), *others]
    return [paint(f"-> {action.tool} {json.dumps(plain(call.arguments), ensure_ascii=False)}", fg="yellow")]
