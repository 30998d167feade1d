"""A conversation to be summarized, and fake errors."""

import threading

import pytest

from gitsession.compaction.serialise import serialise
from gitsession.compaction.summary import Request, summarise
from gitsession.errors import SummaryFailed
from gitsession.model.blocks import Text, ToolCall
from gitsession.model.entries import Message

READ = ToolCall("c1", "read", {"path": "auth.py"})
EDIT = ToolCall("c2", "edit", {"path": "auth.py"})
FILLER = "and so on and so forth, word after word, " * 40 + "the end."
CONVERSATION = serialise(
    [
        Message.user("Fix the login redirect. We must keep the old cookie."),
        Message.assistant([Text("I'll read auth.py"), READ]),
        Message.tool(READ, "import os"),
        Message.assistant([EDIT]),
        Message.tool(EDIT, "no such line", is_error=True),
        Message.assistant(f"The redirect is fixed. {FILLER} Next I will write a test. Which framework do you want?"),
        Message.user(f"pytest. {FILLER}"),
    ]
)
REQUEST = Request(items=CONVERSATION)


def failing(summarizer, request=REQUEST, **more):
    with pytest.raises(SummaryFailed) as caught:
        summarise(summarizer, request, **more)
    return str(caught.value)


def cancelled_after(seconds):
    event = threading.Event()
    threading.Timer(seconds, event.set).start()
    return event
