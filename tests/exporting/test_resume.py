"""Tests of resume: the file is written where the agent reads it, and no existing data is lost."""

from __future__ import annotations

import json
import os
import re
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Any

import aider_files
import claude_code
import codex_files
import opencode_files
import pytest
import stories
from builders import Clock, begun, bring, header, joined, pi_file, session, talk
from commands import Run, document, here, run

from gitsession.discovery import discover
from gitsession.errors import Refused
from gitsession.exporting import export_session, resume
from gitsession.formats import Importing, Resumable, Workspace, all_with_capability
from gitsession.formats.aider.agent import aider
from gitsession.model.entries import Message, SessionHeader
from gitsession.store.interface import ObjectStore
from gitsession.store.memory import MemoryStore

__all__ = ["here", "run"]

RESUMABLE = all_with_capability(Resumable)

THREAD = codex_files.THREAD

CLAUDE = b"".join(line + b"\n" for line in claude_code.talk("a", "b"))
CODEX = codex_files.rollout(codex_files.user("hi"), codex_files.assistant("hello"))
PI = pi_file(*talk("a", "b"))
AIDER = aider_files.history(aider_files.run(), aider_files.user("a"), aider_files.answer("b"))
OPENCODE = opencode_files.export([
    opencode_files.user("msg_u1", "a", at=1), opencode_files.answer("msg_a1", "b", at=2),
])  # fmt: skip
FILES = {
    "aider": (AIDER, aider_files.PLACE), "claude": (CLAUDE, claude_code.SESSION), "codex": (CODEX, THREAD),
    "omp": (PI, "s1"), "opencode": (OPENCODE, ""), "pi": (PI, "s1"),
}  # fmt: skip


@pytest.fixture
def where(tmp_path: Path) -> Workspace:
    for name in ("home", "work"):
        (tmp_path / name).mkdir()
    return resume.workspace(tmp_path / "work", tmp_path / "home", {"TMPDIR": str(tmp_path / "tmp")})


@pytest.fixture
def store() -> ObjectStore:
    return MemoryStore()


def placed(store: ObjectStore, sid: str, where: Workspace, agent: str | None = None, at: str = "") -> Any:
    node = session(store, sid).resolve(at) if at else None
    found = resume.plan(store, sid, agent, node, where, {})
    resume.perform(found)
    return found


def held(store: ObjectStore, agent: str) -> str:
    data, name = FILES[agent]
    return bring(store, data, agent=agent, name=name).session


def spoken(store: ObjectStore, sid: str) -> list[str]:
    return [node.subject for node in session(store, sid).history() if node.kind == "message"]


def below(where: Workspace) -> list[str]:
    """Return every file in the home directory."""
    return sorted(str(path.relative_to(where.home)) for path in Path(where.home).rglob("*") if path.is_file())


# ---- location

PI_NAME = "2026-02-01T00-00-00-000Z_s1.jsonl"


@pytest.mark.parametrize("agent", RESUMABLE)
def test_session_is_written_where_its_agent_reads_it(store: ObjectStore, where: Workspace, agent: str) -> None:
    found = placed(store, held(store, agent), where)
    flat = where.cwd.replace("/", "-")
    expected = {
        "claude": f".claude/projects/{claude_code.SESSION}.jsonl",
        "codex": f".codex/sessions/2026/11/21/{codex_files.NAME}.jsonl",
        "pi": f".pi/agent/sessions/-{flat}--/{PI_NAME}",
        "omp": f".omp/agent/sessions/-{flat}--/{PI_NAME}",
        "opencode": f".local/share/gitsession/opencode/ses_one-{sha256(found.data).hexdigest()[:12]}.json",
    }
    if agent == "aider":  # it keeps its sessions with the project
        assert found.file == Path(where.cwd, ".aider.app-2026-11-21T20-43-36.aider.chat.history.md")
        assert not below(where)
    else:
        [name] = below(where)
        if agent == "claude":  # its folders have separate tests
            name = "/".join(name.split("/")[:2] + name.split("/")[3:])
        assert name == expected[agent]
    assert found.file.stat().st_mode & 0o777 == 0o600
    found_there = [path for path, _ in discover.find_all(Path(where.home), {})]
    assert found_there == ([] if agent in ("aider", *all_with_capability(Importing)) else [found.file])


