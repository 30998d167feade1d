"""Creation of a store, and the check that a path is a store of this format.

A store is built in a temporary sibling directory and then renamed. So a killed process leaves no partial store. If two
processes create the store at once, the second one uses the store of the first. This module writes every file itself, so
the result depends neither on git nor on the user's configuration. A store is a bare repository with SHA-1 object ids,
refs in files and the branch ``main``. Libgit2, and git 2.39 and later, can open it.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from gitsession.durable import make_directories, read_regular, sync_directory, write_new
from gitsession.errors import Corrupt, Malformed, MissingObject, NotAStore, Unavailable
from gitsession.git import config, permissions, ref_files
from gitsession.git.objects import encode_commit, encode_tree, oid_of, parse_commit, parse_tree
from gitsession.git.pack_writer import KEEP_TEXT, release_packs, write_pack
from gitsession.git.repository import VerifiedRepository
from gitsession.git.types import Kind, Oid
from gitsession.store import journal

FORMAT = 1
MAIN = "refs/heads/main"
CONTROL = "gitsession"
JOURNAL, PROOFS = f"{CONTROL}/journal", f"{CONTROL}/reflocks"
THREADS = f"{CONTROL}/threads"
LOCK, KEEP = f"{CONTROL}/lock", f"{CONTROL}/keep"
INCOMING, SYNC_LOCK = f"{CONTROL}/incoming", f"{CONTROL}/sync.lock"
PURGE_PENDING = f"{CONTROL}/purge-pending"
_REQUIRED_FILES = (config.HEAD, config.FILE, ref_files.PACKED_REFS, "objects", "refs", JOURNAL)

MARKER = "gitsession.json"
_MARKER_TEXT = b'{"format": %d}\n' % FORMAT
_DAMAGED = "run `gitsession repair`, with --from CLONE if data is missing"
_REPAIR = "if it was a store, run `gitsession repair`"
_INIT = "run `gitsession init` to create a store"
_TRIES = 20
_README = """\
# A gitsession store

