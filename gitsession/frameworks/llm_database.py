"""Import of the log database of llm (https://llm.datasette.io) as sessions. See docs/reference/llm.md.

A conversation is one session, whose key is llm's id of the conversation. The rows of llm are stored beside the messages
(``exporting.llm_rows``), so that an export has the same rows. Only messages and rows that the session lacks are added.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from gitsession.api.session import Session
from gitsession.api.store import Store
from gitsession.discovery.databases import OpenDatabase, opened
from gitsession.errors import Malformed, NotFound
from gitsession.exporting import llm_rows
from gitsession.exporting.llm_rows import AGENT, DAMAGE, KEYS, ROWS, DatabaseRow, Rows
from gitsession.formats.base.record import SourceProblem
from gitsession.frameworks.stored_items import storable
from gitsession.importing.import_session import ImportResult
from gitsession.model.entries import Custom, Entry, Message
from gitsession.redaction.original import OPENS
from gitsession.sessions.node import Node
from gitsession.sessions.operation_log import Move
from gitsession.store import refs

_OWN_ROWS = {
    "turns": "thread_id",
    "responses": "conversation_id",
    "threads": "id",
    "conversations": "id",
}
_OF_TURN = {"turn_tools": "turn_id", "turn_fragments": "turn_id", "tool_instantiations": "turn_id"}
_OF_RESPONSE = {
    "prompt_attachments": "response_id",
    "prompt_fragments": "response_id",
    "system_fragments": "response_id",
    "tool_responses": "response_id",
    "tool_calls": "response_id",
    "tool_results": "response_id",
}
_SHARED = {
    "attachment_id": "attachments",
    "fragment_id": "fragments",
    "schema_id": "schemas",
    "tool_id": "tools",
    "instance_id": "tool_instances",
}
"""The tables of rows that several conversations share, by the columns that refer to them."""


def import_llm(store: Store, path: Path) -> list[ImportResult]:
    """Import the conversations of a log database. Its file is only read.

    Args:
        store: The store.
        path: The path of the database, such as ``~/.config/io.datasette.llm/logs.db``.

    Returns:
        The result of each conversation, the oldest first.

    Raises:
        Malformed: The file is not a log database of llm, or it is damaged.
        NotFound: There is no such file.
        Unavailable: The database is locked or cannot be opened.
    """
    if not path.is_file():
        raise NotFound(f"cannot import '{path}': no such file", hint="pass the path of llm's logs.db")
    with opened(path, tuple(KEYS)) as db:
        tables = db.columns
        if "hash" not in tables.get("messages", ()) and "conversation_id" not in tables.get("responses", ()):
            raise Malformed("not a log database of llm", where=str(path), hint="pass the path of llm's logs.db")
        return [_Conversation(store, db, id).run() for id in _ids(db)]


def _ids(db: OpenDatabase) -> list[str]:
    found: dict[str, None] = {}
    for table, column in (("threads", "id"), ("conversations", "id"), ("turns", "thread_id")):
        if column in db.columns.get(table, ()):
            found |= {id: None for (id,) in db.query(f'SELECT "{column}" FROM "{table}"') if isinstance(id, str) and id}
    return sorted(found)


class _Item(NamedTuple):
    """A message of a conversation, or a group of messages that one row represents.

    ``key``: the hash, or the id of an old response. ``parent``: the key of the item before it.
    """

    key: str
    parent: str | None
    messages: Sequence[Message]
    rows: Rows
    verified: bool = False


class _Conversation:
    """A conversation that is imported."""

    def __init__(self, store: Store, db: OpenDatabase, id: str) -> None:
        self._store, self._db, self._id = store, db, id
        self._tip: Any = None
        self._problems: list[SourceProblem] = []
        self._of: dict[str, Rows] = {}
        """The rows of each turn and response, by the key of the item that has them."""
        self._shared: Rows = {}
        self._attachments: dict[str, DatabaseRow] = {}
        self._fragments: dict[int, str] = {}

    def run(self) -> ImportResult:
        """Add what the session lacks, and return the result."""
        own = {table: self._select(table, column, [self._id]) for table, column in _OWN_ROWS.items()}
        for row in own["threads"]:
            self._tip = row.pop("tip_message_hash", None)
        try:
            items = self._items(own)
        except DAMAGE as error:
            raise Malformed(
                f"damaged rows: {type(error).__name__}: {error}", where=f"conversation {self._id}"
            ) from error
        session = self._session(own["threads"], items)
        before = session.branches()
        state = _Stored(session)
        rest = self._rest(own)
        new = [item for item in items if item.key not in state.nodes]
        if new or any(state.lacks(table, row) for table, rows in rest.items() for row in rows):
            self._append(session, state, new, rest)
        after = session.branches()
        changed = {name: oid for name, oid in after.items() if before.get(name) != oid}
        moves = tuple([Move(refs.leaf(session.id, name), before.get(name), oid) for name, oid in changed.items()])
        return ImportResult(
            session=session.id,
            entries=len(items),
            new=len(new),
            rewritten=None,
            branch=session.branch_name,
            moves=moves,
            problems=tuple(self._problems),
        )

    # ---- reading

    def _select(self, table: str, column: str, values: Iterable[Any]) -> list[DatabaseRow]:
        columns = list(self._db.columns.get(table, ()))
        if column not in columns:
            return []
        listed = ", ".join('"{}"'.format(name.replace('"', '""')) for name in columns)
        sql = f'SELECT {listed} FROM "{table}" WHERE "{column}" = ?'
        rows = [row for value in dict.fromkeys(values) for row in self._db.query(sql, (value,))]
        found = [dict(zip(columns, row, strict=True)) for row in rows]
        return sorted(found, key=lambda row: [(str(type(row.get(name))), row.get(name)) for name in KEYS[table]])

    def _items(self, own: Mapping[str, list[DatabaseRow]]) -> list[_Item]:
        """Return the items of the conversation, parents before children."""
        tips = [turn["tip_message_hash"] for turn in own["turns"]] + [self._tip]
        chains = self._chains([tip for tip in tips if isinstance(tip, str)])
        turns = {turn["tip_message_hash"]: turn for turn in own["turns"]}
        for turn in own["turns"]:
            rows = {table: self._select(table, column, [turn["id"]]) for table, column in _OF_TURN.items()}
            group = self._of.setdefault(str(turn["tip_message_hash"]), {})
            _merge(group, {"turns": [turn], **rows})
        if chains:
            times = _times(chains, turns)
            found = [self._message(row, parts, turns, times) for row, parts in chains]
            for row in own["responses"]:  # of the time when llm wrote both
                _merge(self._of.setdefault(str(turns and next(reversed(turns))), {}), self._response_rows(row))
            return found
        return self._old_items(own["responses"])

    def _chains(self, tips: Sequence[str]) -> list[tuple[DatabaseRow, Rows]]:
        """Return the rows of all messages before the tips, parents before children, each with the rows of its parts."""
        found: dict[str, tuple[DatabaseRow, Rows]] = {}
        for tip in tips:
            chain: dict[str, DatabaseRow] = {}
            hash: Any = tip
            while isinstance(hash, str) and hash not in found:
                if hash in chain:
                    raise ValueError(f"message {hash} is its own ancestor")
                rows = self._select("messages", "hash", [hash])
                if not rows:
                    self._problem(f"message {hash} is missing")
                    break
                chain[hash] = rows[0]
                hash = rows[0]["parent_hash"]
            for hash, row in reversed(chain.items()):
                found[hash] = row, self._part_rows(hash)
        return list(found.values())

    def _part_rows(self, hash: str) -> Rows:
        parts = self._select("parts", "message_hash", [hash])
        ids = [row["id"] for row in parts]
        rows = {"parts": parts}
        for table in ("part_attachments", "part_fragments"):
            rows[table] = self._select(table, "part_id", ids)
        self._load_shared(rows)
        return rows

    def _load_shared(self, rows: Rows) -> None:
        """Read the rows to which others refer, once."""
        for column, table in _SHARED.items():
            used = {row[column] for found in rows.values() for row in found if row.get(column) is not None}
            known = {row["id"] for row in self._shared.get(table, ())}
            read = self._select(table, "id", sorted(used - known, key=str))
            self._shared.setdefault(table, []).extend(read)
            if table == "attachments":
                self._attachments |= {row["id"]: row for row in read}
            elif table == "fragments":
                self._fragments |= {row["id"]: row["content"] for row in read if isinstance(row["content"], str)}
                aliases = self._select("fragment_aliases", "fragment_id", [row["id"] for row in read])
                self._shared.setdefault("fragment_aliases", []).extend(aliases)

    def _message(
        self, row: DatabaseRow, rows: Rows, turns: Mapping[str, DatabaseRow], times: Mapping[str, int]
    ) -> _Item:
        hash, parent, role = row["hash"], row["parent_hash"], str(row["role"])
        ordered = sorted(rows["parts"], key=lambda part: int(part["position"]))
        parts = [llm_rows.part_of(part, self._fragments) for part in ordered]
        try:
            metadata = json.loads(row["provider_metadata"]) if row.get("provider_metadata") else None
            exact = [llm_rows.canonical(part, self._attachments) for part in parts]
            verified = llm_rows.hash_of(role, exact, metadata, parent) == hash
        except DAMAGE:
            verified = False
        turn = turns.get(hash, {})
        counts = {"input_tokens": turn.get("input_tokens"), "output_tokens": turn.get("output_tokens")}
        usage = {name: value for name, value in counts.items() if type(value) is int} or None
        model = _text(turn.get("resolved_model")) or _text(turn.get("model"))
        fields = {"model": model, "usage": usage} if turn else {}
        messages = llm_rows.messages_of(role, parts, self._attachments, **fields)
        timed = [_at(message, times.get(hash, 0)) for message in messages]
        return _Item(hash, parent, timed, {"messages": [row], **rows}, verified)

    # ---- old rows, of llm before 0.32

    def _old_items(self, responses: Sequence[DatabaseRow]) -> list[_Item]:
        found: list[_Item] = []
        system = None
        for row in sorted(responses, key=lambda row: str(row["id"])):
            rows = self._response_rows(row)
            messages = self._old_messages(row, rows)
            if messages[0].role == "system":
                if messages[0].text == system:
                    messages = messages[1:]
                else:
                    system = messages[0].text
            at_ms = _milliseconds(row.get("datetime_utc"))
            found.append(
                _Item(
                    f"response {row['id']}",
                    found[-1].key if found else None,
                    [_at(message, at_ms) for message in messages],
                    {"responses": [row], **rows},
                )
            )
        return found

    def _response_rows(self, row: DatabaseRow) -> Rows:
        rows = {table: self._select(table, column, [row["id"]]) for table, column in _OF_RESPONSE.items()}
        ids = [each["id"] for each in rows["tool_results"]]
        rows["tool_results_attachments"] = self._select("tool_results_attachments", "tool_result_id", ids)
        self._load_shared({"responses": [row], **rows})
        return rows

    def _old_messages(self, row: DatabaseRow, rows: Rows) -> list[Message]:
        """Return the messages of a response: what the model received, and its answer."""

        def text_of(table: str, column: str) -> str:
            ordered = sorted(rows[table], key=lambda each: int(each["order"] or 0))
            texts = [*(self._fragments.get(each["fragment_id"], "") for each in ordered), row.get(column)]
            return "\n".join([text for text in texts if text])

        found: list[Message] = []
        if system := text_of("system_fragments", "system"):
            found.append(Message(role="system", content=Message.user(system).content))
        for result in rows["tool_results"]:
            ids = [
                each["attachment_id"]
                for each in rows["tool_results_attachments"]
                if each["tool_result_id"] == result["id"]
            ]
            part = {**result, "type": "tool_result", "attachments": [{"id": id} for id in ids]}
            found += llm_rows.messages_of("tool", [part], self._attachments)
        parts: list[dict[str, Any]] = []
        if prompt := text_of("prompt_fragments", "prompt"):
            parts.append({"type": "text", "text": prompt})
        ordered = sorted(rows["prompt_attachments"], key=lambda each: int(each["order"] or 0))
        parts += [{"type": "attachment", "attachment": {"id": each["attachment_id"]}} for each in ordered]
        if parts:
            found += llm_rows.messages_of("user", parts, self._attachments)
        return [*found, self._old_answer(row, rows)]

    def _old_answer(self, row: DatabaseRow, rows: Rows) -> Message:
        parts = [{"type": "reasoning", "text": row["reasoning"]}] if row.get("reasoning") else []
        parts += [{"type": "text", "text": row["response"]}] if row.get("response") else []
        for call in rows["tool_calls"]:
            arguments = json.loads(call["arguments"] or "{}")
            parts.append({**call, "type": "tool_call", "arguments": arguments})
        counts = {"input_tokens": row.get("input_tokens"), "output_tokens": row.get("output_tokens")}
        usage = {name: value for name, value in counts.items() if type(value) is int} or None
        model = _text(row.get("resolved_model")) or _text(row.get("model"))
        [answer] = llm_rows.messages_of("assistant", parts, self._attachments, model=model, usage=usage)
        return answer

    # ---- writing

    def _session(self, threads: Sequence[DatabaseRow], items: Sequence[_Item]) -> Session:
        """Return the session of the conversation. A fork of an imported one shares its entries."""
        found = self._store.find_keyed(self._id, agent=AGENT)
        origin = threads[0].get("forked_from") if threads else None
        parent = self._store.find_keyed(origin, agent=AGENT) if isinstance(origin, str) and found is None else None
        if parent is not None:
            nodes = _Stored(parent).nodes
            shared = [item.key for item in items if item.key in nodes]
            if shared:
                return parent.fork(nodes[shared[-1]], key=self._id)
        return found or self._store.keyed_session(self._id, agent=AGENT)

    def _rest(self, own: Mapping[str, list[DatabaseRow]]) -> Rows:
        """Return the rows that belong to no message, and those of turns and responses that may have changed."""
        rows: Rows = {"threads": own["threads"], "conversations": own["conversations"]}
        for group in self._of.values():
            _merge(rows, group)
        for found in self._of.values():
            self._load_shared(found)
        _merge(rows, self._shared)
        return rows

    def _append(self, session: Session, state: _Stored, new: Sequence[_Item], rest: Rows) -> None:
        """Append new items to the branches at which they continue, and rows without an item at the end."""
        left = {table: [row for row in rows if state.lacks(table, row)] for table, rows in rest.items()}
        for item in new:
            rows = dict(item.rows)
            _merge(rows, _moved(left, self._of.get(item.key, {})))
            _merge(rows, _moved(left, _used(left, rows)))
            if item is new[0]:
                late = (*_OF_TURN, *_OF_RESPONSE, *_SHARED.values(), "turns", "responses")
                _merge(rows, _moved(left, {table: found for table, found in left.items() if table not in late}))
            messages = [storable(message) for message in item.messages]
            facts: dict[str, Any] = {"item": item.key, **({"verified": True} if item.verified else {})}
            state.append(session, llm_rows.marked(messages, rows, **facts), item)
        if any(left.values()):
            mark = {"entries": 1, "rows": llm_rows.packed_rows(left)}
            session.append_all([Custom(custom_type=ROWS, extra={AGENT: json.dumps(mark)})], to_active=True)

    def _problem(self, what: str) -> None:
        self._problems.append(SourceProblem(0, f"conversation {self._id}: {what}"))


class _Stored:
    """The items and rows of a conversation that a session has.

    ``nodes``: the last entry of each item, by the key of the item. ``tips``: the branch that ends at an item, and
    its tip.
    """

    def __init__(self, session: Session) -> None:
        self.nodes: dict[str, Node] = {}
        self._rows: dict[tuple[str, str], str] = {}
        self._root = session.resolve("root")
        known = _revealed(session)
        ends: dict[str | None, str | None] = {None: None}
        for node, entry in known.values():
            ends[node.oid] = ends[node.parent]
            mark = _mark(entry)
            if mark is None:
                continue
            if isinstance(mark.get("item"), str):  # a hash in a field "key" would be redacted as a secret
                self.nodes[mark["item"]] = node
                ends[node.oid] = mark["item"]
            for table, rows in llm_rows.rows_of_mark(mark, _group(known, node, int(mark["entries"]))).items():
                for row in rows:
                    self._rows[table, _key(table, row)] = repr(row)
        self.tips: dict[str | None, tuple[str, Node]] = {}
        for name, oid in session.branches().items():
            self.tips.setdefault(ends[oid], (name, known[oid][0]))

    def lacks(self, table: str, row: DatabaseRow) -> bool:
        """Return whether the session does not have a row as it is."""
        stored = self._rows.get((table, _key(table, row)), "")
        return stored != repr(row) and OPENS not in stored  # the original of a placeholder is on another machine

    def append(self, session: Session, entries: list[Entry], item: _Item) -> None:
        """Append the entries of an item after those of its parent: to the branch that ends there, or to a new one."""
        parent = item.parent if item.parent in self.nodes else None
        known = self.tips.pop(parent, None)
        if known is None:
            taken = session.branches()
            name = next(free for number in count(2) if (free := f"chat-{number}") not in taken)
            known = name, self.nodes[parent] if parent is not None else self._root
        name, after = known
        nodes = session._session.append_after(entries, after=after, branch=name)
        self.nodes[item.key] = nodes[-1]
        self.tips[item.key] = name, nodes[-1]


def _revealed(session: Session) -> dict[str, tuple[Node, Entry]]:
    """Return all entries of a session by their oids, parents before children."""
    found: dict[str, tuple[Node, Entry]] = {}
    for name in session.branches():
        chain = []
        for node, entry in session.on(name).entries():
            if node.oid in found:
                break
            chain.append((node, entry))
        found |= {node.oid: (node, entry) for node, entry in reversed(chain)}
    return found


def _group(known: Mapping[str, tuple[Node, Entry]], node: Node, size: int) -> list[Entry]:
    """Return the last ``size`` entries up to a node."""
    found = [known[node.oid]]
    while len(found) < size and found[0][0].parent in known:
        found.insert(0, known[str(found[0][0].parent)])
    return [entry for _, entry in found]


def _mark(entry: Entry) -> dict[str, Any] | None:
    try:
        return llm_rows.mark_of(entry)
    except ValueError:
        return None


def _key(table: str, row: DatabaseRow) -> str:
    return repr([row.get(column) for column in KEYS[table]])


def _merge(into: Rows, rows: Mapping[str, list[DatabaseRow]]) -> None:
    for table, found in rows.items():
        into[table] = [*into.get(table, []), *found]


def _used(left: Rows, rows: Rows) -> Rows:
    """Return the rows of shared tables to which rows refer."""
    found: Rows = {}
    for column, table in _SHARED.items():
        ids = {row[column] for each in rows.values() for row in each if row.get(column) is not None}
        found[table] = [row for row in left.get(table, ()) if row["id"] in ids]
    return found


def _moved(left: Rows, rows: Mapping[str, list[DatabaseRow]]) -> Rows:
    """Remove from ``left`` those of its rows that are in ``rows``, and return them."""
    found = {table: [row for row in left.get(table, ()) if row in each] for table, each in rows.items()}
    for table, each in found.items():
        left[table] = [row for row in left.get(table, ()) if row not in each]
    return found


def _at(message: Message, at_ms: int) -> Message:
    return dataclasses.replace(message, at_ms=at_ms)


def _times(chains: Iterable[tuple[DatabaseRow, Rows]], turns: Mapping[str, DatabaseRow]) -> dict[str, int]:
    """Return the time of each message: that of the first turn that contains it, Unix time in ms."""
    parents = {row["hash"]: row["parent_hash"] for row, _ in chains}
    found: dict[str, int] = {}
    for turn in sorted(turns.values(), key=lambda turn: str(turn["id"])):
        hash, at_ms = turn["tip_message_hash"], _milliseconds(turn.get("datetime_utc"))
        while hash in parents and hash not in found:
            found[hash] = at_ms
            hash = parents[hash]
    return found


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _milliseconds(text: Any) -> int:
    try:
        at = datetime.fromisoformat(text)
        return max(int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000), 0)
    except (TypeError, ValueError, OverflowError):
        return 0
