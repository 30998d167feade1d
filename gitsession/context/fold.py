"""A line of entries into what the model sees."""

from __future__ import annotations

from collections.abc import Sequence

from gitsession.context import profiles
from gitsession.context.line import Line
from gitsession.context.policies import About, Policy
from gitsession.context.tokens import tokens
from gitsession.context.value import Context


def context(
    line: Line, profile: str = profiles.DEFAULT, policies: Sequence[Policy] = (), *, window: int | None = None
) -> Context:
    """What the model sees at the end of ``line``, by the rules of ``profile``, one of ``PROFILES``.

    ``policies``: applied in this order to what is shown; nothing stored changes. ``window``: of the model, in tokens.
    """
    how = profiles.profile(profile)
    selection = how.select(line)
    items, model = selection.items, selection.state.model
    count = tokens(how, items, fresh=selection.fresh, current=selection.current, window=window, model=model)
    for policy in policies:
        items = tuple(policy(items, About(how, count.used, model)))
        if items != selection.items:  # what a provider counted was another context
            count = tokens(how, items, fresh=len(items), window=window, model=model)
    return Context(how.NAME, items, selection.state, count)
