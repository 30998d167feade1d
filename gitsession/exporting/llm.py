"""Writer of a session as a log database of llm (https://llm.datasette.io). See docs/reference/llm.md.

Rows that were imported are written as they were. Of all other messages, rows are made as llm would make them. If a text
of an imported message has changed, because a secret is redacted, the hashes of it and of later messages change with it.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gitsession.codec.digest import hash_of as digest_of
from gitsession.exporting import llm_rows
from gitsession.exporting.llm_rows import AGENT, DAMAGE, KEYS, ROWS, DatabaseRow, Rows
from gitsession.formats.base.outgoing import Outgoing, OutgoingEntry, OutgoingLine, WrittenFile, describe_kind
from gitsession.model.entries import Custom, CustomMessage, Instructions, Label, Message, Title
from gitsession.model.usage import token_counts

__all__ = ["AGENT", "write"]

_SCHEMA = Path(__file__).with_name("llm_schema.sql")
_UNKNOWN_MODEL = "unknown"
_ULID = "0123456789abcdefghjkmnpqrstvwxyz"


class WrittenDatabase(WrittenFile):
    """A written file that is not made of lines."""

    __slots__ = ()

    @property
    def data(self) -> bytes:
        return b"".join(line.data for line in self.lines)


def write(out: Outgoing) -> WrittenFile:
    """Write all branches. The notes of the result count the entries that the database does not contain."""
    writer = _Writer(out)
    data = writer.database()
    return WrittenDatabase((OutgoingLine(data),), +writer.notes)


class _Writer:
    def __init__(self, out: Outgoing) -> None:
        self._out = out
        self._by_key = {each.key: each for each in out.entries}
        self._rows: dict[str, dict[tuple[Any, ...], DatabaseRow]] = {table: {} for table in KEYS}
        self._hashes: dict[str | None, str | None] = {None: None}
        """The hash of the newest message at each entry, by the key of the entry."""
        self._renamed: dict[str, str] = {}
        """The new hashes of messages whose text has changed."""
        self._waiting: dict[str, tuple[str | None, Rows]] = {}
        """Messages of old rows, which llm stores again only if the conversation continues: their parents and rows."""
        self._tips: dict[str, str] = {}
        """The keys of entries that llm did not write, by the hash of their message."""
        self._answers: list[tuple[OutgoingEntry, Message, str | None, str]] = []
        self._part = 0
        self._marked: dict[str, tuple[list[OutgoingEntry], Rows, bool]] = {}
        """The messages, the rows, and whether the hash is llm's, of each entry with rows, by the key of the entry."""
        self._threads: list[str] = []
        self.notes: Counter[str] = Counter()

    def database(self) -> bytes:
        """Return the content of the database."""
        for each in self._out.entries:
            self._read_mark(each)
        members = {each.key for group, _, _ in self._marked.values() for each in group[:-1]}
        for each in self._out.entries:
            self._hashes[each.key] = self._hashes.get(each.parent)
            if each.key in self._marked:
                self._take(*self._marked[each.key])
            elif each.key not in members:
                self._add(each)
        self._rename_turns()
        self._add_threads()
        return self._serialized()

    # ---- rows that were imported

    def _read_mark(self, each: OutgoingEntry) -> None:
        """Read the rows of an entry, and add those that are not of its message."""
        try:
            mark = llm_rows.mark_of(each.entry)
            if mark is None:
                return
            group = [each]
            while len(group) < int(mark["entries"]):
                group.insert(0, self._by_key[group[0].parent or ""])
            rows = llm_rows.rows_of_mark(mark, [member.entry for member in group])
            self._marked[each.key] = group, rows, mark.get("verified") is True
        except DAMAGE:
            self.notes["left out: damaged rows of llm"] += 1
            return
        for table, found in rows.items():
            for row in found if table not in ("messages", "parts") else ():
                self._put(table, row)

    def _take(self, group: list[OutgoingEntry], rows: Rows, is_verified: bool) -> None:
        """Add the message of a mark, or make one of each old message."""
        if not rows.get("messages"):
            for each in group:
                if isinstance(each.entry, Message):
                    self._hashes[each.key] = self._chained(each.entry, self._hashes.get(each.parent))
            return
        [message], parts = rows["messages"], rows.get("parts", [])
        hash, parent = message["hash"], message["parent_hash"]
        if is_verified:
            parent = self._renamed.get(parent, parent)
            hash = self._renamed[message["hash"]] = self._hash(message, parts, parent)
        self._put("messages", {**message, "hash": hash, "parent_hash": parent})
        for row in parts:
            self._put("parts", {**row, "message_hash": hash})
        self._hashes[group[-1].key] = hash

    def _hash(self, message: DatabaseRow, parts: list[DatabaseRow], parent: str | None) -> str:
        try:
            fragments = {id: row["content"] for (id,), row in self._rows["fragments"].items()}
            attachments = {id: row for (id,), row in self._rows["attachments"].items()}
            found = [llm_rows.part_of(row, fragments) for row in sorted(parts, key=lambda row: row["position"])]
            exact = [llm_rows.canonical(part, attachments) for part in found]
            metadata = json.loads(message["provider_metadata"]) if message.get("provider_metadata") else None
            return llm_rows.hash_of(message["role"], exact, metadata, parent)
        except DAMAGE:
            return str(message["hash"])

    def _put(self, table: str, row: DatabaseRow) -> None:
        if table == "parts" and isinstance(row.get("id"), int):
            self._part = max(self._part, row["id"])
        if table == "threads":
            self._threads.append(row["id"])
        key = tuple([row.get(column) for column in KEYS[table]])
        self._rows[table][key] = row

    # ---- rows of other messages

    def _add(self, each: OutgoingEntry) -> None:
        """Add the rows of an entry that llm did not write."""
        entry, parent = each.entry, self._hashes.get(each.parent)
        if isinstance(entry, Instructions) and entry.system_prompt and parent is None:
            entry = Message(role="system", content=Message.user(entry.system_prompt).content)
        if isinstance(entry, Message | CustomMessage):
            hash = self._chained(entry, parent)
            self._store(hash)
            self._hashes[each.key] = hash
            self._tips[hash] = each.key
            if isinstance(entry, Message) and entry.role == "assistant":
                self._answers.append((each, entry, parent, hash))
        elif not isinstance(entry, Label | Title) and not (isinstance(entry, Custom) and entry.custom_type == ROWS):
            self.notes[f"left out: {describe_kind(entry)}"] += 1

    def _chained(self, entry: Message | CustomMessage, parent: str | None) -> str:
        """Make the rows of a message, which ``_store`` adds, and return its hash."""
        role, parts, attachments = llm_rows.parts_of(entry)
        exact = [llm_rows.canonical(part, attachments) for part in parts]
        hash = llm_rows.hash_of(role, exact, None, parent)
        rows: Rows = {
            "attachments": list(attachments.values()),
            "messages": [{"hash": hash, "parent_hash": parent, "role": role, "provider_metadata": None}],
            "parts": [_part_row(hash, at, part) for at, part in enumerate(parts)],
        }
        self._waiting.setdefault(hash, (parent, rows))
        return hash

    def _store(self, hash: str | None) -> None:
        """Add the rows of a message, and of the messages before it, if they are not in the database."""
        chain: list[Rows] = []
        while hash in self._waiting:
            hash, rows = self._waiting.pop(hash)
            chain.append(rows)
        for rows in reversed(chain):
            for table, found in rows.items():
                for row in found if table != "parts" else ():
                    self._put(table, row)
            for row in rows["parts"]:
                self._rows["parts"]["new", row["message_hash"], row["position"]] = row

    # ---- turns and threads

    def _rename_turns(self) -> None:
        for row in self._rows["turns"].values():
            for column in ("parent_message_hash", "tip_message_hash"):
                row[column] = self._renamed.get(row[column], row[column])

    def _add_threads(self) -> None:
        """Add the thread of the session, one for each branch that llm did not write, and the turns of new answers."""
        leaf = self._hashes.get(self._out.leaf)
        legacy = next(iter(self._rows["conversations"].values()), None)
        if not self._rows["messages"]:
            return  # llm continues old rows as they are
        self._store(leaf)
        main = self._threads[-1] if self._threads else legacy["id"] if legacy is not None else self._ulid("thread", "")
        name = self._out.name() or (legacy["name"] if legacy is not None else None)
        known = self._rows["threads"].get((main,))
        made = {"id": main, "name": name, "forked_from": None, "datetime_utc": _time(self._out.session.at_ms)}
        for (id,), row in self._rows["threads"].items():
            newest = max((turn["id"] for turn in self._turns_of(id)), default=None)
            row["tip_message_hash"] = self._rows["turns"][newest,]["tip_message_hash"] if newest is not None else None
        self._rows["threads"][main,] = {**(known or made), "tip_message_hash": leaf}
        owner = dict.fromkeys(self._chain(leaf), main)
        for tip in self._leaves():
            if tip in owner or tip not in self._tips:
                continue
            id = self._ulid("thread", self._tips[tip])
            chain = [hash for hash in self._chain(tip) if hash not in owner]
            owner |= dict.fromkeys(chain, id)
            self._rows["threads"][id,] = {**made, "id": id, "forked_from": main, "tip_message_hash": tip}
        stated = [row["model"] for row in (*self._rows["responses"].values(), *self._rows["turns"].values())]
        model = next(reversed(stated), None) or _UNKNOWN_MODEL
        for each, answer, parent, hash in self._answers:
            self._put("turns", self._turn(each, answer, parent, hash, owner.get(hash, main), model))

    def _turns_of(self, thread: str) -> Iterator[DatabaseRow]:
        return (row for row in self._rows["turns"].values() if row.get("thread_id") == thread)

    def _turn(
        self, each: OutgoingEntry, answer: Message, parent: str | None, hash: str, thread: str, model: str
    ) -> DatabaseRow:
        counts = token_counts(answer.usage) if answer.usage else None
        tokens = counts.input_tokens + counts.cache_read_tokens + counts.cache_write_tokens if counts else None
        return {
            "id": self._ulid("turn", each.key, answer.at_ms),
            "thread_id": thread,
            "parent_message_hash": parent,
            "tip_message_hash": hash,
            "model": answer.model or model,
            "input_tokens": tokens,
            "output_tokens": counts.output_tokens if counts else None,
            "datetime_utc": _time(answer.at_ms),
        }

    def _leaves(self) -> list[str]:
        parents = {row.get("parent_hash") for row in self._rows["messages"].values()}
        return [hash for (hash,) in self._rows["messages"] if hash not in parents]

    def _chain(self, hash: str | None) -> Iterator[str]:
        seen: set[str] = set()
        while hash is not None and hash not in seen:
            seen.add(hash)
            yield hash
            hash = self._rows["messages"].get((hash,), {}).get("parent_hash")

    def _ulid(self, kind: str, key: str, at_ms: int = 0) -> str:
        """Return an id as llm makes them, which are sorted by time. It is the same in each export."""
        at_ms = at_ms or self._out.session.at_ms
        digest = digest_of(f"llm {kind}\0".encode(), f"{self._out.session.source_id}\0{key}".encode())
        number = (max(at_ms, 0) & ((1 << 48) - 1)) << 80 | int.from_bytes(digest[:10], "big")
        return "".join(_ULID[number >> shift & 31] for shift in range(125, -1, -5))

    # ---- the file

    def _serialized(self) -> bytes:
        for at, row in enumerate(each for key, each in self._rows["parts"].items() if key[0] == "new"):
            row["id"] = self._part + 1 + at
        db = sqlite3.connect(":memory:", isolation_level=None)
        try:
            db.executescript(_SCHEMA.read_text("utf-8"))
            for table, rows in self._rows.items():
                known = [name for (_, name, *_) in db.execute(f'PRAGMA table_info("{table}")')]
                for row in rows.values():
                    self._insert(db, table, known, row)
            texts = self._texts()
            for turn in self._rows["turns"].values():
                prompt, response = self._search_text(turn, texts)
                if prompt or response:
                    found = (turn["id"], prompt, response)
                    db.execute("INSERT INTO turn_search (turn_id, prompt, response) VALUES (?, ?, ?)", found)
            return db.serialize()
        finally:
            db.close()

    def _insert(self, db: sqlite3.Connection, table: str, known: list[str], row: DatabaseRow) -> None:
        for column in row.keys() - set(known):
            if row[column] is not None:
                self.notes[f"left out: column {column!r} of the table {table!r}"] += 1
        names = [name for name in known if row.get(name) is not None]
        columns, marks = ", ".join(f'"{name}"' for name in names), ", ".join("?" * len(names))
        try:
            db.execute(f'INSERT INTO "{table}" ({columns}) VALUES ({marks})', [row[name] for name in names])
        except sqlite3.Error:
            self.notes[f"left out: rows of the table {table!r} that contradict others"] += 1

    def _search_text(self, turn: DatabaseRow, texts: Mapping[str, str]) -> tuple[str, str]:
        """Return the prompt and the answer by which llm finds a turn: its text without fragments."""
        parent = turn.get("parent_message_hash")
        asked = self._rows["messages"].get((parent,), {})
        prompt = texts.get(str(parent), "") if asked.get("role") == "user" else ""
        answers = []
        for hash in self._chain(turn.get("tip_message_hash")):
            if hash == parent:
                break
            if self._rows["messages"].get((hash,), {}).get("role") == "assistant":
                answers.append(texts.get(hash, ""))
        return prompt, "".join(reversed(answers))

    def _texts(self) -> dict[str, str]:
        """Return the text of each message without fragments, by its hash."""
        found: dict[str, str] = {}
        for row in sorted(self._rows["parts"].values(), key=lambda row: row["position"]):
            if row["type"] == "text":
                pieces = json.loads(row["payload"] or "{}").get("text_ref", []) if row.get("text") is None else []
                text = row.get("text") or "".join([each.get("literal") or "" for each in pieces])
                found[row["message_hash"]] = found.get(row["message_hash"], "") + text
        return found


def _part_row(hash: str, position: int, part: dict[str, Any]) -> DatabaseRow:
    rest = {name: value for name, value in part.items() if name != "type"}
    text = rest.pop("text", None)
    return {
        "message_hash": hash,
        "position": position,
        "type": part["type"],
        "tool_name": part.get("name"),
        "text": text,
        "payload": json.dumps(rest) if rest else None,
    }


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(max(at_ms, 0) / 1000, UTC).isoformat()
