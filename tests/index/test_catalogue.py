"""Tests of the catalog: it is derived from the refs, updated step by step, and always equal to a rebuilt one."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from builders import (
    START_MS,
    Clock,
    Watched,
    bring,
    dumps,
    entry,
    header,
    joined,
    label,
    named,
    on_disk,
    pi_file,
    said,
    slot,
    talk,
)
from catalogues import told
from hypothesis import given, settings
from hypothesis import strategies as st

from gitsession import progress
from gitsession.api import Session, Store
from gitsession.codec.digest import to_base64url
from gitsession.errors import Ambiguous, GitSessionError, MissingObject, NotFound, Refused
from gitsession.formats import FORMATS
from gitsession.git.types import Kind, Oid, RefValue
from gitsession.index import catalogue as catalogue_module
from gitsession.index import update
from gitsession.index.catalogue import FILE, Catalogue
from gitsession.index.current_folder import CurrentFolder
from gitsession.index.history_states import CatalogueEntryIndex
from gitsession.model.blocks import ToolCall
from gitsession.model.entries import Label, Message, Title
from gitsession.store import change_stamp, refs, writing
from gitsession.store.create import create
from gitsession.store.interface import ObjectStore


@pytest.fixture(autouse=True)
def no_race_with_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every directory as just changed, so that a change stamp does not depend on the time of the test."""
    monkeypatch.setattr(change_stamp, "_FRESH_NS", 10**18)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git", clock=Clock()) as opened:
        yield opened
        assert_as_if_made_anew(opened)


def made_anew(store: Store, tmp: Path) -> Catalogue:
    """Build a new catalog of the same store."""
    fresh = Catalogue.__new__(Catalogue)
    fresh.git_dir = store.objects.git_dir
    tmp.mkdir(parents=True, exist_ok=True)
    (tmp / "index.db").unlink(missing_ok=True)
    fresh.db = catalogue_module._open(tmp / "index.db")
    update.refresh(fresh, store.objects)
    return fresh


def assert_as_if_made_anew(store: Store) -> None:
    fresh = made_anew(store, store.objects.git_dir.parent / "anew")
    assert told(store.catalogue().db) == told(fresh.db)
    fresh.close()


def begun(store: Store, *words: str, agent: str = "agent", cwd: str | None = "/work") -> Session:
    held = store.new_session(agent=agent, cwd=cwd)
    for text in words or ("hi",):
        held.append(Message.user(text))
    return held


LONG = talk("a", "b", "c", "d")


# ---- addresses


def test_lookups_of_an_import_and_of_show_read_no_whole_table(store: Store) -> None:
    """An import looks up each of its sessions, so a scan would make its cost quadratic."""
    begun(store)
    (row,) = store.sessions()
    catalogue, queries = store.catalogue(), list[str]()
    catalogue.db.set_trace_callback(queries.append)
    catalogue.by_source("pi", "unknown")
    catalogue.by_segment("pi", "unknown")
    catalogue.seen("/unknown", os.stat("/"))
    catalogue.import_state(Path("/unknown"), os.stat("/"))
    catalogue.begun_in(row)
    catalogue.db.set_trace_callback(None)
    plans = [row[3] for query in queries for row in catalogue.db.execute(f"EXPLAIN QUERY PLAN {query}")]
    assert len(plans) >= 5
    assert not [plan for plan in plans if plan.startswith("SCAN")]


# ---- fresh and stale


def test_catalog_is_stale_until_it_is_refreshed_and_after_any_change(store: Store) -> None:
    catalogue = Catalogue(store.objects.git_dir)
    assert not catalogue.is_fresh()
    update.refresh(catalogue, store.objects)
    assert catalogue.is_fresh()
    held = begun(store)
    steps: list[Callable[[], object]] = [
        lambda: held.append(Message.assistant("hello")),
        lambda: held.branch("side"),
        lambda: held.switch("side"),
        lambda: held.label("leaf", "x"),
        lambda: bring(store.objects, pi_file(*LONG)),
        store.undo,
    ]
    for step in steps:
        update.refresh(catalogue, store.objects)
        assert catalogue.is_fresh()
        step()
        assert not catalogue.is_fresh()
    catalogue.close()


def test_row_has_the_listed_fields(store: Store) -> None:
    usage = {"input": 10, "output": 5, "cacheRead": 3, "cacheWrite": 2}
    lines = [*LONG, said("e", "b", role="assistant", at=9, usage=usage), named("f", "e", "Name", at=10)]
    sid = bring(store.objects, pi_file(*lines)).session
    row = store.catalogue().session(sid)
    assert row is not None
    assert (row.agent, row.source_id, row.title, row.first_words, row.project) == (
        "pi", "s1", "Name", "words of a", "/work",
    )  # fmt: skip
    assert (row.created_ms, row.updated_ms, row.entries, row.tokens) == (START_MS, START_MS + 10_000, 6, 20)
    assert set(row.branches) == {"main", row.active}
    assert row.name == "Name"


def test_sessions_are_listed_the_newest_first(store: Store) -> None:
    made = [begun(store, text).id for text in ("one", "two", "three")]
    assert [row.sid for row in store.sessions()] == made[::-1]


def test_a_session_without_a_name_is_called_by_its_first_words(store: Store) -> None:
    begun(store, "how it began", "and went on")
    bring(store.objects, pi_file())
    assert sorted(row.name for row in store.sessions()) == ["(untitled)", "how it began"]


def test_own_text_does_not_come_before_the_first_text_of_the_file(store: Store) -> None:
    sid = bring(store.objects, pi_file(*LONG)).session
    store.session(sid).append(Message.user("ours", at_ms=1))
    assert store.sessions()[0].first_words == "words of a"


