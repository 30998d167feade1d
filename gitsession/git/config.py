"""The files ``HEAD`` and ``config``, without which git does not recognize a repository.

These files contain no sessions, so they can be written again if they are lost. Existing settings are not changed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from gitsession.durable import read_regular, sync_directory
from gitsession.errors import Unavailable
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

_OF_A_MIRROR = pattern(r"(?i)fetch\s*=\s*\+?refs/\*:refs/\*|mirror(?:\s*=.*)?")
"""The lines that `git clone --mirror` writes in the section of a remote."""

_SECTION = pattern(r'\[\s*([\w.-]+)\s*(?:"((?:[^"\\]|\\.)*)")?\s*\]')
_VALUE = pattern(r'((?:[^"\\\n#;]|\\[\\"ntb\n]|"(?:[^"\\\n]|\\[\\"ntb\n])*")*)(?:[#;][^\n]*)?(?=\n|\Z)')
"""A value with quotes, escapes or a comment. It can have several lines."""
_ESCAPED = pattern(r"\\(.)")
_VALUE_PARTS = pattern(r'(")|\\(.|\n)|([^"\\]+)')
_ESCAPES = {"n": "\n", "t": "\t", "b": "\b", "\n": ""}
_HEAD = pattern(r"(ref: refs/[^\x00-\x20\x7f]+|[0-9a-f]{40})\s*")


def settings(text: str) -> dict[str, str]:
    """Return the settings in ``text``, keyed by ``section.key`` or ``section.subsection.key``; the last value wins."""
    return dict(entries(text))


def entries(text: str) -> Iterator[tuple[str, str]]:
    """Yield each setting in ``text`` with its value, as git reads them. A setting without a value is ``true``.

    Section and key are in lower case. Includes are not followed. Lines that git would reject are skipped.
    """
    section = ""
    text = text.replace("\r\n", "\n")
    end = -1
    while end < len(text):
        at, end = end + 1, text.find("\n", end + 1) % (len(text) + 1)
        line = text[at:end].lstrip()
        if line.startswith("["):
            head = _SECTION.match(line)
            if head is None:
                continue
            section = head[1].lower()
            if head[2] is not None:
                section += "." + _ESCAPED.sub(r"\1", head[2])
            line = line[head.end() :].lstrip()
        key, equals, value = line.partition("=")
        key = key.strip().lower()
        if not key or "#" in key or ";" in key:
            continue
        if equals and any(mark in value for mark in '"\\#;'):
            found = _VALUE.match(text, end - len(value))
            if found is None:
                continue
            value, end = _unquoted(found[1]), found.end()
        else:
            value = value.strip() if equals else "true"
        yield f"{section}.{key}", value


def _unquoted(value: str) -> str:
    """Return the value of a setting: without quotes, escapes, and the spaces around it."""
    value = value.strip()
    if '"' not in value and "\\" not in value:
        return value
    found, inside, fixed = "", False, 0
    for quote, escaped, text in _VALUE_PARTS.findall(value):
        inside ^= bool(quote)
        found += _ESCAPES.get(escaped, escaped) + text
        fixed = len(found) if inside or quote or escaped else fixed
    return found[:fixed] + found[fixed:].rstrip()


def add(git_dir: Path, section: str, rows: Iterable[tuple[str, str]]) -> None:
    """Add settings to a section such as ``remote "origin"``, in one write. Existing settings are not changed.

    ``rows``: keys and values. Raises ``Unavailable``.
    """
    lines = "".join(line_of(key, value) for key, value in rows)

    def changed(text: str) -> str:
        head = f"[{section}]\n"
        at = 0 if text.startswith(head) else text.find(f"\n{head}") + 1
        if text.startswith(head, at):
            return f"{text[: at + len(head)]}{lines}{text[at + len(head) :]}"
        return f"{text}{'' if text.endswith(chr(10)) or not text else chr(10)}{head}{lines}"

    file = Path(os.path.realpath(git_dir / FILE))
    try:
        _rewrite(file, changed)
    except FileExistsError:
        hint = f"if no other program is changing it, delete '{file}.lock'"
        raise Unavailable(f"cannot change '{file}': it is locked", hint=hint) from None
    except OSError as error:
        raise Unavailable(f"cannot change '{file}': {error.strerror}") from error


def line_of(key: str, value: str) -> str:
    """Return the line of a setting."""
    escaped = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}
    return f'\t{key} = "{"".join(escaped.get(one, one) for one in value)}"\n'


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
    return dict(all_of(git_dir))


def all_of(git_dir: Path) -> list[tuple[str, str]]:
    """Return all settings of the store's own configuration, in order (see ``entries``)."""
    data = read_regular(git_dir / FILE)
    return [] if data is None else list(entries(data.decode("utf-8", "surrogateescape")))


