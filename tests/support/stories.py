"""One conversation in the format of each agent: a question with an image, a read of a file, an answer, a title."""

from __future__ import annotations

import json

import aider_files
import claude_code
import codex_files
import opencode_files
from builders import entry, joined, named, pi_file, said, slot
from codex_files import PIXEL

FIRST, LOOK, LAST = "Why does it fail?", "I look.", "An import is missing."
COMMAND, OUTPUT = "cat app.py", "NameError: os"


def of_pi(*, omp: bool = False) -> bytes:
    picture = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    call = {"type": "toolCall", "id": "call_1", "name": "bash", "arguments": {"command": COMMAND}}
    thought = {"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"}
    usage = {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2, "cost": {"total": 0}}
    by = {"api": "anthropic-messages", "provider": "anthropic", "model": "claude-opus-4-8", "usage": usage}
    text = {"type": "text", "text": OUTPUT}
    lines = [
        entry("thinking_level_change", "t0", None, 1, thinkingLevel="high"),
        entry("message", "a", "t0", 2, message={"role": "user", "content": [{"type": "text", "text": FIRST}, picture]}),
        entry("message", "b", "a", 3, message={
            "role": "assistant", "content": [thought, {"type": "text", "text": LOOK}, call], **by,
            "stopReason": "toolUse",
        }),
        entry("message", "c", "b", 4, message={
            "role": "toolResult", "toolCallId": "call_1", "toolName": "bash", "content": [text], "isError": False,
        }),
        said("d", "c", LAST, role="assistant", at=5, stopReason="stop", **by),
        entry("label", "e", "d", 6, targetId="a", label="here"),
    ]  # fmt: skip
    if omp:
        return slot("Imports") + b"\n" + pi_file(*lines)
    return pi_file(*lines, named("f", "e", "Imports", at=7))


def of_claude() -> bytes:
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    return joined(
        *claude_code.asked(),
        claude_code.user("a", None, [{"type": "text", "text": FIRST}, {"type": "image", "source": source}]),
        claude_code.assistant("b", "a", {"type": "thinking", "thinking": "hm", "signature": "sig"}, answer="m", at=2),
        claude_code.assistant("c", "b", {"type": "text", "text": LOOK}, answer="m", at=3),
        claude_code.assistant("d", "c", claude_code.call("toolu_1", command=COMMAND), answer="m", at=4),
        claude_code.result("e", "d", "toolu_1", OUTPUT, at=5),
        claude_code.assistant("f", "e", {"type": "text", "text": LAST}, at=6),
        claude_code.note("custom-title", customTitle="Imports"),
        claude_code.last_prompt("f"),
    )


def of_codex() -> bytes:
    return codex_files.rollout(
        codex_files.said("developer", codex_files.PERMISSIONS),
        codex_files.said("user", codex_files.ENVIRONMENT),
        codex_files.item("message", role="user", content=[
            {"type": "input_text", "text": FIRST},
            {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"},
        ]),
        codex_files.event("user_message", message=FIRST, images=[]),
        codex_files.settings(),
        codex_files.item(
            "reasoning", id="rs_1", summary=[{"type": "summary_text", "text": "hm"}], encrypted_content="x",
        ),
        codex_files.assistant(LOOK),
        codex_files.call("call_1", arguments=json.dumps({"cmd": COMMAND})),
        codex_files.output("call_1", OUTPUT),
        codex_files.assistant(LAST),
        codex_files.event("thread_name_updated", thread_name="Imports"),
        model_provider="mock",
    )  # fmt: skip


def of_opencode() -> bytes:
    """Return the story of opencode in full: the released program rejects foreign ids and validates every field."""
    picture = {"type": "file", "mime": "image/png", "filename": "a.png", "url": f"data:image/png;base64,{PIXEL}"}
    call = opencode_files.tool("call_1", OUTPUT, input={"command": COMMAND})
    thought = {"type": "reasoning", "text": "hm", "time": {"start": 1, "end": 2}}
    by = {"path": {"cwd": "/work", "root": "/work"}, "modelID": "mock-model"}
    messages = [
        opencode_files.user("msg_u1", FIRST, at=1, parts=[picture]),
        opencode_files.answer("msg_a1", at=2, parts=[thought, {"type": "text", "text": LOOK}, call], **by),
        opencode_files.answer("msg_a2", LAST, at=3, **by),
    ]
    return opencode_files.export(messages, opencode_files.info(title="Imports", path=""))


def of_aider() -> bytes:
    """Return the story of Aider. It has no calls: the user runs the command and reports the output."""
    return aider_files.history(
        aider_files.run(), aider_files.user(FIRST), aider_files.answer(LOOK), aider_files.user(OUTPUT),
        aider_files.answer(LAST),
    )  # fmt: skip


def of_librecode() -> bytes:
    """Return the story of librecode, one row a line. It has a result with the command, but no message with the call."""
    picture = {"type": "image", "mime_type": "image/png", "data": PIXEL}
    rows = [
        {"id": "u1", "role": "user", "content": FIRST, "parts": [{"type": "text", "text": FIRST}, picture]},
        {"id": "a1", "role": "assistant", "provider": "mock", "model": "m", "content": LOOK},
        {"id": "t1", "role": "toolResult", "content": OUTPUT, "tool_name": "bash", "tool_args_json": COMMAND},
        {"id": "a2", "role": "assistant", "provider": "mock", "model": "m", "content": LAST},
    ]
    when = {"created_at": "2026-02-01T00:00:00Z"}
    above = [{}, *({"parent_id": row["id"]} for row in rows)]
    lines = [{**row, **below, "entry_type": "message", **when} for row, below in zip(rows, above, strict=False)]
    head = {"type": "session", "id": "s1", "cwd": "/work", "name": "Imports", **when}
    return joined(*(json.dumps(line).encode() for line in (head, *lines)))


STORIES = {
    "aider": of_aider(), "claude": of_claude(), "codex": of_codex(), "librecode": of_librecode(),
    "omp": of_pi(omp=True), "opencode": of_opencode(), "pi": of_pi(),
}  # fmt: skip
"""Stories by agent."""

NAMES = {
    "aider": "/work/a folder/.aider.chat.history", "claude": claude_code.SESSION, "codex": codex_files.NAME,
    "librecode": "s1", "omp": "s1", "opencode": "", "pi": "s1",
}  # fmt: skip
"""File names by agent, without extensions."""

OF_A_SUB_AGENT = joined(*claude_code.talk("a", "b", "c", "d")).replace(
    b'"isSidechain":false', b'"isSidechain":true,"agentId":"x"'
)
PLACE_OF_A_SUB_AGENT = f"/home/.claude/projects/-work/{claude_code.SESSION}/subagents/agent-x"
