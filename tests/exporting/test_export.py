"""Tests of exports with entries added in gitsession: the agent can open the file, and it can be imported again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aider_files
import claude_code
import pytest
from builders import (
    START_MS,
    Clock,
    all_refs,
    assert_clean,
    bring,
    entry,
    label,
    named,
    pi_file,
    said,
    talk,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from gitsession import Compaction, Message, Session, Store
from gitsession.codec.digest import to_base64url
from gitsession.context.providers import pi as as_pi
from gitsession.errors import Refused
from gitsession.exporting import export_session
from gitsession.formats import FORMATS
from gitsession.model import entries as kinds
from gitsession.model.blocks import ToolCall
from gitsession.store.memory import MemoryStore

pi = FORMATS["pi"]
LATER = START_MS + 10**6
LONG = talk("a", "b", "c", "d")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git", clock=Clock(LATER)) as opened:
        yield opened
        assert_clean(opened.objects)


def imported(store: Store, *lines: bytes) -> Session:
    return store.session(store.agents.import_data(pi, pi_file(*(lines or LONG))).session)


def summary(session: Session, kept: str | None, text: str = "S", **fields: Any) -> Compaction:
    first_kept = to_base64url(session.resolve(kept).chain) if kept else None
    return Compaction(summary=text, first_kept=first_kept, tokens_before=9, **fields)


def lines_of(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.split(b"\n")[:-1]]


def seen(store: Store, sid: str, at: str = "leaf") -> dict[str, Any]:
    """Return the context in pi's form. Ids differ between stores."""
    return as_pi.request(store.session(sid).context(at))


def elsewhere(tmp_path: Path, data: bytes, agent: str = "pi") -> tuple[Store, str]:
    """Import ``data`` into a new store, and return the store and the session id."""
    other = Store.create(tmp_path / "elsewhere.git")
    return other, other.agents.import_data(FORMATS[agent], data).session


def agent_goes_on(data: bytes, *ids: str) -> bytes:
    """Append lines after the last line, as the agent does."""
    last = lines_of(data)[-1]["id"]
    return data + b"".join(line + b"\n" for line in talk(*ids, after=last))


# ---- sessions of the agent


def test_export_without_added_entries_is_the_agents_file(store: Store) -> None:
    session = imported(store)
    assert store.export(session.id).data == pi_file(*LONG)
    assert store.export(session.id, session.resolve("b")).data == pi_file(*LONG[:2])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(-1, 9), st.booleans()), min_size=1, max_size=10), st.booleans())
def test_export_of_any_tree_is_byte_identical(shape: list[tuple[int, bool]], ends: bool) -> None:
    lines = []
    for number, (above, own) in enumerate(shape):
        parent = f"e{above}" if 0 <= above < number else None
        lines.append(said(f"e{number}", parent, at=number) if own or number == 0 else b'{"x":1}')
    data = pi_file(*lines) if ends else pi_file(*lines)[:-1]
    objects = MemoryStore()
    sid = bring(objects, data).session
    sent = export_session.export(objects, sid)
    assert (sent.data, sent.added, sent.left_out) == (data, 0, 0)
    assert export_session.export_original(objects, sid).data == data


def test_own_compaction_is_a_line_after_the_agents_own(store: Store) -> None:
    session = imported(store)
    session.append(summary(session, "c", read_files=("r",), modified_files=("m",), method="pi/x"))
    sent = store.export(session.id)
    assert sent.data.startswith(pi_file(*LONG))
    line = lines_of(sent.data)[-1]
    assert (line["type"], line["parentId"], line["firstKeptEntryId"]) == ("compaction", "d", "c")
    assert line["details"] == {"readFiles": ["r"], "modifiedFiles": ["m"]}
    assert (sent.added, sent.left_out) == (1, 0)
    assert store.export(session.id, original=True).data == pi_file(*LONG)


