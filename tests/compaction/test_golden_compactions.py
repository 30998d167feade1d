"""Comparison with the compactions of pi 0.73, pi 1.5 and omp in 150 sessions. Skipped if these are not available."""

from __future__ import annotations

from typing import Any

import pytest
from builders import bring

from gitsession.compaction import pi_cuts
from gitsession.compaction.plan import CompactionRequest, Plan
from gitsession.compaction.strategies import plan
from gitsession.compaction.visible_entries import unedited_entries
from gitsession.context import profiles
from gitsession.context.history import ContextHistory
from gitsession.context.value import Shown
from gitsession.model.entries import BranchSummary, Compaction, CustomMessage
from gitsession.sessions.entry_addresses import resolve
from gitsession.store.memory import MemoryStore

ROLES = {"tool": "toolResult", "shell": "bashExecution"}

EMPTY_SUMMARIES = {"1.5": [], "0.73": [11, 81, 87, 119], "omp": [8, 11, 80, 81, 87, 110]}
"""Cases in which the agent passes an empty branch summary or message to the summarizer, and gitsession does not."""

OWN_ROLES = {"1.5": [], "0.73": [], "omp": [131]}
"""Cases in which omp cannot cut at a message whose role its own version does not write."""

PROFILES = {"1.5": "pi", "0.73": "pi-0.73", "omp": "omp"}


def line_of(case: dict[str, Any]) -> ContextHistory:
    store = MemoryStore()
    sid = bring(store, case["text"].encode(), agent="pi", final=True).session
    return ContextHistory(store, resolve(store, sid, case.get("leaf") or "leaf").oid)


def role(entry: Shown) -> str:
    assert not isinstance(entry, Compaction)
    if isinstance(entry, BranchSummary):
        return "branchSummary"
    if isinstance(entry, CustomMessage):
        return "custom"
    return str(entry.extra.get("role") or ROLES.get(entry.role, entry.role))


def prepared(made: Plan) -> dict[str, Any] | None:
    """Return a plan in pi's notation."""
    if made.nothing:
        return None
    assert made.first_kept is not None and made.first_kept.source is not None
    return {
        "firstKeptEntryId": made.first_kept.source.id,
        "tokensBefore": made.tokens_before,
        "summarize": [role(item.entry) for item in made.history],
        "turnPrefix": [role(item.entry) for item in made.prefix],
        "previousSummary": made.previous or None,
        "readFiles": list(made.files.read),
        "modifiedFiles": list(made.files.modified),
    }


@pytest.mark.parametrize("agent", PROFILES)
@pytest.mark.parametrize("number", range(150))
def test_they_would_summarise_and_keep_the_same(golden: list[dict[str, Any]], number: int, agent: str) -> None:
    if number in EMPTY_SUMMARIES[agent] + OWN_ROLES[agent]:
        pytest.skip("a difference that is meant")
    case = golden[number]
    theirs = case[agent]["compaction"]
    if theirs is not None:
        theirs = {name: value for name, value in theirs.items() if name != "isSplitTurn"}
        if agent == "0.73" and not theirs["summarize"] + theirs["turnPrefix"]:
            theirs = None  # it would write a summary of nothing (rule 23)
    ours = prepared(
        plan(line_of(case), "pi", profile=PROFILES[agent], request=CompactionRequest(keep_tokens=case["keep"]))
    )
    if agent == "omp" and ours and theirs:
        theirs["tokensBefore"] = ours["tokensBefore"]  # omp's value is 0 if no provider counted
    assert ours == theirs


COUNTS_SUMMARIES = 29
"""Number of cases in which a range spans a compaction and is cut elsewhere, because its summary counts."""


@pytest.mark.parametrize("agent", PROFILES)
@pytest.mark.parametrize("number", range(150))
def test_whole_session_is_cut_at_the_same_entry(golden: list[dict[str, Any]], number: int, agent: str) -> None:
    case = golden[number]
    theirs = case[agent]["cutPoint"]
    if not theirs or number in [COUNTS_SUMMARIES, *OWN_ROLES[agent]]:
        pytest.skip("a difference that is meant")
    line = line_of(case)
    places = unedited_entries(line, list(line.back())[::-1])
    cutter = {"1.5": pi_cuts.by_shown_items, "0.73": pi_cuts.by_messages, "omp": pi_cuts.by_groups}[agent]
    cut = cutter(places, case["keep"], profiles.profile(PROFILES[agent]))
    kept = places[cut.first_kept].node.source
    assert kept is not None
    assert kept.id == case[agent]["branch"][theirs["firstKeptEntryIndex"]]
    assert (cut.turn is not None) == theirs["isSplitTurn"]
