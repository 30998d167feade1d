"""Tests of ``blame`` and ``link show`` on real sessions: the edits in the agent's file are replayed independently."""

from __future__ import annotations

import difflib
import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from builders import SHARED
from commands import Run, document

from gitsession.api import Store

SAMPLES = {
    "claude": SHARED / "sessions/claude/yoavf__ai-sessions__claude-code-pomodoro-timer.jsonl",
    "codex": SHARED / "sessions/codex/yoavf__ai-sessions__codex-pomodor-timer.jsonl",
}
FIRST = {"index.html", "styles.css", "script.js"}

Line = tuple[str, str]
"""A line of a file, and the agent's id of the call that wrote it."""


class Step(NamedTuple):
    """The state of a file after a call. ``at``: the time in the agent's file."""

    at: str
    name: str
    lines: list[Line]


def replayed(agent: str) -> Iterator[Step]:
    """Yield the states of all files, according to the agent's file alone."""
    files: dict[str, list[Line]] = {}
    for text in SAMPLES[agent].read_text().splitlines():
        record = json.loads(text)
        for call, name, change in (claude_changes if agent == "claude" else codex_changes)(record):
            lines = change(files.get(name), call)
            if lines is not None:
                files[name] = lines
                yield Step(record["timestamp"], name, lines)


