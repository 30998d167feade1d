"""The checks of ``gitsession doctor``."""

from __future__ import annotations

import os
import platform
import shlex
import stat
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import gitsession
from gitsession import __version__
from gitsession.archive import archive_set, trash
from gitsession.cli.expiry import expiry_text, forecast_expiry
from gitsession.cli.invocation import App
from gitsession.dataclass import dataclass
from gitsession.errors import GitSessionError
from gitsession.git import config, damage, hook_files, process
from gitsession.git.ref_writer import RefLocks
from gitsession.line_text import clock, count
from gitsession.live import agent_hooks, settings_edits, spool
from gitsession.redaction import own_rules, vault
from gitsession.server import server
from gitsession.sessions import checkpoint_refs, operation_log
from gitsession.store import create, flushing, refs
from gitsession.store.git_store import GitStore
from gitsession.store.maintenance import PACKS_MAX, count_packs
from gitsession.sync import remotes

GIT_MIN = (2, 39)

_REPAIR = "run `gitsession repair`"


def run(app: App) -> list[Check]:
    """Return the findings of all checks."""
    parts = {"programs": _programs(), "plugins": _plugins(), "store": _store_checks(app), "hooks": _live(app)}
    parts["sweep"] = _sweep(app)
    return [check for what, found in parts.items() for check in _as_far_as_possible(what, found)]


def _as_far_as_possible(what: str, checks: Iterator[Check]) -> Iterator[Check]:
    """Yield ``checks``. If the iterator raises an error, yield a check with the error instead of further checks."""
    try:
        yield from checks
    except Exception as error:
        if not isinstance(error, GitSessionError | OSError) and type(error).__module__ != "sqlite3":
            raise
        hint = getattr(error, "hint", "") or "check the permissions of the store, then run `gitsession verify`"
        yield Check(what, f"cannot check the rest: {error}", hint)


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


def _plugins() -> Iterator[Check]:
    from gitsession.cli.plugin_checks import plugin_rows  # with the modules of all kinds of plugins

    yield from (Check(*row) for row in plugin_rows())


def _store_checks(app: App) -> Iterator[Check]:
    path = app.path
    try:
        store = app.store()
        create.check_readable(path)
    except GitSessionError as error:
        yield Check("store", str(error), error.hint or "pass another store: --store DIR")
        return
    objects = store.objects
    yield Check("store", f"{path}{', read-only here' if objects.read_only else ''}")
    mode = stat.S_IMODE(path.stat().st_mode)
    yield Check(
        "mode", f"{mode:04o}", "other users can read your sessions: run chmod 0700 on the store" if mode & 0o077 else ""
    )
    free = os.statvfs(path)
    room = free.f_bavail * free.f_frsize
    tight = "free some space: repacking needs twice the size of the store" if room < _size(path) * 2 else ""
    yield Check("disk", f"{room // 2**20:,} MiB free", tight)
    yield Check("contents", "checked only in part: `gitsession verify` reads everything")
    rows = store.sessions()
    yield Check("sessions", f"{len(rows):,}, {sum(row.entries for row in rows):,} entries")
    pending = objects.pending
    yield Check("journal", f"{count(pending, 'write')} not packed yet")
    for what in objects.damage():
        yield Check("journal", what, "run `gitsession repair` (`gitsession verify` lists the affected entries)")
    lacks = ", ".join(config.missing_settings(path))
    yield Check("config", f"missing: {lacks}" if lacks else "complete", _REPAIR if lacks else "")
    for bad in damage.quick_check(path):
        yield Check("packs", f"{bad.path}: {bad.problem}", _REPAIR)
    for name, what in objects.damaged_refs().items():
        yield Check("refs", f"{name} {what}", _REPAIR)
    for name in objects.ignored_refs():
        yield Check(
            "refs",
            f"{name} is ignored: its name is not valid UTF-8",
            "delete it with `gitsession git update-ref -d $'REF'`",
        )
    for name, value in objects.refs(refs.SESSIONS).items():
        if not objects.contains(value):
            yield Check("refs", f"{name} points at {value[:12]}, which does not exist", _REPAIR)
    for name in checkpoint_refs.unassigned_refs(objects):
        yield Check("checkpoints", f"{name} is not a checkpoint branch (rewind ignores it)", is_note=True)
    for begun in store.unfinished():
        yield Check(
            "rewind", f"not completed: {begun}", "run `gitsession rewind --continue` or `gitsession rewind --abort`"
        )
    packs = count_packs(path)
    yield Check("packs", f"{packs:,}", "run `gitsession maintain`" if packs >= PACKS_MAX else "")
    loose = sum(1 for folder in (path / "objects").iterdir() if len(folder.name) == 2 for _ in folder.iterdir())
    yield Check("loose", count(loose, "loose object"), "run `gitsession git repack -d`" if loose else "")
    yield from locks(path, pending)
    yield from reflog(path)
    yield from purge(store)
    yield from local_checks(store)


