"""Tests of omp's session files: the differences from pi's, the title slot, and the types that only omp writes."""

import json

import pytest
from builders import bring, title_of

from gitsession.formats import claimed
from gitsession.formats.pi.agent import omp, pi
from gitsession.model import entries
from gitsession.model.blocks import File, OtherBlock, Text, Thinking
from gitsession.model.entries import Message, UnknownEntry
from gitsession.model.headline import Headline
from gitsession.store.memory import MemoryStore


def timeless(headline: Headline) -> Headline:
    """Return the headline without its time, which has separate tests."""
    return headline.at(None)


HEADER = {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-02-01T00:00:00.000Z", "cwd": "/w"}
AT = "2026-02-01T00:00:01.500Z"
AT_MS = 1_769_904_001_500


def line(**fields):
    return json.dumps(fields, separators=(",", ":")).encode()


def slot(title):
    """Return omp's title slot. It is 256 bytes long, including the line ending."""
    start = line(type="title", v=1, title=title, updatedAt=AT, pad="")
    return start[:-2] + b" " * (255 - len(start)) + start[-2:]


def file(*lines):
    return b"".join(part + b"\n" for part in lines)


def entry(id_, parent, **fields):
    return line(**{"type": "custom", "id": id_, "parentId": parent, "timestamp": AT, "customType": "x", **fields})


CLAIMED = {
    "a title slot": file(slot(""), line(**HEADER)),
    "a title slot after garbage": b"oops\n" + file(slot(""), line(**HEADER)),
    "a title in the header": file(line(**HEADER, title="T")),
    "the title's source": file(line(**HEADER, titleSource="auto")),
    "more directories": file(line(**HEADER, additionalDirectories=[])),
    "earlier files": file(line(**HEADER, previousSessionFiles=[])),
    "a cache key": file(line(**HEADER, providerPromptCacheKey="k")),
}

NOT_CLAIMED = {
    "nothing": b"",
    "pi's header": file(line(**HEADER)),
    "a slot alone": file(slot("")),
    "a title that is no slot": file(line(type="title", title="T"), line(**HEADER)),
    "a slot after the header": file(line(**HEADER), slot("")),
}


@pytest.mark.parametrize("head", CLAIMED.values(), ids=CLAIMED)
def test_a_mark_of_omp_is_claimed(head):
    assert omp.claims(head)
    assert claimed(head) is omp


@pytest.mark.parametrize("head", NOT_CLAIMED.values(), ids=NOT_CLAIMED)
def test_file_without_a_mark_of_omp_is_not_claimed(head):
    assert not omp.claims(head)


def test_file_without_a_mark_of_omp_is_claimed_by_pi():
    assert claimed(file(line(**HEADER))) is pi


def test_title_slot_is_line_0():
    lines = [line(**HEADER), entry("a", None), b"oops", entry("b", "a")]
    without, with_ = omp.split(file(*lines)), omp.split(file(slot("T"), *lines))
    assert with_.records == without.records
    moved = [(each.line + 1, each.what) for each in without.problems]
    assert [(each.line, each.what) for each in with_.problems] == moved
    assert [record.line for record in with_.meta] == [0, 1]
    assert (with_.agent, with_.source_id) == ("omp", "s1")


def test_a_new_title_changes_no_record():
    before = omp.split(file(slot("a"), line(**HEADER), entry("a", None)))
    after = omp.split(file(slot("b"), line(**HEADER), entry("a", None)))
    assert before.records == after.records
    assert before.meta != after.meta


def test_slot_after_the_first_line_is_a_record():
    source = omp.split(file(line(**HEADER), entry("a", None), slot("T")))
    assert [(record.line, record.parent) for record in source.records] == [(2, None), (3, 2)]


def test_problem_has_the_line_number_of_an_editor():
    source = omp.split(file(slot(""), line(**HEADER)) + b'{"ty')
    assert [problem.line for problem in source.problems] == [3]


def test_slot_alone_is_identified_by_the_file_name():
    source = omp.split(file(slot("T")), name="n")
    assert (source.source_id, len(source.meta), source.records) == ("n", 1, ())


def test_the_slot_is_a_title():
    assert omp.read(slot("T")) == entries.Title(at_ms=AT_MS, title="T", extra={"v": 1})
    assert timeless(omp.headline(slot("T"))) == Headline(kind="title", label="title", words="T")


def test_title_of_pi_is_ignored_in_a_file_of_omp():
    """omp reads the title from its slot or its header and ignores the type ``session_info``."""
    named = line(type="session_info", id="a", parentId=None, timestamp=AT, name="of pi")
    assert isinstance(omp.read(named), UnknownEntry)
    store = MemoryStore()
    untitled = bring(store, file(slot(""), line(**HEADER), named), agent="omp").session
    titled = bring(store, file(line(**{**HEADER, "id": "s2"}, title="of omp"), named), agent="omp").session
    assert (title_of(store, untitled), title_of(store, titled)) == (None, "of omp")


def test_the_header_is_a_session_of_omp():
    assert omp.read(line(**HEADER, title="T", parentSession="s0")) == entries.SessionHeader(
        at_ms=1_769_904_000_000, agent="omp", source_id="s1", cwd="/w", title="T", parent="s0", extra={"version": 3}
    )


ENTRIES = {
    "a model": (
        {"type": "model_change", "model": "p/m/1", "role": "small"},
        entries.ModelChange(at_ms=AT_MS, provider="p", model="m/1", role="small"),
        Headline(kind="model_change", label="model", words="p/m/1"),
    ),
    "a model without a provider": (
        {"type": "model_change", "model": "m", "resolvedModelIsFallback": True},
        entries.ModelChange(at_ms=AT_MS, provider="", model="m", extra={"resolvedModelIsFallback": True}),
        Headline(kind="model_change", label="model", words="m"),
    ),
    "no level of thinking": (
        {"type": "thinking_level_change", "thinkingLevel": None, "configured": "auto"},
        entries.ThinkingChange(at_ms=AT_MS, level="off", extra={"configured": "auto"}),
        Headline(kind="thinking_change", label="thinking"),
    ),
    "a compaction": (
        {
            "type": "compaction",
            "summary": "s",
            "firstKeptEntryId": "k",
            "tokensBefore": 61_000,
            "tokensAfter": 8_000,
            "method": "shake",
            "preserveData": {"x": 1},
            "fromExtension": False,
        },
        entries.Compaction(
            at_ms=AT_MS,
            summary="s",
            first_kept="k",
            tokens_before=61_000,
            tokens_after=8_000,
            method="shake",
            preserve={"x": 1},
            extra={"fromExtension": False},
        ),
        Headline(kind="compaction", label="compaction", words="61k -> 8k tokens", body="s"),
    ),
    "a leaf marker": (
        {"type": "branch_summary", "fromId": "f", "summary": "", "details": {"kind": "discarded-entry-branch"}},
        entries.BranchSummary(at_ms=AT_MS, summary="", left="f", extra={"details": {"kind": "discarded-entry-branch"}}),
        Headline(kind="branch_summary", label="branch summary"),
    ),
    "a service tier": (
        {"type": "service_tier_change", "serviceTier": {"openai": "priority"}},
        entries.ModeChange(at_ms=AT_MS, mode="service_tier", data={"openai": "priority"}),
        Headline(kind="mode_change", label="mode", words="service_tier"),
    ),
    "a mode": (
        {"type": "mode_change", "mode": "plan", "data": 1},
        entries.ModeChange(at_ms=AT_MS, mode="plan", data=1),
        Headline(kind="mode_change", label="mode", words="plan"),
    ),
    "rules": (
        {"type": "ttsr_injection", "injectedRules": ["r"]},
        entries.Injection(at_ms=AT_MS, rules=["r"]),
        Headline(kind="injection", label="injection"),
    ),
    "instructions": (
        {"type": "session_init", "systemPrompt": "p", "task": "t", "tools": ["a"], "outputSchema": {}, "spawns": "*"},
        entries.Instructions(
            at_ms=AT_MS, system_prompt="p", task="t", tools=["a"], output_schema={}, extra={"spawns": "*"}
        ),
        Headline(kind="instructions", label="instructions"),
    ),
    "a reset": (
        {"type": "reset_boundary"},
        entries.Reset(at_ms=AT_MS),
        Headline(kind="reset", label="reset"),
    ),
    "a title": (
        {"type": "title_change", "title": "T", "previousTitle": "S", "source": "auto"},
        entries.Title(at_ms=AT_MS, title="T", extra={"previousTitle": "S", "source": "auto"}),
        Headline(kind="title", label="title", words="T"),
    ),
    "usage": (
        {"type": "model_usage", "purpose": "title", "provider": "p", "model": "m", "usage": {"input": 1}, "api": "x"},
        entries.Usage(at_ms=AT_MS, purpose="title", provider="p", model="m", usage={"input": 1}, extra={"api": "x"}),
        Headline(kind="usage", label="usage", words="p/m"),
    ),
}


@pytest.mark.parametrize(("raw", "meant", "said"), ENTRIES.values(), ids=ENTRIES)
def test_entry_of_omp_has_a_view_and_a_headline(raw, meant, said):
    payload = line(id="a", parentId=None, timestamp=AT, **raw)
    assert omp.read(payload) == meant
    assert timeless(omp.headline(payload)) == said


@pytest.mark.parametrize("raw", [{"type": "credential_pin", "provider": "p"}, {"type": "mcp_tool_selection"}])
def test_type_without_a_kind_is_unknown(raw):
    assert omp.read(line(**raw)) == UnknownEntry(name=raw["type"], body=raw)
    assert timeless(omp.headline(line(**raw))) == Headline(kind=raw["type"], label=raw["type"])


MESSAGES = {
    "a developer's": (
        {"role": "developer", "content": [{"type": "text", "text": "x"}]},
        Message(at_ms=AT_MS, role="developer", content=(Text("x"),)),
    ),
    "python": (
        {"role": "pythonExecution", "code": "1+1", "output": "2", "exitCode": 0},
        Message(
            at_ms=AT_MS,
            role="shell",
            command="1+1",
            output="2",
            exit_code=0,
            extra={"role": "pythonExecution"},
        ),
    ),
    "files": (
        {"role": "fileMention", "files": [{"path": "a.py", "content": "x\ud83d"}, {"path": "b"}, {"no": "path"}]},
        Message(
            at_ms=AT_MS,
            role="custom",
            extra={"role": "fileMention"},
            content=(File("a.py", data=b"x\xed\xa0\xbd"), File("b"), OtherBlock({"no": "path"})),
        ),
    ),
    "redacted thinking": (
        {"role": "assistant", "content": [{"type": "redactedThinking", "data": "d"}, {"type": "anthropicServerTool"}]},
        Message(
            at_ms=AT_MS,
            role="assistant",
            content=(Thinking("", "d", True), OtherBlock({"type": "anthropicServerTool"})),
        ),
    ),
    "a picture kept elsewhere": (
        {"role": "user", "content": [{"type": "image", "data": "blob:sha256:" + "0" * 64, "mimeType": "image/png"}]},
        Message(
            at_ms=AT_MS,
            role="user",
            content=(OtherBlock({"type": "image", "data": "blob:sha256:" + "0" * 64, "mimeType": "image/png"}),),
        ),
    ),
}


@pytest.mark.parametrize(("raw", "meant"), MESSAGES.values(), ids=MESSAGES)
def test_a_message_of_omp_is_read(raw, meant):
    assert omp.read(line(type="message", id="a", parentId=None, timestamp=AT, message=raw)) == meant
