"""Entries of a session: one frozen dataclass for each kind (docs/reference/format.md, "Kinds").

These classes hold the content of entries. Their objects have no id, no parent and no method that stores them. The
package reads no clock: times are passed as ``at_ms``, in Unix time in ms. A field that refers to another entry contains
the id by which the writer identifies that entry: a chain digest in entries that gitsession wrote, the agent's id in
imported entries. The package ``sessions`` resolves these references.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, ClassVar

from gitsession.dataclass import dataclass
from gitsession.model.blocks import Block, Text, ToolCall
from gitsession.model.headline import CHECKPOINT, FORK, TOMBSTONE

FAILED = ("aborted", "error")
"""Values of ``Message.stop`` for an incomplete answer, with pi's names."""

ROLES = ("user", "assistant", "tool", "system", "developer", "shell", "custom")
"""Roles of a message. All other roles of agents are converted to ``custom``."""

CLEARED = "[Old tool result cleared]"
"""Text that replaces a tool result that is left out of the context.

The result itself cannot be removed, because providers require a result for each call.
"""

SYSTEM = "system"
"""Key of the agent's instructions in ``Compaction.preserve``. The instructions stay in the context."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One event of a session.

    Attributes:
        at_ms: The time of the entry, Unix time in ms. 0 if it is unknown; ``Session.append`` replaces 0 by the current
            time.
        extra: Unknown fields, for example of a later version of the format. Unknown fields are preserved.
    """

    kind: ClassVar[str] = ""
    at_ms: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionHeader(Entry):
    """The root of a session. On branch ``meta``, an entry of this kind is an imported header of the agent's file.

    Attributes:
        agent: The agent that writes the session.
        source_id: The agent's id of the session.
        view: The view number of the session, which selects the rules for its commits.
        cwd: The working directory.
        title: The title in the agent's header.
        parent: The session that started this one, as the agent's id or the path of a file; in sessions that gitsession
            wrote, the session id.
        parent_entry: The entry at which ``parent`` started this session, only in sessions that gitsession wrote.
    """

    kind: ClassVar[str] = "session"
    agent: str
    source_id: str | None = None
    view: int | None = None
    cwd: str | None = None
    title: str | None = None
    parent: str | None = None
    parent_entry: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Message(Entry):
    """A message, a tool result, or a shell command of the user with its output.

    Attributes:
        role: ``"user"``, ``"assistant"``, ``"tool"``, ``"system"``, ``"developer"``, ``"shell"`` or ``"custom"``.
        content: The content, as blocks.
        provider: The provider of the model.
        model: The name of the model.
        usage: The token counts that the provider reported.
        stop: The reason why the answer ended.
        error: The error message of a failed answer.
        tool_call_id: For a tool result, the id of the call.
        tool_name: For a tool result, the name of the tool.
        is_error: Whether the tool failed.
        command: For the role ``shell``, the command.
        output: For the role ``shell``, the output of the command.
        exit_code: For the role ``shell``, the exit code of the command.
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
        """Return a message of the user. ``content``: a string, or blocks."""
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
        """True for an incomplete answer, whose token counts are not reliable."""
        return self.role == "assistant" and self.stop in FAILED

    @property
    def is_excluded(self) -> bool:
        """True for a shell command that the user excluded from the context (``!!`` in pi and omp)."""
        return self.role == "shell" and self.extra.get("excludeFromContext") is True

    @property
    def text(self) -> str:
        """The text blocks of the message, joined with line feeds."""
        return "\n".join(block.text for block in self.content if isinstance(block, Text))


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelChange(Entry):
    """A change of the model for the following answers."""

    kind: ClassVar[str] = "model_change"
    provider: str
    model: str
    role: str = "default"


@dataclass(frozen=True, kw_only=True, slots=True)
class ThinkingChange(Entry):
    """A change of the model's thinking level for the following answers."""

    kind: ClassVar[str] = "thinking_change"
    level: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ModeChange(Entry):
    """A change of the agent's mode, such as "plan" or "accept edits", or of its service tier."""

    kind: ClassVar[str] = "mode_change"
    mode: str
    data: Any = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolsChange(Entry):
    """A change of the tools that the model can call in the following answers."""

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
    """Rules that are added to the context from this entry on."""

    kind: ClassVar[str] = "injection"
    rules: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Compaction(Entry):
    """A summary that replaces older entries in the context.

    Attributes:
        summary: The text of the summary.
        first_kept: The oldest entry that stays in the context; ``None`` if no entry stays.
        tokens_before: The size of the context before the compaction, in tokens.
        tokens_after: The size of the context after the compaction, in tokens.
        method: The strategy and the summarizer, as ``<strategy>/<summarizer>``.
        read_files: The paths of files that the agent read and did not change.
        modified_files: The paths of files that the agent changed.
        instructions: The user's instructions for the summary.
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
    """A summary of a branch that the user left for another branch. ``left``: the tip of the summarized branch."""

    kind: ClassVar[str] = "branch_summary"
    summary: str
    left: str | None = None
    read_files: tuple[str, ...] = ()
    modified_files: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextEdit(Entry):
    """A replacement of the entry ``target`` in the context. If ``replacement`` is ``None``, the entry is left out."""

    kind: ClassVar[str] = "context_edit"
    target: str
    replacement: Any = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Prune(Entry):
    """The removal of old tool results from the context. ``targets``: the entries with the results."""

    kind: ClassVar[str] = "prune"
    targets: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Reset(Entry):
    """A reset of the context, which is empty after this entry."""

    kind: ClassVar[str] = "reset"


@dataclass(frozen=True, kw_only=True, slots=True)
class Label(Entry):
    """The new label of the entry ``target``; ``None`` removes the label."""

    kind: ClassVar[str] = "label"
    target: str
    label: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Title(Entry):
    """The new title of the session; ``None`` removes the title."""

    kind: ClassVar[str] = "title"
    title: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Custom(Entry):
    """Extension data. The model never receives it."""

    kind: ClassVar[str] = "custom"
    custom_type: str
    data: Any = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CustomMessage(Entry):
    """An extension message. The model receives it as a prompt."""

    kind: ClassVar[str] = "custom_message"
    custom_type: str
    content: tuple[Block, ...] = ()
    display: bool = True
    details: Any = None

    @property
    def text(self) -> str:
        """The text blocks of the message, joined with line feeds."""
        return "\n".join(block.text for block in self.content if isinstance(block, Text))


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage(Entry):
    """The token usage of a request that is not part of a message."""

    kind: ClassVar[str] = "usage"
    purpose: str
    provider: str | None = None
    model: str | None = None
    usage: Any = None


TYPE_PREFIX = "gitsession:"
"""The prefix of every ``custom_type`` that gitsession defines. In a file of an agent without an equivalent of an entry,
the entry is a custom entry whose type is this prefix and the entry's kind."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Permission(Entry):
    """A permission that the user granted or denied.

    Attributes:
        decision: ``allow``, ``deny``, or another decision of the agent, such as ``ask``.
        subject: The agent's data of the request.
        tool: The name of the tool; ``None`` if the decision is not about a tool.
        pattern: The inputs that the decision covers, in the agent's notation, such as ``git push *``; ``None`` for all.
        scope: ``once`` for one call, ``session`` for this session, ``always`` for later sessions, too. A decision for
            ``once`` does not change the permissions in force.
        asked_by: The agent or sub-agent that asked the user.
    """

    kind: ClassVar[str] = "permission"
    decision: str
    subject: Any = None
    tool: str | None = None
    pattern: str | None = None
    scope: str = "once"
    asked_by: str | None = None

    @property
    def rule(self) -> str:
        """Return what the decision covers: ``tool``, ``tool(pattern)``, or "" if the entry states neither."""
        return f"{self.tool or ''}({self.pattern})" if self.pattern else self.tool or ""


