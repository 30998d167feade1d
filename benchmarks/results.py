"""The last results by row in docs/benchmarks/results.json, which is the only input for the page and the plots."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.figures import Curve, Found, Line, Plot, Spread, Table

BEFORE = "before.json"

Before: TypeAlias = Mapping[str, Mapping[str, float]]
"""The median ratios of an earlier run, by row and name of the comparison."""


@dataclass(slots=True)
class Results:
    """The results of all rows.

    ``machine``, ``versions`` and ``data`` describe the last run of all rows. ``found`` has the results by row.
    """

    machine: str = ""
    versions: Sequence[str] = ()
    data: str = ""
    found: dict[str, Found] = field(default_factory=dict)


def load(path: Path) -> Results:
    """Return the saved results, or empty ones if there is no file."""
    if not path.exists():
        return Results()
    raw = json.loads(path.read_text())
    found = {name: _found(row) for name, row in raw["found"].items()}
    return Results(raw["machine"], raw["versions"], raw["data"], found)


def load_before(folder: Path) -> Before:
    """Return the ratios that ``save_before`` saved, or none."""
    path = folder / BEFORE
    return json.loads(path.read_text()) if path.exists() else {}


def save_before(folder: Path, results: Results) -> None:
    """Save the ratios of ``results`` for the column *before* of later pages."""
    medians = {
        name: {line.name: line.ratio.median for line in row.lines if line.ratio} for name, row in results.found.items()
    }
    _write(folder / BEFORE, medians)


def save(path: Path, results: Results) -> None:
    path.parent.mkdir(exist_ok=True)
    _write(path, dataclasses.asdict(results))


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(_rounded(value), indent=1, ensure_ascii=False) + "\n")


def _rounded(value: Any) -> Any:
    """Round to four significant digits, so that diffs of the file are readable."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list | tuple) else value


def _found(raw: dict[str, Any]) -> Found:
    lines = [Line(**{**line, "ratio": line["ratio"] and Spread(**line["ratio"])}) for line in raw["lines"]]
    plots = [Plot(**{**plot, "curves": [Curve(**curve) for curve in plot["curves"]]}) for plot in raw["plots"]]
    tables = [Table(**table) for table in raw["tables"]]
    return Found(raw["size"], raw["date"], lines, tables, plots, raw.get("machine", ""))
