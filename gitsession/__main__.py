"""The command ``gitsession``, which is also installed as ``git-session``."""

from __future__ import annotations

import gc
import os
import sys

INTERRUPTED, TERMINATED = 130, 143
"""Exit codes, as in ``cli/exits``. That module is not loaded this early."""


def main() -> None:
    if "hook" in sys.argv[1:4]:  # agents wait for the hook at every step, so it must start fast
        from gitsession.cli import hooking

        if hooking.is_for_us(sys.argv[1:]):
            hooking.run(sys.argv[1:])
            os._exit(0)
    if "status-line" in sys.argv[1:4]:
        from gitsession.cli import agent_status

        if agent_status.run(sys.argv[1:]):
            os._exit(0)
    try:
        code = _run(sys.argv[1:])
    except KeyboardInterrupt:  # Ctrl-C before the first line of `_run` or after its last line
        code = INTERRUPTED
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        sys.exit(code)  # Python reports the error itself
    os._exit(code)  # the store is closed, and a normal exit would take a fifth of the time of `gitsession ls`


def _run(arguments: list[str]) -> int:
    import signal

    # A signal that the parent process ignores (`nohup`, `&` in a script) stays ignored.
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:  # no file is open yet, and an exception could be suppressed while modules are imported
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    if arguments == ["--version"]:
        from gitsession import __version__

        print(f"gitsession {__version__}")
        return 0
    gc.set_threshold(50_000)  # imported modules stay in memory, so frequent collections would free nothing
    from gitsession.cli.postponed import import_fast

    import_fast("click", "dataclasses")
    from gitsession.cli.app import run

    terminated = False

    def terminate(*_: object) -> None:
        """Handle SIGTERM like Ctrl-C: stop a summarizer, discard incomplete writes, and close the store."""
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
