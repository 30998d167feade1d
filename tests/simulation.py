"""Stores that go on, branch, undo, purge, push, pull, are killed, copied and offline at random, with real git between.

In the end four rounds of sync; then everything that was acknowledged is in every store and in the hub, all have the
same refs, and what was purged is in no object of any. Everything a run does follows from its seed.
"""

from __future__ import annotations

import atexit
import functools
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import NoReturn

from builders import START_MS, Clock, begun, nonces
from faults.shim import scratch
from purged import keys, said_by_objects, whole
from remotes import forge, git, remote, shared, store_with, there

from gitsession.errors import GitSessionError, Unavailable
from gitsession.model.entries import Message
from gitsession.session import graph, oplog
from gitsession.session.active import active
from gitsession.session.session import Session
from gitsession.session.verify import verify
from gitsession.store import gitcli, intents, lines, refs
from gitsession.store.gitstore import GitStore
from gitsession.sync import incoming, purging, quarantine, server, syncing, transport

ROUNDS = 4
PLACES = 12
"""Where a sync may be killed."""
SESSIONS = 2


class Killed(BaseException):
    """Where kill -9 would end a process."""


def _end() -> NoReturn:
    raise Killed


@dataclass
class Machine:
    """One store. ``said``: the chains of entries that it acknowledged; ``off``: it cannot reach the hub."""

    name: str
    path: Path
    clock: Clock
    store: GitStore
    off: bool = False

    def open(self) -> None:
        self.store = GitStore.open(self.path, flush_on_close=False)

    def killed(self) -> None:
        """What a process held in memory is gone; what it synced is there."""
        self.store.close()
        self.open()


@dataclass
class Outcome:
    """``lost``: what was acknowledged and is not in some place; ``apart``: places whose refs differ; ``wrong``: what a
    check says; ``traces``: what was purged and is there; ``names``: branches at the end.
    """

    lost: list[str] = field(default_factory=list)
    apart: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    traces: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return not (self.lost or self.apart or self.wrong or self.traces)


