"""Tests of recorded instructions: sets of files and skills as part of a session."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import Clock, assert_clean
from claude_code import SESSION, of, talk
from damage import without
from instruction_sets import PROJECT, PYTHON, USER, file, made, skill

from gitsession import Message, MissingObject, Node, NotFound, Store
from gitsession.api import Session
from gitsession.codec import payload
from gitsession.model.entries import Injection, Instructions
from gitsession.model.recorded_instructions import recorded_set, to_field

FULL = made(
    "claude", USER, PROJECT, PYTHON, skill("deploy", patterns=("/work/deploy/**",)),
    file("/work/a.md", "cut", imported_by="/work/CLAUDE.md", is_truncated=True),
)  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git", clock=Clock()) as opened:
        yield opened


@pytest.fixture
def session(store: Store) -> Session:
    session = store.new_session(agent="mine")
    session.append(Message.user("hi"))
    return session


NO_FILE = {"path": "p", "scope": "project", "content": "", "digest": ""}


def blobs_of(store: Store, oid: str) -> list[str]:
    git = ["git", "-C", str(store.objects.git_dir), "ls-tree", "-r", oid]
    rows = subprocess.run(git, check=True, capture_output=True, text=True).stdout.splitlines()
    return [row.split()[2] for row in rows if "\tblobs/" in row]


# Recording


def test_a_recorded_set_is_read_back_unchanged(session: Session) -> None:
    assert session.instructions() is None
    node = session.record_instructions(FULL)
    assert session.leaf == node
    assert session.instructions() == FULL
    assert node is not None
    assert node.subject == "instructions: 4 files, 1 skill"


def test_the_same_set_is_recorded_only_once(session: Session) -> None:
    assert session.record_instructions(FULL) is not None
    session.append(Message.assistant("hello"))
    assert session.record_instructions(FULL) is None
    assert session.record_instructions(made("claude", PROJECT)) is not None


def test_a_set_is_recorded_only_once_before_the_first_prompt(store: Store) -> None:
    session = store.new_session(agent="mine")
    assert session.record_instructions(FULL) is not None
    assert session.record_instructions(FULL) is None
    session.append(Message.user("hi"))
    assert session.instructions() == FULL
    assert session.record_instructions(FULL) is None


def test_each_entry_has_the_set_that_was_in_force_there(session: Session) -> None:
    first = session.record_instructions(made("claude", PROJECT))
    second = session.record_instructions(made("claude", USER))
    assert first is not None
    assert second is not None
    assert [session.instructions(at) for at in (session.history()[0], first, second)] == [
        None, made("claude", PROJECT), made("claude", USER),
    ]  # fmt: skip


def test_a_recorded_set_keeps_the_system_prompt(session: Session) -> None:
    session.append(Instructions(system_prompt="Be kind"))
    session.record_instructions(FULL)
    entry = session.read("leaf")
    assert isinstance(entry, Instructions)
    assert entry.system_prompt == "Be kind"
    assert recorded_set(entry) == FULL


def test_equal_content_is_one_blob_in_all_sessions(store: Store, session: Session) -> None:
    session.record_instructions(FULL)
    other = store.new_session(agent="mine")
    other.append(Message.user("hi"))
    other.record_instructions(made("codex", PROJECT))
    assert session.leaf is not None
    assert other.leaf is not None
    store.flush()
    [shared] = blobs_of(store, other.leaf.oid)
    assert shared in blobs_of(store, session.leaf.oid)
    assert len(blobs_of(store, session.leaf.oid)) == 5
    assert_clean(store.objects)


def test_secrets_in_files_are_redacted_and_the_same_set_is_still_recognized(session: Session) -> None:
    secret = made("claude", file("/work/CLAUDE.md", "token: ghp_" + "a1B2" * 9))
    assert session.record_instructions(secret) is not None
    recorded = session.instructions()
    assert recorded is not None
    assert "[redacted:" in recorded.files[0].content
    assert session.record_instructions(secret) is None


@pytest.mark.parametrize(
    ("field", "files"),
    [
        ({"agent": "claude"}, None),
        ({"AGENTS.md": "Use tabs"}, None),
        ("text", None),
        ({"agent": "a", "cwd": "/", "files": [3, {"path": "p"}, {**NO_FILE, "scope": 1}]}, ()),
        ({"agent": "a", "cwd": "/", "files": {"path": "p"}, "problems": [["a"], "b"], "skills": None}, ()),
    ],
)  # fmt: skip
def test_a_malformed_set_is_ignored(field: Any, files: Any) -> None:
    found = recorded_set(Instructions(files=field))
    assert (found and found.files) == files


def test_unknown_fields_of_a_later_release_are_ignored() -> None:
    value = to_field(made("claude", PROJECT))
    value["files"] = [{**value["files"][0], "later": 1}]
    assert recorded_set(Instructions(files=value)) == made("claude", PROJECT)


def test_entries_without_a_set_keep_their_spans() -> None:
    long = Instructions(system_prompt="x" * 65_535, files={"AGENTS.md": "x" * 100, "content": "y"})
    assert payload.spans(long, payload.encode(long, bytes(16))) == ()


# Skills


def test_a_recorded_skill_is_activated_by_name(session: Session) -> None:
    session.record_instructions(FULL)
    node = session.activate_skill("deploy")
    assert session.read(node) == Injection(rules=["deploy"], at_ms=session.read(node).at_ms)


def test_an_unknown_skill_cannot_be_activated(session: Session) -> None:
    with pytest.raises(NotFound, match="cannot activate skill 'x': the session has no such skill"):
        session.activate_skill("x")
    session.record_instructions(FULL)
    with pytest.raises(NotFound) as caught:
        session.activate_skill("x")
    assert caught.value.hint == "choose one of deploy"


# Imported sessions

START_MS = 1_769_904_000_000


@pytest.fixture
def imported(store: Store, tmp_path: Path) -> Session:
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(of(*talk("a", "b")))
    return store.session(store.import_file(path)[0].session)


def test_a_set_of_an_imported_session_is_beside_its_branch(imported: Session) -> None:
    leaf = imported.leaf
    assert imported.record_instructions(FULL, at_ms=START_MS) is not None
    assert imported.leaf == leaf
    assert imported.instructions() == FULL
    assert imported.context().instructions is not None
    assert imported.record_instructions(FULL) is None
    assert_clean(imported._opened.objects)


def test_the_agent_still_extends_its_branch_after_a_set_was_recorded(
    store: Store, imported: Session, tmp_path: Path
) -> None:
    imported.record_instructions(FULL, at_ms=START_MS)
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(of(*talk("a", "b", "c", "d")))
    store.import_file(path)
    assert list(imported.branches()) == ["main"]
    assert len(imported.history()) == 5
    assert imported.instructions() == FULL


def test_a_set_of_an_imported_session_is_in_force_from_its_time_on(imported: Session) -> None:
    first, second = imported.history()[1:]
    imported.record_instructions(made("claude", PROJECT), at_ms=first.author_seconds * 1000 + 500)
    imported.record_instructions(made("claude", USER), at_ms=second.author_seconds * 1000)
    found = [imported.instructions(at) for at in (first, second)]
    assert found == [made("claude", PROJECT), made("claude", USER)]


def test_every_clone_has_the_recorded_set(store: Store, imported: Session, tmp_path: Path) -> None:
    imported.record_instructions(FULL, at_ms=START_MS)
    expected = imported.context().digest
    store.flush()
    other, _ = Store.clone(str(store.objects.git_dir), tmp_path / "clone.git")
    with other:
        copy = other.session(imported.id)
        assert copy.instructions() == FULL
        assert copy.context().digest == expected


# Forks and sub-agents


def test_a_fork_of_an_imported_session_has_the_set_in_force_where_it_forked(imported: Session) -> None:
    first, second = imported.history()[1:]
    imported.record_instructions(made("claude", PROJECT), at_ms=first.author_seconds * 1000)
    imported.record_instructions(made("claude", USER), at_ms=second.author_seconds * 1000)
    assert imported.fork(at=first).instructions() == made("claude", PROJECT)
    fork = imported.fork()
    assert fork.instructions() == made("claude", USER)
    fork.append(Message.user("go on"))
    assert fork.instructions() == made("claude", USER)
    assert "Be brief." in str(fork.context().request("anthropic")["messages"][0])
    assert fork.fork().instructions() == made("claude", USER)
    assert_clean(imported._opened.objects)


def test_a_fork_records_its_own_sets_after_the_inherited_one(imported: Session) -> None:
    imported.record_instructions(made("claude", PROJECT), at_ms=START_MS)
    fork = imported.fork()
    assert fork.record_instructions(made("claude", PROJECT)) is None
    fork.record_instructions(made("claude", USER))
    assert fork.instructions() == made("claude", USER)
    assert imported.instructions() == made("claude", PROJECT)


def test_a_fork_keeps_its_set_after_the_older_session_was_removed(store: Store, imported: Session) -> None:
    imported.record_instructions(FULL, at_ms=START_MS)
    fork = imported.fork()
    store.trash.put(imported.id)
    assert store.session(fork.id).instructions() == FULL


def test_a_fork_without_recorded_sets_is_one_entry(imported: Session, session: Session) -> None:
    assert len(imported.fork().history()) == len(imported.history()) + 1
    session.record_instructions(FULL)
    fork = session.fork()
    assert len(fork.history()) == len(session.history()) + 1
    assert fork.instructions() == FULL


def test_undo_removes_a_fork_together_with_its_set(store: Store, imported: Session) -> None:
    imported.record_instructions(FULL, at_ms=START_MS)
    fork = imported.fork()
    store.undo()
    with pytest.raises(NotFound):
        store.session(fork.id)


@pytest.mark.parametrize("prompts", [0, 1])
def test_a_sub_agent_in_the_same_folder_has_the_set_of_its_parent(store: Store, prompts: int) -> None:
    parent = store.new_session(agent="mine", cwd="/work")
    parent.record_instructions(FULL)
    for _ in range(prompts):
        parent.append(Message.user("hi"))
    child = store.new_session(agent="mine", cwd="/work", parent=parent)
    child.append(Message.user("search"))
    assert child.instructions() == FULL
    assert child.record_instructions(FULL) is None


@pytest.mark.parametrize(("agent", "cwd"), [("other", "/work"), ("mine", "/elsewhere"), ("mine", None)])
def test_another_agent_or_folder_has_no_set_of_the_parent(store: Store, agent: str, cwd: str | None) -> None:
    parent = store.new_session(agent="mine", cwd="/work")
    parent.append(Message.user("hi"))
    parent.append(Instructions(system_prompt="Be kind"))
    parent.record_instructions(FULL)
    child = store.new_session(agent=agent, cwd=cwd, parent=parent)
    child.append(Message.user("search"))
    assert child.instructions() is None


# Damage


@pytest.fixture
def copy_without(store: Store, tmp_path: Path) -> Iterator[Callable[..., Store]]:
    """Return a function that clones the store and deletes an entry, before or after the catalog is built."""
    with contextlib.ExitStack() as opened:

        def damaged(lost: Node | None, *, is_known: bool = False) -> Store:
            assert lost is not None
            store.flush()
            path = tmp_path / "damaged.git"
            subprocess.run(["git", "clone", "-q", "--mirror", store.objects.git_dir, path], check=True)
            if is_known:
                with Store.open(path) as whole:
                    whole.sessions()
            without(path, lost.oid)
            return opened.enter_context(Store.open(path))

        yield damaged


def test_a_session_forks_without_its_set_if_that_cannot_be_read(
    imported: Session, copy_without: Callable[..., Store]
) -> None:
    copy = copy_without(imported.record_instructions(FULL, at_ms=START_MS), is_known=True).session(imported.id)
    with pytest.raises(MissingObject):
        copy.instructions()
    assert len(copy.fork().history()) == len(imported.history()) + 1


def test_a_session_forks_without_its_set_if_its_history_has_a_gap(
    imported: Session, copy_without: Callable[..., Store]
) -> None:
    imported.record_instructions(FULL, at_ms=START_MS)
    fork = copy_without(imported.history()[1]).session(imported.id).fork()
    assert fork.leaf is not None
    assert fork.leaf.kind == "fork"


def test_a_damaged_parent_starts_a_session_without_its_set(store: Store, copy_without: Callable[..., Store]) -> None:
    parent = store.new_session(agent="mine", cwd="/work")
    parent.append(Message.user("hi"))
    recorded = parent.record_instructions(FULL)
    parent.append(Message.user("go on"))
    copy = copy_without(recorded)
    child = copy.new_session(agent="mine", cwd="/work", parent=copy.session(parent.id))
    child.append(Message.user("search"))
    assert child.instructions() is None
