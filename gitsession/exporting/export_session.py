"""Export of a session as its agent's file, or as a file in another agent's format.

docs/decisions/0013 describes the content of an export. docs/reference/format.md, "The agent's file", describes how the
file that the agent wrote is rebuilt.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from gitsession.codec import message
from gitsession.codec.digest import to_base64url
from gitsession.codec.payload import headline
from gitsession.dataclass import dataclass
from gitsession.errors import Corrupt, Refused
from gitsession.exporting import json_lines
from gitsession.exporting.gather import ExportInput, gather
from gitsession.exporting.readable import READABLE_FORMATS, PluginWriter, export_names, find_writer
from gitsession.formats import FORMATS, Accompanied, Continuing, Document, Format, Resumable, with_capability
from gitsession.formats.base.fields import uuid_from
from gitsession.formats.base.outgoing import Outgoing, Writer
from gitsession.formats.base.record import TAIL, WHOLE
from gitsession.git.types import Oid
from gitsession.model.entries import Fork, Message, SessionHeader
from gitsession.redaction.original import OPENS
from gitsession.sessions import graph, session_facts
from gitsession.sessions.active_branch import active
from gitsession.sessions.content import payload_of
from gitsession.sessions.meta import Meta, meta_of
from gitsession.sessions.node import Node
from gitsession.sessions.revealed_store import RevealedStore
from gitsession.store import refs
from gitsession.store.interface import ObjectStore

EXTERNAL_IMAGES = (
    "images that the file only refers to: the agent stores them in a separate folder, and `resume` restores them"
)


@dataclass(frozen=True, slots=True)
class ExportResult:
    """An exported session.

    Attributes:
        agent: The format of the file: the name of an agent or of another export format.
        data: The content of the file.
        left_out: The number of entries that gitsession created and that are not in the file.
        added: The number of newly written lines.
        notes: The numbers of the items that the format cannot represent exactly, by description.
        session: If the session is exported to be continued in a folder, a header with the id and the folder of the
            continued session.
        unmoved_data: If the session is exported to be continued in a folder, the content of the file before it was
            changed for this folder.
        hidden: The number of placeholders that replace secrets in the file.
        problems: The reasons why the originals of redacted payloads could not be read.
        path: The path of the file below the agent's folder, if the path cannot be derived from ``session``.
        other_files: The names and contents of the session's other files, and of the files that the session continues.
        suspicious: Descriptions of text that looks like a secret, although no rule found it. Only HTML is searched.
    """

    agent: str
    data: bytes
    left_out: int = 0
    added: int = 0
    notes: Mapping[str, int] = field(default_factory=dict)
    session: SessionHeader | None = None
    unmoved_data: bytes = b""
    hidden: int = 0
    problems: tuple[str, ...] = ()
    path: str = ""
    other_files: tuple[tuple[str, bytes], ...] = ()
    suspicious: tuple[str, ...] = ()

    def from_store(self, store: RevealedStore) -> ExportResult:
        """Return a copy of the result with the placeholders and problems that ``store`` counted.

        Args:
            store: The store from which the session was read.
        """
        # the export may not contain all placeholders that were read
        hidden = min(sum(store.hidden.values()), self.data.count(OPENS.encode()))
        return dataclasses.replace(self, hidden=hidden, problems=tuple(dict.fromkeys(store.problems.values())))


def export(
    store: ObjectStore, sid: str, to: str | None = None, at: Node | None = None, cwd: str | None = None,
    begun: Mapping[Oid, Sequence[str]] = {},
) -> ExportResult:  # fmt: skip
    """Return the session as a file for the agent ``to``.

    If the agent's own file already has the complete content, the result is this file, byte for byte.

    Args:
        store: The store.
        sid: The id of the session.
        to: A name in ``readable.export_names``, except ``html``; ``None`` for the agent of the session.
        at: The entry whose history is exported; ``None`` for all entries.
        cwd: The folder in which to continue the session, for agents that are ``Resumable``; ``None`` if the exported
            session will not be continued. If the agent already has a file of this session and the export is not that
            file, the exported session gets a new id. If the session has no title and the agent needs one, the first
            prompt becomes the title.
        begun: The sessions that began in this one, for people, by the oid of the entry; "" if the entry is unknown.

    Raises:
        Refused: If ``to`` is not a supported agent or format.
        Corrupt: If the file would be incomplete.
    """
    tree = _readable_tree(store, sid, at)
    _, start_entry = session_facts.file_start(store, tree, sid)
    agent = to or agent_of(store, sid, start_entry)
    writer = find_writer(agent) if to is not None or agent in READABLE_FORMATS else None
    if writer is not None:
        return _export_readable(store, sid, writer, at, agent_of(store, sid, start_entry), begun)
    if agent not in FORMATS:
        raise _unsupported(sid, agent)
    gathered = gather(store, sid, FORMATS[agent], at)
    out = gathered.out
    if cwd is not None:
        id = _agents_id(sid, gathered, start_entry, is_complete=at is None)
        header = dataclasses.replace(out.session, source_id=id, cwd=cwd, title=_first_prompt(out))
        out = dataclasses.replace(out, session=header)
    if gathered.is_home and not gathered.has_additions:
        original = export_original(store, sid, at)
        result = ExportResult(agent, original.data, gathered.left_out, notes=gathered.notes, path=original.path)
    else:
        written = FORMATS[agent].write(out)
        unchanged = sum(entry.line is not None for entry in out.entries) + len(out.head)
        notes = dict(written.notes + Counter(gathered.notes))
        path = _path_of(agent, written.data, gathered.segment)
        result = ExportResult(agent, written.data, gathered.left_out, len(written.lines) - unchanged, notes, path=path)
    if cwd is None:
        linked = _count_linked_files(agent, result.data)
        return dataclasses.replace(result, notes={**result.notes, EXTERNAL_IMAGES: linked}) if linked else result
    data = result.data
    if gathered.is_home and (format := with_capability(agent, Resumable)) is not None:
        data = format.relocate(data, out.session.source_id or sid, cwd)
    is_later = gathered.segment is not None and at is None
    return dataclasses.replace(
        result, data=data, session=out.session, unmoved_data=result.data, path=result.path if is_later else ""
    )


def _unsupported(sid: str, agent: str) -> Refused:
    """Return the error for an agent whose format is not installed."""
    hint = f"pass --to with a format: {', '.join(export_names())}"
    return Refused(f"cannot export session {sid} for '{agent}': the agent is not supported", hint=hint)


def _first_prompt(out: Outgoing) -> str | None:
    """Return the text of the first exported prompt that has text, shortened to one line as in lists."""
    entries = (each.entry for each in out.history())
    prompts = (entry for entry in entries if isinstance(entry, Message) and entry.role == "user")
    return next(filter(None, (message.text_of(headline(entry)) for entry in prompts)), None)


def _path_of(agent: str, data: bytes, segment: str | None) -> str:
    """Return the path of the agent's file ``data``; "" if the files of this agent do not continue each other."""
    format = with_capability(agent, Continuing)
    return format.segment_path(data, segment) if format is not None else ""