def test_a_compaction_that_keeps_nothing_names_itself(store: Store) -> None:
    session = imported(store)
    session.append(summary(session, None))
    line = lines_of(store.export(session.id).data)[-1]
    assert line["firstKeptEntryId"] == line["id"]


def test_own_labels_and_titles_are_children_of_the_tip(store: Store, tmp_path: Path) -> None:
    session = imported(store, *LONG, label("l", "d", "a", "theirs", at=5), named("n", "l", "Theirs", at=6))
    session.label("a", "ours")
    session.label("b", "second")
    session.rename("Ours")
    data = store.export(session.id).data
    new = lines_of(data)[7:]
    assert [(line["type"], line.get("label"), line.get("name")) for line in new] == [
        ("label", "ours", None),
        ("label", "second", None),
        ("session_info", None, "Ours"),
    ]
    assert [line["parentId"] for line in new] == ["n", new[0]["id"], new[1]["id"]]
    other, sid = elsewhere(tmp_path, data)
    names = other.session(sid).names()
    assert (names.title, sorted(names.labels.values())) == ("Ours", ["ours", "second"])
    other.close()


def test_removed_label_is_removed_in_the_export(store: Store) -> None:
    session = imported(store, *LONG, label("l", "d", "a", "theirs", at=5))
    session.label("a", "")
    line = lines_of(store.export(session.id).data)[-1]
    assert (line["type"], line["targetId"], "label" in line) == ("label", "a", False)


def test_leaf_is_the_active_one_with_any_branches(store: Store) -> None:
    session = imported(store)
    side = session.branch("side", "b")
    side.append(Message.user("on the side"))
    session.on("main").append(Message.user("on main"))
    store.session(session.id).switch("side")
    line = lines_of(store.export(session.id).data)[-1]
    assert (line["message"]["content"][0]["text"], line["parentId"]) == ("on the side", "b")
    store.session(session.id).switch("main")
    assert lines_of(store.export(session.id).data)[-1]["message"]["content"][0]["text"] == "on main"


def test_earlier_entry_becomes_the_tip_by_a_marker_with_a_note(store: Store, tmp_path: Path) -> None:
    session = imported(store)
    session.branch("side", "b").append(Message.user("on the side"))
    session.switch("main")
    sent = store.export(session.id)
    line = lines_of(sent.data)[-1]
    assert (line["type"], line["customType"], line["parentId"]) == ("custom", "gitsession:leaf", "d")
    assert any("leaf" in note for note in sent.notes)
    other, sid = elsewhere(tmp_path, sent.data)
    assert seen(other, sid) == seen(store, session.id)
    other.close()


def test_branch_at_another_end_of_the_agents_file_is_kept_and_reported(store: Store) -> None:
    session = imported(store, *LONG, said("x", "b", at=9))
    session.switch("main")
    sent = store.export(session.id)
    assert sent.data == pi_file(*LONG, said("x", "b", at=9))
    assert any("active branch" in note for note in sent.notes)


def test_branch_is_exported_with_the_entries_added_on_it(store: Store) -> None:
    session = imported(store, *LONG, said("x", "b", at=9))
    session.on("main").append(Message.user("ours"))
    at = session.on("main").leaf
    data = store.export(session.id, at).data
    assert data.startswith(pi_file(*LONG))
    assert [line.get("id") for line in lines_of(data)][1:5] == ["a", "b", "c", "d"]
    assert len(lines_of(data)) == 6


def test_entries_below_a_rewritten_line_are_left_out_and_counted(store: Store) -> None:
    session = imported(store)
    session.append(Message.user("ours"))
    store.agents.import_data(pi, pi_file(*LONG[:2], said("c", "b", "other", at=3)))
    sent = store.export(session.id)
    assert (sent.data, sent.left_out) == (pi_file(*LONG[:2], said("c", "b", "other", at=3)), 1)
    assert b"ours" in store.export(session.id, session.on("main").leaf).data


