"""What a commit message says of an entry: a few words, taken from the payload once and for ever.

A message is part of a commit's id, so how it is made is frozen under a number (docs/format.md, "The commit message").
``Headline`` is what the makers of views (``codec`` for our payloads, ``formats`` for agents') hand to the writer of
messages: it says which words, the writer says how they are cleaned, cut and laid out.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Headline:
    """``kind``: the ``Entry`` trailer; ``role``: the author; ``label``: what stands before the colon of the subject.

    ``at_ms``: the time the payload states, ``None`` if it states none (the entry then takes its parent's).
    """

    kind: str
    role: str = "session"
    label: str
    words: str = ""
    calls: int = 0
    body: str = ""
    model: str = ""
    at_ms: int | None = None

    def at(self, at_ms: int | None) -> Headline:
        """The same, of a payload that states this time."""
        return Headline(
            kind=self.kind, role=self.role, label=self.label, words=self.words, calls=self.calls, body=self.body,
            model=self.model, at_ms=at_ms,
        )  # fmt: skip


TOMBSTONE = "tombstone"
"""Kind and author of what stands where a purged entry stood; here, so that who reads commits need not load entries."""

VIEW = 1
"""The number that new sessions begin with. A session keeps the number its root states."""
