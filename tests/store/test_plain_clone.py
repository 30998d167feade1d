"""Tests of stores that plain `git clone --bare` and `git clone --mirror` made."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from commands import Run
from raw import git
from remotes import hub

from gitsession import Message, Store
from gitsession.errors import NotAStore
from gitsession.git import config
from gitsession.store import create
from gitsession.store.git_store import GitStore

KINDS = ["--bare", "--mirror"]
STORE_REFSPECS = [
    f"refs/heads/{name}:refs/heads/{name}" for name in ("gitsession/*", "sessions/*", "main")
]  # as `gitsession remote add` writes them
NOTE = "is a clone that git made; its settings and refspecs are now complete"


@pytest.fixture
def first(here: Path) -> Path:
    """Create a store with a session and a checkpoint of a file, and return its path."""
    path = here / "first.git"
    (here / "code").mkdir()
    (here / "code/file.txt").write_text("one\n")
    with Store.create(path) as store:
        session = store.new_session(agent="me", cwd=str(here / "code"))
        session.append(Message.user("begun in the first store"))
        session.files.checkpoint(here / "code")
        session.label("leaf", "mark")
    return path


def cloned(store: Path, kind: str, *options: str) -> Path:
    path = store.with_name("clone.git")
    subprocess.run(["git", "clone", "-q", kind, *options, store, path], check=True)
    return path


def values(path: Path, key: str) -> list[str]:
    listed = (line.partition("=") for line in git(path, "config", "--list", "--local").splitlines())
    return [value for name, _, value in listed if name == key.lower()]


def append(path: Path, text: str) -> None:
    with Store.open(path) as store:
        store.session(store.sessions()[0].sid).append(Message.user(text))


def texts(path: Path) -> list[str]:
    [ref] = git(path, "for-each-ref", "--format=%(refname)", "refs/heads/sessions/*/main").split()
    return git(path, "log", "--format=%s", ref).splitlines()


@pytest.mark.parametrize("kind", KINDS)
def test_first_opening_completes_the_configuration_and_prints_so_once(first: Path, run: Run, kind: str) -> None:
    path = cloned(first, kind)
    assert NOTE in run("--store", str(path), "ls", err=True)
    assert NOTE not in run("--store", str(path), "ls", err=True)
    assert NOTE not in run("--store", str(path), "doctor", err=True)
    assert config.missing_settings(path) == {}
    assert values(path, "remote.origin.fetch") == ["+refs/heads/*:refs/remotes/origin/*"]
    assert values(path, "remote.origin.push") == STORE_REFSPECS
    assert values(path, "remote.origin.mirror") == []
    assert values(path, "core.bare") == ["true"]
    assert path.stat().st_mode & 0o777 == 0o700
    assert (path / create.ATTRIBUTES).read_bytes() == create.ATTRIBUTES_TEXT


@pytest.mark.parametrize("kind", KINDS)
def test_a_clone_has_the_refspecs_of_gitsession_clone(first: Path, run: Run, kind: str) -> None:
    path = cloned(first, kind)
    Store.open(path).close()
    run("clone", str(first), "ours.git")
    for key in ("fetch", "push"):
        key = f"remote.origin.{key}"
        assert sorted(values(path, key)) == sorted(values(first.with_name("ours.git"), key))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("has_hub", [False, True])
def test_a_clone_syncs_both_ways_and_is_clean(first: Path, run: Run, here: Path, kind: str, has_hub: bool) -> None:
    if has_hub:  # then a mirror also has the remote-tracking refs of the first store
        run("--store", str(first), "remote", "add", "origin", str(hub(here / "hub.git")))
        run("--store", str(first), "sync", "--yes")
    path = cloned(first, kind)
    append(path, "added in the clone")
    run("--store", str(path), "sync", "--yes")
    assert texts(first)[:2] == texts(path)[:2] == ["user: added in the clone", "user: begun in the first store"]
    append(first, "added in the first store")
    run("--store", str(path), "sync", "--yes")
    assert texts(first)[0] == texts(path)[0] == "user: added in the first store"
    append(first, "fetched by git")
    append(path, "kept by git")
    git(path, "fetch", "-q", "--prune")
    assert texts(path)[0] == "user: kept by git", "a plain fetch overwrote an entry"
    for store in (path, first):
        assert "!!" not in run("--store", str(store), "doctor")
        run("--store", str(store), "verify")


def test_plain_push_of_a_former_mirror_deletes_no_branch_of_the_remote(first: Path) -> None:
    path = cloned(first, "--mirror")
    append(path, "added in the clone")
    with Store.open(first) as store:
        store.new_session(agent="me", cwd="/other").append(Message.user("only in the first store"))
    before = set(git(first, "for-each-ref", "--format=%(refname)").split())
    git(path, "push", "-q")
    assert before <= set(git(first, "for-each-ref", "--format=%(refname)").split())


def test_settings_of_the_user_are_kept(first: Path) -> None:
    path = cloned(first, "--bare", "-o", "upstream", "-c", "gc.auto=7", "-c", "core.sharedRepository=group")
    git(path, "config", "remote.upstream.push", "refs/heads/sessions/mine/*:refs/heads/sessions/mine/*")
    git(path, "config", "remote.upstream.pushurl", str(first))
    before, mode = git(path, "config", "--list", "--local").splitlines(), path.stat().st_mode
    Store.open(path).close()
    after = git(path, "config", "--list", "--local").splitlines()
    assert set(before) < set(after)
    assert values(path, "gc.auto") == ["7"]
    assert values(path, "remote.upstream.fetch") == ["+refs/heads/*:refs/remotes/upstream/*"]
    assert len(values(path, "remote.upstream.push")) == 1
    assert path.stat().st_mode == mode, "a clone for a group stays readable for the group"


def test_hub_without_a_remote_is_not_changed(first: Path, here: Path) -> None:
    path = hub(here / "hub.git")
    git(first, "push", "-q", str(path), "refs/heads/*:refs/heads/*")
    before, mode = (path / config.FILE).read_bytes(), path.stat().st_mode
    Store.open(path).close()
    assert ((path / config.FILE).read_bytes(), path.stat().st_mode) == (before, mode)


@pytest.mark.parametrize("kind", KINDS)
def test_clone_of_a_code_repository_is_refused_by_name_and_not_changed(here: Path, run: Run, kind: str) -> None:
    code = here / "code"
    subprocess.run(["git", "init", "-q", "-b", "main", code], check=True)
    identity = ["-c", "user.name=A", "-c", "user.email=a@b"]
    subprocess.run(["git", "-C", code, *identity, "commit", "-q", "--allow-empty", "-m", "Start"], check=True)
    path = cloned(code, kind)
    before = {file: (file.stat().st_mode, file.is_file() and file.read_bytes()) for file in [path, *path.rglob("*")]}
    with pytest.raises(NotAStore, match=r"clone\.git' is a git repository, but not a store"):
        Store.open(path)
    assert "but not a store" in run("--store", str(path), "ls", code=3, err=True)
    assert before == {
        file: (file.stat().st_mode, file.is_file() and file.read_bytes()) for file in [path, *path.rglob("*")]
    }


@pytest.mark.parametrize("kind", KINDS)
def test_clone_that_may_not_be_written_is_read_as_before(first: Path, kind: str) -> None:
    path = cloned(first, kind)
    before = (path / config.FILE).read_bytes()
    with GitStore.open(path, read_only=True) as store:
        assert store.refs("refs/heads/sessions/")
        assert not store.is_new_clone
    (path / "config.lock").touch()  # `git config` is running
    with GitStore.open(path) as store:
        assert not store.is_new_clone
    assert (path / config.FILE).read_bytes() == before


@pytest.mark.parametrize("name", [config.FILE, config.HEAD])
def test_clone_whose_configuration_is_a_pipe_is_refused(first: Path, name: str) -> None:
    path = cloned(first, "--bare")
    (path / name).unlink()
    os.mkfifo(path / name)
    with pytest.raises(NotAStore, match="not a regular file"):
        Store.open(path)


@pytest.mark.parametrize(
    ("option", "hint"), [("--filter=blob:none", "it is a partial clone"), ("--shared", "run `git repack -a -d`")]
)
def test_clone_without_its_objects_is_refused_with_a_hint(first: Path, option: str, hint: str) -> None:
    git(first, "config", "uploadpack.allowFilter", "true")
    path = cloned(first, "--bare", *(["--no-local", option] if "filter" in option else [option]))
    with pytest.raises(NotAStore, match="missing object") as error:
        Store.open(path)
    assert hint in error.value.hint
    assert not (path / create.CONTROL).exists()


def test_linked_configuration_is_not_changed(first: Path, here: Path) -> None:
    path = cloned(first, "--bare")
    elsewhere = here / "elsewhere"
    (path / config.FILE).rename(elsewhere)
    (path / config.FILE).symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    Store.open(path).close()
    assert elsewhere.read_bytes() == before


def test_name_of_a_remote_cannot_add_settings(tmp_path: Path) -> None:
    text = '[remote "a\\"]\\n[core]\\tpager=x\\\\"]\n\turl = /x\n'
    (tmp_path / config.FILE).write_text(text)
    assert config.complete_clone(tmp_path, lambda name: {"push": [name]})
    found = config.settings_of(tmp_path)
    assert "core.pager" not in found
    [pushed] = [key for key in found if key.endswith(".push")]
    assert pushed.removesuffix("push") + "url" in found
