"""Tests of restored files: each is old or new, later changes by others are kept, and no data is lost."""

import errno
import os
import resource
import stat
import threading
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from restoring import Blobs, carried_out, opened, picture

from gitsession.errors import Unavailable
from gitsession.workspace import path_rules, place_file
from gitsession.workspace.inspect import SpecialFile
from gitsession.workspace.path_rules import NameFolding, PlannedChange
from gitsession.workspace.restore import sweep
from gitsession.workspace.trees import TreeEntry


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def blobs():
    return Blobs()


def only(outcomes):
    (outcome,) = outcomes
    return outcome.result, outcome.reason


def temporaries(folder):
    return [path for path in folder.rglob("*") if path.name.startswith(".gitsession-")]


def test_a_file_is_made_with_the_folders_on_the_way(workspace, blobs):
    assert only(carried_out(workspace, blobs, PlannedChange("a/b/c", None, blobs.file("hi")))) == ("done", "")
    assert (workspace / "a/b/c").read_text() == "hi"
    assert temporaries(workspace) == []


def test_replaced_file_keeps_its_extended_attributes(workspace, blobs):
    old = workspace / "a"
    old.write_text("old")
    try:
        os.setxattr(old, "user.origin", b"https://host.example")
    except OSError:
        pytest.skip("this file system has no extended attributes of the user's")
    assert only(carried_out(workspace, blobs, PlannedChange("a", blobs.file("old"), blobs.file("new")))) == ("done", "")
    assert old.read_text() == "new"
    assert os.getxattr(old, "user.origin") == b"https://host.example"


def test_a_file_is_replaced_by_another_inode_and_keeps_its_permissions(workspace, blobs):
    old = workspace / "a"
    old.write_text("old")
    old.chmod(0o640)
    before = old.stat().st_ino
    with old.open() as reader:
        carried_out(workspace, blobs, PlannedChange("a", blobs.file("old"), blobs.file("new")))
        assert reader.read() == "old"
    assert old.read_text() == "new"
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    assert old.stat().st_ino != before


@pytest.mark.parametrize(
    "before, executable, after", [(0o644, True, 0o755), (0o600, True, 0o700), (0o755, False, 0o644)]
)
def test_a_mode_changes_as_git_changes_it(workspace, blobs, before, executable, after):
    (workspace / "a").write_text("x")
    (workspace / "a").chmod(before)
    new = blobs.program("x") if executable else blobs.file("x")
    was = blobs.file("x") if executable else blobs.program("x")
    assert only(carried_out(workspace, blobs, PlannedChange("a", was, new))) == ("done", "")
    assert stat.S_IMODE((workspace / "a").stat().st_mode) == after


def test_setuid_bit_is_not_kept(workspace, blobs):
    (workspace / "a").write_text("x")
    (workspace / "a").chmod(0o4755)
    carried_out(workspace, blobs, PlannedChange("a", blobs.program("x"), blobs.program("y")))
    assert stat.S_IMODE((workspace / "a").stat().st_mode) == 0o755


def test_new_file_gets_the_mode_of_the_umask(workspace, blobs):
    old = os.umask(0o027)
    try:
        carried_out(
            workspace, blobs, PlannedChange("a", None, blobs.file("")), PlannedChange("b", None, blobs.program(""))
        )
    finally:
        os.umask(old)
    assert [stat.S_IMODE((workspace / name).stat().st_mode) for name in "ab"] == [0o640, 0o750]


def test_a_secret_file_is_never_readable_by_others_while_it_is_replaced(workspace, blobs, monkeypatch):
    (workspace / "key").write_text("old")
    (workspace / "key").chmod(0o600)
    seen = []
    real = os.rename
    monkeypatch.setattr(os, "fsync", lambda fd: seen.append(stat.S_IMODE(os.fstat(fd).st_mode)))
    monkeypatch.setattr(os, "rename", lambda *names, **at: (seen.append("renamed"), real(*names, **at)))
    carried_out(workspace, blobs, PlannedChange("key", blobs.file("old"), blobs.file("new")))
    assert seen[:2] == [0o600, "renamed"]


