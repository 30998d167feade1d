"""Whole commands: start-up against `python -c pass`, listing 1,000 sessions against `git for-each-ref`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import in_turn, report

from gitsession import Message, Store

ROUNDS, SESSIONS = 15, 1000


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.git"
        fill(path)
        program = str(Path(sys.executable).parent / "gitsession")
        environment = {**os.environ, "GITSESSION_DIR": str(path), "HOME": folder}

        def run(*words: str) -> object:
            return lambda number: subprocess.run(words, env=environment, check=True, stdout=subprocess.DEVNULL)

        run(program, "ls")(0)  # type: ignore[operator]
        nothing = run(sys.executable, "-c", "pass")
        listing = run("git", f"--git-dir={path}", "for-each-ref", "refs/heads/sessions")
        for what, bar, ours, peer in (
            ("gitsession --version : python -c pass", "2", run(program, "--version"), nothing),
            ("gitsession ls -n 10 : python -c pass", "5", run(program, "ls", "-n", "10"), nothing),
            ("gitsession log -n 10 : python -c pass", "11", run(program, "log", "@", "-n", "10"), nothing),
            (f"gitsession ls of {SESSIONS:,}, loose : for-each-ref", "3", run(program, "ls"), listing),
        ):
            report(what, bar, *in_turn(ours, peer, ROUNDS, warm_up=2))  # type: ignore[arg-type]
        run(program, "maintain")(0)  # type: ignore[operator]
        run(program, "ls")(0)  # type: ignore[operator]
        packed = in_turn(run(program, "ls"), listing, ROUNDS, warm_up=2)  # type: ignore[arg-type]
        report(f"gitsession ls of {SESSIONS:,}, packed : for-each-ref", "3", *packed)


def fill(path: Path) -> None:
    with Store.create(path) as store:
        for number in range(SESSIONS):
            session = store.new_session(agent="bench", cwd=os.getcwd())
            session.append(Message.user(f"Question {number}"))
            session.append(Message.assistant(f"Answer {number}"))


if __name__ == "__main__":
    sys.exit(main())
