"""Tests of ``import --from jsonl``, the exact inverse of ``export --to jsonl``, and of hostile files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from builders import label, named, pi_file, said, talk
from commands import Run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import ENTRIES

from gitsession import Image, Malformed, Message, Refused, Store
from gitsession.codec import entry_json
from gitsession.formats import FORMATS
from gitsession.sessions import graph

PROMPTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20).map(Message.user)
APPENDED = ENTRIES.filter(lambda entry: entry.kind not in entry_json.INTERNAL and entry.kind not in ("label", "title"))


def facts(store: Store, sid: str) -> Any:
    """Return the chain digests, the branches, the active branch, the labels and the title of a session."""
    tree, names = graph.tree(store.objects, sid), store.session(sid).names()
    return (
        {node.chain: store.session(sid).read(node) for node in tree.nodes.values()},
        {name: tree.nodes[oid].chain for name, oid in tree.branches.items()},
        store.session(sid).branch_name,
        {tree.nodes[oid].chain: text for oid, text in names.labels.items()},
        names.title,
    )


def problems(store: Store) -> list[str]:
    """Return what ``verify`` finds: a generated compaction may name a first kept entry that is not in its history."""
    return sorted(finding.what for finding in store.verify().problems)


def copied(store: Store, sid: str, folder: Path) -> Store:
    """Export a session, and return a new store into which the file was imported."""
    file = folder / "session.jsonl"
    file.write_bytes(store.export(sid, to="jsonl").data)
    other = Store.create(folder / "other.git")
    [done] = other.import_file(file, agent="jsonl")
    assert (done.session, done.new) == (sid, done.entries)
    assert problems(other) == problems(store)
    return other


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(APPENDED, max_size=4), PROMPTS, st.lists(APPENDED, max_size=4), st.booleans())
def test_own_session_is_the_same_in_the_other_store(
    tmp_path_factory: pytest.TempPathFactory, first: list[Any], prompt: Message, rest: list[Any], switches: bool
) -> None:
    folder = tmp_path_factory.mktemp("round")
    with Store.create(folder / "one.git") as store:
        session = store.new_session(agent="mine", cwd=str(folder))
        for entry in [*first, prompt]:
            session.append(entry)
        session.branch("side")
        for entry in rest:
            session.append(entry)
        session.label("root" if not rest else "leaf", "good")
        session.rename("A title")
        if switches:
            session.switch("side")
        with copied(store, session.id, folder) as other:
            assert facts(other, session.id) == facts(store, session.id)
            assert other.export(session.id, to="jsonl").data == store.export(session.id, to="jsonl").data


def test_agents_file_is_exported_home_with_the_same_bytes_from_the_other_store(tmp_path: Path) -> None:
    file = pi_file(*talk("a", "b"), label("l", "b", "b", "good"), named("n", "l", "T"), b"{not json", said("z", "n"))
    with Store.create(tmp_path / "one.git") as store:
        sid = store.agents.import_data(FORMATS["pi"], file).session
        with copied(store, sid, tmp_path) as other:
            assert other.export(sid).data == store.export(sid).data == file
            assert facts(other, sid) == facts(store, sid)
            session = store.session(sid)
            session.append(Message.user([Image(b"\x89PNG\r\n\x1a\n" + bytes(5000), "image/png")]))
            (tmp_path / "again.jsonl").write_bytes(store.export(sid, to="jsonl").data)
            [done] = other.import_file(tmp_path / "again.jsonl", agent="jsonl")
            assert done.new == 1
            assert facts(other, sid) == facts(store, sid)


def test_redacted_and_purged_entries_and_forks_survive_or_are_refused(tmp_path: Path) -> None:
    with Store.create(tmp_path / "one.git") as store:
        session = store.new_session(agent="mine")
        session.append(Message.user("key ghp_" + "a1B2" * 9))
        session.append(Message.user("two"))
        fork = session.fork("leaf~1")
        fork.append(Message.user("three"))
        data = store.export(session.id, to="jsonl", with_secrets=True).data
        with copied(store, fork.id, tmp_path) as other:
            assert facts(other, fork.id) == facts(store, fork.id)
            (tmp_path / "x.jsonl").write_bytes(data)
            other.import_file(tmp_path / "x.jsonl", agent="jsonl")
            assert facts(other, session.id) == facts(store, session.id)


def test_branches_that_diverged_are_both_kept_and_undo_removes_an_import(run: Run, here: Path) -> None:
    with Store.open() as store:
        session = store.new_session(agent="mine")
        session.append(Message.user("one"))
        with copied(store, session.id, here) as other:
            session.append(Message.user("here"))
            (here / "again.jsonl").write_bytes(store.export(session.id, to="jsonl").data)
            other.session(session.id).append(Message.user("there"))
            other.import_file(here / "again.jsonl", agent="jsonl")
            assert len(other.session(session.id).branches()) == 2
            assert other.session(session.id).resolve("main").subject == "user: there"
            assert other.verify().problems == []
    run("--store", "third.git", "import", "--from", "jsonl", "again.jsonl", "--dry-run")
    run("--store", "third.git", "import", "--from", "jsonl", "again.jsonl")
    run("--store", "third.git", "undo", "--any")
    run("--store", "third.git", "ls", code=1)


def test_file_of_another_program_becomes_a_new_session(tmp_path: Path) -> None:
    lines = [
        {"type": "session", "agent": "theirs", "title": "By hand", "cwd": None},
        {"type": "entry", "id": "b", "parent": "a", "kind": "message", "body": {"role": "assistant", "content": "yes"}},
        {"type": "entry", "id": "a", "kind": "message", "body": {"role": "user", "content": "one"}},
        {"type": "entry", "id": "c", "parent": "a", "kind": "message", "body": {"role": "assistant", "content": "no"}},
    ]
    (tmp_path / "h.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with Store.create(tmp_path / "one.git") as store:
        [done] = store.import_file(tmp_path / "h.jsonl", agent="jsonl")
        session = store.session(done.session)
        assert (session.names().title, len(session.branches())) == ("By hand", 2)
        assert [node.subject for node in session.history()] == ["session: theirs", "user: one", "assistant: no"]
        assert store.verify().problems == []


# ---- hostile files


HOSTILE: dict[str, tuple[Any, int, str]] = {
    "bad JSON": (lambda lines: [lines[0], "{"], 2, "invalid JSON"),
    "nested": (lambda lines: [lines[0], "[" * 100_000], 2, "nested too deeply"),
    "an array": (lambda lines: [lines[0], []], 2, "expected an object of type"),
    "no head": (lambda lines: lines[1:], 1, "expected a line of type 'session'"),
    "later schema": (lambda lines: [lines[0] | {"schema": "gitsession/jsonl/2"}], 1, "with the schema"),
    "missing parent": (lambda lines: [lines[0], *lines[2:]], 2, "there is no entry with the id"),
    "duplicate id": (lambda lines: [*lines, lines[-1]], 6, "another line has the id"),
    "cycle": (
        lambda lines: [lines[0], lines[1] | {"parent": lines[2]["id"]}, *lines[2:]], 2, "its parents form a cycle"),
    "wrong digest": (
        lambda lines: [lines[0], lines[1] | {"body": {"role": "user", "content": "forged"}}, *lines[2:]], 2,
        "not the chain digest"),
    "wrong nonce": (lambda lines: [lines[0], lines[1] | {"nonce": "x"}, *lines[2:]], 2, "expected bytes"),
    "no root": (lambda lines: lines[:-2], 2, "there is no entry with the id"),
    "another session": (
        lambda lines: [lines[0] | {"session": "20010101-aaaaaaaaaaaaa"}, *lines[1:]], 1, "does not belong to its root"),
    "branch outside": (
        lambda lines: [lines[0] | {"branches": {"../x": lines[1]["id"]}, "active": "../x"}, *lines[1:]], 1,
        "has an invalid name"),
    "properties as a branch": (
        lambda lines: [lines[0] | {"branches": {"meta": lines[1]["id"]}, "active": "meta"}, *lines[1:]], 1,
        "a branch has an invalid name"),
    "tip is missing": (lambda lines: [lines[0] | {"branches": {"main": "x"}}, *lines[1:]], 1, "its tip is missing"),
    "no active branch": (lambda lines: [lines[0] | {"active": "x"}, *lines[1:]], 1, "there is no branch"),
    "payload is text": (lambda lines: [*lines[:-1], lines[-1] | {"payload": "x"}], 5, "expected bytes"),
    "form is unknown": (lambda lines: [*lines[:-1], lines[-1] | {"form": "exe"}], 5, "expected a source"),
    "agent is unknown": (
        lambda lines: [*lines[:-1], lines[-1] | {"source": {"agent": "x", "id": None, "line": 1}}], 5, "unknown agent"),
    "contents are a number": (lambda lines: [*lines[:-1], lines[-1] | {"blobs": 5}], 5, "expected an array"),
    "no digest": (lambda lines: [*lines[:-1], lines[-1] | {"replaces": "../x"}], 5, "expected a digest"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_file_is_rejected_by_line_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    change, number, reason = HOSTILE[name]
    with Store.create(tmp_path / "one.git") as store, Store.create(tmp_path / "other.git") as other:
        session = store.new_session(agent="mine")
        for text in ("one", "two"):
            session.append(Message.user(text))
        lines = [json.loads(line) for line in store.export(session.id, to="jsonl").data.splitlines()]
        assert [line["type"] for line in lines] == ["session", "entry", "entry", "record", "record"]
        found = [line if isinstance(line, str) else json.dumps(line) for line in change(lines)]
        (tmp_path / "x.jsonl").write_text("\n".join(found))
        with pytest.raises(Malformed, match=f"cannot import '.*': line {number}: ") as raised:
            other.import_file(tmp_path / "x.jsonl", agent="jsonl")
        assert reason in str(raised.value)
        assert (other.sessions(), other.operations()) == ([], [])


def test_purged_session_does_not_come_back(tmp_path: Path) -> None:
    with Store.create(tmp_path / "one.git") as store:
        session = store.new_session(agent="mine")
        session.append(Message.user("one"))
        (tmp_path / "x.jsonl").write_bytes(store.export(session.id, to="jsonl").data)
        store.purges.apply(store.purges.plan(session.id))
        with pytest.raises((Refused, Malformed), match="purged"):
            store.import_file(tmp_path / "x.jsonl", agent="jsonl")


def test_import_and_list_count_the_same_entries(tmp_path: Path) -> None:
    with Store.create(tmp_path / "one.git") as store, Store.create(tmp_path / "other.git") as other:
        session = store.new_session(agent="mine")
        for text in ("one", "two"):
            session.append(Message.user(text))
        session.branch("side", "leaf~1").append(Message.user("three"))
        fork = session.fork()
        for sid, number in ((session.id, 3), (fork.id, 3)):
            (tmp_path / "x.jsonl").write_bytes(store.export(sid, to="jsonl").data)
            [done] = other.import_file(tmp_path / "x.jsonl", agent="jsonl")
            assert done.entries == number == {row.sid: row.entries for row in other.sessions()}[sid]
            assert number == len(graph.tree(other.objects, sid).nodes) - 1
