"""Tests of malicious tombstone sets: they can remove and redact, but neither change the text nor break a history."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import assert_clean, session
from purged import key_of
from pushed import Client, bare, hub, push
from remotes import store_with, sync
from secret_shapes import a_token

from gitsession import Message, Store
from gitsession.codec.holes import StoredPayload
from gitsession.model.blocks import Text, ToolCall
from gitsession.model.entries import Entry
from gitsession.sessions import tombstone_set
from gitsession.sessions.commit_writer import draft_own
from gitsession.sessions.tombstone_set import PURGED_CONTENT_OID, Replacement, Tombstones
from gitsession.store import refs
from gitsession.store.git_store import GitStore
from gitsession.validation import quarantine_reader, validate
from gitsession.validation.quarantine_reader import GitReader, Limits, Proposed

ALL = "refs/heads/*:refs/heads/*"
TOKEN = a_token()


def instead(client: Client, form: str, data: bytes, holes: bytes = b"", *, of: str = "leaf") -> Tombstones:
    node = client.leaf if of == "leaf" else client.root
    return Tombstones(replaced={key_of(client.store, node): Replacement(form, StoredPayload(data, holes, ()))})


def says(client: Client, entry: Callable[..., Entry], of: str = "leaf") -> Tombstones:
    draft = draft_own(entry("I never said that", at_ms=client.leaf.author_seconds * 1000), bytes(16), None)
    return instead(client, draft.form, draft.stored.payload, of=of)


FORGED: dict[str, tuple[Callable[[Client], Tombstones], str]] = {
    "other words": (lambda one: says(one, Message.user), "does more than hide a part"),
    "another author": (lambda one: says(one, Message.assistant), "the replacement of the user message"),
    "a message where the session begins": (lambda one: says(one, Message.user, "root"), "replacement of the session"),
    "no CBOR": (lambda one: instead(one, "cbor", b"garbage"), "invalid CBOR"),
    "holes that are none": (lambda one: instead(one, "cbor", b"", b"zz"), "invalid CBOR"),
    "another form": (lambda one: instead(one, "jsonl", b"{}"), "invalid CBOR"),
    "the beginning alone": (lambda one: Tombstones(frozenset({key_of(one.store, one.root)})), "the whole session"),
    "a session that begins elsewhere": (
        lambda one: Tombstones(sessions={one.sid: frozenset({"0" * 64})}), "begins with another entry"
    ),
    "a session that begins nowhere": (lambda one: Tombstones(sessions={one.sid: frozenset()}), "begins with another"),
}  # fmt: skip


@pytest.fixture
def client(tmp_path: Path) -> Client:
    client = Client.begin(tmp_path / "theirs.git")
    session(client.store, client.sid).append(Message.user("what I said"))
    client.store.flush()
    return client


def pushed(client: Client, to: Path, said: Tombstones) -> subprocess.CompletedProcess[str]:
    made = tombstone_set.add(client.store, None, said, 1000)
    for kind, data in made.objects.values():
        client.put(kind, data)
    return push(client.path, to, f"{made.oid}:{refs.TOMBSTONES}")


@pytest.mark.promise("P34")
@pytest.mark.parametrize("name", FORGED)
def test_forged_set_is_not_merged_and_the_store_continues(tmp_path: Path, client: Client, name: str, faults) -> None:
    place = bare(tmp_path / "hub.git")
    push(client.path, place, ALL)
    ours = store_with(tmp_path / "ours.git", place)
    sync(ours)
    before = ours.refs(refs.SESSIONS)
    make, why = FORGED[name]
    assert pushed(client, place, make(client)).returncode == 0
    store = Store(ours)
    with faults.one():
        told = {branch.ref: branch for branch in store.remotes.sync().branches}
        assert told[refs.TOMBSTONES].outcome == "refused"
        assert why in told[refs.TOMBSTONES].why
        assert ours.refs(refs.SESSIONS) == before
        assert ours.ref(refs.TOMBSTONES) is None
        assert_clean(ours)
    store.close()


@pytest.mark.promise("P34")
@pytest.mark.parametrize("name", ["other words", "no CBOR", "a session that begins elsewhere"])
def test_a_server_refuses_it(tmp_path: Path, client: Client, name: str, faults) -> None:
    place = hub(tmp_path / "hub.git")
    push(client.path, place, ALL)
    make, why = FORGED[name]
    with faults.one():
        done = pushed(client, place, make(client))
        assert done.returncode == 1
        assert why in done.stderr
        assert "[tombstones]" in done.stderr


def test_a_redaction_is_no_forgery(tmp_path: Path) -> None:
    """Redact own entries with the secret in a text, a key and a value, and one that was redacted before."""
    place = hub(tmp_path / "hub.git")
    with Store.create(tmp_path / "one.git") as one:
        one.remotes.add("origin", str(place))
        subprocess.run(["git", "-C", one.objects.git_dir, "config", "gitsession.redact", "false"], check=True)
        said = one.new_session(agent="agent")
        said.append(Message.user(f"use {TOKEN.text}, then [redacted:typed] it"))
        call = ToolCall(id="1", name="run", arguments={TOKEN.text: "x", "a": [TOKEN.text, 7]})
        said.append(Message.assistant([Text(text="done"), call]))
        said.append(Message.user("and acme_0123456789 again"))
        assert one.remotes.push("origin").of("refused")  # the secret scan of the push
    push(tmp_path / "one.git", place, ALL)
    shutil.copytree(place, bare(tmp_path / "plain.git"), dirs_exist_ok=True)
    for at in ("two.git", "three.git"):
        store_with(tmp_path / at, place).close()
    with GitStore.open(tmp_path / "two.git") as two:
        sync(two)
        with Store.open(tmp_path / "one.git") as one:
            assert one.secrets.redact(list(one.secrets.find())).entries == 2
            assert not one.remotes.sync("origin").of("refused")
        told = sync(two)
        assert told[refs.MAIN] == "purged"
        assert_clean(two)
        assert not TOKEN.is_in(b"".join(two.read(oid)[1] for oid in two.oids()))


def test_placeholder_of_a_purged_file_is_never_purged(tmp_path: Path) -> None:
    """Purged placeholders would block the push and fetch of every checkpoint with a purged file."""
    place = hub(tmp_path / "hub.git")
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("the word")
    with Store.create(tmp_path / "one.git") as one:
        one.remotes.add("origin", str(place))
        said = one.new_session(agent="agent", cwd=str(folder))
        said.append(Message.user("hi"))
        said.files.take_checkpoint()
        one.purges.apply(one.purges.plan(text="the word"))
        assert one.purges.plan(text="[purged]").is_empty
        assert not Tombstones(frozenset({f"file:{PURGED_CONTENT_OID}"})).has_file(PURGED_CONTENT_OID)
        assert not one.remotes.sync("origin").of("refused")


RULES = """[[rule]]
name = "{name}"
pattern = '{name}_[a-z0-9]{{8}}'
words = ["{name}_"]
samples = ["{name}_01234567"]
"""


def redacted_by(path: Path, name: str) -> None:
    """Redact every entry of the store ``path`` with one more rule."""
    (path.parent / f"{name}.toml").write_text(RULES.format(name=name))
    subprocess.run(["git", "-C", path, "config", "gitsession.redact", "true"], check=True)
    subprocess.run(["git", "-C", path, "config", "gitsession.rules", path.parent / f"{name}.toml"], check=True)
    with Store.open(path) as store:
        assert store.secrets.redact(list(store.secrets.find())).entries == 1


def two_with(tmp_path: Path, place: Path, text: str) -> list[Path]:
    """Create two stores, with ``place`` as their remote, and one session that contains ``text``."""
    paths = [tmp_path / "one.git", tmp_path / "two.git"]
    with Store.create(paths[0]) as one:
        one.remotes.add("origin", str(place))
        subprocess.run(["git", "-C", paths[0], "config", "gitsession.redact", "false"], check=True)
        said = one.new_session(agent="agent")
        said.append(Message.user(text))
        said.append(Message.user("after it"))
        assert not one.remotes.sync("origin").of("refused")
    with store_with(paths[1], place) as two:
        sync(two)
    return paths


@pytest.mark.parametrize("kind", [bare, hub])
def test_two_redactions_of_one_entry_that_differ_leave_nothing_of_it(tmp_path: Path, kind) -> None:
    place = kind(tmp_path / "hub.git")
    paths = two_with(tmp_path, place, "acme_01234567 and corp_01234567")
    redacted_by(paths[0], "acme")
    redacted_by(paths[1], "corp")
    for _ in range(2):
        for path in paths:
            with Store.open(path) as store:
                told = store.remotes.sync("origin")
                assert [branch for branch in told.branches if branch.outcome == "refused"] == []
    held = []
    for path in paths:
        with GitStore.open(path) as store:
            lines = store.refs(refs.SESSIONS)
            shown = b"".join(store.read(oid)[1] for tip in lines.values() for oid in below(store, tip))
            assert b"_01234567" not in shown
            assert_clean(store)
            held.append({**lines, refs.TOMBSTONES: store.ref(refs.TOMBSTONES)})
    assert held[0] == held[1]


def below(store: GitStore, tip: str) -> set[str]:
    told = subprocess.run(["git", "-C", store.git_dir, "rev-list", "--objects", tip], capture_output=True, check=True)
    return {line.split()[0].decode() for line in told.stdout.splitlines()}


def test_an_entry_that_was_redacted_can_only_be_hidden_more(tmp_path: Path) -> None:
    place = bare(tmp_path / "hub.git")
    paths = two_with(tmp_path, place, "acme_01234567 it was")
    redacted_by(paths[0], "acme")
    for path in paths:
        with Store.open(path) as store:
            store.remotes.sync("origin")
    with GitStore.open(paths[0]) as forger, GitStore.open(paths[1]) as ours:
        [by] = tombstone_set.read(forger).replaced.values()
        draft = draft_own(Message.user("I never said that", at_ms=1000), bytes(16), None)
        words = Replacement(draft.form, draft.stored)
        made = tombstone_set.add(forger, forger.ref(refs.TOMBSTONES), Tombstones(replaced={by.digest: words}), 2000)
        with forger.transaction() as tx:
            tx.put_all(made.objects)
            tx.move("refs/heads/gitsession/forged", made.oid, expected=None)
        forger.flush()
        assert push(paths[0], place, f"{made.oid}:{refs.TOMBSTONES}").returncode == 0
        before = ours.refs(refs.SESSIONS)
        told = {branch.ref: branch for branch in Store(ours).remotes.sync("origin").branches}
        assert "does more than hide a part" in told[refs.TOMBSTONES].why
        assert ours.refs(refs.SESSIONS) == before


def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Advance the clock one second at each call."""
    monkeypatch.setattr(quarantine_reader.time, "monotonic", itertools.count().__next__)


def test_the_time_for_judging_counts_for_sets_too(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    tip = None
    for number in range(4):
        made = tombstone_set.add(client.store, tip, Tombstones(frozenset({f"{number:064x}"})), 1000)
        for kind, data in made.objects.values():
            client.put(kind, data)
        tip = made.oid
    move = Proposed(refs.TOMBSTONES, None, tip)
    with GitReader(client.path, {}) as read:
        assert validate.validate_moves(read, [move]) == []
        ticking(monkeypatch)
        [refusal] = validate.validate_moves(read, [move], limits=Limits(seconds=3))
    assert refusal.rule == "limit"


def test_the_time_for_judging_counts_to_the_end_of_a_line(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries are read in batches. Each branch is checked to its end afterwards."""
    moves = [Proposed(ref, None, oid) for ref, oid in client.store.refs(refs.SESSIONS).items()]
    with GitReader(client.path, {}) as read:
        assert validate.validate_moves(read, moves) == []
        ticking(monkeypatch)
        told = validate.validate_moves(read, moves, limits=Limits(seconds=1))
    assert {(refusal.ref, refusal.rule) for refusal in told} == {(move.ref, "limit") for move in moves}
