"""Tests of Claude Code's file history: after an import, rewind restores each prompt and attributes nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from builders import SHARED, assert_clean, dumps, joined
from claude_code import SESSION, assistant, call, result, user, uuid
from hypothesis import given, settings
from hypothesis import strategies as st
from rewound import fill, snapshot

from gitsession.api import Store
from gitsession.checkpoints import history, lookup
from gitsession.checkpoints.attribution import attributed
from gitsession.formats.base.file_changes import RecordedBackup, RecordedEdit
from gitsession.formats.base.record import Record, Source
from gitsession.formats.claude.agent import claude
from gitsession.importing import file_history
from gitsession.workspace.trees import CachedTrees

COPY = "0123456789abcdef@v"


class Agent:
    """A simulated Claude Code that works in ``work`` and writes its session file and file history."""

    def __init__(self, home: Path, work: Path) -> None:
        self.work = work
        self.file = home / ".claude/projects/-work" / f"{SESSION}.jsonl"
        self.copies = home / ".claude/file-history" / SESSION
        self.file.parent.mkdir(parents=True)
        self.copies.mkdir(parents=True)
        self.lines: list[bytes] = []
        self.tracked: dict[str, Any] = {}
        self.parent: str | None = None
        self.at = 0

    def prompt(self, id: str) -> None:
        self._say(user(id, self.parent, at=self._now()), id)
        self.asked = id
        for path in self.tracked:
            self.tracked[path] = self._backed_up(path)
        self._noted(id, added=False)

    def write(self, id: str, path: str, content: str, **fields: Any) -> None:
        was = self._text(path)
        words = {"type": "create" if was is None else "update", "content": content, "originalFile": was}
        self._call(id, "Write", path, content, words | fields)

    def edit(self, id: str, path: str, old: str, new: str, **fields: Any) -> None:
        was = self._text(path) or ""
        words = {"oldString": old, "newString": new, "originalFile": was, "replaceAll": False}
        self._call(id, "Edit", path, was.replace(old, new), words | fields)

    def shell(self, id: str, do: Callable[[], object]) -> None:
        """Run a command that changes files. Claude Code does not record such changes."""
        self._say(assistant(id, self.parent, call(f"call_{id}"), at=self._now()), id)
        do()
        self._say(result(f"{id}r", self.parent, f"call_{id}", at=self._now()), f"{id}r")

    def save(self) -> Path:
        self.file.write_bytes(joined(*self.lines))
        return self.file

    def _call(self, id: str, name: str, path: str, became: str, words: Mapping[str, Any]) -> None:
        file = str(self.work / path)
        self._say(assistant(id, self.parent, call(f"call_{id}", name), at=self._now()), id)
        if path not in self.tracked:
            self.tracked[path] = self._backed_up(path)
            self._noted(id, added=True)
        is_crlf = (self.work / path).is_file() and b"\r\n" in (self.work / path).read_bytes()
        (self.work / path).parent.mkdir(parents=True, exist_ok=True)
        (self.work / path).write_bytes(became.replace("\n", "\r\n" if is_crlf else "\n").encode())
        found = {"filePath": file, "userModified": False, **words}
        self._say(
            result(f"{id}r", self.parent, f"call_{id}", at=self._now(), toolUseResult=found,
                   sourceToolAssistantUUID=uuid(id)),
            f"{id}r",
        )  # fmt: skip

    def _text(self, path: str) -> str | None:
        file = self.work / path
        return file.read_bytes().decode().replace("\r\n", "\n") if file.is_file() else None

    def _backed_up(self, path: str) -> dict[str, Any]:
        number = len(list(self.copies.iterdir())) + 1
        name = None
        if (self.work / path).is_file():
            name = f"{COPY}{number}"
            (self.copies / name).write_bytes((self.work / path).read_bytes())
            (self.copies / name).chmod((self.work / path).stat().st_mode & 0o777)
        return {"backupFileName": name, "version": number, "backupTime": self._time()}

    def _noted(self, id: str, *, added: bool) -> None:
        listed = {"messageId": uuid(self.asked), "trackedFileBackups": dict(self.tracked), "timestamp": self._time()}
        said = {"type": "file-history-snapshot", "messageId": uuid(id), "snapshot": listed, "isSnapshotUpdate": added}
        self.lines.append(dumps(said))

    def _say(self, said: bytes, id: str) -> None:
        self.lines.append(said.replace(b'"cwd":"/work"', b'"cwd":%s' % dumps(str(self.work))))
        self.parent = id

    def _now(self) -> int:
        self.at += 1
        return self.at

    def _time(self) -> str:
        return f"2026-02-01T{self.at // 3600:02}:{self.at // 60 % 60:02}:{self.at % 60:02}.500Z"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return fill(tmp_path / "work", {"a.txt": "one\n", "notes.md": "mine\n"})


@pytest.fixture
def agent(tmp_path: Path, work: Path) -> Agent:
    return Agent(tmp_path / "home", work)


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with Store.create(tmp_path / "store.git") as store:
        yield store


def oids(store: Store, sid: str) -> list[str]:
    return [point.oid for point in history.history(store.objects, sid)]


def claimed(store: Store, sid: str) -> list[set[str]]:
    """Return the paths that the session changed at each checkpoint."""
    steps = lookup.steps(CachedTrees(store.objects), history.history(store.objects, sid))
    return [set(paths) for paths in attributed(steps)]


def prompt_of(session: Any, id: str) -> Any:
    return next(node for node in session.history() if node.source is not None and node.source.id == uuid(id))


def brought(store: Store, agent: Agent) -> Any:
    [done] = store.import_file(agent.save())
    return store.session(done.session)


def worked(agent: Agent) -> dict[str, dict[bytes, Any]]:
    """Run three prompts and return the state of the workspace at each."""
    was = {}
    (agent.work / "run.sh").write_text("echo 1\n")
    (agent.work / "run.sh").chmod(0o755)
    for prompt, calls in {
        "p1": [("edit", "a.txt", "one", "two"), ("write", "src/new.txt", "new\n")],
        "p2": [("edit", "a.txt", "two", "three"), ("edit", "run.sh", "1", "2"), ("edit", "a.txt", "three", "four")],
        "p3": [("write", "a.txt", "five\n"), ("write", "src/new.txt", "newer\n")],
    }.items():
        was[prompt] = snapshot(agent.work)
        agent.prompt(prompt)
        for number, (how, *words) in enumerate(calls):
            getattr(agent, how)(f"{prompt}{number}", *words)
    return was


def test_rewind_to_each_prompt_restores_the_files(agent, store, work):
    was = worked(agent)
    session = brought(store, agent)
    for prompt in ("p3", "p2", "p1"):
        plan = session.files.plan_rewind(prompt_of(session, prompt), "files", workspace=agent.work)
        done = session.files.rewind(plan)
        assert snapshot(work) == was[prompt]
        assert done.outcomes
        store.undo()


def test_changes_of_a_shell_are_not_attributed(agent, store, work):
    agent.prompt("p1")
    agent.edit("e1", "a.txt", "one", "two")
    agent.shell("s1", lambda: (work / "a.txt").write_text("by a shell\n"))
    agent.prompt("p2")
    session = brought(store, agent)
    plan = session.files.plan_rewind(prompt_of(session, "p1"), "files", workspace=agent.work)
    assert [(change.path, change.action) for change in plan.changes] == [("a.txt", "conflict")]


def test_changes_of_the_user_between_prompts_are_not_attributed(agent, store, work):
    agent.prompt("p1")
    agent.edit("e1", "a.txt", "one", "two")
    (work / "a.txt").write_text("by the user\n")
    agent.prompt("p2")
    agent.edit("e2", "a.txt", "user", "session")
    session = brought(store, agent)
    session.files.rewind(session.files.plan_rewind(prompt_of(session, "p2"), "files", workspace=agent.work))
    assert (work / "a.txt").read_text() == "by the user\n"


def test_a_result_that_does_not_tell_all_claims_nothing(agent, store, work):
    agent.prompt("p1")
    agent.edit("e1", "a.txt", "one", "two", originalFile=None)
    agent.prompt("p2")
    session = brought(store, agent)
    assert session.files.plan_rewind(prompt_of(session, "p1"), "files", workspace=agent.work).changes == ()


def test_forced_rewind_restores_the_first_known_content(agent, store, work):
    """Claude Code had not read the file at the first prompt, so it is unknown whether the file existed."""
    agent.prompt("p1")
    agent.edit("e1", "a.txt", "one", "two")
    agent.prompt("p2")
    agent.edit("e2", "notes.md", "mine", "ours")
    (work / "notes.md").write_text("the user's\n")
    session = brought(store, agent)
    session.files.rewind(session.files.plan_rewind(prompt_of(session, "p1"), "files", workspace=agent.work, force=True))
    assert snapshot(work) == snapshot(fill(work.parent / "as it was", {"a.txt": "one\n", "notes.md": "mine\n"}))


def test_windows_line_ends_are_restored(agent, store, work):
    (work / "a.txt").write_bytes(b"one\r\nend\r\n")
    agent.prompt("p1")
    agent.edit("e1", "a.txt", "one", "two")
    session = brought(store, agent)
    session.files.rewind(session.files.plan_rewind(prompt_of(session, "p1"), "files", workspace=agent.work))
    assert (work / "a.txt").read_bytes() == b"one\r\nend\r\n"


def test_two_machines_make_the_same_checkpoints_from_one_import_or_several(agent, store, tmp_path):
    sids = set()
    with Store.create(tmp_path / "other.git") as other:
        worked(agent)
        lines = agent.lines
        for count in range(2, len(lines) + 1):
            agent.lines = lines[:count]
            [done] = other.import_file(agent.save())
            sids.add(done.session)
        session = brought(store, agent)
        assert sids == {session.id}
        assert oids(store, session.id) == oids(other, session.id)
        before = oids(store, session.id)
        brought(store, agent)
        assert oids(store, session.id) == before


def test_deleted_copies_do_not_stop_new_ones(agent, store, work):
    agent.prompt("p1")
    agent.edit("e1", "a.txt", "one", "two")
    session = brought(store, agent)
    before = oids(store, session.id)
    for copy in agent.copies.iterdir():
        copy.unlink()
    agent.edit("e2", "a.txt", "two", "three")
    session = brought(store, agent)
    assert oids(store, session.id)[: len(before)] == before
    session.files.rewind(session.files.plan_rewind(prompt_of(session, "p1"), "files", workspace=agent.work))
    assert (work / "a.txt").read_text() == "one\n"


def test_nothing_is_attributed_without_the_copies(agent, store):
    worked(agent)
    for copy in agent.copies.iterdir():
        copy.unlink()
    agent.copies.rmdir()
    assert oids(store, brought(store, agent).id) == []


def test_nothing_is_added_after_an_own_checkpoint(agent, store, work):
    agent.prompt("p1")
    session = brought(store, agent)
    session.files.take_checkpoint("before", workspace=work)
    before = oids(store, session.id)
    agent.edit("e1", "a.txt", "one", "two")
    assert oids(store, brought(store, agent).id) == before


@pytest.mark.parametrize("damage", ["gone", "link", "pipe", "folder", "huge"])
def test_a_copy_that_cannot_be_read_claims_nothing(agent, store, work, tmp_path, damage):
    agent.prompt("p1")
    agent.edit("e1", "a.txt", "one", "two", originalFile=None)
    agent.edit("e2", "notes.md", "mine", "ours")
    copy = agent.copies / f"{COPY}1"
    copy.unlink()
    if damage == "link":
        (tmp_path / "secret").write_text("secret\n")
        copy.symlink_to(tmp_path / "secret")
    elif damage == "pipe":
        os.mkfifo(copy)
    elif damage == "folder":
        copy.mkdir()
    elif damage == "huge":
        with copy.open("wb") as file:
            file.truncate(20 << 20)
    session = brought(store, agent)
    assert set().union(*claimed(store, session.id)) == {"notes.md"}
    assert set(session.files.at("leaf")) == {"notes.md"}


@pytest.mark.parametrize(
    "name", ["../../../../secret", "/etc/passwd", "..", "", "0123456789abcdef@v1/../x", "0123456789ABCDEF@v1", 7, []]
)
def test_file_with_another_name_than_a_copy_is_not_read(agent, store, tmp_path, name):
    (tmp_path / "secret").write_text("secret\n")
    agent.prompt("p1")
    agent.tracked["a.txt"] = {"backupFileName": name, "version": 1, "backupTime": agent._time()}
    agent._noted("p1", added=True)
    assert oids(store, brought(store, agent).id) == []


@pytest.mark.parametrize(
    "path", ["../x", "/etc/x", "a/../../x", "", ".", ".git/config", "a\0b", "a/" * 80 + "x", "\ud800", "x" * 300]
)
def test_a_path_that_leads_elsewhere_is_left_out(agent, store, path):
    agent.prompt("p1")
    agent.tracked[path] = {"backupFileName": None, "version": 1, "backupTime": agent._time()}
    agent._noted("p1", added=True)
    assert oids(store, brought(store, agent).id) == []


def test_undone_import_leaves_a_valid_store_and_can_be_repeated(agent, store):
    worked(agent)
    session = brought(store, agent)
    before = oids(store, session.id)
    store.undo()
    assert_clean(store.objects)
    assert oids(store, brought(store, agent).id) == before


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
names = st.sampled_from(
    ["type", "snapshot", "trackedFileBackups", "backupFileName", "toolUseResult", "filePath", "originalFile",
     "content", "oldString", "newString", "structuredPatch", "newStart", "lines", "isSnapshotUpdate", "a.txt"]
)  # fmt: skip
odd = st.recursive(
    json_values | st.just("file-history-snapshot"),
    lambda inner: st.dictionaries(names, inner, max_size=5) | st.lists(inner, max_size=3),
    max_leaves=20,
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.dictionaries(names, odd, max_size=6), max_size=5))
def test_no_content_of_a_line_raises(lines):
    payload = b"\n".join(dumps({"toolUseResult": None, **said}) for said in lines)
    source = Source(agent="claude", source_id="s", started_ms=0, records=(Record(1, payload),))
    for noted in claude.file_changes(source):
        assert isinstance(noted, RecordedBackup | RecordedEdit)
        if isinstance(noted, RecordedEdit):
            file_history.contents(noted, b"a\r\nb")


PUBLISHED = SHARED / "sessions/claude/generated/projects"


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="no sessions at hand")
def test_real_session_has_its_recorded_changes(store):
    [path] = PUBLISHED.glob("*/ceb69f54*.jsonl")
    [done] = store.import_file(path)
    changed = [paths for paths in claimed(store, done.session) if paths]
    assert changed == [{"app.py"}, {"README.md"}, {"app.py"}, {"app.py"}]
    assert store.session(done.session).files.at("leaf").read("app.py").endswith(b"print(fibonacci(13))\n")
