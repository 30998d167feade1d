"""Tests of the lookup of plugins and of broken plugins, which are reported by their distribution."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import header, said
from distributions import distribution

from gitsession import Message, PluginFailed, Store, SummaryFailed, plugins
from gitsession.compaction.prompts import find_prompt
from gitsession.compaction.summarizers import make
from gitsession.compaction.summarizers.options import Options
from gitsession.compaction.summary import Request, summarise
from gitsession.errors import NotFound
from gitsession.exporting.readable import find_writer
from gitsession.formats import FORMATS, claimed
from gitsession.redaction import own_rules
from gitsession.sessions import content

Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return a function that installs a distribution for this process (see ``distributions.distribution``)."""

    def install(*arguments: object, **options: object) -> Path:
        folder = distribution(tmp_path / f"packages-{len(sys.path)}", *arguments, **options)
        monkeypatch.syspath_prepend(folder)
        return folder

    monkeypatch.setattr(plugins, "_reported", set())
    return install


# Lookup


def test_name_is_looked_up_among_the_installed_distributions(install):
    assert plugins.find("formats", "notes") is None
    install({"formats:notes": "NOTES", "tokenizers:notes": "count"}, "NOTES = 1")
    plugin = plugins.find("formats", "notes")
    assert str(plugin) == "notes of acme-tools 1.0"
    assert plugin.load() == 1
    assert plugins.find("exporters", "notes") is None
    assert plugins.names("tokenizers", ["own"]) == ["own", "notes"]


@pytest.mark.parametrize("name", ["", "Notes", "a/b", "../a", "os:system", "a b", "a--b", "-a", "a" * 41, "ä", "a\n"])
def test_value_that_is_no_name_finds_nothing_and_is_reported(install, name):
    install({f"formats:{name}": "x"} if name.strip() and "\n" not in name and ":" not in name else {"formats:ok": "x"})
    assert plugins.find("formats", name) is None
    assert name not in plugins.of_kind("formats")


def test_two_distributions_with_one_name_are_refused(install):
    install({"tokenizers:words": "count"}, "count = len", name="one")
    install({"tokenizers:words": "count"}, "count = len", name="two")
    with pytest.raises(PluginFailed, match=r"has a plugin with this name, too") as caught:
        plugins.find("tokenizers", "words").load()
    assert "one" in str(caught.value)
    assert "two" in str(caught.value)


def test_newer_installation_of_a_distribution_hides_the_older_one(install):
    install({"tokenizers:words": "old"}, "old = 1", version="1.0")
    install({"tokenizers:words": "new"}, "new = 2", version="2.0")
    assert plugins.find("tokenizers", "words").load() == 2


DAMAGED = {
    "no metadata": ("METADATA", b""),
    "not text": ("METADATA", b"\xff\xfe\x00"),
    "entry points that are not text": ("entry_points.txt", b"[gitsession.formats]\n\xff = x"),
    "entry points without a value": ("entry_points.txt", b"[gitsession.formats]\nnotes\n"),
    "a line before the groups": ("entry_points.txt", b"x\n[gitsession.formats]\nnotes = x:y\n"),
}


@pytest.mark.parametrize(("file", "content"), DAMAGED.values(), ids=DAMAGED)
def test_damaged_metadata_of_one_distribution_does_not_hide_the_others(install, file, content):
    folder = install({"formats:notes": "x"}, name="damaged")
    [info] = folder.glob("*.dist-info")
    (info / file).write_bytes(content)
    install({"tokenizers:words": "count"}, "count = len")
    assert plugins.find("tokenizers", "words").load() is len


# Broken plugins

BROKEN = {
    "a syntax error": ("x = (", "SyntaxError"),
    "a missing module": ("import no_such_module_of_acme", "No module named 'no_such_module_of_acme'"),
    "an exit": ("raise SystemExit(3)", "SystemExit"),
    "an error with several lines": ("raise ValueError('one\\ntwo\\x1b[31m')", "one two"),
    "no attribute": ("", "has no attribute"),
}


