"""The policy of automatic compaction: when a context is compacted, how, and by whom."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import field, replace
from typing import Literal, TypeAlias, get_args

from gitsession.compaction import strategies, trigger
from gitsession.compaction.plan import CompactionRequest, Plan, empty_plan
from gitsession.compaction.summarizers import DeferredSummarizer
from gitsession.compaction.summarizers.options import users_options
from gitsession.compaction.summary import Summarizer
from gitsession.compaction.write_summary import SummaryOptions
from gitsession.context import profiles
from gitsession.context.history import ContextHistory
from gitsession.context.profiles import CompactionSettings
from gitsession.context.provider_management import ContextManagement
from gitsession.context.value import Context
from gitsession.dataclass import dataclass
from gitsession.errors import Refused
from gitsession.model.windows import window_of

Mode: TypeAlias = Literal["off", "client", "server"]

SUMMARY = "summary"
"""Tag of the reserve for the summary, which also limits its length."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactionPolicy:
    """A policy of automatic compaction.

    A compaction is due when the context exceeds the lowest of the limits that are set: ``tokens``, ``percent`` of the
    context window, and the window without ``reserve``. Without ``percent`` and ``reserve``, the reserve of the
    session's agent applies. If no limit is known, no compaction is due.

    Attributes:
        mode: ``"off"``, ``"client"`` (``Session.append`` starts compactions) or ``"server"`` (the provider compacts,
            and ``Context.request`` contains its settings).
        window: Context window of the model in tokens; ``None`` for the known window of the session's model.
        percent: Limit of the context, as a percentage of the window.
        tokens: Limit of the context in tokens.
        reserve: Number of tokens of the window that stay free, by purpose: for example ``summary`` for the summary, of
            which it is also the maximum length, ``output`` for the next answer, and ``tools`` for definitions of tools.
        keep_tokens: Number of tokens at the end that are not summarized; ``None`` for the agent's default.
        keep_messages: Number of messages at the end that are not summarized. If ``keep_tokens`` is set too, the smaller
            part is kept.
        strategy: Name of the strategy, which does not require an entry.
        summarizers: Summarizers that are tried in this order, by name or as objects. ``http:MODEL`` is a model on the
            configured server. If there are none, the configured summarizer is used.
        management: Settings of the provider in the mode ``"server"``.
        report: Function that is called with the error of a failed automatic compaction, in another thread.
    """

    mode: Mode = "off"
    window: int | None = None
    percent: float | None = None
    tokens: int | None = None
    reserve: Mapping[str, int] = field(default_factory=dict)
    keep_tokens: int | None = None
    keep_messages: int | None = None
    strategy: str = strategies.DEFAULT
    summarizers: tuple[str | Summarizer, ...] = ()
    management: ContextManagement = ContextManagement()
    report: Callable[[Exception], object] | None = None

    def __post_init__(self) -> None:
        """Check the values. Raises ``Refused`` if one is invalid."""
        allowed = [name for name in strategies.STRATEGIES if name not in strategies.BY_ENTRY]
        _check("mode", self.mode, self.mode in get_args(Mode), f"choose one of {', '.join(get_args(Mode))}")
        _check("strategy", self.strategy, self.strategy in allowed, f"choose one of {', '.join(allowed)}")
        _check("percent", self.percent, self.percent is None or 0 < self.percent <= 100, "choose 1 to 100")
        for name, least in (("window", 1), ("tokens", 1), ("keep_tokens", 0), ("keep_messages", 0)):
            value = getattr(self, name)
            _check(name, value, value is None or value >= least, f"choose {least} or more")
        for tag, value in self.reserve.items():
            _check(f"reserve of {tag!r}", value, value >= 0, "choose 0 or more")
        if self.keep_messages is not None and self.strategy == "codex":
            hint = "set the number of tokens to keep, or choose another strategy"
            raise Refused("invalid compaction policy: the strategy codex keeps no messages", hint=hint)

    def window_for(self, model: str | None) -> int | None:
        """Return the context window: the setting, or else the window of the model; ``None`` if it is unknown."""
        return self.window or window_of(model)

    def limit(self, window: int | None, agent: CompactionSettings) -> int | None:
        """Return the number of tokens above which a compaction is due (rules 16, C1 and O1); ``None`` if unknown.

        Args:
            window: Context window in tokens; ``None`` if unknown.
            agent: Limits of the session's agent.
        """
        limits = [] if self.tokens is None else [self.tokens]
        if window is not None:
            limits += [] if self.percent is None else [int(window * self.percent / 100)]
            limits += [window - sum(self.reserve.values())] if self.reserve else []
            if self.percent is None and not self.reserve:
                limits.append(agent.limit(window))
        return max(min(limits), 0) if limits else None

    def management_for(self, model: str | None, window: int | None = None) -> ContextManagement:
        """Return the settings of the provider, with the limit as the trigger unless they have one.

        Args:
            model: The model; ``None`` if unknown.
            window: Context window in tokens; ``None`` for the setting or that of the model.
        """
        has_limit = self.tokens is not None or self.percent is not None or bool(self.reserve)
        if self.management.trigger_tokens is not None or not has_limit:
            return self.management
        limit = self.limit(window or self.window_for(model), CompactionSettings())
        return replace(self.management, trigger_tokens=limit)

    def limit_for(self, context: Context, window: int | None = None) -> int | None:
        """Return the number of tokens above which ``context`` must be compacted; ``None`` if it is unknown.

        Args:
            context: The context.
            window: Context window in tokens; ``None`` for the setting or that of the model.
        """
        return self.limit(window or self.window_for(context.model), profiles.profile(context.profile).SETTINGS)

    def plan(self, context: Context, line: ContextHistory, window: int | None = None) -> Plan:
        """Return the plan of a compaction, whether or not one is due.

        Args:
            context: The context.
            line: The history of the context.
            window: Context window in tokens; ``None`` for the setting or that of the model.
        """
        window = window or self.window_for(context.model)
        request = CompactionRequest(keep_tokens=self.keep_tokens, keep_messages=self.keep_messages, window=window)
        return strategies.plan(line, self.strategy, profile=context.profile, request=request)

    def plan_due(self, context: Context, line: ContextHistory, window: int | None = None) -> Plan:
        """Return the plan of a compaction. If none is due, its field ``nothing`` contains the reason. See ``plan``."""
        reason = trigger.why_not_due(context, line, self.limit_for(context, window))
        if reason:
            return empty_plan(self.strategy, line, profiles.profile(context.profile), reason)
        return self.plan(context, line, window)

    def summary_options(self) -> SummaryOptions:
        """Return the options of the summary: the summarizers in their order, and the maximum length.

        Raises ``SummaryFailed`` if a setting of all summarizers is invalid.
        """
        names = self.summarizers or ("",)  # the configured one
        first, *others = (_deferred(each) if isinstance(each, str) else each for each in names)
        length = self.reserve.get(SUMMARY) or SummaryOptions().max_tokens
        return SummaryOptions(summarizer=first, fallbacks=tuple(others), max_tokens=length)


