"""Generator of docs/benchmarks.md and its plots from the results. The text between the markers is kept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks import plot, table, words
from benchmarks.figures import Found, Line
from benchmarks.results import Before, Results, load_before
from benchmarks.rows import ROWS, Row

BEGIN, END = "<!-- written by hand: begin -->", "<!-- written by hand: end -->"

HEAD = """# Benchmarks

This page shows what each operation of gitsession costs, compared with a peer in the same run.
`python -m benchmarks` generates it, except the section on missed bars.

```sh
.venv/bin/pip install -e '.[bench]'      # the peers; a missing one is shown as "not installed"
.venv/bin/python -m benchmarks --quick   # two minutes
.venv/bin/python -m benchmarks --write   # all rows, into this page
```

gitsession and the peer run in turn, so that a slow moment of the machine affects both. A ratio is
gitsession (*ours*) divided by the peer (*theirs*), so less is better: the median of several runs,
then the lowest and the highest; *before* is the median of the previous version on the same machine.
A bar is the highest accepted ratio; it *holds* if no run is above it.
Absolute times on a shared machine say little, and an fsync on a virtual disk is nearly free, so
fsyncs are counted too.
"""


def render(results: Results, by_hand: str, before: Before) -> str:
    """Return the whole page.

    Args:
        results: Results of the benchmarks.
        by_hand: Text between the markers.
        before: Ratios of an earlier run.
    """
    parts = [HEAD, *_where(results), *_at_a_glance(results)]
    parts.append(f"## Missed bars\n\n{BEGIN}\n{by_hand}{END}\n")
    for name, row in ROWS.items():
        if name in results.found:
            parts += _section(row, results.found[name], before.get(name, {}))
    return "\n".join(parts)


def plots(results: Results) -> dict[str, str]:
    """Return the plots as SVG, by file name."""
    found = {f"{each.name}.svg": plot.curves(each) for row in results.found.values() for each in row.plots}
    rows = [(line.name, line.ratio.median / line.bar) for line in _barred(results) if line.ratio]
    return {"bars.svg": plot.bars("Ratio by its bar: less than 1 holds", [_fit(row) for row in rows])} | found


def write(docs: Path, results: Results) -> None:
    """Write the page and its plots below ``docs``, and delete plots without results."""
    page, folder = docs / "benchmarks.md", docs / "benchmarks"
    page.write_text(render(results, by_hand(page), load_before(folder)))
    drawn = plots(results)
    for old in folder.glob("*.svg"):
        if old.name not in drawn:
            old.unlink()
    for name, text in drawn.items():
        (folder / name).write_text(text)


def by_hand(page: Path) -> str:
    """Return the text between the markers of a page."""
    found = re.search(f"{BEGIN}\n(.*?){END}", page.read_text(), re.DOTALL) if page.exists() else None
    return found.group(1) if found else ""


def _where(results: Results) -> Iterator[str]:
    yield f"Measured on {results.machine}. {', '.join(results.versions)}.\n"
    yield f"Data: {results.data}.\n"


def _at_a_glance(results: Results) -> Iterator[str]:
    barred = _barred(results)
    yield "## At a glance\n"
    for verdict in ("misses", "holds in the median only", "holds"):
        lines = [line for line in barred if line.verdict == verdict]
        if lines:
            yield f"**{verdict.capitalize()}** ({len(lines)}):\n"
            yield "".join(f"- {_sentence(line)}\n" for line in lines)
    missing = [line for line in barred if line.ratio is None]
    if missing:
        yield "**Not measured**:\n"
        yield "".join(f"- {line.what}, against {line.peer}: {line.why}\n" for line in missing)
    yield "![each ratio by its bar](benchmarks/bars.svg)\n"


def _sentence(line: Line) -> str:
    assert line.ratio is not None
    return f"{line.what}: {words.ratio(line.ratio)} of {line.peer}, bar {words.bar(line.bar)}"


def _section(row: Row, found: Found, before: Mapping[str, float]) -> Iterator[str]:
    yield f"## {row.TITLE}\n"
    yield f"{(row.__doc__ or '').strip()}\n"
    where = f", on {found.machine}" if found.machine else ""
    yield f"Measured on {found.date}, size {found.size}{where}.\n"
    rows = [
        [*words.columns(line), words.times(before[name]) if (name := line.name) in before else ""]
        for line in found.lines
    ]
    yield table.markdown((*words.HEAD, "before"), rows)
    for each in found.tables:
        yield f"{each.title}:\n"
        yield table.markdown(each.head, each.rows)
    for each in found.plots:
        yield f"![{each.title}](benchmarks/{each.name}.svg)\n"


def _barred(results: Results) -> list[Line]:
    return [line for name in ROWS if name in results.found for line in results.found[name].lines if line.bar]


def _fit(row: tuple[str, float]) -> tuple[str, float]:
    return (row[0] if len(row[0]) <= 62 else f"{row[0][:61]}…", row[1])
