"""Conversion of an agent's recorded file changes to paths for checkpoints and to file contents for the store."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass, field

from gitsession.git.objects import oid_of
from gitsession.git.types import ObjectSink, Oid
from gitsession.sessions import tombstone_set
from gitsession.store.interface import ObjectStore
from gitsession.workspace import names
from gitsession.workspace.read_file import display_path, secret_reason
from gitsession.workspace.trees import State, TreeEntry

PLAIN, EXECUTABLE = "100644", "100755"


@dataclass
class Contents:
    """File contents to store. Each content is written with the first checkpoint that refers to it."""

    store: ObjectStore
    waiting: dict[Oid, bytes] = field(default_factory=dict)

    def omission_reason(self, data: bytes) -> str | None:
        """Return the reason why a file with the content ``data`` must be omitted, or ``None``."""
        if tombstone_set.read(self.store).has_file(oid_of("blob", data)):
            return secret_reason(tombstone_set.RULE)
        rule = self.store.guard.in_file(data) if self.store.guard is not None else None
        return None if rule is None else secret_reason(rule)

    def redact_path(self, path: str) -> tuple[str, str | None]:
        """Return ``path`` with secrets redacted, and the reason why a file at ``path`` must be omitted, or ``None``."""
        guard = self.store.guard
        name, rule = display_path(names.unescape_path(path), guard.in_file if guard is not None else None)
        return name, secret_reason(rule) if rule else None

    def file(self, data: bytes, mode: str) -> TreeEntry:
        oid = oid_of("blob", data)
        if not self.store.contains(oid):
            self.waiting[oid] = data
        return TreeEntry(mode, oid)

    def put(self, sink: ObjectSink, states: Iterable[State]) -> None:
        for state in states:
            if state is not None and state.oid in self.waiting:
                sink.put("blob", self.waiting.pop(state.oid))


def within(cwd: str, raw_path: str) -> str | None:
    """Return ``raw_path`` as a path for a checkpoint, or ``None`` if it is outside of ``cwd`` or cannot be stored."""
    if not raw_path or "\0" in raw_path or ".." in raw_path.split("/"):
        return None
    full_path = posixpath.normpath(posixpath.join(cwd, raw_path))
    prefix = cwd.rstrip("/") + "/"
    if not full_path.startswith(prefix):
        return None
    try:
        path = names.escape_path(full_path[len(prefix) :].encode())
    except UnicodeEncodeError:
        return None
    return path if names.path_refusal(path) is None else None
