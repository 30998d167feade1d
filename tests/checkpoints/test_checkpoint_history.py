"""Tests of the branch of checkpoints: it is in order of time, on whichever branch the conversation is."""

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


def test_checkpoints_follow_each_other_and_belong_to_entries(store):
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


def test_checkpoint_without_new_information_is_not_written(store):
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


def test_same_files_are_recorded_again_on_another_branch(store):
    talk = begun(store, "hi", "on")
    here, there = talk.leaf, talk.history()[1]
    one = held(store, talk.id, {"a": "1"}, here)
    talk.branch("side", there)
    side = talk.on("side")
    side.append(Message.user("another way"))
    assert held(store, talk.id, {"a": "1"}, side.leaf).oid != one.oid


def test_checkpoint_without_changes_of_named_paths_is_recorded(store):
    talk = begun(store)
    held(store, talk.id, {"a": "1"}, talk.leaf, mode="edited", paths=("a",))
    known = held(store, talk.id, {"a": "1"}, talk.leaf, mode="edited", paths=("a",))
    assert held(store, talk.id, {"a": "1"}, talk.leaf, mode="edited", paths=("b",)).oid != known.oid


def test_session_without_messages_has_no_checkpoints(store):
    quiet = StoredSession.new(store, "agent", "/work", Clock())
    with pytest.raises(NotFound):
        held(store, quiet.id, {}, None)


def test_files_branch_is_not_listed_as_a_branch(store):
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


def test_fork_continues_the_checkpoints_of_its_origin(store):
    talk = begun(store)
    one = held(store, talk.id, {"a": "1"}, talk.leaf)
    forked = builders.fork(talk)
    two = held(store, forked.id, {"a": "2"}, forked.leaf)
    assert two.node.parent == one.oid == line.newest(store, talk.id).oid
    assert_clean(store)


def test_fork_of_a_session_without_checkpoints_starts_its_own(store):
    talk = begun(store)
    forked = builders.fork(talk)
    one = held(store, forked.id, {"a": "2"}, forked.leaf)
    assert one.node.parent == forked.leaf.oid
    assert line.newest(store, talk.id) is None
    assert_clean(store)


def test_files_of_an_entry_are_those_of_the_last_checkpoint_before_it(store):
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


def test_later_checkpoints_do_not_count_on_any_branch(store):
    talk = begun(store)
    _, hi = talk.history()
    held(store, talk.id, {"a": "1"}, hi)
    held(store, talk.id, {"a": "2"}, hi, "after")
    on = talk.append(Message.user("on"))
    held(store, talk.id, {"a": "1"}, hi, "rewind", at_ms=talk.clock())
    assert contents(store, files_at(store, talk.id, on)) == {"a": "2"}
    assert contents(store, files_at(store, talk.id, hi)) == {"a": "1"}


def test_both_calls_of_an_answer_come_after_it(store):
    talk = begun(store)
    held(store, talk.id, {"a": "1"}, talk.leaf)
    answer = talk.append(Message.user("answer"))
    held(store, talk.id, {"a": "2"}, answer, "after", call="one")
    held(store, talk.id, {"a": "2", "u": "user"}, answer, "before", call="two")
    held(store, talk.id, {"a": "3", "u": "user"}, answer, "after", call="two")
    assert contents(store, files_at(store, talk.id, answer)) == {"a": "1"}


def test_order_of_checkpoints_does_not_depend_on_times(store):
    talk = begun(store)
    held(store, talk.id, {"a": "1"}, talk.leaf)
    old = talk.append(Message.user("long ago", at_ms=1))
    held(store, talk.id, {"a": "2"}, old, "after")
    assert contents(store, files_at(store, talk.id, old)) == {"a": "1"}


def test_checkpoints_of_an_imported_session_belong_to_its_entries(store):
    sid = builders.bring(store, builders.pi_file(*builders.talk("a1", "a2", "a3"))).session
    a1, a2, a3 = builders.session(store, sid).history()[1:]
    held(store, sid, {"a": "1"}, a1)
    held(store, sid, {"a": "2"}, a2, "after", at_ms=Clock()() + 10**6)
    held(store, sid, {"a": "1"}, a2, "rewind", at_ms=Clock()() + 2 * 10**6)
    assert contents(store, files_at(store, sid, a2)) == {"a": "1"}
    assert contents(store, files_at(store, sid, a3)) == {"a": "2"}


def test_message_on_the_files_branch_is_a_problem(tmp_path):
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
def test_lost_newest_checkpoint_moves_the_branch_aside_until_it_is_repaired(lost, faults):
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
        assert store.ref(refs.files(talk.id)) == two.oid  # a ref only moves forward
        assert content.files_of(store, talk.append(Message.user("on")).oid) == four.files
        store._objects[gone] = kept
        assert [point.oid for point in line.walk(store, talk.id)] == [four.oid, three.oid, two.oid, one.oid]
        assert checkpoint_refs.unassigned_refs(store) == []
        assert_clean(store)


def test_renamed_checkpoint_branch_is_listed(store):
    talk = begun(store)
    one = held(store, talk.id, {"a": "1"}, talk.leaf)
    name = refs.leaf(talk.id, "files-abcdefgh")
    with store.transaction() as tx:
        tx.move(name, one.oid, expected=None)
    assert checkpoint_refs.unassigned_refs(store) == [name]


def test_git_log_shows_the_file_changes(tmp_path):
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


def test_missing_entries_do_not_make_checkpoints_part_of_the_conversation():
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
