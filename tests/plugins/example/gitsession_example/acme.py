"""A rule for the keys of a company, which have a checksum as their last digit."""

from gitsession.redaction.rule import Rule


def has_checksum(key: bytes) -> bool:
    """Return whether the last digit of a key is the sum of the others, modulo ten."""
    digits = [int(chr(char)) for char in key.removeprefix(b"acme_")]
    return sum(digits[:-1]) % 10 == digits[-1]


RULES = [
    Rule(
        "acme-key",
        rb"acme_[0-9]{16}(?![0-9])",
        (b"acme_",),
        check=has_checksum,
        samples=("acme_1234567890123450",),
        never=("acme_1234567890123451", "acme_12"),
    )
]
