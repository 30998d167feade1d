"""Selection of the entries of an export. The writers of the formats receive them in order, with resolved references.

The lines that the agent wrote come first, in the order of its file. Entries that gitsession created follow, branch by
branch. The branch to continue comes last, because agents such as pi use the last line of a file as the leaf.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gitsession.codec.digest import to_base64url
from gitsession.context import profiles
from gitsession.context.history import ContextHistory
from gitsession.dataclass import dataclass
from gitsession.errors import Corrupt
from gitsession.exporting.answers import unfolded, with_tool_names
from gitsession.exporting.visible_history import visible_history
from gitsession.formats import Format, Outgoing, OutgoingEntry
from gitsession.formats.base.outgoing import Target, portable
from gitsession.formats.base.record import TAIL
from gitsession.git.types import Oid
from gitsession.model import entries as kinds
from gitsession.model.blocks import OtherBlock
from gitsession.model.entries import Entry, Label, Opaque
from gitsession.model.session_state import without_goal
from gitsession.sessions import graph, session_facts
from gitsession.sessions import marks as rules
from gitsession.sessions.active_branch import active, derived
from gitsession.sessions.attached_files import SessionAttachments
from gitsession.sessions.content import entry_of, is_fork_start, payload_of
from gitsession.sessions.marks import SessionMark
from gitsession.sessions.meta import BELOW, meta_of
from gitsession.sessions.node import Node, position, short_id
from gitsession.store.interface import ObjectStore

NO_IMAGE = "[image: its bytes are not in this store]"


@dataclass(frozen=True, slots=True)
class ExportInput:
    """The input of a format's writer, and facts about it.

    Attributes:
        out: The session to write.
        is_home: Whether ``out`` begins with the content of the file that the agent wrote.
        has_additions: Whether ``out`` has content that is not in that file.
        left_out: The number of entries that gitsession created and that are omitted, because the agent rewrote the
            lines above them.
        notes: Notes for the user about other omitted or replaced items, with counts.
        is_fork: Whether the session is a fork that gitsession created.
        segment: The id of the agent's file, if it is not the first file of the session.
    """

    out: Outgoing
    is_home: bool
    has_additions: bool
    left_out: int
    notes: Mapping[str, int]
    is_fork: bool = False
    segment: str | None = None


def gather(
    store: ObjectStore, sid: str, format: Target, at: Node | None = None, begun: Mapping[Oid, Sequence[str]] = {}
) -> ExportInput:
    """Return the input for the writer ``format`` to export the session ``sid``.

    Args:
        store: The store.
        sid: The id of the session.
        format: The writer.
        at: The entry whose history is exported; ``None`` for all entries.
        begun: The sessions that began in this one, for people, by the oid of the entry; "" if the entry is unknown.
    """
    return _Gatherer(store, sid, format, at, begun).run()


class _Gatherer:
    def __init__(
        self, store: ObjectStore, sid: str, format: Target, at: Node | None, begun: Mapping[Oid, Sequence[str]]
    ) -> None:
        self.store, self.sid, self.format, self.at, self.begun = store, sid, format, at, begun
        tree = graph.tree(store, sid)
        start, began = session_facts.file_start(store, tree, sid)
        self.meta = meta_of(store, sid)
        self.leaf = at or tree.nodes[tree.branches[active(store, sid)]]
        self.segment = None
        starts = session_facts.segment_starts(tree, self.meta.segments)
        self.fork = next((node for node in tree.nodes.values() if is_fork_start(store, node, sid)), None)
        is_file = began is not None and began.agent == format.AGENT and not self._is_native_fork()
        # If an agent created the fork, its file does not contain the shared part, which is in another file of that
        # agent. An export for another agent includes the shared part. So does every export of a fork that gitsession
        # created, because such a fork has no file.
        if starts and is_file:
            self.segment = session_facts.segment_at(tree, starts, self.leaf.oid)
            self.tree = session_facts.file_part(tree, starts, start, self.segment)
            self.meta = self.meta.of_file(self.segment)
        elif isinstance(began, kinds.Fork) and is_file:
            self.tree = graph.subtree(tree, start)
        else:
            self.tree = tree
        self.headers = self.meta.headers().values()
        self.root = next(self.tree.nodes[oid] for oid in self.tree.children[None])
        self.began = entry_of(store, self.root)
        agents = (node.source.agent for node in self.headers if node.source is not None)
        self.agent = next(agents, began.agent if began is not None else "")
        history = [node for node in graph.history(store, self.leaf.oid) if node.oid in self.tree.nodes]
        self.history = {node.oid for node in history}
        self.current = [node for node in self._current(history) if not self._is_left_out(node)]
        self.keys = {node.oid: to_base64url(node.chain) for node in self.current}
        self.target_of = session_facts.targets(self.tree, self.meta)
        self.attached = SessionAttachments(store, sid, NO_IMAGE)
        self.counts: Counter[str] = Counter()

    @property
    def is_home(self) -> bool:
        """True if the target agent has a file of this session. The export then begins with the content of that file."""
        began, agent = self.began, self.format.AGENT
        imported = isinstance(began, kinds.SessionHeader) and began.source_id is not None and began.agent == agent
        has_header = any(node.source is not None and node.source.agent == agent for node in self.headers)
        return self.segment is not None or has_header or (imported and self.fork is None)

    def _is_left_out(self, node: Node) -> bool:
        """Return whether an entry is omitted: a purged entry, or the header of another agent's file."""
        is_header = node.kind == kinds.SessionHeader.kind and node.source is not None
        return node.is_tombstone or (is_header and not self.is_home)

    def _current(self, history: list[Node]) -> list[Node]:
        """Return the entries to export, parents before children. At a fork, the branch of the leaf comes last."""
        if self.at is not None:
            return history[-2::-1]
        superseded = set(self.meta.source_file.superseded)
        found: list[Node] = []
        stack = [self.root]
        while stack:
            node = stack.pop()
            if node.source is not None and position(node) in superseded:
                continue
            found.append(node)
            children = [self.tree.nodes[oid] for oid in reversed(self.tree.children.get(node.oid, []))]
            stack += sorted(children, key=lambda child: child.oid not in self.history)
        return found[1:]

    def run(self) -> ExportInput:
        in_file = self._lines_of_the_file() if self.is_home else []
        keys_in_file = {entry.key for entry in in_file}
        own_entries = [self._outgoing(node) for node in self.current if self.keys[node.oid] not in keys_in_file]
        entries = (*in_file, *own_entries)
        labels, title = self._names(entries)
        leaf = self._key_of_leaf(entries)
        all_entries = entries
        if isinstance(self.format, Format):
            entries, labels, leaf = self._as_in_context(entries, labels, leaf)
        entries, leaf = unfolded(entries, leaf)
        if isinstance(self.format, Format):
            with_names = with_tool_names(entries, all_entries)
            entries = self._timed([self._portable(each) for each in with_names])
        out = Outgoing(
            session=self._session(),
            head=self._head() if self.is_home else (),
            tail=self._tail() if self.is_home and self.at is None else b"",
            entries=entries,
            leaf=leaf,
            labels=labels,
            title=title,
            begun=tuple(self.begun.get("", ())),
        )
        has_additions = bool(own_entries or labels or title)
        notes, is_fork = dict.fromkeys(self._notes(has_additions), 1) | self.counts, self._is_native_fork()
        return ExportInput(out, self.is_home, has_additions, self._left_out(), notes, is_fork, self.segment)

    def _is_native_fork(self) -> bool:
        """Return whether the session is a fork that gitsession created.

        A fork that an agent created has an id that the agent assigned.
        """
        entry = entry_of(self.store, self.fork) if self.fork is not None else None
        return isinstance(entry, kinds.Fork) and entry.source_id is None

    def _as_in_context(
        self, entries: tuple[OutgoingEntry, ...], labels: tuple[Label, ...], leaf: str | None
    ) -> tuple[tuple[OutgoingEntry, ...], tuple[Label, ...], str | None]:
        """Return the entries, the labels and the leaf for a target agent that builds contexts by other rules.

        The entries are converted to the form that they have in the context (``visible_history``). If both agents use
        the same rules, the arguments are returned unchanged.
        """
        source, target = profiles.of_agent(self.agent), profiles.of_agent(self.format.AGENT)
        oid = next((oid for oid, key in self.keys.items() if key == leaf), None)
        if self.is_home or source == target or leaf is None or oid is None:
            return entries, labels, leaf
        rules = profiles.profile(source)
        items = rules.select(ContextHistory(self.store, oid, attachments=self.attached)).items
        context_entries = [(self.keys.get(item.oid, ""), item.entry) for item in items]
        history = visible_history(entries, leaf, context_entries, rules, profiles.profile(target))
        self.counts += history.notes
        moved = [dataclasses.replace(label, target=history.names.get(label.target, label.target)) for label in labels]
        return history.entries, tuple(moved), history.leaf

    def _portable(self, each: OutgoingEntry) -> OutgoingEntry:
        """Return ``each`` with text in place of blocks that messages of the target agent cannot contain.

        If the session is from opencode, blocks of an unknown type are omitted, because no model receives them.
        """
        entry = each.entry
        if each.line is not None or not isinstance(entry, kinds.Message | kinds.CustomMessage):
            return each
        if self.agent == "opencode":
            content = tuple(block for block in entry.content if not isinstance(block, OtherBlock))
            entry = dataclasses.replace(entry, content=content)
        return dataclasses.replace(each, entry=portable(entry, self.format.AGENT, self.counts))

    def _timed(self, entries: Sequence[OutgoingEntry]) -> tuple[OutgoingEntry, ...]:
        """Return the entries, each with a time, because agents sort sessions by time.

        An entry without a time gets the time of its parent.
        """
        times: dict[str | None, int] = {None: self._session().at_ms}
        found = []
        for each in entries:
            at_ms = times[each.key] = each.entry.at_ms or times.get(each.parent, 0)
            if each.line is None and each.entry.at_ms != at_ms:
                each = dataclasses.replace(each, entry=dataclasses.replace(each.entry, at_ms=at_ms))
            found.append(each)
        return tuple(found)

    def _left_out(self) -> int:
        if self.at is not None:
            return 0
        omitted = (node for node in self.tree.nodes.values() if node.oid not in self.keys)
        return sum(node.source is None and node.oid != self.root.oid for node in omitted)

    def _notes(self, has_additions: bool) -> Iterator[str]:
        if any(node.is_tombstone for node in self.tree.nodes.values()):
            yield "left out: purged entries"
        if self.attached.missing:
            yield f"replaced with text: images missing from this store ({len(self.attached.missing)})"
        if not self.is_home or self.at is not None:
            return
        branches = self.tree.branches
        if self.leaf.oid not in self.keys and self.leaf.oid != self.root.oid:
            yield "the agent continues from the last line of its file: the active branch is no longer in the file"
        elif not has_additions and self.leaf.oid != branches[derived(self.store, self.sid, branches)]:
            yield "the agent continues from the last line of its file, which is not on the active branch"

    def _key_of_leaf(self, entries: Sequence[OutgoingEntry]) -> str | None:
        """Return the key of the leaf, or of the nearest exported entry above it.

        If the leaf is no longer in the agent's file, return the key of the last entry in ``entries``.
        """
        known = {entry.key for entry in entries}
        for node in graph.history(self.store, self.leaf.oid):
            if self.keys.get(node.oid) in known:
                return self.keys[node.oid]
            if node.source is not None and node.oid not in self.keys and not self._is_left_out(node):
                break
        return next((entry.key for entry in reversed(entries) if not entry.is_name), None)

    # ---- entries

    def _lines_of_the_file(self) -> list[OutgoingEntry]:
        """Return the lines of the agent's file in order: those that the agent wrote, and those of earlier exports."""
        numbered = {node.source.line: (node, node) for node in self.current if node.source}
        by_chain = {self.keys[node.oid]: node for node in self.current}
        names = {}
        for number, (exported, chain) in self.meta.exported_lines().items():
            if chain in by_chain:
                numbered[number] = by_chain[chain], exported
            elif chain.startswith(BELOW) and self.at is None:
                names[number] = self._name(exported, chain.removeprefix(BELOW))
        found = {number: self._outgoing(*nodes) for number, nodes in numbered.items()} | names
        return [found[number] for number in sorted(found)]

    def _name(self, node: Node, parent: str) -> OutgoingEntry:
        """Return a line of an earlier export that sets a name or the leaf, unchanged.

        ``parent``: the key of the entry above the line.
        """
        line, id = payload_of(self.store, node), node.source.id if node.source else None
        entry = self._with_keys(entry_of(self.store, node), node)
        return OutgoingEntry(key=f"line {id}", parent=parent, entry=entry, line=line, id=id, is_name=True)

    def _outgoing(self, node: Node, line_node: Node | None = None) -> OutgoingEntry:
        """Return the entry of ``node`` for export.

        ``line_node``: the commit that contains the entry's line in the agent's file.
        """
        entry = entry_of(self.store, node)
        if isinstance(entry, Opaque) and not entry.payload and entry.problem:
            raise Corrupt(
                f"cannot read entry {node.oid}: {entry.problem}", hint="run `gitsession verify` to list the damage"
            )
        line_node = line_node or node
        is_agents_own = line_node.source is not None and line_node.source.agent == self.format.AGENT
        if node.source is not None and not is_agents_own:
            entry = without_goal(self.attached.view(node, entry))  # the target agent cannot read the files
        return OutgoingEntry(
            key=self.keys[node.oid],
            parent=self._parent_key(node),
            entry=self._with_keys(entry, node),
            short=short_id(node.chain),
            line=payload_of(self.store, line_node) if is_agents_own else None,
            id=line_node.source.id if line_node.source is not None else None,
            begun=tuple(self.begun.get(node.oid, ())),
        )

    def _parent_key(self, node: Node) -> str | None:
        """Return the key of the nearest exported entry above ``node``."""
        at = self.tree.nodes.get(node.parent or "")
        while at is not None and self._is_left_out(at):
            at = self.tree.nodes.get(at.parent or "")
        return self.keys.get(at.oid) if at is not None else None

    def _with_keys(self, entry: Entry, node: Node) -> Entry:
        """Return ``entry`` with its references to other entries converted to keys."""
        match entry:
            case kinds.Compaction():
                number = entry.extra.get("firstKeptEntryIndex")
                if entry.first_kept is None and type(number) is int:
                    name, extra = self._by_number(number), dict(entry.extra)
                    extra.pop("firstKeptEntryIndex")
                    return dataclasses.replace(entry, first_kept=name, extra=extra)
                return dataclasses.replace(entry, first_kept=self._key(entry.first_kept, node))
            case kinds.BranchSummary():
                return dataclasses.replace(entry, left=self._key(entry.left, node))
            case kinds.ContextEdit() | kinds.Label():
                return dataclasses.replace(entry, target=self._key(entry.target, node) or "")
            case kinds.Prune():
                targets = tuple(self._key(target, node) or target for target in entry.targets)
                return dataclasses.replace(entry, targets=targets)
        return entry

    def _key(self, name: str | None, node: Node) -> str | None:
        """Return the key of the entry to which ``name`` refers in the entry ``node``.

        Agents have no entry for the root. So a reference to the root is converted to a reference to the first entry
        after the root.
        """
        oid = self.target_of.get(name) if name is not None else None
        if oid == self.root.oid:
            at = node
            while at.parent is not None and at.parent != self.root.oid:
                at = self.tree.nodes[at.parent]
            oid = at.oid
        return name if oid is None else self.keys.get(oid, name)

    def _by_number(self, number: int) -> str | None:
        """Return the key of the entry at the index ``number`` of the lines of the agent's file that can be parsed.

        The header has the index 0.
        """
        parsed = [(node.source.line, node.oid) for node in self.current if node.source and node.kind != Opaque.kind]
        return self.keys[sorted(parsed)[number - 1][1]] if 0 < number <= len(parsed) else None

    # ---- names and headers

    def _names(self, entries: Sequence[OutgoingEntry]) -> tuple[tuple[Label, ...], kinds.Title | None]:
        """Return the labels and the title of the session, except those that an agent already reads in ``entries``."""
        marks = session_facts.marks(self.store, self.sid, self.tree, self.meta)
        agent_marks = [mark for mark in marks if mark.line is not None] if self.is_home else []
        own_marks = [mark for mark in marks if mark.line is None or not self.is_home]
        labels, title = self._labels(entries, own_marks, marks), rules.title(marks)
        # A title in an exported line counts as a title that the agent set: the agent uses the last title in its file.
        titles = [(at, each.entry) for at, each in enumerate(entries) if isinstance(each.entry, kinds.Title)]
        agent_marks += [
            SessionMark("title", each.at_ms, at + 2, b"", "", (each.title or "").strip()) for at, each in titles
        ]
        times = [mark.at_ms for mark in own_marks if mark.what != "label" and (mark.value or None) == title]
        is_new = any(mark.what != "label" for mark in own_marks) and title != rules.title(agent_marks)
        return labels, kinds.Title(title=title, at_ms=max(times, default=0)) if is_new else None

    def _labels(
        self, entries: Iterable[OutgoingEntry], own_marks: list[SessionMark], marks: list[SessionMark]
    ) -> tuple[Label, ...]:
        written: dict[str, str] = {}
        for each in entries:
            if isinstance(each.entry, Label):
                written[each.entry.target] = (each.entry.label or "").strip()
        texts = {self.keys[oid]: text for oid, text in rules.labels(marks, self.target_of).items() if oid in self.keys}
        labels = []
        for mark in sorted((mark for mark in own_marks if mark.what == "label"), key=lambda mark: mark.order):
            key = self.keys.get(self.target_of.get(mark.target, ""))
            if key is not None and written.get(key, "") != texts.get(key, "") == mark.value:
                labels.append(Label(target=key, label=mark.value or None, at_ms=mark.at_ms))
                written[key] = mark.value
        return tuple(labels)

    def _head(self) -> tuple[bytes, ...]:
        """Return the newest header lines of the agent's file, or those at the time of the entry ``at``."""
        if self.segment is not None:
            return (payload_of(self.store, self.root),)
        before = None if self.at is None else [node for node in self.current if node.source is not None]
        lines = {number: node for number, node in self.meta.headers(before).items() if number != TAIL}
        return tuple(payload_of(self.store, lines[number]) for number in sorted(lines))

    def _tail(self) -> bytes:
        node = self.meta.headers().get(TAIL)
        return b"" if node is None else payload_of(self.store, node)

    def _session(self) -> kinds.SessionHeader:
        """Return the values for the header of the exported file.

        The id is the id of the session in this store. An import recognizes the session by this id.
        """
        header = self.meta.header
        cwd, at_ms = header.cwd if header is not None else None, self.began.at_ms
        if self.fork is not None:
            forked = entry_of(self.store, self.fork)
            assert isinstance(forked, kinds.Fork)
            cwd, at_ms = forked.cwd or cwd, forked.at_ms
        return kinds.SessionHeader(agent=self.format.AGENT, source_id=self.sid, cwd=cwd, at_ms=at_ms)
