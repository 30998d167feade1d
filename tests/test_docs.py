"""Documentation that fails when it is wrong: every command block runs, every command and decision is there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from builders import header, said
from places import ROOT

from gitsession.cli.app import COMMANDS

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_COMMANDS = [page for page in PAGES if "```console" in page.read_text()]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a session file, with ``gitsession`` and ``python`` on the PATH: what the pages assume."""
    place = tmp_path / "work"
    place.mkdir()
    lines = [
        header("docs", cwd=str(place)),
        said("a0000001", None, "Say hello", at=1),
        said("a0000002", "a0000001", "hello, world", role="assistant", at=2),
    ]
    (place / "session.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    agents = Path.home() / ".pi/agent/sessions/--work--"
    agents.mkdir(parents=True)
    shutil.copy(place / "session.jsonl", agents / "2026-02-01T00-00-00-000Z_docs.jsonl")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, words in (("gitsession", f'"{sys.executable}" -m gitsession'), ("python", f'"{sys.executable}"')):
        (programs / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    return place


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.name)
def test_every_command_of_a_page_runs_as_it_stands(page: Path, folder: Path) -> None:
    lines = [line for block in blocks(page, "console") for line in block.splitlines()]
    assert all(line.startswith("$ ") for line in lines), "a console block holds commands only"
    script = "\n".join(line.removeprefix("$ ") for line in lines)
    place = ROOT if page.name == "contributing.md" else folder
    done = subprocess.run(
        ["bash", "-xeuo", "pipefail", "-c", script], cwd=place, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


def test_the_program_of_the_readme_runs_as_it_stands(folder: Path) -> None:
    [program] = blocks(ROOT / "README.md", "python")
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "user: Fix the login redirect" in done.stdout


def test_the_programs_of_the_page_on_compaction_run_as_they_stand(folder: Path) -> None:
    first, second = blocks(ROOT / "docs/compaction.md", "python")
    for program, begins in ((first, "2953 tokens now, 6640 before"), (second, "Fix the login redirect")):
        done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(begins)


def test_the_program_of_the_page_on_contexts_runs_as_it_stands(folder: Path) -> None:
    [program] = blocks(ROOT / "docs/context.md", "python")
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Fix the login redirect" in done.stdout


def test_the_programs_of_the_page_on_live_run_as_they_stand(folder: Path) -> None:
    programs = blocks(ROOT / "docs/live.md", "python")
    assert len(programs) == 2
    for program in programs:
        done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_program_of_the_page_on_sync_runs_as_it_stands(folder: Path) -> None:
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", "hub.git"], cwd=folder, check=True)
    [program] = blocks(ROOT / "docs/sync.md", "python")
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[('refs/heads/main', 'ahead')]\n"


def test_the_program_of_the_page_on_git_runs_as_it_stands(folder: Path) -> None:
    [program] = blocks(ROOT / "docs/git.md", "python")
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    walked, changed, *blamed, counted = done.stdout.splitlines()
    assert (walked, changed, counted) == ("['assistant', 'user', 'session']", "['entry.cbor']", "(1, 0)")
    # Random bytes of an entry may hold line ends: then there is more than one line to blame.
    assert all(re.fullmatch("[1-9] (assistant|user|session)", line) for line in blamed), blamed
    assert any(line.endswith(" assistant") for line in blamed)


def test_the_program_of_the_page_on_the_archive_runs_as_it_stands(folder: Path) -> None:
    [program] = blocks(ROOT / "docs/archive.md", "python")
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"\['[0-9]{8}-[a-z2-7]{13}'\]\n", done.stdout)


def test_every_setting_of_a_summarizer_is_on_the_page() -> None:
    told = re.findall(r"^\| `gitsession\.summarizer(\w*)`", (ROOT / "docs/compaction.md").read_text(), re.MULTILINE)
    source = (ROOT / "gitsession/compaction/summarizers/options.py").read_text()
    assert {name.lower() for name in told} == set(re.findall(r'said\("(\w*)"', source))


def test_the_readme_has_two_commands_and_ci_runs_them() -> None:
    demo, tests = blocks(ROOT / "README.md", "sh")
    assert "gitsession demo" in demo
    assert "pytest" in tests
    assert "$(readme 1)" in (ROOT / ".ci/run").read_text()
    assert "$(readme 2)" in (ROOT / ".ci/run").read_text()


def test_a_contributor_sets_up_as_ci_does() -> None:
    [commands] = blocks(ROOT / "docs/contributing.md", "sh")
    run = f"{blocks(ROOT / 'README.md', 'sh')[0]}{(ROOT / '.ci/run').read_text()}"
    assert [line for line in commands.splitlines() if line not in run] == [". .venv/bin/activate"]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_in_the_manual(name: str) -> None:
    assert re.search(rf"^## gitsession {name}( log)?$", (ROOT / "docs/commands.md").read_text(), re.MULTILINE)


def test_every_link_between_pages_leads_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