class Simulation:
    """``stores``: how many machines there are at first; ``copies``: one may be copied with all it is; ``hooks``: of
    ours run at the hub, else none; ``url``: where the hub is reached, if not by its path.
    """

    def __init__(
        self,
        seed: int,
        folder: Path,
        *,
        stores: int = 3,
        copies: bool = True,
        hooks: bool = False,
        url: str = "",
    ) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.folder = folder
        self.hub = folder / "hub.git"
        _put(_prepared(stores), folder, url or str(self.hub))
        if hooks:
            server.install(self.hub, [sys.executable, "-m", "gitsession"])
        self.copies = copies
        self.acknowledged: dict[str, tuple[str, str]] = {}
        """What was said, and in which session, by chain."""
        self.purged: set[str] = set()
        """Texts."""
        self.ended: set[str] = set()
        """Sessions that were purged whole."""
        self.numbers = count()
        self.trace: list[str] = []
        self.machines: list[Machine] = []
        for number in range(stores):
            path = folder / f"{number}.git"
            clock = Clock(START_MS + 60_000 + number)
            self.machines.append(Machine(str(number), path, clock, GitStore.open(path, flush_on_close=False)))
        self.sids = sorted({refs.session_of(ref) for ref in self.machines[0].store.refs(refs.SESSIONS)})

    # ---- what may happen

    def run(self, steps: int) -> Outcome:
        acts: list[tuple[int, Callable[[Machine], None]]] = [
            (8, self.say),
            (2, self.branch),
            (1, self.switch),
            (1, self.rewind),
            (1, self.label),
            (1, self.undo),
            (3, self.sync),
            (1, self.pull),
            (1, self.push),
            (2, self.plain),
            (2, self.die),
            (1, self.go_off),
            (1, self.copy),
            (1, self.flush),
            (1, self.purge),
        ]
        weights = [weight for weight, _ in acts]
        for _ in range(steps):
            machine = self.chance.choice(self.machines)
            [(_, act)] = self.chance.choices(acts, weights)
            self.trace.append(f"{machine.name} {act.__name__}")
            with suppress(GitSessionError):
                act(machine)
        return self.end()

    def say(self, machine: Machine) -> None:
        session = self.session(machine)
        text = f"said-{machine.name}-{next(self.numbers)}."
        node = session.append(Message.user(text), command=self.chance.choice(["", "say"]))
        self.acknowledged[node.chain.hex()] = text, session.id

    def branch(self, machine: Machine) -> None:
        session = self.session(machine)
        session.branch(f"b{self.chance.randrange(3)}", at=self.chance.choice(session.line()))

    def switch(self, machine: Machine) -> None:
        session = self.session(machine)
        session.switch(self.chance.choice(list(session.branches())))

    def rewind(self, machine: Machine) -> None:
        session = self.session(machine)
        node = self.chance.choice(session.line())
        with oplog.recording(machine.store, "rewind", machine.clock()) as recorder:
            session.go_on(recorder, node)

    def label(self, machine: Machine) -> None:
        session = self.session(machine)
        session.rename(f"title {self.chance.randrange(9)}")

    def undo(self, machine: Machine) -> None:
        """What is taken back need not be anywhere; what was published stays."""
        before = self.here(machine.store)
        self.chance.choice([oplog.undo, oplog.redo])(machine.store, machine.clock())
        for chain in before - self.here(machine.store):
            self.acknowledged.pop(chain, None)

    def sync(self, machine: Machine) -> None:
        self.online(machine, syncing.sync)

    def pull(self, machine: Machine) -> None:
        self.online(machine, syncing.pull)

    def push(self, machine: Machine) -> None:
        self.online(machine, syncing.push)

    def plain(self, machine: Machine) -> None:
        if not machine.off:
            if self.chance.random() < 0.5:
                machine.store.flush()
            word = self.chance.choice(["push", "fetch"])
            subprocess.run(["git", f"--git-dir={machine.path}", word, "-q"], capture_output=True, check=False)

    def die(self, machine: Machine) -> None:
        """kill -9 in the middle of a sync, or of nothing."""
        if not machine.off:
            with self.killing(self.chance.randrange(PLACES)), suppress(Killed):
                self.chance.choice([syncing.sync, syncing.pull, syncing.push])(machine.store, remote(machine.store))
        machine.killed()

    def go_off(self, machine: Machine) -> None:
        machine.off = not machine.off

    def copy(self, machine: Machine) -> None:
        """A store and its copy have one past, and know nothing of each other."""
        if self.copies and len(self.machines) < 5:
            machine.store.close()
            path = self.folder / f"{len(self.machines)}.git"
            shutil.copytree(machine.path, path)
            machine.open()
            other = GitStore.open(path, flush_on_close=False)
            clock = Clock(machine.clock.at_ms + len(self.machines))
            self.machines.append(Machine(str(len(self.machines)), path, clock, other))

    def flush(self, machine: Machine) -> None:
        machine.store.flush()

    def purge(self, machine: Machine) -> None:
        """An entry that was acknowledged, or now and then a session."""
        session = self.session(machine)
        machine.store.flush()
        if self.chance.random() < 0.1:
            purging.add(machine.store, whole(machine.store, session.id), machine.clock())
            self.ended.add(session.id)
            return
        said = [node for node in session.line() if node.chain.hex() in self.acknowledged]
        if said:
            node = self.chance.choice(said)
            purging.add(machine.store, keys(machine.store, node), machine.clock())
            self.purged.add(self.acknowledged.pop(node.chain.hex())[0])

    # ---- how

    def session(self, machine: Machine) -> Session:
        sid = self.chance.choice(self.sids)
        branch = active(machine.store, sid)
        if self.chance.random() < 0.4:
            branch = self.chance.choice(list(graph.branches(machine.store, sid)))
        return Session.open(machine.store, sid, machine.clock, branch)

    def online(self, machine: Machine, verb: Callable[..., object]) -> None:
        if machine.off:
            raise Unavailable("offline")
        verb(machine.store, remote(machine.store))

    @contextmanager
    def killing(self, at: int, end: Callable[[], NoReturn] = _end):
        """At the ``at``-th of the places on the way where the state of the world changes, the process ends."""
        count = 0

        def dying(call, *, before: bool):
            def wrapped(*arguments, **more):
                nonlocal count
                count += 1
                if before and count > at:
                    end()
                answer = call(*arguments, **more)
                count += 1
                if count > at:
                    end()
                return answer

            return wrapped

        patched = [
            (transport, "fetch"),
            (transport, "_push_chunk"),
            (quarantine.Quarantine, "move_in"),
            (incoming, "reconcile"),
            (GitStore, "flush"),
            (intents, "note"),
            (intents, "forget"),
            (gitcli, "talk"),
        ]
        kept = [(owner, name, getattr(owner, name)) for owner, name in patched]
        for owner, name, call in kept:
            setattr(owner, name, dying(call, before=True))
        try:
            yield
        finally:
            for owner, name, call in kept:
                setattr(owner, name, call)

    def here(self, store: GitStore) -> set[str]:
        """The chains of all entries that session refs reach."""
        seen: set[str] = set()
        found = set()
        for ref, tip in store.refs(refs.SESSIONS).items():
            if refs.is_branch(ref.rpartition("/")[2]):
                for node in graph.line(store, tip):
                    if node.oid in seen:
                        break
                    seen.add(node.oid)
                    if not node.is_tombstone:
                        found.add(node.chain.hex())
        return found

    # ---- the end

    def end(self) -> Outcome:
        for machine in self.machines:
            machine.off = False
            machine.killed()
        held: dict[str, str] = {}
        for machine in self.machines:
            held |= dict.fromkeys(self.here(machine.store), machine.name)
        outcome = Outcome()
        self.purged |= {text for text, sid in self.acknowledged.values() if sid in self.ended}
        kept = {chain: text for chain, (text, sid) in self.acknowledged.items() if sid not in self.ended}
        outcome.lost += [f"{text} before the end" for chain, text in kept.items() if chain not in held]
        for number in range(ROUNDS):
            for machine in self.chance.sample(self.machines, len(self.machines)):
                syncing.sync(machine.store, remote(machine.store))
            expected = there(self.hub)
            if number and all(shared(machine.store) == expected for machine in self.machines):
                break
        for machine in self.machines:
            here = shared(machine.store)
            if here != expected:
                outcome.apart.append(f"{machine.name}: {sorted(set(here.items()) ^ set(expected.items()))}")
            chains = self.here(machine.store)
            missing = [text for chain, text in kept.items() if chain not in chains]
            outcome.lost += [f"{text} in {machine.name}" for text in missing]
            outcome.wrong += [f"{machine.name}: {found}" for found in verify(machine.store).problems]
            if machine is self.machines[self.seed % len(self.machines)]:
                outcome.wrong += [f"{machine.name}: {line}" for line in gitcli.fsck(machine.path)]
            outcome.wrong += [f"{machine.name}: {found}" for found in self.names_that_grew(machine.store)]
        outcome.wrong += [f"hub: {line}" for line in gitcli.fsck(self.hub)]
        if self.purged:
            git(self.hub, "gc", "-q", "--prune=now")  # the owner's, of what no branch there leads to
            for path in (self.hub, *(machine.path for machine in self.machines)):
                there_is = said_by_objects(path)
                outcome.traces += [f"{text} in {path.name}" for text in self.purged if text.encode() in there_is]
        outcome.names = sorted(name for name in expected if refs.is_session_ref(name))
        return outcome

    def names_that_grew(self, store: GitStore) -> list[str]:
        """No name is longer than it has to be, and no two are for one line."""
        found = [ref for ref in store.refs(refs.SESSIONS) if not refs.is_session_ref(ref)]
        tips = store.refs(refs.SESSIONS)
        for ref, tip in tips.items():
            if "." in ref.rpartition("/")[2] and len(ref.rpartition(".")[2]) > 8:
                found.append(ref)
            base = ref.rpartition(".")[0] if refs.session_of(ref) not in self.ended else ""
            if base in tips and lines.holds(store.read, tips[base], tip):
                found.append(f"{ref} is part of {base}")
            beside = [other for other in tips if base and other != ref and other.rpartition(".")[0] == base]
            found += [f"{ref} is part of {other}" for other in beside if lines.holds(store.read, tips[other], tip)]
        return found

    def close(self) -> None:
        for machine in self.machines:
            machine.store.close()


