"""Tests of purged and redacted content in files of ``export --to jsonl``, and of their import."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from builders import all_refs, git, pi_file, said
from pushed import bare

from gitsession import Malformed, Message, Store
from gitsession.formats import FORMATS

SECRET = "the purged word"


def own_session(store: Store) -> str:
    session = store.new_session(agent="mine")
    for text in ("one", SECRET, "three"):
        session.append(Message.user(text))
    return session.id


def agents_session(store: Store) -> str:
    file = pi_file(said("a", None, "one"), said("b", "a", SECRET), said("c", "b", "three"))
    return store.agents.import_data(FORMATS["pi"], file).session


BEGIN = {"own": own_session, "agent": agents_session}


@pytest.fixture(params=BEGIN)
def begin(request: pytest.FixtureRequest) -> Callable[[Store], str]:
    return BEGIN[request.param]


def written(store: Store, sid: str, file: Path) -> Path:
    file.write_bytes(store.export(sid, to="jsonl").data)
    return file


def purge(store: Store) -> None:
    store.purges.apply(store.purges.plan(text=SECRET))


def assert_refused(store: Store, file: Path, reason: str) -> None:
    before = all_refs(store.objects), store.operations()
    with pytest.raises(Malformed, match=f"line [0-9]+: .*{reason}") as raised:
        store.import_file(file, agent="jsonl")
    assert "gitsession sync" in (raised.value.hint or "")
    assert (all_refs(store.objects), store.operations()) == before
    assert store.verify().problems == []


def test_purged_entry_is_not_imported_again(tmp_path: Path, begin: Callable[[Store], str]) -> None:
    with Store.create(tmp_path / "one.git") as store:
        sid = begin(store)
        old = written(store, sid, tmp_path / "old.jsonl")
        purge(store)
        assert_refused(store, old, "was purged")
        assert store.search(SECRET) == []


def test_purged_session_is_exported_without_the_content_and_imported_where_it_was_purged(
    tmp_path: Path, begin: Callable[[Store], str]
) -> None:
    with Store.create(tmp_path / "one.git") as store, Store.create(tmp_path / "two.git") as other:
        sid = begin(store)
        purge(store)
        file = written(store, sid, tmp_path / "new.jsonl")
        assert SECRET not in file.read_text()
        [done] = store.import_file(file, agent="jsonl")
        assert done.new == 0
        assert_refused(other, file, "was not purged")
        purges_alone(tmp_path, store, other, sid)
        other.import_file(file, agent="jsonl")
        assert other.export(sid, to="jsonl").data == file.read_bytes()
        assert other.verify().problems == []


def purges_alone(tmp_path: Path, store: Store, other: Store, sid: str) -> None:
    """Send the tombstone set to the other store, and remove the session from it."""
    remote = str(bare(tmp_path / "remote.git"))
    for each in (store, other):
        each.remotes.add("origin", remote)
        each.remotes.sync("origin")
    with other.objects.transaction() as tx:
        for name, oid in other.objects.refs(f"refs/heads/sessions/{sid}/").items():
            tx.move(name, None, expected=oid)


def test_file_does_not_purge_the_entries_of_a_store(tmp_path: Path, begin: Callable[[Store], str]) -> None:
    with Store.create(tmp_path / "one.git") as store, Store.create(tmp_path / "two.git") as other:
        sid = begin(store)
        other.import_file(written(store, sid, tmp_path / "old.jsonl"), agent="jsonl")
        purge(store)
        assert_refused(other, written(store, sid, tmp_path / "new.jsonl"), "was not purged")
        assert len(other.search(SECRET)) == 1


KEY = "ghp_" + "a1B2" * 9


@pytest.mark.parametrize("agent", ["own", "agent"])
def test_redacted_text_is_not_in_the_file_and_the_redacted_entry_is_imported(tmp_path: Path, agent: str) -> None:
    with Store.create(tmp_path / "one.git") as store, Store.create(tmp_path / "two.git") as other:
        if agent == "own":
            session = store.new_session(agent="mine")
            session.append(Message.user(f"key {KEY}"))
            sid = session.id
        else:
            sid = store.agents.import_data(FORMATS["pi"], pi_file(said("a", None, f"key {KEY}"))).session
        file = written(store, sid, tmp_path / "x.jsonl")
        assert KEY not in file.read_text()
        other.import_file(file, agent="jsonl")
        assert KEY not in other.export(sid, to="jsonl").data.decode()
        assert other.verify().problems == []


def test_entry_that_was_redacted_later_keeps_its_place(tmp_path: Path) -> None:
    path = tmp_path / "one.git"
    with Store.create(path) as store:
        git(store.objects, "config", "gitsession.redact", "false")
    with Store.open(path) as store:
        session = store.new_session(agent="mine")
        session.append(Message.user(f"key {KEY}"))
        old = written(store, session.id, tmp_path / "old.jsonl")
        assert KEY in old.read_text()
        git(store.objects, "config", "gitsession.redact", "true")
    with Store.open(path) as store, Store.create(tmp_path / "two.git") as other:
        assert store.secrets.redact(list(store.secrets.find())).entries == 1
        new = written(store, session.id, tmp_path / "new.jsonl")
        assert KEY not in new.read_text()
        assert_refused(store, old, "was purged")
        assert [done.new for done in store.import_file(new, agent="jsonl")] == [0]
        assert_refused(other, new, "was not redacted")
