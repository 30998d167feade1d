"""Tests of ``gitsession diff``: any two entries, paths, and wrong input."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from builders import Clock
from commands import Run, document

from gitsession import Message
from gitsession.api import Session, Store

HIDDEN = "\x1b[31m\u202e"


@pytest.fixture
def store(run: Run, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Return an empty store."""
    monkeypatch.setenv("GITSESSION_DIR", str(tmp_path / "store.git"))
    return Store.create(tmp_path / "store.git", clock=Clock())


def turn(session: Session, folder: Path, prompt: str, **files: str) -> None:
    """Append a prompt and an answer, whose tool call writes files. ``__`` in a name is a slash."""
    session.append(Message.user(prompt))
    if files:
        with session.files.checkpoint(folder):
            for name, text in files.items():
                path = folder / name.replace("__", "/")
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
    session.append(Message.assistant(f"did: {prompt}"))


@pytest.fixture
def session(store: Store, here: Path) -> Session:
    """Return a session with four turns. The third one has no checkpoint."""
    session = store.new_session(agent="pi", cwd=str(here))
    turn(session, here, "one", a="1\n", src__b="1\n", src__c="1\n")
    turn(session, here, "two", a="1\n2\n", src__b="1\n2\n")
    turn(session, here, "only talk")
    turn(session, here, "three", src__c="3\n", srcs="new\n")
    return session


def names(run: Run, *words: str, code: int = 0) -> list[str]:
    return run("diff", "--name-only", *words, code=code).splitlines()


def test_any_two_entries_also_those_without_checkpoints(run: Run, session: Session, store: Store) -> None:
    store.close()
    talk = "@@leaf~2"  # after the second turn, and before the fourth one
    assert names(run, "@@leaf~4", talk, code=1) == []
    assert names(run, "@@leaf~6", talk) == ["a", "src/b"]
    assert names(run, talk) == names(run, talk, "leaf") == ["src/c", "srcs"]
    assert "-3\n+1\n" in run("diff", "@@leaf", talk)


PATHS = {
    "a folder": (["src"], ["src/b", "src/c"]),
    "a folder with a slash": (["src/"], ["src/b", "src/c"]),
    "from the current folder": (["./src"], ["src/b", "src/c"]),
    "a file": (["src/b"], ["src/b"]),
    "two files": (["a", "srcs"], ["a", "srcs"]),
    "everything": (["."], ["a", "src/b", "src/c", "srcs"]),
    "a pattern": (["*c"], ["src/c"]),
    "all but a folder": ([":!src"], ["a", "srcs"]),
    "an unknown file": (["none"], []),
}


@pytest.mark.parametrize(("paths", "expected"), PATHS.values(), ids=PATHS)
def test_paths_select_files_as_in_git(
    run: Run, session: Session, store: Store, paths: list[str], expected: list[str]
) -> None:
    store.close()
    ends = ("@@leaf~6", "leaf")
    code = 0 if expected else 1
    assert names(run, *ends, "--", *paths, code=code) == expected
    listed = document(run("diff", "--json", *ends, "--", *paths, code=code))["files"]
    assert [file["path"] for file in listed] == expected


def test_an_absolute_path_in_the_workspace(run: Run, here: Path, session: Session, store: Store) -> None:
    store.close()
    assert names(run, "@@leaf~6", "leaf", "--", str(here / "src/c")) == ["src/c"]


def test_sizes_of_the_changes(run: Run, session: Session, store: Store) -> None:
    store.close()
    assert " src/c | 2 +-\n" in run("diff", "@@leaf~2", "--stat")
    found = document(run("diff", "@@leaf~2", "--stat", "--json"))
    assert [(file["path"], file["added"], file["deleted"]) for file in found["files"]] == [
        ("src/c", 1, 1), ("srcs", 1, 0),
    ]  # fmt: skip
    run("diff", "@@leaf~2", "--stat", "--name-only", code=2)


