"""When a compaction is due, and what to do where the provider says it was due before (rule 16)."""

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
    """Whether less than the reserve is left of the window, both in tokens; without one, what the agent reserves."""
    settings = profiles.profile(context.profile).SETTINGS
    stays_free = max(settings.reserve, int(window * settings.reserve_share)) if reserve is None else reserve
    tokens = context.tokens
    # What a provider counted before the last compaction says nothing of what that left.
    return (tokens.counted_here if tokens.stale else tokens.used) > window - stays_free


def is_due(context: Context, line: ContextHistory, window: int, *, reserve: int | None = None) -> bool:
    """The same, but never without an answer since the last compaction: one that did not help is not done again (K6)."""
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
    """Whether a provider's error says, as far as its words go, that a request was too long."""
    return bool(_OVERFLOW.search(str(error)))


def retry_once(
    send: Callable[[], Answer],
    compact: Callable[[], object],
    overflow: Callable[[BaseException], bool] = is_overflow,
) -> Answer:
    """What ``send`` gives; where a request was too long, ``compact`` and send again, once.

    ``compact`` gives something falsy where there was nothing to do: then the error stands, as does a second one.
    """
    try:
        return send()
    except Exception as error:
        if not overflow(error) or not compact():
            raise
    return send()
