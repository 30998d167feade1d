"""Tests of payloads: everything that is written can be read, and data that could not be read is not written."""

from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import BLOCK_TYPES, ENTRIES, INTEGERS, NONCES, PLAIN, TEXT, fields_of, maps_of

from gitsession.codec import cbor, holes
from gitsession.codec.payload import PAYLOAD_BYTES_MAX, decode, encode, headline, spans
from gitsession.errors import Malformed
from gitsession.model.blocks import File, Image, OtherBlock, Text, Thinking, ToolCall, text
from gitsession.model.entries import (
    KINDS,
    ROLES,
    Attachment,
    BranchSummary,
    Checkpoint,
    Compaction,
    ContextEdit,
    Custom,
    CustomMessage,
    Entry,
    Fork,
    Instructions,
    Label,
    Message,
    ModelChange,
    Opaque,
    SessionHeader,
    SourceFile,
    Todo,
    TodoItem,
    ToolsChange,
    UnknownEntry,
)

NONCE = bytes(range(16))
PNG = b"\x89PNG\r\n\x1a\n"


def raw(kind="message", body=None, **fields):
    plain = {"v": 1, "kind": kind, "at": 3, "body": {"role": "user"} if body is None else body, "nonce": NONCE}
    return cbor.encode({**plain, **fields})


def body_of(entry):
    return cbor.decode(encode(entry, NONCE))["body"]


# Round trips


@given(ENTRIES, NONCES)
def test_any_entry_of_any_kind_is_decoded_again(entry, nonce):
    assert decode(encode(entry, nonce)) == (entry, nonce)


@given(ENTRIES)
def test_an_entry_that_was_read_is_written_with_the_same_bytes_and_the_same_words(entry):
    written = encode(entry, NONCE)
    again, nonce = decode(written)
    assert encode(again, nonce) == written
    assert headline(again) == headline(entry)
    assert spans(again, written) == spans(entry, written)


@given(TEXT.filter(lambda name: name not in KINDS), PLAIN, INTEGERS, NONCES)
def test_kind_of_a_later_version_is_kept_byte_for_byte(name, body, at, nonce):
    later = cbor.encode({"v": 1, "kind": name, "at": at, "body": body, "nonce": nonce})
    assert decode(later) == (UnknownEntry(name=name, body=body, at_ms=at), nonce)
    assert encode(*decode(later)) == later


@given(st.sampled_from(sorted(KINDS)) | TEXT, PLAIN, st.integers(2, 2**64 - 1))
def test_later_version_of_the_format_is_kept_byte_for_byte(name, body, version):
    later = cbor.encode({"v": version, "kind": name, "at": 3, "body": body, "nonce": NONCE})
    entry, nonce = decode(later)
    assert entry == UnknownEntry(name=name, body=body, at_ms=3, version=version)
    assert encode(entry, nonce) == later


@given(maps_of(PLAIN))
def test_unknown_fields_are_kept_byte_for_byte(later):
    fields = {name: item for name, item in later.items() if name not in fields_of(Label)}
    payload = raw("label", {"target": "abc", "label": "x"} | fields)
    entry, nonce = decode(payload)
    assert entry == Label(target="abc", label="x", at_ms=3, extra=fields)
    assert encode(entry, nonce) == payload


@given(maps_of(PLAIN).filter(lambda block: block.get("type") not in BLOCK_TYPES) | st.none() | INTEGERS | TEXT)
def test_unknown_blocks_are_kept_byte_for_byte(block):
    payload = raw(body={"role": "user", "content": [{"type": "text", "text": "a"}, block]})
    entry, nonce = decode(payload)
    assert entry.content == (Text("a"), OtherBlock(block))
    assert encode(entry, nonce) == payload


UNKNOWN_BLOCKS = {
    "a known block with a field of a later version": {"type": "text", "text": "a", "tone": "calm"},
    "a known block with a field we would not take and one of a later version": {"type": "text", "text": 5, "x": 1},
    "a type that is a list": {"type": ["text"]},
    "a type that is a map": {"type": {"text": "a"}},
    "a type that is a number": {"type": 5},
    "a type that is null": {"type": None},
    "no type": {"text": "a"},
    "the type named other": {"type": "other", "value": 5},
    "a list": ["text"],
}


@pytest.mark.parametrize("block", UNKNOWN_BLOCKS.values(), ids=UNKNOWN_BLOCKS)
def test_unknown_block_is_kept(block):
    payload = raw(body={"role": "user", "content": [block]})
    entry, nonce = decode(payload)
    assert entry.content == (OtherBlock(block),)
    assert encode(entry, nonce) == payload


