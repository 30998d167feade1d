"""Which calls of each session run: a `before` without its `after`. Kept beside the spool from one drain to the next.

Some agents do not say of each call that it has ended. So what differs at the first look after a call began, when
another begins or the turn ends, is that call's. At later ones it is not: by then the call may have ended long ago, and
what the user did since would be taken for the session's. Only its own end, if it comes, still tells what is its.
Taking an event in twice says the same both times.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from gitsession.checkpoints.attribution import AFTER, BEFORE
from gitsession.durable import read_regular
from gitsession.live import events, spool
from gitsession.live.spooled_events import Event

FILE = "calls.json"
SESSIONS_MAX = 200
_UNNAMED = "?"


class Calls:
    """Of each session the calls that run, the last that began at the end, each with the first that began after it."""

    def __init__(self, store: Path, running: Mapping[str, Mapping[str, str]]) -> None:
        """Use ``load``."""
        self._store = store
        self._running = {key: dict(calls) for key, calls in running.items()}

    @classmethod
    def load(cls, store: Path) -> Calls:
        """What the last drain knew; nothing where that cannot be read."""
        try:
            found = json.loads(read_regular(f"{spool.folder(str(store))}/{FILE}") or b"{}")
            running = {
                str(key): {str(call): str(later) for call, later in calls.items()} for key, calls in found.items()
            }
        except (OSError, ValueError, TypeError, AttributeError, RecursionError):
            running = {}
        return cls(store, running)

    def judge(self, event: Event) -> tuple[str, str | None]:
        """Of a look: its phase, and the call that what differs belongs to."""
        running, name = self._running.get(event.key, {}), event.call or _UNNAMED
        if event.look is None or event.look.before is None:
            return BEFORE, event.call  # nothing to tell a difference from
        if event.name in events.AFTER_TOOL:
            return (AFTER, event.call) if name in running else (BEFORE, event.call)
        if event.name in (events.BEFORE_TOOL, events.TURN_END):
            unseen = [call for call, later in running.items() if call != name and later in ("", name)]
            if unseen:
                return AFTER, unseen[-1]
        return BEFORE, event.call

    def note(self, event: Event) -> None:
        """What runs behind the event."""
        name = event.call or _UNNAMED
        running = {call: later for call, later in self._running.pop(event.key, {}).items() if call != name}
        if event.name == events.BEFORE_TOOL and event.look is not None:
            running = {call: later or name for call, later in running.items()} | {name: ""}
        if running and event.name not in (events.PROMPT, events.TURN_END, events.SESSION_END):
            self._running[event.key] = running  # at the end: the one that nobody heard of for longest is first

    def forget(self, event: Event) -> None:
        """Of its session nobody knows any more what runs."""
        self._running.pop(event.key, None)

    def save(self) -> None:
        """Raises ``OSError``."""
        kept = dict(list(self._running.items())[-SESSIONS_MAX:])
        place = f"{spool.folder(str(self._store))}/{FILE}"
        with open(f"{place}.new", "w") as file:
            json.dump(kept, file)
        os.replace(f"{place}.new", place)
