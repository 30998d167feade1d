"""Random schedules of several stores that share a hub, with real git between them.

The stores append, branch, fork, label, checkpoint, undo, purge, archive, restore, push and pull. They are killed,
copied and disconnected. After the final rounds of sync, every acknowledged entry that was not purged is in every store,
all stores and the hub have the same refs, and no store contains purged data. The seed determines the whole run.
"""

from __future__ import annotations

import atexit
import functools
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import NoReturn

import checkpoints
from builders import START_MS, Clock, begun, nonces
from builders import fork as fork_of
from faults.shim import scratch
from purged import files_that_say, keys, said_by_objects, whole
from remotes import forge, git, remote, shared, store_with, there

from gitsession.archive import archive_set, archiving
from gitsession.archive.archive_set import UnarchivedStore
from gitsession.errors import GitSessionError, Unavailable
from gitsession.git import process
from gitsession.git.objects import oid_of
from gitsession.git.types import Oid
from gitsession.model.entries import Label, Message, Title
from gitsession.purge import purging
from gitsession.server import server
from gitsession.sessions import graph, operation_log
from gitsession.sessions.active_branch import active
from gitsession.sessions.content import entry_of
from gitsession.sessions.session import StoredSession
from gitsession.sessions.tombstone_set import FILE, Tombstones
from gitsession.store import histories, published, refs
from gitsession.store.git_store import GitStore
from gitsession.sync import syncing, transport
from gitsession.verify.entry_walk import verify

ROUNDS = 4
PLACES = 12
"""Number of calls at which a sync may be killed."""
SESSIONS = 2


class Killed(BaseException):
    """A simulated kill -9 of the process."""


def _end() -> NoReturn:
    raise Killed


@dataclass
class Machine:
    """One store.

    ``said`` has the chain digests of the entries that the store acknowledged. ``off`` is set while the store cannot
    reach the hub.
    """

    name: str
    path: Path
    clock: Clock
    store: GitStore
    off: bool = False

    def open(self) -> None:
        self.store = GitStore.open(self.path, flush_on_close=False)

    def killed(self) -> None:
        """Reopen the store, as after kill -9: buffered data is lost, synced data is kept."""
        self.store.close()
        self.open()


@dataclass
class Outcome:
    """The findings of a run.

    ``lost``: acknowledged entries that a store does not have. ``apart``: stores whose refs differ. ``wrong``: problems
    that ``verify`` or ``git fsck`` found. ``traces``: purged texts that still exist. ``names``: the branches at the
    end.
    """

    lost: list[str] = field(default_factory=list)
    apart: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    traces: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list, repr=False)

    @property
    def is_good(self) -> bool:
        return not (self.lost or self.apart or self.wrong or self.traces)


