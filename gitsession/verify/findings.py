"""What a check of a store found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from gitsession.git import signing
from gitsession.model.entries import Seal
from gitsession.sessions.node import Node
from gitsession.store import refs


@dataclass(frozen=True, slots=True)
class Finding:
    """``where``: a ref, a file or an object; ``what``: what is wrong there. ``ref``: the branch that leads there."""

    where: str
    what: str
    ref: str = ""

    @property
    def session(self) -> str:
        """The session that is hit; "" where none is, or several."""
        parsed = refs.parse(self.ref)
        return parsed[0] if parsed else ""


@dataclass(frozen=True, slots=True)
class CheckCoverage:
    """Progress of the round that checks of parts go on with (``verify/store_check.py``).

    ``sessions`` of ``of`` and ``entries`` were checked since ``since_ms``. ``ended``: with this part, so that the next
    one begins anew. ``before_ms``: when the round before it ended, ``None`` where none did.
    """

    since_ms: int
    sessions: int
    of: int
    entries: int
    ended: bool
    before_ms: int | None


State: TypeAlias = signing.State | Literal["gone", "misplaced", "altered"]
"""``gone``: the sealed line is no longer there. ``misplaced``: it is of another session, or counts other entries.
``altered``: something stands on the line in the place of an entry, and no purge and no redaction says so.
"""


@dataclass(frozen=True, slots=True)
class SealCheck:
    """A seal that was looked at. ``by``: who signed. ``after``: how many entries the branch has behind what is sealed;
    ``None`` where the branch does not hold it. ``purged``: in the place of how many of its entries a tombstone stands,
    or what a redaction put there.
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
        """That nobody can tell is not wrong."""
        return self.state in ("bad", "revoked", "gone", "misplaced", "altered")


@dataclass
class Report:
    """``checked``: entries; ``whole``: false where time or a sample left entries out; ``covered``: what was checked
    by this part and those before it, ``None`` where it is none that others go on with.

    ``problems``: what nobody honest wrote so, or what was lost since. ``notices``: what is odd, and yet as an agent or
    a program wrote it; ``None`` where nobody asked.
    """

    checked: int = 0
    whole: bool = True
    problems: list[Finding] = field(default_factory=list)
    notices: list[Finding] | None = None
    covered: CheckCoverage | None = None
    seals: list[SealCheck] = field(default_factory=list)

    def add(self, where: str, what: str, ref: str = "") -> None:
        self.problems.append(Finding(where, what, ref))
