"""Tests of the parser for Claude Code's files: entries, parents, the active leaf, and the meaning of lines."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from builders import (
    SHARED,
    assert_clean,
    bring,
    dumps,
    exported,
    ids_on,
    joined,
    leaves,
    moved_forward,
    session_refs,
    title_of,
)
from claude_code import (
    SESSION,
    START,
    asked,
    assistant,
    boundary,
    call,
    compacted,
    last_prompt,
    line,
    note,
    parallel,
    result,
    summary,
    talk,
    user,
    uuid,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from mutation import mutant

from gitsession.discovery import discover, sources
from gitsession.errors import Malformed
from gitsession.formats import Source, claimed
from gitsession.formats.base.format import Workspace
from gitsession.formats.claude import read_entry
from gitsession.formats.claude.agent import claude
from gitsession.importing import import_session as importing
from gitsession.model import entries
from gitsession.model.blocks import Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.headline import Headline
from gitsession.sessions import active_branch, graph
from gitsession.store.interface import ObjectStore
from gitsession.store.memory import MemoryStore

PLACE = f"/home/u/.claude/projects/-work/{SESSION}"
SESSIONS = sorted((SHARED / "sessions/claude").rglob("*.jsonl"))

WHOLE = joined(
    *asked(),
    *talk("a", "b", "c"),
    note("file-history-snapshot", messageId="x", snapshot={}, isSnapshotUpdate=False),
    *parallel("d", "c"),
    assistant("e", "rd3", at=6),
    last_prompt("e"),
    *compacted("f", "e", at=7, keeps=("e",)),
    user("g", "sf", at=8),
    note("custom-title", customTitle="Named"),
    assistant("h", "g", at=9),
    user("i", "b", at=10),
    assistant("j", "i", at=11),
    last_prompt("j"),
    note("mode", mode="normal"),
)


def split(*lines: bytes, name: str = PLACE, final: bool = False) -> Source:
    return claude.split(joined(*lines), name=name, final=final)


def known(source: Source) -> dict[int, str]:
    """Return the short ids of the records by line. A record without an id has its line number."""
    ids = {record.line: record.source_id for record in source.records}
    return {at: short(id) if id else str(at) for at, id in ids.items()}


def short(id: str) -> str:
    return bytes.fromhex(id.rpartition("-")[2]).strip(b"\0").decode()


def hung(source: Source) -> list[str]:
    """Return ``child<parent`` for each record, in order."""
    names = known(source)
    return [f"{names[record.line]}<{names.get(record.parent or 0, '')}" for record in source.records]


def line_to(store: ObjectStore, sid: str, leaf: str) -> list[str]:
    """Return the short ids of the entries from the root to ``leaf``."""
    return [short(id) if id else "-" for id in ids_on(store, leaf)]


def on_the_active_line(store: ObjectStore, sid: str) -> list[str]:
    return line_to(store, sid, graph.tree(store, sid).branches[active_branch.active(store, sid)])


@pytest.fixture
def store() -> Any:
    made = MemoryStore()
    yield made
    assert_clean(made)


# ---- detection of the format

OURS = {
    "a conversation": joined(*talk("a", "b")),
    "a queue before it": joined(*asked()),
    "a title of an old version": dumps({"type": "summary", "summary": "T", "leafUuid": "x"}),
    "garbage before it": joined(b"\0\0garbage", *talk("a")),
    "a first line longer than what is looked at": user("a", None, "x" * 70_000)[:65_536],
}
OTHERS = {
    "nothing": b"",
    "a file of pi's": b'{"type":"session","id":"s","version":3}\n{"type":"message","id":"a","parentId":null}\n',
    "a file of codex's": b'{"timestamp":"2026-02-01T00:00:00Z","type":"session_meta","payload":{"id":"x"}}\n',
    "the prompts it keeps": b'{"display":"hi","timestamp":1,"project":"/w","sessionId":"x"}\n',
    "words about it": b'"parentUuid" is a field\n{"note":"sessionId"}\n',
    "no JSON": b"\x00\xff" * 100,
}


@pytest.mark.parametrize("head", OURS.values(), ids=OURS)
def test_its_files_are_claimed(head: bytes) -> None:
    assert claimed(head) is claude


@pytest.mark.parametrize("head", OTHERS.values(), ids=OTHERS)
def test_no_other_file_is(head: bytes) -> None:
    assert not claude.claims(head)


def test_session_id_is_the_file_name() -> None:
    assert split(*talk("a"), name="/x/other").source_id == "other"
    assert split(*talk("a"), name="").source_id == SESSION


def test_a_file_without_a_name_and_without_an_id_is_none() -> None:
    with pytest.raises(Malformed, match="no line has the session id"):
        claude.split(b'{"type":"user","uuid":"a","parentUuid":null,"timestamp":"2026-02-01T00:00:00Z"}\n')


def test_session_starts_at_the_first_time_in_its_file() -> None:
    titles = note("ai-title", aiTitle="T")
    assert split(titles, *asked(), *talk("a")).started_ms == split(titles, *asked()).started_ms == 1_769_904_000_000


def test_file_without_a_time_waits_unless_it_is_final() -> None:
    """The time is part of the session's id. A guessed time would make another session later."""
    data = joined(note("mode", mode="normal"), note("ai-title", aiTitle="T"))
    with pytest.raises(Malformed, match="no line has a timestamp yet"):
        claude.split(data, name=PLACE)
    assert len(claude.split(data, name=PLACE, final=True).records) == 1


