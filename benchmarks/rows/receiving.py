"""Push to a server that validates each entry, compared with the same push without our hooks.

The server is a bare repository with gitsession's hooks (``gitsession server install``). The
peer is a bare repository in which only git checks. In both, ``transfer.fsckObjects`` is on. Each
push goes to a new copy of the repository. The push of one entry includes the start of the hook.
The cost of an entry is the additional time of a long push, without that start, divided by the
number of its entries. For each entry, the server checks every name and size, and derives digest,
chain digest, message, holes and lifted content again.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from benchmarks import commands
from benchmarks.figures import Line, Table
from benchmarks.measure import Duel, Step, in_turn
from benchmarks.workshop import Workshop
from gitsession import Message, Store
from gitsession.server import server

TITLE = "Receive"

PLAIN = "git push, without our hooks"
BAR = 2.5
SESSIONS = "refs/heads/sessions/*:refs/heads/sessions/*"


def measure(shop: Workshop) -> Iterator[Line | Table]:
    long = []
    sessions, appended = shop.pick(5, 500, 1_000), shop.pick(30, 3_000, 10_000)
    for what, store in (
        ("the imported files", shop.imported()),
        (f"{appended:,} appended entries", shop.long_session(appended)),
        (f"{sessions:,} sessions of two entries", shop.many_sessions(sessions)),
    ):
        entries = _entries(store)
        found = _pushes(shop, store, SESSIONS, shop.folder())
        line = found.line(f"push of {what}", PLAIN, BAR)
        yield line
        long.append((what, entries, line.ours - line.theirs))
    for count in (sessions, shop.pick(10, 2_000, 10_000)):
        store = shop.copy(shop.many_sessions(count))
        begun = shop.folder()
        _push(store, _repositories(begun)[0], SESSIONS)(0)
        shutil.copytree(begun / "server.git", begun / "plain.git", dirs_exist_ok=True)
        server.uninstall(begun / "plain.git")
        _settle(begun / "plain.git")
        with Store.open(store) as opened:
            session = opened.session(opened.sessions()[0].sid)
            session.append(Message.user("one more"))
        ref = f"refs/heads/sessions/{session.id}/main"
        found = _pushes(shop, store, f"{ref}:{ref}", begun)
        line = found.line(f"push of one entry, {count:,} sessions there", PLAIN, BAR)
        yield line
        start = line.ours - line.theirs
    rows = [[what, f"{entries:,}", f"{(more - start) / entries * 1e6:,.0f} µs"] for what, entries, more in long]
    title = "What validation adds to a push, without the start of the hook"
    yield Table(title, ["push of", "entries", "per entry"], rows)


def _pushes(shop: Workshop, store: Path, refspec: str, begun: Path) -> Duel:
    """Time pushes of ``refspec``.

    Args:
        begun: Folder with both repositories in the state before each push.
    """
    if not (begun / "plain.git").exists():
        _repositories(begun)
    duel = Duel()
    for _ in range(shop.runs):
        for _ in range(shop.pick(1, 1, 3)):
            here = shop.folder()
            ours, theirs = (_copied(begun / name, here / name) for name in ("server.git", "plain.git"))
            duel.add(*in_turn(_push(store, ours, refspec), _push(store, theirs, refspec), 1))
            shutil.rmtree(here)
    return duel


def _push(store: Path, to: Path, refspec: str) -> Step:
    return commands.git(store, "push", "-q", str(to), refspec)


def _repositories(folder: Path) -> tuple[Path, Path]:
    """Create two empty repositories: one with gitsession's hooks, one without."""
    made = []
    for name in ("server.git", "plain.git"):
        subprocess.run(["git", "init", "-q", "--bare", str(folder / name)], check=True)
        made.append(folder / name)
    ours, plain = made
    server.install(ours, shlex.split(commands.program()))
    _settle(plain)
    return ours, plain


def _settle(plain: Path) -> None:
    for name in ("transfer.fsckObjects", "transfer.unpackLimit"):
        subprocess.run(["git", f"--git-dir={plain}", "config", name, server.SETTINGS[name]], check=True)


def _copied(repository: Path, to: Path) -> Path:
    return Path(shutil.copytree(repository, to))


def _entries(store: Path) -> int:
    told = subprocess.run(
        ["git", f"--git-dir={store}", "rev-list", "--count", "--glob=refs/heads/sessions"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return int(told.stdout)
