"""Pull, push and sync: what a remote holds is taken in, what it lacks is sent.

    pull   fetch apart -> judge -> packs, tracking refs and our refs in one transaction
    push   note what is about to go -> git push, exact refs only -> tracking refs
    sync   pull, push; again where somebody published in between

Each step can be killed and done again: what a transaction holds is there or not, and the next run comes to the same.
Appends go on meanwhile. docs/sync.md has the rules.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from gitsession.errors import GitSessionError, Refused, Unavailable
from gitsession.store import create, intents, lines, refs
from gitsession.store.base import Oid, Transaction
from gitsession.store.gitstore import GitStore
from gitsession.store.lock import alone
from gitsession.sync import gate, growing, tombstones, transport
from gitsession.sync.judged import Proposed, Reader, judge
from gitsession.sync.quarantine import Quarantine
from gitsession.sync.reconcile import SyncedBranch, reconcile
from gitsession.sync.remotes import Remote
from gitsession.sync.transport import Talk, Unfit

ATTEMPTS = 6
LOCK = f"{create.CONTROL}/sync.lock"

_HEADS = "refs/heads/"
_QUIET = Talk()
_BEHIND = "others published first: pull, then push again"


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What became of each ref. ``pushed``: those that the remote took; ``said``: what its hooks said.

    ``whole``: nothing is left to be pushed, as far as the remote takes it.
    """

    remote: str
    branches: tuple[SyncedBranch, ...]
    pushed: frozenset[str] = frozenset()
    said: tuple[str, ...] = ()
    whole: bool = True

    def of(self, *outcomes: str) -> list[SyncedBranch]:
        return [branch for branch in self.branches if branch.outcome in outcomes]


def pull(store: GitStore, remote: Remote, talk: Talk = _QUIET) -> SyncReport:
    """Take in what the remote has. Raises ``Unavailable``."""
    with _alone(store):
        return SyncReport(remote.name, tuple(_take_in(store, remote, talk)))


def push(
    store: GitStore,
    remote: Remote,
    talk: Talk = _QUIET,
    *,
    sessions: Iterable[str] = (),
) -> SyncReport:
    """Send what the remote lacks, as far as was seen of it; of ``sessions`` only, if any are named.

    Nothing is forced: what others published meanwhile is refused there, and told. Raises ``Unavailable``.
    """
    with _alone(store):
        return _send(store, remote, talk, only=set(sessions))


def sync(store: GitStore, remote: Remote, talk: Talk = _QUIET) -> SyncReport:
    """Both, until both have the same. Raises ``Unavailable``, also where others publish again and again."""
    pulled: dict[str, SyncedBranch] = {}
    pushed: frozenset[str] = frozenset()
    with _alone(store):
        for _ in range(ATTEMPTS):
            if store.ref(refs.TOMBSTONES) != store.ref(remote.tracking(refs.TOMBSTONES)):
                # Before any session: a server with our hooks takes it out of what it has.
                pushed |= _send(store, remote, talk, only={refs.TOMBSTONES}).pushed
            for branch in _take_in(store, remote, talk):
                pulled[branch.ref] = _summed(pulled.get(branch.ref), branch)
            spoilt = {branch.ref for branch in pulled.values() if branch.outcome == "refused" and not branch.beside}
            sent = _send(store, remote, talk, leave=spoilt)
            pushed |= sent.pushed
            if sent.whole:
                found = {branch.ref: branch for branch in sent.branches} | pulled
                for branch in sent.branches:
                    found[branch.ref] = _with_push(pulled.get(branch.ref), branch)
                return SyncReport(remote.name, tuple(found[ref] for ref in sorted(found)), pushed, sent.said)
    raise Unavailable(
        f"others publish to {remote.name} again and again; nothing is lost", hint="try again: `gitsession sync`"
    )


def _summed(before: SyncedBranch | None, now: SyncedBranch) -> SyncedBranch:
    """What became of a ref over several attempts."""
    if before is None or before.outcome in ("same", "ahead", "refused"):
        return now
    if now.outcome in ("same", "ahead"):
        return before
    return dataclasses.replace(now, old=before.old, beside=now.beside or before.beside)


def _with_push(pulled: SyncedBranch | None, sent: SyncedBranch) -> SyncedBranch:
    if sent.outcome == "refused":
        return sent
    if pulled is None or pulled.outcome in ("same", "ahead"):
        return dataclasses.replace(sent, outcome="ahead")
    return pulled


