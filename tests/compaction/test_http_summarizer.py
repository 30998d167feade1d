"""Tests of the http summarizer: requests, responses and bad servers, all on 127.0.0.1."""

import json
import subprocess
import sys
import time
from contextlib import suppress
from email.utils import formatdate

import published
import pytest
from builders import SHARED
from http_models import KEY, chat_answer, hang, model_at, serving
from summaries import REQUEST, cancelled_after, failing

from gitsession.compaction.summarizers.options import Options
from gitsession.compaction.summary import Summary, summarise
from gitsession.errors import SummaryFailed


def responses_answer(text="short", status="completed"):
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    reasoning = {"type": "reasoning", "id": "rs", "summary": []}
    return {"status": status, "output": [reasoning, message], "usage": {"input_tokens": 7, "output_tokens": 3}}


def anthropic_answer(text="short", stop="end_turn"):
    blocks = [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": text}]
    return {"content": blocks, "stop_reason": stop, "usage": {"input_tokens": 7, "output_tokens": 3}}


ANSWERS = {
    "openai-chat": (chat_answer, "length", "/chat/completions", "Authorization", f"Bearer {KEY}"),
    "openai-responses": (responses_answer, "incomplete", "/responses", "Authorization", f"Bearer {KEY}"),
    "anthropic": (anthropic_answer, "max_tokens", "/v1/messages", "X-Api-Key", KEY),
}


@pytest.mark.parametrize("api", ANSWERS)
def test_model_receives_a_request_and_answers(api):
    answer, _, path, header, value = ANSWERS[api]
    heard = []
    with serving((200, {}, answer())) as server:
        assert summarise(model_at(server, api), REQUEST, progress=heard.append) == Summary(
            "short", usage={"input": 7, "output": 3}
        )
        ((asked, headers, body),) = server.heard
    assert (asked, headers[header], body["model"]) == (path, value, "m-1")
    assert "Fix the login redirect" in json.dumps(body)
    assert 4096 in body.values()
    assert KEY not in "".join(heard)


@pytest.mark.parametrize("api", ANSWERS)
def test_truncated_response_is_marked(api):
    answer, cut_off, *_ = ANSWERS[api]
    with serving((200, {}, answer("half", cut_off))) as server:
        assert summarise(model_at(server, api), REQUEST).truncated


@pytest.mark.parametrize("api", ANSWERS)
def test_request_is_valid_for_the_api(api):
    answer = ANSWERS[api][0]
    with serving((200, {}, answer())) as server:
        summarise(model_at(server, api), REQUEST)
        ((_, _, body),) = server.heard
    published.check(api, body)


def test_no_authorization_header_without_a_key():
    with serving((200, {}, chat_answer())) as server:
        summarise(model_at(server, key_name=""), REQUEST)
        ((_, headers, _),) = server.heard
    assert "Authorization" not in headers


@pytest.mark.parametrize("status", [429, 500, 503])
def test_busy_server_is_tried_again_once(status):
    heard = []
    with serving((status, {"Retry-After": "0"}, b""), (200, {}, chat_answer())) as server:
        assert summarise(model_at(server), REQUEST, progress=heard.append).text == "short"
    assert str(status) in heard[1]


def test_busy_server_is_not_tried_a_third_time():
    busy = (503, {"Retry-After": formatdate(time.time() - 5, usegmt=True)}, {"error": {"message": "come back later"}})
    with serving(busy, busy, busy) as server:
        assert failing(model_at(server)) == "the summarizer at 127.0.0.1 returned status 503: come back later"
        assert len(server.heard) == 2


def test_server_with_a_long_retry_delay_is_not_tried_again():
    with serving((429, {"Retry-After": "3600"}, b"")) as server:
        assert "3600 s" in failing(model_at(server))


def test_waiting_for_a_busy_server_can_be_cancelled():
    with serving((429, {"Retry-After": "15"}, b"")) as server:
        assert failing(model_at(server), cancelled=cancelled_after(0.3)) == "the summary was cancelled"


BAD_ANSWERS = {
    "no json": b"<html>",
    "another shape": {"answer": 42},
    "a list": [1],
    "no choice": {"choices": []},
    "deep": b"[" * 100_000,
    "not text": chat_answer({"text": 1}),
}


@pytest.mark.parametrize("body", BAD_ANSWERS.values(), ids=BAD_ANSWERS)
def test_invalid_response_is_reported(body):
    with serving((200, {}, body)) as server:
        assert "invalid openai-chat response" in failing(model_at(server))


def test_empty_response_is_reported():
    with serving((200, {}, chat_answer(None))) as server:
        assert "empty summary" in failing(model_at(server))


def test_an_error_never_quotes_the_key():
    with serving((401, {}, {"error": {"message": f"bad key {KEY} " + "x" * 9999}})) as server:
        message = failing(model_at(server))
    assert "bad key [key]" in message
    assert KEY not in message
    assert len(message) < 400


def test_key_is_in_no_value():
    summarizer = model_at("http://127.0.0.1:1")
    with pytest.raises(SummaryFailed) as caught:
        summarise(summarizer, REQUEST)
    shown = [repr(summarizer), repr(Options(environ={"THE_KEY": KEY})), str(caught.value), repr(caught.value)]
    assert not [words for words in shown if KEY in words]
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("value", ["", "a\nb", "ключ"], ids=["none", "two lines", "no ascii"])
def test_invalid_key_is_reported_and_not_shown(value):
    message = failing(model_at("http://127.0.0.1:1", environ={"THE_KEY": value}))
    assert "THE_KEY" in message
    assert not value or value not in message


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(status):
    with serving() as elsewhere, serving((status, {"Location": f"{elsewhere.url}/x"}, b"")) as server:
        assert f"returned status {status}" in failing(model_at(server))
        assert elsewhere.heard == []


BAD_URLS = {
    "none": "",
    "no scheme": "example.org/v1",
    "a file": "file:///etc/passwd",
    "a password in it": "https://user:secret@example.org",
    "a key in it": "https://example.org/?key=secret",
    "no port": "https://example.org:port",
    "a key without encryption": "http://example.org/v1",
}


@pytest.mark.parametrize("url", BAD_URLS.values(), ids=BAD_URLS)
def test_invalid_address_is_rejected_before_a_request(url):
    with pytest.raises(SummaryFailed) as caught:
        model_at(url)
    assert "secret" not in str(caught.value)


def drip(handler):
    handler.send_response(200)
    handler.end_headers()
    with suppress(OSError):
        while not handler.server.done.wait(0.05):
            handler.wfile.write(b" ")
            handler.wfile.flush()


def break_off(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b"{")


@pytest.mark.parametrize("behaviour", [hang, drip])
def test_a_server_that_never_finishes_is_left_in_time(behaviour):
    with serving(behaviour) as server:
        assert "within 0.5 s" in failing(model_at(server, time_limit_s=0.5))


@pytest.mark.parametrize("behaviour", [hang, drip])
def test_a_server_that_never_finishes_can_be_cancelled(behaviour):
    with serving(behaviour) as server:
        assert failing(model_at(server), cancelled=cancelled_after(0.3)) == "the summary was cancelled"


def test_echoed_key_is_removed_from_the_summary():
    with serving((200, {}, chat_answer(f"you sent Bearer {KEY}"))) as server:
        assert summarise(model_at(server), REQUEST).text == "you sent Bearer [key]"


def test_broken_connection_is_reported():
    with serving(break_off) as server:
        assert "127.0.0.1" in failing(model_at(server))


def test_missing_server_is_reported():
    with serving() as server:
        url = server.url
    assert "failed: " in failing(model_at(url))


def test_local_endpoint_bypasses_the_proxy(monkeypatch):
    with serving() as proxy, serving((200, {}, chat_answer())) as server:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        assert summarise(model_at(server), REQUEST).text == "short"
        assert proxy.heard == []


MOCK = SHARED / "peers" / "agents" / "mock_llm.py"


@pytest.mark.skipif(not MOCK.exists(), reason="needs the mock of the real agents' tests")
@pytest.mark.parametrize("api", ["openai-chat", "anthropic"])
def test_mock_server_of_the_real_agents_is_compatible(tmp_path, api):
    script, port = tmp_path / "script.json", tmp_path / "port"
    script.write_text(json.dumps([{"text": "what happened, in short", "in": 99}]))
    mock = subprocess.Popen(
        [sys.executable, MOCK, "--script", script, "--portfile", port, "--max-seconds", "60"], stdout=subprocess.PIPE
    )
    try:
        mock.stdout.readline()
        url = f"http://127.0.0.1:{port.read_text()}"
        made = summarise(model_at(f"{url}/v1", api), REQUEST)
    finally:
        mock.kill()
        mock.communicate()
    assert (made.text, made.usage["input"]) == ("what happened, in short", 99)
