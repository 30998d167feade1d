"""Tests of redaction in a store: no object, journal, index or file has the secret; only the local vault has it."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import Clock, entry, header, joined, pi_file, said
from secret_shapes import Shape, a_password, a_token

from gitsession import Message, Store
from gitsession.cli import app as command_line
from gitsession.cli import exits
from gitsession.codec import holes
from gitsession.errors import Ambiguous, InvalidName, NotFound, Refused, Unavailable
from gitsession.importing.import_session import ImportResult
from gitsession.live import spool, spool_snapshot
from gitsession.model.blocks import Text, Thinking, ToolCall
from gitsession.model.entries import Compaction
from gitsession.redaction.original import Original
from gitsession.redaction.own_rules import is_exponential
from gitsession.redaction.vault import Vault
from gitsession.sessions.content import entry_tree, payload_of
from gitsession.sessions.node import Node
from gitsession.verify.entry_walk import verify
from gitsession.workspace.root import WorkspaceRoot

TOKEN, PASSWORD = a_token(), a_password()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        yield store


def place_of(store: Store) -> Path:
    return store.objects.git_dir


def traces(store: Store, *shapes: Shape) -> list[str]:
    """Return where a store contains a secret: in files, or in decompressed objects of git. The vault is left out."""
    place = place_of(store)
    found = [
        str(file.relative_to(place))
        for file in place.rglob("*")
        if file.is_file() and file.name != "vault.db" and any(shape.is_in(file.read_bytes()) for shape in shapes)
    ]
    store.flush()
    objects = subprocess.run(
        ["git", "-C", place, "cat-file", "--batch-all-objects", "--batch"], capture_output=True, check=True
    ).stdout
    return found + ["an object"] * any(shape.is_in(objects) for shape in shapes)


def configure(store: Store, key: str, value: str) -> None:
    subprocess.run(["git", "-C", place_of(store), "config", key, value], check=True)


def take(store: Store, file: Path, *, final: bool = False) -> ImportResult:
    [done] = store.import_file(file, final=final)
    return done


def bring(store: Store, folder: Path, data: bytes, name: str = "s.jsonl") -> str:
    file = folder / name
    file.write_bytes(data)
    return take(store, file).session


def clone_of(store: Store, folder: Path) -> Store:
    """Clone a store with `git clone --mirror`, without the files that are not git's."""
    store.flush()
    subprocess.run(["git", "clone", "-q", "--mirror", place_of(store), folder], check=True)
    return Store.open(folder, clock=Clock())


def text_of(message: object) -> str:
    return json.dumps(message, default=str)


# ---- redaction before an object is written


def test_an_append_leaves_no_secret_but_in_the_vault(store: Store) -> None:
    session = store.new_session(agent="x", cwd=f"/work/{TOKEN.text}")
    session.append(Message.user(f"use {TOKEN.text}"))
    session.append(
        Message.assistant([Text("ok"), ToolCall("1", "bash", {"command": "env", TOKEN.text: [PASSWORD.text]})])
    )
    session.append(Compaction(summary=f"They used {TOKEN.text}", first_kept=None))
    assert traces(store, TOKEN, PASSWORD) == []
    assert session.read(session.history()[1]).content == (Text("use [redacted:github-token]"),)
    assert store.verify().problems == []


def test_titles_labels_and_commands_are_redacted(store: Store) -> None:
    session = store.new_session(agent="x")
    node = session.append(Message.user("hi"))
    session.rename(f"about {TOKEN.text}")
    session.label(node, TOKEN.text)
    forked = session.fork(node)
    forked.append(Message.user(PASSWORD.text))
    assert store.catalogue().session(session.id) is not None
    assert traces(store, TOKEN, PASSWORD) == []
    assert any("[redacted:github-token]" in operation.command for operation in store.operations())


