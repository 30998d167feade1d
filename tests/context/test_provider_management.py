"""Tests of the settings with which a provider compacts and edits contexts, by the types that providers publish."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from published import check

from gitsession import (
    CompactionPolicy,
    ContextManagement,
    Message,
    Session,
    Store,
    anthropic_betas,
    provider_compaction,
)
from gitsession.compaction.policy import from_config

COMPACT, EDIT = "compact-2026-01-12", "context-management-2025-06-27"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Store.create(tmp_path / "store.git") as store:
        made = store.new_session(agent="test")
        made.append(Message.user("Fix it."))
        made.append(Message.assistant("Fixed.", usage={"totalTokens": 10**6}))
        made.append(Message.user("Go on."))
        yield made


def request(session: Session, **settings: Any) -> dict[str, Any]:
    policy = {name: settings.pop(name) for name in ("tokens", "percent", "window") if name in settings}
    session.compaction.policy = CompactionPolicy(mode="server", management=ContextManagement(**settings), **policy)
    found = session.context().request("anthropic")
    check("anthropic-beta", found | {"betas": anthropic_betas(found)})
    return found


EDITS: dict[str, tuple[dict[str, Any], list[dict[str, Any]], list[str]]] = {
    "A1: defaults of the provider": ({}, [{"type": "compact_20260112"}], [COMPACT]),
    "A1: trigger, pause, instructions": (
        {"trigger_tokens": 120_000, "pause": True, "instructions": "Keep the names."},
        [
            {
                "type": "compact_20260112",
                "trigger": {"type": "input_tokens", "value": 120_000},
                "pause_after_compaction": True,
                "instructions": "Keep the names.",
            }
        ],
        [COMPACT],
    ),
    "A1: minimum of the trigger": (
        {"trigger_tokens": 10},
        [{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 50_000}}],
        [COMPACT],
    ),
    "A1: the limit of the policy is the trigger": (
        {"window": 200_000, "percent": 80},
        [{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 160_000}}],
        [COMPACT],
    ),
    "A3: tokens": (
        {"compact": False, "tool_trigger_tokens": 30_000, "keep_tool_uses": 5, "clear_at_least": 1_000},
        [
            {
                "type": "clear_tool_uses_20250919",
                "trigger": {"type": "input_tokens", "value": 30_000},
                "keep": {"type": "tool_uses", "value": 5},
                "clear_at_least": {"type": "input_tokens", "value": 1_000},
            }
        ],
        [EDIT],
    ),
    "A3: tool uses, excluded tools and inputs of some tools": (
        {"compact": False, "tool_trigger_uses": 9, "exclude_tools": ("web",), "clear_tool_inputs": ("write",)},
        [
            {
                "type": "clear_tool_uses_20250919",
                "trigger": {"type": "tool_uses", "value": 9},
                "exclude_tools": ["web"],
                "clear_tool_inputs": ["write"],
            }
        ],
        [EDIT],
    ),
    "A4: reasoning comes first": (
        {"keep_thinking": 2, "keep_tool_uses": 3, "clear_tool_inputs": True},
        [
            {"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 2}},
            {
                "type": "clear_tool_uses_20250919",
                "keep": {"type": "tool_uses", "value": 3},
                "clear_tool_inputs": True,
            },
            {"type": "compact_20260112"},
        ],
        [EDIT, COMPACT],
    ),
    "A4: all reasoning": (
        {"compact": False, "keep_thinking": "all"},
        [{"type": "clear_thinking_20251015", "keep": "all"}],
        [EDIT],
    ),
}


@pytest.mark.parametrize(("settings", "edits", "betas"), EDITS.values(), ids=EDITS)
def test_edits_of_a_request(
    session: Session, settings: dict[str, Any], edits: list[dict[str, Any]], betas: list[str]
) -> None:
    found = request(session, **settings)
    assert found["context_management"] == {"edits": edits}
    assert anthropic_betas(found) == betas


def test_settings_come_from_the_configuration() -> None:
    found = from_config(
        {
            "gitsession.compaction": "server",
            "gitsession.compactionpause": "true",
            "gitsession.compactionkeeptooluses": "4",
            "gitsession.compactiontooltrigger": "60k",
            "gitsession.compactionexcludetools": "web, memory",
            "gitsession.compactioncleartoolinputs": "write edit",
            "gitsession.compactionkeepthinking": "all",
        }
    ).management
    assert (found.pause, found.keep_tool_uses, found.tool_trigger_tokens) == (True, 4, 60_000)
    assert (found.exclude_tools, found.clear_tool_inputs) == (("web", "memory"), ("write", "edit"))
    assert found.keep_thinking == "all"


def test_openai_receives_the_threshold(session: Session) -> None:
    session.compaction.policy = CompactionPolicy(mode="server", tokens=150_000)
    found = session.context().request("openai-responses")
    check("openai-responses", found)
    assert found["context_management"] == [{"type": "compaction", "compact_threshold": 150_000}]


def test_mode_server_starts_no_compaction_of_our_own(session: Session) -> None:
    session.compaction.policy = CompactionPolicy(mode="server", tokens=1)
    session.append(Message.assistant("Done.", usage={"totalTokens": 10**6}))
    assert session.compaction.automatic is None
    assert "context_management" not in session.context().request("openai-chat")


@pytest.mark.parametrize("mode", ["off", "client"])
def test_other_modes_send_no_settings(session: Session, mode: Any) -> None:
    session.compaction.policy = CompactionPolicy(mode=mode)
    assert "context_management" not in session.context().request("anthropic")


def test_a1_after_a_pause_the_block_is_sent_back_unchanged(session: Session) -> None:
    """The request after the pause has the block with all fields, and needs the beta even without a policy."""
    block = {"type": "compaction", "content": "So far.", "encrypted_content": "e/+="}
    made = provider_compaction([block])
    assert made is not None
    session.append(made)
    session.append(Message.user("Remember the tests."))
    found = request(session, pause=True)
    assert block in found["messages"][0]["content"]
    session.compaction.policy = CompactionPolicy()
    found = session.context().request("anthropic")
    assert "context_management" not in found
    assert anthropic_betas(found) == [COMPACT]


def test_a1_failed_compaction_changes_nothing(session: Session) -> None:
    assert provider_compaction([{"type": "compaction", "content": None}]) is None