def test_fork_has_the_entries_of_its_history(store: Store) -> None:
    held = begun(store, "one", "two")
    held.rename("Title")
    held.label(held.history()[1], "mark")
    made = held.fork()
    row = store.catalogue().session(made.id)
    assert row is not None
    assert (row.entries, row.title) == (len(made.history()) - 1, "Title (fork #1)") == (3, "Title (fork #1)")
    assert (row.agent, row.project, row.active) == ("agent", "/work", "main")
    assert store.catalogue().session(held.id) is not None
    made.append(Message.user("on"))
    assert store.sessions()[0].entries == 4
    again = made.fork()
    assert {row.sid: row.entries for row in store.sessions()} == {held.id: 2, made.id: 4, again.id: 5}
    assert made.names().labels == held.names().labels == {held.history()[1].oid: "mark"}


def test_a_branch_above_the_fork_point_is_still_of_the_fork(store: Store) -> None:
    held = begun(store, "one", "two")
    held.rename("Parent")
    made = held.fork()
    made.rename("Child")
    made.branch("above", made.history()[1]).append(Message.user("another way"))
    held.label(held.history()[1], "late")
    row = store.catalogue().session(made.id)
    assert row is not None
    assert (row.title, row.agent, set(row.branches)) == ("Child", "agent", {"main", "above"})
    assert row.entries == 4  # the two of the parent, the fork entry, and the branch's own
    assert made.names().labels == {}


def test_a_damaged_session_does_not_hide_the_others(store: Store) -> None:
    damaged, whole = begun(store, "one", "two"), begun(store, "whole")
    broken = Damaged(store.objects)
    broken.gone.add(damaged.history()[-1].oid)
    catalogue = store.catalogue()
    catalogue.reset()
    update.refresh(catalogue, broken)
    assert {row.sid for row in catalogue.sessions()} == {whole.id, damaged.id}
    broken.gone = {damaged.history()[0].oid}
    catalogue.reset()
    update.refresh(catalogue, broken)
    assert {row.sid for row in catalogue.sessions()} == {whole.id, damaged.id}
    catalogue.reset()


