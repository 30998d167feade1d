"""An event of the spool as it is read: whose, when, about what, and what was seen of the workspace."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gitsession.codec.cbor import whole
from gitsession.durable import read_regular
from gitsession.errors import Malformed
from gitsession.git.objects import SUBMODULE_MODE, oid_of
from gitsession.git.types import Oid
from gitsession.live import spool
from gitsession.live.spool_snapshot import BYTES_MAX
from gitsession.workspace import names
from gitsession.workspace.read_file import PathContent
from gitsession.workspace.trees import TreeEntry

_HEAD_BYTES_MAX = 64 << 20
_MODES = ("100644", "100755", "120000", SUBMODULE_MODE)
_HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class SpooledSnapshot:
    """What differed from the look ``before`` (``None``: from nothing), whose tree was ``base`` where that was known."""

    workspace: str
    before: str | None
    base: tuple[Oid | None] | None
    name: str
    changes: tuple[PathContent, ...]
    skipped: tuple[tuple[str, str], ...]
    appeared: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """``session``: as the agent calls it; ``file``: where its lines are, "" where the agent did not say.

    ``workspace`` is known and ``look`` is ``None`` where a look was given up; ``gave_up`` says why.
    """

    spooled: str
    name: str
    agent: str
    at_ms: int
    session: str
    file: str
    other_file: str
    workspace: str
    call: str | None
    within_agent: bool
    prompt: str
    reason: str | None
    look: SpooledSnapshot | None
    gave_up: str

    @property
    def key(self) -> str:
        """Of which session it is."""
        return f"{self.agent}\n{self.session or self.file}"


def read(store: Path, name: str) -> Event | None:
    """An event of the spool; ``None`` where it is gone. Raises ``Malformed`` for what is none, ``OSError``."""
    data = read_regular(spool.path(str(store), name))
    return None if data is None else parse(name, data)


def parse(name: str, data: bytes) -> Event:
    """Raises ``Malformed``."""
    end = data.find(b"\n")
    if end < 0 or end > _HEAD_BYTES_MAX:
        raise Malformed("an event without a whole first line", where=name)
    head = _object(data[:end], name)
    if head.get("v") != spool.VERSION:
        raise Malformed(f"an event of version {head.get('v')!r}; we know {spool.VERSION}", where=name)
    rest = data[end + 1 :]
    told = head.get("data")
    if told is None and "look" not in head:
        told = _object(rest, name)
        rest = b""
    if not isinstance(told, dict):
        raise Malformed("what the agent said is no object", where=name)
    look = head.get("look")
    at_ms = head.get("at_ms")
    if not isinstance(at_ms, int) or not 0 <= at_ms < 1 << 53:
        raise Malformed("no time", where=name)
    return Event(
        spooled=name,
        name=_text(head, "event"),
        agent=_text(head, "agent"),
        at_ms=at_ms,
        session=_text(told, "session_id"),
        file=_place(told, "transcript_path"),
        other_file=_place(told, "agent_transcript_path"),
        workspace=_place(head, "workspace"),
        call=_text(told, "tool_use_id") or None,
        within_agent=bool(_text(told, "agent_id")),
        prompt=_text(told, "prompt"),
        reason=_text(told, "reason") or None,
        look=None if look is None else _look(look, rest, name),
        gave_up=_text(head, "gave_up"),
    )


def _object(data: bytes, name: str) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not JSON: {error}"[:200], where=name) from None
    if not isinstance(found, dict):
        raise Malformed("no object of JSON", where=name)
    return found


def _text(found: dict[str, Any], key: str) -> str:
    value = found.get(key)
    return whole(value.replace("\0", "")) if isinstance(value, str) else ""


def _place(found: dict[str, Any], key: str) -> str:
    """A path as Python has it; "" for what can be none."""
    value = found.get(key)
    try:
        return value if isinstance(value, str) and b"\0" not in os.fsencode(value) else ""
    except UnicodeEncodeError:
        return ""


def _look(told: Any, contents: bytes, name: str) -> SpooledSnapshot:
    try:
        before, base = told["before"], told.get("base")
        found = SpooledSnapshot(
            workspace=_place(told, "workspace"),
            before=None if before is None else str(before),
            base=None if base is None else (None if base[0] is None else _oid(base[0]),),
            name=str(told["name"]),
            changes=tuple(_changes(told["changes"], contents)),
            skipped=tuple((str(path), str(why)) for path, why in told["skipped"]),
            appeared=tuple(str(path) for path in told["appeared"]),
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise Malformed(f"a look that cannot be read: {error}"[:200], where=name) from None
    if not os.path.isabs(found.workspace):
        raise Malformed("a look at no folder", where=name)
    return found


def _changes(rows: Any, contents: bytes) -> Iterator[PathContent]:
    at = 0
    for path, mode, oid, size in rows:
        reason = names.path_refusal(str(path))
        if reason:
            raise ValueError(f"{path!r}: {reason}")
        if mode is None:
            yield PathContent(str(path), None)
            continue
        if mode not in _MODES or not isinstance(size, int) or not 0 <= size <= BYTES_MAX:
            raise ValueError(f"{path!r}: mode {mode!r}, {size!r} bytes")
        data = contents[at : at + size]
        at += size
        if mode != SUBMODULE_MODE and oid_of("blob", data) != oid:
            raise ValueError(f"{path!r}: the content is not what was seen")
        yield PathContent(str(path), TreeEntry(mode, _oid(oid)), data)
    if at != len(contents):
        raise ValueError(f"{len(contents) - at} bytes too many")


def _oid(value: Any) -> Oid:
    if not isinstance(value, str) or len(value) != 40 or not set(value) <= _HEX:
        raise ValueError(f"no oid: {value!r}"[:80])
    return value
