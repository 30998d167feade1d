"""The command ``gitsession diff``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import click

import gitsession
from gitsession.cli import exits
from gitsession.cli.invocation import App
from gitsession.cli.options import CommandWithPaths, command, given_paths, option
from gitsession.cli.output import emit, json_option, paged, wants_json, warn
from gitsession.cli.text import DIFF_COLORS, paint, width
from gitsession.errors import NotFound

if TYPE_CHECKING:
    from gitsession.git.process import ProcessResult

_EMPTY = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""Object id of the empty tree."""


@command(cls=CommandWithPaths)
@click.argument("old", metavar="A")
@click.argument("new", metavar="[B] [-- PATH...]", required=False)
@option("--stat", "sizes", is_flag=True, help="Show only the number of changed lines of each file.")
@option("--name-only", is_flag=True, help="Show only the names of the files that differ.")
@json_option
@click.pass_obj
def diff_command(app: App, old: str, new: str | None, sizes: bool, name_only: bool) -> int:
    """Show file changes between two entries.

    A is SESSION[@ENTRY]. B is another address, or an entry of the same session. Without B, compare A with the newest
    checkpoint of the session. Each PATH is a file, a folder, or a pattern as in git, relative to the top folder of the
    workspace.
    """
    if sizes and name_only:
        raise click.UsageError("--stat cannot be combined with --name-only")
    session, node = app.entry(old)
    ends = _Ends(app, _End.at(session, node), _End.at(*(_second(app, session, new) if new else (session, None))))
    changes = ends.changes()
    if wants_json():
        counts = ends.counts() if sizes else {}
        document = {
            "session": session.id,
            "to_session": ends.new.session.id,
            "from": ends.old.checkpoint.oid,
            "to": ends.new.checkpoint.oid,
            "files": [{**change._asdict(), **counts.get(change.path, {})} for change in changes],
        }
        emit("diff", document)
    elif changes:
        _print(ends.compare(*([f"--stat={width()}"] if sizes else ["--name-only"] if name_only else [])))
    else:
        where = f", in {', '.join(given_paths())}" if given_paths() else ""
        warn(f"no differences between {ends.old.name} and {ends.new.name}{where}")
    if ends.are_unrelated:
        warn(f"warning: the workspaces differ: '{ends.old.workspace}' and '{ends.new.workspace}'")
    return exits.OK if changes else exits.NOTHING


def _second(app: App, session: gitsession.Session, address: str) -> tuple[gitsession.Session, gitsession.Node]:
    """Return the session and the entry that B names: an entry of the same session, or else an address."""
    if "@" in address:
        return app.entry(address)
    try:
        return session, session.resolve(address)
    except NotFound as error:
        try:
            return app.entry(address)
        except NotFound:
            raise error from None


class _End(NamedTuple):
    """One side of a comparison: the files in a checkpoint of a session."""

    session: gitsession.Session
    files: gitsession.Files
    checkpoint: gitsession.Node
    workspace: str

    @classmethod
    def at(cls, session: gitsession.Session, node: gitsession.Node | None) -> _End:
        """Return the files at an entry; those in the newest checkpoint if ``node`` is ``None``. Raises ``NotFound``."""
        files = session.files.at(node)
        if files.checkpoint is None:
            raise NotFound(
                f"cannot compare the files of session {session.id}: it has no checkpoints",
                hint=f"run `gitsession log {session.id} -- FILE` to list its edits of a file; to record checkpoints of "
                "later sessions, run `gitsession enable AGENT`",
            )
        return cls(session, files, files.checkpoint, getattr(session.read(files.checkpoint), "workspace", None) or "")

    @property
    def name(self) -> str:
        return f"checkpoint {self.checkpoint.oid[:12]}"


class _Ends(NamedTuple):
    """The two sides of a comparison."""

    app: App
    old: _End
    new: _End

    @property
    def are_unrelated(self) -> bool:
        """True if the files are those of different workspaces, and not known as those of one project."""
        if self.old.workspace == self.new.workspace:
            return False
        identities = {self.app.row(end.session.id)[0].identity for end in (self.old, self.new)}
        return len(identities) > 1 or None in identities

    def changes(self) -> list[gitsession.FileChange]:
        """Return the changes of the selected files. Raises ``UsageError`` if git rejects a path."""
        found = self.old.files.diff(self.new.files)
        if not given_paths():
            return found
        result = self._run("--name-only", "-z", "--no-renames", accept=(0, 128))
        if result.code:
            raise click.UsageError(f"invalid path: {result.err.removeprefix('fatal: ')}")
        selected = set(result.out.decode("utf-8", "surrogateescape").split("\0"))
        return [change for change in found if change.path in selected]

    def counts(self) -> dict[str, dict[str, int | None]]:
        """Return the number of added and deleted lines of each file; ``None`` for a binary file."""
        rows = self.compare("--numstat", "-z", "--no-renames").decode("utf-8", "surrogateescape").split("\0")
        found = {}
        for row in filter(None, rows):
            added, deleted, path = row.split("\t", 2)
            found[path] = {
                name: int(count) if count.isdecimal() else None
                for name, count in (("added", added), ("deleted", deleted))
            }
        return found

    def compare(self, *options: str) -> bytes:
        """Return the output of `git diff` for the selected files."""
        return self._run(*options).out

    def _run(self, *options: str, accept: tuple[int, ...] = (0,)) -> ProcessResult:
        from gitsession.git import process

        store = self.app.store()
        store.flush()  # git does not read the journal
        how = ("--no-ext-diff", "--no-textconv", "--no-color", *options)
        trees = (end.files.tree or _EMPTY for end in (self.old, self.new))
        return process.run(store.objects.git_dir, "diff", *how, *trees, "--", *self._pathspecs(), accept=accept)

    def _pathspecs(self) -> Iterator[str]:
        """Yield git's patterns for the given paths. In trees, unusual names of files are escaped."""
        from gitsession.workspace.names import escape_path

        for path in given_paths():
            if "\0" in path:
                raise click.UsageError("invalid path: it contains a NUL character")
            top = next((end.workspace for end in (self.old, self.new) if path.startswith(f"{end.workspace}/")), "")
            name = os.path.relpath(path, top) if top else path
            yield name
            escaped = escape_path(os.fsencode(os.path.normpath(name)))
            if not name.startswith(":") and escaped != name:
                yield f":(literal){escaped}"


def _print(output: bytes) -> None:
    """Print the output of git. If standard output is a terminal, control sequences are removed."""
    if sys.stdout.isatty():
        lines = output.decode("utf-8", "replace").removesuffix("\n").split("\n")
        paged([paint(line, fg=DIFF_COLORS.get(line[:1])) for line in lines])
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(output)
        sys.stdout.buffer.flush()
