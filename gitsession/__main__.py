"""The command ``gitsession``, also installed as ``git-session``."""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        from gitsession import __version__

        print(f"gitsession {__version__}")
        return
    gc.disable()  # what is imported stays: collecting meanwhile costs, and finds nothing
    from gitsession.cli.app import run

    gc.enable()
    code = run(arguments)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        sys.exit(code)  # Python tells of it, as of any program's output that did not fit
    os._exit(code)  # the store is closed; taking the interpreter apart would be a fifth of `gitsession ls`


if __name__ == "__main__":
    main()
