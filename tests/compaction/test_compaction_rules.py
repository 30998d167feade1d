"""Tests of which entries are summarized and kept, rule by rule (numbers of semantics.md), on short sessions."""

from __future__ import annotations

from typing import Any

import pytest
from builders import bring, entry, label, pi_file, said

from gitsession.compaction.plan import CompactionRequest, Plan, TouchedFiles, listed_files, touched_files
from gitsession.compaction.strategies import STRATEGIES, plan
from gitsession.context.history import ContextHistory
from gitsession.context.value import Item
from gitsession.model.blocks import ToolCall
from gitsession.model.entries import BranchSummary, Compaction, Message
from gitsession.sessions.entry_addresses import resolve
from gitsession.store.memory import MemoryStore

ALL = ("pi", "pi-0.73", "omp")
NEWER = ("pi", "omp")
LONG = "x" * 400
"""A hundred tokens."""


def planned(*lines: bytes, keep: int = 100, profile: str = "pi", at: str = "leaf") -> Plan:
    """Import these lines and return the plan of pi's strategy."""
    store = MemoryStore()
    sid = bring(store, pi_file(*lines), agent="pi").session
    line = ContextHistory(store, resolve(store, sid, at).oid)
    return plan(line, "pi", profile=profile, request=CompactionRequest(keep_tokens=keep))


def called(id: str, parent: str | None, call: str, name: str = "bash", at: int = 1, **arguments: Any) -> bytes:
    content = [{"type": "toolCall", "id": call, "name": name, "arguments": arguments}]
    return entry("message", id, parent, at, message={"role": "assistant", "content": content})


def result(id: str, parent: str | None, call: str, text: str = LONG, at: int = 1) -> bytes:
    content = [{"type": "text", "text": text}]
    message = {"role": "toolResult", "toolCallId": call, "toolName": "bash", "content": content, "isError": False}
    return entry("message", id, parent, at, message=message)


def compacted(id: str, parent: str | None, kept: str | None, summary: str = "sum", **fields: Any) -> bytes:
    return entry("compaction", id, parent, summary=summary, firstKeptEntryId=kept, tokensBefore=9, **fields)


def exchange(count: int, first: str | None = None) -> list[bytes]:
    """Return messages ``u1 a1 u2 a2 ...`` of a hundred tokens each."""
    lines, parent = [], first
    for number in range(1, count + 1):
        for id, role in ((f"u{number}", "user"), (f"a{number}", "assistant")):
            lines.append(said(id, parent, LONG, role=role, at=len(lines) + 1))
            parent = id
    return lines


def kinds(items: tuple[Item, ...]) -> list[str]:
    return [f"{item.entry.kind}:{getattr(item.entry, 'role', '')}" for item in items]


def kept(made: Plan) -> str | None:
    """Return the agent's id of the first kept entry."""
    return made.first_kept.source.id if made.first_kept and made.first_kept.source else None


@pytest.mark.parametrize("profile", ALL)
def test_rule_18_a_cut_is_never_at_the_result_of_a_tool(profile: str) -> None:
    lines = [said("u1", None, LONG), called("a1", "u1", "c"), result("r1", "a1", "c"), said("u2", "r1", LONG)]
    assert kept(planned(*lines, keep=150, profile=profile)) == "u2"


@pytest.mark.parametrize("profile", ALL)
def test_rule_18_where_nothing_can_be_cut_at_all_stays(profile: str) -> None:
    made = planned(result("r1", None, "c"), result("r2", "r1", "d"), keep=10, profile=profile)
    assert made.nothing


@pytest.mark.parametrize("profile", ALL)
def test_rule_19_newest_entries_are_kept_and_earlier_ones_summarized(profile: str) -> None:
    made = planned(*exchange(4), keep=200, profile=profile)
    assert kept(made) == "u4"
    assert len(made.history) == 6
    assert made.prefix == ()
    assert len(made.kept) == 2


