"""Add a branch, a label or an undo to a large session, and read all of them.

A session with 20,000 branches, labels and operations is compared with one with 1,000. Both sides
are gitsession. A step on one of them should cost the same (bar 2), and a step that reads all of
them twenty times as much (bar 24). Every step is durable when it returns, and
`Store.catalogue()` is up to date after it. *First opening*: the index is rebuilt. Export and
context are those of `main`, which has all entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from benchmarks.figures import Line
from benchmarks.measure import Step, duel
from benchmarks.workshop import Workshop
from gitsession import Message, Session, Store
from gitsession.codec.digest import to_base64url
from gitsession.index.catalogue import FILE
from gitsession.model.entries import Label
from gitsession.sessions import commit_writer, operation_log
from gitsession.sessions.node import load
from gitsession.store import refs

TITLE = "Growth"

FLAT, LINEAR = 2.0, 1.2
NONCE = bytes(16)
_names = count()


def measure(shop: Workshop) -> Iterator[Line]:
    few, many = shop.pick((5, 10), (1000, 5000), (1000, 20_000))
    stores = {number: _filled(shop, number) for number in (many, few)}
    rounds = shop.pick(1, 7, 15)
    for what, make in _EACH.items():
        with Store.open(stores[many]) as large, Store.open(stores[few]) as small:
            found = duel(make(large), make(small), runs=shop.runs, rounds=rounds)
        yield found.line(f"{what}, {many:,} there", f"{few:,} there", FLAT)
    for path in stores.values():
        with Store.open(path) as store:  # otherwise the active branch is any of them, because all tips have one time
            _session(store).switch(refs.MAIN)
    for what, step in _ALL.items():
        found = duel(step(stores[many]), step(stores[few]), runs=shop.runs, rounds=1)
        yield found.line(f"{what}, {many:,}", f"{few:,}", LINEAR * many / few)


def _filled(shop: Workshop, number: int) -> Path:
    """Build a session with ``number`` branches, labeled entries and operations."""
    path = shop.folder() / "store.git"
    with Store.create(path) as store:
        session = store.new_session(agent="bench")
        session.append(Message.user("begin"))
        at = session.append(Message.assistant("answer"))
        meta = load(store.objects, store.objects.ref(refs.meta(session.id)) or "")
        for start in range(0, number, 1000):
            with store.objects.transaction() as tx:
                before, known = at.oid, meta.oid
                for each in range(start, min(start + 1000, number)):
                    at = commit_writer.put(
                        tx, at, commit_writer.draft_own(Message.assistant(f"answer {each}", at_ms=1), NONCE, None)
                    )
                    label = Label(target=to_base64url(at.chain), label=f"label-{each}", at_ms=1)
                    meta = commit_writer.put(tx, meta, commit_writer.draft_own(label, NONCE, None))
                    tx.move(refs.leaf(session.id, f"b{each}"), at.oid, expected=None)
                    done = [operation_log.Move(refs.leaf(session.id, f"b{each}"), None, at.oid)]
                    operation_log.record(store.objects, tx, f"branch {each}", each, done)
                tx.move(refs.leaf(session.id), at.oid, expected=before)
                tx.move(refs.meta(session.id), meta.oid, expected=known)
        store.maintain()
        store.catalogue()
    return path


def _session(store: Store) -> Session:
    return store.session(store.sessions()[0].sid)


def _branch(store: Store) -> Step:
    session = _session(store)

    def step(_: int) -> None:
        session.branch(f"more-{next(_names)}")
        store.catalogue()

    return step


def _label(store: Store) -> Step:
    session = _session(store)

    def step(_: int) -> None:
        session.label("leaf", f"more-{next(_names)}")
        store.catalogue()

    return step


def _undo(store: Store) -> Step:
    session = _session(store)

    def step(_: int) -> None:
        session.branch(f"more-{next(_names)}")
        store.undo()
        store.catalogue()

    return step


def _opening(path: Path) -> Step:
    def step(_: int) -> None:
        for file in path.glob(f"{FILE}*"):
            file.unlink()
        with Store.open(path) as store:
            store.catalogue()

    return step


def _reading(read: Callable[[Session], object]) -> Callable[[Path], Step]:
    def at(path: Path) -> Step:
        def step(_: int) -> None:
            with Store.open(path) as store:
                read(_session(store))

        return step

    return at


def _listed(session: Session) -> None:
    for name in session.branches():
        session.resolve(name)


def _exported(path: Path) -> Step:
    def step(_: int) -> None:
        with Store.open(path) as store:
            store.export(_session(store).id, to="claude")

    return step


_EACH: dict[str, Callable[[Store], Step]] = {
    "one more branch": _branch,
    "one more label": _label,
    "a branch and its undo": _undo,
}
_ALL: dict[str, Callable[[Path], Step]] = {
    "first opening": _opening,
    "list of the branches": _reading(_listed),
    "context": _reading(lambda session: session.context()),
    "export": _exported,
}
