"""What a compaction is going to do, before it does anything."""

from __future__ import annotations

from dataclasses import dataclass

from gitsession.compaction.files import NO_FILES, TouchedFiles
from gitsession.context.value import Item
from gitsession.git.types import Oid
from gitsession.sessions.node import Node


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactionRequest:
    """What the caller wants. ``keep_tokens``: of the end, as it is; ``None`` is what the agent keeps.

    ``at``: the entry from which, or up to which, for the strategies that go by one. ``window``: of the model, in
    tokens; ``None`` where nobody said. ``reground_every``: behind so many summaries, each carried on from the one
    before, comes one from the entries themselves; 0 is never.
    """

    keep_tokens: int | None = None
    at: Node | None = None
    window: int | None = None
    reground_every: int = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What goes into a summary and what stays; whoever made it has only read.

    ``leaf``: the entry it was made for. ``first_kept``: from there on all stays as it is; ``None``: nothing does.
    ``history``: what the summary stands for; ``prefix``: the beginning of a turn whose end is kept, summarised apart;
    ``kept``: what is shown behind the summary. ``previous``: the summary to carry on, ``carried``: how many in a row
    have been carried on from the one before. ``system``: what the agent was told, which goes with the summary.
    ``quoted``: words that stand in the summary as they are. ``onto``: where the summary goes if not behind the leaf:
    then it is one of a branch that is left. ``tokens_before``: the whole context; ``replaced``: of it, by our count,
    what the summary takes the place of. ``nothing``: why there is nothing to do; then the rest says nothing.
    """

    strategy: str
    profile: str
    leaf: Oid | None
    first_kept: Node | None = None
    history: tuple[Item, ...] = ()
    prefix: tuple[Item, ...] = ()
    kept: tuple[Item, ...] = ()
    previous: str = ""
    carried: int = 0
    system: tuple[Item, ...] = ()
    quoted: str = ""
    onto: Node | None = None
    files: TouchedFiles = NO_FILES
    tokens_before: int = 0
    replaced: int = 0
    nothing: str = ""
