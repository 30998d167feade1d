"""Settings by which the configuration of a store makes git run a program (docs/decisions/0042)."""

from __future__ import annotations

import re
from pathlib import Path

from gitsession.git import process

_PROGRAMS = re.compile(
    r"core\.(pager|editor|askpass|fsmonitor|sshcommand|gitproxy|hookspath|alternaterefscommand|worktree)"
    r"|(pager|alias|hook|man|browser|guitool|mergetool|difftool)\..*"
    r"|(remote\..*\.(uploadpack|receivepack|vcs)|remote\..*url|url\..*)"
    r"|credential\.(.*\.)?helper|diff\.(external|.*\.(command|textconv))|merge\..*\.driver"
    r"|filter\..*\.(clean|smudge|process)|gpg\.(.*\.)?(program|defaultkeycommand)|sequence\.editor"
    r"|interactive\.difffilter|protocol\..*|trailer\..*\.(command|cmd)|tar\..*\.command|web\.browser|browser\..*"
    r"|gc\.recentobjectshook|uploadpack\.packobjectshook|init\.templatedir|submodule\..*\.update|sendemail\..*"
)
"""Settings by which a repository names a program for git to run, or leads it to one."""
_HARMLESS = {"diff.gitsession.textconv": "gitsession textconv"}
"""Commands that docs/git.md tells users to configure."""
_TRANSPORT = re.compile(r"[A-Za-z0-9+.-]+::|-")
"""The beginning of an address that names a program."""


def named(git_dir: Path) -> list[str]:
    """Return the settings of a repository's own configuration by which git would run a program. Raises ``Unavailable``.

    An address of a remote counts if it is one of a remote helper.
    """
    words = ("config", "--list", "--show-scope", "--null", "--includes")
    parts = process.run(git_dir, *words).out.decode("utf-8", "replace").split("\0")
    found = []
    for scope, row in zip(parts[::2], parts[1::2], strict=False):
        name, _, value = row.partition("\n")
        if scope == "command" or not _PROGRAMS.fullmatch(name) or _HARMLESS.get(name) == value:
            continue
        if re.fullmatch(r"remote\..*url", name) and not _TRANSPORT.match(value):
            continue
        found.append(name)
    return sorted(set(found))
