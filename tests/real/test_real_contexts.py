"""Comparison of contexts with the real pi and omp, on random sessions with cases that the golden sessions lack.

The cases are edits, system messages, missing contents, resets, unusual numbers, and missing first kept entries. It
requires ``$LAB`` with the released programs.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import bring
from pi_author import Author
from pi_drivers import DRIVERS, Fields, ask_all, release

from gitsession.context import build, profiles
from gitsession.context.history import ContextHistory
from gitsession.context.providers import pi as as_pi
from gitsession.sessions.entry_addresses import resolve
from gitsession.store.memory import MemoryStore

__all__ = ["release"]

SESSIONS = 200

pytestmark = pytest.mark.skipif(not DRIVERS.exists(), reason="the drivers of the real programs are not at hand")


def ask(release: str, sessions: list[bytes], scratch: Path) -> list[Fields]:
    """Return the context that the real program builds from each session."""
    return ask_all(release, [{"text": text.decode(), "raw": True} for text in sessions], scratch)


def test_the_real_program_shows_the_same(release: str, tmp_path: Path) -> None:
    sessions = [Author(seed, release).session() for seed in range(SESSIONS)]
    answers = ask(release, sessions, tmp_path)
    assert len(answers) == SESSIONS
    rules = profiles.profile(release)
    for seed, (text, answer) in enumerate(zip(sessions, answers, strict=True)):
        store = MemoryStore()
        sid = bring(store, text, agent="omp" if release == "omp" else "pi").session
        ours = build.context(ContextHistory(store, resolve(store, sid, answer["leaf"]).oid), release)
        told = [rules.llm_role(item.entry) for item in ours.items]
        request, theirs = as_pi.request(ours), answer["context"]
        assert request["messages"] == theirs["messages"], seed
        assert request["thinkingLevel"] == theirs["thinkingLevel"], seed
        assert [rules.estimate(item.entry) for item in ours.items] == theirs["estTokens"], seed
        assert ["toolResult" if role == "tool" else role for role in told if role] == answer["llmRoles"], seed
        if release == "omp":
            assert ours.models == theirs["models"], seed
        else:
            assert request["model"] == theirs["model"], seed
