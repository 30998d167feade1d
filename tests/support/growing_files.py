"""Hypothesis strategies for session files of pi, Claude Code and codex, and for versions of a file that grows."""

from __future__ import annotations

import json

from builders import dumps, pi_file, said, slot
from claude_code import SESSION, assistant, boundary, call, compacted, result, user
from claude_code import uuid as claude_id
from codex_files import NAME, rollout
from hypothesis import strategies as st


def claude_file(*lines: bytes) -> bytes:
    return b"".join(line + b"\n" for line in lines)


IDS = [f"{number:02}" for number in range(12)]
CUTS = st.lists(st.floats(0, 1), min_size=1, max_size=5)


@st.composite
def pi_files(draw: st.DrawFn) -> bytes:
    is_odd, version = draw(st.integers(0, 3)) == 0, draw(st.sampled_from([1, 3, 3]))
    lines: list[bytes] = []
    used: list[str] = []
    for number in range(draw(st.integers(3, 12))):
        id = draw(st.sampled_from(IDS)) if is_odd else IDS[number]
        parent = draw(st.sampled_from([*used[-1:] * 4, *used, None, *(["zz", *IDS] if is_odd else [])]))
        line = json.loads(said(id, parent, f"text {number}", at=number + 1))
        without = draw(st.integers(0, 6))
        if without == 0 or version == 1:
            line = {"type": line["type"] if version == 1 else "custom", "number": number}
        elif without == 1 and used:
            del line["parentId"]
        lines.append(dumps(line))
        used += [id] if "id" in line else []
        if is_odd:
            lines += draw(st.sampled_from([[], [], [b""], [b"{broken"], [b'{"type":"session","id":"t"}']]))
    data = pi_file(*lines, version=version)
    return slot("title") + b"\n" + data if draw(st.booleans()) else data


@st.composite
def claude_files(draw: st.DrawFn) -> bytes:
    is_odd = draw(st.integers(0, 3)) == 0
    lines: list[bytes] = [user("p0", None)]
    used = ["p0"]
    for number in range(draw(st.integers(3, 12))):
        id = draw(st.sampled_from(IDS)) if is_odd else IDS[number]
        parent = draw(st.sampled_from([*used[-1:] * 6, *used, *([None, "zz"] if is_odd else [])]))
        answer, at = f"msg{draw(st.integers(0, 2))}", number + 1
        kind = draw(st.integers(0, 13 if is_odd else 12))
        if kind < 3:
            lines.append(user(id, parent, at=at, isSidechain=draw(st.integers(0, 6)) == 0))
        elif kind < 6:
            lines.append(assistant(id, parent, call(f"c{number}"), answer=answer, at=at))
        elif kind < 9:
            lines.append(result(id, parent, f"c{draw(st.integers(0, 9))}", at=at))
        elif kind == 9:
            named = {"leafUuid": claude_id(parent or "zz"), "explicit": draw(st.booleans())}
            lines.append(dumps({"type": "last-prompt", "sessionId": SESSION, **named}))
        elif kind == 10:
            lines.append(dumps({"type": "custom-title", "customTitle": f"title {number}", "sessionId": SESSION}))
        elif kind == 11:
            lines.append(dumps({"type": "queue-operation", "number": number, "sessionId": SESSION}))
        elif kind == 12:
            lines += compacted(id, parent, at=at, keeps=tuple(used[-1:]))
        else:
            lines.append(draw(st.sampled_from([b"{broken", b"", boundary(id, parent, at)])))
        used += [id] if kind < 9 else [f"s{id}"] if kind == 12 else []
    return claude_file(*lines)


@st.composite
def codex_files(draw: st.DrawFn) -> bytes:
    lines = []
    for number in range(draw(st.integers(0, 14))):
        kind = draw(st.integers(0, 6))
        text = [{"type": "input_text", "text": draw(st.sampled_from([f"prompt {number}", "<skill>s</skill>"]))}]
        if kind < 3:
            role = draw(st.sampled_from(["user", "assistant"]))
            lines.append({"type": "response_item", "payload": {"type": "message", "role": role, "content": text}})
        elif kind == 3:
            lines.append({"type": "turn_context", "payload": {"cwd": "/work"}})
        elif kind == 4:
            lines.append({"type": "event_msg", "payload": {"type": "token_count", "number": number}})
        elif kind == 5:
            count = draw(st.integers(0, 3))
            lines.append({"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": count}})
        else:
            lines.append({"type": "response_item", "payload": {"type": "reasoning", "id": f"r{number}"}})
    return rollout(lines, first=draw(st.sampled_from([None, 0])))


GROWING = {"pi": (pi_files(), "x.jsonl"), "claude": (claude_files(), f"{SESSION}.jsonl"),
           "codex": (codex_files(), f"{NAME}.jsonl")}  # fmt: skip


def versions(data: bytes, cuts: list[float]) -> list[bytes]:
    return [data[: round(cut * len(data))] for cut in sorted(cuts)] + [data]