def _live(app: App) -> Iterator[Check]:
    """Check agents' hooks, the events in the spool, and the failures of hooks."""
    for agent, location in agent_hooks.AGENTS.items():
        file = agent_hooks.file_of(location, Path.home(), os.environ)
        try:
            if settings_edits.is_enabled(location, file):
                yield Check("hooks", f"{agent} hooks are installed in {file}")
        except (GitSessionError, OSError) as error:
            yield Check("hooks", f"{agent}: {error}")
    store = os.fspath(app.path)
    waiting, aside, failed = spool.waiting(store), spool.set_aside(store), spool.failures(store)
    if waiting:
        yield Check("spool", f"{count(len(waiting), 'event')} waiting for sessions that are not imported yet")
    if aside:
        fix = f"inspect {spool.folder(store)}, then run `gitsession drain --forget-failures`"
        yield Check("spool", f"{count(len(aside), 'event')} cannot be ingested", fix)
    if failed:
        at_ms, reason = failed[-1]
        more = f", and {count(len(failed) - 1, 'earlier failure')}" if len(failed) > 1 else ""
        fix = "run `gitsession drain --forget-failures` to remove this message"
        yield Check("hooks", f"{clock(at_ms)}  {reason}{more}", fix)


def _sweep(app: App) -> Iterator[Check]:
    try:
        catalogue = app.store().catalogue()
    except GitSessionError:
        catalogue = None  # there is no store yet, or the checks of the store report the problem
    found = forecast_expiry(catalogue)
    if found.files:
        yield Check("sweep", expiry_text(found), is_note=found.not_imported > 0)


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in (path / "objects").rglob("*") if file.is_file())


@dataclass(frozen=True, slots=True)
class Check:
    """A finding of ``doctor``.

    ``fix``: the instructions to fix the problem; "" if there is no problem. ``is_note``: whether the finding is only
    information.
    """

    what: str
    found: str
    fix: str = ""
    is_note: bool = False

    @property
    def mark(self) -> str:
        return "!!" if self.fix else "--" if self.is_note else "ok"


def local_checks(store: gitsession.Store) -> Iterator[Check]:
    """Check remotes, archive, trash, vault, redaction rules and git hooks.

    No remote is contacted. If there is no remote, archive, trash, vault or git hook, there is no finding for it.
    """
    objects = store.objects
    with objects.without_fetching():
        yield from _remotes(store)
        yield from _archive(objects)
        yield from _trash(objects)
        yield from _vault(objects)
        yield from _rules(objects.git_dir)
        yield from _hooks(objects.git_dir)


def purge(store: gitsession.Store) -> Iterator[Check]:
    """Continue a pending purge, and report the result.

    An interrupted purge continues when the store is opened. If the purge is pending after that, an error prevents its
    completion.
    """
    if not create.is_purge_pending(store.objects.git_dir):
        return
    try:
        store.purges.settle()
        yield Check("purge", "an interrupted purge was completed", is_note=True)
    except GitSessionError as error:
        fix = error.hint or "fix the problem: the next command that opens the store continues the purge"
        yield Check("purge", f"a purge was interrupted: {error}", fix)


