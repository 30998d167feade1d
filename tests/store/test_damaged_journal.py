"""Tests of a damaged journal: only the damaged records are lost, errors report them, and all others can be read."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import begun, session
from damage import Watch, replace_file, zeroed
from promises import Faults

from gitsession.cli import exits
from gitsession.cli.app import run
from gitsession.codec.digest import hash_of
from gitsession.git.objects import oid_of
from gitsession.model.entries import Message
from gitsession.sessions import graph
from gitsession.store import journal_frames, refs
from gitsession.store.create import JOURNAL, create
from gitsession.store.git_store import GitStore
from gitsession.store.journal import Journal, encode_record, scan
from gitsession.store.journal_scan import SoundRecord

MESSAGES = 30
FILE = "gitsession/journal/00000001"

Hit = Callable[[list[int]], tuple[int, int]]
"""Function from the offsets of a file's records, and its end, to the offset and length of the zeroed bytes."""

HEAD = journal_frames.HEAD_BYTES
NOTHING_LOST: dict[str, Hit] = {
    "the magic of a record": lambda at: (at[9], 4),
    "the length of a record": lambda at: (at[9] + 4, 4),
    "the digest of a record": lambda at: (at[9] + 8, 32),
    "the head of a record": lambda at: (at[9], HEAD),
    "the head of the last but one": lambda at: (at[-3], HEAD),
    "the magic of the file": lambda at: (0, 4),
    "the salt of the file": lambda at: (8, 32),
    "all of the file's header": lambda at: (0, HEAD),
}
ONE_LOST: dict[str, Hit] = {
    "the payload of a record": lambda at: (at[9] + HEAD, 60),
    "the head and the payload of a record": lambda at: (at[9], at[10] - at[9]),
    "the head and the beginning of the payload": lambda at: (at[9], HEAD + 30),
    "the payload of the last but one": lambda at: (at[-3] + HEAD, 60),
    "all of the last but one": lambda at: (at[-3], at[-2] - at[-3]),
}
TWO_LOST: dict[str, Hit] = {
    "two records": lambda at: (at[9], at[11] - at[9]),
    "the end of a payload, and the next record's head and beginning": lambda at: (at[10] - 80, 80 + HEAD + 60),
}


class Case:
    """A store with one session that is only in the journal, and a copy of the store from before the damage."""

    def __init__(self, place: Path) -> None:
        self.path, self.copy = place / "store.git", place / "copy.git"
        create(self.path)
        with GitStore.open(self.path, flush_on_close=False) as store:
            self.sid = begun(store, *(f"message {number}" for number in range(MESSAGES))).id
            self.ref = refs.leaf(self.sid)
            self.line = [node.oid for node in graph.history(store, store.ref(self.ref) or "")]
        shutil.copytree(self.path, self.copy)
        self.at = [it.start for it in scan((self.path / FILE).read_bytes()).found]
        self.at.append(len((self.path / FILE).read_bytes().rstrip(b"\0")))

    def hit(self, where: Hit) -> bytes:
        """Overwrite a range of the journal with zeros and return the contents of the file."""
        start, count = where(self.at)
        data = zeroed((self.path / FILE).read_bytes(), start, count)
        replace_file(self.path / FILE, data)
        return data

    def run(self, *words: str) -> int:
        return run(["--store", str(self.path), *words])

    def entries_left(self) -> set[str]:
        with GitStore.open(self.path, flush_on_close=False) as store:
            return set(graph.tree(store, self.sid).nodes)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


@pytest.mark.promise("P24")
@pytest.mark.parametrize("where", NOTHING_LOST.values(), ids=NOTHING_LOST)
def test_damage_that_digests_make_good_costs_nothing(case: Case, where: Hit, faults: Faults) -> None:
    with faults.one():
        case.hit(where)
        assert case.run("verify") == exits.INTEGRITY
        assert case.run("repair", "--dry-run") == exits.OK
        assert case.run("repair") == exits.OK
        assert case.run("verify") == exits.OK
        assert case.entries_left() == set(case.line)
        assert not list((case.path / JOURNAL).glob("damaged-*"))


@pytest.mark.promise("P24")
@pytest.mark.parametrize(
    ("where", "count"),
    [*((where, 1) for where in ONE_LOST.values()), *((where, 2) for where in TWO_LOST.values())],
    ids=[*ONE_LOST, *TWO_LOST],
)
def test_lost_records_are_named_until_a_copy_restores_them(
    case: Case, where: Hit, count: int, faults: Faults, capsys: pytest.CaptureFixture[str]
) -> None:
    with faults.one():
        case.hit(where)
        assert case.run("repair", "--dry-run") == exits.INTEGRITY
        for _ in range(2):
            capsys.readouterr()
            assert case.run("repair") == exits.INTEGRITY
            told = capsys.readouterr().out
            assert "journal record is lost" in told and f"an entry of session {case.sid}" in told
            assert "everything is repaired" not in told
            assert case.run("verify") == exits.INTEGRITY
            assert len(set(case.line) - case.entries_left()) == count
            assert case.run("log", case.sid) == exits.INTEGRITY
        assert case.run("repair", "--from", str(case.copy)) == exits.OK
        assert case.run("verify") == exits.OK
        assert case.entries_left() == set(case.line)


