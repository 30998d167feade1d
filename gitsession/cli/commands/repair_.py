"""``gitsession repair``"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from gitsession.cli import exits
from gitsession.cli.context import App, with_app
from gitsession.cli.output import count, emit, first, json_option, say, warn
from gitsession.store import refs

if TYPE_CHECKING:
    from gitsession.repair.journals import LostRecords
    from gitsession.repair.repair import Lost, RepairResult

_SHOWN = 20


@click.command()
@click.option(
    "--from", "sources", metavar="WHERE", multiple=True, help="A clone, a store, a session file or a URL; repeatable."
)
@click.option("--dry-run", is_flag=True, help="Say what would be done; change nothing.")
@json_option
@with_app
def command(app: App, sources: tuple[str, ...], dry_run: bool, as_json: bool) -> int:
    """Heal what is damaged: lost objects are taken from copies, damaged files are set aside, nothing is deleted.

    Without --from it looks in git's alternates, the agents' own files that were imported, and the store's remotes; with
    it, there first. Exit code 5 says that something is still missing, 75 that a file may not be read: then nothing is
    changed.
    """
    done = app.store(damaged=True).repair(sources, dry_run=dry_run)
    if as_json:
        emit("repair", _document(done))
    else:
        _tell(done, dry_run)
    for name in done.plan.unheard:
        warn(f"gitsession: nothing could be had from {name}")
    return exits.OK if done.is_whole else exits.INTEGRITY


def _document(done: RepairResult) -> dict[str, Any]:
    plan = done.plan
    return {
        "healed": [{"id": oid, "from": plan.donors[oid]} for oid in plan.taken],
        "saved": len(plan.rescued),
        "log_lost": plan.log_lost or None,
        "refs": plan.ref_values,
        "settings": list(plan.settings),
        "beside": plan.beside,
        "copied": plan.copied,
        "damaged": [{"file": bad.path, "what": bad.what} for bad in plan.bad],
        "quarantine": str(done.quarantine) if done.quarantine else None,
        "set_aside": list(done.set_aside),
        "missing": [
            {
                "id": lost.oid,
                "session": _session(lost.ref),
                "entry": lost.entry,
                "ref": lost.ref,
                "what": lost.what,
            }
            for lost in plan.lost
        ],
        "missing_refs": [{"ref": lost.name, "what": lost.what} for lost in plan.lost_refs],
        "moved": {name: new for name, (_, new) in plan.moves.items()},
        "lost_records": [
            {
                "file": hole.file,
                "count": hole.count,
                "between": [
                    {"ref": jump.ref, "session": _session(jump.ref), "from": jump.before, "to": jump.after}
                    for jump in hole.jumps
                ],
            }
            for hole in plan.lost_records
        ],
        "unassigned": [
            {"entries": [node.oid for node in line.entries], "sessions": list(line.sessions)}
            for line in done.unassigned
        ],
        "dangling": plan.dangling,
        "unheard": plan.unheard,
        "unread": [{"file": file.path, "what": file.what} for file in plan.unread],
    }


def _tell(done: RepairResult, dry_run: bool) -> None:
    for line in (*_mended(done, dry_run), *_missing(done)):
        say(line)
    if done.plan.is_empty and done.is_whole:
        say("nothing to repair")
    elif done.is_whole:
        say("all of it can be mended" if dry_run else "everything is there again: `gitsession verify` checks it")
    else:
        say("`gitsession repair --from WHERE` takes what is missing from a clone, another store or a session file")


def _mended(done: RepairResult, dry_run: bool) -> Iterator[str]:
    """Report what is damaged, and what becomes of it."""
    plan = done.plan
    would = "would be " if dry_run else ""
    yield from (f"{bad.path}: {bad.what}" for bad in plan.bad)
    yield from (f"{name}: what is missing {would or 'was '}put back" for name in plan.settings)
    for name, number in Counter(plan.donors[oid] for oid in plan.taken).items():
        yield f"{count(number, 'lost object')} {would}taken from {name}"
    if plan.rescued:
        yield f"{count(len(plan.rescued), 'good object')} {would}saved out of damaged packs"
    for name, value in plan.ref_values.items():
        if name in plan.beside:
            yield f"{plan.beside[name]} was set back, and stays so: what it held {would or 'is '}kept as {name}"
        elif name in plan.copied:
            yield f"{name} {would}brought back from {plan.copied[name]}"
        else:
            yield f"{name} {would}set to {value[:12]}, as last recorded"
    for name, (_, new) in plan.moves.items():
        yield f"{name} {would}set to {new[:12]}, where the journal goes on"
    for name, value in plan.dangling.items():
        yield f"{name} {would}deleted: it leads to {value.removeprefix('ref: ')}, which is not there"
    if plan.log_lost:
        yield "the operation log cannot be read whole: it begins anew, and what was done before cannot be undone"
    if done.quarantine is not None and done.set_aside:
        yield f"{count(len(done.set_aside), 'damaged file')} set aside in {done.quarantine}"


def _missing(done: RepairResult) -> Iterator[str]:
    """Report what no copy has."""
    plan = done.plan
    missing: dict[str, list[Lost]] = {}
    for lost in plan.lost:
        missing.setdefault(refs.session_of(lost.ref) or lost.ref, []).append(lost)
    for of, objects in missing.items():
        entries = len({lost.entry for lost in objects})
        yield f"still missing: {count(len(objects), 'object')} of {count(entries, 'entry', 'entries')} of {of}"
    lines = [f"{lost.oid}, of entry {lost.entry[:12]}: {lost.what}" for lost in plan.lost]
    yield from first(lines, _SHOWN, ": --json lists them", indent="  ")
    for line in done.unassigned[:_SHOWN]:
        said = count(len(line.entries), "entry", "entries")
        yield f"unassigned: {said} up to {line.entries[0].oid}, of one of {', '.join(line.sessions)}"
    if len(done.unassigned) > _SHOWN:
        yield f"  ... and {len(done.unassigned) - _SHOWN:,} more such lines: --json lists them"
    yield from (f"still missing: {ref.name} {ref.what}" for ref in plan.lost_refs)
    yield from (f"still missing: {_records(hole)} lost in {hole.file}: {_where(hole)}" for hole in plan.lost_records)
    unread = [] if done.is_whole else plan.unread
    yield from (f"cannot rebuild from '{file.path}': {file.what}" for file in unread[:_SHOWN])
    if len(unread) > _SHOWN:
        yield f"  ... and {len(unread) - _SHOWN:,} more files: --json lists them"


def _records(hole: LostRecords) -> str:
    if hole.count == 1:
        return "1 record of the journal is"
    return f"{hole.count} records of the journal are" if hole.count else "at least 1 record of the journal is"


def _where(hole: LostRecords) -> str:
    """``an entry of session S between A and B``"""
    places = []
    for jump in hole.jumps:
        session = refs.session_of(jump.ref)
        what = f"an entry of session {session}" if session else f"a value of {jump.ref}"
        between = f"between {jump.before[:12]} and" if jump.before else "before"
        places.append(f"{what} {between} {jump.after[:12] if jump.after else 'its removal'}")
    return ", ".join(places) or "no later record tells what it was"


def _session(ref: str) -> str | None:
    return refs.session_of(ref) or None
