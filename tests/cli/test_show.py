"""Tests of ``gitsession show`` with tool calls."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from builders import joined
from claude_code import SESSION, assistant, call, result, user
from commands import Run, document

from gitsession import Mark, Message, ModeChange, Permission, PlanChange, Todo, TodoItem
from gitsession.api import Store
from gitsession.cli import output
from gitsession.cli import text as terminal
from gitsession.cli.commands import show


def shown(run: Run, here: Path, *blocks: Any) -> list[str]:
    """Return the lines of the content of an answer."""
    (here / f"{SESSION}.jsonl").write_bytes(joined(user("a", None), assistant("b", "a", *blocks)))
    run("import", f"{SESSION}.jsonl")
    [row] = document(run("ls", "--json"))["sessions"]
    return run("show", row["session"]).partition("\n\n")[2].splitlines()


@pytest.mark.parametrize(
    "arguments",
    [
        {"description": "List files", "command": "ls\ndate"},
        {"workdir": "/w", "cmd": "ls\ndate"},
        {"workdir": "/w", "command": ["bash", "-lc", "ls\ndate"]},
    ],
    ids=["description first", "folder first", "list"],
)
def test_the_whole_command_is_shown(run: Run, here: Path, arguments: dict[str, Any]) -> None:
    assert shown(run, here, call("c", "Bash", **arguments)) == ["    -> Bash: ls", "    date"]


def test_names_cannot_imitate_other_lines(run: Run, here: Path) -> None:
    lines = shown(
        run,
        here,
        call("c", "Write", file_path="a\nb\x1b[31m", content="1\n"),
        call("d", "x\ny\x1b[31m", other=1),
        {"type": "un\nknown\x1b[31m"},
    )
    assert all(line.startswith("    ") and "\x1b" not in line for line in lines)


def shown_result(run: Run, here: Path, name: str, text: str, **arguments: Any) -> list[str]:
    """Return the lines of the result of a tool call."""
    lines = joined(user("a", None), assistant("b", "a", call("c", name, **arguments)), result("d", "b", "c", text))
    (here / f"{SESSION}.jsonl").write_bytes(lines)
    run("import", f"{SESSION}.jsonl")
    return run("show", f"claude:{SESSION}").partition("\n\n")[2].splitlines()


def test_result_has_the_title_of_its_call_and_the_outcome(run: Run, here: Path) -> None:
    lines = shown_result(run, here, "Read", "     1\tx = 1\n     2\ty = 2", file_path="/work/a.py", offset=1)
    assert lines == ["    <- Read a.py:1  [2 lines]", "         1 x = 1", "         2 y = 2"]


def test_calls_are_shown_by_their_titles_or_with_all_arguments(run: Run, here: Path) -> None:
    calls = [call("c", "Read", file_path="/work/a.py"), call("d", "Ask", topic="x", number=1)]
    assert shown(run, here, *calls) == ["    -> Read a.py", '    -> Ask {"topic": "x", "number": 1}']


@pytest.fixture
def colored(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (terminal, show):
        monkeypatch.setattr(module, "wants_color", lambda: True)
    monkeypatch.setattr(output, "_color", lambda: True)


BLUE, GREEN, MAGENTA, END = "\x1b[34m", "\x1b[32m", "\x1b[35m", "\x1b[0m"


@pytest.mark.usefixtures("colored")
def test_code_in_fences_is_highlighted(run: Run, here: Path) -> None:
    text = "def a\n```python\ndef f(): pass\n```\n```\ndef g\n```\n```nosuch\ndef h\n```\n```py\n```"
    lines = shown(run, here, {"type": "text", "text": text})
    code = f"    {MAGENTA}def{END} {BLUE}f{END}(): {MAGENTA}pass{END}"
    assert lines == ["    def a", "    ```python", code, *(f"    {line}" for line in text.split("\n")[3:])]


@pytest.mark.usefixtures("colored")
def test_written_file_is_highlighted(run: Run, here: Path) -> None:
    lines = shown(run, here, call("c", "Write", file_path="/work/a.py", content="def f(): pass\n"))
    assert lines[2:] == [f"    {GREEN}+{END}{MAGENTA}def{END} {BLUE}f{END}(): {MAGENTA}pass{END}"]
    lines = shown(run, here, call("c", "Write", file_path="/work/a", content="def f(): pass\n"))
    assert lines[2:] == [f"    {GREEN}+def f(): pass{END}"]


@pytest.mark.usefixtures("colored")
def test_read_file_is_highlighted(run: Run, here: Path) -> None:
    lines = shown_result(run, here, "Read", "     1→def f(): pass", file_path="/work/a.py")
    number = "\x1b[2m     1→\x1b[0m"
    assert lines[1:] == [f"    {number}{MAGENTA}def{END} {BLUE}f{END}(): {MAGENTA}pass{END}"]


def test_without_color_code_is_plain(run: Run, here: Path) -> None:
    text = "```python\ndef f(): pass\n```"
    assert shown(run, here, {"type": "text", "text": text}) == [f"    {line}" for line in text.split("\n")]


def test_the_checkpoint_of_an_entry_has_the_files_at_that_entry(
    run: Run, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITSESSION_DIR", str(tmp_path / "store.git"))
    (here / "a.txt").write_text("one\n")
    with Store.create(tmp_path / "store.git") as store:
        session, other = (store.new_session(agent="agent", cwd=str(here)) for _ in range(2))
        session.append(Message.user("change it"))
        with session.files.checkpoint(here, reason="edit"):
            (here / "a.txt").write_text("two\n")
        session.append(Message.user("and again"))
        other.append(Message.user("no files"))
    for name, content in (("leaf~1", "one\n"), ("leaf", "two\n")):
        found = document(run("show", f"{session.id}@{name}", "--json"))["checkpoint"]
        assert git(tmp_path / "store.git", "show", f"{found}:files/a.txt") == content
        [row] = [line for line in run("show", f"{session.id}@{name}").splitlines() if line.startswith("  files  ")]
        assert row == f"  files  gitsession git ls-tree -r {found[:12]} files/"
    assert git(tmp_path / "store.git", *row.split()[3:]).split()[1::2] == ["blob", "files/a.txt"]
    assert document(run("show", other.id, "--json"))["checkpoint"] is None
    assert "\n  files  " not in run("show", other.id)


def test_values_of_the_state_cannot_imitate_other_lines(run: Run, here: Path) -> None:
    with Store.create(here / "s.git") as store:
        session = store.new_session(agent="agent", cwd=str(here))
        session.append(Message.user("begin"))
        evil = "e\x1b[2J\r\n  chain  forged\n"
        session.append(Todo(items=(TodoItem(evil, "in_progress"), TodoItem("x" * 10_000))))
        session.append(Permission(decision=evil, tool=evil, pattern=evil, scope="always"))
        session.append(ModeChange(mode=evil))
        session.append(Mark(name=evil, value=evil))
        session.append(PlanChange(plan=evil))
        sid = session.id
    shown, whole = (run("--store", "s.git", "show", sid, *words) for words in ((), ("--state",)))
    for text in (shown, whole):
        assert "\x1b" not in text
        [chain] = [line for line in text.splitlines() if line.startswith("  chain  ")]
        assert "forged" not in chain
        assert max(map(len, text.partition("\n\n")[0].splitlines())) < 1_000
    listed = whole.partition("Todo list:\n")[2].partition("\n\n")[0].splitlines()
    assert [line[:10] for line in listed] == ["      [>] ", "      [ ] "]
    assert len(whole.partition("Permissions:\n")[2].partition("\n\n")[0].splitlines()) == 1


def git(repository: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", repository, *words], check=True, capture_output=True, text=True).stdout