class Damaged(Watched):
    """A store without some of its objects."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.gone: set[str] = set()

    def read(self, oid: str) -> tuple[Kind, bytes]:
        if oid in self.gone:
            raise MissingObject(oid)
        return super().read(oid)


# ---- updates


def test_update_only_reads_the_new_entry(store: Store) -> None:
    held = begun(store, *(f"message {number}" for number in range(50)))
    catalogue = store.catalogue()
    held.append(Message.user("one more"))
    watched = Watched(store.objects)
    update.refresh(catalogue, watched)
    assert watched.reads < 20


def test_a_label_reads_no_entry_again(store: Store) -> None:
    held = begun(store, *(f"message {number}" for number in range(50)))
    catalogue = store.catalogue()
    held.label("leaf", "x")
    watched = Watched(store.objects)
    update.refresh(catalogue, watched)
    assert watched.reads < 20


def test_another_session_is_not_read_again(store: Store) -> None:
    begun(store, *(f"message {number}" for number in range(50)))
    catalogue = store.catalogue()
    begun(store)
    watched = Watched(store.objects)
    update.refresh(catalogue, watched)
    assert watched.reads < 20


class ReadTogether(Watched):
    """A store that counts single reads, and passes reads of many objects on."""

    def read_all(self, oids: Iterable[Oid]) -> Iterator[tuple[Oid, Kind, bytes]]:
        return self._store.read_all(oids)


def test_a_new_catalog_reads_the_entries_of_many_sessions_together(store: Store, tmp_path: Path) -> None:
    for number in range(20):
        begun(store, *(f"message {number} {at}" for at in range(8)))
    store.session(store.sessions()[0].sid).fork().append(Message.user("in the fork"))
    store.flush()
    with Store.open(store.objects.git_dir) as opened, closing(Catalogue(tmp_path)) as fresh:
        watched = ReadTogether(opened.objects)
        update.refresh(fresh, watched)
        assert told(fresh.db) == told(store.catalogue().db)
    assert watched.reads < 20


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shares the work")
@pytest.mark.parametrize("killed", [False, True])
def test_a_new_catalog_is_the_same_if_processes_share_its_sessions(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    for number in range(9):
        held = begun(store, *(f"message {number} {at}" for at in range(4)))
        held.append(Message.assistant([ToolCall("call", "write", {"path": f"/work/{number}.txt", "content": "x"})]))
        held.label("leaf", "checked")
        fork = held.fork()
        fork.append(Message.user("in the fork"))
    store.flush()
    monkeypatch.setattr(update, "PROCESS_SESSIONS_MIN", 2)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(3))
    monkeypatch.setattr(threading, "active_count", lambda: 1)  # an earlier test may have left a thread
    read, parent, readers = update._session, os.getpid(), tmp_path / "readers"

    def observed(db: sqlite3.Connection, store: ObjectStore, sid: str, moves: Any) -> None:
        with readers.open("a") as file:
            file.write(f"{os.getpid()}\n")
        if killed and os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        read(db, store, sid, moves)

    monkeypatch.setattr(update, "_session", observed)
    with Store.open(store.objects.git_dir) as opened, closing(Catalogue(tmp_path)) as fresh:
        update.refresh(fresh, opened.objects)
        assert len(set(readers.read_text().split())) == 3
        assert told(fresh.db) == told(store.catalogue().db)


class Asked(Watched):
    """A store that also counts how often all refs are listed."""

    listed = 0

    def refs(self, prefix: str) -> Mapping[str, RefValue]:
        self.listed += prefix == refs.SESSIONS
        return super().refs(prefix)


MANY: dict[str, Callable[[Store, Session, int], object]] = {
    "branches": lambda store, held, number: held.branch(f"b{number}"),
    "branches at the root": lambda store, held, number: held.branch(f"b{number}", held.history()[0]),
    "labels": lambda store, held, number: held.label("leaf", f"l{number}"),
    "titles": lambda store, held, number: held.rename(f"Title {number}"),
    "undone branches": lambda store, held, number: (held.branch(f"b{number}"), store.catalogue(), store.undo()),
    "undone labels": lambda store, held, number: (held.label("leaf", f"l{number}"), store.catalogue(), store.undo()),
    "other sessions": lambda store, held, number: begun(store, f"session {number}"),
    "forks": lambda store, held, number: held.fork(),
}


@pytest.mark.parametrize("what", MANY)
def test_update_by_one_entry_costs_the_same_in_a_large_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(writing, "FLUSH_SECONDS", 3600.0)  # a flush is followed by a listing of all refs
    reads, listed = [], 0
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        held = begun(store)
        for number in range(80):
            MANY[what](store, held, number)
            asked = Asked(store.objects)
            with closing(Catalogue(store.objects.git_dir)) as catalogue:
                update.refresh(catalogue, asked)
            reads.append(asked.reads)
            listed += asked.listed
        assert listed <= 2  # the first listing, and one when the folders of the store are no longer new
        assert max(reads[60:]) <= max(reads[1:20])
        assert_as_if_made_anew(store)


@pytest.mark.parametrize("together", [0, 10, 1_000])
def test_an_interrupted_update_indexes_its_entries_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    """Until then, lookups by name are uncertain."""
    monkeypatch.setattr(update, "PROCESS_SESSIONS_MIN", 1)
    monkeypatch.setattr(update, "GROUP_SESSIONS", 3)
    monkeypatch.setattr(update, "PART_SECONDS", -1.0)
    monkeypatch.setattr(update, "UNINDEXED_ENTRIES_MAX", together)
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        held = [begun(store, f"session {number}", "later", cwd="/work") for number in range(12)]
        store.flush()
        with closing(Catalogue(store.objects.git_dir)) as catalogue:
            with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
                patch.setattr(update, "_update_part", interrupting(update._update_part, 3))
                update.refresh(catalogue, store.objects)
            waiting = [sid for (sid,) in catalogue.db.execute("SELECT sid FROM unindexed_sessions")]
            assert len(waiting) == {0: 0, 10: 3, 1_000: 9}[together]
            for session in held:
                names = CatalogueEntryIndex(catalogue, session.id)
                unknown = to_base64url(bytes(32))
                in_catalog = catalogue.session(session.id) is not None
                assert names.is_there(unknown, session.leaf.oid) is not (in_catalog and session.id not in waiting)
            update.refresh(catalogue, store.objects)
            entries, indexed, left = (
                catalogue.db.execute(query).fetchall()
                for query in (
                    "SELECT chain, oid, sid FROM entries ORDER BY 1, 2, 3",
                    "SELECT chain, oid, sid FROM entries_by_chain ORDER BY 1, 2, 3",
                    "SELECT * FROM unindexed_sessions",
                )
            )
            assert entries == indexed
            assert left == []
        assert_as_if_made_anew(store)


@pytest.mark.parametrize("what", MANY)
def test_update_scans_no_table(tmp_path: Path, what: str) -> None:
    statements: set[str] = set()
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        held = begun(store)
        store.catalogue()
        MANY[what](store, held, 0)
        with closing(Catalogue(store.objects.git_dir)) as catalogue:
            catalogue.db.set_trace_callback(statements.add)
            update.refresh(catalogue, store.objects)
            catalogue.db.set_trace_callback(None)
            plans = {
                (row[3], text)
                for text in statements
                if text.startswith(("SELECT", "UPDATE", "DELETE", "INSERT"))
                for row in catalogue.db.execute(f"EXPLAIN QUERY PLAN {text}")
            }
    assert plans
    scans = {(plan, text) for plan, text in plans if plan.startswith("SCAN") and "CONSTANT ROW" not in plan}
    assert not {(plan, text) for plan, text in scans if not plan.endswith(("refs_loose", "unindexed_sessions"))}
    assert not {(plan, text) for plan, text in plans if plan == "SEARCH r USING PRIMARY KEY (sid=?)"}
    of_branches = {text for plan, text in plans if plan.startswith("SEARCH branches") and plan.endswith(" (sid=?)")}
    assert not {text for text in of_branches if "name = " in text}  # it would read all branches of the session


@pytest.mark.parametrize("packed", [False, True], ids=["loose", "packed"])
def test_update_after_a_flush_does_not_list_all_refs(tmp_path: Path, packed: bool) -> None:
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        held = [begun(store, f"session {number}") for number in range(3)]
        store.flush()
        if packed:
            store.maintain()
        store.catalogue()
        steps: list[Callable[[], object]] = [
            lambda: held[0].append(Message.user("more")),
            lambda: held[1].branch("side"),
            lambda: held[1].switch("side"),
            lambda: begun(store, "another session"),
            store.undo,
        ]
        for step in steps:
            step()
            store.flush()
            asked = Asked(store.objects)
            with closing(Catalogue(store.objects.git_dir)) as catalogue:
                update.refresh(catalogue, asked)
                assert catalogue.is_fresh()
            assert asked.listed == 0
            assert_as_if_made_anew(store)


@pytest.mark.parametrize("is_updated", [False, True])
def test_branch_that_is_created_while_the_refs_are_read_is_deleted_later(tmp_path: Path, is_updated: bool) -> None:
    """The branch was not in a file of its own yet when these files were listed."""
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        held = begun(store)
        store.flush()
        store.maintain()
        side, tip = refs.leaf(held.id, "side"), store.objects.ref(refs.leaf(held.id, "main"))
        assert tip is not None
        _update_ref(store, refs.leaf(held.id, "other"), tip)  # so that git keeps the folder

        class Concurrent(Watched):
            is_first = True

            def refs(self, prefix: str) -> Mapping[str, RefValue]:
                if self.is_first:
                    self.is_first = False
                    _update_ref(store, side, tip)
                return super().refs(prefix)

        with closing(Catalogue(store.objects.git_dir)) as catalogue:
            update.refresh(catalogue, Concurrent(store.objects))
            if is_updated:
                update.refresh(catalogue, store.objects)
        _update_ref(store, "-d", side)
        assert_as_if_made_anew(store)


def test_branch_that_is_selected_during_an_update_is_listed_by_the_next_one(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = begun(store, "one")
    store.catalogue()
    held.append(Message.user("two"))
    read = update._session

    def selected_meanwhile(*row: Any) -> None:
        new = refs.leaf(held.id, "new")
        with store.objects.transaction() as tx:  # as another process does
            tx.move(new, store.objects.ref(refs.leaf(held.id)), expected=None)
            tx.move(refs.active(held.id), f"ref: {new}", expected=store.objects.ref(refs.active(held.id)))
        read(*row)

    with monkeypatch.context() as patch:
        patch.setattr(update, "_session", selected_meanwhile)
        assert [row.active for row in store.sessions()] == ["main"]
    assert [row.active for row in store.sessions()] == ["new"]


def _update_ref(store: Store, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(store.objects.git_dir), "update-ref", *arguments], check=True)


def test_a_new_catalog_lists_the_refs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update, "GROUP_SESSIONS", 2)
    monkeypatch.setattr(update, "PART_SECONDS", -1.0)
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        for number in range(9):
            begun(store, f"session {number}")
        asked = Asked(store.objects)
        with closing(Catalogue(store.objects.git_dir)) as catalogue:
            update.refresh(catalogue, asked)
        assert asked.listed == 1
        assert_as_if_made_anew(store)


def test_the_newest_sessions_are_listed_without_reading_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update, "SESSIONS", 2)
    read, sids = update._session, list[str]()
    monkeypatch.setattr(update, "_session", lambda *row: sids.append(row[2]) or read(*row))
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        for number in range(20):
            begun(store, f"session {number}")
        store.flush()
        listed = store.sessions(3)
        assert [row.name for row in listed] == ["session 19", "session 18", "session 17"]
        assert len(sids) < 10
        assert not Catalogue(store.objects.git_dir).is_fresh()
        assert store.sessions()[:3] == listed
        assert len(sids) == 20
        assert_as_if_made_anew(store)


def test_a_second_short_list_reads_only_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sessions that the first one did not read are older, and stay so until their refs move."""
    monkeypatch.setattr(update, "SESSIONS", 2)
    read, sids = update._session, list[str]()
    monkeypatch.setattr(update, "_session", lambda *row: sids.append(row[2]) or read(*row))
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        held = [begun(store, f"session {number}") for number in range(20)]
        store.maintain()
        newest = [row.sid for row in store.sessions(3)]
        sids.clear()
        asked = Asked(store.objects)
        with closing(Catalogue(store.objects.git_dir)) as catalogue:

            def listed(count: int) -> list[str]:
                update.refresh(catalogue, asked, newest=count)
                return [row.sid for row in catalogue.sessions(count)]

            assert (listed(3), sids, asked.listed) == (newest, [], 0)
            held[0].append(Message.user("an old session continues"))  # its other refs are unread
            assert (listed(3), sids, asked.listed) == ([held[0].id, *newest[:2]], [held[0].id], 0)
            store.flush()
            assert (listed(3), asked.listed) == ([held[0].id, *newest[:2]], 0)
            assert (listed(12), asked.listed) == ([held[0].id, *(each.id for each in held[:8:-1])][:12], 1)
            assert (listed(12), asked.listed) == ([held[0].id, *(each.id for each in held[:8:-1])][:12], 1)
        assert_as_if_made_anew(store)


