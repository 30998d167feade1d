"""Which files the agent read and which it changed, carried from one compaction to the next (rule 28)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gitsession.codec.cbor import whole
from gitsession.model.blocks import ToolCall
from gitsession.model.entries import BranchSummary, Compaction, Entry, Message

READS = frozenset({"read", "Read", "read_file", "view"})
CHANGES = frozenset(
    {"write", "edit", "Write", "Edit", "MultiEdit", "NotebookEdit", "write_file", "edit_file", "str_replace"}
)
"""What agents call their tools for files."""

PATH_CHARS_MAX = 4096
"""No system opens a longer one; what is longer is no path, and would be carried for ever."""

ARGUMENTS = ("path", "file_path", "filePath", "notebook_path")


@dataclass(frozen=True, slots=True)
class TouchedFiles:
    """Paths as the agent named them, sorted; one that was changed is not among those that were only read."""

    read: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()


NO_FILES = TouchedFiles()


def touched(entries: Iterable[Entry], carried: TouchedFiles = NO_FILES) -> TouchedFiles:
    """The files that ``entries`` call tools on, and those ``carried`` from earlier."""
    read, changed = set(map(whole, carried.read)), set(map(whole, carried.modified))
    for entry in entries:
        for block in entry.content if isinstance(entry, Message) and entry.role == "assistant" else ():
            path = path_of(block) if isinstance(block, ToolCall) else ""
            if path and isinstance(block, ToolCall):
                read.update([path] if block.name in READS else [])
                changed.update([path] if block.name in CHANGES else [])
    return TouchedFiles(_sorted(read - changed), _sorted(changed))


def carried_by(entry: Compaction | BranchSummary | None) -> TouchedFiles:
    """The files that a summary hands on; what an extension wrote into one of its own is not trusted to be such."""
    if entry is None or entry.extra.get("fromHook") or entry.extra.get("fromExtension"):
        return NO_FILES
    return TouchedFiles(entry.read_files, entry.modified_files)


def path_of(call: ToolCall) -> str:
    """The file that a call names; "" where it names none."""
    stated = (call.arguments.get(name) for name in ARGUMENTS)
    return next((whole(path) for path in stated if isinstance(path, str) and len(path) <= PATH_CHARS_MAX), "")


def _sorted(paths: set[str]) -> tuple[str, ...]:
    # As JavaScript sorts: by UTF-16 units.
    return tuple(sorted(paths, key=lambda path: path.encode("utf-16-be")))
