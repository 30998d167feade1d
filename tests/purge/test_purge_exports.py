"""Tests of purges and exported files: they are listed, redacted, and stay purged when they are imported."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path

import codex_files
import pytest
from builders import header, said
from commands import Run
from purged import SECRET

from gitsession import Message, Store, text
from gitsession.cli import exits
from gitsession.formats import FORMATS, Importing, Resumable, all_with_capability
from gitsession.purge.redact_exports import MARK, redacted
from gitsession.sessions import local_records
from gitsession.sessions.local_records import ExportedFile

AGENTS = [
    agent
    for agent, format in all_with_capability(Resumable).items()
    if not isinstance(format, Importing) and agent != "aider"
]


@pytest.fixture
def session(run: Run, here: Path) -> str:
    lines = [
        header("0199-abcd", cwd=str(here)),
        said("aaaa1111", None, "Fix the login redirect", at=1),
        said("bbbb2222", "aaaa1111", f"it is {SECRET}, as said", role="assistant", at=2),
        said("cccc3333", "bbbb2222", "All is well then, and nothing else is to do", at=3),
    ]
    (here / "session.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    run("import", "session.jsonl")
    return json.loads(run("ls", "--json"))["sessions"][0]["session"]


def resumed(run: Run, session: str, agent: str) -> Path:
    return Path(json.loads(run("resume", session, "--in", agent, "--json"))["path"])


def sessions(run: Run, code: int = exits.OK) -> list[str]:
    return [each["session"] for each in json.loads(run("ls", "--json", code=code))["sessions"]]


@pytest.mark.parametrize("agent", AGENTS)
def test_exported_text_is_not_imported_again(run: Run, session: str, agent: str) -> None:
    file = resumed(run, session, agent)
    assert SECRET in file.read_text()
    run("purge", "--match", SECRET, "--yes")
    assert SECRET in file.read_text()
    run("import", str(file))
    run("search", SECRET, code=exits.NOTHING)
    assert len(sessions(run)) == (1 if agent == "pi" else 2)
    for each in sessions(run):
        assert SECRET not in run("export", each, "--to", "jsonl")
    run("verify")


@pytest.mark.parametrize("agent", AGENTS)
def test_exports_are_listed_and_redacted_in_place(run: Run, session: str, agent: str) -> None:
    file = resumed(run, session, agent)
    before = FORMATS[agent].split(file.read_bytes())
    mode = stat.S_IMODE(file.stat().st_mode)
    told = json.loads(run("purge", "--match", SECRET, "--dry-run", "--json"))
    assert [(each["path"], each["agent"], each["session"]) for each in told["exports"]] == [(str(file), agent, session)]
    assert SECRET in file.read_text()
    told = json.loads(run("purge", "--match", SECRET, "--exports", "--yes", "--json"))
    assert [each["redacted"] for each in told["exports"]] == [True]
    assert SECRET not in file.read_text()
    assert f"it is {MARK}, as said" in file.read_text()
    after = FORMATS[agent].split(file.read_bytes())
    assert [record.source_id for record in after.records] == [record.source_id for record in before.records]
    assert stat.S_IMODE(file.stat().st_mode) == mode
    assert not list(file.parent.glob(".gitsession-*"))


def test_redacted_export_is_not_imported_until_it_grows(run: Run, session: str) -> None:
    resumed(run, session, "codex")
    run("purge", "--match", SECRET, "--exports", "--yes")
    run("import", "--all")
    assert sessions(run) == [session]


def test_export_that_holds_nothing_of_it_is_not_imported_after_a_purge(run: Run, session: str, here: Path) -> None:
    resumed(run, session, "codex")
    lines = [header("0199-efgh", cwd=str(here)), said("eeee5555", None, "Go"), said("ffff6666", "eeee5555", "Yellow")]
    (here / "other.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    run("import", "other.jsonl")
    before = sessions(run)
    run("purge", "--match", "Yellow", "--yes")
    run("import", "--all")
    assert sessions(run) == before


@pytest.mark.parametrize("agent", AGENTS)
def test_unchanged_export_is_not_imported_after_a_purge_that_left_it(run: Run, session: str, agent: str) -> None:
    file = resumed(run, session, agent)
    run("purge", "--match", SECRET, "--yes")
    for _ in range(2):
        told = run("import", "--all")
        assert "1 file unchanged" in told or agent == "pi"  # its file is that of the session itself
    assert sessions(run) == [session]
    run("purge", "--match", "All is well", "--yes")
    run("import", "--all")
    assert sessions(run) == [session]
    run("purge", "--match", "login redirect", "--exports", "--yes")
    assert "login redirect" not in file.read_text()
    run("import", "--all")
    assert sessions(run) == [session]


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("options", [[], ["--exports"]])
def test_continued_export_is_imported_after_a_purge(run: Run, session: str, options: list[str], before: bool) -> None:
    file = resumed(run, session, "codex")
    more = codex_files.joined(codex_files.user("more"), codex_files.assistant("yes"))
    if before:
        file.write_bytes(file.read_bytes() + more)
    run("purge", "--match", SECRET, *options, "--yes")
    if not before:
        file.write_bytes(file.read_bytes() + more)
    run("import", "--all")
    assert len(sessions(run)) == 2
    run("search", SECRET, code=exits.NOTHING)


def test_unchanged_export_of_a_purged_session_is_not_imported(run: Run, session: str) -> None:
    resumed(run, session, "claude")
    run("purge", session, "--yes")
    for _ in range(2):
        run("import", "--all")
        assert sessions(run, exits.NOTHING) == []
    run("verify")


def test_option_is_only_suggested_if_it_was_not_given(run: Run, session: str) -> None:
    file = resumed(run, session, "claude")
    told = run("purge", "--match", SECRET, "--dry-run")
    assert f"still in: {file}: written for claude (pass --exports to redact it)" in told
    told = run("purge", "--match", SECRET, "--exports", "--yes")
    assert f"still in: {file}: written for claude\n" in told
    assert f"redacted: {file}" in told
    assert "pass --exports to redact it" not in told


def test_purged_entry_is_found_in_an_export_by_its_text(run: Run, session: str) -> None:
    file = resumed(run, session, "claude")
    log = json.loads(run("log", session, "--json"))["entries"]
    last = next(each["id"] for each in log if "All is well" in str(each))
    told = json.loads(run("purge", f"{session}@{last}", "--exports", "--yes", "--json"))
    assert [each["redacted"] for each in told["exports"]] == [True]
    assert "All is well" not in file.read_text()
    assert SECRET in file.read_text()


def test_purged_session_is_removed_from_its_exports_and_not_imported_again(run: Run, session: str) -> None:
    file = resumed(run, session, "claude")
    run("purge", session, "--yes")
    run("import", str(file))
    assert sessions(run, exits.NOTHING) == []
    run("verify")


def test_whole_session_is_hidden_in_its_export(run: Run, session: str) -> None:
    file = resumed(run, session, "claude")
    run("purge", session, "--exports", "--yes")
    for words in (SECRET, "All is well", "login redirect"):
        assert words not in file.read_text()


@pytest.mark.parametrize("agent", AGENTS)
def test_texts_without_a_space_are_hidden_in_the_export_of_a_whole_session(run: Run, here: Path, agent: str) -> None:
    texts = ["hunter2-alone", "\u8bf7\u628a\u6570\u636e\u5e93\u5220\u9664", "https://acme.dev/yellow"]
    lines = [header("0199-abcd", cwd=str(here))]
    for number, words in enumerate(texts):
        parent = f"aaaa111{number - 1}" if number else None
        lines.append(said(f"aaaa111{number}", parent, words, role=("user", "assistant")[number % 2], at=number))
    (here / "words.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    run("import", "words.jsonl")
    session = sessions(run)[0]
    file = resumed(run, session, agent)
    assert all(words in file.read_text() for words in texts)
    told = json.loads(run("purge", session, "--exports", "--yes", "--json"))
    assert [each["redacted"] for each in told["exports"]] == [True]
    assert [words for words in texts if words in file.read_text()] == []


def test_file_that_was_changed_since_is_searched(run: Run, session: str) -> None:
    file = resumed(run, session, "claude")
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines).replace(b"login redirect", b"login page"))
    told = json.loads(run("purge", "--match", SECRET, "--exports", "--yes", "--json"))
    assert [each["redacted"] for each in told["exports"]] == [True]
    assert SECRET not in file.read_text()
    assert "login page" in file.read_text()


def test_file_that_its_agent_could_not_read_stays_as_it_is(run: Run, session: str) -> None:
    file = resumed(run, session, "claude")
    before = file.read_bytes()
    told = json.loads(run("purge", "--match", "assistant", "--exports", "--yes", "--json", code=exits.REFUSED))
    assert [each["redacted"] for each in told["exports"]] == [False]
    assert "could not read the file" in told["exports"][0]["problem"]
    assert file.read_bytes() == before


def test_export_to_a_file_of_its_own_is_listed(run: Run, session: str, here: Path) -> None:
    run("export", session, "--to", "markdown", "-o", "page.md")
    told = json.loads(run("purge", "--match", SECRET, "--exports", "--yes", "--json"))
    assert [(each["path"], each["redacted"]) for each in told["exports"]] == [(str(here / "page.md"), True)]
    assert SECRET not in (here / "page.md").read_text()


def test_page_with_purged_entries_is_named_and_left_alone(run: Run, session: str, here: Path) -> None:
    run("export", session, "--to", "html", "-o", "page.html", "--yes")
    before = (here / "page.html").read_text()
    told = json.loads(run("purge", "--match", SECRET, "--exports", "--yes", "--json", code=exits.REFUSED))
    assert [(each["path"], each["redacted"]) for each in told["exports"]] == [(str(here / "page.html"), False)]
    assert "cannot be found reliably" in told["exports"][0]["problem"]
    assert (here / "page.html").read_text() == before


def test_export_that_became_a_link_is_listed_and_left_alone(run: Run, session: str, here: Path) -> None:
    run("export", session, "--to", "jsonl", "-o", "copy.jsonl")
    (here / "copy.jsonl").rename(here / "elsewhere.jsonl")
    (here / "copy.jsonl").symlink_to("elsewhere.jsonl")
    told = json.loads(run("purge", "--match", SECRET, "--exports", "--yes", "--json", code=exits.REFUSED))
    [export] = told["exports"]
    assert not export["redacted"]
    assert "link to elsewhere.jsonl" in export["problem"]
    assert SECRET in (here / "elsewhere.jsonl").read_text()
    assert (here / "copy.jsonl").is_symlink()


@pytest.mark.timeout(60)
def test_export_that_cannot_be_read_is_named(run: Run, session: str, here: Path) -> None:
    run("export", session, "--to", "jsonl", "-o", "copy.jsonl")
    (here / "copy.jsonl").unlink()
    os.mkfifo(here / "copy.jsonl")
    told = json.loads(run("purge", "--match", SECRET, "--dry-run", "--json"))
    assert [each["where"] for each in told["problems"]] == [str(here / "copy.jsonl")]
    assert "not a regular file" in told["problems"][0]["what"]


def test_export_made_while_a_purge_rewrites_the_list_stays_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewrite = local_records.rewrite_exports
    with Store.create(tmp_path / "store.git") as store, Store.open(tmp_path / "store.git") as other:
        session = store.new_session(agent="test")
        session.append(Message.user(SECRET))
        store.agents.record_export(session.id, tmp_path / "one", "jsonl", b"")
        (tmp_path / "one").write_text(SECRET)
        late = threading.Thread(target=other.agents.record_export, args=(session.id, tmp_path / "two", "jsonl", b""))

        def while_another_exports(git_dir: Path, listed: list[ExportedFile]) -> None:
            late.start()
            late.join(0.2)
            rewrite(git_dir, listed)

        monkeypatch.setattr(local_records, "rewrite_exports", while_another_exports)
        store.purges.apply(store.purges.plan(text=SECRET))
        late.join()
    listed = {Path(each.path).name for each in local_records.exports(tmp_path / "store.git")}
    assert listed == {"one", "two"}


def test_list_of_exports_is_local_and_holds_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with Store.create(tmp_path / "s.git") as store:
        session = store.new_session(agent="a", cwd=tmp_path)
        session.append(Message.user(SECRET))
        store.agents.resume(session.id, agent="claude", cwd=tmp_path)
        file = tmp_path / "s.git" / local_records.EXPORTS
        assert SECRET not in file.read_text()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        [before] = local_records.exports(store.objects.git_dir)
        assert len(before.digest) == 64
        plan = store.purges.plan(text=SECRET)
        store.purges.apply(plan)
        [after] = local_records.exports(store.objects.git_dir)
        assert (after.path, after.digest, after.conversation) == (before.path, "", "")
        assert (after.size, after.mtime_ns) == ((found := Path(after.path).stat()).st_size, found.st_mtime_ns)
        assert [each.problem for each in store.purges.redact_exports(plan)] == [""]
        assert text(session.history()) is not None


def test_redaction_keeps_keys_and_untouched_lines() -> None:
    hide = lambda value, _: value.replace("x1", MARK)  # noqa: E731
    data = b'{"x1": "a x1 b",  "n": 1}\n{ "spaced" : "as it was" }\nno json x1\n'
    assert redacted(data, hide) == b'{"x1":"a [purged] b","n":1}\n{ "spaced" : "as it was" }\nno json [purged]\n'
    inner = json.dumps({"out": json.dumps({"said": "x1"})}).encode()
    assert json.loads(json.loads(redacted(inner, hide))["out"]) == {"said": MARK}