def test_file_of_version_1_is_exported_as_upgraded_by_its_agent(store: Store, tmp_path: Path) -> None:
    lines = [
        b'{"type":"session","id":"old","timestamp":"2026-02-01T00:00:00.000Z","cwd":"/work","provider":"p"}',
        *(json.dumps({"type": "message", "timestamp": "2026-02-01T00:00:01.000Z",
                      "message": {"role": role, "content": "words", "timestamp": 1}}).encode()
          for role in ("user", "hookMessage", "user")),
        b'{"type":"compaction","timestamp":"2026-02-01T00:00:04.000Z","summary":"S","firstKeptEntryIndex":2,"tokensBefore":5}',
    ]  # fmt: skip
    data = b"".join(line + b"\n" for line in lines)
    session = store.session(store.agents.import_data(pi, data).session)
    assert store.export(session.id).data == data
    session.append(Message.user("ours"))
    written = lines_of(store.export(session.id).data)
    assert (written[0]["version"], written[0]["provider"]) == (3, "p")
    assert [line["parentId"] for line in written[1:]] == [None, *[line["id"] for line in written[1:-1]]]
    assert written[4]["firstKeptEntryId"] == written[2]["id"]
    assert written[2]["message"]["role"] == "custom"
    other, sid = elsewhere(tmp_path, store.export(session.id).data)
    assert len(seen(other, sid)["messages"]) == len(seen(store, session.id)["messages"]) == 4
    other.close()
    grown = agent_goes_on(store.export(session.id).data, "p")
    done = store.agents.import_data(pi, grown)
    assert (done.new, done.branch, done.rewritten) == (1, "main", None)
    assert store.export(session.id).data == store.export(session.id, original=True).data == grown


# ---- imports of the exported file


OURS: dict[str, list[Any]] = {
    "a compaction": [lambda s: summary(s, "c")],
    "messages and a label on the line": [
        lambda s: Message.user("ours"),
        lambda s: kinds.Label(target=to_base64url(s.resolve("a").chain), label="x"),
        lambda s: Message.assistant("answer", provider="p", model="m"),
    ],
    "a reset": [lambda s: kinds.ModelChange(provider="p", model="m"), lambda s: kinds.Reset()],
    "kinds that pi has no word for": [
        lambda s: kinds.Permission(decision="yes", subject={"raw": b"bytes"}),
        lambda s: kinds.Instructions(system_prompt="be brief"),
        lambda s: Message.user("ours"),
    ],
}


@pytest.mark.parametrize("made", OURS.values(), ids=OURS)
@pytest.mark.parametrize("named_too", [False, True], ids=["", "labelled and named"])
def test_imported_again_nothing_is_new_and_the_file_is_the_same(store: Store, made: list[Any], named_too: bool) -> None:
    session = imported(store)
    for make in made:
        session.append(make(session))
    if named_too:
        session.label("b", "ours")
        session.rename("Ours")
    before, context = len(session.tree().nodes), session.context().digest
    data = store.export(session.id).data
    done = store.agents.import_data(pi, data)
    assert (done.session, done.new, done.rewritten) == (session.id, 0, None)
    assert len(session.tree().nodes) == before
    assert store.session(session.id).context().digest == context
    refs = all_refs(store.objects)
    assert store.agents.import_data(pi, data).moves == ()
    assert all_refs(store.objects) == refs
    assert store.export(session.id).data == data
    assert store.export(session.id, original=True).data == data


@pytest.mark.parametrize("made", OURS.values(), ids=OURS)
@pytest.mark.parametrize("named_too", [False, True], ids=["", "labelled and named"])
def test_lines_appended_by_the_agent_follow_the_added_entries(
    store: Store, made: list[Any], named_too: bool, tmp_path: Path
) -> None:
    session = imported(store)
    for make in made:
        ours = session.append(make(session))
    if named_too:
        session.label("b", "ours")
    grown = agent_goes_on(store.export(session.id).data, "p", "q")
    done = store.agents.import_data(pi, grown)
    assert (done.new, done.branch, done.rewritten) == (2, "main", None)
    now = store.session(session.id)
    assert now.branch_name == "main"
    assert [node.source and node.source.id for node in now.history()[-2:]] == ["p", "q"]
    assert now.history()[-3] == ours
    assert list(now.branches()) == ["main"]
    assert store.export(session.id).data == grown
    other, sid = elsewhere(tmp_path, grown)
    assert seen(other, sid) == seen(store, session.id)
    other.close()


