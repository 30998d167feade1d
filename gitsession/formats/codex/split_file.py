"""Splitter of codex's rollouts. Each record is a child of the previous record, except for the record of a rollback.

The selection of accompanying lines, and the parent and the ordinal of each record, are FROZEN under view 1
(docs/reference/format.md, "codex"). The first ``session_meta`` line with an id is the header. Normally, the header is
the first line. If lines precede the header, each of them is a record line. ``is_attached`` selects the accompanying
lines after the header.

A rollback removes turns from the history. The record of a rollback is a child of the last record that remains. So this
parent depends on the definition of a turn, and on the messages that codex itself inserts (``injected``). codex 0.169
distinguishes inserted messages from prompts by the texts below. Each of these texts was observed in a file.

A thread can have several files. Each file after the first one is called a *segment* (``_segment``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from string import ascii_lowercase, ascii_uppercase
from typing import Any, NamedTuple

from gitsession.errors import Malformed
from gitsession.formats.base import jsonl
from gitsession.formats.base.fields import object_in, storable, to_ms
from gitsession.formats.base.jsonl import LF, Data, Group, LineFailure, Object, StoredGroup, group, grouped, record_line
from gitsession.formats.base.record import (
    Base,
    Record,
    Source,
    SourceProblem,
    SplitState,
    incomplete_line,
    quoted,
    record_of,
    with_state,
)

_INJECTED = (
    ("# agents.md instructions", "</instructions>", "AGENTS.md"),
    ("<environment_context>", "</environment_context>", "environment_context"),
    ("<skill>", "</skill>", "skill"),
    ("<user_shell_command>", "</user_shell_command>", "user_shell_command"),
    ("<turn_aborted>", "</turn_aborted>", "turn_aborted"),
    ("<subagent_notification>", "</subagent_notification>", "subagent_notification"),
    ("<goal_context>", "</goal_context>", "goal_context"),
    ("<codex_internal_context", "</codex_internal_context>", "codex_internal_context"),
    ("<recommended_plugins>", "</recommended_plugins>", "recommended_plugins"),
    ("<hook_prompt", "</hook_prompt>", "hook_prompt"),
)
"""The texts that codex inserts as user messages.

Each item contains the beginning and the end of a text, both in lower case, and a name for the text.
"""

_UPDATES = (
    "<permissions instructions>", "<collaboration_mode>", "<model_switch>", "<realtime_conversation>",
    "<personality_spec>", "<skills_instructions>", "<apps_instructions>", "<plugins_instructions>",
    "<multi_agent_mode>", "<token_budget>", "<context_window>", "<git_attribution>", "<persistent_mode>",
    "<environments_instructions>", "<context_window_guidance>", "<rollout_budget>", "approved command prefix saved:",
)  # fmt: skip
"""The beginnings of developer messages that report changed settings before a turn.

If the turn is rolled back, these messages are removed too.
"""

_BLANK = " \t\r\n\f\v"


def injected(item: Object) -> str | None:
    """Return the name of the text that codex inserted as the user message ``item``.

    If ``item`` is a prompt or another item, return ``None``.
    """
    if not _is_message(item, "user"):
        return None
    for text in _texts(item):
        inner = text.strip(_BLANK)
        head, end = _lower(inner[:64]), _lower(inner[-64:])
        for start, close, name in _INJECTED:
            if head.startswith(start) and end.endswith(close):
                return name
    return None


def starts_turn(item: Object) -> bool:
    """Return whether the response item ``item`` is a prompt."""
    return _is_message(item, "user") and injected(item) is None


def is_update(item: Object) -> bool:
    """Return whether ``item`` is a message that codex inserted before a turn.

    If the turn is rolled back, the message is removed too.
    """
    if _is_message(item, "developer"):
        return any(_lower(text.lstrip(_BLANK)[:64]).startswith(_UPDATES) for text in _texts(item))
    return injected(item) is not None


def _lower(text: str) -> str:
    """Return ``text`` with ASCII letters in lower case.

    ``str.lower`` is not used, because its result depends on the Unicode version.
    """
    return text.translate(_LOWER)


_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)


def _is_message(item: Object, role: str) -> bool:
    return item.get("type") == "message" and item.get("role") == role


def _texts(item: Object) -> list[str]:
    content: Any = item.get("content")
    if not isinstance(content, list):
        return []
    texts = [block.get("text") for block in content if isinstance(block, dict)]
    return [text for text in texts if isinstance(text, str)]


AGENT = "codex"
META = "session_meta"
ITEM = "response_item"
EVENT = "event_msg"
ROLLED_BACK = "thread_rolled_back"
NAMED = "thread_name_updated"

_ATTACHED_TYPES = ("world_state", "token_usage_record", "inter_agent_communication_metadata")
_RECORD_EVENTS = (ROLLED_BACK, NAMED)

_COMPRESSED = b"\x28\xb5\x2f\xfd"
_BEGINS = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*\{\s*"timestamp"\s*:\s*"[^"\\]{0,64}"\s*,\s*(?:"ordinal"\s*:\s*[0-9]{1,20}\s*,\s*)?'
    rb'"type"\s*:\s*"session_meta"\s*,\s*"payload"\s*:\s*\{'
)
"""A pattern that matches the beginning of a header line.

