"""The subscriptions of ``gitsession rpc``: notifications about the changes that any process makes."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import gitsession
from gitsession.cli.rpc.results import EventParameters, Json, entry_result
from gitsession.errors import GitSessionError, NotFound, Refused
from gitsession.live.changes import Change, ChangeKind, ChangeReader
from gitsession.model.entries import Label, SessionHeader, Title

EVERY_SECONDS = 0.2
SUBSCRIPTIONS_MAX = 100


class Subscriptions:
    """The subscriptions of a client, and the thread that sends their events.

    ``notify``: a function that sends a notification with its method and parameters. ``ingest``: a function that is
    called before each search for events.
    """

    def __init__(
        self, store: gitsession.Store, notify: Callable[[str, Json], None], ingest: Callable[[], None]
    ) -> None:
        self._store, self._notify, self._ingest = store, notify, ingest
        self._subscriptions: dict[int, Callable[[], None]] = {}
        self._count = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, sid: str | None, events: list[ChangeKind] | None) -> int:
        """Subscribe to events, and return the number of the subscription.

        Args:
            sid: Id of the session; ``None`` for all sessions.
            events: Kinds of events; ``None`` for all kinds.
        """
        if len(self._subscriptions) >= SUBSCRIPTIONS_MAX:
            raise Refused(
                f"cannot subscribe: the server has {SUBSCRIPTIONS_MAX} subscriptions", hint="call unsubscribe first"
            )
        reader, self._count = ChangeReader(self._store.objects, sid), self._count + 1
        self._subscriptions[self._count] = functools.partial(self._report, self._count, reader, events)
        if self._thread is None:
            self._thread = threading.Thread(target=self._send_events, daemon=True)
            self._thread.start()
        return self._count

    def remove(self, number: int) -> None:
        """End a subscription. Raises ``NotFound`` if there is none with this number."""
        if self._subscriptions.pop(number, None) is None:
            raise NotFound(f"no subscription {number}")

    def close(self) -> None:
        """Stop sending events."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _send_events(self) -> None:
        while not self._stop.wait(EVERY_SECONDS):
            self._ingest()
            for number, report in list(self._subscriptions.items()):
                try:
                    report()
                except (GitSessionError, OSError) as error:
                    self._notify("error", {"subscription": number, "message": str(error)})

    def _report(self, number: int, reader: ChangeReader, events: list[ChangeKind] | None) -> None:
        for change in reader.read():
            if (events is None or change.kind in events) and number in self._subscriptions:
                event: Any = self._event(number, change)
                self._notify("event", event)

    def _event(self, number: int, change: Change) -> EventParameters:
        found: EventParameters = {"subscription": number, "event": change.kind, "session": change.session}
        if change.branch:
            found["branch"] = change.branch
        if change.kind == "session-created":
            row = self._store.catalogue().session(change.session)
            found["parent"] = None if row is None else row.parent
        if change.kind.startswith("branch-"):
            found["tip"] = change.tip
        if change.node is None:
            return found
        session = self._store.session(change.session)
        entry = session.read(change.node)
        if change.kind in ("entry", "checkpoint"):
            found["entry"] = entry_result(session, change.node)
        elif isinstance(entry, Label):
            found |= {"target": entry.target, "text": entry.label}
        elif isinstance(entry, Title | SessionHeader):
            found["text"] = entry.title
        return found
