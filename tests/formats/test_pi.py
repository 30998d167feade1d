"""Tests of pi's session files: detection, records, meaning of lines, and headlines."""

import json

import pytest
from goldens import given_back
from hypothesis import given
from hypothesis import strategies as st

from gitsession.errors import Malformed
from gitsession.formats.base.fields import to_ms
from gitsession.formats.base.record import Record
from gitsession.formats.pi.agent import pi
from gitsession.formats.pi.headline import format_tokens
from gitsession.model import entries
from gitsession.model.blocks import Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import Message, Opaque, UnknownEntry
from gitsession.model.headline import Headline


def timeless(headline: Headline) -> Headline:
    """Return the headline without its time, which has separate tests."""
    return headline.at(None)


HEADER = {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-02-01T00:00:00.000Z", "cwd": "/w"}
AT = "2026-02-01T00:00:01.500Z"
AT_MS = 1_769_904_001_500


def line(**fields):
    return json.dumps(fields, separators=(",", ":")).encode()


def entry(id_, parent, **fields):
    return line(**{"type": "custom", "id": id_, "parentId": parent, "timestamp": AT, "customType": "x", **fields})


def file(*lines, header=HEADER, end=b"\n"):
    first = [] if header is None else [json.dumps(header).encode()]
    return b"\n".join([*first, *lines]) + end


def message(**fields):
    return line(type="message", id="a", parentId=None, timestamp=AT, message=fields)


# Detection of the format

CLAIMED = {
    "a header": file(),
    "a header of version 1": file(header={"type": "session", "id": "s1"}),
    "a header without a line end": file(end=b""),
    "a byte order mark": b"\xef\xbb\xbf" + file(),
    "garbage before the header": b"oops\n\n5\n" + file(),
    "a header cut by the end of the head, after one that is whole": file()[:-1] + b'\n{"type":"mess',
}

NOT_CLAIMED = {
    "nothing": b"",
    "garbage": b"\x00\xff\n\n",
    "a header whose id is a number": file(header={"type": "session", "id": 5}),
    "a header cut off": file()[:40],
    "version 4": line(v=4, kind="header", id="s1", storageVersion=1, createdAt=0, cwd="/w") + b"\n",
    "another agent's": line(type="session_meta", payload={"id": "s1", "type": "session"}) + b"\n",
    "a list": b'["session"]\n',
}


@pytest.mark.parametrize("head", CLAIMED.values(), ids=CLAIMED)
def test_a_session_of_pi_is_claimed(head):
    assert pi.claims(head)


@pytest.mark.parametrize("head", NOT_CLAIMED.values(), ids=NOT_CLAIMED)
def test_anything_else_is_not_claimed(head):
    assert not pi.claims(head)


# Records


def test_file_is_split_into_header_and_records():
    data = file(entry("a", None), entry("b", "a"))
    source = pi.split(data)
    assert (source.agent, source.source_id, source.version) == ("pi", "s1", 3)
    assert source.started_ms == 1_769_904_000_000
    assert source.meta == (Record(1, json.dumps(HEADER).encode()),)
    assert source.records == (
        Record(2, entry("a", None), None, "a"),
        Record(3, entry("b", "a"), 2, "b"),
    )
    assert (source.waiting, source.ends_with_newline, source.problems) == (b"", True, ())


def test_a_header_alone_is_a_session_without_records():
    source = pi.split(file())
    assert source.records == ()
    assert source.problems == ()


def test_a_file_of_version_1_is_one_line():
    source = pi.split(file(line(type="message"), line(type="message"), header={"type": "session", "id": "s1"}))
    assert [(record.line, record.parent) for record in source.records] == [(2, None), (3, 2)]
    assert source.version == 1
    assert source.problems == ()


def test_garbage_before_the_header_is_kept_with_its_line_numbers():
    source = pi.split(b"oops\n" + file(entry("a", None), line(type="odd")))
    assert [record.line for record in source.meta] == [2]
    assert [(record.line, record.parent) for record in source.records] == [(1, None), (3, None), (4, 3)]
    assert [(problem.line, problem.what[:8]) for problem in source.problems] == [(1, "not JSON")]


def test_invalid_line_becomes_the_parent_of_later_lines():
    source = pi.split(file(entry("a", None), b'{"type":', entry("b", "a")))
    assert [(record.line, record.parent, record.source_id) for record in source.records] == [
        (2, None, "a"),
        (3, 2, None),
        (4, 3, "b"),
    ]


@pytest.mark.parametrize("bad", [b"5", b"null", b"[1]", b"{", b"\xff", b'{"a":NaN}', b"[" * 9999])
def test_invalid_line_is_reported_and_kept(bad):
    source = pi.split(file(entry("a", None), bad))
    assert source.records[1].payload == bad
    assert [(problem.line, problem.what) for problem in source.problems] == [(3, source.records[1].problem)]


@pytest.mark.parametrize("second", [entry("b", "a"), b"garbage"])
def test_text_after_an_entry_on_its_line_is_reported_with_the_behavior_of_agents(second):
    source = pi.split(file(entry("a", None) + second))
    [problem] = source.problems
    assert problem.what.endswith("the line is stored but not shown (pi skips it, omp reads its first value)")
    assert source.records[0].payload == entry("a", None) + second


def test_a_message_without_id_and_parent_is_reported_since_version_2():
    source = pi.split(file(entry("a", None), line(type="message"), entry("b", "a")))
    assert [record.parent for record in source.records] == [None, 2, 3]
    [problem] = source.problems
    assert (problem.line, problem.what) == (
        3,
        "a message without id and parentId: shown below the line before it (pi and omp start a new branch with it)",
    )


@pytest.mark.parametrize("type_", ["message", "custom"])
@pytest.mark.parametrize("own", [{}, {"id": None}, {"id": ""}], ids=["absent", "null", "empty"])
def test_an_entry_without_id_below_another_is_reported_since_version_2(type_, own):
    bad = line(type=type_, parentId="a", **own)
    source = pi.split(file(entry("a", None), bad, entry("b", "a")))
    assert [record.parent for record in source.records] == [None, 2, 2]
    assert [(problem.line, problem.what) for problem in source.problems] == [
        (3, "an entry without id: no other can name it as its parent, and pi shows it only while it is the last one"),
    ]
    assert source.records[1].problem == source.problems[0].what


def test_an_entry_without_id_is_not_reported_in_version_1():
    header = {"type": "session", "id": "s1"}
    assert pi.split(file(entry("a", None), line(type="message", parentId="a"), header=header)).problems == ()


def test_a_number_is_an_id_for_pi_and_not_reported():
    assert pi.split(file(entry("a", None), entry(5, "a"))).problems == ()


@pytest.mark.parametrize("blank", [b"", b"  ", b"\r"])
def test_blank_line_is_kept_and_not_reported(blank):
    source = pi.split(file(entry("a", None), blank, entry("b", "a")))
    assert [record.parent for record in source.records] == [None, 2, 3]
    assert source.problems == ()


def test_second_header_is_a_record_without_children():
    source = pi.split(file(entry("a", None), line(type="session", id="s2"), entry("b", "a"), entry("c", "s2")))
    assert [(record.line, record.parent) for record in source.records] == [(2, None), (3, 2), (4, 3), (5, None)]
    assert [(problem.line, problem.what) for problem in source.problems] == [
        (3, "a second header"),
        (5, "the parent 's2' is not in the file"),
    ]
    assert source.source_id == "s1"


def test_a_missing_parent_a_duplicate_and_a_cycle_are_reported_by_line():
    source = pi.split(file(entry("a", "gone"), entry("a", None), entry("b", "c"), entry("c", "b")))
    assert [record.claimed_parent for record in source.records] == ["gone", None, "c", None]
    assert [problem.line for problem in source.problems] == [2, 3, 4]


def test_later_parent_is_placed_first():
    source = pi.split(file(entry("b", "a"), entry("a", None)))
    assert [(record.line, record.parent) for record in source.records] == [(3, None), (2, 3)]


ODD_PLACES = {
    "id is a number": (entry(5, "a"), (2, None, None)),
    "id is empty": (entry("", "a"), (2, None, None)),
    "id is null": (entry(None, "a"), (2, None, None)),
    "parentId is a number": (entry("b", 7), (None, "b", "7")),
    "parentId is a list": (entry("b", ["a"]), (None, "b", '["a"]')),
    "parentId is false": (entry("b", False), (None, "b", "false")),
    "parentId is empty": (entry("b", ""), (None, "b", "")),
    "no id but a parent": (line(type="odd", parentId="a"), (2, None, None)),
    "an id but no parent": (line(type="odd", id="b"), (2, "b", None)),
    "no type": (line(id="b", parentId="a"), (2, "b", None)),
}


@pytest.mark.parametrize(("odd", "place"), ODD_PLACES.values(), ids=ODD_PLACES)
def test_an_odd_place_is_still_a_place(odd, place):
    record = pi.split(file(entry("a", None), odd)).records[1]
    assert (record.parent, record.source_id, record.claimed_parent) == place


def test_windows_and_unicode_line_ends_are_part_of_the_payload():
    data = file(entry("a", None) + b"\r", '{"type":"custom","id":"b","parentId":"a","data":"x\u2028y"}'.encode())
    source = pi.split(data)
    assert given_back(source) == data
    assert source.records[0].payload.endswith(b"\r")
    assert source.problems == ()


# The end of the file


def test_incomplete_last_record_waits():
    data = file(entry("a", None), b'{"type":"mess', end=b"")
    source = pi.split(data)
    assert (source.waiting, source.ends_with_newline, len(source.records)) == (b'{"type":"mess', True, 1)
    assert [problem.line for problem in source.problems] == [3]
    assert "13 bytes" in source.problems[0].what
    assert "--final" in source.problems[0].what
    assert given_back(source) == data


def test_complete_record_without_a_line_end_is_read():
    data = file(entry("a", None), entry("b", "a"), end=b"")
    source = pi.split(data)
    assert (source.waiting, source.ends_with_newline, len(source.records)) == (b"", False, 2)
    assert given_back(source) == data


def test_closed_file_is_read_to_its_end():
    data = file(entry("a", None), b'{"type":"mess', end=b"")
    source = pi.split(data, final=True)
    assert source.records[1].payload == b'{"type":"mess'
    assert (source.waiting, source.ends_with_newline) == (b"", False)
    assert isinstance(pi.read(source.records[1].payload), Opaque)
    assert given_back(source) == data


@pytest.mark.parametrize("tail", [b"5", b"null", b" ", b"12"])
def test_tail_that_may_continue_waits(tail):
    assert pi.split(file(end=b"\n" + tail)).waiting == tail


def test_records_of_a_prefix_do_not_change():
    data = file(entry("a", None), b"oops", entry("b", "a"), b"", entry("c", "a"), end=b"")
    known = ()
    for end in range(len(file()), len(data) + 1):
        source = pi.split(data[:end])
        assert given_back(source) == data[:end]
        assert source.records[: len(known)] == known
        known = source.records


# Sessions without a valid header


@pytest.mark.parametrize("data", [b"", entry("a", None) + b"\n", b"oops\n", b'{"type":"session","id":"s'])
def test_file_without_a_header_and_a_name_is_rejected(data):
    with pytest.raises(Malformed):
        pi.split(data)


@pytest.mark.parametrize("data", [b"", b'{"type":"session","id":"s'])
def test_name_does_not_replace_an_incomplete_first_line(data):
    with pytest.raises(Malformed):
        pi.split(data, name="n")


@pytest.mark.parametrize("header", [None, {}, {"id": 5}, {"id": ""}], ids=["none", "no id", "a number", "empty"])
def test_name_replaces_a_missing_id(header):
    header = None if header is None else {"type": "session", **header}
    source = pi.split(file(entry("a", None), header=header), name="from-the-file")
    assert source.source_id == "from-the-file"
    assert [problem.line for problem in source.problems] == [1]
    assert len(source.records) == 1


def test_a_stated_id_wins_over_the_name():
    assert pi.split(file(), name="n").source_id == "s1"


def test_invalid_id_is_escaped():
    assert pi.split(b'{"type":"session","id":"a\\ud83d"}\n').source_id == "a\\ud83d"


@pytest.mark.parametrize(
    ("version", "read"), [(3, 3), (99, 99), ("3", 3), (None, 1), ("x", 1), ("³", 1), (3.5, 1), (True, 1), ([], 1)]
)
def test_any_version_is_accepted(version, read):
    assert pi.split(file(header={**HEADER, "version": version})).version == read


@pytest.mark.parametrize(
    ("stamp", "ms"),
    [
        ("2026-02-01T00:00:00.000Z", 1_769_904_000_000),
        ("2026-02-01T00:00:00Z", 1_769_904_000_000),
        ("2026-02-01T00:00Z", 1_769_904_000_000),
        ("2026-02-01T00:00:00", 1_769_904_000_000),
        ("2026-02-01T01:00:00+01:00", 1_769_904_000_000),
        ("2026-01-31T23:30:00-0030", 1_769_904_000_000),
        ("2026-02-01T00:00:00.5Z", 1_769_904_000_500),
        ("2026-02-01T00:00:00.123456789Z", 1_769_904_000_123),
        ("1969-12-31T23:59:59.999Z", -1),
        (1_769_904_000_000, 1_769_904_000_000),
        ("2026-02-30T00:00:00Z", None),
        ("2026-02-01T24:00:00Z", None),
        ("0000-01-01T00:00:00Z", None),
        ("٢٠٢٦-02-01T00:00:00Z", None),
        ("2026-02-01", None),
        ("yesterday", None),
        ("", None),
        (-5, None),
        (10**20, None),
        (True, None),
        (1.5, None),
        (None, None),
        ([], None),
    ],
)
def test_a_time_is_milliseconds_or_nothing(stamp, ms):
    assert to_ms(stamp) == ms
    assert pi.split(file(header={**HEADER, "timestamp": stamp})).started_ms == (ms or 0)


# Meaning of lines

USAGE = {"input": 1, "output": 2, "totalTokens": 3}
CALL = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"b": 1, "a": [2]}, "thoughtSignature": "s"}