def test_a_file_becomes_a_link_and_a_link_a_file(workspace, blobs):
    (workspace / "a").write_text("x")
    (workspace / "l").symlink_to("a")
    changes = [
        PlannedChange("a", blobs.file("x"), blobs.link("l2")),
        PlannedChange("l", blobs.link("a"), blobs.file("y")),
    ]
    assert [outcome.result for outcome in carried_out(workspace, blobs, *changes)] == ["done", "done"]
    assert os.readlink(workspace / "a") == "l2"
    assert (workspace / "l").read_text() == "y" and not (workspace / "l").is_symlink()


def test_deletion_removes_only_empty_folders_of_the_session(workspace, blobs):
    for path in ("mine/a/b/f", "theirs/a/f", "mine/kept"):
        (workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace / path).write_text("x")
    changes = [PlannedChange(path, blobs.file("x"), None) for path in ("mine/a/b/f", "theirs/a/f")]
    carried_out(workspace, blobs, *changes, made=("mine", "mine/a", "mine/a/b"))
    assert {name.decode() for name in picture(workspace)} == {".", "mine", "mine/kept", "theirs", "theirs/a"}


def test_file_replaced_by_folders_is_restored(workspace, blobs):
    (workspace / "a/b").mkdir(parents=True)
    (workspace / "a/b/f").write_text("x")
    changes = [PlannedChange("a", None, blobs.file("file")), PlannedChange("a/b/f", blobs.file("x"), None)]
    assert {outcome.result for outcome in carried_out(workspace, blobs, *changes)} == {"done"}
    assert (workspace / "a").read_text() == "file"


def test_folder_replaced_by_a_file_is_restored(workspace, blobs):
    (workspace / "a").write_text("file")
    changes = [PlannedChange("a", blobs.file("file"), None), PlannedChange("a/b/f", None, blobs.file("x"))]
    assert {outcome.result for outcome in carried_out(workspace, blobs, *changes)} == {"done"}
    assert (workspace / "a/b/f").read_text() == "x"


def test_folder_with_an_unexpected_file_is_kept(workspace, blobs):
    (workspace / "a").mkdir()
    (workspace / "a/f").write_text("session's")
    (workspace / "a/mine").write_text("user's")
    changes = [PlannedChange("a", None, blobs.file("file")), PlannedChange("a/f", blobs.file("session's"), None)]
    outcomes = carried_out(workspace, blobs, *changes, made=("a",))
    assert outcomes[0] == ("a", "kept", "a folder that is not empty is in its place")
    assert (workspace / "a/mine").read_text() == "user's"


KEPT = {
    "changed": ("b", "a", "it was changed meanwhile"),
    "made meanwhile": ("b", None, "it was created meanwhile"),
    "removed": (None, "a", "it was removed meanwhile"),
}


@pytest.mark.parametrize("there, expected, reason", KEPT.values(), ids=KEPT)
def test_unexpected_file_is_kept_and_reported(workspace, blobs, there, expected, reason):
    if there:
        (workspace / "f").write_text(there)
    before = picture(workspace)
    change = PlannedChange("f", blobs.file(expected) if expected else None, blobs.file("new"))
    assert only(carried_out(workspace, blobs, change)) == ("kept", reason)
    assert picture(workspace) == before


def test_file_whose_folder_was_removed_meanwhile_is_not_written(workspace, blobs):
    change = PlannedChange("folder/f", blobs.file("old"), blobs.file("new"))
    assert only(carried_out(workspace, blobs, change)) == ("kept", "it was removed meanwhile")
    assert not (workspace / "folder").exists()


def test_changed_file_is_not_deleted(workspace, blobs):
    (workspace / "f").write_text("user's")
    assert only(carried_out(workspace, blobs, PlannedChange("f", blobs.file("session's"), None)))[0] == "kept"
    assert (workspace / "f").read_text() == "user's"


def test_a_path_that_already_is_new_is_done_and_not_touched(workspace, blobs):
    (workspace / "f").write_text("new")
    before = picture(workspace)
    changes = [
        PlannedChange("f", blobs.file("old"), blobs.file("new")),
        PlannedChange("gone/for/long", blobs.file("x"), None),
    ]
    assert [outcome.result for outcome in carried_out(workspace, blobs, *changes)] == ["done", "done"]
    assert picture(workspace) == before