def test_header_is_read_from_the_first_lines_that_have_it() -> None:
    moved = json.loads(user("b", "a"))
    moved |= {"cwd": "/elsewhere", "version": "9"}
    header = split(*talk("a"), dumps(moved)).header
    assert header == entries.SessionHeader(agent="claude", cwd="/work", extra={"version": "2.1.197"})


def test_session_forked_by_the_sdk_names_its_parent() -> None:
    header = split(user("a", None, forkedFrom={"sessionId": "older", "messageUuid": "x"})).header
    assert header is not None
    assert header.parent == "older"


# ---- sub-agents

AGENTS = {
    "below its session": f"/p/-work/{SESSION}/subagents/agent-ab12",
    "deeper": f"/p/-work/{SESSION}/subagents/workflows/wf_1/agent-ab12",
    "beside its session, as older versions put it": "/p/-work/agent-ab12",
}


@pytest.mark.parametrize("name", AGENTS.values(), ids=AGENTS)
def test_sub_agent_is_a_session_with_a_parent(name: str) -> None:
    source = split(user("a", None, isSidechain=True), assistant("b", "a", isSidechain=True), name=name)
    assert source.source_id == f"{SESSION}/agent-ab12"
    assert source.header is not None
    assert source.header.parent == SESSION
    assert source.leaf is None


def test_files_beside_a_sub_agent_are_stored(tmp_path: Path) -> None:
    file = tmp_path / SESSION / "subagents/agent-ab12.jsonl"
    file.parent.mkdir(parents=True)
    file.write_bytes(user("a", None, isSidechain=True))
    assert sources.attachments(file, file.read_bytes(), claude) == ({}, [])
    (file.parent / "agent-ab12.meta.json").write_bytes(b'{"toolUseId":"toolu_1"}')
    assert sources.attachments(file, file.read_bytes(), claude) == (
        {"agent-ab12.meta.json": b'{"toolUseId":"toolu_1"}'},
        [],
    )


def test_every_session_and_sub_agent_is_found_in_its_folder(tmp_path: Path) -> None:
    projects = tmp_path / ".claude/projects/-work"
    wanted = [f"{SESSION}.jsonl", f"{SESSION}/subagents/agent-a.jsonl", f"{SESSION}/subagents/w/x/agent-b.jsonl"]
    for name in [*wanted, f"{SESSION}/subagents/w/journal.jsonl", f"{SESSION}/tool-results/x.txt"]:
        (projects / name).parent.mkdir(parents=True, exist_ok=True)
        (projects / name).write_bytes(joined(*talk("a")))
    found = [path for path, format in discover.find_all(tmp_path, {}) if format is claude]
    assert found == [projects / name for name in wanted]


# ---- lines that become entries


def test_lines_outside_the_tree_are_grouped_with_the_next_entry() -> None:
    source = split(*asked(), *talk("a", "b"), note("mode", mode="plan"), note("permission-mode", permissionMode="plan"))
    assert [(record.line, record.payload.count(b"\n")) for record in source.records] == [(3, 2), (4, 0)]
    assert source.tail.count(b"\n") == 1


