"""Compare the size of a store after ``maintain`` with that of the imported session files.

The size of a store is that of pack, index and reverse index. Before ``maintain``, an import is
one pack without deltas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.figures import Line, Spread
from benchmarks.workshop import Workshop, bring_all
from gitsession import Store

TITLE = "Disk"

TOTAL_BAR, FILE_BAR = 0.6, 1.0
FILE_BYTES_MIN, LINE_BYTES_MIN = 100_000, 500


def measure(shop: Workshop) -> Iterator[Line]:
    taken = shop.files()
    before, after = _sizes(shop, taken)
    source = sum(map(len, taken.values()))
    yield _line(f"{len(taken)} files, before maintain", before, source)
    yield _line(f"{len(taken)} files, after maintain", after, source, TOTAL_BAR)
    for path, data in taken.items():
        each = len(data) / max(data.count(b"\n"), 1)
        if len(data) >= FILE_BYTES_MIN:
            bar = FILE_BAR if each >= LINE_BYTES_MIN else None
            yield _line(
                f"{path.parent.name}/{path.name}, {each:.0f} B a line", _sizes(shop, {path: data})[1], len(data), bar
            )


def _line(what: str, ours: float, theirs: float, bar: float | None = None) -> Line:
    ratio = ours / theirs
    return Line(what, "the source files", bar, Spread(ratio, ratio, ratio), ours, theirs, "bytes")


def _sizes(shop: Workshop, taken: Mapping[Path, bytes]) -> tuple[int, int]:
    """Return the sizes before and after ``maintain``, in bytes."""
    path = shop.folder() / "store.git"
    with Store.create(path) as store:
        bring_all(store, taken)
        store.flush()
        before = _packs(path)
        store.maintain()
    return before, _packs(path)


def _packs(store: Path) -> int:
    return sum(file.stat().st_size for file in (store / "objects/pack").iterdir())
