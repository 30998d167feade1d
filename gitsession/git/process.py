"""Git as a child process, for the tasks that need it: transport, repacking, fsck.

Git always runs with ``--git-dir``, so that it does not search for a repository, and in a new environment. So no
variable and no configuration file of the user or of a hostile store (hooks, fsmonitor) can change what runs. Only
transport, signing and lookups of settings use the user's configuration, for example for credentials and ssh.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import stat
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gitsession.durable import read_regular
from gitsession.errors import Unavailable
from gitsession.paths import may_be_configured
from gitsession.pattern import pattern

if TYPE_CHECKING:
    from subprocess import Popen

_FIXED = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.askPass=",
    "protocol.ext.allow=never",
    "gc.auto=0",
    "maintenance.auto=false",
    "core.packedGitWindowSize=1m",  # by default, git keeps all packs that it reads mapped into memory
    "core.packedGitLimit=16m",
    "pack.writeReverseIndex=true",  # store/maintenance.py needs it to detect git's packs; the default since git 2.41
)
_REPOSITORY_FILES = (
    "config", "config.worktree", "commondir", "HEAD", "packed-refs", "index", "info/exclude", "shallow",
    "objects/info/alternates",
)  # fmt: skip
_REF_FOLDERS = ("refs", "logs")
_FILE_SETTING = pattern(r"(?mi)^\s*(?:\[[^\]\n]*\]\s*)?(?:path|excludesFile|attributesFile)\s*=\s*(.*)$")
"""Settings whose value is the path of another file that git reads."""
_FSCK_SECONDS = 3600.0
_TRANSFER_SECONDS = 6 * 3600.0
_LONG_SECONDS = 3.0
_USER_VARIABLES = (
    "GIT_ASKPASS",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_SYSTEM",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSH_VARIANT",
)
"""Git variables that are passed to git if the user's configuration is used. None of them selects another repository."""