def _count_linked_files(agent: str, data: bytes) -> int:
    """Return the number of files that ``data`` refers to and the agent stores in a separate folder."""
    format = with_capability(agent, Accompanied)
    return sum(bool(sidecar.home) for sidecar in format.sidecars(data, "")) if format is not None else 0


def _export_readable(
    store: ObjectStore,
    sid: str,
    writer: Writer | PluginWriter,
    at: Node | None,
    agent: str,
    begun: Mapping[Oid, Sequence[str]],
) -> ExportResult:
    """Return the session in the format of ``writer``. The header contains the name ``agent`` and the id ``sid``."""
    found = gather(store, sid, writer, at, begun)
    out = dataclasses.replace(found.out, session=dataclasses.replace(found.out.session, agent=agent))
    if isinstance(writer, PluginWriter):
        text = writer.text(out)
        return ExportResult(writer.AGENT, text.data, found.left_out, notes=text.notes, path=sid + writer.suffix)
    written = writer.write(out)
    if writer.AGENT == json_lines.AGENT:
        written = json_lines.with_records(written, store, sid, at)
    return ExportResult(writer.AGENT, written.data, found.left_out, len(written.lines), written.notes)


def _agents_id(sid: str, found: ExportInput, start_entry: SessionHeader | Fork | None, *, is_complete: bool) -> str:
    """Return the id of the exported session in the agent.

    If the complete session is exported to its own agent, the id is that in the agent's file. If gitsession created the
    session and all of it is exported, the id is ``sid``, so that importing the continued file finds this session.
    Otherwise, the id is derived from the entry at which the exported session continues.
    """
    is_native = isinstance(start_entry, SessionHeader) and start_entry.source_id is None and not found.is_fork
    if is_complete and (found.is_home or is_native):
        return (start_entry.source_id if start_entry is not None and not found.is_fork else None) or sid
    return uuid_from(sid, found.out.leaf or "")


