"""The process of ``shim.Shim``: it reads requests as JSON lines and forks a child for each.

The child leads its own process group. The process waits for it and for all its children, including orphans, so that no
process uses the store when it is checked.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import tempfile
import traceback
from typing import Any

from faults import checkpointing, draining, expiring, purging, rewinding, syncing, work

_SUBREAPER = 36
_SECONDS = 240


def main() -> None:
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    work.get_ready()
    with os.fdopen(os.dup(1), "w") as answers:  # writes to descriptor 1 are logged as acknowledgements
        for row in sys.stdin:
            print(json.dumps(_run(json.loads(row))), file=answers, flush=True)


def _run(request: dict[str, Any]) -> dict[str, Any]:
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as errors:
        child = os.fork()
        if not child:
            _be_child(request, writing, errors.fileno())
        os.close(writing)
        with open(reading, "rb") as pipe:
            told = pipe.read().decode()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        try:
            while True:
                os.waitpid(-1, 0)  # ``process.talk`` runs git in its own group
        except ChildProcessError:
            pass
        errors.seek(0)
        return {"told": told.splitlines(), "code": code, "stderr": errors.read().decode("utf-8", "replace")}


def _be_child(request: dict[str, Any], out: int, errors: int) -> None:
    code = 1
    try:
        os.setpgid(0, 0)
        signal.alarm(_SECONDS)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(errors, 2)
        os.close(out)
        if request["work"] in (rewinding.REWIND, rewinding.UNDO):
            rewinding.do(request["work"], request["git_dir"])
        elif request["work"] in checkpointing.WORKS:
            checkpointing.do(request["work"], request["git_dir"])
        elif request["work"] == purging.PURGE:
            purging.do(request["git_dir"])
        elif request["work"] == expiring.EXPIRE:
            expiring.do(request["git_dir"])
        elif request["work"] in draining.WORKS:
            draining.do(request["work"], request["git_dir"])
        elif request["work"] in syncing.WORKS:
            syncing.do(request["work"], request["git_dir"])
        else:
            work.do(request["work"], request["git_dir"], request["skip"], **request["options"])
        code = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