Sessions of AI agents, kept as git history: one branch below `sessions/` for each line of a conversation, one commit
for each entry. `git log sessions/<session>/main` shows one.
"""
ATTRIBUTES, ATTRIBUTES_TEXT = "info/attributes", b"entry.cbor diff=gitsession\n"
_KNOWN_EXTENSIONS = frozenset(
    {"noop", "objectformat", "refstorage", "preciousobjects", "worktreeconfig", "relativeworktrees", "partialclone"}
)


def create(path: Path | str) -> None:
    """Create an empty store at ``path``. An existing store is not changed.

    Raises ``NotAStore`` if ``path`` exists and is not a store, and ``Unavailable`` if the disk fails.
    """
    path = Path(os.path.abspath(path))
    if os.path.lexists(path) and not _is_empty_directory(path) and not is_spool_only(path):
        try:
            check(path)
        except NotAStore as error:
            raise NotAStore(f"cannot create a store: {error}", hint="choose an empty or a new folder") from None
        return
    temporary = path.parent / f".{path.name}.{os.urandom(6).hex()}.tmp"
    try:
        make_directories(path.parent)
        try:
            _build(temporary)
            _move_in(path, temporary)
            _rename_into_place(temporary, path)
        finally:
            import shutil  # slow to import, and not required by most commands

            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise Unavailable(f"cannot create a store at '{path}': {error.strerror}") from error


def is_spool_only(path: Path) -> bool:
    """Return whether ``path`` contains no store, but only files that hooks wrote before a store was created."""
    try:
        return os.listdir(path) == [CONTROL] and not set(os.listdir(path / CONTROL)) & {"journal", "lock", "keep"}
    except OSError:
        return False


def is_purge_pending(path: Path | str) -> bool:
    """Return whether a purge of the store at ``path`` has started but not finished."""
    return os.path.exists(f"{os.fspath(path)}/{PURGE_PENDING}")


def check(path: Path | str, *, damaged: bool = False) -> None:
    """Check that ``path`` is a store of this format.

    Raises ``NotAStore``, ``Corrupt`` or ``Unavailable`` with a one-line reason. If ``damaged`` is true, a repository
    with gitsession's control directory is accepted even if the ``HEAD``, the configuration or the marker is damaged or
    missing.
    """
    path = Path(path)
    if is_spool_only(path):
        raise NotAStore(f"cannot open the store '{path}': it does not exist", hint=_INIT)
    try:
        owner = path.stat().st_uid
        wrong = config.problems(path) if (path / CONTROL).is_dir() else {}
        settings = {} if wrong else config.settings(_text(path / config.FILE))
        head = "" if wrong else _text(path / config.HEAD)
    except (FileNotFoundError, NotADirectoryError):
        raise NotAStore(f"'{path}' is not a git repository", hint=_hint(path)) from None
    except PermissionError as error:
        raise permissions.denied(Path(error.filename)) from None
    except OSError as error:
        raise NotAStore(f"cannot read '{path}': {error.strerror}") from None
    if owner != os.geteuid():
        message = f"cannot open '{path}': it belongs to another user (uid {owner})"
        raise NotAStore(message, hint="open it as its owner, or clone it")
    if wrong and not damaged:
        description = ", ".join(f"{name} {message}" for name, message in wrong.items())
        raise Corrupt(f"the store '{path}' is damaged: {description}", hint="run `gitsession repair`")
    _check_layout(path, settings, head)
    if not (damaged and (path / CONTROL).is_dir()):
        check_marker(path)


def _text(file: Path) -> str:
    """Return the text of a file. Raises ``OSError``, also if the file is a pipe, which would block."""
    data = read_regular(file)
    if data is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(file))
    return data.decode("utf-8", "replace")


def is_partial(path: Path) -> bool:
    """Return whether the store is a partial clone, which lacks some objects."""
    return any((path / "objects" / "pack").glob("*.promisor"))


def is_shallow(path: Path) -> bool:
    """Return whether the store is a shallow clone, which lacks the oldest entries."""
    return (path / "shallow").exists()


def check_readable(path: Path) -> None:
    """Raise ``Unavailable`` if a file of the store cannot be read for lack of permission.

    Such a file is not reported as damaged.
    """
    permissions.require(path / name for name in _REQUIRED_FILES)


def _check_layout(path: Path, settings: dict[str, str], head: str) -> None:
    if settings.get("extensions.objectformat", "sha1").lower() != "sha1":
        raise NotAStore(f"cannot open '{path}': it uses SHA-256, but a store uses SHA-1", hint=_INIT)
    if settings.get("extensions.refstorage", "files").lower() != "files" or "refs/heads/.invalid" in head:
        hint = "run `git refs migrate --ref-format=files` in the repository"
        raise NotAStore(f"cannot open '{path}': its refs are in a reftable, not in files", hint=hint)
    version = settings.get("core.repositoryformatversion", "0")
    extensions = {key.removeprefix("extensions.") for key in settings if key.startswith("extensions.")}
    unknown = sorted(extensions - _KNOWN_EXTENSIONS) if version == "1" else []
    if unknown or version not in ("0", "1"):
        unsupported = ", ".join(unknown) or f"version {version}"
        raise NotAStore(f"cannot open '{path}': unsupported git repository format: {unsupported}")
    if not (path / "objects").is_dir() or not (path / "refs").is_dir():
        raise NotAStore(f"'{path}' is not a git repository: its folder objects or refs is missing")


def check_marker(path: Path) -> None:
    """Check the marker of a store: a file on its main branch, which every clone contains."""
    try:
        value = _marker(VerifiedRepository(path))
    except (MissingObject, Corrupt, Malformed, Unavailable) as error:
        check_readable(path)
        if (path / CONTROL).is_dir():
            raise Corrupt(f"the store '{path}' is damaged: {error}", hint=_DAMAGED) from None
        what = f"cannot read {MARKER} on branch main of '{path}': {error}"
        raise NotAStore(what, hint=_incomplete_hint(path)) from None
    version = value.get("format") if isinstance(value, dict) else None
    if not isinstance(version, int):
        hint = _REPAIR if (path / CONTROL).is_dir() else ""
        what = f"'{path}' is a git repository, but not a store: no valid {MARKER} on its branch main"
        raise NotAStore(what, hint=hint)
    if version > FORMAT:
        raise NotAStore(
            f"cannot open the store '{path}': its format is {version}, but the newest supported format is {FORMAT}",
            hint="upgrade gitsession",
        )


def _incomplete_hint(path: Path) -> str:
    """Return how to get the objects that a repository without gitsession's control directory lacks; "" if unknown."""
    if is_partial(path):
        return "it is a partial clone: clone the store again, with `gitsession clone` or without --filter"
    if (path / "objects/info/alternates").exists():
        return (
            "it borrows objects from another repository: run `git repack -a -d` in it, then delete its file "
            "objects/info/alternates"
        )
    return ""


