"""The command ``gitsession show``."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from gitsession.cli import exits
from gitsession.cli.invocation import App
from gitsession.cli.options import command, option
from gitsession.cli.output import complain, emit, json_option, paged, wants_json
from gitsession.cli.text import DIFF_COLORS, paint, wants_color
from gitsession.codec.digest import digest, to_base64url
from gitsession.context.estimates import by_characters
from gitsession.errors import Ambiguous, NotFound
from gitsession.index.catalogue import Row
from gitsession.line_text import clock, count, on_a_line, shorten
from gitsession.model.blocks import File, Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import BranchSummary, Compaction, CustomMessage, Entry, Fork, Message, SessionHeader
from gitsession.model.entry_parts import (
    CallPart,
    FindCall,
    NotePart,
    OutputPart,
    Part,
    file_name,
    kind_of_block,
    parts_of,
)
from gitsession.model.headline import clean
from gitsession.model.plain import plain
from gitsession.model.todo_lists import todo_line, todo_summary
from gitsession.model.usage import total_tokens
from gitsession.pattern import pattern
from gitsession.sessions.gaps import DAMAGE
from gitsession.sessions.node import Node

if TYPE_CHECKING:
    from gitsession.model.code import Lexer
    from gitsession.model.file_edits import FileEdit
    from gitsession.model.session_state import SessionState


@command()
@click.argument("entry", metavar="[SESSION[@ENTRY]]", default="@")
@option("--thinking", is_flag=True, help="Show the whole reasoning of the model, not only its first line.")
@option("--state", "whole_state", is_flag=True, help="Show the session's whole state at the entry, not the entry.")
@option("--side-files", is_flag=True, help="List the side files that are stored with the session.")
@option("--side-file", metavar="NAME", default="", help="Print one side file of the session.")
@json_option
@click.pass_obj
def show_command(app: App, entry: str, thinking: bool, whole_state: bool, side_files: bool, side_file: str) -> int:
    """Show one entry and the state of the session there, or the side files of a session.

    A side file is a file that the agent keeps beside the session file, such as a long tool result or a plan.
    """
    if side_files or side_file:
        return _show_side_files(app, entry, side_file)
    from gitsession.index.activity import call_of_result
    from gitsession.sessions.content import entry_of
    from gitsession.sessions.node import load

    row, node = app.node(entry)
    store = app.objects()
    view = entry_of(store, node)
    if node.source is not None:
        from gitsession.sessions.attached_files import SessionAttachments  # only imported entries have attachments

        view = SessionAttachments(store, row.sid).view(node, view)
    state = _state(app, row, node)
    document = {**_document(app, row, node, view), "state": plain(state)}
    problem = clean(document.get("problem", ""))
    emit("show", document)
    lines = [f"    cannot be read: {problem}"]
    if whole_state:
        lines = _state_lines(state)
    elif not problem:

        def find_call(id: str) -> ToolCall | None:
            return call_of_result(app.catalogue().db, lambda oid: entry_of(store, load(store, oid)), node, id)

        lines = _body_lines(view, document, row.project or "", find_call, thinking=thinking)
    paged([*_head(node, document, state), "", *lines])
    if problem:
        complain(f"cannot read entry {node.oid}: {problem}", hint="run `gitsession repair`")
    return exits.INTEGRITY if problem else exits.OK


def _show_side_files(app: App, address: str, wanted: str) -> int:
    from gitsession.sessions.attached_files import SessionAttachments

    row, entry = app.row(address)
    if entry:
        raise click.UsageError("side files belong to a session, not to an entry: omit the entry")
    stored = SessionAttachments(app.objects(), row.sid)
    names = [_side_file(stored.nodes, wanted, row.sid)] if wanted else sorted(stored.nodes)
    contents = {name: stored.content(name) for name in names}
    if wanted and not wants_json():
        sys.stdout.buffer.write(contents[names[0]])
        return exits.OK
    files = [
        {
            "name": name,
            "bytes": len(data),
            "states": 1 if stored.is_shared(name) else len(stored.nodes[name]),
            "entry": stored.nodes[name][0].oid,
            **({"content": data.decode("utf-8", "replace")} if wanted else {}),
        }
        for name, data in contents.items()
    ]
    emit("side-files", {"session": row.sid, "files": files})
    none = [f"session {row.sid} has no side files"]
    paged([f"{len(contents[name]):>12,}  {on_a_line(name)}" for name in names] or none)
    return exits.OK if names else exits.NOTHING


def _side_file(names: Iterable[str], wanted: str, sid: str) -> str:
    """Return the side file with the name ``wanted``, or the only one whose path ends with it."""
    found = [name for name in names if name == wanted] or sorted(name for name in names if name.endswith(f"/{wanted}"))
    if len(found) > 1:
        raise Ambiguous(f"{wanted!r} matches {len(found)} side files", found, hint="pass more of the path")
    if not found:
        hint = f"run `gitsession show {sid} --side-files` to list its side files"
        raise NotFound(f"cannot show '{wanted}': session {sid} has no such side file", hint=hint)
    return found[0]


def _state(app: App, row: Row, node: Node) -> SessionState:
    from gitsession.index.session_states import state_of
    from gitsession.model.session_state import SessionState

    try:
        return state_of(app.catalogue(), app.objects(), row.sid, node)
    except DAMAGE:  # an earlier entry cannot be read
        return SessionState()


def _state_facts(state: SessionState) -> dict[str, str]:
    """Return the state in short, by name."""
    rules = [f"{decision} {rule}" for rule, decision in state.permissions.items()]
    shown, more = ", ".join(rules[:_RULES_MAX]), len(rules) - _RULES_MAX
    facts = {
        "mode": ", ".join(value if name == "mode" else f"{name} {value}" for name, value in state.modes.items()),
        "todo": shorten(todo_summary(state.todos), _TEXT_CHARS_MAX) if state.todos else "",
        "rules": shown + (f", and {more} more" if more > 0 else ""),
        "plan": shorten(state.plan, _TEXT_CHARS_MAX) if state.plan else "",
        "marks": ", ".join(f"{name} {value}".rstrip() for name, value in state.marks.items()),
        "changes": f"{count(state.files, 'file')}, +{state.added:,} -{state.removed:,}" if state.files else "",
    }
    return {name: on_a_line(fact) for name, fact in facts.items()}  # a line feed in a value would begin another row


_RULES_MAX, _TEXT_CHARS_MAX = 4, 80


def _state_lines(state: SessionState) -> list[str]:
    """Return the todo list, the permissions and the plan in full."""
    parts = {
        "Todo list": [todo_line(item) for item in state.todos],
        "Permissions": [on_a_line(f"{decision} {rule}") for rule, decision in state.permissions.items()],
        "Plan": _text_lines(state.plan) if state.plan else [],
    }
    lines = [line for name, part in parts.items() if part for line in (f"{name}:", *(f"  {each}" for each in part), "")]
    return [f"    {paint(line)}".rstrip() for line in lines[:-1]] or ["    no todo list, permissions or plan"]


def _document(app: App, row: Row, node: Node, view: Entry) -> dict[str, Any]:
    from gitsession.codec import holes
    from gitsession.sessions import content

    store = app.objects()
    try:
        parts, problem = content.entry_tree(store, node), ""
        content.full_payload(store, node, parts)
    except DAMAGE as error:
        parts, problem = content.EntryTree("", b"", b"", None), str(error)
    came_from = app.session(row.sid).origin() if isinstance(view, SessionHeader | Fork) else None
    started = app.session(row.sid).started(node) if app.catalogue().begun_in(row) else []
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
        "checkpoint": _checkpoint(app, row, node),
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


def _checkpoint(app: App, row: Row, node: Node) -> str | None:
    """Return the oid of the checkpoint with the files of an entry; ``None`` if there is none or it cannot be read."""
    from gitsession.store import refs

    store = app.objects()
    if not any(refs.is_files(name.rpartition("/")[2]) for name in store.refs(refs.session(row.sid))):
        return None
    from gitsession.checkpoints.lookup import find_history  # only sessions with checkpoints need it

    try:
        points, number = find_history(store, row.sid, node)
    except DAMAGE:
        return None
    return points[number].oid if number >= 0 else None


def _tokens(view: Entry) -> dict[str, int] | None:
    """Return the estimated tokens of an entry, and the total that the provider reported for the answer, if any."""
    if not isinstance(view, Message | CustomMessage | Compaction | BranchSummary):
        return None
    usage = total_tokens(view.usage) if isinstance(view, Message) else 0
    return {"estimate": by_characters(view), **({"reported": usage} if usage else {})}


def _head(node: Node, document: dict[str, Any], state: SessionState) -> list[str]:
    lines = [paint(node.subject, bold=True)]
    facts = {
        "entry": node.oid,
        "chain": document["chain"],
        "parent": node.parent or "none (this is the root)",
        "time": clock(document["at"]),
        "model": document["trailers"].get("Model", ""),
        "tokens": ", ".join(f"{number:,} {_COUNTED[what]}" for what, number in (document["tokens"] or {}).items()),
        "from": _source(node),
        "files": f"gitsession git ls-tree -r {found[:12]} files/" if (found := document["checkpoint"]) else "",
        "origin": "@".join(filter(None, document.get("origin", {}).values())),
        "started": ", ".join(document.get("started", [])),
        **_state_facts(state),
    }
    return lines + [f"{name:>7}  {paint(value)}" for name, value in facts.items() if value]


_COUNTED = {"estimate": "(an estimate)", "reported": "reported for the whole answer"}


def _source(node: Node) -> str:
    if node.source is None:
        return ""
    own_id = f", id {node.source.id}" if node.source.id is not None else ""
    return f"{node.source.agent}, line {node.source.line}{own_id}"


def _body_lines(
    view: Entry, document: dict[str, Any], folder: str, find_call: FindCall, *, thinking: bool
) -> list[str]:
    """Return the lines of an entry's content, with colors.

    Args:
        view: The entry.
        document: The JSON document of the entry.
        folder: The working directory of the session; "" if it is unknown.
        find_call: A function that returns the tool call of a result.
        thinking: Whether all lines of the model's reasoning are shown, not only the first one.
    """
    if isinstance(view, Message | CustomMessage | Compaction | BranchSummary):
        parts = parts_of(view, folder, find_call)
        lines = [line for part in parts for line in _part_lines(part, thinking=thinking)]
    else:
        lines = _plain_lines(json.dumps(document["body"], indent=2, ensure_ascii=False))
    return [f"    {line}".rstrip() for line in lines]


def _part_lines(part: Part, *, thinking: bool) -> list[str]:
    match part:
        case Text():
            return _text_lines(part.text)
        case Thinking():
            first, *others = _plain_lines(part.text)
            if others and not thinking:
                others = [f"... ({count(len(others), 'more line')} of thinking; pass --thinking to show them)"]
            return [paint(f"| {line}", dim=True) for line in (first, *others)]
        case Image():
            return [paint(on_a_line(f"[image {part.mime}, {len(part.data):,} bytes]"))]
        case File():
            return [paint(on_a_line(f"[file {file_name(part)}]"))]
        case OtherBlock():
            return [paint(on_a_line(f"[{kind_of_block(part) or part.type}]"))]
        case CallPart():
            return _call_lines(part)
        case OutputPart():
            return _output_lines(part)
        case NotePart():
            return [paint(on_a_line(part.text), **({"fg": "red"} if part.failed else {}))]


def _call_lines(call: CallPart) -> list[str]:
    """Return the lines of a tool call: the changes of files as a diff, the whole command, or the arguments as JSON."""
    action = call.action
    if action.edits:
        rest = _plain_lines(action.command) if action.command else ()
        return [paint(f"-> {action.tool}", fg="yellow"), *itertools.chain(*map(_edit_lines, action.edits)), *rest]
    if action.command:
        first, *others = _plain_lines(action.command)
        return [paint(f"-> {action.tool}: {first}", fg="yellow"), *others]
    if call.arguments:
        return [paint(f"-> {action.tool} {json.dumps(plain(call.arguments), ensure_ascii=False)}", fg="yellow")]
    return [paint(f"-> {action.title}", fg="yellow")]


def _output_lines(output: OutputPart) -> list[str]:
    if output.result.role == "shell":
        return [paint(f"$ {output.action.command}", bold=True), *_plain_lines(output.text)]
    outcome = paint(f"[{output.outcome.text}]", **({"fg": "red"} if output.outcome.failed else {"dim": True}))
    head = f"{paint(f'<- {output.action.title}', fg='yellow')}  {outcome}"
    path = "" if output.outcome.failed else output.action.path
    return [head, *(_file_lines(output.text, path) if output.text else [])]


def _edit_lines(edit: FileEdit) -> Iterator[str]:
    """Yield the lines of a change of a file: a diff, or the content of a new file with syntax highlighting."""
    moved = f" -> {edit.moved_to}" if edit.moved_to else ""
    yield paint(on_a_line(f"{edit.path}{moved}  {edit.change} {edit.size}"), bold=True)
    lexer = _lexer_for(edit.path) if edit.change == "write" else None
    if lexer is None:
        yield from (paint(line, fg=DIFF_COLORS.get(line[:1])) for line in edit.lines)
    else:
        content = _code_lines("\n".join(line[1:] for line in edit.lines), lexer)
        yield from (paint("+", fg=DIFF_COLORS["+"]) + line for line in content)


# ---- text and code


def _plain_lines(text: str) -> list[str]:
    return clean(text).split("\n")


def _text_lines(text: str) -> list[str]:
    """Return the lines of Markdown as they are, with syntax highlighting in fences if color is enabled."""
    lines = _plain_lines(text)
    if wants_color() and ("```" in text or "~~~" in text):
        from gitsession.model.code import fences, lexer_named

        for fence in list(fences(lines)):
            code, lexer = lines[fence.start + 1 : fence.end], lexer_named(fence.language)
            if code and lexer is not None:
                lines[fence.start + 1 : fence.end] = _code_lines("\n".join(code), lexer)
    return lines


_LINE_NUMBER = pattern(r" *\d+(?:\t|→|\|)")
"""The number that agents write before each line of a file that a tool reads."""


def _file_lines(text: str, path: str) -> list[str]:
    """Return the lines of a file that a tool read, with syntax highlighting if the language of ``path`` is known."""
    lexer = _lexer_for(path)
    if lexer is None:
        return _plain_lines(text)
    lines = text.split("\n")
    numbers = [found[0] if (found := _LINE_NUMBER.match(line)) else "" for line in lines]
    code = "\n".join(line.removeprefix(number) for line, number in zip(lines, numbers, strict=True))
    return [paint(number, dim=True) + line for number, line in zip(numbers, _code_lines(code, lexer), strict=True)]


def _lexer_for(path: str) -> Lexer:
    """Return the lexer for a file; ``None`` if the language is unknown, or if color is not enabled."""
    if not path or not wants_color():
        return None
    from gitsession.model.code import lexer_for

    return lexer_for(path)


_CODE_STYLES: Mapping[str, Mapping[str, Any]] = {
    "c": {"dim": True},
    "k": {"fg": "magenta"},
    "s": {"fg": "green"},
    "n": {"fg": "cyan"},
    "f": {"fg": "blue"},
    "b": {"fg": "cyan"},
    "gd": {"fg": "red"},
    "gi": {"fg": "green"},
}
"""The style of each class of tokens (``model.code``)."""


def _code_lines(text: str, lexer: Lexer) -> list[str]:
    from gitsession.model.code import pieces

    return [
        "".join(paint(piece, **_CODE_STYLES.get(name, {})) for name, piece in line)
        for line in pieces(clean(text), lexer)
    ]
