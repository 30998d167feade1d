"""Tests of modules that are executed when they are first used."""

from __future__ import annotations

import sys
import threading
from importlib import import_module
from pathlib import Path

import pytest

from gitsession.cli.postponed import PostponedModule, postpone


@pytest.fixture
def name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "slow_module.py").write_text("import time\ntime.sleep(0.05)\nvalue = object()\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "slow_module", PostponedModule("slow_module"))
    return "slow_module"


def test_import_does_not_execute_a_postponed_module(name: str) -> None:
    assert type(import_module(name)) is type(import_module(name)) is PostponedModule


def test_first_use_executes_the_real_module(name: str) -> None:
    postponed = import_module(name)
    value = postponed.value
    assert type(sys.modules[name]) is not PostponedModule
    assert value is postponed.value is import_module(name).value


def test_missing_attribute_is_an_attribute_error(name: str) -> None:
    postponed = import_module(name)
    for _ in range(2):
        with pytest.raises(AttributeError, match="no_such_name"):
            _ = postponed.no_such_name


def test_threads_that_use_a_module_at_once_get_the_same_values(name: str) -> None:
    postponed, found = import_module(name), []
    threads = [threading.Thread(target=lambda: found.append(postponed.value)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(found) == {sys.modules[name].value}
    assert len(found) == 8


def test_an_imported_module_is_not_postponed() -> None:
    before = sys.modules["threading"]
    postpone("threading")
    assert sys.modules["threading"] is before