@contextmanager
def _alone(store: GitStore) -> Iterator[None]:
    """One at a time; appends go on. Raises ``Unavailable``."""
    if store.read_only:
        raise Unavailable(f"{store.git_dir} is read-only here")
    if create.is_shallow(store.git_dir):
        raise Refused(
            f"{store.git_dir} is a shallow clone: the oldest entries of its lines are not there",
            hint="`gitsession git fetch --unshallow` brings them",
        )
    with alone(store.git_dir / LOCK):
        yield


# ---- in


def _take_in(store: GitStore, remote: Remote, talk: Talk) -> list[SyncedBranch]:
    """First what was purged, which is carried out; then one transaction: the packs, the tracking refs, and our own."""
    _flush(store)
    with Quarantine(store.git_dir, remote, _known(store, remote)) as place:
        refused = _fetch_apart(place, remote, talk)
        place.cut_off()
        there = place.refs(remote.tracks)
        _check_is_store(remote, {remote.here(name): oid for name, oid in there.items()}, Reader(place.git_dir, store))
        fetched = {ref: oid for ref, oid in _of_ours(remote, there).items() if ref not in refused}
        joined = growing.join(store, Reader(place.git_dir, store), fetched.get(refs.TOMBSTONES))
        refused |= {branch.ref: branch for branch in joined if branch.outcome == "refused"}
        fetched = {ref: oid for ref, oid in fetched.items() if ref not in refused}
        _flush(store)
        known = _known(store, remote)
        theirs = {ref: oid for ref, oid in fetched.items() if ref != refs.TOMBSTONES}
        refused |= _judge(store, place, theirs, known)
        theirs = {ref: oid for ref, oid in theirs.items() if ref not in refused}
        if refused:
            place.keep_only({**theirs, **_tombstones(fetched)}.values(), known.values())
        with store.transaction() as tx:
            try:
                place.move_in()
            except OSError as error:
                raise Unavailable(f"cannot keep what was fetched: {error.strerror}") from error
            if remote.is_named:
                _remember(store, tx, remote, {**theirs, **_tombstones(fetched)}, {*there})
            here, away = store.refs(_HEADS), _in_trash(store)
            theirs = {ref: oid for ref, oid in theirs.items() if ref in here or refs.session_of(ref) not in away}
            differ = {ref: oid for ref, oid in theirs.items() if here.get(ref) != oid}
            done = reconcile(store, tx, differ, is_home=remote.is_home)
    intents.forget(store.git_dir, remote.name)
    _flush(store)
    found = {ref: SyncedBranch(ref, "same", oid, oid) for ref, oid in theirs.items() if ref not in differ}
    found |= {branch.ref: branch for branch in (*joined, *done)} | refused
    return [found[ref] for ref in sorted(found)]


def _known(store: GitStore, remote: Remote) -> dict[str, Oid]:
    return {name: oid for prefix in (_HEADS, remote.tracks) for name, oid in store.refs(prefix).items()}


def _tombstones(fetched: Mapping[str, Oid]) -> dict[str, Oid]:
    return {ref: oid for ref, oid in fetched.items() if ref == refs.TOMBSTONES}


def _in_trash(store: GitStore) -> set[str]:
    """Sessions in the trash: remotes keep them, and they do not come back by that."""
    return {refs.session_of(refs.taken_out(name)) for name in store.refs(refs.TRASH)}


def _remember(store: GitStore, tx: Transaction, remote: Remote, theirs: Mapping[str, Oid], there: set[str]) -> None:
    """Bring the tracking refs up to date; those go that the remote has no more."""
    seen = store.refs(remote.tracks)
    for ref, oid in theirs.items():
        name = remote.tracking(ref)
        if seen.get(name) != oid:
            tx.move(name, oid, expected=store.ref(name))
    for name in seen.keys() - there:
        tx.move(name, None, expected=store.ref(name))


def _judge(
    store: GitStore, place: Quarantine, theirs: Mapping[str, Oid], known: Mapping[str, Oid]
) -> dict[str, SyncedBranch]:
    """What of ``theirs`` is not what docs/format.md says, ref by ref. What both hold of a line was judged before."""
    read = Reader(place.git_dir, store)
    differ = {ref: oid for ref, oid in theirs.items() if known.get(ref) != oid}
    moves = [Proposed(ref, _base(read, known.get(ref), oid), oid) for ref, oid in differ.items()]
    before = {name: oid for name, oid in known.items() if name.startswith(_HEADS) and name not in differ}
    before |= {move.ref: move.old for move in moves if move.old is not None}
    return {
        refusal.ref: SyncedBranch(
            refusal.ref,
            "refused",
            known.get(refusal.ref),
            why=refusal.what + (f" (at {refusal.oid[:10]})" if refusal.oid else ""),
        )
        for refusal in judge(read, moves, before)
    }