def meanwhile(monkeypatch, act):
    """Run ``act`` when the new content is written, just before the path is checked for the last time."""
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (act(), real(fd))[1])


def test_file_changed_at_the_last_moment_is_kept(workspace, blobs, monkeypatch):
    (workspace / "f").write_text("old")
    meanwhile(monkeypatch, lambda: (workspace / "f").write_text("user's"))
    change = PlannedChange("f", blobs.file("old"), blobs.file("new"))
    assert only(carried_out(workspace, blobs, change)) == ("kept", "another process is changing it")
    assert (workspace / "f").read_text() == "user's"
    assert temporaries(workspace) == []


def test_file_open_for_writing_is_kept(workspace, blobs, monkeypatch):
    (workspace / "f").write_text("old")
    real = os.read

    def writing(fd, size):
        with (workspace / "f").open("a") as file:
            file.write("more")
        return real(fd, size)

    monkeypatch.setattr(os, "read", writing)
    change = PlannedChange("f", blobs.file("old"), blobs.file("new"))
    assert only(carried_out(workspace, blobs, change)) == ("kept", "another process is changing it")


@pytest.mark.parametrize("hard_links", [True, False])
def test_file_created_at_the_last_moment_is_kept(workspace, blobs, monkeypatch, hard_links):
    def refuse(*names, **at):
        raise OSError(errno.EPERM, "no hard links here")

    if not hard_links:
        monkeypatch.setattr(os, "link", refuse)
    assert only(carried_out(workspace, blobs, PlannedChange("g", None, blobs.file("new")))) == ("done", "")
    meanwhile(monkeypatch, lambda: (workspace / "f").write_text("user's"))
    assert only(carried_out(workspace, blobs, PlannedChange("f", None, blobs.file("new"))))[0] == "kept"
    assert (workspace / "f").read_text() == "user's"
    assert temporaries(workspace) == []


def test_file_created_after_the_last_check_is_not_replaced(workspace, blobs, monkeypatch):
    def late(real, *names, **at):
        (workspace / "f").write_text("user's")
        return real(*names, **at)

    for name in ("link", "rename"):
        monkeypatch.setattr(os, name, partial(late, getattr(os, name)))
    assert only(carried_out(workspace, blobs, PlannedChange("f", None, blobs.file("new"))))[0] == "kept"
    assert (workspace / "f").read_text() == "user's"


def test_a_hard_links_other_name_keeps_the_old_content(workspace, blobs, tmp_path):
    (tmp_path / "other").write_text("old")
    os.link(tmp_path / "other", workspace / "f")
    carried_out(workspace, blobs, PlannedChange("f", blobs.file("old"), blobs.file("new")))
    assert (tmp_path / "other").read_text() == "old"
    assert (workspace / "f").read_text() == "new"


def test_submodule_is_left_alone_and_reported(workspace, blobs):
    commit = TreeEntry("160000", "1" * 40)
    changes = [
        PlannedChange("s", None, commit),
        PlannedChange("t", commit, None),
        PlannedChange("u", commit, TreeEntry("160000", "2" * 40)),
    ]
    for outcome in carried_out(workspace, blobs, *changes):
        assert outcome.result == "kept" and "submodule" in outcome.reason
    assert list(workspace.iterdir()) == []


def test_outcomes_are_in_the_order_of_the_changes(workspace, blobs):
    paths = ["z", "a/b", "a", "m"]
    assert [
        each.path for each in carried_out(workspace, blobs, *(PlannedChange(path, None, None) for path in paths))
    ] == paths


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_a_disk_that_fails_is_an_error_and_leaves_no_temporary(workspace, blobs, monkeypatch, number, faults):
    (workspace / "f").write_text("old")

    def fail(fd, data, at):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(place_file, "write_all", fail)
    with faults.one(), pytest.raises(Unavailable, match=os.strerror(number)):
        carried_out(workspace, blobs, PlannedChange("f", blobs.file("old"), blobs.file("new")))
    assert (workspace / "f").read_text() == "old"
    assert temporaries(workspace) == []


