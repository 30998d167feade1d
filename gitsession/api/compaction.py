"""Compaction of a session's context: plans, compactions in the background, and who summarizes."""

from __future__ import annotations

import dataclasses
import os

from gitsession.api.opened import Handle
from gitsession.codec.digest import to_base64url
from gitsession.compaction import branch_summary, strategies, summarizers, trigger
from gitsession.compaction.perform import BackgroundCompaction, perform
from gitsession.compaction.plan import CompactionRequest, Plan
from gitsession.compaction.summarizers.options import Options, from_config
from gitsession.compaction.summary import Summarizer
from gitsession.compaction.write_summary import SummaryOptions
from gitsession.context import build, profiles
from gitsession.context.policies import Policy, newly_cleared
from gitsession.git import process
from gitsession.model.entries import Prune
from gitsession.sessions.node import Node, load

PLAINLY = SummaryOptions()


class SessionCompaction:
    """The compaction of a session's context: ``session.compaction`` (docs/reference/compaction.md)."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def plan(
        self, strategy: str = strategies.DEFAULT, *, profile: str | None = None,
        ask: CompactionRequest = strategies.NO_WISHES
    ) -> Plan:
        """Plan what ``Session.compact`` replaces, by one of ``STRATEGIES``; docs/reference/compaction.md. Read only."""
        profile = profile or self._handle.profile
        return strategies.plan(self._handle.context_line(), strategy, profile=profile, ask=ask)

    def plan_leaving(self, to: str | Node, *, profile: str | None = None, window: int | None = None) -> Plan:
        """Plan a summary, at the entry ``to``, of the branch this handle is on, since the two parted.

        ``window``: of the model that summarises, in tokens; the newest that fits is taken.
        """
        onto = self._handle.session.resolve(to)
        ways = self._handle.context_line("leaf"), self._handle.context_line(onto)
        return branch_summary.leaving(*ways, onto, profiles.profile(profile or self._handle.profile), window=window)

    def is_due(self, window: int, *, reserve: int | None = None, profile: str | None = None) -> bool:
        """Return whether less than the agent's reserve (or ``reserve``) is left of ``window``, both in tokens."""
        line = self._handle.context_line("leaf")
        return trigger.is_due(build.context(line, profile or self._handle.profile), line, window, reserve=reserve)

    def start(self, plan: Plan, writing: SummaryOptions = PLAINLY) -> BackgroundCompaction:
        """Compact in a thread of its own, while the session goes on; what is appended meanwhile is kept."""
        objects, session = self._handle.opened.objects, self._handle.session
        return BackgroundCompaction(
            lambda cancelled: perform(objects, session, plan, dataclasses.replace(writing, cancelled=cancelled))
        )

    def prune(self, *policies: Policy, profile: str | None = None) -> Node | None:
        """Make what policies leave out of tool results last: one ``prune`` entry; ``None`` where there is nothing."""
        line, profile = self._handle.context_line(), profile or self._handle.profile
        before, after = build.revealed(line, profile), build.revealed(line, profile, policies)
        nodes = [load(self._handle.opened.objects, oid) for oid in newly_cleared(before.items, after.items)]
        targets = tuple(to_base64url(node.chain) for node in nodes)
        return self._handle.session.append(Prune(targets=targets)) if nodes else None


def summarizer(wanted: str | Summarizer) -> Summarizer:
    """Return a summarizer by its name, set up as in the user's git configuration; an object is returned as it is.

    Raises ``NotFound`` for an unknown name, ``SummaryFailed`` where something of its settings is missing or wrong.
    """
    if not isinstance(wanted, str):
        return wanted
    return summarizers.make(dataclasses.replace(users_options(), name=wanted))


def users_options() -> Options:
    """Return the settings in ``git config --global`` (docs/reference/compaction.md), not those of a store."""
    return from_config(process.user_settings("gitsession.summarizer"), os.environ)
