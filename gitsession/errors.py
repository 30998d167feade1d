"""Exceptions of the library, which are all subclasses of ``GitSessionError``."""

from __future__ import annotations

from collections.abc import Sequence
from types import UnionType


class GitSessionError(Exception):
    """Base class of all gitsession errors.

    Attributes:
        hint: The suggested next step. A hint is never a complete destructive command.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        if hint:
            self.add_note(hint)


class Malformed(GitSessionError):
    """Data that does not follow docs/reference/format.md.

    Attributes:
        where: The object, and the path of the field in the object.
    """

    def __init__(self, message: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(f"{where}: {message}" if where else message, hint=hint)
        self.where = where


class InvalidName(GitSessionError):
    """A branch name, title or label that cannot be used safely in a ref, a file system or a terminal."""


class NotFound(GitSessionError):
    """An address that matches nothing."""


class Ambiguous(NotFound):
    """An address that matches several sessions or entries.

    Attributes:
        candidates: The matches, each as one line of text.
    """

    def __init__(self, message: str, candidates: Sequence[str], *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.candidates = tuple(candidates)


class NoBase(NotFound):
    """A session file that continues another session, whose entries are missing from the store.

    Attributes:
        source_id: The agent's id of the other session.
    """

    def __init__(self, message: str, source_id: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.source_id = source_id


def require(value: object, kind: type | UnionType, expected: str) -> None:
    """Raise ``TypeError`` if an argument is not an instance of ``kind``. ``expected``: the description in the error."""
    if not isinstance(value, kind):
        raise TypeError(f"expected {expected}, not {type(value).__name__}")


class NotAStore(GitSessionError):
    """A path without a store, or with a store of an unsupported kind (SHA-256, reftable, a later version)."""


class MissingObject(GitSessionError):
    """An object that is missing from the repository, although a ref or another object refers to it."""


class Corrupt(GitSessionError):
    """An object whose content does not match its object id, or a store that is otherwise damaged."""


class Refused(GitSessionError):
    """An operation that was refused, for example because data would be lost. Nothing was changed."""


class LeafMoved(Refused):
    """An append that was refused because another writer appended an entry first."""


class RefMoved(Refused):
    """A ref that does not have the expected value."""


class Unavailable(GitSessionError):
    """A failure of the environment, such as read-only, full or busy storage, or a missing program.

    The operation may succeed later.
    """


class PluginFailed(GitSessionError):
    """A plugin that cannot be loaded, that raised an exception, or whose value has the wrong type.

    Attributes:
        problem: The reason, without the name of the plugin.
    """

    def __init__(self, message: str, problem: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.problem = problem


class SummaryFailed(GitSessionError):
    """A failed summary.

    The summarizer failed, timed out, was canceled or returned no usable text, or the summary is not smaller than the
    entries that it replaces.
    """
