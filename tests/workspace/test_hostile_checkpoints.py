"""Tests of malicious trees and of prepared workspaces: no file outside changes, and each rejection is reported.

Beside the workspace is a folder of another user with a ``.git`` folder. After every case, both have the same bytes and
modification times. Trees that gitsession would not write are written as bytes.
"""

from __future__ import annotations

import os
import shutil
import socket
from contextlib import suppress
from functools import partial

import pytest
from figures import figure
from processes import beside, fork
from restoring import Blobs, as_seen, carried_out, opened, picture

from gitsession.errors import GitSessionError, Malformed, Unavailable
from gitsession.store.memory import MemoryStore
from gitsession.workspace import names, trees
from gitsession.workspace.path_rules import CHANGES_MAX, PlannedChange
from gitsession.workspace.restore import restore
from gitsession.workspace.root import WorkspaceRoot
from gitsession.workspace.trees import TreeEntry


class Scene:
    """A workspace, the folders around it, and a store for trees that are written as bytes."""

    def __init__(self, place):
        self.place, self.blobs, self.store = place, Blobs(), MemoryStore()
        self.workspace, self.outside = place / "workspace", place / "outside"
        for path in ("workspace/.git/hooks", "workspace/d/e", "outside/folder"):
            (place / path).mkdir(parents=True)
        for path in ("workspace/.git/config", "workspace/.git/hooks/pre-commit", "outside/victim", "outside/folder/f"):
            (place / path).write_text("precious")
        (place / "outside/victim").chmod(0o640)
        self.before = self.precious()

    def precious(self):
        around = {path for path in self.place.iterdir() if path != self.workspace}
        assert around == {self.outside}
        return picture(self.outside), picture(self.workspace / ".git")

    def blob(self, data):
        data = data if isinstance(data, bytes) else data.encode()
        self.blobs.put(data)
        with self.store.transaction() as tx:
            return tx.put("blob", data)

    def raw_tree(self, *rows):
        """Write a tree of ``(mode, name, oid)`` without validation."""
        data = b"".join(mode.encode() + b" " + name + b"\0" + bytes.fromhex(oid) for mode, name, oid in rows)
        with self.store.transaction() as tx:
            return tx.put("tree", data)

    def restored(self, tree):
        """Restore ``tree`` with the most permissive plan.

        Return the result of each path, or the error for the whole tree.
        """
        try:
            files = dict(trees.walk(self.store, tree))
        except Malformed as error:
            return {str(error): ("refused", str(error))}
        return self.written(files)

    def written(self, files, **more):
        try:
            changes = as_seen(self.workspace, files)
        except GitSessionError:
            changes = [PlannedChange(path, None, new) for path, new in files.items()]
        outcomes = carried_out(self.workspace, self.blobs, *changes, **more)
        assert [outcome.path for outcome in outcomes] == list(files)
        assert all(outcome.reason for outcome in outcomes if outcome.result != "done")
        return {outcome.path: (outcome.result, outcome.reason) for outcome in outcomes}

    def check(self):
        assert self.precious() == self.before


@pytest.fixture
def scene(tmp_path, faults):
    scene = Scene(tmp_path)
    with faults.one():
        yield scene
        scene.check()


NEVER = [
    *(b"..", b".", b".git", b".GIT", b".gIt", b"git~1", b"GIT~1", b"git~2", b".git ", b".git.", b".git. ."),
    *(b".git::$INDEX_ALLOCATION", b".git:x", b".git\\config", b"d\\.git", ".g\u200cit".encode(), "\ufeff.git".encode()),
    *(".git\u200d".encode(), b"x" * 300),
]
"""Names that are rejected in any notation."""

ONLY_ESCAPED = [
    *(b"..\\x", b"a\\b", b"a\nb", b"\x1b]0;x\x07", b"CON", b"aux.txt", b"COM1", b"a:b", b"trailing.", b"trailing "),
    *(b".gitmodules", b".gitattributes", b"\xff\xfe", ".git\u200b".encode(), "a\u202eb".encode(), b"%41", b"%"),
]
"""Names that are written only if the tree has them as ``escape`` writes them."""