@pytest.mark.parametrize("change", ["moved back", "trash"])
def test_a_short_list_reads_older_sessions_if_a_newer_one_is_gone(tmp_path: Path, change: str) -> None:
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        held = [begun(store, f"session {number}") for number in range(20)]
        store.maintain()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(update, "SESSIONS", 1)
            assert [row.sid for row in store.sessions(2)] == [held[19].id, held[18].id]
            if change == "moved back":
                main, before = refs.leaf(held[0].id, refs.MAIN), held[0].leaf.oid
                held[0].append(Message.user("newer than all others"))
                assert [row.sid for row in store.sessions(2)] == [held[0].id, held[19].id]
                with store.objects.transaction() as tx:
                    tx.move(main, before, expected=held[0].leaf.oid)
            else:
                store.trash.put(held[18].id)
            listed = store.sessions(2)
        assert_as_if_made_anew(store)
        assert listed == store.sessions()[:2]


@pytest.mark.parametrize("end", [None, "earlier"])
def test_a_short_list_follows_each_branch_of_an_old_session_that_continues(tmp_path: Path, end: str | None) -> None:
    with pytest.MonkeyPatch.context() as patch, Store.create(tmp_path / "store.git", clock=Clock()) as store:
        patch.setattr(update, "SESSIONS", 1)
        held = [begun(store, "one", "two") for _ in range(9)]
        side = refs.leaf(held[0].id, "side")
        for session in held:
            session.branch("side", session.history()[1])
            session.on("side").append(Message.user("on the side"))
        store.maintain()
        Path(store.objects.git_dir, FILE).unlink()
        with closing(Catalogue(store.objects.git_dir)) as catalogue:
            update.refresh(catalogue, store.objects, newest=2)
            assert catalogue.session(held[0].id) is None
            held[0].append(Message.user("newer than all others"))
            update.refresh(catalogue, store.objects, newest=2)
            assert catalogue.session(held[0].id) is not None
        with closing(Catalogue(store.objects.git_dir)) as catalogue:
            before = held[0].history()[0].oid if end else None
            with store.objects.transaction() as tx:
                tx.move(side, before, expected=store.objects.ref(side))
            update.refresh(catalogue, store.objects, newest=2)
            rows = catalogue.db.execute("SELECT name, oid FROM branches WHERE sid = ?", (held[0].id,)).fetchall()
            assert dict(rows) == {refs.MAIN: held[0].leaf.oid, **({"side": before} if before else {})}
        assert_as_if_made_anew(store)


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_a_short_list_follows_a_ref_that_is_removed_before_an_interrupted_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: int
) -> None:
    monkeypatch.setattr(update, "SESSIONS", 1)
    monkeypatch.setattr(update, "GROUP_SESSIONS", 1)
    monkeypatch.setattr(update, "PART_SECONDS", -1.0)
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        for number in range(10):
            begun(store, f"session {number}")
        store.maintain()
        loose = [begun(store, f"loose session {number}") for number in range(3)]
        store.flush()
        store.sessions(3)
        for session in loose[:2]:
            session.append(Message.user("continued"))
        store.flush()
        store.trash.put(loose[2].id)
        store.flush()
        with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(update, "_update_part", interrupting(update._update_part, parts))
            store.sessions()
        assert loose[2].id not in [row.sid for row in store.sessions(3)]


