"""The plan of a purge of one entry, one session, or all entries and files that contain a string.

Planning changes nothing.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from pathlib import Path

from gitsession import progress
from gitsession.codec import holes
from gitsession.dataclass import dataclass
from gitsession.errors import NotFound
from gitsession.formats.base.record import TAIL
from gitsession.git.types import Oid
from gitsession.purge import attached_lines
from gitsession.sessions import content, graph, operation_log, tombstone, tombstone_set
from gitsession.sessions.gaps import DAMAGE
from gitsession.sessions.local_records import ExportHit
from gitsession.sessions.node import Node, first_parent, load
from gitsession.sessions.tombstone_set import FILE, PURGED_CONTENT_OID, Replacement, Tombstones
from gitsession.store import refs
from gitsession.store.interface import ObjectStore
from gitsession.workspace import trees

NESTED_MAX = 3
"""Maximum depth of JSON strings within JSON strings at which the purged text is found."""

CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class EntryHit:
    """An entry that a purge removes.

    ``session``: a session that contains the entry; ``digest``: the entry's key in the tombstone set.
    """

    session: str
    node: Node
    digest: str


@dataclass(frozen=True, slots=True)
class FileHit:
    """A captured file that a purge removes from all checkpoints. ``path``: its path in one of these checkpoints."""

    session: str
    path: str
    oid: Oid


@dataclass(frozen=True, slots=True)
class PurgeProblem:
    """A copy of purged content that a purge does not remove. ``what`` states the reason."""

    where: str
    what: str


@dataclass(frozen=True, slots=True)
class AgentFileHit:
    """An agent's own file with purged content. ``session``: the session that was imported from the file."""

    path: Path
    session: str


