"""Tests of the workspace scan: files that it finds, files that it reports as left out, and that it writes nothing."""

import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from workspaces import fill, fingerprint, git, kept, opened, repository, write

from gitsession.errors import MissingObject, Unavailable
from gitsession.git import process
from gitsession.store.memory import MemoryStore
from gitsession.workspace import names, snapshot, trees
from gitsession.workspace.capture import put, tree_with
from gitsession.workspace.private_repository import PrivateRepository
from gitsession.workspace.read_file import Caps, Skipped
from gitsession.workspace.root import WorkspaceRoot


@pytest.fixture(autouse=True)
def as_if_git_were_always_quick(monkeypatch):
    monkeypatch.setattr(snapshot, "_SLOW_MS", 10**9)


@pytest.fixture
def work(tmp_path):
    at = tmp_path / "work"
    at.mkdir()
    return at


@pytest.fixture
def plain(tmp_path):
    return tmp_path / "plain"


def seen(at, plain, *, accept=True, **asked):
    """Scan the workspace and return the changes by path, and the scan."""
    with opened(at) as root, snapshot.take_snapshot(root, plain, **asked) as look:
        changes = {change.path: change for change in look.changes()}
        if accept:
            look.accept(kept=False)
        return changes, look


def paths(at, plain, **asked):
    return sorted(seen(at, plain, **asked)[0])


def let_the_clock_tick(at):
    """Wait until the clock of the file system, which may be coarse, has advanced."""
    by = at.with_name("tick")
    by.touch()
    first = by.stat().st_ctime_ns
    while by.stat().st_ctime_ns == first:
        time.sleep(0.001)
        by.touch()


def reasons(at, plain, **asked):
    return dict(seen(at, plain, **asked)[1].skipped)


# ---- changes


def test_the_first_look_tells_all_there_is_and_the_next_one_nothing(work, plain):
    fill(work, a="one", b__c="two")
    changes, look = seen(work, plain)
    assert [(change.path, change.data) for change in changes.values()] == [("a", b"one"), ("b/c", b"two")]
    assert look.before is None
    assert paths(work, plain) == []


def test_change_that_was_not_accepted_is_found_again(work, plain):
    fill(work, a="one")
    assert paths(work, plain, accept=False) == ["a"]
    assert paths(work, plain) == ["a"]
    write(work / "a", "two")
    assert paths(work, plain, accept=False) == ["a"]
    assert paths(work, plain) == ["a"]
    assert paths(work, plain) == []


@pytest.mark.parametrize("step", ["write_index", "save"])
def test_a_look_that_could_not_be_noted_shows_again(work, plain, monkeypatch, step):
    fill(work, a="one")
    seen(work, plain)
    write(work / "a", "two")
    monkeypatch.setattr(snapshot, "_SINCE_MAX", -1)
    real = getattr(PrivateRepository, step)

    def full(shadow, *asked):
        if step == "write_index":
            real(shadow, *asked)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(PrivateRepository, step, full)
        with pytest.raises(Unavailable, match="No space"):
            seen(work, plain)
    assert paths(work, plain) == ["a"]
    assert paths(work, plain) == []


def test_scan_is_accepted_only_if_complete_and_still_open(work, plain):
    fill(work, a="one", b="two")
    with opened(work) as root, snapshot.take_snapshot(root, plain) as look:
        next(look.changes())
        with pytest.raises(RuntimeError):
            look.accept()
    with opened(work) as root, snapshot.take_snapshot(root, plain) as late:
        list(late.changes())
    with pytest.raises(RuntimeError):
        late.accept()
    assert paths(work, plain) == ["a", "b"]


def test_a_file_that_changed_while_it_was_kept_shows_in_the_next_look(work, plain):
    fill(work, a="one")
    with opened(work) as root, snapshot.take_snapshot(root, plain) as look:
        list(look.changes())
        before = os.stat(work / "a")
        write(work / "a", "two")
        os.utime(work / "a", ns=(before.st_atime_ns, before.st_mtime_ns))
        look.accept(kept=False)
    changes, _ = seen(work, plain)
    assert changes["a"].data == b"two"


