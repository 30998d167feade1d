"""Tests of shell completion: the values of each parameter, and bash, zsh and fish themselves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from terminals import Terminal

from gitsession import Message, Store
from gitsession.cli import completion
from gitsession.cli.app import run
from gitsession.index.catalogue import Catalogue

Complete = Callable[[str], list[str]]


@pytest.fixture
def sid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = tmp_path / "store.git"
    monkeypatch.setenv("GITSESSION_DIR", str(path))
    with Store.create(path) as store:
        session = store.new_session(agent="mine", cwd="/work/a")
        session.append(Message.user("bake bread"))
        session.rename("Bread: all, about it\x1b[31m")
        session.branch("side")
        session.label("root", "start here")
        store.catalogue()
    with open(path / "config", "a", encoding="utf-8") as file:
        file.write('[remote "hub"]\n\turl = ../hub.git\n')
    return session.id


@pytest.fixture
def complete(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Complete:
    def completed(line: str) -> list[str]:
        monkeypatch.setenv("_GITSESSION_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", f"gitsession {line}")
        run([])
        return [row.removeprefix("plain,") for row in capsys.readouterr().out.splitlines()]

    return completed


def short(sid: str) -> str:
    return sid.rpartition("-")[2][:7]


def test_sessions_are_completed_by_short_and_whole_id(complete: Complete, sid: str) -> None:
    for line in ("show ", f"log {short(sid)[:3]}", "rm ", "fork "):
        assert complete(line) == [short(sid)], line
    assert complete(f"show {sid[:10]}") == [sid]
    assert complete("show zz") == []


def test_entries_are_completed_after_the_session(complete: Complete, sid: str) -> None:
    start = f"{short(sid)}@"
    assert complete(f"show {start}") == [
        f"{start}{name}" for name in ("leaf", "root", "user", "turn", "main", "side", "start here")
    ]
    with Store.open(os.environ["GITSESSION_DIR"]) as store:
        oid = store.session(sid).history()[-1].oid
    assert complete(f"show {start}{oid[:6]}") == [f"{start}{oid[:12]}"]
    assert complete("show zzz@s") == []


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("ls --agent mi", ["mine"]), ("ls --agent=cl", ["claude"]), ("ls --branch s", ["side"]),
        ("ls --label ", ["start here"]), ("search --project ", ["/work/a"]), ("push ", ["hub"]),
        ("export --to ma", ["markdown"]), ("import --from cod", ["codex"]), ("stats --by w", ["week"]),
        ("ls --sort cr", ["created"]), ("switch si", ["side"]), ("promp", ["prompts"]), ("nonsense ", []),
    ],
)  # fmt: skip
def test_values_of_options_are_completed(complete: Complete, sid: str, line: str, values: list[str]) -> None:
    assert complete(line) == values


@pytest.mark.parametrize("line", ["show ", "ls --agent z", "push ", "ls --label ", "show a@z"])
def test_without_a_store_nothing_is_completed(
    complete: Complete, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setenv("GITSESSION_DIR", str(tmp_path / "none.git"))
    assert [value for value in complete(line) if value] == []


# ---- shells


def in_shell(tmp_path: Path, *words: str) -> str:
    """Return the output of a shell with ``gitsession`` on its path."""
    if shutil.which(words[0]) is None:
        pytest.skip(f"requires {words[0]}")
    program = tmp_path / "bin" / "gitsession"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gitsession "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=60)
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("line", "reply"),
    [("gitsession show {}@si", "@side"), ("gitsession ls --ag", "--agent"), ("gitsession show ", "{}")],
)
def test_bash(sid: str, tmp_path: Path, line: str, reply: str) -> None:
    line, reply = line.format(short(sid)), reply.format(short(sid))
    script = (
        'eval "$(gitsession completion bash)"; COMP_LINE="$1"; COMP_POINT=${#1}; compopt() { :; }; '
        "COMP_WORDBREAKS='@><=;|&(:'; _gitsession_completion gitsession; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    assert in_shell(tmp_path, "bash", "-c", script, "bash", line).split("\n")[:-1] == [reply]


def test_fish(sid: str, tmp_path: Path) -> None:
    script = "gitsession completion fish | source; complete -C 'gitsession show '"
    assert in_shell(tmp_path, "fish", "-c", script).startswith(f"{short(sid)}\tBread: all")


def test_zsh_accepts_the_script(sid: str, tmp_path: Path) -> None:
    script = 'autoload -U compinit; compinit -u; eval "$(gitsession completion zsh)"; print -r -- $_comps[gitsession]'
    assert in_shell(tmp_path, "zsh", "-f", "-c", script) == "_gitsession_completion\n"


SETUP = {
    "bash": (["bash", "--norc", "-i"], 'PS1=; eval "$(gitsession completion bash)"; echo SET"UP"\n'),
    "zsh": (
        ["zsh", "-f", "-i"],
        'PS1=; autoload -U compinit; compinit -u -D; eval "$(gitsession completion zsh)"; echo SET"UP"\n',
    ),
    "fish": (["fish", "-i", "--no-config"], 'gitsession completion fish | source; echo SET"UP"\n'),
}
HOSTILE = "q,b:c\\d $(touch owned) `touch owned`; touch owned #*~'\""


@pytest.mark.parametrize("shell", SETUP)
@pytest.mark.parametrize("address", ["{}@q", "@@q"])
def test_a_shell_inserts_hostile_names_as_one_word(
    sid: str, here: Path, monkeypatch: pytest.MonkeyPatch, shell: str, address: str
) -> None:
    words, setup = SETUP[shell]
    if shutil.which(words[0]) is None:
        pytest.skip(f"requires {words[0]}")
    with Store.open(os.environ["GITSESSION_DIR"]) as store:
        session = store.new_session(agent="mine", cwd=str(here))
        session.append(Message.user("hi"))
        session.rename(f"plain,{HOSTILE}\x1b]0;owned\x07\nplain,evil")
        session.label("root", HOSTILE)
        store.catalogue()
    program = here / "bin" / "gitsession"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\n[ -n "$_GITSESSION_COMPLETE" ] || [ "$1" = completion ] && '
        f'exec "{sys.executable}" -m gitsession "$@"\n'
        f"printf '%s\\0' \"$@\" > '{here}/words'\necho DO\"\"NE\n"
    )
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(here), "TERM": "xterm"}
    terminal = Terminal(words, environment)
    try:
        terminal.keys(setup)
        terminal.wait_for("SETUP")
        expected = address.format(short(session.id))
        terminal.keys(f"gitsession show {expected}\t")
        terminal.wait_for("owned.*owned.*owned")
        terminal.keys("\n")
        terminal.wait_for("DONE")
        assert (here / "words").read_text().split("\0")[:-1] == ["show", f"{expected[:-1]}{HOSTILE}"]
        terminal.keys("gitsession show \t\t\t")  # the first inserts what all names share, if they share anything
        terminal.wait_for(short(session.id))
    finally:
        terminal.kill()
    assert "\x1b]0;owned" not in terminal.shown
    assert not list(here.glob("owned*"))


# ---- what is read


def test_sessions_of_a_rare_prefix_are_found_among_many(complete: Complete, sid: str) -> None:
    with Store.open(os.environ["GITSESSION_DIR"]) as store:
        catalogue = store.catalogue()
        row = catalogue.db.execute("SELECT * FROM sessions").fetchone()
        marks = ", ".join("?" * len(row))
        for number in range(200):
            id = "20990101-z" + f"{number:012}".translate(str.maketrans("0123456789", "abcdefghij"))
            catalogue.db.execute(f"INSERT INTO sessions VALUES ({marks})", (id, *row[1:]))
    assert complete(f"show {short(sid)[:5]}") == [short(sid)]
    assert complete(f"show {sid[9:19]}") == [sid[9:]]
    assert len(complete("show ")) == len(complete("show 2099")) == 50


def test_ids_are_read_from_an_index(sid: str) -> None:
    catalogue = Catalogue(os.environ["GITSESSION_DIR"])
    plan = [row[3] for row in catalogue.db.execute(f"EXPLAIN QUERY PLAN {completion._CANDIDATES}", ("a", 50))]
    catalogue.close()
    assert "SCAN sessions USING COVERING INDEX sessions_newest" in plan
    assert not [step for step in plan if step == "SCAN sessions"]


def test_a_completion_reads_no_whole_session_row(complete: Complete, sid: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(Catalogue, "_rows", refuse)
    for line in ("show ", f"show {sid[:10]}", "switch ", "ls --agent ", "ls --project ", "ls --label "):
        assert complete(line), line


@pytest.mark.parametrize("line", ["gitsession log ", "gitsession ls --agent ", "gitsession switch s"])
def test_a_completion_imports_only_the_catalog(sid: str, line: str) -> None:
    program = (
        "import os, sys; os._exit = sys.exit; sys.argv = ['gitsession']\nfrom gitsession.__main__ import main\n"
        "try: main()\nexcept SystemExit: pass\nprint(*sys.modules)"
    )
    environment = {**os.environ, "_GITSESSION_COMPLETE": "bash_complete", "COMP_WORDS": line}
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    ).stdout
    assert out.startswith("plain,")
    modules = set(out.splitlines()[-1].split())
    assert not modules & {
        "gitsession.api",
        "json",
        "subprocess",
        "pygit2",
        "cbor2",
        "blake3",
        "rich",
        "difflib",
        "inspect",
    }
    assert not {name for name in modules if name.startswith(("gitsession.store.git", "gitsession.redaction"))}
