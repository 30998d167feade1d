"""The line of `gitsession status-line`, which agents run after each answer.

``__main__`` runs this module without importing the command line. This module imports only what the line requires.
"""

from __future__ import annotations

import functools
import os
import sys

TYPE_CHECKING = False  # not imported from typing, because that takes as long as the import of this whole module
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from gitsession.index.catalogue import Catalogue, Row

_AGENT = "claude"
"""The agent that names its session on standard input."""


def run(arguments: Sequence[str]) -> bool:
    """Print the line if the command line is ``[--store DIR] status-line`` and an agent names its session.

    Otherwise, or if the store cannot be read, return False. The complete command line then runs the command.
    """
    store = _store(arguments)
    if store is None or not names_session(given()):
        return False
    from gitsession.index.catalogue import Catalogue
    from gitsession.paths import store_path

    try:
        location = store_path(store, os.environ, os.path.expanduser("~"), _setting)
        if not os.path.lexists(location):
            return False
        catalogue = Catalogue(location)  # not updated
        text = line(document(catalogue, find(catalogue, given()), given()), given())
        os.write(1, f"{text}\n".encode("utf-8", "replace"))
    except Exception:  # the complete command line reports the error
        return False
    return True


def _store(arguments: Sequence[str]) -> str | None:
    """Return the value of ``--store``, or "" without this option; ``None`` if there are other words."""
    match arguments:
        case ["status-line"]:
            return ""
        case ["--store", store, "status-line"]:
            return store
        case [word, "status-line"] if word.startswith("--store="):
            return word.removeprefix("--store=")
    return None


def _setting(name: str) -> str | None:
    from gitsession.git import process

    return process.user_setting(name)


@functools.cache
def given() -> Mapping[str, Any]:
    """Return the object that Claude Code writes to standard input for its status line; empty if there is none."""
    import json

    from gitsession.cli import hooking

    try:
        found = {} if sys.stdin is None or sys.stdin.isatty() else json.loads(hooking.read_stdin()[0] or b"{}")
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def names_session(given: Mapping[str, Any]) -> bool:
    """Return whether an agent names its session on standard input."""
    return isinstance(given.get("session_id"), str)


def find(catalogue: Catalogue, given: Mapping[str, Any]) -> Row | None:
    """Return the session that an agent names by its id, or by the path of its file; ``None`` if it is not stored."""
    rows = catalogue.by_source(_AGENT, given["session_id"])
    if rows:
        return rows[0]
    path = given.get("transcript_path")
    try:
        sid = catalogue.session_in(path) if isinstance(path, str) else None
    except UnicodeEncodeError:  # not the path of a file
        return None
    return catalogue.session(sid) if sid is not None else None


def document(
    catalogue: Catalogue, row: Row | None, given: Mapping[str, Any], window: int | None = None
) -> dict[str, Any]:
    """Return the JSON object of the command.

    The values that the agent states are newer than those in the store.

    Args:
        catalogue: The catalog of the store.
        row: The session; ``None`` if it is not stored.
        given: The object on standard input.
        window: The size of the context window in tokens, if the user states it.
    """
    from gitsession.model.usage import dollars, total_tokens

    context = _object(given, "context_window")
    used, model = total_tokens(_object(context, "current_usage")), _object(given, "model").get("id")
    if row is not None:
        query = (
            "SELECT input + output + cache_read + cache_write, model FROM answers WHERE sid = ? "
            "ORDER BY at_ms DESC LIMIT 1"
        )
        stored_used, stored_model = catalogue.db.execute(query, (row.sid,)).fetchone() or (0, None)
        used, model = used or stored_used, model or stored_model
    stated = context.get("context_window_size")
    size = window or (stated if type(stated) is int and stated > 0 else None)
    return {
        "session": row.sid if row is not None else None,
        "title": row.name if row is not None else None,
        "branch": row.active if row is not None else None,
        "model": model if isinstance(model, str) else None,
        "used": used,
        "window": size,
        "remaining": max(size - used, 0) if size else None,
        "percent": round(100 * used / size, 1) if size else None,
        "cost": dollars(_object(given, "cost").get("total_cost_usd")) or (row.cost if row is not None else 0.0),
    }


def line(status: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """Return the line of text for ``status``, the JSON object of the command."""
    from gitsession.cli.text import width
    from gitsession.index.catalogue import short_sid
    from gitsession.line_text import shorten

    session, used, size, cost = (status[name] for name in ("session", "used", "window", "cost"))
    model = _object(given, "model").get("display_name")
    parts = [
        *([model] if isinstance(model, str) else []),
        *(
            [f"{used:,} tokens" + (f" ({status['percent']:g} % of {size:,})" if size else "")]
            if session or used
            else []
        ),
        *([f"${cost:,.2f}"] if cost else []),
        *([f"{short_sid(session)} {status['branch']}", status["title"]] if session else ["no stored session"]),
    ]
    return shorten(" · ".join(parts), width())


def _object(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    return found if isinstance(found, dict) else {}
