"""What the model sees at one entry: values that say so, and nothing of where they are kept."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from gitsession.codec.digest import hash_of
from gitsession.context import providers
from gitsession.git.types import Oid
from gitsession.model.blocks import Block
from gitsession.model.entries import BranchSummary, Compaction, CustomMessage, Instructions, Message

Shown: TypeAlias = Message | CustomMessage | Compaction | BranchSummary
"""The kinds of which the model sees something."""

Source: TypeAlias = Literal["usage", "tokenizer", "estimate"]


@dataclass(frozen=True, slots=True)
class Item:
    """One thing the model sees. ``oid``: the entry it comes from; ``entry``: what it says, edits applied.

    ``agent`` and ``payload``: the same in the form of the agent that wrote it, for who must give back what that form
    says and no view of ours does. Empty for entries of our own. Other content than this: ``context/rewriting.py``.
    """

    oid: Oid
    entry: Shown
    agent: str = ""
    payload: bytes = b""

    @property
    def content(self) -> tuple[Block, ...]:
        """The blocks that it is made of; a summary has none."""
        return self.entry.content if isinstance(self.entry, Message | CustomMessage) else ()


@dataclass(frozen=True, slots=True)
class Tokens:
    """How much of a model's window a context takes.

    ``used``: all of it, as well as is known. ``by_role`` and ``by_kind``: our own count of each part, which a provider
    does not report; their sum is near ``used``. ``exact``: whether every part of ``used`` was counted by a provider or
    by the model's own tokenizer. ``source``: who counted the most of it. ``stale``: a provider did, but before some of
    it was compacted, edited or pruned; some agents go by that.
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
        """All of it by our own count."""
        return sum(self.by_role.values())

    @property
    def remaining(self) -> int | None:
        """What is left of the window; ``None`` where nobody said how large it is."""
        return None if self.window is None else max(self.window - self.used, 0)


@dataclass(frozen=True, slots=True)
class State:
    """What holds for the next answer. ``model`` and ``models`` (by role): ``provider/model``.

    ``tools``: names, ``None`` where nobody chose; ``rules``: names of those injected so far, the first first.
    """

    model: str | None = None
    models: Mapping[str, str] = field(default_factory=dict)
    thinking: str = "off"
    mode: str | None = None
    tools: tuple[str, ...] | None = None
    instructions: Instructions | None = None
    rules: tuple[str, ...] = ()


@dataclass(frozen=True)
class Context:
    """What the model sees: the items in the order in which it sees them, and the state. ``profile``: by whose rules.

    ``hidden``: how many secrets stand there as placeholders, because this machine does not have them.
    ``redacted``: the same with all of them hidden, where this one shows any.
    """

    profile: str
    items: tuple[Item, ...]
    state: State
    tokens: Tokens
    hidden: int = 0
    redacted: Context | None = field(default=None, repr=False)

    @property
    def messages(self) -> tuple[Shown, ...]:
        """The entries of the items."""
        return tuple(item.entry for item in self.items)

    @property
    def model(self) -> str | None:
        """The model that answers next, as ``provider/model``."""
        return self.state.model

    @property
    def models(self) -> Mapping[str, str]:
        return self.state.models

    @property
    def thinking(self) -> str:
        return self.state.thinking

    @property
    def mode(self) -> str | None:
        return self.state.mode

    @property
    def tools(self) -> tuple[str, ...] | None:
        return self.state.tools

    @property
    def instructions(self) -> Instructions | None:
        return self.state.instructions

    @property
    def rules(self) -> tuple[str, ...]:
        return self.state.rules

    def request(self, provider: str, *, system: str | None = None) -> dict[str, Any]:
        """Return the request to one of ``PROVIDERS`` (docs/reference/context.md), as JSON that the caller can add to.

        ``system``: put in place of the system prompt that the session states. Raises ``NotFound`` for another name.
        """
        return providers.provider(provider).request(self, system=system)

    @functools.cached_property
    def digest(self) -> bytes:
        """32 bytes over profile, state and items (docs/reference/context.md, "The digest"): the same on any clone."""
        if self.redacted is not None:
            return self.redacted.digest
        parts = [_canonical([self.profile, _plain(self.state)])]
        parts += [_canonical([item.entry.kind, _plain(item.entry)]) for item in self.items]
        return hash_of(*[hash_of(part) for part in parts])


def _plain(value: Any) -> Any:
    """``value`` as lists, mappings, texts and numbers. Bytes are their BLAKE3 in hex.

    A field that says what it says by default is left out: one that a later release adds changes nothing where it is
    not used.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        named = {"type": value.type} if hasattr(value, "type") else {}
        said = ((field, getattr(value, field.name)) for field in dataclasses.fields(value))
        return named | {field.name: _plain(item) for field, item in said if item != _default(field)}
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
    """One way to write ``value``: compact JSON in ASCII, the order of keys as it is, since it can be data."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True).encode()
