"""Comparison of contexts with the real codex.

It requires ``$LAB`` with the program and permission for a network namespace.

The items that codex adds anew at each start are not part of the session: the instructions at the beginning and, after
the history, those in ``ANEW`` and the prompt.
"""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
import real_codex
from builders import SHARED, bring, exported, session, shared_files
from codex_files import (
    ENVIRONMENT,
    PERMISSIONS,
    PIXEL,
    TALK,
    THREAD,
    assistant,
    at,
    call,
    compacted,
    item,
    joined,
    message,
    output,
    rolled_back,
    rollout,
    said,
    settings,
    turn,
    user,
)
from codex_outgoing import HEADER, line_of, own
from codex_threads import AFTER_T1, child_of

from gitsession.context import build
from gitsession.context.history import ContextHistory
from gitsession.context.providers import codex as as_codex
from gitsession.exporting.export_session import export
from gitsession.formats.codex.agent import codex
from gitsession.formats.codex.write import SUMMARY_PREFIX
from gitsession.importing.import_session import import_source
from gitsession.model.blocks import Image, Text, Thinking, ToolCall
from gitsession.model.entries import Compaction, Message
from gitsession.store.memory import MemoryStore

pytestmark = pytest.mark.skipif(not real_codex.is_there(), reason="the real codex is not at hand")

ANEW = {
    "developer <model_switch>", "developer <permissions instructions>", "developer <skills_instructions>",
    "user <environment_context>", "user # AGENTS.md", f"user {real_codex.ASK}",
}  # fmt: skip


def check(folder: Path, data: bytes, thread: str, base: tuple[bytes, str] | None = None) -> None:
    """Check that codex sends the context of an export of the file.

    Args:
        folder: Folder for the run.
        data: Content of the file.
        thread: Id of the thread.
        base: The file that it continues and its thread.
    """
    store = MemoryStore()
    beside = {}
    if base is not None:
        parent = bring(store, base[0], agent="codex").session
        beside = {f"rollout-2026-11-21T20-34-22-{base[1]}.jsonl": exported(store, parent)}
    source = codex.split(data, name=f"rollout-2026-11-21T20-34-22-{thread}")
    sid = import_source(store, codex, source, find=lambda _: parent if base is not None else None).session
    opened = session(store, sid)
    context = build.context(ContextHistory(store, opened.leaf.oid if opened.leaf else None), "codex")
    ours = [real_codex.plain(item) for item in as_codex.request(context)["input"]]
    files = {f"rollout-2026-11-21T20-34-22-{thread}.jsonl": exported(store, sid), **beside}
    answer = real_codex.resume(folder, files, thread)
    assert answer.history(len(ours)) == ours
    told = answer.told_anew(len(ours))
    assert set(told) <= ANEW
    assert told[-1] == f"user {real_codex.ASK}"


FILES = sorted((SHARED / "sessions" / "codex").rglob("*.jsonl"))

LIST = [message("user", "K1"), message("user", "SUM")]
BIG = "x y z " * 10_000
DATA_URL = f"data:image/png;base64,{PIXEL}"

HAND = {
    "two turns": [TALK],
    "C5, rebuilt": [TALK, compacted("SUM"), turn("t3")],
    "C5, prefix": [turn("t1"), compacted(f"{SUMMARY_PREFIX}\nS1"), turn("t2"), compacted(f"{SUMMARY_PREFIX}\nS2")],
    "C5, cut": [user(BIG), assistant("a"), user(f"{BIG}é"), assistant("b"), compacted("SUM")],
    "C5, no summary": [turn("t1"), compacted("")],
    "C5, behind a list": [turn("t1"), compacted("a", LIST), turn("t2"), compacted("b"), turn("t3")],
    "C5, id and picture": [
        item("message", role="user", id="msg_9", content=[
            {"type": "input_text", "text": "hey"}, {"type": "input_image", "image_url": DATA_URL},
        ]),
        compacted("SUM"),
    ],
    "C6, mid-turn": [turn("t1"), compacted("s", [LIST[0], message("user", ENVIRONMENT), LIST[1]]), assistant("on")],
    "C7, remote": [turn("t1"), compacted("", [LIST[0], {"type": "compaction", "encrypted_content": "x"}])],
    "C8, two lists": [turn("t1"), compacted("a", [LIST[0]]), turn("t2"), compacted("b", LIST), turn("t3")],
    "R1, one turn": [TALK, turn("t3"), rolled_back(1)],
    "R1, and on": [TALK, turn("t3"), rolled_back(2), turn("t4"), rolled_back(1), turn("t5")],
    "R1, all": [TALK, rolled_back(9), turn("t3")],
    "R1, what was told before the turn": [
        TALK, turn("t3", said("developer", PERMISSIONS), said("user", ENVIRONMENT)), rolled_back(1),
    ],
    "R1, other words before the turn": [
        TALK, turn("t3", said("developer", "be kind"), said("user", ENVIRONMENT)), rolled_back(1),
    ],
    "R1, behind a compaction": [turn("t1"), compacted("s", LIST), turn("t2"), rolled_back(1)],
    "R1, before a compaction": [turn("t1"), turn("t2"), compacted("s", LIST), turn("t3"), rolled_back(2)],
    "R1, then a compaction": [turn("t1"), turn("t2"), rolled_back(1), turn("t3"), compacted("s", LIST), turn("t4")],
    "calls": [
        turn("t1"), call("c1"), item("custom_tool_call", call_id="c2", name="apply_patch", input="P"), output("c9"),
        output("c1", [{"type": "input_text", "text": "o"}, {"type": "input_image", "image_url": DATA_URL}]),
        item("tool_search_call", call_id="c3", execution="local", arguments={"query": "x"}, status="completed"),
        assistant("done"),
    ],
    "all kinds of items": [
        settings(), user("u"), said("system", "s"), item("ghost_snapshot", ghost_commit={"id": "a"}), item("telepathy"),
        item("reasoning", id="rs_1", summary=[{"type": "summary_text", "text": "hm"}], encrypted_content="x"),
        item("web_search_call", id="ws_1", status="completed", action={"type": "search", "query": "q"}),
        item("agent_message", id="amsg_1", author="/root", recipient="/root/a",
             content=[{"type": "input_text", "text": "mail"}]),
        at("inter_agent_communication", author="/root", recipient="/root/a", other_recipients=[], content="mail",
           trigger_turn=False),
        said("user", "<turn_aborted>\nx\n</turn_aborted>"), assistant(""),
    ],
}  # fmt: skip


