"""Tests of stores without HEAD or configuration: they are still recognized, and only `repair` restores the files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from builders import Clock, bring, pi_file, talk
from damage import replace_file
from promises import Faults

from gitsession.api import Store
from gitsession.cli import exits
from gitsession.cli.app import run
from gitsession.git import config
from gitsession.store.git_store import GitStore
from gitsession.store.salvage import QUARANTINE

HOW: dict[str, bytes | None] = {"gone": None, "zeros": bytes(40), "something else": b"hello\n"}


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "store.git"
    with Store.create(made, clock=Clock()) as store:
        bring(store.objects, pi_file(*talk("a", "b")))
    monkeypatch.setenv("GITSESSION_DIR", str(made))
    return made


def put(file: Path, data: bytes | None) -> None:
    file.unlink() if data is None else replace_file(file, data)


@pytest.mark.promise("P24")
@pytest.mark.parametrize("data", HOW.values(), ids=HOW)
@pytest.mark.parametrize("name", [config.HEAD, config.FILE])
def test_lost_file_is_reported_and_restored(
    path: Path, capfd: pytest.CaptureFixture[str], faults: Faults, name: str, data: bytes | None
) -> None:
    whole = (path / name).read_bytes()
    put(path / name, data)
    with faults.one():
        for command in (["ls"], ["init"], ["doctor"]):
            code = run(command)
            told = "".join(capfd.readouterr())
            assert code == exits.INTEGRITY, told
            assert f"is damaged: {name} " in told
            assert "`gitsession repair`" in told
        assert run(["verify"]) == exits.INTEGRITY
        assert f"{name}: " in capfd.readouterr().out
        assert run(["repair", "--dry-run"]) == exits.OK
        assert not (path / name).exists() if data is None else (path / name).read_bytes() == data
        assert run(["repair"]) == exits.OK
        assert (path / name).read_bytes() == whole
        assert run(["verify"]) == exits.OK
    assert [file.read_bytes() for file in path.glob(f"{QUARANTINE}/*/{name}")] == [data] * (data is not None)


def test_lost_index_is_rebuilt_too(path: Path) -> None:
    (path / config.HEAD).unlink()
    next(path.glob("objects/pack/*.idx")).unlink()
    with Store.open(path, damaged=True) as store:
        assert store.repair().is_whole
        assert store.verify().problems == []


@pytest.mark.parametrize("text", ["", '[core]\n\tbare = true\n[remote "x"]\n\turl = /nowhere\n[gc]\n\tauto = 5'])
def test_lost_settings_are_reported_by_doctor_and_restored_beside_existing_ones(
    path: Path, capfd: pytest.CaptureFixture[str], text: str
) -> None:
    put(path / config.FILE, text.encode())
    assert run(["doctor"]) == exits.INTEGRITY
    assert "core.fsync" in capfd.readouterr().out
    run(["repair"])
    capfd.readouterr()
    assert config.missing_settings(path) == {}
    asked = subprocess.run(
        ["git", "config", "--file", str(path / config.FILE), "--list"], check=True, capture_output=True, text=True
    )
    found = dict(line.split("=", 1) for line in asked.stdout.splitlines())
    assert found["core.fsync"] == "all"
    assert found["receive.denydeletes"] == "true"
    if text:
        assert (found["remote.x.url"], found["gc.auto"]) == ("/nowhere", "5")


def test_a_folder_that_was_never_a_store_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x/file").touch()
    monkeypatch.setenv("GITSESSION_DIR", str(tmp_path / "x"))
    assert run(["repair"]) == exits.NOT_FOUND


OLD = "refs/heads/sessions/*:refs/heads/sessions/*"
"""The refspec of earlier versions. With it, a plain ``git fetch --prune`` deleted unpublished refs."""


def test_a_store_of_an_earlier_version_loses_the_refspec_that_moves_branches(path: Path) -> None:
    with (path / config.FILE).open("a") as file:
        file.write(
            f'\tfetch = {OLD}\n[remote "team"]\n\turl = /t\n\tfetch = refs/x/sessions/*:refs/heads/sessions/*\n'
            f"\tfetch = +refs/x/store/*:refs/remotes/team/gitsession/*\n\tfetch = +{OLD}\n# {OLD}\n"
        )
    before = (path / config.FILE).read_text()
    GitStore.open(path, read_only=True).close()
    assert (path / config.FILE).read_text() == before
    Store.open(path).close()
    after = (path / config.FILE).read_text()
    assert after == before.replace(f"\tfetch = {OLD}\n", "").replace(
        "fetch = refs/x/sessions/*:refs/heads/sessions/*", "fetch = +refs/x/sessions/*:refs/remotes/team/sessions/*"
    )
    Store.open(path).close()
    assert (path / config.FILE).read_text() == after


def test_a_locked_configuration_is_migrated_by_a_later_opening(path: Path) -> None:
    with (path / config.FILE).open("a") as file:
        file.write(f"\tfetch = {OLD}\n")
    lock = path / "config.lock"
    lock.touch()
    Store.open(path).close()
    assert OLD in (path / config.FILE).read_text()
    assert lock.exists()
    lock.unlink()
    Store.open(path).close()
    assert f"fetch = {OLD}" not in (path / config.FILE).read_text()
    assert not lock.exists()


def test_a_refspec_that_stood_alone_is_replaced_by_one_for_tracking_refs(path: Path) -> None:
    file = path / config.FILE
    file.write_text(file.read_text().partition("[remote")[0] + f'[remote "origin"]\n\turl = /u\n\tfetch = {OLD}\n')
    Store.open(path).close()
    assert file.read_text().endswith("\tfetch = +refs/heads/sessions/*:refs/remotes/origin/sessions/*\n")
