"""Comparison with the contexts of pi 0.73, pi 1.5 and omp for 150 sessions. Skipped if these are not available."""

from __future__ import annotations

from typing import Any

import published
import pytest
from showing import golden_context

from gitsession.context import profiles
from gitsession.context.providers import pi as as_pi
from gitsession.context.providers import provider
from gitsession.context.value import Context

ROLES = {"tool": "toolResult"}


def roles(context: Context) -> list[str]:
    return [message["role"] for message in as_pi.request(context)["messages"]]


def llm_roles(context: Context) -> list[str]:
    told = [profiles.profile(context.profile).llm_role(item.entry) for item in context.items]
    return [ROLES.get(role, role) for role in told if role is not None]


def estimates(context: Context) -> list[int]:
    return [profiles.profile(context.profile).estimate(item.entry) for item in context.items]


@pytest.mark.parametrize("number", range(150))
def test_pi_1_5_sees_the_same(golden: list[dict[str, Any]], number: int) -> None:
    case = golden[number]
    theirs, ours = case["1.5"], golden_context(case, "pi")
    request = as_pi.request(ours)
    assert request["messages"] == theirs["messages"]
    assert request["model"] == theirs["context"]["model"]
    assert request["thinkingLevel"] == theirs["context"]["thinkingLevel"]
    assert roles(ours) == theirs["context"]["roles"]
    assert llm_roles(ours) == theirs["llmRoles"]
    assert estimates(ours) == theirs["context"]["estTokens"]
    assert sum(ours.tokens.by_role.values()) == sum(theirs["context"]["estTokens"])
    assert sum(ours.tokens.by_kind.values()) == sum(theirs["context"]["estTokens"])


@pytest.mark.parametrize("number", range(150))
def test_pi_0_73_sees_the_same(golden: list[dict[str, Any]], number: int) -> None:
    case = golden[number]
    theirs, ours = case["0.73"], golden_context(case, "pi-0.73")
    request = as_pi.request(ours)
    assert request["model"] == theirs["context"]["model"]
    assert request["thinkingLevel"] == theirs["context"]["thinkingLevel"]
    assert roles(ours) == theirs["context"]["roles"]
    assert llm_roles(ours) == theirs["llmRoles"]
    assert estimates(ours) == theirs["context"]["estTokens"]


@pytest.mark.parametrize("number", range(150))
def test_omp_sees_the_same(golden: list[dict[str, Any]], number: int) -> None:
    case = golden[number]
    theirs, ours = case["omp"], golden_context(case, "omp")
    assert as_pi.request(ours)["thinkingLevel"] == theirs["context"]["thinkingLevel"]
    assert roles(ours) == theirs["context"]["roles"]
    assert llm_roles(ours) == theirs["llmRoles"]
    assert estimates(ours) == theirs["context"]["estTokens"]


@pytest.mark.parametrize("profile", ["pi", "omp"])
@pytest.mark.parametrize("api", ["anthropic", "openai-chat", "openai-responses"])
def test_golden_contexts_are_valid_requests(golden: list[dict[str, Any]], api: str, profile: str) -> None:
    for case in golden:
        published.check(api, provider(api).request(golden_context(case, profile)))
