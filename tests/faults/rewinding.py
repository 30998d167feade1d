"""A rewind with faults: twenty files, two of them with edits of the user.

The folder ``work`` and the store ``store.git`` are side by side.
"""

from __future__ import annotations

from pathlib import Path

from builders import START_MS, Clock
from rewound import fill, put, take_away

from gitsession.api import Store
from gitsession.model.entries import Message

COUNT = 20
REWIND, UNDO = "rewind", "undo of a rewind"
"""The runs with faults."""
ASKED = "rewind this"


def prepare(place: Path, work: str) -> None:
    """Create a session that changed, created and removed files of all kinds. For ``UNDO``, rewind it."""
    folder = fill(place / "work", {f"deep/{n}/file.txt": f"old {n}\n" for n in range(COUNT)})
    put(folder, "deep/3/file.txt", "deep/3/nowhere", kind="link")
    edit_both(folder, "as it began", "as it began")
    with Store.create(place / "store.git", clock=Clock()) as store:
        session = store.new_session(agent="agent", cwd=str(folder))
        session.append(Message.user("hi"))
        with session.files.checkpoint(folder, call="one"):
            change(folder)
            edit_both(folder, "the session's", "as it began")
        edit_both(folder, "the session's", "the user's")
        session.append(Message.user(ASKED))
    if work == UNDO:
        do(REWIND, str(place))


def change(folder: Path) -> None:
    for n in range(COUNT):
        path = folder / f"deep/{n}/file.txt"
        if n % 5 == 1:
            take_away(path)
        elif n % 5 == 2:
            put(folder, f"deep/{n}/made/new.txt", f"new {n}\n")
            put(folder, f"deep/{n}/file.txt", f"old {n}\n", kind="executable")
        elif n % 5 == 4:
            put(folder, f"deep/{n}/file.txt", f"deep/{n}/elsewhere", kind="link")
        else:
            put(folder, f"deep/{n}/file.txt", f"new {n}\n" * 100)


def edit_both(folder: Path, first: str, last: str) -> None:
    """Write files with the given first and last lines."""
    for n in range(2):
        put(folder, f"both/{n}.txt", f"{first}\n" + "between\n" * 8 + f"{last}\n")


def do(work: str, place: str) -> None:
    with Store.open(Path(place) / "store.git", clock=Clock(START_MS + 10**6)) as store:
        carry_out(store, work, Path(place) / "work")


def carry_out(store: Store, work: str, folder: Path) -> None:
    if work == UNDO:
        store.undo(folder)
    else:
        session = store.session(store.sessions()[0].sid)
        session.files.rewind(session.files.plan_rewind("leaf~1", workspace=folder))
