"""Tests of stored secrets: neither a push of gitsession nor a plain `git push` with the hook publishes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from builders import Clock, begun, bring, fork, pi_file, talk
from checkpoints import held
from damage import without
from pushed import bare, everything_in, push
from raw import git

from gitsession import progress
from gitsession.cli import app as command_line
from gitsession.cli import exits
from gitsession.git import hook_files, process
from gitsession.model.entries import Message
from gitsession.sessions import content
from gitsession.sessions.node import load
from gitsession.store import create, refs
from gitsession.store.git_store import GitStore
from gitsession.sync import secret_scan
from gitsession.validation.quarantine_reader import Proposed

KEY = "AKIA" + "Z3KQ7XJ2M5TB6WPL"  # joined here, so that this file does not seem to contain a key
OTHER = "AKIA" + "Q5NV2RC7D3HY4SGF"
RULE = "aws-access-key"
SESSIONS = "refs/heads/sessions/*:refs/heads/sessions/*"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Create a store without redaction."""
    create.create(tmp_path / "store.git")
    with (tmp_path / "store.git/config").open("a") as config:
        config.write("[gitsession]\n\tredact = false\n")
    monkeypatch.setenv("GITSESSION_DIR", str(tmp_path / "store.git"))
    with GitStore.open(tmp_path / "store.git") as made:
        yield made


def told(store: GitStore, *olds: str) -> list[tuple[str, str, str]]:
    """Scan all session refs and return the findings as session, rule and path."""
    store.flush()
    moves = [Proposed(ref, None, oid) for ref, oid in store.refs(refs.SESSIONS).items()]
    return [(hit.session, hit.rule, hit.path) for hit in secret_scan.scan_new(store, moves, olds)]


@pytest.mark.parametrize("together", [1, 2, 3200])
def test_parts_of_a_large_push_have_the_same_findings_as_the_whole(store, monkeypatch, together: int) -> None:
    sessions = [begun(store, f"the key is {KEY}", "thanks", f"and {OTHER}") for _ in range(3)]
    forks = [fork(session) for session in sessions[:2]]
    forks[0].append(Message.user(f"once more {KEY}"))
    held(store, sessions[2].id, {"key.txt": KEY}, sessions[2].leaf)
    expected = told(store)
    assert len(expected) == 8
    monkeypatch.setattr(secret_scan, "_WALKED_MAX", 0)
    monkeypatch.setattr(secret_scan, "_TIPS_TOGETHER", together)
    seen: list[tuple[str, int, int]] = []
    with progress.by(lambda *event: seen.append(event)):
        assert told(store) == expected
    assert seen[0][:2] == ("Scanning for secrets", 0)
    assert seen[-1][1] == seen[-1][2]


def test_secret_is_found_in_its_entry_by_its_rule(store) -> None:
    said = begun(store, "hi", f"the key is {KEY}", "thanks")
    assert told(store) == [(said.id, RULE, "")]


def test_entries_of_the_remote_are_not_scanned_again(store) -> None:
    said = begun(store, f"the key is {KEY}")
    leaf = said.leaf.oid
    assert told(store, leaf) == []
    said.append(Message.user(f"and {OTHER}"))
    assert told(store, leaf) == [(said.id, RULE, "")]


@pytest.mark.parametrize("walked", [0, 256])
def test_entry_that_only_another_branch_of_the_remote_has_is_not_scanned_again(store, monkeypatch, walked) -> None:
    monkeypatch.setattr(secret_scan, "_WALKED_MAX", walked)
    said = begun(store, "hi", f"the key is {KEY}", "thanks")
    root, sent, leaf = (node.oid for node in said.history()[-3:])
    move = Proposed(refs.leaf(said.id), root, sent)
    store.flush()
    assert secret_scan.scan_new(store, [move], [leaf]) == []
    assert [hit.oid for hit in secret_scan.scan_new(store, [move])] == [sent]


