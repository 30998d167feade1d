"""Headlines of the commit messages for Aider's spans. This module is FROZEN under view 1 (see ``pi.headline``)."""

from __future__ import annotations

from gitsession.formats.aider import split_file
from gitsession.formats.aider.split_file import SpanKind, kind_of
from gitsession.formats.base.fields import to_ms
from gitsession.model.headline import Headline, first_line


def headline_of(payload: bytes, parsed: object = None) -> Headline:
    """Return the headline of a span."""
    match kind_of(payload):
        case SpanKind.RUN:
            return _run(payload)
        case SpanKind.USER:
            return _prompt(split_file.prompt(payload))
        case SpanKind.TOOL:
            return _output(split_file.output(payload))
        case SpanKind.ANSWER:
            text = split_file.answer(payload)
            return Headline(kind="message", role="assistant", label="assistant", words=first_line(text), body=text)
        case SpanKind.BLANK:
            return Headline(kind="opaque", label="opaque", words="blank lines")


def _run(payload: bytes) -> Headline:
    run = split_file.run(payload)
    how = ", ".join(filter(None, (f"Aider {run.version}" if run.version else "", run.model)))
    return Headline(
        kind="custom" if run.restored else "reset",
        label="run goes on" if run.restored else "run",
        words=" ".join(filter(None, (run.started, how))),
        model=run.model if "/" in run.model else "",
        at_ms=to_ms(run.started),
    )


def _prompt(text: str) -> Headline:
    if split_file.is_command(text):
        return Headline(kind="custom", label="command", words=first_line(text))
    return Headline(kind="message", role="user", label="user", words=first_line(text), body=text)


def _output(lines: list[str]) -> Headline:
    if any(line in split_file.CLEARED for line in lines):
        return Headline(kind="reset", label="cleared")
    commits = split_file.commits(lines)
    if commits:
        return Headline(kind="custom", label="commit", words=f"{commits[-1].hash} {commits[-1].message}")
    return Headline(kind="custom", label="output", words=next(filter(None, lines), ""))
