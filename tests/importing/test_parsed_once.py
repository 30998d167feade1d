"""Tests that an import does the same work only once.

The first lines of a file are parsed a second time to detect the agent.
"""

from __future__ import annotations

from collections import Counter

import claude_code
import pytest
from builders import bring, in_memory, joined, pi_file, slot, talk
from codex_files import rollout, said

from gitsession.exporting.gather import gather
from gitsession.formats.base import jsonl
from gitsession.formats.claude.split_file import HEAD_LINES
from gitsession.importing import known_entries

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


@pytest.mark.parametrize("agent", FILES)
def test_file_that_grows_is_not_exported_for_a_comparison(tmp_path, monkeypatch, agent):
    calls = []
    monkeypatch.setattr(known_entries, "gather", lambda *arguments: (calls.append(agent), gather(*arguments))[1])
    store = in_memory(tmp_path)
    shorter = FILES[agent][: FILES[agent].rstrip(b"\n").rindex(b"\n") + 1]
    bring(store, shorter, agent=agent, name="/w/session")
    assert bring(store, FILES[agent], agent=agent, name="/w/session").new == 1
    assert calls == []
