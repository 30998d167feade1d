"""Tests of librecode's database: every kind of entry, both versions, growth, and exports as lines."""

from __future__ import annotations

import json
import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from builders import assert_clean, bring, exported, moved_forward, session, session_refs, title_of
from hypothesis import given
from hypothesis import strategies as st
from mutation import mutant

from gitsession.context import build
from gitsession.context.history import ContextHistory
from gitsession.context.value import Context
from gitsession.discovery import sources
from gitsession.errors import GitSessionError, Malformed
from gitsession.formats import claimed
from gitsession.formats.librecode.agent import librecode
from gitsession.importing.import_session import ImportResult, import_source
from gitsession.model import entries
from gitsession.model.blocks import Image
from gitsession.sessions import graph
from gitsession.store.interface import ObjectStore
from gitsession.store.memory import MemoryStore

PNG = b"\x89PNG\r\n\x1a\n" + bytes(2000)

_ENTRY = (
    "id TEXT PRIMARY KEY, session_id TEXT, parent_id TEXT, entry_type TEXT, role TEXT DEFAULT '', content TEXT "
    "DEFAULT '', provider TEXT DEFAULT '', model TEXT DEFAULT '', custom_type TEXT DEFAULT '', data_json TEXT DEFAULT "
    "'{}', summary TEXT DEFAULT '', created_at TEXT"
)
_LATER = (
    ", tool_name TEXT DEFAULT '', tool_status TEXT DEFAULT '', tool_args_json TEXT DEFAULT '', token_estimate INTEGER "
    "DEFAULT 0, model_facing INTEGER DEFAULT 0, display INTEGER DEFAULT 1, compaction_first_kept_entry_id TEXT DEFAULT "
    "'', compaction_tokens_before INTEGER DEFAULT 0, branch_from_entry_id TEXT DEFAULT '', operation_id TEXT DEFAULT ''"
)


class Database:
    """A database of librecode.

    Args:
        first: Use the schema of its first version.
    """

    def __init__(self, path: Path, *, first: bool = False) -> None:
        self.path, self.db = path, sqlite3.connect(path, isolation_level=None)
        names = "id TEXT PRIMARY KEY, cwd TEXT, name TEXT DEFAULT '', parent_session TEXT DEFAULT '', created_at TEXT"
        self.db.execute(f"CREATE TABLE sessions ({names}, updated_at TEXT)")
        self.db.execute(f"CREATE TABLE session_entries ({_ENTRY}{'' if first else _LATER})")
        if not first:
            self.db.execute(
                "CREATE TABLE session_message_parts (id TEXT, session_id TEXT, entry_id TEXT, sequence INTEGER, type "
                "TEXT, text TEXT DEFAULT '', mime_type TEXT DEFAULT '', name TEXT DEFAULT '', width INTEGER DEFAULT 0, "
                "height INTEGER DEFAULT 0, data BLOB)"
            )
        self.db.execute("INSERT INTO sessions VALUES ('s1', '/work', 'A name', '', ?, ?)", (at(0), at(0)))
        self.last: str | None = None

    def add(self, id: str, type: str = "message", *, parent: str | None = "", second: int = 0, **columns: Any) -> None:
        """Add an entry. Its default parent is the entry added before."""
        above = self.last if parent == "" else parent
        row = {"id": id, "session_id": "s1", "parent_id": above, "entry_type": type, "created_at": at(second)} | columns
        there = {found[1] for found in self.db.execute("PRAGMA table_info(session_entries)")}
        if "model_facing" in there:
            row = {"model_facing": int(faces(type, columns.get("role"))), **row}
            row = {"display": int(type not in HIDDEN), **row}
        names = ", ".join(row)
        self.db.execute(f"INSERT INTO session_entries ({names}) VALUES ({', '.join('?' * len(row))})", [*row.values()])
        self.last = id

    def part(self, entry: str, sequence: int, **columns: Any) -> None:
        row = {"id": f"{entry}-{sequence}", "session_id": "s1", "entry_id": entry, "sequence": sequence, **columns}
        names = ", ".join(row)
        values = [*row.values()]
        self.db.execute(f"INSERT INTO session_message_parts ({names}) VALUES ({', '.join('?' * len(row))})", values)


HIDDEN = ("model_change", "label", "session_info", "thinking_level_change")


def at(second: int) -> str:
    return f"2026-02-01T00:00:{second:02}Z"


def faces(type: str, role: str | None) -> bool:
    return role in ("user", "assistant") if type == "message" else type in ("custom_message", "compaction")


def talk(made: Database) -> None:
    made.add("u1", role="user", content="Fix it", second=1)
    made.add("m1", "model_change", provider="mock", model="m", second=2)
    made.add("h1", role="thinking", content="Hm.", second=3)
    made.add("t1", role="toolResult", content="tool: ls\n\na.py", second=4, **tool_columns(made))
    usage = {"usage": {"input_tokens": 20, "output_tokens": 5, "context_tokens": 18}}
    made.add("a1", role="assistant", content="Done.", provider="mock", model="m", data_json=json.dumps(usage), second=5)


