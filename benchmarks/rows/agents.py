"""Import the largest available session file of each agent into a new store.

If none is available, the file is generated.

- *Import* is compared with the least work of a program that keeps the file: the plainest parser,
  and ``zlib`` of every record. It is also compared with that parser alone: ``json.loads`` of
  every line; the rows of the database with the JSON in them; the lines of the Markdown, by
  author.
- *Again, unchanged*: the file is read and compared with what is stored. The peer is SHA-256 of
  the file.
- *Its stamp is known*: ``gitsession import`` asks its catalog first, and does not open the file.
- *One record longer*: all the work of an import of a file that has grown.
- *On disk*: packs, indexes and reverse indexes after ``maintain``.

A database is imported with all its sessions. codex writes its history again with each
compaction, and opencode keeps a table of events beside the messages that they created. Both
count as the agent's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from benchmarks.agent_files import AgentFile, all_of, compacted
from benchmarks.figures import Line, Spread
from benchmarks.measure import Duel, in_turn, seconds
from benchmarks.workshop import Workshop
from gitsession import Store
from gitsession.discovery import sources
from gitsession.formats import FORMATS

TITLE = "Each agent's files"

KEEPER, BAR, OTHER_BAR = "its plainest parser, and zlib of every record", 3.0, 4.0
OTHERS = ("aider", "librecode")  # their files are small, so the start of a transaction counts
PARSER, HASH, FILE = "its plainest parser", "sha256 of the file", "the agent's own file"
SAID = "its messages and parts alone, as JSON"
COMPACTIONS = 30


def measure(shop: Workshop) -> Iterator[Line]:
    turns = shop.pick(6, 400, 1200)
    made = [*all_of(shop.folder(), turns, real=shop.size != "tiny")]
    for file in (*made, compacted(shop.folder(), max(turns, COMPACTIONS), COMPACTIONS)):
        yield from _measured(shop, file)


def _measured(shop: Workshop, file: AgentFile) -> Iterator[Line]:
    own = file.path.stat().st_size
    what = f"{file.name}, {own / 1e6:.1f} MB"
    first, alone, again, known, longer = (Duel() for _ in range(5))
    for _ in range(shop.pick(1, shop.runs, max(shop.runs, 5))):
        place = shop.folder()
        path, one = place / "store.git", file.copy(place)
        with Store.create(path) as store:
            imported = [seconds(lambda _, store=store, one=one: _import(store, one))]
            first.add(imported, [seconds(lambda _: file.keep())])
            alone.add(imported, [seconds(lambda _: file.parse())])
            again.add(*in_turn(lambda _, store=store, one=one: _import(store, one), lambda _: _hash(file), 1))
            store.catalogue().remember([(one.path, sources.stamp_of(one.path), store.sessions()[0].sid)])
            known.add(*in_turn(lambda _, store=store, one=one: _is_known(store, one), lambda _: _hash(file), 1))
            store.maintain()
            packed = sum(each.stat().st_size for each in (path / "objects/pack").iterdir())
            count = sum(row.entries for row in store.sessions())
            one.grow()
            longer.add(*in_turn(lambda _, store=store, one=one: _import(store, one), lambda _: file.parse(), 1))
            assert sum(row.entries for row in store.sessions()) > count, what
    yield first.line(f"{what}: import", KEEPER, OTHER_BAR if file.agent in OTHERS else BAR)
    yield alone.line(f"{what}: import", PARSER)
    yield again.line(f"{what}: again, unchanged", HASH)
    yield known.line(f"{what}: its stamp is known", HASH)
    yield longer.line(f"{what}: one record longer", PARSER)
    yield _bytes(f"{what}: on disk", FILE, packed, own)
    if file.agent == "opencode":
        yield _bytes(f"{what}: on disk", SAID, packed, file.said())


def _import(store: Store, file: AgentFile) -> None:
    for found in sources.at(file.path, FORMATS[file.agent]):
        store.agents.import_session(found.format, found.load(), path=found.path)


def _is_known(store: Store, file: AgentFile) -> None:
    assert store.catalogue(fresh=False).seen(file.path, sources.stamp_of(file.path))


def _hash(file: AgentFile) -> str:
    return hashlib.sha256(file.path.read_bytes()).hexdigest()


def _bytes(what: str, peer: str, ours: int, theirs: int) -> Line:
    ratio = ours / theirs
    return Line(what, peer, None, Spread(ratio, ratio, ratio), ours, theirs, "bytes")
