"""Import of side files: files that an agent keeps beside a session file are stored with the session."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import stat
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import claude_code
import codex_files
import pytest
from commands import Run, document, here, run

from gitsession import durable
from gitsession.api import Store
from gitsession.discovery import side_files as discovery
from gitsession.exporting import resume
from gitsession.formats.claude.agent import Claude
from gitsession.sessions.attached_files import SessionAttachments

__all__ = ["here", "run"]

ID = claude_code.SESSION
OTHER = "99999999-9999-4999-8999-999999999999"
PROJECT = "projects/-work-p"
TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ012345"


class Home:
    """The folder of Claude Code, with one session."""

    def __init__(self, path: Path) -> None:
        self.path = path / ".claude"
        self.file = self.put(f"{PROJECT}/{ID}.jsonl", b"".join(line + b"\n" for line in claude_code.talk("a", "b")))

    def put(self, name: str, data: bytes) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def history(self, *prompts: tuple[str, str], pasted: Mapping[str, Any] = {}) -> None:
        lines = [
            {"display": text, "pastedContents": pasted, "timestamp": at, "project": "/work/p", "sessionId": id}
            for at, (id, text) in enumerate(prompts)
        ]
        self.put("history.jsonl", b"".join(json.dumps(line).encode() + b"\n" for line in lines))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("GITSESSION_DIR", str(tmp_path / "store.git"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    return Home(tmp_path)


def sid(run: Run) -> str:
    [row] = document(run("ls", "--json"))["sessions"]
    return str(row["session"])


def stored(tmp_path: Path) -> dict[str, list[bytes]]:
    """Return the stored contents of each side file, the oldest first."""
    with Store.open(tmp_path / "store.git") as store:
        [row] = store.sessions()
        attachments = SessionAttachments(store.objects, row.sid)
        return {name: attachments.lines(name) for name in sorted(attachments.nodes)}


def test_the_side_files_of_a_session_are_stored(home: Home, run: Run, tmp_path: Path) -> None:
    """Tool results, tasks, todos, plans, memory, prompts and pasted texts of the session are stored."""
    lines = [json.loads(line) for line in home.file.read_bytes().splitlines()]
    lines[-1]["slug"] = "brave-red-fox"
    home.file.write_bytes(b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines))
    hash = "0123456789abcdef"
    files = {
        f"{PROJECT}/{ID}/tool-results/toolu_1.txt": b"the whole output",
        f"{PROJECT}/memory/MEMORY.md": b"# Memory",
        f"tasks/{ID}/1.json": b'{"subject": "count"}',
        f"tasks/{ID}/.highwatermark": b"1",
        f"todos/{ID}-agent-{ID}.json": b"[]",
        "plans/brave-red-fox.md": b"# Plan",
        f"paste-cache/{hash}.txt": b"a long text",
    }
    for name, data in files.items():
        home.put(name, data)
    home.history((ID, "a"), (OTHER, "not mine"), pasted={"1": {"id": 1, "type": "text", "contentHash": hash}})
    run("import", "--all")
    found = stored(tmp_path)
    assert {name: data[0] for name, data in found.items() if name != "history.jsonl"} == files
    [line] = found["history.jsonl"]
    assert json.loads(line)["display"] == "a"
    run("verify")


def test_files_of_other_sessions_are_not_stored(home: Home, run: Run, tmp_path: Path) -> None:
    for name in (f"{PROJECT}/{OTHER}/tool-results/x.txt", f"tasks/{OTHER}/1.json", f"todos/{OTHER}-agent-{OTHER}.json",
                 "plans/other.md", "paste-cache/0123456789abcdef.txt", "projects/-work-q/memory/MEMORY.md",
                 f"session-env/{ID}/a.sh", "shell-snapshots/snapshot-bash-1.sh", ".credentials.json"):  # fmt: skip
        home.put(name, b"{}")
    home.history((OTHER, "b"))
    run("import", "--all")
    assert stored(tmp_path) == {}


def test_an_unchanged_side_file_is_not_read_again(
    home: Home, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.put(f"tasks/{ID}/1.json", b"{}")
    run("import", "--all")
    before = stored(tmp_path)
    read: list[str] = []
    monkeypatch.setattr(discovery, "_read", lambda path, most: read.append(path) or b"")
    assert document(run("import", "--all", "--json"))["sessions"] == []
    assert not [path for path in read if not path.endswith("history.jsonl")]
    home.file.write_bytes(home.file.read_bytes() + claude_code.talk("a", "b", "c")[-1] + b"\n")
    run("import", "--all")
    assert not [path for path in read if not path.endswith("history.jsonl")]
    assert stored(tmp_path) == before


def test_each_new_state_of_a_side_file_is_stored_once(home: Home, run: Run, tmp_path: Path) -> None:
    """A changed file stores its new state, an older state that returns too, and a touched file stores nothing."""
    name = f"tasks/{ID}/1.json"
    path = home.put(name, b"one")
    for at, data in enumerate((b"one", b"two", b"two", b"one"), 1):
        path.write_bytes(data)
        os.utime(path, (at, at))
        run("import", "--all")
    assert stored(tmp_path)[name] == [b"one", b"two", b"one"]
    path.unlink()
    run("import", "--all")
    assert stored(tmp_path)[name] == [b"one", b"two", b"one"]


def test_new_prompts_of_the_history_are_stored_without_the_earlier_ones(home: Home, run: Run, tmp_path: Path) -> None:
    home.history((ID, "a"))
    run("import", "--all")
    home.history((ID, "a"), (OTHER, "x"), (ID, "b"))
    run("import", "--all")
    assert [json.loads(line)["display"] for line in stored(tmp_path)["history.jsonl"]] == ["a", "b"]


def test_secrets_in_side_files_are_redacted(home: Home, run: Run, tmp_path: Path) -> None:
    name = f"{PROJECT}/{ID}/tool-results/1.txt"
    home.put(name, f"token {TOKEN}\n".encode())
    run("import", "--all")
    [data] = stored(tmp_path)[name]
    assert TOKEN.encode() not in data and b"token " in data


def test_links_are_not_followed(home: Home, run: Run, tmp_path: Path) -> None:
    """Neither a link to a file nor a link to a folder is followed."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/1.json").write_bytes(b"outside")
    (home.path / "tasks").mkdir(parents=True)
    (home.path / f"tasks/{ID}").symlink_to(tmp_path / "outside")
    (home.path / PROJECT / "memory").mkdir()
    (home.path / PROJECT / "memory/MEMORY.md").symlink_to(tmp_path / "outside/1.json")
    run("import", "--all")
    assert stored(tmp_path) == {}


