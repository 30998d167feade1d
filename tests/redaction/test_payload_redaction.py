"""Tests of redaction with a secret anywhere in any payload.

The result is valid, has no secret, and is recognized again.
"""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from secret_shapes import a_token

from gitsession.codec import cbor, holes, payload
from gitsession.errors import Malformed
from gitsession.model.entries import Custom
from gitsession.redaction import guard
from gitsession.redaction.guard import Guard, decoded, offset_map
from gitsession.redaction.original import Original, matches, placeholder
from gitsession.redaction.scan import Scanner
from gitsession.redaction.vault import Vault

SCANNER = Scanner()
GUARD = Guard(SCANNER)
NONCE = bytes(16)
TOKENS = [a_token(seed) for seed in range(5)]

WORDS = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)
SECRETS = st.sampled_from([token.text for token in TOKENS])
PLANTED = st.builds(lambda before, secret, after: f"{before}\n{secret} {after}", WORDS, SECRETS, WORDS)
LEAVES = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | WORDS | PLANTED
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | PLANTED, inner, max_size=4),
    max_leaves=12,
)


NAMES = st.sampled_from(["body", "target", "labels", "nonce"]) | WORDS | PLANTED
REFERENCES = st.sampled_from(["c" * 43, "12:" + "c" * 43, "20261124-abcdefghijklm", "0" * 64])
CBOR_VALUES = st.recursive(
    LEAVES | REFERENCES | st.binary(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES | REFERENCES, inner, max_size=4),
    max_leaves=12,
)


def check(original, redacted, *, is_ours=False):
    assert not any(token.is_in(redacted.payload) for token in TOKENS)
    end = 0
    for offset, length, rule in redacted.rows:
        assert offset >= end
        end = offset + length
        assert redacted.payload[offset:end].startswith(placeholder(rule))
    assert is_ours or matches(redacted.payload, redacted.rows, original)
    vault = Vault(None)
    vault.keep([Original(b"d" * 32, b"c" * 32, original)])
    assert vault.original(b"d" * 32, b"c" * 32) == original


@given(VALUES, st.booleans(), st.sampled_from([None, 1]))
@settings(max_examples=300)
def test_any_json_stays_json_of_the_same_shape(value, ascii_only, indent):
    line = json.dumps(value, ensure_ascii=ascii_only, indent=indent).replace("\n", " ").encode()
    redacted = GUARD.redact("jsonl", line)
    check(line, redacted)
    assert shape_of(json.loads(redacted.payload), keys=False) == shape_of(value, keys=False)


@given(st.lists(VALUES, min_size=1, max_size=3))
@settings(max_examples=100)
def test_grouped_lines_stay_separate_lines(values):
    lines = b"\n".join(json.dumps(value).encode() for value in values)
    redacted = GUARD.redact("jsonl", lines)
    check(lines, redacted)
    assert len([json.loads(line) for line in redacted.payload.split(b"\n")]) == len(values)


@given(VALUES)
@settings(max_examples=300)
def test_any_own_entry_stays_valid(value):
    data = payload.encode(Custom(at_ms=1, custom_type="x", data=value), NONCE)
    redacted = GUARD.redact("cbor", data)
    check(data, redacted, is_ours=True)  # lengths come before texts, so such payloads are not compared
    entry, _ = payload.decode(redacted.payload)
    assert shape_of(entry.data, keys=True) == shape_of(value, keys=True)


@given(CBOR_VALUES | st.builds(lambda body: {"body": body, "nonce": NONCE}, CBOR_VALUES))
@settings(max_examples=500)
def test_value_is_tested_in_the_form_in_which_its_encoding_is_scanned(value):
    assert guard._view_of(value) == guard._strings(cbor.encode(value))[1]
    assert GUARD.suspects_value(value) or GUARD.redact("cbor", cbor.encode(value)).rows == ()


@given(st.binary(max_size=200), SECRETS, st.binary(max_size=200), st.sampled_from(["jsonl", "json", "md"]))
@settings(max_examples=200)
def test_bytes_that_are_nothing_are_redacted_too(before, secret, after, form):
    data = before + b"\n" + secret.encode() + b"\n" + after
    check(data, GUARD.redact(form, data))


def shape_of(value, *, keys):
    """Return the structure of a value without its texts.

    If two keys of a JSON object become equal, only the last one is read.
    """
    if isinstance(value, dict):
        inner = [shape_of(item, keys=keys) for item in value.values()]
        return inner if keys else (dict, bool(inner))
    if isinstance(value, list):
        return [shape_of(item, keys=keys) for item in value]
    return type(value)


@given(st.text("\\nu0041\"/ab'", max_size=40))
@settings(max_examples=500)
def test_unescaped_positions_map_to_their_escapes(text):
    data = text.encode()
    back, plain = offset_map(data), decoded(data)
    places = [back.start(at) for at in range(len(plain) + 1)]
    assert places == sorted(set(places))
    assert places[0] == 0
    assert places[-1] == len(data)
    for at, start in enumerate(places[:-1]):
        assert decoded(data[start : places[at + 1]]) in (plain[at : at + 1], data[start : places[at + 1]])


NOT_THE_SAME = {
    "more at the end": (b"a[x]b", [(1, 3, "r")], b"aSECRETbc"),
    "less at the end": (b"a[x]b", [(1, 3, "r")], b"aSECRET"),
    "another beginning": (b"a[x]b", [(1, 3, "r")], b"bSECRETb"),
    "nothing in its place": (b"a[x]b", [(1, 3, "r")], b"ab"),
    "the parts in another order": (b"a[x]b[x]c[x]d", [(1, 3, "r"), (5, 3, "r"), (9, 3, "r")], b"aScSbSd"),
    "one is missing": (b"a[x]b[x]c", [(1, 3, "r"), (5, 3, "r")], b"aSc"),
    "no placeholder": (b"ab", [], b"abc"),
}


@pytest.mark.parametrize(("redacted", "rows", "other"), NOT_THE_SAME.values(), ids=NOT_THE_SAME)
def test_text_that_differs_beside_placeholders_does_not_match(redacted, rows, other):
    assert not matches(redacted, rows, other)


def table(*rows):
    return cbor.encode(list(rows))


BAD_TABLES = {
    "a digest": table([0, 5, bytes(32), "vault", "jwt"]),
    "no rule": table([0, 5, None, "vault"]),
    "a rule that is no text": table([0, 5, None, "vault", 7]),
    "a rule without a name": table([0, 5, None, "vault", ""]),
    "a rule with a long name": table([0, 5, None, "vault", "x" * 41]),
    "no length": table([0, 0, None, "vault", "jwt"]),
    "one over another": table([0, 5, None, "vault", "jwt"], [4, 5, None, "vault", "jwt"]),
    "a hole behind": table([0, 5, None, "vault", "jwt"], [9, 0, bytes(32), "raw"]),
    "purged with a rule": table([0, 5, None, "purged", "jwt"]),
    "purged with a digest": table([0, 5, bytes(32), "purged"]),
}


@pytest.mark.parametrize("bad", BAD_TABLES.values(), ids=BAD_TABLES)
def test_table_with_wrong_placeholders_is_rejected(bad):
    with pytest.raises(Malformed):
        holes.parse(bad)


def test_purged_hole_keeps_its_placeholder():
    purged = table([1, 3, None, "purged"])
    assert holes.fill(b"a[x]b", purged, lambda *_: b"") == b"a[x]b"
    assert holes.hidden(purged) == []
