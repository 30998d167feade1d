"""Tests of sync: stores that continue independently and meet at a git server end with the same data."""

from __future__ import annotations

import re
import shutil
import subprocess
import zlib
from pathlib import Path

import pytest
from builders import (
    Clock,
    assert_clean,
    assert_git_agrees,
    bring,
    fork,
    leaves,
    on_disk,
    pi_file,
    session,
    talk,
    title_of,
)
from pushed import hub as server
from remotes import begun, git, hub, meta_kinds, pull, push, remote, said, say, shared, store_with, sync, there, told

from gitsession.api import Store
from gitsession.codec.digest import to_base32
from gitsession.errors import NotFound, Refused, Unavailable
from gitsession.git import process
from gitsession.git.objects import encode_commit
from gitsession.model.entries import Message, Usage
from gitsession.sessions.active_branch import active
from gitsession.store import create, histories, published, refs
from gitsession.store.git_store import GitStore
from gitsession.sync import cloning, fetching, remotes, syncing, transport


class Two:
    """Stores ``a`` and ``b`` with a common session, and the hub between them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hub = hub(folder / "hub.git")
        self.a, self.b = (store_with(folder / f"{name}.git", self.hub) for name in "ab")
        self.sid = begun(self.a, "hi").id
        sync(self.a)
        sync(self.b)

    def everywhere(self, rounds: int = 2) -> bool:
        """Sync repeatedly and return whether all have the same refs."""
        for _ in range(rounds):
            for store in (self.a, self.b):
                sync(store)
        return shared(self.a) == shared(self.b) == there(self.hub)

    def clean(self) -> None:
        for store in (self.a, self.b):
            assert_git_agrees(store)
            assert_clean(store)
        git(self.hub, "fsck", "--strict", "--no-dangling")


@pytest.fixture
def two(tmp_path):
    made = Two(tmp_path)
    yield made
    for store in (made.a, made.b):
        store.close()


@pytest.fixture(params=[1, 10_000], ids=["many refs", "few refs"])
def many_tracking_refs(request, monkeypatch):
    """Set the number of remote-tracking refs from which only those that have moved are fetched."""
    monkeypatch.setattr(transport, "MANY_TRACKING_REFS", request.param)


# ---- outcomes of refs


@pytest.mark.usefixtures("many_tracking_refs")
def test_entry_reaches_the_other_store(two):
    say(two.a, two.sid, "more")
    assert sync(two.a) == {"main": "ahead"}
    assert sync(two.b) == {"main": "forwarded"}
    assert said(two.b, two.sid) == {"main": ["hi", "more"]}
    assert sync(two.b) == {}
    two.clean()


@pytest.mark.usefixtures("many_tracking_refs")
def test_new_sessions_and_branches_are_fetched(two):
    begun(two.a, "another")
    session(two.a, two.sid).branch("side")
    assert sync(two.a) == {"main": "ahead", "meta": "ahead", "side": "ahead"}
    assert sync(two.b) == {"main": "new", "meta": "new", "side": "new"}
    assert two.everywhere()
    two.clean()


def test_local_refs_are_not_sent(two):
    session(two.a, two.sid).branch("side")
    session(two.a, two.sid).switch("side")
    sync(two.a)
    assert set(there(two.hub)) == set(shared(two.a))
    assert all(name.startswith("refs/heads/") for name in git(two.hub, "for-each-ref", "--format=%(refname)").split())


def test_first_published_branch_keeps_its_name_and_the_other_is_renamed(two):
    say(two.a, two.sid, "from a")
    first = session(two.b, two.sid).append(Message.user("from b"))
    sync(two.a)
    side = f"main.{to_base32(first.chain, 8)}"
    assert sync(two.b) == {"main": "forked", side: "ahead"}
    assert said(two.b, two.sid) == {"main": ["hi", "from a"], side: ["hi", "from b"]}
    assert active(two.b, two.sid) == side
    assert sync(two.a) == {side: "new"}
    assert two.everywhere()
    two.clean()


def test_store_stays_on_its_branch_after_a_sync(two):
    say(two.a, two.sid, "from a")
    sync(two.a)
    session(two.b, two.sid).append(Message.user("from b, and newer"))
    sync(two.b)
    sync(two.a)
    assert active(two.a, two.sid) == "main"
    say(two.b, two.sid, "newer still", active(two.b, two.sid))
    sync(two.b)
    sync(two.a)
    assert active(two.a, two.sid) == "main"
    two.clean()


def test_active_branch_elsewhere_is_kept(two):
    say(two.a, two.sid, "from a")
    sync(two.a)
    mine = session(two.b, two.sid)
    mine.append(Message.user("from b"))
    mine.branch("elsewhere", at="root")
    mine.switch("elsewhere")
    sync(two.b)
    assert active(two.b, two.sid) == "elsewhere"


def test_renamed_branch_continues_under_its_new_name(two):
    for n in range(3):
        say(two.a, two.sid, f"a{n}", "main")
        say(two.b, two.sid, f"b{n}", active(two.b, two.sid))
        sync(two.a)
        sync(two.b)
    assert len(leaves(two.a, two.sid)) == 2
    assert two.everywhere()
    assert sorted(said(two.a, two.sid).values()) == [["hi", "a0", "a1", "a2"], ["hi", "b0", "b1", "b2"]]


def test_pull_sends_nothing_and_push_fetches_nothing(two):
    say(two.a, two.sid, "from a")
    say(two.b, two.sid, "from b")
    before = there(two.hub)
    assert pull(two.a) == {"main": "ahead"}
    assert there(two.hub) == before
    assert push(two.a) == {"main": "forwarded"}
    assert push(two.b) == {"main": "refused"}
    assert said(two.b, two.sid) == {"main": ["hi", "from b"]}


def test_rejected_ref_does_not_stop_others(two):
    say(two.a, two.sid, "from a")
    sync(two.a)
    say(two.b, two.sid, "from b")
    other = begun(two.b, "another").id
    report = syncing.push(two.b, remote(two.b))
    assert {one.ref: one.outcome for one in report.branches} == {
        refs.leaf(two.sid): "refused",
        refs.leaf(other): "new",
        refs.meta(other): "new",
    }
    [refused] = report.of("refused")
    assert "pull" in refused.why


def test_one_session_may_be_sent_alone(two):
    one, other = begun(two.a, "one").id, begun(two.a, "other").id
    assert push(two.a, "", one) == {"main": "new", "meta": "new"}
    assert refs.leaf(one) in there(two.hub)
    assert refs.leaf(other) not in there(two.hub)


# ---- entries outside the conversation


def test_labels_and_titles_make_no_branch(two):
    session(two.a, two.sid).rename("of a")
    session(two.b, two.sid).rename("of b")
    session(two.b, two.sid).label("leaf", "here")
    sync(two.a)
    assert sync(two.b) == {"meta": "forwarded"}
    assert two.everywhere()
    assert title_of(two.a, two.sid) == title_of(two.b, two.sid)
    assert list(leaves(two.a, two.sid)) == ["main"]
    two.clean()


def test_rebased_title_is_not_reported_missing(two):
    """The operation log refers to the old commit of the entry. Now another commit has the entry."""
    session(two.a, two.sid).rename("of a")
    session(two.b, two.sid).rename("of b")
    sync(two.a)
    sync(two.b)
    assert Store(two.b).verify().problems == []


def test_token_counts_make_no_branch(two):
    for store in (two.a, two.b):
        session(store, two.sid).append(Usage(purpose="title", at_ms=Clock()()))
    sync(two.a)
    assert sync(two.b) == {"main": "forwarded"}
    assert len(said(two.b, two.sid)["main"]) == 3
    assert two.everywhere()
    two.clean()


def test_equal_title_of_both_stores_is_stored_once(two):
    """The store was copied with unpublished entries."""
    session(two.b, two.sid).rename("once")
    two.b.flush()
    shutil.copytree(two.b.git_dir, two.folder / "c.git")
    with GitStore.open(two.folder / "c.git") as copy:
        session(two.a, two.sid).rename("first")
        session(two.b, two.sid).rename("later")
        for store in (two.a, two.b, copy, two.a, two.b, copy):
            sync(store)
        assert shared(two.a) == shared(two.b) == shared(copy) == there(two.hub)
        assert meta_kinds(two.a, two.sid).count("title") == 3


def test_session_imported_by_both_stores_is_one(two):
    data = pi_file(*talk("a", "b", "c"))
    more = pi_file(*talk("a", "b", "c", "d", "e"))
    sid = bring(two.a, data).session
    assert bring(two.b, more).session == sid
    assert two.everywhere()
    assert set(said(two.a, sid)) == {"main"}
    assert bring(two.a, more).new == 0
    two.clean()


# ---- several remotes


def test_home_remote_keeps_the_branch_names(tmp_path):
    one, other = hub(tmp_path / "one.git"), hub(tmp_path / "other.git")
    with store_with(tmp_path / "a.git", one, other) as a, store_with(tmp_path / "b.git", other) as b:
        sid = begun(a, "hi").id
        for store, name in ((a, ""), (a, "other"), (b, "")):
            sync(store, name)
        say(a, sid, "at one")
        say(b, sid, "at other")
        sync(a)
        sync(b)
        report = syncing.sync(a, remotes.find(a.git_dir, "other"))
        [refused] = report.of("refused")
        assert refused.ref == refs.leaf(sid)
        assert said(a, sid)["main"] == ["hi", "at one"]
        assert ["hi", "at other"] in said(a, sid).values()
        assert there(other)[refs.leaf(sid)] == shared(b)[refs.leaf(sid)]
        assert shared(a)[refs.leaf(sid)] in there(other).values()
        before = there(other)
        for _ in range(2):
            sync(a)
            sync(a, "other")
            sync(b)
        assert len(there(other)) == len(before)
        assert ["hi", "at one"] in said(b, sid).values()


def test_remote_must_be_named_if_there_is_no_home(tmp_path):
    with on_disk(tmp_path / "a.git") as store:
        for name in ("one", "other"):
            remotes.add(store.git_dir, name, str(tmp_path / name))
        with pytest.raises(NotFound, match="no home remote is set"):
            remotes.find(store.git_dir)
        assert remotes.find(store.git_dir, "other").url == str(tmp_path / "other")


# ---- in a repository with code


def code(path: Path, branch: str) -> Path:
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", "init", "-q", "-b", branch, str(path)], check=True)
    subprocess.run(["git", *who, "-C", str(path), "commit", "-q", "--allow-empty", "-m", "code"], check=True)
    return path / ".git"


@pytest.mark.parametrize("branch", ["main", "trunk"])
@pytest.mark.parametrize("verb", ["push", "pull", "sync"])
def test_sessions_do_not_mix_with_code(tmp_path, branch, verb):
    url = code(tmp_path / "code", branch)
    before = git(url, "for-each-ref")
    with store_with(tmp_path / "a.git", url) as store:
        begun(store, "hi")
        if verb == "pull" and branch == "trunk":
            assert pull(store) == {}  # nothing there belongs to gitsession
        else:
            with pytest.raises(Refused, match="not a store of sessions"):
                getattr(syncing, verb)(store, remote(store))
    assert git(url, "for-each-ref") == before


@pytest.mark.parametrize(("branch", "says"), [("main", "its branch main is not"), ("trunk", "it has the branch")])
def test_clone_of_code_is_rejected_with_the_same_message(tmp_path, branch, says):
    with pytest.raises(Refused, match=f"not a store of sessions: {says}"):
        cloning.clone(str(code(tmp_path / "code", branch)), tmp_path / "clone.git", transport.TransportOptions())
    assert not (tmp_path / "clone.git").exists()


@pytest.mark.parametrize("verb", ["clone", "pull"])
def test_remote_with_sha_256_is_rejected_and_not_taken_for_an_empty_one(tmp_path, verb):
    url = tmp_path / "far.git"
    process.run(None, "init", "--quiet", "--bare", "--object-format=sha256", str(url))
    tree = git(url, "hash-object", "-t", "tree", "-w", "/dev/null")
    commit = git(url, "-c", "user.name=a", "-c", "user.email=a@b", "commit-tree", "-m", "on", tree)
    git(url, "update-ref", "refs/heads/sessions/a/main", commit)
    with pytest.raises(Refused, match="uses SHA-256"):
        if verb == "clone":
            cloning.clone(str(url), tmp_path / "clone.git", transport.TransportOptions())
        else:
            with store_with(tmp_path / "store.git", url) as store:
                pull(store)
    assert not (tmp_path / "clone.git").exists()
    assert not list(tmp_path.glob("store.git/gitsession/incoming/*"))


def test_interrupted_first_pull_leaves_no_files(two, tmp_path, monkeypatch):
    def interrupted(_, git_dir, *arguments):
        Path(arguments[-1]).mkdir()  # git was killed, too, so it has not removed its folder
        raise KeyboardInterrupt

    monkeypatch.setattr(transport.TransportOptions, "run", interrupted)
    with store_with(tmp_path / "store.git", two.hub) as store:
        with pytest.raises(KeyboardInterrupt):
            pull(store)
        assert list((store.git_dir / create.INCOMING).iterdir()) == []


@pytest.mark.parametrize("main", ["that goes on", "missing"])
def test_clone_has_the_same_main_as_a_sync(two, tmp_path, main):
    first = create.first_commit()[0]
    words = ("-c", "user.name=a", "-c", "user.email=a@b", "commit-tree", "-p", first, "-m", "on", f"{first}^{{tree}}")
    new = git(two.hub, *words) if main == "that goes on" else None
    git(two.hub, *(("update-ref", create.MAIN, new) if new else ("update-ref", "-d", create.MAIN)))
    cloning.clone(str(two.hub), tmp_path / "clone.git", transport.TransportOptions())
    with GitStore.open(tmp_path / "clone.git") as made:
        assert made.ref(create.MAIN) == (new or first)
        assert refs.leaf(two.sid) in made.refs(refs.SESSIONS)
        assert sync(made) == {}
    sync(two.a)
    assert two.a.ref(create.MAIN) == (new or first)


def test_sessions_in_a_repository_of_code_have_their_own_namespace(tmp_path):
    url = code(tmp_path / "code", "main")
    with on_disk(tmp_path / "a.git") as a, on_disk(tmp_path / "b.git") as b:
        for store in (a, b):
            remotes.add(store.git_dir, "origin", str(url), namespace="gitsession")
        sid = begun(a, "hi").id
        sync(a)
        assert sync(b) == {"main": "new", "meta": "new"}
        say(a, sid, "from a")
        say(b, sid, "from b")
        for store in (a, b, a, b):
            sync(store)
        assert shared(a) == shared(b)
        assert sorted(said(a, sid).values()) == [["hi", "from a"], ["hi", "from b"]]
        assert git(url, "for-each-ref", "--format=%(refname)", "refs/heads") == "refs/heads/main"
        names = git(url, "for-each-ref", "--format=%(refname)", "refs/gitsession").split()
        assert {name.split("/")[2] for name in names} == {"sessions"}


# ---- mixed use with plain git


def test_plain_push_is_rejected_by_name_and_plain_fetch_moves_no_branch(two):
    say(two.a, two.sid, "from a")
    sync(two.a)
    other = begun(two.b, "another").id
    say(two.b, two.sid, "from b")
    two.b.flush()
    done = subprocess.run(["git", f"--git-dir={two.b.git_dir}", "push"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"{two.sid}/main -> sessions/{two.sid}/main (fetch first)" in done.stderr
    assert refs.leaf(other) in there(two.hub)
    done = subprocess.run(["git", f"--git-dir={two.b.git_dir}", "fetch"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert said(two.b, two.sid) == {"main": ["hi", "from b"]}
    assert two.everywhere()
    assert sorted(said(two.a, two.sid).values()) == [["hi", "from a"], ["hi", "from b"]]
    two.clean()


def test_push_of_one_entry_lists_the_refs_once_and_starts_one_git(two, monkeypatch):
    remote_of_a = remote(two.a)
    say(two.a, two.sid, "more")
    listed, started = [], []
    own_refs, run = two.a.refs, process.run_transfer
    monkeypatch.setattr(two.a, "refs", lambda prefix: listed.append(prefix) or own_refs(prefix))
    monkeypatch.setattr(process, "run_transfer", lambda *a, **k: started.append(a[1]) or run(*a, **k))
    monkeypatch.setattr(process, "run", lambda *a, **_: pytest.fail(f"git was started: {a}"))
    assert syncing.push(two.a, remote_of_a).pushed == {refs.leaf(two.sid)}
    assert listed == [remote_of_a.tracks, "refs/heads/"]
    assert started == ["push"]


def test_first_pull_lists_the_refs_of_no_single_session(two, monkeypatch):
    begun(two.a, "another")
    sync(two.a)
    with store_with(two.folder / "c.git", two.hub) as store:
        listed, own_refs = [], store.refs
        monkeypatch.setattr(store, "refs", lambda prefix: listed.append(prefix) or own_refs(prefix))
        pull(store)
        assert len({refs.session_of(name) for name in own_refs(refs.SESSIONS)}) == 2
        assert not [prefix for prefix in listed if prefix.startswith(refs.SESSIONS) and prefix != refs.SESSIONS]


def test_first_pull_is_a_clone_and_starts_one_git(two, monkeypatch):
    sync(two.a)
    with store_with(two.folder / "c.git", two.hub) as store:
        origin, started, run = remote(store), [], process.run_transfer
        with monkeypatch.context() as patch:
            patch.setattr(process, "run_transfer", lambda *a, **k: started.append(a) or run(*a, **k))
            patch.setattr(process, "run", lambda *a, **_: pytest.fail(f"git was started: {a}"))
            patch.setattr(process, "start", lambda *a, **_: pytest.fail(f"git was started: {a}"))
            assert syncing.pull(store, origin).of("new")
        assert ["clone" in words for words in started] == [True]
        assert said(store, two.sid) == {"main": ["hi"]}
        assert store.refs(origin.tracks).keys() == set(two.a.refs(remote(two.a).tracks))
        say(two.a, two.sid, "more")
        sync(two.a)
        assert pull(store)["main"] == "forwarded"


def test_plain_fetch_updates_tracking_refs_and_the_next_pull_merges_them(two):
    say(two.a, two.sid, "more")
    sync(two.a)
    git(two.b.git_dir, "fetch", "-q")
    assert said(two.b, two.sid) == {"main": ["hi"]}
    assert two.b.ref(refs.leaf(two.sid).replace("heads", "remotes/origin")) == two.a.ref(refs.leaf(two.sid))
    assert pull(two.b) == {"main": "forwarded"}
    assert said(two.b, two.sid) == {"main": ["hi", "more"]}


PRUNING = (("fetch", "--prune"), ("remote", "prune", "origin"), ("remote", "update", "--prune"))


@pytest.mark.parametrize("command", PRUNING, ids=" ".join)
def test_plain_git_that_prunes_deletes_no_branch(two, command):
    mine = begun(two.b, "unpublished").id
    say(two.b, two.sid, "unpublished too")
    two.b.flush()
    before = shared(two.b)
    git(two.b.git_dir, "-c", "fetch.prune=true", *command)
    git(two.b.git_dir, "-c", "fetch.prune=true", "fetch", "-q")
    assert shared(two.b) == before
    assert refs.leaf(mine) in before
    assert two.everywhere()


@pytest.mark.usefixtures("many_tracking_refs")
def test_session_fetched_by_plain_git_survives_its_deletion_at_the_remote(two):
    """Another program's ``push --prune`` may have deleted the only other copy."""
    gone = begun(two.a, "only at the hub").id
    sync(two.a)
    git(two.b.git_dir, "fetch", "-q")
    git(two.hub, "config", "receive.denyDeletes", "false")
    for ref in there(two.hub):
        if gone in ref:
            git(two.hub, "update-ref", "-d", ref)
    assert pull(two.b)["main"] == "new"
    assert said(two.b, gone) == {"main": ["only at the hub"]}
    assert not [name for name in two.b.refs("refs/remotes/") if gone in name]
    assert sync(two.b)
    assert refs.leaf(gone) in there(two.hub)


