"""Setup of a bare repository as a server of sessions: hooks, and settings that prevent data loss.

Before a change, the previous settings are recorded in ``gitsession/server.json``, so that ``uninstall`` can restore
them. A second ``install`` with the same arguments changes nothing.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from gitsession.dataclass import dataclass
from gitsession.errors import GitSessionError, NotAStore, Refused, Unavailable
from gitsession.git import hook_files, process
from gitsession.store import create, refs
from gitsession.validation.validate import is_allowed

HOOKS = ("pre-receive", "post-receive")
SETTINGS = {
    "receive.denyNonFastForwards": "true",
    "receive.denyDeletes": "true",
    "transfer.fsckObjects": "true",
    "transfer.unpackLimit": "1",
    "receive.hideRefs": "refs/gitsession",
}
PROGRAM = "gitsession.program"
ALLOWED = "gitsession.allowRefs"
_MULTI_VALUED = ("receive.hideRefs", ALLOWED)
"""Settings with several values. gitsession adds values to them."""

_NOTE = f"{create.CONTROL}/server.json"


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The state of a server.

    Attributes:
        hooks: State of each hook (see ``hook_files``).
        kept: New file names of the hooks that existed before the installation.
        lacking: Settings that do not have the required value, each with the required value.
        program: Command that the hooks run.
        program_is_there: Whether this command exists.
        is_store: Whether ``main`` marks the repository as a store.
        allowed: Patterns of refs that may be pushed although they do not belong to gitsession.
    """

    hooks: Mapping[str, str]
    kept: Sequence[str]
    lacking: Mapping[str, str]
    program: str
    program_is_there: bool
    is_store: bool
    allowed: Sequence[str]

    @property
    def is_installed(self) -> bool:
        are_hooks_current = all(state == hook_files.CURRENT for state in self.hooks.values())
        return are_hooks_current and not self.lacking and self.program_is_there


def install(repository: Path, program: Sequence[str], allow: Collection[str] = ()) -> list[str]:
    """Make ``repository`` a server; return a line for each change. ``program``: the command that the hooks run.

    Raises ``NotAStore`` if ``repository`` is not a supported bare repository, and ``Refused`` if a hook, a ref
    or the setting ``core.hooksPath`` prevents the installation.
    """
    git_dir = _bare(repository)
    done: list[str] = []
    allowed = {*values(git_dir, ALLOWED), *allow}
    existing = process.run(git_dir, "for-each-ref", "--format=%(refname)").out.decode("utf-8", "replace").split()
    own = (refs.SESSIONS, refs.STORE_BRANCHES, "refs/gitsession/", "refs/remotes/")
    others = [name for name in existing if name != create.MAIN and not name.startswith(own)]
    other_refs = [name for name in others if not is_allowed(name, allowed)]
    is_foreign = create.MAIN in existing and not _is_store(git_dir) and not is_allowed(create.MAIN, allowed)
    if other_refs or is_foreign:
        examples = ", ".join(other_refs[:3]) or create.MAIN
        raise Refused(
            f"cannot install the hooks in '{git_dir}': it has refs that do not belong to gitsession, "
            f"and pushes to them would be rejected ({examples})",
            hint="pass --allow PATTERN to allow pushes to them, such as --allow 'refs/heads/*'",
        )
    settings = {**SETTINGS, PROGRAM: shlex.join(program)}
    _record_settings(git_dir, [*settings, ALLOWED])
    for name, value in [*settings.items(), *((ALLOWED, pattern) for pattern in allow)]:
        if _set(git_dir, name, value):
            done.append(f"{name} = {value}")
    for name in HOOKS:
        before = hook_files.state(git_dir / "hooks", name)
        if hook_files.install(git_dir / "hooks", name):
            kept = f"; the existing hook was renamed to {name}{hook_files.LOCAL}" if before == hook_files.OTHER else ""
            done.append(f"hooks/{name} installed{kept}")
    if not existing:
        _create_first_commit(git_dir)
        done.append(f"{create.MAIN} created: the repository is now a store")
    return done


