"""``gitsession git``"""

from __future__ import annotations

import os
import shlex
import sys

import click

from gitsession.cli.context import App, with_app
from gitsession.cli.enabling import program
from gitsession.errors import Refused, Unavailable

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
    """Run git on the store, everything handed over to it first: `gitsession git log --all`.

    By your own configuration. If the store's may run a program, it is refused.
    """
    from gitsession.git import hook_files, program_settings

    store = app.store()
    store.flush()
    path = str(store.objects.git_dir)
    named = program_settings.named(store.objects.git_dir)
    if named:
        raise Refused(
            f"cannot run git in {path}: its configuration has settings that may run programs: {', '.join(named[:5])}",
            hint=f"remove them there, set them in your own configuration, or run `git --git-dir={path}`",
        )
    # Of all hooks only ours that scans a push, in whatever form the push is written.
    hooks = hook_files.shipped("pre-push")
    settings = ["-c", f"core.hooksPath={hooks}", "-c", f"gitsession.gate={shlex.join(program(app.path))}"]
    app.close()
    sys.stdout.flush()
    environment = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    try:
        os.execvpe("git", ["git", *settings, f"--git-dir={path}", *arguments], environment)
    except FileNotFoundError:
        raise Unavailable("git is not on the PATH", hint="install git 2.39 or later") from None
