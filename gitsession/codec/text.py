"""Text that cannot drive a terminal or hide words. FROZEN under view 1: commit messages are cleaned by it.

No table of Unicode properties is consulted: those change with the release of Python.
"""

from __future__ import annotations

import re

_SURROGATES = re.compile("[\ud800-\udfff]")
_UNSAFE = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)


def clean(text: str) -> str:
    """``text`` without control, bidirectional and invisible characters; line ends stay, a tab becomes a space."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSAFE.sub("", _SURROGATES.sub("\ufffd", text.replace("\t", " ")))
