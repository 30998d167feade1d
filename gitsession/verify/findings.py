"""Findings of a store check."""

from __future__ import annotations

from dataclasses import field
from typing import Literal, TypeAlias

from gitsession.dataclass import dataclass
from gitsession.git import signing
from gitsession.model.entries import Seal
from gitsession.sessions.node import Node
from gitsession.store import refs


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem or a notice.

    Attributes:
        where: Ref, file or object that has the problem.
        what: Description of the problem.
        ref: Branch from which the object is reachable.
    """

    where: str
    what: str
    ref: str = ""

    @property
    def session(self) -> str:
        """The affected session; "" if no session or several sessions are affected."""
        return refs.session_of(self.ref)


@dataclass(frozen=True, slots=True)
class CheckCoverage:
    """The progress of a round, which is a complete check that is done in parts (see ``verify/store_check.py``).

    Attributes:
        since_ms: Start of the round, as Unix time in ms.
        sessions: Number of checked sessions.
        of: Number of all sessions.
        entries: Number of checked entries.
        ended: Whether this part completes the round. The next part then begins a new round.
        before_ms: End of the previous round, as Unix time in ms; ``None`` if there was none.
    """

    since_ms: int
    sessions: int
    of: int
    entries: int
    ended: bool
    before_ms: int | None


State: TypeAlias = signing.State | Literal["gone", "misplaced", "altered"]
"""The result of a signature check.

``gone``: the signed history no longer exists. ``misplaced``: the signature belongs to another session, or states a
different number of entries. ``altered``: an entry was replaced for a reason other than a purge or a redaction.
"""


@dataclass(frozen=True, slots=True)
class SignatureCheck:
    """The result of a signature check.

    Attributes:
        sid: Id of the session.
        node: Entry with the signature.
        entry: Content of this entry.
        state: Result of the check.
        by: Name of the signer; "" if unknown.
        after: Number of entries on the branch after the signed tip; ``None`` if the signed tip is not on the branch.
        purged: Number of signed entries that were replaced by a tombstone or a redaction.
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
        """Return whether the signature is invalid. A signature that cannot be checked does not count as invalid."""
        return self.state in ("bad", "revoked", "gone", "misplaced", "altered")


@dataclass
class Report:
    """The result of a check.

    Attributes:
        checked: Number of checked entries.
        whole: Whether all entries were checked. False if entries were left out because of a time limit or a sample.
        problems: Damage: states that gitsession cannot have written, and lost data.
        notices: Unusual states that an agent or a program may have written; ``None`` if not requested.
        covered: Progress of the round; ``None`` if the check is not part of a round.
        signatures: Results of the checks of signatures.
    """

    checked: int = 0
    whole: bool = True
    problems: list[Finding] = field(default_factory=list)
    notices: list[Finding] | None = None
    covered: CheckCoverage | None = None
    signatures: list[SignatureCheck] = field(default_factory=list)

    def add(self, where: str, what: str, ref: str = "") -> None:
        """Add a problem. See ``Finding`` for the arguments."""
        self.problems.append(Finding(where, what, ref))