@pytest.mark.parametrize("agent", sorted({*RESUMABLE} & {*FILES}))
@pytest.mark.parametrize("other", [None, "claude", "pi"])
def test_session_without_messages_cannot_be_resumed(
    store: ObjectStore, where: Workspace, agent: str, other: str | None
) -> None:
    sid = held(store, agent)
    root = session(store, sid).history()[0]
    assert root.kind == "session"
    with pytest.raises(Refused, match="its history has no message"):
        resume.plan(store, sid, other, root, where, {})
    assert not below(where)


COMMANDS = {
    "aider": ["aider --restore-chat-history --chat-history-file FILE"],
    "claude": [f"claude --resume {claude_code.SESSION}"],
    "codex": [f"codex resume {THREAD}"],
    "omp": ["omp --resume FILE"],
    "opencode": ["opencode import FILE", "opencode --session ses_one"],
    "pi": ["pi --session FILE"],
}


@pytest.mark.parametrize("agent", RESUMABLE)
def test_the_commands_name_the_session(store: ObjectStore, where: Workspace, agent: str) -> None:
    found = placed(store, held(store, agent), where)
    assert [" ".join(words).replace(str(found.file), "FILE") for words in found.commands] == COMMANDS[agent]


BUCKETS = {
    "the home directory": ("/home/me", "-"),
    "below it": ("/home/me/a/b:c", "-a-b-c"),
    "beside it": ("/home/me2/a", "--home-me2-a--"),
    "the temporary one": ("/tmp", "-tmp"),
    "below that": ("/tmp/x/y", "-tmp-x-y"),
    "anywhere": ("/srv/x", "--srv-x--"),
    "a name that begins with dots, which omp takes for a way up": ("/home/me/..a", "--home-me-..a--"),
    "the root": ("/", "----"),
}


@pytest.mark.parametrize(("cwd", "bucket"), BUCKETS.values(), ids=BUCKETS)
def test_omp_has_short_names_for_folders_below_two(cwd: str, bucket: str) -> None:
    place = RESUMABLE["omp"].session_path(SessionHeader(agent="omp", source_id="x"), Workspace(cwd, "/home/me", "/tmp"))
    assert place == f"sessions/{bucket}/1970-01-01T00-00-00-000Z_x.jsonl"


def test_id_with_a_parent_path_is_escaped(store: ObjectStore, where: Workspace) -> None:
    sid = bring(store, pi_file(*talk("a"), id="../../../../x\0y")).session
    assert placed(store, sid, where).file.name.endswith("Z_..-..-..-..-x-y.jsonl")


def test_a_variable_moves_the_folder(store: ObjectStore, where: Workspace, tmp_path: Path) -> None:
    sid = held(store, "pi")
    found = resume.plan(store, sid, None, None, where, {"PI_CODING_AGENT_DIR": str(tmp_path / "moved")})
    assert found.file.is_relative_to(tmp_path / "moved/sessions")


# ---- content


@pytest.mark.parametrize("agent", RESUMABLE)
def test_original_folder_gets_the_agents_own_file(where: Workspace, agent: str) -> None:
    store, (data, name) = MemoryStore(), FILES[agent]
    data = data.replace(b'"directory": "/work"', f'"directory": {json.dumps(where.cwd)}'.encode())
    data = data.replace(b'"cwd":"/work"', f'"cwd":{json.dumps(where.cwd)}'.encode())
    found = placed(store, bring(store, data, agent=agent, name=name).session, where)
    assert found.file.read_bytes() == data


@pytest.mark.parametrize("agent", ["pi", "omp", "codex"])
def test_another_folder_only_changes_the_header(store: ObjectStore, where: Workspace, agent: str) -> None:
    found = placed(store, held(store, agent), where)
    first, rest = found.file.read_bytes().split(b"\n", 1)
    was, lines = FILES[agent][0].split(b"\n", 1)
    assert rest == lines
    said, before = json.loads(first), json.loads(was)
    assert (said.get("payload") or said)["cwd"] == where.cwd
    for line in (said, before):
        (line.get("payload") or line).pop("cwd")
    assert said == before


@pytest.mark.parametrize("source", RESUMABLE)
@pytest.mark.parametrize("agent", RESUMABLE)
def test_any_session_can_be_resumed_in_any_agent(store: ObjectStore, where: Workspace, source: str, agent: str) -> None:
    sid = held(store, source)
    found = placed(store, sid, where, agent)
    there = MemoryStore()
    taken = bring(there, found.file.read_bytes(), agent=agent, name=found.file.stem, final=True)
    assert spoken(there, taken.session) == spoken(store, sid)


