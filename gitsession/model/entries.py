"""Entries of a session: one frozen value for each kind (docs/reference/format.md, "Kinds").

An entry knows what it is, not where it is kept: no id, no parent, no ``save()``. Times arrive as ``at_ms``
(milliseconds since 1970, UTC); this floor never asks a clock. Where a field refers to another entry it holds the text
that its writer used: a chain in our own sessions, the agent's own id in imported ones; ``session/`` resolves it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from gitsession.model.blocks import Block, Text, ToolCall
from gitsession.model.headline import FORK, TOMBSTONE

FAILED = ("aborted", "error")
"""How an answer broke off: ``Message.stop``, as pi says it."""

ROLES = ("user", "assistant", "tool", "system", "developer", "shell", "custom")
"""The roles a message can have. An agent's own role that is none of these is ``custom``."""

CLEARED = "[Old tool result cleared]"
"""What is shown for a tool result that is left out. The call keeps its answer: providers want both or neither."""

SYSTEM = "system"
"""Where a compaction keeps, in ``preserve``, what the agent was told: behind it no more of that is seen."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One thing that happened. ``extra`` carries the fields of a later version, untouched."""

    kind: ClassVar[str] = ""
    at_ms: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionHeader(Entry):
    """The root of a session; on ``meta``, its header as last seen."""

    kind: ClassVar[str] = "session"
    agent: str
    source_id: str | None = None
    view: int | None = None
    cwd: str | None = None
    title: str | None = None
    parent: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Message(Entry):
    """What a participant said, or what a tool or shell command gave back."""

    kind: ClassVar[str] = "message"
    role: str
    content: tuple[Block, ...] = ()
    provider: str | None = None
    model: str | None = None
    usage: Mapping[str, Any] | None = None
    stop: str | None = None
    error: str | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    is_error: bool = False
    command: str | None = None
    output: str | None = None
    exit_code: int | None = None
    details: Any = None

    @classmethod
    def user(cls, content: str | Iterable[Block], *, at_ms: int = 0) -> Message:
        return cls(role="user", content=_blocks(content), at_ms=at_ms)

    @classmethod
    def assistant(cls, content: str | Iterable[Block], *, at_ms: int = 0, **fields: Any) -> Message:
        """``fields``: provider, model, usage, stop, error."""
        return cls(role="assistant", content=_blocks(content), at_ms=at_ms, **fields)

    @classmethod
    def tool(cls, call: ToolCall, content: str | Iterable[Block], *, at_ms: int = 0, **fields: Any) -> Message:
        """The result of ``call``. ``fields``: is_error, details."""
        blocks = _blocks(content)
        return cls(role="tool", content=blocks, tool_call_id=call.id, tool_name=call.name, at_ms=at_ms, **fields)

    @property
    def failed(self) -> bool:
        """Whether this is an answer that broke off: half of one, of which a provider's count says nothing."""
        return self.role == "assistant" and self.stop in FAILED

    @property
    def is_excluded(self) -> bool:
        """True for a command that the user kept from the model (``!!`` in pi and omp)."""
        return self.role == "shell" and self.extra.get("excludeFromContext") is True

    @property
    def text(self) -> str:
        """The words of the message: its text blocks, one a line."""
        return "\n".join(block.text for block in self.content if isinstance(block, Text))


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelChange(Entry):
    """Which model answers from here on."""

    kind: ClassVar[str] = "model_change"
    provider: str
    model: str
    role: str = "default"


@dataclass(frozen=True, kw_only=True, slots=True)
class ThinkingChange(Entry):
    """How hard the model thinks from here on."""

    kind: ClassVar[str] = "thinking_change"
    level: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ModeChange(Entry):
    """The agent's mode from here on: plan, accept edits, a service tier ..."""

    kind: ClassVar[str] = "mode_change"
    mode: str
    data: Any = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolsChange(Entry):
    """Which tools the model may call from here on."""

    kind: ClassVar[str] = "tools_change"
    tools: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Instructions(Entry):
    """What the agent told the model before the conversation."""

    kind: ClassVar[str] = "instructions"
    system_prompt: str | None = None
    task: str | None = None
    tools: Any = None
    output_schema: Any = None
    files: Any = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Injection(Entry):
    """Rules put before the model from here on."""

    kind: ClassVar[str] = "injection"
    rules: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Compaction(Entry):
    """A summary that stands for older entries in the context. ``first_kept``: where the verbatim tail begins."""

    kind: ClassVar[str] = "compaction"
    summary: str
    first_kept: str | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    method: str | None = None
    read_files: tuple[str, ...] = ()
    modified_files: tuple[str, ...] = ()
    instructions: str | None = None
    preserve: Any = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BranchSummary(Entry):
    """What happened on a branch that was left. ``left``: its leaf."""

    kind: ClassVar[str] = "branch_summary"
    summary: str
    left: str | None = None
    read_files: tuple[str, ...] = ()
    modified_files: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextEdit(Entry):
    """Shows another entry to the model with other content, or not at all (``replacement`` is ``None``)."""

    kind: ClassVar[str] = "context_edit"
    target: str
    replacement: Any = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Prune(Entry):
    """Old tool results that the context leaves out from here on."""

    kind: ClassVar[str] = "prune"
    targets: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Reset(Entry):
    """The context starts anew here."""

    kind: ClassVar[str] = "reset"


