"""The hooks of each agent: their location, their events, and the commands and scripts that run `gitsession hook`."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

from gitsession.dataclass import dataclass
from gitsession.errors import NotFound
from gitsession.formats import CONFIG, FOLDERS
from gitsession.live import events

SECONDS = 30
"""Time in seconds after which an agent stops waiting for a hook. A gitsession hook ends earlier."""


@dataclass(frozen=True, slots=True)
class HookSettings:
    """A JSON settings file with hooks in Claude Code's format. ``events``: events that the agent supports."""

    agent: str
    name: str
    events: Sequence[str]
    then: str = ""
    """Steps that the user must take after the installation."""
    seconds: Mapping[str, int] = field(default_factory=dict)
    """Timeouts in seconds of the events for which the limit of the agent is lower than ``SECONDS``."""
    status_line: str = ""
    """Key of the command whose output the agent shows in its status bar; "" if the agent runs no such command."""


@dataclass(frozen=True, slots=True)
class Extension:
    """A file that gitsession creates and the agent loads. ``text``: template with ``@PROGRAM@`` and ``@AGENT@``."""

    agent: str
    name: str
    text: str
    then: str = ""


_CLAUDE = (
    *("SessionStart", events.PROMPT, events.BEFORE_TOOL, "PostToolUse", "PostToolUseFailure"),
    *("SubagentStop", "PreCompact", events.TURN_END, events.SESSION_END),
)
_CODEX = tuple(event for event in _CLAUDE if event != "PostToolUseFailure")

_CODEX_SECONDS = {events.SESSION_END: 3}
"""Timeouts in seconds. codex 0.169 limits hooks of this event to 3 s, and warns at each start about longer timeouts."""

_SCRIPT_HEAD = """\
// Written by `gitsession enable @AGENT@`; `gitsession disable @AGENT@` takes it away.
import { spawn } from "node:child_process";

const program = @PROGRAM@;

/** Says what happens, and waits until it is noted. Whatever goes wrong there is no business of the agent's. */
function tell(event, said) {
  return new Promise((done) => {
    try {
      const words = [...program.slice(1), "hook", event, "--from", "@AGENT@"];
      const child = spawn(program[0], words, { stdio: ["pipe", "ignore", "ignore"] });
      const patience = setTimeout(done, @SECONDS@000);
      const end = () => { clearTimeout(patience); done(); };
      child.on("error", end);
      child.on("close", end);
      child.stdin.on("error", () => {});
      child.stdin.end(JSON.stringify(said));
    } catch {
      done();
    }
  });
}
"""

_OPENCODE = (
    _SCRIPT_HEAD
    + """
export const gitsession = async ({ directory }) => {
  const said = (session, more) => ({ session_id: session, cwd: directory, ...more });
  const tool = (input, args) => ({ tool_name: input.tool, tool_use_id: input.callID, tool_input: args });
  return {
    "chat.message": async (input, output) => {
      const words = (output?.parts ?? []).map((part) => part.text ?? "").join("");
      await tell("UserPromptSubmit", said(input.sessionID, { prompt: words }));
    },
    "tool.execute.before": async (input, output) => {
      await tell("PreToolUse", said(input.sessionID, tool(input, output?.args)));
    },
    "tool.execute.after": async (input) => {
      await tell("PostToolUse", said(input.sessionID, tool(input, input.args)));
    },
    event: async ({ event }) => {
      if (event.type === "session.idle") await tell("Stop", said(event.properties.sessionID));
    },
  };
};
"""
)

_PI = (
    _SCRIPT_HEAD
    + """
export default function (pi) {
  const on = (theirs, ours, more) =>
    pi.on(theirs, async (event, ctx) => {
      try {
        const where = { session_id: ctx.sessionManager.getSessionId(), cwd: ctx.cwd };
        const file = ctx.sessionManager.getSessionFile();
        await tell(ours, { ...where, ...(file ? { transcript_path: file } : {}), ...more(event) });
      } catch {}
    });
  const tool = (event) => ({ tool_name: event.toolName, tool_use_id: event.toolCallId, tool_input: event.input });
  on("session_start", "SessionStart", () => ({}));
  on("before_agent_start", "UserPromptSubmit", (event) => ({ prompt: event.prompt }));
  on("tool_call", "PreToolUse", tool);
  on("tool_result", "PostToolUse", tool);
  on("agent_end", "Stop", () => ({}));
  on("session_shutdown", "SessionEnd", () => ({}));
}
"""
)

