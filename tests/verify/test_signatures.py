"""Tests of signatures of branches: valid ones, and every kind of invalid one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from builders import Clock, begun, fork, git
from places import ROOT
from purged import find, purge
from remotes import hub, session, store_with, sync

from gitsession.api import Store
from gitsession.cli import exits
from gitsession.cli.app import run
from gitsession.codec.digest import to_base64url
from gitsession.errors import NotFound, Unavailable
from gitsession.git.signing import SSH, Signature, Signing
from gitsession.model.entries import Message, Seal
from gitsession.sessions import graph
from gitsession.sessions.session import StoredSession
from gitsession.sessions.tombstone_set import NONE
from gitsession.store import refs
from gitsession.store.git_store import GitStore
from gitsession.store.interface import ObjectStore
from gitsession.store.memory import MemoryStore
from gitsession.verify import entry_walk, signatures
from gitsession.verify.findings import SignatureCheck
from gitsession.verify.semantics import Sessions

needs_ssh = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")
needs_gpg = pytest.mark.skipif(shutil.which("gpg") is None, reason="needs gpg")


def setting(name: str, value: str | Path) -> None:
    subprocess.run(["git", "config", "--global", name, str(value)], check=True)


def new_key(place: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", place.name, "-f", str(place)], check=True)
    return place


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """Create a key of Ada, sign with it, and allow only this key."""
    ada = new_key(tmp_path / "ada")
    setting("gpg.format", "ssh")
    setting("user.signingKey", ada)
    setting("gpg.ssh.allowedSignersFile", tmp_path / "allowed")
    allow(tmp_path, "ada")
    return tmp_path


def allow(place: Path, name: str, options: str = "") -> None:
    (place / "allowed").write_text(f"{name}@example.com {options} {(place / f'{name}.pub').read_text()}")


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[StoredSession]:
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        yield begun(store.objects, "one", "two")


def seal(held: StoredSession, branch: str = "main", at_ms: int = 1_800_000_000_000, **change: object) -> Seal:
    made = signatures.make(held._store, held.id, branch, at_ms)
    made = replace(made, **change)  # type: ignore[arg-type]
    held.seal(made)
    return made


def looked_at(held: StoredSession) -> list[SignatureCheck]:
    return signatures.of_session(held._store, held.id)


def states(held: StoredSession) -> list[str]:
    return [sealed.state for sealed in looked_at(held)]


def problems(store: ObjectStore) -> list[str]:
    return [found.what for found in entry_walk.verify(store).problems]


# ---- signed data


def test_the_statement_is_that_of_the_format_page() -> None:
    page = (ROOT / "docs/reference/format.md").read_text()
    entry = Seal(
        session="20260201-abcdefghijklm", branch="main", leaf="9meXE0bMlDfBVnHCz1KINZUJ1K3mPtXi8DVpgugAtOo", entries=2,
        at_ms=1769904000000, format=SSH, signature=b"",
    )  # fmt: skip
    assert f"```\n{signatures.statement(entry).decode()}```" in page


@needs_ssh
def test_signature_can_be_checked_with_ssh_keygen_alone(talk: StoredSession, keys: Path) -> None:
    made = seal(talk)
    (keys / "sig").write_bytes(made.signature)
    words = ["ssh-keygen", "-Y", "verify", "-f", keys / "allowed", "-I", "ada@example.com", "-n", "gitsession"]
    subprocess.run([*words, "-s", keys / "sig"], input=signatures.statement(made), check=True, capture_output=True)


# ---- valid signatures


@needs_ssh
def test_signature_stays_good_when_the_session_continues(talk: StoredSession, keys: Path) -> None:
    made = seal(talk)
    leaf = talk.leaf
    assert leaf is not None
    assert (made.session, made.branch, made.leaf, made.entries) == (talk.id, "main", to_base64url(leaf.chain), 3)
    [sealed] = looked_at(talk)
    assert (sealed.state, sealed.by, sealed.after) == ("good", "ada@example.com", 0)
    talk.append(Message.user("on"))
    assert [sealed.after for sealed in looked_at(talk)] == [1]
    seal(talk)
    assert [(sealed.state, sealed.after) for sealed in looked_at(talk)] == [("good", 0), ("good", 1)]
    report = entry_walk.verify(talk._store)
    assert report.problems == []
    assert [sealed.state for sealed in report.signatures] == ["good", "good"]


@needs_ssh
def test_signature_is_synced_with_the_session(talk: StoredSession, keys: Path, tmp_path: Path) -> None:
    seal(talk)
    assert isinstance(talk._store, GitStore)
    git(talk._store, "clone", "-q", "--mirror", str(talk._store.git_dir), str(tmp_path / "clone.git"))
    with Store.open(tmp_path / "clone.git") as clone:
        [sealed] = clone.session(talk.id).signatures()
        assert (sealed.state, sealed.after) == ("good", 0)


@needs_ssh
def test_fork_has_its_own_signatures(talk: StoredSession, keys: Path) -> None:
    seal(talk)
    forked = fork(talk)
    assert states(forked) == []
    forked.append(Message.user("on"))
    assert seal(forked).entries == 5
    assert states(forked) == ["good"]
    assert problems(talk._store) == []


# ---- unverifiable signatures


@needs_ssh
def test_signature_is_unchecked_without_a_list_of_signers(talk: StoredSession, keys: Path) -> None:
    seal(talk)
    (keys / "allowed").unlink()
    [sealed] = looked_at(talk)
    assert (sealed.state, sealed.by[:7]) == ("unchecked", "SHA256:")
    assert problems(talk._store) == []


UNKNOWN: dict[str, Callable[[Path], None]] = {
    "another key is allowed": lambda keys: allow(new_key(keys / "eve").parent, "eve"),
    "nobody is allowed": lambda keys: (keys / "allowed").write_text("") and None,
    "the key is for another namespace": lambda keys: allow(keys, "ada", 'namespaces="git"'),
    "the key was not valid yet": lambda keys: allow(keys, "ada", 'valid-after="20400101"'),
    "the key was not valid any more": lambda keys: allow(keys, "ada", 'valid-before="20010101"'),
}


@needs_ssh
@pytest.mark.parametrize("spoil", UNKNOWN.values(), ids=UNKNOWN)
def test_unknown_key_is_neither_a_problem_nor_good(
    talk: StoredSession, keys: Path, spoil: Callable[[Path], None]
) -> None:
    seal(talk)
    spoil(keys)
    [sealed] = looked_at(talk)
    assert (sealed.state, sealed.by[:7]) == ("unknown", "SHA256:")
    assert problems(talk._store) == []


@needs_ssh
def test_missing_program_is_not_a_problem(talk: StoredSession, keys: Path) -> None:
    seal(talk)
    setting("gpg.ssh.program", "/nowhere/ssh-keygen")
    assert states(talk) == ["unchecked"]
    assert problems(talk._store) == []


# ---- invalid signatures


def in_a_letter(made: bytes) -> bytes:
    lines = made.split(b"\n")
    lines[2] = lines[2][:10] + (b"A" if lines[2][10:11] != b"A" else b"B") + lines[2][11:]
    return b"\n".join(lines)


CHANGED: dict[str, tuple[Callable[[Seal], dict[str, object]], str]] = {
    "another time": (lambda made: {"at_ms": made.at_ms + 1}, "bad"),
    "more entries": (lambda made: {"entries": 9}, "bad"),
    "another branch": (lambda made: {"branch": "side"}, "bad"),
    "another leaf": (lambda made: {"leaf": "9meXE0bMlDfBVnHCz1KINZUJ1K3mPtXi8DVpgugAtOo"}, "bad"),
    "another letter in the signature": (lambda made: {"signature": in_a_letter(made.signature)}, "bad"),
    "no signature": (lambda made: {"signature": b""}, "bad"),
    "a branch that is none": (lambda made: {"branch": "main\nchain x"}, "misplaced"),
    "a session that is none": (lambda made: {"session": "main"}, "misplaced"),
    "a leaf that is none": (lambda made: {"leaf": ""}, "misplaced"),
}


@needs_ssh
@pytest.mark.parametrize(("change", "state"), CHANGED.values(), ids=CHANGED)
def test_changed_signature_is_a_problem(
    talk: StoredSession, keys: Path, change: Callable[[Seal], dict[str, object]], state: str
) -> None:
    made = signatures.make(talk._store, talk.id, "main", 1_800_000_000_000)
    talk.seal(replace(made, **change(made)))  # type: ignore[arg-type]
    assert states(talk) == [state]
    assert "signature" in "".join(problems(talk._store))


@needs_ssh
def test_good_signature_of_another_session_is_a_problem(talk: StoredSession, keys: Path) -> None:
    made = seal(talk)
    other = begun(talk._store, "elsewhere")
    other.seal(made)
    assert states(other) == ["misplaced"]


@needs_ssh
def test_wrong_signed_count_is_a_problem(talk: StoredSession, keys: Path) -> None:
    made = signatures.make(talk._store, talk.id, "main", 1000)
    lie = replace(made, entries=7)
    talk.seal(replace(lie, signature=Signing.of_user().sign(signatures.statement(lie)).armoured))
    assert states(talk) == ["misplaced"]


@needs_ssh
def test_rewritten_branch_no_longer_matches_its_signature(keys: Path) -> None:
    store = MemoryStore()
    held = begun(store, "one", "two")
    seal(held)
    other = begun(store, "one", "another two")  # whoever can write refs can write a valid history
    with store.transaction() as tx:
        tx.move(refs.leaf(held.id), store.ref(refs.leaf(other.id)), expected=store.ref(refs.leaf(held.id)))
    assert states(held) == ["gone"]
    assert any("the signed entries no longer exist" in what for what in problems(store))


@needs_ssh
def test_signed_branch_hidden_by_damage_is_not_reported_missing(keys: Path) -> None:
    store = MemoryStore()
    held = begun(store, "one", "two")
    seal(held)
    leaf = held.leaf
    assert leaf is not None
    del store._objects[leaf.oid]
    assert states(held) == ["good"]


@needs_ssh
def test_a_key_that_was_revoked_is_a_problem(talk: StoredSession, keys: Path) -> None:
    seal(talk)
    setting("gpg.ssh.revocationFile", keys / "ada.pub")
    assert states(talk) == ["revoked"]
    assert any("was revoked" in what for what in problems(talk._store))


@needs_ssh
def test_a_store_names_no_program_and_no_signers(talk: StoredSession, keys: Path, tmp_path: Path) -> None:
    seal(talk)
    assert isinstance(talk._store, GitStore)
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    trap.chmod(0o755)
    new_key(keys / "eve")
    (tmp_path / "theirs").write_text(f"eve@example.com {(keys / 'eve.pub').read_text()}")
    git(talk._store, "config", "gpg.ssh.allowedSignersFile", str(tmp_path / "theirs"))
    for name in ("gpg.ssh.program", "gpg.program"):
        git(talk._store, "config", name, str(trap))
    assert states(talk) == ["good"]
    assert not (tmp_path / "sprung").exists()


# ---- signing


def test_nothing_is_written_without_a_signing_key(talk: StoredSession, tmp_path: Path) -> None:
    setting("gpg.format", "ssh")
    before = talk._store.ref(refs.meta(talk.id))
    for key in ("", tmp_path / "none"):
        setting("user.signingKey", key)
        with pytest.raises(Unavailable):
            seal(talk)
    setting("gpg.format", "x509")
    with pytest.raises(Unavailable, match="x509"):
        seal(talk)
    with pytest.raises(NotFound):
        seal(talk, "elsewhere")
    with pytest.raises(NotFound):
        seal(talk, "meta")
    assert talk._store.ref(refs.meta(talk.id)) == before


@needs_ssh
def test_public_key_of_an_ssh_agent_is_accepted(
    talk: StoredSession, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`user.signingKey` is the public key, as in git, and ssh-agent has the private key."""
    if shutil.which("ssh-agent") is None or shutil.which("ssh-add") is None:
        pytest.skip("needs ssh-agent")
    begun = ["ssh-agent", "-s", "-a", str(keys / "agent")]
    told = subprocess.run(begun, capture_output=True, text=True, check=True).stdout
    pid = told.partition("SSH_AGENT_PID=")[2].partition(";")[0]
    monkeypatch.setenv("SSH_AUTH_SOCK", str(keys / "agent"))
    try:
        subprocess.run(["ssh-add", "-q", str(keys / "ada")], check=True, capture_output=True)
        setting("user.signingKey", "key::" + (keys / "ada.pub").read_text().strip())
        seal(talk)
        assert states(talk) == ["good"]
    finally:
        os.kill(int(pid), 15)