def test_an_entry_written_with_other_lists_and_maps_is_the_same_entry():
    arguments = MappingProxyType({"paths": ("a", "b")})
    loose = Message(role="assistant", content=[ToolCall("1", "read", arguments)], usage=MappingProxyType({"input": 1}))
    plain = Message(role="assistant", content=(ToolCall("1", "read", {"paths": ["a", "b"]}),), usage={"input": 1})
    assert encode(loose, NONCE) == encode(plain, NONCE)
    assert decode(encode(loose, NONCE))[0] == plain


def test_blocks_are_valid_in_any_field():
    entry = ContextEdit(target="abc", replacement=(text("short"), OtherBlock({"type": "later"})))
    assert body_of(entry)["replacement"] == [{"type": "text", "text": "short"}, {"type": "later"}]


DEFAULTS = {
    "an empty tuple": Message(role="user", content=()),
    "an empty list": Message(role="user", content=[]),
    "false": Message(role="user", is_error=False),
    "null": Message(role="user", details=None),
}


@pytest.mark.parametrize("entry", DEFAULTS.values(), ids=DEFAULTS)
def test_a_field_equal_to_its_default_is_left_out(entry):
    assert body_of(entry) == {"role": "user"}


def test_default_text_or_map_is_left_out_too():
    role = "".join(["def", "ault"])  # equal, but another object
    assert body_of(ModelChange(provider="a", model="b", role=role)) == {"provider": "a", "model": "b"}
    assert body_of(Fork(session="s", agent="a", labels={})) == {"session": "s", "agent": "a"}
    assert body_of(SourceFile(ends_with_newline=True)) == {}
    assert body_of(CustomMessage(custom_type="c", display=True)) == {"custom_type": "c"}


def test_value_that_resembles_a_default_is_written():
    assert body_of(Custom(custom_type="c", data=0)) == {"custom_type": "c", "data": 0}
    assert body_of(Message(role="user", details=False, error="", usage={})) == {
        "role": "user",
        "usage": {},
        "error": "",
        "details": False,
    }


def test_fields_are_in_the_order_of_the_page():
    call = ToolCall("1", "bash", {"b": 1, "a": 2}, "sig")
    entry = Message(details=1, role="assistant", model="m", provider="p", content=(Thinking("t", "s", True), call))
    assert list(body_of(entry)) == ["role", "content", "provider", "model", "details"]
    assert [list(block) for block in body_of(entry)["content"]] == [
        ["type", "text", "signature", "redacted"],
        ["type", "id", "name", "arguments", "signature"],
    ]
    assert list(body_of(entry)["content"][1]["arguments"]) == ["b", "a"]


# Rejected input


WRONG_FIELDS = {
    "message.role": (Message, {"role": 7}),
    "message.usage": (Message, {"role": "user", "usage": "7"}),
    "message.content": (Message, {"role": "user", "content": "hi"}),
    "message.is_error": (Message, {"role": "user", "is_error": 0}),
    "message.exit_code": (Message, {"role": "user", "exit_code": 1.0}),
    "message.command": (Message, {"role": "user", "command": b"ls"}),
    "session.view": (SessionHeader, {"agent": "a", "view": True}),
    "session.agent": (SessionHeader, {"agent": None}),
    "tools_change.tools": (ToolsChange, {"tools": "bash"}),
    "tools_change.tools[1]": (ToolsChange, {"tools": ["bash", 5]}),
    "checkpoint.skipped[0]": (Checkpoint, {"mode": "m", "skipped": [None]}),
    "checkpoint.skipped[1]": (Checkpoint, {"mode": "m", "skipped": [["a", "b"], ["a", 1]]}),
    "checkpoint.paths[0]": (Checkpoint, {"mode": "m", "paths": [["a"]]}),
    "fork.labels": (Fork, {"session": "s", "agent": "a", "labels": []}),
    "fork.labels.abc": (Fork, {"session": "s", "agent": "a", "labels": {"abc": 5}}),
    "compaction.tokens_before": (Compaction, {"summary": "s", "tokens_before": True}),
    "attachment.data": (Attachment, {"name": "n", "data": "text"}),
    "custom_message.display": (CustomMessage, {"custom_type": "c", "display": 1}),
    "source_file.superseded[0]": (SourceFile, {"superseded": [b"1:abc"]}),
}


