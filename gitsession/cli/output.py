"""How words reach the terminal: clean, plain where nobody watches, paged by git's rules; or one JSON document."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from gitsession import progress as watched
from gitsession.errors import Refused
from gitsession.model.headline import clean

json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
consent_option = click.option("--yes", "consent", is_flag=True, help="Do not ask; without a terminal it must be said.")

_FLAG_LETTERS = "".join(map(chr, range(0x1F1E6, 0x1F200)))

_COLUMNS, _LINES = 100, 24
"""Where nobody says how large the terminal is."""


def say(text: str = "", **style: Any) -> None:
    """Print one line. What an agent or a file said goes through here; it cannot drive the terminal or add a line."""
    click.echo(paint(on_a_line(text), **style), color=_color())


def paint(text: str, **style: Any) -> str:
    """``text``, safe, and in colour where colour is wanted."""
    safe = clean(text)
    return click.style(safe, **style) if style and _wants_color() else safe


def emit(schema: str, document: dict[str, Any]) -> None:
    """Print the one document of a ``--json`` command. Escaped to ASCII, so that any text can stand in it."""
    click.echo(json.dumps({"schema": f"gitsession/{schema}/1", **document}, indent=2))


def answer(schema: str, document: dict[str, Any], *lines: str, as_json: bool) -> None:
    """Print the document of a ``--json`` command, or else the lines for people."""
    if as_json:
        emit(schema, document)
        return
    for line in lines:
        say(line)


def emit_line(schema: str, document: dict[str, Any]) -> None:
    """A document that is one of many: each on a line, at once."""
    click.echo(json.dumps({"schema": f"gitsession/{schema}/1", **document}))
    sys.stdout.flush()


def first(lines: Sequence[str], most: int, rest: str, *, indent: str = "") -> Iterator[str]:
    """The first of ``lines``, each indented, and how many more there are; ``rest`` ends that sentence."""
    yield from (indent + line for line in lines[:most])
    if len(lines) > most:
        yield f"{indent}... and {len(lines) - most:,} more{rest}"


def say_line(line: str) -> None:
    """Print a line, already painted, at once."""
    click.echo(line, color=_color())
    sys.stdout.flush()


def emit_bare(value: Any) -> None:
    """Print JSON that somebody else's program takes as it is."""
    click.echo(json.dumps(value, indent=2))


def complain(text: str, *, hint: str = "", candidates: Iterable[str] = ()) -> None:
    """Say on standard error what went wrong, and what to try."""
    warn(f"gitsession: {text}")
    for candidate in list(candidates)[:20]:
        warn(f"  {candidate}")
    if hint:
        warn(f"  {hint}")


def warn(text: str) -> None:
    """Print one line on standard error, made safe as by ``say``."""
    click.echo(on_a_line(text), err=True)


def confirm(question: str) -> bool:
    """Ask on standard error; the default is no. Raises ``click.Abort`` if nobody answers."""
    return click.confirm(on_a_line(question), default=False, err=True)


def confirm_purge(question: str, *, consent: bool) -> None:
    """Ask before something goes for good.

    Raises ``UsageError`` where nobody can be asked, ``Refused`` where the answer is no.
    """
    if consent:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.UsageError(f"{question} nobody can be asked here: say --yes")
    if not confirm(question):
        raise Refused("nothing is purged")


def warn_of_hidden(hidden: int, problems: Iterable[str] = (), what_to_do: str = "") -> None:
    """How many secrets stand there as placeholders, and why some could not be shown."""
    if hidden:
        told = f"{count(hidden, 'secret')} {'is a placeholder' if hidden == 1 else 'are placeholders'} here"
        warn(f"{told}; {what_to_do}" if what_to_do else told)
    for problem in problems:
        warn(problem)


def paged(lines: Sequence[str]) -> None:
    """Print lines, already painted, through the pager if a person watches and they do not fit."""
    text = "\n".join(lines)
    if not text:
        return
    fits = len(lines) < _terminal()[1]
    if not sys.stdout.isatty() or fits:
        click.echo(text, color=_color())
        return
    os.environ["PAGER"] = os.environ.get("GIT_PAGER") or os.environ.get("PAGER") or "less"
    os.environ.setdefault("LESS", "FRX")
    click.echo_via_pager(text + "\n", color=_color())


