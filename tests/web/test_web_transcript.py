"""Tests of the order of entries in a page: sections, parts, and the rows of the branch tree."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import Clock

from gitsession import Compaction, Message, Session, Store
from gitsession.web import transcript
from gitsession.web.transcript import Transcript


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        yield store.new_session(agent="pi", cwd="/work")


def say(session: Session, *texts: str) -> None:
    for text in texts:
        session.append(Message.user(text) if text[0].isupper() else Message.assistant(text))


def ordered(session: Session, active: str = "main", at: str | None = None) -> Transcript:
    labels = session.names().labels
    return Transcript(session.tree(), active, labels, at=session.resolve(at) if at else None)


def texts(found: Transcript) -> list[tuple[str, str]]:
    """Return the name and the entries of each section."""
    return [(each.name, " ".join(node.subject.partition(": ")[2] for node in each.shown)) for each in found.sections]


def rows(found: Transcript) -> list[str]:
    return [f"{row.depth} {row.form} {row.text}" for row in found.rows()]


def test_active_branch_comes_first_and_whole(session: Session) -> None:
    say(session, "A", "b")
    session.branch("side")
    say(session, "C", "d")
    say(session.on("side"), "E", "f")
    assert texts(ordered(session)) == [("main", "A b C d"), ("side", "E f")]
    assert texts(ordered(session, "side")) == [("side", "A b E f"), ("main", "C d")]
    assert texts(ordered(session, at="side~1")) == [("main", "A b E")]
    assert rows(ordered(session)) == ["0 prompt A", "1 branch side", "1 prompt E", "0 prompt C"]


def test_branches_of_branches_follow_their_branch(session: Session) -> None:
    say(session, "A")
    side = session.branch("one")
    say(side, "B")
    say(side.branch("two"), "C")
    say(side, "D")
    say(session, "E")
    found = ordered(session)
    assert texts(found) == [("main", "A E"), ("one", "B D"), ("two", "C")]
    assert rows(found) == [
        "0 prompt A", "1 branch one", "1 prompt B", "2 branch two", "2 prompt C", "1 prompt D", "0 prompt E",
    ]  # fmt: skip


def test_branch_without_own_entries_is_only_a_name(session: Session) -> None:
    say(session, "A", "b")
    session.branch("same")
    found = ordered(session)
    assert texts(found) == [("main", "A b")]
    assert list(found.tips.values()) == [("main", "same")]


def test_labelled_answers_are_rows(session: Session) -> None:
    say(session, "A", "b", "c")
    session.label("leaf~1", "good")
    assert [(row.form, row.label) for row in ordered(session).rows()] == [("prompt", ""), ("labelled", "good")]


def test_summary_is_a_row(session: Session) -> None:
    say(session, "A", "b")
    session.append(Compaction(summary="It was fixed."))
    assert rows(ordered(session))[1] in ("0 summary Summary of earlier entries", "0 summary Summary: It was fixed.")


def test_parts_cover_every_entry_once(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript, "PART_ENTRIES", 3)
    say(session, *"ABCDEFG")
    session.branch("side", at="leaf~2")
    say(session.on("side"), "H")
    found = ordered(session)
    parts = found.parts()
    assert [[len(part.nodes) for part in section] for section in parts] == [[3, 3, 1], [1]]
    assert [part.number for section in parts for part in section] == [0, 1, 2, 3]
    assert [node for section in parts for part in section for node in part.nodes] == [
        node for section in found.sections for node in section.shown
    ]


def test_ten_thousand_branches_need_no_recursion(session: Session) -> None:
    say(session, "A")
    node = session.resolve("leaf")
    tree = session.tree()
    nodes, children, branches = dict(tree.nodes), dict(tree.children), dict(tree.branches)
    parent = node.oid
    for number in range(10_000):
        for kind in ("side", "next"):
            oid = f"{kind[0]}{number:039x}"
            nodes[oid] = node._replace(oid=oid, parent=parent)
            children.setdefault(parent, []).append(oid)
        branches[f"b{number}"], parent = f"s{number:039x}", f"n{number:039x}"
    branches["main"] = parent
    deep = type(tree)(branches, nodes, children, ())
    found = Transcript(deep, "main", {})
    assert len(found.sections) == 10_001
    assert sum(1 for _ in found.rows()) == 1 + 10_000 * 3
