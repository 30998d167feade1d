"""LangChain. Its peer is ``SQLChatMessageHistory`` of ``langchain-community`` on SQLite. LangChain lists no chats."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.peers.frameworks.framework import Framework, Sessions, store_in, text_of


@contextmanager
def ours(place: Path) -> Iterator[Sessions]:
    from gitsession.frameworks.langchain import GitSessionChatMessageHistory

    with store_in(place) as store:
        yield _sessions(lambda id: GitSessionChatMessageHistory(id, store))


@contextmanager
def theirs(place: Path) -> Iterator[Sessions]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # langchain-community announces that it is no longer developed
        from langchain_community.chat_message_histories import SQLChatMessageHistory
    from sqlalchemy import create_engine

    engine = create_engine(f"sqlite:///{place / 'peer.db'}")
    try:
        yield _sessions(lambda id: SQLChatMessageHistory(id, connection=engine))
    finally:
        engine.dispose()


def _sessions(open_history: Callable[[str], Any]) -> Sessions:
    from langchain_core.messages import AIMessage, HumanMessage

    known: dict[str, Any] = {}

    def history(id: str) -> Any:
        if id not in known:
            known[id] = open_history(id)
        return known[id]

    def put(id: str, number: int) -> None:
        history(id).add_messages([(AIMessage if number % 2 else HumanMessage)(text_of(number))])

    return Sessions(put, lambda id: len(history(id).messages))


FRAMEWORK = Framework(
    "LangChain", "SQLChatMessageHistory", ("langchain-core", "langchain-community", "greenlet"), ours, theirs
)
