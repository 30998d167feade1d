"""Tests of opencode's file history: the trees of each step are imported, and their changes attributed."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest
import real_opencode
from builders import dumps
from checkpoints import claimed, oids
from hypothesis import given, settings
from hypothesis import strategies as st
from opencode_files import tool
from opencode_steps import Agent
from rewound import fill, git_in, repository, snapshot

from gitsession.api import Store
from gitsession.checkpoints import history
from gitsession.formats.base.file_changes import RecordedRun
from gitsession.formats.opencode.agent import opencode
from gitsession.git import cat_file
from gitsession.git.objects import encode_tree
from gitsession.importing import recorded_trees
from gitsession.workspace import read_file


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return fill(tmp_path / "work", {"a.txt": "one\n", "notes.md": "mine\n", "src/old.txt": "old\r\n"})


@pytest.fixture
def agent(tmp_path: Path, work: Path) -> Agent:
    return Agent(tmp_path / "home/.local/share/opencode", work)


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with Store.create(tmp_path / "store.git") as store:
        yield store


def brought(store: Store, agent: Agent, path: Path | None = None) -> Any:
    [done] = store.import_file(path or agent.save())
    return store.session(done.session)


def left_out(store: Store, sid: str) -> dict[str, str]:
    return {path: why for point in history.history(store.objects, sid) for path, why in point.entry.skipped}


def rewind(session: Any, id: str, work: Path) -> Any:
    node = next(node for node in session.history() if node.source is not None and node.source.id == id)
    return session.files.rewind(session.files.plan_rewind(node, "files", workspace=work))


def by_shell(work: Path) -> None:
    (work / "a.txt").write_text("by a shell\n")
    (work / "src/old.txt").unlink()
    (work / "run.sh").write_text("echo\n")
    (work / "run.sh").chmod(0o755)
    (work / "link").symlink_to("a.txt")
    (work / "ä b.txt").write_bytes(b"\xff\r\n")


def worked(agent: Agent) -> dict[str, dict[bytes, Any]]:
    """Run three prompts and return the state of the folder at each."""
    was = {"u1": snapshot(agent.work)}
    agent.prompt("u1")
    agent.write("m1", "new/b.txt", "new\n")
    agent.shell("m2", lambda: by_shell(agent.work))
    (agent.work / "notes.md").write_text("mine, later\n")
    was["u2"] = snapshot(agent.work)
    agent.prompt("u2")
    agent.shell("m3", lambda: (agent.work / "a.txt").write_text("again\n"))
    agent.write("m4", "new/b.txt", "newer\n")
    was["u3"] = snapshot(agent.work)
    agent.prompt("u3")
    agent.shell("m5", lambda: (agent.work / "new/b.txt").unlink())
    return was


def test_rewind_to_each_prompt_restores_the_files_and_undo_reverts_it(agent, store, work):
    was = worked(agent)
    was["u1"][b"notes.md"] = ("file", b"mine, later\n")  # the user's change, between two prompts
    session, now = brought(store, agent), snapshot(work)
    for prompt in ("u3", "u2", "u1"):
        assert rewind(session, prompt, work).outcomes
        assert snapshot(work) == was[prompt]
        store.undo()
        assert snapshot(work) == now


def test_changes_between_steps_are_not_attributed(agent, store, work):
    agent.prompt("u1")
    agent.shell("m1", lambda: (work / "a.txt").write_text("two\n"))
    (work / "a.txt").write_text("by the user\n")
    agent.prompt("u2")
    agent.shell("m2", lambda: (work / "a.txt").write_text("three\n"))
    session = brought(store, agent)
    rewind(session, "u2", work)
    assert (work / "a.txt").read_text() == "by the user\n"
    store.undo()
    rewind(session, "u1", work)
    assert (work / "a.txt").read_text() == "three\n"  # the session did not make all of this change


def test_step_with_named_files_only_attributes_these(agent, store, work):
    agent.prompt("u1")
    agent.write("m1", "a.txt", "two\n", do=lambda: (work / "notes.md").write_text("mine, meanwhile\n"))
    session = brought(store, agent)
    assert claimed(store, session.id) == [["a.txt"]]


def test_step_without_writes_changes_nothing(agent, store, work):
    agent.prompt("u1")
    agent.step("m1", ("read", lambda: (work / "a.txt").write_text("by the user\n")))
    agent.step("m2", do=lambda: (work / "a.txt").write_text("by the user again\n"))
    assert oids(store, brought(store, agent).id) == []


def test_changes_of_a_sub_agent_belong_to_its_session(agent, store, work):
    agent.prompt("u1")
    part = tool("call_w", name="write", input={"filePath": "notes.md"})
    act = (work / "a.txt").write_text
    agent.step("m1", part, ("task", lambda: act("by it\n")), ("bash", lambda: (work / "notes.md").write_text("ours\n")))
    assert claimed(store, brought(store, agent).id) == [["notes.md"]]


def test_copied_changes_of_a_fork_are_not_attributed(agent, store, work):
    """opencode copies messages and their trees.

    If both sessions claimed the same changes, neither could undo them.
    """
    agent.prompt("u1")
    agent.shell("m1", lambda: (work / "a.txt").write_text("two\n"))
    first = brought(store, agent)
    forked_ms = agent.messages[-1]["info"]["time"]["created"] + 1
    agent.about |= {"id": "ses_two", "time": {"created": forked_ms, "updated": forked_ms}}
    agent.messages = [{**said, "info": {**said["info"], "id": f"{said['info']['id']}x"}} for said in agent.messages]
    for part in (part for said in agent.messages for part in said["parts"]):
        part["id"] += "x"
    agent.prompt("v2")
    agent.write("n2", "notes.md", "ours\n")
    store.import_file(agent.save())
    rows = [store.session(row.sid) for row in store.catalogue().sessions() if row.sid != first.id]
    assert [claimed(store, session.id) for session in rows] == [[["notes.md"]]]
    rewind(first, "u1", work)
    assert (work / "a.txt").read_text() == "one\n"


def test_a_session_in_a_folder_of_the_project_has_that_folders_files(tmp_path, store, work):
    agent = Agent(tmp_path / "data/opencode", work, folder=work / "src")
    agent.prompt("u1")
    agent.shell("m1", lambda: ((work / "a.txt").write_text("two\n"), (work / "src/old.txt").write_text("new\n")))
    session = brought(store, agent)
    assert claimed(store, session.id) == [["old.txt"]]
    rewind(session, "u1", work / "src")
    assert (work / "src/old.txt").read_bytes() == b"old\r\n"
    assert (work / "a.txt").read_text() == "two\n"


def test_two_machines_make_the_same_checkpoints_from_one_import_or_several(agent, store, tmp_path):
    worked(agent)
    with Store.create(tmp_path / "other.git") as other:
        for count in range(1, len(agent.messages) + 1):
            session = brought(other, agent, agent.save(count))
        assert brought(store, agent).id == session.id
        assert oids(store, session.id) == oids(other, session.id) != []
        before = oids(store, session.id)
        brought(store, agent)
        assert oids(store, session.id) == before


def test_older_layouts_have_the_same_result(tmp_path, agent, store, work):
    worked(agent)
    new = brought(store, agent)
    fill(shutil.rmtree(work) or work, {"a.txt": "one\n", "notes.md": "mine\n", "src/old.txt": "old\r\n"})
    older = Agent(tmp_path / "older/opencode", work, is_old=True)
    worked(older)
    with Store.create(tmp_path / "other.git") as other:
        assert oids(other, brought(other, older, older.in_folders(older.messages)).id) == oids(store, new.id)


def test_objects_of_the_projects_own_count(tmp_path, store):
    work = repository(tmp_path / "work")
    agent = Agent(tmp_path / "data/opencode", work)
    (agent.git_dir / "objects/info/alternates").write_text(f"{work}/.git/objects\n")
    agent.prompt("u1")
    agent.shell("m1", lambda: (work / "tracked.txt").write_text("two\n"))
    session = brought(store, agent)
    rewind(session, "u1", work)
    assert (work / "tracked.txt").read_text() == "tracked\n"
    assert git_in(work, "status", "--porcelain", "--", "tracked.txt") == ""


def test_trees_that_were_swept_claim_nothing_and_stop_nothing(agent, store, work):
    agent.prompt("u1")
    agent.shell("m1", lambda: (work / "a.txt").write_text("two\n"))
    session = brought(store, agent)
    before = oids(store, session.id)
    for folder in agent.git_dir.glob("objects/??"):
        shutil.rmtree(folder)
    (agent.git_dir / "index").unlink()
    agent.prompt("u2")
    agent.shell("m2", lambda: (work / "a.txt").write_text("three\n"))
    assert oids(store, brought(store, agent).id)[: len(before)] == before
    rewind(session, "u1", work)
    assert (work / "a.txt").read_text() == "one\n"


def test_nothing_is_attributed_without_the_trees(agent, store):
    worked(agent)
    shutil.rmtree(agent.data / "snapshot")
    assert oids(store, brought(store, agent).id) == []


def test_nothing_is_added_after_an_own_checkpoint(agent, store, work):
    agent.prompt("u1")
    agent.shell("m1", lambda: (work / "b.txt").write_text("b\n"))
    session = brought(store, agent, agent.save(1))
    session.files.take_checkpoint("before", workspace=work)
    before = oids(store, session.id)
    assert oids(store, brought(store, agent).id) == before


def test_previously_ignored_files_are_not_attributed(agent, store, work):
    fill(work, {".gitignore": ".env\nbuild/\n", ".env": "secret\n"})
    agent.prompt("u1")
    agent.shell("m1", lambda: (work / ".gitignore").write_text("build/\n"))
    session = brought(store, agent)
    assert claimed(store, session.id) == [[".gitignore"]]
    assert left_out(store, session.id) == {".env": "git may have ignored it before"}
    rewind(session, "u1", work)
    assert (work / ".env").read_text() == "secret\n"


def test_new_gitignore_rule_does_not_hide_created_files(agent, store, work):
    agent.prompt("u1")
    agent.shell("m1", lambda: fill(work, {".gitignore": "build/\n", "build/x": "x", "b.txt": "b\n"}))
    assert claimed(store, brought(store, agent).id) == [[".gitignore", "b.txt"]]


def test_files_of_a_former_inner_repository_are_not_attributed(agent, store, work):
    inner = repository(work / "inner")
    agent.prompt("u1")
    agent.shell("m1", lambda: shutil.rmtree(inner / ".git"))
    session = brought(store, agent)
    assert claimed(store, session.id) == []
    assert snapshot(inner)


@pytest.mark.parametrize(
    ("rule", "is_left_out"),
    [("*.txt filter=lfs -text", True), ("a.* ident", True), ("/a.txt eol=crlf", True), ("[attr]x filter=y", True),
     ("*.png filter=lfs", False), ("src/* filter=lfs", False), ("* text=auto", False), ("a.txt -filter", False)],
)  # fmt: skip
def test_file_changed_by_git_attributes_is_left_out(agent, store, work, rule, is_left_out):
    fill(work, {".gitattributes": f"# rules\n{rule}\n"})
    agent.prompt("u1")
    agent.shell("m1", lambda: (work / "a.txt").write_text("two\n"))
    session = brought(store, agent)
    assert claimed(store, session.id) == ([] if is_left_out else [["a.txt"]])


# Malicious trees


def ran(agent: Agent, after: Any) -> None:
    """Run a shell call whose tree changes from one with only ``z.txt`` to ``after``."""
    agent.prompt("u1")
    agent.say("m1", tree_of(agent, {}), after, tool("call_1"))


def tree_of(agent: Agent, rows: dict[str, tuple[str, str]]) -> str:
    return agent.object("tree", encode_tree({"z.txt": ("100644", agent.object("blob", b"z")), **rows}))


@pytest.mark.parametrize("name", ["..", ".", ".git", ".GIT", "git~1", "x" * 300, ".gitsession-1-1.tmp"])
@pytest.mark.parametrize("is_folder", [False, True])
def test_a_name_that_leads_elsewhere_is_left_out(agent, store, name, is_folder):
    blob = ("100644", agent.object("blob", b"x"))
    at_name = ("40000", agent.object("tree", encode_tree({"config": blob}))) if is_folder else blob
    ran(agent, tree_of(agent, {name: at_name, "b.txt": blob}))
    assert claimed(store, brought(store, agent).id) == [["b.txt"]]


@pytest.mark.parametrize("value", ["HEAD", "--help", "", "0" * 40, "../x", 7, None, [], "a" * 39 + "\n"])
def test_tree_with_an_invalid_name_is_not_read(agent, store, value):
    ran(agent, value)
    assert oids(store, brought(store, agent).id) == []


@pytest.mark.parametrize("damage", ["gone", "cut", "other", "huge", "pipe", "blob"])
@pytest.mark.parametrize("of", ["tree", "file"])
def test_unexpected_object_is_left_out(agent, store, work, monkeypatch, damage, of):
    monkeypatch.setattr(cat_file, "SILENCE_SECONDS_MAX", 0.3)
    agent.prompt("u1")
    agent.shell("m1", lambda: fill(work, {"b.txt": "b\n", "c.txt": "c\n"}))
    whole = agent.messages[-1]["parts"][-1]["snapshot"]
    path = agent.loose(whole if of == "tree" else agent.object("blob", b"b\n"))
    path.unlink()
    if damage == "cut":
        path.write_bytes(zlib.compress(b"blob 2\0b"))
    elif damage == "other":
        path.write_bytes(zlib.compress(b"%s 2\0x\n" % (b"tree" if of == "tree" else b"blob")))
    elif damage == "huge":
        path.write_bytes(zlib.compress(b"%s 99999999999\0b\n" % (b"tree" if of == "tree" else b"blob")))
    elif damage == "blob":
        path.write_bytes(zlib.compress(b"commit 2\0b\n"))
    elif damage == "pipe":
        os.mkfifo(path)
    session = brought(store, agent)
    assert claimed(store, session.id) == ([] if of == "tree" else [["c.txt"]])
    assert set(left_out(store, session.id)) == (set() if of == "tree" else {"b.txt"})


def test_exponentially_nested_tree_is_rejected_and_reported(agent, store, monkeypatch):
    monkeypatch.setattr(recorded_trees, "NAMES_MAX", 10_000)
    tree = agent.object("tree", encode_tree({"x": ("100644", agent.object("blob", b"x"))}))
    for _ in range(60):
        tree = agent.object("tree", encode_tree(dict.fromkeys(("a", "b", "c"), ("40000", tree))))
    ran(agent, tree)
    [done] = store.import_file(agent.save())
    assert [problem.what.partition(":")[0] for problem in done.problems] == ["cannot store the agent's file history"]
    assert done.new == 2


def test_too_large_file_is_reported_and_left_out(agent, store, work, monkeypatch):
    monkeypatch.setattr("gitsession.importing.recorded_step.USUAL", read_file.Caps(file_bytes=10))
    agent.prompt("u1")
    agent.shell("m1", lambda: fill(work, {"big": "x" * 11, "b.txt": "b\n"}))
    session = brought(store, agent)
    assert claimed(store, session.id) == [["b.txt"]]
    assert left_out(store, session.id) == {"big": "larger than 10 bytes"}


def test_programs_configured_in_the_repository_are_not_run(agent, store, work, tmp_path):
    agent.prompt("u1")
    agent.shell("m1", lambda: (work / "a.txt").write_text("two\n"))
    script = tmp_path / "run"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    script.chmod(0o755)
    with (agent.git_dir / "config").open("a") as file:
        file.write(f"[core]\nfsmonitor = {script}\nalternateRefsCommand = {script}\n[alias]\ncat-file = !{script}\n")
        file.write(f'[include]\npath = {tmp_path}/pipe\n[remote "x"]\nurl = ext::{script}\npromisor = true\n')
    os.mkfifo(tmp_path / "pipe")
    (agent.git_dir / "objects/info/alternates").write_text(f"{agent.git_dir}/objects\n/nowhere\n")
    assert claimed(store, brought(store, agent).id) == [["a.txt"]]
    assert not (tmp_path / "ran").exists()


def test_session_is_imported_without_git_with_a_note(agent, store, work, monkeypatch):
    agent.prompt("u1")
    agent.shell("m1", lambda: (work / "a.txt").write_text("two\n"))
    path = agent.save()
    monkeypatch.setenv("PATH", "/nowhere")
    [done] = store.import_file(path)
    assert done.new == 2
    assert [problem.what for problem in done.problems] == [
        "cannot store the agent's file history: git is not on the PATH"
    ]


@pytest.mark.parametrize("project", ["../../x", "", "/etc", 7, None, "a/b", "x" * 200])
def test_project_with_an_invalid_name_has_no_trees(agent, project):
    agent.prompt("u1")
    document = {"info": {**agent.about, "projectID": project}, "messages": agent.messages}
    assert opencode.copy_folders("/home/opencode", opencode.split(dumps(document), final=True)) == ()


names = st.sampled_from(
    ["snapshot", "tool", "state", "input", "filePath", "time", "end", "callID", "root", "cwd", "path"]
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["0" * 40, "bash", "edit", "/"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)
part = st.builds(
    lambda kind, rest: {**rest, "type": kind},
    st.sampled_from(["step-start", "step-finish", "tool", "patch"]),
    st.dictionaries(names, json_values, max_size=5),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(part, max_size=5), st.dictionaries(names, json_values, max_size=5))
def test_no_content_of_a_record_raises(parts, about):
    info = {"id": "m", "role": "assistant", "time": {"created": 1, "completed": 2}, **about}
    message = {"info": info, "parts": parts}
    source = opencode.split(dumps({"info": {"id": "ses_x", "projectID": "p"}, "messages": [message]}), final=True)
    assert all(isinstance(each, RecordedRun) for each in opencode.file_changes(source))
    assert all(isinstance(each, str) for each in opencode.copy_folders("/x", source))


@pytest.mark.skipif(not real_opencode.can_run(), reason="the real program is not at hand")
def test_real_opencode_is_rewound_to_each_prompt(tmp_path, store, monkeypatch):
    monkeypatch.setitem(real_opencode.CONFIG, "snapshot", True)
    monkeypatch.setitem(real_opencode.CONFIG, "permission", {"edit": "allow", "bash": "allow"})
    lab = real_opencode.Lab(tmp_path / "lab")
    repository(lab.work)
    was = snapshot(lab.work)
    title = {"needle": "You are a title generator", "step": {"text": "T"}}
    steps = [
        {"tool": "write", "args": {"filePath": "new.md", "content": "# new\n"}},
        {"tool": "bash", "args": {"command": "echo 2 > tracked.txt; rm staged.txt; echo b > b.sh", "description": "R"}},
        {"text": "First."},
        {"tool": "edit", "args": {"filePath": "new.md", "oldString": "new", "newString": "newer"}},
        {"text": "Second."},
    ]
    between = "cp -r . ../between; echo mine > mine.txt"
    run = "$OC run {} < /dev/null"
    answers = json.dumps({"rules": [title], "steps": steps})
    lab.run(run.format("One"), between, run.format("--continue Two"), answers=answers)
    now = snapshot(lab.work)
    [done] = store.import_file(lab.data / "opencode/opencode.db")
    session = store.session(done.session)
    assert claimed(store, session.id) == [["new.md"], ["b.sh", "staged.txt", "tracked.txt"], ["new.md"]], lab.said
    one, two = [node for node in session.history() if node.role == "user"]
    mine = {b"mine.txt": ("file", b"mine\n")}
    for node, expected in ((two, snapshot(tmp_path / "lab/between") | mine), (one, was | mine)):
        session.files.rewind(session.files.plan_rewind(node, "files", workspace=lab.work))
        assert snapshot(lab.work) == expected
        store.undo()
        assert snapshot(lab.work) == now