def test_entries_of_two_sessions(run: Run, here: Path, tmp_path: Path, session: Session, store: Store) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a").write_text("1\n2\n")
    other = store.new_session(agent="pi", cwd=str(elsewhere))
    turn(other, elsewhere, "five", d="5\n")
    store.close()
    assert names(run, f"{session.id}@leaf", f"{other.id}@leaf") == ["d", "src/b", "src/c", "srcs"]
    found = document(run("diff", "--json", session.id, other.id, "--", "d"))
    assert (found["session"], found["to_session"]) == (session.id, other.id)
    assert [file["old"] for file in found["files"]] == [None]
    assert "the workspaces differ" in run("diff", session.id, other.id, err=True)


def test_a_session_without_checkpoints(run: Run, here: Path, session: Session, store: Store) -> None:
    other = store.new_session(agent="pi", cwd=str(here))
    other.append(Message.user("hi"))
    store.close()
    for words in ((other.id,), (session.id, other.id), (other.id, session.id)):
        text = run("diff", *words, code=3, err=True)
        assert f"session {other.id}: it has no checkpoints" in text
        assert "gitsession enable" in text


WRONG = {
    "an unknown entry": (["@@nothing"], 3),
    "an unknown second entry": (["@@leaf", "nothing"], 3),
    "an unknown second session": (["@@leaf", "nothing@leaf"], 3),
    "three entries": (["@", "leaf", "root"], 2),
    "no entry": ([], 2),
    "only a path": (["--", "a"], 2),
    "an entry that is a hostile text": ([f"@@{HIDDEN}\n"], 3),
    "an empty path": (["@@leaf~6", "--", ""], 2),
    "a path outside": (["@@leaf~6", "--", "../.."], 2),
    "an unknown kind of pattern": (["@@leaf~6", "--", ":(bogus)a"], 2),
    "a NUL byte in a path": (["@@leaf~6", "--", "a\0b"], 2),
    "a hostile path": (["@@leaf~6", "--", f"{HIDDEN}\n"], 1),
    "a byte that is not UTF-8": (["@@leaf~6", "--", "\udcff"], 1),
}


@pytest.mark.parametrize(("words", "code"), WRONG.values(), ids=WRONG)
def test_wrong_input_is_reported(run: Run, session: Session, store: Store, words: list[str], code: int) -> None:
    store.close()
    text = run("diff", *words, code=code, err=True)
    assert text and "\x1b" not in text and "\u202e" not in text and "Traceback" not in text


UNUSUAL = ["a:b", f"x{HIDDEN}\ny", "\udcff", "[id].tsx", "-x", "äö", "a\tb"]


def test_unusual_names_and_contents(run: Run, here: Path, store: Store) -> None:
    session = store.new_session(agent="pi", cwd=str(here))
    session.append(Message.user("write"))
    with session.files.checkpoint(here):
        for name in UNUSUAL:
            (here / name).write_text(f"{HIDDEN}\n")
        (here / "binary").write_bytes(bytes(range(256)))
        (here / "big").write_text("".join(f"line {number}\n" for number in range(100_000)))
    store.close()
    for name in UNUSUAL:
        assert len(names(run, "@@root", "--", name)) == 1
    shown = run("diff", "@@root", "--name-only") + run("diff", "@@root", "--stat")
    assert "\x1b" not in shown and "\u202e" not in shown
    assert "Binary files /dev/null and b/binary differ" in run("diff", "@@root")
    found = document(run("diff", "@@root", "--stat", "--json"))
    sizes = {file["path"]: (file["added"], file["deleted"]) for file in found["files"]}
    assert (sizes["binary"], sizes["big"], len(sizes)) == ((None, None), (100_000, 0), len(UNUSUAL) + 2)


def test_git_can_apply_the_diff_of_some_files(run: Run, here: Path, session: Session, store: Store) -> None:
    store.close()
    patch = run("diff", "@@leaf", "leaf~2", "--", "src")
    subprocess.run(["git", "apply"], input=patch.encode(), cwd=here, check=True)
    assert (here / "src/c").read_text() == "1\n" and (here / "srcs").exists()
