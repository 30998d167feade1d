"""Which sessions a rule sends to the trash: by age, by number, by size; a label keeps one. Reads only."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gitsession.git import process
from gitsession.index.catalogue import Row
from gitsession.store import refs
from gitsession.store.git_store import GitStore


@dataclass(frozen=True, slots=True)
class Retention:
    """``before_ms``: what was not gone on with since may go. ``keep``: the newest so many stay. ``bytes_max``: of all
    together, the newest first. ``label``: a session with an entry so labelled stays. ``None``, and "": no rule.
    """

    before_ms: int | None = None
    keep: int | None = None
    bytes_max: int | None = None
    label: str = ""


@dataclass(frozen=True, slots=True)
class ExpiredSession:
    """A session that goes, and why. ``size_bytes``: what its objects take on the disk, where that was asked."""

    row: Row
    why: str
    size_bytes: int | None = None


def chosen(
    rows: Iterable[Row], rules: Retention, *, labels: Callable[[str], set[str]], size: Callable[[str], int]
) -> list[ExpiredSession]:
    """``rows``: the newest first. ``labels`` and ``size`` of a session are asked only where a rule wants them.

    One that a rule lets go goes, unless ``keep`` or ``label`` holds it; ``keep`` alone lets all others go.
    """
    found = []
    total = 0
    for number, row in enumerate(rows):
        held = (rules.keep is not None and number < rules.keep) or (rules.label and rules.label in labels(row.sid))
        bytes_here = size(row.sid) if rules.bytes_max is not None else None
        why = _why(row, rules, total + (bytes_here or 0))
        if why and not held:
            found.append(ExpiredSession(row, why, bytes_here))
        else:
            total += bytes_here or 0
    return found


def _why(row: Row, rules: Retention, total: int) -> str:
    if rules.before_ms is not None and row.updated_ms < rules.before_ms:
        return "age"
    if rules.bytes_max is not None and total > rules.bytes_max:
        return "size"
    return "number" if rules.before_ms is None and rules.bytes_max is None and rules.keep is not None else ""


def size_of(store: GitStore, sid: str) -> int:
    """What a session's objects take on the disk, those that it shares with others too. Raises ``Unavailable``."""
    leaves = "".join(f"{value}\n" for value in store.refs(refs.session(sid)).values())
    told = process.run(store.git_dir, "rev-list", "--objects", "--disk-usage", "--stdin", stdin=leaves.encode())
    return int(told.out.strip() or 0)
