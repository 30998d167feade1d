"""Generator of stores as they grow over months: sessions of several agents and projects, with branches and titles.

The distributions were measured in 55 session files of pi, omp, Claude Code, Codex and opencode. They are constants, so
the generator needs no files. The same seed and number of sessions give the same objects. The entries have gitsession's
own format. Batches of sessions are written as packs, as by a large import, and ``maintain`` consolidates them.
"""

from __future__ import annotations

import functools
import os
import random
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import accumulate, islice, pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from gitsession import Message, Store
from gitsession.codec.digest import to_base32, to_base64url
from gitsession.codec.payload import NONCE_BYTES
from gitsession.git import pack_writer
from gitsession.git.objects import oid_of
from gitsession.git.types import Kind, Oid
from gitsession.model.blocks import Text, ToolCall
from gitsession.model.entries import Entry, Label, ModelChange, Project, SessionHeader, Title
from gitsession.model.headline import VIEW
from gitsession.redaction.original import Original
from gitsession.sessions import commit_writer, operation_log
from gitsession.sessions.node import Node
from gitsession.store import create, refs

SHAPES = (
    (1, 1), (3, 1), (3, 1), (4, 1), (5, 3), (6, 1), (7, 2), (7, 3), (8, 1), (9, 1), (9, 1), (9, 1), (11, 5), (14, 5),
    (17, 1), (25, 1), (39, 1), (43, 1), (45, 1), (54, 3), (76, 18), (85, 1), (119, 1), (315, 1), (331, 2), (423, 1),
    (439, 6), (529, 1), (701, 1), (1003, 1), (1020, 1), (1590, 1), (1826, 1),
)  # fmt: skip
"""Entries and branches of each measured session, without sessions that exist in two versions."""

LONG = 300
"""Entries from which a session is four times rarer here than in the files, which were chosen for their length.

The mean is then about a hundred entries for each session.
"""

SIZES = {
    "user": (148, 187, 218, 259, 323, 325, 325, 329, 329, 497, 1960),
    "assistant": (121, 233, 399, 585, 652, 753, 906, 1038, 1129, 1697, 9098),
    "tool": (171, 244, 321, 567, 809, 914, 1065, 1487, 2051, 3955, 24_343),
}
"""Deciles of the payload of a message in bytes, by role. The last value is the percentile 99."""

AGENTS = {"claude": 13, "codex": 9, "pi": 9, "omp": 1, "opencode": 1}
"""Agents and the number of measured sessions of each."""

PER_DAY = (1,) * 15 + (2,) * 4 + (3,) * 4 + (4,) * 2
"""Numbers of sessions on the days that have sessions. Other days have none, here those of the weekend."""

CALLS, ASKS, SETS = 0.67, 0.5, 0.07
"""Shares: answers with a tool call, other answers that a user message follows, entries that change a setting."""

TITLED, LABELLED = 0.28, 0.02
"""Shares of sessions. No measured session has a label; this share makes the stores contain some."""

OVERHEAD = 110
PROJECTS = 40
DAYS = 365
FIRST_DAY_S = 1_735_689_600  # 2025-01-01
BATCH, TOGETHER = 100, 100
"""Sessions of one pack, and packs of one transaction."""
SYLLABLES = ("ba", "ce", "di", "fo", "gu", "ha", "in", "ke", "lo", "mu", "ne", "or", "pa", "re", "st", "tu")


class Batch(NamedTuple):
    """Sessions that were written as packs into ``folder``."""

    folder: Path
    entries: int
    moves: Sequence[tuple[int, str, Sequence[tuple[str, Oid]]]]  # for each session: time in ms, id, refs


