"""The format of codex's session files, called *rollouts*, both legacy and paginated.

A session is called a *thread* in codex. The path of the first rollout of a thread is
``~/.codex/sessions/<yyyy>/<mm>/<dd>/rollout-<time>-<thread>.jsonl``.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Mapping, Sequence

from gitsession.formats.base.fields import object_in, plain, to_iso, to_ms
from gitsession.formats.base.format import (
    Continuing,
    Counting,
    Delegating,
    Growing,
    Remembering,
    Resumable,
    SharedLines,
    SideFiles,
    Streamed,
    WithSideFiles,
    Workspace,
)
from gitsession.formats.base.jsonl import LineFailure, Object, parse
from gitsession.formats.base.record import Source
from gitsession.formats.codex import files, split_file
from gitsession.formats.codex.headline import headline_of
from gitsession.formats.codex.read_entry import counts_in, entry_of
from gitsession.formats.codex.split_file import header_in, thread_id
from gitsession.formats.codex.write import relocate, write
from gitsession.model.entries import SessionHeader

_HISTORY, _NAMES, _IMAGES = "history.jsonl", "session_index.jsonl", "generated_images"
_ROLLOUT = re.compile(
    r"(.*)/(?:sessions/[0-9]{4}/[0-9]{2}/[0-9]{2}|archived_sessions)/rollout-[0-9T-]{20}([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-"
    r"[0-9a-f]{12})(?:\.jsonl)?"
)
"""The path of the first rollout of a thread, without its suffix: codex's folder, and the id of the thread."""


class Codex(Continuing, Counting, Delegating, Growing, Remembering, Resumable, Streamed, WithSideFiles):
    """The rollouts of codex."""

    AGENT = split_file.AGENT
    FILES = ("rollout-*.jsonl", "rollout-*.jsonl.zst")
    RECORDED = "recorded by codex"
    SHARED = (_HISTORY, _NAMES)

    claims = staticmethod(split_file.claims)
    split = staticmethod(split_file.split)
    split_rest = staticmethod(split_file.split_rest)
    headline = staticmethod(headline_of)
    read = staticmethod(entry_of)
    write = staticmethod(write)
    relocate = staticmethod(relocate)
    native_id = staticmethod(thread_id)
    counts = staticmethod(counts_in)
    mentions_changes = staticmethod(files.mentions_changes)
    file_changes = staticmethod(files.file_changes)

    def copy_folders(self, name: str, source: Source) -> Sequence[str]:
        """Return the folder of the session file.

        codex records file contents in the session file itself, not in separate copies.
        """
        return ["."]

    def side_files(self, name: str, source: Source | None) -> SideFiles | None:
        """Return the images that codex generated in the thread, and the thread's lines in the lists of all threads.

        These lists are the prompt history and the names of threads.
        """
        found = _ROLLOUT.fullmatch(name)
        if found is None:
            return None
        folder, thread = found.groups()
        lines = SharedLines(_HISTORY, "session_id", thread), SharedLines(_NAMES, "id", thread)
        return SideFiles(folder, [f"{_IMAGES}/{thread}/*"], lines)

    def side_path(self, name: str, id: str, workspace: Workspace, file: str = "") -> str | None:
        top, _, rest = name.partition("/")
        if top == _IMAGES:
            return f"{top}/{id}/{rest.rpartition('/')[2]}"
        return name if name in self.SHARED else None

    def session_path(self, header: SessionHeader, workspace: Workspace) -> str:
        """Return the path of a rollout.

        The path contains the start time in UTC and the id of the thread. It does not depend on the session's folder.
        """
        time = to_iso(header.at_ms)
        day, clock = time[:10], time[11:19].replace(":", "-")
        return f"sessions/{day.replace('-', '/')}/rollout-{day}T{clock}-{thread_id(header.source_id)}.jsonl"

    def globs(self, header: SessionHeader, workspace: Workspace) -> Sequence[str]:
        """Return globs for the first rollout of a thread. The path does not depend on the folder of the session.

        The globs match any date and time, because the time zone of the date and time in the path is unknown.
        """
        name = f"rollout-*-{glob.escape(thread_id(header.source_id))}.jsonl"
        return (f"sessions/*/*/*/{name}", f"archived_sessions/{name}")

    def base_of(self, data: bytes) -> str | None:
        """Return codex's id for the file that the rollout ``data`` continues, or ``None`` if there is no such file."""
        thread = object_in(header_in(data), "history_base").get("thread_id")
        return thread if isinstance(thread, str) else None

    def segment_path(self, data: bytes, segment: str | None) -> str:
        """Return the path of the rollout ``data`` below ``.codex``.

        ``segment``: the id of the file; ``None`` if the file is the first one of the thread.
        """
        payload = header_in(data)
        id, at_ms = payload.get("id"), to_ms(payload.get("timestamp")) or 0
        header = SessionHeader(agent=self.AGENT, source_id=id if isinstance(id, str) else None, at_ms=at_ms)
        path = self.session_path(header, Workspace(""))
        return path if segment is None else f"{path.removesuffix('.jsonl')}_{segment}.jsonl"

    def resume_command(self, source_id: str, file: str = "") -> list[str]:
        return ["codex", "resume", self.native_id(source_id)]

    def starting_call(self, payload: bytes, id: str, sidecars: Mapping[str, bytes]) -> str:
        """Return the id of the call that started the thread ``id``, or "" if the call is not found in ``payload``.

        The id of the thread is in the event that reports the end of the call, or in the result of the call.
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

        If the user forked the thread, the header contains ``forked_from_id``, but no ``parent_thread_id``.
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