@dataclass(frozen=True, kw_only=True, slots=True)
class Label(Entry):
    """A name for an entry; an empty one takes the name away."""

    kind: ClassVar[str] = "label"
    target: str
    label: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Title(Entry):
    """The session's name from here on; an empty one takes it away."""

    kind: ClassVar[str] = "title"
    title: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Custom(Entry):
    """Data of an extension. The model never sees it."""

    kind: ClassVar[str] = "custom"
    custom_type: str
    data: Any = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CustomMessage(Entry):
    """Words of an extension, shown to the model as the user's."""

    kind: ClassVar[str] = "custom_message"
    custom_type: str
    content: tuple[Block, ...] = ()
    display: bool = True
    details: Any = None

    @property
    def text(self) -> str:
        return "\n".join(block.text for block in self.content if isinstance(block, Text))


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage(Entry):
    """Tokens spent outside a message."""

    kind: ClassVar[str] = "usage"
    purpose: str
    provider: str | None = None
    model: str | None = None
    usage: Any = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Permission(Entry):
    """What the user allowed or refused."""

    kind: ClassVar[str] = "permission"
    decision: str
    subject: Any = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint(Entry):
    """The files of a workspace at one moment: those under ``files/`` in its tree. Stands on the line ``files``.

    ``mode``: ``workspace`` (all of it was looked at) or ``edited`` (``paths`` were). ``phase``: what the difference
    from the checkpoint before it is: ``before`` (nobody's that we know of), ``after`` (the session's), ``rewind``
    (ours). ``target``: the entry it belongs to; ``call``: the tool call. ``skipped``: what was left out, each path with
    the reason; ``appeared``: what was there before, and had not been looked at. Paths are written as in the tree.
    """

    kind: ClassVar[str] = "checkpoint"
    mode: str
    phase: str = "before"
    target: str | None = None
    call: str | None = None
    workspace: str | None = None
    paths: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    appeared: tuple[str, ...] = ()
    reason: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Fork(Entry):
    """Where a session of its own begins on another one's line, with title and labels as they stood.

    ``source_id``: the agent's id for it, where the agent made the fork and its file goes on from another one's.
    """

    kind: ClassVar[str] = FORK
    session: str
    agent: str
    view: int | None = None
    cwd: str | None = None
    title: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    source_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceFile(Entry):
    """On ``meta``: how the agent's file stands to what we keep (docs/reference/format.md, "Rewritten files")."""

    kind: ClassVar[str] = "source_file"
    superseded: tuple[str, ...] = ()
    ends_with_newline: bool = True
    leaf: str | None = None
    ours: tuple[str, ...] = ()
    segment: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Attachment(Entry):
    """On ``meta``: bytes that the agent keeps beside its session file, by the name its entries use for them."""

    kind: ClassVar[str] = "attachment"
    name: str
    data: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Project(Entry):
    """Which project the session belongs to, as the machine knew it that had the folder. Only on ``meta``."""

    kind: ClassVar[str] = "project"
    identity: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Continuation(Entry):
    """On ``meta``: the session continues another one, of which the lines of its file up to ``line`` are a copy.

    ``session``: the other session's id. ``entry``: the chain of the last entry of it that was copied.
    """

    kind: ClassVar[str] = "continuation"
    session: str
    entry: str
    line: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Seal(Entry):
    """On ``meta``: somebody signed a branch as it was. ``leaf``: the chain of its last entry; ``entries``: how many it
    had, the root among them. ``format``: ``ssh`` or ``openpgp``, of ``signature`` (armoured).
    """

    kind: ClassVar[str] = "seal"
    session: str
    branch: str
    leaf: str
    entries: int
    format: str
    signature: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Tombstone(Entry):
    """Stands where a purged entry stood. ``of`` (hexadecimal) is that entry's digest, so that every chain still fits.

    ``was``: its kind; ``role``: who its author was.
    """

    kind: ClassVar[str] = TOMBSTONE
    of: str
    was: str
    role: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Opaque(Entry):
    """Bytes of an agent's file that do not parse, are blank, or are no object. ``problem`` says which; "" for blank."""

    kind: ClassVar[str] = "opaque"
    payload: bytes = b""
    problem: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnknownEntry(Entry):
    """A kind from a later version, or from an agent's own: listed, walked and kept, never an error.

    ``version``: of the format, where the payload states a later one than ours.
    """

    kind: ClassVar[str] = "unknown"
    name: str
    body: Any = None
    version: int | None = None


KINDS: Mapping[str, type[Entry]] = {
    kind.kind: kind
    for kind in (
        SessionHeader, Message, ModelChange, ThinkingChange, ModeChange, ToolsChange, Instructions, Injection,
        Compaction,
        BranchSummary, ContextEdit, Prune, Reset, Label, Title, Custom, CustomMessage, Usage, Permission, Checkpoint,
        Fork, SourceFile, Attachment, Project, Continuation, Seal, Tombstone,
    )
}
"""The kinds an entry of our own may have, by the name its payload states."""


def kind_of(entry: Entry) -> str:
    """The name of an entry's kind; a later version's own name for ``UnknownEntry``."""
    return entry.name if isinstance(entry, UnknownEntry) else entry.kind


def _blocks(content: str | Iterable[Block]) -> tuple[Block, ...]:
    return (Text(content),) if isinstance(content, str) else tuple(content)
