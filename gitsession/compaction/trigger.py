"""Checks of whether a compaction is due, and a retry after a provider's overflow error (rule 16)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import TypeVar

from gitsession.context import profiles
from gitsession.context.call_results import calls_in
from gitsession.context.history import ContextHistory
from gitsession.context.value import Context
from gitsession.model.entries import Compaction, Message
from gitsession.model.results import result_in

Answer = TypeVar("Answer")

_OVERFLOW = re.compile(
    r"(context|prompt|input|maximum).{0,40}(length|window|long|exceed|large)|too many (input )?tokens", re.I | re.S
)


def is_over(context: Context, window: int, *, reserve: int | None = None) -> bool:
    """Return whether the free part of the context window is smaller than the reserve.

    Args:
        context: The context.
        window: Context window of the model, in tokens.
        reserve: Number of tokens to keep free; ``None`` for the agent's reserve.
    """
    limit = profiles.profile(context.profile).SETTINGS.limit(window) if reserve is None else window - reserve
    return size(context) > limit


def size(context: Context) -> int:
    """Return the size of a context in tokens. A stale count refers to the context before the last compaction."""
    return context.tokens.counted_here if context.tokens.stale else context.tokens.used


def is_due(context: Context, line: ContextHistory, window: int, *, reserve: int | None = None) -> bool:
    """Return whether a compaction is due.

    A compaction is due if ``is_over`` returns true and the model has answered since the last compaction. So a
    compaction that did not shorten the context enough is not repeated at once (K6).
    """
    return _has_answer(line) and is_over(context, window, reserve=reserve)


NEW_SHARE = 0.05
"""Share of the limit that the entries after a compaction must have before the next automatic one."""


def why_not_due(context: Context, line: ContextHistory, limit: int | None) -> str:
    """Return the reason why no automatic compaction is due; "" if one is due.

    In addition to ``is_due``, no tool call may wait for its result, and the entries after the last compaction must have
    a minimum size by gitsession's own count. So no number of answers that report a full window, whatever the context
    contains, causes a loop (K6).

    Args:
        context: The context.
        line: The history of the context.
        limit: Number of tokens above which a compaction is due; ``None`` if unknown.
    """
    if limit is None:
        return "the context window is unknown: set gitsession.compactionWindow"
    tokens = size(context)
    if tokens <= limit:
        return f"the context has {tokens:,} tokens, and the limit is {limit:,}"
    if _waits_for_results(context):
        return "a tool call waits for its result"
    if not _has_answer(line):
        return "the model has not answered since the last compaction"
    after = {node.oid for node in itertools.takewhile(lambda node: node.kind != Compaction.kind, line.back())}
    is_first = not any(item.entry.kind == Compaction.kind for item in context.items)
    if not is_first:
        new = profiles.total(profiles.profile(context.profile), (item for item in context.items if item.oid in after))
        if new < limit * NEW_SHARE:
            return f"the entries after the last compaction have only {new:,} tokens"
    return ""


def _waits_for_results(context: Context) -> bool:
    """Return whether the last answer has a call without a result. A later prompt ends the wait, as after a crash."""
    results = set[str | None]()
    for entry in (item.entry for item in reversed(context.items)):
        if not isinstance(entry, Message) or entry.failed:
            continue
        if entry.role == "user":
            return False
        if entry.role == "tool":
            results.add(entry.tool_call_id)
        elif entry.role == "assistant":
            results.update(found.tool_call_id for block in entry.content if (found := result_in(block)) is not None)
            return any(call.id not in results for call in calls_in(entry))
    return False


def _has_answer(line: ContextHistory) -> bool:
    for node in line.back():
        if node.kind == Compaction.kind:
            return False
        if node.kind == Message.kind and node.role == "assistant":
            entry = line.entry(node)
            if isinstance(entry, Message) and not entry.failed:
                return True
    return False


def is_overflow(error: BaseException) -> bool:
    """Return whether the message of a provider's error indicates that a request was too long."""
    return bool(_OVERFLOW.search(str(error)))


def retry_once(
    send: Callable[[], Answer],
    compact: Callable[[], object],
    overflow: Callable[[BaseException], bool] = is_overflow,
) -> Answer:
    """Return the result of ``send``. If the request is too long, compact the context and send once more.

    Args:
        send: Function that sends the request.
        compact: Function that compacts the context. If it returns a falsy value, nothing was compacted, and the error
            of the first request is raised.
        overflow: Function that returns whether an error means that the request was too long.
    """
    try:
        return send()
    except Exception as error:
        if not overflow(error) or not compact():
            raise
    return send()