def test_a_failed_sync_is_an_error(workspace, blobs, monkeypatch):
    def fail(fd):
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(Unavailable):
        carried_out(workspace, blobs, PlannedChange("d/f", None, blobs.file("new")))


def test_every_folder_that_changed_is_synced_once_after_all_was_written(workspace, blobs, monkeypatch):
    (workspace / "old").mkdir()
    (workspace / "old/f").write_text("x")
    synced = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    changes = [
        PlannedChange("old/f", blobs.file("x"), None),
        *(PlannedChange(f"new/{at}", None, blobs.file("y")) for at in "abc"),
    ]
    if not Path("/proc/self/fd").exists():
        pytest.skip("cannot see what a handle is of")
    carried_out(workspace, blobs, *changes, made=("old",))
    folders = [Path(path) for path in synced if ".tmp" not in path]
    assert sorted(folders) == [workspace, workspace / "new"]
    assert len(synced) == 5 and all(".tmp" in path for path in synced[:3])


def test_files_of_a_killed_run_are_durable_after_the_next_one(workspace, blobs, monkeypatch):
    if not Path("/proc/self/fd").exists():
        pytest.skip("cannot see what a handle is of")
    changes = [PlannedChange("a/b/new", None, blobs.file("x")), PlannedChange("c/gone", blobs.file("x"), None)]
    (workspace / "a/b").mkdir(parents=True)
    (workspace / "a/b/new").write_text("x")
    (workspace / "c").mkdir()
    synced = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    carried_out(workspace, blobs, *changes)
    assert sorted(map(Path, synced)) == [workspace, workspace / "a", workspace / "a/b", workspace / "c"]


def test_ambiguous_names_are_rejected_if_the_disk_cannot_be_examined(workspace, blobs, monkeypatch):
    def refuse(folder, tag):
        raise OSError(errno.EILSEQ, os.strerror(errno.EILSEQ))

    monkeypatch.setattr(place_file, "probe", refuse)
    changes = [PlannedChange("File", None, blobs.file("1")), PlannedChange("fILE", None, blobs.file("2"))]
    assert [outcome.result for outcome in carried_out(workspace, blobs, *changes)] == ["refused", "refused"]


def steps_of(monkeypatch, name, step):
    """Call ``step`` with the arguments of each call of ``os.<name>``, before the call."""
    real = getattr(os, name)
    monkeypatch.setattr(os, name, lambda *words, **more: (step(*words), real(*words, **more))[1])


def test_batch_is_synced_before_any_of_its_files_is_renamed(workspace, blobs, monkeypatch):
    monkeypatch.setattr("gitsession.workspace.restore.FILES_MAX", 2)
    done = []
    for path in "abc":
        (workspace / path).write_text("old")
    steps_of(monkeypatch, "fsync", lambda fd: done.append("sync" if stat.S_ISREG(os.fstat(fd).st_mode) else "settle"))
    steps_of(monkeypatch, "rename", lambda *names: done.append("put"))
    carried_out(workspace, blobs, *(PlannedChange(path, blobs.file("old"), blobs.file("new")) for path in "abc"))
    assert done == ["sync", "sync", "put", "put", "sync", "put", "settle"]


def test_folders_of_a_batch_are_synced_while_the_next_one_is_prepared(workspace, blobs, monkeypatch):
    monkeypatch.setattr("gitsession.workspace.restore.FILES_MAX", 2)
    paths = ["a/1", "b/1", "b/2", "c/1", "d/1"]
    for path in paths:
        (workspace / path).parent.mkdir(exist_ok=True)
        (workspace / path).write_text("old")
    done = []
    steps_of(monkeypatch, "fsync", lambda fd: done.append(os.readlink(f"/proc/self/fd/{fd}").rpartition("/")[2]))
    if not Path("/proc/self/fd").exists():
        pytest.skip("cannot see what a handle is of")
    carried_out(workspace, blobs, *(PlannedChange(path, blobs.file("old"), blobs.file("new")) for path in paths))
    folders = [name for name in done if ".tmp" not in name]
    assert sorted(folders) == ["a", "b", "c", "d"], "a folder with files in two batches is synced once"
    assert folders[0] == "a" and ".tmp" in "".join(done[done.index("a") :])