MESSAGES = {
    "a user's text": (
        {"role": "user", "content": "hi", "timestamp": 5},
        Message(at_ms=AT_MS, role="user", content=(Text("hi"),), extra={"timestamp": 5}),
    ),
    "a user's blocks": (
        {"role": "user", "content": [{"type": "text", "text": "hi", "textSignature": "s"}]},
        Message(at_ms=AT_MS, role="user", content=(Text("hi", "s"),)),
    ),
    "an assistant": (
        {
            "role": "assistant",
            "api": "x",
            "provider": "p",
            "model": "m",
            "usage": USAGE,
            "stopReason": "toolUse",
            "content": [
                {"type": "thinking", "thinking": "hm", "thinkingSignature": "t"},
                {"type": "text", "text": "ok"},
                CALL,
            ],
        },
        Message(
            at_ms=AT_MS,
            role="assistant",
            provider="p",
            model="m",
            usage=USAGE,
            stop="toolUse",
            extra={"api": "x"},
            content=(Thinking("hm", "t"), Text("ok"), ToolCall("c1", "bash", {"b": 1, "a": [2]}, "s")),
        ),
    ),
    "an error": (
        {"role": "assistant", "content": [], "stopReason": "error", "errorMessage": "overloaded"},
        Message(at_ms=AT_MS, role="assistant", stop="error", error="overloaded"),
    ),
    "a tool's result": (
        {
            "role": "toolResult",
            "toolCallId": "c1",
            "toolName": "bash",
            "content": [{"type": "text", "text": "x"}],
            "isError": True,
            "details": {"d": 1},
        },
        Message(
            at_ms=AT_MS,
            role="tool",
            tool_call_id="c1",
            tool_name="bash",
            content=(Text("x"),),
            is_error=True,
            details={"d": 1},
        ),
    ),
    "a shell command": (
        {
            "role": "bashExecution",
            "command": "ls",
            "output": "a\n",
            "exitCode": 0,
            "cancelled": False,
            "excludeFromContext": True,
        },
        Message(
            at_ms=AT_MS,
            role="shell",
            command="ls",
            output="a\n",
            exit_code=0,
            extra={"cancelled": False, "excludeFromContext": True},
        ),
    ),
    "an extension's": (
        {"role": "custom", "customType": "t", "content": "x", "display": False, "details": 1},
        Message(
            at_ms=AT_MS, role="custom", content=(Text("x"),), details=1, extra={"customType": "t", "display": False}
        ),
    ),
    "a hook's, of versions 1 and 2": (
        {"role": "hookMessage", "customType": "t", "content": "x"},
        Message(at_ms=AT_MS, role="custom", content=(Text("x"),), extra={"customType": "t", "role": "hookMessage"}),
    ),
    "a system prompt": (
        {"role": "system", "content": "be good", "sections": {"a": None}},
        Message(at_ms=AT_MS, role="system", content=(Text("be good"),), extra={"sections": {"a": None}}),
    ),
    "a role of a later version": (
        {"role": "telepath", "content": "x", "wave": 7},
        Message(at_ms=AT_MS, role="custom", content=(Text("x"),), extra={"role": "telepath", "wave": 7}),
    ),
    "no role": ({"content": "x"}, Message(at_ms=AT_MS, role="custom", content=(Text("x"),))),
    "a role that is a number": (
        {"role": 7, "content": "x"},
        Message(at_ms=AT_MS, role="custom", content=(Text("x"),), extra={"role": 7}),
    ),
    "content that is null": ({"role": "user", "content": None}, Message(at_ms=AT_MS, role="user")),
    "content that is a number": (
        {"role": "user", "content": 7},
        Message(at_ms=AT_MS, role="user", extra={"content": 7}),
    ),
    "a model that is a number": (
        {"role": "assistant", "content": [], "model": 4, "provider": "p"},
        Message(at_ms=AT_MS, role="assistant", provider="p", extra={"model": 4}),
    ),
    "isError that is text": (
        {"role": "toolResult", "content": [], "isError": "no"},
        Message(at_ms=AT_MS, role="tool", extra={"isError": "no"}),
    ),
}


