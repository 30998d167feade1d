"""Tests of ``gitsession blame`` and ``gitsession log -- FILE``."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from builders import Clock
from commands import Run, document

from gitsession import Message, ToolCall
from gitsession.api import Session, Store

HIDDEN = "\x1b[31m\u202e"


def answer(session: Session, name: str, *, is_error: bool = False, **arguments: Any) -> None:
    """Append a tool call and its result."""
    call = ToolCall(f"call {len(list(session.history()))}", name, arguments)
    session.append(Message.assistant([call]))
    session.append(Message.tool(call, "failed" if is_error else "done", is_error=is_error))


@pytest.fixture
def store(run: Run, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Return an empty store. The current folder is the top of a repository."""
    monkeypatch.setenv("GITSESSION_DIR", str(tmp_path / "store.git"))
    (here / ".git").mkdir()
    return Store.create(tmp_path / "store.git", clock=Clock())


@pytest.fixture
def session(store: Store, here: Path) -> Session:
    """Return a session that wrote ``app.py`` and edited it."""
    session = store.new_session(agent="pi", cwd=str(here))
    session.append(Message.user("Write an app"))
    answer(session, "write", path=str(here / "app.py"), content="import os\n\nprint(os.name)\n")
    session.append(Message.user("Print the user, too"))
    answer(session, "edit", path="app.py", oldText="print(os.name)", newText="print(os.name)\nprint(os.getlogin())")
    return session


TEXT = "import os\n\nprint(os.name)  # by hand\nprint(os.getlogin())\n"


def blamed(run: Run, *words: str) -> list[str | None]:
    return [line["prompt"] for line in document(run("blame", "--json", *words))["lines"]]


def test_each_line_has_the_prompt_that_led_to_it(run: Run, here: Path, session: Session, store: Store) -> None:
    store.close()
    (here / "app.py").write_text(TEXT)
    assert blamed(run, "app.py") == ["Write an app", "Write an app", None, "Print the user, too"]
    assert blamed(run, "app.py", "-L", "3,4") == [None, "Print the user, too"]
    first, _, third, fourth = run("blame", "app.py").splitlines()
    short = session.id.rpartition("-")[2][:7]
    assert first.startswith(f"{short} ") and "pi Write" in first and first.endswith(" 1) import os")
    assert third.split() == ["-", "3)", "print(os.name)", "#", "by", "hand"]
    assert fourth.endswith(" 4) print(os.getlogin())")
    assert {line.index(")") for line in (first, third, fourth)} == {first.index(")")}


def test_the_same_file_in_another_clone(run: Run, here: Path, session: Session, store: Store, tmp_path: Path) -> None:
    store.close()
    for name, expected in (("work", "Print the user, too"), ("another project", None)):
        clone = tmp_path / "clones" / name
        (clone / ".git").mkdir(parents=True)
        (clone / "app.py").write_text(TEXT)
        assert blamed(run, str(clone / "app.py"))[3] == expected


def test_clones_of_a_repository_are_one_project(run: Run, store: Store, tmp_path: Path) -> None:
    for name in ("one", "two"):
        subprocess.run(["git", "init", "-q", name], cwd=tmp_path, check=True)
        remote = ["git", "remote", "add", "origin", "https://example.com/owner/app"]
        subprocess.run(remote, cwd=tmp_path / name, check=True)
        (tmp_path / name / "src").mkdir()
        (tmp_path / name / "src/app.py").write_text("print('written by an agent')\n")
    session = store.new_session(agent="pi", cwd=str(tmp_path / "one"))
    session.append(Message.user("Write"))
    answer(session, "write", path="src/app.py", content="print('written by an agent')\n")
    store.close()
    assert blamed(run, str(tmp_path / "two/src/app.py")) == ["Write"]
    assert blamed(run, str(tmp_path / "one/src/app.py")) == ["Write"]


def test_a_renamed_file(run: Run, here: Path, session: Session, store: Store) -> None:
    patch = (
        "*** Begin Patch\n*** Update File: app.py\n*** Move to: main.py\n@@\n import os\n+import sys\n*** End Patch\n"
    )
    session.append(Message.user("Rename it"))
    answer(session, "apply_patch", input=patch)
    store.close()
    (here / "main.py").write_text(TEXT.replace("import os\n", "import os\nimport sys\n"))
    assert blamed(run, "main.py") == ["Write an app", "Rename it", "Write an app", None, "Print the user, too"]
    changes = document(run("log", "--json", "--", "main.py"))["changes"]
    assert [change["prompt"] for change in changes] == ["Rename it", "Rename it", "Print the user, too", "Write an app"]


