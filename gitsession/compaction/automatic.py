"""Automatic compaction: a running estimate of a context's size, and the decision to start a compaction.

No context is built for an append. The last answer's token count and estimates of later entries decide whether the
context is checked, in the thread of the compaction.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Lock

from gitsession.compaction.perform import BackgroundCompaction
from gitsession.compaction.trigger import NEW_SHARE
from gitsession.context.estimates import by_characters
from gitsession.model.blocks import ToolCall
from gitsession.model.entries import (
    Compaction,
    ContextEdit,
    CustomMessage,
    Entry,
    Message,
    ModelChange,
    Prune,
    Reset,
)
from gitsession.model.usage import total_tokens

FAILURES_MAX = 3
"""Number of successive failures after which no compaction is started until an entry compacts or resets the context."""


class AutomaticCompaction:
    """The automatic compaction of one branch of a handle. Threads can share it.

    A compaction is started only when no tool call waits for its result, and when the model has answered since the last
    compaction. After an attempt without a compaction, the context must grow before the next attempt.
    """

    def __init__(self, start: Callable[[], BackgroundCompaction], *, is_answered: bool = True) -> None:
        """Create the state, with an unknown size of the context.

        Args:
            start: Function that starts a check of the context, and a compaction if one is due.
            is_answered: Whether the model may have answered since the last compaction.
        """
        self._start = start
        self._lock = Lock()
        self._model: str | None = None
        self._is_checked = False
        self._limit: int | None = None
        self._used = self._least = self._failures = 0
        self._is_answered = is_answered
        self._waiting: set[str] = set()
        self._running_in = 0  # the process, because a forked child has no such thread
        self._has_new = False
        self.newest: BackgroundCompaction | None = None

    def appended(self, entry: Entry) -> None:
        """Count an entry that was appended, and start a check if a compaction may be due."""
        with self._lock:
            self._count(entry)
            self._has_new = True
            if self._running_in == os.getpid() or not self._may_be_due():
                return
            self._running_in, self._has_new = os.getpid(), False
            try:
                self.newest = self._start()
            except RuntimeError:  # no further thread can be started: a later append tries again
                self._running_in = 0

    def ended(self, *, may_repeat: bool) -> bool:
        """Note the end of a check, and return whether it must be repeated for entries that were appended meanwhile."""
        with self._lock:
            repeats = may_repeat and self._has_new and self._may_be_due()
            self._running_in, self._has_new = os.getpid() if repeats else 0, False
            return repeats

    def checked(self, used: int, limit: int | None) -> None:
        """Note the size of the context and its limit, in tokens. ``limit``: ``None`` if unknown."""
        with self._lock:
            self._is_checked, self._used, self._limit = True, max(used, self._used), limit
            if limit is not None and used > limit:
                self._least = self._used + int(limit * NEW_SHARE)

    def failed(self) -> None:
        """Note a failed compaction."""
        with self._lock:
            self._failures += 1

    def _may_be_due(self) -> bool:
        if self._waiting or not self._is_answered or self._failures >= FAILURES_MAX:
            return False
        return not self._is_checked or (self._limit is not None and self._used > max(self._limit, self._least))

    def _count(self, entry: Entry) -> None:
        if isinstance(entry, Compaction | Reset | Prune | ContextEdit):
            self.reset(is_answered=self._is_answered and isinstance(entry, Prune | ContextEdit))
        elif isinstance(entry, ModelChange):
            self._note_model(entry.model)
        elif isinstance(entry, Message) and entry.role == "assistant" and not entry.failed:
            self._is_answered = True
            self._note_model(entry.model)
            self._waiting = {block.id for block in entry.content if isinstance(block, ToolCall)}
            self._used = total_tokens(entry.usage) or self._used + by_characters(entry)
        elif isinstance(entry, Message | CustomMessage):
            if isinstance(entry, Message) and entry.role == "tool":
                self._waiting.discard(entry.tool_call_id or "")
            elif isinstance(entry, Message) and entry.role == "user":
                self._waiting.clear()  # the calls of an interrupted turn get no results
            self._used += by_characters(entry)

    def _note_model(self, model: str | None) -> None:
        """Note the current model. Another model can have another window, so the context is checked again."""
        if model is not None and model != self._model:
            self._model, self._is_checked = model, False

    def reset(self, *, is_answered: bool) -> None:
        """Forget the size of the context, because it was compacted or edited."""
        self._is_checked, self._used, self._least, self._failures = False, 0, 0, 0
        self._is_answered = is_answered
