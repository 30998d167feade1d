"""Remotes in git's configuration, and the mapping between local refs, the remote's refs, and remote-tracking refs.

If a remote is a store, its refs have the same names as the local refs. If a remote is shared with a code repository,
sessions are below ``refs/gitsession/sessions/`` and the store's own refs below ``refs/gitsession/store/``. Refs with
these names are not listed as branches and are not copied by `git clone`. The values of the remote-tracking refs are the
last known values of the refs at the remote.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from gitsession.dataclass import dataclass
from gitsession.errors import GitSessionError, InvalidName, NotFound, Refused
from gitsession.git import config, process
from gitsession.git.types import Oid, Reader
from gitsession.store import create, histories, plain_clone, refs
from gitsession.store.plain_clone import STORE_PREFIXES
from gitsession.sync.scope import UNLIMITED, Scope

HOME = "gitsession.home"
NAMESPACE = "gitsession"
HEADS = "refs/heads/"
DEFAULT = "origin"

SAFE = ("url", "pushurl", "proxy", "promisor", "partialclonefilter")
"""The settings of a remote that are passed to git.

A store may come from another person, and its configuration could name programs: for ssh, for the remote side, or to get
a password. Settings that can name a program are read only from the user's own configuration.
"""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_NAMESPACE = re.compile(r"[a-z0-9][a-z0-9_-]{0,30}")
_SCHEME = re.compile(r"(?:[A-Za-z0-9-]+::)?[A-Za-z][A-Za-z0-9+.-]*")
_HOST_ALONE = re.compile(r"[^@/:\s]+@[^@/:\s]+")
_SCOPED = "gitsession-"
"""Prefix of the settings of a scope."""
_AGREED = f"{_SCOPED}agreed"


@dataclass(frozen=True, slots=True)
class Remote:
    """Another repository.

    Attributes:
        name: The name of the remote in git's configuration.
        url: The address of the remote.
        prefixes: Pairs of ref prefixes: the local prefix and the prefix at the remote.
        is_home: True for the home remote. If branches diverge, the branches of the home remote keep their names.
        is_named: True if the remote is in git's configuration. A bundle is not in the configuration and has no tracking
            refs.
        is_new: True if a store is being cloned from the remote and does not exist yet.
        settings: The store's settings for the remote that cannot name a program to run.
        scope: The limits on the sessions that are sent to the remote.
        is_confirmed: True if the user has confirmed the scope.
    """

    name: str
    url: str
    prefixes: tuple[tuple[str, str], ...] = field(default=())
    is_home: bool = False
    is_named: bool = True
    is_new: bool = False
    settings: tuple[tuple[str, str], ...] = ()
    scope: Scope = UNLIMITED
    is_confirmed: bool = False

    @property
    def address(self) -> str:
        """The name or address that is passed to git."""
        return self.name if self.is_named else self.url

    def problem(self, predicate: str) -> str:
        """Return a message about the remote that ends with ``predicate``, such as "cannot be reached"."""
        if self.is_new:
            return f"cannot clone {plain(self.url)!r}: it {predicate}"
        return f"the remote {self.name} ({plain(self.url)}) {predicate}"

    @property
    def is_shared(self) -> bool:
        """True if the remote is shared with a code repository."""
        return self.prefixes != STORE_PREFIXES

    @property
    def is_plain(self) -> bool:
        """True if the remote is a store in the configuration, with no settings for fetches except its URL."""
        return self.is_named and not self.is_shared and {key for key, _ in self.settings} <= {"url", "pushurl"}

    def remote_ref(self, ref: str) -> str | None:
        """Return the name of a local ref at the remote; ``None`` if the ref is not sent."""
        for near, far in self.prefixes:
            if ref == near or (near.endswith("/") and ref.startswith(near)):
                return far + ref.removeprefix(near)
        return None

    def local_ref(self, far: str) -> str | None:
        """Return the local name of the remote's ref ``far``; ``None`` if gitsession does not use the ref."""
        for near, remote_prefix in self.prefixes:
            if far == remote_prefix or (remote_prefix.endswith("/") and far.startswith(remote_prefix)):
                return near + far.removeprefix(remote_prefix)
        return None

    def tracking(self, ref: str) -> str:
        """Return the name of the remote-tracking ref for the local ref ``ref``."""
        return f"{self.tracks}{ref.removeprefix(HEADS)}"

    @property
    def tracks(self) -> str:
        """The prefix of the remote-tracking refs of this remote."""
        return f"{refs.TRACKING}{self.name}/"

    def local_ref_of(self, tracking: str) -> str:
        """Return the name of the local ref for a remote-tracking ref."""
        return HEADS + tracking.removeprefix(self.tracks)

    def fetched(self) -> list[str]:
        """Return the refspecs that fetch all gitsession refs into the remote-tracking refs."""
        return [f"+{far}*:{self.tracking(near)}*" for near, far in self.prefixes]


