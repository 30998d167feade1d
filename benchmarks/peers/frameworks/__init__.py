"""Frameworks whose sessions gitsession keeps: one module for each, with gitsession's adapter and the default store."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.peers.frameworks import claude_agent_sdk, google_adk, langchain, openai_agents, pydantic_ai
from benchmarks.peers.frameworks.framework import Framework

__all__ = ["FRAMEWORKS", "Framework"]

FRAMEWORKS: Sequence[Framework] = [
    module.FRAMEWORK for module in (openai_agents, claude_agent_sdk, langchain, pydantic_ai, google_adk)
]
