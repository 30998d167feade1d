"""The prompt histories of agents: files in which an agent keeps the prompts that the user typed, to recall them later.

An agent may keep a prompt longer than its session. pi and librecode have no such file. This module does not access
files. ``discovery.prompt_histories`` reads them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from gitsession.formats import DATA, FOLDERS, STATE, SearchRoot
from gitsession.formats.base.fields import INT_MAX, object_in, plain, text_of, to_ms
from gitsession.formats.base.jsonl import Object
from gitsession.pattern import pattern


class TypedPrompt(NamedTuple):
    """A prompt in the prompt history of an agent.

    ``at_ms``: Unix time in ms; 0 if it is unknown. ``project``: the working directory, and ``source_id``: the agent's
    id of the session; "" if the history does not contain them.
    """

    agent: str
    text: str
    at_ms: int = 0
    project: str = ""
    source_id: str = ""

    @property
    def is_command(self) -> bool:
        """True if the text is a shell command (``!ls``), or a command of the agent without arguments (``/clear``)."""
        return bool(_COMMAND.match(self.text.strip()))


_COMMAND = pattern(r"!|/\S*\Z")

ReadBeside: TypeAlias = Callable[[str], str | None]
"""A function that returns the text of a file, given its path relative to the history; ``None`` if it cannot be read."""

HISTORY_ROOTS: Mapping[str, tuple[SearchRoot, ...]] = {
    "claude": (FOLDERS["claude"].root("history.jsonl"),),
    "codex": (FOLDERS["codex"].root("history.jsonl"),),
    "omp": (
        FOLDERS["omp"].root("history.db"),
        SearchRoot(".omp", "profiles/*/agent/history.db"),
        DATA.root("omp/history.db"),
    ),
    "opencode": (STATE.root("opencode/prompt-history.jsonl"),),
}
"""The prompt histories of each agent, except Aider's, which is in the folder of the project."""

AIDER_FILE, AIDER_VARIABLE = ".aider.input.history", "AIDER_INPUT_HISTORY_FILE"
"""Aider's history in the top folder of a repository, and the variable that can contain another path."""

OMP_TABLE = "history"
OMP_COLUMNS = ("prompt", "created_at", "cwd", "session_id")
"""The columns of omp's history. The first versions of omp had no ``session_id``."""


# ---- agents with one JSON object per prompt

_PASTED = pattern(r"\[(?:Pasted text|\.\.\.Truncated text) #([0-9]+)(?: \+[0-9]+ lines)?\.*\]")
_HASH = pattern(r"[0-9a-f]{8,64}")
_EXPANDED_CHARS_MAX = 1 << 20
"""Maximum length of the pasted text in one prompt. The placeholders after it are kept."""


def _of_claude(value: Object, beside: ReadBeside) -> TypedPrompt:
    pastes = object_in(value, "pastedContents")
    room = _EXPANDED_CHARS_MAX

    def pasted(found: re.Match[str]) -> str:
        nonlocal room
        paste = object_in(pastes, found[1])
        content, hash = plain(paste.get("content")) or None, plain(paste.get("contentHash"))
        if content is None and room > 0 and _HASH.fullmatch(hash):
            content = beside(f"paste-cache/{hash}.txt")
        if content is None or len(content) > room:
            return found[0]
        room -= len(content)
        return content

    text = _PASTED.sub(pasted, plain(value.get("display")))
    at_ms = to_ms(value.get("timestamp")) or 0
    return TypedPrompt("claude", text, at_ms, plain(value.get("project")), plain(value.get("sessionId")))


def _of_codex(value: Object, _: ReadBeside) -> TypedPrompt:
    return TypedPrompt(
        "codex", plain(value.get("text")), _from_seconds(value.get("ts")), "", plain(value.get("session_id"))
    )


def _of_opencode(value: Object, _: ReadBeside) -> TypedPrompt:
    """Return a prompt without a time, because opencode records none. A shell command gets its exclamation mark."""
    text = plain(value.get("input"))
    parts = value.get("parts")
    room = _EXPANDED_CHARS_MAX
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict) and (pasted := text_of([part])) and len(pasted) <= room:
            placeholder = plain(object_in(object_in(part, "source"), "text").get("value"))
            if placeholder and placeholder in text:
                room -= len(pasted)
                text = text.replace(placeholder, pasted, 1)
    return TypedPrompt("opencode", f"!{text}" if value.get("mode") == "shell" else text)


FROM_LINE: Mapping[str, Callable[[Object, ReadBeside], TypedPrompt]] = {
    "claude": _of_claude,
    "codex": _of_codex,
    "opencode": _of_opencode,
}
"""Functions that read a line of a history."""


# ---- omp and Aider


def of_omp(prompt: Any, created_at: Any, cwd: Any, session_id: Any) -> TypedPrompt:
    """Return the prompt in a row of omp's history."""
    return TypedPrompt("omp", plain(prompt), _from_seconds(created_at), plain(cwd), plain(session_id))


def of_aider(data: bytes, project: str) -> Iterator[TypedPrompt]:
    """Yield the prompts in the end of an input history of Aider, the newest first. Its times are local times."""
    for block in reversed(_STAMP.split(data.decode("utf-8", "replace"))[1:]):
        stamp, _, lines = block.partition("\n")
        text = "\n".join(line[1:] for line in lines.split("\n") if line.startswith("+"))
        yield TypedPrompt("aider", text, _from_local(stamp), project)


_STAMP = pattern(r"^# (?=[0-9]{4}-)", re.MULTILINE)


def _from_local(stamp: str) -> int:
    try:
        return max(int(datetime.fromisoformat(stamp.strip()).timestamp() * 1000), 0)
    except (ValueError, OverflowError, OSError):
        return 0


def _from_seconds(value: object) -> int:
    return value * 1000 if type(value) is int and 0 <= value < INT_MAX // 1000 else 0
