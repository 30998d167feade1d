"""Session files of every agent, and random changes to them that no agent makes, for tests of hostile imports.

The changes are drawn from a ``random.Random``. If it is hypothesis's own, hypothesis can shrink a failure.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import aider_files
import claude_code
import codex_files
import opencode_files
from builders import dumps, entry, joined, label, named, pi_file, said, slot, talk
from mutation import mutant

_RAW = "raw token "
"""Prefix of a string that is written as a raw token, which ``json`` would not write."""

PI = [
    *talk("00000001", "00000002", "00000003"),
    said("00000004", "00000002", at=4),
    label("00000005", "00000004", "00000002", "mark", at=5),
    entry("model_change", "00000006", "00000005", at=6, provider="mock", modelId="m"),
    entry("compaction", "00000007", "00000006", at=7, summary="S", firstKeptEntryId="00000003", tokensBefore=9),
    entry("branch_summary", "00000008", "00000007", at=8, fromId="00000003", summary="left"),
    entry("custom", "00000009", "00000008", at=9, customType="x", data={"a": [1, None]}),
    said("0000000a", "00000009", role="toolResult", at=10, toolCallId="c", toolName="ls", isError=False),
    named("0000000b", "0000000a", "Name", at=11),
]
CODEX = codex_files.rollout(
    codex_files.TALK,
    codex_files.turn("t3", codex_files.call("c1"), codex_files.output("c1")),
    codex_files.rolled_back(2),
    codex_files.turn("t4"),
    codex_files.compacted("S", [codex_files.message("user", "U t4")]),
    codex_files.at("world_state", a=1),
    codex_files.turn("t5"),
)
CLAUDE = joined(
    *claude_code.asked(),
    *claude_code.talk("a", "b", "c", "d"),
    *claude_code.parallel("p", "d"),
    claude_code.user("e", "b"),
    *claude_code.compacted("f", "e", keeps=("b", "e")),
    claude_code.user("g", "sf"),
    claude_code.user("h", None, isSidechain=True),
    claude_code.assistant("i", "h", isSidechain=True),
    claude_code.note("ai-title", aiTitle="T"),
    claude_code.last_prompt("g"),
)
OPENCODE_TALK = [
    opencode_files.user("msg_u1", "hi", at=1, summary={"diffs": []}),
    opencode_files.answer(
        "msg_a1", "ho", at=2, parts=[opencode_files.tool("c1", time={"compacted": 1_769_900_003_500})]
    ),
    opencode_files.user("msg_u2", "again", at=3),
    opencode_files.answer("msg_a2", "yes", at=4),
    *opencode_files.compaction("msg_c", "msg_s", "So far.", at=6, tail="msg_u2"),
    opencode_files.user("msg_u3", "more", at=8),
    opencode_files.answer("msg_a3", "still", at=9, done=False),
]
OPENCODE = opencode_files.export(OPENCODE_TALK)
AIDER = aider_files.history(
    aider_files.run(), aider_files.user("Fix it"), aider_files.answer("Of course.\n\n```py\n# x\n```"),
    aider_files.edited("a.py", "1234567 fix"), aider_files.restored(), aider_files.user("/add b\nb"),
    aider_files.user("go on"), aider_files.answer("# Done\n\n> quoted"),
)  # fmt: skip
LIBRECODE = joined(
    dumps({"type": "session", "id": "s1", "cwd": "/work", "name": "N", "created_at": "2026-02-01T00:00:00Z"}),
    *(
        dumps({"id": id, "parent_id": above, "created_at": f"2026-02-01T00:00:0{at}Z", **fields})
        for at, (id, above, fields) in enumerate([
            ("u1", None, {"entry_type": "message", "role": "user", "content": "hi"}),
            ("a1", "u1", {"entry_type": "message", "role": "assistant", "content": "ho", "provider": "p"}),
            ("t1", "a1", {"entry_type": "message", "role": "toolResult", "content": "x", "tool_name": "ls",
                          "tool_args_json": "{}", "parts": [{"type": "image", "data": "iVBORw0KGgo="}]}),
            ("u2", "u1", {"entry_type": "message", "role": "user", "content": "beside"}),
            ("c1", "u2", {"entry_type": "compaction", "summary": "S", "compaction_first_kept_entry_id": "u1"}),
            ("l1", "c1", {"entry_type": "label", "data_json": '{"label":"L","targetId":"u1"}'}),
        ], 1)
    ),
)  # fmt: skip

FILES: dict[str, bytes] = {
    "aider": AIDER,
    "claude": CLAUDE,
    "codex": CODEX,
    "librecode": LIBRECODE,
    "omp": slot("T") + b"\n" + pi_file(*PI, title="T"),
    "opencode": OPENCODE,
    "pi": pi_file(*PI),
}
"""A session file of each agent with examples of every kind of content."""

HOSTILE: Sequence[Any] = (
    None, True, False, 0, -1, 1, 3, 1.5, -0.0, 2**31, 2**53, 2**63, -(2**63) - 1, 2**64, 10**300, "", " ", "0", "x",
    "\0", "\ud800", "a\udfff\ud800b", "\n", "\r\n", "\x1b[2J", "\u2028", "root", "a" * 5000,
    "[" * 50_000, "9" * 5000, [], {}, [[]], [None], {"": {}},
    [{}], {"type": "text", "text": 1}, "9999-12-31T23:59:59.999Z", "0000-00-00T00:00:00Z", "-1", "1970-01-01T00:00:00Z",
    9_999_999_999_999_999, -62_135_596_800_001, float("nan"), float("inf"), float("-inf"),
    f"{_RAW}1e999", f"{_RAW}-1e999",
    f"{_RAW}{'9' * 5000}", f"{_RAW}-{'9' * 400}", f"{_RAW}{'[' * 150}{']' * 150}", f"{_RAW}{'[' * 100_000}",
    f"{_RAW}{'[' * 1000}{']' * 1000}", f'{_RAW}{{"a":' * 1 + "1}", f'{_RAW}1,"id":"other"', f"{_RAW}1}}", f"{_RAW}",
    f'{_RAW}"\\ud800"', f'{_RAW}{{"a":1,"a":2}}', f"{_RAW}01", f'{_RAW}"\t"',
)  # fmt: skip
"""Values that no field expects. Texts that begin with ``_RAW`` are written without quotes."""


def spelled(value: Any, indent: int | None = None) -> bytes:
    """Return JSON, with the tokens marked by ``_RAW`` written as raw, possibly invalid text."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=None if indent else (",", ":"))
    parts = text.split(f'"{_RAW}')
    for at, part in enumerate(parts[1:], 1):
        token, end = json.decoder.scanstring(f'"{part}', 1, False)  # type: ignore[attr-defined]
        parts[at] = token + part[end - 1 :]
    return "".join(parts).encode("utf-8", "surrogatepass")


