"""Tests of store creation: it is atomic, the store is private and valid for git, and failures have clear errors."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
from pathlib import Path

import pytest
from raw import git

from gitsession.errors import Corrupt, NotAStore, Unavailable
from gitsession.store.create import MAIN, check, create
from gitsession.store.git_store import GitStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "store.git"


@pytest.fixture
def store(path: Path) -> Path:
    create(path)
    return path


def test_git_finds_a_bare_repository_with_a_main_branch(store, tmp_path):
    git(store, "fsck", "--strict", "--full")
    assert git(store, "rev-parse", "--is-bare-repository", "--show-object-format") == "true\nsha1"
    assert git(store, "symbolic-ref", "HEAD") == MAIN
    assert git(store, "ls-tree", "--name-only", "main").split() == ["README.md", "gitsession.json"]
    assert git(store, "show", "main:gitsession.json") == '{"format": 1}'
    clone = subprocess.run(["git", "clone", store, tmp_path / "clone"], check=True, capture_output=True, text=True)
    assert "warning" not in clone.stderr


def test_every_store_starts_with_the_same_commit(store, tmp_path):
    create(tmp_path / "other.git")
    assert git(store, "rev-parse", "main") == git(tmp_path / "other.git", "rev-parse", "main")
    assert git(store, "log", "-1", "--format=%an %ae %at %cn %ct") == "gitsession gitsession@gitsession 0 gitsession 0"


@pytest.mark.parametrize(
    ("key", "value"),
    {
        "core.fsync": "all",
        "core.logAllRefUpdates": "false",
        "gc.auto": "0",
        "maintenance.auto": "false",
        "transfer.unpackLimit": "1",
        "transfer.fsckObjects": "true",
        "receive.denyDeletes": "true",
        "receive.denyNonFastForwards": "true",
    }.items(),
)
def test_git_settings_of_a_new_store(store, key, value):
    assert git(store, "config", key) == value


HABITS = {
    "init.defaultBranch": "trunk",
    "init.defaultObjectFormat": "sha256",
    "init.defaultRefFormat": "reftable",
    "init.templateDir": "{template}",
    "core.bare": "false",
    "core.sharedRepository": "world",
    "core.logAllRefUpdates": "always",
    "core.hooksPath": "{template}",
    "core.autocrlf": "true",
    "core.compression": "0",
    "core.fsync": "none",
    "safe.bareRepository": "explicit",
    "transfer.fsckObjects": "false",
    "gc.auto": "1",
}
"""Settings that a user or git 3.0 may have."""


@pytest.mark.promise("P40")
def test_the_users_habits_make_no_other_store(tmp_path, monkeypatch, faults):
    (tmp_path / "template").mkdir()
    (tmp_path / "template" / "planted").touch()
    create(tmp_path / "plain.git")
    config = tmp_path / "config"
    for key, value in HABITS.items():
        value = value.format(template=tmp_path / "template")
        subprocess.run(["git", "config", "--file", config, key, value], check=True)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_DEFAULT_HASH", "sha256")
    monkeypatch.setenv("GIT_DEFAULT_REF_FORMAT", "reftable")
    create(tmp_path / "other.git")

    def told(path: Path) -> dict[str, bytes]:
        """Return the contents of every file except the journal, whose salt is random."""
        files = [each for each in path.rglob("*") if each.is_file() and each.parent.name != "journal"]
        return {str(each.relative_to(path)): each.read_bytes() for each in files}

    assert told(tmp_path / "other.git") == told(tmp_path / "plain.git")
    with GitStore.open(tmp_path / "other.git") as store, store.transaction() as transaction:
        transaction.move("refs/heads/sessions/s1/main", store.ref(MAIN), expected=None)
    assert git(tmp_path / "other.git", "rev-parse", "sessions/s1/main", "main", "--show-object-format").endswith("sha1")
    faults.many(len(HABITS) + 2)


def test_new_store_has_no_loose_objects_or_keep_files(store):
    assert [each for each in (store / "objects").rglob("*") if each.is_file() and each.parent.name != "pack"] == []
    assert sorted(each.suffix for each in (store / "objects/pack").iterdir()) == [".idx", ".pack"]


@pytest.mark.promise("P35")
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
def test_new_store_is_private_under_any_umask(path, umask):
    path.parent.mkdir()
    before = os.umask(umask)
    try:
        create(path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o7777 == 0o700


def test_creating_again_changes_nothing(store):
    with GitStore.open(store) as opened, opened.transaction() as transaction:
        oid = transaction.put("blob", b"kept")
        transaction.move("refs/heads/sessions/s1/main", opened.ref(MAIN), expected=None)
    create(store)
    with GitStore.open(store) as opened:
        assert opened.read(oid) == ("blob", b"kept")


def test_an_empty_directory_becomes_a_store(path):
    path.mkdir(parents=True, mode=0o755)
    create(path)
    check(path)
    assert path.stat().st_mode & 0o777 == 0o700


def a_file(path: Path) -> None:
    path.write_text("hello")


def a_full_directory(path: Path) -> None:
    path.mkdir()
    (path / "file").write_text("hello")


def a_dangling_link(path: Path) -> None:
    path.symlink_to("/nonexistent")


@pytest.mark.parametrize("make", [a_file, a_full_directory, a_dangling_link])
def test_existing_path_is_not_changed(tmp_path, make):
    make(tmp_path / "there")
    with pytest.raises(NotAStore, match="there"):
        create(tmp_path / "there")
    assert [each.name for each in tmp_path.iterdir()] == ["there"]


@pytest.mark.promise("P14")
def test_concurrent_creators_find_one_store(path):
    context = multiprocessing.get_context("fork")
    creators = [context.Process(target=create, args=(path,)) for _ in range(8)]
    for creator in creators:
        creator.start()
    for creator in creators:
        creator.join()
    assert [creator.exitcode for creator in creators] == [0] * 8
    check(path)
    assert list(path.parent.iterdir()) == [path]


def test_failing_disk_is_unavailable_and_leaves_nothing(path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda fd: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(Unavailable, match="No space left"):
        create(path)
    assert not path.exists()


def change(store: Path, key: str, value: str) -> None:
    with open(store / "config", "a") as file:
        section, name = key.split(".")
        file.write(f"[{section}]\n\t{name} = {value}\n")


def commit_marker(store: Path, text: str) -> None:
    blob = git(store, "hash-object", "-w", "--stdin", stdin=text)
    tree = git(store, "mktree", stdin=f"100644 blob {blob}\tgitsession.json\n")
    commit = git(store, "-c", "user.name=a", "-c", "user.email=b", "commit-tree", "-m", "x", tree)
    git(store, "update-ref", MAIN, commit)


def v1(store: Path, key: str, value: str) -> None:
    change(store, "core.repositoryformatversion", "1")
    change(store, f"extensions.{key}", value)


REFUSED = {
    "SHA-256": (lambda store: v1(store, "objectFormat", "sha256"), "SHA-256"),
    "a reftable": (lambda store: v1(store, "refStorage", "reftable"), "reftable"),
    "a reftable by its HEAD": (lambda store: (store / "HEAD").write_text("ref: refs/heads/.invalid\n"), "reftable"),
    "an unknown extension": (lambda store: v1(store, "telepathy", "true"), "telepathy"),
    "a git format of a later version": (lambda store: change(store, "core.repositoryformatversion", "2"), "version 2"),
    "a store of a later format": (lambda store: commit_marker(store, '{"format": 2}'), "its format is 2"),
    "a marker that is no JSON": (lambda store: commit_marker(store, "{"), "not a store"),
    "a marker of another form": (lambda store: commit_marker(store, '["format"]'), "not a store"),
    "an unknown extension beside one we know": (
        lambda store: [v1(store, "objectFormat", "sha1"), v1(store, "compatObjectFormat", "sha256")],
        "compatobjectformat",
    ),
    "no main branch": (lambda store: (store / MAIN).unlink(), "not a store"),
    "no objects": (lambda store: (store / "objects").rename(store / "gone"), "objects or refs is missing"),
    "no config": (
        lambda store: [(store / "config").unlink(), (store / "gitsession").rename(store / "gone")],
        "not a git repository",
    ),
}


@pytest.mark.promise("P39")
@pytest.mark.parametrize(("spoil", "says"), REFUSED.values(), ids=REFUSED)
def test_unsupported_store_is_rejected_with_one_line(store, spoil, says, faults):
    spoil(store)
    with faults.one(), pytest.raises(NotAStore, match=says) as caught:
        GitStore.open(store)
    assert "\n" not in str(caught.value)


def test_store_without_its_objects_is_damaged(store):
    (store / MAIN).write_text("a" * 40)
    with pytest.raises(Corrupt, match="a" * 40):
        GitStore.open(store)


@pytest.mark.parametrize("extension", [("objectFormat", "sha1"), ("refStorage", "files"), ("worktreeConfig", "true")])
def test_harmless_extensions_are_accepted(store, extension):
    v1(store, *extension)
    GitStore.open(store).close()


@pytest.mark.parametrize("arguments", [["--bare"], []], ids=["bare", "with a work tree"])
def test_other_git_repository_is_rejected(tmp_path, arguments):
    subprocess.run(["git", "init", "-q", *arguments, tmp_path / "repo"], check=True)
    with pytest.raises(NotAStore):
        check(tmp_path / "repo")


def test_missing_path_is_rejected(tmp_path):
    with pytest.raises(NotAStore, match="not a git repository"):
        GitStore.open(tmp_path / "nothing")


def test_store_of_another_user_is_rejected(store):
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    os.chown(store, 12345, -1)
    with pytest.raises(NotAStore, match="another user"):
        check(store)


def test_a_bare_clone_made_by_git_is_a_store(store, tmp_path):
    subprocess.run(["git", "clone", "-q", "--bare", store, tmp_path / "clone.git"], check=True)
    with GitStore.open(tmp_path / "clone.git") as clone:
        assert clone.pending == 0
        with clone.transaction() as transaction:
            transaction.move("refs/heads/sessions/s1/main", clone.ref(MAIN), expected=None)
    git(tmp_path / "clone.git", "rev-parse", "sessions/s1/main")
