"""Tests of workspace roots: which folders are accepted, and that no link is followed."""

import os
import socket
from pathlib import Path

import pytest
from restoring import Blobs, opened

from gitsession.errors import Malformed, NotFound, Refused, Unavailable
from gitsession.workspace import inspect
from gitsession.workspace.inspect import SpecialFile
from gitsession.workspace.root import WorkspaceRoot


@pytest.fixture
def place(tmp_path):
    """Create a home directory with a project and a store."""
    home = tmp_path / "home"
    for path in ("project/src", "store.git/objects", "store.git/refs"):
        (home / path).mkdir(parents=True)
    (home / "store.git/HEAD").write_text("ref: refs/heads/main\n")
    return home


def root_of(path, place):
    return WorkspaceRoot.open(path, home=place, store=place / "store.git")


def test_project_its_folders_and_links_to_it_are_workspaces(place):
    (place / "link").symlink_to("project")
    for path in ("project", "project/src", "link"):
        with root_of(place / path, place) as root:
            assert root.path == (place / path).resolve()


def refused_places(place):
    (place / "above").symlink_to("..")
    (place / "project/.git/hooks").mkdir(parents=True)
    return {
        "/": "root of the file system",
        place: "home folder",
        place / "project/..": "home folder",
        place.parent: "contains the home folder",
        place / "above": "contains the home folder",
        place / "store.git": "in the store",
        place / "store.git/refs": "in the store",
        place / "project/.git": "git directory",
        place / "project/.git/hooks": "git directory",
    }


@pytest.mark.promise("P26")
def test_invalid_workspace_is_rejected_with_the_reason(place, faults):
    for path, words in refused_places(place).items():
        with faults.one(), pytest.raises(Refused, match=words):
            root_of(path, place)
    bare = place / "other.git"
    os.rename(place / "store.git", bare)
    with faults.one(), pytest.raises(Refused, match="git directory"):
        root_of(bare, place)


def test_missing_folder_is_not_found(place):
    (place / "file").write_text("")
    for path in ("file", "nowhere", "file/x"):
        with pytest.raises(NotFound, match="cannot open the workspace"):
            root_of(place / path, place)


def test_a_checkout_in_a_bare_repository_is_a_workspace(place):
    (place / "store.git/checkout").mkdir()
    WorkspaceRoot.open(place / "store.git/checkout", home=place, store=None).close()


def test_a_store_in_the_workspace_is_named_and_never_entered(place):
    os.rename(place / "store.git", place / "project/my:store")
    with WorkspaceRoot.open(place / "project", home=place, store=place / "project/my:store") as root:
        assert root.store == "%my%3Astore"
        with pytest.raises(Refused, match="the store"):
            root.state("%my%3Astore/HEAD")
    with root_of(place / "project", place) as root:
        assert root.store is None


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "w"
    (folder / "d").mkdir(parents=True)
    (folder / "d/f").write_text("hi")
    (folder / "x").write_text("run")
    (folder / "x").chmod(0o755)
    (folder / "l").symlink_to("d/f")
    (folder / "out").symlink_to(tmp_path)
    (tmp_path / "secret").write_text("secret")
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(folder)
        try:
            server.bind("socket")
        finally:
            os.chdir(here)
    (folder / "a:b\n").write_text("odd")
    (folder / os.fsdecode(b"\xff")).write_text("bytes")
    return folder


def test_path_is_read_as_a_file_a_link_or_a_special_file(folder):
    blobs = Blobs()
    with opened(folder) as root:
        assert root.now("d/f") == blobs.file("hi")
        assert root.now("x") == blobs.program("run")
        assert root.now("l") == blobs.link("d/f")
        assert root.now("%a%3Ab%0A") == blobs.file("odd")
        assert root.now("%%FF") == blobs.file("bytes")
        assert root.now("d") == SpecialFile("folder")
        assert root.now("pipe") == root.now("socket") == SpecialFile("special")
        assert [root.read(path) for path in ("d/f", "l")] == [b"hi", b"d/f"]


