"""Tests that every known kind of secret is found in every place where agents write it, with few false positives."""

import itertools
import json
import random
import re
import string
import sysconfig
from pathlib import Path

import pytest
from places import ROOT, SHARED
from secret_shapes import CONTEXTS, SHAPES, Shape, nested

from gitsession.codec import payload
from gitsession.model.blocks import Text, ToolCall
from gitsession.model.entries import Message
from gitsession.redaction.guard import Guard
from gitsession.redaction.heuristics import is_placeholder
from gitsession.redaction.original import placeholder
from gitsession.redaction.scan import RULES, Scanner

SCANNER = Scanner()
GUARD = Guard(SCANNER)
NONCE = bytes(16)
LEVELS = range(4)


def check(redacted, shape):
    """Check that no part of the secret is left, and that each row points to a placeholder of its rule."""
    assert redacted.rows
    assert not shape.is_in(redacted.payload)
    for offset, length, rule in redacted.rows:
        assert redacted.payload[offset : offset + length].startswith(placeholder(rule))


def test_there_are_at_least_sixty_shapes():
    assert len(SHAPES) >= 60
    assert len({rule.name for rule in RULES}) == len(RULES) >= 60


def test_rules_have_names_that_a_placeholder_can_hold():
    for rule in RULES:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.name)
        assert len(rule.name) <= 40


@pytest.mark.parametrize("sample", SHAPES.values(), ids=SHAPES)
def test_a_shape_is_found_in_plain_text(sample):
    for number, context in enumerate(CONTEXTS.values()):
        shape = Shape(sample, number)
        check(GUARD.redact("md", context.replace("{}", shape.text).encode()), shape)


@pytest.mark.parametrize("sample", SHAPES.values(), ids=SHAPES)
def test_secret_is_found_in_nested_json_and_the_line_stays_json(sample):
    for levels, (number, context) in itertools.product(LEVELS, enumerate(CONTEXTS.values())):
        shape = Shape(sample, number)
        text = nested(context.replace("{}", shape.text), levels)
        line = {"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": text}]}}
        redacted = GUARD.redact("jsonl", json.dumps(line).encode())
        check(redacted, shape)
        assert json.loads(redacted.payload).keys() == line.keys()


@pytest.mark.parametrize("sample", SHAPES.values(), ids=SHAPES)
def test_secret_is_found_in_json_with_every_character_escaped(sample):
    shape = Shape(sample)
    for escaped in (f'"{_as_unicode(shape.text)}"', json.dumps(shape.text).replace("/", "\\/")):
        redacted = GUARD.redact("jsonl", b'{"content":%s}' % escaped.encode())
        assert not shape.is_in(json.dumps(json.loads(redacted.payload)))
        assert redacted.rows


def _as_unicode(text):
    return "".join(f"\\u{ord(letter):04x}" for letter in text)


@pytest.mark.parametrize("sample", SHAPES.values(), ids=SHAPES)
def test_a_shape_is_found_in_entries_of_our_own_and_they_stay_entries(sample):
    shape = Shape(sample)
    for levels in LEVELS:
        text = nested(shape.text, levels)
        entry = Message(
            at_ms=1, role="assistant", content=(Text(f"so: {text}"), ToolCall("1", "bash", {"command": text}))
        )
        redacted = GUARD.redact("cbor", payload.encode(entry, NONCE))
        check(redacted, shape)
        back, nonce = payload.decode(redacted.payload)
        assert (back.role, len(back.content), nonce) == ("assistant", 2, NONCE)


@pytest.mark.parametrize("sample", SHAPES.values(), ids=SHAPES)
def test_redacted_text_has_no_secret(sample):
    once = GUARD.redact("md", Shape(sample).text.encode()).payload
    assert not GUARD.redact("md", once).rows


NEVER = {f"{rule.name}: {text[:40]!r}": text for rule in RULES for text in rule.never}


@pytest.mark.parametrize("text", NEVER.values(), ids=NEVER)
def test_placeholders_of_other_programs_are_not_secrets(text):
    assert SCANNER.scan_bytes(text.encode()) == []


@pytest.mark.parametrize("levels", LEVELS)
def test_json_key_marks_its_value_as_a_secret(levels):
    shape = Shape("{an:40}")
    text = json.dumps({"api_key": shape.text, "name": "x"})
    for _ in range(levels):
        text = json.dumps({"arguments": text})
    check(GUARD.redact("jsonl", text.encode()), shape)


def test_argument_name_marks_its_value_as_a_secret():
    shape = Shape("{an:40}")
    entry = Message(at_ms=1, role="assistant", content=(ToolCall("1", "call", {"api_key": shape.text}),))
    check(GUARD.redact("cbor", payload.encode(entry, NONCE)), shape)


def test_two_secrets_as_keys_of_one_map_stay_two_keys():
    arguments = {Shape("ghp_{an:36}", seed).text: seed for seed in range(3)}
    entry = Message(at_ms=1, role="assistant", content=(ToolCall("1", "call", arguments),))
    redacted = GUARD.redact("cbor", payload.encode(entry, NONCE))
    back, _ = payload.decode(redacted.payload)
    assert list(back.content[0].arguments.values()) == [0, 1, 2]
    assert len(redacted.rows) == 3