@pytest.mark.usefixtures("many_tracking_refs")
def test_remote_that_was_replaced_by_an_empty_one_receives_all_again(two):
    before = there(two.hub)
    shutil.rmtree(two.hub)
    hub(two.hub)
    sync(two.a)
    assert there(two.hub) == before
    assert two.everywhere()
    two.clean()


def test_plain_fetch_under_a_journal_loses_nothing(two):
    say(two.a, two.sid, "from a")
    sync(two.a)
    say(two.b, two.sid, "from b")  # in the journal
    git(two.b.git_dir, "fetch", "-q")
    assert two.everywhere()
    assert sorted(said(two.a, two.sid).values()) == [["hi", "from a"], ["hi", "from b"]]


# ---- directed schedules


def test_unsent_renamed_branch_is_never_overwritten(two):
    """D1: a branch is renamed and its push is killed. Then a second branch is renamed from the same one."""
    say(two.a, two.sid, "a1")
    sync(two.a)
    say(two.b, two.sid, "b1")
    pull(two.b)  # renames a branch and ends before it is pushed
    say(two.b, two.sid, "b2", "main")
    say(two.a, two.sid, "a2", "main")
    sync(two.a)
    assert two.everywhere()
    assert sorted(said(two.a, two.sid).values()) == [
        ["hi", "a1", "a2"],
        ["hi", "a1", "b2"],
        ["hi", "b1"],
    ]
    two.clean()


