"""Tests of purges: no data of the store contains the purged text, and all other data is unchanged."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from builders import (
    Clock,
    all_refs,
    assert_clean,
    assert_git_agrees,
    begun,
    bring,
    exported,
    fork,
    git,
    on_disk,
    pi_file,
    session,
    talk,
)
from purged import SECRET, chains, entries, find, key_of, keys, purge, session_key, subjects, traces, whole

from gitsession.api import Store
from gitsession.codec import holes, payload
from gitsession.errors import LeafMoved, NotFound, RefMoved, Refused
from gitsession.git.objects import parse_commit
from gitsession.model.entries import BranchSummary, Message
from gitsession.purge import purging
from gitsession.sessions import graph, local_records, operation_log, tombstone, tombstone_set
from gitsession.sessions.commit_writer import draft_own
from gitsession.store import create, drop_objects, journal_frames, refs
from gitsession.store.git_store import GitStore
from gitsession.store.lock import exclusive_lock
from gitsession.verify import entry_walk as verifying


@pytest.fixture
def store(tmp_path: Path):
    with on_disk(tmp_path / "store.git") as made:
        yield made


def assert_gone(store: GitStore) -> None:
    assert traces(store) == []
    assert_clean(store)
    assert_git_agrees(store)


def test_entry_in_the_middle_of_a_branch_leaves_a_tombstone(store) -> None:
    said = begun(store, "first", SECRET, "last")
    ref = refs.leaf(said.id)
    before = chains(store, ref)
    store.flush()
    assert traces(store)
    purge(store, find(store))
    assert subjects(store, ref)[1:] == ["user: first", "purged: user message", "user: last"]
    assert chains(store, ref) == before
    assert_gone(store)


def test_purge_covers_the_journal(store) -> None:
    begun(store, "first", SECRET)
    assert store.pending
    assert traces(store)
    purge(store, find(store))
    assert_gone(store)


def test_session_continues_after_a_tombstone(store) -> None:
    said = begun(store, "first", SECRET)
    purge(store, find(store))
    said.append(Message.user("and now"))
    assert subjects(store, refs.leaf(said.id))[1:] == ["user: first", "purged: user message", "user: and now"]
    assert_gone(store)


def test_branches_forks_and_second_parents_are_rewritten_too(store) -> None:
    said = begun(store, "first", SECRET, "last")
    secret = find(store)
    said.branch("side", secret)
    side = said.on("side")
    side.append(Message.user("beside"))
    side.append(BranchSummary(summary="what was said"), summarises=said.leaf)
    forked = fork(said)
    forked.append(Message.user("elsewhere"))
    purge(store, secret)
    assert "purged: user message" in subjects(store, refs.leaf(said.id, "side"))
    assert "purged: user message" in subjects(store, refs.leaf(forked.id))
    assert_gone(store)


def test_title_and_label_are_purged_with_their_commands(store) -> None:
    said = begun(store, "first")
    said.rename(SECRET)
    said.label("leaf", SECRET)
    said.rename("harmless")
    store.flush()
    secrets = [node for node in entries(store).values() if SECRET in node.subject]
    assert len(secrets) == 2
    purge(store, *secrets)
    assert_gone(store)
    assert [operation.command for operation in operation_log.history(store)][1:] == [
        f"label {said.id}",
        f"name {said.id}",
    ]


def test_a_purged_session_leaves_no_title_and_no_label_in_older_commands(store) -> None:
    kept, gone = begun(store, "kept"), begun(store, "gone")
    kept.rename("harmless")
    gone.rename(SECRET)
    gone.label("leaf", SECRET)
    kept.rename("still harmless")
    store.flush()
    purging.add(store, whole(store, gone.id), 1000)
    assert_gone(store)
    commands = [operation.command for operation in operation_log.history(store)]
    assert [command.partition(" ")[0] for command in commands] == ["name", "label", "name", "name"]


def test_older_commands_are_undone_after_it(store) -> None:
    said = begun(store, "first", SECRET, "last")
    said.branch("side", "leaf")
    purge(store, find(store))
    operation_log.apply_next(store, "undo", 1)
    assert list(said.branches()) == ["main"]
    operation_log.apply_next(store, "redo", 2)
    assert list(said.branches()) == ["main", "side"]
    assert_gone(store)


def test_purge_covers_undone_entries(store) -> None:
    said = begun(store, "first")
    said.branch("side", "leaf")
    said.on("side").append(Message.user(SECRET))
    secret = find(store)
    with store.transaction() as tx:
        tx.move(refs.leaf(said.id, "side"), None, expected=secret.oid)
    store.flush()
    purging.add(store, keys(store, secret), 1)
    assert_gone(store)


def test_purge_without_matches_changes_no_session(store) -> None:
    begun(store, "first")
    before = all_refs(store)
    purging.add(store, tombstone_set.Tombstones(frozenset({"ab" * 32})), 1)
    after = all_refs(store)
    assert {name: value for name, value in after.items() if name != refs.TOMBSTONES} == before
    assert_gone(store)


def test_twice_is_once(store) -> None:
    begun(store, "first", SECRET)
    secret = find(store)
    key = keys(store, secret)
    purging.add(store, key, 1)
    before = all_refs(store)
    assert purging.add(store, key, 2) == purging.PurgeResult()
    assert purging.apply(store) == purging.PurgeResult()
    assert all_refs(store) == before


def test_objects_that_others_have_under_way_stay(store) -> None:
    begun(store, "first", SECRET)
    store.flush()
    blob = git(store, "hash-object", "-w", "--stdin")  # an empty blob, which no commit contains
    purge(store, find(store))
    assert store.contains(blob.strip())


def test_unreferenced_blob_of_the_entry_is_purged(store, tmp_path) -> None:
    begun(store, "first", SECRET)
    secret = find(store)
    data = payload.encode(Message.user(SECRET + " again", at_ms=1), bytes(16))
    file = tmp_path / "payload"
    file.write_bytes(data)
    git(store, "hash-object", "-w", str(file))
    digest = key_of(store, secret)
    from gitsession.codec.digest import digest as digest_of

    purging.add(store, tombstone_set.Tombstones(frozenset({digest, digest_of(data).hex()})), 1)
    assert_gone(store)


# ---- whole sessions


def test_purged_session_leaves_one_tombstone(store) -> None:
    said = begun(store, "first", SECRET)
    said.rename(SECRET)
    said.branch("side", "leaf")
    store.flush()
    purging.add(store, whole(store, said.id), 1)
    values = set(store.refs(refs.session(said.id)).values())
    assert len(values) == 1
    assert subjects(store, refs.leaf(said.id)) == ["purged: session"]
    assert_gone(store)


def test_fork_keeps_the_entries_shared_with_a_purged_session(store) -> None:
    said = begun(store, "shared")
    forked = fork(said)
    said.append(Message.user(SECRET))
    forked.append(Message.user("elsewhere"))
    before = store.ref(refs.leaf(forked.id))
    purging.add(store, whole(store, said.id), 1)
    assert store.ref(refs.leaf(forked.id)) == before
    assert_gone(store)


def test_purge_of_a_fork_keeps_its_origin(store) -> None:
    said = begun(store, "shared")
    forked = fork(said)
    forked.append(Message.user(SECRET))
    before = store.ref(refs.leaf(said.id))
    purging.add(store, whole(store, forked.id), 1)
    assert store.ref(refs.leaf(said.id)) == before
    assert subjects(store, refs.leaf(forked.id)) == ["purged: fork"]
    assert_gone(store)


def test_purge_of_a_fork_and_of_its_origin_leaves_nothing_they_shared(store) -> None:
    said = begun(store, SECRET)
    forked = fork(said)
    purging.add(store, whole(store, forked.id), 1)
    purging.add(store, whole(store, said.id), 2)
    assert_gone(store)
    assert_clean(store)


def test_purge_of_a_fork_covers_branches_above_its_first_entry(store) -> None:
    said = begun(store, "shared")
    forked = fork(said)
    forked.branch("above", at="root")
    side = forked.on("above")
    side.append(Message.user(SECRET))
    forked.rename(SECRET)
    purging.add(store, whole(store, forked.id), 1)
    assert_gone(store)
    assert_clean(store)


def test_purge_of_a_fork_whose_first_entry_was_redacted(store) -> None:
    said = begun(store, "shared")
    forked = said.fork("leaf", agent="test", cwd=None, title=SECRET, labels={})
    first = next(node for node in forked.history() if node.kind == "fork")
    hidden = draft_own(dataclasses.replace(forked.read(first), title="[redacted:x]"), bytes(16), None)
    purging.replace(store, {key_of(store, first): (hidden.form, hidden.stored)}, 1)
    forked.append(Message.user("said in the fork"))
    purging.add(store, whole(store, forked.id), 2)
    assert subjects(store, refs.leaf(forked.id)) == ["purged: fork"]
    assert subjects(store, refs.leaf(said.id))[-1] == "user: shared"
    assert_gone(store)
    assert_clean(store)


def test_tombstone_of_a_fork_that_an_earlier_version_wrote_loses_its_parents(store) -> None:
    said = begun(store, SECRET)
    forked = fork(said)
    began = whole(store, forked.id)
    first = forked.history()[-1]
    stands = tombstone.of_entry(first, key_of(store, first), [first.parent])
    with store.transaction() as tx:
        for kind, data in (*stands.objects.values(), ("commit", stands.commit)):
            tx.put(kind, data)
        tx.move(refs.leaf(forked.id), stands.oid, expected=store.ref(refs.leaf(forked.id)))
    store.flush()
    purging.add(store, began, 1)
    assert subjects(store, refs.leaf(forked.id)) == ["purged: fork"]
    purging.add(store, whole(store, said.id), 2)
    assert_gone(store)
    assert_clean(store)


def test_append_to_a_purged_session_is_rejected(store) -> None:
    said = begun(store, "first")
    purging.add(store, whole(store, said.id), 1)
    for write in (
        lambda: said.append(Message.user("more")),
        lambda: said.rename("title"),
        lambda: said.branch("side"),
        lambda: fork(said),
    ):
        with pytest.raises(Refused):
            write()


# ---- imports after a purge


def test_purged_entry_is_not_imported_again(store) -> None:
    lines = talk("a", "b", "c")
    done = bring(store, pi_file(*lines))
    purge(store, find(store, "words of b"))
    before = all_refs(store)
    again = bring(store, pi_file(*lines))
    assert (again.new, again.moves) == (0, ())
    assert all_refs(store) == before
    assert traces(store, "words of b") == []
    grown = bring(store, pi_file(*lines, *talk("d", after="c")))
    assert grown.new == 1
    assert traces(store, "words of b") == []
    assert list(graph.branches(store, done.session)) == ["main"]
    assert_clean(store)


def test_store_with_the_tombstone_set_imports_the_tombstone(store, tmp_path) -> None:
    lines = talk("a", "b", "c")
    bring(store, pi_file(*lines))
    key = keys(store, find(store, "words of b"))
    purging.add(store, key, 1)
    with on_disk(tmp_path / "other.git") as other:
        purging.add(other, key, 5)
        bring(other, pi_file(*lines))
        assert traces(other, "words of b") == []
        assert other.refs(refs.SESSIONS) == store.refs(refs.SESSIONS)
        assert_clean(other)


def test_a_purged_session_is_not_imported_again(store) -> None:
    done = bring(store, pi_file(*talk("a", "b")))
    purging.add(store, whole(store, done.session), 1)
    before = all_refs(store)
    again = bring(store, pi_file(*talk("a", "b", "c")))
    assert again.is_purged
    assert again.session == done.session
    assert all_refs(store) == before


def test_purged_header_is_not_imported_again(store) -> None:
    data = pi_file(*talk("a"), cwd="/work/" + SECRET)
    bring(store, data)
    header = next(node for node in entries(store).values() if node.kind == "session" and node.source is not None)
    purge(store, header)
    assert traces(store) == []
    bring(store, data)
    bring(store, pi_file(*talk("a", "b"), cwd="/work/" + SECRET))
    assert_gone(store)


def test_export_leaves_out_purged_entries(store) -> None:
    done = bring(store, pi_file(*talk("a", "b", "c")))
    purge(store, find(store, "words of b"))
    data = exported(store, done.session)
    assert b"words of b" not in data
    assert b"words of c" in data


# ---- replacements


def redact(store: GitStore, node, text: str = "the password is [redacted:password]") -> purging.PurgeResult:
    data = payload.encode(Message.user(text, at_ms=node.author_seconds * 1000), bytes(16))
    return purging.replace(store, {key_of(store, node): ("cbor", holes.StoredPayload(data, b"", ()))}, 1)


def test_an_entry_is_replaced_and_its_chain_stays(store) -> None:
    said = begun(store, "first", SECRET, "last")
    ref = refs.leaf(said.id)
    before = chains(store, ref)
    redact(store, find(store))
    assert subjects(store, ref)[2] == "user: the password is [redacted:password]"
    assert chains(store, ref) == before
    assert_gone(store)


def test_removal_beats_a_replacement_in_any_order(store) -> None:
    said = begun(store, "first", SECRET, "last")
    secret = find(store)
    key = keys(store, secret)
    redact(store, secret)
    purging.add(store, key, 2)
    assert subjects(store, refs.leaf(said.id))[2] == "purged: user message"
    assert_gone(store)


def test_one_of_two_replacements_is_used_everywhere(store, tmp_path) -> None:
    said = begun(store, "first", SECRET, "last")
    secret = find(store)
    store.flush()
    shutil.copytree(store.git_dir, tmp_path / "other.git")
    redact(store, secret, "one way")
    with GitStore.open(tmp_path / "other.git") as other:
        redact(other, secret, "another way")
        both = tombstone_set.read(store) | tombstone_set.read(other)
        for each in (store, other):
            purging.add(each, both, 9)
        assert store.refs(refs.SESSIONS) == other.refs(refs.SESSIONS)
    assert said.leaf is not None
    assert_gone(store)


def test_local_redaction_replaced_by_a_second_one_leaves_no_trace(store) -> None:
    said = begun(store, "first", SECRET, "last")
    redact(store, find(store), f"still {SECRET}")
    redact(store, find(store), "now it is [redacted:password]")
    assert subjects(store, refs.leaf(said.id))[2] == "user: now it is [redacted:password]"
    assert_gone(store)
    redact(store, find(store, "now it is"), "and now [redacted:password]")
    assert traces(store, "now it is") == []
    purge(store, find(store, "and now"))
    assert traces(store, "and now") == []


def test_set_of_another_store_is_extended(store) -> None:
    begun(store, "first", SECRET, "last")
    redact(store, find(store), f"still {SECRET}")
    given = store.ref(refs.TOMBSTONES)
    with store.transaction() as tx:
        tx.move("refs/remotes/origin/gitsession/tombstones", given, expected=None)
    redact(store, find(store), "now it is [redacted:password]")
    redact(store, find(store, "now it is"), "and now [redacted:password]")
    tip = store.ref(refs.TOMBSTONES)
    assert parse_commit(store.read(tip)[1]).parents == (given,)
    assert traces(store, "now it is") == []


# ---- open handles


def test_store_opened_before_the_purge_cannot_restore_the_entry(store) -> None:
    said = begun(store, "first", SECRET, "last")
    store.flush()
    with GitStore.open(store.git_dir) as stale:
        old = session(stale, said.id)
        node = old.leaf
        assert old.history()
        purge(store, find(store))
        assert node is not None
        with pytest.raises((NotFound, RefMoved, LeafMoved, Refused)):
            old.append(Message.user("on top"), expected=node)
        with pytest.raises(RefMoved):
            old.append(Message.user("on top"), expected=node, on_moved="fork")
        with pytest.raises(Exception, match="the object is missing"):
            old.branch("side", node)
        old.append(Message.user("behind what stands there"))
        stale.flush()
    assert_gone(store)


def test_prepared_import_starts_again_after_a_purge(store, monkeypatch) -> None:
    from gitsession.importing import import_session

    lines = talk("a", "b", "c")
    bring(store, pi_file(*lines))
    store.flush()
    carried_out = import_session._Draft.carry_out
    count = 0

    def purged_meanwhile(plan, command):
        nonlocal count
        count += 1
        if count == 1:
            with GitStore.open(store.git_dir) as other:
                purge(other, find(other, "words of b"))
        return carried_out(plan, command)

    monkeypatch.setattr(import_session._Draft, "carry_out", purged_meanwhile)
    bring(store, pi_file(*lines, *talk("d", after="b")))
    assert count == 2
    assert traces(store, "words of b") == []
    assert_clean(store)
    assert_git_agrees(store)


def test_old_oid_is_mapped_to_the_new_one(store) -> None:
    said = begun(store, "first", SECRET, "last")
    old = said.leaf
    assert old is not None
    purge(store, find(store))
    assert local_records.find_renamed(store.git_dir, old.oid[:8]) == [(old.oid, store.ref(refs.leaf(said.id)))]


def test_entry_restored_by_a_fetch_is_purged_again(store, tmp_path) -> None:
    said = begun(store, "first", SECRET, "last")
    store.flush()
    clone = tmp_path / "clone.git"
    subprocess.run(["git", "clone", "-q", "--mirror", store.git_dir, clone], check=True)
    purge(store, find(store))
    git(store, "fetch", "-q", str(clone), f"{refs.leaf(said.id)}:{refs.leaf(said.id, 'theirs')}")
    assert traces(store)
    purging.apply(store)
    assert_gone(store)


def test_thorough_purge_removes_unreachable_fetched_objects(store, tmp_path) -> None:
    said = begun(store, "first", SECRET, "last")
    store.flush()
    clone = tmp_path / "clone.git"
    subprocess.run(["git", "clone", "-q", "--mirror", store.git_dir, clone], check=True)
    purge(store, find(store))
    git(store, "fetch", "-q", str(clone), f"{refs.leaf(said.id)}:refs/remotes/origin/theirs")
    git(store, "update-ref", "-d", "refs/remotes/origin/theirs")
    purging.apply(store)
    assert traces(store)
    with Store.open(store.git_dir) as opened:
        opened.maintain()
    assert_gone(store)


# ---- other places of the text


def test_leftovers_beside_the_objects_are_deleted(store) -> None:
    begun(store, "first", SECRET)
    store.flush()
    control = store.git_dir / create.CONTROL
    for name in ("index.db", "index.db-wal", "search.db", "quarantine/old", "spool/a.bad", "spool/failures"):
        (control / name).parent.mkdir(exist_ok=True)
        (control / name).write_text(SECRET)
    (control / "spool/b.event").write_text(f'{{"text": "{SECRET}"}}')
    (control / "spool/c.event").write_text('{"text": "other words"}')
    (store.git_dir / "FETCH_HEAD").write_text(SECRET)
    (store.git_dir / "logs/refs").mkdir(parents=True, exist_ok=True)
    (store.git_dir / "logs/refs/x").write_text(SECRET)
    (control / f"journal/{journal_frames.TEMPORARY}9").write_text(SECRET)
    purge(store, find(store))
    assert_gone(store)
    assert (control / "spool/c.event").exists()


def test_purge_removes_files_of_a_killed_fetch_or_push(store, tmp_path) -> None:
    begun(store, "first", SECRET)
    store.flush()
    left = [store.git_dir / create.INCOMING / "0123/objects/pack/pack-1.pack"]
    left += [store.git_dir / f"objects/{name}/pack/pack-1.pack" for name in ("tmp_objdir-incoming-a1", "incoming-a1")]
    young = store.git_dir / "objects/tmp_objdir-incoming-b2/pack/pack-1.pack"
    for file in (*left, young):
        file.parent.mkdir(parents=True)
        file.write_text(SECRET if file != young else "somebody pushes just now")
    for file in left[1:]:
        os.utime(file.parents[1], (1, 1))
    purge(store, find(store))
    assert not any(file.exists() for file in left)
    assert young.exists()
    assert_gone(store)


def test_purge_keeps_files_of_a_running_fetch(store) -> None:
    begun(store, "first", SECRET)
    there = store.git_dir / create.INCOMING / "0123/objects/pack/pack-1.pack"
    there.parent.mkdir(parents=True)
    there.write_text("of somebody who syncs now")
    with exclusive_lock(store.git_dir / create.SYNC_LOCK):
        purge(store, find(store))
    assert there.exists()


def test_store_with_shared_objects_is_rejected(store, tmp_path) -> None:
    begun(store, "first", SECRET)
    before = all_refs(store)
    info = store.git_dir / "objects/info"
    info.mkdir(exist_ok=True)
    (info / "alternates").write_text(str(tmp_path))
    with pytest.raises(Refused, match="borrows objects"):
        purge(store, find(store))
    (info / "alternates").unlink()
    git(store, "config", "extensions.preciousObjects", "true")
    with pytest.raises(Refused, match="other repositories borrow"):
        purge(store, find(store))
    assert all_refs(store) == before


def test_tag_on_a_purged_entry_is_rejected_by_name(store) -> None:
    begun(store, "first", SECRET)
    secret = find(store)
    git(store, "-c", "user.name=x", "-c", "user.email=x", "tag", "-a", "-m", "mine", "mine", secret.oid)
    with pytest.raises(Refused, match="refs/tags/mine"):
        purge(store, secret)
    git(store, "tag", "-d", "mine")
    purging.apply(store)
    assert_gone(store)


def test_a_light_tag_is_moved(store) -> None:
    begun(store, "first", SECRET)
    secret = find(store)
    git(store, "tag", "mine", secret.oid)
    purge(store, secret)
    assert_gone(store)


def test_verify_names_a_restored_entry_and_an_unknown_tombstone(store, tmp_path) -> None:
    begun(store, "first", SECRET)
    secret = find(store)
    store.flush()
    shutil.copytree(store.git_dir, tmp_path / "other.git")
    key = key_of(store, secret)
    with store.transaction() as tx:
        grown = tombstone_set.add(store, None, tombstone_set.Tombstones(frozenset({key})), 1)
        tx.put_all(grown.objects)
        tx.move(refs.TOMBSTONES, grown.oid, expected=None)
    assert [f"the entry {key} was purged"] == [found.what for found in verifying.verify(store).problems]
    with GitStore.open(tmp_path / "other.git") as other:
        purge(other, secret)
        tip = other.ref(refs.TOMBSTONES)
        with other.transaction() as tx:
            tx.move(refs.TOMBSTONES, None, expected=tip)
        assert [f"a tombstone of {key}, which was not purged"] == [
            found.what for found in verifying.verify(other).problems
        ]


def test_a_drop_that_was_cut_short_is_finished(store) -> None:
    begun(store, "first", SECRET)
    store.flush()
    secret = find(store)
    finish = drop_objects.finish
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drop_objects, "finish", lambda git_dir: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            purge(store, secret)
    assert finish is drop_objects.finish
    assert purging.is_pending(store)
    purging.apply(store)
    assert not purging.is_pending(store)
    assert_gone(store)


def test_set_has_sessions_by_their_key(store) -> None:
    said = begun(store, "first")
    purging.add(store, whole(store, said.id), 1)
    assert session_key(said.id) in tombstone_set.read(store)
    assert Clock()() > 0


# ---- purges and redaction

TOKEN = "ghp_" + "".join("aZ9bY8cX7dW6eV5fU4gT3hS2iR1jQ0kP9lO8"[n % 36] for n in range(36))


def with_token(*ids: str) -> list[bytes]:
    """Return messages of which the second contains a token."""
    return [one.replace(b"words of b", f"my token is {TOKEN}".encode()) for one in talk(*ids)]


def test_purge_removes_the_original_from_the_vault(store) -> None:
    bring(store, pi_file(*with_token("a", "b", "c")))
    [hidden] = [node for node in entries(store).values() if "my token" in node.subject]
    assert TOKEN not in hidden.subject
    assert store.vault.digests()
    purge(store, hidden)
    assert store.vault.digests() == set()
    assert traces(store, TOKEN) == []
    bring(store, pi_file(*with_token("a", "b", "c")))
    assert store.vault.digests() == set()
    assert_gone(store)


def test_entry_purged_in_plain_text_is_not_imported_with_redaction(store) -> None:
    git(store, "config", "gitsession.redact", "false")
    with GitStore.open(store.git_dir) as older:
        bring(older, pi_file(*with_token("a", "b", "c")))
        [told] = [node for node in entries(older).values() if TOKEN[:20] in node.subject]
        purge(older, told)
        before = older.refs(refs.SESSIONS)
    git(store, "config", "gitsession.redact", "true")
    with GitStore.open(store.git_dir) as newer:
        done = bring(newer, pi_file(*with_token("a", "b", "c")))
        assert (done.new, done.moves) == (0, ())
        assert newer.refs(refs.SESSIONS) == before
        assert traces(newer, TOKEN) == []
