"""Export of a session as its agent's file, or as a file in the format of another agent.

docs/decisions/0013 describes the content of an export. docs/reference/format.md, "The agent's file", describes how the
agent's own file is built.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gitsession.codec import message
from gitsession.codec.digest import to_base64url
from gitsession.codec.payload import headline
from gitsession.errors import Corrupt, Refused
from gitsession.exporting import json_lines, markdown
from gitsession.exporting.gather import ExportInput, gather
from gitsession.formats import FORMATS, Accompanied, Continuing, Document, Format, Resumable, with_capability
from gitsession.formats.base.fields import uuid_from
from gitsession.formats.base.outgoing import Outgoing, Writer
from gitsession.formats.base.record import TAIL, WHOLE
from gitsession.git.types import Oid
from gitsession.model.entries import Fork, Message, SessionHeader
from gitsession.redaction.original import OPENS
from gitsession.sessions import graph, session_facts, session_ids
from gitsession.sessions.active_branch import active
from gitsession.sessions.content import payload_of
from gitsession.sessions.meta import Meta, meta_of
from gitsession.sessions.node import Node
from gitsession.sessions.revealed_store import RevealedStore
from gitsession.store import refs
from gitsession.store.interface import ObjectStore

AT_HOME = "images that the file only refers to: the agent stores them in a separate folder, and `resume` restores them"
TO_READ: dict[str, Writer] = {writer.AGENT: writer for writer in (json_lines, markdown)}
"""Formats that do not belong to an agent. Sessions can be exported in these formats but not imported from them."""


@dataclass(frozen=True, slots=True)
class ExportResult:
    """An exported session.

    ``data``: the content of the file. ``left_out``: the number of entries created in gitsession that are not in the
    file. ``added``: the number of newly written lines. ``notes``: counts of the items that the format of ``agent``
    cannot represent exactly. ``hidden``: the number of placeholders in place of secrets in the file; ``problems``: the
    reasons why originals could not be read. ``place``: the path of the file below the agent's folder, if it cannot be
    derived from ``session``; ``beside``: the names and contents of the other files of the session and of the files that
    it continues.

    If the export is made to continue the session in a folder, ``session`` has the id and the folder of the continued
    session, and ``stay`` is the content of the same file for its former folder.
    """

    agent: str
    data: bytes
    left_out: int = 0
    added: int = 0
    notes: Mapping[str, int] = field(default_factory=dict)
    session: SessionHeader | None = None
    stay: bytes = b""
    hidden: int = 0
    problems: tuple[str, ...] = ()
    place: str = ""
    beside: tuple[tuple[str, bytes], ...] = ()

    def from_store(self, shown: RevealedStore) -> ExportResult:
        """Return the result with ``hidden`` and ``problems`` from ``shown``, the store that was read."""
        # some placeholders that were read may not be in the export
        hidden = min(sum(shown.hidden.values()), self.data.count(OPENS.encode()))
        return dataclasses.replace(self, hidden=hidden, problems=tuple(dict.fromkeys(shown.problems.values())))


def export(
    store: ObjectStore, sid: str, to: str | None = None, at: Node | None = None, cwd: str | None = None
) -> ExportResult:
    """Return the session as a file for the agent ``to``.

    If the agent's own file already has all of the content, the result is that file, byte for byte.

    Args:
        to: an agent of ``FORMATS`` or a format of ``TO_READ``; ``None`` for the agent of the session.
        at: the entry whose history is exported; ``None`` for all entries.
        cwd: the folder in which to continue the session, for agents that are ``Resumable``; ``None`` for an export that
            is not continued. If the agent already has a file of this session and the export is not that file, the
            export gets a new id. If it has no title and the agent needs one, its first prompt becomes the title.

    Raises:
        Refused: if the format does not exist.
        Corrupt: if the file would be incomplete.
    """
    tree = _readable_tree(store, sid, at)
    _, began = session_facts.file_start(store, tree, sid)
    agent = to or agent_of(store, sid, began)
    if to in TO_READ:
        return _to_read(store, sid, TO_READ[to], at, agent_of(store, sid, began))
    if agent not in FORMATS:
        hint = f"pass --to with a supported agent: {', '.join(FORMATS)}"
        raise Refused(f"cannot export session {sid} for '{agent}': the agent is not supported", hint=hint)
    found = gather(store, sid, FORMATS[agent], at)
    out = found.out
    if cwd is not None:
        id = _id_there(sid, found, began, is_whole=at is None)
        header = dataclasses.replace(out.session, source_id=id, cwd=cwd, title=_first_words(out))
        out = dataclasses.replace(out, session=header)
    if found.is_home and not found.is_news:
        came = export_original(store, sid, at)
        sent = ExportResult(agent, came.data, found.left_out, notes=found.notes, place=came.place)
    else:
        written = FORMATS[agent].write(out)
        kept = sum(entry.line is not None for entry in out.entries) + len(out.head)
        notes = dict(written.notes + Counter(found.notes))
        place = _place(agent, written.data, found.segment)
        sent = ExportResult(agent, written.data, found.left_out, len(written.lines) - kept, notes, place=place)
    if cwd is None:
        named = _named_at_home(agent, sent.data)
        return dataclasses.replace(sent, notes={**sent.notes, AT_HOME: named}) if named else sent
    data = sent.data
    if found.is_home and (format := with_capability(agent, Resumable)) is not None:
        data = format.moved(data, out.session.source_id or sid, cwd)
    is_later = found.segment is not None and at is None
    return dataclasses.replace(
        sent, data=data, session=out.session, stay=sent.data, place=sent.place if is_later else ""
    )


def _first_words(out: Outgoing) -> str | None:
    """Return the text of the first exported prompt with text, shortened to one line as in lists."""
    said = (each.entry for each in out.history())
    prompts = (entry for entry in said if isinstance(entry, Message) and entry.role == "user")
    return next(filter(None, (message.words_of(headline(entry)) for entry in prompts)), None)


def _place(agent: str, data: bytes, segment: str | None) -> str:
    """Return the path of the agent's file ``data``, or "" if files of this agent never continue other files."""
    format = with_capability(agent, Continuing)
    return format.place_of(data, segment) if format is not None else ""


