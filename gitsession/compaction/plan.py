"""The plan of a compaction, before it does anything; every strategy ends with one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gitsession.codec.cbor import whole
from gitsession.compaction.pi_cuts import Cut
from gitsession.compaction.visible_entries import CompactionView, ShownEntry, carried, conversation
from gitsession.context.history import ContextHistory
from gitsession.context.profiles import Profile, total
from gitsession.context.value import Item
from gitsession.git.types import Oid
from gitsession.model.blocks import ToolCall
from gitsession.model.entries import BranchSummary, Compaction, Entry, Message
from gitsession.sessions.node import Node

# Which files the agent read and which it changed, carried from one compaction to the next (rule 28).

READS = frozenset({"read", "Read", "read_file", "view"})
CHANGES = frozenset(
    {"write", "edit", "Write", "Edit", "MultiEdit", "NotebookEdit", "write_file", "edit_file", "str_replace"}
)
"""Names of the agents' tools for files."""

PATH_CHARS_MAX = 4096
"""No system opens a longer one; what is longer is no path, and would be carried for ever."""

ARGUMENTS = ("path", "file_path", "filePath", "notebook_path")


@dataclass(frozen=True, slots=True)
class TouchedFiles:
    """Paths as the agent named them, sorted; one that was changed is not among those that were only read."""

    read: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()


NO_FILES = TouchedFiles()


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactionRequest:
    """What the caller wants. ``keep_tokens``: of the end, as it is; ``None`` is what the agent keeps.

    ``at``: the entry from which, or up to which, for the strategies that go by one. ``window``: of the model, in
    tokens; ``None`` where nobody said. ``reground_every``: behind so many summaries, each carried on from the one
    before, comes one from the entries themselves; 0 is never.
    """

    keep_tokens: int | None = None
    at: Node | None = None
    window: int | None = None
    reground_every: int = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What goes into a summary and what stays; whoever made it has only read.

    ``leaf``: the entry it was made for. ``first_kept``: from there on all stays as it is; ``None``: nothing does.
    ``history``: what the summary stands for; ``prefix``: the beginning of a turn whose end is kept, summarised apart;
    ``kept``: what is shown behind the summary. ``previous``: the summary to carry on, ``carried``: how many in a row
    have been carried on from the one before. ``system``: what the agent was told, which goes with the summary.
    ``quoted``: words that stand in the summary as they are. ``onto``: where the summary goes if not behind the leaf:
    then it is one of a branch that is left. ``tokens_before``: the whole context; ``replaced``: of it, by our count,
    what the summary takes the place of. ``nothing``: why there is nothing to do; then the rest says nothing.
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
    quoted: str = ""
    onto: Node | None = None
    files: TouchedFiles = NO_FILES
    tokens_before: int = 0
    replaced: int = 0
    nothing: str = ""


def touched(entries: Iterable[Entry], carried: TouchedFiles = NO_FILES) -> TouchedFiles:
    """The files that ``entries`` call tools on, and those ``carried`` from earlier."""
    read, changed = set(map(whole, carried.read)), set(map(whole, carried.modified))
    for entry in entries:
        for block in entry.content if isinstance(entry, Message) and entry.role == "assistant" else ():
            path = path_of(block) if isinstance(block, ToolCall) else ""
            if path and isinstance(block, ToolCall):
                read.update([path] if block.name in READS else [])
                changed.update([path] if block.name in CHANGES else [])
    return TouchedFiles(_sorted(read - changed), _sorted(changed))


def carried_by(entry: Compaction | BranchSummary | None) -> TouchedFiles:
    """The files that a summary hands on; what an extension wrote into one of its own is not trusted to be such."""
    if entry is None or entry.extra.get("fromHook") or entry.extra.get("fromExtension"):
        return NO_FILES
    return TouchedFiles(entry.read_files, entry.modified_files)


def path_of(call: ToolCall) -> str:
    """The file that a call names; "" where it names none."""
    stated = (call.arguments.get(name) for name in ARGUMENTS)
    return next((whole(path) for path in stated if isinstance(path, str) and len(path) <= PATH_CHARS_MAX), "")


def _sorted(paths: set[str]) -> tuple[str, ...]:
    # As JavaScript sorts: by UTF-16 units.
    return tuple(sorted(paths, key=lambda path: path.encode("utf-16-be")))


# A plan out of a cut, and the one that says why there is nothing to do: what every strategy ends with.


def nothing(strategy: str, line: ContextHistory, profile: Profile, why: str) -> Plan:
    return Plan(strategy=strategy, profile=profile.NAME, leaf=line.leaf, nothing=why)


def cut_plan(
    strategy: str, line: ContextHistory, profile: Profile, seen: CompactionView, places: tuple[ShownEntry, ...],
    cut: Cut
) -> Plan:
    """The plan of a cut: what is before it is summarised, what is behind it stays."""
    end = cut.first_kept if cut.turn is None else cut.turn
    history = conversation(places[:end])
    prefix = () if cut.turn is None else conversation(places[cut.turn : cut.first_kept])
    if not history and not prefix:
        return nothing(strategy, line, profile, "all of it would be kept")
    return Plan(
        strategy=strategy,
        profile=profile.NAME,
        leaf=line.leaf,
        first_kept=places[cut.first_kept].node if cut.first_kept < len(places) else None,
        history=history,
        prefix=prefix,
        kept=conversation(places[cut.first_kept :]),
        previous=seen.summary,
        carried=carried(seen.previous),
        system=seen.system,
        files=touched((item.entry for item in (*history, *prefix)), carried_by(seen.previous)),
        tokens_before=seen.tokens,
        replaced=total(profile, (*history, *prefix)) + (profile.estimate(seen.previous) if seen.previous else 0),
    )
