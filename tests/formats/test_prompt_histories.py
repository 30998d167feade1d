"""Tests of the records in agents' prompt histories."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gitsession.formats.prompt_histories import FROM_LINE, TypedPrompt, of_aider, of_omp

FILES = {"paste-cache/00112233aabbccdd.txt": "kept apart"}


def typed(agent: str, **fields: Any) -> TypedPrompt:
    return FROM_LINE[agent](json.loads(json.dumps(fields)), FILES.get)


def test_claude_prompt_has_its_time_folder_and_session() -> None:
    prompt = typed(
        "claude", display="hi", timestamp=1779780784751, project="/w/app", sessionId="5f0c", pastedContents={}
    )
    assert prompt == TypedPrompt("claude", "hi", 1779780784751, "/w/app", "5f0c")


def test_claude_placeholders_are_replaced_by_the_pasted_texts() -> None:
    pastes = {
        "1": {"id": 1, "type": "text", "content": "a log"},
        "2": {"id": 2, "type": "text", "contentHash": "00112233aabbccdd"},
        "3": {"id": 3, "type": "text", "contentHash": "../../etc/passwd"},
        "4": {"id": 4, "type": "text", "contentHash": "ffffffffffffffff"},
        "5": {"id": 5, "type": "image"},
    }
    marks = "[Pasted text #3] [Pasted text #4 +1 lines] [Pasted text #6] [Image #5]"
    shown = f"[Pasted text #1 +2 lines], [...Truncated text #2 +9 lines...], {marks}"
    assert typed("claude", display=shown, pastedContents=pastes).text == f"a log, kept apart, {marks}"


def test_pasted_texts_cannot_multiply_without_limit() -> None:
    pastes = {"1": {"content": "x" * 100_000}}
    text = typed("claude", display="[Pasted text #1]" * 1_000, pastedContents=pastes).text
    assert len(text) < 1_200_000 and text.endswith("[Pasted text #1]")


def test_codex_prompt_has_its_time_and_session() -> None:
    assert typed("codex", session_id="01a1", ts=1795500003, text="hi") == TypedPrompt(
        "codex", "hi", 1795500003000, "", "01a1"
    )


def test_opencode_prompt_has_its_pasted_text_but_no_time() -> None:
    source = {"text": {"start": 5, "end": 21, "value": "[Pasted ~2 lines]"}}
    part = {"type": "text", "text": "one\ntwo", "source": source}
    prompt = typed("opencode", input="look [Pasted ~2 lines]", parts=[part, None, {"type": "agent", "name": "x"}])
    assert prompt == TypedPrompt("opencode", "look one\ntwo")
    assert typed("opencode", input="ls", mode="shell", parts=[]).is_command


def test_omp_row_may_lack_columns() -> None:
    assert of_omp("hi", 1795500004, "/w", "s") == TypedPrompt("omp", "hi", 1795500004000, "/w", "s")
    assert of_omp("hi", "soon", None, None) == TypedPrompt("omp", "hi")


def test_aider_prompts_are_read_from_the_end() -> None:
    data = b"+cut\n\n# 2026-11-21 20:43:39.249252\n+Add a fib function\n\n# 2026-11-21 20:44:00\n+one\n+# 2\n\n# \n"
    assert list(of_aider(data, "/w")) == [
        TypedPrompt("aider", "one\n# 2", 1795293840000, "/w"),
        TypedPrompt("aider", "Add a fib function", 1795293819249, "/w"),
    ]


@pytest.mark.parametrize("agent", FROM_LINE)
def test_fields_of_other_types_are_ignored(agent: str) -> None:
    for value in (None, 7, True, "x", [1], {"1": []}, -1, 2**60, 1e300):
        names = ("display", "timestamp", "project", "sessionId", "pastedContents", "text", "ts", "input", "parts")
        prompt = typed(agent, **dict.fromkeys(names, value))
        assert prompt.at_ms in (0, 7, 7000) and prompt.text in ("", "x")


@pytest.mark.parametrize(
    ("text", "is_command"),
    [
        ("/clear", True),
        (" /exit\n", True),
        ("!ls -l", True),
        ("/tmp is full", False),
        ("/init the repo", False),
        ("a", False),
    ],
)
def test_commands_without_arguments_are_not_prompts(text: str, is_command: bool) -> None:
    assert TypedPrompt("claude", text).is_command == is_command
