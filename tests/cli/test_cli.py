"""Tests of the command line: output, exit codes and errors."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import codex_files
import opencode_files
import pytest
from aider_files import answer, history, user
from aider_files import run as run_of_aider
from builders import entry, header, pi_file, said, talk
from commands import Run, document

from gitsession import Message, Store
from gitsession.cli import app as command_line
from gitsession.cli import exits
from gitsession.errors import Unavailable
from gitsession.index import names
from gitsession.store.create import create


@pytest.fixture
def file(here: Path) -> Path:
    """Write a file of pi with two branches, a label and a title, for this folder."""
    lines = [
        header("0199-abcd", cwd=str(here)),
        said("aaaa1111", None, "Fix the login redirect", at=1),
        said("bbbb2222", "aaaa1111", "I'll read auth.py", role="assistant", at=2),
        said("cccc3333", "bbbb2222", "Another way, please", at=3),
        said("dddd4444", "bbbb2222", "This way", at=4),
        entry("label", "eeee5555", "dddd4444", at=5, targetId="bbbb2222", label="start"),
        entry("session_info", "ffff6666", "eeee5555", at=6, name="Login"),
    ]
    path = here / "session.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


@pytest.fixture
def imported(run: Run, file: Path) -> str:
    """Import the file and return its session id."""
    found = document(run("import", str(file), "--json"))["sessions"]
    return str(found[0]["session"])


# ---- import and export


def test_import_prints_the_imported_sessions(run: Run, file: Path) -> None:
    [session] = document(run("import", str(file), "--json"))["sessions"]
    assert session["agent"] == "pi"
    assert session["source_id"] == "0199-abcd"
    assert session["title"] == "Login"
    assert (session["entries"], session["new"], session["problems"]) == (6, 6, [])
    assert session["leaf"] == session["branches"][session["active"]]
    assert set(session["branches"]) > {"main"}


def test_import_and_ls_count_the_same_entries(run: Run, file: Path) -> None:
    [session] = document(run("import", str(file), "--json"))["sessions"]
    [row] = document(run("ls", "--json"))["sessions"]
    assert row["entries"] == session["entries"]


def test_importing_again_finds_nothing_new(run: Run, file: Path, imported: str) -> None:
    [session] = document(run("import", str(file), "--json"))["sessions"]
    assert session["new"] == 0
    assert "unchanged, 6 entries" in run("import", str(file))


def test_export_is_byte_identical(run: Run, file: Path, imported: str, here: Path) -> None:
    assert run("export", "@").encode() == file.read_bytes()
    run("export", imported, "--to", "pi", "-o", "copy.jsonl")
    assert (here / "copy.jsonl").read_bytes() == file.read_bytes()
    assert (here / "copy.jsonl").stat().st_mode & 0o777 == 0o600


def test_export_overwrites_no_file(run: Run, imported: str, here: Path) -> None:
    (here / "precious").write_text("mine")
    assert "already exists" in run("export", "@", "-o", "precious", code=4, err=True)
    assert (here / "precious").read_text() == "mine"


def test_earlier_version_of_a_rewritten_file_can_be_exported(run: Run, file: Path, imported: str) -> None:
    before = file.read_bytes()
    branch = document(run("branch", "@", "--json"))["branch"]
    file.write_bytes(before.replace(b"I'll read auth.py", b"I have read auth.py"))
    told = run("import", str(file))
    assert f"{file}:3: rewritten from this line on (the new version is branch" in told
    assert run("export", "@").encode() == file.read_bytes()
    earlier = run("export", f"@@{branch}").encode()
    assert earlier == b"".join(line for line in before.splitlines(keepends=True) if b"cccc3333" not in line)


def test_older_copy_changes_nothing(run: Run, file: Path, imported: str, here: Path) -> None:
    older = here / "older.jsonl"
    older.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:3]))
    assert "an older copy of the file: 4 later lines stay" in run("import", str(older))
    assert run("export", "@").encode() == file.read_bytes()


def test_fork_of_an_agents_session_is_a_separate_session(run: Run, file: Path, imported: str) -> None:
    forked = document(run("fork", "@@bbbb2222", "--json"))["session"]
    begun = b"".join(file.read_bytes().splitlines(keepends=True)[:3])
    assert run("export", forked, "--original").encode() == begun
    header, *lines = run("export", forked).encode().splitlines(keepends=True)
    assert json.loads(header)["id"] == forked
    assert b"".join(lines[:2]) == b"".join(begun.splitlines(keepends=True)[1:])


def test_added_entries_are_exported_and_imported_again(run: Run, file: Path, imported: str, here: Path) -> None:
    run("label", "@@bbbb2222", "a good place")
    run("name", "@", "Called here")
    run("export", "@", "-o", "again.jsonl")
    written = (here / "again.jsonl").read_bytes()
    assert written.startswith(file.read_bytes())
    assert [json.loads(line)["type"] for line in written[len(file.read_bytes()) :].splitlines()] == [
        "label",
        "session_info",
    ]
    assert "unchanged" in run("import", "again.jsonl", "--dry-run") or "0 new" in run("import", "again.jsonl")
    assert run("export", "@").encode() == written
    assert run("export", "@", "--to", "omp").splitlines()[0].startswith('{"type":"title"')


def test_export_of_one_branch_leaves_out_the_other(run: Run, imported: str) -> None:
    text = run("export", "@@cccc3333")
    assert "Another way" in text
    assert "This way" not in text


def test_truncated_file_is_imported_up_to_the_cut_and_reported(run: Run, file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])
    told = run("import", str(file))
    assert "5 entries" in told
    assert "an incomplete line" in told
    assert run("import", str(file), "--dry-run", "--final").count("6 entries") == 1
    assert "Login" not in run("ls")


def test_pending_lines_are_reported_despite_many_problems(run: Run, file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"oops\n" * 5 + b"{")
    told = run("import", str(file))
    assert ":13: not imported: 1 byte after the last line end" in told
    assert "2 more problems" in told
    again = run("import", str(file))
    assert "4 more problems" in again and again.count(f"{file}:") == 2


def test_export_reports_pending_lines_until_they_are_imported(run: Run, here: Path) -> None:
    path = here / f"{codex_files.NAME}.jsonl"
    path.write_bytes(codex_files.rollout(codex_files.turn("t1")) + b'{"type":"resp')
    [found] = document(run("import", str(path), "--json"))["sessions"]
    assert f"not imported: the last 13 bytes of '{path}' (run `gitsession import" in run(
        "export", found["session"], err=True
    )
    run("import", str(here), "--final")
    assert "not imported" not in run("export", found["session"], err=True)
    assert run("export", found["session"]) == path.read_text()


def test_a_dry_run_writes_nothing(run: Run, file: Path) -> None:
    assert "6 entries" in run("import", str(file), "--dry-run")
    assert "it does not exist" in run("ls", code=3, err=True)
    run("init")
    before = sorted(path for path in store_of(run).rglob("*") if "index" not in path.name)
    assert "1 session would be imported" in run("import", str(file), str(file), "--dry-run")
    assert sorted(path for path in store_of(run).rglob("*") if "index" not in path.name) == before


def test_file_of_no_agent_is_reported_and_the_rest_is_imported(run: Run, file: Path, here: Path) -> None:
    (here / "notes.txt").write_text("hello\n")
    complaint = run("import", "notes.txt", str(file), code=3, err=True)
    assert "'notes.txt': unrecognized session format" in complaint
    assert "Login" in run("ls")


def test_import_of_a_folder_skips_other_files(run: Run, file: Path, here: Path) -> None:
    (here / "other.jsonl").write_text('{"a": 1}\n')
    assert "1 other file skipped" in run("import", ".")


def test_import_all_looks_into_the_agents_own_folders(run: Run, file: Path) -> None:
    folder = Path.home() / ".pi/agent/sessions/--work--"
    folder.mkdir(parents=True)
    (folder / "2026-02-01T00-00-00-000Z_0199-abcd.jsonl").write_bytes(file.read_bytes())
    assert "6 entries" in run("import", "--all")
    assert "1 file unchanged" in run("import", "--all")


def test_import_all_finds_aiders_history_in_known_projects(run: Run, here: Path, tmp_path: Path) -> None:
    said = history(run_of_aider(), user("Add a fib function"), answer("Here."))
    for folder in (here, tmp_path / "held"):
        (folder / ".git").mkdir(parents=True)
        (folder / ".aider.chat.history.md").write_bytes(said)
    sessions = Path.home() / ".pi/agent/sessions/--work--"
    sessions.mkdir(parents=True)
    held = str(tmp_path / "held/below")
    (sessions / "1_a.jsonl").write_bytes(pi_file(*talk("u", "a"), id="elsewhere", cwd=held))
    assert "3 sessions imported" in run("import", "--all")
    rows = document(run("ls", "--json", "--agent", "aider"))["sessions"]
    assert {row["project"] for row in rows} == {str(here), str(tmp_path / "held")}


def test_import_of_nothing_is_wrong_use(run: Run) -> None:
    assert "missing argument: a file" in run("import", code=2, err=True)
    assert "unknown format 'vi'" in run("import", "--from", "vi", "x", code=2, err=True)


def test_a_missing_file_is_named(run: Run) -> None:
    assert "'nowhere.jsonl': No such file" in run("import", "nowhere.jsonl", code=3, err=True)


# ---- reading commands


def test_the_index_finds_an_entry_by_its_digest(run: Run, file: Path, imported: str) -> None:
    found = document(run("show", "@@bbbb2222", "--json"))
    other = file.with_name("other.jsonl")
    other.write_bytes(file.read_bytes().replace(b"0199-abcd", b"0199-ffff"))
    run("import", str(other))
    with Store.open(store_of(run)) as store:
        same = names.by_digest(store.catalogue(), [found["digest"]])
    assert (found["digest"], imported, found["id"]) in same
    assert len({sid for _, sid, _ in same}) == 2


def test_ls_lists_and_filters(run: Run, imported: str, here: Path) -> None:
    [row] = document(run("ls", "--json"))["sessions"]
    assert row["session"] == imported
    assert row["project"] == str(here)
    assert "Login" in run("ls", "--agent", "pi", "--here", "--project", str(here), "--since", "2026-01-01")
    assert document(run("ls", "--agent", "codex", "--json", code=1))["sessions"] == []
    assert "neither a date" in run("ls", "--since", "yesterday", code=2, err=True)


def test_log_lists_one_branch_tip_first(run: Run, imported: str) -> None:
    found = document(run("log", "@", "--json"))
    ids = [node["source_id"] for node in found["entries"]]
    assert ids == ["ffff6666", "eeee5555", "dddd4444", "bbbb2222", "aaaa1111", None]
    assert found["leaf"] == found["entries"][0]["id"]
    assert found["title"] == "Login"
    assert list(found["labels"].values()) == ["start"]
    assert len(document(run("log", "@", "-n", "2", "--json"))["entries"]) == 2


def test_tree_shows_every_entry_parents_first(run: Run, imported: str) -> None:
    entries = document(run("tree", "@", "--json"))["entries"]
    seen: set[str | None] = {None}
    for node in entries:
        assert node["parent"] in seen
        seen.add(node["id"])
    assert len(entries) == 7
    assert [node["branch"] for node in entries if "branch" in node]
    drawn = run("tree", "@")
    assert "├─ user: Another way, please" in drawn
    assert "'start'" in drawn


def test_tree_draws_at_most_twelve_levels_and_numbers_those_below(run: Run, here: Path) -> None:
    trunk = [said(f"a{n}", f"a{n - 1}" if n else None, f"trunk {n}") for n in range(60)]
    twigs = [said(f"b{n}", f"a{n - 1}", f"twig {n}") for n in range(1, 60)]
    (here / "comb.jsonl").write_bytes(pi_file(*trunk, *twigs))
    sid = document(run("import", "comb.jsonl", "--json"))["sessions"][0]["session"]
    drawn = run("tree", sid).splitlines()
    assert len(drawn) == 120
    assert max(map(len, drawn)) < 120
    assert any("+47 └─ " in line for line in drawn)
    assert not any("+48 └─ " in line for line in drawn)


def test_show_tells_one_entry(run: Run, imported: str) -> None:
    found = document(run("show", "@@bbbb2222", "--json"))
    assert found["body"]["content"] == [{"type": "text", "text": "I'll read auth.py"}]
    assert found["source"] == {"agent": "pi", "id": "bbbb2222", "line": 3}
    assert found["form"] == "jsonl"
    promised = "id digest chain parents kind at body source form holes trailers"
    assert set(found) >= set(promised.split())
    assert "I'll read auth.py" in run("show", "@@start")


def test_context_prints_the_context_of_the_model(run: Run, imported: str) -> None:
    shown = document(run("context", "@", "--window", "1000", "--json"))
    assert [(said["kind"], said["role"]) for said in shown["messages"]] == [
        ("message", "user"),
        ("message", "assistant"),
        ("message", "user"),
    ]
    assert (shown["profile"], shown["model"], shown["thinking"]) == ("pi", None, "off")
    used = shown["tokens"]["used"]
    assert used == sum(shown["breakdown"]["role"].values()) == sum(shown["breakdown"]["kind"].values()) > 0
    assert (shown["tokens"]["window"], shown["tokens"]["remaining"]) == (1000, 1000 - used)
    assert len(bytes.fromhex(shown["digest"])) == 32
    assert document(run("context", "@@cccc3333", "--json"))["digest"] != shown["digest"]
    told = run("context", "@", "--window", "1000")
    assert f"{used} of 1,000, {1000 - used} left (an estimate)" in told
    assert "This way" in told
    assert "Another way" not in told
    assert "Another way" in run("context", "@@cccc3333")


def test_context_as_pi_equals_the_context_of_pi(run: Run, imported: str) -> None:
    shown = document(run("context", "@@aaaa1111", "--as", "pi"))
    assert shown["messages"] == [{"role": "user", "content": [{"type": "text", "text": "Fix the login redirect"}]}]
    assert (shown["model"], shown["thinking"], shown["thinkingLevel"]) == (None, "off", "off")


def test_context_can_be_sent_to_a_provider_as_it_is_printed(run: Run, imported: str) -> None:
    sent = json.loads(run("context", "@@aaaa1111", "--as", "anthropic", "--raw"))
    assert sent == {"messages": [{"role": "user", "content": [{"type": "text", "text": "Fix the login redirect"}]}]}
    assert "--as" in run("context", "@", "--raw", code=2, err=True)


def test_context_names_its_entry(run: Run, imported: str) -> None:
    shown = document(run("context", "@@aaaa1111", "--json"))
    assert (shown["session"], shown["id"]) == (imported, document(run("show", "@@aaaa1111", "--json"))["id"])
    assert f"{shown['id'][:8]}  user: Fix the login redirect" in run("context", "@@aaaa1111")
    assert "the session is empty" in run("context", "@@root")


def test_context_explains_an_answer_without_text(run: Run, here: Path) -> None:
    failed = {"role": "assistant", "content": [], "stopReason": "error", "errorMessage": "overloaded"}
    picture = {"role": "user", "content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]}
    lines = [header("t"), entry("message", "a", None, message=picture), entry("message", "b", "a", message=failed)]
    (here / "t.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    run("import", "t.jsonl")
    told = run("context", "pi:t")
    assert "[picture]" in told
    assert "(error: overloaded)" in told


def test_context_marks_a_command_that_the_user_kept_from_the_model(run: Run, here: Path) -> None:
    hidden = {"role": "bashExecution", "command": "cat .env", "output": "TOKEN", "excludeFromContext": True}
    lines = [header("t"), said("a", None, "hi"), entry("message", "b", "a", message=hidden)]
    (here / "t.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    run("import", "t.jsonl")
    assert "$ cat .env (not sent to the model)" in run("context", "pi:t")
    assert "$ cat .env" not in run("context", "pi:t", "--profile", "claude")


def test_context_accepts_profiles_and_policies_by_name(run: Run, imported: str) -> None:
    for name in ("pi", "pi-0.73", "omp"):
        assert document(run("context", "@", "--profile", name, "--json"))["profile"] == name
    for name in ("clear-tool-uses", "clear-thinking", "drop-images", "model-facing"):
        assert document(run("context", "@", "--policy", name, "--json"))["messages"]
    assert "'claud' is not one of" in run("context", "@", "--profile", "claud", code=2, err=True)


def test_show_and_ls_tell_tokens(run: Run, here: Path) -> None:
    usage = {"input": 1000, "output": 234, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 1234}
    message = {"role": "assistant", "content": [{"type": "text", "text": "abcdefgh"}], "usage": usage}
    lines = [header("t"), entry("message", "a", None, message=message), entry("custom", "b", "a", customType="x")]
    (here / "t.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    run("import", "t.jsonl")
    assert document(run("show", "pi:t@a", "--json"))["tokens"] == {"estimate": 2, "reported": 1234}
    assert "2 (an estimate), 1,234 reported for the whole answer" in run("show", "pi:t@a")
    assert document(run("show", "pi:t@b", "--json"))["tokens"] is None
    assert "1.2k" in run("ls")


def test_entries_are_found_by_every_kind_of_address(run: Run, imported: str) -> None:
    wanted = document(run("show", "@@start", "--json"))
    entries = ("bbbb2222", "start", "leaf~3", "BRANCH~3", wanted["id"][:10], wanted["chain"][:10])
    branch = document(run("branch", "@", "--json"))["branch"]
    for session in ("@", imported, imported[-6:], "pi:0199-abcd", "pi:0199"):
        for entry_of_it in entries:
            address = session + "@" + entry_of_it.replace("BRANCH", branch)
            assert document(run("show", address, "--json"))["id"] == wanted["id"], address
    assert document(run("show", "@@root", "--json"))["parents"] == []


def test_unknown_or_ambiguous_address_is_rejected(run: Run, imported: str, file: Path) -> None:
    assert "`gitsession ls --archived` to list the sessions" in run("log", "zzzz", code=3, err=True)
    assert "the address '@leaf' does not contain a session" in run("log", "@leaf", code=3, err=True)
    assert "pass @@leaf~1 for an entry of the newest session" in run("show", "leaf~1", code=3, err=True)
    assert "the history has fewer entries" in run("show", "@@leaf~99", code=3, err=True)
    other = file.with_name("other.jsonl")
    other.write_bytes(file.read_bytes().replace(b"0199-abcd", b"0199-ffff"))
    run("import", str(other))
    assert "matches 2 sessions" in run("log", "2026", code=3, err=True)


def test_the_status_is_shown_without_a_command(run: Run, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "There is no store yet" in run()
    run("import", str(file))
    assert "1 session, 1 of this folder" in run()
    assert "Login" in run()
    monkeypatch.chdir("/")
    assert "\n\nThe newest:\n" in run()


def test_commands_without_a_store_suggest_how_to_create_one(run: Run) -> None:
    complaint = run("ls", code=3, err=True)
    assert "it does not exist" in complaint
    assert "gitsession init" in complaint


# ---- writing commands


def test_branch_switch_label_name_fork_undo_redo(run: Run, imported: str) -> None:
    branched = document(run("branch", "@", "other", "--at", "root", "--json"))
    assert branched["branch"] == "other"
    assert document(run("switch", "@", "other", "--json"))["leaf"] == branched["leaf"]
    assert "* other" in run("branch", "@")
    run("label", "@@dddd4444", "good")
    assert "'good'" in run("tree", "@")
    run("name", "@", "A better name")
    assert "A better name" in run("ls")
    forked = document(run("fork", "@@good", "--json"))
    assert forked["session"] != imported
    assert "A better name" in run("ls", "--json")
    for command in ("fork", "name", "label", "switch", "branch"):
        assert command in run("undo")
    assert "other" not in document(run("branch", "@", "--json"))["branches"]
    for command in ("branch", "switch", "label", "name", "fork"):
        assert command in run("redo")
    assert "'good'" in run("tree", imported)
    assert "nothing to redo" in run("redo", code=3, err=True)
    log = document(run("op", "log", "--json"))["operations"]
    assert len(log) == 16
    assert log[0]["redoes"]


def test_existing_branch_is_not_moved(run: Run, imported: str) -> None:
    before = run("branch", "@")
    assert "cannot create branch 'main'" in run("branch", "@", "main", "--at", "root", code=4, err=True)
    assert run("branch", "@") == before


def test_a_label_leads_to_one_entry(run: Run, imported: str) -> None:
    run("label", "@@dddd4444", "good")
    assert "already has this label" in run("label", "@@cccc3333", "good", code=4, err=True)
    assert "no longer 'good'" in run("label", "@@dddd4444", "better")
    assert "NAME~N are reserved" in run("label", "@@dddd4444", "root", code=2, err=True)
    assert "a branch of this session has this name" in run("label", "@@dddd4444", "main", code=4, err=True)


def test_generated_title_replaces_no_title_without_force(run: Run, imported: str) -> None:
    run("name", "@", "My title")
    refusal = run("name", "--generate", code=4, err=True)
    assert f"cannot generate a title: session {imported} has the title 'My title'" in refusal
    assert "hint: pass --force to replace it" in refusal
    assert "My title" in run("ls")
    assert "no longer 'My title'" in run("name", "--generate", "--force")
    assert run("name", "@", "").startswith(f"{imported} has no title, no longer ")
    assert "no longer" not in run("name", "--generate")
    assert "--force requires --generate" in run("name", "--force", "@", "x", code=2, err=True)


def test_failed_flush_is_reported_and_data_is_kept(run: Run, imported: str) -> None:
    lock = store_of(run) / f"refs/heads/sessions/{imported}/meta.lock"
    lock.touch()
    assert "in the journal, but not in git" in run("name", "@", "Waiting", err=True)
    assert "Waiting" in run("ls")
    lock.unlink()
    assert run("name", "@", "Here", err=True) == ""


def test_an_import_of_several_files_is_one_undo(run: Run, file: Path) -> None:
    other = file.with_name("other.jsonl")
    other.write_bytes(file.read_bytes().replace(b"0199-abcd", b"0199-ffff"))
    run("import", str(file), str(other))
    assert "undone: import of 2 files" in run("undo")
    run("ls", code=1)
    assert "redone: import of 2 files" in run("redo")
    assert run("ls").count("Login") == 2


def test_a_session_is_not_an_entry(run: Run, imported: str) -> None:
    assert "requires a session, not an entry" in run("tree", "@@leaf", code=2, err=True)


def test_invalid_branch_names_are_rejected(run: Run, imported: str) -> None:
    for name in ("../x", "a/b", "A", "meta", "leaf", "root", "con", "-x", "a.lock", "", "x" * 65, "a\x1bb"):
        assert run("branch", "@", "--at", "root", "--", name, code=2, err=True)


def test_verify_maintain_and_doctor_find_nothing_wrong(run: Run, imported: str) -> None:
    assert document(run("verify", "--json"))["problems"] == []
    assert document(run("verify", "@", "--sample", "2", "--json"))["checked"] == 2
    run("maintain")
    assert document(run("doctor", "--json"))["problems"] == []
    assert "ok  store" in run("doctor")


def test_verify_names_damaged_files(run: Run, imported: str) -> None:
    pack = max((store_of(run) / "objects/pack").glob("*.pack"), key=lambda path: path.stat().st_size)
    data = bytearray(pack.read_bytes())
    data[len(data) // 2] ^= 1
    pack.chmod(0o600)
    pack.write_bytes(data)
    assert document(run("verify", "--json", code=5))["problems"]
    assert "`gitsession repair` to restore" in run("verify", code=5)


def store_of(run: Run) -> Path:
    return Path(document(run("doctor", "--json"))["facts"]["store"])


def test_a_flipped_bit_in_the_journal_is_named_and_stays_named(run: Run, imported: str) -> None:
    path = store_of(run)
    with Store.open(path, flush_on_close=False) as store:
        session = store.session(imported)
        for word in ("one", "two", "three"):
            session.append(Message.user(word))
    [journal] = sorted((path / "gitsession/journal").iterdir())[-1:]
    data = bytearray(journal.read_bytes())
    data[data.index(b"two")] ^= 1
    journal.write_bytes(data)
    assert "journal/" in run("doctor", code=5)
    assert "journal/" in run("verify", code=5)
    assert "journal/" in run("verify", code=5)
    assert "user: one" in run("log", f"{imported}@leaf", code=5)


def test_a_session_of_a_later_release_is_read_and_not_written_to(
    run: Run, imported: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(store_of(run)) as store, monkeypatch.context() as later:
        later.setattr("gitsession.sessions.session.VIEW", 2)
        session = store.new_session(agent="later")
        session.append(Message.user("from the future"))
    assert "from the future" in run("log", session.id)
    assert "a later release of gitsession created it (view 2" in run("name", session.id, "x", code=4, err=True)
    assert "unknown view 2" in run("verify", code=5)


def commit_on(store: Path, ref: str) -> str:
    """Add a plain commit to a session's branch and return its oid."""
    who = ["-c", "user.name=u", "-c", "user.email=u@example.org"]
    git = ["git", f"--git-dir={store}", *who]
    made = subprocess.run(
        [*git, "commit-tree", f"{ref}^{{tree}}", "-p", ref, "-m", "a plain commit"], capture_output=True, check=True
    ).stdout.decode()
    subprocess.run([*git, "update-ref", ref, made.strip()], check=True)
    return made.strip()


