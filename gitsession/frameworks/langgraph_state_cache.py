"""The newest state of a long thread in a file of the store, so that another process need not read all entries.

The file is derived data: it contains only what the entries contain, and a purge deletes it. It is valid as long as the
entry that it names is in the history of the branch, because entries never change.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gitsession.codec import cbor
from gitsession.codec.digest import hash_of
from gitsession.errors import Malformed
from gitsession.git.types import Oid
from gitsession.store import create
from gitsession.store.git_store import GitStore

_VERSION = 1
_DIGEST_BYTES = 32


class CachedState(NamedTuple):
    """The state of a thread at its newest checkpoint.

    Attributes:
        oid: The entry that carries the checkpoint.
        at_ms: The time of the entry or of a later one before it, Unix time in ms.
        greatest_id: The greatest id of a checkpoint in its history.
        data: The checkpoint as it is stored, without the changes of its channels.
        values: For each channel, a list with the serialized items, or a map with the plain value.
        writes: The pending writes of the checkpoint: task, index, channel, value, path.
    """

    oid: Oid
    at_ms: int
    greatest_id: str
    data: Mapping[str, Any]
    values: Mapping[str, Any]
    writes: Sequence[Sequence[Any]]


def read(objects: GitStore, sid: str) -> CachedState | None:
    """Return the cached state of a thread; ``None`` if there is none, or if the file is damaged."""
    path = _path(objects, sid)
    try:
        data = b"" if path is None else path.read_bytes()
        digest, content = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
        if not content or hash_of(content) != digest:
            return None
        found: Any = cbor.decode_unchecked(content)
    except (OSError, Malformed):
        return None
    version, *fields = found
    return CachedState(*fields) if version == _VERSION else None


def write(objects: GitStore, sid: str, state: CachedState) -> None:
    """Write the state of a thread. If the disk is full or the store is read-only, nothing is written."""
    path = _path(objects, sid)
    if path is None or objects.read_only:
        return
    content = cbor.encode_unchecked([_VERSION, *state])  # type: ignore[list-item]
    temporary = path.with_name(f"{sid}.tmp")  # if two processes write it, the digest is wrong
    with contextlib.suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        try:
            with open(os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as file:
                file.write(hash_of(content) + content)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def _path(objects: GitStore, sid: str) -> Path | None:
    folder = objects.local_dir
    return None if folder is None else folder / create.THREADS / sid
