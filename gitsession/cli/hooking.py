"""The command ``gitsession hook``, which agents run at every step. The command prints nothing and exits with 0.

``__main__`` runs this module without importing the command line. This module imports only what an event requires.
"""

from __future__ import annotations

import os
import select
import sys
import time

from gitsession.live import events, spool

TYPE_CHECKING = False  # not imported from typing, because that takes as long as the import of this whole module
if TYPE_CHECKING:
    from typing import Any

STDIN_BYTES_MAX = 32 << 20
STDIN_SECONDS = 5.0
CAPTURE_SECONDS = 10.0
"""Maximum time for a snapshot, in seconds. If it takes longer, the process that ingests the event takes a snapshot."""
WAIT_SECONDS = 5.0
"""Maximum time to wait for another process that is capturing the same workspace, in seconds."""

REASON_MAX = 200
PROMPT_MAX = 500


def is_for_us(arguments: list[str]) -> bool:
    """Return whether the command line is ``[--store DIR] hook EVENT...`` without an option for help."""
    at = 2 if arguments[:1] == ["--store"] else 1 if arguments[:1] and arguments[0].startswith("--store=") else 0
    return arguments[at : at + 1] == ["hook"] and not {"-h", "--help"} & set(arguments[at:])


def run(arguments: list[str]) -> None:
    """Run the hook. This function never raises."""
    store = event = ""
    try:
        store, event, agent = _parse_arguments(arguments)
        _take(store, event, agent)
    except BaseException as error:
        try:
            spool.fail(store or _store(""), f"{event or 'hook'}: {str(error) or type(error).__name__}")
        except BaseException:  # the error cannot be recorded
            pass


def _parse_arguments(arguments: list[str]) -> tuple[str, str, str]:
    store, agent, event = "", "", ""
    remaining = list(arguments)
    while remaining:
        word = remaining.pop(0)
        if word in ("--store", "--from") and remaining:
            value = remaining.pop(0)
            store, agent = (value, agent) if word == "--store" else (store, value)
        elif word.startswith("--store="):
            store = word.removeprefix("--store=")
        elif word.startswith("--from="):
            agent = word.removeprefix("--from=")
        elif word != "hook":
            event = word
    return _store(store), spool.fit(event), spool.fit(agent)


def _store(path: str) -> str:
    if path.startswith("/"):
        return path.rstrip("/") or "/"
    from gitsession.git import process
    from gitsession.paths import store_path

    return store_path(path or None, os.environ, os.path.expanduser("~"), process.user_setting)


def _take(store: str, event: str, agent: str) -> None:
    raw, is_complete = read_stdin()
    if not is_complete:
        spool.fail(store, f"{event}: more than {STDIN_BYTES_MAX >> 20} MiB on standard input, or no end within "
                          f"{STDIN_SECONDS:g} s")  # fmt: skip
        return
    at_ms = time.time_ns() // 1_000_000
    if event in events.SNAPSHOT_EVENTS:
        if event in events.TOOLS and events.read_only(raw):
            return
        _capture(store, event, agent, at_ms, raw)
    else:
        spool.write(store, [spool.raw_head(event or "unknown", agent, at_ms), raw])
    if event in events.INGEST_EVENTS:
        _start_drain(store)


def read_stdin() -> tuple[bytes, bool]:
    """Return standard input, and whether it was read completely."""
    parts: list[bytes] = []
    size, until = 0, time.monotonic() + STDIN_SECONDS
    while size <= STDIN_BYTES_MAX:
        left = until - time.monotonic()
        if left <= 0 or not select.select([0], [], [], left)[0]:
            return b"", False
        part = os.read(0, 1 << 20)
        if not part:
            return b"".join(parts), True
        parts.append(part)
        size += len(part)
    return b"", False


def _capture(store: str, event: str, agent: str, at_ms: int, raw: bytes) -> None:
    """Write the event with a snapshot of the workspace. If the capture fails, write the event without a snapshot."""
    import json
    import signal

    try:
        data = json.loads(raw)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        spool.write(store, [spool.raw_head(event, agent, at_ms), raw])  # the ingestion reports the invalid JSON
        return
    head = {"event": event, "agent": agent, "at_ms": at_ms, "data": _kept_fields(data)}
    from pathlib import Path

    from gitsession.errors import GitSessionError
    from gitsession.live import spool_snapshot

    def too_long(*_: object) -> None:
        raise TimeoutError(f"the snapshot took longer than {CAPTURE_SECONDS:g} s")

    try:
        cwd = data.get("cwd")
        if not isinstance(cwd, str) or not os.path.isabs(cwd):
            raise ValueError("the agent reported no working directory")
        # Create the spool first, so that a new store inside the workspace is detected and not captured.
        spool.make_folder(spool.folder(store))
        signal.signal(signal.SIGALRM, too_long)
        signal.setitimer(signal.ITIMER_REAL, CAPTURE_SECONDS)
        try:
            project = os.environ.get("CLAUDE_PROJECT_DIR", "")
            with spool_snapshot.workspace_of(cwd, Path.home(), Path(store), project) as root:
                head["workspace"] = os.fspath(root.path)
                spool_snapshot.spool_snapshot(Path(store), root, head, wait_seconds=WAIT_SECONDS)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except (GitSessionError, OSError, ValueError, RuntimeError) as error:
        spool.fail(store, f"{event}: {str(error) or type(error).__name__}")
        without_snapshot = json.dumps({"v": spool.VERSION, **head, "gave_up": str(error)})
        spool.write(store, [without_snapshot.encode() + b"\n"])
        if isinstance(error, TimeoutError | spool_snapshot.TooManyChanges):
            _start_drain(store)


def _kept_fields(data: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the agent's JSON that the ingestion requires.

    The input and output of tools are left out, because the agent's own file contains them.
    """
    names = (
        "session_id", "transcript_path", "agent_transcript_path", "agent_id", "cwd", "tool_name", "tool_use_id",
    )  # fmt: skip
    found = {name: data[name] for name in names if isinstance(data.get(name), str)}
    prompt = data.get("prompt")
    if isinstance(prompt, str):
        found["prompt"] = prompt[:PROMPT_MAX]
    args = data.get("tool_input")
    if isinstance(args, dict):
        text = next((args[key] for key in ("command", "file_path", "path", "filePath", "input") if args.get(key)), "")
        found["reason"] = f"{found.get('tool_name', '')}: {text}"[:REASON_MAX]
    return found


def _start_drain(store: str) -> None:
    """Start a separate process that ingests the spool, so that the agent does not have to wait."""
    if os.fork():
        return
    try:
        os.setsid()
        os.nice(10)
        os.chdir("/")
        nothing = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(nothing, fd)
        # -P: do not import modules from the agent's working directory.
        os.execv(sys.executable, [sys.executable, "-P", "-m", "gitsession", "--store", store, "drain", "--quiet"])
    finally:
        os._exit(0)
