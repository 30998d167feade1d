"""Tests of the decisions of a rewind: it only undoes changes of the session."""

from functools import partial

import pytest

from gitsession.checkpoints import rewind_decisions
from gitsession.checkpoints.attribution import PathAttribution
from gitsession.checkpoints.rewind_decisions import ALREADY_REVERTED, CONFLICT, MERGED, NotMerged
from gitsession.sessions.tombstone_set import PURGED_CONTENT_OID
from gitsession.workspace.inspect import SpecialFile
from gitsession.workspace.trees import TreeEntry


def cannot_merge(*_):
    raise NotMerged


decide = partial(rewind_decisions.decide, claimed={}, force=False, merge=cannot_merge)
revert = partial(rewind_decisions.revert, merge=cannot_merge)

ONE, TWO, THREE, FOUR = (TreeEntry("100644", digit * 40) for digit in "1234")


def by_session(was, now):
    return PathAttribution(was, now, is_by_session=True)


def by_others(was, now):
    return PathAttribution(was, now, is_by_session=False)


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
    "what became a folder comes back": ([by_session(ONE, None)], SpecialFile("folder"), ("write", ONE)),
    "what the user made a folder of is left": ([by_session(ONE, TWO)], SpecialFile("folder"), ("leave", None)),
    "where a pipe stands now nothing is written": ([by_session(ONE, None)], SpecialFile("special"), ("leave", None)),
    "what cannot be read is left": ([by_session(ONE, TWO)], "Permission denied", ("leave", None)),
}  # fmt: skip


@pytest.mark.parametrize(("touches", "now", "expected"), CASES.values(), ids=CASES)
def test_decisions_about_files_of_the_session(touches, now, expected):
    [change] = decide({"a": touches}, {"a": now}, {"a": ONE})
    assert (change.action, change.to) == expected
    assert change.reason


SHARED = {
    "what another session made of it, too": ([by_session(ONE, TWO)], TWO, {TWO}, ("leave", TWO)),
    "what it went on with from there": (
        [by_session(ONE, TWO), by_session(TWO, THREE)], THREE, {TWO}, ("leave", THREE)),
    "not what another session made of it before": ([by_session(TWO, THREE)], THREE, {TWO}, ("write", TWO)),
}  # fmt: skip


@pytest.mark.parametrize(("touches", "now", "claimed", "expected"), SHARED.values(), ids=SHARED)
def test_file_is_left_if_another_session_claims_to_have_been_at_work(touches, now, claimed, expected):
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
def test_decisions_of_a_forced_rewind(touches, now, expected):
    [change] = decide({"a": touches}, {"a": now}, {"a": ONE}, force=True)
    assert (change.action, change.to) == expected


REVERTED = {
    "is as it became": (TWO, ("write", ONE)),
    "is as it was": (ONE, ("leave", ONE)),
    "is something else": (THREE, ("leave", THREE)),
    "is gone": (None, ("leave", None)),
}


@pytest.mark.parametrize(("now", "expected"), REVERTED.values(), ids=REVERTED)
def test_decisions_of_an_undo(now, expected):
    [change] = revert({"a": (TWO, ONE)}, {"a": now}, reason=rewind_decisions.SESSION_CHANGED)
    assert (change.action, change.to) == expected


FIVE, MADE = TreeEntry("100644", "5" * 40), TreeEntry("100644", "a" * 40)
RUNS, LINK, GONE = TreeEntry("100755", TWO.oid), TreeEntry("120000", THREE.oid), TreeEntry("100644", PURGED_CONTENT_OID)


def merging(path, base, ours, theirs):
    """Merge any contents except those of ``FIVE``, which overlap."""
    if FIVE.oid in (base, ours, theirs):
        raise NotMerged(overlap=True)
    assert len({base, ours, theirs}) == 3, "nothing to merge"
    return MADE.oid