def export_original(store: ObjectStore, sid: str, at: Node | None = None) -> ExportResult:
    """Return the file that the agent wrote, byte for byte.

    Args:
        store: The store.
        sid: The id of the session.
        at: The entry whose history is exported, even if the entry is no longer in the file; ``None`` for the whole
            file.

    Raises:
        Refused: If the session was not imported from an agent's file.
        Corrupt: If the file would be incomplete.
    """
    tree = _readable_tree(store, sid, at)
    start, start_entry = session_facts.file_start(store, tree, sid)
    meta = meta_of(store, _home_of(store, sid, start_entry or SessionHeader(agent="unknown")))
    starts = session_facts.segment_starts(tree, meta.segments)
    leaf = at.oid if at is not None else tree.branches[active(store, sid)] if starts else start
    return _file(store, sid, (tree, start, start_entry), meta, session_facts.segment_at(tree, starts, leaf), at)


def is_in_newest(store: ObjectStore, sid: str, leaf: Oid) -> bool:
    """Return whether the entry ``leaf`` is in the newest of the agent's files for the session ``sid``.

    The newest file is the one that the agent continues.
    """
    ids = meta_of(store, sid).segments
    tree = graph.tree(store, sid) if ids else None
    return tree is None or session_facts.segment_at(tree, session_facts.segment_starts(tree, ids), leaf) == ids[-1]


def segment(store: ObjectStore, sid: str, id: str | None) -> bytes:
    """Return one of the agent's files for a session, byte for byte. Raises the same errors as ``export_original``.

    ``id``: the agent's id of the file, if it is not the first file of the session; otherwise ``None``.
    """
    tree = _readable_tree(store, sid)
    return _file(store, sid, (tree, *session_facts.file_start(store, tree, sid)), meta_of(store, sid), id, None).data


class _FileLines(NamedTuple):
    """The commits with the lines of one of the agent's files, by line number.

    Attributes:
        nodes: All entries of the session that can be in the file.
        headers: Header lines and the tail of the file.
        entries: Lines that the agent wrote.
        exported: Lines that earlier exports added.
    """

    nodes: Sequence[Node]
    headers: Mapping[int, Node]
    entries: Mapping[int, Node]
    exported: Mapping[int, Node]


def _lines_of(store: ObjectStore, part: graph.Tree, meta: Meta, at: Node | None) -> _FileLines:
    """Return the current lines of a file, or only those in the history of the entry ``at``."""
    recorded = meta.exported_lines()
    if at is None:
        nodes = list(part.nodes.values())
        found = session_facts.entries_in_file(part, meta.source_file.superseded)
        headers = meta.headers()
        exported = {number: node for number, (node, _) in recorded.items()}
    else:
        nodes = found = _line(store, at, set(part.children[None]))
        chains = {to_base64url(node.chain) for node in nodes}
        # The tail is omitted, because it follows a line that may not be in this history.
        headers = {number: node for number, node in meta.headers(nodes).items() if number not in (TAIL, WHOLE)}
        exported = {number: node for number, (node, chain) in recorded.items() if chain in chains}
    return _FileLines(nodes, headers, {node.source.line: node for node in found if node.source}, exported)


