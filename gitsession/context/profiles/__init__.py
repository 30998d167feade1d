"""Profiles: a subclass of ``Profile`` with each agent's rules of the context, and their table.

Rules are numbered in semantics.md. A module is loaded when it is asked for.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from gitsession.context.history import ContextHistory
from gitsession.context.profiles.estimates import by_characters
from gitsession.context.value import Item, Shown, State
from gitsession.errors import NotFound
from gitsession.model.entries import BranchSummary, Compaction, CustomMessage, Entry, Message
from gitsession.model.usage import total_tokens

PROFILES = {
    "pi": "pi.PiProfile",
    "pi-0.73": "pi.Pi073Profile",
    "omp": "omp.OmpProfile",
    "claude": "claude.ClaudeProfile",
    "codex": "codex.CodexProfile",
    "librecode": "librecode.LibrecodeProfile",
    "opencode": "opencode.OpencodeProfile",
    "aider": "aider.AiderProfile",
}
"""Values of ``--profile``, and the class below this folder that has the rules. The first is the default."""

DEFAULT = "pi"


@dataclass(frozen=True, slots=True)
class Selection:
    """What of a line the model sees.

    ``fresh``: from this item on the agent takes a provider's count for how much it is now. ``current``: from this one
    on that is true; what is before was compacted, edited or pruned since.
    """

    items: tuple[Item, ...]
    state: State
    fresh: int = 0
    current: int = 0


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """When an agent compacts, and how much it keeps, in tokens (rules 16 and 17).

    ``reserve``: what must stay free of the window, and the same as a share of the window, the larger counts.
    ``keep_recent``: how much of the end stays as it is.
    """

    reserve: int = 16_384
    reserve_share: float = 0.0
    keep_recent: int = 20_000


class Profile(ABC):
    """The rules of one agent, in a module of this folder. Those that it does not state are pi's."""

    NAME: str
    SETTINGS = CompactionSettings()
    OWN_COUNT = False
    """Whether ``estimate`` is to be used even where an exact tokenizer is installed: the agent's figures are wanted."""

    COUNT_MIN = 1
    """Tokens that an answer must report at least for its count to be trusted."""

    EXTENSION_ROLE = "user"
    """The role under which text of an extension goes to the model."""

    SENDS_SYSTEM = False
    """True if system messages of the session go to the model."""

    @abstractmethod
    def select(self, line: ContextHistory) -> Selection:
        """Return what the model sees of a line, in its order. Walk no further back than needed."""

    def estimate(self, entry: Shown) -> int:
        """Return how many tokens the agent thinks one shown entry takes."""
        return by_characters(entry, images_of_users=True)

    def usage(self, items: Sequence[Item], fresh: int) -> tuple[int, int] | None:
        """Return the last provider's count that can be trusted: tokens, and how many items it covers (rule 15)."""
        for at in range(len(items) - 1, fresh - 1, -1):
            entry = items[at].entry
            if isinstance(entry, Message) and entry.role == "assistant" and not entry.failed:
                total = total_tokens(entry.usage)
                if entry.usage is not None and total >= self.COUNT_MIN:
                    return total, at + 1
        return None

    def llm_role(self, entry: Shown) -> str | None:
        """Return as whose words an entry goes to the model, in our roles; ``None`` if it does not (rule 12)."""
        if isinstance(entry, Compaction | BranchSummary):
            return "user"
        if isinstance(entry, CustomMessage):
            return self.EXTENSION_ROLE
        if entry.role == "shell":
            return None if entry.is_excluded else "user"
        if entry.role == "custom":
            return self.EXTENSION_ROLE if "role" not in entry.extra else None
        return entry.role if entry.role != "system" or self.SENDS_SYSTEM else None

    def can_cut(self, entry: Entry) -> bool:
        """Return whether a compaction may keep from this entry on (rule 18)."""
        return _is_message_of(entry, "user", "assistant", "shell", "custom")

    def starts_turn(self, entry: Entry) -> bool:
        """Return whether a turn begins here, so that a cut at it splits none (rule 21)."""
        return _is_message_of(entry, "user", "shell", "custom")


def _is_message_of(entry: Entry, *roles: str) -> bool:
    """Return whether an entry is a message of one of ``roles``, or words that go as such."""
    if isinstance(entry, Message):
        return entry.role in roles and "role" not in entry.extra
    return isinstance(entry, BranchSummary | CustomMessage)


def of_agent(agent: str) -> str:
    """By whose rules the context of an agent's session is made, where nobody says: its own, if we know them."""
    return agent if agent in PROFILES else DEFAULT


@functools.cache
def profile(name: str) -> Profile:
    """Return one of ``PROFILES``. Raises ``NotFound`` for another name."""
    if name not in PROFILES:
        raise NotFound(f"there is no profile {name!r}", hint=f"known are {', '.join(PROFILES)}")
    module, _, kind = PROFILES[name].partition(".")
    return cast(Profile, getattr(import_module(f"{__name__}.{module}"), kind)())


def total(profile: Profile, items: Iterable[Item]) -> int:
    """How many tokens the agent thinks ``items`` take together."""
    return sum(profile.estimate(item.entry) for item in items)
