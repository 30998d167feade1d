"""Exceptions. Every error that the library raises on purpose is a ``GitSessionError``."""

from __future__ import annotations

from collections.abc import Sequence
from types import UnionType


class GitSessionError(Exception):
    """Base class of all errors of gitsession.

    Attributes:
        hint: What to try next. It is never a complete destructive command.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        if hint:
            self.add_note(hint)


class Malformed(GitSessionError):
    """Data that does not follow docs/reference/format.md.

    Attributes:
        where: The object, and the path to the field in it.
    """

    def __init__(self, message: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(f"{where}: {message}" if where else message, hint=hint)
        self.where = where


class InvalidName(GitSessionError):
    """A name (branch, session, label) that is not valid in a ref, a file system or a terminal."""


class NotFound(GitSessionError):
    """An address that matches nothing."""


class Ambiguous(NotFound):
    """An address that matches more than one thing.

    Attributes:
        candidates: The matches, one line each.
    """

    def __init__(self, message: str, candidates: Sequence[str], *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.candidates = tuple(candidates)


class NoBase(NotFound):
    """A session file that continues another session, if entries of that are missing from the store.

    Attributes:
        source_id: The agent's id of that session.
    """

    def __init__(self, message: str, source_id: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.source_id = source_id


def require(value: object, kind: type | UnionType, expected: str) -> None:
    """Raise ``TypeError`` if an argument of a public function is no ``kind``. ``expected``: its description."""
    if not isinstance(value, kind):
        raise TypeError(f"expected {expected}, not {type(value).__name__}")


class NotAStore(GitSessionError):
    """A path without a store, or with one that cannot be opened (SHA-256, reftable, a later version)."""


class MissingObject(GitSessionError):
    """An object that is missing from the repository, though a ref or another object refers to it."""


class Corrupt(GitSessionError):
    """An object whose content does not match its name."""


class Refused(GitSessionError):
    """An operation that was refused, for example because it would lose data. Nothing was changed."""


class LeafMoved(Refused):
    """The leaf is no longer the expected entry, because another writer appended first."""


class RefMoved(Refused):
    """A ref does not have the value that the caller expected."""


class Unavailable(GitSessionError):
    """A temporary failure: read-only, full or busy storage, or a missing program. A retry may succeed."""


class SummaryFailed(GitSessionError):
    """A missing summary: the summarizer failed, timed out, was cancelled or returned nothing useful."""
