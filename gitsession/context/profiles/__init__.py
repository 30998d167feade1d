"""Profiles: the rules by which each agent builds a context, as subclasses of ``Profile``, and a table of them.

The rules are numbered (docs/reference/context.md, "Profiles"). Each rule that a module follows is tested by a test with
its number. Modules are loaded on demand.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, cast

from gitsession.context.estimates import by_characters
from gitsession.context.value import Item, Shown, State
from gitsession.dataclass import dataclass
from gitsession.errors import NotFound
from gitsession.model.entries import BranchSummary, Compaction, CustomMessage, Entry, Message
from gitsession.model.usage import total_tokens

if TYPE_CHECKING:
    from gitsession.context.history import ContextHistory

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
"""Values of ``--profile``, each with its class, relative to this package. The first one is the default."""

DEFAULT = "pi"


@dataclass(frozen=True, slots=True)
class Selection:
    """The items and the state that a profile selects from a history.

    Attributes:
        items: Items of the context, in order.
        state: State at the end of the history.
        fresh: Index of the first item from which on the agent accepts token counts by a provider.
        current: Index of the first item from which on such counts are up to date. After the counts of earlier items,
            the context was compacted, edited or pruned.
    """

    items: tuple[Item, ...]
    state: State
    fresh: int = 0
    current: int = 0


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """The token limits of an agent's compactions (rules 16 and 17).

    Attributes:
        reserve: Number of tokens of the context window that must stay free.
        reserve_share: The same limit as a share of the context window. The larger of the two limits applies.
        keep_recent: Number of tokens at the end of the history that are not summarized.
    """

    reserve: int = 16_384
    reserve_share: float = 0.0
    keep_recent: int = 20_000

    def limit(self, window: int) -> int:
        """Return the number of tokens above which a compaction is due. ``window``: context window in tokens."""
        return window - max(self.reserve, int(window * self.reserve_share))


class Profile(ABC):
    """The rules of one agent. The defaults are pi's rules."""

    NAME: str
    SETTINGS = CompactionSettings()
    OWN_COUNT = False
    """True if ``estimate`` is used even if an exact tokenizer is installed, so that the numbers are the agent's own."""

    COUNT_MIN = 1
    """Minimum number of tokens that an answer must report for its count to be used."""

    EXTENSION_ROLE = "user"
    """Role with which the texts of extensions are sent to the model."""

    SENDS_SYSTEM = False
    """True if system messages of the session are sent to the model."""

    @abstractmethod
    def select(self, line: ContextHistory) -> Selection:
        """Return the items that the model receives, in order. The history is read only as far as necessary."""

    def estimate(self, entry: Shown) -> int:
        """Return the agent's estimate for one shown entry, in tokens."""
        return by_characters(entry)

    def usage(self, items: Sequence[Item], fresh: int) -> tuple[int, int] | None:
        """Return the last accepted count by a provider, in tokens, and the number of items that it covers (rule 15)."""
        for at in range(len(items) - 1, fresh - 1, -1):
            entry = items[at].entry
            if isinstance(entry, Message) and entry.role == "assistant" and not entry.failed:
                total = total_tokens(entry.usage)
                if entry.usage is not None and total >= self.COUNT_MIN:
                    return total, at + 1
        return None

    def llm_role(self, entry: Shown) -> str | None:
        """Return the role with which an entry is sent to the model; ``None`` if it is not sent (rule 12)."""
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
        """Return whether a compaction may keep ``entry`` and all later entries and summarize the others (rule 18)."""
        return _is_message_of(entry, "user", "assistant", "shell", "custom")

    def starts_turn(self, entry: Entry) -> bool:
        """Return whether a turn begins at ``entry``, so that a cut before it splits no turn (rule 21)."""
        return _is_message_of(entry, "user", "shell", "custom")


def _is_message_of(entry: Entry, *roles: str) -> bool:
    """Return whether an entry is a message with one of ``roles``, or text that is sent as such a message."""
    if isinstance(entry, Message):
        return entry.role in roles and "role" not in entry.extra
    return isinstance(entry, BranchSummary | CustomMessage)


def of_agent(agent: str) -> str:
    """Return the name of the profile for an agent's sessions: its own profile if there is one, else the default."""
    return agent if agent in PROFILES else DEFAULT


@functools.cache
def profile(name: str) -> Profile:
    """Return one of ``PROFILES``. Raises ``NotFound`` if the name is unknown."""
    if name not in PROFILES:
        raise NotFound(f"unknown profile {name!r}", hint=f"choose one of {', '.join(PROFILES)}")
    module, _, kind = PROFILES[name].partition(".")
    return cast(Profile, getattr(import_module(f"{__name__}.{module}"), kind)())


def total(profile: Profile, items: Iterable[Item]) -> int:
    """Return the agent's estimate for all ``items``, in tokens."""
    return sum(profile.estimate(item.entry) for item in items)
