"""The commit message of an entry, view 1. FROZEN: a message is part of an oid; a change needs another view number.

The rules are in docs/reference/format.md, "The commit message". This module uses no table of Unicode properties,
because these tables change between Python releases.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from gitsession.codec.digest import HASH_BYTES, from_base64url, to_base64url
from gitsession.dataclass import dataclass
from gitsession.errors import Malformed
from gitsession.model.headline import Headline, clean
from gitsession.pattern import pattern

SUBJECT_MAX, LABEL_MAX, TRAILER_MAX = 72, 40, 200
BODY_BYTES_MAX = 1024
SOURCE_ID_MAX = 128
CHARACTERS_MAX = 4096
"""Maximum number of characters that a message uses of a text. Later characters of the text are ignored."""

_SPACES = "\n \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_RUN = pattern(f"[{_SPACES}]+")
_DIGEST = pattern(r"[0-9a-f]{64}")
_UNQUOTED = pattern(rf"[A-Za-z0-9._~-]{{1,{SOURCE_ID_MAX}}}")
_SOURCE = pattern(r"(?P<agent>[^/ ]+)/(?P<id>[A-Za-z0-9._~%-]*) (?P<line>0|[1-9][0-9]{0,17})")

_TRAILERS = pattern(
    rb"Entry: ([a-z_]{1,40})\nChain: ([A-Za-z0-9_-]{42}[AEIMQUYcgkosw048])\n"
    rb"(?:Source: ([a-z]{1,40}/[A-Za-z0-9._-]{1,128} (?:0|[1-9][0-9]{0,17}))\n)?(?:Model: ([ -~]{1,200})\n)?\Z"
)
"""The trailers of most entries, for fast parsing. Other trailers are parsed line by line."""


@dataclass(frozen=True, slots=True)
class SourceRef:
    """The origin of an imported entry.

    ``id``: the agent's id of the entry, or ``None``. ``line``: the line in the file.
    """

    agent: str
    id: str | None
    line: int

    def __str__(self) -> str:
        return f"{self.agent}/{_encode_id(self.id)} {self.line}"

    @classmethod
    def of(cls, agent: str, id: str | None, line: int) -> SourceRef:
        """Return a reference with the id truncated to the maximum length in a trailer."""
        return cls(agent, id and _cut_id(id), line)


class Trailers(NamedTuple):
    """The trailers of a message. ``replaces``: the digest of the entry that this entry replaced, or empty."""

    entry: str
    chain: bytes
    source: SourceRef | None
    model: str
    replaces: bytes = b""


def render(headline: Headline, chain: bytes, source: SourceRef | None, replaces: bytes = b"") -> bytes:
    """Return the message of an entry, including the final line feed. ``replaces``: see ``Trailers``."""
    subject, text = _subject(headline)
    lines = [subject, ""]
    body = _body(headline.body)
    if body and (text is None or _folded(body, SUBJECT_MAX) != text):
        lines += [f"    {line}" if line else "" for line in body.split("\n")]
        lines.append("")
    lines.append(f"Entry: {kind_of(headline)}")
    lines.append(f"Chain: {to_base64url(chain)}")
    if source is not None:
        lines.append(f"Source: {source}")
    if headline.model:
        lines.append(f"Model: {model_of(headline)}")
    if replaces:
        lines.append(f"Replaces: {replaces.hex()}")
    lines.append("")
    return "\n".join(lines).encode()


def kind_of(headline: Headline) -> str:
    """Return the kind for the ``Entry`` trailer."""
    return _one_line(headline.kind, TRAILER_MAX - len("Entry: "))


def model_of(headline: Headline) -> str:
    """Return the model for the ``Model`` trailer."""
    return _one_line(headline.model, TRAILER_MAX - len("Model: "))


def subject_of(message: bytes) -> str:
    return message.partition(b"\n")[0].decode("utf-8", "replace")


def text_of(headline: Headline) -> str:
    """Return the subject without its label."""
    return _subject(headline)[0].partition(": ")[2]


def trailers_of(message: bytes) -> Trailers:
    """Return the trailers of a message. Raises ``Malformed`` if one is missing or invalid."""
    end = message.rfind(b"\n\n")
    plain = _TRAILERS.match(message, end + 2) if end >= 0 else None
    if plain is not None:
        entry, chain, source, model = plain.groups(b"")
        source_ref = _source(source.decode()) if source else None
        return Trailers(entry.decode(), from_base64url(chain.decode()), source_ref, model.decode())
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
            _digest(found["Replaces"]) if "Replaces" in found else b"",
        )
    except KeyError as missing:
        raise Malformed(f"no {missing.args[0]} trailer", where="message") from None
    except ValueError as error:
        raise Malformed(str(error), where="message") from None


def _subject(headline: Headline) -> tuple[str, str | None]:
    """Return the subject, and its text as one line. The text is ``None`` if the subject contains only the beginning."""
    label = _one_line(headline.label, LABEL_MAX)
    if not label or label.startswith("---"):  # for git, a line that begins with ``---`` ends a message
        label = _cut(f"entry {label}".rstrip(), LABEL_MAX)
    calls = "" if not headline.calls else " (+1 tool)" if headline.calls == 1 else f" (+{headline.calls} tools)"
    text = _folded(clean(headline.words[:CHARACTERS_MAX]), SUBJECT_MAX)
    if not text:
        return label + calls, text
    room = SUBJECT_MAX - len(label) - len(": ") - len(calls)
    return f"{label}: {_cut(text, room)}{calls}", text if len(text) <= room else None


def _body(text: str) -> str:
    if not text:
        return ""
    lines = [line.rstrip(_SPACES) for line in clean(text[:CHARACTERS_MAX]).split("\n")]
    body = "\n".join(lines).strip("\n")
    data = body.encode()
    if len(data) <= BODY_BYTES_MAX:
        return body
    return data[: BODY_BYTES_MAX - len(" …".encode())].decode("utf-8", "ignore").rstrip(_SPACES) + " …"


def _one_line(text: str, limit: int) -> str:
    return _cut_line(text[:CHARACTERS_MAX], limit)


@functools.lru_cache(maxsize=256)  # only a few kinds, labels and models exist, and each is used often
def _cut_line(text: str, limit: int) -> str:
    return _cut(_folded(clean(text), limit), limit)


def _folded(text: str, limit: int) -> str:
    """Return the clean ``text`` on one line with single spaces.

    Long text may be cut anywhere after ``limit`` characters.
    """
    if text.isascii():
        # In clean ASCII text, ``split`` splits only at spaces and line feeds. A line of ``limit // 2 + 1`` words is
        # longer than ``limit``.
        return " ".join(text.split(None, limit // 2 + 1))
    return _RUN.sub(" ", text).strip(" ")


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip(" ") + "…"


def _encode_id(source_id: str | None) -> str:
    if source_id is None:
        return "-"
    if source_id == "-":
        return "%2D"
    if _UNQUOTED.fullmatch(source_id):
        return source_id
    return _quoted(_cut_id(source_id))


def _cut_id(source_id: str) -> str:
    """Truncate ``source_id`` to the length that a trailer can hold after quoting."""
    widest = len("%2F") if source_id.isascii() else len("%F0%9F%98%80")
    if len(source_id) * widest <= SOURCE_ID_MAX:
        return source_id
    room = SOURCE_ID_MAX
    for at, character in enumerate(source_id[: SOURCE_ID_MAX + 1]):
        room -= len(_quoted(character))
        if room < 0:
            return source_id[:at]
    return source_id


def _quoted(text: str) -> str:
    from urllib.parse import quote  # slow to import, and needed for few ids

    return quote(text.encode("utf-8", "surrogatepass"), safe="")


def _chain(text: str) -> bytes:
    value = from_base64url(text)
    if len(value) != HASH_BYTES:
        raise ValueError(f"expected a chain digest of {HASH_BYTES} bytes")
    return value


def _digest(text: str) -> bytes:
    if not _DIGEST.fullmatch(text):
        raise ValueError(f"not a digest: {text[:80]!r}")
    return bytes.fromhex(text)


def _source(text: str) -> SourceRef:
    found = _SOURCE.fullmatch(text)
    if not found:
        raise ValueError(f"not a source: {text[:80]!r}")
    encoded = found["id"]
    source_id: str | None = encoded
    if encoded == "-":
        source_id = None
    elif "%" in encoded:
        from urllib.parse import unquote_to_bytes

        source_id = unquote_to_bytes(encoded).decode("utf-8", "surrogatepass")
    return SourceRef(found["agent"], source_id, int(found["line"]))