NOT_EVEN_TREES = [b"", b"a/b", b"/etc", b"../victim", b"x/../../victim", b"../outside/victim", b"d//e"]

HOSTILE = [*NEVER, *ONLY_ESCAPED, *NOT_EVEN_TREES]
KINDS = {"blob": "100644", "symlink": "120000", "tree": "40000", "gitlink": "160000"}


def planted(scene, kind, name):
    target = scene.blob("../outside/victim")
    inner = scene.raw_tree(("100644", b"victim", scene.blob("evil")))
    oid = {"blob": scene.blob("evil"), "symlink": target, "tree": inner, "gitlink": "1" * 40}[kind]
    return scene.raw_tree((KINDS[kind], name, oid))


@pytest.mark.promise("P26", "P28")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_malicious_name_is_rejected_for_every_kind_of_file(scene, name, kind):
    before = picture(scene.workspace)
    outcomes = scene.restored(planted(scene, kind, name))
    assert len(outcomes) == 1
    assert all(did == "refused" for did, _ in outcomes.values()), outcomes
    assert picture(scene.workspace) == before


@pytest.mark.promise("P26", "P28")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NEVER, ids=ascii)
def test_escaping_does_not_allow_a_forbidden_name(scene, name, kind):
    before = picture(scene.workspace)
    outcomes = scene.restored(planted(scene, kind, names.escape(name).encode()))
    assert [did for did, _ in outcomes.values()] == ["refused"]
    assert picture(scene.workspace) == before


@pytest.mark.promise("P26", "P28")
@pytest.mark.parametrize("name", ONLY_ESCAPED, ids=ascii)
def test_escaped_unusual_name_is_one_file_in_the_workspace(scene, name):
    outcomes = scene.restored(planted(scene, "blob", names.escape(name).encode()))
    assert list(outcomes.values()) == [("done", "")]
    assert set(picture(scene.workspace)) - {b".", b"d", b"d/e"} == {name, *under_git(scene)}


def under_git(scene):
    return {b".git" if path == b"." else b".git/" + path for path in picture(scene.workspace / ".git")}


def rows_of(scene, *rows):
    return [(mode, name, oid or scene.blob("evil")) for mode, name, oid in rows]


MALFORMED = {
    "a link and a folder of one name": [("120000", b"a", None), ("40000", b"a", None)],
    "a folder and a link of one name": [("40000", b"a", None), ("120000", b"a", None)],
    "a file twice": [("100644", b"a", None), ("100644", b"a", None)],
    "unsorted": [("100644", b"b", None), ("100644", b"a", None)],
    "a folder sorted as a file": [("40000", b"a", None), ("100644", b"a.b", None)],
    "zero-padded": [("0100644", b"a", None)],
    "zero-padded folder": [("040000", b"a", None)],
    "no mode": [("", b"a", None)],
    "a short mode": [("644", b"a", None)],
    "a mode of letters": [("10064x", b"a", None)],
}


@pytest.mark.promise("P26", "P28")
@pytest.mark.parametrize("rows", MALFORMED.values(), ids=MALFORMED)
def test_invalid_tree_is_rejected_as_a_whole(scene, rows):
    outcomes = scene.restored(scene.raw_tree(*rows_of(scene, *rows)))
    assert all(reason.startswith("not a tree") for _, reason in outcomes.values()) and len(outcomes) == 1


@pytest.mark.promise("P26", "P28")
@pytest.mark.parametrize(
    "mode", ["100664", "100600", "104755", "777777", "120777", "10644", "60000", "140000", "20000"]
)
def test_unknown_mode_is_rejected(scene, mode):
    outcomes = scene.restored(scene.raw_tree((mode, b"a", scene.blob("evil"))))
    assert outcomes == {"a": ("refused", f"unsupported file mode: {mode}")}


