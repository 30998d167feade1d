"""Tests of P23 and P24: a ref that is lost or set back without a command is reported and repaired."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from builders import Clock, bring, git, pi_file, talk
from builders import session as at_branch
from damage import without
from promises import Faults

from gitsession.api import Store
from gitsession.cli import exits
from gitsession.cli.app import run
from gitsession.formats import FORMATS
from gitsession.model.entries import Message
from gitsession.sessions import graph
from gitsession.store import refs
from gitsession.verify import lost_refs


class Case:
    """An imported session of a few entries, with its active branch set."""

    def __init__(self, path: Path, *, checked: bool) -> None:
        self.path, self.checked = path, checked
        with Store.create(path, clock=Clock()) as store:
            file = path.parent / "session.jsonl"
            file.write_bytes(pi_file(*talk("a", "b", "c", "d")))
            self.sid = store.agents.import_data(FORMATS["pi"], file.read_bytes(), path=file, name="session").session
            session = store.session(self.sid)
            self.line = [node.oid for node in session.history()]
            session.branch("side", session.history()[2])
            session.switch("side")
            store.flush()
            if checked:
                assert store.verify().problems == []
        self.main, self.side = refs.leaf(self.sid), refs.leaf(self.sid, "side")

    def told(self) -> dict[str, str]:
        with Store.open(self.path) as store:
            return {found.where: found.what for found in store.verify().problems}

    def refs(self) -> dict[str, str]:
        with Store.open(self.path) as store:
            return dict(store.objects.refs("refs/"))

    def git(self, *words: str) -> str:
        with Store.open(self.path) as store:
            return git(store.objects, *words)


@pytest.fixture(params=[True, False], ids=["checked before", "never checked"])
def case(tmp_path: Path, request: pytest.FixtureRequest) -> Case:
    return Case(tmp_path / "store.git", checked=request.param)


@pytest.mark.promise("P23")
@pytest.mark.parametrize("which", ["main", "side", "meta", "active"])
def test_lost_ref_is_reported_and_restored(case: Case, faults: Faults, which: str) -> None:
    name = refs.active(case.sid) if which == "active" else refs.leaf(case.sid, which)
    before = case.refs()
    (case.path / name).unlink()
    with faults.one():
        assert f"was at {before[name][:12]}" in case.told()[name]
        assert "no command removed it" in case.told()[name]
        with Store.open(case.path) as store:
            done = store.repair()
            assert done.is_whole
            assert done.set_aside == ()
        assert case.refs() == before
        assert case.told() == {}


@pytest.mark.promise("P23")
@pytest.mark.parametrize("packed", [False, True], ids=["loose", "packed"])
def test_ref_set_back_is_reported_and_its_old_value_becomes_a_branch(case: Case, faults: Faults, packed: bool) -> None:
    leaf, earlier = case.refs()[case.main], case.line[1]
    case.git("update-ref", case.main, earlier)
    if packed:
        case.git("pack-refs", "--all")
    with faults.one():
        what = case.told()[case.main]
        assert f"was at {leaf[:12]}" in what
        assert f"is now at {earlier[:12]}, which does not descend from it" in what
        with Store.open(case.path) as store:
            done = store.repair()
            assert done.is_whole
        [(beside, of)] = done.plan.beside.items()
        assert of == case.main
        assert beside.startswith(f"{case.main}.")
        assert (case.refs()[case.main], case.refs()[beside]) == (earlier, leaf)
        assert case.told() == {}


@pytest.mark.promise("P23")
def test_lost_operation_log_is_reported_and_restored(tmp_path: Path, faults: Faults) -> None:
    case = Case(tmp_path / "store.git", checked=True)
    before = case.refs()
    (case.path / refs.OPLOG).unlink()
    with faults.one():
        assert set(case.told()) == {refs.OPLOG}
        with Store.open(case.path) as store:
            assert store.repair().is_whole
        assert case.refs() == before
        assert case.told() == {}


def test_restarted_operation_log_is_not_reported_missing(tmp_path: Path) -> None:
    case = Case(tmp_path / "store.git", checked=True)
    with Store.open(case.path) as store:
        mark = lost_refs.read(case.path)
        assert mark is not None
        lost_refs.forget(case.path, refs.OPLOG)
        with store.objects.transaction() as tx:
            tx.move(refs.OPLOG, None, expected=mark.refs[refs.OPLOG])
    assert case.told() == {}


def test_extended_undone_or_redone_refs_are_not_reported_missing(case: Case) -> None:
    with Store.open(case.path, clock=Clock()) as store:
        session = store.session(case.sid)
        session.append(Message.user("more"))
        store.verify()
        bring(store.objects, pi_file(*talk("a", "b", "c", "d", "e")))
        for step in (store.undo, store.redo, store.undo):
            step()
            store.flush()
            assert store.verify().problems == []


def test_branch_renamed_for_another_program_is_not_reported_missing(case: Case) -> None:
    with Store.open(case.path, clock=Clock(), flush_on_close=False) as store:
        session = store.session(case.sid).on("main")
        session.append(Message.user("ours"))
        (case.path / case.main).write_text(f"{case.line[0]}\n")
        store.flush()
        assert store.objects.renamed_branches
        assert store.verify().problems == []


def test_session_known_only_to_the_catalog_is_restored(tmp_path: Path) -> None:
    path = tmp_path / "store.git"
    with Store.create(path) as store:
        session = store.new_session(agent="agent")
        session.append(Message.user("hi"))
        store.flush()
        assert len(store.sessions()) == 1
        before = dict(store.objects.refs(refs.SESSIONS))
    for name in before:
        (path / name).unlink()
    with Store.open(path) as store:
        assert {found.where for found in store.verify().problems} == set(before)
        assert store.repair().is_whole
        assert dict(store.objects.refs(refs.SESSIONS)) == before


# ---- from a copy


def copy_with_more(case: Case, tmp_path: Path) -> tuple[Path, str]:
    """Create a copy of the store with an additional session, and return its id."""
    copy = tmp_path / "copy.git"
    shutil.copytree(case.path, copy)
    with Store.open(copy, clock=Clock()) as store:
        session = store.new_session(agent="agent")
        for n in range(5):
            session.append(Message.user(f"number {n}"))
        return copy, session.id


@pytest.mark.promise("P24")
@pytest.mark.parametrize("url", [False, True], ids=["a folder", "a URL"])
def test_session_of_a_copy_is_restored(case: Case, tmp_path: Path, faults: Faults, url: bool) -> None:
    copy, sid = copy_with_more(case, tmp_path)
    with faults.one():
        with Store.open(case.path) as store:
            done = store.repair([f"file://{copy}" if url else copy])
            assert done.is_whole
            assert set(done.plan.copied) >= {refs.leaf(sid)}
        assert case.told() == {}
        with Store.open(case.path) as store:
            assert len(graph.tree(store.objects, sid).nodes) == 6
            assert store.repair([copy]).plan.is_empty


def test_undone_session_is_not_restored_from_a_copy(case: Case, tmp_path: Path) -> None:
    copy = tmp_path / "copy.git"
    shutil.copytree(case.path, copy)
    with Store.open(case.path) as store:
        for _ in range(3):
            store.undo()
        assert dict(store.objects.refs(refs.SESSIONS)) == {}
        assert store.repair([copy]).plan.is_empty


def test_incomplete_session_of_a_copy_is_not_restored(case: Case, tmp_path: Path) -> None:
    copy, sid = copy_with_more(case, tmp_path)
    with Store.open(copy) as store:
        lost = store.session(sid).history()[2].tree
    without(copy, lost)
    with Store.open(case.path) as store:
        done = store.repair([copy])
        assert refs.leaf(sid) in {ref.name for ref in done.plan.lost_refs}
        assert refs.leaf(sid) not in store.objects.refs(refs.SESSIONS)


# ---- output


def test_commands_report_lost_refs(
    case: Case, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITSESSION_DIR", str(case.path))
    case.git("update-ref", case.main, case.line[0])
    (case.path / case.side).unlink()
    assert run(["verify"]) == exits.INTEGRITY
    told = capfd.readouterr().out
    assert "which does not descend from it" in told
    assert "is missing" in told
    assert run(["repair"]) == exits.OK
    told = capfd.readouterr().out
    assert f"{case.main} was moved back and stays: its last value is kept as {case.main}." in told
    assert f"{case.side} set to" in told
    assert "damaged file" not in told
    assert run(["verify"]) == exits.OK


@pytest.mark.promise("P24")
def test_mirror_made_by_gitsession_has_the_journal_of_a_killed_writer(tmp_path: Path, faults: Faults) -> None:
    path, copy = tmp_path / "store.git", tmp_path / "copy.git"
    store = Store.create(path)
    session = store.new_session(agent="agent")
    last = session.append(Message.user("hi"))  # no flush, as after a kill
    with faults.one():
        words = ["--store", str(path), "git", "clone", "-q", "--mirror", str(path), str(copy)]
        subprocess.run([sys.executable, "-m", "gitsession", *words], check=True)
        with Store.open(copy) as copied:
            assert copied.session(session.id).history()[-1].oid == last.oid
            assert copied.verify().problems == []
    store.close()


def test_dangling_active_ref_is_deleted_by_repair(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier versions left the ref when a session was archived or moved to the trash."""
    monkeypatch.setenv("GITSESSION_DIR", str(case.path))
    gone = refs.active("20260101-aaaaaaaaaaaaa")
    case.git("symbolic-ref", gone, refs.leaf("20260101-aaaaaaaaaaaaa"))
    assert any("20260101-aaaaaaaaaaaaa" in what for what in [*case.told(), *case.told().values()])
    assert run(["repair", "--dry-run"]) == exits.OK
    assert gone in case.refs()
    assert run(["repair"]) == exits.OK
    assert gone not in case.refs()
    assert refs.active(case.sid) in case.refs()
    assert case.told() == {}