def test_tips_that_the_remote_has_are_not_walked(store, monkeypatch) -> None:
    """The archive lists the tips of all archived sessions, and the remote usually has nearly all of them."""
    monkeypatch.setattr(secret_scan, "_WALKED_MAX", 0)
    monkeypatch.setattr(secret_scan, "_TIPS_TOGETHER", 1)
    sessions = [begun(store, f"the key is {KEY}") for _ in range(4)]
    store.flush()
    olds = [oid for session in sessions[:3] for oid in store.refs(refs.session(session.id)).values()]
    walked: list[str] = []
    run = process.run
    monkeypatch.setattr(process, "run", lambda *given, **named: walked.append(given[1]) or run(*given, **named))
    assert told(store, *olds) == [(sessions[3].id, RULE, "")]
    assert walked.count("rev-list") == len(store.refs(refs.session(sessions[3].id))) + 1


def test_scan_of_a_few_entries_starts_no_git(store, monkeypatch) -> None:
    said = begun(store, "hi", "thanks")
    store.flush()
    before = said.leaf.oid
    said.append(Message.user("one more"))
    monkeypatch.setattr(process, "run", lambda *_, **__: pytest.fail("git was started"))
    assert told(store, before) == []


def test_findings_of_a_batch_are_in_order(store, monkeypatch) -> None:
    monkeypatch.setattr(secret_scan, "_AT_ONCE", 3)
    said = begun(store, *(f"the key is {KEY}" if n % 3 else f"number {n}" for n in range(10)))
    store.flush()
    found = secret_scan.scan_new(store, [Proposed(refs.leaf(said.id), None, said.leaf.oid)])
    line = [node.oid for node in said.history()]
    assert [hit.oid for hit in found] == [oid for n, oid in reversed([*enumerate(line[-10:])]) if n % 3]


def test_unreadable_entry_does_not_hide_other_findings(store) -> None:
    said = begun(store, "hi", f"the key is {KEY}", "thanks")
    store.flush()
    without(store.git_dir, content.entry_tree(store, said.leaf).blob)
    with GitStore.open(store.git_dir) as again:
        assert told(again) == [(said.id, RULE, "")]


def test_entry_shared_by_two_sessions_is_reported_once(store) -> None:
    said = begun(store, f"the key is {KEY}")
    fork(said)
    assert len(told(store)) == 1


def test_titles_branches_that_were_left_and_files_are_looked_at(store) -> None:
    said = begun(store, "hi")
    said.rename(f"About {KEY}")
    at = said.leaf
    held(store, said.id, {"src/.env": f"AWS_ACCESS_KEY_ID={OTHER}\n", "src/plain.txt": "nothing"}, at)
    assert {(rule, path) for _, rule, path in told(store)} >= {(RULE, ""), (RULE, "src/.env")}


def test_unchanged_file_is_reported_once(store) -> None:
    said = begun(store, "hi", clock=Clock())
    for n in range(3):
        held(store, said.id, {".env": f"AWS_ACCESS_KEY_ID={OTHER}\n", "n": str(n)}, said.leaf)
    assert len(told(store)) == 1


def test_allowed_secret_is_sent_and_no_other(store) -> None:
    said = begun(store, f"the key is {KEY}", f"another is {OTHER}")
    first = said.history()[-2]
    assert secret_scan.allow(store, secret_scan.at(store, said.id, first, RULE)) == 1
    assert secret_scan.allow(store, secret_scan.at(store, said.id, first, RULE)) == 0
    [left] = secret_scan.scan_new(store, [Proposed(refs.leaf(said.id), None, said.leaf.oid)])
    assert left.oid == said.leaf.oid
    assert KEY not in (store.git_dir / "config").read_text()


def test_history_with_a_graft_is_scanned_completely(store) -> None:
    said = begun(store, f"the key is {KEY}", "thanks")
    store.flush()
    (store.git_dir / "info").mkdir(exist_ok=True)
    (store.git_dir / "info/grafts").write_text(f"{said.leaf.oid}\n")
    assert told(store) == [(said.id, RULE, "")]


