"""Tests of commit messages: short, clean, and with trailers that no text in the body can imitate."""

import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from strategies import WILD_TEXT

from gitsession.codec.digest import to_base64url
from gitsession.codec.message import SourceRef, Trailers, kind_of, render, subject_of, trailers_of
from gitsession.errors import Malformed
from gitsession.model.headline import Headline, clean

CHAIN = bytes(range(32))
SPACES = "\n \u00a0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))

TROUBLE = st.sampled_from(
    [
        *("\n", "\n\n", "\r\n", "\t", "    ", "---", "#", "\0", "\x1b[31m", "\u2028", "\u202e", "\u200b", "\ud800"),
        *("Entry: message", "Chain: x", "Source: pi/x 1", "(cherry picked from commit x)"),
        *("\U0001f600", "\u3000", "…", "a" * 80, "é" * 600),
    ]
)
TEXTS = st.lists(TROUBLE | WILD_TEXT, max_size=6).map("".join)
HEADLINES = st.builds(
    Headline, kind=TEXTS, label=TEXTS, words=TEXTS, calls=st.integers(0, 10**7), body=TEXTS, model=TEXTS
)
SOURCE_IDS = st.none() | TEXTS | st.text(st.characters(), min_size=100, max_size=400)
SOURCES = st.none() | st.builds(
    SourceRef.of, st.sampled_from(["pi", "omp", "claude-code"]), SOURCE_IDS, st.integers(0, 10**9)
)


def headline(words="", body="", *, kind="message", label="user", **fields):
    return Headline(kind=kind, label=label, words=words, body=body, **fields)


def message(words="", body="", source=None, **fields):
    return render(headline(words, body, **fields), CHAIN, source).decode()


def body_of(words, body):
    *_, above = message(words, body).partition("\n\n")
    return above.rpartition("Entry: ")[0]


def folded(text):
    run = "".join(" " if character in SPACES else character for character in text)
    return " ".join(part for part in run.split(" ") if part)


# Format


def test_a_message_has_a_subject_a_body_and_trailers():
    body = "Fix it\n\n  like so:\n\tplease  \n"
    said = message("Fix it", body, SourceRef("pi", "a1", 7), label="assistant", calls=2, model="a/b")
    assert said == (
        "assistant: Fix it (+2 tools)\n"
        "\n"
        "    Fix it\n"
        "\n"
        "      like so:\n"
        "     please\n"
        "\n"
        "Entry: message\n"
        f"Chain: {to_base64url(CHAIN)}\n"
        "Source: pi/a1 7\n"
        "Model: a/b\n"
    )


SUBJECTS = {
    "label and words": (headline("hi"), "user: hi"),
    "no words": (headline(), "user"),
    "words of spaces": (headline(" \n\t\u3000\u200b "), "user"),
    "one tool": (headline("hi", calls=1), "user: hi (+1 tool)"),
    "two tools and no words": (headline(calls=2), "user (+2 tools)"),
    "spaces folded": (headline("  a \n\n b\tc\u3000\u00a0d\r\n"), "user: a b c d"),
    "72 characters": (headline("a" * 66), "user: " + "a" * 66),
    "73 characters": (headline("a" * 67), "user: " + "a" * 65 + "…"),
    "cut before a space": (headline("a" * 64 + " b" * 9), "user: " + "a" * 64 + "…"),
    "cut, with tools": (headline("a" * 90, calls=12), "user: " + "a" * 53 + "… (+12 tools)"),
    "wide characters count as one": (headline("\U0001f600" * 67), "user: " + "\U0001f600" * 65 + "…"),
    "a label of 40": (headline("hi", label="l" * 40), "l" * 40 + ": hi"),
    "a label of 41": (headline("hi", label="l" * 41), "l" * 39 + "…: hi"),
    "a long label, long words and tools": (
        headline("w" * 90, label="l" * 90, calls=10**7),
        "l" * 39 + "…: " + "w" * 11 + "… (+10000000 tools)",
    ),
    "no label": (headline("hi", label="\u200b \n"), "entry: hi"),
    "a label that git takes for the end": (headline("hi", label="--- a"), "entry --- a: hi"),
    "a long label that git takes for the end": (headline("hi", label="-" * 40), "entry " + "-" * 33 + "…: hi"),
    "control characters": (headline("\x1b[31mred\x07\x9b0m"), "user: [31mred0m"),
    "bidirectional characters": (headline("a\u202eb\u2066c\u200fd\u061ce"), "user: abcde"),
    "a lone surrogate": (headline("a\ud800b"), "user: a\ufffdb"),
    "4,096 spaces before": (headline(" " * 4_096 + "hi"), "user"),
    "4,094 spaces before": (headline(" " * 4_094 + "high"), "user: hi"),
}


