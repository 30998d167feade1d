"""Tests of ``gitsession append``: each line is answered when its entry is durable, and nothing is lost by a kill."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import Run
from hypothesis import given
from strategies import ENTRIES

from gitsession import Message, Store
from gitsession.codec import entry_json, json_text
from gitsession.errors import Malformed
from gitsession.model.entries import Entry, Injection, Todo, TodoItem
from gitsession.model.plain import plain

PROGRAM = [sys.executable, "-m", "gitsession"]


def said(text: str, role: str = "user") -> dict[str, Any]:
    return {"kind": "message", "body": {"role": role, "content": text}}


def lines(*values: object) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def append(*words: str, given: bytes, code: int = 0) -> tuple[list[dict[str, Any]], str]:
    done = subprocess.run([*PROGRAM, "append", *words], input=given, capture_output=True, check=False)
    assert done.returncode == code, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr.decode()


def texts(sid: str, branch: str = "main") -> list[str]:
    with Store.open() as store:
        session = store.session(sid).on(branch)
        return [entry.text for node in session.history() if isinstance(entry := session.read(node), Message)]


def test_todo_item_without_text_is_read_as_it_was_written() -> None:
    """The strategy of the test below generates such an item only seldom."""
    entry = Todo(items=(TodoItem(""), TodoItem("b", extra={"owner": "x"})))
    assert entry_json.from_json("todo", 0, plain(entry)) == replace(entry, at_ms=0)


@given(ENTRIES)
def test_reading_the_json_of_an_entry_is_the_inverse_of_writing_it(entry: Entry) -> None:
    """Empty values, which the JSON form leaves out, are read as the empty values of their fields."""
    written = json.loads(json.dumps(plain(entry)))
    if isinstance(entry, Injection) and "rules" not in written:
        with pytest.raises(Malformed, match="missing"):
            entry_json.from_json(entry.kind, entry.at_ms, written)
        return
    assert plain(entry_json.from_json(entry.kind, entry.at_ms, written)) == written


def test_lines_become_a_session_and_are_answered_with_its_ids(here: Path) -> None:
    given = lines(
        {"kind": "model_change", "body": {"provider": "p", "model": "m"}}, said("one"), said("two", "assistant")
    )
    answers, _ = append("--new", "--agent", "script", "--cwd", ".", given=given + b"\n")
    assert [(one["line"], one["stored"]) for one in answers] == [(1, False), (2, True), (3, True)]
    with Store.open() as store:
        session = store.session(answers[0]["session"])
        assert [node.oid for node in session.history()][1:] == [one["id"] for one in answers]
        assert store.sessions()[0].project == os.path.realpath(here)
        assert store.verify().problems == []


def test_entries_of_an_export_can_be_appended(run: Run) -> None:
    [first, *_], _ = append("--new", "--agent", "a", given=lines(said("one"), said("two", "assistant")))
    exported = run("export", first["session"], "--to", "jsonl").splitlines()
    entries = [line for line in exported if json.loads(line)["type"] == "entry"]
    answers, _ = append(first["session"], given="\n".join(entries).encode())
    assert len(answers) == 2
    assert texts(first["session"]) == ["one", "two", "one", "two"]


def test_killed_program_loses_no_answered_entry_and_goes_on(here: Path) -> None:
    [first], _ = append("--new", "--agent", "a", given=lines(said("0")))
    sid, answered = first["session"], 0
    for attempt in range(3):
        with subprocess.Popen([*PROGRAM, "append", sid], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None and process.stdout is not None
            for number in range(2):
                process.stdin.write(lines(said(f"{attempt}.{number}")))
                process.stdin.flush()
                json.loads(process.stdout.readline())
                answered += 1
            process.send_signal(signal.SIGKILL)
    assert len(texts(sid)) == 1 + answered
    with Store.open() as store:
        assert store.verify().problems == []


BAD = {
    "no JSON": (b"hello", "invalid JSON"),
    "cut off": (b'{"kind": "mess', "invalid JSON"),
    "NaN": (b'{"kind": "custom", "body": {"custom_type": "x", "data": NaN}}', "NaN is not a JSON value"),
    "no UTF-8": (b'{"kind": "\xff"}', "invalid JSON"),
    "an array": (b"[]", "expected an object"),
    "kind is an array": (b'{"kind": []}', "unknown kind"),
    "no kind": (b"{}", "unknown kind 'None'"),
    "kind of a later version": (b'{"kind": "telepathy"}', "unknown kind 'telepathy'"),
    "internal kind": (b'{"kind": "checkpoint", "body": {"mode": "workspace"}}', "only gitsession itself"),
    "no role": (b'{"kind": "message", "body": {}}', "unknown role '' (expected one of user, assistant, tool,"),
    "role outside of the body": (
        b'{"kind": "message", "role": "user", "content": "hi"}',
        "hint: move content and role into body",
    ),
    "wrong status": (
        b'{"kind": "todo", "body": {"items": [{"text": "x", "status": "done"}]}}',
        "unknown status 'done' (expected one of pending, in_progress, completed, cancelled)",
    ),
    "wrong type": (b'{"kind": "message", "body": {"role": "user", "content": 3}}', "message.content"),
    "wrong block": (
        b'{"kind": "message", "body": {"role": "user", "content": [{"type": "text", "text": 3}]}}',
        "[0].text",
    ),
    "bytes as text": (
        b'{"kind": "message", "body": {"role": "user", "content": [{"type": "image", "mime": "i", "data": "x"}]}}',
        'expected bytes, as {"base64": "..."}',
    ),
    "time as text": (b'{"kind": "reset", "at": "now"}', "expected a Unix time in ms"),
    "body as text": (b'{"kind": "reset", "body": "x"}', "expected an object"),
    "extra as text": (b'{"kind": "reset", "body": {"extra": 1}}', "reset.extra"),
    "lone surrogate": (b'{"kind": "title", "body": {"title": "\\ud800"}}', "surrogate"),
    "nested": (b'{"kind": "custom", "body": {"custom_type": "x", "data": ' + b"[" * 99 + b"]" * 99 + b"}}", "deeper"),
    "nested more": (b"[" * 200_000, "nested too deeply"),
    "huge integer": (b'{"kind": "reset", "at": ' + b"9" * 30 + b"}", "integer outside"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_line_is_rejected_by_its_number_and_the_lines_before_it_are_stored(here: Path, name: str) -> None:
    line, reason = BAD[name]
    given = lines(said("one")) + line + b"\n" + lines(said("not read"))
    [first], complaint = append("--new", "--agent", "a", given=given, code=5)
    assert complaint.startswith("error: cannot append line 2: ")
    assert reason in complaint
    assert texts(first["session"]) == ["one"]


def test_line_that_is_too_long_is_rejected_without_reading_it_into_memory(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_text, "LINE_BYTES_MAX", 100)
    found = list(json_text.lines(io.BytesIO(b"1\n" + b"x" * 450 + b"\n2\n" + b"y" * 100)))
    assert found == [(1, b"1\n"), (2, None), (3, b"2\n"), (4, b"y" * 100)]
    with pytest.raises(Malformed, match="too long"):
        json_text.parse(None)


def test_new_session_without_a_prompt_is_reported(here: Path) -> None:
    answers, complaint = append("--new", "--agent", "a", given=lines({"kind": "reset"}), code=5)
    assert answers[0]["stored"] is False
    assert "it has 1 entry, and no message of the user" in complaint


def test_expected_tip_refuses_or_forks(run: Run) -> None:
    [first, second], _ = append("--new", "--agent", "a", given=lines(said("one"), said("two")))
    sid = first["session"]
    _, complaint = append(sid, "--expected", first["id"], given=lines(said("three")), code=4)
    assert "another writer appended to it first" in complaint
    given = lines(said("three"), said("four"))
    answers, _ = append(sid, "--expected", first["chain"], "--on-moved", "fork", given=given)
    branch = answers[0]["branch"]
    assert [one["branch"] for one in answers] == [branch, branch] != ["main", "main"]
    assert texts(sid, branch) == ["one", "three", "four"]
    append(sid, "--branch", "main", "--expected", second["id"], given=lines(said("five")))
    assert texts(sid) == ["one", "two", "five"]


@pytest.mark.parametrize(
    "words",
    [[], ["--new"], ["@", "--new", "--agent", "a"], ["@", "--agent", "a"], ["--new", "--agent", "a", "--branch", "b"]],
)
def test_options_that_do_not_fit_are_a_usage_error(run: Run, words: list[str]) -> None:
    run("append", *words, code=2)


def test_closed_pipe_of_the_answers_is_quiet(here: Path) -> None:
    command = f"yes '{json.dumps(said('x'))}' | head -n 500 | {' '.join(PROGRAM)} append --new --agent a | head -n 1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (len(done.stdout.splitlines()), done.stderr) == (1, "")
