"""Strategies: functions that select the entries that a compaction summarizes and keeps. A strategy changes nothing."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable
from typing import TypeAlias

from gitsession.compaction import pi_cuts
from gitsession.compaction.branch_summary import summary_plan
from gitsession.compaction.pi_cuts import Cut, Cutter
from gitsession.compaction.plan import CompactionRequest, Plan, cut_plan, empty_plan, touched_files
from gitsession.compaction.visible_entries import (
    UNREADABLE,
    ShownEntry,
    compaction_view,
    conversation,
    originals,
    unedited_entries,
)
from gitsession.context import profiles
from gitsession.context.estimates import by_bytes_of, ends_of
from gitsession.context.history import ContextHistory
from gitsession.context.profiles import Profile, total
from gitsession.context.profiles.visible_items import is_message
from gitsession.dataclass import dataclass
from gitsession.errors import NotFound, Refused
from gitsession.model.entries import Compaction, Message
from gitsession.model.usage import total_tokens

BY_ENTRY = ("from", "up-to")
"""Strategies that require an entry that the user chooses."""

DEFAULT = "pi"
DEFAULT_REQUEST = CompactionRequest()


Strategy: TypeAlias = Callable[[ContextHistory, Profile, CompactionRequest], Plan]
"""A function that plans a compaction at the end of a history.

If the history is damaged, the function raises the errors that ``context.build.context`` raises.
"""


def plan(
    line: ContextHistory,
    strategy: str = DEFAULT,
    *,
    profile: str = profiles.DEFAULT,
    request: CompactionRequest = DEFAULT_REQUEST,
) -> Plan:
    """Plan a compaction. Raises ``NotFound`` if the strategy or the profile is unknown."""
    if strategy not in STRATEGIES:
        raise NotFound(f"unknown strategy {strategy!r}", hint=f"choose one of {', '.join(STRATEGIES)}")
    last = next(line.back(), None)
    if last is not None and last.kind == Compaction.kind and strategy != "from":  # ``from`` begins a new branch
        return empty_plan(strategy, line, profiles.profile(profile), "the last entry is a compaction")
    request = _with_tokens(request, strategy, line, profiles.profile(profile))
    result = STRATEGIES[strategy](line, profiles.profile(profile), request)
    is_due = result.carried == UNREADABLE or 0 < request.reground_every <= result.carried
    return _reground(result, line) if is_due else result


def _with_tokens(
    request: CompactionRequest, strategy: str, line: ContextHistory, profile: Profile
) -> CompactionRequest:
    """Return ``request`` with ``keep_messages`` converted to a number of tokens, by which all strategies cut."""
    if request.keep_messages is None or strategy not in _CUT_BY_TOKENS:
        return request
    entries = [entry for entry in compaction_view(line, profile).entries if entry.items]
    kept = entries[len(entries) - request.keep_messages :] if request.keep_messages < len(entries) else entries
    tokens = _CUT_BY_TOKENS[strategy](total(profile, conversation(kept)))
    limit = tokens if request.keep_tokens is None else min(tokens, request.keep_tokens)
    return dataclasses.replace(request, keep_tokens=limit)


def _reground(base: Plan, line: ContextHistory) -> Plan:
    """Return ``base`` with earlier summaries replaced by the original entries, so that errors do not accumulate."""
    until = base.prefix[0].oid if base.prefix else base.first_kept.oid if base.first_kept else None
    history = originals(line, until)
    files = touched_files(item.entry for item in (*history, *base.prefix))
    return dataclasses.replace(base, history=history, previous="", carried=0, files=files)


@dataclass(frozen=True, slots=True)
class _Generation:
    cut: Cutter
    shown_only: bool = False
    """True if entries without shown items are ignored when the cut is determined."""
    raw: bool = False
    """True if parts of entries that the context leaves out are also counted."""
    scaled: bool = False
    """True if fewer tokens are kept when the provider counts more tokens than the agent (rule 17)."""


_GENERATIONS = {
    "pi": _Generation(pi_cuts.by_shown_items),
    "pi-0.73": _Generation(pi_cuts.by_messages),
    "omp": _Generation(pi_cuts.by_groups, shown_only=True, raw=True, scaled=True),
}


def plan_pi(line: ContextHistory, profile: Profile, request: CompactionRequest) -> Plan:
    """Plan like pi and omp: keep the newest tokens, and summarize everything before them (rules 18 to 28).

    If a turn is split, its beginning is summarized separately.
    """
    generation = _GENERATIONS.get(profile.NAME, _GENERATIONS["pi"])
    view = compaction_view(line, profile)
    entries = unedited_entries(line, (entry.node for entry in view.entries)) if generation.raw else view.entries
    view = dataclasses.replace(view, entries=tuple(e for e in entries if e.items or not generation.shown_only))
    keep = profile.SETTINGS.keep_recent if request.keep_tokens is None else request.keep_tokens
    keep = _scaled(line, view.entries, keep, profile) if generation.scaled else keep
    return cut_plan("pi", line, profile, view, generation.cut(view.entries, keep, profile))


def _scaled(line: ContextHistory, entries: tuple[ShownEntry, ...], keep: int, profile: Profile) -> int:
    estimated = total(profile, conversation(entries))
    counted = next(filter(None, map(_prompt_tokens, map(line.entry, line.back()))), 0)
    return max(keep * estimated // counted, 1) if counted > estimated > 0 else keep


def _prompt_tokens(entry: object) -> int:
    if not isinstance(entry, Message) or entry.role != "assistant" or entry.failed or entry.usage is None:
        return 0
    counts = [entry.usage.get(name) for name in ("input", "cacheRead", "cacheWrite")]
    return sum(count for count in counts if isinstance(count, int)) or total_tokens(entry.usage)


TAIL_TURNS = 2
TAIL_LEAST, TAIL_MOST, TAIL_SHARE = 2_000, 8_000, 0.25
"""Minimum and maximum of the tail's token budget, and the share of the usable context window between these limits."""

