"""Exchange of data with a remote by git. Only one exchange runs at a time, in a quarantine. Each error is one line.

Credentials, ssh, proxies and `insteadOf` are left to git, which runs with the user's own configuration.

Fetched data enters the store only after validation. A quarantine is a bare repository below the store, created for one
exchange. The quarantine borrows objects from the store, and it has copies of only those settings that cannot run a
program. Fetched objects are in packs in the quarantine. The packs with valid objects are moved into the store, with one
rename per file.
"""

from __future__ import annotations

import dataclasses
import os
import random
import re
import secrets
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from gitsession.dataclass import dataclass
from gitsession.durable import make_directories
from gitsession.errors import GitSessionError, MissingObject, Refused, Unavailable
from gitsession.git import config, pack_writer, process, ref_files
from gitsession.git.process import OutputCallback, ProcessResult
from gitsession.git.ref_files import SYMBOLIC
from gitsession.git.repository import VerifiedRepository
from gitsession.git.types import Kind, Oid
from gitsession.store import create, refs
from gitsession.store.git_store import GitStore
from gitsession.store.lock import exclusive_lock
from gitsession.store.state import unavailable
from gitsession.sync import remotes
from gitsession.sync.remotes import Remote, missing, plain


@contextmanager
def sync_lock(store: GitStore) -> Iterator[None]:
    """Hold the store's sync lock, which does not block appends.

    Raises ``Unavailable``, and ``Refused`` if the store is a shallow clone.
    """
    if store.read_only:
        raise Unavailable(f"cannot sync: the store '{store.git_dir}' is read-only")
    if create.is_shallow(store.git_dir):
        raise Refused(
            f"cannot sync: '{store.git_dir}' is a shallow clone, which lacks the oldest entries",
            hint="run `gitsession git fetch --unshallow` to fetch them",
        )
    with exclusive_lock(store.git_dir / create.SYNC_LOCK):
        try:
            yield
        except OSError as error:
            hint = "try again when the disk can be written (nothing was lost)"
            raise Unavailable(f"cannot write to the store '{store.git_dir}': {error.strerror}", hint=hint) from error


def flush(store: GitStore) -> None:
    """Flush the journal to git. Raises ``Unavailable`` if a part of the journal cannot be flushed."""
    store.flush()
    if store.last_flush_error is not None:
        raise Unavailable(f"cannot flush the journal: {store.last_flush_error}", hint="try again")


_CONFIG = """\
[core]
	repositoryformatversion = 0
	bare = true
	abbrev = 40
	alternateRefsCommand = true
[fetch]
	fsckObjects = true
	unpackLimit = 1
[pack]
	useBitmaps = false
"""
"""The configuration of a quarantine.

The refs of the store that matter are in the quarantine, so git need not list those of the store. With short object ids,
git would search all packs for the shortest unique id of every ref of the remote, even if it shows none of them.
A plain `git repack -a` in a bare repository writes a bitmap. With a bitmap, a push of one entry walks all archived
histories.
"""
_FILES = {"HEAD": b"ref: refs/heads/none\n", "objects/info/alternates": b"../../../../objects\n"}


_OIDS_MAX = 10_000
"""Maximum number of object ids in a command line, which the system limits to about 2 MB."""