@pytest.mark.parametrize(("raw", "meant"), MESSAGES.values(), ids=MESSAGES)
def test_a_message_is_read_by_its_role(raw, meant):
    assert pi.read(message(**raw)) == meant


BLOCKS = {
    "a picture": ({"type": "image", "data": "aGk=", "mimeType": "image/png"}, Image(b"hi", "image/png")),
    "a picture that is not base64": ({"type": "image", "data": "!", "mimeType": "image/png"}, None),
    "a picture of non-ASCII": ({"type": "image", "data": "é", "mimeType": "image/png"}, None),
    "a picture without a type": ({"type": "image", "data": "aGk="}, None),
    "redacted thinking": (
        {"type": "thinking", "thinking": "", "thinkingSignature": "s", "redacted": True},
        Thinking("", "s", True),
    ),
    "a call without arguments": ({"type": "toolCall", "id": "c", "name": "n"}, ToolCall("c", "n")),
    "a call whose arguments are text": ({"type": "toolCall", "id": "c", "name": "n", "arguments": "x"}, None),
    "a call without an id": ({"type": "toolCall", "name": "n", "arguments": {}}, None),
    "a text that is a number": ({"type": "text", "text": 5}, None),
    "a signature that is a number": ({"type": "text", "text": "x", "textSignature": 5}, None),
    "a type of a later version": ({"type": "smell", "odour": 1}, None),
    "a type that is a list": ({"type": []}, None),
    "no block at all": (5, None),
}


