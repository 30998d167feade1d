"""Tests of rewinds beside other activity in the same folder: other rewinds, and unfinished calls."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from builders import Clock
from rewound import fill, put, snapshot, take_away, talk

from gitsession.api import Session, Store
from gitsession.errors import Refused
from gitsession.model.entries import Message
from gitsession.sessions.node import Node
from gitsession.workspace import place_file


@pytest.fixture
def store(tmp_path):
    with Store.create(tmp_path / "store.git", clock=Clock()) as made:
        yield made


@pytest.fixture
def folder(tmp_path):
    return fill(tmp_path / "work", {"a.txt": "one\n", "b.txt": "bee\n", "notes.md": "mine\n"})


def call(session: Session, folder: Path, **files: str | None) -> Node:
    """Run a call that writes ``files`` (``None`` deletes a file). Return the entry before it."""
    place = session.append(Message.user("do it"))
    with session.files.checkpoint(folder, call="call"):
        for name, content in files.items():
            if content is None:
                take_away(folder / f"{name}.txt")
            else:
                put(folder, f"{name}.txt", content)
    session.append(Message.assistant("done"))
    return place


def became(done) -> dict[str, str]:
    return {one.path: one.action for one in done.outcomes}


def test_concurrent_rewinds_wait_and_each_undoes_its_own_changes(tmp_path, store, folder, monkeypatch):
    first, second = talk(store, folder), talk(store, folder)
    begun = snapshot(folder)
    places = call(first, folder, a="first's\n"), call(second, folder, b="second's\n")
    changed = snapshot(folder)
    in_the_middle, waits = threading.Event(), threading.Event()
    real = place_file.StagedFile.put
    held = []

    def put_slowly(*words, **more):
        real(*words, **more)
        if not held:
            in_the_middle.set()
            assert waits.wait(60)
        held.append(snapshot(folder))

    monkeypatch.setattr(place_file.StagedFile, "put", put_slowly)
    with ThreadPoolExecutor(2) as threads, Store.open(store.objects.git_dir) as other:
        one = threads.submit(first.files.rewind, first.files.plan_rewind(places[0], workspace=folder))
        assert in_the_middle.wait(60)
        beside = other.session(second.id)
        plan = beside.files.plan_rewind(places[1], workspace=folder)
        two = threads.submit(beside.files.rewind, plan)
        waits.set()
        assert (became(one.result(60)), became(two.result(60))) == ({"a.txt": "written"}, {"b.txt": "written"})
    assert held[0][b"b.txt"] == changed[b"b.txt"]
    assert snapshot(folder) == begun and store.unfinished() == []
    store.undo(folder)
    store.undo(folder)
    assert snapshot(folder) == changed
    assert store.verify().problems == []


def test_later_of_two_sessions_must_be_rewound_first(store, folder):
    first, second = talk(store, folder), talk(store, folder)
    places = call(first, folder, a="two\n"), call(second, folder, a="three\n")
    plans = first.files.plan_rewind(places[0], workspace=folder), second.files.plan_rewind(places[1], workspace=folder)
    assert became(first.files.rewind(plans[0])) == {"a.txt": "left"}
    assert became(second.files.rewind(plans[1])) == {"a.txt": "written"}
    assert (folder / "a.txt").read_text() == "two\n"
    plan = first.files.plan_rewind(places[0], "files", workspace=folder)
    assert became(first.files.rewind(plan)) == {"a.txt": "written"}
    assert (folder / "a.txt").read_text() == "one\n"


def test_files_written_by_a_running_call_are_kept(store, folder):
    session = talk(store, folder)
    place = call(session, folder, a="two\n", b="bee two\n")
    with session.files.checkpoint(folder, call="runs"):
        put(folder, "a.txt", "the call's\n")
        put(folder, "new.txt", "the call's\n")
        done = session.files.rewind(session.files.plan_rewind(place, "files", workspace=folder))
        assert became(done) == {"a.txt": "left", "b.txt": "written"}
        put(folder, "late.txt", "the call's\n")
    written = {b"a.txt", b"new.txt", b"late.txt"}
    assert {name for name, kept in snapshot(folder).items() if kept[1] == b"the call's\n"} == written
    assert session.files.plan_rewind(place, "files", workspace=folder).is_empty
    store.undo(folder)
    assert (folder / "b.txt").read_text() == "bee two\n"
    assert {name for name, kept in snapshot(folder).items() if kept[1] == b"the call's\n"} == written


def test_rewind_of_another_session_is_not_attributed_to_a_running_call(store, folder):
    first, second = talk(store, folder), talk(store, folder)
    place = call(first, folder, a="two\n")
    asked = second.append(Message.user("do it"))
    with second.files.checkpoint(folder, call="runs"):
        put(folder, "b.txt", "second's\n")
        first.files.rewind(first.files.plan_rewind(place, "files", workspace=folder))
    assert became(second.files.rewind(second.files.plan_rewind(asked, "files", workspace=folder))) == {
        "a.txt": "left",
        "b.txt": "written",
    }
    assert (folder / "a.txt").read_text() == "one\n"


@pytest.mark.parametrize("meanwhile", ["a label", "an answer"])
def test_undo_with_concurrent_changes_is_rejected_without_effect(store, folder, monkeypatch, meanwhile):
    session = talk(store, folder)
    place = call(session, folder, a="two\n", b=None)
    changed = snapshot(folder)
    session.files.rewind(session.files.plan_rewind(place, workspace=folder))
    rewound = snapshot(folder)
    real = place_file.StagedFile.put

    def put_and(*words, **more):
        real(*words, **more)
        patch.undo()
        if meanwhile == "a label":
            session.label("leaf", "here")
        else:
            session.append(Message.user("and now?"))

    with monkeypatch.context() as patch:
        patch.setattr(place_file.StagedFile, "put", put_and)
        with pytest.raises(Refused, match="the changes to files were reverted"):
            store.undo(folder)
    assert (snapshot(folder), store.unfinished()) == (rewound, [])
    if meanwhile == "a label":
        assert store.undo(folder).operation.command.startswith("label")
        store.undo(folder)
        assert snapshot(folder) == changed
    assert store.verify().problems == []
