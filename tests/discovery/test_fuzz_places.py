"""Tests of invalid files in session folders: they are reported, and all other files are imported."""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import opencode_files
import pytest
from builders import assert_clean
from fuzzing import CLAUDE, FILES, OPENCODE_TALK

from gitsession.api import Store
from gitsession.cli import app as command_line
from gitsession.cli import exits

ENDINGS = {"aider": ".aider.chat.history.md", "opencode": "export.json", "codex": "rollout-x.jsonl"}
"""File names by agent. Files of the other agents are named ``a.jsonl``."""


def imported(store: Path, *words: str) -> tuple[int, Any]:
    """Import with ``--json`` and return the exit code and the output."""
    out, complaints = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(complaints):
        code = command_line.run(["--store", str(store), "import", *words, "--json"])
    told = out.buffer.getvalue()
    assert told, (code, complaints.getvalue())
    return code, json.loads(told)


# ---- paths that are not files


def _directory(path: Path) -> None:
    path.mkdir()


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))


def _nowhere(path: Path) -> None:
    path.symlink_to("nowhere")


def _itself(path: Path) -> None:
    path.symlink_to(path.name)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _forbidden(path: Path) -> None:
    path.write_bytes(b"{}\n")
    path.chmod(0)


def _empty(path: Path) -> None:
    path.touch()


def _blank(path: Path) -> None:
    path.write_bytes(b"\n \n\t\n\r\n")


def _zeros(path: Path) -> None:
    path.write_bytes(bytes(100_000))


def _hole(path: Path) -> None:
    """Create a sparse file that is larger than any memory."""
    with path.open("wb") as file:
        file.truncate(1 << 40)


ODD = [_directory, _pipe, _socket, _nowhere, _itself, _device, _forbidden, _empty, _blank, _zeros, _hole]


