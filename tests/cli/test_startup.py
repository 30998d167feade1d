"""Tests of the start of commands: each imports only the modules that it uses. The benchmarks measure the time."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from builders import header, said

HEAVY = {"cbor2", "blake3", "subprocess", "rich", "asyncio", "ssl", "importlib.metadata"}

_WATCH = """
import os, sys
os._exit = sys.exit  # so that we can look at what was loaded
sys.argv = ["gitsession", *{words!r}]
from gitsession.__main__ import main
try:
    main()
except SystemExit:
    pass
sys.stdout.flush()
print("\\n" + " ".join(sys.modules))
"""


def loaded(folder: Path, *words: str, stdin: str = "") -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", _WATCH.format(words=words)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        input=stdin,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )
    return set(done.stdout.rsplit("\n", 2)[1].split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("start")
    (found / "s.jsonl").write_bytes(b"\n".join([header(cwd=str(found)), said("a", None, "hello")]) + b"\n")
    return found


@pytest.fixture(autouse=True)
def with_a_session(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITSESSION_DIR", str(folder / "store.git"))
    if not (folder / "store.git").exists():
        loaded(folder, "import", "s.jsonl")
        # A ref that moved within this second is not trusted. Set its time as if it had moved long ago.
        for place, _, _ in os.walk(folder / "store.git/refs"):
            os.utime(place, (1_700_000_000, 1_700_000_000))
        loaded(folder, "ls")


def test_version_option_imports_no_other_module(folder: Path) -> None:
    modules = loaded(folder, "--version")
    assert {name for name in modules if name.startswith("gitsession")} == {"gitsession", "gitsession.__main__"}
    assert not modules & (HEAVY | {"click", "typing", "dataclasses", "pathlib"})


def test_ls_loads_the_index_and_not_git(folder: Path) -> None:
    modules = loaded(folder, "ls", "--json")
    assert "sqlite3" in modules
    assert not modules & HEAVY
    assert not {name for name in modules if name.startswith(("gitsession.session", "gitsession.formats"))}


def test_the_status_without_a_command_is_as_light(folder: Path) -> None:
    assert not loaded(folder) & HEAVY


WITHOUT_LIBGIT2 = {
    "version": ("--version",), "ls": ("ls",), "log": ("log", "@"), "show": ("show", "@"),
    "hook": ("hook", "--from", "claude", "Stop"), "completion": ("completion", "bash"),
}  # fmt: skip


@pytest.mark.parametrize("words", WITHOUT_LIBGIT2.values(), ids=WITHOUT_LIBGIT2)
def test_the_commands_that_must_start_fast_do_not_load_libgit2(
    folder: Path, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In a separate store, because the next command would ingest the hook's event and load modules for that.
    monkeypatch.setenv("GITSESSION_DIR", str(shutil.copytree(folder / "store.git", tmp_path / "store.git")))
    assert not {name for name in loaded(folder, *words) if name.partition(".")[0] in ("pygit2", "_cffi_backend")}


MODULES_MAX = {
    "--version": 2, "ls": 31, "log @ -n 1": 60, "show @": 101, "tree @": 106, "context @": 132, "search hello": 121,
}  # fmt: skip
"""The number of our modules that a command may import. On average, one takes a fiftieth of the start of Python."""

SLOW = {
    "_hashlib", "ast", "blake3", "cbor2", "click", "concurrent.futures", "difflib", "gettext", "inspect", "ipaddress",
    "json", "logging", "pathlib", "platform", "pygit2", "rich", "secrets", "shutil", "sqlite3", "subprocess",
    "tempfile", "uuid",
}  # fmt: skip
COMMITS = {"click", "pathlib", "sqlite3"}
READING = COMMITS | {"_hashlib", "blake3", "cbor2"}
OTHERS = {
    "--version": set[str](),
    "ls": {"click", "sqlite3"},
    "log @ -n 1": COMMITS,
    "show @": READING | {"json"},
    "tree @": COMMITS | {"cbor2"},
    "context @": READING | {"json"},
    "search hello": READING | {"json"},
}


@pytest.mark.parametrize("words", OTHERS)
def test_a_command_imports_no_more_than_it_needs(folder: Path, words: str) -> None:
    modules = loaded(folder, *words.split())
    assert modules & SLOW == OTHERS[words]
    ours = [name for name in modules if name.partition(".")[0] == "gitsession"]
    assert len(ours) <= MODULES_MAX[words], sorted(ours)


STATUS_LINE = {
    "gitsession", "gitsession.__main__", "gitsession.cli", "gitsession.cli.agent_status", "gitsession.cli.hooking",
    "gitsession.cli.text", "gitsession.errors", "gitsession.git", "gitsession.git.permissions", "gitsession.index",
    "gitsession.index.catalogue", "gitsession.index.current_folder", "gitsession.index.derived",
    "gitsession.line_text", "gitsession.live", "gitsession.live.events", "gitsession.live.spool", "gitsession.model",
    "gitsession.model.headline", "gitsession.model.usage", "gitsession.paths", "gitsession.pattern",
    "gitsession.store", "gitsession.store.change_stamp", "gitsession.store.journal_frames",
}  # fmt: skip


def test_the_status_line_of_an_agent_loads_no_command_line(folder: Path) -> None:
    given = {"session_id": "x", "transcript_path": str(folder / "s.jsonl"), "model": {"display_name": "Opus"}}
    modules = loaded(folder, "--store", str(folder / "store.git"), "status-line", stdin=json.dumps(given))
    assert modules & SLOW == {"json", "sqlite3"}
    assert {name for name in modules if name.partition(".")[0] == "gitsession"} == STATUS_LINE


def test_server_of_agents_answers_the_first_request_without_the_library(folder: Path) -> None:
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
    modules = loaded(folder, "mcp", stdin=json.dumps(asked))
    assert "gitsession.mcp.protocol" in modules
    assert not modules & (HEAVY | {"gitsession.api", "gitsession.mcp.tools", "inspect", "pygit2", "sqlite3"})


def test_an_append_does_not_load_libgit2(tmp_path: Path) -> None:
    program = (
        "import sys; from gitsession import Message, Store\n"
        f"with Store.create({str(tmp_path / 's.git')!r}) as store:\n"
        "    store.new_session(agent='a').append(Message.user('hi'))\n"
        "print(*sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "gitsession.api" in told
    assert "pygit2" not in told


def test_log_loads_the_pack_reader_but_no_importer_and_no_terminal_library(folder: Path) -> None:
    modules = loaded(folder, "log", "@")
    assert "gitsession.git.pack_reader" in modules
    assert not modules & {"rich", "asyncio", "importlib.metadata", "subprocess"}
    assert not {name for name in modules if name.startswith(("gitsession.formats", "gitsession.model.entries"))}
    assert "gitsession.api" not in modules


def test_a_context_loads_the_agent_of_its_session_and_no_other(folder: Path) -> None:
    modules = loaded(folder, "context", "@")
    assert "gitsession.formats.pi" in modules
    others = {"aider", "claude", "codex", "librecode", "omp", "opencode"}
    assert not {name for name in modules if name.removeprefix("gitsession.formats.").partition("_")[0] in others}
    assert "importlib.metadata" not in modules


def test_sessions_of_programs_are_read_without_a_search_for_plugins(tmp_path: Path) -> None:
    """Their agents have no format, and the metadata of all installed packages takes as long as a command."""
    program = (
        "import sys; from gitsession import Message, Store\n"
        f"with Store.create({str(tmp_path / 's.git')!r}) as store:\n"
        "    for session in (store.new_session(agent='a'), store.keyed_session('thread-1', agent='b')):\n"
        "        session.append(Message.user('hi'))\n"
        "        session.context(), session.state(), session.fork(), store.sessions(), list(store.search('hi'))\n"
        "        store.export(session.id, to='markdown'), store.export(session.id, to='jsonl')\n"
        "        store.export(session.id, to='pi'), store.verify()\n"
        "print(*sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "gitsession.exporting.markdown" in told
    assert not {"importlib.metadata"} & set(told)


def test_the_help_of_a_command_does_not_load_the_library() -> None:
    # compact is left out: it lists its strategies, and they are functions of the library
    program = (
        "import sys, click; from gitsession.cli.app import COMMANDS, gitsession\n"
        "context = click.Context(gitsession)\n"
        "for name in {*COMMANDS} - {'compact'}: gitsession.get_command(context, name).get_help(context)\n"
        "print(*sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "gitsession.cli.commands.checkpoints" in told
    assert not {"gitsession.api", "pygit2", "cbor2"} & set(told)


def test_importing_the_package_loads_none_of_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import sys, gitsession; print(*sorted(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not set(done.stdout.split()) & (HEAVY | {"click", "gitsession.api"})


def test_library_imports_file_modules_on_first_use() -> None:
    shown = "import sys, gitsession.api; print(*(name for name in sys.modules if name.startswith('gitsession.')))"
    told = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True).stdout.split()
    parts = {name.split(".")[1] for name in told}
    assert not parts & {"workspace", "rewind"}
    assert "gitsession.live.ingesting" not in told


def test_opening_a_store_loads_neither_secret_rules_nor_repair(tmp_path: Path) -> None:
    opened = f"Store.create({str(tmp_path / 's.git')!r}).sessions()"
    shown = f"import sys; from gitsession import Store; {opened}; print(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True).stdout.split()
    assert not set(told) & {"gitsession.redaction.scan", "gitsession.repair.repair", "gitsession.verify.store_check"}


def test_absolute_path_of_the_store_needs_no_working_directory(folder: Path, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    command = 'rmdir "$PWD" && exec "$0" -P -m gitsession ls'
    done = subprocess.run(["sh", "-c", command, sys.executable], cwd=gone, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
