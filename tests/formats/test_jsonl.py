"""Tests of splitting and parsing lines: only LF ends a line, and no bytes raise an exception."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitsession.formats.base.jsonl import DEPTH_MAX, LineFailure, parse, split_lines


@pytest.mark.parametrize(
    ("data", "lines", "tail"),
    [
        (b"", [], b""),
        (b"a", [], b"a"),
        (b"a\n", [b"a"], b""),
        (b"a\n\nb", [b"a", b""], b"b"),
        (b"a\r\nb\r\n", [b"a\r", b"b\r"], b""),
        (b"a\rb\n", [b"a\rb"], b""),
        ("a\u2028b\u0085c\x0b\x0c\x1ed\n".encode(), ["a\u2028b\u0085c\x0b\x0c\x1ed".encode()], b""),
    ],
    ids=["nothing", "no line end", "one line", "a blank line", "CRLF", "CR alone", "other line ends of Unicode"],
)
def test_only_line_feeds_end_lines(data, lines, tail):
    assert split_lines(data, final=False) == (lines, tail, True)


@given(st.binary())
def test_lines_and_tail_join_to_the_same_bytes(data):
    lines, tail, ends_with_newline = split_lines(data, final=False)
    joined = b"".join(line + b"\n" for line in lines)
    assert (joined if ends_with_newline else joined[:-1]) + tail == data


UNPARSABLE = {
    "cut off": (b'{"type":"mess', "not JSON"),
    "two objects": (b'{"a":1}{"b":2}', "not JSON"),
    "a NUL": (b'{"a":"\x00"}', "not JSON"),
    "NaN": (b'{"a":NaN}', "not JSON: NaN is not a number"),
    "infinity": (b'{"a":[-Infinity]}', "not JSON: -Infinity is not a number"),
    "single quotes": (b"{'a':1}", "not JSON"),
    "latin-1": (b'{"a":"\xe9"}', "not UTF-8: byte 7"),
    "a surrogate as bytes": (b'{"a":"\xed\xa0\xbd"}', "not UTF-8: byte 7"),
    "null": (b"null", "not an object"),
    "a number": (b"5", "not an object"),
    "a list": (b"[1]", "not an object"),
    "a string": (b'"session"', "not an object"),
    "deep lists": (b"[" * 100_000, "nested deeper than 200 levels"),
    "deep objects": (b'{"a":' * 100_000, "nested deeper than 200 levels"),
    "one level too many": (b'{"a":' + b"[" * DEPTH_MAX + b"]" * DEPTH_MAX + b"}", "nested deeper than 200 levels"),
    "deep after an unclosed quote": (b'"' + b"\\" * 99 + b"{" * 300, "not JSON"),
}


@pytest.mark.parametrize(("line", "reason"), UNPARSABLE.values(), ids=UNPARSABLE)
def test_invalid_line_has_a_reason(line, reason):
    found = parse(line)
    assert isinstance(found, LineFailure)
    assert found.reason.startswith(reason)


@pytest.mark.parametrize("line", [b"", b"  ", b"\r", b"\t\r", b"\xef\xbb\xbf"])
def test_blank_line_has_no_reason(line):
    assert parse(line) == LineFailure("")


PARSABLE = {
    "a byte order mark": (b'\xef\xbb\xbf{"a":1}', {"a": 1}),
    "a CR at the end": (b'{"a":1}\r', {"a": 1}),
    "spaces around": (b' {"a":1} ', {"a": 1}),
    "a lone surrogate": (b'{"a":"\\ud83d"}', {"a": "\ud83d"}),
    "a key twice": (b'{"a":1,"a":2}', {"a": 2}),
    "a line separator inside": ('{"a":"x\u2028y"}'.encode(), {"a": "x\u2028y"}),
    "a float beyond range": (b'{"a":1e400}', {"a": float("inf")}),
    "the deepest": (b'{"a":' + b"[" * 199 + b"]" * 199 + b"}", {"a": json.loads("[" * 199 + "]" * 199)}),
    "many brackets side by side": (b'{"a":[' + b"[]," * 500 + b"1]}", {"a": [[]] * 500 + [1]}),
    "brackets in a string": (b'{"a":"' + b"[{" * 500 + b'"}', {"a": "[{" * 500}),
    "brackets after an escaped quote": (b'{"a":"\\"' + b"[" * 500 + b'\\\\"}', {"a": '"' + "[" * 500 + "\\"}),
}


@pytest.mark.parametrize(("line", "value"), PARSABLE.values(), ids=PARSABLE)
def test_an_object_is_read(line, value):
    assert parse(line) == value


def test_an_integer_of_thousands_of_digits_becomes_a_float():
    assert parse(b'{"n":' + b"9" * 5000 + b',"m":1}') == {"n": float("inf"), "m": 1.0}


def test_a_million_quotes_are_read_in_one_pass():
    line = b"[" * 300 + b'\\"' * 1_000_000
    assert isinstance(parse(line), LineFailure)


@given(st.binary() | st.text(alphabet='[]{}",:\\0aN').map(str.encode))
def test_no_bytes_raise(line):
    assert isinstance(parse(line), dict | LineFailure)


@given(st.dictionaries(st.text(), st.recursive(st.none() | st.integers() | st.text(), st.lists)))
def test_any_json_value_is_read(value):
    assert parse(json.dumps(value).encode()) == value
