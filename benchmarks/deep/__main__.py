"""`python -m benchmarks.deep [promise ...] [--minutes N] [--seed N]`: a line for each module that was run."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import time
import traceback
from itertools import islice
from pathlib import Path
from types import ModuleType

from _pytest.outcomes import Skipped

TOLD_MAX = 5


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.deep", description="Faults injected for hours")
    parser.add_argument("promises", nargs="*", metavar="promise", help="P1, P2 ...; all without any")
    parser.add_argument("--minutes", type=float, default=60.0, help="for all together (60)")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    wanted = {name.upper() for name in given.promises}
    modules = [module for module in found() if not wanted or wanted & set(module.PROMISES)]
    print(f"{'promises':16} {'injected':>9} {'survived':>9} {'seconds':>8}")
    bad = 0
    for number, module in enumerate(modules):
        left = given.minutes * 60 - spent()
        bad += run(module, given.seed, seconds=max(1.0, left / (len(modules) - number)))
    return 1 if bad else 0


def found() -> list[ModuleType]:
    """The modules beside this one, by name."""
    names = sorted(module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return [importlib.import_module(f"benchmarks.deep.{name}") for name in names if not name.startswith("_")]


def run(module: ModuleType, seed: int, *, seconds: float) -> int:
    """Inject until the time is over or there is nothing left to inject; how many were not survived."""
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
    seconds = time.monotonic() - start
    print(f"{' '.join(module.PROMISES):16} {injected:9} {survived:9} {seconds:8.0f}  {why}", flush=True)
    for text in islice(told, TOLD_MAX):
        print(text)
    return len(told)


_STARTED = time.monotonic()


def spent() -> float:
    return time.monotonic() - _STARTED


if __name__ == "__main__":
    raise SystemExit(main())
