"""Measure what compactions add to a store.

The same session is built with compactions and without, with the same messages.

- *Beyond their summaries*: packs, indexes and reverse indexes after ``maintain``, minus those of
  the store without compactions, minus the packed size of the summaries; compared with the store
  without compactions.
- *All that they take*: compared with the bytes of the summaries as they were written.

The benchmark also checks that an export equals the agent's file, that no entry is missing, and
that the last context has the same digest in a clone.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.data import folder, made_file, messages
from benchmarks.figures import Line, Spread, Table
from benchmarks.workshop import Workshop
from gitsession import CompactionRequest, Store, SummaryOptions
from gitsession.formats.pi.agent import pi
from gitsession.sessions import content
from gitsession.sessions.node import Node

TITLE = "Compactions"

BEYOND_BAR, ALL_BAR, BARS_AT = 0.01, 1.0, 50
BETWEEN = 8
"""Number of messages from one compaction to the next."""


@dataclass(slots=True)
class _Taken:
    """The size of a store.

    Attributes:
        said: Number of messages that were appended after the import.
        packs: Size of the packs with their indexes, in bytes.
        summaries: Size of the summaries as written, in bytes.
        parts: Packed size of each part of the compactions, in bytes.
    """

    said: int
    packs: int
    summaries: int = 0
    parts: Counter[str] = field(default_factory=Counter)


def measure(shop: Workshop) -> Iterator[Line | Table]:
    real = folder() / "sessions/pi/before-compaction.v3.jsonl"
    data = real.read_bytes() if real.exists() else made_file(0, 2500)
    rows = []
    for count in shop.pick([2], [10, 50], [10, 25, 50, 100]):
        used = _store(shop.folder(), data, count)
        bare = _store(shop.folder(), data, 0, used.said)
        what, bars = f"{count} compactions", (BEYOND_BAR, ALL_BAR) if count == BARS_AT else (None, None)
        grown = used.packs - bare.packs
        beyond = grown - used.parts["summary"]
        yield _line(f"{what}, beyond their summaries", "the store without", beyond, bare.packs, bars[0])
        yield _line(f"{what}, all that they take", "their summaries as written", grown, used.summaries, bars[1])
        each = {name: f"{size / count:.0f}" for name, size in used.parts.items()}
        rows.append([str(count), f"{used.summaries / count:.0f}", *each.values(), f"{grown / count:.0f}"])
        names = list(each)
    yield Table("Bytes of one compaction", ["compactions", "summary as written", *names, "all, with indexes"], rows)


def _line(what: str, peer: str, ours: int, theirs: int, bar: float | None) -> Line:
    ratio = ours / theirs
    return Line(what, peer, bar, Spread(ratio, ratio, ratio), ours, theirs, "bytes")


def _store(place: Path, data: bytes, count: int, said: int = 0) -> _Taken:
    """Build the session with ``count`` compactions, or with ``said`` messages and none."""
    path = place / "store.git"
    Store.create(path).close()
    made: list[Node] = []
    with Store.open(path, durability="none") as store:
        session = store.session(store.agents.import_data(pi, data, name="session", final=True).session)
        began, number = session.history(), 0
        while len(made) < count or number < said:
            if count and number % BETWEEN == 0:
                plan = session.compaction.plan(request=CompactionRequest(keep_tokens=500))
                done = session.compact(plan, SummaryOptions(max_tokens=500))
                made += [done] if done else []  # too few entries to compact
            session.append(messages()[number % len(messages())].message)
            number += 1
        line = session.history()
        assert line[: len(began)] == began
        assert len(line) == len(began) + number + count
        assert store.export(session.id, original=True).data == data
        store.maintain()
        taken = _Taken(number, sum(file.stat().st_size for file in (path / "objects/pack").iterdir()))
        for node in made:
            taken.summaries += len(session.read(node).summary.encode())
            tree = {name.partition(".")[0]: oid for _, name, oid in content.tree_of(store.objects, node.tree)}
            taken.parts += Counter(_packed(path, {"commit": node.oid, "tree": node.tree, **tree}))
        if made:
            assert session.context().digest == _on_a_clone(path, place / "clone.git", session.id)
    return taken


def _packed(store: Path, objects: dict[str, str]) -> dict[str, int]:
    """Return the bytes of each object in the pack."""
    command = ["git", f"--git-dir={store}", "cat-file", "--batch-check=%(objectsize:disk)"]
    done = subprocess.run(command, input="\n".join(objects.values()), capture_output=True, text=True, check=True)
    return dict(zip(objects, map(int, done.stdout.split()), strict=True))


def _on_a_clone(store: Path, clone: Path, sid: str) -> bytes:
    subprocess.run(["git", "clone", "-q", "--mirror", str(store), str(clone)], check=True)
    with Store.open(clone) as opened:
        return opened.session(sid).context().digest