class Quarantine:
    """A quarantine. Use it in a ``with`` statement while you hold the sync lock.

    When a quarantine is created, the quarantines of killed processes are removed.
    """

    def __init__(
        self,
        store_dir: Path,
        remote: Remote,
        known: Mapping[str, Oid],
        *,
        keep_others: bool = False,
    ) -> None:
        """Prepare a quarantine; ``with`` creates it.

        Args:
            store_dir: The path of the store.
            remote: The remote of the exchange.
            known: Refs of the store to copy into the quarantine, so that git requests only new objects.
            keep_others: True to keep all other quarantines, for a caller that does not hold the sync lock.
        """
        self._keep_others = keep_others
        self._store_dir = store_dir
        self._remote = remote
        self._known = known
        self.git_dir = store_dir / create.INCOMING / secrets.token_hex(8)
        self._clone_dir = self.git_dir.with_suffix(".clone")

    def __enter__(self) -> Self:
        if not self._keep_others:
            shutil.rmtree(self._store_dir / create.INCOMING, ignore_errors=True)
        known = {name: oid for name, oid in self._known.items() if not oid.startswith(SYMBOLIC)}
        text = _CONFIG + _section(self._remote)
        packed = ref_files.changed_packed(b"", put=known)
        self._write({config.FILE: text.encode("utf-8", "surrogateescape"), ref_files.PACKED_REFS: packed})
        return self

    def _write(self, files: Mapping[str, bytes]) -> None:
        """Write the files of the quarantine. ``files``: the contents of those that differ between quarantines."""
        try:
            make_directories(self._store_dir / create.INCOMING)
            for folder in ("objects/info", "objects/pack", "refs"):
                (self.git_dir / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
            for name, data in {**_FILES, **files}.items():
                (self.git_dir / name).write_bytes(data)
        except OSError as error:
            raise Unavailable(f"cannot create the quarantine folder: {error.strerror}") from error

    def disable_delta_search(self) -> None:
        """Disable git's search for deltas in a push. Deltas in the packs are sent as they are.

        git searches for deltas between objects of different packs. If these are large, this takes as long as the rest
        of the push. Raises ``OSError``.
        """
        with (self.git_dir / config.FILE).open("a") as file:
            file.write("[pack]\n\twindow = 0\n")

    def clone(self, options: TransportOptions, filter: str = "") -> Mapping[str, Oid]:
        """Fetch all branches of a remote from which nothing was fetched before; return them by their names there.

        `git clone` writes all refs to one file, and `git fetch` a file for each ref. After an error, the quarantine is
        as it was.

        Raises ``Unavailable``, ``RejectedTransfer``, and ``Refused`` if the remote uses SHA-256.
        """
        # The user's defaults for new repositories must not apply: the refs are read from files.
        arguments = ["-c", "init.defaultRefFormat=files", "-c", "init.defaultObjectFormat=sha1"]
        arguments += ["-c", "core.fsync=all", "clone", "--bare", "--no-tags", "--template=", "--no-local"]
        arguments += ["-c", "fetch.fsckObjects=true", "-c", "transfer.fsckObjects=true"]
        arguments += [f"--filter={filter}"] if filter else []
        folder = self._clone_dir
        result = options.run(None, *arguments, options.progress, "--end-of-options", self._remote.url, str(folder))
        if result.code:
            raise failure(self._remote, result)
        if config.value_of(folder, "extensions.objectFormat") not in ("", "sha1"):
            raise Refused(self._remote.problem("uses SHA-256, but a store uses SHA-1"))
        try:
            shutil.rmtree(self.git_dir)
            os.rename(folder, self.git_dir)
            self._write({config.FILE: _CONFIG.encode()})
        except OSError as error:
            raise unavailable(self._store_dir, "write", error) from error
        return self.refs(remotes.HEADS)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for folder in (self.git_dir, self._clone_dir):
            shutil.rmtree(folder, ignore_errors=True)

    def missing(self, trees: Iterable[Oid]) -> list[Oid]:
        """Return the objects in ``trees`` that neither the quarantine nor the store has."""
        arguments = ("rev-list", "--objects", "--no-object-names", "--missing=print", "--stdin")
        stdin = "".join(f"{tree}\n" for tree in trees)
        output = process.run(self.git_dir, *arguments, stdin=stdin.encode()).out if stdin else b""
        return [line[1:] for line in output.decode().splitlines() if line.startswith("?")]

    def fetch_objects(self, oids: Sequence[Oid], options: TransportOptions) -> None:
        """Fetch single objects that a filter left out, and cut the quarantine off.

        Raises ``Unavailable`` and ``RejectedTransfer``.
        """
        settings = tuple(row for row in self._remote.settings if row[0] not in ("promisor", "partialclonefilter"))
        remote = dataclasses.replace(self._remote, settings=settings)
        text = f"{_CONFIG}[fetch]\n\tnegotiationAlgorithm = noop\n{_section(remote)}"
        (self.git_dir / config.FILE).write_bytes(text.encode("utf-8", "surrogateescape"))
        try:
            for start in range(0, len(oids), _OIDS_MAX):
                fetch(self.git_dir, remote, oids[start : start + _OIDS_MAX], options)
        finally:
            self.cut_off()

    def cut_off(self) -> None:
        """Remove the remote from the quarantine's configuration, so that git fetches no missing objects on demand.

        After this call, objects that a partial clone left out count as missing.
        """
        (self.git_dir / config.FILE).write_text(_CONFIG)

    def refs(self, prefix: str) -> Mapping[str, Oid]:
        """Return the fetched refs whose names start with ``prefix``, without symbolic refs."""
        found = VerifiedRepository(self.git_dir).refs.list(prefix)
        return {name: value for name, value in found.items() if not value.startswith(SYMBOLIC)}

    def put(self, objects: Mapping[Oid, tuple[Kind, bytes]]) -> None:
        """Add ``objects`` to the fetched objects. Raises ``OSError``."""
        pack_writer.write_pack(self.git_dir / "objects", objects, self._store_dir / create.KEEP, sync=False)

    def keep_only(self, tips: Iterable[Oid], known: Iterable[Oid]) -> None:
        """Keep only the objects that are reachable from ``tips`` and not from the store's refs ``known``."""
        tip_lines = "".join(f"{oid}\n" for oid in dict.fromkeys(tips))
        known_lines = "".join(f"^{oid}\n" for oid in set(known) if not oid.startswith(SYMBOLIC))
        folder = self.git_dir / "objects" / "pack"
        before = pack_writer.packs_in(folder)
        is_partial = any(folder.glob("*.promisor"))
        new_packs: list[str] = []
        if tip_lines:
            arguments = ["pack-objects", "--revs", "--delta-base-offset", "-q"]
            arguments += ["--missing=allow-any"] if is_partial else []  # the remote has objects that are missing here
            output = process.run(
                self.git_dir, *arguments, "objects/pack/pack", stdin=(tip_lines + known_lines).encode()
            ).out
            new_packs = [f"pack-{one}" for one in output.decode().split()]
        for name in set(before) - set(new_packs):
            for suffix in (".idx", ".rev", ".pack", ".promisor"):
                (folder / f"{name}{suffix}").unlink(missing_ok=True)
        for name in new_packs if is_partial else ():
            (folder / f"{name}.promisor").touch()

    def move_in(self, *, kept: bool = True) -> list[str]:
        """Move the fetched packs into the store; return their names. The packs are durable on return.

        With ``kept``, the packs have ``.keep`` files until the refs have moved, and the caller must hold the store's
        lock. Pass ``kept=False`` only if refs already lead to the objects, or if no other process uses the store.

        Raises ``OSError``.
        """
        owner = self._store_dir / create.KEEP if kept else None
        return pack_writer.move_packs(self.git_dir / "objects" / "pack", self._store_dir / "objects", owner)


def _section(remote: Remote) -> str:
    """Return the section about the remote for a git configuration file."""
    return f'[remote "{remote.name}"]\n' + "".join(config.line_of(key, value) for key, value in remote.settings)


FIRST_CHUNK, CHUNK_MAX = 800, 6400
"""Maximum number of refs in the first chunk of a push, and in any later chunk.

The remote lists all its refs once per chunk, so many small chunks are slow. In a large chunk, one rejection may affect
many refs, and a server with gitsession's hooks limits the number of entries.
"""

MANY_TRACKING_REFS = 10_000
"""Number of remote-tracking refs from which a fetch first lists the refs of the remote.

If few of them have moved, it fetches only these. Otherwise it fetches all refs without git's progress, because git
prunes faster with ``--quiet``.
"""

REJECTED_ENOUGH = 8
"""Number of rejected pushes of single sessions after which the next sessions are chosen at random.

After twice this number, the remaining sessions are not tried.
"""

_DELETION_FORBIDDEN = "(deletion prohibited)"
"""Git's reason if the remote has ``receive.denyDeletes``, which applies to every ref."""

_OFFLINE = re.compile(
    r"could not resolve|connection (refused|timed out|reset|closed)|network is unreachable|no route to host|"
    r"failed to connect|temporary failure|operation timed out|early eof|remote end hung up|unable to connect",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"authentication failed|permission denied|could not read (username|password)|terminal prompts disabled|"
    r"access denied|host key verification failed|\b40[13]\b",
    re.IGNORECASE,
)
_LOCAL_FAILURE = re.compile(
    r"no space left|disk quota exceeded|read-only file system|input/output error|cannot allocate memory|out of memory",
    re.IGNORECASE,
)
_BAD_OBJECT = re.compile(r"^error: object [0-9a-f]{40}: |repository corruption on the remote side", re.IGNORECASE)
"""A message about an invalid object.

After such a message, git stops reading, and the remote may appear to have closed the connection.
"""
_NOT_FOUND = re.compile(
    r"does not appear to be a git repository|repository not found|not found|does not exist|no such file", re.IGNORECASE
)
_NO_REPOSITORY = re.compile(r"invalid gitfile format")
_NO_HELPER = re.compile(r"'remote-([^'\s]+)' is not a git command|remote helper for '([^'\s]+)'")
_NAME_HINT = "pass the path or URL of a store, or of a repository that sessions were pushed to"
_NOISE = ("fatal: ", "error: ", "remote: ", "ssh: ", "warning: ")
_STATUS = re.compile(r"([ +\-*!=])\t([^\t:]*):([^\t]*)\t(.*)")
_REASON = re.compile(r"\((.*)\)\s*$")


@dataclass(frozen=True, slots=True)
class TransportOptions:
    """Options for git's interaction with the user.

    Attributes:
        on_output: Function that receives git's progress output.
        interactive: True if git may ask for a password.
    """

    on_output: OutputCallback | None = None
    interactive: bool = False

    @property
    def progress(self) -> str:
        """The option for a git command that can show its progress."""
        return "--progress" if self.on_output else "--no-progress"

    def run(self, git_dir: Path | None, *arguments: str) -> ProcessResult:
        """Run git with these options (see ``process.run_transfer``). Raises ``Unavailable``."""
        return process.run_transfer(git_dir, *arguments, on_output=self.on_output, interactive=self.interactive)


class Pushed(NamedTuple):
    """The result for one ref.

    Attributes:
        ok: True if the remote accepted the ref.
        moved: True if the ref was rejected because the remote's ref has moved.
        why: Git's reason; for an accepted ref, "up to date" or "".
    """

    ok: bool
    moved: bool
    why: str


@dataclass
class Results:
    """The results of a push. ``refs``: the result for each local ref. ``messages``: the messages of the remote."""

    refs: dict[str, Pushed] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)


