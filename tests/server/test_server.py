"""Tests of ``server install`` and ``uninstall`` on a bare repository, and of the hooks except for validation."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from builders import assert_clean, bring, fork, pi_file, session, talk
from purged import SECRET, find, keys, purge, traces, whole
from pushed import Client, bare, everything_in, hub, push, user

from gitsession.cli import app as command_line
from gitsession.cli.invocation import runner
from gitsession.errors import NotAStore, Refused
from gitsession.git import hook_files
from gitsession.model.entries import Message, SessionHeader
from gitsession.purge import purging
from gitsession.server import receive, server
from gitsession.sessions import tombstone_set
from gitsession.store import create, refs
from gitsession.store.git_store import GitStore
from gitsession.validation.validate import is_allowed

SESSIONS = "refs/heads/sessions/*:refs/heads/sessions/*"
GONE = f"{refs.TOMBSTONES}:{refs.TOMBSTONES}"


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client.begin(tmp_path / "store.git")


def git(repository: Path, *words: str) -> str:
    done = subprocess.run(["git", f"--git-dir={repository}", *words], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.strip()


def hook(repository: Path, name: str, text: str) -> Path:
    place = repository / "hooks" / name
    place.write_text(f"#!/bin/sh\n{text}\n")
    place.chmod(0o755)
    return place


def state_of(repository: Path) -> tuple[str, dict[str, bytes]]:
    hooks = {path.name: path.read_bytes() for path in (repository / "hooks").iterdir() if path.suffix != ".sample"}
    return (repository / "config").read_text(), hooks


# ---- installation


def test_empty_repository_becomes_a_server_that_can_be_cloned(tmp_path: Path) -> None:
    place = hub(tmp_path / "hub.git")
    assert server.status(place).is_installed
    subprocess.run(["git", "clone", "-q", "--bare", str(place), str(tmp_path / "clone.git")], check=True)
    GitStore.open(tmp_path / "clone.git").close()


def test_installing_twice_does_nothing_the_second_time(tmp_path: Path) -> None:
    place = bare(tmp_path / "hub.git")
    assert server.install(place, runner())
    before = state_of(place)
    assert server.install(place, runner()) == []
    assert state_of(place) == before


def test_uninstalling_brings_back_hooks_and_settings(tmp_path: Path) -> None:
    place = bare(tmp_path / "hub.git")
    git(place, "config", "receive.denyDeletes", "false")
    git(place, "config", "receive.hideRefs", "refs/secret")
    git(place, "config", "user.name", "Somebody")
    hook(place, "pre-receive", "exit 0")
    settings = dict(line.split("=", 1) for line in git(place, "config", "--list", "--local").splitlines())
    hooks = state_of(place)[1]
    server.install(place, runner())
    assert git(place, "config", "--get-all", "receive.hideRefs").split() == ["refs/secret", "refs/gitsession"]
    server.uninstall(place)
    after = dict(line.split("=", 1) for line in git(place, "config", "--list", "--local").splitlines())
    assert (after, state_of(place)[1]) == (settings, hooks)
    assert not server.status(place).is_installed


def test_settings_changed_after_the_installation_are_kept(tmp_path: Path) -> None:
    place = hub(tmp_path / "hub.git")
    git(place, "config", "receive.denyDeletes", "maybe")
    server.uninstall(place)
    assert git(place, "config", "receive.denyDeletes") == "maybe"
    assert git(place, "config", "receive.denyNonFastForwards") == ""


def test_existing_hook_runs_first_and_may_reject(tmp_path: Path, client: Client) -> None:
    place = bare(tmp_path / "hub.git")
    hook(place, "pre-receive", f'cat > "{tmp_path}/told"; echo "not today" >&2; exit 1')
    server.install(place, runner())
    done = push(client.path, place, SESSIONS)
    assert "not today" in done.stderr
    assert done.returncode == 1
    assert len((tmp_path / "told").read_text().splitlines()) == 3
    hook(place, "pre-receive.local", f'cat > "{tmp_path}/told"')
    assert push(client.path, place, SESSIONS).returncode == 0


def test_existing_hook_runs_after_the_validation(tmp_path: Path, client: Client) -> None:
    place = bare(tmp_path / "hub.git")
    hook(place, "post-receive", f'cat > "{tmp_path}/told"')
    server.install(place, runner())
    assert push(client.path, place, SESSIONS).returncode == 0
    assert client.ref() in (tmp_path / "told").read_text()


def test_a_hook_of_an_older_release_is_renewed_and_not_kept(tmp_path: Path) -> None:
    place = hub(tmp_path / "hub.git")
    hook(place, "pre-receive", "# gitsession: older")
    assert server.status(place).hooks["pre-receive"] == hook_files.OLDER
    server.install(place, runner())
    assert server.status(place).is_installed
    assert not hook_files.has_local_hook(place / "hooks", "pre-receive")


def test_two_other_hooks_are_one_too_many(tmp_path: Path) -> None:
    place = bare(tmp_path / "hub.git")
    hook(place, "pre-receive", "exit 0")
    hook(place, "pre-receive.local", "exit 1")
    before = state_of(place)[1]
    with pytest.raises(Refused, match=r"'pre-receive\.local' exists"):
        server.install(place, runner())
    assert state_of(place)[1] == before


def test_interrupted_installation_can_be_repeated(tmp_path: Path) -> None:
    place = bare(tmp_path / "hub.git")
    hook(place, "pre-receive", "exit 7")
    os.link(place / "hooks/pre-receive", place / "hooks/pre-receive.local")
    server.install(place, runner())
    assert (place / "hooks/pre-receive.local").read_text() == "#!/bin/sh\nexit 7\n"
    assert server.status(place).is_installed


NO_SERVERS = {
    "no folder": lambda at: None,
    "a folder": lambda at: at.mkdir(),
    "a repository with a working tree": lambda at: subprocess.run(["git", "init", "-q", str(at)], check=True),
    "a repository of SHA-256": lambda at: subprocess.run(
        ["git", "init", "-q", "--bare", "--object-format=sha256", str(at)], check=True
    ),
}


@pytest.mark.parametrize("make", NO_SERVERS.values(), ids=NO_SERVERS)
def test_unknown_repository_is_left_alone(tmp_path: Path, make) -> None:
    make(tmp_path / "it")
    with pytest.raises(NotAStore):
        server.install(tmp_path / "it", runner())


def test_hooks_that_lie_elsewhere_are_not_guessed(tmp_path: Path) -> None:
    place = bare(tmp_path / "hub.git")
    git(place, "config", "core.hooksPath", "/etc/hooks")
    with pytest.raises(Refused, match=r"/etc/hooks"):
        server.install(place, runner())


# ---- location of gitsession


def test_push_is_rejected_with_a_reason_if_gitsession_is_missing(tmp_path: Path, client: Client) -> None:
    place = hub(tmp_path / "hub.git")
    git(place, "config", "gitsession.program", "/nowhere/gitsession")
    before = everything_in(place)
    done = push(client.path, place, SESSIONS)
    assert done.returncode == 1
    assert "cannot validate the push" in done.stderr
    assert everything_in(place) == before
    assert not server.status(place).is_installed


@pytest.mark.parametrize("how", ["on the PATH", "as a module"])
def test_the_hooks_as_they_lie_in_the_source_find_gitsession(tmp_path, client, monkeypatch, how) -> None:
    """The hooks are copied by hand, without `install`.

    A store's folder `gitsession` must not be imported as the package.
    """
    place = tmp_path / "hub.git"
    create.create(place)
    GitStore.open(place).close()
    (place / "hooks").mkdir()
    for name in server.HOOKS:
        shutil.copy(Path(hook_files.__file__).parents[2] / "hooks" / name / name, place / "hooks" / name)
    programs = tmp_path / "bin"
    programs.mkdir()
    words = " ".join(f'"{word}"' for word in runner())
    shell = f'#!/bin/sh\necho "{how}" > "{tmp_path}/ran"\n'
    if how == "on the PATH":
        (programs / "gitsession").write_text(f'{shell}exec {words} "$@"\n')
    else:
        for name in ("sh", "cat", "git", "dirname"):
            (programs / name).symlink_to(shutil.which(name) or "")
        (programs / "python3").write_text(f'{shell}exec "{runner()[0]}" "$@"\n')
    for path in programs.iterdir():
        if not path.is_symlink():
            path.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs) if how == "as a module" else f"{programs}:{os.environ['PATH']}")
    done = push(client.path, place, SESSIONS)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "ran").read_text() == f"{how}\n"
    assert push(client.path, place, f"{client.leaf.oid}:refs/heads/feature").returncode == 1


LIMITS = {
    "no time": ("gitsession.maxSeconds", "0", "validation took longer than 0 s"),
    "one entry": ("gitsession.maxEntries", "1", "more than 1 new entries in one push"),
    "payloads of a byte": ("gitsession.maxPayloadBytes", "1", "[size]"),
    "a limit that is none": ("gitsession.maxNames", "many", "cannot validate the push"),
}


@pytest.mark.parametrize(("name", "value", "says"), LIMITS.values(), ids=LIMITS)
def test_the_owner_of_a_server_sets_its_limits(tmp_path: Path, client: Client, name, value, says) -> None:
    place = hub(tmp_path / "hub.git")
    git(place, "config", name, value)
    before = everything_in(place)
    bring(client.store, pi_file(*talk("a", "b")))
    client.store.flush()
    done = push(client.path, place, SESSIONS)
    assert says in done.stderr
    assert done.returncode == 1
    assert everything_in(place) == before
    git(place, "config", "--unset", name)
    assert push(client.path, place, SESSIONS).returncode == 0


# ---- stores, and repositories of code


def test_push_into_a_store_is_validated_against_its_pending_entries(tmp_path: Path, client: Client) -> None:
    place = tmp_path / "other.git"
    create.create(place)
    server.install(place, runner())
    assert push(client.path, place, SESSIONS).returncode == 0
    theirs = GitStore.open(place, flush_on_close=False)
    session(theirs, client.sid).append(Message.user("said there"))
    assert theirs.pending == 1
    session(client.store, client.sid).append(Message.user("said here"))
    client.store.flush()
    done = push(client.path, place, SESSIONS)
    assert "another push moved it" in done.stderr
    assert done.returncode == 1
    assert theirs.pending == 0
    assert theirs.renamed_branches == []


def test_repository_of_code_accepts_code_and_validates_sessions(tmp_path: Path, client: Client) -> None:
    place = bare(tmp_path / "code.git")
    code = client.git("commit-tree", "-m", "code", client.files(("100644", b"a.py", b"")))
    assert push(client.path, place, f"{code}:refs/heads/trunk").returncode == 0
    with pytest.raises(Refused, match="refs/heads/trunk"):
        server.install(place, runner())
    server.install(place, runner(), ["refs/heads/*", "refs/tags/*"])
    newer = client.git("commit-tree", "-m", "more code", "-p", code, client.files(("100644", b"b.py", b"")))
    done = push(client.path, place, f"{newer}:refs/heads/trunk", SESSIONS)
    assert done.returncode == 0, done.stderr
    done = push(client.path, place, f"{newer}:{client.ref('side')}")
    assert "not an entry" in done.stderr
    assert done.returncode == 1


def test_unvalidated_data_is_validated_when_a_session_reaches_it(tmp_path: Path, client: Client) -> None:
    place = bare(tmp_path / "code.git")
    server.install(place, runner(), ["refs/heads/*"])
    assert push(client.path, place, SESSIONS).returncode == 0
    root = client.entry(SessionHeader(at_ms=0, agent="agent", view=1))
    for before, ref in ((client.leaf, client.ref()), (root, refs.leaf("19700101-aaaaaaaaaaaaa"))):
        bad = client.entry(user(), before, old=b"user: more", new=b"user: less")
        assert push(client.path, place, f"{bad.oid}:refs/heads/innocent-{bad.oid}").returncode == 0
        done = push(client.path, place, f"{bad.oid}:{ref}")
        assert "the commit message does not match" in done.stderr
        assert done.returncode == 1


# ---- purged data


@pytest.fixture
def shared(tmp_path: Path) -> tuple[GitStore, GitStore, Path]:
    """Create two stores and a server with one session that contains a secret."""
    place = hub(tmp_path / "hub.git")
    client = Client.begin(tmp_path / "one.git")
    ours = session(client.store, client.sid)
    for words in (SECRET, "after"):
        ours.append(Message.user(words))
    client.store.flush()
    assert push(client.path, place, SESSIONS).returncode == 0
    shutil.copytree(client.path, tmp_path / "two.git")
    return client.store, GitStore.open(tmp_path / "two.git"), place


def main_of(store: GitStore) -> str:
    [found] = [name for name in store.refs(refs.SESSIONS) if name.endswith("/main")]
    return found


def test_pushed_purge_is_applied_on_the_server(shared) -> None:
    one, _, place = shared
    purge(one, find(one))
    done = push(one.git_dir, place, GONE)
    assert done.returncode == 0, done.stderr
    assert "the purge was also applied on this server" in done.stderr
    with GitStore.open(place) as there:
        assert there.refs(refs.SESSIONS) == one.refs(refs.SESSIONS)
        assert traces(there) == []
        assert_clean(there)
    assert push(one.git_dir, place, SESSIONS).stderr.strip() == "Everything up-to-date"


def test_purged_entry_is_not_restored_by_an_outdated_store(shared) -> None:
    one, two, place = shared
    purge(one, find(one))
    assert push(one.git_dir, place, GONE).returncode == 0
    session(two, session_of(two)).append(Message.user("stale"))
    copy = fork(session(two, session_of(two)))
    copy.append(Message.user("a fork of what was purged"))
    two.flush()
    before = everything_in(place)
    done = push(two.git_dir, place, f"{refs.session(copy.id)}*:{refs.session(copy.id)}*")
    assert "was purged: remove it from a store with `gitsession sync`" in done.stderr
    assert "[purged]" in done.stderr
    assert done.returncode == 1
    assert everything_in(place) == before


def test_purged_session_is_not_restored_by_another_branch(shared) -> None:
    one, two, place = shared
    sid = session_of(one)
    purging.add(one, whole(one, sid), 1000)
    assert push(one.git_dir, place, GONE).returncode == 0
    leaf = two.ref(refs.leaf(sid))
    done = push(two.git_dir, place, f"{leaf}:{refs.leaf(sid, 'side')}")
    assert f"session {sid} was purged" in done.stderr, done.stderr
    assert done.returncode == 1
    with GitStore.open(place) as there:
        assert traces(there) == []
    assert push(one.git_dir, place, SESSIONS).stderr.strip() == "Everything up-to-date"


def session_of(store: GitStore) -> str:
    return refs.session_of(main_of(store))


def test_purge_and_outdated_branch_in_one_push_are_rejected(shared) -> None:
    one, two, place = shared
    copy = fork(session(two, session_of(two)))
    copy.append(Message.user("a fork of what was purged"))
    two.flush()
    purge(one, find(one))
    done = subprocess.run(["git", f"--git-dir={two.git_dir}", "fetch", "-q", str(one.git_dir), f"+{GONE}"], check=True)
    assert done.returncode == 0
    done = push(two.git_dir, place, GONE, f"{refs.session(copy.id)}*:{refs.session(copy.id)}*")
    assert done.returncode == 1
    assert "[purged]" in done.stderr


def test_new_ref_to_an_unrewritten_history_is_rejected(shared) -> None:
    """The server was killed after it received the tombstone set and before it applied it."""
    one, two, place = shared
    tip = find(two).oid
    purge(one, find(one))
    (place / "hooks/post-receive").unlink()
    assert push(one.git_dir, place, GONE).returncode == 0
    done = push(two.git_dir, place, f"{tip}:{refs.leaf(session_of(two), 'side')}")
    assert "was not sent" in done.stderr  # git assumed that it still exists; the interrupted purge is completed first
    assert done.returncode == 1
    with GitStore.open(place) as there:
        assert traces(there) == []


def test_tombstone_set_only_grows(shared) -> None:
    one, _, place = shared
    target = find(one)
    said = keys(one, target)
    purge(one, target)
    assert push(one.git_dir, place, GONE).returncode == 0
    tip = one.ref(refs.TOMBSTONES)
    assert tip is not None
    empty = tombstone_set.add(one, None, keys(one, find(one, "after")), 1000)
    shrunk = put(one, empty, parent=tip)
    for value, rule in ((shrunk, "tombstones"), (put(one, empty), "rewind")):
        done = push(one.git_dir, place, f"+{value}:{refs.TOMBSTONES}")
        assert f"[{rule}]" in done.stderr, done.stderr
        assert done.returncode == 1
    done = push(one.git_dir, place, f":{refs.TOMBSTONES}")
    assert "[delete]" in done.stderr
    assert git(place, "rev-parse", refs.TOMBSTONES) == tip
    assert said


def put(store: GitStore, made: tombstone_set.Merged, parent: str = "") -> str:
    """Write a commit of a tombstone set, with ``parent`` as its parent if given. It is not validated."""
    client = Client(store, "")
    for kind, data in made.objects.values():
        client.put(kind, data)
    assert made.oid is not None
    if not parent:
        return made.oid
    data = made.objects[made.oid][1]
    return client.put("commit", data.replace(b"\nauthor", f"\nparent {parent}\nauthor".encode(), 1))


def test_set_with_other_files_is_rejected(shared) -> None:
    one, _, place = shared
    client = Client(one, session_of(one))
    for tree in (client.files(("100644", b"a", b"")), client.leaf.tree):
        commit = client.git("commit-tree", "-m", "1 purged", tree)
        done = push(one.git_dir, place, f"{commit}:{refs.TOMBSTONES}")
        assert "[tombstones]" in done.stderr, done.stderr
        assert done.returncode == 1


def test_tombstone_for_an_unpurged_entry_is_rejected(shared, tmp_path: Path) -> None:
    one, two, place = shared
    purge(one, find(one))
    copy = fork(session(one, session_of(one)))
    copy.append(Message.user("mine"))
    one.flush()
    done = push(one.git_dir, place, f"{refs.session(copy.id)}*:{refs.session(copy.id)}*")
    assert "which was not purged" in done.stderr
    assert done.returncode == 1
    assert two


def test_post_receive_hook_applies_a_purge_once(shared) -> None:
    one, _, place = shared
    purge(one, find(one))
    assert push(one.git_dir, place, GONE).returncode == 0
    packs = sorted(path.name for path in (place / "objects/pack").iterdir())
    applied = receive.post_receive(place)
    assert applied is not None
    assert applied.moved == ()
    assert sorted(path.name for path in (place / "objects/pack").iterdir()) == packs


# ---- the commands


def test_server_commands_print_their_actions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = str(bare(tmp_path / "hub.git"))
    assert command_line.run(["server", "status", place]) == 1
    assert "are not validated" in capsys.readouterr().out
    assert command_line.run(["server", "install", place]) == 0
    assert "hooks/pre-receive installed" in capsys.readouterr().out
    assert command_line.run(["server", "status", place, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["schema"], told["installed"], told["store"]) == ("gitsession/server-status/1", True, True)
    assert command_line.run(["server", "uninstall", place]) == 0
    assert "hooks/pre-receive removed" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["refs/heads/sessions", "refs/heads/gitsession"])
def test_allow_list_never_permits_a_branch_in_place_of_the_sessions(name: str) -> None:
    """git allows no branch below another branch. With such a branch, every session would be rejected."""
    assert not is_allowed(name, ["refs/heads/*", "refs/*"])
    assert is_allowed(f"{name}-too", ["refs/heads/*"])