@pytest.mark.parametrize(("code", "words"), BROKEN.values(), ids=BROKEN)
def test_plugin_that_cannot_be_imported_is_reported_by_its_distribution(install, code, words):
    install({"tokenizers:words": "count"}, code)
    with pytest.raises(PluginFailed) as caught:
        plugins.find("tokenizers", "words").load()
    begins = "cannot use the plugin 'words' of acme-tools 1.0 (entry points gitsession.tokenizers): the import failed: "
    assert str(caught.value).startswith(begins)
    assert words in str(caught.value)
    assert str(caught.value).isprintable()
    assert caught.value.hint == "update or uninstall acme-tools"


def test_interrupt_while_a_plugin_is_imported_is_passed_on(install):
    install({"tokenizers:words": "count"}, "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        plugins.find("tokenizers", "words").load()


FORMAT = """
from gitsession.formats import Format, Record, Source, WrittenFile
from gitsession.formats.base.outgoing import OutgoingLine
from gitsession.model.entries import Message
from gitsession.model.headline import Headline

class Notes(Format):
    AGENT = "notes"
    FORM = "txt"
    FILES = ("*.notes",)

    def claims(self, head):
        return head.startswith(b"notes")

    def split(self, data, *, name="", final=False):
        lines = data.split(b"\\n")[:-1]
        records = tuple(Record(at, line, at - 1 if at > 2 else None) for at, line in enumerate(lines[1:], 2))
        return Source(agent="notes", source_id="n", started_ms=1, records=records, meta=(Record(1, lines[0]),))

    def headline(self, payload, parsed=None):
        return Headline("message", "user", "user", payload.decode(), body=payload.decode())

    def read(self, payload):
        return Message.user(payload.decode())

    def write(self, out):
        return WrittenFile(tuple(OutgoingLine(each.line or b"x", each.key) for each in out.entries))
"""
NOTES = b"notes\none\ntwo\n"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path / "a.notes"
    path.write_bytes(NOTES)
    return path


def test_format_of_the_tests_works(install, notes):
    install({"formats:notes": "Notes"}, FORMAT)
    with Store.in_memory() as store:
        [done] = store.import_file(notes)
        assert store.export(done.session).data == NOTES
        assert [node.subject for node in store.session(done.session).history()][1:] == ["user: one", "user: two"]


WRONG_FORMATS = {
    "not a format": ("Notes = 7", "expected a Format, found int"),
    "an abstract class": ("from gitsession.formats import Format\nclass Notes(Format): AGENT = 'notes'", "abstract"),
    "another name": (FORMAT + "    AGENT = 'other'\n", "expected the AGENT 'notes', found 'other'"),
    "a form of gitsession": (FORMAT + "    FORM = 'cbor'\n", "FORM must be"),
    "a form with a slash": (FORMAT + "    FORM = 'a/b'\n", "FORM must be"),
    "text between": (FORMAT + "    BETWEEN = ''\n", "expected bytes in BETWEEN, found str"),
    "no patterns": (FORMAT + "    FILES = 7\n", "'int' object is not iterable"),
    "a wrong root": (FORMAT + "    ROOTS = ('x',)\n", "expected values of SearchRoot"),
    "a constructor that fails": (FORMAT + "    def __init__(self): raise OSError('no disk')\n", "OSError: no disk"),
}


@pytest.mark.parametrize(("code", "words"), WRONG_FORMATS.values(), ids=WRONG_FORMATS)
def test_wrong_format_is_an_error_if_it_is_named_and_a_warning_otherwise(install, notes, code, words, caplog):
    install({"formats:notes": "Notes"}, code)
    with Store.in_memory() as store:
        with pytest.raises(PluginFailed) as caught:
            store.import_file(notes, agent="notes")
        assert words in str(caught.value)
        assert "of acme-tools 1.0 (entry points gitsession.formats)" in str(caught.value)
        with pytest.raises(NotFound, match="unrecognized session format"):
            store.import_file(notes)
    [record] = caplog.records
    assert (record.name, record.levelno) == ("gitsession.plugins", logging.WARNING)
    assert str(caught.value) in record.getMessage()
    assert "update or uninstall acme-tools" in record.getMessage()


def test_broken_format_is_imported_once(install, notes, tmp_path):
    code = f"with open({str(tmp_path / 'log')!r}, 'a') as log: log.write('x')\nraise OSError('no disk')"
    install({"formats:notes": "Notes"}, code)
    for _ in range(3):
        assert FORMATS.get("notes") is None
        with pytest.raises(PluginFailed, match="the import failed: OSError: no disk"):
            FORMATS["notes"]
    assert (tmp_path / "log").read_text() == "x"


def method(body: str) -> str:
    return f"{FORMAT}\n    {body}\n"


FAILING = {
    "split raises": ("def split(self, data, **options): return 1 / 0", "split: ZeroDivisionError"),
    "split exits": ("def split(self, data, **options): raise SystemExit", "split: SystemExit"),
    "split returns nothing": ("def split(self, data, **options): pass", "split: expected a Source, found NoneType"),
    "another agent": (
        "def split(self, data, **options): return Source(agent='pi', source_id='n', started_ms=1, records=())",
        "expected a Source with the agent 'notes', found 'pi'",
    ),
    "no id": (
        "def split(self, data, **options): return Source(agent='notes', source_id='', started_ms=1, records=())",
        "the source_id is empty",
    ),
    "two records of one line": (
        "def split(self, data, **options): return Source("
        "agent='notes', source_id='n', started_ms=1, records=(Record(2, b'a'), Record(2, b'b')))",
        "the line 2 of a record",
    ),
    "a parent that follows": (
        "def split(self, data, **options): return Source("
        "agent='notes', source_id='n', started_ms=1, records=(Record(2, b'a', 3), Record(3, b'b')))",
        "the parent of line 2 is not an earlier record",
    ),
    "text as a payload": (
        "def split(self, data, **options): return Source("
        "agent='notes', source_id='n', started_ms=1, records=(Record(2, 'a'),))",
        "expected bytes in payload, found str",
    ),
    "headline raises": ("def headline(self, payload, parsed=None): return payload.x", "headline: AttributeError"),
    "headline of numbers": ("def headline(self, payload, parsed=None): return Headline(1, 2)", "expected text"),
}


@pytest.mark.parametrize(("body", "words"), FAILING.values(), ids=FAILING)
def test_import_with_a_failing_method_is_an_error_and_stores_nothing(install, notes, body, words):
    install({"formats:notes": "Notes"}, method(body))
    with Store.in_memory() as store:
        with pytest.raises(PluginFailed) as caught:
            store.import_file(notes)
        assert words in str(caught.value)
        assert store.sessions() == []


def test_error_of_a_format_for_a_file_without_a_session_is_kept(install, notes):
    code = "def split(self, data, **options):\n        from gitsession.errors import Malformed\n"
    install({"formats:notes": "Notes"}, method(code + "        raise Malformed('no notes in it')"))
    with Store.in_memory() as store, pytest.raises(Exception, match="no notes in it") as caught:
        store.import_file(notes)
    assert type(caught.value).__name__ == "Malformed"


def test_write_that_fails_is_an_error(install, notes):
    install({"formats:notes": "Notes"}, method("def write(self, out): return b'text'"))
    with Store.in_memory() as store:
        session = store.new_session(agent="my-agent")
        session.append(Message.user("hello"))
        with pytest.raises(PluginFailed, match="write: expected a WrittenFile, found bytes"):
            store.export(session.id, to="notes")


READS = {
    "raises": ("def read(self, payload): raise KeyError('x')", "read: KeyError: 'x'"),
    "wrong type": ("def read(self, payload): return 'text'", "read: expected an Entry, found str"),
}


@pytest.mark.parametrize(("body", "words"), READS.values(), ids=READS)
def test_read_that_fails_makes_the_entry_opaque(install, notes, body, words, caplog):
    install({"formats:notes": "Notes"}, method(body))
    with Store.in_memory() as store:
        [done] = store.import_file(notes)
        session = store.session(done.session)
        [node] = [node for node in session.history() if node.subject == "user: one"]
        entry = content.entry_of(store.objects, node)
        assert (entry.kind, entry.payload) == ("opaque", b"one")
        assert words in entry.problem
        assert len(store.sessions()) == 1
        assert store.export(done.session).data == NOTES
    assert len(caplog.records) == 1, "a failure is logged once"


def test_claims_that_fails_does_not_hide_other_formats(install, notes, caplog):
    install(
        {"formats:another": "Notes"}, FORMAT.replace('"notes"', '"another"').replace("head.starts", "head.no_starts")
    )
    install({"formats:notes": "Notes"}, FORMAT, name="other-tools")
    assert claimed(NOTES).AGENT == "notes"
    assert "claims: AttributeError" in caplog.text


def test_own_formats_and_names_come_first(install, tmp_path):
    code = FORMAT.replace('"notes"', '"pi"').replace('head.startswith(b"notes")', "True")
    install({"formats:pi": "Notes", "formats:markdown": "Notes", "exporters:markdown": "x"}, code)
    assert type(FORMATS["pi"]).__module__ == "gitsession.formats.pi.agent"
    assert "markdown" not in FORMATS
    assert find_writer("markdown").__name__ == "gitsession.exporting.markdown"
    assert claimed(b"unknown bytes") is None
    assert list(FORMATS).count("pi") == 1


EXPORTERS = {
    "not an exporter": ("x = print", "expected an Exporter, found builtin_function_or_method"),
    "a suffix with a slash": ("x = Exporter('/../x', lambda out, notes: '')", "the suffix must be"),
    "raises": ("x = Exporter('.x', lambda out, notes: 1 / 0)", "ZeroDivisionError"),
    "returns a number": ("x = Exporter('.x', lambda out, notes: 7)", "expected text or bytes, found int"),
    "takes no arguments": ("x = Exporter('.x', lambda: 7)", "TypeError"),
    "wrong notes": ("x = Exporter('.x', lambda out, notes: notes.update({'a': 'b'}) or '')", "TypeError"),
}


@pytest.mark.parametrize(("code", "words"), EXPORTERS.values(), ids=EXPORTERS)
def test_failing_exporter_is_an_error(install, code, words):
    install({"exporters:table": "x"}, f"from gitsession.exporting import Exporter\n{code}")
    with Store.in_memory() as store:
        session = store.new_session(agent="my-agent")
        session.append(Message.user("hello"))
        with pytest.raises(PluginFailed) as caught:
            store.export(session.id, to="table")
        assert words in str(caught.value)
        assert store.export(session.id, to="markdown").data


def test_format_takes_precedence_over_an_exporter_with_its_name(install):
    code = f"{FORMAT}\nfrom gitsession.exporting import Exporter\nx = Exporter('.x', lambda out, notes: 'table')"
    install({"formats:notes": "Notes", "exporters:notes": "x"}, code)
    with Store.in_memory() as store:
        session = store.new_session(agent="my-agent")
        session.append(Message.user("hello"))
        assert store.export(session.id, to="notes").data == b"x\n"


SUMMARIZERS = {
    "not a function": ("make = 7", "TypeError"),
    "no summarizer": ("def make(options): return 7", "expected an object with a method summarise, found int"),
    "raises": ("def make(options): raise OSError('no key')", "OSError: no key"),
}


@pytest.mark.parametrize(("code", "words"), SUMMARIZERS.values(), ids=SUMMARIZERS)
def test_summarizer_that_cannot_be_made_is_an_error(install, code, words):
    install({"summarizers:short": "make"}, code)
    with pytest.raises(PluginFailed) as caught:
        make(Options(name="short"))
    assert words in str(caught.value)
    assert make(Options()).NAME == "extractive"


def test_failure_of_a_summarizer_names_its_distribution(install):
    code = (
        "class S:\n def summarise(self, request, *, progress, cancelled): return 1 / 0\ndef make(options): return S()"
    )
    install({"summarizers:short": "make"}, code)
    with pytest.raises(SummaryFailed, match=r"'short' of acme-tools 1\.0 .*ZeroDivisionError") as caught:
        summarise(make(Options(name="short")), Request(items=()))
    assert caught.value.hint == "update or uninstall acme-tools"


def test_prompt_of_the_wrong_type_is_an_error(install):
    install({"prompts:pirate": "write"}, "def write(request): return 'be a pirate'")
    with pytest.raises(PluginFailed, match="expected a Prompt, found str"):
        find_prompt("pirate")(Request(items=()))


TOKENIZERS = {
    "not a function": ("count = 7", "expected a function, found int"),
    "raises": ("def count(text, model): return 1 / 0", "ZeroDivisionError"),
    "negative": ("def count(text, model): return -len(text)", "expected a number of tokens, found int -"),
    "a float": ("def count(text, model): return len(text) / 4", "expected a number of tokens, found float"),
    "sometimes nothing": ("def count(text, model): return None if text else 0", "found NoneType"),
}


@pytest.mark.parametrize(("code", "words"), TOKENIZERS.values(), ids=TOKENIZERS)
def test_failing_tokenizer_is_an_error_of_contexts_only(install, code, words):
    install({"tokenizers:words": "count"}, code)
    subprocess.run(["git", "config", "--global", "gitsession.tokenizer", "words"], check=True)
    with Store.in_memory() as store:
        session = store.new_session(agent="my-agent")
        session.append(Message.user("hello"))
        with pytest.raises(PluginFailed) as caught:
            session.context()
        assert words in str(caught.value)
        session.append(Message.user("hello again"))
        assert len(store.sessions()) == 1


GOOD_RULE = 'Rule("acme-key", rb"acme_[0-9]{8}", (b"acme_",), samples=("acme_12345678",))'
RULES = {
    "not a list": ("RULES = 7", "expected a list of Rule, found int"),
    "not rules": ("RULES = ['acme']", "expected a list of Rule, found str"),
    "the name of a rule of gitsession": ('RULES = [Rule("jwt", rb"acme", (), samples=("acme",))]', "already in use"),
    "no samples": ('RULES = [Rule("acme", rb"acme", ())]', "samples must have at least one text"),
    "a sample that does not match": ('RULES = [Rule("acme", rb"acme", (), samples=("x",))]', "does not match"),
    "exponential": ('RULES = [Rule("acme", rb"(a+)+b", (), samples=("aab",))]', "exponential"),
    "text as a pattern": ('RULES = [Rule("acme", "acme", (), samples=("acme",))]', "TypeError"),
    "a check that raises": (
        'RULES = [Rule("acme", rb"acme", (), check=lambda found: 1 / 0, samples=("acme",))]',
        "ZeroDivisionError",
    ),
    "a check that returns text": (
        'RULES = [Rule("acme", rb"acme", (), check=lambda found: "yes", samples=("acme",))]',
        "expected True or False from the rule acme, found str",
    ),
}


@pytest.mark.parametrize(("code", "words"), RULES.values(), ids=RULES)
def test_wrong_secret_rules_are_refused(install, tmp_path, code, words):
    install({"secrets:acme": "RULES"}, f"from gitsession.redaction.rule import Rule\n{code}")
    (tmp_path / "rules.toml").write_text('plugins = ["acme"]')
    with pytest.raises(PluginFailed) as caught:
        own_rules.read(tmp_path / "rules.toml")
    assert words in str(caught.value)
    assert "of acme-tools 1.0 (entry points gitsession.secrets)" in str(caught.value)


def test_nothing_is_written_if_a_check_fails_later(install, tmp_path):
    check = "check=lambda found: found == b'acme_12345678' or 1 / 0, samples"
    code = f"from gitsession.redaction.rule import Rule\nRULES = [{GOOD_RULE.replace('samples', check)}]"
    install({"secrets:acme": "RULES"}, code)
    with Store.create(tmp_path / "s.git") as store:
        session = store.new_session(agent="my-agent")
        session.append(Message.user("hello"))
    (tmp_path / "s.git/rules.toml").write_text('plugins = ["acme"]')
    with open(tmp_path / "s.git/config", "a") as file:
        file.write("[gitsession]\n\trules = rules.toml\n")
    with Store.open(tmp_path / "s.git") as store:
        again = store.session(session.id)
        with pytest.raises(PluginFailed, match="ZeroDivisionError"):
            again.append(Message.user("use acme_87654321"))
        again.append(Message.user("use acme_12345678"))
    with Store.open(tmp_path / "s.git") as store:
        subjects = [node.subject for node in store.session(session.id).history()]
    assert subjects[1:] == ["user: hello", "user: use [redacted:acme-key]"]


def test_two_plugins_with_a_rule_of_one_name_are_refused(install, tmp_path):
    code = f"from gitsession.redaction.rule import Rule\nRULES = [{GOOD_RULE}]"
    install({"secrets:one": "RULES", "secrets:two": "RULES"}, code)
    (tmp_path / "rules.toml").write_text('plugins = ["one", "two"]')
    with pytest.raises(Exception, match="two rules have the name 'acme-key'"):
        own_rules.read(tmp_path / "rules.toml")


# The command line


def run(folder: Path, path: Path | None, *words: str, input: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "GITSESSION_DIR": str(folder / "store.git"), "PYTHONPATH": str(path or "")}
    command = [sys.executable, "-m", "gitsession", *words]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env=environment, input=input
    )


