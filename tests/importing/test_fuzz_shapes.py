"""Tests that the work of an import grows linearly for unusual sessions. They count calls instead of time."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path

import codex_files
import pytest
from builders import pi_file, said
from growth import assert_in_step, calls_of

from gitsession.cli import app as command_line
from gitsession.discovery import sources
from gitsession.formats import FORMATS
from gitsession.importing.import_session import import_source
from gitsession.store.memory import MemoryStore

SHAPES: dict[str, Callable[[int], bytes]] = {
    "all below one": lambda count: pi_file(said("r", None), *[said(f"m{n}", "r") for n in range(count)]),
    "every one a root": lambda count: pi_file(*[said(f"m{n}", None) for n in range(count)]),
    "one id": lambda count: pi_file(*[said("x", "x") for _ in range(count)]),
    "each below the next": lambda count: pi_file(*[said(f"m{n}", f"m{n + 1}") for n in range(count)]),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_session_of_an_unusual_shape_is_imported_in_linear_time(shape: Callable[[int], bytes]) -> None:
    def work(count: int) -> int:
        data = shape(count)
        return calls_of(lambda: import_source(MemoryStore(), FORMATS["pi"], FORMATS["pi"].split(data, name="n")))

    assert_in_step(work)


def test_forks_before_their_bases_are_read_at_most_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 12
    for n in range(count):
        base = {"history_base": {"thread_id": _thread(n - 1), "end_ordinal_exclusive": 2 * n}} if n else {}
        data = codex_files.rollout(codex_files.said("user", "hi"), thread=_thread(n), first=2 * n, **base)
        (tmp_path / f"rollout-{count - n:02}.jsonl").write_bytes(data)
    looked: list[Path] = []
    at = sources.at
    monkeypatch.setattr(sources, "at", lambda path, *rest, **more: looked.append(path) or at(path, *rest, **more))
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.redirect_stdout(out):
        assert command_line.run(["--store", str(tmp_path / "store.git"), "import", str(tmp_path), "--json"]) == 0
    assert len(json.loads(out.buffer.getvalue())["sessions"]) == count
    assert len(looked) <= 2 * count


def _thread(number: int) -> str:
    return f"01a1ffd1-326d-7a00-aa58-{number:012x}"
