"""Tests of trees as values: a tree depends only on its paths and files, not on the way it was built."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitsession.errors import Malformed
from gitsession.git.objects import encode_tree
from gitsession.store.memory import MemoryStore
from gitsession.workspace import trees
from gitsession.workspace.trees import TreeEntry

NAMES = st.sampled_from(["a", "b", "a.b", "c-"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
FILES = st.builds(TreeEntry, st.sampled_from(["100644", "100755", "120000"]), st.sampled_from(["1" * 40, "2" * 40]))


def is_above(path, other):
    return other.startswith(path + "/")


def without_clashes(paths):
    """Return the paths that are not below another path."""
    return {path: file for path, file in paths.items() if not any(is_above(other, path) for other in paths)}


STATES = st.dictionaries(PATHS, FILES, max_size=8).map(without_clashes)


def built(store, changes, tree=None):
    with store.transaction() as tx:
        return trees.CachedTrees(store).patch(tx, tree, changes)


@given(STATES)
def test_tree_is_walked_and_searched_as_written(state):
    store = MemoryStore()
    tree = built(store, state)
    assert dict(trees.walk(store, tree)) == state
    looked = trees.CachedTrees(store).look_up(tree, [*state, "a", "a/b", "never"])
    assert {path: file for path, file in looked.items() if file} == state


@given(STATES, STATES)
def test_difference_of_two_trees_turns_one_into_the_other(old, new):
    store = MemoryStore()
    before, after = built(store, old), built(store, new)
    differing = {path: (old.get(path), new.get(path)) for path in old.keys() | new.keys()}
    found = trees.CachedTrees(store).diff(before, after)
    assert found == {path: states for path, states in differing.items() if states[0] != states[1]}
    assert built(store, {path: now for path, (_, now) in found.items()}, before) == after


@given(STATES, STATES)
def test_difference_in_the_other_direction_is_the_inverse(old, new):
    store = MemoryStore()
    ends = built(store, old), built(store, new)
    file_trees = trees.CachedTrees(store)
    found = file_trees.diff(*ends)
    assert file_trees.diff(*ends[::-1]) == trees.CachedTrees(store).diff(*ends[::-1])
    assert file_trees.diff(*ends) == found


class Counted:
    """A sink that keeps the ids of the objects that are written."""

    def __init__(self, tx):
        self._tx, self.written = tx, []

    def put(self, kind, data):
        self.written.append(self._tx.put(kind, data))
        return self.written[-1]


@given(STATES, STATES)
def test_folders_of_a_similar_tree_are_not_written_again(old, new):
    store = MemoryStore()
    before, similar = built(store, old), built(store, new)
    changes = {path: new.get(path) for path in {**old, **new}}
    with store.transaction() as tx:
        assert trees.CachedTrees(store).patch(sink := Counted(tx), before, changes, similar) == similar
    assert not sink.written


@given(STATES, PATHS, FILES)
def test_file_replaces_a_folder_and_a_folder_a_file(state, path, file):
    store = MemoryStore()
    kept = {
        other: kept
        for other, kept in state.items()
        if not is_above(path, other) and not is_above(other, path) and other != path
    }
    assert dict(trees.walk(store, built(store, {path: file}, built(store, state)))) == {**kept, path: file}


@given(STATES, PATHS)
def test_deleting_a_missing_path_changes_nothing(state, path):
    store = MemoryStore()
    tree = built(store, state)
    if path not in state:
        assert built(store, {path: None}, tree) == tree


def nested(store, levels, wide):
    """Write a tree with ``wide`` references to the same subtree, ``levels`` deep."""
    with store.transaction() as tx:
        tree = tx.put("tree", encode_tree({"f": ("100644", tx.put("blob", b""))}))
        for _ in range(levels):
            tree = tx.put("tree", encode_tree({f"n{at}": ("40000", tree) for at in range(wide)}))
    return tree


@pytest.mark.promise("P28")
@pytest.mark.parametrize("levels, wide, words", [(50, 10, "names"), (3000, 1, "deep"), (64, 1, "deep")])
def test_endless_tree_is_rejected(monkeypatch, levels, wide, words, faults):
    monkeypatch.setattr(trees, "NAMES_MAX", 10_000)
    store = MemoryStore()
    tree = nested(store, levels, wide)
    with faults.one(), pytest.raises(Malformed, match=words):
        list(trees.walk(store, tree))
    with faults.one(), pytest.raises(Malformed, match=words):
        trees.CachedTrees(store).diff(None, tree)


def test_a_tree_as_deep_as_a_path_may_be_is_read():
    store = MemoryStore()
    tree = nested(store, 63, 1)
    ((path, _),) = trees.walk(store, tree)
    assert path.count("/") == 63 and list(trees.CachedTrees(store).diff(None, tree)) == [path]
