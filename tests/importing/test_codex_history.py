"""Tests of codex's file history: after an import, rewind restores deleted files and undoes changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import real_codex
from builders import dumps
from checkpoints import claimed, oids
from codex_files import NAME, Lines, call, event, output, rollout, settings, user
from codex_threads import CHILD, child_of
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from rewound import fill, snapshot

from gitsession.api import Store
from gitsession.formats.base.file_changes import RecordedReplacement, apply_diff
from gitsession.formats.codex.agent import codex
from gitsession.workspace import read_file


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return fill(tmp_path / "work", {"a.txt": "one\n", "gone.txt": "g\r\nh", "notes.md": "mine\n"})


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with Store.create(tmp_path / "store.git") as store:
        yield store


def patch(id: str, made: Any, *, paginated: bool = False, **fields: object) -> Lines:
    """Return a call that applies a patch."""
    ended = event("patch_apply_end", call_id=id, **{"success": True, "changes": made, **fields})
    if paginated:
        item = {"type": "FileChange", "id": id, "changes": made, "status": "completed", **fields}
        ended = event("item_completed", item=item)
    return [*call(id, "apply_patch"), *ended, *output(id, "Done.")]


def add(text: object) -> dict[str, Any]:
    return {"type": "add", "content": text}


def delete(text: object) -> dict[str, Any]:
    return {"type": "delete", "content": text}


def update(diff: object, to: object = None) -> dict[str, Any]:
    return {"type": "update", "unified_diff": diff, "move_path": to}


def saved(work: Path, *parts: Lines, name: str = NAME, **fields: Any) -> Path:
    path = work.parent / "codex" / f"{name}.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(rollout(*parts, **fields).replace(b'"cwd":"/work"', b'"cwd":%s' % dumps(str(work))))
    return path


def brought(store: Store, path: Path) -> Any:
    [done] = store.import_file(path)
    return store.session(done.session)


def rewind(session: Any, words: str, work: Path, *, force: bool = False) -> None:
    node = next(node for node in session.history() if node.subject == f"user: {words}")
    session.files.rewind(session.files.plan_rewind(node, "files", workspace=work, force=force))


def worked(work: Path, **kinds: bool) -> tuple[list[Lines], dict[str, dict[bytes, Any]]]:
    """Run three turns, and return their lines and the state of the folder at each."""
    was, parts = {}, []

    def turn(words: str, id: str, changes: dict[str, Any]) -> None:
        was[words] = snapshot(work)
        parts.extend(
            (user(words), settings(), patch(id, {str(work / path): each for path, each in changes.items()}, **kinds))
        )

    turn("first", "c1", {"new.txt": add("1\n2\n3\n4\n"), "gone.txt": delete("g\r\nh")})
    fill(work, {"new.txt": "1\n2\n3\n4\n"})
    (work / "gone.txt").unlink()
    turn(
        "second",
        "c2",
        {
            "new.txt": update(
                "@@ -1,2 +1,3 @@\n 1\n-2\n+two\n+2b\n@@ -4 +5 @@\n-4\n+four\n\\ No newline at end of file\n"
            )
        },
    )
    fill(work, {"new.txt": "1\ntwo\n2b\n3\nfour"})
    turn("third", "c3", {"new.txt": delete("1\ntwo\n2b\n3\nfour")})
    (work / "new.txt").unlink()
    return parts, was


@pytest.mark.parametrize("paginated", [False, True])
def test_rewind_restores_deleted_and_changed_files_and_undo_reverts_it(store, work, paginated):
    parts, was = worked(work, paginated=paginated)
    session, now = brought(store, saved(work, *parts, first=0 if paginated else None)), snapshot(work)
    was["first"] |= was["second"]  # a file that a patch adds may have replaced another one, so it is not deleted
    was["first"][b"gone.txt"] = ("file", b"g\r\nh")
    for words, expected in was.items():
        rewind(session, words, work)
        assert snapshot(work) == expected
        store.undo()
        assert snapshot(work) == now


def test_file_added_by_a_patch_is_not_attributed(store, work):
    """The real codex overwrites an existing file and records that it added the file."""
    (work / "a.txt").write_text("new\n")
    made = {str(work / "a.txt"): add("new\n"), str(work / "gone.txt"): delete("g\r\nh")}
    session = brought(store, saved(work, user("go"), patch("c1", made)))
    assert claimed(store, session.id) == [["gone.txt"]]
    for force in (False, True):
        rewind(session, "go", work, force=force)
        assert (work / "a.txt").read_text() == "new\n"


def test_update_of_an_unknown_file_is_not_attributed(store, work):
    diff = "@@ -1 +1 @@\n-one\n+two\n"
    assert (
        oids(store, brought(store, saved(work, user("go"), patch("c1", {str(work / "a.txt"): update(diff)}))).id) == []
    )


def test_changes_of_others_between_patches_are_kept(store, work):
    path = str(work / "b.txt")
    turns = [user("go"), patch("c1", {path: add("1\n2\n3\n")}), patch("c2", {path: update("@@ -1 +1 @@\n-1\n+one\n")})]
    session = brought(store, saved(work, *turns))
    assert claimed(store, session.id) == [["b.txt"]]
    (work / "b.txt").write_text("one\n2\nthe user's\n")
    rewind(session, "go", work)
    assert (work / "b.txt").read_text() == "1\n2\nthe user's\n"


def test_moved_file_is_not_attributed(store, work):
    path, to = str(work / "b.txt"), str(work / "c.txt")
    moved = patch("c2", {path: update("@@ -1 +1 @@\n-1\n+2\n", to)})
    session = brought(store, saved(work, user("go"), patch("c1", {path: add("1\n")}), moved))
    assert claimed(store, session.id) == []
    assert set(session.files.at("leaf")) == set()


def test_deleted_script_is_not_restored_because_its_mode_is_unknown(store, work):
    session = brought(store, saved(work, user("go"), patch("c1", {str(work / "run"): delete("#!/bin/sh\n")})))
    assert claimed(store, session.id) == []


@pytest.mark.parametrize("fields", [{"success": False}, {"success": None}, {"changes": None}, {"changes": []}])
def test_failed_patch_is_ignored(store, work, fields):
    assert (
        oids(
            store, brought(store, saved(work, user("go"), patch("c1", {str(work / "a.txt"): delete("x")}, **fields))).id
        )
        == []
    )


def test_form_of_older_versions_is_read(store, work):
    changes = {str(work / "b.txt"): {"add": {"content": "1\n"}}, str(work / "a.txt"): {"delete": {"content": "one\n"}}}
    session = brought(store, saved(work, user("go"), patch("c1", changes)))
    assert claimed(store, session.id) == [["a.txt"]]


def test_two_machines_make_the_same_checkpoints_from_one_import_or_several(store, tmp_path, work):
    parts, _ = worked(work)
    lines = [line for part in parts for line in part]
    with Store.create(tmp_path / "other.git") as other:
        for count in range(1, len(lines) + 1):
            session = brought(other, saved(work, lines[:count]))
        assert brought(store, saved(work, *parts)).id == session.id
        assert oids(store, session.id) == oids(other, session.id) != []
        before = oids(store, session.id)
        brought(store, saved(work, *parts))
        assert oids(store, session.id) == before


def test_nothing_is_added_after_an_own_checkpoint(store, work):
    parts, _ = worked(work)
    session = brought(store, saved(work, *parts[:1]))
    session.files.take_checkpoint("before", workspace=work)
    before = oids(store, session.id)
    assert oids(store, brought(store, saved(work, *parts)).id) == before


def test_fork_by_reference_has_its_own_changes(store, work):
    """The ordinals of the fork's lines also occur in the other file."""
    path = str(work / "a.txt")
    first = saved(work, user("base"), *(settings() for _ in range(30)), first=0)
    brought(store, first)
    fork = first.with_name(f"{NAME.replace(NAME[-36:], CHILD)}.jsonl")
    data = child_of(NAME[-36:], 2, user("fork"), patch("c1", {path: delete("one\n")}, paginated=True))
    fork.write_bytes(data.replace(b'"cwd":"/work"', b'"cwd":%s' % dumps(str(work))))
    session = brought(store, fork)
    assert claimed(store, session.id) == [["a.txt"]]
    (work / "a.txt").unlink()
    rewind(session, "fork", work)
    assert (work / "a.txt").read_text() == "one\n"


