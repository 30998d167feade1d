"""``gitsession doctor``"""

from __future__ import annotations

import os
import platform
import shlex
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import click

from gitsession import __version__
from gitsession.api.store import Store
from gitsession.archive import trash
from gitsession.cli import exits
from gitsession.cli.context import App, with_app
from gitsession.cli.expiry import expiry_words, look_at_expiry
from gitsession.cli.output import emit, json_option, say
from gitsession.cli.text import clock, count
from gitsession.errors import GitSessionError
from gitsession.git import config, damage, hook_files, process
from gitsession.git.ref_writer import RefLocks
from gitsession.live import hook_locations, settings_edits, spool
from gitsession.redaction import own_rules, vault
from gitsession.server import server
from gitsession.sessions import checkpoint_refs, operation_log
from gitsession.store import create, flushing, refs
from gitsession.store.git_store import GitStore
from gitsession.store.maintenance import PACKS_MAX, count_packs
from gitsession.sync import remotes

GIT_MIN = (2, 39)

_REPAIR = "`gitsession repair` puts it right"


@click.command()
@json_option
@with_app
def doctor_command(app: App) -> int:
    """Diagnose problems and suggest fixes."""
    parts = {"programs": _programs(), "store": _store_checks(app), "hooks": _live(app), "sweep": _sweep(app)}
    checks = [check for what, found in parts.items() for check in _as_far_as_possible(what, found)]
    wrong = [check for check in checks if check.mend]
    problems = [{"where": check.what, "what": check.found, "mend": check.mend} for check in wrong]
    facts = {check.what: check.found for check in checks}
    notes = [check.what for check in checks if check.is_note]
    emit("doctor", {"checked": len(checks), "facts": facts, "notes": notes, "problems": problems})
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


def _store_checks(app: App) -> Iterator[Check]:
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
    yield from locks(path, pending)
    yield from reflog(path)
    yield from purge(store)
    yield from beside(store)


def _live(app: App) -> Iterator[Check]:
    """Check what agents' hooks have left, and what went wrong there."""
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
    found = look_at_expiry(catalogue)
    if found.files:
        yield Check("sweep", expiry_words(found), is_note=found.not_imported > 0)


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in (path / "objects").rglob("*") if file.is_file())


@dataclass(frozen=True, slots=True)
class Check:
    """``mend``: what would put it right; "" where nothing is wrong. ``is_note``: not wrong, and yet to be read."""

    what: str
    found: str
    mend: str = ""
    is_note: bool = False

    @property
    def mark(self) -> str:
        return "!!" if self.mend else "--" if self.is_note else "ok"


def beside(store: Store) -> Iterator[Check]:
    """Nothing is asked of other machines, and nothing is said of what is not there."""
    objects = store.objects
    yield from _remotes(store)
    yield from _trash(objects)
    yield from _vault(objects)
    yield from _rules(objects.git_dir)
    yield from _hooks(objects.git_dir)


def purge(store: Store) -> Iterator[Check]:
    """A purge that was killed goes on when the store is opened. What is still to be done has something in its way."""
    if not create.is_purge_pending(store.objects.git_dir):
        return
    try:
        store.purges.settle()
        yield Check("purge", "one that had not ended has ended now", is_note=True)
    except GitSessionError as error:
        mend = error.hint or "mend that: the next command that opens the store goes on with it"
        yield Check("purge", f"one was begun and has not ended: {error}", mend)


def locks(git_dir: Path, pending: int) -> Iterator[Check]:
    """Check for lock files that a killed process left. No program can tell whose a lock of git's is; its age can."""
    found = list(RefLocks(git_dir, git_dir / create.PROOFS).standing())
    stale = [lock for lock in found if lock.is_stale]
    for lock in stale:
        if lock.is_ours:
            yield Check("locks", f"{lock.path}: of a process of ours that died", "`gitsession maintain` removes it")
            continue
        held = f", and {count(pending, 'write')} may wait for it" if pending else ""
        old = f"{lock.age_s / 60:,.0f} minutes" if lock.age_s >= 120 else f"{lock.age_s:,.0f} seconds"
        mend = f"if no git command is running in this store: rm {shlex.quote(lock.path)}"
        yield Check("locks", f"{lock.path}: {old} old, of another program{held}", mend)
    if not stale:
        yield Check("locks", count(len(found), "lock"))


def reflog(git_dir: Path) -> Iterator[Check]:
    """Check that flushes can write the reflog by which git keeps the entries of a branch that it deletes."""
    problem = flushing.reflog_problem(git_dir)
    if problem:
        mend = "move it away: the next flush writes the reflog anew"
        yield Check("reflog", f"{problem}: `git gc` drops the entries of a branch that git deleted", mend)


