"""Comparison of contexts with the real Aider.

It requires ``$LAB`` with the program and permission for a network namespace.

The messages that Aider adds anew to each request are not part of the session: ``real_aider.ANEW_BEFORE`` and
``ANEW_AMID``. Aider remembers whitespace at both ends of an answer that its file does not have, so whitespace is
stripped first.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import real_aider
from aider_files import PLACE, answer, edited, history, restored, run, told, user
from builders import bring, entry, joined, pi_file, said

from gitsession.context import build
from gitsession.context.history import ContextHistory
from gitsession.exporting.export_session import export
from gitsession.formats.aider.agent import aider
from gitsession.formats.aider.read_entry import reread
from gitsession.importing.import_session import import_source
from gitsession.model.entries import Message
from gitsession.sessions import graph
from gitsession.store.memory import MemoryStore

pytestmark = pytest.mark.skipif(not real_aider.is_there(), reason="the real Aider is not at hand")

EDIT = 'Here.\n\napp.py\n```python\n<<<<<<< SEARCH\nprint("hi")\n=======\n# one\nprint("one")\n>>>>>>> REPLACE\n```\n'
ASK = "and now"


def seen(data: bytes) -> list[tuple[str, str]]:
    """Return the context of a history at the entry before the last prompt."""
    store = MemoryStore()
    sid = import_source(store, aider, aider.split(data, name=PLACE, final=True)).session
    line = list(graph.history(store, graph.branches(store, sid)["main"]))
    last = next(node for node in line if node.subject == f"user: {ASK}")
    context = build.context(ContextHistory(store, last.parent), "aider")
    return [(message.role, message.text.strip()) for message in context.messages if isinstance(message, Message)]


def sent(request: list[dict[str, str]]) -> list[tuple[str, str]]:
    return [(message["role"], message["content"].strip()) for message in request]


def test_continued_run_sends_its_messages(tmp_path: Path):
    work = real_aider.project(tmp_path)
    (work / real_aider.NAME).write_bytes(history(run(), user("of another run"), answer("which is over")))
    requests = real_aider.talk(
        work,
        ["/add app.py", "Print one", "/tokens", "Explain it", ASK],
        [EDIT, "### It\n\n#### prints\n\n> one\n\n```\n> two\n```", "Good."],
    )
    ours = seen((work / real_aider.NAME).read_bytes())
    assert sent(requests[-1]) == ours
    assert [role for role, _ in ours] == ["user", "assistant"] * 3
    assert ours[2][1].startswith("I committed the changes with git hash ")


def test_cleared_messages_are_not_sent(tmp_path: Path):
    work = real_aider.project(tmp_path)
    requests = real_aider.talk(work, ["One", "/clear", "Two", ASK], ["1.", "2.", "3."])
    assert sent(requests[-1]) == seen((work / real_aider.NAME).read_bytes()) == [("user", "Two"), ("assistant", "2.")]


def test_restored_run_sends_the_messages_that_aider_reads(tmp_path: Path):
    work = real_aider.project(tmp_path)
    data = history(
        run(), user("Two\nlines"), answer("# Title\n\n#### a heading\n\n> quoted\n\nand\u2028so \x0c on"),
        edited("a.py", "abcdef1 feat: a"), user("/tokens"), told("1,453 system messages"), restored(), user("Next"),
        answer("```\n> 1\n```"),
    )  # fmt: skip
    (work / real_aider.NAME).write_bytes(data)
    requests = real_aider.talk(work, [ASK], ["Good."], "--restore-chat-history")
    grown = (work / real_aider.NAME).read_bytes()
    assert grown.startswith(data)
    assert sent(requests[-1]) == seen(grown) == [(role, text.strip()) for role, text in reread(data)]


def test_session_of_another_agent_is_continued_in_aider(tmp_path: Path):
    work = real_aider.project(tmp_path)
    called = [
        {"type": "text", "text": "# I look\n> here\n#### and there"},
        {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "ls"}},
    ]
    result = {
        "role": "toolResult", "toolCallId": "c1", "toolName": "bash", "isError": False,
        "content": [{"type": "text", "text": "# a.py\n> b.py"}],
    }  # fmt: skip
    data = pi_file(
        said("u1", None, "First\n\n# of all"),
        entry("message", "a1", "u1", message={"role": "assistant", "content": called}),
        entry("message", "t1", "a1", message=result),
        said("a2", "t1", "Two files.", role="assistant"),
    )
    store = MemoryStore()
    out = export(store, bring(store, data).session, "aider")
    (work / "h.md").write_bytes(out.data)
    requests = real_aider.talk(work, [ASK], ["Good."], "--restore-chat-history", "--chat-history-file", "h.md")
    words = [(role, " ".join(text.split())) for role, text in sent(requests[-1])]
    assert words == [
        ("user", "First # of all"),
        ("assistant", '# I look > here #### and there I call the tool bash: ```json {"command": "ls"} ```'),
        ("user", "The tool bash gave: # a.py > b.py"),
        ("assistant", "Two files."),
    ]


def test_own_summary_replaces_earlier_messages(tmp_path: Path):
    work = real_aider.project(tmp_path)
    data = joined(
        *pi_file(said("u1", None, "old"), said("a1", "u1", "old too", role="assistant")).splitlines(),
        said("u2", "a1", "kept"),
        entry("compaction", "c1", "u2", summary="So far.", firstKeptEntryId="u2", tokensBefore=9),
        said("a2", "c1", "new", role="assistant"),
    )
    store = MemoryStore()
    (work / "h.md").write_bytes(export(store, bring(store, data).session, "aider").data)
    requests = real_aider.talk(work, [ASK], ["Good."], "--restore-chat-history", "--chat-history-file", "h.md")
    assert sent(requests[-1]) == [
        ("user", "I spoke to you previously about a number of things.  \nSo far."), ("assistant", "Ok."),
        ("user", "kept"), ("assistant", "new"),
    ]  # fmt: skip
