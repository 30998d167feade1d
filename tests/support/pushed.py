"""Test helpers for validation: entries with a single fault, built by hand, and a real ``git push``."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha1
from pathlib import Path

from builders import Clock, begun, on_disk

from gitsession.cli.invocation import runner
from gitsession.codec.holes import StoredPayload
from gitsession.git.objects import oid_of
from gitsession.git.types import Oid
from gitsession.model import entries as kinds
from gitsession.model.entries import Entry, Message
from gitsession.server import server
from gitsession.sessions import commit_writer
from gitsession.sessions.node import Node, load
from gitsession.sessions.node import parse as parse_node
from gitsession.store import refs
from gitsession.store.git_store import GitStore

NONCE = bytes(16)
PUSH_SECONDS = 120
Row = tuple[str, bytes, Oid]


def bare(path: Path) -> Path:
    """Create an empty bare repository."""
    subprocess.run(["git", "init", "-q", "--bare", "-b", "master", str(path)], check=True)
    return path


SEVERAL_PROCESSES = [
    sys.executable,
    "-P",
    "-c",
    "import os; os.sched_getaffinity = lambda _: range(3)\n"
    "from gitsession import parallel; parallel.ITEMS_MIN = parallel._AT_ONCE = 1\n"
    "from gitsession.__main__ import main; main()",
]
"""The program of a server on which three processes share the entries of each push, one entry at a time."""


def hub(path: Path, *, strict: bool = True, program: Sequence[str] = ()) -> Path:
    """Create a server for sessions.

    Args:
        strict: Also run git's own object checks, as the installation sets them up.
        program: The command that the hooks run; by default, gitsession.
    """
    server.install(bare(path), program or runner())
    if not strict:
        subprocess.run(["git", f"--git-dir={path}", "config", "transfer.fsckObjects", "false"], check=True)
    return path


def push(client: Path, to: Path, *refspecs: str, options: Iterable[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run ``git push`` and return its result."""
    command = ["git", f"--git-dir={client}", "push", *options, str(to), *refspecs]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PUSH_SECONDS)


def everything_in(repository: Path) -> tuple[str, str]:
    """Return the refs and all object ids of a repository."""
    git = ["git", f"--git-dir={repository}"]
    words = (["for-each-ref"], ["cat-file", "--batch-all-objects", "--batch-check", "--unordered"])
    refs_of, objects = (subprocess.run([*git, *w], capture_output=True, text=True, check=True).stdout for w in words)
    return refs_of, "".join(sorted(objects.splitlines(keepends=True)))


def user(text: str = "more", at_ms: int = 1_800_000_000_000) -> Message:
    return Message.user(text, at_ms=at_ms)


def checkpoint(at_ms: int = 1_800_000_000_000) -> kinds.Checkpoint:
    return kinds.Checkpoint(at_ms=at_ms, mode="workspace")


