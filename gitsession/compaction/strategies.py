"""Strategies, which select the entries that a compaction summarizes and keeps. Each is a function that only reads."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from gitsession.compaction import pi_cuts
from gitsession.compaction.branch_summary import left
from gitsession.compaction.pi_cuts import Cut, Cutter
from gitsession.compaction.plan import CompactionRequest, Plan, cut_plan, nothing, touched
from gitsession.compaction.visible_entries import (
    UNREADABLE,
    CompactionView,
    ShownEntry,
    conversation,
    originals,
    raw,
    sight,
)
from gitsession.context import profiles
from gitsession.context.history import ContextHistory
from gitsession.context.profiles import Profile, total
from gitsession.context.value import Item, Shown
from gitsession.errors import NotFound, Refused
from gitsession.model.entries import Compaction, Message
from gitsession.model.usage import total_tokens

BY_ENTRY = ("from", "up-to")
"""Strategies that require an entry, which the user chooses."""

DEFAULT = "pi"
NO_WISHES = CompactionRequest()


Strategy: TypeAlias = Callable[[ContextHistory, Profile, CompactionRequest], Plan]
"""A function that plans a compaction at the end of a history.

If the history is damaged, it raises the same errors as the construction of a context.
"""


def plan(
    line: ContextHistory, strategy: str = DEFAULT, *, profile: str = profiles.DEFAULT,
    ask: CompactionRequest = NO_WISHES
) -> Plan:
    """Plan a compaction. Raises ``NotFound`` if the strategy or the profile is unknown."""
    if strategy not in STRATEGIES:
        raise NotFound(f"unknown strategy {strategy!r}", hint=f"choose one of {', '.join(STRATEGIES)}")
    last = next(line.back(), None)
    if last is not None and last.kind == Compaction.kind and strategy != "from":  # ``from`` begins another branch
        return nothing(strategy, line, profiles.profile(profile), "the last entry is a compaction")
    made = STRATEGIES[strategy](line, profiles.profile(profile), ask)
    enough = made.carried == UNREADABLE or 0 < ask.reground_every <= made.carried
    return _regrounded(made, line) if enough else made


def _regrounded(made: Plan, line: ContextHistory) -> Plan:
    """Return the plan with the original entries instead of earlier summaries, so that errors do not accumulate."""
    until = made.prefix[0].oid if made.prefix else made.first_kept.oid if made.first_kept else None
    history = originals(line, until)
    files = touched(item.entry for item in (*history, *made.prefix))
    return dataclasses.replace(made, history=history, previous="", carried=0, files=files)


@dataclass(frozen=True, slots=True)
class _Generation:
    cut: Cutter
    shown_only: bool = False
    """True if entries without shown items are left out of the range."""
    raw: bool = False
    """True if entries are counted in full although the context leaves out parts of them."""
    scaled: bool = False
    """True if fewer tokens are kept when the provider counts more tokens than the agent (rule 17)."""


_GENERATIONS = {
    "pi": _Generation(pi_cuts.by_what_is_shown),
    "pi-0.73": _Generation(pi_cuts.by_messages),
    "omp": _Generation(pi_cuts.by_groups, shown_only=True, raw=True, scaled=True),
}


def plan_pi(line: ContextHistory, profile: Profile, ask: CompactionRequest) -> Plan:
    """Plan like pi and omp: keep the newest tokens, and summarize everything before them (rules 18 to 28).

    If a turn is split, its beginning is summarized separately.
    """
    how = _GENERATIONS.get(profile.NAME, _GENERATIONS["pi"])
    seen = sight(line, profile)
    places = _counted_places(line, seen, how)
    keep = profile.SETTINGS.keep_recent if ask.keep_tokens is None else ask.keep_tokens
    cut = how.cut(places, _scaled(line, places, keep, profile) if how.scaled else keep, profile)
    return cut_plan("pi", line, profile, seen, places, cut)


def _counted_places(line: ContextHistory, seen: CompactionView, how: _Generation) -> tuple[ShownEntry, ...]:
    places = seen.places
    if how.raw:
        places = raw(line, (place.node for place in places))
    return tuple(place for place in places if place.items) if how.shown_only else places


def _scaled(line: ContextHistory, places: tuple[ShownEntry, ...], keep: int, profile: Profile) -> int:
    ours = total(profile, conversation(places))
    theirs = next(filter(None, map(_prompt_tokens, map(line.entry, itertools.islice(line.back(), None)))), 0)
    return max(keep * ours // theirs, 1) if theirs > ours > 0 else keep


def _prompt_tokens(entry: object) -> int:
    if not isinstance(entry, Message) or entry.role != "assistant" or entry.failed or entry.usage is None:
        return 0
    stated = [entry.usage.get(name) for name in ("input", "cacheRead", "cacheWrite")]
    return sum(count for count in stated if isinstance(count, int)) or total_tokens(entry.usage)


TAIL_TURNS = 2
TAIL_LEAST, TAIL_MOST, TAIL_SHARE = 2_000, 8_000, 0.25
"""Bounds of the tail's token budget, and its share of the usable window within these bounds."""

