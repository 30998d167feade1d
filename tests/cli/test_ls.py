"""Tests of ``gitsession ls``: columns, filters, order, and formats."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from builders import header, said
from claude_code import SESSION, assistant, call, user
from commands import Run, document

from gitsession.cli import exits
from gitsession.cli.session_format import FIELDS
from gitsession.cli.text import short_number
from gitsession.line_text import ago


@pytest.fixture
def two(run: Run, here: Path) -> tuple[str, str]:
    """Import a session of pi and one of Claude Code, and return their ids."""
    (here / "pi.jsonl").write_bytes(
        b"\n".join([header("0199-abcd", cwd=str(here)), said("a", None, "Fix the login"), said("b", "a", "more")])
        + b"\n"
    )
    (here / f"{SESSION}.jsonl").write_bytes(
        b"\n".join(
            [
                user("a", None, "<command-name>/init</command-name>"),
                assistant("b", "a", call("c", "Write", file_path="/work/src/app.py", content="1\n")),
            ]
        )
        + b"\n"
    )
    run("import", "pi.jsonl", f"{SESSION}.jsonl")
    found = dict(line.split(" ", 1) for line in run("ls", "--format", "%(agent) %(session)").splitlines())
    run("label", f"{found['pi']}@leaf", "before the change")
    return found["pi"], found["claude"]


def selected(run: Run, *words: str) -> list[str]:
    code = exits.OK if words[-1:] != ("none",) else exits.NOTHING
    return run("ls", "--format", "%(session)", *(word for word in words if word != "none"), code=code).split()


def test_each_filter_selects_sessions(run: Run, two: tuple[str, str]) -> None:
    pi, claude = two
    assert set(selected(run)) == {pi, claude}
    for words in (
        ("--agent", "claude"), ("--model", "OPUS"), ("--file", "src/app.py"), ("--file", "/work/src"),
        ("--file", "/work"), ("--project", "/work"),
    ):  # fmt: skip
        assert selected(run, *words) == [claude], words
    assert selected(run, "--label", "Before") == [pi]
    assert set(selected(run, "--branch", "main")) == {pi, claude}
    for words in (
        ("--branch", "other"), ("--file", "pp.py"), ("--file", "/work/src/app"), ("--model", "gpt"),
        ("--until", "2020-01-01"), ("--since", "1d"),
    ):  # fmt: skip
        assert selected(run, *words, "none") == [], words


def test_a_hidden_file_is_found_in_any_folder(run: Run, two: tuple[str, str], here: Path) -> None:
    writing = call("c", "Write", file_path="/work/.github/ci.yml", content="1\n")
    lines = [user("a", None), assistant("b", "a", writing)]
    (here / f"{SESSION}.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    run("import", f"{SESSION}.jsonl")
    for name in (".github/ci.yml", ".github", ".github//ci.yml", "/work/", "/"):
        assert selected(run, "--file", name) == [two[1]], name
    assert selected(run, "--file", "./.github/ci.yml", "none") == []


def test_a_replaced_label_selects_nothing(run: Run, two: tuple[str, str]) -> None:
    run("label", f"{two[0]}@leaf", "Überprüft")
    assert selected(run, "--label", "before", "none") == []
    assert selected(run, "--label", "ÜBER") == [two[0]]


def test_bytes_that_are_not_utf_8_select_nothing(run: Run, two: tuple[str, str]) -> None:
    for name in ("--file", "--label", "--model", "--branch", "--agent", "--project"):
        assert selected(run, name, "\udcff", "none") == []


def test_a_commit_selects_the_sessions_that_it_names(run: Run, two: tuple[str, str], here: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", *words], cwd=here, check=True, capture_output=True)

    git("init")
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "--allow-empty", "-m", f"x\n\nSession: {two[0]}@abcd")
    assert selected(run, "--commit", "HEAD") == [two[0]]
    assert "unknown commit 'HEAD~1'" in run("ls", "--commit", "HEAD~1", code=2, err=True)


def test_the_order(run: Run, two: tuple[str, str]) -> None:
    for key in ("entries", "agent", "title", "updated", "created", "tokens", "cost", "files", "project"):
        assert set(selected(run, "--sort", key)) == set(two)
    assert selected(run, "--sort", "agent") == selected(run, "--sort", "-agent")[::-1] == [two[1], two[0]]
    assert selected(run, "--sort", "-files", "-n", "1") == [two[1]]


def test_the_format(run: Run, two: tuple[str, str]) -> None:
    words = ("--agent", "claude", "--format", "%(title)|%(files)|%(branches)|%(source_id)|%%(x)|%(parent)|")
    assert run("ls", *words) == f"/init|1|1|{SESSION}|%(x)||\n"
    assert run("ls", "-z", "--format", "%(agent)").count("\0") == 2
    assert "unknown field 'x'" in run("ls", "--format", "%(x)", code=2, err=True)
    assert "only with --format" in run("ls", "-z", code=2, err=True)


@pytest.mark.parametrize(("option", "value"), [("--sort", "sizes"), ("--format", "%(x)")])
def test_error_about_a_field_fits_on_lines_of_80_columns(
    run: Run, two: tuple[str, str], option: str, value: str
) -> None:
    lines = run("ls", option, value, code=2, err=True).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1] == "hint: run `gitsession ls --help`"
    listed = " ".join(run("ls", "--help").split())
    assert ", ".join(FIELDS) in listed and "files, title, agent, project" in listed


@pytest.mark.parametrize(("place", "command"), [("--trash", "rm"), ("--archived", "archive")])
def test_sessions_in_the_trash_and_in_the_archive_can_be_filtered(
    run: Run, two: tuple[str, str], place: str, command: str
) -> None:
    pi, claude = two
    for sid in two:
        run(command, sid)
    assert set(selected(run, place)) == {pi, claude}
    for words in (
        ("--agent", "claude"), ("--model", "OPUS"), ("--file", "src/app.py"), ("--project", "/work"),
        ("--sort", "-files", "-n", "1"),
    ):  # fmt: skip
        assert selected(run, place, *words) == [claude], words
    assert set(selected(run, place, "--branch", "main")) == {pi, claude}
    assert selected(run, place, "--label", "Before") == [pi]
    assert selected(run, place, "--here") == [pi]
    [line] = run("ls", place, "--agent", "pi").splitlines()
    assert line.startswith(pi) and line.endswith("Fix the login")
    [found] = document(run("ls", place, "--agent", "pi", "--json"))["sessions"]
    assert found == next(row for row in document(run("ls", place, "--json"))["sessions"] if row["session"] == pi)
    assert "no sessions of agent 'codex'" in run("ls", place, "--agent", "codex", code=1, err=True)
    assert "(2 sessions in the" in run("ls", place, "--branch", "x", code=1, err=True)
    assert "no sessions found (0 sessions in" in run("ls", "--agent", "", "--branch", "x", code=1, err=True)


def test_the_trash_and_the_archive_are_listed_separately(run: Run, two: tuple[str, str]) -> None:
    assert "cannot be combined" in run("ls", "--trash", "--archived", code=2, err=True)
    for place, name in (("--trash", "trash"), ("--archived", "archive")):
        assert f"the {name} is empty" in run("ls", place, code=1, err=True)


@pytest.mark.parametrize("columns", [80, 100, 160])
def test_no_line_is_wider_than_the_terminal(
    run: Run, two: tuple[str, str], columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    run("name", two[1], "a title " * 20)
    lines = run("ls").splitlines()
    assert max(map(len, lines)) <= columns
    assert ("FILES" in lines[0]) == (columns >= 100)
    assert all(any(sid.rpartition("-")[2].startswith(line.split()[0]) for sid in two) for line in lines[1:])


def test_a_short_id_selects_its_session(run: Run, two: tuple[str, str]) -> None:
    for line in run("ls").splitlines()[1:]:
        assert run("log", line.split()[0], "-n", "1")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "just now"), (59, "just now"), (60, "1 min ago"), (3599, "59 min ago"), (3600, "1 hour ago"),
        (86_399, "23 hours ago"), (86_400, "1 day ago"), (13 * 86_400, "13 days ago"), (14 * 86_400, "2 weeks ago"),
        (-30, "just now"), (-86_400, "2026-11-25"), (71 * 86_400, "2026-09-14"),
    ],
)  # fmt: skip
def test_relative_times(seconds: int, text: str) -> None:
    now_ms = 1_795_521_600_000  # 2026-11-24 12:00:00 UTC
    assert ago(now_ms - seconds * 1000, now_ms) == text
    assert ago(0, now_ms) == "-"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "-"), (1, "1"), (999, "999"), (1000, "1.0k"), (9_999, "9.9k"), (10_000, "10k"), (999_999, "999k"),
        (1_250_000, "1.2M"), (10**7, "10M"), (10**9, "1.0G"), (2**40, "1099G"),
    ],
)  # fmt: skip
def test_short_numbers(number: int, text: str) -> None:
    assert short_number(number) == text
