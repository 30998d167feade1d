"""Test that each rule of the agents (semantics.md) that the code names also occurs in the name of a test."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from places import TESTS

import gitsession
from gitsession.context.profiles import PROFILES

HOUSE = Path(gitsession.__file__).parent
CLAIMS = re.compile(r"\b(?:[Rr]ules? (?=\d)|(?=[ACKLOPRSVW]\d\b))(\w+(?:(?:, | to | and |, and )[ACKLOPRSVW]?\d+)*)")


def numbered(first: str, last: str) -> list[str]:
    """Return the rules of a range, such as ``18 to 21`` or ``K2 to K4``."""
    letter = first.rstrip("0123456789")
    return [f"{letter}{number}" for number in range(int(first[len(letter) :]), int(last[len(letter) :]) + 1)]


def claims_of(text: str) -> Iterator[str]:
    for found in CLAIMS.finditer(text):
        for part in re.split(r", and |, | and ", found[1]):
            first, _, last = part.partition(" to ")
            yield from numbered(first, last or first)


def named_by(test: str) -> Iterator[str]:
    """Yield the rules at the start of a test's name: ``test_rules_14_and_17_...``, ``test_k2_...``."""
    for word in test.removeprefix("test_").removeprefix("rules_").removeprefix("rule_").split("_"):
        if re.fullmatch(r"[ackloprsvw]?\d+", word):
            yield word.upper()
        elif word != "and":
            return


CLAIMED = {
    module.relative_to(HOUSE).as_posix(): set(claims_of(module.read_text("utf-8")))
    for folder in ("context", "compaction")
    for module in sorted((HOUSE / folder).rglob("*.py"))
}
TESTED = {
    rule
    for module in TESTS.rglob("test_*.py")
    for node in ast.parse(module.read_text("utf-8")).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    for rule in named_by(node.name)
}


PART_B = {"C": 9, "R": 3, "P": 2, "O": 1, "K": 6, "V": 3, "W": 6, "A": 4, "S": 3}
"""Number of rules by letter, for agents that are not variants of pi."""

OF_THE_AGENT_ITSELF = {
    **dict.fromkeys(["R3", "V1", "V2", "W1", "W4", "W5"], "how it keeps files and puts them back"),
    "C2": "when codex compacts before a turn",
    "C4": "how codex asks its model again",
    "C9": "how codex counts its windows",
    "R2": "where codex can fork",
    "W3": "Claude Code's menu",
}
"""Rules that do not concern the context of a session, or its reduction in gitsession."""


def test_every_rule_of_part_b_is_claimed_or_is_the_agents_own_business() -> None:
    rules = {f"{letter}{number}" for letter, count in PART_B.items() for number in range(1, count + 1)}
    claimed = set().union(*CLAIMED.values()) & rules
    assert claimed.isdisjoint(OF_THE_AGENT_ITSELF)
    assert claimed | OF_THE_AGENT_ITSELF.keys() == rules


def test_claim_is_read_in_any_notation() -> None:
    said = "pi (rules 6 to 8, 14 and 21), rule 30; (A1, A2) and K2 to K4, not UTF-8; rules of others"
    assert sorted(claims_of(said)) == sorted(["6", "7", "8", "14", "21", "30", "A1", "A2", "K2", "K3", "K4"])
    assert [*named_by("test_rules_14_and_17_what_2_take")] == ["14", "17"]
    assert [*named_by("test_k2_what")] == ["K2"]


@pytest.mark.parametrize("module", [module for module, rules in CLAIMED.items() if rules])
def test_every_claimed_rule_is_named_by_a_test(module: str) -> None:
    assert CLAIMED[module] - TESTED == set()


@pytest.mark.parametrize("place", PROFILES.values(), ids=PROFILES)
def test_profile_names_its_rules(place: str) -> None:
    assert CLAIMED[f"context/profiles/{place.partition('.')[0]}.py"]
