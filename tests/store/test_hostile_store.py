"""Tests of stores prepared by an attacker, which must not run the attacker's code, and of file permissions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import header, said
from every_command import EVERY_VERB

from gitsession import Message, Store
from gitsession.cli import app as command_line
from gitsession.cli import exits, hooking
from gitsession.cli.app import COMMANDS
from gitsession.git import process, program_settings
from gitsession.repair import donors

Run = Callable[..., None]

HOOKS = (
    *("applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg"),
    *("commit-msg", "post-commit", "pre-rebase", "post-checkout", "post-merge", "pre-push", "pre-receive", "update"),
    *("proc-receive", "post-receive", "post-update", "reference-transaction", "push-to-checkout", "pre-auto-gc"),
    *("post-rewrite", "sendemail-validate", "fsmonitor-watchman", "post-index-change"),
)

PLANTED = {
    "core.fsmonitor": "{canary}",
    "core.hooksPath": "{hooks}",
    "core.pager": "{canary}",
    "core.editor": "{canary}",
    "core.askPass": "{canary}",
    "core.sshCommand": "{canary}",
    "core.gitProxy": "{canary}",
    "core.alternateRefsCommand": "{canary}",
    "core.attributesFile": "{attributes}",
    "sequence.editor": "{canary}",
    "credential.helper": "!{canary}",
    "gpg.program": "{canary}",
    "commit.gpgSign": "true",
    "log.showSignature": "true",
    "diff.external": "{canary}",
    "diff.gitsession.textconv": "{canary}",
    "diff.gitsession.command": "{canary}",
    "filter.evil.clean": "{canary}",
    "filter.evil.smudge": "{canary}",
    "filter.evil.process": "{canary}",
    "merge.evil.driver": "{canary}",
    "pager.log": "{canary}",
    "uploadpack.packObjectsHook": "{canary}",
    "remote.origin.uploadpack": "{canary}",
    "remote.origin.receivepack": "{canary}",
    "remote.origin.url": "ext::{canary}",
    "gc.recentObjectsHook": "{canary}",
    "fsck.skipList": "{canary}",
    "extensions.worktreeConfig": "true",
    "include.path": "{included}",
    **{f"alias.{name}": "!{canary}" for name in ("fsck", "repack", "pack-refs", "update-ref", "log", "version")},
    "gitsession.program": "{canary}",
    "gitsession.summarizer": "command",
    "gitsession.summarizerCommand": "{canary}",
}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a session with a branch and an operation to undo.

    The working directory is a folder beside the store.
    """
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("GITSESSION_DIR", str(tmp_path / "store.git"))
    told = json.dumps({"session_id": "x", "cwd": str(folder), "tool_name": "Bash"}).encode()
    monkeypatch.setattr(hooking, "read_stdin", lambda: (told, True))
    with Store.create(tmp_path / "store.git") as made:
        session = made.new_session(agent="agent", cwd=str(folder))
        session.append(Message.user("begun"))
        session.branch("side")
    return tmp_path / "store.git"


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    def run(*words: str, code: int = 0) -> None:
        ended = command_line.run(words)
        assert ended == code, f"{words}: {capfd.readouterr()}"

    return run


def test_every_verb_is_run_below_but_for_git_itself():
    """`git` replaces this process, so this command has separate tests."""
    assert set(COMMANDS) - {"git"} == set(EVERY_VERB)