def interrupting(work: Callable[..., Any], count: int) -> Callable[..., Any]:
    """Return ``work``, which is interrupted after ``count`` calls."""
    left = iter(range(count))

    def call(*arguments: Any) -> Any:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return work(*arguments)

    return call


def test_a_short_list_has_a_session_whose_lost_objects_are_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Afterwards, only an older branch of it moves."""
    monkeypatch.setattr(update, "SESSIONS", 1)
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        lost = begun(store, "one", "two")
        side = lost.branch("side", lost.history()[1])
        lost.append(Message.user("newest", at_ms=START_MS + 10**7))
        store.maintain()

        class Gone(Watched):
            def read(self, oid: Oid) -> tuple[Kind, bytes]:
                if oid in {node.oid for node in lost.history()}:
                    raise MissingObject(oid)
                return super().read(oid)

        with closing(Catalogue(store.objects.git_dir)) as catalogue:
            update.refresh(catalogue, Gone(store.objects))
            assert catalogue.sessions() == []
            side.append(Message.user("an earlier time", at_ms=START_MS))
            for number in range(3):
                begun(store, f"session {number}")
            store.flush()
            update.refresh(catalogue, store.objects, newest=1)
            assert [row.sid for row in catalogue.sessions(1)] == [lost.id]


def test_a_short_list_has_the_newest_sessions_after_the_last_time_of_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The times of commits end in 2106."""
    monkeypatch.setattr(update, "SESSIONS", 1)
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        held = [store.new_session(agent="agent") for _ in range(4)]
        for number in (3, 2, 1, 0):
            held[number].append(Message.user("hi", at_ms=2**32 * 1000 + number * 10**9))
        store.flush()
        assert [row.sid for row in store.sessions(1)] == [held[3].id]


CHANGES = ("append", "new session", "move a branch", "trash", "flush", "maintain", "list all", "list")