@pytest.mark.parametrize("fails", [OSError(errno.EIO, "broken"), MemoryError()])
def test_failed_sync_of_a_folder_is_raised_after_the_others(workspace, blobs, monkeypatch, fails):
    monkeypatch.setattr("gitsession.workspace.restore.FILES_MAX", 1)
    for path in ("a/1", "b/1", "c/1"):
        (workspace / path).parent.mkdir()
        (workspace / path).write_text("old")
    real, synced = os.fsync, []

    def fsync(fd):
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            synced.append(fd)
            if len(synced) == 1:
                raise fails
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    changes = [PlannedChange(path, blobs.file("old"), blobs.file("new")) for path in ("a/1", "b/1", "c/1")]
    with pytest.raises(Unavailable if isinstance(fails, OSError) else MemoryError):
        carried_out(workspace, blobs, *changes)


def test_files_are_synced_without_threads_if_none_can_start(workspace, blobs, monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    synced = []
    steps_of(monkeypatch, "fsync", synced.append)
    assert carried_out(workspace, blobs, PlannedChange("a/b", None, blobs.file("x")))[0].result == "done"
    assert len(synced) == 3


def test_batch_is_limited_by_bytes(workspace, blobs, monkeypatch):
    monkeypatch.setattr("gitsession.workspace.restore.BYTES_MAX", 100)
    done = []
    steps_of(monkeypatch, "fsync", lambda fd: done.append("sync"))
    steps_of(monkeypatch, "link", lambda *names: done.append("put"))
    carried_out(workspace, blobs, *(PlannedChange(path, None, blobs.file(path * 60)) for path in "abc"))
    assert done[:-1] == ["sync", "sync", "put", "put", "sync", "put"]


def test_pending_files_are_renamed_first_on_a_full_disk(workspace, blobs, monkeypatch):
    """The simulated disk has space for one more file."""
    for path in "abc":
        (workspace / path).write_text("old")
    real = place_file.write_all

    def write(fd, data, at):
        if temporaries(workspace)[1:]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(fd, data, at)

    monkeypatch.setattr(place_file, "write_all", write)
    changes = [PlannedChange(path, blobs.file("old"), blobs.file("new")) for path in "abc"]
    assert {outcome.result for outcome in carried_out(workspace, blobs, *changes)} == {"done"}
    assert temporaries(workspace) == []


@pytest.mark.parametrize("instead", ["nothing", "a file", "a link to it"])
def test_folder_moved_away_at_the_last_moment_is_not_written_to(workspace, blobs, monkeypatch, tmp_path, instead):
    for path in ("d/f", "e/f"):
        (workspace / path).parent.mkdir()
        (workspace / path).write_text("old")

    one_at_a_time = threading.Lock()

    def move():
        with one_at_a_time:
            if not (tmp_path / "elsewhere").exists():
                (workspace / "d").rename(tmp_path / "elsewhere")
                if instead == "a file":
                    (workspace / "d").write_text("user's")
                elif instead == "a link to it":
                    (workspace / "d").symlink_to(tmp_path / "elsewhere")

    meanwhile(monkeypatch, move)
    changes = [PlannedChange(path, blobs.file("old"), blobs.file("new")) for path in ("d/f", "e/f")]
    outcomes = carried_out(workspace, blobs, *changes)
    assert [(outcome.result, outcome.reason) for outcome in outcomes] == [
        ("kept", "another process is changing it"),
        ("done", ""),
    ]
    assert [(path.name, path.read_text()) for path in (tmp_path / "elsewhere").iterdir()] == [("f", "old")]
    assert temporaries(workspace) == []


class Killed(BaseException):
    pass


CALLS = ["open", "fsync", "link", "rename", "unlink", "rmdir", "mkdir", "symlink"]


class Dying:
    """Simulated death of the process: from the ``last`` call on, every call fails, also those that clean up."""

    def __init__(self, monkeypatch, last):
        self.left = last
        for name in CALLS:
            monkeypatch.setattr(os, name, partial(self.call, getattr(os, name)))

    def call(self, real, *words, **more):
        self.left -= 1
        if self.left <= 0:
            raise Killed
        return real(*words, **more)


@pytest.mark.parametrize("at_once", [1, 2, 64])
def test_killed_at_any_call_each_path_is_old_or_new_and_doing_it_again_finishes(tmp_path, monkeypatch, faults, at_once):
    monkeypatch.setattr("gitsession.workspace.restore.FILES_MAX", at_once)
    blobs = Blobs()
    changes = [
        PlannedChange("replaced", blobs.file("old"), blobs.file("new")),
        PlannedChange("linked", blobs.file("old"), blobs.link("replaced")),
        PlannedChange("gone/f", blobs.file("old"), None),
        PlannedChange("new/folder/f", None, blobs.file("new")),
        PlannedChange("new/folder/g", None, blobs.file("new too")),
        PlannedChange("turned", None, blobs.file("file")),
        PlannedChange("turned/inside/f", blobs.file("old"), None),
        PlannedChange("back", blobs.file("old"), None),
        PlannedChange("back/f", None, blobs.file("new")),
    ]
    states = {change.path: (change.expected, change.new) for change in changes}

    def build(folder):
        for change in changes:
            if change.expected:
                (folder / change.path).parent.mkdir(parents=True, exist_ok=True)
                (folder / change.path).write_text("old")
        return folder

    def run(folder):
        return carried_out(folder, blobs, *changes, made=("gone", "turned", "turned/inside"))

    wanted = build(tmp_path / "wanted")
    assert {outcome.result for outcome in run(wanted)} == {"done"}
    end = picture(wanted, times=False)
    for at in range(1, 1000):
        folder = build(tmp_path / str(at))
        with monkeypatch.context() as patch:
            Dying(patch, at)
            try:
                run(folder)
            except Killed:
                pass
            else:
                break
        with faults.one(), opened(folder) as root:
            for path, both in states.items():
                now = root.now(path)
                assert now in both or (path in ("turned", "back") and isinstance(now, SpecialFile))
            sweep(root, states, tag="t")
            assert temporaries(folder) == []
            assert {outcome.result for outcome in run(folder)} == {"done"}
            assert picture(folder, times=False) == end
    assert at > 50


def test_sweep_removes_only_temporary_files_of_its_tag(workspace, blobs):
    (workspace / "d").mkdir()
    kept = [".gitsession-u-0.tmp", ".gitsession-t-notes.md", "d/x.tmp"]
    for name in [".gitsession-t-0.tmp", "d/.gitsession-t-12.tmp", *kept]:
        (workspace / name).write_text("x")
    with opened(workspace) as root:
        sweep(root, ["d/f", "none/f", "../x"], tag="t")
    assert sorted(path.name for path in workspace.rglob("*.*")) == sorted(Path(name).name for name in kept)


def test_leftover_of_the_same_tag_does_not_block(workspace, blobs):
    (workspace / ".gitsession-t-0.tmp").write_text("left")
    assert only(carried_out(workspace, blobs, PlannedChange("f", None, blobs.file("new")))) == ("done", "")
    assert (workspace / ".gitsession-t-0.tmp").read_text() == "left"


def test_sessions_folders_are_not_searched_if_names_are_rejected(workspace, blobs):
    (workspace / ".git").mkdir()
    outcome = carried_out(workspace, blobs, PlannedChange("f", None, None), made=(".git", "%.git", "..", ""))
    assert only(outcome) == ("done", "") and (workspace / ".git").is_dir()


def test_an_owner_stays(workspace, blobs):
    if os.geteuid():
        pytest.skip("only root can give files away")
    (workspace / "f").write_text("old")
    os.chown(workspace / "f", 1234, 4321)
    carried_out(workspace, blobs, PlannedChange("f", blobs.file("old"), blobs.file("new")))
    found = (workspace / "f").stat()
    assert (found.st_uid, found.st_gid) == (1234, 4321)


PATHS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3).map("/".join)
WORLDS = st.dictionaries(PATHS, st.sampled_from(["1", "2"]), max_size=6).map(
    lambda world: {
        path: text for path, text in world.items() if not any(other.startswith(f"{path}/") for other in world)
    }
)