def wounded(draw: random.Random, agent: str) -> bytes:
    """Return the session file of ``agent`` with one to five changes: first to its values, then to its bytes."""
    data = FILES[agent]
    for _ in range(draw.randint(0, 4)):
        data = draw.choice(_MEANING[agent])(draw, data)
    for _ in range(draw.randint(0, 1) if draw.random() < 0.6 else 0):
        data = draw.choice(_BYTES)(draw, data)
    return data


# ---- what a file says


def _lines(change: Callable[[random.Random, list[bytes]], None]) -> Callable[[random.Random, bytes], bytes]:
    def wound(draw: random.Random, data: bytes) -> bytes:
        lines = data.split(b"\n")
        change(draw, lines)
        return b"\n".join(lines)

    return wound


def _objects(change: Callable[[random.Random, list[Any]], None]) -> Callable[[random.Random, bytes], bytes]:
    """Return a change of the values in a file of lines. Lines that are not valid JSON stay the same."""

    def wound(draw: random.Random, data: bytes) -> bytes:
        lines = data.split(b"\n")
        found = [(at, value) for at, line in enumerate(lines) if (value := _parsed(line))]
        if not found:
            return data
        values = [value for _, value in found]
        change(draw, values)
        for (at, _), value in zip(found, values, strict=True):
            lines[at] = spelled(value)
        return b"\n".join(lines)

    return wound


