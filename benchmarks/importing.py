"""Import of real files against json.loads and zlib of every line; disk after maintain against the files."""

from __future__ import annotations

import json
import sys
import tempfile
import zlib
from pathlib import Path

from measure import in_turn, report, shared_sessions

from gitsession import Store
from gitsession.exchange.discover import format_of

ROUNDS = 5


def main() -> None:
    files = {path: path.read_bytes() for path in shared_sessions()}
    if not files:
        sys.exit("no session files at hand: name their folder in GITSESSION_SHARED")

    def ours(number: int) -> None:
        with tempfile.TemporaryDirectory() as folder, Store.create(Path(folder) / "store.git") as store:
            for path, data in files.items():
                store.bring_in(format_of(path, data), data, path=path)  # type: ignore[arg-type]

    def theirs(number: int) -> None:
        for data in files.values():
            for line in data.split(b"\n"):
                if line:
                    json.loads(line)
                    zlib.compress(line)

    report(f"import of {len(files)} files", "4", *in_turn(ours, theirs, ROUNDS, warm_up=1))
    disk(files)


def disk(files: dict[Path, bytes]) -> None:
    """The pack, its index and reverse index, of each file alone and of all."""
    with tempfile.TemporaryDirectory() as folder:
        total = size_of(Path(folder) / "all.git", files)
        source = sum(map(len, files.values()))
        print(f"{'disk of all files after maintain':<46}  {total / source:6.2f}x  (bar 0.6)")
        for number, (path, data) in enumerate(files.items()):
            if len(data) / max(data.count(b"\n"), 1) >= 500 and len(data) > 100_000:
                ratio = size_of(Path(folder) / f"{number}.git", {path: data}) / len(data)
                print(f"{'disk of ' + path.name:<46}  {ratio:6.2f}x  (bar 1)")


def size_of(place: Path, files: dict[Path, bytes]) -> int:
    with Store.create(place) as store:
        for path, data in files.items():
            store.bring_in(format_of(path, data), data, path=path)  # type: ignore[arg-type]
        store.maintain()
    return sum(file.stat().st_size for file in (place / "objects/pack").iterdir())


if __name__ == "__main__":
    sys.exit(main())
