"""Tests of captured files: contents in chunks, trees built from trees, and named paths without git."""

import os
import subprocess
import sys

import pytest
from workspaces import fill, fingerprint, git, opened, repository, walked, write

from gitsession.errors import MissingObject
from gitsession.store.create import create
from gitsession.store.git_store import GitStore
from gitsession.store.memory import MemoryStore
from gitsession.workspace import capture, snapshot, trees
from gitsession.workspace.read_file import Caps
from gitsession.workspace.root import WorkspaceRoot


@pytest.fixture
def work(tmp_path):
    at = tmp_path / "work"
    at.mkdir()
    return at


@pytest.fixture
def store(tmp_path):
    create(tmp_path / "store.git")
    with GitStore.open(tmp_path / "store.git") as opened_store:
        yield opened_store


def captured(store, at, plain, **asked):
    with opened(at) as root:
        return capture.capture(store, root, plain, **asked)


def test_tree_is_complete_and_a_change_writes_only_the_change(store, work, tmp_path):
    fill(work, a="1", b__c="2", d__e="3")
    os.symlink("b", work / "link")
    first = captured(store, work, tmp_path / "plain")
    assert dict(trees.walk(store, first.tree)) == walked(work)
    write(work / "b/c", "4")
    second = captured(store, work, tmp_path / "plain")
    assert dict(second.changes) == {"b/c": walked(work)["b/c"]}
    assert trees.CachedTrees(store).diff(first.tree, second.tree).keys() == {"b/c"}


def test_an_unchanged_workspace_is_the_same_tree_and_writes_nothing(store, work, tmp_path, monkeypatch):
    fill(work, a="1")
    os.symlink("a", work / "link")
    first = captured(store, work, tmp_path / "plain")
    monkeypatch.setattr(GitStore, "transaction", None)
    again = captured(store, work, tmp_path / "plain")
    assert (again.tree, again.changes) == (first.tree, {})


def test_an_empty_workspace_is_no_tree(store, work, tmp_path):
    assert captured(store, work, tmp_path / "plain").tree is None
    fill(work, a="1")
    assert captured(store, work, tmp_path / "plain").tree
    os.unlink(work / "a")
    assert captured(store, work, tmp_path / "plain").tree is None
    assert captured(store, work, tmp_path / "plain").changes == {}


def test_contents_are_stored_in_chunks(store, work, tmp_path, monkeypatch):
    monkeypatch.setattr(capture, "BATCH_BYTES", 1000)
    sizes = []
    real = GitStore.transaction

    def counted(self):
        sizes.append(0)
        return real(self)

    monkeypatch.setattr(GitStore, "transaction", counted)
    for number in range(50):
        write(work / f"f{number}", bytes([number]) * 100)
    taken = captured(store, work, tmp_path / "plain")
    assert len(sizes) == 5 + 1
    assert dict(trees.walk(store, taken.tree)) == walked(work)


def test_a_large_first_look_is_whole_for_git_too(store, work, tmp_path):
    for number in range(40):
        write(work / f"d{number % 3}/f{number}", os.urandom(60_000))
    tree = captured(store, work, tmp_path / "plain").tree
    store.flush()
    told = git(store.git_dir, "ls-tree", "-r", "--name-only", tree).decode().split()
    assert told == sorted(walked(work))
    assert not list(store.git_dir.glob("objects/??/*"))


def test_store_without_the_last_tree_gets_the_whole_tree(work, tmp_path):
    fill(work, a="1", b="2")
    captured(MemoryStore(), work, tmp_path / "plain")
    store = MemoryStore()
    taken = captured(store, work, tmp_path / "plain")
    assert dict(trees.walk(store, taken.tree)) == walked(work)


def test_store_without_a_folder_of_the_last_tree_gets_the_whole_tree(work, tmp_path):
    fill(work, a__b="1", c__d="2")
    store = MemoryStore()
    first = captured(store, work, tmp_path / "plain")
    ((_, _, oid), _) = trees.parse_tree(store.read(first.tree)[1])
    del store._objects[oid]
    write(work / "a/b", "3")
    taken = captured(store, work, tmp_path / "plain")
    assert dict(trees.walk(store, taken.tree)) == walked(work)


