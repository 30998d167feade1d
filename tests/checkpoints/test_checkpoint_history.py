"""The line of checkpoints: in order of time, whatever branch the talk is on."""

from __future__ import annotations

import builders
import pytest
from builders import STORES, Clock, assert_clean, assert_git_agrees, begun, git, leaves, session
from checkpoints import contents, held

from gitsession.checkpoints import history as line
from gitsession.checkpoints.lookup import files_at
from gitsession.codec.digest import to_base64url
from gitsession.errors import InvalidName, MissingObject, NotFound
from gitsession.model.entries import Message
from gitsession.sessions import checkpoint_refs, content, graph
from gitsession.sessions.session import StoredSession
from gitsession.store import refs
from gitsession.workspace import trees


@pytest.fixture(params=STORES.values(), ids=STORES)
def store(request, tmp_path):
    with request.param(tmp_path / "store.git") as made:
        yield made


def test_checkpoints_stand_one_behind_the_other_and_belong_to_entries(store):
    talk = begun(store, "hi", "more")
    first, second = talk.history()[1:]
    one = held(store, talk.id, {"a": "1"}, first)
    two = held(store, talk.id, {"a": "2"}, second, "after", call="c1")
    assert [point.oid for point in line.walk(store, talk.id)] == [two.oid, one.oid]
    assert two.node.parent == one.oid
    assert [point.entry.target for point in (one, two)] == [to_base64url(node.chain) for node in (first, second)]
    assert one.node.parent == talk.history()[0].oid
    assert contents(store, two) == {"a": "2"}
    assert_clean(store)


def test_what_says_nothing_new_is_not_kept(store):
    talk = begun(store)
    one = held(store, talk.id, {"a": "1"}, talk.leaf)
    talk.append(Message.user("on"))
    assert held(store, talk.id, {"a": "1"}, talk.leaf, "after").oid == one.oid


NEWS = {
    "another workspace": {"workspace": "/elsewhere"},
    "something left out": {"skipped": (("big", "too large"),)},
}


@pytest.mark.parametrize("fields", NEWS.values(), ids=NEWS)
def test_the_same_files_are_news_with(store, fields):
    talk = begun(store)
    one = held(store, talk.id, {"a": "1"}, talk.leaf)
    assert held(store, talk.id, {"a": "1"}, talk.leaf, **fields).oid != one.oid


def test_the_same_files_are_news_where_the_talk_went_on_elsewhere(store):
    talk = begun(store, "hi", "on")
    here, there = talk.leaf, talk.history()[1]
    one = held(store, talk.id, {"a": "1"}, here)
    talk.branch("side", there)
    side = talk.on("side")
    side.append(Message.user("another way"))
    assert held(store, talk.id, {"a": "1"}, side.leaf).oid != one.oid


def test_to_have_looked_and_found_nothing_is_news(store):
    talk = begun(store)
    held(store, talk.id, {"a": "1"}, talk.leaf, mode="edited", paths=("a",))
    known = held(store, talk.id, {"a": "1"}, talk.leaf, mode="edited", paths=("a",))
    assert held(store, talk.id, {"a": "1"}, talk.leaf, mode="edited", paths=("b",)).oid != known.oid


def test_a_session_that_nobody_spoke_in_has_no_place_for_checkpoints(store):
    quiet = StoredSession.new(store, "agent", "/work", Clock())
    with pytest.raises(NotFound):
        held(store, quiet.id, {}, None)


def test_the_line_is_no_branch(store):
    talk = begun(store)
    held(store, talk.id, {"a": "1"}, talk.leaf)
    assert list(leaves(store, talk.id)) == ["main"]
    assert len(graph.tree(store, talk.id).nodes) == 2
    for name in ("files", "files-abcdefgh"):
        with pytest.raises(InvalidName):
            talk.branch(name)
        with pytest.raises(NotFound):
            talk.switch(name)


