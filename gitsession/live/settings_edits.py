"""Edits of agents' settings that install and remove hooks and the status line.

An edit is planned before anything is written.

The original of a file is stored below the store, readable only by its owner. If no other program has changed the file
after the installation, ``disable`` restores the original bytes. Otherwise, ``disable`` removes only the hooks. A file
that gitsession created and another program edited is overwritten or deleted only with ``force``. A copy is then kept.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from gitsession.dataclass import dataclass
from gitsession.durable import make_directories, read_regular, replace, sync_directory, write_new
from gitsession.errors import Malformed, Refused, Unavailable
from gitsession.live import agent_hooks
from gitsession.live.agent_hooks import Extension, HookSettings

FOLDER = "gitsession/enabled"
"""Path of the folder for originals, relative to the store."""

HOOKS = "hooks"


@dataclass(frozen=True, slots=True)
class Edit:
    """A planned change to a file, from ``old`` to ``new``.

    ``old`` and ``new``: contents of the file; ``None`` if it does not exist. ``file``: its path without symbolic links.
    """

    agent: str
    file: Path
    old: bytes | None
    new: bytes | None
    keeps: bool = False
    """True if the change discards edits that gitsession did not make. A copy of the file is then kept (``copy_of``)."""
    keeps_status_line: bool = False
    """True if the settings have a status line that gitsession did not set. It stays as it is."""

    @property
    def is_empty(self) -> bool:
        return self.old == self.new


def plan_enable(
    store: Path, spec: HookSettings | Extension, file: Path, program: Sequence[str], *, force: bool = False,
    status_line: bool | None = None,
) -> Edit:  # fmt: skip
    """Plan the installation of hooks.

    ``status_line``: whether to set the agent's status line. By default, it is set if the agent has a setting for it,
    and there is no other status line.

    Raises ``Refused`` if the settings cannot be parsed, or if gitsession did not create an extension file. Without
    ``force``, raises ``Refused`` also if that file was edited later. If ``status_line`` is true, raises ``Refused`` if
    the status line cannot be set. Raises ``OSError``.
    """
    file = Path(os.path.realpath(file))
    old = read_regular(file)
    if status_line and (isinstance(spec, Extension) or not spec.status_line):
        raise Refused(f"cannot set a status line: {spec.agent} runs no command for its status bar")
    if isinstance(spec, Extension):
        new = agent_hooks.text_of(spec, program).encode()
        return Edit(spec.agent, file, old, new, old != new and _needs_force(store, spec, file, old, force))
    text = _text(old, file)
    wanted = {event: agent_hooks.command(spec.agent, event, program) for event in spec.events}
    if _own_hooks(text, spec, file) != [(event, command, _seconds(spec, event)) for event, command in wanted.items()]:
        text = _add_hooks(_remove_hooks(text, spec, file), spec, file, wanted)
    if status_line is False:
        return Edit(spec.agent, file, old, _remove_status_line(text, spec, file).encode())
    keeps = _other_status_line(text, spec, file)
    if keeps and status_line:
        what = f"cannot set the status line in '{file}': there is another one"
        raise Refused(what, hint=f"remove {spec.status_line!r} from the file and run the command again")
    if spec.status_line and not keeps:
        text = _set_status_line(text, spec, file, agent_hooks.status_line_command(program))
    return Edit(spec.agent, file, old, text.encode(), keeps_status_line=keeps)


def plan_disable(store: Path, spec: HookSettings | Extension, file: Path, *, force: bool = False) -> Edit:
    """Plan the removal of all gitsession hooks, and of its status line. Raises the errors of ``plan_enable``."""
    file = Path(os.path.realpath(file))
    old = read_regular(file)
    if isinstance(spec, Extension):
        return Edit(spec.agent, file, old, None, _needs_force(store, spec, file, old, force))
    original = _original(store, spec.agent, file, old)
    new = old if original is None else original[0]
    if new is None:
        return Edit(spec.agent, file, old, None)
    text = _text(new, file)  # the original may contain hooks of gitsession for another store
    without = _remove_status_line(_remove_hooks(text, spec, file), spec, file)
    return Edit(spec.agent, file, old, new if without == text else without.encode())


def is_enabled(spec: HookSettings | Extension, file: Path) -> bool:
    """Return whether hooks are installed. Raises the errors of ``plan_enable``."""
    old = read_regular(file)
    if isinstance(spec, Extension):
        return old is not None and agent_hooks.is_created_text(old.decode("utf-8", "replace"))
    return old is not None and bool(_own_hooks(_text(old, file), spec, file))


def perform(store: Path, edit: Edit, *, enable: bool) -> None:
    """Write or delete the file of ``edit`` atomically.

    Raises ``Refused`` if the file has changed after the edit was planned, and ``Unavailable`` if it cannot be written.
    """
    try:
        _check_as_planned(edit)
        if edit.keeps and edit.old is not None:
            copy = copy_of(store, edit)
            make_directories(copy.parent)
            copy.unlink(missing_ok=True)
            write_new(copy, edit.old)
        if enable:
            _record_original(store, edit)
        if edit.new is None:
            _check_as_planned(edit)
            edit.file.unlink(missing_ok=True)
        else:
            make_directories(edit.file.parent)
            temporary = edit.file.with_name(f".{edit.file.name}.{secrets.token_hex(4)}.tmp")
            write_new(temporary, edit.new, mode=0o600 if edit.old is None else edit.file.stat().st_mode & 0o777)
            try:
                _check_as_planned(edit)  # again: the agent may have saved the file while the new file was written
                os.replace(temporary, edit.file)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
        if edit.file.parent.is_dir():
            sync_directory(edit.file.parent)
        if not enable:
            _record_path(store, edit.agent, edit.file).unlink(missing_ok=True)
    except OSError as error:
        raise Unavailable(f"cannot write '{edit.file}': {error.strerror}") from error


def _check_as_planned(edit: Edit) -> None:
    if read_regular(edit.file) != edit.old:
        raise Refused(f"cannot write '{edit.file}': another program has changed it", hint="run the command again")


# ---- JSON settings


def _text(old: bytes | None, file: Path) -> str:
    try:
        text = (old or b"").decode()
    except UnicodeDecodeError as error:
        raise _unsupported(file, f"not UTF-8 at byte {error.start}") from None
    return text if text.strip() else "{}\n"


def _hooks(text: str, file: Path) -> tuple[Part, Part | None]:
    """Return the whole document and the value of its key ``hooks``.

    Raises ``Refused`` if the structure is not supported.
    """
    try:
        whole = parse(text, "")
    except Malformed as error:
        raise _unsupported(file, str(error)) from None
    if not whole.is_object:
        raise _unsupported(file, "not a JSON object")
    hooks = whole.get(HOOKS)
    if hooks is not None:
        wrong = [part.key for part in hooks.parts if text[part.start] != "["] if hooks.is_object else [HOOKS]
        if wrong:
            raise _unsupported(file, f"the value of {wrong[0]!r} has an unexpected type")
    return whole, hooks


def _unsupported(file: Path, problem: str) -> Refused:
    return Refused(f"cannot change '{file}': {problem}", hint="correct the file and run the command again")


def _seconds(spec: HookSettings, event: str) -> int:
    return spec.seconds.get(event, agent_hooks.SECONDS)


def _find_own(hooks: Part | None, spec: HookSettings) -> Iterator[tuple[Part, Part, Part, str]]:
    """Yield gitsession's hooks, each with its event, its group and its command."""
    for event in hooks.parts if hooks is not None else []:
        for group in event.parts:
            inner = group.get(HOOKS)
            for hook in inner.parts if inner is not None else []:
                command = hook.get("command")
                text = command.value if command is not None else None
                if isinstance(text, str) and agent_hooks.is_own_command(text, spec.agent):
                    yield event, group, hook, text


