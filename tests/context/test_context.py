"""Tests of contexts of stored sessions: own, imported and forked; their cost; the same result in every clone."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from builders import Clock, Watched, begun, bring, entry, on_disk, pi_file, said, talk
from hypothesis import given
from hypothesis import strategies as st

from gitsession.api import Session, Store
from gitsession.codec.digest import to_base64url
from gitsession.context import build
from gitsession.context import history as line
from gitsession.context.history import ContextHistory, HistoryCache
from gitsession.context.policies import clear_tool_uses
from gitsession.context.providers import pi as as_pi
from gitsession.context.providers import provider
from gitsession.context.value import Context
from gitsession.errors import MissingObject, NotFound
from gitsession.exporting.export_session import export
from gitsession.formats import FORMATS
from gitsession.formats.pi import messages as write_messages
from gitsession.git.objects import parse_tree
from gitsession.git.types import Kind, Oid
from gitsession.index import history_states
from gitsession.index.catalogue import Catalogue
from gitsession.index.history_states import CatalogueEntryIndex
from gitsession.model import entries as kinds
from gitsession.model.blocks import Image, Text, Thinking, ToolCall
from gitsession.model.entries import (
    CLEARED,
    Compaction,
    ContextEdit,
    Instructions,
    Message,
    Prune,
    Reset,
    ThinkingChange,
)
from gitsession.sessions import content, graph, history_state
from gitsession.sessions.content import entry_of
from gitsession.sessions.node import Node
from gitsession.store.interface import ObjectStore
from gitsession.store.memory import MemoryStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git", clock=Clock()) as opened:
        yield opened


def chain(node: Node) -> str:
    return to_base64url(node.chain)


def words(context: Context) -> list[str]:
    return [shown.summary if hasattr(shown, "summary") else shown.text for shown in context.messages]


# Own sessions


def test_own_session_has_its_messages_and_roles(store: Store) -> None:
    session = store.new_session(agent="mine")
    assert session.context().messages == ()
    session.append(Message.user("Fix the login"))
    session.append(ThinkingChange(level="high"))
    call = ToolCall("1", "read", {"path": "auth.py"})
    session.append(Message.assistant([Text("I'll read"), call], provider="anthropic", model="claude-sonnet-4-5"))
    session.append(Message.tool(call, "def login(): ..."))
    session.append(Instructions(system_prompt="Be brief"))
    context = session.context(window=1000)
    assert words(context) == ["Fix the login", "I'll read", "def login(): ..."]
    assert (context.model, context.thinking) == ("anthropic/claude-sonnet-4-5", "high")
    assert context.instructions is not None
    assert context.instructions.system_prompt == "Be brief"
    assert (context.tokens.window, context.tokens.remaining) == (1000, 1000 - context.tokens.used)
    assert words(session.context(session.history()[1])) == ["Fix the login"]


def test_own_entries_have_pis_format_for_pi(store: Store) -> None:
    session = store.new_session(agent="mine")
    session.append(Message.user([Text("look"), Image(b"hi", "image/png")], at_ms=5))
    call = ToolCall("1", "read", {"path": "a"})
    content = [Thinking("hm", "sig"), call]
    session.append(Message.assistant(content, provider="p", model="m", stop="toolUse", usage={"input": 3}, at_ms=6))
    session.append(Message.tool(call, "text", at_ms=7, is_error=True))
    session.append(Message(role="shell", command="ls", output="x", exit_code=1, at_ms=8))
    assert as_pi.request(session.context(), system="be brief") == {
        "messages": [
            {"role": "system", "content": "be brief"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "look"},
                    {"type": "image", "data": "aGk=", "mimeType": "image/png"},
                ],
                "timestamp": 5,
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"},
                    {"type": "toolCall", "id": "1", "name": "read", "arguments": {"path": "a"}},
                ],
                "provider": "p",
                "model": "m",
                "usage": write_messages.usage({"input": 3}),
                "stopReason": "toolUse",
                "timestamp": 6,
            },
            {
                "role": "toolResult",
                "content": [{"type": "text", "text": "text"}],
                "toolCallId": "1",
                "toolName": "read",
                "isError": True,
                "timestamp": 7,
            },
            {"role": "bashExecution", "command": "ls", "output": "x", "exitCode": 1, "timestamp": 8},
        ],
        "model": {"provider": "p", "modelId": "m"},
        "thinkingLevel": "off",
    }


def test_own_compaction_names_the_kept_entry_by_chain_digest(store: Store) -> None:
    session = store.new_session(agent="mine")
    first, kept = [session.append(Message.user(text)) for text in ("first", "kept")]
    session.append(Compaction(summary="sum", first_kept=chain(kept)))
    session.append(Message.user("after"))
    assert words(session.context()) == ["sum", "kept", "after"]
    session.append(Compaction(summary="all", first_kept=None))
    assert words(session.context()) == ["all"]
    session.append(Reset())
    session.append(Message.user("anew"))
    assert words(session.context()) == ["anew"]
    assert words(session.context(first)) == ["first"]


def test_own_entry_refers_to_imported_ones_by_chain_digest(store: Store) -> None:
    sid = store.agents.import_data(FORMATS["pi"], pi_file(*talk("a", "b", "c"))).session
    session = store.session(sid)
    session.append(Compaction(summary="sum", first_kept=chain(session.resolve("b"))))
    session.append(ContextEdit(target=chain(session.resolve("c")), replacement={"content": "edited"}))
    assert words(session.context()) == ["sum", "words of b", "edited"]


def test_fork_has_the_context_of_its_history_above_the_fork_point(store: Store) -> None:
    lines = [entry("thinking_level_change", "t", None, thinkingLevel="high"), *talk("a", "b", "c", after="t")]
    lines.append(entry("compaction", "s", "c", summary="sum", firstKeptEntryId="b"))
    sid = store.agents.import_data(FORMATS["pi"], pi_file(*lines)).session
    fork = store.session(sid).fork()
    fork.append(Message.user("mine"))
    assert words(fork.context()) == ["sum", "words of b", "words of c", "mine"]
    assert fork.context().thinking == "high"


def test_pruned_tool_results_stay_pruned_and_keep_their_place(store: Store) -> None:
    session = store.new_session(agent="mine")
    session.append(Message.user("go"))
    call = ToolCall("1", "read")
    session.append(Message.assistant([call]))
    old = session.append(Message.tool(call, "long " * 100, details={"much": 1}))
    before = session.context()
    session.append(Prune(targets=(chain(old), chain(session.history()[1]))))
    after = session.context()
    assert [shown.text for shown in after.messages] == ["go", "", CLEARED]
    assert after.tokens.used < before.tokens.used
    assert words(session.context(old)) == words(before)
    for profile in ("pi-0.73", "omp"):
        assert session.context(profile=profile).messages[-1].text == CLEARED


def test_policy_can_be_made_permanent_by_a_prune(store: Store) -> None:
    session = store.new_session(agent="mine")
    session.append(Message.user("go"))
    for at in range(5):
        call = ToolCall(f"c{at}", "read")
        session.append(Message.assistant([call]))
        session.append(Message.tool(call, f"{at}" * 400))
    policy = clear_tool_uses(trigger_tokens=100)
    pruned = session.compaction.prune(policy)
    assert pruned is not None
    assert [text == CLEARED for text in words(session.context())[2::2]] == [True, True, False, False, False]
    assert session.compaction.prune(policy) is None
    assert session.leaf == pruned


def test_old_file_of_pi_names_the_kept_entry_by_number() -> None:
    store = MemoryStore()
    lines = [said("x", None, text).replace(b'"id":"x","parentId":null,', b"") for text in ("one", "two", "three")]
    summary = b'{"type":"compaction","timestamp":"2026-02-01T00:00:09.000Z","summary":"sum","firstKeptEntryIndex":2}'
    sid = bring(store, pi_file(*lines, summary, version=1), agent="pi").session
    [leaf] = graph.branches(store, sid).values()
    assert words(build.context(ContextHistory(store, leaf))) == ["sum", "two", "three"]


def test_unparsable_line_has_no_index_in_an_old_file() -> None:
    """pi drops a line that cannot be parsed when it loads the file, before it resolves the index."""
    store = MemoryStore()
    lines = [said("x", None, text).replace(b'"id":"x","parentId":null,', b"") for text in ("one", "two", "three")]
    summary = b'{"type":"compaction","timestamp":"2026-02-01T00:00:09.000Z","summary":"sum","firstKeptEntryIndex":3}'
    sid = bring(store, pi_file(lines[0], b"{broken", *lines[1:], summary, version=1), agent="pi").session
    [leaf] = graph.branches(store, sid).values()
    assert words(build.context(ContextHistory(store, leaf))) == ["sum", "three"]
    written = [json.loads(line) for line in export(store, sid, "omp").data.splitlines()]
    [kept] = [line["firstKeptEntryId"] for line in written if line["type"] == "compaction"]
    [three] = [line for line in written if line.get("id") == kept]
    assert three["message"]["content"][0]["text"] == "three"


@pytest.mark.parametrize(("stated", "shown"), [("bad timestamp", None), (None, 0), (5, 5)])
def test_invalid_time_is_null_in_the_messages_of_pi(stated: object, shown: int | None) -> None:
    """pi converts each time to a number, and an invalid date is null in JSON."""
    store = MemoryStore()
    lines = [
        entry("custom_message", "a", None, customType="x", content="hi", display=True, timestamp=stated),
        entry("branch_summary", "b", "a", summary="left", fromId="a", timestamp=stated),
        entry("compaction", "c", "b", summary="sum", firstKeptEntryId="a", tokensBefore=5, timestamp=stated),
    ]
    sid = bring(store, pi_file(*lines), agent="pi").session
    [leaf] = graph.branches(store, sid).values()
    messages = as_pi.request(build.context(ContextHistory(store, leaf)))["messages"]
    assert [message["timestamp"] for message in messages] == [shown] * 3


def test_an_entry_without_a_time_has_none_in_the_messages_of_pi() -> None:
    store = MemoryStore()
    line = {"type": "custom_message", "id": "a", "parentId": None, "customType": "x", "content": "hi"}
    sid = bring(store, pi_file(json.dumps(line).encode()), agent="pi").session
    [leaf] = graph.branches(store, sid).values()
    [message] = as_pi.request(build.context(ContextHistory(store, leaf)))["messages"]
    assert message["timestamp"] is None


# Damage


def test_incomplete_context_is_rejected() -> None:
    store = MemoryStore()
    session = begun(store, "one", "two")
    leaf = session.leaf
    assert leaf is not None
    [(_, _, blob)] = parse_tree(store.read(leaf.tree)[1])
    for lost in (leaf.oid, leaf.tree, blob):
        with pytest.raises(MissingObject):
            build.context(ContextHistory(_Without(store, lost), leaf.oid))


def test_incomplete_context_is_rejected_even_with_an_index(store: Store) -> None:
    session = store.new_session(agent="mine")
    said = session.append(Message.user("one"))
    session.append(Message.user("two"))
    [(_, _, blob)] = parse_tree(store.objects.read(said.tree)[1])
    known = CatalogueEntryIndex(store.catalogue(), session.id)
    with pytest.raises(MissingObject):
        build.context(ContextHistory(_Without(store.objects, blob), said.oid, known))


OTHERS = {
    "kind": "'reset'", "chain": "zeroblob(32)", "source_id": "'b'", "line": "7", "above": "''",
    "anchors": "(SELECT anchors FROM entries WHERE source_id = 't')",
    "payload": "(SELECT payload FROM entries WHERE source_id = 'b')", "agent": "'omp'", "proof": "NULL",
    "oid": "(SELECT replace(oid, 'a', 'b') FROM entries WHERE source_id = 'c')",
}  # fmt: skip


@pytest.mark.parametrize("column", OTHERS)
def test_context_does_not_depend_on_a_damaged_index(store: Store, column: str) -> None:
    lines = [*talk("a", "b", "c"), entry("thinking_level_change", "t", "c", thinkingLevel="high")]
    sid = store.agents.import_data(FORMATS["pi"], pi_file(*lines, *talk("d", after="t"))).session
    session, db = store.session(sid), store.catalogue().db
    whole = session.context().digest
    session._opened.memory = HistoryCache()
    changed = db.execute(f"UPDATE entries SET {column} = {OTHERS[column]} WHERE source_id = 'c'")
    assert changed.rowcount == 1
    assert session.context().digest == whole
    session.append(Message.user("more"))
    store.catalogue()
    assert session.context().thinking == "high"


def test_state_is_not_read_from_a_damaged_index(store: Store) -> None:
    session = store.new_session(agent="mine")
    session.append(Message.user("x"))
    session.append(ThinkingChange(level="high"))
    db = store.catalogue().db
    db.execute("UPDATE anchors SET said = replace(said, 'high', 'sigh')")
    assert session.context().thinking == "high"


def test_ids_that_the_index_cannot_hold_are_read_from_entries(store: Store) -> None:
    lines = [line.replace(b'"xx"', b'"\\ud800"') for line in talk("a", "xx", "c")]
    edit = entry("context_edit", "e", "c", targetId="xx", replacement={"content": "edited"})
    sid = store.agents.import_data(FORMATS["pi"], pi_file(*lines, edit.replace(b'"xx"', b'"\\ud800"'))).session
    assert words(store.session(sid).context()) == ["words of a", "edited", "words of c"]


class _Without(Watched):
    """A store without one of its objects."""

    def __init__(self, store: ObjectStore, lost: Oid) -> None:
        super().__init__(store)
        self._lost = lost

    def read(self, oid: Oid) -> tuple[Kind, bytes]:
        if oid == self._lost:
            raise MissingObject(oid)
        return super().read(oid)


# Cost


def long_session(count: int) -> bytes:
    """Return a session with a model and a level at its start, and a compaction ten entries before its end.

    The compaction kept ten entries.
    """
    lines = [
        entry("model_change", "m", None, provider="p", modelId="m"),
        entry("thinking_level_change", "t", "m", thinkingLevel="high"),
        *talk(*(f"e{at}" for at in range(count)), after="t"),
    ]
    lines.append(entry("compaction", "c", f"e{count - 1}", summary="sum", firstKeptEntryId=f"e{count - 10}"))
    return pi_file(*lines, *talk(*(f"l{at}" for at in range(10)), after="c"))


@contextmanager
def counted_steps(catalogue: Catalogue) -> Iterator[list[int]]:
    """Count the steps of SQLite in the block, in a list with one number."""
    taken = [0]

    def step() -> int:
        taken[0] += 1
        return 0

    catalogue.db.set_progress_handler(step, 1)
    yield taken
    catalogue.db.set_progress_handler(None, 0)


def test_reads_for_a_context_do_not_grow_with_hidden_entries(tmp_path: Path) -> None:
    reads, asked = [], []
    for count in (100, 1000):
        with Store.create(tmp_path / f"{count}.git") as store:
            sid = store.agents.import_data(FORMATS["pi"], long_session(count)).session
            watched = Watched(store.objects)
            leaf = store.session(sid).leaf
            assert leaf is not None
            with counted_steps(store.catalogue()) as taken:
                context = build.context(ContextHistory(watched, leaf.oid, CatalogueEntryIndex(store.catalogue(), sid)))
            assert len(context.messages) == 21
            assert (context.model, context.thinking) == ("p/m", "high")
            reads.append(watched.reads)
            asked.append(taken[0])
    assert asked[0] == asked[1]
    assert reads[0] == reads[1] == 21 + 11  # the payload of each, and 11 commits on the way to the kept entries


class _Bulk(Watched):
    def read_all(self, oids: Iterable[Oid]) -> Iterator[tuple[Oid, Kind, bytes]]:
        return self._store.read_all(oids)


def test_payloads_of_a_context_are_read_together(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s.git") as store:
        sid = store.agents.import_data(FORMATS["pi"], pi_file(*talk(*(f"e{at}" for at in range(50))))).session
        store.flush()
        watched, leaf = _Bulk(store.objects), store.session(sid).leaf
        assert leaf is not None
        context = build.context(ContextHistory(watched, leaf.oid, CatalogueEntryIndex(store.catalogue(), sid)))
    assert (len(context.messages), watched.reads) == (50, 0)


def test_entries_of_a_history_are_read_together_and_once(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s.git") as store:
        sid = store.agents.import_data(FORMATS["pi"], pi_file(*talk(*(f"e{at}" for at in range(50))))).session
        store.flush()
        watched, memory, leaf = _Bulk(store.objects), HistoryCache(), store.session(sid).leaf
        assert leaf is not None
        for _ in range(2):
            history = ContextHistory(watched, leaf.oid, CatalogueEntryIndex(store.catalogue(), sid), memory)
            entries = list(history.revealed_entries())
            contents = list(ContextHistory(watched, leaf.oid, history._index, memory).revealed_contents())
            assert contents == [found for _, found in entries if found.kind in history_state.CONTEXT_KINDS]
            assert (len(contents), watched.reads) == (
                50,
                2,
            )  # the tree and the payload of the root, which is no message
        memory.clear()
        assert next(ContextHistory(watched, leaf.oid, None, memory).revealed_contents()) == contents[0]
        assert watched.reads < 30, "the first entry is read without the whole history"


def test_entries_after_a_lost_one_are_read(store: Store) -> None:
    session = begun(store.objects, "one")
    lost = session.append(Message.user("two"))
    later = [session.append(Message.user("more")) for _ in range(3)]
    history = ContextHistory(_Without(store.objects, lost.oid), later[-1].oid)
    contents, entries = history.revealed_contents(), history.revealed_entries()
    assert [next(contents).text for _ in later] == ["more"] * 3
    assert [next(entries)[0] for _ in later] == later[::-1]
    for found in (contents, entries):
        with pytest.raises(MissingObject):
            next(found)


def test_second_context_only_reads_new_entries(store: Store) -> None:
    sid = store.agents.import_data(FORMATS["pi"], pi_file(*talk("a", "b", "c"))).session
    session, memory, watched = store.session(sid), HistoryCache(), Watched(store.objects)
    for expected, more in ((3, Message.user("d")), (1, Message.user("e"))):
        leaf = session.leaf
        assert leaf is not None
        context = build.context(ContextHistory(watched, leaf.oid, CatalogueEntryIndex(store.catalogue(), sid), memory))
        assert context.digest == build.context(ContextHistory(store.objects, leaf.oid)).digest
        assert watched.reads == expected
        watched.reads = 0
        session.append(more)


def test_full_cache_drops_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "MEMORY_BYTES_MAX", 5_000)
    memory = HistoryCache()
    for number in range(4):
        memory.keep(f"{number}", Reset(), b"x" * 1_000, has_placeholders=False)
    assert [f"{number}" in memory.entries for number in range(4)] == [False, False, True, True]
    memory.keep("4", Reset(), b"x" * 10_000, has_placeholders=False)
    assert "4" in memory.entries


def test_outdated_catalog_is_used_and_then_updated(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_states, "MISSES_MAX", 3)
    session = store.new_session(agent="mine")
    session.append(Message.user("x"))
    session.append(ThinkingChange(level="high"))
    store.catalogue()
    for count, fresh in ((1, False), (2, False), (3, True), (1, False)):
        session.append(Message.user("more"))
        assert session.context().thinking == "high"
        assert store.catalogue(fresh=False).is_fresh() is fresh, count


def test_missing_first_kept_entry_is_not_searched_in_the_whole_history(store: Store) -> None:
    lines = [*talk(*(f"e{at}" for at in range(50))), entry("compaction", "c", "e49", summary="s", firstKeptEntryId="x")]
    sid = store.agents.import_data(FORMATS["pi"], pi_file(*lines)).session
    watched = Watched(store.objects)
    leaf = store.session(sid).leaf
    assert leaf is not None
    assert words(build.context(ContextHistory(watched, leaf.oid, CatalogueEntryIndex(store.catalogue(), sid)))) == ["s"]
    assert watched.reads == 1


def test_an_entry_is_found_by_its_id_without_looking_at_the_others(tmp_path: Path) -> None:
    steps = []
    for count in (10, 500):
        with Store.create(tmp_path / f"{count}.git") as store:
            sid = store.agents.import_data(FORMATS["pi"], pi_file(*talk(*(f"e{at}" for at in range(count))))).session
            with counted_steps(store.catalogue()) as taken:
                assert CatalogueEntryIndex(store.catalogue(), sid).is_there("e5", store.session(sid).branches()["main"])
            steps.append(taken[0])
    assert steps[0] == steps[1]


def test_index_skips_entries_outside_the_context(tmp_path: Path) -> None:
    reads = []
    for count in (1, 50):
        noise = [entry("custom", f"n{at}", f"n{at - 1}" if at else "a", customType="x") for at in range(count)]
        lines = [*talk("a"), *noise, *talk("b", after=f"n{count - 1}")]
        with Store.create(tmp_path / f"{count}.git") as store:
            sid = store.agents.import_data(FORMATS["pi"], pi_file(*lines)).session
            watched = Watched(store.objects)
            leaf = store.session(sid).leaf
            assert leaf is not None
            assert (
                len(
                    build.context(
                        ContextHistory(watched, leaf.oid, CatalogueEntryIndex(store.catalogue(), sid))
                    ).messages
                )
                == 2
            )
            reads.append(watched.reads)
    assert reads[0] == reads[1] == 2


def test_only_relevant_entries_are_read_without_an_index() -> None:
    store = MemoryStore()
    sid = bring(store, long_session(300), agent="pi").session
    [leaf] = graph.branches(store, sid).values()
    watched = Watched(store)
    context = build.context(ContextHistory(watched, leaf))
    assert (context.model, context.thinking) == ("p/m", "high")
    entries = 300 + 10 + 4
    assert watched.reads == entries + 2 * (21 + 2)  # each commit; 23 trees and payloads


# State of a branch, from the index and from a walk


STEPS: list[kinds.Entry] = [
    Message.user("x"), Message.assistant("x", provider="p", model="1"), Message.assistant("x", provider="p", model="2"),
    Message.assistant("nobody"), kinds.ModelChange(provider="p", model="1"), kinds.ThinkingChange(level="high"),
    kinds.ModelChange(provider="q", model="3", role="small"), kinds.ThinkingChange(level="off"),
    kinds.ModeChange(mode="plan"), kinds.ModeChange(mode="service_tier", data="flex"), kinds.ToolsChange(tools=("a",)),
    kinds.Instructions(system_prompt="s"), kinds.Injection(rules=["r1", "r2"]), kinds.Injection(rules=["r3", 4]),
    kinds.Compaction(summary="s"), kinds.Reset(), kinds.Custom(custom_type="x"),
]  # fmt: skip


@given(st.lists(st.sampled_from(STEPS), max_size=12), st.integers(0, 12))
def test_state_of_a_branch_is_the_same_from_any_start(happened: list[kinds.Entry], known: int) -> None:
    store = MemoryStore()
    session = begun(store)
    for each in happened:
        session.append(each)
    line = session.history()
    said_at, so_far = {}, history_state.EMPTY_STATE
    for node in line:
        so_far = history_state.step(so_far, node.oid, entry_of(store, node))
        said_at[node.oid] = so_far
    node = line[min(known, len(line) - 1)]
    only = {node.oid: said_at[node.oid]}
    read = lambda each: entry_of(store, each)  # noqa: E731
    assert history_state.gather(line[::-1], read) == so_far
    assert history_state.gather(line[::-1], read, only.get) == so_far


@pytest.mark.parametrize("seed", range(8))
def test_index_has_the_state_of_every_branch_after_any_update(store: Store, seed: int) -> None:
    chance = random.Random(seed)
    session = store.new_session(agent="mine")
    session.append(Message.user("x"))
    sessions = [session]
    for number in range(40):
        made = chance.choice(sessions)
        made.append(chance.choice(STEPS))
        if chance.random() < 0.1:
            sessions.append(made.fork(chance.choice(made.history())))
        if chance.random() < 0.1:
            sessions.append(made.branch(f"b{number}", at=chance.choice(made.history()[1:])))
        if chance.random() < 0.3:
            store.catalogue()
    catalogue = store.catalogue()
    for made in sessions:
        known = CatalogueEntryIndex(catalogue, made.id)
        leaf = made.leaf
        assert leaf is not None
        walked = ContextHistory(store.objects, leaf.oid).anchors
        assert known.anchors(leaf.oid) in (walked, None)  # None: above a fork, the older session has the anchors
        assert ContextHistory(store.objects, leaf.oid, known).anchors == walked
        lines = ContextHistory(store.objects, leaf.oid), ContextHistory(store.objects, leaf.oid, known)
        shown = [
            [node.oid for node in line.showable_entries() if node.kind in history_state.CONTEXT_KINDS] for line in lines
        ]
        assert shown[0] == shown[1]
        entries = list(made.entries())
        assert [node for node, _ in entries] == made.history()[::-1]
        assert [each.entry for each in map(partial(content.decode_entry, store.objects), made.history()[::-1])] == [
            each for _, each in entries
        ]
        assert list(made.contents()) == [each for _, each in entries if each.kind in history_state.CONTEXT_KINDS]
        assert made.context().digest == build.context(ContextHistory(store.objects, leaf.oid)).digest


# The digest


def test_digest_is_equal_in_a_clone(tmp_path: Path) -> None:
    with on_disk(tmp_path / "a.git") as objects:
        sid = bring(objects, long_session(30), agent="pi").session
        own = begun(objects, "hi")
        own.append(Message.assistant([Text("ok"), Image(b"picture" * 500, "image/png")]))
    clone = ["git", "clone", "-q", "--mirror", str(tmp_path / "a.git"), str(tmp_path / "b.git")]
    subprocess.run(clone, check=True)
    digests = []
    for name in ("a.git", "b.git"):
        with Store.open(tmp_path / name) as store:
            for session in (sid, own.id):
                for profile in ("pi", "pi-0.73", "omp"):
                    digests.append(store.session(session).context(profile=profile).digest)
    assert digests[:6] == digests[6:]
    assert len(set(digests)) == 6


def test_digest_changes_with_the_context_and_the_state(store: Store) -> None:
    session = store.new_session(agent="mine")
    session.append(Message.user("hi"))
    digests = [session.context().digest]
    picture = Message.user([Image(b"1", "image/png")])
    for each in (Message.user("more"), ThinkingChange(level="low"), Prune(targets=("x",)), picture):
        session.append(each)
        digests.append(session.context().digest)
    assert len(set(digests)) == 4
    assert digests[2] == digests[3]  # a prune of nothing in the context does not change it


@pytest.mark.parametrize(
    "ask",
    [
        lambda session: session.context(profile="claud"),
        lambda session: session.compaction.plan("claud"),
        lambda session: provider("claud").request(session.context()),
    ],
    ids=["profile", "strategy", "provider"],
)
def test_unknown_name_is_rejected_with_the_known_ones(store: Store, ask: Callable[[Session], object]) -> None:
    with pytest.raises(NotFound, match="'claud'") as refused:
        ask(store.new_session(agent="a"))
    assert " pi, " in f"{refused.value} {refused.value.hint}"
