"""Reader of JSON lines that other programs write, with limits, so that no input can exhaust the memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, BinaryIO, NoReturn

from gitsession.errors import Malformed

LINE_BYTES_MAX = 64 * 1024 * 1024
"""Maximum size in bytes of a line. A payload of 16 MiB fits, even if each of its quotation marks is escaped."""

_SKIPPED_BYTES = 1 << 20


def lines(stream: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """Yield the number and the content of each line that is not blank; ``None`` for a line that is too long."""
    number = 0
    while line := stream.readline(LINE_BYTES_MAX + 1):
        number += 1
        if len(line) > LINE_BYTES_MAX:
            while line and not line.endswith(b"\n"):
                line = stream.readline(_SKIPPED_BYTES)
            yield number, None
        elif not line.isspace():
            yield number, line


def parse(line: bytes | None) -> Any:
    """Return the value of a line that ``lines`` yielded. Raises ``Malformed``."""
    if line is None:
        raise Malformed(f"the line is too long (limit: {LINE_BYTES_MAX:,} bytes)")
    try:
        return json.loads(line, parse_constant=_refuse)
    except RecursionError:
        raise Malformed("invalid JSON: the values are nested too deeply") from None
    except ValueError as error:
        raise Malformed(f"invalid JSON: {error}") from None


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")