def _timeout(hook: Part) -> int | None:
    found = hook.get("timeout")
    return found.value if found is not None and isinstance(found.value, int) else None


def _own_hooks(text: str, spec: HookSettings, file: Path) -> list[tuple[str, str, int | None]]:
    """Return the event, command and timeout (in seconds) of gitsession's hooks, in the order of the agent's events."""
    _, hooks = _hooks(text, file)
    rows = [(event.key, command, _timeout(hook)) for event, _, hook, command in _find_own(hooks, spec)]
    order = {event: number for number, event in enumerate(spec.events)}
    return sorted(rows, key=lambda row: order.get(row[0], len(order)))


def _add_hooks(text: str, spec: HookSettings, file: Path, wanted: dict[str, str]) -> str:
    for event, command in wanted.items():
        hook: dict[str, Any] = {"type": "command", "command": command, "timeout": _seconds(spec, event)}
        group = {HOOKS: [hook]}
        whole, hooks = _hooks(text, file)
        if hooks is None:
            text = insert(text, whole, {event: [group]}, key=HOOKS)
        elif (groups := hooks.get(event)) is None:
            text = insert(text, hooks, [group], key=event)
        else:
            text = insert(text, groups, group)
    return text


def _remove_hooks(text: str, spec: HookSettings, file: Path) -> str:
    """Return ``text`` without gitsession's hooks.

    The text is parsed again after each removal, because a removal changes the positions of later hooks.
    """
    while True:
        whole, hooks = _hooks(text, file)
        found = next(_find_own(hooks, spec), None)
        if found is None or hooks is None:
            return text
        event, group, hook, _ = found
        inner = group.get(HOOKS)
        if inner is not None and len(inner.parts) > 1:
            text = remove(text, inner, hook)
        elif len(event.parts) > 1:
            text = remove(text, event, group)
        elif len(hooks.parts) > 1:
            text = remove(text, hooks, event)
        else:
            text = remove(text, whole, hooks)