def fill(path: Path, sessions: int, *, longest: int = 4_000, seed: int = 0, consolidate: bool = True) -> int:
    """Create a store at ``path`` and return the number of entries.

    The refs are packed. There is no catalog.

    Args:
        sessions: Number of sessions.
        longest: Most entries that a branch ``main`` has.
        consolidate: False to leave the packs as they were written, but five times larger. In a store of ten million
            entries, to consolidate them takes longer than to write them.
    """
    entries = 0
    Store.create(path).close()
    with (
        tempfile.TemporaryDirectory(dir=path.parent) as place,
        Store.open(path, durability="none", flush_on_close=False) as store,
    ):
        batches = _batches(Path(place), sessions, longest, seed, BATCH if consolidate else 5 * BATCH)
        while together := list(islice(batches, TOGETHER)):
            _take_in(store, together)
            entries += sum(batch.entries for batch in together)
            if consolidate:
                store.maintain()
        while consolidate and not _are_consolidated(path / "objects/pack"):
            store.maintain()  # a run ends after a minute
    return entries


def _are_consolidated(folder: Path) -> bool:
    return all(pack.with_suffix(".rev").exists() for pack in folder.glob("*.pack"))


def _batches(place: Path, sessions: int, longest: int, seed: int, batch: int) -> Iterator[Batch]:
    """Write all sessions in chronological order, with a process for each processor if there are many."""
    starts = _starts(sessions, random.Random(seed))
    jobs = [(place / f"{at:07}", starts[at : at + batch], longest, f"{seed}:{at}") for at in range(0, sessions, batch)]
    if len(jobs) == 1:
        yield write(*jobs[0])
        return
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        yield from pool.map(write, *zip(*jobs, strict=True))


def _starts(sessions: int, chance: random.Random) -> list[int]:
    """Return the start of each session in Unix time in ms, in chronological order."""
    days = [day for day in range(DAYS) if (day + 3) % 7 < 5]
    chosen = chance.choices(days, [chance.choice(PER_DAY) for _ in days], k=sessions)
    return sorted(1000 * (FIRST_DAY_S + 86_400 * day + chance.randrange(28_800, 72_000)) for day in chosen)


def _take_in(store: Store, batches: Sequence[Batch]) -> None:
    """Move packs into the store and add their sessions, in one transaction."""
    git_dir = store.objects.git_dir
    with store.objects.transaction() as tx:
        for batch in batches:
            pack_writer.move_packs(batch.folder / "pack", git_dir / "objects", git_dir / create.KEEP)
        for at_ms, sid, made in (session for batch in batches for session in batch.moves):
            for name, oid in made:
                tx.move(name, oid, expected=None)
            moves = [operation_log.Move(name, None, oid) for name, oid in made]
            operation_log.record(store.objects, tx, f"import {sid}", at_ms, moves)
    store.flush()


def write(folder: Path, starts: Sequence[int], longest: int, seed: str) -> Batch:
    """Write one session for each time in ``starts`` as packs below ``folder``."""
    chance = random.Random(seed)
    (folder / "pack").mkdir(parents=True)
    objects = _Objects()
    sessions = [_Session(objects, at_ms, longest, chance) for at_ms in starts]
    pack_writer.write_pack(folder, objects.found, folder / "keep", sync=False)
    for kept in (folder / "pack").glob("*.keep"):
        kept.unlink()
    moves = [(session.at_ms, session.sid, session.tips()) for session in sessions]
    return Batch(folder, sum(session.entries for session in sessions), moves)


class _Objects:
    def __init__(self) -> None:
        self.found: dict[Oid, tuple[Kind, bytes]] = {}

    def put(self, kind: Kind, data: bytes) -> Oid:
        oid = oid_of(kind, data)
        self.found[oid] = (kind, data)
        return oid

    def keep_original(self, original: Original) -> None:
        raise AssertionError("the generated texts have no secrets")


