"""Test helpers: builders for pi's session files, stores with a fake clock, and readable descriptions of a store."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from places import SHARED

from gitsession import Store
from gitsession.codec.digest import to_base64url
from gitsession.exporting import export_session
from gitsession.formats import FORMATS, claimed
from gitsession.git.types import Kind, Oid, RefValue
from gitsession.importing.import_session import ImportResult, import_source
from gitsession.model.entries import Message
from gitsession.sessions import graph, session_facts
from gitsession.sessions import marks as rules
from gitsession.sessions import session as sessions
from gitsession.sessions.meta import meta_of
from gitsession.sessions.node import Node
from gitsession.store import refs
from gitsession.store.create import create
from gitsession.store.git_store import GitStore
from gitsession.store.interface import ObjectStore, StoreProxy, Transaction
from gitsession.store.memory import MemoryStore
from gitsession.verify.entry_walk import verify

"""Session files that are not ours to give away: tests on them are skipped where they are not at hand."""

START = "2026-02-01T00:00:00.000Z"
START_MS = 1_769_904_000_000


class Clock:
    """A clock that advances one second at each call."""

    def __init__(self, at_ms: int = START_MS) -> None:
        self.at_ms = at_ms

    def __call__(self) -> int:
        self.at_ms += 1000
        return self.at_ms


def nonces(seed: bytes = b"") -> Any:
    """Return a replacement for ``os.urandom`` with the same sequence of bytes for the same seed."""
    count = 0

    def urandom(size: int) -> bytes:
        nonlocal count
        count += 1
        return sha256(seed + str(count).encode()).digest()[:size]

    return urandom


# ---- files


def dumps(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def header(id: str = "s1", **fields: object) -> bytes:
    """Return the first line of a file of pi."""
    return dumps({"type": "session", "version": 3, "id": id, "timestamp": START, "cwd": "/work", **fields})


def entry(type: str, id: str | None, parent: str | None, at: int = 1, **fields: object) -> bytes:
    """Return a line of a file of pi.

    Args:
        at: Time of the entry in seconds after the start of the session.
    """
    time = f"2026-02-01T{at // 3600:02}:{at // 60 % 60:02}:{at % 60:02}.000Z"
    return dumps({"type": type, "id": id, "parentId": parent, "timestamp": time, **fields})


def said(id: str, parent: str | None, text: str = "", role: str = "user", at: int = 1, **fields: object) -> bytes:
    """Return a message."""
    content = [{"type": "text", "text": text or f"words of {id}"}]
    return entry("message", id, parent, at, message={"role": role, "content": content, **fields})


def talk(*ids: str, after: str | None = None) -> list[bytes]:
    """Return messages of the user and the assistant in turn. Each is a child of the previous one."""
    parents = (after, *ids)
    roles = ("user", "assistant")
    return [said(id, parents[n], role=roles[n % 2], at=n + 1) for n, id in enumerate(ids)]


def label(id: str, parent: str | None, target: str, text: str | None, at: int = 1) -> bytes:
    return entry("label", id, parent, at, targetId=target, label=text)


def named(id: str, parent: str | None, name: str, at: int = 1) -> bytes:
    return entry("session_info", id, parent, at, name=name)


def slot(title: str, at: str = START) -> bytes:
    """Return omp's title slot. It is 256 bytes long, including the line ending."""
    start = dumps({"type": "title", "v": 1, "title": title, "updatedAt": at, "pad": ""})
    return start[:-2] + b" " * (255 - len(start)) + start[-2:]


def pi_file(*lines: bytes, id: str = "s1", **fields: object) -> bytes:
    """Return a file of pi with a header and ``lines``."""
    return joined(header(id, **fields), *lines)


def joined(*lines: bytes) -> bytes:
    return b"".join(line + b"\n" for line in lines)


# ---- stores


def on_disk(path: Path) -> GitStore:
    create(path)
    return GitStore.open(path)


def in_memory(path: Path) -> MemoryStore:
    return MemoryStore()


STORES = {"memory": in_memory, "git": on_disk}

OPENED = {"memory": lambda path: Store.in_memory(clock=Clock()), "git": lambda path: Store.create(path, clock=Clock())}
"""Functions that create a ``Store`` of each kind, for tests of the API that both kinds pass."""


def bring(
    store: ObjectStore, data: bytes, *, agent: str = "", name: str = "named", final: bool = False
) -> ImportResult:
    """Import a file."""
    format = FORMATS[agent] if agent else claimed(data) or FORMATS["pi"]
    return import_source(store, format, format.split(data, name=name, final=final))


def exported(store: ObjectStore, sid: str) -> bytes:
    return export_session.export_original(store, sid).data


