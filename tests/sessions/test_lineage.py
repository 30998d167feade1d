"""Tests of the origin of a session: a sub-agent's, or a fork's."""

from __future__ import annotations

import pytest
from builders import pi_file, talk
from commands import Run, document, here, run

from gitsession.model.entries import SessionHeader as Header
from gitsession.sessions.origin import parent_of

__all__ = ["here", "run"]


@pytest.mark.parametrize(
    ("stated", "id"),
    [
        (None, None),
        ("", None),
        ("abc", "abc"),
        ("/home/x/.pi/agent/sessions/--w--/2026-01-01T00-00-00-000Z_abc-1.jsonl", "abc-1"),
        ("C:\\sessions\\2026_abc.jsonl", "abc"),
        (".jsonl", None),
    ],
)
def test_pi_names_a_file_that_ends_in_the_id(stated: str | None, id: str | None):
    assert parent_of(Header(agent="pi", parent=stated)) == id


def test_list_shows_the_parents_of_sessions(run: Run, here):  # type: ignore[no-untyped-def]
    (here / "a.jsonl").write_bytes(pi_file(*talk("a")))
    fork = pi_file(*talk("a", "b"), id="s2", parentSession="/x/2026-01-01T00-00-00-000Z_s1.jsonl")
    (here / "b.jsonl").write_bytes(fork)
    run("import", ".")
    listed = document(run("ls", "--json"))["sessions"]
    assert {row["source_id"]: row["parent"] for row in listed} == {"s1": None, "s2": "pi:s1"}
    assert [line.count("↳") for line in run("ls").splitlines()].count(1) == 1
    assert run("show", f"{listed[0]['parent'] or listed[1]['parent']}@root").startswith("session: pi")