def test_copy_without_a_journal_repairs_one_lost_record(case: Case) -> None:
    case.hit(ONE_LOST["the payload of a record"])
    with GitStore.open(case.copy) as copy:
        copy.flush()
    assert case.run("repair", "--from", str(case.copy)) == exits.OK
    assert case.run("verify") == exits.OK
    assert case.entries_left() == set(case.line)


@pytest.mark.parametrize("where", ONE_LOST.values(), ids=ONE_LOST)
def test_records_after_the_damage_are_not_overwritten(case: Case, where: Hit) -> None:
    data = case.hit(where)
    with GitStore.open(case.path, flush_on_close=False) as store:
        begun(store, "later")
    assert (case.path / FILE).read_bytes() == data
    with GitStore.open(case.path) as store:
        store.flush()
        assert len(store.set_aside) == 1
        assert (case.path / JOURNAL / store.set_aside[0]).read_bytes() == data


def test_branch_continued_after_the_damage_is_kept_and_the_rest_is_restored_beside_it(case: Case) -> None:
    case.hit(ONE_LOST["the payload of a record"])
    with GitStore.open(case.path) as store:
        session(store, case.sid).append(Message.user("went on"))
        went_on = store.ref(case.ref)
    for _ in range(2):
        assert case.run("repair") == exits.INTEGRITY
        with GitStore.open(case.path) as store:
            assert store.ref(case.ref) == went_on
            assert list(store.refs(f"{case.ref}.").values()) == case.line[:1]
    assert case.run("repair", "--from", str(case.copy)) == exits.OK
    assert case.run("verify") == exits.OK


def test_commands_report_a_damaged_journal(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    case.hit(NOTHING_LOST["the head of a record"])
    expected = {("ls",): exits.OK, ("log", case.sid): exits.INTEGRITY, (): exits.OK, ("doctor",): exits.INTEGRITY}
    set_aside = 0
    for words, code in [*expected.items(), (("maintain",), exits.OK), *expected.items()]:
        capsys.readouterr()
        assert case.run(*words) == code
        told = capsys.readouterr().err
        assert told.count("the journal is damaged") == (words != ("maintain",))
        set_aside += told.count("was renamed to damaged-00000001")
    assert set_aside == 1


def test_a_torn_end_is_no_damage(case: Case) -> None:
    for start in (case.at[-2], case.at[-2] + HEAD + 20):
        case.hit(lambda at, start=start: (start, at[-1] - start))
        with GitStore.open(case.path, flush_on_close=False) as store:
            assert store.damage() == []
    assert case.run("verify") == exits.OK


def forged(count: int) -> bytes:
    """Return valid records that link to each other and move a ref."""
    digest, found = bytes(32), b""
    for number in range(count):
        data = b"hostile %d" % number
        payload = encode_record([("blob", data)], [(f"{refs.SESSIONS}x/main", None, oid_of("blob", data))])
        digest = hash_of(digest + len(payload).to_bytes(4, "big") + payload)
        found += journal_frames.head(len(payload), digest) + payload
    return found


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("last", [False, True], ids=["in the middle", "at the end"])
def test_records_inside_of_a_payload_are_not_read_as_records(tmp_path: Path, count: int, last: bool) -> None:
    journal = Journal(tmp_path)
    journal.tail(locked=True)
    hostile = forged(count)
    ours = [encode_record([("blob", b"one")], [("refs/heads/a", None, oid_of("blob", b"one"))])]
    ours += [encode_record([("blob", hostile), ("tree", b"")], [("refs/heads/a", None, oid_of("blob", hostile))])]
    ours += [] if last else ours[:1] * 3
    for payload in ours:
        journal.append(payload, sync=True)
    journal.close()
    data = (tmp_path / "00000001").read_bytes()
    start = HEAD + HEAD + len(ours[0])
    found = scan(zeroed(data, start, HEAD + 12)).found
    payloads = [it.payload for it in found if isinstance(it, SoundRecord)]
    assert payloads == [payload for payload in ours if payload != ours[1]]


def test_payload_full_of_record_heads_is_read_in_bounded_time(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.tail(locked=True)
    for data in (journal_frames.head(300_000, bytes(32)) * 25_000, b"last"):
        journal.append(encode_record([("blob", data)], [("refs/heads/a", None, oid_of("blob", data))]), sync=True)
    journal.close()
    with Watch():
        scan(zeroed((tmp_path / "00000001").read_bytes(), HEAD, HEAD + 12))
