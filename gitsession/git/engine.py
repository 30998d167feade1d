"""A libgit2 repository over verified objects: history walks, diffs, patches, blame, and merges of files.

Every object that libgit2 reads comes from an ``ObjectReader``, which checks the SHA-1 of its bytes. libgit2 neither
opens nor writes a file of a store (docs/decisions/0009). Only this module imports pygit2, which takes 30 ms. So import
this module inside the functions that use it, not at the top of another module.

A repository belongs to the thread that created it. libgit2 holds a lock while it requests an object. If a second thread
waited for that lock while holding the interpreter lock, the threads would deadlock.

pygit2 calls libgit2 in two ways. Its C extension keeps the interpreter lock; its cffi methods release it. Since pygit2
1.21, callbacks for objects acquire the interpreter lock again, but callbacks for refs do not (libgit2/pygit2#1496). So
a cffi method that looks up a ref ends the process with a segmentation fault. ``StoreRepository`` rejects every method
that is not in ``_SAFE``.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, Protocol

import pygit2
from pygit2.enums import BlameFlag, ConfigLevel, DiffFind, FileMode
from pygit2.repository import BaseRepository

from gitsession.errors import GitSessionError, Malformed, MissingObject, Refused
from gitsession.git.objects import oid_of
from gitsession.git.ref_files import SYMBOLIC
from gitsession.git.types import Kind, ObjectSink, Reader

BYTES_MAX = 4 << 20
LINES_MAX = 50_000
"""Maximum number of lines on one side of a diff or a merge.

