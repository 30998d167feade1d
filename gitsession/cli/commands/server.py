"""Commands that git runs, or that set it up: server, receive, gate, link."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gitsession.cli import exits
from gitsession.cli.context import App, program, runner, with_app
from gitsession.cli.output import answer, count, emit, json_option, say, warn
from gitsession.errors import GitSessionError

if TYPE_CHECKING:
    from gitsession.git.types import Oid
    from gitsession.sessions.node import Node


@click.group()
def server_command() -> None:
    """Make a bare repository check the sessions that are pushed to it (docs/server.md)."""


@server_command.command("install", short_help="Put our hooks into REPOSITORY.")
@click.argument("repository", type=click.Path(path_type=Path))
@click.option("--allow", multiple=True, metavar="PATTERN", help="Other refs that may be pushed: 'refs/heads/*'.")
@json_option
def server_install(repository: Path, allow: tuple[str, ...], as_json: bool) -> int:
    """Put our hooks into REPOSITORY, in front of those that are there, and settings under which nothing is lost."""
    from gitsession.server import server

    _print_server("server-install", repository, server.install(repository, runner(), allow), as_json=as_json)
    return exits.OK


@server_command.command("uninstall")
@click.argument("repository", type=click.Path(path_type=Path))
@json_option
def server_uninstall(repository: Path, as_json: bool) -> int:
    """Bring back hooks and settings as they were before. What was pushed stays."""
    from gitsession.server import server

    _print_server("server-uninstall", repository, server.uninstall(repository), as_json=as_json)
    return exits.OK


@server_command.command("status")
@click.argument("repository", type=click.Path(path_type=Path))
@json_option
def server_status(repository: Path, as_json: bool) -> int:
    """Say whether REPOSITORY checks what is pushed to it. Ends with 1 where it does not."""
    from gitsession.server import server

    state = server.status(repository)
    if as_json:
        document = {
            "repository": os.path.abspath(repository),
            "installed": state.is_installed,
            "hooks": dict(state.hooks),
            "kept": list(state.kept),
            "lacking": dict(state.lacking),
            "program": state.program or None,
            "store": state.is_store,
            "allowed": list(state.allowed),
        }
        emit("server-status", document)
        return exits.OK if state.is_installed else exits.NOTHING
    say("what is pushed here is checked" if state.is_installed else "what is pushed here is not checked")
    for name, how in state.hooks.items():
        say(f"  hooks/{name}: {how}")
    for name in state.kept:
        say(f"  hooks/{name}: run too")
    for name, value in state.lacking.items():
        say(f"  {name} is not {value}")
    if not state.program_is_there:
        say(f"  {state.program or 'gitsession'} cannot be run: everything that is pushed is refused")
    for pattern in state.allowed:
        say(f"  {pattern}: taken in unchecked")
    return exits.OK if state.is_installed else exits.NOTHING


def _print_server(what: str, repository: Path, done: list[str], *, as_json: bool) -> None:
    document = {"repository": os.path.abspath(repository), "done": done}
    answer(what, document, *(done or ["nothing to do"]), as_json=as_json)


_SHOWN = 50


@click.command()
@click.argument("when", type=click.Choice(["pre", "post"]))
def receive_command(when: str) -> int:
    """What the hooks of a server run (docs/server.md): judge what is pushed, and take out what was purged.

    Reads what git tells its hooks `pre-receive` and `post-receive`, in a repository that is being pushed to.
    """
    from gitsession.server import receive

    git_dir = Path(os.path.abspath(os.environ.get("GIT_DIR", ".")))
    with open(sys.stdin.fileno(), encoding="utf-8", errors="surrogateescape", closefd=False) as told:
        moves = receive.moves(told)
    if when == "post":
        applied = receive.post(git_dir)
        if applied is not None and applied.moved:
            warn(f"gitsession: taken out here too: {count(len(applied.moved), 'ref')} rewritten")
        return exits.OK
    refusals = receive.pre(git_dir, moves, os.environ)
    for refusal in refusals[:_SHOWN]:
        warn(f"gitsession: {refusal}")
    if len(refusals) > _SHOWN:
        warn(f"gitsession: and {len(refusals) - _SHOWN:,} more")
    if refusals:
        warn(f"gitsession: nothing of this push is taken in: {count(len(refusals), 'ref is', 'refs are')} refused")
    return exits.REFUSED if refusals else exits.OK


_NONE = "0" * 40
_DIGEST = re.compile(r"[0-9a-f]{64}")


@click.group()
def gate_command() -> None:
    """Look through what is about to be pushed for secrets (docs/server.md). `push` and `sync` do so anyway."""


@gate_command.command("install", short_help="Have plain `git push` look too, by a hook.")
@json_option
@with_app
def gate_install(app: App, as_json: bool) -> int:
    """Have plain `git push` from the store look too, by a hook in front of one that is there."""
    from gitsession.git import hook_files, process

    git_dir = app.store().objects.git_dir
    process.run(git_dir, "config", "--local", "gitsession.gate", shlex.join(program(app.path)))
    _print_gate("install", hook_files.put(git_dir / "hooks", "pre-push"), as_json=as_json)
    return exits.OK


@gate_command.command("uninstall")
@json_option
@with_app
def gate_uninstall(app: App, as_json: bool) -> int:
    """Take the hook out again."""
    from gitsession.git import hook_files, process

    git_dir = app.store().objects.git_dir
    process.run(git_dir, "config", "--local", "--unset-all", "gitsession.gate", accept=(0, 5))
    _print_gate("uninstall", hook_files.take_out(git_dir / "hooks", "pre-push"), as_json=as_json)
    return exits.OK


@gate_command.command(hidden=True)
@click.argument("remote", default="")
@with_app
def check(app: App, remote: str) -> int:
    """What the hook runs: reads what git tells `pre-push` of a push to REMOTE."""
    from gitsession.sync import secret_scan
    from gitsession.validation.quarantine_reader import Proposed

    moves = []
    for line in sys.stdin:
        words = line.split()
        if len(words) == 4:
            _, new, ref, old = words
            moves.append(Proposed(ref, None if old == _NONE else old, None if new == _NONE else new))
    objects = app.store(drained=False).objects
    known = objects.refs(f"refs/remotes/{remote}/").values() if remote else ()
    found = secret_scan.scan_new(objects, moves, known)
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


@gate_command.command(short_help="Let what is found in an entry go.")
@click.argument("address", metavar="SESSION@ENTRY")
@click.argument("rule", required=False, default="")
@json_option
@with_app
def allow(app: App, address: str, rule: str, as_json: bool) -> int:
    """Let what RULE finds in an entry go, or all that is found there: it is no secret, or may be known."""
    from gitsession.sync import secret_scan

    session, node = app.entry(address)
    objects = app.store().objects
    found = secret_scan.at(objects, session.id, node, rule)
    new = secret_scan.allow(objects, found)
    if as_json:
        emit("gate-allow", {"session": session.id, "id": node.oid, "rules": sorted({hit.rule for hit in found})})
    elif not found:
        say("nothing is found there")
    else:
        say(f"{count(new, 'finding')} may go now")
    return exits.OK if found else exits.NOTHING


@gate_command.command("list", short_help="What may go.")
@json_option
@with_app
def list_(app: App, as_json: bool) -> int:
    """What was let go: SESSION@ENTRY and RULE. A file, and an entry that is gone, by what `gate forget` takes too."""
    from gitsession.sync import secret_scan
    from gitsession.sync.commit_trailers import address

    rows = [(key, _places(app, key)) for key in secret_scan.allowances(app.store().objects)]
    if as_json:
        allowed = [
            {"what": what, "rule": rule, "entries": [{"session": sid, "id": node.oid} for sid, node in places]}
            for (what, _, rule), places in ((key.rpartition(":"), places) for key, places in rows)
        ]
        emit("gate-list", {"allowed": allowed})
        return exits.OK if rows else exits.NOTHING
    for key, places in rows:
        what, _, rule = key.rpartition(":")
        for where in [address(sid, node) for sid, node in places] or [what]:
            say(f"{where}  {rule}")
    if not rows:
        say("nothing was let go")
    return exits.OK if rows else exits.NOTHING


@gate_command.command(short_help="Take back what was let go.")
@click.argument("what", metavar="SESSION@ENTRY")
@click.argument("rule", required=False, default="")
@json_option
@with_app
def forget(app: App, what: str, rule: str, as_json: bool) -> int:
    """Hold back again what RULE finds in an entry, or all that is found there. Or of a file, as `gate list` has it."""
    from gitsession.sync import secret_scan

    objects = app.store().objects
    keys = [key for key in secret_scan.allowances(objects) if key.rpartition(":")[0] == what]
    keys = keys or secret_scan.of_entry(objects, app.entry(what)[1])
    keys = [key for key in keys if rule in ("", key.rpartition(":")[2])]
    changed = secret_scan.forget(objects, keys)
    if as_json:
        emit("gate-forget", {"rules": sorted({key.rpartition(":")[2] for key in keys})})
    else:
        say(f"{count(changed, 'finding')} may go no longer" if changed else "nothing was let go there")
    return exits.OK if changed else exits.NOTHING


def _places(app: App, key: str) -> list[tuple[str, Node]]:
    """The entries that an allowance is about, with a session of each; none for a file."""
    from gitsession.index import names
    from gitsession.sessions.node import load

    if not _DIGEST.fullmatch(key.partition(":")[0]):
        return []
    store = app.objects()
    found: dict[Oid, tuple[str, Node]] = {}
    for sid, oid in names.by_digest(app.catalogue(), bytes.fromhex(key.partition(":")[0])):
        with contextlib.suppress(GitSessionError):
            found.setdefault(oid, (sid, load(store, oid)))
    return list(found.values())


def _print_gate(verb: str, changed: bool, *, as_json: bool) -> None:
    told = f"the hook is {'written' if verb == 'install' else 'taken out'}" if changed else "nothing to do"
    answer(f"gate-{verb}", {"changed": changed}, told, as_json=as_json)


SECONDS_MAX = 3.0
"""How long a commit waits for us at most."""


@click.group()
def link_command() -> None:
    """Have the commits of a project say in which session they were made (docs/server.md).

    A commit names the session that changed most of the staged files. If no session changed any of them, it names none.
    """


_folder = click.argument("folder", default=".", type=click.Path(exists=True, file_okay=False, path_type=Path))


@link_command.command(short_help="Put a hook into the repository of FOLDER.")
@_folder
@click.option("--hours", type=click.FloatRange(0, min_open=True), help="How long a session counts as going on: 4.")
@json_option
@with_app
def enable(app: App, folder: Path, hours: float | None, as_json: bool) -> int:
    """Put a hook into the repository of FOLDER, in front of one that is there."""
    from gitsession.sync import commit_trailers

    _print_link("enable", folder, commit_trailers.enable(folder, program(app.path), hours), as_json=as_json)
    return exits.OK


@link_command.command()
@_folder
@json_option
def disable(folder: Path, as_json: bool) -> int:
    """Take the hook out again. What commits say already stays."""
    from gitsession.sync import commit_trailers

    _print_link("disable", folder, commit_trailers.disable(folder), as_json=as_json)
    return exits.OK


@link_command.command(hidden=True)
@click.argument("file", type=click.Path(path_type=Path))
@with_app
def message(app: App, file: Path) -> int:
    """Add the session that made a commit to the commit message in FILE, or say that there is none (run by the hook)."""
    from gitsession.sessions.node import load
    from gitsession.sync import commit_trailers

    signal.signal(signal.SIGALRM, lambda *_: os._exit(exits.TRY_AGAIN))
    signal.setitimer(signal.ITIMER_REAL, SECONDS_MAX)
    here = Path.cwd()
    recent = commit_trailers.going_on(app.catalogue().sessions(), here, time.time_ns() // 1_000_000)
    if not recent:
        return exits.NOTHING
    index_file = os.environ.get("GIT_INDEX_FILE", "")
    row = commit_trailers.author(app.objects(), recent, here, index_file and os.path.abspath(index_file))
    if row is None:
        say("no session of the last hours changed a staged file: the commit names none")
        return exits.NOTHING
    node = load(app.objects(), row.branches[row.active])
    return exits.OK if commit_trailers.add(file, commit_trailers.address(row.sid, node)) else exits.NOTHING


def _print_link(verb: str, folder: Path, changed: bool, *, as_json: bool) -> None:
    told = "commits here name their sessions" if verb == "enable" else "commits here name no sessions any more"
    document = {"folder": os.path.abspath(folder), "changed": changed}
    answer(f"link-{verb}", document, told if changed else "nothing to do", as_json=as_json)