@pytest.mark.parametrize(("raw", "block"), BLOCKS.values(), ids=BLOCKS)
def test_block_is_converted_or_kept_unchanged(raw, block):
    assert pi.read(message(role="user", content=[raw])).content == (block or OtherBlock(raw),)


ENTRIES = {
    "a model": (
        {"type": "model_change", "provider": "p", "modelId": "m/1"},
        entries.ModelChange(at_ms=AT_MS, provider="p", model="m/1"),
    ),
    "a level of thinking": (
        {"type": "thinking_level_change", "thinkingLevel": "high"},
        entries.ThinkingChange(at_ms=AT_MS, level="high"),
    ),
    "a compaction": (
        {
            "type": "compaction",
            "summary": "s",
            "firstKeptEntryId": "k",
            "tokensBefore": 61234,
            "fromHook": True,
            "details": {"readFiles": ["a"], "modifiedFiles": ["b"]},
        },
        entries.Compaction(
            at_ms=AT_MS,
            summary="s",
            first_kept="k",
            tokens_before=61234,
            read_files=("a",),
            modified_files=("b",),
            extra={"fromHook": True},
        ),
    ),
    "a compaction of version 1": (
        {"type": "compaction", "summary": "s", "firstKeptEntryIndex": 4, "tokensBefore": 5e3},
        entries.Compaction(at_ms=AT_MS, summary="s", tokens_before=5000, extra={"firstKeptEntryIndex": 4}),
    ),
    "a compaction with odd details": (
        {"type": "compaction", "summary": 5, "details": {"readFiles": [1], "more": 2}, "tokensBefore": "many"},
        entries.Compaction(
            at_ms=AT_MS,
            summary="",
            extra={"summary": 5, "details": {"readFiles": [1], "more": 2}, "tokensBefore": "many"},
        ),
    ),
    "a branch summary": (
        {"type": "branch_summary", "fromId": "root", "summary": "s", "details": {"readFiles": [], "modifiedFiles": []}},
        entries.BranchSummary(at_ms=AT_MS, summary="s", left="root"),
    ),
    "an extension's data": (
        {"type": "custom", "customType": "t", "data": {"n": 1}},
        entries.Custom(at_ms=AT_MS, custom_type="t", data={"n": 1}),
    ),
    "an extension's words": (
        {"type": "custom_message", "customType": "t", "content": "x", "display": False, "details": 1},
        entries.CustomMessage(at_ms=AT_MS, custom_type="t", content=(Text("x"),), display=False, details=1),
    ),
    "a label": (
        {"type": "label", "targetId": "x", "label": "L"},
        entries.Label(at_ms=AT_MS, target="x", label="L"),
    ),
    "a label taken away": ({"type": "label", "targetId": "x", "label": None}, entries.Label(at_ms=AT_MS, target="x")),
    "a name": ({"type": "session_info", "name": "N"}, entries.Title(at_ms=AT_MS, title="N")),
    "usage": (
        {"type": "usage", "kind": "warming", "provider": "p", "model": "m", "usage": USAGE, "note": "n"},
        entries.Usage(at_ms=AT_MS, purpose="warming", provider="p", model="m", usage=USAGE, extra={"note": "n"}),
    ),
    "an edit that omits": (
        {"type": "context_edit", "targetId": "x", "replacement": None},
        entries.ContextEdit(at_ms=AT_MS, target="x"),
    ),
    "an edit": (
        {"type": "context_edit", "targetId": "x", "replacement": {"content": "y"}},
        entries.ContextEdit(at_ms=AT_MS, target="x", replacement={"content": "y"}),
    ),
    "tools": (
        {"type": "active_tools_change", "activeToolNames": ["a", "b"]},
        entries.ToolsChange(at_ms=AT_MS, tools=("a", "b")),
    ),
}


