"""Sessions for the rules by which opencode builds its context, by name."""

from __future__ import annotations

from typing import Any

from opencode_files import START_MS, Message, answer, compaction, tool, user

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def marked(part: Message, *, at: int) -> Message:
    """Return the part, marked as removed from the context."""
    time = {**part["state"]["time"], "compacted": START_MS + 1000 * at + 500}
    return {**part, "state": {**part["state"], "time": time}}


def text(words: str, **fields: Any) -> Message:
    return {"type": "text", "text": words, **fields}


def thought(words: str) -> Message:
    return {"type": "reasoning", "text": words, "time": {"start": START_MS}}


STEP: Message = {"type": "step-start"}
ONE = [user("msg_u1", "One", at=1), answer("msg_a1", "First.", at=2, parts=[tool("call_1", "11")])]
TWO = [user("msg_u2", "Two", at=4), answer("msg_a2", "Second.", at=5)]
END = [user("msg_u9", "Nine", at=90), answer("msg_a9", "Ninth.", at=91)]


def file(mime: str, name: str, url: str) -> Message:
    return {"type": "file", "mime": mime, "filename": name, "url": url}


def failed_compaction() -> list[Message]:
    asked, summary = compaction("msg_c", "msg_s", "", at=10)
    summary["info"]["error"] = {"name": "UnknownError", "data": {"message": "no"}}
    return [asked, summary]


def picture() -> Message:
    ids = {"id": "prt_x", "sessionID": "ses_one", "messageID": "msg_a1"}
    return {**ids, **file("image/png", "a.png", f"data:image/png;base64,{PNG}")}


