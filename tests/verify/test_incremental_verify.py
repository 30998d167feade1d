"""Tests of partial verification: each run continues after the previous one, and together they check everything."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import Clock, begun, bring, fork, pi_file, talk
from damage import KEPT, replace_file
from promises import Faults
from written import Written

from gitsession.api import Store
from gitsession.cli import exits
from gitsession.cli.app import run
from gitsession.errors import GitSessionError
from gitsession.git import process
from gitsession.model.blocks import ToolCall
from gitsession.model.entries import Message
from gitsession.sessions.graph import history
from gitsession.store import refs
from gitsession.store.git_store import GitStore
from gitsession.verify import lost_refs, store_check
from gitsession.verify.entry_walk import Walk
from gitsession.verify.findings import Report


@pytest.fixture
def store(tmp_path: Path) -> Iterator[GitStore]:
    with Store.create(tmp_path / "store.git", clock=Clock()) as made:
        for number in range(5):
            bring(made.objects, pi_file(*talk(*"abcdef"[: number + 1]), id=f"s{number}"))
        fork(begun(made.objects, "one", "two")).rename("T")
        made.flush()
        yield made.objects


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the entries that are checked, in order."""
    found: list[str] = []
    check = Walk.check

    def spy(walk: Walk, oid: str) -> None:
        found.append(oid)
        check(walk, oid)

    monkeypatch.setattr(Walk, "check", spy)
    return found


def part(store: GitStore, sample: int | None = None, **how: object) -> Report:
    said = {"max_seconds": None, "now_ms": 1000, **how}
    report = store_check.continue_round(store, seen={}, sample=sample, **said)  # type: ignore[arg-type]
    assert report.problems == []
    return report


def ended(report: Report) -> bool:
    assert report.covered is not None
    return report.covered.ended


def to_the_end(store: GitStore, sample: int) -> list[Report]:
    reports = [part(store, sample)]
    while not ended(reports[-1]):
        reports.append(part(store, sample))
        assert len(reports) < 200
    return reports


@pytest.mark.parametrize("sample", [1, 2, 3, 7, 1000])
def test_parts_hold_other_entries_until_every_one_came(store: GitStore, checked: list[str], sample: int) -> None:
    reports = to_the_end(store, sample)
    assert all(report.checked <= sample for report in reports)
    found = sorted(checked)
    checked.clear()
    assert part(store).whole
    assert sorted(checked) == found
    leaves = store.refs(refs.SESSIONS).values()
    assert set(checked) == {node.oid for leaf in leaves for node in history(store, leaf)}


def test_progress_of_a_round_is_reported(store: GitStore) -> None:
    first = part(store, 4, now_ms=1000).covered
    assert first is not None
    assert (first.since_ms, first.entries, first.of, first.ended, first.before_ms) == (1000, 4, 7, False, None)
    told = [report.covered for report in to_the_end(store, 4)]
    assert [each.sessions for each in told if each] == sorted(each.sessions for each in told if each)
    last = told[-1]
    assert last is not None
    assert (last.sessions, last.since_ms, last.ended) == (7, 1000, True)
    again = part(store, 4, now_ms=9000).covered
    assert again is not None
    assert (again.since_ms, again.before_ms, again.entries) == (9000, 1000, 4)


def test_next_part_continues_where_the_time_ran_out(tmp_path: Path, checked: list[str]) -> None:
    with Store.create(tmp_path / "store.git") as store:
        begun(store.objects, *(f"words {number}" for number in range(200)))
        store.flush()
        clock = Clock()
        reports = [part(store.objects, max_seconds=1.0, clock=clock)]
        while not ended(reports[-1]):
            reports.append(part(store.objects, max_seconds=1.0, clock=clock))
            assert len(reports) < 50
    assert len(reports) > 3
    assert {report.whole for report in reports} == {False}
    assert max(report.checked for report in reports) == store_check.ENTRIES_AT_ONCE
    assert len(checked) == len(set(checked)) == 203 - 1


def test_created_and_deleted_sessions_do_not_stop_a_round(store: GitStore) -> None:
    part(store, 2)
    place = store_check.read(store.git_dir)
    assert place.entry
    with store.transaction() as tx:
        for name, value in store.refs(refs.session(place.session)).items():
            tx.move(name, None, expected=value)
    bring(store, pi_file(*talk("x"), id="new"))
    assert ended(to_the_end(store, 3)[-1])


