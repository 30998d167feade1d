"""Tests of the context of codex: its rules C5 to C8 and R1 by number, and the effect of gitsession's entries.

Every expected value was observed with codex 0.169 (tests/real/test_real_codex.py repeats the comparison).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from builders import bring, session
from codex_files import (
    ENVIRONMENT,
    PERMISSIONS,
    TALK,
    Lines,
    assistant,
    at,
    call,
    compacted,
    counted,
    event,
    item,
    message,
    output,
    rolled_back,
    rollout,
    said,
    settings,
    turn,
    user,
)

from gitsession.codec.digest import to_base64url
from gitsession.compaction import strategies, trigger
from gitsession.compaction.perform import perform
from gitsession.compaction.summarizers.extractive import Extractive
from gitsession.compaction.write_summary import SummaryOptions
from gitsession.context import build
from gitsession.context.history import ContextHistory
from gitsession.context.profiles import profile as profile_of
from gitsession.context.providers import anthropic, openai_responses
from gitsession.context.providers import codex as as_codex
from gitsession.context.value import Context
from gitsession.formats.codex.write import SUMMARY_PREFIX
from gitsession.model.blocks import Text, ToolCall
from gitsession.model.entries import BranchSummary, Compaction, CustomMessage, Message, Prune, Reset
from gitsession.sessions.session import StoredSession
from gitsession.store.memory import MemoryStore


class Opened(NamedTuple):
    """A session and its store."""

    store: MemoryStore
    session: StoredSession

    @property
    def line(self) -> ContextHistory:
        leaf = self.session.leaf
        return ContextHistory(self.store, leaf.oid if leaf else None)


def opened(*parts: Lines) -> Opened:
    store = MemoryStore()
    return Opened(store, session(store, bring(store, rollout(*parts), agent="codex").session))


def context(of: Opened) -> Context:
    return build.context(of.line, "codex")


def shown(*parts: Lines) -> list[str]:
    return words(context(opened(*parts)))


def words(found: Context) -> list[str]:
    """Return the items of the request, each as a few words."""
    return [_words(item) for item in as_codex.request(found)["input"]]


def _words(item: dict[str, Any]) -> str:
    if item["type"] != "message":
        return f"{item['type']} {item.get('call_id', '')}".strip()
    return f"{item['role'][0]}: " + " | ".join(part.get("text", part["type"]) for part in item["content"])


REST = ["d: " + PERMISSIONS, "u: " + ENVIRONMENT]


def test_the_model_sees_every_item_in_order() -> None:
    assert shown(TALK, call("c1"), output("c1")) == [
        *REST,
        "u: U t1",
        "a: A t1",
        "u: U t2",
        "a: A t2",
        "function_call c1",
        "function_call_output c1",
    ]


def test_private_fields_of_codex_are_not_sent() -> None:
    inner = {"internal_chat_message_metadata_passthrough": {"turn_id": "t"}}
    found = as_codex.request(context(opened(said("user", "hi", id="msg_1", **inner))))
    assert found["input"] == [message("user", "hi", id="msg_1")]


def test_system_messages_snapshots_and_items_we_do_not_know_are_not_sent() -> None:
    unseen = said("system", "s") + item("ghost_snapshot", ghost_commit={}) + item("telepathy")
    assert shown(unseen, said("user", "u")) == ["u: u"]


def test_half_of_a_surrogate_pair_is_sent_as_a_replacement_character() -> None:
    store, data = MemoryStore(), rollout(said("user", "half XX")).replace(b"XX", b"\\ud800")
    mine = Opened(store, session(store, bring(store, data, agent="codex").session))
    assert words(context(mine)) == ["u: half \ufffd"]


def test_mail_of_another_agent_is_an_item_of_its_own() -> None:
    found = context(opened(at("inter_agent_communication", author="/root", recipient="/root/a", content="go")))
    assert as_codex.request(found)["input"] == [{
        "type": "agent_message", "author": "/root", "recipient": "/root/a",
        "content": [{"type": "input_text", "text": "go"}],
    }]  # fmt: skip


def test_interrupted_call_is_marked_and_its_lost_result_is_left_out() -> None:
    asked = [call("c1"), item("custom_tool_call", call_id="c2", name="f", input=""), output("c9")]
    asked += [item("tool_search_call", call_id="c3"), item("local_shell_call", call_id="c4", action={})]
    found = as_codex.request(context(opened(*asked)))["input"]
    assert [(item["type"], item["call_id"], item.get("output")) for item in found] == [
        ("function_call", "c1", None), ("function_call_output", "c1", "aborted"),
        ("custom_tool_call", "c2", None), ("custom_tool_call_output", "c2", "aborted"),
        ("tool_search_call", "c3", None), ("tool_search_output", "c3", None),
        ("local_shell_call", "c4", None), ("function_call_output", "c4", "aborted"),
    ]  # fmt: skip


# ---- compactions

LIST = [message("user", "K1"), message("user", "SUM")]


def test_c8_the_newest_compaction_with_a_list_is_the_base_and_only_later_lines_are_replayed() -> None:
    older = [message("user", "OLD")]
    assert shown(turn("t1"), compacted("a", older), turn("t2"), compacted("b", LIST), turn("t3")) == [
        "u: K1",
        "u: SUM",
        "u: U t3",
        "a: A t3",
    ]


def test_c8_an_empty_list_is_a_list() -> None:
    assert shown(turn("t1"), compacted("a", [])) == []


@pytest.mark.parametrize("used", [180_000, 180_001])
def test_c1_nine_tenths_of_the_window_may_be_full(used: int) -> None:
    found = context(opened(user("a"), assistant("b"), counted(used - 1), user("on")))
    assert (found.tokens.source, found.tokens.used) == ("usage", used)
    assert trigger.is_over(found, 200_000) == (used > 180_000)


def test_c5_old_compaction_without_a_list_is_rebuilt_from_prompts() -> None:
    assert shown(TALK, compacted("SUM"), turn("t3")) == ["u: U t1", "u: U t2", "u: SUM", "u: U t3", "a: A t3"]


def test_c5_an_earlier_summary_is_no_word_of_the_users() -> None:
    first, second = (f"{SUMMARY_PREFIX}\n{text}" for text in ("S1", "S2"))
    assert shown(turn("t1"), compacted(first), turn("t2"), compacted(second)) == [
        "u: U t1",
        "u: U t2",
        f"u: {second}",
    ]


def test_c5_summary_without_the_prefix_is_a_prompt() -> None:
    assert shown(turn("t1"), compacted("S1"), turn("t2"), compacted("S2")) == [
        "u: U t1",
        "u: S1",
        "u: U t2",
        "u: S2",
    ]


def test_c5_empty_summary_is_reported_missing() -> None:
    assert shown(turn("t1"), compacted(""))[-1] == "u: (no summary available)"


def test_c5_pictures_go_and_the_message_keeps_its_id() -> None:
    picture = {"type": "input_image", "image_url": "https://x/y.png"}
    content = [{"type": "input_text", "text": "hey"}, picture]
    found = context(opened(item("message", role="user", id="m1", content=content), compacted("SUM")))
    assert as_codex.request(found)["input"][0] == message("user", "hey", id="m1")


BIG = "".join(f"{number:06},".ljust(7) for number in range(8000))  # 56,000 bytes: 14,000 tokens

CUTS = {
    "of the oldest, what there is room for": ([BIG, "B" + BIG, "C"], [11996, "…8002 tokens truncated…", 11996]),
    "of one alone, 20,000 tokens": ([BIG + "x" * 30_000], [40000, "…1500 tokens truncated…", 40000]),
    "in whole characters": (["日" * 30_000, "abcdefghi"], [39993, "…2503 tokens truncated…", 39993]),
    "room for one token": ([BIG, "y" * 79_996], [2, "…13999 tokens truncated…", 2]),
}


@pytest.mark.parametrize(("said_by_user", "expected"), CUTS.values(), ids=CUTS)
def test_c5_of_the_first_that_does_not_fit_beginning_and_end_stay(said_by_user: list[str], expected: Any) -> None:
    found = context(opened(*[user(text) + assistant("a") for text in said_by_user], compacted("SUM")))
    start, mark, end = (part["text"] for part in as_codex.request(found)["input"][0]["content"])
    assert [len(start.encode()), mark, len(end.encode())] == expected
    assert len(found.items) == len(said_by_user) + 1


def test_c5_where_there_is_no_room_at_all_nothing_is_cut() -> None:
    assert len(shown(user(BIG), assistant("a"), user("y" * 80_000), compacted("SUM"))) == 2


def test_c6_items_inserted_again_keep_their_position_in_the_list() -> None:
    again = [LIST[0], message("developer", PERMISSIONS), message("user", ENVIRONMENT), *LIST]
    assert shown(turn("t1"), compacted("s", again), assistant("on")) == ["u: K1", *REST, "u: K1", "u: SUM", "a: on"]


def test_c6_context_added_after_a_compaction_follows_it() -> None:
    told = said("developer", PERMISSIONS) + said("user", ENVIRONMENT)
    assert shown(turn("t1"), compacted("s", LIST), turn("t2", told)) == [
        "u: K1",
        "u: SUM",
        *REST,
        "u: U t2",
        "a: A t2",
    ]


def test_c7_a_remote_compaction_keeps_its_encrypted_item_last() -> None:
    encrypted = {"type": "compaction", "encrypted_content": "x"}
    found = context(opened(turn("t1"), compacted("", [LIST[0], encrypted])))
    assert as_codex.request(found)["input"] == [LIST[0], encrypted]


def test_c7_nothing_that_is_no_item_comes_out_of_a_list() -> None:
    odd: list[Any] = [5, None, {}, {"type": "ghost_snapshot"}, {"type": "telepathy"}, LIST[0]]
    assert shown(compacted("", odd)) == ["u: K1"]


# ---- roll-backs


def test_r1_dropped_turns_are_not_in_the_context() -> None:
    assert shown(TALK, turn("t3"), rolled_back(2), turn("t4")) == [*REST, "u: U t1", "a: A t1", "u: U t4", "a: A t4"]


def test_r1_a_roll_back_behind_a_compaction_leaves_its_list() -> None:
    assert shown(turn("t1"), compacted("s", LIST), turn("t3"), rolled_back(1)) == ["u: K1", "u: SUM"]


def test_r1_a_roll_back_to_before_a_compaction_undoes_it() -> None:
    assert shown(turn("t1"), turn("t2"), compacted("s", LIST), turn("t3"), rolled_back(2)) == ["u: U t1", "a: A t1"]


# ---- state and tokens


def test_model_and_effort_are_those_of_the_newest_turn() -> None:
    found = context(opened(settings("a", effort="low"), settings("b", effort="high"), user("hi")))
    assert (found.model, found.thinking) == ("b", "high")
    assert (context(opened(user("hi"))).model, context(opened(user("hi"))).thinking) == (None, "off")


def test_newest_count_covers_earlier_messages() -> None:
    found = context(opened(turn("t1"), counted(900), user("and now")))
    assert (found.tokens.source, found.tokens.used) == ("usage", 900 + 2)


def test_a_count_older_than_a_compaction_is_not_trusted() -> None:
    assert context(opened(turn("t1"), counted(900), compacted("s", LIST), user("hi"))).tokens.source != "usage"


def test_count_from_before_an_own_prune_is_not_exact() -> None:
    mine = opened(turn("t1"), counted(900), user("hi"))
    mine.session.append(Prune(targets=()))
    found = context(mine).tokens
    assert (found.source, found.exact, found.stale) == ("usage", False, True)


@pytest.mark.parametrize("total", [0, -1, "9", None, 2**60, True])
def test_invalid_count_is_not_used(total: Any) -> None:
    usage = event("token_count", info={"last_token_usage": {"total_tokens": total}})
    found = context(opened(user("hi"), usage, event("token_count", info=5), user("x")))
    assert found.tokens.source != "usage"


# ---- entries of gitsession on a branch of codex


def test_own_compaction_comes_before_the_kept_messages() -> None:
    mine = opened(turn("t1"), turn("t2"))
    kept = next(node for node in mine.session.history() if node.subject == "user: U t2")
    mine.session.append(Compaction(summary="ours", first_kept=to_base64url(kept.chain)))
    mine.session.append(Message.user("on"))
    assert words(context(mine)) == [f"u: {SUMMARY_PREFIX}\nours", "u: U t2", "a: A t2", "u: on"]


@pytest.mark.parametrize("strategy", strategies.STRATEGIES)
def test_every_strategy_works_on_a_session_of_codex(strategy: str) -> None:
    mine = opened(TALK, *[turn(f"n{number}", said("user", "x" * 4000)) for number in range(40)])
    ask = strategies.CompactionRequest(keep_tokens=2000, at=mine.session.history()[40])
    plan = strategies.plan(mine.line, strategy, profile="codex", request=ask)
    before = sum(context(mine).tokens.by_role.values())
    assert not plan.nothing
    assert perform(mine.store, mine.session, plan, SummaryOptions(summarizer=Extractive())) is not None
    assert sum(context(mine).tokens.by_role.values()) < before


def test_own_reset_hides_earlier_messages() -> None:
    mine = opened(turn("t1"))
    mine.session.append(Reset())
    mine.session.append(Message.user("on"))
    assert words(context(mine)) == ["u: on"]


def test_own_prune_clears_a_result_of_codex() -> None:
    mine = opened(user("a"), call("c1"), output("c1", "long"))
    assert mine.session.leaf is not None
    mine.session.append(Prune(targets=(to_base64url(mine.session.leaf.chain),)))
    found = as_codex.request(context(mine))["input"][-1]
    assert found == {
        "type": "function_call_output",
        "call_id": "c1",
        "output": "[Old tool result cleared]",
    }


def test_added_messages_are_sent_in_codexs_format() -> None:
    mine = opened(user("a"))
    asked = ToolCall("c1", "ls", {"path": "."})
    mine.session.append(Message.assistant([Text("I look"), asked]))
    mine.session.append(Message.tool(asked, "a.txt"))
    mine.session.append(Message(role="shell", command="ls", output="a.txt", exit_code=0))
    mine.session.append(BranchSummary(summary="left"))
    mine.session.append(CustomMessage(custom_type="note", content=(Text("note"),)))
    assert as_codex.request(context(mine))["input"][1:] == [
        message("assistant", "I look"),
        {"type": "function_call", "name": "ls", "arguments": '{"path": "."}', "call_id": "c1"},
        {"type": "function_call_output", "call_id": "c1", "output": "a.txt"},
        message("user", "<user_shell_command>\n<command>\nls\n</command>\n<result>\nExit code: 0\nOutput:\na.txt\n"
                        "</result>\n</user_shell_command>"),
        message("user", f"{SUMMARY_PREFIX}\nleft"),
        message("user", "note"),
    ]  # fmt: skip


# ---- other providers, and the limits of a compaction


def test_session_of_codex_can_be_sent_to_other_providers() -> None:
    found = context(opened(TALK, call("c1"), call("c2"), output("c2"), output("c1"), assistant("done")))
    sent = openai_responses.request(found)["input"]
    assert [item["type"] for item in sent[-5:]] == [
        "function_call",
        "function_call_output",
        "function_call",
        "function_call_output",
        "message",
    ]
    assert anthropic.request(found)["messages"][0]["role"] == "user"


def test_no_cut_is_made_between_a_call_and_its_result() -> None:
    asked = Message.assistant([ToolCall("c1", "ls", {})])
    assert not profile_of("codex").can_cut(asked)
    assert not profile_of("codex").can_cut(Message(role="tool"))
    assert profile_of("codex").can_cut(Message.assistant("done"))
    assert profile_of("codex").starts_turn(Message.user("hi"))
    assert not profile_of("codex").starts_turn(CustomMessage(custom_type="environment_context"))
