"""The commit message of an entry, view 1. FROZEN: a message is part of an oid; other words need another view number.

The rules stand in docs/format.md, "The commit message".
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, unquote_to_bytes

from gitsession.codec.digest import from_base64url, to_base64url
from gitsession.codec.text import clean
from gitsession.errors import Malformed
from gitsession.model.headline import Headline

SUBJECT_MAX, LABEL_MAX, TRAILER_MAX = 72, 40, 200
BODY_BYTES_MAX = 1024
SOURCE_ID_MAX = 128


@dataclass(frozen=True, slots=True)
class SourceRef:
    """Where an imported entry stands: the agent, its own id there (``None`` if it has none), the line."""

    agent: str
    id: str | None
    line: int

    def __str__(self) -> str:
        return f"{self.agent}/{_encode_id(self.id)} {self.line}"


@dataclass(frozen=True, slots=True)
class Trailers:
    """What the last block of a message states."""

    entry: str
    chain: bytes
    source: SourceRef | None
    model: str


def render(headline: Headline, chain: bytes, source: SourceRef | None) -> bytes:
    """The message of an entry, with its final line end."""
    subject, whole = _subject(headline)
    lines = [subject, ""]
    body = _body(headline.body)
    if body and not (whole and body == headline.words.strip()):
        lines += [f"    {line}" if line else "" for line in body.split("\n")]
        lines.append("")
    lines.append(f"Entry: {_one_line(headline.kind, TRAILER_MAX)}")
    lines.append(f"Chain: {to_base64url(chain)}")
    if source is not None:
        lines.append(f"Source: {source}")
    if headline.model:
        lines.append(f"Model: {_one_line(headline.model, TRAILER_MAX)}")
    lines.append("")
    return "\n".join(lines).encode()


def subject_of(message: bytes) -> str:
    return message.partition(b"\n")[0].decode("utf-8", "replace")


def trailers_of(message: bytes) -> Trailers:
    """What the trailers say. Raises ``Malformed`` where an entry's are missing or not ours."""
    found: dict[str, str] = {}
    last_block = message.rstrip(b"\n").rpartition(b"\n\n")[2]
    for line in last_block.decode("utf-8", "replace").split("\n"):
        key, _, value = line.partition(": ")
        found.setdefault(key, value)
    try:
        return Trailers(
            found["Entry"],
            _chain(found["Chain"]),
            _source(found["Source"]) if "Source" in found else None,
            found.get("Model", ""),
        )
    except KeyError as missing:
        raise Malformed(f"no {missing.args[0]} trailer", where="message") from None
    except ValueError as error:
        raise Malformed(str(error), where="message") from None


def _subject(headline: Headline) -> tuple[str, bool]:
    """The first line, and whether it holds all the words."""
    label = _one_line(headline.label, LABEL_MAX) or "entry"
    calls = "" if not headline.calls else " (+1 tool)" if headline.calls == 1 else f" (+{headline.calls} tools)"
    words = _one_line(headline.words, None)
    if not words:
        return label + calls, True
    room = SUBJECT_MAX - len(label) - len(": ") - len(calls)
    return f"{label}: {_cut(words, room)}{calls}", len(words) <= room


def _body(text: str) -> str:
    if not text:
        return ""
    # What is cut first need not be cleaned: an excerpt never needs more than four times its bytes in characters.
    lines = [line.rstrip() for line in clean(text[: BODY_BYTES_MAX * 4]).split("\n")]
    body = "\n".join(lines).strip("\n")
    data = body.encode()
    if len(data) <= BODY_BYTES_MAX:
        return body
    return data[: BODY_BYTES_MAX - len(" …".encode())].decode("utf-8", "ignore").rstrip() + " …"


def _one_line(text: str, limit: int | None) -> str:
    folded = " ".join(clean(text[:4096]).split())
    return folded if limit is None else _cut(folded, limit)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def _encode_id(source_id: str | None) -> str:
    if source_id is None:
        return "-"
    if source_id == "-":
        return "%2D"
    return quote(source_id.encode("utf-8", "surrogatepass"), safe="")[:SOURCE_ID_MAX]


def _chain(text: str) -> bytes:
    value = from_base64url(text)
    if len(value) != 32:
        raise ValueError("a chain of another length")
    return value


def _source(text: str) -> SourceRef:
    agent_and_id, _, line = text.rpartition(" ")
    agent, _, encoded = agent_and_id.partition("/")
    source_id = None if encoded == "-" else unquote_to_bytes(encoded).decode("utf-8", "surrogatepass")
    return SourceRef(agent, source_id, int(line))
