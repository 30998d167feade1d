"""How each agent makes its context: one module each, one protocol, one table. The rules are numbered in semantics.md.

A module is loaded when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, cast

from gitsession.context.history import ContextHistory
from gitsession.context.value import Item, Shown, State
from gitsession.errors import NotFound
from gitsession.model.entries import Entry

PROFILES = {
    "pi": "pi", "pi-0.73": "pi_073", "omp": "omp", "claude": "claude", "codex": "codex", "librecode": "librecode",
    "opencode": "opencode", "aider": "aider",
}  # fmt: skip
"""What ``--profile`` takes, and the module of this folder that knows its rules. The first is the default."""

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


class Profile(Protocol):
    """What a module of this folder offers."""

    NAME: str
    SETTINGS: CompactionSettings
    OWN_COUNT: bool
    """Whether ``estimate`` is to be used even where an exact tokenizer is installed: the agent's figures are wanted."""

    def select(self, line: ContextHistory) -> Selection:
        """What the model sees of a line, in the order in which it sees it. Walks no further back than it must."""

    def estimate(self, entry: Shown) -> int:
        """How many tokens the agent thinks one shown entry takes."""

    def usage(self, items: Sequence[Item], fresh: int) -> tuple[int, int] | None:
        """What the last provider's count that can be trusted says: tokens, and how many items it covers (rule 15)."""

    def llm_role(self, entry: Shown) -> str | None:
        """As whose words an entry goes to the model, in our roles; ``None`` if it does not go there (rule 12)."""

    def can_cut(self, entry: Entry) -> bool:
        """Whether a compaction may keep from this entry on (rule 18)."""

    def starts_turn(self, entry: Entry) -> bool:
        """Whether a turn begins here, so that a cut at it splits none (rule 21)."""


def of_agent(agent: str) -> str:
    """By whose rules the context of an agent's session is made, where nobody says: its own, if we know them."""
    return agent if agent in PROFILES else DEFAULT


def profile(name: str) -> Profile:
    """The module of one of ``PROFILES``. Raises ``NotFound`` for another name."""
    if name not in PROFILES:
        raise NotFound(f"there is no profile {name!r}", hint=f"known are {', '.join(PROFILES)}")
    return cast(Profile, import_module(f"{__name__}.{PROFILES[name]}"))


def total(profile: Profile, items: Iterable[Item]) -> int:
    """How many tokens the agent thinks ``items`` take together."""
    return sum(profile.estimate(item.entry) for item in items)
