"""Tests of the page of statistics."""

from __future__ import annotations

import pytest
from pages import HOSTILE, Page, conversation, hostile_session
from served import Client

from gitsession import Message, Store
from gitsession.index.statistics import GROUPS, Price
from gitsession.web.site import Site


def rows(page: Page) -> list[str]:
    """Return the lengths of the bars."""
    return [found["value"] for found in page.all("meter")]


@pytest.mark.parametrize("by", GROUPS)
def test_every_group_has_a_page(client: Client, store: Store, by: str) -> None:
    session = conversation(store)
    page = client.page(f"/stats?by={by}")
    assert len(rows(page)) >= 1 or by == "model"
    assert {"agent": "pi", "project": "/work", "session": "A bug", "tool": "bash"}.get(by, "") in page.text
    if by == "session":
        assert {"href": f"/session/{session.id}"} in page.all("a")


def test_bars_are_relative_to_the_longest_one(client: Client, store: Store) -> None:
    session = store.new_session(agent="pi")
    session.append(Message.user("go"))
    for model, tokens in (("large", 1000), ("small", 250)):
        session.append(Message.assistant("x", model=model, usage={"input": tokens, "output": 0}))
    page = client.page("/stats?by=model")
    assert rows(page) == ["100", "25"]
    assert page.text.index("large") < page.text.index("small") < page.text.index("1,250")


def test_sessions_and_days_are_selected(client: Client, store: Store) -> None:
    conversation(store)
    other = store.new_session(agent="claude", cwd="/elsewhere")
    other.append(Message.user("hello"))
    for query, count in (
        ("agent=claude", 1),
        ("agent=none", 0),
        (f"session={other.id}", 1),
        ("", 2),
        ("project=/work", 1),
    ):
        assert len(rows(client.page(f"/stats?by=session&{query}"))) == count
    for query, count in (
        ("since=2999-01-01", 0),
        ("until=1970-01-02", 0),
        ("since=x&until=9999-12-31", 2),
        ("by=none", 1),
    ):
        assert len(rows(client.page(f"/stats?by=session&{query}"))) == count


def test_costs_follow_from_prices(store: Store) -> None:
    session = store.new_session(agent="pi")
    session.append(Message.user("go"))
    session.append(Message.assistant("x", model="large-1", usage={"input": 2_000_000, "output": 0}))
    site = Site(store, store.secrets.guard(), prices={"large": Price(input_tokens=3)})
    assert "$6.00" in site.answer("/stats", {"by": "model"}).body.decode()


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_names_stay_text(client: Client, store: Store, text: str) -> None:
    session = hostile_session(store, text)
    session.rename(text[:200].encode("utf-8", "replace").decode().replace("\0", ""))
    for by in GROUPS:
        client.page(f"/stats?by={by}")
