"""Tests of unreadable files: they are not damage; the error suggests `chmod`, and no file is moved."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import Clock, bring, pi_file, talk

from gitsession.api import Store
from gitsession.cli import exits
from gitsession.cli.app import run
from gitsession.errors import Unavailable

PATTERNS = {
    "a pack": "objects/pack/*.pack",
    "an index": "objects/pack/*.idx",
    "the folder of the packs": "objects/pack",
    "a ref": "refs/heads/sessions/*/main",
    "the refs of one session": "refs/heads/sessions/*",
    "the journal": "gitsession/journal/*",
}

Deny = Callable[[Path], None]


@pytest.fixture
def deny(monkeypatch: pytest.MonkeyPatch) -> Iterator[Deny]:
    """Make a path unreadable. For the superuser, who ignores permissions, the functions that read it are patched."""
    denied: set[str] = set()
    for name in ("open", "scandir", "listdir"):
        real = getattr(os, name)

        def asked(path: Any, *rest: Any, real: Any = real, **named: Any) -> Any:
            if str(path) in denied:
                raise PermissionError(13, "Permission denied", str(path))
            return real(path, *rest, **named)

        monkeypatch.setattr(os, name, asked)
    yield lambda path: denied.add(str(path))


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "store.git"
    with Store.create(made, clock=Clock()) as store:
        bring(store.objects, pi_file(*talk("a", "b", "c")))
    monkeypatch.setenv("GITSESSION_DIR", str(made))
    return made


def files(path: Path) -> set[str]:
    return {str(file) for file in path.rglob("*") if "index.db" not in file.name}


@pytest.mark.promise("P24")
@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
@pytest.mark.parametrize("command", ["repair", "verify"])
def test_unreadable_file_is_named_with_its_chmod_and_no_file_is_moved(
    path: Path, deny: Deny, capfd: pytest.CaptureFixture[str], faults: Any, command: str, pattern: str
) -> None:
    hidden = sorted(path.glob(pattern))[0]
    deny(hidden)
    before = files(path)
    with faults.one():
        assert run([command]) == exits.TRY_AGAIN
        told = capfd.readouterr().err
        assert f"cannot read '{hidden}': permission denied" in told
        assert f"chmod u+r{'wx' if hidden.is_dir() else ''} {hidden}" in told
        assert files(path) == before


def test_unreadable_folder_of_refs_is_not_a_missing_session(path: Path, deny: Deny) -> None:
    folder = next(path.glob("refs/heads/sessions/*"))
    deny(folder)
    with Store.open(path, flush_on_close=False) as store, pytest.raises(Unavailable, match="cannot read") as error:
        store.sessions()
    assert str(folder) in error.value.hint
