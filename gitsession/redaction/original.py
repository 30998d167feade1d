"""What a payload was before secrets were taken out of it, and how what stands in their place begins.

Apart from the rules, which who only reads need not load.
"""

from __future__ import annotations

from dataclasses import dataclass

OPENS = "[redacted:"
"""How a placeholder begins."""


@dataclass(frozen=True, slots=True)
class Original:
    """A payload as its writer wrote it. ``digest`` and ``chain``: of the entry that has it redacted, 32 bytes each.

    ``source``: ``<agent> <id> <line>`` of an entry that was imported, else "".
    """

    digest: bytes
    chain: bytes
    payload: bytes
    source: str = ""
