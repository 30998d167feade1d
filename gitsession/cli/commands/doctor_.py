"""``gitsession doctor``"""

from __future__ import annotations

import os
import platform
import stat
from collections.abc import Iterator
from pathlib import Path

import click

from gitsession import __version__
from gitsession.cli import doctoring, exits, sweeping
from gitsession.cli.context import App, with_app
from gitsession.cli.doctoring import Check
from gitsession.cli.output import clock, count, emit, json_option, say
from gitsession.errors import GitSessionError
from gitsession.git import config, damage, process
from gitsession.live import spool
from gitsession.sessions import checkpoint_refs
from gitsession.store import create, refs
from gitsession.store.maintenance import PACKS_MAX, count_packs

GIT_MIN = (2, 39)

_REPAIR = "`gitsession repair` puts it right"


@click.command()
@json_option
@with_app
def command(app: App, as_json: bool) -> int:
    """Say what is installed, what state the store is in, and what would mend what is wrong."""
    parts = {"programs": _programs(), "store": _store(app), "hooks": _live(app), "sweep": _sweep(app)}
    checks = [check for what, found in parts.items() for check in _as_far_as_possible(what, found)]
    wrong = [check for check in checks if check.mend]
    if as_json:
        problems = [{"where": check.what, "what": check.found, "mend": check.mend} for check in wrong]
        facts = {check.what: check.found for check in checks}
        notes = [check.what for check in checks if check.is_note]
        emit("doctor", {"checked": len(checks), "facts": facts, "notes": notes, "problems": problems})
    else:
        for check in checks:
            say(f"{check.mark}  {check.what:<12}  {check.found}")
            if check.mend:
                say(f"                  {check.mend}")
    if not os.path.lexists(app.path):
        return exits.NOT_FOUND
    app.warn_of_damage()
    return exits.INTEGRITY if wrong else exits.OK


def _as_far_as_possible(what: str, checks: Iterator[Check]) -> Iterator[Check]:
    """Yield the checks of a part; if one cannot be made, that instead of the rest, and the other parts go on."""
    try:
        yield from checks
    except Exception as error:
        if not isinstance(error, GitSessionError | OSError) and type(error).__module__ != "sqlite3":
            raise
        hint = getattr(error, "hint", "") or "check the permissions of the store, then run `gitsession verify`"
        yield Check(what, f"cannot be checked further: {error}", hint)


def _programs() -> Iterator[Check]:
    from importlib import metadata

    yield Check("gitsession", __version__)
    yield Check("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    yield Check("cbor2", metadata.version("cbor2"))
    yield Check("blake3", metadata.version("blake3"))
    try:
        version = process.version()
    except GitSessionError as error:
        yield Check("git", str(error), "install git 2.39 or later: undo, maintain and verify need it")
        return
    old = version < GIT_MIN
    yield Check("git", ".".join(map(str, version)), "upgrade to git 2.39 or later" if old else "")


def _store(app: App) -> Iterator[Check]:
    path = app.path
    try:
        store = app.store()
        create.check_readable(path)
    except GitSessionError as error:
        yield Check("store", str(error), error.hint or "name another with --store")
        return
    objects = store.objects
    yield Check("store", f"{path}{', read-only here' if objects.read_only else ''}")
    mode = stat.S_IMODE(path.stat().st_mode)
    yield Check("mode", f"{mode:04o}", "others can read your sessions: chmod 0700 the store" if mode & 0o077 else "")
    free = os.statvfs(path)
    room = free.f_bavail * free.f_frsize
    tight = "make room: repacking takes twice the store's size" if room < _size(path) * 2 else ""
    yield Check("disk", f"{room // 2**20:,} MiB free", tight)
    yield Check("contents", "only glanced at here: `gitsession verify` reads it all")
    rows = store.sessions()
    yield Check("sessions", f"{len(rows):,}, {sum(row.entries for row in rows):,} entries")
    pending = objects.pending
    yield Check("journal", f"{count(pending, 'write')} not packed yet")
    for what in objects.damage():
        yield Check("journal", what, "`gitsession repair` sets it aside; `gitsession verify` says what is affected")
    lacks = ", ".join(config.lacking(path))
    yield Check("config", f"lacks {lacks}" if lacks else "as it was made", _REPAIR if lacks else "")
    for bad in damage.glance(path):
        yield Check("packs", f"{bad.path}: {bad.what}", _REPAIR)
    for name, what in objects.damaged_refs().items():
        yield Check("refs", f"{name} {what}", _REPAIR)
    for name, value in objects.refs(refs.SESSIONS).items():
        if not objects.contains(value):
            yield Check("refs", f"{name} leads to {value[:12]}, which is not there", _REPAIR)
    for name in checkpoint_refs.aside(objects):
        yield Check("checkpoints", f"{name} is where no line of checkpoints leads; no rewind looks there", is_note=True)
    for begun in store.unfinished():
        yield Check("rewind", f"not done yet: {begun}", "`gitsession rewind --continue` or `--abort` ends it")
    packs = count_packs(path)
    yield Check("packs", f"{packs:,}", "`gitsession maintain` merges them" if packs >= PACKS_MAX else "")
    loose = sum(1 for folder in (path / "objects").iterdir() if len(folder.name) == 2 for _ in folder.iterdir())
    yield Check("loose", count(loose, "loose object"), "`gitsession git repack -d` packs them" if loose else "")
    yield from doctoring.locks(path, pending)
    yield from doctoring.reflog(path)
    yield from doctoring.purge(store)
    yield from doctoring.beside(store)


def _live(app: App) -> Iterator[Check]:
    """What agents' hooks have left, and what went wrong there."""
    from gitsession.live import hook_locations, settings_edits

    for agent, told in hook_locations.AGENTS.items():
        file = hook_locations.file_of(told, Path.home(), os.environ)
        try:
            if settings_edits.is_enabled(told, file):
                yield Check("hooks", f"{agent} tells what it does: {file}")
        except (GitSessionError, OSError) as error:
            yield Check("hooks", f"{agent}: {error}")
    store = os.fspath(app.path)
    waiting, aside, failed = spool.waiting(store), spool.set_aside(store), spool.failures(store)
    if waiting:
        yield Check("spool", f"{count(len(waiting), 'event')} waiting for sessions that have not come yet")
    if aside:
        mend = f"look into {spool.folder(store)}, then `gitsession drain --forget-failures`"
        yield Check("spool", f"{count(len(aside), 'event')} set aside that cannot be taken in", mend)
    if failed:
        at_ms, words = failed[-1]
        more = f", and {count(len(failed) - 1, 'failure')} before" if len(failed) > 1 else ""
        mend = "`gitsession drain --forget-failures` when you have read it"
        yield Check("hooks", f"{clock(at_ms)}  {words}{more}", mend)


def _sweep(app: App) -> Iterator[Check]:
    try:
        catalogue = app.store().catalogue()
    except GitSessionError:
        catalogue = None  # no store yet, or one that says above what is wrong with it
    found = sweeping.look(catalogue)
    if found.files:
        yield Check("sweep", sweeping.words(found), is_note=found.not_imported > 0)


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in (path / "objects").rglob("*") if file.is_file())