@pytest.mark.parametrize("agent", FILES)
@pytest.mark.parametrize("odd", ODD)
def test_invalid_session_file_is_reported_and_others_are_imported(
    agent: str, odd: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ending = ENDINGS.get(agent, "a.jsonl")
    strange, good = tmp_path / "a" / ending, tmp_path / "b" / ending
    for path in (strange, good):
        path.parent.mkdir()
    odd(strange)
    good.write_bytes(FILES[agent])
    code, told = imported(tmp_path / "store.git", str(strange), str(good), "--from", agent, "--final")
    assert [each["agent"] for each in told["sessions"]] in ([agent], [agent] * 2)
    assert any(each["path"] == str(good) and each["new"] for each in told["sessions"])
    if not told["sessions"][1:] and odd is not _directory and not (odd is _forbidden and os.access(strange, os.R_OK)):
        assert [each["path"] for each in told["failed"]] == [str(strange)]
        assert told["failed"][0]["what"]
        assert code == exits.NOT_FOUND


# ---- location


@pytest.mark.parametrize("agent", FILES)
def test_file_with_an_unusual_name_and_time_is_imported_once(agent: str, tmp_path: Path, isolated_home: Path) -> None:
    ending = ENDINGS.get(agent, ".jsonl")
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\n\x1b[2J"))
    folder.mkdir()
    path = Path(os.fsdecode(os.fsencode(folder) + b"/rollout-\xfe " + ending.encode()))
    path.write_bytes(FILES[agent].replace(b'"id":"s1"', b'"id":5') if agent in ("pi", "omp") else FILES[agent])
    os.utime(path, ns=(13_569_465_600 * 10**9,) * 2)  # the year 2400
    _, told = imported(tmp_path / "store.git", str(folder), "--final", "--from", agent)
    _, again = imported(tmp_path / "store.git", str(folder), "--final", "--from", agent)
    assert len(told["sessions"]) == 1, told
    assert not again["sessions"] and not again["failed"]


HEADERS = {
    "aider": b"", "claude": b'"cwd":"/work"', "codex": b'"cwd":"/work"', "librecode": b'"cwd":"/work"',
    "omp": b'"cwd":"/work"', "opencode": b'"directory": "/work"', "pi": b'"cwd":"/work"',
}  # fmt: skip
FOLDERS = {
    "a NUL": b'"\\u0000"', "half a character": b'"/\\ud800"', "nothing": b'""', "a line end": b'"/a\\nb"',
    "100,000 characters": b'"' + b"/a" * 50_000 + b'"', "a tilde": b'"~nobody/x"', "where we are": b'"."',
    "a number": b"5", "a list": b"[[]]",
}  # fmt: skip


@pytest.mark.parametrize("folder", FOLDERS.values(), ids=FOLDERS)
@pytest.mark.parametrize("agent", sorted({*FILES} - {"aider"}))
def test_session_with_an_impossible_folder_is_imported(agent: str, folder: bytes, tmp_path: Path) -> None:
    said = HEADERS[agent]
    path = tmp_path / ENDINGS.get(agent, "a.jsonl")
    path.write_bytes(FILES[agent].replace(said, said.partition(b":")[0] + b":" + folder))
    store = tmp_path / "store.git"
    _, told = imported(store, str(path), "--final", "--from", agent)
    assert not told["failed"]
    [session] = told["sessions"]
    for words in (["ls"], ["show", session["session"]], ["import", "--all"], ["doctor"], ["search", "hi"]):
        with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")):
            code = command_line.run(["--store", str(store), *words])
        assert code in (exits.OK, exits.NOTHING, exits.REFUSED, exits.INTEGRITY), words


def test_endless_file_is_imported_partly_or_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program writes to the file as fast as it is read."""
    from gitsession.discovery import sources

    monkeypatch.setattr(sources, "FILE_BYTES_MAX", 1 << 20)
    path = tmp_path / "a.jsonl"
    path.write_bytes(FILES["pi"])
    is_done, has_begun = threading.Event(), threading.Event()

    def write() -> None:
        with path.open("ab") as file:
            while not is_done.is_set():
                file.write(b"{}\n" * 100_000)
                has_begun.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert has_begun.wait(120)
        _, told = imported(tmp_path / "store.git", str(path))
        assert len(told["sessions"]) + len(told["failed"]) == 1
    finally:
        is_done.set()
        writer.join()


def test_file_truncated_while_it_is_read_is_imported_or_reported(tmp_path: Path) -> None:
    path, is_done = tmp_path / "a.jsonl", threading.Event()
    data = FILES["pi"]
    path.write_bytes(data)

    def write() -> None:
        count = 0
        while not is_done.is_set():
            count += 97
            os.truncate(path, count % len(data))
            path.write_bytes(data)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(10):
            _, told = imported(tmp_path / "store.git", str(path))
            assert len(told["sessions"]) + len(told["failed"]) <= 1
    finally:
        is_done.set()
        writer.join()
    imported(tmp_path / "store.git", str(path))
    with Store.open(tmp_path / "store.git") as store:
        rows = [row for row in store.sessions() if row.source_id == "s1"]
        assert rows and store.export(rows[0].sid).data == data
        assert_clean(store.objects)


# ---- files beside a session file


@pytest.mark.parametrize("odd", ODD)
def test_unusual_file_beside_a_session_is_harmless(
    odd: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "subagents"
    folder.mkdir()
    (folder / "agent-x.jsonl").write_bytes(CLAUDE)
    odd(folder / "agent-x.meta.json")
    code, told = imported(tmp_path / "store.git", str(folder / "agent-x.jsonl"))
    assert code == exits.OK
    assert told["sessions"][0]["new"]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("what", ["message", "part"])
def test_unusual_file_in_opencodes_folders_is_reported_and_the_rest_imported(
    odd: Callable[[Path], None], what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if odd is _forbidden:
        pytest.skip("it may be read another day: the session waits for that")
    path = opencode_files.folders(tmp_path, OPENCODE_TALK)
    place = tmp_path / "message" / "ses_one" if what == "message" else tmp_path / "part" / "msg_u1"
    odd(place / "zzz.json")
    _, told = imported(tmp_path / "store.git", str(path), "--final")
    assert not told["failed"]
    [session] = told["sessions"]
    assert session["entries"] >= 6
    assert any("zzz" in problem["what"] or "msg_u1" in problem["what"] for problem in session["problems"])
