"""git as the carrier: what a fetch and a push say, and what went wrong, in one line.

Credentials, ssh, proxies and `insteadOf` are git's business: it runs with the user's own configuration.
"""

from __future__ import annotations

import os
import random
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from gitsession.errors import GitSessionError, Unavailable
from gitsession.git import process
from gitsession.git.process import ProcessResult, Told
from gitsession.git.types import Oid
from gitsession.store import refs
from gitsession.sync.remotes import Remote, missing, plain

FIRST_CHUNK, CHUNK_MAX = 800, 3200
"""Refs of one push: each push costs the list of all refs there, and a refusal may hit all that were pushed with it."""

REFUSED_ENOUGH = 8
"""Pushes of one session that a remote refuses, before others are tried at random; as many again, and the rest waits."""

_DELETED_AT_ONCE = 1600
"""What of refs and leases fits into the words of one command."""

_OFFLINE = re.compile(
    r"could not resolve|connection (refused|timed out|reset|closed)|network is unreachable|no route to host|"
    r"failed to connect|temporary failure|operation timed out|early eof|remote end hung up|unable to connect",
    re.IGNORECASE,
)
_LOCKED_OUT = re.compile(
    r"authentication failed|permission denied|could not read (username|password)|terminal prompts disabled|"
    r"access denied|host key verification failed|\b40[13]\b",
    re.IGNORECASE,
)
_OURS = re.compile(
    r"no space left|disk quota exceeded|read-only file system|input/output error|cannot allocate memory|out of memory",
    re.IGNORECASE,
)
_BAD_OBJECT = re.compile(r"^error: object [0-9a-f]{40}: |repository corruption on the remote side", re.IGNORECASE)
"""git stops reading then, so that the other side may seem to have gone away."""
_NOT_THERE = re.compile(
    r"does not appear to be a git repository|repository not found|not found|does not exist|no such file", re.IGNORECASE
)
_NO_REPOSITORY = re.compile(r"invalid gitfile format")
_NO_HELPER = re.compile(r"'remote-([^'\s]+)' is not a git command|remote helper for '([^'\s]+)'")
_NAME_ONE = "name a store, or a repository that sessions were pushed to"
_NOISE = ("fatal: ", "error: ", "remote: ", "ssh: ", "warning: ")
_STATUS = re.compile(r"([ +\-*!=])\t([^\t:]*):([^\t]*)\t(.*)")
_REASON = re.compile(r"\((.*)\)\s*$")


@dataclass(frozen=True, slots=True)
class TransportOptions:
    """How git talks to the user meanwhile. ``told``: gets its progress; ``interactive``: it may ask for a password."""

    told: Told | None = None
    interactive: bool = False


class Pushed(NamedTuple):
    """What became of one ref. ``moved``: it was refused because the remote has moved on.

    ``why``: in git's words; of one that was taken nothing, but that it was there already.
    """

    ok: bool
    moved: bool
    why: str


@dataclass
class Results:
    """What became of each ref that was pushed, by our name for it. ``said``: what the other side said besides."""

    refs: dict[str, Pushed] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)


