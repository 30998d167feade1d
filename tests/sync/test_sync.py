"""Stores that go on without each other and come together over a git server: all is there, and everywhere the same."""

from __future__ import annotations

import shutil
import subprocess
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
from gitsession.sync import cloning, remotes, syncing, transport


class Two:
    """Stores ``a`` and ``b`` with one session in common, and the hub between them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hub = hub(folder / "hub.git")
        self.a, self.b = (store_with(folder / f"{name}.git", self.hub) for name in "ab")
        self.sid = begun(self.a, "hi").id
        sync(self.a)
        sync(self.b)

    def everywhere(self, rounds: int = 2) -> bool:
        """Sync until all is said, and see that all have the same."""
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


# ---- what becomes of a ref


def test_what_one_says_the_other_has(two):
    say(two.a, two.sid, "more")
    assert sync(two.a) == {"main": "ahead"}
    assert sync(two.b) == {"main": "forwarded"}
    assert said(two.b, two.sid) == {"main": ["hi", "more"]}
    assert sync(two.b) == {}
    two.clean()


def test_new_sessions_and_branches_come_along(two):
    begun(two.a, "another")
    session(two.a, two.sid).branch("side")
    assert sync(two.a) == {"main": "ahead", "meta": "ahead", "side": "ahead"}
    assert sync(two.b) == {"main": "new", "meta": "new", "side": "new"}
    assert two.everywhere()
    two.clean()


def test_what_is_local_stays_local(two):
    session(two.a, two.sid).branch("side")
    session(two.a, two.sid).switch("side")
    sync(two.a)
    assert set(there(two.hub)) == set(shared(two.a))
    assert all(name.startswith("refs/heads/") for name in git(two.hub, "for-each-ref", "--format=%(refname)").split())


def test_who_published_first_keeps_the_name_and_the_other_goes_on_beside_it(two):
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


def test_a_store_goes_on_where_it_was_whatever_came_in_beside(two):
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


def test_who_went_on_elsewhere_is_left_there(two):
    say(two.a, two.sid, "from a")
    sync(two.a)
    mine = session(two.b, two.sid)
    mine.append(Message.user("from b"))
    mine.branch("elsewhere", at="root")
    mine.switch("elsewhere")
    sync(two.b)
    assert active(two.b, two.sid) == "elsewhere"


def test_what_is_said_beside_goes_on_there_and_the_name_stays(two):
    for n in range(3):
        say(two.a, two.sid, f"a{n}", "main")
        say(two.b, two.sid, f"b{n}", active(two.b, two.sid))
        sync(two.a)
        sync(two.b)
    assert len(leaves(two.a, two.sid)) == 2
    assert two.everywhere()
    assert sorted(said(two.a, two.sid).values()) == [["hi", "a0", "a1", "a2"], ["hi", "b0", "b1", "b2"]]


def test_pull_sends_nothing_and_push_takes_nothing(two):
    say(two.a, two.sid, "from a")
    say(two.b, two.sid, "from b")
    before = there(two.hub)
    assert pull(two.a) == {"main": "ahead"}
    assert there(two.hub) == before
    assert push(two.a) == {"main": "forwarded"}
    assert push(two.b) == {"main": "refused"}
    assert said(two.b, two.sid) == {"main": ["hi", "from b"]}


def test_what_is_refused_stops_no_other(two):
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


# ---- what says nothing in the conversation


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


def test_what_is_said_again_behind_others_is_not_missed_where_it_stood(two):
    """The operation log knows the commit that held it; another one does now."""
    session(two.a, two.sid).rename("of a")
    session(two.b, two.sid).rename("of b")
    sync(two.a)
    sync(two.b)
    assert Store(two.b).verify().problems == []


def test_what_was_used_makes_no_branch(two):
    for store in (two.a, two.b):
        session(store, two.sid).append(Usage(purpose="title", at_ms=Clock()()))
    sync(two.a)
    assert sync(two.b) == {"main": "forwarded"}
    assert len(said(two.b, two.sid)["main"]) == 3
    assert two.everywhere()
    two.clean()


def test_what_both_said_alike_is_said_once(two):
    """A store that was copied with what it had not sent yet."""
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


def test_an_imported_session_that_both_took_in_is_one(two):
    data = pi_file(*talk("a", "b", "c"))
    more = pi_file(*talk("a", "b", "c", "d", "e"))
    sid = bring(two.a, data).session
    assert bring(two.b, more).session == sid
    assert two.everywhere()
    assert set(said(two.a, sid)) == {"main"}
    assert bring(two.a, more).new == 0
    two.clean()


# ---- several remotes


def test_of_several_remotes_one_is_home_and_rules_names(tmp_path):
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


def test_without_a_home_a_remote_is_to_be_named(tmp_path):
    with on_disk(tmp_path / "a.git") as store:
        for name in ("one", "other"):
            remotes.add(store.git_dir, name, str(tmp_path / name))
        with pytest.raises(NotFound, match="no home remote is set"):
            remotes.find(store.git_dir)
        assert remotes.find(store.git_dir, "other").url == str(tmp_path / "other")


# ---- beside code


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
            assert pull(store) == {}  # nothing there is ours
        else:
            with pytest.raises(Refused, match="not a store of sessions"):
                getattr(syncing, verb)(store, remote(store))
    assert git(url, "for-each-ref") == before


@pytest.mark.parametrize(("branch", "says"), [("main", "its branch main is not"), ("trunk", "it has the branch")])
def test_a_clone_of_code_is_refused_in_the_same_words(tmp_path, branch, says):
    with pytest.raises(Refused, match=f"not a store of sessions: {says}"):
        cloning.clone(str(code(tmp_path / "code", branch)), tmp_path / "clone.git", transport.TransportOptions())
    assert not (tmp_path / "clone.git").exists()


@pytest.mark.parametrize("main", ["that goes on", "missing"])
def test_a_clone_takes_the_main_that_a_sync_takes(two, tmp_path, main):
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


def test_beside_code_sessions_have_a_place_of_their_own(tmp_path):
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


# ---- plain git in any mixture


def test_plain_push_is_refused_by_name_and_plain_fetch_moves_no_branch(two):
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


def test_plain_fetch_brings_what_others_said_to_the_tracking_refs_and_the_next_pull_joins_it(two):
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


def test_what_plain_fetch_brought_outlives_the_remote_that_deletes_it(two):
    """``push --prune`` by a third program may have removed the only other copy."""
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


def test_plain_fetch_under_a_journal_loses_nothing(two):
    say(two.a, two.sid, "from a")
    sync(two.a)
    say(two.b, two.sid, "from b")  # in the journal
    git(two.b.git_dir, "fetch", "-q")
    assert two.everywhere()
    assert sorted(said(two.a, two.sid).values()) == [["hi", "from a"], ["hi", "from b"]]


# ---- directed schedules


def test_a_line_beside_that_was_not_sent_is_never_overwritten(two):
    """D1: it steps aside, its push is killed, and the next one steps aside from the same branch."""
    say(two.a, two.sid, "a1")
    sync(two.a)
    say(two.b, two.sid, "b1")
    pull(two.b)  # steps aside, and dies before it is sent
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


def test_copies_of_a_store_give_each_line_one_name(two):
    """D2: a store that was copied with all it is, and both go on on the same branch again and again."""
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


def test_a_line_that_was_copied_while_beside_goes_on_twice(two):
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


def test_who_publishes_in_between_is_taken_in(two, monkeypatch):
    """The remote moves between our fetch and our push."""
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


def test_who_is_overtaken_again_and_again_says_so_and_loses_nothing(two, monkeypatch):
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
    syncing.sync(two.b, remote(two.b))  # what is appended meanwhile goes with the next one
    monkeypatch.undo()
    assert two.everywhere()
    every = {word for line in said(two.a, two.sid).values() for word in line}
    assert every >= {f"b{n}" for n in range(number + 1)} | {f"a{n}" for n in range(1, number + 1)}


# ---- what is fetched is judged


def bad_entry(two, ref):
    """An entry on the hub that is a commit for git, and none for us."""
    old = there(two.hub)[ref]
    tree = git(two.hub, "rev-parse", f"{old}^{{tree}}")
    data = encode_commit(
        tree=tree, parents=[old], author_name="user", author_seconds=1, committer_seconds=1, message=b"user: x\n"
    )
    new = git(two.hub, "hash-object", "-w", "-t", "commit", "--stdin", stdin=data)
    git(two.hub, "update-ref", ref, new)
    return new


def test_what_is_no_entry_reaches_no_ref_and_no_pack(two):
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


def test_what_git_finds_wrong_stops_no_other(two):
    """An object that fsck refuses: the fetch of everything fails, and the rest comes ref by ref."""
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


NAMES = ["sessions/x/main", "sessions/20260201-aaaaaaaaaaaaa/Main", "sessions/20260201-aaaaaaaaaaaaa/main.lockk"]


@pytest.mark.parametrize("name", NAMES)
def test_a_ref_of_no_name_of_ours_does_not_come_in(two, name):
    git(two.hub, "update-ref", f"refs/heads/{name}", there(two.hub)[refs.leaf(two.sid)])
    report = syncing.pull(two.b, remote(two.b))
    assert [one.ref for one in report.of("refused")] == [f"refs/heads/{name}"]
    assert f"refs/heads/{name}" not in shared(two.b)


def test_other_branches_of_the_remote_are_not_ours(two):
    git(two.hub, "update-ref", "refs/heads/notes", there(two.hub)[refs.leaf(two.sid)])
    git(two.hub, "update-ref", "refs/heads/mainline", there(two.hub)[refs.leaf(two.sid)])
    assert pull(two.b) == {}
    assert "refs/heads/notes" not in shared(two.b)


# ---- when it does not go


def test_a_remote_that_is_not_there_is_told_in_one_line(tmp_path):
    with store_with(tmp_path / "a.git", tmp_path / "nowhere.git") as store:
        begun(store, "hi")
        for verb in (syncing.pull, syncing.push, syncing.sync):
            with pytest.raises(Unavailable, match="was not found") as told_so:
                verb(store, remote(store))
            assert "\n" not in str(told_so.value)


def test_nobody_listens(tmp_path):
    with on_disk(tmp_path / "a.git") as store:
        remotes.add(store.git_dir, "origin", "http://user:secret@127.0.0.1:1/x.git")
        with pytest.raises(Unavailable, match="cannot be reached") as told_so:
            syncing.sync(store, remote(store))
        assert "secret" not in str(told_so.value)


@pytest.mark.parametrize("said, code", [(b"fatal: write error: No space left on device\n", 128), (b"", -9)])
def test_what_goes_wrong_here_is_not_looked_for_ref_by_ref(two, monkeypatch, said, code):
    """Thousands of refs, each fetched alone onto a disk that is full."""
    asked = []

    def talk(git_dir, *words, **_):
        asked.append(words)
        return process.ProcessResult(code, b"", said)

    monkeypatch.setattr(process, "talk", talk)
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
    """A server's pre-receive takes all or nothing: the others go without it."""
    sids = [begun(two.a, f"session {n}").id for n in range(5)]
    hook = two.hub / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\nif grep -q {sids[2]}/main; then echo no such luck; exit 1; fi\n")
    hook.chmod(0o755)
    report = syncing.push(two.a, remote(two.a))
    assert [one.ref for one in report.of("refused")] == [refs.leaf(sids[2])]
    assert "no such luck" in report.said
    assert len(report.of("new")) == 9