def test_broken_plugins_are_listed_by_doctor_and_break_no_other_command(tmp_path):
    broken = distribution(
        tmp_path / "packages",
        {f"{kind}:broken": "x" for kind in plugins.KINDS} | {"formats:claude": "x", "exporters:Bad_Name": "x"},
        "raise RuntimeError('out of order')",
    )
    (tmp_path / "s.jsonl").write_bytes(header(cwd=str(tmp_path)) + b"\n" + said("a", None, "hello") + b"\n")
    for words in (["import", "s.jsonl"], ["ls"], ["show", "@"], ["context", "@"], ["export", "@"], ["verify"]):
        done = run(tmp_path, broken, *words)
        assert (done.returncode, done.stderr) == (0, ""), words
    done = run(tmp_path, broken, "doctor")
    told = " ".join(done.stdout.split())
    assert done.returncode == 5
    for kind in plugins.KINDS:
        group = f"'broken' of acme-tools 1.0 (entry points gitsession.{kind}): the import failed: RuntimeError"
        assert f"!! {kind} cannot use the plugin {group}" in told
    assert "'claude' of acme-tools 1.0 (entry points gitsession.formats): gitsession itself uses this name" in told
    assert "'Bad_Name' of acme-tools 1.0 (entry points gitsession.exporters): the name is not" in told
    assert "update or uninstall acme-tools" in told


