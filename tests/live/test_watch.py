"""Tests of watch: sessions of agents without hooks are imported when their files grow."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from builders import header, said

from gitsession.live.watch import Watch


def cli(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gitsession", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def place(name: str = "2026-02-01T00-00-00-000Z_s1.jsonl") -> Path:
    """Return the path of a session file of pi."""
    file = Path.home() / ".pi/agent/sessions/--work--" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


LINES = [header(), said("a", None, "hello"), said("b", "a", "hi", role="assistant", at=2)]


def test_watch_once_imports_grown_files(tmp_path: Path) -> None:
    place().write_bytes(b"\n".join(LINES[:2]) + b"\n")
    done = cli("watch", "--once")
    assert done.returncode == 0
    assert "1 new entry" in done.stdout
    assert cli("watch", "--once").stdout == ""
    place().write_bytes(b"\n".join(LINES) + b"\n")
    assert "1 new entry" in cli("watch", "--once").stdout
    assert json.loads(cli("ls", "--json").stdout)["sessions"][0]["entries"] == 2


def test_watch_runs_until_it_is_terminated_and_has_nothing_to_undo(tmp_path: Path) -> None:
    place().write_bytes(b"\n".join(LINES[:2]) + b"\n")
    command = [sys.executable, "-m", "gitsession", "watch", "--every", "0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert "1 new entry" in child.stdout.readline()
        place().write_bytes(b"\n".join(LINES) + b"\n")
        assert "1 new entry" in child.stdout.readline()
        child.send_signal(signal.SIGINT)
        assert child.wait(120) == 130
        assert child.stderr.read() == ""
    assert cli("undo").returncode == 3


def test_file_that_cannot_be_imported_is_reported_once(tmp_path: Path) -> None:
    place("2026-02-01T00-00-00-000Z_bad.jsonl").write_bytes(LINES[0][:30] + b"\n" + b"\0" * 100)
    place().write_bytes(b"\n".join(LINES) + b"\n")
    assert "2 new entries" in cli("watch", "--once").stdout


def test_only_changed_files_are_read(tmp_path: Path) -> None:
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    one.write_text("1")
    two.write_text("2")
    watch = Watch(lambda: [(path, None) for path in sorted(tmp_path.glob("*.jsonl"))])
    assert [path for path, _ in watch.round()] == [one, two]
    assert watch.round() == []
    two.write_text("22")
    assert watch.round() == [(two, None)]
    one.unlink()
    assert watch.round() == []
