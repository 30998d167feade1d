"""What a commit message says of a span of Aider's history. FROZEN under view 1, as ``pi.headline`` is."""

from __future__ import annotations

from gitsession.formats.aider import parse as words
from gitsession.formats.aider.parse import SpanKind, kind_of
from gitsession.formats.base.fields import to_ms
from gitsession.model.headline import Headline, first_line


def headline_of(payload: bytes) -> Headline:
    """The headline of a span."""
    match kind_of(payload):
        case SpanKind.RUN:
            return _run(payload)
        case SpanKind.USER:
            return _prompt(words.prompt(payload))
        case SpanKind.TOOL:
            return _output(words.output(payload))
        case SpanKind.ANSWER:
            text = words.answer(payload)
            return Headline(kind="message", role="assistant", label="assistant", words=first_line(text), body=text)
        case SpanKind.BLANK:
            return Headline(kind="opaque", label="opaque", words="blank lines")


def _run(payload: bytes) -> Headline:
    run = words.run(payload)
    how = ", ".join(filter(None, (f"Aider {run.version}" if run.version else "", run.model)))
    return Headline(
        kind="custom" if run.restored else "reset",
        label="run goes on" if run.restored else "run",
        words=" ".join(filter(None, (run.started, how))),
        model=run.model if "/" in run.model else "",
        at_ms=to_ms(run.started),
    )


def _prompt(text: str) -> Headline:
    if words.is_command(text):
        return Headline(kind="custom", label="command", words=first_line(text))
    return Headline(kind="message", role="user", label="user", words=first_line(text), body=text)


def _output(lines: list[str]) -> Headline:
    if any(line in words.CLEARED for line in lines):
        return Headline(kind="reset", label="cleared")
    made = words.commits(lines)
    if made:
        return Headline(kind="custom", label="commit", words=f"{made[-1].hash} {made[-1].message}")
    return Headline(kind="custom", label="output", words=next(filter(None, lines), ""))
