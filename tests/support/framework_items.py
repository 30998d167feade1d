"""Hypothesis strategies and helpers for the tests of frameworks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from places import ROOT

JSON_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
WILD_JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False),
        st.text(st.characters(), max_size=8),  # with lone surrogates, which JSON can represent
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
"""Any JSON value, also those that the format of entries cannot represent."""


def same(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal, with their types: ``1`` is neither ``1.0`` nor ``True``."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def run_programs(page: str, *begins: str, folder: Path) -> str:
    """Run the Python blocks of a how-to guide that begin with ``begins``, and return their output."""
    text = (ROOT / "docs/how-to" / page).read_text()
    blocks = [block.partition("```")[0] for block in text.split("```python\n")[1:]]
    programs = [block for start in begins for block in blocks if block.startswith(start)]
    assert len(programs) == len(begins)
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(programs)], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def kill_after(program: str, folder: Path) -> None:
    """Run a program that kills itself with SIGKILL at the end."""
    ending = "\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"
    done = subprocess.run(
        [sys.executable, "-c", program + ending], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == -9, done.stderr


_KILLS = """
import asyncio, os, shutil, signal
from gitsession import Store
from gitsession.store.writing import InTransaction

with Store.create("base.git") as store:
    asyncio.run(prepare(store))
for number in range(20):
    shutil.copytree("base.git", f"{number}.git")
    child = os.fork()
    if not child:
        leave, left = InTransaction.__exit__, [number]

        def leave_and_die(transaction, *error):
            leave(transaction, *error)
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1

        InTransaction.__exit__ = leave_and_die
        with Store.open(f"{number}.git") as store:
            asyncio.run(change(store))
        os._exit(0)
    if not os.waitpid(child, 0)[1]:
        break
"""


def kill_after_each_transaction(program: str, folder: Path) -> list[Path]:
    """Return stores of which each was left by a program that was killed after another of its transactions.

    ``program`` defines the functions ``prepare`` and ``change``, which get a store. The last program is not killed.
    """
    done = subprocess.run(
        [sys.executable, "-c", program + _KILLS], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return sorted(folder.glob("[0-9]*.git"), key=lambda path: int(path.stem))


DAMAGED_JSON = [
    "{",
    "[]",
    "1",
    "null",
    "{}",
    '{"id": "x"}',
    '{"number": 1}',
    '{"number": "1"}',
    '{"record": 1}',
    "[" * 99_999,
]
"""Texts of which most are not what an adapter has written."""
