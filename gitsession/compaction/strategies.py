"""Strategies that choose what is summarised and what stays: a function for each agent's way, one table. Read only."""

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
"""Those that go by an entry the user chose."""

DEFAULT = "pi"
NO_WISHES = CompactionRequest()


Strategy: TypeAlias = Callable[[ContextHistory, Profile, CompactionRequest], Plan]
"""A function that plans at the end of a history. Raises what a context raises where the history is damaged."""


def plan(
    line: ContextHistory, strategy: str = DEFAULT, *, profile: str = profiles.DEFAULT,
    ask: CompactionRequest = NO_WISHES
) -> Plan:
    """Plan a compaction. Raises ``NotFound`` for another name than those of the tables."""
    if strategy not in STRATEGIES:
        raise NotFound(f"there is no strategy {strategy!r}", hint=f"known are {', '.join(STRATEGIES)}")
    last = next(line.back(), None)
    if last is not None and last.kind == Compaction.kind and strategy != "from":  # that one begins another branch
        return nothing(strategy, line, profiles.profile(profile), "the last entry is a compaction")
    made = STRATEGIES[strategy](line, profiles.profile(profile), ask)
    enough = made.carried == UNREADABLE or 0 < ask.reground_every <= made.carried
    return _regrounded(made, line) if enough else made


def _regrounded(made: Plan, line: ContextHistory) -> Plan:
    """Against drift: what the next summary stands for, from the entries themselves, which are all still there."""
    until = made.prefix[0].oid if made.prefix else made.first_kept.oid if made.first_kept else None
    history = originals(line, until)
    files = touched(item.entry for item in (*history, *made.prefix))
    return dataclasses.replace(made, history=history, previous="", carried=0, files=files)


@dataclass(frozen=True, slots=True)
class _Generation:
    cut: Cutter
    shown_only: bool = False
    """True if entries that show nothing stay out of the range."""
    raw: bool = False
    """True if entries count in full, though the context leaves some of them out."""
    scaled: bool = False
    """True if less is kept when the provider counts more tokens than the agent does (rule 17)."""


_GENERATIONS = {
    "pi": _Generation(pi_cuts.by_what_is_shown),
    "pi-0.73": _Generation(pi_cuts.by_messages),
    "omp": _Generation(pi_cuts.by_groups, shown_only=True, raw=True, scaled=True),
}


def plan_pi(line: ContextHistory, profile: Profile, ask: CompactionRequest) -> Plan:
    """pi's compaction, and omp's: keep the newest tokens, summarise what is before (rules 18 to 28).

    A split turn is summarised apart.
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
"""The room for the tail in tokens: a quarter of what can be used, within these bounds."""

RESERVED = 20_000
"""Return the tokens of the window that must stay free (O1)."""


def plan_opencode(line: ContextHistory, profile: Profile, ask: CompactionRequest) -> Plan:
    """opencode's compaction: the last two turns stay if there is room for them, all else is summarised (K2 to K4)."""
    seen = sight(line, profile)
    return cut_plan("opencode", line, profile, seen, seen.places, Cut(tail(seen.places, room(ask), profile)))


def room(ask: CompactionRequest) -> int:
    """For the tail, in tokens. Where nobody said how large the window is, as much as there ever is."""
    if ask.keep_tokens is not None:
        return ask.keep_tokens
    if ask.window is None:
        return TAIL_MOST
    return min(TAIL_MOST, max(TAIL_LEAST, int(TAIL_SHARE * max(ask.window - RESERVED, 0))))


def tail(places: tuple[ShownEntry, ...], budget: int, profile: Profile) -> int:
    """Return the start of the tail (K2): a turn, or a place in the one that does not fit; the end if nothing fits."""
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
            rest -= before  # what is from here to ``first``
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
    """codex's own compaction: the user's newest words stay as they are, all else is summarised (C5).

    No entry stays: the words stand in the summary, before it, oldest first. What codex keeps of them across compactions
    are the same words, so they are taken from the line itself.
    """
    seen = sight(line, profile)
    made = cut_plan("codex", line, profile, seen, seen.places, Cut(len(seen.places)))
    if made.nothing:
        return made
    words = [text for item in originals(line, None) if (text := _users_words(item.entry))]
    quoted = newest(words, USER_TOKENS_MAX if ask.keep_tokens is None else ask.keep_tokens)
    block = "<user-messages>\n" + "\n\n".join(map(_harmless, quoted)) + "\n</user-messages>" if quoted else ""
    return dataclasses.replace(made, previous=_QUOTED.sub("", made.previous), quoted=block)


def newest(words: list[str], tokens_max: int) -> list[str]:
    """The last of ``words`` for which there is room; of the first for which there is not, beginning and end."""
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


def _users_words(entry: Shown) -> str:
    return entry.text.strip() if isinstance(entry, Message) and entry.role == "user" else ""


def _harmless(text: str) -> str:
    # What closes the block inside would end it before its end.
    return text.replace("</user-messages>", "< /user-messages>")


LEAST, MOST = 1_024, 8_192
"""The bounds of how much is kept of what is done, in tokens (S1)."""

FEW = 4
"""Of so few messages all are summarised."""


def plan_aider(line: ContextHistory, profile: Profile, ask: CompactionRequest) -> Plan:
    """Aider's way: the newest half stays, the head ends with an answer (S2).

    Unlike there, no part of the head is lost.
    """
    seen = sight(line, profile)
    limit = _limit(ask)
    said = sum(len(place.items) for place in seen.places)
    if total(profile, seen.items) <= limit:
        return nothing("aider", line, profile, "all of it would be kept")
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
    """For each place: whether what is before ends with an answer, and what is there does not begin with its results."""
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
    """Summarise from an entry the user chose to the leaf; what is before it stays, and the work goes on there (W2).

    What was said stays on its branch, as it was; the summary begins another one, before the chosen entry.

    Raises ``Refused`` where the entry is not on the line, or is its root.
    """
    if ask.at is None:
        return nothing("from", line, profile, "no entry was named to begin from")
    chosen = ask.at.oid
    back = line.back()
    nodes = list(itertools.takewhile(lambda node: node.oid != chosen, back))
    onto = next(back, None)
    if onto is None:
        raise Refused(f"{chosen[:12]} is not on this branch, or is where it begins", hint="name an entry behind it")
    return left("from", line, profile, [*nodes, ask.at][::-1], onto)


def plan_up_to(line: ContextHistory, profile: Profile, ask: CompactionRequest) -> Plan:
    """Summarise what stands before an entry the user chose; from it on all stays (W2).

    Raises ``Refused`` where the entry is not in sight, or is a tool's result, which must stay with its call.
    """
    seen = sight(line, profile)
    if ask.at is None:
        return nothing("up-to", line, profile, "no entry was named up to which")
    if ask.at.kind == Message.kind and ask.at.role == "tool":
        raise Refused("a tool's result stays with its call", hint="name the call, or an entry behind the result")
    at = next((at for at, place in enumerate(seen.places) if place.node.oid == ask.at.oid), None)
    if at is None:
        raise Refused(
            f"{ask.at.oid[:12]} is not in the context of this branch", hint="`gitsession context` shows what is"
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
"""The values of ``--strategy``, and the function that plans each. The first is the default."""