def test_copies_of_a_store_give_each_branch_one_name(two):
    """D2: a store is copied completely, and both copies repeatedly continue the same branch."""
    two.b.close()
    shutil.copytree(two.b.git_dir, two.folder / "c.git")
    two.b = GitStore.open(two.b.git_dir)
    with GitStore.open(two.folder / "c.git") as copy:
        for n in range(3):
            for name, store in (("a", two.a), ("b", two.b), ("c", copy)):
                say(store, two.sid, f"{name}{n}", "main")
                sync(store)
        for _ in range(2):
            for store in (two.a, two.b, copy):
                sync(store)
        assert shared(two.a) == shared(two.b) == shared(copy) == there(two.hub)
        names = set(said(two.a, two.sid))
        assert all(name == "main" or len(name) == len("main.") + 8 for name in names)
        every = {word for line in said(two.a, two.sid).values() for word in line}
        assert every == {"hi"} | {f"{name}{n}" for n in range(3) for name in "abc"}


def test_copied_renamed_branch_continues_twice(two):
    say(two.a, two.sid, "a")
    sync(two.a)
    say(two.b, two.sid, "b")
    pull(two.b)
    two.b.close()
    shutil.copytree(two.b.git_dir, two.folder / "c.git")
    two.b = GitStore.open(two.b.git_dir)
    with GitStore.open(two.folder / "c.git") as copy:
        side = active(copy, two.sid)
        say(two.b, two.sid, "b and more", side)
        say(copy, two.sid, "c and more", side)
        for store in (two.b, copy, two.a, two.b):
            sync(store)
        assert shared(two.a) == shared(two.b) == shared(copy) == there(two.hub)
        assert sorted(said(two.a, two.sid).values()) == [
            ["hi", "a"],
            ["hi", "b", "b and more"],
            ["hi", "b", "c and more"],
        ]