def fetch(git_dir: Path, remote: Remote, specs: Sequence[str], talk: TransportOptions) -> None:
    """Fetch ``specs`` from ``remote`` into the refs they name in ``git_dir``. Raises ``Unavailable``,
    ``RejectedTransfer``."""
    words = ["-c", "core.fsync=objects", "fetch", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance"]
    words += ["--no-recurse-submodules", "--prune", "--refmap=", *_progress(talk), "--end-of-options", remote.address]
    answer = process.talk(git_dir, *words, *specs, told=talk.told, interactive=talk.interactive)
    if answer.code:
        raise failure(remote, answer)


def advertised(git_dir: Path, remote: Remote, talk: TransportOptions) -> dict[str, Oid]:
    """What the remote has, by its own names. Raises ``Unavailable``."""
    words = ("ls-remote", "--refs", "--end-of-options", remote.address)
    answer = process.talk(git_dir, *words, told=talk.told, interactive=talk.interactive)
    if answer.code:
        raise failure(remote, answer)
    lines = (line.split("\t") for line in answer.out.decode("utf-8", "replace").splitlines())
    return {parts[1]: parts[0] for parts in lines if len(parts) == 2}


def push(
    git_dir: Path,
    remote: Remote,
    wanted: Mapping[str, tuple[Oid, str]],
    talk: TransportOptions,
    *,
    leases: Mapping[str, Oid] | None = None,
) -> Results:
    """Push refs, each to its own name there: ``wanted`` says of each of ours what it holds and what it is called there.

    In chunks, that grow as they go through; of one that is refused as a whole the halves are tried, until it is plain
    that nothing is taken. The refs of one session go together: what a fork's branch begins with is said on its
    ``main``. Nothing is forced but what ``leases`` names: what the remote must hold of a ref for it to become another
    line.
    Raises ``Unavailable`` where the remote cannot be reached; what went through before is known to its tracking refs.
    """
    done = Results()
    waiting, size = _by_session(wanted), FIRST_CHUNK
    refused_alone, is_any_taken = 0, False
    while waiting:
        taken = _fitting(waiting, size)
        together, waiting = waiting[:taken], waiting[taken:]
        chunk = {ref: wanted[ref] for group in together for ref in group}
        found = _push_chunk(git_dir, remote, chunk, talk, done, leases or {})
        spoilt = {ref for ref, result in found.items() if not result.ok and not result.moved}
        done.refs |= found
        is_any_taken |= (is_taken := any(result.ok and not result.why for result in found.values()))
        if len(together) == 1 and spoilt and not is_any_taken:
            refused_alone += 1
            if refused_alone == REFUSED_ENOUGH:
                random.shuffle(waiting)  # others than these, and others the next time
            elif refused_alone == 2 * REFUSED_ENOUGH:
                why = f"not tried: none of {refused_alone} others was taken ({found[min(spoilt)].why})"
                done.refs |= {ref: Pushed(ok=False, moved=False, why=why) for group in waiting for ref in group}
                break
        if len(spoilt) > 1 and not is_taken and len({found[ref].why for ref in spoilt}) == 1:
            again = [left for group in together if (left := [ref for ref in group if ref in spoilt])]
            waiting = ([[ref] for ref in again[0]] if len(again) == 1 else again) + waiting
            size = max(1, len(chunk) // 2)
        else:
            size = min(size * 2, CHUNK_MAX)
    return done


def _by_session(named: Iterable[str]) -> list[list[str]]:
    """Refs that go together: those of a session, its ``main`` first; any other alone."""
    groups: dict[str, list[str]] = {}
    for ref in named:
        groups.setdefault(refs.session_of(ref) or ref, []).append(ref)
    return [sorted(group, key=lambda ref: not ref.endswith(f"/{refs.MAIN}")) for group in groups.values()]


def _fitting(groups: Sequence[Sequence[str]], size: int) -> int:
    """How many of the first of ``groups`` have no more than ``size`` refs together; one at least."""
    taken, room = 1, size - len(groups[0])
    while taken < len(groups) and len(groups[taken]) <= room:
        room -= len(groups[taken])
        taken += 1
    return taken


def delete(git_dir: Path, remote: Remote, leases: Mapping[str, Oid], talk: TransportOptions) -> set[str]:
    """Delete refs there, by their names there, each if it holds what ``leases`` says; which ones are gone."""
    gone: set[str] = set()
    waiting = list(leases)
    while waiting:
        chunk, waiting = waiting[:_DELETED_AT_ONCE], waiting[_DELETED_AT_ONCE:]
        words = ["push", "--porcelain", "--no-verify", *_progress(talk)]
        words += [f"--force-with-lease={there}:{leases[there]}" for there in chunk]
        words += ["--end-of-options", remote.address, *(f":{there}" for there in chunk)]
        answer = process.talk(git_dir, *words, told=talk.told, interactive=talk.interactive)
        told = (_STATUS.fullmatch(line) for line in answer.out.decode("utf-8", "replace").splitlines())
        gone |= {row[3] for row in told if row is not None and row[1] == "-"}
    return gone


def _push_chunk(
    git_dir: Path,
    remote: Remote,
    chunk: Mapping[str, tuple[Oid, str]],
    talk: TransportOptions,
    done: Results,
    leases: Mapping[str, Oid],
) -> dict[str, Pushed]:
    specs = [f"{oid}:{there}" for oid, there in chunk.values()]
    words = ["push", "--porcelain", "--no-verify", "--no-follow-tags", "--recurse-submodules=no"]
    words += [f"--force-with-lease={there}:{leases[ref]}" for ref, (_, there) in chunk.items() if ref in leases]
    words += [*_progress(talk), "--end-of-options", remote.address, *specs]
    answer = process.talk(git_dir, *words, told=talk.told, interactive=talk.interactive)
    told = {
        row[3]: row for line in answer.out.decode("utf-8", "replace").splitlines() if (row := _STATUS.fullmatch(line))
    }
    if not told:
        raise failure(remote, answer)
    done.said += [line for line in _remote_lines(answer.err) if line not in done.said]
    return {ref: _pushed(told.get(there)) for ref, (_, there) in chunk.items()}


def _pushed(row: re.Match[str] | None) -> Pushed:
    if row is None:
        return Pushed(ok=False, moved=False, why="git said nothing of it")
    if row[1] != "!":
        return Pushed(ok=True, moved=False, why="up to date" if row[1] == "=" else "")
    reason = _REASON.search(row[4])
    why = reason[1] if reason else row[4]
    moved = row[4].startswith("[rejected]") or why in ("failed to update ref", "incorrect old value provided")
    return Pushed(ok=False, moved=moved or "cannot lock ref" in why, why=why)


def failure(remote: Remote, answer: ProcessResult) -> GitSessionError:
    """What went wrong, in one line; trying again may work."""
    lines = [line.strip() for line in plain(answer.err).replace("\r", "\n").split("\n") if line.strip()]
    lines = [line for line in lines if not line.startswith("Cloning into ")]  # a folder that is gone by now
    fatal = [line for line in lines if line.startswith(("fatal: ", "error: ", "ssh: ", "remote: "))]
    said = " ".join(lines)
    again = "no store was made: try again" if remote.is_new else "nothing is lost: try again"
    bad = next((line for line in lines if _BAD_OBJECT.search(line)), "")
    if bad:
        return RejectedTransfer(remote.problem(f"has an object that git does not accept: {_short(bad)}"))
    about = next((line for line in fatal if _OFFLINE.search(line) or _LOCKED_OUT.search(line)), "")
    words = _short(about or (fatal or lines or ["git was killed" if answer.code < 0 else "no message"])[0])
    if not remote.is_named and os.path.isfile(remote.url):
        return RejectedTransfer(f"{remote.url} is no bundle, or not all of one: {words}")
    if _LOCKED_OUT.search(said):
        command = f"gitsession git ls-remote {remote.name}"
        if remote.is_new:
            command = f"git ls-remote {shlex.quote(plain(remote.url))}"
        hint = f"`{command}` lets git ask for a password, or tell more"
        return Unavailable(remote.problem(f"does not let us in: {words}"), hint=hint)
    if _OFFLINE.search(said):
        return Unavailable(remote.problem(f"cannot be reached: {words}"), hint=f"{again} when you are online")
    if _OURS.search(said) or answer.code < 0:
        about = next((line for line in lines if _OURS.search(line)), words)
        return Unavailable(remote.problem(f"has what we cannot take in now: {_short(about)}"), hint=again)
    scheme = _NO_HELPER.search(said)
    if scheme:
        what = f"has a URL whose scheme git does not know: {scheme[1] or scheme[2]}"
        return Unavailable(remote.problem(what), hint="use https, ssh or file")
    if _NOT_THERE.search(said):
        path = missing(remote.url)
        why = words if not path else "no git repository is there" if os.path.isdir(path) else "no such folder"
        hint = _NAME_ONE if remote.is_new else "`gitsession remote` lists the addresses"
        return Unavailable(remote.problem(f"is not there: {why}"), hint=hint)
    if _NO_REPOSITORY.search(said):
        return Unavailable(remote.problem("is a file, and neither a repository nor a bundle"), hint=_NAME_ONE)
    return RejectedTransfer(remote.problem(f"cannot be used: {words}"))


class RejectedTransfer(Unavailable):
    """Something went wrong that is not the way there: perhaps one ref or object that git does not take."""


def _short(line: str) -> str:
    for noise in _NOISE:
        line = line.removeprefix(noise)
    return line[:300]


def _remote_lines(err: str) -> list[str]:
    """What the other side's hooks said."""
    lines = (line.strip() for line in err.replace("\r", "\n").split("\n") if line.startswith("remote: "))
    told = [line.removeprefix("remote: ").strip() for line in lines]
    return [
        line for line in told if line and not re.match(r"(Counting|Compressing|Total|Enumerating|Resolving) ", line)
    ]


def _progress(talk: TransportOptions) -> list[str]:
    return ["--progress"] if talk.told else ["--no-progress"]
