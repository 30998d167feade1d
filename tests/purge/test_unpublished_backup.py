"""Tests of purges from other stores: they apply everywhere, and unpublished entries are set aside first."""

from __future__ import annotations

import pytest
from builders import assert_clean, begun, bring, pi_file, session
from builders import said as line
from purged import SECRET, find, purge, subjects, traces, whole
from remotes import forge, remote, said, say, shared, store_with, sync, there

from gitsession.api import Store
from gitsession.purge import purging
from gitsession.store import refs
from gitsession.sync import syncing, tombstone_sync


@pytest.fixture
def two(tmp_path):
    hub = forge(tmp_path / "hub.git")
    with store_with(tmp_path / "a.git", hub) as a, store_with(tmp_path / "b.git", hub) as b:
        yield a, b


def set_aside(store):
    return sorted((store.git_dir / tombstone_sync.FOLDER).glob("*"))


def why(report):
    return next(one.why for one in report.branches if one.ref == refs.TOMBSTONES)


def shared_session(a, b):
    sid = begun(a, "first", SECRET, "last").id
    sync(a)
    sync(b)
    return sid


def test_unpublished_entries_of_a_session_purged_elsewhere_are_saved_to_a_file(two, tmp_path):
    a, b = two
    sid = shared_session(a, b)
    say(b, sid, "only here")
    session(b, sid).branch("side", at="root")
    say(b, sid, "nor this", "side")
    purging.add(a, whole(a, sid), 1000)
    sync(a)
    report = syncing.sync(b, remote(b))
    [file] = set_aside(b)
    assert file.stat().st_mode & 0o777 == 0o600
    assert f"the purge removed 2 entries of {sid} that only this store had (a copy is in '{file}')" == why(report)
    assert traces(b, "only here") == traces(b) == []
    sync(a)
    assert shared(a) == shared(b)
    assert_clean(b)
    with Store.create(tmp_path / "c.git") as other:
        other.remotes.unbundle(file)
        assert said(other.objects, sid)["main"] == ["first", SECRET, "last", "only here"]
        assert said(other.objects, sid)["side"][-1] == "nor this"


def test_published_entries_are_not_set_aside(two):
    """The unpublished branch starts at a published entry."""
    a, b = two
    sid = shared_session(a, b)
    session(b, sid).branch("cut", at=find(b))
    say(b, sid, "only here", "cut")
    purge(a, find(a))
    sync(a)
    assert why(syncing.sync(b, remote(b))) == ""
    assert set_aside(b) == []
    assert said(b, sid)["cut"] == ["first", "user message", "only here"]


def imported_by_both(a, b):
    """Import the same file into both stores, of which only one has published it."""
    data = pi_file(line("a", None, "one"), line("b", "a", SECRET), line("c", "b", "three"))
    begun(a, "a store")
    sync(a)
    sync(b)
    bring(a, data)
    bring(b, data)
    sync(a)
    purge(a, find(a))
    sync(a)


def test_session_imported_by_both_stores_is_set_aside_and_both_end_equal(two, tmp_path):
    a, b = two
    imported_by_both(a, b)
    assert "the purge removed an entry of" in why(syncing.sync(b, remote(b)))
    assert traces(b) == []
    assert shared(a) == shared(b) == there(tmp_path / "hub.git")
    assert len(set_aside(b)) == 1


def test_accepting_every_purge_sets_nothing_aside(two):
    a, b = two
    imported_by_both(a, b)
    with (b.git_dir / "config").open("a") as config:
        config.write("[gitsession]\n\tacceptTombstones = all\n")
    assert why(syncing.sync(b, remote(b))) == ""
    assert set_aside(b) == []
    assert traces(b) == []


def test_killed_purge_sets_entries_aside_once(two, monkeypatch):
    a, b = two
    imported_by_both(a, b)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(tombstone_sync.purging, "begin", interrupted)
        sync(b)
    assert b.ref(refs.TOMBSTONES) is None
    before = set_aside(b)
    assert str(before[0]) in why(syncing.sync(b, remote(b)))
    assert set_aside(b) == before


def interrupted(*_):
    raise KeyboardInterrupt


def test_entry_appended_while_others_are_set_aside_is_set_aside_too(two, monkeypatch, tmp_path):
    a, b = two
    sid = shared_session(a, b)
    say(b, sid, "only here")
    purging.add(a, whole(a, sid), 1000)
    sync(a)
    late = iter(["and this"])
    put = tombstone_sync.save_lost_entries

    def while_somebody_writes(*arguments):
        words = put(*arguments)
        for text in late:
            say(b, sid, text)
        return words

    monkeypatch.setattr(tombstone_sync, "save_lost_entries", while_somebody_writes)
    told = why(syncing.sync(b, remote(b)))
    assert "2 entries" in told
    with Store.create(tmp_path / "c.git") as other:
        other.remotes.unbundle(next(file for file in set_aside(b) if str(file) in told))
        assert said(other.objects, sid)["main"][-2:] == ["only here", "and this"]


def test_session_in_the_trash_is_set_aside_too(two):
    a, b = two
    imported_by_both(a, b)
    Store(b, tends=False).trash.put(refs.session_of(next(name for name in b.refs(refs.SESSIONS) if says(b, name))))
    assert "only this store had" in why(syncing.sync(b, remote(b)))
    assert len(set_aside(b)) == 1


def says(store, name):
    return any(SECRET in subject for subject in subjects(store, name))
