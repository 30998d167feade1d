"""Patterns behave like compiled regular expressions."""

import copy
import pickle
import re
import threading
from collections.abc import Callable
from typing import Any

import pytest

from gitsession.pattern import pattern


def test_first_use_compiles_the_expression(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[object, ...]] = []
    monkeypatch.setattr(re, "compile", lambda *given, real=re.compile: made.append(given) or real(*given))
    word = pattern(r"[a-z]+", re.IGNORECASE)
    assert not made
    assert [word.findall("Ab c"), word.findall("d")] == [["Ab", "c"], ["d"]]
    assert made == [(r"[a-z]+", re.IGNORECASE)]


@pytest.mark.parametrize("text", [r"(?P<a>x)(y)?", rb"x\0"])
def test_attributes_are_those_of_the_compiled_expression(text: str | bytes) -> None:
    mine, theirs = pattern(text), re.compile(text)
    for name in ("pattern", "flags", "groups", "groupindex"):
        assert getattr(mine, name) == getattr(theirs, name)
    assert mine.fullmatch(b"x\0" if isinstance(text, bytes) else "xy").groups() is not None
    with pytest.raises(AttributeError):
        _ = mine.no_such_name


def test_invalid_expression_fails_when_it_is_used() -> None:
    with pytest.raises(re.error):
        pattern("(").match("")


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda word: pickle.loads(pickle.dumps(word))])
def test_pattern_can_be_copied_before_and_after_its_first_use(copied: Callable[[Any], Any]) -> None:
    word = pattern(r"a+", re.IGNORECASE)
    for _ in range(2):
        assert copied(word).match("aAb")[0] == word.match("aAb")[0] == "aA"


def test_threads_may_use_a_pattern_for_the_first_time_at_once() -> None:
    word, found = pattern(r"a+"), []
    threads = [threading.Thread(target=lambda: found.append(word.match("aab")[0])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["aa"] * 8
