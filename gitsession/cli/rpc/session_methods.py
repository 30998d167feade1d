"""Methods of ``gitsession rpc`` for sessions and their branches."""

from __future__ import annotations

import base64
from typing import Annotated

import gitsession
from gitsession.cli.commands.sessions import as_object as session_object
from gitsession.cli.rpc.results import (
    Branches,
    Exported,
    Hits,
    Json,
    ListedSessions,
    Named,
    NewSession,
    Position,
    Removed,
)
from gitsession.cli.rpc.service import RpcService


def list_sessions(service: RpcService, newest: int | None = None, folder: str | None = None) -> ListedSessions:
    """List the sessions, the newest first.

    Args:
        newest: Maximum number of sessions. Default: no limit.
        folder: List only the sessions of this folder, its parent folders, and its project.
    """
    rows = service.store.sessions() if folder is None else service.store.sessions_of(folder)
    return {"sessions": [session_object(row) for row in (rows if newest is None else rows[: max(newest, 0)])]}


def new_session(service: RpcService, agent: str, cwd: str | None = None) -> NewSession:
    """Create a session. It is stored when its first user message is appended.

    Args:
        agent: Name of the program that writes the session.
        cwd: Working directory of the session.
    """
    session = service.store.new_session(agent=agent, cwd=cwd)
    service.unstored[session.id] = session
    return {"session": session.id, "stored": False}


def open_session(service: RpcService, session: str) -> Annotated[Json, "ls"]:
    """Return the session that an address names, with the fields of `ls`.

    Args:
        session: Id of the session, a unique part of it, `AGENT:ID`, `@` or `-`.
    """
    return session_object(service.row(service.session(session).id))


def fork_session(service: RpcService, session: str, at: str = "leaf") -> Position:
    """Create a session that continues another one at an entry.

    Args:
        session: The session.
        at: The entry.
    """
    return _position(service.session(session).fork(at))


def delete_session(service: RpcService, session: str) -> Removed:
    """Move a session to the trash.

    Args:
        session: The session.
    """
    found = service.session(session)
    if service.unstored.pop(found.id, None) is None:
        service.store.trash.put(found.id)
    return {"session": found.id}


def rename_session(service: RpcService, session: str, title: str) -> Named:
    """Set the title of a session.

    Args:
        session: The session.
        title: The title. An empty string removes the title.
    """
    found = service.session(session)
    found.rename(title)
    return {"session": found.id, "text": found.names().title or ""}


def label_entry(service: RpcService, session: str, label: str, at: str = "leaf") -> Named:
    """Set the label of an entry.

    Args:
        session: The session.
        label: The label. An empty string removes the label.
        at: The entry.
    """
    found = service.session(session)
    node = found.label(at, label)
    return {"session": found.id, "id": node.oid, "text": found.names().labels.get(node.oid, "")}


def list_branches(service: RpcService, session: str) -> Branches:
    """List the branches of a session.

    Args:
        session: The session.
    """
    found = service.session(session)
    return {"session": found.id, "branch": found.branch_name, "branches": found.branches()}


def create_branch(service: RpcService, session: str, name: str, at: str = "leaf") -> Position:
    """Create a branch at an entry. The active branch does not change.

    Args:
        session: The session.
        name: Name of the branch.
        at: The entry.
    """
    return _position(service.session(session).branch(name, at))


def switch_branch(service: RpcService, session: str, branch: str) -> Position:
    """Make a branch the active branch.

    Args:
        session: The session.
        branch: Name of the branch.
    """
    found = service.session(session)
    found.switch(branch)
    return _position(found)


def search(
    service: RpcService,
    query: str,
    regex: bool = False,
    agent: str = "",
    project: str = "",
    role: str = "",
    limit: int = 20,
) -> Hits:
    """Search the conversations of all sessions.

    Args:
        query: The words to search for, or a regular expression.
        regex: Whether the query is a regular expression.
        agent: Search only sessions of this agent.
        project: Search only sessions of the project of this folder.
        role: Search only text of this role.
        limit: Maximum number of hits.
    """
    from gitsession.cli.commands.search import as_object

    found = service.store.search(query, regex=regex, agent=agent, project=project, role=role, most=limit)
    return {"hits": [as_object(hit) for hit in found]}


def export_session(service: RpcService, session: str, to: str | None = None, at: str | None = None) -> Exported:
    """Return a session as a file.

    Args:
        session: The session.
        to: The format: an agent, `jsonl`, `markdown` or `html`. Default: the agent of the session.
        at: The last entry of the exported history. Default: all branches are exported.
    """
    found = service.session(session)
    done = service.store.export(found.id, None if at is None else found.resolve(at), to=to)
    try:
        text, data = done.data.decode(), None
    except UnicodeDecodeError:
        text, data = None, base64.b64encode(done.data).decode()
    return {"format": done.agent, "text": text, "base64": data, "notes": dict(done.notes)}


def _position(session: gitsession.Session) -> Position:
    return {"session": session.id, "branch": session.branch_name, "leaf": session.resolve("leaf").oid}
