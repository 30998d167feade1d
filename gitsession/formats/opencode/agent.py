"""The format of opencode's sessions.

opencode 1.2 and later store sessions in the database ``~/.local/share/opencode/opencode.db``. Older versions store them
in folders of JSON files. ``opencode export`` prints a session as a JSON document. A session results in the same records
whether it is read from the database, from the folders, or from an export (docs/decisions/0015).
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
    WithSideFiles,
    Workspace,
)
from gitsession.formats.base.jsonl import parse as parse_record
from gitsession.formats.opencode import files, rows, side_files, split_file
from gitsession.formats.opencode.headline import headline_of
from gitsession.formats.opencode.read_entry import entry_of
from gitsession.formats.opencode.records import AGENT
from gitsession.formats.opencode.write import write
from gitsession.model.entries import SessionHeader


class Opencode(Database, Delegating, Document, Importing, Remembering, Scattered, WithSideFiles):
    """The format of opencode's database, folders, and exports."""

    AGENT = AGENT
    FILES = ("*.json", "*.db")
    TABLES = rows.TABLES
    COLUMNS = side_files.COLUMNS
    STATES = side_files.STATES
    RECORDED = "recorded by opencode"

    split = staticmethod(split_file.split)
    is_info = staticmethod(split_file.is_info)
    join = staticmethod(split_file.join)
    from_folders = staticmethod(split_file.from_folders)
    owns_tables = staticmethod(rows.owns_tables)
    session_stamps = staticmethod(rows.session_stamps)
    session = staticmethod(rows.session)
    documents = staticmethod(side_files.documents)
    stated = staticmethod(side_files.stated)
    side_files = staticmethod(side_files.of_session)
    copy_folders = staticmethod(files.copy_folders)
    file_changes = staticmethod(files.file_changes)
    headline = staticmethod(headline_of)
    read = staticmethod(entry_of)
    write = staticmethod(write)
    relocate = staticmethod(files.relocate)
    native_id = staticmethod(files.session_id)

    def mentions_changes(self, data: bytes) -> bool:
        """Return true, because a change is recorded by a difference between two records."""
        return True

    def claims(self, head: bytes) -> bool:
        """Return whether a file that begins with ``head`` is an export or a session description of an older version."""
        return split_file.is_document(head) or split_file.is_info(head)

    def starting_call(self, payload: bytes, id: str, sidecars: Mapping[str, bytes]) -> str:
        """Return the id of the call in ``payload`` whose state contains the session id ``id``; "" if there is none."""
        record = parse_record(payload) if id.encode("utf-8", "surrogatepass") in payload else None
        parts = record.get("parts") if isinstance(record, dict) else None
        for part in parts if isinstance(parts, list) else ():
            call = part.get("callID") if isinstance(part, dict) and rows.begins(part, id) else None
            if isinstance(call, str):
                return call
        return ""

    def is_delegated(self, source_id: str, header: SessionHeader) -> bool:
        return header.parent is not None  # a session that the user forked has no parent

    def session_path(self, header: SessionHeader, workspace: Workspace) -> str:
        """Return the path of the file that opencode imports, below the user's data folder.

        The file is in gitsession's own folder, because opencode reads it only once.
        """
        id = self.native_id(header.source_id or "")
        stem = "".join(char if char.isalnum() or char in "-_" else "-" for char in id)
        return f"gitsession/opencode/{stem}.json"

    def side_path(self, name: str, id: str, workspace: Workspace, file: str = "") -> str | None:
        return side_files.path_of(name, id)

    def import_command(self, file: str) -> list[str]:
        return ["opencode", "import", file]

    def resume_command(self, source_id: str, file: str = "") -> list[str]:
        """Return the command that continues a session. opencode uses the model of the last turn of the session."""
        return ["opencode", "--session", self.native_id(source_id)]


opencode = Opencode()
