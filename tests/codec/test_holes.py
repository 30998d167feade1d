"""Tests of holes: which bytes are cut out of a payload and how, and that they are only restored to the same place."""

import base64
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitsession.codec import cbor, holes
from gitsession.codec.digest import hash_of
from gitsession.codec.holes import PayloadSpan, cut, decode_base64, fill, is_image, parse, spans_in_json
from gitsession.errors import Malformed

MAGIC = {
    "PNG": b"\x89PNG\r\n\x1a\n",
    "JPEG": b"\xff\xd8\xff",
    "GIF of 1987": b"GIF87a",
    "GIF of 1989": b"GIF89a",
    "WebP": b"RIFF\x10\x20\x30\x40WEBP",
    "BMP": b"BM\x10\x20\x30\x40\0\0\0\0",
}
NO_MAGIC = {
    "nothing": b"",
    "PNG with other line ends": b"\x89PNG\n\x1a\n",
    "half a JPEG": b"\xff\xd8",
    "GIF of 1988": b"GIF88a",
    "a sound": b"RIFF\x10\x20\x30\x40WAVE",
    "half a WebP": b"RIFF\x10\x20\x30\x40WEB",
    "text that begins with BM": b"BM is a company",
    "half a BMP": b"BM\x10\x20\x30\x40\0\0\0",
    "SVG": b"<svg ",
    "PDF": b"%PDF-1.7",
}


