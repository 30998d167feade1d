"""Tests of the state of a session in files of agents: what an export writes, an import reads again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import Clock, entry, header, joined, said
from hypothesis import given, settings
from hypothesis import strategies as st

from gitsession import Mark, Message, ModeChange, Permission, PlanChange, Session, SessionState, Todo, TodoItem
from gitsession.api import Store
from gitsession.formats import FORMATS
from gitsession.formats.base.jsonl import parse
from gitsession.model.entries import TODO_STATUSES, Entry

TEXTS = st.text(max_size=12)
ITEMS = st.builds(
    TodoItem,
    TEXTS,
    st.sampled_from(TODO_STATUSES),
    st.none() | TEXTS,
    st.none() | TEXTS,
    st.just({}) | st.dictionaries(TEXTS, st.integers(0, 9), max_size=1),
)
STATED: st.SearchStrategy[Entry] = st.one_of(
    st.builds(Todo, items=st.lists(ITEMS, max_size=4).map(tuple)),
    st.builds(
        Permission,
        decision=st.sampled_from(["allow", "deny", "ask"]),
        tool=st.none() | TEXTS,
        pattern=st.none() | TEXTS,
        scope=st.sampled_from(["once", "session", "always"]),
    ),
    st.builds(PlanChange, plan=st.none() | TEXTS),
    st.builds(Mark, name=TEXTS, value=st.none() | TEXTS),
    st.builds(ModeChange, mode=st.sampled_from(["plan", "default", "unheard of"])),
)


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[list[Store]]:
    with Store.create(tmp_path / "a.git", clock=Clock()) as one, Store.create(tmp_path / "b.git", clock=Clock()) as two:
        yield [one, two]


def session_with(store: Store, entries: list[Entry]) -> Session:
    session = store.new_session(agent="mine", cwd="/w")
    session.append(Message.user("begin"))
    for each in entries:
        session.append(each)
    session.append(Message.assistant("well"))
    return session


def imported(store: Store, agent: str, data: bytes) -> Session:
    return store.session(store.agents.import_data(FORMATS[agent], data).session)


def shown(session: Session) -> list[tuple[str, str]]:
    return [(getattr(each, "role", each.kind), each.text) for each in session.context().messages]  # type: ignore[union-attr]


@pytest.mark.parametrize("agent", ["pi", "omp"])
@settings(max_examples=30)
@given(entries=st.lists(STATED, max_size=6))
def test_state_comes_back_and_the_model_does_not_receive_it(
    stores: list[Store], agent: str, entries: list[Entry]
) -> None:
    session = session_with(stores[0], entries)
    other = imported(stores[1], agent, stores[0].export(session.id, to=agent).data)
    assert other.state() == session.state()
    assert shown(other) == shown(session) == [("user", "begin"), ("assistant", "well")]


def test_omp_takes_the_list_as_one_that_the_user_edited(stores: list[Store]) -> None:
    items = (TodoItem("Mend", "completed"), TodoItem("Test", "in_progress", "high", "7"), TodoItem("Rest", "cancelled"))
    session = session_with(stores[0], [Todo(items=items), Todo()])
    exported = stores[0].export(session.id, to="omp")
    edits = [line for each in exported.data.splitlines() if (line := parse(each)).get("customType") == "user_todo_edit"]
    assert [line["data"]["phases"] for line in edits] == [
        [
            {
                "name": "Todos",
                "tasks": [
                    {"content": "Mend", "status": "completed"},
                    {"content": "Test", "status": "in_progress", "priority": "high", "id": "7"},
                    {"content": "Rest", "status": "abandoned"},
                ],
            }
        ],
        [],
    ]
    assert not any("todo" in note for note in exported.notes)


@pytest.mark.parametrize("agent", ["claude", "codex", "opencode"])
def test_no_export_grants_a_permission_or_adds_a_call(stores: list[Store], agent: str) -> None:
    stated = [
        Permission(decision="allow", tool="bash", pattern="*", scope="always"),
        ModeChange(mode="bypassPermissions"),
        Todo(items=(TodoItem("Mend"),)),
    ]
    result = stores[0].export(session_with(stores[0], list(stated)).id, to=agent)
    exported, other = result.data, imported(stores[1], agent, result.data)
    assert shown(other) == [("user", "begin"), ("assistant", "well")]
    assert other.state().permissions == SessionState().permissions
    for word in (b"bypassPermissions", b"Mend", b'"permission"'):
        assert word not in exported
    assert len([note for note in result.notes if "left out: " in note]) == len(stated)


MALFORMED: dict[str, tuple[str, object]] = {
    "no list": ("todo", {"items": 1}),
    "items that are numbers": ("todo", {"items": [1]}),
    "a text that is a number": ("todo", {"items": [{"text": 1}]}),
    "no decision": ("permission", {"tool": "bash", "scope": "always"}),
    "a decision that is a list": ("permission", {"decision": ["allow"], "tool": "bash", "scope": "always"}),
    "a rule without a scope": ("permission", {"decision": "allow", "tool": "bash"}),
    "no name": ("mark", {"value": "x"}),
    "a mode that is true": ("mode_change", {"mode": True}),
    "an unknown kind": ("telepathy", {"mode": "plan"}),
    "no object": ("todo", [1]),
}


@pytest.mark.parametrize(("kind", "data"), MALFORMED.values(), ids=MALFORMED)
@pytest.mark.parametrize("agent", ["pi", "omp"])
def test_a_malformed_custom_entry_states_nothing(stores: list[Store], agent: str, kind: str, data: object) -> None:
    line = entry("custom", "b", "a", customType=f"gitsession:{kind}", data=data)
    session = imported(stores[0], agent, joined(header(), said("a", None), line))
    assert session.state() == SessionState()