@needs_ssh
def test_path_of_a_key_may_be_relative_to_the_working_directory(
    talk: StoredSession, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting("user.signingKey", "")
    monkeypatch.chdir(keys)
    made = signatures.make(talk._store, talk.id, "main", 1000, "ada")
    talk.seal(made)
    assert states(talk) == ["good"]


@needs_ssh
# ---- purge and sync


def test_purge_of_signed_entries_is_reported_and_harmless(talk: StoredSession, keys: Path) -> None:
    seal(talk)
    talk.append(Message.user("three"))
    store = talk._store
    assert isinstance(store, GitStore)
    purge(store, find(store, "one"))
    [found] = looked_at(talk)
    assert (found.state, found.purged, found.after) == ("good", 1, 1)
    report = entry_walk.verify(store)
    assert report.problems == []
    assert [(sealed.state, sealed.purged) for sealed in report.signatures] == [("good", 1)]


def test_changed_branch_without_a_purge_is_a_problem(talk: StoredSession, keys: Path) -> None:
    seal(talk)
    store = talk._store
    assert isinstance(store, GitStore)
    purge(store, find(store, "one"))
    leaves = store.refs(refs.session(talk.id))
    nodes = {node.oid: node for leaf in leaves.values() for node in graph.history(store, leaf)}
    [found] = signatures.check_signatures(Sessions(store, leaves, nodes), NONE)
    assert (found.state, found.purged) == ("altered", 1)
    problem = signatures.problem(found)
    assert problem is not None and "not by a purge or a redaction" in problem.what


def test_signature_rebased_by_a_sync_stays_good(keys: Path, tmp_path: Path) -> None:
    server = hub(tmp_path / "hub.git")
    here, there = store_with(tmp_path / "here.git", server), store_with(tmp_path / "there.git", server)
    sid = begun(here, "one", "two").id
    for store in (here, there):
        sync(store)
    for at_ms, store in ((1_800_000_000_000, here), (1_800_000_001_000, there)):
        seal(session(store, sid), at_ms=at_ms)
    for store in (here, there, here):
        sync(store)
    for store in (here, there):
        assert sorted(store.refs(refs.session(sid))) == [refs.leaf(sid), refs.meta(sid)]
        assert [(found.state, found.purged) for found in looked_at(session(store, sid))] == [("good", 0)] * 2
        assert entry_walk.verify(store).problems == []


def test_undo_removes_a_signature(talk: StoredSession, keys: Path) -> None:
    with Store.open(talk._store.git_dir) as store:  # type: ignore[attr-defined]
        store.session(talk.id).sign()
        assert [sealed.state for sealed in store.session(talk.id).signatures()] == ["good"]
        store.undo()
        assert store.session(talk.id).signatures() == []


# ---- gpg


@pytest.fixture
def ring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="gpg-", ignore_cleanup_errors=True) as home:  # a short path
        monkeypatch.setenv("GNUPGHOME", home)
        made = ["--quick-gen-key", "Ada <ada@example.com>", "ed25519", "sign", "never"]
        if subprocess.run(["gpg", "--batch", "--passphrase", "", *made], capture_output=True, check=False).returncode:
            pytest.skip("gpg makes no key here")
        setting("user.signingKey", "ada@example.com")
        yield home
        subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=False, capture_output=True)


