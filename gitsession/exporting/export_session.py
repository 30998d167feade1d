"""A session out of the store: as its agent's file has it, or with what was made here in the agent's own words.

docs/decisions/0013 says what goes where; docs/reference/format.md, "The agent's file", what that is.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from gitsession.codec import message
from gitsession.codec.digest import to_base64url
from gitsession.codec.payload import headline
from gitsession.errors import Corrupt, Refused
from gitsession.exporting import json_lines, markdown
from gitsession.exporting.gather import ExportInput, gather
from gitsession.formats import FORMATS, Accompanied, Continuing, Document, Resumable, with_capability
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

AT_HOME = "images that the agent keeps in a folder of its own, and this file only names: `resume` restores them"
TO_READ: dict[str, Writer] = {writer.AGENT: writer for writer in (json_lines, markdown)}
"""Forms that are no agent's: a session can be written as one, and none is taken in."""


@dataclass(frozen=True, slots=True)
class ExportResult:
    """``data``: the file. ``left_out``: entries made here that are not in it. ``added``: lines that are written anew.

    ``notes``: what ``agent``'s form cannot say as we do, and how often. Of a file that goes on in some folder,
    ``session``: its id and folder there; ``stay``: the same file in the folder it was in. ``hidden``: how many secrets
    are placeholders in it; ``problems``: why one of them could not be shown. ``place``: where the agent keeps
    the file, where that does not follow from ``session``; ``beside``: names and contents of the other files of the
    session, and of those that it goes on from.
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
        """The same, with what ``shown``, which it was read from, has to tell."""
        hidden = min(sum(shown.hidden.values()), self.data.count(OPENS.encode()))  # it may have read more than is in it
        return dataclasses.replace(self, hidden=hidden, problems=tuple(dict.fromkeys(shown.problems.values())))


def export(
    store: ObjectStore, sid: str, to: str | None = None, at: Node | None = None, cwd: str | None = None
) -> ExportResult:
    """The session as a file that ``to`` opens: an agent of ``FORMATS``, by default its own; or one of ``TO_READ``.

    Where the agent's file says all there is, it is that file, byte for byte. ``at``: the line that ends in this entry.
    ``cwd``: the folder it is to go on in, where the agent may have a file of this session already: what is not that
    file gets an id of its own, and is called by its first prompt if the agent needs a title and there is none. Only
    for agents that are ``Resumable``.
    Raises ``Refused`` where there is no such form, ``Corrupt`` where the file would not be whole.
    """
    tree = graph.tree(store, sid)
    if tree.damage and at is None:
        raise _damaged(tree)
    _, began = session_facts.file_start(store, tree, sid)
    agent = to or agent_of(store, sid, began)
    if to in TO_READ:
        return _to_read(store, sid, TO_READ[to], at, agent_of(store, sid, began))
    if agent not in FORMATS:
        hint = f"`--to` says for which agent: {' or '.join(FORMATS)}"
        raise Refused(f"session {sid} is {agent}'s, of whose files we know nothing", hint=hint)
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
    """Return the words of the first prompt that goes along and has any, cut to a line as lists show it."""
    said = (each.entry for each in out.line())
    prompts = (entry for entry in said if isinstance(entry, Message) and entry.role == "user")
    return next(filter(None, (message.words_of(headline(entry)) for entry in prompts)), None)


def _place(agent: str, data: bytes, segment: str | None) -> str:
    """Return the path at which the agent keeps its file ``data``, "" for an agent whose files continue no others."""
    format = with_capability(agent, Continuing)
    return format.place_of(data, segment) if format is not None else ""


def _named_at_home(agent: str, data: bytes) -> int:
    """Count the files that ``data`` names and the agent keeps in a folder of its own."""
    format = with_capability(agent, Accompanied)
    return sum(bool(wanted.home) for wanted in format.beside(data, "")) if format is not None else 0


def _to_read(store: ObjectStore, sid: str, writer: Writer, at: Node | None, agent: str) -> ExportResult:
    """The session as ``writer`` tells it; it is named by its agent, and by its id here."""
    found = gather(store, sid, writer, at)
    out = dataclasses.replace(found.out, session=dataclasses.replace(found.out.session, agent=agent))
    written = writer.write(out)
    return ExportResult(writer.AGENT, written.data, found.left_out, len(written.lines), written.notes)


def _id_there(sid: str, found: ExportInput, began: SessionHeader | Fork | None, *, is_whole: bool) -> str:
    """What the agent calls the session: by the id of its own file, or by ours, where the file that it goes on with is
    taken in as this session again; else by one that follows from the entry that it goes on from.
    """
    is_ours = isinstance(began, SessionHeader) and began.source_id is None and not found.is_fork
    if is_whole and (found.is_home or is_ours):
        return (began.source_id if began is not None and not found.is_fork else None) or sid
    return uuid_from(sid, found.out.leaf or "")


def export_original(store: ObjectStore, sid: str, at: Node | None = None) -> ExportResult:
    """The agent's own file, byte for byte. ``at``: the line that ends in this entry, also where it has left the file.

    Raises ``Refused`` for a session that no agent's file made, ``Corrupt`` where the file would not be whole.
    """
    tree = graph.tree(store, sid)
    if tree.damage and at is None:
        raise _damaged(tree)
    start, began = session_facts.file_start(store, tree, sid)
    whole = meta_of(store, _home_of(store, sid, began or SessionHeader(agent="unknown")))
    starts = session_facts.segment_starts(tree, whole.segments)
    leaf = at.oid if at is not None else tree.branches[active(store, sid)] if starts else start
    return _file(store, sid, (tree, start, began), whole, session_facts.segment_at(tree, starts, leaf), at)


def segments(store: ObjectStore, sid: str) -> list[str | None]:
    """The files that an agent has of a session: ``None`` for the first, and the ids of those that came later."""
    return [None, *meta_of(store, sid).segments]


def is_in_newest(store: ObjectStore, sid: str, leaf: Oid) -> bool:
    """Return whether an entry stands in the newest of the agent's files, with which the agent goes on."""
    ids = meta_of(store, sid).segments
    tree = graph.tree(store, sid) if ids else None
    return tree is None or session_facts.segment_at(tree, session_facts.segment_starts(tree, ids), leaf) == ids[-1]


