"""Tests of the data that opencode stores outside of a session's messages: rows and files."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from commands import Run
from opencode_files import SES, START_MS, Database, answer, export, info, tool, user

import gitsession
from gitsession import TodoItem
from gitsession.discovery import databases
from gitsession.errors import GitSessionError
from gitsession.formats.opencode import side_files, split_file
from gitsession.sessions.attached_files import SessionAttachments

SECRET = "share-secret-0123456789"
URL = "https://opncd.ai/s/abc"

TABLES = """
DROP TABLE IF EXISTS session_share;
CREATE TABLE session_share (
    session_id TEXT PRIMARY KEY, id TEXT NOT NULL, secret TEXT NOT NULL, url TEXT NOT NULL,
    time_created INTEGER NOT NULL, time_updated INTEGER NOT NULL);
CREATE TABLE todo (
    session_id TEXT NOT NULL, content TEXT NOT NULL, status TEXT NOT NULL, priority TEXT NOT NULL,
    position INTEGER NOT NULL, time_created INTEGER NOT NULL, time_updated INTEGER NOT NULL,
    PRIMARY KEY (session_id, position));
CREATE TABLE permission (
    id TEXT PRIMARY KEY, project_id TEXT NOT NULL, action TEXT NOT NULL, resource TEXT NOT NULL,
    time_created INTEGER NOT NULL, time_updated INTEGER NOT NULL);