def test_plain_commit_on_a_session_is_harmless(run: Run, imported: str, file: Path) -> None:
    other = file.with_name("other.jsonl")
    other.write_bytes(file.read_bytes().replace(b"0199-abcd", b"0199-ffff"))
    run("import", str(other))
    store = store_of(run)
    foreign = commit_on(store, f"refs/heads/sessions/{imported}/main")
    for _ in range(2):
        rows = {row["session"]: row for row in document(run("ls", "--json"))["sessions"]}
        assert len(rows) == 2
        assert rows[imported]["title"] == "Login"
        for index in (store / "gitsession").glob("index.db*"):
            index.unlink()
    gaps = document(run("tree", imported, "--json", code=5))["gaps"]
    assert [gap["id"] for gap in gaps] == [foreign]
    assert "Login" in run("log", f"{imported}@ffff6666")
    assert foreign in run("verify", code=5)
    assert "gitsession branch" in run("show", f"{imported}@main", code=5, err=True)
    assert "??" in run("branch", imported)
    assert run("export", imported).encode() == file.read_bytes()
    file.write_bytes(file.read_bytes() + said("9999aaaa", "cccc3333", "And on", at=9) + b"\n")
    assert "1 new of 7 entries" in run("import", str(file))
    assert run("export", imported).encode() == file.read_bytes()


