"""Tests of compactions of text that gitsession's own entries cannot contain."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from builders import Clock, assert_clean, header, joined

from gitsession.api import Store
from gitsession.codec.cbor import DEPTH_MAX, decode, encode, to_profile
from gitsession.compaction.plan import CompactionRequest
from gitsession.compaction.summarizers.extractive import Extractive
from gitsession.compaction.summary import Summarizer, Summary
from gitsession.compaction.write_summary import SummaryOptions
from gitsession.formats import FORMATS
from gitsession.model.entries import BranchSummary, Compaction

HALF = "half a character: \ud83d, and words. "
DEEP = "[" * (DEPTH_MAX - 2) + "]" * (DEPTH_MAX - 2)

ODD = {"half a character": HALF, "much too large": 10**40, "deep": json.loads(DEEP)}
WORSE = {**ODD, "no number": float("nan"), "infinite": float("-inf")}


class Repeats:
    """A summarizer that returns text that no entry can contain."""

    def summarise(self, *_: object, **__: object) -> Summary:
        return Summary(HALF)


def session_file() -> bytes:
    """Return a session with unusual values in every field, in ASCII."""
    call = {"type": "toolCall", "id": HALF, "name": "read", "arguments": {"path": f"a/{HALF}"}}
    change = {"type": "toolCall", "id": "c2", "name": "edit", "arguments": {"path": f"b/{HALF}"}}
    text = {"type": "text", "text": HALF * 40}
    lines, before = [], None
    for number in range(6):
        roles = {
            "system": [text],
            "user": [{"type": "text", "text": f"Please do {number}, we must keep it. {HALF}"}, text],
            "assistant": [{"type": "text", "text": f"Done {number}. {HALF}"}, text, call, change],
        }
        for role, content in roles.items():
            message = {"role": role, "content": content, **({"odd": ODD} if role == "system" else {})}
            id = f"{number}{role}"
            told = {"type": "message", "id": id, "parentId": before, "timestamp": f"2026-02-01T00:00:{number:02}.000Z"}
            lines.append(json.dumps({**told, "message": message}).encode())
            before = id
    return joined(header("odd"), *lines)


@pytest.mark.parametrize("summarizer", [Extractive(), Repeats()], ids=["extractive", "another"])
@pytest.mark.parametrize("strategy", ["pi", "codex", "opencode", "aider", "up-to", "from"])
def test_odd_text_is_compacted_and_invalid_parts_are_marked(
    tmp_path: Path, strategy: str, summarizer: Summarizer
) -> None:
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        data = session_file()
        session = store.session(store.agents.import_data(FORMATS["pi"], data).session)
        by_entry = strategy in ("up-to", "from")
        ask = (
            CompactionRequest(at=session.resolve("leaf~1"), window=2_000)
            if by_entry
            else CompactionRequest(keep_tokens=500, window=2_000)
        )
        plan = session.compaction.plan(strategy, request=ask)
        assert not plan.nothing
        node = session.compact(plan, SummaryOptions(summarizer=summarizer, focus=HALF), undoable=True)
        assert node is not None
        entry = session.read(node)
        assert isinstance(entry, Compaction | BranchSummary)
        assert "half a character: \ufffd, and" in entry.summary
        assert {path[:2] for path in entry.modified_files} == {"b/"}
        assert session.context().digest
        assert store.export(session.id, original=True).data == data
        assert_clean(store.objects)


@pytest.mark.parametrize("value", WORSE.values(), ids=WORSE)
def test_any_json_value_can_be_encoded(value: object) -> None:
    said = to_profile({"odd": [value], HALF: value, 7: True})
    assert decode(encode(said)) == said
    assert said["7"] is True


def test_halves_that_belong_together_are_one_character() -> None:
    assert to_profile("\ud83d\ude00") == "\U0001f600"


def test_valid_value_is_unchanged() -> None:
    value = {"a": [1, -(2**63), 2**64 - 1, 0.5, True, None, b"x", "ü"], "b": {"c": {}}}
    assert to_profile(value) == value
