"""Web pages of sessions: files that show one session, and a local server that shows the whole store."""

from __future__ import annotations

from importlib.util import find_spec

from gitsession.errors import Unavailable

_LIBRARIES = ("jinja2", "markdown_it", "pygments")


def check_installed() -> None:
    """Raise ``Unavailable`` if a library for pages is not installed."""
    missing = [name for name in _LIBRARIES if find_spec(name) is None]
    if missing:
        what = f"cannot make web pages: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed"
        raise Unavailable(what, hint="install with: pip install 'gitsession[web]'")
