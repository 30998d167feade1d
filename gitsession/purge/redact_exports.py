"""Redaction of purged text in the files that this store exported.

The digests of records with purged text are added to the tombstone set. So if an exported file or a copy of it is
imported, these records become tombstones. In JSON, values are redacted, and keys are not. Lines without purged text do
not change.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from gitsession import durable
from gitsession.dataclass import dataclass
from gitsession.discovery import sources
from gitsession.errors import GitSessionError, Malformed
from gitsession.exporting import HTML, resume
from gitsession.formats import FORMATS, Importing, Source, with_capability
from gitsession.importing import import_session
from gitsession.model.blocks import Text, Thinking, ToolCall
from gitsession.model.entries import Message
from gitsession.purge import finding
from gitsession.purge.finding import PurgePlan, PurgeProblem
from gitsession.sessions import commit_writer, content, local_records
from gitsession.sessions.gaps import DAMAGE
from gitsession.sessions.local_records import ExportedFile, ExportHit
from gitsession.sessions.tombstone_set import Tombstones
from gitsession.store import refs
from gitsession.store.git_store import GitStore
from gitsession.store.interface import ObjectStore

MARK = "[purged]"
TEXT_MIN = 16
"""Minimum length in characters of text that is searched for in other files. Shorter texts may occur by chance."""
_ARGUMENT_MIN = 40
"""Minimum length in characters of a tool call's argument that is searched for in other files.

Paths and short commands occur in many sessions.
"""
_TRIES = 3
"""Number of attempts for a file that changes before its redacted version replaces it."""


@dataclass(frozen=True, slots=True)
class RedactedExport:
    """An exported file with purged content. ``problem``: the reason why it was not redacted; "" if it was redacted."""

    path: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _PurgedText:
    """The text that a purge removes: ``texts`` in all exports, and all text in the exports of ``sessions``."""

    texts: tuple[str, ...]
    sessions: frozenset[str]

    def is_in(self, data: bytes) -> bool:
        return any(finding.contains_text(data, text, finding.spellings(text)) for text in self.texts)


def with_exports(objects: GitStore, view: ObjectStore, plan: PurgePlan, text: str) -> PurgePlan:
    """Return ``plan`` with the exported files that contain purged content.

    The digests of the records with purged content in these files are added to the plan's tombstones.
    """
    purged = _purged_text(view, plan, text)
    hits: list[ExportHit] = []
    problems: list[PurgeProblem] = []
    more = plan.more
    for export in local_records.exports(objects.git_dir):
        try:
            data = durable.read_regular(export.path)
        except OSError as error:
            problems.append(PurgeProblem(export.path, f"it cannot be read: {error.strerror}"))
            continue
        if data is None:
            continue
        is_hit = export.session in purged.sessions or purged.is_in(data) or _is_page_of(export, data, plan)
        if not is_hit:
            continue
        source = _source(export, data)
        tombstones, count = _tombstones(source, export, purged)
        more |= Tombstones(tombstones.removed - plan.more.replaced.keys(), sessions=tombstones.sessions)
        hits.append(ExportHit(export, count))
        if with_capability(export.agent, Importing) is not None:
            problems.append(PurgeProblem(export.path, f"{export.agent} has a copy of this session in its own database"))
    return replace(plan, more=more, exports=tuple(hits), texts=purged.texts, problems=(*plan.problems, *problems))


def _is_page_of(export: ExportedFile, data: bytes, plan: PurgePlan) -> bool:
    """Return whether ``data`` is a web page with purged entries. Markup can divide the purged text in a page."""
    hits = (*plan.entries, *plan.redacted) if export.agent == HTML else ()
    return any(hit.session == export.session or f"e-{hit.node.oid[:12]}".encode() in data for hit in hits)


def redact(objects: GitStore, plan: PurgePlan) -> list[RedactedExport]:
    """Redact the exported files of ``plan`` in place. Files that cannot be redacted are reported and not changed."""
    purged = _PurgedText(plan.texts, frozenset(plan.sessions))
    done: list[RedactedExport] = []
    changed: dict[str, ExportedFile] = {}
    for hit in plan.exports:
        try:
            changed[hit.export.path] = _redact_file(hit.export, purged)
            done.append(RedactedExport(hit.export.path))
        except GitSessionError as error:
            problem = f"{error} ({error.hint})" if error.hint else str(error)
            done.append(RedactedExport(hit.export.path, problem))
        except OSError as error:
            done.append(RedactedExport(hit.export.path, error.strerror or str(error)))
    _update(objects, changed)
    return done


def forget_digests(objects: GitStore, plan: PurgePlan) -> None:
    """Remove the recorded digests of exported files with purged content. A digest could confirm a guess of the content.

    If a file has not changed since its export, the size and the modification time identify the file from then on.
    """
    _update(objects, {hit.export.path: _without_digests(hit.export) for hit in plan.exports})


def _without_digests(export: ExportedFile) -> ExportedFile:
    size = mtime_ns = 0
    with contextlib.suppress(OSError):
        status = os.stat(export.path)
        data = durable.read_regular(export.path)
        if data is not None and _is_as_written(export, status, data):
            size, mtime_ns = status.st_size, status.st_mtime_ns
    return replace(export, digest="", conversation="", size=size, mtime_ns=mtime_ns)


def _is_as_written(export: ExportedFile, status: os.stat_result, data: bytes) -> bool:
    """Return whether a file contains exactly the conversation that was exported."""
    if not export.conversation:
        return export.is_unchanged(status.st_size, status.st_mtime_ns)
    return sha256(data).hexdigest() == export.digest or _conversation_digest(export, data) == export.conversation


def _update(objects: GitStore, changed: dict[str, ExportedFile]) -> None:
    if changed:
        with objects.locked():
            listed = [changed.get(export.path, export) for export in local_records.exports(objects.git_dir)]
            local_records.rewrite_exports(objects.git_dir, listed)


def _purged_text(view: ObjectStore, plan: PurgePlan, text: str) -> _PurgedText:
    if text:
        return _PurgedText((text,), frozenset())
    found: dict[str, None] = {}
    if not plan.sessions:
        for hit in plan.entries:
            with contextlib.suppress(*DAMAGE, GitSessionError):
                found |= dict.fromkeys(_texts(content.entry_of(view, hit.node)))
    return _PurgedText(tuple(found), frozenset(plan.sessions))


def _texts(entry: object) -> Iterator[str]:
    """Yield the texts of a message by which a copy of the message is recognized."""
    if not isinstance(entry, Message):
        return
    for block in entry.content:
        if isinstance(block, Text | Thinking) and len(block.text) >= TEXT_MIN:
            yield block.text
        elif isinstance(block, ToolCall):
            yield from (item for item in _strings(block.arguments) if len(item) >= _ARGUMENT_MIN)
    if entry.output and len(entry.output) >= TEXT_MIN:
        yield entry.output


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)
    elif hasattr(value, "values"):
        for item in value.values():
            yield from _strings(item)


def _source(export: ExportedFile, data: bytes) -> Source | None:
    """Parse an exported file like an import; ``None`` if it is not an agent's file or no longer contains a session."""
    format = FORMATS.get(export.agent)
    if format is None:
        return None
    try:
        return format.split(data, name=sources.name_of(Path(export.path)), final=True)
    except Malformed:
        return None


