"""Random edits followed by captures: the tree equals a plain walk without the files that git ignores."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from workspaces import opened, repository, walked, without_ignored

from gitsession.store.memory import MemoryStore
from gitsession.workspace import names, snapshot, trees
from gitsession.workspace.capture import capture

PLAIN = [b"a", b"b", b"c.txt", b"build", b"x.log"]
ODD = st.binary(min_size=1, max_size=12).map(lambda raw: raw.replace(b"/", b"").replace(b"\0", b"") or b"q")
NAMES = st.sampled_from(PLAIN) | ODD.filter(lambda raw: raw not in (b".", b"..") and not names.refusal(raw))
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(b"/".join)
DATA = st.binary(max_size=40) | st.sampled_from([b"one\r\n", b"two\n", b"$Id$\n", b"\0\xff", b""])
IGNORED = st.sampled_from([b"", b"build/\n", b"*.log\n", b"/a\n", b"b/*\n!b/a\n", b"*\n!.gitignore\n", b"a/\nx.log\n"])
ATTRIBUTES = st.sampled_from([b"* text eol=crlf\n", b"* filter=gone ident\n", b"*.txt working-tree-encoding=UTF-16\n"])


class Workspace(RuleBasedStateMachine):
    """Random edits and captures.

    ``seen`` is the last captured state: files that were captured once are captured even if git ignores them.
    """

    @initialize(in_repository=st.booleans(), beside_the_index=st.sampled_from([-1, 2, 256]))
    def begin(self, in_repository, beside_the_index):
        self.usual = snapshot._SINCE_MAX
        snapshot._SINCE_MAX = beside_the_index
        self.place = Path(tempfile.mkdtemp(prefix="gitsession-test-"))
        self.at = self.place / "work"
        self.at.mkdir()
        self.plain = self.place / "plain"
        if in_repository:
            repository(self.at)
        self.raw = os.fsencode(self.at)
        self.store, self.seen, self.tree = MemoryStore(), {}, None

    def teardown(self):
        if hasattr(self, "place"):
            snapshot._SINCE_MAX = self.usual
            shutil.rmtree(self.place)

    def spot(self, path):
        return os.path.join(self.raw, path)

    def room(self, path):
        """Remove any file in the place of a parent folder."""
        whole = self.spot(path)
        folder = self.raw
        for name in path.split(b"/")[:-1]:
            folder = os.path.join(folder, name)
            if os.path.lexists(folder) and (os.path.islink(folder) or not os.path.isdir(folder)):
                os.unlink(folder)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        if os.path.isdir(whole) and not os.path.islink(whole):
            shutil.rmtree(whole)
        return whole

    def files(self):
        found = [names.unescape_path(path) for path in walked(self.at)]
        return sorted(raw for raw in found if os.path.basename(raw) not in (b".gitignore", b".gitattributes"))

    @rule(path=PATHS, data=DATA)
    def write(self, path, data):
        whole = self.room(path)
        if os.path.islink(whole):
            os.unlink(whole)
        with open(whole, "wb") as file:
            file.write(data)

    @rule(which=st.integers(0, 99), data=DATA)
    def edit_in_place_and_put_the_time_back(self, which, data):
        files = [raw for raw in self.files() if not os.path.islink(self.spot(raw))]
        if files:
            whole = self.spot(files[which % len(files)])
            before = os.stat(whole)
            with open(whole, "r+b") as file:
                file.write(data[: before.st_size])
            os.utime(whole, ns=(before.st_atime_ns, before.st_mtime_ns))

    @rule(which=st.integers(0, 99), to=PATHS)
    def rename(self, which, to):
        files = self.files()
        raw = files[which % len(files)] if files else b""
        if files and not (to + b"/").startswith(raw + b"/") and not (raw + b"/").startswith(to + b"/"):
            parts = to.split(b"/")
            if not any(os.path.islink(self.spot(b"/".join(parts[:n]))) for n in range(1, len(parts))) and not any(
                b"/".join(parts[:n]) == raw for n in range(1, len(parts) + 1)
            ):
                whole = self.room(to)
                if os.path.lexists(self.spot(raw)):
                    os.rename(self.spot(raw), whole)

    @rule(which=st.integers(0, 99))
    def leave_a_link_where_a_folder_was_moved_away(self, which):
        folders = sorted({os.path.dirname(raw) for raw in self.files()} - {b""})
        if folders:
            raw = folders[which % len(folders)].split(b"/")[0]
            if not os.path.lexists(self.spot(b"moved")) and raw != b"moved":
                os.rename(self.spot(raw), self.spot(b"moved"))
                os.symlink(b"moved", self.spot(raw))

    @rule(which=st.integers(0, 99))
    def delete(self, which):
        files = self.files()
        if files:
            os.unlink(self.spot(files[which % len(files)]))

    @rule(which=st.integers(0, 99), mode=st.sampled_from([0o644, 0o755, 0o600]))
    def chmod(self, which, mode):
        files = [raw for raw in self.files() if not os.path.islink(self.spot(raw))]
        if files:
            os.chmod(self.spot(files[which % len(files)]), mode)

    @rule(path=PATHS, to=st.sampled_from([b"a", b"../b", b"nowhere", b"/etc/passwd", b"."]))
    def link(self, path, to):
        whole = self.room(path)
        if os.path.lexists(whole):
            os.unlink(whole)
        os.symlink(to, whole)

    @rule(folder=st.sampled_from([b"", b"a/", b"b/"]), text=IGNORED)
    def ignore(self, folder, text):
        if folder and (not os.path.isdir(self.spot(folder)) or os.path.islink(self.spot(folder[:-1]))):
            return
        with open(self.spot(folder + b".gitignore"), "wb") as file:
            file.write(text)

    @rule(text=ATTRIBUTES)
    def give_attributes(self, text):
        with open(self.spot(b".gitattributes"), "wb") as file:
            file.write(text)

    @rule(path=PATHS)
    def make_a_repository_in_it(self, path):
        whole = self.room(path)
        if os.path.lexists(whole):
            os.unlink(whole)
        os.makedirs(os.path.join(whole, b".git", b"objects"))
        os.makedirs(os.path.join(whole, b".git", b"refs"))
        for name, data in ((b".git/HEAD", b"ref: refs/heads/main\n"), (b"inner", b"not ours")):
            with open(os.path.join(whole, name), "wb") as file:
                file.write(data)

    def capture(self):
        with opened(self.at) as root:
            return capture(self.store, root, self.plain)

    @rule()
    def look(self):
        taken = self.capture()
        there = walked(self.at)
        wanted = without_ignored_by_anyone(self.at, there)
        wanted |= {path: file for path, file in there.items() if path in self.seen}
        found = dict(trees.walk(self.store, taken.tree))
        assert found == wanted
        for path in trees.CachedTrees(self.store).diff(self.tree, taken.tree):
            assert path in taken.changes or any(path.startswith(file + "/") for file in taken.changes)
        again = self.capture()
        assert (again.tree, again.changes) == (taken.tree, {})
        self.seen, self.tree = found, taken.tree

    @invariant()
    def no_object_is_made_beside_the_store(self):
        if hasattr(self, "plain"):
            assert not list(self.plain.glob("git/objects/**/*"))


@pytest.mark.parametrize("name", [":", ":(top)", ":!a", ":^a"])
def test_name_with_a_colon_is_passed_to_git_as_a_path(tmp_path, name):
    repository(tmp_path)
    (tmp_path / name).write_text("1")
    (tmp_path / ".gitignore").write_text("a\n")
    found = walked(tmp_path)
    assert without_ignored(tmp_path, found) == found


def without_ignored_by_anyone(at, found):
    """Return the files that git does not ignore. A folder without a repository gets a temporary one."""
    if (at / ".git").exists():
        return without_ignored(at, found)
    repository(at)
    try:
        return without_ignored(at, found)
    finally:
        shutil.rmtree(at / ".git")


Workspace.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestWorkspace = Workspace.TestCase
