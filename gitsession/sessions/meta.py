"""The ``meta`` branch of a session as one value: header, state of the agent's file, and marks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field, replace

from gitsession.codec.message import SourceRef
from gitsession.dataclass import dataclass
from gitsession.git.types import Oid
from gitsession.model import entries as kinds
from gitsession.model.entries import Entry
from gitsession.model.session_state import StateChanges, changes_in
from gitsession.sessions.content import entry_of
from gitsession.sessions.gaps import DAMAGE, Gap
from gitsession.sessions.marks import SessionMark
from gitsession.sessions.node import Node, line_of, load, position
from gitsession.sessions.unreachable import fill
from gitsession.store import refs
from gitsession.store.interface import ObjectStore

BELOW = "below:"


@dataclass(frozen=True, slots=True)
class Meta:
    """The content of ``meta``: the newest imported header, the state of the agent's file, and marks.

    ``nodes``, ``files``: the newest first. ``gaps``: the entries that cannot be read. ``segments``: the ids of the
    segments, the newest last. A segment is a later file of the same session. If there are segments, ``source_file`` is
    the state of the newest file, with the superseded entries of all files.
    """

    header: kinds.SessionHeader | None = None
    project: str | None = None
    continuation: kinds.Continuation | None = None
    source_file: kinds.SourceFile = field(default_factory=kinds.SourceFile)
    nodes: tuple[Node, ...] = ()
    marks: tuple[SessionMark, ...] = ()
    files: tuple[tuple[Node, kinds.SourceFile], ...] = ()
    gaps: tuple[Gap, ...] = ()
    segments: tuple[str, ...] = ()

    def of_file(self, segment: str | None) -> Meta:
        """Return the content for one of the agent's files: ``segment``, or the first file if it is ``None``."""
        if not self.segments and segment is None:
            return self
        files = tuple((node, state) for node, state in self.files if state.segment == segment)
        states = {node.oid for node, _ in self.files} - {node.oid for node, _ in files}
        nodes = tuple(node for node in self.nodes if node.oid not in states and segment_of(node) in (segment, None))
        if segment is not None:
            nodes = tuple(node for node in nodes if node.source is None or segment_of(node) == segment)
        state = files[0][1] if files else kinds.SourceFile(segment=segment)
        return replace(self, source_file=state, nodes=nodes, files=files)

    def newest_lines(self) -> dict[int, Node]:
        """Return the newest version of each line of the agent's file that is on ``meta``, by line number."""
        lines: dict[int, Node] = {}
        for node in self.nodes:
            if node.source is not None:
                lines.setdefault(node.source.line, node)
        return lines

    def current_lines(self) -> dict[int, Node]:
        """Return ``newest_lines`` without the lines that are no longer in the file or were purged."""
        superseded = set(self.source_file.superseded)
        newest = self.newest_lines().items()
        return {number: node for number, node in newest if position(node) not in superseded and not node.is_tombstone}

    def headers(self, line: Iterable[Node] | None = None) -> dict[int, Node]:
        """Return the header lines by number: the current lines, or the lines when the file contained ``line``."""
        lines = self.current_lines() if line is None else self.lines_before(line)
        return {number: node for number, node in lines.items() if not is_exported_line(node) and not node.is_tombstone}

    def exported_lines(self) -> dict[int, tuple[Node, str]]:
        """Return the exported lines in the agent's file by line number, each with the chain digest of its entry.

        For a line that only refers to an entry, the string is ``BELOW`` followed by the chain digest of the line's
        parent entry.
        """
        chains = {line_of(pos): pos.partition(":")[2] for pos in self.source_file.ours}
        lines = self.current_lines().items()
        return {number: (node, chains.get(number, "")) for number, node in lines if is_exported_line(node)}

    def older_lines(self) -> list[Node]:
        """Return the older versions of lines of the agent's file, which newer lines on ``meta`` replaced."""
        newest = {node.oid for node in self.newest_lines().values()}
        return [node for node in self.nodes if node.source is not None and node.oid not in newest]

    def lines_before(self, line: Iterable[Node]) -> dict[int, Node]:
        """Return the lines on ``meta`` that were current when the agent's file contained ``line``.

        ``line``: entries of an earlier version of the file. The first ``source_file`` entry that lists one of them as
        superseded was written when that version was replaced. That ``source_file`` entry also lists the headers that
        were replaced then.
        """
        positions = {position(node) for node in line}
        ended = None
        known: set[str] = set()
        for node, state in reversed(self.files):
            if positions & set(state.superseded):
                ended, listed = node, set(state.superseded) - known
                break
            known = set(state.superseded)
        if ended is None:
            return self.newest_lines()
        lines: dict[int, Node] = {}
        for node in self.nodes[self.nodes.index(ended) :]:
            if node.source is not None and (node.source.line not in lines or position(node) in listed):
                lines[node.source.line] = node
        return lines