def test_entry_published_between_fetch_and_push_is_merged(two, monkeypatch):
    """The remote moves between the fetch and the push."""
    say(two.b, two.sid, "from b")
    send = transport.push
    rivals = iter(["from a"])

    def late(*arguments, **more):
        for text in rivals:
            say(two.a, two.sid, text)
            sync(two.a)
        return send(*arguments, **more)

    monkeypatch.setattr(transport, "push", late)
    assert "forked" in sync(two.b).values()
    assert sorted(said(two.b, two.sid).values()) == [["hi", "from a"], ["hi", "from b"]]


def test_repeatedly_overtaken_sync_reports_it_and_loses_nothing(two, monkeypatch):
    send = transport.push
    number = 0

    def late(*arguments, **more):
        nonlocal number
        number += 1
        other = session(two.a, two.sid, "main")
        other.append(Message.user(f"a{number}"))
        two.a.flush()
        git(two.a.git_dir, "push", "-q", "origin", f"{refs.leaf(two.sid)}:{refs.leaf(two.sid)}")
        mine = session(two.b, two.sid, "main")
        mine.append(Message.user(f"b{number}"))
        return send(*arguments, **more)

    say(two.b, two.sid, "b0")
    monkeypatch.setattr(transport, "push", late)
    syncing.sync(two.b, remote(two.b))  # entries appended meanwhile are part of the next sync
    monkeypatch.undo()
    assert two.everywhere()
    every = {word for line in said(two.a, two.sid).values() for word in line}
    assert every >= {f"b{n}" for n in range(number + 1)} | {f"a{n}" for n in range(1, number + 1)}