def test_a_failed_call_wrote_nothing(run: Run, here: Path, session: Session, store: Store) -> None:
    session.append(Message.user("Fail"))
    answer(session, "edit", path="app.py", oldText="import os", newText="import os, sys", is_error=True)
    store.close()
    (here / "app.py").write_text("import os, sys\n")
    assert blamed(run, "app.py") == [None]
    assert "Fail" not in run("log", "--", "app.py")


def test_an_id_that_a_failed_and_a_successful_call_share(run: Run, here: Path, store: Store) -> None:
    session = store.new_session(agent="pi", cwd=str(here))
    session.append(Message.user("Write two files"))
    names = ("app.py", "other.py")
    calls = [ToolCall("same", "write", {"path": name, "content": f"{name}\n"}) for name in names]
    session.append(Message.assistant(calls))
    for call, fails in zip(calls, (True, False), strict=True):
        session.append(Message.tool(call, "done", is_error=fails))
    store.close()
    for name, expected in zip(names, (None, "Write two files"), strict=True):
        (here / name).write_text(f"{name}\n")
        assert blamed(run, name) == [expected]
        run("log", "--", name, code=0 if expected else 1)


def test_a_patch_in_a_shell_command(run: Run, here: Path, session: Session, store: Store) -> None:
    patch = "*** Begin Patch\n*** Update File: app.py\n@@\n import os\n+import sys\n*** End Patch\n"
    session.append(Message.user("Import sys"))
    answer(session, "exec_command", cmd=f"apply_patch <<'EOF'\n{patch}EOF\npytest -q\n")
    session.append(Message.user("Show a patch"))
    answer(session, "exec_command", cmd=f"cat <<'EOF'\napply_patch <<'X'\n{patch.replace('sys', 're')}X\nEOF\n")
    store.close()
    (here / "app.py").write_text("import os\nimport sys\nimport re\n")
    assert blamed(run, "app.py") == ["Write an app", "Import sys", None]
    [newest, *_] = document(run("log", "--json", "--", "app.py"))["changes"]
    assert (newest["prompt"], newest["change"], newest["added"]) == ("Import sys", "edit", 1)
    assert "exec_command app.py +1 -0; pytest -q" in run("log")
    shown = run("show", "@@leaf~4").splitlines()
    assert [line.strip() for line in shown[-5:]] == [
        "-> exec_command", "app.py  edit +1 -0", "import os", "+import sys", "pytest -q",
    ]  # fmt: skip


def test_a_deleted_file_begins_again(run: Run, here: Path, session: Session, store: Store) -> None:
    session.append(Message.user("Delete it"))
    answer(session, "apply_patch", input="*** Begin Patch\n*** Delete File: app.py\n*** End Patch\n")
    store.close()
    (here / "app.py").write_text(TEXT)
    assert blamed(run, "app.py") == [None] * 4


def test_changes_of_shell_commands_between_checkpoints(run: Run, here: Path, store: Store) -> None:
    (here / ".git").rmdir()
    (here / "app.py").write_text("one\ntwo\n")
    session = store.new_session(agent="pi", cwd=str(here))
    session.append(Message.user("Use sed"))
    call = ToolCall("c", "bash", {"command": "sed -i s/two/three/ app.py"})
    session.append(Message.assistant([call]))
    with session.files.checkpoint(here, call="c"):
        (here / "app.py").write_text("one\nthree\n")
    session.append(Message.tool(call, ""))
    store.close()
    assert blamed(run, "app.py") == [None, "Use sed"]
    (here / "app.py").write_text("by hand\none\nthree\n")
    assert blamed(run, "app.py") == [None, None, "Use sed"]
    assert blamed(run, "@@leaf", "app.py") == [None, "Use sed"]
    assert blamed(run, "@@leaf", str(here / "app.py")) == [None, "Use sed"]
    assert "no file 'b.py' at @@leaf" in run("blame", "@@leaf", "b.py", code=3, err=True)


@pytest.mark.parametrize("name", ["a:b", f"x{HIDDEN}\ny", "\udcff", "*.py", "con"])
def test_a_file_with_an_unusual_name_between_checkpoints(run: Run, here: Path, store: Store, name: str) -> None:
    (here / ".git").rmdir()
    (here / name).write_text("one\n")
    session = store.new_session(agent="pi", cwd=str(here))
    session.append(Message.user("Use sed"))
    with session.files.checkpoint(here):
        (here / name).write_text("one\ntwo\n")
    session.append(Message.assistant("done"))
    store.close()
    assert blamed(run, name) == blamed(run, "@@leaf", name) == [None, "Use sed"]