@pytest.mark.parametrize("kind", ["blob", "tree", "nothing"])
def test_branch_without_a_commit_is_harmless(run: Run, imported: str, kind: str) -> None:
    store = store_of(run)
    leaf = store / f"refs/heads/sessions/{imported}/main"
    named = subprocess.run(
        ["git", f"--git-dir={store}", "rev-parse", "refs/heads/main^{tree}", "refs/heads/main:README.md"],
        capture_output=True,
        check=True,
    ).stdout.decode()
    leaf.write_text({"tree": named.split()[0], "blob": named.split()[1], "nothing": "1" * 40}[kind] + "\n")
    assert "Login" in run("ls")
    run("verify", code=5)


def test_a_damaged_operation_log_is_named_and_only_undo_suffers(run: Run, imported: str) -> None:
    store = store_of(run)
    run("name", "@", "Before")
    (store / "refs/gitsession/oplog").write_text(
        subprocess.run(
            ["git", f"--git-dir={store}", "rev-parse", "refs/heads/main"], capture_output=True, text=True, check=True
        ).stdout
    )
    assert "not an operation" in run("undo", code=5, err=True)
    assert "not an operation" in run("verify", code=5)
    assert "Before" in run("ls")


def test_unreadable_file_in_a_folder_does_not_stop_the_import(run: Run, file: Path, here: Path) -> None:
    os.mkfifo(here / "pipe.jsonl")
    (here / "dir.jsonl").mkdir()
    (here / "loop.jsonl").symlink_to("loop.jsonl")
    os.link(file, os.fsencode(here) + b"/\xff\xfe.jsonl")
    huge = here / "huge.jsonl"
    huge.touch()
    os.truncate(huge, 3 << 30)
    assert "huge.jsonl" in run("import", ".", code=3, err=True)
    assert "Login" in run("ls")
    assert "not a regular file" in run("import", "pipe.jsonl", code=3, err=True)
    assert "not a regular file" in run("import", "/dev/zero", code=3, err=True)