def test_the_choice_of_an_archived_session_is_not_missed(case: Case) -> None:
    with Store.open(case.path) as store:
        store.archive.put(case.sid)
        assert store.verify().problems == []
        store.archive.restore(case.sid)
        assert store.verify().problems == []


@pytest.mark.promise("P24")
def test_renamed_branch_is_restored_whole_after_its_deletion(tmp_path: Path) -> None:
    """Both branches are kept under one name, that of the longer one."""
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        session = store.new_session(agent="test")
        first = session.append(Message.user("one"))
        session.append(Message.user("two"))
        store.flush()
        last = session.append(Message.user("three"))
        plain = ["git", "-C", tmp_path / "store.git", "update-ref"]
        subprocess.run([*plain, refs.leaf(session.id), first.oid], check=True)
        store.flush()
        assert store.verify().problems == []
        [beside] = [name for name in graph.branches(store.objects, session.id) if name != refs.MAIN]
        git(store.objects, "update-ref", "-d", refs.leaf(session.id, beside))
        at_branch(store.objects, session.id, refs.MAIN).append(Message.user("from the first"))
        store.flush()
        assert len(store.verify().problems) > 1
        assert store.repair().is_whole
        assert graph.branches(store.objects, session.id)[beside] == last.oid
        assert store.verify().problems == []


@pytest.mark.promise("P23", "P24")
def test_ref_with_a_missing_commit_is_reported_and_not_restored(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    place = tmp_path / "store.git"
    with Store.create(place, clock=Clock()) as store:
        session = store.new_session(agent="test")
        tip = session.append(Message.user("a")).oid
        store.flush()
        name = refs.leaf(session.id)
    ours = ["git", f"--git-dir={place}"]
    subprocess.run([*ours, "reflog", "expire", "--all", "--expire=now"], check=True)
    subprocess.run([*ours, "update-ref", "-d", name], check=True)
    subprocess.run([*ours, "gc", "-q", "--prune=now"], check=True)
    for _ in range(2):  # the record of it remains
        assert run(["--store", str(place), "repair"]) == exits.INTEGRITY
        said = capsys.readouterr().out
        assert name in said
        assert tip in said
        assert run(["--store", str(place), "verify"]) == exits.INTEGRITY
        assert name in capsys.readouterr().out
        for words in (["for-each-ref"], ["fsck", "--strict"], ["gc", "-q", "--prune=now"]):
            assert subprocess.run([*ours, *words], capture_output=True, text=True).returncode == 0
