"""Settings by which the configuration of a store may make git run a program (docs/decisions/0042)."""

from __future__ import annotations

import re
from pathlib import Path

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
"""Settings that name no program, and lead git to none. All others are refused, so a release of git may add some."""
_TEXTCONV = ("diff.gitsession.textconv", "gitsession textconv")
"""A command that docs/git.md tells users to configure."""
_TRANSPORT = re.compile(r"[A-Za-z0-9+.-]+::|-")
"""The beginning of an address that names a program."""


def named(git_dir: Path) -> list[str]:
    """Return the settings of a repository's own configuration that may run a program. Raises ``Unavailable``.

    An address of a remote counts if it is one of a remote helper. An ``include.path`` counts, and is not followed: git
    would find another file by another ``HOME`` or branch.
    """
    words = ("config", "--list", "--show-scope", "--null", "--no-includes")
    parts = process.run(git_dir, *words).out.decode("utf-8", "replace").split("\0")
    settings = zip(parts[::2], (row.partition("\n") for row in parts[1::2]), strict=False)
    return sorted({name for scope, (name, _, value) in settings if scope != "command" and not _is_safe(name, value)})


def _is_safe(name: str, value: str) -> bool:
    if re.fullmatch(r"remote\..*\.(push)?url", name):
        return not _TRANSPORT.match(value)
    return (name, value) == _TEXTCONV or _HARMLESS.fullmatch(name) is not None
