"""Tests of refs that only git can create: their names are not valid UTF-8. Most commands ignore them."""

import os
import subprocess

import pytest
from raw import git

from gitsession import Message, Store
from gitsession.cli import app as command_line
from gitsession.cli import exits

NAME = b"caf\xe9"


@pytest.fixture(params=["loose", "packed", "many"])
def store(request, tmp_path, monkeypatch):
    """Create a store with two sessions, and a ref of git beside the branch of the first one."""
    path = tmp_path / "store.git"
    with Store.create(path) as made:
        session = made.new_session(agent="pi", cwd=str(tmp_path))
        session.append(Message.user("hello"))
        other = made.new_session(agent="pi", cwd=str(tmp_path))
        other.append(Message.user("another"))
    beside = f"refs/heads/sessions/{session.id}/"
    git(path, "update-ref", beside + os.fsdecode(NAME), f"{beside}main")
    if request.param == "many":  # packed-refs is searched if it is large
        tip = git(path, "rev-parse", f"{beside}main")
        git(path, "update-ref", "--stdin", stdin="".join(f"create {beside}branch-{n:03d} {tip}\n" for n in range(800)))
    if request.param != "loose":
        git(path, "pack-refs", "--all")
    monkeypatch.setenv("GITSESSION_DIR", str(path))
    monkeypatch.chdir(tmp_path)
    return path


@pytest.mark.parametrize(
    "words", ["ls", "log", "show", "branch", "search hello", "maintain", "export --to claude", "repair"]
)
def test_ref_whose_name_is_not_utf8_is_ignored(store, words):
    assert command_line.run(words.split()) == exits.OK


def test_verify_and_doctor_report_the_name(store, capfd):
    assert command_line.run(["verify"]) == exits.INTEGRITY
    assert "caf\\xe9: ignored: its name is not valid UTF-8" in capfd.readouterr().out
    assert command_line.run(["doctor"]) == exits.INTEGRITY
    assert "caf\\xe9 is ignored: its name is not valid UTF-8" in capfd.readouterr().out


def test_purge_is_refused_only_if_the_ref_keeps_the_content(store, capfd):
    assert command_line.run(["purge", "--match", "another", "--yes"]) == exits.OK
    assert command_line.run(["purge", "--match", "hello", "--yes"]) == exits.REFUSED
    assert "caf\\xe9" in capfd.readouterr().err


def test_sync_and_clone_ignore_the_ref(store, tmp_path):
    hub = tmp_path / "hub.git"
    subprocess.run(["git", "init", "-q", "--bare", str(hub)], check=True)
    assert command_line.run(["remote", "add", "origin", str(hub)]) == exits.OK
    assert command_line.run(["sync", "--yes"]) == exits.OK
    for source in (hub, store):
        copy = tmp_path / f"copy-of-{source.name}"
        assert command_line.run(["clone", str(source), str(copy)]) == exits.OK
        with Store.open(copy) as opened:
            assert [row.entries for row in opened.sessions()] == [1, 1]


def test_symbolic_ref_to_such_a_name_is_damaged(store, capfd):
    with Store.open(store) as opened:
        sid = opened.sessions()[0].sid
    folder = store / f"refs/heads/sessions/{sid}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "side").write_bytes(b"ref: refs/heads/sessions/" + NAME + b"\n")
    assert command_line.run(["ls"]) == exits.OK
    assert command_line.run(["verify"]) == exits.INTEGRITY
    assert "contains an invalid value" in capfd.readouterr().out