def test_change_that_was_not_stored_is_found_again(work, tmp_path):
    class Full(MemoryStore):
        def transaction(self):
            raise OSError("full")

    fill(work, a="1")
    with pytest.raises(OSError, match="full"):
        captured(Full(), work, tmp_path / "plain")
    assert captured(MemoryStore(), work, tmp_path / "plain").changes.keys() == {"a"}


def test_contents_that_were_dropped_before_a_tree_held_them_are_missed(work, tmp_path):
    fill(work, a="1")
    store = MemoryStore()
    with opened(work) as root, snapshot.take_snapshot(root, tmp_path / "plain") as look:
        states = capture.put(store, look.changes())
        store._objects.clear()
        with store.transaction() as to, pytest.raises(MissingObject):
            capture.tree_with(store, to, None, states)


def test_capturing_leaves_the_users_repository_as_it_was(store, work, tmp_path):
    repository(work)
    fill(work, a="1", b__c="2")
    git(work, "add", "a")
    git(work, "commit", "-qm", "one")
    before = fingerprint(work)
    captured(store, work, tmp_path / "plain")
    write(work / "b/c", "3")
    captured(store, work, tmp_path / "plain")
    write(work / "b/c", "2")
    assert fingerprint(work) == before


# ---- named paths


def named(at, *paths, **asked):
    with opened(at) as root:
        inside, outside = capture.resolve(root, paths)
        changes, skipped = capture.capture_paths(root, inside, **asked)
        return changes, outside + skipped


def test_named_paths_are_captured_even_if_ignored_without_git(work, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    fill(work, _dot_gitignore="*\n", a="1", b__c="2")
    changes, skipped = named(work, "a", str(work / "b/c"), "gone", "b/../a")
    assert [(change.path, change.data if change.file else None) for change in changes] == [
        ("a", b"1"),
        ("b/c", b"2"),
        ("gone", None),
    ]
    assert skipped == []


def test_named_paths_that_cannot_be_captured_are_reported_with_the_reason(work, tmp_path):
    fill(work, big="12345", folder__x="1", _dot_git__config="2")
    write(tmp_path / "outside", "3")
    os.symlink(tmp_path, work / "out")
    os.mkfifo(work / "pipe")
    changes, skipped = named(
        work, "big", "folder", "pipe", "../outside", "out/outside", ".git/config", ".", caps=Caps(file_bytes=4)
    )
    assert changes == []
    assert sorted(reason for _, reason in skipped) == sorted(
        [
            "larger than 4 bytes",
            "a folder",
            "a pipe, a socket or a device",
            *["outside of the workspace"] * 3,
            "git's own folder, or a name that some system takes for it",
        ]
    )


def test_a_named_link_is_a_link(work):
    os.symlink("/etc/passwd", work / "link")
    (change,), _ = named(work, "link")
    assert (change.file.mode, change.data) == ("120000", b"/etc/passwd")


def test_path_through_a_link_in_the_workspace_is_its_target(work):
    fill(work, real__a="1")
    os.symlink("real", work / "way")
    assert [change.path for change in named(work, "way/a")[0]] == ["real/a"]


def test_named_file_is_scanned_for_secrets_only_if_it_differs_from_the_last_checkpoint(work):
    fill(work, same="1", changed="2", new="3")
    recorded = {change.path: change.file for change in named(work, "same", "changed")[0]}
    write(work / "changed", "4")
    scanned = []
    changes, _ = named(work, "same", "changed", "new", caps=Caps(secret=scanned.append), recorded=recorded)
    assert scanned == [b"4", b"new", b"3"]
    assert [(change.path, change.data) for change in changes] == [("changed", b"4"), ("new", b"3"), ("same", b"1")]


def test_a_named_path_in_the_store_is_left_out(work):
    write(work / "store/HEAD", "x")
    with WorkspaceRoot.open(work, home=None, store=work / "store") as root:
        changes, skipped = capture.capture_paths(root, [b"store/HEAD", b"store"])
    assert changes == [] and len(skipped) == 2


def test_a_rewind_does_not_import_the_scan_of_a_workspace():
    look = "import sys, gitsession.checkpoints.rewinding; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout.split()
    assert "gitsession.workspace.restore" in loaded
    assert not {f"gitsession.workspace.{name}" for name in ("snapshot", "changed_paths", "patches")} & {*loaded}
