"""Threads of codex that share lines: forks of another thread's file, and the files that start at a revert."""

from __future__ import annotations

from typing import Any

from codex_files import START, THREAD, assistant, at, call, event, joined, output, rollout, turn, user

CHILD = THREAD[:-1] + "2"

PARENT_FILE = rollout(turn("t1"), turn("t2"), event("token_count"), first=0)
AFTER_T1 = 7
"""Ordinal after the first turn: header, start, prompt, event, settings, answer, event."""


def child_of(base: str, end: int, *parts: Any, thread: str = CHILD, offset: int = 0) -> bytes:
    """Return a fork of the file ``base`` that shares its lines before the ordinal ``end``.

    Args:
        offset: Byte offset of the line ``end`` in the file ``base``. codex uses it; gitsession uses the ordinal.
    """
    came_from = {"thread_id": base, "end_ordinal_exclusive": end, "end_byte_offset": offset}
    return rollout(*parts, thread=thread, first=end, history_base=came_from, forked_from_id=base)


CHILD_FILE = child_of(THREAD, AFTER_T1, user("other"), call("c1"), output("c1"), assistant("way"))


SEGMENTS = [f"01a1ffd1-{number}26d-7a00-aa58-5bfc88e96001" for number in (4, 5, 6, 7)]
FORK = "01a1ffd1-926d-7a00-aa58-5bfc88e96002"
TURN = 6
"""Number of lines of a turn."""


def begun(base: str | None, end: int, *parts: Any, thread: str = THREAD, **meta: object) -> bytes:
    """Return a file that continues the file ``base`` and shares its lines before the ordinal ``end``."""
    history = {"history_base": {"thread_id": base, "end_ordinal_exclusive": end, "end_byte_offset": 1}} if base else {}
    header = at("session_meta", id=thread, timestamp=meta.pop("timestamp", START), cwd="/work", originator="codex_exec",
                cli_version="0.169.0", source="exec", history_mode="paginated", **history, **meta)  # fmt: skip
    return joined(header, *parts, first=end)


def name(thread: str, segment: str = "") -> str:
    return f"rollout-2026-11-21T20-34-22-{thread}{segment and '_'}{segment}"


FILES = {
    name(THREAD): begun(None, 0, turn("t1"), turn("t2"), turn("t3")),
    name(THREAD, SEGMENTS[0]): begun(THREAD, 1 + 2 * TURN, turn("t4"), turn("t5")),
    name(THREAD, SEGMENTS[1]): begun(SEGMENTS[0], 2 + 3 * TURN, turn("t6")),
    name(THREAD, SEGMENTS[2]): begun(THREAD, 1 + TURN, turn("t7"), turn("t8")),
    name(FORK): begun(SEGMENTS[2], 2 + 2 * TURN, turn("t9"), thread=FORK, forked_from_id=THREAD),
}
"""Files of a thread with three turns.

In turn, these are reverted: the last turn, the last of the next two, and all but the first. The last file is a fork of
the thread one turn later.
"""