@pytest.mark.parametrize("where", WRONG_FIELDS)
def test_field_of_the_wrong_type_is_rejected_with_its_path(where):
    kind, body = WRONG_FIELDS[where]
    with pytest.raises(Malformed) as read:
        decode(raw(kind.kind, body))
    with pytest.raises(Malformed) as written:
        encode(kind(**body), NONCE)
    assert read.value.where == written.value.where == where


WRONG_BLOCKS = {
    "message.content[0].text": {"type": "text", "text": 5},
    "message.content[0].signature": {"type": "text", "text": "a", "signature": 5},
    "message.content[0].redacted": {"type": "thinking", "text": "a", "redacted": 0},
    "message.content[0].arguments": {"type": "tool_call", "id": "1", "name": "n", "arguments": []},
    "message.content[0].name": {"type": "tool_call", "id": "1"},
    "message.content[0].data": {"type": "image", "data": "text", "mime": "image/png"},
    "message.content[0].mime": {"type": "image", "data": b""},
    "message.content[0].url": {"type": "file", "name": "n", "url": 5},
}


@pytest.mark.parametrize("where", WRONG_BLOCKS)
def test_a_block_with_a_field_of_the_wrong_type_names_its_way(where):
    block = WRONG_BLOCKS[where]
    with pytest.raises(Malformed) as read:
        decode(raw(body={"role": "user", "content": [block]}))
    with pytest.raises(Malformed) as written:
        encode(Message(role="user", content=(OtherBlock(block),)), NONCE)
    assert read.value.where == written.value.where == where


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_field_that_must_be_there_is_missed_by_its_way(kind):
    try:
        kind()
    except TypeError:
        with pytest.raises(Malformed, match=f"^{kind.kind}[.][a-z_]+: the field is missing$"):
            decode(raw(kind.kind, {}))
    else:
        assert decode(raw(kind.kind, {})) == (kind(at_ms=3), NONCE)


MALFORMED = {
    "nothing": b"",
    "no map": cbor.encode([1, "message", 3, {}, NONCE]),
    "no nonce": cbor.encode({"v": 1, "kind": "message", "at": 3, "body": {}}),
    "another order": cbor.encode({"kind": "message", "v": 1, "at": 3, "body": {}, "nonce": NONCE}),
    "one field more": cbor.encode({"v": 1, "kind": "reset", "at": 3, "body": {}, "nonce": NONCE, "more": 1}),
    "a version that is true": raw(v=True),
    "a version that is a float": raw(v=1.0),
    "a version that is text": raw(v="1"),
    "a version that is null": raw(v=None),
    "version 0": raw(v=0),
    "version -1": raw(v=-1),
    "a kind that is a number": raw(kind=5),
    "a kind that is a list": raw(kind=["message"]),
    "a time that is text": raw(at="3"),
    "a time that is a float": raw(at=3.0),
    "a time that is true": raw(at=True),
    "a body that is a list": raw(body=[]),
    "a body that is null": raw("reset", 0),
    "a short nonce": raw(nonce=NONCE[:15]),
    "a long nonce": raw(nonce=NONCE + b"\0"),
    "a nonce that is text": raw(nonce="0" * 16),
    "a role that nobody has": raw(body={"role": "wizard"}),
    "a todo item that is text": raw("todo", {"items": ["mend it"]}),
    "a todo item without text": raw("todo", {"items": [{"status": "pending"}]}),
    "a todo item with an unknown status": raw("todo", {"items": [{"text": "mend it", "status": "done"}]}),
    "trailing bytes": raw() + b"\0",
    "the payload of an agent": b'{"type":"message"}',
}


@pytest.mark.parametrize("payload", MALFORMED.values(), ids=MALFORMED)
def test_malformed_payload_is_rejected(payload):
    with pytest.raises(Malformed):
        decode(payload)


