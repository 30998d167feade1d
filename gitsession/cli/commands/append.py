"""The command ``gitsession append``, which appends entries that another program writes as JSON lines."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

import gitsession
from gitsession.cli.invocation import App
from gitsession.cli.options import command, option
from gitsession.cli.output import emit_line
from gitsession.errors import GitSessionError, Malformed
from gitsession.line_text import count

if TYPE_CHECKING:
    from gitsession.cli.rpc.results import Appended
    from gitsession.sessions.session import OnMoved


@command(
    epilog="""\b
Examples:
  echo '{"kind": "message", "body": {"role": "user", "content": "hello"}}' |
    gitsession append --new --agent my-agent          create a session
  gitsession append 20260201-q3fp < entries.jsonl     continue a session"""
)
@click.argument("session", metavar="[SESSION]", required=False)
@option("--new", is_flag=True, help="Create a session. Requires --agent.")
@option("--agent", metavar="NAME", help="With --new: name of the program that writes the session.")
@option("--cwd", metavar="DIR", help="With --new: working directory of the session. Default: none.")
@option("--branch", metavar="NAME", help="Append to this branch. Default: the active branch.")
@option("--expected", metavar="ENTRY", help="Append only if this entry is the tip of the branch.")
@option(
    "--on-moved",
    type=click.Choice(["refuse", "fork"]),
    default="refuse",
    help="If the tip is another entry than expected, refuse, or append to a new branch. Default: refuse.",
)
@click.pass_obj
def append_command(
    app: App, session: str | None, new: bool, agent: str | None, cwd: str | None, branch: str | None,
    expected: str | None, on_moved: OnMoved,
) -> None:  # fmt: skip
    """Append entries that are read as JSON lines from standard input.

    Each line is an object with the keys kind and body, and optionally at (Unix time in ms). As soon as an entry is
    stored, one line of JSON with its ids is printed. If a line cannot be appended, the lines after it are not read.
    """
    if new == (session is not None):
        raise click.UsageError("pass either SESSION or --new")
    if new != (agent is not None) or (not new and cwd is not None) or (new and (branch or expected)):
        raise click.UsageError("--new requires --agent; --cwd needs --new; --branch and --expected need SESSION")
    found = app.store(make=True).new_session(agent=agent or "", cwd=cwd) if new else app.session(session or "")
    found = found.on(branch) if branch else found
    _append_lines(found, found.resolve(expected) if expected else None, on_moved)


def _append_lines(found: gitsession.Session, tip: gitsession.Node | None, on_moved: OnMoved) -> None:
    """Append the entries of standard input, and print the ids of each.

    ``tip``: the entry that must be the tip of the branch; ``None`` for any entry.
    """
    from gitsession.codec import entry_json, json_text

    follows = tip is not None
    number = waiting = 0
    for number, line in json_text.lines(sys.stdin.buffer):
        try:
            entry = entry_json.appended_entry(json_text.parse(line))
            node = found.append(entry, expected=tip, on_moved=on_moved)
        except GitSessionError as error:
            raise _of_line(error, number) from None
        tip = node if follows else None
        waiting = 0 if found.is_stored else waiting + 1
        emit_line("append", {"line": number, **appended(found, node)})
    if waiting:
        what = f"the session is not stored: it has {count(waiting, 'entry', 'entries')}, and no message of the user"
        raise Malformed(what, hint="append a message with the role user")


def appended(session: gitsession.Session, node: gitsession.Node) -> Appended:
    """Return the JSON object of an entry that was appended to a session."""
    from gitsession.codec.digest import to_base64url

    return {
        "session": session.id,
        "branch": session.branch_name,
        "id": node.oid,
        "chain": to_base64url(node.chain),
        "stored": session.is_stored,
    }


def _of_line(error: GitSessionError, number: int) -> GitSessionError:
    """Return ``error`` with the number of the line in its message."""
    error.args = (f"cannot append line {number}: {error}",)
    return error