libgit2 keeps the interpreter lock while it compares two files, and the time grows with the square of the number of
lines: two files of 65,000 mostly repeated lines take 0.5 s, and two of 2,000,000 lines take 18 s.
"""

DEPTH_MAX = 128
"""Maximum depth of folders. libgit2 recurses into each level and overflows the stack at tens of thousands of levels."""

_KINDS: Mapping[int, Kind] = {1: "commit", 2: "tree", 3: "blob"}
_NUMBERS: Mapping[str, int] = {kind: number for number, kind in _KINDS.items()}
_OID_DIGITS = 40
_HEADERS_MAX = 4
_FOLDERS_MAX = 100_000
_RENAMES_MAX = 1000
_ROW = re.compile(rb"([0-7]{1,8}) [^\0]*\0(.{20})", re.DOTALL)
_NAMES = re.compile(rb"^--- .*\n\+\+\+ .*\n\Z", re.MULTILINE)
_FILE_TYPE, _FOLDER = 0o170000, 0o040000
_USER_LEVELS = (ConfigLevel.PROGRAMDATA, ConfigLevel.SYSTEM, ConfigLevel.XDG, ConfigLevel.GLOBAL)
_READ_ONLY = "cannot write objects through this Repository object: it is read-only"
_NO_MOVES = "cannot change refs through this Repository object: a store moves refs in transactions"
_OPEN_OWN = "open a Repository object in each thread"


class ObjectReader(Reader, Protocol):
    """A source of verified objects by id."""

    def oids(self) -> Iterator[str]: ...


class RefSource(Protocol):
    """A source of refs by name. The value of a symbolic ref is ``ref: <name>``."""

    def ref(self, name: str) -> str | None: ...

    def refs(self, prefix: str) -> Mapping[str, str]: ...


class Readable(ObjectReader, RefSource, Protocol):
    """A source of objects and refs."""


class _ObjectBackend(pygit2.OdbBackend):
    """The objects of a reader, for libgit2.

    New objects are passed to ``writer``; without a writer they are rejected.
    """

    def __init__(self, reader: ObjectReader, writer: ObjectSink | None) -> None:
        super().__init__()
        self.error: GitSessionError | None = None
        self._reader, self._writer = reader, writer
        self._headers: dict[str, tuple[int, bytes]] = {}
        self._depths: dict[str, int] = {}

    def read_cb(self, oid: object) -> tuple[int, bytes]:
        name = str(oid)
        known = self._headers.pop(name, None)
        return known if known is not None else self._read(name)

    def read_prefix_cb(self, start: str) -> tuple[int, bytes, pygit2.Oid]:
        oid = self.exists_prefix_cb(start)
        return *self.read_cb(oid), oid

    def read_header_cb(self, oid: object) -> tuple[int, int]:
        """Return type and size.

        The object is cached: libgit2 requests the header of a blob first and then its content.
        """
        name = str(oid)
        number, data = self._read(name)
        if len(self._headers) >= _HEADERS_MAX:
            self._headers.clear()
        self._headers[name] = number, data
        return number, len(data)

    def exists_cb(self, oid: object) -> bool:
        return self._reader.contains(str(oid))

    def exists_prefix_cb(self, start: str) -> pygit2.Oid:
        if len(start) < _OID_DIGITS:
            found = {oid for oid in self._reader.oids() if oid.startswith(start)}
            if len(found) > 1:
                raise ValueError(start)  # pygit2 converts this to "ambiguous"
            start = found.pop() if found else ""
        if not start or not self._reader.contains(start):
            raise KeyError(start)
        return pygit2.Oid(hex=start)

    def write_cb(self, oid: object, data: bytes, number: int) -> None:
        if self._writer is None:
            raise self._record_error(Refused(_READ_ONLY, hint="pass an open transaction to Store.repository()"))
        kind = _KINDS.get(number)
        if kind is None:
            raise self._record_error(Refused("cannot write a tag object: a store has only commits, trees and blobs"))
        self._writer.put(kind, data)

    def refresh_cb(self) -> None:
        """Do nothing: the reader detects new packs itself."""

    def __iter__(self) -> Iterator[pygit2.Oid]:
        return (pygit2.Oid(hex=oid) for oid in self._reader.oids())

    def _read(self, name: str) -> tuple[int, bytes]:
        try:
            kind, data = self._reader.read(name)
        except MissingObject as error:
            self.error = error
            raise KeyError(name) from None
        except GitSessionError as error:
            raise self._record_error(error) from None
        if kind == "tree":
            self._check_depth(name, data)
        return _NUMBERS[kind], data

    def _check_depth(self, name: str, data: bytes) -> None:
        depth = self._depths.get(name, 0) + 1
        if depth > DEPTH_MAX:
            raise self._record_error(Malformed(f"more than {DEPTH_MAX} folders deep", where=f"tree {name}"))
        if len(self._depths) > _FOLDERS_MAX:
            self._depths.clear()
        for mode, raw in _ROW.findall(data):
            if int(mode, 8) & _FILE_TYPE == _FOLDER:
                child = raw.hex()
                self._depths[child] = max(depth, self._depths.get(child, 0))

    def _record_error(self, error: GitSessionError) -> GitSessionError:
        self.error = error
        return error


class _RefBackend(pygit2.RefdbBackend):
    """The refs of a reader, for libgit2. All changes are rejected."""

    def __init__(self, reader: RefSource, head: str) -> None:
        super().__init__()
        self._reader, self._head = reader, head

    def exists(self, name: str) -> bool:
        return self.lookup(name) is not None

    def lookup(self, name: str) -> pygit2.Reference | None:  # type: ignore[override]
        value = self._head if name == "HEAD" else self._reader.ref(name) if name.startswith("refs/") else None
        return None if value is None else _reference(name, value)

    def __iter__(self) -> Iterator[pygit2.Reference]:
        return (_reference(name, value) for name, value in self._reader.refs("refs/").items())

    def __next__(self) -> pygit2.Reference:
        raise StopIteration  # pygit2 checks that this is an iterator, and then calls ``__iter__``

    def has_log(self, name: str) -> bool:
        return False

    def ensure_log(self, name: str) -> bool:
        return False

    def _refuse(self, *_: object) -> Any:
        raise Refused(_NO_MOVES, hint="use the transaction's move()")

    write = rename = delete = compress = _refuse  # type: ignore[assignment]  # pygit2 calls ``rename`` for the last two


def _reference(name: str, value: str) -> pygit2.Reference:
    if value.startswith(SYMBOLIC):
        return pygit2.Reference(name, value.removeprefix(SYMBOLIC))
    return pygit2.Reference(name, pygit2.Oid(hex=value), None)


_SAFE = frozenset(
    {
        "ahead_behind", "blame", "config", "config_snapshot", "create_reference", "diff", "get",
        "listall_reference_objects", "listall_references", "merge_commits", "merge_file_from_index", "merge_trees",
        "read", "resolve_refish", "write", "write_archive",
    }
)  # fmt: skip
"""Methods of pygit2's Python layer that do not look up a ref through cffi."""

_UNSAFE = frozenset(name for name in vars(BaseRepository) if not name.startswith("_")) - _SAFE
_UNAVAILABLE = _UNSAFE | {"remotes", "submodules", "lookup_worktree", "free", "set_odb", "set_refdb"}

_CALLS = (
    "ahead_behind", "blame", "create_blob", "create_commit", "create_commit_string", "create_tag", "descendant_of",
    "diff", "merge_base", "merge_base_many", "merge_base_octopus", "merge_commits", "merge_file_from_index",
    "merge_trees", "write", "write_archive",
)  # fmt: skip
"""Methods that may raise ``SystemError`` or a pygit2 error after a callback has raised a gitsession error."""


