"""Tests of the path of the store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from gitsession import Unavailable
from gitsession.paths import store_path


def path_of(path: str | None, environ: Mapping[str, str] | None = None, home: str = "/home/me") -> str:
    return store_path(path, environ or {}, home, lambda _: None)


def test_absolute_path_needs_no_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    assert path_of("s.git") == f"{tmp_path}/gone/s.git"
    os.rmdir(tmp_path / "gone")
    assert path_of("/work/s.git") == path_of(None, {"GITSESSION_DIR": "/work/s.git"}) == "/work/s.git"
    assert path_of(None) == "/home/me/.local/share/gitsession/store.git"


@pytest.mark.parametrize("path", [None, "~no-such-user/s.git"])
def test_unknown_home_directory_is_an_error(path: str | None) -> None:
    with pytest.raises(Unavailable, match="the home directory is unknown"):
        path_of(path, home="~")  # as returned by ``expanduser``