@pytest.mark.parametrize("source", stories.STORIES)
def test_every_line_has_its_own_id_in_claude_code(store: ObjectStore, where: Workspace, source: str) -> None:
    sid = bring(store, stories.STORIES[source], agent=source, name=stories.NAMES[source]).session
    lines = [json.loads(line) for line in placed(store, sid, where, "claude").file.read_bytes().splitlines()]
    ids = [line["uuid"] for line in lines if "uuid" in line]
    assert len(set(ids)) == len(ids) > 2


@pytest.mark.parametrize("agent", ["claude", "codex", "opencode", "pi"])
def test_id_is_the_one_in_the_resume_command(store: ObjectStore, where: Workspace, agent: str) -> None:
    found = placed(store, begun(store, "hi").id, where, agent)
    assert found.id in found.file.name
    assert found.commands[-1][-1] in (found.id, str(found.file))


@pytest.mark.parametrize("agent", RESUMABLE)
def test_result_without_a_call_is_left_out(store: ObjectStore, where: Workspace, agent: str) -> None:
    sid = bring(store, stories.STORIES["librecode"], agent="librecode").session
    found = placed(store, sid, where, agent)
    assert any("results" in note for note in found.export.notes)
    there = MemoryStore()
    taken = bring(there, found.file.read_bytes(), agent=agent, name=found.file.stem, final=True)
    assert not any(words.startswith("tool") for words in spoken(there, taken.session))


def test_messages_from_another_folder_are_imported_into_the_session(store: ObjectStore, where: Workspace) -> None:
    sid = held(store, "pi")
    data = placed(store, sid, where).file.read_bytes() + talk("c", after="b")[0] + b"\n"
    assert bring(store, data, agent="pi").session == sid
    assert [node.source.id for node in session(store, sid).history()[1:]] == ["a", "b", "c"]


def test_from_an_earlier_entry_it_is_a_session_of_its_own(store: ObjectStore, where: Workspace) -> None:
    sid = held(store, "pi")
    whole, part = placed(store, sid, where), placed(store, sid, where, at="leaf~1")
    assert part.file != whole.file
    header, line = part.file.read_bytes().splitlines()
    assert json.loads(header)["id"] == part.id not in ("s1", sid)
    assert line == PI.splitlines()[1]
    assert placed(store, sid, where, at="leaf~1").is_complete


def test_resume_continues_the_active_branch(store: ObjectStore, where: Workspace) -> None:
    lines = [*talk("a", "b"), *talk("c", after="a")]
    sid = bring(store, pi_file(*lines), agent="pi").session
    held = session(store, sid, "main")
    held.switch("main")
    found = placed(store, sid, where)
    assert found.file.read_bytes().splitlines()[1:] == lines[:2]


def test_own_session_keeps_its_id(store: ObjectStore, where: Workspace) -> None:
    made = begun(store, "hi", "again")
    found = placed(store, made.id, where, "pi")
    assert found.id == made.id
    grown = found.file.read_bytes() + talk("c", after=json.loads(found.file.read_bytes().splitlines()[-1])["id"])[0]
    assert bring(store, grown + b"\n", agent="pi").session == made.id


def test_sub_agents_session_becomes_a_session_of_claude_code(store: ObjectStore, where: Workspace) -> None:
    sid = bring(store, stories.OF_A_SUB_AGENT, agent="claude", name=stories.PLACE_OF_A_SUB_AGENT).session
    found = placed(store, sid, where)
    lines = [json.loads(line) for line in found.file.read_bytes().splitlines()]
    assert [(line["isSidechain"], "agentId" in line) for line in lines] == [(False, False)] * 4
    there = MemoryStore()
    taken = bring(there, found.file.read_bytes(), agent="claude", name=found.file.stem).session
    assert spoken(there, taken) == spoken(store, sid)


# ---- existing files


def test_file_with_equal_content_is_not_written_again(store: ObjectStore, where: Workspace) -> None:
    sid = held(store, "pi")
    file = placed(store, sid, where).file
    before = file.stat()
    assert placed(store, sid, where).is_complete
    assert file.stat().st_ino == before.st_ino
    assert file.stat().st_mtime_ns == before.st_mtime_ns


def test_later_entries_are_appended_to_the_file(store: ObjectStore, where: Workspace) -> None:
    sid = held(store, "pi")
    first = placed(store, sid, where)
    session(store, sid, clock=Clock()).append(Message.user("here"))
    second = placed(store, sid, where)
    assert (second.file, second.existing_bytes) == (first.file, len(first.data))
    assert second.file.read_bytes() == second.data
    assert second.file.read_bytes().startswith(first.data)


