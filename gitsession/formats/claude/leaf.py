"""Which record Claude Code goes on from: what its ``last-prompt`` names, unless it went on from there since."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gitsession.formats.base.jsonl import Object
from gitsession.formats.base.record import Record
from gitsession.formats.claude.records import is_boundary, is_linked, is_sidechain, text, uuid_of


class Leaf:
    """Told of every line in file order. ``of_agent``: it is a sub-agent's own file, all of whose lines are aside."""

    def __init__(self, *, of_agent: bool) -> None:
        self._of_agent = of_agent
        self._newest: str | None = None
        self._named: str | None = None
        self._pinned = False

    def see(self, line: Object) -> None:
        if is_linked(line):
            if self._of_agent or not is_sidechain(line):
                self._newest = uuid_of(line)
                self._pinned = False
            if is_boundary(line):
                self._named = None
        elif line.get("type") == "last-prompt" and "leafUuid" in line:
            named, chosen = text(line["leafUuid"]), line.get("explicit") is True
            if named is not None or chosen:
                self._pinned = named is not None and (chosen or (self._pinned and named == self._named))
                self._named = named

    def of(self, records: Sequence[Record], at_id: dict[str, int], messages: Collection[int]) -> int | None:
        """The line of that record; ``None`` where it is the last. ``at_id``: lines by id; ``messages``: their lines."""
        parents = {record.line: record.parent for record in records}
        leaf = at_id.get(self._named) if self._named is not None else None
        newest = at_id.get(self._newest) if self._newest is not None else None
        if leaf is None or (not self._pinned and newest is not None and _is_below(newest, leaf, parents)):
            leaf = newest
        if leaf is None:
            return None
        notes: dict[int, int] = {}  # by parent, the last line that is no message
        for line, parent in parents.items():
            if parent is not None and line not in messages:
                notes[parent] = max(line, notes.get(parent, 0))
        while leaf in notes:
            leaf = notes[leaf]
        return None if leaf == max(parents) else leaf


def _is_below(line: int, above: int, parents: dict[int, int | None]) -> bool:
    at: int | None = line
    while at is not None and at != above:
        at = parents.get(at)
    return at is not None
