"""Tests of refs that only git can create: their names are not valid UTF-8. Most commands ignore them."""

import os
import subprocess
from pathlib import Path

import pytest

from gitsession import Message, Store
from gitsession.cli import app as command_line
from gitsession.cli import exits

NAME = b"caf\xe9"


def git(store: Path, *words: bytes) -> None:
    subprocess.run([b"git", b"--git-dir=" + os.fsencode(store), *words], check=True, capture_output=True)


@pytest.fixture(params=["loose", "packed", "many"])
def store(request, tmp_path, monkeypatch):
    """A store with one session, and with a ref of git beside its branch."""
    path = tmp_path / "store.git"
    with Store.create(path) as made:
        session = made.new_session(agent="pi", cwd=str(tmp_path))
        session.append(Message.user("hello"))
        other = made.new_session(agent="pi", cwd=str(tmp_path))
        other.append(Message.user("another"))
    beside = os.fsencode(f"refs/heads/sessions/{session.id}/")
    git(path, b"update-ref", beside + NAME, beside + b"main")
    if request.param == "many":  # packed-refs is searched if it is large
        tip = subprocess.run([b"git", b"--git-dir=" + os.fsencode(path), b"rev-parse", beside + b"main"],
                             check=True, capture_output=True).stdout[:40].decode()  # fmt: skip
        lines = "".join(f"create {os.fsdecode(beside)}branch-{number:03d} {tip}\n" for number in range(800))
        subprocess.run(["git", f"--git-dir={path}", "update-ref", "--stdin"], input=lines, text=True, check=True)
    if request.param != "loose":
        git(path, b"pack-refs", b"--all")
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
