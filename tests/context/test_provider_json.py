"""Tests of ids, names and values that a provider's JSON can contain."""

import re

from hypothesis import given
from hypothesis import strategies as st

from gitsession.codec.cbor import valid_text
from gitsession.context.providers.wire import CallIds, legal, sendable


def test_distinct_names_stay_distinct():
    assert legal("read_file", 64) == "read_file"
    assert len({legal(name, 64) for name in ("a:b", "a/b", "a_b", "x" * 65, "x" * 66)}) == 5


@given(st.lists(st.text(max_size=50) | st.sampled_from(["a", "a_2", "a" * 40])))
def test_ids_are_valid_and_distinct(given_ids):
    ids = CallIds(40)
    made = [ids.take(id_) for id_ in given_ids]
    assert len(set(made)) == len(made)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", id_) for id_ in made)


def test_values_that_json_cannot_represent_are_replaced():
    given_values = {"a": b"\x00", 1: (float("inf"), "\ud83d\ude00", "\ud83d")}
    assert sendable(given_values) == {"a": "AA==", "1": [None, "😀", "\ufffd"]}
    assert valid_text("ok") == "ok"