def test_a_side_file_that_is_too_large_is_reported_by_name(
    home: Home, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "FILE_BYTES_MAX", 10)
    home.put(f"tasks/{ID}/1.json", b"small")
    home.put(f"tasks/{ID}/2.json", b"x" * 11)
    [done] = document(run("import", "--all", "--json"))["sessions"]
    assert [problem["what"] for problem in done["problems"]] == [
        f"cannot store side file 'tasks/{ID}/2.json': the file is too large: 11 bytes (limit: 10)"
    ]
    assert list(stored(tmp_path)) == [f"tasks/{ID}/1.json"]


def test_a_side_file_whose_name_is_not_valid_unicode_is_reported_by_name(home: Home, run: Run, tmp_path: Path) -> None:
    home.put(f"tasks/{ID}/1.json", b"named")
    home.put(f"tasks/{ID}/{os.fsdecode(bytes([0xE9, 10]))}.json", b"not named")
    for _ in range(2):
        [done] = document(run("import", "--all", "--json"))["sessions"]
        assert [problem["what"] for problem in done["problems"]] == [
            f"cannot store side file 'tasks/{ID}/\\xe9\\n.json': its name is not valid UTF-8"
        ]
    assert list(stored(tmp_path)) == [f"tasks/{ID}/1.json"]


def test_a_side_file_that_changes_alone_is_stored_without_a_new_entry(home: Home, run: Run, tmp_path: Path) -> None:
    home.put(f"{PROJECT}/memory/MEMORY.md", b"one")
    run("import", "--all")
    home.put(f"{PROJECT}/memory/MEMORY.md", b"another")
    [done] = document(run("import", "--all", "--json"))["sessions"]
    assert (done["new"], done["side_files"]) == (0, [f"{PROJECT}/memory/MEMORY.md"])
    assert stored(tmp_path)[f"{PROJECT}/memory/MEMORY.md"] == [b"one", b"another"]


def test_undo_removes_the_side_files_with_the_session(home: Home, run: Run, tmp_path: Path) -> None:
    home.put(f"tasks/{ID}/1.json", b"{}")
    run("import", "--all")
    run("undo", "--any")
    with Store.open(tmp_path / "store.git") as store:
        assert store.sessions() == []
    run("import", "--all")
    assert list(stored(tmp_path)) == [f"tasks/{ID}/1.json"]