def test_command_that_needs_a_list_of_formats_warns_and_continues(tmp_path):
    broken = distribution(tmp_path / "packages", {"formats:broken": "x"}, "raise RuntimeError('out of order')")
    (tmp_path / "s.jsonl").write_bytes(header(cwd=str(tmp_path)) + b"\n" + said("a", None, "hello") + b"\n")
    done = run(tmp_path, broken, "import", ".")
    assert done.returncode == 0
    assert done.stderr.count("warning: cannot use the plugin 'broken' of acme-tools 1.0") == 1
    assert "Traceback" not in done.stderr
    done = run(tmp_path, broken, "import", "--from", "broken", "s.jsonl")
    assert done.returncode == 75
    assert done.stderr.startswith("error: cannot use the plugin 'broken' of acme-tools 1.0")
    assert "hint: update or uninstall acme-tools" in done.stderr


def test_output_of_a_plugin_does_not_mix_with_that_of_gitsession(tmp_path):
    code = "print('imported')\ndef noisy(text, model): print('called'); return len(text)"
    points = {"formats:noisy": "noisy", "tokenizers:noisy": "noisy"}
    noisy = distribution(tmp_path / "packages", points, code)
    (tmp_path / "s.jsonl").write_bytes(header(cwd=str(tmp_path)) + b"\n" + said("a", None, "hello") + b"\n")
    done = run(tmp_path, noisy, "import", ".", "--json")
    assert json.loads(done.stdout)
    assert "imported" in done.stderr
    subprocess.run(["git", "config", "--global", "gitsession.tokenizer", "noisy"], check=True)
    request = {"jsonrpc": "2.0", "id": 1, "method": "context", "params": {"session": "@"}}
    done = run(tmp_path, noisy, "rpc", input=json.dumps(request) + "\n")
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1]
    assert "called" in done.stderr