def test_rules_of_the_users_own_count(store, tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text(
        "[[rule]]\nname = 'acme'\npattern = 'acme_[0-9]{6}'\nwords = ['acme_']\nsamples = ['acme_123456']\n"
    )
    with (store.git_dir / "config").open("a") as config:
        config.write(f"[gitsession]\n\trules = {tmp_path / 'rules.toml'}\n")
    begun(store, "acme_654321")
    assert [rule for _, rule, _ in told(store)] == ["acme"]


# ---- plain git


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    return bare(tmp_path / "remote.git")


def test_plain_git_push_stops_with_entry_and_rule(store, remote: Path, capsys) -> None:
    said = begun(store, "hi")
    assert command_line.run(["gate", "install"]) == 0
    store.flush()
    assert push(store.git_dir, remote, SESSIONS).returncode == 0
    said.append(Message.user(f"the key is {KEY}"))
    store.flush()
    done = push(store.git_dir, remote, SESSIONS)
    assert done.returncode == 1
    [hit] = secret_scan.scan_new(store, [Proposed(refs.leaf(said.id), None, said.leaf.oid)])
    assert f"secret in {hit.address}: {RULE}" in done.stderr
    assert KEY not in done.stderr
    capsys.readouterr()
    assert command_line.run(["gate", "allow", hit.address, RULE]) == 0
    assert push(store.git_dir, remote, SESSIONS).returncode == 0


PLACES = {
    "beside code": "{leaf}:refs/gitsession/sessions/{sid}/main",
    "a tag": "{leaf}:refs/tags/v1",
    "a tag of its own": "refs/tags/signed:refs/tags/signed",
    "another branch": "{leaf}:refs/heads/feature",
    "below what is no entry": "{above}:refs/heads/feature",
    "a session's branch below what is no entry": "{above}:refs/heads/sessions/{sid}/main",
}


@pytest.mark.parametrize("place", PLACES)
def test_plain_git_push_is_stopped_for_any_remote_ref_name(store, remote: Path, place: str) -> None:
    said = begun(store, "hi", f"the key is {KEY}", "thanks")
    assert command_line.run(["gate", "install"]) == 0
    store.flush()
    leaf = said.leaf.oid
    git(store.git_dir, "-c", "user.name=me", "-c", "user.email=a@b", "tag", "-a", "-m", "words", "signed", leaf)
    words = ("-c", "user.name=me", "-c", "user.email=a@b", "commit-tree", "-m", "mine", "-p", leaf, f"{leaf}^{{tree}}")
    above = git(store.git_dir, *words)
    done = push(store.git_dir, remote, PLACES[place].format(leaf=leaf, above=above, sid=said.id))
    assert done.returncode == 1
    assert f"secret in {said.id}@" in done.stderr
    assert everything_in(remote) == ("", "")


def test_existing_hook_runs_first_and_is_restored(store, remote: Path, tmp_path: Path) -> None:
    begun(store, "hi")
    hooks = store.git_dir / "hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "pre-push").write_text(f'#!/bin/sh\ncat > "{tmp_path}/told"\nexit 1\n')
    (hooks / "pre-push").chmod(0o755)
    assert command_line.run(["gate", "install"]) == 0
    store.flush()
    assert push(store.git_dir, remote, SESSIONS).returncode == 1
    assert "refs/heads/sessions" in (tmp_path / "told").read_text()
    assert command_line.run(["gate", "uninstall"]) == 0
    assert hook_files.state(hooks, "pre-push") == hook_files.OTHER
    assert not hook_files.has_local_hook(hooks, "pre-push")


def test_nothing_is_pushed_if_gitsession_is_missing(store, remote: Path) -> None:
    begun(store, "hi")
    assert command_line.run(["gate", "install"]) == 0
    with (store.git_dir / "config").open("a") as config:
        config.write("[gitsession]\n\tgate = /nowhere/gitsession\n")
    store.flush()
    done = push(store.git_dir, remote, SESSIONS)
    assert done.returncode == 1
    assert "nothing is pushed" in done.stderr


def test_git_is_stopped_if_it_would_push_without_the_hook(store, tmp_path: Path, monkeypatch, capsys) -> None:
    (tmp_path / "pre-push").mkdir()
    (tmp_path / "pre-push/pre-push").write_bytes(hook_files.script("pre-push"))
    monkeypatch.setattr(hook_files, "_SHIPPED", tmp_path)
    assert command_line.run(["git", "log"]) == exits.REFUSED
    assert "is not executable" in capsys.readouterr().err


def test_imported_session_is_scanned_in_its_payloads(store, monkeypatch: pytest.MonkeyPatch) -> None:
    escaped = KEY.replace("A", "\\u0041", 1).encode()
    lines = [line.replace(b"words of a", escaped) for line in talk("a", "b")]
    sid = bring(store, pi_file(*lines)).session
    assert told(store) == [(sid, RULE, "")]


# ---- push of gitsession


@pytest.fixture
def home(store, remote: Path) -> Path:
    """Add the remote that the store is synced with."""
    assert command_line.run(["remote", "add", "origin", str(remote), "--all"]) == 0
    return remote


@pytest.mark.parametrize("how", ["push", "sync"])
def test_own_push_holds_back_sessions_with_a_secret_and_sends_the_rest(store, home: Path, how, capsys) -> None:
    clean = begun(store, "hi")
    said = begun(store, "hi", f"the key is {KEY}", "thanks")
    said.branch("side", "leaf")
    said.branch("early", "root")
    assert command_line.run([how]) == 6
    told = capsys.readouterr()
    assert f"secret in {said.id}@" in told.out + told.err
    assert KEY not in told.out + told.err
    there = everything_in(home)[0]
    assert refs.leaf(clean.id) in there
    assert refs.leaf(said.id, "early") in there
    assert refs.leaf(said.id) not in there
    assert refs.leaf(said.id, "side") not in there
    hit = next(iter(secret_scan.scan_new(store, [Proposed(refs.leaf(said.id), None, said.leaf.oid)])))
    assert command_line.run(["gate", "allow", hit.address]) == 0
    assert command_line.run([how]) == 0
    assert refs.leaf(said.id, "side") in everything_in(home)[0]


def test_allowed_secret_is_not_redacted(store, capsys) -> None:
    said = begun(store, f"the key is {KEY}", f"and {OTHER}")
    store.flush()
    assert command_line.run(["gate", "allow", f"{said.id}@leaf", RULE]) == 0
    capsys.readouterr()
    assert command_line.run(["redact", "--dry-run"]) == 6
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert command_line.run(["redact"]) == 0
    assert command_line.run(["redact", "--dry-run"]) == 0
    assert command_line.run(["show", f"{said.id}@leaf"]) == 0
    assert OTHER in capsys.readouterr().out


def test_file_name_is_scanned_and_not_printed(store) -> None:
    said = begun(store, "hi")
    held(store, said.id, {f"{KEY}/a.txt": "text", "b.txt": "text"}, said.leaf)
    found = told(store)
    assert found == [(said.id, RULE, f"[redacted:{RULE}]/a.txt")]


def test_allowances_are_listed_and_revoked(store, home: Path, capsys) -> None:
    said = begun(store, "hi", f"the key is {KEY}")
    held(store, said.id, {".env": f"AWS_ACCESS_KEY_ID={OTHER}\n"}, said.leaf)
    store.flush()
    assert command_line.run(["gate", "list"]) == 1
    files = store.refs(refs.session(said.id))[f"{refs.session(said.id)}files"]
    assert command_line.run(["gate", "allow", f"{said.id}@leaf"]) == 0
    assert secret_scan.allow(store, secret_scan.at(store, said.id, load(store, files))) == 1
    assert command_line.run(["push"]) == 0
    capsys.readouterr()
    assert command_line.run(["gate", "list"]) == 0
    entry, file = sorted((line.split()[0] for line in capsys.readouterr().out.splitlines()), key=lambda it: ":" in it)
    assert entry.startswith(f"{said.id}@")
    assert file.startswith("file:")
    assert command_line.run(["gate", "forget", entry, "no-such-rule"]) == 1
    assert command_line.run(["gate", "forget", entry, RULE]) == 0
    assert [key.rpartition(":")[0] for key in secret_scan.allowances(store)] == [file]
    assert command_line.run(["gate", "forget", file]) == 0
    assert secret_scan.allowances(store) == []
    assert command_line.run(["gate", "forget", entry]) == 1


def test_allowance_for_a_purged_entry_is_listed_by_its_digest(store, capsys) -> None:
    digest = "0f" * 32
    git(store.git_dir, "config", secret_scan.ALLOWED, f"{digest}:{RULE}")
    assert command_line.run(["gate", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["allowed"] == [{"what": digest, "rule": RULE, "entries": []}]
    assert command_line.run(["gate", "forget", digest]) == 0
    assert secret_scan.allowances(store) == []
