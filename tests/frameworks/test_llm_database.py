"""Tests of the import of llm's log database and of the export of one, with llm itself and a scripted model."""

from __future__ import annotations

import base64
import functools
import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("llm")

import llm
import sqlite_utils
from click.testing import CliRunner
from commands import Run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llm.cli import cli
from llm.logs import LogStore
from llm.migrations import migrate
from llm.parts import AttachmentPart, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from llm.plugins import pm

from gitsession import Custom, File, Image, Malformed, Message, Session, Store, Text, ToolCall
from gitsession.exporting.llm_rows import KEYS
from gitsession.frameworks.llm_database import import_llm

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
NOVEL = "It was a bright cold day in April, and the clocks were striking thirteen. " * 3


class Scripted(llm.Model):
    """A model that answers with the number of messages that it received, or calls a tool."""

    model_id = "scripted"
    attachment_types: ClassVar = {"image/png"}
    supports_tools = True
    supports_schema = True

    def execute(self, prompt: Any, stream: bool, response: Any, conversation: Any) -> Iterator[str]:
        response.set_usage(input=len(prompt.messages), output=1)
        texts = [part.text for message in prompt.messages for part in message.parts if hasattr(part, "text")]
        if prompt.tools and not prompt.tool_results:
            response.add_tool_call(llm.ToolCall(name="double", arguments={"number": 4}, tool_call_id="call_1"))
            yield "I call."
        else:
            yield f"I have {len(prompt.messages)} messages: {' / '.join(texts)}"


class Plugin:
    @llm.hookimpl
    def register_models(self, register: Callable[..., None]) -> None:
        register(Scripted())


@pytest.fixture(autouse=True)
def plugin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path / "llm"))
    (tmp_path / "llm").mkdir()
    made = Plugin()
    pm.register(made)
    yield
    pm.unregister(made)


