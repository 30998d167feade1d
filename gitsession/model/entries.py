"""Entries of a session: one frozen dataclass for each kind (docs/reference/format.md, "Kinds").

An entry has its content, but not its storage: no id, no parent, no ``save()``. Times are arguments (``at_ms``, Unix
time in ms, UTC); this package reads no clock. A field that refers to another entry has the text that its writer used: a
chain in gitsession's own entries, the agent's id in imported ones. ``sessions`` resolves it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from gitsession.model.blocks import Block, Text, ToolCall
from gitsession.model.headline import FORK, TOMBSTONE

FAILED = ("aborted", "error")
"""Values of ``Message.stop`` for an answer that broke off, as pi names them."""

ROLES = ("user", "assistant", "tool", "system", "developer", "shell", "custom")
"""Roles of a message. Any other role that an agent uses becomes ``custom``."""

CLEARED = "[Old tool result cleared]"
"""Text in the place of a tool result that is left out of the context.

The call keeps a result, because providers require both or neither.
"""

SYSTEM = "system"
"""Key in ``Compaction.preserve`` of the agent's instructions, which the context after it would not have otherwise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One event of a session.

    Attributes:
        at_ms: Unix time in ms; 0 if unknown. ``Session.append`` then sets it.
        extra: Unknown fields of the body, for example of a later version. They are kept.
    """

    kind: ClassVar[str] = ""
    at_ms: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionHeader(Entry):
    """The root of a session. On ``meta``: the agent's header as last seen.

    Attributes:
        agent: The agent that writes the session.
        source_id: The agent's id of the session.
        view: The view number of the session.
        cwd: The working directory.
        title: The title in the agent's header.
        parent: The agent's id, or the file, of the session that started this one.
    """

    kind: ClassVar[str] = "session"
    agent: str
    source_id: str | None = None
    view: int | None = None
    cwd: str | None = None
    title: str | None = None
    parent: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Message(Entry):
    """A message, a tool result, or a shell command of the user with its output.

    Attributes:
        role: One of ``ROLES``.
        content: The blocks.
        provider: The provider of the model.
        model: The model.
        usage: Token counts as the provider states them.
        stop: The reason why the answer ended.
        error: The error of a failed answer.
        tool_call_id: The id of the call, for a tool result.
        tool_name: The tool, for a tool result.
        is_error: Whether the tool failed.
        command: The command, for the role ``shell``.
        output: The output of the command.
        exit_code: The exit code of the command.
        details: Data of the agent that the model does not receive.
    """

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
        """Return an answer of the model. ``fields``: provider, model, usage, stop, error."""
        return cls(role="assistant", content=_blocks(content), at_ms=at_ms, **fields)

    @classmethod
    def tool(cls, call: ToolCall, content: str | Iterable[Block], *, at_ms: int = 0, **fields: Any) -> Message:
        """Return the result of ``call``. ``fields``: is_error, details."""
        blocks = _blocks(content)
        return cls(role="tool", content=blocks, tool_call_id=call.id, tool_name=call.name, at_ms=at_ms, **fields)

    @property
    def failed(self) -> bool:
        """True for an answer that broke off. It is incomplete, and its usage counts are not reliable."""
        return self.role == "assistant" and self.stop in FAILED

    @property
    def is_excluded(self) -> bool:
        """True for a shell command that the user excluded from the context (``!!`` in pi and omp)."""
        return self.role == "shell" and self.extra.get("excludeFromContext") is True

    @property
    def text(self) -> str:
        """The text blocks of the message, joined with line ends."""
        return "\n".join(block.text for block in self.content if isinstance(block, Text))


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelChange(Entry):
    """The model that answers from here on."""

    kind: ClassVar[str] = "model_change"
    provider: str
    model: str
    role: str = "default"


@dataclass(frozen=True, kw_only=True, slots=True)
class ThinkingChange(Entry):
    """The thinking level of the model from here on."""

    kind: ClassVar[str] = "thinking_change"
    level: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ModeChange(Entry):
    """The agent's mode from here on, such as plan, accept edits or a service tier."""

    kind: ClassVar[str] = "mode_change"
    mode: str
    data: Any = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolsChange(Entry):
    """The tools that the model may call from here on."""

    kind: ClassVar[str] = "tools_change"
    tools: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Instructions(Entry):
    """The instructions that the model receives before the conversation."""

    kind: ClassVar[str] = "instructions"
    system_prompt: str | None = None
    task: str | None = None
    tools: Any = None
    output_schema: Any = None
    files: Any = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Injection(Entry):
    """Rules that are added to the context from here on."""

    kind: ClassVar[str] = "injection"
    rules: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Compaction(Entry):
    """A summary in the place of older entries of the context.

    Attributes:
        summary: The summary.
        first_kept: The oldest entry that stays in the context; ``None`` if none does.
        tokens_before: Size of the context before the compaction, in tokens.
        tokens_after: Size of the context after it, in tokens.
        method: The strategy and the summarizer, as ``<strategy>/<summarizer>``.
        read_files: Paths of files that the agent read and did not change.
        modified_files: Paths of files that the agent changed.
        instructions: What the user asked the summary to pay attention to.
        preserve: Data that a later compaction needs.
    """

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
    """A summary of a branch that was left for another one. ``left``: the tip of that branch."""

    kind: ClassVar[str] = "branch_summary"
    summary: str
    left: str | None = None
    read_files: tuple[str, ...] = ()
    modified_files: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextEdit(Entry):
    """A change of the content that the model receives for ``target``. It is left out if ``replacement`` is ``None``."""

    kind: ClassVar[str] = "context_edit"
    target: str
    replacement: Any = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Prune(Entry):
    """Old tool results that are left out of the context from here on."""

    kind: ClassVar[str] = "prune"
    targets: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Reset(Entry):
    """The start of an empty context."""

    kind: ClassVar[str] = "reset"