@pytest.mark.parametrize("type", ["custom-title", "ai-title", "summary", "tag", "agent-name", "content-replacement"])
def test_line_that_names_or_changes_the_context_is_an_entry(type: str) -> None:
    source = split(*talk("a", "b"), note(type), *talk("c", after="b"))
    assert hung(source) == ["a<", "b<a", "3<b", "c<3"]


def test_unknown_type_is_an_entry_only_if_it_is_in_the_tree() -> None:
    source = split(*talk("a"), note("telepathy"), line("telepathy", "b", "a"))
    assert hung(source) == ["a<", "b<a"]


def test_titles_before_the_conversation_are_no_branch_of_their_own() -> None:
    assert hung(split(note("summary", summary="T"), note("summary", summary="U"), *talk("a"))) == ["1<", "2<1", "a<2"]


def test_line_without_ids_is_a_child_of_the_previous_one() -> None:
    bare = [dumps({"type": "user", "uuid": id, "sessionId": "x", "timestamp": START}) for id in ("u1", "u2")]
    assert [record.parent for record in split(*bare).records] == [None, 1]


# ---- parents


def test_parallel_calls_and_their_results_are_on_one_branch() -> None:
    source = split(*talk("a"), *parallel("d", "a"), assistant("e", "rd3"))
    assert hung(source) == ["a<", "dt<a", "d1<dt", "d2<d1", "d3<d2", "rd2<d3", "rd1<rd2", "rd3<rd1", "e<rd3"]


def test_lines_between_calls_stay_on_the_same_branch() -> None:
    source = split(
        *talk("a"),
        assistant("d1", "a", call("c1"), answer="d"),
        line("progress", "p", "d1", data={}),
        assistant("d2", "d1", call("c2"), answer="d"),
        result("r1", "d1", "c1"),
        line("attachment", "n", "r1", attachment={"type": "hook_success"}),
        result("r2", "d2", "c2"),
        assistant("e", "r2"),
    )
    assert hung(source) == ["a<", "d1<a", "p<d1", "d2<p", "r1<d2", "n<r1", "r2<n", "e<r2"]


def test_call_with_two_results_has_two_branches() -> None:
    source = split(*talk("a"), assistant("b", "a", call("c1")), result("r", "b", "c1"), result("q", "b", "c1"))
    assert hung(source) == ["a<", "b<a", "r<b", "q<b"]


def test_another_answer_below_the_same_question_is_a_branch() -> None:
    assert hung(split(*talk("a", "b"), assistant("c", "a"))) == ["a<", "b<a", "c<a"]


def test_compaction_is_one_record_that_continues_the_cut_history() -> None:
    source = split(*talk("a", "b"), note("mode"), *compacted("f", "b"), user("g", "sf"))
    assert hung(source) == ["a<", "b<a", "sf<b", "g<sf"]
    assert source.records[2].payload == joined(note("mode"), *compacted("f", "b"))[:-1]


def test_root_is_the_parent_of_a_compaction_without_its_history() -> None:
    source = split(*compacted("f", "b"), user("g", "sf"))
    assert hung(source) == ["sf<", "g<sf"]
    assert source.problems == ()


def test_boundary_without_a_summary_is_a_separate_record() -> None:
    source = split(*talk("a", "b"), note("mode"), boundary("f", "b"), note("mode"), user("g", "f"))
    assert hung(source) == ["a<", "b<a", "f<b", "g<f"]
    assert [record.payload.count(b"\n") for record in source.records] == [0, 0, 1, 1]


def test_a_boundary_waits_for_its_summary() -> None:
    source = split(*talk("a", "b"), boundary("f", "b"))
    assert hung(source) == ["a<", "b<a"]
    assert source.tail == boundary("f", "b")


def test_line_after_a_kept_message_is_a_child_of_the_compaction() -> None:
    source = split(*talk("a", "b"), *compacted("f", "b", keeps=("b",)), user("g", "b"))
    assert hung(source)[-1] == "g<sf"


def test_compaction_is_a_child_of_the_kept_messages_after_the_cut() -> None:
    source = split(*talk("a", "b", "c", "d"), *compacted("f", "b", keeps=("c", "d")))
    assert hung(source)[-1] == "sf<d"


