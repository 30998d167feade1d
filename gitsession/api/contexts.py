"""What a model sees of a session, at the front door, and how that is made shorter."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from gitsession.api import summarizing
from gitsession.api.handle import Handle
from gitsession.codec.digest import to_base64url
from gitsession.compaction import branches, strategies, trigger
from gitsession.compaction.background import Background
from gitsession.compaction.perform import perform
from gitsession.compaction.summary import Summarizer
from gitsession.compaction.value import Ask, Plan
from gitsession.compaction.writing import Writing
from gitsession.context import fold, profiles
from gitsession.context.line import Line
from gitsession.context.policies import Policy, newly_cleared
from gitsession.context.value import Context
from gitsession.errors import require
from gitsession.index.states import Known
from gitsession.model.entries import Prune
from gitsession.sessions.attached_files import Attached
from gitsession.sessions.node import Node, load

PLAINLY = Writing()


class Contexts(Handle):
    """What ``Session`` does for a model."""

    def context(
        self,
        at: str | Node = "leaf",
        *,
        profile: str | None = None,
        policies: Sequence[Policy] = (),
        window: int | None = None,
    ) -> Context:
        """What the model sees at an entry, by the rules of an agent (docs/context.md): one of ``PROFILES``.

        ``policies``: what to leave out, as a view. ``window``: how many tokens the model takes.
        Raises ``NotFound``, and ``Corrupt``, ``MissingObject`` or ``Malformed`` where damage would leave something out.
        """
        return fold.revealed(self._context_line(at), profile or self._profile, policies, window=window)

    @functools.cached_property
    def _profile(self) -> str:
        """By whose rules, where nobody says. The agent of a session never changes."""
        row = self._catalogues.get(fresh=False).session(self.id) or self._catalogues.get().session(self.id)
        return profiles.of_agent(row.agent if row else "")

    def _context_line(self, at: str | Node) -> Line:
        leaf = None if at == "leaf" and self.leaf is None else self._session.resolve(at).oid
        known = Known(self._catalogues.get(fresh=False), self.id, self._catalogues.get)
        return Line(self._objects, leaf, known, self._memory, Attached(self._objects, self.id))

    def prune(self, *policies: Policy, profile: str | None = None) -> Node | None:
        """Make what policies leave out of tool results last: one ``prune`` entry; ``None`` where there is nothing."""
        before, after = self.context(profile=profile), self.context(profile=profile, policies=policies)
        nodes = [load(self._objects, oid) for oid in newly_cleared(before.items, after.items)]
        return self._session.append(Prune(targets=tuple(to_base64url(node.chain) for node in nodes))) if nodes else None

    def plan_compaction(
        self, strategy: str = strategies.DEFAULT, *, profile: str | None = None, ask: Ask = strategies.NO_WISHES
    ) -> Plan:
        """What ``compact`` would do, without doing it: one of ``STRATEGIES`` (docs/compaction.md)."""
        return strategies.plan(self._context_line("leaf"), strategy, profile=profile or self._profile, ask=ask)

    def plan_leaving(self, to: str | Node, *, profile: str | None = None, window: int | None = None) -> Plan:
        """What ``compact`` would say, at the entry ``to``, of the branch this handle is on: since the two parted.

        ``window``: of the model that summarises, in tokens; the newest that fits is taken.
        """
        onto = self._session.resolve(to)
        ways = self._context_line("leaf"), self._context_line(onto)
        return branches.leaving(*ways, onto, profiles.profile(profile or self._profile), window=window)

    def is_compaction_due(self, window: int, *, reserve: int | None = None, profile: str | None = None) -> bool:
        """Whether less than the agent's reserve (or ``reserve``) is left of ``window``, both in tokens."""
        line = self._context_line("leaf")
        return trigger.is_due(fold.context(line, profile or self._profile), line, window, reserve=reserve)

    def compact(
        self,
        plan: Plan | None = None,
        writing: Writing | None = None,
        *,
        strategy: str | None = None,
        profile: str | None = None,
        keep_tokens: int | None = None,
        focus: str = "",
        summarizer: str | Summarizer | None = None,
        undoable: bool = False,
    ) -> Node | None:
        """Let a summary stand for older entries from here on: one ``compaction`` entry; ``None`` where none is due.

        ``strategy`` and ``profile``: who decides what is summarised, pi if nobody else. ``keep_tokens``: of the end, as
        it is. ``focus``: what to take care of. ``summarizer``: ``"extractive"`` (by rule, the default), ``"command"``,
        ``"http"`` or a plugin's name, set up in the user's git configuration; or an object with ``summarise``.
        A ready ``plan`` of ``plan_compaction`` stands for the first three, a ``writing`` for the others.
        ``undoable``: as an operation of the log, which ``Store.undo`` takes back while nothing was appended behind it.
        Raises ``SummaryFailed`` or ``Refused``; then nothing was written.
        """
        if plan is not None and (strategy, profile, keep_tokens) != (None, None, None):
            raise TypeError("a plan says already what is summarised: no strategy, profile or keep_tokens beside it")
        if writing is not None and (focus, summarizer) != ("", None):
            raise TypeError("a writing says already who summarises and how: no focus or summarizer beside it")
        if plan is None:
            ask = Ask(keep_tokens=keep_tokens)
            plan = self.plan_compaction(strategy or strategies.DEFAULT, profile=profile, ask=ask)
        require(plan, Plan, "a plan, as session.plan_compaction() returns")
        if plan.nothing:
            return None
        if writing is None:
            by = PLAINLY.summarizer if summarizer is None else summarizing.summarizer(summarizer)
            writing = Writing(summarizer=by, focus=focus)
        command = f"compact {self.id} {plan.strategy}" if undoable else ""
        return self._perform(plan, writing, command)

    def compact_in_background(self, plan: Plan, writing: Writing = PLAINLY) -> Background:
        """The same on a thread of its own, while the session goes on: what is appended meanwhile is kept."""
        return Background(lambda cancelled: self._perform(plan, dataclasses.replace(writing, cancelled=cancelled)))

    def _perform(self, plan: Plan, writing: Writing, command: str = "") -> Node:
        return perform(self._objects, self._session, plan, writing, command=command)