@pytest.mark.parametrize(("raw", "meant"), ENTRIES.values(), ids=ENTRIES)
def test_an_entry_is_read_by_its_type(raw, meant):
    assert pi.read(line(id="a", parentId=None, timestamp=AT, **raw)) == meant


UNKNOWN = {
    "a type of a later version": {"type": "telepathy", "wave": 7},
    "a summary in an old spelling": {"type": "compactionSummary", "summary": "s"},
    "a branch in an old spelling": {"type": "branchSummary", "summary": "s"},
    "a compaction in an old spelling": {"type": "compact"},
    "a message without one": {"type": "message"},
    "a message that is a list": {"type": "message", "message": []},
    "a label without a target": {"type": "label", "label": "L"},
    "a label whose target is a number": {"type": "label", "targetId": 5, "label": "L"},
    "a model without a name": {"type": "model_change", "provider": "p"},
    "a level that is a number": {"type": "thinking_level_change", "thinkingLevel": 3},
    "an edit without a target": {"type": "context_edit", "replacement": None},
    "tools that are no names": {"type": "active_tools_change", "activeToolNames": [1]},
}


@pytest.mark.parametrize("raw", UNKNOWN.values(), ids=UNKNOWN)
def test_unknown_entry_is_kept_under_its_literal_name(raw):
    assert pi.read(line(**raw)) == UnknownEntry(name=raw["type"], body=raw)