def test_truncated_file_is_completed(store: ObjectStore, where: Workspace) -> None:
    sid = held(store, "codex")
    found = placed(store, sid, where)
    for length in range(len(found.data)):
        found.file.write_bytes(found.data[:length])
        assert placed(store, sid, where).file.read_bytes() == found.data


def test_file_continued_by_the_agent_is_rejected(store: ObjectStore, where: Workspace) -> None:
    sid = held(store, "claude")
    file = placed(store, sid, where).file
    grown = file.read_bytes() + b'{"type":"summary"}\n'
    file.write_bytes(grown)
    with pytest.raises(Refused, match="the agent has continued") as refused:
        placed(store, sid, where)
    assert f"import {file}" in refused.value.hint
    assert file.read_bytes() == grown


def test_file_with_other_content_is_rejected(store: ObjectStore, where: Workspace) -> None:
    sid = held(store, "claude")
    file = placed(store, sid, where).file
    file.write_bytes(b"mine")
    with pytest.raises(Refused, match="with different content"):
        placed(store, sid, where)
    assert file.read_bytes() == b"mine"


def test_codex_has_one_file_for_a_thread_on_any_day(store: ObjectStore, where: Workspace) -> None:
    sid, day = held(store, "codex"), Path(where.home, ".codex/sessions/2026/11/22")
    day.mkdir(parents=True)
    own = day / f"rollout-2026-11-22T05-34-22-{THREAD}.jsonl"
    own.write_bytes(CODEX)
    assert placed(store, sid, where).file == own
    assert own.read_bytes() == CODEX
    assert len(below(where)) == 1


def test_file_written_first_by_another_process_is_kept(store: ObjectStore, where: Workspace) -> None:
    sid = held(store, "pi")
    planned = resume.plan(store, sid, None, None, where, {})
    planned.file.parent.mkdir(parents=True)
    planned.file.write_bytes(b"theirs")
    with pytest.raises(Refused, match="with different content"):
        resume.perform(planned)
    assert below(where) == [str(planned.file.relative_to(where.home))]
    assert planned.file.read_bytes() == b"theirs"


def test_concurrently_grown_file_is_kept(store: ObjectStore, where: Workspace) -> None:
    sid = held(store, "pi")
    file = placed(store, sid, where).file
    session(store, sid, clock=Clock()).append(Message.user("here"))
    planned = resume.plan(store, sid, None, None, where, {})
    grown = file.read_bytes() + b"theirs\n"
    file.write_bytes(grown)
    with pytest.raises(Refused, match="the agent has continued"):
        resume.perform(planned)
    assert file.read_bytes() == grown