@dataclass
class Client:
    """A store with a session, and methods to write data that gitsession never writes."""

    store: GitStore
    sid: str

    @classmethod
    def begin(cls, path: Path) -> Client:
        """Create a session: ``main`` with two messages, ``meta`` and ``files``."""
        store = on_disk(path)
        session = begun(store, "hi", "there", clock=Clock())
        client = cls(store, session.id)
        root = client.root
        at_ms = root.author_seconds * 1000
        title = client.entry(kinds.Title(at_ms=at_ms, title="A title"), root)
        kept = client.entry(checkpoint(at_ms), root, files=client.files(("100644", b"a", b"words")))
        store.flush()
        for name, node in ((refs.META, title), (refs.FILES, kept)):
            client.git("update-ref", refs.leaf(client.sid, name), node.oid)
        return client

    @property
    def path(self) -> Path:
        return self.store.git_dir

    @property
    def leaf(self) -> Node:
        return load(self.store, self.store.ref(refs.leaf(self.sid)) or "")

    @property
    def root(self) -> Node:
        node = self.leaf
        while node.parent:
            node = load(self.store, node.parent)
        return node

    def on(self, branch: str) -> Node:
        return load(self.store, self.store.ref(refs.leaf(self.sid, branch)) or "")

    def ref(self, branch: str = refs.MAIN) -> str:
        return refs.leaf(self.sid, branch)

    def git(self, *words: str, stdin: bytes = b"") -> str:
        return self.git_bytes(*words, stdin=stdin).decode().strip()

    def git_bytes(self, *words: str, stdin: bytes = b"") -> bytes:
        command = ["git", f"--git-dir={self.path}", *words]
        env = {**os.environ, "GIT_AUTHOR_DATE": "1800000000 +0000", "GIT_COMMITTER_DATE": "1800000000 +0000"}
        env |= {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        return subprocess.run(command, input=stdin, capture_output=True, check=True, env=env).stdout

    # -- objects

    def commit(self, node: Node) -> bytes:
        """Return the bytes of an entry's commit."""
        return self.git_bytes("cat-file", "commit", node.oid)

    def put(self, kind: str, data: bytes) -> Oid:
        """Write any bytes as an object, without the checks of git."""
        whole = f"{kind} {len(data)}\0".encode() + data
        oid = sha1(whole, usedforsecurity=False).hexdigest()
        place = self.path / "objects" / oid[:2] / oid[2:]
        if not place.exists():
            place.parent.mkdir(exist_ok=True)
            place.write_bytes(zlib.compress(whole))
        return oid

    def tree(self, *rows: Row) -> Oid:
        """Write a tree with these rows in this order."""
        return self.put("tree", b"".join(b"%b %b\0%b" % (m.encode(), name, bytes.fromhex(o)) for m, name, o in rows))

    def files(self, *rows: tuple[str, bytes, bytes]) -> Oid:
        """Write a tree of files, given as mode, name and content."""
        return self.tree(*((mode, name, self.put("blob", data)) for mode, name, data in rows))

    def entry(
        self,
        entry: Entry,
        parent: Node | None = None,
        *,
        files: Oid | None = None,
        payload: bytes | None = None,
        stored: StoredPayload | None = None,
        tree: Oid | None = None,
        more: Iterable[Row] = (),
        second_parent: Oid | None = None,
        old: bytes = b"",
        new: bytes = b"",
    ) -> Node:
        """Write an entry after ``parent``. It is valid except for the given changes.

        Args:
            payload: Replacement payload; the chain digest is computed from it.
            stored: Replacement stored payload, with its holes.
            more: Additional rows of the entry's tree.
            old: Bytes of the commit that are replaced with ``new``.
        """
        draft = commit_writer.draft_own(entry, NONCE, None)
        if payload is not None:
            draft = commit_writer.Draft(draft.form, StoredPayload(payload, b"", ()), draft.headline)
        if stored is not None:
            draft = commit_writer.Draft(draft.form, stored, draft.headline)
        draft = commit_writer.Draft(draft.form, draft.stored, draft.headline, files=files, second_parent=second_parent)
        made = commit_writer.put_tree(self, draft.form, draft.stored, files)
        if more:
            rows = [(m, n.encode(), o) for m, n, o in _rows(self, made)]
            names = {name for _, name, _ in more}
            made = self.tree(*sorted([*(row for row in rows if row[1] not in names), *more], key=lambda row: row[1]))
        data, _ = commit_writer.commit_of(draft, tree or made, parent)
        assert old in data
        data = data.replace(old, new, 1) if old else data
        oid = self.put("commit", data)
        try:
            return parse_node(oid, data)
        except Exception:
            return Node(oid, made, None, None, "", 0, 0, "", b"", None, "", "")


def _rows(client: Client, tree: Oid) -> list[tuple[str, str, Oid]]:
    told = client.git("ls-tree", tree)
    rows = [line.split(maxsplit=3) for line in told.splitlines()]
    return [(mode if mode != "040000" else "40000", name, oid) for mode, _, oid, name in rows]


__all__ = ["NONCE", "Client", "bare", "checkpoint", "everything_in", "hub", "oid_of", "push", "user"]
