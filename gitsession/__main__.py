"""The command ``gitsession``, also installed as ``git-session``."""

from __future__ import annotations

import gc
import os
import sys

INTERRUPTED, TERMINATED = 130, 143
"""As in ``cli/exits``, which is not loaded so early."""


def main() -> None:
    if "hook" in sys.argv[1:4]:  # what an agent waits for at every step: not even what is loaded below
        from gitsession.cli import hooking

        if hooking.is_for_us(sys.argv[1:]):
            hooking.run(sys.argv[1:])
            os._exit(0)
    try:
        code = _run(sys.argv[1:])
    except KeyboardInterrupt:  # before the first line of `_run`, or behind its last
        code = INTERRUPTED
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        sys.exit(code)  # Python tells of it, as of any program's output that did not fit
    os._exit(code)  # the store is closed; taking the interpreter apart would be a fifth of `gitsession ls`


def _run(arguments: list[str]) -> int:
    import signal

    # What was set to be ignored (`nohup`, `&` in a script) stays so.
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:  # nothing is open yet, and what is being loaded may swallow an exception
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    if arguments == ["--version"]:
        from gitsession import __version__

        print(f"gitsession {__version__}")
        return 0
    gc.disable()  # what is imported stays: collecting meanwhile costs, and finds nothing
    from gitsession.cli.app import run

    gc.enable()
    terminated = False

    def terminate(*_: object) -> None:
        """As Ctrl-C: a program that summarises is ended, what is half written given up, the store let go."""
        nonlocal terminated
        terminated = True
        raise KeyboardInterrupt

    if interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, terminate)
    try:
        code = run(arguments)
    except KeyboardInterrupt:
        code = INTERRUPTED
    return TERMINATED if terminated and code == INTERRUPTED else code


if __name__ == "__main__":
    main()
