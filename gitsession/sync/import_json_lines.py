"""Import of a session from JSON lines, the inverse of ``exporting.json_lines`` (docs/decisions/0084).

The file is another store's copy of a session. Its entries are written again from their payloads, are checked by the
rules of a pull, and must have the chain digests that the file states. Branches are merged as in a pull. Nothing is
written before the whole file is checked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, BinaryIO, NamedTuple, NoReturn

from gitsession.codec import entry_json, holes, json_text, payload
from gitsession.codec.digest import hash_of, to_base64url
from gitsession.codec.holes import ENCODINGS, Encoding, StoredPayload
from gitsession.codec.message import SourceRef
from gitsession.errors import GitSessionError, Malformed, Refused
from gitsession.exporting.json_lines import SCHEMA
from gitsession.formats import FORMATS
from gitsession.git.objects import oid_of
from gitsession.git.types import Kind, Oid
from gitsession.importing.import_session import UPGRADE, ImportResult
from gitsession.model import entries as kinds
from gitsession.model.headline import VIEW, Headline
from gitsession.redaction.original import Original
from gitsession.sessions import commit_writer, content, graph, layout, operation_log, tombstone_set
from gitsession.sessions.commit_writer import Draft
from gitsession.sessions.merge_remote_branches import reconcile
from gitsession.sessions.node import Node, copy_key, copy_problem
from gitsession.store import refs
from gitsession.store.interface import ObjectStore
from gitsession.validation import copies, entry_rules, history_rules
from gitsession.verify import entry_check

LINES_MAX = 10_000_000
_PURGED_HINT = "a file does not transfer purges: run `gitsession sync` in both stores, then export the session again"


class _Entry(NamedTuple):
    """An entry of the file. ``chain``: its chain digest, if the file states it; "" for an entry without one."""

    line: int
    parent: str | None
    merges: str | None
    draft: Draft
    chain: str


class _Staged:
    """A reader of the new objects and of those of the store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.objects: dict[Oid, tuple[Kind, bytes]] = {}
        self.originals: list[Original] = []

    def put(self, kind: Kind, data: bytes) -> Oid:
        oid = oid_of(kind, data)
        self.objects[oid] = kind, data
        return oid

    def keep_original(self, original: Original) -> None:
        self.originals.append(original)

    def read(self, oid: Oid) -> tuple[Kind, bytes]:
        return self.objects.get(oid) or self._store.read(oid)

    def contains(self, oid: Oid) -> bool:
        return oid in self.objects or self._store.contains(oid)


def import_lines(
    store: ObjectStore, stream: BinaryIO, *, clock: Callable[[], int], command: str, dry_run: bool = False
) -> ImportResult:
    """Import a session from JSON lines.

    Args:
        store: The store.
        stream: The file.
        clock: A function that returns the current Unix time in ms.
        command: The name of the operation, which ``undo`` can undo.
        dry_run: Whether to check the file without writing anything.

    Raises:
        Malformed: A line is not valid. The message has its number. Nothing was written.
        Refused: The session was purged, a later release created it, or the store has another session with its id.
    """
    file = _read(stream, store, clock)
    staged = _Staged(store)
    nodes = _write(file, staged)
    _check(file, nodes, staged, store)
    tips = {refs.leaf(file.sid, name): nodes[id].oid for name, id in file.tips.items()}
    listed = _on_branches(file, nodes)
    new = sum(not store.contains(oid) for oid in listed)
    result = ImportResult(
        session=file.sid, entries=len(listed), new=new, rewritten=None, branch=file.active, moves=(), problems=()
    )
    if dry_run:
        return result
    with operation_log.recording(store, command, clock()) as tx:
        is_new = not graph.branches(store, file.sid)
        for kind, data in staged.objects.values():
            tx.put(kind, data)
        for original in staged.originals:
            tx.keep_original(original)
        reconcile(store, tx, tips, is_home=False)
        if is_new and len(file.tips) > 1:
            tx.move(refs.active(file.sid), refs.symbolic(refs.leaf(file.sid, file.active)), expected=None)
    return replace(result, moves=tuple(tx.moves))


def _on_branches(file: _File, nodes: Mapping[str, Node]) -> set[Oid]:
    """Return the entries that ``ls`` counts: those on the branches, without the root."""
    parents = {node.oid: node.parent for node in nodes.values()}
    found: set[Oid] = set()
    for at in (nodes[id].oid for name, id in file.tips.items() if refs.is_branch(name)):
        while at not in found and (parent := parents[at]) is not None:
            found.add(at)
            at = parent
    return found


# ---- the file


class _File(NamedTuple):
    sid: str
    root: str
    entries: dict[str, _Entry]
    tips: dict[str, str]
    active: str


