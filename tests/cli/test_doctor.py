"""Tests of doctor: its report about a store, and that each problem has a suggestion."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import Clock
from raw import git
from remotes import hub

from gitsession import Message, Store
from gitsession.cli import app as command_line
from gitsession.store import create, published, refs
from gitsession.sync import remotes
from gitsession.sync.scope import Scope

Run = Callable[..., str]
TOKEN = "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "store.git"
    monkeypatch.setenv("GITSESSION_STORE", str(made))
    Store.create(made).close()
    return made


@pytest.fixture
def run(path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    def run(*words: str, code: int = 0) -> str:
        capfdbinary.readouterr()
        ended = command_line.run(["--store", str(path), *words])
        out, complaint = capfdbinary.readouterr()
        assert ended == code, complaint.decode()
        return out.decode()

    return run


def line(told: str, what: str) -> str:
    """Return the line about ``what``, without its padding."""
    [found] = [line for line in told.splitlines() if line[4:].startswith(f"{what} ")]
    return " ".join(found.split())


def names(told: str) -> set[str]:
    return {line[4:16].strip() for line in told.splitlines()}


def talk(path: Path, *words: str) -> str:
    with Store.open(path, clock=Clock()) as store:
        said = store.new_session(agent="test")
        for word in words:
            said.append(Message.user(word))
        return said.id


def test_store_without_extras_has_no_such_lines(run: Run, path: Path) -> None:
    talk(path, "hello")
    beside = {"push", "archive", "trash", "vault", "purge", "server", "gate"}
    assert not any(name in beside or name.startswith("remote") for name in names(run("doctor")))


def test_doctor_lists_remotes_with_missing_refs(run: Run, path: Path, tmp_path: Path) -> None:
    sid = talk(path, "hello", "there")
    remotes.add(path, "origin", str(hub(tmp_path / "hub.git")), scope=Scope(is_all=True))
    assert line(run("doctor"), "remote origin").endswith("never contacted; 2 refs here: `gitsession sync origin`")
    run("sync")
    assert line(run("doctor"), "remote origin") == "ok remote origin had all refs here at the last contact"
    with Store.open(path) as store:
        store.session(sid).append(Message.user("and more"))
    (tmp_path / "hub.git").rename(tmp_path / "away")  # doctor does not connect to the remote
    told = line(run("doctor"), "remote origin")
    assert told == "-- remote origin 1 entry on 1 ref not on the remote at the last contact: `gitsession sync origin`"
    document = json.loads(run("doctor", "--json"))
    assert "remote origin" in document["notes"] and document["problems"] == []


def test_sessions_outside_the_scope_of_a_remote_are_not_missing_there(run: Run, path: Path, tmp_path: Path) -> None:
    with Store.open(path) as store:
        shared = store.new_session(agent="pi")
        shared.append(Message.user("shared"))
        store.new_session(agent="other").append(Message.user("private"))
    remotes.add(path, "origin", str(hub(tmp_path / "hub.git")), scope=Scope(agents=("pi",)))
    told = line(run("doctor"), "remote origin")
    assert told == "-- remote origin never contacted; 2 refs in its scope: `gitsession sync origin`"
    run("sync", "--yes")
    told = line(run("doctor"), "remote origin")
    assert told == "ok remote origin had all refs in its scope at the last contact"
    with Store.open(path) as store:
        store.session(shared.id).append(Message.user("and more"))
    told = line(run("doctor"), "remote origin")
    assert told == "-- remote origin 1 entry on 1 ref not on the remote at the last contact: `gitsession sync origin`"


def test_unfinished_push_is_reported(run: Run, path: Path, tmp_path: Path) -> None:
    sid = talk(path, "hello")
    remotes.add(path, "origin", str(hub(tmp_path / "hub.git")), scope=Scope(is_all=True))
    run("sync")
    published.record(path, "origin", {refs.leaf(sid): "ab" * 20})
    told = line(run("doctor"), "push origin")
    assert told == "-- push origin a push was interrupted: 1 ref may have arrived; `gitsession pull origin` checks"
    run("pull", "origin")
    assert "push origin" not in names(run("doctor"))


def test_archived_sessions_are_counted(run: Run, path: Path) -> None:
    sid = talk(path, "hello")
    run("archive", sid)
    assert line(run("doctor"), "archive") == "ok archive 1 session: `gitsession ls --archived`"
    run("restore", sid)
    assert "archive" not in names(run("doctor"))


def test_a_damaged_archive_is_a_problem(run: Run, path: Path) -> None:
    run("archive", talk(path, "hello"))
    with Store.open(path) as store, store.objects.transaction() as tx:
        tip = store.objects.ref(refs.ARCHIVE)
        tx.move(refs.ARCHIVE, tx.put("blob", b"not a commit"), expected=tip)
    assert "expected a commit of the archive set, found a blob" in line(run("doctor", code=5), "archive")


def test_trash_is_reported_with_its_size_and_age(run: Run, path: Path) -> None:
    sids = [talk(path, "x" * 3_000_000), talk(path, "hello")]
    for sid in sids:
        run("rm", sid)
    told = line(run("doctor"), "trash")
    assert told.startswith("-- trash 2 sessions, the oldest since 20") and "MiB used only by the trash" in told
    run("restore", sids[0])
    run("purge", sids[1], "--yes")
    assert "trash" not in names(run("doctor"))


def test_a_vault_that_others_can_read_is_wrong(run: Run, path: Path) -> None:
    talk(path, f"the token is {TOKEN}")
    assert line(run("doctor"), "vault").startswith("ok vault 1 original of redacted secrets, 0.0 MiB, mode 0600")
    file = path / create.CONTROL / "vault.db"
    file.chmod(0o644)
    assert f"chmod 0600 {file}" in run("doctor", code=5)
    file.chmod(0o600)
    file.write_bytes(b"no vault at all" * 100)
    assert "damaged" in line(run("doctor", code=5), "vault")
    file.unlink()
    file.symlink_to("elsewhere")
    assert "is not a regular file" in line(run("doctor", code=5), "vault")


def test_rules_that_cannot_be_used_are_wrong(run: Run, path: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    git(path, "config", "gitsession.rules", str(rules))
    assert "set gitsession.rules" in run("doctor", code=5)
    rules.write_text("[[rule]]\nname = 'acme'\npattern = 'acme-(?P<secret>[0-9]+)'\nsamples = ['acme-12']\n")
    assert line(run("doctor"), "secrets") == f"ok secrets redacted in stored entries, with 1 rule of your own: {rules}"
    git(path, "config", "gitsession.redact", "false")
    assert line(run("doctor"), "secrets").startswith("-- secrets not redacted")


def test_hooks_of_another_release_are_wrong(run: Run, path: Path) -> None:
    talk(path, "hello")
    run("server", "install", str(path))
    run("gate", "install")
    told = run("doctor")
    assert line(told, "server") == "ok server pre-receive installed, post-receive installed"
    assert line(told, "gate") == "ok gate plain `git push` is scanned for secrets"
    for name in ("pre-receive", "pre-push"):
        (path / "hooks" / name).write_bytes(b"#!/bin/sh\n# gitsession: of yesterday\n")
    told = run("doctor", code=5)
    assert "pre-receive of another release" in line(told, "server") and "`gitsession server install" in told
    assert "run `gitsession gate install`" in told


def test_unfinished_purge_is_reported_with_its_obstacle(run: Run, path: Path, tmp_path: Path) -> None:
    sid = talk(path, "hello", "the heron")
    run("purge", "--match", "heron", "--yes")
    git(path, "tag", "kept", refs.leaf(sid))
    lender = hub(tmp_path / "lender.git")
    (path / create.PURGE_PENDING).write_bytes(b"")
    (path / "objects/info/alternates").write_text(f"{lender / 'objects'}\n")
    told = run("doctor", code=5)
    assert line(told, "purge").startswith("!! purge a purge was interrupted: ")
    (path / "objects/info/alternates").unlink()
    assert "purge" not in names(run("doctor"))
    assert not (path / create.PURGE_PENDING).exists()


def test_stale_lock_of_another_program_is_reported_with_the_command_that_removes_it(path: Path, run: Run) -> None:
    sid = talk(path, "one")
    lock = path / f"{refs.leaf(sid)}.lock"
    lock.touch()
    assert line(run("doctor"), "locks").endswith("1 lock")  # a running git process
    os.utime(lock, (1_700_000_000, 1_700_000_000))
    with Store.open(path, clock=Clock()) as store:
        store.session(sid).append(Message.user("two"))
    told = run("doctor", code=5)
    assert f"{lock}: " in line(told, "locks")
    assert "left by another program, and 1 write may be waiting for the lock" in told
    assert f"if no git command is running in this store, run `rm {lock}`" in told
    lock.unlink()
    run("ls")
    assert line(run("doctor"), "locks").endswith("0 locks")
    assert git(path, "rev-list", "--count", refs.leaf(sid)).strip() == "3"


def test_lock_of_gitsession_is_left_to_maintain(path: Path, run: Run) -> None:
    sid = talk(path, "one")
    proof = path / create.PROOFS / refs.leaf(sid).replace("/", ":")
    proof.touch()
    os.utime(proof, (1_700_000_000, 1_700_000_000))
    os.link(proof, path / f"{refs.leaf(sid)}.lock")
    told = run("doctor", code=5)
    assert "left by a gitsession process that was killed" in line(told, "locks")
    run("maintain")
    assert line(run("doctor"), "locks").endswith("0 locks")


def test_refspec_that_fetches_into_branches_is_reported_with_the_command_that_removes_it(path: Path, run: Run) -> None:
    spec = "+refs/heads/*:refs/heads/*"
    git(path, "config", "remote.origin.url", "/nowhere")
    git(path, "config", "--add", "remote.origin.fetch", spec)
    told = run("doctor", code=5)
    assert f"plain `git fetch` with {spec} overwrites and deletes local branches" in told
    [command] = [row.strip() for row in told.splitlines() if "--unset-all" in row]
    subprocess.run(shlex.split(command), check=True)
    assert "overwrites and deletes" not in run("doctor")
    assert git(path, "config", "--get-all", "remote.origin.fetch").strip() == "+refs/heads/*:refs/remotes/origin/*"