def run_llm(*words: str, input: bytes | None = None) -> str:
    done = CliRunner().invoke(cli, list(words), input=input, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return str(done.output)


def double(number: int) -> int:
    """Double a number."""
    return number * 2


def chat(database: Path) -> None:
    """Write a log as llm does: a conversation with an image, a fragment, a schema, and tools, and another one."""
    (database.parent / "novel.txt").write_text(NOVEL)
    (database.parent / "a.png").write_bytes(PNG)
    common = ("-m", "scripted", "-d", str(database))
    run_llm("My name is Ada.", *common, "-s", "Be brief.", "-f", str(database.parent / "novel.txt"))
    run_llm("What is this?", *common, "-c", "-a", str(database.parent / "a.png"), "-a", "-", input=PNG + b"other")
    run_llm("Double 4", *common, "-c", "--functions", "def double(number: int) -> int:\n    return number * 2\n")
    run_llm("A dog", *common, "--schema", "name, age int")


def rows_in(database: Path) -> dict[str, list[str]]:
    """Return all rows of the tables that are copied, and those by which llm finds turns, without their numbers."""
    with sqlite3.connect(database) as db:
        db.row_factory = sqlite3.Row
        found = {table: [dict(row) for row in db.execute(f'SELECT * FROM "{table}"')] for table in KEYS}
        found["turn_search"] = [dict(row) for row in db.execute("SELECT turn_id, prompt, response FROM turn_search")]
    db.close()
    return {table: sorted(repr(row) for row in rows) for table, rows in found.items()}


def write(data: bytes, path: Path) -> Path:
    path.write_bytes(data)
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    db.close()
    return path


def exported(store: Store, session: Session | str, path: Path, **options: Any) -> Path:
    sid = session if isinstance(session, str) else session.id
    return write(store.export(sid, to="llm", **options).data, path)


def verified(path: Path) -> list[Any]:
    db = sqlite_utils.Database(path)
    found = LogStore(db).verify()
    db.close()
    return found


def only(database: Path, thread: str) -> None:
    """Delete the other conversations of a database, and what only they use."""
    with sqlite3.connect(database) as db:
        turns = "(SELECT id FROM turns)"
        db.execute("DELETE FROM turns WHERE thread_id != ?", (thread,))
        db.execute("DELETE FROM threads WHERE id != ?", (thread,))
        for table in ("turn_tools", "turn_fragments", "tool_instantiations", "turn_search"):
            db.execute(f"DELETE FROM {table} WHERE turn_id NOT IN {turns}")
        chain = "WITH RECURSIVE c(h) AS (SELECT tip_message_hash FROM threads UNION "
        chain += "SELECT parent_hash FROM messages, c WHERE hash = h)"
        db.execute(f"DELETE FROM messages WHERE hash NOT IN ({chain} SELECT h FROM c WHERE h IS NOT NULL)")
        db.execute("DELETE FROM parts WHERE message_hash NOT IN (SELECT hash FROM messages)")
        db.execute("DELETE FROM schemas WHERE id NOT IN (SELECT schema_id FROM turns WHERE schema_id IS NOT NULL)")
        db.execute("DELETE FROM attachments WHERE id NOT IN (SELECT attachment_id FROM part_attachments)")
        db.execute("DELETE FROM part_attachments WHERE part_id NOT IN (SELECT id FROM parts)")
        db.execute("DELETE FROM part_fragments WHERE part_id NOT IN (SELECT id FROM parts)")
        db.execute("DELETE FROM tools WHERE id NOT IN (SELECT tool_id FROM turn_tools)")
        db.execute("DELETE FROM fragments WHERE id NOT IN (SELECT fragment_id FROM turn_fragments)")
        db.execute("DELETE FROM attachments WHERE id NOT IN (SELECT attachment_id FROM part_attachments)")
    db.close()


def test_an_export_has_the_rows_of_the_import(tmp_path: Path) -> None:
    chat(database := tmp_path / "logs.db")
    with Store.create(tmp_path / "s.git") as store:
        first, second = import_llm(store, database)
        assert (first.problems, second.problems) == ((), ())
        session = store.session(first.session)
        subjects = [node.subject for node in session.history()[1:]]
        assert subjects[0].startswith("system: Be brief.") and "tool double: 1 line" in subjects
        assert [each.new for each in import_llm(store, database)] == [0, 0]
        assert [node.subject for node in session.history()[1:]] == subjects
        with sqlite3.connect(database) as db:
            ids = [id for (id,) in db.execute("SELECT id FROM threads")]
        db.close()
        for number, done in enumerate((first, second)):
            copy = tmp_path / f"only-{number}.db"
            copy.write_bytes(database.read_bytes())
            [thread] = [id for id in ids if (found := store.find_keyed(id, agent="llm")) and found.id == done.session]
            only(copy, thread)
            made = exported(store, done.session, tmp_path / f"made-{number}.db")
            theirs, ours = rows_in(copy), rows_in(made)
            for table in theirs:
                assert ours[table] == theirs[table], table
            assert verified(made) == []
            assert store.export(done.session).data == made.read_bytes(), "an export is always the same"
        assert store.verify().problems == []


def test_messages_are_those_of_the_conversation(tmp_path: Path) -> None:
    chat(database := tmp_path / "logs.db")
    with Store.in_memory() as store:
        session = store.session(import_llm(store, database)[0].session)
        messages = [entry for _, entry in session.entries() if isinstance(entry, Message)][::-1]
        assert [message.role for message in messages] == [
            "system", "user", "assistant", "user", "assistant", "user", "assistant", "tool", "assistant",
        ]  # fmt: skip
        assert messages[1].text == f"{NOVEL}\nMy name is Ada."
        assert [type(block) for block in messages[3].content] == [Text, File, Image]
        assert messages[2].model == "scripted" and messages[2].usage == {"input_tokens": 2, "output_tokens": 1}
        assert next(block for block in messages[6].content if isinstance(block, ToolCall)).arguments == {"number": 4}
        assert (messages[7].tool_call_id, messages[7].text) == ("call_1", "8")
        marks = [json.dumps(dict(entry.extra)) for _, entry in session.entries()]
        assert sum("$data" in mark for mark in marks) == 1 and not any("$bytes" in mark for mark in marks)
        assert all(message.at_ms > 1_600_000_000_000 for message in messages)
        assert store.search("striking thirteen") != []


def test_llm_continues_what_was_exported_and_the_import_continues_that(tmp_path: Path) -> None:
    chat(database := tmp_path / "logs.db")
    with Store.create(tmp_path / "s.git") as store:
        sid = import_llm(store, database)[0].session
        session = store.session(sid)
        session.append(Message.user("And from gitsession?"))
        session.append(Message.assistant("Hello from gitsession.", model="scripted"))
        made = exported(store, sid, tmp_path / "made.db")
        assert verified(made) == []
        logs = run_llm("logs", "-d", str(made), "-n", "0", "--json")
        assert "Hello from gitsession." in logs
        assert "Hello from gitsession." in run_llm("logs", "-d", str(made), "-q", "gitsession")
        thread = json.loads(logs)[0]["conversation_id"]
        said = run_llm("Still there?", "-d", str(made), "--cid", thread)
        assert said.startswith("I have 12 messages") and "And from gitsession?" in said
        [done] = import_llm(store, made)
        assert done.session == sid and done.new == 2 + 2, "those from gitsession are llm's now"
        assert session.on(done.branch) is not None
        assert run_llm("Again?", "-d", str(exported(store, sid, tmp_path / "more.db")), "-c") is not None


def test_a_session_of_another_agent_is_written_with_its_branches(tmp_path: Path) -> None:
    with Store.in_memory() as store:
        session = store.new_session(agent="mine")
        session.append(Message.user([Text("Look"), Image(PNG, "image/png")], at_ms=1_700_000_000_000))
        call = ToolCall("c", "read", {"path": "x"})
        asked = session.append(
            Message.assistant([Text("I read."), call], model="scripted", usage={"input": 5, "output": 2})
        )
        session.append(Message.tool(call, "text of x"))
        session.append(Message.assistant("Done.", model="scripted"))
        side = session.branch("side", asked)
        side.append(Message.tool(call, "other text", is_error=True))
        side.append(Message.assistant("Failed.", model="scripted"))
        session.append(Custom(custom_type="x"))
        result = store.export(session.id, to="llm")
        assert result.notes == {"left out: records that no model receives": 1}
        made = write(result.data, tmp_path / "made.db")
        assert verified(made) == []
        rows = rows_in(made)
        assert len(rows["threads"]) == 2 and len(rows["turns"]) == 3 and len(rows["messages"]) == 6
        logs = json.loads(run_llm("logs", "-d", str(made), "-n", "0", "--json"))
        assert {each["response"] for each in logs} == {"I read.", "Done.", "Failed."}
        assert "I have 5 messages" in run_llm("And?", "-d", str(made), "-c", "-m", "scripted")
        with Store.in_memory() as other:
            threads = import_llm(other, made)
            assert sorted(each.entries for each in threads) == [4, 6]


def test_a_fork_shares_the_entries_of_its_thread(tmp_path: Path) -> None:
    database = sqlite_utils.Database(tmp_path / "logs.db")
    store_of_llm = LogStore(database)
    tip = store_of_llm.ensure_chain([llm.user("One"), llm.assistant("Two")])
    store_of_llm.create_thread("First", tip, id="01a")
    store_of_llm.create_thread("Fork", tip, forked_from="01a", id="01b")
    store_of_llm.append("01b", [llm.user("Three")])
    database.close()
    with Store.create(tmp_path / "s.git") as store:
        first, fork = (store.session(each.session) for each in import_llm(store, tmp_path / "logs.db"))
        assert [node.oid for node in fork.history()[:3]] == [node.oid for node in first.history()[:3]]
        assert fork.history()[-1].subject == "user: Three"
        made = exported(store, fork, tmp_path / "made.db")
        assert rows_in(made)["messages"] == rows_in(tmp_path / "logs.db")["messages"]
        assert [each.new for each in import_llm(store, tmp_path / "logs.db")] == [0, 0]


def old_rows(path: Path) -> None:
    """Write a log as llm did before 0.32."""
    database = sqlite_utils.Database(path)
    migrate(database)
    database["conversations"].insert({"id": "01old", "name": "Old", "model": "scripted"})
    database["fragments"].insert({"id": 3, "hash": "x", "content": NOVEL, "datetime_utc": "", "source": "n.txt"})
    database["fragment_aliases"].insert({"alias": "novel", "fragment_id": 3})
    database["attachments"].insert({"id": "aa", "type": "image/png", "path": None, "url": None, "content": PNG})
    common = {"model": "scripted", "conversation_id": "01old", "options_json": "{}", "prompt_json": '{"a": [1]}'}
    for number, (prompt, answer) in enumerate([("Who wrote this?", "Orwell."), ("", "It is 8."), ("Bye", "Bye.")]):
        id = f"01r{number}"
        times = {"datetime_utc": f"2025-01-0{number + 1}T00:00:00+00:00", "input_tokens": 3, "output_tokens": number}
        row = {"id": id, "prompt": prompt, "response": answer, "system": "Be brief.", **common, **times}
        database["responses"].insert(row)
    database["prompt_fragments"].insert({"response_id": "01r0", "fragment_id": 3, "order": 0})
    database["prompt_attachments"].insert({"response_id": "01r0", "attachment_id": "aa", "order": 0})
    database["tools"].insert({"id": 7, "hash": "t", "name": "double", "description": "d", "input_schema": "{}"})
    database["tool_responses"].insert({"tool_id": 7, "response_id": "01r0"})
    call = {"tool_id": 7, "name": "double", "tool_call_id": "c1"}
    database["tool_calls"].insert({"id": 5, "response_id": "01r0", "arguments": '{"number": 4}', **call})
    database["tool_results"].insert({"id": 6, "response_id": "01r1", "output": "8", **call})
    database.close()


def test_old_rows_are_messages_and_are_exported_as_they_were(tmp_path: Path) -> None:
    old_rows(database := tmp_path / "logs.db")
    with Store.create(tmp_path / "s.git") as store:
        [done] = import_llm(store, database)
        session = store.session(done.session)
        messages = [entry for _, entry in session.entries() if isinstance(entry, Message)][::-1]
        assert [message.role for message in messages] == [
            "system", "user", "assistant", "tool", "assistant", "user", "assistant",
        ]  # fmt: skip
        assert messages[1].text == f"{NOVEL}\nWho wrote this?"
        made = exported(store, session, tmp_path / "made.db")
        assert rows_in(made) == rows_in(database)
        assert [each.new for each in import_llm(store, database)] == [0]
        assert len(session.history()) == 8
        assert "I have 10 messages" in run_llm("More", "-d", str(made), "-c")
        session.append(Message.user("From gitsession"))
        more = exported(store, session, tmp_path / "more.db")
        assert verified(more) == [] and "I have 9 messages" in run_llm("More", "-d", str(more), "-c")
        assert {*rows_in(database)["responses"]} <= {*rows_in(more)["responses"]}


def test_unknown_columns_are_kept_and_counted_when_they_are_not_exported(tmp_path: Path) -> None:
    chat(database := tmp_path / "logs.db")
    with sqlite3.connect(database) as db:
        db.execute("ALTER TABLE turns ADD COLUMN later TEXT")
        db.execute("UPDATE turns SET later = 'value'")
    db.close()
    with Store.in_memory() as store:
        done = import_llm(store, database)[0]
        result = store.export(done.session, to="llm")
        assert result.notes == {"left out: column 'later' of the table 'turns'": 4}
        kept = [entry for _, entry in store.session(done.session).entries() if '"later": "value"' in repr(entry.extra)]
        assert len(kept) == 4


def test_a_secret_is_a_placeholder_with_hashes_that_fit(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    database = tmp_path / "logs.db"
    run_llm("Hello", "-m", "scripted", "-d", str(database))
    run_llm(f"My token is {secret}", "-d", str(database), "-c")
    run_llm("Bye", "-d", str(database), "-c")
    with Store.create(tmp_path / "s.git") as store:
        [done] = import_llm(store, database)
        assert secret not in repr(
            [store.session(done.session).read(node) for node in store.session(done.session).history()]
        )
        made = exported(store, done.session, tmp_path / "made.db")
        assert secret.encode() not in made.read_bytes() and verified(made) == []
        whole = exported(store, done.session, tmp_path / "whole.db", with_secrets=True)
        assert rows_in(whole) == rows_in(database)
        assert [each.new for each in import_llm(store, database)] == [0]
        assert len(store.session(done.session).history()) == 7


@pytest.mark.parametrize("write_log", [chat, old_rows], ids=["new rows", "old rows"])
def test_a_clone_without_the_vault_has_the_conversation_unchanged(
    tmp_path: Path, write_log: Callable[[Path], None]
) -> None:
    write_log(database := tmp_path / "logs.db")
    with Store.create(tmp_path / "s.git") as store:
        first = import_llm(store, database)
        assert not list(store.objects.vault.originals()) and not list(store.secrets.find())
        store.flush()
        clone, _ = Store.clone(str(tmp_path / "s.git"), tmp_path / "clone.git")
        with clone:
            again = import_llm(clone, database)
            assert [(each.session, each.new, each.moves) for each in again] == [(each.session, 0, ()) for each in first]
            assert all(set(clone.session(each.session).branches()) == {"main"} for each in again)


HOSTILE: dict[str, str] = {
    "a cycle": "UPDATE messages SET parent_hash = (SELECT tip_message_hash FROM threads)",
    "a payload that is no JSON": "UPDATE parts SET payload = '{'",
    "a payload that is a list": "UPDATE parts SET payload = '[]'",
    "deep JSON": f"UPDATE parts SET payload = '{'[' * 100_000}'",
    "a position that is a text": "UPDATE parts SET position = 'x' || id",
    "a type that is a blob": "UPDATE parts SET type = x'00', payload = 'null'",
    "pieces without their text": """UPDATE parts SET text = NULL, payload = '{"text_ref": [{}]}'""",
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_damaged_rows_are_refused_by_the_name_of_the_conversation(tmp_path: Path, change: str) -> None:
    run_llm("Hello", "-m", "scripted", "-d", str(tmp_path / "logs.db"))
    with sqlite3.connect(tmp_path / "logs.db") as db:
        db.execute(change)
    db.close()
    with Store.in_memory() as store, pytest.raises(Malformed, match="damaged rows") as error:
        import_llm(store, tmp_path / "logs.db")
    assert "conversation 01" in str(error.value)


STRANGE: dict[str, str] = {
    "a missing message": "DELETE FROM messages WHERE parent_hash IS NULL",
    "blobs in place of texts": "UPDATE turns SET model = x'ff', datetime_utc = x'00', input_tokens = 'many'",
    "ids that are numbers": "UPDATE turns SET thread_id = 5",
    "a wrong hash": "UPDATE parts SET text = text || '!'",
    "an unknown type": "UPDATE parts SET type = 'telepathy'",
    "an unknown role": "UPDATE messages SET role = 'critic'",
    "no rows": "DELETE FROM messages",
    "numbers without end": "UPDATE turns SET duration_ms = 9e999, input_tokens = -5",
    "a text that is not UTF-8": "UPDATE parts SET text = CAST(x'ff41' AS TEXT)",
}


@pytest.mark.parametrize("change", STRANGE.values(), ids=STRANGE)
def test_strange_rows_are_imported_and_exported(tmp_path: Path, change: str) -> None:
    run_llm("Hello", "-m", "scripted", "-d", str(tmp_path / "logs.db"))
    run_llm("Hello again", "-c", "-d", str(tmp_path / "logs.db"))
    with sqlite3.connect(tmp_path / "logs.db") as db:
        db.execute(change)
    db.close()
    with Store.create(tmp_path / "s.git") as store:
        for done in import_llm(store, tmp_path / "logs.db"):
            data = store.export(done.session, to="llm").data
            (tmp_path / "made.db").write_bytes(data)
            (tmp_path / "made.db").unlink()
        assert all(each.new == 0 for each in import_llm(store, tmp_path / "logs.db"))
        assert store.verify().problems == []


def test_other_databases_and_files_are_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.db") as db:
        db.execute("CREATE TABLE messages (id, text)")
    db.close()
    (tmp_path / "no.db").write_text("no database")
    with Store.in_memory() as store:
        with pytest.raises(Malformed, match="not a log database of llm"):
            import_llm(store, tmp_path / "other.db")
        with pytest.raises(Malformed, match="damaged"):
            import_llm(store, tmp_path / "no.db")
        assert store.sessions() == []


def test_the_schema_is_that_of_llm() -> None:
    ours = sqlite3.connect(":memory:")
    ours.executescript(llm_schema().read_text())
    theirs = sqlite_utils.Database(memory=True)
    migrate(theirs)
    names = "SELECT name FROM _llm_migrations ORDER BY name"
    schema = "SELECT name, trim(sql, char(10)) FROM sqlite_master ORDER BY name"
    assert ours.execute(names).fetchall() == theirs.execute(names).fetchall(), "this release of llm has another schema"
    assert ours.execute(schema).fetchall() == theirs.execute(schema).fetchall()
    ours.close()
    theirs.close()


def llm_schema() -> Path:
    import gitsession.exporting

    return Path(gitsession.exporting.__file__).parent / "llm_schema.sql"


def test_columns_of_the_keys_exist() -> None:
    ours = sqlite3.connect(":memory:")
    ours.executescript(llm_schema().read_text())
    for table, key in KEYS.items():
        columns = [name for (_, name, *_) in ours.execute(f'PRAGMA table_info("{table}")')]
        assert set(key) <= set(columns), table
    ours.close()


# ---- random conversations

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=5,
)
maps = st.dictionaries(texts | st.sampled_from(["$text", "$json"]), values, max_size=3)
metadata = st.none() | maps
attachments = st.builds(
    llm.Attachment, type=st.sampled_from(["image/png", "text/plain"]), content=st.binary(min_size=1)
)
addresses = st.builds(llm.Attachment, type=st.just("image/png"), url=st.just("https://example.org/a.png"))
parts = st.one_of(
    st.builds(TextPart, text=texts | st.just(NOVEL) | st.just(f"{NOVEL}\nWhy?"), provider_metadata=metadata),
    st.builds(ReasoningPart, text=texts, redacted=st.booleans(), provider_metadata=metadata),
    st.builds(ToolCallPart, texts, maps, st.none() | texts, st.booleans(), metadata),
    st.builds(ToolResultPart, texts, texts | values.map(json.dumps), st.none() | texts, st.booleans(),
              st.lists(attachments, max_size=2), st.none() | texts, metadata),
    st.builds(AttachmentPart, attachments | addresses, metadata),
)  # fmt: skip
messages = st.builds(
    llm.Message,
    st.sampled_from(["user", "assistant", "system", "tool", "critic"]),
    st.lists(parts, max_size=3),
    metadata,
)


@functools.cache
def empty_log() -> bytes:
    """Return an empty log."""
    db = sqlite_utils.Database(memory=True)
    migrate(db)
    data = db.conn.serialize()
    db.close()
    return data


def log_of(data: bytes) -> LogStore:
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.deserialize(data)
    return LogStore(sqlite_utils.Database(db))


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(chain=st.lists(messages, min_size=1, max_size=5), later=st.lists(messages, max_size=3))
def test_random_conversations_are_exported_as_they_were(tmp_path: Path, chain: list[Any], later: list[Any]) -> None:
    database = tmp_path / "logs.db"
    log = log_of(empty_log())
    log.create_thread("Random", log.ensure_chain(chain, fragments=[NOVEL]), id="01random")
    with Store.in_memory() as store:
        database.write_bytes(log.db.conn.serialize())
        [first] = import_llm(store, database)
        log.append("01random", later)
        database.write_bytes(log.db.conn.serialize())
        [second] = import_llm(store, database)
        assert first.entries + second.new == second.entries
        assert [each.new for each in import_llm(store, database)] == [0]
        result = store.export(second.session, to="llm")
        assert not result.notes
        made = write(result.data, tmp_path / "made.db")
        theirs, ours = rows_in(database), rows_in(made)
        used = any(isinstance(part, TextPart) and NOVEL in part.text for message in chain for part in message.parts)
        for table in KEYS if used else KEYS.keys() - {"fragments"}:
            assert ours[table] == theirs[table], table
        # llm has one row for equal attachments of two types, so a hash in its own log may be wrong
        assert log_of(made.read_bytes()).verify() == log.verify()
    log.db.close()


def test_the_command_line_imports_and_exports_a_log(run: Run, tmp_path: Path) -> None:
    chat(database := tmp_path / "logs.db")
    assert "2 sessions imported" in run("import", "--from", "llm", str(database))
    (tmp_path / "llm/logs.db").write_bytes(database.read_bytes())
    assert "unchanged" in run("import", "--from", "llm", "--all")
    assert "cannot be combined" in run("import", "--from", "llm", "--dry-run", str(database), code=2, err=True)
    with sqlite3.connect(database) as db:
        [(thread,), _] = db.execute("SELECT id FROM threads ORDER BY id")
    db.close()
    assert "user: Double 4" in run("log", f"llm:{thread}")
    run("export", f"llm:{thread}", "-o", str(tmp_path / "made.db"))
    assert "I have 10 messages" in run_llm("And?", "-c", "-d", str(tmp_path / "made.db"))
    assert "2 new of 11 entries" in run("import", "--from", "llm", str(tmp_path / "made.db"))
    (tmp_path / "no.db").write_text("no database")
    assert "damaged" in run("import", "--from", "llm", str(tmp_path / "no.db"), code=5, err=True)


def test_import_names_a_log_that_is_missing_or_empty_and_the_option_for_a_log(run: Run, tmp_path: Path) -> None:
    migrate(sqlite_utils.Database(tmp_path / "empty.db"))
    for path in (tmp_path / "missing.db", tmp_path):
        told = run("import", "--from", "llm", str(path), code=3, err=True)
        assert f"cannot import '{path}': no such file" in told and "logs.db" in told
    told = run("import", "--from", "llm", str(tmp_path / "empty.db"), code=1, err=True)
    assert f"no session files found in '{tmp_path / 'empty.db'}'" in told
    told = run("import", str(tmp_path / "empty.db"), code=3, err=True)
    assert "hint: pass --from llm" in told


def test_a_log_in_use_is_read_and_a_changed_row_is_recorded(tmp_path: Path) -> None:
    run_llm("Hello", "-m", "scripted", "-d", str(tmp_path / "logs.db"))
    with Store.in_memory() as store:
        other = sqlite3.connect(tmp_path / "logs.db", isolation_level=None)
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("UPDATE threads SET name = 'Renamed'")
        [done] = import_llm(store, tmp_path / "logs.db")
        kept = [entry for _, entry in store.session(done.session).entries() if "Renamed" in repr(entry.extra)]
        assert done.entries == 2 and len(kept) == 1, "the write-ahead log is read"
        other.execute("UPDATE threads SET name = 'Again'")
        assert import_llm(store, tmp_path / "logs.db")[0].new == 0
        assert "Again" in repr([store.export(done.session, to="llm").data])
        other.close()