def _shared_refspecs(namespace: str) -> tuple[tuple[str, str], ...]:
    return ((refs.STORE_BRANCHES, f"refs/{namespace}/store/"), (refs.SESSIONS, f"refs/{namespace}/sessions/"))


def list_remotes(git_dir: Path) -> list[Remote]:
    """Return the remotes that have a URL, sorted by name."""
    settings = _settings(git_dir)
    urls = {name: settings[f"remote.{name}.url"][0] for name in _names(settings)}
    home = settings.get(HOME, [""])[-1] or (next(iter(urls)) if len(urls) == 1 else DEFAULT)
    found = []
    for name, url in sorted(urls.items()):
        own = {key.removeprefix(f"remote.{name}."): tuple(values) for key, values in settings.items()}
        pushed = own.get("push", ())
        far = next((spec.partition(":")[2] for spec in pushed if spec.startswith(f"{refs.SESSIONS}*:")), "")
        match = re.fullmatch(r"refs/([^/*]+)/sessions/\*", far)
        prefixes = _shared_refspecs(match[1]) if match and match[1] != "heads" else STORE_PREFIXES
        git_settings = tuple((key, value) for key in SAFE for value in own.get(key, ()))
        scope = Scope(
            projects=own.get(f"{_SCOPED}project", ()),
            agents=own.get(f"{_SCOPED}agent", ()),
            labels=own.get(f"{_SCOPED}label", ()),
            is_all=own.get(f"{_SCOPED}all", ("",))[-1] == "true",
        )
        is_confirmed = scope.is_all or own.get(_AGREED, ("",))[-1] == "true"
        found.append(
            Remote(name, url, prefixes, name == home, settings=git_settings, scope=scope, is_confirmed=is_confirmed)
        )
    return found


def fetched_into_branches(git_dir: Path) -> list[tuple[str, str]]:
    """Return the fetch refspecs with which a plain `git fetch` moves or deletes local refs, each with its remote."""
    settings = _settings(git_dir)
    found = [(name, spec) for name in _names(settings) for spec in settings.get(f"remote.{name}.fetch", [])]
    local = (HEADS, "refs/gitsession/")
    return [row for row in found if (to := row[1].partition(":")[2]).startswith(local) or to == "refs/*"]


def find(git_dir: Path, name: str = "") -> Remote:
    """Return the remote ``name``; without a name, the home remote. Raises ``NotFound``."""
    known = list_remotes(git_dir)
    found = next((remote for remote in known if remote.name == name or (not name and remote.is_home)), None)
    if found is not None:
        return found
    if not known:
        raise NotFound("this store has no remote", hint="run `gitsession remote add origin URL`")
    names = ", ".join(remote.name for remote in known)
    if not name:
        raise NotFound(
            "no remote was given, and no home remote is set",
            hint=f"choose one of {names}, or set the home remote: `gitsession git config {HOME} NAME`",
        )
    raise NotFound(f"no remote {name[:80]!r} in this store", hint=f"choose one of {names}")