def test_log_of_files_lists_the_changes_of_all_sessions(run: Run, here: Path, session: Session, store: Store) -> None:
    other = store.new_session(agent="claude", cwd=str(here))
    other.append(Message.user("Another agent"))
    answer(other, "Edit", file_path="app.py", old_string="os", new_string="sys")
    store.close()
    assert [line.split()[-2:] for line in run("log", "--", "app.py").splitlines()] == [
        ["Another", "agent"], ["user,", "too"], ["an", "app"],
    ]  # fmt: skip
    assert len(run("log", "-n", "1", "--", "app.py", "none.py").splitlines()) == 1
    found = document(run("log", session.id, "--json", "--", "app.py"))
    assert [(it["change"], it["added"], it["removed"]) for it in found["changes"]] == [("edit", 1, 0), ("write", 3, 0)]
    run("log", "--follow", "--", "app.py", code=2)
    run("log", f"{session.id}@leaf", "--", "app.py", code=2)
    assert "no session changed none.py" in run("log", "--", "none.py", code=1, err=True)


def test_log_without_files_shows_the_newest_session(run: Run, session: Session, store: Store) -> None:
    store.close()
    assert "Print the user, too" in run("log")
    assert run("log") == run("log", "@") == run("log", "@", "--")


BAD = {
    "no file": ("missing", None, 3), "a folder": ("folder", None, 4), "binary": ("file", b"a\0b\n", 4),
    "a NUL byte in the path": ("a\0b", None, 3), "a lone surrogate": ("\udcff", None, 3),
}  # fmt: skip


@pytest.mark.parametrize(("path", "data", "code"), BAD.values(), ids=BAD)
def test_a_file_that_cannot_be_read(
    run: Run, here: Path, session: Session, store: Store, path: str, data: bytes | None, code: int
) -> None:
    store.close()
    (here / "folder").mkdir()
    if data is not None:
        (here / path).write_bytes(data)
    assert run("blame", path, code=code, err=True).startswith("error: ")


WRONG = {
    "an unknown entry": ("@@nothing", "app.py"), "an unknown session": ("nothing@leaf", "app.py"),
    "a hostile address": (f"@@{HIDDEN}\n", "app.py"), "no checkpoint": ("@@leaf", "app.py"),
    "no session": ("@leaf~", "app.py"),
}  # fmt: skip


@pytest.mark.parametrize("words", WRONG.values(), ids=WRONG)
def test_an_entry_that_cannot_be_shown(run: Run, session: Session, store: Store, words: tuple[str, ...]) -> None:
    store.close()
    text = run("blame", *words, code=3, err=True)
    assert text.startswith("error: ") and "\x1b" not in text and "\u202e" not in text


@pytest.mark.parametrize("path", ["none", "", "a\0b", f"{HIDDEN}\n", "\udcff", "/", "../.."])
def test_a_path_that_no_session_changed(run: Run, session: Session, store: Store, path: str) -> None:
    store.close()
    text = run("log", "--", path, code=1, err=True)
    assert "no session changed" in text and "\x1b" not in text and "\u202e" not in text


@pytest.mark.parametrize("words", [("app.py", "-L", "0,1"), ("app.py", "-L", "5,"), ("app.py", "-L", "x"), ()])
def test_invalid_arguments(run: Run, here: Path, session: Session, store: Store, words: tuple[str, ...]) -> None:
    store.close()
    (here / "app.py").write_text(TEXT)
    run("blame", *words, code=2)


def test_an_empty_file(run: Run, here: Path, store: Store) -> None:
    store.close()
    (here / "empty").write_bytes(b"")
    assert "the file is empty" in run("blame", "empty", code=1, err=True)


def test_text_of_files_and_prompts_cannot_control_the_terminal(run: Run, here: Path, store: Store) -> None:
    session = store.new_session(agent=f"pi{HIDDEN}", cwd=str(here))
    session.append(Message.user(f"Write {HIDDEN}\nit"))
    answer(session, "write", path=f"a{HIDDEN}", content=f"\tx{HIDDEN}\n\ufffd\n")
    store.close()
    (here / f"a{HIDDEN}").write_bytes(f"\tx{HIDDEN}\n".encode() + b"\xff\n")
    shown = run("blame", f"a{HIDDEN}") + run("log", "--", f"a{HIDDEN}")
    assert "\x1b" not in shown and "\u202e" not in shown
    assert "    x" in shown


def test_a_file_of_100_000_lines(run: Run, here: Path, session: Session, store: Store) -> None:
    text = "".join(f"line {number}\n" for number in range(100_000))
    session.append(Message.user("Write much"))
    answer(session, "write", path="big", content=text)
    store.close()
    (here / "big").write_text(text.replace("line 500\n", "changed\n"))
    found = blamed(run, "big", "-L", "500,502")
    assert found == ["Write much", None, "Write much"]


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_no_line_of_the_log_is_wider_than_the_terminal(
    run: Run, session: Session, store: Store, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    session.append(Message.user("many words " * 30))
    answer(session, "edit", path="app.py", oldText="a", newText="b")
    store.close()
    monkeypatch.setenv("COLUMNS", str(columns))
    assert max(map(len, run("log", "--", "app.py").splitlines())) <= max(columns, 56)