def _read(stream: BinaryIO, store: ObjectStore, clock: Callable[[], int]) -> _File:
    """Read all lines. Raises ``Malformed``, with the number of the line."""
    lines = _values(stream)
    number, head = next(lines, (1, None))
    if not isinstance(head, dict) or head.get("type") != "session" or head.get("schema", SCHEMA) != SCHEMA:
        _fail(number, f"expected a line of type 'session' with the schema {SCHEMA!r}")
    is_exact = "root" in head
    root = _text(head, "root", number) if is_exact else ""
    found: dict[str, _Entry] = {} if is_exact else {"": _new_root(head, number, clock)}
    for at, line in lines:
        type_ = line.get("type") if isinstance(line, dict) else None
        if type_ not in ("entry", "record"):
            _fail(at, "expected an object of type 'entry' or 'record'")
        if type_ == "entry" and is_exact and "nonce" not in line:
            continue  # a view of an entry that also has a record
        id = _text(line, "id", at)
        if id in found:
            _fail(at, f"another line has the id {id[:60]!r}, too")
        try:
            found[id] = _record(line, at, id) if type_ == "record" else _viewed(line, at, id, root, store)
        except Malformed as error:
            _fail(at, str(error))
    if not is_exact:
        return _added(head, number, found, store, clock)
    branches, meta = _ids(head, "branches", number), _ids(head, "meta", number)
    active = _text(head, "active", number)
    if not all(map(refs.is_branch, branches)) or not all(map(refs.is_meta, meta)):
        _fail(number, "a branch has an invalid name")
    if active not in branches:
        _fail(number, f"there is no branch {active[:60]!r}")
    return _File(_text(head, "session", number), root, found, {**branches, **meta}, active)


def _values(stream: BinaryIO) -> Iterator[tuple[int, Any]]:
    for number, line in json_text.lines(stream):
        if number > LINES_MAX:
            _fail(number, f"the file has more than {LINES_MAX:,} lines")
        try:
            yield number, json_text.parse(line)
        except Malformed as error:
            _fail(number, str(error))


def _fail(number: int, text: str, hint: str = "") -> NoReturn:
    raise Malformed(text, where=f"line {number}", hint=hint)


def _text(value: Mapping[str, Any], key: str, number: int) -> str:
    found = value.get(key)
    if not isinstance(found, str):
        _fail(number, f"expected text in the field {key!r}")
    return found


def _ids(head: Mapping[str, Any], key: str, number: int) -> dict[str, str]:
    found = head.get(key)
    if not isinstance(found, dict) or not all(isinstance(id, str) for id in found.values()):
        _fail(number, f"expected an object with ids in the field {key!r}")
    return found


def _viewed(line: Mapping[str, Any], number: int, id: str, root: str, store: ObjectStore) -> _Entry:
    """Return the entry of a line of type ``entry``. Without a nonce, the entry is new."""
    parent = line.get("parent")
    if parent is not None and not isinstance(parent, str):
        _fail(number, "expected text or null in the field 'parent'")
    entry = entry_json.from_json(line.get("kind"), line.get("at", 0), line.get("body"))
    if "nonce" not in line:
        if entry.kind in entry_json.INTERNAL:
            _fail(number, f"only gitsession itself writes entries of kind {entry.kind!r}")
        return _Entry(number, parent or root, None, _own_draft(entry, store), "")
    data = payload.encode(entry, entry_json.bytes_of(line["nonce"], "nonce"))
    stored = StoredPayload(data, b"", ())
    return _Entry(number, parent or root, None, Draft(layout.OWN, stored, payload.headline(entry)), id)


def _own_draft(entry: kinds.Entry, store: ObjectStore) -> Draft:
    return commit_writer.draft_own(entry, os.urandom(payload.NONCE_BYTES), store.guard)


def _record(line: Mapping[str, Any], number: int, id: str) -> _Entry:
    """Return the entry of a line of type ``record``. Raises ``Malformed``."""
    blobs = line.get("blobs", [])
    if not isinstance(blobs, list):
        raise Malformed("expected an array", where="blobs")
    stored = StoredPayload(
        entry_json.bytes_of(line.get("payload"), "payload"),
        entry_json.bytes_of(line["holes"], "holes") if "holes" in line else b"",
        tuple(map(_blob, blobs)),
    )
    form, source = str(line.get("form")), _source(line["source"]) if "source" in line else None
    contents = {(digest, encoding): data for digest, encoding, data in stored.lifted}

    def fetch(digest: bytes, encoding: Encoding) -> bytes:
        if (digest, encoding) not in contents:
            raise Malformed("the content of a hole is missing", where="blobs")
        return contents[digest, encoding]

    data = holes.fill(stored.payload, stored.holes, fetch)
    headline, of = _headline(form, data, source)
    try:
        of = of or (bytes.fromhex(line["replaces"]) if isinstance(line.get("replaces"), str) else b"")
    except ValueError:
        raise Malformed("expected a digest", where="replaces") from None
    parent, merges = (line.get(key) if isinstance(line.get(key), str) else None for key in ("parent", "merges"))
    return _Entry(number, parent, merges, Draft(form, stored, headline, source, of=of), id)