@pytest.mark.parametrize("raw", [{}, {"type": 5}, {"type": ""}, {"type": None}, {"type": ["message"]}])
def test_an_object_without_a_type_is_unknown(raw):
    assert pi.read(line(**raw)) == UnknownEntry(name="unknown", body=raw)
    assert timeless(pi.headline(line(**raw))) == Headline(kind="unknown", label="unknown")


def test_a_header_is_the_session():
    raw = {**HEADER, "parentSession": "/old.jsonl", "title": "T"}
    assert pi.read(line(**raw)) == entries.SessionHeader(
        at_ms=1_769_904_000_000,
        agent="pi",
        source_id="s1",
        cwd="/w",
        title="T",
        parent="/old.jsonl",
        extra={"version": 3},
    )


def test_header_of_version_1_has_another_field_for_its_parent():
    assert pi.read(line(type="session", id="s", branchedFrom="/old.jsonl")).parent == "/old.jsonl"


@pytest.mark.parametrize(
    ("own", "inner", "ms"),
    [(AT, 5, AT_MS), (None, 5, 5), ("?", 5, 5), ("?", "?", 0), (7, 5, 7), (None, None, 0), (-1, -1, 0)],
)
def test_the_time_is_the_entry_s_or_else_the_message_s(own, inner, ms):
    raw = line(type="message", timestamp=own, message={"role": "user", "content": "x", "timestamp": inner})
    assert pi.read(raw).at_ms == ms


def test_fields_of_a_later_version_ride_along():
    assert pi.read(line(type="label", id="a", targetId="x", label="L", colour="red")).extra == {"colour": "red"}


