"""A purge from elsewhere is carried out everywhere; what no remote was ever given is set aside before it goes."""

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
    return sorted((store.git_dir / tombstone_sync.PLACE).glob("*"))


def why(report):
    return next(one.why for one in report.branches if one.ref == refs.TOMBSTONES)


def shared_session(a, b):
    sid = begun(a, "first", SECRET, "last").id
    sync(a)
    sync(b)
    return sid


def test_what_was_said_here_in_a_session_that_is_purged_elsewhere_is_kept_in_a_file(two, tmp_path):
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


def test_of_what_was_published_nothing_is_set_aside(two):
    """A branch that nobody has, cut at an entry that everybody has."""
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
    """The same file; only one of them has published it."""
    data = pi_file(line("a", None, "one"), line("b", "a", SECRET), line("c", "b", "three"))
    begun(a, "a store")
    sync(a)
    sync(b)
    bring(a, data)
    bring(b, data)
    sync(a)
    purge(a, find(a))
    sync(a)


def test_what_was_imported_here_too_is_set_aside_and_both_have_the_same(two, tmp_path):
    a, b = two
    imported_by_both(a, b)
    assert "the purge removed an entry of" in why(syncing.sync(b, remote(b)))
    assert traces(b) == []
    assert shared(a) == shared(b) == there(tmp_path / "hub.git")
    assert len(set_aside(b)) == 1


def test_who_accepts_all_keeps_nothing(two):
    a, b = two
    imported_by_both(a, b)
    with (b.git_dir / "config").open("a") as config:
        config.write("[gitsession]\n\tacceptTombstones = all\n")
    assert why(syncing.sync(b, remote(b))) == ""
    assert set_aside(b) == []
    assert traces(b) == []


def test_who_is_killed_in_between_sets_it_aside_once(two, monkeypatch):
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


def test_what_is_said_while_it_is_set_aside_is_set_aside_too(two, monkeypatch, tmp_path):
    a, b = two
    sid = shared_session(a, b)
    say(b, sid, "only here")
    purging.add(a, whole(a, sid), 1000)
    sync(a)
    late = iter(["and this"])
    put = tombstone_sync.set_aside

    def while_somebody_writes(*arguments):
        words = put(*arguments)
        for text in late:
            say(b, sid, text)
        return words

    monkeypatch.setattr(tombstone_sync, "set_aside", while_somebody_writes)
    told = why(syncing.sync(b, remote(b)))
    assert "2 entries" in told
    with Store.create(tmp_path / "c.git") as other:
        other.remotes.unbundle(next(file for file in set_aside(b) if str(file) in told))
        assert said(other.objects, sid)["main"][-2:] == ["only here", "and this"]


def test_a_session_in_the_trash_is_set_aside_as_well(two):
    a, b = two
    imported_by_both(a, b)
    Store(b, tends=False).trash.put(refs.session_of(next(name for name in b.refs(refs.SESSIONS) if says(b, name))))
    assert "only this store had" in why(syncing.sync(b, remote(b)))
    assert len(set_aside(b)) == 1


def says(store, name):
    return any(SECRET in subject for subject in subjects(store, name))