def _deferred(wanted: str) -> DeferredSummarizer:
    options = users_options(wanted)
    return DeferredSummarizer(options.name, options)


def _check(name: str, value: object, is_valid: bool, hint: str) -> None:
    if not is_valid:
        raise Refused(f"invalid compaction policy: {name} is {value!r}", hint=hint)


OFF = CompactionPolicy()


def from_config(config: Mapping[str, str]) -> CompactionPolicy:
    """Return the policy from the settings ``gitsession.compaction*``. Raises ``Refused`` if a value is invalid.

    The keys of ``config`` are in lower case, as git lists them. Like the settings of summarizers, ``config`` must be
    the user's configuration and never that of a store.
    """
    settings = _Settings(config)
    percent, limit = settings.percent_or_tokens("gitsession.compactionThreshold")
    return CompactionPolicy(
        mode=settings.text("gitsession.compaction") or "off",  # type: ignore[arg-type]  # checked when it is created
        window=settings.tokens("gitsession.compactionWindow"),
        percent=percent,
        tokens=limit,
        reserve=settings.tokens_by_tag("gitsession.compactionReserve"),
        keep_tokens=settings.tokens("gitsession.compactionKeepTokens"),
        keep_messages=settings.tokens("gitsession.compactionKeepMessages"),
        strategy=settings.text("gitsession.compactionStrategy") or strategies.DEFAULT,
        summarizers=settings.words("gitsession.compactionSummarizers"),
        management=ContextManagement(
            pause=settings.is_true("gitsession.compactionPause"),
            instructions=settings.text("gitsession.compactionInstructions"),
            keep_tool_uses=settings.tokens("gitsession.compactionKeepToolUses"),
            tool_trigger_tokens=settings.tokens("gitsession.compactionToolTrigger"),
            clear_at_least=settings.tokens("gitsession.compactionClearAtLeast"),
            exclude_tools=settings.words("gitsession.compactionExcludeTools"),
            clear_tool_inputs=settings.is_true_or_words("gitsession.compactionClearToolInputs"),
            keep_thinking=settings.tokens_or_all("gitsession.compactionKeepThinking"),
        ),
    )


_TRUE = ("true", "yes", "on", "1")
_FALSE = ("", "false", "no", "off", "0")


class _Settings:
    """Settings by name. The methods return a setting of a type, or raise ``Refused`` if it has another one."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self._config = config

    def text(self, name: str) -> str:
        return self._config.get(name.lower(), "").strip()

    def words(self, name: str) -> tuple[str, ...]:
        return tuple(self.text(name).replace(",", " ").split())

    def is_true(self, name: str) -> bool:
        found = self.text(name).lower()
        if found not in _TRUE + _FALSE:
            raise Refused(f"invalid value for {name}: {found!r}", hint="set it to true or false")
        return found in _TRUE

    def is_true_or_words(self, name: str) -> bool | Collection[str]:
        return self.is_true(name) if self.text(name).lower() in _TRUE + _FALSE else self.words(name)

    def tokens(self, name: str) -> int | None:
        found = self.text(name)
        return _tokens(name, found) if found else None

    def tokens_or_all(self, name: str) -> int | Literal["all"] | None:
        return "all" if self.text(name).lower() == "all" else self.tokens(name)

    def tokens_by_tag(self, name: str) -> dict[str, int]:
        pairs = [word.partition("=") for word in self.words(name)]
        return {tag: _tokens(name, value) for tag, _, value in pairs}

    def percent_or_tokens(self, name: str) -> tuple[float | None, int | None]:
        found = self.text(name)
        if not found.endswith("%"):
            return None, self.tokens(name)
        if not re.fullmatch(r"\d{1,3}(\.\d+)?%", found):
            raise Refused(f"invalid value for {name}: {found!r}", hint="set a percentage such as 80%, or tokens: 150k")
        return float(found[:-1]), None


def _tokens(name: str, text: str) -> int:
    number = re.fullmatch(r"(\d{1,12})(k|m)?", text.replace("_", "").replace(",", "").lower())
    if number is None:
        raise Refused(f"invalid value for {name}: {text!r}", hint="set a number of tokens such as 150000 or 150k")
    return int(number[1]) * {"k": 1_000, "m": 1_000_000}.get(number[2], 1)
