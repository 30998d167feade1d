"""Tests of the benchmarks: they run, and the page shows the last results. No test asserts a time."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from places import ROOT

from benchmarks import fsyncs, page, realistic, results
from benchmarks.figures import Curve, Found, Line, Plot, Spread, Table
from benchmarks.peers import MODULES, PEERS, Peer
from benchmarks.peers.frameworks import FRAMEWORKS
from benchmarks.results import Results
from benchmarks.rows import ROWS, frameworks
from benchmarks.workshop import Workshop
from gitsession import Store
from gitsession.git.ref_files import RefReader

DOCS = ROOT / "docs"
ONE = Spread(1.0, 1.0, 1.0)


def run(*arguments: str) -> str:
    command = [sys.executable, "-m", "benchmarks", "--size", "tiny", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def line(least: float, median: float, most: float, *, bar: float | None = 2.0) -> Line:
    return Line("ours", "a peer", bar, Spread(median, least, most), 1.0, 1.0)


def holding(*lines: Line) -> Results:
    return Results("a machine", ["python 3"], "some files", {"disk": Found("tiny", "2026-01-01", lines)})


# ---- measurements


def test_row_runs_and_its_results_are_in_the_table_the_page_and_the_plots(tmp_path: Path) -> None:
    table = run("--only", "disk", "--only", "fork", "--write", "--docs", str(tmp_path))
    written = (tmp_path / "benchmarks.md").read_text()
    for words in ("after maintain", "copy of the file", "the source files"):
        assert words in table
        assert words in written
    assert {path.name for path in (tmp_path / "benchmarks").iterdir()} == {"results.json", "bars.svg", "fork.svg"}


def test_single_row_keeps_other_results_and_written_text(tmp_path: Path) -> None:
    shutil.copytree(DOCS, tmp_path / "docs")
    docs = tmp_path / "docs"
    known = results.load(docs / "benchmarks/results.json")
    before = known.found
    text = (docs / "benchmarks.md").read_text()
    (docs / "benchmarks.md").write_text(text.replace(page.BEGIN, f"{page.BEGIN}\nBecause of the moon."))
    run("--only", "disk", "--write", "--docs", str(docs))
    made = results.load(docs / "benchmarks/results.json")
    after = made.found
    assert [name for name in ROWS if after.get(name) != before.get(name)] == ["disk"]
    assert (made.machine, made.versions, made.data) == (known.machine, known.versions, known.data)
    assert after["disk"].machine
    assert "Because of the moon." in (docs / "benchmarks.md").read_text()


@pytest.mark.parametrize("name", ROWS)
def test_every_row_has_a_title_and_a_description(name: str) -> None:
    assert ROWS[name].TITLE
    assert ROWS[name].__doc__


@pytest.mark.parametrize("name", ROWS)
def test_every_row_runs(name: str, tmp_path: Path) -> None:
    assert list(ROWS[name].measure(Workshop(tmp_path, "tiny", 1)))


def test_every_framework_is_in_the_table() -> None:
    here = {path.stem for path in (ROOT / "benchmarks/peers/frameworks").glob("*.py")} - {"__init__", "framework"}
    assert {each.ours.__module__.rpartition(".")[2] for each in FRAMEWORKS} == here


def test_a_framework_that_is_not_installed_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = dataclasses.replace(FRAMEWORKS[0], needs=("pygit2", "no-such-distribution"))
    monkeypatch.setattr(frameworks, "FRAMEWORKS", [absent])
    [line] = frameworks.measure(Workshop(tmp_path, "tiny", 1))
    assert isinstance(line, Line) and line.verdict == "not installed: no-such-distribution"


def test_every_module_of_a_peer_is_in_the_table() -> None:
    here = {path.stem for path in (ROOT / "benchmarks/peers").glob("*.py")} - {"__init__", "peer", "ours"}
    assert {module.__name__.rpartition(".")[2] for module in MODULES} == here


def test_the_fsyncs_of_a_flush_are_counted() -> None:
    few, many = fsyncs.of_flush(1), fsyncs.of_flush(3)
    if few is None or many is None:
        pytest.skip("counting wants Linux and a C compiler")
    assert (few, many - few) == (7 + 2, 2 * 2)


def test_missing_peer_has_no_version() -> None:
    assert Peer("nobody", PEERS["JSONL and fdatasync"].open, needs="no-such-distribution").version is None


# ---- generated stores


def test_a_generated_store_is_valid_and_looks_like_one_that_grew(tmp_path: Path) -> None:
    entries = realistic.fill(tmp_path / "store.git", 1_000, longest=3)
    with Store.open(tmp_path / "store.git") as store:
        report, rows, operations = store.verify(), store.sessions(), store.operations()
    loose = RefReader(tmp_path / "store.git").list_loose("refs/")
    assert not report.problems
    assert len(rows) == len(operations) == 1_000
    assert sum(row.entries for row in rows) < entries
    assert len({row.agent for row in rows}) == len(realistic.AGENTS)
    assert len({row.project for row in rows}) > 30
    assert max(len(row.branches) for row in rows) == 18
    assert rows[0].updated_ms - rows[-1].updated_ms > 300 * 86_400_000
    assert len(loose) < 32, "maintenance packs the refs if there are many"
    assert len(list((tmp_path / "store.git/objects/pack").glob("*.pack"))) <= 2


def test_the_same_seed_generates_the_same_entries(tmp_path: Path) -> None:
    made = []
    for name, seed in (("one", 0), ("same", 0), ("other", 1)):
        realistic.fill(tmp_path / name, 3, longest=3, seed=seed)
        with Store.open(tmp_path / name) as store:
            made.append(store.objects.refs("refs/"))
    assert made[0] == made[1] != made[2]


# ---- figures


VERDICTS = {
    "every run under the bar": (line(1.0, 1.5, 2.0), "holds"),
    "one run over it": (line(1.0, 1.5, 2.1), "holds in the median only"),
    "the median over it": (line(1.0, 2.1, 2.5), "misses"),
    "nothing promised": (line(1.0, 2.1, 2.5, bar=None), ""),
    "not installed": (Line("ours", "a peer", 2.0, why="not installed"), "not installed"),
}


@pytest.mark.parametrize(("found", "verdict"), VERDICTS.values(), ids=VERDICTS)
def test_bar_holds_if_every_run_does(found: Line, verdict: str) -> None:
    assert found.verdict == verdict


def test_missing_peer_is_listed_without_a_bar() -> None:
    written = page.render(holding(Line("append", "somebody", 1.0, why="not installed")), "", {})
    assert "**Not measured**:\n\n- append, against somebody: not installed" in written
    assert "**Holds**" not in written


def test_results_are_loaded_as_saved(tmp_path: Path) -> None:
    plot = Plot("p", "A plot", "x", "y", [Curve("a", [[1, 2.0], [10, 3.0]])])
    found = Found("tiny", "2026-01-01", [line(1.0, 1.5, 2.0), Line("b", "c")], [Table("t", ["h"], [["c"]])], [plot])
    kept = Results("a machine", ["python 3"], "some files", {"disk": found})
    results.save(tmp_path / "benchmarks/results.json", kept)
    assert results.load(tmp_path / "benchmarks/results.json") == kept


def test_ratios_of_an_earlier_run_are_beside_the_new_ones(tmp_path: Path) -> None:
    results.save_before(tmp_path, holding(line(1.0, 3.25, 4.0), Line("not measured", "a peer")))
    new = holding(line(1.0, 1.5, 2.0), Line("new", "a peer", 2.0, ONE))
    rows = [row.split(" | ") for row in page.render(new, "", results.load_before(tmp_path)).splitlines()]
    shown = {row[0]: (row[2], row[-1]) for row in rows if row[1:2] == ["a peer"]}
    assert shown == {"| ours": ("1.50x (1.00–2.00)", "3.25x |"), "| new": ("1.00x", " |")}


# ---- files in the repository


def test_the_page_has_every_row_and_no_other() -> None:
    assert set(results.load(DOCS / "benchmarks/results.json").found) == set(ROWS)


def test_page_is_generated_from_its_results() -> None:
    written = DOCS / "benchmarks.md"
    found, before = results.load(DOCS / "benchmarks/results.json"), results.load_before(DOCS / "benchmarks")
    assert written.read_text() == page.render(found, page.by_hand(written), before)


def test_plots_are_generated_from_the_results() -> None:
    drawn = {path.name: path.read_text() for path in (DOCS / "benchmarks").glob("*.svg")}
    assert drawn == page.plots(results.load(DOCS / "benchmarks/results.json"))


@pytest.mark.parametrize("path", sorted((DOCS / "benchmarks").glob("*.svg")), ids=lambda path: path.name)
def test_a_plot_is_small_well_formed_and_runs_nothing(path: Path) -> None:
    found = {element.tag.rpartition("}")[2] for element in ElementTree.parse(path).iter()}
    assert "text" in found
    assert not found & {"script", "image", "foreignObject", "use", "a"}
    assert path.stat().st_size < 30_000


def test_text_in_a_plot_is_escaped() -> None:
    drawn = page.plots(holding(Line('a < b & "c"', "<script>", 2.0, ONE, 1.0, 1.0)))["bars.svg"]
    assert 'a < b & "c" : <script>' in {element.text for element in ElementTree.fromstring(drawn).iter()}