def test_compacted_here_and_continued_there_turn_by_turn(store: Store, tmp_path: Path) -> None:
    session = imported(store)
    data = b""
    for turn in range(4):
        session = store.session(session.id)
        session.append(summary(session, "leaf", f"summary {turn}"))
        if turn == 2:
            session.label("b", "ours")
        data = agent_goes_on(store.export(session.id).data, f"p{turn}", f"q{turn}")
        assert store.agents.import_data(pi, data).new == 2
        assert store.export(session.id).data == data
    assert list(store.session(session.id).branches()) == ["main"]
    other, sid = elsewhere(tmp_path, data)
    assert seen(other, sid) == seen(store, session.id)
    other.close()


def test_agents_later_references_to_added_entries_are_resolved(store: Store, tmp_path: Path) -> None:
    session = imported(store)
    first = session.append(Message.user("ours"))
    session.append(Message.assistant("answer", provider="p", model="m"))
    data = store.export(session.id).data
    *_, ours, last = [line["id"] for line in lines_of(data)]
    compaction = entry("compaction", "cccc0000", last, 10, summary="S", firstKeptEntryId=ours, tokensBefore=5)
    edit = entry("context_edit", "cccc0001", "cccc0000", 11, targetId=last, replacement={"content": "edited"})
    grown = data + compaction + b"\n" + edit + b"\n" + label("cccc0002", "cccc0001", ours, "theirs", at=12) + b"\n"
    assert store.agents.import_data(pi, grown).new == 3
    now = store.session(session.id)
    assert [item.entry.text for item in now.context().items[1:]] == ["ours", "edited"]  # type: ignore[union-attr]
    assert now.names().labels == {first.oid: "theirs"}
    assert now.resolve(ours) == first
    other, sid = elsewhere(tmp_path, grown)
    assert seen(other, sid) == seen(store, session.id)
    other.close()


def test_agent_continues_on_a_named_branch_too(store: Store) -> None:
    session = imported(store)
    session.branch("mine", "b").append(Message.user("ours"))
    grown = agent_goes_on(store.export(session.id).data, "p", "q")
    assert store.agents.import_data(pi, grown).branch == "mine"
    assert store.session(session.id).branch_name == "mine"


def test_import_of_the_older_file_removes_nothing(store: Store) -> None:
    session = imported(store)
    session.append(summary(session, "c"))
    grown = agent_goes_on(store.export(session.id).data, "p")
    store.agents.import_data(pi, grown)
    refs = all_refs(store.objects)
    assert store.agents.import_data(pi, pi_file(*LONG)).moves == ()
    assert all_refs(store.objects) == refs
    assert store.export(session.id).data == grown


def test_two_diverged_files_lose_nothing(store: Store) -> None:
    session = imported(store)
    session.append(summary(session, "c"))
    grown = agent_goes_on(store.export(session.id).data, "p")
    theirs = pi_file(*LONG, *talk("x", "y", after="d"))
    store.agents.import_data(pi, grown)
    done = store.agents.import_data(pi, theirs)
    assert done.rewritten is not None
    assert store.export(session.id, original=True).data == theirs
    store.agents.import_data(pi, grown)
    assert store.export(session.id, original=True).data == grown
    ids = {node.source.id for node in session.tree().nodes.values() if node.source}
    assert {"p", "x", "y"} <= ids


def test_added_line_changed_by_the_agent_belongs_to_the_agent(store: Store) -> None:
    session = imported(store)
    session.append(Message.user("ours"))
    data = store.export(session.id).data.replace(b'"ours"', b'"changed"')
    done = store.agents.import_data(pi, data)
    assert done.new == 1
    assert store.export(session.id, original=True).data == data


