"""Tests of terminal output: control characters in the text of an agent or a file are made visible."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
import unicodedata
from collections.abc import Iterator

import pytest
from builders import entry, header, label, pi_file, said
from every_command import EVERY_VERB
from rich.cells import cell_len

from gitsession import Message, Store, Text, ToolCall
from gitsession.checkpoints.rewinding import FileOutcome
from gitsession.cli import hooking, output
from gitsession.cli.app import run
from gitsession.cli.commands import checkpoints, remotes
from gitsession.cli.text import paint, shell_command, width
from gitsession.codec.message import render
from gitsession.formats import Resumable, all_with_capability
from gitsession.line_text import columns, pad, shorten
from gitsession.model.headline import Headline, clean

FAMILY = "\U0001f469\u200d\U0001f469\u200d\U0001f467"
FLAG, TONE = "\U0001f1e9\U0001f1ea", "\U0001f44d\U0001f3fd"
JOINED = [each * 6 for each in (FAMILY, FLAG, TONE, "\u2764\ufe0f", "1\ufe0f\u20e3")]
"""A family, a flag, a skin tone, and characters that a variation selector makes wide: six of each, two columns wide."""


@pytest.mark.parametrize("text", JOINED)
def test_joined_characters_have_two_columns_and_are_not_split(text: str) -> None:
    assert columns(text) == 12
    assert shorten(text, 12) == text
    assert shorten(text, 11) == text[: len(text) // 6 * 5] + "…"
    assert shorten(text, 10) == text[: len(text) // 6 * 4] + "…"
    assert pad(text, 14) == f"{text}  "


def test_no_line_of_a_list_is_wider_than_the_terminal(tmp_path, monkeypatch, capfd) -> None:
    monkeypatch.setenv("GITSESSION_DIR", str(tmp_path / "store.git"))
    monkeypatch.setenv("COLUMNS", "60")
    with Store.create(tmp_path / "store.git") as made:
        for text in JOINED:
            said = made.new_session(agent=f"a{text[:7]}", cwd=str(tmp_path))
            said.append(Message.user(text * 10))
    assert run(["ls"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert run(["log", said.id]) == 0
    lines += capfd.readouterr().out.splitlines()
    assert {cell_len(line) for line in lines if "…" in line} <= {58, 59, 60}
    assert max(map(cell_len, lines)) <= 60


@pytest.mark.parametrize(
    "text", ["abcdefghij", "修正登录重定向", "a修正登录重定向", "修 修 修 修 修", "e\u0301" * 12, *JOINED]
)
@pytest.mark.parametrize("columns", [1, 4, 5, 10])
def test_a_shortened_text_counts_columns(text: str, columns: int) -> None:
    shown = shorten(text, columns)
    assert cell_len(shown) <= columns
    assert shown == text if cell_len(text) <= columns else shown.endswith("…")


SGR = re.compile(r"\x1b\[[0-9;]*m")

ATTACKS = {
    "the title": "\x1b]0;owned\x07",
    "the clipboard": "\x1b]52;c;cm0gLXJm\x07",
    "a link": "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "answers of the terminal": "\x1b[6n\x1b[c\x1b[>c\x1b[21t",
    "the screen cleared": "\x1b[2J\x1b[H\x1bc",
    "the other screen": "\x1b[?1049h",
    "keys redefined": "\x1bP+q544e\x1b\\",
    "one byte control": "\x9b31mred\x9b0m \x9d0;owned\x9c",
    "a line overwritten": "harmless\rrm -rf /",
    "letters taken back": "rm\x08\x08ls",
    "a bell and a null": "\x07\x00\x05",
    "form feed and vertical tab": "a\x0cb\x0bc",
    "delete": "a\x7fb",
    "right to left": "\u202egpj.exe\u202c",
    "isolates": "\u2066a\u2069 \u2067b\u2069",
    "marks": "a\u200eb\u200fc\u061cd",
    "separators": "a\u2028b\u2029c\u0085d",
    "nothing to see": "a\u200bb\ufeffc\u2060d",
    "tags": "a\U000e0041\U000e0042\U000e007fb",
    "a lone surrogate": "a\ud800b\udfffc",
    "annotations": "a\ufff9b\ufffac\ufffb",
    "colours of its own": "\x1b[31;5mALERT\x1b[0m",
}


def drives(character: str) -> bool:
    """Return whether a character controls the terminal, by the tables of Unicode, which the code does not use."""
    return character != "\n" and (
        unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
        or unicodedata.bidirectional(character) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
        or character in "\u061c\u200b\u200e\u200f\u2060\ufeff\ufff9\ufffa\ufffb"
        or 0xE0000 <= ord(character) <= 0xE007F
    )


def left(text: str) -> list[str]:
    return [f"U+{ord(character):04X}" for character in text if drives(character)]


EVERY = "".join(map(chr, range(0x110000)))


@pytest.mark.promise("P32")
def test_no_code_point_that_controls_a_terminal_is_printed(faults):
    cleaned = clean(EVERY)
    assert left(cleaned) == []
    assert left(shorten(EVERY, 1 << 21)) == []
    assert left(paint(EVERY)) == []
    assert len(cleaned) > 1_100_000, "and the rest stays"
    for code in range(0, 0x110000, 3):  # the character alone, without others that would cause an escape
        assert not left(clean(chr(code)))
    faults.many(0x110000)


@pytest.mark.promise("P32")
def test_no_commit_message_contains_terminal_controls(faults):
    size = 3000
    for start in range(0, 0x110000, size):
        part = EVERY[start : start + size]
        said = render(Headline(kind="message", label="user", words=part, body=part, model=part), bytes(32), None)
        assert left(said.decode()) == []
    for text in ATTACKS.values():
        said = render(Headline(kind=text, label=text, words=text, body=text, model=text), bytes(32), None)
        assert left(said.decode()) == []
    faults.many(0x110000 + len(ATTACKS))


@pytest.mark.promise("P32")
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_every_output_function_cleans_its_text(attack, capfd, faults):
    output.say(attack, fg="red")
    output.complain(attack, hint=attack, candidates=[attack])
    output.warn(attack)
    output.emit_bare(output.titled("x", {"text": attack, attack: [attack]}))
    output.paged([paint(attack)])
    out, err = capfd.readouterr()
    assert left(out + err) == []
    faults.many(1)


def watched(*words: str) -> str:
    """Run a command in a terminal and return its output."""
    ours, theirs = pty.openpty()
    environment = {
        **os.environ,
        "TERM": "xterm-256color",
        "PAGER": "cat",
        "LINES": "500",
        "COLUMNS": "400",
        "PYTHONUTF8": "1",
    }
    command = [sys.executable, "-m", "gitsession", *words]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as child:
        os.close(theirs)
        written = b""
        while True:
            try:
                read = os.read(ours, 1 << 16)
            except OSError:  # Linux reports EIO if the other end of the terminal is closed
                break
            if not read:
                break
            written += read
        child.wait()
    os.close(ours)
    text = written.decode("utf-8", "replace").replace("\r\n", "\n")
    return re.sub(r"[\w ]+: +\d+%\r", "", text)  # progress, which is printed on a slow machine


def test_terminal_of_size_0_has_the_default_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """`script` and similar programs create a terminal of size 0. A list must not be cut to nothing there."""
    for name in ("COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((0, 0)))
    assert width() >= 80


@pytest.mark.promise("P32")
def test_a_terminal_gets_nothing_but_our_own_colours_from_a_session_of_attacks(tmp_path, monkeypatch, faults):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITSESSION_DIR", str(tmp_path / "store.git"))
    lines = [header("0199-\x1b]0;owned\x07", cwd=f"{tmp_path}/\x1b[2J")]
    before = None
    for number, attack in enumerate(ATTACKS.values()):
        id = f"{number:04}\x1b[6n"
        lines.append(said(id, before, attack, role="user" if number % 2 else "assistant", at=number + 1, model=attack))
        lines.append(label(f"l{number}", id, id, attack, at=number + 1))
        before = id
    lines.append(entry("session_info", "name", before, at=59, name="".join(ATTACKS.values())))
    lines.append(entry("\x1b[31mkind", "odd", "name", at=59, text="\x1b]0;x\x07"))
    file = tmp_path / "attack\x1b[2J.jsonl"
    file.write_bytes(b"\n".join(lines) + b"\n")
    words = [
        *(["import", str(file)], ["ls"], [], ["log", "pi:"], ["tree", "pi:"], ["show", "pi:@leaf"], ["branch", "pi:"]),
        *(["show", "pi:@leaf~5"], ["op", "log"], ["verify"], ["name", "pi:", "\x1b[31mred"], ["show", "pi:@\x1b[31m"]),
    ]
    coloured = 0
    for command in words:
        written = watched(*command)
        coloured += bool(SGR.search(written))
        assert left(SGR.sub("", written)) == [], command
        assert "[31;5m" not in "".join(SGR.findall(written)), command
    assert coloured, "there is colour on a terminal"
    faults.many(len(words))


def escaped(line: bytes) -> bytes:
    """Return the same JSON in ASCII, which can contain half of a surrogate pair."""
    return json.dumps(json.loads(line.decode("utf-8", "surrogatepass"))).encode()


def a_talk_of_attacks() -> Iterator[bytes]:
    before = None
    for number, attack in enumerate(ATTACKS.values()):
        asked, answered, done = (f"{number:04}{letter}" for letter in "abc")
        words = attack + " word after word," * 40
        call = {"type": "toolCall", "id": attack, "name": attack, "arguments": {"path": attack, attack: attack}}
        yield said(asked, before, words, at=number + 1)
        yield entry("thinking_level_change", f"{number:04}t", asked, at=number + 1, thinkingLevel=attack)
        content = [{"type": "thinking", "thinking": words}, {"type": "text", "text": words}, call]
        said_by = {"role": "assistant", "content": content, "provider": attack, "model": attack, "api": attack}
        failed = {"stopReason": "error", "errorMessage": attack} if number % 2 else {}
        yield entry("message", answered, f"{number:04}t", at=number + 1, message={**said_by, **failed})
        result = {"role": "toolResult", "toolCallId": attack, "toolName": attack, "content": content[1:2]}
        yield entry("message", done, answered, at=number + 1, message=result)
        before = done


@pytest.mark.promise("P32")
def test_highlighted_code_contains_no_terminal_controls(tmp_path, monkeypatch, faults):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITSESSION_DIR", str(tmp_path / "store.git"))
    every = "\n".join(ATTACKS.values()).replace("\0", "").encode("utf-8", "replace").decode()
    code = f"def f():\n    return '{every}'  # {every}\n"
    fenced = "\n".join(f"{mark}{language}\n{code}\n{mark}" for mark in ("```", "~~~") for language in ("python", every))
    call = ToolCall("1", "write", {"path": f"{every}.py", "content": code})
    read = ToolCall("2", "read", {"path": "a.py"})
    with Store.create(tmp_path / "store.git") as made:
        session = made.new_session(agent="pi", cwd=str(tmp_path))
        session.append(Message.user(fenced))
        session.append(Message.assistant([Text(fenced), call, read]))
        session.append(Message.tool(read, "".join(f"  {n}\t{line}" for n, line in enumerate(code.splitlines(True)))))
    for address in ("@leaf", "@leaf~1", "@leaf~2"):
        written = watched("show", session.id + address)
        assert "\x1b[35mdef" in written
        assert left(SGR.sub("", written)) == []
        assert "[31;5m" not in "".join(SGR.findall(written))
    faults.many(3 * len(ATTACKS))


TALKS = "import sys; sys.stdin.read(); print({out!r}); sys.stderr.write({err!r}); sys.exit({code})"


@pytest.mark.promise("P32")
def test_no_terminal_controls_from_contexts_compactions_and_summarizers(tmp_path, monkeypatch, faults):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITSESSION_DIR", str(tmp_path / "store.git"))
    file = tmp_path / "attack\x1b[2J.jsonl"
    file.write_bytes(pi_file(*map(escaped, a_talk_of_attacks()), cwd=str(tmp_path)))
    every = "".join(ATTACKS.values()).encode("utf-8", "replace").decode() + "of note"
    programs = {
        name: f"{sys.executable} {tmp_path / name}"
        for name, how in {"ends": {"err": "", "code": 0}, "fails": {"err": every, "code": 3}}.items()
        if (tmp_path / name).write_text(TALKS.format(out=every, **how), "utf-8")
    }
    compact = ["compact", "pi:", "--keep-tokens", "9"]
    told = {
        "88 entries": ["import", str(file)],
        "tokens": ["context", "pi:"],
        "by role": ["context", "pi:@leaf~3", "--profile", "omp"],
        "no entry": ["context", "pi:@\x1b[31mred\u202e"],
        "summarize  ": [*compact, "--dry-run"],
        "exit code 3": [*compact, "--summarizer-command", programs["fails"], "--focus", every],
        "cannot run": [*compact, "--summarizer-command", f"'/no\x1b[2J{every}'"],
        "unknown summarizer": [*compact, "--summarizer", every],
        "the request to the summarizer at 127": [*compact, "--summarizer-url", "http://127.0.0.1:1/", "--model", every],
        "the summarizer URL is invalid": [*compact, "--summarizer-url", f"http://{every}", "--model", "m"],
        "summarized": [*compact, "--summarizer-command", programs["ends"]],
        "of note": ["context", "pi:"],
        "the last entry is a compaction": ["compact", "pi:", "--strategy", "codex", "--dry-run"],
        "compaction": ["log", "pi:"],
        "an estimate": ["show", "pi:@leaf"],
        "on branch": ["compact", "pi:", "--strategy", "from", "--at", "leaf~9"],
    }
    for expected, command in told.items():
        written = watched(*(word.replace("\0", "") for word in command))
        assert expected in SGR.sub("", written), (command, written)
        assert left(SGR.sub("", written)) == [], command
        assert "[31;5m" not in "".join(SGR.findall(written)), command
    faults.many(len(told) * len(ATTACKS))


FOR_PROGRAMS = ("completion", "demo", "diff", "hook", "textconv")
"""Commands whose output is exact, or which print git's output about a session of their own."""


