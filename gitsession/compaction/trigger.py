"""The check whether a compaction is due, and the retry after a provider's overflow error (rule 16)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from gitsession.context import profiles
from gitsession.context.history import ContextHistory
from gitsession.context.value import Context
from gitsession.model.entries import Compaction, Message

Answer = TypeVar("Answer")

_OVERFLOW = re.compile(
    r"(context|prompt|input|maximum).{0,40}(length|window|long|exceed|large)|too many (input )?tokens", re.I | re.S
)


def is_over(context: Context, window: int, *, reserve: int | None = None) -> bool:
    """Return whether less than the reserve is left of the window, both in tokens. Default: the agent's reserve."""
    settings = profiles.profile(context.profile).SETTINGS
    stays_free = max(settings.reserve, int(window * settings.reserve_share)) if reserve is None else reserve
    tokens = context.tokens
    # A stale count describes the context before the last compaction.
    return (tokens.counted_here if tokens.stale else tokens.used) > window - stays_free


def is_due(context: Context, line: ContextHistory, window: int, *, reserve: int | None = None) -> bool:
    """Return whether a compaction is due.

    It is due if ``is_over``, but never without an answer since the last compaction: one that did not help is not
    repeated (K6).
    """
    return _has_news(line) and is_over(context, window, reserve=reserve)


def _has_news(line: ContextHistory) -> bool:
    for node in line.back():
        if node.kind == Compaction.kind:
            return False
        if node.kind == Message.kind and node.role == "assistant":
            entry = line.entry(node)
            if isinstance(entry, Message) and not entry.failed:
                return True
    return False


def is_overflow(error: BaseException) -> bool:
    """Return whether the text of a provider's error indicates that a request was too long."""
    return bool(_OVERFLOW.search(str(error)))


def retry_once(
    send: Callable[[], Answer],
    compact: Callable[[], object],
    overflow: Callable[[BaseException], bool] = is_overflow,
) -> Answer:
    """Return the result of ``send``. If the request is too long, call ``compact`` and send once more.

    If ``compact`` returns a falsy value, there was nothing to do, and the error is raised. So is a second error.
    """
    try:
        return send()
    except Exception as error:
        if not overflow(error) or not compact():
            raise
    return send()
