"""Sessions of Claude Code, each for one rule in docs/reference/context.md, with the expected context.

``tests/context/test_claude_context.py`` checks the profile of gitsession, and ``tests/real/test_real_claude.py`` checks
Claude Code itself.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from builders import dumps
from claude_code import (
    assistant,
    boundary,
    call,
    compacted,
    last_prompt,
    line,
    note,
    parallel,
    result,
    talk,
    user,
)


class Case(NamedTuple):
    lines: list[bytes]
    told: list[str]
    """Expected lines: ``u`` or ``a`` for the role, then the text, the call, or the result with the id of its call."""


def made_up(said: bytes, **fields: Any) -> bytes:
    """Return ``said`` as an answer that Claude Code generated without the model."""
    found = json.loads(said)
    found["message"]["model"] = "<synthetic>"
    return dumps({**found, **fields})


def words(*ids: str) -> list[str]:
    return [f"{'ua'[at % 2]} words of {id}" for at, id in enumerate(ids)]


HM = {"type": "thinking", "thinking": "hm", "signature": "sig"}
BOTH = [{"type": "tool_result", "tool_use_id": "c1", "content": "one"},
        {"type": "tool_result", "tool_use_id": "c2", "content": "two"}]  # fmt: skip
FORKED = [*talk("a", "b", "c", "d"), user("e", "b"), assistant("f", "e")]
ABCD = talk("a", "b", "c", "d")
ASKED = [*talk("a"), assistant("b", "a", call("c1"))]

CASES: dict[str, Case] = {
    "L1 all of one line": Case(ABCD, words("a", "b", "c", "d")),
    "L1 the branch that last-prompt names": Case([*FORKED, last_prompt("d")], words("a", "b", "c", "d")),
    "L1 what went on below it": Case([*FORKED, last_prompt("d"), *talk("g", "h", after="d")],
                                     words("a", "b", "c", "d", "g", "h")),
    "L1 the later of two branches": Case(FORKED, words("a", "b", "e", "f")),
    "L1 the later of two beginnings": Case([*talk("a", "b"), *talk("c", "d")], words("c", "d")),
    "L1 no sidechain": Case([*talk("a", "b"), user("x", None, isSidechain=True)], words("a", "b")),
    "L1 past a parent that was never written": Case([*talk("a", "b"), user("c", "gone", at=3), assistant("d", "c", at=4)
                                                     ], words("a", "b", "c", "d")),
    "L1 past progress": Case([*talk("a"), line("progress", "p", "a", data={}), assistant("b", "p")], words("a", "b")),
    "L2 nothing before a compaction but its summary": Case([*ABCD, *compacted("f", "d"), *talk("g", "h", after="sf")],
                                                           ["u What was said.", *words("g", "h")]),
    "L2 nothing before a boundary without a summary": Case([*ABCD, boundary("f", "d"), *talk("g", "h", after="f")],
                                                           words("g", "h")),
    "L2 a summary without a boundary": Case([user("a", None, "S", isCompactSummary=True), assistant("b", "a")],
                                            ["u S", "a words of b"]),
    "L3 what a compaction kept, behind the summary": Case(
        [*ABCD, *compacted("f", "d", keeps=("c", "d")), *talk("g", "h", after="sf")],
        ["u What was said.", *words("c", "d", "g", "h")]),
    "L3 also where the next line hangs below what was kept": Case(
        [*ABCD, *compacted("f", "d", keeps=("c", "d")), *talk("g", "h", after="d")],
        ["u What was said.", *words("c", "d", "g", "h")]),
    "L3 an earlier summary too, where it is listed": Case(
        [*talk("a", "b"), *compacted("f", "b"), *talk("c", "d", after="sf"),
         *compacted("g", "d", keeps=("sf", "c", "d")), *talk("h", "i", after="sg")],
        ["u What was said.", "u What was said.", *words("c", "d", "h", "i")]),
    "L3 summarize up to here: kept messages that were cut off": Case(
        [*ABCD, *compacted("f", "b", keeps=("c", "d")), *talk("g", "h", after="sf")],
        ["u What was said.", *words("c", "d", "g", "h")]),
    "L3 summarize from here: kept messages before the summary": Case(
        [*ABCD, *compacted("f", "b", keeps=("a", "b"), anchor="f"), *talk("g", "h", after="sf")],
        [*words("a", "b"), "u What was said.", *words("g", "h")]),
    "L3 nothing where one of it is gone": Case(
        [*ABCD, *compacted("f", "d", keeps=("c", "x", "d")), *talk("g", "h", after="sf")],
        ["u What was said.", *words("g", "h")]),
    "L4 several results in one line": Case(
        [*talk("a"), assistant("b", "a", call("c1"), call("c2")), user("r", "b", BOTH), assistant("d", "r")],
        ["u words of a", "a Bash c1", "a Bash c2", "u c1 -> one", "u c2 -> two", "a words of d"]),
    "L4 words beside a result": Case(
        [*ASKED, user("r", "b", [BOTH[0], {"type": "text", "text": "also"}]), assistant("d", "r")],
        ["u words of a", "a Bash c1", "u c1 -> one", "u also", "a words of d"]),
    "L5 calls made together, with all their results": Case(
        [*talk("a"), *parallel("d", "a"), assistant("e", "rd3")],
        ["u words of a", "a (hm)", "a Bash call_d1", "a Bash call_d2", "a Bash call_d3", "u call_d1 -> done",
         "u call_d2 -> done", "u call_d3 -> done", "a words of e"]),
    "L5 blocks of one answer that results stand between": Case(
        [*talk("a"), assistant("b", "a", call("c1"), answer="q"), result("r", "b", "c1"),
         assistant("c", "b", call("c2"), answer="q"), result("s", "c", "c2"), assistant("d", "s")],
        ["u words of a", "a Bash c1", "a Bash c2", "u c1 -> done", "u c2 -> done", "a words of d"]),
    "L6 no call at the end without a result": Case(
        [*talk("a"), assistant("d", "a", answer="q"), assistant("e", "d", call("c1"), answer="q")],
        ["u words of a", "a words of d"]),
    "L6 no call in the middle without a result": Case([*ASKED, user("c", "b"), assistant("d", "c")],
                                                      ["u words of a", "u words of c", "a words of d"]),
    "L6 no result without a call": Case([*talk("a", "b"), result("r", "b", "x"), user("c", "r"), assistant("d", "c")],
                                        words("a", "b", "c", "d")),
    "L6 but a stand-in where two answers would meet": Case(
        [*talk("a", "b"), result("r", "b", "x"), assistant("d", "r")],
        ["u words of a", "a words of b", "u (no content)", "a words of d"]),
    "L6 the first of two results": Case(
        [*ASKED, result("r", "b", "c1", "ONE"), result("s", "r", "c1", "TWO"), assistant("d", "s")],
        ["u words of a", "a Bash c1", "u c1 -> ONE", "a words of d"]),
    "L7 no answer that only thinks": Case(
        [*talk("a"), assistant("b", "a", HM), user("c", "b"), assistant("d", "c")],
        ["u words of a", "u words of c", "a words of d"]),
    "L7 no blank answer": Case([*talk("a"), assistant("b", "a", {"type": "text", "text": " "}), user("c", "b"),
                                assistant("d", "c")], ["u words of a", "u words of c", "a words of d"]),
    "L7 thoughts before words": Case(
        [*talk("a"), assistant("b", "a", HM, answer="q"), assistant("c", "b", answer="q")],
        ["u words of a", "a (hm)", "a words of c"]),
    "L8 no word of a failed request": Case(
        [*talk("a", "b", "c"), made_up(assistant("d", "c"), isApiErrorMessage=True), user("e", "d"),
         assistant("f", "e")],
        ["u words of a", "a words of b", "u words of c", "u words of e", "a words of f"]),
    "L9 what only the agent said as the user, and what only the screen shows": Case(
        [*talk("a", "b"), user("m", "b", isMeta=True), user("v", "m", isVisibleInTranscriptOnly=True),
         assistant("d", "v")],
        ["u words of a", "a words of b", "u words of m", "u words of v", "a words of d"]),
    "L9 what a command of the program printed": Case(
        [*talk("a", "b"), line("system", "l", "b", subtype="local_command", content="<out>", level="info"),
         assistant("d", "l")],
        ["u words of a", "a words of b", "u <out>", "a words of d"]),
    "replaced results stay what they were": Case(
        [*ASKED, result("r", "b", "c1"),
         note("content-replacement", replacements=[{"kind": "tool-result", "toolUseId": "c1", "replacement": "S"}]),
         assistant("d", "r")],
        ["u words of a", "a Bash c1", "u c1 -> done", "a words of d"]),
}  # fmt: skip


def told(messages: list[dict[str, Any]]) -> list[str]:
    """Return the messages of a request in the notation of a case. Results are sorted by call id."""
    found: list[str] = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        said = [f"{message['role'][0]} {_told(block)}" for block in blocks]
        results = sorted(words for words in said if " -> " in words)
        found += [*results, *[words for words in said if " -> " not in words]]
    return found


def _told(block: dict[str, Any]) -> str:
    if block["type"] == "text":
        return str(block["text"])
    if block["type"] == "thinking":
        return f"({block['thinking']})"
    if block["type"] == "tool_use":
        return f"{block['name']} {block['id']}"
    if block["type"] == "tool_result":
        content = block.get("content") or ""
        inside = content if isinstance(content, str) else "\n".join(_told(each) for each in content)
        return f"{block['tool_use_id']} -> {inside}"
    return str(block["type"])