def test_missing_path_and_path_behind_a_link_are_not_found(folder):
    with opened(folder) as root:
        for path in ("n", "n/o", "d/f/x", "out/secret", "l/x", "pipe/x", "x" * 255):
            assert root.state(path) is None
            assert root.now(path) is None
            with pytest.raises(NotFound):
                root.read(path)


def test_a_folder_and_a_pipe_are_not_read(folder):
    with opened(folder) as root:
        for path in ("d", "pipe", "socket"):
            with pytest.raises(Refused):
                root.read(path)


@pytest.mark.promise("P28")
@pytest.mark.parametrize("path", ["", "/etc", "d//f", "../secret", "d/..", ".git/x", "a:b", "%41", "/".join("d" * 65)])
def test_a_path_that_no_checkpoint_has_is_malformed(folder, path, faults):
    with opened(folder) as root:
        for ask in (root.state, root.read, root.now):
            with faults.one(), pytest.raises(Malformed):
                ask(path)


def test_status_is_equal_until_the_file_is_written(folder):
    with opened(folder) as root:
        before = root.state("d/f")
        assert root.state("d/f") == before and before.kind == "file" and before.size == 2
        (folder / "d/f").write_text("ho")
        assert root.state("d/f") != before


def test_continuously_written_file_is_reported(folder, monkeypatch):
    real = os.read

    def writing(fd, size):
        with (folder / "d/f").open("a") as file:
            file.write("more")
        return real(fd, size)

    monkeypatch.setattr(os, "read", writing)
    with opened(folder) as root, pytest.raises(Unavailable, match="writing"):
        root.read("d/f")


def test_file_written_once_during_the_read_is_read_again(folder, monkeypatch):
    real, left = os.read, ["new content"]

    def writing(fd, size):
        if left:
            (folder / "d/f").write_text(left.pop())
        return real(fd, size)

    monkeypatch.setattr(os, "read", writing)
    with opened(folder) as root:
        assert root.now("d/f") == Blobs().file("new content")


SWAPS = {
    "a link to a secret": lambda path: path.symlink_to("../secret"),
    "a pipe": os.mkfifo,
    "a folder": lambda path: path.mkdir(),
    "nothing": lambda path: None,
}


@pytest.mark.promise("P27")
@pytest.mark.parametrize("plant", SWAPS.values(), ids=SWAPS)
def test_file_replaced_after_the_check_is_not_read(folder, monkeypatch, plant, faults):
    real = inspect._read_chunks

    def swapped(fd, name, found, take):
        (folder / "x").unlink()
        plant(folder / "x")
        monkeypatch.setattr(inspect, "_read_chunks", real)
        real(fd, name, found, take)

    monkeypatch.setattr(inspect, "_read_chunks", swapped)
    taken = b""
    with faults.one(), opened(folder) as root:
        try:
            taken = root.read("x")
        except (NotFound, Refused):
            pass
        assert taken in (b"", b"../secret")


def test_handles_are_limited_and_all_closed(tmp_path):
    if not Path("/proc/self/fd").exists():
        pytest.skip("cannot count handles")
    for at in range(200):
        (tmp_path / f"{at}/a/b").mkdir(parents=True)
        (tmp_path / f"{at}/a/b/f").write_text("x")
    before = len(os.listdir("/proc/self/fd"))
    with opened(tmp_path) as root:
        for at in range(200):
            assert root.read(f"{at}/a/b/f") == b"x"
        assert len(os.listdir("/proc/self/fd")) - before < 100
    assert len(os.listdir("/proc/self/fd")) == before


def test_forgotten_folder_is_opened_again(folder):
    with opened(folder) as root:
        assert root.now("d/f")
        os.rename(folder / "d", folder / "old")
        (folder / "d").mkdir()
        root.forget()
        assert root.now("d/f") is None


def test_permission_error_is_raised(folder):
    if not os.geteuid():
        pytest.skip("root sees everything")
    (folder / "x").chmod(0)
    with opened(folder) as root, pytest.raises(PermissionError):
        root.read("x")