def test_file_deleted_before_it_is_read_is_missing(work, plain):
    fill(work, a="one", b="two")
    with opened(work) as root, snapshot.take_snapshot(root, plain) as look:
        os.unlink(work / "b")
        assert [change.path for change in look.changes()] == ["a"]


def test_unchanged_workspace_needs_one_git_and_reads_nothing(work, plain, monkeypatch):
    repository(work)
    fill(work, a="one", b__c="two")
    seen(work, plain)
    ran = []
    real = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda words, **how: ran.append(words) or real(words, **how))
    monkeypatch.setattr(WorkspaceRoot, "contents", None)
    assert paths(work, plain) == []
    assert len(ran) == 1
    assert not list(plain.glob("git/objects/**/*"))


@pytest.mark.parametrize("name", [".gitignore", "below/.gitignore"])
def test_a_pipe_that_git_would_wait_for_is_named(work, plain, monkeypatch, name):
    monkeypatch.setattr(process, "_LONG_SECONDS", 0.2)
    fill(work, a="one", below__b="two")
    os.mkfifo(work / name)
    with pytest.raises(Unavailable, match=f"{name}' is a pipe"):
        paths(work, plain)
    (work / name).unlink()
    assert paths(work, plain) == ["a", "below/b"]


def test_pipe_in_place_of_gitignore_is_rejected_at_once(work, plain, tmp_path, monkeypatch):
    monkeypatch.setattr(process, "_LONG_SECONDS", 600.0)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "global"))
    git(work, "init", "-q")
    fill(work, a="one")
    assert paths(work, plain) == ["a"]
    exclude, ignores = work / ".git/info/exclude", tmp_path / "ignores"
    (tmp_path / "global").write_text(f"[core]\n\texcludesFile = {ignores}\n")
    for pipe in (ignores, exclude):
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe)
        with pytest.raises(process.BlockedRead, match=f"{pipe}.: it is a pipe"):
            paths(work, plain)
        pipe.unlink()
        assert paths(work, plain) == ["a"]
    ignores.symlink_to(os.devnull)
    fill(work, b="two")
    assert "b" in paths(work, plain)


@pytest.mark.parametrize("pipe", ["global", "included", ".git/config", ".git/commondir"])
def test_pipe_in_place_of_a_configuration_is_named(work, plain, tmp_path, monkeypatch, pipe):
    monkeypatch.setattr(process, "_LONG_SECONDS", 0.2)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "global"))
    (tmp_path / "global").write_text("[include]\n\tpath = included\n")
    git(work, "init", "-q")
    fill(work, a="one")
    path = work / pipe if pipe.startswith(".git") else tmp_path / pipe
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    with pytest.raises(process.BlockedRead, match=f"{path}' is a pipe"):
        paths(work, plain)


def test_slow_scan_without_such_a_cause_continues(work, plain, monkeypatch):
    monkeypatch.setattr(process, "_LONG_SECONDS", 0.0)
    fill(work, a="one")
    assert paths(work, plain) == ["a"]


def test_that_an_index_was_written_makes_no_other_look(work, plain, monkeypatch):
    fill(work, a="one", b="two")
    first = seen(work, plain)[1]
    monkeypatch.setattr(snapshot, "_SINCE_MAX", -1)
    second = seen(work, plain)[1]
    third = seen(work, plain)[1]
    assert first.before is None and second.before == third.before


def test_slow_scan_makes_git_store_each_status(work, plain, monkeypatch):
    fill(work, a="one", b="two")
    seen(work, plain)
    seen(work, plain)
    (before,) = plain.glob("index.*")
    monkeypatch.setattr(snapshot, "_SLOW_MS", -1)
    found = snapshot.find
    monkeypatch.setattr(snapshot, "find", lambda *asked: found(*asked)._replace(took_ms=10**6))
    assert paths(work, plain) == []
    (after,) = plain.glob("index.*")
    assert before != after


def test_touched_files_are_read_once(work, plain):
    fill(work, a="one", b="two")
    seen(work, plain)
    os.utime(work / "a", ns=(1, 1))
    assert paths(work, plain) == []


