"""Tests of the command ``browse``: its errors without a terminal or Textual, and a run in tmux."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from commands import Run

from gitsession import Message, Store


def test_without_a_terminal_other_commands_are_suggested(run: Run) -> None:
    text = run("browse", code=2, err=True)
    assert text == (
        "error: cannot browse: not a terminal\nhint: run `gitsession ls`, `gitsession tree` or `gitsession log`\n"
    )


@pytest.mark.parametrize("term", ["", "dumb"])
def test_a_terminal_without_cursor_movement_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch, term: str) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(getattr(sys, name), "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", term)
    assert "cannot browse: not a terminal" in run("browse", code=2, err=True)


def test_without_textual_the_extra_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(getattr(sys, name), "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name in [name for name in sys.modules if name.startswith(("gitsession.browse", "textual"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "textual", None)
    text = run("browse", code=75, err=True)
    assert text == "error: cannot browse: Textual is not installed\nhint: install with: pip install 'gitsession[tui]'\n"


class Tmux:
    """A program in a terminal of 80 columns and 24 lines."""

    def __init__(self, folder: Path, command: list[str], environment: dict[str, str]) -> None:
        self._socket = str(folder / "tmux")
        variables = [word for name, value in environment.items() for word in ("-e", f"{name}={value}")]
        self._run("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", *variables, *command)

    def _run(self, *words: str, check: bool = True) -> str:
        done = subprocess.run(
            ["tmux", "-S", self._socket, *words], capture_output=True, text=True, check=check, timeout=60
        )
        return done.stdout

    def keys(self, *keys: str) -> None:
        self._run("send-keys", *keys)

    def see(self, is_so: Callable[[str], bool]) -> str:
        """Wait until the text of the screen has a property, and return the text."""
        end = time.monotonic() + 60
        while not is_so(text := self._run("capture-pane", "-p")):
            assert time.monotonic() < end, text
            time.sleep(0.1)
        return text

    def close(self) -> None:
        self._run("kill-server", check=False)


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Callable[..., Tmux]]:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    opened: list[Tmux] = []

    def start(*command: str, **environment: str) -> Tmux:
        opened.append(Tmux(tmp_path, list(command), environment))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def test_a_session_is_browsed_in_a_real_terminal(tmp_path: Path, tmux: Callable[..., Tmux]) -> None:
    with Store.create(tmp_path / "store.git") as store:
        session = store.new_session(agent="pi", cwd=str(tmp_path))
        session.append(Message.user("Fix the login redirect"))
        session.append(Message.assistant("It is **fixed** now."))
    command = f"'{sys.executable}' -m gitsession --store '{tmp_path}/store.git' browse; echo left $?; sleep 100"
    it = tmux("sh", "-c", command, HOME=os.environ["HOME"], LC_ALL="C.UTF-8")
    text = it.see(lambda text: "1 session" in text and "Fix the login" in text)
    assert text.split("\n")[0].startswith("Sessions  1 session")
    it.keys("Enter")
    it.see(lambda text: "assistant: It is **fixed** now.  [main]" in text)
    it.keys("Enter")
    it.see(lambda text: "▌   It is fixed now." in text)
    it.keys("q")
    it.see(lambda text: "[main]" in text)
    it.keys("C-c")
    text = it.see(lambda text: "left 0" in text)
    assert "Traceback" not in text and "Sessions" not in text
