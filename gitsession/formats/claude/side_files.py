"""The side files of a Claude Code session.

They are the tool results that were too long for the transcript, the todo and task lists, the plans, the memory of the
project, the backups of changed files, and the session's lines of the prompt history with the pasted texts. The
environment of a session (``session-env``) and the snapshots of the shell (``shell-snapshots``) are not stored, because
they contain the variables of the user's shell, and Claude Code writes them anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gitsession.formats.base.fields import object_in, plain
from gitsession.formats.base.format import SharedLines, SideFiles
from gitsession.formats.base.jsonl import Object
from gitsession.formats.base.record import Source
from gitsession.formats.claude.files import is_uuid

HISTORY = "history.jsonl"
BACKUPS = "file-history/"

_SLUG = re.compile(rb'"slug":"([A-Za-z0-9-]{1,100})"')
_HASH = re.compile(r"[0-9a-f]{8,64}")
_UUID_CHARS = 36


def of_session(name: str, source: Source | None) -> SideFiles | None:
    """Return the side files of the session file ``name``, such as ``/home/u/.claude/projects/-home-u-p/<id>``."""
    folder, _, rest = name.rpartition("/projects/")
    project, _, id = rest.partition("/")
    if not folder or not is_uuid(id):
        return None
    slugs = {found.decode() for data in source.payloads() for found in _SLUG.findall(data)} if source else ()
    plans = [path for slug in sorted(slugs) for path in (f"plans/{slug}.md", f"plans/{slug}-agent-*.md")]
    own = f"projects/{project}/{id}"
    globs = [f"{own}/tool-results/*", f"{own}/session-memory/*", f"projects/{project}/memory/*.md", *plans]
    globs += [f"tasks/{id}/*.json", f"tasks/{id}/.highwatermark", f"todos/{id}-agent-*.json"]
    globs += [f"{BACKUPS}{id}/*"]
    return SideFiles(folder, globs, [SharedLines(HISTORY, "sessionId", id, _pastes)])


def _pastes(line: Object) -> Iterator[str]:
    """Yield the names of the pasted texts to which a line of the prompt history refers."""
    pastes = object_in(line, "pastedContents")
    hashes = (plain(object_in(pastes, key).get("contentHash")) for key in pastes)
    yield from (f"paste-cache/{hash}.txt" for hash in hashes if _HASH.fullmatch(hash))


def path_of(name: str, id: str, project: str) -> str | None:
    """Return the path below Claude Code's folder at which the session ``id`` needs the side file ``name``.

    ``project``: the name of the folder of the sessions in the working directory.
    """
    top, *rest = name.split("/")
    match top, rest:
        case "projects", [_, "memory", file]:
            return f"projects/{project}/memory/{file}"
        case "projects", [_, _, kind, file]:
            return f"projects/{project}/{id}/{kind}/{file}"
        case (("tasks" | "file-history"), [_, file]):
            return f"{top}/{id}/{file}"
        case "todos", [file]:
            return f"todos/{file.replace(file[:_UUID_CHARS], id)}"
        case (("plans" | "paste-cache"), [_]):
            return name
    return name if name == HISTORY else None
