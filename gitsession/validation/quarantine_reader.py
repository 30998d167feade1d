"""A reader of proposed objects in git's quarantine on a server, or in a quarantine of this store.

The reader loads the objects of several entries together, in the order of the received packs. Only the objects that were
loaded last are cached. Git reads the objects that are not in these packs, or that are large.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self, cast

from gitsession.archive import archive_set
from gitsession.archive.archive_set import Archive
from gitsession.dataclass import dataclass
from gitsession.errors import Corrupt, GitSessionError, Malformed, MissingObject, Unavailable
from gitsession.git import process
from gitsession.git.cat_file import CatFile, ObjectHeader
from gitsession.git.objects import parse_commit, parse_tree
from gitsession.git.pack_reader import Packs
from gitsession.git.types import Kind, Oid
from gitsession.sessions import layout
from gitsession.store import refs

MEBIBYTE = 1 << 20
NOT_SENT = "was not sent and is not in this repository"
REMOVE_HINT = "remove it from a store with `gitsession sync`, or from a server without hooks by a forced push"
"""A hint about purged entries that still exist. Sender and receiver of a push must be able to follow it."""


class Proposed(NamedTuple):
    """A proposed move of ``ref`` from ``old`` (``None`` for a new ref) to ``new`` (``None`` to delete the ref)."""

    ref: str
    old: Oid | None
    new: Oid | None


class Refusal(NamedTuple):
    """A rejected ref.

    ``oid``: faulty object; "" if the ref itself is faulty. ``rule``: see docs/reference/server.md.
    """

    ref: str
    oid: Oid
    what: str
    rule: str

    def __str__(self) -> str:
        at = f" at {self.oid[:10]}" if self.oid else ""
        return f"refused {self.ref}{at}: {self.what} [{self.rule}]"


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """The limits of one push. Sizes are in bytes.

    Attributes:
        entries: Maximum number of new entries.
        seconds: Maximum duration of the validation, in seconds.
        payload_bytes: Maximum size of an agent's record in its stored form.
        whole_bytes: Maximum size of a payload with its holes filled.
        file_bytes: Maximum size of a file or of a hole's content.
        names: Maximum number of new names below ``files/`` in one entry.
    """

    entries: int = 250_000
    seconds: float = 600.0
    payload_bytes: int = 64 * MEBIBYTE
    whole_bytes: int = 256 * MEBIBYTE
    file_bytes: int = 1024 * MEBIBYTE
    names: int = 1_000_000


class Fault(NamedTuple):
    """A fault of one object, and the rule that it violates."""

    rule: str
    what: str


class LimitExceeded(GitSessionError):
    """A validation that took longer, or found more new commits, than its limits allow."""


class Deadline:
    """The deadline of a validation that starts now. ``seconds`` may be infinite."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = time.monotonic() + seconds

    def check(self) -> None:
        """Raise ``LimitExceeded`` if the deadline has passed."""
        if time.monotonic() > self._until:
            raise LimitExceeded(f"validation took longer than {self._seconds:g} s: push fewer refs at a time")


COMMIT_BYTES_MAX = 64 << 10
TREE_BYTES_MAX = 64 << 10
"""Maximum size in bytes of an entry's commit and of its tree. Valid commits and trees are much smaller."""

_TREE = re.compile(rb"\Atree ([0-9a-f]{40})\n")
_PARENTS = re.compile(rb"tree [0-9a-f]{40}\n((?:parent [0-9a-f]{40}\n)*)")

_COMMITS_BYTES_MAX = 8 << 20
"""Maximum size of the commits of a push or a fetch that are kept: about 25,000 of them."""
_LISTED_MAX = 1 << 20
"""Maximum number of objects in a pack whose commits are loaded. A list of so many objects takes 200 MB of memory."""
_AHEAD_BYTES_MAX = 1 << 20
_WINDOW_BYTES_MAX = 32 << 20
_OBJECT_BYTES_MAX = 1 << 30


