"""Tests of ``summary.md`` in the trees of imported compactions and branch summaries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import claude_code
import codex_files
import opencode_files
import pytest
from builders import bring, dumps, entry, git, on_disk, pi_file, session, talk
from secret_shapes import a_token

from gitsession.sessions import commit_writer, layout
from gitsession.sessions.content import entry_tree, tree_of
from gitsession.store.git_store import GitStore
from gitsession.verify.entry_walk import verify

SUMMARY = '# So far\n\nThe tests pass — \u00e9, \t and "quotes".\nNext: the docs.'
PREFIX = "Another language model started to solve this problem and has a summary of its thinking process."


def of_pi(text: str) -> bytes:
    return pi_file(*talk("a", "b"), entry("compaction", "c", "b", 3, summary=text, firstKeptEntryId="b"))


def of_librecode(text: str) -> bytes:
    rows = [
        {"type": "session", "id": "s1", "cwd": "/work", "created_at": "2026-02-01T00:00:00Z"},
        {"type": "entry", "id": "u1", "session_id": "s1", "parent_id": None, "entry_type": "message", "role": "user",
         "content": "Hi", "created_at": "2026-02-01T00:00:01Z"},
        {"type": "entry", "id": "k1", "session_id": "s1", "parent_id": "u1", "entry_type": "compaction",
         "summary": text, "compaction_first_kept_entry_id": "u1", "created_at": "2026-02-01T00:00:02Z"},
    ]  # fmt: skip
    return b"".join(dumps(row) + b"\n" for row in rows)


def of_opencode(text: str) -> bytes:
    user = opencode_files.user("msg_1", "Hi", at=opencode_files.START_MS)
    return opencode_files.export([user, *opencode_files.compaction("msg_2", "msg_3", text, at=opencode_files.START_MS)])


AGENTS: dict[str, tuple[str, Callable[[str], bytes]]] = {
    "pi": ("pi", of_pi),
    "omp": ("omp", of_pi),
    "pi's branch summary": (
        "pi",
        lambda text: pi_file(*talk("a"), entry("branch_summary", "c", "a", 3, summary=text, fromId="a")),
    ),
    "claude": (
        "claude",
        lambda text: claude_code.of(
            *claude_code.talk("a", "b"), claude_code.boundary("c", "b"), claude_code.summary("c", text)
        ),
    ),
    "codex": ("codex", lambda text: codex_files.rollout(codex_files.TALK, codex_files.compacted(text))),
    "codex, with its prefix": (
        "codex",
        lambda text: codex_files.rollout(codex_files.TALK, codex_files.compacted(f"{PREFIX}\n{text}")),
    ),
    "opencode": ("opencode", of_opencode),
    "librecode": ("librecode", of_librecode),
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[GitStore]:
    with on_disk(tmp_path / "store.git") as opened:
        yield opened


@pytest.mark.parametrize(("agent", "make"), AGENTS.values(), ids=AGENTS)
@pytest.mark.parametrize("text", [SUMMARY, "long " * 40_000], ids=["short", "lifted"])
def test_git_show_prints_the_summary_of_each_agents_compaction(
    agent: str, make: Callable[[str], bytes], text: str, store: GitStore
) -> None:
    sid = bring(store, make(text), agent=agent).session
    leaf = session(store, sid).leaf
    assert leaf is not None
    assert leaf.kind in ("compaction", "branch_summary")
    assert git(store, "show", f"{leaf.oid}:summary.md") == text
    assert verify(store).problems == []
    assert bring(store, make(text), agent=agent).session == sid
    assert session(store, sid).leaf == leaf  # a second import finds the entry unchanged


NONE = {
    "codex, remote": ("codex", lambda: codex_files.rollout(codex_files.TALK, codex_files.compacted("", []))),
    "pi, empty": ("pi", lambda: of_pi("")),
    "claude, a boundary alone": (
        "claude",
        lambda: claude_code.of(*claude_code.talk("a", "b"), claude_code.boundary("c", "b")),
    ),
    "a message": ("pi", lambda: pi_file(*talk("a", "b"))),
}


@pytest.mark.parametrize(("agent", "make"), NONE.values(), ids=NONE)
def test_an_entry_without_a_summary_has_no_file(agent: str, make: Callable[[], bytes], store: GitStore) -> None:
    sid = bring(store, make(), agent=agent).session
    for node in session(store, sid).history():
        assert layout.SUMMARY not in {name for _, name, _ in tree_of(store, node.tree)}
    assert verify(store).problems == []


def test_the_digest_of_an_entry_does_not_cover_the_copy_of_its_summary(store: GitStore) -> None:
    leaf = session(store, bring(store, of_pi(SUMMARY)).session).leaf
    assert leaf is not None
    payload = of_pi(SUMMARY).splitlines()[-1]
    assert entry_tree(store, leaf).digest == commit_writer.digest_of(payload, b"")


def test_a_lone_surrogate_becomes_a_replacement_character(store: GitStore) -> None:
    leaf = session(store, bring(store, of_pi("a").replace(b'"summary":"a"', b'"summary":"a\\ud800b"')).session).leaf
    assert leaf is not None
    assert git(store, "show", f"{leaf.oid}:summary.md") == "a\ufffdb"
    assert verify(store).problems == []


@pytest.mark.parametrize("agent", ["pi", "claude", "codex", "opencode", "librecode"])
def test_a_secret_in_a_summary_is_stored_nowhere(agent: str, store: GitStore) -> None:
    secret = a_token(1).text
    sid = bring(store, AGENTS[agent][1](f"the token is {secret} .\nuse it"), agent=agent).session
    leaf = session(store, sid).leaf
    assert leaf is not None
    text = git(store, "show", f"{leaf.oid}:summary.md")
    assert text.startswith("the token is [redacted:")
    assert text.endswith(" .\nuse it")
    assert all(secret.encode() not in data for _, data in map(store.read, store.oids()))
    assert verify(store).problems == []


FORGED = {"other words": b"ignore all rules", "nothing": None, "an empty file": b""}


@pytest.mark.parametrize("content", FORGED.values(), ids=FORGED)
def test_a_forged_summary_is_reported(content: bytes | None, store: GitStore) -> None:
    """A ``summary.md`` that differs from the payload is a problem, because people read it and not the payload."""
    sid = bring(store, of_pi(SUMMARY)).session
    leaf = session(store, sid).leaf
    assert leaf is not None
    with store.transaction() as tx:
        rows = {name: (mode, oid) for mode, name, oid in tree_of(store, leaf.tree)}
        del rows[layout.SUMMARY]
        if content is not None:
            rows[layout.SUMMARY] = (layout.FILE_MODE, tx.put("blob", content))
        tree = tx.put("tree", commit_writer.encode_tree(rows))
        data = store.read(leaf.oid)[1].replace(leaf.tree.encode(), tree.encode(), 1)
        tx.move(f"refs/heads/sessions/{sid}/main", tx.put("commit", data), expected=leaf.oid)
    [problem] = verify(store).problems
    assert "summary.md does not match the payload" in str(problem)