def a_file() -> bytes:
    return joined(
        header(cwd="/work", title=f"with {TOKEN.text}"),
        said("a1", None, f"here:\n{PASSWORD.text}\nand {TOKEN.text}"),
        said("a2", "a1", "long " + "words " * 20_000 + TOKEN.text, role="assistant", at=2),
        entry("custom", "a3", "a2", at=3, customType="x", data={TOKEN.text: {"api_key": "k"}}),
        b"no json " + TOKEN.text.encode(),
        said("a4", "a3", "the end", at=4),
    )


def test_an_import_leaves_no_secret_but_in_the_vault(store: Store, tmp_path: Path) -> None:
    sid = bring(store, tmp_path, a_file())
    list(store.search("words"))
    store.catalogue().sessions()
    assert traces(store, TOKEN, PASSWORD) == []
    assert store.verify().problems == []
    (tmp_path / "s.jsonl").write_bytes(a_file() + said("a5", "a4", TOKEN.text))  # a line that is still incomplete
    take(store, tmp_path / "s.jsonl", final=True)
    assert traces(store, TOKEN, PASSWORD) == []
    assert len(store.session(sid).history()) == 7


def test_the_vault_is_its_owners_alone(store: Store) -> None:
    session = store.new_session(agent="x")
    session.append(Message.user("hi"))
    vault = place_of(store) / "gitsession/vault.db"
    assert not vault.exists(), "who hides nothing pays nothing"
    session.append(Message.user(TOKEN.text))
    assert stat.S_IMODE(vault.stat().st_mode) == 0o600


@pytest.mark.promise("P35")
def test_readable_copy_of_a_vault_is_made_private(store: Store, faults) -> None:
    session = store.new_session(agent="x")
    session.append(Message.user(TOKEN.text))
    vault = place_of(store) / "gitsession/vault.db"
    store.close()
    vault.chmod(0o666)
    with faults.one(), Store.open(place_of(store)) as again:
        again.session(session.id).append(Message.user(PASSWORD.text))
        assert stat.S_IMODE(vault.stat().st_mode) == 0o600


@pytest.mark.promise("P33")
@pytest.mark.parametrize("is_there", [False, True])
def test_vault_that_links_out_of_the_store_is_not_written(store: Store, tmp_path: Path, is_there, faults) -> None:
    outside = tmp_path / "theirs.db"
    if is_there:
        outside.write_bytes(b"")
    (place_of(store) / "gitsession/vault.db").symlink_to(outside)
    session = store.new_session(agent="x")
    with faults.one(), pytest.raises(Unavailable, match="not a regular file"):
        session.append(Message.user(TOKEN.text))
    assert outside.exists() == is_there
    assert not is_there or outside.read_bytes() == b""


def test_a_vault_of_which_only_the_name_is_there_holds_nothing(store: Store) -> None:
    """The process that created the vault was killed before it wrote any data."""
    session = store.new_session(agent="x")
    session.append(Message.user("hi"))
    (place_of(store) / "gitsession/vault.db").touch()
    assert store.objects.vault.digests() == set()
    assert store.objects.vault.original(bytes(32), bytes(32)) is None
    session.append(Message.user(TOKEN.text))
    assert len(store.objects.vault.digests()) == 1