def locks(git_dir: Path, pending: int) -> Iterator[Check]:
    """Check for lock files of killed processes.

    The process that created a git lock file cannot be determined, so the age of the file is reported.
    """
    found = list(RefLocks(git_dir, git_dir / create.PROOFS).list_locks())
    stale = [lock for lock in found if lock.is_stale]
    for lock in stale:
        if lock.is_own:
            words = f"{lock.path}: left by a gitsession process that was killed"
            yield Check("locks", words, "run `gitsession maintain`")
            continue
        consequence = f", and {count(pending, 'write')} may be waiting for the lock" if pending else ""
        old = f"{lock.age_s / 60:,.0f} minutes" if lock.age_s >= 120 else f"{lock.age_s:,.0f} seconds"
        fix = f"if no git command is running in this store, run `rm {shlex.quote(lock.path)}`"
        yield Check("locks", f"{lock.path}: {old} old, left by another program{consequence}", fix)
    if not stale:
        yield Check("locks", count(len(found), "lock"))


def reflog(git_dir: Path) -> Iterator[Check]:
    """Check that flushes can write the reflog.

    Without the reflog, ``git gc`` deletes the entries of branches that git deleted.
    """
    problem = flushing.reflog_problem(git_dir)
    if problem:
        fix = "move it elsewhere: the next flush creates a new reflog"
        yield Check("reflog", f"{problem}: `git gc` deletes the entries of a branch that git deleted", fix)


def _remotes(store: gitsession.Store) -> Iterator[Check]:
    git_dir = store.objects.git_dir
    try:
        known = remotes.list_remotes(git_dir)
        unsafe = remotes.fetched_into_branches(git_dir)
    except GitSessionError as error:
        yield Check("remotes", str(error), error.hint or "fix the store's configuration")
        return
    for name, spec in unsafe:
        fix = f"git --git-dir={shlex.quote(str(git_dir))} config --unset-all --fixed-value"
        fix = f"{fix} remote.{name}.fetch {shlex.quote(spec)}"
        yield Check(f"remote {name}", f"plain `git fetch` with {spec} overwrites and deletes local branches", fix)
    for remote in known:
        what = f"remote {remote.name}"
        try:
            status = store.remotes.status(remote)
        except GitSessionError as error:
            yield Check(what, str(error), error.hint or "run `gitsession verify`")
            continue
        scope = "in its scope" if remote.scope.is_limited else "here"
        if not status.seen:
            problem = f"never contacted; {count(len(status.unsent), 'ref')} {scope}"
            yield Check(what, f"{problem}: `gitsession sync {remote.name}`", is_note=True)
        elif status.unsent:
            entries = "" if status.entries is None else f"{count(status.entries, 'entry', 'entries')} on "
            problem = f"{entries}{count(len(status.unsent), 'ref')} not on the remote at the last contact"
            yield Check(what, f"{problem}: `gitsession sync {remote.name}`", is_note=True)
        else:
            yield Check(what, f"had all refs {scope} at the last contact")
        if status.noted:
            problem = f"a push was interrupted: {count(status.noted, 'ref')} may have arrived"
            yield Check(f"push {remote.name}", f"{problem}; `gitsession pull {remote.name}` checks", is_note=True)


def _archive(store: GitStore) -> Iterator[Check]:
    try:
        archived = archive_set.read(store)
    except GitSessionError as error:
        yield Check("archive", str(error), error.hint or _REPAIR)
        return
    if archived:
        yield Check("archive", f"{count(len(archived), 'session')}: `gitsession ls --archived`")


