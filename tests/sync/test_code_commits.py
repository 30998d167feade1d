"""Tests of ``sync.code_commits``: the lines that a commit of the user's repository adds, with git as the judge."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from projects import begin_project, git

from gitsession.sync.code_commits import CodeCommit, added_lines, changed_files, find_commit, sessions_of

HIDDEN = "\x1b[31m\u202e"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return begin_project(tmp_path / "project", monkeypatch)


def committed(place: Path, message: str = "Work") -> CodeCommit:
    git(place, "add", "-A")
    git(place, "commit", "-q", "--allow-empty", "-m", message)
    found = find_commit(str(place), "HEAD")
    assert found is not None
    return found


Added = dict[str, tuple[str, list[int]] | None]


def added_by(commit: CodeCommit) -> Added:
    """Return the text and the numbers of the added lines of each file; ``None`` for a binary file."""
    return {file.path: None if file.added is None else added_lines(commit, file) for file in changed_files(commit)}


def test_added_lines_are_those_that_git_counts(repository: Path) -> None:
    random.seed(7)
    texts: dict[str, list[str]] = {}
    for number in range(12):
        for name in random.sample("abcdefgh", 3):
            lines = texts.setdefault(name, [f"{name} {line}" for line in range(50)])
            if random.random() < 0.15:
                texts.pop(name)
                (repository / name).unlink(missing_ok=True)
                continue
            at = random.randrange(len(lines) + 1)
            lines[at : at + random.randrange(3)] = [f"new {number} {line}" for line in range(random.randrange(4))]
            (repository / name).write_text("\n".join(lines) + random.choice(["", "\n"]))
        commit = committed(repository, f"Work {number}")
        counts = git(repository, "show", "--numstat", "--format=", "-M", "--first-parent", commit.oid).decode()
        expected = sorted(int(row.split("\t")[0]) for row in counts.splitlines())
        found = added_by(commit)
        assert sorted(len(numbers) for _, numbers in filter(None, found.values())) == expected
        for name, (text, numbers) in found.items():
            patch = git(repository, "diff", "-U0", "-M", f"{commit.oid}~1", commit.oid, "--", name) if number else b""
            added = [line[1:] for line in patch.decode().splitlines() if line[:1] == "+" and line[:3] != "+++"]
            assert not added or [text.split("\n")[at - 1] for at in numbers] == added


def test_the_first_commit_a_rename_and_a_deletion(repository: Path) -> None:
    lines = [f"line {number}" for number in range(20)]
    (repository / "a").write_bytes("".join(f"{line}\r\n" for line in lines).encode())
    (repository / "old").write_text("x\n")
    first = committed(repository)
    assert (first.parent, first.parent_ms) == ("", 0)
    text = "\n".join([*lines, ""])
    assert added_by(first) == {"a": (text, list(range(1, 21))), "old": ("x\n", [1])}
    git(repository, "mv", "a", "b")
    (repository / "b").write_bytes("".join(f"{line}\r\n" for line in [*lines[:2], "new", *lines[2:]]).encode())
    (repository / "old").unlink()
    second = committed(repository)
    assert second.parent == first.oid and second.parent_ms == first.at_ms > 0
    changed = text.replace("line 2\n", "new\nline 2\n")
    assert added_by(second) == {"b": (changed, [3]), "old": ("", [])}


def test_unusual_files(repository: Path) -> None:
    names = [f"x{HIDDEN}\ny", "\udcff", "\ndiff --git a/x b/x\n", "-x", 'q"', "tab\t"]
    for name in names:
        path = Path(os.fsdecode(os.fsencode(repository) + b"/" + os.fsencode(name.replace("/", "_"))))
        path.write_text("@@ -1 +1,9 @@\ndiff --git a/x b/x\nBinary files a and b differ\n")
    (repository / "binary").write_bytes(bytes(range(256)))
    (repository / "link").symlink_to("binary")
    (repository / "run").write_text("#!/bin/sh\n")
    (repository / "run").chmod(0o755)
    (repository / "big").write_text("".join(f"{number}\n" for number in range(100_000)))
    found = {path: added and added[1] for path, added in added_by(committed(repository)).items()}
    assert all(found.pop(name.replace("/", "_")) == [1, 2, 3] for name in names)
    assert found.pop("big") == list(range(1, 100_001))
    assert found == {"binary": None, "run": [1]}
    (repository / "run").unlink()
    (repository / "run").symlink_to("binary")
    (repository / "binary").write_bytes(bytes(reversed(range(256))))
    assert added_by(committed(repository)) == {"binary": None}


def test_settings_of_the_repository_do_not_change_the_result(repository: Path) -> None:
    for name, value in {
        "diff.noprefix": "true", "diff.external": "false", "diff.interHunkContext": "9", "color.ui": "always",
        "diff.renames": "false", "core.quotePath": "false", "log.showSignature": "true", "diff.context": "9",
        "diff.algorithm": "patience", "diff.mnemonicPrefix": "true",
    }.items():  # fmt: skip
        git(repository, "config", name, value)
    (repository / "a").write_text("1\n2\n3\n4\n5\n")
    committed(repository)
    (repository / "a").write_text("1\nb\n3\n4\ne\n")
    assert added_by(committed(repository)) == {"a": ("1\nb\n3\n4\ne\n", [2, 5])}


def test_the_trailers_of_a_commit(repository: Path) -> None:
    commit = committed(repository, f"Subject {HIDDEN}\n\nSession: 20260101-a@1234\nSession: 20260102-b@5678")
    assert commit.addresses == ("20260101-a@1234", "20260102-b@5678")
    assert sessions_of(str(repository), "HEAD") == {"20260101-a", "20260102-b"}
    assert commit.subject == f"Subject {HIDDEN}"
    assert changed_files(commit) == []


@pytest.mark.parametrize("revision", ["none", "-x", "--all", "", "HEAD:a", "a\0b", f"{HIDDEN}\n", "HEAD~9"])
def test_there_is_no_such_commit(repository: Path, revision: str) -> None:
    (repository / "a").write_text("1\n")
    committed(repository)
    assert find_commit(str(repository), revision) is None
    assert find_commit(str(repository.parent), "HEAD") is None
