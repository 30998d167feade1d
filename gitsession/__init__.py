"""gitsession: a git-backed, content-addressed store for the sessions of AI agents.

``__all__`` lists the public API. All other names may change. A module is imported when one of its names is first used,
so that commands start fast.
"""

from __future__ import annotations

__version__ = "0.1.0"

# TYPE_CHECKING is not imported from typing, because that import takes as long as the start of Python. Without the
# annotation, some editors evaluate the constant False and complete none of the names below.
TYPE_CHECKING: bool = False
if TYPE_CHECKING:
    from gitsession.api import Session, Store
    from gitsession.api.agents import AgentSessions
    from gitsession.api.compaction import SessionCompaction
    from gitsession.api.files import SessionFiles
    from gitsession.api.purges import Purges, Redaction, StoredSecrets
    from gitsession.api.remotes import PushPlan, Remotes
    from gitsession.api.trash import ArchivedSessions, RemovedSession, Trash
    from gitsession.archive.trash import ExpiredSession, Retention
    from gitsession.checkpoints.lookup import FileChange, Files
    from gitsession.checkpoints.planning import RewindPlan
    from gitsession.checkpoints.rewinding import FileOutcome, RewindResult
    from gitsession.compaction.perform import BackgroundCompaction
    from gitsession.compaction.plan import CompactionRequest, Plan
    from gitsession.compaction.policy import CompactionPolicy
    from gitsession.compaction.summarizers.extractive import Extractive
    from gitsession.compaction.summary import Request, Summarizer, Summary
    from gitsession.compaction.write_summary import SummaryOptions
    from gitsession.context.policies import (
        Policy,
        PolicyInput,
        clear_thinking,
        clear_tool_uses,
        drop_images,
        model_facing,
    )
    from gitsession.context.provider_compactions import provider_compaction
    from gitsession.context.provider_management import ContextManagement, anthropic_betas
    from gitsession.context.value import Context, Item, State, Tokens
    from gitsession.discovery.sources import LoadedSession
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
        PluginFailed,
        Refused,
        SummaryFailed,
        Unavailable,
    )
    from gitsession.exporting.export_session import ExportResult
    from gitsession.exporting.resume import ResumePlan
    from gitsession.formats import Format
    from gitsession.git.engine import StoreRepository
    from gitsession.importing.import_session import ImportResult
    from gitsession.index.catalogue import Row
    from gitsession.index.names import Names
    from gitsession.index.prompts import RecentPrompt
    from gitsession.index.search import Hit
    from gitsession.live.follow import NewEntry
    from gitsession.live.ingesting import IngestResult
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
        Mark,
        Message,
        ModeChange,
        ModelChange,
        Permission,
        PlanChange,
        Prune,
        Reset,
        Seal,
        ThinkingChange,
        Title,
        Todo,
        TodoItem,
        ToolsChange,
        UnknownEntry,
    )
    from gitsession.model.instructions import InstructionFile, InstructionSet, Skill
    from gitsession.model.session_state import SessionState
    from gitsession.purge.finding import PurgePlan
    from gitsession.purge.purging import PurgeResult
    from gitsession.purge.redact_exports import RedactedExport
    from gitsession.repair.repair import RepairResult
    from gitsession.sessions.gaps import Gap
    from gitsession.sessions.graph import Tree
    from gitsession.sessions.merge_remote_branches import SyncedBranch
    from gitsession.sessions.node import Node
    from gitsession.sessions.operation_log import Operation
    from gitsession.sessions.origin import Origin
    from gitsession.sessions.stored_secrets import FoundSecret, SecretSearch
    from gitsession.store.interface import Transaction
    from gitsession.store.maintenance import MaintenanceResult
    from gitsession.sync.pushing import RemoteStatus
    from gitsession.sync.remotes import Remote
    from gitsession.sync.syncing import SyncReport
    from gitsession.sync.transport import TransportOptions
    from gitsession.verify.findings import CheckCoverage, Finding, Report, SignatureCheck
    from gitsession.workspace.patches import FilePatch