def tool_columns(made: Database) -> dict[str, str]:
    there = {found[1] for found in made.db.execute("PRAGMA table_info(session_entries)")}
    return {"tool_name": "ls", "tool_status": "success"} if "tool_name" in there else {}


def taken(path: Path, store: ObjectStore) -> list[ImportResult]:
    return [import_source(store, found.format, found.load().source) for found in sources.at(path)]


def shown(store: ObjectStore, sid: str) -> Context:
    leaf = session(store, sid).leaf
    assert leaf is not None
    return build.context(ContextHistory(store, leaf.oid), "librecode")


EVERY = """\
user: Fix it
model: mock/m
thinking: Hm.
tool ls: 3 lines
assistant: Done.
thinking: high
label: mark
title: Another
custom note: words
custom state
branch summary: Left.
compaction: 7k tokens
telepathy"""


def test_every_kind_of_entry_is_imported(tmp_path: Path) -> None:
    made = Database(tmp_path / "librecode.db")
    talk(made)
    made.add("l1", "thinking_level_change", data_json='{"thinking_level":"high"}', second=6)
    made.add("l2", "label", data_json='{"target_id":"u1","label":"mark"}', second=7)
    made.add("l3", "session_info", data_json='{"name":"Another"}', second=8)
    made.add("c1", "custom_message", custom_type="note", content="words", role="custom", second=9)
    made.add("c2", "custom", custom_type="state", data_json='{"a":1}', second=10)
    made.add("b1", "branch_summary", summary="Left.", branch_from_entry_id="a1", second=11)
    kept = {"compaction_first_kept_entry_id": "a1", "compaction_tokens_before": 7000, "operation_id": "op"}
    made.add("k1", "compaction", summary="So far.", second=12, **kept)
    made.add("x1", "telepathy", second=13)
    store = MemoryStore()
    [done] = taken(made.path, store)
    line = session(store, done.session).history()[1:]
    assert "\n".join(node.subject for node in line) == EVERY
    read = [librecode.read(json.dumps(row).encode()) for row in rows(store, done.session)[1:]]
    assert [type(entry).__name__ for entry in read] == [
        "Message", "ModelChange", "Custom", "Message", "Message", "ThinkingChange", "Label", "Title", "CustomMessage",
        "Custom", "BranchSummary", "Compaction", "UnknownEntry",
    ]  # fmt: skip
    assert isinstance(read[11], entries.Compaction)
    assert (read[11].first_kept, read[11].tokens_before) == ("a1", 7000)
    assert title_of(store, done.session) == "Another"
    assert_clean(store)


def rows(store: ObjectStore, sid: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in exported(store, sid).splitlines()]


def test_export_has_one_row_per_line_and_is_imported_with_the_same_entries(tmp_path: Path) -> None:
    made = Database(tmp_path / "librecode.db")
    talk(made)
    store, again = MemoryStore(), MemoryStore()
    [done] = taken(made.path, store)
    data = exported(store, done.session)
    assert claimed(data) is librecode
    assert bring(again, data).session == done.session
    assert session_refs(again) == session_refs(store)
    assert exported(again, done.session) == data


def test_parts_ride_with_their_entry_and_pictures_are_their_bytes(tmp_path: Path) -> None:
    made = Database(tmp_path / "librecode.db")
    made.add("u1", role="user", content="Look", second=1)
    made.part("u1", 0, type="text", text="Look")
    made.part("u1", 1, type="image", mime_type="image/png", name="a.png", width=1, height=1, data=PNG)
    store = MemoryStore()
    [done] = taken(made.path, store)
    node = session(store, done.session).leaf
    assert node is not None
    [item] = shown(store, done.session).items
    assert item.content[1] == Image(PNG, "image/png")
    assert any(data == PNG for kind, data in map(store.read, store.oids()) if kind == "blob")


def test_redundant_part_does_not_change_an_entry(tmp_path: Path) -> None:
    stores = [MemoryStore(), MemoryStore()]
    for number, store in enumerate(stores):
        made = Database(tmp_path / f"{number}.db")
        made.add("u1", role="user", content="Hi", second=1)
        if number:
            made.part("u1", 0, type="text", text="Hi")
        taken(made.path, store)
    assert session_refs(stores[0]) == session_refs(stores[1])


def test_unused_columns_of_later_versions_change_nothing(tmp_path: Path) -> None:
    stores = [MemoryStore(), MemoryStore()]
    for first, store in zip((True, False), stores, strict=True):
        made = Database(tmp_path / f"{first}.db", first=first)
        made.add("u1", role="user", content="Hi", second=1)
        made.add("a1", role="assistant", content="Ho", second=2)
        taken(made.path, store)
    assert session_refs(stores[0]) == session_refs(stores[1])