@pytest.mark.parametrize(("said", "subject"), SUBJECTS.values(), ids=SUBJECTS)
def test_subject_is_cut_to_its_length(said, subject):
    assert subject_of(render(said, CHAIN, None)) == subject


BODIES = {
    "nothing": ("", "", ""),
    "what the subject says": ("hi", "hi", ""),
    "what the subject says, with other spaces": ("hi you", "\n  hi\tyou \n", ""),
    "what the subject says, cleaned": ("a\x00b", "a\x00b\u200b", ""),
    "what the subject cut": ("a" * 67, "a" * 67, "    " + "a" * 67 + "\n\n"),
    "more than the subject": ("hi", "hi\nyou", "    hi\n    you\n\n"),
    "a line that begins with spaces": ("hi", "hi\n  you", "    hi\n      you\n\n"),
    "blank lines at both ends and spaces at line ends": ("x", "\n \n a \u3000\n\t\n\nb\n\n", "     a\n\n\n    b\n\n"),
    "lines of Windows": ("x", "a\r\nb\r\n", "    a\n    b\n\n"),
    "line separators of Unicode": ("x", "a\u2028b\u2029c\u0085d\x0be", "    abcde\n\n"),
    "only what is removed": ("x", "\u200b\x00\n\x1b", ""),
    "1,024 bytes": ("x", "a" * 1_024, "    " + "a" * 1_024 + "\n\n"),
    "1,025 bytes": ("x", "a" * 1_025, "    " + "a" * 1_020 + " …\n\n"),
    "1,025 bytes in fewer characters": ("x", "a" + "é" * 512, "    a" + "é" * 509 + " …\n\n"),
    "a cut inside of a character": ("x", "\U0001f600" * 257, "    " + "\U0001f600" * 255 + " …\n\n"),
    "a cut before spaces": ("x", "a" * 1_000 + " " * 30 + "b", "    " + "a" * 1_000 + " …\n\n"),
    "what stands behind 4,096 characters": ("x", "\u200b" * 4_095 + "ab", "    a\n\n"),
}


@pytest.mark.parametrize(("words", "body", "expected"), BODIES.values(), ids=BODIES)
def test_body_continues_the_subject(words, body, expected):
    assert body_of(words, body) == expected


@given(HEADLINES, SOURCES)
def test_every_message_keeps_its_measures(said, source):
    written = render(said, CHAIN, source).decode()  # UTF-8
    lines = written.split("\n")
    assert written.endswith("\n")
    assert lines[-1] == lines[1] == ""
    assert 0 < len(lines[0]) <= 72
    assert clean(written) == written
    blank = len(lines) - 2 - lines[-2::-1].index("")
    trailers, body = lines[blank + 1 : -1], lines[2:blank]
    assert [line.partition(": ")[0] for line in trailers] == [
        "Entry",
        "Chain",
        *["Source"] * (source is not None),
        *["Model"] * bool(said.model),
    ]
    assert max(map(len, trailers)) <= 200
    assert all(not line or line.startswith("    ") for line in body)
    assert all(line == line.rstrip(SPACES) for line in body)
    assert len("\n".join(line[4:] for line in body).encode()) <= 1_024