__all__ = [
    "AgentSessions",
    "Ambiguous",
    "ArchivedSessions",
    "BackgroundCompaction",
    "BranchSummary",
    "CheckCoverage",
    "Compaction",
    "CompactionPolicy",
    "CompactionRequest",
    "Context",
    "ContextEdit",
    "ContextManagement",
    "Corrupt",
    "Custom",
    "CustomMessage",
    "Entry",
    "ExpiredSession",
    "ExportResult",
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
    "ImportResult",
    "IngestResult",
    "Injection",
    "InstructionFile",
    "InstructionSet",
    "Instructions",
    "InvalidName",
    "Item",
    "Label",
    "LeafMoved",
    "LoadedSession",
    "MaintenanceResult",
    "Malformed",
    "Mark",
    "Message",
    "MissingObject",
    "ModeChange",
    "ModelChange",
    "Names",
    "NewEntry",
    "Node",
    "NotAStore",
    "NotFound",
    "Operation",
    "Origin",
    "OtherBlock",
    "Permission",
    "Plan",
    "PlanChange",
    "PluginFailed",
    "Policy",
    "PolicyInput",
    "Prune",
    "PurgePlan",
    "PurgeResult",
    "Purges",
    "PushPlan",
    "RecentPrompt",
    "RedactedExport",
    "Redaction",
    "Refused",
    "Remote",
    "RemoteStatus",
    "Remotes",
    "RemovedSession",
    "RepairResult",
    "Report",
    "Request",
    "Reset",
    "ResumePlan",
    "Retention",
    "RewindPlan",
    "RewindResult",
    "Row",
    "Seal",
    "SecretSearch",
    "Session",
    "SessionCompaction",
    "SessionFiles",
    "SessionState",
    "SignatureCheck",
    "Skill",
    "State",
    "Store",
    "StoreRepository",
    "StoredSecrets",
    "Summarizer",
    "Summary",
    "SummaryFailed",
    "SummaryOptions",
    "SyncReport",
    "SyncedBranch",
    "Text",
    "Thinking",
    "ThinkingChange",
    "Title",
    "Todo",
    "TodoItem",
    "Tokens",
    "ToolCall",
    "ToolsChange",
    "Transaction",
    "TransportOptions",
    "Trash",
    "Tree",
    "Unavailable",
    "UnknownEntry",
    "__version__",
    "anthropic_betas",
    "clear_thinking",
    "clear_tool_uses",
    "drop_images",
    "model_facing",
    "provider_compaction",
    "text",
]

_NAMES = {
    "gitsession.api": ["Session", "Store"],
    "gitsession.checkpoints.lookup": ["FileChange", "Files"],
    "gitsession.compaction.perform": ["BackgroundCompaction"],
    "gitsession.compaction.summarizers.extractive": ["Extractive"],
    "gitsession.compaction.summary": ["Request", "Summarizer", "Summary"],
    "gitsession.compaction.policy": ["CompactionPolicy"],
    "gitsession.compaction.plan": ["CompactionRequest", "Plan"],
    "gitsession.compaction.write_summary": ["SummaryOptions"],
    "gitsession.context.policies": [
        "PolicyInput",
        "Policy",
        "clear_thinking",
        "clear_tool_uses",
        "drop_images",
        "model_facing",
    ],
    "gitsession.context.provider_compactions": ["provider_compaction"],
    "gitsession.context.provider_management": ["ContextManagement", "anthropic_betas"],
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
        "PluginFailed",
        "Refused",
        "SummaryFailed",
        "Unavailable",
    ],
    "gitsession.importing.import_session": ["ImportResult"],
    "gitsession.discovery.sources": ["LoadedSession"],
    "gitsession.repair.repair": ["RepairResult"],
    "gitsession.exporting.resume": ["ResumePlan"],
    "gitsession.exporting.export_session": ["ExportResult"],
    "gitsession.formats": ["Format"],
    "gitsession.git.engine": ["StoreRepository"],
    "gitsession.index.catalogue": ["Row"],
    "gitsession.index.prompts": ["RecentPrompt"],
    "gitsession.index.search": ["Hit"],
    "gitsession.index.names": ["Names"],
    "gitsession.live.ingesting": ["IngestResult"],
    "gitsession.live.follow": ["NewEntry"],
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
        "Mark",
        "Message",
        "ModeChange",
        "ModelChange",
        "Permission",
        "PlanChange",
        "Prune",
        "Reset",
        "Seal",
        "ThinkingChange",
        "Title",
        "Todo",
        "TodoItem",
        "ToolsChange",
        "UnknownEntry",
    ],
    "gitsession.model.instructions": ["InstructionFile", "InstructionSet", "Skill"],
    "gitsession.model.session_state": ["SessionState"],
    "gitsession.checkpoints.rewinding": ["FileOutcome", "RewindResult"],
    "gitsession.checkpoints.planning": ["RewindPlan"],
    "gitsession.verify.findings": ["CheckCoverage", "Finding", "Report", "SignatureCheck"],
    "gitsession.sessions.gaps": ["Gap"],
    "gitsession.sessions.graph": ["Tree"],
    "gitsession.sessions.node": ["Node"],
    "gitsession.sessions.operation_log": ["Operation"],
    "gitsession.sessions.origin": ["Origin"],
    "gitsession.store.interface": ["Transaction"],
    "gitsession.store.maintenance": ["MaintenanceResult"],
    "gitsession.api.agents": ["AgentSessions"],
    "gitsession.api.compaction": ["SessionCompaction"],
    "gitsession.api.files": ["SessionFiles"],
    "gitsession.api.purges": ["Purges", "Redaction", "StoredSecrets"],
    "gitsession.api.trash": ["ArchivedSessions", "RemovedSession", "Trash"],
    "gitsession.purge.finding": ["PurgePlan"],
    "gitsession.purge.purging": ["PurgeResult"],
    "gitsession.sessions.merge_remote_branches": ["SyncedBranch"],
    "gitsession.sync.remotes": ["Remote"],
    "gitsession.archive.trash": ["ExpiredSession", "Retention"],
    "gitsession.sessions.stored_secrets": ["FoundSecret", "SecretSearch"],
    "gitsession.purge.redact_exports": ["RedactedExport"],
    "gitsession.api.remotes": ["PushPlan", "Remotes"],
    "gitsession.sync.pushing": ["RemoteStatus"],
    "gitsession.sync.syncing": ["SyncReport"],
    "gitsession.sync.transport": ["TransportOptions"],
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