def _file(
    store: ObjectStore,
    sid: str,
    beginning: tuple[graph.Tree, Oid, SessionHeader | Fork | None],
    session_meta: Meta,
    segment: str | None,
    at: Node | None,
) -> ExportResult:
    """Return one of the agent's files for a session.

    Args:
        store: The store.
        sid: The id of the session.
        beginning: The tree of the session, and the object id and the content of the entry at which the file begins.
        session_meta: The metadata of the session.
        segment: The id of the file, if it is not the first file of the session.
        at: The entry whose history is exported; ``None`` for the whole file.
    """
    tree, start, start_entry = beginning
    root = start_entry or SessionHeader(agent="unknown")
    meta = session_meta.of_file(segment)
    part = session_facts.file_part(tree, session_facts.segment_starts(tree, session_meta.segments), start, segment)
    file = _lines_of(store, part, meta, at)
    all_nodes = {**file.headers, **file.entries, **file.exported}
    lines = {number: node for number, node in all_nodes.items() if not node.is_tombstone}
    if not lines:
        raise _without_file(sid, root, at)
    in_file = {chain for _, chain in meta.exported_lines().values()}
    own_nodes = (node for node in file.nodes if node.source is None and node.oid != start)
    left_out = sum(to_base64url(node.chain) not in in_file for node in own_nodes)
    agent = next((node.source.agent for node in lines.values() if node.source), root.agent)
    if agent not in FORMATS:  # the plugin that imported the session is missing
        raise _unsupported(sid, agent)
    format = FORMATS[agent]
    if isinstance(format, Document):
        return ExportResult(agent, _document(store, format, file), left_out)
    data = _joined(store, format, lines, ends=meta.source_file.ends_with_newline or at is not None)
    return ExportResult(agent, data, left_out, path=_path_of(agent, data, segment))


def _joined(store: ObjectStore, format: Format, lines: Mapping[int, Node], *, ends: bool) -> bytes:
    """Return the payloads of ``lines``, ordered and joined as in the agent's file.

    ``ends``: whether the file ends in a separator.
    """
    payloads = [payload_of(store, lines[number]) for number in sorted(lines)]
    if TAIL in lines and not payloads[-1]:
        payloads.pop()  # the tail is empty: its lines are now part of a record
    return format.BETWEEN.join(payloads) + (format.BETWEEN if ends else b"")


def _without_file(sid: str, root: SessionHeader | Fork, at: Node | None) -> Refused:
    """Return the error for a session or an entry that is not in any agent's file."""
    if at is not None and root.source_id is not None:
        return Refused(
            f"cannot export session {sid} at entry {at.oid}: "
            f"the history of that entry contains no record of {root.agent}",
            hint="pass a later entry (run `gitsession log` to list the entries)",
        )
    return Refused(
        f"cannot export the original file of session {sid}: gitsession created the session, not {root.agent}",
        hint=f"run `gitsession export {sid} --to pi`",
    )


def _document(store: ObjectStore, format: Document, file: _FileLines) -> bytes:
    """Return a file that is built from its records, or the stored bytes of a file that cannot be built from them."""
    entries = {number: node for number, node in file.entries.items() if not node.is_tombstone}
    headers = {n: node for n, node in file.headers.items() if n in entries or n in (0, WHOLE, TAIL)}
    lines = {**entries, **headers, **file.exported}
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


def agent_of(store: ObjectStore, sid: str, start_entry: SessionHeader | Fork | None) -> str:
    """Return the name of the agent that has a file of this session, otherwise the name in ``start_entry``."""
    agents = (node.source.agent for node in meta_of(store, sid).headers().values() if node.source)
    return next(agents, start_entry.agent if start_entry is not None else "unknown")


def _line(store: ObjectStore, at: Node, starts: Collection[Oid]) -> list[Node]:
    """Return the entries from ``at`` back to the beginning of the file."""
    found: list[Node] = []
    for node in graph.history(store, at.oid):
        found.append(node)
        if node.oid in starts:
            return found
    raise Refused(
        f"cannot export entry {at.oid[:12]}: it is in the file of the session from which this session was forked",
        hint="export the entry from the original session",
    )


def _home_of(store: ObjectStore, sid: str, root: SessionHeader | Fork) -> str:
    """Return the id of the session with the header of the agent's file.

    This is ``sid``, or the imported session from which gitsession forked the session ``sid``.
    """
    is_home = store.ref(refs.meta(sid)) is not None and meta_of(store, sid).newest_lines()
    if root.source_id is None or is_home:
        return sid
    return refs.imported_sids(root.agent, root.source_id, root.at_ms)[0]