def image(length, head=MAGIC["PNG"]):
    return (head + bytes(range(256)) * (length // 256 + 1))[:length]


def b64(data):
    return base64.b64encode(data).decode()


def line(*strings):
    return json.dumps({"type": "message", "content": list(strings)}, separators=(",", ":")).encode()


def keep(payload, spans=None):
    stored = cut(payload, spans_in_json(payload) if spans is None else spans)
    contents = {digest: content for digest, _, content in stored.lifted}
    return stored, lambda digest, encoding: contents[digest]


def lifted(payload):
    stored, fetch = keep(payload)
    assert fill(stored.payload, stored.holes, fetch) == payload
    return [(encoding, content) for _, encoding, content in stored.lifted]


# Detection of images


@pytest.mark.parametrize("head", MAGIC.values(), ids=MAGIC)
def test_image_is_detected_by_its_first_bytes(head):
    assert is_image(head)
    assert is_image(head + b"more")
    assert not is_image(b"\0" + head)


@pytest.mark.parametrize("head", NO_MAGIC.values(), ids=NO_MAGIC)
def test_other_signatures_are_not_images(head):
    assert not is_image(head)


@given(st.binary(max_size=60))
def test_base64_is_only_decoded_if_it_encodes_to_the_same_text(data):
    written = base64.b64encode(data)
    assert decode_base64(written) == data
    for other in (written + b"\n", written.rstrip(b"=") + b"A", b" " + written, written[:-1] + b"!"):
        assert decode_base64(other) is None or base64.b64encode(decode_base64(other)) == other


NOT_CANONICAL = {
    "bits that say nothing": b"QUJDRB==",
    "no padding": b"QUI",
    "padding inside": b"QQ==QQ==",
    "more padding": b"QUI==",
    "a line end": b"QUJD\nREVG",
    "the URL alphabet": b"__--",
    "only padding": b"====",
    "a letter": b"A",
    "not ASCII": "é".encode() * 2,
    "a NUL": b"QUJ\0",
}


@pytest.mark.parametrize("written", NOT_CANONICAL.values(), ids=NOT_CANONICAL)
def test_nonstandard_base64_is_not_decoded(written):
    assert decode_base64(written) is None


# Holes in a line of JSON

SHORT, SMALLEST = image(765), image(768)  # 1,020 and 1,024 characters of base64
LIFTED = {
    "an image of 1,024 characters": (line(b64(SMALLEST)), [("base64", SMALLEST)]),
    "an image of 1,020 characters": (line(b64(SHORT)), []),
    "a data URL": (line("data:image/png;base64," + b64(SMALLEST)), [("base64", SMALLEST)]),
    "a data URL with a short image": (line("data:image/png;base64," + b64(SHORT)), []),
    "a data URL of another image": (line("data:image/gif;base64," + b64(SMALLEST)), [("base64", SMALLEST)]),
    "a data URL with a parameter": (line("data:image/png;name=a.png;base64," + b64(SMALLEST)), [("base64", SMALLEST)]),
    "a data URL whose mark ends at byte 100": (
        line("data:image/" + "x" * 81 + ";base64," + b64(SMALLEST)),
        [("base64", SMALLEST)],
    ),
    "a data URL whose mark ends at byte 101": (line("data:image/" + "x" * 82 + ";base64," + b64(SMALLEST)), []),
    "a data URL that is no image's": (line("data:text/plain;base64," + b64(SMALLEST)), []),
    "a data URL of text": (line("data:image/png;base64," + b64(b"text" * 300)), []),
    "a data URL with escaped slashes": (
        line("data:image/png;base64," + b64(SMALLEST)).replace(b"image/", rb"image\/"),
        [],
    ),
    "base64 with escaped slashes": (line(b64(image(768, MAGIC["JPEG"]))).replace(b"/", rb"\/"), []),
    "base64 in lines": (line(base64.encodebytes(SMALLEST).decode()), []),
    "base64 without its padding": (line(b64(image(769)).rstrip("=")), []),
    "base64 with bits that say nothing": (line(b64(image(769))[:-3] + "B=="), []),
    "base64 for URLs": (line(base64.urlsafe_b64encode(image(768, b"\xff\xd8\xff\xfb\xef\xbe")).decode()), []),
    "base64 with a space before": (line(" " + b64(SMALLEST)), []),
    "base64 with padding": (line(b64(image(769))), [("base64", image(769))]),
    "base64 of what is no image": (line(b64(b"text" * 300)), []),
    "base64 of what is no image, long": (line(b64(b"text" * 20_000)), [("raw", b64(b"text" * 20_000).encode())]),
    "an image with an error at its end, long": (
        line(b64(image(90_000)) + "!"),
        [("raw", b64(image(90_000)).encode() + b"!")],
    ),
    "a long image": (line(b64(image(90_000))), [("base64", image(90_000))]),
    "a long data URL that is no image's": (
        line("data:image/png;base64," + "!" * 70_000),
        [("raw", b"data:image/png;base64," + b"!" * 70_000)],
    ),
    "text of 65,535 bytes": (line("a" * 65_535), []),
    "text of 65,536 bytes": (line("a" * 65_536), [("raw", b"a" * 65_536)]),
    "text of 65,536 bytes with its escapes": (line('"' * 32_768), [("raw", b'\\"' * 32_768)]),
    "text of 65,536 bytes, in fewer characters": (
        json.dumps("é" * 32_768, ensure_ascii=False).encode(),
        [("raw", "é".encode() * 32_768)],
    ),
    "a key of 65,536 bytes": (json.dumps({"k" * 65_536: 1}).encode(), [("raw", b"k" * 65_536)]),
    "a literal that ends in backslashes": (line("a" * 65_536 + "\\\\"), [("raw", b"a" * 65_536 + b"\\" * 4)]),
    "an image behind an escaped quotation mark": (line('say "hi"\\', b64(SMALLEST)), [("base64", SMALLEST)]),
    "an image behind backslashes": (line("\\" * 7, b64(SMALLEST), '\\"'), [("base64", SMALLEST)]),
    "two images, in order": (
        line(b64(SMALLEST), "and", b64(image(900))),
        [("base64", SMALLEST), ("base64", image(900))],
    ),
    "one image twice": (line(b64(SMALLEST), b64(SMALLEST)), [("base64", SMALLEST)] * 2),
    "an image in a line that does not parse": (b'{"a":"' + b64(SMALLEST).encode() + b'",', [("base64", SMALLEST)]),
    "an image in bytes that are no text": (b'\xff"' + b64(SMALLEST).encode() + b'"\xff', [("base64", SMALLEST)]),
    "an image in a literal without an end": (b'{"a":"' + b64(SMALLEST).encode(), []),
    "an image outside of a literal": (b'"" ' + b64(SMALLEST).encode() + b' ""', []),
    "a long line of short strings": (line(*["word"] * 20_000), []),
    "nothing": (b"", []),
    "only quotation marks": (b'"' * 70_000, []),
    "only backslashes": (b'"' + b"\\" * 70_000, []),
}


@pytest.mark.parametrize(("payload", "expected"), LIFTED.values(), ids=LIFTED)
def test_holes_of_a_line_match_the_page(payload, expected):
    assert lifted(payload) == expected


@pytest.mark.parametrize("head", MAGIC.values(), ids=MAGIC)
def test_an_image_of_every_make_is_lifted(head):
    assert lifted(line(b64(image(768, head)))) == [("base64", image(768, head))]


LITERAL = re.compile(rb'"((?:[^"\\]|\\.)*)"', re.DOTALL)


def long_strings():
    return st.one_of(
        st.sampled_from([b64(SMALLEST), b64(image(769)), b64(SHORT), "data:image/png;base64," + b64(SMALLEST)]),
        st.sampled_from(["a" * 65_535, "a" * 65_536, '"\\' * 16_384, "\\" * 32_768]),
        st.text(max_size=20),
    )


@given(st.lists(long_strings(), max_size=5), st.booleans())
def test_holes_of_json_are_inside_of_string_literals(strings, ascii_only):
    payload = json.dumps(strings, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    insides = [(found.start(1), found.end(1)) for found in LITERAL.finditer(payload)]
    for span in spans_in_json(payload):
        assert any(start <= span.start and span.end == end for start, end in insides)
        assert span.encoding == "base64" or (span.start, span.end) in insides
    lifted(payload)


IMAGES = [image(1024, head) for head in MAGIC.values()]
PIECES = ['"', "\\", "a" * 1023, "a" * 1024, "data:image/png;base64,", ";base64,", *map(b64, IMAGES)]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_the_fast_test_for_images_excludes_no_image(text):
    slowly_tested = text.encode() + b" " * 65_536  # the blanks are outside of every literal
    assert spans_in_json(text.encode()) == spans_in_json(slowly_tested)


# Cutting and restoring


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=8))
def test_cut_payload_is_restored(payload, places):
    places = sorted({min(place, len(payload)) for place in places})
    spans = [PayloadSpan(start, end, "raw") for start, end in zip(places[::2], places[1::2], strict=False)]
    stored, fetch = keep(payload, spans)
    assert fill(stored.payload, stored.holes, fetch) == payload
    assert len(stored.payload) == len(payload) - sum(span.end - span.start for span in spans)
    assert bool(stored.holes) == bool(spans)


@given(st.text(st.characters(), max_size=200))
def test_any_line_is_restored(text):
    for payload in (text.encode("utf-8", "surrogatepass"), json.dumps([text, b64(SMALLEST)]).encode()):
        lifted(payload)


def test_payload_without_holes_is_stored_unchanged():
    stored = cut(b"payload", ())
    assert (stored.payload, stored.holes, stored.lifted) == (b"payload", b"", ())
    assert fill(b"payload", b"", lambda *_: pytest.fail("nothing to fetch")) == b"payload"


def test_table_has_offset_length_digest_and_encoding():
    stored = cut(b'{"a":"QUJD","b":"xyz"}', [PayloadSpan(6, 10, "base64"), PayloadSpan(17, 20, "raw")])
    assert stored.payload == b'{"a":"","b":""}'
    assert parse(stored.holes) == [(6, 0, hash_of(b"ABC"), "base64"), (13, 0, hash_of(b"xyz"), "raw")]
    assert stored.lifted == ((hash_of(b"ABC"), "base64", b"ABC"), (hash_of(b"xyz"), "raw", b"xyz"))


def test_two_holes_may_lie_side_by_side():
    stored, fetch = keep(b"abcd", [PayloadSpan(1, 2, "raw"), PayloadSpan(2, 3, "raw")])
    assert stored.payload == b"ad"
    assert fill(stored.payload, stored.holes, fetch) == b"abcd"


def test_hole_may_replace_existing_bytes():
    table = cbor.encode([[1, 3, hash_of(b"new"), "raw"]])
    assert fill(b"a---b", table, lambda *_: b"new") == b"anewb"


DIGEST = hash_of(b"x")
BAD_TABLES = {
    "no CBOR": b"\xff",
    "trailing bytes": cbor.encode([[0, 0, DIGEST, "raw"]]) + b"\0",
    "a map": cbor.encode({"a": 1}),
    "null": cbor.encode(None),
    "no rows": cbor.encode([]),
    "a row that is a map": cbor.encode([{}]),
    "a row of three": cbor.encode([[0, 0, DIGEST]]),
    "a row of five": cbor.encode([[0, 0, DIGEST, "raw", 0]]),
    "an offset below zero": cbor.encode([[-1, 0, DIGEST, "raw"]]),
    "a length below zero": cbor.encode([[0, -1, DIGEST, "raw"]]),
    "an offset that is text": cbor.encode([["0", 0, DIGEST, "raw"]]),
    "an offset that is a float": cbor.encode([[0.0, 0, DIGEST, "raw"]]),
    "an offset that is false": cbor.encode([[False, 0, DIGEST, "raw"]]),
    "a length that is true": cbor.encode([[0, True, DIGEST, "raw"]]),
    "a digest cut short": cbor.encode([[0, 0, DIGEST[:31], "raw"]]),
    "a digest that is text": cbor.encode([[0, 0, DIGEST.hex(), "raw"]]),
    "an unknown encoding": cbor.encode([[0, 0, DIGEST, "gzip"]]),
    "an encoding that is null": cbor.encode([[0, 0, DIGEST, None]]),
    "an encoding that is a list": cbor.encode([[0, 0, DIGEST, ["raw"]]]),
    "an offset past the end": cbor.encode([[8, 0, DIGEST, "raw"]]),
    "a length past the end": cbor.encode([[0, 8, DIGEST, "raw"]]),
    "an offset of 2^64-1": cbor.encode([[2**64 - 1, 2**64 - 1, DIGEST, "raw"]]),
    "offsets out of order": cbor.encode([[3, 0, DIGEST, "raw"], [2, 0, DIGEST, "raw"]]),
    "holes that overlap": cbor.encode([[0, 3, DIGEST, "raw"], [2, 0, DIGEST, "raw"]]),
}


@pytest.mark.parametrize("table", BAD_TABLES.values(), ids=BAD_TABLES)
def test_manipulated_table_is_rejected(table):
    with pytest.raises(Malformed):
        fill(b"payload", table, lambda *_: b"x")


@pytest.mark.parametrize("content", [b"", b"y", b"xx", b"x\n"])
@pytest.mark.parametrize("encoding", holes.ENCODINGS)
def test_content_with_another_digest_is_rejected(content, encoding):
    table = cbor.encode([[0, 0, DIGEST, encoding]])
    with pytest.raises(Malformed, match=r"^holes\[0\]"):
        fill(b"payload", table, lambda *_: content)


def test_small_table_cannot_exceed_the_size_limit_of_a_payload(monkeypatch):
    monkeypatch.setattr(holes, "WHOLE_BYTES_MAX", 1_000)
    blob = bytes(100)
    rows = [[0, 0, hash_of(blob), "raw"]] * 9
    assert len(fill(b"payload", cbor.encode(rows), lambda *_: blob)) == 907
    with pytest.raises(Malformed, match=r"^holes\[9\]: .* more than 1,000 bytes"):
        fill(b"payload", cbor.encode([*rows, rows[0]]), lambda *_: blob)
    with pytest.raises(Malformed, match="limit: 1,000"):
        cut(bytes(1_001), ())
