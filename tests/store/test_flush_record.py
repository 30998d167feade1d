"""Tests of P23 and P24: ``verify`` names what plain git deletes or sets back after a flush; ``repair`` restores it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from builders import Clock
from promises import Faults
from raw import git

from gitsession.api import Store
from gitsession.cli import exits
from gitsession.cli.app import run
from gitsession.git.types import Oid
from gitsession.model.entries import Message
from gitsession.store import flush_record, flushing, refs


class Case:
    """A session whose entries were appended and flushed one by one. ``line`` has their oids, oldest first."""

    def __init__(self, path: Path, entries: int = 6) -> None:
        self.path = path
        with Store.create(path, clock=Clock()) as store:
            session = store.new_session(agent="agent")
            self.sid, self.main = session.id, refs.leaf(session.id)
            for number in range(entries):
                session.append(Message.user(f"number {number}"))
                store.flush()
            self.line = [node.oid for node in session.history()]

    def problems(self) -> dict[str, str]:
        with Store.open(self.path) as store:
            return {found.where: found.what for found in store.verify().problems}

    def reached(self) -> set[Oid]:
        return set(git(self.path, "rev-list", f"--glob={refs.session(self.sid)}*").split())


def gone(case: Case) -> None:
    """Make git delete the objects that only the reflog of ``main`` refers to."""
    git(case.path, "reflog", "expire", "--expire=now", "--all")
    git(case.path, "gc", "-q", "--prune=now")


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path / "store.git")


DELETIONS = {
    "branch -D": lambda case: git(case.path, "branch", "-q", "-D", case.main.removeprefix("refs/heads/")),
    "update-ref -d": lambda case: git(case.path, "update-ref", "-d", case.main),
    "pack-refs, then update-ref -d": lambda case: (
        git(case.path, "pack-refs", "--all"),
        git(case.path, "update-ref", "-d", case.main),
    ),
}


@pytest.mark.promise("P23")
@pytest.mark.parametrize("delete", DELETIONS.values(), ids=DELETIONS)
def test_a_branch_that_plain_git_deleted_is_named_and_restored_to_its_last_entry(case: Case, faults: Faults, delete):
    with faults.one():
        delete(case)
        what = case.problems()[case.main]
        assert f"was at {case.line[-1][:12]}" in what
        assert "6 entries are on no branch" in what
        with Store.open(case.path) as store:
            assert store.repair().is_whole
        assert case.problems() == {}
        assert case.reached() >= set(case.line)


@pytest.mark.promise("P24")
@pytest.mark.parametrize("delete", DELETIONS.values(), ids=DELETIONS)
def test_entries_of_a_deleted_branch_survive_gc_and_are_restored(case: Case, faults: Faults, delete):
    with faults.one():
        delete(case)
        git(case.path, "gc", "-q", "--prune=now")
        assert "6 entries are on no branch" in case.problems()[case.main]
        with Store.open(case.path) as store:
            assert store.repair().is_whole
        assert case.problems() == {}
        assert case.reached() >= set(case.line)


def test_next_flush_after_a_purge_protects_all_branches_again(case: Case):
    with Store.open(case.path, clock=Clock()) as store:
        other = store.new_session(agent="agent")
        entry = other.append(Message.user("to be purged"))
        store.flush()
        store.purges.apply(store.purges.plan(other.id))
        assert not (case.path / flushing.REFLOG).exists() or entry.oid not in (case.path / flushing.REFLOG).read_text()
        store.new_session(agent="agent").append(Message.user("later"))
    assert case.line[-1] in (case.path / flushing.REFLOG).read_text()
    assert git(case.path, "fsck", "--strict", "--no-dangling") == ""


def _symlink(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.parents[4] / "elsewhere")


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


REFLOG_DAMAGE = {
    "symlink": _symlink,
    "pipe": _pipe,
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "text": lambda path: path.write_text("no reflog\n"),
    "cut line": lambda path: path.write_bytes(path.read_bytes()[-100:-20]),
}


@pytest.mark.promise("P24")
@pytest.mark.parametrize("damage", REFLOG_DAMAGE.values(), ids=REFLOG_DAMAGE)
def test_invalid_reflog_is_written_again_with_all_branches(case: Case, tmp_path: Path, faults: Faults, damage):
    with faults.one():
        (tmp_path / "elsewhere").write_bytes(b"")
        damage(case.path / flushing.REFLOG)
        with Store.open(case.path, clock=Clock()) as store:
            store.new_session(agent="agent").append(Message.user("later"))
        DELETIONS["branch -D"](case)
        git(case.path, "gc", "-q", "--prune=now")
        with Store.open(case.path) as store:
            assert store.repair().is_whole
        assert case.reached() >= set(case.line)
        assert (tmp_path / "elsewhere").read_bytes() == b""


def test_intact_lines_of_a_damaged_reflog_are_kept(case: Case):
    DELETIONS["branch -D"](case)
    with (case.path / flushing.REFLOG).open("ab") as file:
        file.write(bytes(100))
    with Store.open(case.path, clock=Clock()) as store:
        store.new_session(agent="agent").append(Message.user("later"))
    assert case.line[-1] in (case.path / flushing.REFLOG).read_text()


def test_lines_of_an_intact_reflog_are_checked_by_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(flushing, "_TAIL_BYTES", 600)
    checked, check = list[int](), flushing._well_formed
    monkeypatch.setattr(flushing, "_well_formed", lambda data: checked.append(len(data)) or check(data))
    case, path = Case(tmp_path / "store.git", entries=20), tmp_path / "store.git" / flushing.REFLOG

    def flush(times: int = 1) -> list[bool]:
        """Flush in a new process; return for each check whether it read the whole file."""
        checked.clear()
        size = path.stat().st_size
        with Store.open(case.path, clock=Clock()) as store:
            for _ in range(times):
                store.session(case.sid).append(Message.user("more"))
                store.flush()
        return [length >= size for length in checked]

    assert flush() == [False]
    assert flush(times=3) == [False]
    with path.open("r+b") as file:  # in the middle, and with the same size
        file.seek(1000)
        file.write(bytes(10))
    assert flush() == [True]
    assert b"\0" not in path.read_bytes()
    assert flush(times=2) == [True]
    assert flush() == [False]
    size, tail = path.stat().st_size, path.read_bytes()[-300:]
    with path.open("r+b") as file:  # a power failure may lose the last bytes and keep the time
        file.seek(size - 300)
        file.write(bytes(200) + tail[200:])
        file.flush()
        os.utime(file.fileno(), (0, size))
    assert flush() == [False, True]
    assert b"\0" not in path.read_bytes()


REFLOG_BLOCKED = {
    "logs is a file": lambda git_dir: (git_dir / "logs").write_bytes(b""),
    "logs is a symlink": lambda git_dir: (git_dir / "logs").symlink_to(git_dir.parent / "elsewhere"),
    "main is a folder": lambda git_dir: (git_dir / flushing.REFLOG).mkdir(parents=True),
}


@pytest.mark.parametrize("block", REFLOG_BLOCKED.values(), ids=REFLOG_BLOCKED)
def test_doctor_names_a_reflog_that_cannot_be_written(case: Case, tmp_path: Path, capsys, block):
    (tmp_path / "elsewhere").mkdir()
    shutil.rmtree(case.path / "logs")
    block(case.path)
    with Store.open(case.path, clock=Clock()) as store:
        store.new_session(agent="agent").append(Message.user("later"))
    assert list((tmp_path / "elsewhere").iterdir()) == []
    run(["--store", str(case.path), "doctor"])
    assert "deletes the entries of a branch that git deleted" in capsys.readouterr().out


def test_the_log_of_leaves_does_not_grow_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(flushing, "_BYTES_MAX", 1000)
    names = [refs.leaf("20260101-aaaaaaaaaaaaa", f"b{number}") for number in range(3)]
    for number in range(100):
        flushing.append_reflog(tmp_path, {names[number % 3]: f"{number:040x}"}, dict)
    text = (tmp_path / flushing.REFLOG).read_text()
    assert len(text) < 2000
    assert all(f"{number:040x}" in text for number in (97, 98, 99))


@pytest.mark.promise("P23")
@pytest.mark.parametrize("goes_on", [False, True], ids=["at rest", "appended to since"])
def test_a_branch_that_plain_git_set_back_is_named_and_its_entries_restored(case: Case, faults: Faults, goes_on: bool):
    with faults.one():
        git(case.path, "update-ref", case.main, case.line[2])
        if goes_on:
            with Store.open(case.path, clock=Clock()) as store:
                store.session(case.sid).append(Message.user("on the earlier entry"))
        assert f"was at {case.line[-1][:12]}" in case.problems()[case.main]
        assert "4 entries are on no branch" in case.problems()[case.main]
        with Store.open(case.path) as store:
            assert store.repair().is_whole
        assert case.problems() == {}
        assert case.reached() >= set(case.line)


@pytest.mark.promise("P24")
def test_repair_does_not_claim_unrestored_refs(
    case: Case, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], faults: Faults
):
    monkeypatch.setenv("GITSESSION_DIR", str(case.path))
    with faults.one():
        git(case.path, "update-ref", case.main, case.line[2])
        gone(case)
        assert "some of its entries are missing" in case.problems()[case.main]
        assert run(["repair"]) == exits.INTEGRITY
        told = capfd.readouterr().out
        assert f"still missing: {case.main}" in told
        assert "everything is repaired" not in told
        assert case.main in case.problems()


@pytest.mark.promise("P24")
def test_deleted_branch_is_restored_to_its_last_existing_entry(case: Case, faults: Faults):
    with Store.open(case.path) as store:
        assert store.sessions()  # the catalog has read the branch
    git(case.path, "update-ref", case.main, case.line[2])
    gone(case)
    git(case.path, "update-ref", "-d", case.main)
    copy = case.path.parent / "copy.git"
    git(case.path.parent, "init", "-q", "--bare", str(copy))
    git(copy, "fetch", "-q", str(case.path), f"{case.line[2]}:{case.main}")
    with faults.one(), Store.open(case.path) as store:
        done = store.repair([copy])
        assert not done.is_whole
        assert done.plan.ref_values[case.main] == case.line[2]
        assert "the earlier entry" in done.plan.lost_refs[0].what


@pytest.mark.promise("P13")
def test_concurrent_deletion_is_reverted_by_the_next_flush(case: Case, faults: Faults):
    with faults.one(), Store.open(case.path, clock=Clock(), flush_on_close=False) as store:
        entry = store.session(case.sid).append(Message.user("in the journal"))
        git(case.path, "update-ref", "-d", case.main)
        store.flush()
        assert store.objects.renamed_branches == []
        assert store.objects.ref(case.main) == entry.oid
        assert git(case.path, "rev-parse", case.main).strip() == entry.oid
        assert store.verify().problems == []


def test_undone_or_removed_refs_are_not_reported_missing(case: Case):
    with Store.open(case.path, clock=Clock()) as store:
        session = store.session(case.sid)
        session.branch("side", session.history()[2])
        store.flush()
        for step in (store.undo, store.redo, store.undo):
            step()
            store.flush()
            assert store.verify().problems == []
        store.trash.put(case.sid)
        store.flush()
        assert store.verify().problems == []
        store.undo()
        assert store.verify().problems == []


A, B, C, D = (letter * 40 for letter in "abcd")
NAME = "refs/heads/sessions/20260101-aaaaaaaaaaaaa/main"


def test_record_lists_values_removed_by_another_program(tmp_path: Path):
    (tmp_path / "gitsession").mkdir()
    flush_record.append(tmp_path, {NAME: (None, A)}, journal=1)
    flush_record.append(tmp_path, {NAME: (A, B), "refs/remotes/x/y": (None, A)}, journal=2)
    assert flush_record.read(tmp_path).last == {NAME: B}
    assert flush_record.read(tmp_path).passed == {}
    flush_record.append(tmp_path, {NAME: (A, C)}, journal=2)  # a killed flush that is repeated
    assert flush_record.read(tmp_path).passed == {}
    flush_record.append(tmp_path, {NAME: (A, D)}, journal=3)
    assert flush_record.read(tmp_path).passed == {NAME: [C]}
    flush_record.mark(tmp_path, flush_record.CHECKED)
    assert flush_record.read(tmp_path) == flush_record.FlushedRefs(last={NAME: D}, before={NAME: (3, A)})
    flush_record.append(tmp_path, {NAME: (D, None)}, journal=4)
    assert flush_record.read(tmp_path).since == {NAME: None}


def test_torn_line_does_not_affect_others(tmp_path: Path):
    (tmp_path / "gitsession").mkdir()
    flush_record.append(tmp_path, {NAME: (None, A)}, journal=1)
    with (tmp_path / flush_record.FILE).open("ab") as file:
        file.write(f"2 {A} {B[:7]}".encode())
    flush_record.append(tmp_path, {NAME: (A, C)}, journal=3)
    assert flush_record.read(tmp_path).last == {NAME: C}


def test_grown_record_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(flush_record, "_SPARE_BYTES", 1000)
    (tmp_path / "gitsession").mkdir()
    flush_record.append(tmp_path, {NAME + "-other": (None, A)}, journal=1)
    flush_record.mark(tmp_path, flush_record.CHECKED)
    flush_record.append(tmp_path, {NAME: (None, D)}, journal=1)
    for number in range(500):
        flush_record.append(tmp_path, {NAME: (B, C) if number % 2 else (C, B)}, journal=number + 2)
        assert (tmp_path / flush_record.FILE).stat().st_size < 4000
        held = flush_record.read(tmp_path)
        assert held.last == {NAME + "-other": A, NAME: C if number % 2 else B}
        assert held.since == {NAME: held.last[NAME]}
        assert held.passed == {NAME: [D]}
