"""Tests of the output for damaged stores: complete sentences, sorted, limited in number, with the repair command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import Clock, bring, pi_file, talk
from damage import flipped, replace_file, without, zeroed

from gitsession.api import Store
from gitsession.api.agents import AgentSessions
from gitsession.cli import exits
from gitsession.cli.app import run
from gitsession.errors import Unavailable

ENTRIES = 41


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "store.git"
    with Store.create(made, clock=Clock()) as store:
        bring(store.objects, pi_file(*talk(*(f"question {n}" for n in range(ENTRIES - 1)))))
        store.sessions()
    monkeypatch.setenv("GITSESSION_DIR", str(made))
    return made


def largest(path: Path, pattern: str) -> Path:
    return max(path.glob(pattern), key=lambda file: file.stat().st_size)


GLANCED: dict[str, Callable[[Path], object]] = {
    "an index that is gone": lambda path: largest(path, "objects/pack/*.idx").unlink(),
    "an index that is empty": lambda path: replace_file(largest(path, "objects/pack/*.idx"), b""),
    "a pack that is gone": lambda path: largest(path, "objects/pack/*.pack").unlink(),
    "a pack that is empty": lambda path: replace_file(largest(path, "objects/pack/*.pack"), b""),
    "a pack that is cut short": lambda path: cut(largest(path, "objects/pack/*.pack")),
    "a ref of zeros": lambda path: replace_file(next(path.glob("refs/heads/sessions/*/main")), bytes(41)),
    "a ref to nothing": lambda path: replace_file(next(path.glob("refs/heads/sessions/*/main")), b"a" * 40 + b"\n"),
}


def cut(file: Path) -> None:
    replace_file(file, file.read_bytes()[:-100])


@pytest.mark.parametrize("hurt", GLANCED.values(), ids=GLANCED)
def test_doctor_sees_it_without_reading_everything(
    path: Path, capfd: pytest.CaptureFixture[str], hurt: Callable[[Path], object]
) -> None:
    assert "!!" not in (run(["doctor"]), capfd.readouterr().out)[1]
    hurt(path)
    assert run(["doctor"]) == exits.INTEGRITY
    told = capfd.readouterr().out
    assert "!!" in told
    assert "`gitsession repair`" in told
    assert "b'" not in told


def test_maintain_names_a_damaged_pack_and_the_repair_command(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with Store.open(path, clock=Clock()) as store:  # a second pack like the first, so that git merges them
        bring(store.objects, pi_file(*talk(*(f"other {n}" for n in range(ENTRIES - 1))), id="other"))
    file = largest(path, "objects/pack/*.pack")
    replace_file(file, zeroed(file.read_bytes(), file.stat().st_size // 3))
    assert run(["maintain"]) == exits.INTEGRITY
    told = capfd.readouterr().err
    assert f"'objects/pack/{file.name}' is damaged: wrong checksum" in told
    assert "`gitsession repair`" in told


def test_an_entry_in_a_damaged_pack_is_an_error_in_words(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = largest(path, "objects/pack/*.pack")
    whole = file.read_bytes()
    for change in (whole[: len(whole) // 4], zeroed(whole, 12, len(whole) - 32), flipped(whole, 8 * 200)):
        replace_file(file, change)
        for words in (["show", "@@leaf"], ["show", "@@leaf", "--json"], ["log", "@"]):
            run(words)
            told = "".join(capfd.readouterr())
            assert "out of range" not in told
            assert "Error -" not in told


@pytest.fixture
def half(path: Path) -> Path:
    """Delete the trees of many entries."""
    with Store.open(path) as store:
        [row] = store.sessions()
        lost = [node.tree for node in store.session(row.sid).history()[1:31]]
    without(path, *lost)
    return path


def test_verify_counts_by_session_and_shows_some_of_many_problems(
    half: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["verify"]) == exits.INTEGRITY
    lines = capfd.readouterr().out.splitlines()
    assert "about 30 of 41 entries of 'words of question 0' are damaged" in lines[0]
    assert len(lines) < 50
    assert any("more like these" in line for line in lines)
    fsck = [number for number, line in enumerate(lines) if line.startswith("git fsck")]
    assert min(fsck) > max(number for number, line in enumerate(lines) if line.startswith("session "))
    assert len({lines[number] for number in fsck}) == len(fsck)
    assert run(["verify", "--all"]) == exits.INTEGRITY
    assert len(capfd.readouterr().out.splitlines()) > 60
    assert run(["verify", "--json"]) == exits.INTEGRITY
    assert len(json.loads(capfd.readouterr().out)["problems"]) > 60


def test_repair_counts_missing_objects_by_session(half: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["repair"]) == exits.INTEGRITY
    told = capfd.readouterr().out
    sid = next(half.glob("refs/heads/sessions/*")).name
    assert f"still missing: 30 objects of 30 entries of {sid}" in told
    assert "... and 10 more" in told


@pytest.mark.parametrize("how", [["session.jsonl"], ["session.jsonl", "--json"]], ids=["words", "JSON"])
def test_an_import_on_a_full_disk_may_be_tried_again(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: list[str]
) -> None:
    (tmp_path / "session.jsonl").write_bytes(pi_file(*talk("x", "y"), id="another"))
    monkeypatch.chdir(tmp_path)

    def full(*_: object, **__: object) -> None:
        raise Unavailable("cannot write: No space left on device")

    monkeypatch.setattr(AgentSessions, "import_session", full)
    assert run(["import", *how]) == exits.TRY_AGAIN
