"""Value types of a context, the input that the model receives at an entry. They do not refer to the store."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal, TypeAlias

from gitsession.codec.digest import hash_of
from gitsession.context import providers
from gitsession.context.provider_management import ContextManagement
from gitsession.dataclass import dataclass
from gitsession.git.types import Oid
from gitsession.model.blocks import Block, Text
from gitsession.model.entries import BranchSummary, Compaction, CustomMessage, Instructions, Message

Shown: TypeAlias = Message | CustomMessage | Compaction | BranchSummary
"""Types of entries that a context can show."""

Source: TypeAlias = Literal["usage", "tokenizer", "estimate"]


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a context.

    ``gitsession.context.rewriting`` creates items with changed content.

    Attributes:
        oid: Object id of the entry from which the item was made.
        entry: View of the entry, with edits applied.
        agent: Agent that wrote the entry; "" for gitsession entries.
        payload: The entry in the agent's own format, which can have fields that are not in the view; empty for
            gitsession entries.
    """

    oid: Oid
    entry: Shown
    agent: str = ""
    payload: bytes = b""

    @property
    def content(self) -> tuple[Block, ...]:
        """Blocks of the item; empty for a summary."""
        return self.entry.content if isinstance(self.entry, Message | CustomMessage) else ()


@dataclass(frozen=True, slots=True)
class Tokens:
    """The size of a context in tokens.

    Attributes:
        used: Number of all tokens, from the most precise source that is available.
        by_role: Number of tokens for each role, as counted by gitsession. Providers do not report these numbers. The
            sum of these numbers is close to ``used``.
        by_kind: Number of tokens for each kind of block, as counted by gitsession.
        window: Context window of the model, in tokens; ``None`` if unknown.
        exact: Whether a provider or the model's own tokenizer counted all of ``used``.
        source: Method by which most of ``used`` was counted.
        stale: Whether a part of the context was compacted, edited or pruned after the provider counted it. Some agents
            use such an outdated count.
    """

    used: int
    by_role: Mapping[str, int] = field(default_factory=dict)
    by_kind: Mapping[str, int] = field(default_factory=dict)
    window: int | None = None
    exact: bool = False
    source: Source = "estimate"
    stale: bool = False

    @property
    def counted_here(self) -> int:
        """Total number of tokens by gitsession's own count."""
        return sum(self.by_role.values())

    @property
    def remaining(self) -> int | None:
        """Number of tokens left in the context window; ``None`` if the size of the window is unknown."""
        return None if self.window is None else max(self.window - self.used, 0)