class Simulation:
    """A random run of several stores.

    Args:
        stores: Number of stores at the start.
        copies: Whether a store may be copied with all its data.
        hooks: Whether the hub runs the hooks of gitsession.
        url: URL of the hub. The default is its path.
        keeps: Whether the hub rejects the deletion of branches.
        skip: Numbers of the steps to leave out. The other steps stay the same.
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
        keeps: bool = False,
        skip: Collection[int] = (),
    ) -> None:
        self.seed = seed
        self.skip = skip
        self.keeps = keeps
        self.chance = random.Random(seed)
        self.folder = folder
        self.hub = folder / "hub.git"
        _put(_prepared(stores), folder, url or str(self.hub))
        if hooks:
            server.install(self.hub, [sys.executable, "-m", "gitsession"])
        git(self.hub, "config", "receive.denyDeletes", "true" if keeps else "false")
        self.copies = copies
        self.acknowledged: dict[str, tuple[str, str]] = {}
        """The text of each acknowledged entry and its session, by key (``keys_of``)."""
        self.contents: dict[Oid, tuple[str, str]] = {}
        """The text of each captured file and its session, by blob."""
        self.inherited: dict[str, set[str]] = {}
        """The keys and blobs that a fork shares with its origin."""
        self.undone: set[str] = set()
        """Forks that were undone."""
        self.purged: set[str] = set()
        """Purged texts."""
        self.ended: set[str] = set()
        """Sessions that were purged completely."""
        self.numbers = count()
        self.trace: list[str] = []
        self.machines: list[Machine] = []
        for number in range(stores):
            path = folder / f"{number}.git"
            clock = Clock(START_MS + 60_000 + number)
            self.machines.append(Machine(str(number), path, clock, GitStore.open(path, flush_on_close=False)))
        self.sids = sorted({refs.session_of(ref) for ref in self.machines[0].store.refs(refs.SESSIONS)})

    # ---- steps

    def run(self, steps: int) -> Outcome:
        acts: list[tuple[int, Callable[[Machine], None]]] = [
            (8, self.say),
            (2, self.branch),
            (1, self.switch),
            (1, self.rewind),
            (1, self.begin),
            (2, self.fork),
            (1, self.name),
            (1, self.label),
            (2, self.checkpoint),
            (3, self.archive),
            (1, self.restore),
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
            (1, self.purge_session),
            (1, self.purge_file),
        ]
        weights = [weight for weight, _ in acts]
        for number in range(steps):
            if number in self.skip:
                continue
            self.chance = random.Random(f"{self.seed} {number}")
            machine = self.chance.choice(self.machines)
            [(_, act)] = self.chance.choices(acts, weights)
            self.trace.append(f"{number}: {machine.name} {act.__name__}")
            try:
                act(machine)
            except GitSessionError as error:
                self.trace[-1] += f" ({type(error).__name__}: {error})"
        return self.end()

    def say(self, machine: Machine) -> None:
        session = self.session(machine)
        text = f"said-{machine.name}-{next(self.numbers)}."
        node = session.append(Message.user(text), command=self.chance.choice(["", "say"]))
        self.acknowledged[node.chain.hex()] = text, session.id

    def branch(self, machine: Machine) -> None:
        session = self.session(machine)
        session.branch(f"b{self.chance.randrange(3)}", at=self.chance.choice(session.history()))

    def switch(self, machine: Machine) -> None:
        session = self.session(machine)
        session.switch(self.chance.choice(list(session.branches())))

    def rewind(self, machine: Machine) -> None:
        session = self.session(machine)
        node = self.chance.choice(session.history())
        with operation_log.recording(machine.store, "rewind", machine.clock()) as recorder:
            session.continue_after(recorder, node)

    def begin(self, machine: Machine) -> None:
        text = f"said-{machine.name}-{next(self.numbers)}."
        session = begun(machine.store, text, clock=machine.clock)
        self.sids.append(session.id)
        self.acknowledged[session.history()[-1].chain.hex()] = text, session.id

    def fork(self, machine: Machine) -> None:
        session = self.session(machine)
        made = fork_of(session, self.chance.choice(session.history()))
        self.sids.append(made.id)
        held = machine.store.refs(refs.session(made.id)).items()
        before = {session.id} | {text for text in self.inherited.get(session.id, ()) if text in self.sids}
        blobs = {oid for oid, (_, sid) in self.contents.items() if sid in before}
        words = {key for key, (_, sid) in self.acknowledged.items() if ":" in key and sid in before}
        self.inherited[made.id] = before | blobs | words | self.keys_of(machine.store, held)

    def name(self, machine: Machine) -> None:
        session = self.session(machine)
        text = f"title-{machine.name}-{next(self.numbers)}."
        session.rename(text)
        self.acknowledged[f"meta:{text}"] = text, session.id

    def label(self, machine: Machine) -> None:
        session = self.session(machine)
        text = f"label-{machine.name}-{next(self.numbers)}."
        session.label(self.chance.choice(session.history()), text)
        self.acknowledged[f"meta:{text}"] = text, session.id

    def checkpoint(self, machine: Machine) -> None:
        session = self.session(machine)
        number = next(self.numbers)
        text = f"file-{machine.name}-{number}."
        point = checkpoints.held(machine.store, session.id, {"a.txt": text}, session.leaf, at_ms=machine.clock())
        self.acknowledged[point.node.chain.hex()] = f"checkpoint {number}", session.id
        self.contents[oid_of("blob", text.encode())] = text, session.id

    def archive(self, machine: Machine) -> None:
        archiving.archive(machine.store, [self.session(machine).id])

    def restore(self, machine: Machine) -> None:
        found = list(archive_set.read(machine.store))
        if found:
            archiving.restore(machine.store, self.chance.choice(found))

    def undo(self, machine: Machine) -> None:
        """Undo or redo an operation. Unpublished entries that are undone need not be kept."""
        before, sids = self.here(machine.store), self.live(machine.store)
        operation_log.apply_next(machine.store, self.chance.choice(["undo", "redo"]), machine.clock())
        for chain in before - self.here(machine.store):
            self.acknowledged.pop(chain, None)
        self.undone |= sids - self.live(machine.store)

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
        """Kill the process in the middle of a sync, or between operations."""
        if not machine.off:
            with self.killing(self.chance.randrange(PLACES)), suppress(Killed):
                self.chance.choice([syncing.sync, syncing.pull, syncing.push])(machine.store, remote(machine.store))
        machine.killed()

    def go_off(self, machine: Machine) -> None:
        machine.off = not machine.off

    def copy(self, machine: Machine) -> None:
        """Copy a store. The store and its copy have the same history, and neither has data about the other."""
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
        """Purge an acknowledged entry."""
        session = self.session(machine)
        machine.store.flush()
        said = [node for node in session.history() if node.chain.hex() in self.acknowledged]
        if said:
            node = self.chance.choice(said)
            purging.add(machine.store, keys(machine.store, node), machine.clock())
            self.purged.add(self.acknowledged.pop(node.chain.hex())[0])

    def purge_session(self, machine: Machine) -> None:
        """Purge a whole session. It can be a fork, an origin of a fork, or archived."""
        view = UnarchivedStore.of(machine.store)
        found = sorted(self.live(view) - self.ended)
        if len(found) > 1:
            sid = self.chance.choice(found)
            machine.store.flush()
            self.ended.add(sid)
            self.trace[-1] += f" {sid}"
            purging.add(machine.store, whole(view, sid), machine.clock())

    def purge_file(self, machine: Machine) -> None:
        """Purge a captured file from all checkpoints that contain it."""
        found = sorted(oid for oid in self.contents if machine.store.contains(oid))
        if found:
            oid = self.chance.choice(found)
            machine.store.flush()
            purging.add(machine.store, Tombstones(frozenset({FILE + oid})), machine.clock())
            self.purged.add(self.contents.pop(oid)[0])

    # ---- helpers

    def session(self, machine: Machine) -> StoredSession:
        sid = self.chance.choice([sid for sid in self.sids if sid in self.live(machine.store)] or self.sids)
        self.trace[-1:] = [f"{line} {sid}" for line in self.trace[-1:]]
        branch = active(machine.store, sid)
        if self.chance.random() < 0.4:
            branch = self.chance.choice(list(graph.branches(machine.store, sid)))
        return StoredSession.open(machine.store, sid, machine.clock, branch)

    def online(self, machine: Machine, verb: Callable[..., object]) -> None:
        if machine.off:
            raise Unavailable("offline")
        verb(machine.store, remote(machine.store))

    @contextmanager
    def killing(self, at: int, end: Callable[[], NoReturn] = _end):
        """Patch the calls that change state so that the process ends before or after the ``at``-th of them."""
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
            (transport.Quarantine, "move_in"),
            (syncing, "reconcile"),
            (GitStore, "flush"),
            (published, "record"),
            (published, "forget"),
            (process, "run_transfer"),
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
        """Return the keys of all entries that session refs reach, including those of archived sessions."""
        return self.keys_of(store, UnarchivedStore.of(store).refs(refs.SESSIONS).items())

    def keys_of(self, store: GitStore, held: Iterable[tuple[str, Oid]]) -> set[str]:
        """Return the keys of the entries that refs reach.

        The key of an entry is its chain digest, except for titles and labels. Their chain digest changes if two stores
        name a session independently.
        """
        seen: set[str] = set()
        found = set()
        for ref, tip in held:
            is_meta = refs.is_meta(ref.rpartition("/")[2])
            for node in graph.history(store, tip):
                if node.oid in seen:
                    break
                if is_meta and node.kind in (Title.kind, Label.kind) and not node.is_tombstone:
                    entry = entry_of(store, node)
                    found.add(f"meta:{entry.title if isinstance(entry, Title) else entry.label}")
                if not is_meta:
                    seen.add(node.oid)
                    if not node.is_tombstone:
                        found.add(node.chain.hex())
        return found

    def live(self, store: GitStore) -> set[str]:
        return {refs.session_of(ref) for ref in store.refs(refs.SESSIONS)} - {""}

    def settle_purged(self) -> dict[str, str]:
        """Return the acknowledged entries that every store must have.

        Those that no store may have are added to ``purged``.

        A fork that was not purged keeps the entries that it shares with a purged session.
        """
        kept = {}
        alive = {sid: shared for sid, shared in self.inherited.items() if sid not in self.ended}
        may = set().union(*alive.values())
        must = set().union(*(shared for sid, shared in alive.items() if sid not in self.undone))
        for key, (text, sid) in self.acknowledged.items():
            if sid not in self.ended or (key in must and ":" not in key):
                kept[key] = text
            elif key not in may:
                self.purged.add(text)
        self.purged |= {text for oid, (text, sid) in self.contents.items() if sid in self.ended and oid not in may}
        return kept

    # ---- the end

    def end(self) -> Outcome:
        for machine in self.machines:
            machine.off = False
            machine.killed()
        held: dict[str, str] = {}
        for machine in self.machines:
            held |= dict.fromkeys(self.here(machine.store), machine.name)
        outcome = Outcome()
        kept = self.settle_purged()
        outcome.lost += [f"{text} before the end" for chain, text in kept.items() if chain not in held]
        for number in range(ROUNDS):
            for machine in self.chance.sample(self.machines, len(self.machines)):
                syncing.sync(machine.store, remote(machine.store))
            expected = self.at_hub()
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
                outcome.wrong += [f"{machine.name}: {line}" for line in process.fsck(machine.path)]
            outcome.wrong += [f"{machine.name}: {found}" for found in self.names_that_grew(machine.store)]
        outcome.wrong += [f"hub: {line}" for line in process.fsck(self.hub)]
        if self.purged:
            git(self.hub, "gc", "-q", "--prune=now")  # the owner removes unreachable objects
            for machine in self.machines:
                purging.apply(machine.store, thorough=True)  # also unreachable data that plain git fetched
            for path in (self.hub, *(machine.path for machine in self.machines)):
                there_is = said_by_objects(path)
                there_is += files_that_say(path)
                outcome.traces += [f"{text} in {path.name}" for text in self.purged if text.encode() in there_is]
        outcome.names = sorted(name for name in expected if refs.is_session_ref(name))
        return outcome

    def at_hub(self) -> dict[str, str]:
        """Return the branches of the hub, without those of archived sessions if the hub rejects deletions."""
        found = there(self.hub)
        away = set(archive_set.read(self.machines[0].store)) if self.keeps else set()
        return {name: oid for name, oid in found.items() if refs.session_of(name) not in away}

    def names_that_grew(self, store: GitStore) -> list[str]:
        """Return the names that are longer than necessary, and pairs of names for one branch."""
        found = [ref for ref in store.refs(refs.SESSIONS) if not refs.is_session_ref(ref)]
        tips = store.refs(refs.SESSIONS)
        for ref, tip in tips.items():
            if "." in ref.rpartition("/")[2] and len(ref.rpartition(".")[2]) > 8:
                found.append(ref)
            base = ref.rpartition(".")[0] if refs.session_of(ref) not in self.ended else ""
            if base in tips and histories.holds(store.read, tips[base], tip):
                found.append(f"{ref} is part of {base}")
            beside = [other for other in tips if base and other != ref and other.rpartition(".")[0] == base]
            found += [f"{ref} is part of {other}" for other in beside if histories.holds(store.read, tips[other], tip)]
        return found

    def close(self) -> None:
        for machine in self.machines:
            machine.store.close()


@functools.cache
def _prepared(stores: int) -> Path:
    """Create a hub and stores with the same sessions. It is created once, because it is the same for all seeds."""
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
    """Copy the prepared folder and set the hub's URL in the stores."""
    shutil.copytree(prepared, folder, dirs_exist_ok=True)
    for file in folder.glob("*.git/config"):
        file.write_text(file.read_text().replace(str(prepared / "hub.git"), url))


def simulate(seed: int, folder: Path, steps: int, kind: type[Simulation] = Simulation, **options: object) -> Outcome:
    """Run one simulation in ``seed-N``. If it finds a problem, the folder is kept."""
    place = folder / f"seed-{seed}"
    place.mkdir(parents=True)
    real = os.urandom
    os.urandom = nonces()  # type: ignore[assignment]
    made = None
    try:
        _prepared(options.get("stores", 3))  # type: ignore[arg-type]
        os.urandom = nonces(str(seed).encode())  # type: ignore[assignment]
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
        outcome.trace = made.trace
    return outcome
