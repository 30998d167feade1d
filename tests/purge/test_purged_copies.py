"""Tests of an agent's copies of purged entries: an import detects them by the agent's id and the time of an entry."""

from __future__ import annotations

import json
from pathlib import Path

import claude_code as code
import pytest
from commands import Run
from purged import SECRET
from remotes import forge

from gitsession import Store
from gitsession.cli import exits
from gitsession.purge import finding
from gitsession.sessions import local_records

OTHER = "99999999-2222-4333-8444-555555555555"
LINES = [
    code.user("u1", None, "Fix the login redirect", at=1),
    code.assistant("a1", "u1", {"type": "text", "text": f"it is {SECRET}, as said"}, at=2),
    code.user("u2", "a1", "All is well then", at=3),
]


def forked(*more: bytes) -> bytes:
    """Return the file that the agent writes for a fork: another session id, the same entries."""
    return b"\n".join([*LINES, *more]).replace(code.SESSION.encode(), OTHER.encode()) + b"\n"


@pytest.fixture
def session(run: Run, here: Path) -> str:
    (here / f"{code.SESSION}.jsonl").write_bytes(b"\n".join(LINES) + b"\n")
    run("import", f"{code.SESSION}.jsonl")
    return sessions(run)[0]


def sessions(run: Run) -> list[str]:
    return [each["session"] for each in json.loads(run("ls", "--json"))["sessions"]]


def branches() -> dict[str, str]:
    with Store.open() as store:
        return dict(store.objects.refs("refs/heads/"))


def imported(run: Run, here: Path, data: bytes) -> str:
    """Import ``data`` as the fork and return the output of the command."""
    (here / f"{OTHER}.jsonl").write_bytes(data)
    return run("import", f"{OTHER}.jsonl")


def test_copy_of_a_purged_entry_is_not_imported(run: Run, here: Path, session: str) -> None:
    run("purge", "--match", SECRET, "--yes")
    said = imported(run, here, forked(code.user("u3", "u2", "and what else?", at=9)))
    assert "1 new entry is a copy of a purged one" in said
    run("search", SECRET, code=exits.NOTHING)
    [other] = set(sessions(run)) - {session}
    assert SECRET not in run("export", other, "--to", "jsonl")
    assert "and what else?" in run("log", other)
    assert "All is well then" in run("log", other)
    run("verify")


def test_importing_the_copy_again_changes_nothing(run: Run, here: Path, session: str) -> None:
    run("purge", "--match", SECRET, "--yes")
    imported(run, here, forked())
    before = branches()
    assert "copy" not in imported(run, here, forked())
    assert branches() == before


def test_copies_that_are_appended_to_an_imported_file(run: Run, here: Path, session: str) -> None:
    run("purge", "--match", SECRET, "--yes")
    imported(run, here, code.user("u0", None, "before", at=0).replace(code.SESSION.encode(), OTHER.encode()) + b"\n")
    own = (here / f"{OTHER}.jsonl").read_bytes()
    assert "1 new entry is a copy of a purged one" in imported(run, here, own + forked())
    run("search", SECRET, code=exits.NOTHING)
    run("verify")


def test_a_dry_run_counts_the_copies_and_purges_nothing(run: Run, here: Path, session: str) -> None:
    run("purge", "--match", SECRET, "--yes")
    before = branches()
    (here / f"{OTHER}.jsonl").write_bytes(forked())
    assert "1 new entry is a copy of a purged one" in run("import", "--dry-run", f"{OTHER}.jsonl")
    assert branches() == before


def test_copy_of_a_purged_session_has_only_its_new_entries(run: Run, here: Path, session: str) -> None:
    run("purge", session, "--yes")
    imported(run, here, forked(code.user("u3", "u2", "and what else?", at=9)))
    run("search", SECRET, code=exits.NOTHING)
    run("search", "redirect", code=exits.NOTHING)
    [other] = sessions(run)
    assert "and what else?" in run("log", other)
    run("verify")


def test_entries_shared_with_a_purged_session_are_kept_if_a_fork_has_them(run: Run, here: Path, session: str) -> None:
    imported(run, here, forked())
    with Store.open() as store:
        fork = store.session(session).fork()
    run("purge", session, "--yes")
    assert fork.id in sessions(run)
    with Store.open() as store:
        assert not local_records.purged_keys(store.objects.git_dir)


@pytest.mark.parametrize("changed", ["uuid", "time"])
def test_an_entry_with_another_id_or_time_is_no_copy(run: Run, here: Path, session: str, changed: str) -> None:
    run("purge", "--match", SECRET, "--yes")
    data = forked()
    if changed == "uuid":
        data = data.replace(code.uuid("a1").encode(), code.uuid("zz").encode())
    else:
        data = data.replace(b"00:00:02.000Z", b"00:00:04.000Z")
    assert "copy" not in imported(run, here, data)
    assert SECRET in run("search", SECRET)


def test_clone_that_receives_the_purge_recognizes_the_copies(run: Run, here: Path, session: str) -> None:
    place = forge(here / "hub.git")
    run("remote", "add", "origin", str(place))
    run("sync", "--yes")
    run("clone", str(place), "other.git")
    run("purge", "--match", SECRET, "--yes")
    run("sync")
    run("--store", "other.git", "sync")
    (here / f"{OTHER}.jsonl").write_bytes(forked())
    said = run("--store", "other.git", "import", f"{OTHER}.jsonl")
    assert "1 new entry is a copy of a purged one" in said
    run("--store", "other.git", "search", SECRET, code=exits.NOTHING)


def test_agents_files_that_still_have_the_text_are_named(run: Run, here: Path, session: str) -> None:
    imported(run, here, forked())
    (here / "unrelated.jsonl").write_bytes(LINES[0].replace(code.SESSION.encode(), b"other") + b"\n")
    run("import", "unrelated.jsonl")
    expected = sorted([str(here / f"{code.SESSION}.jsonl"), str(here / f"{OTHER}.jsonl")])
    told = json.loads(run("purge", "--match", SECRET, "--dry-run", "--json"))
    assert [each["path"] for each in told["agent_files"]] == expected
    told = json.loads(run("purge", session, "--dry-run", "--json"))
    assert [each["path"] for each in told["agent_files"]] == [str(here / f"{code.SESSION}.jsonl")]
    told = json.loads(run("purge", f"{session}@leaf~1", "--dry-run", "--json"))
    assert [each["path"] for each in told["agent_files"]] == expected
    assert f"still in: {expected[0]}: the agent's own file" in run("purge", "--match", SECRET, "--dry-run")


def test_text_across_two_reads_of_a_file_is_found(run: Run, here: Path, session: str) -> None:
    big = code.user("u9", None, "x" * (finding.CHUNK_BYTES - 100) + SECRET, at=1) + b"\n"
    at = big.index(SECRET.encode())
    assert at < finding.CHUNK_BYTES < at + len(SECRET)
    (here / f"{code.SESSION}.jsonl").write_bytes(big)
    told = json.loads(run("purge", "--match", SECRET, "--dry-run", "--json"))
    assert [each["path"] for each in told["agent_files"]] == [str(here / f"{code.SESSION}.jsonl")]


def test_damaged_lines_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "gitsession").mkdir()
    key = "0123456789abcdef" * 2
    (tmp_path / local_records.PURGED_IDS).write_bytes(b"\xff\xfe\n" + key[:9].encode() + b"\n" + key.encode() + b"\n")
    assert local_records.purged_keys(tmp_path) == {key}