def _document(change: Callable[[random.Random, list[Any]], None]) -> Callable[[random.Random, bytes], bytes]:
    """Return a change of the messages of a document, or of the whole document."""

    def wound(draw: random.Random, data: bytes) -> bytes:
        value = _parsed(data)
        if not isinstance(value, dict):
            return data
        messages = value.get("messages")
        if isinstance(messages, list) and messages and draw.random() < 0.7:
            change(draw, messages)
        else:
            change(draw, [value])
        return spelled(value, draw.choice([2, 2, None])) + b"\n"

    return wound


def _parsed(text: bytes) -> Any:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return every position in a value, as its container and its key or index."""
    found: list[tuple[Any, Any]] = []
    todo = [value]
    while todo:
        at = todo.pop()
        keys = list(at) if isinstance(at, dict) else range(len(at)) if isinstance(at, list) else []
        found += [(at, key) for key in keys]
        todo += [at[key] for key in keys]
    return found


_IDS = ("id", "uuid", "parentId", "parentUuid", "parent_id", "leafUuid", "logicalParentUuid", "targetId", "messageID",
        "firstKeptEntryId", "fromId", "parentID", "call_id", "callID",
        "sessionId", "sessionID", "thread_id")  # fmt: skip
_TIMES = ("timestamp", "created", "completed", "compacted", "created_at", "updated", "time", "start")


def _swap(draw: random.Random, values: list[Any]) -> None:
    places = _places(draw.choice(values))
    if places:
        at, key = draw.choice(places)
        at[key] = draw.choice(HOSTILE)


def _reuse(draw: random.Random, values: list[Any]) -> None:
    """Replace an id with another one. This causes reused ids, cycles and entries that are their own parent."""
    places = [place for value in values for place in _places(value) if place[1] in _IDS]
    if places:
        (at, key), (other, its) = draw.choice(places), draw.choice(places)
        at[key] = other[its]


def _all_one(draw: random.Random, values: list[Any]) -> None:
    """Set one id, or one parent, for all lines."""
    name, chosen = draw.choice(_IDS), draw.choice(["00000001", "ffffffff", "", None, 5, "nobody"])
    for value in values:
        if isinstance(value, dict) and name in value:
            value[name] = chosen


def _wrap(draw: random.Random, values: list[Any]) -> None:
    """Replace an id with one that is unknown or at the start or end of its range."""
    places = [place for value in values for place in _places(value) if place[1] in _IDS]
    if places:
        at, key = draw.choice(places)
        at[key] = draw.choice(["00000000", "ffffffff", "msg_000000000000", "nobody", "00000000-0000-4000-8000-0"])


def _when(draw: random.Random, values: list[Any]) -> None:
    places = [place for value in values for place in _places(value) if place[1] in _TIMES]
    for at, key in draw.sample(places, min(len(places), draw.randint(1, 3))):
        at[key] = draw.choice(HOSTILE)


def _less(draw: random.Random, values: list[Any]) -> None:
    places = [place for place in _places(draw.choice(values)) if isinstance(place[0], dict)]
    if places:
        at, key = draw.choice(places)
        del at[key]


def _more(draw: random.Random, values: list[Any]) -> None:
    """Copy a field to another line or under an unknown key."""
    target = draw.choice(values)
    fields = [place for value in values for place in _places(value) if isinstance(place[0], dict)]
    if isinstance(target, dict) and fields:
        at, key = draw.choice(fields)
        target[draw.choice([key, "version", "extra", ""])] = at[key]


def _another(draw: random.Random, values: list[Any]) -> None:
    """Copy a line over another one, in half of the cases with a change."""
    again = json.loads(json.dumps(draw.choice(values)))
    values[draw.randrange(len(values))] = again
    if draw.random() < 0.5:
        _swap(draw, [again])


_OBJECTS = (_swap, _swap, _swap, _reuse, _reuse, _all_one, _wrap, _when, _less, _more, _another)


def _gone(draw: random.Random, lines: list[bytes]) -> None:
    at = draw.randrange(len(lines))
    del lines[at : at + draw.randint(1, 3)]


def _twice(draw: random.Random, lines: list[bytes]) -> None:
    at = draw.randrange(len(lines) or 1)
    lines[at:at] = lines[at : at + draw.randint(1, 4)]


def _order(draw: random.Random, lines: list[bytes]) -> None:
    a, b = draw.randrange(len(lines) or 1), draw.randrange(len(lines) or 1)
    lines[a : b + 1] = reversed(lines[a : b + 1])


def _strange(draw: random.Random, lines: list[bytes]) -> None:
    """Insert a line of another agent, or one of no known format."""
    other = draw.choice(FILES[draw.choice(sorted(FILES))].split(b"\n"))
    odd = [
        b"",
        b" ",
        b"\r",
        b"null",
        b"[]",
        b'"x"',
        b"{",
        b"{}",
        b"\xff",
        b"\0" * 9,
        b"\xef\xbb\xbf{}",
        b"5",
        other,
        other,
    ]
    lines.insert(draw.randint(0, len(lines)), draw.choice(odd))


def _repeated_key(draw: random.Random, lines: list[bytes]) -> None:
    at = draw.randrange(len(lines) or 1)
    if lines and lines[at].endswith(b"}"):
        name = draw.choice([*_IDS, *_TIMES, "type", "info", "parts", "messages", "payload", "message"]).encode()
        lines[at] = lines[at][:-1] + b',"' + name + b'":' + spelled(draw.choice(HOSTILE)) + b"}"


_LINES = (_gone, _twice, _order, _strange, _repeated_key)
_BY_LINE = (*map(_lines, _LINES), *map(_objects, _OBJECTS), *map(_objects, _OBJECTS))
_MEANING: dict[str, Sequence[Callable[[random.Random, bytes], bytes]]] = {
    **dict.fromkeys(FILES, _BY_LINE),
    "aider": (*map(_lines, _LINES),),
    "opencode": (*map(_document, _OBJECTS), *map(_document, _OBJECTS), *map(_lines, (_strange, _repeated_key, _gone))),
}


# ---- its bytes


def _crlf(draw: random.Random, data: bytes) -> bytes:
    return data.replace(b"\n", b"\r\n", draw.choice([-1, 1, 3]))


def _begun_oddly(draw: random.Random, data: bytes) -> bytes:
    return draw.choice([b"\xef\xbb\xbf", b"\n", b"\0", b"\n\n \n", b"\xff\xfe", b"{}\n", b"[\n", b"\x1f\x8b"]) + data


def _nuls(draw: random.Random, data: bytes) -> bytes:
    """Write blocks of zeros into the file or at its end, as a power failure does."""
    at = draw.randint(0, len(data))
    return data[:at] + bytes(draw.choice([1, 9, 4096])) + draw.choice([data[at:], data[at + 4096 :], b""])


def _cut(draw: random.Random, data: bytes) -> bytes:
    return data[: draw.randint(0, len(data))]


def _without_end(draw: random.Random, data: bytes) -> bytes:
    return data.rstrip(b"\n") + draw.choice([b"", b"\n\n", b'\n{"half', b"\n\xff"])


def _utf16(draw: random.Random, data: bytes) -> bytes:
    return data.decode("utf-8", "replace").encode("utf-16" if draw.random() < 0.5 else "latin-1", "replace")


def _mutant(draw: random.Random, data: bytes) -> bytes:
    return mutant(draw, data) if data else data


_BYTES = (_crlf, _begun_oddly, _nuls, _cut, _cut, _without_end, _utf16, _mutant, _mutant, _mutant)