RESERVED = 20_000
"""Number of tokens of the context window that must stay free (O1)."""


def plan_opencode(line: ContextHistory, profile: Profile, ask: CompactionRequest) -> Plan:
    """Plan like opencode: keep the last two turns if they fit, and summarize everything else (K2 to K4)."""
    seen = sight(line, profile)
    return cut_plan("opencode", line, profile, seen, seen.places, Cut(tail(seen.places, room(ask), profile)))


def room(ask: CompactionRequest) -> int:
    """Return the token budget of the tail. If the context window is unknown, this is the maximum."""
    if ask.keep_tokens is not None:
        return ask.keep_tokens
    if ask.window is None:
        return TAIL_MOST
    return min(TAIL_MOST, max(TAIL_LEAST, int(TAIL_SHARE * max(ask.window - RESERVED, 0))))


def tail(places: tuple[ShownEntry, ...], budget: int, profile: Profile) -> int:
    """Return the index at which the tail starts (K2).

    This is the start of a turn, an entry inside the turn that does not fit, or the end if nothing fits.
    """
    first = len(places)
    starts = [at for at, place in enumerate(places) if _is_user(place)][-TAIL_TURNS:]
    for start in reversed(starts):
        sizes = [total(profile, place.items) for place in places[start:first]]
        if sum(sizes) <= budget:
            budget -= sum(sizes)
            first = start
            continue
        rest = sum(sizes)
        for at, before in enumerate(sizes[:-1], start + 1):
            rest -= before  # tokens from ``at`` to ``first``
            if rest <= budget and any(profile.can_cut(item.entry) for item in places[at].items):
                return at
        break
    return first


def _is_user(place: ShownEntry) -> bool:
    return any(isinstance(item.entry, Message) and item.entry.role == "user" for item in place.items)


USER_TOKENS_MAX = 20_000
BYTES_PER_TOKEN = 4

_QUOTED = re.compile(r"\A<user-messages>\n.*?\n</user-messages>\n*", re.DOTALL)


def plan_codex(line: ContextHistory, profile: Profile, ask: CompactionRequest) -> Plan:
    """Plan like codex: quote the newest messages of the user, and summarize everything else (C5).

    No entry is kept. The quoted messages are in the summary before its text, oldest first. codex quotes the same
    messages again in later compactions, so they are read from the history and not from the previous summary.
    """
    seen = sight(line, profile)
    made = cut_plan("codex", line, profile, seen, seen.places, Cut(len(seen.places)))
    if made.nothing:
        return made
    words = [text for item in originals(line, None) if (text := _user_texts(item.entry))]
    quoted = newest(words, USER_TOKENS_MAX if ask.keep_tokens is None else ask.keep_tokens)
    block = "<user-messages>\n" + "\n\n".join(map(_escape_tag, quoted)) + "\n</user-messages>" if quoted else ""
    return dataclasses.replace(made, previous=_QUOTED.sub("", made.previous), quoted=block)


def newest(words: list[str], tokens_max: int) -> list[str]:
    """Return the last of ``words`` that fit, oldest first. The newest one that does not fit is cut in the middle."""
    found: list[str] = []
    left = tokens_max
    for text in reversed(words):
        size = -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)
        if size > left:
            if left:
                found.append(_without_middle(text, left))
            break
        found.append(text)
        left -= size
    return found[::-1]


