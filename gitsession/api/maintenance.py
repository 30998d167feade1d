"""Checking and healing a store, with what the catalogue knows of it and with the copies there are."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Sequence
from pathlib import Path

from gitsession.index.catalogue import Catalogue
from gitsession.repair import donors
from gitsession.repair import repair as healing
from gitsession.repair.repair import Repaired
from gitsession.store import create
from gitsession.store.git_store import GitStore
from gitsession.verify import session_check as entries
from gitsession.verify import store_check
from gitsession.verify.findings import Report


def verify(
    objects: GitStore,
    sid: str | None,
    *,
    sample: int | None,
    max_seconds: float | None,
    quick: bool,
    notices: bool,
    now_ms: int,
) -> Report:
    """The whole store, or the entries of one session and what all sessions share. ``Store.verify`` says the rest."""
    from gitsession.workspace.names import tree_refusal  # who never checks never loads it

    if sid is not None:
        create.check_readable(objects.git_dir)
        report = entries.verify(
            objects, sid, sample=sample, max_seconds=max_seconds, refuse=tree_refusal, notices=notices
        )
        report.problems[:0] = store_check.files_of_refs(objects)
        return report
    # A catalogue of its own, as it was left: bringing it up to date would read what is to be checked.
    with contextlib.closing(Catalogue(objects.git_dir)) as catalogue:
        seen = catalogue.last_seen_refs()
    return store_check.verify(
        objects,
        seen=seen,
        sample=sample,
        max_seconds=max_seconds,
        quick=quick,
        refuse=tree_refusal,
        notices=notices,
        now_ms=now_ms,
    )


def repair(objects: GitStore, sources: Sequence[str | Path], *, dry_run: bool) -> Repaired:
    """Ask ``sources`` first, then whoever else may have a copy: the nearest before what has to be fetched."""
    git_dir = objects.git_dir
    catalogue = Catalogue(git_dir)
    with contextlib.closing(catalogue), tempfile.TemporaryDirectory(prefix="gitsession-") as place:
        known = catalogue.last_seen_refs()
        asked = [donors.named(str(source), Path(place) / f"named-{n}") for n, source in enumerate(sources)]
        asked += [*donors.alternates(git_dir), donors.AgentFiles(catalogue), donors.Beginning()]
        asked += donors.remotes(git_dir, Path(place))
        return healing.repair(objects, asked, seen=known.items(), dry_run=dry_run)
