"""Comparison of contexts with the real opencode, which imports exports. It requires ``$LAB`` with the program.

The text that the program adds anew at each start is its system prompt. Differences that the provider makes for every
agent are removed from both sides: results are in the order of their calls, and empty results, errors and images of
tools have the wording of gitsession.
"""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from builders import SHARED, bring, entry, exported, pi_file, said, session
from opencode_author import ours as begun_here
from opencode_cases import CASES
from opencode_files import Message, export, info
from real_opencode import Lab, Messages, can_run

from gitsession.context import build
from gitsession.context.history import ContextHistory
from gitsession.context.providers import openai_chat
from gitsession.context.providers.conversation import NO_OUTPUT
from gitsession.context.providers.openai_chat import FROM_TOOLS
from gitsession.discovery import sources
from gitsession.exporting import export_session
from gitsession.importing.import_session import import_source
from gitsession.store.interface import ObjectStore
from gitsession.store.memory import MemoryStore

REAL = sorted((SHARED / "sessions/opencode/generated").glob("export-*.json"))
ATTACHED = "Attached media from tool result:"
"""Text that opencode puts before the images of a tool result. gitsession uses ``FROM_TOOLS``."""

SES = "ses_e0000000affeTestTestTest01"

pytestmark = pytest.mark.skipif(not can_run(), reason="the real program is not at hand")


def ours(store: ObjectStore, sid: str) -> Messages:
    leaf = session(store, sid).leaf
    assert leaf is not None
    context = build.context(ContextHistory(store, leaf.oid), "opencode")
    return [message for message in openai_chat.request(context)["messages"] if message["role"] != "system"]


def alike(messages: Messages) -> Messages:
    """Return the messages without differences that the provider makes for every agent."""
    found = []
    for message in messages:
        content = message.get("content") or ""
        if message["role"] == "tool" and content == NO_OUTPUT:
            content = ""
        if isinstance(content, list):
            content = [{**part, "text": FROM_TOOLS} if part.get("text") == ATTACHED else part for part in content]
        found.append({**message, "content": content})
    return found


@pytest.mark.parametrize("messages", CASES.values(), ids=CASES)
def test_model_receives_the_context_of_the_profile(messages: list[Message], tmp_path: Path) -> None:
    store = MemoryStore()
    data = export(*in_real_words(messages))
    sid = bring(store, data, final=True).session
    assert alike(Lab(tmp_path).resumed(exported(store, sid), SES)) == alike(ours(store, sid))


def test_thoughts_of_another_model_are_sent_as_in_the_profile(tmp_path: Path) -> None:
    messages, about = in_real_words(CASES["thoughts before, between and without words"])
    for message in messages[:-1]:
        if message["info"]["role"] == "assistant":
            message["info"] |= {"providerID": "other", "modelID": "other-model"}
    store = MemoryStore()
    sid = bring(store, export(messages, about), final=True).session
    heard = alike(Lab(tmp_path).resumed(exported(store, sid), SES))
    assert heard == alike(ours(store, sid))
    assert not any("reasoning_content" in message for message in heard)


def in_real_words(messages: list[Message]) -> tuple[list[Message], dict[str, Any]]:
    """Return the messages with the ids and fields that the released program requires of an import."""
    text = json.dumps({"info": info(id=SES, path=""), "messages": messages})
    found = json.loads(text.replace('"ses_one"', f'"{SES}"'))
    for message in found["messages"]:
        about = message["info"]
        if about["role"] == "assistant":
            about.setdefault("path", {"cwd": "/work", "root": "/work"})
            about["providerID"], about["modelID"] = "mock", "mock-model"
            about["parentID"] = about["parentID"] if about.get("summary") else "msg_u1"
        else:
            about["model"] = {"providerID": "mock", "modelID": "mock-model"}
    return found["messages"], found["info"]


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_real_session_is_continued_with_the_context_of_the_profile(path: Path, tmp_path: Path) -> None:
    store, data = MemoryStore(), path.read_bytes()
    done = bring(store, data)
    id = json.loads(data)["info"]["id"]
    assert alike(Lab(tmp_path).resumed(exported(store, done.session), id)) == alike(ours(store, done.session))


def test_later_messages_of_the_program_are_imported_after_the_earlier_ones(tmp_path: Path) -> None:
    lab, store = Lab(tmp_path), MemoryStore()
    messages, about = in_real_words(CASES["words and a call"])
    sid = bring(store, export(messages, about)).session
    lab.resumed(exported(store, sid), SES)
    path = lab.data / "opencode/opencode.db"
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    [done] = [import_source(store, found.format, found.load().source) for found in sources.at(path)]
    assert (done.session, done.new, done.rewritten) == (sid, 2, None)
    real = lab.place / "out.json"
    lab.run(f'$OC export {SES} > "{real}"')
    assert json.loads(exported(store, sid)) == json.loads(real.read_bytes())
    assert os.fspath(path) and session(store, sid).history()[-1].subject == "assistant: ANSWER"


def test_own_session_is_continued_with_its_earlier_turns(tmp_path: Path) -> None:
    store, there = MemoryStore(), MemoryStore()
    made = begun_here(store)
    data = export_session.export(store, made.id, "opencode").data.replace(b'"modelID": "m"', b'"modelID": "mock-model"')
    sid = bring(there, data, final=True).session
    heard = Lab(tmp_path).resumed(data, json.loads(data)["info"]["id"])
    assert alike(heard) == alike(ours(there, sid))
    assert [message["content"] for message in heard][-3:] == ["And now?", "Now this.", "Go on"]


def test_session_of_another_agent_is_continued_with_calls_and_results(tmp_path: Path) -> None:
    store = MemoryStore()
    call = {"type": "toolCall", "id": "call_1", "name": "read", "arguments": {"path": "a.py"}}
    asked = entry("message", "b", "a", at=1, message={
        "role": "assistant", "content": [{"type": "text", "text": "Reading."}, call], "provider": "mock",
        "model": "mock-model", "stopReason": "toolUse", "usage": {},
    })  # fmt: skip
    result = entry("message", "c", "b", at=2, message={
        "role": "toolResult", "toolCallId": "call_1", "toolName": "read",
        "content": [{"type": "text", "text": "14 lines"}], "isError": False,
    })  # fmt: skip
    first = said("a", "m", "Look", role="user")
    # The first model is only known after the first prompt.
    sid = bring(store, pi_file(entry("model_change", "m", None, provider="mock", modelId="mock-model"), first, asked,
                               result)).session  # fmt: skip
    data = export_session.export(store, sid, "opencode").data.replace(b'"unknown"', b'"mock"')
    heard = Lab(tmp_path).resumed(data, json.loads(data)["info"]["id"])
    assert [message["role"] for message in heard] == ["user", "assistant", "tool"]
    assert (heard[0]["content"], heard[2]["content"]) == ("Look", "14 lines")
