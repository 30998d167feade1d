"""What a check of a store found."""

from __future__ import annotations

from dataclasses import dataclass, field

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
class Covered:
    """How far the round has come that checks of parts go on with (``session/rounds.py``).

    ``sessions`` of ``of`` and ``entries`` were checked since ``since_ms``. ``ended``: with this part, so that the next
    one begins anew. ``before_ms``: when the round before it ended, ``None`` where none did.
    """

    since_ms: int
    sessions: int
    of: int
    entries: int
    ended: bool
    before_ms: int | None


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
    covered: Covered | None = None

    def add(self, where: str, what: str, ref: str = "") -> None:
        self.problems.append(Finding(where, what, ref))