def test_reading_works_if_the_index_cannot_be_written(run: Run, imported: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import sqlite3

    from gitsession.index import update

    real = update._refresh
    told: list[int] = []

    def full_disk(*arguments: Any) -> None:
        if not told:
            told.append(1)
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        real(*arguments)

    monkeypatch.setattr(update, "_refresh", full_disk)
    run("label", "@@dddd4444", "good")
    assert "'good'" in run("tree", "@")
    assert told


def test_missing_working_directory_only_affects_the_here_scope(
    run: Run, imported: str, here: Path, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    try:
        assert "Login" in run("tree", imported)
        assert "0 problems" in run("verify")
        assert "1 session, 0 of this folder" in run()
    finally:
        os.chdir(here)


def test_a_terminal_that_cannot_show_every_character_shows_the_rest(run: Run, imported: str) -> None:
    run("name", "@", "日本語")
    words = [sys.executable, "-m", "gitsession", "ls"]
    done = subprocess.run(words, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "latin1"}, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    closed = subprocess.run(["bash", "-c", f"{sys.executable} -m gitsession ls >&-"], capture_output=True, check=False)
    assert closed.returncode == 0


def test_git_runs_on_the_store(run: Run, imported: str, here: Path) -> None:
    words = [sys.executable, "-m", "gitsession", "git", "log", "--format=%s", f"sessions/{imported}/main", "-n1"]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "GIT_DIR": "/nowhere"}, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "user: Another way, please\n"


# ---- location of the store


def test_store_is_selected_by_option_then_environment_then_git_configuration(
    run: Run, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = tmp_path / "gitconfig"
    configuration.write_text(f"[gitsession]\n\tstore = {tmp_path}/from-config\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(configuration))
    assert "from-config" in run("init")
    monkeypatch.setenv("GITSESSION_DIR", str(tmp_path / "from-environment"))
    assert "from-environment" in run("init")
    assert "said" in run("--store", str(tmp_path / "said"), "init")
    assert "already exists" in run("--store", str(tmp_path / "said"), "init")


def test_git_dir_in_the_environment_changes_nothing(
    run: Run, imported: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path))
    assert "Login" in run("ls")
    assert "0 problems" in run("verify")
    run("maintain")
    assert not (tmp_path / "elsewhere").exists()


def test_path_without_a_store_is_rejected(run: Run, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").write_text("mine")
    assert "is not a git repository" in run("--store", str(tmp_path / "folder"), "init", code=3, err=True)
    plain = tmp_path / "plain.git"
    subprocess.run(["git", "init", "-q", "--bare", str(plain)], check=True)
    assert "but not a store" in run("--store", str(plain), "ls", code=3, err=True)


def test_commands_that_require_git_report_a_missing_git(
    run: Run, imported: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert "Login" in run("ls")
    assert "Fix the login" in run("log", "@@cccc3333")
    assert "git is not on the PATH" in run("verify", code=75, err=True)
    assert "install git" in run("doctor", code=5)


@pytest.mark.parametrize("error", [Unavailable("the disk is read-only"), OSError(30, "Read-only file system")])
def test_doctor_continues_if_a_check_fails(
    run: Run, imported: str, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(_: object) -> None:
        raise error

    monkeypatch.setattr("gitsession.cli.checks.local_checks", fail)
    told = run("doctor", code=5)
    assert "cannot check the rest" in told and "read-only" in told.lower()
    assert "sessions" in told


def test_a_store_that_cannot_be_written_can_be_read(run: Run, file: Path, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root writes everywhere")
    store = tmp_path / "store.git"
    create(store)
    run("--store", str(store), "import", str(file))
    subprocess.run(["chmod", "-R", "a-w", str(store)], check=True)
    try:
        assert "Login" in run("--store", str(store), "ls")
        assert run("--store", str(store), "name", "@", "x", code=75, err=True)
    finally:
        subprocess.run(["chmod", "-R", "u+w", str(store)], check=True)


# ---- the terminal


def test_agents_text_cannot_control_the_terminal(run: Run, here: Path) -> None:
    hostile = "\x1b]0;owned\x07\x1b[2J\u202egnp.exe\x9b31m"
    lines = [
        header("evil\x1b[31m", cwd=str(here)),
        said("a\x1b[2J", None, hostile),
        entry("label", "b", "a\x1b[2J", targetId="a\x1b[2J", label=hostile),
        entry("session_info", "c", "b", name=hostile),
        entry("\x1b[31mtype", "d", "c"),
        b'{"broken \x1b[2J',
    ]
    (here / "evil.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    words = ("import evil.jsonl", "ls", "log @", "tree @", "show @@root", "show @@leaf", "show @@leaf~4", "op log")
    for command in (*words, "", "doctor"):
        told = run(*command.split())
        assert not set(told) & set("\x1b\x07\x9b\u202e"), command
    for command in words[1:6]:
        assert json.loads(run(*command.split(), "--json"))


def test_colors_are_complete_and_only_used_on_request(run: Run, imported: str) -> None:
    words = ["script", "-qec", f"{sys.executable} -m gitsession ls", os.devnull]
    if shutil.which("script") is None:
        pytest.skip("no program `script` to make a terminal with")
    environment = {**os.environ, "TERM": "xterm", "PAGER": "cat"}
    shown = subprocess.run(words, capture_output=True, text=True, env=environment, check=True).stdout
    assert "\x1b[33m" in shown
    assert "[0m" not in re.sub(r"\x1b\[[0-9;]*m", "", shown)
    for without in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        plain = subprocess.run(words, capture_output=True, text=True, env={**environment, **without}, check=True)
        assert "\x1b[" not in plain.stdout


def test_closed_pipe_is_not_an_error(run: Run, imported: str) -> None:
    for command in ("tree @ --json | head -c 10 > /dev/null", "doctor | true", "tree @ | true"):
        words = f"{sys.executable} -m gitsession {command}; exit ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), command


def test_the_session_before_the_newest_has_entries_too(run: Run, file: Path, imported: str) -> None:
    other = file.with_name("other.jsonl")
    other.write_bytes(file.read_bytes().replace(b"0199-abcd", b"0199-ffff").replace(b"2026-02-01", b"2026-01-01"))
    run("import", str(other))
    assert "Login" in run("show", "-@leaf")
    assert "2026-01-01" in run("show", "-@aaaa1111")


def test_leaf_skips_records_that_cannot_be_parsed(run: Run, file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"oops\n\n")
    [session] = document(run("import", str(file), "--json"))["sessions"]
    found = document(run("log", "@", "--json"))
    assert found["leaf"] == session["leaf"] != session["branches"][session["active"]]
    by_id = {node["id"]: node for node in found["entries"]}
    assert by_id[found["leaf"]]["source_id"] == "ffff6666"
    assert found["entries"][0]["kind"] == "opaque"
    assert document(run("tree", "@", "--json"))["leaf"] == found["leaf"]
    assert run("export", "@").encode() == file.read_bytes()


def test_a_label_is_compared_as_it_is_kept(run: Run, imported: str) -> None:
    run("label", "@@dddd4444", "good")
    assert "already has this label" in run("label", "@@cccc3333", "  good ", code=4, err=True)
    assert "a branch of this session has this name" in run("label", "@@cccc3333", " main", code=4, err=True)
    assert "NAME~N are reserved" in run("label", "@@cccc3333", "x~1", code=2, err=True)
    assert "has the label 'a b'" in run("label", "@@cccc3333", " a\nb ")


def test_store_without_its_packs_is_damaged_not_missing(run: Run, imported: str) -> None:
    store = store_of(run)
    for pack in (store / "objects/pack").iterdir():
        pack.unlink()
    assert "is damaged: " in run("tree", imported, code=5, err=True)
    assert run("doctor", code=5)


def test_every_command_has_help(run: Run) -> None:
    for name in command_line.COMMANDS:
        if name != "git":
            assert "Usage: gitsession" in run(name, "--help")
    assert all(name in run("help", "--all") for name in command_line.COMMANDS)
    assert "did you mean completion" in run("completo", code=2, err=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["search"], "missing argument 'QUERY...'"),
        (["ls", "--since"], "option '--since' requires an argument"),
        (["ls", "--nope"], "no such option '--nope'; did you mean one of: '--model', '--since'?"),
        (["export", "a", "b", "c"], "got unexpected extra arguments (b c)"),
        (["archive", "--keep", "-1"], "invalid value for '--keep': -1 is not in the range x>=0"),
    ],
)
def test_a_wrong_call_is_reported_in_lower_case_with_the_help_of_its_command(
    run: Run, arguments: list[str], message: str
) -> None:
    error, hint = run(*arguments, code=2, err=True).splitlines()
    assert error.startswith(f"error: {message}") and not error.endswith(".")
    assert hint == f"hint: run `gitsession {arguments[0]} --help`"


def test_completion_is_offered_for_three_shells(run: Run) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert "_GITSESSION_COMPLETE" in run("completion", shell)


def test_textconv_prints_an_own_entry(run: Run, imported: str, tmp_path: Path, here: Path) -> None:
    run("name", "@", "Shown as JSON")
    ref = f"refs/heads/sessions/{imported}/meta:entry.cbor"
    payload = subprocess.run(
        [sys.executable, "-m", "gitsession", "git", "show", ref], capture_output=True, check=True
    ).stdout
    (tmp_path / "entry.cbor").write_bytes(payload)
    assert json.loads(run("textconv", str(tmp_path / "entry.cbor")))["body"] == {"title": "Shown as JSON"}


def test_the_demo_tells_a_story_with_plain_git(run: Run, tmp_path: Path) -> None:
    told = run("demo", "--in", str(tmp_path / "demo"))
    assert "compaction: 61k -> 8k tokens" in told
    assert "assistant: Then the redirect belongs" in told
    assert "notes.txt     mine, and changed since" in told, "a rewind leaves what the user wrote"
    assert "fatal" not in told
    assert "error" not in told
    for line in told.partition("# The same with gitsession")[2].splitlines():
        if line.startswith("  gitsession "):
            run(*line.split()[1:])
    assert "already exists" in run("demo", "--in", str(tmp_path / "demo"), code=75, err=True)


# ---- search


def test_search_prints_matches_and_their_location(run: Run, imported: str) -> None:
    document_ = document(run("search", "redirect", "--json"))
    assert document_["schema"] == "gitsession/search/1"
    hit = document_["hits"][0]
    assert (hit["session"], hit["agent"]) == (imported, "pi")
    address = re.search(rf"\w+@{hit['entry'][:12]}", run("search", "redirect"))
    assert address is not None
    assert document(run("show", address[0], "--json"))["id"] == hit["entry"]
    assert "no entries found" in run("search", "no", "such", "words", code=1, err=True)
    assert run("search", '"', "AND (", "--role", "user", code=1) == ""


def test_search_lists_the_hits_of_a_session_below_its_title(run: Run, imported: str) -> None:
    lines = run("search", "redirect").splitlines()
    assert lines[0].startswith(imported.rpartition("-")[2][:7]) and "  pi  " in lines[0]
    assert all(line.startswith("  ") for line in lines[1:])
    assert "hint: did you mean redirect?" in run("search", "rediretc", code=1, err=True)
    assert document(run("search", "rediretc", "--json", code=1))["suggestion"] == "redirect"


def test_prompts_are_listed_on_one_line_each(run: Run, imported: str) -> None:
    document_ = document(run("prompts", "--json"))
    assert document_["schema"] == "gitsession/prompts/1"
    texts = [prompt["text"].strip() for prompt in document_["prompts"]]
    assert texts and run("prompts", "-z") == "".join(f"{text}\0" for text in texts)
    assert len(run("prompts").splitlines()) == len(texts)
    assert run("prompts", "-n", "1").startswith(texts[0][:20])
    assert "no prompts found" in run("prompts", "zebra", code=1, err=True)
    assert run("prompts", "zebra", "-z", code=1) == ""


def test_search_rejects_an_invalid_regular_expression(run: Run, imported: str) -> None:
    assert run("search", "--regex", "redir[a-e]ct", "--until", "2100-01-01") == run("search", "--regex", "redirect")
    assert "invalid regular expression" in run("search", "--regex", "(", code=2, err=True)
    assert run("search", "redirect", "--file", "no/such/file", code=1) == ""


# ---- databases of sessions


@pytest.fixture
def database(here: Path) -> opencode_files.Database:
    made = opencode_files.Database(here / "opencode.db", log=True)
    talk = [opencode_files.user("msg_u1", "Hello", at=1), opencode_files.answer("msg_a1", "Hi", at=2)]
    made.put(talk)
    about = opencode_files.info(id="ses_two", title="Another")
    made.put([{"info": {**said["info"], "id": said["info"]["id"] + "_2"}, "parts": []} for said in talk], about)
    return made


def test_all_sessions_of_a_database_are_imported_and_changed_ones_again(
    run: Run, database: opencode_files.Database
) -> None:
    assert "2 sessions imported" in run("import", "opencode.db")
    assert "0 sessions imported, 2 files unchanged" in run("import", "opencode.db")
    assert "0 sessions imported, 1 file unchanged" in run("import", ".")
    more = [opencode_files.user("msg_u3", "More", at=3), opencode_files.answer("msg_a3", "Yes", at=4)]
    database.put(more, opencode_files.info(id="ses_two", title="Another"))
    assert "1 session imported, 1 file unchanged" in run("import", ".")


def test_locked_database_is_reported_and_the_rest_is_imported(
    run: Run, database: opencode_files.Database, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gitsession.discovery import databases

    monkeypatch.setattr(databases, "PATIENCE_SECONDS", 0.05)
    database.db.execute("PRAGMA journal_mode = DELETE")
    database.db.execute("BEGIN EXCLUSIVE")
    complaint = run("import", "opencode.db", str(file), code=exits.TRY_AGAIN, err=True)
    assert "'opencode.db': the database is locked by its agent" in complaint
    assert "Login" in run("ls")


def test_invalid_session_of_a_database_does_not_stop_others(run: Run, database: opencode_files.Database) -> None:
    database.db.execute("UPDATE message SET data = '{' WHERE session_id = 'ses_two'")
    assert "2 sessions imported" in run("import", "opencode.db")
    database.db.execute("DROP TABLE part")
    assert "unrecognized session format" in run("import", "opencode.db", code=3, err=True)


def test_database_repairs_lost_objects_of_a_store(run: Run, database: opencode_files.Database, tmp_path: Path) -> None:
    from gitsession.discovery import sources
    from gitsession.importing.import_session import import_source
    from gitsession.repair import donors
    from gitsession.store.memory import MemoryStore

    whole = MemoryStore()
    for found in sources.at(database.path):
        done = import_source(whole, found.format, found.load().source)
        donor = donors.NamedFileDonor(found.path)
        tip = done.moves[0].new
        assert tip is not None
        assert donor.read(tip, done.session) == whole.read(tip)


def test_show_prints_a_result_that_is_stored_with_its_call(run: Run, here: Path) -> None:
    answer = opencode_files.answer("msg_a1", "Seen.", at=2, parts=[opencode_files.tool("c1", "a.py\nb.py")])
    (here / "o.json").write_bytes(opencode_files.export([opencode_files.user("msg_u1", "Look", at=1), answer]))
    run("import", "o.json")
    told = run("show", f"opencode:{opencode_files.SES}@msg_a1")
    assert "    -> bash: ls\n    <- bash: ls  [2 lines]\n    a.py\n    b.py\n" in told


def test_session_of_aider_with_an_at_sign_is_addressed_by_its_id(run: Run, here: Path) -> None:
    (here / ".aider.chat.history.md").write_bytes(history(run_of_aider(), user("hello"), answer("Hi.")))
    run("import", ".aider.chat.history.md")
    (row,) = document(run("ls", "--json"))["sessions"]
    address = f"aider:{row['source_id']}"
    assert re.fullmatch("aider:work@[0-9T:-]+", address)
    assert document(run("log", address, "--json"))["session"] == row["session"]
    assert run("show", f"{address}@root").startswith("session: aider")
    assert run("show", f"{address}@leaf~1").startswith("user: hello")
    assert run("export", address).encode() == (here / ".aider.chat.history.md").read_bytes()


def test_unchanged_files_are_counted_and_not_listed(run: Run, file: Path, here: Path) -> None:
    folder = Path.home() / ".pi/agent/sessions/--work--"
    folder.mkdir(parents=True)
    for name in "ab":
        (folder / f"{name}.jsonl").write_bytes(pi_file(*talk("a"), id=name))
    run("import", "--all")
    for path in folder.iterdir():
        os.utime(path, (1, 1))  # changes the stamp, so the files are read again
    assert run("import", "--all") == "0 sessions imported, 2 files unchanged\n"
    assert "unchanged" in run("import", str(folder / "a.jsonl"))
    assert run("import", str(folder)) == "0 sessions imported, 2 files unchanged\n"


def test_unknown_agent_is_rejected_with_the_list_of_agents(run: Run, file: Path) -> None:
    run("import", str(file))
    for words in (["ls"], ["search", "login"]):
        assert "no sessions of agent 'cdex' (agents with sessions: " in run(*words, "--agent", "cdex", code=1, err=True)


def test_empty_query_and_query_without_matches_are_distinguished(run: Run, file: Path) -> None:
    run("import", str(file))
    for query in ("", "*", '""', "()"):
        assert "no letters or digits" in run("search", query, code=2, err=True)
    assert "no entries found" in run("search", "zebra", code=1, err=True)


def test_session_argument_may_be_omitted_if_unambiguous(run: Run, imported: str) -> None:
    run("branch", "@", "other")
    assert "  other " in run("branch")
    assert f"{imported} is on other" in run("switch", "other")
    assert "has the title 'T'" in run("name", "T")
    assert "has the label 'L'" in run("label", "L")
    assert "L" in run("show")
    assert imported not in run("fork").split()[0]
    assert run("export", imported) == run("export", imported, "--to", "pi")
    for words in (("name", "@"), ("label", "@@leaf"), ("switch", "-"), ("switch",), ("name", "@", "a", "b")):
        assert "expected the arguments [SESSION" in run(*words, code=2, err=True)