# ---- validation of fetched data


def bad_entry(two, ref):
    """Create an entry on the hub that is a valid commit for git but invalid for gitsession."""
    old = there(two.hub)[ref]
    tree = git(two.hub, "rev-parse", f"{old}^{{tree}}")
    data = encode_commit(
        tree=tree, parents=[old], author_name="user", author_seconds=1, committer_seconds=1, message=b"user: x\n"
    )
    new = git(two.hub, "hash-object", "-w", "-t", "commit", "--stdin", stdin=data)
    git(two.hub, "update-ref", ref, new)
    return new


@pytest.mark.usefixtures("many_tracking_refs")
def test_invalid_entry_reaches_no_ref_and_no_pack(two):
    other = begun(two.a, "good").id
    sync(two.a)
    new = bad_entry(two, refs.leaf(two.sid))
    report = syncing.sync(two.b, remote(two.b))
    [refused] = report.of("refused")
    assert refused.ref == refs.leaf(two.sid)
    assert new[:10] in refused.why
    assert said(two.b, two.sid) == {"main": ["hi"]}
    assert said(two.b, other) == {"main": ["good"]}
    assert not two.b.contains(new)
    assert two.b.ref(remote(two.b).tracking(refs.leaf(two.sid))) != new
    two.b.flush()
    assert_clean(two.b)


@pytest.mark.usefixtures("many_tracking_refs")
def test_ref_rejected_by_fsck_does_not_stop_others(two):
    """A fetch of several refs fails if fsck rejects an object. Each ref is then fetched alone."""
    git(two.hub, "config", "transfer.fsckObjects", "false")
    other = begun(two.a, "good").id
    sync(two.a)
    old = there(two.hub)[refs.leaf(two.sid)]
    blob = git(two.hub, "hash-object", "-w", "--stdin", stdin="x")
    tree = git(two.hub, "hash-object", "-w", "-t", "tree", "--literally", "--stdin",
               stdin=b"100644 .git\0" + bytes.fromhex(blob))  # fmt: skip
    data = encode_commit(
        tree=tree, parents=[old], author_name="user", author_seconds=1, committer_seconds=1, message=b"user: x\n"
    )
    new = git(two.hub, "hash-object", "-w", "-t", "commit", "--stdin", stdin=data)
    git(two.hub, "update-ref", refs.leaf(two.sid), new)
    report = syncing.pull(two.b, remote(two.b))
    assert [one.ref for one in report.of("refused")] == [refs.leaf(two.sid)]
    assert said(two.b, other) == {"main": ["good"]}
    assert not two.b.contains(new)


