"""gitsession: a git-backed, content-addressed store for the sessions of AI agents.

What is public is what ``__all__`` lists; all else may move. Names are loaded when first used, so that a command that
needs little starts fast.
"""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False  # not from typing, which alone takes as long as Python itself to start
if TYPE_CHECKING:
    from gitsession.api import Session, Store
    from gitsession.compaction.value import Ask, Plan
    from gitsession.compaction.writing import Writing
    from gitsession.context.policies import clear_thinking, clear_tool_uses, drop_images, model_facing
    from gitsession.context.value import Context
    from gitsession.errors import (
        Ambiguous,
        Corrupt,
        GitSessionError,
        InvalidName,
        LeafMoved,
        Malformed,
        MissingObject,
        NotAStore,
        NotFound,
        Refused,
        SummaryFailed,
        Unavailable,
    )
    from gitsession.model.blocks import File, Image, Text, Thinking, ToolCall, text
    from gitsession.model.entries import (
        BranchSummary,
        Compaction,
        Custom,
        Entry,
        Label,
        Message,
        ModelChange,
        ThinkingChange,
        Title,
    )
    from gitsession.session.gaps import Gap
    from gitsession.session.node import Node

__all__ = [
    "Ambiguous",
    "Ask",
    "BranchSummary",
    "Compaction",
    "Context",
    "Corrupt",
    "Custom",
    "Entry",
    "File",
    "Gap",
    "GitSessionError",
    "Image",
    "InvalidName",
    "Label",
    "LeafMoved",
    "Malformed",
    "Message",
    "MissingObject",
    "ModelChange",
    "Node",
    "NotAStore",
    "NotFound",
    "Plan",
    "Refused",
    "Session",
    "Store",
    "SummaryFailed",
    "Text",
    "Thinking",
    "ThinkingChange",
    "Title",
    "ToolCall",
    "Unavailable",
    "Writing",
    "__version__",
    "clear_thinking",
    "clear_tool_uses",
    "drop_images",
    "model_facing",
    "text",
]

_HOMES = {
    **dict.fromkeys(["Session", "Store"], "gitsession.api"),
    **dict.fromkeys(
        [
            "Ambiguous",
            "Corrupt",
            "GitSessionError",
            "InvalidName",
            "LeafMoved",
            "Malformed",
            "MissingObject",
            "NotAStore",
            "NotFound",
            "Refused",
            "SummaryFailed",
            "Unavailable",
        ],
        "gitsession.errors",
    ),
    **dict.fromkeys(["Ask", "Plan"], "gitsession.compaction.value"),
    "Writing": "gitsession.compaction.writing",
    "Context": "gitsession.context.value",
    "Gap": "gitsession.session.gaps",
    "Node": "gitsession.session.node",
    **dict.fromkeys(
        ["clear_thinking", "clear_tool_uses", "drop_images", "model_facing"], "gitsession.context.policies"
    ),
    **dict.fromkeys(["File", "Image", "Text", "Thinking", "ToolCall", "text"], "gitsession.model.blocks"),
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES.get(name, "gitsession.model.entries")), name)


def __dir__() -> list[str]:
    return sorted(__all__)