def claude_changes(record: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    content = (record.get("message") or {}).get("content")
    for block in content if isinstance(content, list) else []:
        if block.get("type") != "tool_use" or block["name"] not in ("Write", "Edit"):
            continue
        given = block["input"]
        if block["name"] == "Write":
            yield (
                block["id"],
                Path(given["file_path"]).name,
                lambda _, call, given=given: new_lines(given["content"], call),
            )
        else:
            yield (
                block["id"],
                Path(given["file_path"]).name,
                lambda old, call, given=given: replaced(old, given["old_string"], given["new_string"], call),
            )


def new_lines(text: str, call: str) -> list[Line]:
    return [(line, call) for line in text.removesuffix("\n").split("\n")]


def replaced(lines: list[Line] | None, old: str, new: str, call: str) -> list[Line] | None:
    """Return the lines after the first ``old`` was replaced; ``None`` if there is none."""
    text = "\n".join(line for line, _ in lines or ())
    at = text.find(old)
    if lines is None or at < 0:
        return None
    first, last = text.count("\n", 0, at), text.count("\n", 0, at + len(old))
    after = text[:at] + new + text[at + len(old) :]
    changed = after.split("\n")[first : last + 1 + new.count("\n") - old.count("\n")]
    return lines[:first] + merged(lines[first : last + 1], changed, call) + lines[last + 1 :]


def merged(before: list[Line], after: list[str], call: str) -> list[Line]:
    """Return the lines ``after``. Those that a diff does not mark as added keep their call."""
    head = equal_lines(before, after)
    rest, new = before[head:], after[head:]
    tail = equal_lines(rest[::-1], new[::-1])
    old = [line for line, _ in rest[: len(rest) - tail]]
    found = [(line, call) for line in new[: len(new) - tail]]
    for start, first, size in difflib.SequenceMatcher(
        None, old, [line for line, _ in found], autojunk=False
    ).get_matching_blocks():
        found[first : first + size] = rest[start : start + size]
    return before[:head] + found + rest[len(rest) - tail :]


def equal_lines(before: list[Line], after: list[str]) -> int:
    """Return the number of equal lines at the beginning."""
    pairs = zip(before, after, strict=False)
    return next((at for at, ((old, _), new) in enumerate(pairs) if old != new), min(len(before), len(after)))


def codex_changes(record: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    item = record.get("payload") or {}
    if item.get("type") != "custom_tool_call" or item.get("name") != "apply_patch":
        return
    rows = item["input"].split("\n")
    [head] = [row for row in rows if row.startswith("*** ") and " File: " in row]
    body = [row for row in rows if not row.startswith("***")]
    name = head.split(": ", 1)[1]
    if head.startswith("*** Add"):
        yield item["call_id"], name, lambda _, call: [(row[1:], call) for row in body if row.startswith("+")]
    else:
        yield item["call_id"], name, lambda old, call: patched(old, body, call)


def patched(lines: list[Line] | None, rows: list[str], call: str) -> list[Line] | None:
    """Return the lines after a patch; ``None`` if a hunk does not match."""
    found, at = list(lines or []), 0
    for hunk in "\n".join(["", *rows]).split("\n@@")[1:]:
        parts = [row for row in hunk.split("\n")[1:] if row[:1] in (" ", "-", "+")]
        old, new = ([row[1:] for row in parts if row[0] in (" ", sign)] for sign in "-+")
        starts = range(at, len(found) - len(old) + 1)
        start = next((it for it in starts if [line for line, _ in found[it : it + len(old)]] == old), -1)
        if start < 0:
            return None
        found[start : start + len(old)] = merged(found[start : start + len(old)], new, call)
        at = start + len(new)
    return found


@pytest.fixture(params=SAMPLES)
def agent(request: pytest.FixtureRequest, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Import a sample into a store, as if its folder was the current folder, which is a repository."""
    found: str = request.param
    if not SAMPLES[found].exists():
        pytest.skip(f"no {SAMPLES[found]}")
    monkeypatch.setenv("GITSESSION_DIR", str(tmp_path / "store.git"))
    folder = tmp_path / "clones" / found
    folder.mkdir(parents=True)
    data = SAMPLES[found].read_bytes().replace(f"/Users/yoavfarhi/dev/pomodoro/{found}".encode(), bytes(folder))
    (tmp_path / SAMPLES[found].name).write_bytes(data)
    run("import", str(tmp_path / SAMPLES[found].name))
    monkeypatch.chdir(folder)
    git("init", "-q", "-b", "main")
    return found


def git(*words: str, at: str = "") -> str:
    who = {f"GIT_{role}_{name}": "a@b" for role in ("AUTHOR", "COMMITTER") for name in ("NAME", "EMAIL")}
    dates = {"GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at} if at else {}
    env = {**os.environ, **who, **dates}
    return subprocess.run(["git", *words], capture_output=True, check=True, env=env).stdout.decode()


def calls_by_entry(tmp_path: Path) -> dict[str, str]:
    """Return the agent's id of the call in each entry with one call."""
    with Store.open(tmp_path / "store.git") as store:
        return dict(store.catalogue().db.execute("SELECT oid, call FROM calls").fetchall())


def write(lines: list[Line], name: str) -> None:
    Path(name).write_text("".join(f"{line}\n" for line, _ in lines))


def test_blame_agrees_with_a_replay_of_the_edits(run: Run, agent: str, tmp_path: Path) -> None:
    final = {step.name: step.lines for step in replayed(agent)}
    assert final.keys() == FIRST
    calls = calls_by_entry(tmp_path)
    for name, lines in final.items():
        write(lines, name)
        found = document(run("blame", name, "--json"))["lines"]
        assert [(line["text"], calls.get(line["id"])) for line in found] == lines
    assert len({call for lines in final.values() for _, call in lines}) > 9


def test_link_counts_the_lines_of_a_replay(run: Run, agent: str, tmp_path: Path) -> None:
    steps = list(replayed(agent))
    half = len(steps) // 2
    first, final = ({step.name: step.lines for step in part} for part in (steps[:half], steps))
    calls = calls_by_entry(tmp_path)
    for files, step in ((first, steps[half - 1]), (final, steps[-1])):
        for name, lines in files.items():
            write(lines, name)
        git("add", "-A")
        git("commit", "-q", "-m", "Work", at=step.at)
        found = document(run("link", "show", "--json"))
        [session] = found["sessions"]
        assert (session["lines"], session["share"]) == (found["added"], 1.0)
        assert found["added"] == sum(int(row.split()[0]) for row in git("show", "--numstat", "--format=").splitlines())
        for file in found["files"]:
            blamed = git("blame", "-s", "-l", "--root", "--abbrev=40", "HEAD", "--", file["path"]).splitlines()
            added = [found["commit"].startswith(line.split(" ")[0].lstrip("^")) for line in blamed]
            lines = files[file["path"]]
            expected = Counter(call for (_, call), is_added in zip(lines, added, strict=True) if is_added)
            assert {calls[entry["id"]]: entry["lines"] for entry in file["entries"]} == expected
