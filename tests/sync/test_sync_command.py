"""Tests of the commands for remotes, sync and bundles: their output, and that their hints work when pasted."""

from __future__ import annotations

import io
import itertools
import json
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from builders import header, said
from commands import Run
from raw import git
from remotes import hub

from gitsession import Message, Store
from gitsession.cli.commands import remotes
from gitsession.cli.commands.remotes import Progress
from gitsession.git import process
from gitsession.index import update
from gitsession.sync.transport import TransportOptions

KEY = "AKIA" + "Z3KQ7XJ2M5TB6WPL"  # joined here, so that this file does not seem to contain a key


@pytest.fixture
def here(here: Path) -> Path:
    """Create a working directory with a hub."""
    hub(here / "hub.git")
    return here


def imported(run: Run, here: Path, *texts: str, name: str = "0199-abcd") -> str:
    """Import a session of pi with ``texts`` and return its id."""
    lines = [said(f"aaaa{at:04}", f"aaaa{at - 1:04}" if at else None, text, at=at + 1) for at, text in enumerate(texts)]
    (here / f"{name}.jsonl").write_bytes(b"\n".join([header(name, cwd=str(here)), *lines]) + b"\n")
    told: str = json.loads(run("import", f"{name}.jsonl", "--json"))["sessions"][0]["session"]
    return told


def keep_secrets(run: Run) -> None:
    run("init")
    with Store.open() as store:
        git(store.objects.git_dir, "config", "gitsession.redact", "false")


# ---- remotes


def test_remotes_are_listed_by_either_command(run: Run) -> None:
    run("remote", "add", "origin", "hub.git", "--all")
    assert run("remote", "list") == run("remote")
    assert run("remote", "list", "--json") == run("remote", "--json")


def test_hint_names_a_remote_that_is_not_home(run: Run) -> None:
    assert "`gitsession sync`" in run("remote", "add", "origin", "hub.git", "--all")
    assert "`gitsession sync other`" in run("remote", "add", "other", "hub.git")


def test_removed_remote_is_in_the_json_output(run: Run, here: Path) -> None:
    run("remote", "add", "origin", "hub.git", "--all")
    told = json.loads(run("remote", "remove", "origin", "--json"))
    assert [remote["name"] for remote in told["remotes"]] == ["origin"]
    assert run("remote", code=1) == ""


def test_session_in_place_of_the_remote_is_explained(run: Run, here: Path) -> None:
    sid = imported(run, here, "hi")
    run("remote", "add", "origin", "hub.git", "--all")
    assert "`gitsession push REMOTE SESSION`" in run("push", sid, code=3, err=True)


# ---- output of sync


def test_a_session_without_a_title_is_called_by_its_first_words(run: Run, here: Path) -> None:
    sid = imported(run, here, "Fix the login redirect")
    run("remote", "add", "origin", "hub.git", "--all")
    assert f"{sid}/main  Fix the login redirect" in run("sync")


def test_long_sync_output_is_shortened(run: Run, here: Path, monkeypatch) -> None:
    monkeypatch.setattr(remotes, "_SHOWN", 2)
    for number in range(3):
        imported(run, here, "hi", name=f"0199-{number}")
    run("remote", "add", "origin", "hub.git", "--all")
    told = run("sync").splitlines()
    assert sum(line.startswith("sent ") for line in told) == 2
    assert re.fullmatch(r"\.\.\. and \d+ more; --json lists all", told[2])