@pytest.mark.parametrize("named_max", [1, 3, 300])
def test_with_many_refs_only_moved_refs_are_fetched(two, monkeypatch, named_max):
    monkeypatch.setattr(transport, "MANY_TRACKING_REFS", 1)
    monkeypatch.setattr(fetching, "_NAMED_MAX", named_max)
    fetched, fetch = [], transport.fetch

    def recorded(git_dir, of, specs, *args, **more):
        fetched.append(list(specs))
        return fetch(git_dir, of, specs, *args, **more)

    monkeypatch.setattr(transport, "fetch", recorded)
    assert sync(two.b) == {}
    assert fetched == []
    new = begun(two.a, "another").id
    say(two.a, two.sid, "more")
    sync(two.a)
    fetched.clear()
    sync(two.b)
    moved = [refs.leaf(two.sid), refs.leaf(new), refs.meta(new)]
    named = [f"+{ref}:{remote(two.b).tracking(ref)}" for ref in moved]
    assert [sorted(specs) for specs in fetched] == [sorted(named if named_max >= 3 else remote(two.b).fetched())]
    assert said(two.b, two.sid) == {"main": ["hi", "more"]}
    two.clean()


def test_long_names_are_fetched_in_parts(two, monkeypatch):
    monkeypatch.setattr(transport, "MANY_TRACKING_REFS", 1)
    monkeypatch.setattr(fetching, "_NAMED_CHARS_MAX", 60)  # one name, but not two
    numbers, fetch = [], transport.fetch
    new = begun(two.a, "another").id
    sync(two.a)

    def counted(git_dir, of, specs, *args, **more):
        numbers.append(len(specs))
        return fetch(git_dir, of, specs, *args, **more)

    monkeypatch.setattr(transport, "fetch", counted)
    sync(two.b)
    assert numbers == [1, 1]
    assert said(two.b, new) == {"main": ["another"]}


def test_ref_that_is_deleted_during_a_pull_is_not_refused(two, monkeypatch):
    monkeypatch.setattr(transport, "MANY_TRACKING_REFS", 1)
    gone, kept = begun(two.a, "gone").id, begun(two.a, "kept").id
    sync(two.a)
    advertised = transport.advertised

    def then_deleted(*args):
        listed = advertised(*args)
        for ref in (refs.leaf(gone), refs.meta(gone)):
            git(two.hub, "update-ref", "-d", ref)
        return listed

    monkeypatch.setattr(transport, "advertised", then_deleted)
    assert not syncing.pull(two.b, remote(two.b)).of("refused")
    assert said(two.b, kept) == {"main": ["kept"]}
    assert said(two.b, gone) == {}


@pytest.mark.usefixtures("many_tracking_refs")
@pytest.mark.parametrize("name", [b"caf\xe9", "main\u2028x".encode(), "main\u0085x".encode()])
def test_ref_with_a_strange_name_hides_no_other_ref(two, name):
    old = there(two.hub)[refs.leaf(two.sid)]
    say(two.a, two.sid, "more")
    sync(two.a)
    with (two.hub / "packed-refs").open("ab") as packed:
        packed.write(old.encode() + b" " + refs.leaf(two.sid, "").encode() + name + b"\n")
    refused = syncing.pull(two.b, remote(two.b)).of("refused")
    assert [one.ref.encode() for one in refused] in ([], [refs.leaf(two.sid, "").encode() + name])
    assert said(two.b, two.sid)["main"] == ["hi", "more"]


@pytest.mark.usefixtures("many_tracking_refs")
def test_tracking_ref_of_plain_git_is_kept(two):
    git(two.hub, "update-ref", "refs/heads/notes", there(two.hub)[refs.leaf(two.sid)])
    git(two.b.git_dir, "fetch", "-q", "origin", "+refs/heads/*:refs/remotes/origin/*")
    say(two.a, two.sid, "more")
    sync(two.a)
    sync(two.b)
    assert two.b.ref("refs/remotes/origin/notes") is not None


@pytest.mark.usefixtures("many_tracking_refs")
def test_plain_fetch_at_the_start_of_a_pull_loses_nothing(two, monkeypatch):
    say(two.a, two.sid, "more")
    sync(two.a)
    known = syncing._known

    def then_fetched(*args):
        found = known(*args)
        git(two.b.git_dir, "fetch", "-q", "origin", "+refs/heads/*:refs/remotes/origin/*")
        return found

    monkeypatch.setattr(syncing, "_known", then_fetched)
    sync(two.b)
    assert said(two.b, two.sid) == {"main": ["hi", "more"]}


def test_git_does_not_search_for_short_object_ids(two, monkeypatch):
    said_by_git, run = [], process.run_transfer

    def recorded(*args, **more):
        result = run(*args, **more)
        said_by_git.append(result.out)
        return result

    monkeypatch.setattr(process, "run_transfer", recorded)
    say(two.a, two.sid, "more")
    sync(two.a)
    assert re.search(rb"[0-9a-f]{40}\.\.[0-9a-f]{40}", b"".join(said_by_git))


NAMES = ["sessions/x/main", "sessions/20260201-aaaaaaaaaaaaa/Main", "sessions/20260201-aaaaaaaaaaaaa/main.lockk"]


@pytest.mark.parametrize("name", NAMES)
def test_ref_with_an_unknown_name_is_not_fetched(two, name):
    git(two.hub, "update-ref", f"refs/heads/{name}", there(two.hub)[refs.leaf(two.sid)])
    report = syncing.pull(two.b, remote(two.b))
    assert [one.ref for one in report.of("refused")] == [f"refs/heads/{name}"]
    assert f"refs/heads/{name}" not in shared(two.b)


