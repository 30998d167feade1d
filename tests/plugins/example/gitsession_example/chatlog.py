"""A format of plain chat logs.

The first line has the id of the chat and its start, as Unix time in milliseconds. Each of the following lines is a
message. A newline in a message is written as ``\\n``, and a backslash as ``\\\\``::

    chatlog 1 standup 1767225600000
    user: What is the plan?
    assistant: First the tests,\\nthen the code.

Lines are only added to a log, so each line is a record.
"""

import re
from collections import Counter

from gitsession.errors import Malformed
from gitsession.formats import (
    Outgoing,
    Record,
    Resumable,
    SearchRoot,
    Source,
    SourceProblem,
    Workspace,
    WrittenFile,
)
from gitsession.formats.base.outgoing import OutgoingLine
from gitsession.model.blocks import Text
from gitsession.model.entries import Entry, Message, Opaque, SessionHeader
from gitsession.model.headline import Headline, first_line

HEADER = re.compile(rb"chatlog 1 ([A-Za-z0-9-]{1,64}) ([0-9]{1,15})")
MESSAGE = re.compile(r"(user|assistant): (.*)", re.DOTALL)
ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class Chatlog(Resumable):
    AGENT = "chatlog"
    FORM = "txt"
    FILES = ("*.chatlog",)
    ROOTS = (SearchRoot("chats", "*.chatlog", "CHATLOG_HOME"),)

    def claims(self, head: bytes) -> bool:
        return HEADER.fullmatch(head.partition(b"\n")[0]) is not None

    def split(self, data: bytes, *, name: str = "", final: bool = False) -> Source:
        lines = bytes(data[:]).split(b"\n")
        waiting = lines.pop()
        if final and waiting:
            lines.append(waiting)
            waiting = b""
        header = HEADER.fullmatch(lines[0]) if lines else None
        if header is None:
            raise Malformed("the first line is not the header of a chat log")
        records = tuple(
            Record(number, line, parent=number - 1 if number > 2 else None) for number, line in enumerate(lines[1:], 2)
        )
        unknown = [record for record in records if parse(record.payload) is None]
        return Source(
            agent=self.AGENT,
            source_id=header[1].decode(),
            started_ms=int(header[2]),
            records=records,
            meta=(Record(1, lines[0]),),
            waiting=waiting,
            ends_with_newline=data[-1:] == b"\n" or bool(waiting),
            version=1,
            problems=tuple(SourceProblem(record.line, "not a message") for record in unknown),
        )

    def headline(self, payload: bytes, parsed: object = None) -> Headline:
        found = parse(payload)
        if HEADER.fullmatch(payload):
            return Headline("session", "session", words=payload.decode())
        if found is None:
            return Headline("opaque", "opaque", words="not a message")
        role, text = found
        return Headline("message", role, role, words=first_line(text), body=text)

    def read(self, payload: bytes) -> Entry:
        header = HEADER.fullmatch(payload)
        if header is not None:
            return SessionHeader(at_ms=int(header[2]), agent=self.AGENT, source_id=header[1].decode())
        found = parse(payload)
        if found is None:
            return Opaque(payload=payload, problem="not a message")
        role, text = found
        return Message.user(text) if role == "user" else Message.assistant(text)

    def write(self, out: Outgoing) -> WrittenFile:
        notes: Counter[str] = Counter()
        head = out.head or (f"chatlog 1 {chat_id(out.session)} {out.session.at_ms}".encode(),)
        lines = [OutgoingLine(line) for line in head]
        for each in out.history():
            entry = each.entry
            if each.line is not None:
                lines.append(OutgoingLine(each.line, each.key))
            elif isinstance(entry, Message) and entry.role in ("user", "assistant"):
                texts = [block.text for block in entry.content if isinstance(block, Text)]
                notes["left out: blocks that are not text"] += len(entry.content) - len(texts)
                lines.append(OutgoingLine(message_line(entry.role, "\n".join(texts)), each.key))
            else:
                notes[f"left out: {entry.kind} entries"] += 1
        return WrittenFile(tuple(lines), +notes)

    def session_path(self, header: SessionHeader, workspace: Workspace) -> str:
        return f"{chat_id(header)}.chatlog"

    def relocate(self, data: bytes, id: str, cwd: str) -> bytes:
        """Return the log with another id. A log contains no folder."""
        head, newline, rest = data.partition(b"\n")
        return HEADER.sub(rb"chatlog 1 " + id.encode() + rb" \2", head) + newline + rest

    def resume_command(self, source_id: str, file: str = "") -> list[str]:
        return ["chat", "--continue", source_id]


def chat_id(header: SessionHeader) -> str:
    return re.sub("[^A-Za-z0-9-]", "-", header.source_id or "chat")[:64]


def parse(line: bytes) -> tuple[str, str] | None:
    """Return the role and the text of a message; ``None`` for any other line."""
    try:
        found = MESSAGE.fullmatch(line.decode())
    except UnicodeDecodeError:
        return None
    if found is None:
        return None
    return found[1], ESCAPE.sub(lambda escape: "\n" if escape[1] == "n" else escape[1], found[2])


def message_line(role: str, text: str) -> bytes:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
    return f"{role}: {escaped}".encode("utf-8", "replace")
