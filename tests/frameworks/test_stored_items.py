"""Tests of what is stored beside an entry of a framework."""

from __future__ import annotations

from datetime import datetime

import pytest
from framework_items import WILD_JSON, same
from hypothesis import given

from gitsession import Malformed, Message, Store, ToolCall
from gitsession.frameworks.stored_items import difference, item_of, patched, to_json, with_item


@given(WILD_JSON, WILD_JSON)
def test_a_change_restores_any_value(old: object, new: object) -> None:
    change = difference(old, new)
    assert (change is None) == same(old, new)
    if change is not None:
        assert same(patched(old, change), new)


def test_a_change_has_only_the_parts_that_differ() -> None:
    old = {"text": "a long text", "parts": [{"a": 1, "b": 2}, 3], "gone": None}
    new = {"text": "a long text", "parts": [{"a": 1, "b": None}, 3], "id": "1"}
    assert difference(old, new) == {"gone": [], "parts": {"0": {"b": [None]}}, "id": ["1"]}


@given(WILD_JSON)
def test_an_entry_keeps_an_item_that_the_format_cannot_represent(value: object) -> None:
    item = {"args": value}

    def derive(message: Message) -> object:
        return {"args": message.content[0].arguments["value"]}

    with Store.in_memory() as store:
        session = store.keyed_session("a", agent="test")
        call = ToolCall("1", "f", {"value": value})
        session.append(with_item(Message.assistant([call]), item, derive, "test"))
        [(_, entry), _] = session.entries()
        assert same(item_of(entry, derive, "test"), item)


def test_a_value_that_is_not_json_is_refused() -> None:
    with pytest.raises(Malformed, match="cannot store the message: Object of type datetime"):
        to_json({"when": datetime(2026, 1, 1)})


def test_a_redacted_secret_is_returned_where_it_was_stored() -> None:
    key = "AKIA" + "Q7ZL4XN2PT6RWY3K"
    with Store.in_memory() as store:
        session = store.keyed_session("a", agent="test")
        session.append(Message.user(f"key = {key}"))
        [(node, entry), _] = session.entries()
        assert key not in session.read(node).text and entry.text == f"key = {key}"