@settings(max_examples=40, deadline=None)
@given(
    times=st.lists(st.lists(st.integers(0, 5_000), min_size=1, max_size=4), min_size=1, max_size=9),
    changes=st.lists(st.tuples(st.sampled_from(CHANGES), st.integers(0, 8), st.integers(0, 9_000)), max_size=12),
    newest=st.integers(1, 4),
)
def test_a_short_list_is_the_beginning_of_the_whole_list(
    times: list[list[int]], changes: list[tuple[str, int, int]], newest: int
) -> None:
    """The clock of an agent can go back, and two sessions can have entries in the same second."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(update, "SESSIONS", 1)
        with Store.create(Path(folder) / "store.git", clock=lambda: START_MS) as store:
            held = [store.new_session(agent="agent") for _ in times]
            for session, each in zip(held, times, strict=True):
                for at_ms in each:
                    session.append(Message.user("hi", at_ms=START_MS + at_ms))
                if len(each) > 2:
                    session.branch("side", session.history()[1])
            store.flush()
            for change, number, at_ms in (("list", 0, 0), *changes, ("list", 0, 0)):
                if not held:
                    change = "new session"
                session = held[number % len(held)] if held else None
                match change:
                    case "append":
                        session.append(Message.user("hi", at_ms=START_MS + at_ms))
                    case "new session":
                        held.append(store.new_session(agent="agent"))
                        held[-1].append(Message.user("hi", at_ms=START_MS + at_ms))
                    case "move a branch":  # not through the session, which would update the catalog first
                        ends = sorted([*session.tree().nodes, None], key=str)
                        name, end = ("side", refs.MAIN, "new")[number % 3], ends[at_ms % len(ends)]
                        ref = refs.leaf(session.id, name)
                        if end is not None or name != refs.MAIN:
                            with store.objects.transaction() as tx:
                                tx.move(ref, end, expected=store.objects.ref(ref))
                    case "trash":
                        held.remove(session)
                        store.trash.put(session.id)
                    case "list all":
                        store.sessions()
                    case "list":
                        listed = store.sessions(newest)
                        anew = Catalogue(None, store.objects.fingerprint)
                        update.refresh(anew, store.objects)
                        assert listed == anew.sessions(newest)
                        for row in listed:
                            kept, made = (
                                each.db.execute("SELECT * FROM branches WHERE sid = ? ORDER BY name", (row.sid,))
                                for each in (store.catalogue(fresh=False), anew)
                            )
                            assert kept.fetchall() == made.fetchall()
                    case "flush" | "maintain":
                        getattr(store, change)()
            assert_as_if_made_anew(store)


def test_undone_and_repeated_labels_are_distinguished(store: Store) -> None:
    held = begun(store, "one", "two")
    first, second = held.history()[1:3]
    held.label(first, "x")
    with pytest.raises(Refused, match="already has this label"):
        held.label(second, "x")
    store.undo()
    held.label(second, "x")
    assert held.names().labels == {second.oid: "x"}
    held.label(second, "")
    held.label(first, "x")
    with pytest.raises(Refused, match="has a label with this name"):
        held.branch("x")
    assert held.names().labels == {first.oid: "x"}
    assert_as_if_made_anew(store)


def test_labels_of_a_session_have_one_order(store: Store) -> None:
    """A fork writes the labels into its first entry, whose id depends on them. A set must not decide their order."""
    held = begun(store, *map(str, range(12)))
    for number, node in enumerate(held.history()[1:]):
        held.label(node, f"label-{number}")
    chains = list(held.names().chains)
    assert len(chains) == 12
    assert chains == sorted(chains)


def test_session_is_named_by_its_first_prompt_at_equal_times(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store.git", clock=lambda: 1_769_904_000_000) as store:
        for _ in range(10):
            begun(store, "first", *(f"then {number}" for number in range(7)))
        assert {row.name for row in store.sessions()} == {"first"}


def import_logged(store: Store, data: bytes, agent: str = "pi") -> None:
    store.agents.import_data(FORMATS[agent], data, name="n")


def above(made: Session) -> None:
    """Create a branch of a fork that starts before the fork point."""
    made.branch("above", made.history()[1]).append(Message.user("above"))


STEPS: dict[str, Callable[[Store, Session], object]] = {
    "append": lambda store, held: held.append(Message.user("more")),
    "append a label and a title": lambda store, held: (
        held.append(Label(target=to_base64url(held.history()[1].chain), label="inline")),
        held.append(Title(title="inline")),
    ),
    "branch": lambda store, held: held.branch("side", "root~0").append(Message.user("aside")),
    "branch at an entry": lambda store, held: held.branch("here", held.history()[1]),
    "switch": lambda store, held: held.switch("main"),
    "fork": lambda store, held: held.fork().append(Message.user("in the fork")),
    "fork and branch above": lambda store, held: above(held.fork()),
    "label": lambda store, held: held.label("leaf", "mark"),
    "rename": lambda store, held: held.rename("Title"),
    "import": lambda store, held: import_logged(store, pi_file(*LONG, label("l", "d", "a", "theirs"))),
    "grown": lambda store, held: import_logged(
        store, pi_file(*LONG, label("l", "d", "a", "theirs"), said("x", "b"), named("t", "x", "N"))
    ),
    "rewritten": lambda store, held: import_logged(store, pi_file(*LONG[:2], said("c", "b", "new"), said("d", "c"))),
    "retitled": lambda store, held: import_logged(store, joined(slot("S"), header(), *LONG), "omp"),
    "new session": lambda store, held: begun(store, "another"),
    "undo": lambda store, held: store.undo(),
    "redo": lambda store, held: store.redo(),
    "flush": lambda store, held: store.flush(),
}


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.booleans()), max_size=14))
def test_any_history_gives_the_same_catalog_as_a_rebuild(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, bool]]
) -> None:
    folder = tmp_path_factory.mktemp("s")
    with Store.create(folder / "store.git", clock=Clock()) as store:
        held = begun(store, "one", "two")
        for step, looks in steps:
            try:
                STEPS[step](store, held)
            except GitSessionError:
                pass  # rejected: nothing to undo, a branch that exists, one that was deleted
            if looks:
                assert_as_if_made_anew(store)
        assert_as_if_made_anew(store)


def test_label_of_a_removed_line_is_not_listed(store: Store) -> None:
    import_logged(store, pi_file(*LONG, label("l", "d", "a", "old"), named("t", "l", "Old")))
    sid = store.sessions()[0].sid
    store.catalogue()
    import_logged(store, pi_file(*LONG, label("l", "d", "a", "new")))
    names = store.session(sid).names()
    assert (names.title, list(names.labels.values())) == (None, ["new"])


# ---- malicious values

HOSTILE: dict[str, bytes] = {
    "tokens beyond every counter": pi_file(
        *(
            entry("message", f"a{number}", None, message={"role": "assistant", "usage": {"totalTokens": 10**30}})
            for number in range(3)
        )
    ),
    "tokens of 2^63": pi_file(
        entry("message", "a", None, message={"role": "assistant", "usage": {"input": 2**63 - 1, "output": 2**63 - 1}})
    ),
    "a lone surrogate in an id": pi_file(rb'{"type":"message","id":"\ud83d","parentId":null}'),
    "a lone surrogate in the folder": header().replace(b"/work", rb"\ud83d") + b"\n",
    "a lone surrogate in the session's id": header(id="x").replace(b'"x"', rb'"\ud83d"') + b"\n",
    "a lone surrogate in a title": pi_file(named("a", None, "x").replace(b'"x"', rb'"\ud83d"')),
    "a lone surrogate in a label": pi_file(
        rb'{"type":"message","id":"\ud83d","parentId":null}',
        rb'{"type":"label","id":"l","parentId":"\ud83d","targetId":"\ud83d","label":"\ud83d"}',
    ),
    "a NUL in a title": pi_file(named("a", None, "x\0y")),
    "a beginning in the year 9999": pi_file(timestamp="9999-12-31T23:59:59Z"),
    "a folder that is a number": pi_file(cwd=5),
    "numbers where text belongs": pi_file(dumps({"type": "message", "id": 5, "parentId": [], "message": 7})),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_can_be_listed(store: Store, data: bytes) -> None:
    sid = bring(store.objects, data, agent="pi").session
    assert [row.sid for row in store.sessions()] == [sid]
    store.session(sid).names()


@pytest.mark.parametrize("at_ms", [2**64 - 1, -(2**63), 10**15])
def test_a_time_of_any_size_can_be_listed(store: Store, at_ms: int) -> None:
    held = begun(store)
    held.append(Message.user("when", at_ms=at_ms))
    assert len(store.sessions()) == 1


# ---- the file


def index(store: Store) -> Path:
    return store.objects.git_dir / FILE


DAMAGE: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "not a database": lambda path: path.write_bytes(b"oops" * 1000),
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:5000]),
    "garbage inside": lambda path: path.write_bytes(path.read_bytes()[:4096] + os.urandom(4096 * 8)),
    "of an older version": lambda path: _older(path),
}


def _older(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("DROP TABLE sessions")
    db.execute("CREATE TABLE sessions (what TEXT)")
    db.execute("PRAGMA user_version = 0")
    db.close()


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damaged_or_missing_file_is_rebuilt(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        begun(store, "one")
        begun(store, "two")
        before = store.sessions()
        path = index(store)
    damage(path)
    for _ in range(2):
        with Store.open(tmp_path / "store.git", clock=Clock()) as store:
            assert store.sessions() == before
            assert_as_if_made_anew(store)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM sessions").fetchone() == (2,)  # in the file, not only in memory
        assert db.execute("PRAGMA user_version").fetchone() == (catalogue_module.VERSION,)


def cannot_be_opened(path: str, *rest: Any) -> sqlite3.Connection:
    if path != ":memory:":
        raise sqlite3.OperationalError("unable to open database file")
    return CONNECT(path, *rest)


def can_only_be_read(path: str, *rest: Any) -> sqlite3.Connection:
    if path == ":memory:":
        return CONNECT(path, *rest)
    return sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None, check_same_thread=False)


CONNECT = catalogue_module.connect


@pytest.mark.parametrize("connect", [cannot_be_opened, can_only_be_read])
def test_catalog_is_in_memory_if_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connect: Callable[..., sqlite3.Connection]
) -> None:
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        begun(store, "one")
        store.catalogue()
        begun(store, "two")
    monkeypatch.setattr(catalogue_module, "connect", connect)
    with Store.open(tmp_path / "store.git") as store:
        assert [row.name for row in store.sessions()] == ["two", "one"]


def test_two_processes_may_refresh_at_once(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        for number in range(20):
            begun(store, f"session {number}")
    script = (
        "import sys\n"
        "from gitsession.api import Store\n"
        "with Store.open(sys.argv[1]) as store:\n"
        "    print(len(store.sessions()))\n"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "store.git")], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert [process.communicate(timeout=120)[0].strip() for process in running] == ["20"] * 3
    with Store.open(tmp_path / "store.git") as store:
        assert_as_if_made_anew(store)


def test_interrupted_update_keeps_the_sessions_of_its_finished_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update, "GROUP_SESSIONS", 2)
    monkeypatch.setattr(update, "PART_SECONDS", -1.0)
    read, sids = update._session, list[str]()

    def interrupted(db: sqlite3.Connection, store: ObjectStore, sid: str, moves: Any) -> None:
        if len(sids) == 5:
            raise KeyboardInterrupt
        sids.append(sid)
        read(db, store, sid, moves)

    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        for number in range(7):
            begun(store, f"session {number}")
        store.flush()
        monkeypatch.setattr(update, "_session", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.sessions()
        monkeypatch.setattr(update, "_session", lambda *row: sids.append(row[2]) or read(*row))
        assert len(store.sessions()) == 7
        assert len(sids) == 5 + 3  # the fifth was in the part that was interrupted
        assert_as_if_made_anew(store)


@pytest.mark.parametrize(("kept", "first_entries", "is_built"), [(2, 1, True), (3, 1, False), (1, 4, False)])
@pytest.mark.parametrize("newest", [None, 1])
@pytest.mark.parametrize("is_interrupted", [False, True])
def test_the_catalog_is_built_again_if_few_sessions_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int, first_entries: int, is_built: bool,
    newest: int | None, *, is_interrupted: bool,
) -> None:  # fmt: skip
    monkeypatch.setattr(update, "GROUP_SESSIONS", 1)
    monkeypatch.setattr(update, "SESSIONS", 1)
    monkeypatch.setattr(update, "PART_SECONDS", -1.0)
    monkeypatch.setattr(update, "REMOVED_MIN", 8)
    monkeypatch.setattr(update, "REMOVED_FOR_EACH", 3)
    cleared: list[object] = []
    clear = update._clear
    monkeypatch.setattr(update, "_clear", lambda db: cleared.append(db) or clear(db))
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        held = [begun(store, *(f"message {number}" for number in range(first_entries)))]
        held += [begun(store, f"session {number}") for number in range(1, 10)]
        store.flush()
        subprocess.run(["git", "-C", str(store.objects.git_dir), "pack-refs", "--all"], check=True)
        store.catalogue().remember([(tmp_path / "imported.jsonl", tmp_path.stat(), held[0].id)])
        with store.objects.transaction() as tx:
            for name, oid in store.objects.refs(refs.SESSIONS).items():
                if refs.session_of(name) in {session.id for session in held[kept:]}:
                    tx.move(name, None, expected=oid)
        store.flush()
        if is_interrupted:
            with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
                patch.setattr(update, "_update_part", interrupting(update._update_part, 1))
                store.catalogue()
        listed = store.sessions(newest)
        assert [row.sid for row in listed] == [session.id for session in held[:kept]][::-1][:newest]
        assert len(cleared) == is_built
        assert store.catalogue().seen(tmp_path / "imported.jsonl", tmp_path.stat()) == held[0].id
        assert_as_if_made_anew(store)


def test_progress_of_an_update_counts_the_sessions_that_were_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update, "GROUP_SESSIONS", 3)
    events: list[object] = []
    read = update._session
    monkeypatch.setattr(update, "_session", lambda *row: events.append("read") or read(*row))
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        for number in range(6):
            begun(store, f"session {number}")
        store.flush()
        with progress.by(lambda what, done, total: events.append((done, total))):
            store.catalogue()
    assert events == [(0, 6), *["read"] * 3, (3, 6), *["read"] * 3, (6, 6)]


def test_imported_file_is_known_until_it_changes(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(pi_file(*LONG))
    sid = store.agents.import_data(FORMATS["pi"], path.read_bytes(), path=path).session
    catalogue = store.catalogue()
    assert catalogue.seen(path, path.stat()) is None
    catalogue.remember([(path, path.stat(), sid)])
    assert catalogue.seen(path, path.stat()) == sid
    path.write_bytes(pi_file(*LONG, said("x", "a")))
    assert catalogue.seen(path, path.stat()) is None


def test_status_of_a_file_with_a_huge_inode_is_recorded_as_it_is_compared(store: Store) -> None:
    sid = store.agents.import_data(FORMATS["pi"], pi_file(*LONG)).session
    stat, path = SimpleNamespace(st_size=7, st_mtime_ns=1, st_ino=(1 << 64) - 1), Path("/huge.jsonl")
    catalogue = store.catalogue()
    catalogue.remember([(path, stat, sid)])
    assert catalogue.seen_files()["/huge.jsonl"] == catalogue_module.recorded_status(stat)
    assert catalogue.seen(path, stat) == sid


def test_file_of_an_undone_import_is_not_known(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(pi_file(*LONG))
    done = store.agents.import_data(FORMATS["pi"], path.read_bytes(), path=path)
    store.catalogue().remember([(path, path.stat(), done.session)])
    store.undo()
    assert store.catalogue().seen(path, path.stat()) is None


def test_another_store_can_be_read(tmp_path: Path) -> None:
    create(tmp_path / "store.git")
    with on_disk(tmp_path / "store.git") as objects:
        catalogue = Catalogue(objects.git_dir)
        update.refresh(catalogue, objects)
        assert catalogue.sessions() == []
        catalogue.close()


# ---- lookup of a session


@pytest.fixture
def found(store: Store) -> tuple[Store, dict[str, str]]:
    """Create three sessions, the newest last, and return the store and their ids."""
    names = {
        "pi": bring(store.objects, pi_file(*LONG, id="first-1", cwd="/work")).session,
        "other": bring(store.objects, pi_file(said("a", None, at=20), id="first-2", cwd="/work/deeper")).session,
        "own": begun(store, cwd="/elsewhere").id,
    }
    return store, names


def test_any_unique_part_of_its_id_names_a_session(found: tuple[Store, dict[str, str]]) -> None:
    store, names = found
    for sid in names.values():
        for part in (sid, sid[9:], sid[10:18], sid[9:].upper()):
            assert store.catalogue().find(part, None).sid == sid


def test_session_is_opened_by_its_id_without_an_update_of_the_catalog(
    found: tuple[Store, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, names = found
    store.catalogue()
    held = store.session(names["own"])
    held.branch("other", at="root")
    held.switch("other")
    begun(store, cwd="/new")
    updated = []
    real = update.refresh
    monkeypatch.setattr(update, "refresh", lambda *all, **how: (updated.append(all), real(*all, **how))[1])
    opened = store.session(names["own"])
    assert (opened.id, opened.branch_name) == (names["own"], "other") and not updated
    assert store.session(names["own"][:-1]).id == names["own"] and updated


def test_id_of_a_session_that_is_gone_names_none(found: tuple[Store, dict[str, str]]) -> None:
    store, names = found
    store.catalogue()
    store.trash.put(names["pi"])
    with pytest.raises(NotFound):
        store.session(names["pi"])


def test_an_agent_and_its_own_id_name_a_session(found: tuple[Store, dict[str, str]]) -> None:
    store, names = found
    assert store.catalogue().find("pi:first-1", None).sid == names["pi"]
    assert store.catalogue().find("pi:first-2", None).sid == names["other"]
    assert store.catalogue().find("first-2", None).sid == names["other"]


def test_the_newest_here_and_the_one_before(found: tuple[Store, dict[str, str]]) -> None:
    store, names = found
    catalogue = store.catalogue()
    assert catalogue.find("@", CurrentFolder("/work/deeper/still")).sid == names["other"]
    assert catalogue.find("-", CurrentFolder("/work/deeper")).sid == names["pi"]
    assert catalogue.find("@", CurrentFolder("/work")).sid == names["pi"]
    assert catalogue.find("@", CurrentFolder("/elsewhere")).sid == names["own"]


@pytest.mark.parametrize(("address", "cwd"), [("@", "/nowhere"), ("-", "/work"), ("@", "/workshop")])
def test_folder_without_sessions_has_no_current_session(
    found: tuple[Store, dict[str, str]], address: str, cwd: str
) -> None:
    with pytest.raises(NotFound):
        found[0].catalogue().find(address, CurrentFolder(cwd))


def test_ambiguous_address_lists_the_candidates(found: tuple[Store, dict[str, str]]) -> None:
    for address in ("20260201", "pi:first", "first"):
        with pytest.raises(Ambiguous) as caught:
            found[0].catalogue().find(address, None)
        assert len(caught.value.candidates) >= 2


@pytest.mark.parametrize("address", ["", "nothing", "omp:first-1", ":", "pi:zzz", "%", "_", "\ud83d"])
def test_unknown_address_is_not_found(found: tuple[Store, dict[str, str]], address: str) -> None:
    with pytest.raises(NotFound) as caught:
        found[0].catalogue().find(address, CurrentFolder("/work"))
    assert not isinstance(caught.value, Ambiguous)


def test_opening_waits_while_another_process_creates_the_index(tmp_path: Path) -> None:
    """The timeout of SQLite does not apply to the switch to a write-ahead log."""
    (tmp_path / "gitsession").mkdir()
    other = sqlite3.connect(tmp_path / "gitsession/index.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    ends = threading.Timer(0.2, lambda: other.execute("COMMIT"))
    ends.start()
    assert Catalogue(tmp_path).sessions() == []
    ends.join()
    other.close()
