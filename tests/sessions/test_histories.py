"""Tests of diverged branches: where they diverge, and the new name of one of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from builders import STORES, begun, on_disk, session
from raw import LEAF, append, git
from ref_files import child_of

from gitsession.codec.digest import hash_of, to_base32
from gitsession.errors import MissingObject
from gitsession.git.ref_files import check_ref_name
from gitsession.model.entries import Message
from gitsession.store import histories, refs
from gitsession.store.git_store import GitStore


@pytest.fixture(params=STORES.values(), ids=STORES)
def store(request, tmp_path):
    with request.param(tmp_path / "store.git") as store:
        yield store


def forked(store, *, shared=1, ours=1, theirs=1):
    """Return the oids of two branches with ``shared`` common entries, oldest first."""
    made = begun(store, *(f"shared {n}" for n in range(shared)))
    made.branch("side")
    for n in range(ours):
        made.append(Message.user(f"ours {n}"))
    side = made.on("side")
    for n in range(theirs):
        side.append(Message.user(f"theirs {n}"))
    return made, [node.oid for node in made.history()], [node.oid for node in side.history()]


@pytest.mark.parametrize(("ours", "theirs"), [(1, 1), (5, 1), (1, 5), (3, 4)])
def test_two_branches_diverge_after_their_last_common_entry(store, ours, theirs):
    _, mine, other = forked(store, shared=2, ours=ours, theirs=theirs)
    assert histories.find_divergence(store.read, mine[-1], other[-1]) == (mine[2], mine[3])
    assert histories.find_divergence(store.read, other[-1], mine[-1]) == (mine[2], other[3])


def test_part_of_another_branch_lacks_nothing(store):
    _, mine, _ = forked(store, ours=3)
    assert histories.find_divergence(store.read, mine[1], mine[-1]) == (mine[1], None)
    assert histories.find_divergence(store.read, mine[-1], mine[1]) == (mine[1], mine[2])
    assert histories.find_divergence(store.read, mine[-1], mine[-1]) == (mine[-1], None)


def test_unrelated_branches_have_nothing_in_common(store):
    one, other = begun(store, "one"), begun(store, "other")
    assert histories.find_divergence(store.read, one.leaf.oid, other.leaf.oid) == (None, one.history()[0].oid)


def test_unreadable_branch_is_reported(store):
    with pytest.raises(MissingObject):
        histories.find_divergence(store.read, "1" * 40, "2" * 40)


def test_new_name_depends_on_the_first_different_entry(store):
    made, mine, other = forked(store, ours=3)
    first = made.history()[2]
    names = list(histories.candidate_names(store.read, refs.leaf(made.id), mine[-1], other[-1]))
    assert names == [f"{refs.leaf(made.id)}.{to_base32(first.chain, length)}" for length in (8, 13, 26, 52)]
    made.append(Message.user("more"))
    assert list(histories.candidate_names(store.read, refs.leaf(made.id), made.leaf.oid, other[-1])) == names
    assert list(histories.candidate_names(store.read, names[0], mine[-1], other[-1])) == names  # names do not grow


def test_a_second_parent_changes_no_name(store):
    made, mine, other = forked(store, ours=2)
    side = session(store, made.id, "side")
    before = next(histories.candidate_names(store.read, refs.leaf(made.id), mine[-1], other[-1]))
    side.append(Message.user("what ours was about"), summarises=made.leaf)
    assert next(histories.candidate_names(store.read, refs.leaf(made.id), mine[-1], side.leaf.oid)) == before


def test_commit_without_a_chain_digest_is_named_by_its_oid(tmp_path):
    with on_disk(tmp_path / "store.git") as store:
        root = append(store, "root")
        ours = append(store, "ours")
        expected = to_base32(hash_of(bytes.fromhex(ours)), 8)
        assert next(histories.candidate_names(store.read, LEAF, ours, root)) == f"{LEAF}.{expected}"


@pytest.mark.parametrize("branch", ["main", "a" * 64, "files", "meta"])
def test_every_new_name_is_valid_and_recognized(store, branch):
    made, mine, other = forked(store)
    for name in histories.candidate_names(store.read, refs.leaf(made.id, branch), mine[-1], other[-1]):
        check_ref_name(name)
        subprocess.run(["git", "check-ref-format", name], check=True)
        assert refs.is_session_ref(name)
        assert refs.is_branch(refs.parse(name)[1]) == (branch not in ("files", "meta"))


NO_NAMES = {
    "too short": "main.abcdefg",
    "between two lengths": "main.abcdefgh2",
    "no base": ".abcdefgh",
    "twice": "main.abcdefgh.abcdefgh",
    "not base32": "main.abcdefg1",
    "a lock": "main.lock",
}


@pytest.mark.parametrize("branch", NO_NAMES.values(), ids=NO_NAMES)
def test_no_other_name_has_a_dot(branch):
    assert not refs.is_session_ref(refs.leaf("20260201-aaaaaaaaaaaaa", branch))


# ---- flushes that find a moved ref


@pytest.fixture
def parted(tmp_path):
    """Create a store in which git moved ``main`` while later entries were in the journal."""
    path = tmp_path / "store.git"
    with on_disk(path) as store:
        made = begun(store, "shared")
        store.flush()
        root = made.leaf.oid
        theirs = child_of(path, root, "theirs")
        ours = [made.append(Message.user(f"ours {n}")) for n in range(2)]
        git(path, "update-ref", refs.leaf(made.id), theirs, root)
        store.flush()
        yield store, made, ours, theirs


def test_flush_renames_a_branch_whose_ref_has_moved(parted):
    store, made, ours, theirs = parted
    [(name, side)] = store.renamed_branches
    assert (name, side) == (refs.leaf(made.id), f"{refs.leaf(made.id)}.{to_base32(ours[0].chain, 8)}")
    assert (store.ref(name), store.ref(side)) == (theirs, ours[-1].oid)


def test_active_branch_is_renamed_too(parted):
    store, made, *_ = parted
    [(_, side)] = store.renamed_branches
    assert store.ref(refs.active(made.id)) == refs.symbolic(side)


def test_active_branch_elsewhere_is_unchanged(tmp_path):
    path = tmp_path / "store.git"
    with on_disk(path) as store:
        made = begun(store, "shared")
        made.branch("elsewhere")
        store.flush()
        root = made.leaf.oid
        made.append(Message.user("ours"))
        session(store, made.id, "main").switch("elsewhere")
        git(path, "update-ref", refs.leaf(made.id), child_of(path, root, "theirs"), root)
        store.flush()
        assert store.ref(refs.active(made.id)) == refs.symbolic(refs.leaf(made.id, "elsewhere"))


def test_next_entry_on_a_renamed_branch_keeps_its_name(parted):
    store, made, *_ = parted
    [(_, side)] = store.renamed_branches
    beside = session(store, made.id, side.rpartition("/")[2])
    beside.append(Message.user("more"))
    store.flush()
    assert set(store.refs(refs.session(made.id))) == {refs.leaf(made.id), side, refs.meta(made.id)}


def grown(path: Path, git_brings: str):
    """Create a store with three entries in the journal, some of which git writes before the flush (``git_brings``)."""
    with on_disk(path) as store:
        made = begun(store, "shared")
        store.flush()
    with GitStore.open(path) as store:
        mine = session(store, made.id)
        oids = [mine.append(Message.user(f"said {n}")).oid for n in range(3)]
        for name, data in store._writer.state.pending_objects().items():
            assert git(path, "hash-object", "-w", "-t", data[0], "--stdin", stdin=data[1]) == name
        moved = {"a part": oids[1], "all": oids[2], "more": child_of(path, oids[2], "more")}[git_brings]
        git(path, "update-ref", refs.leaf(made.id), moved)
        store.flush()
        assert store.renamed_branches == []
        return store.ref(refs.leaf(made.id)), oids, moved


@pytest.mark.parametrize("what", ["a part", "all"])
def test_own_entries_fetched_by_git_are_not_another_branch(tmp_path, what):
    now, oids, _ = grown(tmp_path / "store.git", what)
    assert now == oids[-1]


def test_branch_with_own_and_more_entries_is_kept(tmp_path):
    now, _, moved = grown(tmp_path / "store.git", "more")
    assert now == moved


# ---- known states of remotes


def test_many_tracking_refs_are_written_at_once_without_loose_files(tmp_path):
    path = tmp_path / "store.git"
    with on_disk(path) as store:
        oid = begun(store, "hi").leaf.oid
        names = [f"{refs.TRACKING}origin/sessions/s{n}/main" for n in range(100)]
        with store.transaction() as tx:
            for name in names:
                tx.move(name, oid, expected=None)
        store.flush()
        assert store.last_flush_error is None
        assert not list((path / "refs/remotes").rglob("main"))
        assert set(git(path, "for-each-ref", "--format=%(refname)", refs.TRACKING).split()) == set(names)
        with store.transaction() as tx:
            tx.move(names[0], store.ref("refs/heads/main"), expected=oid)
        store.flush()
        assert git(path, "rev-parse", names[0]) == store.ref("refs/heads/main")


def test_tracking_ref_moved_by_git_is_kept_without_a_renamed_one(tmp_path):
    path = tmp_path / "store.git"
    with on_disk(path) as store:
        made = begun(store, "hi", "there")
        store.flush()
        one, other = (node.oid for node in made.history()[1:])
        name = f"{refs.TRACKING}origin/sessions/{made.id}/main"
        with store.transaction() as tx:
            tx.move(name, one, expected=None)
        git(path, "update-ref", name, other)
        store.flush()
        assert store.refs(refs.TRACKING) == {name: other}
        assert store.renamed_branches == []
