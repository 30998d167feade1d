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

_DIFF = ("diff-tree", "-r", "--root", "--no-commit-id", "--find-renames", "--no-ext-diff", "--no-textconv")
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


class AddedLines(NamedTuple):
    """The lines that a commit adds to a file.

    Attributes:
        path: The path of the file, relative to the top folder, as ``os.fsdecode`` returns it.
        text: The text of the file in the commit, with LF line ends; "" if the commit adds no lines to it.
        numbers: The numbers of the added lines, from 1; ``None`` for a binary or very large file.
    """

    path: str
    text: str
    numbers: tuple[int, ...] | None


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


def added_lines(commit: CodeCommit) -> list[AddedLines]:
    """Return the lines that a commit adds, compared with its first parent, for each file that the commit changes.

    Links, submodules, and files whose type changed are left out. A renamed file is compared with the old one.
    """
    ends = (commit.parent, commit.oid) if commit.parent else (commit.oid,)
    raw = _git(commit, *_DIFF, "--diff-filter=AMRD", "--raw", "-z", "--no-abbrev", *ends, "--").split(b"\0")
    patch = _git(commit, *_DIFF, "--diff-filter=AMRD", "-p", "-U0", "--no-color", *ends, "--")
    files = list(zip(_rows(raw), _numbers(patch), strict=True))
    contents = _contents(commit, {oid for (_, _, oid), numbers in files if numbers})
    return [
        AddedLines(path, contents[oid] if numbers else "", numbers)
        for (path, mode, oid), numbers in files
        if mode.startswith("100")
    ]


def _git(commit: CodeCommit, *arguments: str, stdin: bytes = b"") -> bytes:
    return process.run(Path(commit.git_dir), "-c", _BIG_FILE, *arguments, stdin=stdin).out


def _rows(fields: list[bytes]) -> Iterator[tuple[str, str, Oid]]:
    """Yield the path, the mode and the oid of each file in the output of ``--raw -z``.

    The mode of a deleted file is its old one.
    """
    words = iter(fields)
    for head in filter(None, words):
        old_mode, mode, _, oid, status = head.removeprefix(b":").decode().split(" ")
        path = next(words)
        if status.startswith("R"):
            path = next(words)
        yield os.fsdecode(path), old_mode if status == "D" else mode, oid


def _numbers(patch: bytes) -> Iterator[tuple[int, ...] | None]:
    """Yield the numbers of the added lines of each file in a patch without context; ``None`` for a binary file."""
    for part in (b"\n" + patch).split(b"\ndiff --git ")[1:]:
        lines = part.split(b"\n")
        if any(line.startswith(b"Binary files ") for line in lines):
            yield None
            continue
        hunks = filter(None, map(_HUNK.match, lines))
        yield tuple(
            number
            for hunk in hunks
            for number in range(int(hunk[1]), int(hunk[1]) + int(hunk[2] if hunk[2] is not None else 1))
        )


def _contents(commit: CodeCommit, oids: set[Oid]) -> dict[Oid, str]:
    """Return the texts of blobs, with LF line ends."""
    wanted = sorted(oids)
    data = _git(commit, "cat-file", "--batch", stdin="".join(f"{oid}\n" for oid in wanted).encode()) if wanted else b""
    found, at = {}, 0
    for oid in wanted:
        end = data.index(b"\n", at)
        start, size = end + 1, int(data[at:end].split(b" ")[2])
        found[oid] = data[start : start + size].decode("utf-8", "replace").replace("\r\n", "\n")
        at = start + size + 1
    return found
