"""Tests of docs/reference/format.md: its example, kinds and limits match the code and git."""

import ast
import re
import subprocess

import pytest
from places import ROOT
from strategies import fields_of

from gitsession.codec import cbor, digest, holes, message, payload
from gitsession.formats import FORMATS
from gitsession.formats.base import jsonl
from gitsession.git import objects, ref_files
from gitsession.model import blocks, entries
from gitsession.model.blocks import Text
from gitsession.model.entries import KINDS, ROLES, Message
from gitsession.sessions import commit_writer, graph, layout, node
from gitsession.store import refs
from gitsession.workspace import names as file_names

PAGE = (ROOT / "docs" / "reference" / "format.md").read_text("utf-8")
ENTRY = Message(at_ms=1_000, role="user", content=(Text("hi"),))
NONCE = bytes(16)


def section(title):
    found = re.search(rf"^(#+) {re.escape(title)}\n(.*?)(?=^#{{1,2}} |^### |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    assert found, title
    return found[2]


def blocks_of(title):
    """Return the literal blocks of a section."""
    return re.findall(r"^```\n(.*?)^```$", section(title), re.DOTALL | re.MULTILINE)


def worked_example(name):
    values = blocks_of("Worked example")[0]
    found = re.search(rf"^{name}((?:\s+[0-9A-Za-z_-]+$)+?)(?=\n[a-z]|\n\Z)", values, re.MULTILINE)
    assert found, name
    return "".join(found[1].split())


def rows_of(title):
    """Return the rows of the first table of a section, without the header."""
    rows = [line for line in section(title).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


@pytest.fixture(scope="module")
def kept():
    draft = commit_writer.draft_own(ENTRY, NONCE, None)
    parts = {}

    class Put:
        def put(self, kind, data):
            parts[kind] = data
            return commit_writer.oid_of(kind, data)

    commit, entry = commit_writer.commit_of(draft, commit_writer.put_tree(Put(), draft.form, draft.stored), None)
    return draft, parts, commit, entry


@pytest.fixture
def git(tmp_path):
    def run(*arguments, stdin=b""):
        command = ["git", "-C", str(tmp_path), *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, check=True).stdout

    run("init", "-q", "--bare", "--object-format=sha1", ".")
    return run


# The worked example


def test_bytes_of_the_worked_example_match_the_code():
    assert payload.encode(ENTRY, NONCE).hex() == worked_example("bytes")
    assert payload.decode(bytes.fromhex(worked_example("bytes"))) == (ENTRY, NONCE)


def test_notation_of_the_worked_example_matches_its_bytes():
    _, notation, _ = blocks_of("Worked example")
    value = ast.literal_eval(re.sub(r"h'([0-9a-f]*)'", lambda found: repr(bytes.fromhex(found[1])), notation.strip()))
    assert cbor.encode(value).hex() == worked_example("bytes")


def test_digest_and_chain_digest_of_the_worked_example_match_the_code(kept):
    draft, _, _, entry = kept
    assert digest.digest(draft.stored.payload).hex() == worked_example("digest")
    assert digest.to_base64url(entry.chain) == worked_example("chain")
    assert digest.chain(None, bytes.fromhex(worked_example("digest"))) == entry.chain


def test_commit_of_the_worked_example_matches_the_code(kept):
    _, parts, commit, entry = kept
    assert commit.decode() == blocks_of("Worked example")[2]
    assert objects.oid_of("blob", parts["blob"]) == worked_example("blob")
    assert (entry.tree, entry.oid) == (worked_example("tree"), worked_example("commit"))


def test_git_has_the_same_object_ids_for_the_worked_example(git):
    data = bytes.fromhex(worked_example("bytes"))
    blob = git("hash-object", "-t", "blob", "-w", "--stdin", stdin=data).decode().strip()
    assert blob == worked_example("blob")
    row = f"{layout.FILE_MODE} blob {blob}\t{layout.PAYLOAD}{layout.OWN}\n"
    assert git("mktree", stdin=row.encode()).decode().strip() == worked_example("tree")
    commit = blocks_of("Worked example")[2].encode()
    oid = git("hash-object", "-t", "commit", "-w", "--stdin", stdin=commit).decode().strip()
    assert oid == worked_example("commit")
    git("update-ref", "refs/heads/example", oid)
    git("fsck", "--strict", "--no-dangling")
    assert git("log", "-1", "--format=%an|%at|%s|%(trailers:key=Chain,valueonly)", "example").decode().strip() == (
        f"user|1|user: hi|{worked_example('chain')}"
    )


def test_commit_of_the_worked_example_is_read_as_its_entry(kept):
    assert node.parse(worked_example("commit"), blocks_of("Worked example")[2].encode()) == kept[3]


# File names


def test_examples_of_file_names_match_the_code():
    rows = [[cell.strip("`") for cell in row] for row in rows_of("Names under `files/`")]
    made = {escaped: ast.literal_eval(text.removesuffix(".encode()")) for text, escaped in rows}
    raw = {escaped: name if isinstance(name, bytes) else name.encode() for escaped, name in made.items()}
    assert len(raw) == 9
    assert {escaped: file_names.escape(name) for escaped, name in raw.items()} == {escaped: escaped for escaped in raw}
    assert {escaped: file_names.unescape(escaped) for escaped in raw} == raw


def test_characters_are_escaped_as_documented():
    told = re.search(r"- has an unsafe character: (.*?);", section("Names under `files/`"), re.DOTALL)[1]
    spans = [(int(first, 16), int(last or first, 16)) for first, last in
             re.findall(r"U\+([0-9A-F]+)(?: to U\+([0-9A-F]+))?", told)]  # fmt: skip
    listed = re.search(r"`(.+?)`", told)[1]
    told_unsafe = {ord(one) for one in listed} | {code for first, last in spans for code in range(first, last + 1)}
    every = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    assert {code for code in every if file_names.escape(f"a{chr(code)}b".encode())[0] == "%"} == told_unsafe


# The kinds


def test_table_of_kinds_has_every_kind_with_its_fields_in_order():
    table = {}
    for kind, fields in rows_of("Kinds"):
        fields = fields.split(". ")[0]  # the rest is described in prose
        names = re.sub(r"\([^)]*\)|: [^,]*", "", fields)
        table[kind.strip("`")] = [name.strip() for name in names.split(",") if name.strip()]
    assert table == {name: fields_of(kind) for name, kind in KINDS.items()}


def test_page_has_every_block_with_its_fields_in_order():
    said = re.search(r"maps with a `type`: (.*?); any other type", section("Kinds"), re.DOTALL)[1]
    found = {}
    for name, fields in re.findall(r"`(\w+)`\s+\{(.*?)\}", said, re.DOTALL):
        found[name] = [field.partition(":")[0].strip() for field in fields.split(",")]
    known = (blocks.Text, blocks.Thinking, blocks.ToolCall, blocks.Image, blocks.File)
    assert found == {block.type: list(block.__match_args__) for block in known}


def test_the_roles_are_those_of_the_page():
    said = re.search(r"Roles of a message: `([a-z ]+)`", PAGE)[1]
    assert tuple(said.split()) == ROLES
    authors = re.search(r"Roles: `([a-z ]+)`, and `session`", PAGE)[1]
    assert tuple(authors.split()) == (*ROLES, "other")


def test_field_with_null_on_the_page_is_optional():
    for kind, fields in rows_of("Kinds"):
        for name in re.findall(r"(\w+) \(null\)", fields):  # the last of the names that share a mark
            assert entries.KINDS[kind.strip("`")].__dataclass_fields__[name].default is None, f"{kind}.{name}"


# The limits


def limit(what):
    return next(said for name, said in rows_of("Limits") if name.startswith(what))


def test_the_limits_of_the_page_are_those_of_the_code():
    assert limit("payload of our own") == f"{payload.PAYLOAD_BYTES_MAX >> 20} MiB, {cbor.DEPTH_MAX} levels"
    assert limit("payload with its holes filled") == f"{holes.WHOLE_BYTES_MAX >> 30} GiB"
    assert limit("JSON line").startswith(f"{jsonl.DEPTH_MAX} levels")
    assert limit("ref name").startswith(f"{ref_files.NAME_BYTES_MAX} bytes; 64 characters; ")
    sizes = (message.SUBJECT_MAX, message.BODY_BYTES_MAX, message.TRAILER_MAX)
    assert limit("commit message") == "subject {}, body {:,} bytes, trailer {} characters".format(*sizes)


NUMBERS = {
    "a label": (f"*Label*: spaces folded, at most {message.LABEL_MAX} characters"),
    "a subject": f"so that the whole subject has at most {message.SUBJECT_MAX} characters",
    "a body": f"At most {message.BODY_BYTES_MAX:,} bytes of UTF-8",
    "a trailer": f"one line each, spaces folded, at most {message.TRAILER_MAX} characters with the key",
    "the id in Source": f"at most {message.SOURCE_ID_MAX} characters, cut between two of its own characters",
    "what is read of a text": f"of the first {message.CHARACTERS_MAX:,} characters",
    "an image": f"a run of at least {holes.IMAGE_BYTES_MIN:,} bytes that is base64",
    "a long string": f"literal of at least {holes.STRING_BYTES_MIN:,} bytes is lifted whole",
    "a nonce": f"nonce: {payload.NONCE_BYTES} bytes",
    "the version of payloads": f"{{ v: {payload.VERSION}, kind: text",
    "a session's name": f"first {refs.SID_LENGTHS[0]} of base32",
    "a session's name that is taken": f"{refs.SID_LENGTHS[1]} characters are taken",
    "a branch's name": "first {} characters of base32(its chain) ({}, {} or {} where".format(*graph.GENERATED_LENGTHS),
    "times": "clamped to [0, 2^32-1]",
}


@pytest.mark.parametrize("said", NUMBERS.values(), ids=NUMBERS)
def test_the_numbers_of_the_page_are_those_of_the_code(said):
    assert said in PAGE


def test_the_encodings_of_holes_are_those_of_the_page():
    assert [row[0].strip("`") for row in rows_of("Holes")] == [*holes.ENCODINGS, holes.PURGED]


def test_the_forms_of_the_page_are_forms_of_the_code():
    forms = [row[0].strip("`") for row in rows_of("Forms")]
    assert set(forms) == {layout.OWN, *(format.FORM for format in FORMATS.values())}


def test_the_page_names_every_place_in_the_tree_and_every_ref():
    tree = blocks_of("An entry is a commit")[0]
    blob, files = f"{layout.BLOBS}/<digest>", f"{layout.FILES}/"
    for name in (layout.PAYLOAD + "<form>", layout.HOLES, blob, layout.SUMMARY, files):
        assert name in tree
    for ref in (refs.leaf("<sid>", "<branch>"), refs.meta("<sid>"), refs.active("<sid>"), refs.OPLOG):
        assert f"`{ref}`" in section("The repository")
    assert f"`{refs._BRANCH.pattern}`" in section("The repository")


def test_limit_of_seconds_matches_the_page():
    assert objects.SECONDS_MAX == 2**32 - 1
