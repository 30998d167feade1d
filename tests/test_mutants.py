"""The breaks of ``benchmarks.mutants`` fit the code: the texts that they replace and the tests that they name exist."""

from __future__ import annotations

import pytest

from benchmarks.mutants import BREAKS, CHECKOUT, Break


@pytest.mark.parametrize("each", BREAKS, ids=lambda each: each.name)
def test_a_break_fits_the_code(each: Break) -> None:
    code = (CHECKOUT / "gitsession" / each.file).read_text("utf-8")
    assert [old for old, _ in each.edits if old not in code] == []
    assert [test for test in each.tests if not (CHECKOUT / test.split("::")[0]).is_file()] == []