def lists(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


def endless():
    value = {}
    value["again"] = value
    return value


NOT_WRITTEN = {
    "a role that nobody has": Message(role="wizard"),
    "a map as a todo item": Todo(items=({"text": "mend it"},)),
    "a todo item with an unknown status": Todo(items=(TodoItem("mend it", "done"),)),
    "a todo item with a number as its text": Todo(items=(TodoItem(7),)),
    "a todo item with a known field as extra": Todo(items=(TodoItem("mend it", extra={"id": "1"}),)),
    "a time that is text": Message(role="user", at_ms="3"),
    "a time that is a float": Message(role="user", at_ms=3.5),
    "a time that is true": Message(role="user", at_ms=True),
    "a time out of range": Message(role="user", at_ms=2**64),
    "content that is text": Message(role="user", content="hi"),
    "content that is a map": Message(role="user", content={"type": "text"}),
    "text as a block": Message(role="user", content=("hi",)),
    "a map as a block": Message(role="user", content=({"type": "text", "text": "hi"},)),
    "a block we know, dressed up as one we do not": Message(
        role="user", content=(OtherBlock({"type": "text", "text": "a"}),)
    ),
    "an extra field with the name of one that is set": Message(role="user", error="a", extra={"error": "b"}),
    "an extra field with the name of one that is not set": Message(role="user", extra={"model": "b"}),
    "an extra field whose name is a number": Message(role="user", extra={5: "b"}),
    "a lone surrogate": Message.user("\ud800"),
    "a lone surrogate in a name": Custom(custom_type="c", data={"\ud800": 1}),
    "a lone surrogate as kind": UnknownEntry(name="\ud800"),
    "NaN": Custom(custom_type="c", data=[float("nan")]),
    "a set": Custom(custom_type="c", data={1, 2}),
    "too many levels": Custom(custom_type="c", data=lists(63)),
    "very many levels": Custom(custom_type="c", data=lists(100_000)),
    "what holds itself": Custom(custom_type="c", data=endless()),
    "an entry of no kind": Entry(),
    "bytes of an agent's file": Opaque(payload=b"x"),
    "an unknown entry of a kind we know": UnknownEntry(name="message", body={"role": "user"}),
    "an unknown entry with fields beside its body": UnknownEntry(name="telepathy", extra={"wave": 7}),
    "an unknown entry whose name is bytes": UnknownEntry(name=b"telepathy"),
    "an unknown entry of our version": UnknownEntry(name="telepathy", version=1),
    "an unknown entry of version 0": UnknownEntry(name="telepathy", version=0),
    "an unknown entry of a version that is true": UnknownEntry(name="telepathy", version=True),
}


@pytest.mark.parametrize("entry", NOT_WRITTEN.values(), ids=NOT_WRITTEN)
def test_unreadable_entry_is_not_written(entry):
    with pytest.raises(Malformed):
        encode(entry, NONCE)


def test_entry_of_an_unknown_class_is_not_written():
    class Shout(Message):
        @property
        def text(self):
            return "LOUD"

    with pytest.raises(Malformed, match="Shout"):
        encode(Shout(role="user"), NONCE)


@pytest.mark.parametrize("nonce", [b"", bytes(15), bytes(17), "0" * 16, bytearray(16), None])
def test_nonce_of_another_length_is_rejected(nonce):
    with pytest.raises(Malformed, match="nonce"):
        encode(Message(role="user"), nonce)


def test_the_deepest_data_an_entry_may_carry_passes():
    deepest = Custom(custom_type="c", data=lists(61))
    assert decode(encode(deepest, NONCE))[0] == deepest


def test_a_payload_is_at_most_16_mib():
    empty = len(encode(Attachment(name="n", data=bytes(100_000)), NONCE)) - 100_000
    largest = Attachment(name="n", data=bytes(PAYLOAD_BYTES_MAX - empty))
    written = encode(largest, NONCE)
    assert len(written) == PAYLOAD_BYTES_MAX
    assert decode(written)[0] == largest
    with pytest.raises(Malformed, match="16,777,216"):
        encode(Attachment(name="n", data=bytes(PAYLOAD_BYTES_MAX - empty + 1)), NONCE)
    with pytest.raises(Malformed, match="16,777,216"):
        decode(written + b"\0")


@pytest.mark.parametrize("role", ROLES)
def test_every_role_passes(role):
    assert decode(encode(Message(role=role), NONCE))[0].role == role


# Holes in gitsession's own payloads


def lifted(entry):
    written = encode(entry, NONCE)
    stored = holes.cut(written, spans(entry, written))
    contents = {digest: content for digest, _, content in stored.lifted}
    assert holes.fill(stored.payload, stored.holes, lambda digest, _: contents[digest]) == written
    return [(encoding, content) for _, encoding, content in stored.lifted]


def image(length, head=PNG):
    return head + bytes(length - len(head))


LIFTED = {
    "an image of 1,024 bytes": (Message.user([Image(image(1_024), "image/png")]), [("raw", image(1_024))]),
    "an image of 1,023 bytes": (Message.user([Image(image(1_023), "image/png")]), []),
    "an image of 70,000 bytes": (Message.user([Image(image(70_000), "image/png")]), [("raw", image(70_000))]),
    "a JPEG": (Message.user([File("a", data=image(1_024, b"\xff\xd8\xff"))]), [("raw", image(1_024, b"\xff\xd8\xff"))]),
    "an image by its mime only": (Message.user([Image(bytes(1_024), "image/png")]), []),
    "an image deep in the details": (
        Message(role="tool", details={"a": [{"b": image(2_000)}]}),
        [("raw", image(2_000))],
    ),
    "text that begins like an image": (Message.user("BM\0\0\0\0\0\0\0\0" + "a" * 2_000), []),
    "text of 65,535 bytes": (Message.user("a" * 65_535), []),
    "text of 65,536 bytes": (Message.user("a" * 65_536), [("raw", b"a" * 65_536)]),
    "text of 65,536 bytes in fewer characters": (Message.user("é" * 32_768), [("raw", "é".encode() * 32_768)]),
    "bytes of 65,535 bytes": (Attachment(name="n", data=bytes(65_535)), []),
    "bytes of 65,536 bytes": (Attachment(name="n", data=bytes(65_536)), [("raw", bytes(65_536))]),
    "a key of 65,536 bytes": (Custom(custom_type="c", data={"k" * 65_536: 1}), []),
    "a key and a value that are the same": (
        Custom(custom_type="c", data={"k" * 65_536: "k" * 65_536}),
        [("raw", b"k" * 65_536)],
    ),
    "a kind of 65,536 bytes": (UnknownEntry(name="k" * 65_536), []),
    "two images, in order": (
        Message.user([Image(image(1_024) + b"1", "a"), text("x"), Image(image(1_024) + b"2", "a")]),
        [("raw", image(1_024) + b"1"), ("raw", image(1_024) + b"2")],
    ),
    "one image twice": (
        Message.user([Image(image(1_024), "a"), Image(image(1_024), "a")]),
        [("raw", image(1_024)), ("raw", image(1_024))],
    ),
    "a field of a later version": (Label(target="t", extra={"x": "a" * 65_536}), [("raw", b"a" * 65_536)]),
    "a body we do not know": (UnknownEntry(name="later", body=image(1_024)), [("raw", image(1_024))]),
    "a summary": (Compaction(summary="We did it."), [("summary", b"We did it.")]),
    "a summary of one letter": (BranchSummary(summary="a"), [("summary", b"a")]),
    "a summary that is the name of its field": (Compaction(summary="summary"), [("summary", b"summary")]),
    "a summary that is empty": (Compaction(summary=""), []),
    "a long summary": (Compaction(summary="a" * 70_000), [("summary", b"a" * 70_000)]),
    "a summary of a later version": (UnknownEntry(name="compaction", body={"summary": "a"}, version=2), []),
    "a summary that is no summary": (Instructions(task="a", extra={"summary": "a"}), []),
    "a summary further in": (Compaction(summary="a", preserve={"summary": "b"}), [("summary", b"a")]),
}


@pytest.mark.parametrize(("entry", "expected"), LIFTED.values(), ids=LIFTED)
def test_holes_of_a_payload_match_the_page(entry, expected):
    assert lifted(entry) == expected


PLACED = {
    "a summary that stands in the name of its kind": (Compaction(summary="compaction"), "summary"),
    "a summary of one letter": (Compaction(summary="a"), "summary"),
    "a value that stands before as a key": (Custom(custom_type="c", data={"k" * 65_536: "k" * 65_536}), "k" * 65_536),
}


@pytest.mark.parametrize(("entry", "key"), PLACED.values(), ids=PLACED)
def test_hole_is_after_the_head_of_its_string(entry, key):
    written = encode(entry, NONCE)
    (span,) = spans(entry, written)
    content = written[span.start : span.end].decode()
    whole = cbor.encode(key) + cbor.encode(content)
    assert written[: span.end].endswith(whole)
    assert written.index(whole) + len(whole) == span.end


def test_image_inside_of_other_bytes_is_not_cut_out():
    hidden = Custom(custom_type="c", data={"a": b"x" + image(1_024), "b": image(1_024)})
    written = encode(hidden, NONCE)
    (span,) = spans(hidden, written)
    assert written[: span.start].endswith(cbor.encode("b") + b"\x59\x04\x00")


def test_holes_do_not_depend_on_python_object_identity():
    words = "the same words"
    entry = Compaction(summary=words, instructions=words)
    written = encode(entry, NONCE)
    assert spans(entry, written) == spans(decode(written)[0], written)
    assert [encoding for encoding, _ in lifted(entry)] == ["summary"]