def test_growing_session_with_branches_equals_one_import(tmp_path: Path) -> None:
    made = Database(tmp_path / "librecode.db")
    grown, at_once = MemoryStore(), MemoryStore()
    before: dict[str, str] = {}
    for second, (id, parent) in enumerate([("a", None), ("b", "a"), ("c", "b"), ("d", "a"), ("e", "d"), ("f", "c")], 1):
        made.add(id, role="user", content=id, parent=parent, second=second)
        [done] = taken(made.path, grown)
        now = {name: value for name, value in session_refs(grown).items() if not name.endswith("/meta")}
        assert done.rewritten is None
        assert moved_forward(grown, before, now)
        before = now
    [done] = taken(made.path, at_once)
    assert {n: v for n, v in session_refs(at_once).items() if not n.endswith("/meta")} == before
    assert len(graph.tree(grown, done.session).branches) == 2
    assert_clean(grown)


def test_rows_are_ordered_by_nanoseconds(tmp_path: Path) -> None:
    made = Database(tmp_path / "librecode.db")
    made.add("late", role="user", content="late", parent=None, created_at="2026-02-01T00:00:01.000000002Z")
    made.add("early", role="user", content="early", parent=None, created_at="2026-02-01T00:00:01Z")
    made.add("between", role="user", content="between", parent=None, created_at="2026-02-01T00:00:01.000000001Z")
    store = MemoryStore()
    [done] = taken(made.path, store)
    assert [row["id"] for row in rows(store, done.session)[1:]] == ["early", "between", "late"]


# ---- the context


def test_rules_9_and_10_newest_summary_kept_entries_and_later_ones_in_this_order(tmp_path: Path) -> None:
    made = Database(tmp_path / "librecode.db")
    talk(made)
    made.add("k1", "compaction", summary="First.", compaction_first_kept_entry_id="a1", second=6)
    made.add("u2", role="user", content="More", second=7)
    made.add("k2", "compaction", summary="Second.", compaction_first_kept_entry_id="a1", second=8)
    made.add("u3", role="user", content="End", second=9)
    store = MemoryStore()
    [done] = taken(made.path, store)
    assert told(shown(store, done.session)) == ["Second.", "Done.", "More", "End"]


def test_missing_first_kept_entry_keeps_nothing(tmp_path: Path) -> None:
    made = Database(tmp_path / "librecode.db")
    talk(made)
    made.add("k1", "compaction", summary="First.", compaction_first_kept_entry_id="gone", second=6)
    store = MemoryStore()
    [done] = taken(made.path, store)
    assert told(shown(store, done.session)) == ["First."]


def test_results_and_thoughts_are_left_out_of_the_context_by_default(tmp_path: Path) -> None:
    made = Database(tmp_path / "librecode.db")
    talk(made)
    made.add("u2", role="user", content="/help", model_facing=0, second=6)
    made.add("b1", role="bashExecution", content="$ ls", model_facing=1, second=7)
    made.add("u3", role="user", content="   ", second=8)
    made.add("t2", role="toolResult", content="forced", model_facing=1, second=9)
    store = MemoryStore()
    [done] = taken(made.path, store)
    context = shown(store, done.session)
    assert told(context) == ["Fix it", "Done.", "$ ls"]
    assert context.model == "mock/m"


def told(context: Context) -> list[str]:
    found = []
    for entry in context.messages:
        if isinstance(entry, entries.Compaction | entries.BranchSummary):
            found.append(entry.summary)
        else:
            shell = isinstance(entry, entries.Message) and entry.role == "shell"
            found.append((entry.output or "") if shell and isinstance(entry, entries.Message) else entry.text)
    return found


# ---- hostile databases


@pytest.mark.parametrize("seed", range(80))
def test_damaged_lines_are_rejected_or_kept_unchanged(seed: int, tmp_path: Path) -> None:
    made = Database(tmp_path / "librecode.db")
    talk(made)
    first = MemoryStore()
    [done] = taken(made.path, first)
    data = mutant(random.Random(seed), exported(first, done.session))
    store = MemoryStore()
    try:
        sid = bring(store, data, agent="librecode", final=True).session
    except Malformed as error:
        assert str(error)
    else:
        assert exported(store, sid) == data
        assert_clean(store)


@pytest.mark.parametrize("seed", range(40))
def test_damaged_database_is_read_partly_or_rejected(seed: int, tmp_path: Path) -> None:
    made = Database(tmp_path / "librecode.db")
    talk(made)
    made.db.close()
    made.path.write_bytes(mutant(random.Random(seed), made.path.read_bytes()))
    store = MemoryStore()
    try:
        taken(made.path, store)
    except GitSessionError as error:
        assert str(error)
    assert_clean(store)


@given(st.binary())
def test_any_bytes_have_a_view_and_a_headline(payload: bytes) -> None:
    assert isinstance(librecode.read(payload), entries.Entry)
    assert librecode.headline(payload).label


_NAMES = ("entry_type", "role", "content", "data_json", "parts", "type", "created_at", "model", "summary", "text")
_VALUES = st.recursive(
    st.none() | st.integers(-1, 3) | st.sampled_from(["message", "user", "label", '{"label":1}', "compaction", "{"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=5),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(_NAMES), _VALUES, max_size=8))
def test_any_row_has_a_view_and_a_headline(row: dict[str, Any]) -> None:
    payload = json.dumps(row).encode()
    assert isinstance(librecode.read(payload), entries.Entry)
    assert librecode.headline(payload).label
