"""gitsession: a git-backed, content-addressed store for the sessions of AI agents.

What is public is what ``__all__`` lists; all else may move. Names are loaded when first used, so that a command that
needs little starts fast.
"""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False  # not from typing, which alone takes as long as Python itself to start
if TYPE_CHECKING:
    from gitsession.api import Session, Store
    from gitsession.api.exported import RedactedExport
    from gitsession.api.purges import Trashed
    from gitsession.api.redacting import Redaction
    from gitsession.api.remotes import PushPlan
    from gitsession.checkpoint.at import FileChange, Files
    from gitsession.compaction.background import Background
    from gitsession.compaction.provider import provider_compaction
    from gitsession.compaction.summarizers.extractive import Extractive
    from gitsession.compaction.summary import Request, Summarizer, Summary
    from gitsession.compaction.value import Ask, Plan
    from gitsession.compaction.writing import Writing
    from gitsession.context.policies import About, Policy, clear_thinking, clear_tool_uses, drop_images, model_facing
    from gitsession.context.value import Context, Item, State, Tokens
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
    from gitsession.exchange.bring_in import BroughtIn
    from gitsession.exchange.repair import Repaired
    from gitsession.exchange.resume import Resumption
    from gitsession.exchange.send_out import SentOut
    from gitsession.exchange.sources import Taken
    from gitsession.formats import Format
    from gitsession.git.engine import StoreRepository
    from gitsession.index.catalogue import Row
    from gitsession.index.names import Names
    from gitsession.index.search import Hit
    from gitsession.live.drain import Drained
    from gitsession.live.follow import News
    from gitsession.model.blocks import File, Image, OtherBlock, Text, Thinking, ToolCall, text
    from gitsession.model.entries import (
        BranchSummary,
        Compaction,
        ContextEdit,
        Custom,
        CustomMessage,
        Entry,
        Injection,
        Instructions,
        Label,
        Message,
        ModeChange,
        ModelChange,
        Prune,
        Reset,
        Seal,
        ThinkingChange,
        Title,
        ToolsChange,
        Unknown,
    )
    from gitsession.rewind.perform import FileOutcome, Rewound
    from gitsession.rewind.plan import RewindPlan
    from gitsession.session.findings import Covered, Finding, Report, Sealed
    from gitsession.session.gaps import Gap
    from gitsession.session.graph import Tree
    from gitsession.session.node import Node
    from gitsession.session.oplog import Operation
    from gitsession.session.origin import Origin
    from gitsession.session.secrets import FoundSecret, SecretSearch
    from gitsession.store.base import Transaction
    from gitsession.store.maintain import Maintained
    from gitsession.sync.finding import PurgePlan
    from gitsession.sync.purging import Purged
    from gitsession.sync.reconcile import SyncedBranch
    from gitsession.sync.remotes import Remote
    from gitsession.sync.retention import Expired, Retention
    from gitsession.sync.standing import Standing
    from gitsession.sync.syncing import SyncReport
    from gitsession.sync.transport import Talk
    from gitsession.workspace.patches import FilePatch

__all__ = [
    "About",
    "Ambiguous",
    "Ask",
    "Background",
    "BranchSummary",
    "BroughtIn",
    "Compaction",
    "Context",
    "ContextEdit",
    "Corrupt",
    "Covered",
    "Custom",
    "CustomMessage",
    "Drained",
    "Entry",
    "Expired",
    "Extractive",
    "File",
    "FileChange",
    "FileOutcome",
    "FilePatch",
    "Files",
    "Finding",
    "Format",
    "FoundSecret",
    "Gap",
    "GitSessionError",
    "Hit",
    "Image",
    "Injection",
    "Instructions",
    "InvalidName",
    "Item",
    "Label",
    "LeafMoved",
    "Maintained",
    "Malformed",
    "Message",
    "MissingObject",
    "ModeChange",
    "ModelChange",
    "Names",
    "News",
    "Node",
    "NotAStore",
    "NotFound",
    "Operation",
    "Origin",
    "OtherBlock",
    "Plan",
    "Policy",
    "Prune",
    "PurgePlan",
    "Purged",
    "PushPlan",
    "RedactedExport",
    "Redaction",
    "Refused",
    "Remote",
    "Repaired",
    "Report",
    "Request",
    "Reset",
    "Resumption",
    "Retention",
    "RewindPlan",
    "Rewound",
    "Row",
    "Seal",
    "Sealed",
    "SecretSearch",
    "SentOut",
    "Session",
    "Standing",
    "State",
    "Store",
    "StoreRepository",
    "Summarizer",
    "Summary",
    "SummaryFailed",
    "SyncReport",
    "SyncedBranch",
    "Taken",
    "Talk",
    "Text",
    "Thinking",
    "ThinkingChange",
    "Title",
    "Tokens",
    "ToolCall",
    "ToolsChange",
    "Transaction",
    "Trashed",
    "Tree",
    "Unavailable",
    "Unknown",
    "Writing",
    "__version__",
    "clear_thinking",
    "clear_tool_uses",
    "drop_images",
    "model_facing",
    "provider_compaction",
    "text",
]

