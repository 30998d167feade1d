"""Tests of generated pages: each page is up to date, and each error message gives the user a next step."""

from __future__ import annotations

import importlib.util
import re
import sys
from types import ModuleType

import pytest
from places import ROOT

import gitsession
from gitsession.cli.app import COMMANDS


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / f"docs/reference/{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["errors", "library", "mcp", "rpc"])
def test_generated_page_is_up_to_date(name: str) -> None:
    written = (ROOT / f"docs/reference/{name}.md").read_text(encoding="utf-8")
    assert written == script(f"make_{name}").page(), f"run python docs/reference/make_{name}.py"


def test_the_library_page_has_every_public_name_once() -> None:
    names = [name for chapter in script("make_library").chapters().values() for name in chapter]
    assert sorted([*names, "__version__"]) == sorted(gitsession.__all__)


def test_message_and_hint_are_one_line_each_without_a_period() -> None:
    words = [text for one in script("make_errors").messages() for text in (one.text, one.hint)]
    assert [text for text in words if "\n" in text or (text.endswith(".") and not text.endswith("..."))] == []


def test_no_message_names_a_command_that_does_not_exist() -> None:
    found = script("make_errors").messages()
    named = {word for one in found for word in re.findall(r"`gitsession ([a-z-]+)", f"{one.text} {one.hint}")}
    assert named
    assert named <= COMMANDS.keys()
