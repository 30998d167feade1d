"""Tests of the digests: BLAKE3 of a payload, and of a position."""

from itertools import pairwise

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from gitsession.codec.digest import chain, digest, from_base64url, hash_of, to_base32, to_base64url

HASHES = st.binary(min_size=32, max_size=32)


def test_hash_matches_the_test_vectors_of_blake3():
    assert hash_of(b"").hex() == "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
    assert hash_of(b"\0").hex() == "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213"


@given(st.lists(st.binary(max_size=40), max_size=5))
def test_parts_are_hashed_as_if_joined(parts):
    assert hash_of(*parts) == blake3(b"".join(parts)).digest()


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_a_digest_is_of_the_payload_and_its_holes(payload, holes):
    assert digest(payload, holes) == blake3(payload + holes).digest()
    assert digest(payload) == blake3(payload).digest()


@given(HASHES, HASHES)
def test_a_chain_is_of_the_parents_chain_and_the_digest(parent, payload_digest):
    assert chain(parent, payload_digest) == blake3(parent + payload_digest).digest()
    assert chain(None, payload_digest) == blake3(payload_digest).digest()


def test_the_same_payload_elsewhere_has_the_same_digest_and_another_chain():
    same = digest(b"payload")
    assert len({chain(None, same), chain(bytes(32), same), chain(chain(None, same), same)}) == 3


@given(HASHES)
def test_chain_digest_has_43_characters_and_is_decoded_again(value):
    written = to_base64url(value)
    assert len(written) == 43
    assert written.replace("-", "a").replace("_", "a").isalnum()
    assert from_base64url(written) == value


@given(st.binary(max_size=70))
def test_base64url_of_any_length_is_decoded_again(value):
    assert from_base64url(to_base64url(value)) == value


GOOD = to_base64url(bytes(range(32)))
NOT_BASE64URL = {
    "with padding": GOOD + "=",
    "one character": "A",
    "cut": GOOD[:-2],
    "bits that say nothing": GOOD[:-1] + "9",
    "a plus": "+" + GOOD[1:],
    "a slash": "/" + GOOD[1:],
    "a space": " " + GOOD,
    "a line end": GOOD + "\n",
    "a line end inside": GOOD[:20] + "\n" + GOOD[20:],
    "a character that is ignored": GOOD[:20] + "!" + GOOD[20:],
    "not ASCII": "é" * 43,
    "digits of another script": "٣" * 43,
    "a lone surrogate": "\ud800" * 43,
    "only padding": "====",
}


@pytest.mark.parametrize("written", NOT_BASE64URL.values(), ids=NOT_BASE64URL)
def test_text_that_to_base64url_cannot_write_is_rejected(written):
    with pytest.raises(ValueError):
        from_base64url(written)


@given(HASHES)
def test_base32_names_grow_with_their_length_and_live_in_any_ref(value):
    names = [to_base32(value, length) for length in (8, 13, 26, 52)]
    assert [len(name) for name in names] == [8, 13, 26, 52]
    assert all(longer.startswith(name) for name, longer in pairwise(names))
    assert set(names[-1]) <= set("abcdefghijklmnopqrstuvwxyz234567")
