"""All that a remote has, fetched apart: where git does not take something of it, ref by ref.

One that is unfit stops no other.
"""

from __future__ import annotations

from gitsession.sessions.reconcile import SyncedBranch
from gitsession.sync import transport
from gitsession.sync.quarantine import Quarantine
from gitsession.sync.remotes import Remote
from gitsession.sync.transport import Talk, Unfit


def fetch(place: Quarantine, remote: Remote, talk: Talk) -> dict[str, SyncedBranch]:
    """Fetch all into ``place``; the refs that git refused. Raises ``Unavailable``."""
    try:
        transport.fetch(place.git_dir, remote, remote.fetched(), talk)
        return {}
    except Unfit as error:
        told = transport.advertised(place.git_dir, remote, talk)
        seen = place.refs(remote.tracks)
        ours = {far: ref for far in told if (ref := remote.near(far)) is not None}
        todo = [far for far, ref in ours.items() if seen.get(remote.tracking(ref)) != told[far]]
        if not todo:
            raise
        return _halves(place, remote, todo, talk, str(error))


def _halves(place: Quarantine, remote: Remote, todo: list[str], talk: Talk, why: str) -> dict[str, SyncedBranch]:
    if len(todo) == 1:
        ref = remote.near(todo[0]) or todo[0]
        return {ref: SyncedBranch(ref, "refused", why=why)}
    refused: dict[str, SyncedBranch] = {}
    for half in (todo[: len(todo) // 2], todo[len(todo) // 2 :]):
        specs = [f"+{far}:{remote.tracking(remote.near(far) or far)}" for far in half]
        try:
            transport.fetch(place.git_dir, remote, specs, talk)
        except Unfit as error:
            refused |= _halves(place, remote, half, talk, str(error))
    return refused
