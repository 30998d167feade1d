"""A model behind an HTTP API: OpenAI's Chat or Responses, Anthropic's Messages, or a server that speaks one of them.

The key is looked up when it is needed, in the variable that the options name; it goes into one header and into no
error, log or value of ours. Nothing is sent anywhere but to the address that was set: no redirect is followed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import ClassVar
from urllib.parse import urlsplit
from urllib.request import Request as Outgoing

from gitsession.compaction.prompts import Writer, named
from gitsession.compaction.summarizers import wire
from gitsession.compaction.summarizers.calls import LOCAL, Answer, Call
from gitsession.compaction.summarizers.options import Options
from gitsession.compaction.summary import Progress, Request, Summary
from gitsession.errors import SummaryFailed

RETRY_AFTER_S_MAX = 60.0

_ERROR_CHARS_MAX = 300
_LOOK_S = 0.05
_KEY = "[key]"


def make(options: Options) -> Http:
    """Raises ``SummaryFailed`` for an address or a key that should not be used."""
    if not options.url:
        raise SummaryFailed(
            "no address is set", hint="name it: --summarizer-url, or git config gitsession.summarizerUrl"
        )
    if not options.model:
        raise SummaryFailed("no model is set", hint="name it: --model, or git config gitsession.summarizerModel")
    try:
        address = urlsplit(options.url)
        address.port  # noqa: B018 - raises for one that is no number
    except ValueError:
        raise SummaryFailed("gitsession.summarizerUrl is no address") from None
    if address.scheme not in ("http", "https") or not address.hostname:
        raise SummaryFailed("gitsession.summarizerUrl is no address of http or https")
    if address.username or address.password or address.query or address.fragment:
        raise SummaryFailed(
            "gitsession.summarizerUrl holds more than a host and a path",
            hint="a key belongs into an environment variable; gitsession.summarizerKey names it",
        )
    if options.key_name and address.scheme == "http" and address.hostname not in LOCAL:
        raise SummaryFailed("a key would be sent without encryption", hint="set an address that begins with https")
    return Http(
        api=wire.APIS[options.api],
        url=options.url.rstrip("/"),
        model=options.model,
        key_name=options.key_name,
        environ=options.environ,
        time_limit_s=options.time_limit_s,
        write_prompt=named(options.prompt),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Http:
    NAME: ClassVar[str] = "http"

    api: wire.Api
    url: str
    model: str
    key_name: str
    environ: Mapping[str, str] = field(repr=False)
    time_limit_s: float
    write_prompt: Writer

    def summarise(self, request: Request, *, progress: Progress, cancelled: Event) -> Summary:
        prompt = self.write_prompt(request)
        key = self._key()
        body = json.dumps(self.api.body(self.url, self.model, prompt, request.max_tokens)).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json", **self.api.headers(key)}
        outgoing = Outgoing(self.api.address(self.url), body, headers, method="POST")
        deadline = time.monotonic() + self.time_limit_s
        host = urlsplit(self.url).hostname
        progress(f"{self.model} at {host} reads {len(body)} bytes")
        status, answer, wait_s = self._ask(outgoing, deadline, cancelled)
        if status == 429 or status >= 500:
            progress(f"{host} answers {status}; once more in {wait_s:g} s")
            if time.monotonic() + wait_s >= deadline or wait_s > RETRY_AFTER_S_MAX:
                raise SummaryFailed(f"{host} answers {status} and asks to wait {wait_s:g} s")
            if cancelled.wait(wait_s):
                raise SummaryFailed("cancelled")
            status, answer, _ = self._ask(outgoing, deadline, cancelled)
        if status != 200:
            raise SummaryFailed(f"{host} answers {status}{_without(key, wire.complaint(answer))}")
        summary = self._read(answer)
        if summary is None:
            raise SummaryFailed(f"{host} gives an answer that {self.api.name} does not have")
        # A server that answers with what it was sent must not get the key into an entry.
        return replace(summary, text=summary.text.replace(key, _KEY)) if key else summary

    def _read(self, answer: bytes) -> Summary | None:
        try:
            return self.api.read(json.loads(answer))
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
            return None  # the error itself holds what was read, in which a server may have quoted the key

    def _key(self) -> str:
        if not self.key_name:
            return ""
        key = self.environ.get(self.key_name, "").strip()
        if not key:
            raise SummaryFailed(f"the environment has no {self.key_name}", hint="gitsession.summarizerKey names it")
        if not (key.isascii() and key.isprintable()):
            raise SummaryFailed(f"what {self.key_name} holds is no key: it has characters that no header may have")
        return key

    def _ask(self, outgoing: Outgoing, deadline: float, cancelled: Event) -> Answer:
        """Status, body, and the seconds to wait before another try. Raises ``SummaryFailed``.

        A thread asks, so that this one can look up: a socket that says nothing can be left alone, not interrupted.
        """
        host = urlsplit(self.url).hostname
        answers: SimpleQueue[Answer | str] = SimpleQueue()
        left_s = max(deadline - time.monotonic(), 0.0) + 1.0  # its own clock only ends what nobody waits for any more
        call = Call(outgoing, left_s)
        Thread(target=call.run, args=(answers,), name="gitsession-http", daemon=True).start()
        try:
            while True:
                with suppress(Empty):
                    answer = answers.get(timeout=_LOOK_S)
                    break
                if cancelled.is_set():
                    raise SummaryFailed("cancelled")
                if time.monotonic() >= deadline:
                    raise SummaryFailed(f"{host} did not answer within {self.time_limit_s:g} s")
        finally:
            call.give_up()
        if isinstance(answer, str):
            raise SummaryFailed(f"{host} cannot be asked: {answer}")
        return answer


def _without(key: str, text: str) -> str:
    """A server's complaint for an error of ours: short, on one line, and not quoting the key."""
    words = " ".join((text.replace(key, _KEY) if key else text).split())[:_ERROR_CHARS_MAX]
    return f": {words}" if words else ""
