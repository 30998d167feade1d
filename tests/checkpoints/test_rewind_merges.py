"""Tests of files that the user edited after the session: the session's changes are undone, the user's are kept."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from builders import Clock
from rewound import Held, fill, put, snapshot, take_away, talk

from gitsession.api import Session, Store
from gitsession.checkpoints import rewind_merges, rewinding
from gitsession.checkpoints.rewind_decisions import ALREADY_REVERTED, CHANGED_SINCE, CONFLICT, MERGED, PathDecision
from gitsession.errors import MissingObject
from gitsession.git.objects import oid_of
from gitsession.model.entries import Message

Content = bytes | Held | None
"""Bytes of a file; a file with its kind; ``None`` for no file."""


@pytest.fixture
def store(tmp_path):
    with Store.create(tmp_path / "store.git", clock=Clock()) as made:
        yield made


@pytest.fixture
def folder(tmp_path):
    return fill(tmp_path / "work", {"notes.md": "mine\n"})


def lines(**changed: str) -> bytes:
    """Return twelve lines. ``l3="x"`` replaces the third one."""
    return b"".join(f"{changed.get(f'l{n}', f'line {n}')}\n".encode() for n in range(1, 13))


def write(folder: Path, name: str, content: Content) -> None:
    if content is None:
        take_away(folder / name)
    elif isinstance(content, tuple):
        put(folder, name, content[1], kind=content[0])
    else:
        put(folder, name, content)


def held(folder: Path, name: str) -> Content:
    found = snapshot(folder).get(name.encode())
    return found[1] if found and found[0] == "file" else found


def call(session: Session, folder: Path, files: dict[str, Content]) -> None:
    session.append(Message.assistant("I will."))
    with session.files.checkpoint(folder, call=f"call-{len(session.history())}"):
        for name, content in files.items():
            write(folder, name, content)
    session.append(Message.assistant("done"))


def changes(session: Session, folder: Path) -> dict[str, PathDecision]:
    return {change.path: change for change in session.files.plan_rewind("root", "files", workspace=folder).changes}


def rewind(session: Session, folder: Path) -> dict[str, tuple[str, str]]:
    plan = session.files.plan_rewind("root", "files", workspace=folder)
    return {one.path: (one.action, one.reason) for one in session.files.rewind(plan).outcomes}


def crlf(content: bytes) -> bytes:
    return content.replace(b"\n", b"\r\n")


THE_SESSIONS, THE_USERS, BOTH = lines(l2="session"), lines(l9="user"), lines(l2="session", l9="user")

CASES: dict[str, tuple[Content, Content, Content, str, Content]] = {
    # before, after the session, after the user; the action, and the final content
    "edits in two places": (lines(), THE_SESSIONS, BOTH, "merge", THE_USERS),
    "edits between each other": (lines(), lines(l2="s", l6="s", l11="s"),
                                 lines(l2="s", l4="u", l6="s", l8="u", l11="s"), "merge", lines(l4="u", l8="u")),
    "lines put in and taken out": (lines(), b"first\n" + lines(), b"first\n" + lines().replace(b"line 9\n", b""),
                                   "merge", lines().replace(b"line 9\n", b"")),
    "the same line": (lines(), THE_SESSIONS, lines(l2="user"), "conflict", lines(l2="user")),
    "the same line and another": (lines(), THE_SESSIONS, lines(l2="user", l9="user"), "conflict",
                                  lines(l2="user", l9="user")),
    "the session's line as it was": (lines(), THE_SESSIONS, THE_USERS, "leave", THE_USERS),
    "the user's line as the session's": (lines(), THE_SESSIONS, lines(l2="session", l9="session"), "merge",
                                         lines(l9="session")),
    "CRLF": (crlf(lines()), crlf(THE_SESSIONS), crlf(BOTH), "merge", crlf(THE_USERS)),
    "CRLF in the user's lines only": (lines(), THE_SESSIONS, BOTH.replace(b"user\n", b"user\r\n"), "merge",
                                      THE_USERS.replace(b"user\n", b"user\r\n")),
    "no final newline": (lines()[:-1], THE_SESSIONS[:-1], BOTH[:-1], "merge", THE_USERS[:-1]),
    "a final newline that the session made": (lines()[:-1], lines(), THE_USERS, "merge", THE_USERS[:-1]),
    "no UTF-8": (b"\xff" + lines(), b"\xff" + THE_SESSIONS, b"\xff" + BOTH, "merge", b"\xff" + THE_USERS),
    "binary": (b"\0" + lines(), b"\0" + THE_SESSIONS, b"\0" + BOTH, "leave", b"\0" + BOTH),
    "emptied by the session": (lines(), b"", b"user\n", "conflict", b"user\n"),
    "filled by the session": (b"", lines(), THE_USERS, "conflict", THE_USERS),
    "emptied by the user": (lines(), THE_SESSIONS, b"", "conflict", b""),
    "the session's lines only, taken out of nothing": (b"", b"session\n", b"", "leave", b""),
    "made by the session": (None, lines(), THE_USERS, "leave", THE_USERS),
    "taken away by the session, made anew by the user": (lines(), None, THE_USERS, "leave", THE_USERS),
    "taken away by the user": (lines(), THE_SESSIONS, None, "leave", None),
    "a link by the user": (lines(), THE_SESSIONS, ("link", b"notes.md"), "leave", ("link", b"notes.md")),
    "mode by the session": (lines(), ("executable", lines()), ("executable", THE_USERS), "merge", THE_USERS),
    "mode by the user": (lines(), THE_SESSIONS, ("executable", THE_SESSIONS), "merge", ("executable", lines())),
    "mode and lines by both": (lines(), ("executable", THE_SESSIONS), ("executable", BOTH), "merge", THE_USERS),
    "mode by the session, taken back by the user": (lines(), ("executable", THE_SESSIONS), BOTH, "merge", THE_USERS),
    "too large": (lines() * 5000, THE_SESSIONS + lines() * 4999, THE_SESSIONS + lines() * 4998 + THE_USERS, "leave",
                  THE_SESSIONS + lines() * 4998 + THE_USERS),
}  # fmt: skip


@pytest.mark.parametrize("seen", [False, True], ids=["unseen", "seen before a later call"])
def test_files_edited_by_the_user_after_the_session(store, folder, seen):
    for name, (before, *_) in CASES.items():
        write(folder, name, before)
    session = talk(store, folder)
    call(session, folder, {name: made for name, (_, made, *_) in CASES.items()})
    for name, (_, _, edited, *_) in CASES.items():
        write(folder, name, edited)
    if seen:
        call(session, folder, {"other": b"session\n"})
    edited = snapshot(folder)
    planned = changes(session, folder)
    assert snapshot(folder) == edited, "a plan only reads"
    expected = {name: action for name, (*_, action, _) in CASES.items()}
    assert {name: planned[name].action for name in CASES} == expected
    done = rewind(session, folder)
    assert {name: done[name][0] == "written" for name in CASES} == {
        name: action == "merge" for name, action in expected.items()
    }
    assert {name: held(folder, name) for name in CASES} == {name: after for name, (*_, after) in CASES.items()}
    assert {done[name][1] for name, action in expected.items() if action == "conflict"} == {CONFLICT}
    assert {done[name][1] for name, action in expected.items() if action == "merge"} == {MERGED}
    rewound = snapshot(folder)
    again = {change.action for change in changes(session, folder).values()}
    assert again <= {"leave", "conflict"}, "nothing is left to take back"
    store.undo(folder)
    assert snapshot(folder) == edited
    store.redo(folder)
    assert snapshot(folder) == rewound
    store.undo(folder)
    assert snapshot(folder) == edited
    assert store.verify().problems == []


def test_edited_new_name_of_a_renamed_file_is_kept_and_the_old_one_restored(store, folder):
    write(folder, "old", lines())
    session = talk(store, folder)
    call(session, folder, {"old": None, "new": THE_SESSIONS})
    write(folder, "new", BOTH)
    assert rewind(session, folder)["new"] == ("left", CHANGED_SINCE)
    assert (held(folder, "old"), held(folder, "new")) == (lines(), BOTH)


def test_several_changes_of_the_session_and_the_user_are_separated(store, folder):
    write(folder, "a", lines())
    session = talk(store, folder)
    call(session, folder, {"a": lines(l2="s")})
    write(folder, "a", lines(l2="s", l5="u"))
    call(session, folder, {"a": lines(l2="s", l5="u", l8="s")})
    call(session, folder, {"a": lines(l2="s again", l5="u", l8="s")})
    write(folder, "a", lines(l2="s again", l5="u", l8="s", l11="u"))
    assert rewind(session, folder)["a"] == ("written", MERGED)
    assert held(folder, "a") == lines(l5="u", l11="u")
    assert rewind(session, folder)["a"] == ("left", ALREADY_REVERTED)


def test_checkpoint_of_a_rewind_has_the_merged_file_and_the_undone_change(store, folder):
    write(folder, "a", lines())
    session = talk(store, folder)
    call(session, folder, {"a": THE_SESSIONS})
    write(folder, "a", BOTH)
    rewind(session, folder)
    assert session.files.at().read("a") == THE_USERS
    write(folder, "a", lines(l9="user", l12="user"))
    assert changes(session, folder)["a"].reason == ALREADY_REVERTED


def test_undo_keeps_edits_after_the_rewind(store, folder):
    for name in ("merged", "restored", "overlapping"):
        write(folder, name, lines())
    session = talk(store, folder)
    call(session, folder, dict.fromkeys(("merged", "restored", "overlapping"), THE_SESSIONS))
    write(folder, "merged", BOTH)
    rewind(session, folder)
    write(folder, "merged", lines(l9="user", l12="later"))
    write(folder, "restored", lines(l12="later"))
    write(folder, "overlapping", lines(l2="later"))
    done = {one.path: one.reason for one in store.undo(folder).outcomes}
    assert done == {"merged": MERGED, "restored": MERGED, "overlapping": CONFLICT}
    assert held(folder, "merged") == lines(l2="session", l9="user", l12="later")
    assert held(folder, "restored") == lines(l2="session", l12="later")
    assert held(folder, "overlapping") == lines(l2="later")
    store.redo(folder)
    assert held(folder, "merged") == lines(l9="user", l12="later")


def test_a_file_that_changes_after_the_plan_is_left(store, folder):
    write(folder, "a", lines())
    session = talk(store, folder)
    call(session, folder, {"a": THE_SESSIONS})
    write(folder, "a", BOTH)
    plan = session.files.plan_rewind("root", "files", workspace=folder)
    write(folder, "a", lines(l2="session", l9="meanwhile"))
    [one] = session.files.rewind(plan).outcomes
    assert one.action == "left"
    assert held(folder, "a") == lines(l2="session", l9="meanwhile")


def test_a_content_that_a_rule_withholds_is_not_made(store, folder, monkeypatch):
    write(folder, "a", lines())
    session = talk(store, folder)
    call(session, folder, {"a": THE_SESSIONS})
    write(folder, "a", BOTH)
    monkeypatch.setattr(rewind_merges, "exclusion_rule", lambda _: lambda data: "rule" if data == THE_USERS else None)
    assert changes(session, folder)["a"].reason == CHANGED_SINCE


def test_plan_is_limited_by_the_bytes_of_merged_files(store, folder, monkeypatch):
    for name in ("a", "b"):
        write(folder, name, lines(l1=name))
    session = talk(store, folder)
    call(session, folder, {name: lines(l1=name, l4="session") for name in ("a", "b")})
    for name in ("a", "b"):
        write(folder, name, lines(l1=name, l4="session", l9="user"))
    monkeypatch.setattr(rewind_merges, "BYTES_MAX_IN_ALL", len(lines()) + 10)
    assert {change.action for change in changes(session, folder).values()} == {"merge", "leave"}


def test_merge_library_is_loaded_only_for_merges(store, folder):
    write(folder, "a", lines())
    session = talk(store, folder)
    call(session, folder, {"a": THE_SESSIONS})
    store.flush()
    script = (
        "import sys; from gitsession import Store\n"
        f"folder = {str(folder)!r}\n"
        f"with Store.open({str(store.objects.git_dir)!r}) as store:\n"
        f"    [change] = store.session({session.id!r}).files.plan_rewind('root', 'files', workspace=folder).changes\n"
        "print(change.action, 'pygit2' in sys.modules)\n"
    )
    for content, said in ((THE_SESSIONS, "write False\n"), (BOTH, "merge True\n")):
        write(folder, "a", content)
        assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == said


def test_rewinds_merge_as_git_does(store, folder, tmp_path):
    chance = random.Random(3)

    def edited(content: list[bytes]) -> list[bytes]:
        made = list(content)
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(made) + 1)
            made[at : at + chance.randint(0, 2)] = [b"new %d\n" % chance.randrange(99)] * chance.randint(0, 2)
        return made

    names = [f"{n}.txt" for n in range(30)]
    before = {name: [b"line %d\n" % n for n in range(chance.randint(5, 30))] for name in names}
    made = {name: edited(content) for name, content in before.items()}
    now = {name: edited(content) for name, content in made.items()}
    for name in names:
        write(folder, name, b"".join(before[name]))
    session = talk(store, folder)
    call(session, folder, {name: b"".join(made[name]) for name in names})
    clean = 0
    expected = {}
    for name in names:
        write(folder, name, b"".join(now[name]))
        for side, content in (("ours", now), ("base", made), ("theirs", before)):
            (tmp_path / side).write_bytes(b"".join(content[name]))
        done = subprocess.run(["git", "merge-file", "-p", "ours", "base", "theirs"], cwd=tmp_path, capture_output=True)
        expected[name] = b"".join(now[name]) if done.returncode else done.stdout
        clean += not done.returncode
    rewind(session, folder)
    assert {name: held(folder, name) for name in names} == expected
    assert 5 < clean < 30


# ---- crashes


def merged_scene(store: Store, folder: Path) -> Session:
    for name in ("a", "b"):
        write(folder, name, lines(l1=name))
    session = talk(store, folder)
    call(session, folder, {name: lines(l1=name, l4="session") for name in ("a", "b")})
    for name in ("a", "b"):
        write(folder, name, lines(l1=name, l4="session", l9="user"))
    return session


@pytest.mark.parametrize("way", ["continue", "abort"])
def test_a_rewind_that_stopped_before_a_merged_file_was_written_is_ended(store, folder, monkeypatch, way):
    session = merged_scene(store, folder)
    edited = snapshot(folder)
    with monkeypatch.context() as broken:
        broken.setattr(rewinding, "restore", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            rewind(session, folder)
    assert snapshot(folder) == edited
    if way == "abort":
        session.files.abort_rewind(folder)
        assert snapshot(folder) == edited
    else:
        session.files.finish_rewind(folder)
        assert {name: held(folder, name) for name in ("a", "b")} == {
            name: lines(l1=name, l9="user") for name in ("a", "b")
        }
        store.undo(folder)
        assert snapshot(folder) == edited
    assert (store.unfinished(), store.verify().problems) == ([], [])


def test_checkpoint_does_not_name_lost_merged_content(store, folder, monkeypatch):
    """A user's `git repack -a -d` between a crash and `--continue` deletes unreachable objects."""
    session = merged_scene(store, folder)
    edited = snapshot(folder)
    with monkeypatch.context() as broken:
        broken.setattr(rewinding.RewindRun, "_finish_rewind", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            rewind(session, folder)
    merged = {oid_of("blob", lines(l1=name, l9="user")) for name in ("a", "b")}
    real = store.objects.contains
    with monkeypatch.context() as lost:
        lost.setattr(type(store.objects), "contains", lambda self, oid: oid not in merged and real(oid))
        with pytest.raises(MissingObject):
            session.files.finish_rewind(folder)
    session.files.abort_rewind(folder)
    assert snapshot(folder) == edited
    assert store.verify().problems == []