def ordinary():
    """Yield text with almost no secrets: Python's own library, and the documentation."""
    library = Path(sysconfig.get_paths()["stdlib"])
    files = [file for file in sorted(library.rglob("*.py")) if "site-packages" not in file.parts]
    pages = sorted((ROOT / "docs").rglob("*.md"))
    shared = sorted(SHARED.rglob("*.md"))
    return [file.read_bytes() for file in (*pages, *shared, *files)]


def test_ordinary_programs_and_pages_have_less_than_one_false_hit_in_a_megabyte():
    texts, size, found = ordinary(), 0, []
    if sum(map(len, texts)) < 3 << 20:
        pytest.skip("Python's library is not here as source")
    for text in texts:
        size += len(text)
        found += [(hit.rule, text[hit.start : hit.end]) for hit in SCANNER.scan_bytes(text)]
        if size > 12 << 20:
            break
    assert len(found) <= size >> 20, found


COMMANDS = {
    "sshpass": "sshpass -p {} ssh deploy@acme.dev",
    "sshpass, quoted": "sshpass -p '{}' scp a deploy@acme.dev:",
    "htpasswd": "htpasswd -b .htpasswd deploy {}",
    "mysql": "mysql -h db -u app -p{} main",
    "docker run": "docker run --rm httpd:2.4 htpasswd -nbB admin {}",
    "docker run --entrypoint": "docker run --entrypoint htpasswd httpd:2 -Bbn admin {} > auth/htpasswd",
    "docker exec": "docker exec web htpasswd -b /etc/nginx/.htpasswd admin {}",
    "docker exec mysql": "docker exec -i db mysql -uroot -p{} main",
}
ALPHABETS = {
    "lower case": string.ascii_lowercase,
    "upper case": string.ascii_uppercase,
    "letters": string.ascii_letters,
    "digits": string.digits,
    "hex": "0123456789abcdef",
    "base32": "abcdefghijklmnopqrstuvwxyz234567",
    "letters and digits": string.ascii_letters + string.digits,
    "base64url": string.ascii_letters + string.digits + "-_",
    "signs": string.ascii_letters + string.digits + "!@#^*+=.:?~",
}


@pytest.mark.parametrize("alphabet", ALPHABETS.values(), ids=ALPHABETS)
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_random_password_in_a_command_is_found_in_any_alphabet(command, alphabet):
    draw = random.Random(1)
    missed = []
    for _ in range(200):
        value = "".join(draw.choices(alphabet, k=draw.randint(8, 24)))
        at = len(command.partition("{}")[0])
        found = SCANNER.scan_bytes(command.replace("{}", value).encode())
        if not any(span.start <= at and span.end >= at + len(value) for span in found):
            missed.append(value)
    assert [value for value in missed if not is_placeholder(value.encode())] == []
    assert len(missed) <= 2  # such as `nIlYSeuhQY`, which begins like `nil`


@pytest.mark.parametrize(
    "text",
    [
        "the flag of sshpass -p argument shows it",
        "htpasswd -b mode expects arguments that anybody sees",
        "With htpasswd -nb username yourpassword you print a line.",
        "sshpass -p YOURPASSWORD ssh host",
        "sshpass -p get_secret() ssh host",
        "cc $(mysql_config --libs) -pthread -pedantic-errors",
        "mysql -uroot -p<password> main",
        'mysql -uroot -p"$MYSQL_ROOT_PASSWORD" main',
        "docker run --entrypoint htpasswd httpd:2 -Bbn testuser testpassword",
    ],
)
def test_password_placeholder_in_a_command_is_not_a_secret(text):
    assert SCANNER.scan_bytes(text.encode()) == []


@pytest.mark.parametrize("template", SHAPES.values(), ids=SHAPES)
def test_excerpt_has_no_part_of_a_secret_that_was_cut(template):
    shape = Shape(template)
    for context in ("{} is the key", *CONTEXTS.values()):
        line = " ".join(context.replace("{}", shape.text).split())
        for hidden in (part for part in shape.hidden if part in line):
            start = line.find(hidden)
            for cut in range(start + 5, start + len(hidden)):
                assert hidden[:5] not in GUARD.excerpt(f"{line[:cut]}…")
                assert hidden[:5] not in GUARD.excerpt(f"{line[:cut]}… (+2 tools)")
                assert hidden[-5:] not in GUARD.excerpt(f"…{line[cut:]}")


def test_excerpt_keeps_a_text_that_was_not_cut_and_other_words():
    assert GUARD.excerpt("Fix the login") == "Fix the login"
    assert GUARD.excerpt("Fix the log…") == "Fix the …"
    assert GUARD.excerpt("…in and wait… then (x)") == "… and wait… then (x)"
    assert GUARD.excerpt("修复登录的问题…") == "修复登录的问题…"
