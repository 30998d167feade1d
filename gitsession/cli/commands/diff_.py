"""``gitsession diff``"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from gitsession.cli import exits
from gitsession.cli.context import App, with_app
from gitsession.cli.output import emit, json_option, paged, paint, warn

if TYPE_CHECKING:
    from gitsession.checkpoints.lookup import Files

_EMPTY = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""git's name of a tree with nothing in it."""

_COLORS = {"+": "green", "-": "red", "@": "cyan"}


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("words", metavar="A [B] [-- PATHS]", nargs=-1, required=True, type=click.UNPROCESSED)
@json_option
@with_app
def command(app: App, words: tuple[str, ...], as_json: bool) -> int:
    """What became of the files between two entries, A and B; without B, up to the newest checkpoint.

    A is SESSION[@ENTRY], B too, or an entry of the same session. Options stand before them; PATHS are from the top of
    the workspace.
    """
    at = words.index("--") if "--" in words else len(words)
    ends, paths = words[:at], words[at + 1 :]
    if len(ends) not in (1, 2):
        raise click.UsageError("one entry or two are wanted, and paths behind --")
    session, node = app.entry(ends[0])
    old = session.files.at(node)
    if len(ends) == 1:
        new = session.files.at()
    else:
        other, to = app.entry(ends[1]) if "@" in ends[1] else (session, session.resolve(ends[1]))
        new = other.files.at(to)
    changes = [change for change in old.diff(new) if not paths or _is_below(change.path, paths)]
    if as_json:
        files = [change._asdict() for change in changes]
        emit("diff", {"session": session.id, "from": _id(old), "to": _id(new), "files": files})
    elif changes:
        _show(app, old, new, paths)
    else:
        warn(_same(old, new, paths))
    return exits.OK if changes else exits.NOTHING


def _same(old: Files, new: Files, paths: tuple[str, ...]) -> str:
    """Say what was compared where nothing differs."""
    if old.checkpoint is None and new.checkpoint is None:
        return "nothing to compare: the session has no checkpoints"
    ends = [f"checkpoint {one.checkpoint.oid[:12]}" if one.checkpoint else "no files" for one in (old, new)]
    where = f", in {', '.join(paths)}" if paths else ""
    if ends[0] == ends[1]:
        return f"nothing differs: both ends are {ends[0]}, the newest one there{where}"
    return f"nothing differs between {ends[0]} and {ends[1]}{where}"


def _id(files: Files) -> str | None:
    return files.checkpoint.oid if files.checkpoint else None


def _is_below(path: str, paths: tuple[str, ...]) -> bool:
    return any(path == one.rstrip("/") or path.startswith(one.rstrip("/") + "/") for one in paths)


def _show(app: App, old: Files, new: Files, paths: tuple[str, ...]) -> None:
    """As git writes it: what it can apply where another program reads, what cannot drive a terminal where one does."""
    from gitsession.git import process

    store = app.store()
    store.flush()  # git reads its own files, not our journal
    trees = (old.tree or _EMPTY, new.tree or _EMPTY)
    only = (f":(literal){path.rstrip('/')}" for path in paths)
    how = ("--no-ext-diff", "--no-textconv", "--no-color")
    told = process.run(store.objects.git_dir, "diff", *how, *trees, "--", *only)
    if sys.stdout.isatty():
        lines = told.out.decode("utf-8", "replace").removesuffix("\n").split("\n")
        paged([paint(line, fg=_COLORS.get(line[:1])) for line in lines])
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(told.out)
        sys.stdout.buffer.flush()