BROKEN = {
    "nothing": b"",
    "no JSON": b"{",
    "a list": b"[]",
    "another version": b'{"version": 2}',
    "numbers for names": b'{"version": 1, "since_ms": 1, "session": 1}',
    "a text for a time": b'{"version": 1, "since_ms": "x"}',
    "a field that is none": b'{"version": 1, "colour": "red"}',
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_unreadable_position_starts_a_new_round(store: GitStore, data: bytes) -> None:
    part(store, 3)
    (store.git_dir / store_check.FILE).write_bytes(data)
    report = part(store, 3, now_ms=5000)
    assert report.covered is not None
    assert (report.covered.since_ms, report.covered.entries) == (5000, 3)


def test_store_that_cannot_be_written_is_checked_from_the_start_each_time(store: GitStore) -> None:
    store.flush()
    with GitStore.open(store.git_dir, read_only=True) as held:
        assert [part(held, 3).covered, part(held, 3).covered][0] == part(held, 3).covered
    assert not (store.git_dir / store_check.FILE).exists()


# ---- damage


@pytest.mark.promise("P23")
@pytest.mark.parametrize("pattern", KEPT.values(), ids=KEPT)
def test_a_bit_flipped_anywhere_is_found_within_a_round(
    written: Written, tmp_path: Path, faults: Faults, pattern: str
) -> None:
    path = tmp_path / "store.git"
    shutil.copytree(written.path, path)
    here = written.at(path)
    with Store.open(path, flush_on_close=False) as store:
        assert store.verify().problems == []
    chance = random.Random(pattern)
    count = len([file for file in path.glob(pattern) if file.is_file()])
    for number in range(8):
        file = here.one(pattern, number % count)
        data = file.read_bytes()
        at = chance.randrange(len(data))
        if pattern == "packed-refs" and data.rfind(b"\n", 0, at) == -1:
            continue  # the comment in the first line
        with faults.one():
            replace_file(file, data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :])
            hurt = bool(process.fsck(path)) or here.read_all() > 0
            assert in_a_round(path) or not hurt, (file, at)
        replace_file(file, data)
        (path / store_check.FILE).unlink(missing_ok=True)


def in_a_round(path: Path) -> list[str]:
    """Verify in parts of a few entries until everything is checked, and return the findings."""
    told: list[str] = []
    for _ in range(300):
        try:
            with Store.open(path, flush_on_close=False, damaged=True) as store:
                report = store.verify(sample=20)
        except GitSessionError as error:
            return [*told, str(error)]
        told += [found.what for found in report.problems]
        if told or (report.covered and report.covered.ended):
            return told
    raise AssertionError("the round does not end")


# ---- the command


def test_command_reports_its_progress(
    store: GitStore, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITSESSION_DIR", str(store.git_dir))
    assert run(["verify", "--sample", "4"]) == exits.OK
    out = capfd.readouterr().out
    assert "4 entries checked (a part of the store), 0 problems" in out
    assert "of 7 sessions, 4 entries. The next check continues from there" in out
    assert run(["verify", "--sample", "4", "--json"]) == exits.OK
    told = json.loads(capfd.readouterr().out)
    assert (told["checked"], told["whole"], told["covered"]["entries"], told["notices"]) == (4, False, 8, None)
    assert run(["verify", "--max-seconds", "600"]) == exits.OK
    assert "The whole store was checked since" in capfd.readouterr().out
    assert not (store.git_dir / lost_refs.FILE).exists()  # git's own findings are unknown here
    assert run(["verify", "--json"]) == exits.OK
    assert json.loads(capfd.readouterr().out)["covered"] is None


def test_notice_has_an_address_that_other_commands_accept(
    store: GitStore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = begun(store, "hi")
    said.append(Message.assistant([ToolCall(id="c1", name="bash")]))
    store.flush()
    monkeypatch.setenv("GITSESSION_DIR", str(store.git_dir))
    assert run(["verify", "--notices"]) == 0
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("notice: ")]
    assert line.endswith(": the call 'c1' has no result")
    assert run(["show", line.split()[1].rstrip(":"), "--json"]) == 0
    assert said.leaf.oid in capsys.readouterr().out


def test_notices_need_all_there_is(store: GitStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITSESSION_DIR", str(store.git_dir))
    assert run(["verify", "--notices", "--sample", "4"]) == exits.USAGE
    with Store.open(store.git_dir) as opened, pytest.raises(ValueError, match="notices"):
        opened.verify(notices=True, quick=True)