@pytest.mark.usefixtures("many_tracking_refs")
def test_other_branches_of_the_remote_are_ignored(two):
    git(two.hub, "update-ref", "refs/heads/notes", there(two.hub)[refs.leaf(two.sid)])
    git(two.hub, "update-ref", "refs/heads/mainline", there(two.hub)[refs.leaf(two.sid)])
    assert pull(two.b) == {}
    assert "refs/heads/notes" not in shared(two.b)


# ---- errors


def test_missing_remote_is_reported_in_one_line(tmp_path):
    with store_with(tmp_path / "a.git", tmp_path / "nowhere.git") as store:
        begun(store, "hi")
        for verb in (syncing.pull, syncing.push, syncing.sync):
            with pytest.raises(Unavailable, match="was not found") as told_so:
                verb(store, remote(store))
            assert "\n" not in str(told_so.value)


def test_unreachable_server_is_an_error(tmp_path):
    with on_disk(tmp_path / "a.git") as store:
        remotes.add(store.git_dir, "origin", "http://user:secret@127.0.0.1:1/x.git")
        with pytest.raises(Unavailable, match="cannot be reached") as told_so:
            syncing.sync(store, remote(store))
        assert "secret" not in str(told_so.value)


@pytest.mark.parametrize("said, code", [(b"fatal: write error: No space left on device\n", 128), (b"", -9)])
def test_local_error_does_not_cause_a_fetch_of_each_ref(two, monkeypatch, said, code):
    """A full disk must not cause thousands of refs to be fetched one by one."""
    asked = []

    def talk(git_dir, *words, **_):
        asked.append(words)
        return process.ProcessResult(code, b"", said)

    monkeypatch.setattr(process, "run_transfer", talk)
    with pytest.raises(Unavailable, match="cannot be used now"):
        pull(two.b)
    assert len(asked) == 1


def test_offline_is_no_harm(two):
    say(two.a, two.sid, "offline")
    two.hub.rename(two.folder / "away")
    with pytest.raises(Unavailable):
        sync(two.a)
    say(two.a, two.sid, "still")
    (two.folder / "away").rename(two.hub)
    assert sync(two.a) == {"main": "ahead"}
    assert said(two.a, two.sid) == {"main": ["hi", "offline", "still"]}


def test_a_hook_that_refuses_one_ref_is_found_by_halving(two):
    """A pre-receive hook accepts or rejects the whole push. The other refs are pushed without the rejected one."""
    sids = [begun(two.a, f"session {n}").id for n in range(5)]
    hook = two.hub / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\nif grep -q {sids[2]}/main; then echo no such luck; exit 1; fi\n")
    hook.chmod(0o755)
    report = syncing.push(two.a, remote(two.a))
    assert [one.ref for one in report.of("refused")] == [refs.leaf(sids[2])]
    assert "no such luck" in report.messages
    assert len(report.of("new")) == 9


def test_pending_deletions_are_recorded_before_git_starts(two, monkeypatch):
    say(two.a, two.sid, "more")
    seen = []

    def killed(*arguments, **more):
        seen.extend(published.list_records(two.a.git_dir))
        raise KeyboardInterrupt

    monkeypatch.setattr(transport, "push", killed)
    with pytest.raises(KeyboardInterrupt):
        sync(two.a)
    assert seen == [("origin", refs.leaf(two.sid), two.a.ref(refs.leaf(two.sid)))]
    assert list(published.list_records(two.a.git_dir)) == seen
    monkeypatch.undo()
    sync(two.a)
    assert list(published.list_records(two.a.git_dir)) == []


def test_concurrent_syncs_take_turns(two):
    say(two.a, two.sid, "more")
    with GitStore.open(two.a.git_dir) as other:
        sync(other)
        assert sync(two.a) == {}


def test_a_fetch_that_was_killed_leaves_room(two):
    left = two.a.git_dir / "gitsession/incoming/left"
    (left / "objects").mkdir(parents=True)
    sync(two.a)
    assert not left.exists()


# ---- exact refs only


def test_one_new_entry_pushes_one_ref(two, monkeypatch):
    for n in range(5):
        begun(two.a, f"session {n}")
    sync(two.a)
    say(two.a, two.sid, "more")
    pushed = []
    send = transport._push_chunk

    def watched(git_dir, remote, chunk, *more):
        pushed.append(dict(chunk))
        return send(git_dir, remote, chunk, *more)

    monkeypatch.setattr(transport, "_push_chunk", watched)
    push(two.a)
    assert [list(chunk) for chunk in pushed] == [[refs.leaf(two.sid)]]


def test_thousands_of_refs_are_pushed_in_chunks(two, monkeypatch):
    monkeypatch.setattr(transport, "FIRST_CHUNK", 2)
    monkeypatch.setattr(transport, "CHUNK_MAX", 4)
    for n in range(6):
        begun(two.a, f"session {n}")
    report = syncing.sync(two.a, remote(two.a))
    assert len(report.pushed) == 12
    assert told(report) == {"main": "ahead", "meta": "ahead"}
    sync(two.b)
    assert shared(two.a) == shared(two.b)