CASES: dict[str, list[Message]] = {
    "words and a call": [*ONE, *TWO],
    "several calls, one of which failed": [
        user("msg_u1", "One", at=1),
        answer("msg_a1", at=2, parts=[
            STEP, tool("c1", "1"), tool("c2", status="error", error="no"), tool("c3", ""), text("And so."),
        ]),
    ],
    "several steps in one answer": [
        user("msg_u1", "One", at=1),
        answer("msg_a1", at=2, parts=[
            STEP, text("A"), tool("c1", "1"), STEP, text("B"), tool("c2", "2"), STEP, text("C"),
        ]),
    ],
    "a result that is not shown any more": [
        user("msg_u1", "One", at=1),
        answer("msg_a1", at=2, parts=[
            marked(tool("c1", "old", attachments=[picture()]), at=6),
            tool("c2", "new"),
        ]),
        *TWO, *END,
    ],
    "a compaction that kept nothing": [*ONE, *TWO, *compaction("msg_c", "msg_s", "So far.", at=10), *END],
    "a compaction that kept a turn": [*ONE, *TWO, *compaction("msg_c", "msg_s", "So far.", at=10, tail="msg_u2"), *END],
    "a compaction that kept half a turn": [
        *ONE, *TWO, *compaction("msg_c", "msg_s", "So far.", at=10, tail="msg_a2"), *END,
    ],
    "a compaction that kept what is not there": [
        *ONE, *TWO, *compaction("msg_c", "msg_s", "So far.", at=10, tail="msg_gone"), *END,
    ],
    "two compactions, the second of which kept the first": [
        *ONE, *compaction("msg_c", "msg_s", "So far.", at=3),
        *TWO, *compaction("msg_d", "msg_t", "Further.", at=10, tail="msg_u1"), *END,
    ],
    "two compactions": [
        *ONE, *compaction("msg_c", "msg_s", "So far.", at=3, tail="msg_u1"),
        *TWO, *compaction("msg_d", "msg_t", "Further.", at=10, tail="msg_u2"), *END,
    ],
    "a compaction after which a request that was too long is said again": [
        *ONE,
        user("msg_u2", at=4, parts=[text("Two"), file("image/png", "a.png", f"data:image/png;base64,{PNG}")]),
        *compaction("msg_c", "msg_s", "So far.", at=10),
        user("msg_u3", at=12, parts=[text("Two"), text("[Attached image/png: a.png]")]),
        answer("msg_a3", "Second.", at=13),
    ],
    "a compaction that failed": [*ONE, *failed_compaction()],
    "a request to compact without an answer": [*ONE, compaction("msg_c", "msg_s", "", at=10)[0], *END],
    "a call that was broken off": [
        user("msg_u1", "One", at=1),
        answer("msg_a1", at=2, done=False, parts=[
            STEP, tool("c1", status="running"),
            {"type": "tool", "tool": "bash", "callID": "c2", "state": {"status": "pending", "input": {}, "raw": ""}},
            tool("c3", status="error", error="aborted", metadata={"interrupted": True, "output": "half"}),
            tool("c4", status="error", error="aborted", metadata={"interrupted": True}),
        ]),
        *TWO,
    ],
    "an answer that the user broke off": [
        user("msg_u1", "One", at=1),
        answer("msg_a1", "Half", at=2, error={"name": "MessageAbortedError", "data": {"message": "Aborted"}}),
        user("msg_u2", "Two", at=3),
        answer("msg_a2", at=4, parts=[STEP, thought("Hm.")],
               error={"name": "MessageAbortedError", "data": {"message": "Aborted"}}),
        *END,
    ],
    "an answer that failed": [
        user("msg_u1", "One", at=1),
        answer("msg_a1", "Half", at=2, error={"name": "APIError", "data": {"message": "no", "isRetryable": False}}),
        *TWO,
    ],
    "words that nobody typed, and words for the user only": [
        user("msg_u1", "One", at=1, parts=[text("made up", synthetic=True), text("for you", ignored=True), text("")]),
        answer("msg_a1", "", "First.", at=2),
        user("msg_u2", at=3, parts=[text("only for you", ignored=True)]),
        answer("msg_a2", "Second.", at=4),
    ],
    "files of the user": [
        user("msg_u1", "One", at=1, parts=[
            text("Called the Read tool", synthetic=True),
            file("text/plain", "a.txt", "file:///work/a.txt"),
            file("application/x-directory", "d", "file:///work/d"),
            file("image/png", "a.png", f"data:image/png;base64,{PNG}"),
            {"type": "agent", "name": "build", "source": {"value": "@build", "start": 0, "end": 6}},
        ]),
        answer("msg_a1", "First.", at=2),
    ],
    "a task that the user gave": [
        user("msg_u1", at=1, parts=[
            {"type": "subtask", "prompt": "p", "description": "d", "agent": "general", "command": "x"},
        ]),
        answer("msg_a1", "First.", at=2, parts=[tool("c1", "out", name="task")]),
    ],
    "thoughts": [
        user("msg_u1", "One", at=1),
        answer("msg_a1", at=2, parts=[
            thought("Hm."), text("First."),
        ]),
        *TWO,
    ],
    "thoughts before, between and without words": [
        user("msg_u1", "One", at=1),
        answer("msg_a1", at=2, parts=[
            STEP, thought("T1."), thought("T2."), text("First."), text("More."), tool("c1", "out"), thought("T3."),
            text("End."),
        ]),
        user("msg_u2", "Two", at=3),
        answer("msg_a2", at=4, parts=[thought("Only.")]),
        user("msg_u3", "Three", at=5),
        answer("msg_a3", at=6, parts=[thought("T4."), tool("c2", "out"), STEP, thought("  "), text("Third.")]),
        *END,
    ],
    "a picture that a tool gave back": [
        user("msg_u1", "One", at=1),
        answer("msg_a1", at=2, parts=[tool("c1", "seen", attachments=[picture()])]),
        *TWO,
    ],
    "an answer that says nothing": [user("msg_u1", "One", at=1), answer("msg_a1", at=2, parts=[STEP]), *TWO],
}  # fmt: skip
