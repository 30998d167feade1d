"""Tests of the scripts that make the pictures of the docs: they run, and what they make is small and is used."""

from __future__ import annotations

import base64
import importlib
import re
import shutil
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest
from browsers import Browser, browser
from places import ROOT

__all__ = ["browser"]

IMAGES = ROOT / "docs/images"
BYTES_MAX = 200_000


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[ModuleType, ModuleType]:
    """Return the scripts, with a project in another folder."""
    monkeypatch.syspath_prepend(IMAGES)
    terminal, web = importlib.import_module("make_terminal"), importlib.import_module("make_web")
    for script in (terminal, web):
        monkeypatch.setattr(script, "SHOP", tmp_path / "shop")
    return terminal, web


def test_terminal_shows_the_output_of_commands(scripts: tuple[ModuleType, ModuleType], tmp_path: Path) -> None:
    lines = scripts[0].transcript(scripts[0].sample_store(tmp_path / "home"))
    assert [line for line in lines if line.startswith("$")] == [
        f"$ gitsession {' '.join(words)}" for words in scripts[0].SHOWN
    ]
    picture = ElementTree.fromstring(scripts[0].svg(lines))
    assert "Fix the login redirect" in "".join(picture.itertext())


def test_web_pictures_are_small(browser: Browser, scripts: tuple[ModuleType, ModuleType], tmp_path: Path) -> None:
    found = dict(scripts[1].pictures(browser.driver, tmp_path / "home"))
    assert found.keys() == scripts[1].PICTURES.keys()
    for picture in found.values():
        assert len(picture) < BYTES_MAX
        [image] = ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}image")
        assert base64.b64decode(image.attrib["href"].partition(",")[2])[8:12] == b"WEBP"
    assert browser.problems() == []
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize("path", sorted(IMAGES.glob("*.svg")), ids=lambda path: path.name)
def test_picture_is_small_and_used(path: Path) -> None:
    assert path.stat().st_size < BYTES_MAX
    ElementTree.parse(path)
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if re.search(rf"!\[[^\]]{{20,}}\]\([\w./-]*images/{path.name}\)", page.read_text())]
