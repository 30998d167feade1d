"""Tests of the archive: a set of sessions behind one ref, the same in every store (docs/explanation/archive.md)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import Clock, assert_clean, assert_git_agrees, begun, fork, session
from purged import SECRET, find, purge, traces
from purged import whole as whole_of
from raw import git
from remotes import forge, hub, pull, push, remote, say, shared, store_with, sync, there

from gitsession import Message
from gitsession.api import Store
from gitsession.archive import archive_set, archiving
from gitsession.archive.archive_set import Archive, ArchiveView, UnarchivedStore
from gitsession.errors import MissingObject, NotFound
from gitsession.git import process
from gitsession.purge import purging
from gitsession.server import server
from gitsession.sessions import graph
from gitsession.sessions.grow_only_sets import seconds_of
from gitsession.store import refs
from gitsession.store.git_store import GitStore
from gitsession.sync import cloning, remotes, syncing, transport
from gitsession.sync.transport import TransportOptions
from gitsession.validation import validate
from gitsession.validation.quarantine_reader import Limits
from gitsession.verify.entry_walk import verify

A, B = "20260101-aaaaaaaaaaaaa", "20260201-bbbbbbbbbbbbb"
KEY = "AKIA" + "Q3EGRWHFTZ5XMPLB"
ONE, TWO = "1" * 40, "2" * 40


@pytest.fixture(params=["with hooks", "without hooks"])
def place(request, tmp_path: Path) -> Path:
    made = hub(tmp_path / "hub.git")
    if request.param == "with hooks":
        server.install(made, [sys.executable, "-m", "gitsession"])
    else:
        git(made, "config", "receive.denyDeletes", "false")
    return made


@pytest.fixture
def stores(tmp_path: Path, place: Path):
    made = [store_with(tmp_path / f"{name}.git", place) for name in "ab"]
    yield made
    for store in made:
        store.close()


def everywhere(*stores: GitStore) -> None:
    for store in (*stores, *stores):
        sync(store)


class Objects:
    """A reader of objects in memory. ``seen``: the content of the objects that were read."""

    def __init__(self, objects) -> None:
        self._objects, self.seen = objects, []

    def read(self, oid):
        if oid not in self._objects:
            raise MissingObject(oid)
        self.seen.append(self._objects[oid][1])
        return self._objects[oid]


def live(store: GitStore) -> set[str]:
    return {refs.session_of(name) for name in store.refs(refs.SESSIONS)}


# ---- the set


def test_merged_sets_have_all_rows_of_both_in_any_order():
    one = Archive({A: 1, B: 2}, {A: frozenset({("main", ONE)}), B: frozenset({("main", ONE)})})
    other = Archive({A: 2}, {A: frozenset({("main", TWO)})})
    both = one | other
    assert both == other | one == both | one
    assert (both.turns, both.of(A)) == ({A: 2, B: 2}, {("main", ONE), ("main", TWO)})
    assert one <= both and other <= both and not both <= one
    assert (list(one), list(other), list(both)) == ([A], [], [])


def test_only_the_months_of_the_named_sessions_are_read():
    ends = {A: frozenset({("main", ONE)}), B: frozenset({("main", TWO)})}
    written = archive_set.added(Objects({}), None, Archive({A: 1, B: 1}, ends))
    reader = Objects(written.objects)
    assert archive_set.of_sessions(reader, [written.oid], [A, ""]) == Archive({A: 1}, {A: ends[A]})
    assert reader.seen and not any(B.encode() in data for data in reader.seen)


def test_equal_files_of_two_commits_are_not_read():
    ends = {A: frozenset({("main", ONE)}), B: frozenset({("main", TWO)})}
    old = archive_set.added(Objects({}), None, Archive({A: 1, B: 1}, ends))
    new = archive_set.added(Objects(old.objects), old.oid, Archive({A: 1, B: 2}, ends))
    reader = Objects({**old.objects, **new.objects})
    b_only = {B: ends[B]}
    assert archive_set.in_changed_files(reader, old.oid, new.oid) == (Archive({B: 1}, b_only), Archive({B: 2}, b_only))
    assert reader.seen and not any(A.encode() in data for data in reader.seen)
    assert archive_set.in_changed_files(reader, None, old.oid) == (Archive(), Archive({A: 1, B: 1}, ends))


def test_sync_with_nothing_new_reads_no_month_without_refs(stores: list[GitStore], monkeypatch) -> None:
    a, b = stores
    kept, old = begun(a, "kept", clock=Clock(1_767_000_000_000)).id, begun(a, "old", clock=Clock(1_760_000_000_000)).id
    assert kept[:6] != old[:6]
    everywhere(a, b)
    archiving.archive(a, [old])
    everywhere(a, b)
    names, read_file = [], archive_set.read_file
    monkeypatch.setattr(archive_set, "read_file", lambda *given: names.append(given[1]) or read_file(*given))
    say(a, kept, "more")
    for store in stores:
        sync(store)
    assert names == []


def test_archive_tree_is_read_as_written(tmp_path):
    said = Archive({A: 1, B: 2}, {A: frozenset({("main", ONE), ("meta", TWO)}), B: frozenset()})
    tree, objects = archive_set.tree_of(said)

    found = archive_set.at_tree(Objects(objects), tree)
    assert (found.turns, found.of(A), found.of(B)) == (said.turns, said.of(A), said.of(B))
    assert sorted(data for kind, data in objects.values() if kind == "blob") == [
        f"{A}\t1\n{A}/main\t{ONE}\n{A}/meta\t{TWO}\n".encode(),
        f"{B}\t2\n".encode(),
    ]


def archive_commits(store: GitStore) -> dict[str, archive_set.ArchiveCommit]:
    oids = archive_set.SET.commits(store, store.ref(refs.ARCHIVE))
    return {oid: archive_set.link(store.read(oid)[1]) for oid in oids}


def test_thousands_of_ends_are_several_commits_each_of_which_leads_to_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(archive_set, "TIPS", 6)
    with store_with(tmp_path / "s.git") as store:
        for step in range(2):
            sids = [begun(store, f"{step}, {number}").id for number in range(8)]
            archiving.archive(store, sids)
            store.flush()
        commits = archive_commits(store)
        assert sorted(len(commit.tips) for commit in commits.values()) == [0] * 5 + [4, 4, 6, 6, 6, 6]
        assert all(list(commit.before) == sorted(commit.before) for commit in commits.values())
        assert max(len(archive_set.at(store, oid)) for oid in commits) == len(archive_set.read(store)) == 16
        assert_git_agrees(store)
        assert_clean(store)


def test_a_row_is_written_a_few_times_if_many_sessions_are_archived_together(monkeypatch):
    monkeypatch.setattr(archive_set, "TIPS", 1)
    sids = ["20260201-" + f"{number:013b}".replace("0", "a").replace("1", "b") for number in range(256)]
    ends = {sid: frozenset({("main", f"{number:040x}")}) for number, sid in enumerate(sids)}
    archive = Archive(dict.fromkeys(ends, 1), ends)
    merged = archive_set.added(Objects({}), None, archive)
    rows = sum(data.count(b"/main") for kind, data in merged.objects.values() if kind == "blob")
    assert archive_set.at(Objects(merged.objects), merged.oid) == archive
    assert rows == 256 * (1 + 8)


def test_session_with_many_tips_is_divided(tmp_path, monkeypatch):
    monkeypatch.setattr(archive_set, "TIPS", 3)
    with store_with(tmp_path / "s.git") as store:
        made = begun(store)
        for number in range(7):
            made.branch(f"branch-{number}")
        wanted = dict(store.refs(refs.session(made.id)))
        archiving.archive(store, [made.id])
        store.flush()
        assert max(len(commit.tips) for commit in archive_commits(store).values()) <= 3
        assert len(archive_set.read(store)) == 1
        archiving.restore(store, made.id)
        assert store.refs(refs.session(made.id)) == wanted
        assert_clean(store)


def test_commit_has_the_time_of_its_newest_tip(tmp_path, monkeypatch):
    """The sessions that began first end last. The second archiving has older sessions than the first one."""
    monkeypatch.setattr(archive_set, "TIPS", 4)
    day_ms = 86_400_000
    with store_with(tmp_path / "s.git") as store:
        for start in (20_000, 19_000):
            clocks = [Clock((start + day) * day_ms) for day in range(6)]
            sessions = [begun(store, clock=clock) for clock in clocks]
            for day, (clock, made) in enumerate(zip(clocks, sessions, strict=True)):
                clock.at_ms = (start + 100 - day) * day_ms
                made.append(Message.user("the last words"))
            archiving.archive(store, [made.id for made in sessions])
        store.flush()
        commits = archive_commits(store)
        for commit in commits.values():
            assert commit.seconds >= max(seconds_of(store, oid) for oid in (*commit.before, *commit.tips))
        parts = {oid: commit for oid, commit in commits.items() if not commit.before}
        assert len(parts) == 6
        newest = []
        for oid, commit in sorted(parts.items(), key=lambda part: part[1].seconds):
            ends = archive_set.at(store, oid).ends.values()
            found = sorted(max(seconds_of(store, tip) for _, tip in tips) for tips in ends)
            assert commit.seconds == found[-1]
            newest += found
        assert newest == sorted(newest)


# ---- one store


def test_archived_session_is_kept_and_not_listed_until_it_is_restored(tmp_path):
    with store_with(tmp_path / "s.git") as store:
        first, second = begun(store, "one", "two"), begun(store, "three")
        first.branch("side", first.leaf)
        before = dict(store.refs(refs.session(first.id)))
        archiving.archive(store, [first.id])
        assert live(store) == {second.id}
        assert ArchiveView(store, archive_set.read(store)).refs(refs.SESSIONS) == before
        assert UnarchivedStore.of(store).refs(refs.session(first.id)) == before
        git(store.git_dir, "gc", "-q", "--prune=now")
        assert_clean(store)
        assert verify(store).checked == 7
        archiving.restore(store, first.id)
        assert store.refs(refs.session(first.id)) == before
        with pytest.raises(NotFound, match="is not archived"):
            archiving.restore(store, first.id)
        assert_clean(store)


def test_a_session_that_does_not_exist_archives_none(tmp_path):
    with store_with(tmp_path / "s.git") as store:
        sid = begun(store, "one").id
        with pytest.raises(NotFound):
            archiving.archive(store, [sid, A])
        assert live(store) == {sid}
        assert store.ref(refs.ARCHIVE) is None


# ---- several stores


def test_archive_and_restore_reach_every_store(stores, place):
    a, b = stores
    kept, old = begun(a, "kept").id, begun(a, "old", "words").id
    everywhere(a, b)
    assert live(b) == {kept, old}
    archiving.archive(a, [old])
    pull(a)
    assert live(a) == {kept}
    everywhere(a, b)
    assert live(a) == live(b) == {kept}
    assert shared(a) == shared(b)
    assert {refs.session_of(name) for name in there(place)} - {""} == {kept}
    assert not a.refs(f"refs/remotes/origin/sessions/{old}")
    archiving.restore(b, old)
    everywhere(b, a)
    assert live(a) == live(b) == {kept, old}
    assert shared(a) == shared(b) == there(place)
    for store in stores:
        assert_clean(store)
    assert_git_agrees(a)


def test_continuing_an_archived_session_restores_it_everywhere(stores, place):
    a, b = stores
    sid = begun(a, "first").id
    session(a, sid).branch("side", session(a, sid).leaf)
    everywhere(a, b)
    say(b, sid, "went on")
    archiving.archive(a, [sid])
    sync(a)
    everywhere(b, a)
    assert live(a) == live(b) == {sid}
    assert shared(a) == shared(b) == there(place)
    assert {name.rpartition("/")[2] for name in a.refs(refs.session(sid))} >= {"main", "side"}
    assert session(a, sid).leaf == session(b, sid).leaf
    for store in stores:
        assert_clean(store)


def test_branches_that_diverged_before_the_archive_are_both_restored(tmp_path):
    place = hub(tmp_path / "hub.git")
    stores = a, b = tuple(store_with(tmp_path / f"{name}.git", place) for name in "ab")
    sid = begun(a, "first").id
    everywhere(a, b)
    for store, words in ((a, "of a"), (b, "of b")):
        say(store, sid, words)
        archiving.archive(store, [sid])
    ends = {end for store in stores for _, end in archive_set.read(store).of(sid)}
    everywhere(a, b)
    assert live(a) == live(b) == set()
    assert a.ref(refs.ARCHIVE) == b.ref(refs.ARCHIVE)
    archiving.restore(a, sid)
    everywhere(a, b)
    held = set(a.refs(refs.session(sid)).values())
    assert {end for end in ends if any(find_words(a, end, words) for words in ("of a", "of b"))} <= held
    assert shared(a) == shared(b)


def find_words(store: GitStore, oid: str, words: str) -> bool:
    return words.encode() in store.read(oid)[1]


def test_archive_merged_by_a_third_store_is_the_same_commit(tmp_path):
    """Two stores archive independently. Any store that merges the two archives makes the same commit."""
    place = hub(tmp_path / "hub.git")
    made = [store_with(tmp_path / f"{name}.git", place) for name in "abc"]
    a, b, c = made
    sids = [begun(a, f"{number}").id for number in range(3)]
    everywhere(*made)
    archiving.archive(a, sids[:1])
    archiving.archive(b, sids[1:2])
    joined = archive_set.merge(Both(a, b), a.ref(refs.ARCHIVE), b.ref(refs.ARCHIVE)).oid
    assert joined == archive_set.merge(Both(b, a), b.ref(refs.ARCHIVE), a.ref(refs.ARCHIVE)).oid
    everywhere(*made)
    assert {store.ref(refs.ARCHIVE) for store in made} == {joined}
    assert live(a) == live(b) == live(c) == {sids[2]}
    for store in made:
        store.close()


class Both:
    def __init__(self, one, other):
        self._stores = one, other

    def read(self, oid):
        return next(store for store in self._stores if store.contains(oid)).read(oid)


def test_a_clone_has_the_archive_and_lists_none_of_it(tmp_path):
    place = hub(tmp_path / "hub.git")
    a = store_with(tmp_path / "a.git", place)
    kept, old = begun(a, "kept").id, begun(a, "old").id
    archiving.archive(a, [old])
    assert sync(a)["archive"] == "ahead"
    cloning.clone(str(place), tmp_path / "clone.git", TransportOptions())
    with GitStore.open(tmp_path / "clone.git") as store:
        assert live(store) == {kept}
        archiving.restore(store, old)
        assert store.refs(refs.session(old)) == ArchiveView(a, archive_set.read(a)).refs(refs.session(old))
        assert_clean(store)


@pytest.mark.parametrize("is_forged", [False, True])
def test_archive_is_validated_in_portions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_forged: bool) -> None:
    """The whole archive has more entries than a portion may have. A fork and its origin are in different portions."""
    monkeypatch.setattr(validate, "SESSIONS_AT_ONCE", 1)
    monkeypatch.setattr(validate, "ENTRIES_AT_ONCE", 0)
    monkeypatch.setattr(validate, "FETCH_LIMITS", Limits(entries=6))
    place = hub(tmp_path / "hub.git")
    a = store_with(tmp_path / "a.git", place)
    kept, old = begun(a, "kept").id, [begun(a, f"old {number}").id for number in range(5)]
    copy = fork(session(a, old[2]))
    copy.append(Message.user("in the fork"))
    copy.label(copy.leaf, "a label")
    a.flush()
    if is_forged:  # the first session again, under the id of another one
        with a.transaction() as tx:
            tx.move(refs.leaf("20260101-zzzzzzzzzzzzz"), a.ref(refs.leaf(old[0])), expected=None)
    sids = {refs.session_of(name) for name in a.refs(refs.SESSIONS)} - {kept}
    archiving.archive(a, sorted(sids))
    assert sync(a)["archive"] == "ahead"
    report = cloning.clone(str(place), tmp_path / "clone.git", TransportOptions())
    refused = [branch.why for branch in report.of("refused")]
    assert ["another id" in why for why in refused] == [True] * is_forged
    with GitStore.open(tmp_path / "clone.git") as store:
        assert live(store) == {kept}
        assert (store.ref(refs.ARCHIVE) is None) == is_forged
        assert_clean(store)


def test_outdated_clone_restores_nothing_on_a_server_and_its_new_entries_are_accepted(tmp_path):
    place = hub(tmp_path / "hub.git")
    server.install(place, [sys.executable, "-m", "gitsession"])
    with store_with(tmp_path / "a.git", place) as a, store_with(tmp_path / "b.git", place) as b:
        sid = begun(a, "old").id
        everywhere(a)
        sync(b)
        archiving.archive(a, [sid])
        sync(a)
        first = a.ref(refs.ARCHIVE)
        assert sid not in {refs.session_of(name) for name in there(place)}
        told = plain_push(b, f"{refs.leaf(sid)}:{refs.leaf(sid)}")
        assert f"refused {refs.leaf(sid)} at" in told and "its session is archived" in told and "[archived]" in told
        say(b, sid, "went on")
        b.flush()
        assert "refused" not in plain_push(b, f"{refs.leaf(sid)}:{refs.leaf(sid)}")
        everywhere(a, b)
        assert live(a) == live(b) == {sid}
        second = begun(b, "another").id
        archiving.archive(b, [second])
        other = archive_set.added(b, None, archive_set.read(b))
        with b.transaction() as tx:
            tx.put_all(other.objects)
            tx.move("refs/gitsession/other", other.oid, expected=None)
        b.flush()
        assert "does not continue this repository's archive" in plain_push(b, f"+{other.oid}:{refs.ARCHIVE}")
        assert "does not continue this repository's archive" in plain_push(b, f"+{first}:{refs.ARCHIVE}")


def plain_push(store: GitStore, spec: str) -> str:
    words = ["git", f"--git-dir={store.git_dir}", "push", "origin", spec]
    return subprocess.run(words, capture_output=True, text=True, check=False).stderr


def test_unpublished_archived_session_is_scanned_for_secrets(tmp_path):
    place = hub(tmp_path / "hub.git")
    with store_with(tmp_path / "a.git", place) as a:
        git(a.git_dir, "config", "gitsession.redact", "false")
        with GitStore.open(a.git_dir) as store:
            sid = begun(store, f"the key is {KEY}").id
            archiving.archive(store, [sid])
            assert sync(store)["archive"] == "refused"
        assert refs.ARCHIVE not in there(place)


def test_remote_without_deletions_only_keeps_listing_the_session(tmp_path):
    place = hub(tmp_path / "hub.git")
    with store_with(tmp_path / "a.git", place) as a, store_with(tmp_path / "b.git", place) as b:
        kept, old = begun(a, "kept").id, begun(a, "old").id
        everywhere(a, b)
        archiving.archive(a, [old])
        everywhere(a, b)
        assert live(a) == live(b) == {kept}
        assert old in {refs.session_of(name) for name in there(place)}
        assert sync(a) == {}
        cloning.clone(str(place), tmp_path / "clone.git", TransportOptions())
        with GitStore.open(tmp_path / "clone.git") as store:
            assert live(store) == {kept}


@pytest.fixture
def between(monkeypatch):
    """Return functions to call just before a sync deletes refs at a remote, and the git commands that delete them."""
    before: list[Callable[[], object]] = []
    started: list[tuple[str, ...]] = []
    delete, run = transport.delete, process.run_transfer

    def delete_after(*arguments: Any) -> set[str]:
        while before:
            before.pop()()
        started.clear()
        return delete(*arguments)

    def counted(git_dir: Path, *arguments: str, **options: Any) -> process.ProcessResult:
        started.append(arguments)
        return run(git_dir, *arguments, **options)

    monkeypatch.setattr(transport, "delete", delete_after)
    monkeypatch.setattr(process, "run_transfer", counted)
    return before, started


@pytest.mark.parametrize("namespace", ["", "gitsession"])
def test_refs_of_all_archived_sessions_are_deleted_in_one_transaction(tmp_path: Path, between, namespace) -> None:
    place = forge(tmp_path / "hub.git")
    git(place, "config", "receive.denyDeletes", "false")
    with store_with(tmp_path / "a.git") as a:
        remotes.add(a.git_dir, "origin", str(place), namespace=namespace)
        kept, *old = (begun(a, f"session {number}").id for number in range(6))
        sync(a)
        archiving.archive(a, old)
        sync(a)
        [arguments] = between[1]
        assert {"push", "--atomic", "--force-with-lease"} <= {*arguments}
        names = git(place, "for-each-ref", "--format=%(refname)").split()
        sessions = {name.split("/")[-2] for name in names if "/sessions/" in name}
        assert sessions == {refs.session_of(remote(a).local_ref_of(name)) for name in a.refs(remote(a).tracks)} - {""}
        assert sessions == {kept}


@pytest.mark.parametrize("case", ["new session", "archived session", "other session"])
def test_refs_that_another_store_pushes_meanwhile_are_kept(tmp_path: Path, between, case) -> None:
    place = hub(tmp_path / "hub.git")
    git(place, "config", "receive.denyDeletes", "false")
    with store_with(tmp_path / "a.git", place) as a, store_with(tmp_path / "b.git", place) as b:
        kept, old, other = (begun(a, text).id for text in ("kept", "old", "other"))
        everywhere(a, b)
        archiving.archive(a, [old, other])
        pushed = {"archived session": other, "other session": kept}.get(case) or begun(b, "new").id
        if case != "new session":
            say(b, pushed, "in b")
        between[0].append(lambda: push(b))
        sync(a)
        assert ["--atomic" in arguments for arguments in between[1]] == [True, False]
        left = {refs.session_of(name) for name in there(place)} - {""}
        assert left == {kept, pushed}
        assert there(place)[refs.leaf(pushed)] == b.ref(refs.leaf(pushed))
        everywhere(a, b)
        assert shared(a) == shared(b)
        assert live(a) == {kept, pushed}


def test_refs_that_another_store_deletes_meanwhile_are_not_created_again(tmp_path: Path, between) -> None:
    place = hub(tmp_path / "hub.git")
    git(place, "config", "receive.denyDeletes", "false")
    with store_with(tmp_path / "a.git", place) as a:
        kept, old, gone = (begun(a, text).id for text in ("kept", "old", "gone"))
        sync(a)
        archiving.archive(a, [old])
        between[0].append(lambda: [git(place, "update-ref", "-d", name) for name in there(place) if gone in name])
        sync(a)
        assert {refs.session_of(name) for name in there(place)} - {""} == {kept}


def test_remote_that_forbids_deletion_is_asked_once(tmp_path: Path, between) -> None:
    place = hub(tmp_path / "hub.git")
    with store_with(tmp_path / "a.git", place) as a:
        old = [begun(a, text).id for text in ("old", "older")]
        sync(a)
        archiving.archive(a, old)
        sync(a)
        assert len(between[1]) == 1
        assert {refs.session_of(name) for name in there(place)} - {""} == {*old}


def test_continued_session_merges_with_refs_that_a_remote_keeps(tmp_path: Path) -> None:
    place = hub(tmp_path / "hub.git")
    git(place, "config", "receive.denyDeletes", "true")
    with store_with(tmp_path / "a.git", place) as a, store_with(tmp_path / "b.git", place) as b:
        held = begun(a, "one")
        everywhere(a, b)
        say(a, held.id, "in a")
        sync(a)
        archiving.archive(a, [held.id])
        say(b, held.id, "in b")
        everywhere(a, b)
        assert [name.partition(".")[0] for name in graph.branches(b, held.id)] == ["main", "main"]
        assert shared(a) == shared(b)


def test_continuing_an_archived_fork_restores_it_everywhere(stores: list[GitStore]) -> None:
    a, b = stores
    held = begun(a, "one")
    made = fork(session(a, held.id), session(a, held.id).history()[-1])
    everywhere(a, b)
    archiving.archive(a, [made.id])
    sync(a)
    say(b, made.id, "in b")
    everywhere(b, a)
    assert shared(a) == shared(b)
    assert session(a, made.id).history()[-1].subject == "user: in b"


def test_a_branch_of_a_fork_that_both_archive_is_archived_everywhere(stores: list[GitStore]) -> None:
    a, b = stores
    held = begun(a, "one")
    say(a, held.id, "two")
    made = fork(session(a, held.id), session(a, held.id).history()[-1])
    everywhere(a, b)
    session(b, made.id).branch("side", at=session(b, held.id).history()[0])
    said = say(b, made.id, "behind what the fork shares", "side")
    for store in (a, b):
        archiving.archive(store, [made.id])
    everywhere(a, b, a)
    assert shared(a) == shared(b)
    assert said in {oid for store in stores for _, oid in archive_set.read(store).of(made.id)}
    assert archive_set.read(a) == archive_set.read(b)


def test_branches_restored_from_two_archives_have_one_name_each(stores: list[GitStore]) -> None:
    """The ids decide which of two branches keeps the name. Several sessions cover both orders."""
    a, b = stores
    sids = [begun(a, f"session {number}").id for number in range(6)]
    everywhere(a, b)
    for sid in sids:
        say(b, sid, "in b")
    sync(b)
    for sid in sids:
        say(a, sid, "in a")
    archiving.archive(a, sids)
    archiving.archive(b, sids)
    for sid in sids:
        archiving.restore(b, sid)
    archiving.archive(b, sids)
    everywhere(a, b)
    assert shared(a) == shared(b)
    for sid in sids:
        assert [name.partition(".")[0] for name in graph.branches(b, sid)] == ["main", "main"]


# ---- kills


def die(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("step", ["join", "drop_archived_refs", "retire"])
def test_a_sync_that_ends_midway_is_finished_by_the_next(tmp_path, monkeypatch, step):
    place = hub(tmp_path / "hub.git")
    git(place, "config", "receive.denyDeletes", "false")
    a, b = (store_with(tmp_path / f"{name}.git", place) for name in "ab")
    kept, old = begun(a, "kept").id, begun(a, "old").id
    everywhere(a, b)
    say(b, kept, "meanwhile")
    archiving.archive(a, [old])
    for store in (a, b):
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(syncing if step == "retire" else archiving, step, die)
            sync(store)
        assert old in archive_set.read(UnarchivedStore.of(store)) or old in live(store)
    everywhere(a, b)
    assert live(a) == live(b) == {kept}
    assert shared(a) == shared(b)
    assert {refs.session_of(name) for name in there(place)} - {""} == {kept}
    assert_clean(b)


# ---- purge


def test_purge_in_the_archive_leaves_no_trace(tmp_path):
    """Purge an entry and a whole session from the archive.

    The new commit of the archive is the same in every store.
    """
    place = hub(tmp_path / "hub.git")
    server.install(place, [sys.executable, "-m", "gitsession"])
    a, b = (store_with(tmp_path / f"{name}.git", place) for name in "ab")
    with a, b:
        one = begun(a, "first", SECRET, "last").id
        secret = find(a)
        whole = begun(a, "this goes", "as a whole").id
        archiving.archive(a, [one, whole])
        everywhere(a, b)
        purge(a, secret)
        assert traces(a) == []
        assert set(archive_set.read(a)) == {one, whole}
        assert_clean(a)
        assert_git_agrees(a)
        everywhere(a, b)
        assert traces(b) == []
        assert a.ref(refs.ARCHIVE) == b.ref(refs.ARCHIVE) == there(place)[refs.ARCHIVE]
        purging.add(a, whole_of(UnarchivedStore.of(a), whole), 3000)
        assert traces(a, "as a whole") == []
        assert_clean(a)
        everywhere(a, b)
        assert traces(b, "as a whole") == []
        assert a.ref(refs.ARCHIVE) == b.ref(refs.ARCHIVE) == there(place)[refs.ARCHIVE]
        archiving.restore(b, whole)
        assert set(b.refs(refs.session(whole))) == {refs.leaf(whole), refs.meta(whole)}
        archiving.restore(b, one)
        assert [node.kind for node in session(b, one).history()].count("tombstone") == 1
        assert_clean(b)


@pytest.mark.parametrize("leave", ["archive", "rm", "settle"])
def test_active_branch_leaves_no_dangling_symbolic_ref(stores, place, leave):
    store, other = stores
    made = begun(store, "first", "second")
    made.branch("side", made.history()[1])
    made.switch("side")
    if leave == "rm":
        with Store(store, tends=False) as opened:
            opened.trash.put(made.id)
            store.flush()
            assert verify(store).problems == []
            assert_git_agrees(store)
            opened.trash.restore(made.id)
            assert store.ref(refs.active(made.id)) == refs.symbolic(refs.leaf(made.id, "side"))
        return
    if leave == "settle":
        everywhere(store, other)
        archiving.archive(other, [made.id])
        everywhere(other, store)
    else:
        archiving.archive(store, [made.id])
    store.flush()
    assert made.id not in live(store)
    assert store.ref(refs.active(made.id)) is None
    assert git(store.git_dir, "fsck", "--strict", "--no-dangling") == ""
    archiving.restore(store, made.id)
    assert store.ref(refs.active(made.id)) == refs.symbolic(refs.leaf(made.id, "side"))
    assert verify(store).problems == []


def test_active_branch_that_is_not_in_the_log_is_not_restored(stores):
    store, _ = stores
    made = begun(store, "first", "second")
    made.branch("side", made.history()[1])
    with store.transaction() as tx:  # as `sync` makes it
        tx.move(refs.active(made.id), refs.symbolic(refs.leaf(made.id, "side")), expected=None)
    archiving.archive(store, [made.id])
    archiving.restore(store, made.id)
    assert store.ref(refs.active(made.id)) is None
