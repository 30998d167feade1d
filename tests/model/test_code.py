"""Tests of code in texts: fences of Markdown, and the tokens of code."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitsession.model.code import Fence, fences, lexer_for, lexer_named, pieces


def found(text: str) -> list[Fence]:
    return list(fences(text.split("\n")))


def test_a_fence_has_its_lines_and_its_language() -> None:
    assert found("a\n```Python title=x\nif x: 1\n```\nb") == [Fence(1, 3, "", "```", "python")]
    assert found("~~~\na\n~~~") == [Fence(0, 2, "", "~~~", "")]


def test_a_fence_is_closed_only_by_one_that_is_as_long() -> None:
    assert found("````\n```\n~~~~\n````` \nb") == [Fence(0, 3, "", "````", "")]
    assert found("```\na\n``` b\n  ```") == [Fence(0, 3, "", "```", "")]


def test_an_open_fence_ends_with_the_text() -> None:
    assert found("```sh\na") == [Fence(0, 2, "", "```", "sh")]


def test_an_indented_fence_is_closed_and_contains_only_indented_lines() -> None:
    assert found("  ~~~ a\n\n   b\n\tc\n   ~~~") == [Fence(0, 4, "  ", "~~~", "a")]
    assert found("  ~~~\n  b") == found("  ~~~\nb\n ~~~") == found("  ~~~\n  b\n ~~~") == []
    assert found("  ~~~\nb\n```\nc\n```") == [Fence(2, 4, "", "```", "")]


def test_many_open_fences_take_linear_time() -> None:
    lines = [f"{' ' * (1 + n % 3)}~~~ a" for n in range(100_000)]
    assert list(fences(lines)) == []


def test_other_lines_with_backticks_are_no_fence() -> None:
    assert found("``` a`b\n`` `\n    ```\n~~") == []


@given(st.text("ab=\"'#({[\\/*<>&1 \t\n"), st.sampled_from(["a.py", "a.html", "a.md", "Makefile", "a.unknown"]))
def test_tokens_have_every_character_of_each_line(text: str, path: str) -> None:
    lines = pieces(text, lexer_for(path))
    assert ["".join(part for _, part in line) for line in lines] == text.split("\n")


def test_tokens_have_classes() -> None:
    [line] = pieces("def f(): return 'x'  # y", lexer_named("python"))
    assert {("k", "def"), ("f", "f"), ("k", "return"), ("c", "# y")} <= set(line)
    assert pieces("x" * 20_001, lexer_named("python")) == [[("", "x" * 20_001)]]


def test_unknown_languages_have_no_lexer() -> None:
    assert lexer_named("") is lexer_named("no such language") is lexer_for("a.nosuch") is lexer_for("") is None


def test_without_pygments_no_language_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygments.lexers", None)
    assert lexer_for("without.py") is lexer_named("python3") is None
    lexer_for.cache_clear()
    lexer_named.cache_clear()
