"""What a rewind takes back is what the session wrote, and nothing else."""

import pytest

from gitsession.checkpoints import deciding
from gitsession.checkpoints.attribution import Touch
from gitsession.checkpoints.deciding import decide, revert
from gitsession.workspace.inspect import Odd
from gitsession.workspace.trees import File

ONE, TWO, THREE, FOUR = (File("100644", digit * 40) for digit in "1234")


def by_session(was, now):
    return Touch(was, now, ours=True)


def by_others(was, now):
    return Touch(was, now, ours=False)


CASES = {
    "what it changed comes back": ([by_session(ONE, TWO)], TWO, ("write", ONE)),
    "what it removed comes back": ([by_session(ONE, None)], None, ("write", ONE)),
    "what it made goes": ([by_session(None, ONE)], ONE, ("remove", None)),
    "its first change counts": ([by_session(ONE, TWO), by_session(TWO, THREE)], THREE, ("write", ONE)),
    "what others did before its first change is kept": ([by_others(ONE, TWO), by_session(TWO, THREE)], THREE,
                                                       ("write", TWO)),
    "what is as it was is left": ([by_session(ONE, TWO), by_others(TWO, ONE)], ONE, ("leave", ONE)),
    "what the user changed since is left": ([by_session(ONE, TWO)], THREE, ("leave", THREE)),
    "what the user removed since is left": ([by_session(ONE, TWO)], None, ("leave", None)),
    "what others changed and changed back is left": ([by_session(ONE, TWO), by_others(TWO, THREE)], TWO,
                                                     ("write", ONE)),
    "what others changed between its changes is left": (
        [by_session(ONE, TWO), by_others(TWO, THREE), by_session(THREE, FOUR)], FOUR, ("leave", FOUR)),
    "what became a folder comes back": ([by_session(ONE, None)], Odd("folder"), ("write", ONE)),
    "what the user made a folder of is left": ([by_session(ONE, TWO)], Odd("folder"), ("leave", None)),
    "where a pipe stands now nothing is written": ([by_session(ONE, None)], Odd("special"), ("leave", None)),
    "what cannot be read is left": ([by_session(ONE, TWO)], "Permission denied", ("leave", None)),
}  # fmt: skip


@pytest.mark.parametrize(("touches", "now", "expected"), CASES.values(), ids=CASES)
def test_of_what_the_session_changed(touches, now, expected):
    [change] = decide({"a": touches}, {"a": now}, {"a": ONE})
    assert (change.action, change.to) == expected
    assert change.why


SHARED = {
    "what another session made of it, too": ([by_session(ONE, TWO)], TWO, {TWO}, ("leave", TWO)),
    "what it went on with from there": (
        [by_session(ONE, TWO), by_session(TWO, THREE)], THREE, {TWO}, ("leave", THREE)),
    "not what another session made of it before": ([by_session(TWO, THREE)], THREE, {TWO}, ("write", TWO)),
}  # fmt: skip


@pytest.mark.parametrize(("touches", "now", "claimed", "expected"), SHARED.values(), ids=SHARED)
def test_it_leaves_where_another_session_says_that_it_was_at_work(touches, now, claimed, expected):
    [change] = decide({"a": touches}, {"a": now}, {"a": ONE}, claimed={"a": claimed})
    assert (change.action, change.to) == expected


FORCED = {
    "what the user changed since": ([by_session(ONE, TWO)], THREE, ("write", ONE)),
    "what others changed between": (
        [by_session(ONE, TWO), by_others(TWO, THREE), by_session(THREE, FOUR)], FOUR, ("write", ONE)),
    "but not what is as it was": ([by_session(ONE, TWO)], ONE, ("leave", ONE)),
    "nor what cannot be read": ([by_session(ONE, TWO)], "Permission denied", ("leave", None)),
}  # fmt: skip


@pytest.mark.parametrize(("touches", "now", "expected"), FORCED.values(), ids=FORCED)
def test_forced_it_takes_back_also(touches, now, expected):
    [change] = decide({"a": touches}, {"a": now}, {"a": ONE}, force=True)
    assert (change.action, change.to) == expected


REVERTED = {
    "is as it became": (TWO, ("write", ONE)),
    "is as it was": (ONE, ("leave", ONE)),
    "is something else": (THREE, ("leave", THREE)),
    "is gone": (None, ("leave", None)),
}


@pytest.mark.parametrize(("now", "expected"), REVERTED.values(), ids=REVERTED)
def test_undo_writes_back_what(now, expected):
    [change] = revert({"a": (TWO, ONE)}, {"a": now}, why=deciding.SESSION_CHANGED)
    assert (change.action, change.to) == expected