# ---- sessions of gitsession


def begun(store: Store) -> Session:
    session = store.new_session(agent="mine", cwd="/work")
    session.append(Message.user("hi"))
    call = ToolCall("c1", "read", {"path": "a"})
    usage = {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2}
    fields = {"provider": "p", "model": "m", "stop": "toolUse", "usage": {**usage, "cost": {"total": 0}}}
    session.append(Message.assistant([call], **fields))
    session.append(Message.tool(call, "what was read", details={"bytes": 3}))
    session.append(kinds.ThinkingChange(level="high"))
    session.append(Message.assistant("done", **{**fields, "stop": "stop"}))
    return session


def test_own_session_requires_a_target_agent(store: Store) -> None:
    with pytest.raises(Refused, match="mine"):
        store.export(begun(store).id)


@pytest.mark.parametrize("agent", ["omp", "pi"])
def test_own_session_is_exported_completely(store: Store, agent: str, tmp_path: Path) -> None:
    session = begun(store)
    session.label("leaf", "here")
    session.rename("Mine")
    sent = store.export(session.id, to=agent)
    found = FORMATS[agent].split(sent.data)
    assert (found.source_id, found.version, found.problems) == (session.id, 3, ())
    other, sid = elsewhere(tmp_path, sent.data, agent)
    there = other.session(sid)
    assert seen(other, sid) == seen(store, session.id)
    assert (there.names().title, list(there.names().labels.values())) == ("Mine", ["here"])
    other.close()


def test_own_session_continued_in_pi_is_one_session(store: Store) -> None:
    session = begun(store)
    session.append(summary(session, "leaf"))
    session.label("leaf", "here")
    data = store.export(session.id, to="pi").data
    done = store.agents.import_data(pi, data)
    assert (done.session, done.new) == (session.id, 0)
    grown = agent_goes_on(data, "p", "q")
    done = store.agents.import_data(pi, grown)
    assert (done.session, done.new, done.branch) == (session.id, 2, "main")
    assert store.export(session.id).data == grown
    store.session(session.id).append(Message.user("ours again"))
    assert store.export(session.id).data.startswith(grown)
    assert store.agents.import_data(pi, store.export(session.id).data).new == 0


# ---- entries without an equivalent in pi


def test_pruned_results_are_pruned_for_pi_too(store: Store, tmp_path: Path) -> None:
    session = begun(store)
    session.append(kinds.Prune(targets=tuple(to_base64url(node.chain) for node in session.history()[3:4])))
    sent = store.export(session.id, to="pi")
    assert lines_of(sent.data)[-1]["type"] == "context_edit"
    assert any("prun" in note for note in sent.notes)
    other, sid = elsewhere(tmp_path, sent.data)
    there = seen(other, sid)["messages"]
    assert there[2].pop("details") == {"bytes": 3}
    assert there == seen(store, session.id)["messages"]
    other.close()


def test_reset_starts_anew_with_the_current_state_for_pi(store: Store, tmp_path: Path) -> None:
    session = begun(store)
    session.append(kinds.Reset())
    session.append(Message.user("anew"))
    sent = store.export(session.id, to="pi")
    other, sid = elsewhere(tmp_path, sent.data)
    assert seen(other, sid) == seen(store, session.id)
    assert seen(other, sid)["thinkingLevel"] == "high"
    assert len(seen(other, sid)["messages"]) == 1
    other.close()


def test_system_messages_kept_with_a_compaction_are_shown_before_its_summary(store: Store, tmp_path: Path) -> None:
    session = begun(store)
    kept = [{"text": "be brief"}, {"text": "and kind", "extra": {"sections": {"a": "A"}}}]
    session.append(summary(session, "leaf", preserve={"system": kept, "carried": 1}))
    sent = store.export(session.id, to="pi")
    other, sid = elsewhere(tmp_path, sent.data)
    first, second, *_ = seen(other, sid)["messages"]
    assert (first["role"], first["content"], first["sections"]) == ("system", "be brief\n\nand kind", {"a": "A"})
    assert second["role"] == "compactionSummary"
    compaction = other.session(sid).read("leaf")
    assert isinstance(compaction, Compaction)
    assert compaction.preserve["carried"] == 1
    other.close()


