"""Comparisons with real programs: the output of pi 1.5 for 150 sessions, and real session files.

Both are outside of the repository, in the folder GITSESSION_SHARED. The tests are skipped if it is missing.
"""

import json

import pytest
from builders import SHARED
from goldens import given_back

from gitsession.formats import FORMATS, claimed
from gitsession.formats.pi.agent import pi
from gitsession.model.entries import Label, Opaque, Title, UnknownEntry

FILES = sorted((SHARED / "sessions" / "pi").glob("*.jsonl")) + sorted((SHARED / "sessions" / "omp").glob("*.jsonl"))


class Reading:
    """A session as pi reads it: entries with an id; entries without one are skipped."""

    def __init__(self, text):
        self.source = pi.split(text.encode())
        self.by_line = {record.line: record for record in self.source.records}
        self.records = sorted((r for r in self.source.records if r.source_id), key=lambda record: record.line)
        self.views = [(record, pi.read(record.payload)) for record in self.records]

    def parent(self, record):
        """Return the nearest ancestor that has an id."""
        above = self.by_line.get(record.parent)
        while above is not None and above.source_id is None:
            above = self.by_line.get(above.parent)
        return above

    def leaf(self):
        return self.records[-1].source_id if self.records else None

    def branch(self, leaf):
        at = next((record for record in reversed(self.records) if record.source_id == leaf), None)
        line = []
        while at is not None:
            line.append(at.source_id)
            at = self.parent(at)
        return line[::-1]

    def tree(self):
        children = {}
        for record, view in self.views:
            above = self.parent(record)
            children.setdefault(above and above.line, []).append((record, view))
        for group in children.values():
            group.sort(key=lambda pair: pair[1].at_ms)
        rows = []
        todo = [(pair, 0) for pair in reversed([(r, v) for r, v in self.views if self.parent(r) is None])]
        while todo:
            (record, _), depth = todo.pop()
            above = self.parent(record)
            stated = record.claimed_parent if above is None else above.source_id
            rows.append([record.source_id, stated, json.loads(record.payload)["type"], depth])
            todo += [(pair, depth + 1) for pair in reversed(children.get(record.line, []))]
        return rows

    def labels(self):
        labels = {}
        for _, view in self.views:
            if isinstance(view, Label):
                labels.pop(view.target, None)
                if view.label:
                    labels[view.target] = view.label
        return labels

    def name(self):
        titles = [view.title for _, view in self.views if isinstance(view, Title)]
        return (titles[-1] or "").strip() or None if titles else None


@pytest.mark.parametrize("number", range(150))
def test_a_session_is_the_one_that_pi_sees(golden, number):
    case = golden[number]
    theirs = case["1.5"]
    ours = Reading(case["text"])
    assert ours.leaf() == theirs["leaf"]
    assert ours.tree() == theirs["tree"]
    assert ours.labels() == theirs["labels"]
    assert ours.name() == theirs["name"]
    assert ours.branch(case.get("leaf") or ours.leaf()) == theirs["branch"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_file_is_exported_byte_identical(path):
    data = path.read_bytes()
    for format_ in (FORMATS["omp"], FORMATS["pi"]):
        for final in (False, True):
            assert given_back(format_.split(data, name=path.stem, final=final)) == data


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_line_is_read_or_reported(path):
    data = path.read_bytes()
    format_ = claimed(data[:65536])
    assert format_ is not None
    source = format_.split(data)
    for record in source.records:
        view, headline = format_.read(record.payload), format_.headline(record.payload)
        assert headline.kind
        if isinstance(view, UnknownEntry):
            assert view.name in ("compact", "branchSummary", "compactionSummary")
        assert not isinstance(view, Opaque) or record.problem or not record.payload.strip()


@pytest.mark.parametrize("number", range(0, 150, 10))
def test_a_file_that_grows_keeps_every_record(golden, number):
    data = golden[number]["text"].encode()
    whole = {record.line: record for record in pi.split(data).records}
    known = set()
    for end in [at + 1 for at, byte in enumerate(data) if byte == 10]:
        for record in pi.split(data[:end]).records:
            if record.claimed_parent is None:
                assert whole[record.line] == record
                known.add(record.line)
    assert known


@pytest.mark.skipif(not FILES, reason="no session files here")
def test_every_prefix_of_a_file_joins_to_itself():
    data = (SHARED / "sessions" / "pi" / "small.v3.jsonl").read_bytes()
    for end in range(data.index(b"\n") + 1, len(data) + 1):
        source = pi.split(data[:end])
        assert given_back(source) == data[:end]
        assert given_back(pi.split(data[:end], final=True)) == data[:end]
