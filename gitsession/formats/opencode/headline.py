"""Headlines of the commit messages for opencode's records. This module is FROZEN under view 1 (see ``pi.headline``)."""

from __future__ import annotations

from typing import Any

from gitsession.formats.base.fields import object_in, plain, text_of, to_ms
from gitsession.formats.base.jsonl import LineFailure, Object, parse
from gitsession.formats.opencode.records import created_ms
from gitsession.model.headline import Headline, first_line


def headline_of(payload: bytes, parsed: Object | LineFailure | None = None) -> Headline:
    """Return the headline of a record, of a session description, or of the tail. Never raises.

    ``parsed``: the parsed payload, if it is known.
    """
    record = parse(payload) if parsed is None else parsed
    if isinstance(record, LineFailure):
        return Headline(kind="opaque", label="opaque", words=f"{len(payload)} bytes that do not parse")
    info, parts = record.get("info"), record.get("parts")
    if isinstance(info, dict) and isinstance(parts, list):
        return _message(info, parts).at(created_ms(info))
    messages = record.get("messages")
    if isinstance(info, dict):
        is_document = isinstance(messages, list)
        words = "as it is written" if is_document else plain(info.get("directory"))
        return Headline(
            kind="session", label="document" if is_document else "session", words=words, at_ms=created_ms(info)
        )
    if isinstance(messages, list) and len(messages) == 2:
        return _compaction(messages[0], messages[1])
    marks = record.get("compacted")
    if isinstance(marks, dict):
        words = "1 result" if len(marks) == 1 else f"{len(marks)} results"
        return Headline(kind="prune", label="prune", words=words, at_ms=to_ms(next(iter(marks.values()), None)))
    if isinstance(record.get("in full"), list):
        return Headline(kind="in_full", label="message as it stands")
    waiting = record.get("waiting")
    if isinstance(waiting, list):
        words = "1 message" if len(waiting) == 1 else f"{len(waiting)} messages"
        return Headline(kind="waiting", label="waiting", words=words)
    return Headline(kind="unknown", label="unknown")


def _message(info: Object, parts: list[Any]) -> Headline:
    found = [part for part in parts if isinstance(part, dict)]
    role = info.get("role")
    text = text_of(found)
    if role == "user":
        if any(part.get("type") == "compaction" for part in found):
            return Headline(kind="custom", label="compaction asked for")
        return Headline(kind="message", role="user", label="user", words=first_line(text), body=text)
    if role != "assistant":
        return Headline(kind="message", role="other", label="message", words=first_line(text))
    called = [plain(part.get("tool")) for part in found if part.get("type") == "tool"]
    words = first_line(text) or ", ".join(called) or plain(object_in(info, "error").get("name"))
    model = _model(info)
    return Headline(
        kind="message", role="assistant", label="assistant", words=words, calls=len(called), body=text, model=model
    )


def _compaction(request: Any, answer: Any) -> Headline:
    info = object_in(answer, "info") if isinstance(answer, dict) else {}
    parts = answer.get("parts") if isinstance(answer, dict) else None
    found = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    prompt = request.get("parts") if isinstance(request, dict) else None
    automatic = isinstance(prompt, list) and any(isinstance(part, dict) and part.get("auto") is True for part in prompt)
    return Headline(
        kind="compaction", label="compaction", words="automatic" if automatic else "", body=text_of(found),
        model=_model(info), at_ms=created_ms(info),
    )  # fmt: skip


def _model(info: Object) -> str:
    provider, model = info.get("providerID"), info.get("modelID")
    return f"{provider}/{model}" if isinstance(provider, str) and isinstance(model, str) else ""
