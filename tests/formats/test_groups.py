"""Tests of lines that are grouped with the next line: no line is lost, and later lines do not change a group."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from gitsession.formats.base.jsonl import LF, Object, attached_lines, group, record_line

NOISE = b'{"type":"noise"}'
WORDS = b'{"type":"words"}'
BROKEN = b'{"type":'

lines = st.lists(st.sampled_from([NOISE, WORDS, BROKEN, b"", b"[1]"]))


def is_noise(said: Object) -> bool:
    return said["type"] == "noise"


def grouped(of: list[bytes]) -> tuple[list[bytes], bytes | None]:
    groups, tail = group(of, 0, is_noise)
    return [found.payload for found in groups], tail


@given(lines)
def test_records_and_tail_joined_are_the_file(of: list[bytes]) -> None:
    payloads, tail = grouped(of)
    assert LF.join([*payloads, *([] if tail is None else [tail])]) == LF.join(of)


@given(lines, lines)
def test_a_file_that_grows_keeps_its_records(of: list[bytes], more: list[bytes]) -> None:
    before, _ = grouped(of)
    after, _ = grouped([*of, *more])
    assert after[: len(before)] == before


def test_grouped_lines_come_before_the_entry_line() -> None:
    (found,), tail = group([WORDS] * 4 + [NOISE, NOISE, WORDS, NOISE], 4, is_noise)
    assert (found.line, record_line(found.payload), attached_lines(found.payload)) == (7, WORDS, [NOISE, NOISE])
    assert found.parsed == json.loads(WORDS)
    assert tail == NOISE


def test_invalid_line_is_an_entry() -> None:
    payloads, tail = grouped([NOISE, BROKEN, NOISE])
    assert payloads == [NOISE + LF + BROKEN]
    assert tail == NOISE