@pytest.mark.parametrize(("payload", "problem"), [(b"", ""), (b" \r", ""), (b"5", "not an object")])
def test_bytes_that_are_no_object_are_opaque(payload, problem):
    assert pi.read(payload) == Opaque(payload=payload, problem=problem)


# Headlines

HEADLINES = {
    "user": (
        message(role="user", content="\n  \nFix it\nplease"),
        Headline(kind="message", role="user", label="user", words="Fix it", body="\n  \nFix it\nplease"),
    ),
    "user, blocks": (
        message(role="user", content=[{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]),
        Headline(kind="message", role="user", label="user", words="a", body="a\nb"),
    ),
    "user, CRLF": (
        message(role="user", content="a\r\nb"),
        Headline(kind="message", role="user", label="user", words="a", body="a\r\nb"),
    ),
    "user, nothing": (message(role="user", content=None), Headline(kind="message", role="user", label="user")),
    "assistant": (
        message(role="assistant", provider="p", model="m", content=[{"type": "text", "text": "ok"}, CALL, CALL]),
        Headline(
            kind="message",
            role="assistant",
            label="assistant",
            words="ok",
            calls=2,
            body="ok",
            model="p/m",
        ),
    ),
    "assistant, calls alone": (
        message(role="assistant", provider="p", model=5, content=[CALL]),
        Headline(kind="message", role="assistant", label="assistant", words="bash", calls=1),
    ),
    "tool": (
        message(role="toolResult", toolName="bash", content=[{"type": "text", "text": "a\nb\n"}]),
        Headline(kind="message", role="tool", label="tool bash", words="2 lines"),
    ),
    "tool, one line": (
        message(role="toolResult", toolName="bash", content=[{"type": "text", "text": "a"}], isError=True),
        Headline(kind="message", role="tool", label="tool bash", words="error, 1 line"),
    ),
    "tool, nothing": (
        message(role="toolResult", content=[]),
        Headline(kind="message", role="tool", label="tool", words="no output"),
    ),
    "shell": (
        message(role="bashExecution", command="ls\npwd", output="x"),
        Headline(kind="message", role="shell", label="shell", words="ls"),
    ),
    "system": (
        message(role="system", content="be good\nand kind"),
        Headline(kind="message", role="system", label="system", words="be good"),
    ),
    "developer": (
        message(role="developer", content="x"),
        Headline(kind="message", role="developer", label="developer", words="x"),
    ),
    "custom role": (
        message(role="custom", customType="t", content="a\nb"),
        Headline(kind="message", role="custom", label="custom t", words="a", body="a\nb"),
    ),
    "hook": (
        message(role="hookMessage", content="a"),
        Headline(kind="message", role="custom", label="custom", words="a", body="a"),
    ),
    "any other role": (
        message(role="telepath", content="a\nb"),
        Headline(kind="message", role="other", label="message", words="a"),
    ),
    "no message": (line(type="message"), Headline(kind="message", role="other", label="message")),
    "model": (
        line(type="model_change", provider="p", modelId="m"),
        Headline(kind="model_change", label="model", words="p/m"),
    ),
    "thinking": (
        line(type="thinking_level_change", thinkingLevel="high"),
        Headline(kind="thinking_change", label="thinking", words="high"),
    ),
    "compaction": (
        line(type="compaction", summary="s", tokensBefore=61_499),
        Headline(kind="compaction", label="compaction", words="61k tokens", body="s"),
    ),
    "compaction, both counts": (
        line(type="compaction", summary="s", tokensBefore=61_000, tokensAfter=7_500),
        Headline(kind="compaction", label="compaction", words="61k -> 8k tokens", body="s"),
    ),
    "compaction, no count": (
        line(type="compaction", summary=None, tokensBefore="many", tokensAfter=5),
        Headline(kind="compaction", label="compaction"),
    ),
    "branch summary": (
        line(type="branch_summary", summary="a\nb"),
        Headline(kind="branch_summary", label="branch summary", words="a", body="a\nb"),
    ),
    "label": (line(type="label", targetId="x", label="L"), Headline(kind="label", label="label", words="L")),
    "label taken away": (line(type="label", targetId="x"), Headline(kind="label", label="label", words="removed")),
    "name": (line(type="session_info", name="N"), Headline(kind="title", label="title", words="N")),
    "name taken away": (line(type="session_info", name=""), Headline(kind="title", label="title")),
    "custom": (line(type="custom", customType="t"), Headline(kind="custom", label="custom t")),
    "custom message": (
        line(type="custom_message", customType="t", content=[{"type": "text", "text": "a\nb"}]),
        Headline(kind="custom_message", role="custom", label="custom t", words="a", body="a\nb"),
    ),
    "usage": (line(type="usage", provider="p", model="m"), Headline(kind="usage", label="usage", words="p/m")),
    "edit": (line(type="context_edit", targetId="x"), Headline(kind="context_edit", label="context edit")),
    "tools": (line(type="active_tools_change", activeToolNames=["a"]), Headline(kind="tools_change", label="tools")),
    "header": (line(**HEADER), Headline(kind="session", label="session", words="/w")),
    "later": (line(type="telepathy"), Headline(kind="telepathy", label="telepathy")),
    "old": (line(type="compactionSummary", summary="s"), Headline(kind="compactionSummary", label="compactionSummary")),
    "opaque": (b'{"a', Headline(kind="opaque", label="opaque", words="3 bytes that do not parse")),
    "opaque, one byte": (b"5", Headline(kind="opaque", label="opaque", words="1 byte that does not parse")),
    "blank": (b"\r", Headline(kind="opaque", label="opaque", words="blank line")),
}


@pytest.mark.parametrize(("payload", "said"), HEADLINES.values(), ids=HEADLINES)
def test_headline_of_a_line_is_stable(payload, said):
    assert timeless(pi.headline(payload)) == said


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0"), (999, "999"), (1000, "1k"), (1499, "1k"), (1500, "2k"), (61_234, "61k"), (999_999, "1000k")],
)
def test_tokens_in_few_characters(count, words):
    assert format_tokens(count) == words


