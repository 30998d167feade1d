"""The command ``gitsession gate``."""

from __future__ import annotations

import contextlib
import re
import shlex
import sys
from collections.abc import Iterable, Mapping

import click

import gitsession
from gitsession.cli import exits
from gitsession.cli.invocation import App, program
from gitsession.cli.options import group
from gitsession.cli.output import emit, json_option, say, warn
from gitsession.errors import GitSessionError
from gitsession.git import hook_files, process
from gitsession.line_text import count

_SHOWN = 50
_NONE = "0" * 40
_DIGEST = re.compile(r"[0-9a-f]{64}")


@group()
def gate_command() -> None:
    """Scan outgoing commits for secrets.

    `gitsession push`, `gitsession sync`, and `gitsession git push` always run this scan. A push that contains a
    secret fails with exit code 6.
    """


@gate_command.command("install", short_help="Install a pre-push hook.")
@json_option
@click.pass_obj
def gate_install(app: App) -> int:
    """Install a pre-push hook in the store, so that plain `git push` also scans for secrets.

    An existing pre-push hook is kept and runs first.
    """
    git_dir = app.store().objects.git_dir
    process.run(git_dir, "config", "--local", "gitsession.gate", shlex.join(program(app.path)))
    _print_gate("install", hook_files.install(git_dir / "hooks", "pre-push"))
    return exits.OK


@gate_command.command("uninstall", short_help="Remove the pre-push hook.")
@json_option
@click.pass_obj
def gate_uninstall(app: App) -> int:
    """Remove the pre-push hook that `gitsession gate install` installed."""
    git_dir = app.store().objects.git_dir
    process.run(git_dir, "config", "--local", "--unset-all", "gitsession.gate", accept=(0, 5))
    _print_gate("uninstall", hook_files.remove(git_dir / "hooks", "pre-push"))
    return exits.OK


@gate_command.command(hidden=True)
@click.argument("remote", default="")
@click.pass_obj
def check(app: App, remote: str) -> int:
    """Scan a push to REMOTE for secrets. The pre-push hook runs this command."""
    from gitsession.sync import secret_scan
    from gitsession.validation.quarantine_reader import Proposed

    moves = []
    for line in sys.stdin:
        words = line.split()
        if len(words) == 4:
            _, new, ref, old = words
            moves.append(Proposed(ref, None if old == _NONE else old, None if new == _NONE else new))
    objects = app.store(ingest=False).objects
    known = objects.refs(f"refs/remotes/{remote}/").values() if remote else ()
    found = secret_scan.scan_new(objects, moves, known)
    for hit in found[:_SHOWN]:
        warn(f"error: secret in {hit}")
    if len(found) > _SHOWN:
        warn(f"error: and {len(found) - _SHOWN:,} more")
    if found:
        warn("error: nothing was pushed")
        warn(
            "hint: run `gitsession redact` to redact the secrets, or `gitsession gate allow SESSION@ENTRY` to allow one"
        )
    return exits.SECRETS if found else exits.OK


@gate_command.command(short_help="Allow the secrets found in an entry to be pushed.")
@click.argument("address", metavar="SESSION@ENTRY")
@click.argument("rule", required=False, default="")
@json_option
@click.pass_obj
def allow(app: App, address: str, rule: str) -> int:
    """Allow the secrets found in an entry to be pushed.

    With RULE, allow only the secrets that this rule found.
    """
    from gitsession.sync import secret_scan

    session, node = app.entry(address)
    objects = app.store().objects
    found = secret_scan.at(objects, session.id, node, rule)
    new = secret_scan.allow(objects, found)
    emit("gate-allow", {"session": session.id, "id": node.oid, "rules": sorted({hit.rule for hit in found})})
    say(f"{count(new, 'finding')} allowed" if found else "no secrets found in this entry")
    return exits.OK if found else exits.NOTHING


@gate_command.command("list", short_help="List the secrets that may be pushed.")
@json_option
@click.pass_obj
def list_(app: App) -> int:
    """List the secrets that may be pushed, each as SESSION@ENTRY and the rule that found it.

    If the secret is in a captured file, the blob id of the file is listed instead of SESSION@ENTRY. If the entry is
    no longer in the store, its digest is listed.
    """
    from gitsession.sync import commit_trailers, secret_scan

    keys = secret_scan.allowances(app.store().objects)
    entries = _entries(app, keys)
    allowed = []
    for key in keys:
        what, _, rule = key.rpartition(":")
        places = entries.get(key.partition(":")[0], [])
        allowed.append(
            {"what": what, "rule": rule, "entries": [{"session": sid, "id": node.oid} for sid, node in places]}
        )
        for where in [commit_trailers.address(sid, node) for sid, node in places] or [what]:
            say(f"{where}  {rule}")
    emit("gate-list", {"allowed": allowed})
    if not keys:
        say("nothing is allowed")
    return exits.OK if keys else exits.NOTHING


@gate_command.command(short_help="Revoke the permission to push the secrets found in an entry.")
@click.argument("what", metavar="SESSION@ENTRY")
@click.argument("rule", required=False, default="")
@json_option
@click.pass_obj
def forget(app: App, what: str, rule: str) -> int:
    """Revoke the permission to push the secrets found in an entry.

    With RULE, revoke only the permission for the secrets that this rule found. Instead of SESSION@ENTRY, you can pass
    a digest or a blob id as `gitsession gate list` prints it.
    """
    from gitsession.sync import secret_scan

    objects = app.store().objects
    keys = [key for key in secret_scan.allowances(objects) if key.rpartition(":")[0] == what]
    keys = keys or secret_scan.of_entry(objects, app.entry(what)[1])
    keys = [key for key in keys if rule in ("", key.rpartition(":")[2])]
    changed = secret_scan.forget(objects, keys)
    emit("gate-forget", {"rules": sorted({key.rpartition(":")[2] for key in keys})})
    say(f"{count(changed, 'finding')} no longer allowed" if changed else "nothing is allowed in this entry")
    return exits.OK if changed else exits.NOTHING


def _entries(app: App, keys: Iterable[str]) -> Mapping[str, list[tuple[str, gitsession.Node]]]:
    """Return the entries to which the allowances ``keys`` apply, each with its session id, by the digest of the entry.

    An allowance for a file has no entries.
    """
    from gitsession.index import names
    from gitsession.sessions.node import load

    digests = {digest for key in keys if _DIGEST.fullmatch(digest := key.partition(":")[0])}
    found: dict[str, list[tuple[str, gitsession.Node]]] = {}
    if digests:
        store = app.objects()
        for digest, sid, oid in names.by_digest(app.catalogue(), digests):
            with contextlib.suppress(GitSessionError):
                found.setdefault(digest, []).append((sid, load(store, oid)))
    return found


def _print_gate(verb: str, changed: bool) -> None:
    emit(f"gate-{verb}", {"changed": changed})
    say(f"hook {'installed' if verb == 'install' else 'removed'}" if changed else "nothing to do")
