"""Fake model servers on 127.0.0.1, and their answers."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from gitsession.compaction.summarizers import make
from gitsession.compaction.summarizers.options import Options

KEY = "sk-secret-0123456789"


class Server(ThreadingHTTPServer):
    """A server that sends the given answers in order.

    An answer is a tuple (status, headers, body) or a function that is called with the request handler.
    """

    daemon_threads = True

    def __init__(self, answers):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = list(answers)
        self.heard = []
        self.done = threading.Event()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.heard.append((self.path, dict(self.headers), body))
        answer = self.server.answers.pop(0)
        if callable(answer):
            answer(self)
            return
        status, headers, body = answer
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.server.heard.append((self.path, dict(self.headers), None))
        self.send_error(404)

    def log_message(self, *_):
        pass


@contextmanager
def serving(*answers):
    with Server(answers) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.done.set()
            server.shutdown()
            thread.join()


def model_at(server, api="openai-chat", **more):
    url = server if isinstance(server, str) else server.url
    named = {"key_name": "THE_KEY", "environ": {"THE_KEY": f"{KEY}\n"}, "time_limit_s": 120.0, **more}
    return make(Options(name="http", api=api, url=url, model="m-1", **named))


def chat_answer(text="short", finish="stop"):
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": finish}
    return {"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}


def hang(handler):
    handler.server.done.wait(120)
