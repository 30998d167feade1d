"""Methods of ``gitsession rpc`` for the entries of a session, and for its context."""

from __future__ import annotations

import functools
import itertools
from typing import Annotated, Literal

import gitsession
from gitsession.cli.commands.append import appended
from gitsession.cli.commands.history import as_document as history_document
from gitsession.cli.commands.history import gap_object
from gitsession.cli.rpc.results import Appended, Compacted, ContextResult, EntryResult, Json, entry_result
from gitsession.cli.rpc.service import RpcService
from gitsession.codec import entry_json


def append_entry(
    service: RpcService,
    session: str,
    entry: Json,
    branch: str | None = None,
    expected: str | None = None,
    on_moved: Literal["refuse", "fork"] = "refuse",
) -> Appended:
    """Append an entry. The entry is durable when the answer is sent, if `stored` is true.

    Args:
        session: The session.
        entry: The entry: an object with `kind`, `body`, and optionally `at` (json.md, "Entries as JSON").
        branch: The branch. Default: the active branch.
        expected: The entry that must be the tip of the branch. Default: any entry.
        on_moved: The action if the tip is another entry: refuse, or append to a new branch.
    """
    found = service.session(session, branch)
    tip = None if expected is None else found.resolve(expected)
    node = found.append(entry_json.appended_entry(entry), expected=tip, on_moved=on_moved)
    if found.is_stored:
        service.unstored.pop(found.id, None)
    return appended(found, node)


def read_entry(service: RpcService, session: str, at: str = "leaf") -> EntryResult:
    """Return an entry with its content.

    Args:
        session: The session.
        at: The entry: its id, a label, a branch, `leaf`, `root`, or one of these with `~N`.
    """
    found = service.session(session)
    return entry_result(found, found.resolve(at))


def show_log(service: RpcService, session: str, at: str = "leaf", limit: int = 100) -> Annotated[Json, "log"]:
    """Return the history of an entry, the newest entry first.

    Args:
        session: The session.
        at: The entry.
        limit: Maximum number of entries.
    """
    found = service.session(session)
    walked = list(itertools.islice(found.walk(at), max(limit, 0)))
    nodes = [it for it in walked if isinstance(it, gitsession.Node)]
    gaps = [gap_object(it) for it in walked if isinstance(it, gitsession.Gap)]
    return {**_history(service, found, nodes, found.resolve(at).oid), "gaps": gaps}


def show_tree(service: RpcService, session: str) -> Annotated[Json, "tree"]:
    """Return the entries of all branches, parents before children.

    Args:
        session: The session.
    """
    found = service.session(session)
    tree = found.tree()
    nodes = [node for node, _ in tree.walk()]
    return {
        **_history(service, found, nodes, tree.branches[found.branch_name]),
        "gaps": list(map(gap_object, tree.gaps)),
    }


def show_context(
    service: RpcService,
    session: str,
    at: str = "leaf",
    profile: str | None = None,
    window: int | None = None,
    policies: list[Literal["clear-tool-uses", "clear-thinking", "drop-images", "model-facing"]] | None = None,
    form: str | None = None,
) -> ContextResult:
    """Return the context that the model receives after an entry.

    Args:
        session: The session.
        at: The entry.
        profile: The context profile. Default: that of the session's agent.
        window: Context window of the model, in tokens.
        policies: Policies that leave out parts of the context.
        form: Also return a request to this provider, such as `anthropic`.
    """
    from gitsession.cli.commands.context import as_document

    found = service.session(session)
    chosen = [getattr(gitsession, name.replace("-", "_"))() for name in policies or ()]
    node = found.resolve(at)
    context = found.context(node, profile=profile, policies=chosen, window=window)
    return {"context": as_document(found, node, context), "request": context.request(form) if form else None}


def compact(
    service: RpcService,
    session: str,
    strategy: Literal["pi", "opencode", "codex", "aider"] | None = None,
    keep_tokens: int | None = None,
    focus: str = "",
    summarizer: str | None = None,
) -> Compacted:
    """Replace older entries in the context with a summary.

    Args:
        session: The session.
        strategy: The compaction strategy. Default: `pi`.
        keep_tokens: Number of tokens at the end of the context that stay unchanged.
        focus: Topics that the summary should focus on.
        summarizer: Name of the summarizer. Default: `extractive`, which uses no model.
    """
    found = service.session(session)
    node = found.compact(strategy=strategy, keep_tokens=keep_tokens, focus=focus, summarizer=summarizer, undoable=True)
    summary = getattr(found.read(node), "summary", None) if node is not None else None
    return {
        "session": found.id,
        "branch": found.branch_name,
        "id": node.oid if node is not None else None,
        "summary": summary,
    }


def _history(service: RpcService, session: gitsession.Session, nodes: list[gitsession.Node], leaf: str) -> Json:
    from gitsession.index.activity import actions_of

    find = functools.partial(actions_of, service.store.catalogue().db)
    return history_document(service.store.objects, service.row(session.id), session.names(), nodes, leaf, find)