@pytest.mark.parametrize("parts", HAND.values(), ids=HAND)
def test_real_codex_sends_our_context(tmp_path: Path, parts: list[Any]) -> None:
    check(tmp_path, *real_codex.for_the_script(rollout(*parts)))


def test_real_codex_sends_our_context_of_a_fork(tmp_path: Path) -> None:
    base = real_codex.for_the_script(rollout(TALK, first=0))
    end = 2 + AFTER_T1
    offset = sum(map(len, base[0].splitlines(keepends=True)[:end]))
    child = child_of(THREAD, end, user("other"), assistant("way"), offset=offset)
    check(tmp_path, *real_codex.for_the_script(child), base)


@pytest.mark.skipif(not FILES, reason="no session files here")
def test_real_codex_sends_our_context_of_its_own_fork(tmp_path: Path) -> None:
    base, child = (next(path for path in FILES if f"01a1ffd1-{part}" in path.name) for part in ("326d", "374d"))
    check(tmp_path, child.read_bytes(), "01a1ffd1-374d-7f22-8899-b3e8233adc1e",
          (base.read_bytes(), "01a1ffd1-326d-7a00-aa58-5bfc88e9657a"))  # fmt: skip


def test_invalid_line_is_skipped(tmp_path: Path) -> None:
    data = rollout(TALK) + b'{"type":"respo\n' + joined(turn("t3"))
    check(tmp_path, *real_codex.for_the_script(data))


CALL = ToolCall("call_1|fc_1", "read file", {"path": "a.txt"})
SAID = [
    Message.user("hi"),
    Message.assistant([Thinking("hm", "sig"), Text("I look"), CALL], provider="anthropic", model="m"),
    Message.tool(CALL, [Text("ok"), Image(b64decode(PIXEL), "image/png")]),
    Message(role="shell", command="ls", output="a.txt"),
    Compaction(summary="so far", first_kept="k3"),
    Message.user([Text("see"), Image(b64decode(PIXEL), "image/png")]),
    Message.assistant("done"),
]


def test_real_codex_continues_a_session_of_another_agent(tmp_path: Path) -> None:
    data = codex.write(line_of(*SAID)).data
    check(tmp_path, data, codex.resume_command(HEADER.source_id or "")[2])


def test_real_codex_continues_a_session_without_a_compaction(tmp_path: Path) -> None:
    data = codex.write(line_of(*[entry for entry in SAID if not isinstance(entry, Compaction)])).data
    check(tmp_path, data, codex.resume_command(HEADER.source_id or "")[2])


@pytest.mark.parametrize("path", shared_files("pi"), ids=lambda path: path.name)
def test_real_codex_continues_a_real_session_of_pi(tmp_path: Path, path: Path) -> None:
    store, there = MemoryStore(), MemoryStore()
    sid = bring(store, path.read_bytes(), agent="pi", name=path.stem, final=True).session
    data, thread = export(store, sid, "codex").data, codex.resume_command(sid)[2]
    opened = session(there, bring(there, data, agent="codex").session)
    context = build.context(ContextHistory(there, opened.leaf.oid if opened.leaf else None), "codex")
    ours = [_uncut(item) for item in as_codex.request(context)["input"]]
    answer = real_codex.resume(tmp_path, {f"rollout-2026-11-21T20-34-22-{thread}.jsonl": data}, thread)
    assert [_uncut(item) for item in answer.history(len(ours))] == ours
    assert set(answer.told_anew(len(ours))) <= ANEW


def _uncut(item: dict[str, Any]) -> dict[str, Any]:
    """Return the item without a long output. codex cuts long results again by the limits of the current model."""
    output = item.get("output")
    return {**item, "output": "..."} if isinstance(output, str) and len(output.encode()) > 10_000 else item


@pytest.mark.parametrize("first", [None, 0], ids=["legacy", "paginated"])
def test_real_codex_continues_with_added_entries(tmp_path: Path, first: int | None) -> None:
    data, thread = real_codex.for_the_script(rollout(TALK, first=first))
    check(tmp_path, codex.write(own(data, *SAID[:4])).data, thread)


REFUSES = {
    "12-29-48": "printed over several lines",
    "agent-sessions__small": "it states a history_mode that is none",
    "01a1ffd1-374d": "a fork without its base",
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_real_codex_sends_our_context_of_real_files(tmp_path: Path, path: Path) -> None:
    why = next((why for part, why in REFUSES.items() if part in path.name), None)
    if why:
        pytest.skip(f"codex itself refuses it: {why}")
    check(tmp_path, *real_codex.for_the_script(path.read_bytes()))


def test_the_thread_is_the_one_of_the_file() -> None:
    assert real_codex.for_the_script(rollout(TALK))[1] == THREAD