@given(HEADLINES, SOURCES)
@example(headline(kind="", label=""), SourceRef("pi", "", 0))
@example(headline(kind="k" * 500, model="m" * 500), SourceRef("pi", "-", 5))
def test_the_trailers_are_read_as_they_were_written(said, source):
    model = folded(clean(said.model[:4096]))
    expected = Trailers(kind_of(said), CHAIN, source, model if len(model) <= 193 else model[:192].rstrip(" ") + "…")
    assert trailers_of(render(said, CHAIN, source)) == expected


@given(WILD_TEXT)
def test_kind_is_written_on_one_line(kind):
    once = folded(clean(kind))
    assert kind_of(headline(kind=kind)) == (once if len(once) <= 193 else once[:192].rstrip(" ") + "…")


# The id in Source

IDS = {
    "none": (None, "-"),
    "a hyphen": ("-", "%2D"),
    "two hyphens": ("--", "--"),
    "nothing": ("", ""),
    "what needs no escape": ("aZ09._~-", "aZ09._~-"),
    "spaces and slashes": ("a b/c", "a%20b%2Fc"),
    "a percent sign": ("%2D", "%252D"),
    "a line end": ("a\nEntry: b", "a%0AEntry%3A%20b"),
    "not ASCII": ("é", "%C3%A9"),
    "a lone surrogate": ("\ud83d", "%ED%A0%BD"),
    "two halves of a character": ("\ud83d\ude00", "%ED%A0%BD%ED%B8%80"),
    "128 characters": ("a" * 128, "a" * 128),
    "129 characters": ("a" * 129, "a" * 128),
    "10,000 characters": ("a" * 10_000, "a" * 128),
    "10,000 characters that need escapes": ("/" * 10_000, "%2F" * 42),
    "a cut inside of an escape": ("a" + "/" * 43, "a" + "%2F" * 42),
    "a cut inside of a character": ("aaa" + "é" * 100, "aaa" + "%C3%A9" * 20),
    "a cut inside of a wide character": ("\U0001f600" * 11, "%F0%9F%98%80" * 10),
}


@pytest.mark.parametrize(("source_id", "written"), IDS.values(), ids=IDS)
def test_agents_id_is_escaped_and_cut_to_its_length(source_id, written):
    assert str(SourceRef("pi", source_id, 3)) == f"pi/{written} 3"
    found = trailers_of(message(source=SourceRef("pi", source_id, 3)).encode()).source
    assert found == SourceRef.of("pi", source_id, 3)
    assert str(found) == f"pi/{written} 3"
    assert source_id is None or source_id.startswith(found.id)


@given(st.text(st.characters(), max_size=400))
def test_long_id_is_cut_between_characters(source_id):
    written = str(SourceRef("pi", source_id, 3)).removeprefix("pi/").removesuffix(" 3")
    kept = SourceRef.of("pi", source_id, 3).id
    assert len(written) <= 128
    assert source_id.startswith(kept)
    if kept != source_id:
        more = source_id[: len(kept) + 1]
        assert len(str(SourceRef("pi", more, 3))) == len(str(SourceRef("pi", kept, 3)))


# Rejected input

