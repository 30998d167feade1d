"""Names of events, and their effects.

Claude Code and codex use these names. The extensions for other agents translate the names of those agents.
"""

from __future__ import annotations

SESSION_START = "SessionStart"
BEFORE_TOOL = "PreToolUse"
AFTER_TOOL = frozenset({"PostToolUse", "PostToolUseFailure"})
TOOLS = AFTER_TOOL | {BEFORE_TOOL}
PROMPT = "UserPromptSubmit"
TURN_END = "Stop"
SESSION_END = "SessionEnd"

SNAPSHOT_EVENTS = TOOLS | {PROMPT, TURN_END}
"""Events at which a hook takes a snapshot of the workspace."""

INGEST_EVENTS = frozenset({TURN_END, SESSION_END})
"""Events after which a separate process ingests the spool."""

KNOWN = SNAPSHOT_EVENTS | frozenset(
    {SESSION_START, SESSION_END, "SubagentStart", "SubagentStop", "PreCompact", "PostCompact"}
)

READ_ONLY = frozenset(
    {
        *("Read", "Grep", "Glob", "LS", "NotebookRead", "WebFetch", "WebSearch", "TodoWrite", "TodoRead", "ToolSearch"),
        *("TaskList", "TaskGet", "TaskOutput", "BashOutput", "AskUserQuestion", "ExitPlanMode", "EnterPlanMode"),
        *("read", "grep", "glob", "list", "ls", "find", "webfetch", "websearch", "todowrite", "todoread", "question"),
        *("view_image", "update_plan", "list_dir", "read_file", "grep_files", "web_search"),
    }
)
"""Tools that change no file. No snapshot is taken before or after them."""

_TOOL = b'"tool_name"'


def read_only(raw: bytes) -> bool:
    """Return whether ``raw``, the agent's JSON, names a tool of ``READ_ONLY``; false if this cannot be determined.

    A quotation mark within a JSON string is escaped. So the text between two unescaped quotation marks is a complete
    key or value. If the key ``tool_name`` occurs only once, it is a key of the event itself, not of nested data.
    """
    if raw.count(_TOOL) != 1:
        return False
    rest = raw[raw.index(_TOOL) + len(_TOOL) :].lstrip()
    if not rest.startswith(b":"):
        return False
    name, quote, _ = rest[1:].lstrip()[:80].removeprefix(b'"').partition(b'"')
    return bool(quote) and name.decode("ascii", "replace") in READ_ONLY
