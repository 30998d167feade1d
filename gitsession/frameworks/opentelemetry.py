"""A span exporter of OpenTelemetry that keeps the conversations of a program as sessions (docs/reference/otlp.md)."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import StatusCode, format_span_id, format_trace_id

from gitsession.api import Store
from gitsession.errors import GitSessionError
from gitsession.frameworks.keyed_sessions import session_folder
from gitsession.frameworks.traces import AnswerSpan, TraceRecorder, answer_of


class GitSessionSpanExporter(SpanExporter):
    """Append the answers among the exported spans to the sessions of their conversations.

    Spans that are not about an answer of a model are ignored, so it can be added to any program that is traced with the
    semantic conventions for generative AI, also beside another exporter.
    """

    def __init__(self, store: Store, *, cwd: str | None = None) -> None:
        """Wrap a store.

        Args:
            store: The open store. The caller closes it after the exporter was shut down.
            cwd: The working directory of a new session. Defaults to that of the process.
        """
        self._recorder = TraceRecorder(store, cwd=session_folder(cwd))

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Store the answers of a batch. They are durable when this method returns."""
        answers = [answer for span in spans if (answer := _answer(span)) is not None]
        try:
            self._recorder.record(answers)
        except (GitSessionError, OSError):
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Return True: every exported answer is already stored."""
        return True


def _answer(span: ReadableSpan) -> AnswerSpan | None:
    context = span.get_span_context()
    if context is None:
        return None
    found = answer_of(span.resource.attributes, span.attributes or {}, format_trace_id(context.trace_id))
    if found is None:
        return None
    failed = span.status.status_code is StatusCode.ERROR
    return found._replace(
        begin_ms=(span.start_time or 0) // 1_000_000,
        end_ms=(span.end_time or 0) // 1_000_000,
        id=format_span_id(context.span_id),
        error=(span.status.description or "") if failed else None,
    )