@pytest.mark.promise("P26")
@pytest.mark.parametrize("cut", [1, 5, 10, 27])
def test_truncated_tree_is_rejected(scene, cut):
    with scene.store.transaction() as tx:
        tree = tx.put("tree", (b"100644 a\0" + bytes(20))[:-cut])
    assert [did for did, _ in scene.restored(tree).values()] == ["refused"]


@pytest.mark.promise("P26", "P28")
@pytest.mark.parametrize("depth", [64, 65, 3000])
def test_deep_path_is_rejected_without_creating_folders(scene, depth):
    path = "/".join(["n"] * depth)
    did, _ = scene.written({path: scene.blobs.file("evil")})[path]
    assert did == ("done" if depth == 64 else "refused")
    assert (scene.workspace / "n").exists() == (depth == 64)


@pytest.mark.promise("P28")
def test_too_many_paths_are_all_rejected(scene):
    file = scene.blobs.file("evil")
    changes = [PlannedChange(f"f{at}", None, file) for at in range(CHANGES_MAX + 1)]
    outcomes = carried_out(scene.workspace, scene.blobs, *changes)
    assert len(outcomes) == CHANGES_MAX + 1 and {outcome.result for outcome in outcomes} == {"refused"}
    assert not (scene.workspace / "f0").exists()


@pytest.mark.promise("P26")
def test_too_large_missing_or_different_content_is_rejected(scene):
    wrong = TreeEntry("100644", "2" * 40)
    scene.blobs.held[wrong.oid] = b"evil"
    files = {"large": scene.blobs.file(b"x" * 11), "missing": TreeEntry("100644", "1" * 40), "wrong": wrong}
    outcomes = scene.written(files, bytes_max=10)
    assert [did for did, _ in outcomes.values()] == ["refused"] * 3
    assert not any((scene.workspace / path).exists() for path in files)


@pytest.mark.promise("P26")
def test_content_with_a_huge_size_is_rejected_and_others_are_written(scene):
    huge, fine = TreeEntry("100644", "3" * 40), scene.blobs.file("fine")

    def content(oid):
        if oid == huge.oid:
            raise Unavailable(f"object {oid} has {4 << 30:,} bytes, and the limit is 100")
        return scene.blobs.get(oid)

    with opened(scene.workspace) as root:
        changes = [PlannedChange("huge", None, huge), PlannedChange("z", None, fine)]
        outcomes = restore(root, changes, content=content, tag="t", bytes_max=100)
    assert [outcome.result for outcome in outcomes] == ["refused", "done"]
    assert "4,294,967,296 bytes" in outcomes[0].reason


@pytest.mark.promise("P26", "P28")
def test_path_that_is_a_file_and_a_folder_or_a_duplicate_is_rejected(scene):
    file = scene.blobs.file("evil")
    changes = [PlannedChange(path, None, file) for path in ("a", "a/b", "c", "c", "fine")]
    outcomes = carried_out(scene.workspace, scene.blobs, *changes)
    assert [outcome.result for outcome in outcomes] == ["refused"] * 4 + ["done"]


@pytest.mark.promise("P26")
@pytest.mark.parametrize("path", [".gitsession-t-0.tmp", ".gitsession-abc-é0.tmp"])
def test_name_of_a_temporary_file_is_rejected(scene, path):
    assert scene.written({path: scene.blobs.file("evil")})[path][0] == "refused"


@pytest.mark.promise("P26")
@pytest.mark.parametrize("path", ["repo/HEAD", "repo/hooks/post-checkout", "repo/config", "repo/refs/heads/main"])
def test_a_repositorys_own_folder_in_the_workspace_is_not_written_in(scene, path):
    for folder in ("objects", "refs"):
        (scene.workspace / "repo" / folder).mkdir(parents=True)
    (scene.workspace / "repo/HEAD").write_text("ref: refs/heads/main\n")
    before = picture(scene.workspace / "repo")
    assert scene.written({path: scene.blobs.file("evil")})[path][0] == "refused"
    assert picture(scene.workspace / "repo") == before


