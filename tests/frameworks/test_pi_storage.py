"""Tests of hooks/pi, the storage of programs that are built on pi, with Node and without pi.

tests/real/test_real_pi_storage.py compares it with pi's own storage.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from places import ROOT

from gitsession import Compaction, Message, Store
from gitsession.formats import FORMATS
from gitsession.store import refs

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")

MODULES = ROOT / "hooks/pi"
PROGRAM = ROOT / "tests/support/pi_storage.mjs"


@pytest.fixture(autouse=True)
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the command ``gitsession`` to the path."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "gitsession").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gitsession "$@"\n')
    (programs / "gitsession").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)


def test_modules_are_in_the_python_package() -> None:
    """The page names their folder in the package, to which the build copies them."""
    target = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert target["force-include"] == {"hooks": "gitsession/hooks"}
    page = (ROOT / "docs/how-to/keep-pi-sessions.md").read_text()
    assert "print(gitsession.__path__[0])')/hooks/pi\"" in page
    assert sorted(path.name for path in MODULES.iterdir()) == [
        "files.mjs", "lines.mjs", "rpc.mjs", "state.mjs", "storage.mjs",
    ]  # fmt: skip


def node(step: str, *words: str) -> Any:
    command = ["node", str(PROGRAM), str(MODULES), step, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def session_refs(store: Store, sid: str) -> dict[str, object]:
    return dict(store.objects.refs(refs.session(sid)))


def test_session_is_read_again_and_stored_as_an_import_of_its_file(tmp_path: Path) -> None:
    kept = node("keep")
    sid = kept["session"]
    with Store.open() as store, Store.create(tmp_path / "other.git") as other:
        assert store.verify().problems == []
        session = store.session("pi:kept")
        assert (session.id, session.names().title) == (sid, "Name")
        assert list(session.names().labels.values()) == ["start"]
        assert [node.source.id for node in session.walk("d") if node.source and len(node.source.id or "") == 1] == [
            "d", "b", "a",
        ]  # fmt: skip
        data = store.export(sid, original=True).data
        assert other.agents.import_data(FORMATS["pi"], data).session == sid
        assert session_refs(other, sid) == session_refs(store, sid)
        # pi and the context of gitsession keep the message that the compaction keeps.
        line = next(line for line in data.splitlines() if b'"compaction"' in line)
        assert json.loads(line)["firstKeptEntryId"] == "b"
        summary, message = session.context("d", profile="pi").messages
        assert isinstance(summary, Compaction) and summary.summary == "s"
        assert isinstance(message, Message) and message.text.endswith("\U00010000")
    again = node("read", sid)
    assert [entry["id"] for entry in again.pop("entries")] == ["a", "b", "c", "d", "e"]
    entries = kept["content"].pop("entries")
    assert entries[3]["retainedTail"] == [entries[1]["message"]] and "firstKeptEntryId" not in entries[3]
    kept["content"]["stats"]["messageCount"] += 1
    assert again == kept["content"]


def test_context_continues_at_the_entry_to_which_the_program_has_moved() -> None:
    """The commit of ``keep`` before the last one moves the branch back to the first entry."""
    sid = node("keep")["session"]
    with Store.open() as store:
        session = store.session(sid)
        last = next(node for node in session.walk("e") if node.source and node.source.id == "e")
        messages = session.context(last).messages
        assert [each.text for each in messages if isinstance(each, Message)] == ["words of a", "words of e"]


def test_second_program_is_refused_until_it_has_read_the_session_again() -> None:
    found = node("race")
    assert "it has 2 lines instead of 1, because another program appended to it" in found["message"]
    assert [entry["id"] for entry in node("read", found["session"])["entries"]] == ["a", "b"]


def test_killed_server_is_reported_by_its_name_and_loses_nothing() -> None:
    found = node("kill")
    assert found["message"] == f"'gitsession rpc' (process {found['pid']}) was killed by SIGKILL"
    assert found["absent"].startswith("cannot start 'gitsession-that-is-not-installed': ")
    assert [entry["id"] for entry in node("read", found["session"])["entries"]][:1] == ["a"]


def test_entry_that_is_too_large_is_refused_and_the_next_one_is_stored() -> None:
    found = node("large")
    assert found == {"error": "Malformed: a request of lines.append is too large", "length": 20 << 20}


def test_killed_program_loses_no_answered_commit() -> None:
    command = ["node", str(PROGRAM), str(MODULES), "forever"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        sid, *said = [program.stdout.readline().strip() for _ in range(12)]
        program.kill()
        said += program.stdout.read().split()
    found = node("read", sid)
    ids = [entry["id"] for entry in found["entries"]]
    assert ids[: len(said)] == said and len(ids) <= len(said) + 1
    assert found["values"][0]["value"] == ids[-1]
    with Store.open() as store:
        assert store.verify().problems == []


def test_files_of_pi_are_sessions_of_the_store() -> None:
    node("files")
    with Store.open() as store:
        assert store.sessions() == []
        assert len(store.trash.list()) == 1


def test_session_that_is_no_file_of_pi_hides_no_other_one() -> None:
    header = {"type": "session", "version": 3, "timestamp": "2026-02-01T00:00:00.000Z"}
    with Store.open() as store:
        store.keyed_session("x", agent="pi").append(Message.user("not in a file of pi"))
        for id, cwd in (("a", "/work"), ("b", 5), ("c", {})):
            data = json.dumps({**header, "id": id, "cwd": cwd}).encode() + b"\n"
            store.agents.import_data(FORMATS["pi"], data)
    found = node("list")
    assert "a" in found["ids"] and found["folders"] == ["--work--"]


def test_session_of_pis_program_is_opened_with_its_names_and_branches() -> None:
    """Lines that pi itself wrote become entries, and the branch main ends at the last of them."""
    header = {"type": "session", "version": 3, "id": "p", "timestamp": "2026-02-01T00:00:00.000Z", "cwd": "/work"}
    user = {"role": "user", "content": "hello", "timestamp": 1}
    lines = [
        header,
        {"type": "model_change", "id": "1", "parentId": None, "provider": "p", "modelId": "m"},
        {"type": "message", "id": "a", "parentId": "1", "message": user},
        {"type": "label", "id": "2", "parentId": "a", "targetId": "a", "label": " start "},
        {"type": "session_info", "id": "3", "parentId": "2", "name": "Name"},
        {"type": "message", "id": "b", "parentId": "3", "message": user},
        {"type": "compaction", "id": "c", "parentId": "b", "summary": "s", "firstKeptEntryId": "b", "tokensBefore": 1},
    ]
    data = b"".join(json.dumps({"timestamp": header["timestamp"], **line}).encode() + b"\n" for line in lines)
    with Store.open() as store:
        sid = store.agents.import_data(FORMATS["pi"], data).session
    found = node("read", sid)
    assert [(entry["id"], entry["parentId"]) for entry in found["entries"]] == [("a", None), ("b", "a"), ("c", "b")]
    assert (found["name"]["value"], found["label"]["value"]) == ("Name", "start")
    assert [(each["address"]["key"], each["value"]) for each in found["values"]] == [("main", "c")]
    assert found["entries"][2]["retainedTail"] == [user]
    assert found["stats"]["messageCount"] == 2
