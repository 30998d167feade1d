"""The format of codex's sessions, both legacy and paginated.

The files are ``~/.codex/sessions/<yyyy>/<mm>/<dd>/rollout-<time>-<thread>.jsonl``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gitsession.formats.base.fields import object_in, plain
from gitsession.formats.base.format import (
    Continuing,
    Counting,
    Delegating,
    Remembering,
    Resumable,
    Streamed,
    Workspace,
)
from gitsession.formats.base.jsonl import LineFailure, Object, parse, record_line
from gitsession.formats.base.record import Source
from gitsession.formats.codex import files, read_entry, split_file
from gitsession.formats.codex import headline as codex_headline
from gitsession.formats.codex import write as codex_write
from gitsession.model.entries import Entry, SessionHeader
from gitsession.model.headline import Headline


class Codex(Continuing, Counting, Delegating, Remembering, Resumable, Streamed):
    """The rollouts of codex."""

    AGENT = split_file.AGENT
    FILES = ("rollout-*.jsonl", "rollout-*.jsonl.zst")
    RECORDED = "recorded by codex"

    claims = staticmethod(split_file.claims)
    split = staticmethod(split_file.split)
    write = staticmethod(codex_write.write)
    native_id = staticmethod(files.thread_id)
    base_of = staticmethod(files.base_of)
    segment_path = staticmethod(files.segment_path)
    counts = staticmethod(read_entry.counts_in)
    file_changes = staticmethod(files.file_changes)

    def headline(self, payload: bytes) -> Headline:
        line = record_line(payload)
        return codex_headline.headline_of(parse(line), line)

    def read(self, payload: bytes) -> Entry:
        return read_entry.entry_of(parse(record_line(payload)), payload)

    def copy_folders(self, name: str, source: Source) -> Sequence[str]:
        """Return the folder of the session file.

        codex records file contents in the session file itself, not in separate copies.
        """
        return ["."]

    def session_path(self, header: SessionHeader, workspace: Workspace) -> str:
        return files.session_path(header)

    def globs(self, header: SessionHeader, workspace: Workspace) -> Sequence[str]:
        """Return globs for the only rollout of a thread. Its path does not depend on the folder of the session."""
        return files.globs(header)

    def relocate(self, data: bytes, id: str, cwd: str) -> bytes:
        return codex_write.relocate(data, self.native_id(id), cwd)

    def resume_command(self, source_id: str, file: str = "") -> list[str]:
        return ["codex", "resume", self.native_id(source_id)]

    def starting_call(self, payload: bytes, id: str, sidecars: Mapping[str, bytes]) -> str:
        """Return the id of the call in ``payload`` whose end event or result contains the thread id ``id``.

        If there is no such call, return "".
        """
        key = id.encode("utf-8", "surrogatepass")
        for raw in payload.split(b"\n") if key in payload else ():
            line = parse(raw) if key in raw else None
            event = line.get("payload") if isinstance(line, dict) else None
            if isinstance(event, dict):
                call = _by_event(event, id) or _by_result(event, id)
                if call:
                    return call
        return ""

    def is_delegated(self, source_id: str, header: SessionHeader) -> bool:
        """Return whether a tool call started the thread.

        The header of a thread that the user forked has ``forked_from_id``, but no ``parent_thread_id``.
        """
        source = header.extra.get("source")
        is_spawned = isinstance(source, dict) and "subagent" in source
        return is_spawned or bool(header.extra.get("parent_thread_id"))


def _by_event(event: Object, id: str) -> str:
    item = object_in(event, "item")
    threads = item.get("receiver_thread_ids")
    is_match = item.get("tool") == "spawn_agent" and isinstance(threads, list) and id in threads
    return plain(item.get("id")) if is_match else ""


def _by_result(item: Object, id: str) -> str:
    output = item.get("output") if item.get("type") == "function_call_output" else None
    result = parse(output.encode("utf-8", "surrogatepass")) if isinstance(output, str) else None
    is_match = result is not None and not isinstance(result, LineFailure) and result.get("agent_id") == id
    return plain(item.get("call_id")) if is_match else ""


codex = Codex()
