"""Tests of the architecture page: the modules that it names exist, and the flows that it describes are correct."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import gitsession
from gitsession import Message, Store

HOUSE = Path(gitsession.__file__).parent
PAGE = (HOUSE.parent / "docs/explanation/architecture.md").read_text("utf-8")


def section(title: str) -> str:
    return PAGE.split(f"### {title}\n")[1].split("\n##")[0]


def modules(text: str) -> list[str]:
    """Return the modules that a text names, as paths below the package."""
    return re.findall(r"`([\w/]+/\w+\.py)`", text)


def entered(call: Callable[[], object]) -> set[str]:
    """Return the modules whose functions run during ``call``."""
    found: set[str] = set()

    def seen(frame, event, arg) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(f"{HOUSE}{os.sep}"):
            found.add(Path(frame.f_code.co_filename).relative_to(HOUSE).as_posix())

    sys.setprofile(seen)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.parametrize("module", sorted(set(modules(PAGE)) - {"tests/test_floors.py"}))
def test_a_module_of_the_page_exists(module: str) -> None:
    assert (HOUSE / module).is_file()


def test_the_page_names_every_package() -> None:
    packages = {path.parent.name for path in HOUSE.glob("*/__init__.py")}
    rows = PAGE.split("## Flows")[0]
    assert packages <= set(re.findall(r"`(\w+)`", rows))


def test_an_append_passes_the_modules_that_the_page_names(tmp_path: Path) -> None:
    acknowledged, flushed = section("Append").split("6. Later")
    with Store.create(tmp_path / "a.git") as store:
        session = store.new_session(agent="x")
        session.append(Message.user("one"))
        passed = entered(lambda: session.append(Message.user("two")))
        assert set(modules(acknowledged)) <= passed
        later = entered(store.flush)
        assert set(modules(flushed)) <= later


def test_an_import_passes_the_modules_that_the_page_names(tmp_path: Path) -> None:
    words = section("Import").split("A large file")[0]
    path = tmp_path / "session.jsonl"
    path.write_text(
        '{"type":"session","version":3,"id":"s1","timestamp":"2026-02-01T00:00:00.000Z","cwd":"/x"}\n'
        '{"type":"message","id":"a","parentId":null,"timestamp":"2026-02-01T00:00:01.000Z",'
        '"message":{"role":"user","content":"hi","timestamp":1}}\n'
    )
    with Store.create(tmp_path / "a.git") as store:
        passed = entered(lambda: store.import_file(path))
        path.write_bytes(path.read_bytes() + path.read_bytes().splitlines(keepends=True)[1].replace(b'"a"', b'"b"'))
        passed |= entered(lambda: store.import_file(path))
    of_other_sessions = {"discovery/databases.py", "importing/file_history.py", "importing/side_files.py"}
    assert set(modules(words)) - of_other_sessions <= passed


def test_a_pull_passes_the_modules_that_the_page_names(tmp_path: Path) -> None:
    hub = tmp_path / "hub.git"
    subprocess.run(["git", "init", "-q", "--bare", hub], check=True)
    words = section("Pull and push").split("6. Push")[0]
    with Store.create(tmp_path / "a.git") as here:
        here.new_session(agent="x").append(Message.user("one"))
        here.remotes.add("origin", str(hub))
        here.remotes.push("origin")
        there, _ = Store.clone(str(hub), tmp_path / "b.git")
        here.new_session(agent="x").append(Message.user("two"))
        here.remotes.push("origin")
        with there:
            passed = entered(there.remotes.pull)
    assert set(modules(words)) - {"store/histories.py"} <= passed
