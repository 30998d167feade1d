"""Tests of attribution: a doubtful change is not attributed to the session."""

import pytest

from gitsession.checkpoints.attribution import CheckpointStep, PathAttribution, attributed, touches
from gitsession.model.entries import Checkpoint
from gitsession.workspace.trees import TreeEntry

ONE, TWO, THREE = (TreeEntry("100644", digit * 40) for digit in "123")


def look(phase, changes=None, mode="workspace", **fields):
    return CheckpointStep(Checkpoint(mode=mode, phase=phase, **fields), changes or {})


def ours(*steps):
    return [set(paths) for paths in attributed(steps)]


def test_changes_after_a_call_are_attributed_and_changes_before_it_are_not():
    steps = look("before", {"a": (None, ONE)}), look("after", {"a": (ONE, TWO)}), look("before", {"a": (TWO, THREE)})
    assert ours(*steps) == [set(), {"a"}, set()]


def test_the_first_checkpoint_attributes_nothing():
    assert ours(look("after", {"a": (None, ONE)})) == [set()]


def test_files_written_by_a_rewind_are_attributed_to_the_session():
    assert ours(look("before"), look("rewind", {"a": (None, ONE)})) == [set(), {"a"}]


NOT_OURS = {
    "it was there before, unlooked at": (look("before"), look("after", {"a": (None, ONE)}, appeared=("a",))),
    "it had been left out": (look("before", skipped=(("a", "too large"),)), look("after", {"a": (None, ONE)})),
    "a folder above it had been left out": (
        look("before", skipped=(("x/y", "a repository"),)),
        look("after", {"x/y/z/a": (None, ONE)}),
    ),
    "nobody had looked at it": (
        look("before", mode="edited", paths=("b",)),
        look("after", {"a": (None, ONE)}, mode="edited", paths=("a",)),
    ),
    "all was looked at, of which only some was before": (
        look("before", {"b": (None, ONE)}),
        look("before", mode="edited", paths=("b",)),
        look("after", {"a": (None, ONE)}),
    ),
    "the checkpoint before is of another workspace": (
        look("before", workspace="/there"),
        look("after", {"a": (ONE, TWO)}, workspace="/here"),
    ),
    "what was looked at elsewhere": (
        look("before", mode="edited", paths=("a",), workspace="/there"),
        look("before", mode="edited", paths=("b",), workspace="/here"),
        look("after", {"a": (None, TWO)}, mode="edited", paths=("a",), workspace="/here"),
    ),
}


@pytest.mark.parametrize("steps", NOT_OURS.values(), ids=NOT_OURS)
def test_doubtful_changes_are_not_attributed(steps):
    assert ours(*steps)[-1] == set()


OURS = {
    "it was looked at, and not there": (
        look("before", mode="edited", paths=("a",)),
        look("after", {"a": (None, ONE)}, mode="edited", paths=("a",)),
    ),
    "it was in the tree": (
        look("before", {"a": (None, ONE)}, mode="edited", paths=("a",)),
        look("before", mode="edited", paths=("b",)),
        look("after", {"a": (ONE, TWO)}, mode="edited", paths=("a",)),
    ),
    "all was looked at once": (
        look("before"),
        look("before", mode="edited", paths=("b",)),
        look("after", {"a": (None, ONE)}, mode="edited", paths=("a",)),
    ),
    "its neighbour had been left out": (
        look("before", skipped=(("ab", "too large"),)),
        look("after", {"a": (None, ONE)}),
    ),
}


@pytest.mark.parametrize("steps", OURS.values(), ids=OURS)
def test_known_changes_are_attributed_to_the_session(steps):
    assert ours(*steps)[-1] == {"a"}


def test_the_touches_of_a_path_since_a_step_are_all_its_changes_in_order():
    steps = [
        look("before", {"a": (None, ONE)}),
        look("after", {"a": (ONE, TWO), "b": (None, ONE)}),
        look("before", {"a": (TWO, ONE), "c": (None, ONE)}),
        look("after", {"a": (ONE, THREE)}),
    ]
    assert touches(steps, 1) == {"a": [PathAttribution(TWO, ONE, False), PathAttribution(ONE, THREE, True)]}
    assert touches(steps, 0) == {
        "a": [PathAttribution(ONE, TWO, True), PathAttribution(TWO, ONE, False), PathAttribution(ONE, THREE, True)],
        "b": [PathAttribution(None, ONE, True)],
    }
    assert touches(steps, 3) == {}
