"""`python -m benchmarks.deep [promise ...] [--minutes N] [--seed N] [--write]`: a line for each module that was run."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import time
import traceback
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from _pytest.outcomes import Skipped

TOLD_MAX = 5
PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "reliability.md"
BEGIN, END = "<!-- deep -->", "<!-- /deep -->"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.deep", description="Faults injected for hours")
    parser.add_argument("promises", nargs="*", metavar="promise", help="P1, P2 ...; all without any")
    parser.add_argument("--minutes", type=float, default=60.0, help="for all together (60)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="put the results into docs/explanation/reliability.md")
    given = parser.parse_args()
    wanted = {name.upper() for name in given.promises}
    modules = [module for module in found() if not wanted or wanted & set(module.PROMISES)]
    print(f"{'promises':16} {'injected':>9} {'survived':>9} {'seconds':>8}")
    rows = []
    for number, module in enumerate(modules):
        left = given.minutes * 60 - spent()
        rows.append(run(module, given.seed, seconds=max(1.0, left / (len(modules) - number))))
    if given.write:
        write(rows)
    return 0 if all(row.injected == row.survived for row in rows) else 1


class Row(NamedTuple):
    promises: str
    what: str
    injected: int
    survived: int
    seconds: float
    why: str


def write(rows: list[Row]) -> None:
    """Write the results between the markers of the page."""
    lines = ["| promises | how | injected | survived | seconds | |", "|---|---|---|---|---|---|"]
    for row in rows:
        counts = f"{row.injected:,} | {row.survived:,} | {row.seconds:.0f}"
        lines.append(f"| {row.promises} | {row.what} | {counts} | {row.why} |")
    before, _, rest = PAGE.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    today = time.strftime("%Y-%m-%d")
    PAGE.write_text(f"{before}{BEGIN}\nOn {today}:\n\n" + "\n".join(lines) + f"\n{END}{after}")


def found() -> list[ModuleType]:
    """Return the modules of this folder that inject faults, sorted by name."""
    names = sorted(module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    modules = [importlib.import_module(f"benchmarks.deep.{name}") for name in names if not name.startswith("_")]
    return [module for module in modules if hasattr(module, "faults")]


def run(module: ModuleType, seed: int, *, seconds: float) -> Row:
    """Inject faults until the time is over or all faults were injected."""
    start = time.monotonic()
    injected = survived = 0
    told: list[str] = []
    why = ""
    faults = module.faults(seed)
    try:
        while time.monotonic() - start < seconds:
            fault = next(faults)
            try:
                count = fault() or 1
                survived += count
            except Skipped:
                raise
            except Exception:
                count = 1
                told.append(traceback.format_exc())
            injected += count
    except StopIteration:
        why = "all there are"
    except Skipped as reason:
        why = str(reason)
    finally:
        faults.close()
    what = (module.__doc__ or "").partition("\n")[0].rstrip(".")
    row = Row(" ".join(module.PROMISES), what, injected, survived, time.monotonic() - start, why)
    print(f"{row.promises:16} {injected:9} {survived:9} {row.seconds:8.0f}  {why}", flush=True)
    for text in islice(told, TOLD_MAX):
        print(text)
    return row


_STARTED = time.monotonic()


def spent() -> float:
    return time.monotonic() - _STARTED


if __name__ == "__main__":
    raise SystemExit(main())
