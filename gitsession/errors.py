"""What can go wrong, by name. Every error the library raises on purpose is a ``GitSessionError``."""

from __future__ import annotations

from collections.abc import Sequence
from types import UnionType


class GitSessionError(Exception):
    """The root of all of ours. ``hint`` says what to try next; it is never a complete destructive command."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        if hint:
            self.add_note(hint)


class Malformed(GitSessionError):
    """Bytes that do not follow docs/reference/format.md; ``where`` is the object and the way to the field."""

    def __init__(self, message: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(f"{where}: {message}" if where else message, hint=hint)
        self.where = where


class InvalidName(GitSessionError):
    """A name (branch, session, label) that a ref, a file system or a terminal could not carry."""


class NotFound(GitSessionError):
    """An address that names nothing."""


class Ambiguous(NotFound):
    """An address that names several things; ``candidates`` lists them, one line each."""

    def __init__(self, message: str, candidates: Sequence[str], *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.candidates = tuple(candidates)


class NoBase(NotFound):
    """A session file that goes on from another one, which is not in the store, or not as far as that.

    ``source_id``: what the agent calls that one.
    """

    def __init__(self, message: str, source_id: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.source_id = source_id


def require(value: object, kind: type | UnionType, expected: str) -> None:
    """Raise ``TypeError`` with what is ``expected``, if a caller of the library gave something else than a ``kind``."""
    if not isinstance(value, kind):
        raise TypeError(f"expected {expected}, not {type(value).__name__}")


class NotAStore(GitSessionError):
    """A path that holds no store, or one of a kind we cannot open (sha256, reftable, a later version)."""


class MissingObject(GitSessionError):
    """An object that a ref or another object names, and the repository does not hold."""


class Corrupt(GitSessionError):
    """An object that is there and is not what its name says."""


class Refused(GitSessionError):
    """Doing it would lose work: nothing was changed."""


class LeafMoved(Refused):
    """The leaf is no longer the entry the caller had seen: another writer appended first."""


class RefMoved(Refused):
    """A ref no longer has the value that the caller expected."""


class Unavailable(GitSessionError):
    """The machine says no for now: read-only, full, busy, or a program is missing. Trying again may work."""


class SummaryFailed(GitSessionError):
    """No summary that could be kept: the summarizer failed, ran out of time, was cancelled or gave nothing useful."""
