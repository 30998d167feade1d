"""Tables for a terminal and for the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def console(rows: Iterable[Sequence[str]], widths: Sequence[int]) -> str:
    """Return one line per row, with columns of at least the given widths."""
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)