@given(WORLDS, WORLDS)
def test_any_world_becomes_any_other(tmp_path_factory, old, new):
    folder, blobs = tmp_path_factory.mktemp("world"), Blobs()
    for path, text in old.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    states = [{path: blobs.file(text) for path, text in world.items()} for world in (old, new)]
    paths = sorted({*old, *new})
    changes = [PlannedChange(path, states[0].get(path), states[1].get(path)) for path in paths]
    made = tuple({above for path in old for above in path_rules.folders_of(path)})
    assert {outcome.result for outcome in carried_out(folder, blobs, *changes, made=made)} <= {"done"}
    files = {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}
    assert files == new
    folders = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_dir()}
    assert folders == {above for path in new for above in path_rules.folders_of(path)}


ALIKE = [("File", "fILE"), ("é", "e\u0301"), ("A", "a/x"), ("d/É", "D/e\u0301")]


@pytest.mark.promise("P28")
@pytest.mark.parametrize("one, other", ALIKE)
def test_names_that_the_disk_does_not_distinguish_are_rejected(workspace, blobs, monkeypatch, one, other, faults):
    monkeypatch.setattr(place_file, "probe", lambda folder, tag: (True, True))
    changes = [
        PlannedChange(one, None, blobs.file("1")),
        PlannedChange(other, None, blobs.file("2")),
        PlannedChange("x", None, None),
    ]
    with faults.one():
        assert [outcome.result for outcome in carried_out(workspace, blobs, *changes)] == ["refused", "refused", "done"]
        assert list(workspace.iterdir()) == []