"""
"""The tables of opencode 1.18.33."""


def database(path: Path) -> sqlite3.Connection:
    """Create a database with one session that has a to-do list, a shared copy and permissions."""
    made = Database(path)
    made.put([user("msg_u1", "Go", at=1), answer("msg_a1", "Done", at=2)])
    db = made.db
    db.executescript(TABLES)
    db.execute("INSERT INTO session_share VALUES (?, 'abc', ?, ?, 1, 1)", (SES, SECRET, URL))
    for at, (content, status) in enumerate([("Write tests", "pending"), ("Mend the parser", "in_progress")]):
        db.execute("INSERT INTO todo VALUES (?, ?, ?, 'high', ?, 1, 1)", (SES, content, status, 1 - at))
    db.execute("INSERT INTO todo VALUES ('ses_other', 'Not mine', 'pending', 'low', 0, 1, 1)")
    db.execute("INSERT INTO permission VALUES ('psv_1', 'p1', 'bash', 'git push *', 1, 1)")
    db.execute("INSERT INTO permission VALUES ('psv_2', 'p2', 'bash', 'another project', 1, 1)")
    return db


def documents(path: Path, id: str = SES) -> dict[str, Any]:
    with databases.opened(path) as opened:
        assert opened.format is not None
        found = dict(opened.format.documents(opened.query, opened.columns, id))
    return {name: json.loads(data) if data else None for name, data in found.items()}


def test_rows_of_a_session_become_documents(tmp_path: Path) -> None:
    database(tmp_path / "opencode.db").close()
    assert documents(tmp_path / "opencode.db") == {
        "opencode.db/todo": [
            {"content": "Mend the parser", "status": "in_progress", "priority": "high"},
            {"content": "Write tests", "status": "pending", "priority": "high"},
        ],
        "opencode.db/permission": [{"action": "bash", "resource": "git push *"}],
        "opencode.db/session_share": [{"url": URL}],
    }


def test_missing_rows_and_tables_are_no_documents(tmp_path: Path) -> None:
    db = database(tmp_path / "opencode.db")
    db.executescript("DELETE FROM todo; DROP TABLE permission; ALTER TABLE session_share RENAME COLUMN url TO link")
    db.close()
    assert documents(tmp_path / "opencode.db") == {"opencode.db/todo": None}


@pytest.mark.parametrize("column", ["secret", "id", "*", "rowid, secret"])
def test_the_secret_of_a_shared_copy_cannot_be_read(tmp_path: Path, column: str) -> None:
    database(tmp_path / "opencode.db").close()
    with databases.opened(tmp_path / "opencode.db") as opened:
        assert set(opened.columns["session_share"]) == {"session_id", "url", "time_updated"}
        with pytest.raises(GitSessionError, match="prohibited"):
            list(opened.query(f"SELECT {column} FROM session_share"))


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE todo SET status = 'completed', time_updated = 2 WHERE session_id = 'ses_one' AND position = 1",
        "DELETE FROM session_share",
    ],
)
def test_a_changed_document_changes_the_stamp_of_its_session(tmp_path: Path, change: str) -> None:
    path = tmp_path / "opencode.db"
    db = database(path)

    def stamps() -> list[object]:
        with databases.opened(path) as opened:
            assert opened.format is not None
            return list(opened.format.session_stamps(opened.query, opened.columns))

    before = stamps()
    assert stamps() == before
    db.execute(change)
    assert stamps() != before
    db.close()


def test_values_of_any_type_become_json(tmp_path: Path) -> None:
    db = database(tmp_path / "opencode.db")
    db.execute("UPDATE todo SET content = x'ff00', status = 1.5 WHERE session_id = 'ses_one'")
    db.close()
    assert documents(tmp_path / "opencode.db")["opencode.db/todo"][0] == {
        "content": "\ufffd\0", "status": "1.5", "priority": "high",
    }  # fmt: skip


def paths(*outputs: str, id: str = SES) -> list[str]:
    """Return the paths of the side files of a session whose tool results have the texts ``outputs``."""
    parts = [tool(f"c{at}", text) for at, text in enumerate(outputs)]
    messages = [user("msg_u1", "Go", at=1), answer("msg_a1", "Done", at=2, parts=parts)]
    about = {**info(), "id": id, "time": {"created": START_MS, "updated": START_MS}}
    return side_files.paths(split_file.split(export(messages, about)))


def test_files_of_a_session_are_named_by_its_id_and_its_results() -> None:
    saved = "...output truncated...\n\nFull output saved to: /h/data/opencode/tool-output/tool_20e5d9fcc001pIH\n"
    assert paths(saved, saved) == ["storage/session_diff/ses_one.json", "tool-output/tool_20e5d9fcc001pIH"]
    assert paths() == ["storage/session_diff/ses_one.json"]


@pytest.mark.parametrize(
    "text",
    ["/tool-output/tool_../../x", "/tool-output/../tool_a/x/..", "/tool-output/tool_a.b", "x/tool_a", "/tool-output/a"],
)
def test_a_path_that_leaves_the_folder_of_outputs_is_no_file(text: str) -> None:
    assert paths(text) == ["storage/session_diff/ses_one.json"]


@pytest.mark.parametrize("id", ["ses/../../x", "ses_" + "a" * 200, "ses\0", "ses é"])
def test_an_id_that_is_no_file_name_has_no_list_of_changes(id: str) -> None:
    assert paths(id=id) == []


# ---- the whole way: import, show, resume

OUTPUT = "tool-output/tool_20e5d9fcc001pIH"
DIFFS = f"storage/session_diff/{SES}.json"
CHANGED = b'[{"file": "a.py", "additions": 3, "deletions": 1}]'


@pytest.fixture
def folder(isolated_home: Path) -> Path:
    """Create opencode's data folder with a session and its side files."""
    found = isolated_home / "data/opencode"
    for name, data in ((OUTPUT, b"1\n2\n3\n"), (DIFFS, CHANGED), ("tool-output/tool_other", b"not mine")):
        (found / name).parent.mkdir(parents=True, exist_ok=True)
        (found / name).write_bytes(data)
    db = database(found / "opencode.db")
    part = json.dumps(tool("c1", f"Full output saved to: {found}/{OUTPUT}"))
    db.execute("INSERT INTO part VALUES ('prt_out', 'msg_a1', ?, 1, 1, ?)", (SES, part))
    db.close()
    return found


def take(run: Run) -> tuple[str, list[str]]:
    """Import all sessions. Return the id of the session and the names of its new side files."""
    [found] = json.loads(run("--store", "s.git", "import", "--all", "--json"))["sessions"]
    return found["session"], found["side_files"]


def stored(here: Path, sid: str) -> dict[str, bytes]:
    """Return the newest content of each side file in the store."""
    with gitsession.Store.open(here / "s.git") as store:
        attachments = SessionAttachments(store.objects, sid)
        return {name: attachments.get(name) or b"" for name in attachments.nodes}


def test_side_files_of_opencode_are_stored(folder: Path, here: Path, run: Run) -> None:
    sid, added = take(run)
    assert added == sorted(["opencode.db/permission", "opencode.db/session_share", "opencode.db/todo", DIFFS, OUTPUT])
    found = stored(here, sid)
    assert found[OUTPUT] == b"1\n2\n3\n"
    assert found[DIFFS] == CHANGED
    assert json.loads(found["opencode.db/todo"])[0]["content"] == "Mend the parser"
    assert SECRET.encode() not in b"".join(found.values())