def test_what_was_about_to_go_is_noted_before_git_begins(two, monkeypatch):
    say(two.a, two.sid, "more")
    seen = []

    def killed(*arguments, **more):
        seen.extend(published.noted(two.a.git_dir))
        raise KeyboardInterrupt

    monkeypatch.setattr(transport, "push", killed)
    with pytest.raises(KeyboardInterrupt):
        sync(two.a)
    assert seen == [("origin", refs.leaf(two.sid), two.a.ref(refs.leaf(two.sid)))]
    assert list(published.noted(two.a.git_dir)) == seen
    monkeypatch.undo()
    sync(two.a)
    assert list(published.noted(two.a.git_dir)) == []


def test_two_at_once_take_turns(two):
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


def test_one_new_entry_asks_for_one_ref(two, monkeypatch):
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


def test_thousands_go_in_chunks(two, monkeypatch):
    monkeypatch.setattr(transport, "FIRST_CHUNK", 2)
    monkeypatch.setattr(transport, "CHUNK_MAX", 4)
    for n in range(6):
        begun(two.a, f"session {n}")
    report = syncing.sync(two.a, remote(two.a))
    assert len(report.pushed) == 12
    assert told(report) == {"main": "ahead", "meta": "ahead"}
    sync(two.b)
    assert shared(two.a) == shared(two.b)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_refs_of_a_session_go_together_however_small_the_chunks(tmp_path, monkeypatch, size):
    """Our server takes no branch of a fork before its `main`, which says where it began."""
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


def test_a_remote_that_takes_nothing_is_not_asked_for_each_session(two, monkeypatch):
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


def test_what_a_remote_refuses_first_keeps_nothing_else_from_going(two, monkeypatch):
    for n in range(transport.REFUSED_ENOUGH + 4):
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


def test_of_a_session_that_is_refused_all_goes_that_can(two, monkeypatch):
    """Where a server refuses a push as a whole, the ref is found that it does not want."""
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
    """What a flush names and what a sync names is one name."""
    say(two.a, two.sid, "from a")
    sync(two.a)
    first = session(two.b, two.sid).append(Message.user("from b"))
    git(two.b.git_dir, "fetch", "-q", "origin", f"{refs.leaf(two.sid)}:{refs.leaf(two.sid)}")
    two.b.flush()
    [(_, side)] = two.b.renamed_branches
    assert side == f"{refs.leaf(two.sid)}.{to_base32(first.chain, 8)}"
    assert (
        next(histories.names_beside(two.b.read, refs.leaf(two.sid), first.oid, two.b.ref(refs.leaf(two.sid)))) == side
    )