@pytest.mark.parametrize("one, other", ALIKE)
def test_names_that_the_disk_distinguishes_are_two_files(workspace, blobs, one, other):
    with opened(workspace) as root, root.enter("") as top:
        if any(place_file.probe(top, "t")):
            pytest.skip("a file system that folds names")
    changes = [PlannedChange(one, None, blobs.file("1")), PlannedChange(other, None, blobs.file("2"))]
    assert [outcome.result for outcome in carried_out(workspace, blobs, *changes)] == ["done", "done"]
    assert temporaries(workspace) == []


def test_folders_that_the_disk_does_not_distinguish_only_collide_in_their_files():
    changes = [PlannedChange(path, None, TreeEntry("100644", "1" * 40)) for path in ("D/a", "d/b", "D/c", "d/C")]
    assert set(path_rules.collisions(changes, NameFolding(case=True, form=False))) == {"D/c", "d/C"}


def test_other_spelling_on_the_disk_is_another_file(workspace, blobs, monkeypatch):
    """The file system is a simulated case-insensitive one, on which any spelling finds the one file."""
    (workspace / "File").write_text("x")
    real = os.stat

    def folding(name, *, dir_fd=None, follow_symlinks=True):
        return real(b"File" if name in (b"fILE", b"File") else name, dir_fd=dir_fd, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(os, "stat", folding)
    with opened(workspace) as root, root.enter("") as top:
        seen = place_file.inspect.status(top, b"File")
        assert place_file.spelled_otherwise(top, b"fILE", seen)
        assert not place_file.spelled_otherwise(top, b"File", seen)


def test_two_names_of_one_file_are_each_its_own(workspace):
    (workspace / "File").write_text("x")
    os.link(workspace / "File", workspace / "fILE")
    with opened(workspace) as root, root.enter("") as top:
        assert not place_file.spelled_otherwise(top, b"fILE", place_file.inspect.status(top, b"fILE"))


def test_restore_closes_all_its_handles(workspace, blobs):
    if not Path("/proc/self/fd").exists():
        pytest.skip("cannot count handles")
    before = len(os.listdir("/proc/self/fd"))
    changes = [PlannedChange(f"{at}/f", None, blobs.file("x")) for at in range(100)]
    for _ in range(2):
        carried_out(workspace, blobs, *changes, PlannedChange("0/f/x", None, blobs.file("x")))
    assert len(os.listdir("/proc/self/fd")) == before


def test_handles_of_folders_are_closed_if_there_are_too_many(workspace, blobs):
    changes = [PlannedChange(f"{number:03}/a", None, blobs.file("hi")) for number in range(100)]
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/dev/fd")) + 110, before[1]))
    try:
        outcomes = carried_out(workspace, blobs, *changes)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert {outcome.result for outcome in outcomes} == {"done"}
