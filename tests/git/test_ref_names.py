"""Tests of the names in an entry's tree, and of ref names."""

import re
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitsession.errors import InvalidName, Malformed
from gitsession.git.ref_files import check_ref_name
from gitsession.sessions import layout
from gitsession.store import refs

SID = "20260101-abcdefghijklm"


# The tree of an entry


@pytest.mark.parametrize("form", [layout.OWN, "jsonl", "md", "laterversion2"])
def test_a_payload_is_named_by_its_form(form):
    assert layout.form_of(layout.PAYLOAD + form) == form
    layout.check(layout.PAYLOAD + form, "tree")


NO_PAYLOAD = ["", "entry", "entry.", "entry.e-e", "entry.cbor.", "Entry.cbor", "entry.CBOR", " entry.md"]
STRANGE = [*NO_PAYLOAD, "..", ".git", ".GIT", "blobs/x", "FILES", "README.md", "op.cbor", "\ud800"]


@pytest.mark.parametrize("name", [*NO_PAYLOAD, layout.HOLES, layout.BLOBS, layout.SUMMARY, layout.FILES])
def test_other_names_hold_no_payload(name):
    assert layout.form_of(name) is None


@pytest.mark.parametrize("name", [layout.HOLES, layout.BLOBS, layout.SUMMARY, layout.FILES])
def test_files_beside_a_payload_have_valid_names(name):
    layout.check(name, "tree")


@pytest.mark.parametrize("name", STRANGE)
def test_invalid_name_in_the_tree_is_rejected_with_its_commit(name):
    with pytest.raises(Malformed) as refused:
        layout.check(name, "abc123")
    assert refused.value.where == "abc123"


# Refs

BRANCHES = {
    "the first": "main",
    "one letter": "a",
    "a digit": "7",
    "64 characters": "a" * 64,
    "a hyphen and an underscore": "try-2_b",
    "a hyphen at the end": "a-",
    "like meta": "metadata",
    "the name of a derived branch": "abcdefg2",
}


@pytest.mark.parametrize("name", BRANCHES.values(), ids=BRANCHES)
def test_a_branch_may_be_called_so(name):
    assert refs.check_branch(name) == name
    check_ref_name(refs.leaf(SID, name))
    subprocess.run(["git", "check-ref-format", refs.leaf(SID, name)], check=True)


TRAPS = {
    "nothing": "",
    "meta": "meta",
    "upper case": "Main",
    "all upper case": "META",
    "65 characters": "a" * 65,
    "a slash": "a/b",
    "a slash before": "/a",
    "a slash after": "a/",
    "a backslash": "a\\b",
    "a dot": "a.b",
    "a dot before": ".a",
    "the folder above": "..",
    "the folder above, further down": "a/../../main",
    "a lock": "main.lock",
    "an option": "-d",
    "an underscore before": "_a",
    "a space": "a b",
    "a space after": "a ",
    "a line end": "a\nb",
    "a line end after": "main\n",
    "a tab": "a\tb",
    "a NUL": "a\0b",
    "an escape": "a\x1b[31m",
    "DEL": "a\x7f",
    "C1": "a\x9b31m",
    "a colon": "a:b",
    "a stream of NTFS": "main::$data",
    "a tilde": "a~1",
    "a caret": "a^",
    "a star": "a*",
    "a question mark": "a?",
    "a bracket": "a[b",
    "an at sign": "@",
    "an at sign and a brace": "a@{1}",
    "a quotation mark": 'a"b',
    "a percent sign": "a%00",
    "an accent": "é",
    "another script": "ветка",
    "a digit of another script": "٣",
    "a letter that folds to ASCII": "\u212a",
    "a dotless i": "ma\u0131n",
    "full width": "ｍain",
    "a lone surrogate": "a\ud800",
    "invisible": "a\u200bb",
    "the wrong way round": "a\u202eb",
}


@pytest.mark.parametrize("name", TRAPS.values(), ids=TRAPS)
def test_a_branch_may_not_be_called_so(name):
    with pytest.raises(InvalidName) as refused:
        refs.check_branch(name)
    assert refused.value.hint


