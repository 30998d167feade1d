"""Findings of a check of a store."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from gitsession.git import signing
from gitsession.model.entries import Seal
from gitsession.sessions.node import Node
from gitsession.store import refs


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem or a notice.

    Attributes:
        where: A ref, a file or an object.
        what: The problem.
        ref: The branch that leads to it.
    """

    where: str
    what: str
    ref: str = ""

    @property
    def session(self) -> str:
        """The affected session; "" if there is none, or several."""
        parsed = refs.parse(self.ref)
        return parsed[0] if parsed else ""


@dataclass(frozen=True, slots=True)
class CheckCoverage:
    """The progress of a round: a complete check that is done in parts (``verify/store_check.py``).

    Attributes:
        since_ms: Start of the round, as Unix time in ms.
        sessions: Number of checked sessions.
        of: Number of all sessions.
        entries: Number of checked entries.
        ended: True if this part completes the round, so that the next one begins a new round.
        before_ms: End of the previous round, as Unix time in ms; ``None`` if there was none.
    """

    since_ms: int
    sessions: int
    of: int
    entries: int
    ended: bool
    before_ms: int | None


State: TypeAlias = signing.State | Literal["gone", "misplaced", "altered"]
"""The result of a check of a seal.

``gone``: the signed history does not exist any more. ``misplaced``: the seal is of another session, or states another
number of entries. ``altered``: an entry of the history was replaced, and no purge and no redaction explains it.
"""


@dataclass(frozen=True, slots=True)
class SignatureCheck:
    """The result of a check of a seal.

    Attributes:
        sid: The session.
        node: The entry of the seal.
        entry: The content of the seal.
        by: The signer.
        after: Number of entries that the branch has after the signed tip; ``None`` if the tip is not on the branch.
        purged: Number of signed entries that a tombstone or a redaction has replaced.
    """

    sid: str
    node: Node
    entry: Seal
    state: State
    by: str
    after: int | None
    purged: int = 0

    @property
    def is_wrong(self) -> bool:
        """Return whether the seal is wrong. A seal that cannot be checked is not."""
        return self.state in ("bad", "revoked", "gone", "misplaced", "altered")


@dataclass
class Report:
    """The result of a check.

    Attributes:
        checked: Number of checked entries.
        whole: False if entries were left out, because of a time limit or a sample.
        problems: Damage: what gitsession cannot have written, or what was lost since.
        notices: What is unusual, but may be as an agent or a program wrote it; ``None`` if not requested.
        covered: Progress of the round; ``None`` if the check is not a part of one.
        signatures: Results of the checks of seals.
    """

    checked: int = 0
    whole: bool = True
    problems: list[Finding] = field(default_factory=list)
    notices: list[Finding] | None = None
    covered: CheckCoverage | None = None
    signatures: list[SignatureCheck] = field(default_factory=list)

    def add(self, where: str, what: str, ref: str = "") -> None:
        self.problems.append(Finding(where, what, ref))