def test_file_is_written_by_name_if_links_are_not_supported(
    store: ObjectStore, where: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*_: object) -> None:
        raise OSError(resume.errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", link)
    found = placed(store, held(store, "pi"), where)
    assert below(where) == [str(found.file.relative_to(where.home))]


def test_no_agent_no_resumption(store: ObjectStore, where: Workspace) -> None:
    with pytest.raises(Refused, match="cannot resume in 'agent'") as refused:
        placed(store, begun(store).id, where)
    assert "--in" in refused.value.hint


def test_aiders_own_history_is_not_looked_at_and_not_touched(store: ObjectStore, where: Workspace) -> None:
    own = Path(where.cwd, aider.IN_PROJECT)
    own.write_bytes(b"mine")
    found = placed(store, held(store, "aider"), where)
    assert (own.read_bytes(), found.file.read_bytes()) == (b"mine", AIDER)


# ---- the command


@pytest.fixture
def imported(run: Run, here: Path) -> str:
    file = here / "a file.jsonl"
    file.write_bytes(b"\n".join([header("0199-abcd", cwd=str(here)), *talk("a", "b")]) + b"\n")
    return str(document(run("import", str(file), "--json"))["sessions"][0]["session"])


def files() -> list[Path]:
    return [path for path, _ in discover.find_all(Path.home(), {})]


def test_command_is_one_line_on_standard_output(run: Run, imported: str) -> None:
    told = run("resume", "@")
    [file] = files()
    assert told == f"pi --session {file}\n"
    assert file.stat().st_mode & 0o777 == 0o600
    assert f"{file} exists and is up to date" in run("resume", "@", err=True)


def test_command_changes_to_another_folder_first(run: Run, imported: str, tmp_path: Path) -> None:
    other = tmp_path / "another one"
    other.mkdir()
    told = run("resume", "@", "--in", "claude", "--cwd", str(other))
    [file] = files()
    assert told == f"cd '{other}' && claude --resume {file.stem}\n"
    assert f'"cwd":"{other}"'.encode() in file.read_bytes()


def test_a_dry_run_writes_nothing(run: Run, imported: str) -> None:
    assert run("resume", "@", "--dry-run").startswith("pi --session /")
    assert "would be written" in run("resume", "@", "--dry-run", err=True)
    assert not files()


def test_document_has_the_written_part(run: Run, imported: str, here: Path) -> None:
    told = document(run("resume", "@", "--json"))
    assert told["session"] == imported
    assert (told["agent"], told["id"], told["written"]) == ("pi", "0199-abcd", "whole")
    assert told["commands"] == [["pi", "--session", told["path"]]]
    assert (told["cwd"], told["left_out"], told["notes"]) == (str(here), 0, {})
    run("label", "@@leaf", "here")
    assert document(run("resume", "@", "--json", "--dry-run"))["written"] == "nothing"
    assert document(run("resume", "@", "--json"))["written"] == "rest"
    assert document(run("resume", "@", "--json"))["written"] == "nothing"


def test_grown_file_is_rejected_until_it_is_imported(run: Run, imported: str) -> None:
    run("resume", "@")
    [file] = files()
    file.write_bytes(file.read_bytes() + talk("c", after="b")[0] + b"\n")
    complaint = run("resume", "@", code=4, err=True)
    assert f"`gitsession import {file}` first" in complaint
    run("import", str(file))
    assert "exists and is up to date" in run("resume", "@", err=True)


def test_run_becomes_the_agent(run: Run, imported: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs, store = tmp_path / "bin", document(run("doctor", "--json"))["facts"]["store"]
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    assert "'claude': it is not on the PATH" in run("resume", "@", "--in", "claude", "--run", code=75, err=True)
    assert not files()
    (programs / "claude").write_text('#!/bin/sh\necho "$PWD $*"\n')
    (programs / "claude").chmod(0o755)
    words = [resume.os.sys.executable, "-m", "gitsession", "--store", store, "resume", imported, "--in", "claude"]
    done = subprocess.run([*words, "--cwd", str(tmp_path), "--run"], capture_output=True, text=True, check=True)
    [file] = files()
    assert done.stdout == f"{tmp_path} --resume {file.stem}\n"


def test_run_imports_the_file_before_it_starts_the_agent(
    run: Run, imported: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, store = tmp_path / "bin", document(run("doctor", "--json"))["facts"]["store"]
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    words = [resume.os.sys.executable, "-m", "gitsession", "--store", store, "resume", imported, "--in", "opencode"]
    line = run("resume", "@", "--in", "opencode", "--dry-run").strip()
    assert re.fullmatch(r"opencode import (\S+)\.json && opencode --session ses_\w+", line)
    for takes, code, said in ((0, 0, 2), (3, 75, 1)):
        program = programs / "opencode"
        program.write_text(f'#!/bin/sh\necho "opencode $*"\n[ "$1" = --session ] || exit {takes}\n')
        program.chmod(0o755)
        done = subprocess.run([*words, "--run"], capture_output=True, text=True)
        assert (done.returncode, done.stdout.splitlines()) == (code, line.split(" && ")[:said]), done.stderr
    assert "failed with exit code 3" in done.stderr


WRONG = {
    "an agent that is none": (["--in", "emacs"], "cannot resume in 'emacs': expected one of aider, claude, codex"),
    "a folder that is not there": (["--cwd", "/nowhere/at/all"], "does not exist"),
    "run and say": (["--run", "--json"], "--run cannot be combined"),
    "run and rehearse": (["--run", "--dry-run"], "--run cannot be combined"),
}


@pytest.mark.parametrize(("words", "complaint"), WRONG.values(), ids=WRONG)
def test_wrong_use_is_named(run: Run, imported: str, words: list[str], complaint: str) -> None:
    assert complaint in run("resume", "@", *words, code=2, err=True)


# ---- messages about the agent's own file

GOES_ON_ELSEWHERE = "the agent continues from the last line of its file, which is not on the active branch"


def test_export_notes_that_the_file_continues_elsewhere(store: ObjectStore) -> None:
    sid = bring(store, pi_file(*talk("a", "b"), *talk("c", after="a")), agent="pi").session
    assert not export_session.export(store, sid).notes
    session(store, sid, "main").switch("main")
    assert list(export_session.export(store, sid).notes) == [GOES_ON_ELSEWHERE]


def test_agent_with_an_entry_option_continues_at_that_entry(store: ObjectStore, where: Workspace) -> None:
    lines = [*claude_code.talk("a", "b"), *claude_code.talk("x", "y", after="a"), claude_code.last_prompt("b")]
    data = b"".join(line + b"\n" for line in lines)
    sid = bring(store, data, name=claude_code.SESSION).session
    assert not export_session.export(store, sid).notes
    assert placed(store, sid, where).file.read_bytes() == data


# ---- the result


def handed(run: Run, sid: str, agent: str) -> Path:
    return Path(document(run("resume", sid, "--in", agent, "--json"))["path"])


def go_on(path: Path, agent: str) -> None:
    """Append one more turn, as the agent does."""
    said = [json.loads(line) for line in path.read_bytes().splitlines()]
    leaf = next((line["uuid"] for line in reversed(said) if "uuid" in line), None)
    more = {
        "claude": joined(*claude_code.talk("x", "y", after=leaf)),
        "codex": codex_files.joined(codex_files.user("more"), codex_files.assistant("yes")),
        "omp": joined(*talk("x", "y", after="b")),
    }
    path.write_bytes(path.read_bytes() + more[agent])


@pytest.mark.parametrize("agent", ["claude", "codex", "omp"])
def test_exported_file_that_did_not_grow_is_not_imported_as_another_session(
    run: Run, imported: str, agent: str
) -> None:
    path = handed(run, imported, agent)
    for _ in range(2):
        assert "1 file unchanged" in run("import", "--all")
        os.utime(path, (1, 1))
    assert len(document(run("ls", "--json"))["sessions"]) == 1
    assert "1 file unchanged" in run("import", str(path.parent))
    run("import", str(path))  # named explicitly
    assert len(document(run("ls", "--json"))["sessions"]) == 2


def test_exported_session_is_recognized_without_the_catalog(run: Run, imported: str) -> None:
    handed(run, imported, "claude")
    [index] = Path.home().rglob("index.db")
    index.unlink()
    run("import", "--all")
    assert len(document(run("ls", "--json"))["sessions"]) == 1


def test_exported_file_without_a_record_is_imported(run: Run, imported: str) -> None:
    handed(run, imported, "claude")
    [index] = Path.home().rglob("index.db")
    (index.parent / "exports.jsonl").unlink()
    index.unlink()
    run("import", "--all")
    assert len(document(run("ls", "--json"))["sessions"]) == 2


@pytest.mark.parametrize("agent", ["claude", "codex", "omp"])
def test_continued_export_is_a_session_with_an_origin(run: Run, imported: str, agent: str) -> None:
    path = handed(run, imported, agent)
    go_on(path, agent)
    assert f"`gitsession import {path}` first" in run("resume", imported, "--in", agent, code=4, err=True)
    run("import", "--all")
    [other] = [row["session"] for row in document(run("ls", "--json"))["sessions"] if row["session"] != imported]
    told = run("resume", imported, "--in", agent, code=4, err=True)
    assert f"is session {other} in this store" in told and f"`gitsession resume {other}`" in told
    assert document(run("show", f"{other}@root", "--json"))["origin"]["session"] == imported
    run("resume", other)


def test_unchanged_import_of_opencode_is_not_imported_as_another_session(run: Run, imported: str) -> None:
    said = json.loads(handed(run, imported, "opencode").read_bytes())
    place = Path(os.environ["XDG_DATA_HOME"], "opencode/opencode.db")
    place.parent.mkdir(parents=True, exist_ok=True)
    theirs = opencode_files.Database(place)
    theirs.put(said["messages"], said["info"])
    for _ in range(2):
        run("import", "--all")
        assert len(document(run("ls", "--json"))["sessions"]) == 1
    more = [opencode_files.user("msg_zz", "more", at=9_999_999), opencode_files.answer("msg_zzz", "yes", at=10_000_000)]
    theirs.put([*said["messages"], *more], said["info"])
    run("import", "--all")
    [other] = [row["session"] for row in document(run("ls", "--json"))["sessions"] if row["session"] != imported]
    assert f"is session {other} in this store" in run("resume", imported, "--in", "opencode", code=4, err=True)
