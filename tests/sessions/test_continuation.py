"""Tests of sessions resumed from an earlier entry: they name the original session and count only their own tokens."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from builders import joined, pi_file, said
from claude_code import talk as claude_talk
from codex_files import assistant as codex_answer
from codex_files import joined as codex_lines
from codex_files import user as codex_prompt
from commands import Run, document

USAGE = {"input": 100, "output": 20, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 120}
ANSWER = {"role": "assistant", "provider": "p", "model": "m", "usage": USAGE, "stopReason": "stop"}


def turn(prompt: str, answer: str, after: str | None) -> list[bytes]:
    return [said(prompt, after), said(answer, prompt, **ANSWER)]  # type: ignore[arg-type]


@pytest.fixture
def original(here: Path, run: Run) -> str:
    """Import a session of pi with two turns of 120 tokens each."""
    (here / "a.jsonl").write_bytes(pi_file(*turn("a", "b", None), *turn("c", "d", "b"), cwd=str(here)))
    return str(document(run("import", "a.jsonl", "--json"))["sessions"][0]["session"])


def sessions(run: Run) -> dict[str, dict[str, object]]:
    return {row["session"]: row for row in document(run("ls", "--json"))["sessions"]}


def go_on(file: Path, agent: str) -> None:
    """Append one more turn, as the agent does."""
    lines = [json.loads(line) for line in file.read_bytes().splitlines()]
    if agent in ("pi", "omp"):
        more = joined(*turn("x", "y", lines[-1]["id"]))
    elif agent == "claude":
        leaf = next(line["uuid"] for line in reversed(lines) if "uuid" in line)
        more = joined(*claude_talk("x", "y", after=leaf))
    else:
        more = codex_lines(codex_prompt("more"), codex_answer("yes"))
    file.write_bytes(file.read_bytes() + more)


@pytest.mark.parametrize("agent", ["pi", "omp", "claude", "codex"])
def test_a_resumed_session_names_the_one_it_continues(run: Run, original: str, agent: str) -> None:
    entry = document(run("show", f"{original}@leaf~2", "--json"))["id"]
    file = Path(document(run("resume", f"{original}@leaf~2", "--in", agent, "--json"))["path"])
    go_on(file, agent)
    run("import", "--all")
    found = sessions(run)
    [other] = found.keys() - {original}
    assert (found[original]["continues"], found[other]["continues"]) == (None, original)
    assert document(run("show", f"{other}@root", "--json"))["origin"] == {"session": original, "entry": entry}
    assert [
        line for line in run("ls").splitlines() if "↳" in line and other.rpartition("-")[2].startswith(line.split()[0])
    ]
    lines = run("tree", original).splitlines()
    [at] = [number for number, line in enumerate(lines) if "↳" in line]
    assert other.rpartition("-")[2][:7] in lines[at]
    assert lines[at - 1].startswith(entry[:8])
    [index] = Path.home().rglob("index.db")
    index.unlink()
    assert sessions(run) == found


def test_a_purge_before_the_import_leaves_the_lineage(run: Run, original: str) -> None:
    file = Path(document(run("resume", f"{original}@leaf~2", "--in", "pi", "--json"))["path"])
    run("purge", f"{original}@leaf", "--yes")
    go_on(file, "pi")
    run("import", "--all")
    found = sessions(run)
    [other] = found.keys() - {original}
    assert found[other]["continues"] == original
    assert (found[original]["tokens"], found[other]["tokens"]) == (120, 120)


@pytest.mark.parametrize("agent", ["pi", "omp"])
def test_tokens_of_copied_lines_are_counted_once(run: Run, original: str, agent: str) -> None:
    file = Path(document(run("resume", f"{original}@leaf~2", "--in", agent, "--json"))["path"])
    go_on(file, agent)
    run("import", "--all")
    assert sorted(row["tokens"] for row in sessions(run).values()) == [120, 240]  # type: ignore[type-var]
    go_on(file, agent)
    run("import", "--all")
    assert sorted(row["tokens"] for row in sessions(run).values()) == [240, 240]  # type: ignore[type-var]


def test_rewound_session_is_continued_by_the_resumed_one(run: Run, original: str) -> None:
    run("rewind", f"{original}@leaf~2", "--conversation")
    file = Path(document(run("resume", original, "--json"))["path"])
    go_on(file, "pi")
    run("import", "--all")
    [other] = sessions(run).keys() - {original}
    assert sessions(run)[other]["continues"] == original
    assert sessions(run)[other]["tokens"] == 120


def test_session_resumed_as_itself_continues_no_other(run: Run, original: str) -> None:
    file = Path(document(run("resume", original, "--in", "pi", "--json"))["path"])
    go_on(file, "pi")
    run("import", "--all")
    assert {row["continues"] for row in sessions(run).values()} == {None}


def test_clone_has_the_continued_session(run: Run, original: str, here: Path) -> None:
    go_on(Path(document(run("resume", f"{original}@leaf~2", "--in", "pi", "--json"))["path"]), "pi")
    run("import", "--all")
    [store] = [path.parent.parent for path in Path.home().rglob("index.db")]
    run("maintain")
    subprocess.run(["git", "clone", "-q", "--mirror", store, here / "hub.git"], check=True)
    run("clone", str(here / "hub.git"), str(here / "copy.git"))
    rows = document(run("--store", "copy.git", "ls", "--json"))["sessions"]
    assert {row["continues"] for row in rows} == {None, original}


def test_lines_of_the_agent_are_exported(run: Run, original: str) -> None:
    file = Path(document(run("resume", f"{original}@leaf~2", "--in", "pi", "--json"))["path"])
    go_on(file, "pi")
    run("import", "--all")
    [other] = sessions(run).keys() - {original}
    assert run("export", other).encode() == file.read_bytes()
    assert json.loads(run("verify", "--json"))["problems"] == []
