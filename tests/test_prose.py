"""Tests of the prose: banned phrases and openings in docstrings, comments, messages and pages."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from places import ROOT

OPENINGS = re.compile(
    r"(What|Which|Who|Whose|Where|Whether|When|How|As|That|If|So|Of|In|With|Not|No|Only|All|From|To|By|For|On|At|Nothing"
    r"|Nobody)\b"
)
"""Words with which a docstring must not begin. It begins with a verb or a noun."""

BANNED = {
    "take in": "import",
    "takes in": "imports",
    "taken in": "imported",
    "took in": "imported",
    "give back": "export",
    "given back": "exported",
    "goes on": "continues",
    "went on": "continued",
    "gone on": "continued",
    "step aside": "be renamed",
    "mends": "repairs",
    "mended": "repaired",
    "heals": "repairs",
    "let go": "removed",
    "in sight": "in the context",
    "front door": "API",
    "judge": "validate",
    "judged": "validated",
    "judging": "validation",
    "the talk": "the conversation",
    "of ours": "of this store",
    "of theirs": "of the remote",
    "what was said": "the conversation",
    "hangs below": "is below",
    "come apart": "diverge",
}
"""Replacement for each phrase."""

STORED = {"gitsession/formats/aider/headline.py"}
"""Files with a text that is part of stored entries, which cannot change."""

PAGES = [ROOT / "README.md", *(page for page in (ROOT / "docs").rglob("*.md") if "decisions" not in page.parts)]
MODULES = [path for path in (ROOT / "gitsession").rglob("*.py") if str(path.relative_to(ROOT)) not in STORED]


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a page, or the comments and the strings with a space of a module."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from enumerate(source.splitlines(), 1)
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, " ".join(node.value.split())
    for number, line in enumerate(source.splitlines(), 1):
        if comment := re.search(r"(?:^|\s)# (.*)", line):
            yield number, comment[1]


@pytest.mark.parametrize("phrase", BANNED)
def test_no_text_has_a_banned_phrase(phrase: str) -> None:
    pattern = re.compile(rf"\b{phrase}\b", re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}:{line}: write {BANNED[phrase]!r}"
        for path in (*PAGES, *MODULES)
        for line, text in texts(path)
        if pattern.search(text) and "go on with" not in text and "things in sight" not in text
    ]
    assert found == []


def docstrings(tree: ast.AST) -> Iterator[str]:
    """Yield the docstrings of modules, classes and functions, and the strings below an assignment."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
            yield text
        body = getattr(node, "body", ())
        for before, each in itertools.pairwise(body if isinstance(body, list) else ()):
            if isinstance(before, ast.Assign | ast.AnnAssign) and isinstance(each, ast.Expr):
                yield str(getattr(each.value, "value", ""))


def test_no_docstring_begins_with_a_relative_clause_or_a_preposition() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {text.splitlines()[0]}"
        for folder in ("gitsession", "tests", "benchmarks")
        for path in (ROOT / folder).rglob("*.py")
        for text in docstrings(ast.parse(path.read_text(encoding="utf-8")))
        if OPENINGS.match(text)
    ]
    assert found == []