@pytest.mark.parametrize("profile", ALL)
def test_rule_19_all_stays_where_there_is_less_than_is_to_be_kept(profile: str) -> None:
    assert planned(*exchange(2), keep=10_000, profile=profile).nothing


def test_rule_19_large_results_stay_with_their_call() -> None:
    lines = [*exchange(2), called("a3", "a2", "c"), result("r3", "a3", "c", text=LONG * 10)]
    assert kept(planned(*lines, keep=500)) == "a3"


def test_rule_19_there_0_73_compacts_nothing() -> None:
    lines = [*exchange(2), called("a3", "a2", "c"), result("r3", "a3", "c", text=LONG * 10)]
    assert planned(*lines, keep=500, profile="pi-0.73").nothing


@pytest.mark.parametrize("profile", NEWER)
def test_rule_20_entry_without_context_belongs_to_the_next_one(profile: str) -> None:
    lines = [*exchange(1), label("l1", "a1", "u1", "here"), said("u2", "l1", LONG)]
    assert kept(planned(*lines, profile=profile)) == ("l1" if profile == "pi" else "u2")


def test_rule_20_extension_messages_count() -> None:
    note = entry("custom_message", "n1", "a1", customType="note", content=LONG, display=True)
    made = planned(*exchange(1), note, said("u2", "n1", LONG), keep=200)
    assert kept(made) == "n1"


def test_rule_20_in_0_73_they_do_not_and_go_with_the_message_behind_them() -> None:
    note = entry("custom_message", "n1", "a1", customType="note", content=LONG, display=True)
    assert kept(planned(*exchange(1), note, said("u2", "n1", LONG), profile="pi-0.73")) == "n1"


@pytest.mark.parametrize("profile", ALL)
def test_rule_21_a_cut_inside_a_turn_takes_its_beginning_apart(profile: str) -> None:
    lines = [*exchange(1), said("u2", "a1", LONG), said("a2", "u2", LONG, role="assistant")]
    lines += [said("a3", "a2", LONG, role="assistant")]
    made = planned(*lines, keep=100, profile=profile)
    assert kept(made) == "a3"
    assert kinds(made.prefix) == ["message:user", "message:assistant"]
    assert len(made.history) == 2


def test_rule_21_cut_at_an_extension_message_splits_a_turn_only_in_0_73() -> None:
    note = entry("custom_message", "n1", "a1", customType="note", content=LONG, display=True)
    lines = [*exchange(1), note, said("a2", "n1", LONG, role="assistant")]
    assert planned(*lines, keep=200).prefix == ()
    assert kinds(planned(*lines, keep=100).prefix) == ["custom_message:"]


def test_rule_22_omp_keeps_at_most_the_given_tokens_or_the_newest_group() -> None:
    lines = [*exchange(1), called("a2", "a1", "c"), result("r2", "a2", "c")]
    assert kept(planned(*lines, keep=150, profile="omp")) == "a2"
    assert kept(planned(*lines, keep=10, profile="omp")) == "a2"
    assert kept(planned(*exchange(3), keep=250, profile="omp")) == "u3"
    assert kept(planned(*exchange(3), keep=250)) == "a2"


def test_rule_17_omp_keeps_less_where_the_provider_counts_more() -> None:
    heavy = said("a4", "u4", LONG, role="assistant", usage={"input": 1600, "output": 1, "totalTokens": 1601})
    lines = [*exchange(3), said("u4", "a3", LONG), heavy]
    assert kept(planned(*lines, keep=400, profile="omp")) == "u4"


@pytest.mark.parametrize("profile", ALL)
def test_rule_23_behind_a_compaction_there_is_nothing_to_do(profile: str) -> None:
    lines = [*exchange(3), compacted("c1", "a3", "u3")]
    assert "compaction" in planned(*lines, profile=profile).nothing


@pytest.mark.parametrize("profile", ALL)
def test_rule_24_next_compaction_starts_at_the_first_kept_entry(profile: str) -> None:
    lines = [*exchange(2), compacted("c1", "a2", "u2"), said("u3", "c1", LONG), said("u4", "u3", LONG)]
    made = planned(*lines, profile=profile)
    assert made.previous == "sum"
    assert len(made.history) == 3
    assert kept(made) == "u4"