@pytest.mark.promise("P32")
def test_no_command_prints_terminal_controls_of_hostile_names(tmp_path, monkeypatch, capfd, faults):
    every = "".join(ATTACKS.values()).encode("utf-8", "replace").decode().replace("\0", "")
    folder = tmp_path / "work \u202e\x9b31m"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GITSESSION_DIR", str(tmp_path / "store.git"))
    monkeypatch.setattr(hooking, "read_stdin", lambda: (b"{}", True))
    lines = [header(f"id{every}", cwd=str(folder)), said(every, None, every), label("l", every, every, every)]
    (folder / f"{every.replace('/', '')[:60]}.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    (folder / f"bad{every.replace('/', '')[:60]}.jsonl").write_bytes(lines[0] + b"\nno JSON\n")
    with Store.create(tmp_path / "store.git") as made:
        made.new_session(agent=every, cwd=every.encode("utf-8", "replace").decode()).append(Message.user(every))
    assert run(["watch", "--once", "."]) == 0
    watched_first = "".join(capfd.readouterr())
    assert "2 new entries" in watched_first
    assert left(watched_first) == []
    assert os.system("git init -q --bare ../hub.git") == 0
    agents = [["resume", "@", "--in", agent, "--dry-run"] for agent in all_with_capability(Resumable)]
    there = [["resume", "@"], ["rewind", "root", "--dry-run"], ["branch", "@", "side"], ["name", "@", every]]
    verbs = [words for name, lines in EVERY_VERB.items() if name not in FOR_PROGRAMS for words in lines]
    for words in (*agents, *there, *verbs):
        run(words)
        out, err = capfd.readouterr()
        assert left(SGR.sub("", out + err)) == [], words
    faults.many(len(agents) + len(there) + len(verbs))


@pytest.mark.promise("P32")
@pytest.mark.parametrize("command", [["watch", "--once"], ["import"], ["import", "--dry-run"]])
def test_path_with_a_line_end_is_one_line(command, tmp_path, monkeypatch, capfd, faults):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITSESSION_DIR", str(tmp_path / "store.git"))
    forged = "x\nFORGED"
    (tmp_path / f"good{forged}.jsonl").write_bytes(pi_file(said("a", None), said("b", "a"), b"no JSON"))
    (tmp_path / f"claude{forged}.jsonl").write_bytes(b"\0")
    run([*command, *map(str, tmp_path.glob("*FORGED*"))])
    out, err = capfd.readouterr()
    assert "x FORGED" in out + err
    assert not any(line.startswith("FORGED") for line in (out + err).splitlines())
    faults.many(2)


@pytest.mark.promise("P32")
def test_no_terminal_controls_from_questions_and_diffs_of_settings(tmp_path, monkeypatch, capfd, faults):
    name = "\x9b31m\u202ered\nFORGED"
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert not output.confirm(f"write {name}?")
    monkeypatch.setenv("HOME", str(tmp_path / name))
    monkeypatch.setenv("GITSESSION_DIR", str(tmp_path / "store.git"))
    (tmp_path / name / ".claude").mkdir(parents=True)
    run(["enable", "claude", "--dry-run"])
    run(["enable", "claude"])
    run(["enable", "claude", "--yes"])
    run(["doctor"])
    run(["disable", "claude", "--yes"])
    out, err = capfd.readouterr()
    assert out.count("red FORGED") >= 4
    assert left(SGR.sub("", out + err)) == []
    assert not any(line.startswith("FORGED") for line in (out + err).splitlines())
    assert watched("enable", "claude", "--dry-run").count("\x1b[32m") > 3
    faults.many(1)


@pytest.mark.parametrize("word", [*ATTACKS.values(), "it's", "a b", "", "back\\slash", "two\nlines", "é"])
def test_printed_command_is_quoted_for_a_shell(word):
    word = word.replace("\0", "").encode("utf-8", "replace").decode()
    printed = shell_command(["printf", "%s", word])
    assert left(printed) == [] and "\n" not in printed
    assert subprocess.run(["bash", "-c", printed], capture_output=True, check=True).stdout == word.encode()


@pytest.mark.promise("P32")
@pytest.mark.parametrize("attack", [*ATTACKS.values(), "a\n  written  b  the session changed it"])
def test_hand_written_path_is_one_line(attack):
    [line] = checkpoints.outcome_lines([FileOutcome(attack, "left", attack)])
    assert "\n" not in line
    assert not any(map(drives, SGR.sub("", line)))


@pytest.mark.promise("P32")
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_messages_of_a_remote_contain_no_terminal_controls(attack, capsys, faults):
    remotes.Progress()(b"Receiving objects:  50%\rremote: " + attack.encode("utf-8", "surrogatepass") + b"\n")
    assert left(capsys.readouterr().err.replace("\r", "").replace("\n", "")) == []
    faults.many(1)