TODO_STATUSES = ("pending", "in_progress", "completed", "cancelled")
"""Values of ``TodoItem.status``. All other statuses of agents are converted to one of these."""


@dataclass(frozen=True, slots=True)
class TodoItem:
    """One item of a todo list.

    Attributes:
        text: The task.
        status: ``pending``, ``in_progress``, ``completed`` or ``cancelled``.
        priority: The agent's priority, such as ``high``.
        id: The agent's id of the item.
        extra: Unknown fields, which are preserved.
    """

    text: str
    status: str = "pending"
    priority: str | None = None
    id: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Todo(Entry):
    """The whole todo list from this entry on. It replaces an earlier list; an empty list removes it."""

    kind: ClassVar[str] = "todo"
    items: tuple[TodoItem, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanChange(Entry):
    """A change of the agent's plan, a text; ``None`` removes the plan."""

    kind: ClassVar[str] = "plan_change"
    plan: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark(Entry):
    """A mark that the agent set on the session.

    Attributes:
        name: ``shared``, ``archived``, ``tag``, or another name.
        value: The value: for ``shared``, the public address, never a secret; ``None`` removes the mark.
    """

    kind: ClassVar[str] = "mark"
    name: str
    value: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint(Entry):
    """The recorded files of a workspace, in ``files/`` of the entry's tree. Checkpoints are only on branch ``files``.

    Attributes:
        mode: ``workspace`` if the whole workspace was captured, ``edited`` if only ``paths`` were captured.
        phase: The attribution of changes since the previous checkpoint: ``before`` (to others), ``after`` (to the
            session) or ``rewind`` (to gitsession).
        target: The entry that the checkpoint belongs to.
        call: The id of the tool call.
        workspace: The path of the workspace on the machine.
        paths: The captured paths in mode ``edited``, spelled as in the tree.
        skipped: The paths that were left out, each with the reason.
        appeared: The paths that are captured for the first time, although the files existed before.
        reason: A description of the checkpoint.
    """

    kind: ClassVar[str] = CHECKPOINT
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
    """The first entry of a fork. The entry before it belongs to another session.

    ``title``, ``labels``: the title and the labels of the other session when the fork was created. ``source_id``: the
    agent's id of the fork, if the agent created it. The agent's file of the fork then continues the file of the other
    session. ``parent``: the id of the other session, if gitsession created the fork.
    """

    kind: ClassVar[str] = FORK
    session: str
    agent: str
    view: int | None = None
    cwd: str | None = None
    title: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    source_id: str | None = None
    parent: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceFile(Entry):
    """The state of the agent's file, only on branch ``meta`` (docs/reference/format.md, "Rewritten files")."""

    kind: ClassVar[str] = "source_file"
    superseded: tuple[str, ...] = ()
    ends_with_newline: bool = True
    leaf: str | None = None
    ours: tuple[str, ...] = ()
    segment: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Attachment(Entry):
    """A file that the agent stores beside its session file. Attachments are only on branch ``meta``.

    ``name``: the name by which entries refer to the file, or the path of a side file in the agent's folder.
    ``executable``: whether a side file is executable.
    """

    kind: ClassVar[str] = "attachment"
    name: str
    data: bytes
    executable: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Project(Entry):
    """The project of the session, only on ``meta``. The machine with the working directory computes the project."""

    kind: ClassVar[str] = "project"
    identity: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Continuation(Entry):
    """The session that this session continues, only on branch ``meta``.

    ``session``: the id of the continued session. ``entry``: the chain digest of the last entry that was copied from
    that session. ``line``: the number of the last copied line in the file.
    """

    kind: ClassVar[str] = "continuation"
    session: str
    entry: str
    line: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Seal(Entry):
    """A signature of a branch. Signatures are only on branch ``meta``.

    Attributes:
        session: The id of the session.
        branch: The name of the branch.
        leaf: The chain digest of the tip when the branch was signed.
        entries: The number of entries in the signed history, including the root.
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
    """The replacement for a purged entry. A tombstone does not change the chain digests of later entries.

    Attributes:
        of: The digest of the purged entry, in hexadecimal.
        was: The kind of the purged entry.
        role: The role of the purged entry.
    """

    kind: ClassVar[str] = TOMBSTONE
    of: str
    was: str
    role: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Opaque(Entry):
    """A damaged entry, or a record of an agent's file that is blank, cannot be parsed or is not an object.

    ``problem``: the reason why the content cannot be read; "" for a blank record.
    """

    kind: ClassVar[str] = "opaque"
    payload: bytes = b""
    problem: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnknownEntry(Entry):
    """An entry of an unknown kind, written by a later version or by an agent. The entry is preserved unchanged.

    Attributes:
        name: The name of the kind.
        body: The content.
        version: The format version in the payload if it is later than the supported one; ``None`` otherwise.
    """

    kind: ClassVar[str] = "unknown"
    name: str
    body: Any = None
    version: int | None = None


KINDS: Mapping[str, type[Entry]] = {
    kind.kind: kind
    for kind in (
        SessionHeader,
        Message,
        ModelChange,
        ThinkingChange,
        ModeChange,
        ToolsChange,
        Instructions,
        Injection,
        Compaction,
        BranchSummary,
        ContextEdit,
        Prune,
        Reset,
        Label,
        Title,
        Custom,
        CustomMessage,
        Usage,
        Permission,
        Todo,
        PlanChange,
        Mark,
        Checkpoint,
        Fork,
        SourceFile,
        Attachment,
        Project,
        Continuation,
        Seal,
        Tombstone,
    )
}
"""The kinds of entries that gitsession writes, by their names in payloads."""


def kind_of(entry: Entry) -> str:
    """Return the name of an entry's kind. For an ``UnknownEntry``, return the name in the payload."""
    return entry.name if isinstance(entry, UnknownEntry) else entry.kind


def _blocks(content: str | Iterable[Block]) -> tuple[Block, ...]:
    return (Text(content),) if isinstance(content, str) else tuple(content)