EDITS = {
    "mode": lambda at: os.chmod(at / "a", 0o755),
    "removed": lambda at: os.unlink(at / "a"),
    "a link now": lambda at: (os.unlink(at / "a"), os.symlink("b/c", at / "a")),
    "same size": lambda at: write(at / "a", "eno"),
    "a pipe now": lambda at: (os.unlink(at / "a"), os.mkfifo(at / "a")),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
@pytest.mark.parametrize("since", ["in the index", "since"])
def test_each_kind_of_change_is_found(work, plain, edit, since):
    fill(work, a="one", b__c="two")
    seen(work, plain)
    if since == "since":
        write(work / "a", "older")
        assert paths(work, plain) == ["a"]
        write(work / "a", "one")
        assert paths(work, plain) == ["a"]
    edit(work)
    assert paths(work, plain) == ["a"]
    assert paths(work, plain) == []


def test_few_changes_write_no_index_and_many_do(work, plain, monkeypatch):
    for number in range(6):
        write(work / f"f{number}", "1")
    seen(work, plain)
    monkeypatch.setattr(snapshot, "_SINCE_MAX", 3)
    (index,) = plain.glob("index.*")
    write(work / "f0", "2")
    os.unlink(work / "f1")
    write(work / "new", "3")
    assert paths(work, plain) == ["f0", "f1", "new"]
    assert list(plain.glob("index.*")) == [index]
    write(work / "f1", "1")
    write(work / "f0", "1")
    os.unlink(work / "new")
    assert paths(work, plain) == ["f0", "f1", "new"]
    assert paths(work, plain) == []
    write(work / "f4", "5")
    assert paths(work, plain) == ["f4"]
    assert list(plain.glob("index.*")) != [index]
    assert paths(work, plain) == []


def test_a_file_that_was_seen_and_not_written_since_is_not_read_again(work, plain, monkeypatch):
    fill(work, a="1")
    seen(work, plain)
    write(work / "a", "2")
    let_the_clock_tick(work)
    assert paths(work, plain) == ["a"]
    monkeypatch.setattr(WorkspaceRoot, "contents", None)
    assert paths(work, plain) == []


def test_a_folder_that_a_link_stood_for_is_there_again(work, plain):
    fill(work, a__x="1", b="2")
    seen(work, plain)
    os.rename(work / "a", work / "moved")
    os.symlink("moved", work / "a")
    assert sorted(seen(work, plain)[0])[:2] == ["a", "moved/x"]
    os.unlink(work / "a")
    os.rename(work / "moved", work / "a")
    changes, _ = seen(work, plain)
    assert changes["a/x"].data == b"1" and changes["moved/x"].file is None


def test_bytes_are_captured_regardless_of_attributes_and_settings(work, plain, isolated_home):
    repository(work)
    (isolated_home / "gitconfig").write_text('[core]\nautocrlf = true\n[filter "no"]\nclean = echo no\nrequired\n')
    git(work, "config", "core.autocrlf", "true")
    write(work / ".gitattributes", "* text=auto eol=crlf ident filter=no\n*.u working-tree-encoding=UTF-16\n")
    data = {"a": b"one\r\ntwo\n$Id$\n", "b.u": "hé\n".encode("utf-16"), "c": b"\0\r\n"}
    for name, content in data.items():
        write(work / name, content)
    changes, _ = seen(work, plain)
    assert {name: changes[name].data for name in data} == data
    assert paths(work, plain) == []


# ---- selection of files


def test_ignore_rules_of_every_source_count(work, plain, isolated_home):
    repository(work)
    (isolated_home / "everywhere").write_text("*.global\n")
    git(work, "config", "--global", "core.excludesFile", "~/everywhere")
    (work / ".git/info/exclude").write_text("*.info\n")
    fill(work, _dot_gitignore="*.top\n", b__y="", a="")
    (work / "b/.gitignore").write_text("*.low\n")
    for name in ("x.global", "x.info", "x.top", "b/x.low", "x.low"):
        write(work / name, name)
    assert paths(work, plain) == [".gitignore", "a", "b/.gitignore", "b/y", "x.low"]
    (isolated_home / "everywhere").write_text("nothing\n")
    assert paths(work, plain) == ["x.global"]
    (work / ".git/info/exclude").write_text("")
    assert paths(work, plain) == ["x.info"]


def test_rules_above_a_sub_folder_count_and_only_the_sub_folder_is_looked_at(tmp_path, plain):
    top = repository(tmp_path / "top")
    fill(top, _dot_gitignore="*.log\n/sub/no\n", beside="x", sub__a="1", sub__no="2", sub__x="3")
    write(top / "sub/y.log", "4")
    assert paths(top / "sub", plain) == ["a", "x"]
    write(top / "sub/a", "5")
    write(top / "beside", "6")
    assert paths(top / "sub", plain) == ["a"]
    assert paths(top / "sub", plain) == []


def test_workspace_ignored_by_an_outer_repository_has_its_own_rules(tmp_path, plain):
    top = repository(tmp_path / "dotfiles")
    fill(top, _dot_gitignore="*\n", project__a="1", project___dot_gitignore="b\n", project__b="2")
    assert paths(top / "project", plain) == [".gitignore", "a"]
    write(top / "project/a", "3")
    assert paths(top / "project", plain) == ["a"]


def test_ignored_file_in_the_users_index_is_captured(work, plain):
    repository(work)
    fill(work, _dot_gitignore="build/\n", build__kept="1", build__not="2", a="3")
    git(work, "add", "-f", "build/kept")
    assert paths(work, plain) == [".gitignore", "a", "build/kept"]
    write(work / "build/kept", "4")
    assert paths(work, plain) == ["build/kept"]
    os.unlink(work / "build/kept")
    assert paths(work, plain) == ["build/kept"]
    write(work / "build/kept", "5")
    assert paths(work, plain) == ["build/kept"]
    git(work, "add", "-f", "build/not")
    assert paths(work, plain) == ["build/not"]
    assert paths(work, plain) == []


@pytest.mark.parametrize("refreshed", [True, False])
def test_existing_unscanned_files_have_appeared_and_created_or_moved_ones_have_not(work, plain, monkeypatch, refreshed):
    monkeypatch.setattr(snapshot, "_SINCE_MAX", -1 if refreshed else 100)
    fill(work, _dot_gitignore="old\n", old="1", folder__x="2", folder__y="3")
    seen(work, plain)
    write(work / ".gitignore", "")
    os.rename(work / "folder", work / "moved")
    changes, look = seen(work, plain)
    assert sorted(changes) == [".gitignore", "folder/x", "folder/y", "moved/x", "moved/y", "old"]
    assert look.appeared == ["old"]
    write(work / "new", "4")
    assert seen(work, plain)[1].appeared == []


def _edits(work):
    write(work / ".gitignore", "other\n")


def _takes_away(work):
    (work / ".gitignore").unlink()


def _takes_back(work):
    write(work / "sub/.gitignore", "!live.db\n")


def _excludes(work):
    write(work / ".git/info/exclude", "")


def _adds(work):
    git(work, "add", "-f", "sub/live.db")


@pytest.mark.parametrize("shows", [_edits, _takes_away, _takes_back, _excludes, _adds])
def test_continuously_written_ignored_file_has_appeared_when_it_is_no_longer_ignored(work, plain, shows):
    """The status shows that the file is new. Only the change of the ignore rules shows that it may be old."""
    repository(work)
    write(work / (".git/info/exclude" if shows is _excludes else ".gitignore"), "*.db\n")
    fill(work, sub__live_dot_db="one row")
    seen(work, plain)
    let_the_clock_tick(work)
    fill(work, sub__live_dot_db="two rows")
    shows(work)
    changes, look = seen(work, plain)
    assert "sub/live.db" in changes
    assert look.appeared == ["sub/live.db"]


def test_new_gitignore_and_files_created_with_it_have_not_appeared(work, plain):
    seen(work, plain)
    fill(work, made__code="one", made___dot_gitignore="target\n")
    assert seen(work, plain)[1].appeared == []


def test_rules_above_the_workspace_count_too(tmp_path, work, plain):
    repository(tmp_path)
    write(tmp_path / ".gitignore", "live\n")
    fill(work, live="one", other="x")
    seen(work, plain)
    fill(work, live="two")
    (tmp_path / ".gitignore").unlink()
    assert seen(work, plain)[1].appeared == ["live"]


def test_first_scan_has_no_appeared_files(work, plain):
    fill(work, a="1")
    assert seen(work, plain)[1].appeared == []


# ---- files left out and reported


def test_a_repository_in_the_workspace_is_left_out_by_its_path(work, plain):
    repository(work / "inner")
    fill(work, a="1", inner__b="2")
    assert paths(work, plain) == ["a"]
    assert reasons(work, plain) == {"inner": "a repository of its own"}


def test_new_files_of_a_folder_that_became_a_repository_are_left_out(work, plain):
    fill(work, inner__b="2", inner__gone="x")
    assert paths(work, plain) == ["inner/b", "inner/gone"]
    repository(work / "inner")
    fill(work, inner__c="3", inner__deep__d="4")
    assert paths(work, plain) == []
    (work / "inner/gone").unlink()
    assert paths(work, plain) == ["inner/gone"]


def test_submodule_is_its_checked_out_commit(work, plain, tmp_path):
    other = repository(tmp_path / "other")
    for text in ("1", "2"):
        write(other / "b", text)
        git(other, "add", ".")
        git(other, "commit", "-qm", text)
    second, first = git(other, "rev-list", "HEAD").decode().split()
    repository(work)
    git(work, "submodule", "-q", "add", str(other), "sub")
    changes, look = seen(work, plain)
    assert changes["sub"].file == ("160000", second)
    assert "sub/b" not in changes and not look.skipped
    assert paths(work, plain) == []
    git(work / "sub", "checkout", "-q", first)
    changes, _ = seen(work, plain)
    assert [(path, change.file.oid) for path, change in changes.items()] == [("sub", first)]
    write(work / "sub/b", "not ours")
    assert paths(work, plain) == []


def test_file_above_a_limit_is_reported_and_left_out(work, plain):
    fill(work, a="1", b="22222", c="3", d="4")
    changes, look = seen(work, plain, caps=Caps(file_bytes=4, files=2))
    assert sorted(changes) == ["a", "c"]
    assert look.skipped == [Skipped("b", "larger than 4 bytes"), Skipped("d", "beyond 2 files")]
    os.unlink(work / "a")
    write(work / "c", "33333")
    changes, look = seen(work, plain, caps=Caps(file_bytes=4, files=2))
    assert [(change.path, change.file is None) for change in changes.values()] == [
        ("a", True),
        ("c", True),
        ("d", False),
    ]
    assert [path for path, _ in look.skipped] == ["b", "c"]


def test_a_crowd_over_the_cap_is_named_by_its_folders(work, plain, monkeypatch):
    monkeypatch.setattr(snapshot, "FOLDED_FROM", 2)
    fill(work, a="1", b__c__d="2", b__c__e="3", b__f__g="4", b__f__h="5", i="6")
    assert reasons(work, plain, caps=Caps(files=1)) == {"b": "beyond 1 files", "i": "beyond 1 files"}


def test_special_file_in_place_of_a_file_is_reported(work, plain):
    fill(work, a="1")
    seen(work, plain)
    os.unlink(work / "a")
    os.mkfifo(work / "a")
    assert reasons(work, plain) == {"a": "a pipe, a socket or a device"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read all")
def test_unreadable_file_is_reported(work, plain):
    fill(work, a="1", b__c="2", d="3")
    os.chmod(work / "a", 0)
    os.chmod(work / "b", 0)
    try:
        changes, look = seen(work, plain)
    finally:
        os.chmod(work / "b", 0o700)
    assert sorted(changes) == ["d"]
    assert [path for path, _ in look.skipped] == ["a", "b"]


def test_a_file_that_may_no_longer_be_read_is_named_until_it_may(work, plain, monkeypatch):
    fill(work, a="1", b="2")
    seen(work, plain)
    write(work / "a", "3")
    real = WorkspaceRoot.contents

    def denied(root, path):
        if path == "a":
            raise PermissionError(13, "Permission denied")
        return real(root, path)

    monkeypatch.setattr(WorkspaceRoot, "contents", denied)
    changes, look = seen(work, plain)
    assert changes["a"].file is None
    assert look.skipped == [Skipped("a", "it cannot be read: Permission denied")]
    assert reasons(work, plain) == {"a": "it cannot be read: Permission denied"}
    monkeypatch.setattr(WorkspaceRoot, "contents", real)
    assert seen(work, plain)[0]["a"].data == b"3"


def test_file_open_for_writing_keeps_its_known_state_and_is_reported(work, plain, monkeypatch):
    fill(work, a="1")
    seen(work, plain)
    write(work / "a", "22")
    real = WorkspaceRoot.contents

    def busy(root, path):
        raise Unavailable("somebody is writing it")

    monkeypatch.setattr(WorkspaceRoot, "contents", busy)
    changes, look = seen(work, plain)
    assert changes == {}
    assert look.skipped == [Skipped("a", "somebody is writing it")]
    monkeypatch.setattr(WorkspaceRoot, "contents", real)
    assert seen(work, plain)[0]["a"].data == b"22"


def test_a_folder_that_git_could_not_open_is_named(work, plain):
    from gitsession.workspace.changed_paths import _unreadable_folders

    told = (
        b"warning: could not open directory 'sub/it's \n odd/': Permission denied\nwarning: could not open directory "
    )
    told += b"'sub/x/': Permission denied\n"
    assert [path for path, _ in _unreadable_folders(told, b"sub")][-1] == "x"


REFUSED = [b"git~1", b".GIT ", b".git\xe2\x80\x8c"]


@pytest.mark.parametrize("name", REFUSED)
def test_name_that_resembles_dot_git_is_reported_and_left_out(work, plain, name):
    with open(os.path.join(os.fsencode(work), name), "wb") as file:
        file.write(b"1")
    changes, look = seen(work, plain)
    assert changes == {}
    assert [path for path, _ in look.skipped] == [names.escape(name)]


def test_a_link_called_gitmodules_is_left_out(work, plain):
    os.symlink("x", work / ".gitmodules")
    fill(work, a="1")
    assert paths(work, plain) == ["a"]
    assert list(reasons(work, plain)) == ["%.gitmodules"]


def test_names_of_any_bytes_are_captured(work, plain):
    odd = [b"new\nline", b"tab\t", b'quo"te', b"\xff\xfe", b"per%cent", b"back\\slash", b" ", b"-x", b":(top)", b"*"]
    for name in odd:
        with open(os.path.join(os.fsencode(work), name), "wb") as file:
            file.write(name)
    changes, _ = seen(work, plain)
    assert {names.unescape_path(path): change.data for path, change in changes.items()} == {name: name for name in odd}
    assert paths(work, plain) == []


def test_store_in_a_workspace_is_never_captured(work, plain):
    fill(work, a="1", _dot_gitignore="!*\n!/my [store]/\n")
    write(work / "my [store]/HEAD", "x")
    write(work / "my s/HEAD", "x")
    with (
        WorkspaceRoot.open(work, home=None, store=work / "my [store]") as root,
        snapshot.take_snapshot(root, plain) as look,
    ):
        assert [change.path for change in look.changes()] == [".gitignore", "a", "my s/HEAD"]
        assert look.skipped == []


# ---- unusual workspaces


ODD_PLACES = [b"with space", b"new\nline", b"\xff\xfe", b"-dash", b"it's", b":(top)x", b"*?["]


@pytest.mark.parametrize("name", ODD_PLACES)
@pytest.mark.parametrize("in_repository", [True, False])
def test_a_workspace_may_have_any_name(tmp_path, plain, name, in_repository):
    at = tmp_path / os.fsdecode(name)
    at.mkdir()
    if in_repository:
        repository(at)
    fill(at, a="1", sub__b="2")
    assert paths(at, plain) == ["a", "sub/b"]
    write(at / "sub/b", "3")
    assert paths(at, plain) == ["sub/b"]
    assert paths(at / "sub", plain.parent / "other") == ["b"]
    write(at / "sub/b", "4")
    assert paths(at / "sub", plain.parent / "other") == ["b"]


def broken_folder(at):
    (at / ".git").mkdir()
    (at / ".git/HEAD").write_text("")


def broken_file(at):
    (at / ".git").write_text("gitdir: /nowhere/at/all\n")


def broken_index(at):
    repository(at)
    (at / ".git/index").write_bytes(b"DIRC no index at all")


def broken_config(at):
    repository(at)
    (at / ".git/config").write_text("[core\nnot a config")


def bare_settings(at):
    repository(at)
    git(at, "config", "core.bare", "true")


def hostile_config(at):
    repository(at)
    git(at, "config", "core.fsmonitor", f"touch {at}/ran; false")
    git(at, "config", "core.hooksPath", "hooks")
    git(at, "config", "core.worktree", "/")


BROKEN = [broken_folder, broken_file, broken_index, broken_config, bare_settings, hostile_config]


@pytest.mark.parametrize("how", BROKEN, ids=lambda how: how.__name__)
def test_broken_or_malicious_repository_does_not_stop_a_scan(work, plain, how):
    how(work)
    fill(work, a="1", _dot_gitignore="b\n", b="2")
    assert paths(work, plain) == [".gitignore", "a"]
    assert paths(work, plain) == []
    assert not (work / "ran").exists()


def test_a_linked_worktree_has_its_own_index_and_the_excludes_of_its_repository(tmp_path, plain):
    main = repository(tmp_path / "main")
    fill(main, a="1")
    git(main, "add", ".")
    git(main, "commit", "-qm", "one")
    git(main, "worktree", "add", "-q", str(tmp_path / "linked"))
    linked = tmp_path / "linked"
    (main / ".git/info/exclude").write_text("*.no\nkept\n")
    fill(linked, b="2", kept="3")
    write(linked / "x.no", "4")
    git(linked, "add", "-f", "kept")
    assert paths(linked, plain) == ["a", "b", "kept"]


def test_sparse_checkout_is_captured_as_on_the_disk(work, plain):
    repository(work)
    fill(work, a__x="1", b__y="2", top="3")
    git(work, "add", ".")
    git(work, "commit", "-qm", "one")
    git(work, "sparse-checkout", "set", "--cone", "--sparse-index", "a")
    before = kept(work / ".git")  # git's own fsck changes file times there
    assert paths(work, plain) == ["a/x", "top"]
    assert kept(work / ".git") == before


def test_added_or_removed_repository_restarts_the_scans(work, plain):
    fill(work, a="1", _dot_gitignore="")
    seen(work, plain)
    repository(work)
    changes, look = seen(work, plain)
    assert sorted(changes) == [".gitignore", "a"] and look.before is None


def test_users_repository_is_unchanged(work, plain):
    repository(work)
    fill(work, a="1", b__c="2", gone="3", _dot_gitignore="*.no\n")
    git(work, "add", ".")
    git(work, "commit", "-qm", "one")
    write(work / "a", "stashed")
    git(work, "stash")
    write(work / "a", "4")
    git(work, "add", "a")
    write(work / "a", "5")
    write(work / "wanted", "6")
    git(work, "add", "-N", "wanted")
    write(work / "kept.no", "7")
    git(work, "add", "-f", "kept.no")
    os.unlink(work / "gone")
    os.utime(work / "b/c", ns=(1, 1))
    before = fingerprint(work)
    assert paths(work, plain) == [".gitignore", "a", "b/c", "kept.no", "wanted"]
    write(work / "wanted", "8")
    assert paths(work, plain) == ["wanted"]
    write(work / "wanted", "6")
    assert paths(work, plain) == ["wanted"]
    assert fingerprint(work) == before


# ---- the private folder


def damage_index(plain):
    (index,) = plain.glob("index.*")
    index.write_bytes(index.read_bytes()[:40])


def damage_index_in_place(plain):
    (index,) = plain.glob("index.*")
    raw = index.read_bytes()
    index.write_bytes(b"junk" + raw[4:])


def later_state(plain):
    (plain / "state").write_text((plain / "state").read_text().replace('"version": 1', '"version": 99'))


DAMAGES = {
    "index cut short": damage_index,
    "index is none": damage_index_in_place,
    "index gone": lambda plain: [index.unlink() for index in plain.glob("index.*")],
    "state is no JSON": lambda plain: (plain / "state").write_text("{"),
    "state of a later version": later_state,
    "state of something else": lambda plain: (plain / "state").write_text('{"version": 1, "x": 2}'),
    "state gone": lambda plain: (plain / "state").unlink(),
}
MENDED = {
    "HEAD gone": lambda plain: (plain / "git/HEAD").unlink(),
    "config changed": lambda plain: (plain / "git/config").write_text("[core]\nbare = true\n"),
    "objects gone": lambda plain: (plain / "git/objects").rmdir(),
    "a lock left behind": lambda plain: (plain / "index.0123.lock").write_text(""),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_cache_is_deleted_and_everything_is_reported_again(work, plain, damage):
    fill(work, a="1", b="2")
    seen(work, plain)
    damage(plain)
    changes, look = seen(work, plain)
    assert sorted(changes) == ["a", "b"] and look.before is None
    assert paths(work, plain) == []


@pytest.mark.parametrize("damage", MENDED.values(), ids=MENDED)
def test_damaged_private_files_are_rebuilt(work, plain, damage):
    fill(work, a="1", b="2")
    seen(work, plain)
    damage(plain)
    assert paths(work, plain) == []


def test_private_folder_may_be_relative_to_the_working_directory(work, tmp_path, monkeypatch):
    fill(work, a="1")
    monkeypatch.chdir(tmp_path)
    assert paths(work, Path("plain")) == ["a"]
    assert paths(work, tmp_path / "plain") == []


def test_looks_of_one_workspace_wait_for_each_other(work, plain):
    fill(work, a="1")
    with (
        opened(work) as root,
        snapshot.take_snapshot(root, plain),
        pytest.raises(Unavailable, match="is taking a snapshot"),
    ):
        seen(work, plain, wait_seconds=0.05)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: paths(work, plain), range(8)))
    assert sorted(found) == [[]] * 7 + [["a"]]


def test_scan_without_git_reports_it(work, plain, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(Unavailable, match="git is not on the PATH"):
        seen(work, plain)


# ---- scans that are stored elsewhere first


def drained(store, plain, before, look, changes):
    """Apply a scan's changes as ingest does for a spool: to the tree of the previous scan, for the tree of this one."""
    with PrivateRepository.open(plain) as shadow:
        base = shadow.tree_of(before) if before else None
        states = put(store, changes)
        with store.transaction() as to:
            tree = tree_with(store, to, base, states)
        shadow.keep_tree(look, tree)
        return tree


def spooled(at, plain):
    with opened(at) as root, snapshot.take_snapshot(root, plain) as look:
        changes = list(look.changes())
        return look.before, look.accept(kept=False), changes


def test_looks_that_were_spooled_become_trees_one_after_the_other(work, plain):
    store = MemoryStore()
    fill(work, a="1", b="2")
    first = spooled(work, plain)
    write(work / "a", "3")
    os.unlink(work / "b")
    second = spooled(work, plain)
    with opened(work) as root, snapshot.take_snapshot(root, plain) as look, pytest.raises(MissingObject):
        look.base()
    assert sorted(dict(trees.walk(store, drained(store, plain, *first)))) == ["a", "b"]
    tree = drained(store, plain, *second)
    assert sorted(dict(trees.walk(store, tree))) == ["a"]
    with opened(work) as root, snapshot.take_snapshot(root, plain) as look:
        assert (list(look.changes()), look.base()) == ([], tree)