def is_exported_line(node: Node) -> bool:
    """Return whether an export wrote a line on ``meta``. Header lines have no id, because they refer to no entry."""
    return node.source is not None and node.source.id is not None and not _is_tail(node.source)


def segment_of(node: Node) -> str | None:
    """Return the segment of a file's tail or of a header line on ``meta``; ``None`` for other lines."""
    if node.source is None:
        return None
    return node.source.id if node.kind == kinds.SessionHeader.kind or _is_tail(node.source) else None


def _is_tail(source: SourceRef) -> bool:
    from gitsession.formats.base.record import TAIL  # slow to import, and needed for imported sessions only

    return source.line == TAIL


def meta_of(store: ObjectStore, sid: str) -> Meta:
    """Return the ``meta`` branch of a session as one value. Superseded lines of the agent's file are left out."""
    header: kinds.SessionHeader | None = None
    project: str | None = None
    continuation: kinds.Continuation | None = None
    source_file: kinds.SourceFile | None = None
    nodes: list[Node] = []
    marks: list[SessionMark] = []
    files: list[tuple[Node, kinds.SourceFile]] = []
    seen_lines: set[tuple[int, str | None]] = set()
    gaps: dict[Oid, Gap] = {}
    oid = store.ref(refs.meta(sid))
    while oid is not None:
        try:
            node = load(store, oid)
        except DAMAGE as error:
            if oid not in gaps:
                gaps[oid] = Gap(oid, str(error), foreign=False)
                _, gaps = fill(store, sid, {node.oid: node for node in nodes}, gaps)
            oid = gaps[oid].before
            if oid in {node.oid for node in nodes}:
                break
            continue
        if node.parent is None or node.kind == kinds.Fork.kind:
            break
        nodes.append(node)
        oid = node.parent
        if node.kind == kinds.Attachment.kind:
            continue  # attachments are large, and contain no information about the session
        if node.source is not None:
            # Only the newest version of a line is used. The entry that lists the line as superseded is newer, and was
            # read already.
            line_key = node.source.line, segment_of(node)
            if line_key in seen_lines:
                continue
            seen_lines.add(line_key)
            if source_file is not None and position(node) in source_file.superseded:
                continue
        if is_exported_line(node):
            continue  # the line is a copy of an entry that gitsession wrote
        entry = entry_of(store, node)
        if isinstance(entry, kinds.SessionHeader) and header is None:
            header = entry
        elif isinstance(entry, kinds.Project):
            project = project or entry.identity
        elif isinstance(entry, kinds.Continuation):
            continuation = continuation or entry
        elif isinstance(entry, kinds.SourceFile):
            source_file = source_file or entry
            files.append((node, entry))
        marks += marks_of(node, entry, on_meta=True)
    segments = tuple(sorted({state.segment for _, state in files if state.segment is not None}))
    state = _current(files, segments) if segments else source_file or kinds.SourceFile()
    return Meta(
        header=header,
        project=project,
        continuation=continuation,
        source_file=state,
        nodes=tuple(nodes),
        marks=tuple(marks),
        files=tuple(files),
        gaps=tuple(gaps.values()),
        segments=segments,
    )


def _current(files: Iterable[tuple[Node, kinds.SourceFile]], segments: Sequence[str]) -> kinds.SourceFile:
    """Return the newest state of the newest segment, with the superseded entries of all files of the agent.

    The ids of segments begin with the time, so the greatest id belongs to the newest segment.
    """
    newest: dict[str | None, kinds.SourceFile] = {}
    for _, state in files:
        newest.setdefault(state.segment, state)
    superseded = tuple(dict.fromkeys(pos for state in newest.values() for pos in state.superseded))
    return replace(newest[segments[-1]], superseded=superseded)


def marks_of(node: Node, entry: Entry, *, on_meta: bool) -> list[SessionMark]:
    """Return the marks in ``entry``."""
    line = node.source.line if node.source else None

    def mark(what: str, value: str | None, target: str = "") -> list[SessionMark]:
        return [SessionMark(what, entry.at_ms, line, node.chain, target, (value or "").strip())]

    if isinstance(entry, kinds.Label):
        return mark("label", entry.label, entry.target)
    if isinstance(entry, kinds.Title):
        if node.source is not None and entry.extra.get("automatic") is True:
            return mark("header", entry.title)  # not chosen by the user
        return mark("slot" if on_meta and node.source else "title", entry.title)
    if isinstance(entry, kinds.SessionHeader) and on_meta:
        stated = (changes_in(entry) or StateChanges()).marks
        return [*mark("header", entry.title), *(each for name in stated for each in mark("state", stated[name], name))]
    if isinstance(entry, kinds.Instructions) and on_meta:
        return mark("instructions", node.oid)
    if isinstance(entry, kinds.Fork):
        labels = (SessionMark("label", entry.at_ms, None, b"", chain, label) for chain, label in entry.labels.items())
        return [*labels, SessionMark("title", entry.at_ms, None, b"", "", entry.title or "")]
    return []
