"""Tests of addresses in a session: every notation for an entry, and the errors for unknown and ambiguous ones."""

from __future__ import annotations

import pytest
from builders import Clock, begun, bring, entry, label, pi_file, said, session, talk

from gitsession.codec.digest import to_base64url
from gitsession.errors import Ambiguous, InvalidName, NotFound
from gitsession.sessions import session as sessions
from gitsession.store.memory import MemoryStore


@pytest.fixture
def held() -> sessions.StoredSession:
    store = MemoryStore()
    lines = [*talk("a", "b", "c"), said("d", "b", at=4), label("e", "c", "b", "mark", at=5), said("b2", "d", at=6)]
    return session(store, bring(store, pi_file(*lines)).session)


def named(held: sessions.StoredSession, address: str) -> str | None:
    node = held.resolve(address)
    return node.source.id if node.source else None


def test_an_agent_s_own_id_names_its_entry(held: sessions.StoredSession) -> None:
    assert [named(held, id) for id in "abcd"] == list("abcd")


def test_a_label_names_an_entry(held: sessions.StoredSession) -> None:
    assert named(held, "mark") == "b"


def test_leaf_is_the_tip_of_the_active_branch(held: sessions.StoredSession) -> None:
    assert held.branch_name != "main"
    assert named(held, "leaf") == "b2"
    assert named(session_on(held, "main"), "leaf") == "e"


def session_on(held: sessions.StoredSession, branch: str) -> sessions.StoredSession:
    return sessions.StoredSession.open(held._store, held.id, Clock(), branch)


def test_a_branch_names_its_leaf(held: sessions.StoredSession) -> None:
    assert named(held, "main") == "e"


def test_the_root_has_a_name(held: sessions.StoredSession) -> None:
    assert held.resolve("root").parent is None


def test_tilde_steps_to_ancestors(held: sessions.StoredSession) -> None:
    assert [named(held, f"main~{steps}") for steps in range(4)] == ["e", "c", "b", "a"]
    assert held.resolve("main~4") == held.resolve("root")
    assert named(held, "main~1~2") == "a"


def test_more_steps_than_there_are_entries_name_nothing(held: sessions.StoredSession) -> None:
    with pytest.raises(NotFound, match="the history has fewer entries"):
        held.resolve("leaf~99")


@pytest.fixture
def turns() -> sessions.StoredSession:
    """Return a session of three turns; the second starts with two user messages and a change of the model."""
    roles = {"a": "user", "b": "assistant", "c": "toolResult", "d": "assistant", "e": "user", "f": "user",
             "g": "assistant", "h": "user"}  # fmt: skip
    pairs = enumerate(zip(roles, [None, *roles], strict=False))
    lines = [said(id, above, role=roles[id], at=n) for n, (id, above) in pairs]
    lines[5:] = [entry("model_change", "m", "e", 6, modelId="x"), said("f", "m", at=6), *lines[6:]]
    store = MemoryStore()
    return session(store, bring(store, pi_file(*lines)).session)


TURNS = {
    "user": "h", "user~1": "h", "user~2": "f", "user~3": "e", "user~4": "a", "user~2~1": "m", "user~4~1": None,
    "turn": "h", "turn~1": "h", "turn~2": "e", "turn~3": "a", "turn~2~1": "d",
}  # fmt: skip


@pytest.mark.parametrize("address", TURNS)
def test_user_messages_and_turns_are_counted_from_the_leaf(turns: sessions.StoredSession, address: str) -> None:
    assert named(turns, address) == TURNS[address]


@pytest.mark.parametrize("address", ["user~0", "user~5", "turn~0", "turn~4", "turn~999999999"])
def test_there_are_no_more_user_messages_and_turns(turns: sessions.StoredSession, address: str) -> None:
    with pytest.raises(NotFound, match=r"the history has fewer (user messages|turns)"):
        turns.resolve(address)


def test_user_messages_are_those_of_the_branch_of_the_session(held: sessions.StoredSession) -> None:
    assert [named(held, "user"), named(session_on(held, "main"), "user")] == ["b2", "c"]


@pytest.mark.parametrize("name", ["leaf", "root", "user", "turn"])
def test_names_of_addresses_are_reserved(turns: sessions.StoredSession, name: str) -> None:
    for act in (turns.branch, lambda name: turns.label("a", name)):
        with pytest.raises(InvalidName, match="reserved"):
            act(name)


def test_prefix_of_an_oid_or_chain_digest_is_resolved(held: sessions.StoredSession) -> None:
    node = held.resolve("c")
    assert held.resolve(node.oid[:10]) == held.resolve(node.oid[:10].upper()) == held.resolve(node.oid) == node
    assert held.resolve(to_base64url(node.chain)[:10]) == held.resolve(to_base64url(node.chain)) == node


def test_a_few_characters_of_an_oid_are_not_enough(held: sessions.StoredSession) -> None:
    with pytest.raises(NotFound):
        held.resolve(held.resolve("c").oid[:3])


@pytest.mark.parametrize("address", ["nowhere", "", "~1", "leaf~", "leaf~x", "meta", "*", "\ud83d", "leaf~9999999999"])
def test_unknown_address_is_not_found(held: sessions.StoredSession, address: str) -> None:
    with pytest.raises(NotFound) as caught:
        held.resolve(address)
    assert not isinstance(caught.value, Ambiguous)
    assert caught.value.hint or "root" in str(caught.value)


def test_one_label_on_two_entries_is_ambiguous_and_both_are_listed(held: sessions.StoredSession) -> None:
    held.label("a", "twice")
    held.label("c", "twice")
    with pytest.raises(Ambiguous) as caught:
        held.resolve("twice")
    assert len(caught.value.candidates) == 2
    assert "words of a" in caught.value.candidates[0] + caught.value.candidates[1]


def test_later_of_two_entries_with_one_id_is_resolved() -> None:
    store = MemoryStore()
    held = session(store, bring(store, pi_file(said("a", None, "one"), said("a", "a", "two"))).session)
    assert held.resolve("a").subject == "user: two"


def test_entry_in_the_current_file_is_resolved_by_a_shared_id() -> None:
    store = MemoryStore()
    bring(store, pi_file(said("a", None, "one"), said("b", "a", "old")))
    held = session(store, bring(store, pi_file(said("a", None, "one"), said("b", "a", "new"))).session)
    assert held.resolve("b").subject == "user: new"
    bring(store, pi_file(said("a", None, "one"), said("b", "a", "old")))
    assert held.resolve("b").subject == "user: old"


def test_branch_comes_before_label_and_label_before_id(held: sessions.StoredSession) -> None:
    held.label("a", "c")
    assert named(held, "c") == "a"
    held.branch("c", "b")
    assert named(held, "c") == "b"


def test_an_entry_of_our_own_is_named_by_its_chain() -> None:
    held = begun(MemoryStore(), "one", "two")
    first = held.history()[1]
    assert held.resolve(to_base64url(first.chain)[:8]) == first


def test_a_node_names_itself(held: sessions.StoredSession) -> None:
    node = held.resolve("a")
    assert held.resolve(node) is node