@pytest.mark.promise("P33")
@pytest.mark.parametrize("is_clone", [False, True])
def test_a_store_full_of_planted_commands_runs_none_of_them(store, run, tmp_path, faults, is_clone):
    """A clone that plain git made gets a complete configuration on its first opening. Nothing in it runs either."""
    if is_clone:
        store.rename(tmp_path / "origin.git")
        assert os.system(f"git clone -q --mirror {tmp_path}/origin.git {store}") == 0
    canary, dead = tmp_path / "canary.sh", tmp_path / "DEAD"
    canary.write_text(f'#!/bin/sh\necho "$0 $@" >> {dead}\n')
    canary.chmod(0o755)
    assert os.system(f"{canary} works") == 0
    assert dead.read_text() == f"{canary} works\n"
    dead.unlink()
    for folder in (tmp_path / "hooks", store / "hooks"):
        folder.mkdir(exist_ok=True)
        for hook in HOOKS:
            (folder / hook).symlink_to(canary)
    (tmp_path / "attributes").write_text("* filter=evil diff=gitsession merge=evil\n")
    (tmp_path / "included").write_text(f"[core]\n\thooksPath = {tmp_path}/hooks\n\tpager = {canary}\n")
    (store / "info" / "attributes").write_text("* filter=evil diff=gitsession merge=evil\n")
    (store / "config.worktree").write_text(f"[core]\n\tfsmonitor = {canary}\n")
    (store / "objects" / "info" / "alternates").write_text(f"{tmp_path}/elsewhere\n")
    locations = {name: str(tmp_path / name) for name in ("hooks", "attributes", "included")}
    with open(store / "config", "a") as file:
        for key, value in PLANTED.items():
            section, *middle, name = key.split(".")
            head = f'[{section} "{".".join(middle)}"]' if middle else f"[{section}]"
            file.write(f'{head}\n\t{name} = "{value.format(canary=canary, **locations)}"\n')
    assert os.system("git init -q --bare ../hub.git") == 0
    Path("file.jsonl").write_bytes(header("0199-abcd", cwd=os.getcwd()) + b"\n" + said("aaaa1111", None) + b"\n")
    for lines in EVERY_VERB.values():
        for words in lines:
            # the result of the command does not matter here
            command_line.run(words)
            assert not dead.exists(), f"{words} ran {dead.read_text()}"
    faults.many(len(PLANTED) + 2 * len(HOOKS) + 4)


@pytest.mark.promise("P33")
@pytest.mark.parametrize(
    "line",
    [
        "[pager]\n\tlog = {canary}\n",
        "[core]\n\tpager = {canary}\n",
        "[core]\n\tsshCommand = {canary}\n",
        "[core]\n\tfsmonitor = {canary}\n",
        '[remote "origin"]\n\turl = .\n\tuploadpack = {canary}\n',
        '[remote "origin"]\n\turl = ext::{canary}\n',
        '[credential "https://host"]\n\thelper = !{canary}\n',
        '[diff "gitsession"]\n\ttextconv = {canary}\n',
        "[alias]\n\tlg = !{canary}\n",
        "[include]\n\tpath = {folder}/included\n",
        "[include]\n\tpath = ~/included\n",
        '[includeIf "onbranch:other"]\n\tpath = included\n',
        "[imap]\n\ttunnel = {canary}\n",
        "[instaweb]\n\thttpd = {canary}\n",
        '[lfs "customtransfer.evil"]\n\tpath = {canary}\n',
        '[branch "main"]\n\tmergeOptions = -s evil\n',
        '[gpg "ssh"]\n\tdefaultKeyCommand = {canary}\n',
        '[remote "origin"]\n\tpushUrl = ext::{canary}\n',
        '[remote "origin"]\n\turl = .\n',
        '[remote "origin"]\n\turl = {folder}/store.git\n',
        '[remote "origin"]\n\tpushUrl = file://{folder}/store%2Egit/\n',
        '[branch "main"]\n\tremote = .\n',
        "[newSection]\n\tofAnotherRelease = {canary}\n",
    ],
)
def test_git_is_not_run_in_a_store_with_a_configured_program(store, tmp_path, capfd, line, faults):
    canary = tmp_path / "canary.sh"
    (tmp_path / "included").write_text(f"[core]\n\tpager = {canary}\n")
    with open(store / "config", "a") as file:
        file.write(line.format(canary=canary, folder=tmp_path))
    assert command_line.run(["git", "log"]) == exits.REFUSED
    assert "settings that may run programs" in capfd.readouterr().err
    faults.one()


@pytest.mark.promise("P33")
@pytest.mark.parametrize("folder", ["remotes", "branches"])
def test_git_is_not_run_in_a_store_with_a_remote_in_a_file(store, folder, faults):
    (store / folder).mkdir(exist_ok=True)
    (store / folder / "origin").write_text("URL: .\n")
    assert program_settings.unsafe_settings(store) == [f"{folder}/origin"]
    faults.one()


