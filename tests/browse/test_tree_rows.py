"""Tests of ``browse.tree_rows``: the layout of trees, filters and folds. No screen is involved."""

from __future__ import annotations

import itertools
from pathlib import Path

from builders import Clock
from hypothesis import given
from hypothesis import strategies as st

from gitsession import Gap, Message, Node, Store, ToolCall, Tree
from gitsession.browse.tree_rows import FILTERS, LEVELS_MAX, TreeRow, TreeShape, class_of, newest_part


def node(oid: str, parent: str | None, subject: str = "", role: str = "user", kind: str = "message") -> Node:
    return Node(oid, "", parent, None, role, 0, 0, kind, b"", None, subject or f"{role}: {oid}", "")


def tree(*edges: str, gaps: tuple[Gap, ...] = (), **tips: str) -> Tree:
    """Return a tree of edges such as ``a>b``. ``tips``: the branches."""
    nodes = {"a": node("a", None)}
    for edge in edges:
        parent, _, oid = edge.partition(">")
        nodes[oid] = node(oid, parent)
    children: dict[str | None, list[str]] = {}
    known = {gap.oid: gap.before for gap in gaps}
    for found in nodes.values():
        parent = found.parent if found.parent in nodes or found.parent is None else known.get(found.parent)
        children.setdefault(parent, []).append(found.oid)
    return Tree(tips, nodes, children, gaps)


def drawn(found: Tree, active: str, *, folded: set[str] = frozenset(), mode: str = "all") -> list[str]:
    shape = TreeShape.of(found, active)
    rows = shape.rows(shape.selected(mode, marks={}), folded)
    return [row.indent + row.oid + (f" +{row.hidden}" if row.hidden else "") for row in rows]


def test_the_active_branch_continues_without_indentation() -> None:
    found = tree("a>b", "b>c", "b>x", "x>y", "c>d")
    assert drawn(found, "d") == ["a", "b", "├─ x", "│  y", "c", "d"]
    assert drawn(found, "y") == ["a", "b", "├─ c", "│  d", "x", "y"]


def test_without_an_active_entry_the_largest_branch_continues() -> None:
    assert drawn(tree("a>x", "a>b", "b>c"), "") == ["a", "├─ x", "b", "c"]


def test_nested_branches_are_indented_by_level() -> None:
    found = tree("a>b", "a>x", "x>y", "x>z", "z>w")
    assert drawn(found, "b") == ["a", "├─ x", "│  ├─ y", "│  z", "│  w", "b"]


def test_many_levels_are_drawn_at_the_last_one() -> None:
    edges = [edge for at in range(40) for edge in (f"{chr(97 + at)}>{chr(98 + at)}", f"{chr(97 + at)}>_{at}")]
    found = tree(*edges)
    shape = TreeShape.of(found, "_0")
    assert max(len(row.indent) for row in shape.rows(shape.selected("all", marks={}), ())) <= 3 * LEVELS_MAX


def test_a_folded_branch_shows_its_first_entry_and_the_number_of_the_others() -> None:
    found = tree("a>b", "b>c", "b>x", "x>y", "x>z")
    assert drawn(found, "c", folded={"x"}) == ["a", "b", "├─ x +2", "c"]
    assert drawn(found, "c", folded={"a"}) == ["a +5"]
    assert drawn(found, "c", folded={"b", "y"}) == ["a", "b", "├─ x", "│  ├─ y", "│  z", "c"]


def test_the_head_of_each_row_is_the_first_row_of_its_branch() -> None:
    found = tree("a>b", "b>c", "b>x", "x>y")
    shape = TreeShape.of(found, "c")
    rows = shape.rows(shape.selected("all", marks={}), ())
    assert [(row.oid, rows[row.head].oid, row.foldable) for row in rows] == [
        ("a", "a", True), ("b", "a", False), ("x", "x", True), ("y", "x", False), ("c", "a", False),
    ]  # fmt: skip


def graphed(found: Tree, active: str) -> list[str]:
    """Return the lines of a graph, as ``git log --graph`` draws it."""
    rows = TreeShape.of(found, active).newest_first()
    return [
        "| " * level + (f"* {it.oid}" if isinstance(it, Node) else f"x {it.oid}")
        if it is not None
        else "| " * (level - 1) + "|/" * bool(level)
        for it, level in rows
    ]