@pytest.mark.promise("P26")
@pytest.mark.parametrize("path", ["s", "s/HEAD", "s/objects/pack/p", "s/gitsession/x"])
def test_the_store_in_the_workspace_is_not_written_in(scene, path):
    store = scene.workspace / "s"
    (store / "objects/pack").mkdir(parents=True)
    before = picture(store)
    with WorkspaceRoot.open(scene.workspace, home=None, store=store) as root:
        change = PlannedChange(path, None, scene.blobs.file("evil"))
        (outcome,) = restore(root, [change], content=scene.blobs.get, tag="t", bytes_max=100)
    assert outcome.result in ("refused", "kept") and outcome.reason
    assert picture(store) == before


TARGETS = {
    "absolute": b"/etc/passwd",
    "the whole disk": b"/",
    "two slashes": b"//etc",
    "up": b"..",
    "up and over": b"../outside/victim",
    "up behind dots": b"./../outside",
    "up behind slashes": b".//..//outside",
    "up through a folder": b"d/../../outside",
    "up through a link": b"d/e/../../../outside",
    "down and up": b"d/..",
    "empty": b"",
    "a zero byte": b"d\0/../../outside",
    "too long": b"a/" * 3000,
    "git's own": b".git/config",
    "git's own in capitals": b".GIT/hooks",
    "git's own folder": b".git",
    "git's own for HFS": ".g\u200cit/config".encode(),
    "git's own for NTFS": b"git~1/config",
}


@pytest.mark.promise("P26", "P29")
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_link_to_the_outside_is_rejected_and_reported(scene, target):
    did, reason = scene.written({"l": scene.blobs.link(target)})["l"]
    assert did == "refused"
    assert ("leads out" in reason) == (b".." in target and b"\0" not in target)
    assert not os.path.lexists(scene.workspace / "l")


@pytest.mark.promise("P29")
@pytest.mark.parametrize("path, target", [("d/l", b"../../outside"), ("d/e/l", b"../../../x"), ("d/l", b"../..")])
def test_deeper_link_needs_more_parent_steps_to_leave_the_workspace(scene, path, target):
    assert scene.written({path: scene.blobs.link(target)})[path][0] == "refused"


@pytest.mark.promise("P29")
@pytest.mark.parametrize(
    "path, target",
    [("l", b"d/e"), ("l", b"nowhere"), ("l", b"l"), ("d/l", b"../d"), ("d/e/l", b"../../x"), ("l", b".")],
)
def test_a_link_that_stays_inside_is_made_and_not_followed(scene, path, target):
    assert scene.written({path: scene.blobs.link(target)}) == {path: ("done", "")}
    assert os.readlink(os.fsencode(scene.workspace / path)) == target
    below = scene.written({f"{path}/x": scene.blobs.file("evil")})
    assert below[f"{path}/x"][0] == "refused"


@pytest.mark.promise("P26", "P29")
def test_a_link_of_an_earlier_checkpoint_is_not_written_through(scene):
    assert scene.written({"a": scene.blobs.link("d"), "b": scene.blobs.link("a")}).keys() == {"a", "b"}
    files = {"a/x": scene.blobs.file("evil"), "b/x": scene.blobs.file("evil"), "b/e/x": scene.blobs.file("evil")}
    assert [did for did, _ in scene.written(files).values()] == ["refused"] * 3
    assert not (scene.workspace / "d/x").exists()


PLANTS = {
    "a link to a folder outside": lambda scene, at: at.symlink_to(scene.outside),
    "a relative link outside": lambda scene, at: at.symlink_to(os.path.relpath(scene.outside, at.parent)),
    "a link to a file outside": lambda scene, at: at.symlink_to(scene.outside / "victim"),
    "a link to git's own": lambda scene, at: at.symlink_to(scene.workspace / ".git"),
    "a link to nothing outside": lambda scene, at: at.symlink_to(scene.outside / "new"),
    "a link to itself": lambda scene, at: at.symlink_to(at.name),
    "a hard link to a file outside": lambda scene, at: os.link(scene.outside / "victim", at),
    "a pipe": lambda scene, at: os.mkfifo(at),
    "a socket": lambda scene, at: bind(at),
    "a folder with a file in it": lambda scene, at: (at.mkdir(), (at / "mine").write_text("mine")),
}


