"""Tests of summarizer programs: bad ones are reported, and no process outlives the call."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from types import SimpleNamespace

import pytest
from summaries import REQUEST, failing

from gitsession.compaction.serialise import TranscriptItem
from gitsession.compaction.summarizers import command, make
from gitsession.compaction.summarizers.options import Options
from gitsession.compaction.summary import Request, summarise
from gitsession.errors import SummaryFailed


def program(script, *, seconds=120.0):
    return make(Options(name="command", command=(sys.executable, "-c", script), time_limit_s=seconds))


def test_a_program_reads_the_prompt_and_prints_the_summary():
    heard = []
    script = "import sys; text = sys.stdin.read(); print('seen', 'Fix the login' in text, '## Goal' in text)"
    assert summarise(program(script), REQUEST, progress=heard.append).text == "seen True True"
    assert "bytes" in heard[0]


def test_a_program_is_called_without_a_shell():
    argv = (sys.executable, "-c", "import sys; print(sys.argv[1])", "$(id); x")
    assert summarise(make(Options(name="command", command=argv)), REQUEST).text == "$(id); x"


def test_a_program_may_answer_without_reading():
    long = Request(items=(TranscriptItem("user", "x" * 3_000_000),))
    assert summarise(program("print('ok')"), long).text == "ok"


def test_program_that_writes_before_it_reads_does_not_hang():
    script = "import sys; print('x' * 200_000, flush=True); print('y', file=sys.stderr); sys.stdin.read()"
    assert len(summarise(program(script), Request(items=(TranscriptItem("user", "x" * 300_000),))).text) == 200_000


BAD_PROGRAMS = {
    "fails": ("import sys; print('half'); sys.exit('no\\nmoney left')", r"exit code 1.*: no money left"),
    "is killed": ("import os; os.kill(os.getpid(), 9)", r"signal 9"),
    "says nothing": ("pass", r"empty summary"),
    "says blanks": ("print(' ')", r"empty summary"),
    "gives back what it got": ("import sys; print(sys.stdin.read())", "longer than its input"),
    "never ends to talk": ("while True: print('x' * 1000)", "longer than its input"),
}


@pytest.mark.parametrize(("script", "words"), BAD_PROGRAMS.values(), ids=BAD_PROGRAMS)
def test_bad_program_is_reported(script, words):
    with pytest.raises(SummaryFailed, match=words):
        summarise(program(script), REQUEST)


def test_missing_program_is_reported():
    summarizer = make(Options(name="command", command=("/nowhere/llm",)))
    assert "cannot run the summarizer '/nowhere/llm'" in failing(summarizer)
    with pytest.raises(SummaryFailed, match="no command"):
        make(Options(name="command"))


def is_alive(pid):
    """Return whether a process runs. A zombie does not run."""
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        with suppress(FileNotFoundError), open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
        return True
    return False


def gone(pid):
    for _ in range(6000):
        if not is_alive(pid):
            return True
        time.sleep(0.02)
    return False


HANGS = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open({where!r} + ".new", "w") as file:
    file.write(f"{{os.getpid()}} {{child.pid}}")
os.rename({where!r} + ".new", {where!r})
time.sleep(600)
"""


def pids_in(path):
    for _ in range(6000):
        if path.exists():
            return [int(word) for word in path.read_text().split()]
        time.sleep(0.02)
    raise AssertionError("it did not start")


@pytest.mark.parametrize("how", ["out of time", "cancelled"])
def test_hanging_program_is_terminated_with_its_children(tmp_path, monkeypatch, how):
    where = tmp_path / "pids"
    summarizer = program(HANGS.format(where=str(where)))
    event = threading.Event()
    if how == "cancelled":
        threading.Thread(target=lambda: pids_in(where) and event.set()).start()
    else:
        passed = SimpleNamespace(monotonic=lambda: time.monotonic() + 120.0 * where.exists())
        monkeypatch.setattr(command, "time", passed)
    message = failing(summarizer, cancelled=event)
    assert message == "the summary was cancelled" if how == "cancelled" else "within 120 s" in message
    assert all(gone(pid) for pid in pids_in(where))


def test_exit_while_a_thread_waits_leaves_no_program_behind(tmp_path):
    where = tmp_path / "pids"
    script = f"""
from gitsession.compaction.serialise import TranscriptItem
from gitsession.compaction.summarizers import make
from gitsession.compaction.summarizers.options import Options
from gitsession.compaction.summary import Request, summarise
import os, sys, threading, time
options = Options(name="command", command=(sys.executable, "-c", {HANGS.format(where=str(where))!r}))
request = Request(items=(TranscriptItem("user", "x" * 999),))
threading.Thread(target=summarise, args=(make(options), request), daemon=True).start()
while not os.path.exists({str(where)!r}):
    time.sleep(0.02)
"""
    ours = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=120)
    assert (ours.returncode, ours.stderr) == (0, b"")
    assert all(gone(pid) for pid in pids_in(where))


def test_ctrl_c_leaves_no_program_behind(tmp_path):
    where = tmp_path / "pids"
    script = f"""
from gitsession.compaction.serialise import TranscriptItem
from gitsession.compaction.summarizers import make
from gitsession.compaction.summarizers.options import Options
from gitsession.compaction.summary import Request, summarise
import sys
options = Options(name="command", command=(sys.executable, "-c", {HANGS.format(where=str(where))!r}))
summarise(make(options), Request(items=(TranscriptItem("user", "x" * 999),)))
"""
    ours = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE)
    pids = pids_in(where)
    ours.send_signal(signal.SIGINT)
    _, errors = ours.communicate(timeout=120)
    assert b"KeyboardInterrupt" in errors
    assert all(gone(pid) for pid in pids)


def test_children_of_a_finished_program_are_terminated(tmp_path):
    where = tmp_path / "pids"
    script = HANGS.format(where=str(where)).replace("time.sleep(600)\n", "print('ok')\n")
    assert summarise(program(script), REQUEST).text == "ok"
    assert all(gone(pid) for pid in pids_in(where))


def test_process_that_left_the_group_and_keeps_writing_is_not_read(tmp_path):
    script = """
import os, sys
print("ok", flush=True)
if os.fork() == 0:
    os.setsid()
    while True:
        os.write(2, b"x" * 4096)
"""
    before = set(threading.enumerate())
    assert summarise(program(script), REQUEST).text == "ok"
    for each in set(threading.enumerate()) - before:
        each.join(120)
    assert set(threading.enumerate()) <= before
