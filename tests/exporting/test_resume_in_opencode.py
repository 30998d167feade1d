"""Tests of resume in opencode, which imports into its own database: its content decides whether that is allowed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from builders import Clock, begun, bring, entry, pi_file, session, talk
from builders import said as said_by_pi
from opencode_files import Database, Message, answer, compaction, export, info, tool, user

from gitsession.discovery import databases, sources
from gitsession.errors import Malformed, Refused, Unavailable
from gitsession.exporting import resume
from gitsession.formats import Workspace
from gitsession.formats.opencode.agent import opencode
from gitsession.importing.import_session import import_source
from gitsession.model import entries
from gitsession.store.interface import ObjectStore
from gitsession.store.memory import MemoryStore

ONE = [user("msg_u1", "One", at=1), answer("msg_a1", "First.", at=2, parts=[tool("call_1")])]
TWO = [user("msg_u2", "Two", at=3), answer("msg_a2", "Second.", at=4)]


@pytest.fixture
def where(tmp_path: Path) -> Workspace:
    (tmp_path / "home/.local/share/opencode").mkdir(parents=True)
    return resume.workspace(tmp_path, tmp_path / "home", {})


@pytest.fixture
def theirs(where: Workspace) -> Database:
    return Database(Path(where.home, ".local/share/opencode/opencode.db"))


@pytest.fixture
def store() -> ObjectStore:
    return MemoryStore()


def held(store: ObjectStore, *messages: Message, **about: Any) -> str:
    return bring(store, export(messages, info(**about))).session


def placed(store: ObjectStore, sid: str, where: Workspace, at: str = "") -> resume.ResumePlan:
    node = session(store, sid).resolve(at) if at else None
    found = resume.plan(store, sid, "opencode", node, where, {})
    resume.perform(found)
    return found


def said(found: resume.ResumePlan) -> dict[str, Any]:
    return dict(json.loads(found.file.read_bytes()))


def ids(document: dict[str, Any]) -> set[str]:
    return {each["id"] for message in document["messages"] for each in (message["info"], *message["parts"])}


# ---- sessions in the database


def test_messages_in_the_database_do_not_block_resume(store: ObjectStore, where: Workspace, theirs: Database) -> None:
    sid = held(store, *ONE, *TWO)
    for messages in ([], ONE, [*ONE, *TWO]):
        theirs.put(messages, info(title="Another", time={"created": 1, "updated": 2}))
        assert placed(store, sid, where).id == "ses_one"


def test_session_continued_by_opencode_is_rejected_until_it_is_imported(
    store: ObjectStore, where: Workspace, theirs: Database
) -> None:
    sid = held(store, *ONE)
    theirs.put([*ONE, *TWO])
    with pytest.raises(Refused, match="the agent has continued") as refused:
        placed(store, sid, where)
    assert refused.value.hint == f"run `gitsession import {theirs.path}` first"
    assert not Path(where.home, ".local/share/gitsession").exists()
    for found in sources.at(theirs.path):
        import_source(store, found.format, found.load().source)
    assert len(said(placed(store, sid, where))["messages"]) == 4


def test_unfinished_answer_can_be_resumed(store: ObjectStore, where: Workspace, theirs: Database) -> None:
    sid = held(store, *ONE)
    theirs.put([*ONE, TWO[0], answer("msg_a2", "Sec", at=4, done=False)])
    with pytest.raises(Refused, match="the agent has continued"):
        placed(store, sid, where)


def test_session_with_other_content_is_rejected(store: ObjectStore, where: Workspace, theirs: Database) -> None:
    sid = held(store, *ONE)
    theirs.put([user("msg_u1", "Mine", at=1), ONE[1]])
    with pytest.raises(Refused, match="already contains a different version"):
        placed(store, sid, where)


def test_a_database_that_cannot_be_read_is_named(store: ObjectStore, where: Workspace) -> None:
    sid = held(store, *ONE)
    path = Path(where.home, ".local/share/opencode/opencode.db")
    path.write_bytes(b"SQLite format 3\0" + bytes(500))
    with pytest.raises(Malformed, match=f"{path}: .*damaged"):
        placed(store, sid, where)


def test_a_locked_database_is_named(
    store: ObjectStore, where: Workspace, theirs: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "PATIENCE_SECONDS", 0.01)
    sid = held(store, *ONE)
    theirs.db.execute("BEGIN EXCLUSIVE")
    with pytest.raises(Unavailable, match=f"{theirs.path}: .*locked"):
        placed(store, sid, where)


def test_no_other_programs_database_and_no_other_file_counts(store: ObjectStore, where: Workspace) -> None:
    folder = Path(where.home, ".local/share/opencode")
    Database(folder / "opencode-x.db").db.execute("DROP TABLE message")
    (folder / "opencode-y.db").write_bytes(b"no database")
    assert placed(store, held(store, *ONE), where).existing_bytes is None


def test_a_variable_moves_the_database_and_the_file(store: ObjectStore, where: Workspace, tmp_path: Path) -> None:
    sid, moved = held(store, *ONE), tmp_path / "moved"
    (moved / "opencode").mkdir(parents=True)
    environment = {"XDG_DATA_HOME": str(moved)}
    found = resume.plan(store, sid, None, None, where, environment)
    assert found.file.parent == moved / "gitsession/opencode"
    Database(moved / "opencode/opencode.db").put([*ONE, *TWO])
    with pytest.raises(Refused, match="the agent has continued"):
        resume.plan(store, sid, None, None, where, environment)


def test_note_reports_that_a_result_is_not_marked(store: ObjectStore, where: Workspace, theirs: Database) -> None:
    sid = held(store, *ONE)
    session(store, sid, clock=Clock()).append(entries.Prune(targets=("msg_a1",)))
    assert not placed(store, sid, where).export.notes
    theirs.put(ONE)
    assert placed(store, sid, where).export.notes == {resume.UNMARKED_PRUNES: 1}


# ---- the written file


def test_another_folder_only_changes_the_header(store: ObjectStore, where: Workspace) -> None:
    was = json.loads(export(ONE))
    found = said(placed(store, held(store, *ONE), where))
    assert found == {**was, "info": {**was["info"], "directory": where.cwd}}


def test_later_entries_become_a_separate_file(store: ObjectStore, where: Workspace) -> None:
    sid = held(store, *ONE)
    first = placed(store, sid, where)
    session(store, sid, clock=Clock()).append(entries.Message.user("here"))
    second = placed(store, sid, where)
    assert (second.id, second.commands[1]) == (first.id, first.commands[1])
    assert second.file != first.file
    assert len(said(second)["messages"]) == 3
    assert placed(store, sid, where).is_complete


def test_export_from_an_earlier_entry_has_new_ids(store: ObjectStore, where: Workspace) -> None:
    picture = {"id": "prt_x", "sessionID": "ses_one", "messageID": "msg_a1", "type": "file", "mime": "image/png"}
    seen = {**picture, "url": "data:image/png;base64,AAAA"}
    kept = [ONE[0], answer("msg_a1", "First.", at=2, parts=[tool("call_1", attachments=[seen])])]
    sid = held(store, *kept, *compaction("msg_c", "msg_s", "Sum", at=5, tail="msg_a1"), *TWO, revert={"messageID": "x"})
    whole, part = (said(placed(store, sid, where, at)) for at in ("", "leaf~1"))
    assert not ids(whole) & ids(part)
    text = json.dumps(part)
    assert not any(f'"{id}"' in text for id in (*ids(whole), "ses_one"))
    assert "revert" in whole["info"]
    assert "revert" not in part["info"]
    one, other, asked = (message["info"]["id"] for message in part["messages"][:3])
    assert part["messages"][1]["info"]["parentID"] == one
    assert part["messages"][2]["parts"][0]["tail_start_id"] == other
    assert part["messages"][3]["info"]["parentID"] == asked
    there = bring(MemoryStore(), json.dumps(part).encode(), agent="opencode", final=True)
    assert not there.problems
    assert there.entries == 4


def test_grown_session_of_another_agent_gets_new_ids(store: ObjectStore, where: Workspace) -> None:
    lines = talk("a", "b", "c", "d")
    sid = bring(store, pi_file(*lines[:2])).session
    first = said(placed(store, sid, where))
    bring(store, pi_file(*lines))
    second = said(placed(store, sid, where))
    assert first["info"]["id"] != second["info"]["id"]
    assert not ids(first) & ids(second)


def test_id_with_a_parent_path_is_escaped(store: ObjectStore, where: Workspace) -> None:
    sid = bring(store, export(ONE, info(id="ses/../../../x"))).session
    assert placed(store, sid, where).file.parent == Path(where.home, ".local/share/gitsession/opencode")


@pytest.mark.parametrize("data", [b"", b"[]", b'{"info": 1}', b'{"info": {"id": 1}, "messages": [1, {"info": {}}]}'])
def test_invalid_export_does_not_raise(data: bytes) -> None:
    assert isinstance(opencode.relocate(data, "ses_two", "/work"), bytes)


# ---- the title


@pytest.mark.parametrize(
    ("words", "title"),
    [
        (["  Fix the\tparser\nand its tests", "Go on"], "Fix the parser"),
        (["word " * 40], ("word " * 13).rstrip() + "…"),
        (["", "Go on"], "Go on"),
        ([""], "Untitled"),
    ],
    ids=["its first line", "cut", "the first with words", "no words"],
)
def test_a_session_without_a_title_is_called_by_its_first_prompt(
    words: list[str], title: str, store: ObjectStore, where: Workspace
) -> None:
    made = begun(store, *words)
    assert said(placed(store, made.id, where))["info"]["title"] == title
    if words[0]:
        assert made.history()[1].subject == f"user: {title}"  # the listing shows this title


def test_a_title_counts_before_the_first_prompt(store: ObjectStore, where: Workspace) -> None:
    made = begun(store, "Fix the parser")
    made.rename("A title")
    assert said(placed(store, made.id, where))["info"]["title"] == "A title"


def test_a_prompt_that_the_model_is_not_shown_is_no_title(store: ObjectStore, where: Workspace) -> None:
    edit = entry("context_edit", "b", "a", 3, targetId="a", replacement=None)
    data = pi_file(said_by_pi("a", None, "HIDE"), edit, said_by_pi("c", "b", "Q2"))
    assert said(placed(store, bring(store, data).session, where))["info"]["title"] == "Q2"
