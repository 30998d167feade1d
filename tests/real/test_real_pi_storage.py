"""Comparison of hooks/pi with pi's own storage: pi's tests, and random calls of both.

It requires the released packages in ``$LAB``: ``npm i --prefix $LAB/pi-087 @earendil-works/pi-agent-core@0.87.1``, and
0.83.0 in ``$LAB/pi-083``. Node 22 is in ``$LAB/node22``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from places import ROOT

from gitsession import Store
from gitsession.formats import FORMATS
from gitsession.store import refs

LAB = Path(os.environ.get("LAB", "/nonexistent"))
NODE = LAB / "node22/node_modules/.bin/node"
CORE = "node_modules/@earendil-works/pi-agent-core"


@pytest.fixture(autouse=True)
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the command ``gitsession`` to the path."""
    (tmp_path / "gitsession").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gitsession "$@"\n')
    (tmp_path / "gitsession").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def node(release: str, program: str, *words: str) -> Any:
    if not (LAB / release / CORE).is_dir() or not NODE.exists():
        pytest.skip(f"{release} is not installed in $LAB")
    command = [str(NODE), str(ROOT / "tests/support" / program), str(ROOT / "hooks/pi"), str(LAB / release / CORE)]
    done = subprocess.run([*command, *words], capture_output=True, text=True, check=False, timeout=1200)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_tests_of_pi_pass() -> None:
    assert node("pi-087", "pi_storage_real.mjs", "conformance") == {"storage": 21, "repo": 17, "forks": 15}


@pytest.mark.parametrize("seed", range(1, 6))
def test_random_commits_have_the_results_of_the_storage_of_pi(seed: int, tmp_path: Path) -> None:
    found = node("pi-087", "pi_storage_real.mjs", "random", str(seed), "60")
    assert found["commits"] > 30
    [place] = tmp_path.glob("*/store.git")
    with Store.open(place) as store:
        assert store.verify().problems == []
        assert_imports_are_equal(store)


@pytest.mark.parametrize("seed", range(1, 4))
def test_random_calls_have_the_results_of_the_files_of_pi(seed: int) -> None:
    found = node("pi-083", "pi_files_real.mjs", str(seed), "60")
    assert found["calls"] > 30
    with Store.open() as store:
        assert store.verify().problems == []
        assert_imports_are_equal(store)


def program_of_the_page(release: str, number: int, *words: str) -> str:
    """Run a program of the how-to page in the working directory, and return its output."""
    if not (LAB / release / CORE).is_dir() or not NODE.exists():
        pytest.skip(f"{release} is not installed in $LAB")
    folder = Path.cwd() / release
    if not folder.exists():
        folder.mkdir()
        shutil.copytree(ROOT / "hooks/pi", folder / "gitsession-pi")
        (folder / "node_modules").symlink_to(LAB / release / "node_modules")
    page = (ROOT / "docs/how-to/keep-pi-sessions.md").read_text()
    (folder / "program.mjs").write_text(re.findall(r"^```js\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)[number])
    command = [str(NODE), "program.mjs", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_programs_of_the_page_run_unchanged() -> None:
    assert program_of_the_page("pi-087", 0, "one", "two") == "one\ntwo\n"
    assert program_of_the_page("pi-087", 0, "three") == "one\ntwo\nthree\n"
    assert program_of_the_page("pi-083", 1) == "1\n"
    with Store.open() as store:
        assert {row.title for row in store.sessions()} == {"Notes", None}
        assert sorted(len(row.branches) for row in store.sessions()) == [1, 1]


def assert_imports_are_equal(store: Store) -> None:
    """Fail unless an import of the file of each session stores the same commits."""
    for row in store.sessions():
        with Store.in_memory() as other:
            done = other.agents.import_data(FORMATS["pi"], store.export(row.sid, original=True).data)
            assert done.session == row.sid
            prefix = refs.session(row.sid)
            assert dict(other.objects.refs(prefix)) == dict(store.objects.refs(prefix))
