"""The ref that says what was purged: a set that only grows, written as every store writes it, and nothing else."""

from __future__ import annotations

from gitsession.errors import GitSessionError, Malformed
from gitsession.git.objects import encode_commit, oid_of, parse_commit, parse_tree
from gitsession.git.types import Oid
from gitsession.sessions import tombstone_set
from gitsession.sessions.tombstone_set import Tombstones
from gitsession.store import refs
from gitsession.validation.reader import COMMIT_BYTES_MAX, GitReader
from gitsession.validation.verdicts import MEBIBYTE, Deadline, Fault, Limits, Proposed, ValidationTimeout

COMMITS_MAX = 10_000
TREE_BYTES_MAX = 64 * MEBIBYTE


def judge(
    read: GitReader, move: Proposed, known: Tombstones, limits: Limits, until: Deadline
) -> tuple[Fault | None, Tombstones]:
    """What is wrong with a new value of the ref; and what is purged from then on."""
    if move.new is None:
        return Fault("delete", "what was purged stays purged"), known
    try:
        if move.old is not None and not read.leads_to(move.new, move.old):
            return Fault("rewind", "it does not go on from what was purged before: fetch, and `gitsession sync`"), known
        here = [oid for name, oid in read.known.items() if name == refs.TOMBSTONES]
        new = read.new([move.new], here, COMMITS_MAX)
        if new is None:
            return Fault("limit", f"more than {COMMITS_MAX:,} steps at once"), known
        after = _said(read, move.new, limits)
        for oid in new:
            until.check()
            if not _said(read, oid, limits) <= after:
                return Fault("tombstones", f"the set shrinks after {oid[:10]}"), known
        if move.old is not None and not tombstone_set.at(read, move.old) <= after:
            return Fault("tombstones", "the set shrinks: what was purged stays purged"), known
    except ValidationTimeout as error:
        return Fault("limit", str(error)), known
    except GitSessionError as error:
        return Fault("tombstones", str(error)), known
    return None, known | after


def _said(read: GitReader, oid: Oid, limits: Limits) -> Tombstones:
    """What a commit says. Raises ``Malformed`` where it is too large, or is not written as we write it."""
    _check_size(read, oid, COMMIT_BYTES_MAX)
    data = read.read(oid)[1]
    commit = parse_commit(data)
    _check_sizes(read, commit.tree, limits)
    said = tombstone_set.at(read, oid)
    expected = encode_commit(
        tree=tombstone_set.tree_of(said)[0],
        parents=commit.parents,
        author_name="gitsession",
        author_seconds=commit.author_seconds,
        committer_seconds=commit.author_seconds,
        message=f"{len(said)} purged\n".encode(),
    )
    if oid_of("commit", expected) != oid:
        raise Malformed("not written as a set of what was purged is", where=oid)
    return said


def _check_sizes(read: GitReader, tree: Oid, limits: Limits) -> None:
    _check_size(read, tree, COMMIT_BYTES_MAX)
    room = limits.whole_bytes
    for _, name, folder in parse_tree(read.read(tree)[1]):
        _check_size(read, folder, TREE_BYTES_MAX)
        rows = parse_tree(read.read(folder)[1])
        for head in read.heads(list({oid for *_, oid in rows})):
            room -= 0 if head is None else head.size
            if room < 0:
                raise Malformed(f"more than {limits.whole_bytes:,} bytes of records", where=name[:80])


def _check_size(read: GitReader, oid: Oid, most: int) -> None:
    head = read.head(oid)
    if head is None or head.size > most:
        raise Malformed("was not sent" if head is None else f"{head.size:,} bytes; the limit is {most:,}", where=oid)