LOCAL_ARCHIVE = f"{refs.ARCHIVE}.local"
"""The name in ``GitReader.known`` of the store's own archive while a fetched archive is validated. It is not a ref."""

ARCHIVES = (refs.ARCHIVE, LOCAL_ARCHIVE)
"""The names in ``GitReader.known`` of archives. No other name counts, because a server may accept any ref."""


def is_validated(name: str) -> bool:
    """Return whether the whole history of a known ref is validated.

    That of ``main``, and of a ref that a server accepts without validation, can contain any commit.
    """
    return name.startswith((refs.SESSIONS, refs.STORE_BRANCHES))


class GitReader:
    """A ``Reader`` of the objects that git finds for the repository ``git_dir``. Close the reader after use.

    ``known``: the refs that were validated before. ``variables``: environment variables for git that name further
    object directories (see ``process.quarantine``). ``is_portion``: True if only a portion of the received histories
    is validated, so that the commits of the others are not loaded. ``known_roots``: at least the roots of all known
    histories of entries, or ``None`` if they are unknown. ``new`` adds the roots of the new histories.
    """

    def __init__(
        self, git_dir: Path, known: Mapping[str, Oid], variables: Mapping[str, str] | None = None, *,
        is_portion: bool = False, known_roots: set[Oid] | None = None,
    ) -> None:  # fmt: skip
        self.known = dict(known)
        self._known_roots = known_roots
        self.is_portion = is_portion
        self._archives: dict[Oid, Archive] = {}
        self._git_dir = git_dir
        self._variables = dict(variables or {})
        self._packs = Packs(os.path.join(git_dir, self._variables.get(process.OBJECTS, "objects")), _AHEAD_BYTES_MAX)
        self._cat_file: CatFile | None = None
        self._pid = os.getpid()
        self._heads: dict[Oid, ObjectHeader | None] = {}
        self._window: dict[Oid, tuple[Kind, bytes]] = {}
        self._commits: dict[Oid, tuple[Kind, bytes]] = {}
        self._commits_bytes = 0

    @property
    def _git(self) -> CatFile:
        """The git process. A forked process starts its own, because it must not take the answers of the first one."""
        if self._cat_file is None or self._pid != os.getpid():
            self._cat_file, self._pid = CatFile(self._git_dir, self._variables), os.getpid()
        return self._cat_file

    # -- objects

    def read(self, oid: Oid) -> tuple[Kind, bytes]:
        """Return the kind and the content of an object (see ``Reader``).

        Raises ``Unavailable`` if the object is too large for memory.
        """
        found = self._window.get(oid) or self._commits.get(oid)
        if found is not None:
            return found
        head = self.head(oid)
        if head is None:
            raise MissingObject(f"no object {oid}")
        if head.kind == "tag":
            raise Corrupt(f"object {oid} is not a commit, a tree or a blob")
        if head.size > _OBJECT_BYTES_MAX:
            raise Unavailable(f"object {oid} is too large: {head.size:,} bytes (limit: {_OBJECT_BYTES_MAX:,})")
        return self._contents([oid])[oid]

    def contains(self, oid: Oid) -> bool:
        return self.head(oid) is not None

    def head(self, oid: Oid) -> ObjectHeader | None:
        """Return the kind and size of an object without unpacking it; ``None`` if the object does not exist."""
        found = self._window.get(oid) or self._commits.get(oid)
        if found is not None:
            return ObjectHeader(found[0], len(found[1]))
        return self._heads[oid] if oid in self._heads else self.heads([oid])[0]

    def heads(self, oids: Sequence[Oid]) -> list[ObjectHeader | None]:
        return list(self._git.heads(oids)) if oids else []

    def load_commits(self, tips: Iterable[Oid]) -> None:
        """Load the commits in the received packs, unless they are too large to keep, and the headers of ``tips``."""
        tips = list(tips)
        if self.is_portion:
            self._load_histories(tips)
        elif not self._keep(self._packs.commits(_LISTED_MAX)):
            self._commits = {}
        self._load_headers([oid for oid in tips if oid not in self._commits])

    def _load_histories(self, tips: Sequence[Oid]) -> None:
        """Load the received commits in the histories of ``tips``, as many as can be kept, all histories in step."""
        level = tips
        while level and self._keep(each for each in self._packs.read_all(level) if each[1] == "commit"):
            found = (_PARENTS.match(self._commits[oid][1]) for oid in level if oid in self._commits)
            parents = dict.fromkeys(parent for match in found if match for parent in match[1].decode().split()[1::2])
            level = [oid for oid in parents if oid not in self._commits]

    def _keep(self, commits: Iterable[tuple[Oid, Kind, bytes]]) -> bool:
        """Keep the commits until they are too large; return whether all were kept."""
        for oid, kind, data in commits:
            self._commits[oid] = kind, data
            self._commits_bytes += len(data)
            if self._commits_bytes > _COMMITS_BYTES_MAX:
                return False
        return True

    def _load_headers(self, oids: Iterable[Oid]) -> None:
        wanted = [oid for oid in dict.fromkeys(oids) if oid not in self._heads]
        self._heads |= zip(wanted, self.heads(wanted), strict=True)

    def load_entries(self, commits: Sequence[Oid]) -> None:
        """Load the small objects of the entries ``commits`` together; discard objects that were loaded before."""
        self._window, self._heads = {}, {}
        trees = [tree for data in self._load(commits, "commit", COMMIT_BYTES_MAX) for tree in _TREE.findall(data)]
        rows = _rows(self._load([tree.decode() for tree in trees], "tree", TREE_BYTES_MAX))
        blob_trees = [oid for mode, name, oid in rows if name == layout.BLOBS and mode == layout.TREE_MODE]
        lifted = _rows(self._load(blob_trees, "tree", TREE_BYTES_MAX))
        self._load([oid for mode, _, oid in (*rows, *lifted) if mode != layout.TREE_MODE], "blob", _AHEAD_BYTES_MAX)

    def _load(self, oids: Iterable[Oid], kind: str, bytes_max: int) -> list[bytes]:
        """Load the objects; return the contents of those that have the expected kind.

        For other objects, and those that are too large, a later ``read`` reports the fault.
        """
        oids = dict.fromkeys(oids)
        room = _WINDOW_BYTES_MAX
        for oid, found, data in self._packs.read_all([oid for oid in oids if oid not in self._commits]):
            self._window[oid] = found, data
            room -= len(data)
            if room < 0:
                break
        waiting = [oid for oid in oids if oid not in self._window and oid not in self._commits]
        self._load_headers(waiting)
        fitting = []
        for oid in waiting:
            head = self._heads[oid]
            if head is not None and head.kind == kind and head.size <= min(bytes_max, room):
                room -= head.size
                fitting.append(oid)
        self._window |= self._contents(fitting)
        objects = (self._window.get(oid) or self._commits.get(oid) for oid in oids)
        return [found[1] for found in objects if found is not None and found[0] == kind]

    def _contents(self, oids: Sequence[Oid]) -> dict[Oid, tuple[Kind, bytes]]:
        found = {}
        for oid, reply in zip(oids, list(self._git.contents(oids)) if oids else [], strict=True):
            if reply is None:
                raise MissingObject(f"no object {oid}")
            found[oid] = (cast(Kind, reply[0]), reply[1])
        return found

    # -- histories

    def copy(self) -> GitReader:
        """Return a reader of portions of the same objects, with its own copy of the known refs."""
        # The roots are shared: too many of them only cost time.
        return GitReader(self._git_dir, self.known, self._variables, is_portion=True, known_roots=self._known_roots)

    def accept(self, values: Mapping[str, Oid]) -> None:
        """Add refs to the known refs, discard the loaded commits, and end git's process."""
        for name, oid in values.items():
            self._by_session.setdefault(refs.session_of(name), {})[name] = oid
        self._validated.update(oid for name, oid in values.items() if is_validated(name))
        self.known |= values
        if not values.keys().isdisjoint(ARCHIVES):
            self.__dict__.pop("_archived_tips", None)
        self._commits, self._commits_bytes = {}, 0
        self.close()  # if git failed, its output cannot be trusted; it starts again when it is needed

    def known_of(self, sid: str) -> Collection[Oid]:
        """Return the values of the known refs of a session."""
        return self._by_session.get(sid, {}).values()

    def known_branches_of(self, sid: str) -> Sequence[Oid]:
        """Return the known tips of a session's branches, without ``meta`` and ``files``."""
        return self._known_of(sid, refs.is_branch)

    def known_meta_of(self, sid: str) -> Sequence[Oid]:
        """Return the values of the known ``meta`` refs of a session."""
        return self._known_of(sid, refs.is_meta)

    def _known_of(self, sid: str, is_wanted: Callable[[str], bool]) -> Sequence[Oid]:
        """Return the values of a session's known refs whose last part of the name passes ``is_wanted``."""
        return [oid for name, oid in self._by_session.get(sid, {}).items() if is_wanted(name.rpartition("/")[2])]

    def archived_of(self, sid: str) -> Sequence[Oid]:
        """Return the known tips of an archived session. The whole archive is read."""
        return self._archived_tips.get(sid, [])

    @functools.cached_property
    def _by_session(self) -> dict[str, dict[str, Oid]]:
        """The known refs of each session."""
        found: dict[str, dict[str, Oid]] = {}
        for name, oid in self.known.items():
            found.setdefault(refs.session_of(name), {})[name] = oid
        return found

    @functools.cached_property
    def _validated(self) -> set[Oid]:
        """The values of all known refs whose histories are validated, also those that ``accept`` has replaced."""
        return {oid for name, oid in self.known.items() if is_validated(name)}

    @functools.cached_property
    def _archived_tips(self) -> Mapping[str, list[Oid]]:
        found: dict[str, list[Oid]] = {}
        for tip in (oid for name, oid in self.known.items() if name in ARCHIVES):
            for sid, tips in self.archive(tip).ends.items():
                found.setdefault(sid, []).extend(oid for _, oid in tips)
        return found

    def archive(self, oid: Oid) -> Archive:
        """Return the archive of a commit. Raises ``Malformed``."""
        if oid not in self._archives:
            self._archives[oid] = archive_set.at(self, oid)
        return self._archives[oid]

    def sessions_from(self, root: Oid) -> Mapping[str, set[Oid]]:
        """Return the known sessions that contain ``root``, with the tips that reach it.

        Archived sessions are included.
        """
        tips = [(sid, oid) for sid, known in self._by_session.items() for oid in known.values()]
        tips += [(sid, oid) for sid, archived in self._archived_tips.items() for oid in archived]
        output = self._run(
            "rev-list", "--ancestry-path", "--stdin", stdin=self._range((oid for _, oid in tips), [root])
        )
        descendants = {root, *output.split()}
        found: dict[str, set[Oid]] = {}
        for sid, oid in tips:
            if sid and oid in descendants:
                found.setdefault(sid, set()).add(oid)
        return found

    def new(
        self, tips: Iterable[Oid], known: Iterable[Oid] | None, count_max: int
    ) -> dict[Oid, tuple[Oid, ...]] | None:
        """Return the commits reachable from ``tips`` but not from ``known``, parents first, each with its parents.

        If ``known`` is ``None``, the values of all known refs whose histories are validated are used. Returns ``None``
        if there are more than ``count_max`` commits.
        """
        tips, old = list(tips), self._validated if known is None else set(known)
        found = self._walk(tips, old)
        if found is None:
            arguments = ("--topo-order", "--reverse", "--parents", f"--max-count={count_max + 1}", "--stdin")
            found = {}
            for line in self._run("rev-list", *arguments, stdin=self._range(tips, old)).splitlines():
                oid, *parents = line.split()
                found[oid] = tuple(parents)
        if self._known_roots is not None:
            self._known_roots |= _roots(found)
        return found if len(found) <= count_max else None

    def _walk(self, tips: Iterable[Oid], old: AbstractSet[Oid]) -> dict[Oid, tuple[Oid, ...]] | None:
        """Return the commits of whole histories that were received (see ``new``).

        Returns ``None`` if any other commit might be part of these histories, or if they might have a commit in common
        with known histories. Histories without a common root have no common commit.
        """
        roots: AbstractSet[Oid] | None = self._known_roots if old else frozenset()
        if not self._commits or roots is None:
            return None
        found: dict[Oid, tuple[Oid, ...]] = {}
        for tip in tips:
            path = [tip]
            while path:
                oid = path[-1]
                if oid in found:
                    path.pop()
                    continue
                parents = _PARENTS.match(self._commits[oid][1]) if oid in self._commits else None
                if parents is None or oid in old:
                    return None
                oids = tuple(parents[1].decode().split()[1::2])
                missing = [parent for parent in oids if parent not in found]
                path += missing
                if not missing:
                    found[path.pop()] = oids
        return found if _roots(found).isdisjoint(roots) else None

    def _range(self, tips: Iterable[Oid], old: Iterable[Oid]) -> str:
        return "".join([*(f"{oid}\n" for oid in tips), *(f"^{oid}\n" for oid in old)])

    def ancestors(self, oid: Oid) -> list[Oid]:
        """Return the commit and all its ancestors."""
        return self._run("rev-list", oid).split()

    def root(self, oid: Oid) -> Oid:
        """Return the root of the history of ``oid``."""
        return self._run("rev-list", "--first-parent", "--max-parents=0", oid).strip()

    def starts(self, oid: Oid) -> list[Oid]:
        """Return the entries in the history of ``oid`` at which a session can begin, nearest first."""
        return self._run("rev-list", "--first-parent", "--grep=^Entry: fork$", "--grep=^Entry: session$", oid).split()

    def children(self, oid: Oid, tips: AbstractSet[Oid]) -> list[Oid]:
        """Return the commits in the histories of ``tips`` whose first parent is ``oid``."""
        if not tips:
            return []
        output = self._run("rev-list", "--parents", "--stdin", stdin=self._range(tips, [oid]))
        return [child for child, *parents in map(str.split, output.splitlines()) if parents[:1] == [oid]]

    def is_first_parent_ancestor(self, old: Oid, new: Oid) -> bool:
        """Return whether ``old`` is an ancestor of ``new`` along first parents."""
        parents = parse_commit(self.read(old)[1]).parents
        output = self._run("rev-list", "--first-parent", new, *(f"^{parent}" for parent in parents))
        return old in output.split()

    def is_ancestor(self, new: Oid, old: Oid) -> bool:
        """Return whether ``old`` is an ancestor of ``new``, through any parent."""
        arguments = ("merge-base", "--is-ancestor", old, new)
        return process.run(self._git_dir, *arguments, accept=(0, 1), variables=self._variables).code == 0

    def _run(self, *arguments: str, stdin: str = "") -> str:
        return process.run(self._git_dir, *arguments, stdin=stdin.encode(), variables=self._variables).out.decode()

    def close(self) -> None:
        if self._cat_file is not None:
            self._cat_file.close()
            self._cat_file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _roots(graph: Mapping[Oid, Sequence[Oid]]) -> set[Oid]:
    """Return the commits without a parent in ``graph``."""
    return {oid for oid, parents in graph.items() if graph.keys().isdisjoint(parents)}


def _rows(trees: Iterable[bytes]) -> list[tuple[str, str, Oid]]:
    """Return the rows of trees. Trees that cannot be parsed are skipped here and reported by the validation."""
    found: list[tuple[str, str, Oid]] = []
    for data in trees:
        with contextlib.suppress(Malformed):
            found += parse_tree(data)
    return found
