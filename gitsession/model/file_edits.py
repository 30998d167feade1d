"""Changes of files that a tool call, or the text of an answer, contains.

Agents write a change in one of these forms: the old and the new text, the whole new text, a patch (codex), which can be
in a shell command, or a search and replace block in the text (Aider). Each form becomes a ``FileEdit``. No function in
this module raises an exception.
"""

from __future__ import annotations

import difflib
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

PATHS = ("path", "file_path", "filePath", "notebook_path", "filename")
"""Names of the arguments with the path of a file."""

PATH_CHARS_MAX = 4096
"""Maximum length of a path in characters. No operating system accepts a longer one, so a longer one is ignored."""

_OLD = ("old_string", "oldString", "oldText", "old_text", "old_str")
_NEW = ("new_string", "newString", "newText", "new_text", "new_str", "new_source")
_EVERYWHERE = ("replace_all", "replaceAll")
_WHOLE = ("content", "file_text", "contents")
_PATCHES = ("input", "patch", "patchText")

_COMPARED_LINES_MAX = 500
"""Maximum number of lines that are compared with each other. The time of the comparison grows with its square."""

_CONTEXT_LINES = 3


class ReplacedText(NamedTuple):
    """A replaced part of a file. ``everywhere``: whether all occurrences of ``old`` were replaced."""

    old: str
    new: str
    everywhere: bool = False


class FileEdit(NamedTuple):
    """A change of one file.

    Attributes:
        path: The path, as the agent wrote it, or relative to a folder.
        lines: The lines of the change, each beginning with " ", "-" or "+", as in a unified diff, without line ends.
        change: ``edit``, ``write`` (the whole file), ``delete`` or ``move``.
        moved_to: The new path if ``change`` is ``move``; otherwise "".
        parts: The replaced parts, in the order of their replacement. For ``write``, the new part is the whole file.
    """

    path: str
    lines: tuple[str, ...]
    change: str = "edit"
    moved_to: str = ""
    parts: tuple[ReplacedText, ...] = ()

    def relative_to(self, folder: str) -> FileEdit:
        """Return the edit with paths relative to ``folder``, if they are in it."""
        return self._replace(path=relative(self.path, folder), moved_to=relative(self.moved_to, folder))

    def made_in(self, folder: str) -> FileEdit:
        """Return the edit with paths below ``folder``, in which the agent made it. Absolute paths do not change."""
        moved_to = self.moved_to and posixpath.join(folder, self.moved_to)
        return self._replace(path=posixpath.join(folder, self.path), moved_to=moved_to)

    @property
    def added(self) -> int:
        """The number of added lines."""
        return sum(line.startswith("+") for line in self.lines)

    @property
    def removed(self) -> int:
        """The number of removed lines."""
        return sum(line.startswith("-") for line in self.lines)

    @property
    def size(self) -> str:
        """The size of the change, such as ``+3 -1``."""
        return f"+{self.added} -{self.removed}"


def edits_in(arguments: Mapping[str, Any]) -> tuple[FileEdit, ...]:
    """Return the changes that the arguments of a tool call request; empty if the call changes no file."""
    command = arguments.get("command")
    patches = [arguments.get(name) for name in _PATCHES]
    if isinstance(command, list | tuple) and len(command) == 2 and command[0] in _PATCH_PROGRAMS:
        patches.append(command[1])
    for value in patches:
        if isinstance(value, str) and _PATCH_BEGIN in value:
            return tuple(_patched(value))
    path = first_text(arguments, PATHS)
    if not path:
        return ()
    edits = arguments.get("edits")
    parts = edits if isinstance(edits, list) else [arguments]
    found = (_replacement(part) for part in parts if isinstance(part, Mapping))
    replaced = tuple(part for part in found if part is not None)
    if replaced:
        return (FileEdit(path, tuple(line for part in replaced for line in compare(*part[:2])), parts=replaced),)
    whole = first_text(arguments, _WHOLE)
    if whole is None:
        return ()
    return (FileEdit(path, tuple(f"+{line}" for line in _lines(whole)), "write", parts=(ReplacedText("", whole),)),)


def _replacement(part: Mapping[str, Any]) -> ReplacedText | None:
    old, new = first_text(part, _OLD), first_text(part, _NEW)
    if old is None and new is None:
        return None
    return ReplacedText(old or "", new or "", any(part.get(name) is True for name in _EVERYWHERE))


def relative(path: str, folder: str) -> str:
    """Return ``path`` relative to ``folder`` if it is in this folder; otherwise unchanged."""
    return path.removeprefix(f"{folder.rstrip('/')}/") if folder else path


def first_text(arguments: Mapping[str, Any], names: Sequence[str]) -> str | None:
    """Return the value of the first of the arguments ``names`` that is a string; ``None`` if there is none."""
    return next((value for name in names if isinstance(value := arguments.get(name), str)), None)


def compare(old: str, new: str) -> list[str]:
    """Return the lines of a diff from ``old`` to ``new``, with a few unchanged lines around each change."""
    before, after = _lines(old), _lines(new)
    if before == after:
        return []
    shorter = min(len(before), len(after))
    head = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    tail = next((at for at in range(shorter - head) if before[-1 - at] != after[-1 - at]), shorter - head)
    lines = [f" {line}" for line in before[max(head - _CONTEXT_LINES, 0) : head]]
    lines.extend(_compare_lines(before[head : len(before) - tail], after[head : len(after) - tail]))
    return lines + [f" {line}" for line in before[len(before) - tail :][:_CONTEXT_LINES]]