class UnsafeMethod(Refused, AttributeError):
    """A call of a pygit2 method that would crash the process or that needs a working tree.

    The error is an ``AttributeError``, so ``hasattr`` returns False for such a method.
    """


class StoreRepository(pygit2.Repository):
    """A ``pygit2.Repository`` over a store. Only the thread that created it may use it."""

    def __init__(self, reader: ObjectReader, writer: ObjectSink | None = None) -> None:
        super().__init__()
        self._thread = threading.get_ident()
        odb, self._objects = pygit2.Odb(), _ObjectBackend(reader, writer)
        odb.add_backend(self._objects, 1)
        super().set_odb(odb)
        self._references: list[object] = [odb]  # libgit2 holds no reference to objects that Python created
        with without_user_configuration():
            # Load the configuration and the attributes here: the repository caches them.
            self._references.append(self.config)
            super().get_attr("a", "diff")

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_"):
            if name in _UNAVAILABLE:
                raise UnsafeMethod(f"the repository of a store does not support {name!r}")
            if self._thread != threading.get_ident():
                raise Refused("cannot use this Repository object: it belongs to another thread", hint=_OPEN_OWN)
        return super().__getattribute__(name)

    def blame(  # type: ignore[no-untyped-def]
        self, path, flags=BlameFlag.NORMAL, min_match_characters=None, newest_commit=None, *others, **named
    ):
        """Call pygit2's ``blame`` with a start commit and without a mailmap.

        Otherwise, libgit2 would look up ``HEAD`` through cffi.
        """
        if int(flags or 0) & BlameFlag.USE_MAILMAP:
            raise Refused("cannot blame with USE_MAILMAP: a store does not support mailmaps", hint="omit USE_MAILMAP")
        if not newest_commit or not str(newest_commit).strip("0"):
            newest_commit = self.head.target
        return super().blame(path, flags, min_match_characters, newest_commit, *others, **named)

    def merge_analysis(self, their_head: pygit2.Oid | str, our_ref: str = "HEAD") -> Any:
        """Use ``HEAD`` if ``our_ref`` is ``None``. Otherwise, pygit2 would read the name from a null pointer."""
        return super().merge_analysis(their_head, our_ref or "HEAD")

    def references_iterator_next(self, iterator: object, *kind: Any) -> Any:
        """Check the type of ``iterator``, which pygit2 does not check, and return the next ref."""
        if type(iterator) is not type(super().references_iterator_init()):
            raise TypeError(f"expected an iterator of references, not {iterator!r}")
        return super().references_iterator_next(iterator, *kind)

    def _set_refs(self, reader: RefSource, head: str) -> None:
        refdb, backend = pygit2.Refdb.new(self), _RefBackend(reader, head)
        refdb.set_backend(backend)
        super().set_refdb(refdb)
        self._references += [refdb, backend]