class _Session:
    """A session, written when it is created."""

    def __init__(self, objects: _Objects, at_ms: int, longest: int, chance: random.Random) -> None:
        self._objects, self._chance = objects, chance
        self.at_ms = self._now_ms = at_ms
        self.sid = f"{refs.sid_date(at_ms)}-{to_base32(chance.randbytes(16), refs.SID_LENGTHS[0])}"
        self.entries = 0
        length, branches = _shape(chance)
        agent = chance.choices(list(AGENTS), list(AGENTS.values()))[0]
        project = f"project-{min(int(chance.expovariate(0.15)), PROJECTS - 1)}"
        root = self._put(None, SessionHeader(agent=agent, view=VIEW, at_ms=at_ms))
        self._meta = self._put(root, SessionHeader(agent=agent, cwd=f"/home/dev/{project}", at_ms=at_ms))
        self._meta = self._put(self._meta, Project(identity=f"remote:git.example.com/{project}", at_ms=at_ms))
        main = [root, *self._conversation(root, min(max(length - 2 * (branches - 1), 1), longest))]
        self._branches = {refs.MAIN: main[-1]}
        for number in range(1, branches):
            *_, self._branches[f"branch-{number}"] = self._conversation(chance.choice(main), 2)
        if chance.random() < TITLED:
            self._meta = self._put(self._meta, Title(title=self._text(40), at_ms=self._now_ms))
        if chance.random() < LABELLED:
            label = Label(target=to_base64url(chance.choice(main).chain), label="checked", at_ms=self._now_ms)
            self._meta = self._put(self._meta, label)

    def tips(self) -> list[tuple[str, Oid]]:
        """Return the refs of the session."""
        leaves = [(refs.leaf(self.sid, name), node.oid) for name, node in self._branches.items()]
        return [*leaves, (refs.meta(self.sid), self._meta.oid)]

    def _put(self, parent: Node | None, entry: Entry) -> Node:
        self.entries += 1
        draft = commit_writer.draft_own(entry, self._chance.randbytes(NONCE_BYTES), None)
        return commit_writer.put(self._objects, parent, draft)

    def _conversation(self, parent: Node, length: int) -> Iterator[Node]:
        """Append ``length`` entries, the first by the user."""
        for entry in islice(self._messages(), length):
            parent = self._put(parent, entry)
            yield parent

    def _messages(self) -> Iterator[Entry]:
        chance = self._chance
        while True:
            yield Message.user(self._said("user"), at_ms=self._later())
            while True:
                if chance.random() < SETS:
                    yield ModelChange(provider="anthropic", model="claude-sonnet-4-5", at_ms=self._later())
                usage = {"input": chance.randrange(9999), "output": chance.randrange(999)}
                fields = {"provider": "anthropic", "model": "claude-sonnet-4-5", "usage": usage}
                if chance.random() >= CALLS:
                    yield Message.assistant(self._said("assistant"), at_ms=self._later(), stop="stop", **fields)
                    if chance.random() < ASKS:
                        break
                    continue
                call = ToolCall(f"call_{chance.randbytes(9).hex()}", "bash", {"command": self._text(60)})
                said = (Text(self._said("assistant")), call)
                yield Message.assistant(said, at_ms=self._later(), stop="toolUse", **fields)
                yield Message.tool(call, self._said("tool"), at_ms=self._later())

    def _later(self) -> int:
        self._now_ms += self._chance.randrange(2_000, 40_000)
        return self._now_ms

    def _said(self, role: str) -> str:
        """Return a text that makes the payload of a message as large as those of its role."""
        low, high = self._chance.choice(list(pairwise(SIZES[role])))
        return self._text(max(int(low * (high / low) ** self._chance.random()) - OVERHEAD, 20))

    def _text(self, length: int) -> str:
        start = self._chance.randrange(len(_prose()) - length)
        return _prose()[start : start + length].strip()


def _shape(chance: random.Random) -> tuple[int, int]:
    """Return the numbers of entries and branches of a session."""
    weights = [1 if length >= LONG else 4 for length, _ in SHAPES]
    length, branches = chance.choices(SHAPES, weights)[0]
    return max(int(length * chance.uniform(0.7, 1.4)), 1), branches


@functools.cache
def _prose() -> str:
    """Return 4 MB of words with the frequencies of a language: the word of rank n is n times rarer than the first."""
    chance = random.Random(0)
    words = ["".join(chance.choices(SYLLABLES, k=chance.randrange(1, 6))) for _ in range(20_000)]
    weights = list(accumulate(1 / rank for rank in range(1, len(words) + 1)))
    return " ".join(chance.choices(words, cum_weights=weights, k=700_000))
