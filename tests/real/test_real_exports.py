"""Comparison of exports with the real pi and omp, which open and continue them.

It requires ``$LAB`` with the programs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import Clock, shared_files
from pi_drivers import LAB, ask_all, release

from gitsession import CompactionRequest, Message, Session, Store, SummaryOptions
from gitsession.compaction.summarizers.extractive import Extractive
from gitsession.context.providers import pi as as_pi
from gitsession.formats import FORMATS
from gitsession.formats.pi import messages
from gitsession.model.entries import Reset, ThinkingChange

__all__ = ["release"]

Fields = dict[str, Any]

pytestmark = pytest.mark.skipif(not LAB.is_dir(), reason="the real programs are not at hand")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git", clock=Clock()) as opened:
        yield opened


def agent_of(release: str) -> str:
    return "omp" if release == "omp" else "pi"


def ask(release: str, data: bytes, scratch: Path, **more: object) -> Fields:
    return ask_all(release, [{"text": data.decode("utf-8", "surrogateescape"), "raw": True, **more}], scratch)[0]


def assert_sees(answer: Fields, session: Session, release: str) -> None:
    ours = as_pi.request(session.context(profile=release))
    theirs = answer["context"]
    assert theirs["messages"] == ours["messages"]
    assert theirs["thinkingLevel"] == ours["thinkingLevel"]
    if release != "omp":  # a known difference of omp: a model change in pi's notation (docs/reference/context.md)
        assert theirs["model"] == ours["model"]
    assert answer["name"] == session.names().title


REAL = {f"{path.parent.name}/{path.name}": path for path in shared_files("pi", "omp")}


@pytest.mark.parametrize("path", REAL.values(), ids=REAL)
def test_real_agent_has_the_same_context_before_and_after_our_compaction(
    release: str, path: Path, store: Store, tmp_path: Path
) -> None:
    agent = path.parent.name
    if agent != agent_of(release):
        pytest.skip("another agent's")
    done = store.agents.import_data(FORMATS[agent], path.read_bytes(), final=True)
    session = store.session(done.session)
    before = store.export(session.id)
    assert before.data == path.read_bytes()
    assert_sees(ask(release, before.data, tmp_path), session, release)
    node = None
    for keep in (20_000, 2_000, 100, 1):
        plan = session.compaction.plan(profile=release, request=CompactionRequest(keep_tokens=keep))
        if not plan.nothing and (plan.history or plan.prefix) and plan.replaced > 400:
            node = session.compact(plan, SummaryOptions(summarizer=Extractive(), max_tokens=200))
            break
    if node is None:
        pytest.skip("too short to be compacted")
    after = store.export(session.id)
    assert_sees(ask(release, after.data, tmp_path), session, release)


@pytest.mark.parametrize("path", REAL.values(), ids=REAL)
def test_real_agent_and_the_session_continue_after_our_compaction(
    release: str, path: Path, store: Store, tmp_path: Path
) -> None:
    agent = path.parent.name
    if agent != agent_of(release):
        pytest.skip("another agent's")
    session = store.session(store.agents.import_data(FORMATS[agent], path.read_bytes(), final=True).session)
    session.append(Message.user("asked here"))
    ours = session.append(Message.assistant("answered here", provider="p", model="m"))
    session.label("leaf", "ours")
    session.rename("Ours")
    message = {"role": "user", "content": [{"type": "text", "text": "asked there"}], "timestamp": 1}
    usage = {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2}
    answer = {**message, "role": "assistant", "provider": "q", "model": "n", "stopReason": "stop"}
    answer |= {"usage": {**usage, "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}}}
    ops = [["appendMessage", message], ["appendMessage", {**answer, "api": "a"}]]
    ops += [["flush"]] if agent == "omp" else []
    answered = ask(release, store.export(session.id).data, tmp_path, ops=ops, disk=True)
    done = store.agents.import_data(FORMATS[agent], answered["disk"].encode())
    assert (done.session, done.new) == (session.id, 2)
    now = store.session(session.id)
    assert [node.subject for node in now.history()[-2:]] == ["user: asked there", "assistant: asked there"]
    assert now.history()[-3] == ours
    assert_sees(answered, now, release)
    assert store.export(session.id).data == answered["disk"].encode()


def test_real_agent_opens_an_own_session(release: str, store: Store, tmp_path: Path) -> None:
    session = store.new_session(agent="mine", cwd=str(tmp_path))
    session.append(Message.user("hi"))
    session.append(Message.assistant("hello", provider="p", model="m", stop="stop", usage=messages.usage({})))
    session.append(ThinkingChange(level="high"))
    session.append(Reset())
    session.append(Message.user("anew"))
    session.label("leaf", "here")
    session.rename("Mine")
    answer = ask(release, store.export(session.id, to=agent_of(release)).data, tmp_path)
    assert_sees(answer, session, release)
    assert list(answer["labels"].values()) == ["here"]
    assert (answer["sessionId"], answer["cwd"]) == (session.id, str(tmp_path))
