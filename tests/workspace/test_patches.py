"""Tests of patches: the same as git's, also for unflushed entries, with a bounded size for any content."""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from builders import on_disk
from damage import in_child
from raw import git_bytes
from workspaces import fill

from gitsession import FilePatch, Message, Store
from gitsession.errors import Corrupt, Malformed, MissingObject, Unavailable
from gitsession.git import engine
from gitsession.git.objects import encode_tree
from gitsession.store.git_store import GitStore
from gitsession.workspace import patches, trees
from gitsession.workspace.trees import TreeEntry

Files = Mapping[str, tuple[str, bytes]]
TEXT = b"".join(b"line %d\n" % number for number in range(40))
EMPTY = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
OTHER = TEXT.replace(b"line 7\n", b"line seven\n").replace(b"line 30\n", b"")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[GitStore]:
    with on_disk(tmp_path / "store.git") as made:
        yield made


def tree_of(store: GitStore, files: Files) -> str | None:
    with store.transaction() as transaction:
        states = {
            path: TreeEntry(mode, data.decode() if mode == "160000" else transaction.put("blob", data))
            for path, (mode, data) in files.items()
        }
        return trees.CachedTrees(store).patch(transaction, None, states)


def compared(store: GitStore, old: Files, new: Files) -> list[FilePatch]:
    return patches.compare(store, trees.CachedTrees(store).diff(tree_of(store, old), tree_of(store, new)))


def plain(data: bytes) -> tuple[str, bytes]:
    return "100644", data


