"""Tests of search: filters, order, and the state of the index after any change of the store."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from builders import Clock, entry, pi_file, said, talk
from hypothesis import given, settings
from hypothesis import strategies as st
from opencode_files import answer, export, tool
from opencode_files import user as asks

from gitsession import Store, parallel
from gitsession.errors import InvalidName, MissingObject, Unavailable
from gitsession.formats.opencode.agent import opencode
from gitsession.formats.pi.agent import pi
from gitsession.index import search, update
from gitsession.index.derived import remove
from gitsession.index.entry_rows import EntryRow
from gitsession.index.search import Hit
from gitsession.index.search_words import KINDS as SEARCHED
from gitsession.index.search_words import ROLES, expression, matcher, snippet
from gitsession.model.blocks import Text, ToolCall
from gitsession.model.entries import KINDS, Compaction, Message
from gitsession.store import refs


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git", clock=Clock()) as opened:
        yield opened


def file_of(store: Store) -> Path:
    return Path(store.objects.git_dir) / search.FILE


def spoken(store: Store, *words: str, agent: str = "mine", cwd: str | None = None):  # type: ignore[no-untyped-def]
    """Create a session with messages of the user and the model in turn."""
    session = store.new_session(agent=agent, cwd=cwd)
    for number, text in enumerate(words):
        session.append(Message.assistant(text) if number % 2 else Message.user(text))
    return session


def found(store: Store, query: str, **filters: object) -> list[str]:
    return [f"{hit.role}: {hit.snippet}" for hit in store.search(query, **filters)]  # type: ignore[arg-type]


# ---- hits


def test_a_hit_names_session_and_entry(store: Store):
    session = spoken(store, "How do I bake bread?", "With flour.")
    (hit,) = store.search("flour")
    assert isinstance(hit, Hit)
    assert (hit.session.sid, hit.role, hit.snippet) == (session.id, "assistant", "With flour.")
    assert session.history()[-1].oid == hit.oid
    assert hit.at_ms == session.history()[-1].author_seconds * 1000


def test_prompts_come_before_answers_and_tool_calls(store: Store):
    session = spoken(store, "hello", "bread")
    call = ToolCall("c", "bake", {"what": "bread"})
    session.append(Message.assistant([call]))
    session.append(Message.tool(call, [Text("bread")]))
    spoken(store, "bread")
    session.append(Compaction(summary="bread"))
    spoken(store, "words").rename("All about bread")
    assert [hit.role for hit in store.search("bread")] == [
        "title", "user", "summary", "assistant", "tool", "assistant",
    ]  # fmt: skip
    assert [hit.role for hit in store.search("bread", role="tool")] == ["tool"]
    assert {hit.role for hit in store.search("bread")} <= set(ROLES)


def test_every_word_must_match_in_any_order_and_case(store: Store):
    spoken(store, "The quick brown Fóx")
    assert found(store, "fox QUICK")
    assert found(store, '"quick brown"') and not found(store, '"brown quick"')
    assert found(store, "bro*") and found(store, "quick bro") and not found(store, "bro quick")
    assert not found(store, "quick wolf")


@pytest.mark.parametrize(
    ("said", "query"),
    [
        ("the tests failed", "testing fails"), ("authentication works", "authenticated"), ("she studies", "study it*"),
        ("hoping", "hope"), ("Sizes", "sizing"), ("a happy end", "happiness end"),
    ],
)  # fmt: skip
def test_other_forms_of_a_word_are_found(store: Store, said: str, query: str):
    spoken(store, f"{said} item")
    assert found(store, query)


def test_words_in_quotation_marks_match_exactly(store: Store):
    spoken(store, "She tested two files")
    assert found(store, '"two files"') and found(store, "test two file")
    assert not found(store, '"two file"') and not found(store, '"test"') and not found(store, '"teste"')


def test_a_form_of_a_word_ranks_below_the_word(store: Store):
    spoken(store, "many words testing many words", "ok")
    spoken(store, "many words tests many words", "ok")
    spoken(store, "many words testing many words", "ok")
    assert found(store, "testing words*")[-1] == "user: many words tests many words"


def test_a_prefix_is_not_stemmed(store: Store):
    spoken(store, "the runtime is fine")
    assert not found(store, "running") and found(store, "runti") and found(store, "run")


def test_newer_entries_rank_higher(store: Store):
    year_ms = 365 * 86_400_000
    for at_ms in (1, year_ms, 2 * year_ms):
        store.new_session(agent="a").append(Message.user(f"bread at {at_ms}", at_ms=at_ms))
    assert [hit.at_ms for hit in store.search("bread")] == [2 * year_ms, year_ms, 1]


def test_filters_by_time_and_changed_file(store: Store):
    baked = spoken(store, "bread")
    call = ToolCall("c", "write", {"path": "/work/a/oven.py", "content": "hot"})
    baked.append(Message.assistant([call]))
    baked.append(Message.tool(call, [Text("written")]))
    spoken(store, "bread too")
    assert found(store, "bread", file="/work/a/oven.py") == ["user: bread"]
    assert found(store, "bread", file="oven.py") == found(store, "bread", file="/work/a")
    assert found(store, "bread", file="other.py") == []
    assert found(store, "bread", until_ms=1) == [] and len(found(store, "bread", until_ms=2**53)) == 2


def test_hit_has_the_line_and_the_lines_around_it(store: Store):
    spoken(store, "one\n\ntwo\nIt was Tested twice\n\n\nthree\nfour")
    (hit,) = store.search("test")
    assert (hit.before, hit.line, hit.after, hit.words) == ("two", "It was Tested twice", "three", ("Tested",))


def test_hit_in_output_of_a_tool_has_no_lines_around_it(store: Store):
    session = spoken(store, "go")
    session.append(Message.tool(ToolCall("c", "cat", {}), [Text("one\nneedle\ntwo")]))
    (hit,) = store.search("needle")
    assert (hit.before, hit.line, hit.after) == ("", "needle", "")


def test_hit_in_a_huge_line_is_short(store: Store):
    spoken(store, f"{'x ' * 50_000}\n{'y ' * 50_000}needle{' z' * 50_000}\n{'x ' * 50_000}")
    (hit,) = store.search("needle")
    assert "needle" in hit.line and max(map(len, (hit.before, hit.line, hit.after))) < 200


# ---- regular expressions


def test_regular_expression_is_searched_in_the_same_texts(store: Store):
    session = spoken(store, "error 17 in\nmain.py", "Café", cwd="/work/a")
    session.rename("All about errors")
    spoken(store, "error 404", agent="b")
    assert found(store, r"error \d+", regex=True) == ["user: error 404", "user: error 17 in main.py"]
    assert found(store, r"errors?$", regex=True) == ["title: All about errors"]
    assert found(store, r"^main\.py$", regex=True) and not found(store, "ERROR", regex=True)
    assert found(store, r"(?i)ERROR 4", regex=True, agent="b") and not found(store, "17", regex=True, agent="b")
    assert found(store, "Caf.", regex=True) and found(store, "Café$", regex=True)
    assert len(found(store, "", regex=True)) == 4 and len(found(store, "", regex=True, most=2)) == 2


@pytest.mark.parametrize("query", ["(", "[a", "*", "a{99999999999999999999}", "(?P<a>x)(?P<a>y)", "\\"])
def test_invalid_regular_expression_is_rejected(store: Store, query: str):
    spoken(store, "bread")
    with pytest.raises(InvalidName, match="invalid regular expression"):
        store.search(query, regex=True)


# ---- suggestions


def test_a_query_with_known_words_is_suggested(store: Store):
    spoken(store, "the authentication of the login page", "Fixed.")
    assert store.suggest_query("autentication") == "authentication"
    assert store.suggest_query("login autentication") == "login authentication"
    assert store.suggest_query("AUTHENTICATOIN page") == "authentication page"
    assert store.suggest_query("autentication", agent="mine", role="user") == "authentication"
    assert store.suggest_query("autentication", agent="other") == ""
    assert store.suggest_query("autentication", until_ms=1) == ""


def test_nothing_is_suggested_without_hits(store: Store):
    spoken(store, "the authentication", "of the login page")
    for query in ("zebra", "login autentication", "", "🙂", "日本", *HOSTILE):
        assert store.suggest_query(query) == "", query


def test_names_of_code_are_found_by_their_parts_and_whole(store: Store):
    spoken(store, "see foo_bar.baz() in src/main.py")
    for query in ("foo_bar", "foo", "src/main.py", "foo_bar.baz()", "main.py"):
        assert found(store, query), query


@pytest.mark.parametrize(
    "query",
    ["写入", "证明文件", "Subagent 证明", "入并", "写*", '"验证 Subagent"', "件。", "写入 goal", "验证Subagent"],
)
def test_words_are_found_in_scripts_without_spaces(store: Store, query: str):
    spoken(store, "Goal: 写入并验证 Subagent B 的证明文件。")
    assert found(store, query)


@pytest.mark.parametrize(
    ("said", "query"),
    [("ファイルを保存する", "保存"), ("파일을 저장해", "파일"), ("บันทึกไฟล์", "ไฟล์"), ("𠮷野家で食べる", "野家")],
)
def test_words_are_found_in_other_scripts_without_spaces(store: Store, said: str, query: str):
    spoken(store, said)
    assert found(store, query)


def test_characters_must_be_adjacent_as_in_the_query(store: Store):
    spoken(store, "验证文件")
    assert not found(store, "证验") and not found(store, "验文") and found(store, "文件 验证")


def test_snippet_shows_the_match_in_a_script_without_spaces():
    assert "证明" in snippet("写入" * 300 + "证明" + "写入" * 300, matcher("证明"), 60)


def test_filters_narrow_it_down(store: Store):
    spoken(store, "bread one", agent="a", cwd="/work/a")
    spoken(store, "bread two", agent="b", cwd="/work/b")
    assert found(store, "bread", agent="a") == ["user: bread one"]
    assert found(store, "bread", project="/work/b") == ["user: bread two"]
    assert len(found(store, "bread", project="/work")) == 2
    assert len(found(store, "bread", most=1)) == 1
    assert found(store, "bread", since_ms=2**53) == []


def test_prompts_of_the_system_are_not_searched_and_long_results_only_at_their_head(store: Store):
    session = spoken(store, "go")
    session.append(Message(role="system", content=(Text("needle"),)))
    call = ToolCall("c", "cat", {})
    session.append(Message.tool(call, [Text("y " * 3_000 + "needle")]))
    assert found(store, "needle") == []


def test_an_imported_session_is_found_like_any_other(store: Store):
    data = pi_file(said("u", None, "Where is the bread?"), entry("custom", "x", "u", customType="t"))
    store.agents.import_data(pi, data)
    assert found(store, "bread") == ["user: Where is the bread?"]


def test_result_stored_in_an_answer_is_found(store: Store):
    talk = [asks("msg_u1", "Bake", at=1), answer("msg_a1", "Done.", at=2, parts=[tool("c1", "two loaves")])]
    store.agents.import_data(opencode, export(talk), final=True)
    assert found(store, "loaves") == ["assistant: Done. bash ls two loaves"]


# ---- changes of the store


def test_only_new_entries_are_indexed(store: Store, monkeypatch: pytest.MonkeyPatch):
    session = spoken(store, *(f"word {n}" for n in range(50)))
    spoken(store, "another session")
    store.search("word")
    session.append(Message.user("bread"))
    read: list[str] = []
    look = store.objects.read
    monkeypatch.setattr(store.objects, "read", lambda oid: (read.append(oid), look(oid))[1])
    store.catalogue()
    read.clear()
    assert found(store, "bread") == ["user: bread"]
    assert len(read) < 20


def test_undone_entries_are_not_found_and_redone_ones_are(store: Store):
    store.agents.import_data(pi, pi_file(*talk("bread")))
    assert found(store, "bread")
    store.undo()
    assert found(store, "bread") == []
    store.redo()
    assert found(store, "bread")


def test_fork_is_searched_without_its_shared_entries(store: Store):
    session = spoken(store, "bread", "yes")
    side = session.fork()
    side.append(Message.user("bread and butter"))
    assert sorted((hit.session.sid == side.id, hit.snippet) for hit in store.search("bread")) == [
        (False, "bread"), (True, "bread and butter"),
    ]  # fmt: skip


def test_every_branch_is_searched(store: Store):
    session = spoken(store, "bread", "yes")
    session.branch("side", at=session.history()[1]).append(Message.user("butter"))
    assert found(store, "butter") and found(store, "yes")


def test_lost_entry_does_not_hide_others(store: Store, tmp_path: Path):
    data = pi_file(*talk("a", "b", "c", "d"))
    sid = store.agents.import_data(pi, data).session
    lost = store.session(sid).history()[2]
    look = store.objects.read

    def read(oid: str):  # type: ignore[no-untyped-def]
        if oid == lost.oid:
            raise MissingObject(oid)
        return look(oid)

    store.catalogue()
    store.objects.read = read  # type: ignore[method-assign]
    assert found(store, '"words of"')
    assert "user: words of a" in found(store, '"words of"')
    store.objects.read = look  # type: ignore[method-assign]
    spoken(store, "something new")
    assert len(found(store, '"words of"')) == 4


# ---- derived data


@pytest.mark.parametrize("run", [2, search.RUN])
def test_index_is_complete_although_the_catalog_was_built_again_meanwhile(
    store: Store, monkeypatch: pytest.MonkeyPatch, run: int
) -> None:
    monkeypatch.setattr(search, "RUN", run)
    monkeypatch.setattr(update, "SESSIONS", 1)
    monkeypatch.setattr(update, "REMOVED_MIN", 1)
    monkeypatch.setattr(update, "REMOVED_FOR_EACH", 1)
    held = [spoken(store, *["bread"] * 5).id for _ in range(9)]
    store.flush()
    subprocess.run(["git", "-C", str(store.objects.git_dir), "pack-refs", "--all"], check=True)
    indexed, read_run = [], search.run_of

    def read_run_and_build_again(db: sqlite3.Connection, sid: str, *arguments: Any) -> list[EntryRow]:
        found = read_run(db, sid, *arguments)
        indexed.append(sid)
        if len(indexed) == 2:
            with Store.open(store.objects.git_dir) as other, other.objects.transaction() as tx:
                for name, oid in other.objects.refs(refs.SESSIONS).items():
                    if refs.session_of(name) in held[4:]:
                        tx.move(name, None, expected=oid)
            with Store.open(store.objects.git_dir) as other:
                other.flush()
                assert len(other.sessions(1)) == 1
        return found

    monkeypatch.setattr(search, "run_of", read_run_and_build_again)
    store.search("bread")
    monkeypatch.setattr(search, "run_of", read_run)
    hits = [hit.session.sid for hit in store.search("bread")]
    assert sorted(hits) == sorted(held[:4] * 5)


DAMAGE = {
    "gone": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "no database": lambda path: path.write_bytes(b"nonsense" * 1000),
    "its beginning overwritten": lambda path: path.write_bytes(bytes(4096) + path.read_bytes()[4096:]),
    "its end cut off": lambda path: path.write_bytes(path.read_bytes()[:9000]),
    "of a later version": lambda path: sqlite3.connect(path).execute("PRAGMA user_version = 99").connection.close(),
    "a table gone": lambda path: sqlite3.connect(path).execute("DROP TABLE docs").connection.close(),
}


@pytest.mark.parametrize("harm", DAMAGE.values(), ids=DAMAGE)
def test_damaged_index_is_rebuilt(store: Store, harm):  # type: ignore[no-untyped-def]
    spoken(store, "bread", "yes")
    assert found(store, "bread")
    for beside in ("-wal", "-shm"):
        Path(f"{file_of(store)}{beside}").unlink(missing_ok=True)
    harm(file_of(store))
    assert found(store, "bread") == ["user: bread"]
    assert file_of(store).stat().st_mode & 0o777 == 0o600


def test_search_works_in_memory_if_the_index_cannot_be_written(store: Store, monkeypatch: pytest.MonkeyPatch):
    spoken(store, "bread")
    monkeypatch.setattr(search, "FILE", Path("nowhere") / "search.db")
    assert found(store, "bread") == ["user: bread"]


def test_an_append_does_not_touch_it(store: Store):
    session = spoken(store, "bread")
    store.search("bread")
    before = file_of(store).read_bytes()
    session.append(Message.user("more"))
    store.catalogue()
    assert file_of(store).read_bytes() == before


def test_interrupted_build_continues(store: Store, monkeypatch: pytest.MonkeyPatch):
    spoken(store, *(f"bread {n}" for n in range(30)))
    monkeypatch.setattr(search, "BATCH", 7)
    read = search._documents
    left = iter(range(3))

    def until_killed(*args: object) -> object:
        next(left)
        return read(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(search, "_documents", until_killed)
    with pytest.raises(StopIteration):
        store.search("bread")
    with closing(sqlite3.connect(file_of(store))) as db:
        assert db.execute("SELECT count(*) FROM docs").fetchone() == (21,)
    monkeypatch.setattr(search, "_documents", read)
    assert len(store.search("bread", most=100)) == 30


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shares the work")
def test_several_processes_build_the_same_index(store: Store, monkeypatch: pytest.MonkeyPatch):
    spoken(store, *(f"bread {n}" for n in range(30)))
    spoken(store, *(f"butter {n}" for n in range(5)))

    def documents() -> list[tuple[object, ...]]:
        remove(file_of(store))
        assert len(store.search("bread", most=100)) == 30
        with closing(sqlite3.connect(file_of(store))) as db:
            matching = db.execute("SELECT rowid FROM words WHERE words MATCH 'bread' ORDER BY rowid").fetchall()
            return [*matching, *db.execute("SELECT * FROM docs ORDER BY id")]

    alone = documents()
    monkeypatch.setattr(search, "PROCESS_ENTRIES_MIN", 4)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(2))
    monkeypatch.setattr(threading, "active_count", lambda: 1)  # the threads of the test runner do nothing here
    started: list[object] = []
    start = parallel._start
    monkeypatch.setattr(parallel, "_start", lambda work: (started.append(work), start(work))[1])
    assert documents() == alone
    assert started


def test_damaged_catalog_does_not_remove_the_index(store: Store):
    spoken(store, "bread")
    assert found(store, "bread") == ["user: bread"]
    before = file_of(store).read_bytes()
    catalog = file_of(store).with_name("index.db")
    with closing(sqlite3.connect(catalog)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        [(page,)] = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'sessions'")
        [(size,)] = db.execute("PRAGMA page_size")
    with open(catalog, "r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    with Store.open(store.objects.git_dir) as opened:
        with pytest.raises(Unavailable, match="cannot read the index"):
            opened.search("bread")
        assert file_of(store).read_bytes() == before
        assert found(opened, "bread") == ["user: bread"]


def test_another_search_may_add_entries_between_two_batches(store: Store, monkeypatch: pytest.MonkeyPatch):
    spoken(store, *(f"bread {n}" for n in range(30)))
    monkeypatch.setattr(search, "BATCH", 7)
    begin_anew, others = search._begin_anew, iter(["other", ""])

    def added_meanwhile(db: sqlite3.Connection) -> None:
        begin_anew(db)
        if next(others, ""):
            with Store.open(store.objects.git_dir) as opened:
                db.execute("COMMIT")
                opened.search("bread")
                db.execute("BEGIN IMMEDIATE")

    monkeypatch.setattr(search, "_begin_anew", added_meanwhile)
    monkeypatch.setattr(search, "remove", lambda _: pytest.fail("the index was removed"))
    assert len(store.search("bread", most=100)) == 30


# ---- malicious queries


HOSTILE = (
    '"', "'", "AND", "OR NOT", "a AND", "NEAR(a b)", "asked:x", "a*b", "*", "^a", "-a", "()", "{x}: y", "\0", "\ud800",
    "a" * 100_000, "x " * 5_000, "", " ", "%", ";DROP TABLE docs", '"a" "b', "日本", "🙂", "a\nb", "rowid", "+",
    "日" * 5_000, "日 " * 5_000,
)  # fmt: skip


@pytest.mark.parametrize("query", HOSTILE, ids=range(len(HOSTILE)))
def test_no_question_is_an_error(store: Store, query: str):
    spoken(store, "bread and AND butter")
    store.search(query)


@settings(max_examples=300)
@given(st.text(max_size=40))
def test_any_text_is_a_valid_query(query: str):
    db = sqlite3.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE t USING fts5(a)")
    asked = expression(query)
    if asked:
        db.execute("SELECT * FROM t WHERE t MATCH ?", (asked,)).fetchall()
    assert len(snippet("some words " * 50, matcher(query), 40)) <= 41


def test_kinds_with_text_are_searched():
    assert set(SEARCHED) == {"message", "custom_message", "compaction", "branch_summary"}
    assert set(SEARCHED) <= set(KINDS)