def test_entries_of_our_own_carry_the_files_as_last_captured(store):
    talk = begun(store)
    assert content.files_of(store, talk.leaf.oid) is None
    held(store, talk.id, {"a": "1"}, talk.leaf)
    talk.append(Message.user("one"))
    kept = held(store, talk.id, {"a": "2"}, talk.leaf)
    last = talk.append(Message.user("two"))
    files = [content.files_of(store, node.oid) for node in talk.history()[2:]]
    assert [dict(trees.walk(store, oid)).keys() for oid in files] == [{"a"}, {"a"}]
    assert files[1] == kept.files != files[0]
    assert session(store, talk.id).leaf == last
    assert_clean(store)


def test_a_fork_goes_on_from_the_checkpoints_of_the_session_it_was_forked_from(store):
    talk = begun(store)
    one = held(store, talk.id, {"a": "1"}, talk.leaf)
    forked = builders.fork(talk)
    two = held(store, forked.id, {"a": "2"}, forked.leaf)
    assert two.node.parent == one.oid == line.newest(store, talk.id).oid
    assert_clean(store)


def test_a_fork_of_a_session_without_checkpoints_begins_a_line_below_the_fork(store):
    talk = begun(store)
    forked = builders.fork(talk)
    one = held(store, forked.id, {"a": "2"}, forked.leaf)
    assert one.node.parent == forked.leaf.oid
    assert line.newest(store, talk.id) is None
    assert_clean(store)


def test_what_an_entry_had_is_what_was_seen_last_by_then(store):
    talk = begun(store)
    root, hi = talk.history()
    held(store, talk.id, {"a": "1"}, hi)
    on = talk.append(Message.user("on"))
    held(store, talk.id, {"a": "2"}, on)
    held(store, talk.id, {"a": "3"}, on, "after")
    further = talk.append(Message.user("further"))
    assert contents(store, files_at(store, talk.id, root)) == {"a": "1"}, "what was there before, nobody saw"
    assert contents(store, files_at(store, talk.id, hi)) == {"a": "1"}
    assert contents(store, files_at(store, talk.id, on)) == {"a": "2"}, "what its own call did came afterwards"
    assert contents(store, files_at(store, talk.id, further)) == {"a": "3"}


def test_what_came_later_does_not_count_whatever_branch_the_talk_was_on(store):
    talk = begun(store)
    _, hi = talk.history()
    held(store, talk.id, {"a": "1"}, hi)
    held(store, talk.id, {"a": "2"}, hi, "after")
    on = talk.append(Message.user("on"))
    held(store, talk.id, {"a": "1"}, hi, "rewind", at_ms=talk.clock())
    assert contents(store, files_at(store, talk.id, on)) == {"a": "2"}
    assert contents(store, files_at(store, talk.id, hi)) == {"a": "1"}


def test_of_two_calls_of_one_answer_both_came_after_it(store):
    talk = begun(store)
    held(store, talk.id, {"a": "1"}, talk.leaf)
    answer = talk.append(Message.user("answer"))
    held(store, talk.id, {"a": "2"}, answer, "after", call="one")
    held(store, talk.id, {"a": "2", "u": "user"}, answer, "before", call="two")
    held(store, talk.id, {"a": "3", "u": "user"}, answer, "after", call="two")
    assert contents(store, files_at(store, talk.id, answer)) == {"a": "1"}


def test_times_that_the_writer_chose_do_not_matter_where_files_are_carried(store):
    talk = begun(store)
    held(store, talk.id, {"a": "1"}, talk.leaf)
    old = talk.append(Message.user("long ago", at_ms=1))
    held(store, talk.id, {"a": "2"}, old, "after")
    assert contents(store, files_at(store, talk.id, old)) == {"a": "1"}


def test_of_an_imported_session_checkpoints_count_by_the_entries_they_belong_to(store):
    sid = builders.bring(store, builders.pi_file(*builders.talk("a1", "a2", "a3"))).session
    a1, a2, a3 = builders.session(store, sid).history()[1:]
    held(store, sid, {"a": "1"}, a1)
    held(store, sid, {"a": "2"}, a2, "after", at_ms=Clock()() + 10**6)
    held(store, sid, {"a": "1"}, a2, "rewind", at_ms=Clock()() + 2 * 10**6)
    assert contents(store, files_at(store, sid, a2)) == {"a": "1"}
    assert contents(store, files_at(store, sid, a3)) == {"a": "2"}