WHOLE = message("hi", source=SourceRef("pi", "a", 3))
BAD = {
    "nothing": "",
    "a message of somebody else": "Fix the build\n\nSigned-off-by: A <a@b>\n",
    "no Entry": WHOLE.replace("Entry: message\n", ""),
    "no Chain": WHOLE.replace(f"Chain: {to_base64url(CHAIN)}\n", ""),
    "a chain cut short": WHOLE.replace(to_base64url(CHAIN), to_base64url(CHAIN[:31])),
    "a chain that is too long": WHOLE.replace(to_base64url(CHAIN), to_base64url(CHAIN + b"a")),
    "a chain with padding": WHOLE.replace(to_base64url(CHAIN), to_base64url(CHAIN) + "="),
    "a chain with a hole": WHOLE.replace(to_base64url(CHAIN), to_base64url(CHAIN)[:-1] + "!"),
    "a chain that is not ASCII": WHOLE.replace(to_base64url(CHAIN), "é" * 43),
    "a source without a line": WHOLE.replace("pi/a 3", "pi/a"),
    "a source without an id": WHOLE.replace("pi/a 3", "pi 3"),
    "a source without an agent": WHOLE.replace("pi/a 3", "/a 3"),
    "an id that is not escaped": WHOLE.replace("pi/a 3", "pi/a b 3"),
    "an id that is no UTF-8": WHOLE.replace("pi/a 3", "pi/%FF 3"),
    "a line that is no number": WHOLE.replace("pi/a 3", "pi/a x"),
    "a line below zero": WHOLE.replace("pi/a 3", "pi/a -3"),
    "a line with a plus": WHOLE.replace("pi/a 3", "pi/a +3"),
    "a line with an underscore": WHOLE.replace("pi/a 3", "pi/a 1_0"),
    "a line with a zero before": WHOLE.replace("pi/a 3", "pi/a 03"),
    "a line in other digits": WHOLE.replace("pi/a 3", "pi/a ٣"),
    "a line of ten thousand digits": WHOLE.replace("pi/a 3", "pi/a " + "9" * 10_000),
    "trailers in the body only": f"user: hi\n\n    Entry: message\n    Chain: {to_base64url(CHAIN)}\n",
}


@pytest.mark.parametrize("written", BAD.values(), ids=BAD)
def test_missing_or_foreign_trailers_are_rejected(written):
    with pytest.raises(Malformed, match=r"^message: "):
        trailers_of(written.encode())


@given(st.binary(max_size=200))
def test_any_bytes_have_trailers_or_are_rejected(data):
    for written in (data, b"user\n\nEntry: message\nChain: " + data, WHOLE.encode().replace(b"pi/a 3", data)):
        try:
            trailers_of(written)
        except Malformed:
            pass


# Cleaning


def removed_by_the_page():
    ranges = [
        *((0x00, 0x08), (0x0B, 0x1F), (0x7F, 0x9F), (0x061C, 0x061C), (0x200B, 0x200B), (0x200E, 0x200F)),
        *((0x2028, 0x202E), (0x2060, 0x206F), (0xFEFF, 0xFEFF), (0xFFF9, 0xFFFB), (0xE0000, 0xE007F)),
    ]
    return {point for first, last in ranges for point in range(first, last + 1)}


def test_every_code_point_is_cleaned_as_documented():
    removed = removed_by_the_page()
    for point in range(sys.maxunicode + 1):
        expected = chr(point)
        if point in removed:
            expected = ""
        elif point == 0x09:
            expected = " "
        elif 0xD800 <= point <= 0xDFFF:
            expected = "\ufffd"
        assert clean(chr(point)) == expected, hex(point)
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    assert clean(everything) == "".join(map(clean, everything))


def test_page_lists_every_space_that_python_knows():
    spaces = {chr(point) for point in range(sys.maxunicode + 1) if chr(point).isspace()}
    assert {space for space in spaces if clean(space) == space} == set(SPACES)


@given(WILD_TEXT)
def test_clean_text_is_unchanged(text):
    assert clean(clean(text)) == clean(text)


# Comparison with git