@dataclass(frozen=True, kw_only=True, slots=True)
class Label(Entry):
    """A label of the entry ``target``; ``None`` removes it."""

    kind: ClassVar[str] = "label"
    target: str
    label: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Title(Entry):
    """The title of the session from here on; ``None`` removes it."""

    kind: ClassVar[str] = "title"
    title: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Custom(Entry):
    """Data of an extension. The model never receives it."""

    kind: ClassVar[str] = "custom"
    custom_type: str
    data: Any = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CustomMessage(Entry):
    """A message of an extension. The model receives it as a prompt."""

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
    """Tokens that were spent outside a message."""

    kind: ClassVar[str] = "usage"
    purpose: str
    provider: str | None = None
    model: str | None = None
    usage: Any = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Permission(Entry):
    """A permission that the user granted or denied."""

    kind: ClassVar[str] = "permission"
    decision: str
    subject: Any = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint(Entry):
    """The files of a workspace at one time. They are under ``files/`` in the entry's tree. Only on ``files``.

    Attributes:
        mode: ``workspace`` if the whole workspace was captured, ``edited`` if only ``paths`` were.
        phase: The attribution of changes since the checkpoint before: ``before`` (not the session's), ``after`` (the
            session's) or ``rewind`` (gitsession's).
        target: The entry that the checkpoint belongs to.
        call: The id of the tool call.
        workspace: The path of the workspace on the machine.
        paths: The captured paths in mode ``edited``, written as in the tree.
        skipped: Pairs of a path that was left out and the reason.
        appeared: Paths that are captured for the first time but existed before.
        reason: A description.
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
    """The start of a fork on the history of another session, with that session's title and labels at the time.

    ``source_id``: the agent's id of the fork, if the agent made it, so that its file continues the other session's
    file.
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
    """The state of the agent's file (docs/reference/format.md, "Rewritten files"). Only on ``meta``."""

    kind: ClassVar[str] = "source_file"
    superseded: tuple[str, ...] = ()
    ends_with_newline: bool = True
    leaf: str | None = None
    ours: tuple[str, ...] = ()
    segment: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Attachment(Entry):
    """A file that the agent keeps beside its session file, by the name that entries use for it. Only on ``meta``."""

    kind: ClassVar[str] = "attachment"
    name: str
    data: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Project(Entry):
    """The project of the session, as determined on the machine that has the working directory. Only on ``meta``."""

    kind: ClassVar[str] = "project"
    identity: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Continuation(Entry):
    """The session that this one continues: the lines of its file up to ``line`` are a copy. Only on ``meta``.

    ``session``: the id of the other session. ``entry``: the chain of the last entry that was copied from it.
    """

    kind: ClassVar[str] = "continuation"
    session: str
    entry: str
    line: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Seal(Entry):
    """A signature of a branch. Only on ``meta``.

    Attributes:
        session: The id of the session.
        branch: The branch.
        leaf: The chain of its tip at the time.
        entries: Number of entries of its history, including the root.
        format: ``ssh`` or ``openpgp``.
        signature: The armored signature.
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
    """The replacement of a purged entry. All chains stay valid.

    Attributes:
        of: The digest of the purged entry, in hexadecimal.
        was: Its kind.
        role: Its author.
    """

    kind: ClassVar[str] = TOMBSTONE
    of: str
    was: str
    role: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Opaque(Entry):
    """A record of an agent's file that cannot be parsed, is blank or is not an object. Also an entry that is damaged.

    ``problem``: the reason; "" for a blank record.
    """

    kind: ClassVar[str] = "opaque"
    payload: bytes = b""
    problem: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnknownEntry(Entry):
    """An entry of a kind that is unknown, from a later version or of an agent. It is listed and kept, never an error.

    Attributes:
        name: The kind.
        body: The content.
        version: The version of the format, if the payload states a later one.
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
"""The kinds of gitsession's own entries, by their names in payloads."""


def kind_of(entry: Entry) -> str:
    """Return the name of an entry's kind. For an ``UnknownEntry`` it is the name in the payload."""
    return entry.name if isinstance(entry, UnknownEntry) else entry.kind


def _blocks(content: str | Iterable[Block]) -> tuple[Block, ...]:
    return (Text(content),) if isinstance(content, str) else tuple(content)
