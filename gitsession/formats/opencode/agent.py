"""The format of opencode's sessions.

Sessions are in a database since opencode 1.2, in folders of JSON files in older versions, and in exports. The database
is ``~/.local/share/opencode/opencode.db``. All of these sources result in the same records (docs/decisions/0015).
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

    split = staticmethod(split_file.split)
    is_info = staticmethod(split_file.is_info)
    join = staticmethod(split_file.join)
    from_folders = staticmethod(split_file.from_folders)
    owns_tables = staticmethod(rows.owns_tables)
    session_stamps = staticmethod(rows.session_stamps)
    session = staticmethod(rows.session)
    copy_folders = staticmethod(files.copy_folders)
    file_changes = staticmethod(files.file_changes)
    headline = staticmethod(headline_of)
    read = staticmethod(entry_of)
    write = staticmethod(write)
    relocate = staticmethod(files.relocate)
    native_id = staticmethod(files.session_id)

    def claims(self, head: bytes) -> bool:
        """Return whether a file that begins with ``head`` is an export or a session description of an older version."""
        return split_file.is_document(head) or split_file.is_info(head)

    def starting_call(self, payload: bytes, id: str, sidecars: Mapping[str, bytes]) -> str:
        """Return the id of the call in ``payload`` whose state contains the session id ``id``."""
        record = parse_record(payload) if id.encode("utf-8", "surrogatepass") in payload else None
        parts = record.get("parts") if isinstance(record, dict) else None
        for part in parts if isinstance(parts, list) else ():
            call = part.get("callID") if isinstance(part, dict) and rows.begins(part, id) else None
            if isinstance(call, str):
                return call
        return ""

    def is_delegated(self, source_id: str, header: SessionHeader) -> bool:
        return header.parent is not None  # a fork has no parent

    def session_path(self, header: SessionHeader, workspace: Workspace) -> str:
        """Return the path of an export that opencode imports, below the user's data folder.

        The path is in gitsession's own folder, because opencode needs the file only once.
        """
        id = self.native_id(header.source_id or "")
        stem = "".join(char if char.isalnum() or char in "-_" else "-" for char in id)
        return f"gitsession/opencode/{stem}.json"

    def import_command(self, file: str) -> list[str]:
        return ["opencode", "import", file]

    def resume_command(self, source_id: str, file: str = "") -> list[str]:
        """Return the command that continues a session. opencode uses the model of the session's last turn."""
        return ["opencode", "--session", self.native_id(source_id)]


opencode = Opencode()