def _marker(git: VerifiedRepository) -> object:
    oid = git.refs.read(MAIN)
    if oid is None:
        return None
    tree = parse_commit(git.read(oid)[1]).tree
    for _, name, blob in parse_tree(git.read(tree)[1]):
        if name == MARKER:
            data = git.read(blob)[1]
            if data == _MARKER_TEXT:
                return {"format": FORMAT}
            import json  # slow to import, and not required to open a store of this version

            try:
                return json.loads(data)
            except (ValueError, RecursionError):
                return None
    return None


def _build(path: Path) -> None:
    path.mkdir(mode=0o700)
    path.chmod(0o700)
    directories = ["objects", "objects/info", "objects/pack", "refs", "refs/heads", "refs/tags", "info"]
    directories += [CONTROL, JOURNAL, PROOFS]
    for directory in directories:
        (path / directory).mkdir(mode=0o700)
    commit, objects = first_commit()
    files = {config.HEAD: f"ref: {MAIN}\n", config.FILE: config.TEXT, ATTRIBUTES: ATTRIBUTES_TEXT.decode()}
    for name, text in {**files, MAIN: f"{commit}\n", LOCK: "", KEEP: KEEP_TEXT}.items():
        write_new(path / name, text.encode())
    write_pack(path / "objects", objects, path / KEEP)
    release_packs(path / "objects")
    first = journal.Journal(path / JOURNAL)
    first.start_next()
    first.close()
    for directory in [*reversed(directories), "."]:
        sync_directory(path / directory)


def _move_in(path: Path, temporary: Path) -> None:
    """Move the files at ``path`` into the new store at ``temporary``; remove ``path``.

    Agents' hooks wrote these files before the store existed. Files that a hook writes meanwhile are moved, too.
    """
    for _ in range(_TRIES):
        if not is_spool_only(path):
            return
        for folder, _, files in os.walk(path / CONTROL, topdown=False):
            target = temporary / os.path.relpath(folder, path)
            target.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name in files:
                os.rename(f"{folder}/{name}", target / name)
            with contextlib.suppress(OSError):
                os.rmdir(folder)
        with contextlib.suppress(OSError):
            os.rmdir(path)


def _rename_into_place(temporary: Path, path: Path) -> None:
    try:
        os.rename(temporary, path)
    except OSError:
        if not os.path.lexists(path):
            raise
        check(path)
    else:
        sync_directory(path.parent)


def first_commit() -> tuple[Oid, dict[Oid, tuple[Kind, bytes]]]:
    """Return the id of a store's first commit, and the objects of that commit.

    The commit is the same in every store.
    """
    readme, marker = _README.encode(), _MARKER_TEXT
    tree = encode_tree({"README.md": ("100644", oid_of("blob", readme)), MARKER: ("100644", oid_of("blob", marker))})
    commit = encode_commit(
        tree=oid_of("tree", tree),
        parents=[],
        author_name="gitsession",
        author_seconds=0,
        committer_seconds=0,
        message=b"A gitsession store\n",
    )
    objects: list[tuple[Kind, bytes]] = [("blob", readme), ("blob", marker), ("tree", tree), ("commit", commit)]
    return oid_of("commit", commit), {oid_of(kind, data): (kind, data) for kind, data in objects}


def _hint(path: Path) -> str:
    return "pass its .git directory" if (path / ".git").exists() else _INIT


def _is_empty_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and not any(path.iterdir())
