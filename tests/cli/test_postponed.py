"""Tests of fast imports: slow modules are replaced by placeholders while another module is imported, and only then."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from gitsession.cli import postponed
from gitsession.cli.postponed import Functions, import_fast


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "slow.py").write_text("def doubled(number): return 2 * number\nvalue = 5\n")
    (tmp_path / "user.py").write_text("import slow\nfrom slow import doubled\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(postponed, "FEW_CALLS", ("slow",))
    for name in ("slow", "user"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "slow"


def test_slow_module_is_imported_when_one_of_its_functions_is_called(slow: str) -> None:
    import_fast("user")
    user = import_module("user")
    assert slow not in sys.modules
    assert (user.doubled(2), user.slow.doubled(number=3)) == (4, 6)
    assert slow in sys.modules


def test_other_modules_import_the_real_module(slow: str) -> None:
    import_fast("user")
    assert import_module(slow).value == 5


def test_placeholders_are_removed_if_the_import_fails(slow: str, tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text("import slow\nraise ValueError\n")
    with pytest.raises(ValueError):
        import_fast("user")
    assert slow not in sys.modules


def test_function_that_is_called_during_the_import(slow: str, tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text("import slow\nfound = slow.doubled(2)\n")
    import_fast("user")
    assert (import_module("user").found, import_module(slow).value) == (4, 5)


def test_imported_modules_are_not_replaced(slow: str) -> None:
    real = import_module(slow)
    import_fast("user")
    assert sys.modules[slow] is real is import_module("user").slow


def test_placeholder_has_no_special_attributes(slow: str) -> None:
    with pytest.raises(AttributeError, match="__path__"):
        _ = Functions(slow).__path__


def test_pathlib_and_click_work_after_a_fast_import() -> None:
    program = """
import sys
from gitsession.cli.postponed import import_fast
import_fast("click", "dataclasses", "pathlib")
assert not {"inspect", "gettext", "uuid", "urllib.parse"} & {*sys.modules}, sys.modules
import click, dataclasses, pathlib, urllib.parse
assert pathlib.Path("/a b").as_uri() == "file:///a%20b"
assert urllib.parse.SplitResult
@click.command()
@click.option("--count", default=1, help=" Times. ")
def run(count): "Help."
assert "Times." in run.get_help(click.Context(run))
@dataclasses.dataclass
class Point: x: int
assert Point.__doc__ == "Point(x: int)", Point.__doc__
"""
    subprocess.run([sys.executable, "-c", program], check=True)
