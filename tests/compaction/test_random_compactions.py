"""Random appends, compactions, prunes, branches and labels: old entries and their contexts never change."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import goldens
from builders import Clock, assert_clean, pi_file, talk
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gitsession.api import Session, Store
from gitsession.codec.digest import to_base64url
from gitsession.compaction.plan import CompactionRequest
from gitsession.compaction.strategies import STRATEGIES
from gitsession.compaction.summarizers.extractive import Extractive
from gitsession.compaction.write_summary import SummaryOptions
from gitsession.context.policies import clear_tool_uses, old_results
from gitsession.context.profiles import PROFILES
from gitsession.errors import Refused, SummaryFailed
from gitsession.formats import FORMATS
from gitsession.model.blocks import ToolCall
from gitsession.model.entries import Compaction, Entry, Message
from gitsession.sessions.node import Node

LONG = "word after word, " * 40


def files() -> list[bytes]:
    """Return the sessions to begin with: those of agents, if available, and a new one."""
    ours = pi_file(*talk(*"abcdefgh"))
    return [ours, *(case["text"].encode() for case in goldens.cases()[::5])]


FILES = files()
CALL = ToolCall("c1", "read", {"path": "a.py"})
SAID: dict[str, list[Entry]] = {
    "a question": [Message.user(f"Please, and we must keep it. {LONG}")],
    "an answer": [Message.assistant(f"Done. {LONG}")],
    "a call": [Message.assistant([CALL]), Message.tool(CALL, LONG * 3)],
    "a turn": [Message.user(LONG), Message.assistant([CALL]), Message.tool(CALL, LONG), Message.assistant(LONG)],
}


class Compactions(RuleBasedStateMachine):
    """One session with all its branches.

    ``seen`` has the context of an entry when it was the tip, by profile.
    """

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp())
        self.store = Store.create(self.place / "store.git", clock=Clock())
        self.lines: dict[str, list[Node]] = {}
        self.seen: dict[tuple[str, str], bytes] = {}
        self.made: set[str] = set()

    @initialize(data=st.sampled_from(FILES))
    def bring(self, data: bytes) -> None:
        done = self.store.agents.import_data(FORMATS["pi"], data, final=True)
        self.session: Session = self.store.session(done.session)

    @rule(what=st.sampled_from(list(SAID)))
    def append(self, what: str) -> None:
        for entry in SAID[what]:
            self.session.append(entry)

    @rule(
        strategy=st.sampled_from(list(STRATEGIES)),
        profile=st.sampled_from(list(PROFILES)),
        back=st.integers(0, 12),
        keep=st.sampled_from([0, 100, 600, 3000]),
        undo=st.booleans(),
    )
    def compact(self, strategy: str, profile: str, back: int, keep: int, undo: bool) -> None:
        line = self.session.history()
        at = line[max(len(line) - 1 - back, 0)]
        before = self.session.branches()
        try:
            plan = self.session.compaction.plan(
                strategy, profile=profile, request=CompactionRequest(at=at, keep_tokens=keep)
            )
            node = self.session.compact(plan, SummaryOptions(summarizer=Extractive(), max_tokens=200), undoable=undo)
        except (Refused, SummaryFailed):
            node = None
        if node is None:
            assert self.session.branches() == before
        elif strategy != "from":
            self.made.add(node.oid)
            assert self.session.history() == [*line, node]
            self.judge(line[-1], node)

    def judge(self, leaf: Node, node: Node) -> None:
        assert leaf.kind != Compaction.kind, "two in a row"
        entry = self.session.read(node)
        assert isinstance(entry, Compaction)
        chains = [to_base64url(each.chain) for each in self.session.history()]
        assert entry.first_kept is None or entry.first_kept in chains[:-1]

    @rule(tools=st.booleans())
    def prune(self, tools: bool) -> None:
        self.session.compaction.prune(clear_tool_uses() if tools else old_results(protect=100, least=10))

    @rule(name=st.sampled_from(["b1", "b2", "b3"]), back=st.integers(0, 20))
    def branch(self, name: str, back: int) -> None:
        line = self.session.history()
        if name in self.session.branches():
            self.session = self.session.on(name)
        else:
            self.session = self.session.branch(name, line[max(len(line) - 1 - back, 0)])

    @rule(back=st.integers(0, 5))
    def label(self, back: int) -> None:
        line = self.session.history()
        self.session.label(line[max(len(line) - 1 - back, 0)], f"label {len(line)}-{back}")

    @precondition(lambda self: hasattr(self, "session"))
    @invariant()
    def what_was_there_is_there_and_is_seen_as_it_was(self) -> None:
        for branch in self.session.branches():
            line = self.session.on(branch).history()
            known = self.lines.get(branch, [])
            assert line[: len(known)] == known
            self.lines[branch] = line
        leaf = self.session.history()[-1]
        for profile in PROFILES:
            self.seen.setdefault((leaf.oid, profile), self.session.context(leaf, profile=profile).digest)
        for oid, profile in list(self.seen)[-9::4]:
            assert self.session.context(oid, profile=profile).digest == self.seen[oid, profile]

    def teardown(self) -> None:
        try:
            if hasattr(self, "session"):
                assert_clean(self.store.objects)
                self.store.flush()
                self.is_the_same_on_a_clone()
        finally:
            self.store.close()
            shutil.rmtree(self.place, ignore_errors=True)

    def is_the_same_on_a_clone(self) -> None:
        Store.create(self.place / "clone.git").close()
        fetch = ["fetch", "-q", self.store.objects.git_dir, "refs/heads/sessions/*:refs/heads/sessions/*"]
        subprocess.run(["git", "-C", str(self.place / "clone.git"), *fetch], check=True)
        with Store.open(self.place / "clone.git") as clone:
            there = clone.session(self.session.id)
            for (oid, profile), digest in self.seen.items():
                assert there.context(oid, profile=profile).digest == digest


TestCompactionsAtRandom = Compactions.TestCase
TestCompactionsAtRandom.settings = settings(
    max_examples=8,
    stateful_step_count=15,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)
