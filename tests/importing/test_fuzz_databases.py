"""Tests of imports of malformed databases: errors name each rejected session, and all others are imported."""

from __future__ import annotations

import contextlib
import io
import json
import random
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import opencode_files
import pytest
from builders import assert_clean
from figures import DEEP, figure
from fuzzing import OPENCODE_TALK
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutation import mutant

from gitsession.api import Store
from gitsession.cli import app as command_line
from gitsession.cli import exits

VALUES: Sequence[Any] = (
    None, 0, -1, 1, 2**53, 2**63 - 1, -(2**63), 1.5, float("inf"), float("-inf"), 1e300, "", "x",
    "\0", "a\0b", "ses_one",
    b"", b"\xff\xfe", b"{}", b"\0", "null", "[]", "{}", "5", '"x"', "{", "[" * 300,
    "[" * 100_000, '{"a":1e999}', "1e999",
    '{"messageID":1e999,"partID":{}}', '{"id":1e999,"providerID":[]}', '1,"id":"other"', "1}", '{"type":"text"}', "NaN",
    '{"role":"user","id":5,"sessionID":[],"time":{"created":"x"}}', '{"a":1,"a":2}', " {} ", "\ufeff{}", "9" * 5000,
    '{"messageID":"msg_u2"}', '{"state":{"time":{"compacted":' + "9" * 300 + '}},"type":"tool"}', '"\\ud800"', "\u2028",
    '{"state":{"metadata":{"sessionId":"ses_one"}}}', "2026-02-01T00:00:00Z", "9999-99-99", "0000-00-00T00:00:00.1Z",
)  # fmt: skip


def opencode(path: Path) -> sqlite3.Connection:
    made = opencode_files.Database(path)
    for id in ("ses_zero", "ses_one", "ses_two"):
        about = opencode_files.info(id=id, parentID=None if id != "ses_two" else "ses_zero")
        made.put(_of(id), about)
    return made.db


def _of(session: str) -> list[dict[str, Any]]:
    """Return the messages with ids of their own, for another session."""

    def named(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: named(item) for key, item in value.items()}
        if isinstance(value, list):
            return [named(item) for item in value]
        is_id = isinstance(value, str) and value.startswith(("msg_", "prt_"))
        return session if value == opencode_files.SES else f"{value}_{session}" if is_id else value

    return [named(message) for message in OPENCODE_TALK]


