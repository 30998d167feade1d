"""Tests of P23: ``verify`` reports any damage to files of a store, and a quick check covers new data."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest
from builders import Clock, begun, bring, pi_file, said, talk
from damage import KEPT, changes, replace_file, without
from promises import Faults
from written import Written

from gitsession.api import Store
from gitsession.cli import exits
from gitsession.cli.app import run
from gitsession.errors import GitSessionError
from gitsession.git import process
from gitsession.git.repository import VerifiedRepository
from gitsession.sessions import graph
from gitsession.store import refs
from gitsession.verify import lost_refs


@pytest.mark.promise("P23")
@pytest.mark.parametrize("pattern", KEPT.values(), ids=KEPT)
def test_verify_reports_any_change_of_stored_data_or_complaint_of_git(
    written: Written, tmp_path: Path, faults: Faults, pattern: str
) -> None:
    path = tmp_path / "store.git"
    shutil.copytree(written.path, path, copy_function=os.link)
    here = written.at(path)
    with Store.open(path, flush_on_close=False) as store:
        assert store.verify().problems == []
    chance = random.Random(pattern)
    count = len([file for file in path.glob(pattern) if file.is_file()])
    for number in range(14):
        file = here.one(pattern, number % count)
        data = file.read_bytes()
        strange = here.one("objects/pack/*.idx" if "idx" not in pattern else "objects/pack/*.pack").read_bytes()
        every = list(changes(data, strange, chance, 30))
        name, change = every[number] if number < 4 else chance.choice(every)
        replace_file(file, change(data))
        hurt = bool(process.fsck(path)) or here.read_all() > 0
        try:
            with Store.open(path, flush_on_close=False, damaged=True) as store:
                told = [f"{found.where}: {found.what}" for found in store.verify().problems]
        except GitSessionError as error:
            told = [str(error)]
        assert told or not hurt, (file, name)
        faults.many(1)
        replace_file(file, data)


@pytest.mark.promise("P23")
def test_every_lost_or_damaged_object_is_named_with_its_session(tmp_path: Path, faults: Faults) -> None:
    path = tmp_path / "store.git"
    with Store.create(path, clock=Clock()) as store:
        sid = bring(store.objects, pi_file(*talk("a", "b", "c"), said("big", "c", "y" * 70_000))).session
        store.flush()
        tree = graph.tree(store.objects, sid)
        parts = {oid for node in tree.nodes.values() for oid in (node.oid, node.tree)}
    without(path)
    with Store.open(path) as store:
        for oid in sorted(parts):
            file = path / f"objects/{oid[:2]}/{oid[2:]}"
            data = file.read_bytes()
            for bad in (None, b"", data[:-9]):
                file.unlink(missing_ok=True)
                if bad is not None:
                    file.write_bytes(bad)
                with faults.one():
                    found = store.verify(sid).problems
                    assert {problem.session for problem in found} == {sid}
                    assert any(oid in f"{problem.where} {problem.what}" for problem in found)
            file.unlink(missing_ok=True)
            file.write_bytes(data)
        assert store.verify().problems == []


# ---- quick checks


@pytest.fixture
def checked(tmp_path: Path) -> Path:
    """Create a store that was verified without findings."""
    path = tmp_path / "store.git"
    with Store.create(path, clock=Clock()) as store:
        bring(store.objects, pi_file(*talk("a", "b", "c", "d")))
        assert store.verify().problems == []
    return path


def more(path: Path) -> None:
    with Store.open(path) as store:
        bring(store.objects, pi_file(*talk("a", "b", "c", "d", "e", "f")))
        store.flush()


def test_quick_check_only_reads_new_entries(checked: Path) -> None:
    with Store.open(checked) as store:
        assert store.verify(quick=True).checked == 0
        more(checked)
        assert store.verify(quick=True).checked == 2
        assert store.verify(quick=True).checked == 0
        assert store.verify().checked == 8


def test_damage_in_new_data_is_found_by_every_quick_check(checked: Path) -> None:
    old = set(checked.glob("objects/pack/*.pack"))
    more(checked)
    [new] = set(checked.glob("objects/pack/*.pack")) - old
    data = new.read_bytes()
    replace_file(new, data[:-25] + b"xxxxx" + data[-20:])
    with Store.open(checked) as store:
        assert store.verify(quick=True).problems
        assert store.verify(quick=True).problems


def test_pack_removed_by_git_during_the_check_is_ignored(checked: Path) -> None:
    before = lost_refs.current_state(checked, {})
    (checked / "objects/pack/pack-gone.pack").symlink_to("nowhere")  # listed, but missing when it is opened
    assert lost_refs.current_state(checked, {}) == before


@pytest.mark.parametrize("data", [None, b"", b"{}", b'{"version": 2}', b'{"version": 1, "refs": 3}'], ids=str)
def test_quick_check_without_a_mark_checks_everything(checked: Path, data: bytes | None) -> None:
    (checked / lost_refs.FILE).unlink()
    if data is not None:
        (checked / lost_refs.FILE).write_bytes(data)
    with Store.open(checked) as store:
        assert store.verify(quick=True).checked == 6
        assert store.verify(quick=True).checked == 0


def test_quick_check_with_a_replaced_pack_checks_everything(checked: Path) -> None:
    for file in checked.glob("objects/pack/*.pack"):
        replace_file(file, file.read_bytes())
    with Store.open(checked) as store:
        assert store.verify(quick=True).checked == 6


@pytest.mark.parametrize("how", [{"sample": 1}, {"max_seconds": -1.0}], ids=str)
def test_partial_check_leaves_no_mark(checked: Path, how: dict[str, float]) -> None:
    (checked / lost_refs.FILE).unlink()
    with Store.open(checked) as store:
        assert store.verify(**how).problems == []  # type: ignore[arg-type]
        assert not (checked / lost_refs.FILE).exists()


def test_damaged_store_has_no_mark_and_the_command_names_repair(
    checked: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (checked / lost_refs.FILE).unlink()
    [name] = [str(file.relative_to(checked)) for file in checked.glob("refs/heads/sessions/*/main")]
    replace_file(checked / name, b"")
    monkeypatch.setenv("GITSESSION_DIR", str(checked))
    assert run(["verify", "--quick"]) == exits.INTEGRITY
    out = capfd.readouterr().out
    parsed = refs.parse(name)
    assert parsed is not None
    assert f"session {parsed[0]}, {name}: is empty" in out
    assert "`gitsession repair`" in out
    assert not (checked / lost_refs.FILE).exists()


def test_a_git_that_crashes_on_a_damaged_file_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """git 2.39 can crash on a damaged multi-pack-index."""
    with Store.create(tmp_path / "store.git") as store:
        program = tmp_path / "bin" / "git"
        program.parent.mkdir()
        program.write_text("#!/bin/sh\nkill -SEGV $$\n")
        program.chmod(0o700)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        assert [found.what for found in store.verify().problems] == ["`git fsck` was killed by signal 11"]


def test_entries_of_a_store_with_an_archive_are_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        begun(store.objects, *(f"words {number}" for number in range(80)))
        store.archive.put(begun(store.objects, "old").id)
        store.flush()
    single: list[str] = []
    read = VerifiedRepository.read
    monkeypatch.setattr(VerifiedRepository, "read", lambda found, oid: single.append(oid) or read(found, oid))
    with Store.open(tmp_path / "store.git") as store:
        assert store.verify().checked > 80
    assert len(single) < 40
