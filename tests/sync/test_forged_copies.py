"""Tests of forged copies of entries: an import, a pull and a push reject them before anything is written.

The chain digest of a forged copy is that of the original. Its bytes differ in a part that the digest does not include,
such as the source, so it is another entry at the same position (docs/reference/format.md, "Invariants").
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from builders import all_refs, pi_file, talk
from pushed import bare, hub
from pushed import push as git_push

from gitsession import Malformed, Message, Store
from gitsession.formats import FORMATS
from gitsession.store import refs

SAME = "the same entry at the same position as"


@pytest.fixture
def ours(tmp_path: Path):
    with Store.create(tmp_path / "ours.git") as store:
        store.agents.import_data(FORMATS["pi"], pi_file(*talk("a", "b")))
        yield store


@pytest.fixture
def sid(ours: Store) -> str:
    return ours.sessions()[0].sid


def lines_of(store: Store, sid: str) -> list[dict]:
    return list(map(json.loads, store.export(sid, to="jsonl").data.splitlines()))


def forged(lines: list[dict], source_id: str = "b") -> tuple[bytes, int]:
    """Return an exported session with another source of one entry, and the number of its line."""
    [at] = [at for at, line in enumerate(lines) if line.get("source", {}) and line["source"]["id"] == source_id]
    lines[at]["source"]["id"] = "forged"
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines), at + 1


def forging_store(path: Path, data: bytes) -> Store:
    """Return a store that has only the forged session, so that it could be imported."""
    store = Store.create(path)
    file = path.parent / "theirs.jsonl"
    file.write_bytes(data)
    store.import_file(file, agent="jsonl")
    assert store.verify().problems == []
    return store


def assert_refuses_import(ours: Store, file: Path, data: bytes, line: int) -> None:
    file.write_bytes(data)
    before = all_refs(ours.objects), ours.operations()
    with pytest.raises(Malformed) as raised:
        ours.import_file(file, agent="jsonl")
    assert f"line {line}: {SAME}" in str(raised.value)
    assert "original" in (raised.value.hint or "")
    assert ((all_refs(ours.objects), ours.operations()), ours.verify().problems) == (before, [])


def test_import_refuses_a_forged_copy_by_its_line(tmp_path: Path, ours: Store, sid: str) -> None:
    assert_refuses_import(ours, tmp_path / "x.jsonl", *forged(lines_of(ours, sid)))


def test_import_refuses_a_forged_copy_of_an_entry_before_a_fork(tmp_path: Path, ours: Store, sid: str) -> None:
    with Store.create(tmp_path / "other.git") as other:
        (tmp_path / "s.jsonl").write_bytes(ours.export(sid, to="jsonl").data)
        other.import_file(tmp_path / "s.jsonl", agent="jsonl")
        fork = other.session(sid).fork()
        fork.append(Message.user("more"))
        assert_refuses_import(ours, tmp_path / "x.jsonl", *forged(lines_of(other, fork.id)))


def test_pull_refuses_a_branch_with_a_forged_copy(tmp_path: Path, ours: Store, sid: str) -> None:
    remote = bare(tmp_path / "remote.git")
    with forging_store(tmp_path / "theirs.git", forged(lines_of(ours, sid))[0]) as theirs:
        theirs.objects.flush()
        git_push(theirs.objects.git_dir, remote, "refs/heads/*:refs/heads/*")
    ours.remotes.add("origin", str(remote))
    before = ours.objects.refs(refs.session(sid))
    told = {branch.ref: branch for branch in ours.remotes.pull("origin").branches}
    assert told[refs.leaf(sid)].outcome == "refused"
    assert SAME in told[refs.leaf(sid)].why
    assert (ours.objects.refs(refs.session(sid)), ours.verify().problems) == (before, [])


@pytest.mark.parametrize("branch", [refs.MAIN, "side"])
def test_server_refuses_a_forged_copy(tmp_path: Path, ours: Store, sid: str, branch: str) -> None:
    server = hub(tmp_path / "server.git")
    ours.objects.flush()
    if branch == refs.MAIN:  # a new branch of a session with one branch, or a fast-forward of an older branch
        ours.session(sid).branch("old", "leaf~1")
        ours.objects.flush()
    assert git_push(ours.objects.git_dir, server, "refs/heads/*:refs/heads/*").returncode == 0
    with forging_store(tmp_path / "theirs.git", forged(lines_of(ours, sid))[0]) as theirs:
        theirs.objects.flush()
        target = refs.leaf(sid, "old" if branch == refs.MAIN else branch)
        done = git_push(theirs.objects.git_dir, server, f"{refs.leaf(sid)}:{target}")
    assert done.returncode == 1
    assert f"{SAME} " in done.stderr
    assert "[copy]" in done.stderr


def test_two_copies_in_one_push_are_refused(tmp_path: Path, ours: Store, sid: str) -> None:
    server = hub(tmp_path / "server.git")
    ours.objects.flush()
    with forging_store(tmp_path / "theirs.git", forged(lines_of(ours, sid))[0]) as theirs:
        theirs.objects.flush()
        git_push(theirs.objects.git_dir, ours.objects.git_dir, f"{refs.leaf(sid)}:{refs.leaf(sid, 'side')}")
    done = git_push(ours.objects.git_dir, server, "refs/heads/*:refs/heads/*")
    assert "[copy]" in done.stderr
