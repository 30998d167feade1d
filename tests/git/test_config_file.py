"""Tests of the reader and writer of a store's configuration, compared with `git config`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gitsession.errors import Unavailable
from gitsession.git import config

TEXTS = (
    config.TEXT,
    '[a]\nb = c ; x\n\td="e f" g # h\n',
    '[a "b\\"c\\\\d"] e = "x;y" z \\\n  w\n',
    '[remote "o.X"]\nurl=a b  \nflag\n[A.B]\nK=1\nK=2\n',
    '[a]\nb=\nc = "" \nd = "  x "\n',
    "[a]\r\nb = c\r\n",
    '[a]\r\nb = "c" \\\r\n d\r\ne = "f"\r\n',
    '; x\n#y\n\n[a]\n b = c\\n\\td\\"e\n[d]e=f',
    "[a]\nb = \\\nc\n[d]\nflag\n e=f\n",
)


def of_git(path: Path) -> list[tuple[str, str]]:
    command = ["git", "config", "--file", str(path), "--null", "--list"]
    output = subprocess.run(command, check=True, capture_output=True).stdout.decode()
    rows = (row.partition("\n") for row in output.split("\0")[:-1])
    return [(key, value if mark else "true") for key, mark, value in rows]


@pytest.mark.parametrize("text", TEXTS)
def test_settings_are_those_that_git_reads(tmp_path: Path, text: str) -> None:
    path = tmp_path / config.FILE
    path.write_bytes(text.encode())
    assert config.all_of(tmp_path) == of_git(path)


@pytest.mark.parametrize("bad", ['b = "c\n', "b = \\q\n", "[x\n", "= c\n", "c ; d=f\n"])
def test_lines_that_git_rejects_are_skipped(bad: str) -> None:
    assert list(config.entries(f"[a]\n{bad}d = e\n")) == [("a.d", "e")]


@pytest.mark.parametrize("text", [*TEXTS, "", '[remote "x"]\n\turl = first\n'])
def test_added_settings_are_read_by_git(tmp_path: Path, text: str) -> None:
    path = tmp_path / config.FILE
    path.write_bytes(text.encode())
    before = of_git(path)
    rows = [("url", 'C:\\a "b" # c; d'), ("push", " e "), ("push", "f\ng")]
    config.add(tmp_path, 'remote "x"', rows)
    added = [(f"remote.x.{key}", value) for key, value in rows]
    assert sorted(of_git(path)) == sorted([*before, *added])
    assert config.all_of(tmp_path) == of_git(path)
    assert not path.with_name("config.lock").exists()


def test_locked_configuration_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / config.FILE
    path.write_text(config.TEXT)
    (tmp_path / "config.lock").touch()
    with pytest.raises(Unavailable, match="it is locked"):
        config.add(tmp_path, 'remote "x"', [("url", "y")])
    assert path.read_text() == config.TEXT


def test_lock_of_a_linked_configuration_is_that_of_git(tmp_path: Path) -> None:
    path = tmp_path / "elsewhere" / "mine"
    path.parent.mkdir()
    path.write_text(config.TEXT + '[remote "x"]\n\tfetch = refs/heads/sessions/*:refs/heads/sessions/*\n')
    (tmp_path / config.FILE).symlink_to(path)
    lock = path.with_name("mine.lock")
    lock.touch()
    before = path.read_text()
    with pytest.raises(Unavailable, match="it is locked"):
        config.add(tmp_path, 'remote "x"', [("url", "y")])
    config.migrate(tmp_path)
    assert path.read_text() == before
    lock.unlink()
    config.migrate(tmp_path)
    config.add(tmp_path, 'remote "x"', [("url", "y")])
    assert (tmp_path / config.FILE).is_symlink()
    assert config.value_of(tmp_path, "remote.x.fetch") == "+refs/heads/sessions/*:refs/remotes/x/sessions/*"
    assert config.value_of(tmp_path, "remote.x.url") == "y"
