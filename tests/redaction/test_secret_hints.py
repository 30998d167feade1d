"""Tests of the pre-check of the scanner: it never changes the result, whatever escapes the text has."""

import json
import re
import sysconfig
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from places import SHARED
from secret_shapes import CONTEXTS, SHAPES, Shape, nested
from unhinted_scan import GUARD, NONCE, PLAIN, PLAIN_GUARD, SCANNER, check

from gitsession.codec import payload
from gitsession.model.entries import Custom
from gitsession.redaction import guard, scan
from gitsession.redaction.guard import Guard
from gitsession.redaction.rule import HINTS, CharacterTurns, Rule
from gitsession.redaction.scan import RULES, Scanner


def escaped(text, *, less=()):
    """Return a JSON string in which each character not in ``less`` is an escape."""
    return '"' + "".join(each if each in less else f"\\u{ord(each):04x}" for each in text) + '"'


WRITERS = {
    "plain": json.dumps,
    "as it is": lambda text: json.dumps(text, ensure_ascii=False),
    "slashes": lambda text: json.dumps(text).replace("/", "\\/"),
    "for web pages": lambda text: (
        json.dumps(text)
        .replace("<", "\\u003c")
        .replace(">", "\\u003E")
        .replace("&", "\\u0026")
        .replace("'", "\\u0027")
        .replace("=", "\\u003d")
    ),
    "short escapes as long ones": lambda text: (
        json.dumps(text).replace("\\n", "\\u000a").replace("\\t", "\\u0009").replace('\\"', "\\u0022")
    ),
    "all": lambda text: "".join(escaped(text)) if text.isascii() else json.dumps(text),
}


def written(text, writers):
    """Return ``text`` in nested JSON, with one level for each writer."""
    for writer in writers:
        text = '{"command": "cat", "output": ' + WRITERS[writer](text) + "}"
    return text.encode("utf-8", "surrogatepass")


STANDS = {
    **CONTEXTS,
    "behind a curly quotation mark": "\u2019{}\u2019",
    "behind a letter that is no ASCII": "se\u00f1al\u00e9{}",
    "CRLF and tabs": "a\r\n\t{}\t\r\nb",
    "a path": "C:\\new\\table\\{}",
}


@pytest.mark.parametrize("sample", SHAPES.values(), ids=SHAPES)
def test_secret_is_found_behind_any_escapes(sample):
    for number, context in enumerate(STANDS.values()):
        text = context.replace("{}", Shape(sample, number).text)
        check("md", text.encode())
        check("jsonl", written(text, ["plain"] * 3))
        for place, writer in enumerate(WRITERS):
            if (number + place + len(sample)) % 3 == 0:  # for each pair of context and writer, a third of the shapes
                check("jsonl", written(text, [writer]))
                check("jsonl", written(text, ["plain", writer]))
    check("cbor", payload.encode(Custom(at_ms=1, custom_type="x", data={"a": text, text: [text]}), NONCE))


@pytest.mark.parametrize("sample", SHAPES.values(), ids=SHAPES)
def test_white_space_of_all_kinds_between_a_name_and_its_value_changes_nothing(sample):
    text = Shape(sample).text
    for blank in ("\t", "  \t ", "\u00a0", "\u2003", "\n", "\r\n", "\\t", "\\\t"):
        each = re.sub(r"(?<=[:= ])|(?=[:=])", lambda _, blank=blank: blank, text)
        check("md", each.encode())
        check("jsonl", written(each, ["plain"]))
        check("jsonl", written(each, ["as it is", "short escapes as long ones"]))


WORDS = sorted({word.decode() for rule in RULES for word in rule.words})
VALUES = ["aB3dE5gH7jK9mN1pQ", "Passw0rd!", "s3cr3t-v4lue-1", "getTokenFor(x1A2b3)", "ZGVwbG95OnAxcDJwM3A0", "01234567"]
SIGNS = [": ", "=", ":=", "=>", "==", '": "', "': '", '\\": \\"', "] = ", " ", "\t", "\n", "@host.dev", ",", ", ", ";"]
ODD = [*"\\\"'`\u00e9\u2019\u00a0\U0001f600\ud83d\r\x00\x08<&", "\r\n", "\\\\"]
PARTS = st.sampled_from(WORDS) | st.sampled_from(VALUES) | st.sampled_from(SIGNS * 3) | st.sampled_from(ODD)
SOME = st.builds(lambda shape, seed: Shape(shape, seed).text, st.sampled_from(list(SHAPES.values())), st.integers(0, 9))
TEXTS = st.lists(PARTS | SOME | st.text(max_size=4), max_size=14).map("".join)
LEVELS = st.lists(st.sampled_from(list(WRITERS)), max_size=3)


