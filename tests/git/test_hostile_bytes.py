"""Tests of every decoder with any bytes: it returns a value or its documented error, within time and memory bounds.

Tests of CBOR are in tests/codec/test_cbor.py.
"""

from __future__ import annotations

import os
import random
import resource
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from figures import figure
from mutation import mutant

from gitsession.codec import cbor, holes, message, payload
from gitsession.errors import Corrupt, Malformed, NotAStore
from gitsession.git import config, objects
from gitsession.git.ref_files import RefReader
from gitsession.model.blocks import Image, Text, Thinking, ToolCall
from gitsession.model.entries import Fork, Message, SessionHeader
from gitsession.model.headline import Headline
from gitsession.sessions import node
from gitsession.store.journal import Journal, decode_record, encode_record
from gitsession.store.journal_frames import HEAD_BYTES, header

SEED = int(os.environ.get("GITSESSION_FUZZ_SEED") or 20_260_101)
"""Seed of the mutants. A run with another seed tries other mutants."""

OID, REF = "a1" * 20, "refs/heads/sessions/s1/main"
WORDS = message.render(
    Headline(kind="message", label="user", words="hi", body="hi\nthere", model="a/b"),
    bytes(32),
    message.SourceRef.of("pi", "a%20b", 7),
)
COMMIT = objects.encode_commit(
    tree=OID, parents=[OID, OID[::-1]], author_name="user", author_seconds=1, committer_seconds=2, message=WORDS
)
TREE = objects.encode_tree(
    {"entry.cbor": ("100644", OID), "blobs": ("40000", OID), "holes.cbor": ("100644", OID), "é": ("120000", OID)}
)
ENTRIES = [
    Message.assistant(
        [Thinking("hm"), Text("é"), ToolCall("1", "bash", {"a": [1.5]}), Image(b"\x89PNG", "image/png")], at_ms=1
    ),
    SessionHeader(agent="pi", title="T", cwd="/w", at_ms=2),
    Fork(session="s", agent="a", title="T", labels={"x": "y"}, at_ms=3),
]
RECORD = encode_record(
    [("blob", bytes(range(40))), ("tree", TREE), ("commit", COMMIT)],
    [(REF, None, OID), ("refs/x/y", OID, f"ref: {REF}")],
)
TABLE = cbor.encode([[0, 0, bytes(32), "raw"], [70, 0, bytes(32), "base64"], [71, 0, bytes(32), "summary"]])


def filled(table: bytes) -> None:
    holes.fill(b"payload" * 20, table, lambda digest, encoding: b"content")


DECODERS: dict[str, tuple[Callable[[bytes], object], list[bytes], tuple[type[Exception], ...]]] = {
    "CBOR": (cbor.decode, [RECORD, TABLE, payload.encode(ENTRIES[0], bytes(16))], (Malformed,)),
    "an entry": (payload.decode, [payload.encode(entry, bytes(16)) for entry in ENTRIES], (Malformed,)),
    "a table of holes": (holes.parse, [TABLE], (Malformed,)),
    "holes to be filled": (filled, [TABLE], (Malformed,)),
    "a journal record": (decode_record, [RECORD], (Corrupt, NotAStore)),
    "a tree": (objects.parse_tree, [TREE], (Malformed,)),
    "a commit": (objects.parse_commit, [COMMIT], (Malformed,)),
    "an entry's commit": (lambda data: node.parse(OID, data), [COMMIT], (Malformed,)),
    "trailers": (message.trailers_of, [WORDS], (Malformed,)),
    "a subject": (message.subject_of, [WORDS], ()),
    "git's configuration": (lambda data: config.settings(data.decode("utf-8", "replace")), [config.TEXT.encode()], ()),
}


@pytest.mark.promise("P30")
@pytest.mark.parametrize("what", DECODERS)
def test_mutants_are_values_or_documented_errors(what, faults, record_property):
    decode, seeds, documented = DECODERS[what]
    draw = random.Random(SEED)
    inputs = figure(10_000, 1_000_000)
    longest, memory = 0.0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused = 0
    for number in range(inputs):
        data = mutant(draw, seeds[number % len(seeds)])
        began = time.perf_counter()
        try:
            decode(data)
        except documented:
            refused += 1
        except Exception as error:
            raise AssertionError(f"seed {SEED}, input {number}, {data!r}: {type(error).__name__}: {error}") from error
        longest = max(longest, time.perf_counter() - began)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
    record_property("longest in ms, memory in KiB", (round(1000 * longest, 1), grown))
    print(f"{what}: {refused:,} of {inputs:,} refused, the longest took {1000 * longest:.1f} ms, {grown:,} KiB more")
    assert refused or not documented
    assert grown < 64 << 10
    faults.many(inputs)


@pytest.mark.promise("P30")
def test_mutants_of_packed_refs_are_refs_or_corrupt(tmp_path, faults):
    draw = random.Random(SEED)
    names = [f"refs/heads/sessions/s{number}/main" for number in range(8)]
    lines = [f"{number:040x} {name}\n^{OID}\n" for number, name in enumerate(names, 1)]
    seed = ("# pack-refs with: peeled fully-peeled sorted \n" + "".join(lines)).encode()
    path, inputs = tmp_path / "packed-refs", figure(3000, 100_000)
    for number in range(inputs):
        data = mutant(draw, seed)
        path.write_bytes(data)
        reader = RefReader(tmp_path)
        for look, name in ((reader.read, names[3]), (reader.list, "refs/heads/")):
            try:
                look(name)
            except Corrupt:
                continue
            except Exception as error:
                raise AssertionError(f"seed {SEED}, input {number}, {data!r}: {error!r}") from error
    faults.many(inputs)


@pytest.mark.promise("P30")
def test_mutants_of_a_journal_are_its_beginning_or_a_documented_error(tmp_path, faults):
    """After any damage, the records that are read are the written ones in order, and the journal can be written."""
    (tmp_path / "journal").mkdir()
    written = Journal(tmp_path / "journal")
    written.tail(locked=True)
    texts = [f"entry {number}".encode() for number in range(4)]
    for text in texts:
        written.append(encode_record([("blob", text)], [(REF, None, OID)]), sync=False)
    path = tmp_path / "journal" / "00000001"
    end = written._files[1].end
    written.close()
    seed = path.read_bytes()[:end]
    assert seed.startswith(header(seed[8:HEAD_BYTES]))
    draw, inputs = random.Random(SEED), figure(2000, 100_000)
    for number in range(inputs):
        path.write_bytes(mutant(draw, seed))
        journal = Journal(tmp_path / "journal")
        for locked in (False, True):
            try:
                found = [data for _, record in journal.tail(locked=locked).records for _, data in record.objects]
            except Exception as error:
                raise AssertionError(f"seed {SEED}, input {number}: {error!r}") from error
            assert found == texts[: len(found)]
        journal.close()
    assert sorted(each.name for each in Path(tmp_path / "journal").iterdir()) == ["00000001"]
    faults.many(inputs)