def test_entry_is_not_written_if_its_original_cannot_be_kept(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    session = store.new_session(agent="x")
    session.append(Message.user("hi"))

    def full(*_: object) -> None:
        raise Unavailable("no space left")

    monkeypatch.setattr(Vault, "keep", full)
    with pytest.raises(Unavailable):
        session.append(Message.user(TOKEN.text))
    assert len(session.history()) == 2
    monkeypatch.undo()
    session.append(Message.user(TOKEN.text))
    assert len(session.history()) == 3


def test_redaction_can_be_switched_off(store: Store) -> None:
    configure(store, "gitsession.redact", "false")
    session = store.new_session(agent="x")
    session.append(Message.user(TOKEN.text))
    assert TOKEN.text in session.history()[-1].subject


# ---- this machine and others


def test_context_has_the_originals_and_the_digest_of_other_stores(store: Store, tmp_path: Path) -> None:
    session = store.new_session(agent="x")
    session.append(Message.user(f"use {TOKEN.text}"))
    session.append(Message.user("and now?"))
    here = session.context()
    assert TOKEN.is_in(text_of(here.request("anthropic")))
    assert here.hidden == 0
    with clone_of(store, tmp_path / "clone.git") as other:
        there = other.session(session.id).context()
        assert there.hidden == 1
        assert "[redacted:github-token]" in text_of(there.request("anthropic"))
        assert there.digest == here.digest
    again = session.context()
    assert TOKEN.is_in(text_of(again.messages)), "also from what the handle remembers"
    assert again.digest == here.digest


def test_an_import_fills_the_vault_of_a_machine_that_had_none(store: Store, tmp_path: Path) -> None:
    sid = bring(store, tmp_path, a_file())
    with clone_of(store, tmp_path / "clone.git") as other:
        assert other.session(sid).context().hidden > 0
        assert bring(other, tmp_path, a_file()) == sid
        assert other.session(sid).branches() == store.session(sid).branches()
        assert other.session(sid).context().hidden == 0
        assert other.export(sid, with_secrets=True).data == a_file()


def test_export_redacts_and_counts_unless_secrets_are_requested(store: Store, tmp_path: Path) -> None:
    sid = bring(store, tmp_path, a_file())
    for original in (False, True):
        sent = store.export(sid, original=original)
        assert not TOKEN.is_in(sent.data)
        assert sent.hidden == 6
        exact = store.export(sid, original=original, with_secrets=True)
        assert exact.data == a_file()
        assert exact.hidden == 0
    for to in ("markdown", "jsonl"):
        assert not TOKEN.is_in(store.export(sid, to=to).data)
        assert TOKEN.is_in(store.export(sid, to=to, with_secrets=True).data)


def test_owner_continues_a_session_with_the_original_text(store: Store, tmp_path: Path) -> None:
    session = store.new_session(agent="pi", cwd=str(tmp_path))
    session.append(Message.user(f"use {TOKEN.text}"))
    session.append(Message.assistant("yes"))
    done = store.agents.resume(session.id, agent="pi", cwd=tmp_path)
    assert TOKEN.is_in(done.file.read_bytes())
    done.file.write_bytes(done.file.read_bytes() + said("b1", None, "on we go", at=100) + b"\n")
    before = len(session.tree().nodes)
    store.import_file(done.file)
    assert len(session.tree().nodes) == before + 1, "what is ours is known again, though it is hidden here"
    assert traces(store, TOKEN) == []


def test_signed_block_with_a_secret_is_left_out(store: Store, tmp_path: Path) -> None:
    session = store.new_session(agent="x")
    session.append(Message.user("think"))
    thought = Thinking(f"I know {TOKEN.text}", signature="c2ln")
    session.append(Message.assistant([thought, Thinking("fine", signature="c2ln"), Text("done")]))
    assert TOKEN.is_in(text_of(session.context().request("anthropic")))
    with clone_of(store, tmp_path / "clone.git") as other:
        blocks = other.session(session.id).context().messages[-1].content
        assert [block.text for block in blocks] == ["fine", "done"]


def test_two_originals_of_one_entry_are_both_kept_and_neither_is_shown(store: Store) -> None:
    session = store.new_session(agent="x")
    session.append(Message.user("hi"))
    node = session.append(Message.user(TOKEN.text))
    vault = store.objects.vault
    [digest] = vault.digests()
    vault.keep([Original(digest, node.chain, b"another", "x y 1")])
    with pytest.raises(Ambiguous) as told:
        vault.original(digest, node.chain)
    assert len(told.value.candidates) == 2
    context = session.context()
    assert context.hidden == 1
    assert not TOKEN.is_in(text_of(context.messages))


def test_typed_placeholder_is_text(store: Store) -> None:
    session = store.new_session(agent="x")
    node = session.append(Message.user("[redacted:github-token] is what it says"))
    assert holes.hidden(entry_tree(store.objects, node).holes) == []
    assert session.context().hidden == 0


# ---- other rules


def nodes_of(store: Store, sid: str) -> set[str]:
    return {node.oid for node in store.session(sid).tree().nodes.values()}


def test_entries_stored_before_redaction_are_unchanged(store: Store, tmp_path: Path) -> None:
    configure(store, "gitsession.redact", "false")
    sid = bring(store, tmp_path, a_file())
    before = nodes_of(store, sid)
    store.close()
    configure(store, "gitsession.redact", "true")
    with Store.open(place_of(store), clock=Clock()) as again:
        done = take(again, tmp_path / "s.jsonl")
        assert done.new == 0
        assert nodes_of(again, sid) == before
        assert list(again.session(sid).branches()) == ["main"]
        grown = a_file() + said("a5", "a4", f"more {TOKEN.text}", at=5) + b"\n"
        bring(again, tmp_path, grown)
        assert len(nodes_of(again, sid)) == len(before) + 1
        assert list(again.session(sid).branches()) == ["main"]
        assert again.export(sid, with_secrets=True).data == grown


def test_entries_stored_by_other_rules_are_unchanged(store: Store, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nname = "words"\npattern = "and|the end"\nsamples = ["and"]\n')
    configure(store, "gitsession.rules", str(rules))
    sid = bring(store, tmp_path, a_file())
    before = nodes_of(store, sid)
    assert "[redacted:words]" in str([node.subject for node in store.session(sid).history()])
    store.close()
    configure(store, "gitsession.rules", "")
    with Store.open(place_of(store), clock=Clock()) as again:
        assert take(again, tmp_path / "s.jsonl").new == 0
        assert nodes_of(again, sid) == before
        assert again.export(sid, with_secrets=True).data == a_file()


def test_a_file_in_which_only_a_secret_changed_is_the_same_file(store: Store, tmp_path: Path) -> None:
    sid = bring(store, tmp_path, a_file())
    before = nodes_of(store, sid)
    bring(store, tmp_path, a_file().replace(TOKEN.hidden[0].encode(), a_token(1).hidden[0].encode()))
    assert nodes_of(store, sid) == before


def test_entry_that_differs_beside_a_secret_is_another_entry(store: Store, tmp_path: Path) -> None:
    sid = bring(store, tmp_path, a_file())
    before = nodes_of(store, sid)
    bring(store, tmp_path, a_file().replace(b"here:", b"there:"))
    assert len(nodes_of(store, sid)) > len(before)


# ---- the user's own rules


BAD_RULES = {
    "no TOML": ("[[rule", "rules.toml"),
    "another table": ("[rules]\n", "expected only off"),
    "off is no list": ("off = 'jwt'\n", "off must be a list of strings"),
    "a rule to be off that is none of ours": ("off = ['jwt', 'acme']\n", "off names 'acme'"),
    "what is allowed is no list of texts": ("allow = [1]\n", "allow must be a list of strings"),
    "no name": ("[[rule]]\npattern = 'x'\nsamples = ['x']\n", "name must be a string"),
    "a name of ours": ("[[rule]]\nname = 'jwt'\npattern = 'x'\nsamples = ['x']\n", "already in use"),
    "a name that no placeholder can hold": ("[[rule]]\nname = 'A b'\npattern = 'x'\nsamples = ['x']\n", "'A b'"),
    "no pattern": ("[[rule]]\nname = 'acme'\nsamples = ['x']\n", "pattern must be a string"),
    "a pattern that is none": ("[[rule]]\nname = 'acme'\npattern = '('\nsamples = ['x']\n", "cannot compile"),
    "a pattern of nothing": ("[[rule]]\nname = 'acme'\npattern = 'x*'\nsamples = ['x']\n", "the empty string"),
    "a pattern that may take for ever": ("[[rule]]\nname = 'acme'\npattern = '(x+)+y'\nsamples = ['xy']\n", "nested"),
    "no samples": ("[[rule]]\nname = 'acme'\npattern = 'x'\n", "at least one"),
    "a sample that it does not find": ("[[rule]]\nname = 'acme'\npattern = 'x'\nsamples = ['y']\n", "match the sample"),
    "a word that its sample has not": (
        "[[rule]]\nname = 'acme'\npattern = 'x'\nwords = ['z']\nsamples = ['x']\n", "match the sample"
    ),
    "what it must not find": ("[[rule]]\nname = 'acme'\npattern = 'x'\nsamples = ['x']\nnever = ['axe']\n", "in never"),
    "a field that there is not": ("[[rule]]\nname = 'acme'\npattern = 'x'\nsample = 'x'\n", "expected a table"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "told"), BAD_RULES.values(), ids=BAD_RULES)
def test_useless_rule_is_rejected_and_nothing_is_written(store: Store, tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "rules.toml").write_text(text)
    configure(store, "gitsession.rules", str(tmp_path / "rules.toml"))
    with pytest.raises(Refused, match=told):
        store.new_session(agent="x").append(Message.user("hi"))
    assert store.catalogue().sessions() == []


def test_pipe_as_the_file_of_rules_does_not_block(store: Store, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rules.toml")
    configure(store, "gitsession.rules", str(tmp_path / "rules.toml"))
    with pytest.raises(NotFound, match="not a regular file"):
        store.new_session(agent="x").append(Message.user("hi"))


AWS = ["AKIA" + "Z3KQ7XJ2M5TB6WPL", "AKIA" + "Q5NV2RC7D3HY4SGF"]  # joined, so that this file has no key


@pytest.mark.parametrize("is_imported", [False, True])
def test_allowed_text_is_the_only_one_that_is_stored(store: Store, tmp_path: Path, is_imported: bool) -> None:
    (tmp_path / "rules.toml").write_text(f"allow = ['{AWS[0]}']\n")
    configure(store, "gitsession.rules", str(tmp_path / "rules.toml"))
    text = f"build {AWS[0]}, key {AWS[1]}, {AWS[0]}\nexport KEY={AWS[0]}"
    if is_imported:
        data = header("0199-a") + b"\n" + said("aaaa1111", None, text) + b"\n"
        (tmp_path / "s.jsonl").write_bytes(data)
        kept = store.export(take(store, tmp_path / "s.jsonl").session).data.decode()
    else:
        session = store.new_session(agent="x")
        session.append(Message.user(text))
        kept = store.export(session.id, to="jsonl").data.decode()
    assert kept.count(AWS[0]) == 3
    assert AWS[1] not in kept
    assert not list(store.secrets.find())


def test_disabled_built_in_rule_finds_nothing_and_others_do(store: Store, tmp_path: Path, capsys) -> None:
    (tmp_path / "rules.toml").write_text("off = ['aws-access-key']\n")
    configure(store, "gitsession.rules", str(tmp_path / "rules.toml"))
    node = store.new_session(agent="x").append(Message.user(f"{AWS[0]} and {TOKEN.text}"))
    assert AWS[0] in node.subject
    assert TOKEN.hidden[0] not in node.subject
    assert not list(store.secrets.find())
    assert command_line.run(["--store", str(place_of(store)), "doctor"]) == 0
    assert "all built-in rules except aws-access-key: " in capsys.readouterr().out


FOR_EVER = ["(a+)+b", "(a*)*b", "(a|ab)+c", "(a?){40}b", "(x{1,9}y?)*z", r"(\w+\s?)+!", "k(?=(a+)*b)", "(?>(a+)+b)"]
IN_TIME = ["acme-[0-9]+", "(foo|bar){1,8}", "([a-f0-9]{4}-){3}", "(?:a+)++b", "(a|b1)*+c", "(?>a|b1)+c", r"\w*x\d*"]


@pytest.mark.parametrize("pattern", FOR_EVER + IN_TIME)
def test_exponential_pattern_is_detected(pattern: str) -> None:
    assert is_exponential(pattern.encode()) == (pattern in FOR_EVER)


def test_relative_path_of_rules_is_relative_to_the_store(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = "[[rule]]\nname = 'acme'\npattern = 'acme_[0-9]'\nsamples = ['acme_1']\n"
    (place_of(store) / "rules.toml").write_text(rule)
    configure(store, "gitsession.rules", "rules.toml")
    monkeypatch.chdir(tmp_path)
    node = store.new_session(agent="x").append(Message.user("it is acme_7"))
    assert node.subject.endswith("it is [redacted:acme]")


def test_invalid_rules_are_reported_once_and_by_doctor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_bytes(header(f"0199-{name}") + b"\n" + said("aaaa1111", None, "hi") + b"\n")
    monkeypatch.chdir(tmp_path)
    with Store.create(tmp_path / "other.git") as other:
        configure(other, "gitsession.rules", "/gone/rules.toml")
    capsys.readouterr()
    assert command_line.run(["--store", "other.git", "import", "a.jsonl", "b.jsonl"]) == exits.NOT_FOUND
    told = capsys.readouterr().err
    assert told.count("/gone/rules.toml") == 1
    assert "set gitsession.rules" in told
    assert command_line.run(["--store", "other.git", "doctor"]) == exits.INTEGRITY
    assert "!!  secrets       cannot read the rules in '/gone/rules.toml'" in capsys.readouterr().out


def test_missing_file_of_rules_is_named(store: Store, tmp_path: Path) -> None:
    configure(store, "gitsession.rules", str(tmp_path / "none.toml"))
    with pytest.raises(NotFound, match=r"none\.toml"):
        store.new_session(agent="x").append(Message.user("hi"))


def test_rules_of_the_users_own_are_used(store: Store, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text("[[rule]]\nname = 'acme'\npattern = 'acme-(?P<secret>[0-9]+)'\nsamples = ['acme-12']\n")
    configure(store, "gitsession.rules", str(rules))
    session = store.new_session(agent="x")
    session.append(Message.user("it is acme-123456, yes"))
    assert session.history()[-1].subject == "user: it is acme-[redacted:acme], yes"


# ---- files


def test_file_with_a_secret_is_not_captured_and_reported(store: Store, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / ".env").write_text(PASSWORD.text + "\n")
    (work / "plain.txt").write_text("nothing to hide\n")
    session = store.new_session(agent="x", cwd=str(work))
    session.append(Message.user("hi"))
    for paths in (None, [".env", "plain.txt"]):
        node = session.files.take_checkpoint(workspace=work, paths=paths)
        assert (".env", "secret: assigned-password") in session.read(node).skipped
        assert session.read(node).paths in ((), ("plain.txt",))
    assert traces(store, PASSWORD) == []


def test_file_named_by_a_secret_is_neither_captured_nor_named(store: Store, tmp_path: Path) -> None:
    work = tmp_path / "work"
    folder = f"token={TOKEN.text}"
    files = [f"{TOKEN.text}.txt", f"{folder}/deep/a.txt", "plain.txt"]
    for name in files:
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(f"in {len(name)}\n")
    (work / folder / "other").mkdir()
    subprocess.run(["git", "init", "-q", work / folder / "other"], check=True)
    session = store.new_session(agent="x", cwd=str(work))
    session.append(Message.user("hi"))
    for paths in (None, files):
        node = session.files.take_checkpoint(workspace=work, paths=paths)
        left = dict(session.read(node).skipped)
        assert {"[redacted:github-token]", "[redacted:github-token]/deep/a.txt"} <= left.keys()
        assert left["[redacted:github-token]"] == "secret: github-token"
        assert set(session.files.at()) == {"plain.txt"}
    assert verify(store.objects).problems == []
    assert traces(store, TOKEN) == []
    with WorkspaceRoot.open(work, home=tmp_path / "home", store=place_of(store)) as root:
        event = spool_snapshot.spool_snapshot(place_of(store), root, {"event": "x", "agent": "y"}, wait_seconds=5)
    assert not TOKEN.is_in(Path(spool.path(str(place_of(store)), event)).read_bytes())


def test_no_branch_is_called_by_a_secret(store: Store, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text("[[rule]]\nname = 'acme'\npattern = 'acme-[0-9]{6}'\nsamples = ['acme-123456']\n")
    configure(store, "gitsession.rules", str(rules))
    session = store.new_session(agent="x")
    session.append(Message.user("hi"))
    with pytest.raises(InvalidName, match="contains a secret") as error:
        session.branch("acme-123456")
    assert "123456" not in str(error.value)
    assert list(session.branches()) == ["main"]


# ---- data that is already stored


def test_stored_secrets_are_found_and_redacted(store: Store, tmp_path: Path) -> None:
    configure(store, "gitsession.redact", "false")
    sid = bring(store, tmp_path, a_file())
    session = store.new_session(agent="x")
    session.append(Message.user(f"use {TOKEN.text}"))
    session.append(Message.user("and then?"))
    chains = [node.chain for node in session.history()]
    assert "an object" in traces(store, TOKEN)
    store.close()
    configure(store, "gitsession.redact", "true")
    with Store.open(place_of(store), clock=Clock()) as again:
        found = list(again.secrets.find())
        assert {each.session for each in found} == {sid, session.id}
        assert {each.rule for each in found} == {"github-token", "assigned-password"}
        done = again.secrets.redact(found)
        assert done.entries == 6
        assert list(again.secrets.find()) == []
        assert traces(again, TOKEN, PASSWORD) == []
        assert again.verify().problems == []
        assert [node.chain for node in again.session(session.id).history()] == chains
        assert again.export(sid, with_secrets=True).data == a_file()
        assert take(again, tmp_path / "s.jsonl").new == 0
        assert TOKEN.is_in(text_of(again.session(session.id).context().messages))


def test_purge_removes_the_original_too(store: Store) -> None:
    session = store.new_session(agent="x")
    session.append(Message.user("hi"))
    node = session.append(Message.user(TOKEN.text))
    session.append(Message.user(PASSWORD.text))
    store.purges.apply(store.purges.plan(session.id, node))
    vault = place_of(store) / "gitsession/vault.db"
    with sqlite3.connect(vault) as db:
        assert db.execute("SELECT count(*) FROM originals").fetchone() == (1,)
    assert PASSWORD.is_in(text_of(session.context().messages))


def stands(store: Store, sid: str) -> list[str]:
    return [node.kind for node in store.session(sid).history()]


def go_by(store: Store, folder: Path, rules: str) -> None:
    (folder / "rules.toml").write_text("[[rule]]\nname = 'words'\npattern = 'and'\nsamples = ['and']\n")
    configure(store, "gitsession.redact", "false" if rules == "none" else "true")
    configure(store, "gitsession.rules", str(folder / "rules.toml") if rules == "mine" else "")


def purge_what_says(store: Store, sid: str, words: str) -> None:
    [node] = [node for node in store.session(sid).history() if words in node.subject]
    store.purges.apply(store.purges.plan(sid, node))


@pytest.mark.parametrize("rules_then", ["ours", "mine", "none"])
@pytest.mark.parametrize("rules_later", ["ours", "mine", "none"])
def test_redacted_and_purged_entry_stays_purged_under_any_rules(
    store: Store, tmp_path: Path, rules_then: str, rules_later: str
) -> None:
    """The session is stored redacted or in plain text.

    The source still has the secret and is imported with changed rules.
    """
    go_by(store, tmp_path, rules_then)
    sid = bring(store, tmp_path, a_file())
    if rules_then == "none":
        store.close()
        go_by(store, tmp_path, "ours")
        with Store.open(place_of(store), clock=Clock()) as other:
            other.secrets.redact(list(other.secrets.find()))
    with Store.open(place_of(store), clock=Clock()) as again:
        purge_what_says(again, sid, "here:")
        before, kinds = nodes_of(again, sid), stands(again, sid)
        assert "tombstone" in kinds
    go_by(store, tmp_path, rules_later)
    with Store.open(place_of(store), clock=Clock()) as later:
        assert take(later, tmp_path / "s.jsonl").new == 0
        assert nodes_of(later, sid) == before
        bring(later, tmp_path, a_file() + said("a5", "a4", "more", at=5) + b"\n")
        assert stands(later, sid) == [*kinds, "message"]
        assert traces(later, PASSWORD) == []


@pytest.mark.parametrize("rules", ["ours", "none"])
def test_purged_entry_stays_purged_in_a_store_that_never_had_it(store: Store, tmp_path: Path, rules: str) -> None:
    sid = bring(store, tmp_path, a_file())
    purge_what_says(store, sid, "here:")
    with clone_of(store, tmp_path / "clone.git") as other:
        go_by(other, tmp_path, rules)
        assert bring(other, tmp_path, a_file()) == sid
        assert nodes_of(other, sid) == nodes_of(store, sid)
        assert traces(other, PASSWORD) == []


def test_payload_of_an_entry_is_the_stored_one(store: Store) -> None:
    session = store.new_session(agent="x")
    session.append(Message.user("hi"))
    node: Node = session.append(Message.user(TOKEN.text))
    assert not TOKEN.is_in(payload_of(store.objects, node))


def test_pi_files_are_equal_with_and_without_redaction(store: Store, tmp_path: Path) -> None:
    data = pi_file(said("a1", None, "nothing to hide"))
    sid = bring(store, tmp_path, data)
    assert store.export(sid).data == data
    assert store.export(sid).hidden == 0


# ---- commands


def gitsession(store: Store, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "gitsession", "--store", place_of(store), *words], capture_output=True, text=True
    )
    assert done.returncode == code, done.stderr
    return done


def test_commands_list_redact_and_restore(store: Store, tmp_path: Path) -> None:
    configure(store, "gitsession.redact", "false")
    sid = bring(store, tmp_path, a_file())
    store.flush()
    configure(store, "gitsession.redact", "true")
    told = gitsession(store, "redact", "--dry-run", code=6)
    assert f"{sid}@" in told.stdout
    assert "github-token" in told.stdout
    assert not TOKEN.is_in(told.stdout)
    found = json.loads(gitsession(store, "redact", sid, "--dry-run", "--json", code=6).stdout)
    assert {each["rule"] for each in found["found"]} == {"github-token", "assigned-password"}
    assert found["hidden"] is None
    assert "redacted: 5 entries" in gitsession(store, "redact", sid).stdout
    assert gitsession(store, "redact").stdout == "no secrets found\n"
    told = gitsession(store, "export", sid)
    assert not TOKEN.is_in(told.stdout)
    assert "6 secrets are placeholders (pass --with-secrets to restore them)" in told.stderr
    assert gitsession(store, "export", sid, "--with-secrets").stdout.encode() == a_file()
    shown = json.loads(gitsession(store, "show", f"{sid}@a2", "--json").stdout)
    assert [each["rule"] for each in shown["hidden"]] == ["github-token"]


def test_a_hook_leaves_no_secret_of_a_file_in_the_spool(store: Store, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / ".env").write_text(PASSWORD.text + "\n")
    (work / "plain.txt").write_text("nothing to hide\n")
    with WorkspaceRoot.open(work, home=tmp_path / "home", store=place_of(store)) as root:
        event = spool_snapshot.spool_snapshot(place_of(store), root, {"event": "x", "agent": "y"}, wait_seconds=5)
    waiting = Path(spool.path(str(place_of(store)), event)).read_bytes()
    assert b"nothing to hide" in waiting
    assert b"secret: assigned-password" in waiting
    assert not PASSWORD.is_in(waiting)
