"""Sessions of several files: the others that an agent has of one, and those that a file goes on from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from gitsession.exchange import send_out
from gitsession.formats import CONTINUING
from gitsession.session.meta import meta_of
from gitsession.store.base import ObjectStore


class AgentFile(NamedTuple):
    """One of an agent's files. ``place``: where it lies below the agent's folder."""

    place: str
    data: bytes

    @property
    def name(self) -> str:
        return PurePosixPath(self.place).name

    @property
    def pattern(self) -> str:
        """A glob for the places where the agent may have put it: the time in its name is that of some time zone."""
        folder, _, name = self.place.rpartition("/")
        top = folder.partition("/")[0]
        ids = name.split("-", 6)[-1] if name.count("-") > 6 else name
        return f"{top}/*/*/*/*{ids}"


def bases(store: ObjectStore, agent: str, data: bytes, find: Callable[[str, str], str | None]) -> list[AgentFile]:
    """Return the files that ``data`` goes on from, the nearest first.

    ``find``: the session that an agent calls so, by the id of any of its files. What is not here is left out.
    """
    format = CONTINUING.get(agent)
    found: list[AgentFile] = []
    seen: set[str] = set()
    id = format.base_of(data) if format is not None else None
    while format is not None and id is not None and id not in seen:
        seen.add(id)
        sid = find(agent, id)
        if sid is None:
            break
        segment = id if id in meta_of(store, sid).segments else None
        base = send_out.segment(store, sid, segment)
        found.append(AgentFile(format.place_of(base, segment), base))
        id = format.base_of(base)
    return found


def others(store: ObjectStore, agent: str, sid: str, data: bytes) -> Iterator[AgentFile]:
    """Yield the agent's files of a session, but that one whose content is ``data``."""
    format = CONTINUING.get(agent)
    ids = send_out.segments(store, sid) if format is not None else []
    for segment in ids if len(ids) > 1 else []:
        content = send_out.segment(store, sid, segment)
        if format is not None and content != data:
            yield AgentFile(format.place_of(content, segment), content)
