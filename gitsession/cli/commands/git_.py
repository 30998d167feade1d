"""``gitsession git``"""

from __future__ import annotations

import os
import sys

import click

from gitsession.cli.opening import App, with_app
from gitsession.errors import Unavailable

_ELSEWHERE = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
)
"""Variables that would lead git to another repository than the store."""


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": []}
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@with_app
def command(app: App, arguments: tuple[str, ...]) -> None:
    """Run git on the store, everything handed over to it first: `gitsession git log --all`."""
    store = app.store()
    store.flush()
    path = str(store.objects.git_dir)
    app.close()
    sys.stdout.flush()
    environment = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    try:
        os.execvpe("git", ["git", f"--git-dir={path}", *arguments], environment)
    except FileNotFoundError:
        raise Unavailable("git is not on the PATH", hint="install git 2.39 or later") from None
