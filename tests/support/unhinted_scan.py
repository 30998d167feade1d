"""A scanner without the pre-check. It must find the same secrets as the scanner with the pre-check."""

from __future__ import annotations

import re

from gitsession.redaction import scan
from gitsession.redaction.guard import Guard
from gitsession.redaction.scan import RUN_MIN, Scanner

NONCE = bytes(16)
RUN = re.compile(rb"[A-Za-z0-9_\-./+=~:$@%%]{%d,}" % RUN_MIN)


class Plain(Scanner):
    """A scanner that applies each pattern to all text, at every depth."""

    def may_hold(self, data):
        return True

    def mentioning(self, texts):
        return set(range(len(texts)))

    def _found(self, data):
        lower = data.lower()
        runs = [found.span() for found in RUN.finditer(data)]
        for rule in self.rules:
            for word in rule.words:
                for hit in scan._hits(rule, word, data, lower if rule.folds else data):
                    if not rule.is_token or any(start <= hit.start < end for start, end in runs):
                        yield hit


SCANNER, PLAIN = Scanner(), Plain()
GUARD, PLAIN_GUARD = Guard(SCANNER), Guard(PLAIN)


def check(form, data):
    """Fail unless both scanners return the same result for ``data``, alone and among other payloads."""
    expected = PLAIN_GUARD.redact(form, data)
    assert GUARD.redact(form, data) == expected
    if expected.rows and form != "cbor":
        assert SCANNER.suspects([b"before", data, b"after"]) >= {1}
    if expected.rows:
        assert GUARD.suspects([("text", b"before"), (form, data), ("cbor", NONCE), (form, data)]) >= {1, 3}
