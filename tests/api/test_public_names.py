"""Tests of the public names: every type that the API accepts or returns has one, and the lists of names agree."""

from __future__ import annotations

import ast
import inspect
import typing
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import gitsession
from gitsession import Context, ExportResult, Hit, ImportResult, Message, Operation, RecentPrompt, Session, Store
from gitsession.api.agents import AgentSessions
from gitsession.api.compaction import SessionCompaction
from gitsession.api.files import SessionFiles
from gitsession.api.purges import Purges, Redaction, StoredSecrets
from gitsession.api.remotes import Remotes
from gitsession.api.trash import ArchivedSessions, RemovedSession, Trash
from gitsession.archive.trash import ExpiredSession, Retention
from gitsession.checkpoints.capturing import Phase
from gitsession.checkpoints.lookup import FileChange, Files
from gitsession.checkpoints.planning import RewindParts, RewindPlan
from gitsession.checkpoints.rewinding import RewindResult
from gitsession.compaction.plan import Plan
from gitsession.compaction.summary import Summarizer
from gitsession.compaction.write_summary import SummaryOptions
from gitsession.context.policies import Policy
from gitsession.discovery.side_files import SideFile, SideFileFinder
from gitsession.formats.base.record import Source
from gitsession.git.engine import StoreRepository
from gitsession.importing.import_state import ImportState
from gitsession.index.catalogue import Catalogue, Stat
from gitsession.live.ingesting import IngestResult
from gitsession.model.instructions import InstructionSet
from gitsession.model.session_state import SessionState
from gitsession.purge.finding import PurgePlan
from gitsession.purge.purging import PurgeResult
from gitsession.purge.redact_exports import RedactedExport
from gitsession.redaction.guard import Guard
from gitsession.repair.repair import RepairResult
from gitsession.sessions.origin import Origin
from gitsession.sessions.stored_secrets import FoundSecret, SecretSearch
from gitsession.store.interface import Transaction
from gitsession.sync.pushing import RemoteStatus
from gitsession.sync.remotes import Remote
from gitsession.sync.syncing import SyncReport
from gitsession.sync.transport import TransportOptions
from gitsession.verify.findings import Report, SignatureCheck
from gitsession.workspace.patches import FilePatch

INNER = {Catalogue, Guard, ImportState, SideFile, SideFileFinder, Source, Stat}
"""Types that only commands and pages use. They may change with every release."""

PARTS = (AgentSessions, ArchivedSessions, Purges, Remotes, SessionCompaction, SessionFiles, StoredSecrets, Trash)

OFFERED = {
    f"{offers.__name__}.{name}": getattr(offer, "fget", None) or getattr(offer, "func", offer)
    for offers in (Session, Store, *PARTS)
    for name, offer in inspect.getmembers(offers)
    if not name.startswith("_")
}

LATER = {
    each.__name__: each
    for each in (
        IngestResult,
        FileChange,
        Files,
        Remote,
        RewindPlan,
        RewindResult,
        SignatureCheck,
        SyncReport,
        TransportOptions,
    )
}
LATER |= {each.__name__: each for each in (FoundSecret, RedactedExport, Redaction, SecretSearch)}
LATER |= {
    each.__name__: each
    for each in (ExpiredSession, PurgeResult, PurgePlan, RepairResult, Report, Retention, RemoteStatus, RemovedSession)
}
LATER |= {each.__name__: each for each in (FilePatch, StoreRepository, Transaction)}
LATER |= {each.__name__: each for each in (*PARTS, Plan, Summarizer, SummaryOptions)}
LATER |= {
    each.__name__: each for each in (AgentSessions, Context, ExportResult, Hit, ImportResult, Operation, RecentPrompt)
}
LATER |= {each.__name__: each for each in (InstructionSet, SessionState)}
LATER |= {"Origin": Origin, "Policy": Policy, "Phase": Phase, "Stat": Stat, "RewindParts": RewindParts}
"""What methods name and their modules load only when they are called."""


