"""Tests of the context of Aider, rule by rule, and of exports to Aider."""

from __future__ import annotations

import pytest
from aider_files import PLACE, answer, edited, history, restored, run, told, user
from builders import bring, pi_file, session, talk

from gitsession.context import build
from gitsession.context.history import ContextHistory
from gitsession.exporting.export_session import export
from gitsession.formats import Workspace
from gitsession.formats.aider.agent import aider
from gitsession.formats.aider.read_entry import reread
from gitsession.importing.import_session import import_source
from gitsession.model.blocks import Image, Text, ToolCall
from gitsession.model.entries import Compaction, Message, Reset
from gitsession.store.memory import MemoryStore


def seen(*parts: str, profile: str = "aider") -> list[str]:
    """Return the context at the end of a history, in short form."""
    store = MemoryStore()
    sid = import_source(store, aider, aider.split(history(*parts), name=PLACE, final=True)).session
    return words(store, sid, profile)


def words(store: MemoryStore, sid: str, profile: str = "aider") -> list[str]:
    leaf = session(store, sid).history()[-1].oid
    messages = build.context(ContextHistory(store, leaf), profile).messages
    return [f"{said.role}: {said.text.strip()}" for said in messages if isinstance(said, Message)]


def test_run_does_not_include_the_previous_one():
    assert seen(run(), user("a"), answer("b"), run(), user("c"), answer("d")) == ["user: c", "assistant: d"]


def test_restored_run_includes_the_messages_that_aider_reads():
    assert seen(run(), user("a"), answer("# T\nb"), run(), user("/c"), restored(), user("d")) == [
        "user: a", "assistant: b", "user: /c", "user: d",
    ]  # fmt: skip


def test_commands_and_output_of_aider_are_not_in_the_context():
    assert seen(run(), user("/tokens"), told("1,453 system messages"), user("!ls"), user("a")) == ["user: a"]


@pytest.mark.parametrize("said", ["All chat history cleared.", "All files dropped and chat history cleared."])
def test_cleared_messages_are_not_in_the_context(said: str):
    assert seen(run(), user("a"), answer("b"), user("/clear"), told(said), user("c")) == ["user: c"]


def test_s3_undone_changes_of_files_stay_in_the_conversation():
    undone = [user("/undo"), told("Removed: abcdef1 feat: a", "Now at:  1234567 chore: before")]
    said = [run(), user("a"), answer("b"), edited("a.py", "abcdef1 feat: a")]
    assert seen(*said, *undone, user("c")) == [*seen(*said), "user: c"]


CHANGES = {
    "in a commit": (
        [edited("a.py", "abcdef1 feat: a")],
        "I committed the changes with git hash abcdef1 & commit msg: feat: a",
    ),
    "without one": ([edited("a.py")], "I updated the files."),
    "after a commit of what the user had changed": (
        [told("Commit 1234567 chore: before"), edited("a.py", "abcdef1 feat: a", "abcdef2 style: lint")],
        "I committed the changes with git hash abcdef1 & commit msg: feat: a",
    ),
}  # fmt: skip


@pytest.mark.parametrize("parts, told_", CHANGES.values(), ids=CHANGES)
def test_model_is_informed_of_a_change(parts: list[str], told_: str):
    assert seen(run(), user("a"), answer("b"), *parts)[2:] == [f"user: {told_}", "assistant: Ok."]


def test_s2_summary_is_a_prompt_followed_by_an_answer():
    store = MemoryStore()
    sid = import_source(store, aider, aider.split(history(run(), user("a"), answer("b")), name=PLACE)).session
    opened = session(store, sid)
    opened.append(Compaction(summary="So far.", at_ms=1))
    assert words(store, sid) == [
        "user: I spoke to you previously about a number of things.\nSo far.", "assistant: Ok.",
    ]  # fmt: skip


def test_run_starts_anew_in_other_profiles():
    assert seen(run(), user("a"), answer("b"), run(), user("c"), profile="pi") == ["user: c"]


# ---- exports to Aider


def test_added_entries_come_after_aiders_own_bytes():
    store, data = MemoryStore(), history(run(), user("a"), answer("b"))
    sid = import_source(store, aider, aider.split(data, name=PLACE, final=True)).session
    session(store, sid).append(Message.user("and so"))
    out = export(store, sid, "aider")
    assert out.data == data + history(user("and so"))


def test_session_of_pi_is_a_separate_run():
    store = MemoryStore()
    sid = bring(store, pi_file(*talk("u", "a"))).session
    out = export(store, sid, "aider").data
    assert (
        out
        == (
            f"\n# aider chat started at 2026-02-01 00:00:00\n\n> Session {sid}, written by gitsession  \n"
            "\n#### words of u  \n\nwords of a\n\n> Answered by ?  \n"
        ).encode()
    )
    assert reread(out) == [("user", "words of u  \n"), ("assistant", "\nwords of a\n\n")]
    assert aider.claims(out)


def test_entries_without_an_equivalent_in_aider_are_reported_and_counted():
    store = MemoryStore()
    sid = bring(store, pi_file(*talk("u", "a"))).session
    opened, call = session(store, sid), ToolCall("c1", "ls", {"all": True})
    opened.append(Message.assistant([Text("I look"), call], provider="p", model="m"))
    opened.append(Message.tool(call, [Text("a\r\nb"), Image(b"x", "image/png")], is_error=True))
    opened.append(Message(role="shell", command="ls", output="c"))
    opened.append(Message(role="system", content=(Text("be good"),)))
    out = export(store, sid, "aider")
    assert dict(out.notes) == {
        "written as text: tool calls": 1,
        "written as user text: tool results": 1,
        "replaced with their type: images": 1,
        "left out: system messages": 1,
    }
    assert [(role, " ".join(text.split())) for role, text in reread(out.data)][2:] == [
        ("assistant", 'I look I call the tool ls: ```json {"all": true} ```'),
        ("user", "The tool ls failed with: a b [image image/png]"),
        ("user", "I ran this command: ls And got this output: c"),
        ("assistant", "Ok."),
    ]


def test_own_reset_leaves_out_earlier_messages():
    store = MemoryStore()
    sid = bring(store, pi_file(*talk("u", "a"))).session
    opened = session(store, sid)
    opened.append(Reset(at_ms=1))
    opened.append(Message.user("anew"))
    out = export(store, sid, "aider")
    assert [text for _, text in reread(out.data)] == ["anew  \n"]
    assert dict(out.notes) == {"left out: entries before the last summary": 3}


def test_written_history_is_beside_aiders_own():
    header = aider.split(history(run()), name=PLACE).header
    assert header is not None
    assert aider.session_path(header, Workspace("/work/app")) == ".aider.app-2026-11-21T20-43-36.aider.chat.history.md"
    assert aider.globs(header, Workspace("/work/app")) == ()
    assert aider.resume_command("", "f") == ["aider", "--restore-chat-history", "--chat-history-file", "f"]