def test_a_message_on_the_line_is_found_by_verify(tmp_path):
    store = STORES["git"](tmp_path / "store.git")
    with store:
        talk = begun(store)
        held(store, talk.id, {"a": "1"}, talk.leaf)
        with store.transaction() as tx:
            tx.move(refs.files(talk.id), talk.leaf.oid, expected=store.ref(refs.files(talk.id)))
        [problem] = builders.verify(store).problems
        assert "is not allowed on" in problem.what


@pytest.mark.promise("P22")
@pytest.mark.parametrize("lost", ["the commit", "what it says"])
def test_where_the_newest_is_lost_the_line_goes_on_beside_it_and_is_whole_again_when_that_is_mended(lost, faults):
    with faults.one():
        store = STORES["memory"](None)
        talk = begun(store)
        one = held(store, talk.id, {"a": "1"}, talk.leaf)
        two = held(store, talk.id, {"a": "2"}, talk.leaf)
        gone = two.oid if lost == "the commit" else content.tree_of(store, two.node.tree)[0][2]
        kept = store._objects.pop(gone)
        with pytest.raises(MissingObject):
            line.newest(store, talk.id)
        three = held(store, talk.id, {"a": "3"}, talk.leaf)
        four = held(store, talk.id, {"a": "4"}, talk.leaf, "after")
        assert [point.oid for point in line.walk(store, talk.id)] == [four.oid, three.oid]
        assert store.ref(refs.files(talk.id)) == two.oid  # a ref moves forward only
        assert content.files_of(store, talk.append(Message.user("on")).oid) == four.files
        store._objects[gone] = kept
        assert [point.oid for point in line.walk(store, talk.id)] == [four.oid, three.oid, two.oid, one.oid]
        assert checkpoint_refs.aside(store) == []
        assert_clean(store)


def test_a_line_that_stepped_aside_is_named(store):
    talk = begun(store)
    one = held(store, talk.id, {"a": "1"}, talk.leaf)
    name = refs.leaf(talk.id, "files-abcdefgh")
    with store.transaction() as tx:
        tx.move(name, one.oid, expected=None)
    assert checkpoint_refs.aside(store) == [name]


def test_git_shows_what_was_done_to_the_files(tmp_path):
    with STORES["git"](tmp_path / "store.git") as store:
        talk = begun(store)
        one = held(store, talk.id, {"src/a": "1\n"}, talk.leaf)
        entry = talk.append(Message.user("on"))
        two = held(store, talk.id, {"src/a": "2\n"}, talk.leaf, "after", reason="bash: edit")
        three = held(store, talk.id, {"src/a": "3\n"}, talk.leaf, "after", reason="bash: again")
        assert "-1\n+2\n" in git(store, "diff", one.oid, two.oid, "--", "files/")
        assert "-1\n+3\n" in git(store, "diff", entry.oid, three.oid, "--", "files/")
        shown = git(store, "log", "-p", "--format=%s", f"sessions/{talk.id}/files", "--", "files/")
        told = [line for line in shown.split("\n") if line[:1] in ("c", "-", "+") and line[:3] not in ("---", "+++")]
        assert told == ["checkpoint: bash: again", "-2", "+3", "checkpoint: bash: edit", "-1", "+2",
                        "checkpoint: workspace", "+1"]  # fmt: skip
        assert_git_agrees(store)


def test_where_entries_are_lost_checkpoints_are_not_taken_for_what_was_said():
    with STORES["memory"](None) as store:
        talk = begun(store, "hi", "on", "further")
        points = []
        for number, node in enumerate(talk.history()[1:]):
            points.append(held(store, talk.id, {"a": str(number)}, node))
        del store._objects[talk.history()[2].oid], store._objects[points[1].oid]
        tree = graph.tree(store, talk.id)
        assert {node.kind for node in tree.nodes.values()} == {"session", "message"}
        assert len(tree.nodes) == 3
        with pytest.raises(MissingObject):
            line.history(store, talk.id)