def _tombstones(source: Source | None, export: ExportedFile, purged: _PurgedText) -> tuple[Tombstones, int]:
    """Return the tombstones by which an import recognizes the purged records of a file, and their number."""
    if source is None:
        return Tombstones(), 0
    if export.session in purged.sessions:
        sid = refs.imported_sids(source.agent, source.source_id, source.started_ms)[0]
        return Tombstones(sessions={sid: frozenset([import_session.root_digest(source)])}), len(source.records)
    format = FORMATS[source.agent]
    found = [record for record in (*source.records, *source.meta) if purged.is_in(record.payload)]
    drafts = [commit_writer.draft_record(format, record, None) for record in found]
    removed = {digest for draft in drafts for digest in commit_writer.digests(draft)}
    return Tombstones(frozenset(removed)), len(found)


def _redact_file(export: ExportedFile, purged: _PurgedText) -> ExportedFile:
    """Redact one file; return its new export record.

    If ``Malformed`` or ``OSError`` is raised, the file is unchanged.
    """
    path = Path(export.path)
    hide = _hide_all if export.session in purged.sessions else _text_hider(purged.texts)
    if export.agent == HTML and os.path.lexists(path):
        raise Malformed("text in a web page cannot be found reliably", hint="delete the file, and export it again")
    for _ in range(_TRIES):
        before = path.lstat()
        if stat.S_ISLNK(before.st_mode):
            target = os.readlink(path)
            raise Malformed(f"the file is a link to {target}", hint="redact or delete the link's target")
        data = durable.read_regular(path)
        if data is None:
            raise Malformed("the file no longer exists")
        new_data = redacted(data, hide)
        _check(export, data, new_data, purged)
        scratch = path.parent / f".gitsession-{secrets.token_hex(8)}.tmp"
        durable.write_new(scratch, new_data, mode=stat.S_IMODE(before.st_mode))
        try:
            if _stamp(path.lstat()) == _stamp(before):
                os.rename(scratch, path)
                durable.sync_directory(path.parent)
                conversation = _conversation_digest(export, new_data) if _is_as_written(export, before, data) else ""
                digest = sha256(new_data).hexdigest()
                return replace(export, digest=digest, conversation=conversation, size=0, mtime_ns=0)
        finally:
            scratch.unlink(missing_ok=True)
    raise Malformed("another process is writing to the file", hint=f"quit {export.agent} first")


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _check(export: ExportedFile, before: bytes, after: bytes, purged: _PurgedText) -> None:
    """Raise ``Malformed`` if ``after`` still has the purged text, or if more of the session than its texts changed."""
    old, new = _source(export, before), _source(export, after)
    if old is not None and (new is None or _shape(old) != _shape(new)):
        raise Malformed(f"{export.agent} could not read the file without the removed text", hint="delete the file")
    if purged.is_in(after):
        what = "the text to remove is the name of a field, or it is encoded in another way"
        raise Malformed(what, hint="delete the file")


