"""A place apart from which git talks to a remote: nothing that is fetched is in the store until it was judged.

A bare repository below the store, made for one talk: it borrows the store's objects, and of its configuration only what
cannot run a program. What it fetches lies in packs of its own. Those that are good move into the store, by one rename
each.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from gitsession.durable import make_directories
from gitsession.errors import Unavailable
from gitsession.git import pack_writer, process, ref_files
from gitsession.git.ref_files import SYMBOLIC
from gitsession.git.repository import VerifiedRepository
from gitsession.git.types import Kind, Oid
from gitsession.store import create
from gitsession.store.spill import move_packs, packs_in
from gitsession.sync.remotes import Remote

_CONFIG = """\
[core]
	repositoryformatversion = 0
	bare = true
[fetch]
	fsckObjects = true
	unpackLimit = 1
"""
_FILES = {"HEAD": "ref: refs/heads/none\n", "objects/info/alternates": "../../../../objects\n"}


class Quarantine:
    """To be used in a ``with``, by a holder of the sync lock: what killed ones left is removed."""

    def __init__(
        self,
        store_dir: Path,
        remote: Remote,
        known: Mapping[str, Oid],
        *,
        at: Path | None = None,
        beside_others: bool = False,
    ) -> None:
        """``known``: refs that it begins with, so that git asks only for what is new. ``at``: what was fetched already
        lies there. ``beside_others``: not by the holder of the sync lock, so that nothing is swept.
        """
        self._sweeps = not beside_others
        self._store_dir = store_dir
        self._remote = remote
        self._known = known
        self.git_dir = at or store_dir / create.INCOMING / secrets.token_hex(8)

    def __enter__(self) -> Self:
        try:
            if self._sweeps:
                shutil.rmtree(self._store_dir / create.INCOMING, ignore_errors=True)
            make_directories(self._store_dir / create.INCOMING)
            for folder in ("objects/info", "objects/pack", "refs"):
                (self.git_dir / folder).mkdir(mode=0o700, parents=True)
            for name, text in {**_FILES, "config": _CONFIG + _section(self._remote)}.items():
                (self.git_dir / name).write_bytes(text.encode("utf-8", "surrogateescape"))
            plain = {name: oid for name, oid in self._known.items() if not oid.startswith(SYMBOLIC)}
            (self.git_dir / ref_files.PACKED_REFS).write_bytes(ref_files.changed_packed(b"", put=plain))
        except OSError as error:
            raise Unavailable(f"cannot make room for what is fetched: {error.strerror}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.git_dir, ignore_errors=True)

    def cut_off(self) -> None:
        """From now on git asks nobody for what is not here: what a clone left out is missing, and told so."""
        (self.git_dir / "config").write_text(_CONFIG)

    def refs(self, prefix: str) -> Mapping[str, Oid]:
        """What was fetched; no symbolic refs."""
        found = VerifiedRepository(self.git_dir).refs.list(prefix)
        return {name: value for name, value in found.items() if not value.startswith(SYMBOLIC)}

    def put(self, objects: Mapping[Oid, tuple[Kind, bytes]]) -> None:
        """Have ``objects`` beside what was fetched. Raises ``OSError``."""
        pack_writer.write_pack(self.git_dir / "objects", objects, self._store_dir / create.KEEP, sync=False)

    def keep_only(self, tips: Iterable[Oid], known: Iterable[Oid]) -> None:
        """Leave out what only others than ``tips`` lead to, and what the store's refs lead to: ``known``."""
        named = "".join(f"{oid}\n" for oid in dict.fromkeys(tips))
        here = "".join(f"^{oid}\n" for oid in set(known) if not oid.startswith(SYMBOLIC))
        before, folder = self._packs(), self.git_dir / "objects" / "pack"
        is_partial = any(folder.glob("*.promisor"))
        made: list[str] = []
        if named:
            words = ["pack-objects", "--revs", "--delta-base-offset", "-q"]
            words += ["--missing=allow-any"] if is_partial else []  # what was left out is the remote's to give
            told = process.run(self.git_dir, *words, "objects/pack/pack", stdin=(named + here).encode()).out
            made = [f"pack-{one}" for one in told.decode().split()]
        for name in set(before) - set(made):
            for suffix in (".idx", ".rev", ".pack", ".promisor"):
                (folder / f"{name}{suffix}").unlink(missing_ok=True)
        for name in made if is_partial else ():
            (folder / f"{name}.promisor").touch()

    def move_in(self, *, kept: bool = True) -> list[str]:
        """Give the store what was fetched, kept until the refs have moved; the packs. For a holder of its lock, unless
        refs lead there already (``kept=False``).

        Raises ``OSError``. They are durable when this returns.
        """
        return move_packs(self.git_dir / "objects" / "pack", self._store_dir, kept=kept)

    def _packs(self) -> list[str]:
        return packs_in(self.git_dir / "objects" / "pack")


def _section(remote: Remote) -> str:
    """What git's configuration says of the remote."""
    escaped = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}
    lines = [f'\t{key} = "{"".join(escaped.get(one, one) for one in value)}"\n' for key, value in remote.settings]
    return f'[remote "{remote.name}"]\n' + "".join(lines)
