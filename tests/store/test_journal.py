"""Tests of the journal alone: records survive, torn ends are cut, damage is reported, and numbers are never reused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gitsession.codec import cbor
from gitsession.errors import Corrupt, NotAStore
from gitsession.store import journal_frames
from gitsession.store.journal import Journal, decode_record, encode_record

REF = "refs/heads/sessions/s1/main"
OID = "a" * 40


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "journal").mkdir()
    return tmp_path / "journal"


@pytest.fixture
def journal(directory):
    opened = Journal(directory)
    yield opened
    opened.close()


def payload(text: str) -> bytes:
    return encode_record([("blob", text.encode())], [(REF, None, OID)])


def write(journal: Journal, *texts: str) -> None:
    journal.tail(locked=True)
    for text in texts:
        journal.append(payload(text), sync=True)


def texts(news) -> list[str]:
    return [data.decode() for _, record in news.records for _, data in record.objects]


def read_all(directory: Path, *, locked: bool = True) -> list[str]:
    other = Journal(directory)
    try:
        return texts(other.tail(locked=locked))
    finally:
        other.close()


def test_record_is_read_as_written():
    objects = [("commit", b"c"), ("tree", b""), ("blob", bytes(range(256)))]
    moves = [(REF, None, OID), (REF, OID, None), ("refs/gitsession/active/s1", None, f"ref: {REF}")]
    record = decode_record(encode_record(objects, moves))
    assert (record.objects, record.moves) == (objects, moves)


BAD_RECORDS = {
    "no CBOR": b"\xff",
    "not a list": cbor.encode({"v": 1}),
    "too short": cbor.encode([1, []]),
    "an object of type 4": cbor.encode([1, [[4, b""]], []]),
    "an object of text": cbor.encode([1, [[3, "x"]], []]),
    "a move of two": cbor.encode([1, [], [[REF, None]]]),
    "a move to a number": cbor.encode([1, [], [[REF, None, 7]]]),
    "a move out of the store": cbor.encode([1, [], [["refs/heads/../../../x", None, OID]]]),
    "a move to what no ref can hold": cbor.encode([1, [], [[REF, None, "rm -rf"]]]),
}


@pytest.mark.parametrize("data", BAD_RECORDS.values(), ids=BAD_RECORDS)
def test_record_of_an_unknown_form_is_corrupt(data):
    with pytest.raises(Corrupt):
        decode_record(data)


def test_record_of_a_later_version_is_rejected_by_version():
    with pytest.raises(NotAStore, match="version 2"):
        decode_record(cbor.encode([2, "anything"]))


def test_record_of_a_later_version_is_rejected_at_every_read(directory, journal):
    write(journal, "known")
    journal.append(cbor.encode([2, "anything"]), sync=True)
    other = Journal(directory)
    for _ in range(2):
        with pytest.raises(NotAStore):
            other.tail(locked=True)
    other.close()


def test_appended_records_are_read_by_another_process(directory, journal):
    write(journal, "one", "two")
    assert read_all(directory) == read_all(directory, locked=False) == ["one", "two"]
    assert texts(journal.tail(locked=True)) == []


def test_two_writers_follow_each_other(directory, journal):
    other = Journal(directory)
    write(journal, "one")
    write(other, "two")
    assert texts(journal.tail(locked=True)) == ["two"]
    write(journal, "three")
    assert texts(other.tail(locked=True)) == ["three"]
    assert read_all(directory) == ["one", "two", "three"]
    other.close()


def test_reading_wants_no_more_than_the_journal(directory, journal):
    write(journal, "one")
    script = (
        "import sys; from pathlib import Path; from gitsession.store.journal import Journal\n"
        "news = Journal(Path(sys.argv[1]), writable=False).tail(locked=False)\n"
        "assert [r.objects for _, r in news.records] == [[('blob', b'one')]]\n"
        "assert not {'gitsession.git.repository', 'subprocess'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script, directory], check=True, env={"PYTHONPATH": os.pathsep.join(sys.path)})


@pytest.mark.parametrize("cut", [1, 3, 4, 7, 8, 39, 40, 41, 60])
def test_a_torn_record_is_the_end_and_is_written_over(directory, journal, cut):
    write(journal, "kept", "torn")
    start = end_of(directory, records=1)
    with open(directory / "00000001", "r+b") as file:
        file.seek(start + cut)
        file.write(bytes(200))
    assert read_all(directory) == ["kept"]
    other = Journal(directory)
    write(other, "next")
    other.close()
    assert read_all(directory) == ["kept", "next"]


def end_of(directory: Path, *, records: int) -> int:
    """Return the offset at which the given number of records of the first file ends."""
    with open(directory / "00000001", "rb") as file:
        offset = journal_frames.HEAD_BYTES
        for _ in range(records):
            length = journal_frames.length_at(file.fileno(), offset, 1 << 30)
            assert length is not None
            offset += journal_frames.HEAD_BYTES + length
        return offset


def test_a_record_inside_a_payload_cannot_pass_for_the_next_one(directory, journal):
    write(journal, "one")
    raw = (directory / "00000001").read_bytes()
    embedded = raw[journal_frames.HEAD_BYTES : end_of(directory, records=1)]
    journal.append(encode_record([("blob", embedded * 3)], []), sync=True)
    start = end_of(directory, records=1)
    at = raw_index(directory, embedded, start)
    with open(directory / "00000001", "r+b") as file:
        file.seek(start)
        file.write(embedded)
        file.write(bytes(at - start - len(embedded)) if at - start > len(embedded) else b"")
    assert read_all(directory) == ["one"]


def raw_index(directory: Path, needle: bytes, start: int) -> int:
    return (directory / "00000001").read_bytes().index(needle, start)


def test_a_record_of_an_earlier_file_does_not_verify_in_a_later_one(directory, journal):
    write(journal, "one")
    record = (directory / "00000001").read_bytes()[journal_frames.HEAD_BYTES : end_of(directory, records=1)]
    journal.start_next()
    with open(directory / "00000002", "r+b") as file:
        file.seek(journal_frames.HEAD_BYTES)
        file.write(record)
    assert read_all(directory) == ["one"]


@pytest.mark.parametrize("flip", range(0, 80, 7))
def test_damage_before_the_end_is_not_a_torn_end_and_never_overwritten(directory, journal, flip):
    write(journal, "one", "two", "three")
    start = end_of(directory, records=1)
    at = start + (flip if not 4 <= flip < 8 else 8)  # a damaged length hides the start of the next record
    raw = bytearray((directory / "00000001").read_bytes())
    raw[at] ^= 1
    (directory / "00000001").write_bytes(raw)
    other = Journal(directory)
    assert texts(other.tail(locked=True)) == ["one"]
    if at >= start + 4:
        assert other.damage() == ["journal/00000001"]
        other.append(payload("later"), sync=True)
        assert (directory / "00000001").read_bytes() == raw
        other.drop([1])
        [aside] = directory.glob("damaged-*")
        assert aside.read_bytes() == raw
    other.close()


def test_file_with_a_damaged_header_is_reported_and_skipped(directory, journal):
    write(journal, "one")
    with open(directory / "00000001", "r+b") as file:
        file.write(b"XXXX")
    other = Journal(directory)
    assert texts(other.tail(locked=True)) == []
    assert other.damage() == ["journal/00000001"]
    write(other, "two")
    assert read_all(directory) == ["two"]
    other.close()


@pytest.mark.parametrize("call", ["pwrite", "fdatasync"])
def test_failed_append_is_revoked_and_its_file_never_written_again(directory, journal, monkeypatch, call):
    write(journal, "one")
    reader = Journal(directory, writable=False)
    assert texts(reader.tail(locked=False)) == ["one"]
    real, calls = getattr(os, call), []

    def fails_once(*arguments):
        calls.append(arguments)
        if call == "fdatasync" and len(calls) == 1:
            assert texts(reader.tail(locked=False)) == ["lost"]  # another process read it before the fsync failed
        if len(calls) == 1:
            raise OSError(5, "Input/output error")
        return real(*arguments)

    monkeypatch.setattr(os, call, fails_once)
    with pytest.raises(OSError, match="Input/output"):
        journal.append(payload("lost"), sync=True)
    monkeypatch.undo()
    write(journal, "two")
    assert journal.numbers() == [1, 2]
    assert read_all(directory) == ["one", "two"]
    reader.tail(locked=False)
    assert texts(reader.tail(locked=False)) == []
    assert read_all(directory, locked=False) == ["one", "two"]
    reader.close()


def test_reader_of_a_revoked_record_appends_at_the_right_offset(directory, journal):
    write(journal, "one", "taken back")
    other = Journal(directory)
    assert texts(other.tail(locked=False)) == ["one", "taken back"]
    start = end_of(directory, records=1)
    with open(directory / "00000001", "r+b") as file:
        file.seek(start)
        file.write(bytes(4))
    news = other.tail(locked=True)
    assert (news.removed, texts(news)) == ([1], ["one"])
    other.append(payload("two"), sync=True)
    other.close()
    assert read_all(directory) == ["one", "two"]


def test_numbers_are_never_reused_and_a_missing_file_is_noticed(directory, journal):
    write(journal, "one")
    reader = Journal(directory, writable=False)
    assert texts(reader.tail(locked=False)) == ["one"]
    journal.start_next()
    journal.drop([1])
    write(journal, "two")
    news = reader.tail(locked=False)
    assert (news.removed, texts(news)) == ([1], ["two"])
    assert os.listdir(directory) == ["00000002"]
    reader.close()


@pytest.mark.promise("P15")
def test_kill_while_dropping_files_keeps_the_end_of_every_chain(directory, journal, monkeypatch, faults):
    for text in ("one", "two", "three"):
        write(journal, text)
        journal.start_next()
    real = os.unlink

    def once(path: str) -> None:
        real(path)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "unlink", once)
        journal.drop([1, 2, 3])
    with faults.one():
        assert read_all(directory) == ["two", "three"]


def test_records_of_a_killed_flush_are_flushed_again(directory, journal):
    write(journal, "one")
    (directory / "tmp-2").write_bytes(b"half")
    journal.start_next()
    write(journal, "two")
    assert read_all(directory) == ["one", "two"]


def test_failed_new_file_leaves_nothing(directory, journal, monkeypatch):
    write(journal, "one")
    monkeypatch.setattr(os, "fsync", lambda fd: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        journal.start_next()
    monkeypatch.undo()
    assert os.listdir(directory) == ["00000001"]
    write(journal, "two")
    assert read_all(directory) == ["one", "two"]


def test_a_store_without_a_journal_has_nothing_pending(tmp_path):
    journal = Journal(tmp_path / "none", writable=False)
    assert journal.tail(locked=False).records == []
