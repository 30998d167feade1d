"""Tests of project identities: the same for every notation, clone, worktree and machine, and without secrets."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import Clock, assert_clean, pi_file, said, talk
from hypothesis import given
from hypothesis import strategies as st

from gitsession import Message, NotFound, Store
from gitsession.cli import app as command_line
from gitsession.discovery.projects import identity_of, of_remote
from gitsession.formats.pi.agent import pi

SAME = (
    "https://host.example/Org/Repo.git",
    "https://host.example/Org/Repo",
    "https://HOST.example/Org/Repo/",
    "http://host.example:80/Org/Repo.git",
    "https://user@host.example/Org/Repo.git",
    "https://user:s3cret@host.example/Org/Repo.git",
    "https://s3cret@host.example/Org/Repo.git?token=s3cret#s3cret",
    "ssh://git@host.example/Org/Repo.git",
    "ssh://git@host.example:2222/Org/Repo.git",
    "git+ssh://git@host.example/Org/Repo.git",
    "git://host.example/Org/Repo.git",
    "git@host.example:Org/Repo.git",
    "git@host.example:/Org/Repo.git",
    "host.example:Org/Repo",
    "  git@host.example:Org//Repo.git\n",
)

NOWHERE = (
    "", "/srv/git/repo.git", "../repo", "file:///srv/repo.git", "C:\\repos\\x", "C:/repos/x", "ext::sh -c x", "./a:b",
    "https://", "https://host.example", "ssh://git@host.example/", "git@host.example:", "ftp://host/x", "\0",
)  # fmt: skip


@pytest.mark.parametrize("url", SAME)
def test_every_spelling_of_a_remote_is_one_project(url: str):
    assert of_remote(url) == "host.example/Org/Repo"


@pytest.mark.parametrize("url", NOWHERE)
def test_url_that_no_other_machine_can_reach_is_no_identity(url: str):
    assert of_remote(url) is None


def test_other_places_are_other_projects():
    urls = ("https://a/x/y", "https://b/x/y", "https://a/x/Y", "https://a:8443/x/y", "https://a/x/y/z", "[::1]:x/y")
    assert len({of_remote(url) for url in urls}) == len(urls)


@given(user=st.text("abcXYZ019%:!$&'()*+,;=-._~", min_size=1), scheme=st.sampled_from(("https", "ssh", "git")))
def test_no_credential_is_kept(user: str, scheme: str):
    assert of_remote(f"{scheme}://{user}@host.example/Org/Repo.git") == "host.example/Org/Repo"


@given(st.text(max_size=60))
def test_any_text_is_a_remote_or_none(url: str):
    found = of_remote(url)
    assert found is None or "@" not in found.partition("/")[0]


# ---- folders


def git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.email=a@b", "-c", "user.name=t", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def repository(folder: Path, *remotes: str) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", f"first of {folder.name}")
    for number, url in enumerate(remotes):
        git(folder, "remote", "add", "origin" if not number else f"other{number}", url)
    return folder


def test_a_remote_counts_before_the_first_commit_and_that_before_a_name(tmp_path: Path):
    folder = repository(tmp_path / "app")
    (folder / ".gitsession-project").write_text("My app\nand more\n")
    root = git(folder, "rev-parse", "HEAD")
    git(folder, "commit", "-q", "--allow-empty", "-m", "second")
    assert identity_of(folder) == f"root:{root}"
    git(folder, "remote", "add", "aaa", "/srv/local.git")
    git(folder, "remote", "add", "zzz", "https://u:p@host/z.git")
    assert identity_of(folder) == "remote:host/z"
    git(folder, "remote", "add", "origin", "git@host:o.git")
    assert identity_of(folder) == "remote:host/o"
    plain = tmp_path / "plain"
    plain.mkdir()
    assert identity_of(plain) is None
    (plain / ".gitsession-project").write_text("My app\nand more\n")
    assert identity_of(plain) == "name:My app"


def test_folders_below_worktrees_and_moved_ones_are_the_same_project(tmp_path: Path):
    folder = repository(tmp_path / "app")
    same = identity_of(folder)
    (folder / "src/deep").mkdir(parents=True)
    git(folder, "worktree", "add", "-q", str(tmp_path / "tree"))
    assert same is not None
    assert identity_of(folder / "src/deep") == identity_of(tmp_path / "tree") == same
    subprocess.run(["git", "clone", "-q", str(folder), str(tmp_path / "clone")], check=True, capture_output=True)
    assert identity_of(tmp_path / "clone") == same  # its remote is a path on this machine
    folder.rename(tmp_path / "moved")
    assert identity_of(tmp_path / "moved") == same
    assert identity_of(folder) is None


def test_a_shallow_clone_and_an_empty_repository_do_not_know_their_first_commit(tmp_path: Path):
    folder = repository(tmp_path / "app")
    git(folder, "commit", "-q", "--allow-empty", "-m", "second")
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{folder}", str(shallow))
    assert identity_of(shallow) is None
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "-q")
    assert identity_of(tmp_path / "empty") is None


def test_dangling_git_file_is_not_an_error(tmp_path: Path):
    for text in ("gitdir: /nowhere", "nonsense", "\0", ""):
        (tmp_path / ".git").write_text(text)
        assert identity_of(tmp_path) is None


def test_programs_configured_by_a_repository_are_not_run(tmp_path: Path):
    folder = repository(tmp_path / "app", "https://host/x")
    for name in ("core.fsmonitor", "core.sshCommand", "core.pager", "alias.config", "alias.rev-list"):
        git(folder, "config", name, f"!touch {tmp_path}/run")
    assert identity_of(folder) == "remote:host/x"
    assert not (tmp_path / "run").exists()


# ---- sessions


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git", clock=Clock()) as opened:
        yield opened
        assert_clean(opened.objects)


def held_in(folder: Path, id: str = "s1") -> bytes:
    return pi_file(*talk("u", "a"), id=id, cwd=str(folder))


def test_import_records_the_project_once(store: Store, tmp_path: Path):
    data = held_in(repository(tmp_path / "app", "git@host:o/app.git"))
    done = store.agents.import_data(pi, data)
    (row,) = store.sessions()
    assert (row.identity, row.project) == ("remote:host/o/app", str(tmp_path / "app"))
    assert store.agents.import_data(pi, data).moves == ()
    assert store.export(done.session).data == data


def test_known_project_survives_a_missing_folder_and_follows_its_remote(tmp_path: Path):
    folder = repository(tmp_path / "app", "git@host:o/app.git")
    data = held_in(folder)
    for change in ("gone", "renamed"):
        with Store.create(tmp_path / f"{change}.git", clock=Clock()) as store:
            store.agents.import_data(pi, data)
        if change == "renamed":
            git(folder, "remote", "set-url", "origin", "https://host/o/new")
        else:
            folder.rename(tmp_path / "away")
        with Store.open(tmp_path / f"{change}.git") as store:
            moved = store.agents.import_data(pi, data).moves
            (row,) = store.sessions()
            assert (row.identity, len(moved)) == (
                ("remote:host/o/app", 0) if change == "gone" else ("remote:host/o/new", 1)
            )
            assert_clean(store.objects)
        if change == "gone":
            (tmp_path / "away").rename(folder)


def test_machine_without_the_folder_gets_the_same_id_and_entries(tmp_path: Path):
    folder = repository(tmp_path / "app", "git@host:o/app.git")
    leaves = []
    for name in ("here", "there"):
        with Store.create(tmp_path / f"{name}.git", clock=Clock()) as store:
            sid = store.agents.import_data(pi, held_in(folder)).session
            leaves.append((sid, store.session(sid).branches()))
        folder.rename(tmp_path / "away") if folder.exists() else None
    assert leaves[0] == leaves[1]


def test_a_session_of_our_own_belongs_to_its_folders_project(store: Store, tmp_path: Path):
    folder = repository(tmp_path / "app", "git@host:o/app.git")
    store.new_session(agent="mine", cwd=str(folder)).append(Message.user("hello"))
    assert store.sessions()[0].identity == "remote:host/o/app"


def test_index_can_be_rebuilt(store: Store, tmp_path: Path):
    store.agents.import_data(pi, held_in(repository(tmp_path / "app", "git@host:o/app.git")))
    before = store.sessions()
    catalogue = store.catalogue()
    catalogue.reset()
    assert store.sessions() == before


def at(store: Store, folder: Path, address: str = "@") -> str | None:
    session = store.session(address, cwd=str(folder))
    row = store.catalogue().session(session.id)
    assert row is not None
    return row.source_id


def test_newest_session_in_a_new_worktree_is_that_of_the_project(store: Store, tmp_path: Path):
    app = repository(tmp_path / "app", "git@host:o/app.git")
    for number, folder in enumerate((app, repository(tmp_path / "other", "git@host:o/other.git"), tmp_path)):
        store.agents.import_data(pi, pi_file(said("u", None, at=number + 1), id=f"s{number}", cwd=str(folder)))
    git(app, "worktree", "add", "-q", str(tmp_path / "fresh"))
    (tmp_path / "fresh/below").mkdir()
    assert [at(store, tmp_path / folder) for folder in ("app", "fresh/below", "other", ".")] == ["s0", "s0", "s1", "s2"]
    assert at(store, tmp_path / "fresh", "-") == "s2"
    store.agents.import_data(pi, held_in(tmp_path / "fresh", id="s3"))
    assert [at(store, tmp_path / folder) for folder in ("app", "fresh/below")] == ["s0", "s3"]


def test_session_in_a_top_level_folder_belongs_to_that_folder_only(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch") + "/")
    shared_folders = (Path("/"), Path("/tmp"), Path.home(), tmp_path / "scratch")
    for number, folder in enumerate(shared_folders):
        store.agents.import_data(pi, held_in(folder, id=f"s{number}"))
    for number, folder in enumerate(shared_folders):
        assert at(store, folder) == f"s{number}"
        with pytest.raises(NotFound, match="no session in"):
            at(store, folder / "work/app")
    store.agents.import_data(pi, held_in(tmp_path / "scratch/work", id="s4"))
    assert at(store, tmp_path / "scratch/work/app") == "s4"


def test_ls_and_search_find_all_of_a_project_wherever_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("GITSESSION_DIR", str(tmp_path / "store.git"))
    one = repository(tmp_path / "one", "git@host:o/app.git")
    two = repository(tmp_path / "two/app", "https://u:p@host/o/app")
    other = repository(tmp_path / "other", "https://host/o/other")
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        for number, folder in enumerate((one, two, other)):
            store.agents.import_data(pi, held_in(folder, id=f"s{number}"))
    two.rename(tmp_path / "moved")

    def asked(*words: str) -> list[str]:
        assert command_line.run((*words, "--json")) == 0
        document = json.loads(capfd.readouterr().out)
        rows = document.get("sessions") or document["hits"]
        return sorted({Path(row["project"]).name for row in rows})

    for project in (str(one), str(tmp_path / "moved"), "host/o/app"):
        assert asked("ls", "--project", project) == ["app", "one"]
        assert asked("search", "words", "--project", project) == ["app", "one"]
    assert asked("ls", "--project", str(other)) == ["other"]


def test_on_another_machine_the_start_page_and_ls_here_list_the_sessions_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("GITSESSION_DIR", str(tmp_path / "store.git"))
    elsewhere = repository(tmp_path / "elsewhere", "git@host:o/app.git")
    other = repository(tmp_path / "other", "git@host:o/other.git")
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        for number, folder in enumerate((elsewhere, other)):
            store.agents.import_data(pi, held_in(folder, id=f"s{number}"))
    monkeypatch.chdir(repository(tmp_path / "here/app", "https://host/o/app"))
    assert command_line.run(()) == 0
    assert "1 of this folder or its project" in capfd.readouterr().out
    assert command_line.run(("ls", "--here", "--json")) == 0
    assert [row["source_id"] for row in json.loads(capfd.readouterr().out)["sessions"]] == ["s0"]


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_lists_fit_into_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], columns: int
):
    monkeypatch.setenv("GITSESSION_DIR", str(tmp_path / "store.git"))
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.chdir(tmp_path)
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        store.new_session(agent="librecode", cwd=str(tmp_path)).append(Message.user("word " * 60))
    for words in ((), ("ls",)):
        assert command_line.run(words) == 0
        lines = capfd.readouterr().out.splitlines()
        assert max(len(line) for line in lines if str(tmp_path) not in line) <= columns, words


def test_pipe_as_the_file_of_the_declared_name_does_not_block(tmp_path):
    os.mkfifo(tmp_path / ".gitsession-project")
    assert identity_of(tmp_path) is None
