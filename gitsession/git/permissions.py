"""Detection of store files that this process has no permission to read. Such files must not be treated as damaged."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator

from gitsession.errors import Unavailable


def denied(path: str | os.PathLike[str], *, more: int = 0) -> Unavailable:
    """Return the error for ``path`` and ``more`` other files, with a `chmod` command in the hint."""
    rights = "u+rwx" if os.path.isdir(path) else "u+r"
    others = f" and {more:,} more" if more else ""
    return Unavailable(
        f"cannot read '{path}'{others}: permission denied",
        hint=f"run `chmod {rights} {path}` as the store's owner and try again (nothing is damaged)",
    )


def require(paths: Iterable[str | os.PathLike[str]]) -> None:
    """Raise ``Unavailable`` if one of ``paths``, or a file below it, cannot be read for lack of permission."""
    found = [forbidden for path in paths for forbidden in _forbidden(path)]
    if found:
        raise denied(found[0], more=len(found) - 1)


def _forbidden(path: str | os.PathLike[str]) -> Iterator[str | os.PathLike[str]]:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))  # do not block on a named pipe
        inside = sorted(os.listdir(path)) if os.path.isdir(path) else []
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM):
            yield path
        return
    for name in inside:
        yield from _forbidden(os.path.join(path, name))
