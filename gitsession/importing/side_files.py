"""Import of the side files of a session, as attachments on ``meta`` (decision 0081).

The entry of a side file depends only on the name and the content of the file. Each line of a shared file is an entry of
its own. So an unchanged file or line adds nothing, and a purged one is not stored again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import field

from gitsession.codec.cbor import valid_text
from gitsession.codec.digest import hash_of
from gitsession.codec.payload import NONCE_BYTES
from gitsession.dataclass import dataclass
from gitsession.discovery.side_files import SESSION_BYTES_MAX, SideFile
from gitsession.errors import Malformed, RefMoved, Unavailable
from gitsession.formats import SourceProblem
from gitsession.git.types import Oid
from gitsession.importing.import_session import TRIES, Begin
from gitsession.importing.known_entries import damaged
from gitsession.index.catalogue import Stat, recorded_status
from gitsession.model.entries import Attachment
from gitsession.sessions import commit_writer, tombstone_set
from gitsession.sessions.attached_files import newest_attachment
from gitsession.sessions.meta import Meta, meta_of
from gitsession.sessions.operation_log import Move
from gitsession.sessions.session_facts import beginning
from gitsession.store import refs
from gitsession.store.interface import ObjectStore


@dataclass(frozen=True, slots=True)
class StoredSideFiles:
    """The result of an import of side files.

    ``states``: the status of each file that was read, and the tree of its newest entry, by name. ``added``: the
    names of the files of which new content was stored.
    """

    states: dict[str, tuple[Stat, Oid]] = field(default_factory=dict)
    problems: list[SourceProblem] = field(default_factory=list)
    added: set[str] = field(default_factory=set)
    moves: list[Move] = field(default_factory=list)


def store_side_files(
    store: ObjectStore,
    sid: str,
    files: Iterable[SideFile],
    recorded: Mapping[str, tuple[tuple[int, ...], str]],
    begin: Begin,
) -> StoredSideFiles:
    """Store the side files that have changed. Files that vanished stay stored.

    ``recorded``: the ``states`` of the last import, as the catalog records them. A file with the recorded status whose
    entry is still on ``meta`` is not read. Raises ``Corrupt`` if ``meta`` is damaged, and ``Unavailable``.
    """
    meta = meta_of(store, sid)
    if meta.gaps:
        raise damaged(sid)
    trees = {node.tree for node in meta.nodes}
    new = [each for each in files if not _is_stored(each, recorded, trees)]
    new = [each for each in new if each.data != b"" or newest_attachment(store, meta, each.name) is not None]
    result = StoredSideFiles()
    drafts = _drafts(store, new, beginning(store, sid).author_seconds * 1000, result)
    for _ in range(TRIES):
        try:
            _append(store, sid, meta, drafts, begin, result)
            return result
        except RefMoved:
            meta = meta_of(store, sid)
    raise Unavailable(
        f"another process keeps writing to session {sid}", hint="try again when that process has finished"
    )


def _is_stored(file: SideFile, recorded: Mapping[str, tuple[tuple[int, ...], str]], trees: set[Oid]) -> bool:
    status, tree = recorded.get(file.name, ((), ""))
    return status == recorded_status(file.stamp) and tree in trees


@dataclass(frozen=True, slots=True)
class _Drafted:
    """A content to be stored. ``is_line``: whether it is one line of a shared file."""

    name: str
    draft: commit_writer.Draft
    tree: Oid
    is_line: bool


def _drafts(store: ObjectStore, files: Iterable[SideFile], at_ms: int, result: StoredSideFiles) -> list[_Drafted]:
    drafts: list[_Drafted] = []
    size = 0
    for file in files:
        if valid_text(file.name) != file.name:
            name = repr(os.fsencode(file.name))[1:]
            result.problems.append(SourceProblem(0, f"cannot store side file {name}: its name is not valid UTF-8"))
            continue
        tree = ""
        try:
            contents = file.contents()
            size += sum(map(len, contents))
            if size > SESSION_BYTES_MAX:
                raise Malformed(f"the session has too many side files (limit: {SESSION_BYTES_MAX:,} bytes)")
            for data in contents:
                entry = Attachment(name=file.name, data=data, executable=file.executable, at_ms=at_ms)
                draft = commit_writer.draft_own(entry, hash_of(file.name.encode())[:NONCE_BYTES], store.guard)
                tree = commit_writer.tree_of(draft.form, draft.stored)
                drafts.append(_Drafted(file.name, draft, tree, file.lines is not None))
        except (Malformed, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            result.problems.append(SourceProblem(0, f"cannot store side file '{file.name}': {reason}"))
        result.states[file.name] = file.stamp, tree
    return drafts


def _is_newest(store: ObjectStore, meta: Meta, drafted: _Drafted) -> bool:
    """Return whether the content is the newest one of its file, and not an older one that the file has again."""
    node = newest_attachment(store, meta, drafted.name)
    return node is not None and node.tree == drafted.tree


def _append(
    store: ObjectStore, sid: str, meta: Meta, drafts: Iterable[_Drafted], begin: Begin, result: StoredSideFiles
) -> None:
    trees = {node.tree for node in meta.nodes}
    purged = tombstone_set.read(store)
    new = []
    for each in drafts:
        is_known = each.tree in trees and (each.is_line or _is_newest(store, meta, each))
        if not is_known and not any(map(purged.has_entry, commit_writer.digests(each.draft))):
            new.append(each)
            trees.add(each.tree)
    before = meta.nodes[0].oid if meta.nodes else None
    if not new:
        return
    with begin() as tx:
        if store.ref(refs.meta(sid)) != before:
            raise RefMoved("another process changed the session during the import")
        node = meta.nodes[0] if meta.nodes else beginning(store, sid)
        for each in new:
            node = commit_writer.put(tx, node, each.draft)
            result.added.add(each.name)
        tx.move(refs.meta(sid), node.oid, expected=before)
    result.moves.append(Move(refs.meta(sid), before, node.oid))
