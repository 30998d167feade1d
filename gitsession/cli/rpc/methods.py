"""The table of the methods of ``gitsession rpc``, and its methods for the server itself.

The annotations and docstrings of the functions are also the schema and the documentation of the methods.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

import gitsession
from gitsession.cli.rpc import entry_methods, file_methods, line_methods, session_methods
from gitsession.cli.rpc.results import Subscription, Version
from gitsession.cli.rpc.service import RpcService
from gitsession.jsonrpc.schema import Method
from gitsession.live.changes import ChangeKind

PROTOCOL = 1
"""Version of the methods. It changes if a method or a field is removed, or if its meaning changes."""


def version(service: RpcService) -> Version:
    """Return the version of the server, and its methods and events."""
    return {
        "version": gitsession.__version__,
        "protocol": PROTOCOL,
        "methods": list(METHODS),
        "events": list(get_args(ChangeKind)),
        "store": str(service.store.objects.git_dir),
    }


def subscribe(service: RpcService, session: str | None = None, events: list[ChangeKind] | None = None) -> Subscription:
    """Send a notification `event` for each change that any process makes after this call.

    Args:
        session: Report only changes of this session. Default: of all sessions.
        events: Report only these kinds of events. Default: all kinds.
    """
    sid = None if session is None else service.session(session).id
    return {"subscription": service.subscriptions.add(sid, events)}


def unsubscribe(service: RpcService, subscription: int) -> Subscription:
    """End a subscription.

    Args:
        subscription: Number of the subscription.
    """
    service.subscriptions.remove(subscription)
    return {"subscription": subscription}


METHODS: Mapping[str, Method] = {
    "version": version,
    "sessions.list": session_methods.list_sessions,
    "sessions.new": session_methods.new_session,
    "sessions.open": session_methods.open_session,
    "sessions.fork": session_methods.fork_session,
    "sessions.delete": session_methods.delete_session,
    "sessions.rename": session_methods.rename_session,
    "sessions.label": session_methods.label_entry,
    "append": entry_methods.append_entry,
    "read": entry_methods.read_entry,
    "log": entry_methods.show_log,
    "tree": entry_methods.show_tree,
    "context": entry_methods.show_context,
    "lines.new": line_methods.new_lines,
    "lines.append": line_methods.append_lines,
    "lines.read": line_methods.read_lines,
    "branch.list": session_methods.list_branches,
    "branch.create": session_methods.create_branch,
    "branch.switch": session_methods.switch_branch,
    "checkpoint": file_methods.take_checkpoint,
    "rewind.plan": file_methods.plan_rewind,
    "rewind.perform": file_methods.perform_rewind,
    "undo": file_methods.undo,
    "redo": file_methods.redo,
    "compact": entry_methods.compact,
    "search": session_methods.search,
    "export": session_methods.export_session,
    "subscribe": subscribe,
    "unsubscribe": unsubscribe,
}

CONCURRENT = frozenset({
    "sessions.list", "log", "tree", "context", "rewind.plan", "compact", "search", "export",
})  # fmt: skip
"""Methods that may run beside others, because they take long or only read."""