_PASSED_VARIABLES = ("PATH", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")

OBJECTS = "GIT_OBJECT_DIRECTORY"
QUARANTINE = ("GIT_QUARANTINE_PATH", OBJECTS, "GIT_ALTERNATE_OBJECT_DIRECTORIES")
"""Variables that git sets for its hook `pre-receive`.

These variables name the folders of pushed objects that are not accepted yet.
"""


class BlockedRead(Unavailable):
    """The error if git would wait forever to read a file, because the file is a pipe or a device."""


class ProcessResult(NamedTuple):
    code: int
    out: bytes
    warnings: bytes

    @property
    def err(self) -> str:
        return self.warnings.decode("utf-8", "replace").strip()


class Worktree(NamedTuple):
    """A working tree for git: its root ``top``, the folder ``at`` to run in, and its index (``None``: the default)."""

    top: str
    at: str
    index_file: str | None = None


def run(
    git_dir: Path | None,
    *arguments: str,
    stdin: bytes = b"",
    accept: Collection[int] = (0,),
    timeout_seconds: float = 600.0,
    user_config: bool = False,
    worktree: Worktree | None = None,
    variables: Mapping[str, str] | None = None,
    obstacle: Callable[[], str] | None = None,
) -> ProcessResult:
    """Run git and wait. Raises ``Unavailable`` if git is missing or too slow, or for an exit code not in ``accept``.

    ``variables``: git variables for the child; git variables of this process are not copied. ``obstacle``: called once,
    if git runs for more than 3 seconds; returns the path of a file that git waits for, or "".

    Raises ``BlockedRead`` if git waits for the file that ``obstacle`` returns, or for a configuration file that is a
    pipe or a device.
    """
    import subprocess

    command = _command(git_dir)
    verb = next((word for word in arguments if not word.startswith("-") and "=" not in word), "")
    env = environment(user_config=user_config) | dict(variables or {})
    at = "/" if git_dir is None else git_dir  # the current directory may be deleted or in another repository
    if worktree is not None:
        command.append(f"--work-tree={worktree.top}")
        env |= {"GIT_INDEX_FILE": worktree.index_file} if worktree.index_file else {}
        at = worktree.at
    try:
        with _popen([*command, *arguments], env, at) as child:
            try:
                out, err = _communicate(
                    child, stdin, timeout_seconds, lambda: _blocking(git_dir) or (obstacle() if obstacle else "")
                )
            except BaseException:
                child.kill()
                raise
    except subprocess.TimeoutExpired:
        raise Unavailable(f"`git {verb}` did not finish within {timeout_seconds:g} s") from None
    result = ProcessResult(child.returncode, out, err)
    if result.code not in accept:
        raise Unavailable(f"`git {verb}` failed with exit code {result.code}: {result.err[-500:] or 'no message'}")
    return result


def _communicate(
    child: Popen[bytes], stdin: bytes, timeout_seconds: float, obstacle: Callable[[], str]
) -> tuple[bytes, bytes]:
    """Return the output and the error output of ``child``.

    If ``child`` runs for more than 3 seconds and ``obstacle`` then names a file, ``child`` is killed and
    ``BlockedRead`` is raised.
    """
    found: list[str] = []

    def kill_if_blocked() -> None:
        path = obstacle()
        if path:
            found.append(path)
            child.kill()

    # A timer is used instead of a timeout of ``communicate``, because a second call of ``communicate`` loses ``stdin``.
    timer = threading.Timer(_LONG_SECONDS, kill_if_blocked)
    timer.daemon = True
    timer.start()
    try:
        output = child.communicate(stdin, timeout=timeout_seconds)
    finally:
        _end(timer)
    if found:
        message = f"cannot run git: '{found[0]}' is a pipe or a device, and git would block on it"
        raise BlockedRead(message, hint="replace it with a file, or remove it from the git configuration")
    return output


def _end(timer: threading.Timer) -> None:
    """Cancel ``timer``, and wait for its thread: work is shared with other processes only if there is one thread."""
    timer.cancel()
    timer.join()


def _blocking(git_dir: Path | None) -> str:
    """Return a file of the repository or of git's configuration that would block git when read; "" if there is none."""
    store = os.path.abspath(git_dir) if git_dir is not None else None
    inside = [] if store is None else [f"{store}/{name}" for name in _REPOSITORY_FILES]
    for name in () if store is None else _REF_FOLDERS:
        for folder, _, files in os.walk(f"{store}/{name}"):
            found = next((path for file in files if blocks(path := f"{folder}/{file}")), "")
            if found:
                return found
    waiting: list[str] = [*user_configs(), _default_excludes_file(), *inside]
    seen: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        if blocks(path):
            return path
        with contextlib.suppress(OSError):
            text = (read_regular(path) or b"").decode("utf-8", "surrogateescape")
            paths = (os.path.expanduser(value.strip().strip('"')) for value in _FILE_SETTING.findall(text))
            waiting += [os.path.join(os.path.dirname(path), value) for value in paths if "\0" not in value]
    return ""


def blocks(path: str) -> bool:
    """Return whether reading ``path`` can block forever: it is a pipe or a device other than the null device."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    is_special = stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISBLK(mode)
    return is_special and not os.path.samefile(path, os.devnull)


def start(git_dir: Path, *arguments: str, variables: Mapping[str, str] | None = None) -> Popen[bytes]:
    """Start git as a process that serves several requests; discard its standard error. Raises ``Unavailable``.

    ``variables``: as for ``run``.
    """
    env = environment() | dict(variables or {})
    return _popen([*_command(git_dir), *arguments], env, git_dir, bufsize=0, has_errors=False)


def quarantine(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables in ``environ`` that name the folders of pushed objects that are not accepted yet."""
    return {name: environ[name] for name in QUARANTINE if name in environ}


def _command(git_dir: Path | None, settings: Iterable[str] = _FIXED) -> list[str]:
    command = ["git", *(word for setting in settings for word in ("-c", setting))]
    return command if git_dir is None else [*command, f"--git-dir={os.path.abspath(git_dir)}"]


def _popen(
    command: Sequence[str],
    env: Mapping[str, str],
    at: Path | str,
    *,
    has_input: bool = True,
    has_errors: bool = True,
    bufsize: int = -1,
    new_session: bool = False,
) -> Popen[bytes]:
    """Start git with a pipe for its output, and also for its input and its errors if requested.

    Raises ``Unavailable``.
    """
    from subprocess import DEVNULL, PIPE, Popen  # slow to import, and not used by a program that only reads

    stdin, stderr = PIPE if has_input else DEVNULL, PIPE if has_errors else DEVNULL
    try:
        return Popen(
            command, env=env, cwd=at, bufsize=bufsize, start_new_session=new_session,
            stdin=stdin, stdout=PIPE, stderr=stderr,
        )  # fmt: skip
    except FileNotFoundError:
        if not os.path.isdir(at):
            raise Unavailable(f"cannot run git in '{at}': the folder does not exist") from None
        raise Unavailable("git is not on the PATH", hint="install git 2.39 or later") from None


OutputCallback = Callable[[bytes], None]
"""A function that receives git's progress output as it arrives."""


def run_transfer(
    git_dir: Path | None, *arguments: str, on_output: OutputCallback | None = None, interactive: bool = False
) -> ProcessResult:
    """Run git to exchange data with another repository, with the user's configuration. Accepts every exit code.

    ``on_output``: receives the progress output. ``interactive``: True if git and ssh may ask the user for a password;
    otherwise they get no terminal. Raises ``Unavailable`` if git is missing or too slow.
    """
    with transfer(git_dir, *arguments, on_output=on_output, interactive=interactive) as result:
        return result()


@contextlib.contextmanager
def transfer(
    git_dir: Path | None, *arguments: str, on_output: OutputCallback | None = None, interactive: bool = False
) -> Iterator[Callable[[], ProcessResult]]:
    """Start git as ``run_transfer`` does; yield a function that waits for its result. At the end, git is killed."""
    env = environment(user_config=True)
    if interactive:
        env["GIT_TERMINAL_PROMPT"] = "1"
    command = _command(git_dir, [each for each in _FIXED if not (interactive and each.startswith("core.askPass"))])
    at = "/" if git_dir is None else git_dir
    with _popen([*command, *arguments], env, at, has_input=False, new_session=not interactive) as child:
        try:
            yield lambda: _transferred(child, on_output)
        finally:
            if child.poll() is None:  # Ctrl-C must not leave the child running
                child.kill()


def _transferred(child: Popen[bytes], on_output: OutputCallback | None) -> ProcessResult:
    assert child.stdout is not None
    assert child.stderr is not None
    chunks: list[bytes] = []
    reader = threading.Thread(target=_forward_output, args=(child.stderr.fileno(), on_output, chunks), daemon=True)
    timer = threading.Timer(_TRANSFER_SECONDS, child.kill)
    timer.daemon = True
    timer.start()
    try:
        reader.start()
        out = child.stdout.read()
        reader.join()
        code = child.wait()
    finally:
        _end(timer)
    return ProcessResult(code, out, b"".join(chunks))


def _forward_output(source: int, on_output: OutputCallback | None, chunks: list[bytes]) -> None:
    while chunk := os.read(source, 1 << 16):
        chunks.append(chunk)
        if on_output is not None:
            on_output(chunk)


def environment(*, user_config: bool = False) -> dict[str, str]:
    """Return the environment for a git process.

    If ``user_config`` is False, only the variables that locate programs are copied from this process. If
    ``user_config`` is True, all variables are copied except git's own variables. Of these, only ``_USER_VARIABLES`` are
    copied.
    """
    if user_config:
        env = {name: os.environ[name] for name in os.environ if not name.startswith("GIT_") or name in _USER_VARIABLES}
    else:
        env = {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}
        env |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "HOME": "/nonexistent"}
        # Without network access, git does not fetch a lost object from a promisor remote. The store's configuration
        # could name a program for the fetch.
        env |= {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}
    # Git must read the objects as stored, without replace refs and grafts.
    env |= {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_GRAFT_FILE": "/nonexistent"}
    return {**env, "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}


def version() -> tuple[int, ...]:
    """Return git's version, such as ``(2, 39, 5)``. Raises ``Unavailable`` if git is not installed."""
    text = run(None, "version").out.decode("utf-8", "replace")
    found = re.search(r"\d+(?:\.\d+)+", text)
    if not found:
        raise Unavailable(f"unexpected output of `git version`: {text[:80]!r}")
    return tuple(int(part) for part in found.group().split("."))


def user_setting(name: str) -> str | None:
    """Return a setting from the user's own git configuration, not from a repository in the working directory.

    Returns ``None`` if the setting does not exist or git is not installed.
    """
    output = _config(None, "--global", "--get", name)
    return output.decode("utf-8", "surrogateescape").strip() or None


def user_settings(prefix: str) -> dict[str, str]:
    """Return the user's own settings whose names begin with ``prefix``, by name. Git prints the names in lower case."""
    if prefix.startswith("gitsession.") and not may_be_configured(os.environ, _home()):
        return {}
    output = _config(None, "--global", "--null", "--get-regexp", f"^{re.escape(prefix)}")
    items = output.decode("utf-8", "surrogateescape").split("\0")
    return {name: value for name, _, value in (setting.partition("\n") for setting in items) if name}


def watched_setting(name: str) -> str:
    """Return a setting of the user, or "". It is read again only if a configuration file changes: git takes 5 ms."""
    if not may_be_configured(os.environ, _home()):
        return ""
    return _read_setting(name, tuple(map(_stamp_of, user_configs())))


@functools.lru_cache(maxsize=8)
def _read_setting(name: str, stamps: tuple[object, ...]) -> str:
    return user_settings(name).get(name.lower(), "")


def _stamp_of(path: str) -> tuple[str, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return path, 0, 0
    return path, found.st_mtime_ns, found.st_size


def user_configs() -> list[str]:
    """Return the paths of the user's own configuration files, whether or not they exist, without included files."""
    path = os.environ.get("GIT_CONFIG_GLOBAL")
    return [path] if path else [f"{_config_home()}/git/config", f"{_home()}/.gitconfig"]


def excludes_file(git_dir: Path | None) -> str:
    """Return the path of the ignore file that the user has set globally or for ``git_dir``. The file may not exist."""
    path = _config(git_dir, "-z", "--type=path", "--get", "core.excludesFile").partition(b"\0")[0]
    return os.fsdecode(path) or _default_excludes_file()


def _default_excludes_file() -> str:
    return f"{_config_home()}/git/ignore"


def _config(git_dir: Path | None, *arguments: str) -> bytes:
    """Return the output of `git config` with the user's configuration; "" if git is not installed.

    Raises ``BlockedRead``.
    """
    try:
        return run(git_dir, "config", "--includes", *arguments, accept=range(256), user_config=True).out
    except BlockedRead:
        raise
    except Unavailable:
        return b""


def _config_home() -> str:
    return os.environ.get("XDG_CONFIG_HOME") or f"{_home()}/.config"


def _home() -> str:
    return os.environ.get("HOME", "/nonexistent")


def fsck(git_dir: Path) -> list[str]:
    """Return the output lines of `git fsck --strict` if it fails, and one more line if git crashed (git 2.39 can)."""
    return begin_fsck(git_dir)()


def begin_fsck(git_dir: Path) -> Callable[[], list[str]]:
    """Start `git fsck`; return a function that waits for its output lines. Both functions raise ``Unavailable``."""
    import subprocess

    arguments = ("fsck", "--strict", "--no-dangling", "--no-reflogs", "--no-progress")
    git = _popen([*_command(git_dir), *arguments], environment(), git_dir, has_input=False)

    def wait() -> list[str]:
        try:
            out, err = _communicate(git, b"", _FSCK_SECONDS, lambda: _blocking(git_dir))
        except BlockedRead as error:
            return [str(error)]
        except subprocess.TimeoutExpired:
            git.kill()
            git.communicate()
            raise Unavailable(f"`git fsck` did not finish within {_FSCK_SECONDS:g} s") from None
        code = git.returncode
        output = f"{err.decode('utf-8', 'replace').strip()}\n{out.decode('utf-8', 'replace')}"
        lines = [line for line in output.split("\n") if line.strip()] if code else []
        return [*lines, f"`git fsck` was killed by signal {-code}"] if code < 0 else lines

    return wait