The line is not parsed, because a header line with instructions can be longer than the ``head`` that ``claims``
receives.
"""

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_SEGMENT = re.compile(rf"({_UUID.pattern})_({_UUID.pattern})$")
"""A pattern that matches the end of a segment's file name without the suffix: ``<thread>_<segment>``."""


def claims(head: bytes) -> bool:
    """Return whether a file that begins with ``head`` is a rollout, compressed or not."""
    if head.startswith(_COMPRESSED) or _BEGINS.match(head):
        return True
    return any(b'"session_meta"' in line and is_header(jsonl.parse(line)) for line in head.split(LF))


def is_header(line: Object | LineFailure) -> bool:
    """Return whether ``line`` is a header that contains a thread id."""
    if isinstance(line, LineFailure) or line.get("type") != META:
        return False
    payload = line.get("payload")
    return isinstance(payload, dict) and isinstance(payload.get("id"), str) and payload["id"] != ""


def header_at(lines: Iterable[bytes]) -> int | None:
    """Return the index of the first header line, or ``None`` if there is no header."""
    return next((at for at, line in enumerate(lines) if b"session_meta" in line and is_header(jsonl.parse(line))), None)


def header_in(data: bytes) -> Object:
    """Return the payload of the header of the rollout ``data``, or ``{}`` if there is no header."""
    lines = data.split(LF)
    at = header_at(lines)
    header = LineFailure("") if at is None else jsonl.parse(lines[at])
    return {} if isinstance(header, LineFailure) else object_in(header, "payload")


def is_attached(line: Object) -> bool:
    """Return whether ``line`` is an accompanying line. Accompanying lines are not part of the conversation."""
    if line.get("type") != EVENT:
        return line.get("type") in _ATTACHED_TYPES
    payload = line.get("payload")
    return not (isinstance(payload, dict) and payload.get("type") in _RECORD_EVENTS)


def split(data: Data, *, name: str = "", final: bool = False) -> Source:
    """Split a file as ``Format.split`` does."""
    if not data:
        raise Malformed("the file is empty")
    if data.startswith(_COMPRESSED):
        raise Malformed("the file is compressed", hint="run `zstd -d FILE` and import the result")
    lines, waiting, ends_with_newline = jsonl.split_lines(data, final=final)
    if not lines:
        raise Malformed("the file has no complete line yet", hint="try again when codex has written more")
    at = header_at(lines)
    thread, problems = _thread(lines, at, name)
    groups, tail = _groups(lines, at)
    meta = () if at is None else (Record(at + 1, lines[at]),)
    if at is not None and thread.segment is not None:
        groups.insert(at, grouped(lines, at, at + 1, jsonl.parse(lines[at])))
        meta = ()
    history = _History()
    records = tuple(history.place(groups))
    problems += [SourceProblem(record.line, record.problem) for record in records if record.problem]
    if at is not None and thread.segment is not None:
        records = tuple(_in_thread(records, groups, at + 1, thread.segment, ordinal(lines[at]) or 0))
    if waiting:
        problems.append(incomplete_line(len(lines) + 1, waiting))
    source = Source(
        agent=AGENT,
        source_id=thread.id,
        started_ms=thread.started_ms,
        records=records,
        meta=meta,
        waiting=waiting,
        ends_with_newline=ends_with_newline,
        version=2 if thread.paginated else 1,
        tail=tail,
        base=thread.base,
        segment=thread.segment,
        problems=tuple(problems),
    )
    if at != 0 or thread.base is not None or thread.segment is not None:
        return source
    return with_state(source, data, [groups[-1].line if groups else 1, history.steps, history.turns])