@pytest.mark.parametrize(
    "path", ["../x", "/etc/x", "a/../../x", "", ".", ".git/config", "a\0b", "a/" * 80 + "x", "\ud800", "x" * 300]
)
def test_a_path_that_leads_elsewhere_is_left_out(store, work, path):
    changes = {path: delete("x"), str(work / path.lstrip("/")) if "etc" not in path else path: add("x")}
    assert oids(store, brought(store, saved(work, user("go"), patch("c1", changes))).id) == []


def test_too_large_file_is_left_out(store, work, monkeypatch):
    monkeypatch.setattr("gitsession.importing.file_history.USUAL", read_file.Caps(file_bytes=10))
    changes = {
        str(work / name): each for name, each in {"big": add("x" * 11), "b": add("x"), "c": delete("x" * 11)}.items()
    }
    session = brought(store, saved(work, user("go"), patch("c1", changes)))
    assert claimed(store, session.id) == []


@pytest.mark.parametrize(
    ("diff", "expected"),
    [
        ("@@ -1 +1 @@\n-a\n+b\n", "b\nx\ny\r\nz"),
        ("@@ -0,0 +1 @@\n+new\n", "new\na\nx\ny\r\nz"),
        ("@@ -2,2 +1,0 @@\n-x\n-y\r\n", "a\nz"),
        ("@@ -3,2 +3,2 @@\n-y\r\n-z\n\\ No newline at end of file\n+y\n+z\n", "a\nx\ny\nz\n"),
        ("@@ -4 +4,2 @@ words\n z\n\\ No newline at end of file\n+w\n", None),  # a file has one end
        ("@@ -1 +1 @@\n-b\n+c\n", None),
        ("@@ -1,2 +1 @@\n-a\n", None),
        ("@@ -1 +1 @@\n-a\n+b", "bx\ny\r\nz"),
        ("@@ -9 +9 @@\n-a\n+b\n", None),
        ("@@ -0 +1 @@\n-a\n+b\n", None),
        ("@@ -2 +2 @@\n-x\n+q\n@@ -1 +1 @@\n-a\n+b\n", None),
        ("@@ -1 +1 @@\n-a\n+b\nrest\n", None),
        ("@@ -99999999999999 +1 @@\n-a\n", None),
        ("\ud800", None),
        ("--- a\n+++ b\n", None),
        ("", "a\nx\ny\r\nz"),
    ],
)
def test_diff_is_applied_only_if_its_lines_match(diff, expected):
    if expected is None and "words" in diff:
        expected = "a\nx\ny\r\nzw\n"  # as the patch describes it; a comparison with the file shows the difference
    assert apply_diff("a\nx\ny\r\nz", diff) == expected


