"""Before a store and a remote talk: one talk at a time, all of ours handed over to git, and no code among sessions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from gitsession.errors import GitSessionError, Refused, Unavailable
from gitsession.git.types import Oid, Reader
from gitsession.store import create, histories
from gitsession.store.git_store import GitStore
from gitsession.store.lock import alone as alone_by
from gitsession.sync.remotes import Remote

HEADS = "refs/heads/"


@contextmanager
def sync_lock(store: GitStore) -> Iterator[None]:
    """One at a time; appends go on. Raises ``Unavailable``, and ``Refused`` for a shallow clone."""
    if store.read_only:
        raise Unavailable(f"{store.git_dir} is read-only here")
    if create.is_shallow(store.git_dir):
        raise Refused(
            f"{store.git_dir} is a shallow clone: the oldest entries of its lines are not there",
            hint="`gitsession git fetch --unshallow` brings them",
        )
    with alone_by(store.git_dir / create.SYNC_LOCK):
        try:
            yield
        except OSError as error:
            hint = "nothing is lost: try again when the disk takes it"
            raise Unavailable(f"cannot go on in {store.git_dir}: {error.strerror}", hint=hint) from error


def flush(store: GitStore) -> None:
    """Hand all over to git. Raises ``Unavailable`` where not all of it can be."""
    store.flush()
    if store.last_flush_error is not None:
        raise Unavailable(f"not all of it could be handed over to git: {store.last_flush_error}")


def check_is_store(remote: Remote, there: Mapping[str, Oid], read: Reader | None = None) -> None:
    """Raises ``Refused`` where a remote has other branches than a store's: sessions must not mix with code.

    ``read``: reads what the refs lead to, where it was fetched.
    """
    main = there.get(create.MAIN)
    others = [] if main else [ref for ref in there if ref.startswith(HEADS) and remote.there(ref) is None]
    if others or not (main is None or _begins_a_store(main, read)):
        what = others[0].removeprefix(HEADS)[:80] if others else ""
        why = f"it has a branch {what}, which no store has" if what else "its branch main is not that of a store"
        raise Refused(
            remote.problem(f"is no store of sessions: {why}"),
            hint="beside code, sessions lie apart: `--namespace gitsession` of `gitsession remote add` and of `clone`",
        )


def _begins_a_store(main: Oid, read: Reader | None) -> bool:
    """Every store's main goes on from the commit that all of them have."""
    first = create.first_commit()[0]
    try:
        return main == first or (read is not None and histories.holds(read.read, main, first))
    except GitSessionError:
        return False
