"""Tests of opencode's sessions: exports, its database and the older folders; growing, rewritten, damaged."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from builders import (
    SHARED,
    all_refs,
    assert_clean,
    bring,
    exported,
    moved_forward,
    session,
    session_refs,
    title_of,
)
from hypothesis import given
from hypothesis import strategies as st
from mutation import mutant
from opencode_cases import marked
from opencode_files import (
    OLD_COLUMNS,
    SES,
    START_MS,
    Database,
    Message,
    answer,
    compaction,
    export,
    folders,
    info,
    tool,
    user,
)

from gitsession.discovery import databases, sources
from gitsession.errors import GitSessionError, Malformed, Unavailable
from gitsession.formats import FORMATS, claimed
from gitsession.formats.opencode.agent import opencode
from gitsession.formats.opencode.json_text import compact, laid_out
from gitsession.importing.import_session import ImportResult, import_source
from gitsession.model import entries
from gitsession.model.blocks import Image, Text, Thinking, ToolCall
from gitsession.model.results import unfold
from gitsession.sessions import graph
from gitsession.sessions.meta import meta_of
from gitsession.store import refs
from gitsession.store.interface import ObjectStore
from gitsession.store.memory import MemoryStore

REAL = sorted((SHARED / "sessions" / "opencode").rglob("*.json"))

DIFFS = {"diffs": [{"file": "a.py", "patch": "+1\n", "additions": 1, "deletions": 0, "status": "added"}]}
TALK = [
    user("msg_u1", "Fix it", at=1, summary=DIFFS),
    answer("msg_a1", "Reading.", at=2, parts=[tool("call_1", "14\n15\n")], finish="tool-calls"),
    answer("msg_a2", "Done.", at=3),
    user("msg_u2", "Thanks", at=4),
    answer("msg_a3", "Any time.", at=5),
]


def from_database(path: Path, store: ObjectStore | None = None, *, final: bool = False) -> list[ImportResult]:
    store = store or MemoryStore()
    return [import_source(store, found.format, found.load().source) for found in sources.at(path, final=final)]


def of_database(path: Path, messages: Iterable[Message], about: Mapping[str, Any] | None = None) -> Path:
    made = Database(path)
    made.put(messages, about)
    made.close()
    return path


def words_on(store: ObjectStore, sid: str, branch: str | None = None) -> list[str]:
    return [node.subject for node in session(store, sid, branch).history()[1:]]


def ids_of(store: ObjectStore, sid: str) -> list[str | None]:
    return [node.source.id for node in session(store, sid, refs.MAIN).history() if node.source]


def entry_refs(store: ObjectStore) -> dict[str, str]:
    return {name: value for name, value in session_refs(store).items() if not name.endswith("/meta")}


# ---- exports and their records


ODD = [
    user("msg_u1", 'Grüße \U0001f600 \u2028 \\ " \u0001', at=1, empty={}, none=[], deep={"a": [[], {}, [{"b": []}]]}),
    answer("msg_a1", "Done.", at=2, cost=0.1),
]


@pytest.mark.parametrize("messages", [TALK, ODD, []], ids=["a talk", "odd values", "no messages"])
def test_export_is_byte_identical(messages: list[Message]) -> None:
    store, data = MemoryStore(), export(messages)
    sid = bring(store, data).session
    assert exported(store, sid) == data
    assert_clean(store)
    assert not any(node.source and node.source.line > 2**30 for node in meta_of(store, sid).nodes)


OTHERWISE = {
    "minified": lambda data: compact(data.decode()).encode(),
    "indented by four": lambda data: json.dumps(json.loads(data), indent=4).encode(),
    "with carriage returns": lambda data: data.replace(b"\n", b"\r\n"),
    "with a byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "without its last line end": lambda data: data[:-1],
    "with other members": lambda data: json.dumps(
        {"info": info(), "messages": [{"info": {"id": "msg_u1", **TALK[0]["info"]}, "parts": []}]}, indent=2
    ).encode(),
    "with a member more": lambda data: data[:-3] + b',\n  "more": 1e-7\n}\n',
    "with numbers of another language": lambda data: data.replace(b'"cost": 0.25', b'"cost": 2.50E-1'),
    "with a key twice": lambda data: data.replace(b'"mode": "build"', b'"mode": "plan",\n        "mode": "build"', 1),
    "with messages that are none": lambda data: b'{"info": {"id": "ses_x"}, "messages": [1, null, {"a": 2}, []]}',
}


@pytest.mark.parametrize("change", OTHERWISE.values(), ids=OTHERWISE)
@pytest.mark.parametrize("final", [False, True])
def test_document_with_another_layout_is_exported_byte_identical(change: Any, final: bool) -> None:
    store, data = MemoryStore(), change(export(TALK))
    sid = bring(store, data, agent="opencode", final=final).session
    assert exported(store, sid) == data
    assert_clean(store)


def test_layout_of_a_document_does_not_change_entries() -> None:
    stores = [MemoryStore(), MemoryStore(), MemoryStore()]
    for store, change in zip(stores, (bytes, OTHERWISE["minified"], OTHERWISE["indented by four"]), strict=True):
        bring(store, change(export(TALK)))
    assert entry_refs(stores[0]) == entry_refs(stores[1]) == entry_refs(stores[2])


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_real_exports_are_byte_identical(path: Path) -> None:
    store, data = MemoryStore(), path.read_bytes()
    assert exported(store, bring(store, data).session) == data
    assert_clean(store)


@pytest.mark.parametrize("seed", range(300))
def test_damaged_document_is_rejected_or_exported_unchanged(seed: int) -> None:
    data = mutant(random.Random(seed), export([*TALK, *compaction("msg_c", "msg_s", "So far.", at=6, tail="msg_u2")]))
    store = MemoryStore()
    try:
        sid = bring(store, data, agent="opencode", final=bool(seed % 2)).session
    except Malformed as error:
        assert str(error)
    else:
        assert exported(store, sid) == data
        assert_clean(store)


NO_SESSION = {
    "nothing": b"",
    "half an export": export(TALK)[:700],
    "no object": b"[1]",
    "no messages": b'{"info": {"id": "ses_x"}}',
    "messages that are no list": b'{"info": {"id": "ses_x"}, "messages": {}}',
    "a session without an id": b'{"info": {"id": 7}, "messages": []}',
    "not UTF-8": b'{"info": {"id": "\xff"}, "messages": []}',
    "nested too deeply": b'{"info": {"id": "s"}, "messages": [' + b"[" * 5_000 + b"]" * 5_000 + b"]}",
}


@pytest.mark.parametrize("data", NO_SESSION.values(), ids=NO_SESSION)
def test_invalid_session_is_rejected(data: bytes) -> None:
    with pytest.raises(Malformed):
        opencode.split(data)


def test_export_is_detected_by_its_beginning() -> None:
    assert claimed(export(TALK)) is FORMATS["opencode"]
    assert claimed(compact(export(TALK).decode()).encode()) is FORMATS["opencode"]
    assert claimed(b'{"type": "session", "id": "x"}\n') is not FORMATS["opencode"]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=30,
    )
)
def test_json_is_laid_out_as_the_agent_does_it(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    assert laid_out(compact(text)) == text


@given(st.binary())
def test_any_bytes_have_a_view_and_a_headline(payload: bytes) -> None:
    assert isinstance(opencode.read(payload), entries.Entry)
    assert opencode.headline(payload).label


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.sampled_from(["user", "assistant", "tool", "compaction", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from([
            "info", "parts", "role", "type", "text", "state", "time", "created", "compacted", "messages", "metadata",
            "waiting", "id", "callID", "tool", "status", "error", "url", "attachments", "data", "tokens", "cache",
        ]), inner, max_size=6),
    max_leaves=40,
)  # fmt: skip


@given(_VALUES)
def test_any_object_has_a_view_a_headline_and_records(value: Any) -> None:
    payload = json.dumps({"info": {}, "parts": [value], **(value if isinstance(value, dict) else {})}).encode()
    assert isinstance(opencode.read(payload), entries.Entry)
    assert opencode.headline(payload).label
    document = json.dumps({"info": {"id": "ses_x", "revert": value}, "messages": [value, json.loads(payload)]}).encode()
    store = MemoryStore()
    assert exported(store, bring(store, document, agent="opencode", final=True).session) == document


# ---- one session from each source


def test_the_database_the_export_and_the_folders_make_the_same_entries(tmp_path: Path) -> None:
    stores = [MemoryStore() for _ in range(3)]
    bring(stores[0], export(TALK))
    from_database(of_database(tmp_path / "opencode.db", TALK), stores[1])
    from_database(folders(tmp_path / "storage", TALK), stores[2])
    assert entry_refs(stores[0]) == entry_refs(stores[1]) == entry_refs(stores[2])
    assert session_refs(stores[0]) == session_refs(stores[1])


def test_export_of_a_database_session_equals_the_agents_export(tmp_path: Path) -> None:
    about = info(
        summary={"additions": 3, "deletions": 0, "files": 1},
        permission=[{"permission": "question", "pattern": "*", "action": "deny"}],
        cost=1.5290799999999933,
    )
    order = ("id", "slug", "projectID", "directory", "path", "title", "agent", "model", "version", "summary", "cost",
             "tokens", "permission", "time")  # fmt: skip
    about |= {"path": "", "agent": "build", "model": {"id": "m", "providerID": "mock", "variant": "default"}}
    about = {name: about[name] for name in order}
    store = MemoryStore()
    [done] = from_database(of_database(tmp_path / "opencode.db", TALK, about), store)
    assert exported(store, done.session) == export(TALK, about)


def test_import_of_an_equal_export_adds_nothing(tmp_path: Path) -> None:
    store = MemoryStore()
    from_database(of_database(tmp_path / "opencode.db", TALK), store)
    again = bring(store, export(TALK))
    assert (again.new, again.moves) == (0, ())


def test_an_export_older_than_the_database_changes_nothing(tmp_path: Path) -> None:
    store = MemoryStore()
    from_database(of_database(tmp_path / "opencode.db", TALK), store)
    older = bring(store, export(TALK[:3], info(title="Old")))
    assert (older.new, older.moves) == (0, ())
    assert "an older copy" in older.problems[0].what


def test_restarted_ids_do_not_change_the_order(tmp_path: Path) -> None:
    """Ids have 36 bits of milliseconds. In August 2026, the newest ids sort before all others (formats.md B 1.2)."""
    turned = [user("msg_ffff", "before", at=1), answer("msg_0000", "after", at=2), answer("msg_0001", "later", at=3)]
    store = MemoryStore()
    [done] = from_database(of_database(tmp_path / "opencode.db", reversed(turned)), store)
    assert words_on(store, done.session) == ["user: before", "assistant: after", "assistant: later"]


def test_database_of_the_first_version_is_imported(tmp_path: Path) -> None:
    made = Database(tmp_path / "opencode.db", columns=OLD_COLUMNS)
    made.put(TALK)
    store = MemoryStore()
    [done] = from_database(made.path, store)
    about = json.loads(exported(store, done.session))["info"]
    assert done.new == len(TALK)
    assert about.keys() == {"id", "slug", "projectID", "directory", "title", "version", "time"}


def test_a_column_of_a_later_version_rides_along(tmp_path: Path) -> None:
    made = Database(tmp_path / "opencode.db")
    made.db.execute("ALTER TABLE session ADD COLUMN mood TEXT")
    made.put(TALK, mood="good")
    store = MemoryStore()
    [done] = from_database(made.path, store)
    assert json.loads(exported(store, done.session))["info"]["mood"] == "good"


# ---- growth


def growing() -> list[list[Message]]:
    """Return the states of a growing session: partial answers, pending prompts, late marks."""
    half = answer("msg_a2", "Do", at=3, done=False)
    old = {**TALK[1], "parts": [{**TALK[1]["parts"][0]}, marked(TALK[1]["parts"][1], at=7)]}
    asked, summary = compaction("msg_c", "msg_s", "So far.", at=6, tail="msg_u2")
    bare = {**asked, "parts": [{k: v for k, v in part.items() if k != "tail_start_id"} for part in asked["parts"]]}
    plain = user("msg_u1", "Fix it", at=1)
    return [
        [plain],
        [plain, answer("msg_a1", at=2, parts=[tool("call_1", status="running")], done=False)],
        [plain, TALK[1]],
        [TALK[0], TALK[1], half],
        [TALK[0], TALK[1], half, user("msg_u2", "Thanks", at=4)],
        TALK[:4],
        TALK,
        [*TALK, bare],
        [*TALK, bare, {**summary, "info": {**summary["info"], "time": {"created": START_MS + 7000}}}],
        [*TALK, asked, summary],
        [TALK[0], old, *TALK[2:], asked, summary],
        [TALK[0], old, *TALK[2:], asked, summary, user("msg_u3", "On", at=9), answer("msg_a4", "On it.", at=10)],
    ]


def test_growing_session_equals_one_import(tmp_path: Path) -> None:
    made = Database(tmp_path / "opencode.db")
    grown, at_once = MemoryStore(), MemoryStore()
    before: dict[str, str] = {}
    for messages in growing():
        made.put(messages)
        [done] = from_database(made.path, grown)
        now = entry_refs(grown)
        assert done.rewritten is None
        assert moved_forward(grown, before, now)
        assert exported(grown, done.session) == export(messages)
        before = now
    from_database(made.path, at_once)
    assert entry_refs(at_once) == before
    assert set(before) == {refs.leaf(done.session, "main")}
    assert_clean(grown)


@pytest.mark.parametrize("skipped", range(len(growing()) - 1))
def test_time_of_an_import_does_not_change_entries(skipped: int, tmp_path: Path) -> None:
    made = Database(tmp_path / "opencode.db")
    some, all_ = MemoryStore(), MemoryStore()
    for messages in (growing()[skipped], growing()[-1]):
        made.put(messages)
        from_database(made.path, some)
    from_database(made.path, all_)
    assert entry_refs(some) == entry_refs(all_)


def test_importing_again_adds_nothing(tmp_path: Path) -> None:
    store, path = MemoryStore(), of_database(tmp_path / "opencode.db", TALK)
    from_database(path, store)
    before = all_refs(store)
    [again] = from_database(path, store)
    assert (again.new, again.moves) == (0, ())
    assert all_refs(store) == before


def test_field_rewritten_by_the_agent_changes_meta_and_adds_no_entry(tmp_path: Path) -> None:
    store, made = MemoryStore(), Database(tmp_path / "opencode.db")
    made.put(TALK)
    from_database(made.path, store)
    before = entry_refs(store)
    rewritten = [user("msg_u1", "Fix it", at=1, summary={"diffs": []}), *TALK[1:]]
    about = info(title="Another", cost=7.0)
    made.put(rewritten, about)
    [done] = from_database(made.path, store)
    assert (done.new, entry_refs(store)) == (0, before)
    assert title_of(store, done.session) == "Another"
    assert json.loads(exported(store, done.session)) == {"info": about, "messages": rewritten}


def test_unfinished_answer_and_later_messages_wait(tmp_path: Path) -> None:
    store, made = MemoryStore(), Database(tmp_path / "opencode.db")
    waiting = [answer("msg_a3", "Any", at=5, done=False), user("msg_u3", "And", at=6)]
    made.put([*TALK[:4], *waiting])
    [done] = from_database(made.path, store)
    assert ids_of(store, done.session)[-1] == "msg_a2"
    assert exported(store, done.session) == export([*TALK[:4], *waiting])
    [closed] = from_database(made.path, store, final=True)
    assert ids_of(store, closed.session)[-1] == "msg_u3"


def test_an_answer_that_failed_is_finished() -> None:
    failed = answer("msg_a1", at=2, done=False, error={"name": "APIError", "data": {"message": "no"}}, finish=None)
    store = MemoryStore()
    sid = bring(store, export([TALK[0], failed])).session
    assert words_on(store, sid) == ["user: Fix it", "assistant: APIError"]


# ---- reverts


def test_agent_continues_before_the_undone_message(tmp_path: Path) -> None:
    store, made = MemoryStore(), Database(tmp_path / "opencode.db")
    made.put(TALK)
    [done] = from_database(made.path, store)
    made.put(TALK, info(revert={"messageID": "msg_u2", "snapshot": "abc", "diff": ""}))
    from_database(made.path, store)
    assert words_on(store, done.session)[-1] == "assistant: Done."
    made.put(TALK)
    from_database(made.path, store)
    assert words_on(store, done.session)[-1] == "assistant: Any time."


def test_messages_that_replace_undone_ones_are_a_branch(tmp_path: Path) -> None:
    store, made = MemoryStore(), Database(tmp_path / "opencode.db")
    made.put(TALK)
    [done] = from_database(made.path, store)
    main = ids_of(store, done.session)
    after = [*TALK[:3], user("msg_u9", "Another way", at=8), answer("msg_a9", "So?", at=9)]
    made.put(after)
    [again] = from_database(made.path, store)
    assert again.rewritten == 4
    assert ids_of(store, done.session) == main
    assert words_on(store, done.session)[-2:] == ["user: Another way", "assistant: So?"]
    assert exported(store, done.session) == export(after)
    assert_clean(store)


UNDONE = {
    "its first message": {"messageID": "msg_u1"},
    "a message that is not there": {"messageID": "msg_gone"},
    "a part of a message": {"messageID": "msg_a1", "partID": "prt_msg_a1_1"},
    "nothing": {},
    "a number": 7,
}


@pytest.mark.parametrize("revert", UNDONE.values(), ids=UNDONE)
def test_session_with_any_undo_is_imported(revert: Any) -> None:
    store = MemoryStore()
    data = export(TALK, info(revert=revert))
    done = bring(store, data)
    assert done.new == len(TALK)
    assert exported(store, done.session) == data
    assert_clean(store)


def test_a_fork_is_a_session_of_its_own(tmp_path: Path) -> None:
    copied = [{**said, "info": {**said["info"], "id": f"{said['info']['id']}_f"}} for said in TALK[:3]]
    made = Database(tmp_path / "opencode.db")
    made.put(TALK)
    about = info(id="ses_two", title="A title (fork #1)", time={"created": START_MS + 9, "updated": START_MS + 9})
    made.put([_in("ses_two", said, "_f") for said in copied], about)
    store = MemoryStore()
    assert [done.new for done in from_database(made.path, store)] == [5, 3]


def _in(session: str, said: Message, mark: str = "_2") -> Message:
    parts = [{**part, "id": part["id"] + mark, "sessionID": session} for part in said["parts"]]
    return {"info": {**said["info"], "sessionID": session}, "parts": parts}


def test_a_session_of_a_sub_agent_names_the_call_that_began_it(tmp_path: Path) -> None:
    made = Database(tmp_path / "opencode.db")
    call = tool("call_t", name="task", metadata={"sessionId": "ses_child"})
    made.put([TALK[0], answer("msg_a1", at=2, parts=[call])])
    child = info(id="ses_child", parentID=SES, time={"created": START_MS + 2000, "updated": START_MS + 2000})
    made.put([_in("ses_child", user("msg_cu", "Look", at=2)), _in("ses_child", answer("msg_ca", "Seen", at=3))], child)
    store = MemoryStore()
    done = from_database(made.path, store)[1]
    header = meta_of(store, done.session).header
    assert header is not None
    assert (header.parent, header.extra["task"]["callID"]) == (SES, "call_t")
    assert json.loads(exported(store, done.session))["info"] == child


# ---- busy, damaged and hostile databases


def test_data_in_the_log_of_a_database_is_imported(tmp_path: Path) -> None:
    made = Database(tmp_path / "opencode.db", log=True)
    made.put(TALK)
    before = sources.stamp_of(made.path)
    made.put([*TALK, user("msg_u3", "More", at=8), answer("msg_a4", "Yes", at=9)])
    assert (tmp_path / "opencode.db-wal").stat().st_size
    assert sources.stamp_of(made.path) != before
    [done] = from_database(made.path)
    assert done.new == 7


def test_locked_database_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "PATIENCE_SECONDS", 0.05)
    made = Database(tmp_path / "opencode.db")
    made.put(TALK)
    made.db.execute("BEGIN EXCLUSIVE")
    with pytest.raises(Unavailable, match="locked"):
        from_database(made.path)


def test_a_database_of_which_a_half_is_there_is_named(tmp_path: Path) -> None:
    path = of_database(tmp_path / "opencode.db", TALK)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(GitSessionError, match="damaged"):
        from_database(path)


@pytest.mark.parametrize("seed", range(60))
def test_damaged_database_is_imported_partly_or_rejected(seed: int, tmp_path: Path) -> None:
    path = of_database(tmp_path / "opencode.db", TALK)
    path.write_bytes(mutant(random.Random(seed), path.read_bytes()))
    store = MemoryStore()
    try:
        from_database(path, store, final=True)
    except GitSessionError as error:
        assert str(error)
    assert_clean(store)


def test_tables_with_credentials_are_not_read(tmp_path: Path) -> None:
    path = of_database(tmp_path / "opencode.db", TALK)
    with databases.opened(path) as opened:
        for secret in ("account", "credential", "control_account", "session_share", "sqlite_master"):
            with pytest.raises(GitSessionError, match="prohibited"):
                list(opened.query(f"SELECT * FROM {secret}"))


def test_a_view_that_shows_credentials_as_messages_is_none(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    of_database(path, TALK)
    db = sqlite3.connect(path)
    db.executescript(
        "ALTER TABLE message RENAME TO m; CREATE VIEW message AS "
        "SELECT id, 'ses_one' AS session_id, 1 AS time_created, 1 AS time_updated, secret AS data FROM account"
    )
    db.close()
    assert from_database(path) == []


def test_a_database_is_not_written_to(tmp_path: Path) -> None:
    path = of_database(tmp_path / "opencode.db", TALK)
    before = path.read_bytes()
    from_database(path)
    assert path.read_bytes() == before
    with databases.opened(path) as opened, pytest.raises(GitSessionError):
        list(opened.query("DELETE FROM message"))


def test_another_programs_database_is_passed_over(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "other.db")
    db.execute("CREATE TABLE session (id TEXT)")
    db.commit()
    assert list(sources.at(tmp_path / "other.db")) == []


ROWS = {
    "that does not parse": "{",
    "of bytes": b"\xff\xfe",
    "that is empty": "",
    "that is a list": "[]",
    "nested too deeply": '{"a":' + "[" * 3000 + "]" * 3000 + "}",
    "with a zero": "\0",
}


@pytest.mark.parametrize("data", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("table", ["message", "part"])
def test_invalid_row_is_reported_and_the_rest_is_imported(table: str, data: Any, tmp_path: Path) -> None:
    made = Database(tmp_path / "opencode.db")
    made.put(TALK)
    made.db.execute(f"UPDATE {table} SET data = ? WHERE id LIKE '%msg_a1%'", (data,))
    store = MemoryStore()
    [done] = from_database(made.path, store)
    assert done.new == len(TALK)
    assert any("msg_a1" in problem.what for problem in done.problems)
    assert_clean(store)


# ---- meaning of messages


def read_all(messages: Iterable[Message]) -> list[entries.Entry]:
    return [opencode.read(record.payload) for record in opencode.split(export(messages), final=True).records]


def test_answer_and_its_results_are_one_entry() -> None:
    picture = {"mime": "image/png", "filename": "a.png", "url": "data:image/png;base64,iVBORw0KGgo="}
    failed = tool("call_2", status="error", error="no such file")
    parts = [tool("call_1", "14"), failed, tool("c3", attachments=[picture])]
    [entry] = read_all([answer("msg_a1", "Reading.", at=2, parts=parts)])
    assert isinstance(entry, entries.Message)
    said, first, second, third = unfold(entry)
    assert [block.id for block in said.content if isinstance(block, ToolCall)] == ["call_1", "call_2", "c3"]
    assert (first.tool_call_id, first.text, first.is_error) == ("call_1", "14", False)
    assert (second.tool_call_id, second.text, second.is_error) == ("call_2", "no such file", True)
    assert isinstance(third.content[-1], Image)
    assert said.usage == {"input": 20, "output": 10, "reasoning": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 30,
                          "cost": 0.25}  # fmt: skip


def test_reasoning_keeps_its_provider_data() -> None:
    parts = [
        {"type": "reasoning", "text": "Hm.", "metadata": {"anthropic": {"signature": "sig=="}}},
        {"type": "reasoning", "text": "Ha.", "metadata": {"openai": {"itemId": "rs_1"}}},
    ]
    [entry] = read_all([answer("msg_a1", at=2, parts=parts)])
    assert isinstance(entry, entries.Message)
    assert entry.content == (Thinking("Hm.", "sig=="), Thinking("Ha.", '{"openai":{"itemId":"rs_1"}}'))


def test_text_hidden_from_the_model_is_not_a_text_block() -> None:
    ignored = {"type": "text", "text": "for your eyes only", "ignored": True}
    [entry] = read_all([user("msg_u1", "Hi", at=1, parts=[ignored, {"type": "text", "text": "so", "synthetic": True}])])
    assert isinstance(entry, entries.Message)
    assert [block.text for block in entry.content if isinstance(block, Text)] == ["Hi", "so"]


def test_compaction_request_and_its_summary_are_one_compaction() -> None:
    read = read_all([*TALK, *compaction("msg_c", "msg_s", "## Goal\n- x", at=6, tail="msg_u2")])
    last = read[-1]
    assert isinstance(last, entries.Compaction)
    assert (last.summary, last.first_kept, last.method) == ("## Goal\n- x", "msg_u2", "auto")


def test_a_request_to_compact_that_failed_is_no_compaction() -> None:
    asked, summary = compaction("msg_c", "msg_s", "", at=6)
    summary["info"]["error"] = {"name": "ContextOverflowError", "data": {"message": "too large"}}
    read = read_all([*TALK, asked, summary])
    assert [type(entry) for entry in read[-2:]] == [entries.Custom, entries.Message]


def test_hidden_result_is_a_separate_entry_in_order_of_time() -> None:
    old = {**TALK[1], "parts": [TALK[1]["parts"][0], marked(TALK[1]["parts"][1], at=3)]}
    read = read_all([TALK[0], old, *TALK[2:]])
    assert [entry.kind for entry in read] == ["message", "message", "message", "prune", "message", "message"]
    assert isinstance(read[3], entries.Prune)
    assert read[3].targets == ("prt_msg_a1_1",)


LOG = """\
user: Fix it
assistant: Reading. (+1 tool)
assistant: Done.
prune: 1 result
user: Thanks
assistant: Any time.
compaction: automatic
compaction asked for
assistant: bash, edit (+2 tools)"""


def test_headlines_of_messages() -> None:
    old = {**TALK[1], "parts": [TALK[1]["parts"][0], marked(TALK[1]["parts"][1], at=3)]}
    more = [*compaction("msg_c", "msg_s", "So far.", at=6), user("msg_c2", at=8, parts=[{"type": "compaction"}])]
    last = answer("msg_a9", at=9, parts=[tool("c1"), tool("c2", name="edit")])
    store = MemoryStore()
    sid = bring(store, export([TALK[0], old, *TALK[2:], *more, last])).session
    assert "\n".join(words_on(store, sid)) == LOG


def test_a_session_has_one_line(tmp_path: Path) -> None:
    store = MemoryStore()
    sid = bring(store, export(growing()[-1])).session
    assert set(graph.tree(store, sid).branches) == {"main"}


def test_order_of_members_does_not_change_entries() -> None:
    """``opencode import`` writes the same messages with their members in another order."""

    def turned(value: Any, way: str = "") -> Any:
        if isinstance(value, dict) and way not in ("input", "metadata"):
            return {name: turned(item, name) for name, item in reversed(value.items())}
        return [turned(item) for item in value] if isinstance(value, list) else value

    stores = [MemoryStore(), MemoryStore()]
    bring(stores[0], export(TALK))
    data = export([turned(message) if at % 2 else message for at, message in enumerate(TALK)])
    done = bring(stores[1], data)
    assert entry_refs(stores[0]) == entry_refs(stores[1])
    assert exported(stores[1], done.session) == data
    assert bring(stores[1], export(TALK)).new == 0


def test_order_of_tool_arguments_is_kept() -> None:
    part = tool("c1", input={"z": 1, "a": 2, "time": {"z": 1, "a": 2}})
    [entry] = read_all([answer("msg_a1", at=2, parts=[part])])
    assert isinstance(entry, entries.Message)
    [call] = [block for block in entry.content if isinstance(block, ToolCall)]
    assert json.dumps(call.arguments) == '{"z": 1, "a": 2, "time": {"z": 1, "a": 2}}'