HOSTILE = {
    "trailers": "Entry: reset\nChain: aaaa\nSource: pi/x 1\nModel: a/b",
    "trailers at the end": "hi\n\nEntry: reset\nChain: aaaa\n",
    "trailers and many blank lines": "hi\n\n\n\n\nSigned-off-by: Mallory <m@x>\n\n\n",
    "trailers behind carriage returns": "hi\r\rEntry: reset\r",
    "trailers behind line separators": "hi\u2028\u2028Entry: reset\u2029\u0085Entry: reset\x0b\x0cEntry: reset",
    "a divider": "hi\n---\nEntry: reset\n",
    "a patch": "hi\n---\n a | 1 +\ndiff --git a/a b/a\n@@ -1 +1 @@\n",
    "scissors": "hi\n# ------------------------ >8 ------------------------\nEntry: reset",
    "comments": "# hi\n# Entry: reset\n#",
    "a line that goes on": "hi\n\nEntry: reset\n goes on\n\tand on",
    "a signature": "hi\n-----BEGIN PGP SIGNATURE-----\n\nEntry: reset\n-----END PGP SIGNATURE-----\n",
    "headers of a commit": "hi\nparent 0000000000000000000000000000000000000000\nauthor a <a@b> 0 +0000\n\nx",
    "a cherry-pick": "hi\n\n(cherry picked from commit 1234567)\nEntry: reset",
    "colours": "\x1b[31mhi\x1b]0;title\x07\n\x9b31m\nEntry: reset",
    "backspaces": "hi\b\b\b\bEntry: reset",
    "NUL": "hi\0\0Entry: reset\n\0\nEntry: reset",
    "words the wrong way round": "\u202e\u2066Entry: reset\n\nEntry: reset\u202c",
    "lone surrogates": "\ud800\n\nEntry: reset\udfff",
    "very long": "Entry: reset\n\n" * 1_000,
}


@pytest.fixture(scope="module")
def git(tmp_path_factory):
    folder = tmp_path_factory.mktemp("git")

    def run(*arguments, stdin=b""):
        done = subprocess.run(["git", "-C", str(folder), *arguments], input=stdin, capture_output=True, check=True)
        return done.stdout

    run("init", "-q", "--bare", ".")
    return run


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_git_finds_our_trailers_and_no_others(git, text):
    tree = git("mktree").decode().strip()
    source = SourceRef.of("pi", text, 3)
    said = headline(text, text, label=f"custom {text}", kind=text, model=text)
    written = render(said, CHAIN, source)
    expected = [f"Entry: {kind_of(said)}", f"Chain: {to_base64url(CHAIN)}", f"Source: {source}"]
    commit = f"tree {tree}\nauthor user <user@gitsession> 1 +0000\ncommitter g <g@gitsession> 1 +0000\n\n".encode()
    oid = git("hash-object", "-t", "commit", "-w", "--stdin", stdin=commit + written).decode().strip()

    by_parse = git("interpret-trailers", "--parse", stdin=written).decode().splitlines()
    by_log = git("log", "-1", "--format=%(trailers)", oid).decode().splitlines()
    assert by_parse[:3] == expected
    assert [line.partition(": ")[0] for line in by_parse] == ["Entry", "Chain", "Source", "Model"]
    assert [line for line in by_log if line] == by_parse
    assert git("log", "-1", "--format=%s", oid).decode() == subject_of(written) + "\n"
    assert git("cat-file", "commit", oid).endswith(b"\n\n" + written)


NAMES = ["---", "--- a", "----", "#", "# a", "Entry: reset", "Signed-off-by: a", "diff --git a b", "fixup! a"]


@pytest.mark.parametrize("name", NAMES)
def test_a_kind_of_any_name_leaves_the_trailers_to_git(git, name):
    written = render(headline(kind=name, label=name), CHAIN, None)
    expected = f"Entry: {name}\nChain: {to_base64url(CHAIN)}\n"
    assert git("interpret-trailers", "--parse", stdin=written).decode() == expected


@settings(max_examples=25)
@given(HEADLINES, SOURCES)
def test_git_reads_the_trailers_that_we_read(git, said, source):
    written = render(said, CHAIN, source)
    found = git("interpret-trailers", "--parse", "--no-divider", stdin=written).decode().split("\n")
    trailers = trailers_of(written)
    expected = [f"Entry: {trailers.entry}", f"Chain: {to_base64url(CHAIN)}"]
    expected += [f"Source: {source}"] * (source is not None) + [f"Model: {trailers.model}"] * bool(said.model)
    assert [line.rstrip(" ") for line in found] == [line.rstrip(" ") for line in [*expected, ""]]
