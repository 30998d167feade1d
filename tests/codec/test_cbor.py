"""Tests of the CBOR profile: one encoding for each value, and a documented error for anything else."""

import random

import cbor2
import pytest
from figures import figure
from hypothesis import given
from hypothesis import strategies as st
from mutation import mutant
from strategies import PLAIN

from gitsession.codec.cbor import DEPTH_MAX, INT_MAX, INT_MIN, decode, encode, strings
from gitsession.errors import Malformed


def nested(levels, opener=b"\x81", inside=b"\xf6"):
    return opener * levels + inside


def lists(levels, inside=None):
    value = inside
    for _ in range(levels):
        value = [value]
    return value


@given(PLAIN)
def test_encoded_value_is_decoded_again(value):
    found = decode(encode(value))
    assert found == value
    assert repr(found) == repr(value)  # 1 is neither 1.0 nor True; order is kept


@given(st.binary(max_size=60))
def test_bytes_are_rejected_or_the_only_encoding_of_their_value(data):
    try:
        value = decode(data)
    except Malformed:
        return
    assert encode(value) == data


EXACT = {
    "the smallest integer": (INT_MIN, "3b7fffffffffffffff"),
    "the largest integer": (INT_MAX, "1bffffffffffffffff"),
    "an integer takes no more room than it needs": (24, "1818"),
    "a float has 64 bits": (1.5, "fb3ff8000000000000"),
    "minus zero is a float": (-0.0, "fb8000000000000000"),
    "order is kept": ({"b": 1, "a": 2}, "a2616201616102"),
    "order does not go by length": ({"bb": 1, "a": 2}, "a262626201616102"),
    "an empty key": ({"": None}, "a160f6"),
    "bytes are no text": (b"a", "4161"),
    "true": (True, "f5"),
}


@pytest.mark.parametrize(("value", "expected"), EXACT.values(), ids=EXACT)
def test_the_encoding_is_exact(value, expected):
    assert encode(value).hex() == expected
    assert repr(decode(bytes.fromhex(expected))) == repr(value)


HOSTILE = {
    "nothing": "",
    "only a head": "19",
    "trailing bytes": "0000",
    "a trailing break": "00ff",
    "a break alone": "ff",
    "reserved length 28": "1c",
    "reserved length 30 of text": "7e",
    "a wide integer": "1801",
    "a wider integer": "1900ff",
    "the widest integer": "1b0000000000000001",
    "a wide negative integer": "380f",
    "an integer below 64 bits": "3b8000000000000000",
    "a wide length of text": "780161" + "61",
    "a wide length of a list": "980100",
    "a wide length of a map": "b801616100",
    "a half float": "f93e00",
    "a short float": "fa3fc00000",
    "NaN": "fb7ff8000000000000",
    "another NaN": "fb7ff8000000000001",
    "a half NaN": "f97e00",
    "infinity": "fb7ff0000000000000",
    "minus infinity": "fbfff0000000000000",
    "undefined": "f7",
    "a simple value": "e0",
    "a simple value in two bytes": "f8ff",
    "a simple value that hides true": "f815",
    "text without an end": "7f6161ff",
    "bytes without an end": "5f4161ff",
    "a list without an end": "9f00ff",
    "a map without an end": "bf616100ff",
    "a list that never ends": "9f",
    "a map with half an entry": "a16161",
    "a map that ends in a break": "bf6161ff",
    "bytes as a key": "a1416100",
    "an integer as a key": "a10000",
    "null as a key": "a1f600",
    "a list as a key": "a18000",
    "a map as a key": "a1a000",
    "a float as a key": "a1fb000000000000000000",
    "a key twice": "a2616101616102",
    "a key twice with the same value": "a2616101616101",
    "a key twice, further in": "81a2616101616101",
    "text that is no UTF-8": "61ff",
    "text with a lone surrogate": "63eda080",
    "text with an overlong slash": "62c0af",
    "a key that is no UTF-8": "a161ff00",
    "text of 2^62 bytes": "7b4000000000000000",
    "bytes of 2^64-1 bytes": "5bffffffffffffffff",
    "a list of 2^62 items": "9b4000000000000000",
    "a list of 2^32-1 items": "9affffffff" + "00" * 8,
    "a map of 2^62 items": "bb4000000000000000",
    "a map of 2^64-1 items": "bbffffffffffffffff" + "616100",
    "text one byte short": "626100"[:-2],
    "a bignum": "c249010000000000000000",
    "a bignum that fits": "c24101",
    "a negative bignum": "c349010000000000000000",
    "a bignum of a million bytes": "c25a000f4240" + "ff" * 1_000_000,
    "a decimal of a thousand million digits": "c4821a3b9aca0001",
    "a big float": "c5822003",
    "a date": "c074323031332d30332d32315432303a30343a30305a",
    "a time": "c11a514b67b0",
    "a time that is NaN": "c1fb7ff8000000000000",
    "a rational number over zero": "d81e820100",
    "an e-mail": "d8247841" + "41" * 65,
    "a regular expression": "d823" + "6a" + b"(a+)+$(a+)".hex(),
    "a regular expression that does not compile": "d8236128",
    "a UUID": "d82550" + "00" * 16,
    "an IP network": "d9010544c0a80001",
    "a set": "d9010280",
    "a string table": "d9010080",
    "a reference to a string": "d81900",
    "a value to share": "d81c80",
    "a list that holds itself": "d81c81d81d00",
    "a reference to nothing": "d81d00",
    "a complex number": "d9a7f8820102",
    "the tag that says CBOR": "d9d9f700",
    "an unregistered tag": "d9fffe00",
    "the largest tag": "dbffffffffffffffff00",
    "a tag as a key": "a1c0616100",
    "a tag without content": "c0",
    "tags on tags": "c6" * 200 + "00",
    "tags on tags, very many": "c6" * 100_000 + "00",
    "one list too deep": nested(DEPTH_MAX + 1).hex(),
    "one list too deep, empty": nested(DEPTH_MAX, inside=b"\x80").hex(),
    "one map too deep": nested(DEPTH_MAX + 1, b"\xa1\x61\x61").hex(),
    "a thousand lists": nested(1_000).hex(),
    "a million lists": nested(1_000_000).hex(),
    "a million lists without an end": (b"\x9f" * 1_000_000).hex(),
    "a million maps": nested(1_000_000, b"\xa1\x61\x61").hex(),
    "maps as keys of maps": (b"\xa1" * 1_000_000).hex(),
    "a million lists that claim to be long": (b"\x9b\x00\xff\xff\xff\xff\xff\xff\xff" * 100_000).hex(),
}


