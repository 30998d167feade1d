"""Tests of ``Store.in_memory``: it behaves as a store on disk, and names the operations that need git or files."""

from __future__ import annotations

import os
import secrets
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from builders import Clock, assert_clean, nonces, pi_file, said, talk
from figures import figure
from hypothesis import given, settings
from hypothesis import strategies as st

from gitsession import GitSessionError, Message, NotFound, Session, Store, Unavailable

LONG = "word after word, " * 40


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.in_memory(clock=Clock()) as opened:
        yield opened


def begin(store: Store, *prompts: str) -> Session:
    session = store.new_session(agent="pi", cwd="/work")
    for text in prompts:
        session.append(Message.user(text))
        session.append(Message.assistant(f"answer to {text}"))
    return session


# ---- the same results as on disk


class Pair:
    """Two stores to which the same operations are applied, with the same times and nonces."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.stores = Store.in_memory(clock=Clock()), Store.create(self.folder / "store.git", clock=Clock())
        self.step = 0

    def apply(self, operation: Callable[[Store, int], object]) -> None:
        self.step += 1
        results = [self._result(store, operation) for store in self.stores]
        assert results[0] == results[1]

    def _result(self, store: Store, operation: Callable[[Store, int], object]) -> object:
        random = nonces(str(self.step).encode())
        with mock.patch.object(os, "urandom", random), mock.patch.object(secrets, "token_hex", lambda _: "group"):
            try:
                return operation(store, self.step)
            except GitSessionError as error:
                return type(error), str(error)

    def check(self) -> None:
        memory, disk = map(state, self.stores)
        assert memory == disk
        assert_clean(self.stores[0].objects)


def state(store: Store) -> list[object]:
    """Return all that a program reads: rows, trees, contexts, names, states, operations, trash and archive."""
    found: list[object] = [store.operations(), store.trash.list(), store.archive.list(), store.search("word")]
    for row in store.sessions():
        session = store.session(row.sid)
        context = session.context()
        found += [row, session.tree().branches, session.names(), session.state(), session.origin()]
        found += [context.request("anthropic"), context.tokens, session.history()]
        found += [store.export(row.sid, to=to).data for to in ("jsonl", "pi", "markdown")]
    return found


def newest(store: Store) -> Session:
    rows = store.sessions()
    if not rows:
        raise NotFound("no session")
    return store.session(rows[0].sid)


def restore(store: Store) -> object:
    return [store.trash.restore(each.sid) for each in store.trash.list()]


def import_pi(store: Store, step: int) -> object:
    path = Path(tempfile.gettempdir()) / "in-memory-pi.jsonl"
    path.write_bytes(pi_file(*talk(*(f"m{number}" for number in range(1, 2 + step % 4)))))
    return [(each.session, each.moves) for each in store.import_file(path)]


def copy_lines(store: Store, step: int) -> object:
    path = Path(tempfile.gettempdir()) / "in-memory.jsonl"
    path.write_bytes(store.export(newest(store).id, to="jsonl").data)
    return [each.session for each in store.import_file(path, agent="jsonl")]


OPERATIONS: dict[str, Callable[[Store, int], object]] = {
    "begin": lambda store, step: begin(store, f"first {step}").id,
    "prompt": lambda store, step: newest(store).append(Message.user(f"prompt {step} {LONG}")),
    "answer": lambda store, step: newest(store).append(Message.assistant(f"answer {step} {LONG}")),
    "branch": lambda store, step: newest(store).branch(f"b{step}", at="leaf~1").id,
    "switch": lambda store, _: newest(store).switch("main"),
    "fork": lambda store, _: newest(store).fork("leaf").id,
    "label": lambda store, step: newest(store).label("leaf", f"label {step}"),
    "rename": lambda store, step: newest(store).rename(f"title {step}"),
    "compact": lambda store, _: newest(store).compact(keep_tokens=200, undoable=True),
    "rewind": lambda store, _: (session := newest(store)).files.rewind(session.files.plan_rewind("leaf~1")),
    "undo": lambda store, _: store.undo(),
    "redo": lambda store, _: store.redo(),
    "remove": lambda store, _: store.trash.put(newest(store).id),
    "restore": lambda store, _: restore(store),
    "archive": lambda store, _: store.archive.put(newest(store).id),
    "import": import_pi,
    "copy": copy_lines,
}


@given(st.lists(st.sampled_from(sorted(OPERATIONS)), max_size=14))
@settings(max_examples=figure(15, 200))
def test_random_operations_have_the_same_results_as_on_disk(names: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(tempfile, "tempdir", folder):
        pair = Pair(folder)
        for name in ("begin", *names):
            pair.apply(OPERATIONS[name])
        pair.check()
        for store in pair.stores:
            store.close()


@pytest.mark.parametrize("name", OPERATIONS)
def test_each_operation_has_the_same_result_as_on_disk(name: str, tmp_path: Path) -> None:
    with mock.patch.object(tempfile, "tempdir", str(tmp_path)):
        pair = Pair(str(tmp_path))
        for each in ("begin", "prompt", "answer", name, "begin", "fork", name):
            pair.apply(OPERATIONS[each])
        pair.check()
        for store in pair.stores:
            store.close()


# ---- properties of memory


def test_no_file_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made: list[str] = []
    opened = os.open

    def recorded(path: Any, flags: int, *arguments: Any, **named: Any) -> int:
        if flags & (os.O_CREAT | os.O_WRONLY | os.O_RDWR):
            made.append(os.fsdecode(path))
        return opened(path, flags, *arguments, **named)

    monkeypatch.setattr(os, "open", recorded)
    with Store.in_memory() as store:
        session = begin(store, *(f"{number} {LONG}" for number in range(5)))
        assert session.compact(keep_tokens=300) is not None
        session.fork().label("leaf", "here")
        assert len(store.search("word")) > 0
        store.undo()
        store.trash.put(session.id)
        store.trash.catalogue()
    assert (made, list(tmp_path.iterdir())) == ([], [])


def test_two_stores_share_no_data(store: Store) -> None:
    begin(store, "mine")
    with Store.in_memory() as other:
        assert other.sessions() == []
    assert len(store.sessions()) == 1


def test_content_can_be_read_after_close() -> None:
    with Store.in_memory() as store:
        session = begin(store, "kept")
    store.close()
    assert [row.first_words for row in store.sessions()] == ["kept"]
    assert len(session.context().items) == 2


def test_secrets_are_redacted(store: Store) -> None:
    token = "ghp_" + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY1zA2"
    session = begin(store, f"use {token}")
    assert not any(token.encode() in store.objects.read(oid)[1] for oid in store.objects.oids())
    assert token in store.export(session.id, to="markdown", with_secrets=True).data.decode()
    assert token not in store.export(session.id, to="html").data.decode()


def test_threads_share_a_store(store: Store) -> None:
    """Appends of threads to one session are all kept, and each thread reads its own writes from its catalog."""
    shared, failures = begin(store, "shared"), []

    def work(number: int) -> None:
        try:
            own = begin(store, f"own {number}")
            for count in range(5):
                shared.append(Message.assistant(f"{number}.{count}"))
                own.label("leaf", f"label {count}")
                assert list(own.names().labels.values()) == [f"label {count}"]
                assert own.id in {row.sid for row in store.sessions()}
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert len(store.sessions()) == 7
    texts = {node.subject for node in shared.history()}
    assert {f"assistant: {number}.{count}" for number in range(6) for count in range(5)} <= texts
    assert_clean(store.objects)


def test_follow_yields_the_entries_of_another_thread(store: Store) -> None:
    session = begin(store, "one")
    entries = store.follow(every=0.01)
    thread = threading.Thread(target=lambda: session.append(Message.user("two")))
    thread.start()
    new = next(entries)
    thread.join(60)
    assert new is not None and (new.session, new.node.subject) == (session.id, "user: two")


def test_repository_of_git_objects_can_be_read(store: Store) -> None:
    session = begin(store, "one")
    tip = session.leaf
    assert tip is not None
    walked = [str(commit.id) for commit in store.repository().walk(tip.oid)]
    assert walked == [node.oid for node in reversed(session.history())]


# ---- operations that need git or files


NEED_FILES: dict[str, Callable[[Store, Session, Path], object]] = {
    "verify": lambda store, *_: store.verify(),
    "verify of a session": lambda store, session, _: store.verify(session.id),
    "repair": lambda store, *_: store.repair(),
    "maintain": lambda store, *_: store.maintain(),
    "drain": lambda store, *_: store.drain(),
    "unfinished": lambda store, *_: store.unfinished(),
    "remotes.add": lambda store, _, folder: store.remotes.add("origin", str(folder)),
    "remotes.list": lambda store, *_: store.remotes.list(),
    "remotes.pull": lambda store, *_: store.remotes.pull(),
    "remotes.push": lambda store, *_: store.remotes.push(),
    "remotes.sync": lambda store, *_: store.remotes.sync(),
    "remotes.plan_push": lambda store, *_: store.remotes.plan_push(),
    "remotes.bundle": lambda store, _, folder: store.remotes.bundle(folder / "x.bundle"),
    "remotes.unbundle": lambda store, _, folder: store.remotes.unbundle(folder / "existing.bundle"),
    "purges.plan": lambda store, session, _: store.purges.apply(store.purges.plan(session.id)),
    "purges.settle": lambda store, *_: store.purges.settle(thorough=True),
    "secrets.redact": lambda store, session, _: store.secrets.redact(store.secrets.find().found),
    "take_checkpoint": lambda _, session, folder: session.files.take_checkpoint(workspace=folder),
    "finish_rewind": lambda _, session, folder: session.files.finish_rewind(folder),
}


@pytest.mark.parametrize("name", NEED_FILES)
def test_an_operation_that_needs_files_is_unavailable_and_changes_nothing(
    store: Store, name: str, tmp_path: Path
) -> None:
    session = begin(store, "one")
    (tmp_path / "existing.bundle").touch()
    before = dict(store.objects.refs("refs/"))
    with pytest.raises(Unavailable, match="the store is in memory") as raised:
        NEED_FILES[name](store, session, tmp_path)
    assert raised.value.hint == "use a store on disk: Store.create(path)"
    assert dict(store.objects.refs("refs/")) == before


def test_a_resumed_session_is_written_to_the_agent(store: Store, tmp_path: Path) -> None:
    session = begin(store, "one")
    plan = store.agents.resume(session.id, agent="pi", cwd=tmp_path)
    assert plan.file.read_bytes() == plan.data


def test_an_import_adds_only_new_entries(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "s1.jsonl"
    path.write_bytes(pi_file(said("a", None), said("b", "a")))
    [first] = store.import_file(path)
    path.write_bytes(pi_file(said("a", None), said("b", "a"), said("c", "b")))
    [second] = store.import_file(path)
    assert (first.session, first.new, second.new) == (second.session, 2, 1)