RESERVED = 20_000
"""Number of tokens of the context window that must stay free (O1)."""


def plan_opencode(line: ContextHistory, profile: Profile, request: CompactionRequest) -> Plan:
    """Plan like opencode: keep the last two turns if they fit into the budget; summarize everything else (K2 to K4)."""
    view = compaction_view(line, profile)
    return cut_plan("opencode", line, profile, view, Cut(tail(view.entries, tail_budget(request), profile)))


def tail_budget(request: CompactionRequest) -> int:
    """Return the token budget of the tail: the caller's, or the maximum if the context window is unknown."""
    if request.keep_tokens is not None:
        return request.keep_tokens
    if request.window is None:
        return TAIL_MOST
    return min(TAIL_MOST, max(TAIL_LEAST, int(TAIL_SHARE * max(request.window - RESERVED, 0))))


def tail(entries: tuple[ShownEntry, ...], budget: int, profile: Profile) -> int:
    """Return the index of the entry at which the tail starts (K2).

    Normally, a turn begins at this entry. If a turn fits into the budget only in part, the index is that of an entry
    inside this turn. If nothing fits, the index is ``len(entries)``.
    """
    first = len(entries)
    starts = [at for at, entry in enumerate(entries) if any(is_message(item.entry, "user") for item in entry.items)]
    for start in reversed(starts[-TAIL_TURNS:]):
        sizes = [total(profile, entry.items) for entry in entries[start:first]]
        if sum(sizes) <= budget:
            budget -= sum(sizes)
            first = start
            continue
        rest = sum(sizes)
        for at, before in enumerate(sizes[:-1], start + 1):
            rest -= before  # tokens from ``at`` to ``first``
            if rest <= budget and any(profile.can_cut(item.entry) for item in entries[at].items):
                return at
        break
    return first


USER_TOKENS_MAX = 20_000

_QUOTED = re.compile(r"\A<user-messages>\n.*?\n</user-messages>\n*", re.DOTALL)


def plan_codex(line: ContextHistory, profile: Profile, request: CompactionRequest) -> Plan:
    """Plan like codex: quote the user's newest messages, and summarize everything else (C5).

    No entry is kept. The quoted messages precede the text of the summary, oldest first. Like codex, a later compaction
    quotes the same messages again. So they are read from the history and not from the previous summary.
    """
    view = compaction_view(line, profile)
    cut = cut_plan("codex", line, profile, view, Cut(len(view.entries)))
    if cut.nothing:
        return cut
    texts = (item.entry.text.strip() for item in originals(line, None) if is_message(item.entry, "user"))
    quoted = newest([*filter(None, texts)], USER_TOKENS_MAX if request.keep_tokens is None else request.keep_tokens)
    # A closing tag in a message would end the block too early.
    escaped = (text.replace("</user-messages>", "< /user-messages>") for text in quoted)
    block = "<user-messages>\n" + "\n\n".join(escaped) + "\n</user-messages>" if quoted else ""
    return dataclasses.replace(cut, previous=_QUOTED.sub("", cut.previous), quoted=block)


def newest(texts: list[str], tokens_max: int) -> list[str]:
    """Return the last of ``texts`` that fit into ``tokens_max``, oldest first.

    The newest text that does not fit completely is shortened in the middle.
    """
    found: list[str] = []
    room = tokens_max
    for text in reversed(texts):
        size = by_bytes_of(text)
        if size > room:
            if room:
                start, omitted, end = ends_of(text, room)
                found.append(f"{start}[... {omitted} tokens ...]{end}")
            break
        found.append(text)
        room -= size
    return found[::-1]


