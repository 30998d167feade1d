"""Objects that are proposed and not taken in yet, read by way of git: from its quarantine, or from one of ours.

What is read ahead is a window of entries, so that git answers many questions in one go; nothing else is remembered.
"""

from __future__ import annotations

import contextlib
import functools
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self, cast

from gitsession.archive import archive_set
from gitsession.archive.archive_set import Archive
from gitsession.errors import Corrupt, GitSessionError, Malformed, MissingObject, Unavailable
from gitsession.git import process
from gitsession.git.cat_file import CatFile, ObjectHeader
from gitsession.git.objects import parse_commit, parse_tree
from gitsession.git.types import Kind, Oid
from gitsession.sessions import layout
from gitsession.store import refs

MEBIBYTE = 1 << 20
TAKE_OUT = "`gitsession sync` takes it out of a store, a forced push out of a server without our hooks"
"""A hint for purged entries that are still somewhere; the reader may be at either end."""


class Proposed(NamedTuple):
    """``ref`` is to go from ``old`` (``None``: it is not there) to ``new`` (``None``: it is to be deleted)."""

    ref: str
    old: Oid | None
    new: Oid | None


class Refusal(NamedTuple):
    """``oid``: the object that is at fault, "" where the ref itself is. ``rule``: see docs/reference/server.md."""

    ref: str
    oid: Oid
    what: str
    rule: str

    def __str__(self) -> str:
        at = f" at {self.oid[:10]}" if self.oid else ""
        return f"refused {self.ref}{at}: {self.what} [{self.rule}]"


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Limits of one push. ``entries``: new ones; ``seconds``: of validating them; ``payload_bytes``: of an
    agent's record as it is stored; ``whole_bytes``: with its holes filled; ``file_bytes``: of a file or a lifted span;
    ``names``: below ``files/`` of one entry, as far as they are new.
    """

    entries: int = 250_000
    seconds: float = 600.0
    payload_bytes: int = 64 * MEBIBYTE
    whole_bytes: int = 256 * MEBIBYTE
    file_bytes: int = 1024 * MEBIBYTE
    names: int = 1_000_000


class Fault(NamedTuple):
    """A fault of one object, and the rule that names it."""

    rule: str
    what: str


class ValidationTimeout(GitSessionError):
    """Judging took more time than there is for it."""


class Deadline:
    """Until when judging may take, from now on. ``seconds`` may be infinite."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until = time.monotonic() + seconds

    def check(self) -> None:
        """Raises ``ValidationTimeout`` when it has passed."""
        if time.monotonic() > self._until:
            raise ValidationTimeout(f"judging took longer than {self._seconds:g} s: push fewer refs at a time")


COMMIT_BYTES_MAX = 64 << 10
TREE_BYTES_MAX = 64 << 10
"""Of an entry's commit, and of its tree: one of ours has a fraction of it."""

_TREE = re.compile(rb"\Atree ([0-9a-f]{40})\n")

_AHEAD_BYTES_MAX = 1 << 20
_WINDOW_BYTES_MAX = 32 << 20
_OBJECT_BYTES_MAX = 1 << 30