def test_kept_messages_of_another_branch_do_not_move_a_compaction() -> None:
    source = split(*talk("a", "b"), user("x", "a"), *compacted("f", "b", keeps=("x",)))
    assert hung(source)[-1] == "sf<b"


def test_kept_message_that_is_written_again_is_a_child_of_the_compaction() -> None:
    """A file of ``--fork-session`` begins at the boundary and contains the kept messages after it."""
    source = split(*compacted("f", "b", keeps=("b",)), assistant("b", "sf"), user("g", "b"))
    assert hung(source) == ["sf<", "b<sf", "g<b"]


def test_unwritten_parent_is_replaced_by_the_previous_line() -> None:
    """Claude Code has used the previous line since 2.1.147.

    Earlier versions named parents that they had not written.
    """
    source = split(*talk("a", "b"), user("x", None, isSidechain=True), user("c", "gone"))
    assert hung(source) == ["a<", "b<a", "x<", "c<b"]
    assert source.records[-1].claimed_parent == uuid("gone")
    [problem] = source.problems
    assert "is not in the file: the line before is used instead" in problem.what


STRANGE: dict[str, tuple[list[bytes], list[str]]] = {
    "a first line whose parent is not there": ([user("a", "gone")], ["a<"]),
    "itself as parent": ([user("a", "a")], ["a<"]),
    "a circle": ([user("a", "b"), user("b", "a")], ["a<", "b<a"]),
    "a parent further down": ([user("a", "b"), user("b", None)], ["b<", "a<b"]),
    "an id twice": ([*talk("a"), user("b", "a"), user("b", "b"), user("c", "b")], ["a<", "b<a", "b<b", "c<b"]),
    "a number as parent": ([dumps({**json.loads(user("a", None)), "parentUuid": 5})], ["a<"]),
    "bytes that do not parse": ([*talk("a"), b"\x00{", user("b", "a")], ["a<", "2<a", "b<2"]),
    "half a line between": ([*talk("a"), user("b", "a")[:40], user("c", "a")], ["a<", "2<a", "c<2"]),
    "blank lines": ([b"", *talk("a"), b"", b""], ["1<", "a<1", "3<a", "4<3"]),
    "line ends of Windows": ([user("a", None) + b"\r", user("b", "a") + b"\r"], ["a<", "b<a"]),
    "a byte order mark": ([b"\xef\xbb\xbf" + user("a", None), user("b", "a")], ["a<", "b<a"]),
    "sessions of several versions": ([user("a", None), dumps({**json.loads(user("b", "a")), "version": "1.0"})],
                                     ["a<", "b<a"]),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "places"), STRANGE.values(), ids=STRANGE)
def test_every_line_has_a_parent(store: ObjectStore, lines: list[bytes], places: list[str]) -> None:
    source = split(*lines)
    assert hung(source) == places
    done = importing.import_source(store, claude, source)
    assert exported(store, done.session) == joined(*lines)


# ---- the active leaf

FORKED = [*talk("a", "b", "c", "d"), user("e", "b"), assistant("f", "e")]
LEAVES: dict[str, tuple[list[bytes], str]] = {
    "the last line": (FORKED, "f"),
    "the one that was named last": ([*FORKED, last_prompt("f"), last_prompt("d")], "d"),
    "what came below it since": ([*FORKED, last_prompt("d"), user("g", "d")], "g"),
    "the named one, where another line grew since": ([*FORKED, last_prompt("d"), user("g", "f")], "d"),
    "the last line, where the named one is not there": ([*FORKED, last_prompt("x")], "f"),
    "the one that was chosen, though its line went on": ([*FORKED, last_prompt("c", explicit=True)], "c"),
    "what was said since it was chosen": ([*FORKED, last_prompt("c", explicit=True), user("g", "c")], "g"),
    "not what an agent said aside": ([*FORKED, user("x", None, isSidechain=True)], "f"),
    "what is noted below it": ([*FORKED[:4], line("system", "n", "d", subtype="turn_duration"), *FORKED[4:],
                                last_prompt("d")], "n"),
    "what came behind a compaction": ([*talk("a", "b"), last_prompt("a"), *compacted("f", "b"), user("g", "sf")], "g"),
    "the last line, after all was cleared": ([*FORKED, last_prompt("d"), last_prompt(None, explicit=True)], "f"),
    "the named one, where nothing else is named since": ([*FORKED, last_prompt("d"), last_prompt(None)], "d"),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "leaf"), LEAVES.values(), ids=LEAVES)
