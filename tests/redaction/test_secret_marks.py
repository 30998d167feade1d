"""Tests of secrets in the output of programs: colors, line numbers, diff signs, quote marks, ``%3D``, UTF-16."""

import json
import time
import urllib.parse

import pytest
import secret_matrix
from hypothesis import given, settings
from hypothesis import strategies as st
from secret_shapes import Shape
from unhinted_scan import check as check_first_look

from gitsession import Message, Store
from gitsession.redaction.guard import Guard
from gitsession.redaction.scan import Scanner, _hits, undecorated

SCANNER = Scanner()
GUARD = Guard(SCANNER)
UNWRAPPED = [name for name in secret_matrix.CONTEXTS if not name.startswith("wrapped")]


def test_matrix_has_86_shapes_and_26_contexts():
    assert (len(secret_matrix.shapes()), len(secret_matrix.CONTEXTS)) == (86, 26)


def test_table_in_the_docs_is_up_to_date():
    table = secret_matrix.table(secret_matrix.missed(SCANNER))
    assert secret_matrix.BEGIN + table + secret_matrix.END in secret_matrix.PAGE.read_text()


@pytest.mark.parametrize("context", UNWRAPPED)
def test_every_shape_is_found_in_context(context):
    shapes = secret_matrix.shapes().items()
    assert [name for name, template in shapes if not secret_matrix.is_hidden(template, context, SCANNER)] == []


@pytest.mark.parametrize("context", UNWRAPPED)
def test_first_look_misses_nothing_that_a_full_scan_finds(context):
    for template in secret_matrix.shapes().values():
        text = secret_matrix.CONTEXTS[context](Shape(template).text)
        check_first_look("md", text.encode())
        check_first_look("jsonl", json.dumps({"output": text}).encode())


COLOUR, PLAIN = "\x1b[33m", "\x1b[0m"


def test_span_ends_before_the_marks_that_follow_and_covers_those_within():
    shape = Shape("ghp_{an:36}")
    half = len(shape.text) // 2
    text = f"see {COLOUR}{shape.text[:half]}{PLAIN}{COLOUR}{shape.text[half:]}{PLAIN} there"
    expected = f"see {COLOUR}[redacted:github-token]{PLAIN} there"
    assert GUARD.redact("md", text.encode()).payload == expected.encode()
    line = json.dumps({"output": text}).encode()
    assert json.loads(GUARD.redact("jsonl", line).payload) == {"output": expected}


def test_span_ends_after_a_percent_encoded_byte():
    text = "x=a&password%3DaB3dE5gH7jK9mN1p%21 and on"
    assert GUARD.redact("md", text.encode()).payload == b"x=a&password%3D[redacted:assigned-password] and on"


def test_sign_of_a_diff_is_kept():
    shape = Shape("AKIA{b32:16}")
    assert GUARD.redact("md", f"@@\n+{shape.text}\n".encode()).payload == b"@@\n+[redacted:aws-access-key]\n"


PARTS = ["\x1b[1m", "\x1b[K", "12:", "+", "> ", "%3D", "%C3%A9", "\0", "\n", '"', "ab", "\u00e9"]


@given(st.lists(st.sampled_from(PARTS)).map("".join))
@settings(max_examples=200)
def test_views_lead_back_to_the_bytes_they_are_made_of(text):
    data = text.encode()
    for view, offsets in undecorated(data):
        at = 0
        for place in range(len(view)):
            start, end = offsets.start(place), offsets.end(place + 1)
            assert at <= start < end <= len(data)
            assert data[start:end] in (view[place : place + 1], b"%%%02X" % view[place])
            at = end
        data = view


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_file_in_utf_16_is_withheld(encoding):
    text = f"# settings\n{Shape('API_KEY={an:32}').text}\n"
    assert GUARD.in_file(text.encode(encoding)) is not None
    assert GUARD.in_file("nothing to hide\n".encode(encoding)) is None


def test_binary_file_is_no_text():
    assert GUARD.in_file(bytes(range(256)) * 20) is None


def test_coloured_secret_is_exact_from_the_vault(tmp_path):
    shape = Shape("DB_PASSWORD={an:18}")
    name, _, value = shape.text.partition("=")
    text = f"{COLOUR}{name}{PLAIN}={COLOUR}{value}{PLAIN}\n"
    with Store.create(tmp_path / "s.git") as store:
        session = store.new_session(agent="a", cwd=".")
        session.append(Message.user(text))
        assert not shape.is_in("".join(node.subject for node in session.history()))
        assert session.context().request("anthropic")["messages"][0]["content"][0]["text"] == text


def test_key_names_in_camel_case_are_names_of_keys():
    for name in ("signing", "encryption", "master", "private", "auth", "account", "service"):
        assert GUARD.redact("md", Shape(f'{name}Key: "{{an:40}}"').text.encode()).rows, name


@pytest.mark.parametrize("start", ["\\x1b[", "\\x1B[", "\\033[", "\\e[", "\\u001B[", "^[[", "ESC[", "["])
@pytest.mark.parametrize("template", ["ghp_{an:36}", "API_KEY={an:32}", "DB_PASSWORD={an:14}"])
def test_secret_is_found_after_a_written_color_sequence(template, start):
    shape = Shape(template)
    name, sign, secret = shape.text.rpartition("=")
    text = f"{start}34m{name}{start}0m{sign}{start}38;2;1;20;255m{secret}{start}0m"
    for form, data in (("md", text.encode()), ("jsonl", json.dumps({"output": text}).encode())):
        assert secret.encode() not in GUARD.redact(form, data).payload
        check_first_look(form, data)


def test_secret_is_found_behind_a_name_in_quotes_and_brackets():
    shape = Shape("os.environ['API_TOKEN'] = '{hex:40}'")
    assert GUARD.redact("md", shape.text.encode()).payload == b"os.environ['API_TOKEN'] = '[redacted:assigned-token]'"


@pytest.mark.parametrize("unit", ["\\", "password=", "authorization:", "_auth=", "?sig="])
def test_cost_of_a_run_without_a_space_is_linear(unit):
    text = (unit * 300_000)[:300_000].encode()
    before = time.process_time()
    list(undecorated(text + b"u00"))
    for rule in SCANNER.rules:
        for word in rule.words:
            if rule.folds and word in text:
                list(_hits(rule, word, text, text))
    assert time.process_time() - before < 10


def _around_sign(text):
    return lambda secret: secret.replace("=", text)


NOT_FOUND = {
    "percent-encoding of percent-encoding": lambda secret: urllib.parse.quote(secret.replace("=", "%3D")),
    "8-bit terminal sequences": _around_sign("\u009b0m=\u009b32m"),
    "HTML entities": _around_sign("&#61;"),
    "no-break": _around_sign("\u00a0=\u00a0"),
    "zero-width spaces": _around_sign("\u200b=\u200b"),
    "`+` for a space": _around_sign("+=+"),
    "quoted-printable": lambda secret: f"{secret[:18]}=\n{secret[18:]}",
    "a hexdump": lambda secret: secret.encode().hex(" "),
}


@pytest.mark.parametrize("name", NOT_FOUND)
@pytest.mark.parametrize("template", ["API_KEY={an:32}", "DB_PASSWORD={an:14}"])
def test_writing_that_the_page_lists_as_not_found_is_not_found(template, name):
    assert not GUARD.redact("md", NOT_FOUND[name](Shape(template).text).encode()).rows
    listed = secret_matrix.PAGE.read_text().partition("The scan does not find:")[2].partition("\n## ")[0]
    assert name in " ".join(listed.split())