def _compare_lines(before: list[str], after: list[str]) -> Iterator[str]:
    """Yield the lines of a diff. If there are many lines, all of them are replaced."""
    if not before or not after or max(len(before), len(after)) > _COMPARED_LINES_MAX:
        yield from (f"-{line}" for line in before)
        yield from (f"+{line}" for line in after)
        return

    for operation, start, end, new_start, new_end in difflib.SequenceMatcher(None, before, after).get_opcodes():
        if operation == "equal":
            kept = before[start:end]
            ends = [*kept[:_CONTEXT_LINES], *kept[-_CONTEXT_LINES:]] if len(kept) > 2 * _CONTEXT_LINES else kept
            yield from (f" {line}" for line in ends)
        else:
            yield from (f"-{line}" for line in before[start:end])
            yield from (f"+{line}" for line in after[new_start:new_end])


def _lines(text: str) -> list[str]:
    """Return the lines of ``text`` without line ends. Only LF and CR LF end a line."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


# ---- codex's patches

_PATCH_BEGIN, _PATCH_END = "*** Begin Patch", "*** End Patch"
_PATCH_PROGRAMS = ("apply_patch", "applypatch")
_PATCH_COMMAND = re.compile(
    r"""\s*(?:cd +(?:'(?P<quoted>[^'\n]+)'|"(?P<text>[^"\\$`\n]+)"|(?P<plain>[\w./@%+=:,][\w./@%+=:,-]*)) *&& *)?"""
    r"""apply_?patch *<< *(?P<quote>['"]?)(?P<word>\w+)(?P=quote)[ \t]*\n"""
)
"""The beginning of a shell command that passes a here-document to ``apply_patch``. It may first change the folder."""
_PATCH_FILE = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)")
_PATCH_MOVE = "*** Move to: "


def _patched(patch: str) -> Iterator[FileEdit]:
    path, change, moved_to = "", "", ""
    lines: list[str] = []
    hunks: list[list[str]] = []
    for line in [*_lines(patch[patch.index(_PATCH_BEGIN) :]), _PATCH_END]:
        begun = _PATCH_FILE.fullmatch(line)
        if begun or line.startswith(_PATCH_END):
            if path:
                parts = (ReplacedText(_text(hunk, " -"), _text(hunk, " +")) for hunk in hunks)
                yield FileEdit(path, tuple(lines), change, moved_to, tuple(parts))
            path, change, moved_to, lines, hunks = "", "", "", [], []
        if begun:
            change = {"Add": "write", "Update": "edit", "Delete": "delete"}[begun[1]]
            path = begun[2].strip()
        elif line.startswith(_PATCH_MOVE) and path:
            change, moved_to = "move", line[len(_PATCH_MOVE) :].strip()
        elif path and line.startswith("@@"):
            hunks.append([])
        elif path and line[:1] in (" ", "-", "+"):
            lines.append(line)
            if not hunks:
                hunks.append([])
            hunks[-1].append(line)


def _text(hunk: Sequence[str], signs: str) -> str:
    return "\n".join(line[1:] for line in hunk if line[0] in signs)


def edits_in_command(command: str) -> tuple[tuple[FileEdit, ...], str]:
    """Return the changes by the patches with which a shell command begins, and the rest of the command.

    codex applies such patches itself. A here-document that does not end, or that is not a whole patch, is part of the
    rest, and so are all patches after it.
    """
    found: list[FileEdit] = []
    at, folder, lines = 0, "", f"{command}\n"
    while begun := _PATCH_COMMAND.match(command, at):
        end = lines.find(f"\n{begun['word']}\n", begun.end() - 1)
        patch = command[begun.end() : max(end, 0)].strip()
        if not (patch.startswith(_PATCH_BEGIN) and patch.endswith(_PATCH_END)):
            break
        folder = posixpath.join(folder, begun["quoted"] or begun["text"] or begun["plain"] or "")
        found += [edit.made_in(folder) for edit in _patched(patch)]
        at = end + len(begun["word"]) + 2
    return tuple(found), command[at:].strip() if found else command


# ---- Aider's blocks

_SEARCH, _DIVIDER, _REPLACE = (
    re.compile(rf"{mark}{{5,9}}{word}\s*") for mark, word in (("<", " SEARCH>?"), ("=", ""), (">", " REPLACE"))
)


def edits_in_text(text: str) -> tuple[FileEdit, ...]:
    """Return the search and replace blocks in the text of an answer of Aider."""
    if "<<<<< SEARCH" not in text:
        return ()
    found: list[FileEdit] = []
    path, parts = "", list[list[str]]()
    for line in _lines(text):
        if not parts:
            if _SEARCH.fullmatch(line):
                parts = [[]]
            elif line.strip() and not line.startswith("```"):
                path = line.strip().strip("`*# ")
        elif len(parts) == 1 and _DIVIDER.fullmatch(line):
            parts.append([])
        elif len(parts) == 2 and _REPLACE.fullmatch(line):
            part = ReplacedText("\n".join(parts[0]), "\n".join(parts[1]))
            lines = compare(part.old, part.new)
            found += [FileEdit(path, tuple(lines), parts=(part,))] if path and lines else []
            parts = []
        else:
            parts[-1].append(line)
    return tuple(found)
