"""Comparison of exports with the released pi and omp: random conversations of every agent are exported to them.

The rule of ``conversations`` is checked with the programs themselves instead of gitsession's parser: the program sends
the source's context, or a note names the difference. It requires ``$LAB`` with the programs.
``GITSESSION_CONVERSATIONS`` is the number of conversations of each agent.
"""

from __future__ import annotations

import json
import os
import subprocess
from base64 import b64decode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from select import select
from typing import Any

import pytest
from builders import bring
from conversations import DRAWN, NAMES, SOURCES, Seen, compared, context, marks, seen
from pi_drivers import DRIVERS, LAB, RELEASES

from gitsession.exporting.export_session import export
from gitsession.store.memory import MemoryStore

COUNT = int(os.environ.get("GITSESSION_CONVERSATIONS", "20"))
SECONDS = 120
READERS = {"pi": ["pi", "pi-0.73"], "omp": ["omp"]}
OWN = [("pi", "pi"), ("omp", "omp")]

pytestmark = pytest.mark.skipif(not DRIVERS.exists(), reason="the drivers of the real programs are not at hand")

Fields = dict[str, Any]


class Program:
    """A released program that reads session files one by one."""

    def __init__(self, running: subprocess.Popen[bytes]) -> None:
        assert running.stdin is not None and running.stdout is not None
        self.given, self.answers = running.stdin, running.stdout

    def messages(self, data: bytes) -> list[Fields]:
        """Return the messages that the program would send for a file, before their conversion for a provider."""
        self.given.write(json.dumps({"id": 1, "text": data.decode(), "raw": True}).encode() + b"\n")
        self.given.flush()
        assert select([self.answers], [], [], SECONDS)[0], "the program hangs on this file"
        answer = json.loads(self.answers.readline())
        assert isinstance(answer.get("llm"), list), answer
        return [each for each in answer["llm"] if each.get("stopReason") not in ("error", "aborted")]


@contextmanager
def running(name: str, folder: Path) -> Iterator[Program]:
    installed, words = RELEASES[name]
    if not (LAB / installed).exists() or not Path(words[0]).exists():
        pytest.skip(f"{name} is not at hand")
    env = {"LAB": str(LAB), "HOME": str(folder), "TMPDIR": str(folder), "PATH": os.environ["PATH"]}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*words, "--serve"], env=env, cwd=folder, **pipes) as program:
        yield Program(program)
        program.kill()


def sent(messages: Sequence[Fields]) -> tuple[list[Seen], list[str]]:
    """Return the marks in the messages and the violations that a provider would reject.

    The marks of a result follow those of its call.
    """
    found: list[Seen] = []
    results: dict[str, list[Seen]] = {}
    wrong: list[str] = []
    waiting: set[str] = set()
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if message["role"] == "toolResult":
            call = message["toolCallId"]
            wrong += [] if call in waiting else [f"the result of {call} does not stand behind its call"]
            waiting.discard(call)
            results.setdefault(call, []).extend(each for block in blocks for each in _of_block("others", block))
            continue
        by = "model" if message["role"] == "assistant" else "others"
        waiting = {block["id"] for block in blocks if block["type"] == "toolCall"}
        found += [each for block in blocks for each in _of_block(by, block)]
    whole: list[Seen] = []
    for each in found:
        whole.append(each._replace(call=""))
        whole += results.pop(each.call, []) if each.call else []
    return whole, wrong


def _of_block(by: str, block: Fields) -> list[Seen]:
    match block["type"]:
        case "text":
            return marks(by, block["text"])
        case "thinking":
            return marks(by, block["thinking"] or block.get("thinkingSignature") or "")
        case "redactedThinking":
            return marks(by, block["data"])
        case "toolCall":
            found = marks(by, json.dumps(block["arguments"]))
            return [*found[:-1], *(each._replace(call=block["id"]) for each in found[-1:])]
        case "image":
            return marks(by, b64decode(block["data"]).decode("utf-8", "replace"))
    raise AssertionError(f"no provider of theirs has a form for {block}")


def drawn(source: str, seed: int) -> tuple[MemoryStore, str, list[Seen], bytes]:
    """Import a random conversation of ``source``.

    Return the store, the session id, the marks in its context, and the file.
    """
    data, store = DRAWN[source](seed), MemoryStore()
    sid = bring(store, data, agent=source, name=NAMES.get(source, "s1")).session
    return store, sid, seen(*context(store, sid, source)), data


@pytest.mark.parametrize(("target", "reader"), [(agent, name) for agent, names in READERS.items() for name in names])
def test_program_sends_the_sources_context_or_a_note_names_the_difference(target, reader, tmp_path):
    shown = named = read = 0
    broken: list[tuple[str, int, list[str]]] = []
    with running(reader, tmp_path) as program:
        for source in SOURCES:
            for seed in range(COUNT) if source != target else ():
                store, sid, theirs, _ = drawn(source, seed)
                written = export(store, sid, target)
                found, wrong = sent(program.messages(written.data)) if written.data else ([], [])
                handed = compared(theirs, found, written.notes, wrong)
                broken += [(source, seed, handed.wrong)] if handed.wrong else []
                shown, named, read = shown + handed.shown, named + handed.named, read + 1
    print(f"{reader}: {read} sessions read, {shown} things in sight, {named} named in notes")
    assert not broken


@pytest.mark.parametrize(("agent", "reader"), OWN, ids=[agent for agent, _ in OWN])
def test_context_of_the_programs_session_equals_its_request(agent, reader, tmp_path):
    with running(reader, tmp_path) as program:
        for seed in range(COUNT):
            _, _, ours, data = drawn(agent, seed)
            assert sent(program.messages(data))[0] == ours, seed
