"""What a store asks before it keeps anything: what of it is secret, and where the original goes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gitsession.redaction import heuristics
from gitsession.redaction.payloads import Redacted, find, redact
from gitsession.redaction.rules import RULES
from gitsession.redaction.scan import Scanner

if TYPE_CHECKING:
    from gitsession.redaction.vault import Vault


class Guard:
    """Rules and a vault."""

    def __init__(self, scanner: Scanner, vault: Vault) -> None:
        self.scanner = scanner
        self.vault = vault

    @classmethod
    def by(cls, vault: Vault, rules: str = "") -> Guard:
        """By our rules, and by those of the file ``rules``. Raises ``NotFound`` and ``Refused``."""
        return cls(scanner(rules), vault)

    def redact(self, form: str, payload: bytes) -> Redacted:
        """See ``payloads.redact``."""
        return redact(form, payload, self.scanner)

    def words(self, text: str) -> str:
        """A text that stands beside an entry and not in it, without its secrets."""
        data = text.encode("utf-8", "surrogatepass")
        return self.redact("text", data).payload.decode("utf-8", "surrogatepass")

    def in_file(self, data: bytes) -> str | None:
        """See the function of this name."""
        return in_file(data, self.scanner)


def scanner(rules: str = "") -> Scanner:
    """One that goes by our rules, and by those of the file ``rules``. Raises ``NotFound`` and ``Refused``."""
    if not rules:
        return Scanner()
    from gitsession.redaction import own_rules  # few have any: who has none does not wait for it

    own = own_rules.read(Path(rules))
    return Scanner([rule for rule in RULES if rule.name not in own.off], own.rules, own.allow)


def in_file(data: bytes, scanner: Scanner) -> str | None:
    """The rule by which a file holds a secret; ``None`` where it holds none, or is no text."""
    data = heuristics.in_utf8(data)
    if not heuristics.is_text(data) or not scanner.may_hold(data):
        return None
    return next((hit.rule for hit in find(data, scanner)), None)
