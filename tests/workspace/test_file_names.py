"""Tests of file names in the trees of checkpoints: dangerous names are escaped, and git accepts all of them."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitsession.errors import Malformed
from gitsession.git import objects
from gitsession.workspace import names

LEGAL = st.one_of(
    st.binary(min_size=1, max_size=255),
    st.text(min_size=1, max_size=80).map(lambda text: text.encode("utf-8", "surrogatepass")[:255]),
    st.text("%.: ~gitmoduesab17COMN0Xé\\", min_size=1, max_size=12).map(str.encode),
)

PLAIN = [
    "a",
    "README.md",
    ".gitignore",
    ".mailmap",
    ".github",
    "-rf",
    "naïve",
    "日本",
    "a b",
    "it's",
    "con1",
    "compile",
]
PLAIN += [
    "~",
    "x~1",
    "gitmod~5",
    "~0",
    "git",
    "é",
    "e\u0301",
    "👍",
    "$HOME",
    "[a]",
    "{b}",
    "#",
    "a" * 255,
    "...x",
    "CONF",
]

ESCAPED = {
    "colon": (b"a:b", "%a%3Ab"),
    "backslash": (b"..\\x", "%..%5Cx"),
    "percent": (b"100%", "%100%25"),
    "looks escaped": (b"%41", "%%2541"),
    "newline": (b"a\nb", "%a%0Ab"),
    "escape": (b"\x1b[2J", "%%1B[2J"),
    "C1": ("a\x9bb".encode(), "%a%C2%9Bb"),
    "no UTF-8": (b"\xff\xc3\xa9", "%%FFé"),
    "half a surrogate": (b"\xed\xa0\x80", "%%ED%A0%80"),
    "right to left": ("a\u202eb".encode(), "%a%E2%80%AEb"),
    "zero width": ("a\u200bb".encode(), "%a%E2%80%8Bb"),
    "final dot": (b"trailing.", "%trailing%2E"),
    "final dots": (b"a..", "%a.%2E"),
    "final space": (b"a ", "%a%20"),
    "only a space": (b" ", "%%20"),
    "device": (b"CON", "%CON"),
    "device with an ending": (b"aux.txt", "%aux.txt"),
    "device with spaces": (b"nul .c", "%nul .c"),
    "numbered device": (b"com1", "%com1"),
    "superscript device": ("LPT²".encode(), "%LPT²"),
    "modules": (b".gitmodules", "%.gitmodules"),
    "modules in capitals": (b".GitModules", "%.GitModules"),
    "modules for HFS": (".git\u200cmodules".encode(), "%.git%E2%80%8Cmodules"),
    "modules, short": (b"GITMOD~1", "%GITMOD~1"),
    "modules, shorter": (b"gi7eba~1", "%gi7eba~1"),
    "modules, shortest": (b"~1000000", "%~1000000"),
    "modules for NTFS": (b".gitmodules .", "%.gitmodules %2E"),
    "a stream": (b".gitmodules::$DATA", "%.gitmodules%3A%3A$DATA"),
    "attributes": (b".gitattributes", "%.gitattributes"),
    "attributes, short": (b"gi7d29~2", "%gi7d29~2"),
}

REFUSED = [b"", b".", b"..", b"a/b", b"/", b"\0", b"a\0b", b".git", b".GIT", b".gIt", b"git~1", b"GIT~2", b"git~10"]
REFUSED += [
    b".git.",
    b".git ",
    b".git . .",
    b".git::$INDEX_ALLOCATION",
    b".git:x",
    b"git~1:x",
    b".git\\config",
    b"a\\.git",
]
REFUSED += [".g\u200cit".encode(), ".git\u200d".encode(), "\ufeff.git".encode(), ".gi\u206ft ".encode(), b"x" * 256]


@given(LEGAL)
def test_escaped_name_is_restored_and_valid_in_a_checkpoint(name):
    text = names.escape(name)
    assert names.unescape(text) == name
    assert names.tree_refusal(text) == names.refusal(name)


@given(LEGAL, LEGAL)
def test_escaped_names_are_distinct(one, other):
    assert (names.escape(one) == names.escape(other)) == (one == other)


@given(LEGAL)
def test_escaped_name_is_harmless(name):
    text = names.escape(name)
    assert text.isprintable() or "\xa0" in text or not text.isascii()
    assert not set(text) & set('/\\:<>"|?*\0\n') and not text.endswith((".", " "))
    text.encode()


@given(st.text(max_size=12))
def test_unusual_name_is_rejected(text):
    try:
        assert names.escape(names.unescape(text)) == text
    except Malformed:
        assert names.tree_refusal(text)


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_name_is_itself(name):
    assert names.escape(name.encode()) == name
    assert names.tree_refusal(name) is None


@pytest.mark.parametrize("name, text", ESCAPED.values(), ids=ESCAPED)
def test_a_name_that_could_hurt_is_escaped(name, text):
    assert names.escape(name) == text
    assert names.unescape(text) == name
    assert names.refusal(name) is None


@pytest.mark.promise("P28")
@pytest.mark.parametrize("name", REFUSED, ids=ascii)
def test_some_names_are_never_captured_and_never_written(name, faults):
    with faults.one():
        assert names.refusal(name)
        assert names.tree_refusal(names.escape(name))
        assert names.tree_refusal(name.decode("utf-8", "surrogateescape"))


HAND_MADE = [
    "%41",
    "%a",
    "%zz",
    "%a%3ab",
    "a%",
    "a%3Ab",
    "a:b",
    "CON",
    ".gitmodules",
    "\udcff",
    "\ud800",
    "x\n",
    "a.",
]


@pytest.mark.promise("P28")
@pytest.mark.parametrize("text", HAND_MADE, ids=ascii)
def test_a_name_that_escape_would_not_have_made_is_hand_made(text, faults):
    with faults.one():
        assert names.tree_refusal(text)
        with pytest.raises(Malformed):
            names.unescape(text)


@pytest.mark.promise("P28")
def test_path_is_rejected_for_any_of_its_names_and_its_depth():
    assert names.path_refusal("a/b/c") is None
    assert names.path_refusal("/".join("a" * 64)) is None
    assert "deep" in names.path_refusal("/".join("a" * 65))
    for path in ("", "/a", "a/", "a//b", "a/../b", "a/%.git/b"):
        assert names.path_refusal(path)
    assert names.unescape_path(names.escape_path(b"a:b/\xff")) == b"a:b/\xff"


def server(path):
    """Create a repository that checks all received objects."""
    subprocess.run(["git", "init", "-q", "--bare", path], check=True)
    subprocess.run(["git", "-C", path, "config", "transfer.fsckObjects", "true"], check=True)
    return path


def put(repository, kind, data):
    command = ["git", "-C", repository, "hash-object", "-w", "-t", kind, "--literally", "--stdin"]
    return subprocess.run(command, input=data, check=True, capture_output=True).stdout.decode().strip()


NASTY = sorted({name for name, _ in ESCAPED.values()} | {name.encode() for name in PLAIN} | {*REFUSED} - {b""})


def test_strict_server_accepts_every_escaped_name(tmp_path):
    here, there = server(tmp_path / "here"), server(tmp_path / "there")
    content = put(here, "blob", b'[submodule "../x"]\n\tpath = -x\n\turl = -u\n' + b"a" * 4096)
    link = put(here, "blob", b"anywhere")
    inner = put(here, "tree", objects.encode_tree({"x": ("100644", content)}))
    kinds = {"files": ("100644", content), "links": ("120000", link), "folders": ("40000", inner)}
    rows = {}
    for kind, row in kinds.items():
        rows[kind] = ("40000", put(here, "tree", objects.encode_tree({names.escape(name): row for name in NASTY})))
    tree = put(here, "tree", objects.encode_tree(rows))
    told = subprocess.run(["git", "-C", here, "fsck", "--strict"], capture_output=True, text=True, check=True)
    said = [line for line in told.stderr.splitlines() if not line.startswith("notice")]
    assert [line.rsplit(": ")[-1] for line in said] == [".gitignore is a symlink", ".mailmap is a symlink"]  # only two
    words = ["-c", "user.name=a", "-c", "user.email=a@b"]
    made = subprocess.run(
        ["git", "-C", here, *words, "commit-tree", tree], input="x", text=True, check=True, capture_output=True
    )
    commit = made.stdout.strip()
    subprocess.run(["git", "-C", here, "push", "-q", there, f"{commit}:refs/heads/main"], check=True)
    assert subprocess.run(["git", "-C", there, "cat-file", "-e", commit], check=True).returncode == 0


@pytest.mark.parametrize("name", [b".gitmodules", b"GITMOD~1", b"gi7eba~1", b"~1000000", b".gitattributes", b".git"])
def test_strict_server_rejects_the_same_file_with_an_unescaped_name(tmp_path, name):
    here, there = server(tmp_path / "here"), server(tmp_path / "there")
    content = put(here, "blob", b'[submodule "../x"]\n' + b"a" * 4096)
    tree = put(here, "tree", objects.encode_tree({name.decode(): ("100644", content)}))
    words = ["-c", "user.name=a", "-c", "user.email=a@b"]
    made = subprocess.run(
        ["git", "-C", here, *words, "commit-tree", tree], input="x", text=True, check=True, capture_output=True
    )
    pushed = subprocess.run(["git", "-C", here, "push", "-q", there, f"{made.stdout.strip()}:refs/heads/main"])
    assert pushed.returncode