@pytest.mark.promise("P30")
@pytest.mark.parametrize("data", [bytes.fromhex(data) for data in HOSTILE.values()], ids=HOSTILE)
def test_bytes_outside_the_profile_are_rejected(data, faults):
    with faults.one(), pytest.raises(Malformed):
        decode(data)


@pytest.mark.promise("P30")
def test_few_bytes_that_expand_to_gigabytes_are_rejected(faults):
    shared, again = b"\xd8\x1c", b"\xd8\x1d"
    levels = [shared + b"\x8a" + (again + bytes([level])) * 10 for level in range(20)]
    laughs = bytes([0x80 + 21]) + shared + b"\x81\x61a" + b"".join(levels)
    with faults.one(), pytest.raises(Malformed):
        decode(laughs)


@pytest.mark.parametrize("number", [*range(60), *range(60, 300, 7), 1003, 1004, 1040, 43000, 43001, 55799, 2**32])
def test_every_tag_is_rejected(number):
    for content in (0, 1.5, "a", b"a", [], [1, 2], ["a", "b"], {}, None):
        with pytest.raises(Malformed):
            decode(cbor2.dumps(cbor2.CBORTag(number, content)))


def test_deepest_allowed_list_is_accepted():
    deepest = lists(DEPTH_MAX, 5)
    assert decode(encode(deepest)) == deepest


OUTSIDE = {
    "NaN": ({"a": [1.0, float("nan")]}, "a[1]"),
    "infinity": ([float("-inf")], "[0]"),
    "an integer too large": ({"usage": {"input": 2**64}}, "usage.input"),
    "an integer too small": ([-(2**63) - 1], "[0]"),
    "a lone surrogate": ({"a": {"b": "\ud800"}}, "a.b"),
    "a lone surrogate in a key": ({"a": {"\udfff": 1}}, "a.'\\udfff'"),
    "bytes as a key": ({"a": {b"k": 1}}, "a"),
    "an integer as a key": ({1: 1}, ""),
    "true as a key": ({True: 1}, ""),
    "a tuple": ({"a": (1,)}, "a"),
    "a set": ([{1}], "[0]"),
    "a byte array": ([bytearray(b"a")], "[0]"),
    "a complex number": ([1j], "[0]"),
    "an object": ({"a": object()}, "a"),
    "a tag": ([cbor2.CBORTag(1, 1)], "[0]"),
    "undefined": ([cbor2.undefined], "[0]"),
    "a text of a class of its own": ([type("Words", (str,), {})("a")], "[0]"),
    "one list too deep": (lists(DEPTH_MAX + 1), "[0]" * DEPTH_MAX),
    "one list too deep, empty": (lists(DEPTH_MAX, []), "[0]" * DEPTH_MAX),
    "a thousand maps": ({"a": lists(1_000)}, "a" + "[0]" * (DEPTH_MAX - 1)),
}


@pytest.mark.parametrize(("value", "where"), OUTSIDE.values(), ids=OUTSIDE)
def test_value_outside_the_profile_is_rejected_with_its_path(value, where):
    with pytest.raises(Malformed) as refused:
        encode(value)
    assert refused.value.where == where


def test_recursive_list_is_rejected():
    endless = []
    endless.append(endless)
    with pytest.raises(Malformed):
        encode(endless)


SEEDS = [
    encode({"v": 1, "kind": "message", "at": 1_000, "body": {"role": "user", "content": [1.5]}, "nonce": bytes(16)}),
    encode([[0, 0, bytes(32), "raw"], [70_000, 0, bytes(32), "base64"]]),
    encode({"a": [None, True, -1, 2**64 - 1, {"b": "é" * 30, "": b"\x00" * 300}], "c": [[[[[1e300]]]]]}),
]


@pytest.mark.promise("P30")
def test_mutants_are_rejected_or_the_only_encoding_of_their_value(faults):
    draw = random.Random(20_260_101)
    inputs, passed = figure(100_000, 10_000_000), 0
    for number in range(inputs):
        data = mutant(draw, SEEDS[number % len(SEEDS)])
        try:
            value = decode(data)
        except Malformed:
            continue
        passed += 1
        assert encode(value) == data
    assert 0 < passed < inputs
    faults.many(inputs)


@given(PLAIN)
def test_every_string_is_found_at_its_offset(value):
    data = encode(value)

    def expected(part, way=()):
        if isinstance(part, str | bytes):
            yield way, part
        elif isinstance(part, list):
            for item in part:
                yield from expected(item, way)
        elif isinstance(part, dict):
            for key, item in part.items():
                yield from expected(item, (*way, key))

    found = [(way, is_text, data[start:end]) for way, is_text, start, end in strings(data)]
    assert [(way, piece.decode() if is_text else piece) for way, is_text, piece in found] == list(expected(value))
