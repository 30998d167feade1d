"""A session that was not made by Claude Code, and the context that Claude Code must build from its export."""

from __future__ import annotations

from base64 import b64decode

from builders import Clock

from gitsession.codec.digest import to_base64url
from gitsession.model.blocks import Image, Text, Thinking, ToolCall
from gitsession.model.entries import BranchSummary, Compaction, CustomMessage, Message, ModelChange, Title
from gitsession.sessions.session import StoredSession
from gitsession.store.interface import ObjectStore

DOT = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
FIRST, SECOND = ToolCall("call_1|fc_9", "read file", {"path": "/x"}), ToolCall("call_2", "bash", {"command": "ls"})


def talked(store: ObjectStore) -> StoredSession:
    """Create a session with parallel calls, an image, a shell command, another model's thinking and a custom entry."""
    made = StoredSession.new(store, "mine", "/work", Clock())
    made.append(Message.user([Text("look at this"), Image(DOT, "image/png")], at_ms=1_769_904_000_000))
    made.append(ModelChange(provider="openai", model="gpt-9"))
    thought = Thinking("hm", "encrypted")
    made.append(Message.assistant([thought, Text("I read it."), FIRST, SECOND], provider="openai", model="gpt-9"))
    made.append(Message.tool(FIRST, "what is in x"))
    made.append(Message.tool(SECOND, [Text("x"), Image(DOT, "image/png")]))
    made.append(Message(role="shell", command="make", output="all done", exit_code=0))
    made.append(CustomMessage(custom_type="note", content=(Text("an extension's words"),)))
    made.append(Message.assistant("Done.", provider="openai", model="gpt-9"))
    made.append(Title(title="Handed over"))
    return made


TALKED = [
    "u look at this", "u image", "a I read it.", "a read_file_1214148e call_1_fc_9_f501adf0", "a bash call_2",
    "u call_1_fc_9_f501adf0 -> what is in x", "u call_2 -> x\nimage", "u <bash-input>make</bash-input>",
    "u <bash-stdout>all done</bash-stdout><bash-stderr></bash-stderr>", "u an extension's words", "a Done.",
]  # fmt: skip


def shortened(store: ObjectStore) -> StoredSession:
    """Create a session with a compaction that keeps the last messages, and with the summary of an abandoned branch."""
    made = StoredSession.new(store, "mine", "/work", Clock())
    for said in ("one", "two", "three", "four"):
        made.append(Message.user(said) if said in ("one", "three") else Message.assistant(said, model="m"))
    node = made.resolve("leaf~1")
    made.append(Compaction(summary="One and two.", first_kept=to_base64url(node.chain), tokens_before=9))
    made.append(Message.user("five"))
    made.append(Message.assistant("six", model="m"))
    made.append(BranchSummary(summary="It did not work."))
    return made


SHORTENED = [
    "u What happened before this point in the conversation, in summary:\n\nOne and two.", "u three", "a four", "u five",
    "a six", "u What was tried on another branch of this conversation, in summary:\n\nIt did not work.",
]  # fmt: skip

HANDED_OVER = {"calls, pictures and a shell": (talked, TALKED), "a compaction": (shortened, SHORTENED)}
