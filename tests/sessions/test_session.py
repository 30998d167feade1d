"""Tests of the session API: append, branch, switch, fork, label and rename, on both stores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import STORES, Clock, Watched, assert_clean, begun, fork, labels_of, leaves, session, title_of

from gitsession.codec.digest import to_base32, to_base64url
from gitsession.errors import InvalidName, LeafMoved, Malformed, NotFound, Refused
from gitsession.model.entries import Custom, Fork, Label, Message, ModelChange, SessionHeader, Title
from gitsession.sessions import active_branch, graph, operation_log
from gitsession.sessions import session as sessions
from gitsession.store import refs
from gitsession.store.create import create
from gitsession.store.git_store import GitStore
from gitsession.store.interface import ObjectStore
from gitsession.store.memory import MemoryStore


@pytest.fixture(params=STORES.values(), ids=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    with request.param(tmp_path / "store.git") as opened:
        yield opened
        assert_clean(opened)


def words(held: sessions.StoredSession) -> list[str]:
    """Return the subjects of the branch, without the root."""
    return [node.subject for node in held.history()[1:]]


# ---- new sessions


def test_a_session_is_nowhere_before_its_first_user_message(store: ObjectStore) -> None:
    held = sessions.StoredSession.new(store, "agent", "/work", Clock())
    held.append(ModelChange(provider="p", model="m"))
    assert store.refs("refs/heads/sessions/") == {}
    assert (held.leaf, held.history(), held.branches()) == (None, [], {})


def test_pending_entries_are_written_with_the_first_prompt_in_one_transaction(store: ObjectStore) -> None:
    watched = Watched(store)
    held = sessions.StoredSession.new(watched, "agent", "/work", Clock())
    model = held.append(ModelChange(provider="p", model="m"))
    assert watched.put == {}
    prompt = held.append(Message.user("hi"))
    assert [node.kind for node in held.history()] == ["session", "model_change", "message"]
    assert (prompt.parent, held.leaf) == (model.oid, prompt)
    assert watched.put["commit"] == 4  # root, header, model, prompt


def test_greeting_of_the_assistant_does_not_start_a_session(store: ObjectStore) -> None:
    held = sessions.StoredSession.new(store, "agent", None, Clock())
    held.append(Message.assistant("How can I help?"))
    assert store.refs("refs/heads/sessions/") == {}


def test_root_has_the_constant_data_and_meta_has_the_header(store: ObjectStore) -> None:
    held = begun(store)
    root, header = held.read(held.history()[0]), held.read(graph.load(store, store.ref(refs.meta(held.id)) or ""))
    assert isinstance(root, SessionHeader)
    assert (root.agent, root.view, root.cwd, root.title) == ("agent", 1, None, None)
    assert isinstance(header, SessionHeader)
    assert header.cwd == "/work"


def test_session_id_starts_with_the_date(store: ObjectStore) -> None:
    assert begun(store).id.startswith("20260201-")


def test_two_sessions_of_one_moment_have_two_names(store: ObjectStore) -> None:
    assert begun(store, clock=Clock()).id != begun(store, clock=Clock()).id


def test_entry_that_the_format_cannot_hold_is_rejected_without_a_write(store: ObjectStore) -> None:
    held = begun(store)
    before = store.refs("refs/")
    with pytest.raises(Malformed, match="data"):
        held.append(Custom(custom_type="x", data=float("nan")))
    assert store.refs("refs/") == before


# ---- append


def test_appends_form_a_line(store: ObjectStore) -> None:
    held = begun(store, "one", "two", "three")
    assert words(held) == ["user: one", "user: two", "user: three"]
    assert list(held.branches()) == ["main"]


def test_an_entry_without_a_time_gets_the_clock_s(store: ObjectStore) -> None:
    clock = Clock()
    held = begun(store, clock=clock)
    node = held.append(Message.user("now"))
    assert held.read(node).at_ms == clock.at_ms
    assert held.read(held.append(Message.user("then", at_ms=77))).at_ms == 77


def test_times_may_run_backwards_and_the_committer_s_never_do(store: ObjectStore) -> None:
    held = begun(store)
    late = held.append(Message.user("late", at_ms=9_000_000_000))
    early = held.append(Message.user("early", at_ms=1_000))
    assert (early.author_seconds, early.committer_seconds) == (1, late.committer_seconds)


def test_two_handles_on_one_branch_append_one_after_the_other(store: ObjectStore) -> None:
    mine = begun(store, "start")
    theirs = session(store, mine.id)
    theirs.append(Message.assistant("theirs"))
    mine.append(Message.assistant("mine"))
    assert words(theirs) == words(mine) == ["user: start", "assistant: theirs", "assistant: mine"]


def test_expected_tip_that_moved_is_an_error(store: ObjectStore) -> None:
    mine = begun(store, "start")
    seen = mine.leaf
    session(store, mine.id).append(Message.assistant("theirs"))
    with pytest.raises(LeafMoved):
        mine.append(Message.assistant("mine"), expected=seen)
    assert words(mine) == ["user: start", "assistant: theirs"]


def test_append_with_the_current_expected_tip(store: ObjectStore) -> None:
    mine = begun(store, "start")
    mine.append(Message.assistant("mine"), expected=mine.leaf)
    assert words(mine) == ["user: start", "assistant: mine"]


def test_moved_tip_with_fork_starts_another_branch(store: ObjectStore) -> None:
    mine = begun(store, "start")
    theirs, seen = session(store, mine.id), mine.leaf
    theirs.append(Message.assistant("theirs"))
    node = mine.append(Message.assistant("mine"), expected=seen, on_moved="fork")
    mine.append(Message.user("and on"))
    assert words(theirs) == ["user: start", "assistant: theirs"]
    assert words(mine) == ["user: start", "assistant: mine", "user: and on"]
    assert set(mine.branches()) == {"main", mine.branch_name}
    assert mine.branch_name != "main"
    assert node.parent == (seen.oid if seen else None)


def test_name_of_a_forked_branch_depends_on_its_first_entry(store: ObjectStore) -> None:
    mine = begun(store, "start")
    seen = mine.leaf
    session(store, mine.id).append(Message.assistant("theirs"))
    node = mine.append(Message.assistant("mine"), expected=seen, on_moved="fork")
    assert mine.branch_name == to_base32(node.chain, 8)


def test_deleted_branch_is_not_found(store: ObjectStore) -> None:
    held = begun(store)
    held.branch("side")
    side = session(store, held.id, "side")
    operation_log.apply_next(store, "undo", 1)
    with pytest.raises(NotFound, match="side"):
        side.append(Message.user("too late"))


# ---- branches


def test_branch_starts_at_an_entry_and_continues_separately(store: ObjectStore) -> None:
    held = begun(store, "one", "two")
    held.branch("side", held.history()[1])
    side = session(store, held.id, "side")
    side.append(Message.user("other"))
    assert words(side) == ["user: one", "user: other"]
    assert words(held) == ["user: one", "user: two"]
    assert leaves(store, held.id) == {"main": "user: two", "side": "user: other"}


def test_existing_branch_name_is_rejected(store: ObjectStore) -> None:
    held = begun(store)
    with pytest.raises(Refused, match="main"):
        held.branch("main")


@pytest.mark.parametrize("name", ["meta", "", "a/b", "A", "a.b", "-a", "a" * 65, "\N{SNOWMAN}", "a\nb"])
def test_invalid_branch_name_is_rejected(store: ObjectStore, name: str) -> None:
    held = begun(store)
    with pytest.raises(InvalidName):
        held.branch(name)


def test_switching_makes_a_branch_the_active_one(store: ObjectStore) -> None:
    held = begun(store, "one", "two")
    held.branch("side", held.history()[1])
    leaf = held.switch("side")
    assert (held.branch_name, leaf.subject) == ("side", "user: one")
    assert active_branch.active(store, held.id) == "side"
    assert session(store, held.id).branch_name == "side"


def test_switch_to_the_active_branch_moves_nothing(store: ObjectStore) -> None:
    held = begun(store)
    held.switch("main")
    before = store.refs("refs/")
    held.switch("main")
    assert store.refs("refs/") == before


@pytest.mark.parametrize("name", ["nowhere", "meta"])
def test_only_a_branch_can_be_the_target_of_a_switch(store: ObjectStore, name: str) -> None:
    held = begun(store)
    with pytest.raises(NotFound) as caught:
        held.switch(name)
    assert "main" in caught.value.hint


def test_a_handle_stays_on_its_branch_when_another_switches(store: ObjectStore) -> None:
    mine = begun(store, "one")
    mine.branch("side")
    session(store, mine.id).switch("side")
    mine.append(Message.user("two"))
    assert mine.branch_name == "main"
    assert leaves(store, mine.id) == {"main": "user: two", "side": "user: one"}


def test_the_tree_shows_every_entry_of_every_branch_once(store: ObjectStore) -> None:
    clock = Clock()
    held = begun(store, "one", "two", clock=clock)
    held.branch("side", held.history()[1])
    session(store, held.id, "side", clock).append(Message.user("other"))
    shown = [(node.subject.removeprefix("user: "), depth) for node, depth in held.tree().walk()]
    assert shown[1:] == [("one", 1), ("two", 2), ("other", 2)]
    assert set(held.tree().branches) == {"main", "side"}


def test_missing_session_is_not_found(store: ObjectStore) -> None:
    with pytest.raises(NotFound):
        session(store, "20260201-aaaaaaaaaaaaa")


# ---- names


def test_label_names_an_entry_and_an_empty_one_is_removed(store: ObjectStore) -> None:
    held = begun(store, "one", "two")
    held.label("leaf", "here")
    assert labels_of(store, held.id) == {"user: two": "here"}
    held.label("leaf", "there")
    assert labels_of(store, held.id) == {"user: two": "there"}
    held.label("leaf", "")
    assert labels_of(store, held.id) == {}


def test_labels_and_titles_are_no_part_of_the_line(store: ObjectStore) -> None:
    held = begun(store, "one")
    held.label("leaf", "x")
    held.rename("T")
    assert words(held) == ["user: one"]


def test_label_on_a_branch_counts_too(store: ObjectStore) -> None:
    held = begun(store, "one")
    held.append(Label(target=to_base64url(held.history()[1].chain), label="inline"))
    held.append(Title(title="inline"))
    assert labels_of(store, held.id) == {"user: one": "inline"}
    assert title_of(store, held.id) == "inline"


def test_last_title_of_a_session_counts(store: ObjectStore) -> None:
    held = begun(store)
    assert title_of(store, held.id) is None
    held.rename("first")
    held.rename("  second\n line\x1b[31m ")
    assert title_of(store, held.id) == "second line[31m"
    held.rename("")
    assert title_of(store, held.id) is None


def test_last_title_and_label_of_one_millisecond_count(store: ObjectStore) -> None:
    held = begun(store)
    still = session(store, held.id, clock=lambda: 1_800_000_000_000)
    for number in range(20):
        still.rename(f"title {number}")
        still.label("leaf", f"label {number}")
        assert title_of(store, held.id) == f"title {number}"
        assert labels_of(store, held.id) == {"user: hi": f"label {number}"}


def test_label_of_more_than_200_characters_is_rejected(store: ObjectStore) -> None:
    held = begun(store)
    held.rename("x" * 200)
    with pytest.raises(InvalidName):
        held.rename("x" * 201)
    with pytest.raises(InvalidName):
        held.label("leaf", "x" * 201)


def test_a_session_without_entries_cannot_be_named(store: ObjectStore) -> None:
    held = sessions.StoredSession.new(store, "agent", None, Clock())
    with pytest.raises(NotFound):
        held.rename("T")
    with pytest.raises(NotFound):
        held.label("leaf", "x")
    with pytest.raises(NotFound):
        held.branch("x")


# ---- forks


def test_a_fork_shares_every_entry_before_the_fork_point(store: ObjectStore) -> None:
    held = begun(store, "one", "two", "three")
    made = fork(held, held.history()[2])
    made.append(Message.user("other"))
    assert [node.oid for node in made.history()[:3]] == [node.oid for node in held.history()[:3]]
    assert [node.kind for node in made.history()] == ["session", "message", "message", "fork", "message"]
    assert words(held) == ["user: one", "user: two", "user: three"]


def test_fork_writes_one_entry_for_any_history(store: ObjectStore) -> None:
    held = begun(store, *(f"message {number}" for number in range(60)))
    watched = Watched(store)
    here = sessions.StoredSession.open(watched, held.id, Clock())
    here.fork("leaf", agent="agent", cwd=None, title=None, labels={})
    # One commit, tree and payload are those of the fork entry; the others are those of the operation.
    assert watched.put == {"commit": 2, "tree": 2, "blob": 2}
    assert watched.reads < 10


def test_title_and_labels_travel_into_a_fork_as_they_stood(store: ObjectStore) -> None:
    held = begun(store, "one", "two")
    held.rename("Title")
    held.label(held.history()[1], "first")
    made = fork(held)
    assert title_of(store, made.id) == "Title"
    assert labels_of(store, made.id) == {"user: one": "first"}


def test_later_title_of_the_origin_does_not_change_a_fork(store: ObjectStore) -> None:
    held = begun(store, "one", "two")
    held.append(Label(target=to_base64url(held.history()[1].chain), label="inline"))
    held.rename("before")
    made = fork(held)
    held.rename("after")
    held.label(held.history()[1], "late")
    held.append(Title(title="later still"))
    assert title_of(store, made.id) == "before"
    assert labels_of(store, made.id) == {"user: one": "inline"}


def test_title_of_a_fork_does_not_change_the_origin(store: ObjectStore) -> None:
    held = begun(store, "one")
    held.rename("parent")
    made = fork(held)
    made.rename("child")
    made.label(made.history()[1], "child's")
    assert (title_of(store, held.id), labels_of(store, held.id)) == ("parent", {})
    assert (title_of(store, made.id), labels_of(store, made.id)) == ("child", {"user: one": "child's"})


def test_copied_label_can_be_removed_in_the_fork(store: ObjectStore) -> None:
    held = begun(store, "one")
    held.label("leaf", "x")
    made = fork(held)
    made.label(made.history()[1], "")
    assert labels_of(store, made.id) == {}
    assert labels_of(store, held.id) == {"user: one": "x"}


def test_meta_of_a_fork_starts_at_the_fork_entry(store: ObjectStore) -> None:
    held = begun(store, "one")
    made = fork(held)
    assert store.ref(refs.meta(made.id)) is None
    point = made.leaf
    made.append(Message.user("on"))
    made.rename("child")
    first = graph.load(store, store.ref(refs.meta(made.id)) or "")
    assert first.parent == (point.oid if point else None)


def test_fork_of_a_fork_is_a_separate_session(store: ObjectStore) -> None:
    held = begun(store, "one")
    held.rename("first")
    child = fork(held)
    child.append(Message.user("two"))
    child.rename("second")
    grandchild = fork(child)
    grandchild.rename("third")
    assert [title_of(store, each.id) for each in (held, child, grandchild)] == ["first", "second", "third"]
    entries = [grandchild.read(node) for node in grandchild.history()]
    assert [entry.session for entry in entries if isinstance(entry, Fork)] == [child.id, grandchild.id]


def test_invalid_option_is_rejected(tmp_path: Path) -> None:
    create(tmp_path / "words.git")
    with pytest.raises(ValueError, match="expected one of entry, turn, none"):
        GitStore.open(tmp_path / "words.git", durability="Entry")  # type: ignore[arg-type]
    held = begun(MemoryStore())
    with pytest.raises(ValueError, match="on_moved must be one of refuse, fork"):
        held.append(Message.user("x"), on_moved="Refuse")  # type: ignore[arg-type]


def test_a_handle_of_a_branch_that_an_undo_removed_raises_and_names_the_branches(store: ObjectStore) -> None:
    held = begun(store, "one", "two", clock=Clock())
    held.branch("side", "leaf~1")
    side = held.on("side")
    operation_log.apply_next(store, "undo", Clock()())
    for read in (side.history, side.history_with_gaps, lambda: side.leaf, lambda: side.resolve("leaf")):
        with pytest.raises(NotFound, match="has no branch 'side'") as caught:
            read()
        assert "main" in (caught.value.hint or "")
    assert words(side.on("main")) == ["user: one", "user: two"]


def test_a_handle_of_a_session_that_an_undo_removed_raises(store: ObjectStore) -> None:
    forked = fork(begun(store, "one", clock=Clock()))
    operation_log.apply_next(store, "undo", Clock()())
    with pytest.raises(NotFound, match="no longer in the store"):
        forked.history()