def _shape(source: Source) -> object:
    """Return the parts of a session that an agent needs to read it: all parts except the texts."""
    headlines = [FORMATS[source.agent].headline(record.payload) for record in source.records]
    records = [
        (record.line, record.parent, record.source_id, head.kind, head.role, head.calls)
        for record, head in zip(source.records, headlines, strict=True)
    ]
    return source.source_id, source.leaf, records, len(source.problems)


def _conversation_digest(export: ExportedFile, data: bytes) -> str:
    source = _source(export, data)
    return resume.content_digest(source).hex() if source is not None else ""


Hide = Callable[[str, bool], str]
"""A function that returns the substitute of a string. The flag is true if the string is in a field with texts."""


def redacted(data: bytes, hide: Hide) -> bytes:
    """Return ``data`` with ``hide`` applied to each string. ``data`` is a JSON document, JSON lines, or plain text."""
    document = _parsed(data)
    if document is not None:
        return _encode(data, document, hide)
    lines = []
    for line in data.split(b"\n"):
        value = _parsed(line)
        if value is not None:
            lines.append(_encode(line, value, hide))
        else:
            lines.append(hide(line.decode("utf-8", "surrogateescape"), True).encode("utf-8", "surrogateescape"))
    return b"\n".join(lines)


def _parsed(data: bytes) -> Any:
    """Return the object or list that ``data`` contains as JSON; ``None`` if ``data`` is neither."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def _encode(data: bytes, value: Any, hide: Hide) -> bytes:
    redacted_value = _redact_value(value, hide, is_text=False)
    if redacted_value == value:
        return data
    indent = 2 if b"\n" in data.strip() else None
    encoded = json.dumps(redacted_value, ensure_ascii=False, indent=indent, separators=None if indent else (",", ":"))
    trailing = data[len(data.rstrip()) :]
    return encoded.encode("utf-8", "surrogatepass") + trailing


def _redact_value(value: Any, hide: Hide, *, is_text: bool) -> Any:
    if isinstance(value, str):
        inner = _parsed(value.encode("utf-8", "surrogatepass")) if value[:1] in ("{", "[") else None
        redacted_value = _redact_value(inner, hide, is_text=is_text) if inner is not None else None
        return json.dumps(redacted_value, ensure_ascii=False) if redacted_value != inner else hide(value, is_text)
    if isinstance(value, list):
        return [_redact_value(item, hide, is_text=is_text) for item in value]
    if isinstance(value, dict):
        return {key: _redact_value(item, hide, is_text=_is_text(key, item, is_text)) for key, item in value.items()}
    return value


_TEXTS = frozenset(
    [
        *("text", "thinking", "content", "message", "output", "summary", "title", "prompt", "query", "command", "cmd"),
        *("aggregated_output", "formatted_output", "stdout", "stderr", "lastPrompt", "customTitle", "aiTitle"),
        "image_url",
    ]
)
"""Fields with text, or with a list of texts, in agents' files."""
_ALL_TEXTS = frozenset(["arguments", "input", "toolUseResult", "details"])
"""Fields in which all strings are texts, at any depth: the input and the output of tools."""
_MODES = frozenset(["auto", "concise", "detailed", "none"])
"""Values of the field ``summary`` in codex's files that select how codex summarizes. They are not texts."""


def _is_text(key: str, value: Any, is_below: bool) -> bool:
    """Return whether strings in the field ``key`` are texts.

    ``is_below``: True if the field is inside a field of texts.
    """
    if is_below or key in _ALL_TEXTS:
        return True
    if key == "data":
        return isinstance(value, str) and len(value) >= _ARGUMENT_MIN
    is_plain = isinstance(value, str) or (isinstance(value, list) and all(isinstance(item, str) for item in value))
    return key in _TEXTS and is_plain and not (key == "summary" and value in _MODES)


def _text_hider(texts: Sequence[str]) -> Hide:
    """Return a function that replaces each of ``texts`` with ``MARK``, longest spelling first."""
    found = {spelling.decode("utf-8", "surrogatepass") for text in texts for spelling in finding.spellings(text)}
    spelled = sorted(found, key=len, reverse=True)

    def hide(value: str, _is_text: bool) -> str:
        for spelling in spelled:
            value = value.replace(spelling, MARK)
        return value

    return hide


def _hide_all(value: str, is_text: bool) -> str:
    """Replace texts with ``MARK``, and other strings with more than one word or characters outside ASCII.

    Ids, times, folders and names of kinds are not replaced, so that the agent can still open the file.
    """
    if is_text:
        return MARK if value.strip() else value
    is_word = len(value.split()) <= 1 and (value.isascii() or os.path.isabs(value))
    return value if is_word else MARK