def split_rest(data: bytes, state: SplitState, *, name: str = "") -> Source | None:
    """Split the rest of a file as ``Growing.split_rest`` does."""
    count, steps, turns = state.values
    lines, waiting, ends_with_newline = jsonl.split_lines(data[state.size :], final=False)
    header = data[: data.index(LF)]
    thread, _ = _thread([header], 0, name)
    groups, tail = group(lines, 0, is_attached)
    history = _History([_Step(*step) for step in steps], turns)
    records = tuple(history.place(groups, count))
    if any(record.problem for record in records):
        return None
    source = Source(
        agent=AGENT,
        source_id=thread.id,
        started_ms=thread.started_ms,
        records=records,
        meta=(Record(1, header),),
        waiting=waiting,
        ends_with_newline=ends_with_newline,
        version=2 if thread.paginated else 1,
        tail=tail or b"",
        problems=(incomplete_line(count + len(lines) + 1, waiting),) if waiting else (),
        earlier=state.records,
    )
    return with_state(source, data, [count + (groups[-1].line if groups else 0), history.steps, history.turns])


def _groups(lines: Sequence[bytes], header: int | None) -> tuple[list[Group | StoredGroup], bytes]:
    """Return the groups of lines that form the records, and the tail of the file.

    ``header``: the index of the header line; ``None`` if there is no header. The header is not in a group.
    """
    before = lines if header is None else lines[:header]
    alone, _ = group(before, 0, lambda line: False)
    if header is None:
        return alone, b""
    groups, tail = group(lines, header + 1, is_attached)
    return [*alone, *groups], tail or b""


# Parents


class _Step(NamedTuple):
    """A record of the current history.

    ``updates``: whether the record is an update before a turn. A rollback of the turn also removes the update.
    """

    line: int
    updates: bool


class _History:
    """The current history while records are placed.

    ``steps``: the records of the history. ``turns``: the indexes in ``steps`` at which turns begin.
    """

    def __init__(self, steps: Iterable[_Step] = (), turns: Iterable[int] = ()) -> None:
        self.steps, self.turns = list(steps), list(turns)

    def place(self, groups: Sequence[Group | StoredGroup], earlier: int = 0) -> Iterator[Record]:
        """Yield the records of ``groups``. Except for a rollback, each record is a child of the previous one.

        A rollback is a child of the last record that the rollback does not remove. ``earlier``: the number of lines
        before those of ``groups``.
        """
        history, turns = self.steps, self.turns
        for each in groups:
            number, parsed = each.line + earlier, each.parsed
            item: Object = {}
            problem, own = "", None
            if isinstance(parsed, LineFailure):
                problem = parsed.reason
            else:
                turn_count = _turns_rolled_back(parsed)
                if turn_count and turns:
                    del history[_cut(history, turns, turn_count) :]
                    while turns and turns[-1] >= len(history):
                        turns.pop()
                item = item_in(parsed)
                own = item.get("id")
            if starts_turn(item):
                turns.append(len(history))
            source_id = own if isinstance(own, str) and own else None
            yield record_of(number, each, history[-1].line if history else None, source_id, problem=problem)
            history.append(_Step(number, is_update(item) or _is_settings(parsed)))


def _in_thread(
    records: Sequence[Record], groups: Sequence[Group | StoredGroup], header: int, segment: str, first: int
) -> Iterator[Record]:
    """Yield the records of a segment with their line numbers in the thread.

    ``groups``: the groups of the records, in the same order. ``header``: the line number of the header, which becomes a
    record with the id ``segment``. ``first``: the ordinal of the header, which is added to each line number.
    """
    for record, each in zip(records, groups, strict=True):
        parent = None if record.parent is None else record.parent + first
        own = segment if record.line == header else record.source_id
        yield record_of(record.line + first, each, parent, own, record.claimed_parent, record.problem)


def _cut(history: Sequence[_Step], turns: Sequence[int], turn_count: int) -> int:
    """Return the length of the history without the last ``turn_count`` turns and the updates directly before them.

    If the history contains at most ``turn_count`` turns, the result is the number of records before the first turn.
    """
    if turn_count >= len(turns):
        return turns[0]
    cut = turns[-turn_count]
    while cut > turns[0] and history[cut - 1].updates:
        cut -= 1
    return cut


def _turns_rolled_back(line: Object) -> int:
    payload = line.get("payload")
    if line.get("type") != EVENT or not isinstance(payload, dict) or payload.get("type") != ROLLED_BACK:
        return 0
    count = payload.get("num_turns")
    return max(count, 0) if type(count) is int else 0


def item_in(line: Object) -> Object:
    """Return the response item in a line, or ``{}`` if the line contains no response item."""
    payload = line.get("payload")
    return payload if line.get("type") == ITEM and isinstance(payload, dict) else {}


def _is_settings(line: Object | LineFailure) -> bool:
    return not isinstance(line, LineFailure) and line.get("type") == "turn_context"


# Thread