def add(
    git_dir: Path, name: str, url: str, *, namespace: str = "", home: bool = False, scope: Scope = UNLIMITED
) -> Remote:
    """Add a remote.

    ``namespace``: for a remote shared with a code repository; sessions are then below ``refs/<namespace>/``.
    Raises ``InvalidName``, and ``Refused`` if a remote of that name exists.
    """
    if scope.is_all and scope.is_limited:
        raise Refused(
            f"cannot add remote {name[:80]!r}: its scope cannot be limited and also contain all sessions",
            hint="omit --all, or omit --project, --agent and --label",
        )
    if any("" in values for values in scope.limits.values()):
        hint = "omit --project, --agent and --label for a remote without a scope"
        raise InvalidName(
            f"cannot add remote {name[:80]!r}: a project, agent or label of its scope is empty", hint=hint
        )
    if not _NAME.fullmatch(name) or name.endswith((".lock", ".")) or ".." in name:
        raise InvalidName(f"invalid remote name {name[:80]!r}", hint="use letters, digits, ., - and _ only")
    if namespace and (not _NAMESPACE.fullmatch(namespace) or namespace in ("heads", "tags", "remotes", "notes")):
        raise InvalidName(f"invalid namespace {namespace[:80]!r}", hint="choose another name, such as gitsession")
    settings = _settings(git_dir)
    if name in _names(settings):
        raise Refused(
            f"cannot add remote {name!r}: a remote with this name already exists",
            hint="choose another name, or remove the existing remote first",
        )
    location = address(url)
    added = Remote(name, location, _shared_refspecs(namespace) if namespace else STORE_PREFIXES)
    rows = [("url", location)]
    fetched = added.fetched() if added.is_shared else plain_clone.refspecs(name)["fetch"]
    rows += [("fetch", spec) for spec in fetched]
    rows += [("push", spec) for spec in plain_clone.push_refspecs(added.prefixes)]
    for kind, values in scope.limits.items():
        for value in values:
            value = os.path.abspath(value) if kind == "project" and os.path.isdir(value) else value
            rows.append((f"{_SCOPED}{kind}", value))
    rows += [(f"{_SCOPED}all", "true")] if scope.is_all else []
    present = []
    for key in ("fetch", "push", _AGREED, f"{_SCOPED}all", *(f"{_SCOPED}{kind}" for kind in scope.limits)):
        found = [(key, value) for value in settings.get(f"remote.{name}.{key}", ())]
        if set(found) <= set(rows):
            present += found
        else:  # the settings of a remote that was removed
            _config(git_dir, "--unset-all", f"remote.{name}.{key}", accept=(0, 5))
    config.add(git_dir, f'remote "{name}"', [row for row in rows if row not in present])
    if home:
        _config(git_dir, HOME, name)
    return find(git_dir, name)


def confirm(git_dir: Path, remote: Remote) -> None:
    """Record that the user has confirmed the scope of a remote."""
    if not remote.is_named or remote.is_confirmed:
        return
    if f"remote.{remote.name}.{_AGREED}" in _settings(git_dir):
        _config(git_dir, f"remote.{remote.name}.{_AGREED}", "true")
    else:
        config.add(git_dir, f'remote "{remote.name}"', [(_AGREED, "true")])


def file(path: Path) -> Remote:
    """Return a remote that is not in the configuration: a bundle, or a repository that is read once.

    Raises ``NotFound``.
    """
    if not path.exists():
        raise NotFound(f"cannot read '{path}': no such file")
    return Remote("bundle", os.path.abspath(path), STORE_PREFIXES, is_named=False)


def remove(git_dir: Path, name: str) -> Remote:
    """Remove a remote; keep the data that was fetched from it. Raises ``NotFound``."""
    found = find(git_dir, name)
    if not name:
        raise NotFound("cannot remove a remote: no name was given", hint=f"pass a remote name, such as {found.name}")
    _config(git_dir, "--remove-section", f"remote.{name}")
    if _settings(git_dir).get(HOME, [""])[-1] == name:
        _config(git_dir, "--unset-all", HOME)
    return found


