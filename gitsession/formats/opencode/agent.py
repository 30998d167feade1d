"""The format of opencode's sessions: a database since 1.2, folders of JSON files before, and exports.

The database is ``~/.local/share/opencode/opencode.db``. All of these sources result in the same records
(docs/decisions/0015).
"""

from __future__ import annotations

from collections.abc import Mapping

from gitsession.formats.base.format import (
    Database,
    Delegating,
    Document,
    Importing,
    Remembering,
    Scattered,
    Workspace,
)
from gitsession.formats.base.jsonl import parse as parse_record
from gitsession.formats.base.record import Source
from gitsession.formats.opencode import files, rows, split_file
from gitsession.formats.opencode.headline import headline_of
from gitsession.formats.opencode.read_entry import entry_of
from gitsession.formats.opencode.records import AGENT
from gitsession.formats.opencode.write import write
from gitsession.model.entries import SessionHeader


class Opencode(Database, Delegating, Document, Importing, Remembering, Scattered):
    """The database, the folders, and the exports of opencode."""

    AGENT = AGENT
    FILES = ("*.json", "*.db")
    TABLES = rows.TABLES
    RECORDED = "recorded by opencode"

    is_info = staticmethod(split_file.is_info)
    join = staticmethod(split_file.join)
    from_folders = staticmethod(split_file.from_folders)
    holds = staticmethod(rows.holds)
    listed = staticmethod(rows.listed)
    session = staticmethod(rows.session)
    copies = staticmethod(files.copies)
    noted = staticmethod(files.noted)
    headline = staticmethod(headline_of)
    read = staticmethod(entry_of)
    write = staticmethod(write)
    called = staticmethod(files.session_id)

    def claims(self, head: bytes) -> bool:
        """Return whether a file is an export or a session description of an older version."""
        return split_file.is_document(head) or split_file.is_info(head)

    def split(self, data: bytes, *, name: str = "", final: bool = False) -> Source:
        return split_file.split(data, final=final)

    def began(self, payload: bytes, id: str, beside: Mapping[str, bytes]) -> str:
        """Return the id of the call whose state contains the id of the session."""
        record = parse_record(payload) if id.encode("utf-8", "surrogatepass") in payload else None
        parts = record.get("parts") if isinstance(record, dict) else None
        for part in parts if isinstance(parts, list) else ():
            call = part.get("callID") if isinstance(part, dict) and rows.begins(part, id) else None
            if isinstance(call, str):
                return call
        return ""

    def is_delegated(self, source_id: str, header: SessionHeader) -> bool:
        return header.parent is not None  # a fork has no parent

    def place(self, header: SessionHeader, at: Workspace) -> str:
        return files.place(header)

    def moved(self, data: bytes, id: str, cwd: str) -> bytes:
        return files.moved(data, self.called(id), cwd)

    def take_in_command(self, file: str) -> list[str]:
        return ["opencode", "import", file]

    def resume_command(self, source_id: str, file: str = "") -> list[str]:
        """Return the command that continues an imported session. opencode uses the model of the session's last turn."""
        return ["opencode", "--session", self.called(source_id)]


opencode = Opencode()