def test_search_finds_the_text_of_a_side_file_and_names_it(home: Home, run: Run) -> None:
    """Find only the newest state of a file, and every prompt of the history."""
    name = f"{PROJECT}/{ID}/tool-results/1.txt"
    home.put(name, b"first\nthe zebra is here\nlast\n")
    home.history((ID, "count the giraffes"))
    run("import", "--all")
    [hit] = document(run("search", "zebra", "--json"))["hits"]
    assert (hit["role"], hit["side_file"], hit["line"]) == ("side-file", name, "the zebra is here")
    assert name in run("search", "zebra")
    assert (
        document(run("search", "giraffes", "--role", "side-file", "--json"))["hits"][0]["side_file"] == "history.jsonl"
    )
    home.put(name, b"the hippo is here instead\n")
    run("import", "--all")
    run("search", "zebra", code=1)
    assert len(document(run("search", "hippo", "--json"))["hits"]) == 1


def test_show_lists_and_prints_side_files(home: Home, run: Run) -> None:
    home.put(f"tasks/{ID}/1.json", b"{}")
    home.put("tasks/x", b"")
    home.history((ID, "a"), (ID, "b"))
    run("import", "--all")
    files = document(run("show", "--side-files", "--json", sid(run)))["files"]
    assert [(file["name"], file["states"]) for file in files] == [("history.jsonl", 1), (f"tasks/{ID}/1.json", 1)]
    assert "history.jsonl" in run("show", "--side-files", sid(run))
    assert [
        json.loads(line)["display"] for line in run("show", sid(run), "--side-file", "history.jsonl").splitlines()
    ] == ["a", "b"]
    assert "no such side file" in run("show", sid(run), "--side-file", "x", code=3, err=True)
    assert run("show", sid(run), "--side-file", "1.json") == "{}"
    home.put(f"{PROJECT}/{ID}/tool-results/1.json", b"[]")
    run("import", "--all")
    assert "matches 2 side files" in run("show", sid(run), "--side-file", "1.json", code=3, err=True)
    assert run("show", sid(run), "--side-file", "tool-results/1.json") == "[]"


def test_resume_gives_the_side_files_back_after_the_agent_deleted_them(home: Home, run: Run, here: Path) -> None:
    """The files are written for the current folder, with their mode. Other sessions' prompts are kept."""
    files = {
        f"{PROJECT}/{ID}/tool-results/toolu_1.txt": b"the whole output",
        f"{PROJECT}/memory/MEMORY.md": b"# Memory",
        f"tasks/{ID}/1.json": b"{}",
        f"todos/{ID}-agent-{ID}.json": b"[]",
        f"file-history/{ID}/0123456789abcdef@v1": b"#!/bin/sh",
    }
    for name, data in files.items():
        home.put(name, data)
    (home.path / f"file-history/{ID}/0123456789abcdef@v1").chmod(0o755)
    home.history((ID, "a"), (OTHER, "x"), (ID, "b"))
    prompts = (home.path / "history.jsonl").read_bytes().splitlines(keepends=True)
    run("import", "--all")
    shutil.rmtree(home.path)
    home.put("history.jsonl", prompts[1])
    run("resume", sid(run))
    project = f"projects/{re.sub('[^A-Za-z0-9]', '-', str(here))}"
    for name, data in files.items():
        path = home.path / name.replace(PROJECT, project)
        assert path.read_bytes() == data
        is_backup = name.startswith("file-history")
        assert bool(path.stat().st_mode & stat.S_IXUSR) == is_backup
        assert (path.stat().st_mtime == datetime.fromisoformat(claude_code.START).timestamp() + 1) == is_backup
    assert (home.path / "history.jsonl").read_bytes() == prompts[1] + prompts[0] + prompts[2]
    assert document(run("resume", sid(run), "--json"))["kept"] == []
    assert (home.path / "history.jsonl").read_bytes() == prompts[1] + prompts[0] + prompts[2]


def test_resume_keeps_a_side_file_that_differs_and_names_it(home: Home, run: Run) -> None:
    path = home.put(f"tasks/{ID}/1.json", b"one")
    run("import", "--all")
    path.write_bytes(b"another")
    said = run("resume", sid(run), err=True)
    assert f"kept: {path} differs" in said and path.read_bytes() == b"another"
    assert document(run("resume", sid(run), "--json"))["kept"] == [str(path)]