_TRUST = "codex runs a hook only after you have reviewed it: review it at the next start, or enter /hooks in codex"

AGENTS: dict[str, HookSettings | Extension] = {
    "claude": HookSettings("claude", "settings.json", _CLAUDE, status_line="statusLine"),
    "codex": HookSettings("codex", "hooks.json", _CODEX, then=_TRUST, seconds=_CODEX_SECONDS),
    "omp": Extension("omp", "extensions/gitsession.js", _PI),
    "opencode": Extension("opencode", "plugin/gitsession.js", _OPENCODE),
    "pi": Extension("pi", "extensions/gitsession.js", _PI),
}

WATCHED = ("aider", "librecode")
"""Agents without hooks."""


def find(agent: str) -> HookSettings | Extension:
    """Return the hooks of an agent.

    Raises ``NotFound`` if the agent is unknown or has no hooks. The hint names the supported agents, or `watch`.
    """
    if agent in WATCHED:
        raise NotFound(f"agent {agent!r} has no hooks", hint="run `gitsession watch` to import its sessions")
    if agent not in AGENTS:
        raise NotFound(f"unknown agent {agent!r}", hint=f"choose one of {', '.join(AGENTS)}")
    return AGENTS[agent]


def file_of(hooks: HookSettings | Extension, home: Path, environment: Mapping[str, str]) -> Path:
    """Return the path of the file that contains the hooks.

    If the environment variable of the agent's folder is set, it replaces the default folder.
    """
    folder = FOLDERS[hooks.agent]
    custom = environment.get(folder.variable)
    if custom:
        return Path(custom).expanduser() / hooks.name
    below = folder.home.removeprefix(f"{CONFIG.home}/")
    config = environment.get(CONFIG.variable) if below != folder.home else None
    return (Path(config) / below if config else home / folder.home) / hooks.name


def command(agent: str, event: str, program: Sequence[str]) -> str:
    """Return the shell command of a hook."""
    return f"{shlex.join([*program, 'hook', event, '--from', agent])}{_SILENT}"


def is_own_command(command: str, agent: str) -> bool:
    """Return whether ``command`` is a gitsession hook for ``agent``. The path of the program is not compared."""
    text = command.removesuffix(_SILENT)
    return text != command and f" --from {agent}" in text and " hook " in text and "gitsession" in text


def status_line_command(program: Sequence[str]) -> str:
    """Return the shell command of a status line."""
    return f"{shlex.join([*program, _STATUS_LINE])}{_SILENT}"


def is_own_status_line(command: str) -> bool:
    """Return whether ``status_line_command`` returned ``command``. The path of the program is not compared."""
    text = command.removesuffix(_SILENT)
    return text != command and text.endswith(f" {_STATUS_LINE}") and "gitsession" in text


_STATUS_LINE = "status-line"
_SILENT = " 2>/dev/null || true"
"""The end of a command that prints no errors and exits with 0, even without the program."""


def text_of(hooks: Extension, program: Sequence[str]) -> str:
    text = hooks.text.replace("@PROGRAM@", json.dumps(list(program))).replace("@AGENT@", hooks.agent)
    return text.replace("@SECONDS@", str(SECONDS))


def is_created_text(text: str) -> bool:
    """Return whether ``text`` is the text of a file that gitsession created, even if the file was edited later."""
    return text.startswith(_FIRST_LINE)


def is_unedited(hooks: Extension, text: str) -> bool:
    """Return whether ``text`` is the text that this version writes. The path of the program is not compared."""
    found = _PROGRAM.search(text)
    try:
        return found is not None and text == text_of(hooks, json.loads(found[1]))
    except (ValueError, TypeError):
        return False


_FIRST_LINE = "// Written by `gitsession enable "
_PROGRAM = re.compile(r"^const program = (.*);$", re.MULTILINE)
