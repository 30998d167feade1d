"""Tests that an import parses each record of a file only once.

The first lines are also parsed to detect the agent.
"""

from __future__ import annotations

from collections import Counter

import claude_code
import pytest
from builders import bring, in_memory, joined, pi_file, slot, talk
from codex_files import rollout, said

from gitsession.formats.base import jsonl
from gitsession.formats.claude.split_file import HEAD_LINES

IDS = [f"a{number}" for number in range(HEAD_LINES + 3)]
FILES = {
    "pi": pi_file(*talk(*IDS)),
    "omp": slot("Title") + b"\n" + pi_file(*talk(*IDS)),
    "claude": joined(*(claude_code.user(id, above) for id, above in zip(IDS, [None, *IDS], strict=False))),
    "codex": rollout(*(said("user", id) for id in IDS)),
}


@pytest.mark.parametrize("agent", FILES)
def test_each_record_is_parsed_once(tmp_path, monkeypatch, agent):
    parsed = Counter()
    decode = jsonl._decode
    monkeypatch.setattr(jsonl, "_decode", lambda text: (parsed.update([text]), decode(text))[1])
    store = in_memory(tmp_path)
    done = bring(store, FILES[agent], agent=agent, name="/w/session")
    assert done.entries == done.new == len(IDS)
    last_three = FILES[agent].decode().split("\n")[-4:-1]
    assert [parsed[line] for line in last_three] == [1, 1, 1]
