"""Tests that the API key of an endpoint is sent in one header and is visible nowhere else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import traceback
from contextlib import suppress
from pathlib import Path

import pytest
from http_models import KEY, Handler, chat_answer, model_at, serving
from summaries import REQUEST

from gitsession.api import Store
from gitsession.compaction.summary import summarise
from gitsession.errors import SummaryFailed
from gitsession.model.entries import Message

QUOTES_IT = {
    "an error": (401, {"X-Why": KEY}, {"error": {"message": f"bad key {KEY}"}}),
    "no JSON": (200, {"X-Why": KEY}, f"not {KEY}".encode()),
    "another shape": (200, {}, {KEY: KEY}),
    "a reason": lambda handler: handler.send_error(400, f"bad {KEY}"),
    "no HTTP": lambda handler: handler.wfile.write(f"{KEY}\r\n\r\n".encode()),
    "a version of its own": lambda handler: handler.wfile.write(f"HTTP/{KEY} 200 OK\r\n\r\n".encode()),
    "a length": (200, {"Transfer-Encoding": "chunked"}, f"{KEY}\r\n".encode()),
    "to be asked elsewhere": (302, {"Location": f"http://127.0.0.1:1/{KEY}"}, b""),
    "how long to wait": (503, {"Retry-After": KEY}, b""),
}


@pytest.mark.parametrize("answer", QUOTES_IT.values(), ids=QUOTES_IT)
def test_no_error_or_cause_contains_the_key(answer: object, capfd: pytest.CaptureFixture[str]) -> None:
    heard: list[str] = []
    with serving(answer, answer) as server, pytest.raises(SummaryFailed) as caught:
        summarise(model_at(server, time_limit_s=120.0), REQUEST, progress=heard.append)
    shown = ["".join(traceback.format_exception(caught.value)), *heard, *capfd.readouterr()]
    error: BaseException | None = caught.value
    while error is not None:
        shown += [repr(error), str(error), repr(vars(error)), repr(error.args)]
        error = error.__cause__ or error.__context__
    assert not [words for words in shown if KEY in words]


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks where Linux lists processes")
def test_key_is_in_no_file_output_or_process_list(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store.git") as store:
        session = store.new_session(agent="test")
        for number in range(8):
            session.append(Message.user(f"request {number}: " + "word after word, " * 40))
    seen: list[str] = []
    begun = threading.Event()

    def look(handler: Handler) -> None:
        assert begun.wait(120)
        seen.extend(lines_of_commands(process.pid))
        data = json.dumps(chat_answer(f"with {KEY}, in short")).encode()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    with serving(look) as server:
        words = ["compact", session.id, "--keep-tokens", "300", "--summarizer-url", server.url, "--model", "m"]
        subprocess.run(["git", "config", "--global", "gitsession.summarizerKey", "THE_KEY"], check=True)
        traced = {"GIT_TRACE": "1", "GIT_TRACE_SETUP": "1", "GIT_TRACE2_EVENT": "1", "PYTHONDEVMODE": "1"}
        process = subprocess.Popen(
            [sys.executable, "-v", "-m", "gitsession", "--store", str(tmp_path / "store.git"), *words],
            env={**os.environ, **traced, "THE_KEY": KEY},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
        )
        begun.set()
        out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors.decode()[-2000:]
    assert seen
    with Store.open(tmp_path / "store.git") as store:
        compaction = store.session(session.id).context().messages[0]
        assert "with [key], in short" in compaction.summary
        store.flush()
    everything = subprocess.run(
        ["git", "-C", tmp_path / "store.git", "cat-file", "--batch-all-objects", "--batch"],
        check=True,
        capture_output=True,
    ).stdout
    assert b"with [key], in short" in everything
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    home = [path.read_bytes() for path in Path(os.environ["HOME"]).rglob("*") if path.is_file()]
    assert home
    for data in (out, errors, everything, "\n".join(seen).encode(), *files, *home):
        assert KEY.encode() not in data


def lines_of_commands(pid: int) -> list[str]:
    """Return the command lines of a process and all its descendants, as in `ps`."""
    lines = [Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()]
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # the process has ended meanwhile
            for child in (task / "children").read_text().split():
                lines += lines_of_commands(int(child))
    return lines