def classes_in(hint: object) -> Iterator[type]:
    """Yield the classes of gitsession in a type, at any depth."""
    if isinstance(hint, type) and hint.__module__.startswith("gitsession."):
        yield hint
    for inner in hint if isinstance(hint, list | tuple) else typing.get_args(hint):
        yield from classes_in(inner)


@pytest.mark.parametrize("name", OFFERED)
def test_parameter_and_return_types_are_public(name: str) -> None:
    hints = typing.get_type_hints(getattr(OFFERED[name], "__func__", OFFERED[name]), localns=LATER)
    named = {found for hint in hints.values() for found in classes_in(hint)} - INNER
    assert {found for found in named if getattr(gitsession, found.__name__, None) is not found} == set()


@pytest.mark.parametrize("name", OFFERED)
def test_every_public_method_has_a_docstring(name: str) -> None:
    assert OFFERED[name].__doc__


@pytest.mark.parametrize("name", gitsession.__all__)
def test_a_public_name_is_there(name: str) -> None:
    assert getattr(gitsession, name) is not None
    assert name in dir(gitsession)


def test_another_name_is_not_there() -> None:
    with pytest.raises(AttributeError, match="telepathy"):
        gitsession.telepathy  # noqa: B018


def test_type_checkers_read_the_same_names_as_the_runtime() -> None:
    [lazy] = [node for node in ast.parse(Path(gitsession.__file__).read_text("utf-8")).body if isinstance(node, ast.If)]
    read = {alias.name: node.module for node in lazy.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert read == gitsession._HOMES
    assert sorted([*read, "__version__"]) == sorted(gitsession.__all__)


TAKES: dict[str, tuple[Callable[[Session, Store, typing.Any], object], str]] = {
    "rewind": (lambda session, _, wrong: session.files.rewind(wrong), r"a plan, as in .*plan_rewind\(entry\)"),
    "plan_rewind": (lambda session, _, wrong: session.files.plan_rewind(wrong), "an address such as 'leaf'"),
    "context": (lambda session, _, wrong: session.context(wrong), "an address such as 'leaf', or an entry"),
    "label": (lambda session, _, wrong: session.label("leaf", wrong), "a text"),
    "rename": (lambda session, _, wrong: session.rename(wrong), "a text"),
    "branch": (lambda session, _, wrong: session.branch(wrong), "a name for the branch"),
    "switch": (lambda session, _, wrong: session.switch(wrong), "the name of a branch"),
    "append": (lambda session, _, wrong: session.append(wrong), "an entry such as"),
    "session": (lambda _, store, wrong: store.session(wrong), "an address of a session"),
    "purge": (lambda _, store, wrong: store.purges.apply(wrong), r"a plan, as store\.purges\.plan"),
}


@pytest.mark.parametrize("wrong", [None, 5, ["leaf"]], ids=str)
@pytest.mark.parametrize(("call", "accepted"), TAKES.values(), ids=TAKES)
def test_argument_of_another_type_is_rejected_with_the_accepted_types(
    call: Callable[[Session, Store, object], object], accepted: str, wrong: object, tmp_path: Path
) -> None:
    with Store.create(tmp_path / "store.git") as store:
        session = store.new_session(agent="pi")
        session.append(Message.user("hi"))
        with pytest.raises(TypeError, match=f"expected {accepted}.*, not {type(wrong).__name__}"):
            call(session, store, wrong)


@pytest.mark.parametrize("form", ["export", "resume"])
def test_address_in_place_of_an_entry_is_rejected(form: str, tmp_path: Path) -> None:
    with Store.create(tmp_path / "store.git") as store:
        session = store.new_session(agent="pi")
        session.append(Message.user("hi"))
        with pytest.raises(TypeError, match=r"expected an entry, as session\.resolve\('leaf'\) returns, not str"):
            getattr(store if form == "export" else store.agents, form)(session.id, "leaf")
        with pytest.raises(TypeError, match=r"expected a plan, as session\.compaction\.plan\(\) returns, not str"):
            session.compact("leaf")  # type: ignore[arg-type]