@pytest.mark.parametrize("profile", ALL)
def test_rule_24_where_the_last_one_kept_nothing_it_begins_behind_it(profile: str) -> None:
    lines = [*exchange(2), compacted("c1", "a2", "gone"), said("u3", "c1", LONG), said("u4", "u3", LONG)]
    assert len(planned(*lines, profile=profile).history) == 1


def test_rule_25_results_are_summarised_and_summaries_are_not() -> None:
    lines = [said("u1", None, LONG), called("a1", "u1", "c"), result("r1", "a1", "c")]
    lines += [compacted("c1", "r1", "u1"), said("u2", "c1", LONG)]
    made = planned(*lines)
    assert kinds(made.history) == ["message:user", "message:assistant", "message:tool"]


def test_rule_26_tokens_before_are_the_count_of_the_provider() -> None:
    usage = {"input": 5000, "output": 1, "totalTokens": 5001}
    lines = [*exchange(1), said("u2", "a1", LONG), said("a2", "u2", LONG, role="assistant", usage=usage)]
    assert planned(*lines, said("u3", "a2", LONG)).tokens_before == 5101


FILES = [
    called("a1", "u0", "1", "read", path="seen.py"),
    called("a2", "a1", "2", "read", path="changed.py"),
    called("a3", "a2", "3", "edit", path="changed.py"),
    called("a4", "a3", "4", "write", path="new.py"),
    called("a5", "a4", "5", "read", path=7),
    called("a6", "a5", "6", "grep", path="other.py"),
]


def test_rule_28_files_are_read_or_modified_and_come_from_calls() -> None:
    made = planned(said("u0", None), *FILES, said("u1", "a6", LONG))
    assert made.files == TouchedFiles(read=("seen.py",), modified=("changed.py", "new.py"))


def test_rule_28_and_from_the_last_compaction() -> None:
    details = {"readFiles": ["old.py", "new.py"], "modifiedFiles": ["older.py"]}
    lines = [said("u0", None), compacted("c1", "u0", "u0", details=details), said("u1", "c1")]
    lines += [called("a1", "u1", "1", "write", path="new.py"), said("u2", "a1", LONG)]
    assert planned(*lines).files == TouchedFiles(read=("old.py",), modified=("new.py", "older.py"))


def test_rule_28_but_not_from_one_that_an_extension_wrote() -> None:
    entry = Compaction(summary="sum", read_files=("a.py",), extra={"fromHook": True})
    assert listed_files(entry) == TouchedFiles()
    assert listed_files(BranchSummary(summary="sum", read_files=("a.py",))) == TouchedFiles(read=("a.py",))


def test_rule_28_files_of_other_agents_count_by_their_names_for_it() -> None:
    call = ToolCall("1", "Edit", {"file_path": "main.c"})
    assert touched_files([Message.assistant([call])]) == TouchedFiles(modified=("main.c",))


def test_system_messages_are_kept_with_the_summary() -> None:
    lines = [said("s1", None, "You are helpful", role="system"), *exchange(2, "s1")]
    made = planned(*lines)
    assert kinds(made.history + made.prefix) == ["message:user", "message:assistant", "message:user"]
    assert kinds(made.system) == ["message:system"]


def test_plan_names_its_tip() -> None:
    lines = exchange(2)
    store = MemoryStore()
    sid = bring(store, pi_file(*lines), agent="pi").session
    leaf = resolve(store, sid, "leaf")
    assert plan(ContextHistory(store, leaf.oid), request=CompactionRequest(keep_tokens=100)).leaf == leaf.oid


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_plan_without_messages_does_nothing(strategy: str) -> None:
    store = MemoryStore()
    sid = bring(store, pi_file(), agent="pi").session
    leaf = resolve(store, sid, "leaf")
    assert plan(ContextHistory(store, leaf.oid), strategy).nothing
    assert plan(ContextHistory(store, None), strategy).nothing