def test_resume_on_a_full_disk_names_the_file_and_completes_later(
    home: Home, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = home.put(f"{PROJECT}/memory/MEMORY.md", b"# Memory")
    home.put(f"tasks/{ID}/1.json", b"{}")
    run("import", "--all")
    shutil.rmtree(home.path)

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(durable, "write_all", fail)
        error = run("resume", sid(run), code=75, err=True)
    assert re.search(r"error: cannot .* '.*/\.claude/.*': No space left on device", error)
    assert [path for path in home.path.rglob("*") if path.is_file()] == []
    run("resume", sid(run))
    assert (home.path / f"tasks/{ID}/1.json").read_bytes() == b"{}"
    assert not file.exists()  # the project is another one here


def test_resume_writes_no_side_file_through_a_link_out_of_the_folder(home: Home, run: Run, tmp_path: Path) -> None:
    path = home.put(f"tasks/{ID}/1.json", b"{}")
    run("import", "--all")
    (tmp_path / "outside").mkdir()
    shutil.rmtree(path.parent)
    path.parent.symlink_to(tmp_path / "outside")
    assert document(run("resume", sid(run), "--json"))["kept"] == [str(path)]
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.parametrize("name", ["tasks/x/a\0b", "projects/p/i/../x.jsonl", "plans/.."])
def test_a_hostile_name_of_a_side_file_leads_nowhere(tmp_path: Path, name: str) -> None:
    assert not resume._is_inside(tmp_path, name)


def test_a_purge_removes_the_text_from_side_files_for_good(home: Home, run: Run, tmp_path: Path) -> None:
    """A purged side file is not stored again by the next import."""
    name = f"tasks/{ID}/1.json"
    home.put(name, b'{"subject": "the walrus"}')
    home.put(f"tasks/{ID}/2.json", b"{}")
    home.history((ID, "ask the walrus"), (ID, "b"))
    run("import", "--all")
    run("purge", "--match", "walrus", "--yes")
    assert sorted(stored(tmp_path)) == ["history.jsonl", f"tasks/{ID}/2.json"]
    run("verify")
    home.file.write_bytes(home.file.read_bytes() + claude_code.talk("a", "b", "c")[-1] + b"\n")
    run("import", "--all")
    assert sorted(stored(tmp_path)) == ["history.jsonl", f"tasks/{ID}/2.json"]
    assert [json.loads(line)["display"] for line in stored(tmp_path)["history.jsonl"]] == ["b"]


def test_the_side_files_of_a_codex_thread_are_stored_and_given_back(home: Home, run: Run, tmp_path: Path) -> None:
    """Prompts, names and generated images of the thread are stored, and not those of other threads."""
    home.file.unlink()
    codex, thread = tmp_path / ".codex", codex_files.THREAD
    rollout = codex / f"sessions/2026/01/02/rollout-2026-01-02T03-04-05-{thread}.jsonl"
    lines = {
        "history.jsonl": [{"session_id": id, "ts": 1, "text": f"ask {id}"} for id in (thread, OTHER)],
        "session_index.jsonl": [
            {"id": id, "thread_name": f"name of {id}", "updated_at": "t"} for id in (OTHER, thread)
        ],
    }
    image = codex / f"generated_images/{thread}/call_1.png"
    for path in (rollout, image, codex / f"generated_images/{OTHER}/call_2.png"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\x89PNG\r\n\x1a\n\0")
    rollout.write_bytes(codex_files.rollout(codex_files.user("hi"), codex_files.assistant("hello")))
    for name, values in lines.items():
        (codex / name).write_bytes(b"".join(json.dumps(value).encode() + b"\n" for value in values))
    run("import", "--all")
    found = stored(tmp_path)
    assert {name: [json.loads(line) for line in found[name]] for name in lines} == {
        "history.jsonl": [lines["history.jsonl"][0]],
        "session_index.jsonl": [lines["session_index.jsonl"][1]],
    }
    assert sorted(found) == [f"generated_images/{thread}/call_1.png", *sorted(lines)]
    shutil.rmtree(codex)
    run("resume", sid(run))
    assert image.read_bytes() == b"\x89PNG\r\n\x1a\n\0"
    assert {name: [json.loads(line) for line in (codex / name).read_bytes().splitlines()] for name in lines} == {
        "history.jsonl": [lines["history.jsonl"][0]],
        "session_index.jsonl": [lines["session_index.jsonl"][1]],
    }


def test_side_files_are_not_given_to_another_agent(home: Home, run: Run, tmp_path: Path) -> None:
    """The histories of Claude Code and codex have the same name."""
    home.history((ID, "a"))
    run("import", "--all")
    run("resume", sid(run), "--in", "codex")
    assert not (tmp_path / ".codex/history.jsonl").exists()


def test_an_import_with_side_files_continues_where_the_last_one_ended(
    home: Home, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The side files move the ref of meta, but the next import still parses only the new lines."""
    home.put(f"tasks/{ID}/1.json", b"{}")
    run("import", "--all")
    home.file.write_bytes(home.file.read_bytes() + claude_code.talk("a", "b", "c")[-1] + b"\n")
    monkeypatch.setattr(Claude, "split", None)
    [done] = document(run("import", "--all", "--json"))["sessions"]
    assert (done["new"], done["problems"]) == (1, [])
