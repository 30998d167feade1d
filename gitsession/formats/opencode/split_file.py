"""Splitter of opencode's files: exports, and the session folders of older versions.

An export is the output of ``opencode export``: one JSON object with the members ``info`` and ``messages``. An export
can be rebuilt from the records, because opencode always writes the same whitespace. If an export contains other
whitespace or additional content, all bytes of the export are stored too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gitsession.errors import Malformed
from gitsession.formats.base.jsonl import LineFailure
from gitsession.formats.base.record import Source, SourceProblem
from gitsession.formats.opencode import records
from gitsession.formats.opencode.json_text import (
    checked,
    elements,
    laid_out,
    members,
)
from gitsession.formats.opencode.records import (
    OpencodeMessage,
    build_message,
    created_ms,
    message_of,
)

_DOCUMENT = re.compile(rb'\A(?:\xef\xbb\xbf)?\s*\{\s*"info"\s*:\s*\{\s*"')
_INFO = re.compile(rb'\A(?:\xef\xbb\xbf)?\s*\{\s*"id"\s*:\s*"ses')


def is_document(head: bytes) -> bool:
    """Return whether a file that begins with ``head`` is an export."""
    return _DOCUMENT.match(head) is not None


def is_info(head: bytes) -> bool:
    """Return whether a file that begins with ``head`` is a session description of an older version of opencode."""
    return _INFO.match(head) is not None


def split(data: bytes, *, name: str = "", final: bool = False) -> Source:
    """Split an export as ``Format.split`` does."""
    raw = _object(data, "export")
    top = {member.key: member for member in members(raw)}
    info, listed = top.get('"info"'), top.get('"messages"')
    if info is None or listed is None or not isinstance(info.value, dict) or not isinstance(listed.value, list):
        raise Malformed("not an opencode export: 'info' or 'messages' is missing or has the wrong type")
    messages = [message_of(text, value) for text, value in elements(listed.raw)]
    document = f'{{"info":{info.raw},"messages":[{",".join(message.full for message in messages)}]}}'
    original = None if f"{laid_out(document)}\n".encode() == data else data
    found = records.source_of(info.raw, messages, final=final, original=original)
    if found is None:
        raise Malformed("not an opencode export: the session has no id")
    return found


def join(header: bytes, payloads: Sequence[bytes], tail: bytes) -> bytes:
    """Return the export of a session, with the same bytes that opencode would print."""
    return f"{laid_out(records.document(header, payloads, tail))}\n".encode()


def from_folders(
    info: bytes, files: Mapping[str, bytes], parts: Mapping[str, Mapping[str, bytes]], *, final: bool = False
) -> Source:
    """Return a session from the folders of an older version of opencode.

    Args:
        info: the content of the file with the session description.
        files: the contents of the message files, by file name.
        parts: for the name of each message file, the contents of the files with the parts of the message, by file name.
        final: whether to include unfinished messages.

    Raises:
        Malformed: ``info`` is not a session description. A message or part that cannot be parsed is reported as a
            problem and is not an error.
    """
    description = _object(info, "session info")
    problems: list[SourceProblem] = []
    found: list[tuple[int, str, OpencodeMessage]] = []
    for name, data in files.items():
        text = _readable(data, f"message {name}", problems)
        if text is None:
            continue
        own = [
            members(part)
            for _, each in sorted(parts.get(name, {}).items())
            if (part := _readable(each, f"part of message {name}", problems)) is not None
        ]
        message = build_message(members(text), own)
        found.append((created_ms(message.info) or 0, name, message))
    found.sort(key=lambda each: each[:2])
    source = records.source_of(description, [message for *_, message in found], final=final, problems=problems)
    if source is None:
        raise Malformed("the session has no id")
    return source


def _readable(data: bytes, what: str, problems: list[SourceProblem]) -> str | None:
    try:
        return _object(data, what)
    except Malformed as error:
        problems.append(SourceProblem(0, f"left out: {error}"))
        return None


def _object(data: bytes, what: str) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise Malformed(f"not UTF-8: byte {error.start + 1}", where=what) from None
    raw, failure = checked(text)
    if isinstance(failure, LineFailure):
        raise Malformed(failure.reason or "the text is empty", where=what, hint="try again when the file is complete")
    return raw
