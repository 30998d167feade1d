"""Commits in the user's own repositories: the lines that they add, and the sessions that their trailers name.

git reads the repository without the user's configuration, and nothing is written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gitsession.git import process
from gitsession.git.types import Oid
from gitsession.workspace import user_repository

TRAILER = "Session"
"""The key of the trailer that names a session as ``<session>@<beginning of the entry's chain digest>``."""

_BIG_FILE = "core.bigFileThreshold=32m"
"""A setting by which git treats larger files as binary."""

_DIFF = (
    "diff-tree", "-r", "--root", "--no-commit-id", "--find-renames", "--diff-filter=AMRD", "--no-abbrev",
    "--no-ext-diff", "--no-textconv",
)  # fmt: skip
_LINES = (
    "--unified=0", "--inter-hunk-context=0", "--diff-algorithm=default", "--no-ext-diff", "--no-textconv", "--no-color",
)  # fmt: skip
_HUNK = re.compile(rb"@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@")


class CodeCommit(NamedTuple):
    """A commit in the user's repository.

    Attributes:
        top: The top folder of the repository.
        git_dir: The git directory.
        oid: The object id.
        parent: The object id of the first parent; "" if there is none.
        at_ms: The time of the commit, Unix time in ms.
        parent_ms: The time of the first parent, Unix time in ms; 0 if there is none.
        addresses: The addresses in the trailers of the commit.
        subject: The first line of the message.
    """

    top: str
    git_dir: str
    oid: Oid
    parent: Oid
    at_ms: int
    parent_ms: int
    addresses: tuple[str, ...]
    subject: str


class CommittedFile(NamedTuple):
    """A file that a commit changes, compared with the first parent of the commit.

    Attributes:
        path: The path of the file, relative to the top folder, as ``os.fsdecode`` returns it.
        old: The oid of the content before; "" if the file is new.
        new: The oid of the content in the commit; "" if the file is deleted.
        added: The number of added lines; ``None`` for a binary or very large file.
    """

    path: str
    old: Oid
    new: Oid
    added: int | None


def find_commit(folder: str, revision: str) -> CodeCommit | None:
    """Return a commit in the repository of ``folder``; ``None`` if there is no such commit or no repository.

    ``revision``: a revision of git, such as ``HEAD~2``.
    """
    found = user_repository.find(folder)
    if not found.git_dir or "\0" in revision:
        return None
    trailers = f"%(trailers:key={TRAILER},valueonly,separator=%x0a)"
    fields = _log(found.git_dir, revision, f"%H%x00%P%x00%ct%x00{trailers}%x00%s")
    if len(fields) != 5:
        return None
    oid, parents, seconds, addresses, subject = fields
    parent = parents.partition(" ")[0]
    before = _log(found.git_dir, parent, "%ct") if parent else ["0"]
    named = tuple(filter(None, map(str.strip, addresses.split("\n"))))
    at_ms, parent_ms = (_ms(text) for text in (seconds, before[0]))
    return CodeCommit(found.top, found.git_dir, oid, parent, at_ms, parent_ms, named, subject)


def _log(git_dir: str, revision: str, form: str) -> list[str]:
    """Return the fields of a commit; an empty text if there is no such commit."""
    arguments = ("log", "-1", "--no-show-signature", "--no-color", f"--format={form}", "--end-of-options", revision)
    result = process.run(Path(git_dir), *arguments, "--", accept=(0, 128))
    return result.out.decode("utf-8", "replace").removesuffix("\n").split("\0") if not result.code else [""]


def _ms(seconds: str) -> int:
    return int(seconds) * 1000 if seconds.lstrip("-").isdecimal() and len(seconds) < 16 else 0


def sessions_of(folder: str, revision: str) -> set[str] | None:
    """Return the ids of the sessions that the trailers of a commit name; ``None`` if there is no such commit."""
    commit = find_commit(folder, revision)
    return None if commit is None else {address.partition("@")[0].strip() for address in commit.addresses}


def changed_files(commit: CodeCommit) -> list[CommittedFile]:
    """Return the files that a commit changes. Links, submodules, and files whose type changed are left out."""
    ends = (commit.parent, commit.oid) if commit.parent else (commit.oid,)
    raw, counts = (_git(commit, *_DIFF, form, "-z", *ends, "--") for form in ("--raw", "--numstat"))
    found = []
    for (head, path), count in zip(_raw_rows(raw), _counts(counts), strict=True):
        old_mode, mode, old, new, status = head.removeprefix(":").split(" ")
        if (old_mode if status == "D" else mode).startswith("100"):
            found.append(CommittedFile(path, old.strip("0") and old, new.strip("0") and new, count))
    return found


def added_lines(commit: CodeCommit, file: CommittedFile) -> tuple[str, list[int]]:
    """Return the text of a file in a commit, with LF line ends, and the numbers of the added lines, from 1."""
    if not file.added:
        return "", []
    text = _git(commit, "cat-file", "blob", file.new).decode("utf-8", "replace").replace("\r\n", "\n")
    if not file.old:
        return text, list(range(1, file.added + 1))
    patch = _git(commit, "diff", *_LINES, file.old, file.new)
    hunks = (found for line in patch.split(b"\n") if (found := _HUNK.match(line)) is not None)
    ranges = ((int(hunk[1]), int(hunk[2] if hunk[2] is not None else 1)) for hunk in hunks)
    return text, [number for start, size in ranges for number in range(start, start + size)]


def _git(commit: CodeCommit, *arguments: str) -> bytes:
    return process.run(Path(commit.git_dir), "-c", _BIG_FILE, *arguments).out


def _raw_rows(output: bytes) -> Iterator[tuple[str, str]]:
    """Yield the modes, oids and status, and the path of each file in the output of ``--raw -z``."""
    words = iter(output.split(b"\0"))
    for head in filter(None, words):
        path = next(words)
        is_renamed = head.split(b" ")[4].startswith(b"R")
        yield head.decode(), os.fsdecode(next(words) if is_renamed else path)


def _counts(output: bytes) -> Iterator[int | None]:
    """Yield the number of added lines of each file in the output of ``--numstat -z``; ``None`` for a binary file."""
    words = iter(output.split(b"\0"))
    for row in filter(None, words):
        added, _, path = row.split(b"\t", 2)
        if not path:  # a renamed file, whose paths follow
            next(words), next(words)
        yield int(added) if added.isdigit() else None