def _named_at_home(agent: str, data: bytes) -> int:
    """Count the files that ``data`` refers to and that the agent stores in a separate folder."""
    format = with_capability(agent, Accompanied)
    return sum(bool(wanted.home) for wanted in format.beside(data, "")) if format is not None else 0


def _to_read(store: ObjectStore, sid: str, writer: Writer, at: Node | None, agent: str) -> ExportResult:
    """Return the session in the format of ``writer``, with the name of its agent and its id in this store."""
    found = gather(store, sid, writer, at)
    out = dataclasses.replace(found.out, session=dataclasses.replace(found.out.session, agent=agent))
    written = writer.write(out)
    return ExportResult(writer.AGENT, written.data, found.left_out, len(written.lines), written.notes)


def _id_there(sid: str, found: ExportInput, began: SessionHeader | Fork | None, *, is_whole: bool) -> str:
    """Return the agent's id for the session.

    This is the id of the agent's own file. Without such a file, it is the session's id in this store if an import of
    the continued file would result in this session again. Otherwise, it is an id that is derived from the entry to
    continue from.
    """
    is_ours = isinstance(began, SessionHeader) and began.source_id is None and not found.is_fork
    if is_whole and (found.is_home or is_ours):
        return (began.source_id if began is not None and not found.is_fork else None) or sid
    return uuid_from(sid, found.out.leaf or "")