def fetch(
    git_dir: Path, remote: Remote, specs: Sequence[str], options: TransportOptions, *, tracking_refs: int = 0
) -> None:
    """Fetch the refspecs ``specs`` from ``remote`` into the repository ``git_dir``.

    ``tracking_refs``: the number of remote-tracking refs in ``git_dir``. Those that the remote lacks are pruned.

    Raises ``Unavailable`` and ``RejectedTransfer``.
    """
    arguments = ["-c", "core.fsync=objects", "fetch", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance"]
    # For each ref that it prunes, git 2.39 reads all refs, to warn of symbolic refs to it, except with --quiet.
    arguments += ["--quiet"] if tracking_refs >= MANY_TRACKING_REFS else []
    arguments += ["--no-recurse-submodules", "--prune", "--refmap="]
    arguments += [options.progress, "--end-of-options", remote.address]
    result = options.run(git_dir, *arguments, *specs)
    if result.code:
        raise failure(remote, result)


def advertised(git_dir: Path, remote: Remote, options: TransportOptions) -> dict[str, Oid]:
    """Return the refs of the remote, by their names there. Raises ``Unavailable``."""
    with advertising(git_dir, remote, options) as refs_of_remote:
        return refs_of_remote()


@contextmanager
def advertising(git_dir: Path, remote: Remote, options: TransportOptions) -> Iterator[Callable[[], dict[str, Oid]]]:
    """Ask the remote for its refs; yield a function that waits for them (see ``advertised``).

    If git may ask for a password, the answer is awaited at once.
    """
    arguments = ("ls-remote", "--refs", "--end-of-options", remote.address)
    with process.transfer(
        git_dir, *arguments, on_output=options.on_output, interactive=options.interactive
    ) as transferred:
        answer = transferred() if options.interactive else None

        def refs_of_remote() -> dict[str, Oid]:
            result = answer or transferred()
            if result.code:
                raise failure(remote, result)
            lines = result.out.split(b"\n")
            rows = (line.decode().split("\t") for line in lines if ref_files.is_utf8(line))
            return {row[1]: row[0] for row in rows if len(row) == 2}

        yield refs_of_remote


def push(
    git_dir: Path,
    remote: Remote,
    wanted: Mapping[str, tuple[Oid, str]],
    options: TransportOptions,
    *,
    leases: Mapping[str, Oid] | None = None,
) -> Results:
    """Push refs, each to its own name at the remote.

    Refs are pushed in chunks, and each chunk that succeeds is followed by a larger one. If a whole chunk is rejected,
    its halves are tried, and no later chunk is larger than half of ``CHUNK_MAX``. The push stops when so many refs have
    been rejected that the remote seems to accept none. The refs of one session are pushed together, because the
    ``main`` branch of a fork records where its branches begin.

    Args:
        git_dir: A quarantine, which has the objects. Its refs are replaced by the refs that are pushed.
        remote: The remote to push to.
        wanted: The value of each local ref, and its name at the remote.
        options: Options for git's interaction with the user.
        leases: Refs at the remote that may be overwritten with a different history, by local name, each with the value
            that it must have before the push. No other ref is forced.

    Raises:
        Unavailable: The remote cannot be reached. The remote may have accepted some of the refs before the failure.
    """
    done = Results()
    waiting, size, size_max = _by_session(wanted), FIRST_CHUNK, CHUNK_MAX
    rejected_alone, is_any_accepted = 0, False
    while waiting:
        count = _fitting(waiting, size)
        together, waiting = waiting[:count], waiting[count:]
        chunk = {ref: wanted[ref] for group in together for ref in group}
        found = _push_chunk(git_dir, remote, chunk, options, done, leases or {})
        rejected = {ref for ref, result in found.items() if not result.ok and not result.moved}
        done.refs |= found
        is_accepted = any(result.ok and not result.why for result in found.values())
        is_any_accepted = is_any_accepted or is_accepted
        if len(together) == 1 and rejected and not is_any_accepted:
            rejected_alone += 1
            if rejected_alone == REJECTED_ENOUGH:
                random.shuffle(waiting)  # try other sessions, and different ones in the next push
            elif rejected_alone == 2 * REJECTED_ENOUGH:
                why = f"not tried: the remote rejected {rejected_alone} others ({found[min(rejected)].why})"
                done.refs |= {ref: Pushed(ok=False, moved=False, why=why) for group in waiting for ref in group}
                break
        if len(rejected) > 1 and not is_accepted and len({found[ref].why for ref in rejected}) == 1:
            again = [left for group in together if (left := [ref for ref in group if ref in rejected])]
            waiting = ([[ref] for ref in again[0]] if len(again) == 1 else again) + waiting
            size, size_max = max(1, len(chunk) // 2), CHUNK_MAX // 2
        else:
            size = min(size * 2, size_max)
    return done


def _by_session(named: Iterable[str]) -> list[list[str]]:
    """Return groups of refs that are pushed together: the refs of a session, ``main`` first; any other ref alone."""
    groups: dict[str, list[str]] = {}
    for ref in named:
        groups.setdefault(refs.session_of(ref) or ref, []).append(ref)
    return [sorted(group, key=lambda ref: not ref.endswith(f"/{refs.MAIN}")) for group in groups.values()]


def _fitting(groups: Sequence[Sequence[str]], size: int) -> int:
    """Return the number of groups, from the first on, that have at most ``size`` refs in total; at least 1."""
    count, room = 1, size - len(groups[0])
    while count < len(groups) and len(groups[count]) <= room:
        room -= len(groups[count])
        count += 1
    return count


def delete(git_dir: Path, remote: Remote, leases: Mapping[str, Oid], options: TransportOptions) -> set[str]:
    """Delete session refs at the remote; return the names that they had there.

    ``git_dir``: a quarantine with the refs that the remote keeps, under their local names, and with their
    remote-tracking refs. Without the latter, a ref that another client has deleted meanwhile would be created again.
    ``leases``: the refs to delete, by local name, each with the value that it must still have at the remote.

    `git push --prune` deletes what the quarantine lacks, and remote-tracking refs are the leases. If the refs and their
    leases were named, git would compare each of them with each ref of the remote. The tracking refs are loose, because
    git deletes each of them after the push, and would rewrite ``packed-refs`` each time.

    The refs are deleted in one transaction (``--atomic``): otherwise, a server rewrites its ``packed-refs`` for each
    ref. If the transaction fails, because another client has moved, created or deleted a ref, the refs are deleted one
    by one.
    """
    for ref, oid in leases.items():
        path = git_dir / remote.tracking(ref)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{oid}\n")
    specs = [f"{near}*:{far}*" for near, far in remote.prefixes if near == refs.SESSIONS]
    for mode in ("--atomic", "--no-atomic"):
        arguments = [word for spec in remote.fetched() for word in ("-c", f"remote.{remote.name}.fetch={spec}")]
        arguments += ["push", "--porcelain", "--no-verify", "--no-follow-tags", "--recurse-submodules=no", mode]
        arguments += ["--prune", "--force-with-lease", options.progress, "--end-of-options", remote.address]
        output = options.run(git_dir, *arguments, *specs).out.decode("utf-8", "replace")
        rows = (_STATUS.fullmatch(line) for line in output.splitlines())
        deleted = {row[3] for row in rows if row is not None and row[1] == "-"}
        if deleted or _DELETION_FORBIDDEN in output:
            break
    return deleted


def _push_chunk(
    git_dir: Path,
    remote: Remote,
    chunk: Mapping[str, tuple[Oid, str]],
    options: TransportOptions,
    done: Results,
    leases: Mapping[str, Oid],
) -> dict[str, Pushed]:
    # A pattern, because git compares each refspec without a pattern with every ref of the remote.
    values = {name: oid for oid, name in chunk.values()}
    (git_dir / ref_files.PACKED_REFS).write_bytes(ref_files.changed_packed(b"", put=values))
    arguments = ["push", "--porcelain", "--no-verify", "--no-follow-tags", "--recurse-submodules=no"]
    arguments += [f"--force-with-lease={name}:{leases[ref]}" for ref, (_, name) in chunk.items() if ref in leases]
    result = options.run(git_dir, *arguments, options.progress, "--end-of-options", remote.address, "refs/*:refs/*")
    rows = {
        row[3]: row for line in result.out.decode("utf-8", "replace").splitlines() if (row := _STATUS.fullmatch(line))
    }
    if not rows:
        raise failure(remote, result)
    done.messages += [line for line in _remote_lines(result.err) if line not in done.messages]
    return {ref: _pushed(rows.get(name)) for ref, (_, name) in chunk.items()}


def _pushed(row: re.Match[str] | None) -> Pushed:
    if row is None:
        return Pushed(ok=False, moved=False, why="git reported no result for it")
    if row[1] != "!":
        return Pushed(ok=True, moved=False, why="up to date" if row[1] == "=" else "")
    reason = _REASON.search(row[4])
    why = reason[1] if reason else row[4]
    moved = row[4].startswith("[rejected]") or why in ("failed to update ref", "incorrect old value provided")
    return Pushed(ok=False, moved=moved or "cannot lock ref" in why, why=why)


def failure(remote: Remote, result: ProcessResult) -> GitSessionError:
    """Return the error for a failed git command, with a message of one line."""
    lines = [line.strip() for line in plain(result.err).replace("\r", "\n").split("\n") if line.strip()]
    lines = [line for line in lines if not line.startswith("Cloning into ")]  # this line names a removed folder
    fatal = [line for line in lines if line.startswith(("fatal: ", "error: ", "ssh: ", "remote: "))]
    output = " ".join(lines)
    note = "no store was created" if remote.is_new else "nothing was lost"
    bad = next((line for line in lines if _BAD_OBJECT.search(line)), "")
    if bad:
        return RejectedTransfer(remote.problem(f"has an object that git rejects: {_short(bad)}"))
    about = next((line for line in lines if _OFFLINE.search(line) or _DENIED.search(line)), "")
    message = _short(about or (fatal or lines or ["git was killed" if result.code < 0 else "no message"])[0])
    if not remote.is_named and os.path.isfile(remote.url):
        return RejectedTransfer(f"cannot read '{remote.url}': it is not a complete bundle: {message}")
    if _DENIED.search(output):
        command = f"gitsession git ls-remote {remote.name}"
        if remote.is_new:
            command = f"git ls-remote {shlex.quote(plain(remote.url))}"
        hint = f"run `{command}` to enter a password or to see the full message"
        return Unavailable(remote.problem(f"denied access: {message}"), hint=hint)
    if _OFFLINE.search(output):
        return Unavailable(
            remote.problem(f"cannot be reached: {message}"), hint=f"try again when you are online ({note})"
        )
    if _LOCAL_FAILURE.search(output) or result.code < 0:
        about = next((line for line in lines if _LOCAL_FAILURE.search(line)), message)
        return Unavailable(remote.problem(f"cannot be used now: {_short(about)}"), hint=f"try again ({note})")
    scheme = _NO_HELPER.search(output)
    if scheme:
        what = f"has a URL with a scheme that git does not support: {scheme[1] or scheme[2]}"
        return Unavailable(remote.problem(what), hint="use a URL with https, ssh or file")
    if _NOT_FOUND.search(output):
        path = missing(remote.url)
        why = message if not path else "the folder is not a git repository" if os.path.isdir(path) else "no such folder"
        hint = _NAME_HINT if remote.is_new else "run `gitsession remote` to list the URLs of the remotes"
        return Unavailable(remote.problem(f"was not found: {why}"), hint=hint)
    if _NO_REPOSITORY.search(output):
        return Unavailable(remote.problem("is a file, but neither a repository nor a bundle"), hint=_NAME_HINT)
    return RejectedTransfer(remote.problem(f"cannot be used: {message}"))


class RejectedTransfer(Unavailable):
    """An error in a transfer that is not a connection error: git may have rejected a ref or an object."""


def _short(line: str) -> str:
    for noise in _NOISE:
        line = line.removeprefix(noise)
    return line[:300]


def _remote_lines(err: str) -> list[str]:
    """Return the messages of the remote's hooks."""
    lines = (line.strip() for line in err.replace("\r", "\n").split("\n") if line.startswith("remote: "))
    messages = [line.removeprefix("remote: ").strip() for line in lines]
    return [
        line for line in messages if line and not re.match(r"(Counting|Compressing|Total|Enumerating|Resolving) ", line)
    ]


def create_bundle(git_dir: Path, path: Path, names: Iterable[str]) -> None:
    """Write the refs ``names`` and their histories to a new bundle at ``path``."""
    arguments = ("bundle", "create", "--quiet", "--version=2", os.path.abspath(path), "--stdin")
    process.run(git_dir, *arguments, stdin="".join(f"{name}\n" for name in names).encode(), timeout_seconds=6 * 3600)


# -- objects that a clone left out (`--filter`), fetched when they are read


def fetch_on_demand(store: GitStore) -> None:
    """Let ``store`` fetch objects from its promisor remote if the clone left them out.

    By default, a store never contacts a remote when it reads an object, because reading a lost object could then cause
    a fetch from any remote that the store's configuration names.
    """
    found = (remote for remote in remotes.list_remotes(store.git_dir) if ("promisor", "true") in remote.settings)
    remote = next(found, None)
    if remote is not None:
        store.promised = lambda oid: _fetch(store, remote, oid)


def _fetch(store: GitStore, remote: Remote, oid: Oid) -> None:
    """Fetch one object. Raises ``MissingObject`` if that fails."""
    try:
        with Quarantine(store.git_dir, remote, {}, keep_others=True) as quarantine:
            fetch(quarantine.git_dir, remote, [oid], TransportOptions())
            quarantine.move_in(kept=False)
    except (GitSessionError, OSError) as error:
        raise MissingObject(
            f"object {oid} is missing, and cannot be fetched from {remote.name}: {error}",
            hint="try again when the remote can be reached (this clone does not contain all objects)",
        ) from None
