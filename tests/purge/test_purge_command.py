"""Tests of the commands purge, rm, restore and prune, and of a session's listing after them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import codex_files
import pytest
from builders import START_MS, Clock, header, said
from commands import Run
from purged import SECRET, find, traces
from raw import git

from gitsession import Message, Store, text
from gitsession.archive import trash
from gitsession.archive.trash import Retention
from gitsession.cli import exits
from gitsession.errors import NotFound, Refused
from gitsession.model.blocks import ToolCall
from gitsession.store import refs


class Terminal(io.StringIO):
    """A terminal with a user who can answer questions."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def imported(run: Run, here: Path) -> str:
    """Import a session of pi with the secret in its second entry and, within nested JSON, in its third."""
    nested = json.dumps({"out": json.dumps({"said": f'"{SECRET}"\n'})})
    lines = [
        header("0199-abcd", cwd=str(here)),
        said("aaaa1111", None, "Fix the login redirect", at=1),
        said("bbbb2222", "aaaa1111", SECRET, role="assistant", at=2),
        said("cccc3333", "bbbb2222", nested, at=3),
        said("dddd4444", "cccc3333", "All is well", role="assistant", at=4),
    ]
    (here / "session.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    run("import", "session.jsonl")
    return json.loads(run("ls", "--json"))["sessions"][0]["session"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "front.git", clock=Clock()) as made:
        yield made


def ids(run: Run) -> list[str]:
    return [session["session"] for session in json.loads(run("ls", "--json"))["sessions"]]


def test_entries_with_a_text_are_listed_and_purged(run: Run, imported: str) -> None:
    told = json.loads(run("purge", "--match", SECRET, "--dry-run", "--json"))
    assert [entry["kind"] for entry in told["entries"]] == ["message", "message"]
    assert told["dropped"] is None
    assert SECRET.split()[0] in run("log", imported)
    done = json.loads(run("purge", "--match", SECRET, "--yes", "--json"))
    assert done["dropped"] > 0
    assert "purged: assistant message" in run("log", imported)
    assert run("verify").splitlines()[-1].endswith("0 problems")
    with Store.open() as opened:
        assert traces(opened.objects) == []
    run("purge", "--match", SECRET, "--yes", code=exits.NOTHING)


def test_one_entry_by_its_address(run: Run, imported: str) -> None:
    run("purge", f"{imported}@bbbb2222", "--yes")
    lines = run("log", imported).splitlines()
    assert sum("purged: assistant message" in line for line in lines) == 1
    assert sum("Fix the login redirect" in line for line in lines) == 1


def test_old_oid_resolves_to_the_entry_with_a_note(run: Run, imported: str) -> None:
    old = json.loads(run("show", f"{imported}@leaf", "--json"))
    run("purge", f"{imported}@bbbb2222", "--yes")
    assert "a purge has changed the id of the entry" in run("show", f"{imported}@{old['id'][:10]}", err=True)
    new = json.loads(run("show", f"{imported}@{old['id'][:10]}", "--json"))
    assert new["chain"] == old["chain"]
    assert new["id"] != old["id"]


def test_purged_session_is_neither_listed_nor_imported_again(run: Run, imported: str) -> None:
    run("purge", imported, "--yes")
    assert json.loads(run("ls", "--json", code=exits.NOTHING))["sessions"] == []
    assert "was purged" in run("import", "session.jsonl")
    assert json.loads(run("ls", "--json", code=exits.NOTHING))["sessions"] == []
    assert run("verify").splitlines()[-1].endswith("0 problems")


def test_purge_without_a_terminal_requires_yes(run: Run, imported: str) -> None:
    assert "pass --yes" in run("purge", imported, code=exits.USAGE, err=True)
    assert ids(run) == [imported]


def test_answering_no_keeps_the_session_and_reports_it(
    run: Run, imported: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    assert "nothing was purged" in run("purge", f"{imported}@leaf", code=exits.REFUSED, err=True)
    assert "All is well" in run("log", imported)


def test_purge_requires_a_selection(run: Run, imported: str) -> None:
    run("purge", "--yes", code=exits.USAGE)
    run("purge", f"{imported}@root", "--yes", code=exits.NOT_FOUND)
    run("purge", "nothing-like-it", "--yes", code=exits.NOT_FOUND)


def test_session_is_moved_to_the_trash_and_restored(run: Run, imported: str) -> None:
    before = run("log", imported)
    run("rm", imported)
    run("ls", code=exits.NOTHING)
    run("log", imported[-6:], code=exits.NOT_FOUND)  # too short to restore it
    listed = json.loads(run("ls", "--trash", "--json"))["sessions"]
    assert [(row["session"], row["entries"]) for row in listed] == [(imported, 4)]
    assert imported in run("ls", "--trash")
    run("restore", imported)
    assert run("log", imported) == before
    run("ls", "--trash", code=exits.NOTHING)
    run("rm", imported)
    run("undo")
    assert ids(run) == [imported]
    run("redo")
    run("restore", "nothing-like-it", code=exits.NOT_FOUND)
    assert "verify" not in run("verify")


def test_session_is_moved_to_the_archive_and_restored(run: Run, imported: str) -> None:
    before = run("log", imported)
    assert "would archive 1 session" in run("archive", "--keep", "0", "--dry-run")
    told = json.loads(run("archive", imported, "--json"))
    assert ([row["session"] for row in told["sessions"]], told["dry_run"]) == ([imported], False)
    run("ls", code=exits.NOTHING)
    run("log", imported[-6:], code=exits.NOT_FOUND)  # too short to restore it
    listed = json.loads(run("ls", "--archived", "--json"))["sessions"]
    assert [(row["session"], row["entries"]) for row in listed] == [(imported, 4)]
    assert imported in run("ls", "--archived", "-n", "1")
    run("restore", imported)
    assert run("log", imported) == before
    run("ls", "--archived", code=exits.NOTHING)
    run("archive", "--keep", "1", code=exits.NOTHING)
    run("archive", code=exits.USAGE)
    run("archive", imported, "--keep", "1", code=exits.USAGE)
    assert "verify" not in run("verify")


def test_purge_finds_an_archived_session(run: Run, imported: str, here: Path) -> None:
    run("archive", imported)
    assert imported in run("purge", "--match", SECRET, "--dry-run")
    run("purge", "--match", SECRET, "--yes")
    run("purge", "--match", SECRET, "--dry-run", code=exits.NOTHING)
    run("purge", imported, "--yes")
    run("verify")


def test_from_the_trash_it_can_be_purged(run: Run, imported: str) -> None:
    run("rm", imported)
    run("purge", imported, "--yes")
    run("ls", "--trash", code=exits.NOTHING)
    with Store.open() as opened:
        assert traces(opened.objects) == []
        assert opened.verify().problems == []


def test_a_text_is_found_in_the_trash_too(run: Run, imported: str, here: Path) -> None:
    run("rm", imported)
    assert imported in run("purge", "--match", SECRET, "--dry-run")
    run("purge", "--match", SECRET, "--yes")
    run("purge", "--match", SECRET, "--dry-run", code=exits.NOTHING)
    run("restore", imported)
    with Store.open() as opened:
        assert traces(opened.objects) == []
        assert opened.verify().problems == []


def test_a_session_with_a_chosen_branch_is_purged_from_the_trash(run: Run, imported: str) -> None:
    run("branch", imported, "side", "--at", "root")
    run("switch", imported, "side")
    run("rm", imported)
    run("purge", imported, "--yes")
    run("verify")
    assert "nothing to repair" in run("repair", err=True) + run("repair")


@pytest.mark.parametrize("leaves", ["rm", "archive"])
def test_restore_brings_the_chosen_branch_back(run: Run, imported: str, leaves: str) -> None:
    run("branch", imported, "side", "--at", "root")
    run(leaves, imported)
    assert "no active branch is recorded" in run("restore", imported)
    run("switch", imported, "side")
    run(leaves, imported)
    assert f"{imported} was restored, on branch side" in run("restore", imported)
    run("verify")


def test_prune_lists_sessions_and_then_moves_them_to_the_trash(run: Run, imported: str) -> None:
    run("prune", code=exits.USAGE)
    run("prune", "--older-than", "2026-01-01", code=exits.NOTHING)
    told = json.loads(run("prune", "--older-than", "2026-03-01", "--dry-run", "--json"))
    assert [(row["session"], row["why"]) for row in told["sessions"]] == [(imported, "age")]
    assert ids(run) == [imported]
    run("prune", "--older-than", "2026-03-01", "--keep", "1", code=exits.NOTHING)
    run("label", f"{imported}@leaf", "keep this")
    run("prune", "--older-than", "2026-03-01", "--label", "keep this", code=exits.NOTHING)
    run("prune", "--max-bytes", "1k", "--older-than", "2000-01-01")
    run("ls", code=exits.NOTHING)
    run("undo")
    assert ids(run) == [imported]
    assert "1 session would be moved to the trash" in run("prune", "--keep", "0", "--dry-run")
    run("prune", "--keep", "0", "--purge", code=exits.USAGE)
    run("prune", "--keep", "0", "--purge", "--yes")
    run("ls", "--trash", code=exits.NOTHING)
    run("prune", "--max-bytes", "many", code=exits.USAGE)


def test_sessions_moved_by_one_prune_are_restored_by_one_undo(run: Run, imported: str) -> None:
    run("fork", f"{imported}@leaf")
    assert "2 sessions moved to the trash" in run("prune", "--keep", "0")
    assert "rm of 2 sessions" in run("undo")


def test_retention_rules_are_separate(store: Store) -> None:
    for number in range(4):
        session = store.new_session(agent="agent")
        session.append(Message.user(f"words {number} " + "x" * 1000 * number))
        if number == 0:
            session.label("leaf", "mine")
    newest = [row.first_words for row in store.sessions()]
    assert [each.row.first_words for each in store.expired(Retention(keep=2))] == newest[2:]
    assert [each.row.first_words for each in store.expired(Retention(keep=2, label="mine"))] == newest[2:3]
    far = START_MS + 10**9
    assert len(store.expired(Retention(before_ms=far))) == 4
    assert len(store.expired(Retention(before_ms=far, keep=3))) == 1
    store.flush()
    assert len(store.expired(Retention(bytes_max=0))) == 4
    assert store.expired(Retention(bytes_max=1 << 30)) == []


def test_trashed_session_does_not_replace_an_imported_one(store: Store) -> None:
    session = store.new_session(agent="agent")
    session.append(Message.user("first"))
    first = session.leaf
    assert first is not None
    store.trash.put(session.id)
    objects = store.objects
    with objects.transaction() as tx:  # as a fetch by plain git does
        tx.move(refs.leaf(session.id), first.oid, expected=None)
    store.trash.put(session.id)
    assert trash.sessions(objects) == [session.id]
    with objects.transaction() as tx:
        tx.move(refs.leaf(session.id), first.parent, expected=None)
    store.trash.restore(session.id)
    assert objects.ref(refs.leaf(session.id)) == first.oid
    with pytest.raises(NotFound):
        store.trash.restore(session.id)


def test_call_with_a_purged_result_is_still_a_valid_request(store: Store) -> None:
    session = store.new_session(agent="agent")
    session.append(Message.user("look"))
    call = ToolCall(id="c1", name="bash", arguments={"command": "ls"})
    session.append(Message.assistant([text("I look"), call], provider="anthropic", model="claude"))
    session.append(Message(role="tool", content=(text(SECRET),), tool_call_id="c1", tool_name="bash"))
    session.append(Message.user("and?"))
    store.purges.apply(store.purges.plan(text=SECRET))
    for provider in ("anthropic", "openai-chat", "openai-responses"):
        told = json.dumps(session.context().request(provider))
        assert SECRET not in told
        assert "not answered" in told
    assert [type(entry).__name__ for entry in session.context().messages] == ["Message"] * 3


def test_handle_drops_cached_entries_after_a_purge(store: Store) -> None:
    session = store.new_session(agent="agent")
    session.append(Message.user("first"))
    session.append(Message.user(SECRET))
    session.append(Message.user("last"))
    assert SECRET in str(session.context().messages)
    assert len(store.search("hunter2")) == 1
    store.purges.apply(store.purges.plan(session.id, find(store.objects)))
    assert SECRET not in str(session.context().messages)
    assert store.search("hunter2") == []
    assert store.search("last")
    store.flush()
    assert traces(store.objects) == []


def test_captured_file_is_purged_from_every_checkpoint(store: Store, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("harmless\n")
    (work / ".env").write_text(f"{SECRET}\n")
    session = store.new_session(agent="agent", cwd=str(work))
    session.append(Message.user("first"))
    session.files.take_checkpoint(workspace=work)
    (work / "a.txt").write_text("changed\n")
    session.files.take_checkpoint(workspace=work)
    what = store.purges.plan(text=SECRET)
    assert [file.path for file in what.files] == [".env"]
    store.purges.apply(what)
    assert traces(store.objects) == []
    assert store.verify().problems == []


def test_a_file_that_still_has_purged_bytes_is_not_captured_again(store: Store, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "notes.txt").write_text(f"{SECRET}\n")
    session = store.new_session(agent="agent", cwd=str(work))
    session.append(Message.user("first"))
    session.files.take_checkpoint(workspace=work)
    store.purges.apply(store.purges.plan(text=SECRET))
    (work / "other.txt").write_text("more\n")
    taken = session.files.take_checkpoint(workspace=work)
    store.flush()
    assert traces(store.objects) == []
    assert session.read(taken).skipped == (("notes.txt", "secret: purged"),)
    assert store.verify().problems == []


def test_rewind_does_not_restore_a_file_with_purged_bytes(store: Store, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "notes.txt").write_text(f"{SECRET}\n")
    (work / "other.txt").write_text("one\n")
    session = store.new_session(agent="agent", cwd=str(work))
    session.append(Message.user("first"))
    with session.files.checkpoint(work):
        (work / "notes.txt").write_text("harmless\n")
        (work / "other.txt").write_text("two\n")
    session.append(Message.user("second"))
    store.purges.apply(store.purges.plan(text=SECRET))
    session.files.rewind(session.files.plan_rewind("leaf", "files", workspace=work))
    session.files.rewind(session.files.plan_rewind("leaf~1", "files", workspace=work))
    assert (work / "notes.txt").read_text() == "harmless\n"
    assert (work / "other.txt").read_text() == "one\n"


def test_a_rewind_that_has_not_ended_is_ended_first(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    from gitsession.checkpoints import intents

    session = store.new_session(agent="agent")
    session.append(Message.user(SECRET))
    session.append(Message.user("more"))
    monkeypatch.setattr(intents, "pending", lambda objects: [SimpleNamespace(description="rewind of /work, 3 files")])
    with pytest.raises(Refused, match=r"cannot purge: an earlier command, .*, was interrupted"):
        store.purges.apply(store.purges.plan(text=SECRET))


def test_history_of_the_tombstone_set_is_reported_after_a_redaction(run: Run, imported: str, here: Path) -> None:
    """The record of a redaction contains the text that it left readable, even if that is hidden or purged later."""
    rules, hub = here / "rules.toml", here / "hub.git"
    git(Path(json.loads(run("doctor", "--json"))["facts"]["store"]), "config", "gitsession.rules", str(rules))
    rule = "[[rule]]\nname = 'own'\npattern = '{0}'\nsamples = ['{0}']\n"
    rules.write_text(rule.format("login"))
    run("redact")
    git(hub, "init", "-q", "--bare", "-b", "main")
    run("remote", "add", "origin", str(hub), "--all")
    rules.write_text(rule.format("redirect"))
    assert "stays as it was" not in run("redact", err=True)
    run("sync")
    rules.write_text(rule.format("Fix the"))
    assert "stay in the history of the tombstone set" in run("redact", err=True)
    assert "stays in the history of the tombstone set" in run("purge", "--match", "redacted:own", "--yes")


# ---- records of several lines


@pytest.fixture
def thread(run: Run, here: Path) -> Path:
    """Create a session of codex. One record has the answer and the display line of the prompt before it."""
    lines = codex_files.user(f"It is {SECRET}") + codex_files.assistant("All is well") + codex_files.user("Go on")
    file = here / f"{codex_files.NAME}.jsonl"
    file.write_bytes(codex_files.rollout(lines))
    run("import", str(file))
    return file


def subjects(run: Run, sid: str) -> list[str]:
    return [line.split("  ")[2].strip() for line in run("log", sid).splitlines()][::-1][1:]


def test_purged_text_in_grouped_lines_is_cut_out_and_the_message_is_kept(run: Run, thread: Path) -> None:
    [sid] = ids(run)
    told = json.loads(run("purge", "--match", SECRET, "--dry-run", "--json"))
    assert [entry["kind"] for entry in told["entries"]] == ["message"]
    assert [entry["kind"] for entry in told["redacted"]] == ["message"]
    assert "redacted; the message stays" in run("purge", "--match", SECRET, "--dry-run")
    assert "1 entry, parts of 1 entry purged" in run("purge", "--match", SECRET, "--yes")
    assert subjects(run, sid) == ["purged: user message", "assistant: All is well", "user: Go on"]
    with Store.open() as opened:
        assert traces(opened.objects) == []
        assert opened.verify().problems == []
    run("purge", "--match", SECRET, "--yes", code=exits.NOTHING)
    run("export", sid, "-o", "out.jsonl")
    out = Path("out.jsonl").read_text()
    assert "[redacted:purged]" in out
    assert [json.loads(line)["type"] for line in out.splitlines()].count("response_item") == 2


def test_file_with_purged_text_in_grouped_lines_can_grow(run: Run, thread: Path) -> None:
    [sid] = ids(run)
    run("purge", "--match", SECRET, "--yes")
    thread.write_bytes(thread.read_bytes() + codex_files.joined(codex_files.assistant("Done")))
    run("import", str(thread))
    assert subjects(run, sid) == [
        "purged: user message", "assistant: All is well", "user: Go on", "assistant: Done",
    ]  # fmt: skip
    with Store.open() as opened:
        assert traces(opened.objects) == []
        assert opened.verify().problems == []


def test_repeated_import_recognizes_the_message_without_the_purged_lines(run: Run, thread: Path) -> None:
    [sid] = ids(run)
    run("purge", "--match", SECRET, "--yes")
    before = run("log", sid)
    run("import", str(thread))
    assert run("log", sid) == before


def test_message_is_kept_if_the_session_was_resumed_in_another_home(
    run: Run, thread: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    [sid] = ids(run)
    file = Path(json.loads(run("resume", sid, "--json"))["path"])
    run("purge", "--match", SECRET, "--exports", "--yes")
    assert subjects(run, sid) == ["purged: user message", "assistant: All is well", "user: Go on"]
    assert SECRET not in file.read_text()
    with Store.open() as opened:
        assert traces(opened.objects) == []


def test_text_of_the_message_itself_is_purged_with_the_entry(run: Run, thread: Path) -> None:
    [sid] = ids(run)
    run("purge", "--match", "All is well", "--yes")
    assert subjects(run, sid) == [f"user: It is {SECRET}", "purged: assistant message", "user: Go on"]


@pytest.mark.parametrize("text", ["user_message", '"type":"event_msg"'])
def test_lines_that_would_change_without_the_text_are_purged_with_the_entry(run: Run, thread: Path, text: str) -> None:
    told = json.loads(run("purge", "--match", text, "--dry-run", "--json"))
    assert told["redacted"] == []
    assert told["entries"]