class GitReader:
    """A ``Reader`` of what git sees from ``git_dir``. ``known``: the refs whose lines were judged before.

    ``variables``: where else git is to look (``gitcli.quarantine``). To be closed.
    """

    def __init__(self, git_dir: Path, known: Mapping[str, Oid], variables: Mapping[str, str] | None = None) -> None:
        self.known = known
        self._archives: dict[Oid, Archive] = {}
        self._git_dir = git_dir
        self._variables = dict(variables or {})
        self._git = CatFile(git_dir, self._variables)
        self._heads: dict[Oid, ObjectHeader | None] = {}
        self._window: dict[Oid, tuple[Kind, bytes]] = {}

    # -- objects

    def read(self, oid: Oid) -> tuple[Kind, bytes]:
        """See ``Reader``. Raises ``Unavailable`` for an object too large to be held."""
        found = self._window.get(oid)
        if found is not None:
            return found
        head = self.head(oid)
        if head is None:
            raise MissingObject(f"no object {oid}")
        if head.kind == "tag":
            raise Corrupt(f"object {oid} is neither a commit, a tree nor a blob")
        if head.size > _OBJECT_BYTES_MAX:
            raise Unavailable(f"object {oid} has {head.size:,} bytes, and the limit is {_OBJECT_BYTES_MAX:,}")
        return self._contents([oid])[oid]

    def contains(self, oid: Oid) -> bool:
        return self.head(oid) is not None

    def head(self, oid: Oid) -> ObjectHeader | None:
        """What the object is, and how large, without unpacking it; ``None`` where it is not there."""
        if oid not in self._heads and oid not in self._window:
            [found] = list(self._git.heads([oid]))
            return found
        return self._heads[oid]

    def heads(self, oids: Sequence[Oid]) -> list[ObjectHeader | None]:
        return list(self._git.heads(oids))

    def look_at(self, oids: Iterable[Oid]) -> None:
        """Ask what these are, in a few questions."""
        wanted = [oid for oid in dict.fromkeys(oids) if oid not in self._heads]
        self._heads |= zip(wanted, self.heads(wanted), strict=True)

    def ahead(self, commits: Sequence[Oid]) -> None:
        """Read what entries are made of, as far as it is small, in a few questions. What was read before is let go."""
        self._window, self._heads = {}, {}
        trees = [tree for data in self._fetch(commits, "commit", COMMIT_BYTES_MAX) for tree in _TREE.findall(data)]
        rows = _rows(self._fetch([tree.decode() for tree in trees], "tree", TREE_BYTES_MAX))
        kept = [oid for mode, name, oid in rows if name == layout.BLOBS and mode == layout.TREE_MODE]
        lifted = _rows(self._fetch(kept, "tree", TREE_BYTES_MAX))
        self._fetch([oid for mode, _, oid in (*rows, *lifted) if mode != layout.TREE_MODE], "blob", _AHEAD_BYTES_MAX)

    def _fetch(self, oids: Iterable[Oid], kind: str, most: int) -> list[bytes]:
        """Those that are what they should be, and small. Whoever is asked for another one later says what is wrong."""
        wanted = [oid for oid in dict.fromkeys(oids) if oid not in self._window]
        self.look_at(wanted)
        room = _WINDOW_BYTES_MAX
        fit = []
        for oid in wanted:
            head = self._heads[oid]
            if head is not None and head.kind == kind and head.size <= min(most, room):
                room -= head.size
                fit.append(oid)
        found = self._contents(fit)
        self._window |= found
        return [data for _, data in found.values()]

    def _contents(self, oids: Sequence[Oid]) -> dict[Oid, tuple[Kind, bytes]]:
        found = {}
        for oid, answer in zip(oids, list(self._git.contents(oids)), strict=True):
            if answer is None:
                raise MissingObject(f"no object {oid}")
            found[oid] = (cast(Kind, answer[0]), answer[1])
        return found

    # -- lines

    def known_of(self, sid: str) -> Sequence[Oid]:
        """Return what the known refs of a session hold."""
        return self._ends.get(sid, [])

    def known_meta_of(self, sid: str) -> Sequence[Oid]:
        """Return the ends of the known lines of bookkeeping of a session."""
        return self._metas.get(sid, [])

    def archived_of(self, sid: str) -> Sequence[Oid]:
        """Return the known ends of an archived session. Reads all of the archive."""
        return self._archived_ends.get(sid, [])

    @functools.cached_property
    def _ends(self) -> Mapping[str, list[Oid]]:
        found: dict[str, list[Oid]] = {}
        for name, oid in self.known.items():
            found.setdefault(refs.session_of(name), []).append(oid)
        return found

    @functools.cached_property
    def _metas(self) -> Mapping[str, list[Oid]]:
        found: dict[str, list[Oid]] = {}
        for name, oid in self.known.items():
            if refs.is_meta(name.rpartition("/")[2]):
                found.setdefault(refs.session_of(name), []).append(oid)
        return found

    @functools.cached_property
    def _archived_ends(self) -> Mapping[str, list[Oid]]:
        found: dict[str, list[Oid]] = {}
        of_archives = refs.ARCHIVE.rpartition("/heads")[2]
        for tip in (oid for name, oid in self.known.items() if name.endswith(of_archives)):
            for sid, ends in self.archive(tip).ends.items():
                found.setdefault(sid, []).extend(oid for _, oid in ends)
        return found

    def archive(self, oid: Oid) -> Archive:
        """What a commit of the archive says. Raises ``Malformed``."""
        if oid not in self._archives:
            self._archives[oid] = archive_set.at(self, oid)
        return self._archives[oid]

    def sessions_from(self, root: Oid) -> Mapping[str, set[Oid]]:
        """Return the known sessions, archived ones too, of which an end leads to ``root``, with these ends."""
        ends = [(sid, oid) for of in (self._ends, self._archived_ends) for sid in of for oid in of[sid]]
        told = self._run("rev-list", "--ancestry-path", "--stdin", stdin=self._range((oid for _, oid in ends), [root]))
        below = {root, *told.split()}
        found: dict[str, set[Oid]] = {}
        for sid, oid in ends:
            if sid and oid in below:
                found.setdefault(sid, set()).add(oid)
        return found

    def new(self, tips: Iterable[Oid], known: Iterable[Oid] | None, most: int) -> dict[Oid, tuple[Oid, ...]] | None:
        """Commits that lead to ``tips`` and to nothing ``known``, each after its parents, with its parents.

        ``known``: ``None`` for what all known refs hold. ``None`` where there are more than ``most``.
        """
        words = ("rev-list", "--topo-order", "--reverse", "--parents", f"--max-count={most + 1}", "--stdin")
        told = self._run(*words, stdin=self._range(tips, known))
        found = {}
        for line in told.splitlines():
            oid, *parents = line.split()
            found[oid] = tuple(parents)
        return found if len(found) <= most else None

    def count_new(self, tips: Iterable[Oid]) -> int:
        """How many commits lead to ``tips`` and to no known ref."""
        return int(self._run("rev-list", "--count", "--stdin", stdin=self._range(tips, None)))

    def _range(self, tips: Iterable[Oid], known: Iterable[Oid] | None) -> str:
        old = set(self.known.values() if known is None else known)
        return "".join([*(f"{oid}\n" for oid in tips), *(f"^{oid}\n" for oid in old)])

    def ancestors(self, oid: Oid) -> list[Oid]:
        """The commit and all that lead to it."""
        return self._run("rev-list", oid).split()

    def root(self, oid: Oid) -> Oid:
        """Where the line of ``oid`` begins."""
        return self._run("rev-list", "--first-parent", "--max-parents=0", oid).strip()

    def starts(self, oid: Oid) -> list[Oid]:
        """Entries on the line of ``oid``, the nearest first, at which a session may begin."""
        return self._run("rev-list", "--first-parent", "--grep=^Entry: fork$", "--grep=^Entry: session$", oid).split()

    def is_on_line(self, old: Oid, new: Oid) -> bool:
        """Whether ``old`` stands on the line of ``new``: first parents only."""
        parents = parse_commit(self.read(old)[1]).parents
        told = self._run("rev-list", "--first-parent", new, *(f"^{parent}" for parent in parents))
        return old in told.split()

    def leads_to(self, new: Oid, old: Oid) -> bool:
        """Whether ``old`` is behind ``new``, by any parent."""
        words = ("merge-base", "--is-ancestor", old, new)
        return process.run(self._git_dir, *words, accept=(0, 1), variables=self._variables).code == 0

    def _run(self, *words: str, stdin: str = "") -> str:
        return process.run(self._git_dir, *words, stdin=stdin.encode(), variables=self._variables).out.decode()

    def close(self) -> None:
        self._git.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _rows(trees: Iterable[bytes]) -> list[tuple[str, str, Oid]]:
    """What trees hold, those that can be taken apart; of the others the judge will say so."""
    found: list[tuple[str, str, Oid]] = []
    for data in trees:
        with contextlib.suppress(Malformed):
            found += parse_tree(data)
    return found
