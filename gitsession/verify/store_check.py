"""The check of a whole store on disk: its journal and refs, git's own check, every entry; or only what is new.

Quick is: packs and loose objects that the mark of the last clean check (verify/last_clean.py) does not name are read
and their checksums compared, and of each line only the entries after the refs of the mark are checked. A pack that
is gone or is another file, or no mark, is a doubt, and then everything is checked.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from gitsession.errors import GitSessionError, Unavailable
from gitsession.git import config, damage, process
from gitsession.git.repository import VerifiedRepository
from gitsession.git.types import RefValue
from gitsession.store import create, flush_record, refs
from gitsession.store.git_store import GitStore
from gitsession.verify import incremental, last_clean, lost_refs
from gitsession.verify import session_check as entries
from gitsession.verify.findings import Finding, Report
from gitsession.verify.last_clean import VerifiedState
from gitsession.verify.manifests import Refuse


def verify(
    store: GitStore,
    *,
    seen: Mapping[str, RefValue],
    sample: int | None = None,
    max_seconds: float | None = None,
    quick: bool = False,
    refuse: Refuse | None = None,
    notices: bool = False,
    now_ms: int = 0,
) -> Report:
    """Check the whole store. ``seen``: what the refs of sessions held when the catalogue last looked.

    With ``sample`` or ``max_seconds`` it is the next part of a round (``verify/incremental.py``), but for what is new,
    if ``quick``. ``refuse`` and ``notices`` as ``verify.session_check`` says.

    Raises ``Unavailable`` where a file may not be read, or git is wanted and not there.
    """
    create.check_readable(store.git_dir)
    problems = files_of_refs(store)
    with contextlib.suppress(Unavailable):  # a full disk: what waits in the journal is checked from there
        store.flush()
    now = last_clean.present(store.git_dir, dict(store.refs("refs/")))
    mark = last_clean.read(store.git_dir)
    is_quick = quick and mark is not None and mark.covers(now)
    if not is_quick and (sample is not None or max_seconds is not None):
        report = incremental.go_on(
            store, seen=seen, sample=sample, max_seconds=max_seconds, refuse=refuse, now_ms=now_ms
        )
        report.problems[:0] = problems
        return report
    gone = lost_refs.find(store, mark, seen=seen, unreadable=store.damaged_refs())
    problems += [Finding(found.name, found.what, found.name) for found in gone]
    if is_quick and mark is not None:
        problems += _new_files(store, mark, now)
        known = frozenset(value for name, value in mark.refs.items() if refs.parse(name))
        report = entries.verify(store, sample=sample, max_seconds=max_seconds, known=known, refuse=refuse)
    else:
        told = process.begin_fsck(store.git_dir)  # another process: it runs beside ours
        try:
            report = entries.verify(store, refuse=refuse, notices=notices)
        finally:
            lines = told()
        # After ours, which say which entries are hit; git says some things once for each way that it found there.
        report.problems += [Finding("git fsck", line) for line in dict.fromkeys(lines)]
    report.problems[:0] = problems
    if report.whole and not report.problems and not store.read_only:
        with contextlib.suppress(OSError, Unavailable):  # then the next one looks at everything again
            last_clean.write(store.git_dir, now)
            with store.locked():
                flush_record.mark_checked(store.git_dir)
    return report


def files_of_refs(store: GitStore) -> list[Finding]:
    """What is damaged of the journal, of the files that refs are in, and of those that git knows a repository by."""
    found = [Finding(name, what) for name, what in config.problems(store.git_dir).items()]
    found += [Finding("journal", f"{what} holds records that do not verify") for what in store.damage()]
    return found + [Finding(name, what, name) for name, what in store.damaged_refs().items()]


def _new_files(store: GitStore, mark: VerifiedState, now: VerifiedState) -> list[Finding]:
    found = []
    for name in mark.new_packs(now):
        what = damage.checksum_problem(store.git_dir / "objects/pack" / name)
        if what:
            found.append(Finding(f"objects/pack/{name}", what))
    door = VerifiedRepository(store.git_dir)
    for oid in mark.new_loose(now):
        try:
            door.read_loose(oid)
        except GitSessionError as error:
            found.append(Finding(f"objects/{oid[:2]}/{oid[2:]}", str(error)))
    return found
