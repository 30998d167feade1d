"""Tests of sessions from other people: the workspace path in them is no permission to write there."""

from __future__ import annotations

import pytest
from checkpoints import held
from rewound import fill, snapshot, talk
from workspaces import git

from gitsession.api import Store
from gitsession.errors import NotFound
from gitsession.model.entries import Message


@pytest.fixture
def keys(tmp_path):
    return fill(tmp_path / "home/keys", {"id": "mine"})


@pytest.fixture
def planted(tmp_path, keys):
    """Create a store with a fetched session that claims to have deleted files from ``keys`` that never existed."""
    with Store.create(tmp_path / "theirs.git") as theirs:
        session = talk(theirs, tmp_path / "elsewhere", "hi")
        held(theirs.objects, session.id, {"id": "mine", "more": "theirs"}, session.leaf, workspace=str(keys))
        session.append(Message.user("more"))
        held(theirs.objects, session.id, {"id": "mine"}, session.leaf, "after", workspace=str(keys))
    with Store.create(tmp_path / "mine.git"):
        pass
    every = "refs/heads/sessions/*:refs/heads/sessions/*"
    git(tmp_path / "mine.git", "fetch", "-q", str(tmp_path / "theirs.git"), every)
    with Store.open(tmp_path / "mine.git") as store:
        yield store.session(session.id)


@pytest.mark.parametrize("stands", ["beside", "below"])
def test_a_rewind_writes_to_no_folder_that_only_the_session_names(planted, keys, tmp_path, monkeypatch, stands):
    at = keys.parent if stands == "beside" else keys / "deeper"
    at.mkdir(exist_ok=True)
    monkeypatch.chdir(at)
    before = snapshot(tmp_path / "home")
    with pytest.raises(NotFound, match="no snapshot of"):
        planted.files.rewind(planted.files.plan_rewind("leaf", "files"))
    with pytest.raises(NotFound):
        planted.files.abort_rewind()
    assert snapshot(tmp_path / "home") == before


def test_workspace_before_the_first_scan_is_the_sessions_folder(tmp_path, monkeypatch):
    work = fill(tmp_path / "work", {"a": "1"})
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with Store.create(tmp_path / "store.git") as store:
        session = store.new_session(agent="agent", cwd=str(work))
        session.append(Message.user("hi"))
        session.files.take_checkpoint("before")
        assert session.files.at("leaf").read("a") == b"1"
        nowhere = store.new_session(agent="agent")
        nowhere.append(Message.user("hi"))
        with pytest.raises(NotFound, match="the session has no recorded folder"):
            nowhere.files.take_checkpoint("before")


def test_rewind_writes_to_the_current_or_named_folder(planted, keys, monkeypatch):
    assert planted.files.plan_rewind("leaf", "files", workspace=keys).workspace == str(keys)
    monkeypatch.chdir(keys)
    planted.files.rewind(planted.files.plan_rewind("leaf", "files"))
    assert (keys / "more").read_text() == "theirs"
