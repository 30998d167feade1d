"""The commands ``gitsession log`` and ``gitsession tree``, which show the entries of a session."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import click

import gitsession
from gitsession.cli import exits
from gitsession.cli.invocation import App
from gitsession.cli.options import CommandWithPaths, command, given_paths, option
from gitsession.cli.output import emit, emit_line, json_option, paged, say_painted, wants_json, warn
from gitsession.cli.text import paint, width
from gitsession.codec.digest import to_base64url
from gitsession.errors import GitSessionError
from gitsession.index import activity, names
from gitsession.index.activity import NO_ACTIONS, Actions
from gitsession.line_text import clock, columns, on_a_line, shorten
from gitsession.sessions import entry_addresses, graph
from gitsession.sessions.gaps import Gap
from gitsession.sessions.node import Node
from gitsession.store.interface import ObjectStore

FOLLOWED = 10
"""Default number of existing entries that ``--follow`` shows first."""


@command(cls=CommandWithPaths)
@click.argument("session", metavar="[SESSION[@ENTRY]] [-- FILE...]", required=False)
@option("-n", "number", type=click.IntRange(1), metavar="N", help="Show at most this many entries.")
@option("--graph", "draws", is_flag=True, help="Draw the entries of all branches as a graph.")
@option("--follow", "-f", is_flag=True, help="Show the newest entries, and then each new entry as it is written.")
@json_option
@click.pass_obj
def log_command(app: App, session: str | None, number: int | None, draws: bool, follow: bool) -> int:
    """Show the history of a branch, newest entry first.

    Without ENTRY, show the history of the active branch. With FILE, show the entries that changed these files, of
    SESSION or of all sessions.
    """
    paths = given_paths()
    if draws and (paths or follow or wants_json()):
        raise click.UsageError("--graph cannot be combined with --follow, --json or FILE")
    if paths:
        from gitsession.cli.commands.blame import show_changes

        if follow:
            raise click.UsageError("--follow cannot be combined with FILE")
        return show_changes(app, session, paths, number)
    session = session or "@"
    if follow:
        return _follow(app, session, number)
    row, entry = app.row(session)
    catalogue, store = app.catalogue(), app.objects()
    tip = row.branches[row.active]
    start = entry_addresses.resolve(store, row.sid, entry, branch=row.active).oid if entry else tip
    if draws:
        return _draw(app, row, start if entry else None, number)
    found = list(itertools.islice(graph.history_with_gaps(store, row.sid, start), number))
    gaps = [it for it in found if isinstance(it, Gap)]
    called = names.names(catalogue, row.sid)
    actions = functools.partial(activity.actions_of, catalogue.db)
    if wants_json():
        nodes = [it for it in found if isinstance(it, Node)]
        leaf = start if entry else _leaf(store, row.sid, row.active, tip)
        emit(
            "log", {**as_document(store, row, called, nodes, leaf, actions), "gaps": [gap_object(gap) for gap in gaps]}
        )
    else:
        names_after = names_of(row.branches, called.labels, active=row.active)
        paged(
            gap_line(it) if isinstance(it, Gap) else as_line(it, names_after.get(it.oid, []), actions=actions(it))
            for it in found
        )
    if gaps and found[-1] is gaps[-1] and gaps[-1].is_open:
        warn("warning: the entries before the gap cannot be determined")
        warn("hint: run `gitsession tree` to list all readable entries")
    damaged = app.warn_of_damage()
    return exits.INTEGRITY if gaps or damaged else exits.OK


def _leaf(store: ObjectStore, sid: str, active: str, tip: str) -> str:
    """Return the oid of the leaf; the tip if the leaf cannot be determined."""
    try:
        return entry_addresses.resolve(store, sid, "leaf", branch=active).oid
    except GitSessionError:
        return tip


def _draw(app: App, row: gitsession.Row, start: str | None, number: int | None) -> int:
    """Print the entries of all branches as a graph, or only the history of the entry ``start``."""
    from gitsession.browse.tree_rows import TreeShape, newest_part

    store, catalogue = app.objects(), app.catalogue()
    if start is None:
        tree, tip = graph.tree(store, row.sid), row.branches[row.active]
    else:
        tree, tip = newest_part({}, list(graph.history_with_gaps(store, row.sid, start))), start
    shape = TreeShape.of(tree, tip)
    names_after = names_of(row.branches, names.names(catalogue, row.sid).labels, active=row.active)

    def lines() -> Iterator[str]:
        shown = 0
        for it, level in shape.newest_first():
            if shown == number:
                return
            shown += it is not None
            if it is None:
                yield _margin(level - 1, "|/") if level else ""
            elif isinstance(it, Gap):
                yield gap_line(it, margin=_margin(level, "x "))
            else:
                actions = activity.actions_of(catalogue.db, it)
                yield as_line(it, names_after.get(it.oid, []), margin=_margin(level, "* "), actions=actions)

    paged(lines())
    _warn_of_gaps(tree)
    damaged = app.warn_of_damage()
    return exits.INTEGRITY if tree.gaps or damaged else exits.OK


_LANE_COLORS = ("red", "green", "yellow", "blue", "magenta", "cyan")


def _margin(level: int, sign: str) -> str:
    """Return the part of a graph before an entry at ``level``: a line for each branch to its left, and ``sign``."""
    return " ".join(
        paint(text, fg=_LANE_COLORS[at % len(_LANE_COLORS)]) for at, text in enumerate([*"|" * level, sign])
    )


def _warn_of_gaps(tree: gitsession.Tree) -> None:
    for gap in tree.gaps:
        problem = "is not an entry" if gap.foreign else "cannot be read"
        unknown = ", and its parent cannot be determined" if gap.is_open else ""
        warn(f"warning: {gap.oid} {problem}{unknown}: {gap.problem}")


def _follow(app: App, address: str, number: int | None) -> int:
    """Print the newest entries, then each new entry until the process is interrupted."""
    session, store = app.session(address), app.objects()
    news = session.follow(idle=True)  # before the existing entries are listed, so that no entry is missed
    shown = list(itertools.islice(graph.history(store, session.leaf.oid), number or FOLLOWED)) if session.leaf else []
    for node in reversed(shown):
        _print_entry(app, node, session.branch_name)
    for one in news:
        if one is None:
            app.drain()
        elif one.node.oid not in {node.oid for node in shown}:
            _print_entry(app, one.node, one.branch)
    return exits.OK


def _print_entry(app: App, node: Node, branch: str) -> None:
    actions = activity.actions_of(app.catalogue().db, node)
    if wants_json():
        from gitsession.sessions.content import entry_of  # not loaded for text, which shows the time of the commit

        emit_line("entry", as_object(node, entry_of(app.objects(), node).at_ms, branch, actions))
    else:
        say_painted([as_line(node, [], actions=actions)])


_LEVELS_MAX = 12
"""Maximum number of branch levels that are drawn. Each level takes 3 columns."""


@command()
@click.argument("session", metavar="[SESSION]", default="@")
@json_option
@click.pass_obj
def tree_command(app: App, session: str) -> int:
    """Show all entries of a session as a tree.

    Each entry is listed after its parent.
    """
    from gitsession.index.origins import begun_in

    found = app.session(session)
    tree = found.tree()
    row, _ = app.row(session)
    actions = functools.partial(activity.actions_of, app.catalogue().db)
    if wants_json():
        leaf = found.resolve("leaf").oid if not tree.gaps else tree.branches[row.active]
        document = as_document(app.objects(), row, found.names(), (node for node, _ in tree.walk()), leaf, actions)
        emit("tree", {**document, "gaps": [gap_object(gap) for gap in tree.gaps]})
    else:
        names_after = names_of(tree.branches, found.names().labels, active=row.active)
        begun = begun_in(app.objects(), app.catalogue(), row)

        def lines() -> Iterator[str]:
            for it, at in _drawn(tree):
                if isinstance(it, Gap):
                    yield gap_line(it, indent=at)
                else:
                    yield as_line(it, names_after.get(it.oid, []), indent=at, actions=actions(it))
                    sessions = [*begun.pop("", []), *begun.get(it.oid, [])]  # an unknown entry is shown as the root
                    yield from (_begun_line(each, indent=at) for each in sessions)

        paged(lines())
    _warn_of_gaps(tree)
    return exits.INTEGRITY if tree.gaps else 0


def _begun_line(row: gitsession.Row, *, indent: str) -> str:
    """Return a line such as ``↳ up24ahy  Count the files``, below the entry where the session began."""
    margin = " " * len("1a2b3c4d  2025-11-20 23:33  ") + "".join("│" if char in "├│" else " " for char in indent)
    return margin + paint(shorten(f"↳ {row.reference}", max(width() - columns(margin), 1)), fg="magenta")


def _drawn(tree: gitsession.Tree) -> Iterator[tuple[Node | Gap, str]]:
    """Yield every entry and every gap of ``tree``, each with its indentation. A single child is not indented.

    A gap is yielded before each entry that follows the gap. If no entry follows, the gap is yielded after the entry
    before the gap. If there is no such entry either, the gap is yielded at the end.
    """
    gaps = {gap.oid: gap for gap in tree.gaps}
    leaves = {gap.before: gap for gap in tree.gaps if gap.oid in tree.branches.values()}
    drawn: set[str] = set()
    roots = tree.children.get(None, [])
    stack = [(oid, "", "", 0) for oid in reversed(roots)]
    while stack:
        oid, before, after, level = stack.pop()
        gap = gaps.get(tree.nodes[oid].parent or "")
        if gap is not None:
            drawn.add(gap.oid)
            yield gap, before
        yield tree.nodes[oid], before
        if oid in leaves and leaves[oid].oid not in drawn:
            drawn.add(leaves[oid].oid)
            yield leaves[oid], after
        children = tree.children.get(oid, [])
        if len(children) == 1:
            stack.append((children[0], after, after, level))
            continue
        branches = [(child, *_columns(after, level, "├─ ", "│  "), level + 1) for child in children[:-1]]
        branches += [(child, *_columns(after, level, "└─ ", "   "), level + 1) for child in children[-1:]]
        stack += reversed(branches)
    yield from ((gap, "") for oid, gap in gaps.items() if oid not in drawn)


def _columns(after: str, level: int, here: str, below: str) -> tuple[str, str]:
    """Return the indentation of an entry that branches off at ``level``, and that of the entries after this entry.

    Levels deeper than ``_LEVELS_MAX`` are shown as a number. Drawing every level would require memory proportional to
    the square of the number of branches.
    """
    if level < _LEVELS_MAX:
        return f"{after}{here}", f"{after}{below}"
    drawn = after[: 3 * _LEVELS_MAX]
    return f"{drawn}+{level + 1 - _LEVELS_MAX} {here}", f"{drawn}+{level + 1 - _LEVELS_MAX} "


_COLORS = {"user": "green", "assistant": "cyan", "tool": "yellow", "shell": "yellow"}

_ARROW = " → "
"""Text between an answer and its tool calls."""


def as_line(node: Node, names: list[str], *, indent: str = "", margin: str = "", actions: Actions = NO_ACTIONS) -> str:
    """Return a line such as ``1a2b3c4d  2025-11-20 23:33  user: Fix the login  [main]``.

    Args:
        node: The entry.
        names: The names that are shown after the entry.
        indent: Text before the entry.
        margin: Text at the beginning of the line, which can contain color codes.
        actions: The tool calls and results in the entry.
    """
    head, colon, text = node.subject.partition(": ")
    marks = on_a_line(f"  [{', '.join(names)}]") if names else ""
    time = clock(node.author_seconds * 1000)
    room = width() - len(f"{click.unstyle(margin)}{node.oid[:8]}  {time}  {indent}") - columns(marks)
    if actions.results and node.role in ("tool", "user"):
        head, colon = node.role, ": "
    label = shorten(head + colon.rstrip(), room)
    rest = _text(text, actions, room - columns(label) - 1)
    return "  ".join(
        [
            margin + paint(node.oid[:8], fg="yellow"),
            paint(time, dim=True),
            indent + " ".join(filter(None, [paint(label, fg=_COLORS.get(node.role)), rest])) + paint(marks, bold=True),
        ]
    )


def _text(subject: str, actions: Actions, room: int) -> str:
    """Return the text of an entry, with its tool calls and the outcomes of results, in at most ``room`` columns."""
    if actions.results:
        outcome = paint(f"[{actions.results[-1].outcome}]", **({"fg": "red"} if actions.failed else {"dim": True}))
        titles = "; ".join(filter(None, (result.title for result in actions.results)))
        room -= columns(click.unstyle(outcome)) + 2
        return "  ".join(filter(None, [paint(shorten(titles, room)), outcome]))
    if not actions.calls:
        return shorten(subject, room)
    words = actions.text_of(subject)
    titles = "; ".join(call.title for call in actions.calls)
    if not words:
        return shorten(titles, room)
    words = shorten(words, max(room // 2, room - columns(titles) - len(_ARROW)))
    return f"{words}{_ARROW}{shorten(titles, room - columns(words) - len(_ARROW))}"


def gap_line(gap: Gap, *, indent: str = "", margin: str = "") -> str:
    """Return a line such as ``1a2b3c4d  cannot be read: missing object 1a2b3c4d...``, as ``as_line`` does."""
    what = f"is not an entry: {gap.problem}" if gap.foreign else f"cannot be read: {gap.problem}"
    room = width() - 10 - len(click.unstyle(margin) + indent)
    return f"{margin}{paint(gap.oid[:8], fg='red')}  {indent}{paint(shorten(what, room), fg='red')}"


def gap_object(gap: Gap) -> dict[str, Any]:
    """Return the JSON object of a gap in ``log`` and ``tree``. ``before``: id of the entry before the gap."""
    return {"id": gap.oid, "what": gap.problem, "before": gap.before}


def as_object(node: Node, at_ms: int, branch: str | None, actions: Actions = NO_ACTIONS) -> dict[str, Any]:
    """Return the JSON object of an entry in ``log`` and ``tree``. ``at_ms``: Unix time of the entry in ms."""
    found = {
        "id": node.oid,
        "chain": to_base64url(node.chain),
        "parent": node.parent,
        "kind": node.kind,
        "role": node.role,
        "at": at_ms,
        "subject": node.subject,
        "source_id": node.source.id if node.source else None,
        "calls": [call._asdict() for call in actions.calls],
        "results": [result._asdict() for result in actions.results],
    }
    return found if branch is None else {**found, "branch": branch}


def as_document(
    store: ObjectStore, row: gitsession.Row, names: gitsession.Names, nodes: Iterable[Node], leaf: str,
    actions_of: Callable[[Node], Actions],
) -> dict[str, Any]:  # fmt: skip
    """Return the JSON document of ``log`` and ``tree`` for a session and some of its entries."""
    from gitsession.sessions.content import entry_of  # not loaded for text, which shows the time of the commit

    branch_of = {oid: name for name, oid in reversed(list(row.branches.items()))}
    return {
        "session": row.sid,
        "leaf": leaf,
        "active": row.active,
        "title": names.title,
        "labels": names.labels,
        "entries": [
            as_object(node, entry_of(store, node).at_ms, branch_of.get(node.oid), actions_of(node)) for node in nodes
        ],
    }


def names_of(leaves: Mapping[str, str], labels: Mapping[str, str], *, active: str) -> dict[str, list[str]]:
    """Return the names that are shown after each entry: its label, and the branches whose tip is this entry.

    If there are several branches, the active branch is marked with a star.
    """
    names: dict[str, list[str]] = {}
    for name, oid in leaves.items():
        names.setdefault(oid, []).append(f"*{name}" if name == active and len(leaves) > 1 else name)
    for oid, label in labels.items():
        names.setdefault(oid, []).append(f"'{label}'")
    return names
