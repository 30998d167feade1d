"""Tests of the example package: pip installs it, and the command line and the library use each of its plugins."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from places import TESTS

from gitsession import Message, Request, Store, Todo, TodoItem
from gitsession.compaction.prompts import find_prompt
from gitsession.compaction.serialise import serialise
from gitsession.compaction.summarizers import summarizer
from gitsession.compaction.summary import summarise
from gitsession.discovery.sources import LoadedSession
from gitsession.formats import FORMATS

Gitsession = Callable[..., str]

LOG = b"chatlog 1 standup 1767225600000\nuser: What is the plan?\nassistant: First the tests,\\nthen the code.\n"
KEY, OTHER = "acme_1234567890123450", "acme_1234567890123451"


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the example package with pip, without a network, and return the folder."""
    folder = tmp_path_factory.mktemp("packages")
    options = ("--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check")
    command = [sys.executable, "-m", "pip", "install", *options, "--target", folder, TESTS / "plugins/example"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": ""})
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def gitsession(packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gitsession:
    """Return a function that runs a command in another process in which the package is installed."""
    monkeypatch.setenv("PYTHONPATH", str(packages))
    monkeypatch.setenv("GITSESSION_DIR", str(tmp_path / "store.git"))
    (tmp_path / "work").mkdir()
    (tmp_path / "work/standup.chatlog").write_bytes(LOG)

    def gitsession(*words: str, code: int = 0, err: bool = False) -> str:
        command = [sys.executable, "-m", "gitsession", *words]
        done = subprocess.run(command, cwd=tmp_path / "work", capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr if err else done.stdout

    return gitsession


@pytest.fixture
def installed(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the package for this process."""
    monkeypatch.syspath_prepend(packages)


def set_globally(key: str, value: str) -> None:
    subprocess.run(["git", "config", "--global", key, value], check=True)


# Formats


def test_file_of_the_format_is_detected_and_exported_unchanged(gitsession):
    gitsession("import", "standup.chatlog")
    [session] = json.loads(gitsession("ls", "--json"))["sessions"]
    assert (session["agent"], session["source_id"], session["entries"]) == ("chatlog", "standup", 2)
    assert gitsession("export", "standup").encode() == LOG
    assert gitsession("export", "standup", "--original").encode() == LOG
    assert "then the code." in gitsession("show", "standup")
    assert "plan" in gitsession("search", "plan")
    assert "0 problems" in gitsession("verify")


def test_folders_of_the_format_are_searched(gitsession, tmp_path, monkeypatch):
    chats = Path.home() / "chats"
    chats.mkdir()
    (chats / "one.chatlog").write_bytes(LOG)
    assert len(json.loads(gitsession("import", "--all", "--json"))["sessions"]) == 1
    assert "unchanged" in gitsession("import", str(chats), "--from", "chatlog")
    monkeypatch.setenv("CHATLOG_HOME", str(tmp_path / "work"))
    (tmp_path / "work/two.chatlog").write_bytes(LOG.replace(b"standup", b"retro"))
    gitsession("import", "--all")
    found = json.loads(gitsession("ls", "--json"))["sessions"]
    assert {session["source_id"] for session in found} == {"standup", "retro"}


def test_a_longer_file_adds_its_new_entries(gitsession, tmp_path):
    gitsession("import", "standup.chatlog")
    longer = LOG + b"user: And then?\nassistant: Nothing"
    (tmp_path / "work/standup.chatlog").write_bytes(longer)
    gitsession("import", "standup.chatlog")
    assert gitsession("export", "standup").encode() == longer.rpartition(b"\n")[0] + b"\n"
    gitsession("import", "--final", "standup.chatlog")
    assert gitsession("export", "standup").encode() == longer


def test_session_continues_in_the_format_of_another_agent_and_back(gitsession):
    gitsession("import", "standup.chatlog")
    gitsession("export", "standup", "--to", "pi", "-o", "session.jsonl")
    gitsession("import", "session.jsonl")
    [pi] = json.loads(gitsession("ls", "--json", "--agent", "pi"))["sessions"]
    assert gitsession("export", pi["session"], "--to", "chatlog").encode().split(b"\n")[1:] == LOG.split(b"\n")[1:]


def test_session_of_another_agent_is_resumed_in_the_format(gitsession, tmp_path):
    with Store.create(os.environ["GITSESSION_DIR"]) as store:
        session = store.new_session(agent="my-agent", cwd=str(tmp_path / "work"))
        session.append(Message.user("What is the plan?"))
    assert "chat --continue" in gitsession("resume", session.id, "--in", "chatlog")
    [file] = (Path.home() / "chats").iterdir()
    assert file.read_bytes().endswith(b"\nuser: What is the plan?\n")
    with file.open("ab") as log:
        log.write(b"assistant: None yet.\n")
    gitsession("import", str(file))
    [row] = json.loads(gitsession("ls", "--json"))["sessions"]
    assert row["session"] == session.id
    assert "None yet." in gitsession("tree", session.id)
    assert "chatlog" in gitsession("resume", session.id, "--in", "nothing", code=2, err=True)


def test_entries_that_were_fetched_before_the_installation_are_found_after_it(gitsession, tmp_path, monkeypatch):
    gitsession("import", "standup.chatlog")
    packages = os.environ["PYTHONPATH"]
    monkeypatch.setenv("GITSESSION_DIR", str(tmp_path / "clone.git"))
    monkeypatch.delenv("PYTHONPATH")
    gitsession("clone", str(tmp_path / "store.git"))
    assert gitsession("search", "plan", code=1) == ""
    monkeypatch.setenv("PYTHONPATH", packages)
    assert "What is the plan?" in gitsession("context", "standup")
    for name in ("index.db", "search.db"):  # they have no text of entries that could not be read
        (tmp_path / "clone.git/gitsession" / name).unlink()
    assert "plan" in gitsession("search", "plan")


def test_json_lines_of_the_format_are_imported_again(gitsession, tmp_path, monkeypatch):
    gitsession("import", "standup.chatlog")
    gitsession("export", "standup", "--to", "jsonl", "-o", "session.jsonl")
    monkeypatch.setenv("GITSESSION_DIR", str(tmp_path / "other.git"))
    gitsession("import", "session.jsonl", "--from", "jsonl")
    assert gitsession("export", "standup").encode() == LOG
    monkeypatch.delenv("PYTHONPATH")
    monkeypatch.setenv("GITSESSION_DIR", str(tmp_path / "third.git"))
    assert "unknown agent or form: 'chatlog'" in gitsession(
        "import", "session.jsonl", "--from", "jsonl", code=5, err=True
    )


def test_a_secret_in_a_file_of_the_format_is_redacted(gitsession, tmp_path):
    token = "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345"
    (tmp_path / "work/standup.chatlog").write_bytes(LOG + f"user: use {token}\n".encode())
    gitsession("import", "standup.chatlog")
    assert "[redacted:" in gitsession("export", "standup")
    assert token in gitsession("export", "standup", "--with-secrets")


def ids_in(lines: str) -> list[str]:
    return [json.loads(line)["id"] for line in lines.splitlines() if '"type":"entry"' in line]


def test_without_the_package_sessions_are_listed_and_their_entries_are_opaque(gitsession, monkeypatch):
    gitsession("import", "standup.chatlog")
    ids = ids_in(gitsession("export", "standup", "--to", "jsonl"))
    monkeypatch.delenv("PYTHONPATH")
    assert "chatlog" in gitsession("ls")
    assert "user: What is the plan?" in gitsession("log", "standup")
    assert "unknown agent 'chatlog'" in gitsession("show", "standup")
    assert "0 problems" in gitsession("verify")
    for words in (("export", "standup"), ("export", "standup", "--original")):
        assert "'chatlog': the agent is not supported" in gitsession(*words, code=4, err=True)
    assert "unrecognized session format" in gitsession("import", "standup.chatlog", code=3, err=True)
    assert "unknown format 'chatlog'" in gitsession("import", "--from", "chatlog", "x", code=2, err=True)
    assert ids_in(gitsession("export", "standup", "--to", "jsonl")) == ids


def test_server_accepts_a_push_with_and_without_the_package(gitsession, tmp_path, monkeypatch):
    gitsession("import", "standup.chatlog")
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", tmp_path / "hub.git"], check=True)
    gitsession("server", "install", str(tmp_path / "hub.git"))
    gitsession("remote", "add", "origin", str(tmp_path / "hub.git"), "--all")
    gitsession("push")
    monkeypatch.setenv("GITSESSION_DIR", str(tmp_path / "clone.git"))
    monkeypatch.delenv("PYTHONPATH")
    gitsession("clone", str(tmp_path / "hub.git"))
    assert "What is the plan?" in gitsession("log", "standup")


texts = st.text(st.characters(blacklist_categories=["Cs"]), max_size=40)
conversations = st.lists(st.tuples(st.sampled_from(["user", "assistant"]), texts), max_size=8)


@given(conversations, st.booleans())
def test_a_log_is_split_and_joined_without_a_change(installed, messages, ends):
    from gitsession_example.chatlog import message_line

    lines = [LOG.partition(b"\n")[0], *(message_line(role, text) for role, text in messages)]
    data = b"\n".join(lines) + (b"\n" if ends else b"")
    source = FORMATS["chatlog"].split(data, final=True)
    records = sorted((*source.meta, *source.records), key=lambda record: record.line)
    assert [record.payload for record in records] == lines
    entries = [FORMATS["chatlog"].read(record.payload) for record in source.records]
    assert [(entry.role, entry.text) for entry in entries] == messages


@settings(max_examples=40)
@given(data=st.binary(max_size=200))
def test_any_bytes_after_the_header_are_kept(installed, data):
    log = LOG + data
    with Store.in_memory() as store:
        loaded = LoadedSession(FORMATS["chatlog"].split(log, final=True), {}, [])
        done = store.agents.import_session(FORMATS["chatlog"], loaded)
        assert store.export(done.session).data == log


@settings(max_examples=30)
@given(conversations)
def test_a_conversation_survives_the_format(installed, tmp_path_factory, messages):
    path = tmp_path_factory.mktemp("log") / "a.chatlog"
    with Store.in_memory() as store:
        session = store.new_session(agent="my-agent")
        session.append(Message.user("begin"))
        session.append_all(
            [Message.user(text) if role == "user" else Message.assistant(text) for role, text in messages]
        )
        path.write_bytes(store.export(session.id, to="chatlog").data)
        [done] = store.import_file(path)
        found = [entry for _, entry in store.session(done.session).entries() if isinstance(entry, Message)]
        assert [(entry.role, entry.text) for entry in found[::-1]] == [("user", "begin"), *messages]


# Exporters


def test_exporter_writes_a_table(gitsession, tmp_path):
    gitsession("import", "standup.chatlog")
    table = list(csv.reader(io.StringIO(gitsession("export", "standup", "--to", "csv"))))
    assert [row[1:] for row in table] == [
        ["role", "text"],
        ["user", "What is the plan?"],
        ["assistant", "First the tests,\nthen the code."],
    ]
    (tmp_path / "work/out").mkdir()
    gitsession("export", "standup", "--to", "csv", "-o", "out")
    [file] = (tmp_path / "work/out").iterdir()
    assert file.suffix == ".csv"
    assert file.read_text().startswith("time_ms,role,text\n")


def test_library_exports_with_the_exporter(installed):
    with Store.in_memory() as store:
        session = store.new_session(agent="my-agent")
        session.append(Message.user("Hello, world"))
        session.append(Todo(items=(TodoItem("Answer"),)))
        sent = store.export(session.id, to="csv")
        assert sent.data.decode().splitlines()[1].endswith('user,"Hello, world"')
        assert (sent.agent, sent.path) == ("csv", f"{session.id}.csv")
        assert sent.notes == {"left out: entries that are not messages": 1}


# Summarizers and prompts


def test_summarizer_writes_a_compaction(gitsession, tmp_path):
    body = "".join(f"user: Question {number}?\nassistant: {'words ' * 200}\n" for number in range(9)).encode()
    (tmp_path / "work/standup.chatlog").write_bytes(LOG + body)
    gitsession("import", "standup.chatlog")
    gitsession("compact", "standup", "--summarizer", "questions", "--keep-tokens", "300")
    assert "- Question 0?" in gitsession("context", "standup")
    assert "questions" in gitsession("show", "standup", "--json")


def test_library_uses_the_summarizer_and_the_prompt(installed):
    request = Request(items=serialise([Message.user("Why is it slow?"), Message.assistant("It sorts twice. " * 9)]))
    assert summarise(summarizer("questions"), request).text == "The user asked:\n- Why is it slow?\n"
    assert "haiku" in find_prompt("haiku")(request).system


# Tokenizers


def counts(context: str) -> tuple[int, bool, str]:
    tokens = json.loads(context)["tokens"]
    return tokens["used"], tokens["exact"], tokens["source"]


def test_tokenizer_counts_for_the_models_that_it_knows(gitsession):
    with Store.create(os.environ["GITSESSION_DIR"]) as store:
        known, unknown = (store.new_session(agent="my-agent") for _ in range(2))
        for session, provider in ((known, "example"), (unknown, "other")):
            session.append(Message.user("one two three"))
            session.append(Message.assistant("four five", provider=provider, model="small"))
    before = [counts(gitsession("context", each.id, "--json")) for each in (known, unknown)]
    assert before[0] == before[1] != (5, True, "tokenizer")
    set_globally("gitsession.tokenizer", "words")
    assert counts(gitsession("context", known.id, "--json")) == (5, True, "tokenizer")
    assert counts(gitsession("context", unknown.id, "--json")) == before[1]
    set_globally("gitsession.tokenizer", "estimate")
    assert counts(gitsession("context", known.id, "--json"))[1:] == (False, "estimate")


def test_setting_of_a_store_selects_no_tokenizer(gitsession):
    gitsession("import", "standup.chatlog")
    gitsession("git", "config", "gitsession.tokenizer", "nothing")
    assert counts(gitsession("context", "standup", "--json"))[2] == "estimate"


def test_library_counts_with_the_tokenizer(installed):
    with Store.in_memory() as store:
        session = store.new_session(agent="my-agent")
        session.append(Message.user("one two three"))
        session.append(Message.assistant("four five", provider="example", model="small"))
        before = session.context().tokens.used
        set_globally("gitsession.tokenizer", "words")
        assert session.context().tokens.used == 5 != before


# Secret rules


def with_rules(gitsession: Gitsession, tmp_path: Path, text: str) -> None:
    gitsession("init")
    (tmp_path / "store.git/rules.toml").write_text(text)
    gitsession("git", "config", "gitsession.rules", "rules.toml")


def test_secret_of_a_plugin_rule_is_redacted_if_its_check_accepts_it(gitsession, tmp_path):
    with_rules(gitsession, tmp_path, 'plugins = ["acme"]\n')
    (tmp_path / "work/standup.chatlog").write_bytes(LOG + f"user: {KEY} and {OTHER}\n".encode())
    gitsession("import", "standup.chatlog")
    assert f"[redacted:acme-key] and {OTHER}" in gitsession("export", "standup")
    assert KEY in gitsession("export", "standup", "--with-secrets")
    assert "1 rule of your own (plugins: acme)" in gitsession("doctor")


def test_nothing_is_written_without_the_package_of_the_rules(gitsession, tmp_path, monkeypatch):
    with_rules(gitsession, tmp_path, 'plugins = ["acme"]\n')
    monkeypatch.delenv("PYTHONPATH")
    (tmp_path / "work/pi.jsonl").write_bytes(b'{"type":"session","id":"s","version":3,"timestamp":"2026-01-01"}\n')
    told = gitsession("import", "pi.jsonl", code=3, err=True)
    assert "no installed package has the plugin 'acme'" in told
    assert "install the package with these rules" in told
    assert json.loads(gitsession("ls", "--json", code=1))["sessions"] == []


# All


def test_doctor_lists_the_plugins(gitsession):
    gitsession("init")
    lines = [" ".join(line.split()) for line in gitsession("doctor").splitlines()]
    for kind, name in {
        "formats": "chatlog", "exporters": "csv", "summarizers": "questions", "prompts": "haiku",
        "tokenizers": "words", "secrets": "acme",
    }.items():  # fmt: skip
        assert f"ok {kind} {name} of gitsession-example 1.0" in lines


def test_unknown_names_are_answered_with_the_names_of_plugins(gitsession):
    gitsession("import", "standup.chatlog")
    assert "csv" in gitsession("export", "standup", "--to", "nothing", code=2, err=True)
    assert "chatlog" in gitsession("import", "--from", "nothing", "x", code=2, err=True)
    assert "questions" in gitsession(
        "compact", "standup", "--keep-tokens", "1", "--summarizer", "nothing", code=3, err=True
    )
    set_globally("gitsession.tokenizer", "nothing")
    assert "words" in gitsession("context", "standup", code=3, err=True)


def test_commands_that_use_no_plugin_do_not_look_for_any(gitsession, packages):
    gitsession("import", "standup.chatlog")
    program = (
        "import os, sys; os._exit = sys.exit; sys.argv = ['gitsession', *sys.argv[1:]]\n"
        "from gitsession.__main__ import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(*sys.modules)"
    )
    for words in (["ls"], ["log", "standup"], ["tree", "standup"]):
        done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=True)
        modules = set(done.stdout.split())
        assert not modules & {"importlib.metadata", "gitsession_example", "gitsession.plugins"}, words
