"""Output of a command: lines of text, or one JSON document with ``--json``. Long lists go through a pager, as in git.

Warnings and questions are always printed to standard error.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from gitsession import progress as watched
from gitsession.cli import exits
from gitsession.cli.options import option
from gitsession.cli.text import paint, terminal_size, wants_color
from gitsession.errors import Refused
from gitsession.line_text import count, on_a_line

_JSON = f"{__name__}.json"


def _choose_json(context: click.Context, _: click.Parameter, is_chosen: bool) -> None:
    context.meta[_JSON] = is_chosen


json_option = option(
    "--json",
    is_flag=True,
    expose_value=False,
    callback=_choose_json,
    help="Print one JSON document on standard output.",
)
consent_option = option(
    "--yes", "consent", is_flag=True, help="Do not ask for confirmation. Required if standard input is not a terminal."
)


def wants_json() -> bool:
    """Return whether the running command has the option ``--json``."""
    context = click.get_current_context(silent=True)
    return context is not None and context.meta.get(_JSON, False)


def say(text: str = "", **style: Any) -> None:
    """Print one line of text. Control characters and line ends from agents or files are removed."""
    if not wants_json():
        click.echo(paint(on_a_line(text), **style), color=_color())


def say_painted(lines: Iterable[str]) -> None:
    """Print lines that come from ``paint``, and flush standard output after each line."""
    for line in () if wants_json() else lines:
        click.echo(line, color=_color())
        sys.stdout.flush()


def emit(schema: str, document: dict[str, Any]) -> None:
    """Print the JSON document of a command if ``--json`` is set."""
    if wants_json():
        emit_bare(titled(schema, document))


def emit_line(schema: str, document: dict[str, Any]) -> None:
    """Print one of several JSON documents on one line, and flush standard output."""
    import json  # few commands print a document

    click.echo(json.dumps(titled(schema, document)))
    sys.stdout.flush()


def emit_bare(value: Any) -> None:
    """Print a value as JSON. Non-ASCII characters are escaped, so that any terminal can print them."""
    import json

    click.echo(json.dumps(value, indent=2))


def titled(schema: str, document: dict[str, Any]) -> dict[str, Any]:
    """Return a document with the name and the version of its schema."""
    return {"schema": f"gitsession/{schema}/1", **document}


def print_list(
    schema: str, key: str, objects: Iterable[Any], lines: Iterable[str], *, nothing: str, **more: Any
) -> int:
    """Print ``objects`` in a JSON document if ``--json`` is set, else print ``lines``. Return the exit code.

    Only the printed iterable is consumed. If there are no lines to print, the message ``nothing`` is printed to
    standard error. The lines must contain no control characters except color codes (see ``paint``).
    """
    found = list(objects if wants_json() else lines)
    emit(schema, {**more, key: found})
    paged(found)
    if not found and not wants_json():
        warn(nothing)
    return exits.OK if found else exits.NOTHING


def complain(text: str, *, hint: str = "", candidates: Iterable[str] = ()) -> None:
    """Print an error, its hint and the candidates to standard error."""
    warn(f"error: {text}")
    for candidate in list(candidates)[:20]:
        warn(f"  {candidate}")
    if hint:
        warn(f"hint: {hint}")


def warn(text: str) -> None:
    """Print one line to standard error. Control characters and line ends are removed."""
    click.echo(on_a_line(text), err=True)


def confirm(question: str) -> bool:
    """Ask a yes-or-no question on standard error, and return the answer. The default is no.

    Raises ``click.Abort`` if there is no answer.
    """
    return click.confirm(on_a_line(question), default=False, err=True)


def is_attended() -> bool:
    """Return whether standard input is a terminal, so that the user can answer questions."""
    return sys.stdin is not None and sys.stdin.isatty()


def confirm_purge(question: str, *, consent: bool) -> None:
    """Ask for confirmation of a purge, unless ``consent`` is true.

    Raises ``UsageError`` if standard input is not a terminal, and ``Refused`` if the answer is no.
    """
    if consent:
        return
    if not is_attended():
        raise click.UsageError("cannot ask for confirmation: standard input is not a terminal (pass --yes)")
    if not confirm(question):
        raise Refused("cancelled: nothing was purged")


def warn_of_hidden(hidden: int, problems: Iterable[str] = (), hint: str = "") -> None:
    """Warn that secrets are shown as placeholders. ``problems``: reasons why some secrets could not be revealed."""
    if hidden:
        message = f"{count(hidden, 'secret')} {'is a placeholder' if hidden == 1 else 'are placeholders'}"
        warn(f"{message} ({hint})" if hint else message)
    for problem in problems:
        warn(problem)


def paged(lines: Iterable[str]) -> None:
    """Print lines that may contain color codes.

    If standard output is a terminal and the lines do not fit on the screen, print them through a pager.
    """
    shown = [] if wants_json() else list(lines)
    text = "\n".join(shown)
    if not text:
        return
    fits = len(shown) < terminal_size()[1]
    if not sys.stdout.isatty() or fits:
        click.echo(text, color=_color())
        return
    os.environ["PAGER"] = os.environ.get("GIT_PAGER") or os.environ.get("PAGER") or "less"
    os.environ.setdefault("LESS", "FRX")
    click.echo_via_pager(text + "\n", color=_color())


def _color() -> bool | None:
    return None if wants_color() else False


def current_folder() -> str:
    """Return the working directory; "" if it was deleted."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


_DELAY_SECONDS = 0.5
"""Time before the progress of an operation is shown, in seconds."""

_PAUSE_SECONDS = 0.1


@contextmanager
def progress() -> Iterator[None]:
    """Show the progress of the operations in the ``with`` block, if standard error is a terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    line = _Line()
    with watched.by(line):
        try:
            yield
        finally:
            line.leave()


class _Line:
    """A progress line that is overwritten until the operation is complete, as in git."""

    def __init__(self) -> None:
        self._next = 0.0
        self._shown = ""

    def __call__(self, what: str, done: int, of: int) -> None:
        if wants_json():
            return
        if done < of:
            now = time.monotonic()
            if done == 0:
                self._next = now + _DELAY_SECONDS
            if now < self._next:
                return
            self._next = now + _PAUSE_SECONDS
        elif what != self._shown:
            return
        if self._shown not in ("", what):
            self.leave()
        self._shown = what if done < of else ""
        end = "\r" if done < of else ", done.\n"
        _write_error(f"{what}: {done * 100 // max(of, 1):3}%{end}")

    def leave(self) -> None:
        """End the line, so that other output begins on a new line."""
        if self._shown:
            _write_error("\n")
        self._shown = ""


def _write_error(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        pass  # for example, the terminal was closed