def clock(at_ms: int) -> str:
    """A time as people read it: local, to the minute."""
    if at_ms <= 0:
        return "-"
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(at_ms / 1000))
    except (OverflowError, ValueError, OSError):
        return "-"


def on_a_line(text: str) -> str:
    """Return ``text``, safe and without line ends, with which a name could pass for a line of ours."""
    return clean(text).replace("\n", " ")


def shell_words(words: Iterable[str]) -> str:
    """Return a command line that a shell reads back as ``words``, and that cannot drive a terminal.

    A word with characters that would not be printed is quoted as ``$'...'`` (bash, ksh, zsh).
    """
    return " ".join(shlex.quote(word) if on_a_line(word) == word else _escaped(word) for word in words)


def _escaped(word: str) -> str:
    try:
        data = os.fsencode(word)
    except UnicodeEncodeError:
        data = word.encode("utf-8", "replace")  # half a character, which no file name and no argument can hold
    safe = (chr(byte) if 0x20 <= byte < 0x7F and byte not in b"'\\" else f"\\x{byte:02x}" for byte in data)
    return f"$'{''.join(safe)}'"


def shorten(text: str, width: int) -> str:
    """Return ``text`` on one line of at most ``width`` columns, with no joined characters cut apart."""
    safe = " ".join(clean(text).split())
    if columns(safe) <= width:
        return safe
    if safe.isascii():
        return safe[: max(width - 1, 0)] + "…"
    from rich.cells import set_cell_size

    cut = set_cell_size(safe, max(width - 1, 0)).rstrip()
    letters = len(cut) - len(cut.rstrip(_FLAG_LETTERS))  # two make a flag, and rich cuts between them
    return cut[: len(cut) - letters % 2] + "…"


def columns(text: str) -> int:
    """Return how many columns ``text`` takes: one of Chinese takes two, as do a flag and emoji that are joined."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # only here: a list of plain titles must start fast

    return cell_len(text)


def pad(text: str, width: int) -> str:
    """Return ``text`` with spaces behind it, ``width`` columns in all."""
    return text + " " * (width - columns(text))


def width() -> int:
    """How many columns there are: the terminal's, or what ``$COLUMNS`` says."""
    return _terminal()[0]


def _terminal() -> tuple[int, int]:
    columns, lines = os.environ.get("COLUMNS", ""), os.environ.get("LINES", "")
    try:
        size = os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1)
    except (OSError, ValueError):
        size = os.terminal_size((_COLUMNS, _LINES))
    # A terminal whose size nobody set says 0: as `script` and other programs make them.
    return (
        int(columns) if columns.isdigit() else size.columns or _COLUMNS,
        int(lines) if lines.isdigit() else size.lines or _LINES,
    )


def count(number: int, one: str, many: str = "") -> str:
    """``1 entry``, ``1,018 entries``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _wants_color() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _color() -> bool | None:
    return None if _wants_color() else False


def current_folder() -> str:
    """Where the user stands; "" where that folder is gone."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


_SILENT_SECONDS = 0.5
"""What takes less says nothing."""

_PAUSE_SECONDS = 0.1


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[None]:
    """Tells of what is done within. ``quiet``: it does not."""
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    line = _Line()
    with watched.by(line):
        try:
            yield
        finally:
            line.leave()


class _Line:
    """As git's: it goes back to its start until the work is done."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _SILENT_SECONDS
        self._shown = ""

    def __call__(self, what: str, done: int, of: int) -> None:
        if done < of:
            now = time.monotonic()
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
        """What comes next is a line of its own."""
        if self._shown:
            _write_error("\n")
        self._shown = ""


def _write_error(words: str) -> None:
    try:
        sys.stderr.write(words)
        sys.stderr.flush()
    except OSError:
        pass  # nobody watches any more