def test_a_changed_list_is_stored_again_and_its_removal_too(folder: Path, here: Path, run: Run) -> None:
    take(run)
    assert json.loads(run("--store", "s.git", "import", "--all", "--json"))["sessions"] == []
    contents = []
    for change in ("UPDATE todo SET status = 'completed', time_updated = 2", "DELETE FROM todo"):
        with sqlite3.connect(folder / "opencode.db") as db:
            db.execute(f"{change} WHERE session_id = ?", (SES,))
        sid, added = take(run)
        assert added == ["opencode.db/todo"]
        contents.append(stored(here, sid)["opencode.db/todo"])
    assert json.loads(contents[0])[0]["status"] == "completed"
    assert contents[1] == b""


def test_rows_of_todos_and_permissions_are_the_current_state(folder: Path, here: Path, run: Run) -> None:
    sid, _ = take(run)
    with gitsession.Store.open(here / "s.git") as store:
        state, first = store.session(sid).state(), store.session(sid).state("root")
    todos = (
        TodoItem("Mend the parser", "in_progress", "high"),
        TodoItem("Write tests", "pending", "high"),
    )
    assert (state.todos, state.permissions) == (todos, {"bash(git push *)": "allow"})
    assert (first.todos, first.permissions) == ((), {"bash(git push *)": "allow"})
    shown = run("--store", "s.git", "show", sid, "--state")
    assert "[>] Mend the parser" in shown
    assert "allow bash(git push *)" in shown


def test_a_list_in_the_history_comes_before_the_rows(folder: Path, here: Path, run: Run) -> None:
    sid, _ = take(run)
    with gitsession.Store.open(here / "s.git") as store:
        session = store.session(sid)
        session.append(gitsession.Todo(items=(TodoItem("Own"),)))
        assert session.state().todos == (TodoItem("Own"),)


MALFORMED = {
    "no JSON": b"{",
    "too deep": b"[" * 100_000,
    "a number": b"1",
    "numbers": b"[1, 2]",
    "no text": b'[{"content": 1, "action": 2, "resource": []}]',
    "empty": b"",
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.parametrize("name", side_files.STATES)
def test_a_malformed_document_states_nothing(name: str, data: bytes) -> None:
    found = side_files.stated(name, data)
    assert not found.todos
    assert not found.permissions


def test_a_session_without_side_files_stores_none(folder: Path, here: Path, run: Run) -> None:
    with sqlite3.connect(folder / "opencode.db") as db:
        db.executescript("DELETE FROM todo; DELETE FROM permission; DELETE FROM session_share; DELETE FROM part")
    shutil.rmtree(folder / "storage")
    sid, added = take(run)
    assert added == []
    assert stored(here, sid) == {}


def test_resume_writes_the_files_back_and_overwrites_none(folder: Path, run: Run) -> None:
    sid, _ = take(run)
    (folder / OUTPUT).unlink()
    (folder / DIFFS).write_bytes(b"[]")
    run("--store", "s.git", "resume", sid, "--in", "opencode")
    assert (folder / OUTPUT).read_bytes() == b"1\n2\n3\n"
    assert (folder / DIFFS).read_bytes() == b"[]"


@pytest.mark.parametrize(
    "name",
    ["tool-output/../x", "tool-output/tool_a/../../x", "tool-output/tool_", "storage/session_diff/../x.json",
     "opencode.db", "opencode.db/todo", "storage/session_diff/a.json/b", "/etc/passwd", "tool-output/tool_a\n"],
)  # fmt: skip
def test_a_name_that_is_no_side_file_is_not_written(name: str) -> None:
    assert side_files.path_of(name, SES) is None


def test_a_link_in_place_of_an_output_is_not_read(folder: Path, here: Path, run: Run) -> None:
    (here / "secret.txt").write_text("do not read me")
    (folder / OUTPUT).unlink()
    (folder / OUTPUT).symlink_to(here / "secret.txt")
    sid, added = take(run)
    assert OUTPUT not in added
    assert OUTPUT not in stored(here, sid)


def test_a_damaged_table_of_todos_does_not_stop_the_import(folder: Path, run: Run) -> None:
    path = folder / "opencode.db"
    with sqlite3.connect(path) as db:
        ((root,),) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'todo'")
        ((size,),) = db.execute("PRAGMA page_size")
    with path.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xff" * size)
    _, added = take(run)
    assert OUTPUT in added
    assert "opencode.db/todo" not in added