# ---- the status line


def _status_line(text: str, spec: HookSettings, file: Path) -> tuple[Part, Part | None, Part | None]:
    """Return the whole document, the status line, and its command if gitsession set it."""
    whole, _ = _hooks(text, file)
    found = whole.get(spec.status_line) if spec.status_line else None
    command = found.get("command") if found is not None else None
    text = command.value if command is not None and isinstance(command.value, str) else ""
    return whole, found, command if agent_hooks.is_own_status_line(text) else None


def _other_status_line(text: str, spec: HookSettings, file: Path) -> bool:
    _, found, own = _status_line(text, spec, file)
    return found is not None and own is None


def _set_status_line(text: str, spec: HookSettings, file: Path, command: str) -> str:
    """Return ``text`` with gitsession's status line. There must be no other one."""
    whole, _, own = _status_line(text, spec, file)
    if own is None:
        return insert(text, whole, {"type": "command", "command": command}, key=spec.status_line)
    return text if own.value == command else text[: own.start] + json.dumps(command) + text[own.end :]


def _remove_status_line(text: str, spec: HookSettings, file: Path) -> str:
    """Return ``text`` without gitsession's status line."""
    whole, found, own = _status_line(text, spec, file)
    return text if found is None or own is None else remove(text, whole, found)


# ---- files that gitsession created


def _needs_force(store: Path, spec: Extension, file: Path, old: bytes | None, force: bool) -> bool:
    """Return whether an extension file was edited after gitsession created it.

    Raises ``Refused`` if gitsession did not create the file, or if the file was edited and ``force`` is not set.
    """
    if old is None or _original(store, spec.agent, file, old) is not None:
        return False
    text = old.decode("utf-8", "replace")
    if not agent_hooks.is_created_text(text):
        raise Refused(
            f"cannot change '{file}': gitsession did not create it",
            hint="move the file elsewhere and run the command again",
        )
    if agent_hooks.is_unedited(spec, text):
        return False
    if not force:
        raise Refused(
            f"cannot change '{file}': it was edited after gitsession created it",
            hint="move the edits to another file, or pass --force (a copy is kept in the store)",
        )
    return True


def copy_of(store: Path, edit: Edit) -> Path:
    """Return the path of the copy that is made of an edited file before the file is overwritten or deleted."""
    assert edit.old is not None
    name = f"{edit.agent}-{hashlib.sha256(edit.old).hexdigest()[:16]}{edit.file.suffix}"
    return store / FOLDER / name


# ---- the original of a file


def _record_path(store: Path, agent: str, file: Path) -> Path:
    return store / FOLDER / f"{agent}-{hashlib.sha256(os.fsencode(file)).hexdigest()[:16]}.json"