@functools.cache
def _prepared(stores: int) -> Path:
    """A hub, and stores that have the same sessions: made once, for it is the same for every seed."""
    folder = Path(scratch())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    url = forge(folder / "hub.git")
    clock = Clock()
    for number in range(stores):
        with store_with(folder / f"{number}.git", url) as store:
            for text in range(SESSIONS if not number else 0):
                begun(store, f"session {text}", clock=clock)
            syncing.sync(store, remote(store))
    return folder


def _put(prepared: Path, folder: Path, url: str) -> None:
    """A copy of it, whose stores know the hub beside them by ``url``."""
    shutil.copytree(prepared, folder, dirs_exist_ok=True)
    for file in folder.glob("*.git/config"):
        file.write_text(file.read_text().replace(str(prepared / "hub.git"), url))


def simulate(
    seed: int, folder: Path, steps: int, kind: type[Simulation] = Simulation, **options: object
) -> Outcome:
    """One run from beginning to end, in ``seed-N``, which is left to be looked at where something is wrong."""
    place = folder / f"seed-{seed}"
    place.mkdir(parents=True)
    real = os.urandom
    os.urandom = nonces(str(seed).encode())  # type: ignore[assignment]
    made = None
    try:
        _prepared(options.get("stores", 3))  # type: ignore[arg-type]
        made = kind(seed, place, **options)  # type: ignore[arg-type]
        outcome = made.run(steps)
    finally:
        os.urandom = real
        if made is not None:
            made.close()
    if outcome.is_good:
        shutil.rmtree(place)
    else:
        (place / "trace").write_text("\n".join(made.trace))
    return outcome
