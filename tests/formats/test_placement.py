"""Tests of the parents of a file's lines, and that no parent changes when a file grows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitsession.formats.base.record import Field, LineLink
from gitsession.formats.base.record import place_nodes as place

ABSENT = Field.ABSENT


def tree(*lines):
    """Return nodes numbered from 1.

    The notation is "a<root", "b<a", "b" (no parent field), "<a" (no id) and "" (neither).
    """
    return [_node(number, line) for number, line in enumerate(lines, start=1)]


def _node(number, line):
    own, stated, parent = line.partition("<")
    return LineLink(number, own or None, (None if parent == "root" else parent) if stated else ABSENT)


def below(*lines):
    """Return the parent of each line, in the order of lines."""
    return [at.parent for at in sorted(place(tree(*lines)), key=lambda at: at.line)]


def order(*lines):
    return [at.line for at in place(tree(*lines))]


def problems(*lines):
    return {at.line: (at.claimed, at.problem) for at in place(tree(*lines)) if at.claimed is not None or at.problem}


def test_empty_file_has_no_nodes():
    assert place([]) == []


def test_chain_has_its_stated_parents():
    assert below("a<root", "b<a", "c<b") == [None, 1, 2]


def test_null_parent_is_the_root_anywhere():
    assert below("a<root", "b<a", "c<root") == [None, 1, None]


def test_siblings_share_their_parent():
    assert below("a<root", "b<a", "c<a") == [None, 1, 1]


def test_line_without_a_parent_field_is_a_child_of_the_previous_line():
    assert below("a", "b", "c") == [None, 1, 2]


def test_id_without_a_parent_field_does_not_take_over_children():
    assert below("a<root", "b", "c<a") == [None, 1, 1]


def test_a_missing_parent_is_the_root_and_its_text_is_kept():
    lines = ("a<root", "b<gone", "c<b")
    assert below(*lines) == [None, None, 2]
    assert problems(*lines) == {2: ("gone", "the parent 'gone' is not in the file")}


def test_an_empty_parent_text_is_a_missing_parent():
    assert problems("a<root", "b<") == {2: ("", "the parent '' is not in the file")}


def test_a_duplicate_id_is_kept_and_the_later_answers_from_there_on():
    lines = ("a<root", "b<a", "a<b", "c<a")
    assert below(*lines) == [None, 1, 2, 3]
    assert problems(*lines) == {3: (None, "a second entry with the id 'a': both are imported")}


def test_duplicate_that_names_its_own_id_is_a_child_of_the_earlier_one():
    assert below("a<root", "a<a", "b<a") == [None, 1, 2]


def test_later_parent_is_placed_first():
    lines = ("a<c", "b<root", "c<b", "d<a")
    assert below(*lines) == [3, None, 2, 1]
    assert order(*lines) == [2, 3, 1, 4]
    assert problems(*lines) == {}


def test_first_of_two_later_lines_with_one_id_is_the_parent():
    assert below("a<x", "x<root", "x<root") == [2, None, None]


def test_an_earlier_parent_wins_over_a_later_one():
    assert below("x<root", "a<x", "x<root", "b<x") == [None, 1, None, 3]


def test_waiting_lines_are_placed_in_file_order_with_their_children():
    lines = ("a<z", "b<a", "c<z", "d<b", "z<root")
    assert below(*lines) == [5, 1, 5, 2, None]
    assert order(*lines) == [5, 1, 2, 3, 4]


def test_line_that_is_its_own_parent_is_a_child_of_the_root():
    lines = ("a<root", "b<b", "c<b")
    assert below(*lines) == [None, None, 2]
    assert problems(*lines) == {2: ("b", "the parent 'b' is the entry itself or below it")}


@pytest.mark.parametrize(
    ("lines", "parents", "claimed"),
    [
        (("a<b", "b<a"), [None, 1], "b"),
        (("a<c", "b<a", "c<b"), [None, 1, 2], "c"),
        (("a<b", "b<c", "c<a"), [None, 3, 1], "b"),
        (("a<c", "c<b", "b<a", "d<c"), [None, 3, 1, 2], "c"),
    ],
)
def test_cycle_is_cut_at_its_first_line(lines, parents, claimed):
    assert below(*lines) == parents
    assert problems(*lines) == {1: (claimed, f"the parent '{claimed}' is the entry itself or below it")}


def test_line_that_leads_into_a_cycle_keeps_its_parent():
    lines = ("t<x", "x<y", "y<x")
    assert below(*lines) == [2, None, 2]
    assert list(problems(*lines)) == [2]


def test_two_cycles_are_cut_once_each():
    assert list(problems("a<b", "c<d", "b<a", "d<c")) == [1, 2]


def test_line_without_ids_keeps_a_linear_file_linear():
    assert below("a<root", "", "b<a", "c<b") == [None, 1, 2, 3]


def test_several_lines_without_ids_form_a_chain_that_takes_over_children():
    assert below("a<root", "", "", "b<a", "c<a") == [None, 1, 2, 3, 3]


def test_earlier_children_keep_their_parent():
    assert below("a<root", "b<a", "", "c<a", "d<b") == [None, 1, 2, 1, 3]


def test_line_without_ids_does_not_take_over_children_of_another_one():
    assert below("a<root", "<a", "", "b<a") == [None, 1, 2, 1]


def test_waiting_child_gets_its_own_parent():
    assert below("b<a", "a<root", "", "c<a") == [2, None, 2, 3]


def test_leading_lines_without_ids_are_children_of_the_root():
    assert below("", "", "a<root") == [None, 1, None]


def test_an_id_of_any_length_fits_a_report():
    ((claimed, problem),) = problems("a<" + "\ud83d" * 1000).values()
    assert claimed == "\ud83d" * 1000
    assert len(problem) < 500
    assert problem.isascii()


IDS = st.sampled_from("abcdef")
NODES = st.lists(
    st.tuples(st.none() | IDS, st.just(ABSENT) | st.none() | IDS),
    max_size=14,
).map(lambda pairs: [LineLink(line, own, parent) for line, (own, parent) in enumerate(pairs, start=1)])


@given(NODES)
def test_every_line_is_placed_once_after_its_parent(nodes):
    placed = place(nodes)
    assert sorted(at.line for at in placed) == [node.line for node in nodes]
    seen = {None}
    for at in placed:
        assert at.parent in seen
        seen.add(at.line)


@given(NODES)
def test_file_order_is_kept_without_late_parents(nodes):
    placed = place(nodes)
    if not any(at.parent is not None and at.parent > at.line for at in placed):
        assert [at.line for at in placed] == [node.line for node in nodes]


@given(NODES, st.integers(0, 14))
def test_growth_keeps_parents_that_were_known(nodes, size):
    before = {at.line: at for at in place(nodes[:size])}
    after = {at.line: at for at in place(nodes)}
    for line, at in before.items():
        if not _named_too_early(nodes, line):
            assert after[line] == at


def _named_too_early(nodes, line):
    parent = nodes[line - 1].parent
    return isinstance(parent, str) and all(node.id != parent for node in nodes[: line - 1])


@given(NODES, st.integers(0, 14))
def test_found_parent_is_left_only_to_break_a_cycle(nodes, size):
    before = {at.line: at.parent for at in place(nodes[:size])}
    after = {at.line: at for at in place(nodes)}
    for line, parent in before.items():
        if parent is not None:
            assert after[line].parent == parent or after[line].claimed is not None


MANY = 100_000


def test_chain_of_a_hundred_thousand_lines_is_placed():
    placed = place([LineLink(line, str(line), str(line - 1) if line > 1 else None) for line in range(1, MANY + 1)])
    assert [at.parent for at in placed] == [None, *range(1, MANY)]


def test_reversed_chain_is_placed_forwards():
    placed = place(
        [LineLink(line, str(line), str(line + 1)) for line in range(1, MANY)] + [LineLink(MANY, str(MANY), None)]
    )
    assert [at.line for at in placed] == list(range(MANY, 0, -1))


def test_a_cycle_of_a_hundred_thousand_is_cut_once():
    placed = place([LineLink(line, str(line), str(line % MANY + 1)) for line in range(1, MANY + 1)])
    assert [at.line for at in placed if at.problem] == [1]
    assert len(placed) == MANY


def test_hundred_thousand_lines_may_wait_for_the_last_one():
    placed = place([LineLink(line, None, "z") for line in range(1, MANY)] + [LineLink(MANY, "z", None)])
    assert [at.line for at in placed] == [MANY, *range(1, MANY)]


def test_hundred_thousand_lines_may_have_no_ids():
    placed = place(
        [LineLink(1, "a", None), *(LineLink(line, None, ABSENT) for line in range(2, MANY)), LineLink(MANY, "b", "a")]
    )
    assert placed[-1].parent == MANY - 1
