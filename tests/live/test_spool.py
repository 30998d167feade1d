"""Tests of the spool: files are complete or missing, in order of time, and failures are recorded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gitsession.live import spool

ALLOWED = {"gitsession", "gitsession.cli", "gitsession.cli.hooking", "gitsession.live", "gitsession.live.events"}


def loaded(store: Path, event: str, said: bytes) -> set[str]:
    """Run the hook and return the modules that it has loaded at its end."""
    code = (
        "import os, sys\nend = os._exit\n"
        "def show(code):\n    print(*sorted(sys.modules), file=sys.__stderr__); end(code)\n"
        "os._exit = show\n"
        f"sys.argv = ['gitsession', '--store', {str(store)!r}, 'hook', {event!r}]\n"
        "from gitsession.__main__ import main\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", code], input=said, capture_output=True, check=True)
    return set(done.stderr.decode().split())


@pytest.mark.parametrize(
    ("event", "said"),
    [("SessionStart", b'{"session_id": "x"}'), ("PreToolUse", b'{"tool_name": "Read", "session_id": "x"}')],
)
def test_event_without_a_scan_loads_few_modules(tmp_path: Path, event: str, said: bytes) -> None:
    modules = loaded(tmp_path / "store.git", event, said)
    assert not modules & {"json", "re", "pathlib", "signal", "subprocess", "typing", "dataclasses", "click", "enum"}
    ours = {name for name in modules if name.startswith("gitsession")}
    assert ours == ALLOWED | {"gitsession.__main__", "gitsession.live.spool"}


def test_events_are_in_order_of_time_and_present_once(tmp_path: Path) -> None:
    store = str(tmp_path)
    names = [spool.write(store, [b"%d" % number]) for number in range(20)]
    assert spool.waiting(store) == names == sorted(names)
    assert [Path(spool.path(store, name)).read_bytes() for name in names] == [b"%d" % number for number in range(20)]


def test_event_that_cannot_be_written_completely_is_missing(tmp_path: Path) -> None:
    def parts():
        yield b"begun"
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        spool.write(str(tmp_path), parts())
    assert os.listdir(spool.folder(str(tmp_path))) == []


def test_the_account_of_failures_is_bounded_and_keeps_the_newest(tmp_path: Path) -> None:
    store = str(tmp_path)
    for number in range(2000):
        spool.fail(store, f"{number} " + "x" * 1000)
    size = sum(path.stat().st_size for path in Path(spool.folder(store)).iterdir())
    assert size < 3 * spool.FAILURES_BYTES_MAX
    assert spool.failures(store)[-1][1].startswith("1999 ")
    spool.forget_failures(store)
    assert spool.failures(store) == []


def test_failure_is_recorded_as_one_line(tmp_path: Path) -> None:
    spool.fail(str(tmp_path), "a\nb\x1b[2J\udcff\0c")
    [(at_ms, words)] = spool.failures(str(tmp_path))
    assert at_ms > 0
    assert "\n" not in words
    assert "\x1b" not in words


def test_waiting_events_are_not_retried_by_every_command(tmp_path: Path) -> None:
    store = str(tmp_path)
    assert not spool.is_due(store)
    name = spool.write(store, [b""])
    assert spool.is_due(store)
    spool.leave(store, name)
    assert not spool.is_due(store)
    left = Path(spool.folder(store), spool.LEFT)
    os.utime(left, (1, 1))
    assert spool.is_due(store)
    spool.leave(store, name)
    spool.write(store, [b""])
    assert spool.is_due(store)


def test_spool_without_an_ingest_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "EVENTS_MAX", 3)
    names = [spool.write(str(tmp_path), [b""]) for _ in range(3)]
    with pytest.raises(OSError, match="more than 3 events are waiting"):
        spool.write(str(tmp_path), [b""])
    assert spool.waiting(str(tmp_path)) == names


def test_files_of_a_killed_hook_are_removed_after_a_while(tmp_path: Path) -> None:
    spool.make_folder(spool.folder(str(tmp_path)))
    old, new = (Path(spool.folder(str(tmp_path)), f"{name}.tmp") for name in ("old", "new"))
    for file in (old, new):
        file.write_bytes(b"half")
    os.utime(old, (1, 1))
    spool.sweep(str(tmp_path))
    assert (old.exists(), new.exists()) == (False, True)


NAMES = {"Stop": "Stop", "a-b_c": "a-b_c", "": "", "a b": "", "../x": "", "é": "", "x" * 65: "", '"': ""}


@pytest.mark.parametrize(("given", "kept"), NAMES.items())
def test_a_name_is_plain_or_none(given: str, kept: str) -> None:
    assert spool.fit(given) == kept