fields = st.sampled_from(["type", "content", "unified_diff", "move_path", "add", "delete", "update", "id", "status"])
values = st.recursive(
    st.none()
    | st.integers()
    | st.sampled_from(["add", "delete", "update", "@@ -1 +1 @@\n-a\n+b\n", "\ud800"])
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(fields, inner, max_size=4),
    max_leaves=10,
)


@examples(max_examples=200, deadline=None)
@given(st.lists(st.dictionaries(fields | st.just("changes"), values, max_size=5), max_size=4), values)
def test_no_content_of_a_line_raises(ends, changes):
    lines = [
        line
        for end in ends
        for line in event("patch_apply_end", **{"call_id": "c", "success": True, "changes": changes, **_safe(end)})
    ]
    for each in codex.file_changes(codex.split(rollout(lines, *[event("item_completed", item=end) for end in ends]))):
        assert isinstance(each, RecordedReplacement)


def _safe(end: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in end.items() if name != "type"}


@pytest.mark.skipif(not real_codex.is_there(), reason="the real codex is not at hand")
def test_changes_of_the_real_codex_are_undone(tmp_path, store):
    """The real codex continues a session and applies patches. A script replaces the model."""
    folder = tmp_path / "lab"
    fill(folder / "work", {"old.txt": "mine\r\nend", "over.txt": "mine\n"})
    bodies = [
        "*** Add File: new.txt\n+1\n+2\n+3\n*** Add File: over.txt\n+theirs\n",
        "*** Update File: new.txt\n@@\n 1\n-2\n+two\n",
        "*** Delete File: old.txt\n",
    ]
    commands = [f"apply_patch <<'EOF'\n*** Begin Patch\n{body}*** End Patch\nEOF\n" for body in bodies]
    steps = [{"tool": "exec_command", "args": {"cmd": command}} for command in commands]
    data, thread = real_codex.for_the_script(rollout(user("before")))
    found = real_codex.resume(folder, {f"{NAME}.jsonl": data}, thread, steps=[*steps, {"text": "Done."}])
    work = folder / "work"
    path = tmp_path / f"{NAME}.jsonl"
    path.write_bytes(found.files[f"{NAME}.jsonl"].replace(b'"/work"', dumps(str(work))))
    assert (work / "new.txt").read_text() == "1\ntwo\n3\n", found.error
    session = brought(store, path)
    assert claimed(store, session.id) == [["new.txt"], ["old.txt"]]
    now = snapshot(work)
    rewind(session, real_codex.ASK, work)
    assert (work / "new.txt").read_text() == "1\n2\n3\n"
    assert (work / "old.txt").read_bytes() == b"mine\r\nend"
    assert (work / "over.txt").read_text() == "theirs\n"
    store.undo()
    assert snapshot(work) == now
