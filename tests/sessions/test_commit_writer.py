"""Tests of commits of entries: an append returns the same node as a reader, and git accepts the bytes."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import ENTRIES, NONCES, TEXT, WILD_TEXT

from gitsession.codec import holes
from gitsession.codec.holes import StoredPayload
from gitsession.codec.message import SourceRef
from gitsession.codec.payload import decode
from gitsession.git.objects import SECONDS_MAX, parse_tree
from gitsession.model.blocks import Image, Text
from gitsession.model.entries import KINDS, Compaction, Message, Reset, UnknownEntry
from gitsession.model.headline import Headline
from gitsession.sessions import commit_writer, layout
from gitsession.sessions.node import parse

NONCE = bytes(16)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(2_000)


class Put:
    """A transaction that records the objects that were put, in order."""

    def __init__(self):
        self.parts = []

    def put(self, kind, data):
        self.parts.append((kind, data))
        return commit_writer.oid_of(kind, data)


def commit(entry, parent=None):
    draft = commit_writer.draft_own(entry, NONCE, None)
    return commit_writer.commit_of(draft, commit_writer.tree_of(draft.form, draft.stored), parent)


@given(ENTRIES | st.builds(UnknownEntry, name=TEXT.filter(lambda name: name not in KINDS)), NONCES)
def test_append_returns_the_node_of_a_reader(entry, nonce):
    draft = commit_writer.draft_own(entry, nonce, None)
    data, node = commit_writer.commit_of(draft, commit_writer.tree_of(draft.form, draft.stored), None)
    assert parse(node.oid, data) == node


@given(WILD_TEXT, st.none() | st.text(st.characters(), max_size=300), WILD_TEXT)
def test_node_of_an_import_equals_its_commit_for_any_kind_and_id(kind, source_id, words):
    said = Headline(kind=kind, label=kind, words=words, body=words, model=words)
    draft = commit_writer.Draft("jsonl", StoredPayload(b"{}", b"", ()), said, SourceRef.of("pi", source_id, 3))
    data, node = commit_writer.commit_of(draft, "1" * 40, None)
    assert parse(node.oid, data) == node


TIMES = {
    "before 1970": (-5, 0),
    "the first second": (999, 0),
    "one second": (1_000, 1),
    "the last second that git keeps": (SECONDS_MAX * 1_000, SECONDS_MAX),
    "after the last second": (SECONDS_MAX * 1_000 + 1_000, SECONDS_MAX),
    "past all bounds": (2**64 - 1, SECONDS_MAX),
}


@pytest.mark.parametrize(("at_ms", "seconds"), TIMES.values(), ids=TIMES)
def test_the_authors_time_is_the_entrys_own_as_far_as_git_keeps_it(at_ms, seconds):
    assert commit(Reset(at_ms=at_ms))[1].author_seconds == seconds


def test_the_committers_time_never_runs_backwards():
    first = commit(Reset(at_ms=50_000))[1]
    second = commit(Reset(at_ms=20_000), first)[1]
    third = commit(Reset(at_ms=60_000), second)[1]
    assert [node.author_seconds for node in (first, second, third)] == [50, 20, 60]
    assert [node.committer_seconds for node in (first, second, third)] == [50, 50, 60]


def test_entry_without_a_time_has_that_of_its_parent():
    draft = commit_writer.Draft("jsonl", StoredPayload(b"{}", b"", ()), Headline(kind="opaque", label="opaque"))
    parent = commit(Reset(at_ms=20_000), commit(Reset(at_ms=50_000))[1])[1]
    assert commit_writer.commit_of(draft, "1" * 40, parent)[1].author_seconds == 20
    assert commit_writer.commit_of(draft, "1" * 40, None)[1].author_seconds == 0


def test_tree_has_the_payload_and_its_holes():
    entry = Compaction(summary="We did it.", preserve={"shot": PNG, "again": PNG})
    draft = commit_writer.draft_own(entry, NONCE, None)
    put = Put()
    tree = commit_writer.put_tree(put, draft.form, draft.stored)
    objects = {commit_writer.oid_of(kind, data): data for kind, data in put.parts}
    assert tree == commit_writer.tree_of(draft.form, draft.stored)
    top = {name: (mode, oid) for mode, name, oid in parse_tree(objects[tree])}
    assert set(top) == {"entry.cbor", layout.HOLES, layout.BLOBS, layout.SUMMARY}
    assert objects[top[layout.SUMMARY][1]] == b"We did it."
    ((mode, name, oid),) = parse_tree(objects[top[layout.BLOBS][1]])
    assert (mode, objects[oid]) == (layout.FILE_MODE, PNG)

    def fetch(digest, encoding):
        return b"We did it." if encoding == "summary" else objects[oid] if digest.hex() == name else b""

    stored, table = objects[top["entry.cbor"][1]], objects[top[layout.HOLES][1]]
    assert decode(holes.fill(stored, table, fetch)) == (entry, NONCE)


def test_git_accepts_a_history_of_entries(tmp_path):
    def git(*arguments, stdin=b""):
        command = ["git", "-C", str(tmp_path), *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, check=True).stdout.decode().strip()

    git("init", "-q", "--bare", ".")
    node = None
    for entry in (Message.user("hi"), Message.user([Text("see"), Image(PNG, "image/png")]), Compaction(summary="ok")):
        draft = commit_writer.draft_own(entry, NONCE, None)
        put = Put()
        data, node = commit_writer.commit_of(draft, commit_writer.put_tree(put, draft.form, draft.stored), node)
        for kind, part in [*put.parts, ("commit", data)]:
            assert git("hash-object", "-t", kind, "-w", "--stdin", stdin=part) == commit_writer.oid_of(kind, part)
    git("update-ref", "refs/heads/line", node.oid)
    assert git("fsck", "--strict", "--no-dangling") == ""
    said = git("log", "--format=%an: %s", "line").splitlines()
    assert said == ["session: compaction", "user: user: see", "user: user: hi"]
    assert git("show", "line:summary.md") == "ok"
