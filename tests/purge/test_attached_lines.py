"""Tests of purged text in the lines attached to a message, and of the rest of the record."""

from __future__ import annotations

import json

import pytest

from gitsession.codec import holes
from gitsession.purge import attached_lines, finding

TEXT = 'the "word"'


def record(*lines: object) -> bytes:
    return b"\n".join(each if isinstance(each, bytes) else json.dumps(each).encode() for each in lines)


def without(payload: bytes, form: str = "jsonl", text: str = TEXT) -> bytes | None:
    spelled = finding.spellings(text)
    found = attached_lines.redact_attached(form, payload, text, lambda data: finding.contains_text(data, text, spelled))
    if found is None:
        return None
    whole = found.full_payload()
    rows = holes.hidden(found.stored.holes)
    assert rows
    assert {whole[row.offset : row.offset + row.length] for row in rows} == {b"[redacted:purged]"}
    assert holes.holds_purged(found.stored.holes)
    return whole


OWN = {"type": "said", "text": "Yes"}
MARK = "[redacted:purged]"


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_the_text_is_cut_out_at_every_depth_of_json(depth: int) -> None:
    said, left = f"a {TEXT} b {TEXT}", f"a {MARK} b {MARK}"
    for _ in range(depth):
        said, left = json.dumps({"out": said}), json.dumps({"out": left})
    before = record({"type": "event", "message": said}, {"type": "count", "of": 1}, OWN)
    assert without(before) == record({"type": "event", "message": left}, {"type": "count", "of": 1}, OWN)


WHOLE = {
    "its own line says it": record({"message": TEXT}, {**OWN, "text": TEXT}),
    "no line rides": record({**OWN, "text": TEXT}),
    "a kind says it": record({"type": TEXT}, OWN),
    "a key says it": record({TEXT: 1}, OWN),
    "a riding line is no JSON": record(TEXT.encode(), OWN),
}


@pytest.mark.parametrize("payload", WHOLE.values(), ids=WHOLE)
def test_whole_record_is_purged(payload: bytes) -> None:
    assert without(payload) is None


def test_text_of_several_lines_is_not_a_record_of_lines() -> None:
    assert without(record({"message": TEXT}, OWN), form="md") is None
