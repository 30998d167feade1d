"""Command ``python -m benchmarks``: print a table; with ``--write``, update docs/benchmarks.md and its plots."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import data, machine, page, results, table, words
from benchmarks.figures import Found, Line, Plot, Table
from benchmarks.rows import ROWS
from benchmarks.workshop import SIZES, Workshop

DOCS = Path(__file__).resolve().parents[1] / "docs"
WIDTHS = (46, 40, 22, 8, 13, 13, 8)


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    if asked.keep:
        results.save_before(asked.docs / "benchmarks", results.load(asked.docs / "benchmarks/results.json"))
    size = "quick" if asked.quick else asked.size
    path = asked.docs / "benchmarks/results.json"
    known = results.load(path) if asked.write else None
    found: dict[str, Found] = {}
    with tempfile.TemporaryDirectory(prefix="gitsession-bench-", dir=asked.place) as place:
        runs = asked.rounds or {"tiny": 1, "quick": 2, "full": 3}[size]
        shop = Workshop(Path(place), size, runs, asked.sessions)
        where = machine.told(shop.place)
        print(table.console([words.HEAD], WIDTHS), flush=True)
        for name in asked.only or ROWS:
            began = time.monotonic()
            found[name] = _measured(name, shop)
            print(f"-- {name}: {time.monotonic() - began:.0f} s", flush=True)
            shop.tidy()
            if known is not None:  # after each row, so that an interrupted run keeps its results
                results.save(path, _merged(known, found, where))
    if asked.write:
        page.write(asked.docs, results.load(path))
    return 0


def _merged(known: results.Results, found: Mapping[str, Found], where: str) -> results.Results:
    """Return ``known``, updated with the new results ``found``.

    The description of the run is replaced only if all rows were run.
    """
    if found.keys() >= known.found.keys():
        return results.Results(where, machine.versions(), data.provenance(), dict(found))
    measured = {name: dataclasses.replace(row, machine=where) for name, row in found.items()}
    rows = {name: row for name, row in (known.found | measured).items() if name in ROWS}
    return dataclasses.replace(known, found=rows)


def _measured(name: str, shop: Workshop) -> Found:
    found = Found(shop.size, datetime.date.today().isoformat(), [], [], [])
    for each in ROWS[name].measure(shop):
        match each:
            case Line():
                found.lines.append(each)
                print(table.console([words.columns(each)], WIDTHS), flush=True)
            case Table():
                found.tables.append(each)
                widths = [max(map(len, column)) for column in zip(each.head, *each.rows, strict=True)]
                print(table.console([[each.title, *[""] * (len(widths) - 1)], each.head, *each.rows], widths))
            case Plot():
                found.plots.append(each)
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="What gitsession costs, beside its peers."
    )
    parser.add_argument("--quick", action="store_true", help="smaller and fewer: two minutes")
    parser.add_argument("--size", choices=SIZES, default="full", help="tiny only shows that a row runs")
    parser.add_argument(
        "--only", action="append", choices=ROWS, metavar="ROW", help=f"of {', '.join(ROWS)}; repeatable"
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="runs of each comparison (quick: 2, full: 3)")
    parser.add_argument("--sessions", type=int, metavar="N", help="sessions of the rows scale and views")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md and its plots")
    parser.add_argument(
        "--keep", action="store_true", help="first keep the ratios of the page, for its column `before`"
    )
    parser.add_argument("--docs", type=Path, default=DOCS, help="where to, other than docs/")
    parser.add_argument("--place", type=Path, help="a folder on the disk to measure, other than the temporary one")
    return parser


if __name__ == "__main__":
    sys.exit(main())
