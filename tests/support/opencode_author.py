"""A session created in gitsession, for export to opencode."""

from __future__ import annotations

from builders import Clock

from gitsession.codec.digest import to_base64url
from gitsession.model.blocks import Image, Text, ToolCall
from gitsession.model.entries import Compaction, Message
from gitsession.sessions import session as sessions
from gitsession.store.interface import ObjectStore

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


def ours(store: ObjectStore) -> sessions.StoredSession:
    """Create a session with a call and its result, an image, and a compaction that keeps the last turn."""
    made = sessions.StoredSession.new(store, "agent", "/work", Clock())
    made.append(Message.user([Text("Look"), Image(PNG, "image/png")]))
    call = ToolCall("call_1", "read", {"path": "a.py"})
    made.append(Message.assistant([Text("Reading."), call], provider="mock", model="m", stop="tool_use"))
    made.append(Message.tool(call, "14 lines"))
    made.append(Message.assistant("Done.", provider="mock", model="m"))
    kept = made.append(Message.user("And now?"))
    made.append(Message.assistant("Now this.", provider="mock", model="m"))
    made.append(Compaction(summary="So far.", first_kept=to_base64url(kept.chain)))
    made.append(Message.user("Go on"))
    return made