def _remotes(store: Store) -> Iterator[Check]:
    git_dir = store.objects.git_dir
    try:
        known = remotes.listed(git_dir)
        unsafe = remotes.fetched_into_branches(git_dir)
    except GitSessionError as error:
        yield Check("remotes", str(error), error.hint or "mend the store's configuration")
        return
    for name, spec in unsafe:
        mend = f"git --git-dir={shlex.quote(str(git_dir))} config --unset-all --fixed-value"
        mend = f"{mend} remote.{name}.fetch {shlex.quote(spec)}"
        yield Check(f"remote {name}", f"a plain `git fetch` by {spec} overwrites and deletes branches here", mend)
    for remote in known:
        what = f"remote {remote.name}"
        try:
            there = store.remotes.status(remote)
        except GitSessionError as error:
            yield Check(what, str(error), error.hint or "`gitsession verify` finds what is damaged")
            continue
        ours = "in its scope" if remote.scope.is_limited else "here"
        if not there.seen:
            words = f"never seen yet; {count(len(there.unsent), 'ref')} {ours}"
            yield Check(what, f"{words}: `gitsession sync {remote.name}`", is_note=True)
        elif there.unsent:
            entries = "" if there.entries is None else f"{count(there.entries, 'entry', 'entries')} on "
            words = f"{entries}{count(len(there.unsent), 'ref')} not there when it was last seen"
            yield Check(what, f"{words}: `gitsession sync {remote.name}`", is_note=True)
        else:
            yield Check(what, f"had all that is {ours} when it was last seen")
        if there.noted:
            words = f"a push did not end: {count(there.noted, 'ref')} may be there"
            yield Check(f"push {remote.name}", f"{words}; `gitsession pull {remote.name}` asks", is_note=True)


def _trash(store: GitStore) -> Iterator[Check]:
    left = set(trash.sessions(store))
    if not left:
        return
    words, oldest = count(len(left), "session"), 0
    try:
        for operation in operation_log.history(store):
            put = [move.ref for move in operation.moves if move.new and move.ref.startswith(refs.TRASH)]
            found = {refs.session_of(refs.taken_out(ref)) for ref in put} & left
            if found:
                left, oldest = left - found, operation.at_ms
            if not left:
                break
    except GitSessionError:
        pass  # what is wrong with the operation log is told by `verify`
    since = f", the oldest since {clock(oldest)}" if oldest and not left else ""
    size = _only_in_trash(store)
    room = "" if size is None else f", {size / 2**20:,.1f} MiB that nothing else holds"
    what_to_do = "`gitsession restore SESSION` brings one back, `purge SESSION` takes it away for good"
    yield Check("trash", f"{words}{since}{room}: {what_to_do}", is_note=True)


def _only_in_trash(store: GitStore) -> int | None:
    """The bytes on the disk of what only the trash leads to; ``None`` where git cannot tell."""
    inside = [oid for oid in store.refs(refs.TRASH).values() if refs.target(oid) is None]
    held = {*store.refs("refs/heads/").values(), *store.refs(refs.TRACKING).values()}
    asked = "".join([*(f"{oid}\n" for oid in inside), *(f"^{oid}\n" for oid in held)])
    words = ("rev-list", "--objects", "--disk-usage", "--ignore-missing", "--stdin")
    try:
        return int(process.run(store.git_dir, *words, stdin=asked.encode()).out)
    except (GitSessionError, ValueError):
        return None


def _vault(store: GitStore) -> Iterator[Check]:
    file = store.git_dir / create.CONTROL / vault.FILE
    try:
        found = file.lstat()
    except OSError:
        return  # nothing was hidden here yet
    if not stat.S_ISREG(found.st_mode):
        yield Check("vault", f"{file} is no file", "move it away: originals go into a file of the store's own")
        return
    mode = stat.S_IMODE(found.st_mode)
    try:
        rows = count(len(store.vault.digests()), "original")
    except GitSessionError as error:
        yield Check("vault", str(error), error.hint or "bring the file back from a copy of the store")
        return
    opened = f"others can read your secrets: chmod 0600 {file}" if mode & 0o077 else ""
    yield Check("vault", f"{rows} of what was hidden, {found.st_size / 2**20:,.1f} MiB, mode {mode:04o}", opened)


def _rules(git_dir: Path) -> Iterator[Check]:
    said = config.redaction(git_dir)
    if not said.is_on:
        words = "kept as they are said: `git config gitsession.redact true` in the store hides them"
        yield Check("secrets", words, is_note=True)
        return
    kept = "taken out of what is kept"
    if not said.rules:
        yield Check("secrets", kept)
        return
    try:
        own = own_rules.read(Path(said.rules))
        less = f", by all of ours but {', '.join(sorted(own.off))}" if own.off else ""
        less += f", but {count(len(own.allow), 'text')} that you allow" if own.allow else ""
        yield Check("secrets", f"{kept}, by {count(len(own.rules), 'rule')} of your own too{less}: {said.rules}")
    except GitSessionError as error:
        yield Check("secrets", f"{error}; nothing is written until that is mended", error.hint)


def _hooks(git_dir: Path) -> Iterator[Check]:
    folder = git_dir / "hooks"
    states = {name: hook_files.state(folder, name) for name in server.HOOKS}
    if {hook_files.CURRENT, hook_files.OLDER} & set(states.values()):
        is_whole = server.status(git_dir).is_installed
        found = ", ".join(f"{name} {state}" for name, state in states.items())
        yield Check("server", found, "" if is_whole else f"`gitsession server install {git_dir}` puts them right")
    gate = hook_files.state(folder, "pre-push")
    if gate == hook_files.CURRENT:
        yield Check("gate", "plain `git push` looks for secrets first")
    elif gate == hook_files.OLDER:
        yield Check("gate", "the hook is of another release", "`gitsession gate install` puts ours there")
