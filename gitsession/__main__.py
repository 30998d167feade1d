"""The command ``gitsession``, also installed as ``git-session``."""

from __future__ import annotations

import sys


def main() -> None:
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        from gitsession import __version__

        print(f"gitsession {__version__}")
        return
    from gitsession.cli.app import run

    sys.exit(run(arguments))


if __name__ == "__main__":
    main()