def export_original(store: ObjectStore, sid: str, at: Node | None = None) -> ExportResult:
    """Return the agent's own file, byte for byte.

    ``at``: the entry whose history is exported, even if it is no longer in the file; ``None`` for the whole file.
    Raises ``Refused`` if the session was not imported from an agent's file, and ``Corrupt`` if the file would be
    incomplete.
    """
    tree = _readable_tree(store, sid, at)
    start, began = session_facts.file_start(store, tree, sid)
    whole = meta_of(store, _home_of(store, sid, began or SessionHeader(agent="unknown")))
    starts = session_facts.segment_starts(tree, whole.segments)
    leaf = at.oid if at is not None else tree.branches[active(store, sid)] if starts else start
    return _file(store, sid, (tree, start, began), whole, session_facts.segment_at(tree, starts, leaf), at)


def segments(store: ObjectStore, sid: str) -> list[str | None]:
    """Return the ids of the agent's files for a session. The id of the first file is ``None``."""
    return [None, *meta_of(store, sid).segments]


def is_in_newest(store: ObjectStore, sid: str, leaf: Oid) -> bool:
    """Return whether an entry is in the newest of the agent's files, which the agent continues."""
    ids = meta_of(store, sid).segments
    tree = graph.tree(store, sid) if ids else None
    return tree is None or session_facts.segment_at(tree, session_facts.segment_starts(tree, ids), leaf) == ids[-1]


def segment(store: ObjectStore, sid: str, id: str | None) -> bytes:
    """Return one of the ``segments`` of a session, byte for byte. Raises the same errors as ``export_original``."""
    tree = _readable_tree(store, sid)
    return _file(store, sid, (tree, *session_facts.file_start(store, tree, sid)), meta_of(store, sid), id, None).data


class _FileLines(NamedTuple):
    """The content of one of the agent's files by line. ``taken``: the exported lines in the file.

    ``nodes``: all entries of the session that can be in the file.
    """

    nodes: Sequence[Node]
    headers: Mapping[int, Node]
    entries: Mapping[int, Node]
    taken: Mapping[int, Node]


def _lines_of(store: ObjectStore, part: graph.Tree, meta: Meta, at: Node | None) -> _FileLines:
    """Return the current lines of a file or, with ``at``, only the lines in the history of that entry."""
    ours = meta.lines_of_ours()
    if at is None:
        nodes = list(part.nodes.values())
        found = session_facts.imported_now(part, meta.source_file.superseded)
        headers = meta.headers()
        taken = {number: node for number, (node, _) in ours.items()}
    else:
        nodes = found = _line(store, at, set(part.children[None]))
        here = {to_base64url(node.chain) for node in nodes}
        # The tail follows a line that may not be in this history.
        headers = {number: node for number, node in meta.headers(nodes).items() if number not in (TAIL, WHOLE)}
        taken = {number: node for number, (node, chain) in ours.items() if chain in here}
    return _FileLines(nodes, headers, {node.source.line: node for node in found if node.source}, taken)


def _file(
    store: ObjectStore,
    sid: str,
    begun: tuple[graph.Tree, Oid, SessionHeader | Fork | None],
    whole: Meta,
    segment: str | None,
    at: Node | None,
) -> ExportResult:
    """Return one of the agent's files for a session.

    ``begun``: the session's tree, the object id of the entry at which the file begins, and that entry. ``whole``: the
    session's ``meta``. ``at``: the entry whose history is exported; ``None`` for the whole file.
    """
    tree, start, began = begun
    root = began or SessionHeader(agent="unknown")
    meta = whole.of_file(segment)
    part = session_facts.file_part(tree, session_facts.segment_starts(tree, whole.segments), start, segment)
    file = _lines_of(store, part, meta, at)
    every = {**file.headers, **file.entries, **file.taken}
    lines = {number: node for number, node in every.items() if not node.is_tombstone}
    if not lines:
        raise _without_file(sid, root, at)
    in_file = {chain for _, chain in meta.lines_of_ours().values()}
    made_here = (node for node in file.nodes if node.source is None and node.oid != start)
    left_out = sum(to_base64url(node.chain) not in in_file for node in made_here)
    agent = next((node.source.agent for node in lines.values() if node.source), root.agent)
    format = FORMATS[agent]
    if isinstance(format, Document):
        return ExportResult(agent, _document(store, format, file), left_out)
    data = _joined(store, format, lines, ends=meta.source_file.ends_with_newline or at is not None)
    return ExportResult(agent, data, left_out, place=_place(agent, data, segment))