_CUT_BY_TOKENS: dict[str, Callable[[int], int]] = {
    "pi": lambda tokens: tokens,
    "opencode": lambda tokens: tokens,
    "aider": lambda tokens: 2 * tokens + 2,  # keeps less than half of the limit
}
"""The value of ``keep_tokens`` with which a strategy keeps a number of messages, by strategy."""


LEAST, MOST = 1_024, 8_192
"""Minimum and maximum of the token budget for finished messages, which Aider calls ``done_messages`` (S1)."""

FEW = 4
"""Number of messages up to which all of them are summarized."""


def plan_aider(line: ContextHistory, profile: Profile, request: CompactionRequest) -> Plan:
    """Plan like Aider: keep the newest half, and end the summarized part with an answer (S2).

    Aider discards a part of the older half. This strategy summarizes all of it.
    """
    view = compaction_view(line, profile)
    limit = _limit(request)
    count = sum(len(entry.items) for entry in view.entries)
    if total(profile, conversation(view.entries)) <= limit:
        return empty_plan("aider", line, profile, "all entries would be kept")
    first = len(view.entries) if count <= FEW else head(view.entries, limit // 2, profile)
    return cut_plan("aider", line, profile, view, Cut(first))


def head(entries: tuple[ShownEntry, ...], half: int, profile: Profile) -> int:
    """Return the index of the first entry that is kept.

    The kept entries have fewer than ``half`` tokens and begin after an answer. If there are no such entries, the index
    is ``len(entries)``.
    """
    first, size = len(entries), 0
    while first:
        size += total(profile, entries[first - 1].items)
        if size >= half:
            break
        first -= 1
    ends = _ends_of_answers(entries)
    while first and not ends[first]:
        first -= 1
    return first or len(entries)


def _limit(request: CompactionRequest) -> int:
    if request.keep_tokens is not None:
        return request.keep_tokens
    return MOST if request.window is None else min(max(request.window // 16, LEAST), MOST)


def _ends_of_answers(entries: tuple[ShownEntry, ...]) -> list[bool]:
    """Return, for each index, whether an answer precedes it and no tool result follows it directly."""
    ends = [False] * (len(entries) + 1)
    answered = False
    for at, entry in enumerate(entries, 1):
        answered = is_message(entry.items[-1].entry, "assistant") if entry.items else answered
        ends[at] = answered
    followed = False
    for at in range(len(entries) - 1, -1, -1):
        followed = is_message(entries[at].items[0].entry, "tool") if entries[at].items else followed
        ends[at] = ends[at] and not followed
    return ends


def plan_from(line: ContextHistory, profile: Profile, request: CompactionRequest) -> Plan:
    """Plan a summary from a chosen entry to the leaf. The session continues from the point before that entry (W2).

    The summarized entries stay on their branch. The summary begins a new branch at the parent of the chosen entry.
    Raises ``Refused`` if the chosen entry is not on this branch or is the root.
    """
    if request.at is None:
        return empty_plan("from", line, profile, "no entry was passed as 'at'")
    chosen = request.at.oid
    history = line.back()
    nodes = list(itertools.takewhile(lambda node: node.oid != chosen, history))
    onto = next(history, None)
    if onto is None:
        raise Refused(
            f"cannot summarize from entry {chosen[:12]}: it is not on this branch, or it is the root of the branch",
            hint="choose a later entry of this branch",
        )
    return summary_plan("from", line, profile, [*nodes, request.at][::-1], onto)


def plan_up_to(line: ContextHistory, profile: Profile, request: CompactionRequest) -> Plan:
    """Plan a summary of all entries before a chosen entry. The chosen entry and later entries are kept (W2).

    Raises ``Refused`` if the chosen entry is not in the context or is a tool result. A tool result must stay with its
    call.
    """
    view = compaction_view(line, profile)
    if request.at is None:
        return empty_plan("up-to", line, profile, "no entry was passed as 'at'")
    if request.at.kind == Message.kind and request.at.role == "tool":
        raise Refused(
            f"cannot summarize up to entry {request.at.oid[:12]}: it is a tool result, which must stay with its call",
            hint="choose the call, or an entry after the result",
        )
    at = next((at for at, entry in enumerate(view.entries) if entry.node.oid == request.at.oid), None)
    if at is None:
        raise Refused(
            f"cannot summarize up to entry {request.at.oid[:12]}: it is not in the context of this branch",
            hint="run `gitsession context` to list the entries of the context",
        )
    return cut_plan("up-to", line, profile, view, Cut(at))


STRATEGIES: dict[str, Strategy] = {
    "pi": plan_pi,
    "opencode": plan_opencode,
    "codex": plan_codex,
    "aider": plan_aider,
    "from": plan_from,
    "up-to": plan_up_to,
}
"""Values of ``--strategy``, each with the function that plans it. The first one is the default."""
