"""Checkpoints with faults: the folder ``work`` and the store ``store.git``, side by side."""

from __future__ import annotations

from pathlib import Path

from builders import START_MS, Clock
from rewound import fill, put, take_away

from gitsession.api import Store
from gitsession.model.entries import Message

FIRST, NEXT, NAMED = "first look", "next look", "look at named paths"
WORKS = (FIRST, NEXT, NAMED)
"""The runs with faults."""

PATHS = ("deep/0/file.txt", "deep/1/file.txt", "made/new.txt", "turned")


def prepare(place: Path, work: str) -> None:
    """Create a session in a folder. Except for ``FIRST``, the folder has a checkpoint and later changes."""
    files = {f"deep/{number}/file.txt": f"old {number}\n" for number in range(4)}
    folder = fill(place / "work", {**files, "turned": "file\n", ".gitignore": "ignored\n", "ignored": "not kept\n"})
    with Store.create(place / "store.git", clock=Clock()) as store:
        session = store.new_session(agent="agent", cwd=str(folder))
        session.append(Message.user("hi"))
        if work != FIRST:
            session.files.take_checkpoint("before", folder)
            session.append(Message.assistant("I do it"))
            change(folder)


def change(folder: Path) -> None:
    put(folder, "deep/0/file.txt", "new\n" * 10_000)
    take_away(folder / "deep/1/file.txt")
    put(folder, "made/new.txt", "new\n")
    put(folder, "turned", "deep", kind="link")


def do(work: str, place: str) -> None:
    with Store.open(Path(place) / "store.git", clock=Clock(START_MS + 10**6)) as store:
        look(store, work, Path(place) / "work")


def look(store: Store, work: str, folder: Path) -> None:
    session = store.session(store.sessions()[0].sid)
    phase = "before" if work == FIRST else "after"
    session.files.take_checkpoint(phase, folder, paths=PATHS if work == NAMED else None)
