"""Comparison of exports and contexts with the real pi. It requires ``$LAB`` with the released programs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import goldens
import pytest
from builders import SHARED

from gitsession.exporting.export_session import export_original
from gitsession.formats.pi.agent import pi
from gitsession.importing.import_session import import_source
from gitsession.sessions import active_branch, graph, session_facts
from gitsession.sessions import marks as rules
from gitsession.sessions.graph import Tree
from gitsession.sessions.meta import meta_of
from gitsession.sessions.node import Node
from gitsession.store.memory import MemoryStore

LAB = Path(os.environ.get("LAB", "/nonexistent"))
DRIVER = SHARED / "peers/pi/driver.mjs"
RELEASES = {"0.73": ("pi", shutil.which("node") or ""), "0.87": ("pi-087", str(LAB / "node22/node_modules/.bin/node"))}

pytestmark = pytest.mark.skipif(not DRIVER.exists(), reason="the driver of the real programs is not at hand")


@pytest.fixture(scope="module", params=RELEASES)
def real_pi(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Return a function that returns the released program's view of a session file."""
    folder, node = RELEASES[request.param]
    if not (LAB / folder).is_dir() or not Path(node).exists():
        pytest.skip(f"pi {request.param} is not installed in $LAB")
    process = subprocess.Popen(
        [node, str(DRIVER), "--impl", request.param, "--serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "LAB": str(LAB)},
        text=True,
    )
    assert process.stdin and process.stdout

    def ask(data: bytes) -> dict[str, Any]:
        process.stdin.write(json.dumps({"id": 1, "text": data.decode("utf-8", "surrogateescape")}) + "\n")
        process.stdin.flush()
        answer: dict[str, Any] = json.loads(process.stdout.readline())
        return answer

    yield ask
    process.stdin.close()
    process.wait(timeout=120)
    process.stdout.close()


def ours(data: bytes) -> tuple[bytes, dict[str, Any]]:
    """Import a session. Return its export, and its state in pi's notation."""
    store = MemoryStore()
    done = import_source(store, pi, pi.split(data))
    tree = graph.tree(store, done.session)
    seen = meta_of(store, done.session)
    marks = session_facts.marks(store, done.session, tree, seen)
    labels = rules.labels(marks, session_facts.targets(tree, seen))
    leaf = known(tree, tree.nodes[tree.branches[active_branch.active(store, done.session)]])
    return export_original(store, done.session).data, {
        "leaf": leaf,
        "name": rules.title(marks),
        "labels": {known(tree, tree.nodes[oid]): label for oid, label in labels.items()},
        "ids": sorted(node.source.id for node in tree.nodes.values() if node.source and node.source.id),
    }


def known(tree: Tree, node: Node) -> str | None:
    """Return the id of the nearest entry that has an id in pi."""
    while node.source and node.source.id is None and node.parent:
        node = tree.nodes[node.parent]
    return node.source.id if node.source else None


def theirs(found: dict[str, Any]) -> dict[str, Any]:
    return {
        "leaf": found["leaf"],
        "name": found["name"],
        "labels": found["labels"],
        "ids": sorted(row[0] for row in found["tree"]),
    }


def test_real_pi_reads_our_export_as_we_do(real_pi: Any) -> None:
    for path in sorted((SHARED / "sessions/pi").glob("*.v3.jsonl")):
        exported, said = ours(path.read_bytes())
        assert exported == path.read_bytes()
        assert theirs(real_pi(exported)) == said, path.name


def test_the_real_pi_agrees_on_all_generated_sessions(real_pi: Any) -> None:
    for case in goldens.cases():
        exported, said = ours(case["text"].encode())
        assert theirs(real_pi(exported)) == said, case["id"]