@pytest.mark.parametrize("case", ["searched", "not searched", "some sessions", "second push"])
def test_only_a_whole_push_of_searched_packs_searches_for_no_deltas(tmp_path, case):
    """The payloads of two packs are almost equal. Git looks for deltas between packs, and for none within a pack."""
    with store_with(tmp_path / "a.git", hub(tmp_path / "hub.git")) as store:
        if case == "second push":
            for _ in range(3):
                begun(store, "hi")
            sync(store)
        texts = [" ".join(str(number * 7919 % 9973) for number in range(3_000)) + end for end in ("one", "two")]
        sids = []
        for text in texts:
            sids.append(begun(store, text).id)
            store.flush()
        for pack in (store.git_dir / "objects/pack").glob("*.pack") if case != "not searched" else ():
            git(store.git_dir, "index-pack", "--rev-index", str(pack))
        shutil.rmtree(tmp_path / "hub.git/objects/pack")
        (tmp_path / "hub.git/objects/pack").mkdir()
        git(tmp_path / "hub.git", "config", "receive.unpackLimit", "1")
        syncing.push(store, remote(store), sessions=sids if case == "some sessions" else ())
        sent = sum(pack.stat().st_size for pack in (tmp_path / "hub.git/objects/pack").glob("*.pack"))
        payload = len(zlib.compress(texts[0].encode()))
        assert sent > 2 * payload if case == "searched" else payload < sent < 1.5 * payload


@pytest.mark.parametrize("size", [1, 2, 3])
def test_refs_of_a_session_are_pushed_in_one_chunk(tmp_path, monkeypatch, size):
    """The server accepts no branch of a fork before its `main`, which has the fork point."""
    monkeypatch.setattr(transport, "FIRST_CHUNK", size)
    monkeypatch.setattr(transport, "CHUNK_MAX", size)
    with store_with(tmp_path / "a.git", server(tmp_path / "hub.git")) as store:
        begun(store, "another")
        forked = fork(session(store, bring(store, pi_file(*talk("one", "two"))).session))
        forked.branch("a", at=next(node for node in forked.history() if node.subject.endswith("one")))
        forked.branch("b")
        report = syncing.sync(store, remote(store))
        assert report.of("refused") == []
        assert there(tmp_path / "hub.git") == shared(store)


def test_remote_that_rejects_everything_is_not_tried_for_each_session(two, monkeypatch):
    for n in range(40):
        begun(two.a, f"session {n}")
    hook = two.hub / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    asked, send = [], transport._push_chunk
    monkeypatch.setattr(transport, "_push_chunk", lambda *words: asked.append(words[2]) or send(*words))
    report = syncing.push(two.a, remote(two.a))
    assert len(report.of("refused")) == 80
    assert sum("not tried: the remote rejected 16 others" in branch.why for branch in report.branches) > 50
    assert len(asked) < 40
    hook.unlink()
    push(two.a)
    assert there(two.hub) == shared(two.a)


def test_chunks_are_smaller_after_a_whole_chunk_was_rejected(two, monkeypatch):
    for n in range(40):
        begun(two.a, f"session {n}")
    hook = two.hub / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\ntest $(wc -l) -le 10\n")
    hook.chmod(0o755)
    asked, send = [], transport._push_chunk
    monkeypatch.setattr(transport, "_push_chunk", lambda *words: asked.append(len(words[2])) or send(*words))
    monkeypatch.setattr(transport, "FIRST_CHUNK", 4)
    monkeypatch.setattr(transport, "CHUNK_MAX", 16)
    push(two.a)
    assert [size for size in asked if size > 10] == [16]
    assert there(two.hub) == shared(two.a)


def test_error_of_ssh_without_a_prefix_is_shown(two):
    said_by_git = b"git@host: Permission denied (publickey).\nfatal: Could not read from remote repository.\n"
    error = transport.failure(remote(two.a), process.ProcessResult(128, b"", said_by_git))
    assert "Permission denied (publickey)" in str(error)


def test_rejected_refs_do_not_block_others(two, monkeypatch):
    for n in range(transport.REJECTED_ENOUGH + 4):
        begun(two.a, f"session {n}")
    names = sorted(ref for ref in shared(two.a) if ref.startswith(refs.SESSIONS) and two.sid not in ref)
    hook = two.hub / "hooks" / "pre-receive"
    unwanted = "\\|".join({refs.session_of(name) for name in names[:-2]})
    hook.write_text(f"#!/bin/sh\n! grep -q '{unwanted}'\n")
    hook.chmod(0o755)
    monkeypatch.setattr(transport, "FIRST_CHUNK", 1)
    monkeypatch.setattr(transport.random, "shuffle", list.reverse)
    push(two.a)
    assert names[-1] in there(two.hub)


def test_all_other_refs_of_a_session_with_a_rejected_ref_are_sent(two, monkeypatch):
    """The rejected ref is found even if the server rejects the whole push."""
    mine = session(two.a, two.sid)
    for name in ("one", "secret-name", "two"):
        mine.branch(name)
    begun(two.a, "another")
    hook = two.hub / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\n! grep -q secret-name\n")
    hook.chmod(0o755)
    report = syncing.sync(two.a, remote(two.a))
    assert [one.ref for one in report.of("refused")] == [refs.leaf(two.sid, "secret-name")]
    assert set(shared(two.a)) - set(there(two.hub)) == {refs.leaf(two.sid, "secret-name")}


# ---- names


def test_names_are_found_by_content_wherever_they_are_made(two):
    """A flush and a sync give a branch the same name."""
    say(two.a, two.sid, "from a")
    sync(two.a)
    first = session(two.b, two.sid).append(Message.user("from b"))
    git(two.b.git_dir, "fetch", "-q", "origin", f"{refs.leaf(two.sid)}:{refs.leaf(two.sid)}")
    two.b.flush()
    [(_, side)] = two.b.renamed_branches
    assert side == f"{refs.leaf(two.sid)}.{to_base32(first.chain, 8)}"
    assert (
        next(histories.candidate_names(two.b.read, refs.leaf(two.sid), first.oid, two.b.ref(refs.leaf(two.sid))))
        == side
    )