def parents_in(lines: list[str]) -> dict[str, str | None]:
    """Return the parent of each entry, read from the lines of a graph."""
    found: dict[str, str | None] = {}
    waiting: list[list[str]] = []
    for line in lines:
        level, oid = line.count("|"), line.rpartition(" ")[2]
        if line == "":
            waiting = []
        elif line.endswith("|/"):
            assert len(waiting) == level + 1
            waiting[level - 1] += waiting.pop()
        else:
            assert level <= len(waiting) <= level + 1, "an entry is on the last branch, or begins the next one"
            for child in waiting.pop() if len(waiting) > level else ():
                found[child] = oid
            waiting.append([oid])
            found[oid] = None
    return found


def test_a_graph_has_the_active_branch_first_and_each_branch_above_the_entry_it_leaves() -> None:
    found = tree("a>b", "b>c", "b>x", "x>y", "b>z", "c>d")
    assert graphed(found, "d") == ["* d", "* c", "| * z", "|/", "| * y", "| * x", "|/", "* b", "* a"]
    assert graphed(tree("a>b", "a>x", "x>y", "x>z", "z>w"), "b") == [
        "* b", "| * w", "| * z", "| | * y", "| |/", "| * x", "|/", "* a",
    ]  # fmt: skip


def test_trees_of_several_roots_are_separate_in_a_graph() -> None:
    found = tree("a>b")
    nodes = {**found.nodes, "r": node("r", None), "s": node("s", "r")}
    several = Tree({}, nodes, {**found.children, None: ["a", "r"], "r": ["s"]})
    assert graphed(several, "b") == ["* s", "* r", "", "* b", "* a"]


def test_gaps_are_in_a_graph() -> None:
    found = tree("a>b", "gone>c", "c>d", gaps=(Gap("gone", "lost", foreign=True, before="b"),))
    assert graphed(found, "d") == ["* d", "* c", "x gone", "* b", "* a"]
    found = tree("a>b", gaps=(Gap("tip", "lost", foreign=False, before="b"),))
    assert graphed(found, "b") == ["x tip", "", "* b", "* a"]


@given(st.lists(st.one_of(st.none(), st.integers(0, 60)), max_size=60), st.integers(0, 60))
def test_the_parents_of_all_entries_can_be_read_from_a_graph(parents: list[int | None], active: int) -> None:
    nodes = {"0": node("0", None)}
    for at, parent in enumerate(parents, 1):
        nodes[str(at)] = node(str(at), None if parent is None else str(parent % at))
    children: dict[str | None, list[str]] = {}
    for each in nodes.values():
        children.setdefault(each.parent, []).append(each.oid)
    lines = graphed(Tree({}, nodes, children), str(active % len(nodes)))
    assert parents_in(lines) == {each.oid: each.parent for each in nodes.values()}
    assert max(line.count("|") for line in lines) <= 1 + len(nodes).bit_length()


def test_filters_select_classes_of_entries() -> None:
    nodes = {
        "root": node("root", None, "session: pi", "session", "session"),
        "model": node("model", "root", "model: x", "session", "model_change"),
        "ask": node("ask", "model", "user: hi"),
        "think": node("think", "ask", "assistant", "assistant"),
        "call": node("call", "think", "assistant: bash (+1 tool)", "assistant"),
        "out": node("out", "call", "tool bash: 1 line", "tool"),
        "done": node("done", "out", "assistant: Done (+1 tool)", "assistant"),
        "sum": node("sum", "done", "compaction: 2 tokens", "session", "compaction"),
    }
    oids = list(nodes)
    children: dict[str | None, list[str]] = {None: ["root"]}
    children.update((above, [below]) for above, below in itertools.pairwise(oids))
    shape = TreeShape.of(Tree({"main": "sum"}, nodes, children), "sum")

    def shown(mode: str, **more: object) -> list[str]:
        return [row.oid for row in shape.rows(shape.selected(mode, marks={}, **more), ())]  # type: ignore[arg-type]

    assert shown("default") == ["ask", "out", "done", "sum"]
    assert shown("no tools") == ["ask", "done", "sum"]
    assert shown("user only") == ["ask"]
    assert shown("labelled") == []
    assert shown("labelled", labels=["call"]) == ["call"]
    assert shown("all") == oids
    assert shown("user only", kept="model") == ["model", "ask"]
    assert shown("default", words=["bash"]) == ["out"]
    assert shown("default", kept="elsewhere") == ["ask", "out", "done", "sum"]


