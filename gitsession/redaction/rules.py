"""The rules that every store goes by (docs/explanation/secrets.md). Of two that find the same, the first names it."""

from __future__ import annotations

from gitsession.redaction.contexts import CONTEXTS
from gitsession.redaction.rule import Rule
from gitsession.redaction.tokens import TOKENS

__all__ = ["RULES", "Rule"]

RULES: tuple[Rule, ...] = (*TOKENS, *CONTEXTS)