@dataclass(frozen=True, slots=True)
class PurgePlan:
    """The plan of a purge.

    Attributes:
        more: Tombstones that are added to the tombstone set.
        entries: Entries that are removed.
        files: Captured files that are removed.
        sessions: Ids of the sessions that are purged.
        problems: Copies of purged content that remain.
        exports: Files with purged content that this store exported.
        texts: Texts for which exported and agents' files are searched.
        agent_files: Files with purged content that agents wrote.
        redacted: Entries that are kept. The text is removed from their attached lines.
    """

    more: Tombstones = field(default_factory=Tombstones)
    entries: tuple[EntryHit, ...] = ()
    files: tuple[FileHit, ...] = ()
    sessions: tuple[str, ...] = ()
    problems: tuple[PurgeProblem, ...] = ()
    exports: tuple[ExportHit, ...] = ()
    texts: tuple[str, ...] = ()
    agent_files: tuple[AgentFileHit, ...] = ()
    redacted: tuple[EntryHit, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to purge."""
        return not self.more and not self.exports


def plan_entry(store: ObjectStore, sid: str, node: Node) -> PurgePlan:
    """Plan the purge of one entry.

    Raises ``NotFound`` for the first entry of a session, which can only be purged with the session.
    """
    if node.starts_session:
        raise NotFound(
            f"cannot purge entry {node.oid[:12]}: it is the first entry of session {sid}",
            hint="run `gitsession purge SESSION` to purge the whole session",
        )
    return plan_of(store, [hit_of(store, sid, node)], [])


def plan_session(store: ObjectStore, sid: str) -> PurgePlan:
    """Plan the purge of a session. Entries that are shared with a fork remain in the fork. Raises ``NotFound``."""
    found = store.refs(refs.session(sid))
    if not found:
        raise NotFound(f"no session {sid}", hint="run `gitsession ls` to list the sessions")
    first_digests = {digest for value in found.values() for digest in _beginnings(store, sid, value)}
    more = Tombstones(sessions={sid: frozenset(first_digests)})
    shared = [
        PurgeProblem(other, "a fork of this session, which keeps the shared entries")
        for other in sorted(_sharing(store, sid, found.values()))
    ]
    hits = [EntryHit(sid, node, "") for node in _own_entries(store, sid)]
    return PurgePlan(more, tuple(hits), (), (sid,), (*shared, *_remaining_copies(store, hits)))


def plan_text(store: ObjectStore, text: str, sids: Iterable[str] | None = None) -> PurgePlan:
    """Plan the purge of all entries and captured files that contain ``text``, in all sessions or only in ``sids``.

    The text is also found in JSON, in JSON within JSON, and in summaries, titles and labels. It is not found if it is
    split or stored in another encoding. If only the attached lines of an entry contain the text, the entry is redacted
    and not purged.
    """
    all_sids = sorted({refs.session_of(name) for name in store.refs(refs.SESSIONS)} - {""})
    byte_forms = spellings(text)
    entries: dict[Oid, EntryHit] = {}
    redacted: dict[Oid, EntryHit] = {}
    replaced: dict[str, Replacement] = {}
    files: dict[Oid, FileHit] = {}
    problems: list[PurgeProblem] = []
    searched: dict[Oid, bool] = {}
    for sid in progress.each("Searching sessions", all_sids if sids is None else list(sids)):
        for node in _session_entries(store, sid):
            try:
                parts = content.entry_tree(store, node)
                data = content.full_payload(store, node, parts)
            except DAMAGE as error:
                problems.append(PurgeProblem(node.oid, f"not searched, because it cannot be read: {error}"))
                continue
            if contains_text(data, text, byte_forms):
                if node.starts_session:
                    what = f"it is the first entry of session {sid}: purge the whole session"
                    problems.append(PurgeProblem(node.oid, what))
                else:
                    hit = EntryHit(sid, node, parts.digest.hex())
                    replacement = _replacement(node, parts, data, text, byte_forms)
                    if replacement is not None:
                        replaced[hit.digest] = replacement
                    (entries if replacement is None else redacted).setdefault(node.oid, hit)
            for path, file in trees.walk(store, parts.files):
                oid = file.oid
                if oid == PURGED_CONTENT_OID:
                    continue
                if oid not in searched:
                    searched[oid] = any(spelling in store.read(oid)[1] for spelling in byte_forms)
                if searched[oid]:
                    files.setdefault(oid, FileHit(sid, path, oid))
    plan = plan_of(store, entries.values(), files.values())
    redacted_hits = tuple(redacted.values())
    remaining = (*plan.problems, *_remaining_copies(store, redacted_hits), *problems, *_in_commands(store, text))
    more = plan.more | Tombstones(replaced=replaced)
    return PurgePlan(more, plan.entries, plan.files, (), tuple(dict.fromkeys(remaining)), redacted=redacted_hits)


def _replacement(
    node: Node, parts: content.EntryTree, data: bytes, text: str, byte_forms: tuple[bytes, ...]
) -> Replacement | None:
    """Return the replacement of an entry that has ``text`` only in its attached lines; ``None`` for any other entry.

    An entry for which ``None`` is returned must be removed. An entry with redacted secrets is removed, because its
    original in the vault contains the text, too.
    """
    if node.source is None or node.source.line == TAIL or (parts.holes and holes.hidden(parts.holes)):
        return None
    return attached_lines.redact_attached(parts.form, data, text, lambda part: contains_text(part, text, byte_forms))


def spellings(text: str) -> tuple[bytes, ...]:
    """Return the spellings of ``text`` in a payload: plain, and with up to ``NESTED_MAX`` levels of JSON escapes."""
    found = {text}
    for _ in range(NESTED_MAX):
        found |= {json.dumps(one, ensure_ascii=ascii)[1:-1] for one in found for ascii in (False, True)}
    return tuple(sorted(one.encode("utf-8", "surrogatepass") for one in found))


def contains_text(data: bytes, text: str, byte_forms: tuple[bytes, ...]) -> bool:
    """Return whether a payload contains ``text``. ``byte_forms``: the result of ``spellings``."""
    if any(spelling in data for spelling in byte_forms):
        return True
    if b"\\" not in data:
        return False
    return any(text in string for line in data.split(b"\n") for string in _strings(line))


def _strings(line: bytes) -> Iterator[str]:
    """Yield every string and key in a line of JSON, without escapes.

    In these strings, a text is found even if the line spells it with unusual escapes.
    """
    try:
        pending = [json.loads(line)]
    except (ValueError, RecursionError):
        return
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            pending += value
        elif isinstance(value, dict):
            pending += [*value.keys(), *value.values()]


def hit_of(store: ObjectStore, sid: str, node: Node) -> EntryHit:
    """Return the hit that removes an entry of session ``sid``."""
    return EntryHit(sid, node, _digest(store, node))


def plan_of(store: ObjectStore, entries: Iterable[EntryHit], files: Iterable[FileHit]) -> PurgePlan:
    """Return the plan that removes ``entries`` and ``files``."""
    entries, files = tuple(entries), tuple(files)
    keys = {hit.digest for hit in entries} | {FILE + hit.oid for hit in files}
    more = Tombstones(frozenset(keys))
    return PurgePlan(more, entries, files, (), _remaining_copies(store, entries))


def _session_entries(store: ObjectStore, sid: str) -> Iterator[Node]:
    """Yield once each entry that is reachable from a ref of a session, including entries shared with other sessions."""
    seen: set[Oid] = set()
    for value in store.refs(refs.session(sid)).values():
        oid: Oid | None = value
        while oid is not None and oid not in seen:
            seen.add(oid)
            try:
                node = load(store, oid)
            except DAMAGE:
                oid = first_parent(store, oid)
                continue
            if not node.is_tombstone:
                yield node
            oid = node.parent


def _own_entries(store: ObjectStore, sid: str) -> Iterator[Node]:
    """Yield the entries of a session, except entries of the session from which it was forked."""
    seen: set[Oid] = set()
    for value in store.refs(refs.session(sid)).values():
        for node in graph.history(store, value):
            if node.oid in seen:
                break
            seen.add(node.oid)
            yield node
            if content.is_fork_start(store, node, sid):
                break


def _beginnings(store: ObjectStore, sid: str, leaf: Oid) -> Iterator[str]:
    """Yield the digests of the entries that can be a session's first entry, in the readable history of ``leaf``.

    For a fork, these include the first entry of the whole history. In another clone, a branch of the fork may begin
    before the ``fork`` entry, and its checkpoints may follow the checkpoints of the older session.
    """
    first = None
    try:
        for node in graph.history(store, leaf):
            if first is None and content.is_fork_start(store, node, sid):
                first = node
            if node.parent is None:
                yield _digest(store, node)
    except DAMAGE:
        if first is None:
            raise
    if first is not None:
        yield _digest(store, first)


def _sharing(store: ObjectStore, sid: str, leaves: Iterable[Oid]) -> set[str]:
    """Return the other sessions that contain an entry of this session."""
    own = {node.oid for node in _own_entries(store, sid)}
    found = set()
    for name, value in store.refs(refs.SESSIONS).items():
        other = refs.session_of(name)
        if (
            other
            and other != sid
            and other not in found
            and any(node.oid in own for node in _readable_history(store, value))
        ):
            found.add(other)
    return found


def _readable_history(store: ObjectStore, leaf: Oid) -> Iterator[Node]:
    try:
        yield from graph.history(store, leaf)
    except DAMAGE:
        return


def _digest(store: ObjectStore, node: Node) -> str:
    parts = content.entry_tree(store, node)
    return (tombstone.replaced_digest(node, parts) or parts.digest).hex()


def _remaining_copies(store: ObjectStore, entries: Sequence[EntryHit]) -> tuple[PurgeProblem, ...]:
    """Return the copies of the entries that remain at remotes and in the history of the tombstone set."""
    reason = "redacted before: the redacted text stays in the history of the tombstone set"
    redacted = [hit for hit in entries if hit.node.replaces] if tombstone_set.is_published(store) else []
    records = (PurgeProblem(f"{hit.session}@{hit.node.oid[:12]}", reason) for hit in redacted)
    return (*_at_remotes(store, {hit.node.oid for hit in entries}), *records)


def _at_remotes(store: ObjectStore, oids: set[Oid]) -> tuple[PurgeProblem, ...]:
    """Return the remotes that have one of ``oids``, according to the remote-tracking refs."""
    found: dict[str, None] = {}
    for name, value in store.refs("refs/remotes/").items():
        remote = name.removeprefix("refs/remotes/").partition("/")[0]
        if (
            remote not in found
            and refs.target(value) is None
            and any(node.oid in oids for node in _readable_history(store, value))
        ):
            found[remote] = None
    return tuple(PurgeProblem(remote, "this remote has a copy until the purge is pushed to it") for remote in found)


def _in_commands(store: ObjectStore, text: str) -> Iterator[PurgeProblem]:
    for operation in operation_log.history(store):
        if text in operation.command and operation.command.split(" ")[0] not in ("label", "name"):
            yield PurgeProblem(operation.id, f"the operation log contains the text: {operation.command[:80]}")


def with_agent_files(plan: PurgePlan, imported: Iterable[tuple[Path, str]]) -> PurgePlan:
    """Return ``plan`` with the files in ``imported`` that have purged content, except files that this store wrote.

    ``imported``: paths of files, each with the id of the session that was imported from it.
    """
    exported = {exported_hit.export.path for exported_hit in plan.exports}
    byte_forms = [spelling for text in plan.texts for spelling in spellings(text)]
    hits = [
        AgentFileHit(path, sid)
        for path, sid in imported
        if os.fspath(path) not in exported
        and (path.is_file() if sid in plan.sessions else bool(byte_forms) and _contains_any(path, byte_forms))
    ]
    return replace(plan, agent_files=tuple(hits))


def _contains_any(path: Path, spellings: Sequence[bytes]) -> bool:
    """Return whether the regular file ``path`` contains one of ``spellings``; ``False`` if it cannot be read."""
    overlap = max(map(len, spellings), default=1) - 1
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return False
        buffer = b""
        try:
            while chunk := file.read(CHUNK_BYTES):
                buffer += chunk
                if any(spelling in buffer for spelling in spellings):
                    return True
                buffer = buffer[len(buffer) - overlap :] if overlap < len(buffer) else buffer
        except OSError:
            return False
    return False
