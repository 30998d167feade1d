"""Tests of lines that programs append to a session: they are stored as an import of their file stores them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from builders import pi_file, said, slot
from growing_files import pi_files
from hypothesis import given
from hypothesis import strategies as st

from gitsession import Store
from gitsession.api.agent_lines import AgentLines
from gitsession.errors import LeafMoved, Malformed, NotFound, Refused
from gitsession.formats import FORMATS
from gitsession.formats.base.jsonl import LineFailure, parse
from gitsession.store import refs

SECRET = "ghp_" + "a1B2c3D4e5F6" * 3


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git") as store:
        yield store


def lines_of(data: bytes) -> list[bytes]:
    return data.split(b"\n")[:-1]


def session_refs(store: Store, sid: str) -> dict[str, str]:
    return {name: str(value) for name, value in store.objects.refs(refs.session(sid)).items()}


def begun(store: Store, *lines: bytes) -> tuple[AgentLines, str, int]:
    file = AgentLines(store)
    done = file.new("pi", lines_of(pi_file(*lines)))
    return file, done.session, done.count


@given(data=pi_files(), cuts=st.lists(st.floats(0, 1), max_size=4), is_known=st.booleans())
def test_entries_are_those_of_an_import_of_the_file(data: bytes, cuts: Sequence[float], is_known: bool) -> None:
    lines = lines_of(data)
    marks = [2, *sorted(max(2, round(cut * len(lines))) for cut in cuts), len(lines)]
    with Store.in_memory() as ours, Store.in_memory() as theirs:
        file = AgentLines(ours)
        try:
            sid = file.new("pi", lines[:2]).session
            for before, after in pairwise(marks):
                file = file if is_known else AgentLines(ours)
                assert file.append(sid, lines[before:after], after=before).count == after
        except Malformed:
            bad = [
                line
                for line in lines[1:]
                if isinstance(found := parse(line), LineFailure) or found["type"] == "session"
            ]
            assert bad or not FORMATS["pi"].claims(lines[0])
            return
        assert theirs.agents.import_data(FORMATS["pi"], data).session == sid
        assert session_refs(ours, sid) == session_refs(theirs, sid)
        assert list(file.read(sid).lines) == lines


def test_pages_of_lines_are_read(store: Store) -> None:
    file, sid, count = begun(store, said("a", None), said("b", "a"), said("c", "b"))
    assert count == 4
    assert file.read(sid, after=1, limit=2).lines == (said("a", None), said("b", "a"))
    assert file.read(sid, after=9).lines == ()
    assert file.read(sid, limit=0).count == 4


def test_second_writer_is_refused_and_continues_after_it_has_read(store: Store) -> None:
    ours, sid, count = begun(store, said("a", None))
    with Store.open(store.objects.git_dir) as other:
        theirs = AgentLines(other)
        assert theirs.append(sid, [said("b", "a")], after=count).count == 3
        with pytest.raises(LeafMoved, match="it has 3 lines instead of 2"):
            ours.append(sid, [said("c", "a")], after=count)
        new = ours.read(sid, after=count)
        assert new.lines == (said("b", "a"),)
        ours.append(sid, [said("c", "b")], after=new.count)
        assert theirs.read(sid).count == 4
    assert len(store.session(sid).branches()) == 1


def test_entries_of_gitsession_do_not_disturb_the_writer(store: Store) -> None:
    """A label and a title are no lines of the agent's file; the next line follows the line before it."""
    file, sid, count = begun(store, said("a", None))
    session = store.session(sid)
    session.label("leaf", "here")
    session.rename("Mine")
    done = file.append(sid, [said("b", "a")], after=count)
    assert file.read(sid).lines[1:] == (said("a", None), said("b", "a"))
    assert file.append(sid, [said("c", "b")], after=done.count).count == 4
    assert [node.source.id for node in store.session(sid).walk("c") if node.source] == ["c", "b", "a"]
    assert store.session(sid).names().title == "Mine"
    assert store.verify().problems == []


