"""Tests of entries written as lines of pi and omp and read again, without a store."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from builders import entry as line_of
from hypothesis import given, settings
from hypothesis import strategies as st
from pi_author import Author
from strategies import ENTRIES, MAPS, TEXT, WILD_TEXT

from gitsession.formats import FORMATS, Outgoing, OutgoingEntry
from gitsession.formats.base.fields import to_iso, to_ms
from gitsession.model.blocks import Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import (
    BranchSummary,
    Compaction,
    Custom,
    CustomMessage,
    Entry,
    Label,
    Message,
    ModelChange,
    Opaque,
    Reset,
    SessionHeader,
    ThinkingChange,
    Title,
    UnknownEntry,
)

HEADER = SessionHeader(agent="pi", source_id="20260201-aaaaaaaaaaaaa", cwd="/work", at_ms=1_000)


def outgoing(*entries: Entry, **fields: Any) -> Outgoing:
    """Return an outgoing session of entries in sequence, with the keys k0, k1 and so on."""
    leaving = tuple(
        OutgoingEntry(key=f"k{at}", parent=f"k{at - 1}" if at else None, entry=entry, short=f"{at:08x}")
        for at, entry in enumerate(entries)
    )
    return Outgoing(session=HEADER, entries=leaving, leaf=leaving[-1].key if leaving else None, **fields)


def lines(agent: str, *entries: Entry, **fields: Any) -> list[dict[str, Any]]:
    written = FORMATS[agent].write(outgoing(*entries, **fields)).data
    return [json.loads(line) for line in written.split(b"\n")[:-1] if b'"title","v"' not in line][1:]


def again(agent: str, entry: Entry) -> Entry:
    return FORMATS[agent].read(FORMATS[agent].write(outgoing(entry)).lines[-1].data)


# ---- round trips

TIMES = st.integers(1, 10**14)
BLOCKS = st.one_of(
    st.builds(Text, TEXT, st.none() | TEXT),
    st.builds(ToolCall, TEXT, TEXT, MAPS, st.none() | TEXT).filter(lambda call: "base64" not in str(call)),
    st.builds(Image, st.binary(max_size=30), TEXT),
    st.builds(Thinking, TEXT.filter(bool), st.none() | TEXT, st.booleans()),
    st.builds(OtherBlock, st.just({"type": "later", "x": [1, None]})),
)
JSON_MAPS = st.dictionaries(TEXT, st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT, max_size=3)
FILES = st.lists(TEXT, max_size=2).map(tuple)
KNOWN = st.one_of(
    st.builds(Message, role=st.just("user"), content=st.lists(BLOCKS, max_size=3).map(tuple), at_ms=TIMES),
    st.builds(
        Message, role=st.just("tool"), content=st.lists(BLOCKS, max_size=3).map(tuple), at_ms=TIMES,
        tool_call_id=TEXT, tool_name=TEXT, is_error=st.booleans(), details=st.none() | JSON_MAPS,
    ),
    st.builds(
        Message, role=st.just("shell"), command=TEXT, output=TEXT, exit_code=st.none() | st.integers(0, 9), at_ms=TIMES,
    ),
    st.builds(
        ModelChange, provider=TEXT.filter(lambda text: text and "/" not in text), model=TEXT.filter(bool), at_ms=TIMES,
    ),
    st.builds(ThinkingChange, level=TEXT, at_ms=TIMES),
    st.builds(
        Compaction, summary=TEXT, first_kept=TEXT, tokens_before=st.integers(0, 2**40), method=st.none() | TEXT,
        tokens_after=st.none() | st.integers(0, 9), read_files=FILES, modified_files=FILES,
        preserve=st.none() | JSON_MAPS, at_ms=TIMES,
    ),
    st.builds(BranchSummary, summary=TEXT, left=TEXT, read_files=FILES, modified_files=FILES, at_ms=TIMES),
    st.builds(Label, target=TEXT, label=st.none() | TEXT, at_ms=TIMES),
    st.builds(Title, title=TEXT, at_ms=TIMES),
    st.builds(Custom, custom_type=TEXT, data=st.none() | JSON_MAPS, at_ms=TIMES),
    st.builds(
        CustomMessage, custom_type=TEXT, content=st.lists(BLOCKS, max_size=3).map(tuple), display=st.booleans(),
        details=st.none() | JSON_MAPS, at_ms=TIMES,
    ),
)  # fmt: skip


def plain(entry: Entry) -> Entry:
    """Return the entry without its time, which a message of pi has twice."""
    extra = {name: value for name, value in entry.extra.items() if name not in ("timestamp", "source")}
    return dataclasses.replace(entry, extra=extra)


@pytest.mark.parametrize("agent", ["omp", "pi"])
@settings(max_examples=150, deadline=None)
@given(entry=KNOWN)
def test_entry_with_an_equivalent_is_read_as_written(agent: str, entry: Entry) -> None:
    if not any(isinstance(block, ToolCall) and has_bytes(block.arguments) for block in getattr(entry, "content", ())):
        assert plain(again(agent, entry)) == plain(entry)


def has_bytes(value: Any) -> bool:
    if isinstance(value, dict):
        return any(has_bytes(item) for item in value.values())
    return any(has_bytes(item) for item in value) if isinstance(value, list) else isinstance(value, bytes)


@pytest.mark.parametrize("agent", ["omp", "pi"])
@settings(max_examples=200, deadline=None)
@given(entries=st.lists(ENTRIES, min_size=1, max_size=4))
def test_any_entries_become_connected_lines(agent: str, entries: list[Entry]) -> None:
    written = FORMATS[agent].write(outgoing(*entries))
    found = FORMATS[agent].split(written.data)
    assert found.problems == ()
    ids = [record.source_id for record in found.records]
    assert len(set(ids)) == len(ids) and None not in ids
    assert {line.key for line in written.lines if line.key} == {f"k{at}" for at in range(len(entries))}
    for record in found.records:
        read = FORMATS[agent].read(record.payload)
        assert not isinstance(read, Opaque | UnknownEntry) or any(isinstance(entry, UnknownEntry) for entry in entries)
    assert FORMATS[agent].write(outgoing(*entries)) == written


@pytest.mark.parametrize("profile", ["pi", "omp"])
@pytest.mark.parametrize("seed", range(40))
def test_entry_of_the_agent_is_written_as_read(profile: str, seed: int) -> None:
    format = FORMATS[profile]
    for record in format.split(Author(seed, profile).session()).records:
        entry = format.read(record.payload)
        if isinstance(entry, Message) and entry.role == "assistant" and "text" in str(entry.extra.get("content")):
            continue
        if isinstance(entry, Reset) and profile == "pi":
            continue
        before, after = plain(entry), plain(again(profile, entry))
        if isinstance(entry, ModelChange) and profile == "omp" and not entry.provider:
            continue
        assert after == before


@given(st.integers(0, 253_402_300_799_999))
def test_a_time_is_written_as_it_is_read(at_ms: int) -> None:
    assert to_ms(to_iso(at_ms)) == at_ms


@pytest.mark.parametrize(("at_ms", "text"), [(-5, "1970-01-01T00:00:00.000Z"), (2**62, "9999-12-31T23:59:59.999Z")])
def test_a_time_beyond_the_years_of_the_agents_is_the_nearest(at_ms: int, text: str) -> None:
    assert to_iso(at_ms) == text


@given(WILD_TEXT)
def test_half_characters_are_escaped(text: str) -> None:
    data = FORMATS["pi"].write(outgoing(Title(title=text, at_ms=1))).data
    assert json.loads(data.split(b"\n")[1])["name"] == text
    data.decode()


# ---- ids and parents


def test_existing_id_is_not_used_again() -> None:
    line = line_of("message", "00000001", None, message={})
    theirs = OutgoingEntry(key="a", parent=None, entry=Message.user("x"), line=line, id="00000001")
    ours = [
        OutgoingEntry(key=f"k{at}", parent="a", entry=Title(title="t", at_ms=1), short="00000001") for at in range(3)
    ]
    head = b'{"type":"session","version":3,"id":"s"}'
    out = Outgoing(session=HEADER, head=(head,), entries=(theirs, *ours), leaf="k2")
    ids = [line.id for line in FORMATS["pi"].write(out).lines[1:]]
    assert ids[0] == "00000001"
    assert len(set(ids)) == 4


@pytest.mark.parametrize("agent", ["pi", "omp"])
def test_duplicate_id_of_another_agent_is_used_once(agent: str) -> None:
    out = outgoing(*[Message.user("x")] * 3)
    out = dataclasses.replace(out, entries=tuple(dataclasses.replace(each, id="ig") for each in out.entries))
    written = FORMATS[agent].write(out).lines
    made = [json.loads(line.data) for line in written if line.key is not None]
    assert made[0]["id"] == "ig"
    assert len({line["id"] for line in made}) == 3
    assert [line["parentId"] for line in made] == [None, made[0]["id"], made[1]["id"]]


def test_answer_without_a_model_has_the_current_one_and_no_count() -> None:
    found = lines("pi", ModelChange(provider="p", model="m", at_ms=1), Message.assistant("hi", at_ms=2))
    message = found[-1]["message"]
    assert (message["provider"], message["model"], message["stopReason"]) == ("p", "m", "stop")
    assert message["usage"]["cost"]["total"] == message["usage"]["input"] == 0


def test_a_model_of_another_role_does_not_become_pis() -> None:
    small = ModelChange(provider="p", model="s", role="small", at_ms=1)
    assert lines("pi", small)[0]["customType"] == "gitsession:model_change"
    assert lines("omp", small)[0] | {"model": "p/s", "role": "small"} == lines("omp", small)[0]


def test_field_of_a_later_version_does_not_replace_an_id() -> None:
    later = {"id": "x", "parentId": "y", "type": "z", "later": 1}
    found = lines("pi", Custom(custom_type="c", extra=later, at_ms=1))[0]
    assert (found["id"], found["parentId"], found["type"], found["later"]) == ("00000000", None, "custom", 1)


def test_omps_slot_holds_the_title_in_its_256_bytes() -> None:
    for title in ("", "Name", "é" * 300, "\ud83d" * 90):
        data = FORMATS["omp"].write(outgoing(Message.user("x", at_ms=1), title=Title(title=title, at_ms=1))).data
        slot = data.split(b"\n")[0]
        assert len(slot) == 255
        assert title.startswith(json.loads(slot)["title"])
        assert FORMATS["omp"].claims(data)