def _joined(store: ObjectStore, format: Format, lines: Mapping[int, Node], *, ends: bool) -> bytes:
    """Return the payloads of ``lines``, joined as in the agent's file.

    ``ends``: whether the file ends in a separator.
    """
    payloads = [payload_of(store, lines[number]) for number in sorted(lines)]
    if TAIL in lines and not payloads[-1]:
        payloads.pop()  # an empty tail means that its lines are now part of a record
    return format.BETWEEN.join(payloads) + (format.BETWEEN if ends else b"")


def _without_file(sid: str, root: SessionHeader | Fork, at: Node | None) -> Refused:
    """Return the error for a session or an entry that is not in any agent's file."""
    if at is not None and root.source_id is not None:
        return Refused(
            f"cannot export session {sid} at this entry: no line of {root.agent}'s file is in its history",
            hint="pass a later entry (run `gitsession log` to list the entries)",
        )
    return Refused(
        f"cannot export the original file of session {sid}: it was created with gitsession, not by {root.agent}",
        hint=f"run `gitsession export {sid} --to pi`",
    )


def _document(store: ObjectStore, format: Document, file: _FileLines) -> bytes:
    """Return a file that is built from its records, or its stored bytes if it cannot be built from them."""
    entries = {number: node for number, node in file.entries.items() if not node.is_tombstone}
    headers = {n: node for n, node in file.headers.items() if n in entries or n in (0, WHOLE, TAIL)}
    lines = {**entries, **headers, **file.taken}
    if WHOLE in lines:
        return payload_of(store, lines[WHOLE])
    records = [payload_of(store, lines[number]) for number in sorted(lines) if 0 < number < WHOLE]
    tail = payload_of(store, lines[TAIL]) if TAIL in lines else b""
    return format.join(payload_of(store, lines[0]), records, tail)


def _readable_tree(store: ObjectStore, sid: str, at: Node | None = None) -> graph.Tree:
    """Return the tree of a session. Raises ``Corrupt`` if it is damaged and ``at`` is ``None``."""
    tree = graph.tree(store, sid)
    if tree.damage and at is None:
        raise Corrupt(
            f"cannot export session {sid}: entry {tree.damage[0].oid} cannot be read, so the file would be incomplete",
            hint="run `gitsession verify` to list the damage, or pass SESSION@ENTRY to export an undamaged history",
        )
    return tree


def agent_of(store: ObjectStore, sid: str, began: SessionHeader | Fork | None) -> str:
    """Return the agent that has a file of this session, otherwise the agent in ``began``."""
    theirs = (node.source.agent for node in meta_of(store, sid).headers().values() if node.source)
    return next(theirs, began.agent if began is not None else "unknown")


def _line(store: ObjectStore, at: Node, starts: Collection[Oid]) -> list[Node]:
    """Return the entries from ``at`` back to the beginning of the file."""
    found: list[Node] = []
    for node in graph.history(store, at.oid):
        found.append(node)
        if node.oid in starts:
            return found
    raise Refused(
        "cannot export this entry: it is in the file of the session that this one was forked from",
        hint="export the entry from that session",
    )


def _home_of(store: ObjectStore, sid: str, root: SessionHeader | Fork) -> str:
    """Return the id of the session that has the file's header.

    This is ``sid``, or the imported session if ``sid`` is a fork that gitsession created.
    """
    is_home = store.ref(refs.meta(sid)) is not None and meta_of(store, sid).newest_lines()
    if root.source_id is None or is_home:
        return sid
    return session_ids.derived(root.agent, root.source_id, root.at_ms)
