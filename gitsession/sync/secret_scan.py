"""The scan of outgoing commits for secrets. It is the last check before a push.

Entries are redacted when they are stored. This scan finds secrets that were stored while redaction was off, or before a
rule for them existed. An exception allows what a rule found in one payload or file to be sent. Exceptions are stored in
the store's configuration.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gitsession import parallel, progress
from gitsession.archive import archive_set
from gitsession.codec.digest import to_base64url
from gitsession.dataclass import dataclass
from gitsession.errors import Corrupt, Malformed, MissingObject
from gitsession.git import config, process
from gitsession.git.objects import parse_commit
from gitsession.git.types import Oid
from gitsession.redaction.guard import Guard, find
from gitsession.sessions import content
from gitsession.sessions.node import Node, parse
from gitsession.sessions.read_ahead import ReadAheadReader
from gitsession.store import histories, refs
from gitsession.store.git_store import GitStore
from gitsession.store.interface import ObjectStore
from gitsession.validation import set_rules
from gitsession.validation.quarantine_reader import Proposed
from gitsession.workspace import names, read_file
from gitsession.workspace.trees import CachedTrees

ALLOWED = "gitsession.allowSecret"
_CHAIN_CHARS = 12
_AT_ONCE = 256
"""Number of entries that are read and scanned together."""

_TIPS_TOGETHER = 3200
"""Number of refs whose new commits are scanned together if there are many: those of about 1,000 sessions."""

_SCANNING = "Scanning for secrets"
_WALKED_MAX = 256
"""Number of new commits up to which they are found without git."""

_UNREADABLE = (Malformed, Corrupt, MissingObject)


@dataclass(frozen=True, slots=True)
class OutgoingSecret:
    """A secret in an outgoing entry. It is described by the rule that found it, without any part of the secret.

    ``path``: the path of the file, if the secret is in a checkpoint file. ``key``: the exception that `gate allow`
    stores to allow the secret.
    """

    ref: str
    session: str
    oid: Oid
    chain: str
    rule: str
    path: str
    key: str

    @property
    def address(self) -> str:
        return f"{self.session}@{self.chain[:_CHAIN_CHARS]}"

    def __str__(self) -> str:
        return f"{self.address}{f', file {self.path!a}' if self.path else ''}: {self.rule}"


class _Secret(NamedTuple):
    """A secret that was found in an entry whose session is not known yet."""

    node: Node
    rule: str
    path: str
    key: str

    def to_outgoing(self, ref: str, session: str) -> OutgoingSecret:
        return OutgoingSecret(
            ref, session, self.node.oid, to_base64url(self.node.chain), self.rule, self.path, self.key
        )


def scan_new(store: GitStore, moves: Iterable[Proposed], known: Iterable[Oid] = ()) -> list[OutgoingSecret]:
    """Return the secrets in new commits, except secrets that may be sent because of an exception.

    ``moves``: the refs to send, with their old values at the receiver. ``known``: other commits that the receiver has.
    Each rule is reported at most once per entry or file. Rules apply even if redaction is off. Unreadable objects are
    skipped, because they cannot be pushed either. Raises ``Refused`` and ``NotFound`` if the user's own rules are
    invalid.
    """
    store.flush()
    moves = [move for move in moves if move.new is not None]
    for _, old, archive in [move for move in moves if move.ref == refs.ARCHIVE]:
        # These sessions are sent with the archive.
        before, after = (oid if oid is not None and store.contains(oid) else None for oid in (old, archive))
        known_part, part = archive_set.in_changed_files(store, before, after)
        moves += set_rules.new_tips(part, known_part)
    olds = {*known, *(move.old for move in moves if move.old)}
    # The receiver has most archived tips already: the sync that sends the archive deletes their refs.
    tips = [move.new for move in moves if move.new and move.new not in olds]
    near = _walk_back(store, tips, olds)
    if near is not None and not near:
        return []
    secrets = _secrets_in_parts(store, tips, olds) if near is None else _secrets(store, list(near), _guard(store))
    if not secrets:
        return []
    new, allowed = _new_commits(store, tips, olds), set(allowances(store))
    found: dict[Oid, list[_Secret]] = {}
    for secret in secrets:
        if secret.node.oid in new and secret.key not in allowed:
            found.setdefault(secret.node.oid, []).append(secret)
    return list(_outgoing(store, moves, new, found))


def _secrets_in_parts(store: GitStore, tips: Sequence[Oid], olds: Collection[Oid]) -> list[_Secret]:
    """Return the secrets in new commits. Some sessions are read together, so that the commits of all take no memory."""
    guard, found = _guard(store), dict[tuple[Oid, str, str], _Secret]()
    for part in progress.groups(_SCANNING, tips, _TIPS_TOGETHER):
        with progress.by(None) if len(tips) > _TIPS_TOGETHER else contextlib.nullcontext():
            secrets = _secrets(store, list(_new_commits(store, part, olds)), guard)
        found |= {(secret.node.oid, secret.rule, secret.path): secret for secret in secrets}
    return list(found.values())


def _guard(store: GitStore) -> Guard:
    return Guard.load(config.redaction(store.git_dir).rules)


def _outgoing(
    store: ObjectStore, moves: Iterable[Proposed], new: Collection[Oid], found: Mapping[Oid, list[_Secret]]
) -> Iterator[OutgoingSecret]:
    """Yield the secrets in ``found``, one history after another, each with the ref that leads to it."""
    seen: set[Oid] = set()
    left = len(found)
    # The secrets in all new commits are reported, whatever the names of the refs and the kinds of the commits that lead
    # to them.
    for ref, tip in [*((move.ref, move.new) for move in moves), *(("", oid) for oid in sorted(found))]:
        todo = [tip]
        while todo and left:
            oid = todo.pop()
            if oid is None or oid not in new or oid in seen:
                continue
            seen.add(oid)
            todo += parse_commit(store.read(oid)[1]).parents[::-1]
            if oid in found:
                left -= 1
                session = refs.session_of(ref) or _session_of(store, oid)
                yield from (secret.to_outgoing(ref, session) for secret in found[oid])


def blocked_refs(store: GitStore, moves: Iterable[Proposed], known: Iterable[Oid] = ()) -> dict[str, OutgoingSecret]:
    """Return the refs whose push would send a secret, each with one such secret. Raises the errors of ``scan_new``."""
    moves, known = list(moves), list(known)
    found = {hit.oid: hit for hit in reversed(scan_new(store, moves, known))}
    blocked: dict[str, OutgoingSecret] = {}
    for move in moves if found else ():
        new = _new_commits(store, [move.new], [*known, *([move.old] if move.old else [])]) if move.new else set()
        hit = next((hit for oid, hit in found.items() if oid in new), None)
        if hit is not None:
            blocked[move.ref] = hit
    olds = {move.ref: move.old for move in moves}
    for move in moves if blocked else ():
        session, name = refs.parse(move.ref) or ("", "")
        main = refs.leaf(session)
        if main in blocked and olds[main] is None and not refs.is_branch(name):
            blocked.setdefault(move.ref, blocked[main])  # the titles and labels of a session that the remote lacks
    return blocked


def allowances(store: GitStore) -> list[str]:
    """Return the exceptions, in the formats ``<digest of the entry>:<rule>`` and ``file:<oid>:<rule>``."""
    output = process.run(store.git_dir, "config", "--local", "--null", "--get-all", ALLOWED, accept=(0, 1)).out
    return [value for value in output.decode("utf-8", "surrogateescape").split("\0") if value]


def allow(store: GitStore, found: Iterable[OutgoingSecret]) -> int:
    """Add exceptions; return the number of new ones."""
    known = set(allowances(store))
    keys = sorted({hit.key for hit in found} - known)
    for key in keys:
        process.run(store.git_dir, "config", "--local", "--add", ALLOWED, key)
    return len(keys)


def forget(store: GitStore, keys: Iterable[str]) -> int:
    """Remove exceptions; return the number of exceptions that existed."""
    removed = sorted({*keys} & {*allowances(store)})
    for key in removed:
        process.run(store.git_dir, "config", "--local", "--fixed-value", "--unset-all", ALLOWED, key)
    return len(removed)


def of_entry(store: GitStore, node: Node) -> list[str]:
    """Return the exceptions for the payload of an entry and for its files with secrets."""
    parts = content.entry_tree(store, node)
    found = at(store, "", node)
    subjects = {parts.digest.hex(), *(hit.key.rpartition(":")[0] for hit in found)}
    return [key for key in allowances(store) if key.rpartition(":")[0] in subjects]


def at(store: GitStore, session: str, node: Node, rule: str = "") -> list[OutgoingSecret]:
    """Return the secrets in one entry, including allowed ones.

    ``rule``: return only the secrets that this rule found; "" for all rules.
    """
    found = _scan_entries(store, [node], _guard(store), {})
    return [secret.to_outgoing(refs.leaf(session), session) for secret in found if rule in ("", secret.rule)]


def _walk_back(store: ObjectStore, tips: Iterable[Oid], olds: Collection[Oid]) -> dict[Oid, None] | None:
    """Return the commits from ``tips`` back to the nearest commits in ``olds``; ``None`` if there are many.

    The result contains every new commit (see ``_new_commits``), and also those that only another commit in ``olds``
    leads to. A push of a few entries needs no more than this: git would first read every ref in ``olds``.
    """
    found: dict[Oid, None] = {}
    todo = list(tips)
    while todo:
        oid = todo.pop()
        if oid in olds or oid in found:
            continue
        found[oid] = None
        if len(found) > _WALKED_MAX:
            return None
        try:
            todo += histories.commit_of(store.read, oid).parents
        except _UNREADABLE:
            return None
    return found


def _new_commits(store: GitStore, tips: Iterable[Oid], olds: Iterable[Oid]) -> dict[Oid, None]:
    """Return the commits reachable from ``tips`` but not from ``olds``, one history after another.

    So objects are read in the order in which they are in packs. Commits that the store does not have are ignored.
    """
    revisions = "".join([*(f"{tip}\n" for tip in tips), *(f"^{oid}\n" for oid in dict.fromkeys(olds))])
    return dict.fromkeys(
        process.run(store.git_dir, "rev-list", "--topo-order", "--ignore-missing", "--stdin", stdin=revisions.encode())
        .out.decode()
        .split()
    )


def _secrets(store: ObjectStore, oids: Sequence[Oid], guard: Guard) -> list[_Secret]:
    """Return the secrets in entries. Several processes read and scan them in batches, and skip unreadable entries."""

    def scan(oids: Sequence[Oid]) -> list[_Secret]:
        files: dict[Oid, tuple[str, ...]] = {}
        rows = [oids[at : at + _AT_ONCE] for at in range(0, len(oids), _AT_ONCE)]
        found = (_scan_entries(store, _nodes(store, row), guard, files) for row in progress.each(_SCANNING, rows))
        return list(itertools.chain.from_iterable(found))

    return [secret for part in parallel.share(oids, scan) for secret in part]


def _nodes(store: ObjectStore, row: Sequence[Oid]) -> list[Node]:
    """Return the entries among the commits ``row``."""
    loaded = {oid: (kind, data) for oid, kind, data in store.read_all(row)}
    found = []
    for oid in row:
        with contextlib.suppress(*_UNREADABLE):
            kind, data = loaded.get(oid) or store.read(oid)
            found += [parse(oid, data)] if kind == "commit" else []
    return found


def _scan_entries(
    store: ObjectStore, nodes: Iterable[Node], guard: Guard, files: dict[Oid, tuple[str, ...]]
) -> Iterator[_Secret]:
    """Yield the secrets in the entries. ``files``: a cache of the rules that found a secret, by scanned file."""
    nodes = list(nodes)
    read = ReadAheadReader(store)
    read.load(nodes)
    entries: list[tuple[Node, content.EntryTree, bytes]] = []
    for node in nodes:
        with contextlib.suppress(*_UNREADABLE):
            parts = content.entry_tree(read, node)
            entries.append((node, parts, content.full_payload(read, node, parts)))
    for number in sorted(guard.suspects([(parts.form, data) for _, parts, data in entries])):
        node, parts, data = entries[number]
        for rule in sorted({rule for *_, rule in guard.redact(parts.form, data).rows}):
            yield _Secret(node, rule, "", f"{parts.digest.hex()}:{rule}")
    for node, parts, _ in entries:
        if parts.files is not None:
            with contextlib.suppress(*_UNREADABLE):
                yield from _scan_files(store, node, parts, parts.files, guard, files)


def _scan_files(
    store: ObjectStore,
    node: Node,
    parts: content.EntryTree,
    tree: Oid,
    guard: Guard,
    files: dict[Oid, tuple[str, ...]],
) -> Iterator[_Secret]:
    before = content.files_of(store, node.parent) if node.parent else None
    for path, (old, new) in CachedTrees(store).diff(before, tree).items():
        path, name_rule = _display_path(path, guard)
        if name_rule and old is None and new is not None:
            yield _Secret(node, name_rule, path, f"{parts.digest.hex()}:{name_rule}")
        if new is None or not store.contains(new.oid):
            continue
        if new.oid not in files:
            data = store.read(new.oid)[1]
            is_clean = guard.in_file(data) is None
            files[new.oid] = () if is_clean else tuple(sorted({hit.rule for hit in find(data, guard.scanner)}))
        for rule in files[new.oid]:
            yield _Secret(node, rule, path, f"file:{new.oid}:{rule}")


def _display_path(path: str, guard: Guard) -> tuple[str, str]:
    """Return a path for display, and the rule that found a secret in the path, or "" (see ``read_file.display_path``).

    The path may be invalid.
    """
    try:
        raw = names.unescape_path(path)
    except Malformed:
        raw = path.encode("utf-8", "surrogateescape")
    return read_file.display_path(raw, guard.in_file)


def _session_of(store: ObjectStore, oid: Oid) -> str:
    """Return the id of a session whose history contains the commit ``oid``; "" if there is none."""
    for name, end in store.refs(refs.SESSIONS).items():
        if refs.target(end) is None and histories.holds(store.read, end, oid):
            return refs.session_of(name)
    return ""