DEVICES = ["con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10))]


@pytest.mark.parametrize("name", DEVICES)
def test_the_name_of_a_windows_device_never_becomes_a_ref(name):
    with pytest.raises(InvalidName):
        check_ref_name(refs.leaf(SID, refs.check_branch(name)))


BY_THE_PAGE = r"[a-z0-9][a-z0-9_-]{0,63}"
PORTS = [f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10)]
TAKEN_BY_THE_PAGE = {"meta", "leaf", "root", "con", "prn", "aux", "nul", *PORTS}


@given(st.text(st.characters(max_codepoint=0x250), max_size=70) | st.from_regex(BY_THE_PAGE, fullmatch=True))
def test_every_branch_name_that_passes_follows_the_page(name):
    try:
        refs.check_branch(name)
    except InvalidName:
        assert not re.fullmatch(BY_THE_PAGE, name) or name in TAKEN_BY_THE_PAGE
    else:
        assert re.fullmatch(BY_THE_PAGE, name)
        assert refs.parse(refs.leaf(SID, name)) == (SID, name)


def test_ref_name_has_the_session_and_the_branch():
    assert refs.leaf(SID) == f"refs/heads/sessions/{SID}/main"
    assert refs.meta(SID) == f"refs/heads/sessions/{SID}/meta"
    assert refs.active(SID) == f"refs/gitsession/active/{SID}"
    assert refs.leaf(SID, "side").startswith(refs.session(SID))
    assert refs.parse(refs.leaf(SID, "side")) == (SID, "side")


NO_SESSION = [
    *("", "sessions/a/b", "refs/heads/main", "refs/gitsession/oplog", "refs/heads/sessions/", "refs/heads/sessions/a"),
    *("refs/heads/sessions/a/", "refs/heads/sessions/a/b/c", "refs/heads/sessionsx/a/b", "refs/remotes/o/sessions/a/b"),
]


@pytest.mark.parametrize("name", NO_SESSION)
def test_another_ref_is_no_branch_of_a_session(name):
    assert refs.parse(name) is None


def test_a_symbolic_value_names_its_target_and_an_oid_names_none():
    assert refs.target(refs.symbolic(refs.leaf(SID))) == refs.leaf(SID)
    assert refs.target("0" * 39 + "1") is None


# Session ids

A_DAY = 86_400_000
DATES = {
    "unknown": (0, "19700101"),
    "before 1970": (-A_DAY, "19700101"),
    "the last moment of a day": (1_767_225_599_999, "20251231"),
    "the first moment of a day": (1_767_225_600_000, "20260101"),
    "a leap day": (1_709_164_800_000, "20240229"),
    "the end of the calendar": (253_402_300_799_000, "99991231"),
    "after the calendar": (253_402_300_800_000, "19700101"),
    "past all bounds": (2**64, "19700101"),
}


@pytest.mark.parametrize(("started", "date"), DATES.values(), ids=DATES)
def test_a_session_is_named_by_the_day_it_began(started, date):
    assert all(sid.startswith(f"{date}-") for sid in refs.imported_sids("pi", "s1", started))
    assert refs.new_sid(started).startswith(f"{date}-")


@given(st.text(st.characters(), max_size=40), st.text(st.characters(), max_size=40), st.integers(-(2**63), 2**64))
def test_any_imported_session_has_an_id_valid_in_a_ref(agent, source_id, started):
    for length, name in zip(refs.SID_LENGTHS, refs.imported_sids(agent, source_id, started), strict=True):
        assert re.fullmatch(rf"[0-9]{{8}}-[a-z2-7]{{{length}}}", name)
        check_ref_name(refs.leaf(name, "a" * 64))


def test_imported_session_has_one_id_everywhere():
    assert refs.imported_sids("pi", "s1", 1_767_225_600_000) == refs.imported_sids("pi", "s1", 1_767_225_600_000)
    assert refs.imported_sids("pi", "s1", 5) != refs.imported_sids("pi", "s1", 6)
    assert refs.imported_sids("pi", "s1", 5) != refs.imported_sids("omp", "s1", 5)
    assert refs.sid_seed("pi", "\ud800", 5) == b"pi\0\xed\xa0\x80\x005"


def test_own_session_has_a_unique_id():
    assert len({refs.new_sid(5) for _ in range(100)}) == 100
    check_ref_name(refs.leaf(refs.new_sid(5)))
