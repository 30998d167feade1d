"""Selection of one of several lines with fzf, a fuzzy finder for the terminal (https://github.com/junegunn/fzf)."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence

import click

from gitsession.cli.output import is_attended, wants_json
from gitsession.errors import Ambiguous, Unavailable
from gitsession.line_text import on_a_line

FZF = ("--read0", "--print0", "--no-multi", "--delimiter=\t", "--with-nth=2..", "--tiebreak=index", "--preview=")
"""The arguments of fzf. They have precedence over ``$FZF_DEFAULT_OPTS``, whose preview could run a shell."""

_NOTHING_FOUND, _INTERRUPTED = 1, 130
_LINE_CHARS_MAX = 2_000


def check_terminal() -> str:
    """Return the path of fzf.

    fzf reads keys from the terminal itself, so standard input and output may be redirected. Raises ``UsageError``
    without a terminal or with ``--json``, and ``Unavailable`` if fzf is not installed.
    """
    if wants_json():
        raise click.UsageError("--pick and --json cannot be combined")
    if sys.stderr is None or not sys.stderr.isatty() or os.environ.get("TERM", "") in ("", "dumb"):
        raise click.UsageError("cannot show fzf: standard error is not a terminal (omit --pick)")
    import shutil  # few commands let the user select a line

    program = shutil.which("fzf")
    if program is None:
        raise Unavailable("cannot show fzf: it is not installed", hint="install fzf, or omit --pick")
    return program


def pick(lines: Sequence[str]) -> int | None:
    """Let the user select one of ``lines``, and return its index; ``None`` if no line matches the user's input.

    The lines can contain any characters. Raises ``Unavailable`` if fzf fails, ``Abort`` if the user leaves fzf, and the
    errors of ``check_terminal``.
    """
    import subprocess  # as above

    program = check_terminal()
    shown = "".join(f"{number}\t{on_a_line(line[:_LINE_CHARS_MAX])}\0" for number, line in enumerate(lines))
    done = subprocess.run([program, *FZF], input=shown.encode("utf-8", "replace"), stdout=subprocess.PIPE, check=False)
    if done.returncode == _INTERRUPTED:
        raise click.Abort
    if done.returncode == _NOTHING_FOUND:
        return None
    picked = re.match(rb"\d+", done.stdout.removesuffix(b"\0").rpartition(b"\0")[2])
    if done.returncode or picked is None or int(picked[0]) >= len(lines):
        raise Unavailable(f"cannot use the selection: fzf failed with exit code {done.returncode}", hint="omit --pick")
    return int(picked[0])


def pick_session(error: Ambiguous) -> str | None:
    """Let the user select one of the sessions that an address matches, and return its id.

    The result is ``None`` if fzf cannot be shown, or if nothing is selected.
    """
    try:
        check_terminal()
    except (click.UsageError, Unavailable):
        return None
    if not is_attended() or not sys.stdout.isatty():
        return None
    chosen = pick(error.candidates)
    return None if chosen is None else error.candidates[chosen].split()[0]