# Security


@pytest.mark.promise("P33")
def test_working_directory_and_store_offer_no_plugins(tmp_path, faults):
    """The folder of somebody else's checkout, and a received store, look like an installation."""
    dead = tmp_path / "DEAD"
    code = f"open({str(dead)!r}, 'w').close()\n"
    points = {f"{kind}:evil": "x" for kind in plugins.KINDS}
    work = distribution(tmp_path / "work", points, code)
    works = run(work, distribution(tmp_path / "installed", points, code), "doctor")
    assert dead.exists(), works.stderr
    dead.unlink()
    (work / "s.jsonl").write_bytes(header(cwd=str(work)) + b"\n" + said("a", None, "hello") + b"\n")
    subprocess.run(["git", "config", "--global", "gitsession.tokenizer", "evil"], check=True)
    distribution(work / "store.git-parts", points, code)
    assert run(work, None, "import", "s.jsonl").returncode == 0
    for part in (work / "store.git-parts").iterdir():
        part.rename(work / "store.git" / part.name)
    for words in (["doctor"], ["import", "--from", "evil", "s.jsonl"], ["export", "@", "--to", "evil"],
                  ["compact", "@", "--summarizer", "evil", "--keep-tokens", "1"], ["context", "@"], ["import", "."],
                  ["import", "--all"], ["--store", ".", "ls"]):  # fmt: skip
        for path in (None, ".", work):
            done = run(work, path, *words)
            assert not dead.exists(), f"{words}: {done.stderr}"
            assert "Traceback" not in done.stderr
            faults.many(1)


@pytest.mark.promise("P33")
def test_names_in_a_store_select_only_installed_plugins(install, tmp_path, faults):
    """A store can name an agent, and its rules file can name plugins. Neither is a module or a path."""
    dead = tmp_path / "DEAD"
    (tmp_path / "evil.py").write_text(f"open({str(dead)!r}, 'w').close()\nRULES = []\n")
    install({"formats:notes": "Notes"}, FORMAT)
    for name in ("evil", "evil:RULES", "../evil", str(tmp_path / "evil.py"), "os:system", "this", "a" * 1000):
        (tmp_path / "rules.toml").write_text(f"plugins = [{name!r}]")
        with pytest.raises(NotFound, match="no installed package has the plugin"):
            own_rules.read(tmp_path / "rules.toml")
        assert name not in FORMATS
        assert FORMATS.get(name) is None
        assert find_writer(name) is None
        assert not dead.exists()
        assert "this" not in sys.modules
        faults.many(1)
