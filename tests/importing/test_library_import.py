"""Tests of imports through the public API alone."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import opencode_files
import pytest
from builders import Clock, header, joined, pi_file, said, talk
from codex_files import NAME, THREAD, rollout, turn

from gitsession import Malformed, Message, NotFound, Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git", clock=Clock()) as opened:
        yield opened


def test_file_is_imported_listed_and_read(store: Store, tmp_path: Path):
    path = tmp_path / f"{NAME}.jsonl"
    path.write_bytes(rollout(turn("t1")))
    (done,) = store.import_file(path)
    assert done.new == done.entries > 0
    assert [(row.sid, row.agent, row.source_id) for row in store.sessions()] == [(done.session, "codex", THREAD)]
    session = store.session(f"codex:{THREAD}")
    read = [session.read(node) for node in session.history()]
    assert [entry.role for entry in read if isinstance(entry, Message)] == ["user", "assistant"]
    assert store.export(session.id).data == path.read_bytes()


def test_second_import_adds_new_entries(store: Store, tmp_path: Path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(pi_file(*talk("a", "b")))
    store.import_file(str(path))
    path.write_bytes(pi_file(*talk("a", "b", "c")))
    assert [done.new for done in store.import_file(path, dry_run=True)] == [1]
    assert [done.new for done in store.import_file(path)] == [1]
    assert [done.new for done in store.import_file(path)] == [0]


def test_every_session_of_a_database_is_imported(store: Store, tmp_path: Path):
    made = opencode_files.Database(tmp_path / "opencode.db")
    made.put([opencode_files.user("msg_u1", "hi", at=1)])
    made.put([], opencode_files.info(id="ses_two"))
    assert len(store.import_file(made.path)) == len(store.sessions()) == 2
    store.undo()
    assert store.sessions() == []


def test_closed_file_is_imported_to_its_end(store: Store, tmp_path: Path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(joined(header(), said("a", None))[:-20])
    assert [done.entries for done in store.import_file(path)] == [0]
    assert [done.entries for done in store.import_file(path, final=True)] == [1]


def test_invalid_file_is_rejected_by_name(store: Store, tmp_path: Path):
    path = tmp_path / "notes.txt"
    path.write_text("hello")
    with pytest.raises(NotFound, match="unrecognized session format"):
        store.import_file(path)
    with pytest.raises(Malformed):
        store.import_file(path, agent="codex")
    with pytest.raises(NotFound, match="telepathy"):
        store.import_file(path, agent="telepathy")
    with pytest.raises(FileNotFoundError):
        store.import_file(tmp_path / "none")


def test_special_files_are_rejected_and_closed(store: Store, tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.fspath(tmp_path / "s"))
        before = len(os.listdir("/dev/fd"))
        for path in (tmp_path, tmp_path / "pipe", tmp_path / "s", Path("/dev/null")):
            with pytest.raises(Malformed, match=f"{path}: not a regular file"):
                store.import_file(path)
        with pytest.raises(OSError, match="loop"):
            store.import_file(tmp_path / "loop")
        assert len(os.listdir("/dev/fd")) == before