_NAMES = {
    "gitsession.api": ["Session", "Store"],
    "gitsession.checkpoint.at": ["FileChange", "Files"],
    "gitsession.compaction.background": ["Background"],
    "gitsession.compaction.provider": ["provider_compaction"],
    "gitsession.compaction.summarizers.extractive": ["Extractive"],
    "gitsession.compaction.summary": ["Request", "Summarizer", "Summary"],
    "gitsession.compaction.value": ["Ask", "Plan"],
    "gitsession.compaction.writing": ["Writing"],
    "gitsession.context.policies": [
        "About",
        "Policy",
        "clear_thinking",
        "clear_tool_uses",
        "drop_images",
        "model_facing",
    ],
    "gitsession.context.value": ["Context", "Item", "State", "Tokens"],
    "gitsession.errors": [
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
    "gitsession.exchange.bring_in": ["BroughtIn"],
    "gitsession.exchange.sources": ["Taken"],
    "gitsession.exchange.repair": ["Repaired"],
    "gitsession.exchange.resume": ["Resumption"],
    "gitsession.exchange.send_out": ["SentOut"],
    "gitsession.formats": ["Format"],
    "gitsession.git.engine": ["StoreRepository"],
    "gitsession.index.catalogue": ["Row"],
    "gitsession.index.search": ["Hit"],
    "gitsession.index.names": ["Names"],
    "gitsession.live.drain": ["Drained"],
    "gitsession.live.follow": ["News"],
    "gitsession.model.blocks": ["File", "Image", "OtherBlock", "Text", "Thinking", "ToolCall", "text"],
    "gitsession.model.entries": [
        "BranchSummary",
        "Compaction",
        "ContextEdit",
        "Custom",
        "CustomMessage",
        "Entry",
        "Injection",
        "Instructions",
        "Label",
        "Message",
        "ModeChange",
        "ModelChange",
        "Prune",
        "Reset",
        "Seal",
        "ThinkingChange",
        "Title",
        "ToolsChange",
        "Unknown",
    ],
    "gitsession.rewind.perform": ["FileOutcome", "Rewound"],
    "gitsession.rewind.plan": ["RewindPlan"],
    "gitsession.session.findings": ["Covered", "Finding", "Report", "Sealed"],
    "gitsession.session.gaps": ["Gap"],
    "gitsession.session.graph": ["Tree"],
    "gitsession.session.node": ["Node"],
    "gitsession.session.oplog": ["Operation"],
    "gitsession.session.origin": ["Origin"],
    "gitsession.store.base": ["Transaction"],
    "gitsession.store.maintain": ["Maintained"],
    "gitsession.api.purges": ["Trashed"],
    "gitsession.sync.finding": ["PurgePlan"],
    "gitsession.sync.purging": ["Purged"],
    "gitsession.sync.reconcile": ["SyncedBranch"],
    "gitsession.sync.remotes": ["Remote"],
    "gitsession.sync.retention": ["Expired", "Retention"],
    "gitsession.session.secrets": ["FoundSecret", "SecretSearch"],
    "gitsession.api.exported": ["RedactedExport"],
    "gitsession.api.redacting": ["Redaction"],
    "gitsession.api.remotes": ["PushPlan"],
    "gitsession.sync.standing": ["Standing"],
    "gitsession.sync.syncing": ["SyncReport"],
    "gitsession.sync.transport": ["Talk"],
    "gitsession.workspace.patches": ["FilePatch"],
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
