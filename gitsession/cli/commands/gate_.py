"""``gitsession gate``"""

from __future__ import annotations

import shlex
import sys

import click

from gitsession.cli import exits
from gitsession.cli.enabling import program
from gitsession.cli.opening import App, with_app
from gitsession.cli.output import count, emit, json_option, say, warn

_NONE = "0" * 40
_SHOWN = 50


@click.group()
def command() -> None:
    """Look through what is about to be pushed for secrets (docs/server.md). `push` and `sync` do so anyway."""


@command.command(short_help="Have plain `git push` look too, by a hook.")
@json_option
@with_app
def install(app: App, as_json: bool) -> int:
    """Have plain `git push` from the store look too, by a hook in front of one that is there."""
    from gitsession.store import gitcli
    from gitsession.sync import hookfiles

    git_dir = app.store().objects.git_dir
    gitcli.run(git_dir, "config", "--local", "gitsession.gate", shlex.join(program(app.path)))
    _tell("install", hookfiles.put(git_dir / "hooks", "pre-push"), as_json=as_json)
    return exits.OK


@command.command()
@json_option
@with_app
def uninstall(app: App, as_json: bool) -> int:
    """Take the hook out again."""
    from gitsession.store import gitcli
    from gitsession.sync import hookfiles

    git_dir = app.store().objects.git_dir
    gitcli.run(git_dir, "config", "--local", "--unset-all", "gitsession.gate", accept=(0, 5))
    _tell("uninstall", hookfiles.take_out(git_dir / "hooks", "pre-push"), as_json=as_json)
    return exits.OK


@command.command(hidden=True)
@click.argument("remote", default="")
@with_app
def check(app: App, remote: str) -> int:
    """What the hook runs: reads what git tells `pre-push` of a push to REMOTE."""
    from gitsession.sync import gate
    from gitsession.sync.proposals import Proposed

    moves = []
    for line in sys.stdin:
        words = line.split()
        if len(words) == 4:
            _, new, ref, old = words
            moves.append(Proposed(ref, None if old == _NONE else old, None if new == _NONE else new))
    objects = app.store(drained=False).objects
    known = objects.refs(f"refs/remotes/{remote}/").values() if remote else ()
    found = gate.scan_new(objects, moves, known)
    for hit in found[:_SHOWN]:
        warn(f"gitsession: a secret in {hit}")
    if len(found) > _SHOWN:
        warn(f"gitsession: and {len(found) - _SHOWN:,} more")
    if found:
        warn(
            "gitsession: nothing is pushed: `gitsession redact` hides them, "
            "`gitsession gate allow SESSION@ENTRY` lets one go"
        )
    return exits.SECRETS if found else exits.OK


@command.command(short_help="Let what is found in an entry go.")
@click.argument("address", metavar="SESSION@ENTRY")
@click.argument("rule", required=False, default="")
@json_option
@with_app
def allow(app: App, address: str, rule: str, as_json: bool) -> int:
    """Let what RULE finds in an entry go, or all that is found there: it is no secret, or may be known."""
    from gitsession.sync import gate

    session, node = app.entry(address)
    objects = app.store().objects
    found = gate.at(objects, session.id, node, rule)
    new = gate.allow(objects, found)
    if as_json:
        emit("gate-allow", {"session": session.id, "id": node.oid, "rules": sorted({hit.rule for hit in found})})
    elif not found:
        say("nothing is found there")
    else:
        say(f"{count(new, 'finding')} may go now")
    return exits.OK if found else exits.NOTHING


def _tell(verb: str, changed: bool, *, as_json: bool) -> None:
    if as_json:
        emit(f"gate-{verb}", {"changed": changed})
        return
    say("nothing to do" if not changed else f"the hook is {'written' if verb == 'install' else 'taken out'}")