NO_WORD = [kinds.Checkpoint(mode="edits"), kinds.Permission(decision="no"), kinds.Injection(rules=["r"])]


@pytest.mark.parametrize("kind", NO_WORD, ids=lambda kind: kind.kind)
def test_entries_without_an_equivalent_in_pi_are_kept_and_reported(store: Store, kind: kinds.Entry) -> None:
    session = begun(store)
    session.append(kind)
    sent = store.export(session.id, to="pi")
    line = lines_of(sent.data)[-1]
    assert (line["type"], line["customType"]) == ("custom", f"gitsession:{kind.kind}")
    assert any(kind.kind in note for note in sent.notes)


# ---- sessions of other agents


def test_a_session_of_pi_is_written_for_omp_and_back(store: Store, tmp_path: Path) -> None:
    lines = [*LONG, entry("model_change", "m", "d", 5, provider="p", modelId="x"), named("n", "m", "Name", at=6)]
    session = imported(store, *lines, label("l", "n", "a", "here", at=7))
    session.append(summary(session, "c"))
    sent = store.export(session.id, to="omp")
    other, sid = elsewhere(tmp_path, sent.data, "omp")
    there, here = seen(other, sid), seen(store, session.id)
    assert [(each["role"], each.get("content")) for each in there["messages"]] == [
        (each["role"], each.get("content")) for each in here["messages"]
    ]
    assert there["model"] == here["model"]
    assert other.session(sid).names().title == "Name"
    assert list(other.session(sid).names().labels.values()) == ["here"]
    back = other.export(sid, to="pi")
    assert [line.get("id") for line in lines_of(back.data)[1:5]] == ["a", "b", "c", "d"]
    other.close()


def test_a_session_in_which_nothing_was_said_is_its_file_without_a_word_more(store: Store):
    data = pi_file()
    sent = store.export(store.agents.import_data(pi, data).session)
    assert (sent.data, dict(sent.notes)) == (data, {})


@pytest.mark.parametrize("agent", sorted(set(FORMATS) - {"aider"}))
def test_messages_without_a_time_get_the_previous_time(store: Store, agent: str):
    talk = aider_files.history(aider_files.run(), aider_files.user("hello"), aider_files.answer("Hi."))
    done = store.agents.import_data(FORMATS["aider"], talk, name="/work/.aider.chat.history")
    sent = store.export(done.session, to=agent)
    assert b"hello" in sent.data and b"1970" not in sent.data
    back = store.session(store.agents.import_data(FORMATS[agent], sent.data).session)
    assert back.history()[-1].author_seconds >= back.history()[0].author_seconds > 10**9


def test_an_entry_before_all_that_the_agent_wrote_is_no_file_of_its(store: Store) -> None:
    lines = [*claude_code.asked(), claude_code.user("u", None, "hi", at=3)]
    done = store.agents.import_data(FORMATS["claude"], b"\n".join(lines) + b"\n")
    root = store.session(done.session).history()[0]
    with pytest.raises(Refused, match="the history of that entry contains no record of claude"):
        store.export(done.session, root)


def test_hint_for_a_session_of_another_program_lists_all_forms(store: Store) -> None:
    session = store.new_session(agent="my-agent")
    session.append(Message.user("hello"))
    with pytest.raises(Refused, match="the agent is not supported") as error:
        store.export(session.id)
    forms = error.value.hint.removeprefix("pass --to with a format: ").split(", ")
    assert {"claude", "codex", "jsonl", "markdown", "otlp", "html"} <= set(forms)
    for form in forms:
        assert store.export(session.id, to=form).data
