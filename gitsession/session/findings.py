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


@dataclass
class Report:
    """``checked``: entries; ``whole``: false where time or a sample left entries out.

    ``problems``: what nobody honest wrote so, or what was lost since. ``notices``: what is odd, and yet as an agent or
    a program wrote it; ``None`` where nobody asked.
    """

    checked: int = 0
    whole: bool = True
    problems: list[Finding] = field(default_factory=list)
    notices: list[Finding] | None = None

    def add(self, where: str, what: str, ref: str = "") -> None:
        self.problems.append(Finding(where, what, ref))