@given(TEXTS, LEVELS, st.booleans())
@settings(max_examples=150)
@example('token: "\u00e9aB3dE5gH7jK9mN1p"', ["plain", "plain"], True)
@example("login\tdeploy\tpassword\taB3dE5gH7jK9", ["plain"], False)
@example("PRIvaTE-tokEn : basic bXzYuHsxa0/6Dbv3", [], False)
@example("x_password =aB3,dE5;gH7", [], False)
@example("curl -s x -u me:aB3dE5gH7jK9", ["all"], False)
@example("://a:b,c@h", ["slashes", "slashes"], False)
@example(f"-----BEGIN {'A' * 120} PRIVATE KEY-----\n{'aB3d' * 30}\n-----END PRIVATE KEY-----", [], False)
@example("secret: \x00getTokenFor(x1A2b3)", ["plain"], False)
@example("secret: \x00aB3dE5gH7jK9mN1", ["plain"], False)
@example('secret: \x00"aB3dE5gH7jK9mN1pQ"', ["plain"], False)
def test_any_text_has_the_same_findings(text, writers, capitals):
    data = written(text.upper() if capitals else text, writers)
    for form in ("jsonl", "md"):
        check(form, data)


@given(TEXTS, LEVELS, st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=3), st.integers(0, 3)), max_size=4))
@settings(max_examples=80)
def test_any_invalid_bytes_have_the_same_findings(text, writers, changes):
    data = written(text, writers)
    for at, put, drop in changes:
        data = data[:at] + put + data[at + drop :]
    for form in ("jsonl", "md", "cbor"):
        check(form, data)


@given(TEXTS, TEXTS)
@example("signingkey\0", "aB3dE5gH7jK9mN1pQ")
@settings(max_examples=60)
def test_any_own_entry_has_the_same_findings(key, value):
    key, value = (each.encode("utf-8", "ignore").decode() for each in (key, value))
    check("cbor", payload.encode(Custom(at_ms=1, custom_type="x", data={key: value, "more": [value]}), NONCE))


@given(st.lists(TEXTS, max_size=6), LEVELS)
@settings(max_examples=60)
def test_batch_pre_check_includes_every_payload_with_findings(texts, writers):
    data = [written(text, writers) for text in texts]
    found = {number for number, each in enumerate(data) if PLAIN_GUARD.redact("jsonl", each).rows}
    assert SCANNER.suspects(data) >= found


def test_look_ahead_is_independent_of_its_start_and_length(monkeypatch):
    monkeypatch.setattr(guard, "_LOOKAHEAD_BYTES", 200)
    texts = [nested(Shape("ghp_{an:36}", n).text if n % 3 == 0 else "nothing " * 9, 1).encode() for n in range(20)]
    for numbers in (range(20), range(5, 20), (19, 3, 4, 0)):
        may_hold = GUARD.lookahead(len(texts), texts.__getitem__)
        assert [may_hold(number) for number in numbers] == [number % 3 == 0 for number in numbers]


ODD_WORDS = ["acme_", "acme key", "acme/key", 'acme"', "acm\u00e9", "acme\t", "acme&", "a\\b"]


@pytest.mark.parametrize("word", ODD_WORDS)
def test_words_of_user_rules_are_found_in_any_notation(word):
    rule = Rule("acme", re.escape(word).encode() + rb"(?P<secret>\d+)", (word.encode(),), is_token=False)
    mine = Scanner(extra=[rule])
    for writer in WRITERS:
        data = written(f"say {word}12345 now", [writer])
        assert mine.suspects([b"no", data]) >= ({1} if Guard(Scanner((), [rule])).redact("jsonl", data).rows else set())
        if word.isascii() or writer == "as it is":
            assert Guard(mine).redact("jsonl", data).rows, writer


def _real_lines(most):
    """Yield lines from real sessions of several agents."""
    folder = SHARED / "sessions"
    for file in sorted(folder.rglob("*.jsonl")):
        yield from file.read_bytes()[: most // 8].split(b"\n")[:-1]


def test_real_sessions_have_the_same_findings():
    lines, size = list(_real_lines(1 << 20)), 0
    if not lines:
        pytest.skip("no real sessions here")
    for line in lines:
        size += len(line)
        if size > 1 << 20:
            break
        check("jsonl", line)


def test_programs_in_which_there_is_something_may_hold_it():
    for file in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))[:60]:
        text = file.read_bytes()
        found = PLAIN.scan_bytes(text)
        assert SCANNER.scan_bytes(text) == found
        assert not found or SCANNER.may_hold(text)


@pytest.mark.parametrize("unit", ["token:", "_pat=", "key="])
def test_value_made_of_names_is_read_once(monkeypatch, unit):
    read, starts = CharacterTurns._read, []
    monkeypatch.setattr(CharacterTurns, "_read", lambda turns, at: (starts.append(at), read(turns, at)))
    text = unit.encode() * 2000
    for hint in HINTS:
        assert list(scan._hinted(hint, text, text)) == []
    assert len(starts) == 1


@pytest.mark.parametrize("text", ["row 1543 of 26257", '"size": 6543, "id": "25061"', "db:5432/main", "a:25060: b"])
def test_number_that_is_no_port_before_fields_is_not_scanned(text):
    assert not SCANNER.may_hold(text.encode())


def test_word_that_starts_like_the_end_of_a_sequence_is_not_a_mark():
    assert list(scan.decorations(b"Usage: x [messages] [Key] b[key]", has_escapes=False)) == []
    assert list(scan.decorations(b"\\x1b[m \\033[K ESC[m ^[[K", has_escapes=False)) == [4, 11, 17, 22]