def _record_original(store: Path, edit: Edit) -> None:
    """Record the original of the file of ``edit`` and the hash of its new content."""
    known = _original(store, edit.agent, edit.file, edit.old)
    original = edit.old if known is None else known[0]
    record = {
        "file": os.fsencode(edit.file).decode("utf-8", "replace"),
        "before": None if original is None else base64.b64encode(original).decode(),
        "after": hashlib.sha256(edit.new or b"").hexdigest(),
    }
    path = _record_path(store, edit.agent, edit.file)
    make_directories(path.parent)
    replace(path, json.dumps(record).encode(), by=path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp"))


def _original(store: Path, agent: str, file: Path, current: bytes | None) -> tuple[bytes | None] | None:
    """Return a one-element tuple with the original content. Its element is ``None`` if the file did not exist.

    Instead of a tuple, return ``None`` if the original is unknown or another program has changed the file.
    """
    try:
        record = json.loads(read_regular(_record_path(store, agent, file)) or b"{}")
        if current is None or record["after"] != hashlib.sha256(current).hexdigest():
            return None
        return (None if record["before"] is None else base64.b64decode(record["before"]),)
    except (OSError, ValueError, KeyError, TypeError):
        return None


# Insertion and removal of values in a JSON text. All other bytes are kept. New values are indented like existing ones.

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()
_UNIT = "  "


@dataclass(slots=True)
class Part:
    """A JSON value and its position.

    ``begin``: start of the key, or of the value if there is no key. ``start`` and ``end``: start and end of the value.
    ``parts``: the values in an object or an array.
    """

    begin: int
    start: int
    end: int = 0
    key: str = ""
    is_object: bool = False
    parts: list[Part] = field(default_factory=list)
    value: Any = None

    def get(self, key: str) -> Part | None:
        """Return the value of a key; the last one if the key occurs twice, as JSON parsers do."""
        return next((part for part in reversed(self.parts) if self.is_object and part.key == key), None)


def parse(text: str, where: str) -> Part:
    """Parse JSON ``text``. Raises ``Malformed`` with ``where`` and the line and column of the error."""
    try:
        json.loads(text)
        start = _skip(text, 0)
        return _value(text, start, "", start)
    except (ValueError, RecursionError, IndexError) as error:
        raise Malformed(f"invalid JSON: {error}", where=where) from None


def insert(text: str, container: Part, value: Any, *, key: str | None = None) -> str:
    """Return ``text`` with a value appended to an object (under ``key``) or to an array."""
    name = "" if key is None else json.dumps(key) + ": "
    between, inner = _layout(text, container)
    if "\n" in between:
        unit = _unit(text)
        margin = between.rpartition("\n")[2]
        json_text = json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", "\n" + margin)
    else:
        json_text = json.dumps(value, ensure_ascii=False)
    if not container.parts:
        return text[: container.start + 1] + between + name + json_text + inner + text[container.end - 1 :]
    at = container.parts[-1].end
    return text[:at] + "," + (between or " ") + name + json_text + text[at:]


def remove(text: str, container: Part, part: Part) -> str:
    """Return ``text`` without the value ``part`` of an object or an array."""
    number = next(at for at, each in enumerate(container.parts) if each is part)
    if len(container.parts) == 1:
        return text[: container.start + 1] + text[container.end - 1 :]
    if number:
        return text[: container.parts[number - 1].end] + text[part.end :]
    return text[: part.begin] + text[container.parts[1].begin :]


def _layout(text: str, container: Part) -> tuple[str, str]:
    """Return the white space before a value in a container, and before the closing bracket of an empty container."""
    if container.parts:
        return text[container.start + 1 : container.parts[0].begin], ""
    line = text.rfind("\n", 0, container.start) + 1
    margin = text[line : len(text) - len(text[line:].lstrip(" \t"))]
    return f"\n{margin}{_unit(text)}", f"\n{margin}"


def _unit(text: str) -> str:
    """Return the indentation of one level in ``text``."""
    found = re.search(r"[{\[]\r?\n([ \t]+)", text)
    return found[1] if found else _UNIT


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int, key: str, begin: int) -> Part:
    part = Part(begin, at, key=key, is_object=text[at] == "{")
    if text[at] not in "{[":
        part.value, part.end = _DECODER.raw_decode(text, at)
        return part
    at = _skip(text, at + 1)
    while text[at] not in "}]":
        begin, key = at, ""
        if part.is_object:
            key, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        part.parts.append(_value(text, at, key, begin))
        at = _skip(text, part.parts[-1].end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    part.end = at + 1
    return part