@dataclass(frozen=True, slots=True)
class State:
    """The settings that apply to the next answer.

    Attributes:
        model: Model as ``provider/model``; ``None`` if unknown.
        models: Model for each role, as ``provider/model``.
        thinking: Thinking level.
        mode: Mode of the agent; ``None`` if unknown.
        tools: Names of the tools; ``None`` if none were selected.
        instructions: Instructions that the session records; ``None`` if there are none.
        rules: Names of the rules that were injected so far, oldest first.
    """

    model: str | None = None
    models: Mapping[str, str] = field(default_factory=dict)
    thinking: str = "off"
    mode: str | None = None
    tools: tuple[str, ...] | None = None
    instructions: Instructions | None = None
    rules: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class InstructionText:
    """A text of recorded instructions that the model receives between the items of a context.

    Attributes:
        at: Number of items before the text.
        role: ``system`` (a part of the system prompt), ``user``, ``developer`` or ``assistant``.
        text: The text.
        part: ``files`` (the files that are always in force), ``skills`` (the list of skills), ``rule`` (a file with
            patterns), or ``skill`` (an active skill).
        names: The paths of the files, or the names of the skills.
    """

    at: int
    role: str
    text: str
    part: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Context:
    """A context: the items in the order in which the model receives them, and the state.

    Attributes:
        profile: Name of the profile whose rules apply.
        items: The entries that the model receives, in order.
        state: The settings that apply to the next answer.
        tokens: Token counts of the context. ``tokens.used`` is the number of all tokens.
        instruction_texts: Texts of recorded instructions, in the order of their places between the items.
        hidden: Number of placeholders in the context for secrets whose originals are not on this machine.
        redacted: The same context with placeholders for all secrets; ``None`` if this context shows no original.
        management: Settings with which the provider compacts and edits the context; ``None`` if there are none.
    """

    profile: str
    items: tuple[Item, ...]
    state: State
    tokens: Tokens
    hidden: int = 0
    redacted: Context | None = field(default=None, repr=False)
    instruction_texts: tuple[InstructionText, ...] = ()
    management: ContextManagement | None = field(default=None, repr=False)

    @property
    def messages(self) -> tuple[Shown, ...]:
        """Entries of the items."""
        return tuple(item.entry for item in self.items)

    @property
    def model(self) -> str | None:
        """Model for the next answer, as ``provider/model``."""
        return self.state.model

    @property
    def models(self) -> Mapping[str, str]:
        """Model for each role, as ``provider/model``."""
        return self.state.models

    @property
    def thinking(self) -> str:
        """Thinking level for the next answer."""
        return self.state.thinking

    @property
    def mode(self) -> str | None:
        """Mode of the agent; ``None`` if unknown."""
        return self.state.mode

    @property
    def tools(self) -> tuple[str, ...] | None:
        """Names of the tools; ``None`` if none were selected."""
        return self.state.tools

    @property
    def instructions(self) -> Instructions | None:
        """Instructions that the session records; ``None`` if there are none."""
        return self.state.instructions

    @property
    def rules(self) -> tuple[str, ...]:
        """Names of the rules that were injected so far, oldest first."""
        return self.state.rules

    def request(self, provider: str, *, system: str | None = None) -> dict[str, Any]:
        """Convert the context to a request to a provider or an agent (docs/reference/context.md).

        The request consists of JSON values, and you can extend it. The request has these keys. Optional keys are set
        only if the session records their values:

        - ``"anthropic"``: ``messages``; optional ``model``, ``system`` and ``tools``
        - ``"openai-chat"``: ``messages``, with the system prompt; optional ``model`` and ``tools``
        - ``"openai-responses"``: ``input``; optional ``model``, ``instructions`` and ``tools``
        - ``"codex"``: ``input``; optional ``model`` and ``instructions``
        - ``"pi"``: ``messages``, ``model`` (``None`` if unknown) and ``thinkingLevel``

        If the context has ``management``, requests to Anthropic and to OpenAI's Responses API also have the key
        ``context_management``. ``anthropic_betas`` returns the betas that such a request requires.

        For the first three, ``model`` is also left out if the model of the session belongs to another provider. Other
        parameters, such as ``max_tokens``, are never set.

        Args:
            provider: ``"anthropic"``, ``"openai-chat"``, ``"openai-responses"``, ``"codex"`` or ``"pi"``.
            system: Replacement for the system prompt of the session; ``None`` to use the session's prompt.

        Returns:
            The request.

        Raises:
            NotFound: The provider is unknown.
        """
        context, system = self.with_instructions(system, as_item=provider == "pi")
        request: dict[str, Any] = providers.provider(provider).request(context, system=system)
        if self.management is not None and provider == "anthropic":
            request |= self.management.anthropic()
        elif self.management is not None and provider == "openai-responses":
            request |= self.management.openai()
        return request

    def with_instructions(self, system: str | None = None, *, as_item: bool = False) -> tuple[Context, str | None]:
        """Return the context with the texts of the instructions among its items, and the system prompt.

        Texts for the system prompt are appended to ``system``, or else to the recorded prompt. ``as_item``: whether
        they become a system message instead if ``system`` is ``None``.
        """
        if not self.instruction_texts:
            return self, system
        items = list(self.items)
        for text in reversed([text for text in self.instruction_texts if text.role != "system"]):
            items.insert(text.at, Item("", Message(role=text.role, content=(Text(text.text),))))
        parts = [text.text for text in self.instruction_texts if text.role == "system"]
        if parts and as_item and system is None:
            leading = 1 if items and getattr(items[0].entry, "role", "") == "system" else 0
            items.insert(leading, Item("", Message(role="system", content=(Text("\n\n".join(parts)),))))
            return dataclasses.replace(self, items=tuple(items), instruction_texts=()), None
        recorded = self.state.instructions or Instructions()
        head = "\n\n".join(part for part in [recorded.system_prompt if system is None else system, *parts] if part)
        state = dataclasses.replace(self.state, instructions=dataclasses.replace(recorded, system_prompt=head or None))
        context = dataclasses.replace(self, items=tuple(items), state=state, instruction_texts=())
        return context, None if system is None else head

    @functools.cached_property
    def digest(self) -> bytes:
        """BLAKE3 digest of profile, state and items, equal in every clone (docs/reference/context.md, "Digest")."""
        if self.redacted is not None:
            return self.redacted.digest
        parts = [_canonical([self.profile, _plain(self.state)])]
        parts += [_canonical([item.entry.kind, _plain(item.entry)]) for item in self.items]
        parts += [_canonical(["instruction_text", _plain(text)]) for text in self.instruction_texts]
        return hash_of(*[hash_of(part) for part in parts])


def _plain(value: Any) -> Any:
    """Return ``value`` as lists, mappings, strings and numbers, with bytes replaced by their BLAKE3 hash (hexadecimal).

    Fields with their default value are left out. So if a later release adds a field, the digests of contexts that do
    not use it do not change.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        plain = {"type": value.type} if hasattr(value, "type") else {}
        values = ((field, getattr(value, field.name)) for field in dataclasses.fields(value))
        return plain | {field.name: _plain(item) for field, item in values if item != _default(field)}
    if isinstance(value, bytes):
        return {"blake3": hash_of(value).hex()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return value


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _canonical(value: Any) -> bytes:
    """Return ``value`` as compact ASCII JSON. The order of keys is kept, because it can be significant."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True).encode()
