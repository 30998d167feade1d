"""The files ``HEAD`` and ``config``, without which git does not recognize a repository.

These files contain no sessions, so they can be written again if they are lost. Existing settings are not changed.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from gitsession.durable import read_regular, sync_directory
from gitsession.pattern import pattern

HEAD = "HEAD"
FILE = "config"

TEXT = """\
[core]
	repositoryformatversion = 0
	filemode = true
	bare = true
	fsync = all
	logAllRefUpdates = false
[gc]
	auto = 0
[maintenance]
	auto = false
[transfer]
	unpackLimit = 1
	fsckObjects = true
[receive]
	autogc = false
	denyDeletes = true
	denyNonFastForwards = true
	hideRefs = refs/gitsession
[remote "origin"]
	fetch = +refs/heads/*:refs/remotes/origin/*
	push = refs/heads/sessions/*:refs/heads/sessions/*
"""
"""The configuration of a new store."""

_FETCHED_INTO_BRANCHES = pattern(r"fetch\s*=\s*(refs/[a-z0-9][a-z0-9_-]*/sessions/\*):refs/heads/sessions/\*")
"""The fetch refspec that earlier versions wrote. With it, a plain `git fetch --prune` deletes local branches."""

_SECTION = pattern(r'\[\s*([\w.-]+)\s*(?:"((?:[^"\\]|\\.)*)")?\s*\]')
_HEAD = pattern(r"(ref: refs/[^\x00-\x20\x7f]+|[0-9a-f]{40})\s*")


def settings(text: str) -> dict[str, str]:
    """Return the settings in ``text``, keyed by ``section.key`` or ``section.subsection.key``; the last value wins.

    Section and key are in lower case. Includes are not followed.
    """
    found: dict[str, str] = {}
    section = ""
    for line in text.splitlines():
        line = line.strip()
        head = _SECTION.match(line)
        if head:
            section = f"{head[1].lower()}.{head[2]}" if head[2] else head[1].lower()
            line = line[head.end() :].strip()
        if line and line[0] not in "#;":
            key, equals, value = line.partition("=")
            found[f"{section}.{key.strip().lower()}"] = value.split("#")[0].strip().strip('"') if equals else "true"
    return found


class RedactionSettings(NamedTuple):
    """The redaction settings of a store: whether new payloads are redacted, and the file with the user's rules."""

    is_on: bool
    rules: str


def redaction(git_dir: Path) -> RedactionSettings:
    """Return ``gitsession.redact`` and ``gitsession.rules`` of the store's own configuration.

    By default, redaction is on, and there is no file with rules. A relative path of that file is resolved against the
    store, because writers have different working directories.
    """
    values = settings_of(git_dir)
    is_on = values.get("gitsession.redact", "true").lower() not in ("false", "no", "off", "0")
    rules = values.get("gitsession.rules", "")
    return RedactionSettings(is_on, rules and os.path.join(git_dir, os.path.expanduser(rules)))


def settings_of(git_dir: Path) -> dict[str, str]:
    """Return the settings of the store's own configuration, keyed as by ``settings``; empty if the file is missing."""
    return settings(_text(git_dir / FILE) or "")


def value_of(git_dir: Path, key: str) -> str:
    """Return the value of ``key`` in the store's own configuration; "" if it is not set."""
    return settings_of(git_dir).get(key.lower(), "")


def missing_settings(git_dir: Path) -> dict[str, str]:
    """Return the default settings that the store's configuration lacks.

    Remotes, which the owner configures, are not included.
    """
    present = settings_of(git_dir)
    return {key: value for key, value in settings(TEXT).items() if key not in present and not key.startswith("remote.")}


def migrate(git_dir: Path) -> None:
    """Replace the refspecs of earlier versions that make a plain `git fetch` move and delete local branches.

    Refspecs in any other form were set by the user and are not changed. If the file is locked or not writable, the next
    writer that opens the store tries again.
    """
    file = git_dir / FILE
    if _without_branch_refspecs(_text(file) or "") is None:
        return
    lock = file.with_name(f"{FILE}.lock")  # the lock file that `git config` uses
    with suppress(OSError):
        fd = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, stat.S_IMODE(file.stat().st_mode))
        try:
            with os.fdopen(fd, "wb") as opened:
                text = _without_branch_refspecs(file.read_bytes().decode("utf-8", "surrogateescape"))
                opened.write((text or "").encode("utf-8", "surrogateescape"))
                opened.flush()
                os.fsync(fd)
            if text is None:  # another process has already changed the file
                lock.unlink()
                return
            os.rename(lock, file)
        except BaseException:
            lock.unlink(missing_ok=True)
            raise
        sync_directory(git_dir)


def _without_branch_refspecs(text: str) -> str | None:
    """Return ``text`` with each refspec of earlier versions replaced by one that fetches into remote-tracking refs.

    Returns ``None`` if ``text`` has no refspec of an earlier version.
    """
    remote, changed = "", False
    lines = text.splitlines(keepends=True)
    stated = {line.strip() for line in lines}
    for number, line in enumerate(lines):
        head = _SECTION.match(line.strip())
        if head:
            remote = head[2] or "" if head[1].lower() == "remote" else ""
        found = _FETCHED_INTO_BRANCHES.fullmatch(line.strip())
        if found and remote:
            tracks = f"refs/remotes/{remote}"
            spec = f"fetch = +{found[1]}:{tracks}/sessions/*"
            is_stated = {spec, f"fetch = +refs/heads/*:{tracks}/*"} & stated
            lines[number] = "" if is_stated else line.replace(line.strip(), spec)
            changed = True
    return "".join(lines) if changed else None


def problems(git_dir: Path) -> dict[str, str]:
    """Return the problems that keep git from using ``HEAD`` and ``config``, by file name. Raises ``OSError``."""
    found = {}
    for name, is_fit in ((HEAD, _HEAD.fullmatch), (FILE, _is_config)):
        text = _text(git_dir / name)
        if text is None:
            found[name] = "is missing"
        elif not is_fit(text):
            found[name] = "is empty" if not text else "has invalid content"
    return found


def repaired_files(git_dir: Path, head: str) -> dict[str, bytes]:
    """Return the new content of ``HEAD`` and ``config``, by name. A file that needs no repair is not included.

    Raises ``OSError``.
    """
    wrong = problems(git_dir)
    found = {HEAD: f"ref: {head}\n".encode()} if HEAD in wrong else {}
    missing = missing_settings(git_dir)
    if FILE in wrong or not (_text(git_dir / FILE) or "").strip():
        found[FILE] = TEXT.encode()
    elif missing:
        lines = [f"[{key.partition('.')[0]}]\n\t{key.partition('.')[2]} = {value}\n" for key, value in missing.items()]
        current = (git_dir / FILE).read_bytes()
        found[FILE] = current + (b"" if current.endswith(b"\n") else b"\n") + "".join(lines).encode()
    return found


def _text(file: Path) -> str | None:
    data = read_regular(file)
    return None if data is None else data.decode("utf-8", "replace")


def _is_config(text: str) -> bool:
    """Return whether git can read ``text`` as a configuration. An empty file is valid."""
    lines = [line for line in map(str.strip, text.splitlines()) if line and line[0] not in "#;"]
    return "\0" not in text and (not lines or lines[0].startswith("["))