def test_active_branch_is_the_one_that_the_program_continues(store: ObjectStore, lines: list[bytes], leaf: str) -> None:
    sid = bring(store, joined(*lines)).session
    assert on_the_active_line(store, sid)[-1] == leaf


def test_active_branch_has_the_whole_conversation(store: ObjectStore) -> None:
    sid = bring(store, WHOLE).session
    assert on_the_active_line(store, sid) == ["a", "b", "i", "j"]
    assert line_to(store, sid, graph.tree(store, sid).branches["main"]) == [
        "a", "b", "c", "dt", "d1", "d2", "d3", "rd2", "rd1", "rd3", "e", "sf", "g", "-", "h",
    ]  # fmt: skip


def test_agents_message_in_an_old_file_is_a_branch_from_the_root(store: ObjectStore) -> None:
    aside = [user("x", None, isSidechain=True), assistant("y", "x", isSidechain=True)]
    sid = bring(store, joined(*talk("a", "b"), *aside, *talk("c", after="b"))).session
    assert sorted(leaves(store, sid).values()) == ["assistant: words of y", "user: words of c"]


# ---- titles


def test_chosen_title_comes_before_a_generated_one(store: ObjectStore) -> None:
    chosen, made = note("custom-title", customTitle="Chosen"), note("ai-title", aiTitle="Made")
    assert title_of(store, bring(store, joined(*talk("a"), made), name="one").session) == "Made"
    assert title_of(store, bring(store, joined(*talk("a"), chosen, made), name="two").session) == "Chosen"


# ---- lossless and repeated imports


def test_file_that_grows_line_by_line_has_the_same_entries() -> None:
    lines = WHOLE.splitlines(keepends=True)
    grown, at_once = MemoryStore(), MemoryStore()
    seen: dict[str, str] = {}
    for count in range(1, len(lines) + 1):
        data = b"".join(lines[:count])
        done = bring(grown, data)
        after = session_refs(grown)
        assert moved_forward(grown, seen, after)
        assert exported(grown, done.session) == data
        assert bring(grown, data).moves == ()
        seen = after
    sid = bring(at_once, WHOLE).session
    tree = graph.tree(at_once, sid)
    assert tree.nodes.keys() == graph.tree(grown, sid).nodes.keys()
    assert active_branch.active(grown, sid) == active_branch.active(at_once, sid)
    assert_clean(grown)