_ADDRESSES = "pass a folder, or a URL such as https://HOST/PATH or ssh://HOST/PATH"


def address(url: str) -> str:
    """Convert a URL for git: a local path becomes absolute. Raises ``InvalidName``."""
    if not url or url.startswith("-") or "\n" in url or "\0" in url:
        problem = "it is empty" if not url else "it begins with -" if url[0] == "-" else "it has a line end or a NUL"
        raise InvalidName(f"cannot use {url[:80]!r} as a repository: {problem}", hint=_ADDRESSES)
    scheme, mark, rest = url.partition("://")
    if mark and not (rest and _SCHEME.fullmatch(scheme)):
        raise InvalidName(f"cannot use {url[:80]!r} as a repository: it is not a URL", hint=_ADDRESSES)
    if url.startswith("ext::"):
        raise InvalidName(f"cannot use {url[:80]!r} as a repository: it names a program to run", hint=_ADDRESSES)
    if _HOST_ALONE.fullmatch(url) and not os.path.lexists(url):
        hint = f"pass {url}:PATH, or ./{url} for a local folder"
        raise InvalidName(f"cannot use {url[:80]!r} as a repository: it has no path", hint=hint)
    return url if mark or ":" in url.partition("/")[0] else os.path.abspath(os.path.expanduser(url))


def check_is_store(remote: Remote, remote_refs: Mapping[str, Oid], read: Reader | None = None) -> None:
    """Raise ``Refused`` if a remote has branches that a store does not have: code and sessions must be kept apart.

    ``read``: reads the objects of the remote's refs; ``None`` if these objects have not been fetched.
    """
    main = remote_refs.get(create.MAIN)
    others = [] if main else [ref for ref in remote_refs if ref.startswith(HEADS) and remote.remote_ref(ref) is None]
    if others or not (main is None or _begins_a_store(main, read)):
        branch = others[0].removeprefix(HEADS)[:80] if others else ""
        reason = f"it has the branch '{branch}'" if branch else "its branch main is not that of a store"
        raise Refused(
            remote.problem(f"is not a store of sessions: {reason}"),
            hint="if it contains code, pass --namespace gitsession to `gitsession remote add` or `gitsession clone`",
        )


def _begins_a_store(main: Oid, read: Reader | None) -> bool:
    """Return whether the history of ``main`` begins with the first commit of every store."""
    first = create.first_commit()[0]
    try:
        return main == first or (read is not None and histories.holds(read.read, main, first))
    except GitSessionError:
        return False


def missing(url: str) -> str:
    """Return the path in ``url`` if it is a local path without a repository.

    The result is "" if the repository exists or ``url`` is not a local path. A file counts as a repository, because it
    can be a bundle.
    """
    path = url.removeprefix("file://")
    exists = any(os.path.exists(os.path.join(path, name)) for name in ("HEAD", ".git")) or os.path.isfile(path)
    return "" if exists or not os.path.isabs(path) else path


def plain(url: str) -> str:
    """Return a URL for display, without user name and password."""
    return re.sub(r"(?<=://)[^/@\s]*@", "", url)


def _settings(git_dir: Path) -> dict[str, list[str]]:
    """Return all settings of the store's own configuration, with all their values."""
    found: dict[str, list[str]] = {}
    for key, value in config.all_of(git_dir):
        found.setdefault(key, []).append(value)
    return found


def _names(settings: dict[str, list[str]]) -> list[str]:
    keys = (key for key in settings if key.startswith("remote.") and key.endswith(".url"))
    return [name for key in keys if _NAME.fullmatch(name := key.removeprefix("remote.").removesuffix(".url"))]


def _config(git_dir: Path, *arguments: str, accept: tuple[int, ...] = (0,)) -> None:
    process.run(None, "config", "--file", str(git_dir / config.FILE), *arguments, accept=accept)