@pytest.mark.parametrize(
    ("most", "more"), [(6, []), (5, ["... and 3 more sessions"]), (3, ["... and 3 more sessions"])]
)
def test_long_plan_is_shortened_and_counts_each_project(
    run: Run, here: Path, monkeypatch: pytest.MonkeyPatch, most: int, more: list[str]
) -> None:
    monkeypatch.setattr(remotes, "_SHOWN", most)
    run("init")
    with Store.open() as store:
        for number in range(6):
            store.new_session(agent="me", cwd=f"/project-{number // 2}").append(Message.user("hi"))
    run("remote", "add", "origin", "hub.git")
    for told in (run("sync", "--dry-run"), run("push", code=4, err=True)):
        lines = told.splitlines()
        projects = [line for line in lines if line.startswith("/")]
        assert projects == [f"/project-{number}: 2 sessions" for number in range(3)]
        assert [line.split()[1:] for line in lines if line.startswith("  20")] == [["me", "hi"]] * (most // 3 * 3)
        assert [line.partition(";")[0] for line in lines if line.startswith("...")] == more
    command = re.search(r"`gitsession (sync origin --dry-run --json)` lists all", told)
    assert bool(command) == bool(more)
    if command:
        assert len(json.loads(run(*command[1].split()))["sessions"]) == 6


def test_projects_of_a_plan_are_shortened(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remotes, "_SHOWN", 1)
    run("init")
    with Store.open() as store:
        for number in range(3):
            store.new_session(agent="me", cwd=f"/project-{number}").append(Message.user("hi"))
    run("remote", "add", "origin", "hub.git")
    lines = run("sync", "--dry-run").splitlines()
    assert (
        lines[3] == "... and 2 more projects" and lines[4].startswith("... and 2 more sessions; ") and len(lines) == 5
    )


def test_report_reads_only_the_newest_sessions_for_their_titles(
    run: Run, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remotes, "_SHOWN", 2)
    monkeypatch.setattr(update, "SESSIONS", 2)
    days = itertools.count(1)
    with Store.create(tmp_path / "other.git", clock=lambda: next(days) * 86_400_000) as other:
        for number in range(9):
            other.new_session(agent="me", cwd="/p").append(Message.user(f"prompt {number}"))
        newest = other.sessions()[0].sid
        other.remotes.add("origin", str(here / "hub.git"), all=True)
        other.remotes.sync()
    run("init")
    run("remote", "add", "origin", "hub.git", "--all")
    told = run("pull").splitlines()
    assert told[:2] == [f"new       {newest}/main  prompt 8", f"new       {newest}/meta"]
    assert told[2].startswith("... and 16 more")
    with Store.open() as store:
        assert 2 <= len(store.catalogue(fresh=False).sessions()) < 9


def test_changes_of_the_archive_are_announced_and_reported(run: Run, here: Path, tmp_path: Path) -> None:
    sids = [imported(run, here, "hi", name=f"0199-{number}") for number in range(3)]
    run("remote", "add", "origin", "hub.git", "--all")
    run("sync")
    run("--store", str(tmp_path / "other.git"), "clone", "hub.git", str(tmp_path / "other.git"))
    run("archive", *sids[:2])
    announced = "a push would update the archive of origin, and remove the refs of archived sessions there\n"
    assert run("sync", "--dry-run") == announced
    assert json.loads(run("sync", "--dry-run", "--json"))["updates_archive"] is True
    run("sync")
    assert "would" not in run("sync", "--dry-run")
    told = run("--store", str(tmp_path / "other.git"), "sync")
    assert "          2 sessions archived: `gitsession ls --archived`\n" in told
    told = run("--store", str(tmp_path / "third.git"), "clone", "hub.git", str(tmp_path / "third.git"))
    assert told.endswith(": 1 session\n2 sessions archived: `gitsession ls --archived`\n")
    run("restore", sids[0])
    run("sync")
    assert "          1 session restored\n" in run("--store", str(tmp_path / "other.git"), "sync")


def test_rm_of_an_archived_session_does_not_restore_it(run: Run, here: Path) -> None:
    sid = imported(run, here, "hi")
    run("archive", sid)
    told = run("rm", sid, code=3, err=True)
    assert f"session {sid} is in the archive" in told and f"`gitsession restore {sid}`" in told
    assert "is in the archive" in run("archive", sid, code=3, err=True)
    assert sid in run("ls", "--archived")
    run("restore", sid)
    run("rm", sid)
    assert sid in run("ls", "--trash")


def test_push_without_changes_prints_that(run: Run, here: Path) -> None:
    imported(run, here, "hi")
    run("remote", "add", "origin", "hub.git", "--all")
    run("push")
    assert run("push") == "origin: nothing to do\n"


def test_purge_published_by_a_sync_is_reported(run: Run, here: Path) -> None:
    imported(run, here, "hi", "what nobody should read", "bye")
    run("remote", "add", "origin", "hub.git", "--all")
    run("sync")
    run("server", "install", "hub.git")
    run("purge", "--match", "what nobody should read", "--yes")
    assert "sent      gitsession/tombstones" in run("sync")


def test_the_hint_of_a_ref_that_was_held_back_can_be_pasted(run: Run, here: Path) -> None:
    keep_secrets(run)
    imported(run, here, f"the key is {KEY}")
    run("remote", "add", "origin", "hub.git", "--all")
    hint = re.search(r"`(gitsession gate allow [^`]*)`", run("sync", code=6))
    assert hint
    run(*shlex.split(hint[1])[1:])
    run("sync")


def test_held_back_session_sends_no_refs_that_a_clone_cannot_use(run: Run, here: Path) -> None:
    keep_secrets(run)
    imported(run, here, f"the key is {KEY}")
    run("remote", "add", "origin", "hub.git", "--all")
    run("sync", code=6)
    run("clone", "hub.git", "other.git")
    assert run("--store", "other.git", "verify").splitlines()[-1].endswith("0 problems")


def test_progress_of_git_and_the_outcome_of_each_ref_are_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        pass

    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    progress = Progress()
    for words in (
        b"Receiving objects:  50% (1/2)\rReceiv", b"ing objects: 100% (2/2), done.\nFrom /srv/h", b"ub\n",
        b" * [new branch]   sessions/a/main -> origin/sessions/a/main\n   0a1..2b3  main -> origin/main\n",
        b"remote: Welcome to the hub\nfatal: it went wrong\n",
    ):  # fmt: skip
        progress(words)
    assert screen.getvalue() == (
        "Receiving objects:  50% (1/2)\rReceiving objects: 100% (2/2), done.\nremote: Welcome to the hub\n"
    )


def test_git_has_nothing_to_warn_of(run: Run, here: Path) -> None:
    """Git warns about an unknown setting, and a progress callback receives the warning."""
    imported(run, here, "hi")
    run("remote", "add", "origin", "hub.git", "--all")
    run("sync")
    told: list[bytes] = []
    with Store.open() as store:
        store.remotes.sync(transport=TransportOptions(told.append))
    assert b"warning" not in b"".join(told)


# ---- bundles


def test_session_with_a_purged_entry_can_be_bundled(run: Run, here: Path) -> None:
    sid = imported(run, here, "hi", "what nobody should read", "bye")
    imported(run, here, "another", name="0199-ffff")
    run("purge", "--match", "what nobody should read", "--yes")
    run("bundle", "create", "one.bundle", sid)
    assert "refused" not in run("--store", "other.git", "bundle", "take", "one.bundle")
    listed = json.loads(run("--store", "other.git", "ls", "--json"))["sessions"]
    assert [session["session"] for session in listed] == [sid]
    assert run("--store", "other.git", "verify").splitlines()[-1].endswith("0 problems")


def test_half_a_bundle_is_called_that(run: Run, here: Path) -> None:
    imported(run, here, "hi")
    run("bundle", "create", "all.bundle")
    whole = (here / "all.bundle").read_bytes()
    (here / "half.bundle").write_bytes(whole[: len(whole) // 2])
    complaint = run("--store", "other.git", "bundle", "take", "half.bundle", code=4)
    assert "half.bundle': it is not a complete bundle" in complaint
    (here / "no.bundle").write_bytes(b"hello\n")
    assert "it is not a complete bundle" in run(
        "--store", "other.git", "bundle", "take", "no.bundle", code=75, err=True
    )


# ---- wording


def test_documents_are_named_without_blanks(run: Run, here: Path) -> None:
    imported(run, here, "hi")
    subprocess.run(["git", "init", "-q", "code"], check=True)
    for words in (
        ("gate", "install", "--json"), ("gate", "uninstall", "--json"), ("link", "enable", "code", "--json"),
        ("link", "disable", "code", "--json"), ("server", "install", "hub.git", "--json"),
        ("server", "status", "hub.git", "--json"), ("server", "uninstall", "hub.git", "--json"),
    ):  # fmt: skip
        assert re.fullmatch(r"gitsession/[a-z-]+/1", json.loads(run(*words))["schema"])


@pytest.mark.parametrize("group", ["bundle", "gate", "link", "server"])
def test_command_groups_describe_their_commands_in_full(run: Run, group: str) -> None:
    told = run(group, code=2, err=True)
    assert told.startswith("Usage: ")
    assert "..." not in told.partition("Commands:")[2]


# ---- selection of sessions


def seen_at(here: Path) -> set[str]:
    """Return the sessions that the hub has."""
    told = git(here / "hub.git", "for-each-ref", "--format=%(refname)", "refs/heads/sessions")
    return {name.split("/")[3] for name in told.splitlines()}


def test_the_first_sync_lists_sessions_by_project_and_sends_nothing_unasked(run: Run, here: Path) -> None:
    sid = imported(run, here, "Fix the login redirect")
    run("remote", "add", "origin", "hub.git")
    told = run("sync", code=4, err=True)
    assert f"{here}: 1 session" in told
    assert sid in told
    assert "cannot ask for confirmation: standard input is not a terminal" in told
    assert "pass --yes (nothing was changed)" in told
    assert run("push", code=4) == ""
    assert seen_at(here) == set()
    run("sync", "--yes")
    assert seen_at(here) == {sid}
    more = imported(run, here, "Another", name="0199-bbbb")
    run("sync")
    assert seen_at(here) == {sid, more}


def test_dry_run_of_sync_lists_outgoing_sessions(run: Run, here: Path) -> None:
    sid = imported(run, here, "Fix the login redirect")
    run("remote", "add", "origin", "hub.git")
    assert sid in run("sync", "--dry-run")
    [session] = json.loads(run("sync", "--dry-run", "--json"))["sessions"]
    assert (session["session"], session["project"], session["agent"]) == (sid, str(here), "pi")
    assert seen_at(here) == set()
    run("sync", "--yes")
    assert run("sync", "--dry-run") == "origin: nothing to send (the remote was not contacted)\n"


@pytest.mark.parametrize("limit", [("--project", "."), ("--agent", "pi"), ("--label", "team")])
def test_sessions_outside_of_the_scope_are_never_sent(run: Run, here: Path, limit: tuple[str, str]) -> None:
    sid = imported(run, here, "Fix the login redirect")
    run("label", f"{sid}@leaf", "team")
    with Store.open() as store:
        private = store.new_session(agent="other", cwd="/elsewhere")
        private.append(Message.user("private"))
    run("remote", "add", "origin", "hub.git", *limit)
    assert limit[0].removeprefix("--") in run("remote")
    for command in (["sync", "--yes"], ["sync"], ["push"]):
        run(*command)
        assert seen_at(here) == {sid}
    assert "outside the scope" in run("push", "origin", private.id, code=4, err=True)
    assert seen_at(here) == {sid}


def test_a_session_that_the_remote_has_stays_in_step(run: Run, here: Path) -> None:
    sid = imported(run, here, "Fix the login redirect")
    with Store.open() as store:
        store.remotes.add("origin", str(here / "hub.git"), agents=["pi"])
        private = store.new_session(agent="other", cwd=str(here))
        private.append(Message.user("private"))
        store.remotes.sync()
        assert seen_at(here) == {sid}
        store.archive.put(private.id)
        store.remotes.sync()
        assert "gitsession/archive" not in git(here / "hub.git", "for-each-ref")
        store.session(sid).append(Message.user("goes along"))
        store.remotes.sync()
        assert store.remotes.plan_push().sessions == ()
        store.archive.put(sid)
        store.remotes.sync()
        assert "private" not in git(here / "hub.git", "log", "--all", "--format=%s")


def test_new_remote_with_the_name_of_a_removed_one_counts_as_empty(run: Run, here: Path) -> None:
    sid = imported(run, here, "Fix the login redirect")
    run("remote", "add", "origin", "hub.git")
    run("sync", "--yes")
    run("remote", "remove", "origin")
    hub(here / "other.git")
    run("remote", "add", "origin", "other.git")
    told = run("sync", code=4, err=True)
    assert "would send 1 session" in told and sid in told
    assert json.loads(run("sync", "--dry-run", "--json"))["sessions"][0]["session"] == sid
    run("remote", "remove", "origin")
    run("remote", "add", "origin", "hub.git")
    assert "unchanged" in run("sync", "--yes")


def test_checkpoints_of_a_session_that_no_list_has_are_not_sent_without_asking(run: Run, here: Path) -> None:
    sid = imported(run, here, "Fix the login redirect")
    run("checkpoint", sid, "--workspace", str(here))
    run("remote", "add", "origin", str(here / "hub.git"))
    with Store.open() as store, store.objects.transaction() as transaction:  # as after the undo of an import
        for name, value in store.objects.refs(f"refs/heads/sessions/{sid}/").items():
            if not name.endswith("/files"):
                transaction.move(name, None, expected=value)
    told = run("sync", code=4, err=True)
    assert "would send 1 session" in told and sid in told
    assert "cannot ask for confirmation" in told
    assert git(here / "hub.git", "for-each-ref") == ""
    assert json.loads(run("sync", "--dry-run", "--json"))["unlisted"] == [sid]
    run("sync", "--yes")


@pytest.mark.parametrize("address", ["ht!tp://x", "://x", "https://", "1http://x"])
def test_invalid_remote_address_is_rejected(run: Run, address: str) -> None:
    assert "it is not a URL" in run("remote", "add", "bad", address, code=2, err=True)
    assert "bad" not in run("remote", code=1)


@pytest.mark.parametrize(
    ("address", "why"), [("user@host", "it has no path"), ("ext::sh -c id", "it names a program to run")]
)
def test_invalid_repository_address_is_rejected(run: Run, here: Path, address: str, why: str) -> None:
    told = run("remote", "add", "bad", address, code=2, err=True)
    assert f"cannot use {address!r} as a repository: {why}" in told
    assert "bad" not in run("remote", code=1)
    (here / "user@host").mkdir()
    run("remote", "add", "folder", "user@host", "--all")


def test_a_path_without_a_repository_is_named_with_the_command_that_makes_one(run: Run, here: Path) -> None:
    told = run("remote", "add", "origin", "no where", err=True)
    assert f"there is no repository at {here}/no where yet" in told
    hint = re.search(r"`(git init [^`]*)`", told)
    assert hint
    subprocess.run(shlex.split(hint[1]), check=True, capture_output=True)
    assert run("remote", "add", "again", "no where", err=True) == ""
    assert run("remote", "add", "url", f"file://{here}/hub.git", err=True) == ""
    assert run("remote", "add", "elsewhere", "user@host:path", err=True) == ""


def test_a_scope_that_matches_nothing_is_named(run: Run, here: Path) -> None:
    imported(run, here, "hi")
    told = run("remote", "add", "bad", "hub.git", "--agent", "nobody", code=3, err=True)
    assert "cannot add remote 'bad': unknown agent 'nobody'" in told
    assert "codex" in told
    assert "bad" not in run("remote", code=1)
    told = run("remote", "add", "odd", "hub.git", "--project", "/no/where", "--label", "l", "--agent", "pi", err=True)
    assert "no session matches --project /no/where now" in told
    assert "no session matches --label l now" in told
    assert "--agent" not in told
    assert run("remote", "add", "good", "hub.git", "--project", ".", err=True) == ""


def test_the_hint_of_several_remotes_can_be_pasted(run: Run, here: Path) -> None:
    for name in ("one", "two"):
        run("remote", "add", name, "hub.git", "--all")
    hint = re.search(r"`gitsession (git config [^`]*)`", run("sync", code=3, err=True))
    assert hint
    words = hint[1].replace("NAME", "two").split()
    subprocess.run([sys.executable, "-m", "gitsession", *words], check=True)  # the process is replaced by git
    assert "two: nothing to do" in run("push")


def test_a_scope_is_either_all_or_limited(run: Run) -> None:
    run("remote", "add", "origin", "hub.git", "--all", "--agent", "pi", code=4)
    assert json.loads(run("remote", "--json", code=1))["remotes"] == []


# ---- clones of repositories that are not stores


def closed_port() -> int:
    """Return a port of this machine on which no process listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


NAME_ONE = "pass the path or URL of a store, or of a repository that sessions were pushed to"
NO_CLONE = {
    "a missing path": ("missing", 75, "cannot clone '{here}/missing': it was not found: no such folder", NAME_ONE),
    "a missing path as a URL": (
        "file://{here}/missing", 75, "cannot clone 'file://{here}/missing': it was not found: no such folder", NAME_ONE,
    ),
    "an empty folder": (
        "empty", 75, "cannot clone '{here}/empty': it was not found: the folder is not a git repository", NAME_ONE,
    ),
    "a file": (
        "a.txt", 75, "cannot clone '{here}/a.txt': it is a file, but neither a repository nor a bundle", NAME_ONE,
    ),
    "code": (
        "code", 4, "cannot clone '{here}/code': it is not a store of sessions: it has the branch 'trunk'",
        "if it contains code, pass --namespace gitsession to `gitsession remote add` or `gitsession clone`",
    ),
    "nothing": (
        "", 2, "cannot use '' as a repository: it is empty",
        "pass a folder, or a URL such as https://HOST/PATH or ssh://HOST/PATH",
    ),
    "no URL": (
        "ht!tp://x", 2, "cannot use 'ht!tp://x' as a repository: it is not a URL",
        "pass a folder, or a URL such as https://HOST/PATH or ssh://HOST/PATH",
    ),
    "an unknown scheme": (
        "foo://x/y", 75, "cannot clone 'foo://x/y': it has a URL with a scheme that git does not support: foo",
        "use a URL with https, ssh or file",
    ),
    "an address that nobody listens at": (
        "http://user:secret@127.0.0.1:{port}/x", 75, "cannot clone 'http://127.0.0.1:{port}/x': it cannot be reached: ",
        "try again when you are online (no store was created)",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("url", "code", "says", "hint"), NO_CLONE.values(), ids=NO_CLONE)
def test_clone_of_another_repository_explains_the_error(
    url: str, code: int, says: str, hint: str, run: Run, here: Path
) -> None:
    (here / "empty").mkdir()
    (here / "a.txt").write_text("words")
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", "init", "-q", "-b", "trunk", "code"], check=True)
    subprocess.run(["git", *who, "-C", "code", "commit", "-q", "--allow-empty", "-m", "code"], check=True)
    before = sorted(path.name for path in here.iterdir())
    port = closed_port()
    told = run("clone", url.format(here=here, port=port), "out.git", code=code, err=True)
    first, second = told.splitlines()
    assert first.startswith(f"error: {says.format(here=here, port=port)}")
    assert second == f"hint: {hint}"
    assert ".tmp" not in told and "origin" not in told and "secret" not in told
    assert sorted(path.name for path in here.iterdir()) == before


def test_clone_of_an_empty_repository_prints_how_to_continue(run: Run, here: Path) -> None:
    subprocess.run(["git", "init", "-q", "--bare", "plain.git"], check=True)
    told = run("clone", "plain.git", "out.git").splitlines()
    assert told == [
        "created a store at out.git: 0 sessions",
        "the remote has no sessions yet: `gitsession sync` sends yours",
    ]


def test_killed_git_during_a_clone_is_reported_without_the_temporary_folder(
    run: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*words: object, **how: object) -> process.ProcessResult:
        return process.ProcessResult(-9, b"", f"Cloning into bare repository '{words[-1]}'...\n".encode())

    monkeypatch.setattr(process, "run_transfer", killed)
    told = run("clone", "hub.git", "out.git", code=75, err=True)
    assert told == (
        f"error: cannot clone '{here}/hub.git': it cannot be used now: git was killed\n"
        "hint: try again (no store was created)\n"
    )
