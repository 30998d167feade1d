"""Tests of the reader of received packs: it finds the same commits as git, and reads the same objects."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import begun, fork, session
from pushed import Client, bare, push
from raw import git

from gitsession import Message
from gitsession.git.types import Oid
from gitsession.store import refs
from gitsession.validation import quarantine_reader
from gitsession.validation.quarantine_reader import GitReader


@pytest.fixture
def received(tmp_path: Path) -> Path:
    """Create a repository with two sessions and a fork in one pack."""
    client = Client.begin(tmp_path / "theirs.git")
    origin = session(client.store, client.sid)
    origin.append(Message.user("more"))
    fork(origin).append(Message.user("in the fork"))
    begun(client.store, "other")
    client.store.flush()
    push(client.path, bare(tmp_path / "remote.git"), "refs/heads/*:refs/heads/*")
    git(tmp_path / "remote.git", "repack", "-adq")
    return tmp_path / "remote.git"


def tips_of(path: Path) -> list[Oid]:
    return git(path, "for-each-ref", "--format=%(objectname)", refs.SESSIONS).split()


def test_walk_finds_the_commits_that_git_lists(received: Path) -> None:
    tips = tips_of(received)
    with GitReader(received, {}) as by_git, GitReader(received, {}) as read:
        expected = by_git.new(tips, [], 1000)
        read.load_commits(tips)
        found = read.new(tips, [], 1000)
        assert found == expected
        assert found is not None
        places = {oid: place for place, oid in enumerate(found)}
        assert all(places[parent] < places[oid] for oid, parents in found.items() for parent in parents)
        assert read._cat_file is None
        assert read.new(tips, [], len(found) - 1) is None
        assert read.new(tips, tips[:1], 1000) == by_git.new(tips, tips[:1], 1000)


def test_walk_finds_the_commits_that_are_not_in_known_histories(received: Path) -> None:
    """Each commit of two sessions and a fork is once the tip of a known history, and once that of a received one."""
    commits = git(received, "rev-list", "--all").split()
    walked = 0
    for known in commits:
        roots = set(git(received, "rev-list", "--max-parents=0", known).split())
        for tip in commits:
            with GitReader(received, {}) as by_git, GitReader(received, {}, known_roots=set(roots)) as read:
                expected = by_git.new([tip], [known], 1000)
                read.load_commits([tip])
                walked += read._walk([tip], {known}) is not None
                assert read.new([tip], [known], 1000) == expected
    assert 0 < walked < len(commits) ** 2


@pytest.mark.parametrize("bytes_max", [quarantine_reader._COMMITS_BYTES_MAX, 1000, 10])
def test_a_portion_loads_only_the_commits_of_its_histories(
    received: Path, monkeypatch: pytest.MonkeyPatch, bytes_max: int
) -> None:
    monkeypatch.setattr(quarantine_reader, "_COMMITS_BYTES_MAX", bytes_max)
    [*_, tip] = git(received, "for-each-ref", "--format=%(objectname)", "--sort=refname", refs.SESSIONS).split()
    with GitReader(received, {}) as by_git, GitReader(received, {}, is_portion=True) as read:
        expected = by_git.new([tip], [], 1000)
        read.load_commits([tip])
        assert expected is not None and read._commits.keys() <= expected.keys()
        assert read._commits.keys() == expected.keys() or bytes_max < 2000
        assert read.new([tip], [], 1000) == expected
        assert {oid: read.read(oid) for oid in expected} == {oid: by_git.read(oid) for oid in expected}


@pytest.mark.parametrize("limit", ["_COMMITS_BYTES_MAX", "_WINDOW_BYTES_MAX", "_LISTED_MAX"])
def test_objects_beyond_the_limits_are_read_by_git(received: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    tips = tips_of(received)
    with GitReader(received, {}) as read:
        read.load_commits(tips)
        read.load_entries(tips)
        expected = {oid: read.read(oid) for oid in tips}
        sizes = {oid: read.head(oid) for oid in tips}
    monkeypatch.setattr(quarantine_reader, limit, 10)
    with GitReader(received, {}) as read:
        read.load_commits(tips)
        assert (read._commits == {}) == (limit != "_WINDOW_BYTES_MAX")
        read.load_entries(tips)
        assert {oid: read.read(oid) for oid in tips} == expected
        assert {oid: read.head(oid) for oid in tips} == sizes
        assert read._cat_file is not None