def _without_middle(text: str, tokens: int) -> str:
    data = text.encode("utf-8", "replace")
    half = tokens * BYTES_PER_TOKEN // 2
    gone = -(-(len(data) - 2 * half) // BYTES_PER_TOKEN)
    start, end = data[:half].decode("utf-8", "ignore"), data[len(data) - half :].decode("utf-8", "ignore")
    return f"{start}[... {gone} tokens ...]{end}"


def _user_texts(entry: Shown) -> str:
    return entry.text.strip() if isinstance(entry, Message) and entry.role == "user" else ""


def _escape_tag(text: str) -> str:
    # A closing tag in a message would end the block too early.
    return text.replace("</user-messages>", "< /user-messages>")


LEAST, MOST = 1_024, 8_192
"""Bounds of the token budget for finished messages, which Aider calls ``done_messages`` (S1)."""

FEW = 4
"""Maximum number of messages at which all of them are summarized."""


def plan_aider(line: ContextHistory, profile: Profile, ask: CompactionRequest) -> Plan:
    """Plan like Aider: keep the newest half, and end the summarized part with an answer (S2).

    Unlike in Aider, no part of the older half is lost.
    """
    seen = sight(line, profile)
    limit = _limit(ask)
    said = sum(len(place.items) for place in seen.places)
    if total(profile, seen.items) <= limit:
        return nothing("aider", line, profile, "all entries would be kept")
    first = len(seen.places) if said <= FEW else head(seen.places, limit // 2, profile)
    return cut_plan("aider", line, profile, seen, seen.places, Cut(first))


def head(places: tuple[ShownEntry, ...], half: int, profile: Profile) -> int:
    """Return the start of a tail of less than ``half`` tokens that follows an answer; the end if there is none."""
    first, size = len(places), 0
    while first:
        size += total(profile, places[first - 1].items)
        if size >= half:
            break
        first -= 1
    ends = _ends_of_answers(places)
    while first and not ends[first]:
        first -= 1
    return first or len(places)


def _limit(ask: CompactionRequest) -> int:
    if ask.keep_tokens is not None:
        return ask.keep_tokens
    return MOST if ask.window is None else min(max(ask.window // 16, LEAST), MOST)


def _ends_of_answers(places: tuple[ShownEntry, ...]) -> list[bool]:
    """Return, for each index, whether an answer precedes it and no tool result follows it directly."""
    ends = [False] * (len(places) + 1)
    answered = False
    for at, place in enumerate(places, 1):
        answered = _is(place.items[-1], "assistant") if place.items else answered
        ends[at] = answered
    followed = False
    for at in range(len(places) - 1, -1, -1):
        followed = _is(places[at].items[0], "tool") if places[at].items else followed
        ends[at] = ends[at] and not followed
    return ends


def _is(item: Item, role: str) -> bool:
    return isinstance(item.entry, Message) and item.entry.role == role


def plan_from(line: ContextHistory, profile: Profile, ask: CompactionRequest) -> Plan:
    """Plan a summary from a chosen entry to the leaf. The session then continues before that entry (W2).

    The summarized entries stay on their branch. The summary begins a new branch before the chosen entry.

    Raises ``Refused`` if the entry is not on this branch or is its root.
    """
    if ask.at is None:
        return nothing("from", line, profile, "no entry was passed as 'at'")
    chosen = ask.at.oid
    back = line.back()
    nodes = list(itertools.takewhile(lambda node: node.oid != chosen, back))
    onto = next(back, None)
    if onto is None:
        raise Refused(
            f"cannot summarize from {chosen[:12]}: it is not on this branch, or is its root",
            hint="choose a later entry of this branch",
        )
    return left("from", line, profile, [*nodes, ask.at][::-1], onto)


def plan_up_to(line: ContextHistory, profile: Profile, ask: CompactionRequest) -> Plan:
    """Plan a summary of all entries before a chosen entry. The chosen entry and later entries are kept (W2).

    Raises ``Refused`` if the entry is not in the context, or if it is a tool result, which must stay with its call.
    """
    seen = sight(line, profile)
    if ask.at is None:
        return nothing("up-to", line, profile, "no entry was passed as 'at'")
    if ask.at.kind == Message.kind and ask.at.role == "tool":
        raise Refused(
            f"cannot summarize up to {ask.at.oid[:12]}: a tool result must stay with its call",
            hint="choose the call, or an entry after the result",
        )
    at = next((at for at, place in enumerate(seen.places) if place.node.oid == ask.at.oid), None)
    if at is None:
        raise Refused(
            f"cannot summarize up to {ask.at.oid[:12]}: it is not in the context of this branch",
            hint="run `gitsession context` to list the entries of the context",
        )
    return cut_plan("up-to", line, profile, seen, seen.places, Cut(at))


STRATEGIES: dict[str, Strategy] = {
    "pi": plan_pi,
    "opencode": plan_opencode,
    "codex": plan_codex,
    "aider": plan_aider,
    "from": plan_from,
    "up-to": plan_up_to,
}
"""Values of ``--strategy``, each with the function that plans it. The first one is the default."""
