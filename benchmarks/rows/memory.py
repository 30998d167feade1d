"""Compare the peak memory of an import of one large session file with the size of the file.

The import runs in a process of its own. The bar is 600 MB for 1,000 MB. A file of 64 MiB or more
is read in parts (decision 0040). The figure includes the process and its modules. Lines have 11
KB, and each needs about 1 KB of memory.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.agent_files import large
from benchmarks.figures import Line, Spread
from benchmarks.workshop import Workshop

TITLE = "Memory"

BAR = 0.6
_IMPORT = """
import resource, sys
from pathlib import Path
from gitsession import Store
with Store.create(Path(sys.argv[1])) as store:
    store.import_file(Path(sys.argv[2]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def measure(shop: Workshop) -> Iterator[Line]:
    bar = BAR if shop.size == "full" else None
    for agent in ("claude", "codex"):
        folder = shop.folder()
        file = large(agent, folder, shop.pick(100_000, 100_000_000, 1_000_000_000))
        size = file.path.stat().st_size
        peak = _peak(folder / "store.git", file.path)
        what = f"{agent}, {size / 1e6:,.0f} MB: memory of its import"
        yield Line(what, "the size of the file", bar, Spread.of([peak / size]), peak, size, "bytes")
        file.path.unlink()


def _peak(store: Path, file: Path) -> int:
    """Return the peak resident memory in bytes."""
    done = subprocess.run([sys.executable, "-c", _IMPORT, store, file], capture_output=True, text=True, check=True)
    return int(done.stdout)