def any_lines(draw: random.Random) -> list[bytes]:
    """Generate lines whose parents are earlier lines or missing."""
    lines, ids = asked()[: draw.randint(0, 2)], ["gone"]
    for at in range(draw.randint(1, 25)):
        id, up = f"n{at}", draw.choice(ids[-5:])
        parent = None if draw.random() < 0.1 else up
        answer = draw.choice(["p", "q", ""])
        calls, side = draw.choice(["c1", "c2"]), draw.random() < 0.1
        made = {
            "user": [user(id, parent, isSidechain=side)],
            "words": [assistant(id, parent, answer=answer, isSidechain=side)],
            "call": [assistant(id, parent, call(calls), answer=answer)],
            "result": [result(id, parent, calls)],
            "note": [line(draw.choice(["progress", "attachment", "system", "x"]), id, parent)],
            "boundary": [boundary(id, parent, keeps=tuple(draw.sample(ids, draw.randint(0, len(ids) // 2))))],
            "compaction": [*compacted(id, parent, keeps=tuple(ids[-2:])), *[note("mode")] * draw.randint(0, 1)],
            "title": [note("custom-title", customTitle="T")],
            "mode": [note("mode"), last_prompt(up)],
            "broken": [b"{"],
        }
        what = draw.choice([*made, "user", "words", "call", "result", "call", "result"])
        lines += made[what]
        ids += [] if what in ("title", "mode", "broken") else [f"s{id}"] if what == "compaction" else [id]
    return lines


@settings(max_examples=300)
@given(st.integers(0, 2**32))
def test_no_record_depends_on_a_later_line(seed: int) -> None:
    lines = any_lines(random.Random(seed))
    whole = split(*lines, final=True)
    for count in range(1, len(lines)):
        records = split(*lines[:count], final=True).records
        assert records == whole.records[: len(records)]


@settings(max_examples=100)
@given(st.integers(0, 2**32))
def test_any_valid_file_is_exported_unchanged_with_its_active_leaf(seed: int) -> None:
    lines = any_lines(random.Random(seed))
    store = MemoryStore()
    done = bring(store, joined(*lines), agent="claude", name=SESSION, final=True)
    assert exported(store, done.session) == joined(*lines)
    assert done.branch in ("", active_branch.active(store, done.session))
    assert_clean(store)


def test_file_cut_at_any_byte_is_exported_unchanged() -> None:
    for end in range(1, len(WHOLE), 7):
        store = MemoryStore()
        try:
            done = bring(store, WHOLE[:end], agent="claude", final=True)
        except Malformed:
            continue
        assert exported(store, done.session) == WHOLE[:end]


def test_a_rewritten_file_is_a_branch_and_nothing_is_lost(store: ObjectStore) -> None:
    sid = bring(store, joined(*talk("a", "b", "c", "d"))).session
    other = joined(*talk("a", "b"), user("c", "b", "other words"))
    done = bring(store, other)
    assert done.rewritten == 3
    assert exported(store, sid) == other
    assert sorted(leaves(store, sid).values()) == ["assistant: words of d", "user: other words"]


@settings(max_examples=300)
@given(st.integers(0, 2**32))
def test_damaged_file_is_exported_unchanged(seed: int) -> None:
    data = mutant(random.Random(seed), WHOLE)
    store = MemoryStore()
    try:
        done = bring(store, data, agent="claude", final=True)
    except Malformed:
        return
    assert exported(store, done.session) == data
    assert bring(store, data, agent="claude", final=True).moves == ()
    assert_clean(store)


SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=4)
FIELDS = st.sampled_from([
    "type", "content", "text", "id", "name", "role", "uuids", "tool_use_id", "input", "preservedMessages",
    "preservedSegment", "headUuid", "replacements",
])  # fmt: skip


def around(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return values | st.lists(values, max_size=3) | st.dictionaries(FIELDS, values, max_size=4)


ANY = around(around(around(SCALARS)))
ODD = st.fixed_dictionaries(
    {"type": st.sampled_from([*read_entry._BY_TYPE, "last-prompt", "x"]) | ANY},
    optional={
        **dict.fromkeys(["uuid", "parentUuid", "logicalParentUuid"], st.sampled_from("abc") | ANY),
        **dict.fromkeys(["message", "attachment", "compactMetadata", "data", "content", "subtype", "timestamp"], ANY),
        **dict.fromkeys(["isCompactSummary", "isSidechain", "isMeta", "isApiErrorMessage"], st.booleans() | ANY),
    },
).map(dumps)


@settings(max_examples=400)
@given(st.lists(ODD | st.binary(max_size=8), min_size=1, max_size=8))
def test_any_line_can_be_parsed(lines: list[bytes]) -> None:
    data = b"\n".join(lines)
    claude.claims(data)
    assert isinstance(claude.headline(data), Headline)
    assert isinstance(claude.read(data), entries.Entry)
    try:
        source = claude.split(data, name="x", final=True)
    except Malformed:
        return
    ends = b"\n" if source.ends_with_newline else b""
    rest = [source.tail] if source.tail else []
    payloads = [record.payload for record in sorted(source.records, key=lambda record: record.line)]
    assert b"\n".join([*payloads, *rest]) + ends == data


@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.name[:40])
def test_real_files_are_exported_byte_identical(store: ObjectStore, path: Path) -> None:
    data = path.read_bytes()
    assert claimed(data[: sources.HEAD_BYTES]) is claude
    done = bring(store, data, name=sources.name_of(path))
    assert exported(store, done.session) == data
    assert bring(store, data, name=sources.name_of(path)).moves == ()


# ---- stable headlines

HEADLINES: dict[str, tuple[bytes, dict[str, Any]]] = {
    "the user": (user("a", None, "hi\nthere"), {"role": "user", "label": "user", "words": "hi", "body": "hi\nthere"}),
    "the user in blocks": (user("a", None, [{"type": "text", "text": "hi"}, {"type": "image"}]),
                           {"role": "user", "label": "user", "words": "hi", "body": "hi"}),
    "the agent as the user": (user("a", None, "<caveat>", isMeta=True),
                              {"role": "custom", "label": "user (meta)", "words": "<caveat>"}),
    "a result": (result("a", None, "c", "one\ntwo"), {"role": "tool", "label": "tool", "words": "2 lines"}),
    "a result in blocks": (result("a", None, "c", [{"type": "text", "text": "one"}]),
                           {"role": "tool", "label": "tool", "words": "1 line"}),
    "an answer": (assistant("a", None), {"role": "assistant", "label": "assistant", "words": "words of a",
                                         "body": "words of a", "model": "anthropic/claude-opus-4-8"}),
    "a call": (assistant("a", None, call("c")), {"role": "assistant", "label": "assistant", "words": "Bash", "calls": 1,
                                                 "model": "anthropic/claude-opus-4-8"}),
    "a thought": (assistant("a", None, {"type": "thinking", "thinking": "hm"}),
                  {"role": "assistant", "label": "assistant", "words": "thinking",
                   "model": "anthropic/claude-opus-4-8"}),
    "a compaction": (joined(note("mode"), *compacted("f", "a", postTokens=900))[:-1],
                     {"kind": "compaction", "label": "compaction", "words": "21k -> 900 tokens",
                      "body": "What was said."}),
    "a boundary alone": (boundary("f", "a"), {"kind": "compaction", "label": "compaction", "words": "21k tokens"}),
    "a summary alone": (summary("f"), {"role": "user", "label": "user", "words": "What was said.",
                                       "body": "What was said."}),
    "a queued command": (line("attachment", "a", None, attachment={"type": "queued_command", "prompt": "wait"}),
                         {"role": "user", "label": "user", "words": "wait", "body": "wait"}),
    "an attachment": (line("attachment", "a", None, attachment={"type": "file", "filename": "/w/x"}),
                      {"kind": "custom_message", "role": "custom", "label": "attachment file", "words": "/w/x"}),
    "a local command": (line("system", "a", None, subtype="local_command", content="<out>"),
                        {"kind": "custom_message", "role": "custom", "label": "local_command", "words": "<out>"}),
    "a note": (line("system", "a", None, subtype="turn_duration"), {"kind": "custom", "label": "turn_duration"}),
    "progress": (line("progress", "a", None, data={"type": "bash"}),
                 {"kind": "custom", "label": "progress", "words": "bash"}),
    "a title": (note("custom-title", customTitle="T"), {"kind": "title", "label": "title", "words": "T"}),
    "an old title": (note("summary", summary="T"), {"kind": "title", "label": "title", "words": "T"}),
    "a tag": (note("tag", tag="v1"), {"kind": "custom", "label": "tag", "words": "v1"}),
    "replaced results": (note("content-replacement"), {"kind": "context_edit", "label": "content replacement"}),
    "an unknown type": (line("telepathy", "a", None), {"kind": "telepathy", "label": "telepathy"}),
    "no type": (b"{}", {"kind": "unknown", "label": "unknown"}),
    "a blank line": (b"", {"kind": "opaque", "label": "opaque", "words": "blank line"}),
    "what does not parse": (b"{", {"kind": "opaque", "label": "opaque", "words": "1 byte that does not parse"}),
}  # fmt: skip


@pytest.mark.parametrize(("payload", "said"), HEADLINES.values(), ids=HEADLINES)
def test_headlines_of_records(payload: bytes, said: dict[str, Any]) -> None:
    found = claude.headline(payload)
    assert found == Headline(**{"kind": "message", "at_ms": found.at_ms, **said})


def test_headline_has_the_time_of_its_entry_line() -> None:
    assert claude.headline(joined(*asked())[:-1] + b"\n" + user("a", None, at=2)).at_ms == 1_769_904_002_000
    assert claude.headline(note("custom-title", customTitle="T")).at_ms is None


# ---- meaning of lines

PNG = "iVBORw0KGgo="


def view(*lines: bytes) -> entries.Entry:
    return claude.read(joined(*lines)[:-1])


def test_an_answer_is_its_blocks_as_their_model_signed_them() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    hidden = {"type": "redacted_thinking", "data": "xx"}
    said = {"type": "text", "text": "hi"}
    odd = {"type": "server_tool_use", "id": "s"}
    found = view(assistant("a", None, thought, hidden, said, call("c", a=1), odd))
    assert isinstance(found, entries.Message)
    assert found.content == (
        Thinking("hm", "sig"), Thinking("", "xx", True), Text("hi"), ToolCall("c", "Bash", {"a": 1}), OtherBlock(odd),
    )  # fmt: skip
    assert (found.role, found.provider, found.model) == ("assistant", "anthropic", "claude-opus-4-8")
    assert found.usage == {"input_tokens": 10, "output_tokens": 5}
    assert found.extra["id"] == "msg_a"


def test_a_result_is_a_tool_s_message_with_pictures_as_bytes() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    found = view(result("a", None, "c", [{"type": "text", "text": "hi"}, image], toolUseResult={"stdout": "hi"}))
    assert isinstance(found, entries.Message)
    assert (found.role, found.tool_call_id, found.is_error) == ("tool", "c", False)
    assert found.content == (Text("hi"), Image(b"\x89PNG\r\n\x1a\n", "image/png"))
    assert found.details == {"stdout": "hi"}


def test_several_results_in_one_line_are_kept_unchanged() -> None:
    blocks = [{"type": "tool_result", "tool_use_id": id, "content": "x"} for id in "ab"]
    found = view(user("a", None, blocks))
    assert isinstance(found, entries.Message)
    assert (found.role, found.content) == ("user", (OtherBlock(blocks[0]), OtherBlock(blocks[1])))


def test_an_answer_that_the_program_made_up_names_no_model() -> None:
    made = json.loads(assistant("a", None, {"type": "text", "text": "API Error"}, isApiErrorMessage=True))
    made["message"]["model"] = "<synthetic>"
    found = view(dumps(made))
    assert isinstance(found, entries.Message)
    assert (found.model, found.stop, found.error) == (None, "error", "API Error")


def test_compaction_names_the_kept_entries() -> None:
    found = view(*compacted("f", "e", keeps=("c", "d", "e")))
    assert isinstance(found, entries.Compaction)
    assert (found.summary, found.first_kept, found.tokens_before) == ("What was said.", uuid("c"), 21_000)
    assert found.method == "auto"


def test_queued_message_is_a_prompt() -> None:
    found = view(line("attachment", "a", None, attachment={"type": "queued_command", "prompt": "wait"}))
    assert isinstance(found, entries.Message)
    assert (found.role, found.text) == ("user", "wait")


def test_replaced_results_name_their_call() -> None:
    found = view(note("content-replacement", replacements=[{"kind": "tool-result", "toolUseId": "c"}]))
    assert isinstance(found, entries.ContextEdit)
    assert found.target == "c"


NOT_KNOWN: dict[str, tuple[bytes, str]] = {
    "an unknown type": (line("telepathy", "a", None), "telepathy"),
    "a message without one": (line("user", "a", None), "user"),
    "words that are none": (line("assistant", "a", None, message={"content": 5}), "assistant"),
    "no type": (b"{}", "unknown"),
}


@pytest.mark.parametrize(("payload", "name"), NOT_KNOWN.values(), ids=NOT_KNOWN)
def test_unknown_record_is_kept_under_its_name(payload: bytes, name: str) -> None:
    found = claude.read(payload)
    assert isinstance(found, entries.UnknownEntry)
    assert (found.name, found.body) == (name, json.loads(payload))


# ---- location of files

FOLDERS = {
    "letters and digits stay": ("/home/u/work", "-home-u-work"),
    "all else is a dash": ("/a b/ü.x_y", "-a-b---x-y"),
    "what JavaScript takes for two characters is two": ("/\U0001f600", "---"),
    "a long one ends in a hash": ("/" + "a" * 250, "-" + "a" * 199 + "-feo44x"),
}


@pytest.mark.parametrize(("cwd", "folder"), FOLDERS.values(), ids=FOLDERS)
def test_location_of_a_session_file(cwd: str, folder: str) -> None:
    header = entries.SessionHeader(agent="claude", source_id=SESSION)
    assert claude.session_path(header, Workspace(cwd)) == f"projects/{folder}/{SESSION}.jsonl"


def test_resume_command_of_a_session() -> None:
    assert claude.resume_command(SESSION) == ["claude", "--resume", SESSION]
