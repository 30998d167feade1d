"""Tests of the search for session files, and of files that have not changed since their import."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from builders import pi_file, talk

from gitsession import Store
from gitsession.api.imports import Imports
from gitsession.discovery import discover, sources
from gitsession.formats import FORMATS, ROOTS


@pytest.fixture
def home(tmp_path):
    """Return a home directory with folders, links and odd files at each depth of each agent's folders."""
    for roots in ROOTS.values():
        for root in roots:
            parts = root.pattern.split("/")
            for depth in range(len(parts) + 2):
                folders = ["a-b" if "*" in part else part for part in parts[:-1]]
                folder = tmp_path.joinpath(root.home, *folders[:depth], *["sub"][: depth > len(parts)])
                folder.mkdir(parents=True, exist_ok=True)
                for name in (parts[-1].replace("*", "x"), parts[-1].replace("*", "a"), "other.txt", ".hidden.jsonl"):
                    (folder / name).touch()
                for link, target in (("link", "."), ("broken.jsonl", "nowhere"), ("a", tmp_path), ("loop", "loop")):
                    if not os.path.lexists(folder / link):
                        (folder / link).symlink_to(target)
                (folder / "folder.jsonl").mkdir(exist_ok=True)
    return tmp_path


def test_search_finds_the_same_files_as_a_glob_in_the_same_order(home):
    expected = [
        (path, FORMATS[agent])
        for agent, roots in ROOTS.items()
        for root in roots
        for path in sorted((home / root.home).glob(root.pattern))
    ]
    assert len(expected) > 30
    assert list(discover.find_all(home, {}, unreadable=True)) == expected
    assert list(discover.find_all(home, {})) == [each for each in expected if each[0].is_file()]


def test_only_files_that_changed_are_opened_again(tmp_path, monkeypatch):
    folder = tmp_path / ".pi/agent/sessions/--w--"
    folder.mkdir(parents=True)
    for number in range(3):
        (folder / f"{number}.jsonl").write_bytes(pi_file(*talk("a1"), id=f"s{number}"))
    with Store.create(tmp_path / "s.git") as store:
        first = Imports(store.agents)
        for path, format in first.skip_unchanged(discover.find_paths(tmp_path, {})):
            first.take(path, format)
        first.finish()
        assert len(first.done) == 3
        with (folder / "1.jsonl").open("ab") as file:
            file.write(talk("a2", after="a1")[0] + b"\n")
        (folder / "2.jsonl").unlink()
        (folder / "3.jsonl").write_bytes(pi_file(*talk("a1"), id="s3"))
        again = Imports(store.agents)
        rest = again.skip_unchanged(discover.find_paths(tmp_path, {}))
        assert [path.name for path, _ in rest] == ["1.jsonl", "3.jsonl"]
        assert again.unchanged == 1


def test_databases_and_scattered_sessions_are_never_skipped_by_one_status(tmp_path):
    with Store.create(tmp_path / "s.git") as store:
        done = store.agents.import_data(FORMATS["pi"], pi_file(*talk("a1")))
        path = tmp_path / "file"
        path.touch()
        store.catalogue().remember([(path, path.stat(), done.session)])
        work = Imports(store.agents)
        names = ["opencode", "librecode", "pi"]
        rest = work.skip_unchanged((str(path), FORMATS[name]) for name in names)
        assert [format.AGENT for _, format in rest] == ["opencode", "librecode"]


NAMES = ["a.jsonl", "a.b.jsonl", "a", ".hidden", ".hidden.jsonl", "a.", "a..b", "..a", "x y.md", "f.d/a", "ä.json"]


@pytest.mark.parametrize("name", NAMES)
def test_name_of_a_file_is_its_absolute_path_without_the_suffix(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    expected = (tmp_path / name).with_suffix("").as_posix()
    given = (Path(name), name, tmp_path / name, str(tmp_path / name))
    assert [sources.name_of(path) for path in given] == [expected] * 4