def _headline(form: str, data: bytes, source: SourceRef | None) -> tuple[Headline, bytes]:
    """Return the headline of a payload and, for a tombstone, the digest of the purged entry. Raises ``Malformed``."""
    if form == layout.OWN:
        entry = payload.decode(data)[0]
        if isinstance(entry, kinds.Tombstone):  # it keeps the source of an agent's entry
            return payload.headline(entry), bytes.fromhex(entry.of)
        if source is None:
            return payload.headline(entry), b""
    if source is None:
        raise Malformed("expected a source", where="source")
    format = FORMATS.get(source.agent)
    if format is None or form != format.FORM:
        raise Malformed(f"unknown agent or form: {source.agent[:40]!r}, {form[:40]!r}", where="source")
    return format.headline(data), b""


def _blob(value: Any) -> tuple[bytes, Encoding, bytes]:
    if not isinstance(value, list) or len(value) != 2 or value[0] not in ENCODINGS:
        raise Malformed("expected an encoding and its content", where="blobs")
    data = entry_json.bytes_of(value[1], "blobs")
    return hash_of(data), value[0], data


def _source(value: Any) -> SourceRef:
    if isinstance(value, dict):
        agent, id, line = value.get("agent"), value.get("id"), value.get("line")
        if isinstance(agent, str) and (id is None or isinstance(id, str)) and type(line) is int:
            return SourceRef.of(agent, id, line)
    raise Malformed("expected an agent, an id and a line", where="source")


# ---- a file that another program wrote


def _new_root(head: Mapping[str, Any], number: int, clock: Callable[[], int]) -> _Entry:
    agent, at_ms = _text(head, "agent", number), head.get("at") or clock()
    if not agent.strip() or type(at_ms) is not int:
        _fail(number, "expected the name of an agent, and a Unix time in ms in the field 'at'")
    root = kinds.SessionHeader(agent=agent, view=VIEW, at_ms=at_ms)
    return _Entry(number, None, None, commit_writer.draft_own(root, os.urandom(payload.NONCE_BYTES), None), "")


def _added(
    head: Mapping[str, Any], number: int, entries: dict[str, _Entry], store: ObjectStore, clock: Callable[[], int]
) -> _File:
    """Return a file without exact entries as a new session, with its header on ``meta`` and names for its tips."""
    if len(entries) == 1:
        _fail(number, "the session has no entries")
    cwd, title, at_ms = head.get("cwd"), head.get("title"), head.get("at") or clock()
    if not all(value is None or isinstance(value, str) for value in (cwd, title)):
        _fail(number, "expected text or null in the fields 'cwd' and 'title'")
    header = kinds.SessionHeader(agent=head["agent"], cwd=cwd, title=title, at_ms=at_ms)
    parents = {entry.parent for entry in entries.values()}
    leaf = head.get("leaf")
    tips = [id for id in entries if id and id not in parents]
    main = leaf if isinstance(leaf, str) and leaf in entries else tips[-1] if tips else next(iter(entries))
    named = {refs.MAIN: main} | {f"branch-{at}": id for at, id in enumerate(tips, 1) if id != main}
    added = {**entries, refs.META: _Entry(number, "", None, _own_draft(header, store), "")}
    return _File(refs.new_sid(at_ms), "", added, {**named, refs.META: refs.META}, refs.MAIN)


# ---- writing and checking


def _write(file: _File, staged: _Staged) -> dict[str, Node]:
    """Write the entries, parents first, and return their nodes by id. Raises ``Malformed``."""
    waiting: dict[str, list[str]] = {}
    for id, entry in file.entries.items():
        if entry.parent is None and id != file.root:
            _fail(entry.line, "it has no parent, and it is not the root of the session")
        for needed in {entry.parent, entry.merges} - {None}:
            if needed not in file.entries:
                _fail(entry.line, f"there is no entry with the id {str(needed)[:60]!r}")
            waiting.setdefault(str(needed), []).append(id)
    nodes: dict[str, Node] = {}
    ready = [file.root] if file.root in file.entries and file.entries[file.root].parent is None else []
    while ready:
        id = ready.pop()
        entry = file.entries[id]
        parent = nodes[entry.parent] if entry.parent is not None else None
        draft = replace(entry.draft, second_parent=nodes[entry.merges].oid) if entry.merges is not None else entry.draft
        nodes[id] = node = commit_writer.put(staged, parent, draft)
        if entry.chain and to_base64url(node.chain) != entry.chain:
            _fail(entry.line, "the id is not the chain digest of the content and of the entries before it")
        for child in dict.fromkeys(waiting.get(id, ())):
            needs = {file.entries[child].parent, file.entries[child].merges} - {None}
            if child not in nodes and needs <= nodes.keys():
                ready.append(child)
    lost = min((entry.line for id, entry in file.entries.items() if id not in nodes), default=None)
    if lost is not None:
        _fail(lost, "its parents form a cycle, or do not lead to the root of the session")
    return nodes


