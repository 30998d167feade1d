"""Tests of the documentation: every command block runs, and every command and decision is described."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from builders import header, said, talk
from commands import Run
from places import ROOT

from gitsession import Store
from gitsession.cli.app import gitsession

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_COMMANDS = [page for page in PAGES if "```console" in page.read_text()]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create the folder that the pages assume.

    It has a session file and the examples; ``gitsession`` and ``python`` are on the PATH.
    """
    place = tmp_path / "work"
    place.mkdir()
    lines = [
        header("docs", cwd=str(place)),
        said("a0000001", None, "Say hello", at=1),
        said("a0000002", "a0000001", "hello, world", role="assistant", at=2),
    ]
    (place / "session.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    shutil.copytree(ROOT / "docs/examples", place / "docs/examples")
    agents = Path.home() / ".pi/agent/sessions/--work--"
    agents.mkdir(parents=True)
    shutil.copy(place / "session.jsonl", agents / "2026-02-01T00-00-00-000Z_docs.jsonl")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, words in (("gitsession", f'"{sys.executable}" -m gitsession'), ("python", f'"{sys.executable}"')):
        (programs / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    return place


def prepared(folder: Path) -> Path:
    """Import the sample session, as the how-to guides assume, and return its project."""
    examples = folder / "docs/examples"
    [session] = examples.glob("claude/projects/*/*.jsonl")
    session.write_text(session.read_text().replace("/home/ada/shop", str(examples / "shop")))
    subprocess.run(["gitsession", "import", str(examples / "claude")], check=True, capture_output=True)
    return examples / "shop"


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.name)
def test_every_command_of_a_page_runs_unchanged(page: Path, folder: Path) -> None:
    lines = [line for block in blocks(page, "console") for line in block.splitlines()]
    assert all(line.startswith("$ ") for line in lines), "a console block holds commands only"
    script = "\n".join(line.removeprefix("$ ") for line in lines)
    place = ROOT if page.name == "contributing.md" else folder
    if page.parent.name == "how-to":
        place = prepared(folder)
    done = subprocess.run(
        ["bash", "-xeuo", "pipefail", "-c", script], cwd=place, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


def test_program_of_the_readme_runs_unchanged(folder: Path) -> None:
    [program] = blocks(ROOT / "README.md", "python")
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "user: Fix the login redirect" in done.stdout


def test_program_of_the_library_guide_runs_unchanged(folder: Path) -> None:
    program = "\n".join(blocks(ROOT / "docs/how-to/write-an-agent.md", "python"))
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "assistant: hello.txt is there now." in done.stdout and "['Test it']\n()\n" in done.stdout
    assert (folder / "project/hello.txt").read_text() == "hello\n"


def test_programs_of_the_compaction_page_run_unchanged(folder: Path) -> None:
    programs = blocks(ROOT / "docs/reference/compaction.md", "python")
    outputs = ["2953 tokens now, 6640 before", "a compaction is due", "Fix the login redirect"]
    for program, begins in zip(programs, outputs, strict=True):
        done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(begins)


def test_program_of_the_contexts_page_runs_unchanged(folder: Path) -> None:
    [program] = blocks(ROOT / "docs/reference/context.md", "python")
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Fix the login redirect" in done.stdout


def test_program_of_the_plugins_page_runs_unchanged() -> None:
    [program] = blocks(ROOT / "docs/reference/plugins.md", "python")
    program += """
from gitsession import Message, Store
with Store.in_memory() as store:
    session = store.new_session(agent="my-agent")
    session.append(Message.user("Hello"))
    from gitsession.exporting.gather import gather
    class Target: AGENT = "kinds"
    notes = Counter()
    assert kinds.write(gather(store.objects, session.id, Target).out, notes) == "message\\n", notes
    assert +notes == {}
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_programs_of_the_live_page_run_unchanged(folder: Path) -> None:
    programs = blocks(ROOT / "docs/explanation/live.md", "python")
    assert len(programs) == 2
    for program in programs:
        done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_program_of_the_sync_page_runs_unchanged(folder: Path) -> None:
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", "hub.git"], cwd=folder, check=True)
    [program] = blocks(ROOT / "docs/explanation/sync.md", "python")
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[('refs/heads/main', 'ahead')]\n"


def test_program_of_the_git_page_runs_unchanged(folder: Path) -> None:
    [program] = blocks(ROOT / "docs/reference/git.md", "python")
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    walked, changed, *blamed, counted = done.stdout.splitlines()
    assert (walked, changed, counted) == ("['assistant', 'user', 'session']", "['entry.cbor']", "(1, 0)")
    # Random bytes of an entry can contain line ends. Then there is more than one line of blame.
    assert all(re.fullmatch("[1-9] (assistant|user|session)", line) for line in blamed), blamed
    assert any(line.endswith(" assistant") for line in blamed)


def test_program_of_the_archive_page_runs_unchanged(folder: Path) -> None:
    [program] = blocks(ROOT / "docs/explanation/archive.md", "python")
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"\['[0-9]{8}-[a-z2-7]{13}'\]\n", done.stdout)


def test_every_setting_of_a_summarizer_is_on_the_page() -> None:
    page = (ROOT / "docs/reference/compaction.md").read_text()
    told = re.findall(r"^\| `gitsession\.summarizer(\w*)`", page, re.MULTILINE)
    source = (ROOT / "gitsession/compaction/summarizers/options.py").read_text()
    assert {name.lower() for name in told} == set(re.findall(r'setting\("(\w*)"', source))


def test_the_readme_has_two_commands_and_ci_runs_them() -> None:
    demo, tests = blocks(ROOT / "README.md", "sh")
    assert "gitsession demo" in demo
    assert "pytest" in tests
    assert "$(readme 1)" in (ROOT / ".ci/run").read_text()
    assert "$(readme 2)" in (ROOT / ".ci/run").read_text()


def test_a_contributor_sets_up_as_ci_does() -> None:
    [commands] = blocks(ROOT / "docs/contributing.md", "sh")
    run = f"{blocks(ROOT / 'README.md', 'sh')[0]}{(ROOT / '.ci/run').read_text()}"
    assert [line for line in commands.splitlines() if line not in run] == [". .venv/bin/activate"]


def test_the_tested_versions_of_frameworks_are_those_of_their_extras() -> None:
    done = subprocess.run([ROOT / ".ci/versions", "--list"], capture_output=True, text=True, check=True)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    listed = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    adapters = {path.stem.removeprefix("test_") for path in (ROOT / "tests/frameworks").glob("test_*.py")}
    assert listed == {name: extras[name][0] for name in extras if name.replace("-", "_") in adapters}
    page = (ROOT / "docs/reference/frameworks.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \| `([^`]+)` \| ([0-9.]+) \| ([0-9.]+) \|$", page, re.MULTILINE)
    assert rows
    for package, range_, oldest, newest in rows:
        assert package + range_ in listed.values()
        numbers = [[int(part) for part in text.split(".")] for text in (*re.findall("[0-9.]+", range_), oldest, newest)]
        low, high, first, last = numbers
        assert low == first[: len(low)] and not any(first[len(low) :]) and low <= last < high


def command_tree(command: click.Command, path: str = "gitsession") -> Iterator[tuple[str, click.Command]]:
    """Yield every command of the help with its full name."""
    yield path, command
    if isinstance(command, click.Group):
        with click.Context(command) as ctx:
            for name in command.list_commands(ctx):
                found = command.get_command(ctx, name)
                assert found is not None
                if not found.hidden:
                    yield from command_tree(found, f"{path} {name}")


COMMAND_TREE = dict(command_tree(gitsession))


def sections(page: Path) -> dict[str, str]:
    """Return the text below each heading of a page, up to the next heading."""
    parts = re.split(r"^#{1,6} (.*)\n", page.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("path", COMMAND_TREE)
def test_a_command_has_a_section_with_all_its_options_in_the_manual(path: str) -> None:
    text = sections(ROOT / "docs/reference/commands.md")["Options for all commands" if path == "gitsession" else path]
    rows = re.findall(r"^\| (`-.*?) \|", text, re.MULTILINE)
    told = [option for row in rows for option in re.findall(r"`(--?[a-zA-Z][\w-]*)", row)]
    options = [param for param in COMMAND_TREE[path].params if isinstance(param, click.Option)]
    known = {name for option in options for name in option.opts}
    assert sorted(told) == sorted(known | ({"-h", "--help"} if path == "gitsession" else set()))


def test_manual_has_no_section_for_a_missing_command() -> None:
    headings = sections(ROOT / "docs/reference/commands.md")
    assert {heading for heading in headings if heading.startswith("gitsession")} == set(COMMAND_TREE)


def anchors(page: Path) -> set[str]:
    """Return the link anchors of a page's headings."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in sections(page)}


def test_every_link_between_pages_is_valid() -> None:
    for page in PAGES:
        for name, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text()):
            target = page.parent / name if name else page
            assert target.exists(), f"{page.name}: {name}"
            assert not anchor or anchor in anchors(target), f"{page.name}: {name}#{anchor}"


JSON_PAGE = ROOT / "docs/reference/json.md"
Fields = dict[str, str]


def fields_of_schemas() -> dict[str, Fields]:
    """Return, for each schema on the page, the type of each field by its path."""
    found = {}
    for heading, text in sections(JSON_PAGE).items():
        fields = dict(re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", text, re.MULTILINE))
        if fields and heading != "Export as JSON lines":
            found |= dict.fromkeys(re.split(", | and ", heading), fields)
    return found


def undescribed(value: Any, fields: Fields, path: str = "") -> Iterator[str]:
    """Yield the paths in a document that a table does not describe."""
    kind = fields.get(path, fields.get(f"{path}{{}}", ""))
    inner_fields = [name for name in fields if name.startswith(f"{path}.")]
    if f"{path}{{}}" in fields or (kind.startswith(("object", "array", "any")) and not inner_fields):
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            if f"{path}.*" not in fields:
                yield from undescribed(inner, fields, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for inner in value:
            yield from undescribed(inner, fields, f"{path}[]")
    elif not kind and not (value is None and any(name.startswith(path) for name in fields)):
        yield path


def test_every_document_has_the_fields_of_its_table(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    described, seen = fields_of_schemas(), {"entry", "append"}

    def check(*words: str, code: int = 0) -> None:
        options = ["--json", *words[1:]] if words[0] == "diff" or "--" in words else [*words[1:], "--json"]
        found = json.loads(run(words[0], *options, code=code))
        name = found.pop("schema").split("/")[1]
        seen.add(name)
        fields = described[name]
        always = {re.split(r"\W", path)[0] for path, kind in fields.items() if "optional" not in kind}
        assert (name, sorted(undescribed(found, fields)), always - found.keys()) == (name, [], set())
        for entry in found.get("entries", []) if name in ("log", "tree") else []:
            assert list(undescribed(entry, described["entry"])) == []

    lines = [header("docs", cwd=str(here)), *talk("a0000001", "a0000002", "a0000003", "a0000004")]
    (here / "session.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    subprocess.run(["git", "config", "--global", "gpg.format", "ssh"], check=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "key"], check=True)
    for name in ("hub.git", "checked.git"):
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", name], check=True)
    subprocess.run(["git", "init", "-q", "code"], check=True)
    check("import", "session.jsonl", "--dry-run")
    check("import", "session.jsonl")
    check("import", "--all", code=1)
    for words in ("ls", "log @", "tree @", "show @@leaf", "show @@user~1", "show @@root", "context @", "search words"):
        check(*words.split())
    (here / "CLAUDE.md").write_text("Rules.\n@~/outside.md\n")
    (here.parent / "outside.md").write_text("Outside.\n")
    check("instructions", "--agent", "claude")
    for words in ("prompts", "stats", "status-line", "drain"):
        check(words)
    check("show", "@", "--side-files", code=1)
    check("resume", "@", "--in", "claude", "--dry-run")
    check("enable", "claude", "--yes")
    check("disable", "claude", "--yes")
    check("branch", "@", "side", "--at", "leaf~1")
    for words in ("branch @", "switch @ side", "switch @ main", "fork @@leaf~1", "undo", "redo", "undo", "op log"):
        check(*words.split())
    check("label", "@@leaf", "good")
    check("name", "@", "A title")
    check("checkpoint", "@")
    (here / "notes.txt").write_text("a note\n")
    check("checkpoint", "@")
    check("diff", "@@root")
    check("diff", "@@root", "--stat")
    check("blame", "notes.txt")
    check("log", "--", "notes.txt", code=1)
    check("compact", "@", "--keep-tokens", "1", "--dry-run")
    check("compact", "@", "--auto")
    check("prune-results", "@", "--dry-run", code=1)
    check("rewind", "leaf~1", "--dry-run")
    check("rewind", "leaf~1")
    check("undo")
    check("remote", "add", "origin", "hub.git")
    for words in ("remote", "sync --dry-run", "sync --yes", "pull", "push --yes", "clone hub.git other.git"):
        check(*words.split())
    check("bundle", "create", "sessions.bundle")
    check("bundle", "take", "sessions.bundle")
    check("remote", "remove", "origin")
    check("sign", "@", "--key", "key")
    check("sign", "@", "--check")
    for words in ("server install checked.git", "server status checked.git", "server uninstall checked.git"):
        check(*words.split())
    with Store.open() as store, store.session("@").files.checkpoint(here / "code"):
        (here / "code/new.txt").write_text("one\n")
    for arguments in (["add", "new.txt"], ["-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "Start"]):
        subprocess.run(["git", *arguments], cwd=here / "code", check=True)
    with monkeypatch.context() as patch:
        patch.chdir(here / "code")
        check("link", "show", "HEAD")
    for words in ("link enable code", "link disable code", "gate install", "gate uninstall"):
        check(*words.split())
    for words in ("gate allow @@leaf", "gate list", "gate forget @@leaf"):
        check(*words.split(), code=1)
    for words in ("archive --keep 0 --dry-run", "prune --keep 0 --max-bytes 1 --dry-run", "redact", "maintain"):
        check(*words.split())
    check("verify", "--notices")
    check("verify", "--max-seconds", "60")
    for words in ("repair", "doctor", "purge @ --dry-run", "purge @@leaf --yes", "rm @", "ls --trash"):
        check(*words.split())
    check("restore", "2026")
    check("archive", "@")
    check("ls", "--archived")
    assert seen == described.keys()


NOT_SETTINGS = {"gitsession.checkpointfile", "gitsession.json"}
"""Two prefixes of names, and a file."""


def test_every_setting_and_variable_that_the_program_reads_is_on_the_page() -> None:
    page = (ROOT / "docs/reference/configuration.md").read_text()
    top = ROOT / "gitsession/__init__.py"  # its names are module names
    sources = [file.read_text() for file in (ROOT / "gitsession").rglob("*.py") if file != top]
    read = {name.lower() for text in sources for name in re.findall(r'"(gitsession\.[a-zA-Z]+)"', text)}
    told = {name.lower() for name in re.findall(r"`(gitsession\.[a-zA-Z]+)`", page)}
    summarizer = (ROOT / "gitsession/compaction/summarizers/options.py").read_text()
    read |= {f"gitsession.summarizer{name}" for name in re.findall(r'setting\("(\w*)"', summarizer)}
    assert read - NOT_SETTINGS == told
    asked = r'environ(?:ment)?(?:\.get\(|\[)"([A-Z_]+)"|SearchRoot\([^)]*"([A-Z_]+)"\)|_VARIABLE = "([A-Z_]+)"'
    variables = {name for text in sources for found in re.findall(asked, text) for name in found if name}
    assert {name for name in variables if f"`{name}`" not in page} == set()