@needs_gpg
def test_gpg_signs_and_checks_too(
    talk: StoredSession, ring: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = seal(talk)
    assert made.format == "openpgp"
    [sealed] = looked_at(talk)
    assert (sealed.state, sealed.by) == ("good", "Ada <ada@example.com>")
    talk.seal(replace(made, entries=9))
    assert states(talk) == ["bad", "good"]
    monkeypatch.setenv("GNUPGHOME", str(tmp_path))  # a key ring without her key
    tmp_path.chmod(0o700)
    assert states(talk) == ["misplaced", "unknown"]  # the number of entries can be read without a key


@needs_gpg
def test_key_that_gpg_does_not_trust_is_reported(talk: StoredSession, ring: str) -> None:
    seal(talk)
    told = subprocess.run(["gpg", "--export-ownertrust"], capture_output=True, text=True, check=True).stdout
    lines = [line.rsplit(":", 2)[0] + ":2:\n" for line in told.splitlines() if line and not line.startswith("#")]
    subprocess.run(["gpg", "--import-ownertrust"], input="".join(lines), text=True, check=True, capture_output=True)
    assert states(talk) == ["untrusted"]
    assert problems(talk._store) == []


def test_a_signature_of_another_kind_is_not_checked() -> None:
    assert Signing().check(b"x", Signature("minisign", b"y"), 0).state == "unchecked"


# ---- the command


def test_missing_gpg_key_has_a_hint_about_ssh(tmp_path: Path) -> None:
    gpg = tmp_path / "gpg"
    said = ("gpg: created", "gpg: No secret key", "[GNUPG:] FAILURE")
    gpg.write_text("".join(["#!/bin/sh\n", *(f"echo '{line}' >&2\n" for line in said), "exit 2\n"]))
    gpg.chmod(0o755)
    with pytest.raises(Unavailable, match="cannot sign: gpg failed: gpg: No secret key") as told:
        Signing(gpg_program=str(gpg)).sign(b"x")
    assert "gpg.format ssh" in told.value.hint


@needs_ssh
def test_the_command_signs_and_checks(
    talk: StoredSession, keys: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITSESSION_DIR", str(talk._store.git_dir))  # type: ignore[attr-defined]
    assert run(["sign", talk.id, "--check"]) == exits.NOTHING
    assert run(["sign", talk.id]) == exits.OK
    assert run(["sign", talk.id, "--check"]) == exits.OK
    assert "good, by ada@example.com" in capfd.readouterr().out
    assert run(["sign", talk.id, "--check", "--json"]) == exits.OK
    [told] = json.loads(capfd.readouterr().out)["signatures"]
    assert (told["state"], told["by"], told["entries"], told["after"]) == ("good", "ada@example.com", 3, 0)
    assert run(["verify"]) == exits.OK
    assert "1 signature: 1 good" in capfd.readouterr().out
    talk.seal(replace(seal(talk), entries=4))
    assert run(["sign", talk.id, "--check"]) == exits.INTEGRITY
    assert run(["verify"]) == exits.INTEGRITY
    assert "the signature of branch 'main': it does not match its statement" in capfd.readouterr().out
