"""Detection of settings in a store's configuration that can make git run a program (docs/decisions/0042)."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote

from gitsession.git import process

_HARMLESS = re.compile(
    r"(advice|author|blame|branch|color|column|committer|extensions|feature|fetch|format|fsck|gitsession|http|i18n|index"
    r"|log|mailmap|maintenance|notes|pack|pretty|push|receive|repack|rerere|status|transfer|user)\..*(?<!mergeoptions)"
    r"|core\.(abbrev|attributesfile|autocrlf|bare|bigfilethreshold|checkstat|commentchar|commitgraph|compression"
    r"|deltabasecachelimit|eol|excludesfile|filemode|fsync|fsyncmethod|fsyncobjectfiles|ignorecase|logallrefupdates"
    r"|loosecompression|multipackindex|packedgit.*|precomposeunicode|quotepath|repositoryformatversion|safecrlf"
    r"|sharedrepository|symlinks|trustctime|warnambiguousrefs|whitespace)"
    r"|credential\.(.*\.)?(username|usehttppath)|(commit|tag)\.gpgsign|gpg\.(format|mintrustlevel)"
    r"|diff\.(algorithm|colormoved(ws)?|context|indentheuristic|interhunkcontext|mnemonicprefix|noprefix|renames"
    r"|renamelimit|wserrorhighlight|.*\.(binary|wordregex|x?funcname))"
    r"|gc\.(?!recentobjectshook).*|merge\.(conflictstyle|ff|log|renames|renamelimit|stat)|pull\.(ff|rebase)"
    r"|remote\.(pushdefault|.*\.(fetch|followremotehead|mirror|partialclonefilter|promisor|proxy|proxyauthmethod|prune"
    r"|prunetags|push|skipdefaultupdate|skipfetchall|tagopt|gitsession-.*))"
    r"|uploadpack\.(?!packobjectshook).*"
)
"""Settings that run no program, directly or indirectly.

All other settings are refused, including settings that later versions of git add.
"""
_TEXTCONV = ("diff.gitsession.textconv", "gitsession textconv")
"""The only allowed setting that names a command, with its only allowed value (docs/reference/git.md)."""
_TRANSPORT = re.compile(r"[A-Za-z0-9+.-]+::|-")
"""The beginning of a remote's address that makes git run a program."""


_REMOTES = ("remotes", "branches")
"""Folders in which git before 1.5 stored remotes. Later versions of git still read them."""


def unsafe_settings(git_dir: Path) -> list[str]:
    """Return the settings of a repository's own configuration that can make git run a program. Raises ``Unavailable``.

    The result includes the address of a remote if it needs a remote helper, or if it may lead to this repository: git
    runs all hooks of a repository to which it pushes. Files in ``_REMOTES`` are included, too. An ``include.path`` is
    included but not followed, because the file that git finds may depend on ``HOME`` or the branch.
    """
    arguments = ("config", "--list", "--show-scope", "--null", "--no-includes")
    parts = process.run(git_dir, *arguments).out.decode("utf-8", "surrogateescape").split("\0")
    settings = zip(parts[::2], (row.partition("\n") for row in parts[1::2]), strict=False)
    found = {name for scope, (name, _, value) in settings if scope != "command" and not _is_safe(git_dir, name, value)}
    found.update(str(path.relative_to(git_dir)) for folder in _REMOTES for path in (git_dir / folder).rglob("*"))
    return [name.encode("utf-8", "replace").decode() for name in sorted(found)]


def _is_safe(git_dir: Path, name: str, value: str) -> bool:
    if re.fullmatch(r"remote\..*\.(push)?url", name):
        return not _TRANSPORT.match(value) and not _may_be(git_dir, value)
    if re.fullmatch(r"remote\.pushdefault|branch\..*\.(push)?remote", name):
        return re.fullmatch(r"\w[\w.-]*", value) is not None
    return (name, value) == _TEXTCONV or _HARMLESS.fullmatch(name) is not None


def _may_be(git_dir: Path, url: str) -> bool:
    """Return whether an address may lead into ``git_dir``.

    Any relative path may, because it depends on the folder in which git runs.
    """
    if url.startswith("file:"):
        url = unquote(url.removeprefix("file:"))
    elif ":" in url.partition("/")[0]:
        return False
    return not os.path.isabs(url) or Path(os.path.realpath(url)).is_relative_to(os.path.realpath(git_dir))
