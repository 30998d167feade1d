"""The format of librecode's sessions.

librecode stores sessions in the database ``~/.librecode/librecode.db``, or in ``.librecode/librecode.db`` in a project.
librecode does not define a file format for sessions, so an export is a file in gitsession's own format, with one row of
the database per line.
"""

from __future__ import annotations

from gitsession.formats.base import jsonl
from gitsession.formats.base.format import Database
from gitsession.formats.base.jsonl import LineFailure
from gitsession.formats.librecode import split_file
from gitsession.formats.librecode.headline import headline_of
from gitsession.formats.librecode.read_entry import entry_of
from gitsession.formats.librecode.write import write


class Librecode(Database):
    """The format of librecode's database, and of exports of its sessions."""

    AGENT = split_file.AGENT
    FILES = ("*.db", "*.jsonl")
    TABLES = split_file.TABLES

    split = staticmethod(split_file.split)
    owns_tables = staticmethod(split_file.owns_tables)
    session_stamps = staticmethod(split_file.session_stamps)
    session = staticmethod(split_file.session)
    headline = staticmethod(headline_of)
    read = staticmethod(entry_of)
    write = staticmethod(write)

    def claims(self, head: bytes) -> bool:
        """Return whether the first line of ``head`` represents a session row of librecode's database."""
        first = head.partition(b"\n")[0]
        if b'"session"' not in first or b'"created_at"' not in first:
            return False
        line = jsonl.parse(first)
        return not isinstance(line, LineFailure) and line.get("type") == "session" and "timestamp" not in line


librecode = Librecode()