# Arbitrary input

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
RAW = [raw for raw, _ in (*MESSAGES.values(), *ENTRIES.values(), *BLOCKS.values()) if isinstance(raw, dict)]
NAMES = st.sampled_from(sorted({name for raw in RAW for name in raw} | {"id", "parentId", "timestamp", "message"}))
TYPES = st.sampled_from(["session", "message", "title", *sorted({raw["type"] for raw, _ in ENTRIES.values()})])
ROLES = st.sampled_from(["user", "assistant", "toolResult", "bashExecution", "pythonExecution", "fileMention", "x"])
BLOCK_TYPES = st.sampled_from(["text", "thinking", "redactedThinking", "toolCall", "image"])
BLOCK = st.tuples(st.dictionaries(NAMES, JSON), BLOCK_TYPES).map(lambda parts: {**parts[0], "type": parts[1]})
MESSAGE = st.tuples(st.dictionaries(NAMES, JSON), ROLES, JSON | st.lists(BLOCK, max_size=3)).map(
    lambda parts: {**parts[0], "role": parts[1], "content": parts[2]}
)
ODD = st.tuples(st.dictionaries(NAMES, JSON), TYPES, JSON | MESSAGE).map(
    lambda parts: {**parts[0], "type": parts[1], "message": parts[2]}
)
LINES = ODD.map(json.dumps).map(str.encode) | st.binary() | JSON.map(json.dumps).map(str.encode)


@given(LINES)
def test_reading_a_line_never_raises(payload):
    assert isinstance(pi.read(payload), entries.Entry)
    assert isinstance(pi.headline(payload), Headline)
    pi.claims(payload)


@given(st.lists(LINES, max_size=8), st.booleans(), st.sampled_from([b"", b"\n"]))
def test_any_file_with_a_header_is_exported_byte_identical(lines, final, end):
    data = file(*lines, end=end)
    source = pi.split(data, final=final)
    assert given_back(source) == data
    assert not (final and source.waiting)


STATED = {
    "by the entry": ({"timestamp": "2026-02-01T00:00:01.500Z", "message": {"timestamp": 7}}, 1_769_904_001_500),
    "by the message": ({"message": {"timestamp": 7}}, 7),
    "by neither": ({"message": {"role": "user"}}, None),
    "by nothing that is a time": ({"timestamp": "yesterday", "message": {"timestamp": "soon"}}, None),
}


@pytest.mark.parametrize(("said", "at_ms"), STATED.values(), ids=STATED)
def test_headline_has_the_stated_time(said: dict[str, object], at_ms: int | None) -> None:
    payload = json.dumps({"type": "message", "id": "a", "parentId": None, **said}).encode()
    assert pi.headline(payload).at_ms == at_ms