def uninstall(repository: Path) -> list[str]:
    """Revert ``install``; return a line for each change. Pushed refs and ``main`` are not removed."""
    git_dir = _bare(repository)
    done = [f"hooks/{name} removed" for name in HOOKS if hook_files.remove(git_dir / "hooks", name)]
    try:
        before: dict[str, list[str]] = json.loads((git_dir / _NOTE).read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return done
    for name, old in before.items():
        now = values(git_dir, name)
        was_changed_since = name in SETTINGS and name not in _MULTI_VALUED and now != [SETTINGS[name]]
        if now == old or was_changed_since:
            continue
        _config(git_dir, "--unset-all", name)
        later = [value for value in now if value not in (*old, SETTINGS[name])] if name == "receive.hideRefs" else []
        for value in (*old, *later):
            _config(git_dir, "--add", name, value)
        done.append(f"{name} restored: {', '.join(values(git_dir, name)) or 'not set'}")
    (git_dir / _NOTE).unlink()
    with suppress(OSError):
        (git_dir / create.CONTROL).rmdir()
    return done


def status(repository: Path) -> ServerStatus:
    """Return the state of ``repository``. Raises ``NotAStore`` if it is not a supported bare repository."""
    git_dir = _bare(repository)
    hooks = git_dir / "hooks"
    program = next(iter(values(git_dir, PROGRAM)), "")
    arguments = shlex.split(program) or ["gitsession"]
    return ServerStatus(
        hooks={name: hook_files.state(hooks, name) for name in HOOKS},
        kept=[name + hook_files.LOCAL for name in HOOKS if hook_files.has_local_hook(hooks, name)],
        lacking={name: value for name, value in SETTINGS.items() if not _is_set(git_dir, name, value)},
        program=program,
        program_is_there=shutil.which(arguments[0]) is not None,
        is_store=_is_store(git_dir),
        allowed=values(git_dir, ALLOWED),
    )


def values(git_dir: Path, name: str) -> list[str]:
    """Return the values of a setting in the repository's own configuration."""
    output = process.run(git_dir, "config", "--local", "--null", "--get-all", name, accept=(0, 1)).out
    return [value for value in output.decode("utf-8", "surrogateescape").split("\0") if value]


def own_settings(git_dir: Path) -> dict[str, list[str]]:
    """Return all settings of the repository whose names begin with ``gitsession.``. The names are in lower case."""
    output = process.run(git_dir, "config", "--local", "--null", "--get-regexp", r"^gitsession\.", accept=(0, 1)).out
    found: dict[str, list[str]] = {}
    for setting in output.decode("utf-8", "surrogateescape").split("\0")[:-1]:
        name, _, value = setting.partition("\n")
        found.setdefault(name, []).append(value)
    return found


def _bare(repository: Path) -> Path:
    """Return the git directory of ``repository``.

    Raises ``NotAStore`` if the repository is not supported, and ``Refused`` if ``core.hooksPath`` is set.
    """
    if not repository.is_dir():
        raise NotAStore(
            f"cannot use '{repository}' as a server: it is not a folder",
            hint="run `git init --bare` to create a repository",
        )
    arguments = ("--is-bare-repository", "--show-object-format", "--absolute-git-dir")
    output = process.run(repository, "rev-parse", *arguments, accept=range(256))
    lines = output.out.decode("utf-8", "surrogateescape").splitlines()
    if output.code or len(lines) != len(arguments) or lines[0] != "true":
        raise NotAStore(
            f"cannot use '{repository}' as a server: it is not a bare git repository",
            hint="run `git init --bare` to create a repository without a working tree",
        )
    if lines[1] != "sha1" or values(repository, "extensions.refstorage"):
        raise NotAStore(
            f"cannot use '{repository}' as a server: its object ids must be SHA-1 and its refs must be stored in files",
            hint="run `git init --bare --object-format=sha1` to create a repository",
        )
    elsewhere = values(repository, "core.hooksPath")
    if elsewhere:
        raise Refused(
            f"cannot install the hooks in '{repository}': its core.hooksPath is '{elsewhere[0]}'",
            hint="unset core.hooksPath in that repository",
        )
    return Path(lines[2])


def _is_store(git_dir: Path) -> bool:
    try:
        create.check_marker(git_dir)
    except GitSessionError:
        return False
    return True


def _create_first_commit(git_dir: Path) -> None:
    """Write the first commit of a store to an empty repository."""
    commit, objects = create.first_commit()
    for kind, data in objects.values():
        process.run(git_dir, "hash-object", "-w", "-t", kind, "--stdin", stdin=data)
    process.run(git_dir, "update-ref", create.MAIN, commit, "0" * 40)
    process.run(git_dir, "symbolic-ref", "HEAD", create.MAIN)


def _record_settings(git_dir: Path, names: Sequence[str]) -> None:
    """Record the current values of settings in ``server.json``, unless that file exists."""
    path = git_dir / _NOTE
    if path.exists():
        return
    path.parent.mkdir(exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps({name: values(git_dir, name) for name in names}, indent=1) + "\n", "utf-8")
    temporary.rename(path)


def _is_set(git_dir: Path, name: str, value: str) -> bool:
    current = values(git_dir, name)
    return value in current if name in _MULTI_VALUED else current[-1:] == [value]


def _set(git_dir: Path, name: str, value: str) -> bool:
    if _is_set(git_dir, name, value):
        return False
    _config(git_dir, *(("--add",) if name in _MULTI_VALUED else ("--replace-all",)), name, value)
    return True


def _config(git_dir: Path, *arguments: str) -> None:
    result = process.run(
        git_dir, "config", "--local", *arguments, accept=(0, 5)
    )  # exit code 5: the setting has no value
    if result.code and arguments[0] != "--unset-all":
        raise Unavailable(f"`git config` failed with exit code {result.code}: {result.err[-200:]}")
