"""The plan of a compaction, which every strategy returns."""

from __future__ import annotations

from collections.abc import Iterable

from gitsession.codec.cbor import valid_text
from gitsession.compaction.pi_cuts import Cut
from gitsession.compaction.visible_entries import CompactionView, carried, conversation
from gitsession.context.call_results import calls_in
from gitsession.context.history import ContextHistory
from gitsession.context.profiles import Profile, total
from gitsession.context.profiles.visible_items import is_message
from gitsession.context.value import Item
from gitsession.dataclass import dataclass
from gitsession.git.types import Oid
from gitsession.model.entries import BranchSummary, Compaction, Entry
from gitsession.model.file_edits import PATH_CHARS_MAX, PATHS
from gitsession.sessions.node import Node

# Files that the agent has read and changed. Each summary lists them, with those of the previous summary (rule 28).

READS = frozenset({"read", "Read", "read_file", "view"})
CHANGES = frozenset(
    {"write", "edit", "Write", "Edit", "MultiEdit", "NotebookEdit", "write_file", "edit_file", "str_replace"}
)
"""Names of the agents' tools that read files (``READS``) and change them (``CHANGES``)."""


@dataclass(frozen=True, slots=True)
class TouchedFiles:
    """Sorted paths of the files that an agent read or changed, as the agent wrote them.

    Changed files are not in ``read``.
    """

    read: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactionRequest:
    """The caller's options for a compaction.

    Attributes:
        keep_tokens: Number of tokens at the end of the history that are not summarized; ``None`` for the agent's
            default.
        keep_messages: Number of messages at the end of the history that are not summarized, as far as the strategy can
            cut there; ``None`` for no such limit. If ``keep_tokens`` is set too, the smaller part is kept.
        at: Entry that the user chose, for strategies that require one.
        window: Context window of the model, in tokens; ``None`` if unknown.
        reground_every: Maximum number of successive summaries that are each based on the previous one. The next summary
            is made from the original entries. 0 for no limit.
    """

    keep_tokens: int | None = None
    keep_messages: int | None = None
    at: Node | None = None
    window: int | None = None
    reground_every: int = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The parts of a history that a compaction summarizes and keeps. Planning changes nothing.

    Attributes:
        strategy: Name of the strategy.
        profile: Name of the profile.
        leaf: Leaf of the history for which the plan was made.
        first_kept: First entry that is kept; ``None`` if no entry is kept.
        history: Items that the summary replaces.
        prefix: Beginning of a turn whose end is kept. If its text has at most 1,000 characters, it is quoted in the
            summary. Otherwise, it is summarized separately.
        kept: Items that the context still shows, after the summary.
        previous: Earlier summary to continue.
        carried: Number of successive summaries up to ``previous``, each based on the one before.
        system: System messages, which are kept with the summary.
        skills: Names of the active skills, which stay active.
        quoted: Text that is copied into the summary.
        onto: Entry after which the summary is appended, if it is not the leaf. The summary then describes an abandoned
            branch.
        files: Files that the agent read and changed in the summarized part. Their paths are appended to the summary.
        tokens_before: Number of tokens of the whole context.
        replaced: Number of tokens that the summary replaces, as counted by gitsession.
        nothing: Reason why there is nothing to summarize, else "". If it is set, the other fields have no meaning.
    """

    strategy: str
    profile: str
    leaf: Oid | None
    first_kept: Node | None = None
    history: tuple[Item, ...] = ()
    prefix: tuple[Item, ...] = ()
    kept: tuple[Item, ...] = ()
    previous: str = ""
    carried: int = 0
    system: tuple[Item, ...] = ()
    skills: tuple[str, ...] = ()
    quoted: str = ""
    onto: Node | None = None
    files: TouchedFiles = TouchedFiles()
    tokens_before: int = 0
    replaced: int = 0
    nothing: str = ""


def touched_files(entries: Iterable[Entry], listed: Iterable[TouchedFiles] = ()) -> TouchedFiles:
    """Return the files in the tool calls of ``entries`` and in ``listed``, the lists of earlier summaries."""
    read, changed = set[str](), set[str]()
    for files in listed:
        read.update(map(valid_text, files.read))
        changed.update(map(valid_text, files.modified))
    for call in (call for entry in entries if is_message(entry, "assistant") for call in calls_in(entry)):
        values = (call.arguments.get(name) for name in PATHS)
        paths = (valid_text(path) for path in values if isinstance(path, str) and len(path) <= PATH_CHARS_MAX)
        if path := next(paths, ""):
            read.update([path] if call.name in READS else [])
            changed.update([path] if call.name in CHANGES else [])
    return TouchedFiles(_sorted(read - changed), _sorted(changed))


def listed_files(entry: Entry | None) -> TouchedFiles:
    """Return the files that a summary lists; none for other entries.

    Lists that an extension of the agent wrote are ignored, because they may be wrong.
    """
    if not isinstance(entry, Compaction | BranchSummary):
        return TouchedFiles()
    is_of_extension = entry.extra.get("fromHook") or entry.extra.get("fromExtension")
    return TouchedFiles() if is_of_extension else TouchedFiles(entry.read_files, entry.modified_files)


def _sorted(paths: set[str]) -> tuple[str, ...]:
    # JavaScript sorts strings by UTF-16 code units.
    return tuple(sorted(paths, key=lambda path: path.encode("utf-16-be")))


# Plans that result from a cut, and plans without a summary, with the reason.


def empty_plan(strategy: str, line: ContextHistory, profile: Profile, reason: str) -> Plan:
    return Plan(strategy=strategy, profile=profile.NAME, leaf=line.leaf, nothing=reason)


def cut_plan(strategy: str, line: ContextHistory, profile: Profile, view: CompactionView, cut: Cut) -> Plan:
    """Return the plan for ``cut``: everything before the cut is summarized, and everything after it is kept."""
    entries = view.entries
    end = cut.first_kept if cut.turn is None else cut.turn
    history = conversation(entries[:end])
    prefix = () if cut.turn is None else conversation(entries[cut.turn : cut.first_kept])
    if not history and not prefix:
        return empty_plan(strategy, line, profile, "all entries would be kept")
    return Plan(
        strategy=strategy,
        profile=profile.NAME,
        leaf=line.leaf,
        first_kept=entries[cut.first_kept].node if cut.first_kept < len(entries) else None,
        history=history,
        prefix=prefix,
        kept=conversation(entries[cut.first_kept :]),
        previous=view.previous.summary if view.previous else "",
        carried=carried(view.previous),
        system=view.system,
        skills=view.skills,
        files=touched_files((item.entry for item in (*history, *prefix)), [listed_files(view.previous)]),
        tokens_before=view.tokens,
        replaced=total(profile, (*history, *prefix)) + (profile.estimate(view.previous) if view.previous else 0),
    )
