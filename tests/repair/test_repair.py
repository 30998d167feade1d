"""Tests of P24: a store is repaired from copies of lost data, and damaged files are quarantined, never deleted."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import Clock, begun, bring, git, pi_file, said, talk
from damage import flipped, replace_file, without, zeroed
from promises import Faults

from gitsession.api import Store
from gitsession.cli import exits
from gitsession.cli.app import run
from gitsession.formats import FORMATS
from gitsession.git.types import Kind
from gitsession.model.entries import Message
from gitsession.repair import repair as repairing
from gitsession.repair.donors import Donor
from gitsession.sessions import graph
from gitsession.store import refs, salvage
from gitsession.store.salvage import QUARANTINE

KINDS: dict[str, Callable[[Path, Path], None]] = {
    "empty": lambda file, other: replace_file(file, b""),
    "truncated": lambda file, other: replace_file(file, file.read_bytes()[: file.stat().st_size // 2]),
    "flipped": lambda file, other: replace_file(file, flipped(file.read_bytes(), 8 * (file.stat().st_size // 2))),
    "zeroed": lambda file, other: replace_file(file, zeroed(file.read_bytes(), file.stat().st_size // 3)),
    "swapped": lambda file, other: replace_file(file, other.read_bytes()),
    "deleted": lambda file, other: file.unlink(),
}

DONORS = ["re-import", "a clone", "an alternate"]


class Case:
    """A store with one imported session, and a copy of it in one of the possible sources of a repair."""

    def __init__(self, place: Path, donor: str, *, loose: bool) -> None:
        self.path = place / "store.git"
        self.file = place / "session.jsonl"
        self.file.write_bytes(pi_file(*talk("a", "b", "c"), said("big", "c", "y" * 70_000)))
        with Store.create(self.path, clock=Clock()) as store:
            done = store.agents.import_data(FORMATS["pi"], self.file.read_bytes(), path=self.file, name=self.file.stem)
            self.sid = done.session
            store.catalogue().remember([(self.file, self.file.stat(), self.sid)])
            self.refs = dict(store.objects.refs(refs.SESSIONS))
            store.flush()
        self.sources: list[str] = []
        if donor != "re-import":
            self.file.unlink()
            shutil.copytree(self.path, place / "copy.git")
        if donor == "a clone":
            self.sources = [str(place / "copy.git")]
        if loose:
            without(self.path)
        if donor == "an alternate":
            (self.path / "objects/info/alternates").write_text(f"{place}/copy.git/objects\n")
        self.before = self.objects()
        if donor == "re-import":
            # The operation log is not in an agent's file. If it is lost, a new one is started.
            self.before = {line.split()[0] for line in self.git("rev-list", "--objects", "--branches").splitlines()}

    def git(self, *words: str) -> str:
        done = subprocess.run(["git", f"--git-dir={self.path}", *words], check=True, capture_output=True, text=True)
        return done.stdout

    def objects(self) -> set[str]:
        with Store.open(self.path) as store:
            return set(store.objects.oids())

    def hit(self, pattern: str, how: str) -> Path:
        """Damage the largest file of the session that matches ``pattern``, and return its path."""
        with Store.open(self.path) as store:
            leaf = store.objects.ref(refs.leaf(self.sid)) or ""
        files = sorted(file for file in self.path.glob(pattern) if file.is_file())
        file = max(files, key=lambda file: file.stat().st_size)
        if pattern.startswith("objects/??"):
            file = self.path / f"objects/{leaf[:2]}/{leaf[2:]}"
        other = next(found for found in sorted(self.path.glob("objects/*/*")) if found.is_file() and found != file)
        KINDS[how](file, other)
        return file


@pytest.mark.promise("P24")
@pytest.mark.parametrize("donor", DONORS)
@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("pattern", ["objects/??/*", "objects/pack/*.pack", "objects/pack/*.idx"])
def test_every_damage_is_repaired(tmp_path: Path, faults: Faults, pattern: str, how: str, donor: str) -> None:
    case = Case(tmp_path, donor, loose=pattern == "objects/??/*")
    file = case.hit(pattern, how)
    with faults.one():
        with Store.open(case.path) as store:
            assert store.verify().problems
            done = store.repair(case.sources)
            assert done.is_whole, done.plan.lost
        with Store.open(case.path) as store:
            assert store.verify().problems == []
            assert case.objects() >= case.before
            assert store.repair(case.sources).plan.is_empty
        set_aside = list(case.path.glob(f"{QUARANTINE}/*/{file.relative_to(case.path)}"))
        assert len(set_aside) == (how != "deleted")


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("name", ["objects/pack/multi-pack-index", "objects/info/commit-graph"])
def test_derived_files_of_git_are_set_aside_and_nothing_else_is_changed(tmp_path: Path, name: str, how: str) -> None:
    case = Case(tmp_path, "re-import", loose=False)
    for words in (["multi-pack-index", "write"], ["commit-graph", "write", "--reachable"]):
        subprocess.run(["git", f"--git-dir={case.path}", *words], check=True, capture_output=True)
    other = next(case.path.glob("objects/pack/*.idx"))
    KINDS[how](case.path / name, other)
    with Store.open(case.path) as store:
        done = store.repair()
        assert (done.plan.taken, done.plan.rescued) == ({}, [])
        assert list(done.set_aside) == ([] if how == "deleted" else [name])
        assert store.verify().problems == []


def test_intact_objects_of_a_damaged_pack_are_salvaged(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store.git") as store:
        held = begun(store.objects, *(f"number {n}" for n in range(30)), clock=Clock())
        store.flush()
        line = [node.oid for node in held.history()]
    file = max(tmp_path.glob("store.git/objects/pack/*.pack"), key=lambda path: path.stat().st_size)
    replace_file(file, flipped(file.read_bytes(), 8 * (file.stat().st_size // 2)))
    with Store.open(tmp_path / "store.git") as store:
        before = {oid for oid in set(store.objects.oids()) if _readable(store, oid)}
        done = store.repair()
        assert len(done.plan.lost) == 1
        assert not done.is_whole
        assert {lost.ref for lost in done.plan.lost} == {refs.leaf(held.id)}
        assert len(done.plan.rescued) >= 3 * len(line) - 1
    with Store.open(tmp_path / "store.git") as store:
        assert {oid for oid in set(store.objects.oids()) if _readable(store, oid)} == before
        assert store.repair().plan.is_empty


def _readable(store: Store, oid: str) -> bool:
    try:
        return bool(store.objects.read(oid))
    except Exception:
        return False


@pytest.mark.parametrize("data", [b"", b"\0" * 41, b"12345\n"], ids=["empty", "zeros", "cut short"])
def test_a_damaged_ref_gets_the_value_that_was_last_recorded(tmp_path: Path, data: bytes) -> None:
    case = Case(tmp_path, "re-import", loose=False)
    name = refs.leaf(case.sid)
    replace_file(case.path / name, data)
    with Store.open(case.path) as store:
        assert name in "\n".join(found.where for found in store.verify().problems)
        done = store.repair()
        assert done.is_whole
        assert dict(store.objects.refs(refs.SESSIONS)) == case.refs
        assert store.verify().problems == []
    assert [file.read_bytes() for file in case.path.glob(f"{QUARANTINE}/*/{name}")] == [data]


def test_a_damaged_packed_refs_loses_no_ref(tmp_path: Path) -> None:
    case = Case(tmp_path, "re-import", loose=False)
    with Store.open(case.path) as store:
        git(store.objects, "pack-refs", "--all")
    file = case.path / "packed-refs"
    whole = file.read_bytes()
    at = whole.index(b"/main")
    replace_file(file, whole[: at - 30] + bytes(60) + whole[at + 30 :])
    with Store.open(case.path, damaged=True) as store:
        assert store.verify().problems
        assert store.repair().is_whole
        assert dict(store.objects.refs(refs.SESSIONS)) == case.refs
        assert store.verify().problems == []


@pytest.mark.parametrize("packed", [False, True], ids=["a loose ref", "a line of packed-refs"])
def test_lost_branch_is_restored(tmp_path: Path, packed: bool) -> None:
    case = Case(tmp_path, "re-import", loose=False)
    with Store.open(case.path) as store:
        if packed:
            git(store.objects, "pack-refs", "--all")
        assert store.verify().problems == []
    for name in ["packed-refs"] if packed else [refs.leaf(case.sid), refs.meta(case.sid)]:
        file = case.path / name
        lines = file.read_bytes().splitlines(keepends=True)
        replace_file(file, b"".join(line for line in lines if b"sessions/" not in line)) if packed else file.unlink()
    with Store.open(case.path) as store:
        assert {found.where for found in store.verify().problems} == set(case.refs)
        assert store.repair().is_whole
        assert dict(store.objects.refs(refs.SESSIONS)) == case.refs
        assert store.verify().problems == []


def test_undone_branch_is_not_reported_missing(tmp_path: Path) -> None:
    case = Case(tmp_path, "re-import", loose=False)
    with Store.open(case.path) as store:
        assert store.verify().problems == []
        store.undo()
        assert store.verify().problems == []


def test_ref_without_a_known_value_is_kept_and_reported(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store.git") as store:
        held = begun(store.objects)
        store.flush()
    name = refs.leaf(held.id)
    replace_file(tmp_path / "store.git" / name, b"")
    with Store.open(tmp_path / "store.git") as store:
        done = store.repair()
        assert [lost.name for lost in done.plan.lost_refs] == [name]
        assert not done.is_whole
    assert (tmp_path / "store.git" / name).read_bytes() == b""


def test_donor_with_other_bytes_is_not_used(tmp_path: Path) -> None:
    case = Case(tmp_path, "a clone", loose=True)
    hit = case.hit("objects/??/*", "deleted")
    liar = tmp_path / "liar.git"
    shutil.copytree(tmp_path / "copy.git", liar)
    for file in liar.glob("objects/pack/*"):
        file.unlink()
    (liar / hit.relative_to(case.path)).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(next(case.path.glob("objects/??/*")), liar / hit.relative_to(case.path))
    with Store.open(case.path) as store:
        done = store.repair([liar])
        assert [lost.oid for lost in done.plan.lost] == [hit.parent.name + hit.name]
        assert store.repair([liar, tmp_path / "copy.git"]).is_whole


def test_a_remote_is_fetched_from(tmp_path: Path) -> None:
    case = Case(tmp_path, "a clone", loose=True)
    case.hit("objects/??/*", "flipped")
    with Store.open(case.path) as store:
        assert store.repair([f"file://{tmp_path}/copy.git"]).is_whole
        assert store.verify().problems == []


def test_configured_remotes_are_used_and_an_unreachable_one_is_named(tmp_path: Path) -> None:
    case = Case(tmp_path, "a clone", loose=True)
    case.hit("objects/??/*", "flipped")
    with Store.open(case.path) as store:
        git(store.objects, "config", "remote.gone.url", f"file://{tmp_path}/nothing.git")
        assert store.repair().plan.unheard == ["the remote gone"]
        git(store.objects, "config", "remote.home.url", f"file://{tmp_path}/copy.git")
        assert store.repair().is_whole


def test_others_append_while_a_store_is_repaired(tmp_path: Path) -> None:
    case = Case(tmp_path, "a clone", loose=True)
    case.hit("objects/??/*", "zeroed")
    with Store.open(case.path) as other, Store.open(case.path) as store:
        made = begun(other.objects, "before")
        done = store.repair(case.sources)
        assert done.is_whole
        begun(other.objects, "after")
        assert len(made.history()) == 2
        assert store.verify().problems == []


@pytest.mark.promise("P24")
@pytest.mark.parametrize("step", ["save", "quarantine_files", "replace_ref_files"])
def test_killed_repair_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faults: Faults, step: str) -> None:
    case = Case(tmp_path, "a clone", loose=False)
    case.hit("objects/pack/*.pack", "zeroed")
    replace_file(case.path / refs.leaf(case.sid), b"")
    whole = getattr(salvage, step)

    def killed(*arguments: object) -> object:
        whole(*arguments)
        raise KeyboardInterrupt

    with faults.one():
        monkeypatch.setattr(salvage, step, killed)
        with pytest.raises(KeyboardInterrupt), Store.open(case.path) as store:
            store.repair(case.sources)
        monkeypatch.undo()
        with Store.open(case.path) as store:
            assert store.repair(case.sources).is_whole
            assert store.verify().problems == []
            assert dict(store.objects.refs(refs.SESSIONS)) == case.refs


def test_a_repair_killed_while_it_writes_an_index_leaves_none_for_readers_to_find(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(tmp_path, "a clone", loose=False)
    hit = case.hit("objects/pack/*.idx", "zeroed")
    rename = os.rename

    def killed(old: Path | str, new: Path | str) -> None:
        if Path(new) == hit:
            raise KeyboardInterrupt
        rename(old, new)

    monkeypatch.setattr(os, "rename", killed)
    with pytest.raises(KeyboardInterrupt), Store.open(case.path) as store:
        store.repair(case.sources)
    monkeypatch.undo()
    assert all(index.with_suffix(".pack").exists() for index in case.path.glob("objects/pack/*.idx"))
    with Store.open(case.path) as store:
        assert store.repair(case.sources).is_whole
        assert store.verify().problems == []


def test_many_sessions_are_repaired_from_their_files(tmp_path: Path) -> None:
    chance = random.Random(3)
    files = []
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        for n in range(4):
            file = tmp_path / f"{n}.jsonl"
            file.write_bytes(pi_file(*talk(*(f"{n}-{m}" for m in range(8))), id=f"s{n}"))
            done = store.agents.import_data(FORMATS["pi"], file.read_bytes(), path=file, name=file.stem)
            files.append((file, file.stat(), done.session))
        store.catalogue().remember(files)
        store.flush()
    without(tmp_path / "store.git")
    loose = sorted(tmp_path.glob("store.git/objects/[0-9a-f][0-9a-f]/*"))
    with Store.open(tmp_path / "store.git") as store:
        trees = [graph.tree(store.objects, sid) for _, _, sid in files]
        ours = {oid for tree in trees for node in tree.nodes.values() for oid in (node.oid, node.tree)}
    for file in chance.sample([file for file in loose if file.parent.name + file.name in ours], 15):
        os.unlink(file)
    with Store.open(tmp_path / "store.git") as store:
        assert store.repair().is_whole
        assert store.verify().problems == []


# ---- output


def test_repair_command_prints_its_plan_applies_it_and_then_has_nothing_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    case = Case(tmp_path, "a clone", loose=True)
    file = case.hit("objects/??/*", "truncated")
    monkeypatch.setenv("GITSESSION_DIR", str(case.path))
    assert run(["verify"]) == exits.INTEGRITY
    assert "gitsession repair" in capfd.readouterr().out
    assert run(["repair"]) == exits.INTEGRITY
    assert "still missing" in capfd.readouterr().out
    assert run(["repair", "--dry-run", "--from", case.sources[0], "--json"]) == exits.OK
    document = json.loads(capfd.readouterr().out)
    assert document["schema"] == "gitsession/repair/1"
    assert [healed["from"] for healed in document["healed"]] == case.sources
    assert document["set_aside"] == []
    assert run(["repair", "--from", case.sources[0]]) == exits.OK
    assert "restored from" in capfd.readouterr().out
    assert not file.exists()
    assert run(["repair"]) == exits.OK
    assert capfd.readouterr().out == "nothing to repair\n"
    assert run(["verify"]) == exits.OK


def test_session_that_is_imported_again_is_repaired_first(tmp_path: Path) -> None:
    case = Case(tmp_path, "re-import", loose=True)
    case.hit("objects/??/*", "deleted")
    with Store.open(case.path) as store:
        assert store.repair([case.file]).is_whole
        assert bring(store.objects, case.file.read_bytes(), name=case.file.stem).moves == ()


def test_a_large_pack_is_saved_in_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(salvage, "_BATCH_BYTES", 1000)
    case = Case(tmp_path, "a clone", loose=False)
    case.hit("objects/pack/*.pack", "flipped")
    with Store.open(case.path) as store:
        assert store.repair(case.sources).is_whole
        assert len(list(case.path.glob("objects/pack/*.pack"))) > 3
        assert store.maintain().packs_after == 1
        assert store.verify().problems == []


def test_ref_repaired_concurrently_keeps_later_entries(tmp_path, monkeypatch):
    """The plan is made without the lock, so the refs may have changed when it is applied."""
    path = tmp_path / "store.git"
    with Store.create(path) as store, Store.open(path) as other:
        session = store.new_session(agent="agent")
        session.append(Message.user("one"))
        leaf = refs.leaf(session.id)
        store.flush()
        assert store.verify().problems == []
        held = git(store.objects, "rev-parse", leaf).strip()
        (path / leaf).unlink()
        real = repairing._perform

        def meanwhile(*words):
            git(store.objects, "update-ref", leaf, held)
            other.session(session.id).append(Message.user("late"))
            other.flush()
            return real(*words)

        monkeypatch.setattr(repairing, "_perform", meanwhile)
        store.repair()
        assert store.session(session.id).leaf.subject == "user: late"


class Liar(Donor):
    """A source that has every object, but with wrong bytes."""

    name = "a liar"

    def read(self, oid: str, sid: str) -> tuple[Kind, bytes]:
        return "blob", b"something else"


def test_object_of_a_donor_is_hashed(tmp_path):
    case = Case(tmp_path, "a clone", loose=True)
    with Store.open(case.path) as store:
        tip = next(iter(store.objects.refs(refs.SESSIONS).values()))
    (case.path / "objects" / tip[:2] / tip[2:]).unlink()
    with Store.open(case.path) as store:
        done = repairing.repair(store.objects, [Liar()])
        assert not done.plan.taken and not done.is_whole


@pytest.mark.parametrize("name", [refs.TOMBSTONES, refs.ARCHIVE])
def test_invalid_ref_of_a_set_is_reported_and_sessions_are_listed(tmp_path: Path, name: str) -> None:
    with Store.create(tmp_path / "store.git") as store:
        session = store.new_session(agent="test")
        session.append(Message.user("hello"))
        with store.objects.transaction() as tx:
            tx.move(name, tx.put("blob", b"no commit"), expected=None)
        store.flush()
        done = store.repair()
        assert [lost.name for lost in done.plan.lost_refs] == [name]
        assert not done.is_whole
        assert [row.sid for row in store.sessions()] == [session.id]