def bind(at):
    here = os.getcwd()
    os.chdir(at.parent)
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(at.name)
    finally:
        os.chdir(here)


@pytest.mark.promise("P26", "P29")
@pytest.mark.parametrize("below", ["", "/victim", "/folder/f", "/new/f"])
@pytest.mark.parametrize("at", ["p", "d/e/p"])
@pytest.mark.parametrize("plant", PLANTS.values(), ids=PLANTS)
@pytest.mark.parametrize("what", ["file", "link", "nothing"])
def test_planted_file_is_not_followed(scene, plant, at, below, what):
    """The planted file is at the path, or in the place of a parent folder. The change writes, links or removes."""
    place = scene.workspace / at
    plant(scene, place)
    new = {"file": scene.blobs.file("evil"), "link": scene.blobs.link("x"), "nothing": None}[what]
    did, _ = scene.written({at + below: new})[at + below]
    if below and what != "nothing" and not (place.is_dir() and not place.is_symlink()):
        assert did == "refused"
    if not below and (place.is_fifo() or place.is_socket() or (place / "mine").exists()):
        assert did == "kept" or what == "nothing"


def swapping(workspace, outside, folders, swaps, over):
    """Swap folders and files with links while the test runs.

    File handles keep the swap itself inside of the folder.
    """
    while not over():
        for folder in ("d", "d/e"):
            here, away = f"{workspace}/{folder}", f"{workspace}/{folder}.away"
            with suppress(OSError):
                os.rename(here, away)
                os.symlink(outside, here)
                swaps.value += 1
                os.unlink(here)
            if os.path.exists(away):
                shutil.rmtree(here, ignore_errors=True)  # files created there meanwhile
                with suppress(OSError):
                    os.rename(away, here)
        with suppress(OSError):
            os.unlink("victim", dir_fd=folders[swaps.value % len(folders)])
            os.symlink(f"{outside}/victim", "victim", dir_fd=folders[swaps.value % len(folders)])


PATHS = [*("victim", "d/victim", "d/e/victim", "d/e/folder/f", "d/folder/f", "d/e/new", "d/new", "d/e/folder/new")]


@pytest.mark.promise("P27")
@pytest.mark.timeout(1800)
def test_no_file_outside_changes_while_folders_are_swapped_for_links(scene, faults):
    scene.outside.joinpath("e").mkdir()
    for path in ("victim", "folder/f", "e/victim"):
        scene.outside.joinpath(path).parent.mkdir(exist_ok=True)
        scene.outside.joinpath(path).write_text("precious")
    scene.before = scene.precious()
    contents = [scene.blobs.file("one"), scene.blobs.file("two"), scene.blobs.link("new"), None]
    wanted, writes, done = figure(5_000, 100_000), 0, 0
    places = os.fspath(scene.workspace), os.fspath(scene.outside)
    folders = [os.open(scene.workspace / folder, os.O_RDONLY) for folder in ("", "d", "d/e")]
    swaps = fork.Value("L", 0)
    with beside(partial(swapping, *places, folders, swaps)), opened(scene.workspace) as root:
        while writes < wanted or swaps.value <= 100 or done <= 100:
            new = contents[writes // len(PATHS) % len(contents)]
            changes = []
            root.forget()
            for path in PATHS:
                now = None
                with suppress(GitSessionError, OSError):
                    now = root.now(path)
                changes.append(PlannedChange(path, now if isinstance(now, TreeEntry) else None, new))
            outcomes = restore(root, changes, content=scene.blobs.get, tag="race", bytes_max=100, made=("d/e/folder",))
            writes += len(outcomes)
            done += sum(outcome.result == "done" for outcome in outcomes)
    for folder in folders:
        os.close(folder)
    scene.check()
    faults.many(writes)
    print(f"{writes:,} writes, {done:,} done, {swaps.value:,} swaps, 0 escapes")
