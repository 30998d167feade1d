"""What an agent's event asks for, by its name. Names are Claude Code's; codex has the same, others are told in them."""

from __future__ import annotations

BEFORE_TOOL = "PreToolUse"
AFTER_TOOL = frozenset({"PostToolUse", "PostToolUseFailure"})
TOOLS = AFTER_TOOL | {BEFORE_TOOL}
PROMPT = "UserPromptSubmit"
TURN_END = "Stop"
SESSION_END = "SessionEnd"

LOOKS = TOOLS | {PROMPT, TURN_END}
"""At these the workspace is looked at."""

DRAINS = frozenset({TURN_END, SESSION_END})
"""At these a program of its own takes in what waits."""

KNOWN = LOOKS | frozenset({"SessionStart", SESSION_END, "SubagentStart", "SubagentStop", "PreCompact", "PostCompact"})

READ_ONLY = frozenset(
    {
        *("Read", "Grep", "Glob", "LS", "NotebookRead", "WebFetch", "WebSearch", "TodoWrite", "TodoRead", "ToolSearch"),
        *("TaskList", "TaskGet", "TaskOutput", "BashOutput", "AskUserQuestion", "ExitPlanMode", "EnterPlanMode"),
        *("read", "grep", "glob", "list", "ls", "find", "webfetch", "websearch", "todowrite", "todoread", "question"),
        *("view_image", "update_plan", "list_dir", "read_file", "grep_files", "web_search"),
    }
)
"""Tools that change no file: neither before nor after them is there anything to see."""

_TOOL = b'"tool_name"'


def read_only(raw: bytes) -> bool:
    """Whether the agent's words, JSON as it came, are about a tool of ``READ_ONLY``; where in doubt, not.

    A quotation mark within a string is escaped, so what stands between bare ones is a key or a value of its own; and
    where the key is there once only, it is the event's.
    """
    if raw.count(_TOOL) != 1:
        return False
    rest = raw[raw.index(_TOOL) + len(_TOOL) :].lstrip()
    if not rest.startswith(b":"):
        return False
    name, quote, _ = rest[1:].lstrip()[:80].removeprefix(b'"').partition(b'"')
    return bool(quote) and name.decode("ascii", "replace") in READ_ONLY
