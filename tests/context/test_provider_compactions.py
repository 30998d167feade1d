"""Tests of provider-side compactions: stored as an entry, returned unchanged, and sent to other providers as text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import asking
import published
import pytest
from builders import bring, entry, pi_file, said

from gitsession import Compaction, Message, Store, Text, Thinking
from gitsession.context import build
from gitsession.context.history import ContextHistory
from gitsession.context.provider_compactions import provider_compaction
from gitsession.context.providers import provider
from gitsession.sessions.entry_addresses import resolve
from gitsession.store.memory import MemoryStore

BLOCK = {
    "type": "compaction",
    "content": "We fixed the login.",
    "encrypted_content": "opaque==",
    "signature": "signed==",
    "tool_changes": [{"type": "tool_removal", "tool": {"type": "tool_reference", "name": "bash"}}],
}
ITEM = {"id": "cmp_1", "type": "compaction", "encrypted_content": "gAAA=="}
KEPT = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix the login."}]}
CLAUDE, GPT = "anthropic/claude", "openai/gpt"


def made(given: Any, **more: Any) -> Compaction:
    found = provider_compaction(given, **more)
    assert found is not None
    return found


def asked(api: str, *entries: Any, beta: bool = False, **more: Any) -> dict[str, Any]:
    """Build a request and validate it against the published types.

    Args:
        beta: Use the types of the beta API, which has compactions.
    """
    request = asking.request(api, *entries, valid=not beta, **more)
    if beta:
        published.check("anthropic-beta", request)
    return request


def test_a1_compaction_is_one_entry_with_every_field_and_hides_earlier_ones(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store.git") as store:
        session = store.new_session(agent="t")
        session.append(Message.user("hidden"))
        session.append(made(BLOCK, tokens_before=150_000))
        session.append(asking.said_by("anthropic", "claude", Text("Done.")))
        context = session.context()
    assert [shown.kind for shown in context.messages] == ["compaction", "message"]
    request = provider("anthropic").request(context)
    published.check("anthropic-beta", request)
    assert request["messages"] == [{"role": "assistant", "content": [BLOCK, {"type": "text", "text": "Done."}]}]
    assert json.dumps(request["messages"][0]["content"][0]) == json.dumps(BLOCK)


FAILED = {
    "no content": {"type": "compaction", "content": None},
    "empty content": {"type": "compaction", "content": ""},
    "no content, but what it adds to one": {"type": "compaction", "content": None, "encrypted_content": "opaque=="},
    "another block": {"type": "text", "text": "hi"},
    "no item that compacts": [KEPT],
    "nothing": [],
}


@pytest.mark.parametrize("given", FAILED.values(), ids=FAILED)
def test_a1_one_that_failed_hides_nothing(given: Any) -> None:
    assert provider_compaction(given) is None


@pytest.mark.parametrize("model", [CLAUDE, "anthropic/other", None])
def test_a1_it_opens_the_conversation_of_the_provider_that_made_it(model: str | None) -> None:
    first, second = asked("anthropic", made(BLOCK), Message.user("go on"), beta=True, model=model)["messages"]
    assert first == {"role": "assistant", "content": [BLOCK]}
    assert second["role"] == "user"


def test_a2_one_that_is_followed_by_nothing_is_sent_alone() -> None:
    assert asked("anthropic", made(BLOCK), beta=True)["messages"] == [{"role": "assistant", "content": [BLOCK]}]


def test_a1_it_stays_where_the_answer_behind_it_broke_off_in_its_thoughts() -> None:
    thought = asking.said_by("anthropic", "claude", Thinking("hm", "sig=="))
    (turn,) = asked("anthropic", made(BLOCK), thought, beta=True, model=CLAUDE)["messages"]
    assert turn["content"] == [BLOCK]


@pytest.mark.parametrize(("api", "model"), [("openai-chat", GPT), ("openai-responses", GPT), ("anthropic", "z/claude")])
def test_other_providers_receive_the_text_without_encrypted_data(api: str, model: str) -> None:
    request = asked(api, made(BLOCK), Message.user("go on"), model=model)
    words = json.dumps(request)
    assert BLOCK["content"] in words
    assert not [secret for secret in ("opaque==", "signed==", "tool_changes") if secret in words]


@pytest.mark.parametrize("given", [ITEM, [ITEM], [KEPT, ITEM]], ids=["item", "list", "all that came out"])
def test_c3_item_of_openai_is_sent_back_with_its_companions(given: Any) -> None:
    request = asked("openai-responses", made(given, provider="openai"), Message.user("go on"), model=GPT)
    items = [given] if isinstance(given, dict) else given
    assert request["input"][: len(items)] == items
    assert len(request["input"]) == len(items) + 1


@pytest.mark.parametrize("api", ["openai-chat", "anthropic"])
def test_c3_item_without_text_is_not_sent_to_other_providers(api: str) -> None:
    sealed = made(ITEM, provider="openai")
    assert asked(api, sealed, Message.user("go on"), model=GPT) == asked(api, Message.user("go on"), model=GPT)


def of_omp(api: str, preserve: Any, *, model: str) -> dict[str, Any]:
    """Return the request for a file of omp with a compaction that keeps the first message."""
    chosen = entry("model_change", "m", "a", model=model)
    compacted = entry(
        "compaction", "c", "m", summary="sum", firstKeptEntryId="a", tokensBefore=9, preserveData=preserve
    )
    store = MemoryStore()
    sid = bring(store, pi_file(said("a", None), chosen, compacted, said("d", "c")), agent="omp").session
    return provider(api).request(build.context(ContextHistory(store, resolve(store, sid, "leaf").oid), "omp"))


def test_rule_13_replacement_history_of_openai_is_sent_back_to_openai() -> None:
    preserve = {"openaiRemoteCompaction": {"provider": "openai", "replacementHistory": [KEPT, ITEM]}}
    request = of_omp("openai-responses", preserve, model="openai/gpt")
    published.check("openai-responses", request)
    assert request["input"][:2] == [KEPT, ITEM]
    assert asking.texts_in(request["input"][2:])[-1] == "words of d"
    assert "sum" in json.dumps(of_omp("openai-responses", preserve, model="azure-openai-responses/gpt"))


def test_block_split_by_omp_is_sent_as_one_followed_by_the_kept_messages() -> None:
    stated = {"provider": "anthropic", "content": "We fixed it.", "encryptedContent": "opaque==", "filesText": "f"}
    first, second = of_omp("anthropic", {"anthropicCompaction": stated}, model="anthropic/claude")["messages"]
    block = {"type": "compaction", "content": "We fixed it.", "encrypted_content": "opaque=="}
    assert first == {"role": "assistant", "content": [block]}
    assert asking.texts_in(second["content"])[1::2] == ["words of a", "words of d"]


ODD = {
    "nothing": None,
    "a list": [1],
    "no provider": {"replay": {"items": [BLOCK]}},
    "no items": {"replay": {"provider": "anthropic", "items": 7}},
    "items that are none": {"replay": {"provider": "anthropic", "items": ["x"]}},
    "a block of no words": {"anthropicCompaction": {"provider": "anthropic", "content": ""}},
    "a provider of no name": {"openaiRemoteCompaction": {"provider": "", "replacementHistory": []}},
}


@pytest.mark.parametrize("api", asking.APIS)
@pytest.mark.parametrize("preserve", ODD.values(), ids=ODD)
def test_unknown_preserved_data_is_not_a_provider_compaction(api: str, preserve: Any) -> None:
    assert asked(api, Compaction(summary="sum", preserve=preserve)) == asked(api, Compaction(summary="sum"))
