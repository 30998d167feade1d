"""The identity of the project to which a folder belongs. It is the same on every machine (docs/decisions/0016).

Nothing is written. git reads only the git directory of the folder, without the system and user configuration, and does
not run any program that is configured in the git directory.
"""

from __future__ import annotations

import re
from pathlib import Path

from gitsession.discovery.discover import top_folder
from gitsession.durable import read_regular
from gitsession.errors import Unavailable
from gitsession.git import process
from gitsession.pattern import pattern

DECLARED = ".gitsession-project"
"""The file in the top folder of a project without a repository. Its first line is the name of the project."""

SECONDS_MAX = 10.0
NAME_CHARS_MAX = 200

_SCHEMES = ("https", "http", "ssh", "git", "git+ssh", "ssh+git")
_URL = pattern(r"([a-z+]+)://(?:[^@/]*@)?(\[[0-9A-Fa-f:.]+\]|[^:/?#]+)(?::([0-9]*))?/([^?#]*)(?:[?#].*)?")
_SCP = pattern(r"(?:[^@/:]+@)?(\[[0-9A-Fa-f:.]+\]|[^:/@]{2,}):(?!//)([^?#]*)(?:[?#].*)?")


def identity_of(folder: Path) -> str | None:
    """Return the identity of the project of ``folder``, or ``None`` if the project has none.

    The identity is the first of these that exists: ``remote:<host>/<path>``, ``root:<oid>``, ``name:<text>``. The
    result is also ``None`` if the folder does not exist on this machine. Never raises.
    """
    try:
        if not folder.is_dir():
            return None
        root = top_folder(folder)
        git_dir = _git_dir(root)
        found = _identity_by_git(git_dir) if git_dir is not None else None
        return found or _declared_identity(root)
    except (OSError, ValueError, Unavailable):
        return None


def of_remote(url: str) -> str | None:
    """Return the host and the path of a remote's URL, without user name and password.

    The result is the same for every spelling of the URL. It is ``None`` for a path on this machine, and for a URL that
    other machines cannot resolve.
    """
    url = url.strip()
    found = _URL.fullmatch(url)
    if found is not None and found[1] in _SCHEMES:
        scheme, host, port, path = found.groups()
        is_own = scheme in ("http", "https") and port not in (None, "", "80", "443")
        host = f"{host}:{port}" if is_own else host
    else:
        scp = _SCP.fullmatch(url) if "://" not in url and "::" not in url.partition("/")[0].replace("[", "") else None
        if scp is None:
            return None
        host, path = scp.groups()
    path = re.sub(r"/+", "/", path).strip("/").removesuffix(".git").rstrip("/")
    return f"{host.lower()}/{path}" if path else None


def _identity_by_git(git_dir: Path) -> str | None:
    remotes = _remotes(git_dir)
    names = sorted(remotes, key=lambda name: (name != "origin", name != "upstream", name))
    remote = next((found for name in names if (found := of_remote(remotes[name])) is not None), None)
    if remote is not None:
        return f"remote:{remote}"
    root = _root_commit(git_dir)
    return f"root:{root}" if root else None


def _git_dir(root: Path) -> Path | None:
    """Return the git directory of a working tree.

    In a linked worktree, ``.git`` is a file with the path of this directory.
    """
    found = root / ".git"
    if found.is_dir():
        return found
    if not found.is_file():
        return None
    content = found.read_text("utf-8", "surrogateescape").strip()
    return (root / content.removeprefix("gitdir:").strip()) if content.startswith("gitdir:") else None


def _remotes(git_dir: Path) -> dict[str, str]:
    """Return the first URL of each remote."""
    arguments = ("config", "--null", "--get-regexp", r"^remote\..*\.url$")
    output = _run_git(git_dir, *arguments)
    found: dict[str, str] = {}
    for setting in output.split("\0"):
        name, _, url = setting.partition("\n")
        if url:
            found.setdefault(name.removeprefix("remote.").removesuffix(".url"), url)
    return found


def _root_commit(git_dir: Path) -> str | None:
    """Return the root commit with the lowest object id, or ``None`` if the repository has no commits or is shallow."""
    if _run_git(git_dir, "rev-parse", "--is-shallow-repository").strip() != "false":
        return None
    roots = sorted(_run_git(git_dir, "rev-list", "--max-parents=0", "HEAD").split())
    return roots[0] if roots else None


def _run_git(git_dir: Path, *arguments: str) -> str:
    result = process.run(git_dir, *arguments, accept=range(256), timeout_seconds=SECONDS_MAX)
    return result.out.decode("utf-8", "surrogateescape") if result.code == 0 else ""


def _declared_identity(root: Path) -> str | None:
    data = read_regular(root / DECLARED) or b""
    name = " ".join(data.partition(b"\n")[0][: 4 * NAME_CHARS_MAX].decode("utf-8", "replace").split())
    return f"name:{name[:NAME_CHARS_MAX]}" if name else None