CASES: dict[str, tuple[Files, Files, list[tuple[str, str | None, int | None, int | None]]]] = {
    "a change": ({"a/b": plain(TEXT)}, {"a/b": plain(OTHER)}, [("a/b", None, 1, 2)]),
    "a new file": ({}, {"a": plain(b"1\n2\n")}, [("a", None, 2, 0)]),
    "a deleted file": ({"a": plain(b"1\n2")}, {}, [("a", None, 0, 2)]),
    "an empty file": ({}, {"a": plain(b"")}, [("a", None, 0, 0)]),
    "a rename": ({"a": plain(TEXT)}, {"d/b": plain(TEXT)}, [("d/b", "a", 0, 0)]),
    "a rename with a change": ({"a": plain(TEXT)}, {"b": plain(OTHER)}, [("b", "a", 1, 2)]),
    "a mode": ({"a": plain(TEXT)}, {"a": ("100755", TEXT)}, [("a", None, 0, 0)]),
    "a link": ({"a": ("120000", b"b")}, {"a": ("120000", b"c")}, [("a", None, 1, 1)]),
    "a file that becomes a link": (
        {"a": plain(b"x\n")}, {"a": ("120000", b"b")}, [("a", None, 0, 1), ("a", None, 1, 0)]
    ),
    "a file that becomes a folder": (
        {"a": plain(b"x\n")}, {"a/b": plain(b"y\n")}, [("a", None, 0, 1), ("a/b", None, 1, 0)]
    ),
    "a submodule": ({"s": ("160000", b"1" * 40)}, {"s": ("160000", b"2" * 40)}, [("s", None, 1, 1)]),
    "binary content": ({"a": plain(b"\0" * 9)}, {"a": plain(b"\0" * 8)}, [("a", None, None, None)]),
    "no line end": ({"a": plain(b"x\ny")}, {"a": plain(b"x\nz")}, [("a", None, 1, 1)]),
    "CRLF": ({"a": plain(b"x\r\ny\r\n")}, {"a": plain(b"x\r\nz\r\n")}, [("a", None, 1, 1)]),
    "odd names": (
        {'a "b"\t\u00e4': plain(b"x\n")}, {'a "b"\t\u00e4': plain(b"y\n")}, [('a "b"\t\u00e4', None, 1, 1)]
    ),
    "a name that is no UTF-8": ({"\udcff": plain(b"x\n")}, {"\udcff": plain(b"y\n")}, [("\udcff", None, 1, 1)]),
    "content that is no UTF-8": ({"a": plain(b"\xff\n")}, {"a": plain(b"\xfe\n")}, [("a", None, 1, 1)]),
    "two files": (
        {"a": plain(TEXT), "b": plain(TEXT), "c": plain(b"1\n")}, {"a": plain(OTHER), "b": plain(TEXT)},
        [("a", None, 1, 2), ("c", None, 0, 1)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("is_large", [False, True], ids=["by libgit2", "by git"])
@pytest.mark.parametrize(("old", "new", "expected"), CASES.values(), ids=CASES)
def test_patch_equals_that_of_git(
    store: GitStore,
    monkeypatch: pytest.MonkeyPatch,
    old: Files,
    new: Files,
    expected: list[tuple[str, str | None, int | None, int | None]],
    is_large: bool,
) -> None:
    if is_large:
        monkeypatch.setattr(engine, "is_comparable", lambda data: False)
    found = compared(store, old, new)
    assert [(each.path, each.renamed_from, each.added, each.deleted) for each in found] == expected
    text = b"".join(each.text or b"" for each in found)
    ends = [tree_of(store, old) or EMPTY, tree_of(store, new) or EMPTY]
    store.flush()
    by_git = git_bytes(store.git_dir, "diff", "--abbrev=7", "--find-renames", *ends)
    assert alike(text) == alike(by_git)
    if b"Binary files" not in text:
        monkeypatch.setenv("GIT_INDEX_FILE", str(store.git_dir / "index-of-the-test"))
        git_bytes(store.git_dir, "read-tree", ends[0])
        git_bytes(store.git_dir, "apply", "--cached", "-", stdin=text)
        assert git_bytes(store.git_dir, "write-tree").decode().strip() == ends[1]


def alike(text: bytes) -> bytes:
    """Return the parts of a patch on which libgit2 and git agree: no rename percentage, no tab after a name."""
    text = re.sub(rb"^similarity index .*$", b"", text, flags=re.MULTILINE)
    return re.sub(rb"^((?:---|\+\+\+) .*)\t$", rb"\1", text, flags=re.MULTILINE)


def test_equal_trees_have_no_patch(store: GitStore) -> None:
    assert compared(store, {"a": plain(TEXT)}, {"a": plain(TEXT)}) == []


# ---- large, slow or missing content


def few_lines(seed: int, size: int) -> bytes:
    chance = random.Random(seed)
    return b"".join(b"%x\n" % chance.randrange(4) for _ in range(size // 2))


@pytest.mark.promise("P30")
def test_two_large_files_with_few_distinct_lines_end_at_the_deadline(
    store: GitStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patches, "CHILD_SECONDS", 1.0)
    files = [{"a": plain(TEXT), "z": plain(few_lines(seed, 4 << 20))} for seed in (1, 2)]
    start = time.monotonic()
    found = compared(store, files[0], {**files[1], "a": plain(OTHER)})
    assert time.monotonic() - start < 30
    assert [(each.path, each.text is None, each.added) for each in found] == [("a", False, 1), ("z", True, None)]


def test_a_file_over_the_limit_has_no_text(store: GitStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patches, "CHILD_BYTES_MAX", 100)
    monkeypatch.setattr(engine, "is_comparable", lambda data: len(data) < 100)
    assert compared(store, {"a": plain(TEXT)}, {"a": plain(OTHER)}) == [FilePatch("a", None, None, None, None)]


def test_contents_beyond_the_limit_of_all_have_no_text(store: GitStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patches, "TOTAL_BYTES_MAX", 5 * len(TEXT))
    old = {name: plain(TEXT + name.encode()) for name in "abcd"}
    found = compared(store, old, {name: plain(OTHER + name.encode()) for name in "abcd"})
    assert [(each.path, each.text is None) for each in found] == [("a", False), ("b", False), ("c", True), ("d", True)]


@pytest.mark.parametrize(("limit", "value"), [("SIMILAR_BYTES_MAX", 100), ("SIMILAR_PAIRS_MAX", 3)])
def test_beyond_a_limit_only_files_of_the_same_content_are_renames(
    store: GitStore, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    monkeypatch.setattr(patches, limit, value)
    old, new = {"a": plain(TEXT), "b": plain(OTHER)}, {"c": plain(TEXT), "d": plain(OTHER + b"more\n")}
    found = compared(store, old, new)
    assert [(each.path, each.renamed_from) for each in found] == [("b", None), ("c", "a"), ("d", None)]


def test_contents_that_find_no_room_are_read_again(store: GitStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patches, "_CACHED_BYTES_MAX", 10)
    [found] = compared(store, {"a": plain(TEXT)}, {"a": plain(OTHER)})
    assert (found.added, found.deleted) == (1, 2)


def test_large_files_require_git_and_others_do_not(store: GitStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert [each.added for each in compared(store, {"a": plain(TEXT)}, {"a": plain(OTHER)})] == [1]
    with pytest.raises(Unavailable, match="not on the PATH"):
        compared(store, {}, {"a": plain(b"a\n" * 50_001)})


@pytest.mark.parametrize("error", [MissingObject("gone"), Corrupt("damaged")])
def test_a_content_that_cannot_be_read_is_an_error(store: GitStore, error: Exception) -> None:
    old, new = tree_of(store, {"a": plain(TEXT)}), tree_of(store, {"a": plain(OTHER)})
    changes = trees.CachedTrees(store).diff(old, new)

    class Damaged:
        def read(self, oid: str) -> object:
            raise error

        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

    with pytest.raises(type(error)):
        patches.compare(Damaged(), changes)  # type: ignore[arg-type]


@pytest.mark.promise("P30")
def test_tree_bomb_and_endless_folders_are_rejected_in_time(store: GitStore) -> None:
    def work(tell: Callable[[object], None]) -> None:
        with store.transaction() as transaction:
            child = transaction.put("tree", encode_tree({"f": ("100644", transaction.put("blob", b"x"))}))
            for _ in range(11):
                child = transaction.put("tree", encode_tree({f"{n}": ("40000", child) for n in range(10)}))
            deep = transaction.put("tree", encode_tree({"f": ("100644", transaction.put("blob", b"x"))}))
            for _ in range(5000):
                deep = transaction.put("tree", encode_tree({"d": ("40000", deep)}))
            for tree in (child, deep):
                with pytest.raises(Malformed):
                    patches.compare(store, trees.CachedTrees(store).diff(None, tree))
        tell("refused")

    assert in_child(work, memory=2 << 30) == ["refused"]


# ---- patches of a session


def test_session_has_patches_between_entries(tmp_path: Path) -> None:
    workspace = tmp_path / "work"
    workspace.mkdir()
    with Store.create(tmp_path / "store.git") as store:
        session = store.new_session(agent="a", cwd=str(workspace))
        first = session.append(Message.user("one"))
        fill(workspace, src__a=TEXT, b="b\n")
        session.files.take_checkpoint("before", workspace)
        session.append(Message.user("two"))
        os.rename(workspace / "b", workspace / "c")
        fill(workspace, src__a=OTHER)
        session.files.take_checkpoint("after", workspace)
        third = session.append(Message.user("three"))
        found = session.files.patch(first, third)
        assert [(each.path, each.renamed_from, each.added, each.deleted) for each in found] == [
            ("c", "b", 0, 0),
            ("src/a", None, 1, 2),
        ]
        assert found[1].text is not None
        assert found[1].text.startswith(b"diff --git a/src/a b/src/a\nindex ")
        assert session.files.patch(first) == found
        assert session.files.patch(first, paths=["src/"]) == found[1:]
        assert session.files.patch(first, paths=["sr"]) == []
        assert session.files.at(first).patch(session.files.at()) == found