@pytest.mark.parametrize(
    "line",
    [
        '[remote "hub"]\n\turl = /elsewhere/hub.git\n[remote "ssh"]\n\turl = git@host:x.git\n',
        '[remote "a.b"]\n\turl = https://host/x.git\n\tfetch = +refs/heads/*:refs/remotes/a.b/*\n'
        "\tgitsession-all = true\n",
        '[diff "gitsession"]\n\ttextconv = gitsession textconv\n',
        "[user]\n\tname = Me\n[commit]\n\tgpgSign = false\n[fetch]\n\tprune\n[gc]\n\tauto = 0\n",
        '[branch "main"]\n\tremote = origin\n\tmerge = refs/heads/main\n',
    ],
)
def test_git_is_run_by_settings_that_name_no_program(store, line):
    with open(store / "config", "a") as file:
        file.write(line)
    assert program_settings.unsafe_settings(store) == []


PUSHES = {
    "push": ["push"],
    "an option of git first": ["--no-pager", "push"],
    "a setting first": ["-c", "color.ui=never", "push"],
    "a folder first": ["-C", ".", "push"],
    "an alias": ["publish"],
    "an alias of the shell": ["shell-publish"],
}


@pytest.mark.promise("P33")
@pytest.mark.parametrize("form", PUSHES)
def test_git_runs_no_hook_of_a_store_and_scans_every_push(store, tmp_path, monkeypatch, faults, form):
    dead, key = tmp_path / "DEAD", "AKIA" + "Z3KQ7XJ2M5TB6WPL"
    for folder in (store / "hooks", store / "gitsession/hooks"):
        folder.mkdir(exist_ok=True)
        for hook in (*HOOKS, "pre-push.local"):
            (folder / hook).write_text(f"#!/bin/sh\necho {hook} >> {dead}\n")
            (folder / hook).chmod(0o755)
    with open(store / "config", "a") as file:
        file.write(f"[gitsession]\n\tredact = false\n\tgate = echo gate >> {dead};\n")
    (tmp_path / "global").write_text("[alias]\n\tpublish = push\n\tshell-publish = !git push\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "global"))
    with Store.open(store) as opened:
        clean, secret = (opened.new_session(agent="agent") for _ in range(2))
        clean.append(Message.user("hello"))
        secret.append(Message.user(f"the key is {key}"))
    words = [sys.executable, "-m", "gitsession", "git"]
    told = subprocess.run([*words, "log", "--oneline", "--all"], capture_output=True, text=True, check=True)
    assert told.stdout
    subprocess.run([*words, "update-ref", "refs/heads/mine", "refs/heads/main"], check=True)
    hub = tmp_path / "hub.git"
    assert os.system(f"git init -q --bare {hub}") == 0
    push = [*words, *PUSHES[form], "-q", str(hub)]
    subprocess.run([*push, f"refs/heads/sessions/{clean.id}/*:refs/heads/sessions/{clean.id}/*"], check=True)
    stopped = subprocess.run([*push, f"refs/heads/sessions/{secret.id}/main"], capture_output=True, text=True)
    assert stopped.returncode == 1
    assert f"secret in {secret.id}@" in stopped.stderr
    there = process.run(hub, "for-each-ref", "--format=%(refname)").out.decode()
    assert clean.id in there
    assert secret.id not in there
    assert not dead.exists()
    faults.many(len(HOOKS))


@pytest.mark.promise("P35")
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_store_and_exports_are_private_under_any_umask(tmp_path, run, faults, umask, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = tmp_path / "closed.git"
    monkeypatch.setenv("GITSESSION_DIR", str(store))
    assert os.system("git init -q --bare ../hub.git") == 0
    Path("file.jsonl").write_bytes(header("0199-abcd", cwd=os.getcwd()) + b"\n" + said("aaaa1111", None) + b"\n")
    before = os.umask(umask)
    try:
        for words in (
            ["init"],
            ["import", "file.jsonl"],
            ["name", "@", "Named"],
            ["maintain"],
            ["export", "@", "-o", "out.jsonl"],
            ["undo"],
            ["verify"],
        ):
            run(*words)
            assert store.stat().st_mode & 0o7777 == 0o700
        with Store.open(store) as opened:
            opened.new_session(agent="agent").append(Message.user("a" * (2 << 20)))
        run("maintain")
    finally:
        os.umask(before)
    assert store.stat().st_mode & 0o7777 == 0o700
    assert Path("out.jsonl").stat().st_mode & 0o7777 == 0o600
    for name in ("index.db", "lock"):
        assert (store / "gitsession" / name).stat().st_mode & 0o077 == 0
    faults.many(8)


@pytest.mark.promise("P33")
@pytest.mark.parametrize("how", ["the store's configuration", "the command line"])
def test_address_in_the_form_of_an_option_runs_nothing(store, run, tmp_path, how, faults):
    canary = tmp_path / "DEAD"
    address = f"--upload-pack=touch {canary};"
    run("maintain")
    for pack in (store / "objects/pack").glob("*.pack"):
        pack.chmod(0o600)
        pack.write_bytes(b"damaged")
    words = ["repair", f"--from={address}"]
    if how == "the store's configuration":
        with (store / "config").open("a") as config:
            config.write(f'[remote "evil"]\n\turl = "{address}"\n')
        words = ["repair"]
    with faults.one():
        run(*words, code=5)
        assert not canary.exists()


@pytest.mark.promise("P33")
def test_promisor_remote_is_not_contacted(store, run, tmp_path, faults):
    """git would fetch a lost object from the remote, with a program that the configuration of the store names."""
    canary, other = tmp_path / "DEAD", tmp_path / "other.git"
    Store.create(other).close()
    run("maintain")
    packs = [path.read_bytes() for path in (store / "objects/pack").glob("*.pack")]
    for path in (store / "objects/pack").iterdir():
        path.unlink()
    git = ["git", f"--git-dir={store}"]
    for pack in packs:
        subprocess.run([*git, "unpack-objects", "-q"], input=pack, check=True)
    told = subprocess.run([*git, "rev-parse", "refs/heads/main^{tree}"], capture_output=True, text=True, check=True)
    lost = told.stdout.strip()
    with (store / "config").open("a") as config:
        config.write(f'[remote "evil"]\n\turl = {other}\n\tpromisor = true\n')
        config.write(f'\tuploadpack = "touch {canary}; git-upload-pack"\n')
    (store / "objects" / lost[:2] / lost[2:]).unlink()
    with faults.one():
        command_line.run(["maintain"])
        command_line.run(["verify"])
        process.run(store, "cat-file", "-e", lost, accept=range(256))
        assert not canary.exists()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["commondir", "shallow", "objects/info/alternates", "refs/heads/main"])
def test_verify_names_a_pipe_that_git_waits_for(tmp_path, capsys, monkeypatch, name):
    monkeypatch.setattr(process, "_LONG_SECONDS", 0.2)
    place = tmp_path / "store.git"
    Store.create(place).close()
    (place / name).unlink(missing_ok=True)
    os.mkfifo(place / name)
    assert command_line.run(["--store", str(place), "verify"]) == exits.INTEGRITY
    assert f"{name}' is a pipe" in capsys.readouterr().out


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["hooks/pre-push", "hooks/update"])
def test_doctor_does_not_wait_for_a_pipe_in_place_of_a_hook(tmp_path, name):
    place = tmp_path / "store.git"
    Store.create(place).close()
    (place / "hooks").mkdir(exist_ok=True)
    os.mkfifo(place / name)
    assert command_line.run(["--store", str(place), "doctor"]) in (exits.OK, exits.INTEGRITY)


@pytest.mark.timeout(60)
def test_repair_does_not_wait_for_a_pipe_that_names_alternates(tmp_path):
    place = tmp_path / "store.git"
    Store.create(place).close()
    os.mkfifo(place / "objects/info/alternates")
    assert list(donors.alternates(place)) == []