def _check(file: _File, nodes: Mapping[str, Node], staged: _Staged, store: ObjectStore) -> None:
    """Check the entries and the session by the rules of a pull. Raises ``Malformed`` or ``Refused``."""
    tombstones = tombstone_set.read(store)
    if file.sid in tombstones.sessions:
        raise Refused(f"cannot import session {file.sid}: it was purged")
    forks = set()
    for id, entry in file.entries.items():
        node, parent = nodes[id], nodes[entry.parent] if entry.parent is not None else None
        try:
            problem = next(entry_check.check(staged, node, parent), None)
            purged = entry_rules.purge_problem(staged, node, tombstones)
            forks.add(history_rules.facts_of(staged, node).fork)
        except GitSessionError as error:
            problem, purged = str(error), None
        if problem or purged:
            _fail(entry.line, problem or purged or "", "" if problem else _PURGED_HINT)
    _check_root(file, nodes[file.root], forks, staged, store)
    _check_copies(file, nodes, staged, store)
    by_oid = {nodes[id].oid: (entry.line, nodes[id]) for id, entry in file.entries.items()}
    for name, id in file.tips.items():
        if id not in nodes or not refs.is_session_ref(refs.leaf(file.sid, name)) or refs.is_files(name):
            _fail(1, f"the branch {name[:60]!r} has an invalid name, or its tip is missing")
        at: Oid | None = nodes[id].oid
        while at is not None:
            line, node = by_oid[at]
            if refs.is_meta(name) and node.starts_session:
                break
            if not entry_check.is_allowed_on(node, refs.META if refs.is_meta(name) else "branch"):
                _fail(line, f"{node.kind[:40]!r} is not allowed on {name!r}")
            at = node.parent


def _check_copies(file: _File, nodes: Mapping[str, Node], staged: _Staged, store: ObjectStore) -> None:
    """Check that no entry is a forged copy of a stored one. Raises ``Malformed``."""
    starts = [node for node in nodes.values() if node.starts_session]
    found: dict[object, Oid] = {}
    for sid in copies.sessions_that_share(staged, starts) | {file.sid}:
        found |= {copy_key(node): node.oid for node in _stored_entries(store, sid)}
    for id, entry in file.entries.items():
        key, oid = copy_key(nodes[id]), nodes[id].oid
        other = found.get(key, oid) if key is not None else oid
        if other != oid:
            hint = f"the chain digest does not include the part that differs: import a file with the original, {other}"
            _fail(entry.line, copy_problem(other), hint)


def _stored_entries(store: ObjectStore, sid: str) -> Iterator[Node]:
    """Yield the entries of a session's branches and of ``meta``."""
    seen: set[Oid] = set()
    for name, tip in store.refs(refs.session(sid)).items():
        for node in graph.history(store, tip) if not refs.is_files(name.rpartition("/")[2]) else ():
            if node.oid in seen:
                break
            seen.add(node.oid)
            yield node


def _check_root(file: _File, root: Node, forks: set[str | None], staged: _Staged, store: ObjectStore) -> None:
    """Check that the session has the root that its id belongs to."""
    entry = content.entry_of(staged, root)
    if isinstance(entry, kinds.SessionHeader) and (entry.view or VIEW) > VIEW:
        raise Refused(f"cannot import session {file.sid}: a later release of gitsession created it", hint=UPGRADE)
    possible = history_rules.facts_of(staged, root).possible_ids
    is_ours = file.sid in forks or possible is None or bool({file.sid, file.sid[:8]} & possible)
    if not refs.is_sid(file.sid) or not is_ours or root.kind not in (kinds.SessionHeader.kind, kinds.Tombstone.kind):
        _fail(1, "the id of the session does not belong to its root")
    for tip in graph.branches(store, file.sid).values():
        *_, existing = graph.history(store, tip)
        if existing.oid != root.oid:
            raise Refused(f"cannot import session {file.sid}: the store has another session with this id")