def librecode(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("CREATE TABLE sessions (id TEXT PRIMARY KEY, cwd TEXT, name TEXT, created_at TEXT, updated_at TEXT)")
    names = "parent_id TEXT, entry_type TEXT, role TEXT, content TEXT, provider TEXT, model TEXT, summary TEXT"
    more = "data_json TEXT DEFAULT '{}', created_at TEXT, tool_name TEXT, token_estimate INTEGER, model_facing INTEGER"
    db.execute(f"CREATE TABLE session_entries (id TEXT PRIMARY KEY, session_id TEXT, {names}, {more})")
    names = "type TEXT, text TEXT, mime_type TEXT, name TEXT, width INTEGER, height INTEGER, data BLOB"
    db.execute(f"CREATE TABLE session_message_parts (session_id TEXT, entry_id TEXT, sequence INTEGER, {names})")
    begun, said = "2026-02-01T00:00:00Z", "session_id, id, parent_id, entry_type, role, content, created_at"
    for id in NAMES["librecode"]:
        db.execute("INSERT INTO sessions VALUES (?, '/work', 'N', ?, ?)", (id, begun, begun))
        above = None
        for at, type in enumerate(("user", "assistant", "toolResult", "compaction", "label", "user")):
            entry = ("message", type) if type not in ("compaction", "label") else (type, "")
            row = (id, f"{id}e{at}", above, *entry, f"words {at}", f"2026-02-01T00:00:0{at}Z")
            db.execute(f"INSERT INTO session_entries ({said}) VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            above = row[1]
        part = (id, f"{id}e0", 0, "image", "", "image/png", "n", 1, 1, b"\x89PNG")
        db.execute(f"INSERT INTO session_message_parts VALUES ({', '.join('?' * 10)})", part)
    return db


AGENTS: dict[str, Callable[[Path], sqlite3.Connection]] = {"librecode": librecode, "opencode": opencode}

NAMES = {"librecode": ("s0", "s1", "s2"), "opencode": ("ses_zero", "ses_one", "ses_two")}


# ---- changes

Wound = Callable[[random.Random, sqlite3.Connection], object]


def _tables(db: sqlite3.Connection) -> dict[str, list[str]]:
    names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE '%s%'")]
    return {name: [row[1] for row in db.execute(f'PRAGMA table_info("{name}")')] for name in names}


def _any(draw: random.Random, db: sqlite3.Connection) -> tuple[str, str]:
    tables = _tables(db)
    table = draw.choice(sorted(tables))
    return table, draw.choice(tables[table])


def _value(draw: random.Random, db: sqlite3.Connection) -> None:
    table, column = _any(draw, db)
    rows = [row for (row,) in db.execute(f'SELECT rowid FROM "{table}"')]
    for row in draw.sample(rows, min(len(rows), draw.choice([1, 1, 2, 99]))):
        db.execute(f'UPDATE OR IGNORE "{table}" SET "{column}" = ? WHERE rowid = ?', (draw.choice(VALUES), row))


def _reuse(draw: random.Random, db: sqlite3.Connection) -> None:
    """Copy values from other rows: reused ids, parents after their children, rows of another session."""
    table, column = _any(draw, db)
    db.execute(
        f'UPDATE OR IGNORE "{table}" SET "{column}" = (SELECT "{column}" FROM "{table}" ORDER BY random() LIMIT 1) '
        "WHERE rowid % 2 = ?",
        (draw.randint(0, 1),),
    )


def _rowid(draw: random.Random, db: sqlite3.Connection) -> None:
    table, _ = _any(draw, db)
    db.execute(f'UPDATE OR IGNORE "{table}" SET rowid = ? WHERE rowid = 1', (draw.choice([2**63 - 1, -(2**63), 0, 7]),))


def _gone(draw: random.Random, db: sqlite3.Connection) -> None:
    table, column = _any(draw, db)
    draw.choice([
        lambda: db.execute(f'DELETE FROM "{table}" WHERE rowid % 2'),
        lambda: db.execute(f'DROP TABLE "{table}"'),
        lambda: db.execute(f'ALTER TABLE "{table}" DROP COLUMN "{column}"'),
        lambda: db.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "{draw.choice(["data", "rowid"])}"'),
    ])()  # fmt: skip


def _remade(draw: random.Random, db: sqlite3.Connection) -> None:
    """Recreate the table without keys and types, without rowids, as a view, or with another table's rows."""
    table, column = _any(draw, db)
    db.execute(f'ALTER TABLE "{table}" RENAME TO other')
    names = ", ".join(f'"{row[1]}"' for row in db.execute("PRAGMA table_info(other)"))
    match draw.randrange(4):
        case 0:
            db.execute(f'CREATE TABLE "{table}" ({names})')
        case 1:
            db.execute(f'CREATE TABLE "{table}" ({names}, PRIMARY KEY ("{column}")) WITHOUT ROWID')
        case 2:
            db.execute(f'CREATE VIEW "{table}" AS SELECT * FROM other')
            return
        case _:
            db.execute(f'CREATE TABLE "{table}" ({names}, later, "a""b" DEFAULT 5, "x y" GENERATED ALWAYS AS (1))')
    db.execute(f'INSERT OR IGNORE INTO "{table}" ({names}) SELECT {names} FROM other')


def _trigger(draw: random.Random, db: sqlite3.Connection) -> None:
    table, column = _any(draw, db)
    db.execute(
        f'CREATE TRIGGER "{draw.choice(["session", "message", "t1"])}" AFTER UPDATE ON "{table}" BEGIN SELECT 1; END'
    )
    db.execute(f'CREATE INDEX IF NOT EXISTS "i{column}" ON "{table}" (abs("{column}"))')


WOUNDS: Sequence[Wound] = (_value, _value, _value, _value, _reuse, _reuse, _rowid, _gone, _remade, _trigger)


def wounded(draw: random.Random, agent: str, path: Path) -> None:
    db = AGENTS[agent](path)
    for _ in range(draw.randint(0, 4)):
        try:
            draw.choice(WOUNDS)(draw, db)
        except (sqlite3.Error, OverflowError, IndexError):
            continue
    db.close()
    if draw.random() < 0.3:
        data = path.read_bytes()
        for _ in range(draw.randint(1, 3)):
            data = draw.choice([mutant, _page, _half])(draw, data) or b"\0"
        path.write_bytes(data)
    for ending in ("-wal", "-shm", "-journal"):
        if draw.random() < 0.05:
            path.with_name(path.name + ending).write_bytes(draw.choice([b"", b"\0" * 32768, draw.randbytes(4096)]))


def _page(draw: random.Random, data: bytes) -> bytes:
    """Replace a page with another page, random bytes or zeros."""
    at, other = (draw.randrange(max(len(data) // 4096, 1)) * 4096 for _ in range(2))
    page = draw.choice([data[other : other + 4096], draw.randbytes(4096), bytes(4096)])
    return data[:at] + page + data[at + 4096 :]


def _half(draw: random.Random, data: bytes) -> bytes:
    return data[: draw.randrange(len(data))]


# ---- checks

settled = settings(
    max_examples=figure(40, 20_000), derandomize=not DEEP, suppress_health_check=[*HealthCheck], deadline=None
)


@pytest.mark.parametrize("agent", AGENTS)
@settled
@given(draw=st.randoms(use_true_random=False))
def test_malformed_database_is_imported_partly_with_errors(
    agent: str, draw: random.Random, tmp_path_factory: pytest.TempPathFactory
) -> None:
    survives(agent, tmp_path_factory.mktemp("wounded"), draw)


@pytest.mark.parametrize("agent", AGENTS)
@settled
@given(draw=st.randoms(use_true_random=False))
def test_one_malformed_session_does_not_affect_others(
    agent: str, draw: random.Random, tmp_path_factory: pytest.TempPathFactory
) -> None:
    spares(agent, tmp_path_factory.mktemp("one"), draw)


WOUNDED: dict[str, tuple[str, str]] = {
    "a time that is no number": ("opencode", "UPDATE session SET time_created = 9e999 WHERE id = 'ses_one'"),
    "a cost that is no number": ("opencode", "UPDATE session SET cost = 9e999 WHERE id = 'ses_one'"),
    "ids that are bytes": ("opencode", "UPDATE message SET id = CAST(id AS BLOB) WHERE session_id = 'ses_one'"),
    "parts of bytes": ("opencode", "UPDATE part SET id = CAST(id AS BLOB) WHERE session_id = 'ses_one'"),
    "times too great to be added": (
        "opencode", f"UPDATE part SET time_updated = {2**63 - 1} WHERE session_id = 'ses_one'",
    ),
    "a column that says more than it may": (
        "opencode", """UPDATE session SET metadata = '1,"id":"ses_two"' WHERE id = 'ses_one'""",
    ),
    "a model that is no number": ("opencode", """UPDATE session SET model = '{"id":1e999}' WHERE id = 'ses_one'"""),
    "a column that is called as what it is not": (
        "librecode", "ALTER TABLE session_entries RENAME COLUMN summary TO rowid",
    ),
    "rows too far on to be added": (
        "librecode", f"UPDATE session_entries SET rowid = rowid + {2**63 - 99} WHERE session_id = 's1'",
    ),
}  # fmt: skip
"""Databases that once raised an error or lost other sessions, by the reason."""


@pytest.mark.parametrize(("agent", "query"), WOUNDED.values(), ids=WOUNDED)
def test_known_damage_of_one_session_does_not_affect_others(agent: str, query: str, tmp_path: Path) -> None:
    path = tmp_path / f"{agent}.db"
    with contextlib.closing(AGENTS[agent](path)) as db:
        db.execute(query)
    done = taken(tmp_path, path, "--final")
    assert {each["source_id"] for each in done["sessions"]} == {*NAMES[agent]}
    assert not done["failed"]
    assert not taken(tmp_path, path)["failed"]


def test_a_damaged_page_costs_the_sessions_that_lie_in_it(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    with contextlib.closing(opencode_files.Database(path)) as made:
        made.db.execute("CREATE INDEX by_session ON message (session_id)")
        made.db.execute("CREATE INDEX parts_by_session ON part (session_id)")
        made.db.execute("CREATE INDEX parts_by_message ON part (message_id)")
        for number in range(40):
            made.put(_of(f"ses_{number:02}"), opencode_files.info(id=f"ses_{number:02}"))
        [(root,)] = made.db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'part'")
    data = path.read_bytes()
    at = int.from_bytes(data[(root - 1) * 4096 + 12 :][:2], "big") + (root - 1) * 4096  # the root's first cell
    leaf = int.from_bytes(data[at : at + 4], "big")
    path.write_bytes(data[: (leaf - 1) * 4096] + bytes(4096) + data[leaf * 4096 :])
    done = taken(tmp_path, path, "--final")
    assert len(done["sessions"]) > 30
    assert done["failed"]
    assert all("ses_" in failure["path"] and "damaged" in failure["what"] for failure in done["failed"])


SECRET = "sk-marker-of-a-secret-5f1e"


def test_no_secret_of_a_database_is_in_the_store(tmp_path: Path) -> None:
    """Tables with credentials are stored beside the sessions: in the same pages, in free pages, and in the log."""
    path = tmp_path / "opencode.db"
    with contextlib.closing(opencode_files.Database(path, log=True)) as made:
        for table in ("account", "credential", "control_account", "session_share"):
            made.db.execute(f"UPDATE {table} SET secret = ?", (SECRET,))
            made.db.execute(f"INSERT INTO {table} SELECT secret, id FROM {table}")
        made.db.execute("CREATE TABLE later (session_id TEXT, data TEXT)")
        made.db.execute("INSERT INTO later VALUES ('ses_one', ?)", (SECRET,))
        made.db.execute("CREATE VIEW messages AS SELECT * FROM credential")
        made.put(OPENCODE_TALK)
        done = taken(tmp_path, path, "--final")
    assert [each["source_id"] for each in done["sessions"]] == ["ses_one"]
    with Store.open(tmp_path / "store.git") as store:
        found = [store.objects.read(oid)[1] for oid in store.objects.oids()]
        found.append(store.export(done["sessions"][0]["session"]).data)
    found += [each.read_bytes() for each in (tmp_path / "store.git").rglob("*") if each.is_file()]
    assert len(found) > 20
    assert not any(SECRET.encode() in data for data in found)


def survives(agent: str, folder: Path, draw: random.Random) -> None:
    path = folder / f"{agent}.db"
    wounded(draw, agent, path)
    first = taken(folder, path, "--final")
    assert all(failure["what"] for failure in first["failed"])
    again = taken(folder, path, "--final")
    assert [each["new"] for each in again["sessions"]] == [0] * len(again["sessions"])
    assert len(again["failed"]) == len(first["failed"])
    with Store.open(folder / "store.git") as store:
        for row in store.sessions():
            store.export(row.sid)
        assert_clean(store.objects)


def spares(agent: str, folder: Path, draw: random.Random) -> None:
    path = folder / f"{agent}.db"
    db = AGENTS[agent](path)
    one, others = NAMES[agent][1], {NAMES[agent][0], NAMES[agent][2]}
    for _ in range(draw.randint(1, 6)):
        table, column = _any(draw, db)
        key = "id" if table in ("session", "sessions") else "session_id"
        value = draw.choice([value for value in VALUES if value not in NAMES[agent]])
        db.execute(
            f'UPDATE OR IGNORE "{table}" SET "{column}" = ? WHERE "{key}" = ? AND rowid % ? = 0',
            (value, one, draw.choice([1, 1, 2])),
        )
    db.close()
    done = taken(folder, path)
    found = {each["source_id"]: each for each in done["sessions"]}
    assert others <= found.keys(), done["failed"]
    assert all(found[id]["entries"] and not found[id]["problems"] for id in others)
    taken(folder, path)


def taken(folder: Path, path: Path, *words: str) -> Any:
    """Run the import command and return its output. The exit code must be documented and no exception may escape."""
    out, complaints = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(complaints):
        code = command_line.run(["--store", str(folder / "store.git"), "import", str(path), "--json", *words])
    told = out.buffer.getvalue()
    assert code in (exits.OK, exits.NOTHING, exits.NOT_FOUND, exits.INTEGRITY, exits.TRY_AGAIN), complaints.getvalue()
    assert told, complaints.getvalue()
    return json.loads(told)