MERGES = {
    "what the user changed since": ([by_session(ONE, TWO)], THREE, ("merge", MADE, MERGED)),
    "what the user was seen to change": ([by_session(ONE, TWO), by_others(TWO, THREE)], THREE, ("merge", MADE, MERGED)),
    "what others changed between": (
        [by_session(ONE, TWO), by_others(TWO, THREE), by_session(THREE, FOUR)], FOUR, ("merge", MADE, MERGED)),
    "what others took back between": (
        [by_session(ONE, TWO), by_others(TWO, ONE), by_session(ONE, TWO)], TWO, ("merge", ONE, MERGED)),
    "where others took away between what the session made": (
        [by_session(None, TWO), by_others(TWO, None), by_session(None, TWO)], TWO,
        ("remove", None, rewind_decisions.SESSION_MADE)),
    "not where lines overlap": ([by_session(ONE, TWO)], FIVE, ("conflict", FIVE, CONFLICT)),
    "not where an earlier change overlaps": (
        [by_session(ONE, TWO), by_others(TWO, FIVE), by_session(FIVE, FOUR)], FOUR, ("conflict", FOUR, CONFLICT)),
    "not what is merged already": (
        [by_session(ONE, TWO), by_others(TWO, THREE), by_session(THREE, MADE)], MADE,
        ("leave", MADE, ALREADY_REVERTED),
    ),
    "not what the session made": ([by_session(None, TWO)], THREE, ("leave", THREE, rewind_decisions.CHANGED_SINCE)),
    "not what the user made anew": ([by_session(ONE, None)], THREE, ("leave", THREE, rewind_decisions.CHANGED_SINCE)),
    "not what the user took away": ([by_session(ONE, TWO)], None, ("leave", None, rewind_decisions.CHANGED_SINCE)),
    "not a link": ([by_session(ONE, TWO)], LINK, ("leave", LINK, rewind_decisions.CHANGED_SINCE)),
    "not what was a link": ([by_session(LINK, TWO)], ONE, ("leave", ONE, rewind_decisions.CHANGED_SINCE)),
    "not what was purged": ([by_session(GONE, TWO)], THREE, ("leave", THREE, rewind_decisions.CHANGED_SINCE)),
    "the mode that the session changed": (
        [by_session(TWO, RUNS)], TreeEntry("100755", THREE.oid), ("merge", THREE, MERGED)),
    "not the mode that the user changed": (
        [by_session(ONE, TWO)], TreeEntry("100755", TWO.oid), ("merge", TreeEntry("100755", ONE.oid), MERGED)),
    "mode and content": ([by_session(ONE, RUNS)], TreeEntry("100755", THREE.oid), ("merge", MADE, MERGED)),
    "not a content that both made the same": ([by_session(ONE, TWO)], TreeEntry("100755", ONE.oid),
                                              ("leave", TreeEntry("100755", ONE.oid), ALREADY_REVERTED)),
}  # fmt: skip


@pytest.mark.parametrize(("touches", "now", "expected"), MERGES.values(), ids=MERGES)
def test_decisions_about_merges(touches, now, expected):
    [change] = decide({"a": touches}, {"a": now}, {"a": ONE}, merge=merging)
    assert (change.action, change.to, change.reason) == expected
    assert rewind_decisions.writes([change]) == ([] if change.action in ("leave", "conflict") else [change])


def test_change_claimed_by_another_session_is_not_merged():
    [change] = decide({"a": [by_session(ONE, TWO)]}, {"a": THREE}, {}, claimed={"a": {TWO}}, merge=merging)
    assert (change.action, change.reason) == ("leave", rewind_decisions.SHARED)


def test_forced_it_does_not_merge():
    [change] = decide({"a": [by_session(ONE, TWO)]}, {"a": THREE}, {"a": ONE}, force=True, merge=merging)
    assert (change.action, change.to) == ("write", ONE)


REVERTED_BY_MERGE = {
    "what was changed since": (THREE, ("merge", MADE, MERGED)),
    "not where lines overlap": (FIVE, ("conflict", FIVE, CONFLICT)),
    "not what was taken away": (None, ("leave", None, rewind_decisions.CHANGED_SINCE)),
}


@pytest.mark.parametrize(("now", "expected"), REVERTED_BY_MERGE.values(), ids=REVERTED_BY_MERGE)
def test_undo_merges(now, expected):
    [change] = revert({"a": (TWO, ONE)}, {"a": now}, reason=rewind_decisions.SESSION_CHANGED, merge=merging)
    assert (change.action, change.to, change.reason) == expected