def session(
    store: ObjectStore, sid: str, branch: str | None = None, clock: Clock | None = None
) -> sessions.StoredSession:
    return sessions.StoredSession.open(store, sid, clock or Clock(), branch)


def begun(store: ObjectStore, *words: str, clock: Clock | None = None) -> sessions.StoredSession:
    """Create a session in gitsession with the prompts ``words``."""
    made = sessions.StoredSession.new(store, "agent", "/work", clock or Clock())
    for text in words or ("hi",):
        made.append(Message.user(text))
    return made


def fork(origin: sessions.StoredSession, at: str | Node = "leaf") -> sessions.StoredSession:
    """Fork a session, including its current title and labels. Both are found by a walk of the ``meta`` branch."""
    title, labels = _facts(origin._store, origin.id)
    chains = {to_base64url(node.chain): label for node, label in labels}
    return origin.fork(at, agent="agent", cwd="/work", title=title, labels=chains)


def title_of(store: ObjectStore, sid: str) -> str | None:
    return _facts(store, sid)[0]


def labels_of(store: ObjectStore, sid: str) -> dict[str, str]:
    """Return the labels of a session by the subject of the labeled entry."""
    return {node.subject: label for node, label in _facts(store, sid)[1]}


def _facts(store: ObjectStore, sid: str) -> tuple[str | None, list[tuple[Node, str]]]:
    tree, seen = graph.tree(store, sid), meta_of(store, sid)
    marks = session_facts.marks(store, sid, tree, seen)
    labels = rules.labels(marks, session_facts.targets(tree, seen))
    return rules.title(marks), [(tree.nodes[oid], label) for oid, label in labels.items()]


def all_refs(store: ObjectStore) -> dict[str, RefValue]:
    return dict(store.refs("refs/"))


def session_refs(store: ObjectStore) -> dict[str, RefValue]:
    """Return the session refs of a store: branches and ``meta``. A clone receives the same refs."""
    return dict(store.refs(refs.SESSIONS))


def leaves(store: ObjectStore, sid: str) -> dict[str, str]:
    """Return the subject of the tip of each branch of a session."""
    tree = graph.tree(store, sid)
    return {name: tree.nodes[oid].subject for name, oid in tree.branches.items()}


def ids_on(store: ObjectStore, leaf: Oid) -> list[str | None]:
    """Return the agent's ids of the entries of a branch, without the root."""
    return [node.source.id if node.source else None for node in graph.history(store, leaf)][-2::-1]


def is_ancestor(store: ObjectStore, old: Oid, new: Oid) -> bool:
    return any(node.oid == old for node in graph.history(store, new))


def moved_forward(store: ObjectStore, before: Mapping[str, RefValue], after: Mapping[str, RefValue]) -> bool:
    """Return whether every ref still exists and has only moved to descendants."""
    return all(name in after and is_ancestor(store, old, after[name]) for name, old in before.items())


def assert_clean(store: ObjectStore) -> None:
    report = verify(store)
    assert report.problems == []
    assert report.whole


def git(store: GitStore, *arguments: str, check: bool = True) -> str:
    """Flush the store, run a git command in it and return the output."""
    store.flush()
    done = subprocess.run(["git", "-C", store.git_dir, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0 or not check, done.stderr
    return done.stdout + done.stderr


def assert_git_agrees(store: GitStore) -> None:
    """Fail if ``git fsck --strict`` reports anything."""
    assert git(store, "fsck", "--strict", "--no-dangling", "--no-progress") == ""


class Watched(StoreProxy):
    """A store that counts writes by object and the number of reads."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.put: Counter[str] = Counter()
        self.reads = 0

    def read(self, oid: Oid) -> tuple[Kind, bytes]:
        self.reads += 1
        return self._store.read(oid)

    def read_all(self, oids: Iterable[Oid]) -> Iterator[tuple[Oid, Kind, bytes]]:
        """Yield nothing, so that each object is read and counted by ``read``."""
        return iter(())

    def commits(self) -> Iterator[tuple[Oid, Kind, bytes]]:
        return iter(())

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        with self._store.transaction() as tx:
            yield _WatchedTransaction(tx, self.put)


class _WatchedTransaction:
    def __init__(self, tx: Transaction, put: Counter[str]) -> None:
        self._tx = tx
        self._put = put
        self.move, self.put_all, self.keep_original = tx.move, tx.put_all, tx.keep_original

    def put(self, kind: Kind, data: bytes) -> Oid:
        self._put[kind] += 1
        return self._tx.put(kind, data)


def shared_files(*agents: str) -> Sequence[Path]:
    return [path for agent in agents for path in sorted((SHARED / "sessions" / agent).glob("*.jsonl"))]
