"""Tests of P22: damage affects only the damaged entries. All others are listed, and each gap is marked."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from builders import begun, bring, fork, on_disk, pi_file, said
from damage import without
from promises import Faults

from gitsession.api import Store
from gitsession.cli import exits
from gitsession.cli.app import run
from gitsession.errors import Corrupt, NotFound
from gitsession.git.objects import parse_tree
from gitsession.git.types import Oid
from gitsession.model.entries import Message
from gitsession.sessions import graph
from gitsession.sessions.gaps import Gap
from gitsession.sessions.meta import meta_of
from gitsession.sessions.unreachable import unassigned
from gitsession.store.memory import MemoryStore

ENTRIES = 500


def lose(store: MemoryStore, *oids: Oid) -> None:
    for oid in oids:
        del store._objects[oid]


@pytest.fixture(scope="module")
def five_hundred() -> tuple[MemoryStore, str, str]:
    """Create a store with an imported and a new session, each with half of ``ENTRIES``."""
    store = MemoryStore()
    lines = [said(f"e{n}", f"e{n - 1}" if n else None, f"number {n}", at=n % 60) for n in range(ENTRIES // 2 - 1)]
    theirs = bring(store, pi_file(*lines)).session
    ours = begun(store, *(f"number {n}" for n in range(ENTRIES // 2 - 1)))
    return store, theirs, ours.id


def copied(store: MemoryStore) -> MemoryStore:
    copy = MemoryStore()
    copy._objects, copy._refs = dict(store._objects), dict(store._refs)
    return copy


@pytest.mark.promise("P22")
@pytest.mark.parametrize("lost", [1, 2, 3, 5, 8, 13, 20])
def test_entries_except_lost_ones_are_listed_and_read(
    five_hundred: tuple[MemoryStore, str, str], faults: Faults, lost: int
) -> None:
    store = copied(five_hundred[0])
    chance = random.Random(lost)
    for sid in five_hundred[1:]:
        whole = graph.tree(store, sid)
        chosen = set(chance.sample(sorted(whole.nodes), lost))
        lose(store, *chosen)
        found = graph.tree(store, sid)
        lines = unassigned(store, lambda sid: graph.tree(store, sid).nodes)
        apart = {node.oid for line in lines for node in line.entries}
        assert {node.oid for node, _ in found.walk()} | apart & set(whole.nodes) == set(whole.nodes) - chosen
        named = {gap.oid for gap in found.damage}
        in_a_row = {oid for oid in chosen if not any(node.parent == oid for node in found.nodes.values())}
        assert chosen - in_a_row <= named <= chosen
        for gap in found.damage:
            assert gap.oid in gap.problem
            assert gap.before is None or is_before(whole, gap.before, gap.oid)
        faults.many(lost)


def is_before(whole: graph.Tree, one: Oid, other: Oid) -> bool:
    at = whole.nodes[other].parent
    while at is not None and at != one:
        at = whole.nodes[at].parent
    return at == one


@pytest.mark.promise("P22")
@pytest.mark.parametrize("lost", [[40], [40, 41], [3, 100, 180], [1], [2]], ids=str)
def test_history_continues_after_a_gap_if_the_chain_digest_proves_it(
    five_hundred: tuple[MemoryStore, str, str], lost: list[int]
) -> None:
    store = copied(five_hundred[0])
    for sid in five_hundred[1:]:
        leaf = graph.branches(store, sid)["main"]
        whole = list(graph.history(store, leaf))
        gone = {whole[n].oid for n in lost}
        lose(store, *gone)
        found = list(graph.history_with_gaps(store, sid, leaf))
        assert [it.oid for it in found if not isinstance(it, Gap)] == [n.oid for n in whole if n.oid not in gone]
        gaps = [n for n, it in enumerate(found) if isinstance(it, Gap)]
        assert gaps == [n for n in lost if n - 1 not in lost]


def test_a_lost_root_and_a_lost_leaf_are_marked(five_hundred: tuple[MemoryStore, str, str]) -> None:
    store = copied(five_hundred[0])
    for sid in five_hundred[1:]:
        leaf = graph.branches(store, sid)["main"]
        whole = list(graph.history(store, leaf))
        lose(store, whole[0].oid, whole[-1].oid)
        found = graph.tree(store, sid)
        assert set(found.nodes) == {node.oid for node in whole[1:-1]}
        assert {gap.oid for gap in found.damage} == {whole[0].oid, whole[-1].oid}
        line = list(graph.history_with_gaps(store, sid, leaf))
        assert isinstance(line[0], Gap)
        assert line[0].before == whole[1].oid


@pytest.mark.parametrize("lost", [1, 2, 3, 10])
def test_root_without_its_children_is_listed(five_hundred: tuple[MemoryStore, str, str], lost: int) -> None:
    store = copied(five_hundred[0])
    for sid in five_hundred[1:]:
        whole = list(graph.history(store, graph.branches(store, sid)["main"]))
        root, *followers = whole[::-1]
        lose(store, *(node.oid for node in followers[:lost]))
        assert set(graph.tree(store, sid).nodes) == {root.oid, *(node.oid for node in followers[lost:])}


def test_history_ends_at_an_unproven_gap(five_hundred: tuple[MemoryStore, str, str]) -> None:
    store = copied(five_hundred[0])
    _, sid, _ = five_hundred
    leaf = graph.branches(store, sid)["main"]
    whole = list(graph.history(store, leaf))
    lose(store, whole[40].oid, whole[40].tree)
    line = list(graph.history_with_gaps(store, sid, leaf))
    assert [it.oid for it in line] == [node.oid for node in whole[:41]]
    assert isinstance(line[-1], Gap)
    assert line[-1].before is None
    assert set(graph.tree(store, sid).nodes) == {node.oid for node in whole} - {whole[40].oid}


def test_entries_of_another_session_are_never_used() -> None:
    store = MemoryStore()
    one, other = begun(store, "a", "b", "c"), begun(store, "d", "e", "f")
    for held in (one, other):
        lose(store, held.history()[2].oid)
    for held in (one, other):
        found = graph.tree(store, held.id)
        subjects = {node.subject for node in found.nodes.values()}
        assert len(found.nodes) == 3
        assert len([s for s in subjects if s.startswith("user: ")]) == 2


@pytest.mark.promise("P22")
@pytest.mark.parametrize("agents", ["one", "two"])
def test_entry_between_gaps_is_listed_if_another_session_lost_its_tip(
    tmp_path: Path, agents: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "store.git"
    with on_disk(path) as store:
        ours = begun(store, "a", "b", "c", "d")
        if agents == "one":
            theirs = begun(store, "e", "f").id
        else:
            theirs = bring(store, pi_file(said("e0", None), said("e1", "e0"))).session
        store.flush()
        line = [node.oid for node in ours.history()]  # the root first
        leaf = graph.branches(store, theirs)["main"]
    without(path, line[2], line[4], leaf)  # the entry line[3] is intact
    with Store.open(path) as opened:
        done = opened.repair()
        listed = {oid for sid in (ours.id, theirs) for oid in graph.tree(opened.objects, sid).nodes}
        assert line[3] not in listed
        [found] = done.unassigned
        assert [node.oid for node in found.entries] == [line[3]]
        assert set(found.sessions) == {ours.id, theirs}
    assert run(["--store", str(path), "repair"]) == exits.INTEGRITY
    assert f"unassigned: 1 entry up to {line[3]}, of one of" in capfd.readouterr().out
    assert run(["--store", str(path), "repair", "--json"]) == exits.INTEGRITY
    document = json.loads(capfd.readouterr().out)
    assert [row["entries"] for row in document["unassigned"]] == [[line[3]]]


def test_fork_of_a_damaged_session_keeps_its_own_entries() -> None:
    store = MemoryStore()
    held = begun(store, "a", "b", "c")
    side = fork(held)
    side.append(Message.user("on"))
    before = {node.oid for node in side.history()}
    lost = held.history()[1].oid
    lose(store, lost)
    assert set(graph.tree(store, side.id).nodes) == before - {lost}


def test_marks_before_a_lost_entry_of_meta_still_count() -> None:
    store = MemoryStore()
    held = begun(store, "a", "b")
    held.label("leaf", "kept")
    held.rename("T")
    held.rename("U")
    nodes = meta_of(store, held.id).nodes
    lose(store, nodes[1].oid)
    found = meta_of(store, held.id)
    assert [gap.oid for gap in found.gaps] == [nodes[1].oid]
    assert [mark.value for mark in found.marks if mark.what in ("label", "title")] == ["U", "kept"]


# ---- output


@pytest.fixture
def damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, str, list[str]]:
    """Create a store on disk with a session without the commit of one entry and the payload of another."""
    with on_disk(tmp_path / "store.git") as store:
        sid = bring(store, pi_file(*(said(f"e{n}", f"e{n - 1}" if n else None, at=n) for n in range(9)))).session
        store.flush()
        line = [node.oid for node in graph.history(store, graph.branches(store, sid)["main"])]
        tree = graph.tree(store, sid).nodes[line[6]].tree
        [payload] = [oid for _, name, oid in parse_tree(store.read(tree)[1]) if name == "entry.jsonl"]
    without(tmp_path / "store.git", line[3], payload)
    monkeypatch.setenv("GITSESSION_DIR", str(tmp_path / "store.git"))
    return tmp_path / "store.git", sid, line


@pytest.mark.promise("P22")
def test_log_and_tree_continue_after_a_gap_and_mark_it(
    damaged: tuple[Path, str, list[str]], capfd: pytest.CaptureFixture[str]
) -> None:
    _, sid, line = damaged
    for command in ("log", "tree"):
        assert run([command, sid]) == exits.INTEGRITY
        out = capfd.readouterr().out
        assert [oid[:8] in out for oid in line] == [True] * len(line)
        [marked] = [told for told in out.splitlines() if told.startswith(line[3][:8])]
        assert "cannot be read" in marked
        assert run([command, sid, "--json"]) == exits.INTEGRITY
        document = json.loads(capfd.readouterr().out)
        assert {entry["id"] for entry in document["entries"]} == set(line) - {line[3]}
        assert [(gap["id"], gap["before"]) for gap in document["gaps"]] == [(line[3], line[4])]
    assert run(["ls", "--format", "%(session)"]) == exits.OK
    assert capfd.readouterr().out == f"{sid}\n"


@pytest.mark.promise("P22")
def test_every_remaining_entry_is_shown_and_others_have_a_reason(
    damaged: tuple[Path, str, list[str]], capfd: pytest.CaptureFixture[str]
) -> None:
    _, sid, line = damaged
    codes = [run(["show", f"{sid}@{oid}"]) for oid in line]
    assert codes == [exits.INTEGRITY if n == 6 else exits.NOT_FOUND if n == 3 else exits.OK for n in range(len(line))]
    told = capfd.readouterr()
    assert "cannot be read: missing object" in told.out
    assert "words of e2" in told.out


def test_program_is_informed_of_the_gap_and_never_gets_an_incomplete_branch(
    damaged: tuple[Path, str, list[str]],
) -> None:
    path, sid, line = damaged
    with Store.open(path) as store:
        session = store.session(sid)
        with pytest.raises(Corrupt, match=line[3]):
            session.history()
        found = session.history_with_gaps()
        assert [it.oid for it in found] == line[::-1]
        assert [it.oid for it in found if isinstance(it, Gap)] == [line[3]]
        with pytest.raises(NotFound):
            session.resolve(line[3])


def test_a_damaged_session_is_appended_to_but_not_imported_into(damaged: tuple[Path, str, list[str]]) -> None:
    path, sid, line = damaged
    with Store.open(path) as store:
        session = store.session(sid)
        session.append(Message.user("on"))
        assert len(session.history_with_gaps()) == len(line) + 1
        with pytest.raises(Corrupt, match="damaged"):
            bring(store.objects, pi_file(said("e0", None)))