def _trash(store: GitStore) -> Iterator[Check]:
    left = set(trash.sessions(store))
    if not left:
        return
    text, oldest = count(len(left), "session"), 0
    try:
        for operation in operation_log.history(store):
            put = [move.ref for move in operation.moves if move.new and move.ref.startswith(refs.TRASH)]
            found = {refs.session_of(refs.untrashed(ref)) for ref in put} & left
            if found:
                left, oldest = left - found, operation.at_ms
            if not left:
                break
    except GitSessionError:
        pass  # `verify` reports problems of the operation log
    since = f", the oldest since {clock(oldest)}" if oldest and not left else ""
    size = _only_in_trash(store)
    room = "" if size is None else f", {size / 2**20:,.1f} MiB used only by the trash"
    advice = "`gitsession restore SESSION` restores one, `gitsession purge SESSION` deletes it for good"
    yield Check("trash", f"{text}{since}{room}: {advice}", is_note=True)


def _only_in_trash(store: GitStore) -> int | None:
    """Return the disk usage of objects that only the trash refers to, in bytes; ``None`` if git cannot compute it."""
    inside = [oid for oid in store.refs(refs.TRASH).values() if refs.target(oid) is None]
    kept_oids = {*store.refs("refs/heads/").values(), *store.refs(refs.TRACKING).values()}
    stdin = "".join([*(f"{oid}\n" for oid in inside), *(f"^{oid}\n" for oid in kept_oids)])
    arguments = ("rev-list", "--objects", "--disk-usage", "--ignore-missing", "--stdin")
    try:
        return int(process.run(store.git_dir, *arguments, stdin=stdin.encode()).out)
    except (GitSessionError, ValueError):
        return None


def _vault(store: GitStore) -> Iterator[Check]:
    file = store.git_dir / create.CONTROL / vault.FILE
    try:
        found = file.lstat()
    except OSError:
        return  # there have been no redactions yet
    if not stat.S_ISREG(found.st_mode):
        yield Check(
            "vault", f"'{file}' is not a regular file", "move it elsewhere: redacted secrets are stored in a new file"
        )
        return
    mode = stat.S_IMODE(found.st_mode)
    try:
        rows = count(len(store.vault.digests()), "original")
    except GitSessionError as error:
        yield Check("vault", str(error), error.hint or "restore the file from a copy of the store")
        return
    opened = f"other users can read your secrets: run chmod 0600 {file}" if mode & 0o077 else ""
    yield Check("vault", f"{rows} of redacted secrets, {found.st_size / 2**20:,.1f} MiB, mode {mode:04o}", opened)


def _rules(git_dir: Path) -> Iterator[Check]:
    said = config.redaction(git_dir)
    if not said.is_on:
        words = "not redacted: run `gitsession git config gitsession.redact true`"
        yield Check("secrets", words, is_note=True)
        return
    kept = "redacted in stored entries"
    if not said.rules:
        yield Check("secrets", kept)
        return
    try:
        own = own_rules.read(Path(said.rules))
        less = f", all built-in rules except {', '.join(sorted(own.off))}" if own.off else ""
        less += f", except {count(len(own.allow), 'text')} that you allow" if own.allow else ""
        more = f" (plugins: {', '.join(own.plugins)})" if own.plugins else ""
        yield Check("secrets", f"{kept}, with {count(len(own.rules), 'rule')} of your own{more}{less}: {said.rules}")
    except GitSessionError as error:
        yield Check("secrets", f"{error} (nothing is written until this is fixed)", error.hint)


def _hooks(git_dir: Path) -> Iterator[Check]:
    folder = git_dir / "hooks"
    states = {name: hook_files.state(folder, name) for name in server.HOOKS}
    if {hook_files.CURRENT, hook_files.OLDER} & set(states.values()):
        is_whole = server.status(git_dir).is_installed
        found = ", ".join(f"{name} {state}" for name, state in states.items())
        yield Check("server", found, "" if is_whole else f"run `gitsession server install {git_dir}`")
    gate = hook_files.state(folder, "pre-push")
    if gate == hook_files.CURRENT:
        yield Check("gate", "plain `git push` is scanned for secrets")
    elif gate == hook_files.OLDER:
        yield Check("gate", "the hook was installed by another release", "run `gitsession gate install`")
