"""Tests of the selection with fzf: a program that records its input in place of fzf, and fzf itself in a terminal."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import Clock
from commands import Run
from terminals import Terminal

from gitsession import Message, Store

HOSTILE = "cancel\x1b]0;owned\x07 $(touch owned) `touch owned`\n1\tnot a line\0\u202e'; touch owned #"


@pytest.fixture
def store(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = here / "store.git"
    monkeypatch.setenv("GITSESSION_DIR", str(path))
    with Store.create(path, clock=Clock()) as opened:
        for at_ms, text in enumerate(("bake bread", "butter", HOSTILE)):
            session = opened.new_session(agent="mine", cwd="/elsewhere")
            session.append(Message.user(text, at_ms=at_ms + 1))
            session.rename(f"about {text}" if text != HOSTILE else "hostile")
    return path


Fake = Callable[..., Path]


@pytest.fixture
def fzf(here: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Return a function that makes a program named fzf, which prints ``out``, and returns the file with its input."""

    def made(out: str, code: int = 0) -> Path:
        for name in ("stdin", "stdout", "stderr"):
            monkeypatch.setattr(getattr(sys, name), "isatty", lambda: True, raising=False)
        monkeypatch.setenv("TERM", "xterm")
        program = here / "bin" / "fzf"
        program.parent.mkdir(exist_ok=True)
        program.write_text(
            f"#!/bin/sh\nprintf '%s\\n' \"$@\" > '{here}/words'\ncat > '{here}/input'\nprintf '{out}'\nexit {code}\n"
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        return here / "input"

    return made


def test_the_selected_prompt_is_printed(run: Run, store: Path, fzf: Fake, here: Path) -> None:
    given = fzf(r"query\0001\tbutter\000")
    assert run("prompts", "--stored", "--pick") == "butter\n"
    hostile, *others = given.read_bytes().removesuffix(b"\0").split(b"\0")
    assert others == [b"1\tbutter", b"2\tbake bread"]
    assert hostile.startswith(b"0\tcancel") and hostile.count(b"\t") == 1
    assert hostile.decode()[2:].isprintable()
    assert "--read0" in (here / "words").read_text().split("\n")
    assert run("prompts", "--stored", "--pick", "-z") == "butter\0"
    assert not list(here.glob("owned*"))


def test_the_entry_of_the_selected_hit_is_shown(run: Run, store: Path, fzf: Fake) -> None:
    given = fzf(r"0\t\000")
    assert "bake bread" in run("search", "--role", "user", "--pick", "bread")
    assert given.read_text().startswith("0\tabout bake bread  user  ")


def test_the_text_of_a_hit_is_in_view_beside_a_long_title(run: Run, store: Path, fzf: Fake) -> None:
    with Store.open(store) as opened:
        session = opened.new_session(agent="mine", cwd="/elsewhere")
        session.append(Message.user("knead dough", at_ms=9))
        session.rename("a title that is longer than the terminal " * 3)
    given = fzf(r"0\t\000")
    run("search", "--role", "user", "--pick", "dough")
    assert "knead dough" in given.read_text()[:80]


@pytest.mark.parametrize(
    ("out", "status", "code", "message"),
    [
        ("", 1, 1, ""), ("", 130, 130, ""), ("", 2, 75, "fzf failed with exit code 2"),
        (r"7\t\000", 0, 75, "fzf failed"), ("text", 0, 75, "fzf failed"),
    ],
)  # fmt: skip
def test_without_a_selection_nothing_is_printed(
    run: Run, store: Path, fzf: Fake, out: str, status: int, code: int, message: str
) -> None:
    fzf(out, status)
    assert message in run("prompts", "--pick", code=code, err=True)
    assert run("search", "bread", "--pick", code=code) == ""


def test_selection_requires_a_terminal_and_fzf(
    run: Run, store: Path, fzf: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fzf("")
    assert "--pick and --json cannot be combined" in run("prompts", "--pick", "--json", code=2, err=True)
    monkeypatch.setenv("TERM", "dumb")
    assert "not a terminal" in run("prompts", "--pick", code=2, err=True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run("search", "bread", "--pick", code=75, err=True) == (
        "error: cannot show fzf: it is not installed\nhint: install fzf, or omit --pick\n"
    )
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    assert "not a terminal" in run("search", "bread", "--pick", code=2, err=True)


def test_an_ambiguous_address_lets_the_user_select(run: Run, store: Path, fzf: Fake) -> None:
    given = fzf(r"1\t\000")
    with Store.open(store) as opened:
        sids = [row.sid for row in opened.sessions()]
    date = sids[0].partition("-")[0]
    for words in (("log", date), ("show", date), ("branch", date), ("tree", date)):
        assert run(*words)
        assert given.read_text().count("\0") == 3
    fzf("", 1)
    assert "matches 3 sessions" in run("log", date, code=3, err=True)


@pytest.mark.parametrize("address", ["@", "-"])
def test_folder_without_a_session_is_an_error_that_says_how_to_list_others(
    run: Run, store: Path, fzf: Fake, here: Path, address: str
) -> None:
    given = fzf(r"1\t\000")
    for command in ("show", "log", "tree"):
        told = run(command, address, code=3, err=True)
        assert f"session in '{here}'" in told
        assert "run `gitsession ls` to list the sessions of all folders" in told
    assert not given.exists()


@pytest.mark.parametrize("stream", ["stdin", "stdout", "stderr"])
def test_without_a_terminal_the_sessions_that_match_are_listed(
    run: Run, store: Path, fzf: Fake, monkeypatch: pytest.MonkeyPatch, stream: str
) -> None:
    given = fzf(r"1\t\000")
    monkeypatch.setattr(getattr(sys, stream), "isatty", lambda: False, raising=False)
    with Store.open(store) as opened:
        date = opened.sessions()[0].sid.partition("-")[0]
    assert "matches 3 sessions" in run("log", date, code=3, err=True)
    assert not given.exists()


# ---- fzf itself


@pytest.mark.skipif(shutil.which("fzf") is None, reason="requires fzf")
@pytest.mark.parametrize(
    ("typed", "count", "key", "out", "code"),
    [("butt", "1/3", "\r", "butter\n", 0), ("", "3/3", "\x1b", "", 130), ("zebra", "0/3", "\r", "", 1)],
)
def test_fzf(store: Path, here: Path, typed: str, count: str, key: str, out: str, code: int) -> None:
    words = [sys.executable, "-m", "gitsession", "prompts", "--stored", "--pick"]
    options = "--multi --print-query --preview 'touch owned'"
    terminal = Terminal(words, {**os.environ, "TERM": "xterm", "FZF_DEFAULT_OPTS": options}, piped=True)
    terminal.wait_for("3/3")
    terminal.keys(typed)
    if typed:
        terminal.wait_for(count)
    assert "\x1b]0;owned" not in terminal.shown
    terminal.keys(key)
    assert terminal.end() == (out, code)
    assert not list(here.glob("owned*"))
