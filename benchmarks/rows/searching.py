"""Search for words in one session, compared with SQLite's FTS5 alone over the same texts.

Both run in turn. FTS5 alone is a table of texts that were already extracted from the entries. It
keeps the texts, walks no commits and checks nothing.

- *Made*: the first search builds the index.
- *One more*: an entry is appended (outside of the time), then searched for. gitsession finds out
  what moved and updates catalog and index.
- *Asked*: nothing has changed. A search returns the 20 best hits with a snippet each, which
  gitsession reads from the entry.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.figures import Line
from benchmarks.measure import Duel, duel, in_turn
from benchmarks.workshop import Workshop
from gitsession import Message, Store
from gitsession.index import search
from gitsession.index.search_words import searchable_text
from gitsession.sessions.content import entry_of

TITLE = "Search"

PEER = "FTS5 alone"
MOST = 20
QUERIES = ("session branch", "error", '"check path"', "becau*", "nothing such")


def measure(shop: Workshop) -> Iterator[Line]:
    for entries in shop.pick([20], [2_000], [10_000, 100_000]):
        path = shop.copy(shop.long_session(entries))
        with Store.open(path, durability="none") as store:
            texts = _texts(store)
            yield from _compared(shop, store, path, texts, f"{entries:,} entries")


def _compared(shop: Workshop, store: Store, path: Path, texts: Sequence[str], size: str) -> Iterator[Line]:
    index, folder = path / search.FILE, shop.folder()

    def made(_: int) -> None:
        for beside in ("", "-wal", "-shm"):
            Path(f"{index}{beside}").unlink(missing_ok=True)
        store.search("nothing such")

    alone = _Alone(folder / "alone.db")
    yield duel(made, lambda _: alone.make(texts), runs=shop.pick(1, 2, 2), rounds=1, warm_up=0).line(
        f"made, {size}", PEER
    )
    ours = sum(Path(f"{index}{end}").stat().st_size for end in ("", "-wal") if Path(f"{index}{end}").exists())
    yield _bytes(f"on disk, {size}", ours, alone.size())
    for query in QUERIES:
        found = duel(
            lambda _, query=query: store.search(query, most=MOST),
            lambda _, query=query: alone.find(query),
            runs=shop.runs,
            rounds=shop.pick(1, 5, 5),
        )
        yield found.line(f"asked {query!r}, {size}", PEER)
    session = store.session(store.sessions()[0].sid)
    grown = Duel()
    mine: list[float] = []
    theirs: list[float] = []
    for number in range(shop.pick(1, 5, 7)):
        text = f"one more, number{number}x"
        session.append(Message.user(text))
        times = in_turn(
            lambda _, number=number: store.search(f"number{number}x"),
            lambda _, number=number, text=text: (alone.add(text), alone.find(f"number{number}x")),
            1,
        )
        mine += times[0]
        theirs += times[1]
    grown.add(mine, theirs)
    yield grown.line(f"one more, {size}", PEER)


def _texts(store: Store) -> list[str]:
    session = store.session(store.sessions()[0].sid)
    found = (searchable_text(entry_of(store.objects, node)) for node in session.history())
    return [words.all for words in found if words is not None]


def _bytes(what: str, ours: int, theirs: int) -> Line:
    found = Duel()
    found.add([ours], [theirs])
    return found.line(what, PEER, unit="bytes")


class _Alone:
    """An FTS5 database of texts, without a store."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("PRAGMA synchronous = OFF")

    def make(self, texts: Sequence[str]) -> None:
        self.db.execute("DROP TABLE IF EXISTS words")
        self.db.execute("CREATE VIRTUAL TABLE words USING fts5(text)")
        self.db.execute("BEGIN")
        rows = ((text.encode("utf-8", "replace").decode(),) for text in texts)
        self.db.executemany("INSERT INTO words VALUES (?)", rows)
        self.db.execute("COMMIT")

    def add(self, text: str) -> None:
        self.db.execute("INSERT INTO words VALUES (?)", (text,))

    def find(self, query: str) -> list[tuple[str]]:
        asked = "SELECT snippet(words, 0, '', '', '…', 20) FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?"
        return self.db.execute(asked, (query, MOST)).fetchall()

    def size(self) -> int:
        self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.db.execute("VACUUM")
        return self.path.stat().st_size