class _Thread(NamedTuple):
    id: str
    started_ms: int
    paginated: bool = False
    base: Base | None = None
    segment: str | None = None


def _thread(lines: Sequence[bytes], at: int | None, name: str) -> tuple[_Thread, list[SourceProblem]]:
    """Return the thread that the header describes, and the problems with the header.

    A pretty-printed header, which consists of several lines, is accepted too. If there is no header, the id and the
    start time of the thread are derived from the file name.
    """
    stated = jsonl.parse(lines[at]) if at is not None else _spread(lines)
    if not isinstance(stated, LineFailure) and is_header(stated):
        payload = stated["payload"]
        started_ms = to_ms(payload.get("timestamp"))
        if started_ms is None:
            started_ms = to_ms(stated.get("timestamp"))
        paginated = payload.get("history_mode") == "paginated"
        segment = _segment(stated, name)
        thread = _Thread(storable(payload["id"]), started_ms or 0, paginated, _base(payload, segment), segment)
        what = "JSON printed over several lines, which codex cannot read: each line is stored unchanged"
        return thread, [] if at is not None else [SourceProblem(1, what)]
    name = name.rpartition("/")[2]
    if not name:
        raise Malformed("no session_meta line", hint="pass a name for the session")
    found = _UUID.findall(name)
    own = found[-1] if found else storable(name)
    return _Thread(own, _time_in(own) if found else 0), [
        SourceProblem(1, f"no session_meta line: imported as session {quoted(own)}")
    ]


def _base(header: Object, segment: str | None) -> Base | None:
    """Return the point in another file at which a file continues, or ``None`` if the file continues no other file.

    A file that continues another file is a fork or a segment. ``header``: the payload of the header. ``segment``: the
    id of the file if it is a segment, otherwise ``None``.
    """
    stated = header.get("history_base")
    if not isinstance(stated, dict):
        return None
    thread, end = stated.get("thread_id"), stated.get("end_ordinal_exclusive")
    if not isinstance(thread, str) or type(end) is not int or thread == (segment or header["id"]):
        return None
    return Base(storable(thread), end, ordinal)


def _segment(line: Object, name: str) -> str | None:
    """Return the id of a segment, or ``None`` if the file is the first file of its thread.

    codex creates a segment if the user reverts the thread or edits an earlier prompt. Normally, the file name contains
    the id of the segment. A file with another name is a segment if ``history_base`` in the header contains the id of
    the file's own thread. The id of such a segment is a UUID of version 7. It is composed of the time in the header and
    a digest of the header.

    ``line``: the parsed header line. ``name``: the file name without the suffix.
    """
    header = line["payload"]
    thread = header["id"]
    match = _SEGMENT.search(name)
    if match is not None and match[1] == thread and match[2] != thread:
        return match[2]
    stated = header.get("history_base")
    if not isinstance(stated, dict) or stated.get("thread_id") != thread or not _UUID.fullmatch(thread):
        return None
    time = (to_ms(header.get("timestamp")) or 0) & (1 << 48) - 1
    raw = json.dumps(line, sort_keys=True).encode("utf-8", "surrogatepass")
    digits = f"{time:012x}7{sha256(raw).hexdigest()}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-8{digits[17:20]}-{digits[20:32]}"


def ordinal(payload: bytes) -> int | None:
    """Return the ordinal of the last line of a record in a paginated thread, or ``None`` if the line has no ordinal."""
    line = jsonl.parse(record_line(payload))
    stated = None if isinstance(line, LineFailure) else line.get("ordinal")
    return stated if type(stated) is int else None


def _spread(lines: Sequence[bytes]) -> Object | LineFailure:
    """Return the first object of a pretty-printed file.

    The object ends at the first line that contains only a closing brace without indentation.
    """
    end = next((at for at, line in enumerate(lines) if line.rstrip() == b"}" and not line.startswith(b" ")), None)
    return LineFailure("not an object") if end is None else jsonl.parse(LF.join(lines[: end + 1]))


def thread_id(source_id: str | None) -> str:
    """Return ``source_id`` if codex accepts it as a thread id, otherwise a UUID that is derived from ``source_id``."""
    if source_id is not None and _UUID.fullmatch(source_id):
        return source_id
    digits = sha256((source_id or "").encode("utf-8", "surrogatepass")).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-a{digits[17:20]}-{digits[20:32]}"


def _time_in(uuid: str) -> int:
    """Return the Unix time in ms that ``uuid`` contains, or 0 if ``uuid`` is not a UUID of version 7."""
    return int(uuid[:8] + uuid[9:13], 16) if uuid[14] == "7" else 0