def test_secret_is_redacted_in_the_store_and_read_by_the_program(store: Store) -> None:
    line = said("a", None, f"the token is {SECRET}")
    file, sid, count = begun(store, line)
    assert SECRET not in store.session(sid).read("leaf").text  # type: ignore[union-attr]
    assert AgentLines(store).read(sid).lines[1:] == (line,)
    file.append(sid, [said("b", "a")], after=count)
    assert AgentLines(store).read(sid).lines[1:] == (line, said("b", "a"))
    assert [node.source.id for node in store.session(sid).history() if node.source] == ["a", "b"]


@pytest.mark.parametrize("is_known", [True, False])
def test_append_to_a_fork_is_refused_and_changes_no_session(store: Store, is_known: bool) -> None:
    """The file of a fork has the header of its source, so an import of it would change the source."""
    file, sid, count = begun(store, said("a", None))
    fork = store.session(sid).fork().id
    file = file if is_known else AgentLines(store)
    before = session_refs(store, sid), session_refs(store, fork)
    for _ in range(2):
        with pytest.raises(Refused, match=f"append to session {fork}: the id in its header is that of session {sid}"):
            file.append(fork, [said("b", "a")], after=count)
    assert (session_refs(store, sid), session_refs(store, fork)) == before
    assert file.append(fork, [], after=count).session == fork
    header = pi_file(id="s2").rstrip(b"\n")
    copy = file.new("pi", [header, *file.read(fork).lines[1:]])
    assert file.append(copy.session, [said("b", "a")], after=copy.count).session == copy.session
    assert file.append(sid, [said("c", "a")], after=count).session == sid
    assert [file.read(id).count for id in (sid, fork, copy.session)] == [3, 2, 3]


REFUSED = {
    "not JSON": [b"{"],
    "blank": [b""],
    "a list": [b"[]"],
    "two lines in one": [said("x", "a") + b"\n" + said("y", "x")],
    "not UTF-8": [b'{"type":"custom","id":"x","parentId":"a","x":"\xff"}'],
    "a second header": [b'{"type":"session","id":"t"}'],
    "a good line before it": [said("x", "a"), b"{"],
}


@pytest.mark.parametrize("lines", REFUSED.values(), ids=REFUSED)
def test_nothing_is_appended_if_a_line_is_refused(store: Store, lines: list[bytes]) -> None:
    file, sid, count = begun(store, said("a", None))
    before = session_refs(store, sid)
    with pytest.raises(Malformed):
        file.append(sid, lines, after=count)
    assert session_refs(store, sid) == before
    assert file.append(sid, [], after=count).count == count
    assert file.append(sid, [said("b", "a")], after=count).count == count + 1


def test_session_of_omp_begins_with_a_title(store: Store) -> None:
    file = AgentLines(store)
    lines = [slot("Mine"), *lines_of(pi_file(said("a", None)))]
    sid = file.new("omp", lines).session
    file.append(sid, [said("b", "a")], after=3)
    assert file.read(sid).lines == (*lines, said("b", "a"))
    assert store.session(sid).names().title == "Mine"


def test_session_must_be_new_and_of_an_agent_with_a_header(store: Store) -> None:
    file, sid, _ = begun(store, said("a", None))
    with pytest.raises(Refused, match="has this id"):
        file.new("pi", lines_of(pi_file(said("b", None))))
    with pytest.raises(Malformed, match="not the header"):
        file.new("pi", [said("a", None)])
    with pytest.raises(Refused, match="agent 'claude'"):
        file.new("claude", [said("a", None)])
    with pytest.raises(NotFound):
        file.read("20260101-aaaaaaaaaaaaa")
    native = store.keyed_session("k", agent="mine")
    with pytest.raises(Refused, match="agent 'mine'"):
        file.append(native.id, [said("a", None)], after=0)
    assert [row.sid for row in store.sessions() if row.agent == "pi"] == [sid]


def test_purged_session_is_not_written_again(store: Store) -> None:
    file, sid, count = begun(store, said("a", None))
    store.purges.apply(store.purges.plan(sid))
    with pytest.raises((Refused, NotFound)):
        file.append(sid, [said("b", "a")], after=count)
    with pytest.raises(Refused):
        file.new("pi", lines_of(pi_file(said("a", None))))