def test_an_answer_with_one_word_is_hidden_only_if_a_result_follows() -> None:
    answer = node("x", None, "assistant: bash (+1 tool)", "assistant")
    assert class_of(answer, is_answered=True) == "calls"
    assert class_of(answer, is_answered=False) == "text"
    assert class_of(answer._replace(subject="assistant: Let me look (+1 tool)"), is_answered=True) == "text"


def test_a_gap_is_a_row_before_the_entry_that_follows_it() -> None:
    gap = Gap("lost", "missing object", foreign=False, before="b")
    found = tree("a>b", "lost>d", gaps=(gap,))
    assert drawn(found, "d") == ["a", "b", "lost", "d"]
    shape = TreeShape.of(found, "d")
    assert [row.gap for row in shape.rows(shape.selected("all", marks={}), ())] == [None, None, gap, None]


def test_a_gap_at_a_tip_is_the_last_row() -> None:
    gap = Gap("lost", "missing object", foreign=False, before="b")
    found = tree("a>b", gaps=(gap,), main="lost")
    assert drawn(found, "lost") == ["a", "b", "lost"]


def test_branches_and_history_of_an_entry() -> None:
    found = tree("a>b", "b>c", "b>x", main="c", side="x", here="b")
    shape = TreeShape.of(found, "c")
    assert shape.branches_through("a") == ["main", "side", "here"]
    assert shape.branches_through("b") == ["here", "main", "side"]
    assert shape.branches_through("x") == ["side"]
    assert [each.oid for each in shape.path("x")] == ["a", "b", "x"]
    assert shape.path("lost") == []


@given(st.lists(st.integers(0, 1000), max_size=60), st.sets(st.integers(0, 60)), st.integers(0, 60))
def test_every_entry_is_drawn_once_after_its_parent(choices: list[int], folds: set[int], active: int) -> None:
    edges = [f"n{choice % (at + 1)}>n{at + 1}" for at, choice in enumerate(choices)]
    found = tree(*[edge.replace("n0>", "a>") for edge in edges])
    shape = TreeShape.of(found, f"n{active}" if f"n{active}" in found.nodes else "a")
    rows = shape.rows(shape.selected("all", marks={}), ())
    place = {row.oid: at for at, row in enumerate(rows)}
    assert len(place) == len(rows) == len(found.nodes)
    assert all(place[each.parent] < place[each.oid] for each in found.nodes.values() if each.parent)
    folded = {f"n{at}" for at in folds}
    few: list[TreeRow] = shape.rows(shape.selected("all", marks={}), folded)
    assert len(few) + sum(row.hidden for row in few) == len(rows)
    assert [row.oid for row in few] == [row.oid for row in rows if row.oid in {each.oid for each in few}]


def test_the_newest_part_of_a_history_is_a_tree(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        session = store.new_session(agent="pi")
        for number in range(5):
            session.append(Message.user(f"prompt {number}"))
        entries = [found for found, _ in zip(session.walk(), range(3), strict=False)]
        part = newest_part(session.branches(), entries)
        assert [found.subject for found, _ in part.walk()] == [f"user: prompt {number}" for number in (2, 3, 4)]
        assert newest_part(session.branches(), list(session.walk())).nodes == session.tree().nodes
        assert newest_part({}, []).nodes == {}


def test_real_answers_with_calls_only_are_hidden(tmp_path: Path) -> None:
    """The subjects of entries are part of the format, and ``class_of`` recognizes them."""
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        session = store.new_session(agent="pi")
        call = ToolCall("1", "bash", {"command": "ls"})
        session.append(Message.user("list"))
        session.append(Message.assistant([call]))
        session.append(Message.tool(call, "a.py"))
        session.append(Message.assistant([*Message.user("Now").content, call]))
        session.append(Message.assistant("Fine"))
        tree = session.tree()
        shape = TreeShape.of(tree, session.branches()["main"])
        assert shape.classes == ["setting", "prompt", "calls", "tool", "text", "text"]


def test_the_filters_have_the_order_of_pi() -> None:
    assert FILTERS == ("default", "no tools", "user only", "labelled", "all")