def segment(store: ObjectStore, sid: str, id: str | None) -> bytes:
    """One of the ``segments`` of a session, byte for byte. Raises as ``export_original`` does."""
    tree = graph.tree(store, sid)
    if tree.damage:
        raise _damaged(tree)
    return _file(store, sid, (tree, *session_facts.file_start(store, tree, sid)), meta_of(store, sid), id, None).data


def _file(
    store: ObjectStore,
    sid: str,
    begun: tuple[graph.Tree, Oid, SessionHeader | Fork | None],
    whole: Meta,
    segment: str | None,
    at: Node | None,
) -> ExportResult:
    """One of the agent's files of a session, whose ``meta`` is ``whole``; ``at``: only its line that ends there."""
    tree, start, began = begun
    root = began or SessionHeader(agent="unknown")
    meta = whole.of_file(segment)
    starts = session_facts.segment_starts(tree, whole.segments)
    part = session_facts.file_part(tree, starts, start, segment)
    if at is None:
        nodes = list(part.nodes.values())
    else:
        nodes = _line(store, at, set(part.children[None]))
    found = session_facts.imported_now(part, meta.source_file.superseded) if at is None else nodes
    here = {to_base64url(node.chain) for node in nodes} if at is not None else None
    taken = {number: node for number, (node, chain) in meta.lines_of_ours().items() if here is None or chain in here}
    headers = meta.headers(None if at is None else nodes)
    if at is not None:
        for number in (TAIL, WHOLE):
            headers.pop(number, None)  # it stood behind another line
    lines = {**headers, **{node.source.line: node for node in found if node.source}, **taken}
    lines = {number: node for number, node in lines.items() if not node.is_tombstone}
    if not lines and at is not None and began is not None and began.source_id is not None:
        raise Refused(
            f"nothing of {root.agent}'s own file stands in session {sid} as far as this entry",
            hint="name a later entry: `gitsession log` shows them",
        )
    if not lines:
        raise Refused(
            f"session {sid} was made here, not by {root.agent}: there is no file to give back",
            hint=f"`gitsession export {sid} --to pi` writes one",
        )
    in_file = {chain for _, chain in meta.lines_of_ours().values()}
    left_out = sum(
        node.source is None and node.oid != start and to_base64url(node.chain) not in in_file for node in nodes
    )
    agent = next((node.source.agent for node in lines.values() if node.source), root.agent)
    format = FORMATS[agent]
    if isinstance(format, Document):
        entries = {node.source.line: node for node in found if node.source and not node.is_tombstone}
        stand = {number: node for number, node in headers.items() if number in entries or number in (0, WHOLE, TAIL)}
        return ExportResult(agent, _document(store, format, {**entries, **stand, **taken}), left_out)
    payloads = [payload_of(store, lines[number]) for number in sorted(lines)]
    if TAIL in lines and not payloads[-1]:
        payloads.pop()  # it has found its line
    between = format.BETWEEN
    data = between.join(payloads)
    ends_with_newline = meta.source_file.ends_with_newline or at is not None
    data += between if ends_with_newline else b""
    return ExportResult(agent, data, left_out, place=_place(agent, data, segment))


def _document(store: ObjectStore, format: Document, lines: Mapping[int, Node]) -> bytes:
    """A file that is laid out from its records; or, where that would be another one, its bytes as they were."""
    whole = lines.get(WHOLE)
    if whole is not None:
        return payload_of(store, whole)
    records = [payload_of(store, lines[number]) for number in sorted(lines) if 0 < number < WHOLE]
    tail = payload_of(store, lines[TAIL]) if TAIL in lines else b""
    return format.join(payload_of(store, lines[0]), records, tail)


def _damaged(tree: graph.Tree) -> Corrupt:
    return Corrupt(
        f"not all entries can be read, the first is {tree.damage[0].oid}: the file would not be whole",
        hint="`gitsession verify` names what is damaged; SESSION@ENTRY gives a line that is whole",
    )


def agent_of(store: ObjectStore, sid: str, began: SessionHeader | Fork | None) -> str:
    """The agent that has a file of this session; where none has, the one it began with. ``began``: what its file or
    its root says.
    """
    theirs = (node.source.agent for node in meta_of(store, sid).headers().values() if node.source)
    return next(theirs, began.agent if began is not None else "unknown")


def _line(store: ObjectStore, at: Node, starts: Collection[Oid]) -> list[Node]:
    """The entries from ``at`` up to where the file begins."""
    found: list[Node] = []
    for node in graph.line(store, at.oid):
        found.append(node)
        if node.oid in starts:
            return found
    raise Refused("this entry stands in the file of the session that this one was forked from")


def _home_of(store: ObjectStore, sid: str, root: SessionHeader | Fork) -> str:
    """The session that has the header: this one; for a fork of ours, the one that was imported."""
    is_home = store.ref(refs.meta(sid)) is not None and meta_of(store, sid).newest_lines()
    if root.source_id is None or is_home:
        return sid
    return session_ids.derived(root.agent, root.source_id, root.at_ms)