def _with_store_errors(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(self: StoreRepository, *arguments: Any, **named: Any) -> Any:
        self._objects.error = None
        try:
            # ``create_commit`` may return while an exception is set. ``partial`` always checks for an exception.
            return functools.partial(function, self, *arguments, **named)()
        except (SystemError, AssertionError, pygit2.GitError) as error:
            cause = error.__cause__ if isinstance(error, SystemError) else self._objects.error
            if cause is None or isinstance(error, KeyError):
                raise
            raise cause from None

    return call


for _name in _CALLS:
    setattr(StoreRepository, _name, _with_store_errors(getattr(StoreRepository, _name)))


def repository(store: Readable, writer: ObjectSink | None = None, *, head: str) -> StoreRepository:
    """Return a repository of ``store`` for the calling thread, with all acknowledged data.

    Args:
        store: The objects and refs of the repository.
        writer: The open transaction that receives the objects that libgit2 creates; ``None`` to reject new objects.
        head: The value of ``HEAD``.
    """
    opened = StoreRepository(store, writer)
    opened._set_refs(store, head)
    return opened


_windows = 0
_paths: dict[ConfigLevel, str] = {}
_mutex = threading.Lock()


@contextmanager
def without_user_configuration() -> Iterator[None]:
    """Keep libgit2 from reading configuration and attributes of the user or the system.

    The search paths are shared by the process, so they are restored when the last thread leaves this context. If other
    pygit2 code in the process opens a repository meanwhile, that code does not read these files either.
    """
    global _windows
    paths = pygit2.settings.search_path
    with _mutex:
        _windows += 1
        if _windows == 1:
            _paths.update((level, paths[level]) for level in _USER_LEVELS)
            for level in _USER_LEVELS:
                paths[level] = ""
    try:
        yield
    finally:
        with _mutex:
            _windows -= 1
            if not _windows:
                for level, path in _paths.items():
                    paths[level] = path


class Side(NamedTuple):
    """A file on one side of a comparison; ``mode`` has the same value as in a tree."""

    path: str
    mode: str
    oid: str


class Comparison(NamedTuple):
    """The difference between two versions of one file.

    ``text``: the patch; ``None`` if ``may_compare`` rejected the file. ``added`` and ``deleted``: numbers of lines;
    ``None`` for a binary file, or without a patch.
    """

    old: Side | None
    new: Side | None
    text: bytes | None
    added: int | None
    deleted: int | None


def compare(
    reader: ObjectReader, old: str, new: str, may_compare: Callable[[str], bool], *, exact_renames: bool
) -> list[Comparison]:
    """Compare two trees, with rename detection and without any configuration. The caller limits the size of the trees.

    Args:
        reader: Reads the objects.
        old: Id of the old tree, or of a commit.
        new: Id of the new tree, or of a commit.
        may_compare: Returns whether the blob with the given id may be compared line by line (see ``is_comparable``).
        exact_renames: True to detect only renames of unchanged files.
    """
    with without_user_configuration():
        repository = StoreRepository(reader)
        found = repository[old].peel(pygit2.Tree).diff_to_tree(repository[new].peel(pygit2.Tree))
        only_exact = DiffFind.FIND_EXACT_MATCH_ONLY if exact_renames else DiffFind(0)
        found.find_similar(DiffFind.FIND_RENAMES | only_exact, rename_limit=_RENAMES_MAX)
        return [_compared(found, number, delta, may_compare) for number, delta in enumerate(found.deltas)]


def _compared(
    found: pygit2.Diff, number: int, delta: pygit2.DiffDelta, may_compare: Callable[[str], bool]
) -> Comparison:
    old, new = _side(delta.old_file), _side(delta.new_file)
    oids = {side.oid for side in (old, new) if side}
    is_unchanged = old and new and len(oids) == 1
    patch = found[number] if is_unchanged or all(map(may_compare, oids)) else None
    if patch is None:
        return Comparison(old, new, None, None, None)
    _, added, deleted = patch.line_stats
    if patch.delta.is_binary:
        return Comparison(old, new, patch.data, None, None)
    # Git writes no file names into the patch of an empty file, and rejects such a patch if it contains file names.
    text = patch.data if patch.hunks else _NAMES.sub(b"", patch.data)
    return Comparison(old, new, text, added, deleted)


def _side(file: pygit2.DiffFile) -> Side | None:
    if not file.mode:
        return None
    return Side(file.raw_path.decode("utf-8", "surrogateescape"), f"{file.mode:o}", str(file.id))


class MergeConflict(NamedTuple):
    """The reason why two changes to a file cannot be merged."""

    reason: Literal["overlapping changes", "binary content", "too large"]


def is_comparable(data: bytes) -> bool:
    """Return whether libgit2 may compare a file line by line (``BYTES_MAX``, ``LINES_MAX``)."""
    return len(data) <= BYTES_MAX and data.count(b"\n") <= LINES_MAX


def merge_file(ancestor: bytes, ours: bytes, theirs: bytes) -> bytes | MergeConflict:
    """Merge two changes to one file line by line. Line endings are preserved; the caller merges the modes."""
    sides = (ancestor, ours, theirs)
    if any(b"\0" in side for side in sides):
        return MergeConflict("binary content")
    if not all(map(is_comparable, sides)):
        return MergeConflict("too large")
    # pygit2 decodes the result as UTF-8. Latin-1 maps each byte to one character and adds no line ending.
    blobs = _BlobsInMemory([side.decode("latin-1").encode() for side in sides])
    one, two, three = (pygit2.IndexEntry("file", pygit2.Oid(hex=oid), FileMode.BLOB) for oid in blobs.order)
    try:
        merged = StoreRepository(blobs).merge_file_from_index(one, two, three)
    except RuntimeError as error:
        if "NULL" not in str(error):
            raise
        return b""  # pygit2 fails on an empty result
    return merged.contents.encode("latin-1") if merged.automergeable else MergeConflict("overlapping changes")


class _BlobsInMemory:
    """An ``ObjectReader`` of blobs in memory."""

    def __init__(self, blobs: list[bytes]) -> None:
        self.order = [oid_of("blob", blob) for blob in blobs]
        self._blobs = dict(zip(self.order, blobs, strict=True))

    def read(self, oid: str) -> tuple[Kind, bytes]:
        if oid not in self._blobs:
            raise MissingObject(f"missing object {oid}")
        return "blob", self._blobs[oid]

    def contains(self, oid: str) -> bool:
        return oid in self._blobs

    def oids(self) -> Iterator[str]:
        return iter(self._blobs)