def _fetch_apart(place: Quarantine, remote: Remote, talk: Talk) -> dict[str, SyncedBranch]:
    """Fetch all; where something in it is unfit, ref by ref, so that one that git refuses stops no other."""
    try:
        transport.fetch(place.git_dir, remote, remote.fetched(), talk)
        return {}
    except Unfit as error:
        told = transport.advertised(place.git_dir, remote, talk)
        seen = place.refs(remote.tracks)
        ours = {far: ref for far in told if (ref := _ours_of(remote, far)) is not None}
        todo = [far for far, ref in ours.items() if seen.get(remote.tracking(ref)) != told[far]]
        if not todo:
            raise
        return _fetch_halves(place, remote, todo, talk, str(error))


def _fetch_halves(place: Quarantine, remote: Remote, todo: list[str], talk: Talk, why: str) -> dict[str, SyncedBranch]:
    if len(todo) == 1:
        ref = _ours_of(remote, todo[0]) or todo[0]
        return {ref: SyncedBranch(ref, "refused", why=why)}
    refused: dict[str, SyncedBranch] = {}
    for half in (todo[: len(todo) // 2], todo[len(todo) // 2 :]):
        specs = [f"+{far}:{remote.tracking(_ours_of(remote, far) or far)}" for far in half]
        try:
            transport.fetch(place.git_dir, remote, specs, talk)
        except Unfit as error:
            refused |= _fetch_halves(place, remote, half, talk, str(error))
    return refused


def _ours_of(remote: Remote, far: str) -> str | None:
    """Our name for a ref of the remote's."""
    for near, place in remote.places:
        if far == place or (place.endswith("/") and far.startswith(place)):
            return near + far.removeprefix(place)
    return None


def _of_ours(remote: Remote, tracking: Mapping[str, Oid]) -> dict[str, Oid]:
    """What tracking refs say, by our names; of what is none of ours nothing."""
    found = {remote.here(name): oid for name, oid in tracking.items()}
    return {ref: oid for ref, oid in found.items() if remote.there(ref) is not None}


def _base(read: Reader, ours: Oid | None, theirs: Oid) -> Oid | None:
    """What both hold of a line: it was judged before."""
    try:
        return None if ours is None else lines.parting(read.read, ours, theirs).base
    except GitSessionError:
        return None


def _flush(store: GitStore) -> None:
    store.flush()
    if store.last_flush_error is not None:
        raise Unavailable(f"not all of it could be handed over to git: {store.last_flush_error}")


# ---- out


def _send(
    store: GitStore,
    remote: Remote,
    talk: Talk,
    *,
    only: Iterable[str] = frozenset(),
    leave: Iterable[str] = frozenset(),
) -> SyncReport:
    _flush(store)
    wanted, branches = _wanted(store, remote, set(only), set(leave))
    before = store.refs(remote.tracks)
    branches += _hold_back(store, remote, wanted, before)
    if not wanted:
        return SyncReport(remote.name, tuple(sorted(branches, key=lambda one: one.ref)))
    try:
        with Quarantine(store.git_dir, remote, {}) as place:
            if not remote.is_shared and store.ref(remote.tracking(create.MAIN)) is None:
                _check_is_store(remote, transport.advertised(place.git_dir, remote, talk))
            intents.note(store.git_dir, remote.name, {ref: oid for ref, (oid, _) in wanted.items()})
            done = transport.push(place.git_dir, remote, wanted, talk)
        took = {ref: wanted[ref] for ref, result in done.refs.items() if result.ok}
        with store.transaction() as tx:
            for oid, there in took.values():
                name = remote.tracking(_ours_of(remote, there) or there)
                if (seen := store.ref(name)) != oid:
                    tx.move(name, oid, expected=seen)
        intents.forget(store.git_dir, remote.name, done.refs)
    except OSError as error:
        raise Unavailable(f"cannot note what is pushed: {error.strerror}") from error
    for ref, result in done.refs.items():
        old, new = before.get(remote.tracking(ref)), wanted[ref][0]
        if result.ok:
            branches.append(SyncedBranch(ref, "forwarded" if old else "new", old, new))
        else:
            branches.append(SyncedBranch(ref, "refused", old, new, why=_BEHIND if result.moved else result.why))
    branches.sort(key=lambda one: one.ref)
    whole = not any(result.moved for result in done.refs.values()) and refs.TOMBSTONES not in took
    return SyncReport(remote.name, tuple(branches), frozenset(took), tuple(done.said), whole)


def _hold_back(
    store: GitStore, remote: Remote, wanted: dict[str, tuple[Oid, str]], before: Mapping[str, Oid]
) -> list[SyncedBranch]:
    """Take out of ``wanted`` what would take a secret along."""
    moves = [Proposed(ref, before.get(remote.tracking(ref)), oid) for ref, (oid, _) in wanted.items()]
    held = gate.held_back(store, moves, before.values())
    return [
        SyncedBranch(
            ref,
            "refused",
            before.get(remote.tracking(ref)),
            wanted.pop(ref)[0],
            why=f"a secret in {hit}: `gitsession redact` hides it, `gitsession gate allow` lets it go",
            secret=True,
        )
        for ref, hit in held.items()
    ]


def _check_is_store(remote: Remote, there: Mapping[str, Oid], read: Reader | None = None) -> None:
    """Raises ``Refused`` where a remote has other branches than a store's: sessions must not mix with code.

    ``read``: reads what the refs lead to, where it was fetched.
    """
    main = there.get(create.MAIN)
    others = [] if main else [ref for ref in there if ref.startswith(_HEADS) and remote.there(ref) is None]
    if others or not (main is None or _begins_a_store(main, read)):
        what = others[0].removeprefix(_HEADS) if others else "main"
        raise Refused(
            f"{remote.name} is no store of sessions: its branch {what[:80]} is none of a store's",
            hint="beside code, sessions lie apart: `gitsession remote add NAME URL --namespace gitsession`",
        )


def _begins_a_store(main: Oid, read: Reader | None) -> bool:
    """Every store's main goes on from the commit that all of them have."""
    first = create.first_commit()[0]
    try:
        return main == first or (read is not None and lines.holds(read.read, main, first))
    except GitSessionError:
        return False


def _wanted(
    store: GitStore, remote: Remote, only: set[str], leave: set[str]
) -> tuple[dict[str, tuple[Oid, str]], list[SyncedBranch]]:
    """What of each ref of ours the remote lacks, and its name there, in the order in which it is to go."""
    seen = store.refs(remote.tracks)
    found: dict[str, tuple[Oid, str]] = {}
    refused = []
    for ref, oid in _ours_to_send(store, remote).items():
        there = seen.get(remote.tracking(ref))
        if there == oid or ref in leave or (only and refs.session_of(ref) not in only and ref not in _whole(only)):
            continue
        name = ref
        if there is not None and not _holds(store, ref, oid, there):
            if _holds(store, ref, there, oid):
                continue  # the remote has more
            if remote.is_home or refs.parse(ref) is None:
                refused.append(SyncedBranch(ref, "refused", there, oid, why=_BEHIND))
                continue
            name = lines.aside(store.read, lambda at: seen.get(remote.tracking(at)), ref, oid, there)
            if seen.get(remote.tracking(name)) == oid:
                continue
        elif (
            there is None
            and not remote.is_home
            and "." in ref
            and oid == seen.get(remote.tracking(ref.rpartition(".")[0]))
        ):
            continue  # the line that bears the name there
        found[ref] = (oid, remote.there(name) or name)
    return found, refused


def _whole(only: set[str]) -> set[str]:
    """Beside the sessions that are asked for: what is the store's as a whole, or what is asked for by its own name."""
    return only if refs.TOMBSTONES in only else {create.MAIN, refs.TOMBSTONES}


def _holds(store: GitStore, ref: str, new: Oid, old: Oid) -> bool:
    """Whether ``new`` goes on from ``old``: a line by first parents, a set from either of the two it was made of."""
    if ref == refs.TOMBSTONES:
        return new == old or tombstones.is_behind(store, old, new)
    return lines.holds(store.read, new, old)


def _ours_to_send(store: GitStore, remote: Remote) -> dict[str, Oid]:
    """The store's own refs first, then sessions."""
    held = {
        ref: oid
        for ref, oid in store.refs(_HEADS).items()
        if remote.there(ref) is not None and (refs.is_session_ref(ref) or not ref.startswith(refs.SESSIONS))
    }
    return dict(sorted(held.items(), key=lambda row: (row[0].startswith(refs.SESSIONS), row[0])))