def value_of(git_dir: Path, key: str) -> str:
    """Return the value of ``key`` in the store's own configuration; "" if it is not set."""
    return settings_of(git_dir).get(key.lower(), "")


def missing_settings(git_dir: Path) -> dict[str, str]:
    """Return the default settings that the store's configuration lacks.

    Remotes, which the owner configures, are not included.
    """
    return _missing(settings_of(git_dir))


def _missing(present: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in settings(TEXT).items() if key not in present and not key.startswith("remote.")}


def migrate(git_dir: Path) -> None:
    """Replace the refspecs of earlier versions that make a plain `git fetch` move and delete local branches.

    Refspecs in any other form were set by the user and are not changed. If the file is locked or not writable, the next
    writer that opens the store tries again.
    """
    file = git_dir / FILE
    if _without_branch_refspecs(_text(file) or "") is not None:
        with suppress(OSError):
            _rewrite(Path(os.path.realpath(file)), _without_branch_refspecs)


def complete_clone(git_dir: Path, refspecs: Callable[[str], Mapping[str, list[str]]]) -> bool:
    """Complete the configuration that `git clone` wrote for a store. Return whether it was changed.

    The missing default settings are added, and the refspecs of each remote that has none. The refspec and the setting
    of a mirror are removed: with them, a plain `git fetch` overwrites entries that were not pushed, and a plain
    `git push` deletes branches of the remote. All other settings are kept. A repository without a remote is no clone.

    Args:
        git_dir: The repository. If its configuration is locked, not writable, or a link, it is not changed.
        refspecs: Returns the values of ``fetch`` and ``push`` for the remote with a name.
    """
    file, changes = git_dir / FILE, []

    def completed(text: str) -> str | None:
        changes.append(_completed_clone(text, refspecs))
        return changes[-1]

    with suppress(OSError):
        if not file.is_symlink():
            _rewrite(file, completed)
            return changes[-1] is not None
    return False


def _completed_clone(text: str, refspecs: Callable[[str], Mapping[str, list[str]]]) -> str | None:
    """Return ``text`` with the settings that a clone lacks; ``None`` if it is no clone or lacks none."""
    kept, is_remote = "", False
    for line in text.splitlines(keepends=True):
        head = _SECTION.match(line.strip())
        is_remote = head[1].lower() == "remote" if head else is_remote
        kept += "" if is_remote and _OF_A_MIRROR.fullmatch(line.strip()) else line
    present = settings(kept)
    urls = [key for key in present if key.startswith("remote.") and key.endswith(".url")]
    added = _lines_of(_missing(present))
    for name in (key.removeprefix("remote.").removesuffix(".url") for key in urls):
        rows = [
            line_of(key, value)
            for key, values in refspecs(name).items()
            if f"remote.{name}.{key}" not in present
            for value in values
        ]
        added += "".join(['[remote "', name.replace("\\", "\\\\").replace('"', '\\"'), '"]\n', *rows]) if rows else ""
    if not urls or (kept == text and not added):
        return None
    return f"{kept}{'' if kept.endswith(chr(10)) else chr(10)}{added}"


def _lines_of(values: Mapping[str, str]) -> str:
    return "".join(f"[{key.partition('.')[0]}]\n\t{key.partition('.')[2]} = {value}\n" for key, value in values.items())


def _rewrite(file: Path, changed: Callable[[str], str | None]) -> None:
    """Replace the text of ``file`` with the result of ``changed``, unless that is ``None``. Raises ``OSError``.

    ``file``: a path without symbolic links, so that no link is replaced.
    """
    lock = file.with_name(f"{file.name}.lock")  # the lock file that `git config` uses
    fd = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, stat.S_IMODE(file.stat().st_mode))
    try:
        with os.fdopen(fd, "wb") as opened:
            text = changed(file.read_bytes().decode("utf-8", "surrogateescape"))
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
    sync_directory(file.parent)


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
        current = (git_dir / FILE).read_bytes()
        found[FILE] = current + (b"" if current.endswith(b"\n") else b"\n") + _lines_of(missing).encode()
    return found


def _text(file: Path) -> str | None:
    data = read_regular(file)
    return None if data is None else data.decode("utf-8", "replace")


def _is_config(text: str) -> bool:
    """Return whether git can read ``text`` as a configuration. An empty file is valid."""
    lines = [line for line in map(str.strip, text.splitlines()) if line and line[0] not in "#;"]
    return "\0" not in text and (not lines or lines[0].startswith("["))
